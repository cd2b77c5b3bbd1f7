// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/rename_bar.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>

#include "widgets/basic.h"

namespace nf {

RenameBar::RenameBar(const Theme* theme, QWidget* parent)
    : FieldBar(parent), m_words(label({}, "muted")), m_refusal(label({})), m_field(new QLineEdit) {
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
  row->addWidget(rename);
  row->addWidget(close);
  layout->addLayout(row);
  m_refusal->setContentsMargins(62, 0, 10, 6);
  m_refusal->setWordWrap(true);
  layout->addWidget(m_refusal);
  layout->addWidget(line());
  connect(m_field, &QLineEdit::textEdited, this, [this] { refuse({}); });
  connect(rename, &QPushButton::clicked, this, [this] { Q_EMIT renameWanted(m_name, m_field->text()); });
  connect(close, &QToolButton::clicked, this, &RenameBar::closed);
  watch(m_field);
  hide();
}

void RenameBar::open(const QString& name) {
  m_name = name;
  m_words->setText(tr("Rename %1 to").arg(name));
  m_field->setText(name);
  refuse({});
  show();
  m_field->selectAll();
  m_field->setFocus(Qt::ShortcutFocusReason);
}

void RenameBar::refuse(const QString& why) {
  m_refusal->setText(why);
  m_refusal->setVisible(!why.isEmpty());
}

QString RenameBar::refusal() const { return m_refusal->text(); }

void RenameBar::entered(const QObject*, Qt::KeyboardModifiers) { Q_EMIT renameWanted(m_name, m_field->text()); }

}  // namespace nf
