// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/graph_layout.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <queue>
#include <unordered_set>

namespace nf {

using namespace protocol;

namespace {

constexpr double kColumnGap = 30, kRowGap = 18, kBandGap = 46, kLineGap = 64;
constexpr double kPillHeight = 22, kPillRow = 28, kPillGap = 22;
constexpr double kPadding = 10, kWidestPill = 150;
constexpr int kInnerColumns = 6;
constexpr double kWideEnough = 2360, kAspect = 2.3;

// Text is no smaller on the screen than it should be, so the further away the wider it is on the sheet: a short name fits wherever a graph
// is shown as a whole, a longer one from where nodes have room for their expressions.
double widthOfPill(std::size_t letters) {
  constexpr std::size_t kShort = 5;
  constexpr double kFar = 14, kNear = 10, kMargins = 12;  // px a letter
  const std::size_t first = std::min(letters, kShort);
  return std::clamp(kMargins + kFar * static_cast<double>(first) + kNear * static_cast<double>(letters - first), 34.0, kWidestPill);
}

enum Band { kForward, kBackward, kOptimizer, kPill };

Band bandOf(const GraphNode& n) {
  if (n.kind != NodeKind::Operator) return kPill;
  switch (n.phase) {
    case Phase::Forward:
    case Phase::Evaluation: return kForward;
    case Phase::Backward: return kBackward;
    case Phase::Optimizer: return kOptimizer;
  }
  return kForward;
}

std::size_t at(int i) { return static_cast<std::size_t>(i); }

using Links = std::vector<std::vector<int>>;

// Longest path over the links among the chosen; nodes on a cycle (carried between steps) stop where they are met again.
std::vector<int> ranksOf(std::size_t n, const Links& out, const std::vector<bool>& chosen) {
  std::vector<int> rank(n, 0), incoming(n, 0);
  for (std::size_t a = 0; a < n; ++a)
    if (chosen[a])
      for (const int b : out[a]) incoming[at(b)] += chosen[at(b)];
  std::deque<int> ready;
  for (std::size_t i = 0; i < n; ++i)
    if (chosen[i] && incoming[i] == 0) ready.push_back(static_cast<int>(i));
  while (!ready.empty()) {
    const int a = ready.front();
    ready.pop_front();
    for (const int b : out[at(a)]) {
      if (!chosen[at(b)]) continue;
      rank[at(b)] = std::max(rank[at(b)], rank[at(a)] + 1);
      if (--incoming[at(b)] == 0) ready.push_back(b);
    }
  }
  return rank;
}

// An edge is drawn unless an end of it is missing, it lies in a closed group, or it repeats another between the same two boxes.
void markDrawn(GraphLayout& layout) {
  std::unordered_set<std::uint64_t> seen;
  layout.drawn.assign(layout.edges.size(), true);
  const auto end = [&](int node) {
    const bool hidden = layout.nodes[at(node)].hidden;
    return static_cast<std::uint64_t>(hidden ? static_cast<int>(layout.nodes.size()) + layout.groupOf[at(node)] : node);
  };
  for (std::size_t e = 0; e < layout.edges.size(); ++e) {
    const auto [a, b] = layout.edges[e];
    layout.drawn[e] = a >= 0 && b >= 0 && end(a) != end(b) && seen.insert(end(a) << 32 | end(b)).second;
  }
}

// Ways around boxes: shortest with few corners, over the lines that run beside every box. Ways that share a line with one from
// elsewhere are dearer, so that lines stay apart where there is room.
class Router {
 public:
  explicit Router(const GraphLayout& layout) : m_layout(layout) {
    for (std::size_t i = 0; i < layout.nodes.size(); ++i)
      if (!layout.nodes[i].hidden && !layout.nodes[i].rect.isNull()) m_boxes.push_back({layout.nodes[i].rect, -1});
    for (std::size_t g = 0; g < layout.groups.size(); ++g)
      if (!layout.groups[g].rect.isNull())
        m_boxes.push_back({layout.groups[g].rect, layout.groups[g].closed ? -1 : static_cast<int>(g)});
  }

  std::vector<std::vector<QPointF>> run() {
    std::vector<std::vector<QPointF>> routes(m_layout.edges.size());
    if (m_boxes.size() > kMostBoxes) return routes;
    for (std::size_t e = 0; e < m_layout.edges.size(); ++e)
      if (m_layout.drawn[e] && meetsABox(e)) {
        if (m_x.empty()) makeGrid({kNear, kNear + kStep});
        if (m_x.size() * m_y.size() > kMostCells) makeGrid({kNear});
        if (m_x.size() * m_y.size() > kMostCells) return routes;
        routes[e] = route(e);
      }
    return routes;
  }

 private:
  struct Box {
    QRectF rect;
    int group;  // an open group, which its members' edges cross; -1: nothing crosses it
  };
  static constexpr std::size_t kMostBoxes = 250, kMostCells = 60000;
  static constexpr double kNear = 6, kStep = 6, kCorner = 40, kShared = 1.8;

  bool open(const Box& box, std::size_t e) const {
    const auto [a, b] = m_layout.edges[e];
    return box.group >= 0 && (m_layout.groupOf[at(a)] == box.group || m_layout.groupOf[at(b)] == box.group);
  }

  bool meetsABox(std::size_t e) const {
    const auto [a, b] = m_layout.edges[e];
    const EdgeCurve c = curveBetween(m_layout.nodes[at(a)], m_layout.nodes[at(b)]);
    constexpr int kSamples = 32;
    for (int k = 1; k < kSamples; ++k) {
      const double t = static_cast<double>(k) / kSamples, u = 1 - t;
      const QPointF p = c.start * (u * u * u) + c.c1 * (3 * u * u * t) + c.c2 * (3 * u * t * t) + c.end * (t * t * t);
      for (const Box& box : m_boxes)
        if (box.rect != m_layout.nodes[at(a)].rect && box.rect != m_layout.nodes[at(b)].rect && !open(box, e) &&
            box.rect.contains(p))
          return true;
    }
    return false;
  }

  void makeGrid(std::initializer_list<double> beside) {
    m_x.clear(), m_y.clear();
    for (const Box& box : m_boxes) {
      for (const double away : beside) {
        m_x.push_back(box.rect.left() - away), m_x.push_back(box.rect.right() + away);
        m_y.push_back(box.rect.top() - away), m_y.push_back(box.rect.bottom() + away);
      }
      m_x.push_back(box.rect.center().x());
      m_y.push_back(box.rect.center().y());
    }
    for (auto* lines : {&m_x, &m_y}) {
      std::sort(lines->begin(), lines->end());
      lines->erase(std::unique(lines->begin(), lines->end(), [](double a, double b) { return b - a < 0.5; }), lines->end());
    }
    if (m_x.size() * m_y.size() > kMostCells) return;
    m_cost.assign(m_x.size() * m_y.size() * 4, 0);
    m_before.assign(m_cost.size(), -1);
    m_seen.assign(m_cost.size(), 0);
    // What stands on the piece from each crossing to the right, and down: nothing, an open group, or a box.
    m_right.assign(m_x.size() * m_y.size(), kFree);
    m_down = m_right;
    m_usedRight.assign(m_right.size(), -1);
    m_usedDown = m_usedRight;
    for (const Box& box : m_boxes) {
      const QRectF r = box.rect.adjusted(1, 1, -1, -1);
      const int mark = box.group < 0 ? kBlocked : box.group;
      const auto first = [](const std::vector<double>& lines, double value) {
        const auto i = static_cast<std::size_t>(std::lower_bound(lines.begin(), lines.end(), value) - lines.begin());
        return i > 0 ? i - 1 : 0;
      };
      for (std::size_t y = first(m_y, r.top()); y < m_y.size() && m_y[y] < r.bottom(); ++y)
        for (std::size_t x = first(m_x, r.left()); x < m_x.size() && m_x[x] < r.right(); ++x) {
          const bool inX = m_x[x] > r.left() && m_x[x]<r.right(), inY = m_y[y]> r.top() && m_y[y] < r.bottom();
          const bool acrossX = x + 1 < m_x.size() && m_x[x] < r.right() && m_x[x + 1] > r.left();
          const bool acrossY = y + 1 < m_y.size() && m_y[y] < r.bottom() && m_y[y + 1] > r.top();
          const auto put = [](int& piece, int what) { piece = piece == kBlocked ? kBlocked : what; };
          // Nothing runs along a title.
          const bool title = box.group >= 0 && m_y[y] < r.top() + kGroupTitle;
          if (inY && acrossX) put(m_right[y * m_x.size() + x], title ? kBlocked : mark);
          if (inX && acrossY) put(m_down[y * m_x.size() + x], mark);
        }
    }
  }

  std::size_t nearest(const std::vector<double>& lines, double value) const {
    const auto after = std::lower_bound(lines.begin(), lines.end(), value);
    if (after == lines.begin()) return 0;
    if (after == lines.end() || value - *(after - 1) < *after - value) return static_cast<std::size_t>(after - lines.begin()) - 1;
    return static_cast<std::size_t>(after - lines.begin());
  }

  struct Port {
    std::size_t cell;
    int side;  // 0 right, 1 down, 2 left, 3 up
    QPointF border;
  };
  // Where a way may leave a box: the nearest line beyond the middle of each side.
  std::vector<Port> portsOf(const QRectF& r) const {
    const auto cell = [this](double x, double y) { return nearest(m_y, y) * m_x.size() + nearest(m_x, x); };
    const QPointF c = r.center();
    return {{cell(r.right() + kNear, c.y()), 0, {r.right(), c.y()}},
            {cell(c.x(), r.bottom() + kNear), 1, {c.x(), r.bottom()}},
            {cell(r.left() - kNear, c.y()), 2, {r.left(), c.y()}},
            {cell(c.x(), r.top() - kNear), 3, {c.x(), r.top()}}};
  }

  std::vector<QPointF> route(std::size_t e) {
    const auto [a, b] = m_layout.edges[e];
    const int from = m_layout.groupOf[at(a)], to = m_layout.groupOf[at(b)];
    const std::vector<Port> starts = portsOf(m_layout.nodes[at(a)].rect), ends = portsOf(m_layout.nodes[at(b)].rect);
    const std::size_t columns = m_x.size();
    ++m_turn;
    const auto costOf = [this](std::size_t s) { return m_seen[s] == m_turn ? m_cost[s] : 1e18; };
    const auto reach = [this](std::size_t s, double cost, int before) {
      m_seen[s] = m_turn;
      m_cost[s] = cost;
      m_before[s] = before;
    };
    // No way is shorter than the straight pieces that are left.
    const auto left = [&](std::size_t cell) {
      double least = 1e18;
      for (const Port& p : ends)
        least = std::min(
            least, std::abs(m_x[cell % columns] - m_x[p.cell % columns]) + std::abs(m_y[cell / columns] - m_y[p.cell / columns]));
      return least;
    };
    using Entry = std::pair<double, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (const Port& p : starts) {
      const std::size_t state = p.cell * 4 + at(p.side);
      reach(state, 0, -1);
      ready.emplace(left(p.cell), state);
    }
    std::size_t found = 0;
    const Port* entered = nullptr;
    while (!ready.empty()) {
      const auto [guess, state] = ready.top();
      ready.pop();
      const double soFar = costOf(state);
      if (guess > soFar + left(state / 4) + 1e-6) continue;
      const std::size_t cell = state / 4, x = cell % columns, y = cell / columns;
      const int heading = static_cast<int>(state % 4);
      for (const Port& p : ends)
        if (p.cell == cell && heading == (p.side + 2) % 4) entered = &p;
      if (entered) {
        found = state;
        break;
      }
      for (int next = 0; next < 4; ++next) {
        if (next == (heading + 2) % 4) continue;
        if ((next == 0 && x + 1 >= columns) || (next == 1 && y + 1 >= m_y.size()) || (next == 2 && x == 0) || (next == 3 && y == 0))
          continue;
        const std::size_t there = next == 0 ? cell + 1 : next == 1 ? cell + columns : next == 2 ? cell - 1 : cell - columns;
        const std::size_t piece = std::min(cell, there);
        const bool flat = next % 2 == 0;
        const int mark = flat ? m_right[piece] : m_down[piece];
        if (mark == kBlocked || (mark >= 0 && mark != from && mark != to)) continue;
        const int used = flat ? m_usedRight[piece] : m_usedDown[piece];
        const double length =
            flat ? m_x[piece % columns + 1] - m_x[piece % columns] : m_y[piece / columns + 1] - m_y[piece / columns];
        const double sum = soFar + length * (used >= 0 && used != a ? kShared : 1) + (next == heading ? 0 : kCorner);
        const std::size_t then = there * 4 + at(next);
        if (sum >= costOf(then)) continue;
        reach(then, sum, static_cast<int>(state));
        ready.emplace(sum + left(there), then);
      }
    }
    if (!entered) return {};
    std::vector<QPointF> way{entered->border};
    int state = static_cast<int>(found);
    for (int last = -1; state >= 0; last = state, state = m_before[at(state)]) {
      const std::size_t cell = at(state) / 4;
      way.emplace_back(m_x[cell % columns], m_y[cell / columns]);
      if (last < 0) continue;
      const std::size_t other = at(last) / 4, piece = std::min(cell, other);
      (std::max(cell, other) - piece == 1 ? m_usedRight : m_usedDown)[piece] = a;
      if (m_before[at(state)] < 0)
        for (const Port& p : starts)
          if (p.cell == cell && p.side == state % 4) way.push_back(p.border);
    }
    if (way.size() == 2)
      for (const Port& p : starts)
        if (p.cell == found / 4) way.push_back(p.border);
    std::reverse(way.begin(), way.end());
    // Only the corners; the last piece takes the line of its port.
    std::vector<QPointF> corners;
    for (std::size_t i = 0; i < way.size(); ++i) {
      const bool inside = i > 0 && i + 1 < way.size() && !corners.empty();
      const auto straight = [](QPointF p, QPointF q, QPointF r) {
        return (std::abs(p.x() - q.x()) < 1 && std::abs(q.x() - r.x()) < 1) ||
               (std::abs(p.y() - q.y()) < 1 && std::abs(q.y() - r.y()) < 1);
      };
      if (inside && straight(corners.back(), way[i], way[i + 1])) continue;
      corners.push_back(way[i]);
    }
    return corners;
  }

  static constexpr int kFree = -1, kBlocked = -2;
  const GraphLayout& m_layout;
  std::vector<Box> m_boxes;
  std::vector<double> m_x, m_y;
  std::vector<int> m_right, m_down, m_usedRight, m_usedDown;
  std::vector<double> m_cost;  // by crossing and heading, of the way that is looked for
  std::vector<int> m_before, m_seen;
  int m_turn = 0;
};

// A node that is in no group, or a group: what is ranked and stacked.
struct Box {
  Band band = kForward;
  int group = -1;            // by index in the grouping
  std::vector<int> members;  // node indices
  double width = kNodeWidth, height = kNodeHeight;
  std::vector<QPointF> inside;  // of each member, from the box's corner
  bool closed = false;
  int column = 0, line = 0;
  QPointF corner;
  double wish = 0;
  bool placed = false;
};

class Layout {
 public:
  Layout(const GraphPage& graph, const GraphLayoutOptions& options) : m_graph(graph), m_options(options) {}

  GraphLayout run() {
    const std::size_t n = m_graph.nodes.size();
    m_out.nodes.resize(n);
    m_out.groupOf.assign(n, -1);
    m_out.groups.resize(m_graph.groups.size());
    for (std::size_t i = 0; i < n; ++i) m_index.emplace(m_graph.nodes[i].id, static_cast<int>(i));
    m_band.resize(n);
    for (std::size_t i = 0; i < n; ++i) m_band[i] = bandOf(m_graph.nodes[i]);
    link();
    makeBoxes();
    for (Box& b : m_boxes) arrange(b);
    column();
    fold();
    stack();
    keep();
    pills();
    finish();
    return std::move(m_out);
  }

 private:
  int find(const std::string& id) const {
    const auto found = m_index.find(id);
    return found == m_index.end() ? -1 : found->second;
  }

  void link() {
    m_before.resize(m_graph.nodes.size());
    m_after.resize(m_graph.nodes.size());
    for (const GraphEdge& e : m_graph.edges) {
      const int a = find(e.from), b = find(e.to);
      m_out.edges.emplace_back(a, b);
      if (a < 0 || b < 0 || a == b || e.carried) continue;
      m_after[at(a)].push_back(b);
      m_before[at(b)].push_back(a);
    }
  }

  void makeBoxes() {
    m_boxOf.assign(m_graph.nodes.size(), -1);
    const auto makeGroup = [&](const std::vector<std::string>& ids, int number) {
      Box box;
      for (const std::string& id : ids)
        if (const int i = find(id); i >= 0 && m_band[at(i)] != kPill && m_boxOf[at(i)] < 0) box.members.push_back(i);
      if (box.members.size() < 2) return;
      box.group = number;
      box.band = m_band[at(box.members[0])];
      // What computes forward stands among the forward operators, whatever it computes besides.
      bool forward = false;
      for (const int i : box.members) {
        m_boxOf[at(i)] = static_cast<int>(m_boxes.size());
        box.band = std::max(box.band, m_band[at(i)]);
        forward = forward || m_band[at(i)] == kForward;
      }
      if (forward) box.band = kForward;
      box.closed = m_options.closed.contains(ids.front());
      m_boxes.push_back(std::move(box));
    };
    for (std::size_t g = 0; g < m_graph.groups.size(); ++g) {
      for (const std::string& id : m_graph.groups[g].nodes)
        if (const int i = find(id); i >= 0) m_out.groupOf[at(i)] = static_cast<int>(g);
      makeGroup(m_graph.groups[g].nodes, static_cast<int>(g));
    }
    for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
      if (m_band[i] == kPill || m_boxOf[i] >= 0) continue;
      m_boxOf[i] = static_cast<int>(m_boxes.size());
      Box box;
      box.band = m_band[i];
      box.members = {static_cast<int>(i)};
      m_boxes.push_back(std::move(box));
    }
  }

  // Members by rank in columns, in the direction of the band; after six columns the next row of them begins.
  void arrange(Box& box) {
    if (box.members.size() == 1) {
      box.inside = {QPointF(0, 0)};
      return;
    }
    if (box.closed) {
      box.width = kClosedWidth, box.height = kClosedHeight;
      return;
    }
    const std::size_t n = box.members.size();
    std::unordered_map<int, int> local;
    for (std::size_t k = 0; k < n; ++k) local[box.members[k]] = static_cast<int>(k);
    Links out(n);
    for (std::size_t k = 0; k < n; ++k)
      for (const int b : m_after[at(box.members[k])])
        if (const auto found = local.find(b); found != local.end()) out[k].push_back(found->second);
    const std::vector<int> rank = ranksOf(n, out, std::vector<bool>(n, true));
    const bool reversed = box.band != kForward;
    const int last = *std::max_element(rank.begin(), rank.end());
    const int columns = std::min(last + 1, kInnerColumns);
    box.inside.resize(n);
    double y = kGroupTitle;
    for (int first = 0; first <= last; first += kInnerColumns) {
      int most = 0;
      for (int r = first; r <= std::min(last, first + kInnerColumns - 1); ++r) {
        int row = 0;
        const int column = reversed ? columns - 1 - (r - first) : r - first;
        for (std::size_t k = 0; k < n; ++k) {
          if (rank[k] != r) continue;
          box.inside[k] = {kPadding + column * (kNodeWidth + kColumnGap), y + row * (kNodeHeight + kRowGap)};
          most = std::max(most, ++row);
        }
      }
      y += most * (kNodeHeight + kRowGap);
    }
    box.width = 2 * kPadding + columns * kNodeWidth + (columns - 1) * kColumnGap;
    box.height = y - kRowGap + kPadding;
  }

  void column() {
    const std::size_t n = m_boxes.size();
    m_boxBefore.resize(n);
    m_boxAfter.resize(n);
    for (std::size_t a = 0; a < m_after.size(); ++a)
      for (const int b : m_after[a]) {
        const int from = m_boxOf[a], to = m_boxOf[at(b)];
        if (from < 0 || to < 0 || from == to) continue;
        m_boxAfter[at(from)].push_back(to);
        m_boxBefore[at(to)].push_back(from);
      }
    const auto ranks = [&](Band band) {
      std::vector<bool> chosen(n);
      for (std::size_t i = 0; i < n; ++i) chosen[i] = m_boxes[i].band == band;
      return ranksOf(n, m_boxAfter, chosen);
    };
    const std::vector<int> forward = ranks(kForward), backward = ranks(kBackward), optimizer = ranks(kOptimizer);
    int last = 0, least = 0;
    for (std::size_t i = 0; i < n; ++i)
      if (m_boxes[i].band == kForward) last = std::max(last, forward[i]);
    for (std::size_t i = 0; i < n; ++i) {
      Box& b = m_boxes[i];
      if (b.band == kForward) b.column = forward[i];
      if (b.band == kBackward) b.column = last - backward[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      Box& b = m_boxes[i];
      if (b.band != kOptimizer) continue;
      int left = last + 1;
      for (const int p : m_boxBefore[i])
        if (m_boxes[at(p)].band == kBackward) left = std::min(left, m_boxes[at(p)].column);
      b.column = left - 1 - optimizer[i];
    }
    for (const Box& b : m_boxes) least = std::min(least, b.column);
    for (Box& b : m_boxes) b.column -= least, m_columns = std::max(m_columns, b.column + 1);
  }

  void fold() {
    std::vector<double> width(at(m_columns), kNodeWidth);
    for (const Box& b : m_boxes) width[at(b.column)] = std::max(width[at(b.column)], b.width);
    double total = 0;
    for (const double w : width) total += w + kColumnGap;
    const double room = std::max(kWideEnough, std::sqrt(total * 400 * kAspect));
    const auto wanted = static_cast<int>(std::ceil(total / (room * 1.2)));
    const double line = total / std::max(1, wanted);
    m_lineOf.assign(at(m_columns), 0);
    m_columnX.assign(at(m_columns), 0);
    m_columnWidth = width;
    double x = 0;
    int number = 0;
    for (std::size_t c = 0; c < width.size(); ++c) {
      if (x > 0 && x + width[c] > line * 1.08 && number + 1 < wanted) x = 0, ++number;
      m_lineOf[c] = number;
      m_columnX[c] = x;
      x += width[c] + kColumnGap;
    }
    m_lines = number + 1;
    for (Box& b : m_boxes) b.line = m_lineOf[at(b.column)];
  }

  // Where a box was, or near the mean of what feeds it.
  double wishOf(std::size_t i, double top) const {
    const Box& b = m_boxes[i];
    double y = 0;
    int count = 0;
    for (std::size_t k = 0; k < b.members.size(); ++k)
      if (const auto was = m_options.previous.find(m_graph.nodes[at(b.members[k])].id); was != m_options.previous.end())
        y += was->second.y() - (b.closed ? 0 : b.inside[k].y()), ++count;
    if (count > 0) return y / count;
    for (const int p : m_boxBefore[i]) {
      const Box& before = m_boxes[at(p)];
      if (before.placed && before.line == b.line && (before.band == kForward) == (b.band == kForward))
        y += before.corner.y() + (before.height - b.height) / 2, ++count;
    }
    return count > 0 ? y / count : top;
  }

  double stackBand(int line, bool forward, double top) {
    std::vector<std::vector<std::size_t>>& columns = m_byColumn[forward ? 0 : 1];
    double bottom = top;
    const auto place = [&](std::size_t c) {
      std::vector<std::pair<double, std::size_t>> wish;
      for (const std::size_t i : columns[c]) wish.emplace_back(wishOf(i, top), i);
      std::stable_sort(wish.begin(), wish.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      // A wish far below everything else would leave a hole.
      double need = 0;
      for (const auto& [wanted, i] : wish) need += m_boxes[i].height + kRowGap;
      double y = top;
      for (const auto& [wanted, i] : wish) {
        Box& b = m_boxes[i];
        const double at = std::max(y, std::round((std::min(wanted, top + 2 * need) - top) / 4) * 4 + top);
        b.corner = {m_columnX[c] + (m_columnWidth[c] - b.width) / 2, at};
        b.placed = true;
        y = at + b.height + kRowGap;
        bottom = std::max(bottom, y - kRowGap);
      }
    };
    std::vector<std::size_t> own;
    for (std::size_t c = 0; c < m_lineOf.size(); ++c)
      if (m_lineOf[c] == line && !columns[c].empty()) own.push_back(c);
    if (!forward) std::reverse(own.begin(), own.end());
    for (const std::size_t c : own) place(c);
    return bottom;
  }

  void stack() {
    for (auto& band : m_byColumn) band.resize(at(m_columns));
    for (std::size_t i = 0; i < m_boxes.size(); ++i)
      m_byColumn[m_boxes[i].band == kForward ? 0 : 1][at(m_boxes[i].column)].push_back(i);
    shelve();
    double top = 0;
    for (int line = 0; line < m_lines; ++line) {
      top += m_shelfLevels[at(line)] * kPillRow + (m_shelfLevels[at(line)] > 0 ? kPillGap : 0);
      m_lineTop.push_back(top);
      const double bottom = stackBand(line, true, top);
      const double back = bottom > top ? bottom + kBandGap : top;
      top = std::max(bottom, stackBand(line, false, back)) + kLineGap;
    }
  }

  // What was there in the revision before stays where it was, unless the graph is another one.
  void keep() {
    if (m_options.previous.empty()) return;
    std::vector<std::optional<QPointF>> was(m_boxes.size());
    std::size_t known = 0;
    for (std::size_t i = 0; i < m_boxes.size(); ++i) {
      const Box& b = m_boxes[i];
      bool same = true;
      for (std::size_t k = 0; k < b.members.size() && same; ++k) {
        const auto place = m_options.previous.find(m_graph.nodes[at(b.members[k])].id);
        if (place == m_options.previous.end()) {
          same = false;
          break;
        }
        const QPointF corner = place->second - (b.closed ? QPointF() : b.inside[k]);
        if (k == 0) was[i] = corner;
        else same = (corner - *was[i]).manhattanLength() < 1;
      }
      if (same) ++known;
      else was[i].reset();
    }
    if (known * 2 < m_boxes.size()) return;
    std::vector<QRectF> taken;
    const auto around = [](const Box& b, QPointF corner) {
      return QRectF(corner, QSizeF(b.width, b.height)).adjusted(-4, -4, 4, 4);
    };
    const auto free = [&](const QRectF& r) {
      return std::none_of(taken.begin(), taken.end(), [&](const QRectF& t) { return t.intersects(r); });
    };
    for (std::size_t i = 0; i < m_boxes.size(); ++i)
      if (was[i]) {
        if (free(around(m_boxes[i], *was[i]))) taken.push_back(around(m_boxes[i], m_boxes[i].corner = *was[i]));
        else was[i].reset();
      }
    for (std::size_t i = 0; i < m_boxes.size(); ++i)
      if (!was[i]) {
        Box& b = m_boxes[i];
        while (!free(around(b, b.corner))) b.corner.ry() += kRowGap;
        taken.push_back(around(b, b.corner));
      }
    m_taken = std::move(taken);
  }

  // Which column, and which place on its shelf, each pill has.
  void shelve() {
    m_shelfLevels.assign(at(m_lines), 0);
    m_pillColumn.assign(m_graph.nodes.size(), 0);
    m_pillAt.assign(m_graph.nodes.size(), {0, 0});
    m_pillWidth.assign(m_graph.nodes.size(), 0);
    m_pillHome.assign(m_graph.nodes.size(), -1);
    struct Shelf {
      double right = 0;
      int level = 0;
    };
    std::vector<Shelf> shelves(at(std::max(1, m_columns)));
    for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
      if (m_band[i] != kPill) continue;
      int first = -1, any = -1;
      for (const int c : m_after[i]) {
        const int box = m_boxOf[at(c)];
        if (box < 0) continue;
        const int column = m_boxes[at(box)].column;
        if (m_boxes[at(box)].band == kForward && (first < 0 || column < first)) first = column;
        if (any < 0 || column < any) any = column;
      }
      const int column = first >= 0 ? first : std::max(any, 0);
      // The state of an optimiser in a closed kernel is that kernel's own affair.
      const bool inside = m_graph.nodes[i].kind == NodeKind::State && !m_after[i].empty() &&
                          std::all_of(m_after[i].begin(), m_after[i].end(), [&](int c) {
                            const int box = m_boxOf[at(c)];
                            return box >= 0 && m_boxes[at(box)].closed && m_boxes[at(box)].band != kForward;
                          });
      m_pillHome[i] = inside ? m_boxOf[at(m_after[i][0])] : -1;
      if (inside) continue;
      m_pillColumn[i] = column;
      const double turns = m_graph.nodes[i].kind == NodeKind::State ? 18 : 0;
      m_pillWidth[i] = std::min(kWidestPill, turns + widthOfPill(m_graph.nodes[i].name.size()));
      Shelf& shelf = shelves[at(column)];
      const double room = m_columns > 0 ? m_columnWidth[at(column)] : kNodeWidth;
      if (shelf.right > 0 && shelf.right + m_pillWidth[i] > room) shelf = {0, shelf.level + 1};
      m_pillAt[i] = {shelf.right, shelf.level};
      shelf.right += m_pillWidth[i] + 8;
      if (m_columns > 0) {
        int& levels = m_shelfLevels[at(m_lineOf[at(column)])];
        levels = std::max(levels, shelf.level + 1);
      }
    }
  }

  void pills() {
    for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
      if (m_band[i] != kPill) continue;
      if (m_pillHome[i] >= 0) {
        const Box& home = m_boxes[at(m_pillHome[i])];
        m_out.nodes[i] = {QRectF(home.corner, QSizeF(home.width, home.height)), true, true};
        continue;
      }
      const int column = m_pillColumn[i];
      const double x = m_columns > 0 ? m_columnX[at(column)] : 0, top = m_columns > 0 ? m_lineTop[at(m_lineOf[at(column)])] : 0;
      m_out.nodes[i].pill = true;
      QRectF rect(x + m_pillAt[i].first, top - kPillGap - kPillHeight - kPillRow * m_pillAt[i].second, m_pillWidth[i], kPillHeight);
      const auto free = [this](const QRectF& r) {
        return std::none_of(m_taken.begin(), m_taken.end(), [&](const QRectF& t) { return t.intersects(r); });
      };
      if (!m_taken.empty()) {
        const auto was = m_options.previous.find(m_graph.nodes[i].id);
        if (was != m_options.previous.end() && free(QRectF(was->second, rect.size()))) rect.moveTopLeft(was->second);
        while (!free(rect)) rect.translate(0, -kPillRow);
        m_taken.push_back(rect.adjusted(-4, 0, 4, 0));
      }
      m_out.nodes[i].rect = rect;
    }
  }

  void finish() {
    for (const Box& b : m_boxes) {
      const QRectF rect(b.corner, QSizeF(b.width, b.height));
      for (std::size_t k = 0; k < b.members.size(); ++k) {
        auto& node = m_out.nodes[at(b.members[k])];
        node.hidden = b.closed;
        node.rect = b.closed ? rect : QRectF(b.corner + b.inside[k], QSizeF(kNodeWidth, kNodeHeight));
      }
      if (b.group >= 0) m_out.groups[at(b.group)] = {rect, b.closed};
    }
    // The state of an optimiser in a closed kernel belongs to that kernel.
    for (std::size_t i = 0; i < m_graph.nodes.size(); ++i)
      if (m_pillHome[i] >= 0) m_out.groupOf[i] = m_boxes[at(m_pillHome[i])].group;
    markDrawn(m_out);
    m_out.routes = Router(m_out).run();
    for (const auto& node : m_out.nodes) m_out.bounds |= node.rect;
    for (const auto& g : m_out.groups) m_out.bounds |= g.rect;
  }

  const GraphPage& m_graph;
  const GraphLayoutOptions& m_options;
  GraphLayout m_out;
  std::unordered_map<std::string, int> m_index;
  std::vector<Band> m_band;
  Links m_before, m_after, m_boxBefore, m_boxAfter;  // by node; by box
  std::vector<Box> m_boxes;
  std::vector<int> m_boxOf;  // of each node; -1: a pill
  int m_columns = 0, m_lines = 1;
  std::vector<int> m_lineOf;  // by column
  std::vector<double> m_columnX, m_columnWidth, m_lineTop;
  std::vector<std::vector<std::size_t>> m_byColumn[2];
  std::vector<int> m_shelfLevels, m_pillColumn, m_pillHome;
  std::vector<std::pair<double, int>> m_pillAt;
  std::vector<double> m_pillWidth;
  std::vector<QRectF> m_taken;  // where places were kept; empty: none were
};

}  // namespace

EdgeCurve curveBetween(const GraphLayout::Node& a, const GraphLayout::Node& b) {
  const QRectF &from = a.rect, &to = b.rect;
  const bool beside = to.left() >= from.right() || from.left() >= to.right();
  const bool upright =
      !beside || a.pill || (std::abs(from.center().y() - to.center().y()) > 2.5 * std::abs(from.center().x() - to.center().x()));
  if (upright) {
    const bool down = to.center().y() > from.center().y();
    const QPointF start(from.center().x(), down ? from.bottom() : from.top());
    const QPointF end(std::clamp(from.center().x(), to.left() + 12, to.right() - 12), down ? to.top() : to.bottom());
    const double pull = std::clamp(std::abs(end.y() - start.y()) * 0.45, 14.0, 90.0) * (down ? 1 : -1);
    return {start, start + QPointF(0, pull), end - QPointF(0, pull), end};
  }
  const bool right = to.center().x() > from.center().x();
  const QPointF start(right ? from.right() : from.left(), from.center().y());
  const QPointF end(right ? to.left() : to.right(), to.center().y());
  const double pull = std::clamp(std::abs(end.x() - start.x()) * 0.45, 16.0, 160.0) * (right ? 1 : -1);
  return {start, start + QPointF(pull, 0), end - QPointF(pull, 0), end};
}

GraphLayout layOutGraph(const GraphPage& graph, const GraphLayoutOptions& options) { return Layout(graph, options).run(); }

GraphLayout placeOnPlan(const GraphPage& graph, const GraphPage& plan, const GraphLayout& planned) {
  std::unordered_map<std::string, std::size_t> inPlan, index;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) inPlan.emplace(plan.nodes[i].id, i);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) index.emplace(graph.nodes[i].id, i);
  GraphLayout out;
  out.nodes.resize(graph.nodes.size());
  out.groupOf.assign(graph.nodes.size(), -1);
  out.bounds = planned.bounds;
  std::vector<bool> placed(graph.nodes.size(), false);
  std::vector<QRectF> taken;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto was = inPlan.find(graph.nodes[i].id);
    if (was == inPlan.end()) continue;
    out.nodes[i] = planned.nodes[was->second];
    out.groupOf[i] = planned.groupOf[was->second];
    placed[i] = true;
  }
  for (const auto& node : planned.nodes) taken.push_back(node.rect);
  for (const auto& group : planned.groups) taken.push_back(group.rect);
  const auto find = [&](const std::string& id) {
    const auto found = index.find(id);
    return found == index.end() ? -1 : static_cast<int>(found->second);
  };
  Links around(graph.nodes.size());
  for (const GraphEdge& e : graph.edges) {
    const int a = find(e.from), b = find(e.to);
    out.edges.emplace_back(a, b);
    if (a < 0 || b < 0 || a == b) continue;
    around[at(a)].push_back(b);
    around[at(b)].push_back(a);
  }
  constexpr int kMostTries = 60;
  const QSizeF size(kNodeWidth, kNodeHeight);
  double row = planned.bounds.left();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (placed[i]) continue;
    const bool pill = bandOf(graph.nodes[i]) == kPill;
    QRectF rect(QPointF(row, planned.bounds.bottom() + kBandGap), pill ? QSizeF(kNodeWidth, kPillHeight) : size);
    bool free = false;
    for (const int k : around[i]) {
      if (!placed[at(k)] || out.nodes[at(k)].hidden) continue;
      rect.moveTopLeft(out.nodes[at(k)].rect.topLeft());
      for (int n = 0; n < kMostTries && !free; ++n) {
        rect.translate(0, kNodeHeight + kRowGap);
        free = std::none_of(taken.begin(), taken.end(), [&](const QRectF& r) { return r.intersects(rect); });
      }
      break;
    }
    if (!free) {
      rect.moveTopLeft({row, planned.bounds.bottom() + kBandGap});
      row += kNodeWidth + kColumnGap;
    }
    out.nodes[i] = {rect, pill, false};
    placed[i] = true;
    taken.push_back(rect);
    out.bounds |= rect;
  }
  // A group is there where a member of it is, once it is fused.
  out.groups.resize(graph.groups.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (const int g = out.groupOf[i]; g >= 0 && at(g) < planned.groups.size() && at(g) < out.groups.size()) {
      if (graph.stage == plan.stage) out.groups[at(g)] = planned.groups[at(g)];
    }
  markDrawn(out);
  out.routes = Router(out).run();
  return out;
}

}  // namespace nf
