// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/plots.h"

#include <qcustomplot.h>

#include <QSvgGenerator>
#include <QTimer>
#include <QVBoxLayout>
#include <cmath>
#include <limits>

#include "widgets/basic.h"

namespace nf {
namespace {

using protocol::TrialInfo;
using protocol::TrialStatus;

// 1, 2, 5 times powers of ten when the range is narrow, whole decades when it is wide; labelled with units.
class NiceTicker : public QCPAxisTicker {
 public:
  NiceTicker(bool log, std::function<QString(double)> text) : m_log(log), m_text(std::move(text)) { setTickCount(5); }

 protected:
  QVector<double> createTickVector(double step, const QCPRange& range) override {
    if (!m_log) return QCPAxisTicker::createTickVector(step, range);
    QVector<double> ticks;
    const double decades = std::log10(std::max(range.upper, 1e-300) / std::max(range.lower, 1e-300));
    for (int e = static_cast<int>(std::floor(std::log10(std::max(range.lower, 1e-300)))); std::pow(10.0, e) <= range.upper; ++e)
      for (const double m : {1.0, 2.0, 5.0}) {
        if (decades > 3.2 && m != 1.0) continue;
        const double tick = m * std::pow(10.0, e);
        if (tick >= range.lower && tick <= range.upper) ticks << tick;
      }
    return ticks;
  }
  QString getTickLabel(double tick, const QLocale&, QChar, int) override { return m_text(tick); }
  QVector<double> createSubTickVector(int, const QVector<double>&) override { return {}; }

 private:
  bool m_log;
  std::function<QString(double)> m_text;
};

void setLog(QCPAxis* axis, bool log, std::function<QString(double)> text) {
  axis->setScaleType(log ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  axis->setTicker(QSharedPointer<QCPAxisTicker>(new NiceTicker(log, std::move(text))));
}

QString countText(double v) { return grouped(static_cast<std::int64_t>(std::llround(v))); }
// "8 ms" where "8.00 ms" says no more.
QString withoutZeros(QString text) {
  const int space = static_cast<int>(text.indexOf(QLatin1Char(' ')));
  if (space < 0 || !text.left(space).contains(QLatin1Char('.'))) return text;
  int end = space;
  while (text[end - 1] == QLatin1Char('0')) --end;
  if (text[end - 1] == QLatin1Char('.')) --end;
  return text.left(end) + text.mid(space);
}
QString shortUs(double us) { return withoutZeros(microsecondsText(us)); }
QString shortMs(double ms) { return shortUs(ms * 1000); }

// What a plot without data says instead of drawing an empty scale.
void sayEmpty(QCustomPlot* plot, const Theme* theme, const QString& text) {
  for (QCPAxis* axis : {plot->xAxis, plot->yAxis}) axis->setTickLabels(text.isEmpty()), axis->grid()->setVisible(text.isEmpty());
  if (text.isEmpty()) return;
  auto* item = new QCPItemText(plot);
  item->setText(text);
  item->setFont(theme->ui(12));
  item->setColor(theme->colors().muted);
  item->position->setType(QCPItemPosition::ptAxisRectRatio);
  item->position->setCoords(0.5, 0.5);
}

// Room for labels; the range is log where it is wider than ten.
void setRange(QCPAxis* axis, double low, double high, std::function<QString(double)> text, bool positive = true) {
  if (!(low <= high)) low = positive ? 0.1 : 0, high = 1;
  const bool log = positive && low > 0 && high / low > 10;
  setLog(axis, log, std::move(text));
  if (log) {
    const double room = std::pow(high / low, 0.06);
    axis->setRange(low / room, high * room);
  } else {
    const double room = high > low ? (high - low) * 0.12 : std::max(std::abs(high) * 0.1, 1e-9);
    axis->setRange(positive ? std::max(0.0, low - room) : low - room, high + room);
  }
}

QCPItemText* words(QCustomPlot* plot, const Theme* theme, const QString& text, double x, double y, Qt::Alignment alignment,
                   int weight = QFont::Normal) {
  auto* item = new QCPItemText(plot);
  item->setText(text);
  item->setFont(theme->ui(11, weight));
  item->setColor(weight > QFont::Normal ? theme->colors().text : theme->colors().muted);
  item->setBrush(theme->colors().page);
  item->setPadding(QMargins(3, 0, 3, 0));
  item->setPositionAlignment(alignment);
  item->position->setCoords(x, y);
  item->setClipToAxisRect(false);
  return item;
}

}  // namespace

Plot::Plot(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_plot(new QCustomPlot), m_timer(new QTimer(this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_plot);
  m_plot->setPlottingHint(QCP::phFastPolylines, true);
  m_timer->setSingleShot(true);
  m_timer->setInterval(50);
  connect(m_timer, &QTimer::timeout, this, [this] {
    redraw();
    m_plot->replot();
  });
  connect(theme, &Theme::changed, this, [this] {
    dress();
    requestRedraw();
  });
}

void Plot::requestRedraw() {
  if (!m_timer->isActive()) m_timer->start();
}

void Plot::dress() {
  const Palette& c = m_theme->colors();
  m_plot->setBackground(c.page);
  for (QCPAxis* axis : {m_plot->xAxis, m_plot->yAxis}) {
    axis->setBasePen(Qt::NoPen);
    axis->setTickPen(Qt::NoPen);
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLabelFont(m_theme->ui(11));
    axis->setTickLabelColor(c.muted);
    axis->setLabelFont(m_theme->ui(11));
    axis->setLabelColor(c.muted);
    axis->grid()->setPen(QPen(c.grid, 1));
    axis->grid()->setZeroLinePen(QPen(c.grid, 1));
    axis->setTickLength(0, 0);
    axis->setSubTickLength(0, 0);
  }
}

bool Plot::saveSvg(const QString& path) const {
  QSvgGenerator svg;
  svg.setFileName(path);
  svg.setSize(m_plot->size());
  svg.setViewBox(m_plot->rect());
  QCPPainter painter;
  if (!painter.begin(&svg)) return false;
  m_plot->toPainter(&painter, m_plot->width(), m_plot->height());
  return painter.end();
}

LatencyPlot::LatencyPlot(const Theme* theme, bool compact, QWidget* parent) : Plot(theme, parent), m_compact(compact) {
  setAccessibleName(tr("Step latency"));
  dress();
  if (!compact)
    m_plot->setInteractions(QCP::iRangeZoom | QCP::iRangeDrag), m_plot->axisRect()->setRangeZoom(Qt::Horizontal),
        m_plot->axisRect()->setRangeDrag(Qt::Horizontal);
  requestRedraw();
}

void LatencyPlot::clear() { setSteps({}, {}); }

void LatencyPlot::setSteps(std::vector<protocol::StepEvent> steps, std::vector<protocol::KernelSwapEvent> swaps) {
  m_steps = std::move(steps), m_swaps = std::move(swaps);
  requestRedraw();
}

void LatencyPlot::addStep(const protocol::StepEvent& step) {
  m_steps.push_back(step);
  requestRedraw();
}

void LatencyPlot::addSwap(const protocol::KernelSwapEvent& swap) {
  m_swaps.push_back(swap);
  requestRedraw();
}

void LatencyPlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  QVector<double> x, y, low, high;
  double least = 1e300, most = 0;
  for (const auto& s : m_steps) {
    if (!(s.ms > 0)) continue;
    x << static_cast<double>(s.step);
    y << s.ms;
    low << (s.ms_min > 0 ? s.ms_min : s.ms);
    high << (s.ms_max > 0 ? s.ms_max : s.ms);
    least = std::min(least, low.back()), most = std::max(most, high.back());
  }
  // Above a thousand points neighbours share a pixel: each bucket keeps its least, its most and its last.
  if (x.size() > 1000) {
    const qsizetype per = (x.size() + 999) / 1000;
    QVector<double> bx, by, bl, bh;
    for (qsizetype i = 0; i < x.size(); i += per) {
      const qsizetype end = std::min(i + per, x.size());
      bx << x[end - 1], by << y[end - 1];
      bl << *std::min_element(low.begin() + i, low.begin() + end);
      bh << *std::max_element(high.begin() + i, high.begin() + end);
    }
    x = bx, y = by, low = bl, high = bh;
  }
  auto* bottom = m_plot->addGraph();
  auto* top = m_plot->addGraph();
  bottom->setData(x, low, true), top->setData(x, high, true);
  bottom->setPen(Qt::NoPen), top->setPen(Qt::NoPen);
  QColor band = c.accent;
  band.setAlphaF(0.18F);
  top->setBrush(band);
  top->setChannelFillGraph(bottom);
  auto* line = m_plot->addGraph();
  line->setData(x, y, true);
  line->setPen(QPen(c.accent, 2));
  setRange(m_plot->yAxis, least, most, shortMs);
  const double last = x.isEmpty() ? 1 : x.back(), first = x.isEmpty() ? 0 : x.front();
  setLog(m_plot->xAxis, false, countText);
  m_plot->xAxis->setRange(first - (last - first) * 0.01, last + std::max(1.0, (last - first) * (m_compact ? 0.14 : 0.12)));
  sayEmpty(m_plot, m_theme, x.isEmpty() ? tr("Each step is drawn here while a model trains.") : QString());
  if (!m_compact) m_plot->xAxis->setLabel(x.isEmpty() ? QString() : tr("step"));
  // Swaps: named where they happen, at most one name every 56 px so that they stay readable; every one keeps its line.
  double taken = -1e9;
  const double width = std::max(100, m_plot->width() - 90), span = std::max(1.0, m_plot->xAxis->range().size());
  for (const auto& swap : m_swaps) {
    auto* tick = new QCPItemStraightLine(m_plot);
    tick->point1->setCoords(static_cast<double>(swap.step), 1);
    tick->point2->setCoords(static_cast<double>(swap.step), 2);
    tick->setPen(QPen(mixed(c.page, c.muted, 0.45), 1, Qt::DotLine));
    const double px = (static_cast<double>(swap.step) - m_plot->xAxis->range().lower) / span * width;
    if (px - taken < 56) continue;
    taken = px;
    auto* text =
        words(m_plot, m_theme,
              QString::fromStdString(swap.name.empty() ? swap.subgraph : swap.name) + QStringLiteral(" g%1").arg(swap.generation),
              static_cast<double>(swap.step), 0, Qt::AlignTop | Qt::AlignLeft);
    text->position->setTypeY(QCPItemPosition::ptAxisRectRatio);
    text->position->setCoords(static_cast<double>(swap.step), 0.02);
    text->setColor(c.text);
  }
  if (!x.isEmpty()) {
    auto* dot = m_plot->addGraph();
    dot->setData({last}, {y.back()});
    dot->setLineStyle(QCPGraph::lsNone);
    dot->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 7));
    auto* text = words(m_plot, m_theme, shortMs(y.back()), last, y.back(), Qt::AlignVCenter | Qt::AlignLeft, QFont::DemiBold);
    text->setPadding(QMargins(8, 0, 0, 0));
    text->setBrush(Qt::NoBrush);
  }
}

LossPlot::LossPlot(const Theme* theme, QWidget* parent) : Plot(theme, parent) {
  setAccessibleName(tr("Loss"));
  dress();
  requestRedraw();
}

void LossPlot::clear() {
  m_losses.clear(), m_evals.clear();
  requestRedraw();
}

void LossPlot::addStep(const protocol::StepEvent& step) {
  if (step.loss && std::isfinite(*step.loss)) m_losses.emplace_back(static_cast<double>(step.step), *step.loss);
  requestRedraw();
}

void LossPlot::addEval(const protocol::EvalEvent& eval) {
  if (eval.loss && std::isfinite(*eval.loss)) m_evals.emplace_back(static_cast<double>(eval.step), *eval.loss);
  requestRedraw();
}

void LossPlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  double least = 1e300, most = -1e300, last = 1;
  const auto add = [&](const std::vector<std::pair<double, double>>& points, const QPen& pen, bool rings) {
    QVector<double> x, y;
    for (const auto& [px, py] : points)
      x << px, y << py, least = std::min(least, py), most = std::max(most, py), last = std::max(last, px);
    auto* graph = m_plot->addGraph();
    graph->setData(x, y, true);
    graph->setPen(pen);
    if (rings) graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, pen.color(), c.page, 6));
  };
  add(m_losses, QPen(c.accent, 1.6), false);
  add(m_evals, QPen(c.backward, 1.2), true);
  setRange(
      m_plot->yAxis, least, most, [](double v) { return significant(v, 2); }, least > 0);
  setLog(m_plot->xAxis, false, countText);
  m_plot->xAxis->setRange(0, last * 1.02);
  m_plot->xAxis->setLabel(tr("step"));
}

TrialsPlot::TrialsPlot(const Theme* theme, QWidget* parent) : Plot(theme, parent) {
  setAccessibleName(tr("Trials"));
  dress();
  m_plot->setInteractions(QCP::iRangeZoom | QCP::iRangeDrag);
  m_plot->axisRect()->setRangeZoom(Qt::Horizontal);
  m_plot->axisRect()->setRangeDrag(Qt::Horizontal);
  m_plot->installEventFilter(this);
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

int TrialsPlot::failures() const {
  return static_cast<int>(
      std::count_if(m_trials.begin(), m_trials.end(), [](const TrialInfo& t) { return t.status != TrialStatus::Ok; }));
}

double TrialsPlot::xOf(const TrialInfo& trial) const {
  return m_axis == Axis::Time ? trial.seconds : static_cast<double>(trial.number);
}

std::optional<std::uint64_t> TrialsPlot::trialAt(QPoint at) const {
  double best = 12 * 12;
  std::optional<std::uint64_t> found;
  for (const TrialInfo& t : m_trials) {
    if (!t.us) continue;
    const double dx = m_plot->xAxis->coordToPixel(xOf(t)) - at.x(), dy = m_plot->yAxis->coordToPixel(*t.us) - at.y();
    if (dx * dx + dy * dy < best) best = dx * dx + dy * dy, found = t.number;
  }
  return found;
}

bool TrialsPlot::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonRelease)
    if (const auto trial = trialAt(static_cast<QMouseEvent*>(event)->pos())) Q_EMIT trialChosen(*trial);
  return Plot::eventFilter(watched, event);
}

void TrialsPlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  QVector<double> x, y, sx, sy;
  double least = 1e300, most = 0, last = 1, best = 1e300;
  for (const TrialInfo& t : m_trials) {
    last = std::max(last, xOf(t));
    if (!t.us || t.status != TrialStatus::Ok) continue;
    x << xOf(t), y << *t.us;
    least = std::min(least, *t.us), most = std::max(most, *t.us);
    if (*t.us < best) best = *t.us, sx << xOf(t), sy << best;
  }
  if (!sx.isEmpty()) sx << last, sy << best;
  auto* points = m_plot->addGraph();
  points->setData(x, y, true);
  points->setLineStyle(QCPGraph::lsNone);
  QColor grey = mixed(c.page, c.muted, 0.75);
  points->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, grey, 4));
  auto* stairs = m_plot->addGraph();
  stairs->setData(sx, sy, true);
  stairs->setLineStyle(QCPGraph::lsStepLeft);
  stairs->setPen(QPen(c.accent, 2));
  setRange(m_plot->yAxis, least, most, shortUs);
  // The strip of failures: the upper tenth of the plot, in pixels of its own.
  const QCPRange range = m_plot->yAxis->range();
  const bool log = m_plot->yAxis->scaleType() == QCPAxis::stLogarithmic;
  const double top = log ? range.upper * std::pow(range.upper / range.lower, 0.17) : range.upper + range.size() * 0.17;
  m_plot->yAxis->setRange(range.lower, top);
  const double strip = log ? std::exp((std::log(range.upper) * 0.45 + std::log(top) * 0.55)) : range.upper * 0.45 + top * 0.55;
  struct Kind {
    TrialStatus status;
    QCPScatterStyle::ScatterShape shape;
  };
  for (const Kind kind :
       {Kind{TrialStatus::Wrong, QCPScatterStyle::ssCross}, Kind{TrialStatus::Failed, QCPScatterStyle::ssTriangle},
        Kind{TrialStatus::Slow, QCPScatterStyle::ssSquare}, Kind{TrialStatus::Killed, QCPScatterStyle::ssSquare},
        Kind{TrialStatus::Crashed, QCPScatterStyle::ssDiamond}}) {
    QVector<double> fx, fy;
    for (const TrialInfo& t : m_trials)
      if (t.status == kind.status) fx << xOf(t), fy << strip;
    if (fx.isEmpty()) continue;
    auto* failed = m_plot->addGraph();
    failed->setData(fx, fy, true);
    failed->setLineStyle(QCPGraph::lsNone);
    failed->setScatterStyle(QCPScatterStyle(kind.shape, QPen(c.failed, 1.3), Qt::NoBrush, 7));
  }
  sayEmpty(m_plot, m_theme, m_trials.empty() ? tr("Every trial is a point here once the search runs.") : QString());
  auto* edge = new QCPItemStraightLine(m_plot);
  edge->point1->setCoords(0, range.upper);
  edge->point2->setCoords(1, range.upper);
  edge->setPen(QPen(c.grid, 1));
  if (failures() > 0) {
    auto* text = words(m_plot, m_theme, tr("failed"), 0, strip, Qt::AlignVCenter | Qt::AlignRight);
    text->position->setTypeX(QCPItemPosition::ptAxisRectRatio);
    text->position->setCoords(0, strip);
  }
  if (m_axis == Axis::Time) setLog(m_plot->xAxis, false, [](double v) { return secondsText(v); });
  else setLog(m_plot->xAxis, false, countText);
  m_plot->xAxis->setRange(-last * 0.01, last * 1.06);
  for (const TrialInfo& t : m_trials) {
    if (t.number != m_current || !t.us) continue;
    auto* head = new QCPItemStraightLine(m_plot);
    head->point1->setCoords(xOf(t), 1);
    head->point2->setCoords(xOf(t), 2);
    head->setPen(QPen(c.accent, 1.4));
    auto* ring = m_plot->addGraph();
    ring->setData({xOf(t)}, {*t.us});
    ring->setLineStyle(QCPGraph::lsNone);
    ring->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(c.accent, 2), c.page, 9));
    const bool right = xOf(t) > last * 0.7;
    words(m_plot, m_theme, QStringLiteral("g%1 c%2, %3").arg(t.generation).arg(t.number).arg(microsecondsText(*t.us)), xOf(t),
          *t.us, Qt::AlignTop | (right ? Qt::AlignRight : Qt::AlignLeft), QFont::DemiBold)
        ->setPadding(QMargins(8, 7, 8, 0));
  }
}

RooflinePlot::RooflinePlot(const Theme* theme, QWidget* parent) : Plot(theme, parent) {
  setAccessibleName(tr("Roofline"));
  dress();
  requestRedraw();
}

void RooflinePlot::setDevice(std::optional<protocol::DeviceConstants> device) {
  m_device = std::move(device);
  requestRedraw();
}

void RooflinePlot::setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs, const std::string& current) {
  m_subgraphs = subgraphs, m_current = current;
  requestRedraw();
}

void RooflinePlot::setTrials(const std::vector<TrialInfo>& trials) {
  m_path.clear();
  double best = 1e300;
  for (const TrialInfo& t : trials)
    if (t.us && t.status == TrialStatus::Ok && *t.us < best) best = *t.us, m_path.push_back(t);
  requestRedraw();
}

void RooflinePlot::redraw() {
  m_plot->clearPlottables();
  m_plot->clearItems();
  const Palette& c = m_theme->colors();
  double leftX = 1e300, rightX = 0, lowY = 1e300, highY = 0;
  const auto see = [&](double x, double y) {
    leftX = std::min(leftX, x), rightX = std::max(rightX, x), lowY = std::min(lowY, y), highY = std::max(highY, y);
  };
  struct Place {
    double x, y;
    QString name;
  };
  std::vector<Place> places;
  for (const auto& s : m_subgraphs) {
    if (s.bytes <= 0 || s.flops <= 0) continue;
    const double x = static_cast<double>(s.flops) / static_cast<double>(s.bytes);
    if (s.id == m_current) {
      QVector<double> px, py;
      for (const TrialInfo& t : m_path) px << x, py << static_cast<double>(s.flops) / (*t.us * 1e-6), see(px.back(), py.back());
      if (px.isEmpty()) continue;
      auto* path = m_plot->addGraph();
      path->setData(px, py, true);
      path->setPen(QPen(c.accent, 1.6));
      path->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, c.accent, c.page, 6));
      auto* now = m_plot->addGraph();
      now->setData({px.back()}, {py.back()});
      now->setLineStyle(QCPGraph::lsNone);
      now->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 10));
      places.push_back({px.back(), py.back(),
                        QString::fromStdString(s.name) + QStringLiteral(", ") + flopsText(py.back(), QStringLiteral("FLOP/s"))});
    } else if (s.us && *s.us > 0) {
      const double y = static_cast<double>(s.flops) / (*s.us * 1e-6);
      auto* dot = m_plot->addGraph();
      dot->setData({x}, {y});
      dot->setLineStyle(QCPGraph::lsNone);
      dot->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssSquare, QPen(c.muted, 1.2), Qt::NoBrush, 6));
      see(x, y);
      if (m_subgraphs.size() <= 12) places.push_back({x, y, QString::fromStdString(s.name)});
    }
  }
  if (m_device && m_device->bandwidth > 0 && m_device->flopRate > 0) {
    const double ridge = m_device->flopRate / m_device->bandwidth;
    see(std::min(ridge / 8, leftX), m_device->flopRate);
    see(std::max(ridge * 8, rightX), m_device->bandwidth * std::min(leftX, ridge));
    auto* roof = m_plot->addGraph();
    const double from = leftX / 2, to = rightX * 2;
    roof->setData({from, ridge, to}, {from * m_device->bandwidth, m_device->flopRate, m_device->flopRate}, true);
    roof->setPen(QPen(c.text, 1.6));
    words(m_plot, m_theme, flopsText(m_device->flopRate, QStringLiteral("FLOP/s")), rightX, m_device->flopRate,
          Qt::AlignBottom | Qt::AlignRight, QFont::Medium);
    words(m_plot, m_theme, flopsText(m_device->bandwidth, QStringLiteral("B/s")), std::sqrt(leftX * std::min(ridge, rightX)),
          std::sqrt(leftX * std::min(ridge, rightX)) * m_device->bandwidth, Qt::AlignTop | Qt::AlignLeft, QFont::Medium);
    if (m_device->l2Bandwidth > 0) {
      auto* l2 = m_plot->addGraph();
      const double knee = m_device->flopRate / m_device->l2Bandwidth;
      l2->setData({from, knee}, {from * m_device->l2Bandwidth, m_device->flopRate}, true);
      l2->setPen(QPen(c.muted, 1.2, Qt::DashLine));
    }
  }
  const double middle = std::sqrt(std::max(1e-300, leftX * rightX));
  for (const Place& place : places) {
    auto* text = words(m_plot, m_theme, place.name, place.x, place.y,
                       Qt::AlignVCenter | (place.x > middle ? Qt::AlignRight : Qt::AlignLeft));
    text->setBrush(Qt::NoBrush);
    text->setPadding(QMargins(10, 0, 10, 0));
  }
  sayEmpty(m_plot, m_theme, leftX <= rightX ? QString() : tr("Drawn once a kernel or the device was measured."));
  if (!(leftX <= rightX)) leftX = 0.1, rightX = 100, lowY = 1e9, highY = 1e12;
  setLog(m_plot->xAxis, true, [](double v) { return significant(v, 1); });
  setLog(m_plot->yAxis, true, [](double v) { return withoutZeros(flopsText(v, QStringLiteral("FLOP/s"))); });
  m_plot->xAxis->setRange(leftX / 1.6, rightX * 1.6);
  m_plot->yAxis->setRange(lowY / 1.8, highY * 2.2);
  m_plot->xAxis->setLabel(places.empty() && !m_device ? QString() : tr("operations a byte of memory traffic"));
}

}  // namespace nf
