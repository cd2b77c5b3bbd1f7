// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/keep_focus.h"

#include <QApplication>
#include <QVariant>
#include <QWidget>

namespace nf {
namespace {
constexpr const char* kLeft = "leftKeyboard";
}

void setUsable(QWidget* button, bool usable) {
  if (usable == button->isEnabled()) return;
  if (!usable && button->hasFocus()) {
    button->setProperty(kLeft, true);
    button->parentWidget()->setFocus();
  }
  button->setEnabled(usable);
  if (!usable || !button->property(kLeft).toBool()) return;
  button->setProperty(kLeft, {});
  if (QApplication::focusWidget() == button->parentWidget()) button->setFocus();
}

}  // namespace nf
