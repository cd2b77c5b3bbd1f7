// SPDX-License-Identifier: GPL-3.0-or-later
// The Tune page: trials, schedules measured and pinned by hand, kernels compared, the budget.
#include <QComboBox>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>
#include <QPushButton>

#include "core/syntax/schedule_text.h"
#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/graph_view.h"
#include "widgets/kernel_view.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

// A trial whose number says that there are others before it, from earlier runs: they are asked for, and the curve has them all.
TEST_F(Window, TrialsOnRecordComeWithTheFirstNewOne) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().trials("bb02").size() == capsule::trials().size(); }));
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->list()->count() == 3; }));
  window->tune()->list()->setFocus();
  while (window->tune()->current() != "bb02") QTest::keyClick(window->tune()->list(), Qt::Key_Down);
  EXPECT_EQ(window->tune()->trials()->points(), static_cast<int>(capsule::trials().size()));
  EXPECT_GT(window->tune()->trials()->bestSoFar().size(), 3);
}

// An engine that was started anew may not have kept all that the one before told of: row, plot and table have what it knows.
TEST_F(Window, TrialsThatTheEngineDoesNotHaveAreLetGo) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->trials()->points() > 0; }));
  const std::string kernel = window->tune()->current();
  const std::size_t known = window->workspace().trials(kernel).size();
  protocol::TrialInfo untold = window->workspace().trials(kernel).back();
  ++untold.number;
  window->workspace().takeTrial(kernel, untold);
  ASSERT_EQ(window->tune()->trials()->points(), static_cast<int>(known) + 1);
  window->workspace().wantSubgraphs();
  EXPECT_TRUE(wait([&] { return window->tune()->trials()->points() == static_cast<int>(known); }));
}

TEST_F(Window, TrainingFillsTheTunePage) {
  QFile peer(folder.filePath("capsule.peer.json"));
  ASSERT_TRUE(peer.open(QIODevice::WriteOnly));
  peer.write(R"({"name": "PyTorch", "step_ms": 4.5})");
  peer.close();
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  run(3);
  ASSERT_TRUE(wait([&] { return window->tune()->latency()->steps() == 100 && !window->workspace().running(); }));
  EXPECT_EQ(window->tune()->loss()->points(), 100);
  EXPECT_EQ(window->tune()->loss()->evaluations(), 1);
  EXPECT_EQ(window->tune()->latency()->swaps(), 4);
  const auto against = window->tune()->latency()->againstPeer();
  EXPECT_TRUE(against && against->from);
  EXPECT_TRUE(window->tune()->now().contains("nothing runs"));
  EXPECT_EQ(cell(3)->train()->lossPlot()->points(), 100);
  // One run has one step time, on both pages and when the page is left and comes back.
  const auto oneFigure = [&] {
    const double given = cell(3)->train()->plot()->given();
    return given > 0 && window->tune()->latency()->given() == given && window->tune()->latency()->figure() == given;
  };
  EXPECT_TRUE(oneFigure()) << cell(3)->train()->plot()->given() << " " << window->tune()->latency()->figure();
  window->showPage(MainWindow::Page::Author);
  window->showPage(MainWindow::Page::Tune);
  EXPECT_TRUE(oneFigure()) << cell(3)->train()->plot()->given() << " " << window->tune()->latency()->figure();
}

TEST_F(Window, TheBudgetReachesTheEngineAndComesBack) {
  writeLongTraining();
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().budgetShare > 0; }));
  window->tune()->budget()->setFocus();
  QTest::keyClick(window->tune()->budget(), Qt::Key_End);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().budgetShare == 0.9; }));
  EXPECT_EQ(window->tune()->budget()->value(), 90);
}

TEST_F(Window, AStepIsProfiledByAClick) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->list()->count() == 3; }));
  QTest::mouseClick(window->tune()->profile()->findChild<IconButton*>("profile"), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->tune()->profile()->model()->rowCount() == 3; }));
}

// What was timed before a faster kernel was found is not of the kernels that run now, on either page.
TEST_F(Window, AProfileFromBeforeAKernelWasReplacedSaysSo) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->list()->count() == 3 && !window->explain()->graph()->graph().nodes.empty(); }));
  window->showPage(MainWindow::Page::Tune);
  ProfileView* profile = tune->profile();
  const auto taken = [&] {
    const auto before = profile->taken();
    QTest::mouseClick(profile->findChild<IconButton*>("profile"), Qt::LeftButton);
    return wait([&] { return profile->taken() != before; });
  };
  const auto timeInGraph = [&] {
    const GraphView* graph = window->explain()->graph();
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      if (graph->graph().nodes[i].id == "d(L)/d(Y)") return graph->timeOf(i);
    return QString("no node");
  };
  ASSERT_TRUE(taken());
  EXPECT_TRUE(profile->age().startsWith("of a profiled step, ")) << profile->age().toStdString();
  EXPECT_TRUE(timeInGraph().startsWith(QStringLiteral("2.75 µs"))) << timeInGraph().toStdString();
  tune->chooseSubgraph("cc03");
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->measure()->isEnabled(); }));
  tune->knob("threads")->setFocus();
  QTest::keyClick(tune->knob("threads"), Qt::Key_End);
  QTest::mouseClick(tune->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return profile->age().startsWith("before kernels were replaced, "); })) << profile->age().toStdString();
  const ProfileModel* rows = profile->model();
  for (const auto& [id, now] : {std::pair{"aa01", true}, {"bb02", true}, {"cc03", false}})
    EXPECT_EQ(rows->isNow(rows->rowOf(id)), now) << id;
  EXPECT_TRUE(timeInGraph().startsWith(QStringLiteral("3.10 µs"))) << timeInGraph().toStdString();
  ASSERT_TRUE(taken());
  EXPECT_TRUE(profile->age().startsWith("of a profiled step, ")) << profile->age().toStdString();
  EXPECT_TRUE(rows->isNow(rows->rowOf("cc03")));
}

TEST_F(Window, AScheduleIsMeasuredByHand) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->knob("threads") != nullptr && window->tune()->trials()->points() > 0; }));
  window->tune()->knob("threads")->setFocus();
  QTest::keyClick(window->tune()->knob("threads"), Qt::Key_End);
  QTest::mouseClick(window->tune()->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->tune()->measured().contains("33.3"); })) << window->tune()->measured().toStdString();
}

TEST_F(Window, PinAfterMeasureKeepsTheScheduleThatWasMeasured) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  tune->knob("threads")->setFocus();
  QTest::keyClick(tune->knob("threads"), Qt::Key_End);
  const std::string measured = tune->chosenSchedule().text;
  ASSERT_EQ(knobsOf(measured).at("threads"), "2");
  QTest::mouseClick(tune->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return tune->measured().contains("33.3"); })) << tune->measured().toStdString();
  EXPECT_EQ(tune->trial(), 900u);
  EXPECT_TRUE(tune->lineage().contains("c900")) << tune->lineage().toStdString();
  EXPECT_EQ(knobsOf(tune->chosenSchedule().text), knobsOf(measured)) << "the panel left the trial that was measured";
  QTest::mouseClick(tune->pin(), Qt::LeftButton);
  const std::string line = "hint schedule Y " + scheduleText(measured, 16, 88);
  EXPECT_NE(document().text().find(line), std::string::npos) << document().text();
}

TEST_F(Window, WhatTheKernelCannotHaveIsGreySaysWhyAndIsNotPinned) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  QComboBox *threads = tune->knob("threads"), *tile = tune->knob("tile");
  const int wide = tile->findData("[8,8]");
  EXPECT_FALSE(tile->itemData(wide, Qt::ForegroundRole).isValid());
  threads->setFocus();
  QTest::keyClick(threads, Qt::Key_End);
  ASSERT_TRUE(wait([&] { return tile->itemData(wide, Qt::ToolTipRole).toString().contains("registers"); }));
  EXPECT_TRUE(tile->itemData(wide, Qt::ForegroundRole).isValid());
  EXPECT_FALSE(tile->itemData(0, Qt::ForegroundRole).isValid());
  EXPECT_TRUE(tune->pin()->isEnabled());
  tile->setFocus();
  QTest::keyClick(tile, Qt::Key_End);
  EXPECT_FALSE(tune->pin()->isEnabled()) << "nobody has said yet that the kernel can have it";
  ASSERT_TRUE(wait([&] { return !tune->measure()->isEnabled(); }));
  EXPECT_TRUE(tune->measured().contains("registers")) << tune->measured().toStdString();
  EXPECT_TRUE(tune->pin()->toolTip().contains("registers")) << tune->pin()->toolTip().toStdString();
  QTest::mouseClick(tune->pin(), Qt::LeftButton);
  EXPECT_EQ(document().text(), capsule::kText);
  QTest::keyClick(tile, Qt::Key_Home);
  ASSERT_TRUE(wait([&] { return tune->pin()->isEnabled(); }));
  EXPECT_TRUE(tune->measure()->isEnabled());
  EXPECT_EQ(tune->measured(), "");
}

TEST_F(Window, PinKeepsAScheduleInTheNotebookAndUnpinTakesItOut) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  tune->chooseTrial(7);
  ASSERT_EQ(tune->pin()->text(), "Pin");
  QTest::mouseClick(tune->pin(), Qt::LeftButton);
  const std::string line = "hint schedule Y " + scheduleText(capsule::trials()[7].schedule.text, 16, 88);
  EXPECT_NE(document().text().find(line), std::string::npos) << document().text();
  EXPECT_EQ(tune->pin()->text(), "Unpin");
  EXPECT_EQ(cell(4)->editor()->bytes(), line);  // the hint's cell is in the notebook's view, too
  ASSERT_TRUE(wait([&] {
    const auto& all = window->workspace().subgraphs().subgraphs;
    return window->workspace().analysisIsCurrent() && !all.empty() && all[0].state == protocol::SubgraphState::Pinned;
  }));
  EXPECT_TRUE(window->statusText().contains("Y") || window->statusText().contains("up to date"));
  QTest::keyClick(tune->pin(), Qt::Key_Space);
  EXPECT_EQ(document().text().find("hint schedule"), std::string::npos);
  EXPECT_EQ(tune->pin()->text(), "Pin");
  window->action("edit.undo")->trigger();
  EXPECT_EQ(tune->pin()->text(), "Unpin");
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_EQ(tune->pin()->text(), "Pin");
}

// What of a page is not in sight there is shown where it is; a decision of the page's own is undone in place.
TEST_F(Window, TextThatIsUndoneFromAnotherPageIsShown) {
  openChecked();
  for (const auto page : {MainWindow::Page::Tune, MainWindow::Page::Devices, MainWindow::Page::Explain}) {
    window->showPage(MainWindow::Page::Author);
    window->notebook()->activate(cell(2)->id(), true);
    QTest::keyClicks(cell(2)->editor(), "x");
    window->notebook()->activate(cell(1)->id(), false);
    window->showPage(page);
    window->action("edit.undo")->trigger();
    EXPECT_EQ(document().text(), capsule::kText);
    EXPECT_EQ(window->page(), MainWindow::Page::Author);
    EXPECT_EQ(window->notebook()->activeCell(), cell(2)->id());
    window->showPage(page);
    window->action("edit.redo")->trigger();
    EXPECT_NE(document().text(), capsule::kText);
    EXPECT_EQ(window->page(), MainWindow::Page::Author);
    window->action("edit.undo")->trigger();
  }
  document().setScheduleHint("Y", R"({"kind": "contraction"})");
  window->notebook()->followDocument();
  window->showPage(MainWindow::Page::Tune);
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_EQ(window->page(), MainWindow::Page::Tune);
}

// A plot's commands act on one in sight that has points, and say so where there is none.
TEST_F(Window, CommandsOfAPlotSayThatThereIsNone) {
  openChecked();
  const auto asked = std::make_shared<int>(0);
  for (Plot* p : window->findChildren<Plot*>())
    p->setPathChooser([asked](const QString&) {
      ++*asked;
      return QString();
    });
  for (const char* id : {"plot.table", "plot.csv", "plot.json", "plot.png", "plot.svg"}) {
    window->action("tools.message")->trigger();
    ASSERT_EQ(window->statusText(), "No message waits");
    window->action(id)->trigger();
    EXPECT_TRUE(window->statusText().startsWith("No plot is in sight")) << id << ": " << window->statusText().toStdString();
  }
  EXPECT_FALSE(window->tune()->latency()->showsTable());
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->latency()->isVisible() && window->tune()->latency()->height() > 0; }));
  // No step has run; the trials are there.
  ASSERT_TRUE(wait([&] { return window->tune()->trials()->points() > 0 && window->tune()->trials()->isVisible(); }));
  ASSERT_TRUE(window->tune()->latency()->table().rows.empty());
  window->action("plot.csv")->trigger();
  EXPECT_EQ(std::exchange(*asked, 0), 1) << window->statusText().toStdString();
  window->action("file.new")->trigger();
  window->showPage(MainWindow::Page::Tune);
  window->action("plot.csv")->trigger();
  EXPECT_TRUE(window->statusText().startsWith("The plot is empty")) << window->statusText().toStdString();
  EXPECT_EQ(*asked, 0);
  QTest::mouseClick(window->tabs(), Qt::LeftButton, {}, window->tabs()->tabRect(0).center());
  window->showPage(MainWindow::Page::Author);
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->plot()->steps() == 100 && !window->workspace().running(); }));
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->latency()->isVisible() && window->tune()->latency()->height() > 0; }));
  window->action("plot.csv")->trigger();
  EXPECT_EQ(*asked, 1);
}

TEST_F(Window, AReplayStandsBesideTheFigureItRepeats) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->trials()->points() > 0; }));
  tune->chooseTrial(2);
  QTest::mouseClick(tune->replay(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return tune->measured().contains("now 33.3"); })) << tune->measured().toStdString();
  EXPECT_TRUE(tune->measured().contains("g0 c2 was 621")) << tune->measured().toStdString();
  EXPECT_TRUE(tune->measured().contains("faster")) << tune->measured().toStdString();
  EXPECT_TRUE(tune->replay()->isEnabled());
  EXPECT_EQ(tune->trial(), 2u);  // the playhead stays on what was measured again
}

// What the buttons of the knobs do is in the menu and the palette, too, and says why where it cannot be done.
TEST_F(Window, PinReplayAndMeasureAreCommands) {
  openChecked();
  TuneView* tune = window->tune();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  tune->chooseTrial(7);
  window->showPage(MainWindow::Page::Author);
  window->action("tune.pin")->trigger();
  EXPECT_TRUE(tune->isVisible());
  EXPECT_NE(document().text().find("hint schedule Y "), std::string::npos) << document().text();
  window->action("tune.pin")->trigger();
  EXPECT_EQ(document().text().find("hint schedule"), std::string::npos);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && tune->trials()->points() > 0; }));
  tune->chooseTrial(2);
  window->action("tune.replay")->trigger();
  window->action("tune.measure")->trigger();
  EXPECT_EQ(window->statusText(), "A schedule is being measured already");
  ASSERT_TRUE(wait([&] { return tune->measured().contains("now 33.3"); })) << tune->measured().toStdString();
  tune->knob("threads")->setCurrentIndex(tune->knob("threads")->count() - 1);
  window->action("tune.measure")->trigger();
  ASSERT_TRUE(wait([&] { return tune->measured().contains("33.3") && !tune->measuring(); })) << tune->measured().toStdString();
  QStringList menu;
  for (const QMenu* m : window->menuBar()->findChildren<QMenu*>())
    for (const QAction* a : m->actions()) menu << a->objectName();
  for (const char* id : {"tune.pin", "tune.replay", "tune.measure"}) EXPECT_TRUE(menu.contains(QLatin1String(id))) << id;
}

TEST_F(Window, CommandsOfTuneSayThatThereIsNoKernel) {
  open();
  ASSERT_TRUE(window->tune()->current().empty());
  for (const char* id : {"tune.pin", "tune.replay", "tune.measure"}) {
    window->action("tools.message")->trigger();
    ASSERT_EQ(window->statusText(), "No message waits");
    window->action(id)->trigger();
    EXPECT_TRUE(window->statusText().startsWith("There is no kernel yet")) << id << ": " << window->statusText().toStdString();
  }
}

TEST_F(Window, TwoKernelsAreComparedThroughTheEngine) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->trials()->points() > 0 && window->tune()->kernel()->comparison()->count() > 3; }));
  window->tune()->chooseTrial(2);
  ASSERT_TRUE(wait([&] { return window->tune()->kernel()->text().contains("0..32"); }));
  QComboBox* with = window->tune()->kernel()->comparison();
  with->setFocus();
  for (int i = 1; i < with->count() && window->tune()->kernel()->difference().first == 0; ++i) {
    QTest::keyClick(with, Qt::Key_Down);
    const bool odd = with->currentText().section('c', 1).section(' ', 0, 0).toInt() % 2 == 1;
    if (odd) {
      ASSERT_TRUE(wait([&] { return window->tune()->kernel()->difference() == std::pair(1, 1); }));
    }
  }
  EXPECT_EQ(window->tune()->kernel()->difference(), (std::pair{1, 1}));
}

}  // namespace
}  // namespace nf
