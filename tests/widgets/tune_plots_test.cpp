// SPDX-License-Identifier: GPL-3.0-or-later
// The plots of a training and a search: axes, labels that keep apart, references, legends, what is exported.
#include <gtest/gtest.h>
#include <qcustomplot.h>

#include <QAction>
#include <QComboBox>
#include <QCoreApplication>
#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QRegularExpression>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <cmath>

#include "tests/widgets/capsule.h"
#include "tests/widgets/made_up_runs.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/plot_axis.h"
#include "widgets/plots.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

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
      QStringList texts;
      for (const auto& label : labels) texts << label.first;
      EXPECT_EQ(texts.filter("PyTorch").size(), 1) << texts.join("; ").toStdString();
      EXPECT_GE(texts.filter(QRegularExpression(" g[0-9]+")).size(), 1) << texts.join("; ").toStdString();
      EXPECT_GE(texts.filter(QRegularExpression("^[0-9.]+ ms$")).size(), 1) << texts.join("; ").toStdString();
      for (std::size_t i = 0; i < labels.size(); ++i)
        for (std::size_t k = i + 1; k < labels.size(); ++k)
          EXPECT_FALSE(labels[i].second.intersects(labels[k].second))
              << labels[i].first.toStdString() << " / " << labels[k].first.toStdString();
    }
}

// Where two labels would meet, all stand wider apart: none of even steps is left out.
TEST_F(Tuning, LabelsOfStepsAreEven) {
  QCustomPlot plot;
  plot.show();
  for (int width = 240; width <= 900; width += 20)
    for (const double last : {998.0, 4100.0, 120000.0, 1100000.0, 31000000.0}) {
      SCOPED_TRACE(testing::Message() << width << " px, " << last);
      plot.resize(width, 200);
      AxisRange range;
      range.low = 0, range.high = last, range.integers = true, range.positive = false, range.room = 0;
      plot.replot();
      setAxis(plot.xAxis, range, countTick);
      plot.replot();
      const QVector<double> ticks = plot.xAxis->tickVector();
      EXPECT_GE(ticks.size(), 2);
      for (qsizetype i = 2; i < ticks.size(); ++i) EXPECT_DOUBLE_EQ(ticks[i] - ticks[i - 1], ticks[1] - ticks[0]);
    }
}

TEST_F(Tuning, TheNameOfASwapIsCrossedByNoOther) {
  LatencyPlot plot(&theme, false);
  plot.resize(700, 260);
  plot.show();
  std::vector<StepEvent> steps(400);
  for (std::size_t i = 0; i < steps.size(); ++i)
    steps[i].step = static_cast<std::int64_t>(i + 1), steps[i].ms = i < 200 ? 8 : 2,
    steps[i].ms_min = steps[i].ms_max = steps[i].ms;
  std::vector<KernelSwapEvent> swaps(4);
  for (std::size_t i = 0; i < swaps.size(); ++i) {
    swaps[i].name = "d(L)/d(Weights)", swaps[i].step = std::array{200, 215, 260, 380}[i], swaps[i].generation = 1;
    swaps[i].before_us = 900.0 - 100.0 * static_cast<double>(i), swaps[i].after_us = 100;
  }
  plot.setSteps(steps, swaps);
  const auto labels = plot.shownLabels();
  const auto* chart = plot.findChild<QCustomPlot*>();
  ASSERT_TRUE(chart);
  int names = 0;
  for (const auto& [text, rect] : labels) {
    if (!text.contains("Weights")) continue;
    ++names;
    for (const auto& swap : swaps) {
      const double x = chart->xAxis->coordToPixel(static_cast<double>(swap.step));
      EXPECT_FALSE(rect.left() < x && x < rect.right()) << text.toStdString() << ": " << swap.step;
    }
  }
  EXPECT_GE(names, 2);
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

// As the panel's loss is: the mean that is drawn there hangs on how wide the plot is.
TEST_F(Tuning, TheEndOfALossCurveSaysTheNewestStepsLoss) {
  LossPlot plot(&theme, false);
  plot.resize(700, 260);
  plot.show();
  std::vector<StepEvent> steps(20000);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].step = static_cast<std::int64_t>(i + 1), steps[i].steps = 1;
    steps[i].loss = i % 2 ? 2 : 4;
  }
  const auto label = [&] {
    QStringList texts;
    for (const auto& [text, rect] : plot.shownLabels()) texts << text;
    return texts.join('|');
  };
  plot.setRun(steps, {});
  EXPECT_EQ(label(), "loss 2.000");
  plot.setRun({steps.begin(), steps.begin() + 3}, {});
  EXPECT_EQ(label(), "loss 4.000");
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

TEST_F(Tuning, BestSoFarIsTheLowestAndSaysWhatIsNoise) {
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
  EXPECT_DOUBLE_EQ(plot.bestSoFar().front().y(), 136);
  EXPECT_DOUBLE_EQ(plot.bestSoFar().back().y(), 129);
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

TEST_F(Tuning, ATickIsNamedByItsOwnPlace) {
  EXPECT_EQ(microsecondTick(62.5, 2.5, 70), "62.5 µs");
  EXPECT_EQ(microsecondTick(65, 2.5, 70), "65 µs");
  EXPECT_EQ(microsecondTick(60, 5, 70), "60 µs");
  EXPECT_EQ(plainTick(0.25, 0.25, 1), "0.25");
  EXPECT_EQ(plainTick(0.2, 0.1, 1), "0.2");
}

TEST_F(Tuning, WhatNamesATrialCoversNoOther) {
  TrialsPlot plot(&theme);
  plot.resize(700, 300);
  plot.show();
  const std::vector<TrialInfo> trials = capsule::trials(60);
  plot.setTrials(trials);
  for (const TrialInfo& chosen : trials) {
    plot.setCurrent(chosen.number);
    for (const auto& [text, place] : plot.shownLabels())
      for (const TrialInfo& t : trials)
        EXPECT_FALSE(place.contains(plot.pixelOf(t.number))) << text.toStdString() << " covers trial " << t.number;
  }
}

// A scale of times stands only where there is a time.
TEST_F(Tuning, TrialsWithoutATimeHaveNoScale) {
  TrialsPlot plot(&theme);
  plot.resize(600, 260);
  plot.show();
  std::vector<TrialInfo> trials = capsule::trials(2);
  for (TrialInfo& t : trials) t.us.reset(), t.lowUs.reset(), t.highUs.reset(), t.status = TrialStatus::Ok;
  plot.setTrials(trials);
  const auto scale = [&] {
    plot.tickLabels(Qt::Vertical);
    return plot.findChild<QCustomPlot*>()->yAxis->tickLabels();
  };
  EXPECT_FALSE(scale());
  trials[1].status = TrialStatus::Crashed;
  plot.setTrials(trials);
  EXPECT_FALSE(scale());
  EXPECT_TRUE(plot.findChild<QCustomPlot*>()->xAxis->tickLabels()) << "a failure has its place among the trials";
  trials[0].us = 12;
  plot.setTrials(trials);
  EXPECT_TRUE(scale());
}

// Trials and swaps are of the same part of a run, which may have gone on from a checkpoint.
TEST_F(Tuning, WhatASearchHasDoneIsOfThisPartOfTheRun) {
  TuneView view(&theme, &selection);
  view.setSubgraphs(capsule::subgraphs());
  view.setRun(manySteps(50, 1), manySwaps(7, 100, 1), {});
  RunState run;
  run.phase = RunPhase::Training, run.trials = 1, run.swaps = 1, run.seconds = 4, run.budgetSpentSeconds = 0.2,
  run.budgetShare = 0.3;
  view.setRunState(run);
  EXPECT_TRUE(view.spent().endsWith(": 1 trial, 1 swap")) << view.spent().toStdString();
}

TEST_F(Tuning, AKnobThatIsOffSaysSo) {
  TuneView view(&theme, &selection);
  view.setSubgraphs(capsule::subgraphs());
  Space space = capsule::space("aa01");
  ASSERT_FALSE(space.knobs.empty());
  space.knobs[0].values = {{"\"\""}, {"[]"}};
  space.current.text = R"({"kind":"contraction","knobs":{")" + space.knobs[0].name + R"(":""},"version":1})";
  view.setSpace(space);
  QComboBox* box = view.knob(QString::fromStdString(space.knobs[0].name));
  ASSERT_TRUE(box);
  EXPECT_EQ(box->itemText(0), "none");
  EXPECT_EQ(box->itemText(1), "none");
  EXPECT_EQ(box->itemData(0).toString(), "\"\"");
}

// A loss that has settled: its last digits alone tell the ticks apart.
TEST_F(Tuning, TicksOfNearlyEqualValuesAreToldApart) {
  QCustomPlot plot;
  plot.resize(300, 260);
  plot.replot(QCustomPlot::rpImmediateRefresh);  // the axes know their lengths after the first one
  for (const double value : {0.382, -0.382, 3.82e-5, 41.5, 2e-9, 812345.0})
    for (const double spread : {0.0, 1e-12, 1e-9, 3e-8, 1e-7, 1e-6, 1e-4, 1e-2}) {
      AxisRange range;
      range.low = value, range.high = value + std::abs(value) * spread, range.positive = value > 0, range.room = 0.1;
      setAxis(plot.yAxis, range, plainTick);
      plot.replot(QCustomPlot::rpImmediateRefresh);
      QStringList labels = plot.yAxis->tickVectorLabels();
      EXPECT_GE(labels.size(), 2) << value << " " << spread;
      EXPECT_EQ(labels.removeDuplicates(), 0) << value << " " << spread << ": " << labels.join('|').toStdString();
      for (const QString& label : labels)
        EXPECT_LE(QFontMetricsF(theme.ui(11)).horizontalAdvance(label), 56) << label.toStdString();
    }
}

TEST_F(Tuning, SmallValuesHaveShortTicks) {
  EXPECT_EQ(plainTick(1e-6, 0, 1), QStringLiteral("10⁻⁶"));
  EXPECT_EQ(plainTick(2e-7, 0, 1), QStringLiteral("2·10⁻⁷"));
  EXPECT_EQ(plainTick(3e12, 0, 1), QStringLiteral("3·10¹²"));
  EXPECT_EQ(plainTick(0.01, 0, 1), "0.01");
  EXPECT_EQ(plainTick(30, 0, 100), "30");
  EXPECT_EQ(plainTick(0, 0, 1), "0");
}

// One stands below the other.
TEST_F(Tuning, TheLossEndsWhereTheLatencyDoes) {
  LossPlot plot(&theme, false);
  plot.resize(600, 200);
  plot.show();
  std::vector<StepEvent> steps(8);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].step = static_cast<std::int64_t>(i + 1), steps[i].ms = 1;
    steps[i].loss = i < 6 ? 1.0 + static_cast<double>(i) : HUGE_VAL;
  }
  plot.setRun(steps, {});
  const auto named = [&] {
    for (const auto& [text, rect] : plot.shownLabels())
      if (text.startsWith("loss ")) return text;
    return QString();
  };
  EXPECT_EQ(named(), "loss 6.000 at step 6");
  const auto* canvas = static_cast<QCustomPlot*>(plot.canvas());
  const auto lastTick = [&] { return plot.tickLabels(Qt::Horizontal).back(); };
  EXPECT_EQ(lastTick(), "8");
  const double high = canvas->xAxis->range().upper;
  LatencyPlot latency(&theme, false);
  latency.resize(600, 200);
  latency.show();
  latency.setSteps(steps, {});
  latency.shownLabels();
  EXPECT_DOUBLE_EQ(static_cast<QCustomPlot*>(latency.canvas())->xAxis->range().upper, high);
  steps[7].loss = 0.5;
  plot.addStep(steps[7]);
  EXPECT_EQ(named(), "loss 0.5000");
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
  EXPECT_EQ(texts.filter("50 % of what P_d gives").size(), 1) << texts.join('|').toStdString();
  // 4 FLOP/byte: L2 would give 160 GFLOP/s, but the arithmetic ends at 100; at 40 the memory would give more than that, too.
  for (const std::int64_t bytes : {250, 25}) {
    s.bytes = bytes, s.us = 0.0125;
    plot.setSubgraphs({s}, "aa");
    texts.clear();
    for (const auto& [text, rect] : plot.shownLabels()) texts << text;
    EXPECT_EQ(texts.filter("80 % of P_c").size(), 1) << texts.join('|').toStdString();
  }
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

// A name that had to leave its dot is led back to it.
TEST_F(Tuning, TheChosenKernelsNameIsLedToItsDot) {
  RooflinePlot plot(&theme);
  DeviceConstants device;
  device.bandwidth = 13.9e9, device.l2Bandwidth = 88.5e9, device.flopRate = 178e9, device.launchSeconds = 1e-8;
  plot.setDevice(device);
  plot.resize(620, 280);
  plot.show();
  SubgraphInfo chosen;
  chosen.id = "aa", chosen.name = "dL2/dA.V", chosen.bytes = 800, chosen.flops = 640, chosen.us = 0.049;
  const auto leaders = [&] {
    plot.shownLabels();
    std::vector<QLineF> lines;
    auto* canvas = static_cast<QCustomPlot*>(plot.canvas());
    for (int i = 0; i < canvas->itemCount(); ++i)
      if (auto* line = qobject_cast<QCPItemLine*>(canvas->item(i)); line && line->visible() && line->layer()->name() == "overlay")
        lines.emplace_back(line->start->pixelPosition(), line->end->pixelPosition());
    return lines;
  };
  plot.setSubgraphs({chosen}, "aa");
  EXPECT_TRUE(leaders().empty()) << "it stands beside it";
  std::vector<SubgraphInfo> all{chosen};
  for (int i = 0; i < 60; ++i) {
    SubgraphInfo other = chosen;
    other.id = "b" + std::to_string(i), other.name = "N" + std::to_string(i);
    other.flops = 640 + 60 * (i % 10 - 5), other.us = 0.049 * (1 + 0.12 * (i / 10 - 3));
    all.push_back(other);
  }
  plot.setSubgraphs(all, "aa");
  const auto lines = leaders();
  ASSERT_EQ(lines.size(), 1u);
  for (const auto& [text, rect] : plot.shownLabels())
    if (text.contains("GFLOP/s") && !text.startsWith("P_c")) {
      EXPECT_TRUE(rect.adjusted(-3, -1, 3, 1).contains(lines[0].p2())) << text.toStdString();
    }
}

TEST_F(Tuning, TheLegendCountsFourKindsOfFailure) {
  TrialsLegend legend(&theme);
  auto trials = capsule::trials();
  trials[2].status = TrialStatus::Failed, trials[2].us.reset();
  legend.setTrials(trials);
  for (const char* words : {"wrong result ", "not compiled 1", "timed out ", "killed its worker ", "best so far"})
    EXPECT_TRUE(legend.text().contains(words)) << words;
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

// Steps that vary widely leave no room beside the line: its name stands where it hides none of them.
TEST_F(Tuning, ThePeersNameDoesNotHideTheSteps) {
  LatencyPlot plot(&theme, false);
  plot.resize(900, 600);
  plot.show();
  std::vector<StepEvent> steps;
  for (int i = 1; i <= 300; ++i) {
    StepEvent e;
    e.step = i, e.ms = 1, e.ms_min = 0.9, e.ms_max = i == 1 ? 10 : 3, e.seconds = i * 0.01;
    steps.push_back(e);
  }
  plot.setSteps(steps, {});
  plot.setPeer("PyTorch 1.13.1, one thread", 1);
  QRectF label;
  for (const auto& [text, rect] : plot.shownLabels())
    if (text.startsWith("PyTorch")) label = rect;
  ASSERT_FALSE(label.isNull());
  const auto pixel = [&](double ms) { return plot.plot()->yAxis->coordToPixel(ms); };
  EXPECT_TRUE(label.bottom() <= pixel(3) || label.top() >= pixel(0.9)) << label.top() << " to " << label.bottom();
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

// Within less than a decade the ticks of a logarithmic axis are in even steps, which stand the closer the higher they are.
TEST_F(Tuning, LabelsOfALogarithmicAxisStandApart) {
  QCustomPlot plot;
  plot.show();
  for (const int height : {90, 130, 200, 320})
    for (const double low : {0.011, 0.9, 1.3, 2.4, 4.4})
      for (const double ratio : {1.2, 2.0, 3.6, 7.0, 12.0, 80.0}) {
        SCOPED_TRACE(testing::Message() << height << " px, " << low << " to " << low * ratio);
        plot.resize(400, height);
        AxisRange range;
        range.low = low, range.high = low * ratio, range.positive = range.logarithmic = true;
        setAxis(plot.yAxis, range, microsecondTick);
        plot.replot();
        const QVector<double> ticks = plot.yAxis->tickVector();
        EXPECT_GE(ticks.size(), 2);
        const double digits = QFontMetricsF(plot.yAxis->tickLabelFont()).ascent();
        for (qsizetype i = 1; i < ticks.size(); ++i)
          EXPECT_GE(plot.yAxis->coordToPixel(ticks[i - 1]) - plot.yAxis->coordToPixel(ticks[i]), digits)
              << plot.yAxis->tickVectorLabels()[i].toStdString();
      }
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
          EXPECT_LE(rect.right(), plot.plot()->axisRect()->rect().right() + 1)
              << text.toStdString() << ", over the accuracy's axis";
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

TEST_F(Tuning, TheLegendCountsEveryTrial) {
  TrialsLegend legend(&theme);
  auto trials = capsule::trials(3);
  trials[1].us.reset();
  trials[1].status = TrialStatus::Ok;
  legend.setTrials(trials);
  EXPECT_TRUE(legend.text().startsWith("trial 2, best so far, checked, not timed 1")) << legend.text().toStdString();
  // Each with its symbol, which the plot has, too.
  legend.resize(1400, legend.height());
  const QImage image = legend.grab().toImage();
  for (const QRect& place : legend.places()) {
    int drawn = 0;
    for (int x = place.left(); x < place.left() + 9; ++x)
      for (int y = place.top(); y <= place.bottom(); ++y) drawn += image.pixel(x, y) != image.pixel(0, 0);
    EXPECT_GT(drawn, 4) << place.left();
  }
  TrialsPlot plot(&theme);
  plot.resize(600, 260);
  plot.show();
  plot.setTrials(trials);
  plot.tickLabels(Qt::Vertical);
  const QPoint mark = plot.pixelOf(trials[1].number);
  EXPECT_TRUE(plot.findChild<QCustomPlot*>()->axisRect()->rect().contains(mark)) << mark.x() << ' ' << mark.y();
  EXPECT_EQ(plot.trialAt(mark), trials[1].number);
}

// Latency and loss stand one above the other: each has every label of the other, the first included.
TEST_F(Tuning, TheAxesOfLatencyAndLossHaveTheSameLabels) {
  for (const int width : {420, 640, 900, 1400}) {
    LatencyPlot latency(&theme, true);
    LossPlot loss(&theme, true);
    const auto steps = manySteps(200, 3);
    for (Plot* plot : {static_cast<Plot*>(&latency), static_cast<Plot*>(&loss)}) plot->resize(width, 104), plot->show();
    latency.setSteps(steps, {});
    loss.setRun(steps, {});
    const QStringList labels = latency.tickLabels(Qt::Horizontal);
    EXPECT_EQ(labels, loss.tickLabels(Qt::Horizontal)) << width;
    EXPECT_EQ(labels.value(0), "0") << width;
  }
}

}  // namespace
}  // namespace nf
