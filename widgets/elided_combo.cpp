// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/elided_combo.h"

#include <QHelpEvent>
#include <QStylePainter>
#include <QToolTip>

namespace nf {

QString ElidedCombo::shown() const {
  QStyleOptionComboBox option;
  initStyleOption(&option);
  const QRect field = style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField, this);
  return fontMetrics().elidedText(currentText(), Qt::ElideMiddle, field.width() - 2);
}

void ElidedCombo::paintEvent(QPaintEvent*) {
  QStylePainter p(this);
  QStyleOptionComboBox option;
  initStyleOption(&option);
  p.drawComplexControl(QStyle::CC_ComboBox, option);
  option.currentText = shown();
  p.drawControl(QStyle::CE_ComboBoxLabel, option);
}

bool ElidedCombo::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip && toolTip().isEmpty() && shown() != currentText()) {
    QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(), currentText(), this);
    return true;
  }
  return QComboBox::event(event);
}

}  // namespace nf
