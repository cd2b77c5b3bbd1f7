// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/find_bar.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>

#include "widgets/basic.h"

namespace nf {

FindBar::FindBar(const Theme* theme, QWidget* parent)
    : FieldBar(parent), m_find(new QLineEdit), m_replace(new QLineEdit), m_count(label({}, "muted")), m_exact(new QToolButton),
      m_replaceRow(new QWidget) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(62, 5, 10, 5);
  row->setSpacing(6);
  m_find->setPlaceholderText(tr("Find in the notebook"));
  m_find->setAccessibleName(tr("Find in the notebook"));
  m_find->setFont(theme->mono(12));
  m_exact->setText(QStringLiteral("Aa"));
  m_exact->setCheckable(true);
  m_exact->setFocusPolicy(Qt::TabFocus);
  m_exact->setAccessibleName(tr("Capitals count"));
  m_exact->setToolTip(tr("Capitals count"));
  m_count->setMinimumWidth(72);
  auto* previous = new IconButton(theme, QStringLiteral("up"));
  previous->setAccessibleName(tr("Previous place"));
  previous->setToolTip(tr("Previous place (Shift+Enter)"));
  auto* next = new IconButton(theme, QStringLiteral("down"));
  next->setAccessibleName(tr("Next place"));
  next->setToolTip(tr("Next place (Enter)"));
  auto* close = new IconButton(theme, QStringLiteral("close"));
  close->setAccessibleName(tr("Close the search"));
  close->setToolTip(tr("Close the search (Esc)"));
  for (QWidget* w : {static_cast<QWidget*>(m_find), static_cast<QWidget*>(m_exact), static_cast<QWidget*>(m_count),
                     static_cast<QWidget*>(previous), static_cast<QWidget*>(next), static_cast<QWidget*>(close)})
    row->addWidget(w, w == m_find ? 1 : 0);
  layout->addLayout(row);
  auto* second = new QHBoxLayout(m_replaceRow);
  second->setContentsMargins(62, 0, 10, 5);
  second->setSpacing(6);
  m_replace->setPlaceholderText(tr("Replace with"));
  m_replace->setAccessibleName(tr("Replace with"));
  m_replace->setFont(theme->mono(12));
  auto* one = new QPushButton(tr("Replace"));
  auto* all = new QPushButton(tr("Replace all"));
  second->addWidget(m_replace, 1);
  second->addWidget(one);
  second->addWidget(all);
  layout->addWidget(m_replaceRow);
  for (auto [from, to] : {std::pair<QWidget*, QWidget*>{m_find, m_replace}, {m_replace, one}, {one, all}, {all, m_exact}})
    setTabOrder(from, to);
  layout->addWidget(line());
  connect(m_find, &QLineEdit::textChanged, this, [this](const QString& text) { Q_EMIT wanted(text, exact()); });
  connect(m_exact, &QToolButton::toggled, this, [this](bool on) { Q_EMIT wanted(m_find->text(), on); });
  connect(previous, &QToolButton::clicked, this, [this] { Q_EMIT stepped(-1); });
  connect(next, &QToolButton::clicked, this, [this] { Q_EMIT stepped(1); });
  connect(close, &QToolButton::clicked, this, &FindBar::closed);
  connect(one, &QPushButton::clicked, this, [this] { Q_EMIT replaceWanted(m_replace->text()); });
  connect(all, &QPushButton::clicked, this, [this] { Q_EMIT replaceAllWanted(m_replace->text()); });
  watch(m_find);
  watch(m_replace);
  hide();
}

bool FindBar::exact() const { return m_exact->isChecked(); }

QString FindBar::countText() const { return m_count->text(); }

void FindBar::open(const QString& text, bool replace) {
  m_replaceRow->setVisible(replace);
  show();
  if (!text.isEmpty()) m_find->setText(text);
  m_find->selectAll();
  m_find->setFocus(Qt::ShortcutFocusReason);
  Q_EMIT wanted(m_find->text(), exact());
}

void FindBar::setCount(int here, int all) {
  m_count->setText(m_find->text().isEmpty() ? QString() : all == 0 ? tr("nothing") : tr("%1 of %2").arg(here + 1).arg(all));
}

void FindBar::entered(const QObject* field, Qt::KeyboardModifiers modifiers) {
  if (field == m_replace) Q_EMIT replaceWanted(m_replace->text());
  else Q_EMIT stepped(modifiers & Qt::ShiftModifier ? -1 : 1);
}

}  // namespace nf
