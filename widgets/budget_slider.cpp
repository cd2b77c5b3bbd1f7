// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/budget_slider.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

namespace nf {

namespace {
constexpr double kHandle = 7;  // px: its half
}

BudgetSlider::BudgetSlider(const Theme* theme, QWidget* parent) : QSlider(Qt::Horizontal, parent), m_theme(theme) {
  setRange(0, 90);
  setValue(30);
  setPageStep(10);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Share of device time for tuning, percent"));
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void BudgetSlider::setSpent(double share) {
  m_spent = share;
  update();
}

void BudgetSlider::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  const double left = kHandle, room = width() - 2 * kHandle, y = 12;
  const auto at = [&](double percent) { return left + room * percent / maximum(); };
  p.setPen(Qt::NoPen);
  p.setBrush(c.separator);
  p.drawRoundedRect(QRectF(left, y - 1.5, room, 3), 1.5, 1.5);
  p.setBrush(mixed(c.page, c.accent, 0.35));
  p.drawRoundedRect(QRectF(left, y - 1.5, at(value()) - left, 3), 1.5, 1.5);
  p.setBrush(c.accent);
  p.drawRoundedRect(QRectF(left, y - 2, at(std::clamp(m_spent * 100, 0.0, double(maximum()))) - left, 4), 2, 2);
  p.setPen(QPen(c.accent, 2));
  p.setBrush(c.page);
  p.drawEllipse(QPointF(at(value()), y), kHandle - 1, kHandle - 1);
  if (hasFocus()) {
    p.setPen(QPen(c.accent, 1));
    p.setBrush(Qt::NoBrush);
    p.drawEllipse(QPointF(at(value()), y), kHandle + 2, kHandle + 2);
  }
  p.setFont(m_theme->ui(11));
  p.setPen(c.muted);
  for (const int mark : {0, 30, 60, 90}) {
    const QString text = QStringLiteral("%1 %").arg(mark);
    const double w = p.fontMetrics().horizontalAdvance(text);
    p.drawText(QRectF(std::clamp(at(mark) - w / 2, 0.0, width() - w - 1), y + 10, w + 2, 16), text);
  }
}

void BudgetSlider::moveTo(double x) {
  setValue(static_cast<int>(std::lround(std::clamp((x - kHandle) / (width() - 2 * kHandle), 0.0, 1.0) * maximum())));
}

void BudgetSlider::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  setSliderDown(true);
  moveTo(event->position().x());
}

void BudgetSlider::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons() & Qt::LeftButton) moveTo(event->position().x());
}

}  // namespace nf
