// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPointF>
#include <QRectF>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

// Where the nodes of a graph stand. Forward operators run left to right, backward ones return right to left under them, the optimiser
// stands left of what makes its gradient; inputs and parameters are pills above their first consumer. A fused group is one box, which no
// other node enters; closed, it stands for its nodes. A graph much longer than high is folded into lines that are read downwards.
struct GraphLayout {
  struct Node {
    QRectF rect;  // of its group's box while that is closed
    bool pill = false;
    bool hidden = false;  // in a closed group
  };
  struct Group {
    QRectF rect;  // null where fewer than two members are drawn: no outline
    bool closed = false;
  };
  std::vector<Node> nodes;                 // by index in GraphPage::nodes
  std::vector<std::pair<int, int>> edges;  // node indices, by index in GraphPage::edges; -1: an end is not there
  std::vector<bool> drawn;                 // by edge: false where it lies in a closed group or repeats another
  // By edge: the corners of its way around what stands between its ends, from border to border; empty where a curve meets nothing.
  std::vector<std::vector<QPointF>> routes;
  std::vector<Group> groups;  // by index in GraphPage::groups
  std::vector<int> groupOf;   // of each node; -1: none
  QRectF bounds;
};

struct GraphLayoutOptions {
  std::unordered_map<std::string, QPointF> previous;  // places of nodes in the revision before: what can stay there does
  std::set<std::string> closed;                       // first node of each closed group
};

// A plain curve between two boxes: start, two control points, end. It leaves and enters at the sides, or upright where they are under
// one another.
struct EdgeCurve {
  QPointF start, c1, c2, end;
};
EdgeCurve curveBetween(const GraphLayout::Node& from, const GraphLayout::Node& to);

inline constexpr double kNodeWidth = 126, kNodeHeight = 40;
inline constexpr double kGroupTitle = 26;                        // height of an open group's title
inline constexpr double kClosedWidth = 178, kClosedHeight = 64;  // of a closed group

// Linear in nodes and edges but for sorting.
GraphLayout layOutGraph(const protocol::GraphPage& graph, const GraphLayoutOptions& options = {});

// One stage of a graph on the places that its plan, the stage that knows the fused groups, has: a node is at the same place in every
// stage. `graph` has the plan's groups. What the plan has not (an operator that a pass took away) stands below what it touches.
GraphLayout placeOnPlan(const protocol::GraphPage& graph, const protocol::GraphPage& plan, const GraphLayout& planned);

}  // namespace nf
