// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/actions.h"

#include <QSettings>
#include <QWidget>

namespace nf {

ActionRegistry::ActionRegistry(const Theme* theme, QWidget* window) : QObject(window), m_theme(theme), m_window(window) {
  connect(theme, &Theme::changed, this, [this] {
    for (auto& [id, a] : m_actions)
      if (const QString icon = a->property("iconName").toString(); !icon.isEmpty()) a->setIcon(m_theme->icon(icon));
  });
}

QAction* ActionRegistry::add(const QString& id, const QString& group, const QString& text, const QList<QKeySequence>& keys,
                             std::function<void()> run, const QString& icon, const QString& notebookKey) {
  auto* a = new QAction(text, m_window);
  a->setObjectName(id);
  a->setShortcuts(keys);
  if (!icon.isEmpty()) {
    a->setIcon(m_theme->icon(icon));
    a->setProperty("iconName", icon);
    a->setIconVisibleInMenu(false);
  }
  connect(a, &QAction::triggered, m_window, [run = std::move(run)] { run(); });
  m_window->addAction(a);
  m_actions[id] = a;
  m_entries[id] = {group, notebookKey, a->shortcuts()};
  m_order.push_back(id);
  return a;
}

QString ActionRegistry::holder(const QKeySequence& key) const {
  for (const auto& [id, a] : m_actions)
    if (!key.isEmpty() && a->shortcuts().contains(key)) return id;
  return {};
}

void ActionRegistry::setKeys(const QString& id, const QList<QKeySequence>& keys) {
  for (const QKeySequence& key : keys)
    if (const QString other = holder(key); !other.isEmpty() && other != id) {
      QList<QKeySequence> left = m_actions[other]->shortcuts();
      left.removeAll(key);
      m_actions[other]->setShortcuts(left);
    }
  m_actions[id]->setShortcuts(keys);
  Q_EMIT keysChanged();
}

bool ActionRegistry::changed(const QString& id) const { return m_actions.at(id)->shortcuts() != m_entries.at(id).standard; }

void ActionRegistry::resetKeys(const QString& id) { setKeys(id, m_entries[id].standard); }

void ActionRegistry::resetAllKeys() {
  for (const QString& id : m_order) m_actions[id]->setShortcuts(m_entries[id].standard);
  Q_EMIT keysChanged();
}

void ActionRegistry::load(const QSettings& settings) {
  for (const QString& id : m_order)
    if (const QVariant keys = settings.value(QStringLiteral("keys/") + id); keys.isValid())
      m_actions[id]->setShortcuts(QKeySequence::listFromString(keys.toString(), QKeySequence::PortableText));
  Q_EMIT keysChanged();
}

void ActionRegistry::save(QSettings& settings) const {
  settings.remove(QStringLiteral("keys"));
  for (const QString& id : m_order)
    if (changed(id))
      settings.setValue(QStringLiteral("keys/") + id,
                        QKeySequence::listToString(m_actions.at(id)->shortcuts(), QKeySequence::PortableText));
}

}  // namespace nf
