// SPDX-License-Identifier: GPL-3.0-or-later
// The tune page: plots, playhead, kernel, knobs, budget, profile; driven by clicks and keys.
#include <gtest/gtest.h>

#include <QAction>
#include <QComboBox>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QListWidget>
#include <QPushButton>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <random>

#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/devices_view.h"
#include "widgets/kernel_view.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

struct Tuning : ::testing::Test {
  Theme theme;
  Selection selection;
  Tuning() {
    theme.setMode(Theme::Mode::Dark);
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
  }
  static QByteArray read(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
};

std::vector<StepEvent> manySteps(int count, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<StepEvent> steps;
  for (int i = 0; i < count; ++i) {
    StepEvent e;
    e.step = i * 3 + 1, e.steps = 3, e.seconds = i * 0.02;
    e.ms = 9.0 - 5.0 * i / count + static_cast<double>(rng() % 100) * 0.005;
    e.ms_min = e.ms * 0.97, e.ms_max = e.ms * (rng() % 20 == 0 ? 2.5 : 1.1), e.loss = 2.0 / (1 + i * 0.1);
    steps.push_back(e);
  }
  return steps;
}

std::vector<KernelSwapEvent> manySwaps(int count, int lastStep, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<KernelSwapEvent> swaps;
  for (int i = 0; i < count; ++i) {
    KernelSwapEvent s;
    s.subgraph = "aa01", s.name = "d(L)/d(V.Logit.0.sum) + d(L)/d(Votes) + W.next", s.before_us = 900, s.after_us = 300,
    s.generation = i + 2;
    s.step = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(lastStep));
    swaps.push_back(s);
  }
  std::sort(swaps.begin(), swaps.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return swaps;
}

TEST_F(Tuning, NoTwoLabelsOfALatencyPlotOverlap) {
  for (const int width : {380, 700, 1400})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(width);
      LatencyPlot plot(&theme, false);
      plot.resize(width, 260);
      plot.show();
      plot.setPeer("PyTorch 1.13.1, one thread", 6.5);
      plot.setSteps(manySteps(300, seed), manySwaps(40, 900, seed));
      const auto labels = plot.shownLabels();
      ASSERT_GE(labels.size(), 4u);  // the last value, two references, a swap at least
      for (std::size_t i = 0; i < labels.size(); ++i)
        for (std::size_t k = i + 1; k < labels.size(); ++k)
          EXPECT_FALSE(labels[i].second.intersects(labels[k].second))
              << labels[i].first.toStdString() << " / " << labels[k].first.toStdString();
    }
}

TEST_F(Tuning, ReferenceLinesAreThoseOfThePeerAndOfTheFirstKernels) {
  LatencyPlot plot(&theme, false);
  plot.resize(900, 300);
  plot.show();
  plot.setPeer("PyTorch 1.13.1, one thread", 6.5);
  plot.setSteps(manySteps(300, 4), {});
  QStringList texts;
  for (const auto& [text, rect] : plot.shownLabels()) texts << text;
  EXPECT_TRUE(texts.contains("PyTorch 1.13.1, one thread, 6.5 ms")) << texts.join('|').toStdString();
  EXPECT_TRUE(texts.filter("first kernels").size() == 1) << texts.join('|').toStdString();
  ASSERT_TRUE(plot.crossing());
  plot.setPeer("slow", 1e-3);
  EXPECT_FALSE(plot.crossing());
}

TEST_F(Tuning, TickLabelsNeverRepeat) {
  for (const int count : {1, 2, 3, 5, 9, 120})
    for (const double spread : {0.01, 1.0, 400.0})
      for (const int width : {300, 700}) {
        TrialsPlot plot(&theme);
        plot.resize(width, 260);
        plot.show();
        std::vector<TrialInfo> trials = capsule::trials(count);
        for (TrialInfo& t : trials) t.us = 55.5 + spread * static_cast<double>(t.number) / count, t.status = TrialStatus::Ok;
        plot.setTrials(trials);
        for (const Qt::Orientation orientation : {Qt::Horizontal, Qt::Vertical}) {
          QStringList labels = plot.tickLabels(orientation);
          const auto before = labels.size();
          EXPECT_EQ(labels.removeDuplicates(), 0) << count << " " << spread << ": " << labels.join('|').toStdString();
          EXPECT_GE(before, 2) << count << " " << spread;
        }
      }
}

TEST_F(Tuning, EveryPlotIsATableAndIsExportedFourWays) {
  TuneView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.setDevice(capsule::devices().devices[0].constants);
  EvalEvent eval;
  eval.step = 300, eval.accuracy = 0.91, eval.loss = 0.3;
  view.setRun(manySteps(100, 1), manySwaps(5, 300, 1), {eval});
  QTemporaryDir folder;
  for (Plot* plot : view.plots()) {
    SCOPED_TRACE(plot->accessibleName().toStdString());
    QString suggested;
    plot->setPathChooser([&](const QString& name) {
      suggested = name;
      return folder.filePath(name);
    });
    for (const char* suffix : {"csv", "json", "png", "svg"}) {
      plot->findChild<QAction*>(suffix)->trigger();
      ASSERT_TRUE(suggested.endsWith(suffix));
      EXPECT_GT(read(folder.filePath(suggested)).size(), 40);
    }
    const QByteArray csv = read(folder.filePath(suggested.section('.', 0, 0) + ".csv"));
    EXPECT_EQ(static_cast<std::size_t>(csv.count('\n')), plot->table().rows.size() + 1);
    const auto json = QJsonDocument::fromJson(read(folder.filePath(suggested.section('.', 0, 0) + ".json"))).array();
    EXPECT_EQ(static_cast<std::size_t>(json.size()), plot->table().rows.size());
    plot->findChild<QAction*>("table")->trigger();
    ASSERT_TRUE(plot->showsTable());
    EXPECT_EQ(static_cast<std::size_t>(plot->tableView()->model()->rowCount()), plot->table().rows.size());
    plot->findChild<QAction*>("table")->trigger();
    EXPECT_FALSE(plot->showsTable());
  }
  EXPECT_EQ(view.latency()->table().rows.size(), 100u);
  EXPECT_EQ(view.loss()->table().rows.size(), 101u);
}

TEST_F(Tuning, TheLegendCountsFourKindsOfFailure) {
  TrialsLegend legend(&theme);
  auto trials = capsule::trials();
  trials[2].status = TrialStatus::Failed, trials[2].us.reset();
  legend.setTrials(trials);
  for (const char* words : {"wrong result ", "not compiled 1", "timed out ", "killed its worker ", "best so far"})
    EXPECT_TRUE(legend.text().contains(words)) << words;
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

TEST_F(Tuning, MeasuredStandsAgainstPredicted) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  auto* axis = view.findChild<QComboBox*>("trialsAxis");
  ASSERT_TRUE(axis);
  axis->setFocus();
  QTest::keyClick(axis, Qt::Key_End);
  view.trials()->shownLabels();
  const auto trial = capsule::trials()[42];
  const QPoint at = view.trials()->pixelOf(42);
  EXPECT_NEAR(view.trials()->valueAt(at).x(), *trial.predictedUs, *trial.predictedUs * 0.05);
  EXPECT_NEAR(view.trials()->valueAt(at).y(), *trial.us, *trial.us * 0.05);
}

TEST_F(Tuning, AKnobIsSetByHandAndItsResultStandsInPlace) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.setSpace(capsule::space("aa01"));
  JsonText asked;
  QObject::connect(&view, &TuneView::measureRequested, &view, [&](const std::string&, const JsonText& s) { asked = s; });
  QComboBox* tile = view.knob("tile");
  ASSERT_TRUE(tile);
  tile->setFocus();
  QTest::keyClick(tile, Qt::Key_End);
  QTest::mouseClick(view.measure(), Qt::LeftButton);
  EXPECT_EQ(knobsOf(asked.text).at("tile"), "[8,8]");
  EXPECT_FALSE(view.measure()->isEnabled());
  TrialInfo t;
  t.number = 120, t.us = 21, t.lowUs = 20, t.highUs = 22, t.schedule = asked;
  view.setMeasured(t);
  EXPECT_TRUE(view.measure()->isEnabled());
  EXPECT_TRUE(view.measured().contains("faster than the best")) << view.measured().toStdString();
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

TEST_F(Tuning, TagsTieTokensToLines) {
  KernelView view(&theme, &selection);
  view.setSpanText(
      [](const SourceSpan& span) { return QString::fromStdString(capsule::kText.substr(span.begin, span.end - span.begin)); });
  view.resize(700, 600);
  view.show();
  view.setKernel(capsule::kernel("aa01", 41));
  ASSERT_EQ(view.tags().size(), 2u);  // the statement holds both accesses: it says less
  EXPECT_EQ(view.tags()[0].text, "A[b, c, p*2+r, q*2+s, i, l]");
  EXPECT_EQ(view.tags()[0].lines, std::vector<int>{4});
  EXPECT_GE(view.tags()[0].begin, 0);
  EXPECT_EQ(view.tags()[1].lines, std::vector<int>{5});
  view.showLanguage("llvm");
  ASSERT_EQ(view.tags().size(), 2u);
  EXPECT_EQ(view.tags()[0].lines, std::vector<int>{2});
  selection.select({view.tags()[1].origin});
  EXPECT_EQ(view.tintedLines(), view.tags()[1].lines);
}

TEST_F(Tuning, TwoCandidatesAreCompared) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.chooseTrial(40);
  view.setKernel(capsule::kernel("aa01", 40));
  std::vector<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) {
    if (t) wanted.push_back(*t);
  });
  QComboBox* with = view.kernel()->comparison();
  ASSERT_GT(with->count(), 2);
  with->setFocus();
  QTest::keyClick(with, Qt::Key_Down);
  ASSERT_FALSE(wanted.empty());
  view.setKernel(capsule::otherKernel("aa01", wanted.back()));
  EXPECT_EQ(view.kernel()->difference(), (std::pair{1, 1}));
  EXPECT_TRUE(view.kernel()->text().contains("for k in 0..16"));
  selection.select({1});
  EXPECT_EQ(view.kernel()->tintedLines().size(), 1u);
  QTest::keyClick(with, Qt::Key_Home);
  EXPECT_EQ(view.kernel()->difference(), (std::pair{0, 0}));
}

TEST_F(Tuning, AssemblyIsShownWithoutDirectivesAndKeepsItsOrigins) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  k.texts = {{"asm",
              "\t.text\n\t.file\t\"A\"\nkernel:\n\t.cfi_startproc\n.Ltmp0:\n\t.loc\t1 2 3\n\tvmovups\t(%rsi), "
              "%zmm0\n\tretq\n\t.section\t.debug_info,\"\",@progbits\n\t.byte\t0\n",
              {{}, {}, {0}, {0}, {1}, {1}, {1}, {0}, {}, {}}}};
  view.setKernel(k);
  view.showLanguage("asm");
  EXPECT_TRUE(view.text().contains("vmovups"));
  EXPECT_FALSE(view.text().contains(".cfi"));
  EXPECT_FALSE(view.text().contains(".byte"));
  selection.select({1});
  ASSERT_EQ(view.tintedLines().size(), 1u);
  EXPECT_TRUE(view.text().split('\n')[view.tintedLines()[0]].contains("vmovups"));
}

TEST_F(Tuning, TheProfileIsATableWithASentence) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  DeviceConstants device;
  device.bandwidth = 20e9, device.flopRate = 100e9, device.launchSeconds = 2e-6;
  view.setDevice(device);
  view.setProfile(capsule::profile(1, true));
  const auto* model = view.profile()->model();
  const auto text = [&](int row, int column) { return model->data(model->index(row, column), Qt::DisplayRole).toString(); };
  EXPECT_EQ(text(0, ProfileModel::kKernel), "dW + sgd");
  EXPECT_EQ(text(0, ProfileModel::kTime), "900 µs");
  EXPECT_EQ(text(0, ProfileModel::kShare), "82 %");
  EXPECT_EQ(text(0, ProfileModel::kArithmetic), "48.0");
  EXPECT_EQ(text(1, ProfileModel::kBandwidth), "15.0");
  EXPECT_TRUE(model->limitOf(0).startsWith("Limited by arithmetic: 48 %")) << model->limitOf(0).toStdString();
  EXPECT_TRUE(model->limitOf(1).startsWith("Limited by memory: 75 %")) << model->limitOf(1).toStdString();
  EXPECT_TRUE(model->limitOf(2).startsWith("Limited by its launch")) << model->limitOf(2).toStdString();
  view.profile()->table()->setFocus();
  QTest::keyClick(view.profile()->table(), Qt::Key_Home, Qt::ControlModifier);
  EXPECT_EQ(view.current(), "bb02");
  QTest::keyClick(view.profile()->table(), Qt::Key_Down);
  EXPECT_EQ(view.current(), "aa01");
  EXPECT_TRUE(view.profile()->sentence().startsWith("Limited by memory"));
  QTemporaryDir folder;
  ASSERT_TRUE(view.profile()->save(folder.filePath("p.csv")));
  EXPECT_EQ(read(folder.filePath("p.csv")).count('\n'), 4);
}

TEST_F(Tuning, PlotsRedrawAtMostTwentyTimesASecondAndNotAtAllWhenIdleOrHidden) {
  LatencyPlot plot(&theme, false);
  plot.resize(400, 200);
  plot.show();
  ASSERT_TRUE(QTest::qWaitFor([&] { return plot.redraws() > 0; }));
  QElapsedTimer clock;
  clock.start();
  const std::int64_t before = plot.redraws();
  for (const StepEvent& e : manySteps(400, 9)) {
    plot.addStep(e);
    QCoreApplication::processEvents();
  }
  // A slow machine draws less often, never more.
  EXPECT_LE(plot.redraws() - before, clock.elapsed() / 45 + 2);
  ASSERT_TRUE(QTest::qWaitFor([&] { return plot.redraws() > before; }));
  plot.hide();
  const std::int64_t hidden = plot.redraws();
  plot.addStep({});
  LatencyPlot other(&theme, false);
  other.show();
  ASSERT_TRUE(QTest::qWaitFor([&] { return other.redraws() > 0; }));  // time has passed for both
  EXPECT_EQ(plot.redraws(), hidden);
  plot.show();
  ASSERT_TRUE(QTest::qWaitFor([&] { return plot.redraws() > hidden; }));
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
  done.steps = 920, done.seconds = 6.5, done.first_step_ms = 400;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Trained 920 steps in 6.5 s, first step after 400 ms");
  strip.grab();
}

TEST_F(Tuning, NotANumberIsCountedInSight) {
  TensorView view(&theme, false);
  view.setTensor("W", {2, 2});
  TensorSlice slice;
  slice.tensor = "W", slice.shape = {2, 2}, slice.begin = {0, 0}, slice.end = {2, 2}, slice.min = -1, slice.max = 2, slice.nans = 1,
  slice.step = 40;
  view.setSlice(slice, {-1, 2, std::nan(""), 0});
  EXPECT_TRUE(view.facts().contains("<b")) << view.facts().toStdString();
  EXPECT_TRUE(view.facts().contains("at step 40"));
  EXPECT_TRUE(view.model()->data(view.model()->index(0, 1), Qt::BackgroundRole).isValid());
  EXPECT_FALSE(view.model()->data(view.model()->index(1, 0), Qt::BackgroundRole).isValid());
  view.setUnavailable("W", "W is not kept while training: fused kernels never write it.");
  EXPECT_TRUE(view.note().contains("never write it"));
}

TEST_F(Tuning, DevicesSayWhatIsMissingAndWhy) {
  DevicesView view(&theme);
  view.resize(1600, 900);
  view.show();
  view.setDevices(capsule::devices());
  view.setDevices(capsule::devices());
  QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  QStringList texts;
  for (const QLabel* l : view.findChildren<QLabel*>()) texts << l->text();
  EXPECT_TRUE(texts.contains("no CUDA driver was found: libcuda.so.1 is not there"));
  EXPECT_TRUE(texts.contains("21.4 GB/s"));
  EXPECT_TRUE(texts.contains("measured 12 min 0 s ago"));
  // Everything has a place: nothing is drawn over or outside of its parent.
  QCoreApplication::processEvents();
  for (const QLabel* l : view.findChildren<QLabel*>())
    if (!l->text().isEmpty()) { EXPECT_TRUE(l->isVisible() && l->width() > 0 && l->height() >= 12) << l->text().toStdString(); }
  bool asked = false;
  QObject::connect(&view, &DevicesView::measureWanted, &view, [&] { asked = true; });
  QTest::mouseClick(view.measure(), Qt::LeftButton);
  EXPECT_TRUE(asked);
}

}  // namespace
}  // namespace nf
