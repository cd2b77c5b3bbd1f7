// SPDX-License-Identifier: GPL-3.0-or-later
// The Explain page: decisions forced and measured, the graph stage by stage.
#include <QPushButton>
#include <QTableWidget>
#include <map>

#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/stage_slider.h"

namespace nf {
namespace {

TEST_F(Window, ForcingAFusionWritesAHintAndDecidesAgain) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(2);
  QTest::mouseClick(window->explain()->card()->force(), Qt::LeftButton);
  EXPECT_NE(document().text().find("hint fuse Y, d(L)/d(Y)"), std::string::npos);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->report().decisions[2].state == protocol::FusionState::Forced; }));
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->report().decisions[2].state == protocol::FusionState::Refused; }));
}

TEST_F(Window, DecisionsAndGraphOfAnOlderTextAreGreyed) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() == 4 && !explain->graph()->graph().nodes.empty(); }));
  EXPECT_FALSE(isGreyed(explain->table()) || explain->graph()->outdated());
  document().setFusionHint("Y", "L", Document::FusionHint::Split);
  EXPECT_TRUE(isGreyed(explain->table()) && explain->graph()->outdated());
  window->notebook()->followDocument();
  ASSERT_TRUE(wait([&] { return !isGreyed(explain->table()) && !explain->graph()->outdated(); }));
}

TEST_F(Window, BothWaysOfADecisionAreMeasured) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(2);
  QTest::mouseClick(window->explain()->card()->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->explain()->card()->whatIf().contains("slower by 1.8"); }));
  EXPECT_TRUE(window->explain()->card()->measure()->isEnabled());
  EXPECT_TRUE(window->explain()->card()->intervals());
  const QAbstractItemModel* table = window->explain()->fusion();
  EXPECT_TRUE(table->index(2, FusionModel::kMeasured).data().toString().contains("["));
  EXPECT_EQ(table->index(1, FusionModel::kMeasured).data().toString(), "–");
  window->explain()->chooseDecision(1);
  EXPECT_FALSE(window->explain()->card()->intervals());
}

// What a verdict changes is a decision and the graph that is drawn of it, at any stage.
TEST_F(Window, TheGraphIsOfTheDecisionsThatWereMadeLast) {
  write(capsule::kText + "# a verdict counts\n");
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() == 4 && explain->graph()->graph().groups.size() == 2; }));
  explain->chooseDecision(2);
  QTest::mouseClick(explain->card()->measure(), Qt::LeftButton);
  EXPECT_TRUE(wait([&] { return explain->graph()->graph().groups.size() == 1; }));
  EXPECT_EQ(explain->graph()->plan()->groups.size(), 1u);
}

TEST_F(Window, TheStageSliderChangesTheGraph) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().nodes.size() == 7; }));
  QTest::keyClick(window->explain()->slider(), Qt::Key_Left);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "partitioned"; }));
}

TEST_F(Window, NodesStayWhereTheyAreWhileTheSliderMoves) {
  openChecked();
  window->showPage(MainWindow::Page::Author);
  QTest::keyClick(window.get(), Qt::Key_2, Qt::ControlModifier);
  GraphView* graph = window->explain()->graph();
  const auto places = [graph] {
    std::map<std::string, QPointF> out;
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      out[graph->graph().nodes[i].id] = graph->toWidget(graph->layoutOf().nodes[i].rect.topLeft());
    return out;
  };
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused" && graph->graph().nodes.size() == 7; }));
  const auto before = places();
  window->explain()->slider()->setFocus();
  for (const char* stage : {"partitioned", "transformed", "differentiated", "source"}) {
    QTest::keyClick(window->explain()->slider(), Qt::Key_Left);
    ASSERT_TRUE(wait([&] { return graph->graph().stage == stage; }));
    for (const auto& [id, at] : places()) EXPECT_EQ(at, before.at(id)) << stage << " " << id;
  }
}

// The stage that is looked at when the text changes is not the one that knows the groups: that one is asked for first.
TEST_F(Window, AnEarlyStageIsDrawnOnThePlacesOfTheLast) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  GraphView* graph = window->explain()->graph();
  int plans = 0;
  QObject::connect(&window->workspace(), &Workspace::graphPlanArrived, window.get(), [&] { ++plans; });
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused"; }));
  for (const char* stage : {"partitioned", "transformed", "differentiated", "source"}) {
    QTest::keyClick(window->explain()->slider(), Qt::Key_Left);
    ASSERT_TRUE(wait([&] { return graph->graph().stage == stage; }));
  }
  EXPECT_EQ(plans, 0);
  document().replace(0, 0, "# x\n", "Edit");
  ASSERT_TRUE(wait([&] { return graph->graph().revision == document().revision(); }));
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(graph->graph().stage, "source");
  QTest::keyClick(window->explain()->slider(), Qt::Key_Right);
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "differentiated"; }));
  EXPECT_EQ(plans, 1);
}

}  // namespace
}  // namespace nf
