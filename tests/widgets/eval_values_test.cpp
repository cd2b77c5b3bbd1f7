// SPDX-License-Identifier: GPL-3.0-or-later
// What is measured on held-out rows: each `eval` by its name, in the panel of a training and in its plot.
#include <gtest/gtest.h>

#include <QLabel>

#include "tests/widgets/made_up_runs.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/eval_values.h"
#include "widgets/plots.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using namespace protocol;

TEST(EvalValues, AreNumbersAndOnlyAnAccuracyIsAShare) {
  EXPECT_EQ(evalText({{"accuracy", 0.9722}}), "97.22 %");
  EXPECT_EQ(evalText({{"accuracy", 17.86}}), "accuracy 17.86");
  EXPECT_EQ(evalText({{"mae", 0.1786}}), "mae 0.1786");
  EXPECT_EQ(evalText({{"mae", 8.9123e-13}, {"r2", -0.5}}), "mae 8.912e-13, r2 -0.5");
  EXPECT_EQ(evalText({{"accuracy", 0.5}, {"mae", 2}}), "accuracy 50.00 %, mae 2");
  EXPECT_EQ(evalText({{"mae", 2}, {"worst", 4.5}}, {"worst"}), "mae 2, worst 4.5 (mean over batches)");
  EvalEvent eval;
  eval.accuracy = 0.25;
  eval.values = {{"mae", 1}};
  EXPECT_EQ(valuesOf(eval), (std::map<std::string, double>{{"accuracy", 0.25}, {"mae", 1}}));
}

TEST_F(Tuning, WhatIsComputedOnTheInputsIsNotCalledHeldOut) {
  EvalEvent eval;
  eval.step = 150, eval.values = {{"meanY", -0.25}}, eval.of_inputs = true;
  TrainStrip strip(&theme);
  strip.addEval(eval);
  QStringList texts;
  for (const QLabel* l : strip.findChildren<QLabel*>()) texts << l->text();
  EXPECT_TRUE(texts.contains("on the inputs: meanY -0.25")) << texts.join('|').toStdString();
  LossPlot plot(&theme, false);
  plot.setRun(manySteps(50, 1), {eval});
  const PlotTable table = plot.table();
  const auto column = table.columns.indexOf("meanY on the inputs");
  ASSERT_GE(column, 0) << table.columns.join('|').toStdString();
  EXPECT_EQ(table.rows.back().size(), table.columns.size());
  EXPECT_EQ(table.rows.back()[column].toDouble(), -0.25);
}

TEST_F(Tuning, EveryEvalStandsInThePanelAndInThePlot) {
  EvalEvent eval;
  eval.step = 40, eval.loss = 0.4, eval.values = {{"mae", 0.1786}};
  TrainStrip strip(&theme);
  strip.addEval(eval);
  QStringList texts;
  for (const QLabel* l : strip.findChildren<QLabel*>()) texts << l->text();
  EXPECT_TRUE(texts.contains("held out mae 0.1786")) << texts.join('|').toStdString();
  LossPlot plot(&theme, false);
  plot.resize(700, 300);
  plot.show();
  plot.setRun(manySteps(50, 1), {eval});
  const PlotTable table = plot.table();
  const auto column = table.columns.indexOf("held-out mae");
  ASSERT_GE(column, 0) << table.columns.join('|').toStdString();
  int rows = 0;
  for (const QVariantList& row : table.rows) {
    ASSERT_EQ(row.size(), table.columns.size());
    if (!row[column].isValid()) continue;
    ++rows;
    EXPECT_EQ(row[column].toDouble(), 0.1786);
  }
  EXPECT_EQ(rows, 1);
}

// As low as the tune page makes it in a small window.
TEST_F(Tuning, AllLabelsOfALowLossPlotAreInSight) {
  EvalEvent eval;
  eval.step = 40, eval.loss = 0.4, eval.values = {{"accuracy", 0.9194}};
  LossPlot plot(&theme, false);
  plot.resize(480, 76);
  plot.show();
  plot.setRun(manySteps(50, 1), {eval});
  QStringList texts;
  for (const auto& [text, rect] : plot.shownLabels()) {
    texts << text;
    EXPECT_TRUE(QRectF(plot.rect()).contains(rect)) << text.toStdString() << " at " << rect.top() << " to " << rect.bottom();
  }
  EXPECT_EQ(texts.size(), 3) << texts.join('|').toStdString();
  EXPECT_TRUE(texts.contains("held out 91.94 %")) << texts.join('|').toStdString();
}

}  // namespace
}  // namespace nf
