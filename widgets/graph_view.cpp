// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/graph_view.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPointer>
#include <QThreadPool>
#include <QToolTip>
#include <cmath>
#include <deque>
#include <tuple>

#include "core/support/unique_names.h"
#include "widgets/basic.h"
#include "widgets/graph_names.h"
#include "widgets/moved_places.h"
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
    if (!m_choosing) bringChosenIntoSight();
    update();
  });
}

namespace {
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
constexpr std::size_t kManyOperators = 40;
constexpr double kReadable = 0.78;    // below this zoom a node has no room for its expression
constexpr double kFitted = 0.48;      // a graph is shown as a whole down to this one
constexpr double kLargest = 1.4;      // a small graph is not blown up further
constexpr std::size_t kLarge = 3000;  // nodes: laid out beside the main thread
constexpr std::size_t kEarlierPlans = 8;
constexpr double kBeside = 20, kAbove = 14;  // px around all of a graph
}  // namespace

// Groups come to be at the stage of the plan: at an earlier one none is closed.
bool GraphView::standsOnOpen(const GraphPage& graph) const { return graph.stage != m_plan->stage && !m_closed.empty(); }

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
  if (m_plan && m_planned) {
    std::erase_if(m_earlier, [&](const Earlier& e) { return e.closed == m_closed && sameBoxes(*e.plan, *m_plan); });
    m_earlier.push_front({m_plan, m_planned, m_closed, m_offset, m_scale});
    if (m_earlier.size() > kEarlierPlans) m_earlier.pop_back();
  }
  m_plan = std::make_shared<const GraphPage>(std::move(plan));
  m_planned.reset();
  m_open.reset();
  m_away.reset();
  m_back.reset();
  // What is taken back looks as it did before it was done.
  for (const Earlier& e : m_earlier)
    if (!m_planned && e.closed == m_closed && sameBoxes(*e.plan, *m_plan)) {
      m_planned = e.planned;
      m_back = {e.offset, e.scale};
    }
  ++m_generation;
}

void GraphView::setGraph(GraphPage graph) {
  if (!m_plan || graph.stage == "fused") setPlan(graph);
  graph.groups = m_plan->groups;
  m_coming = std::move(graph);
  place();
}

void GraphView::changePlaces(const std::function<void(GraphPage&)>& change) {
  change(m_graph);
  change(m_coming);
  if (!m_plan) return;
  GraphPage plan = *m_plan;
  change(plan);
  m_plan = std::make_shared<const GraphPage>(std::move(plan));
}

void GraphView::movePlaces(const MovedPlaces& moved) {
  changePlaces([&](GraphPage& graph) { moved.move(graph); });
}

void GraphView::takePlaces(const GraphPage& newer) {
  changePlaces([&](GraphPage& graph) { nf::takePlaces(graph, newer); });
  relate();
  update();
}

void GraphView::place() {
  const auto generation = ++m_generation;
  const bool open = standsOnOpen(m_coming);
  auto& known = open ? m_open : m_planned;
  const GraphLayoutOptions wishes{m_previous, open ? std::set<std::string>() : m_closed};
  if (m_plan->nodes.size() < kLarge && m_coming.nodes.size() < kLarge) {
    if (!known) known = std::make_shared<const GraphLayout>(layOutGraph(*m_plan, wishes));
    GraphLayout layout = placeOnPlan(m_coming, *m_plan, *known);
    m_graph = m_coming;
    return adopt(std::move(layout));
  }
  // A large one is laid out beside the main thread; until then the old one stays.
  QThreadPool::globalInstance()->start([self = QPointer<GraphView>(this), graph = std::make_shared<const GraphPage>(m_coming),
                                        plan = m_plan, known, wishes, open, generation] {
    const auto planned = known ? known : std::make_shared<const GraphLayout>(layOutGraph(*plan, wishes));
    auto layout = std::make_shared<GraphLayout>(placeOnPlan(*graph, *plan, *planned));
    QMetaObject::invokeMethod(
        self,
        [self, planned, layout, open, generation] {
          if (!self || self->m_generation != generation) return;
          (open ? self->m_open : self->m_planned) = planned;
          self->m_graph = self->m_coming;
          self->adopt(std::move(*layout));
        },
        Qt::QueuedConnection);
  });
}

// Whether the newest plan fuses what the one before did: the same operators, of which some may be computed again.
bool GraphView::isFusedAgain() const {
  std::set<std::string> before, now;
  for (const auto& [id, place] : m_previous) before.emplace(withoutNumber(id));
  for (const GraphNode& n : m_plan->nodes) now.emplace(withoutNumber(n.id));
  return before == now;
}

void GraphView::adopt(GraphLayout layout) {
  m_outdated = m_graph.revision < m_revision;
  const bool onOpen = standsOnOpen(m_graph), otherSheet = std::exchange(m_onOpen, onOpen) != onOpen;
  const QRectF was = shown();
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
    if (const auto was = m_previous.find(m_plan->nodes[i].id); was != m_previous.end() && !sheet()->nodes[i].hidden)
      moved += sheet()->nodes[i].rect.topLeft() - was->second, ++common;
  if (common > 0) m_offset -= moved / common * m_scale;
  const bool planned = !m_previous.empty(), again = planned && isFusedAgain();
  m_previous.clear();
  relate();
  if (otherSheet && m_fitted) {
    const auto back = std::exchange(m_away, {{m_offset, m_scale}});
    if (back) std::tie(m_offset, m_scale) = *back;
    else if (!m_moved) settle();
    Q_EMIT zoomChanged(m_scale);
  }
  if (planned && m_fitted && !m_moved) {
    if (m_back) {
      std::tie(m_offset, m_scale) = *m_back;
      Q_EMIT zoomChanged(m_scale);
    } else {
      settle();
      if (again) shrink(was);
    }
  }
  if (planned && !otherSheet && m_fitted && (m_moved || !m_back)) keepEdges(was);
  if (!m_fitted || !QRectF(QPointF(0, 0), QSizeF(size()))
                        .intersects(QRectF(toWidget(m_layout.bounds.topLeft()), toWidget(m_layout.bounds.bottomRight()))))
    showFirst();
  // Another stage has its nodes elsewhere.
  if (std::exchange(m_stageShown, m_graph.stage) != m_graph.stage) bringChosenIntoSight();
  update();
}

void GraphView::toggleGroup(int group) {
  if (group < 0 || !m_planned || static_cast<std::size_t>(group) >= m_planned->groups.size()) return;
  const auto at = static_cast<std::size_t>(group);
  const QRectF before = m_planned->groups[at].rect;
  if (before.isNull() || at >= m_layout.groups.size() || m_layout.groups[at].rect.isNull()) return;
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
  m_open.reset();
  m_away.reset();
  m_earlier.clear();
  m_closed.clear();
  m_chosen.clear();
  m_groupsSeen = m_fitted = m_moved = false;
  m_stepUs.clear();
  m_alone.clear();
  m_totalUs = 0;
  setGraph({});
  m_plan.reset();
}

void GraphView::setSubgraphs(const std::vector<SubgraphInfo>& subgraphs) {
  m_stepUs.clear();
  m_alone.clear();
  m_steps.clear();
  m_totalUs = 0;
  bool all = true;
  for (const SubgraphInfo& s : subgraphs) {
    const std::vector<std::string> nodes = nodesOf(s);
    m_steps.insert(nodes.begin(), nodes.end());
    all = all && (s.us || s.callsPerStep == 0);
    if (!s.us) continue;
    m_totalUs += *s.us * static_cast<double>(s.callsPerStep);
    for (const std::string& node : nodes)
      if (s.loop.empty()) m_stepUs[node] = *s.us;
      else m_stepUs[node] += *s.us * static_cast<double>(s.callsPerStep);
    if (nodes.size() == 1) m_alone.insert(nodes.front());
  }
  if (!all) m_totalUs = 0;
  update();
}

void GraphView::setNothing(const QString& why) {
  m_nothing = why;
  update();
}

void GraphView::setRevision(std::uint64_t revision) {
  m_revision = revision;
  m_outdated = m_graph.revision < m_revision;
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
  if (const auto edge = decisionEdge()) {
    const auto [a, b] = m_layout.edges[*edge];
    ends = m_layout.nodes[static_cast<std::size_t>(a)].rect | m_layout.nodes[static_cast<std::size_t>(b)].rect;
  }
  if (const QRectF shown(toWidget(ends.topLeft()), ends.size() * m_scale); !ends.isNull() && !QRectF(rect()).contains(shown))
    m_offset += QRectF(rect()).center() - shown.center(), settle();
  update();
}

bool GraphView::decided() const {
  return !m_decisionFrom.isEmpty() && m_chosen.isEmpty() && m_selection->choices() == m_decisionChoice;
}

// The chosen nodes, everything on a path through them, and what belongs to them.
void GraphView::relate() {
  m_marks.clear();
  if (m_selection->empty() && m_chosen.isEmpty()) return;
  // While a decision is what was selected, its two ends are, not everything that came from the same source.
  const bool decided = this->decided();
  std::vector<Mark> marks(m_graph.nodes.size(), Mark::Plain);
  std::vector<int> chosen;
  const auto called = [this, names = calledNames(m_graph, *m_selection)](const GraphNode& node) {
    return names.contains(node.id) || names.contains(tensorOf(m_graph, node));
  };
  const std::vector<bool> byPlace =
      m_selection->byPlace() ? ledTo(m_graph, *m_selection, m_selection->reads()) : std::vector<bool>();
  // A tensor without a node, as one that a pass has taken out, is still where it came from.
  const bool byName = (!m_selection->byPlace() || !leadsToOperator(m_graph, byPlace)) &&
                      std::any_of(m_graph.nodes.begin(), m_graph.nodes.end(), called);
  const auto placed = [&](std::size_t i) {
    return m_selection->byPlace() ? static_cast<bool>(byPlace[i])
                                  : m_selection->relation(m_graph.nodes[i].origins) == Selection::Relation::Exact;
  };
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
    if ((!m_selection->empty() && !decided && (byName ? called(m_graph.nodes[i]) : placed(i))) ||
        (decided && isEndOfDecision(m_graph.nodes[i])) || QString::fromStdString(m_graph.nodes[i].id) == m_chosen)
      marks[i] = Mark::Chosen, chosen.push_back(static_cast<int>(i));
  // Of what has a name and no node, the operator around its place.
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
  // Of several that were chosen the last is the one that was looked for. What reads a parameter has its gradient by its place.
  const std::string& led = m_selection->tensors().empty() ? m_selection->reads() : m_selection->tensors().back();
  const bool named = !m_selection->tensors().empty() && byName;
  const bool read = m_selection->tensors().empty() && std::ranges::any_of(m_graph.nodes, [&](const GraphNode& node) {
                      return node.id == led && node.kind != NodeKind::Operator;
                    });
  if (!led.empty() && !decided && (named || read))
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (marks[i] != Mark::Chosen &&
          ((named && isGradientOf(m_graph, m_graph.nodes[i], led)) || isUpdateOf(m_graph.nodes[i], led)))
        marks[i] = Mark::Belongs;
  m_marks = std::move(marks);
}

void GraphView::fit() {
  if (m_layout.bounds.isNull() || width() < 10) return;
  const QRectF& all = m_layout.bounds;
  const QRectF room(kBeside, kAbove, std::max(10.0, width() - 2 * kBeside), std::max(10.0, height() - 2 * kAbove - legendHeight()));
  m_scale =
      std::clamp(std::min(room.width() / std::max(1.0, all.width()), room.height() / std::max(1.0, all.height())), 0.02, kLargest);
  m_offset = room.center() - all.center() * m_scale;
  m_corner = 0;
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
  const double high = height() - legendHeight();
  const double y = room.height() + 28 < high ? (high - room.height()) / 2 : 20;
  m_offset = QPointF(x, y) - m_layout.bounds.topLeft() * m_scale;
  // Its beginning is the operator that stands highest, wherever that is in the width.
  const QRectF* first = nullptr;
  for (const auto& box : m_layout.nodes)
    if (!box.hidden && !box.pill && (!first || box.rect.top() < first->top())) first = &box.rect;
  if (const double left = first ? first->left() * m_scale + m_offset.x() : 0; left > width() / 2.0)
    m_offset.rx() -= std::clamp(m_layout.bounds.right() * m_scale + m_offset.x() + 24 - width(), 0.0, left - 48);
  Q_EMIT zoomChanged(m_scale);
}

// No room stays empty on one side while the other side hides something.
void GraphView::settle() {
  if (!sheet() || sheet()->bounds.isNull()) return;
  const QRectF all(toWidget(sheet()->bounds.topLeft()), sheet()->bounds.size() * m_scale);
  const auto shift = [](double first, double last, double from, double to) {
    const bool fits = last - first <= to - from;
    if (fits ? first < from : first > from) return from - first;
    if (fits ? last > to : last < to) return to - last;
    return 0.0;
  };
  m_offset += QPointF(shift(all.left(), all.right(), kBeside, width() - kBeside),
                      shift(all.top(), all.bottom(), kAbove, height() - legendHeight() - kAbove));
}

QRectF GraphView::shown() const { return {toWidget(m_layout.bounds.topLeft()), m_layout.bounds.size() * m_scale}; }

// An end of the sheet that was in sight is in sight of the next one, too: the first row before the last one.
void GraphView::keepEdges(const QRectF& was) {
  const QRectF now = shown();
  const auto shift = [](double first, double last, double wasFirst, double wasLast, double room) {
    if (wasFirst >= 0 && first < 0) return std::min(wasFirst, kAbove) - first;
    const double back = std::max(wasLast, room - kAbove) - last;
    return wasLast <= room && last > room && first + back >= 0 ? back : 0.0;
  };
  m_offset += QPointF(shift(now.left(), now.right(), was.left(), was.right(), width()),
                      shift(now.top(), now.bottom(), was.top(), was.bottom(), height() - legendHeight()));
}

// A sheet that was in sight as a whole is so still where its names can be read.
void GraphView::shrink(const QRectF& was) {
  const QRectF room(0, 0, width(), height() - legendHeight());
  if (was.isEmpty() || !room.contains(was) || room.contains(shown())) return;
  const auto before = std::pair(m_offset, m_scale);
  fit();
  if (m_scale >= kFitted) return;
  std::tie(m_offset, m_scale) = before;
  Q_EMIT zoomChanged(m_scale);
}

// At least one of the nodes that were chosen elsewhere.
void GraphView::bringChosenIntoSight() {
  const QRectF room = QRectF(0, 0, width(), height() - legendHeight()).adjusted(30, 20, -30, -20);
  const QRectF* first = nullptr;
  for (std::size_t i = 0; i < std::min(m_marks.size(), m_layout.nodes.size()); ++i) {
    const auto& box = m_layout.nodes[i];
    if (m_marks[i] != Mark::Chosen || box.hidden) continue;
    if (room.contains(toWidget(box.rect.center()))) return;
    if (!first) first = &box.rect;
  }
  if (!first || !m_fitted) return;
  m_offset += room.center() - toWidget(first->center());
  settle();
}

void GraphView::resizeEvent(QResizeEvent* event) {
  if (!m_fitted || !m_moved || !event->oldSize().isValid() || event->oldSize().width() < 50) showFirst();
  else
    m_offset += QPointF((event->size().width() - event->oldSize().width()) / 2.0,
                        (event->size().height() - event->oldSize().height()) / 2.0);
  bringChosenIntoSight();
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
      const QRectF& node = m_layout.nodes[i].rect;
      const QRectF seen(toWidget(node.topLeft()), toWidget(node.bottomRight()));
      if (!QRectF(0, 0, width(), height() - legendHeight()).contains(seen))
        m_offset += QPointF(width() / 2.0, height() / 2.0) - seen.center();
    }
    chooseTensors(m_graph.nodes[i].origins, {m_graph.nodes[i].id});
    break;
  }
  relate();
  update();
  Q_EMIT nodeChosen(id);
}

void GraphView::showGroup(const QString& id) {
  for (std::size_t g = 0; g < m_graph.groups.size() && g < m_layout.groups.size(); ++g) {
    if (QString::fromStdString(m_graph.groups[g].id) != id) continue;
    QRectF box = m_layout.groups[g].rect;
    for (std::size_t i = 0; i < m_layout.groupOf.size(); ++i)
      if (box.isNull() && m_layout.groupOf[i] == static_cast<int>(g)) box = m_layout.nodes[i].rect;
    const QRectF seen(toWidget(box.topLeft()), toWidget(box.bottomRight()));
    if (!QRectF(rect()).contains(seen)) m_offset += QPointF(width() / 2.0, height() / 2.0) - seen.center();
  }
  update();
}

void GraphView::chooseNothing() {
  m_chosen.clear();
  m_decisionFrom.clear();
  m_selection->clear();
  relate();
  update();
  Q_EMIT nodeChosen({});
}

std::vector<std::size_t> GraphView::found(const QString& text) const {
  constexpr int kRanks = 4;
  std::vector<std::size_t> ranks[kRanks];
  if (text.isEmpty()) return {};
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
    int rank = kRanks;
    QStringList names = spellings(QString::fromStdString(m_graph.nodes[i].name));
    for (const MergedOperator& m : m_graph.nodes[i].merged) names << spellings(QString::fromStdString(m.name));
    for (const QString& name : names) {
      if (name == text) rank = 0;
      else if (name.compare(text, Qt::CaseInsensitive) == 0) rank = std::min(rank, 1);
      else if (name.startsWith(text, Qt::CaseInsensitive)) rank = std::min(rank, 2);
      else if (name.contains(text, Qt::CaseInsensitive)) rank = std::min(rank, 3);
    }
    if (rank < kRanks) ranks[rank].push_back(i);
  }
  std::vector<std::size_t> all;
  for (const auto& hits : ranks) all.insert(all.end(), hits.begin(), hits.end());
  return all;
}

bool GraphView::findFirst(const QString& text) {
  const auto hits = found(text);
  if (hits.empty()) return false;
  choose(QString::fromStdString(m_graph.nodes[hits.front()].id), true);
  return true;
}

bool GraphView::findNext(const QString& text) {
  const auto hits = found(text);
  if (hits.empty()) return false;
  const auto here = std::find_if(hits.begin(), hits.end(),
                                 [&](std::size_t i) { return QString::fromStdString(m_graph.nodes[i].id) == m_chosen; });
  const auto next = here == hits.end() || here + 1 == hits.end() ? hits.begin() : here + 1;
  choose(QString::fromStdString(m_graph.nodes[*next].id), true);
  return true;
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
  m_dragging = m_doubleClicked = false;
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
  // The first release of a double click has chosen, or opened a group by its title; what opened may lie below the second one.
  if (m_doubleClicked) return void(m_doubleClicked = false);
  const QPointF world = (event->position() - m_offset) / m_scale;
  const int title = groupAt(world, true);
  m_titleClicked = title >= 0;
  if (m_titleClicked) return toggleGroup(title);
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
  mousePressEvent(event);
  m_doubleClicked = !m_dragging;
  if (m_dragging || m_titleClicked) return;
  const QPointF world = (event->position() - m_offset) / m_scale;
  if (const int i = nodeAt(world); i >= 0)
    return Q_EMIT nodeOpened(QString::fromStdString(m_graph.nodes[static_cast<std::size_t>(i)].id));
  if (const int g = groupAt(world, false); g >= 0) toggleGroup(g);
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
  // What another view has chosen; of several the one that is made last, as where its panel leads.
  for (std::size_t i = 0; i < m_marks.size() && m_chosen.isEmpty(); ++i)
    if (m_marks[i] == Mark::Chosen &&
        (current < 0 || m_selection->tensors().empty() || tensorOf(m_graph, m_graph.nodes[i]) == m_selection->tensors().back()))
      current = static_cast<int>(i);
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
      QStringList equal;
      for (const MergedOperator& m : n.merged)
        if (m.name != n.id) equal << shortName(m.name);
      QToolTip::showText(
          help->globalPos(),
          QStringLiteral("%1  %2 [%3]\n%4\n%5%6%7%8%9")
              .arg(nodeName(m_graph, n), QString::fromStdString(n.dtype), shapeText(n.shape),
                   QString::fromStdString(n.statement.empty() ? n.text : n.statement), bytesText(static_cast<double>(n.bytes)),
                   n.flops > 0 ? QStringLiteral(" · ") + flopsText(static_cast<double>(n.flops)) : QString(),
                   timeOf(static_cast<std::size_t>(i)).isEmpty() ? QString()
                                                                 : QLatin1Char('\n') + timeOf(static_cast<std::size_t>(i)),
                   n.outsideStep ? tr("\nOutside the step: at most a show or an eval needs it.") : QString(),
                   equal.isEmpty() ? QString()
                                   : tr("\nComputes what is equal to it, too: %1").arg(equal.join(QStringLiteral(", ")))));
    }
    return true;
  }
  return QWidget::event(event);
}

}  // namespace nf
