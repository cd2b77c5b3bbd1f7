// SPDX-License-Identifier: Apache-2.0
// Real kernels end to end: compiled and measured in processes, checked, tuned, recorded, handed to a program that steps.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/tune/device_lease.h"
#include "core/tune/tune_program.h"
#include "plugins/cpu/plugin.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

const std::string kWorker = NF_BINARY_DIR "/bin/tune_cpu_worker";

Program grouped(Program program) {
  Group group;
  for (std::size_t i = 0; i < program.operators.size(); ++i) group.operators.push_back(OperatorId(i));
  program.groups = {group};
  return program;
}

class TuneCpu : public ::testing::Test {
 protected:
  TuneCpu() {
    m_registry.add("cpu", neoflowPlugin);
    m_backend = m_registry.find("cpu");
    m_options.worker.arguments = {kWorker};
    m_options.recordsPath = m_folder.path("records.sqlite");
    m_options.onTrial = [this](const TrialEvent& event) {
      const std::lock_guard lock(m_mutex);
      m_events.push_back(event);
      // Killed is no failure here: on a busy machine any deadline may pass.
      if (event.status == TrialStatus::Wrong || event.status == TrialStatus::Crashed)
        ADD_FAILURE() << event.schedule.text() << ": " << event.reason;
    };
    m_options.onMessage = [](const std::string& message) { ADD_FAILURE() << message; };
  }

  TuneSummary tune(const Program& program, std::int64_t trials) {
    m_options.trials = trials;
    auto summary = tuneProgram(grouped(program), m_registry, m_options);
    EXPECT_TRUE(summary.ok()) << (summary ? "" : summary.error().message);
    return summary ? std::move(*summary) : TuneSummary{};
  }

  fakes::Folder m_folder;
  BackendRegistry m_registry;
  Backend* m_backend = nullptr;
  TuneProgramOptions m_options;
  std::mutex m_mutex;
  std::vector<TrialEvent> m_events;
};

TEST_F(TuneCpu, EveryScheduleOfAMatmulThatIsTriedIsRight) {
  const TuneSummary summary = tune(fakes::matmul(96, 80, 72, true), 24);
  ASSERT_EQ(summary.subgraphs.size(), 1u);
  EXPECT_GT(summary.subgraphs[0].firstMicroseconds, 0);
  EXPECT_LE(summary.bestStepMicroseconds, summary.firstStepMicroseconds);
  EXPECT_GT(summary.trials, 0);
  RecordProperty("first_us", std::to_string(summary.firstStepMicroseconds));
  RecordProperty("best_us", std::to_string(summary.bestStepMicroseconds));
}

TEST_F(TuneCpu, EveryScheduleOfAnElementwiseChainThatIsTriedIsRight) {
  const TuneSummary summary = tune(fakes::elementwise(100003), 16);
  ASSERT_EQ(summary.subgraphs.size(), 1u);
  EXPECT_GT(summary.subgraphs[0].firstMicroseconds, 0);
  EXPECT_LE(summary.bestStepMicroseconds, summary.firstStepMicroseconds);
}

// What an executor does: takes kernels from the cache between steps, gives candidates their last word, waits for nothing else.
// Said once, by who stopped it: a kernel that nobody had the time to make has not failed.
TEST_F(TuneCpu, AStopBeforeTheFirstKernelsIsNoFailureOfTheirs) {
  std::stop_source stop;
  stop.request_stop();
  m_options.stop = stop.get_token();
  const TuneSummary summary = tune(fakes::matmul(96, 80, 72, true), 24);
  EXPECT_FALSE(summary.subgraphs.empty());
  EXPECT_EQ(summary.withoutFirst, summary.subgraphs.size());
}

TEST_F(TuneCpu, AProgramStepsWhileItsKernelIsTuned) {
  const auto program = std::make_shared<const Program>(fakes::matmul(64, 64, 64));
  const Hash hash = structuralHash(*program);
  CompileService compile({2, m_options.worker});
  MeasureService measure({"cpu", "cpu", 1, m_options.worker, m_folder.path("lease")});
  auto target = m_backend->target("cpu", 1);
  ASSERT_TRUE(target.ok());
  auto device = m_backend->open("cpu", 1);
  ASSERT_TRUE(device.ok());
  const auto lease = std::move(*DeviceLease::open("cpu", m_folder.path("lease")));
  const auto evaluator = workerEvaluator(compile, measure);
  FunctionCache cache;
  SteadyClock clock;
  TuningOptions options;
  options.maximumTrials = 24;
  options.onTrial = m_options.onTrial;
  TuningService service(std::make_shared<const Target>(*target), *evaluator, cache, nullptr, clock, options);
  service.add({{program, hash, "Z", 1, {}}});
  const std::vector<Hash> needed{hash};
  ASSERT_TRUE(cache.waitFor(needed, {}, std::chrono::minutes(1)));
  ASSERT_TRUE(cache.find(hash)) << cache.failure(hash)->message << cache.failure(hash)->detail;
  service.start();

  std::vector<float> a(64 * 64, 1), b(64 * 64, 2), z(64 * 64);
  std::vector<std::byte> workspace(1 << 20);
  void* const tensors[] = {a.data(), b.data(), z.data()};
  const auto run = [&](Kernel& kernel) {
    const auto start = clock.now();
    EXPECT_TRUE(kernel.launch({tensors, workspace.data(), {}, 1, 0}));
    return std::chrono::duration<double, std::micro>(clock.now() - start).count();
  };
  std::uint64_t version = 0;
  std::unique_ptr<Kernel> kernel, candidate;
  std::optional<StepCandidate> offered;
  int steps = 0, swaps = 0;
  bool decided = true;
  while (!service.finished() || !decided) {
    const auto changes = cache.changesSince(version);
    version = changes.version;
    for (const auto& change : changes.changes) {
      kernel = std::move(*(*device)->link(*change.kernel.object));
      swaps += change.kernel.generation > 1;
    }
    if (!offered && (offered = service.nextCandidate())) candidate = std::move(*(*device)->link(*offered->candidate));
    decided = !offered;
    const auto hold = lease->acquire();
    double us = run(*kernel);
    if (offered) {
      const TimedPair pair{us, run(*candidate)};
      if (service.reportPairs(offered->ticket, {&pair, 1}).decision != PairedVerdict::Decision::NeedMore) offered.reset();
    }
    EXPECT_EQ(z[0], 128);
    service.stepDone(us * 1e-6);
    ++steps;
  }
  EXPECT_GT(steps, 0);
  RecordProperty("swaps", swaps);
  RecordProperty("longest_wait_us", static_cast<int>(lease->waits().longestNanoseconds / 1000));
}

}  // namespace
}  // namespace nf
