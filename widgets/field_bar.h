// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>

namespace nf {

// A bar of fields: Enter and Escape in them belong to it, before a command of the window takes them, and Escape closes it from its buttons,
// too.
class FieldBar : public QWidget {
  Q_OBJECT
 public:
  using QWidget::QWidget;

 Q_SIGNALS:
  void closed();

 protected:
  void watch(QWidget* field);
  virtual void entered(const QObject* field, Qt::KeyboardModifiers modifiers) = 0;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
};

}  // namespace nf
