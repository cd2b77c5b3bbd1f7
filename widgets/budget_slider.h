// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QSlider>

#include "widgets/theme.h"

namespace nf {

// The share of device time that tuning may take: the handle. What it has taken so far: the solid part.
class BudgetSlider : public QSlider {
  Q_OBJECT
 public:
  explicit BudgetSlider(const Theme* theme, QWidget* parent = nullptr);
  void setSpent(double share);  // 0..1 of the time that has passed
  double spent() const { return m_spent; }
  QSize sizeHint() const override { return {160, 40}; }
  QSize minimumSizeHint() const override { return {100, 40}; }

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;

 private:
  void moveTo(double x);
  const Theme* m_theme;
  double m_spent = 0;
};

}  // namespace nf
