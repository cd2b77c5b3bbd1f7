// SPDX-License-Identifier: Apache-2.0
// Two kernels of a subgraph under a device's counters: in the measuring worker, and what asks for it.
#include <gtest/gtest.h>

#include <mutex>

#include "core/tune/measure_service.h"
#include "core/tune/tuning_service.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

const std::string kWorker = NF_BINARY_DIR "/bin/tune_test_worker";

class CountersInWorker : public ::testing::Test {
 protected:
  std::shared_ptr<const KernelObject> kernel(nlohmann::json knobs) {
    auto target = std::make_shared<Target>();
    target->backend = "fake";
    target->fingerprint = "fake 1";
    CompileJob job;
    job.subgraph = m_program;
    job.hash = structuralHash(*m_program);
    job.target = target;
    job.schedules = {fakes::schedule(std::move(knobs))};
    CompileService::Options options;
    options.workers = 1;
    options.command.arguments = {kWorker};
    CompileService service(options);
    auto outcome = service.compile(std::move(job)).get();
    EXPECT_TRUE(outcome.kernel.ok());
    return std::make_shared<const KernelObject>(std::move(*outcome.kernel));
  }
  MeasureOutcome count(const std::string& device, bool incumbent = true) {
    MeasureService::Options o;
    o.backend = "fake";
    o.device = device;
    o.command.arguments = {kWorker};
    o.leaseDirectory = m_folder.path("lease");
    MeasureService service(o);
    MeasureJob job;
    job.subgraph = m_program;
    job.hash = structuralHash(*m_program);
    job.candidate = kernel({{"spin_us", 200}});
    if (incumbent) job.incumbent = kernel({{"spin_us", 3000}});
    job.gate = GateLevel::Quick;
    job.time = false;
    job.count = true;
    return service.measure(std::move(job)).get();
  }
  fakes::Folder m_folder;
  std::shared_ptr<const Program> m_program = std::make_shared<const Program>(fakes::matmul(6, 5, 4));
};

TEST_F(CountersInWorker, BothKernelsAreCountedAndNothingIsLostOnTheWay) {
  const MeasureOutcome outcome = count("fake:counted");
  ASSERT_EQ(outcome.status, TrialStatus::Ok) << outcome.reason;
  EXPECT_TRUE(outcome.hasCounters);
  EXPECT_EQ(outcome.countersMissing, "");
  EXPECT_EQ(outcome.timing.runs, 0);
  ASSERT_TRUE(outcome.counters && outcome.incumbentCounters);
  EXPECT_GE(outcome.counters->us, 200);
  EXPECT_GE(outcome.incumbentCounters->us, 3000);
  KernelCounters expected = *outcome.counters;
  expected.flops = 120, expected.dramBytes = 4096, expected.l2Bytes = 8192, expected.occupancy = 0.5;
  expected.stalls = {{"long_scoreboard", 0.75}, {"barrier", 0.25}};
  expected.lines = {{12, 30, "barrier"}};
  expected.withoutLines = "why";
  EXPECT_EQ(*outcome.counters, expected);
  const MeasureOutcome alone = count("fake:counted", false);
  EXPECT_TRUE(alone.counters);
  EXPECT_FALSE(alone.incumbentCounters);
}

TEST_F(CountersInWorker, ARefusalIsASentenceAndNoFailureOfTheKernel) {
  const MeasureOutcome refused = count("fake:refused");
  EXPECT_EQ(refused.status, TrialStatus::Ok);
  EXPECT_EQ(refused.countersMissing, "Only an administrator may look.");
  EXPECT_FALSE(refused.counters);
  const MeasureOutcome none = count("fake");
  EXPECT_EQ(none.status, TrialStatus::Ok);
  EXPECT_FALSE(none.hasCounters);
  EXPECT_NE(none.countersMissing.find("has no counters"), std::string::npos);
}

// Times by the space; counts by the schedule.
class Counting final : public Evaluator {
 public:
  bool hasCounters = true, fails = false;
  std::string refuses;
  std::atomic<int> counted{0};

  CompileOutcome compile(CompileJob job, std::stop_token) override {
    KernelObject object;
    object.schedule = job.schedules.at(0);
    object.subgraph = job.hash;
    return {std::move(object), TrialStatus::Ok, 0, false};
  }
  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    MeasureOutcome outcome;
    outcome.cancelled = stop.stop_requested();
    outcome.hasCounters = hasCounters;
    outcome.gate.passed = true;
    const auto us = [](const KernelObject& k) { return 1e6 * fakes::Space::seconds(k.schedule); };
    if (job.count) {
      ++counted;
      if (fails) {
        outcome.status = TrialStatus::Crashed;
        outcome.reason = "the measuring process ended: signal 6";
        return outcome;
      }
      outcome.countersMissing = refuses;
      if (!refuses.empty()) return outcome;
      outcome.counters.emplace().us = us(*job.candidate);
      outcome.incumbentCounters.emplace().us = us(*job.incumbent);
      return outcome;
    }
    if (!job.time) return outcome;
    outcome.timing = {us(*job.candidate), 0.01, 7};
    if (!job.incumbent) return outcome;
    outcome.incumbent = {us(*job.incumbent), 0.01, 7};
    outcome.pairs.assign(7, {us(*job.incumbent), us(*job.candidate)});
    return outcome;
  }
};

struct Searched {
  std::vector<CountersEvent> counters;
  std::vector<TrialEvent> trials;
  std::uint64_t generation = 0;
};

Searched search(Counting& evaluator) {
  Searched found;
  std::mutex mutex;
  SteadyClock clock;
  FunctionCache cache;
  auto target = std::make_shared<Target>();
  target->backend = "fake";
  target->fingerprint = "fake 1";
  TuningOptions options;
  options.deviceShare = 1;
  options.lastWordInSteps = false;
  options.maximumTrials = 60;
  options.space = [](const Program&, const Target&) -> Result<std::unique_ptr<ScheduleSpace>> {
    return std::unique_ptr<ScheduleSpace>(std::make_unique<fakes::Space>());
  };
  options.onCounters = [&](const CountersEvent& e) {
    const std::lock_guard lock(mutex);
    found.counters.push_back(e);
  };
  options.onTrial = [&](const TrialEvent& e) {
    const std::lock_guard lock(mutex);
    found.trials.push_back(e);
  };
  TuningTask task;
  auto program = std::make_shared<const Program>(fakes::elementwise(8));
  task.hash = structuralHash(*program);
  task.subgraph = program;
  task.name = "Y";
  TuningService service(target, evaluator, cache, nullptr, clock, options);
  service.add({task});
  service.start();
  EXPECT_TRUE(service.waitFinished({}, std::chrono::minutes(2)));
  service.stop();
  found.generation = cache.find(task.hash)->generation;
  return found;
}

TEST(CountersOfSwaps, EveryKernelThatWinsIsCountedBesideTheOneItBeats) {
  Counting evaluator;
  const Searched found = search(evaluator);
  ASSERT_GT(found.generation, 1u);
  EXPECT_EQ(found.counters.size() + 1, found.generation) << "one for each swap";
  for (const CountersEvent& e : found.counters) {
    EXPECT_EQ(e.name, "Y");
    ASSERT_TRUE(e.beforeCounters && e.afterCounters);
    EXPECT_GT(e.beforeCounters->us, e.afterCounters->us);
    EXPECT_DOUBLE_EQ(e.afterCounters->us, 1e6 * fakes::Space::seconds(e.after));
    EXPECT_DOUBLE_EQ(e.beforeCounters->us, 1e6 * fakes::Space::seconds(e.before));
  }
}

TEST(CountersOfSwaps, WhereThereAreNoneNothingIsAsked) {
  Counting evaluator;
  evaluator.hasCounters = false;
  const Searched found = search(evaluator);
  EXPECT_GT(found.generation, 1u);
  EXPECT_EQ(evaluator.counted, 0);
  EXPECT_TRUE(found.counters.empty());
}

TEST(CountersOfSwaps, ARefusalIsToldOnceAndTheSearchGoesOn) {
  for (const bool dies : {false, true}) {
    SCOPED_TRACE(dies);
    Counting evaluator;
    evaluator.fails = dies;
    if (!dies) evaluator.refuses = "Only an administrator may look.";
    const Searched found = search(evaluator);
    EXPECT_GT(found.generation, 2u);
    EXPECT_EQ(evaluator.counted, 1);
    ASSERT_EQ(found.counters.size(), 1u);
    EXPECT_NE(found.counters[0].missing.find(dies ? "signal 6" : "administrator"), std::string::npos) << found.counters[0].missing;
    for (const TrialEvent& t : found.trials) EXPECT_EQ(t.status, TrialStatus::Ok) << t.reason;
  }
}

}  // namespace
}  // namespace nf
