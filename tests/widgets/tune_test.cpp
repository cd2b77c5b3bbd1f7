// SPDX-License-Identifier: GPL-3.0-or-later
// The tune page: playhead, knobs, budget, and what is said of a search; driven by clicks and keys.
#include <gtest/gtest.h>

#include <QAction>
#include <QComboBox>
#include <QListWidget>
#include <QPushButton>
#include <QTableView>
#include <QTest>
#include <QToolButton>

#include "tests/widgets/capsule.h"
#include "tests/widgets/made_up_runs.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/keep_focus.h"
#include "widgets/kernel_view.h"
#include "widgets/names.h"
#include "widgets/profile_view.h"
#include "widgets/tune_trials.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

TEST_F(Tuning, TheKernelInUseIsMarked) {
  TuneView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  auto subgraphs = capsule::subgraphs();
  auto trials = capsule::trials();
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i].schedule.text = "{\"tile\":" + std::to_string(i) + "}";
  view.setSubgraphs(subgraphs);
  view.chooseSubgraph("aa01");
  view.setTrials("aa01", trials);
  EXPECT_FALSE(view.trials()->inUse()) << "nothing has run";
  subgraphs[0].inUse = trials[3].schedule, subgraphs[0].trial = trials[3].number;
  ASSERT_EQ(subgraphs[0].id, "aa01");
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(view.trials()->inUse(), trials[3].number);
  view.chooseTrial(trials[3].number);
  EXPECT_TRUE(view.lineage().contains("in use")) << view.lineage().toStdString();
  subgraphs[0].inUse = trials[5].schedule, subgraphs[0].trial = trials[5].number;  // a swap
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(view.trials()->inUse(), trials[5].number);
  EXPECT_FALSE(view.lineage().contains("in use"));
}

// A first kernel is timed again once steps run: its code, its row and its disc have one time.
TEST_F(Tuning, TheHeaderOfAKernelHasTheTimeOfItsTrial) {
  TuneView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  auto trials = capsule::trials(3);
  ASSERT_FALSE(trials.empty());
  trials[0].us = 30.7;
  view.setSubgraphs(capsule::subgraphs());
  view.chooseSubgraph("aa01");
  view.setTrials("aa01", trials);
  view.chooseTrial(trials[0].number);
  Kernel kernel = capsule::kernel("aa01", trials[0].number);
  kernel.us = 30.7;
  view.setKernel(kernel);
  ASSERT_TRUE(view.kernel()->detail().endsWith(", 30.7 µs alone")) << view.kernel()->detail().toStdString();
  trials[0].us = 29;
  view.setTrials("aa01", trials);
  EXPECT_TRUE(view.kernel()->detail().endsWith(", 29.0 µs alone")) << view.kernel()->detail().toStdString();
  view.setTrials("bb02", {});
  EXPECT_TRUE(view.kernel()->detail().endsWith(", 29.0 µs alone")) << "of another kernel";
}

// The first kernel is timed as it was compiled first, and with full effort: two trials of one schedule.
TEST_F(Tuning, TheKernelInUseIsTheOneThatTheEngineNames) {
  TuneView view(&theme, &selection);
  auto subgraphs = capsule::subgraphs();
  auto trials = capsule::trials(3);
  ASSERT_GE(trials.size(), 2u);
  for (std::size_t i = 0; i < trials.size(); ++i)
    trials[i].number = i, trials[i].us = 30.0 + static_cast<double>(i), trials[i].status = TrialStatus::Ok,
    trials[i].schedule.text = "{\"tile\":" + std::to_string(i) + "}";
  trials[1].schedule = trials[0].schedule;
  subgraphs[0].inUse = trials[0].schedule;
  ASSERT_EQ(subgraphs[0].id, "aa01");
  view.setSubgraphs(subgraphs);
  view.chooseSubgraph("aa01");
  view.setTrials("aa01", trials);
  EXPECT_FALSE(view.trials()->inUse()) << "which of the two is not known";
  // A swap brought the second one; a run that was resumed begins with the first again, whatever was swapped in before its checkpoint.
  KernelSwapEvent swap;
  swap.subgraph = "aa01", swap.schedule = trials[1].schedule, swap.step = 12;
  view.addSwap(swap);
  for (const std::uint64_t number : {0u, 1u, 0u}) {
    subgraphs[0].trial = number;
    view.setSubgraphs(subgraphs);
    EXPECT_EQ(view.trials()->inUse(), number);
    view.chooseTrial(number);
    EXPECT_TRUE(view.lineage().contains("in use")) << view.lineage().toStdString();
    view.setTrials("aa01", trials);
    EXPECT_EQ(view.trials()->inUse(), number);
    view.setRun({}, {swap}, {});
    EXPECT_EQ(view.trials()->inUse(), number);
  }
}

TEST_F(Tuning, WithoutAChoiceKernelAndKnobsAreTheBestTrials) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  std::optional<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) { wanted = t; });
  view.setSubgraphs(capsule::subgraphs());
  auto trials = capsule::trials(2);
  view.setTrials("aa01", trials);
  view.setSpace(capsule::space("aa01"));
  view.setKernel(capsule::kernel("aa01", 1));
  TrialInfo better = trials[1];
  better.number = 2, better.generation = 3, better.us = 10, better.lowUs = 9.9, better.highUs = 10.1;
  better.schedule = capsule::trials()[40].schedule;
  trials.push_back(better);
  view.setTrials("aa01", trials);
  // The old code stays, greyed, and says whose it is.
  EXPECT_TRUE(view.kernel()->pending());
  EXPECT_EQ(view.kernel()->detail(), "g3 c2 is on its way, below is g4 c1");
  ASSERT_TRUE(QTest::qWaitFor([&] { return wanted == 2u; }));
  EXPECT_EQ(knobsOf(view.chosenSchedule().text), knobsOf(better.schedule.text));
  Kernel arrived = capsule::kernel("aa01", 2);
  arrived.generation = 3;
  view.setKernel(arrived);
  EXPECT_FALSE(view.kernel()->pending());
  EXPECT_TRUE(view.kernel()->detail().startsWith("g3 c2"));
  // What somebody sets by hand is not taken away by a better trial.
  QComboBox* tile = view.knob("tile");
  ASSERT_TRUE(tile);
  tile->setFocus();
  QTest::keyClick(tile, tile->currentIndex() > 0 ? Qt::Key_Up : Qt::Key_Down);
  const auto edited = knobsOf(view.chosenSchedule().text);
  EXPECT_NE(edited, knobsOf(better.schedule.text));
  better.number = 3, better.us = 5, better.lowUs = 4.9, better.highUs = 5.1, better.schedule = capsule::trials()[41].schedule;
  trials.push_back(better);
  view.setTrials("aa01", trials);
  EXPECT_EQ(knobsOf(view.chosenSchedule().text).at("tile"), edited.at("tile"));
}

// What runs, or what the last comparison of a search held best: its trial may have been timed in a noisier moment than another.
TEST_F(Tuning, WithoutAChoiceTheKernelIsThatOfItsRow) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  std::optional<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) { wanted = t; });
  auto subgraphs = capsule::subgraphs();
  auto trials = capsule::trials(3);
  ASSERT_GE(trials.size(), 3u);
  for (std::size_t i = 0; i < trials.size(); ++i)
    trials[i].number = i, trials[i].us = 30.0 - static_cast<double>(i), trials[i].status = TrialStatus::Ok,
    trials[i].generation = static_cast<std::int64_t>(i);
  ASSERT_EQ(subgraphs[0].id, "aa01");
  subgraphs[0].us = 29, subgraphs[0].trial = 1;
  view.setSubgraphs(subgraphs);
  view.chooseSubgraph("aa01");
  view.setTrials("aa01", trials);
  EXPECT_EQ(wanted, 1u);
  EXPECT_TRUE(view.lineage().contains("c1<")) << view.lineage().toStdString();
  const auto& strip = *view.generations();
  ASSERT_GE(strip.current(), 0);
  EXPECT_EQ(strip.generations()[static_cast<std::size_t>(strip.current())].number, trials[1].generation);
  EXPECT_EQ(view.roofline()->trial(), 1u);
  subgraphs[0].us = 28, subgraphs[0].trial = 2;
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(wanted, 2u);
}

TEST_F(Tuning, AnotherNotebookStartsWithNothingOfThisOne) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.setSpace(capsule::space("aa01"));
  view.setKernel(capsule::kernel("aa01", 1));
  view.setProfile(capsule::profile(1, true));
  view.setRun(manySteps(50, 1), manySwaps(2, 100, 1), {});
  RunState run;
  run.phase = RunPhase::Training, run.trials = 46, run.seconds = 4, run.budgetSpentSeconds = 0.198;
  view.setRunState(run);
  ASSERT_TRUE(view.spent().contains("46"));
  view.reset();
  EXPECT_FALSE(view.spent().contains("46"));
  EXPECT_EQ(view.profile()->model()->rowCount(), 0);
  EXPECT_EQ(view.list()->count(), 0);
  EXPECT_EQ(view.latency()->steps(), 0);
  EXPECT_TRUE(view.kernel()->empty());
  EXPECT_EQ(view.trials()->points(), 0);
  EXPECT_EQ(view.knob("tile"), nullptr);
  EXPECT_TRUE(view.roofline()->table().rows.empty());
  EXPECT_EQ(view.current(), "");
}

// Rows are those of the plan that runs; the trials of this run are all.
TEST_F(Tuning, TrialsOfKernelsThatWereSplitAreSaidToBe) {
  TuneView view(&theme, &selection);
  view.setSubgraphs(capsule::subgraphs());
  RunState run;
  run.phase = RunPhase::Training, run.trials = 28, run.seconds = 4, run.budgetSpentSeconds = 0.2, run.budgetShare = 0.3;
  view.setRunState(run);
  EXPECT_TRUE(view.spent().contains("28 trials, ")) << view.spent().toStdString();
  view.setRunState(run, 16);
  EXPECT_TRUE(view.spent().contains("28 trials (16 of other kernels), ")) << view.spent().toStdString();
}

TEST_F(Tuning, WhatASearchHasSpentStandsWhenItIsOver) {
  TuneView view(&theme, &selection);
  view.setSubgraphs(capsule::subgraphs());
  RunState run;
  run.phase = RunPhase::Training, run.trials = 46, run.seconds = 4, run.budgetSpentSeconds = 0.2, run.budgetShare = 0.3;
  view.setRunState(run);
  const QString spent = view.spent();
  TrialEvent trial;
  trial.subgraph = "aa01";
  view.addTrial(trial);
  EXPECT_EQ(view.tried(), "aa01");
  run.phase = RunPhase::Paused;
  view.setRunState(run);
  EXPECT_EQ(view.tried(), "");
  view.setRunState({});
  EXPECT_EQ(view.spent(), spent);
  EXPECT_EQ(view.now(), "nothing runs");
  // A cell that is computed searches nothing.
  RunState shows;
  shows.phase = RunPhase::Computing;
  view.setRunState(shows);
  EXPECT_EQ(view.spent(), spent);
}

TEST_F(Tuning, FusedKernelsAgainstTheirPartsSayWhichAndHowLong) {
  TuneView view(&theme, &selection);
  RunState run;
  run.phase = RunPhase::Tuning, run.detail = "fused kernel 3 of 12 against its parts: Y + dY", run.secondsLeft = 9;
  view.setRunState(run);
  EXPECT_EQ(view.now(), "fused kernel 3 of 12 against its parts: Y + dY");
  EXPECT_EQ(view.spent(), "the whole device: 9.0 s left");
}

// While it is measured the button cannot be pressed; the keyboard is nowhere else behind that.
TEST_F(Tuning, TheKeyboardStaysAtMeasure) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&view));
  view.activateWindow();
  QPushButton* button = nullptr;
  for (QPushButton* b : view.findChildren<QPushButton*>())
    if (b->text() == "Measure") button = b;
  ASSERT_TRUE(button);
  setUsable(button, true);
  button->setFocus();
  ASSERT_TRUE(QTest::qWaitFor([&] { return QApplication::focusWidget() == button; }));
  setUsable(button, false);
  EXPECT_FALSE(qobject_cast<QComboBox*>(QApplication::focusWidget()));
  setUsable(button, true);
  EXPECT_EQ(QApplication::focusWidget(), button);
  // Whoever went elsewhere meanwhile stays there.
  setUsable(button, false);
  view.list()->setFocus();
  setUsable(button, true);
  EXPECT_EQ(QApplication::focusWidget(), view.list());
}

TEST_F(Tuning, TrialsByHandStandBesideTheBudget) {
  TuneView view(&theme, &selection);
  view.show();
  EXPECT_EQ(view.byHand(), "");
  view.setByHand(1);
  EXPECT_EQ(view.byHand(), "besides 1 trial by hand");
  view.setByHand(0);
  EXPECT_EQ(view.byHand(), "");
}

TEST_F(Tuning, ASearchWithoutTrainingSaysItsTrialsAndItsTime) {
  TuneView view(&theme, &selection);
  RunState run;
  run.phase = RunPhase::Tuning, run.trials = 24, run.seconds = 12, run.secondsLeft = 30, run.detail = "trial 24 of 64";
  view.setRunState(run);
  EXPECT_EQ(view.spent(), "the whole device: 24 trials, 12 s, 30 s left");
  view.setRunState({});
  EXPECT_EQ(view.spent(), "the whole device: 24 trials, 12 s") << "nothing is left of what has ended";
}

TEST_F(Tuning, WhyTheShareIsNotUsedIsSaid) {
  TuneView view(&theme, &selection);
  RunState run;
  run.phase = RunPhase::Training, run.seconds = 12, run.detail = "the search waits for its compiler: the machine is busy";
  view.setRunState(run);
  EXPECT_EQ(view.reason(), "the search waits for its compiler: the machine is busy");
  run.detail.clear();
  view.setRunState(run);
  EXPECT_EQ(view.reason(), "");
}

// Somebody may be about to choose one.
TEST_F(Tuning, KnobsKeepTheirPlaceWhileTheWordsAboveThemChange) {
  TuneView view(&theme, &selection);
  view.resize(1280, 900);
  view.show();
  const auto place = [&] {
    for (PanelHeader* header : view.findChildren<PanelHeader*>())
      if (header->title() == "Knobs") return header->mapTo(&view, QPoint()).y();
    return -1;
  };
  view.setRunState({});
  QTest::qWait(0);
  const int idle = place();
  RunState run;
  run.phase = RunPhase::Training;
  view.setRunState(run);
  QTest::qWait(0);
  EXPECT_EQ(place(), idle) << "its button is not offered while something runs";
  run.seconds = 12;
  run.detail = "the search waits for its compiler: the machine is busy with other work, which takes the processor from it";
  view.setRunState(run);
  QTest::qWait(0);
  const int before = place();
  ASSERT_GT(before, 0);
  for (const char* detail : {"", "short", "the search has nothing left that would be worth a trial", ""}) {
    run.detail = detail, run.seconds += 1;
    view.setRunState(run);
    QTest::qWait(0);
    EXPECT_EQ(place(), before) << detail;
  }
}

TEST_F(Tuning, AKernelIsNamedAfterItsResult) {
  EXPECT_EQ(kernelName("d(L)/d(C.sum) + d(L)/d(F1) + F1.adam.M + F1.next", 16), "F1.next +3");
  EXPECT_EQ(kernelName("d(L)/d(C.sum) + d(L)/d(A)", 16), "dC.sum + dA");
  EXPECT_EQ(kernelName("F1.next and 7 more", 16), "F1.next +7") << "as the engine shortens what is longer still";
}

TEST_F(Tuning, AChosenTrialThatAnotherRunDoesNotHaveIsLetGo) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  const auto trials = capsule::trials();
  std::vector<std::optional<std::uint64_t>> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view,
                   [&](const std::string&, std::optional<std::uint64_t> t) { wanted.push_back(t); });
  view.chooseSubgraph("aa01");
  view.chooseTrial(trials.back().number);
  view.setTrials("aa01", {trials.front()});
  EXPECT_EQ(view.trial(), trials.back().number) << "chosen before it is known, as at a restart";
  view.setTrials("aa01", trials);
  view.setTrials("aa01", {});
  EXPECT_EQ(view.trial(), trials.back().number) << "while the new list is under way";
  wanted.clear();
  view.setTrials("aa01", {trials.front()});
  EXPECT_FALSE(view.trial());
  ASSERT_TRUE(QTest::qWaitFor([&] { return !wanted.empty(); }));
  for (const auto& number : wanted) EXPECT_TRUE(!number || *number == trials.front().number);
}

// What is written under the caret has its kernel when the new ones are known.
TEST_F(Tuning, TheSelectionIsLookedForAmongTheKernelsOfTheNewText) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  const auto subgraphs = capsule::subgraphs();
  auto before = subgraphs;
  for (SubgraphInfo& s : before) s.origins.clear();
  view.setSubgraphs(before, 1);
  view.chooseSubgraph(subgraphs[0].id);
  selection.select(Origins(subgraphs[1].origins), {});
  ASSERT_EQ(view.current(), subgraphs[0].id) << "no kernel has that place";
  view.setSubgraphs(subgraphs, 2);
  EXPECT_EQ(view.current(), subgraphs[1].id);
  selection.select(Origins(subgraphs[0].origins), std::vector<std::string>(subgraphs[0].operators));
  view.setSubgraphs(subgraphs, 3);
  EXPECT_EQ(view.current(), subgraphs[0].id) << "chosen by hand";
}

TEST_F(Tuning, TheChosenRowStaysInSight) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  std::vector<SubgraphInfo> many;
  for (int i = 0; i < 30; ++i) {
    many.push_back(capsule::subgraphs()[0]);
    many.back().id = "id" + std::to_string(i), many.back().us = 1;
  }
  const auto inSight = [&] {
    return view.list()->viewport()->rect().contains(view.list()->visualItemRect(view.list()->currentItem()));
  };
  view.setSubgraphs(many);
  view.chooseSubgraph("id29");
  EXPECT_TRUE(inSight());
  std::swap(many[29], many[0]);
  view.setSubgraphs(many);
  ASSERT_EQ(view.list()->currentRow(), 0);
  EXPECT_TRUE(inSight());
  // The last one in sight, where there is less room then.
  const int last = view.list()->indexAt({20, view.list()->viewport()->height() - 60}).row();
  ASSERT_GT(last, 0);
  view.chooseSubgraph(many[static_cast<std::size_t>(last)].id);
  ASSERT_TRUE(inSight());
  view.resize(1600, 600);
  QApplication::processEvents();
  EXPECT_TRUE(inSight());
}

// The window adds to a selection what belongs to it; that may be of another kernel, too, and the list keeps the one that was pressed.
TEST_F(Tuning, APressedRowIsTheKernelThatIsShown) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  const auto subgraphs = capsule::subgraphs();
  ASSERT_GE(subgraphs.size(), 3u);
  view.setSubgraphs(subgraphs, 1);
  view.chooseSubgraph(subgraphs[0].id);
  QObject::connect(&selection, &Selection::changed, &view, [&] {
    auto tensors = selection.tensors();
    if (!tensors.empty() && tensors.back() != subgraphs[1].operators.back()) {
      tensors.push_back(subgraphs[1].operators.back());
      selection.call(std::move(tensors));
    }
  });
  const auto agree = [&](std::size_t row) {
    EXPECT_EQ(view.current(), subgraphs[row].id);
    EXPECT_EQ(view.list()->currentRow(), static_cast<int>(row));
    const auto chosen = view.list()->selectionModel()->selectedIndexes();
    ASSERT_EQ(chosen.size(), 1);
    EXPECT_EQ(chosen.front().row(), static_cast<int>(row));
  };
  QTest::mouseClick(view.list()->viewport(), Qt::LeftButton, {}, view.list()->visualItemRect(view.list()->item(2)).center());
  agree(2);
  view.setSubgraphs(subgraphs, 2);
  agree(2);
  selection.select(Origins(subgraphs[0].origins), std::vector<std::string>(subgraphs[0].operators));
  EXPECT_NE(view.current(), subgraphs[2].id) << "chosen elsewhere since";
}

// Shown and chosen are two things: the row of what is shown is there to be chosen, too.
TEST_F(Tuning, APressOnTheRowThatIsShownChoosesIt) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  const auto subgraphs = capsule::subgraphs();
  view.setSubgraphs(subgraphs, 1);
  ASSERT_TRUE(selection.empty());
  const int row = view.list()->currentRow();
  ASSERT_GE(row, 0);
  const auto& shown = subgraphs[static_cast<std::size_t>(row)];
  const auto press = [&] {
    QTest::mouseClick(view.list()->viewport(), Qt::LeftButton, {}, view.list()->visualItemRect(view.list()->item(row)).center());
  };
  press();
  EXPECT_EQ(view.current(), shown.id);
  EXPECT_EQ(selection.tensors(), shown.operators);
  selection.select(Origins(shown.origins));  // a place of it: it stays what is shown
  ASSERT_EQ(view.current(), shown.id);
  ASSERT_TRUE(selection.tensors().empty());
  press();
  EXPECT_EQ(selection.tensors(), shown.operators);
  const auto choices = selection.choices();
  press();
  EXPECT_EQ(selection.choices(), choices) << "it is what is selected";
}

TEST_F(Tuning, NothingShinesThroughTheCurvesOfAnEarlierText) {
  QWidget window;
  window.setPalette(QPalette(Qt::white));
  window.setAutoFillBackground(true);
  window.resize(700, 500);
  auto* before = new QWidget(&window);
  before->setPalette(QPalette(Qt::red));
  before->setAutoFillBackground(true);
  before->setGeometry(window.rect());
  auto* plot = new LatencyPlot(&theme, false, &window);
  plot->setGeometry(window.rect());
  plot->hide();
  setGreyed(plot, true);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  const auto seen = [&] {
    QApplication::processEvents();
    return window.screen()->grabWindow(window.winId()).toImage();
  };
  ASSERT_EQ(seen().pixelColor(5, 5), QColor(Qt::red));
  before->hide();
  plot->show();
  const QColor ground = seen().pixelColor(5, 5);
  EXPECT_LT(ground.red() - std::min(ground.green(), ground.blue()), 20) << ground.name().toStdString();
}

TEST_F(Tuning, AClickOnAPointMovesThePlayheadEverywhere) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.setSpace(capsule::space("aa01"));
  std::optional<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) { wanted = t; });
  view.trials()->shownLabels();  // drawn: points have places
  QTest::mouseClick(view.trials()->canvas(), Qt::LeftButton, {}, view.trials()->pixelOf(42));
  EXPECT_EQ(view.trial(), 42u);
  EXPECT_EQ(view.trials()->current(), 42u);
  EXPECT_EQ(wanted, 42u);
  EXPECT_EQ(view.generations()->generations()[static_cast<std::size_t>(view.generations()->current())].number, 42 / 16);
  EXPECT_EQ(knobsOf(view.chosenSchedule().text), knobsOf(capsule::trials()[42].schedule.text));
  bool named = false;
  for (const auto& [text, rect] : view.roofline()->shownLabels()) named = named || text.startsWith("g2 c42");
  EXPECT_TRUE(named);
  // A failure in the strip, too.
  QTest::mouseClick(view.trials()->canvas(), Qt::LeftButton, {}, view.trials()->pixelOf(5));
  EXPECT_EQ(view.trial(), 5u);
}

// A trial is chosen before the list that has it arrives: what is set stays until then, and is that trial's from then on.
TEST_F(Tuning, TheKnobsOfATrialThatIsNotKnownYetFollowWhenItIs) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  auto trials = capsule::trials();
  view.setTrials("aa01", trials);
  view.setSpace(capsule::space("aa01"));
  QComboBox* tile = view.knob("tile");
  ASSERT_TRUE(tile);
  tile->setFocus();
  QTest::keyClick(tile, Qt::Key_End);
  TrialInfo hand;
  hand.number = 120, hand.us = 21, hand.lowUs = 20, hand.highUs = 22, hand.schedule = view.chosenSchedule();
  ASSERT_EQ(knobsOf(hand.schedule.text).at("tile"), "[8,8]");
  view.chooseTrial(120);
  EXPECT_EQ(knobsOf(view.chosenSchedule().text), knobsOf(hand.schedule.text));
  trials.push_back(hand);
  view.setTrials("aa01", trials);
  EXPECT_EQ(knobsOf(view.chosenSchedule().text), knobsOf(hand.schedule.text));
  ASSERT_TRUE(view.knob("tile"));
  EXPECT_EQ(view.knob("tile")->currentData().toString(), "[8,8]");
}

TEST_F(Tuning, ATrialThatWasRefusedIsNotPinned) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  auto subgraphs = capsule::subgraphs();
  view.setSubgraphs(subgraphs);
  auto trials = capsule::trials();
  for (std::size_t i = 0; i < trials.size(); ++i)
    trials[i].schedule.text = R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,)" + std::to_string(i) + "]},\"version\":1}";
  view.setTrials("aa01", trials);
  view.setSpace(capsule::space("aa01"));
  ASSERT_EQ(trials[5].status, TrialStatus::Wrong);
  int pins = 0;
  QObject::connect(&view, &TuneView::pinRequested, &view, [&] { ++pins; });
  view.chooseTrial(5);
  QTest::mouseClick(view.pin(), Qt::LeftButton);
  EXPECT_EQ(pins, 0);
  EXPECT_TRUE(view.pin()->toolTip().contains("c5 was refused")) << view.pin()->toolTip().toStdString();
  view.chooseTrial(7);
  QTest::mouseClick(view.pin(), Qt::LeftButton);
  EXPECT_EQ(pins, 1);
}

TEST_F(Tuning, TheTableOfTrialsShowsTheDigitsOfTheNextKernel) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.chooseSubgraph("aa01");
  auto trials = capsule::trials(2);
  for (TrialInfo& t : trials) t.us = 2, t.lowUs = 1, t.highUs = 3, t.status = TrialStatus::Ok;
  view.setTrials("aa01", trials);
  TrialsPlot* plot = view.trials();
  plot->findChild<QAction*>("table")->trigger();
  QTableView* table = plot->tableView();
  for (TrialInfo& t : trials) t.us = 0.267123456, t.lowUs = 0.265123456, t.highUs = 0.269123456;
  view.setTrials("aa01", trials);
  ASSERT_TRUE(QTest::qWaitFor([&] { return table->model()->index(0, 4).data().toString() == "0.2671"; }));
  EXPECT_EQ(table->model()->index(0, 4).data(Qt::ToolTipRole).toString(), "0.267123456") << "to the last digit in a file and here";
  for (const int column : {4, 5, 6}) {
    const QString text = table->model()->index(0, column).data().toString();
    EXPECT_GE(table->columnWidth(column), table->fontMetrics().horizontalAdvance(text)) << text.toStdString();
  }
}

TEST_F(Tuning, TheRowOfAPinnedKernelSaysHowMuchSlowerItIs) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  auto subgraphs = capsule::subgraphs();
  ASSERT_EQ(subgraphs[0].id, "aa01");
  subgraphs[0].us = 100;
  view.setSubgraphs(subgraphs);
  view.chooseSubgraph("aa01");
  auto trials = capsule::trials(2);
  trials[0].status = trials[1].status = TrialStatus::Ok;
  trials[0].us = 40, trials[1].us = 100;
  view.setTrials("aa01", trials);
  const auto rowText = [&] { return view.findChild<QListWidget*>()->item(0)->data(Qt::AccessibleDescriptionRole).toString(); };
  EXPECT_EQ(rowText(), "7.72× first");
  subgraphs[0].state = SubgraphState::Pinned;
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(rowText(), "pinned, 2.50× as slow as the best");
  trials[1].us = 39;  // measured again
  subgraphs[0].us = 39;
  view.setSubgraphs(subgraphs);
  view.setTrials("aa01", trials);
  EXPECT_EQ(rowText(), "pinned, fastest trial");
}

// The row of a pinned kernel and its trial have one time: that of the newest trial of the schedule, compiled with full effort.
TEST_F(Tuning, APinnedKernelIsTheNewestTrialOfItsSchedule) {
  auto trials = capsule::trials(3);
  ASSERT_EQ(trials.size(), 3u);
  for (TrialInfo& t : trials) t.us = 100, t.status = TrialStatus::Ok, t.schedule.text = "{\"tile\":1}";
  trials[1].schedule.text = "{\"tile\":2}";
  EXPECT_EQ(measuredAlready(trials, nullptr, trials[0].schedule), trials[2].number);
  EXPECT_EQ(measuredAlready(trials, &trials[0], trials[0].schedule), trials[0].number) << "the one that is looked at";
}

TEST_F(Tuning, TheKeysScrub) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.chooseTrial(40);
  QTest::keyClick(view.trials(), Qt::Key_Right);
  EXPECT_EQ(view.trial(), 41u);
  QTest::keyClick(view.trials(), Qt::Key_Left);
  QTest::keyClick(view.trials(), Qt::Key_Left);
  EXPECT_EQ(view.trial(), 39u);
  QTest::keyClick(view.trials(), Qt::Key_PageDown);
  EXPECT_EQ(view.trial(), 48u);
  QTest::keyClick(view.trials(), Qt::Key_Home);
  EXPECT_EQ(view.trial(), 0u);
  QTest::keyClick(view.trials(), Qt::Key_End);
  EXPECT_EQ(view.trial(), 119u);
  QTest::keyClick(view.generations(), Qt::Key_Home);
  EXPECT_EQ(view.generations()->current(), 0);
  QTest::keyClick(view.generations(), Qt::Key_Right);
  EXPECT_EQ(view.generations()->current(), 1);
}

TEST_F(Tuning, AMovingPlayheadAsksForTheKernelWhereItRests) {
  TuneView view(&theme, &selection);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  std::vector<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) {
    if (t) wanted.push_back(*t);
  });
  for (std::uint64_t t = 10; t < 30; ++t) view.chooseTrial(t);
  ASSERT_TRUE(QTest::qWaitFor([&] { return !wanted.empty() && wanted.back() == 29; }));
  EXPECT_LT(wanted.size(), 20u);
}

TEST_F(Tuning, AKnobIsSetByHandAndItsResultStandsInPlace) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.setSpace(capsule::space("aa01"));
  JsonText asked;
  std::optional<std::uint64_t> base;
  view.chooseTrial(5);
  QObject::connect(&view, &TuneView::measureRequested, &view,
                   [&](const std::string&, const JsonText& s, std::optional<std::uint64_t> from) { asked = s, base = from; });
  QComboBox* tile = view.knob("tile");
  ASSERT_TRUE(tile);
  tile->setFocus();
  QTest::keyClick(tile, Qt::Key_End);
  QTest::mouseClick(view.measure(), Qt::LeftButton);
  EXPECT_EQ(knobsOf(asked.text).at("tile"), "[8,8]");
  EXPECT_EQ(base, 5u) << "whose knob was turned";
  EXPECT_FALSE(view.measure()->isEnabled());
  TrialInfo t;
  t.number = 120, t.us = 21, t.lowUs = 20, t.highUs = 22, t.schedule = asked;
  view.setMeasured(t);
  EXPECT_TRUE(view.measure()->isEnabled());
  EXPECT_TRUE(view.measured().contains("faster than the fastest trial")) << view.measured().toStdString();
  const TrialInfo* best = nullptr;
  const auto trials = capsule::trials();
  for (const auto& k : trials)
    if (k.us && (!best || *k.us < *best->us)) best = &k;
  t.us = *best->us * 1.001, t.lowUs = *best->us * 0.99, t.highUs = *best->us * 1.02;
  view.setMeasured(t);
  EXPECT_TRUE(view.measured().contains("within the noise")) << view.measured().toStdString();
  t.us.reset(), t.status = TrialStatus::Wrong, t.how = "by hand: output 3 differs";
  view.setMeasured(t);
  EXPECT_TRUE(view.measured().contains("output 3 differs"));
}

// With the knobs of a trial that was measured, it is measured again: no trial of its own, and nothing that is faster than itself.
TEST_F(Tuning, UntouchedKnobsAreAReplay) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.setSpace(capsule::space("aa01"));
  std::uint64_t best = 0;
  double least = HUGE_VAL;
  for (const auto& t : capsule::trials())
    if (t.us && t.status == TrialStatus::Ok && *t.us < least) least = *t.us, best = t.number;
  view.chooseTrial(best);
  int measured = 0;
  std::optional<std::uint64_t> replayed;
  QObject::connect(&view, &TuneView::measureRequested, &view, [&] { ++measured; });
  QObject::connect(&view, &TuneView::replayRequested, &view, [&](const std::string&, std::uint64_t n) { replayed = n; });
  QTest::mouseClick(view.measure(), Qt::LeftButton);
  EXPECT_EQ(measured, 0);
  EXPECT_EQ(replayed, best);
  TrialInfo again;
  again.number = best, again.us = least * 0.95, again.lowUs = least * 0.9, again.highUs = least * 1.2;
  view.setReplayed(best, again);
  EXPECT_TRUE(view.measured().contains("within the noise")) << view.measured().toStdString();
}

TEST_F(Tuning, TheBudgetIsDraggedAndItsSolidPartIsWhatWasSpent) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  std::vector<double> asked;
  QObject::connect(&view, &TuneView::budgetRequested, &view, [&](double share) { asked.push_back(share); });
  RunState state;
  state.phase = RunPhase::Training, state.seconds = 10, state.budgetSpentSeconds = 1.5, state.budgetShare = 0.3, state.trials = 12;
  view.setRunState(state);
  EXPECT_DOUBLE_EQ(view.budget()->spent(), 0.15);
  EXPECT_EQ(view.budget()->value(), 30);
  EXPECT_TRUE(asked.empty());  // the engine's own share is no wish
  const QPoint handle(view.budget()->width() / 3, 12), to(view.budget()->width() * 2 / 3, 12);
  QTest::mousePress(view.budget(), Qt::LeftButton, {}, handle);
  QTest::mouseMove(view.budget(), to);
  QTest::mouseRelease(view.budget(), Qt::LeftButton, {}, to);
  ASSERT_TRUE(QTest::qWaitFor([&] { return !asked.empty(); }));
  EXPECT_NEAR(asked.back(), 0.6, 0.02);
  view.setRunState(state);  // sent before the wish arrived: it does not throw the handle back
  EXPECT_NEAR(view.budget()->value(), 60, 2);
  QTest::keyClick(view.budget(), Qt::Key_Home);
  ASSERT_TRUE(QTest::qWaitFor([&] { return asked.back() == 0; }));
}

TEST_F(Tuning, WhatTheTunerDoesNowIsSaid) {
  TuneView view(&theme, &selection);
  view.setSubgraphs(capsule::subgraphs());
  TrialEvent e;
  e.subgraph = "bb02", e.generation = 4, e.number = 17, e.us = 12.5;
  view.addTrial(e);
  EXPECT_TRUE(view.now().contains("dW + sgd g4 c17: 12.5")) << view.now().toStdString();
}

}  // namespace
}  // namespace nf
