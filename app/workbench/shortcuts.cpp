// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/shortcuts.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeySequenceEdit>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QTreeWidget>
#include <QVBoxLayout>

#include "app/workbench/actions.h"
#include "widgets/basic.h"

namespace nf {

namespace {
QString keysText(const QAction* a) {
  QStringList keys;
  for (const QKeySequence& key : a->shortcuts()) keys << key.toString(QKeySequence::NativeText);
  return keys.join(QStringLiteral(", "));
}
}  // namespace

ShortcutEditor::ShortcutEditor(const Theme* theme, ActionRegistry* actions, QWidget* parent)
    : QDialog(parent), m_theme(theme), m_actions(actions), m_filter(new QLineEdit), m_list(new QTreeWidget),
      m_keys(new QKeySequenceEdit), m_holder(label({}, "muted")), m_use(new QPushButton(tr("Use this key"))),
      m_reset(new QPushButton(tr("Reset"))), m_resetAll(new QPushButton(tr("Reset all"))) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName(QStringLiteral("shortcutEditor"));
  setWindowTitle(tr("Keyboard shortcuts"));
  resize(620, 640);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(16, 16, 16, 16);
  layout->setSpacing(8);
  m_filter->setPlaceholderText(tr("Find a command or a key"));
  m_filter->setAccessibleName(tr("Find a command or a key"));
  m_filter->setClearButtonEnabled(true);
  layout->addWidget(m_filter);
  m_list->setColumnCount(2);
  m_list->setHeaderLabels({tr("Command"), tr("Key")});
  m_list->setRootIsDecorated(false);
  m_list->setUniformRowHeights(true);
  m_list->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  m_list->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  m_list->header()->setStretchLastSection(false);
  m_list->setAccessibleName(tr("Commands"));
  layout->addWidget(m_list, 1);
  auto* row = new QHBoxLayout;
  m_keys->setAccessibleName(tr("New key"));
  row->addWidget(m_keys, 1);
  row->addWidget(m_use);
  row->addWidget(m_reset);
  layout->addLayout(row);
  m_holder->setWordWrap(true);
  m_holder->setMinimumHeight(18);
  layout->addWidget(m_holder);
  auto* bottom = new QHBoxLayout;
  bottom->addWidget(m_resetAll);
  bottom->addStretch(1);
  auto* close = new QPushButton(tr("Close"));
  bottom->addWidget(close);
  layout->addLayout(bottom);
  for (QPushButton* b : {m_use, m_reset, m_resetAll, close}) b->setAutoDefault(false);
  connect(close, &QPushButton::clicked, this, &QDialog::close);
  connect(m_filter, &QLineEdit::textChanged, this, &ShortcutEditor::applyFilter);
  connect(m_list, &QTreeWidget::currentItemChanged, this, &ShortcutEditor::showChosen);
  connect(m_keys, &QKeySequenceEdit::keySequenceChanged, this, [this](const QKeySequence& key) {
    const QString other = m_actions->holder(key);
    m_use->setEnabled(!chosen().isEmpty() && other != chosen());
    m_holder->setText(key.isEmpty()       ? tr("Press the keys. An empty field takes the key away.")
                      : other.isEmpty()   ? QString()
                      : other == chosen() ? tr("This command has it already.")
                                          : tr("%1 has this key now and would lose it.").arg(m_actions->at(other)->text()));
  });
  connect(m_use, &QPushButton::clicked, this, [this] {
    if (chosen().isEmpty()) return;
    const QKeySequence key = m_keys->keySequence();
    m_actions->setKeys(chosen(), key.isEmpty() ? QList<QKeySequence>() : QList<QKeySequence>{key});
  });
  connect(m_reset, &QPushButton::clicked, this, [this] {
    if (!chosen().isEmpty()) m_actions->resetKeys(chosen());
  });
  connect(m_resetAll, &QPushButton::clicked, m_actions, &ActionRegistry::resetAllKeys);
  connect(m_actions, &ActionRegistry::keysChanged, this, &ShortcutEditor::fill);
  fill();
}

QString ShortcutEditor::chosen() const {
  const QTreeWidgetItem* item = m_list->currentItem();
  return item ? item->data(0, Qt::UserRole).toString() : QString();
}

void ShortcutEditor::choose(const QString& id) {
  for (int i = 0; i < m_list->topLevelItemCount(); ++i)
    if (m_list->topLevelItem(i)->data(0, Qt::UserRole).toString() == id) m_list->setCurrentItem(m_list->topLevelItem(i));
}

void ShortcutEditor::fill() {
  const QString was = chosen();
  m_list->clear();
  for (const QString& id : m_actions->order()) {
    const QAction* a = m_actions->at(id);
    auto* item = new QTreeWidgetItem(m_list, {m_actions->group(id) + QStringLiteral(": ") + a->text(), keysText(a)});
    item->setData(0, Qt::UserRole, id);
    item->setFont(1, m_theme->mono(12));
    if (m_actions->changed(id)) item->setForeground(1, m_theme->colors().accent);
  }
  choose(was.isEmpty() ? m_actions->order().front() : was);
  applyFilter();
  showChosen();
}

void ShortcutEditor::applyFilter() {
  for (int i = 0; i < m_list->topLevelItemCount(); ++i) {
    QTreeWidgetItem* item = m_list->topLevelItem(i);
    item->setHidden(!item->text(0).contains(m_filter->text(), Qt::CaseInsensitive) &&
                    !item->text(1).contains(m_filter->text(), Qt::CaseInsensitive));
  }
}

void ShortcutEditor::showChosen() {
  if (chosen().isEmpty()) return;
  m_keys->setKeySequence(m_actions->at(chosen())->shortcut());
  m_reset->setEnabled(m_actions->changed(chosen()));
}

ShortcutSheet::ShortcutSheet(const Theme* theme, const ActionRegistry* actions, QWidget* parent) : QDialog(parent) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName(QStringLiteral("shortcuts"));
  setWindowTitle(tr("Keys"));
  resize(820, 680);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  auto* content = new QWidget;
  content->setProperty("role", QStringLiteral("page"));
  auto* columns = new QHBoxLayout(content);
  columns->setContentsMargins(24, 20, 24, 20);
  columns->setSpacing(40);
  QGridLayout* grid = nullptr;
  int row = 0;
  const auto column = [&] {
    auto* box = new QVBoxLayout;
    grid = new QGridLayout;
    grid->setHorizontalSpacing(24);
    grid->setVerticalSpacing(4);
    grid->setColumnStretch(1, 1);
    box->addLayout(grid);
    box->addStretch(1);
    columns->addLayout(box, 1);
    row = 0;
  };
  const auto heading = [&](const QString& text) {
    auto* h = label(text);
    h->setFont(theme->ui(15, QFont::DemiBold));
    h->setContentsMargins(0, row > 0 ? 12 : 0, 0, 2);
    grid->addWidget(h, row++, 0, 1, 2);
  };
  const auto entry = [&](const QString& key, const QString& text) {
    auto* k = label(key);
    k->setFont(theme->mono(12));
    auto* t = label(text, "muted");
    t->setWordWrap(true);
    grid->addWidget(k, row, 0, Qt::AlignTop);
    grid->addWidget(t, row++, 1);
  };
  column();
  QString group;
  for (const QString& id : actions->order()) {
    const QAction* a = actions->at(id);
    if (a->shortcuts().isEmpty()) continue;
    if (actions->group(id) != group) heading(group = actions->group(id));
    entry(keysText(a), a->text());
  }
  column();
  heading(tr("In the notebook, outside a cell's text"));
  entry(QStringLiteral("Enter"), tr("Edit the cell"));
  entry(QStringLiteral("J  K"), tr("Next, previous cell"));
  entry(QStringLiteral("Home  End"), tr("First, last cell"));
  for (const QString& id : actions->order())
    if (const QString key = actions->notebookKey(id); !key.isEmpty()) entry(key, actions->at(id)->text());
  heading(tr("In a cell's text"));
  entry(QStringLiteral("Esc"), tr("Leave the text"));
  entry(QStringLiteral("Ctrl+Space"), tr("Complete a name"));
  entry(QStringLiteral("Tab"), tr("Take the chosen completion, or indent"));
  entry(QStringLiteral("Ctrl+wheel"), tr("Zoom the notebook"));
  heading(tr("In the search"));
  entry(QStringLiteral("Enter  Shift+Enter"), tr("Next, previous place"));
  entry(QStringLiteral("Esc"), tr("Close it, at the place found"));
  heading(tr("In a message above the page"));
  entry(QStringLiteral("Tab  Enter"), tr("The next answer, give it"));
  entry(QStringLiteral("Esc"), tr("Cancel, or put it away"));
  heading(tr("In the trials"));
  entry(QStringLiteral("Left  Right"), tr("The trial before, after"));
  entry(QStringLiteral("PgUp  PgDn"), tr("The generation before, after"));
  entry(QStringLiteral("Home  End"), tr("The first, the last trial"));
  heading(tr("In the graph"));
  entry(QStringLiteral("Arrows"), tr("Follow an edge"));
  entry(QStringLiteral("Space"), tr("Open or close the group"));
  entry(QStringLiteral("Enter"), tr("To the source of the node"));
  entry(QStringLiteral("+  -  0"), tr("Zoom in, out, all"));
  scroll->setWidget(content);
  layout->addWidget(scroll);
}

}  // namespace nf
