// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/field_bar.h"

#include <QAbstractButton>
#include <QApplication>
#include <QKeyEvent>

namespace nf {

void FieldBar::watch(QWidget* field) { field->installEventFilter(this); }

void FieldBar::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return closed();
  const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (auto* button = qobject_cast<QAbstractButton*>(QApplication::focusWidget()); enter && button && isAncestorOf(button))
    return button->click();
  QWidget::keyPressEvent(event);
}

bool FieldBar::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
  auto* key = static_cast<QKeyEvent*>(event);
  const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
  if (!enter && key->key() != Qt::Key_Escape) return QWidget::eventFilter(watched, event);
  event->accept();
  if (event->type() == QEvent::ShortcutOverride) return true;
  if (enter) entered(watched, key->modifiers());
  else Q_EMIT closed();
  return true;
}

}  // namespace nf
