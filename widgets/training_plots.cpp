// SPDX-License-Identifier: GPL-3.0-or-later
// Latency and loss over the steps of a training run.
#include <qcustomplot.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "widgets/basic.h"
#include "widgets/eval_values.h"
#include "widgets/names.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"

namespace nf {
namespace {

using protocol::EvalEvent;
using protocol::KernelSwapEvent;
using protocol::StepEvent;

constexpr int kLeftMargin = 62, kRightMargin = 44;  // latency and loss stand one above the other: their axes line up
constexpr int kTopMargin = 14;                      // the numbers of swaps

std::int64_t weightOf(const StepEvent& event) { return std::max<std::int64_t>(1, event.steps); }

// Of the steps that count; an event that stands for several counts as often.
template <class Events, class F>
std::optional<double> medianOf(const Events& events, F&& counts) {
  std::vector<std::pair<double, std::int64_t>> values;
  std::int64_t steps = 0, passed = 0;
  for (const StepEvent& s : events)
    if (s.ms > 0 && counts(s)) {
      values.emplace_back(s.ms, weightOf(s));
      steps += values.back().second;
    }
  std::sort(values.begin(), values.end());
  for (const auto& [ms, count] : values)
    if ((passed += count) * 2 > steps) return ms;
  return std::nullopt;
}

double placeOf(const StepEvent& event, TrainingAxis axis) {
  return axis == TrainingAxis::Time ? event.seconds : static_cast<double>(event.step);
}

// Calls use(begin, end) with the events of every bucket a few pixels wide. Events stand closer where steps were few.
template <class F>
void eachBucket(const std::vector<StepEvent>& steps, int pixels, TrainingAxis axis, F&& use) {
  if (steps.empty()) return;
  const double first = placeOf(steps.front(), axis), span = placeOf(steps.back(), axis) - first;
  const double most = std::max(40, pixels / 3);
  // The last step, too, stands among those before it.
  const auto bucketOf = [&](std::size_t i) {
    return span > 0 ? std::min(std::floor((placeOf(steps[i], axis) - first) / span * most), most - 1) : 0.0;
  };
  for (std::size_t begin = 0; begin < steps.size();) {
    std::size_t end = begin + 1;
    while (end < steps.size() && bucketOf(end) == bucketOf(begin)) ++end;
    use(steps.begin() + static_cast<std::ptrdiff_t>(begin), steps.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
}

struct Band {
  QVector<double> x, low, high;
};

// The least and the most of each bucket's steps.
Band bucketed(const std::vector<StepEvent>& steps, int pixels, TrainingAxis axis) {
  Band out;
  eachBucket(steps, pixels, axis, [&](auto begin, auto end) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (const StepEvent& s : std::ranges::subrange(begin, end)) {
      if (!(s.ms > 0)) continue;
      low = std::min(low, s.ms_min > 0 ? s.ms_min : s.ms);
      high = std::max(high, s.ms_max > 0 ? s.ms_max : s.ms);
    }
    if (high < low) return;
    out.x << placeOf(*std::prev(end), axis);
    out.low << low, out.high << high;
  });
  return out;
}

// The band between two lines, which are not drawn themselves.
void drawBand(QCustomPlot* plot, const QVector<double>& x, const QVector<double>& low, const QVector<double>& high, QColor color) {
  auto* bottom = plot->addGraph();
  auto* top = plot->addGraph();
  bottom->setData(x, low, true), top->setData(x, high, true);
  bottom->setPen(Qt::NoPen), top->setPen(Qt::NoPen);
  color.setAlphaF(0.18F);
  top->setBrush(color);
  top->setChannelFillGraph(bottom);
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

QString percentText(double share) { return QStringLiteral("%1 %").arg(QString::number(share * 100, 'f', 1)); }

double finiteOr(const std::optional<double>& value, double otherwise) {
  return value && std::isfinite(*value) ? *value : otherwise;
}

// Right of the last step there is room for what the lines are called at their ends, unless words would take most of the plot.
void setStepAxis(QCustomPlot* plot, const Theme* theme, TrainingAxis axis, double first, double last) {
  AxisRange range;
  range.low = first, range.high = std::max(last, first + (axis == TrainingAxis::Time ? 1e-3 : 1));
  range.integers = axis == TrainingAxis::Steps;
  range.positive = false;
  range.room = 0;
  range.labelsUpTo = range.high;  // right of it stand words
  setAxis(plot->xAxis, range, axis == TrainingAxis::Time ? secondTick : countTick);
  const double width = std::max(80, plot->width() - theme->scaled(kLeftMargin + kRightMargin));
  const QFontMetricsF widest(theme->ui(11, QFont::DemiBold));
  const double words = std::max(widest.horizontalAdvance(QObject::tr("held out 100.00 %")),
                                widest.horizontalAdvance(QObject::tr("loss %1").arg(significant(0.0004444, 4))));
  constexpr double kMostWords = 0.5;
  const double share = (words + 14) / width, room = share > kMostWords ? 0 : share;
  plot->xAxis->setRange(first, range.high + (range.high - first) * room / (1 - room));
}

void fixMargins(QCustomPlot* plot, const Theme* theme, bool compact, bool labels) {
  plot->axisRect()->setAutoMargins(QCP::msNone);
  plot->axisRect()->setMargins(QMargins(theme->scaled(kLeftMargin), theme->scaled(kTopMargin), theme->scaled(kRightMargin),
                                        theme->scaled(labels ? (compact ? 22 : 36) : 8)));
}

}  // namespace

LatencyPlot::LatencyPlot(const Theme* theme, bool compact, QWidget* parent)
    : Plot(theme, tr("Step latency"), parent), m_compact(compact) {
  dress();
  requestRedraw();
}

void LatencyPlot::clear() { setSteps({}, {}); }

void LatencyPlot::setSteps(std::vector<StepEvent> steps, std::vector<KernelSwapEvent> swaps) {
  m_steps = std::move(steps), m_swaps = std::move(swaps);
  m_figureMs = 0;
  requestRedraw();
}

void LatencyPlot::setFigure(double milliseconds) {
  if (std::exchange(m_figureMs, milliseconds) != milliseconds) requestRedraw();
}

double LatencyPlot::figure() const { return m_figureMs > 0 ? m_figureMs : now().value_or(0); }

void LatencyPlot::addStep(const StepEvent& step) {
  m_steps.push_back(step);
  m_figureMs = 0;
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

namespace {
QString swapName(const KernelSwapEvent& swap) {
  return swap.split ? QObject::tr("%1 split").arg(shortName(swap.name)) : shortName(swap.name);
}
}  // namespace

double LatencyPlot::xOf(const KernelSwapEvent& swap) const {
  if (m_axis == TrainingAxis::Steps) return static_cast<double>(swap.step);
  return swap.step > 0 ? secondsOfStep(m_steps, swap.step) : swap.seconds;
}

std::vector<protocol::StepTime> LatencyPlot::times() const {
  std::vector<protocol::StepTime> out;
  for (const StepEvent& s : m_steps)
    if (s.ms > 0) out.push_back({s.step, s.ms, weightOf(s)});
  return out;
}

std::optional<protocol::AgainstPeer> LatencyPlot::againstPeer() const {
  return m_peerMs > 0 ? protocol::againstPeer(times(), m_peerMs) : std::nullopt;
}

// The first step is cold. Without a swap there is nothing to tell first kernels from.
std::optional<double> LatencyPlot::firstKernels() const {
  if (m_swaps.empty()) return std::nullopt;
  return medianOf(m_steps, [until = m_swaps.front().step](const StepEvent& s) { return s.step > 1 && s.step <= until; });
}

std::optional<double> LatencyPlot::now() const {
  const auto medians = protocol::runningMedians(times());
  return medians.empty() ? std::nullopt : std::optional(medians.back());
}

std::optional<protocol::StepSpread> LatencyPlot::newest() const { return protocol::newestSteps(times()); }

PlotTable LatencyPlot::table() const {
  PlotTable out{{tr("step"), tr("seconds"), tr("ms"), tr("least ms"), tr("most ms"), tr("steps"), tr("kernel swap")}, {}};
  std::size_t swap = 0;
  for (const StepEvent& s : m_steps) {
    QStringList names;
    for (; swap < m_swaps.size() && m_swaps[swap].step <= s.step; ++swap)
      names << tr("%1: %2 to %3")
                   .arg(swapName(m_swaps[swap]), microsecondsText(m_swaps[swap].before_us),
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
  const Band band = bucketed(m_steps, m_plot->width() - m_theme->scaled(kLeftMargin), m_axis);
  const bool empty = band.x.isEmpty();
  drawBand(m_plot, band.x, band.low, band.high, c.accent);
  QVector<double> x, medians;
  for (const double ms : protocol::runningMedians(times())) medians << ms;
  for (const StepEvent& s : m_steps)
    if (s.ms > 0) x << placeOf(s, m_axis);
  auto* line = m_plot->addGraph();
  line->setData(x, medians, true);
  line->setPen(QPen(c.accent, m_compact ? 1.6 : 2));

  double least = HUGE_VAL, most = 0;
  for (const double v : band.low) least = std::min(least, v);
  for (const double v : band.high) most = std::max(most, v);
  if (m_peerMs > 0 && !empty) least = std::min(least, m_peerMs), most = std::max(most, m_peerMs);
  AxisRange y;
  y.low = least, y.high = most, y.room = m_compact ? 0.12 : 0.08;
  nf::setAxis(m_plot->yAxis, y, millisecondTick);
  const double first = empty ? 0 : band.x.front(), last = empty ? 1 : band.x.back();
  setStepAxis(m_plot, m_theme, m_axis, 0, last);  // as that of the loss below it
  sayEmpty(m_plot, m_theme, empty ? tr("Each step is drawn here while a model trains.") : QString());
  // On the screen the loss stands below and has the labels of the axis for both.
  const bool foot = m_compact || m_saving;
  fixMargins(m_plot, m_theme, m_compact && !m_saving, foot);
  m_plot->xAxis->setTickLabels(foot && !empty);
  m_plot->xAxis->setLabel(!m_saving || empty ? QString() : m_axis == TrainingAxis::Time ? tr("since training began") : tr("step"));
  if (empty) return;

  for (int i = 0; i + 1 < band.x.size(); ++i)
    avoidBox(band.x[i], std::min(band.low[i], band.low[i + 1]), band.x[i + 1], std::max(band.high[i], band.high[i + 1]));
  const double figure = this->figure();
  avoid(last, figure, 4);
  auto* dot = m_plot->addGraph();
  dot->setData({last}, {figure});
  dot->setLineStyle(QCPGraph::lsNone);
  dot->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 7));
  addLabel(
      {shortMilliseconds(figure), last, figure, {Side::Right, Side::AboveRight, Side::Above}, QFont::DemiBold, c.text, 8, 0, true});

  const auto reference = [&](double value, Qt::PenStyle style, const QString& name) {
    auto* rule = new QCPItemStraightLine(m_plot);
    rule->point1->setCoords(first, value);
    rule->point2->setCoords(last + 1, value);
    rule->setPen(QPen(mixed(c.page, c.muted, 0.8), 1, style));
    const double right = m_plot->xAxis->range().upper;
    Label label{name, right, value, {Side::AboveLeft, Side::BelowLeft}, QFont::Normal, c.muted, 2, 0, true};
    for (const double share : {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3})
      label.elsewhere.emplace_back(first + (right - first) * share, value);
    addLabel(std::move(label));
    avoidLine(first, value, right, value);
  };
  if (m_peerMs > 0) reference(m_peerMs, Qt::DashLine, QStringLiteral("%1, %2").arg(m_peer, shortMilliseconds(m_peerMs)));
  if (const auto value = firstKernels(); value && !m_compact)
    reference(*value, Qt::DotLine, tr("first kernels, %1").arg(shortMilliseconds(*value)));

  // Swaps: each has its tick; those at one place share a name, which stands at the drop where there is room.
  const double span = std::max(1e-9, m_plot->xAxis->range().size()),
               width = std::max(80, m_plot->width() - m_theme->scaled(kLeftMargin) - 16);
  std::vector<std::pair<double, Label>> names;  // by what was won
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
      const QCPRange y = m_plot->yAxis->range();
      avoidLine(xOf(m_swaps[k]), y.lower, xOf(m_swaps[k]), y.upper, true);
      if (gain(k) > gain(chief)) chief = k;
    }
    const KernelSwapEvent& swap = m_swaps[chief];
    QString text = kernelName(swap.name.empty() ? swap.subgraph.substr(0, 8) : swap.name, m_compact ? 12 : 18);
    if (swap.generation > 0) text += QStringLiteral(" g%1").arg(swap.generation);
    if (swap.split) text += tr(" split");
    if (end - i > 1) text += tr(" and %1 more").arg(end - i - 1);
    const auto at = std::lower_bound(band.x.begin(), band.x.end(), x);
    const auto place = std::min<qsizetype>(at - band.x.begin(), band.x.size() - 1);
    Label name{text, x, band.high[place], {Side::AboveRight, Side::AboveLeft}, QFont::Normal, c.text, 4, m_compact ? 5 : 12, false};
    // Right of all that it speaks for.
    name.elsewhere.emplace_back(xOf(m_swaps[end - 1]), band.high[place]);
    names.emplace_back(gain(chief), std::move(name));
    i = end;
  }
  // Whether there is room for its name or not, each swap has its number, which is its row's in the list.
  const QFont face = m_theme->ui(9);
  const QFontMetrics metrics(face);
  for (std::size_t i = 0; i < m_swaps.size();) {
    const double x = xOf(m_swaps[i]);
    std::size_t end = i + 1;
    const auto text = [&] { return end - i > 1 ? QStringLiteral("%1–%2").arg(i + 1).arg(end) : QString::number(i + 1); };
    while (end < m_swaps.size() && (xOf(m_swaps[end]) - x) / span * width < metrics.horizontalAdvance(text()) + 4) ++end;
    auto* number = new QCPItemText(m_plot);
    number->setText(text());
    number->setFont(face);
    number->setColor(c.muted);
    number->setClipToAxisRect(false);
    number->setPadding({});
    number->setPositionAlignment(Qt::AlignBottom | Qt::AlignLeft);
    number->position->setTypeY(QCPItemPosition::ptAxisRectRatio);
    number->position->setCoords(x, 0);
    i = end;
  }
  // The largest drop has its name first: there may be no room for all.
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [gain, name] : names) {
    name.clear = true;
    addLabel(std::move(name));
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
                     .arg(grouped(swap.step), swapName(swap), microsecondsText(swap.before_us), microsecondsText(swap.after_us));
    QToolTip::showText(help->globalPos(), lines.join(QLatin1Char('\n')), this);
    return true;
  }
  return Plot::eventFilter(watched, event);
}

LossPlot::LossPlot(const Theme* theme, bool compact, QWidget* parent) : Plot(theme, tr("Loss"), parent), m_compact(compact) {
  dress();
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
  m_last = steps.empty() ? std::nullopt : std::optional(steps.back());
  m_evals = std::move(evals);
  requestRedraw();
}

void LossPlot::addStep(const StepEvent& step) {
  if (step.loss && std::isfinite(*step.loss)) m_steps.push_back(step);
  m_last = step;
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

// Not the mean that the line ends with, which hangs on how wide the plot is.
std::optional<double> LossPlot::newest() const { return m_steps.empty() ? std::nullopt : std::optional(*m_steps.back().loss); }

double LossPlot::xOf(std::int64_t step) const {
  return m_axis == TrainingAxis::Time ? secondsOfStep(m_steps, step) : static_cast<double>(step);
}

PlotTable LossPlot::table() const {
  PlotTable out{{tr("step"), tr("seconds"), tr("loss"), tr("least loss"), tr("most loss"), tr("held-out loss")}, {}};
  std::set<std::string> names{"accuracy"};
  for (const EvalEvent& e : m_evals)
    for (const auto& [name, value] : valuesOf(e)) names.insert(name);
  const bool ofInputs = !m_evals.empty() && m_evals.front().of_inputs;
  if (ofInputs && !valuesOf(m_evals.front()).contains("accuracy")) names.erase("accuracy");
  for (const std::string& name : names)
    out.columns << (ofInputs ? tr("%1 on the inputs") : tr("held-out %1")).arg(QString::fromStdString(name));
  std::size_t eval = 0;
  const auto add = [&](const EvalEvent& e) {
    out.rows.push_back({QVariant::fromValue<qlonglong>(e.step), secondsOfStep(m_steps, e.step), QVariant(), QVariant(), QVariant(),
                        e.loss ? QVariant(*e.loss) : QVariant()});
    const auto values = valuesOf(e);
    for (const std::string& name : names) out.rows.back() << (values.contains(name) ? QVariant(values.at(name)) : QVariant());
  };
  for (const StepEvent& s : m_steps) {
    for (; eval < m_evals.size() && m_evals[eval].step < s.step; ++eval) add(m_evals[eval]);
    out.rows.push_back({QVariant::fromValue<qlonglong>(s.step), s.seconds, *s.loss, s.loss_min.value_or(*s.loss),
                        s.loss_max.value_or(*s.loss), QVariant()});
    for (std::size_t i = 0; i < names.size(); ++i) out.rows.back() << QVariant();
  }
  for (; eval < m_evals.size(); ++eval) add(m_evals[eval]);
  return out;
}

void LossPlot::redraw() {
  // In a low plot the labels need the room of the name of the axis.
  const bool flat = m_compact || m_plot->height() < m_theme->scaled(110);
  fixMargins(m_plot, m_theme, flat, true);
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  QVector<double> x, y, low, high, ex, ey, ax, ay;
  std::map<std::string, std::pair<QVector<double>, QVector<double>>> numbers;  // evals that are no share: places and values
  std::map<std::string, double> latest;                                        // of them
  double least = HUGE_VAL, most = -HUGE_VAL, last = 0;
  eachBucket(m_steps, m_plot->width(), m_axis, [&](auto begin, auto end) {
    // A single batch says little: the line is the mean of the bucket, between the least and the most of it.
    double sum = 0, weight = 0, lowest = HUGE_VAL, highest = -HUGE_VAL;
    for (auto s = begin; s != end; ++s) {
      const auto steps = static_cast<double>(weightOf(*s));
      sum += *s->loss * steps, weight += steps;
      lowest = std::min({lowest, *s->loss, finiteOr(s->loss_min, *s->loss)});
      highest = std::max({highest, *s->loss, finiteOr(s->loss_max, *s->loss)});
    }
    x << placeOf(*std::prev(end), m_axis), y << sum / weight;
    low << lowest, high << highest;
  });
  for (const EvalEvent& e : m_evals) {
    if (e.of_inputs) continue;  // one value at the end: no curve, and nothing to take room from the loss's for
    if (e.loss && std::isfinite(*e.loss)) ex << xOf(e.step), ey << *e.loss;
    for (const auto& [name, value] : valuesOf(e)) {
      if (!std::isfinite(value)) continue;
      if (isShare(name, value)) ax << xOf(e.step), ay << value;
      else numbers[name].first << xOf(e.step), numbers[name].second << value, latest[name] = value;
    }
  }
  double positive = HUGE_VAL;  // the least of them
  std::vector<QVector<double>*> measures{&low, &high, &y, &ey};
  for (auto& [name, curve] : numbers) measures.push_back(&curve.second);
  for (const auto* values : measures)
    for (const double v : *values) {
      least = std::min(least, v), most = std::max(most, v);
      if (v > 0) positive = std::min(positive, v);
    }
  // A loss that underflows stands at the foot of the logarithmic axis; it does not flatten all that came before.
  if (least == 0 && std::isfinite(positive)) {
    least = positive / 2;
    for (auto* values : measures)
      for (double& v : *values) v = std::max(v, least);
  }
  for (const auto* places : {&x, &ex, &ax})
    for (const double v : *places) last = std::max(last, v);
  for (const auto& [name, curve] : numbers)
    for (const double v : curve.first) last = std::max(last, v);
  const bool empty = x.isEmpty() && ex.isEmpty() && ax.isEmpty() && numbers.empty();
  if (m_last) last = std::max(last, placeOf(*m_last, m_axis));
  AxisRange range;
  range.low = least, range.high = most, range.positive = least > 0, range.room = 0.1;
  nf::setAxis(m_plot->yAxis, range, plainTick);
  setStepAxis(m_plot, m_theme, m_axis, 0, last);
  sayEmpty(m_plot, m_theme, empty ? tr("Loss and held-out accuracy are drawn here.") : QString());
  m_plot->xAxis->setLabel(flat || empty ? QString() : m_axis == TrainingAxis::Time ? tr("since training began") : tr("step"));
  m_plot->yAxis2->setVisible(!ay.isEmpty());
  if (empty) return;
  drawBand(m_plot, x, low, high, c.accent);
  auto* loss = m_plot->addGraph();
  loss->setData(x, y, true);
  loss->setPen(QPen(c.accent, 1.6));
  if (x.size() == 1) loss->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 5));  // a line has two
  if (!x.isEmpty()) {
    for (int i = 0; i + 1 < x.size(); ++i) {
      avoidLine(x[i], y[i], x[i + 1], y[i + 1]);
      avoidBox(x[i], std::min(low[i], low[i + 1]), x[i + 1], std::max(high[i], high[i + 1]));
    }
    const QString figure = tr("loss %1").arg(significant(*newest(), 4));
    const bool ends = !m_last || m_last->step <= m_steps.back().step;  // with a figure, not with one that is none
    addEndLabel(ends ? figure : tr("%1 at step %2").arg(figure, grouped(m_steps.back().step)), x.back(), y.back(), c.accent);
  }
  if (!ex.isEmpty()) {
    auto* held = m_plot->addGraph();
    held->setData(ex, ey, true);
    held->setPen(QPen(c.muted, 1.2, Qt::DashLine));
    for (int i = 0; i + 1 < ex.size(); ++i) avoidLine(ex[i], ey[i], ex[i + 1], ey[i + 1]);
  }
  if (!ay.isEmpty()) {
    const auto [low, high] = std::minmax_element(ay.begin(), ay.end());
    AxisRange share;
    share.low = std::min(*low, 1.0), share.high = std::max(*high, share.low + 0.01), share.positive = false, share.room = 0.12;
    nf::setAxis(m_plot->yAxis2, share, percentTick);
    m_plot->yAxis2->setScaleType(QCPAxis::stLinear);
    // It has no grid of its own: its labels are those of its least and its most.
    const QSharedPointer<QCPAxisTickerText> ends(new QCPAxisTickerText);
    for (const double end : {*low, *high}) ends->addTick(end, percentText(end));
    m_plot->yAxis2->setTicker(ends);
    auto* accuracy = m_plot->addGraph(m_plot->xAxis, m_plot->yAxis2);
    accuracy->setData(ax, ay, true);
    accuracy->setPen(QPen(c.backward, 1.4));
    if (ax.size() < 80)
      accuracy->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(c.backward, 1.2), QBrush(c.page), 5));
    // Labels know the left axis: the place on it that is as high.
    const double pixel = m_plot->yAxis2->coordToPixel(ay.back());
    const auto leftOf = [&](double value) { return m_plot->yAxis->pixelToCoord(m_plot->yAxis2->coordToPixel(value)); };
    for (int i = 0; i + 1 < ax.size(); ++i) avoidLine(ax[i], leftOf(ay[i]), ax[i + 1], leftOf(ay[i + 1]));
    addEndLabel(tr("held out %1 %").arg(QString::number(ay.back() * 100, 'f', 2)), ax.back(), m_plot->yAxis->pixelToCoord(pixel),
                c.backward);
  }
  for (const auto& [name, curve] : numbers) {
    const auto& [places, values] = curve;
    auto* line = m_plot->addGraph();
    line->setData(places, values, true);
    line->setPen(QPen(c.backward, 1.2, Qt::DotLine));
    if (places.size() < 80)
      line->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssSquare, QPen(c.backward, 1.2), QBrush(c.page), 4));
    for (int i = 0; i + 1 < places.size(); ++i) avoidLine(places[i], values[i], places[i + 1], values[i + 1]);
    addEndLabel(tr("held out %1").arg(evalText({{name, latest[name]}})), places.back(), values.back(), c.backward, QFont::Normal);
  }
  if (!ex.isEmpty()) addEndLabel(tr("held-out loss"), ex.back(), ey.back(), c.muted, QFont::Normal);
}

}  // namespace nf
