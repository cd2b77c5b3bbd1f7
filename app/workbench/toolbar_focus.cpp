// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/toolbar_focus.h"

#include <QAbstractButton>
#include <QApplication>
#include <QFocusEvent>
#include <QWidget>
#include <utility>

namespace nf {

ToolbarFocus::ToolbarFocus(QWidget* toolbar, QWidget* pages, std::function<void()> toPage)
    : QObject(toolbar), m_toolbar(toolbar), m_pages(pages), m_toPage(std::move(toPage)) {
  for (QWidget* w : toolbar->findChildren<QWidget*>()) w->installEventFilter(this);
  connect(qApp, &QApplication::focusChanged, this, [this](QWidget* before, QWidget* now) { follow(before, now); });
}

bool ToolbarFocus::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusIn) {
    const auto reason = static_cast<QFocusEvent*>(event)->reason();
    m_byKey = reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason || reason == Qt::ShortcutFocusReason;
  }
  return QObject::eventFilter(watched, event);
}

void ToolbarFocus::follow(const QWidget* before, QWidget* now) {
  if (!now || now->window() != m_toolbar->window()) return;
  // Of what is hidden or disabled it is taken in the same way as Tab takes it.
  const bool taken = before && (!before->isVisible() || !before->isEnabled());
  if (!m_toolbar->isAncestorOf(now)) {
    m_chosen = nullptr;
    if (taken && m_pages->isAncestorOf(before) && m_pages->isAncestorOf(now) && qobject_cast<QAbstractButton*>(now)) m_toPage();
    return;
  }
  if (m_byKey && !taken) m_chosen = now;
  else if (now != m_chosen) m_toPage();
}

}  // namespace nf
