// SPDX-License-Identifier: GPL-3.0-or-later
// The tune page: plots, playhead, kernel, knobs, budget, profile; driven by clicks and keys.
#include <gtest/gtest.h>
#include <qcustomplot.h>

#include <QAction>
#include <QComboBox>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QTableView>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBlock>
#include <QTextLayout>
#include <QToolButton>
#include <cmath>
#include <random>

#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/devices_view.h"
#include "widgets/kernel_view.h"
#include "widgets/names.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/swap_list.h"
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
  const auto texts = [&] {
    QStringList out;
    for (const auto& [text, rect] : plot.shownLabels()) out << text;
    return out;
  };
  std::vector<StepEvent> steps = manySteps(300, 4);
  plot.setSteps(steps, {});
  EXPECT_TRUE(texts().contains("PyTorch 1.13.1, one thread, 6.5 ms")) << texts().join('|').toStdString();
  EXPECT_TRUE(texts().filter("first kernels").isEmpty()) << "nothing was swapped: " << texts().join('|').toStdString();
  // The cold step does not speak for the first kernels, nor do those after the swap.
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].ms = i == 0 ? 900 : i < 60 ? 8 : 2, steps[i].steps = 1;
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].step = static_cast<std::int64_t>(i + 1);
  KernelSwapEvent swap;
  swap.name = "Y", swap.step = 60;
  plot.setSteps(steps, {swap});
  EXPECT_EQ(plot.firstKernels(), 8);
  EXPECT_TRUE(texts().contains("first kernels, 8 ms")) << texts().join('|').toStdString();
  EXPECT_EQ(plot.now(), 2);
  // The label says what the line shows, which a stop of the machine does not move.
  StepEvent slept = steps.back();
  slept.step += 1, slept.ms = 17000;
  steps.push_back(slept);
  steps[steps.size() - 3].ms = 2.5;
  plot.setSteps(steps, {swap});
  EXPECT_EQ(plot.now(), 2);
  EXPECT_TRUE(texts().contains("2 ms")) << texts().join('|').toStdString();
  plot.setSteps(manySteps(300, 4), {});
  ASSERT_TRUE(plot.againstPeer() && plot.againstPeer()->from);
  plot.setPeer("slow", 1e-3);
  EXPECT_FALSE(plot.againstPeer()->from);
}

// "From step n on" holds up to the last step.
TEST_F(Tuning, ARunThatFallsBehindAgainIsNotCalledFaster) {
  LatencyPlot plot(&theme, false);
  plot.setPeer("PyTorch", 5);
  std::vector<StepEvent> steps(60);
  const auto take = [&](std::size_t from, std::size_t to, double ms) {
    for (std::size_t i = from; i < to; ++i) steps[i].step = static_cast<std::int64_t>(i + 1), steps[i].steps = 1, steps[i].ms = ms;
    plot.setSteps(steps, {});
  };
  take(0, 60, 4);
  EXPECT_EQ(plot.againstPeer()->from, 1);
  take(30, 34, 6);
  EXPECT_EQ(plot.againstPeer()->from, 1) << "four slow ones are noise";
  take(30, 40, 6);
  EXPECT_EQ(plot.againstPeer()->from, 41);
  take(40, 60, 6);
  EXPECT_EQ(plot.againstPeer()->from, std::nullopt);
  EXPECT_EQ(plot.againstPeer()->ms, 6);
}

TEST_F(Tuning, ALossOfZeroLeavesTheAxisLogarithmic) {
  LossPlot plot(&theme, false);
  plot.resize(700, 260);
  plot.show();
  std::vector<StepEvent> steps(200);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].step = static_cast<std::int64_t>(i + 1), steps[i].steps = 1;
    steps[i].loss = i < 190 ? std::pow(10.0, -static_cast<double>(i) / 20) : 0;
  }
  plot.setRun(steps, {});
  QStringList texts;
  for (const auto& [text, rect] : plot.shownLabels()) texts << text;
  EXPECT_TRUE(texts.contains("loss 0")) << texts.join('|').toStdString();
  EXPECT_EQ(plot.findChild<QCustomPlot*>()->yAxis->scaleType(), QCPAxis::stLogarithmic);
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
  subgraphs[0].inUse = trials[3].schedule;
  ASSERT_EQ(subgraphs[0].id, "aa01");
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(view.trials()->inUse(), trials[3].number);
  view.chooseTrial(trials[3].number);
  EXPECT_TRUE(view.lineage().contains("in use")) << view.lineage().toStdString();
  subgraphs[0].inUse = trials[5].schedule;  // a swap
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(view.trials()->inUse(), trials[5].number);
  EXPECT_FALSE(view.lineage().contains("in use"));
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

TEST_F(Tuning, OneTrialIsACurveToo) {
  TrialsPlot plot(&theme);
  plot.resize(600, 260);
  plot.show();
  auto trials = capsule::trials(1);
  trials[0].how = "on record";
  plot.setTrials(trials);
  const auto line = plot.bestSoFar();
  ASSERT_EQ(line.size(), 2);
  EXPECT_LT(line[0].x(), line[1].x());
  EXPECT_DOUBLE_EQ(line[1].y(), *trials[0].us);
  bool named = false;
  for (const auto& [text, rect] : plot.shownLabels()) named = named || text.startsWith("best 940");
  EXPECT_TRUE(named);
  plot.setTrials(capsule::trials());
  double best = 1e300;
  for (const QPointF& p : plot.bestSoFar()) {
    EXPECT_LE(p.y(), best);
    best = p.y();
  }
}

TEST_F(Tuning, BestSoFarIsFasterBeyondNoise) {
  TrialsPlot plot(&theme);
  plot.resize(600, 260);
  plot.show();
  auto trials = capsule::trials(3);
  const double figures[][3] = {{136, 95.6, 177}, {129, 128, 130}, {80, 79, 81}};
  for (std::size_t i = 0; i < 3; ++i)
    trials[i].us = figures[i][0], trials[i].lowUs = figures[i][1], trials[i].highUs = figures[i][2],
    trials[i].status = TrialStatus::Ok;
  const auto third = trials[2];
  trials.pop_back();
  plot.setTrials(trials);
  EXPECT_DOUBLE_EQ(plot.bestSoFar().back().x(), 1) << "the last trial";
  // The second is lower, its interval lies within the first one's.
  for (const QPointF& p : plot.bestSoFar()) EXPECT_DOUBLE_EQ(p.y(), 136);
  QStringList texts;
  for (const auto& [text, rect] : plot.shownLabels()) texts << text;
  EXPECT_TRUE(texts.contains("129 µs, within the noise of 136 µs")) << texts.join('|').toStdString();
  trials.push_back(third);
  plot.setTrials(trials);
  EXPECT_DOUBLE_EQ(plot.bestSoFar().back().y(), 80);
}

TEST_F(Tuning, ANarrowLegendLosesNoEntry) {
  TrialsLegend legend(&theme);
  auto trials = capsule::trials();
  trials[2].status = TrialStatus::Slow;
  legend.setTrials(trials);
  legend.show();
  for (const int width : {360, 620, 1200}) {
    SCOPED_TRACE(width);
    legend.resize(width, legend.height());
    const auto places = legend.places();
    ASSERT_EQ(places.size(), 7u);
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_TRUE(legend.rect().contains(places[i])) << i;
      for (std::size_t k = i + 1; k < places.size(); ++k) EXPECT_FALSE(places[i].intersects(places[k])) << i << " " << k;
    }
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

TEST_F(Tuning, AKernelThatDoesNotComeIsSaid) {
  KernelView view(&theme, &selection);
  view.setKernel(capsule::kernel("aa01", 1));
  view.setPending("g3 c2");
  view.setFailed("It was refused.");
  EXPECT_EQ(view.detail(), "below is g4 c1. It was refused.");
}

TEST_F(Tuning, FactsOfAKernelGiveWayToTheMapping) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  k.facts = {{"template", "contraction"}, {"stages", "2"}, {"workspace", "110592 B"}, {"code", "8840 B"}, {"vector", "512 bits"}};
  view.show();
  for (const int width : {420, 520, 700, 1200}) {
    SCOPED_TRACE(width);
    view.resize(width, 500);
    view.setKernel(k);
    selection.select({1});
    for (const QLabel* l : view.findChildren<QLabel*>())
      if (l->textFormat() == Qt::RichText && l->isVisible() && !l->wordWrap()) {
        EXPECT_LE(l->sizeHint().width(), l->width() + 2) << view.facts().toStdString();
        EXPECT_TRUE(l->toolTip().contains("vector 512 bits"));
      }
  }
  EXPECT_TRUE(view.facts().contains("vector 512 bits"));
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

TEST_F(Tuning, ASearchWithoutTrainingSaysItsTrialsAndItsTime) {
  TuneView view(&theme, &selection);
  RunState run;
  run.phase = RunPhase::Tuning, run.trials = 24, run.seconds = 12, run.secondsLeft = 30, run.detail = "trial 24 of 64";
  view.setRunState(run);
  EXPECT_EQ(view.spent(), "the whole device: 24 trials, 12 s, 30 s left");
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

TEST_F(Tuning, WhatAnEmptyPlotSaysHasRoom) {
  LossPlot plot(&theme, true);
  for (const int width : {180, 320, 900}) {
    plot.resize(width, 104);
    plot.show();
    const QImage image = plot.grab().toImage();
    const QRgb page = image.pixel(0, 0);
    for (int y = 0; y < image.height(); ++y) {
      EXPECT_EQ(image.pixel(1, y), page) << width;
      EXPECT_EQ(image.pixel(image.width() - 2, y), page) << width;
    }
  }
}

TEST_F(Tuning, AFileThatCannotBeWrittenIsSaidInPlace) {
  LossPlot plot(&theme, false);
  plot.resize(500, 300);
  plot.show();
  for (const char* suffix : {"csv", "json", "png", "svg"}) {
    plot.setPathChooser([&](const QString&) { return QStringLiteral("/nowhere/at/all.") + suffix; });
    plot.findChild<QAction*>(suffix)->trigger();
    auto* said = plot.findChild<QLabel*>("unsaved");
    ASSERT_TRUE(said->isVisible()) << suffix;
    EXPECT_TRUE(said->text().startsWith(QStringLiteral("all.%1 was not written: ").arg(suffix))) << said->text().toStdString();
  }
  QTemporaryDir folder;
  plot.setPathChooser([&](const QString& name) { return folder.filePath(name); });
  plot.findChild<QAction*>("csv")->trigger();
  EXPECT_FALSE(plot.findChild<QLabel*>("unsaved")->isVisible());
}

TEST_F(Tuning, SmallValuesHaveShortTicks) {
  EXPECT_EQ(plainTick(1e-6, 0, 1), QStringLiteral("10⁻⁶"));
  EXPECT_EQ(plainTick(2e-7, 0, 1), QStringLiteral("2·10⁻⁷"));
  EXPECT_EQ(plainTick(3e12, 0, 1), QStringLiteral("3·10¹²"));
  EXPECT_EQ(plainTick(0.01, 0, 1), "0.01");
  EXPECT_EQ(plainTick(30, 0, 100), "30");
  EXPECT_EQ(plainTick(0, 0, 1), "0");
}

TEST_F(Tuning, TheRooflineHasTheCeilingOfTheCache) {
  RooflinePlot plot(&theme);
  plot.resize(700, 400);
  plot.show();
  SubgraphInfo s;
  s.id = "aa", s.name = "Y", s.bytes = 1000, s.flops = 1000, s.us = 0.05;  // 20 GB/s: more than memory gives
  DeviceConstants device;
  device.bandwidth = 10e9, device.l2Bandwidth = 40e9, device.flopRate = 100e9, device.launchSeconds = 1e-7;
  plot.setDevice(device);
  plot.setSubgraphs({s}, "aa");
  QStringList texts;
  for (const auto& [text, rect] : plot.shownLabels()) texts << text;
  EXPECT_EQ(texts.filter("50 % of what L2 gives").size(), 1) << texts.join('|').toStdString();
  s.us = 0.2;
  plot.setSubgraphs({s}, "aa");
  texts.clear();
  for (const auto& [text, rect] : plot.shownLabels()) texts << text;
  EXPECT_EQ(texts.filter("50 % of its ceiling").size(), 1) << texts.join('|').toStdString();
}

// Small as it may be, no name stands on another one, those along the ceilings included.
TEST_F(Tuning, NoNameOfTheRooflineStandsOnAnother) {
  RooflinePlot plot(&theme);
  DeviceConstants device;
  device.bandwidth = 25.2e9, device.l2Bandwidth = 110e9, device.flopRate = 118e9, device.launchSeconds = 2e-7;
  plot.setDevice(device);
  std::size_t slopes = 0;
  for (const QSize size : {QSize(490, 190), QSize(640, 250), QSize(360, 200)}) {
    plot.resize(size);
    plot.show();
    for (const double share : {0.02, 0.1, 0.3, 0.6, 0.95})
      for (const std::int64_t flops : {60, 300, 1200, 2100, 8000}) {
        SubgraphInfo s, other;
        s.id = "aa", s.name = "Length.Q and 20 more", s.bytes = 1000, s.flops = flops;
        const double roof = std::min(device.flopRate, device.bandwidth * static_cast<double>(flops) / 1000);
        s.us = static_cast<double>(flops) / (roof * share) * 1e6;
        other = s, other.id = "bb", other.name = "A.sum + A", other.bytes = 700, other.us = *s.us * 1.3;
        plot.setSubgraphs({s, other}, "aa");
        const auto labels = plot.shownLabels();
        const auto names = plot.slopeNames();
        slopes += names.size();
        for (std::size_t i = 0; i < names.size(); ++i) {
          for (const auto& [text, rect] : labels)
            EXPECT_FALSE(QPolygonF(rect).intersects(names[i])) << text.toStdString() << " at " << size.width() << ", " << share;
          for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(names[k].intersects(names[i]));
        }
      }
  }
  EXPECT_GT(slopes, 2u * 60) << "both of nearly every picture are named";
}

TEST_F(Tuning, ADeviceIsInUseWhileSomethingRunsOnIt) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  const auto devices = capsule::devices();
  view.setDevices(devices);
  const std::string name = devices.devices[0].name;
  EXPECT_EQ(view.stateOf(name), "ready");
  view.setRunning(name, "training");
  EXPECT_EQ(view.stateOf(name), "in use: training");
  view.setDevices(devices);
  EXPECT_EQ(view.stateOf(name), "in use: training");
  view.setRunning({}, {});
  EXPECT_EQ(view.stateOf(name), "ready");
}

TEST_F(Tuning, AnotherOfSeveralDevicesIsChosenOnItsCard) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  protocol::Devices devices;
  for (const char* name : {"cuda:0", "cuda:1", "cuda:2"}) {
    protocol::DeviceInfo d;
    d.name = name;
    d.backend = "cuda";
    d.inUse = d.name == "cuda:0";
    if (d.name == "cuda:2") d.unavailable = "cuda:2 has compute capability 6.1; 7.5 or later is needed.";
    devices.devices.push_back(d);
  }
  view.setDevices(devices);
  const auto use = [&](const char* name) {
    return view.findChild<QWidget*>(QString::fromLatin1(name))->findChild<QToolButton*>(QStringLiteral("use"));
  };
  EXPECT_FALSE(use("cuda:0")->isEnabled());
  EXPECT_EQ(use("cuda:2"), nullptr) << "what can't be used is listed with its reason alone";
  QString wanted;
  QObject::connect(&view, &DevicesView::deviceWanted, &view, [&](const QString& name) { wanted = name; });
  QTest::mouseClick(use("cuda:1"), Qt::LeftButton);
  EXPECT_EQ(wanted, "cuda:1");
}

// No number without its noise, and one that is noisy says so.
TEST_F(Tuning, AConstantHasItsIntervalAndAWideOneIsWarnedOf) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  auto devices = capsule::devices();
  devices.devices[0].kernels.reset();
  auto& k = *devices.devices[0].constants;
  k.bandwidth = 5.56e9, k.bandwidthInterval = {5.41e9, 5.62e9, 64};
  k.flopRate = 118e9, k.flopInterval = {117e9, 119e9, 64};
  k.launchSeconds = 202e-9, k.launchInterval = {200e-9, 204e-9, 64};
  const auto noises = [&] {
    QStringList out;
    QCoreApplication::processEvents();
    for (const QLabel* l : view.findChildren<QLabel*>(QStringLiteral("noise")))
      if (l->isVisible()) out << l->text();
    return out.join(QStringLiteral(" | "));
  };
  const auto warning = [&]() -> QString {
    QCoreApplication::processEvents();
    for (QWidget* w : view.findChildren<QWidget*>(QStringLiteral("shaky")))
      if (w->isVisible()) return static_cast<MessageStrip*>(w)->text();
    return {};
  };
  view.setDevices(devices);
  EXPECT_EQ(noises().toStdString(), "[5.41, 5.62]  n = 64 | [117, 119]  n = 64 | [200, 204]  n = 64");
  EXPECT_EQ(warning(), QString());
  k.bandwidthInterval.low = 3.1e9;
  view.setDevices(devices);
  EXPECT_TRUE(warning().contains("The interval of P_d is wide")) << warning().toStdString();
  k.bandwidthInterval = {};
  view.setDevices(devices);
  EXPECT_TRUE(noises().startsWith("interval not known")) << noises().toStdString();
  EXPECT_EQ(warning(), QString());
}

TEST_F(Tuning, KernelsThatBeginAlikeHaveNamesOfTheirOwn) {
  const std::string adam = "F1.adam.c1 + F1.adam.m", shared = " + F1.adam.v + b1.next";
  EXPECT_EQ(kernelNames({adam + " + F1.next" + shared, "L", adam + " + W.next" + shared, "d(L)/d(A)"}, 16),
            (QStringList{"F1.next +4", "L", "W.next +4", "dA"}));
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

TEST_F(Tuning, ATokenLeadsToTheKernelAroundItAndARowOfTheProfileToItsToken) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setProfile(capsule::profile(1, false));
  selection.select({2});  // the access of W: what came from it comes before what is around it
  EXPECT_EQ(view.current(), "bb02");
  selection.select({1});  // the access of A stands in Y alone
  EXPECT_EQ(view.current(), "aa01");
  QTableView* table = view.profile()->findChild<QTableView*>();
  ASSERT_TRUE(table);
  table->setFocus();
  table->setCurrentIndex(table->model()->index(2, 0));
  EXPECT_EQ(view.current(), "cc03");
  EXPECT_EQ(selection.origins(), Origins{3});
}

// One expression in two cells is one kernel. The place that the selection is in is the one that lines and tags lead to.
TEST_F(Tuning, EachPlaceOfAKernelSelectsItsOwnTokens) {
  const std::string text = "P[i] = sum[k] A[i, k] * A[i, k]\nQ[i] = sum[k] B[i, k] * B[i, k]\n";
  const auto p = capsule::spanOf(text, "P[i] = sum[k] A[i, k] * A[i, k]"),
             q = capsule::spanOf(text, "Q[i] = sum[k] B[i, k] * B[i, k]");
  const auto a = capsule::spanOf(text, "A[i, k]"), b = capsule::spanOf(text, "B[i, k]");
  selection.setSpans({p, a, q, b});
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setSpanText([&](const SourceSpan& s) { return QString::fromStdString(text.substr(s.begin, s.end - s.begin)); });
  Kernel k = capsule::kernel("aa01", {});
  k.expression = "P[i] = sum[k] A[i, k] * A[i, k]";
  k.expressionOrigins = {{0, 2}};
  k.texts = {{"loops", "parallel for i\n  load A\n  store\n", {{0, 2}, {1, 3}, {0, 2}}}};
  view.setKernel(k);
  view.setInstances({{0}, {2}});
  const auto tag = [&] { return view.tags().size() == 1 ? view.tags()[0].text : QString(); };
  selection.select({3});
  EXPECT_EQ(tag(), "B[i, k]");
  EXPECT_EQ(view.tintedLines(), std::vector<int>{1});
  view.chooseLine(0);
  EXPECT_EQ(selection.origins(), Origins{2});
  view.chooseLine(1);
  EXPECT_EQ(selection.origins(), Origins{3});
  selection.select({1});
  EXPECT_EQ(tag(), "A[i, k]");
  EXPECT_EQ(view.tintedLines(), std::vector<int>{1});
  view.chooseLine(0);
  EXPECT_EQ(selection.origins(), Origins{0});
  selection.clear();  // the last place stays
  view.chooseLine(1);
  EXPECT_EQ(selection.origins(), Origins{1});
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
  ASSERT_EQ(view.profile()->save(folder.filePath("p.csv")), "");
  EXPECT_NE(view.profile()->save("/nowhere/p.csv"), "");
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
  done.steps = 920, done.seconds = 6.5, done.first_step_ms = 420, done.preparation_ms = 400;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Trained 920 steps in 6.5 s, after 400 ms of preparation");
  strip.grab();
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
  // The interval is in the figure's unit, below a microsecond and about one, too.
  done.median_step_ms_last_tenth = 0.000381, done.last_tenth_low_ms = 0.00038, done.last_tenth_high_ms = 0.00139;
  strip.setDone(done);
  EXPECT_TRUE(strip.figures().contains("381 ns\nmedian step, last tenth\n[380, 1390] ns  n = 88")) << strip.figures().toStdString();
}

TEST_F(Tuning, TimesBelowAMicrosecondAreNanoseconds) {
  EXPECT_EQ(microsecondsText(0.124), "124 ns");
  EXPECT_EQ(microsecondsText(0.0936), "93.6 ns");
  EXPECT_EQ(microsecondsText(1.0), "1.00 µs");
  EXPECT_EQ(measuredText(0.203, 0.202, 0.204), "203 ns [202, 204]");
  EXPECT_EQ(measuredText(1500, 980, 1600), "1.50 ms [0.980, 1.60]");
}

// 20 000 steps within one frame: what the engine tells of is drawn where it bends and to the end.
TEST_F(Tuning, ACurveOfFastStepsHasItsShape) {
  std::vector<StepEvent> steps;
  for (std::int64_t step = 0; step < 20000;) {
    StepEvent e;
    e.steps = std::max<std::int64_t>(1, step / 256);
    e.step = step += e.steps;
    e.ms = 0.002, e.ms_min = 0.0019, e.ms_max = step > 9000 && step < 9100 ? 0.2 : 0.0022;
    e.loss = 150.0 / (1 + static_cast<double>(step) * 0.1), e.loss_min = *e.loss * 0.5, e.loss_max = *e.loss * 1.5;
    e.seconds = static_cast<double>(step) * 2.2e-6;
    steps.push_back(e);
  }
  LatencyPlot latency(&theme, false);
  LossPlot loss(&theme, false);
  for (Plot* plot : {static_cast<Plot*>(&latency), static_cast<Plot*>(&loss)}) plot->resize(900, 260), plot->show();
  latency.setSteps(steps, {});
  loss.setRun(steps, {});
  for (Plot* plot : {static_cast<Plot*>(&latency), static_cast<Plot*>(&loss)}) {
    SCOPED_TRACE(plot->accessibleName().toStdString());
    [[maybe_unused]] const auto drawn = plot->shownLabels();
    const QCPGraph* line = plot->plot()->graph(2);
    ASSERT_GT(line->dataCount(), 150);
    double before = 0;
    for (int i = 0; i < line->dataCount(); ++i) {
      EXPECT_LE(line->data()->at(i)->key - before, 20000 * 0.02);
      before = line->data()->at(i)->key;
    }
    EXPECT_EQ(before, static_cast<double>(steps.back().step));
  }
  bool found = false;
  EXPECT_GT(latency.plot()->graph(1)->data()->valueRange(found).upper, 0.19) << "one slow step is in the band";
  EXPECT_NEAR(loss.plot()->graph(1)->data()->valueRange(found).upper, *steps.front().loss_max, 1e-9);
  EXPECT_EQ(loss.table().rows.front()[4].toDouble(), *steps.front().loss_max);
}

// A name that would lie on a curve stands elsewhere along its line.
TEST_F(Tuning, TheNameOfAReferenceKeepsOffTheCurve) {
  LatencyPlot plot(&theme, false);
  plot.resize(900, 260);
  plot.show();
  std::vector<StepEvent> steps;
  for (int i = 1; i <= 300; ++i) {
    StepEvent e;
    // Far below the reference, and around it at the end.
    e.step = i, e.ms = i < 200 ? 2 : 6.5, e.ms_min = e.ms * 0.9, e.ms_max = e.ms * 1.1, e.seconds = i * 0.01;
    steps.push_back(e);
  }
  plot.setSteps(steps, {});
  plot.setPeer("PyTorch 1.13.1, one thread", 6.5);
  QRectF label;
  for (const auto& [text, rect] : plot.shownLabels())
    if (text.startsWith("PyTorch")) label = rect;
  ASSERT_FALSE(label.isNull());
  const double curve = plot.plot()->xAxis->coordToPixel(199);
  EXPECT_LT(label.right(), curve);
}

TEST_F(Tuning, AHeldOutLossIsNamedAndTheAccuracyHasBothEnds) {
  LossPlot plot(&theme, false);
  plot.resize(620, 130);
  plot.show();
  std::vector<EvalEvent> evals;
  for (int i = 1; i < 20; ++i) {
    EvalEvent e;
    e.step = i * 30, e.accuracy = 0.786 + 0.002 * i, e.loss = 2.0 / i;
    evals.push_back(e);
  }
  plot.setRun(manySteps(200, 3), evals);
  QStringList texts;
  for (const auto& [text, rect] : plot.shownLabels()) texts << text;
  EXPECT_TRUE(texts.contains("held-out loss")) << texts.join('|').toStdString();
  EXPECT_EQ(plot.plot()->yAxis2->tickVectorLabels(), (QVector<QString>{"78.8 %", "82.4 %"}));
}

// Names stand right of all lines, each in the order of its line and none over another, however near the lines end.
TEST_F(Tuning, TheLinesOfALossAreNamedAtTheirEnds) {
  for (const bool compact : {true, false})
    for (const int width : {380, 620, 1100})
      for (const double heldOut : {0.98, 1.0, 1.02, 40.0}) {
        SCOPED_TRACE(::testing::Message() << compact << ' ' << width << ' ' << heldOut);
        LossPlot plot(&theme, compact);
        plot.resize(width, compact ? 104 : 180);
        plot.show();
        const auto steps = manySteps(200, 3);
        std::vector<EvalEvent> evals;
        for (int i = 1; i <= 20; ++i) {
          EvalEvent e;
          e.step = steps[static_cast<std::size_t>(i) * 10 - 1].step, e.accuracy = 0.5 + 0.02 * i;
          e.loss = heldOut * *steps[static_cast<std::size_t>(i) * 10 - 1].loss;
          evals.push_back(e);
        }
        plot.setRun(steps, evals);
        const auto labels = plot.shownLabels();
        ASSERT_EQ(labels.size(), 3u);
        const double end = plot.plot()->xAxis->coordToPixel(static_cast<double>(steps.back().step));
        for (const auto& [text, rect] : labels) {
          EXPECT_GT(rect.left(), end) << text.toStdString();
          EXPECT_LE(rect.right(), plot.plot()->width()) << text.toStdString();
          EXPECT_GE(rect.top(), 0) << text.toStdString();
          EXPECT_LE(rect.bottom(), plot.plot()->height()) << text.toStdString();
          for (const auto& [other, place] : labels) {
            EXPECT_TRUE(other == text || !rect.intersects(place)) << text.toStdString() << " / " << other.toStdString();
          }
        }
        EXPECT_EQ(plot.plot()->yAxis2->tickLabels(), true);
        EXPECT_LE(plot.plot()->axisRect()->rect().right() + 20, plot.plot()->width()) << "the accuracy has its axis";
      }
}

// Of an expression that is long, or broken by a narrow panel, whole lines are shown.
TEST_F(Tuning, TheExpressionOfAKernelIsCutBetweenLines) {
  for (const int terms : {1, 4, 60})
    for (const int width : {360, 700}) {
      SCOPED_TRACE(::testing::Message() << terms << ' ' << width);
      KernelView view(&theme, &selection);
      view.resize(width, 600);
      view.show();
      Kernel kernel = capsule::kernel("aa01", std::nullopt);
      kernel.expression = "Y[i] = A[i]";
      for (int i = 0; i < terms; ++i) kernel.expression += " + select(z2 // 2 >= " + std::to_string(i) + ", A[i], B[i, k])";
      view.setKernel(kernel);
      QPlainTextEdit* text = nullptr;
      for (QPlainTextEdit* e : view.findChildren<QPlainTextEdit*>())
        if (e->accessibleName() == "Expression of the kernel") text = e;
      ASSERT_TRUE(text);
      const auto lines = [&] { return static_cast<int>(text->document()->size().height()); };  // counted, not pixels
      const int margin = static_cast<int>(text->document()->documentMargin());
      // As they are laid out: a font's line spacing may be a pixel less.
      const QTextLayout& laid = *text->document()->firstBlock().layout();
      EXPECT_TRUE(QTest::qWaitFor([&] {
        const double six = laid.lineCount() > 6 ? laid.lineAt(6).y() : laid.boundingRect().height();
        return lines() > 6 ? text->height() == std::ceil(six) + margin + 1 && !text->toolTip().isEmpty()
                           : text->height() >= six + 2 * margin && text->toolTip().isEmpty();
      })) << lines()
          << " lines in " << text->height();
      // Of several statements those are shown that have room as a whole.
      const int whole = laid.lineCount();
      if (terms != 4 || whole > 3) continue;
      const std::string statement = kernel.expression;
      for (int i = 0; i < 6; ++i) kernel.expression += "\n" + statement;
      view.setKernel(kernel);
      EXPECT_TRUE(QTest::qWaitFor([&] {
        const QTextLayout& first = *text->document()->firstBlock().layout();
        const double fitting = 6 / whole * first.boundingRect().height();
        return first.lineCount() == whole && text->height() == std::ceil(fitting) + margin + 1;
      })) << whole
          << " lines each in " << text->height();
    }
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

TEST_F(Tuning, TheGenerationsHaveArrowsWhereNotAllFit) {
  TuneView view(&theme, &selection);
  view.resize(1200, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  auto trials = capsule::trials(360);
  view.setTrials("aa01", trials);
  GenerationStrip* strip = view.generations();
  ASSERT_TRUE(strip->back()->isVisible());
  // The kernel shown is the fastest of all: its generation is the one that is marked, and each box is its own fastest.
  std::uint64_t best = 0;
  for (const TrialInfo& t : trials)
    if (t.status == TrialStatus::Ok && t.us && *t.us < *trials[best].us) best = t.number;
  const auto marked = strip->generations()[static_cast<std::size_t>(strip->current())];
  EXPECT_EQ(marked.number, trials[best].generation);
  EXPECT_EQ(marked.best, best);
  for (const auto& g : strip->generations()) EXPECT_EQ(trials[g.best].generation, g.number);
  view.chooseTrial(359);
  EXPECT_FALSE(strip->forward()->isEnabled());
  const auto newest = strip->shown();
  EXPECT_EQ(newest.back(), 359 / 16);
  EXPECT_GT(newest.front(), 0);
  // By keys alone: to the button, and back to the first generation.
  strip->back()->setFocus();
  while (strip->back()->isEnabled()) QTest::keyClick(strip->back(), Qt::Key_Space);
  EXPECT_EQ(strip->shown().front(), 0);
  EXPECT_EQ(strip->current(), 0);
  QTest::mouseClick(strip->forward(), Qt::LeftButton);
  EXPECT_EQ(strip->current(), 1);
  // One more of an old generation makes no box behind the newest.
  TrialInfo again = trials.front();
  again.number = trials.size();
  const auto before = strip->generations().size();
  trials.push_back(again);
  view.setTrials("aa01", trials);
  EXPECT_EQ(strip->generations().size(), before);
  EXPECT_EQ(strip->generations().back().number, 359 / 16);
}

// Scrolled to its end, the last line of a kernel stands whole above the scroll bar.
TEST_F(Tuning, TheLastLineOfAKernelIsAboveTheScrollBar) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  std::string text;
  for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i) + std::string(300, 'x') + (i < 59 ? "\n" : "");
  k.texts = {{"loops", text, {}}};
  view.setKernel(k);
  view.show();
  for (const int height : {400, 407, 413, 419}) {
    SCOPED_TRACE(height);
    view.resize(500, height);
    auto* code = view.findChild<QAbstractScrollArea*>("code");
    ASSERT_TRUE(code);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view.height() == height && code->horizontalScrollBar()->isVisible(); }));
    code->verticalScrollBar()->setValue(code->verticalScrollBar()->maximum());
    const auto [top, bottom] = view.lineOnScreen(59);
    EXPECT_GE(top, 0);
    EXPECT_LE(bottom, code->viewport()->height());
    EXPECT_LE(code->viewport()->geometry().bottom(), code->horizontalScrollBar()->mapTo(code, QPoint(0, 0)).y());
  }
}

TEST_F(Tuning, TheLegendCountsEveryTrial) {
  TrialsLegend legend(&theme);
  auto trials = capsule::trials(3);
  trials[1].us.reset();
  trials[1].status = TrialStatus::Ok;
  legend.setTrials(trials);
  EXPECT_TRUE(legend.text().startsWith("trial 2, best so far, checked, not timed 1")) << legend.text().toStdString();
}

TEST_F(Tuning, SwapsAreListedWithOldAndNewTimeOrTheirAbsenceIsExplained) {
  TrainStrip strip(&theme);
  strip.resize(620, 420);
  strip.show();
  strip.start();
  RunState state;
  state.phase = RunPhase::Training, state.step = 10, state.steps = 880, state.trials = 7;
  strip.setState(state);
  EXPECT_TRUE(strip.swaps()->sentence().contains("of 7 candidates none was faster")) << strip.swaps()->sentence().toStdString();
  DoneEvent done;
  done.steps = 880, done.seconds = 3;
  strip.setDone(done);
  EXPECT_TRUE(strip.swaps()->sentence().contains("No kernel was swapped")) << strip.swaps()->sentence().toStdString();
  // Where nothing was tried, the one reason that holds.
  for (const auto& [search, words] : {std::pair(SearchState::Static, "in static mode nothing is searched."),
                                      {SearchState::Replayed, "the kernels were those of a swap log."},
                                      {SearchState::Finished, "the kernels are those on record or pinned."},
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
  EXPECT_EQ(row.join(" | "), "120 | dW + W.next  g3 | 900 | 400 | -56 %");
  std::string chosen;
  QObject::connect(&strip, &TrainStrip::swapChosen, &strip, [&](const KernelSwapEvent& s) { chosen = s.subgraph; });
  strip.swaps()->table()->setFocus();
  strip.swaps()->table()->setCurrentCell(0, 0);
  QTest::keyClick(strip.swaps()->table(), Qt::Key_Return);
  EXPECT_EQ(chosen, "bb02");
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
  TrainStrip strip(&theme);
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
  for (const int width : {520, 640, 880, 940, 1400}) {
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
    }
  }
}

// In a panel a table has the height of its rows; the picture stays small.
TEST_F(Tuning, ATableOfValuesUsesTheRoomOfItsPanel) {
  TensorView view(&theme, true);
  view.resize(340, 700);
  view.show();
  const auto show = [&](std::int64_t rows) {
    view.setTensor("W", {rows, 8});
    TensorSlice slice;
    slice.tensor = "W", slice.shape = {rows, 8}, slice.begin = {0, 0}, slice.end = {rows, 8};
    view.setSlice(slice, std::vector<double>(static_cast<std::size_t>(rows) * 8, 0.5));
    QCoreApplication::processEvents();
  };
  auto* table = view.findChild<QTableView*>();
  view.setMode(1);
  for (const std::int64_t rows : {2, 12}) {
    show(rows);
    const auto last = table->visualRect(view.model()->index(static_cast<int>(rows) - 1, 0));
    EXPECT_LE(last.bottom(), table->viewport()->height()) << rows;
    EXPECT_LT(table->viewport()->height() - last.bottom(), 40) << rows;
  }
  show(200);
  EXPECT_GT(table->viewport()->height(), 300);
  EXPECT_LT(table->viewport()->height(), 480);
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
  // The values that stand there are of a step before, and the words say so; newer ones take both away.
  EXPECT_TRUE(view.note().contains("These are of step 40")) << view.note().toStdString();
  EXPECT_TRUE(view.old());
  view.setSlice(slice, {-1, 2, std::nan(""), 0});
  EXPECT_FALSE(view.old());
  EXPECT_EQ(view.note(), QString());
  view.setTensor("V", {2, 2});
  EXPECT_TRUE(view.note().contains("No values yet"));
  EXPECT_FALSE(view.facts().contains("rms"));
  view.setUnavailable("V", "V has no value yet: run its cell.");
  EXPECT_EQ(view.note(), "V has no value yet: run its cell.");
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
