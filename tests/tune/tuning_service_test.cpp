// SPDX-License-Identifier: Apache-2.0
#include "core/tune/tuning_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <future>
#include <map>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/tune/fakes.h"

namespace nf {
namespace {

using fakes::Space;

// Time passes when somebody waits for it, or when a test says so.
class FakeClock final : public Clock {
 public:
  Time now() const override { return Time(m_now.load()); }
  void advance(std::chrono::nanoseconds by) { m_now += by.count(); }
  bool waitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable_any&, std::stop_token stop, Time until,
                 const std::function<bool()>& ready) override {
    if (ready() || stop.stop_requested()) return ready();
    std::int64_t now = m_now;
    while (now < until.count() && !m_now.compare_exchange_weak(now, until.count())) {}
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    return ready();
  }

 private:
  std::atomic<std::int64_t> m_now{0};
};

// Compiles and times out of the air: what a schedule does is its time in the fake space, or what `behaviour` says.
class FakeEvaluator final : public Evaluator {
 public:
  explicit FakeEvaluator(FakeClock& clock) : m_clock(clock) {}
  std::function<TrialStatus(const Schedule&)> compiles = [](const Schedule&) { return TrialStatus::Ok; };
  std::function<TrialStatus(const Schedule&, GateLevel)> gates = [](const Schedule&, GateLevel) { return TrialStatus::Ok; };
  std::function<bool(const CompileJob&)> killed = [](const CompileJob&) { return false; };  // by others
  std::function<bool(const MeasureJob&)> measureKilled = [](const MeasureJob&) { return false; };
  std::function<void(std::stop_token)> beforeMeasure = [](std::stop_token) {};
  double deviceSeconds = 0.01;
  bool lacksMemory = false;  // every check

  CompileOutcome compile(CompileJob job, std::stop_token stop) override {
    ++compiled;
    CompileOutcome outcome{Error{"compile", "no schedule left", "fake", {}}, TrialStatus::Ok, 0, false};
    if (stop.stop_requested()) {
      outcome.cancelled = true;
      return outcome;
    }
    if (killed(job)) {
      outcome.outside = true;
      return outcome;
    }
    for (std::size_t i = 0; i < job.schedules.size(); ++i) {
      const TrialStatus status = compiles(job.schedules[i]);
      if (i == 0) outcome.status = status;
      outcome.died = status == TrialStatus::Killed;
      if (status != TrialStatus::Ok) continue;
      KernelObject object;
      object.schedule = job.schedules[i];
      object.effort = job.effort;
      object.subgraph = job.hash;
      outcome.kernel = std::move(object);
      break;
    }
    return outcome;
  }

  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    beforeMeasure(stop);
    ++measured;
    MeasureOutcome outcome;
    outcome.cancelled = stop.stop_requested();
    outcome.outside = !outcome.cancelled && measureKilled(job);
    if (outcome.outside) return outcome;
    outcome.deviceSeconds = deviceSeconds;
    m_clock.advance(std::chrono::nanoseconds(static_cast<std::int64_t>(deviceSeconds * 1e9)));
    outcome.status = gates(job.candidate->schedule, job.gate);
    if (lacksMemory) {
      outcome.status = TrialStatus::Crashed;
      outcome.lacksMemory = true;
      outcome.reason = "no memory";
    }
    outcome.gate.passed = outcome.status == TrialStatus::Ok;
    if (!outcome.gate.passed || !job.time) return outcome;
    const auto microseconds = [](const KernelObject& k) {
      return 1e6 * Space::seconds(k.schedule) * (k.effort == CompileEffort::Quick ? 1.25 : 1);
    };
    const double us = microseconds(*job.candidate);
    outcome.timing = {us, 0.01 * us, 3};
    if (job.incumbent) {
      const double other = microseconds(*job.incumbent);
      outcome.incumbent = {other, 0.01 * other, 7};
      if (us > 1.2 * other) outcome.status = TrialStatus::Slow;
      else outcome.pairs.assign(7, {other, us});
    }
    return outcome;
  }

  std::atomic<int> compiled{0}, measured{0};

 private:
  FakeClock& m_clock;
};

class TuningServiceTest : public ::testing::Test {
 protected:
  TuningServiceTest() : m_evaluator(m_clock) {
    auto target = std::make_shared<Target>();
    target->backend = "fake";
    target->fingerprint = "fake 1";
    m_target = target;
    m_options.space = [](const Program&, const Target&) -> Result<std::unique_ptr<ScheduleSpace>> {
      return std::unique_ptr<ScheduleSpace>(std::make_unique<Space>());
    };
    m_options.onTrial = [this](const TrialEvent& event) {
      const std::lock_guard lock(m_mutex);
      m_events.push_back(event);
    };
  }

  TuningTask task(std::int64_t size, double calls = 1) {
    TuningTask t;
    auto program = std::make_shared<const Program>(fakes::elementwise(size));
    t.hash = structuralHash(*program);
    t.subgraph = std::move(program);
    t.name = "Y" + std::to_string(size);
    t.callsPerStep = calls;
    return t;
  }

  std::unique_ptr<TuningService> service(RecordDatabase* records = nullptr) {
    return std::make_unique<TuningService>(m_target, m_evaluator, m_cache, records, m_clock, m_options);
  }

  std::vector<TrialEvent> events() {
    const std::lock_guard lock(m_mutex);
    return m_events;
  }

  bool waitFirst(std::vector<Hash> hashes) { return m_cache.waitFor(hashes, {}, std::chrono::minutes(1)); }

  FakeClock m_clock;
  FakeEvaluator m_evaluator;
  FunctionCache m_cache;
  std::shared_ptr<const Target> m_target;
  TuningOptions m_options;
  std::mutex m_mutex;
  std::vector<TrialEvent> m_events;
};

TEST_F(TuningServiceTest, FirstKernelsComeWithoutTheLoops) {
  const auto s = service();
  s->add({task(8), task(9), task(10)});
  EXPECT_TRUE(waitFirst({task(8).hash, task(9).hash, task(10).hash}));
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(1)));
  EXPECT_EQ(m_cache.find(task(8).hash)->object->schedule, Space().first());
  EXPECT_EQ(m_evaluator.compiled, 3);
  EXPECT_EQ(s->trials(), 0);
}

// A first kernel may be compiled quickly; the search begins with its own schedule, compiled fully, also where nothing else is searched.
TEST_F(TuningServiceTest, QuickFirstKernelsAreTriedWithFullEffort) {
  m_options.quickFirst = true;
  m_options.lastWordInSteps = false;
  m_options.deviceShare = 1;
  auto forced = task(8);
  forced.forced = Space::make(1, 1, 1);
  const auto s = service();
  s->add({forced, task(9)});
  EXPECT_TRUE(waitFirst({forced.hash, task(9).hash}));
  EXPECT_EQ(m_cache.find(forced.hash)->object->effort, CompileEffort::Quick);
  EXPECT_EQ(m_cache.find(task(9).hash)->object->effort, CompileEffort::Quick);
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  const auto kernel = m_cache.find(forced.hash);
  EXPECT_EQ(kernel->generation, 2u);
  EXPECT_EQ(kernel->object->effort, CompileEffort::Full);
  EXPECT_EQ(kernel->object->schedule, *forced.forced);
  EXPECT_EQ(m_cache.find(task(9).hash)->object->effort, CompileEffort::Full);
  EXPECT_DOUBLE_EQ(s->states()[0].firstMicroseconds, 1.25e6 * Space::seconds(*forced.forced));
  std::vector<std::string> how;
  for (const TrialEvent& e : events())
    if (e.subgraph == task(9).hash && how.size() < 3) how.push_back(e.lineage.how);
  EXPECT_EQ(how, (std::vector<std::string>{"first", "first", "first, compiled with full effort"}))
      << "checked, timed, compiled anew";
}

TEST_F(TuningServiceTest, AForcedScheduleIsUsedAndNotSearched) {
  auto forced = task(8);
  forced.forced = Space::make(1, 1, 1);
  const auto s = service();
  s->add({forced});
  EXPECT_TRUE(waitFirst({forced.hash}));
  EXPECT_EQ(m_cache.find(forced.hash)->object->schedule, Space::make(1, 1, 1));
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(1)));
  EXPECT_EQ(s->trials(), 1);
  EXPECT_EQ(s->candidates(), 0) << "the forced kernel is the first one";
}

TEST_F(TuningServiceTest, AFirstScheduleThatFailsGivesWayToAnother) {
  m_evaluator.compiles = [](const Schedule& s) { return s == Space().first() ? TrialStatus::Crashed : TrialStatus::Ok; };
  std::atomic<int> gated = 0;
  m_evaluator.gates = [&](const Schedule&, GateLevel) { return ++gated == 1 ? TrialStatus::Wrong : TrialStatus::Ok; };
  const auto s = service();
  s->add({task(8)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  ASSERT_TRUE(m_cache.find(task(8).hash));
  EXPECT_NE(m_cache.find(task(8).hash)->object->schedule, Space().first());
  EXPECT_EQ(gated, 2);
  const auto seen = events();
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen[0].status, TrialStatus::Crashed);
  EXPECT_EQ(seen[1].status, TrialStatus::Wrong);
}

// Kills by others delay first kernels, whatever their number; something slow stands in where that is allowed.
TEST_F(TuningServiceTest, KillsByOthersOnlyDelayFirstKernels) {
  for (const bool standsIn : {false, true}) {
    FunctionCache cache;
    std::atomic<int> kills = 0, stoodIn = 0;
    std::atomic<bool> enough = false;
    m_evaluator.killed = [&](const CompileJob& job) {
      if (kills >= 20 && (!standsIn || enough)) return false;
      EXPECT_EQ(job.forgivenKills, 0) << "the service itself tries again";
      ++kills;
      return true;
    };
    m_options.standInWhileKilled = standsIn;
    m_options.standIn = [&](const Program&) -> Result<KernelObject> {
      ++stoodIn;
      KernelObject object;
      object.schedule = Space::make(0, 0, 0);
      return object;
    };
    TuningService s(m_target, m_evaluator, cache, nullptr, m_clock, m_options);
    s.add({task(8)});
    const std::vector<Hash> wanted{task(8).hash};
    EXPECT_TRUE(cache.waitFor(wanted, {}, std::chrono::minutes(1)));
    if (standsIn) {
      EXPECT_TRUE(cache.find(wanted[0])->standIn);
      EXPECT_FALSE(s.trouble().empty());
      EXPECT_FALSE(s.bestSchedule(wanted[0])) << "what stands in has no schedule";
    }
    enough = true;
    EXPECT_TRUE(s.waitFinished({}, std::chrono::minutes(1)));
    EXPECT_FALSE(cache.find(wanted[0])->standIn);
    EXPECT_EQ(cache.find(wanted[0])->object->schedule, Space().first());
    EXPECT_EQ(stoodIn > 0, standsIn);
    EXPECT_TRUE(s.trouble().empty());
  }
}

// A few kills while first kernels are missing: something stands in for all of them, those that nobody has asked for yet too.
TEST_F(TuningServiceTest, SomethingStandsInForAllThatIsMissing) {
  constexpr int kMissing = 32;
  std::atomic<bool> killing = true;
  std::atomic<int> stoodIn = 0, compiledBefore = 0;
  m_evaluator.killed = [&](const CompileJob&) { return killing.load(); };
  m_options.standInWhileKilled = true;
  m_options.standIn = [&](const Program&) -> Result<KernelObject> {
    if (++stoodIn == kMissing) compiledBefore = m_evaluator.compiled.load();
    return KernelObject{};
  };
  const auto s = service();
  std::vector<TuningTask> tasks;
  std::vector<Hash> wanted;
  for (std::int64_t n = 8; n < 8 + kMissing; ++n) {
    tasks.push_back(task(n));
    wanted.push_back(tasks.back().hash);
  }
  s->add(std::move(tasks));
  EXPECT_TRUE(waitFirst(wanted));
  EXPECT_GE(stoodIn, kMissing);  // two that are killed at once may both ask
  EXPECT_LT(compiledBefore, kMissing) << "not one after the other";
  for (const Hash& hash : wanted) EXPECT_TRUE(m_cache.find(hash)->standIn);
  killing = false;
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(1)));
  for (const Hash& hash : wanted) EXPECT_FALSE(m_cache.find(hash)->standIn);
  EXPECT_TRUE(s->trouble().empty());
}

// Neither another schedule nor the interpreter needs less.
TEST_F(TuningServiceTest, WhereTheCheckLacksMemoryThereIsNoKernel) {
  m_evaluator.lacksMemory = true;
  bool stoodIn = false;
  m_options.standIn = [&](const Program&) -> Result<KernelObject> {
    stoodIn = true;
    return KernelObject{};
  };
  const auto s = service();
  s->add({task(8)});
  waitFirst({task(8).hash});
  const auto failure = m_cache.failure(task(8).hash);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message, "no memory");
  EXPECT_EQ(m_evaluator.measured, 1);
  EXPECT_FALSE(stoodIn);
}

// What one worker has compiled is kept while the one that is to check it is killed.
TEST_F(TuningServiceTest, AKilledCheckCompilesNothingAnew) {
  std::atomic<int> kills = 0;
  m_evaluator.measureKilled = [&](const MeasureJob&) { return ++kills <= 10; };
  const auto s = service();
  s->add({task(8)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  EXPECT_EQ(kills, 11);
  EXPECT_EQ(m_evaluator.compiled, 1);
  EXPECT_EQ(m_cache.find(task(8).hash)->object->schedule, Space().first());
}

// Nobody waits for them: low priority, until somebody does.
TEST_F(TuningServiceTest, FirstKernelsInTheBackgroundAreHurriedOnDemand) {
  constexpr int kTasks = 8;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::map<CompilePriority, int> seen;
  m_evaluator.killed = [&](const CompileJob& job) {
    std::unique_lock lock(mutex);
    ++seen[job.priority];
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
    return false;
  };
  const auto s = service();
  std::vector<TuningTask> tasks;
  std::vector<Hash> wanted;
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(task(8 + i));
    tasks.back().background = true;
    wanted.push_back(tasks.back().hash);
  }
  s->add(std::move(tasks));
  int before = 0;
  {
    std::unique_lock lock(mutex);
    // All that are under way have told their priority, so that hurry() finds the others waiting.
    changed.wait(lock, [&] { return seen[CompilePriority::Background] == kFirstKernelThreads; });
  }
  s->hurry(wanted);
  {
    const std::lock_guard lock(mutex);
    before = seen[CompilePriority::Background] + seen[CompilePriority::FirstKernel];
    open = true;
  }
  changed.notify_all();
  EXPECT_TRUE(waitFirst(wanted));
  EXPECT_LT(before, kTasks);
  EXPECT_GE(seen[CompilePriority::FirstKernel], kTasks - before);
  EXPECT_EQ(seen[CompilePriority::Background] + seen[CompilePriority::FirstKernel], kTasks);
}

// What is timed while first kernels are compiled reads slower than it is.
TEST_F(TuningServiceTest, NothingIsTimedBeforeEachFirstKernelHasBeenTried) {
  m_options.maximumTrials = 20;
  constexpr int kTasks = 12;
  std::atomic<int> checked = 0;
  std::atomic<bool> early = false;
  m_evaluator.measureKilled = [&](const MeasureJob& job) {
    if (!job.time) ++checked;
    else if (checked < kTasks) early = true;
    return false;
  };
  const auto s = service();
  s->start();
  std::vector<TuningTask> tasks;
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(task(8 + i));
    tasks.back().background = i % 2 == 0;
  }
  s->add(std::move(tasks));
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(1)));
  EXPECT_GT(s->trials(), 0);
  EXPECT_FALSE(early);
}

// Every schedule takes its worker down: training starts all the same, and the first kernel is tried again later.
TEST_F(TuningServiceTest, SomethingStandsInWhereEveryScheduleDies) {
  std::atomic<bool> dies = true;
  m_evaluator.compiles = [&](const Schedule&) { return dies ? TrialStatus::Killed : TrialStatus::Ok; };
  m_options.standIn = [&](const Program&) -> Result<KernelObject> { return KernelObject{}; };
  const auto s = service();
  s->add({task(8)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  EXPECT_TRUE(m_cache.find(task(8).hash)->standIn);
  EXPECT_FALSE(s->finished());
  dies = false;
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(1)));
  EXPECT_FALSE(m_cache.find(task(8).hash)->standIn);
}

TEST_F(TuningServiceTest, WhatNoTemplateLowersFailsWithItsReason) {
  m_options.space = [](const Program&, const Target&) -> Result<std::unique_ptr<ScheduleSpace>> {
    return Error{"schedule", "a Loop has no template", {}, {}};
  };
  const auto s = service();
  s->add({task(8)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  EXPECT_EQ(m_cache.failure(task(8).hash)->message, "a Loop has no template");
  EXPECT_EQ(s->states()[0].notLowerable, "a Loop has no template");
}

TEST_F(TuningServiceTest, TuningWithoutAnExecutorFindsNearlyTheBest) {
  m_options.lastWordInSteps = false;
  m_options.deviceShare = 1;
  m_options.maximumTrials = 120;
  const auto s = service();
  s->add({task(8)});
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  EXPECT_LE(s->trials(), 120);
  EXPECT_GT(s->candidates(), 0);
  EXPECT_LT(s->candidates(), s->trials()) << "the first kernel is timed, too";
  const double best = Space::seconds(m_cache.find(task(8).hash)->object->schedule);
  EXPECT_LT(best, 1.3 * Space::bestSeconds());
  EXPECT_LT(best, 0.5 * Space::seconds(Space().first()));
  const auto state = s->states()[0];
  EXPECT_DOUBLE_EQ(state.firstMicroseconds, 1e6 * Space::seconds(Space().first()));
  EXPECT_LE(state.bestMicroseconds, 1e6 * best * 1.0001);
  double last = 1e30;
  for (const TrialEvent& e : events())
    if (e.improved) {
      EXPECT_LT(*e.microseconds, last);
      last = *e.microseconds;
    }
  EXPECT_GT(m_cache.find(task(8).hash)->generation, 1u);
}

TEST_F(TuningServiceTest, TheExecutorHasTheLastWord) {
  m_options.maximumTrials = 40;
  m_options.deviceShare = 1;
  const auto s = service();
  s->add({task(8)});
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  EXPECT_EQ(m_cache.find(task(8).hash)->generation, 1u);
  const auto offered = s->nextCandidate();
  ASSERT_TRUE(offered);
  EXPECT_FALSE(s->nextCandidate());
  EXPECT_EQ(offered->incumbent->schedule, Space().first());
  // Six pairs do not decide; the seventh does.
  const std::vector<TimedPair> six(6, {100, 80});
  EXPECT_EQ(s->reportPairs(offered->ticket, six).decision, PairedVerdict::Decision::NeedMore);
  const std::vector<TimedPair> one(1, {100, 80});
  EXPECT_EQ(s->reportPairs(offered->ticket, one).decision, PairedVerdict::Decision::Accept);
  const auto now = m_cache.find(task(8).hash);
  EXPECT_EQ(now->generation, 2u);
  EXPECT_EQ(now->object, offered->candidate);
  // It has the number of the round that its trial has.
  const auto every = events();
  const auto trial =
      std::find_if(every.begin(), every.end(), [&](const TrialEvent& e) { return e.schedule == offered->candidate->schedule; });
  ASSERT_NE(trial, every.end());
  EXPECT_GT(trial->lineage.round, 0);
  EXPECT_EQ(s->roundOf(task(8).hash, now->object->schedule), trial->lineage.round);
  EXPECT_EQ(s->roundOf(task(8).hash, Space().first()), 0);
  EXPECT_DOUBLE_EQ(*now->microseconds, 80);
  EXPECT_EQ(s->reportPairs(offered->ticket, one).decision, PairedVerdict::Decision::Reject);
}

// What is found while steps try another kernel of the subgraph waits for them; it has not failed.
TEST_F(TuningServiceTest, ASubgraphHasOneCandidateUnderTrial) {
  m_options.maximumTrials = 200;
  m_options.deviceShare = 1;
  const auto s = service();
  s->add({task(8)});
  s->start();
  std::optional<StepCandidate> first;
  bool finished = false;
  while (!first && !finished) {
    finished = s->waitFinished({}, std::chrono::milliseconds(1));
    first = s->nextCandidate();
  }
  ASSERT_TRUE(first);
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  EXPECT_FALSE(s->nextCandidate());
  if (finished) return;  // the search was over before the first was taken
  const std::vector<TimedPair> faster(7, {100, 99.9});
  EXPECT_EQ(s->reportPairs(first->ticket, faster).decision, PairedVerdict::Decision::Reject);
  const auto second = s->nextCandidate();
  ASSERT_TRUE(second);
  EXPECT_NE(second->ticket, first->ticket);
  for (const TrialEvent& e : events()) EXPECT_NE(e.status, TrialStatus::Crashed);
}

TEST_F(TuningServiceTest, StepsThatAreNotFasterRefuseTheCandidate) {
  m_options.maximumTrials = 40;
  m_options.deviceShare = 1;
  const auto s = service();
  s->add({task(8)});
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  const auto offered = s->nextCandidate();
  ASSERT_TRUE(offered);
  const std::vector<TimedPair> pairs(7, {100, 101});
  EXPECT_EQ(s->reportPairs(offered->ticket, pairs).decision, PairedVerdict::Decision::Reject);
  EXPECT_EQ(m_cache.find(task(8).hash)->generation, 1u);
  EXPECT_FALSE(s->nextCandidate());
}

TEST_F(TuningServiceTest, AFirstKernelTheFullGateRefusesIsReplaced) {
  m_evaluator.gates = [](const Schedule& s, GateLevel level) {
    return level == GateLevel::Full && s == Space().first() ? TrialStatus::Wrong : TrialStatus::Ok;
  };
  m_options.maximumTrials = 6;
  m_options.deviceShare = 1;
  const auto s = service();
  s->add({task(8)});
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  ASSERT_TRUE(m_cache.find(task(8).hash));
  EXPECT_NE(m_cache.find(task(8).hash)->object->schedule, Space().first());
}

TEST_F(TuningServiceTest, TheBudgetHoldsTheShareOfDeviceTime) {
  m_options.deviceShare = 0.25;
  m_options.lastWordInSteps = false;
  m_options.maximumTrials = 100;
  const auto s = service();
  s->add({task(8)});
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  // The fake clock moves only by trials and by waits for the budget.
  const double elapsed = std::chrono::duration<double>(m_clock.now()).count();
  EXPECT_NEAR(s->deviceSecondsSpent() / elapsed, 0.25, 0.04);
}

TEST_F(TuningServiceTest, NothingIsTriedWithoutAShareUntilThereIsOne) {
  m_options.deviceShare = 0;
  m_options.maximumTrials = 6;
  const auto s = service();
  s->add({task(8)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  s->start();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(s->trials(), 0);
  EXPECT_EQ(s->deviceSecondsSpent(), 0);
  s->setDeviceShare(1);
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  EXPECT_GT(s->trials(), 0);
}

TEST_F(TuningServiceTest, TheStepDecidesWhichSubgraphIsTuned) {
  m_options.deviceShare = 1;
  m_options.lastWordInSteps = false;
  m_options.maximumTrials = 60;
  const auto s = service();
  s->add({task(8, 1), task(9, 50), task(10, 0.001)});
  EXPECT_TRUE(waitFirst({task(8).hash, task(9).hash, task(10).hash}));
  s->stepDone(0.01);
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  const auto states = s->states();
  EXPECT_GT(states[1].trials, 3 * states[0].trials);
  EXPECT_EQ(states[2].trials, 1);  // its baseline alone: nothing to win for the step
}

// A kernel that was not worth a trial beside long steps is worth some once others have made them short.
TEST_F(TuningServiceTest, ShorterStepsAreAReasonToGoOn) {
  m_options.deviceShare = 1;
  m_options.lastWordInSteps = false;
  const auto s = service();
  s->add({task(8, 0.001)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  s->stepDone(0.01);
  s->start();
  ASSERT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  ASSERT_EQ(s->trials(), 1);
  for (int i = 0; i < 100; ++i) s->stepDone(1e-6);
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  EXPECT_GT(s->trials(), 10);
}

TEST_F(TuningServiceTest, OtherWorkThatWaitsGoesOnWithTheStart) {
  m_options.deviceShare = 1;
  m_options.maximumTrials = 0;
  const auto s = service();
  std::stop_source stop;
  auto turn = std::async(std::launch::async, [&] { return s->awaitBudget(stop.get_token()); });
  EXPECT_EQ(turn.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  s->start();
  EXPECT_EQ(turn.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  stop.request_stop();
  turn.wait();
}

// What steps spend their time in is measured first; in the end every first kernel is.
TEST_F(TuningServiceTest, TheDearestKernelsOfAStepComeFirst) {
  m_options.deviceShare = 1;
  const auto s = service();
  s->add({task(8), task(9), task(10)});
  EXPECT_TRUE(waitFirst({task(8).hash, task(9).hash, task(10).hash}));
  s->stepDone(0.1);
  s->seenInSteps(task(8).hash, 10);
  s->seenInSteps(task(9).hash, 40000);
  s->seenInSteps(task(10).hash, 400);
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  std::vector<std::string> timed;
  for (const TrialEvent& e : events())
    if (e.microseconds) timed.push_back(e.name);
  ASSERT_FALSE(timed.empty());
  EXPECT_EQ(timed[0], "Y9");
  EXPECT_FALSE(s->waitsFor().empty()) << "nothing left";
  for (const auto& state : s->states()) EXPECT_GT(state.firstMicroseconds, 0) << state.name;
}

TEST_F(TuningServiceTest, SubgraphsThatNoLongerRunAreLeftAlone) {
  m_options.deviceShare = 1;
  m_options.maximumTrials = 40;
  const auto s = service();
  s->add({task(8), task(9)});
  EXPECT_TRUE(waitFirst({task(8).hash, task(9).hash}));
  const std::vector<Hash> running{task(9).hash};
  s->retain(running);
  s->start();
  EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
  EXPECT_EQ(s->states()[0].trials, 0);
  EXPECT_EQ(s->states()[1].trials, 40);
  EXPECT_TRUE(m_cache.find(task(8).hash));
}

TEST_F(TuningServiceTest, PauseAnswersAtOnceAndStopsTrials) {
  m_options.deviceShare = 1;
  std::mutex mutex;
  std::condition_variable_any changed;
  bool entered = false, released = false;
  m_evaluator.beforeMeasure = [&](std::stop_token) {
    std::unique_lock lock(mutex);
    entered = true;
    changed.notify_all();
    changed.wait(lock, [&] { return released; });
  };
  const auto s = service();
  s->add({task(8)});
  s->start();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return entered; });
  }
  s->pause();  // while the worker is busy
  {
    const std::lock_guard lock(mutex);
    released = true;
  }
  changed.notify_all();
  EXPECT_TRUE(waitFirst({task(8).hash}));
  EXPECT_LE(s->trials(), 1);
  s->resume();
  while (s->trials() < 5) std::this_thread::yield();
}

TEST_F(TuningServiceTest, StopEndsARunningTrialAndTakesItBack) {
  const fakes::Folder folder;
  const auto records = std::move(*RecordDatabase::open(folder.path("records.sqlite")));
  m_options.deviceShare = 1;
  std::atomic<bool> entered = false, hanging = false;
  m_evaluator.beforeMeasure = [&](std::stop_token stop) {
    if (!hanging) return;
    entered = true;
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait(lock, stop, [] { return false; });
  };
  const auto s = service(records.get());
  s->add({task(8)});
  EXPECT_TRUE(waitFirst({task(8).hash}));
  hanging = true;
  s->start();
  while (!entered) std::this_thread::yield();
  s->stop();
  for (const TuningRecord& r : records->all(task(8).hash, "fake 1")) EXPECT_TRUE(r.status || r.schedule == Space().first());
}

// ---------------------------------------------------------------- records

class RecordsTest : public TuningServiceTest {
 protected:
  RecordsTest() {
    m_options.deviceShare = 1;
    m_options.lastWordInSteps = false;
  }
  std::unique_ptr<RecordDatabase> open() { return std::move(*RecordDatabase::open(m_folder.path("records.sqlite"))); }
  fakes::Folder m_folder;
};

TEST_F(RecordsTest, AnExactHitSkipsTheSearchAndCompilesOnce) {
  Schedule best;
  {
    const auto records = open();
    m_options.maximumTrials = 60;
    const auto s = service(records.get());
    s->add({task(8)});
    s->start();
    EXPECT_TRUE(s->waitFinished({}, std::chrono::minutes(2)));
    s->stop();
    best = m_cache.find(task(8).hash)->object->schedule;
    EXPECT_EQ(records->best(task(8).hash, "fake 1")->schedule, best);
  }
  const auto records = open();
  FunctionCache fresh;
  m_evaluator.compiled = 0;
  TuningService second(m_target, m_evaluator, fresh, records.get(), m_clock, m_options);
  second.add({task(8)});
  second.start();
  EXPECT_TRUE(second.waitFinished({}, std::chrono::minutes(2)));
  EXPECT_EQ(m_evaluator.compiled, 1);
  EXPECT_EQ(fresh.find(task(8).hash)->object->schedule, best);
  EXPECT_TRUE(second.states()[0].recordHit);
  EXPECT_TRUE(second.states()[0].exhausted);
}

// A row that says only "started" names what killed its worker; a run that ends well leaves none.
TEST_F(RecordsTest, ARunThatEndsWellLeavesNothingStarted) {
  const auto records = open();
  m_options.maximumTrials = 10;
  for (const bool searches : {false, true}) {
    FunctionCache cache;
    TuningService s(m_target, m_evaluator, cache, records.get(), m_clock, m_options);
    s.add({task(8), task(9), task(10)});
    const std::vector<Hash> wanted{task(8).hash, task(9).hash, task(10).hash};
    EXPECT_TRUE(cache.waitFor(wanted, {}, std::chrono::minutes(1)));
    if (searches) {
      s.start();
      EXPECT_TRUE(s.waitFinished({}, std::chrono::minutes(2)));
    }
    s.stop();
    for (const Hash& hash : wanted)
      for (const TuningRecord& r : records->all(hash, "fake 1")) EXPECT_TRUE(r.status) << r.schedule.text();
  }
}

TEST_F(RecordsTest, AShortSearchIsContinuedFromItsBest) {
  m_options.maximumTrials = 6;
  std::set<std::string> tried;
  std::int64_t before = 0, last = 0;  // rounds
  for (int run = 0; run < 3; ++run) {
    const auto records = open();
    FunctionCache cache;
    TuningService s(m_target, m_evaluator, cache, records.get(), m_clock, m_options);
    s.add({task(8)});
    s.start();
    EXPECT_TRUE(s.waitFinished({}, std::chrono::minutes(2)));
    s.stop();
    EXPECT_EQ(s.states()[0].recordHit, run > 0);
    for (const TuningRecord& r : records->all(task(8).hash, "fake 1")) {
      const bool isNew = tried.insert(r.schedule.text()).second;
      EXPECT_TRUE(!isNew || r.round == 0 || r.round > before) << r.round << " behind " << before;
      last = std::max(last, r.round);
    }
    EXPECT_GT(last, before) << run;
    before = last;
  }
  // Five new ones a run; the sixth trial of each is the baseline.
  EXPECT_GE(tried.size(), 14u);
}

TEST_F(RecordsTest, WhatKilledAWorkerIsWrittenAheadAndNeverTriedAgain) {
  const auto deadly = [](const Schedule& s) { return s.knobs->at("a").get<int>() % 2 == 1 && s != Space().first(); };
  std::multiset<std::string> killers;
  std::mutex mutex;
  std::atomic<bool> writtenAhead = true;
  const auto records = open();
  m_evaluator.compiles = [&](const Schedule& s) {
    bool found = false;
    for (const TuningRecord& r : records->all(task(8).hash, "fake 1")) found = found || r.schedule == s;
    writtenAhead = writtenAhead && found;
    if (!deadly(s)) return TrialStatus::Ok;
    const std::lock_guard lock(mutex);
    killers.insert(s.text());
    return TrialStatus::Crashed;
  };
  m_options.maximumTrials = 20;
  for (int run = 0; run < 2; ++run) {
    FunctionCache cache;
    m_options.searchAfterHit = true;
    TuningService s(m_target, m_evaluator, cache, records.get(), m_clock, m_options);
    s.add({task(8)});
    s.start();
    EXPECT_TRUE(s.waitFinished({}, std::chrono::minutes(2)));
  }
  EXPECT_TRUE(writtenAhead);
  EXPECT_FALSE(killers.empty());
  for (const std::string& text : killers) EXPECT_EQ(killers.count(text), 1u) << text;
  int crashed = 0;
  for (const TuningRecord& r : records->all(task(8).hash, "fake 1")) crashed += r.status == TrialStatus::Crashed;
  EXPECT_EQ(crashed, static_cast<int>(killers.size()));
}

TEST(TrialEvent, HasTheKeysThatScriptsRead) {
  TrialEvent event;
  event.subgraph = {1, 2};
  event.schedule = Space::make(1, 2, 3);
  event.status = TrialStatus::Killed;
  const auto json = toJson(event);
  EXPECT_EQ(json["event"], "trial");
  EXPECT_EQ(json["subgraph"], Hash({1, 2}).hex());
  EXPECT_EQ(json["schedule"]["knobs"]["b"], 2);
  EXPECT_TRUE(json["us"].is_null());
  EXPECT_EQ(json["status"], "killed");
}

}  // namespace
}  // namespace nf
