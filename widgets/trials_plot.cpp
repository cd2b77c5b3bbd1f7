// SPDX-License-Identifier: GPL-3.0-or-later
// Every trial of a search: what was measured, what failed, the best so far, the playhead.
#include <qcustomplot.h>

#include <QKeyEvent>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <optional>

#include "widgets/basic.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"
#include "widgets/trial_marks.h"

namespace nf {
namespace {

using protocol::TrialInfo;
using protocol::TrialStatus;

// "Faster beyond noise" needs intervals that do not touch; a time without one counts as it is.
bool beats(const TrialInfo& now, const TrialInfo& before) {
  return now.highUs.value_or(*now.us) < before.lowUs.value_or(*before.us);
}

// The best measured trial up to and with `number`.
const TrialInfo* bestUpTo(const std::vector<TrialInfo>& trials, std::uint64_t number) {
  const TrialInfo* best = nullptr;
  for (const TrialInfo& t : trials)
    if (t.number <= number && measured(t) && (!best || *t.us < *best->us)) best = &t;
  return best;
}

}  // namespace

TrialsPlot::TrialsPlot(const Theme* theme, QWidget* parent) : Plot(theme, tr("Trials"), parent) {
  dress();
  m_plot->axisRect()->setAutoMargins(QCP::msNone);
  m_plot->axisRect()->setMargins(QMargins(kTrialsMargin, 4, 16, 22));
  requestRedraw();
}

void TrialsPlot::setAxis(Axis axis) {
  m_axis = axis;
  requestRedraw();
}

void TrialsPlot::setTrials(const std::vector<TrialInfo>& trials) {
  m_trials = trials;
  requestRedraw();
}

void TrialsPlot::setCurrent(std::optional<std::uint64_t> number) {
  m_current = number;
  requestRedraw();
}

void TrialsPlot::setInUse(std::optional<std::uint64_t> number) {
  if (m_inUse == number) return;
  m_inUse = number;
  requestRedraw();
}

int TrialsPlot::failures() const { return static_cast<int>(std::count_if(m_trials.begin(), m_trials.end(), failed)); }

std::optional<double> TrialsPlot::xOf(const TrialInfo& trial) const {
  switch (m_axis) {
    case Axis::Trials: return static_cast<double>(trial.number);
    case Axis::Time: return trial.seconds;
    case Axis::Predicted: return trial.predictedUs && *trial.predictedUs > 0 ? trial.predictedUs : std::nullopt;
  }
  return std::nullopt;
}

double TrialsPlot::yOf(const TrialInfo& trial) const { return trial.us && !failed(trial) ? *trial.us : m_strip; }

QPoint TrialsPlot::pixelOf(std::uint64_t number) const {
  for (const TrialInfo& t : m_trials)
    if (const auto x = xOf(t); t.number == number && x)
      return QPointF(m_plot->xAxis->coordToPixel(*x), m_plot->yAxis->coordToPixel(yOf(t))).toPoint();
  return {-1, -1};
}

std::optional<std::uint64_t> TrialsPlot::trialAt(QPoint at) const {
  double best = 12 * 12;
  std::optional<std::uint64_t> found;
  for (const TrialInfo& t : m_trials) {
    const auto x = xOf(t);
    if (!x || (!t.us && !failed(t) && !m_showsUntimed)) continue;
    const double dx = m_plot->xAxis->coordToPixel(*x) - at.x(), dy = m_plot->yAxis->coordToPixel(yOf(t)) - at.y();
    if (dx * dx + dy * dy < best) best = dx * dx + dy * dy, found = t.number;
  }
  return found;
}

bool TrialsPlot::eventFilter(QObject* watched, QEvent* event) {
  if (watched == m_plot && event->type() == QEvent::MouseButtonRelease) {
    const auto* mouse = static_cast<QMouseEvent*>(event);
    if (mouse->button() == Qt::LeftButton)
      if (const auto trial = trialAt(mouse->pos())) Q_EMIT trialChosen(*trial);
  }
  if (watched == m_plot && event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    QStringList lines;
    if (const auto number = trialAt(help->pos()))
      for (const TrialInfo& t : m_trials)
        if (t.number == *number) {
          lines << nameOf(t) + QStringLiteral("  ") + timeOf(t);
          if (const QString words = statusWords(t); !words.isEmpty()) lines << words;
          if (t.predictedUs) lines << tr("predicted %1").arg(microsecondsText(*t.predictedUs));
          if (const QString words = turnsText(t); !words.isEmpty()) lines << words;
          if (!t.how.empty()) lines << QString::fromStdString(t.how);
        }
    QToolTip::showText(help->globalPos(), lines.join(QLatin1Char('\n')), this);
    return true;
  }
  return Plot::eventFilter(watched, event);
}

// The playhead: to the trial beside, a generation on, the ends.
void TrialsPlot::keyPressEvent(QKeyEvent* event) {
  if (m_trials.empty()) return QWidget::keyPressEvent(event);
  auto at = std::find_if(m_trials.begin(), m_trials.end(), [&](const TrialInfo& t) { return t.number == m_current; });
  const bool none = at == m_trials.end();
  if (none) {
    const TrialInfo* best = bestUpTo(m_trials, m_trials.back().number);
    at = best ? m_trials.begin() + (best - m_trials.data()) : m_trials.end() - 1;
  }
  auto to = at;
  const auto generation = at->generation;
  switch (event->key()) {
    case Qt::Key_Left:
      if (to != m_trials.begin()) --to;
      break;
    case Qt::Key_Right:
      if (to + 1 != m_trials.end()) ++to;
      break;
    case Qt::Key_PageUp:
      while (to != m_trials.begin() && to->generation >= generation) --to;
      break;
    case Qt::Key_PageDown:
      while (to + 1 != m_trials.end() && to->generation <= generation) ++to;
      break;
    case Qt::Key_Home: to = m_trials.begin(); break;
    case Qt::Key_End: to = m_trials.end() - 1; break;
    default: return QWidget::keyPressEvent(event);
  }
  if (to != at || none) Q_EMIT trialChosen(to->number);
}

PlotTable TrialsPlot::table() const {
  PlotTable out{{tr("trial"), tr("generation"), tr("seconds"), tr("status"), tr("µs"), tr("low µs"), tr("high µs"),
                 tr("predicted µs"), tr("in turns µs"), tr("how"), tr("schedule")},
                {}};
  constexpr auto names = protocol::enumNames(TrialStatus{});
  const auto number = [](const std::optional<double>& v) { return v ? QVariant(*v) : QVariant(); };
  for (const TrialInfo& t : m_trials)
    out.rows.push_back({QVariant::fromValue<qulonglong>(t.number), QVariant::fromValue<qlonglong>(t.generation), t.seconds,
                        untimed(t) ? statusWords(t) : QString::fromLatin1(names[static_cast<std::size_t>(t.status)]), number(t.us),
                        number(t.lowUs), number(t.highUs), number(t.predictedUs), number(t.besideUs), QString::fromStdString(t.how),
                        QString::fromStdString(t.schedule.text)});
  return out;
}

QList<QPointF> TrialsPlot::bestSoFar() {
  drawNow();
  return m_best;
}

void TrialsPlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  m_best.clear();
  QVector<double> x, y, px, py, sx, sy;
  double least = HUGE_VAL, most = 0, first = HUGE_VAL, last = -HUGE_VAL, lowest = HUGE_VAL;
  const TrialInfo* best = nullptr;  // the newest that was faster beyond noise: another may be lower
  for (const TrialInfo& t : m_trials) {
    const auto at = xOf(t);
    if (!at) continue;
    first = std::min(first, *at), last = std::max(last, *at);
    if (dropped(t)) px << *at, py << *t.us;
    if (measured(t)) {
      x << *at, y << *t.us;
      if (!best || (*t.us < *best->us && beats(t, *best))) best = &t;
      if (*t.us < lowest) lowest = *t.us, sx << *at, sy << lowest;
    }
    if (t.us && !failed(t)) least = std::min(least, *t.us), most = std::max(most, *t.us);
  }
  const bool empty = !(first <= last);
  QString nothing;
  if (m_trials.empty()) nothing = never().isEmpty() ? tr("Every trial is a point here once the search runs.") : never();
  else if (empty) nothing = tr("The search has predicted no trial yet: its model learns from the first ones.");

  const bool square = m_axis == Axis::Predicted;
  if (square && !empty) least = std::min(least, first), most = std::max(most, last);
  AxisRange range;
  range.low = least, range.high = most, range.room = 0.08;
  nf::setAxis(m_plot->yAxis, range, microsecondTick);
  // The strip of failures: above everything measured, in an eighth of the height.
  const QCPRange inner = m_plot->yAxis->range();
  const bool log = m_plot->yAxis->scaleType() == QCPAxis::stLogarithmic, any = failures() > 0 && !square;
  const auto above = [&](double share) {
    return log ? inner.upper * std::pow(inner.upper / inner.lower, share) : inner.upper + inner.size() * share;
  };
  m_strip = above(0.08);
  // Beside a time or a failure also those that have neither; alone they are told in words.
  m_showsUntimed = !square && (any || least <= most) && std::any_of(m_trials.begin(), m_trials.end(), untimed);
  if (any || m_showsUntimed) {
    range.labelsUpTo = inner.upper;
    nf::setAxis(m_plot->yAxis, range, microsecondTick);
    m_plot->yAxis->setRange(inner.lower, above(0.16));
    auto* edge = new QCPItemStraightLine(m_plot);
    edge->point1->setCoords(0, inner.upper);
    edge->point2->setCoords(1, inner.upper);
    edge->setPen(QPen(c.separator, 1));
    auto* title = new QCPItemText(m_plot);
    title->setText(!any ? tr("not timed") : m_showsUntimed ? tr("no time") : tr("failed"));
    title->setFont(m_theme->ui(11));
    title->setColor(c.muted);
    title->setClipToAxisRect(false);
    title->setPositionAlignment(Qt::AlignVCenter | Qt::AlignRight);
    title->position->setTypeX(QCPItemPosition::ptAxisRectRatio);
    title->position->setCoords(-0.008, m_strip);
  }
  if (square) {
    nf::setAxis(m_plot->xAxis, range, microsecondTick);
  } else {
    AxisRange across;
    across.low = empty ? 0 : std::min(first, 0.0),
    across.high = empty ? 10 : std::max(last, across.low + (m_axis == Axis::Time ? 0.01 : 1));
    across.positive = false, across.room = 0.02, across.integers = m_axis == Axis::Trials;
    nf::setAxis(m_plot->xAxis, across, m_axis == Axis::Time ? secondTick : countTick);
    m_plot->xAxis->setRange(across.low - (across.high - across.low) * 0.015, across.high + (across.high - across.low) * 0.05);
  }
  const bool noTime = !empty && !(least <= most);
  if (noTime && !any) nothing = tr("No trial has a time yet.");
  sayEmpty(m_plot, m_theme, nothing);
  if (noTime) m_plot->yAxis->setTickLabels(false), m_plot->yAxis->grid()->setVisible(false);
  m_plot->axisRect()->setMargins(QMargins(kTrialsMargin, 4, 16, square ? 36 : 22));
  m_plot->xAxis->setLabel(square ? tr("predicted; measured on the other axis") : QString());
  if (empty) return;

  if (square) {
    auto* equal = m_plot->addGraph();
    const double low = m_plot->xAxis->range().lower, high = m_plot->xAxis->range().upper;
    equal->setData({low, high}, {low, high}, true);
    equal->setPen(QPen(c.muted, 1, Qt::DashLine));
    addLabel({tr("as predicted"), high, high, {Side::BelowLeft}, QFont::Normal, c.muted, 8, 0, false});
  }
  const QColor grey = mixed(c.page, c.muted, 0.75);
  auto* points = m_plot->addGraph();
  points->setData(x, y);
  points->setLineStyle(QCPGraph::lsNone);
  points->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, grey, m_trials.size() > 400 ? 4 : 5));
  auto* early = m_plot->addGraph();
  early->setData(px, py);
  early->setLineStyle(QCPGraph::lsNone);
  early->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(grey, 1), Qt::NoBrush, 4));
  if (!square) {
    // It holds up to the last trial; a single one is a curve, too.
    const double until = last > first ? last : m_axis == Axis::Trials ? first + 1 : m_plot->xAxis->range().upper;
    if (best) sx << until, sy << lowest;
    for (qsizetype i = 0; i < sx.size(); ++i) m_best << QPointF(sx[i], sy[i]);
    auto* stairs = m_plot->addGraph();
    stairs->setData(sx, sy, true);
    stairs->setLineStyle(QCPGraph::lsStepLeft);
    stairs->setPen(QPen(c.accent, 2));
    for (const FailureKind& kind : kFailures) {
      QVector<double> fx, fy;
      for (const TrialInfo& t : m_trials)
        if (failed(t) && t.status == kind.status) fx << *xOf(t), fy << m_strip;
      if (fx.isEmpty()) continue;
      auto* marks = m_plot->addGraph();
      marks->setData(fx, fy);
      marks->setLineStyle(QCPGraph::lsNone);
      marks->setScatterStyle(QCPScatterStyle(kind.shape, QPen(c.failed, 1.3), Qt::NoBrush, 7));
    }
    if (m_showsUntimed) {
      QVector<double> ux, uy;
      for (const TrialInfo& t : m_trials)
        if (untimed(t)) ux << *xOf(t), uy << m_strip;
      QPainterPath dash(QPointF(-3, 0));
      dash.lineTo(3, 0);
      auto* marks = m_plot->addGraph();
      marks->setData(ux, uy);
      marks->setLineStyle(QCPGraph::lsNone);
      marks->setScatterStyle(QCPScatterStyle(dash, QPen(grey, 1.3), Qt::NoBrush, 7));
    }
  }
  for (const TrialInfo& t : m_trials)
    if (const auto at = xOf(t); at && (t.us || failed(t))) avoid(*at, yOf(t), 3);
  if (!square && !m_current && best)
    addLabel({microsecondsText(lowest) != microsecondsText(*best->us)
                  ? tr("%1, within the noise of %2").arg(microsecondsText(lowest), microsecondsText(*best->us))
                  : tr("best %1").arg(microsecondsText(*best->us)),
              m_plot->xAxis->range().upper,
              lowest,
              {Side::AboveLeft, Side::BelowLeft},
              QFont::DemiBold,
              c.text,
              4,
              2,
              true});
  for (const TrialInfo& t : m_trials) {
    const auto at = xOf(t);
    if (t.number != m_inUse || !at || !t.us) continue;
    auto* mark = m_plot->addGraph();
    mark->setData({*at}, {*t.us});
    mark->setLineStyle(QCPGraph::lsNone);
    mark->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDiamond, QPen(c.text, 1.4), c.page, 9));
    if (m_inUse == m_current) continue;
    addLabel({tr("in use"),
              *at,
              *t.us,
              {Side::BelowRight, Side::AboveRight, Side::BelowLeft, Side::AboveLeft},
              QFont::Normal,
              c.text,
              7,
              6,
              true});
  }
  for (const TrialInfo& t : m_trials) {
    const auto at = xOf(t);
    if (t.number != m_current || !at) continue;
    if (!square) {
      auto* head = new QCPItemStraightLine(m_plot);
      head->point1->setCoords(*at, 1);
      head->point2->setCoords(*at, 2);
      head->setPen(QPen(c.accent, 1.4));
    }
    auto* ring = m_plot->addGraph();
    ring->setData({*at}, {yOf(t)});
    ring->setLineStyle(QCPGraph::lsNone);
    ring->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(c.accent, 2), c.page, 9));
    const QString words = statusWords(t);
    addLabel({nameOf(t) + QStringLiteral(", ") + (words.isEmpty() ? timeOf(t) : words) +
                  (m_inUse == m_current ? tr(", in use") : QString()),
              *at,
              yOf(t),
              {Side::BelowRight, Side::BelowLeft, Side::AboveRight, Side::AboveLeft},
              QFont::DemiBold,
              c.text,
              7,
              6,
              true});
  }
}

}  // namespace nf
