// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAction>
#include <QObject>
#include <functional>
#include <map>
#include <vector>

#include "widgets/theme.h"

class QSettings;

namespace nf {

// Every command of the window, once: menus, palette, locator, toolbar, shortcut editor and the sheet of keys are made from it.
class ActionRegistry : public QObject {
  Q_OBJECT
 public:
  ActionRegistry(const Theme* theme, QWidget* window);
  // `group` is where menus and sheets list it. `notebookKey` is the key that does the same in the notebook's command mode.
  QAction* add(const QString& id, const QString& group, const QString& text, const QList<QKeySequence>& keys,
               std::function<void()> run, const QString& icon = {}, const QString& notebookKey = {});
  QAction* at(const QString& id) const { return m_actions.at(id); }
  const std::map<QString, QAction*>& all() const { return m_actions; }
  const std::vector<QString>& order() const { return m_order; }  // as they were added
  QString group(const QString& id) const { return m_entries.at(id).group; }
  QString notebookKey(const QString& id) const { return m_entries.at(id).notebookKey; }

  // Keys a person chose instead. A key belongs to one command: taking one that another has leaves that one without.
  void setKeys(const QString& id, const QList<QKeySequence>& keys);
  QString holder(const QKeySequence& key) const;  // of a key; empty: nobody
  bool changed(const QString& id) const;
  void resetKeys(const QString& id);
  void resetAllKeys();
  void load(const QSettings& settings);
  void save(QSettings& settings) const;

 Q_SIGNALS:
  void keysChanged();

 private:
  struct Entry {
    QString group, notebookKey;
    QList<QKeySequence> standard;
  };
  const Theme* m_theme;
  QWidget* m_window;
  std::map<QString, QAction*> m_actions;
  std::map<QString, Entry> m_entries;
  std::vector<QString> m_order;
};

}  // namespace nf
