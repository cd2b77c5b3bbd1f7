// SPDX-License-Identifier: GPL-3.0-or-later
// Kernels under the ceilings of their device, and the path of the tuner's best trials.
#include <qcustomplot.h>

#include <QToolTip>
#include <QTransform>
#include <algorithm>
#include <cmath>
#include <optional>

#include "widgets/basic.h"
#include "widgets/names.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"
#include "widgets/trial_marks.h"

namespace nf {

using protocol::TrialInfo;

RooflinePlot::RooflinePlot(const Theme* theme, QWidget* parent) : Plot(theme, tr("Roofline"), parent) {
  dress();
  m_plot->axisRect()->setAutoMargins(QCP::msNone);
  m_plot->axisRect()->setMargins(QMargins(52, 10, 16, 38));
  requestRedraw();
}

void RooflinePlot::setDevice(std::optional<protocol::DeviceConstants> device) {
  if (m_device == device) return;
  m_device = std::move(device);
  requestRedraw();
}

void RooflinePlot::setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs, const std::string& current) {
  m_subgraphs = subgraphs, m_current = current;
  requestRedraw();
}

void RooflinePlot::setTrials(const std::vector<TrialInfo>& trials) {
  m_trials = trials;
  m_path.clear();
  double best = HUGE_VAL;
  for (const TrialInfo& t : trials)
    if (measured(t) && *t.us < best) best = *t.us, m_path.push_back(t);
  requestRedraw();
}

void RooflinePlot::setCurrent(std::optional<std::uint64_t> number) {
  m_trial = number;
  requestRedraw();
}

PlotTable RooflinePlot::table() const {
  PlotTable out{{tr("kernel"), tr("FLOP a byte"), tr("GFLOP/s"), tr("GB/s"), tr("% of arithmetic"), tr("% of bandwidth"), tr("µs")},
                {}};
  const auto share = [](double part, double whole) { return whole > 0 ? QVariant(100 * part / whole) : QVariant(); };
  for (const auto& s : m_subgraphs) {
    if (!s.us || *s.us <= 0 || s.bytes <= 0) continue;
    const double flops = static_cast<double>(s.flops) / *s.us * 1e6, bytes = static_cast<double>(s.bytes) / *s.us * 1e6;
    out.rows.push_back({QString::fromStdString(s.name), static_cast<double>(s.flops) / static_cast<double>(s.bytes), flops * 1e-9,
                        bytes * 1e-9, share(flops, m_device ? m_device->flopRate : 0),
                        share(bytes, m_device ? m_device->bandwidth : 0), *s.us});
  }
  return out;
}

void RooflinePlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  m_slopes.clear();
  const Palette& c = m_theme->colors();
  double leftX = HUGE_VAL, rightX = 0, lowY = HUGE_VAL, highY = 0;
  QList<QPointF> points;
  const auto see = [&](double x, double y) {
    points << QPointF(x, y);
    leftX = std::min(leftX, x), rightX = std::max(rightX, x), lowY = std::min(lowY, y), highY = std::max(highY, y);
  };
  for (const auto& s : m_subgraphs) {
    if (s.bytes <= 0 || s.flops <= 0) continue;
    const double x = static_cast<double>(s.flops) / static_cast<double>(s.bytes);
    const auto rate = [&](double us) { return static_cast<double>(s.flops) / (us * 1e-6); };
    if (s.us && *s.us > 0) see(x, rate(*s.us));
    if (s.id == m_current)
      for (const TrialInfo& t : m_path) see(x, rate(*t.us));
  }
  const bool roof = m_device && m_device->bandwidth > 0 && m_device->flopRate > 0;
  if (roof) {
    const double ridge = m_device->flopRate / m_device->bandwidth;
    // The name of each slope has room beside it.
    leftX = std::min({leftX, ridge / 16, m_device->flopRate / std::max(m_device->bandwidth, m_device->l2Bandwidth) / 16}),
    rightX = std::max(rightX, ridge * 6);
    highY = std::max(highY, m_device->flopRate), lowY = std::min(lowY, m_device->flopRate / 60);
  }
  const bool empty = !(leftX <= rightX);
  const QString when = never().isEmpty() ? tr("Drawn once a kernel or the device was measured.") : never();
  sayEmpty(m_plot, m_theme, empty ? when : QString());
  AxisRange ax, ay;
  ax.logarithmic = ay.logarithmic = true;
  ax.low = empty ? 0.1 : leftX, ax.high = empty ? 100 : rightX, ax.room = 0.05;
  ay.low = empty ? 1e9 : lowY, ay.high = empty ? 1e12 : highY, ay.room = 0.1;
  nf::setAxis(m_plot->xAxis, ax, plainTick);
  nf::setAxis(m_plot->yAxis, ay, flopTick);
  m_plot->xAxis->setLabel(empty ? QString() : tr("FLOP / byte of memory traffic"));
  if (empty) return;
  const double from = m_plot->xAxis->range().lower, to = m_plot->xAxis->range().upper;
  const auto ceiling = [&](double bandwidth, const QPen& pen, const QString& name, bool flat) {
    const double knee = m_device->flopRate / bandwidth;
    auto* line = m_plot->addGraph();
    if (flat) line->setData({from, knee, to}, {from * bandwidth, m_device->flopRate, m_device->flopRate}, true);
    else line->setData({from, knee}, {from * bandwidth, m_device->flopRate}, true);
    line->setPen(pen);
    avoidLine(from, from * bandwidth, knee, m_device->flopRate);
    if (flat) avoidLine(knee, m_device->flopRate, to, m_device->flopRate);
    auto* text = new QCPItemText(m_plot);
    text->setText(name);
    text->setFont(m_theme->ui(11, flat ? QFont::Medium : QFont::Normal));
    text->setColor(flat ? c.text : c.muted);
    text->setClipToAxisRect(false);
    text->setPositionAlignment(Qt::AlignBottom | Qt::AlignHCenter);
    // Where the line is inside, below the knee: there where the points leave most room.
    const double low = std::max(from, m_plot->yAxis->range().lower / bandwidth);
    double x = low, room = -1;
    for (const double along : {0.42, 0.34, 0.5, 0.26, 0.58, 0.66}) {
      const double at = low * std::pow(knee / low, along), y = at * bandwidth;
      double nearest = HUGE_VAL;
      for (const QPointF& p : points) nearest = std::min(nearest, std::hypot(std::log(p.x() / at), std::log(p.y() / y)));
      if (nearest > room * 1.2) room = nearest, x = at;
    }
    text->position->setCoords(x, x * bandwidth);
    m_slopes.push_back({text, x, x * bandwidth, low, knee});
    // The name runs along the line: others keep away from it.
    for (const double along : {0.6, 0.72, 0.85, 1.0, 1.18, 1.4, 1.65}) avoid(x * along, x * along * bandwidth, 13);
  };
  if (roof) {
    if (m_device->l2Bandwidth > m_device->bandwidth)
      ceiling(m_device->l2Bandwidth, QPen(c.muted, 1.2, Qt::DashLine),
              tr("L2 %1").arg(flopsText(m_device->l2Bandwidth, QStringLiteral("B/s"))), false);
    ceiling(m_device->bandwidth, QPen(c.text, 1.6), tr("P_d %1").arg(flopsText(m_device->bandwidth, QStringLiteral("B/s"))), true);
    addLabel({tr("P_c %1").arg(flopsText(m_device->flopRate, QStringLiteral("FLOP/s"))),
              to,
              m_device->flopRate,
              {Side::AboveLeft, Side::BelowLeft},
              QFont::Medium,
              c.text,
              4,
              0,
              true});
  }
  std::vector<Label> others;
  for (const auto& s : m_subgraphs) {
    if (s.bytes <= 0 || s.flops <= 0) continue;
    const double x = static_cast<double>(s.flops) / static_cast<double>(s.bytes);
    const auto rate = [&](double us) { return static_cast<double>(s.flops) / (us * 1e-6); };
    if (s.id != m_current) {
      if (!s.us || *s.us <= 0) continue;
      auto* dot = m_plot->addGraph();
      dot->setData({x}, {rate(*s.us)});
      dot->setLineStyle(QCPGraph::lsNone);
      dot->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssSquare, QPen(c.muted, 1.2), Qt::NoBrush, 6));
      avoid(x, rate(*s.us), 5);
      others.push_back({kernelName(s.name, 16),
                        x,
                        rate(*s.us),
                        {Side::Right, Side::Left, Side::Above, Side::Below},
                        QFont::Normal,
                        c.muted,
                        8,
                        0,
                        false});
      continue;
    }
    QVector<double> px, py;
    for (const TrialInfo& t : m_path) px << x, py << rate(*t.us);
    if (px.isEmpty() && s.us && *s.us > 0) px << x, py << rate(*s.us);
    if (px.isEmpty()) continue;
    auto* path = m_plot->addGraph();
    path->setData(px, py, true);
    path->setPen(QPen(c.accent, 1.6));
    path->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(c.accent, 1.4), QBrush(c.page), 6));
    for (int i = 0; i < px.size(); ++i) avoid(px[i], py[i], 4);
    double now = py.back();
    QString name = m_path.empty() ? shortName(s.name) : nameOf(m_path.back());
    if (m_trial)
      for (const TrialInfo& t : m_trials)
        if (t.number == *m_trial && t.us && *t.us > 0) now = rate(*t.us), name = nameOf(t);
    auto* disc = m_plot->addGraph();
    disc->setData({x}, {now});
    disc->setLineStyle(QCPGraph::lsNone);
    disc->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 11));
    avoid(x, now, 6);
    QString text = name + QStringLiteral(", ") + flopsText(now, QStringLiteral("FLOP/s"));
    if (roof) {
      const double memory = std::min(m_device->flopRate, x * m_device->bandwidth),
                   cache = std::min(m_device->flopRate, x * m_device->l2Bandwidth);
      const bool byCache = now > memory;
      const double bound = byCache ? cache : memory;
      if (!(bound > 0)) text += tr(", served by a cache");
      else if (bound >= m_device->flopRate) text += tr(", %1 % of P_c").arg(std::lround(100 * now / bound));
      else if (byCache) text += tr(", %1 % of what L2 gives").arg(std::lround(100 * now / bound));
      else text += tr(", %1 % of what P_d gives").arg(std::lround(100 * now / bound));
    }
    Label chosen{text,
                 x,
                 now,
                 {Side::Right, Side::Left, Side::AboveRight, Side::AboveLeft, Side::BelowRight, Side::BelowLeft},
                 QFont::DemiBold,
                 c.text,
                 9,
                 0,
                 true};
    chosen.led = true;
    addLabel(std::move(chosen));
    if (m_path.size() > 1) {
      addLabel({m_path.front().number == 0 ? tr("first") : nameOf(m_path.front()),
                x,
                py.front(),
                {Side::Right, Side::Left},
                QFont::Normal,
                c.muted,
                8,
                0,
                false});
      for (std::size_t i = 1; i + 1 < m_path.size(); ++i)
        addLabel({QStringLiteral("g%1").arg(m_path[i].generation),
                  x,
                  py[static_cast<qsizetype>(i)],
                  {Side::Left, Side::Right},
                  QFont::Normal,
                  c.muted,
                  8,
                  0,
                  false});
    }
  }
  // Names of the others last: they take what room is left.
  for (Label& label : others) addLabel(std::move(label));
}

void RooflinePlot::arrange() {
  Plot::arrange();
  const QRectF area = m_plot->axisRect()->rect();
  const auto labels = labelPlaces();
  std::vector<QPolygonF> names;
  for (const Slope& s : m_slopes) {
    // Both axes are logarithmic: a bandwidth is a line of one slope, that of a decade by a decade.
    const double dx = m_plot->xAxis->coordToPixel(s.x * 2) - m_plot->xAxis->coordToPixel(s.x),
                 dy = m_plot->yAxis->coordToPixel(s.y * 2) - m_plot->yAxis->coordToPixel(s.y);
    const double degrees = std::atan2(dy, dx) * 180 / M_PI;
    s.item->setRotation(degrees);
    s.item->setPadding(QMargins(0, 0, 0, 3));
    const QFontMetricsF metrics(s.item->font());
    const double wide = metrics.horizontalAdvance(s.item->text()), high = metrics.height() + 3;
    const auto nameAt = [&](double x) {
      const QPointF at(m_plot->xAxis->coordToPixel(x), m_plot->yAxis->coordToPixel(x * s.y / s.x));
      return QTransform().translate(at.x(), at.y()).rotate(degrees).map(QPolygonF(QRectF(-wide / 2, -high, wide, high)));
    };
    const auto free = [&](const QPolygonF& name) {
      return area.contains(name.boundingRect()) &&
             std::none_of(names.begin(), names.end(), [&](const QPolygonF& other) { return other.intersects(name); }) &&
             std::none_of(labels.begin(), labels.end(),
                          [&](const auto& label) { return QPolygonF(label.second.adjusted(-3, -1, 3, 1)).intersects(name); });
    };
    // There where it is wanted, else beside it along its line, a little further each time.
    constexpr int kPlaces = 60;
    const double step = std::log(s.to / s.from) / kPlaces;
    std::optional<double> place;
    for (int k = 0; k <= 2 * kPlaces && !place; ++k) {
      const double x = s.x * std::exp(step * ((k + 1) / 2) * (k % 2 ? 1 : -1));
      if (x >= s.from && x <= s.to && free(nameAt(x))) place = x;
    }
    s.item->setVisible(place.has_value());
    if (!place) continue;
    s.item->position->setCoords(*place, *place * s.y / s.x);
    names.push_back(nameAt(*place));
  }
  m_slopeNames = std::move(names);
}

std::vector<QPolygonF> RooflinePlot::slopeNames() {
  drawNow();
  return m_slopeNames;
}

bool RooflinePlot::eventFilter(QObject* watched, QEvent* event) {
  const bool release = event->type() == QEvent::MouseButtonRelease, tip = event->type() == QEvent::ToolTip;
  if (watched == m_plot && (release || tip)) {
    const QPointF at = release ? static_cast<QMouseEvent*>(event)->position() : QPointF(static_cast<QHelpEvent*>(event)->pos());
    double best = 10 * 10;
    const protocol::SubgraphInfo* found = nullptr;
    for (const auto& s : m_subgraphs) {
      if (s.bytes <= 0 || s.flops <= 0 || !s.us || *s.us <= 0) continue;
      const double dx = m_plot->xAxis->coordToPixel(static_cast<double>(s.flops) / static_cast<double>(s.bytes)) - at.x(),
                   dy = m_plot->yAxis->coordToPixel(static_cast<double>(s.flops) / *s.us * 1e6) - at.y();
      if (dx * dx + dy * dy < best) best = dx * dx + dy * dy, found = &s;
    }
    if (release && found && found->id != m_current) Q_EMIT subgraphChosen(found->id);
    if (tip) {
      QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(),
                         found ? QStringLiteral("%1\n%2, %3")
                                     .arg(shortName(found->name), microsecondsText(*found->us),
                                          flopsText(static_cast<double>(found->flops) / *found->us * 1e6, QStringLiteral("FLOP/s")))
                               : QString(),
                         this);
      return true;
    }
  }
  return Plot::eventFilter(watched, event);
}

}  // namespace nf
