// SPDX-License-Identifier: GPL-3.0-or-later
// What stands under a train cell: its plots, buttons, swaps, and the step against the recorded one.
#include <gtest/gtest.h>
#include <qcustomplot.h>

#include <QCoreApplication>
#include <QLabel>
#include <QTableWidget>
#include <QTest>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "tests/widgets/made_up_runs.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/basic.h"
#include "widgets/names.h"
#include "widgets/plots.h"
#include "widgets/swap_list.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using namespace protocol;

TEST_F(Tuning, AFailedRunWithoutAStepShowsItsMessageAndNoEmptyPlots) {
  TrainStrip strip(&theme);
  strip.resize(800, 300);
  strip.show();
  strip.start();
  EXPECT_TRUE(strip.plot()->isVisible());
  strip.setError("missing.csv cannot be opened: No such file or directory.");
  EXPECT_EQ(strip.result(), "Failed missing.csv cannot be opened: No such file or directory.");
  EXPECT_FALSE(strip.plot()->isVisible());
  EXPECT_FALSE(strip.lossPlot()->isVisible());
  // What was drawn before a mistake stays.
  strip.start();
  for (const StepEvent& e : manySteps(3, 1)) strip.addStep(e);
  strip.setError("L is NaN.");
  EXPECT_TRUE(strip.plot()->isVisible());
}

TEST_F(Tuning, ANarrowTrainingStripKeepsItsButtonsInSight) {
  TrainStrip strip(&theme);
  strip.start();
  RunState state;
  state.phase = RunPhase::Training, state.step = 812400, state.steps = 1000000, state.epoch = 12, state.epochs = 40;
  state.secondsLeft = 18, state.trials = 312, state.swaps = 5, state.detail = "a word about what the engine is doing just now";
  strip.setState(state);
  strip.resize(560, 190);
  strip.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&strip));
  EXPECT_EQ(strip.width(), 560);
  for (const char* name : {"pause", "stop"}) {
    const auto* button = strip.findChild<QToolButton*>(name);
    ASSERT_TRUE(button && button->isVisible());
    EXPECT_TRUE(strip.rect().contains(button->geometry())) << name;
  }
  bool stopped = false;
  QObject::connect(&strip, &TrainStrip::stopRequested, &strip, [&] { stopped = true; });
  QTest::mouseClick(strip.findChild<QToolButton*>("stop"), Qt::LeftButton);
  EXPECT_TRUE(stopped);
}

// What takes the place of Stop is not pressed by the second click of two.
TEST_F(Tuning, TwoClicksOnStopBeginNothing) {
  TrainStrip strip(&theme);
  strip.resize(560, 190);
  strip.show();
  int stops = 0, begins = 0;
  for (const auto signal : {&TrainStrip::resumeRequested, &TrainStrip::trainAgainRequested})
    QObject::connect(&strip, signal, &strip, [&] { ++begins; });
  QObject::connect(&strip, &TrainStrip::stopRequested, &strip, [&] { ++stops; });
  strip.start();
  QTest::mouseClick(strip.findChild<QToolButton*>("stop"), Qt::LeftButton);
  DoneEvent done;
  done.steps = 10, done.stopped = true;
  strip.setDone(done);
  QToolButton* again = nullptr;
  for (auto* button : strip.findChildren<QToolButton*>())
    if (button->isVisible() && button->accessibleName() == "Train again") again = button;
  ASSERT_TRUE(again && strip.resume()->isVisible());
  QTest::mouseClick(again, Qt::LeftButton);
  QTest::mouseClick(strip.resume(), Qt::LeftButton);
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(begins, 0);
  QTest::qWait(QApplication::doubleClickInterval() + 20);
  QTest::mouseClick(again, Qt::LeftButton);
  QTest::mouseClick(strip.resume(), Qt::LeftButton);
  EXPECT_EQ(begins, 2);
}

TEST_F(Tuning, TheTrainStripDrawsLatencyAndLossAndSaysItsPhase) {
  TrainStrip strip(&theme);
  strip.resize(900, 200);
  strip.show();
  strip.start();
  RunState state;
  state.phase = RunPhase::Preparing, state.detail = "compiling 3 of 40 kernels";
  strip.setState(state);
  EXPECT_TRUE(strip.detail().contains("compiling 3 of 40 kernels"));
  state.phase = RunPhase::Training, state.detail.clear(), state.step = 100, state.steps = 920, state.epoch = 4, state.epochs = 40,
  state.secondsLeft = 5.2;
  strip.setState(state);
  EXPECT_EQ(strip.detail(), "step 100 of 920, epoch 4 of 40, 5.2 s left");
  for (const StepEvent& e : manySteps(50, 2)) strip.addStep(e);
  EvalEvent eval;
  eval.step = 90, eval.accuracy = 0.5;
  strip.addEval(eval);
  EXPECT_EQ(strip.plot()->steps(), 50);
  EXPECT_EQ(strip.lossPlot()->points(), 50);
  EXPECT_EQ(strip.lossPlot()->evaluations(), 1);
  DoneEvent done;
  done.steps = 920, done.seconds = 6.5, done.first_step_ms = 420, done.preparation_ms = 400;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Trained 920 steps in 6.5 s, after 400 ms of preparation");
  strip.grab();
}

// The panel has the evaluation that the plot beside it has; of a run that was stopped behind it, with its step.
TEST_F(Tuning, AnEvaluationIsToldAsThePlotHasIt) {
  TrainStrip strip(&theme);
  strip.resize(900, 400);
  strip.show();
  strip.start();
  const auto says = [&](const QString& text) {
    return std::ranges::any_of(strip.findChildren<QLabel*>(), [&](const QLabel* l) { return l->text() == text; });
  };
  for (const StepEvent& e : manySteps(50, 2)) strip.addStep(e);
  EvalEvent eval;
  eval.step = 40, eval.values = {{"mse", 0.25}};
  strip.addEval(eval);
  ASSERT_TRUE(QTest::qWaitFor([&] { return says("held out mse 0.25"); }));
  eval.step = 45, eval.values = {{"mse", 0.125}};
  strip.addEval(eval);
  EXPECT_TRUE(says("held out mse 0.25")) << "the plot is not drawn yet";
  ASSERT_TRUE(QTest::qWaitFor([&] { return says("held out mse 0.125"); }));
  DoneEvent done;
  done.steps = 50, done.seconds = 1, done.stopped = true;
  strip.setDone(done);
  EXPECT_TRUE(says("held out mse 0.125 at step 45"));
  EvalEvent last = eval;
  last.step = 50;
  strip.addEval(last);
  ASSERT_TRUE(QTest::qWaitFor([&] { return says("held out mse 0.125"); }));
}

TEST_F(Tuning, ARunThatHasEndedKeepsItsMedianWithItsSpread) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  strip.start();
  DoneEvent done;
  done.steps = 880, done.seconds = 3, done.median_step_ms_first_tenth = 1.64, done.median_step_ms_last_tenth = 1.49;
  done.last_tenth_low_ms = 1.42, done.last_tenth_high_ms = 1.6, done.last_tenth_steps = 88;
  strip.setDone(done);
  EXPECT_TRUE(strip.figures().contains("1.49 ms\nmedian step, last tenth\n[1.42, 1.60] ms  n = 88"))
      << strip.figures().toStdString();
  EXPECT_EQ(strip.plot()->figure(), done.median_step_ms_last_tenth) << "one figure of one run";
  // Figure and interval are in one unit, that of the largest.
  done.median_step_ms_last_tenth = 0.000381, done.last_tenth_low_ms = 0.00038, done.last_tenth_high_ms = 0.00139;
  strip.setDone(done);
  EXPECT_TRUE(strip.figures().contains("0.381 µs\nmedian step, last tenth\n[0.380, 1.39] µs  n = 88"))
      << strip.figures().toStdString();
}

// Steps of a microsecond come faster than plots are drawn: the panel's figures are those at the ends of the curves all the same.
TEST_F(Tuning, TheFiguresAreThoseOfTheLabelsAtAnyMoment) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&strip));
  strip.start();
  // What a plot shows is what it had when it was drawn.
  QString loss, median;
  QObject::connect(strip.lossPlot(), &Plot::drawn, &strip, [&] {
    if (const auto newest = strip.lossPlot()->newest()) loss = "loss " + significant(*newest, 4);
  });
  QObject::connect(strip.plot(), &Plot::drawn, &strip, [&] {
    if (const auto now = strip.plot()->now()) median = microsecondsText(*now * 1000);
  });
  const auto agree = [&] {
    if (loss.isEmpty() || median.isEmpty()) return false;
    const QStringList lines = strip.figures().split(QLatin1Char('\n'));
    EXPECT_TRUE(lines.contains(loss)) << loss.toStdString() << "\n" << strip.figures().toStdString();
    EXPECT_TRUE(lines.contains(median)) << median.toStdString() << "\n" << strip.figures().toStdString();
    return true;
  };
  StepEvent step;
  RunState state;
  state.phase = RunPhase::Training, state.steps = 40000000, state.samples = 100;
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    step.steps = 40000, step.step += step.steps, step.seconds += 0.05;
    step.ms = i % 3 == 0 ? 0.00137 : 0.000932, step.ms_min = 0.0008, step.ms_max = 0.0009, step.loss = 0.06 / (1 + i % 7);
    strip.addStep(step);
    state.step = step.step, state.loss = *step.loss * 3, state.stepMs = state.stepMsLow = state.stepMsHigh = 0.00137;
    strip.setState(state);
    compared += agree();
    if (i % 4 != 0) continue;
    const auto drawn = strip.lossPlot()->redraws(), also = strip.plot()->redraws();
    ASSERT_TRUE(QTest::qWaitFor([&] { return strip.lossPlot()->redraws() > drawn && strip.plot()->redraws() > also; }));
    compared += agree();
  }
  EXPECT_GT(compared, 50);
  const auto shows = [](Plot* plot, const QString& label) {
    const auto shown = plot->shownLabels();
    return std::any_of(shown.begin(), shown.end(), [&](const auto& l) { return l.first == label; });
  };
  EXPECT_TRUE(shows(strip.plot(), median)) << median.toStdString();
  EXPECT_TRUE(shows(strip.lossPlot(), loss)) << loss.toStdString();
}

// The first step is cold: it is no median while more are to come, and none of a run that has others.
TEST_F(Tuning, TheFigureIsAMedianOfTheStepsThatAreDrawn) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  strip.start();
  StepEvent step;
  step.step = 1, step.ms = step.ms_min = step.ms_max = 0.0064;
  strip.addStep(step);
  RunState state;
  state.phase = RunPhase::Training, state.step = 1, state.steps = 1000;
  state.stepMs = state.stepMsLow = state.stepMsHigh = 0.0064, state.samples = 1;
  strip.setState(state);
  EXPECT_EQ(strip.figures(), QString()) << strip.figures().toStdString();
  for (int i = 2; i <= 40; ++i) {
    step.step = i, step.ms = step.ms_min = step.ms_max = 0.00016;
    strip.addStep(step);
  }
  // A failed run ends before its state is told again.
  strip.setError("The loss L is not a number in step 41.");
  EXPECT_EQ(strip.figures(), "160 ns\nmedian step\n[160, 160] ns  n = 5") << strip.figures().toStdString();
  DoneEvent done;
  done.steps = 40, done.seconds = 0.1, done.median_step_ms_first_tenth = 0.0064, done.median_step_ms_last_tenth = 0.00022;
  done.last_tenth_low_ms = done.last_tenth_high_ms = 0.00022, done.last_tenth_steps = 4;
  strip.setDone(done);
  EXPECT_EQ(strip.figures(), "160 ns\nmedian step\n[160, 160] ns  n = 5") << "four steps are no tenth to speak of";
  strip.start();
  step.step = 1, step.ms = 0.0064;
  strip.addStep(step);
  done.steps = done.last_tenth_steps = 1;
  strip.setDone(done);
  EXPECT_EQ(strip.figures(), "6.40 µs\nthe only step\nn = 1") << strip.figures().toStdString();
}

TEST_F(Tuning, TimesBelowAMicrosecondAreNanoseconds) {
  EXPECT_EQ(microsecondsText(0.124), "124 ns");
  EXPECT_EQ(microsecondsText(0.0936), "93.6 ns");
  EXPECT_EQ(microsecondsText(1.0), "1.00 µs");
  EXPECT_EQ(measuredText(0.203, 0.202, 0.204), "203 ns [202, 204]");
  EXPECT_EQ(measuredText(1500, 980, 1600), "1.50 ms [0.980, 1.60]");
  EXPECT_EQ(measuredText(934, 845, 77557), "0.934 ms [0.845, 77.6]");
  EXPECT_EQ(measuredText(934, {}, {}), "934 µs");
}

// What failed looks as mistakes do, workers that candidates ended are counted, and the step is readable in a narrow panel.
TEST_F(Tuning, ATrainPanelSaysWhatHappened) {
  TrainStrip strip(&theme);
  strip.resize(540, 500);
  strip.show();
  strip.start();
  RunState state;
  state.phase = RunPhase::Training, state.step = 347, state.steps = 880, state.epoch = 15, state.epochs = 40, state.trials = 15;
  state.secondsLeft = 2.4, state.detail = "the search waits for its compiler";
  strip.setState(state);
  TrialEvent trial;
  strip.addTrial(trial);
  EXPECT_EQ(strip.tuner(), "tuner: 15 trials, 0 swaps");
  for (const TrialStatus status : {TrialStatus::Killed, TrialStatus::Crashed, TrialStatus::Wrong}) {
    trial.status = status;
    strip.addTrial(trial);
  }
  EXPECT_EQ(strip.tuner(), "tuner: 15 trials, 0 swaps, 2 workers ended by a candidate");
  QCoreApplication::processEvents();
  bool step = false, tuner = false;
  for (const ElidedLabel* label : strip.findChildren<ElidedLabel*>()) {
    step = step || label->shown().contains("step 347 of 880, epoch 15 of 40");
    tuner = tuner || label->shown() == strip.tuner();
  }
  EXPECT_TRUE(step);
  EXPECT_TRUE(tuner);
  strip.setError("The loss L is not a number in step 3.");
  EXPECT_EQ(strip.failure(), "The loss L is not a number in step 3.");
  strip.start();
  EXPECT_EQ(strip.tuner(), QString());
  EXPECT_EQ(strip.failure(), QString());
}

// Trials are counted from where a run was resumed, and so are swaps: the others stand in the list.
TEST_F(Tuning, SwapsOfAResumedRunAreToldApart) {
  TrainStrip strip(&theme);
  strip.show();
  strip.start();
  RunState state;
  state.phase = RunPhase::Training, state.step = 100, state.steps = 880, state.trials = 40;
  strip.setState(state);
  const auto swaps = manySwaps(5, 90, 3);
  for (int i = 0; i < 3; ++i) strip.addSwap(swaps[static_cast<std::size_t>(i)]);
  EXPECT_EQ(strip.tuner(), "tuner: 40 trials, 3 swaps");
  strip.setLost();
  strip.start(true);
  state.trials = 12;
  strip.setState(state);
  EXPECT_EQ(strip.tuner(), "tuner: 12 trials, 0 swaps, 3 before it was resumed");
  for (std::size_t i = 3; i < 5; ++i) strip.addSwap(swaps[i]);
  // Steps that are made again take their swaps with them.
  strip.setSteps({}, {swaps.begin() + 1, swaps.end()}, {});
  EXPECT_EQ(strip.tuner(), "tuner: 12 trials, 2 swaps, 2 before it was resumed");
  EXPECT_EQ(strip.swaps()->count(), 4);
  // A row of the list, but no kernel that took another one's place.
  KernelSwapEvent split = swaps[4];
  split.split = true;
  strip.addSwap(split);
  EXPECT_EQ(strip.tuner(), "tuner: 12 trials, 2 swaps, 2 before it was resumed, 1 kernel split again");
  EXPECT_EQ(strip.swaps()->count(), 5);
  // What was swapped behind the checkpoint is none of those before it, also while that is being read.
  strip.setCheckpoint(TrainStrip::Checkpoint::Usable, swaps[2].step);
  strip.start(true);
  state = {};
  state.phase = RunPhase::Preparing;
  strip.setState(state);
  EXPECT_EQ(strip.tuner(), "tuner: 0 trials, 0 swaps, 2 before it was resumed");
}

// Steps are of the whole training, seconds of the run that was resumed: what is said is of the same steps.
TEST_F(Tuning, AResumedRunSaysWhereItGoesOnFrom) {
  TrainStrip strip(&theme);
  strip.show();
  strip.start();
  strip.setCheckpoint(TrainStrip::Checkpoint::Usable, 278);
  strip.setLost();
  EXPECT_EQ(strip.detail(), "newest checkpoint: step 278; the engine ended");
  EXPECT_EQ(strip.resume()->toolTip(), "Go on from the checkpoint of step 278");
  // The text may change and change back, and a checkpoint may go.
  strip.setCheckpoint(TrainStrip::Checkpoint::OfOtherText, 278, "why");
  EXPECT_EQ(strip.detail(), "newest checkpoint: step 278, of the text before the edit; the engine ended");
  EXPECT_EQ(strip.resume()->text(), "Train again");
  strip.setCheckpoint(TrainStrip::Checkpoint::None);
  EXPECT_TRUE(strip.detail().startsWith("there is no checkpoint yet; ")) << strip.detail().toStdString();
  strip.setCheckpoint(TrainStrip::Checkpoint::Usable, 278);
  EXPECT_TRUE(strip.detail().startsWith("newest checkpoint: step 278; ")) << strip.detail().toStdString();
  strip.start(true);
  EXPECT_TRUE(strip.detail().startsWith("going on from step 278")) << strip.detail().toStdString();
  RunState state;
  state.phase = RunPhase::Preparing, state.detail = "compiling";
  strip.setState(state);
  EXPECT_EQ(strip.detail(), "going on from step 278, compiling") << "the checkpoint is being read";
  state.step = state.resumedAt = 250, state.steps = 900;
  strip.setState(state);
  EXPECT_EQ(strip.detail(), "going on from step 250 of 900, compiling");
  state.phase = RunPhase::Training, state.step = 300, state.secondsLeft = 5.2, state.detail.clear();
  strip.setState(state);
  EXPECT_EQ(strip.detail(), "step 300 of 900, 5.2 s left, resumed from step 250");
  DoneEvent done;
  done.steps = 730, done.resumed_at = 250, done.seconds = 4, done.stopped = true;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Stopped after 730 steps, 480 of them in 4.0 s since it was resumed");
  strip.resize(460, 420);
  EXPECT_TRUE(QTest::qWaitFor([&] {
    return std::ranges::any_of(strip.findChildren<ElidedLabel*>(),
                               [&](const ElidedLabel* l) { return l->shown() == strip.detail(); });
  })) << "in several lines";
  done.steps = 900, done.stopped = false;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Trained 900 steps, 650 of them in 4.0 s since it was resumed");
  // One that begins anew is no longer that one.
  strip.start();
  EXPECT_EQ(strip.detail(), "preparing the first kernels");
  done.resumed_at = 0;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Trained 900 steps in 4.0 s");
}

TEST_F(Tuning, SwapsAreListedWithOldAndNewTimeOrTheirAbsenceIsExplained) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  strip.start();
  RunState state;
  state.phase = RunPhase::Training, state.step = 10, state.steps = 880;
  strip.setState(state);
  EXPECT_EQ(strip.swaps()->sentence(), "No kernel is swapped: nothing is searched in this run.")
      << "no share of the device is for it";
  state.trials = 2, state.budgetShare = 0.3;
  strip.setState(state);
  EXPECT_TRUE(strip.swaps()->sentence().contains("only first kernels were timed so far, no candidate was tried"))
      << strip.swaps()->sentence().toStdString();
  state.detail = "the search has nothing left that would be worth a trial";
  strip.setState(state);
  EXPECT_TRUE(
      strip.swaps()->sentence().endsWith("only first kernels were timed, the search has nothing left that would be worth a trial."))
      << strip.swaps()->sentence().toStdString();
  state.detail.clear();
  DoneEvent unbegun;
  unbegun.steps = 400, unbegun.search = SearchState::Unbegun;
  strip.setDone(unbegun);
  EXPECT_TRUE(strip.swaps()->sentence().endsWith(
      "the run ended before the search had tried a candidate: its trials timed the first kernels."))
      << strip.swaps()->sentence().toStdString();
  strip.start();
  state.trials = 9, state.candidates = 7;
  strip.setState(state);
  EXPECT_TRUE(strip.swaps()->sentence().contains("of 7 candidates none was faster")) << strip.swaps()->sentence().toStdString();
  DoneEvent done;
  done.steps = 880, done.seconds = 3;
  strip.setDone(done);
  EXPECT_TRUE(strip.swaps()->sentence().contains("of 7 candidates tried while it ran none was faster"))
      << strip.swaps()->sentence().toStdString();
  strip.start();
  state.trials = 3, state.candidates = 1;
  strip.setState(state);
  EXPECT_TRUE(strip.swaps()->sentence().contains("one candidate was tried and was not faster"))
      << strip.swaps()->sentence().toStdString();
  strip.setDone(done);
  EXPECT_TRUE(strip.swaps()->sentence().contains("one candidate was tried while it ran and was not faster"))
      << strip.swaps()->sentence().toStdString();
  EXPECT_TRUE(strip.swaps()->sentence().contains("No kernel was swapped")) << strip.swaps()->sentence().toStdString();
  // Where nothing was tried, the one reason that holds.
  for (const auto& [search, words] : {std::pair(SearchState::Static, "in static mode nothing is searched."),
                                      {SearchState::Fixed, "the interpreter runs none, and there is nothing to search."},
                                      {SearchState::Replayed, "the kernels were those of a swap log."},
                                      {SearchState::Finished, "the search had nothing left that would be worth a trial."},
                                      {SearchState::Unbegun, "the run ended before the search had tried a candidate."}}) {
    TrainStrip untried(&theme);
    untried.start();
    done.search = search;
    untried.setDone(done);
    EXPECT_TRUE(untried.swaps()->sentence().endsWith(words)) << untried.swaps()->sentence().toStdString();
  }
  TrainStrip kept(&theme);
  kept.start();
  done.search = SearchState::Unknown;
  kept.setDone(done);
  EXPECT_TRUE(kept.swaps()->sentence().isEmpty()) << "nothing is known of its search";
  EXPECT_FALSE(strip.swaps()->table()->isVisible());
  strip.start();
  strip.setState(state);
  KernelSwapEvent swap;
  swap.subgraph = "bb02", swap.name = "d(L)/d(W) + W.next", swap.before_us = 900, swap.after_us = 400, swap.generation = 3;
  swap.step = 120;
  strip.addSwap(swap);
  strip.setDone(done);
  EXPECT_EQ(strip.swaps()->sentence(), QString());
  ASSERT_EQ(strip.swaps()->table()->rowCount(), 1);
  QStringList row;
  for (int c = 0; c < strip.swaps()->table()->columnCount(); ++c) row << strip.swaps()->table()->item(0, c)->text();
  EXPECT_EQ(row.join(" | "), "120 | dW + W.next, kernel 2 | 900 | 400 | -56 %");
  std::string chosen;
  QObject::connect(&strip, &TrainStrip::swapChosen, &strip, [&](const KernelSwapEvent& s) { chosen = s.subgraph; });
  strip.swaps()->table()->setFocus();
  strip.swaps()->table()->setCurrentCell(0, 0);
  QTest::keyClick(strip.swaps()->table(), Qt::Key_Return);
  EXPECT_EQ(chosen, "bb02");
}

// A fused kernel that gave way to its parts is a row and a mark as a swap is, and so is the next kernel of a subgraph.
TEST_F(Tuning, AFusionThatWasTakenBackIsAmongTheSwaps) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  strip.start();
  KernelSwapEvent swap;
  swap.subgraph = "bb02", swap.name = "Y", swap.before_us = 900, swap.after_us = 400, swap.generation = 7, swap.step = 120;
  strip.addSwap(swap);
  FusionRevertedEvent reverted;
  reverted.name = "d(L)/d(W) + W.next", reverted.fused_us = 20, reverted.split_us = 15, reverted.step = 130;
  strip.addSwap(swapOf(reverted));
  reverted.step = 135, reverted.fused_kernels = 3, reverted.split_kernels = 4;
  strip.addSwap(swapOf(reverted));
  swap.before_us = 400, swap.after_us = 300, swap.generation = 9, swap.step = 140;
  strip.addSwap(swap);
  const auto row = [&](int r) {
    QStringList cells;
    for (int c = 0; c < strip.swaps()->table()->columnCount(); ++c) cells << strip.swaps()->table()->item(r, c)->text();
    return cells.join(" | ");
  };
  ASSERT_EQ(strip.swaps()->count(), 4);
  EXPECT_EQ(row(0), "120 | Y, kernel 2 | 900 | 400 | -56 %");
  EXPECT_EQ(row(1), "130 | dW + W.next, split again | 20.0 | 15.0 | -25 %");
  EXPECT_EQ(row(2), "135 | dW + W.next + 2 others, split again | 20.0 | 15.0 | -25 %") << "its times are of all three";
  EXPECT_EQ(row(3), "140 | Y, kernel 3 | 400 | 300 | -25 %");
  EXPECT_EQ(strip.plot()->swaps(), 4);
}

TEST_F(Tuning, TheStepIsHeldAgainstTheRecordedOne) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  strip.start();
  strip.setPeer("PyTorch", 6.5);
  EXPECT_TRUE(strip.figures().contains("to compare with: PyTorch, 6.50 ms")) << strip.figures().toStdString();
  RunState state;
  state.phase = RunPhase::Training;
  const auto steps = manySteps(300, 2);
  for (std::size_t i = 0; i < 20; ++i) strip.addStep(steps[i]);
  strip.setState(state);
  EXPECT_TRUE(strip.figures().contains("not yet faster than PyTorch"));
  EXPECT_TRUE(strip.figures().contains(" ms against 6.50 ms")) << strip.figures().toStdString();
  strip.setState({});
  EXPECT_TRUE(strip.figures().contains("not faster than PyTorch: median ")) << strip.figures().toStdString();
  strip.setState(state);
  for (std::size_t i = 20; i < steps.size(); ++i) strip.addStep(steps[i]);
  strip.setState(state);
  EXPECT_TRUE(strip.figures().contains("faster than PyTorch, 6.50 ms from step")) << strip.figures().toStdString();
}

// Whatever the width, no two words of the plots under a train cell cover each other, and each plot is wide enough to be read.
TEST_F(Tuning, ThePlotsOfATrainCellAreReadableAtEveryWidth) {
  for (const double scale : {1.0, 1.5}) {
    Theme text(theme);
    text.setTextScale(scale);
    SCOPED_TRACE(scale);
    TrainStrip strip(&text);
    strip.show();
    strip.start();
    strip.setPeer("PyTorch 1.13.1, one thread", 6.5);
    for (const StepEvent& e : manySteps(200, 3)) strip.addStep(e);
    for (const KernelSwapEvent& s : manySwaps(12, 600, 3)) strip.addSwap(s);
    EvalEvent eval;
    for (int i = 1; i < 20; ++i) {
      eval.step = i * 30, eval.accuracy = 0.5 + 0.02 * i, eval.loss = 1.0 / i;
      strip.addEval(eval);
    }
    for (const int width : {420, 520, 640, 880, 940, 1400}) {
      SCOPED_TRACE(width);
      strip.resize(width, 560);
      ASSERT_TRUE(QTest::qWaitFor([&] { return strip.width() == width; }));
      QCoreApplication::processEvents();
      for (Plot* plot : {static_cast<Plot*>(strip.plot()), static_cast<Plot*>(strip.lossPlot())}) {
        EXPECT_GE(plot->width(), 280);
        EXPECT_LE(plot->geometry().right(), strip.width());
        const auto labels = plot->shownLabels();
        EXPECT_GE(labels.size(), 2u);
        for (std::size_t i = 0; i < labels.size(); ++i)
          for (std::size_t k = i + 1; k < labels.size(); ++k)
            EXPECT_FALSE(labels[i].second.intersects(labels[k].second))
                << labels[i].first.toStdString() << " / " << labels[k].first.toStdString();
        const QCPAxis* steps = plot->plot()->xAxis;
        const QFontMetricsF metrics(steps->tickLabelFont());
        // Words leave the curve its room.
        const double left = plot->plot()->axisRect()->left(), right = plot->plot()->axisRect()->right();
        EXPECT_GE(steps->coordToPixel(600) - left, 0.48 * (right - left));
        double before = -HUGE_VAL;
        for (qsizetype i = 0; i < steps->tickVector().size(); ++i) {
          const double at = steps->coordToPixel(steps->tickVector()[i]);
          const double half = metrics.horizontalAdvance(steps->tickVectorLabels()[i]) / 2;
          EXPECT_GT(at - half, before) << steps->tickVectorLabels()[i].toStdString();
          before = at + half;
        }
        if (plot != strip.lossPlot()) continue;
        for (const auto& [text, place] : labels)
          EXPECT_LE(place.right(), plot->plot()->axisRect()->right() + 4) << text.toStdString() << " stands on the other axis";
      }
    }
  }
}

// The name is what a row is about; the old time goes first, and stands in the tooltip.
TEST_F(Tuning, ANarrowListOfSwapsKeepsTheNames) {
  SwapList list(&theme);
  list.resize(380, 200);
  list.show();
  for (const KernelSwapEvent& s : manySwaps(4, 600, 3)) list.add(s);
  const QTableWidget* table = list.table();
  QCoreApplication::processEvents();
  EXPECT_GE(table->columnWidth(1), 110);
  for (const int column : {0, 3})
    EXPECT_GE(table->columnWidth(column), QFontMetrics(theme.mono(12)).horizontalAdvance(table->item(3, column)->text())) << column;
  EXPECT_TRUE(table->isColumnHidden(2));
  EXPECT_TRUE(table->item(0, 1)->toolTip().contains(" to ")) << table->item(0, 1)->toolTip().toStdString();
  list.resize(900, 200);
  QCoreApplication::processEvents();
  EXPECT_FALSE(table->isColumnHidden(2));
}

// The curve of a run that was killed goes on behind what was kept of it.
TEST_F(Tuning, AnInterruptedRunSaysWhereItsCheckpointIs) {
  TrainStrip strip(&theme);
  std::vector<StepEvent> steps(40);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].step = static_cast<std::int64_t>(i + 1), steps[i].ms = 1, steps[i].loss = 2;
  }
  strip.setKept("21 Nov 2026, 23:54:30", steps, {}, {}, {}, {});
  EXPECT_EQ(strip.result(), "Interrupted run of 21 Nov 2026, 23:54:30: at step 40");
  strip.setCheckpoint(TrainStrip::Checkpoint::Usable, 30);
  EXPECT_EQ(strip.result(), "Interrupted run of 21 Nov 2026, 23:54:30: at step 40; newest checkpoint: step 30");
  strip.setCheckpoint(TrainStrip::Checkpoint::Usable, 30);
  EXPECT_EQ(strip.result().count("checkpoint"), 1);
}

// Names say which loss they are of where there are several, of a run that was read before that was known, too.
TEST_F(Tuning, SwapsAreNamedAgainWhereThereAreSeveralLosses) {
  SwapList list(&theme);
  KernelSwapEvent swap;
  swap.name = "d(L1)/d(W)", swap.subgraph = "aa01", swap.step = 3;
  const auto named = [&] { return list.table()->item(0, 1)->text(); };
  setSeveralLosses(false);
  list.add(swap);
  EXPECT_EQ(named(), "dW, kernel 2");
  setSeveralLosses(true);
  list.nameAgain();
  EXPECT_EQ(list.table()->rowCount(), 1);
  EXPECT_EQ(named(), "dL1/dW, kernel 2");
  setSeveralLosses(false);
  list.nameAgain();
  EXPECT_EQ(named(), "dW, kernel 2");
}

}  // namespace
}  // namespace nf
