// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/rename_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>

#include "widgets/basic.h"

namespace nf {

RenameBar::RenameBar(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_words(label({}, "muted")), m_refusal(label({})), m_field(new QLineEdit) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(62, 5, 10, 5);
  row->setSpacing(6);
  m_field->setAccessibleName(tr("New name"));
  m_field->setFont(theme->mono(12));
  m_refusal->setProperty("role", QStringLiteral("failed"));
  auto* rename = new QPushButton(tr("Rename in every cell"));
  auto* close = new IconButton(theme, QStringLiteral("close"));
  close->setAccessibleName(tr("Keep the name"));
  close->setToolTip(tr("Keep the name (Esc)"));
  row->addWidget(m_words);
  row->addWidget(m_field, 1);
  row->addWidget(m_refusal);
  row->addWidget(rename);
  row->addWidget(close);
  layout->addLayout(row);
  layout->addWidget(line());
  connect(m_field, &QLineEdit::textEdited, m_refusal, &QLabel::clear);
  connect(rename, &QPushButton::clicked, this, [this] { Q_EMIT renameWanted(m_name, m_field->text()); });
  connect(close, &QToolButton::clicked, this, &RenameBar::closed);
  m_field->installEventFilter(this);
  hide();
}

void RenameBar::open(const QString& name) {
  m_name = name;
  m_words->setText(tr("Rename %1 to").arg(name));
  m_field->setText(name);
  m_refusal->clear();
  show();
  m_field->selectAll();
  m_field->setFocus(Qt::ShortcutFocusReason);
}

void RenameBar::refuse(const QString& why) { m_refusal->setText(why); }

QString RenameBar::refusal() const { return m_refusal->text(); }

// On a button of the bar.
void RenameBar::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) Q_EMIT closed();
  else QWidget::keyPressEvent(event);
}

// Enter and Escape belong to the field, before a command of the window takes them.
bool RenameBar::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
  auto* key = static_cast<QKeyEvent*>(event);
  const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
  if (!enter && key->key() != Qt::Key_Escape) return QWidget::eventFilter(watched, event);
  event->accept();
  if (event->type() == QEvent::ShortcutOverride) return true;
  if (enter) Q_EMIT renameWanted(m_name, m_field->text());
  else Q_EMIT closed();
  return true;
}

}  // namespace nf
