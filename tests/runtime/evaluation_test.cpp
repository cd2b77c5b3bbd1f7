// SPDX-License-Identifier: Apache-2.0
// What trainings report of the rows that are held out, and of evals without any.
#include <cmath>
#include <fstream>
#include <sstream>

#include "core/runtime/checkpoint.h"
#include "core/runtime/data_file.h"
#include "core/runtime/evaluation_check.h"
#include "core/runtime/report.h"
#include "core/runtime/run.h"
#include "core/runtime/run_folder.h"
#include "core/runtime/step_program.h"
#include "tests/runtime/train_runs.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace runs;
using testing::HasSubstr;

void writeNumbers(const std::string& path, int rows) {
  std::ofstream file(path);
  for (int i = 0; i < rows; ++i) file << i << "\n";
}

TEST(Train, OnlyAnEvalOfThatNameIsTheAccuracy) {
  const auto context = interpreter();
  std::string text = kDigits;
  text.replace(text.find("eval accuracy"), 13, "eval hits");
  TrainOptions o = optionsFor(text);
  o.steps = 5;
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok());
  EXPECT_FALSE(summary->done.accuracy);
  const auto evals = only<protocol::EvalEvent>(messages);
  ASSERT_EQ(evals.size(), 1u);
  EXPECT_FALSE(evals[0].accuracy);
  EXPECT_TRUE(evals[0].values.contains("hits"));
}

TEST(Train, TheReportHasEveryEvalAndPerCentForSharesAlone) {
  const fakes::Folder folder;
  const auto context = interpreter();
  const auto reportOf = [&](const std::string& text, const std::string& name) {
    TrainOptions o = optionsFor(text);
    o.steps = 3;
    o.outputRoot = folder.path(name);
    TrainJob job(*context, o, {});
    const auto summary = job.run({});
    EXPECT_TRUE(summary.ok());
    const auto html = summary.ok() ? htmlReport(summary->folder, {"Digits", {}, ""}) : Result<std::string>(std::string());
    EXPECT_TRUE(html.ok());
    return html.ok() ? *html : std::string();
  };
  std::string text = kDigits;
  text.insert(text.find("train L"), "eval most = max[b, n] abs(Z[b, n])\n");
  const std::string both = reportOf(text, "both");
  EXPECT_THAT(both, HasSubstr("accuracy on held-out rows"));
  EXPECT_THAT(both, HasSubstr("most on held-out rows"));
  EXPECT_THAT(both, testing::ContainsRegex("[0-9] %"));
  text = kDigits;
  text.replace(text.find("eval accuracy = mean[b]"), 23, "eval accuracy = 7 + mean[b]");
  const std::string large = reportOf(text, "large");
  EXPECT_THAT(large, HasSubstr("accuracy on held-out rows"));
  EXPECT_THAT(large, testing::Not(testing::ContainsRegex("[0-9] %<")));
}

constexpr const char* kWithoutData = R"(
input X[4] = uniform(1, 2)
input T[4] = uniform(3, 4)
param w = 1
loss L = mean[i] (X[i] * w - T[i])^2
meanX = mean[i] X[i]
eval meanX
eval twice = 2 * w
train L { steps = 6; optimizer = sgd(lr=0.1); mode = static }
)";

TEST(Train, WithoutADataSetEveryEvalIsComputedOnceAtTheEnd) {
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, optionsFor(kWithoutData), [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto evals = only<protocol::EvalEvent>(messages);
  ASSERT_EQ(evals.size(), 1u);
  EXPECT_EQ(evals[0].step, 6);
  EXPECT_TRUE(evals[0].of_inputs);
  EXPECT_FALSE(evals[0].loss);
  ASSERT_EQ(evals[0].values.size(), 2u);
  EXPECT_GT(evals[0].values.at("meanX"), 1);
  EXPECT_LT(evals[0].values.at("meanX"), 2);
  const auto weights = job.weights(1 << 20);
  EXPECT_NEAR(evals[0].values.at("twice"), 2 * weights.at("w").at(0), 1e-6) << "with the weights that were learnt";
  EXPECT_NE(weights.at("w").at(0), 1);
  TrainOptions without = optionsFor(kWithoutData);
  without.evaluate = false;
  messages.clear();
  TrainJob silent(*context, without, [&](const protocol::Message& m) { messages.push_back(m); });
  ASSERT_TRUE(silent.run({}).ok());
  EXPECT_TRUE(only<protocol::EvalEvent>(messages).empty());
}

// Inputs and parameters that the step itself does not read.
constexpr const char* kOfEvalsAlone = R"(
let B = 8
data D = csv("x.csv") { split = last 20 }
data V = csv("v.csv") { split = last 20 }
input X[B] = batch D[:, 0]
input y[B] = batch D[:, 1]
input Q[B] = batch V[:, 0]
param w = 0.5
param U[4] = uniform(0, 1)
loss L = mean[b] (X[b] * w - 1)^2
eval ymean = mean[b] y[b]
eval ymax = max[b] y[b]
eval qmean = mean[b] Q[b]
eval u = sum[i] U[i]
train L { steps = 4; optimizer = sgd(lr=0.0001); mode = static }
)";

class EvalsAlone : public testing::Test {
 protected:
  EvalsAlone() {
    std::ofstream x(folder.path("x.csv")), v(folder.path("v.csv"));
    for (int i = 0; i < 60; ++i) x << i % 7 << "," << 100 + i << "\n";
    for (int i = 0; i < 25; ++i) v << 3 * i << "\n";
  }
  // The evals at the end, and the folder of the run.
  std::pair<std::map<std::string, double>, std::string> run(TrainOptions o, const std::string& name) {
    o.source.directory = folder.path("");
    o.outputRoot = folder.path(name);
    TrainJob job(*context, o, {});
    const auto summary = job.run({});
    EXPECT_TRUE(summary.ok()) << summary.error().message;
    return summary.ok() ? std::pair{summary->done.evals, summary->folder} : std::pair<std::map<std::string, double>, std::string>{};
  }
  double inCheckpoint(const std::string& run) {
    const auto weights = readWeights(run + "/checkpoint.safetensors");
    EXPECT_TRUE(weights.ok());
    double sum = NAN;
    for (const auto& [name, value] : *weights) {
      if (name != "U") continue;
      sum = 0;
      for (std::int64_t i = 0; i < value.elements(); ++i) sum += value.at(i);
    }
    return sum;
  }
  fakes::Folder folder;
  std::unique_ptr<DeviceContext> context = interpreter();
};

TEST_F(EvalsAlone, TheirInputsHaveTheRowsThatAreHeldOut) {
  const auto values = run(optionsFor(kOfEvalsAlone), "a").first;
  EXPECT_NEAR(values.at("ymean"), 100 + 49.5, 1e-4);
  EXPECT_EQ(values.at("ymax"), 159);
  EXPECT_NEAR(values.at("qmean"), 3 * 14.5, 1e-4);
}

// A set without a whole batch for training costs a training nothing that does not read it.
TEST_F(EvalsAlone, TheirDataSetNeedsNoRowsForTraining) {
  std::ofstream v(folder.path("v.csv"));
  for (int i = 0; i < 20; ++i) v << i << "\n";
  v.close();
  EXPECT_NEAR(run(optionsFor(kOfEvalsAlone), "a").first.at("qmean"), 9.5, 1e-4);
}

TEST_F(EvalsAlone, TheirParametersComeFromWeightsAndStayInCheckpoints) {
  const auto [first, folderOfFirst] = run(optionsFor(kOfEvalsAlone), "a");
  const double u = first.at("u");
  EXPECT_NEAR(inCheckpoint(folderOfFirst), u, 1e-6);
  TrainOptions o = optionsFor(kOfEvalsAlone);
  o.seed = 77;
  o.initialWeights = folderOfFirst + "/checkpoint.safetensors";
  const auto [weighted, folderOfWeighted] = run(o, "b");
  EXPECT_NEAR(weighted.at("u"), u, 1e-6);
  EXPECT_NEAR(inCheckpoint(folderOfWeighted), u, 1e-6);
  // They are kept where nothing is evaluated, too.
  o.evaluate = false;
  EXPECT_NEAR(inCheckpoint(run(o, "c").second), u, 1e-6);
  TrainOptions resumed = optionsFor(kOfEvalsAlone);
  resumed.steps = 6;
  resumed.resume = folderOfWeighted;
  EXPECT_NEAR(run(resumed, "d").first.at("u"), u, 1e-6);
}

// Of a data set that holds no rows out, what reads its rows is warned of, and what does not is computed.
TEST(Train, AnEvalOfRowsThatNobodyHoldsOutIsWarnedOf) {
  const fakes::Folder folder;
  std::ofstream(folder.path("d.csv")) << "1,2\n3,4\n5,6\n7,8\n";
  TrainOptions o = optionsFor(R"(
data D = csv("d.csv")
input X[B, 1] = batch D[:, 0..1]
input y[B] = batch D[:, 1]
param w = 0.5
Z[b] = X[b, 0] * w
loss L = mean[b] (Z[b] - y[b])^2
eval mae = mean[b] abs(Z[b] - y[b])
eval size = abs(w)
train L { steps = 3; batch = 2; optimizer = sgd(lr=0.001); mode = static }
)");
  o.source.directory = folder.path(".");
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto warnings = only<protocol::WarningEvent>(messages);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0].message, HasSubstr("no row of `D` is held out: nothing computes `eval` `mae`"));
  EXPECT_EQ(warnings[0].line, 2);
  const auto evals = only<protocol::EvalEvent>(messages);
  ASSERT_EQ(evals.size(), 1u);
  ASSERT_EQ(evals[0].values.size(), 1u);
  EXPECT_TRUE(evals[0].values.contains("size"));
}

// Sums, greatest values and what follows from several rows are those of all rows, whatever the batch.
TEST(Train, AnEvalIsComputedOverAllHeldOutRows) {
  const fakes::Folder folder;
  {
    std::ofstream file(folder.path("d.csv"));
    for (int i = 0; i < 40; ++i) file << i << "," << i % 7 << "\n";
  }
  const auto context = interpreter();
  for (const int batch : {4, 5, 11}) {
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor(
        "data D = csv(\"d.csv\") { split = last 11 }\ninput X[B, 2] = batch D[:, 0..2]\nparam w[2] = normal(1, 0)\n"
        "s[b] = sum[k] X[b, k] * w[k] * 0 + X[b, 1]\nloss L = mean[b] (s[b] - 1)^2\n"
        "eval odd = sum[b] float(i32(X[b, 0]) % 2)\neval worst = max[b] s[b]\neval deviation = sqrt(mean[b] s[b]^2 - (mean[b] "
        "s[b])^2)\n"
        "eval average = mean[b] s[b]\n"
        "train L { epochs = 1; batch = " +
        std::to_string(batch) + "; optimizer = sgd(lr=0.01); mode = static }\n");
    o.source.directory = folder.path("");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto evals = only<protocol::EvalEvent>(messages);
    ASSERT_FALSE(evals.empty());
    double sum = 0, squares = 0, odd = 0;
    for (int i = 29; i < 40; ++i) sum += i % 7, squares += (i % 7) * (i % 7), odd += i % 2;
    const auto& values = evals.back().values;
    EXPECT_EQ(values.at("odd"), odd);
    EXPECT_EQ(values.at("worst"), 6);
    EXPECT_EQ(only<protocol::DoneEvent>(messages).at(0).evals, values);
    EXPECT_NEAR(values.at("average"), sum / 11, 1e-6);
    EXPECT_NEAR(values.at("deviation"), std::sqrt(squares / 11 - sum * sum / 121), 1e-6);
  }
}

TEST(Train, AnEvaluationThatCannotBeMadeCostsNoTraining) {
  const fakes::Folder folder;
  writeNumbers(folder.path("d.csv"), 20);
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainOptions o = optionsFor(
      "data D = csv(\"d.csv\") { split = last 6 }\nlet B = 8\ninput X[B] = batch D[:, 0]\nparam w = normal(1, 0)\n"
      "loss L = mean[b] (X[b] * w)^2\neval seventh = X[6]\ntrain L { epochs = 1; optimizer = sgd(lr=0.0001); mode = static }\n");
  o.source.directory = folder.path("");
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto warnings = only<protocol::WarningEvent>(messages);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0].message, HasSubstr("What is held out is not evaluated: "));
  EXPECT_EQ(warnings[0].line, 6);
  EXPECT_TRUE(only<protocol::EvalEvent>(messages).empty());
}

TEST(Train, WhatAStepMakesMayBeShownAndCostsNoEvaluation) {
  const fakes::Folder folder;
  writeNumbers(folder.path("d.csv"), 20);
  const auto context = interpreter();
  const std::string text =
      "data D = csv(\"d.csv\") { split = last 6 }\nlet B = 7\ninput X[B] = batch D[:, 0]\nparam w = normal(1, 0)\n"
      "loss L = mean[b] (X[b] * w)^2\neval average = mean[b] X[b] * w\n"
      "train L { epochs = 2; optimizer = adam(lr=0.0001); mode = static }\nshow w.next\nshow w.adam.m\nZ = w.next * 2\nshow Z\n";
  for (const bool asked : {false, true}) {
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor(text + (asked ? "eval n = Z + 1\n" : ""));
    o.source.directory = folder.path("");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto evals = only<protocol::EvalEvent>(messages);
    ASSERT_EQ(evals.size(), 2u);
    EXPECT_EQ(evals[0].values.size(), 1u);
    EXPECT_TRUE(evals[0].values.contains("average"));
    const auto warnings = only<protocol::WarningEvent>(messages);
    ASSERT_EQ(warnings.size(), asked ? 1u : 0u);
    if (!asked) continue;
    EXPECT_THAT(warnings[0].message, HasSubstr("`n` reads what only a training step makes"));
    EXPECT_EQ(warnings[0].line, 12);
  }
  const auto compiled = compileNotebook({"t.nf", {}, text + "eval n = Z + 1\n"});
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(trainingWarnings(compiled, {}).size(), 1u);
  RunOptions run;
  run.source = {"t.nf", folder.path(""), text};
  run.tensors = {"shown"};
  RunJob shown(*context, run);
  ASSERT_TRUE(shown.prepare({}).ok());
  EXPECT_EQ(shown.names(), (std::vector<std::string>{"w.next", "w.adam.m", "Z"}));
  // A gradient is of the rows, and so is what is made of it.
  EXPECT_EQ(shown.rowsBehind("w.next"), 7);
  EXPECT_EQ(shown.rowsBehind("Z"), 7);
  EXPECT_EQ(shown.rowsBehind("w"), 0);
  EXPECT_EQ(shown.rowsBehind("nowhere"), 0);
}

TEST(Train, ABatchThatIsWrittenAsANumberIsEvaluatedInBatches) {
  const fakes::Folder folder;
  writeNumbers(folder.path("d.csv"), 20);
  const auto context = interpreter();
  for (const int held : {8, 9, 3}) {
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor("data D = csv(\"d.csv\") { split = last " + std::to_string(held) +
                                " }\ninput X[4] = batch D[:, 0]\nparam w = normal(1, 0)\nloss L = mean[b] (X[b] * w)^2\n"
                                "eval average = mean[b] X[b]\ntrain L { epochs = 1; optimizer = sgd(lr=0.0001); mode = static }\n");
    o.source.directory = folder.path("");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    std::string told;
    for (const auto& w : only<protocol::WarningEvent>(messages)) told += w.message;
    EXPECT_THAT(told, HasSubstr("is written as a number"));
    EXPECT_EQ(told.find("without the last 1 rows") != std::string::npos, held == 9) << told;
    EXPECT_EQ(told.find("the 3 rows that are held out, fewer than that, are not evaluated") != std::string::npos, held == 3)
        << told;
    const auto evals = only<protocol::EvalEvent>(messages);
    ASSERT_EQ(evals.empty(), held == 3);
    if (held == 3) continue;
    EXPECT_NEAR(evals.back().values.at("average"), 20 - held + 3.5, 1e-6);
  }
}

// Beside another job, whose data set may even be missing.
TEST(Train, ALossWithoutDataNeedsNoRows) {
  const fakes::Folder folder;
  writeNumbers(folder.path("d.csv"), 20);
  const auto context = interpreter();
  for (const char* data : {"d.csv", "missing.csv"})
    for (const std::string eval : {"", "eval size = sum[i] P[i]^2\n"}) {
      std::vector<protocol::Message> messages;
      TrainOptions o = optionsFor("param P[3] = normal(0, 1)\nloss L = sum[i] P[i]^2\n" + eval +
                                  "train L { steps = 3; mode = static }\ndata D = csv(\"" + data +
                                  "\") { split = last 8 }\ninput X[4] = batch D[:, 0]\nparam w = normal(1, 0)\n"
                                  "loss M = mean[b] (X[b] * w)^2\n");
      o.source.directory = folder.path("");
      TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
      const auto summary = job.run({});
      ASSERT_TRUE(summary.ok()) << summary.error().message;
      EXPECT_EQ(summary->done.steps, 3);
      EXPECT_TRUE(only<protocol::WarningEvent>(messages).empty());
      const auto evals = only<protocol::EvalEvent>(messages);
      ASSERT_EQ(evals.size(), eval.empty() ? 0u : 1u);
      if (eval.empty()) continue;
      EXPECT_TRUE(evals[0].of_inputs) << "no row was held out of it";
      EXPECT_FALSE(evals[0].loss);
    }
}

// Rows of two data sets stand side by side: as many as both hold out, and of a set that holds none out nothing is evaluated.
TEST(Train, EvalsOfSeveralDataSetsAreOfTheRowsThatAllHoldOut) {
  const fakes::Folder folder;
  for (const char* name : {"a.csv", "c.csv"}) writeNumbers(folder.path(name), 20);
  const auto context = interpreter();
  for (const bool both : {true, false}) {
    const std::string text = std::string("data A = csv(\"a.csv\") { split = last 6 }\ndata C = csv(\"c.csv\")") +
                             (both ? " { split = last 4 }" : "") +
                             "\ninput X[B] = batch A[:, 0]\ninput Z[B] = batch C[:, 0]\nparam w = normal(1, 0)\n"
                             "loss L = mean[b] (X[b] * w - Z[b])^2\neval of_a = sum[b] X[b]\neval of_both = sum[b] X[b] * Z[b]\n"
                             "train L { epochs = 1; batch = 3; optimizer = sgd(lr=0.0001); mode = static }\n";
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor(text);
    o.source.directory = folder.path("");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    std::string told;
    for (const auto& w : only<protocol::WarningEvent>(messages)) told += w.message;
    const auto evals = only<protocol::EvalEvent>(messages);
    ASSERT_FALSE(evals.empty());
    const auto& values = evals.back().values;
    EXPECT_EQ(values.at("of_a"), both ? 14 + 15 + 16 + 17 : 14 + 15 + 16 + 17 + 18 + 19);
    EXPECT_EQ(values.contains("of_both"), both);
    EXPECT_EQ(evals.back().loss.has_value(), both);
    if (both) {
      EXPECT_EQ(values.at("of_both"), 14 * 16 + 15 * 17 + 16 * 18 + 17 * 19);
      EXPECT_THAT(told, HasSubstr("`A` holds out 6 rows and `C` 4: each `eval` is of the first 4 of them"));
    } else {
      EXPECT_THAT(told, HasSubstr("no row of `C` is held out: nothing computes `eval` `of_both`"));
    }
  }
}

// Where all rows at once would be too large it is said what batches cannot give.
TEST(Train, AnEvalThatBatchesAverageIsToldOfUnlessItIsAMean) {
  const fakes::Folder folder;
  writeNumbers(folder.path("d.csv"), 12);
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainOptions o = optionsFor(
      "data D = csv(\"d.csv\") { split = last 6 }\ninput X[B] = batch D[:, 0]\nparam w = normal(1, 0)\n"
      "wide[b, i: 800] = X[b] + float(i)\nloss L = mean[b] (X[b] * w)^2\n"
      "eval top = max[b] (max[i] wide[b, i] - max[i] wide[b, i] * 0.5)\neval average = mean[b] X[b]\n"
      "train L { steps = 1; batch = 1; optimizer = sgd(lr=0.001); mode = static }\n");
  o.source.directory = folder.path("");
  o.evaluationBytes = 20000;
  o.outputRoot = folder.path("out");
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  std::string told;
  for (const auto& w : only<protocol::WarningEvent>(messages)) told += w.message;
  EXPECT_THAT(told, HasSubstr("`top` is averaged over batches of 1 rows, which is right for means alone: the 6 held-out rows"));
  const auto evals = only<protocol::EvalEvent>(messages);
  ASSERT_FALSE(evals.empty());
  EXPECT_EQ(evals.back().averaged, std::vector<std::string>{"top"});
  EXPECT_EQ(summary->done.averaged, std::vector<std::string>{"top"});
  const auto report = htmlReport(summary->folder, {"Batches", {}, ""});
  ASSERT_TRUE(report.ok());
  const std::size_t marked = report->find("mean over batches");
  ASSERT_NE(marked, std::string::npos);
  EXPECT_EQ(report->find("mean over batches", marked + 1), std::string::npos) << "only beside `top`";
}

// The same before anything runs.
TEST(EvaluationCheck, EvalsThatBatchesWouldAverageHaveTheirPlace) {
  const auto warned = [](const std::string& evals, std::int64_t bytes) {
    const CompiledNotebook notebook = compileNotebook(
        {"test.nf", "",
         "data D = digits { split = last 60 }\ninput X[B, 64] = batch D[:, 0..64]\nparam W[100, 64] = normal(0, 1)\n"
         "S[b, n] = sum[k] X[b, k] * W[n, k]\nR[b] = max[n] S[b, n]\nhint split S, R\nloss L = mean[b] R[b]\n" +
             evals + "train L { steps = 1; batch = 10; optimizer = sgd(lr=0.1) }\n"});
    EXPECT_TRUE(notebook.ok());
    const Diagnostics found = averagedEvals(notebook, {}, {}, bytes);
    EXPECT_LE(found.size(), 1u);
    return found.empty() ? std::string()
                         : std::to_string(notebook.sources.lineColumn(found[0].span).line) + ": " + found[0].message;
  };
  const std::string mean = "eval average = mean[b] R[b]\n";
  EXPECT_EQ(warned(mean, 1000), "");
  EXPECT_EQ(warned(mean + "eval top = max[b] R[b]\n", 1 << 20), "") << "they take 24 kB";
  EXPECT_THAT(
      warned(mean + "eval top = max[b] R[b]\n", 1000),
      testing::StartsWith("9: `top` is averaged over batches of 10 rows, which is right for means alone: the 60 held-out rows "
                          "would take "));
}

// Training gives it a value for each row of a batch, and other rows have none.
TEST(Train, AParameterWithTheExtentOfTheBatchIsWarnedOf) {
  const fakes::Folder folder;
  writeNumbers(folder.path("d.csv"), 20);
  const auto context = interpreter();
  for (const int held : {6, 4}) {
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor("data D = csv(\"d.csv\") { split = last " + std::to_string(held) +
                                " }\nlet B = 4\ninput X[B] = batch D[:, 0]\nparam w[4] = normal(0, 0)\nparam off[B] = 0.5\n"
                                "loss L = mean[b] (X[b] * 0.01 * mean[i] w[i] - off[b])^2\neval total = sum[b] off[b]\n"
                                "train L { epochs = 2; optimizer = sgd(lr=0.1); mode = static }\n");
    o.source.directory = folder.path("");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto warnings = only<protocol::WarningEvent>(messages);
    const auto evals = only<protocol::EvalEvent>(messages);
    ASSERT_FALSE(evals.empty());
    if (held == 4) {
      EXPECT_TRUE(warnings.empty()) << "as many rows as a batch: those that were trained";
      EXPECT_LT(evals.back().values.at("total"), 1.99);
      continue;
    }
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0].message,
                HasSubstr("`off` has the extent of the batch: the 6 rows that are held out are evaluated with its "
                          "first values"));
    EXPECT_EQ(warnings[0].line, 5);
    EXPECT_NEAR(evals.back().values.at("total"), 3, 1e-9);
  }
}

// The programs that evaluate are made beside the steps: where an epoch is one step, it waits for them.
TEST(Train, EveryEpochIsEvaluatedHoweverShortItIs) {
  const auto context = interpreter();
  std::string text = kDigits;
  text.replace(text.find("let B = 32"), 10, "let B = 1437");
  text.replace(text.find("batch = 32"), 10, "batch = 1437");
  text.replace(text.find("epochs = 1"), 10, "epochs = 4");
  std::vector<std::int64_t> evaluated;
  TrainJob job(*context, optionsFor(text), [&](const protocol::Message& m) {
    if (const auto* e = std::get_if<protocol::EvalEvent>(&m)) evaluated.push_back(e->step);
  });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace nf
