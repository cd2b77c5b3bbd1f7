// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/graph_view.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QPointer>
#include <QSvgGenerator>
#include <QThreadPool>
#include <QToolTip>
#include <cmath>
#include <deque>

#include "widgets/basic.h"
#include "widgets/names.h"

namespace nf {

using namespace protocol;

GraphView::GraphView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAccessibleName(tr("Graph"));
  setMinimumSize(200, 120);
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
  connect(selection, &Selection::changed, this, [this] {
    // What was chosen elsewhere takes the place of the node.
    if (!m_choosing && m_selection->choices() != m_nodeChoice) m_chosen.clear();
    relate();
    update();
  });
}

namespace {
// An operator that a fused kernel computes once more instead of reading it: "d(L)/d(Y)#2".
bool isAgain(const GraphPage& graph, const GraphNode& node) {
  return graph.stage == "fused" && node.added && node.id.find('#') != std::string::npos;
}
QString nodeName(const GraphPage& graph, const GraphNode& node) {
  const QString name = shortName(node.name);
  return isAgain(graph, node) ? name.section(QLatin1Char('#'), 0, 0) : name;
}
// What it computes, the first time or again.
std::string tensorOf(const GraphPage& graph, const GraphNode& node) {
  return isAgain(graph, node) ? node.id.substr(0, node.id.find('#')) : node.id;
}
// Whether two graphs are laid out alike.
bool sameBoxes(const GraphPage& a, const GraphPage& b) {
  const auto same = [](const auto& x, const auto& y, auto equal) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  };
  return a.stage == b.stage &&
         same(a.nodes, b.nodes,
              [](const GraphNode& x, const GraphNode& y) { return x.id == y.id && x.kind == y.kind && x.phase == y.phase; }) &&
         same(a.edges, b.edges, [](const GraphEdge& x, const GraphEdge& y) { return x.from == y.from && x.to == y.to; }) &&
         same(a.groups, b.groups, [](const GraphGroup& x, const GraphGroup& y) { return x.nodes == y.nodes; });
}
// Straight pieces with round corners.
QPainterPath alongRoute(const std::vector<QPointF>& route) {
  constexpr double kRound = 9;
  QPainterPath path(route.front());
  for (std::size_t i = 1; i + 1 < route.size(); ++i) {
    const QPointF in = route[i] - route[i - 1], out = route[i + 1] - route[i];
    const double inLength = std::hypot(in.x(), in.y()), outLength = std::hypot(out.x(), out.y());
    const double r = std::min({kRound, inLength / 2, outLength / 2});
    if (r < 0.5) {
      path.lineTo(route[i]);
      continue;
    }
    path.lineTo(route[i] - in / inLength * r);
    path.quadTo(route[i], route[i] + out / outLength * r);
  }
  path.lineTo(route.back());
  return path;
}
constexpr std::size_t kManyOperators = 40;
constexpr double kReadable = 0.78;  // below this zoom a node has no room for its expression
constexpr double kFitted = 0.55;    // a graph is shown as a whole down to this one
constexpr double kLargest = 1.4;    // a small graph is not blown up further
constexpr double kNamed = 0.42;     // below this one none for its name
// A font's size on the sheet, that it is no smaller than it should be on the screen.
int sized(int px, double scale) { return std::max(px, static_cast<int>(std::ceil(kSmallestText / std::max(scale, 1e-3)))); }
constexpr std::size_t kLarge = 3000;  // nodes: laid out beside the main thread
}  // namespace

GraphLayoutOptions GraphView::options() const { return {m_previous, m_closed}; }

void GraphView::setPlan(GraphPage plan) {
  if (m_plan && sameBoxes(plan, *m_plan)) {
    m_plan = std::make_shared<const GraphPage>(std::move(plan));
    return;
  }
  if (m_plan && m_planned)
    for (std::size_t i = 0; i < m_plan->nodes.size(); ++i) m_previous[m_plan->nodes[i].id] = m_planned->nodes[i].rect.topLeft();
  const bool grouped = std::any_of(plan.groups.begin(), plan.groups.end(), [](const GraphGroup& g) { return g.nodes.size() > 1; });
  if (grouped && !m_groupsSeen) {
    m_groupsSeen = true;
    if (plan.nodes.size() > kManyOperators)
      for (const GraphGroup& g : plan.groups)
        if (g.nodes.size() > 1) m_closed.insert(g.nodes.front());
  }
  m_plan = std::make_shared<const GraphPage>(std::move(plan));
  m_planned.reset();
  ++m_generation;
}

void GraphView::setGraph(GraphPage graph) {
  m_outdated = false;
  if (!m_plan || graph.stage == "fused") setPlan(graph);
  graph.groups = m_plan->groups;
  m_coming = std::move(graph);
  place();
}

void GraphView::place() {
  const auto generation = ++m_generation;
  if (m_plan->nodes.size() < kLarge && m_coming.nodes.size() < kLarge) {
    if (!m_planned) m_planned = std::make_shared<const GraphLayout>(layOutGraph(*m_plan, options()));
    GraphLayout layout = placeOnPlan(m_coming, *m_plan, *m_planned);
    m_graph = m_coming;
    return adopt(std::move(layout));
  }
  // A large one is laid out beside the main thread; until then the old one stays.
  QThreadPool::globalInstance()->start([self = QPointer<GraphView>(this), graph = std::make_shared<const GraphPage>(m_coming),
                                        plan = m_plan, known = m_planned, wishes = options(), generation] {
    const auto planned = known ? known : std::make_shared<const GraphLayout>(layOutGraph(*plan, wishes));
    auto layout = std::make_shared<GraphLayout>(placeOnPlan(*graph, *plan, *planned));
    QMetaObject::invokeMethod(
        self,
        [self, graph, planned, layout, generation] {
          if (!self || self->m_generation != generation) return;
          self->m_planned = planned;
          self->m_graph = *graph;
          self->adopt(std::move(*layout));
        },
        Qt::QueuedConnection);
  });
}

void GraphView::adopt(GraphLayout layout) {
  m_layout = std::move(layout);
  m_captions = captionsOf(m_graph);
  m_in.assign(m_graph.nodes.size(), {});
  m_out.assign(m_graph.nodes.size(), {});
  for (std::size_t e = 0; e < m_layout.edges.size(); ++e) {
    const auto [a, b] = m_layout.edges[e];
    if (a < 0 || b < 0) continue;
    m_out[static_cast<std::size_t>(a)].push_back(static_cast<int>(e));
    m_in[static_cast<std::size_t>(b)].push_back(static_cast<int>(e));
  }
  // Columns come and go at the left from revision to revision: the sheet is moved so that what stays is not.
  QPointF moved;
  int common = 0;
  for (std::size_t i = 0; i < m_plan->nodes.size(); ++i)
    if (const auto was = m_previous.find(m_plan->nodes[i].id); was != m_previous.end() && !m_planned->nodes[i].hidden)
      moved += m_planned->nodes[i].rect.topLeft() - was->second, ++common;
  if (common > 0) m_offset -= moved / common * m_scale;
  m_previous.clear();
  relate();
  if (!m_fitted || !QRectF(QPointF(0, 0), QSizeF(size()))
                        .intersects(QRectF(toWidget(m_layout.bounds.topLeft()), toWidget(m_layout.bounds.bottomRight()))))
    showFirst();
  update();
}

void GraphView::toggleGroup(int group) {
  if (group < 0 || !m_planned || static_cast<std::size_t>(group) >= m_planned->groups.size()) return;
  const auto at = static_cast<std::size_t>(group);
  const QRectF before = m_planned->groups[at].rect;
  if (before.isNull()) return;
  const std::string key = m_plan->groups[at].nodes.front();
  if (!m_closed.erase(key)) m_closed.insert(key);
  m_planned.reset();
  m_coming = m_graph;
  place();
  // The group stays under the hand that opened it.
  if (m_planned) m_offset += (before.topLeft() - m_planned->groups[at].rect.topLeft()) * m_scale;
  update();
}

void GraphView::toggleGroups() {
  if (!m_plan) return;
  const bool open = !m_closed.empty();
  m_closed.clear();
  if (!open)
    for (const GraphGroup& g : m_plan->groups)
      if (g.nodes.size() > 1) m_closed.insert(g.nodes.front());
  m_planned.reset();
  m_coming = m_graph;
  m_fitted = false;
  place();
}

void GraphView::reset() {
  m_previous.clear();
  m_plan.reset();
  m_planned.reset();
  m_closed.clear();
  m_chosen.clear();
  m_groupsSeen = m_fitted = m_moved = false;
  m_stepUs.clear();
  m_totalUs = 0;
  setGraph({});
  m_plan.reset();
}

void GraphView::setSubgraphs(const std::vector<SubgraphInfo>& subgraphs) {
  m_stepUs.clear();
  m_steps.clear();
  m_totalUs = 0;
  for (const SubgraphInfo& s : subgraphs) {
    m_steps.insert(s.operators.begin(), s.operators.end());
    if (!s.us) continue;
    m_totalUs += *s.us * static_cast<double>(s.callsPerStep);
    for (const std::string& op : s.operators) m_stepUs[op] = *s.us;
  }
  update();
}

void GraphView::setNothing(const QString& why) {
  m_nothing = why;
  update();
}

void GraphView::setOutdated(bool outdated) {
  m_outdated = outdated;
  update();
}

void GraphView::setHighlightChanges(bool on) {
  m_changes = on;
  update();
}

void GraphView::setDecision(const QString& producer, const QString& consumer, const QString& text) {
  m_decisionFrom = producer, m_decisionTo = consumer, m_decisionText = text;
  m_decisionChoice = m_selection->choices();
  m_chosen.clear();
  relate();
  // Both ends come into sight, or at least what lies between them.
  QRectF ends;
  if (const auto [a, b] = decisionEnds(); a >= 0)
    ends = m_layout.nodes[static_cast<std::size_t>(a)].rect | m_layout.nodes[static_cast<std::size_t>(b)].rect;
  if (const QRectF shown(toWidget(ends.topLeft()), ends.size() * m_scale); !ends.isNull() && !QRectF(rect()).contains(shown))
    m_offset += QRectF(rect()).center() - shown.center();
  update();
}

bool GraphView::decided() const {
  return !m_decisionFrom.isEmpty() && m_chosen.isEmpty() && m_selection->choices() == m_decisionChoice;
}

// The chosen nodes, and everything on a path through them.
void GraphView::relate() {
  m_marks.clear();
  if (m_selection->empty() && m_chosen.isEmpty()) return;
  // While a decision is what was selected, its two ends are, not everything that came from the same source.
  const bool decided = this->decided();
  std::vector<Mark> marks(m_graph.nodes.size(), Mark::Plain);
  std::vector<int> chosen;
  const auto called = [this](const GraphNode& node) {
    return m_selection->isCalled(node.id) || m_selection->isCalled(tensorOf(m_graph, node));
  };
  // A tensor without a node, as one that a pass has taken out, is still where it came from.
  const bool byName = std::any_of(m_graph.nodes.begin(), m_graph.nodes.end(), called);
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
    if ((!m_selection->empty() && !decided &&
         (byName ? called(m_graph.nodes[i]) : m_selection->relation(m_graph.nodes[i].origins) == Selection::Relation::Exact)) ||
        (decided && isEndOfDecision(m_graph.nodes[i])) || QString::fromStdString(m_graph.nodes[i].id) == m_chosen)
      marks[i] = Mark::Chosen, chosen.push_back(static_cast<int>(i));
  // A token inside an operator: the operator around it is what it led to.
  if (chosen.empty())
    for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
      if (m_selection->relation(m_graph.nodes[i].origins) == Selection::Relation::Around)
        marks[i] = Mark::Chosen, chosen.push_back(static_cast<int>(i));
  if (chosen.empty()) return;
  for (const bool forward : {true, false}) {
    std::vector<bool> seen(marks.size(), false);
    std::deque<int> open(chosen.begin(), chosen.end());
    while (!open.empty()) {
      const auto i = static_cast<std::size_t>(open.front());
      open.pop_front();
      for (const int e : forward ? m_out[i] : m_in[i]) {
        const int next =
            forward ? m_layout.edges[static_cast<std::size_t>(e)].second : m_layout.edges[static_cast<std::size_t>(e)].first;
        if (seen[static_cast<std::size_t>(next)]) continue;
        seen[static_cast<std::size_t>(next)] = true;
        if (marks[static_cast<std::size_t>(next)] == Mark::Plain) marks[static_cast<std::size_t>(next)] = Mark::Path;
        open.push_back(next);
      }
    }
  }
  m_marks = std::move(marks);
}

void GraphView::fit() {
  if (m_layout.bounds.isNull() || width() < 10) return;
  const QRectF room = m_layout.bounds.adjusted(-24, -20, 24, 40);
  m_scale = std::clamp(std::min(width() / room.width(), height() / room.height()), 0.02, kLargest);
  m_offset = QPointF(width() / 2.0, height() / 2.0) - room.center() * m_scale;
  m_fitted = true;
  Q_EMIT zoomChanged(m_scale);
  update();
}

// All of it where its names can be read, else its beginning.
void GraphView::showFirst() {
  fit();
  if (m_scale >= kFitted || m_layout.bounds.isNull() || m_graph.nodes.size() > 3000) return;
  m_scale = kReadable;
  const QSizeF room = m_layout.bounds.size() * m_scale;
  const double x = room.width() + 48 < width() ? (width() - room.width()) / 2 : 24;
  const double y = room.height() + 60 < height() ? (height() - room.height()) / 2 : 20;
  m_offset = QPointF(x, y) - m_layout.bounds.topLeft() * m_scale;
  Q_EMIT zoomChanged(m_scale);
}

void GraphView::resizeEvent(QResizeEvent* event) {
  if (!m_fitted || !m_moved || !event->oldSize().isValid() || event->oldSize().width() < 50) showFirst();
  else
    m_offset += QPointF((event->size().width() - event->oldSize().width()) / 2.0,
                        (event->size().height() - event->oldSize().height()) / 2.0);
}

void GraphView::zoomBy(double factor, std::optional<QPointF> at) {
  const QPointF centre = at.value_or(QPointF(width() / 2.0, height() / 2.0));
  const double next = std::clamp(m_scale * factor, 0.02, 4.0);
  m_offset = centre - (centre - m_offset) * (next / m_scale);
  m_scale = next;
  m_moved = true;
  Q_EMIT zoomChanged(m_scale);
  update();
}

QColor GraphView::phaseColor(const GraphNode& node) const {
  const Palette& c = m_theme->colors();
  switch (node.phase) {
    case Phase::Forward: return c.forward;
    case Phase::Backward: return c.backward;
    case Phase::Optimizer: return c.optimizer;
    case Phase::Evaluation: return c.muted;
  }
  return c.forward;
}

void GraphView::paintEdge(QPainter& p, std::size_t e, const QColor& color, double width) {
  const auto [a, b] = m_layout.edges[e];
  const auto& route = m_layout.routes[e];
  QPointF end, before;
  QPainterPath path;
  if (route.size() < 2) {
    const EdgeCurve c = curveBetween(m_layout.nodes[static_cast<std::size_t>(a)], m_layout.nodes[static_cast<std::size_t>(b)]);
    path.moveTo(c.start);
    path.cubicTo(c.c1, c.c2, c.end);
    end = c.end, before = c.c2;
  } else {
    path = alongRoute(route);
    end = route.back(), before = route[route.size() - 2];
  }
  QPen pen(color, width);
  if (m_graph.edges[e].keptForBackward) pen.setStyle(Qt::DotLine);
  p.setPen(pen);
  p.setBrush(Qt::NoBrush);
  p.drawPath(path);
  QPointF direction = end - before;
  const double length = std::hypot(direction.x(), direction.y());
  if (length < 1e-6) return;
  direction /= length;
  const QPointF normal(-direction.y(), direction.x());
  p.setPen(Qt::NoPen);
  p.setBrush(color);
  p.drawPolygon(QPolygonF{end, end - direction * 7 + normal * 3.2, end - direction * 7 - normal * 3.2});
}

QStringList captionsOf(const GraphPage& graph) {
  std::map<std::string_view, const GraphNode*> again;
  for (const GraphNode& n : graph.nodes)
    if (isAgain(graph, n)) again.emplace(n.id, &n);
  QStringList captions;
  std::map<std::string_view, qsizetype> at;
  for (const GraphNode& n : graph.nodes) {
    at.emplace(n.id, captions.size());
    captions << (isAgain(graph, n) ? GraphView::tr("computed again") : shortName(n.text));
  }
  for (const GraphEdge& e : graph.edges) {
    const auto from = again.find(e.from);
    const auto to = at.find(e.to);
    if (from == again.end() || to == at.end() || again.contains(e.to)) continue;
    captions[to->second].replace(shortName(from->second->name), nodeName(graph, *from->second));
  }
  return captions;
}

QString GraphView::tagOf(int group) const {
  const GraphGroup& g = m_graph.groups[static_cast<std::size_t>(group)];
  return g.id == g.name ? QString() : QString::fromStdString(g.id);
}

// What a step spends in a group, and of how much.
QString GraphView::factsOf(int index) const {
  const GraphGroup& group = m_graph.groups[static_cast<std::size_t>(index)];
  const bool closed = m_layout.groups[static_cast<std::size_t>(index)].closed;
  int members = 0;
  for (std::size_t i = 0; i < m_layout.groupOf.size(); ++i) members += m_layout.groupOf[i] == index && !m_layout.nodes[i].pill;
  const QString operators = counted(members, tr("operator"), tr("operators"));
  if (!m_plan || m_graph.stage != m_plan->stage) return operators;
  QStringList facts;
  if (group.kernels > 1 || !closed) facts << counted(group.kernels, tr("kernel"), tr("kernels"));
  std::optional<double> us = group.us;
  for (const std::string& op : group.nodes)
    if (const auto found = m_stepUs.find(op); found != m_stepUs.end() && !us)
      us = found->second * static_cast<double>(group.kernels);
  if (us) {
    facts << microsecondsText(*us);
    if (m_totalUs > 0) facts << tr("%1 %").arg(QString::number(*us / m_totalUs * 100, 'f', *us / m_totalUs < 0.0995 ? 1 : 0));
  }
  // A copy that computes something again is known by what it serves.
  const auto leftOut = [&](const std::string& op) { return op.find('#') != std::string::npos || !m_steps.contains(op); };
  if (!us && !m_steps.empty() && std::all_of(group.nodes.begin(), group.nodes.end(), leftOut)) facts << tr("left out by training");
  if (closed) facts << operators;
  return facts.join(QStringLiteral("  "));
}

void GraphView::paintGroup(QPainter& p, std::size_t g, double scale) {
  const Palette& c = m_theme->colors();
  const auto& box = m_layout.groups[g];
  const GraphGroup& group = m_graph.groups[g];
  const bool detail = scale >= kNamed;
  bool marked = m_marks.empty(), chosen = false;
  std::vector<int> members(4, 0);
  for (std::size_t i = 0; i < m_layout.groupOf.size() && box.closed; ++i) {
    if (m_layout.groupOf[i] != static_cast<int>(g)) continue;
    if (!m_layout.nodes[i].pill) ++members[static_cast<std::size_t>(m_graph.nodes[i].phase)];
  }
  if (!m_marks.empty())
    for (std::size_t i = 0; i < m_layout.groupOf.size(); ++i)
      if (m_layout.groupOf[i] == static_cast<int>(g)) {
        marked = marked || m_marks[i] != Mark::Plain;
        chosen = chosen || m_marks[i] == Mark::Chosen;
      }
  const bool dim = !marked || m_outdated;
  const auto shade = [&](const QColor& color) { return dim ? mixed(c.page, color, 0.42) : color; };
  const QString facts = factsOf(static_cast<int>(g));
  // As cards and tables call it, before the name of what it makes.
  const QString name = shortName(group.name), id = tagOf(static_cast<int>(g));
  const auto tagWidth = [&](const QFontMetrics& metrics) { return id.isEmpty() ? 0 : metrics.horizontalAdvance(id) + 6; };
  if (box.closed) {
    const QColor phases[] = {c.forward, c.backward, c.optimizer, c.muted};
    QColor main = c.forward;
    int most = 0;
    for (std::size_t k = 0; k < 4; ++k)
      if (members[k] > most) most = members[k], main = phases[k];
    p.setPen(QPen(chosen ? c.text : mixed(c.page, main, dim ? 0.35 : 0.75), chosen ? 2.2 : 1.1));
    p.setBrush(mixed(c.page, main, (c.dark ? 0.13 : 0.07) * (dim ? 0.4 : 1)));
    p.drawRoundedRect(box.rect, 10, 10);
    // The bar shows every phase in the group by its share.
    const int total = std::max(1, members[0] + members[1] + members[2] + members[3]);
    double y = box.rect.top() + 8;
    const double room = box.rect.height() - 16;
    p.setPen(Qt::NoPen);
    for (std::size_t k = 0; k < 4; ++k) {
      if (members[k] == 0) continue;
      const double h = room * members[k] / total;
      p.setBrush(shade(phases[k]));
      p.drawRect(QRectF(box.rect.left() + 6, y, 3, h));
      y += h;
    }
    if (!detail) return;
    p.drawPixmap(QRectF(box.rect.left() + 12, box.rect.top() + 7, 14, 14),
                 m_theme->pixmap(QStringLiteral("right"), shade(c.muted), 2), QRectF(0, 0, 32, 32));
    const QRectF inner = box.rect.adjusted(28, 3, -8, -3);
    const QFont small = m_theme->ui(sized(11, scale));
    p.setFont(m_theme->ui(sized(12, scale), QFont::DemiBold));
    p.setPen(shade(c.text));
    const bool both = p.fontMetrics().height() + QFontMetrics(small).height() <= inner.height() + 1;
    const int place = (both ? Qt::AlignTop : Qt::AlignVCenter) | Qt::AlignLeft;
    const double tag = tagWidth(p.fontMetrics());
    p.drawText(inner.adjusted(tag, 0, 0, 0), place, elidedName(p.fontMetrics(), name, static_cast<int>(inner.width() - tag)));
    p.setPen(shade(c.muted));
    p.drawText(inner, place, id);
    if (!both) return;
    p.setFont(small);
    p.setPen(shade(c.muted));
    p.drawText(inner, Qt::AlignBottom | Qt::AlignLeft,
               p.fontMetrics().elidedText(facts, Qt::ElideRight, static_cast<int>(inner.width())));
    return;
  }
  if (!detail) return;
  const QRectF title(box.rect.left() + 6, box.rect.top() + 3, box.rect.width() - 12, kGroupTitle - 6);
  p.setFont(m_theme->ui(sized(12, scale)));
  if (p.fontMetrics().height() > kGroupTitle) return;
  const double factsWidth = p.fontMetrics().horizontalAdvance(facts);
  p.setFont(m_theme->ui(sized(12, scale), QFont::DemiBold));
  const double tag = tagWidth(p.fontMetrics()), nameLeft = 18 + tag;
  const double full = p.fontMetrics().horizontalAdvance(name);
  const bool both = nameLeft + std::min(full, 60.0) + 10 + factsWidth < title.width();
  const double nameRoom = title.width() - nameLeft - (both ? factsWidth + 10 : 0);
  const QString shownName = elidedName(p.fontMetrics(), name, static_cast<int>(nameRoom));
  const double nameWidth = p.fontMetrics().horizontalAdvance(shownName);
  p.fillRect(QRectF(title.left(), title.top(), std::min(title.width(), nameLeft + nameWidth + 10 + (both ? factsWidth : 0)),
                    title.height()),
             c.page);
  p.drawPixmap(QRectF(title.left() + 1, title.top() + 2, 14, 14), m_theme->pixmap(QStringLiteral("down"), shade(c.muted), 2),
               QRectF(0, 0, 32, 32));
  p.setPen(shade(c.muted));
  p.drawText(QRectF(title.left() + 18, title.top(), tag, title.height()), Qt::AlignVCenter, id);
  p.setPen(shade(c.text));
  p.drawText(QRectF(title.left() + nameLeft, title.top(), nameWidth + 4, title.height()), Qt::AlignVCenter, shownName);
  if (!both) return;
  p.setFont(m_theme->ui(sized(12, scale)));
  p.setPen(shade(c.muted));
  p.drawText(QRectF(title.left() + nameLeft + nameWidth + 10, title.top(), factsWidth + 4, title.height()), Qt::AlignVCenter,
             facts);
}

void GraphView::paintWorld(QPainter& p, const QRectF& visible, double scale) {
  const Palette& c = m_theme->colors();
  const auto faded = [&](const QColor& color) { return mixed(c.page, color, 0.32); };
  const bool detail = scale >= kNamed;
  p.setRenderHint(QPainter::Antialiasing, m_graph.nodes.size() < 5000);
  // Dashing and stroking curves that cross the whole of a large graph takes minutes: there, edges are hairlines.
  const bool hairlines = scale < 0.12 || m_layout.edges.size() > 20000;
  for (const auto& group : m_layout.groups) {
    if (group.closed || group.rect.isNull() || !group.rect.intersects(visible)) continue;
    const auto g = static_cast<int>(&group - m_layout.groups.data());
    bool marked = m_marks.empty();
    for (std::size_t i = 0; i < m_layout.groupOf.size() && !marked; ++i)
      marked = m_layout.groupOf[i] == g && m_marks[i] != Mark::Plain;
    p.setPen(QPen(mixed(c.page, c.muted, marked && !m_outdated ? 0.75 : 0.3), 1.1));
    p.setBrush(Qt::NoBrush);
    p.drawRoundedRect(group.rect, 10, 10);
  }
  const auto markOf = [&](std::size_t i) { return m_marks.empty() ? Mark::Plain : m_marks[i]; };
  for (const bool strong : {false, true})
    for (std::size_t e = 0; e < m_layout.edges.size(); ++e) {
      if (!m_layout.drawn[e]) continue;
      const auto a = static_cast<std::size_t>(m_layout.edges[e].first), b = static_cast<std::size_t>(m_layout.edges[e].second);
      const auto &ra = m_layout.nodes[a].rect, &rb = m_layout.nodes[b].rect;
      if (!ra.united(rb).intersects(visible)) continue;
      const bool on = !m_marks.empty() && markOf(a) != Mark::Plain && markOf(b) != Mark::Plain;
      if (on != strong) continue;
      const GraphNode& to = m_graph.nodes[b];
      QColor color = to.kind == NodeKind::Operator ? phaseColor(to) : c.muted;
      // What a step hands to another part of the picture would cover everything between.
      const bool pill = m_layout.nodes[a].pill || m_layout.nodes[b].pill;
      const bool far =
          m_graph.edges[e].keptForBackward || m_graph.edges[e].carried ||
          (pill && (std::abs(ra.center().y() - rb.center().y()) > 150 || std::abs(ra.center().x() - rb.center().x()) > 420));
      const bool touched = markOf(a) == Mark::Chosen || markOf(b) == Mark::Chosen;
      if (far && !touched) color = mixed(c.page, color, m_graph.edges.size() > 60 ? 0.14 : 0.3);
      else if (pill) color = mixed(c.page, color, 0.6);
      else if (!m_marks.empty() && !on) color = faded(color);
      if (m_outdated) color = faded(color);
      if (hairlines) {
        p.setPen(QPen(color, 0));
        p.drawLine(ra.center(), rb.center());
      } else {
        paintEdge(p, e, color, on && !(far && !touched) ? 2.2 : 1.3);
      }
    }
  for (std::size_t g = 0; g < m_layout.groups.size(); ++g)
    if (m_layout.groups[g].closed && m_layout.groups[g].rect.intersects(visible)) paintGroup(p, g, scale);
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
    const auto& box = m_layout.nodes[i];
    if (box.hidden || !box.rect.intersects(visible)) continue;
    const GraphNode& node = m_graph.nodes[i];
    const Mark mark = m_marks.empty() ? Mark::Path : m_marks[i];
    const bool dim = (mark == Mark::Plain && !m_marks.empty()) || m_outdated || (m_changes && !node.added && !node.changed);
    const QColor phase = dim ? faded(phaseColor(node)) : phaseColor(node);
    const QColor text = dim ? mixed(c.page, c.text, 0.42) : c.text, muted = dim ? mixed(c.page, c.muted, 0.42) : c.muted;
    const bool chosen = !m_marks.empty() && m_marks[i] == Mark::Chosen;
    if (box.pill) {
      p.setPen(QPen(chosen ? c.text : mixed(c.page, c.muted, dim ? 0.3 : 0.7), chosen ? 2 : 1.1));
      p.setBrush(c.page);
      p.drawRoundedRect(box.rect, 11, 11);
      if (!detail) continue;
      const bool turns = node.kind == NodeKind::State;
      p.setFont(m_theme->mono(sized(12, scale)));
      if (p.fontMetrics().ascent() > box.rect.height()) continue;
      p.setPen(text);
      p.drawText(box.rect.adjusted(6, 0, turns ? -20 : -6, 0), Qt::AlignCenter,
                 p.fontMetrics().elidedText(QString::fromStdString(node.name), Qt::ElideMiddle,
                                            static_cast<int>(box.rect.width()) - (turns ? 26 : 12)));
      if (turns)
        p.drawPixmap(QRectF(box.rect.right() - 19, box.rect.top() + 4, 14, 14), m_theme->pixmap(QStringLiteral("loop"), muted, 2),
                     QRectF(0, 0, 32, 32));
      continue;
    }
    p.setPen(QPen(chosen ? c.text : mixed(c.page, phase, dim ? 0.4 : 0.75), chosen ? 2.2 : 1));
    p.setBrush(mixed(c.page, phase, (c.dark ? 0.16 : 0.09) * (dim ? 0.4 : 1)));
    p.drawRoundedRect(box.rect, 4, 4);
    p.setPen(Qt::NoPen);
    p.setBrush(phase);
    p.drawRoundedRect(QRectF(box.rect.left() + 3, box.rect.top() + 4, 3, box.rect.height() - 8), 1.5, 1.5);
    if (!detail) continue;
    const QRectF inner = box.rect.adjusted(12, 1, -5, -1);
    const QFont small = m_theme->ui(sized(11, scale));
    p.setFont(m_theme->mono(sized(13, scale)));
    p.setPen(text);
    const bool both = p.fontMetrics().height() + QFontMetrics(small).height() <= inner.height() + 1;
    p.drawText(both ? inner.adjusted(0, 1, 0, -1) : inner, (both ? Qt::AlignTop : Qt::AlignVCenter) | Qt::AlignLeft,
               p.fontMetrics().elidedText(nodeName(m_graph, node), Qt::ElideMiddle, static_cast<int>(inner.width())));
    if (!both) continue;
    p.setFont(small);
    p.setPen(muted);
    p.drawText(inner.adjusted(0, 1, 0, -1), Qt::AlignBottom | Qt::AlignLeft,
               p.fontMetrics().elidedText(captionOf(static_cast<int>(i)), Qt::ElideRight, static_cast<int>(inner.width())));
    if (m_changes && node.added && !dim) {
      p.setFont(m_theme->ui(sized(11, scale), QFont::DemiBold));
      p.setPen(c.proved);
      p.drawText(inner, Qt::AlignTop | Qt::AlignRight, tr("new"));
    }
  }
  for (std::size_t g = 0; g < m_layout.groups.size(); ++g) {
    const auto& group = m_layout.groups[g];
    if (!group.closed && !group.rect.isNull() && group.rect.intersects(visible)) paintGroup(p, g, scale);
  }
  if (!detail) return;
  const QRectF tag = decisionPlace();
  if (tag.isNull()) return;
  p.setFont(m_theme->mono(sized(12, m_scale), QFont::DemiBold));
  p.setPen(QPen(c.text, 1.2));
  p.setBrush(c.page);
  p.drawRoundedRect(tag, 3, 3);
  p.drawText(tag, Qt::AlignCenter, m_decisionText);
}

bool GraphView::isEndOfDecision(const GraphNode& node) const {
  const QString tensor = QString::fromStdString(tensorOf(m_graph, node));
  return tensor == m_decisionFrom || tensor == m_decisionTo;
}

// The first edge from the one to the other: where an operator is computed in several kernels, in the first of them.
std::pair<int, int> GraphView::decisionEnds() const {
  for (const auto& [a, b] : m_layout.edges)
    if (a >= 0 && b >= 0 &&
        QString::fromStdString(tensorOf(m_graph, m_graph.nodes[static_cast<std::size_t>(a)])) == m_decisionFrom &&
        QString::fromStdString(tensorOf(m_graph, m_graph.nodes[static_cast<std::size_t>(b)])) == m_decisionTo)
      return {a, b};
  return {-1, -1};
}

QRectF GraphView::decisionPlace() const {
  if (!decided()) return {};
  const auto [a, b] = decisionEnds();
  if (a < 0 || b < 0) return {};
  const QRectF ra = m_layout.nodes[static_cast<std::size_t>(a)].rect, rb = m_layout.nodes[static_cast<std::size_t>(b)].rect;
  const QFontMetricsF metrics(m_theme->mono(sized(12, m_scale), QFont::DemiBold));
  const QSizeF size(metrics.horizontalAdvance(m_decisionText) + 16, metrics.height() + 4);
  return freePlace(ra == rb ? QPointF(ra.center().x(), ra.bottom() + size.height() / 2 + 5) : (ra.center() + rb.center()) / 2,
                   size);
}

// The place nearest to `wanted` where a label covers no box and no group's title.
QRectF GraphView::freePlace(QPointF wanted, QSizeF size) const {
  constexpr double kStep = 6, kFarthest = 240;
  const auto around = [&](QPointF at) { return QRectF(at - QPointF(size.width() / 2, size.height() / 2), size); };
  // Where the legend stands, on the sheet; what is wanted below it is out of sight anyway.
  constexpr double kLegend = 34;
  const double legend = (height() - kLegend - m_offset.y()) / m_scale;
  const auto free = [&](const QRectF& place) {
    const QRectF wide = place.adjusted(-3, -3, 3, 3);
    if (wanted.y() < legend && wide.bottom() > legend) return false;
    return std::none_of(m_layout.nodes.begin(), m_layout.nodes.end(), [&](const auto& n) { return n.rect.intersects(wide); }) &&
           std::none_of(m_layout.groups.begin(), m_layout.groups.end(), [&](const auto& g) {
             return !g.rect.isNull() &&
                    QRectF(g.rect.topLeft(), QSizeF(g.rect.width(), g.closed ? g.rect.height() : kGroupTitle)).intersects(wide);
           });
  };
  for (double r = 0; r <= kFarthest; r += kStep)
    for (int k = 0; k < (r > 0 ? 24 : 1); ++k) {
      // Downwards first: titles stand above.
      const double angle = M_PI / 2 + (k % 2 ? 1 : -1) * ((k + 1) / 2) * M_PI / 12;
      if (const QRectF place = around(wanted + QPointF(std::cos(angle), std::sin(angle)) * r); free(place)) return place;
    }
  return around(wanted);
}

// A small picture of the whole, where it does not fit, with what is in sight.
QRectF GraphView::overview() const {
  const QRectF all = m_layout.bounds;
  if (all.isNull() || m_graph.nodes.size() < 2 || width() < 500 || height() < 320) return {};
  const QRectF shown(toWidget(all.topLeft()), toWidget(all.bottomRight()));
  if (QRectF(rect()).adjusted(-4, -4, 4, 4).contains(shown)) return {};
  const double scale = std::min(160 / all.width(), 80 / all.height());
  const QSizeF size = all.size() * scale;
  return {width() - size.width() - 12, height() - size.height() - 12, size.width(), size.height()};
}

void GraphView::paintOverview(QPainter& p) {
  const QRectF place = overview();
  if (place.isNull()) return;
  const Palette& c = m_theme->colors();
  const double scale = place.width() / m_layout.bounds.width();
  p.setPen(c.separator);
  p.setBrush(c.page);
  p.drawRect(place.adjusted(-4, -4, 4, 4));
  if (m_graph.nodes.size() < 5000)
    for (std::size_t i = 0; i < m_layout.nodes.size(); ++i) {
      const QRectF& r = m_layout.nodes[i].rect;
      p.fillRect(QRectF(place.topLeft() + (r.topLeft() - m_layout.bounds.topLeft()) * scale,
                        QSizeF(std::max(1.5, r.width() * scale), std::max(1.5, r.height() * scale))),
                 m_layout.nodes[i].pill ? c.separator : mixed(c.page, phaseColor(m_graph.nodes[i]), 0.6));
    }
  const QRectF seen(-m_offset / m_scale, QSizeF(size()) / m_scale);
  QRectF frame(place.topLeft() + (seen.topLeft() - m_layout.bounds.topLeft()) * scale, seen.size() * scale);
  p.setPen(QPen(c.accent, 1));
  p.setBrush(Qt::NoBrush);
  p.drawRect(frame.intersected(place.adjusted(-3, -3, 3, 3)));
}

void GraphView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.fillRect(rect(), m_theme->colors().page);
  p.save();
  p.translate(m_offset);
  p.scale(m_scale, m_scale);
  paintWorld(p, QRectF(-m_offset / m_scale, QSizeF(size()) / m_scale), m_scale);
  p.restore();
  const Palette& c = m_theme->colors();
  if (m_graph.nodes.empty()) {
    p.setPen(c.muted);
    p.setFont(m_theme->ui());
    p.drawText(rect(), Qt::AlignCenter, m_nothing);
    return;
  }
  paintLegend(p);
  paintOverview(p);
  if (hasFocus()) {
    p.setPen(QPen(mixed(c.page, c.accent, 0.6), 1));
    p.setBrush(Qt::NoBrush);
    p.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

void GraphView::paintLegend(QPainter& p) const {
  constexpr double kLine = 26, kBeside = 8, kApart = 24, kRow = 20;
  const Palette& c = m_theme->colors();
  p.setRenderHint(QPainter::Antialiasing);
  p.setFont(m_theme->ui(12));
  struct Entry {
    QString word;
    QColor color;
    Qt::PenStyle style;  // NoPen: the sign of what is carried
  };
  const Entry entries[] = {{tr("forward"), c.forward, Qt::SolidLine},
                           {tr("backward"), c.backward, Qt::SolidLine},
                           {tr("optimiser"), c.optimizer, Qt::SolidLine},
                           {tr("kept for backward"), c.muted, Qt::DotLine},
                           {tr("carried between steps"), c.muted, Qt::NoPen}};
  std::vector<std::vector<const Entry*>> rows(1);
  double x = 16;
  for (const Entry& e : entries) {
    const double w = kLine + kBeside + p.fontMetrics().horizontalAdvance(e.word) + kApart;
    if (x + w > width() && !rows.back().empty()) rows.emplace_back(), x = 16;
    rows.back().push_back(&e);
    x += w;
  }
  double y = height() - 16 - kRow * static_cast<double>(rows.size() - 1);
  for (const auto& row : rows) {
    x = 16;
    for (const Entry* e : row) {
      const double w = p.fontMetrics().horizontalAdvance(e->word);
      p.fillRect(QRectF(x - 6, y - kRow / 2, kLine + kBeside + w + 12, kRow), c.page);
      if (e->style == Qt::NoPen) {
        p.drawPixmap(QRectF(x + kLine - 18, y - 7, 14, 14), m_theme->pixmap(QStringLiteral("loop"), e->color, 2),
                     QRectF(0, 0, 32, 32));
      } else {
        p.setPen(QPen(e->color, 1.8, e->style));
        p.drawLine(QPointF(x, y), QPointF(x + kLine, y));
        p.setPen(Qt::NoPen);
        p.setBrush(e->color);
        if (e->style == Qt::SolidLine) p.drawPolygon(QPolygonF{{x + kLine, y}, {x + kLine - 7, y - 3.2}, {x + kLine - 7, y + 3.2}});
      }
      p.setPen(c.muted);
      p.drawText(QRectF(x + kLine + kBeside, y - kRow / 2, w + 4, kRow), Qt::AlignVCenter, e->word);
      x += kLine + kBeside + w + kApart;
    }
    y += kRow;
  }
}

bool GraphView::saveSvg(const QString& path) {
  QSvgGenerator svg;
  svg.setFileName(path);
  const QRectF room = m_layout.bounds.adjusted(-16, -16, 16, 16);
  svg.setViewBox(QRectF(QPointF(0, 0), room.size()));
  svg.setSize(room.size().toSize());
  svg.setTitle(QString::fromStdString(m_graph.stage));
  QPainter p;
  if (!p.begin(&svg)) return false;
  p.fillRect(QRectF(QPointF(0, 0), room.size()), m_theme->colors().page);
  p.translate(-room.topLeft());
  paintWorld(p, room, 1);
  return p.end();
}

int GraphView::nodeAt(QPointF world) const {
  for (std::size_t i = m_layout.nodes.size(); i-- > 0;)
    if (!m_layout.nodes[i].hidden && m_layout.nodes[i].rect.contains(world)) return static_cast<int>(i);
  return -1;
}

// The group at a place: a closed one anywhere, an open one at its title.
int GraphView::groupAt(QPointF world, bool titleOnly) const {
  for (std::size_t g = 0; g < m_layout.groups.size(); ++g) {
    QRectF r = m_layout.groups[g].rect;
    if (r.isNull()) continue;
    if (m_layout.groups[g].closed && titleOnly) r.setWidth(28);
    if (!m_layout.groups[g].closed) r.setHeight(kGroupTitle - 4);
    if (r.contains(world)) return static_cast<int>(g);
  }
  return -1;
}

// Of the node or group in m_chosen.
void GraphView::chooseTensors(const Origins& origins, std::vector<std::string> tensors) {
  m_choosing = true;
  m_selection->select(origins, std::move(tensors));
  m_choosing = false;
  m_nodeChoice = m_selection->choices();
}

void GraphView::choose(const QString& id, bool reveal) {
  m_chosen = id;
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
    if (QString::fromStdString(m_graph.nodes[i].id) != id) continue;
    if (reveal && i < m_layout.nodes.size()) {
      const QPointF at = toWidget(m_layout.nodes[i].rect.center());
      if (!rect().adjusted(60, 40, -60, -40).contains(at.toPoint())) m_offset += QPointF(width() / 2.0, height() / 2.0) - at;
    }
    chooseTensors(m_graph.nodes[i].origins, {m_graph.nodes[i].id});
    break;
  }
  relate();
  update();
  Q_EMIT nodeChosen(id);
}

void GraphView::chooseNothing() {
  m_chosen.clear();
  m_decisionFrom.clear();
  m_selection->clear();
  relate();
  update();
  Q_EMIT nodeChosen({});
}

bool GraphView::findNext(const QString& text) {
  if (text.isEmpty() || m_graph.nodes.empty()) return false;
  std::size_t from = 0;
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
    if (QString::fromStdString(m_graph.nodes[i].id) == m_chosen) from = i + 1;
  for (std::size_t k = 0; k < m_graph.nodes.size(); ++k) {
    const GraphNode& node = m_graph.nodes[(from + k) % m_graph.nodes.size()];
    const QString name = QString::fromStdString(node.name);
    if (!name.contains(text, Qt::CaseInsensitive) && !shortName(name).contains(text, Qt::CaseInsensitive)) continue;
    choose(QString::fromStdString(node.id), true);
    return true;
  }
  return false;
}

void GraphView::mousePressEvent(QMouseEvent* event) {
  if (const QRectF place = overview(); place.contains(event->position())) {
    const QPointF world =
        m_layout.bounds.topLeft() + (event->position() - place.topLeft()) * (m_layout.bounds.width() / place.width());
    m_offset = QPointF(width() / 2.0, height() / 2.0) - world * m_scale;
    m_pressed = event->position(), m_pressedOffset = m_offset;
    m_dragging = true;
    return update();
  }
  m_pressed = event->position(), m_pressedOffset = m_offset;
  m_dragging = false;
}

void GraphView::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons() & (Qt::LeftButton | Qt::MiddleButton)) {
    const QPointF by = event->position() - m_pressed;
    if (!m_dragging && std::hypot(by.x(), by.y()) < 4) return;
    m_dragging = m_moved = true;
    m_offset = m_pressedOffset + by;
    update();
  } else {
    const QPointF world = (event->position() - m_offset) / m_scale;
    setCursor(nodeAt(world) >= 0 || groupAt(world, false) >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
  }
}

void GraphView::mouseReleaseEvent(QMouseEvent* event) {
  if (m_dragging) return void(m_dragging = false);
  const QPointF world = (event->position() - m_offset) / m_scale;
  if (const int title = groupAt(world, true); title >= 0) return toggleGroup(title);
  const int i = nodeAt(world);
  if (i >= 0) return choose(QString::fromStdString(m_graph.nodes[static_cast<std::size_t>(i)].id), false);
  if (const int g = groupAt(world, false); g >= 0) {
    const GraphGroup& group = m_graph.groups[static_cast<std::size_t>(g)];
    m_chosen = QString::fromStdString(group.nodes.front());
    chooseTensors(group.origins, group.nodes);
    relate();
    update();
    Q_EMIT groupChosen(QString::fromStdString(group.id));
    return;
  }
  chooseNothing();
}

void GraphView::mouseDoubleClickEvent(QMouseEvent* event) {
  const QPointF world = (event->position() - m_offset) / m_scale;
  if (const int i = nodeAt(world); i >= 0)
    return Q_EMIT nodeOpened(QString::fromStdString(m_graph.nodes[static_cast<std::size_t>(i)].id));
  if (const int g = groupAt(world, false); g >= 0 && groupAt(world, true) < 0) toggleGroup(g);
}

void GraphView::wheelEvent(QWheelEvent* event) {
  if (event->modifiers() & Qt::ShiftModifier) {
    m_offset += QPointF(event->angleDelta().y(), event->angleDelta().x()) / 2;
    m_moved = true;
    update();
  } else {
    zoomBy(std::pow(1.0015, event->angleDelta().y()), event->position());
  }
}

void GraphView::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
    case Qt::Key_Up:
    case Qt::Key_Down: return step(event->key());
    case Qt::Key_Plus:
    case Qt::Key_Equal: return zoomBy(1.25);
    case Qt::Key_Minus: return zoomBy(0.8);
    case Qt::Key_0: m_moved = false; return fit();
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (!m_chosen.isEmpty()) Q_EMIT nodeOpened(m_chosen);
      return;
    case Qt::Key_Space:
      for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
        if (QString::fromStdString(m_graph.nodes[i].id) == m_chosen) return toggleGroup(m_layout.groupOf[i]);
      return;
    case Qt::Key_Escape: return chooseNothing();
    default: QWidget::keyPressEvent(event);
  }
}

// Right and left follow the drawn direction of the edges; up and down go to the next node of the column.
void GraphView::step(int key) {
  int current = -1;
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
    if (QString::fromStdString(m_graph.nodes[i].id) == m_chosen) current = static_cast<int>(i);
  if (current < 0) {
    if (!m_graph.nodes.empty()) choose(QString::fromStdString(m_graph.nodes[0].id), true);
    return;
  }
  const QPointF here = m_layout.nodes[static_cast<std::size_t>(current)].rect.center();
  int best = -1;
  double least = 1e18;
  const auto consider = [&](int i) {
    if (i == current || i < 0) return;
    const QPointF by = m_layout.nodes[static_cast<std::size_t>(i)].rect.center() - here;
    const double along = key == Qt::Key_Right ? by.x() : key == Qt::Key_Left ? -by.x() : key == Qt::Key_Down ? by.y() : -by.y();
    const double across = key == Qt::Key_Right || key == Qt::Key_Left ? by.y() : by.x();
    if (along > 4 && along + 2 * std::abs(across) < least) least = along + 2 * std::abs(across), best = i;
  };
  for (const int e : m_out[static_cast<std::size_t>(current)]) consider(m_layout.edges[static_cast<std::size_t>(e)].second);
  for (const int e : m_in[static_cast<std::size_t>(current)]) consider(m_layout.edges[static_cast<std::size_t>(e)].first);
  if (best < 0)
    for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) consider(static_cast<int>(i));
  if (best >= 0) choose(QString::fromStdString(m_graph.nodes[static_cast<std::size_t>(best)].id), true);
}

bool GraphView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    const int i = nodeAt((QPointF(help->pos()) - m_offset) / m_scale);
    if (const int g = groupAt((QPointF(help->pos()) - m_offset) / m_scale, false); g >= 0) {
      const GraphGroup& group = m_graph.groups[static_cast<std::size_t>(g)];
      QStringList names;
      for (const std::string& id : group.nodes) names << shortName(id);
      QToolTip::showText(help->globalPos(), QString::fromStdString(group.id) + QStringLiteral("  ") + shortName(group.name) +
                                                QLatin1Char('\n') + factsOf(g) + QLatin1Char('\n') +
                                                names.join(QStringLiteral(", ")));
    } else if (i < 0) {
      QToolTip::hideText();
    } else {
      const GraphNode& n = m_graph.nodes[static_cast<std::size_t>(i)];
      QToolTip::showText(
          help->globalPos(),
          QStringLiteral("%1  %2 [%3]\n%4\n%5%6")
              .arg(nodeName(m_graph, n), QString::fromStdString(n.dtype), shapeText(n.shape),
                   QString::fromStdString(n.statement.empty() ? n.text : n.statement), bytesText(static_cast<double>(n.bytes)),
                   n.flops > 0 ? QStringLiteral(" · ") + flopsText(static_cast<double>(n.flops)) : QString()));
    }
    return true;
  }
  return QWidget::event(event);
}

}  // namespace nf
