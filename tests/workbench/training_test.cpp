// SPDX-License-Identifier: GPL-3.0-or-later
// A training seen from its notebook: curves, swaps, warnings, values, and how it ends.
#include <QtTest/qtestspontaneevent.h>
#include <QApplication>
#include <QListWidget>
#include <QPushButton>
#include <QScrollBar>
#include <QTableWidget>
#include <QTreeWidget>
#include <QTreeWidgetItemIterator>
#include <QWheelEvent>

#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/inspector_view.h"
#include "widgets/message_bar.h"
#include "widgets/outline_view.h"
#include "widgets/plots.h"
#include "widgets/swap_list.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

TEST_F(Window, ATrainingThatFailedStaysInTheStatusBarUntilTheTextChanges) {
  std::string text = capsule::kText;
  text.replace(text.find("lr=0.1"), 6, "lr=inf");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->result().startsWith("Failed"); }));
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(window->statusText().contains("The loss L is not a number in step 3")) << window->statusText().toStdString();
  EXPECT_TRUE(cell(3)->train()->resume()->isHidden()) << "no checkpoint is known";
  EXPECT_FALSE(cell(3)->train()->again()->isHidden());
  window->showPage(MainWindow::Page::Tune);
  window->showPage(MainWindow::Page::Author);
  EXPECT_TRUE(window->statusText().startsWith("Failed: The loss")) << window->statusText().toStdString();
  document().replace(text.find("lr=inf"), text.find("lr=inf") + 6, "lr=0.1", "Edit");
  window->notebook()->followDocument();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  run(3);
  ASSERT_TRUE(wait([&] { return window->statusText().contains("up to date"); })) << window->statusText().toStdString();
}

TEST_F(Window, TrainingIsDrawnAndEnds) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && !cell(3)->train()->running() && cell(3)->train()->plot()->steps() == 100; }));
  EXPECT_TRUE(cell(3)->train()->detail().contains("500 steps")) << cell(3)->train()->detail().toStdString();
  EXPECT_EQ(cell(3)->train()->plot()->swaps(), 4);
  EXPECT_EQ(cell(3)->status(), protocol::CellStatus::Ok);
  EXPECT_EQ(window->tune()->latency()->steps(), 100);
}

// What is doubtful does not stop a run: it is said where the run stands, with the way to its place, and in the status bar.
TEST_F(Window, AWarningOfARunIsSaidAndLeadsToItsPlace) {
  std::string text = capsule::kText;
  text.insert(text.find("input A"), "# labels stray\n");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running() && cell(3)->train()->result().startsWith("Trained"); }));
  ASSERT_EQ(cell(3)->train()->warnings(), QStringList{"A holds labels up to 12, and Y has 10 classes."});
  EXPECT_TRUE(wait([&] { return window->statusText() == "A holds labels up to 12, and Y has 10 classes."; }))
      << window->statusText().toStdString();
  QPushButton* shown = nullptr;
  for (QPushButton* b : cell(3)->train()->findChildren<QPushButton*>("place"))
    if (!b->isHidden()) shown = b;
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->text(), "Go to cell 1, line 3");
  QTest::mouseClick(shown, Qt::LeftButton);
  EXPECT_EQ(window->notebook()->activeCell(), cell(1)->id());
  EXPECT_EQ(window->notebook()->caretByte(), document().text().find("A[B, C"));
  run(3);
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running() && cell(3)->train()->result().startsWith("Trained"); }));
  EXPECT_EQ(cell(3)->train()->warnings().size(), 1) << "of the new run";
}

TEST_F(Window, ACheckpointThatCannotBeWrittenIsSaidAndTrainingGoesOn) {
  write(capsule::kText + "\n# %%\n# disk full\n");
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running() && cell(3)->train()->result().startsWith("Trained"); }));
  ASSERT_EQ(cell(3)->train()->warnings().size(), 1);
  EXPECT_TRUE(cell(3)->train()->warnings().front().startsWith("3 checkpoints could not be written while it ran."));
  EXPECT_TRUE(cell(3)->train()->warnings().front().contains("no space left on device"));
  EXPECT_TRUE(wait([&] { return window->statusText().startsWith("3 checkpoints could not be written"); }))
      << window->statusText().toStdString();
}

TEST_F(Window, ATrainingWhoseResultIsOnNoDiskSaysSo) {
  write(capsule::kText + "\n# %%\n# disk stays full\n");
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && !cell(3)->train()->failure().isEmpty(); }));
  EXPECT_TRUE(cell(3)->train()->failure().startsWith("The training has ended, but its checkpoint was not written: no space left"))
      << cell(3)->train()->failure().toStdString();
  EXPECT_TRUE(cell(3)->train()->failure().contains("gone when the notebook is closed"));
  EXPECT_TRUE(cell(3)->train()->result().startsWith("Trained 500 steps")) << cell(3)->train()->result().toStdString();
  // Neither the window nor the notebook is closed over it without a word.
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  window->close();
  EXPECT_TRUE(window->isVisible());
  EXPECT_EQ(window->messages()->text(), "Quit? What capsule.nf has learnt is on no disk, and gone with the window.");
  QTest::mouseClick(window->messages()->buttons().at(1), Qt::LeftButton);
  window->action("file.close")->trigger();
  EXPECT_EQ(window->messages()->text(), "What capsule.nf has learnt is on no disk, and gone when it is closed.");
  QTest::mouseClick(window->messages()->buttons().at(1), Qt::LeftButton);
  run(3);
  EXPECT_TRUE(wait([&] { return cell(3)->train()->running() && cell(3)->train()->failure().isEmpty(); }));
}

TEST_F(Window, ASwapOfTheListLeadsToItsKernel) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && !cell(3)->train()->running() && cell(3)->train()->swaps()->count() == 4; }));
  EXPECT_TRUE(cell(3)->train()->figures().contains("[1.17, 1.20] ms  n = 50")) << cell(3)->train()->figures().toStdString();
  QTableWidget* table = cell(3)->train()->swaps()->table();
  window->notebook()->ensureWidgetVisible(table);
  QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(table->item(0, 1)).center());
  EXPECT_EQ(window->page(), MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->list()->count() == 3; }));
  EXPECT_EQ(window->tune()->current(), window->workspace().swaps().front().subgraph);
}

TEST_F(Window, AStoppedTrainingHasNoTickOfAFinishedOne) {
  writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().steps().size() == 100; }));
  EXPECT_FALSE(cell(3)->stoppedEarly());
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(cell(3)->stoppedEarly());
  const auto said = [&] {
    for (QTreeWidgetItemIterator it(window->outline()->tree()); *it; ++it)
      if ((*it)->data(0, Qt::UserRole + 1).toString() == "stopped") return true;
    return false;
  };
  EXPECT_TRUE(wait(said));
}

TEST_F(Window, TheWheelOverAPlotOfATrainingScrollsTheNotebook) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train()->lossPlot()->points() == 100 && !window->workspace().running(); }));
  QScrollBar* bar = window->notebook()->verticalScrollBar();
  ASSERT_TRUE(wait([&] { return bar->maximum() > 0; }));
  QWidget* canvas = cell(3)->train()->lossPlot()->canvas();
  bar->setValue(bar->maximum());
  const QPointF at(20, 20);
  QWheelEvent wheel(at, canvas->mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
  QSpontaneKeyEvent::setSpontaneous(&wheel);  // others do not go on to what is around
  QApplication::instance()->notify(canvas, &wheel);
  EXPECT_LT(bar->value(), bar->maximum());
}

TEST_F(Window, ValuesInSightFollowTheTraining) {
  writeLongTraining();
  openChecked();
  ASSERT_TRUE(wait([&] { return !window->inspector()->tensor().isEmpty(); }));
  run(3);
  int slices = 0;
  QObject::connect(&window->workspace(), &Workspace::sliceArrived, window.get(), [&] { ++slices; });
  ASSERT_TRUE(wait([&] { return slices >= 2; }));
}

TEST_F(Window, TheLastValuesOfARunAreShownWhenItHasEnded) {
  writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->inspector()->values()->facts().contains("at step 400"); }));
  int kernels = 0;
  QObject::connect(&window->workspace(), &Workspace::subgraphsArrived, window.get(), [&] { ++kernels; });
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return window->inspector()->values()->facts().contains("at step 401") && kernels > 0; }));
  EXPECT_FALSE(window->inspector()->values()->old());
}

TEST_F(Window, StopStops) {
  writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->action("run.stop")->isEnabled(); }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(cell(3)->train()->result().startsWith("Stopped after ")) << cell(3)->train()->result().toStdString();
}

}  // namespace
}  // namespace nf
