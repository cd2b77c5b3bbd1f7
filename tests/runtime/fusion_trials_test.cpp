// SPDX-License-Identifier: Apache-2.0
// Which fusions measurement takes back, with made-up timings: a verdict counts for the schedules that it was measured with.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "core/device/reference_backend.h"
#include "core/ir/structural_hash.h"
#include "core/lang/compile.h"
#include "core/runtime/fusion_trials.h"
#include "core/syntax/token.h"
#include "tests/runtime/train_runs.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace runs;

constexpr const char* kBothFused = R"(
param A[48, 48] = normal(0, 1)
Y[i, j] = sum[k] A[i, k] * A[k, j]
Z[i, j] = tanh(Y[i, j])
loss L = mean[i, j] Z[i, j]^2
show Z
train L { steps = 1000000; optimizer = sgd(lr=0.001); mode = dynamic; seed = 1 }
)";

// The kernels of both sides.
std::vector<Hash> siteOf(const CompareJob& job) {
  std::vector<Hash> kernels;
  for (const auto* side : {&job.first, &job.second})
    for (const BranchKernel& k : *side) kernels.push_back(k.hash);
  return kernels;
}

// The interpreter's kernels under whatever schedule is asked for. A comparison says what the test says.
class MadeUp final : public Evaluator {
 public:
  CompileOutcome compile(CompileJob job, std::stop_token) override {
    auto object = (*m_backend->compiler(*job.target))->compile({*job.subgraph, job.schedules.front(), {}});
    object->subgraph = job.hash;
    return {std::move(*object)};
  }
  MeasureOutcome measure(MeasureJob, std::stop_token) override {
    MeasureOutcome outcome;
    outcome.gate.passed = true;
    return outcome;
  }
  MeasureOutcome compare(CompareJob job, std::stop_token) override {
    const TimedPair pair = timed(job);
    compared.push_back(siteOf(job));
    MeasureOutcome outcome;
    outcome.pairs.assign(7, pair);
    outcome.incumbent = {pair.incumbent, 0.01, 7};
    outcome.timing = {pair.candidate, 0.01, 7};
    ++comparisons;
    return outcome;
  }

  std::function<TimedPair(const CompareJob&)> timed = [](const CompareJob&) { return TimedPair{10, 8}; };
  std::vector<std::vector<Hash>> compared;  // sites
  std::atomic<int> comparisons{0};

 private:
  Backend* m_backend = referenceBackend(kPluginVersion);
};

class FusionTrialsTest : public ::testing::Test {
 protected:
  FusionTrialsTest() {
    auto evaluator = std::make_unique<MadeUp>();
    m_evaluator = evaluator.get();
    m_context = DeviceContext::of(std::move(*referenceBackend(kPluginVersion)->open("reference", 1)), nullptr, std::move(evaluator),
                                  *RecordDatabase::open(m_folder.path("records.sqlite")));
    m_options.stages.device = DeviceConstants{6e9, 1e11, 2e-7};
    m_options.schedule = [this](const Hash& hash) -> std::optional<Schedule> {
      const auto found = m_best.find(hash);
      return found == m_best.end() ? std::nullopt : std::optional(found->second);
    };
  }

  Stages stagesOf(const std::string& text) const {
    const CompiledNotebook notebook = compileNotebook({"test.nf", "", text}, {});
    EXPECT_TRUE(notebook.ok());
    auto stages = runStages(std::make_shared<const Program>(notebook.program), m_options.stages);
    EXPECT_TRUE(stages.ok() && stages->fused);
    return std::move(*stages);
  }
  FusionTrials trials(const std::string& text = kBothFused) { return FusionTrials(*m_context, stagesOf(text), m_options); }
  // A search finds another schedule for this kernel.
  void supersede(const BranchKernel& kernel) {
    const auto space = scheduleSpace(*kernel.subgraph, *m_context->target());
    ASSERT_TRUE(space.ok());
    while (!m_best.contains(kernel.hash) || m_best.at(kernel.hash) == kernel.object->schedule)
      m_best.insert_or_assign(kernel.hash, (*space)->mutate(kernel.object->schedule, m_random));
  }
  std::vector<RecordDatabase::FusionRecord> records() { return m_context->records()->fusions(m_context->target()->fingerprint); }

  fakes::Folder m_folder;
  MadeUp* m_evaluator;
  std::unique_ptr<DeviceContext> m_context;
  FusionTrials::Options m_options;
  std::map<Hash, Schedule> m_best;
  std::mt19937_64 m_random{1};
};

// The fused kernel runs by a schedule that was found while it was compared by its first one: that one counts.
TEST_F(FusionTrialsTest, AKernelThatLosesByASupersededScheduleIsMeasuredAgain) {
  std::set<std::vector<Hash>> sites;
  m_evaluator->timed = [&](const CompareJob& job) {
    const BranchKernel& fused = job.first.front();
    if (!sites.insert(siteOf(job)).second) {
      EXPECT_EQ(fused.object->schedule, m_best.at(fused.hash));
      return TimedPair{5, 8};
    }
    supersede(fused);
    return TimedPair{10, 8};
  };
  FusionTrials all = trials();
  const auto found = all.next({});
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
  ASSERT_FALSE(sites.empty());
  ASSERT_EQ(m_evaluator->compared.size(), 2 * sites.size());
  EXPECT_EQ(m_evaluator->compared[0], m_evaluator->compared[1]);
  ASSERT_EQ(records().size(), sites.size());
  for (const auto& record : records()) {
    EXPECT_FALSE(record.reverted);
    EXPECT_EQ(record.measurement.fused, 5);
  }
}

// The same where it is a part that has a new schedule; where there is a new one each time, that comes to an end.
TEST_F(FusionTrialsTest, AKernelWhosePartsChangeEachTimeStays) {
  m_evaluator->timed = [&](const CompareJob& job) {
    supersede(job.second.front());
    return TimedPair{10, 8};
  };
  FusionTrials all = trials();
  const auto found = all.next({});
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
  EXPECT_GT(m_evaluator->compared.size(), 1u);
  const std::set sites(m_evaluator->compared.begin(), m_evaluator->compared.end());
  EXPECT_LE(m_evaluator->compared.size(), 4 * sites.size());
  EXPECT_TRUE(records().empty()) << "the next run asks again";
}

TEST_F(FusionTrialsTest, AVerdictIsRecordedOnceTheKernelIsSplit) {
  FusionTrials all = trials();
  auto found = all.next({});
  ASSERT_TRUE(found.ok() && found->has_value());
  const Hash kernel = (*found)->kernel.signature;
  EXPECT_TRUE((*found)->schedules.contains((*found)->kernel.subgraph));
  EXPECT_GT((*found)->schedules.size(), 1u) << "and of its parts";
  EXPECT_TRUE(records().empty());

  all.refuse(true);
  EXPECT_TRUE(records().empty());
  found = all.next({});
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->kernel.signature, kernel) << "measured again";
  all.accept();
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].kernel.kernel, kernel);
  EXPECT_GT(records()[0].kernel.parts.size(), 1u);
  EXPECT_TRUE(records()[0].reverted);

  while ((found = all.next({})).ok() && found->has_value()) {
    EXPECT_NE((*found)->kernel.signature, kernel);
    all.refuse(false);
  }
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(records().size(), 1u) << "what one of its parts had no kernel for is not known to lose";
}

// Events name the two tensors that the table of decisions has, and how many kernels the times are of.
TEST_F(FusionTrialsTest, AnEventNamesTheDecisionThatIsTakenBack) {
  constexpr const char* kSeveral = R"(
param A[48, 48] = normal(0, 1)
param V[48] = normal(0, 1)
Y[i, j] = sum[k] A[i, k] * A[k, j]
Z[i, j] = tanh(Y[i, j]) + V[j]
U[i] = sum[j] Z[i, j] * V[j]
loss L = mean[i] U[i]^2
train L { steps = 1000000; optimizer = adam(lr=0.001); mode = dynamic; seed = 1 }
)";
  FusionTrials all = trials(kSeveral);
  int named = 0;
  for (;;) {
    const auto found = all.next({});
    ASSERT_TRUE(found.ok());
    if (!found->has_value()) break;
    const protocol::FusionRevertedEvent event = revertedEvent(**found);
    const auto& decisions = (*found)->stages.decisions;
    const auto told = std::ranges::find_if(decisions, [&](const FusionDecision& d) {
      return d.state == FusionState::Reverted && d.lost.kernel.hex() == event.kernel;
    });
    if (told != decisions.end()) {
      EXPECT_EQ(event.producer, told->producer);
      EXPECT_EQ(event.consumer, told->consumer);
      ++named;
    }
    const std::vector<Hash>& site = m_evaluator->compared.back();
    EXPECT_EQ(event.fused_kernels + event.split_kernels, static_cast<std::int64_t>(site.size()));
    EXPECT_GT(event.fused_kernels, 0);
    all.accept();
  }
  EXPECT_GT(named, 1);
}

// Three in a row: what it is to be held against is two of them in one kernel, and which two a hint can say.
constexpr const char* kRow = R"(
param A[512] = normal(0, 1)
U[i] = tanh(A[i])
V[i] = tanh(U[i] + A[i])
W[i] = tanh(V[i] - A[i])
show W
)";

// What was measured in one program holds in another where the same parts would take the kernel's place; else it is measured there, too.
TEST_F(FusionTrialsTest, AVerdictHoldsOfThePartsThatWereMeasured) {
  FusionTrials first = trials(kRow);
  auto found = first.next({});
  ASSERT_TRUE(found.ok() && found->has_value());
  const Hash kernel = (*found)->kernel.signature;
  first.accept();
  ASSERT_EQ(records().size(), 1u);
  const Program& split = *(*found)->stages.fused;
  ASSERT_EQ(split.groups.size(), 2u);
  const bool lastTwo = split.groups[0].operators.size() == 1;

  const auto measuredBy = [&](const std::string& text) {
    m_evaluator->compared.clear();
    m_options.stages.fusion.reverted = revertedKernels(*m_context);
    FusionTrials all = trials(text);
    while ((found = all.next({})).ok() && found->has_value()) all.accept();
    EXPECT_TRUE(found.ok());
    return m_evaluator->compared.size();
  };
  m_evaluator->timed = [](const CompareJob&) { return TimedPair{8, 10}; };
  const std::string renamed =
      "param B[512] = normal(0, 1)\nX[i] = tanh(B[i])\nY[i] = tanh(X[i] + B[i])\nZ[i] = tanh(Y[i] - B[i])\nshow Z\n";
  EXPECT_EQ(measuredBy(renamed), 1u) << "of the two that are left in one kernel only";
  const std::string other = std::string(kRow) + (lastTwo ? "hint fuse U, V\n" : "hint fuse V, W\n");
  EXPECT_EQ(measuredBy(other), 1u);
  EXPECT_EQ(measuredBy(other), 0u) << "known by now";
  std::size_t ofIt = 0;
  for (const auto& record : records())
    if (record.kernel.kernel == kernel) {
      ++ofIt;
      EXPECT_EQ(record.reverted, record.measurement.split < record.measurement.fused);
    }
  EXPECT_EQ(ofIt, 2u);
  m_options.stages.fusion.reverted = revertedKernels(*m_context);
  EXPECT_EQ(stagesOf(other).fused->groups.size(), 1u);
  EXPECT_EQ(stagesOf(kRow).fused->groups.size(), 2u);
}

// A person's measurement of a fusion that was taken back has the last word, both ways.
TEST_F(FusionTrialsTest, MeasuringAFusionThatWasTakenBackJudgesItAnew) {
  FusionTrials all = trials(kRow);
  const auto found = all.next({});
  ASSERT_TRUE(found.ok() && found->has_value());
  all.accept();
  const auto plan = [&] {
    m_options.stages.fusion.reverted = revertedKernels(*m_context);
    return stagesOf(kRow);
  };
  const auto measure = [&](TimedPair pair) {
    m_evaluator->timed = [pair](const CompareJob&) { return pair; };
    const Stages stages = plan();
    const auto decision =
        std::ranges::find_if(stages.decisions, [](const FusionDecision& d) { return d.state == FusionState::Reverted; });
    EXPECT_NE(decision, stages.decisions.end());
    auto compared = compareBranches(stages, *m_context, m_options.stages, decision->producer, decision->consumer, {});
    EXPECT_TRUE(compared.ok() && compared->has_value());
    return std::move(**compared);
  };
  const BranchComparison stays = measure({12, 9});
  EXPECT_EQ(stays.judged, FusionState::Reverted);
  EXPECT_TRUE(stays.verdict().ends_with(" It stays taken back.")) << stays.verdict();
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].measurement.fused, 12);
  EXPECT_EQ(plan().fused->groups.size(), 2u);

  const BranchComparison back = measure({9, 12});
  EXPECT_EQ(back.judged, FusionState::Accepted);
  EXPECT_TRUE(back.verdict().ends_with(" It had been taken back, and is fused again.")) << back.verdict();
  ASSERT_EQ(records().size(), 1u);
  EXPECT_FALSE(records()[0].reverted);
  const Stages fused = plan();
  EXPECT_EQ(fused.fused->groups.size(), 1u);
  // Of one that was not taken back it decides nothing.
  m_evaluator->timed = [](const CompareJob&) { return TimedPair{12, 9}; };
  const auto accepted = compareBranches(fused, *m_context, m_options.stages, "U", "V", {});
  ASSERT_TRUE(accepted.ok() && accepted->has_value());
  EXPECT_FALSE((*accepted)->judged);
  EXPECT_FALSE(records()[0].reverted);
}

// The search has nothing to say of a schedule that a person has chosen.
TEST_F(FusionTrialsTest, APinnedKernelStays) {
  const Stages stages = stagesOf(kBothFused);
  const Program& fused = *stages.fused;
  std::string hints;
  for (const Group& group : fused.groups) {
    const Subgraph subgraph = SubgraphExtractor(fused).extract(group.operators);
    const auto space = scheduleSpace(subgraph.program, *m_context->target());
    ASSERT_TRUE(space.ok());
    hints += "hint schedule " + quotedName(fused[writesOf(fused, group.operators.back()).front()].name) + " " +
             (*space)->first().text() + "\n";
  }
  FusionTrials all = trials(kBothFused + hints);
  const auto found = all.next({});
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
  EXPECT_TRUE(m_evaluator->compared.empty());
  EXPECT_TRUE(records().empty());
}

// Steps run kernels by schedules that no comparison has measured: what one says of others takes nothing back.
TEST_F(FusionTrialsTest, TrainingAppliesNoVerdictOfKernelsThatItDoesNotRun) {
  TrainOptions o = optionsFor(kBothFused);
  o.evaluate = false;
  o.tuning.deviceShare = 1;
  o.tuning.maximumTrials = 0;  // only fusions are on trial
  o.tuning.space = [](const Program&, const Target&) -> Result<std::unique_ptr<ScheduleSpace>> {
    return std::unique_ptr<ScheduleSpace>(std::make_unique<fakes::Space>());
  };
  std::stop_source stop;
  TrainJob job(*m_context, o, [&](const protocol::Message& m) {
    const bool reverted = std::holds_alternative<protocol::FusionRevertedEvent>(m);
    EXPECT_FALSE(reverted);
    // A second comparison of a kernel follows a verdict that was refused.
    if (reverted || (std::holds_alternative<protocol::StepEvent>(m) && m_evaluator->comparisons >= 2)) stop.request_stop();
  });
  const auto summary = job.run(stop.get_token());
  ASSERT_TRUE(summary.ok()) << summary.error().message << " " << summary.error().detail;
  ASSERT_GE(m_evaluator->compared.size(), 2u);
  EXPECT_EQ(m_evaluator->compared[0], m_evaluator->compared[1]);
  for (const KernelSwap& swap : summary->swaps) EXPECT_FALSE(swap.reverted);
  EXPECT_TRUE(revertedKernels(*m_context).empty());
}

}  // namespace
}  // namespace nf
