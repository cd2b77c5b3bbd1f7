// SPDX-License-Identifier: Apache-2.0
// What a run computes, and what its names mean.
#include "core/runtime/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/data_file.h"
#include "tests/runtime/train_runs.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace runs;
using testing::HasSubstr;

using Names = std::vector<std::string>;

class RunNames : public testing::Test {
 protected:
  void run(const std::string& text, const Names& wanted) {
    if (!m_context) {
      BackendRegistry none;
      m_context = std::move(*DeviceContext::open(none, {.device = "reference"}));
    }
    RunOptions o;
    o.source = {"run.nf", "", text};
    o.tensors = wanted;
    m_job = std::make_unique<RunJob>(*m_context, o);
    const auto ready = m_job->prepare({});
    ASSERT_TRUE(ready.ok()) << ready.error().message << ready.error().detail;
    ASSERT_TRUE(m_job->run().ok());
  }
  std::vector<double> values(const Result<HostTensor>& tensor) const {
    if (!tensor) return ADD_FAILURE() << tensor.error().message, std::vector<double>();
    std::vector<double> all;
    for (std::int64_t i = 0; i < tensor->elements(); ++i) all.push_back(tensor->at(i));
    return all;
  }
  std::unique_ptr<DeviceContext> m_context;
  std::unique_ptr<RunJob> m_job;
};

using Values = std::vector<double>;
const Values kBefore = {1, 2, 3}, kAfter = {32, 64, 96};
const std::string kHead = "const X[3] = 1\nA[i] = X[i] + i\nshow A\n";

TEST_F(RunNames, EveryShowOfANameHasItsOwnTensor) {
  for (const char* loop : {"for t in 0..5 { A = A*2 }\n", "repeat 5 { A = A*2 }\n", "# %%\nfor t in 0..5 { A = A*2 }\n"}) {
    SCOPED_TRACE(loop);
    run(kHead + loop + "show A\n", {"shown"});
    EXPECT_EQ(m_job->names(), (Names{"A#1", "A"}));
    EXPECT_EQ(values(m_job->tensor("A#1")), kBefore);
    EXPECT_EQ(values(m_job->tensor("A")), kAfter);
  }
}

TEST_F(RunNames, APlainNameMeansWhatItIsAtTheEnd) {
  for (const char* loop : {"for t in 0..5 { A = A*2 }\n", "repeat 5 { A = A*2 }\n"}) {
    SCOPED_TRACE(loop);
    for (const char* last : {"", "show A\n", "B[i] = A[i] + 0\n"}) {
      run(kHead + loop + last, {"A", "A#1"});
      EXPECT_EQ(values(m_job->tensor("A")), kAfter) << last;
      EXPECT_EQ(values(m_job->tensor("A#1")), kBefore) << last;
    }
    run(std::string("const X[3] = 1\nA[i] = X[i] + i\n") + loop, {"all"});
    EXPECT_EQ(values(m_job->tensor("A")), kAfter);
    EXPECT_EQ(values(m_job->tensor("A#1")), kBefore);
  }
  run("const X[3] = 1\nA[i] = X[i] + i\nshow A, A\n", {"shown"});
  EXPECT_EQ(m_job->names(), Names{"A"});
}

TEST_F(RunNames, TwoTensorsUnderOneLabelAreTwo) {
  run("const X[3] = 1\nA[i] = X[i] + i\nB[i] = A[i]*32\nshow A as \"x\"\nshow B as \"x\"\n", {"shown"});
  EXPECT_EQ(m_job->names(), (Names{"x#1", "x"}));
  EXPECT_EQ(values(m_job->tensor("x#1")), kBefore);
  EXPECT_EQ(values(m_job->tensor("x")), kAfter);
}

TEST_F(RunNames, TheProgramHasItsOwnNames) {
  run(kHead + "for t in 0..5 { A = A*2 }\nshow A\n", {"all"});
  const CompiledNotebook& notebook = m_job->notebook();
  ASSERT_EQ(notebook.cells.size(), 1u);
  ASSERT_EQ(notebook.cells[0].shows.size(), 2u);
  EXPECT_EQ(values(m_job->tensorOfProgram(notebook.program[notebook.cells[0].shows[0]].name)), kBefore);
  EXPECT_EQ(values(m_job->tensorOfProgram(notebook.program[notebook.cells[0].shows[1]].name)), kAfter);
}

// Kernels' own tensors have layouts of their own; what a notebook says of one neither spoils values nor goes unanswered.
TEST(Run, ALayoutChangesNoValue) {
  const auto textOf = [](bool laid) {
    const auto layout = [laid](const char* text) { return laid ? std::string(" layout") + text : std::string(); };
    return "input X[5, 7, 3]" + layout("(2, 0, 1)") + " = normal(0, 1)\nparam W[7, 4]" + layout("(1, 0)") +
           " = normal(0, 1)\nY[a, c, k]" + layout("(1, 2, 0)") +
           " = sum[b] X[a, b, c] * W[b, k]\nloss L = sum[a, c, k] sin(Y[a, c, k])\nshow Y, d(L)/d(X)\n";
  };
  const CompiledNotebook laid = compileNotebook({"test.nf", {}, textOf(true)});
  ASSERT_EQ(laid.diagnostics.size(), 3u);
  for (const Diagnostic& d : laid.diagnostics) EXPECT_THAT(d.message, testing::HasSubstr("changes nothing"));
  const auto stages = runStages(std::make_shared<const Program>(laid.program), {}, Stage::Partitioned);
  ASSERT_TRUE(stages.ok());
  for (const Tensor& t : stages->partitioned->tensors) EXPECT_TRUE(t.layout.order.empty()) << t.name;
  EXPECT_EQ(structuralHash(*stages->partitioned),
            structuralHash(*runStages(std::make_shared<const Program>(compileNotebook({"test.nf", {}, textOf(false)}).program), {},
                                      Stage::Partitioned)
                                ->partitioned));
}

TEST(Run, ComputesNamedTensorsAndDerivatives) {
  const fakes::Folder folder;
  const auto context = interpreter();
  RunOptions o;
  o.source = {"run.nf", "", "param w[3] = normal(2, 0)\nu[i] = w[i] * w[i] * float(i)\nloss L = sum[i] u[i]\nshow d(L)/d(w)\n"};
  o.tensors = {"u", "L", "d(L)/d(w)"};
  o.verify = true;
  RunJob job(*context, o);
  const auto ready = job.prepare({});
  ASSERT_TRUE(ready.ok()) << ready.error().message << ready.error().detail;
  ASSERT_TRUE(job.run(true).ok());
  EXPECT_EQ(job.tensor("L")->at(0), 12);
  EXPECT_EQ(job.tensor("d(L)/d(w)")->at(2), 8);
  EXPECT_FALSE(job.kernelTimes().empty());
  ASSERT_TRUE(dumpTensors(job, folder.path("out")).ok());
  EXPECT_EQ(readNpy(folder.path("out/d(L)_d(w).npy"))->at(1), 4);
  o.tensors = {"nothing"};
  RunJob wrong(*context, o);
  EXPECT_THAT(wrong.prepare({}).error().message, HasSubstr("There is no tensor nothing"));
}

// Evaluation normalises by other numbers: of both programs each value is the one that its name means.
TEST(Run, GradientsAreThoseOfTraining) {
  const auto context = interpreter();
  const std::string text =
      "input X[4] = normal(1, 2)\nparam w[4] = normal(0, 1)\n"
      "y[i] = select(training, 3, 5) * w[i] * X[i]\nif training {\n  inner[i] = w[i] * 2\n}\nloss L = sum[i] y[i]\n"
      "step[i] = 2 * d(L)/d(w)[i]\nshow y, d(L)/d(w), step\n";
  const auto compute = [&](std::vector<std::string> tensors, bool training) {
    RunOptions o;
    o.source = {"run.nf", "", text};
    o.tensors = std::move(tensors);
    o.training = training;
    auto job = std::make_unique<RunJob>(*context, o);
    const auto ready = job->prepare({});
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    EXPECT_TRUE(job->run(true).ok());
    return job;
  };
  const auto shown = compute({"shown", "inner", "w", "X"}, false);
  EXPECT_EQ(shown->names(), (std::vector<std::string>{"y", "d(L)/d(w)", "step", "inner", "w", "X"}));
  const auto at = [&](const char* name) { return shown->tensor(name)->at(1); };
  EXPECT_NEAR(at("y"), 5 * at("w") * at("X"), 1e-9);
  EXPECT_NEAR(at("d(L)/d(w)"), 3 * at("X"), 1e-9);
  EXPECT_NEAR(at("step"), 6 * at("X"), 1e-9);
  EXPECT_NEAR(at("inner"), 2 * at("w"), 1e-9);
  EXPECT_EQ(shown->ofTraining("y"), std::optional(false));
  for (const char* name : {"d(L)/d(w)", "step", "inner"}) EXPECT_EQ(shown->ofTraining(name), std::optional(true)) << name;
  const auto gradient = compute({"d(L)/d(w)"}, false), training = compute({"y"}, true);
  EXPECT_EQ(gradient->tensor("d(L)/d(w)")->at(1), at("d(L)/d(w)"));
  EXPECT_EQ(gradient->ofTraining("d(L)/d(w)"), std::optional(true));
  EXPECT_NEAR(training->tensor("y")->at(1), 3 * at("w") * at("X"), 1e-9);
  EXPECT_FALSE(training->ofTraining("y")) << "nobody asks for another";
}

// A gradient that was printed reads names of the training program.
TEST(Run, StatementsThatOnlyTrainingHasAreLeftOutOfEvaluation) {
  const auto context = interpreter();
  RunOptions o;
  o.source = {"run.nf", "",
              "input X[8, 2] = normal(3, 1)\nY = batch_norm1d(X)\nL = sum[n, c] Y[n, c]^3\nshow L\n"
              "C[n, c] = X[n, c] - Y.M[c]\nM[c] = mean[n] X[n, c]\nshow C, M\n"};
  o.tensors = {"shown"};
  RunJob job(*context, o);
  const auto ready = job.prepare({});
  ASSERT_TRUE(ready.ok()) << ready.error().message;
  ASSERT_TRUE(job.run().ok());
  EXPECT_EQ(job.names(), (std::vector<std::string>{"L", "C", "M"}));
  EXPECT_GT(job.tensor("L")->at(0), 100) << "by the statistics that training has not moved yet";
  double sum = 0;
  for (int n = 0; n < 8; ++n) sum += job.tensor("C")->at(2 * n);
  EXPECT_NEAR(sum, 0, 1e-9);
  o.source.text += "D[n] = X[n, 0] - Z.M[n]\n";
  RunJob wrong(*context, o);
  EXPECT_THAT(wrong.prepare({}).error().message, HasSubstr("Z.M"));
}

}  // namespace
}  // namespace nf
