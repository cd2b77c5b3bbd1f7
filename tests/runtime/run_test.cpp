// SPDX-License-Identifier: Apache-2.0
// What the names of a run mean where a name is given to another tensor.
#include "core/runtime/run.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace nf {
namespace {

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

}  // namespace
}  // namespace nf
