// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPointF>
#include <QRectF>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

// Where the nodes of a graph stand. Forward operators run left to right, backward ones return right to left under them, the optimiser
// stands left of what makes its gradient; inputs and parameters are pills above their first consumer.
struct GraphLayout {
  struct Node {
    QRectF rect;
    bool pill = false;
  };
  std::vector<Node> nodes;                 // by index in GraphPage::nodes
  std::vector<std::pair<int, int>> edges;  // node indices, by index in GraphPage::edges; -1: an end is not there
  std::vector<QRectF> groups;              // by index in GraphPage::groups; null where no member is drawn
  std::vector<int> groupOf;                // of each node; -1: none
  QRectF bounds;
};

inline constexpr double kNodeWidth = 102, kNodeHeight = 40;

// Linear in nodes and edges but for sorting. `previous` seeds the vertical order: what was above stays above from stage to stage.
GraphLayout layOutGraph(const protocol::GraphPage& graph, const std::unordered_map<std::string, QPointF>& previous = {});

}  // namespace nf
