// SPDX-License-Identifier: GPL-3.0-or-later
// The shapes of the trials plot, counted.
#include <QPainter>
#include <algorithm>

#include "widgets/basic.h"
#include "widgets/plots.h"
#include "widgets/trial_marks.h"

namespace nf {

using protocol::TrialInfo;

TrialsLegend::TrialsLegend(const Theme* theme, QWidget* parent) : QWidget(parent), m_theme(theme) {
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
  setTrials({});
}

namespace {
enum Shape { kDash, kDisc, kRing, kStairs, kCross, kTriangle, kSquare, kDiamond };
}

void TrialsLegend::setTrials(const std::vector<TrialInfo>& trials) {
  m_entries.clear();
  const auto count = [&](auto which) { return std::count_if(trials.begin(), trials.end(), which); };
  const auto add = [&](int shape, const QString& words, std::ptrdiff_t n) {
    m_entries.push_back({shape, n < 0 ? words : words + QLatin1Char(' ') + grouped(n)});
  };
  add(kDisc, tr("trial"), count(measured));
  add(kStairs, tr("best so far"), -1);
  if (const auto n = count(dropped); n > 0) add(kRing, tr("dropped early"), n);
  if (const auto n = count(untimed); n > 0) add(kDash, tr("checked, not timed"), n);
  for (std::size_t i = 0; i < std::size(kFailures); ++i)
    add(kCross + static_cast<int>(i), wordsOf(kFailures[i]),
        count([&](const TrialInfo& t) { return failed(t) && t.status == kFailures[i].status; }));
  setAccessibleName(text());
  fitHeight();
  update();
}

namespace {
constexpr int kLegendRow = 18, kLegendTop = 4;
}

std::vector<QRect> TrialsLegend::places() const {
  const QFontMetrics metrics(m_theme->ui(11));
  std::vector<QRect> out;
  int x = kTrialsMargin, y = kLegendTop;
  for (const Entry& e : m_entries) {
    const int w = 15 + metrics.horizontalAdvance(e.words);
    if (x > kTrialsMargin && x + w > width() - 4) x = kTrialsMargin, y += kLegendRow;
    out.emplace_back(x, y, w, kLegendRow);
    x += w + 14;
  }
  return out;
}

void TrialsLegend::fitHeight() {
  const auto all = places();
  setFixedHeight(all.empty() ? sizeHint().height() : all.back().bottom() + 1 + kLegendTop);
}

void TrialsLegend::resizeEvent(QResizeEvent*) { fitHeight(); }

QString TrialsLegend::text() const {
  QStringList parts;
  for (const Entry& e : m_entries) parts << e.words;
  return parts.join(QStringLiteral(", "));
}

void TrialsLegend::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  p.setFont(m_theme->ui(11));
  const auto all = places();
  for (std::size_t i = 0; i < m_entries.size(); ++i) {
    const Entry& e = m_entries[i];
    const QRect& place = all[i];
    const double x = place.left(), y = place.center().y() + 0.5;
    const QColor grey = mixed(c.page, c.muted, 0.75);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(e.shape >= kCross ? c.failed : grey, 1.3));
    const QPointF m(x + 4, y);
    switch (e.shape) {
      case kDash: p.drawLine(m + QPointF(-4, 0), m + QPointF(4, 0)); break;
      case kDisc:
        p.setPen(Qt::NoPen);
        p.setBrush(grey);
        p.drawEllipse(m, 2.5, 2.5);
        break;
      case kRing: p.drawEllipse(m, 2.5, 2.5); break;
      case kStairs:
        p.setPen(QPen(c.accent, 2));
        p.drawPolyline(QPolygonF({m + QPointF(-5, -3), m + QPointF(0, -3), m + QPointF(0, 3), m + QPointF(5, 3)}));
        break;
      case kCross:
        p.drawLine(m + QPointF(-3.5, -3.5), m + QPointF(3.5, 3.5));
        p.drawLine(m + QPointF(-3.5, 3.5), m + QPointF(3.5, -3.5));
        break;
      case kTriangle: p.drawPolygon(QPolygonF({m + QPointF(0, -4), m + QPointF(4, 3.2), m + QPointF(-4, 3.2)})); break;
      case kSquare: p.drawRect(QRectF(m.x() - 3.2, m.y() - 3.2, 6.4, 6.4)); break;
      case kDiamond:
        p.drawPolygon(QPolygonF({m + QPointF(0, -4), m + QPointF(4, 0), m + QPointF(0, 4), m + QPointF(-4, 0)}));
        break;
    }
    p.setPen(c.text);
    p.drawText(place.adjusted(13, 0, 4, 0), Qt::AlignVCenter, e.words);
  }
}

}  // namespace nf
