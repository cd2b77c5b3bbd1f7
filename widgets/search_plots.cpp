// SPDX-License-Identifier: GPL-3.0-or-later
// Trials of the search, its generations, the roofline.
#include <qcustomplot.h>

#include <QKeyEvent>
#include <QPainter>
#include <QToolButton>
#include <QToolTip>
#include <QTransform>
#include <algorithm>
#include <cmath>
#include <optional>

#include "widgets/basic.h"
#include "widgets/names.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"

namespace nf {
namespace {

using protocol::TrialInfo;
using protocol::TrialStatus;

constexpr int kLeftMargin = 62;

// A trial with a time that counts. One dropped early has a time too, but only as far as it was measured.
bool measured(const TrialInfo& t) { return t.us && *t.us > 0 && t.status == TrialStatus::Ok; }
bool dropped(const TrialInfo& t) { return t.us && *t.us > 0 && t.status == TrialStatus::Slow; }
bool failed(const TrialInfo& t) { return !measured(t) && !dropped(t) && t.status != TrialStatus::Ok; }

struct FailureKind {
  TrialStatus status;
  QCPScatterStyle::ScatterShape shape;
  const char* words;
};
constexpr FailureKind kFailures[] = {
    {TrialStatus::Wrong, QCPScatterStyle::ssCross, QT_TRANSLATE_NOOP("nf", "wrong result")},
    {TrialStatus::Failed, QCPScatterStyle::ssTriangle, QT_TRANSLATE_NOOP("nf", "not compiled")},
    {TrialStatus::Killed, QCPScatterStyle::ssSquare, QT_TRANSLATE_NOOP("nf", "timed out")},
    {TrialStatus::Crashed, QCPScatterStyle::ssDiamond, QT_TRANSLATE_NOOP("nf", "killed its worker")}};
QString wordsOf(const FailureKind& kind) { return QCoreApplication::translate("nf", kind.words); }

QString nameOf(const TrialInfo& t) { return QStringLiteral("g%1 c%2").arg(t.generation).arg(t.number); }

QString timeOf(const TrialInfo& t) { return t.us ? measuredText(*t.us, t.lowUs, t.highUs) : QString(); }

QString statusWords(const TrialInfo& t) {
  if (measured(t)) return {};
  if (dropped(t)) return QObject::tr("dropped early");
  for (const FailureKind& kind : kFailures)
    if (kind.status == t.status) return wordsOf(kind);
  return QObject::tr("checked, not timed");
}

// "Faster" needs intervals that do not touch; a time without one counts as it is.
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

// ---------------------------------------------------------------- trials
TrialsPlot::TrialsPlot(const Theme* theme, QWidget* parent) : Plot(theme, tr("Trials"), parent) {
  dress();
  m_plot->axisRect()->setAutoMargins(QCP::msNone);
  m_plot->axisRect()->setMargins(QMargins(kLeftMargin, 4, 16, 22));
  m_plot->setInteractions(QCP::iRangeZoom | QCP::iRangeDrag);
  m_plot->axisRect()->setRangeZoom(Qt::Horizontal);
  m_plot->axisRect()->setRangeDrag(Qt::Horizontal);
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
    if (!x || (!t.us && !failed(t))) continue;
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
                 tr("predicted µs"), tr("how"), tr("schedule")},
                {}};
  constexpr auto names = protocol::enumNames(TrialStatus{});
  const auto number = [](const std::optional<double>& v) { return v ? QVariant(*v) : QVariant(); };
  for (const TrialInfo& t : m_trials)
    out.rows.push_back({QVariant::fromValue<qulonglong>(t.number), QVariant::fromValue<qlonglong>(t.generation), t.seconds,
                        QString::fromLatin1(names[static_cast<std::size_t>(t.status)]), number(t.us), number(t.lowUs),
                        number(t.highUs), number(t.predictedUs), QString::fromStdString(t.how),
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
  QVector<double> x, y, px, py, sx, sy, lx, ly;
  double least = HUGE_VAL, most = 0, first = HUGE_VAL, last = -HUGE_VAL, lowest = HUGE_VAL;
  const TrialInfo* best = nullptr;  // the newest that was faster beyond noise; others are only lower
  for (const TrialInfo& t : m_trials) {
    const auto at = xOf(t);
    if (!at) continue;
    first = std::min(first, *at), last = std::max(last, *at);
    if (dropped(t)) px << *at, py << *t.us;
    if (measured(t)) {
      x << *at, y << *t.us;
      if (!best || (*t.us < *best->us && beats(t, *best))) best = &t, sx << *at, sy << *t.us;
      if (*t.us < lowest) lowest = *t.us, lx << *at, ly << lowest;
    }
    if (t.us && !failed(t)) least = std::min(least, *t.us), most = std::max(most, *t.us);
  }
  const bool empty = !(first <= last);
  QString nothing;
  if (m_trials.empty()) nothing = tr("Every trial is a point here once the search runs.");
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
  if (any) {
    range.labelsUpTo = inner.upper;
    nf::setAxis(m_plot->yAxis, range, microsecondTick);
    m_plot->yAxis->setRange(inner.lower, above(0.16));
    auto* edge = new QCPItemStraightLine(m_plot);
    edge->point1->setCoords(0, inner.upper);
    edge->point2->setCoords(1, inner.upper);
    edge->setPen(QPen(c.separator, 1));
    auto* title = new QCPItemText(m_plot);
    title->setText(tr("failed"));
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
  const bool untimed = !empty && !(least <= most);
  if (untimed && !any) nothing = tr("No trial has a time yet.");
  sayEmpty(m_plot, m_theme, nothing);
  if (untimed) m_plot->yAxis->setTickLabels(false), m_plot->yAxis->grid()->setVisible(false);
  m_plot->axisRect()->setMargins(QMargins(kLeftMargin, 4, 16, square ? 36 : 22));
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
    if (best) sx << until, sy << *best->us;
    if (best && lowest < *best->us) {
      lx << until, ly << lowest;
      auto* lower = m_plot->addGraph();
      lower->setData(lx, ly, true);
      lower->setLineStyle(QCPGraph::lsStepLeft);
      lower->setPen(QPen(mixed(c.page, c.accent, 0.7), 1, Qt::DotLine));
    }
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
  }
  if (!square && !m_current && best)
    addLabel({microsecondsText(lowest) != microsecondsText(*best->us)
                  ? tr("%1, within the noise of %2").arg(microsecondsText(lowest), microsecondsText(*best->us))
                  : tr("best %1").arg(microsecondsText(*best->us)),
              m_plot->xAxis->range().upper,
              std::min(lowest, *best->us),
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
              0,
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
              0,
              true});
  }
}

// ---------------------------------------------------------------- legend
TrialsLegend::TrialsLegend(const Theme* theme, QWidget* parent) : QWidget(parent), m_theme(theme) {
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
  setTrials({});
}

namespace {
enum Shape { kNothing, kDisc, kRing, kStairs, kCross, kTriangle, kSquare, kDiamond };
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
  if (const auto n = count([](const TrialInfo& t) { return !measured(t) && !dropped(t) && !failed(t); }); n > 0)
    add(kNothing, tr("checked, not timed"), n);
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
  int x = kLeftMargin, y = kLegendTop;
  for (const Entry& e : m_entries) {
    const int w = (e.shape == kNothing ? 2 : 15) + metrics.horizontalAdvance(e.words);
    if (x > kLeftMargin && x + w > width() - 4) x = kLeftMargin, y += kLegendRow;
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
    p.drawText(place.adjusted(e.shape == kNothing ? 0 : 13, 0, 4, 0), Qt::AlignVCenter, e.words);
  }
}

// ---------------------------------------------------------------- generations
GenerationStrip::GenerationStrip(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_back(new IconButton(theme, QStringLiteral("left"), {}, this)),
      m_forward(new IconButton(theme, QStringLiteral("right"), {}, this)) {
  m_back->setAccessibleName(tr("The generation before"));
  m_forward->setAccessibleName(tr("The generation after"));
  for (QToolButton* b : {m_back, m_forward}) {
    b->setToolTip(b->accessibleName());
    b->setFocusPolicy(Qt::StrongFocus);
    b->setAutoRepeat(true);
    b->hide();
  }
  connect(m_back, &QToolButton::clicked, this, [this] { step(-1); });
  connect(m_forward, &QToolButton::clicked, this, [this] { step(1); });
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Generations of the search"));
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void GenerationStrip::setTrials(const std::vector<TrialInfo>& trials) {
  m_trials = trials;
  m_generations.clear();
  // One on record that is tried again stands among the old ones: what counts is its generation.
  std::vector<const TrialInfo*> order;
  for (const TrialInfo& t : trials) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(),
                   [](const TrialInfo* a, const TrialInfo* b) { return a->generation < b->generation; });
  const TrialInfo* overall = nullptr;
  for (const TrialInfo* t : order) {
    if (!measured(*t)) continue;
    if (!overall || *t->us < *overall->us) overall = t;
    if (m_generations.empty() || m_generations.back().number != t->generation)
      m_generations.push_back({t->generation, t->number, *t->us});
    Generation& own = m_generations.back();
    if (*t->us < own.us) own.best = t->number, own.us = *t->us;
  }
  m_best = overall ? std::optional(overall->number) : std::nullopt;
  refreshArrows();
  update();
}

void GenerationStrip::setCurrent(std::optional<std::uint64_t> number) {
  m_current = number;
  refreshArrows();
  update();
}

// They stand where not all generations fit.
void GenerationStrip::refreshArrows() {
  const int count = static_cast<int>(m_generations.size()), y = (height() - m_back->sizeHint().height()) / 2;
  m_back->move(0, y);
  m_forward->move(width() - m_forward->sizeHint().width(), y);
  for (QToolButton* b : {m_back, m_forward}) b->setVisible(count > fits());
  m_back->setEnabled(current() > 0);
  m_forward->setEnabled(current() >= 0 && current() + 1 < count);
}

void GenerationStrip::resizeEvent(QResizeEvent*) { refreshArrows(); }

int GenerationStrip::current() const {
  if (m_generations.empty()) return -1;
  for (const TrialInfo& t : m_trials)
    if (t.number == m_current.value_or(*m_best))
      for (std::size_t i = 0; i < m_generations.size(); ++i)
        if (m_generations[i].number == t.generation) return static_cast<int>(i);
  return -1;
}

namespace {
constexpr int kBox = 62, kBoxGap = 6, kBoxes = 28;  // an arrow stands before them, and one behind
}

int GenerationStrip::fits() const { return std::max(1, (width() - 2 * kBoxes + kBoxGap) / (kBox + kBoxGap)); }

// As many as fit; the chosen one is always among them.
int GenerationStrip::firstShown() const {
  const int count = static_cast<int>(m_generations.size());
  if (count <= fits()) return 0;
  return std::clamp(current() - fits() / 2, 0, count - fits());
}

std::vector<std::int64_t> GenerationStrip::shown() const {
  std::vector<std::int64_t> out;
  for (std::size_t i = static_cast<std::size_t>(firstShown());
       i < m_generations.size() && out.size() < static_cast<std::size_t>(fits()); ++i)
    out.push_back(m_generations[i].number);
  return out;
}

QRect GenerationStrip::boxOf(int index) const { return {kBoxes + (index - firstShown()) * (kBox + kBoxGap), 6, kBox, 36}; }

void GenerationStrip::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  const int now = current(), end = std::min(firstShown() + fits(), static_cast<int>(m_generations.size()));
  for (int i = firstShown(); i < end; ++i) {
    const QRect r = boxOf(i);
    const Generation& g = m_generations[static_cast<std::size_t>(i)];
    p.setPen(QPen(i == now ? c.accent : c.separator, i == now ? 1.4 : 1));
    p.setBrush(i == now ? c.accentSoft : c.raised);
    p.drawRoundedRect(QRectF(r).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
    p.setFont(m_theme->mono(12, i == now ? QFont::DemiBold : QFont::Normal));
    p.setPen(i == now ? c.text : c.muted);
    p.drawText(r.adjusted(0, 3, 0, -18), Qt::AlignCenter, QStringLiteral("g%1").arg(g.number));
    p.setFont(m_theme->mono(11));
    p.drawText(r.adjusted(0, 17, 0, -3), Qt::AlignCenter, microsecondsText(g.us));
  }
  if (m_generations.empty()) {
    p.setPen(c.hint);
    p.setFont(m_theme->ui(12));
    p.drawText(rect().adjusted(kBoxes, 0, 0, 0), Qt::AlignVCenter, tr("no generation yet"));
  }
  if (hasFocus()) {
    p.setPen(QPen(c.accent, 1.4));
    p.setBrush(Qt::NoBrush);
    p.drawLine(kBoxes, height() - 2, width() - 16, height() - 2);
  }
}

void GenerationStrip::mousePressEvent(QMouseEvent* event) {
  const int end = std::min(firstShown() + fits(), static_cast<int>(m_generations.size()));
  for (int i = firstShown(); i < end; ++i)
    if (boxOf(i).contains(event->pos())) return Q_EMIT trialChosen(m_generations[static_cast<std::size_t>(i)].best);
}

void GenerationStrip::step(int by) {
  if (m_generations.empty()) return;
  const int to = std::clamp(current() + by, 0, static_cast<int>(m_generations.size()) - 1);
  Q_EMIT trialChosen(m_generations[static_cast<std::size_t>(to)].best);
}

void GenerationStrip::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left: return step(-1);
    case Qt::Key_Right: return step(1);
    case Qt::Key_Home: return step(-static_cast<int>(m_generations.size()));
    case Qt::Key_End: return step(static_cast<int>(m_generations.size()));
    default: QWidget::keyPressEvent(event);
  }
}

// ---------------------------------------------------------------- roofline
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
  sayEmpty(m_plot, m_theme, empty ? tr("Drawn once a kernel or the device was measured.") : QString());
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
  std::vector<std::string> full;
  for (const auto& s : m_subgraphs) full.push_back(s.name);
  const QStringList names = kernelNames(full, 16);
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
      others.push_back({names[&s - m_subgraphs.data()],
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
    addLabel({text,
              x,
              now,
              {Side::Right, Side::Left, Side::AboveRight, Side::AboveLeft, Side::BelowRight, Side::BelowLeft},
              QFont::DemiBold,
              c.text,
              9,
              0,
              true});
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
