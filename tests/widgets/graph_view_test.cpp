// SPDX-License-Identifier: GPL-3.0-or-later
// The graph of a program: its order, places kept through stages, choosing, captions, its table.
#include <gtest/gtest.h>

#include <QFile>
#include <QFontMetrics>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <random>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/explain_view.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/stage_slider.h"

namespace nf {
namespace {

using namespace protocol;

TEST_F(Widgets, TheGraphRunsForwardThenBackUnderIt) {
  const GraphPage g = capsule::graph(1, "fused");
  const GraphLayout l = layOutGraph(g);
  const auto at = [&](const char* id) {
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
      if (g.nodes[i].id == id) return l.nodes[i].rect;
    return QRectF();
  };
  EXPECT_LT(at("Y").center().x(), at("L").center().x());
  EXPECT_GT(at("d(L)/d(Y)").center().x(), at("d(L)/d(W)").center().x());
  EXPECT_GT(at("d(L)/d(W)").center().x(), at("W <-").center().x());
  EXPECT_GT(at("d(L)/d(Y)").top(), at("L").bottom());
  EXPECT_LT(at("A").bottom(), at("Y").top());
  for (std::size_t i = 0; i < l.nodes.size(); ++i)
    for (std::size_t k = i + 1; k < l.nodes.size(); ++k)
      EXPECT_FALSE(l.nodes[i].rect.intersects(l.nodes[k].rect)) << g.nodes[i].id << " " << g.nodes[k].id;
}

// The further away, the larger text is on the sheet: short names stand whole wherever a graph is shown as a whole, others from 72 % on.
TEST_F(Widgets, NamesFitTheirPillsAtTheZoomThatAGraphOpensWith) {
  const std::vector<std::string> names{"X", "h.W", "h.U", "gamma", "Scale.W", "encoder.W1", "weights.out"};
  GraphPage g;
  g.stage = "fused";
  for (const std::string& name : names) {
    GraphNode pill, node;
    pill.id = pill.name = name, pill.kind = NodeKind::Param;
    node.id = node.name = "Y." + name, node.kind = NodeKind::Operator;
    g.nodes.push_back(pill), g.nodes.push_back(node);
    g.edges.push_back({pill.id, node.id, "x", 4, false, false});
  }
  const GraphLayout layout = layOutGraph(g);
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    if (!layout.nodes[i].pill) continue;
    const std::string& name = g.nodes[i].name;
    for (const double zoom : {0.48, 0.72, 1.0}) {
      if (zoom < 0.5 && name.size() > 5) continue;
      const QFontMetrics metrics(theme.mono(std::max(12, static_cast<int>(std::ceil(kSmallestText / zoom)))));
      EXPECT_LE(metrics.horizontalAdvance(QString::fromStdString(name)) + 12, layout.nodes[i].rect.width())
          << name << " at " << zoom;
    }
  }
  for (std::size_t i = 0; i < layout.nodes.size(); ++i)
    for (std::size_t k = i + 1; k < layout.nodes.size(); ++k)
      EXPECT_FALSE(layout.nodes[i].rect.intersects(layout.nodes[k].rect)) << g.nodes[i].id << " " << g.nodes[k].id;
}

// Its entries go on in another row before they touch the edge.
TEST_F(Widgets, TheLegendOfANarrowGraphEndsBeforeTheEdge) {
  constexpr int kRows = 44, kFree = 6;  // px: of the foot of two rows, free at the right
  GraphView view(&theme, &selection);
  view.setGraph(capsule::graph(1, "fused"));
  view.show();
  for (int width = 440; width < 720; width += 4) {
    view.resize(width, 400);
    const QImage foot = view.grab().toImage().copy(width - kFree, 400 - kRows, kFree - 1, kRows - 1);
    QImage empty(foot.size(), foot.format());
    empty.fill(theme.colors().page);
    ASSERT_EQ(foot, empty) << width;
  }
}

GraphPage randomGraph(std::uint64_t seed, int nodes) {
  std::mt19937_64 rng(seed);
  GraphPage g;
  g.stage = "fused";
  for (int i = 0; i < nodes; ++i) {
    GraphNode n;
    n.id = n.name = "t" + std::to_string(i);
    n.kind = rng() % 9 == 0 ? NodeKind::Param : NodeKind::Operator;
    n.phase = static_cast<Phase>(rng() % 4);
    g.nodes.push_back(n);
    for (int e = 0; e < 2 && i > 0; ++e)
      g.edges.push_back({"t" + std::to_string(rng() % static_cast<std::uint64_t>(rng() % 20 == 0 ? nodes : i)), n.id, "x", 4,
                         rng() % 5 == 0, rng() % 7 == 0});
  }
  g.edges.push_back({"nowhere", "t0", "x", 0, false, false});
  g.totalNodes = nodes;
  return g;
}

TEST_F(Widgets, NodesNeverOverlapInRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GraphPage g = randomGraph(seed, 60);
    const GraphLayout l = layOutGraph(g);
    for (std::size_t i = 0; i < l.nodes.size(); ++i)
      for (std::size_t k = i + 1; k < l.nodes.size(); ++k)
        EXPECT_FALSE(!l.nodes[i].pill && !l.nodes[k].pill && l.nodes[i].rect.intersects(l.nodes[k].rect));
  }
}

QRectF rectOf(const GraphView& view, const std::string& id) {
  const auto& nodes = view.graph().nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].id == id) return {view.toWidget(view.layoutOf().nodes[i].rect.topLeft()), view.layoutOf().nodes[i].rect.size()};
  return {};
}

TEST_F(Widgets, ANodeKeepsItsPlaceThroughEveryStage) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  std::map<std::string, QRectF> places;
  for (const auto& n : view.graph().nodes) places[n.id] = rectOf(view, n.id);
  for (const char* stage : {"source", "differentiated", "transformed", "partitioned", "fused", "source", "fused"}) {
    SCOPED_TRACE(stage);
    view.setGraph(capsule::graph(1, stage));
    for (const auto& n : view.graph().nodes) EXPECT_EQ(rectOf(view, n.id), places.at(n.id)) << n.id;
  }
}

// Stages of random graphs: some operators are not there yet, some are gone later; groups are closed or open.
// Forbid and its undo: the groups come apart and together again, and the picture is the one from before.
TEST_F(Widgets, ADecisionTakenBackGivesThePlacesFromBefore) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphPage fused = randomGraph(seed, 30);
    for (int i = 0; i < 30; i += 3) {
      GraphGroup group;
      group.id = "G" + std::to_string(i);
      for (int k = i; k < i + 3; ++k)
        if (fused.nodes[static_cast<std::size_t>(k)].kind == NodeKind::Operator)
          group.nodes.push_back(fused.nodes[static_cast<std::size_t>(k)].id);
      if (!group.nodes.empty()) fused.groups.push_back(group);
    }
    GraphPage split = fused;
    split.groups.clear();
    GraphView view(&theme, &selection);
    view.resize(900, 500);
    view.show();
    view.setGraph(fused);
    const GraphLayout before = view.layoutOf();
    const QPointF corner = view.toWidget({0, 0});
    for (int again = 0; again < 2; ++again) {
      view.setGraph(split);
      view.setGraph(fused);
      const GraphLayout& now = view.layoutOf();
      ASSERT_EQ(now.nodes.size(), before.nodes.size());
      for (std::size_t i = 0; i < now.nodes.size(); ++i) EXPECT_EQ(now.nodes[i].rect, before.nodes[i].rect) << fused.nodes[i].id;
      EXPECT_EQ(now.routes, before.routes);
      EXPECT_NEAR(view.toWidget({0, 0}).x(), corner.x(), 1e-6);
      EXPECT_NEAR(view.toWidget({0, 0}).y(), corner.y(), 1e-6);
    }
  }
}

// Nothing is empty on one side while the other side hides something, and what is chosen elsewhere is seen.
TEST_F(Widgets, APlanThatComesAndWhatIsChosenElsewhereAreInSight) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GraphPage wide = randomGraph(seed, 40);
    GraphPage narrow = wide;
    narrow.nodes.resize(12);
    std::erase_if(narrow.edges, [&](const GraphEdge& e) {
      const auto there = [&](const std::string& id) {
        return std::ranges::any_of(narrow.nodes, [&](const GraphNode& n) { return n.id == id; });
      };
      return !there(e.from) || !there(e.to);
    });
    GraphView view(&theme, &selection);
    view.resize(700, 400);
    view.show();
    view.setGraph(wide);
    const auto span = [&] {
      const QRectF& all = view.layoutOf().bounds;
      return std::pair(view.toWidget(all.topLeft()), view.toWidget(all.bottomRight()));
    };
    for (const GraphNode& n : wide.nodes) {
      selection.select({}, {n.id});
      const auto& nodes = view.graph().nodes;
      const auto at = static_cast<std::size_t>(std::ranges::find(nodes, n.id, &GraphNode::id) - nodes.begin());
      const QPointF centre = view.toWidget(view.layoutOf().nodes[at].rect.center());
      EXPECT_TRUE(QRectF(view.rect()).contains(centre)) << n.id;
    }
    for (const GraphPage& page : {narrow, wide, narrow}) {
      view.setGraph(page);
      const auto [first, last] = span();
      EXPECT_FALSE(first.x() > 60 && last.x() > view.width()) << first.x() << ".." << last.x();
      EXPECT_FALSE(first.x() < 0 && last.x() < view.width() - 60) << first.x() << ".." << last.x();
    }
    selection.clear();
  }
}

TEST_F(Widgets, NodesKeepTheirPlacesInStagesOfRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    GraphPage fused = randomGraph(seed, 70);
    for (std::size_t i = 0; i + 5 < fused.nodes.size(); i += 5) {
      GraphGroup g;
      g.id = "G" + std::to_string(i);
      for (std::size_t k = i; k < i + rng() % 5; ++k)
        if (fused.nodes[k].kind == NodeKind::Operator) g.nodes.push_back(fused.nodes[k].id);
      if (!g.nodes.empty()) fused.groups.push_back(g);
    }
    GraphView view(&theme, &selection);
    view.resize(900, 500);
    view.setGraph(fused);
    if (seed % 2) view.toggleGroups();
    std::map<std::string, QRectF> places, before;
    for (const auto& n : fused.nodes) places[n.id] = rectOf(view, n.id);
    // Before fusion there are no groups, closed or open: where some are closed, the earlier stages have places of their own.
    if (seed % 2) before = places;
    for (int stage = 0; stage < 4; ++stage) {
      GraphPage page = fused;
      page.stage = "partitioned";
      page.groups.clear();
      std::erase_if(page.nodes, [&](const GraphNode&) { return rng() % 3 == 0; });
      for (int gone = 0; gone < 3; ++gone) {
        GraphNode n;
        n.id = n.name = "gone" + std::to_string(gone);
        page.nodes.push_back(n);
        page.edges.push_back({n.id, page.nodes.front().id, "x", 4, false, false});
      }
      view.setGraph(page);
      const auto& nodes = view.layoutOf().nodes;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::string& id = view.graph().nodes[i].id;
        EXPECT_FALSE(nodes[i].hidden) << id;
        if (places.contains(id)) {
          EXPECT_EQ(rectOf(view, id), before.emplace(id, rectOf(view, id)).first->second) << id;
        } else {
          for (std::size_t k = 0; k < nodes.size(); ++k) EXPECT_FALSE(k != i && nodes[k].rect.intersects(nodes[i].rect)) << id;
        }
      }
    }
    for (const auto& group : view.layoutOf().groups) EXPECT_TRUE(group.rect.isNull());
    view.setGraph(fused);
    for (const auto& n : fused.nodes) EXPECT_EQ(rectOf(view, n.id), places.at(n.id)) << n.id;
  }
}

TEST_F(Widgets, ANodeSaysWhatItComputesAndAGroupWhatItCosts) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  GraphPage g = capsule::graph(1, "fused");
  GraphNode again = g.nodes[4];
  again.id = again.name = "d(L)/d(Y)#2", again.added = true;
  g.nodes.push_back(again);
  g.nodes[5].text = "Σ d(L)/d(Y)·A";
  for (auto& group : g.groups) group.us.reset();
  view.setGraph(g);
  EXPECT_EQ(view.captionOf(5), "Σ dY·A");
  EXPECT_EQ(view.captionOf(7), "computed again");
  EXPECT_EQ(view.factsOf(1), "1 kernel");
  EXPECT_EQ(view.tagOf(1), QString::fromStdString(g.groups[1].id)) << "the number that tables and cards use";
  auto measured = capsule::subgraphs();
  measured[2].us.reset();
  view.setSubgraphs(measured);
  EXPECT_EQ(view.factsOf(0), "1 kernel  41.8 µs") << "nobody knows what share of the step that is";
  view.setSubgraphs(capsule::subgraphs());
  EXPECT_EQ(view.factsOf(0), "1 kernel  41.8 µs  73 %");
  EXPECT_EQ(view.factsOf(1), "1 kernel  12.6 µs  22 %");
  view.toggleGroup(1);
  EXPECT_EQ(view.factsOf(1), "12.6 µs  22 %  2 operators");
  EXPECT_TRUE(view.findNext("dW"));
  EXPECT_EQ(view.chosen(), "d(L)/d(W)");
}

// A closed group fades with what is in it: it stands out where one of its operators was added or changed.
TEST_F(Widgets, WhatAPassLeftAloneFadesInClosedGroupsToo) {
  GraphView view(&theme, &selection);
  view.resize(1200, 700);
  view.show();
  view.setPlan(capsule::graph(1, "fused"));
  GraphPage g = capsule::graph(1, "fused");
  std::set<std::string> touched;
  for (auto& n : g.nodes) {
    n.added = false;
    n.changed = n.phase == Phase::Backward;
    if (n.changed) touched.insert(n.id);
  }
  view.setGraph(g);
  const auto& groups = view.layoutOf().groups;
  for (std::size_t k = 0; k < groups.size(); ++k)
    if (!groups[k].closed) view.toggleGroup(static_cast<int>(k));
  QCoreApplication::processEvents();
  const QImage before = view.grab().toImage();
  view.setHighlightChanges(true);
  const QImage after = view.grab().toImage();
  int faded = 0, kept = 0;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    ASSERT_TRUE(groups[k].closed) << k;
    const QRectF box = groups[k].rect;
    const QRect place = QRectF(view.toWidget(box.topLeft()), view.toWidget(box.bottomRight())).toRect();
    const bool has = std::ranges::any_of(view.graph().groups[k].nodes, [&](const std::string& id) { return touched.contains(id); });
    EXPECT_EQ(before.copy(place) == after.copy(place), has) << view.graph().groups[k].id;
    (has ? kept : faded) += 1;
  }
  EXPECT_GT(faded, 0);
  EXPECT_GT(kept, 0);
}

TEST_F(Widgets, AHundredThousandNodesAreLaidOutBesideTheWindow) {
  GraphView view(&theme, &selection);
  view.resize(800, 600);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.setGraph(randomGraph(3, 100000));
  EXPECT_EQ(view.graph().nodes.size(), 7u);  // the old one stays until the new one is ready
  ASSERT_TRUE(QTest::qWaitFor([&] { return view.graph().nodes.size() == 100000; }, 120000));
  view.grab();
}

TEST_F(Widgets, ANodeIsChosenByClickAndByKey) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.fit();
  QTest::mouseClick(&view, Qt::LeftButton, {}, view.toWidget(view.layoutOf().nodes[2].rect.center()).toPoint());
  EXPECT_EQ(view.chosen(), "Y");
  EXPECT_EQ(selection.origins(), Origins{0});
  const QPointF before = view.toWidget({0, 0});
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.chosen(), "L");
  EXPECT_EQ(view.toWidget({0, 0}), before) << "what is in sight stays where it is";
  EXPECT_TRUE(view.findNext("d(W)"));
  EXPECT_EQ(view.chosen(), "d(L)/d(W)");
  QTest::keyClick(&view, Qt::Key_Escape);
  EXPECT_TRUE(selection.empty());
  // From what another view has chosen, too.
  selection.select({0}, {"Y"});
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.chosen(), "L");
}

TEST_F(Widgets, TheGraphIsSavedAsSvg) {
  GraphView view(&theme, &selection);
  view.setGraph(capsule::graph(1, "fused"));
  QTemporaryDir folder;
  ASSERT_TRUE(view.saveSvg(folder.filePath("g.svg")));
  QFile file(folder.filePath("g.svg"));
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_TRUE(file.readAll().contains("<svg"));
}

// A large graph is placed beside the main thread: its table does not wait for that, nor read the graph before it.
TEST_F(Widgets, ALargeGraphIsListedBeforeItIsPlaced) {
  ExplainView view(&theme, &selection);
  view.setGraph(capsule::graph(1, "fused"));
  protocol::GraphPage large;
  large.stage = "fused";
  for (int i = 0; i < 3200; ++i) {
    protocol::GraphNode node;
    node.id = node.name = "X" + std::to_string(i);
    node.text = "X" + std::to_string(i - 1) + " + 1";
    large.nodes.push_back(node);
    if (i > 0) large.edges.push_back({"X" + std::to_string(i - 1), node.id, "X" + std::to_string(i - 1)});
  }
  large.totalNodes = 3200;
  view.setGraph(large);
  ASSERT_EQ(view.nodes()->model()->rowCount(), 3200);
  EXPECT_EQ(view.nodes()->model()->index(3100, 2).data().toString(), "X3099 + 1");
  EXPECT_TRUE(QTest::qWaitFor([&] { return view.graph()->graph().nodes.size() == 3200; }, 60000));
  EXPECT_EQ(view.graph()->captionOf(3100), "X3099 + 1");
}

// Narrow as it may be, what a stage did runs into no other stage.
TEST_F(Widgets, LabelsOfStagesNeverMeet) {
  StageSlider slider(&theme);
  slider.setStages({{"source", 51, "51 operators"},
                    {"differentiated", 84, "added 33"},
                    {"transformed", 84, "84 operators"},
                    {"partitioned", 82, "82 in 82 kernels, 2 outside the step"},
                    {"fused", 99, "99 in 16 kernels, 2 outside the step"}});
  slider.show();
  for (int width = 700; width < 1900; width += 37) {
    slider.resize(width, slider.height());
    const auto labels = slider.labels();
    ASSERT_EQ(labels.size(), 5u);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_TRUE(QRectF(slider.rect()).contains(labels[i])) << width << ", " << i;
      if (i == 0) continue;
      EXPECT_LT(labels[i - 1].right() + 6, labels[i].left()) << width << ", " << i;
    }
  }
}

// What a stage did is said whole at every width: on further lines where one is too short.
TEST_F(Widgets, NothingThatAStageSaysIsCut) {
  const std::vector<StageSummary> stages{{"source", 51, "51 operators"},
                                         {"differentiated", 84, "added 33"},
                                         {"transformed", 84, "84 operators"},
                                         {"partitioned", 82, "82 in 82 kernels, 2 outside the step"},
                                         {"fused", 99, "82 in 16 kernels, 17 computed again, 2 outside the step"}};
  StageSlider slider(&theme);
  slider.setStages(stages);
  slider.show();
  const QFontMetricsF metrics(theme.ui(12));
  for (int width = 700; width < 1900; width += 37) {
    slider.resize(width, slider.height());
    const auto labels = slider.labels();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const QString note = QString::fromStdString(stages[i].note);
      EXPECT_TRUE(QRectF(slider.rect()).contains(labels[i])) << width << ", " << i;
      const double name = metrics.height(), beside = metrics.horizontalAdvance(QString::fromStdString(stages[i].stage));
      const QRectF lines = metrics.boundingRect(QRectF(0, 0, labels[i].width(), 1000), Qt::TextWordWrap, note);
      EXPECT_TRUE(labels[i].width() > beside + metrics.horizontalAdvance(note) ||
                  (lines.width() <= labels[i].width() && labels[i].height() >= name + lines.height()))
          << width << ", " << i;
    }
  }
}

// A name that is too long for its box goes on below, where the box is high enough.
TEST_F(Widgets, ALongNameOfANodeHasASecondLine) {
  const QFontMetrics metrics(theme.ui(12));
  const auto lines = [&](const QString& name, int width, bool room) {
    return nameLines(metrics, name, width, width, room,
                     [&](const QString& text, int wide) { return metrics.elidedText(text, Qt::ElideMiddle, wide); })
        .join('|')
        .toStdString();
  };
  const int width = metrics.horizontalAdvance("dC.F1.clip");
  EXPECT_EQ(lines("dC.F1", width, true), "dC.F1");
  EXPECT_EQ(lines("dC.F1 + db1", width, true), "dC.F1 +|db1");
  EXPECT_EQ(lines("dC.F1.clipped", width, true), "dC.F1|.clipped");
  EXPECT_NE(lines("dC.F1.clipped", width, false), "dC.F1.clipped");
  EXPECT_EQ(lines("dC.F1.clipped", width, false).find('|'), std::string::npos);
  EXPECT_EQ(lines("encoder.of_words.and_more_of_them", width, true).substr(0, 8), "encoder|");
}

// An edge of the sheet that was seen is seen of the next plan, too.
TEST_F(Widgets, TheFirstRowStaysInSightThroughPlans) {
  int common = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GraphPage fused = randomGraph(seed, 60);
    for (int i = 0; i < 60; i += 4) {
      GraphGroup group;
      group.id = "G" + std::to_string(i);
      for (int k = i; k < i + 4; ++k)
        if (fused.nodes[static_cast<std::size_t>(k)].kind == NodeKind::Operator)
          group.nodes.push_back(fused.nodes[static_cast<std::size_t>(k)].id);
      if (!group.nodes.empty()) fused.groups.push_back(group);
    }
    GraphPage split = fused;
    split.groups.resize(split.groups.size() / 2);
    for (const bool moved : {false, true}) {
      GraphView view(&theme, &selection);
      view.resize(700, 300);
      view.show();
      view.setGraph(fused);
      if (moved) view.zoomBy(1.05);
      const auto top = [&] { return view.toWidget(view.layoutOf().bounds.topLeft()).y(); };
      if (top() < 0) continue;
      ++common;
      view.setGraph(split);
      EXPECT_GE(top(), 0) << moved;
    }
  }
  EXPECT_GT(common, 20);
}

// What was in sight as a whole is so of another fusion of it, where it can be; taken back, it stands as it stood.
TEST_F(Widgets, AWholeGraphStaysWholeThroughFusions) {
  int smaller = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GraphPage apart = randomGraph(seed, 12);
    GraphPage fused = apart;
    for (std::size_t i = 0; i + 3 <= fused.nodes.size(); i += 3) {
      GraphGroup group;
      group.id = group.name = "G" + std::to_string(i);
      for (std::size_t k = i; k < i + 3; ++k)
        if (fused.nodes[k].kind == NodeKind::Operator) group.nodes.push_back(fused.nodes[k].id);
      if (group.nodes.size() > 1) fused.groups.push_back(group);
    }
    GraphView view(&theme, &selection), fresh(&theme, &selection);
    for (GraphView* v : {&view, &fresh}) v->resize(760, 330), v->show();
    const auto whole = [](const GraphView& v) {
      const QRectF& all = v.layoutOf().bounds;
      return QRectF(v.rect()).contains(QRectF(v.toWidget(all.topLeft()), all.size() * v.zoom()));
    };
    view.setGraph(apart);
    fresh.setGraph(fused);
    if (!whole(view) || !whole(fresh) || fresh.zoom() < 0.6) continue;
    const double zoom = view.zoom();
    const QPointF corner = view.toWidget({0, 0});
    view.setGraph(fused);
    // What stays where it was may make it larger than it would be by itself.
    const QSizeF all = view.layoutOf().bounds.size();
    EXPECT_TRUE(whole(view) || all.width() > 1400 || all.height() > 500) << zoom << " to " << view.zoom();
    EXPECT_LE(view.zoom(), zoom);
    smaller += view.zoom() < zoom;
    view.setGraph(apart);
    EXPECT_DOUBLE_EQ(view.zoom(), zoom);
    EXPECT_EQ(view.toWidget({0, 0}), corner);
  }
  EXPECT_GT(smaller, 5);
}

TEST_F(Widgets, AGraphThatDoesNotFitBeginsWithItsFirstOperator) {
  GraphPage g;
  g.stage = "fused";
  std::string before;
  const auto add = [&](const std::string& name, Phase phase) {
    GraphNode node;
    node.id = node.name = name, node.kind = NodeKind::Operator, node.phase = phase;
    g.nodes.push_back(node);
    if (!before.empty()) g.edges.push_back({before, name, "x", 4, false, false});
    before = name;
  };
  for (const char* name : {"first", "L"}) add(name, Phase::Forward);
  for (int i = 0; i < 9; ++i) add("b" + std::to_string(i), Phase::Backward);
  const GraphLayout layout = layOutGraph(g);
  ASSERT_GT((layout.nodes[0].rect.left() - layout.bounds.left()) * 0.78, 500) << "else it is seen anyway";
  GraphView view(&theme, &selection);
  view.resize(500, 200);
  view.show();
  view.setGraph(g);
  EXPECT_GT(layout.bounds.width() * view.zoom(), 500) << "not shrunk to fit";
  EXPECT_TRUE(QRectF(view.rect()).contains(QRectF(rectOf(view, "first").topLeft(), QSizeF(kNodeWidth, kNodeHeight) * view.zoom())));
}

// Wherever one has gone since it was chosen.
TEST_F(Widgets, WhatIsChosenIsInSightInAnotherStage) {
  GraphView view(&theme, &selection);
  view.resize(500, 320);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  selection.select({}, {"d(L)/d(W)"});
  const auto inSight = [&] {
    const QRectF box = rectOf(view, "d(L)/d(W)");
    return QRectF(view.rect()).contains(box.topLeft() + QPointF(kNodeWidth, kNodeHeight) * view.zoom() / 2);
  };
  ASSERT_TRUE(inSight());
  view.zoomBy(6, QPointF(0, 0));
  ASSERT_FALSE(inSight());
  view.setGraph(capsule::graph(1, "fused"));
  EXPECT_FALSE(inSight()) << "the same graph again moves nothing";
  view.setGraph(capsule::graph(1, "partitioned"));
  EXPECT_TRUE(inSight());
}

TEST_F(Widgets, AChosenDecisionComesIntoSight) {
  GraphView view(&theme, &selection);
  view.resize(500, 320);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.zoomBy(4);
  view.setDecision("d(L)/d(W)", "W <-", "R +1 µs");
  for (const char* id : {"d(L)/d(W)", "W <-"})
    EXPECT_TRUE(QRectF(view.rect()).intersects(QRectF(rectOf(view, id).topLeft(), QSizeF(kNodeWidth, kNodeHeight) * view.zoom())))
        << id;
}

}  // namespace
}  // namespace nf
