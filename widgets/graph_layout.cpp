// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/graph_layout.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace nf {

using namespace protocol;

namespace {

constexpr double kColumn = 132, kRow = 66, kBandGap = 74, kPillHeight = 22, kPillRow = 30;

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

// Longest path over the edges inside one band; nodes on a cycle (carried between steps) stop where they are met again.
std::vector<int> ranks(const std::vector<Band>& band, Band wanted, const std::vector<std::pair<int, int>>& edges,
                       const std::vector<bool>& carried) {
  const std::size_t n = band.size();
  std::vector<int> rank(n, 0), incoming(n, 0);
  std::vector<std::vector<int>> out(n);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto [a, b] = edges[e];
    if (a < 0 || b < 0 || a == b || carried[e]) continue;
    if (band[static_cast<std::size_t>(a)] != wanted || band[static_cast<std::size_t>(b)] != wanted) continue;
    out[static_cast<std::size_t>(a)].push_back(b);
    ++incoming[static_cast<std::size_t>(b)];
  }
  std::deque<int> ready;
  for (std::size_t i = 0; i < n; ++i)
    if (band[i] == wanted && incoming[i] == 0) ready.push_back(static_cast<int>(i));
  while (!ready.empty()) {
    const int a = ready.front();
    ready.pop_front();
    for (const int b : out[static_cast<std::size_t>(a)]) {
      rank[static_cast<std::size_t>(b)] = std::max(rank[static_cast<std::size_t>(b)], rank[static_cast<std::size_t>(a)] + 1);
      if (--incoming[static_cast<std::size_t>(b)] == 0) ready.push_back(b);
    }
  }
  return rank;
}

}  // namespace

GraphLayout layOutGraph(const GraphPage& graph, const std::unordered_map<std::string, QPointF>& previous) {
  GraphLayout out;
  const std::size_t n = graph.nodes.size();
  out.nodes.resize(n);
  out.groupOf.assign(n, -1);
  std::unordered_map<std::string, int> index;
  for (std::size_t i = 0; i < n; ++i) index.emplace(graph.nodes[i].id, static_cast<int>(i));
  const auto find = [&](const std::string& id) {
    const auto found = index.find(id);
    return found == index.end() ? -1 : found->second;
  };
  std::vector<bool> carried;
  for (const GraphEdge& e : graph.edges) {
    out.edges.emplace_back(find(e.from), find(e.to));
    carried.push_back(e.carried);
  }
  for (std::size_t g = 0; g < graph.groups.size(); ++g)
    for (const std::string& id : graph.groups[g].nodes)
      if (const int i = find(id); i >= 0) out.groupOf[static_cast<std::size_t>(i)] = static_cast<int>(g);

  std::vector<Band> band(n);
  for (std::size_t i = 0; i < n; ++i) band[i] = bandOf(graph.nodes[i]);
  const std::vector<int> forward = ranks(band, kForward, out.edges, carried), backward = ranks(band, kBackward, out.edges, carried),
                         optimizer = ranks(band, kOptimizer, out.edges, carried);
  std::vector<std::vector<int>> before(n), after(n);
  for (const auto& [a, b] : out.edges)
    if (a >= 0 && b >= 0 && a != b)
      before[static_cast<std::size_t>(b)].push_back(a), after[static_cast<std::size_t>(a)].push_back(b);
  int last = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (band[i] == kForward) last = std::max(last, forward[i]);
  std::vector<int> column(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    if (band[i] == kForward) column[i] = forward[i];
    if (band[i] == kBackward) column[i] = last - backward[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (band[i] != kOptimizer) continue;
    int least = last;
    for (const int p : before[i])
      if (band[static_cast<std::size_t>(p)] == kBackward) least = std::min(least, column[static_cast<std::size_t>(p)]);
    column[i] = least - 1 - optimizer[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (band[i] != kPill) continue;
    int first = 1 << 20;
    for (const int c : after[i])
      if (band[static_cast<std::size_t>(c)] == kForward) first = std::min(first, column[static_cast<std::size_t>(c)]);
    if (first == 1 << 20)
      for (const int c : after[i]) first = std::min(first, column[static_cast<std::size_t>(c)]);
    column[i] = first == 1 << 20 ? 0 : first;
  }
  int least = 0;
  for (const int c : column) least = std::min(least, c);
  for (int& c : column) c -= least;

  // Vertical places, band by band: near the mean of what feeds a node and of its group, never nearer than a row to its neighbour.
  const auto place = [&](const auto& inBand, double top, double row, double height, bool reverse) {
    std::vector<std::vector<int>> columns;
    for (std::size_t i = 0; i < n; ++i) {
      if (!inBand(band[i])) continue;
      const auto c = static_cast<std::size_t>(column[i]);
      if (columns.size() <= c) columns.resize(c + 1);
      columns[c].push_back(static_cast<int>(i));
    }
    if (reverse) std::reverse(columns.begin(), columns.end());
    std::unordered_map<int, std::pair<double, int>> groupY;
    double bottom = top;
    for (auto& nodes : columns) {
      std::vector<std::pair<double, int>> wish;
      for (const int i : nodes) {
        double y = 0;
        int count = 0;
        for (const int p : before[static_cast<std::size_t>(i)])
          if (inBand(band[static_cast<std::size_t>(p)]) && !out.nodes[static_cast<std::size_t>(p)].rect.isNull())
            y += out.nodes[static_cast<std::size_t>(p)].rect.top(), ++count;
        if (const int g = out.groupOf[static_cast<std::size_t>(i)]; g >= 0 && groupY.contains(g))
          y += 3 * groupY[g].first, count += 3;
        double wanted = count > 0 ? y / count : top;
        if (const auto was = previous.find(graph.nodes[static_cast<std::size_t>(i)].id); was != previous.end())
          wanted = was->second.y();
        wish.emplace_back(wanted, i);
      }
      std::stable_sort(wish.begin(), wish.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      double y = top;
      for (const auto& [wanted, i] : wish) {
        const double at = std::max(y, std::round((std::max(wanted, top) - top) / (row / 2)) * (row / 2) + top);
        out.nodes[static_cast<std::size_t>(i)].rect = QRectF(column[static_cast<std::size_t>(i)] * kColumn, at, kNodeWidth, height);
        y = at + row;
        bottom = std::max(bottom, y);
        if (const int g = out.groupOf[static_cast<std::size_t>(i)]; g >= 0) groupY[g] = {at, 0};
      }
    }
    return bottom;
  };
  double bottom = place([](Band b) { return b == kForward; }, 0, kRow, kNodeHeight, false);
  const double backTop = bottom + kBandGap - (kRow - kNodeHeight);
  place([](Band b) { return b == kBackward || b == kOptimizer; }, backTop, kRow, kNodeHeight, true);
  // Pills stand above the highest node of their column, a little to the left, so that their edges come in from above.
  struct Shelf {
    double right = 0;
    int level = 0;
  };
  std::unordered_map<int, Shelf> shelves;
  const double above = -46;
  for (std::size_t i = 0; i < n; ++i) {
    if (band[i] != kPill) continue;
    const double width = std::clamp(16.0 + 8.0 * static_cast<double>(graph.nodes[i].name.size()), 34.0, 102.0);
    Shelf& shelf = shelves[column[i]];
    if (shelf.right > 0 && shelf.right + width > kColumn - 12) shelf = {0, shelf.level + 1};
    out.nodes[i].pill = true;
    out.nodes[i].rect =
        QRectF(column[i] * kColumn - 6 + shelf.right, above - kPillHeight - kPillRow * shelf.level, width, kPillHeight);
    shelf.right += width + 8;
  }

  out.groups.resize(graph.groups.size());
  for (std::size_t i = 0; i < n; ++i)
    if (out.groupOf[i] >= 0) out.groups[static_cast<std::size_t>(out.groupOf[i])] |= out.nodes[i].rect;
  for (QRectF& g : out.groups)
    if (!g.isNull()) g.adjust(-8, -24, 8, 10);
  for (const auto& node : out.nodes) out.bounds |= node.rect;
  for (const QRectF& g : out.groups) out.bounds |= g;
  return out;
}

}  // namespace nf
