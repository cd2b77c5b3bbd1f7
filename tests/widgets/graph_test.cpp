// SPDX-License-Identifier: GPL-3.0-or-later
// The picture of the graph: edges around boxes, labels beside them, places that are kept.
#include <gtest/gtest.h>

#include <QTest>
#include <map>
#include <random>

#include "tests/widgets/capsule.h"
#include "widgets/graph_view.h"

namespace nf {
namespace {

using namespace protocol;

struct Graphs : ::testing::Test {
  Theme theme;
  Selection selection;
  Graphs() {
    theme.setMode(Theme::Mode::Light);
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
  }
};

std::string name(std::uint64_t i) { return "t" + std::to_string(i); }

// Operators in layers with parameters, some of them fused.
GraphPage layers(std::uint64_t seed, int nodes) {
  std::mt19937_64 rng(seed);
  GraphPage g;
  g.stage = "fused";
  for (int i = 0; i < nodes; ++i) {
    GraphNode n;
    n.id = n.name = name(static_cast<std::uint64_t>(i));
    n.kind = i < 3 ? NodeKind::Param : NodeKind::Operator;
    n.phase = i < nodes / 2 ? Phase::Forward : i < nodes * 3 / 4 ? Phase::Backward : Phase::Optimizer;
    g.nodes.push_back(n);
    for (int e = 0; e < 2 && i > 2; ++e)
      g.edges.push_back({name(rng() % static_cast<std::uint64_t>(i)), n.id, "x", 4, rng() % 6 == 0, false});
  }
  for (int i = 3; i + 2 < nodes; i += 5) {
    GraphGroup group;
    group.id = "G" + std::to_string(i);
    group.name = "fused";
    for (int k = i; k < i + static_cast<int>(rng() % 3); ++k) group.nodes.push_back(name(static_cast<std::uint64_t>(k)));
    if (group.nodes.size() > 1) g.groups.push_back(group);
  }
  g.totalNodes = nodes;
  return g;
}

// Whether the straight piece from a to b goes through the inside of a box.
bool crosses(QPointF a, QPointF b, const QRectF& box) {
  for (int k = 0; k <= 200; ++k)
    if (box.adjusted(2, 2, -2, -2).contains(a + (b - a) * (k / 200.0))) return true;
  return false;
}

TEST_F(Graphs, EdgesGoAroundWhatTheyDoNotTouch) {
  int routed = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GraphPage g = layers(seed, 34);
    const GraphLayout l = layOutGraph(g);
    ASSERT_EQ(l.routes.size(), l.edges.size());
    for (std::size_t e = 0; e < l.edges.size(); ++e) {
      const auto& route = l.routes[e];
      if (route.empty()) continue;
      ++routed;
      const auto a = static_cast<std::size_t>(l.edges[e].first), b = static_cast<std::size_t>(l.edges[e].second);
      // From border to border, in straight upright and level pieces.
      EXPECT_TRUE(l.nodes[a].rect.adjusted(-1, -1, 1, 1).contains(route.front()));
      EXPECT_TRUE(l.nodes[b].rect.adjusted(-1, -1, 1, 1).contains(route.back()));
      for (std::size_t k = 0; k + 1 < route.size(); ++k)
        for (std::size_t i = 0; i < l.nodes.size(); ++i)
          if (!l.nodes[i].hidden) {
            EXPECT_FALSE(crosses(route[k], route[k + 1], l.nodes[i].rect))
                << g.nodes[a].id << " -> " << g.nodes[b].id << " through " << g.nodes[i].id;
          }
    }
  }
  EXPECT_GT(routed, 60);
}

std::map<std::string, QPointF> placesIn(const GraphView& view) {
  std::map<std::string, QPointF> places;
  for (std::size_t i = 0; i < view.graph().nodes.size(); ++i)
    places[view.graph().nodes[i].id] = view.toWidget(view.layoutOf().nodes[i].rect.topLeft());
  return places;
}

// A decision that is forbidden takes a node out of its kernel: the outline changes, nobody moves.
// What no kernel of a step makes says so, once the kernels of a step are known.
TEST_F(Graphs, AGroupThatTrainingLeavesOutSaysSo) {
  GraphView view(&theme, &selection);
  GraphPage page = layers(7, 12);
  page.groups.clear();
  for (const int first : {3, 6}) {
    GraphGroup group;
    group.id = group.name = "G" + std::to_string(first);
    for (int k = first; k < first + 3; ++k) group.nodes.push_back(name(static_cast<std::uint64_t>(k)));
    page.groups.push_back(group);
  }
  view.setGraph(page);
  EXPECT_FALSE(view.factsOf(0).contains("left out"));
  SubgraphInfo kernel;
  kernel.operators = page.groups[1].nodes;
  view.setSubgraphs({kernel});
  EXPECT_TRUE(view.factsOf(0).contains("left out by training")) << view.factsOf(0).toStdString();
  EXPECT_FALSE(view.factsOf(1).contains("left out"));
}

TEST_F(Graphs, AnOperatorWithAKernelOfItsOwnHasItsTime) {
  GraphView view(&theme, &selection);
  GraphPage page = capsule::graph(1, "fused");
  page.groups.clear();
  view.setGraph(page);
  std::vector<SubgraphInfo> kernels(2);
  kernels[0].operators = {"Y"}, kernels[0].us = 30, kernels[0].callsPerStep = 1;
  kernels[1].operators = {"L", "d(L)/d(Y)"}, kernels[1].us = 10, kernels[1].callsPerStep = 1;
  view.setSubgraphs(kernels);
  const auto timeOf = [&](const char* id) {
    const auto& nodes = view.graph().nodes;
    const auto found = std::ranges::find(nodes, id, &GraphNode::id);
    return found == nodes.end() ? QStringLiteral("no node") : view.timeOf(static_cast<std::size_t>(found - nodes.begin()));
  };
  EXPECT_EQ(timeOf("Y"), "30.0 µs  75 %");
  EXPECT_EQ(timeOf("L"), "") << "the time of a kernel of several is none of them";
  // Two that share one.
  for (const char* id : {"Y", "L"}) page.groups.push_back({id, id, {id}, 0, 1, std::nullopt, {}});
  kernels[0].operators = {"Y", "L"}, kernels[0].callsPerStep = 2, kernels[1].operators = {"d(L)/d(Y)"}, kernels[1].us = 20;
  view.setGraph(page);
  view.setSubgraphs(kernels);
  EXPECT_EQ(timeOf("Y"), "30.0 µs  38 %");
  EXPECT_EQ(timeOf("L"), "30.0 µs  38 %");
  page.groups.clear();
  page.stage = "source";
  view.setGraph(page);
  EXPECT_EQ(timeOf("Y"), "") << "before fusion there are no kernels";
}

TEST_F(Graphs, NodesStayWhenAGroupIsSplit) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  GraphPage whole = capsule::graph(1, "fused");
  view.setGraph(whole);
  const auto before = placesIn(view);
  GraphPage split = whole;
  split.revision = 2;
  for (auto& group : split.groups)
    if (group.nodes.size() > 2) group.nodes.erase(group.nodes.begin());
  std::erase_if(split.groups, [](const GraphGroup& g) { return g.nodes.size() < 2; });
  split.groups.pop_back();
  view.setGraph(split);
  const auto after = placesIn(view);
  for (const auto& [id, place] : before) EXPECT_LT((after.at(id) - place).manhattanLength(), 1.5) << id;
  view.setGraph(whole);
  for (const auto& [id, place] : placesIn(view)) EXPECT_LT((before.at(id) - place).manhattanLength(), 1.5) << id;
}

TEST_F(Graphs, ANewNodeLeavesTheOthersWhereTheyAre) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphView view(&theme, &selection);
    view.resize(900, 500);
    view.show();
    GraphPage g = layers(seed, 24);
    view.setGraph(g);
    const auto before = placesIn(view);
    g.revision = 2;
    GraphNode n;
    n.id = n.name = "new";
    n.kind = NodeKind::Operator;
    g.nodes.push_back(n);
    g.edges.push_back({"t5", "new", "x", 4, false, false});
    view.setGraph(g);
    const auto after = placesIn(view);
    for (const auto& [id, place] : before) EXPECT_LT((after.at(id) - place).manhattanLength(), 1.5) << id;
    const auto& nodes = view.layoutOf().nodes;
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i) EXPECT_FALSE(nodes[i].rect.intersects(nodes.back().rect)) << g.nodes[i].id;
  }
}

TEST_F(Graphs, TheRewardCoversNoNodeAndNoTitle) {
  GraphView view(&theme, &selection);
  view.resize(1000, 600);
  view.show();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    view.reset();
    const GraphPage g = layers(seed, 30);
    view.setGraph(g);
    for (const GraphEdge& e : g.edges) {
      view.setDecision(QString::fromStdString(e.from), QString::fromStdString(e.to), "R +123.45 µs");
      const QRectF label = view.decisionPlace();
      ASSERT_FALSE(label.isNull());
      for (const auto& node : view.layoutOf().nodes) EXPECT_FALSE(node.rect.intersects(label));
      for (const auto& group : view.layoutOf().groups) {
        if (!group.rect.isNull()) {
          EXPECT_FALSE(QRectF(group.rect.topLeft(), QSizeF(group.rect.width(), kGroupTitle)).intersects(label));
        }
      }
    }
  }
}

// An edge that goes around what stands between its ends has its reward where it is drawn, not between the two.
TEST_F(Graphs, TheRewardStandsAtItsEdge) {
  GraphView view(&theme, &selection);
  view.resize(1000, 600);
  view.show();
  double nearEdge = 0, all = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    view.reset();
    const GraphPage g = layers(seed, 30);
    view.setGraph(g);
    for (std::size_t e = 0; e < g.edges.size(); ++e) {
      view.setDecision(QString::fromStdString(g.edges[e].from), QString::fromStdString(g.edges[e].to), "R +1 µs");
      const QRectF label = view.decisionPlace();
      const QPainterPath path = view.edgePath(e);
      double least = 1e9;
      for (double at = 0; at <= 1; at += 0.01) least = std::min(least, QLineF(label.center(), path.pointAtPercent(at)).length());
      ++all, nearEdge += least < 60;
    }
  }
  EXPECT_GT(nearEdge, 0.9 * all) << nearEdge << " of " << all;
}

TEST_F(Graphs, ASmallGraphFillsItsPlaceUntilItIsMovedByHand) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  const auto fills = [&] {
    const QSizeF drawn = view.layoutOf().bounds.size() * view.zoom();
    return std::max(drawn.width() / view.width(), drawn.height() / view.height());
  };
  EXPECT_GT(fills(), 0.7);
  view.resize(700, 380);
  EXPECT_GT(fills(), 0.7);
  EXPECT_LT(fills(), 1.0);
  view.zoomBy(0.5);
  const double zoom = view.zoom();
  view.resize(900, 500);
  EXPECT_DOUBLE_EQ(view.zoom(), zoom);
}

TEST_F(Graphs, AllOfAGraphIsInSightAsLongAsItsNamesCanBeRead) {
  GraphView view(&theme, &selection);
  view.resize(3000, 2000);
  view.show();
  const GraphPage g = layers(3, 30);
  view.setGraph(g);
  const QSizeF whole = view.layoutOf().bounds.size() + QSizeF(48, 60);
  const auto inSight = [&] {
    const QRectF bounds = view.layoutOf().bounds;
    return QRectF(view.rect()).contains(QRectF(view.toWidget(bounds.topLeft()), view.toWidget(bounds.bottomRight())));
  };
  for (const double scale : {1.0, 0.75, 0.6}) {
    view.resize((whole * scale).toSize() + QSize(1, 1));
    EXPECT_TRUE(inSight()) << scale << " " << view.zoom();
  }
  view.resize((whole * 0.3).toSize());
  EXPECT_FALSE(inSight()) << "its beginning, to be read";
}

TEST_F(Graphs, ADoubleClickOpensTheSource) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  QStringList opened;
  QObject::connect(&view, &GraphView::nodeOpened, [&](const QString& id) { opened << id; });
  const auto& nodes = view.graph().nodes;
  const auto y = static_cast<std::size_t>(std::find_if(nodes.begin(), nodes.end(), [](const GraphNode& n) { return n.id == "Y"; }) -
                                          nodes.begin());
  const QPoint at = view.toWidget(view.layoutOf().nodes[y].rect.center()).toPoint();
  QTest::mouseDClick(&view, Qt::LeftButton, {}, at);
  EXPECT_EQ(opened, QStringList{"Y"});
  QTest::mouseClick(&view, Qt::LeftButton, {}, at);
  QTest::keyClick(&view, Qt::Key_Return);
  EXPECT_EQ(opened, (QStringList{"Y", "Y"}));
}

// Wherever on it: the second release of the button lies on what has opened.
TEST_F(Graphs, ADoubleClickOpensAGroupAndClosesIt) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  const auto& groups = view.layoutOf().groups;
  const auto found = std::ranges::find_if(groups, [](const auto& g) { return !g.rect.isNull(); });
  ASSERT_NE(found, groups.end());
  const auto g = static_cast<std::size_t>(found - groups.begin());
  if (!groups[g].closed) view.toggleGroup(static_cast<int>(g));
  const auto at = [&](QPointF offset) { return view.toWidget(view.layoutOf().groups[g].rect.topLeft() + offset).toPoint(); };
  const auto doubleClick = [&](QPoint place) {
    QTest::mouseClick(&view, Qt::LeftButton, {}, place);
    QTest::mouseDClick(&view, Qt::LeftButton, {}, place);
    QTest::mouseRelease(&view, Qt::LeftButton, {}, place);
  };
  for (const QPointF offset : {QPointF(60, 9), QPointF(60, 30), QPointF(12, 9)}) {
    SCOPED_TRACE(std::to_string(offset.x()) + ", " + std::to_string(offset.y()));
    ASSERT_TRUE(view.layoutOf().groups[g].closed);
    doubleClick(at(offset));
    EXPECT_FALSE(view.layoutOf().groups[g].closed);
    doubleClick(at({60, 9}));  // its title
    EXPECT_TRUE(view.layoutOf().groups[g].closed);
  }
}

}  // namespace
}  // namespace nf
