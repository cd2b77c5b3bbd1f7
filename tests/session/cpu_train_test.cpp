// SPDX-License-Identifier: Apache-2.0
// Training on compiled CPU kernels made in worker processes: what must be bit-identical is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "core/runtime/checkpoint.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/kernel_supply.h"
#include "core/runtime/kernel_swaps.h"
#include "core/runtime/prepared.h"
#include "core/runtime/run.h"
#include "core/runtime/step_program.h"
#include "core/runtime/train.h"
#include "plugins/cpu/plugin.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

constexpr const char* kDigits = R"(
let B = 32
data D = digits { split = last 360 }
input X[B, 64] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]
param W[16, 64] = normal(0, 0.1)
param V[10, 16] = normal(0, 0.1)
H[b, m] = relu(sum[k] X[b, k] * W[m, k])
Z[b, n] = sum[m] H[b, m] * V[n, m]
P[b, n] = exp(Z[b, n]) / (sum[m] exp(Z[b, m]))
loss L = mean[b, n] (P[b, n] - select(y[b] == n, 1, 0))^2
train L { epochs = 1; batch = 32; optimizer = adam(lr=1e-2); mode = static; seed = 3 }
)";

class CpuTrain : public ::testing::Test {
 protected:
  CpuTrain() { m_registry.add("cpu", neoflowPlugin); }

  std::unique_ptr<DeviceContext> open(const std::string& records, std::vector<std::string> worker = {NF_NEOFLOW, "worker"}) {
    DeviceContextOptions options;
    options.device = "cpu";
    options.worker.arguments = std::move(worker);
    options.records = records;
    options.leaseDirectory = m_folder.path("lease");
    auto context = DeviceContext::open(m_registry, options);
    EXPECT_TRUE(context.ok());
    return std::move(*context);
  }
  TrainOptions options(std::int64_t steps) {
    TrainOptions o;
    o.source = {"test.nf", "", kDigits};
    o.steps = steps;
    o.evaluate = false;
    o.outputRoot = m_folder.path("out");
    return o;
  }
  TrainSummary train(DeviceContext& context, TrainOptions o, TrainJob::Sink sink = {}, std::stop_token stop = {}) {
    TrainJob job(context, std::move(o), std::move(sink));
    auto summary = job.run(stop);
    EXPECT_TRUE(summary.ok()) << (summary ? "" : summary.error().message + " " + summary.error().detail);
    return summary ? std::move(*summary) : TrainSummary{};
  }

  fakes::Folder m_folder;
  BackendRegistry m_registry;
};

TEST_F(CpuTrain, StaticResumeIsBitIdentical) {
  const auto context = open("none");
  const auto whole = readCheckpoint(train(*context, options(60)).checkpoint);
  TrainOptions first = options(25), second = options(60);
  second.resume = train(*context, first).checkpoint;
  const auto resumed = readCheckpoint(train(*context, second).checkpoint);
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->step, 60);
  EXPECT_EQ(whole->tensors, resumed->tensors);
}

// A run whose kernels changed while it went on is repeated to the bit by other processes, from its log alone.
TEST_F(CpuTrain, ASwapLogReplaysBitIdentically) {
  TrainSummary summary;
  Result<Checkpoint> trained = Error{};
  {
    const auto context = open(m_folder.path("records.sqlite"));
    TrainOptions o = options(1'000'000'000);
    o.mode = "dynamic";
    o.tuning.deviceShare = 1;
    o.tuning.lastWordInSteps = true;
    std::stop_source stop;
    int trials = 0;
    // Steps have the last word on candidates, so the log changes kernels back and forth, whichever of them wins.
    summary = train(
        *context, std::move(o),
        [&](const protocol::Message& m) {
          if (const auto* t = std::get_if<protocol::TrialEvent>(&m); t && ++trials >= 25) stop.request_stop();
        },
        stop.get_token());
    trained = readCheckpoint(summary.checkpoint);
    ASSERT_TRUE(trained.ok());
  }
  const auto context = open("none");
  TrainOptions o = options(trained->step);
  o.mode = "dynamic";
  o.replaySwaps = summary.folder + "/swaps.jsonl";
  const TrainSummary replayed = train(*context, std::move(o));
  EXPECT_EQ(readCheckpoint(replayed.checkpoint)->tensors, trained->tensors);
  EXPECT_EQ(replayed.swaps, summary.swaps);
}

// Every worker is killed as it is born, until a few steps have been made: the interpreter makes them. Then the compilers come to
// their work, their kernels take over between steps, and the log of it all replays to the bit.
TEST_F(CpuTrain, KilledWorkersOnlyDelay) {
  const std::string door = m_folder.path("door");
  const std::vector<std::string> killed{"/bin/sh", "-c", "[ -e '" + door + "' ] && exec '" NF_NEOFLOW "' worker \"$@\"; kill -9 $$",
                                        "sh"};
  TrainSummary summary;
  std::vector<protocol::KernelSwapEvent> swaps;
  std::set<std::string> compiled;
  std::int64_t last = -1;
  {
    const auto context = open("none", killed);
    std::stop_source stop;
    TrainOptions o = options(1'000'000'000);
    o.mode = "dynamic";
    summary = train(
        *context, o,
        [&](const protocol::Message& m) {
          if (const auto* s = std::get_if<protocol::StepEvent>(&m)) {
            if (s->step >= 3) std::ofstream(door).put('x');
            if (last >= 0 && s->step > last) stop.request_stop();
          }
          if (const auto* s = std::get_if<protocol::KernelSwapEvent>(&m)) {
            if (!s->before_us) compiled.insert(s->name);
            if (compiled.size() >= 3 && last < 0) last = s->step + 20;
          }
        },
        stop.get_token());
  }
  ASSERT_GE(compiled.size(), 3u);
  const auto trained = readCheckpoint(summary.checkpoint);
  ASSERT_TRUE(trained.ok());
  TrainOptions again = options(trained->step);
  again.mode = "dynamic";
  again.replaySwaps = summary.folder + "/swaps.jsonl";
  const auto context = open("none");
  const TrainSummary replayed = train(*context, again);
  EXPECT_EQ(readCheckpoint(replayed.checkpoint)->tensors, trained->tensors);
  EXPECT_EQ(replayed.swaps, summary.swaps);
}

// What began on the interpreter, as an evaluation may, goes on with the compiled kernels when they are there.
TEST_F(CpuTrain, BetterKernelsReachWhatNoStepRuns) {
  const std::string door = m_folder.path("door");
  const auto context =
      open("none", {"/bin/sh", "-c", "[ -e '" + door + "' ] && exec '" NF_NEOFLOW "' worker \"$@\"; kill -9 $$", "sh"});
  const CompiledNotebook notebook = compileNotebook({"test.nf", "", kDigits});
  ASSERT_TRUE(notebook.ok());
  const auto store = std::make_shared<TensorStore>(context->device());
  auto prepared = prepare(evaluationProgram(notebook, "L"), *context, store, {.updates = false});
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  Executable& x = *prepared->executable;
  KernelSupplyOptions options;
  options.dynamic = true;
  KernelSupply supply(*context, std::move(options));
  ASSERT_TRUE(supply.request(x, 1, true).ok());
  ASSERT_TRUE(*supply.await(x, {}));
  const auto standIns = [&] {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < x.plan().subgraphs.size(); ++i)
      count += x.kernel(i)->schedule.find("\"reference\"") != std::string::npos;
    return count;
  };
  EXPECT_EQ(standIns(), x.plan().subgraphs.size());
  std::ofstream(door).put('x');
  while (standIns() > 0) {
    ASSERT_TRUE(supply.takeBetter(x).ok());
    std::this_thread::yield();
  }
  EXPECT_TRUE(x.complete());
}

// A loop of centuries answers a stop, and a step that was cut off has changed nothing.
// Fused kernels come in an order of their own and write less: the operator that is named is that of the interpreter.
TEST_F(CpuTrain, ANaNNamesTheOperatorThatTheReferenceNames) {
  BackendRegistry none;
  const auto reference = DeviceContext::open(none, {.device = "reference"});
  ASSERT_TRUE(reference.ok());
  const auto context = open("none");
  TrainOptions o;
  o.source = {"test.nf", "",
              "input x[8] = normal(1, 0)\nparam w[8] = normal(1, 0)\ny[i] = exp(1000 * w[i] * x[i]^2)\nz[i] = y[i] - y[i]\n"
              "loss L = sum[i] z[i]\ntrain L { steps = 3; optimizer = sgd(lr=0.1); mode = static; seed = 1 }\n"};
  std::vector<std::string> messages;
  std::vector<std::int64_t> lines;
  for (DeviceContext* device : {reference->get(), context.get()}) {
    TrainJob job(*device, o, [&](const protocol::Message& m) {
      if (const auto* e = std::get_if<protocol::ErrorEvent>(&m)) lines.push_back(e->line);
    });
    const auto summary = job.run({});
    ASSERT_FALSE(summary.ok());
    messages.push_back(summary.error().message);
  }
  EXPECT_NE(messages[0].find("the first one came from z"), std::string::npos) << messages[0];
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(lines, (std::vector<std::int64_t>{4, 4}));
}

TEST_F(CpuTrain, ALongLoopStops) {
  const auto context = open("none");
  RunOptions o;
  o.source = {"long.nf", "", "param Y[4] = normal(0, 1)\nh[i] = Y[i]\nfor k in 0..100000000000 { h[i] = h[i] + 1 }\nshow h\n"};
  o.tensors = {"shown"};
  RunJob job(*context, o);
  const auto prepared = job.prepare({});
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  std::stop_source stop;
  std::jthread other([&] { stop.request_stop(); });
  const auto done = job.run(false, stop.get_token());
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(isStopped(done.error()));
}

// What workers have answered so far. Whoever waits for the next answer leaves them the machine; where nothing was asked there is none.
class Answers {
 public:
  void asked() {
    const std::lock_guard lock(m_mutex);
    ++m_underWay;
  }
  void add() {
    const std::lock_guard lock(m_mutex);
    --m_underWay;
    ++m_count;
    m_changed.notify_all();
  }
  void waitForNext() {
    std::unique_lock lock(m_mutex);
    m_changed.wait(lock, [&] { return m_count > m_seen || m_underWay == 0; });
    m_seen = m_count;
  }

 private:
  std::mutex m_mutex;
  std::condition_variable m_changed;
  int m_count = 0, m_seen = 0, m_underWay = 0;
};

// Real workers, but what a comparison of two fusions says is the test's to decide: timings are the machine's. Nothing is compiled in
// the background: a busy machine would leave it there.
class Judge final : public Evaluator {
 public:
  // What every comparison finds: the fused kernel first.
  Judge(std::unique_ptr<Evaluator> real, std::vector<TimedPair> pairs, Answers& answers)
      : m_real(std::move(real)), m_pairs(std::move(pairs)), m_answers(answers) {}
  static std::vector<TimedPair> split(double us) { return std::vector<TimedPair>(7, {10, us}); }
  CompileOutcome compile(CompileJob job, std::stop_token stop) override {
    job.priority = CompilePriority::FirstKernel;
    m_answers.asked();
    CompileOutcome outcome = m_real->compile(std::move(job), stop);
    m_answers.add();
    return outcome;
  }
  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    m_answers.asked();
    MeasureOutcome outcome = m_real->measure(std::move(job), stop);
    m_answers.add();
    return outcome;
  }
  MeasureOutcome compare(CompareJob job, std::stop_token stop) override {
    m_answers.asked();
    MeasureOutcome outcome = m_real->compare(std::move(job), stop);
    m_answers.add();
    if (outcome.cancelled) return outcome;
    EXPECT_TRUE(outcome.status == TrialStatus::Ok || outcome.status == TrialStatus::Slow) << outcome.reason;
    EXPECT_GT(outcome.timing.median, 0);
    EXPECT_GT(outcome.incumbent.median, 0);
    outcome.status = TrialStatus::Ok;
    std::vector<double> fused, split;
    for (const TimedPair& pair : m_pairs) {
      fused.push_back(pair.incumbent);
      split.push_back(pair.candidate);
    }
    outcome.incumbent = timingOf(std::move(fused));
    outcome.timing = timingOf(std::move(split));
    outcome.pairs = m_pairs;
    return outcome;
  }

 private:
  std::unique_ptr<Evaluator> m_real;
  std::vector<TimedPair> m_pairs;
  Answers& m_answers;
};

// Fused kernels that lose are split while training goes on; the log of that, too, replays to the bit, and the next run starts split.
TEST_F(CpuTrain, AFusionThatLosesIsSplitBetweenStepsAndReplays) {
  const std::string records = m_folder.path("records.sqlite");
  CompileService compile({2, {{NF_NEOFLOW, "worker"}}});
  MeasureService measure({"cpu", "cpu", 1, {{NF_NEOFLOW, "worker"}}, m_folder.path("lease")});
  Answers answers;
  const auto judged = [&](bool splitWins) {
    return DeviceContext::of(std::move(*m_registry.find("cpu")->open("cpu", 1)), nullptr,
                             std::make_unique<Judge>(workerEvaluator(compile, measure), Judge::split(splitWins ? 8 : 12), answers),
                             *RecordDatabase::open(records));
  };
  TrainOptions o = options(1'000'000'000);
  o.mode = "dynamic";
  o.tuning.deviceShare = 1;
  o.tuning.maximumTrials = 0;  // only fusions are on trial: nothing else takes the compiler and the measuring worker
  o.verify = true;
  TrainSummary summary;
  std::vector<protocol::FusionRevertedEvent> events;
  {
    const auto context = judged(true);
    std::stop_source stop;
    std::int64_t last = -1;
    summary = train(
        *context, o,
        [&](const protocol::Message& m) {
          if (const auto* e = std::get_if<protocol::FusionRevertedEvent>(&m)) events.push_back(*e);
          if (events.size() >= 2 && last < 0) last = events.back().step + 20;
          if (!std::holds_alternative<protocol::StepEvent>(m)) return;
          if (last < 0) answers.waitForNext();
          else if (std::get<protocol::StepEvent>(m).step > last) stop.request_stop();
        },
        stop.get_token());
  }
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[0].fused_us, 10);
  EXPECT_EQ(events[0].split_us, 8);
  EXPECT_GE(events[0].fused_kernels, 1);
  EXPECT_GE(events[0].split_kernels, 1);
  const auto isRevert = [](const KernelSwap& s) { return s.reverted; };
  EXPECT_EQ(static_cast<std::size_t>(std::count_if(summary.swaps.begin(), summary.swaps.end(), isRevert)), events.size());
  const auto trained = readCheckpoint(summary.checkpoint);
  ASSERT_TRUE(trained.ok());
  EXPECT_EQ(trained->swaps, summary.swaps) << "the checkpoint knows it too";

  {
    TrainOptions again = options(trained->step);
    again.mode = "dynamic";
    again.replaySwaps = summary.folder + "/swaps.jsonl";
    const auto context = open("none");
    const TrainSummary replayed = train(*context, again);
    EXPECT_EQ(readCheckpoint(replayed.checkpoint)->tensors, trained->tensors);
    EXPECT_EQ(replayed.swaps, summary.swaps);
  }

  // The records say so to the next run, which asks again only for what is new; `none` is reverted that was kept.
  const auto context = judged(false);
  const MeasuredKernels known = revertedKernels(*context);
  EXPECT_GE(known.size(), events.size());
  o.steps = 5;
  events.clear();
  const TrainSummary next = train(*context, o, [&](const protocol::Message& m) {
    if (const auto* e = std::get_if<protocol::FusionRevertedEvent>(&m)) events.push_back(*e);
  });
  EXPECT_TRUE(events.empty());
  std::size_t atFirst = 0;
  for (const KernelSwap& s : next.swaps)
    if (s.reverted) {
      ++atFirst;
      EXPECT_EQ(s.step, 0);
      EXPECT_TRUE(known.contains(s.judged()));
    }
  EXPECT_EQ(atFirst, known.size());
}

// What timing a kernel finds comes when the search is being stopped.
class Late final : public Evaluator {
 public:
  Late(std::unique_ptr<Evaluator> real, std::promise<void>& timed) : m_real(std::move(real)), m_timed(timed) {}
  CompileOutcome compile(CompileJob job, std::stop_token stop) override {
    job.priority = CompilePriority::FirstKernel;
    return m_real->compile(std::move(job), stop);
  }
  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    const bool timed = job.time;
    MeasureOutcome outcome = m_real->measure(std::move(job), stop);
    if (!timed || outcome.cancelled) return outcome;
    if (!m_one.exchange(true)) m_timed.set_value();
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait(lock, stop, [] { return false; });
    return outcome;
  }
  MeasureOutcome compare(CompareJob job, std::stop_token stop) override { return m_real->compare(std::move(job), stop); }

 private:
  std::unique_ptr<Evaluator> m_real;
  std::promise<void>& m_timed;
  std::atomic<bool> m_one = false;
};

TEST_F(CpuTrain, ATrialThatEndsWithItsRunIsAmongTheEvents) {
  CompileService compile({2, {{NF_NEOFLOW, "worker"}}});
  MeasureService measure({"cpu", "cpu", 1, {{NF_NEOFLOW, "worker"}}, m_folder.path("lease")});
  std::promise<void> timed;
  auto one = timed.get_future();
  const auto context = DeviceContext::of(std::move(*m_registry.find("cpu")->open("cpu", 1)), nullptr,
                                         std::make_unique<Late>(workerEvaluator(compile, measure), timed),
                                         *RecordDatabase::open(m_folder.path("records.sqlite")));
  TrainOptions o = options(200);
  o.mode = "dynamic";
  o.tuning.deviceShare = 1;
  std::map<std::string, std::set<std::string>> told;
  train(*context, o, [&](const protocol::Message& m) {
    if (const auto* t = std::get_if<protocol::TrialEvent>(&m)) {
      auto& schedules = told[t->subgraph];  // of a first kernel that is not timed yet, too
      if (t->us) schedules.insert(t->schedule.text);
    }
    if (const auto* s = std::get_if<protocol::StepEvent>(&m); s && s->step > 100) one.wait();
  });
  std::size_t withTime = 0;
  for (const auto& [subgraph, schedules] : told)
    for (const TuningRecord& r :
         context->records()->all(*hashFromHex(std::string_view(subgraph)), context->target()->fingerprint)) {
      if (!r.status || r.timing.runs == 0) continue;
      EXPECT_TRUE(schedules.contains(r.schedule.text())) << subgraph << " " << r.schedule.text();
      ++withTime;
    }
  EXPECT_GT(withTime, 0u);
}

// The median of the gains is beyond twice its error, and yet every fourth pair says the contrary: the differences do not separate.
TEST_F(CpuTrain, AFusionThatCannotBeToldApartFromItsPartsStays) {
  std::vector<TimedPair> pairs(15, {10, 9});
  pairs.resize(21, {10, 10.1});
  ASSERT_EQ(judge(pairs).decision, PairedVerdict::Decision::Accept);
  CompileService compile({2, {{NF_NEOFLOW, "worker"}}});
  MeasureService measure({"cpu", "cpu", 1, {{NF_NEOFLOW, "worker"}}, m_folder.path("lease")});
  Answers answers;
  const auto context = DeviceContext::of(std::move(*m_registry.find("cpu")->open("cpu", 1)), nullptr,
                                         std::make_unique<Judge>(workerEvaluator(compile, measure), pairs, answers),
                                         *RecordDatabase::open(m_folder.path("records.sqlite")));
  TrainOptions o = options(1'000'000'000);
  o.mode = "dynamic";
  o.tuning.deviceShare = 1;
  o.tuning.maximumTrials = 0;
  std::stop_source stop;
  const auto verdicts = [&] { return context->records()->fusions(context->target()->fingerprint); };
  const TrainSummary summary = train(
      *context, o,
      [&](const protocol::Message& m) {
        EXPECT_FALSE(std::holds_alternative<protocol::FusionRevertedEvent>(m));
        if (!std::holds_alternative<protocol::StepEvent>(m)) return;
        answers.waitForNext();
        if (!verdicts().empty()) stop.request_stop();
      },
      stop.get_token());
  for (const auto& verdict : verdicts()) {
    EXPECT_FALSE(verdict.reverted);
    EXPECT_EQ(verdict.measurement.pairs, 21);
    EXPECT_EQ(verdict.measurement.saved, -1);
    EXPECT_GT(verdict.measurement.savedHigh, 0);
  }
  EXPECT_TRUE(std::none_of(summary.swaps.begin(), summary.swaps.end(), [](const KernelSwap& s) { return s.reverted; }));
}

}  // namespace
}  // namespace nf
