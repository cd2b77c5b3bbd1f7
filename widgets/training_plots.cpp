// SPDX-License-Identifier: GPL-3.0-or-later
// Latency and loss over the steps of a training run.
#include <qcustomplot.h>

#include <algorithm>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/names.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"

namespace nf {
namespace {

using protocol::EvalEvent;
using protocol::KernelSwapEvent;
using protocol::StepEvent;

constexpr int kLeftMargin = 62;  // latency and loss stand one above the other: their axes line up

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the steps that count; an event that stands for several counts as often.
template <class F>
std::optional<double> medianOf(const std::vector<StepEvent>& events, F&& counts) {
  std::vector<std::pair<double, std::int64_t>> values;
  std::int64_t steps = 0, passed = 0;
  for (const StepEvent& s : events)
    if (s.ms > 0 && counts(s)) {
      values.emplace_back(s.ms, std::max<std::int64_t>(1, s.steps));
      steps += values.back().second;
    }
  std::sort(values.begin(), values.end());
  for (const auto& [ms, count] : values)
    if ((passed += count) * 2 >= steps) return ms;
  return std::nullopt;
}

struct Band {
  QVector<double> x, middle, low, high;
};

// One bucket a few pixels wide: the median of its steps, the least and the most of them.
Band bucketed(const std::vector<StepEvent>& steps, int pixels, TrainingAxis axis) {
  Band out;
  const auto most = static_cast<std::size_t>(std::max(40, pixels / 3));
  const std::size_t per = std::max<std::size_t>(1, (steps.size() + most - 1) / most);
  for (std::size_t at = 0; at < steps.size(); at += per) {
    std::vector<double> values;
    double low = HUGE_VAL, high = -HUGE_VAL;
    const std::size_t end = std::min(at + per, steps.size());
    for (std::size_t i = at; i < end; ++i) {
      const StepEvent& s = steps[i];
      if (!(s.ms > 0)) continue;
      values.push_back(s.ms);
      low = std::min(low, s.ms_min > 0 ? s.ms_min : s.ms);
      high = std::max(high, s.ms_max > 0 ? s.ms_max : s.ms);
    }
    if (values.empty()) continue;
    const StepEvent& last = steps[end - 1];
    out.x << (axis == TrainingAxis::Time ? last.seconds : static_cast<double>(last.step));
    out.middle << median(values);
    out.low << low, out.high << high;
  }
  return out;
}

double secondsOfStep(const std::vector<StepEvent>& steps, std::int64_t step) {
  const auto after =
      std::lower_bound(steps.begin(), steps.end(), step, [](const StepEvent& s, std::int64_t n) { return s.step < n; });
  if (after == steps.end()) return steps.empty() ? 0 : steps.back().seconds;
  if (after == steps.begin() || after->step == step) return after->seconds;
  const StepEvent &a = *(after - 1), &b = *after;
  return a.seconds + (b.seconds - a.seconds) * static_cast<double>(step - a.step) /
                         static_cast<double>(std::max<std::int64_t>(1, b.step - a.step));
}

void setStepAxis(QCustomPlot* plot, TrainingAxis axis, double first, double last, double rightRoom) {
  AxisRange range;
  range.low = first, range.high = std::max(last, first + (axis == TrainingAxis::Time ? 1e-3 : 1));
  range.integers = axis == TrainingAxis::Steps;
  range.positive = false;
  range.room = 0;
  setAxis(plot->xAxis, range, axis == TrainingAxis::Time ? secondTick : countTick);
  plot->xAxis->setRange(first, range.high + (range.high - first) * rightRoom);
}

void fixMargins(QCustomPlot* plot, bool compact, bool labels) {
  plot->axisRect()->setAutoMargins(QCP::msNone);
  plot->axisRect()->setMargins(QMargins(kLeftMargin, compact ? 6 : 10, compact ? 12 : 44, labels ? (compact ? 22 : 36) : 8));
}

}  // namespace

LatencyPlot::LatencyPlot(const Theme* theme, bool compact, QWidget* parent)
    : Plot(theme, tr("Step latency"), parent), m_compact(compact) {
  dress();
  fixMargins(m_plot, compact, compact);
  if (!compact) {
    m_plot->setInteractions(QCP::iRangeZoom | QCP::iRangeDrag);
    m_plot->axisRect()->setRangeZoom(Qt::Horizontal);
    m_plot->axisRect()->setRangeDrag(Qt::Horizontal);
  }
  requestRedraw();
}

void LatencyPlot::clear() { setSteps({}, {}); }

void LatencyPlot::setSteps(std::vector<StepEvent> steps, std::vector<KernelSwapEvent> swaps) {
  m_steps = std::move(steps), m_swaps = std::move(swaps);
  requestRedraw();
}

void LatencyPlot::addStep(const StepEvent& step) {
  m_steps.push_back(step);
  requestRedraw();
}

void LatencyPlot::addSwap(const KernelSwapEvent& swap) {
  m_swaps.push_back(swap);
  requestRedraw();
}

void LatencyPlot::setAxis(TrainingAxis axis) {
  m_axis = axis;
  requestRedraw();
}

void LatencyPlot::setPeer(const QString& name, double milliseconds) {
  m_peer = name, m_peerMs = milliseconds;
  requestRedraw();
}

double LatencyPlot::xOf(const KernelSwapEvent& swap) const {
  if (m_axis == TrainingAxis::Steps) return static_cast<double>(swap.step);
  return swap.step > 0 ? secondsOfStep(m_steps, swap.step) : swap.seconds;
}

std::optional<std::int64_t> LatencyPlot::crossing() const {
  if (!(m_peerMs > 0)) return std::nullopt;
  std::int64_t run = 0, first = 0, before = 0;
  for (const StepEvent& s : m_steps) {
    // An event stands for several steps: all of them are faster when the slowest is.
    const bool faster = (s.ms_max > 0 ? s.ms_max : s.ms) < m_peerMs;
    if (faster && run == 0) first = before + 1;
    run = faster ? run + std::max<std::int64_t>(1, s.steps) : 0;
    if (run >= 10) return first;
    before = s.step;
  }
  return std::nullopt;
}

// The first step is cold. Without a swap there is nothing to tell first kernels from.
std::optional<double> LatencyPlot::firstKernels() const {
  if (m_swaps.empty()) return std::nullopt;
  return medianOf(m_steps, [until = m_swaps.front().step](const StepEvent& s) { return s.step > 1 && s.step <= until; });
}

std::optional<double> LatencyPlot::now() const {
  if (m_steps.empty()) return std::nullopt;
  return medianOf(m_steps, [from = m_steps.back().step * 9 / 10](const StepEvent& s) { return s.step > from; });
}

PlotTable LatencyPlot::table() const {
  PlotTable out{{tr("step"), tr("seconds"), tr("ms"), tr("least ms"), tr("most ms"), tr("steps"), tr("kernel swap")}, {}};
  std::size_t swap = 0;
  for (const StepEvent& s : m_steps) {
    QStringList names;
    for (; swap < m_swaps.size() && m_swaps[swap].step <= s.step; ++swap)
      names << tr("%1: %2 to %3")
                   .arg(shortName(m_swaps[swap].name), microsecondsText(m_swaps[swap].before_us),
                        microsecondsText(m_swaps[swap].after_us));
    out.rows.push_back({QVariant::fromValue<qlonglong>(s.step), s.seconds, s.ms, s.ms_min > 0 ? s.ms_min : s.ms,
                        s.ms_max > 0 ? s.ms_max : s.ms, QVariant::fromValue<qlonglong>(s.steps), names.join(QStringLiteral("; "))});
  }
  return out;
}

void LatencyPlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  const Band band = bucketed(m_steps, m_plot->width() - kLeftMargin, m_axis);
  const bool empty = band.x.isEmpty();
  auto* bottom = m_plot->addGraph();
  auto* top = m_plot->addGraph();
  bottom->setData(band.x, band.low, true), top->setData(band.x, band.high, true);
  bottom->setPen(Qt::NoPen), top->setPen(Qt::NoPen);
  QColor soft = c.accent;
  soft.setAlphaF(0.18F);
  top->setBrush(soft);
  top->setChannelFillGraph(bottom);
  auto* line = m_plot->addGraph();
  line->setData(band.x, band.middle, true);
  line->setPen(QPen(c.accent, m_compact ? 1.6 : 2));

  double least = HUGE_VAL, most = 0;
  for (const double v : band.low) least = std::min(least, v);
  for (const double v : band.high) most = std::max(most, v);
  if (m_peerMs > 0 && !empty) least = std::min(least, m_peerMs), most = std::max(most, m_peerMs);
  AxisRange y;
  y.low = least, y.high = most, y.room = m_compact ? 0.12 : 0.08;
  nf::setAxis(m_plot->yAxis, y, millisecondTick);
  const double first = empty ? 0 : band.x.front(), last = empty ? 1 : band.x.back();
  setStepAxis(m_plot, m_axis, m_axis == TrainingAxis::Time ? 0 : std::min(first, 1.0), last, m_compact ? 0.12 : 0.09);
  sayEmpty(m_plot, m_theme, empty ? tr("Each step is drawn here while a model trains.") : QString());
  // Loss stands below and has the labels of the axis for both.
  if (!m_compact) m_plot->xAxis->setTickLabels(false);
  if (empty) return;

  for (int i = 0; i + 1 < band.x.size(); ++i)
    avoidBox(band.x[i], std::min(band.low[i], band.low[i + 1]), band.x[i + 1], std::max(band.high[i], band.high[i + 1]));
  avoid(last, band.middle.back(), 4);
  auto* dot = m_plot->addGraph();
  dot->setData({last}, {band.middle.back()});
  dot->setLineStyle(QCPGraph::lsNone);
  dot->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 7));
  addLabel({shortMilliseconds(now().value_or(band.middle.back())),
            last,
            band.middle.back(),
            {Side::Right, Side::AboveRight, Side::Above},
            QFont::DemiBold,
            c.text,
            8,
            0,
            true});

  const auto reference = [&](double value, Qt::PenStyle style, const QString& name) {
    auto* rule = new QCPItemStraightLine(m_plot);
    rule->point1->setCoords(first, value);
    rule->point2->setCoords(last + 1, value);
    rule->setPen(QPen(mixed(c.page, c.muted, 0.8), 1, style));
    const double right = m_plot->xAxis->range().upper;
    addLabel({name, right, value, {Side::AboveLeft, Side::BelowLeft}, QFont::Normal, c.muted, 2, 2, true});
    avoidLine(first, value, right, value);
  };
  if (m_peerMs > 0) reference(m_peerMs, Qt::DashLine, QStringLiteral("%1, %2").arg(m_peer, shortMilliseconds(m_peerMs)));
  if (const auto value = firstKernels(); value && !m_compact)
    reference(*value, Qt::DotLine, tr("first kernels, %1").arg(shortMilliseconds(*value)));

  // Swaps: each has its tick; those at one place share a name, which stands at the drop where there is room.
  const double span = std::max(1e-9, m_plot->xAxis->range().size()), width = std::max(80, m_plot->width() - kLeftMargin - 16);
  for (std::size_t i = 0; i < m_swaps.size();) {
    const double x = xOf(m_swaps[i]);
    std::size_t end = i + 1;
    while (end < m_swaps.size() && (xOf(m_swaps[end]) - x) / span * width < 10) ++end;
    // The one that won most speaks for those beside it.
    std::size_t chief = i;
    const auto gain = [&](std::size_t k) {
      const KernelSwapEvent& s = m_swaps[k];
      return s.before_us && s.after_us ? *s.before_us - *s.after_us : 0;
    };
    for (std::size_t k = i; k < end; ++k) {
      auto* tick = new QCPItemStraightLine(m_plot);
      tick->point1->setCoords(xOf(m_swaps[k]), 1);
      tick->point2->setCoords(xOf(m_swaps[k]), 2);
      tick->setPen(QPen(mixed(c.page, c.muted, 0.4), 1, Qt::DotLine));
      if (gain(k) > gain(chief)) chief = k;
    }
    const KernelSwapEvent& swap = m_swaps[chief];
    QString text = kernelName(swap.name.empty() ? swap.subgraph.substr(0, 8) : swap.name, m_compact ? 12 : 18);
    if (swap.generation > 0) text += QStringLiteral(" g%1").arg(swap.generation);
    if (end - i > 1) text += tr(" and %1 more").arg(end - i - 1);
    const auto at = std::lower_bound(band.x.begin(), band.x.end(), x);
    const auto place = std::min<qsizetype>(at - band.x.begin(), band.x.size() - 1);
    addLabel({text, x, band.high[place], {Side::AboveRight, Side::AboveLeft}, QFont::Normal, c.text, 4, m_compact ? 5 : 12, false});
    i = end;
  }
}

QString Plot::shortMilliseconds(double ms) { return withoutZeros(microsecondsText(ms * 1000)); }

bool LatencyPlot::eventFilter(QObject* watched, QEvent* event) {
  if (watched == m_plot && event->type() == QEvent::MouseButtonRelease) {
    const auto* mouse = static_cast<QMouseEvent*>(event);
    double best = 6;
    const KernelSwapEvent* found = nullptr;
    for (const KernelSwapEvent& swap : m_swaps)
      if (const double d = std::abs(m_plot->xAxis->coordToPixel(xOf(swap)) - mouse->position().x()); d < best)
        best = d, found = &swap;
    if (mouse->button() == Qt::LeftButton && found) Q_EMIT swapChosen(*found);
  }
  if (watched == m_plot && event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    QStringList lines;
    for (const KernelSwapEvent& swap : m_swaps)
      if (std::abs(m_plot->xAxis->coordToPixel(xOf(swap)) - help->x()) < 6)
        lines << tr("step %1: %2, %3 to %4")
                     .arg(grouped(swap.step), shortName(swap.name), microsecondsText(swap.before_us),
                          microsecondsText(swap.after_us));
    QToolTip::showText(help->globalPos(), lines.join(QLatin1Char('\n')), this);
    return true;
  }
  return Plot::eventFilter(watched, event);
}

LossPlot::LossPlot(const Theme* theme, bool compact, QWidget* parent) : Plot(theme, tr("Loss"), parent), m_compact(compact) {
  dress();
  fixMargins(m_plot, compact, true);
  requestRedraw();
}

void LossPlot::dress() {
  Plot::dress();
  m_plot->yAxis2->grid()->setVisible(false);
  m_plot->yAxis2->setTickLabelColor(m_theme->colors().backward);
}

void LossPlot::clear() { setRun({}, {}); }

void LossPlot::setRun(const std::vector<StepEvent>& steps, std::vector<EvalEvent> evals) {
  m_steps.clear();
  for (const StepEvent& s : steps)
    if (s.loss && std::isfinite(*s.loss)) m_steps.push_back(s);
  m_evals = std::move(evals);
  requestRedraw();
}

void LossPlot::addStep(const StepEvent& step) {
  if (step.loss && std::isfinite(*step.loss)) m_steps.push_back(step);
  requestRedraw();
}

void LossPlot::addEval(const EvalEvent& eval) {
  m_evals.push_back(eval);
  requestRedraw();
}

void LossPlot::setAxis(TrainingAxis axis) {
  m_axis = axis;
  requestRedraw();
}

double LossPlot::xOf(std::int64_t step) const {
  return m_axis == TrainingAxis::Time ? secondsOfStep(m_steps, step) : static_cast<double>(step);
}

PlotTable LossPlot::table() const {
  PlotTable out{{tr("step"), tr("seconds"), tr("loss"), tr("held-out loss"), tr("held-out accuracy")}, {}};
  std::size_t eval = 0;
  const auto add = [&](const EvalEvent& e) {
    out.rows.push_back({QVariant::fromValue<qlonglong>(e.step), secondsOfStep(m_steps, e.step), QVariant(),
                        e.loss ? QVariant(*e.loss) : QVariant(), e.accuracy ? QVariant(*e.accuracy) : QVariant()});
  };
  for (const StepEvent& s : m_steps) {
    for (; eval < m_evals.size() && m_evals[eval].step < s.step; ++eval) add(m_evals[eval]);
    out.rows.push_back({QVariant::fromValue<qlonglong>(s.step), s.seconds, *s.loss, QVariant(), QVariant()});
  }
  for (; eval < m_evals.size(); ++eval) add(m_evals[eval]);
  return out;
}

void LossPlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  QVector<double> x, y, ex, ey, ax, ay;
  double least = HUGE_VAL, most = -HUGE_VAL, last = 0;
  const auto places = static_cast<std::size_t>(std::clamp(m_plot->width() / 3, 40, 600));
  const std::size_t per = (m_steps.size() + places - 1) / places;
  for (std::size_t i = 0; i < m_steps.size(); i += std::max<std::size_t>(1, per)) {
    // A single batch says little: the line is the mean of the bucket.
    double sum = 0;
    const std::size_t end = std::min(i + per, m_steps.size());
    for (std::size_t k = i; k < end; ++k) sum += *m_steps[k].loss;
    x << xOf(m_steps[end - 1].step), y << sum / static_cast<double>(end - i);
  }
  for (const EvalEvent& e : m_evals) {
    if (e.loss && std::isfinite(*e.loss)) ex << xOf(e.step), ey << *e.loss;
    if (e.accuracy && std::isfinite(*e.accuracy)) ax << xOf(e.step), ay << *e.accuracy;
  }
  for (const auto* values : {&y, &ey})
    for (const double v : *values) least = std::min(least, v), most = std::max(most, v);
  for (const auto* places : {&x, &ex, &ax})
    for (const double v : *places) last = std::max(last, v);
  const bool empty = x.isEmpty() && ex.isEmpty() && ax.isEmpty();
  AxisRange range;
  range.low = least, range.high = most, range.positive = least > 0, range.room = 0.1;
  nf::setAxis(m_plot->yAxis, range, plainTick);
  setStepAxis(m_plot, m_axis, 0, last, m_compact ? 0.12 : 0.09);
  sayEmpty(m_plot, m_theme, empty ? tr("Loss and held-out accuracy are drawn here.") : QString());
  m_plot->xAxis->setLabel(m_compact || empty ? QString() : m_axis == TrainingAxis::Time ? tr("since training began") : tr("step"));
  m_plot->yAxis2->setVisible(!ay.isEmpty());
  if (empty) return;
  auto* loss = m_plot->addGraph();
  loss->setData(x, y, true);
  loss->setPen(QPen(c.accent, 1.6));
  if (!x.isEmpty()) {
    for (int i = 0; i + 1 < x.size(); ++i) avoidLine(x[i], y[i], x[i + 1], y[i + 1]);
    addLabel({tr("loss %1").arg(significant(y.back(), 3)),
              x.back(),
              y.back(),
              {Side::AboveLeft, Side::BelowLeft, Side::Above},
              QFont::DemiBold,
              c.text,
              4,
              2,
              true});
  }
  if (!ex.isEmpty()) {
    auto* held = m_plot->addGraph();
    held->setData(ex, ey, true);
    held->setPen(QPen(c.muted, 1.2, Qt::DashLine));
  }
  if (!ay.isEmpty()) {
    const auto [low, high] = std::minmax_element(ay.begin(), ay.end());
    AxisRange share;
    share.low = std::min(*low, 1.0), share.high = std::max(*high, share.low + 0.01), share.positive = false, share.room = 0.12;
    nf::setAxis(m_plot->yAxis2, share, percentTick);
    m_plot->yAxis2->setScaleType(QCPAxis::stLinear);
    m_plot->yAxis2->setTickLabels(!m_compact);  // the last value is named beside its point
    auto* accuracy = m_plot->addGraph(m_plot->xAxis, m_plot->yAxis2);
    accuracy->setData(ax, ay, true);
    accuracy->setPen(QPen(c.backward, 1.4));
    if (ax.size() < 80)
      accuracy->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(c.backward, 1.2), QBrush(c.page), 5));
    // Labels know the left axis: the place on it that is as high.
    const double pixel = m_plot->yAxis2->coordToPixel(ay.back());
    const auto leftOf = [&](double value) { return m_plot->yAxis->pixelToCoord(m_plot->yAxis2->coordToPixel(value)); };
    for (int i = 0; i + 1 < ax.size(); ++i) avoidLine(ax[i], leftOf(ay[i]), ax[i + 1], leftOf(ay[i + 1]));
    addLabel({tr("held out %1 %").arg(QString::number(ay.back() * 100, 'f', 1)),
              ax.back(),
              m_plot->yAxis->pixelToCoord(pixel),
              {Side::BelowLeft, Side::AboveLeft, Side::Below, Side::Above},
              QFont::DemiBold,
              c.backward,
              4,
              2,
              true});
  }
  if (!ex.isEmpty())
    addLabel({tr("held-out loss"), ex.back(), ey.back(), {Side::AboveLeft, Side::BelowLeft}, QFont::Normal, c.muted, 4, 2, false});
}

}  // namespace nf
