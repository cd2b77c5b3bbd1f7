// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QDialog>

#include "widgets/theme.h"

class QKeySequenceEdit;
class QLabel;
class QLineEdit;
class QPushButton;
class QTreeWidget;
class QTreeWidgetItem;

namespace nf {

class ActionRegistry;

// Every command with its key, found by name or key; the chosen one's key is changed below the list.
class ShortcutEditor : public QDialog {
  Q_OBJECT
 public:
  ShortcutEditor(const Theme* theme, ActionRegistry* actions, QWidget* parent);
  QLineEdit* filter() const { return m_filter; }
  QTreeWidget* list() const { return m_list; }
  QKeySequenceEdit* keys() const { return m_keys; }
  QPushButton* use() const { return m_use; }
  QPushButton* reset() const { return m_reset; }
  QPushButton* resetAll() const { return m_resetAll; }
  void choose(const QString& id);
  QString chosen() const;

 private:
  void fill();
  void applyFilter();
  void showChosen();
  const Theme* m_theme;
  ActionRegistry* m_actions;
  QLineEdit* m_filter;
  QTreeWidget* m_list;
  QKeySequenceEdit* m_keys;
  QLabel* m_holder;
  QPushButton *m_use, *m_reset, *m_resetAll;
};

// The `?` sheet: keys by place.
class ShortcutSheet : public QDialog {
  Q_OBJECT
 public:
  ShortcutSheet(const Theme* theme, const ActionRegistry* actions, QWidget* parent);
};

}  // namespace nf
