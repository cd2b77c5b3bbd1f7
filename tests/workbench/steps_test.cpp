// SPDX-License-Identifier: GPL-3.0-or-later
// Of several trainings the views show the step of one: of the one that was begun last, or that somebody chooses.
#include <gtest/gtest.h>

#include <QTest>
#include <set>

#include "app/workbench/main_window.h"
#include "core/document/document.h"
#include "tests/workbench/real_engine.h"
#include "widgets/basic.h"
#include "widgets/explain_view.h"
#include "widgets/graph_view.h"
#include "widgets/step_chooser.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

const std::string kTwo =
    "# %%\ninput A[64, 32] = normal(0, 1)\nparam W[32, 16] = normal(0, 1)\nparam V[32, 16] = normal(0, 1)\n"
    "H[i, j] = sum[k] A[i, k]*W[k, j]\nG[i, j] = tanh(sum[k] A[i, k]*V[k, j])\n"
    "loss La = mean[i, j] H[i, j]^2\nloss Lb = mean[i, j] G[i, j]^2\n"
    "# %%\ntrain La { optimizer = sgd(lr=0.1); steps = 30; wrt = W }\n"
    "# %%\ntrain Lb { optimizer = adam(lr=0.1); steps = 30; wrt = V }\n";

struct Steps : RealEngine {
  std::set<std::string> inStep() {
    std::set<std::string> made;
    for (const auto& node : window->explain()->graph()->graph().nodes)
      if (!node.outsideStep) made.insert(node.id);
    return made;
  }
  std::set<std::string> inKernels() {
    std::set<std::string> made;
    for (const auto& kernel : window->workspace().subgraphs().subgraphs)
      made.insert(kernel.operators.begin(), kernel.operators.end());
    return made;
  }
  QString latencyDetail() {
    for (const PanelHeader* header : window->tune()->findChildren<PanelHeader*>())
      if (header->title() == "Step latency") return header->detail();
    return {};
  }
};

TEST_F(Steps, OneTrainingLeavesNothingToChoose) {
  openChecked(kTwo.substr(0, kTwo.rfind("# %%")));
  window->showPage(MainWindow::Page::Explain);
  EXPECT_FALSE(window->explain()->steps()->isVisible());
  EXPECT_FALSE(window->tune()->steps()->isVisibleTo(window->tune()));
}

TEST_F(Steps, TheViewsShowTheTrainingThatWasBegunLast) {
  openChecked(kTwo);
  window->showPage(MainWindow::Page::Explain);
  StepChooser* const steps = window->explain()->steps();
  ASSERT_TRUE(wait([&] { return inStep().contains("W.next"); }));
  EXPECT_TRUE(steps->isVisible());
  EXPECT_EQ(steps->currentText(), "step of La");
  EXPECT_FALSE(inStep().contains("V.next"));
  const std::string text = document().text();
  const bool undo = document().canUndo();
  run(2);
  ASSERT_TRUE(wait([&] { return cell(2)->train() && cell(2)->train()->result().startsWith("Trained"); }));
  EXPECT_EQ(steps->currentText(), "step of Lb");
  EXPECT_EQ(window->tune()->steps()->currentText(), "step of Lb");
  ASSERT_TRUE(wait([&] { return inStep().contains("V.next") && inStep().contains("G"); }));
  EXPECT_FALSE(inStep().contains("W.next"));
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return inKernels().contains("V.next"); }));
  EXPECT_FALSE(inKernels().contains("W.next"));
  EXPECT_EQ(document().text(), text) << "the text has no part in it";
  EXPECT_EQ(document().canUndo(), undo);
  EXPECT_FALSE(cell(2)->runIsOld()) << "nothing was edited";
  // And back, by hand.
  StepChooser* const here = window->tune()->steps();
  here->setFocus();
  QTest::keyClick(here, Qt::Key_Up);
  ASSERT_TRUE(wait([&] { return inKernels().contains("W.next"); }));
  EXPECT_FALSE(inKernels().contains("V.next"));
  EXPECT_EQ(steps->currentText(), "step of La");
  // The curves are still of the run there was.
  EXPECT_TRUE(latencyDetail().startsWith("of training Lb; ")) << latencyDetail().toStdString();
  QTest::keyClick(here, Qt::Key_Down);
  ASSERT_TRUE(wait([&] { return inKernels().contains("V.next"); }));
  EXPECT_TRUE(latencyDetail().startsWith("median")) << latencyDetail().toStdString();
}

// Also where both have made as many steps, and where an edit that both have to be made again for was followed by one of them alone.
TEST_F(Steps, TheCurvesHaveTheFigureAndTheStateOfTheirOwnRun) {
  std::string text = kTwo;
  for (std::size_t at; (at = text.find("steps = 30;")) != std::string::npos;) text.replace(at, 11, "steps = 250;");
  openChecked(text);
  const auto train = [&](std::size_t i) {
    run(i);
    ASSERT_TRUE(wait([&] { return window->workspace().running(); }));
    ASSERT_TRUE(wait(
        [&] { return cell(i)->train() && cell(i)->train()->result().startsWith("Trained") && !window->workspace().running(); }));
  };
  for (const std::size_t i : {2u, 1u, 2u}) {
    train(i);
    const LatencyPlot* plot = cell(i)->train()->plot();
    EXPECT_GT(plot->given(), 0);
    EXPECT_EQ(window->tune()->latency()->given(), plot->given()) << i;
  }
  EXPECT_FALSE(isGreyed(window->tune()->latency()));
  replace("A[64, 32] = normal(0, 1)", "A[64, 32] = normal(0, 2)");
  ASSERT_TRUE(wait([&] { return cell(1)->runIsOld() && cell(2)->runIsOld(); }));
  EXPECT_TRUE(latencyDetail().startsWith("of an earlier text")) << latencyDetail().toStdString();
  train(2);
  ASSERT_TRUE(cell(1)->runIsOld());
  EXPECT_TRUE(wait([&] { return latencyDetail().startsWith("median"); })) << latencyDetail().toStdString();
  EXPECT_FALSE(isGreyed(window->tune()->latency()));
}

// Each goes on from what its own runs left, whichever trained last.
TEST_F(Steps, ATrainingIsResumedFromItsOwnRuns) {
  openChecked(
      "# %%\ninput X[8, 4] = normal(0, 1)\nparam W[4] = normal(0, 1)\nY[b] = sum[k] X[b, k]*W[k]\nloss L = mean[b] (Y[b] - 1)^2\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 30; mode = static }\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 10; seed = 9; mode = static }\n");
  for (const std::size_t i : {1u, 2u}) {
    run(i);
    ASSERT_TRUE(wait(
        [&] { return cell(i)->train() && cell(i)->train()->result().startsWith("Trained") && !window->workspace().running(); }));
  }
  EXPECT_FALSE(cell(1)->train()->resumes()) << "it has made all of its steps";
  replace("steps = 30", "steps = 60");
  ASSERT_TRUE(wait([&] { return cell(1)->train()->resumes(); }));
  QTest::mouseClick(cell(1)->train()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return cell(1)->train()->result().startsWith("Trained 60 steps"); }))
      << cell(1)->train()->result().toStdString();
  EXPECT_TRUE(cell(1)->train()->result().contains("30 of them")) << cell(1)->train()->result().toStdString();
}

// Opened again every training has its panel; the newest run is what the views of a run show.
TEST_F(Steps, EveryTrainingTellsOfItsNewestRunWhenOpenedAgain) {
  openChecked(kTwo);
  for (const std::size_t i : {1u, 2u}) {
    run(i);
    ASSERT_TRUE(wait(
        [&] { return cell(i)->train() && cell(i)->train()->result().startsWith("Trained") && !window->workspace().running(); }));
  }
  window.reset();
  openChecked(kTwo);
  for (const std::size_t i : {1u, 2u}) {
    ASSERT_TRUE(wait([&] { return cell(i)->train() && !cell(i)->train()->isHidden(); })) << i;
    EXPECT_TRUE(cell(i)->train()->result().startsWith("Trained run of ")) << cell(i)->train()->result().toStdString();
    EXPECT_TRUE(cell(i)->train()->result().contains("30 steps")) << cell(i)->train()->result().toStdString();
  }
  // And its step is what they show.
  EXPECT_TRUE(wait([&] { return window->tune()->steps()->currentText() == "step of Lb"; }));
  window->showPage(MainWindow::Page::Tune);
  EXPECT_TRUE(wait([&] { return inKernels().contains("V.next") && !inKernels().contains("W.next"); }));
  EXPECT_TRUE(wait([&] { return latencyDetail().startsWith("median"); })) << latencyDetail().toStdString();
}

// What a click was refused for can be read, whatever the run goes on to tell.
TEST_F(Steps, ASecondTrainingIsRefusedInWordsThatStay) {
  std::string text = kTwo;
  text.replace(text.find("steps = 30"), 10, "steps = 100000000");
  openChecked(text);
  run(1);
  ASSERT_TRUE(wait([&] { return window->workspace().steps().size() > 3; }));
  run(2);
  EXPECT_TRUE(window->statusText().contains("Another run is under way")) << window->statusText().toStdString();
  const std::size_t before = window->workspace().steps().size();
  ASSERT_TRUE(wait([&] { return window->workspace().steps().size() > before + 5; }));
  EXPECT_TRUE(window->statusText().contains("Another run is under way")) << window->statusText().toStdString();
  ASSERT_TRUE(wait([&] { return window->statusText().contains("Training, step"); })) << "then the steps again";
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
}

// Of another text there is no Resume: the panel says where it has gone, until the text is as it was.
TEST_F(Steps, ThePanelSaysThatResumeIsOfTheTextBeforeTheEdit) {
  openChecked(kTwo);
  run(1);
  ASSERT_TRUE(
      wait([&] { return cell(1)->train() && cell(1)->train()->result().startsWith("Trained") && !window->workspace().running(); }));
  const QString before = cell(1)->train()->result();
  replace("H[i, j]^2", "H[i, j]^4");
  EXPECT_TRUE(wait([&] { return cell(1)->train()->note().startsWith("Resume is of the text before the edit"); }))
      << cell(1)->train()->result().toStdString();
  window->action("edit.undo")->trigger();
  checked();
  EXPECT_TRUE(wait([&] { return cell(1)->train()->result() == before; })) << cell(1)->train()->result().toStdString();
}

TEST_F(Steps, ARenamedLossAndATrainingAboveLeaveATrainingItsRuns) {
  const std::string text =
      "# %%\ninput X[8, 4] = normal(0, 1)\nparam W[4] = normal(0, 1)\nY[b] = sum[k] X[b, k]*W[k]\nloss L = mean[b] (Y[b] - 1)^2\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 30; mode = static }\n";
  openChecked(text);
  run(1);
  const auto resumed = [&](std::size_t i, const char* result) {
    ASSERT_TRUE(wait([&] { return cell(i)->train() && cell(i)->train()->resumes() && !window->workspace().running(); })) << result;
    QTest::mouseClick(cell(i)->train()->resume(), Qt::LeftButton);
    ASSERT_TRUE(wait([&] { return cell(i)->train()->result().startsWith(result) && !window->workspace().running(); }))
        << cell(i)->train()->result().toStdString();
  };
  ASSERT_TRUE(
      wait([&] { return cell(1)->train() && cell(1)->train()->result().startsWith("Trained") && !window->workspace().running(); }));
  EXPECT_EQ(window->notebook()->rename("L", "M"), "");
  checked();
  replace("steps = 30", "steps = 60");
  resumed(1, "Trained 60 steps");
  replace("# %%\ntrain M", "loss N = mean[b] Y[b]^2\n# %%\ntrain N { steps = 5; mode = static }\n# %%\ntrain M");
  replace("steps = 60", "steps = 90");
  resumed(2, "Trained 90 steps");
}

}  // namespace
}  // namespace nf
