// SPDX-License-Identifier: GPL-3.0-or-later
// The runs that lie beside a notebook: an earlier one is looked at and gone on with, one that cannot begin takes nothing away.
#include <QApplication>
#include <QClipboard>
#include <QDir>
#include <QMenu>
#include <QPushButton>
#include <QRegularExpression>
#include <csignal>

#include "tests/workbench/real_engine.h"
#include "widgets/basic.h"
#include "widgets/message_bar.h"
#include "widgets/plots.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using protocol::CellStatus;

const std::string kLong =
    "# %%\nlet N = 4\nparam W[N] = normal(0, 1)\nloss L = mean[i] (W[i] - 3)^2\n\n"
    "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 100000000; device = reference }\n";

const std::string kReadsData =
    "# %%\nlet B = 4\ndata D = csv(\"d.csv\")\ninput X[B] = batch D[:, 0]\nparam w = normal(1, 0)\nloss L = mean[b] (w * X[b] - "
    "3)^2\n\n"
    "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 100000000; batch = 4; device = reference }\n";

struct Runs : RealEngine {
  TrainStrip* strip() { return cell(1)->train(); }
  // Until it is stopped; the step that its checkpoint has.
  std::int64_t trainAndStop() {
    run(1);
    EXPECT_TRUE(wait([&] { return strip() && window->workspace().runState().step > 50; }));
    window->action("run.stop")->trigger();
    EXPECT_TRUE(wait([&] { return !window->workspace().running() && strip()->resumes() && strip()->checkpointStep() > 0; }));
    return strip()->checkpointStep();
  }
  std::int64_t stepOfValues() {
    return cell(2)->tensorView()->facts().section("step", 1).remove(QRegularExpression("\\D")).toLongLong();
  }
  QMenu* menu() {
    QTest::mouseClick(strip()->runs(), Qt::LeftButton);
    auto* shown = qobject_cast<QMenu*>(QApplication::activePopupWidget());
    EXPECT_TRUE(shown);
    return shown;
  }
};

TEST_F(Runs, AnEarlierRunIsLookedAtAndGoneOnWith) {
  openChecked(kLong);
  const std::int64_t first = trainAndStop();
  EXPECT_TRUE(strip()->runs()->isVisible());
  // Folders are named by the second.
  QTest::qWait(1100);
  QTest::mouseClick(strip()->again(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step > 0 && strip()->running(); }));
  EXPECT_FALSE(strip()->runs()->isVisible());
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step > 50; }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && strip()->resumes(); }));
  const std::int64_t second = strip()->checkpointStep();
  ASSERT_NE(second, first);
  ASSERT_TRUE(strip()->runs()->isVisible());
  QMenu* runs = menu();
  ASSERT_TRUE(runs);
  ASSERT_GE(runs->actions().size(), 4);
  EXPECT_TRUE(runs->actions()[0]->isChecked());
  EXPECT_FALSE(runs->actions()[1]->isChecked());
  EXPECT_TRUE(runs->actions()[0]->text().contains("stopped at step " + grouped(second)))
      << runs->actions()[0]->text().toStdString();
  EXPECT_TRUE(runs->actions()[1]->text().contains("stopped at step " + grouped(first))) << runs->actions()[1]->text().toStdString();
  runs->actions()[1]->trigger();
  runs->close();
  ASSERT_TRUE(wait([&] { return strip()->checkpointStep() == first; }));
  EXPECT_TRUE(strip()->result().contains("run of ")) << strip()->result().toStdString();
  EXPECT_TRUE(strip()->result().contains(grouped(first))) << strip()->result().toStdString();
  runs = menu();
  ASSERT_TRUE(runs);
  EXPECT_TRUE(runs->actions()[1]->isChecked());
  // What it learnt is a file of its own.
  QAction* copy = runs->actions().back();
  ASSERT_TRUE(copy->isEnabled());
  copy->trigger();
  runs->close();
  EXPECT_TRUE(QFile::exists(QApplication::clipboard()->text())) << QApplication::clipboard()->text().toStdString();
  // An edit elsewhere leaves the choice as it is.
  replace("let N = 4\n", "let N = 4\n# more\n");
  EXPECT_EQ(strip()->checkpointStep(), first);
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(
      wait([&] { return window->workspace().runState().resumedAt == first && window->workspace().runState().step > first; }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_GT(strip()->checkpointStep(), first);
}

// What cells show is of the run that stands in the panel, in a new engine too.
TEST_F(Runs, ValuesAreOfTheOneThatIsLookedAt) {
  openChecked(kLong + "\n# %%\nshow W\n");
  const auto told = [&](std::int64_t step) { return wait([&] { return stepOfValues() == step; }); };
  const std::int64_t first = trainAndStop();
  QTest::qWait(1100);
  QTest::mouseClick(strip()->again(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return strip()->running() && window->workspace().runState().step > first + 10; }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && strip()->resumes(); }));
  const std::int64_t second = strip()->checkpointStep();
  ASSERT_NE(second, first);
  run(2);
  cell(2)->showResult(3);
  ASSERT_TRUE(told(second)) << cell(2)->tensorView()->facts().toStdString();
  QMenu* runs = menu();
  ASSERT_TRUE(runs);
  runs->actions()[1]->trigger();
  runs->close();
  ASSERT_TRUE(told(first)) << cell(2)->tensorView()->facts().toStdString();
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && window->workspace().analysisIsKnown(); }));
  run(2);
  ASSERT_TRUE(wait([&] { return !cell(2)->tensorView()->old(); }));
  EXPECT_TRUE(told(first)) << cell(2)->tensorView()->facts().toStdString();
}

// By its name, too, as any command.
TEST_F(Runs, ResumeIsACommand) {
  openChecked(kLong);
  window->action("run.resume")->trigger();
  EXPECT_TRUE(window->statusText().contains("has left a checkpoint")) << window->statusText().toStdString();
  const std::int64_t first = trainAndStop();
  window->showPage(MainWindow::Page::Tune);
  window->action("run.resume")->trigger();
  ASSERT_TRUE(wait([&] { return window->workspace().runState().resumedAt == first; }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  replace("sgd(lr=0.01)", "sgd(lr=0.02)");
  window->action("run.resume")->trigger();
  EXPECT_TRUE(window->statusText().contains("What is trained has changed")) << window->statusText().toStdString();
  EXPECT_FALSE(window->workspace().running());
}

// A mistake, in its own cell or in one that it needs, takes nothing away of what a training left.
TEST_F(Runs, StayWithinReachWhileTheTextHasAMistake) {
  openChecked(kLong);
  const std::int64_t first = trainAndStop();
  const auto broken = [&](const std::string& right, const std::string& wrong) {
    replace(right, wrong);
    EXPECT_TRUE(wait([&] {
      return std::ranges::any_of(window->workspace().analysis().diagnostics,
                                 [](const auto& d) { return d.severity == protocol::Severity::Error; });
    })) << wrong;
  };
  const auto opensRuns = [&] {
    window->action("run.runs")->trigger();
    auto* shown = qobject_cast<QMenu*>(QApplication::activePopupWidget());
    const bool there = shown && shown->objectName() == "runs" && shown->actions()[0]->text().contains(grouped(first));
    if (shown) shown->close();
    return there;
  };
  for (const auto& [right, wrong] : {std::pair{"W[i] - 3)^2", "W[i] - 3)^2 +"}, std::pair{"sgd(lr=0.01)", "sgd(lr=0.010.01"}}) {
    SCOPED_TRACE(wrong);
    broken(right, wrong);
    EXPECT_TRUE(strip()->resumes()) << "it is of the text before the mistake";
    EXPECT_TRUE(opensRuns());
    window->action("run.resume")->trigger();
    EXPECT_FALSE(window->workspace().running());
    EXPECT_FALSE(window->statusText().isEmpty());
    replace(wrong, right);
  }
  replace("sgd(lr=0.01)", "sgd(lr=0.02)");
  EXPECT_FALSE(strip()->resumes());
  broken("W[i] - 3)^2", "W[i] - 3)^2 +");
  EXPECT_FALSE(strip()->resumes()) << "it was of another text before, too";
  EXPECT_TRUE(opensRuns());
  // Without its statement nothing trains.
  replace("W[i] - 3)^2 +", "W[i] - 3)^2");
  replace("train L {", "# train L {");
  window->action("run.runs")->trigger();
  EXPECT_FALSE(QApplication::activePopupWidget());
  EXPECT_TRUE(window->statusText().contains(".out")) << window->statusText().toStdString();
}

// With a lower learning rate it is another training: a run of its own, which begins with what was learnt.
TEST_F(Runs, OneBeginsWithWhatAnotherHasLearnt) {
  openChecked(kLong + "\n# %%\nshow W\n");
  trainAndStop();
  replace("sgd(lr=0.01)", "sgd(lr=0)");
  EXPECT_FALSE(strip()->resumes());
  EXPECT_TRUE(strip()->resume()->toolTip().contains("with what was learnt")) << strip()->resume()->toolTip().toStdString();
  const auto values = [&](std::int64_t step) {
    run(2);
    cell(2)->showResult(3);
    EXPECT_TRUE(wait([&] { return stepOfValues() == step; })) << cell(2)->tensorView()->facts().toStdString();
    QStringList all;
    for (int i = 0; i < 4; ++i) all << cell(2)->tensorView()->model()->index(0, i).data().toString();
    return all;
  };
  const QStringList learnt = values(strip()->checkpointStep());
  QTest::qWait(1100);
  QMenu* runs = menu();
  ASSERT_TRUE(runs);
  auto* onward = runs->findChild<QAction*>("onward");
  ASSERT_TRUE(onward && onward->isEnabled());
  onward->trigger();
  runs->close();
  ASSERT_TRUE(wait([&] { return strip()->running() && window->workspace().runState().step > 10; }));
  EXPECT_EQ(window->workspace().runState().resumedAt, 0);
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && strip()->resumes(); }));
  EXPECT_EQ(values(strip()->checkpointStep()), learnt);
  EXPECT_TRUE(strip()->note().startsWith("Begun with what the run of ")) << strip()->note().toStdString();
  runs = menu();
  ASSERT_TRUE(runs);
  EXPECT_TRUE(runs->actions()[0]->text().contains("; begun with what the run of ")) << runs->actions()[0]->text().toStdString();
  EXPECT_FALSE(runs->actions()[1]->text().contains("begun with"));
  runs->close();
}

TEST_F(Runs, OneThatCannotBeginLeavesTheOneBefore) {
  const auto data = [&](const char* name) { return folder.filePath(name); };
  QFile file(data("d.csv"));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  for (int i = 0; i < 16; ++i) file.write("1,2\n");
  file.close();
  openChecked(kReadsData);
  const std::int64_t step = trainAndStop();
  const std::int64_t drawn = strip()->plot()->steps();
  ASSERT_GT(drawn, 0);
  ASSERT_TRUE(QFile::rename(data("d.csv"), data("gone.csv")));
  run(1);
  ASSERT_TRUE(wait([&] { return !strip()->failure().isEmpty() && strip()->hasCurves(); })) << strip()->result().toStdString();
  EXPECT_TRUE(strip()->failure().startsWith("Training did not begin")) << strip()->failure().toStdString();
  EXPECT_TRUE(strip()->failure().contains("d.csv")) << strip()->failure().toStdString();
  EXPECT_EQ(cell(1)->status(), CellStatus::Error);
  EXPECT_EQ(strip()->plot()->steps(), drawn);
  EXPECT_EQ(strip()->checkpointStep(), step);
  ASSERT_TRUE(strip()->resume()->isVisible());
  // Nor does its resume, though it is the run of this window.
  EXPECT_TRUE(strip()->result().startsWith("Stopped")) << strip()->result().toStdString();
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && strip()->failure().contains("d.csv"); }));
  ASSERT_TRUE(wait([&] { return strip()->result().startsWith("Stopped"); })) << strip()->result().toStdString();
  EXPECT_EQ(strip()->checkpointStep(), step);
  ASSERT_TRUE(strip()->resume()->isVisible());
  ASSERT_TRUE(QFile::rename(data("gone.csv"), data("d.csv")));
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().resumedAt == step && window->workspace().runState().step > step; }));
  EXPECT_TRUE(strip()->failure().isEmpty());
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  // The one that ended in this window stays what it was too, and a text that is what it was trained with says nothing of another end.
  ASSERT_TRUE(wait([&] { return strip()->resumes() && strip()->checkpointStep() > step; }))
      << strip()->result().toStdString() << " | " << strip()->resumes() << " " << strip()->checkpointStep() << " > " << step;
  ASSERT_TRUE(QFile::rename(data("d.csv"), data("gone.csv")));
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return strip()->failure().startsWith("Training did not begin"); })) << strip()->result().toStdString();
  EXPECT_TRUE(strip()->result().startsWith("Stopped")) << strip()->result().toStdString();
  ASSERT_TRUE(QFile::rename(data("gone.csv"), data("d.csv")));
}

// Nor does it put another one in the place of the one that was to go on.
TEST_F(Runs, AnEarlierOneThatCannotGoOnStaysTheOneThatIsShown) {
  QFile file(folder.filePath("d.csv"));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  for (int i = 0; i < 16; ++i) file.write("1,2\n");
  file.close();
  openChecked(kReadsData);
  const std::int64_t first = trainAndStop();
  QTest::qWait(1100);
  QTest::mouseClick(strip()->again(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return strip()->running() && window->workspace().runState().step > 50; }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && strip()->resumes() && strip()->checkpointStep() != first; }));
  QMenu* runs = menu();
  ASSERT_TRUE(runs);
  runs->actions()[1]->trigger();
  runs->close();
  ASSERT_TRUE(wait([&] { return strip()->checkpointStep() == first; }));
  ASSERT_TRUE(QFile::remove(file.fileName()));
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return strip()->failure().startsWith("Training did not begin"); })) << strip()->result().toStdString();
  EXPECT_EQ(strip()->checkpointStep(), first);
  EXPECT_TRUE(strip()->resume()->isVisible());
}

TEST_F(Runs, AFinishedOneGoesOnWhereMoreStepsAreAskedFor) {
  std::string text = kLong;
  text.replace(text.find("100000000"), 9, "30");
  openChecked(text);
  run(1);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == CellStatus::Ok && !window->workspace().running(); }));
  EXPECT_FALSE(strip()->resume()->isVisible());
  EXPECT_TRUE(strip()->again()->isVisible());
  replace("steps = 30", "steps = 45");
  ASSERT_TRUE(strip()->resume()->isVisible());
  EXPECT_TRUE(strip()->resume()->toolTip().contains("step 30")) << strip()->resume()->toolTip().toStdString();
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return strip()->result().contains("45 steps, 15 of them"); })) << strip()->result().toStdString();
  EXPECT_FALSE(strip()->resume()->isVisible());
  EXPECT_EQ(strip()->plot()->steps(), 45);
}

}  // namespace
// Nobody knows how long it stands still: whatever ends its engine takes nothing of it.
TEST_F(Runs, OneThatIsPausedIsKept) {
  openChecked(kLong);
  run(1);
  ASSERT_TRUE(wait([&] { return strip() && window->workspace().runState().step > 50; }));
  window->action("run.pause")->trigger();
  ASSERT_TRUE(wait([&] { return window->workspace().runState().phase == protocol::RunPhase::Paused; }));
  const std::int64_t step = window->workspace().runState().step;
  // Its loss is that of the step beside it.
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty() && window->workspace().steps().back().step == step; }));
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && window->workspace().analysisIsKnown(); }));
  EXPECT_TRUE(wait([&] { return strip()->resumes() && strip()->checkpointStep() == step; })) << strip()->result().toStdString();
  EXPECT_TRUE(window->messages()->text().contains("from step " + grouped(step))) << window->messages()->text().toStdString();
}

// Where a mistake keeps it from going on, the bar that offers it stays, and why is said.
TEST_F(Runs, OneThatAMistakeKeepsFromGoingOnIsOfferedStill) {
  openChecked(kLong);
  const std::int64_t step = trainAndStop();
  QTest::mouseClick(strip()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step > step; }));
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && window->workspace().analysisIsKnown(); }));
  const auto resume = [&] {
    for (QPushButton* b : window->messages()->buttons())
      if (b->text().remove(QLatin1Char('&')) == "Resume training") return b;
    return static_cast<QPushButton*>(nullptr);
  };
  ASSERT_TRUE(wait(resume)) << window->messages()->text().toStdString();
  replace("- 3)^2", "- 3)^2 +");
  ASSERT_TRUE(resume());
  QTest::mouseClick(resume(), Qt::LeftButton);
  EXPECT_TRUE(window->statusText().contains("mistake")) << window->statusText().toStdString();
  EXPECT_FALSE(window->workspace().running());
  ASSERT_TRUE(resume());
  replace("- 3)^2 +", "- 3)^2");
  ASSERT_TRUE(resume());
  QTest::mouseClick(resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step > 0; }));
  EXPECT_FALSE(resume());
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
}

}  // namespace nf
