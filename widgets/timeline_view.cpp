// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/timeline_view.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/names.h"

namespace nf {
namespace {

using protocol::ActivityKind;
using protocol::TimelineActivity;

constexpr int kAxis = 22, kBand = 18, kGap = 6, kLeft = 74, kMargin = 8;
constexpr double kShortest = 50;  // ns across the whole width
constexpr int kMostLines = 12;    // of an expression in a tool tip

double microseconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }

// 1, 2 or 5 times a power of ten, at least `least`.
double roundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

}  // namespace

// ---------------------------------------------------------------- model
void TimelineModel::setTimeline(const protocol::Timeline& timeline) {
  beginResetModel();
  m_timeline = timeline;
  endResetModel();
}

const protocol::TimelineSite* TimelineModel::siteOf(int row) const {
  if (row < 0 || row >= rowCount()) return nullptr;
  const std::int64_t site = m_timeline.activities[static_cast<std::size_t>(row)].site;
  if (site < 0 || site >= static_cast<std::int64_t>(m_timeline.sites.size())) return nullptr;
  return &m_timeline.sites[static_cast<std::size_t>(site)];
}

QString TimelineModel::titleOf(int row) const {
  if (row < 0 || row >= rowCount()) return {};
  const TimelineActivity& a = m_timeline.activities[static_cast<std::size_t>(row)];
  if (const auto* site = siteOf(row)) return shortName(site->name);
  switch (a.kind) {
    case ActivityKind::Step: return tr("step");
    case ActivityKind::Trip: return QStringLiteral("%1 = %2").arg(QString::fromStdString(a.name)).arg(a.trip);
    case ActivityKind::Copy: return a.name.empty() ? tr("copy") : tr("copy, %1").arg(QString::fromStdString(a.name));
    case ActivityKind::Fill: return tr("fill");
    case ActivityKind::GraphLaunch: return tr("graph");
    case ActivityKind::Launch:
    case ActivityKind::Kernel: return QString::fromStdString(a.name);
  }
  return {};
}

QString TimelineModel::wordOf(int row) const {
  if (row < 0 || row >= rowCount()) return {};
  const auto phase = [&] {
    const auto* site = siteOf(row);
    if (!site) return QString();
    switch (site->phase) {
      case protocol::Phase::Forward: return tr(", forward");
      case protocol::Phase::Backward: return tr(", backward");
      case protocol::Phase::Optimizer: return tr(", optimizer");
      case protocol::Phase::Evaluation: return tr(", evaluation");
    }
    return QString();
  };
  switch (m_timeline.activities[static_cast<std::size_t>(row)].kind) {
    case ActivityKind::Step: return tr("step");
    case ActivityKind::Trip: return tr("loop step");
    case ActivityKind::Launch: return tr("launch") + phase();
    case ActivityKind::Kernel: return tr("kernel") + phase();
    case ActivityKind::Copy: return tr("copy");
    case ActivityKind::Fill: return tr("fill");
    case ActivityKind::GraphLaunch: return tr("graph launch");
  }
  return {};
}

QString TimelineModel::textOf(int row) const {
  if (row < 0 || row >= rowCount()) return {};
  const TimelineActivity& a = m_timeline.activities[static_cast<std::size_t>(row)];
  QStringList lines{titleOf(row), tr("%1: %2, from %3")
                                      .arg(wordOf(row), microsecondsText(microseconds(a.end - a.begin)),
                                           microsecondsText(microseconds(a.begin)))};
  if (a.bytes > 0) lines << bytesText(static_cast<double>(a.bytes));
  if (a.trip >= 0 && a.kind != ActivityKind::Trip) lines << tr("loop step %1").arg(a.trip);
  const auto* site = siteOf(row);
  if (site && !a.name.empty()) lines << QString::fromStdString(a.name);
  if (site && !site->expression.empty()) {
    QStringList expression = QString::fromStdString(site->expression).split(QLatin1Char('\n'));
    if (expression.size() > kMostLines) expression = expression.mid(0, kMostLines) << QStringLiteral("...");
    lines << expression;
  }
  return lines.join(QLatin1Char('\n'));
}

PlotTable TimelineModel::table() const {
  PlotTable out{{tr("from, µs"), tr("µs"), tr("what"), tr("name"), tr("lane"), tr("loop step"), tr("bytes"), tr("subgraph")}, {}};
  for (int row = 0; row < rowCount(); ++row) {
    const TimelineActivity& a = m_timeline.activities[static_cast<std::size_t>(row)];
    const auto* site = siteOf(row);
    out.rows.push_back({microseconds(a.begin), microseconds(a.end - a.begin), wordOf(row), titleOf(row),
                        data(index(row, kLane), Qt::DisplayRole), a.trip >= 0 ? QVariant::fromValue<qlonglong>(a.trip) : QVariant(),
                        QVariant::fromValue<qlonglong>(a.bytes), site ? QString::fromStdString(site->subgraph) : QString()});
  }
  return out;
}

QVariant TimelineModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const TimelineActivity& a = m_timeline.activities[static_cast<std::size_t>(index.row())];
  if (role == Qt::ToolTipRole) return textOf(index.row());
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>((index.column() <= kDuration ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kBegin: return microsecondsText(microseconds(a.begin));
    case kDuration: return microsecondsText(microseconds(a.end - a.begin));
    case kWhat: return wordOf(index.row());
    case kKernel: return titleOf(index.row());
    case kLane: return a.lane < m_timeline.lanes.size() ? QString::fromStdString(m_timeline.lanes[a.lane]) : QString();
  }
  return {};
}

QVariant TimelineModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>((section <= kDuration ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  switch (section) {
    case kBegin: return tr("From");
    case kDuration: return tr("Time");
    case kWhat: return tr("What");
    case kKernel: return tr("Name");
    case kLane: return tr("Lane");
  }
  return {};
}

// ---------------------------------------------------------------- view
TimelineView::TimelineView(const Theme* theme, TimelineModel* model, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_model(model) {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Timeline of a step"));
  setAccessibleDescription(
      tr("Arrows choose a launch, plus and minus zoom, 0 shows the whole step; Launches has the same as a table."));
  connect(model, &QAbstractItemModel::modelReset, this, [this] {
    // A step of the same launches stays where a person has zoomed to.
    const bool whole = m_from <= 0 && m_to >= m_end;
    const double part = m_end > 0 ? (m_to - m_from) / m_end : 1, at = m_end > 0 ? m_from / m_end : 0;
    if (m_chosen >= m_model->rowCount()) m_chosen = -1;
    layOut();
    if (whole) return showAll();
    m_from = at * m_end;
    m_to = m_from + part * m_end;
    update();
  });
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
  layOut();
}

void TimelineView::layOut() {
  const protocol::Timeline& t = m_model->timeline();
  m_band.assign(t.activities.size(), 0);
  m_rows.clear();
  m_lanes.assign(t.lanes.size(), {0, 0});
  std::vector<std::vector<int>> depth(t.activities.empty() ? 0 : t.lanes.size());
  std::vector<std::vector<std::int64_t>> ends(t.lanes.size());  // of each lane: where the newest of each depth ends
  std::vector<int> depthOf(t.activities.size(), 0);
  m_end = 1;
  for (std::size_t i = 0; i < t.activities.size(); ++i) {
    const TimelineActivity& a = t.activities[i];
    m_end = std::max(m_end, static_cast<double>(a.end));
    if (a.lane >= t.lanes.size()) continue;
    auto& open = ends[a.lane];
    std::size_t d = 0;
    while (d < open.size() && open[d] > a.begin) ++d;
    if (d == open.size()) open.push_back(a.end);
    else open[d] = a.end;
    // What has ended below it is free again.
    for (std::size_t below = d + 1; below < open.size(); ++below) open[below] = std::min(open[below], a.begin);
    depthOf[i] = static_cast<int>(d);
    m_lanes[a.lane].second = std::max(m_lanes[a.lane].second, static_cast<int>(d) + 1);
  }
  m_bandCount = 0;
  for (auto& [first, count] : m_lanes) {
    first = m_bandCount;
    m_bandCount += count;
  }
  m_rows.resize(static_cast<std::size_t>(m_bandCount));
  for (std::size_t i = 0; i < t.activities.size(); ++i) {
    const std::uint32_t lane = t.activities[i].lane;
    m_band[i] = lane < t.lanes.size() ? m_lanes[lane].first + depthOf[i] : -1;
    if (m_band[i] >= 0) m_rows[static_cast<std::size_t>(m_band[i])].push_back(static_cast<int>(i));
  }
}

QRectF TimelineView::area() const {
  return QRectF(kLeft, kAxis, std::max(1, width() - kLeft - kMargin), std::max(1, height() - kAxis));
}

double TimelineView::xOf(double ns) const {
  const QRectF a = area();
  return a.left() + (ns - m_from) / (m_to - m_from) * a.width();
}
double TimelineView::nsAt(double x) const {
  const QRectF a = area();
  return m_from + (x - a.left()) / a.width() * (m_to - m_from);
}

void TimelineView::showAll() {
  m_from = 0;
  m_to = m_end;
  update();
}

void TimelineView::zoom(double factor, double at) {
  const double span = std::clamp((m_to - m_from) * factor, std::min(kShortest, m_end), m_end);
  const double part = (at - m_from) / (m_to - m_from);
  m_from = std::clamp(at - part * span, 0.0, m_end - span);
  m_to = m_from + span;
  update();
}

void TimelineView::move(double by) {
  const double span = m_to - m_from;
  m_from = std::clamp(m_from + by, 0.0, std::max(0.0, m_end - span));
  m_to = m_from + span;
  update();
}

QRectF TimelineView::rectOf(int row) const {
  if (row < 0 || row >= m_model->rowCount() || m_band[static_cast<std::size_t>(row)] < 0) return {};
  const TimelineActivity& a = m_model->timeline().activities[static_cast<std::size_t>(row)];
  const QRectF inside = area();
  const double left = std::max(inside.left(), xOf(static_cast<double>(a.begin)));
  const double right = std::min(inside.right(), std::max(xOf(static_cast<double>(a.end)), xOf(static_cast<double>(a.begin)) + 1));
  const int band = m_band[static_cast<std::size_t>(row)];
  // Bands share the height where there is more than they need, and get thin where there is less.
  int lanes = 0;
  for (std::size_t l = 0; l < m_lanes.size() && m_lanes[l].first <= band; ++l)
    if (m_lanes[l].second > 0) ++lanes;
  int shown = 0;
  for (const auto& [first, count] : m_lanes) shown += count > 0 ? 1 : 0;
  const double each = std::clamp((inside.height() - shown * kGap) / std::max(1, m_bandCount), 5.0, static_cast<double>(kBand + 8));
  const double top = inside.top() + (lanes - 1) * kGap + band * each + 2;
  if (right <= left) return {};
  return {left, top, right - left, std::max(3.0, each - 2)};
}

int TimelineView::rowAt(QPointF position) const {
  for (const std::vector<int>& rows : m_rows) {
    int best = -1;
    double nearest = 3;  // px: what is thin is met beside it, too
    for (const int row : rows) {
      const QRectF r = rectOf(row);
      if (r.isEmpty() || position.y() < r.top() || position.y() > r.bottom()) continue;
      const double away = std::max({0.0, r.left() - position.x(), position.x() - r.right()});
      if (away < nearest || (away == 0 && best < 0)) best = row, nearest = away;
      if (away == 0) break;
    }
    if (best >= 0) return best;
  }
  return -1;
}

QColor TimelineView::colorOf(int row) const {
  const Palette& c = m_theme->colors();
  const TimelineActivity& a = m_model->timeline().activities[static_cast<std::size_t>(row)];
  switch (a.kind) {
    case ActivityKind::Step:
    case ActivityKind::Trip: return mixed(c.page, c.muted, 0.35);
    case ActivityKind::Copy:
    case ActivityKind::Fill: return mixed(c.page, c.accent, 0.75);
    case ActivityKind::GraphLaunch: return mixed(c.page, c.muted, 0.8);
    case ActivityKind::Launch:
    case ActivityKind::Kernel: break;
  }
  const auto* site = m_model->siteOf(row);
  if (!site || (m_now && !m_now(*site))) return mixed(c.page, c.muted, a.kind == ActivityKind::Launch ? 0.45 : 1);
  QColor color = c.forward;
  switch (site->phase) {
    case protocol::Phase::Forward: color = c.forward; break;
    case protocol::Phase::Backward: color = c.backward; break;
    case protocol::Phase::Optimizer: color = c.optimizer; break;
    case protocol::Phase::Evaluation: color = c.muted; break;
  }
  return a.kind == ActivityKind::Launch ? mixed(c.page, color, 0.45) : color;
}

QString TimelineView::emptyText() const {
  const protocol::Timeline& t = m_model->timeline();
  if (!t.activities.empty()) return {};
  if (t.leftOut > 0) return tr("A step of this notebook has more launches than are drawn. `neoflow profile --trace` writes them.");
  return tr("Profile a step: each of its kernels and copies is drawn where it ran.");
}

void TimelineView::paintAxis(QPainter& p) const {
  const Palette& c = m_theme->colors();
  const QRectF a = area();
  p.setFont(m_theme->mono(11));
  const double step = roundStep((m_to - m_from) / std::max(2.0, a.width() / 90));
  for (double t = std::ceil(m_from / step) * step; t <= m_to; t += step) {
    const double x = xOf(t);
    p.setPen(c.grid);
    p.drawLine(QPointF(x, kAxis), QPointF(x, height()));
    p.setPen(c.muted);
    const QString text = t == 0 ? QStringLiteral("0") : microsecondsText(t * 1e-3);
    const int wide = p.fontMetrics().horizontalAdvance(text);
    p.drawText(QPointF(std::min(x, a.right() - wide), kAxis - 7), text);
  }
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Palette& c = m_theme->colors();
  p.fillRect(rect(), c.page);
  m_drawn = 0;
  if (const QString empty = emptyText(); !empty.isEmpty()) {
    p.setPen(c.muted);
    p.setFont(m_theme->ui(12));
    p.drawText(rect().adjusted(16, 8, -16, -8), Qt::AlignCenter | Qt::TextWordWrap, empty);
    return;
  }
  paintAxis(p);
  const protocol::Timeline& t = m_model->timeline();
  p.setFont(m_theme->ui(11));
  for (const std::vector<int>& rows : m_rows) {
    double painted = -1;  // px, the right edge so far
    bool first = true;
    for (const int row : rows) {
      const QRectF r = rectOf(row);
      if (r.isEmpty()) continue;
      if (first) {
        first = false;
        const std::uint32_t lane = t.activities[static_cast<std::size_t>(row)].lane;
        if (m_band[static_cast<std::size_t>(row)] == m_lanes[lane].first) {
          p.setPen(c.muted);
          p.drawText(QRectF(8, r.top() - 2, kLeft - 14, std::max(16.0, r.height() + 4)), Qt::AlignLeft | Qt::AlignVCenter,
                     p.fontMetrics().elidedText(QString::fromStdString(t.lanes[lane]), Qt::ElideRight, kLeft - 14));
        }
      }
      const auto* site = m_model->siteOf(row);
      const bool selected = row == m_chosen || (site && m_selected && m_selected(*site));
      if (r.right() <= painted + 0.5 && !selected) continue;
      painted = r.right();
      ++m_drawn;
      const QColor color = colorOf(row);
      p.fillRect(r, color);
      if (selected) {
        p.setPen(QPen(row == m_chosen ? c.text : c.accent, row == m_chosen ? 2 : 1));
        p.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
      }
      if (r.width() < 30 || r.height() < 11) continue;
      // Dark letters on light bars and the other way round.
      p.setPen(qGray(color.rgb()) > 128 ? QColor(Qt::black) : QColor(Qt::white));
      p.drawText(r.adjusted(4, 0, -3, 0), Qt::AlignLeft | Qt::AlignVCenter,
                 p.fontMetrics().elidedText(m_model->titleOf(row), Qt::ElideRight, static_cast<int>(r.width()) - 7));
    }
  }
  if (hasFocus()) {
    p.setPen(c.accent);
    p.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

// ---------------------------------------------------------------- mouse and keys
void TimelineView::wheelEvent(QWheelEvent* e) {
  const QPoint delta = e->angleDelta();
  const int turned = delta.y() != 0 ? delta.y() : delta.x();
  if (turned == 0 || m_model->rowCount() == 0) return e->ignore();
  e->accept();
  if (e->modifiers() & Qt::ShiftModifier || delta.y() == 0) return move(-turned / 120.0 * 0.12 * (m_to - m_from));
  zoom(std::pow(0.8, turned / 120.0), nsAt(e->position().x()));
}

void TimelineView::mousePressEvent(QMouseEvent* e) {
  if (e->button() != Qt::LeftButton) return QWidget::mousePressEvent(e);
  m_pressed = e->position();
  m_pressedFrom = m_from;
  m_dragged = false;
}

void TimelineView::mouseMoveEvent(QMouseEvent* e) {
  if (!m_pressed) return QWidget::mouseMoveEvent(e);
  const double by = e->position().x() - m_pressed->x();
  if (std::abs(by) > 4) m_dragged = true;
  if (m_dragged) move(m_pressedFrom - by / area().width() * (m_to - m_from) - m_from);
}

void TimelineView::mouseReleaseEvent(QMouseEvent* e) {
  if (!m_pressed) return QWidget::mouseReleaseEvent(e);
  m_pressed.reset();
  if (m_dragged) return;
  if (const int row = rowAt(e->position()); row >= 0) choose(row);
}

void TimelineView::choose(int row) {
  if (row < 0 || row >= m_model->rowCount()) return;
  m_chosen = row;
  reveal(row);
  update();
  Q_EMIT chosenByHand(row);
}

void TimelineView::reveal(int row) {
  const TimelineActivity& a = m_model->timeline().activities[static_cast<std::size_t>(row)];
  const double span = m_to - m_from, begin = static_cast<double>(a.begin), end = static_cast<double>(a.end);
  if (end > m_from && begin < m_to) return;
  move(begin + (end - begin) / 2 - span / 2 - m_from);
}

// The one of the next or previous band whose begin is nearest.
void TimelineView::chooseNear(int row, int bands) {
  const auto& activities = m_model->timeline().activities;
  for (int band = m_band[static_cast<std::size_t>(row)] + bands; band >= 0 && band < m_bandCount; band += bands) {
    const std::vector<int>& rows = m_rows[static_cast<std::size_t>(band)];
    const auto away = [&](int other) {
      return std::abs(activities[static_cast<std::size_t>(other)].begin - activities[static_cast<std::size_t>(row)].begin);
    };
    const auto nearest = std::min_element(rows.begin(), rows.end(), [&](int a, int b) { return away(a) < away(b); });
    if (nearest != rows.end()) return choose(*nearest);
  }
}

void TimelineView::keyPressEvent(QKeyEvent* e) {
  if (m_model->rowCount() == 0) return QWidget::keyPressEvent(e);
  const double middle = (m_from + m_to) / 2;
  const bool shift = e->modifiers() & Qt::ShiftModifier;
  const auto along = [&](int by) {
    if (shift) return move(by * 0.2 * (m_to - m_from));
    if (m_chosen < 0) return choose(0);
    const std::vector<int>& rows = m_rows[static_cast<std::size_t>(std::max(0, m_band[static_cast<std::size_t>(m_chosen)]))];
    const auto at = std::find(rows.begin(), rows.end(), m_chosen);
    if (at == rows.end() || (by < 0 && at == rows.begin()) || (by > 0 && at + 1 == rows.end())) return;
    choose(*(at + by));
  };
  switch (e->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal: return zoom(0.8, middle);
    case Qt::Key_Minus: return zoom(1.25, middle);
    case Qt::Key_0: return showAll();
    case Qt::Key_Left: return along(-1);
    case Qt::Key_Right: return along(1);
    case Qt::Key_Up: return m_chosen < 0 ? choose(0) : chooseNear(m_chosen, -1);
    case Qt::Key_Down: return m_chosen < 0 ? choose(0) : chooseNear(m_chosen, 1);
    case Qt::Key_Home: return choose(0);
    case Qt::Key_End: return choose(m_model->rowCount() - 1);
    default: QWidget::keyPressEvent(e);
  }
}

void TimelineView::resizeEvent(QResizeEvent*) { update(); }

bool TimelineView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = rowAt(help->pos());
  if (row >= 0) QToolTip::showText(help->globalPos(), m_model->textOf(row), this);
  else QToolTip::hideText();
  return true;
}

}  // namespace nf
