// SPDX-License-Identifier: Apache-2.0
#include "core/tune/tuning_service.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/tune/genetic_search.h"

namespace nf {
namespace {

constexpr int kFirstKernelThreads = 3;       // two compile workers and the measuring worker are busy at once
constexpr std::size_t kCompiledAhead = 2;    // kernels that wait for the measuring worker
constexpr std::size_t kFinishedSearch = 24;  // recorded trials that make an exact hit skip the search
constexpr int kBarrenEnd = 64;               // trials without improvement that end a search
constexpr double kWorthOfStep = 5e-4;        // gains below this share of a step are left alone
constexpr double kFullEffortGain = 0.05;     // expected gain of the step from which on the whole share is spent
constexpr double kLeastEffort = 0.1;         // of the share, while anything at all is to be gained
constexpr int kKillsForgiven = 3;  // by others, while first kernels are missing: beyond them something stands in for all of these
constexpr int kForgivenOfTrials = 3;
constexpr std::chrono::seconds kRetryFirst{1}, kRetryMost{60};  // of a first kernel that took its workers down
// Of one whose workers were killed by others, after the first time. A killer that strikes now and then is outlived at once; where it
// strikes all workers alike, those that live longest are the fresh ones, so the waits stay short.
constexpr std::chrono::milliseconds kAfterKill{20}, kAfterKillsMost{320};
constexpr std::int64_t kTrialsATurn = 16;  // between two turns of other work that the budget pays, while kernels are searched
constexpr int kProofEvery = 3;             // of rounds one goes to a first kernel that is not fully checked yet
constexpr double kFirstCredit = 0.05;      // for each device second of a second
constexpr double kLongCompile = 1;         // seconds
constexpr double kLeastTrial = 1e-3,
                 kOperatorTrial = 8e-3;  // seconds of compiling: at least; an operator's share before one is timed
constexpr double kMostCredit = 0.25;     // seconds of device time that may be saved up
// A nice compiler on a busy machine may wait for seconds; one that hangs costs the search that long and the steps nothing.
constexpr std::chrono::milliseconds kFirstDeadline{10000}, kCompileDeadline{20000}, kMeasureDeadline{10000};

double rooflineSeconds(const Program& program, const Target& target) {
  double flops = 0, bytes = 0;
  for (std::size_t i = 0; i < program.operators.size(); ++i) flops += static_cast<double>(leastFlopsOf(program, OperatorId(i)));
  const std::vector<OperatorId> writer = producers(program);
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (!writer[t].valid()) bytes += static_cast<double>(program.tensors[t].bytes());
  for (const Output& output : program.outputs) bytes += static_cast<double>(program[output.tensor].bytes());
  double seconds = 0;
  if (target.peakFlops > 0) seconds = flops / (target.peakFlops * static_cast<double>(std::max<std::int64_t>(target.threads, 1)));
  if (target.peakBandwidth > 0 && bytes > static_cast<double>(std::max(target.l2Bytes, target.l3Bytes)))
    seconds = std::max(seconds, bytes / target.peakBandwidth);
  return seconds;
}

// What compiling a kernel takes, in operators that only map elements: a reduction is tiled, packed and unrolled.
double compilingWeight(const Program& program) {
  double weight = 0;
  for (const Operator& op : program.operators) weight += op.reducer == Reducer::None ? 1 : 5;
  return weight;
}

WorkloadTraits traitsOf(const Program& program, const std::string& kind) {
  double flops = 1, inputs = 1, outputs = 1;
  for (std::size_t i = 0; i < program.operators.size(); ++i) flops += static_cast<double>(flopsOf(program, OperatorId(i)));
  const std::vector<OperatorId> writer = producers(program);
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (!writer[t].valid()) inputs += static_cast<double>(program.tensors[t].bytes());
  for (const Output& output : program.outputs) outputs += static_cast<double>(program[output.tensor].bytes());
  WorkloadTraits traits{kind, {std::log2(flops), std::log2(inputs), std::log2(outputs)}};
  if (!program.operators.empty())
    for (const Axis& axis : program.operators.back().axes) traits.sizes.push_back(std::log2(static_cast<double>(axis.extent)));
  return traits;
}

class WorkerEvaluator final : public Evaluator {
 public:
  WorkerEvaluator(CompileService& compile, MeasureService& measure) : m_compile(compile), m_measure(measure) {}
  CompileOutcome compile(CompileJob job, std::stop_token stop) override {
    job.stop = std::move(stop);
    return m_compile.compile(std::move(job)).get();
  }
  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    job.stop = std::move(stop);
    return m_measure.measure(std::move(job)).get();
  }
  MeasureOutcome compare(CompareJob job, std::stop_token stop) override {
    job.stop = std::move(stop);
    return m_measure.compare(std::move(job)).get();
  }

 private:
  CompileService& m_compile;
  MeasureService& m_measure;
};

}  // namespace

MeasureOutcome Evaluator::compare(CompareJob, std::stop_token) {
  MeasureOutcome outcome;
  outcome.status = TrialStatus::Crashed;
  outcome.reason = "branches are not compared here";
  return outcome;
}

std::unique_ptr<Evaluator> workerEvaluator(CompileService& compile, MeasureService& measure) {
  return std::make_unique<WorkerEvaluator>(compile, measure);
}

nlohmann::json toJson(const TrialEvent& event) {
  nlohmann::json j{{"event", "trial"},
                   {"subgraph", event.subgraph.hex()},
                   {"name", event.name},
                   {"schedule", nlohmann::json::parse(event.schedule.text(), nullptr, false)},
                   {"us", event.microseconds ? nlohmann::json(*event.microseconds) : nlohmann::json(nullptr)},
                   {"status", name(event.status)},
                   {"best_us", event.bestMicroseconds},
                   {"improved", event.improved},
                   {"seconds", event.seconds}};
  if (!event.reason.empty()) j["reason"] = event.reason;
  return j;
}

struct TuningService::Impl {
  // Shared fields are guarded by `mutex`; `space` is set before `firstDone` and constant from then on; `search` and
  // `model` belong to the explore thread.
  struct Subject {
    TuningTask task;
    State state;
    bool running = true;
    bool firstTried = false, firstDone = false, baselineDone = false, baselineQueued = false;
    Clock::Time retryAt{}, retryAfter = kRetryFirst;  // of the first kernel
    Clock::Time afterKill{};
    std::shared_ptr<const KernelObject> ungated;  // compiled, but the worker that was to check it was killed by others
    int inFlight = 0;                             // schedules of the round that are not measured yet
    double stepMicroseconds = 0;                  // of a call inside steps; 0: not seen
    double estimate = 0;                          // seconds, of the analytic model for its first schedule
    double trialSeconds = 1;                      // of compiling one
    bool compiledBefore = false;                  // trialSeconds has been measured
    WorkloadTraits traits;
    std::vector<Schedule> avoid;  // for first kernels: failed already
    std::unique_ptr<ScheduleSpace> space;
    std::unique_ptr<CostModel> model;
    std::unique_ptr<GeneticSearch> search;
    std::vector<Schedule> forgotten;
    std::map<std::string, Lineage> lineages;  // by text, of what was proposed
  };
  struct Item {
    Subject* subject = nullptr;
    Schedule schedule;
    bool baseline = false;
    std::shared_ptr<const KernelObject> object;  // once compiled
  };
  struct Observation {
    Subject* subject;
    Schedule schedule;
    TrialStatus status;
    double seconds;
  };
  struct Offered {
    Subject* subject = nullptr;
    StepCandidate candidate;
    GateReport gate;
    bool handedOut = false;
    std::vector<TimedPair> pairs;
  };

  std::shared_ptr<const Target> target;
  Evaluator& evaluator;
  FunctionCache& cache;
  RecordDatabase* records;
  Clock& clock;
  TuningOptions options;
  Clock::Time born;

  mutable std::mutex mutex;
  mutable std::condition_variable_any changed;
  std::vector<std::unique_ptr<Subject>> subjects;
  std::unordered_map<Hash, Subject*> byHash;
  std::deque<Subject*> firstQueue;
  std::size_t firstActive = 0, firstUntried = 0;
  int kills = 0;        // of workers by others, while first kernels were missing
  int killsInARow = 0;  // of these, since one was made
  std::string trouble;  // of first kernels
  std::deque<Item> scheduled, compiled;
  std::size_t itemsActive = 0;  // popped from a queue and not yet done
  std::vector<Observation> observations;
  std::vector<Subject*> bestToRecord;  // the executor decides, the generate thread writes
  std::deque<Offered> offered;
  std::uint64_t nextTicket = 1;
  bool started = false, paused = false, exploring = false;
  std::int64_t trialCount = 0;  // those that were asked for a time
  double share = 0, stepSeconds = 0;
  // Device time that may be spent now; falls below zero by what the last trial took.
  double credit = 0, spent = 0;
  bool waitingForBudget = false;
  std::optional<Clock::Time> compilingSince;  // a candidate
  std::int64_t otherTurn = kTrialsATurn;      // count of trials from which on other work may go on
  int sinceProof = 0;                         // rounds
  Clock::Time creditAt{};

  std::vector<std::jthread> firstThreads;
  std::jthread exploreThread, compileThread, measureThread;

  Impl(std::shared_ptr<const Target> t, Evaluator& e, FunctionCache& c, RecordDatabase* r, Clock& k, TuningOptions o)
      : target(std::move(t)), evaluator(e), cache(c), records(r), clock(k), options(std::move(o)), born(clock.now()) {
    share = std::clamp(options.deviceShare, 0.0, 1.0);
    credit = kFirstCredit * options.deviceCapacity;
    if (!options.space) options.space = [](const Program& p, const Target& on) { return scheduleSpace(p, on); };
    if (!options.costModel) options.costModel = [] { return std::make_unique<RidgeModel>(); };
    for (int i = 0; i < kFirstKernelThreads; ++i)
      firstThreads.emplace_back([this](std::stop_token stop) { makeFirstKernels(stop); });
  }

  // ---------------------------------------------------------------- first kernels
  void makeFirstKernels(std::stop_token stop) {
    std::unique_lock lock(mutex);
    const auto next = [&] {
      return std::min_element(firstQueue.begin(), firstQueue.end(), [](const Subject* a, const Subject* b) {
        return std::pair(a->retryAt, a->task.background) < std::pair(b->retryAt, b->task.background);
      });
    };
    // While workers are killed faster than kernels are made, one at a time has the machine: its compiler gets furthest.
    const auto mayTake = [&] { return !firstQueue.empty() && (killsInARow <= kKillsForgiven || firstActive == 0); };
    while (changed.wait(lock, stop, mayTake)) {
      const auto earliest = next();
      if ((*earliest)->retryAt > clock.now()) {
        clock.waitUntil(lock, changed, stop, (*earliest)->retryAt, [&] { return mayTake() && (*next())->retryAt <= clock.now(); });
        if (stop.stop_requested()) return;
        continue;
      }
      Subject* subject = *earliest;
      firstQueue.erase(earliest);
      ++firstActive;
      lock.unlock();
      const bool made = makeFirstKernel(*subject, stop);
      lock.lock();
      --firstActive;
      if (!std::exchange(subject->firstTried, true)) --firstUntried;
      // Behind those that have not been tried yet.
      if (!made) firstQueue.push_back(subject);
      changed.notify_all();
    }
  }

  // Something slow in its place until it can be made: true. The first kernel is to be tried again.
  bool standIn(Subject& subject) {
    if (!options.standIn) return false;
    if (cache.find(subject.task.hash)) return true;
    auto object = options.standIn(*subject.task.subgraph);
    if (!object) return false;
    object->subgraph = subject.task.hash;
    cache.standIn(subject.task.hash, std::make_shared<const KernelObject>(std::move(*object)));
    return true;
  }

  // A worker was killed by others: the kernel is tried again, the others first. False, as of makeFirstKernel().
  bool killedByOthers(Subject& subject, const std::string& what) {
    std::vector<Subject*> missing;
    {
      const std::lock_guard lock(mutex);
      trouble = what + "; trying again";
      ++kills;
      ++killsInARow;
      subject.retryAt = clock.now() + subject.afterKill;
      subject.afterKill = std::clamp<Clock::Time>(2 * subject.afterKill, kAfterKill, kAfterKillsMost);
      if (options.standInWhileKilled && kills > kKillsForgiven) {
        missing.assign(firstQueue.begin(), firstQueue.end());
        missing.push_back(&subject);
      }
    }
    for (Subject* s : missing) standIn(*s);
    return false;
  }

  // Every schedule has failed, `died`: by taking workers down. True: that is the end of it.
  bool firstFailed(Subject& subject, const Error& why, bool died) {
    if (!died || !standIn(subject)) {
      cache.fail(subject.task.hash, why);
      return true;
    }
    const std::lock_guard lock(mutex);
    trouble =
        "the interpreter stands in for " + subject.task.name + ": " + why.message + (why.detail.empty() ? "" : ", " + why.detail);
    subject.retryAt = clock.now() + subject.retryAfter;
    subject.retryAfter = std::min<Clock::Time>(2 * subject.retryAfter, kRetryMost);
    return false;
  }

  // Legal schedules in the order of trust: forced or recorded, the analytic model's, then a few others.
  std::vector<Schedule> firstSchedules(Subject& subject, const ScheduleSpace& space, bool& recorded) {
    std::vector<Schedule> result;
    const auto add = [&](const Schedule& s) {
      const bool avoided = std::find(subject.avoid.begin(), subject.avoid.end(), s) != subject.avoid.end();
      if (avoided || !space.check(s) || std::find(result.begin(), result.end(), s) != result.end()) return false;
      result.push_back(s);
      return true;
    };
    if (subject.task.forced) add(*subject.task.forced);
    if (records && options.useRecords && !subject.task.forced)
      if (const auto best = records->best(subject.task.hash, target->fingerprint)) recorded = add(best->schedule);
    add(space.first());
    std::mt19937_64 rng(options.seed ^ subject.task.hash.low);
    for (int i = 0; i < 8 && result.size() < 4; ++i) add(space.random(rng));
    return result;
  }

  bool recordedAsFinished(const Subject& subject) const {
    return records->all(subject.task.hash, target->fingerprint).size() >= kFinishedSearch;
  }

  // False: to be tried again.
  bool makeFirstKernel(Subject& subject, std::stop_token stop) {
    if (!subject.space) {
      auto space = options.space(*subject.task.subgraph, *target);
      if (!space) {
        {
          const std::lock_guard lock(mutex);
          subject.state.notLowerable = space.error().message;
        }
        cache.fail(subject.task.hash, space.error());
        return true;
      }
      subject.space = std::move(*space);
      subject.traits = traitsOf(*subject.task.subgraph, subject.space->first().kind);
    }
    bool recorded = false;
    std::vector<Schedule> schedules = firstSchedules(subject, *subject.space, recorded);
    Error last{"compile", "no schedule of " + subject.task.name + " works", target->backend, {}};
    bool died = false;
    while (!schedules.empty() && !stop.stop_requested()) {
      begin(subject, schedules[0]);
      std::shared_ptr<const KernelObject> object = std::exchange(subject.ungated, nullptr);
      if (!object) {
        CompileJob job;
        job.subgraph = subject.task.subgraph;
        job.hash = subject.task.hash;
        job.target = target;
        job.schedules = schedules;
        job.priority = priorityOf(subject);
        job.deadline = job.priority == CompilePriority::Background ? kCompileDeadline : kFirstDeadline;
        job.forgivenKills = 0;
        CompileOutcome outcome = evaluator.compile(std::move(job), stop);
        if (outcome.cancelled) {
          withdraw(subject, schedules[0]);
          return cancelFirst(subject);
        }
        if (outcome.outside) {
          withdraw(subject, schedules[0]);
          return killedByOthers(subject, outcome.kernel.error().message);
        }
        if (outcome.status != TrialStatus::Ok) {
          const std::string why =
              outcome.kernel ? "its compiler failed" : outcome.kernel.error().message + " " + outcome.kernel.error().detail;
          report(subject, schedules[0], outcome.status, {}, why, false);
        }
        if (!outcome.kernel) {
          last = outcome.kernel.error();
          died = outcome.died;
          break;
        }
        object = std::make_shared<const KernelObject>(std::move(*outcome.kernel));
      }
      // The wanted one, or one that stood behind it.
      const auto used = std::find(schedules.begin(), schedules.end(), object->schedule);
      if (used != schedules.begin() && used != schedules.end()) {
        recorded = false;
        schedules.erase(schedules.begin(), used);
        begin(subject, schedules[0]);
      }
      MeasureJob gate = gateJob(subject, object);
      gate.forgivenKills = 0;
      const auto measured = evaluator.measure(std::move(gate), stop);
      if (measured.cancelled) {
        withdraw(subject, schedules[0]);
        return cancelFirst(subject);
      }
      if (measured.outside) {
        withdraw(subject, schedules[0]);
        subject.ungated = object;
        return killedByOthers(subject, measured.reason);
      }
      report(subject, schedules[0], measured.status, {}, measured.reason, false);
      if (measured.status == TrialStatus::Ok) return enterFirst(subject, object, measured.gate, recorded);
      last = {"gate", measured.reason, target->backend, {}};
      died = measured.status == TrialStatus::Crashed || measured.status == TrialStatus::Killed;
      recorded = false;
      schedules.erase(schedules.begin());
    }
    return firstFailed(subject, last, died);
  }

  CompilePriority priorityOf(const Subject& subject) const {
    const std::lock_guard lock(mutex);
    return subject.task.background ? CompilePriority::Background : CompilePriority::FirstKernel;
  }

  MeasureJob gateJob(const Subject& subject, std::shared_ptr<const KernelObject> object) const {
    MeasureJob job;
    job.subgraph = subject.task.subgraph;
    job.hash = subject.task.hash;
    job.candidate = std::move(object);
    job.gate = GateLevel::Quick;
    job.time = false;
    job.exclusive = options.exclusive;
    job.priority = CompilePriority::FirstKernel;
    job.deadline = kFirstDeadline;
    return job;
  }

  bool cancelFirst(const Subject& subject) {
    cache.fail(subject.task.hash,
               Error{"compile", "stopped before " + subject.task.name + " had its first kernel", target->backend, {}});
    return true;
  }

  bool enterFirst(Subject& subject, std::shared_ptr<const KernelObject> object, const GateReport& gate, bool recorded) {
    const bool finishedSearch = recorded && !options.searchAfterHit && recordedAsFinished(subject);
    {
      const std::lock_guard lock(mutex);
      subject.firstDone = true;
      subject.estimate = subject.space->estimateSeconds(object->schedule);
      subject.trialSeconds = kOperatorTrial * (1 + compilingWeight(*subject.task.subgraph));
      trouble.clear();
      killsInARow = 0;
      if (firstQueue.empty() && firstActive == 1) kills = 0;
      subject.state.recordHit = recorded;
      if (finishedSearch || subject.task.forced) subject.state.exhausted = true;
    }
    // What is written ahead names those that kill; the rest about this one follows with its time.
    withdraw(subject, object->schedule);
    cache.offer(subject.task.hash, std::move(object), gate, std::nullopt);
    changed.notify_all();
    return true;
  }

  // ---------------------------------------------------------------- records and events
  void begin(const Subject& subject, const Schedule& schedule) {
    if (records) [[maybe_unused]]
      const auto done = records->begin(subject.task.hash, target->fingerprint, schedule, subject.traits);
  }
  void withdraw(const Subject& subject, const Schedule& schedule) {
    if (records) [[maybe_unused]]
      const auto done = records->withdraw(subject.task.hash, target->fingerprint, schedule);
  }

  // Into the record database, the counters and the callback. `timed`: the trial was asked for a time.
  void report(Subject& subject, const Schedule& schedule, TrialStatus status, const Timing& timing, const std::string& reason,
              bool timed) {
    const bool hasTime = timing.runs > 0;
    // First kernels are only checked: their time follows with the baseline.
    if (records && (timed || status != TrialStatus::Ok)) [[maybe_unused]]
      const auto done = records->finish(subject.task.hash, target->fingerprint, schedule, status, timing);
    TrialEvent event;
    {
      const std::lock_guard lock(mutex);
      trialCount += timed;
      subject.state.trials += timed;
      const bool failed = status != TrialStatus::Ok && status != TrialStatus::Slow;
      subject.state.failed += failed;
      double& best = subject.state.bestMicroseconds;
      if (status == TrialStatus::Ok && hasTime && (best == 0 || timing.median < best)) {
        event.improved = best != 0;
        best = timing.median;
      }
      event.subgraph = subject.task.hash;
      event.name = subject.task.name;
      event.bestMicroseconds = best;
      if (const auto found = subject.lineages.find(schedule.text()); found != subject.lineages.end()) event.lineage = found->second;
      else event.lineage.how = "first";
    }
    event.schedule = schedule;
    event.status = status;
    if (hasTime) event.microseconds = timing.median;
    event.spreadMicroseconds = timing.spread;
    event.reason = reason;
    event.seconds = std::chrono::duration<double>(clock.now() - born).count();
    if (options.onTrial) options.onTrial(event);
  }

  // ---------------------------------------------------------------- explore
  bool limitReached() const {
    return options.maximumTrials >= 0 &&
           trialCount + static_cast<std::int64_t>(scheduled.size() + compiled.size() + itemsActive) >= options.maximumTrials;
  }

  // Seconds of a step that tuning this subgraph may win. Before its first kernel has been timed what steps show of it counts, or what
  // the analytic model thinks; where there are no steps all are timed first.
  double gainOf(const Subject& s) const {
    if (!s.running || !s.firstDone) return 0;
    if (!s.baselineDone) {
      if (!options.lastWordInSteps) return INFINITY;
      const double floor = s.state.rooflineMicroseconds * 1e-6;
      const double seconds = s.stepMicroseconds > 0 ? s.stepMicroseconds * 1e-6 : s.estimate;
      return std::max(GeneticSearch::priorGainSeconds(seconds, floor) * s.task.callsPerStep, 1e-12);
    }
    const double gain = s.state.expectedGainSeconds;
    return s.state.exhausted || gain < kWorthOfStep * stepSeconds ? 0 : gain;
  }

  // By the second of compiling: a small kernel's ten trials may cost as much as one of a large one.
  double worthOf(const Subject& s) const { return gainOf(s) / s.trialSeconds; }

  // The subgraph to propose for. Those that are worth far less than the best wait until its gain has fallen, even while
  // the best waits for its measurements.
  Subject* mostWorth() const {
    constexpr double kComparable = 0.2;
    double most = 0;
    for (const auto& s : subjects)
      if (const double worth = worthOf(*s); std::isfinite(worth)) most = std::max(most, worth);
    Subject* best = nullptr;
    double bestWorth = 0;
    // Every first kernel is checked fully in the end, however little it costs.
    const bool proof = sinceProof >= kProofEvery || nothingUnderWay();
    for (const auto& s : subjects) {
      const double worth = worthOf(*s);
      if (worth == 0 || (worth < kComparable * most && (s->baselineDone || !proof))) continue;
      if (!s->baselineDone && s->baselineQueued) continue;
      if (s->inFlight > 0) continue;  // a round learns from the one before: trajectories stay reproducible
      if (worth > bestWorth) {
        bestWorth = worth;
        best = s.get();
      }
    }
    return best;
  }

  // Kernels leave the device alone for now.
  bool nothingToDo() const { return mostWorth() == nullptr && nothingUnderWay(); }

  bool nothingUnderWay() const {
    return scheduled.empty() && compiled.empty() && itemsActive == 0 &&
           std::none_of(subjects.begin(), subjects.end(), [](const auto& s) { return s->inFlight > 0 || s->baselineQueued; });
  }

  void explore(std::stop_token stop) {
    std::unique_lock lock(mutex);
    const auto canPropose = [&] {
      return !paused && firstUntried == 0 && !limitReached() && scheduled.size() < options.queueCapacity && mostWorth() != nullptr;
    };
    while (changed.wait(lock, stop, [&] { return !observations.empty() || canPropose(); })) {
      std::vector<Observation> news;
      news.swap(observations);
      exploring = true;
      lock.unlock();
      for (const Observation& o : news) learn(o);
      lock.lock();
      if (canPropose()) proposeRound(lock);
      exploring = false;
      changed.notify_all();
    }
  }

  void learn(const Observation& o) {
    Subject& subject = *o.subject;
    if (!subject.search) startSearch(subject);
    subject.search->observe(o.schedule, o.status, o.seconds);
    const double gain = subject.search->expectedGainSeconds(rooflineSeconds(*subject.task.subgraph, *target));
    const std::lock_guard lock(mutex);
    subject.inFlight = std::max(subject.inFlight - 1, 0);
    subject.state.expectedGainSeconds = gain * subject.task.callsPerStep;
    if (subject.search->barrenTrials() >= kBarrenEnd) subject.state.exhausted = true;
  }

  void startSearch(Subject& subject) {
    SearchOptions search;
    search.seed = options.seed ^ subject.task.hash.low;
    subject.model = options.costModel();
    subject.search = std::make_unique<GeneticSearch>(*subject.space, *subject.model, search);
    if (!records || !options.useRecords) return;
    for (const TuningRecord& r : records->all(subject.task.hash, target->fingerprint)) {
      if (!r.status || *r.status == TrialStatus::Killed || *r.status == TrialStatus::Crashed || *r.status == TrialStatus::Wrong)
        subject.search->forbid(r.schedule);
      else if (r.timing.runs > 0) subject.search->observe(r.schedule, *r.status, r.timing.median * 1e-6);
    }
    for (const TuningRecord& r : records->nearest(subject.task.hash, target->fingerprint, subject.traits, 4))
      subject.search->suggest(r.schedule);
  }

  void proposeRound(std::unique_lock<std::mutex>& lock) {
    Subject* subject = mostWorth();
    if (!subject->baselineDone) {
      subject->baselineQueued = true;
      sinceProof = 0;
      scheduled.push_back({subject, {}, true, nullptr});
      return;
    }
    std::size_t count = std::min(options.roundSize, options.queueCapacity - scheduled.size());
    if (options.maximumTrials >= 0)
      count = std::min(count, static_cast<std::size_t>(std::max<std::int64_t>(
                                  options.maximumTrials - trialCount -
                                      static_cast<std::int64_t>(scheduled.size() + compiled.size() + itemsActive),
                                  1)));
    ++sinceProof;
    lock.unlock();
    if (!subject->search) startSearch(*subject);
    std::vector<Schedule> round = subject->search->propose(count);
    std::vector<Lineage> lineages;
    for (const Schedule& s : round)
      if (const Lineage* known = subject->search->lineage(s)) lineages.push_back(*known);
    lock.lock();
    for (std::size_t i = 0; i < lineages.size(); ++i) subject->lineages[round[i].text()] = std::move(lineages[i]);
    subject->inFlight = static_cast<int>(round.size());
    if (round.empty()) subject->state.exhausted = true;
    for (Schedule& s : round) scheduled.push_back({subject, std::move(s), false, nullptr});
  }

  // ---------------------------------------------------------------- generate
  void done(Item& item, TrialStatus status, double seconds) {
    const std::lock_guard lock(mutex);
    --itemsActive;
    observations.push_back({item.subject, std::move(item.schedule), status, seconds});
    changed.notify_all();
  }

  // Taken back: it says nothing about the schedule.
  void cancelled(Item& item) {
    if (item.schedule.knobs) withdraw(*item.subject, item.schedule);
    const std::lock_guard lock(mutex);
    --itemsActive;
    if (item.baseline) item.subject->baselineQueued = false;
    item.subject->inFlight = std::max(item.subject->inFlight - 1, 0);
    changed.notify_all();
  }

  // What needs no compiler first; then the kernel that is worth most, in the order of its round.
  std::deque<Item>::iterator nextToCompile() {
    const auto rank = [&](const Item& item) { return item.baseline ? INFINITY : worthOf(*item.subject); };
    return std::max_element(scheduled.begin(), scheduled.end(), [&](const Item& a, const Item& b) { return rank(a) < rank(b); });
  }

  void compileLoop(std::stop_token stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return !paused && !scheduled.empty() && compiled.size() < kCompiledAhead; })) {
      const auto next = nextToCompile();
      Item item = std::move(*next);
      scheduled.erase(next);
      ++itemsActive;
      changed.notify_all();
      const Clock::Time begun = clock.now();
      if (!item.baseline) compilingSince = begun;
      lock.unlock();
      bool goesOn = item.baseline;
      if (!item.baseline) {
        begin(*item.subject, item.schedule);
        CompileJob job;
        job.subgraph = item.subject->task.subgraph;
        job.hash = item.subject->task.hash;
        job.target = target;
        job.schedules = {item.schedule};
        job.priority = CompilePriority::Background;
        job.deadline = kCompileDeadline;
        job.attempts = 1;
        job.forgivenKills = kForgivenOfTrials;
        CompileOutcome outcome = evaluator.compile(std::move(job), stop);
        goesOn = outcome.kernel.ok();
        if (outcome.cancelled || outcome.outside) {
          cancelled(item);
        } else if (!goesOn) {
          const Error& e = outcome.kernel.error();
          report(*item.subject, item.schedule, outcome.status, {}, e.message + (e.detail.empty() ? "" : ": " + e.detail), true);
          done(item, outcome.status, 0);
        } else {
          item.object = std::make_shared<const KernelObject>(std::move(*outcome.kernel));
        }
      }
      lock.lock();
      compilingSince.reset();
      if (!item.baseline && goesOn) {
        const double took = std::max(std::chrono::duration<double>(clock.now() - begun).count(), kLeastTrial);
        double& known = item.subject->trialSeconds;
        known = item.subject->compiledBefore ? 0.7 * known + 0.3 * took : took;
        item.subject->compiledBefore = true;
      }
      if (goesOn) {
        --itemsActive;
        compiled.push_back(std::move(item));
        changed.notify_all();
      }
    }
  }

  // Share of device time that tuning gets now: all of it while much is to be gained, less as that falls.
  double effectiveShare() const {
    if (stepSeconds <= 0) return share;
    double gain = 0;
    for (const auto& s : subjects) {
      if (s->running && s->firstDone && !s->baselineDone) return share;
      if (s->running && !s->state.exhausted) gain += s->state.expectedGainSeconds;
    }
    return share * std::clamp(gain / (kFullEffortGain * stepSeconds), kLeastEffort, 1.0);
  }

  // Device seconds a second.
  double rate() const { return std::min(effectiveShare() * options.deviceCapacity, 1.0); }

  void accrue() {
    const Clock::Time now = clock.now();
    if (!paused) credit = std::min(credit + std::chrono::duration<double>(now - creditAt).count() * rate(), kMostCredit);
    creditAt = now;
  }

  // Waits until the budget has something left. False: a stop.
  bool waitForBudget(std::unique_lock<std::mutex>& lock, std::stop_token stop) {
    for (;;) {
      if (stop.stop_requested()) return false;
      if (paused) return true;
      accrue();
      const double share = rate();
      if (credit > 0 || share >= 1) return true;
      // Looked at again at least every 50 ms: the share may be set anew.
      const double seconds = share > 0 ? std::min(-credit / share, 0.05) : 0.05;
      const auto until = clock.now() + std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9) + 1000);
      waitingForBudget = true;
      clock.waitUntil(lock, changed, stop, until, [] { return false; });
      waitingForBudget = false;
    }
  }

  void measureLoop(std::stop_token stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return !paused && (!compiled.empty() || !bestToRecord.empty()); })) {
      if (!bestToRecord.empty()) {
        recordBest(lock);
        continue;
      }
      // Within the budget first: what is measured is chosen when it can be.
      if (!waitForBudget(lock, stop)) break;
      if (paused || compiled.empty()) continue;
      Item item = std::move(compiled.front());
      compiled.pop_front();
      ++itemsActive;
      const Offered* waiting = waitingFor(*item.subject);
      const std::shared_ptr<const KernelObject> pending = waiting ? waiting->candidate.candidate : nullptr;
      changed.notify_all();
      lock.unlock();
      measureItem(item, pending, stop);
      lock.lock();
    }
  }

  const Offered* waitingFor(const Subject& subject) const {
    const Offered* found = nullptr;
    for (const Offered& o : offered)
      if (o.subject == &subject) found = &o;
    return found;
  }

  void measureItem(Item& item, std::shared_ptr<const KernelObject> pending, std::stop_token stop) {
    Subject& subject = *item.subject;
    const auto current = cache.find(subject.task.hash);
    if (item.baseline && current) {
      item.object = current->object;
      item.schedule = current->object->schedule;
      begin(subject, item.schedule);
    }
    if (!current || !item.object) return cancelled(item);
    MeasureJob job;
    job.subgraph = subject.task.subgraph;
    job.hash = subject.task.hash;
    job.candidate = item.object;
    if (!item.baseline) job.incumbent = pending ? pending : current->object;
    job.exclusive = options.exclusive;
    job.deadline = kMeasureDeadline;
    job.forgivenKills = kForgivenOfTrials;
    const MeasureOutcome outcome = evaluator.measure(std::move(job), stop);
    {
      const std::lock_guard lock(mutex);
      credit -= outcome.deviceSeconds;
      spent += outcome.deviceSeconds;
    }
    if (outcome.cancelled || outcome.outside) return cancelled(item);
    report(subject, item.schedule, outcome.status, outcome.timing, outcome.reason, true);
    if (item.baseline) finishBaseline(subject, *current, outcome);
    else if (outcome.status == TrialStatus::Ok) weigh(subject, item.object, pending ? nullptr : current->object, outcome);
    done(item, outcome.status, outcome.timing.median * 1e-6);
  }

  void finishBaseline(Subject& subject, const CachedKernel& kernel, const MeasureOutcome& outcome) {
    if (outcome.status == TrialStatus::Ok) {
      cache.measured(subject.task.hash, kernel.generation, outcome.timing.median);
      if (records && !subject.state.recordHit) [[maybe_unused]]
        const auto done = records->setBest(subject.task.hash, target->fingerprint, kernel.object->schedule);
    }
    if (outcome.status == TrialStatus::Wrong) cache.revoke(subject.task.hash, kernel.generation);
    const std::lock_guard lock(mutex);
    ++subject.inFlight;  // the observation that follows takes it back
    if (outcome.status == TrialStatus::Wrong) {
      // The full gate saw what the quick one did not: another first kernel, without this schedule.
      subject.avoid.push_back(kernel.object->schedule);
      subject.firstDone = subject.baselineQueued = false;
      firstQueue.push_back(&subject);
      return;
    }
    subject.baselineDone = true;
    subject.state.firstMicroseconds = outcome.timing.median;
  }

  // The measuring worker found it right and not slow: is it better, and who says so?
  void weigh(Subject& subject, std::shared_ptr<const KernelObject> object, std::shared_ptr<const KernelObject> incumbent,
             const MeasureOutcome& outcome) {
    if (judge(outcome.pairs).decision != PairedVerdict::Decision::Accept) return;
    if (!options.lastWordInSteps) {
      const auto entry = cache.offer(subject.task.hash, object, outcome.gate, outcome.timing.median, outcome.incumbent.median);
      if (entry == FunctionCache::Entry::Entered && records) [[maybe_unused]]
        const auto done = records->setBest(subject.task.hash, target->fingerprint, object->schedule);
      return;
    }
    const auto current = cache.find(subject.task.hash);
    const std::lock_guard lock(mutex);
    // It has beaten the one that waits, too.
    std::erase_if(offered, [&](const Offered& o) { return o.subject == &subject && !o.handedOut; });
    Offered made;
    made.subject = &subject;
    made.candidate = {subject.task.hash, nextTicket++, std::move(object), incumbent ? incumbent : current->object};
    made.gate = outcome.gate;
    offered.push_back(std::move(made));
  }

  void recordBest(std::unique_lock<std::mutex>& lock) {
    std::vector<Subject*> toRecord;
    toRecord.swap(bestToRecord);
    lock.unlock();
    for (const Subject* subject : toRecord)
      if (const auto kernel = cache.find(subject->task.hash); kernel && records) [[maybe_unused]]
        const auto done = records->setBest(subject->task.hash, target->fingerprint, kernel->object->schedule);
    lock.lock();
  }

  bool idle() const {
    if (!firstQueue.empty() || firstActive || itemsActive || exploring || !scheduled.empty() || !compiled.empty() ||
        !observations.empty())
      return false;
    return !started || limitReached() || mostWorth() == nullptr;
  }
};

TuningService::TuningService(std::shared_ptr<const Target> target, Evaluator& evaluator, FunctionCache& cache,
                             RecordDatabase* records, Clock& clock, TuningOptions options)
    : m_impl(std::make_unique<Impl>(std::move(target), evaluator, cache, records, clock, std::move(options))) {}

TuningService::~TuningService() { stop(); }

void TuningService::add(std::vector<TuningTask> tasks) {
  // The largest first, so that no compiler is left with one at the end while the others are idle.
  std::stable_sort(tasks.begin(), tasks.end(), [](const TuningTask& a, const TuningTask& b) {
    return compilingWeight(*a.subgraph) > compilingWeight(*b.subgraph);
  });
  const std::lock_guard lock(m_impl->mutex);
  for (TuningTask& task : tasks) {
    NF_ASSERT(task.subgraph);
    if (const auto known = m_impl->byHash.find(task.hash); known != m_impl->byHash.end()) {
      auto& subject = *known->second;
      subject.running = true;
      subject.state.callsPerStep = subject.task.callsPerStep = task.callsPerStep;
      subject.task.background = subject.task.background && task.background;
      subject.state.name = subject.task.name = task.name;
      continue;
    }
    auto subject = std::make_unique<Impl::Subject>();
    subject->state.subgraph = task.hash;
    subject->state.name = task.name;
    subject->state.callsPerStep = task.callsPerStep;
    subject->state.rooflineMicroseconds = rooflineSeconds(*task.subgraph, *m_impl->target) * 1e6;
    subject->task = std::move(task);
    m_impl->byHash.emplace(subject->task.hash, subject.get());
    m_impl->firstQueue.push_back(subject.get());
    ++m_impl->firstUntried;
    m_impl->subjects.push_back(std::move(subject));
  }
  m_impl->changed.notify_all();
}

void TuningService::hurry(std::span<const Hash> subgraphs) {
  const std::lock_guard lock(m_impl->mutex);
  for (const Hash& hash : subgraphs)
    if (const auto known = m_impl->byHash.find(hash); known != m_impl->byHash.end()) known->second->task.background = false;
}

void TuningService::retain(std::span<const Hash> running) {
  const std::lock_guard lock(m_impl->mutex);
  for (auto& subject : m_impl->subjects)
    subject->running = std::find(running.begin(), running.end(), subject->task.hash) != running.end();
  m_impl->changed.notify_all();
}

void TuningService::start() {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) return;
  m_impl->started = true;
  m_impl->creditAt = m_impl->clock.now();
  m_impl->exploreThread = std::jthread([this](std::stop_token s) { m_impl->explore(s); });
  m_impl->compileThread = std::jthread([this](std::stop_token s) { m_impl->compileLoop(s); });
  m_impl->measureThread = std::jthread([this](std::stop_token s) { m_impl->measureLoop(s); });
}

void TuningService::pause() {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) m_impl->accrue();
  m_impl->paused = true;
}

void TuningService::resume() {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) m_impl->accrue();
  m_impl->paused = false;
  m_impl->changed.notify_all();
}

void TuningService::stop() {
  for (auto& thread : m_impl->firstThreads) thread.request_stop();
  for (auto* thread : {&m_impl->exploreThread, &m_impl->compileThread, &m_impl->measureThread}) thread->request_stop();
  for (auto& thread : m_impl->firstThreads)
    if (thread.joinable()) thread.join();
  for (auto* thread : {&m_impl->exploreThread, &m_impl->compileThread, &m_impl->measureThread})
    if (thread->joinable()) thread->join();
  std::unique_lock lock(m_impl->mutex);
  m_impl->recordBest(lock);
  for (const auto* subject : m_impl->firstQueue) m_impl->cancelFirst(*subject);
  m_impl->firstQueue.clear();
  m_impl->scheduled.clear();
  for (auto& item : m_impl->compiled)
    if (!item.baseline) m_impl->withdraw(*item.subject, item.schedule);
  m_impl->compiled.clear();
  m_impl->changed.notify_all();
}

void TuningService::setDeviceShare(double share) {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) m_impl->accrue();
  m_impl->share = std::clamp(share, 0.0, 1.0);
  m_impl->changed.notify_all();
}

bool TuningService::awaitBudget(std::stop_token stop) {
  std::unique_lock lock(m_impl->mutex);
  // Kernels come first: they make the next step faster.
  const auto mayGoOn = [&] {
    return m_impl->started && !m_impl->paused &&
           (m_impl->trialCount >= m_impl->otherTurn || m_impl->limitReached() || m_impl->nothingToDo());
  };
  while (m_impl->changed.wait(lock, stop, mayGoOn)) {
    if (!m_impl->waitForBudget(lock, stop)) return false;
    if (m_impl->paused) continue;
    m_impl->otherTurn = m_impl->trialCount + kTrialsATurn;
    return true;
  }
  return false;
}

void TuningService::charge(double deviceSeconds) {
  const std::lock_guard lock(m_impl->mutex);
  m_impl->credit -= deviceSeconds;
  m_impl->spent += deviceSeconds;
}

std::optional<Schedule> TuningService::bestSchedule(const Hash& subgraph) const {
  if (const auto cached = m_impl->cache.find(subgraph); cached && !cached->standIn) return cached->object->schedule;
  if (m_impl->records && m_impl->options.useRecords)
    if (const auto best = m_impl->records->best(subgraph, m_impl->target->fingerprint)) return best->schedule;
  return std::nullopt;
}

void TuningService::stepDone(double seconds) {
  const std::lock_guard lock(m_impl->mutex);
  double& smooth = m_impl->stepSeconds;
  const bool first = smooth == 0;
  smooth = first ? seconds : 0.9 * smooth + 0.1 * seconds;
  if (first) m_impl->changed.notify_all();
}

void TuningService::seenInSteps(const Hash& subgraph, double microseconds) {
  const std::lock_guard lock(m_impl->mutex);
  if (const auto found = m_impl->byHash.find(subgraph); found != m_impl->byHash.end())
    found->second->stepMicroseconds = microseconds;
  m_impl->changed.notify_all();
}

std::optional<StepCandidate> TuningService::nextCandidate() {
  const std::lock_guard lock(m_impl->mutex);
  for (auto& o : m_impl->offered) {
    if (o.handedOut) continue;
    const auto current = m_impl->cache.find(o.subject->task.hash);
    if (!current) continue;
    o.handedOut = true;
    o.candidate.incumbent = current->object;
    return o.candidate;
  }
  return std::nullopt;
}

PairedVerdict TuningService::reportPairs(std::uint64_t ticket, std::span<const TimedPair> pairs) {
  const std::lock_guard lock(m_impl->mutex);
  const auto at = std::find_if(m_impl->offered.begin(), m_impl->offered.end(),
                               [&](const Impl::Offered& o) { return o.candidate.ticket == ticket; });
  if (at == m_impl->offered.end()) return {PairedVerdict::Decision::Reject, 0, 0};
  at->pairs.insert(at->pairs.end(), pairs.begin(), pairs.end());
  PairedVerdict verdict = judge(at->pairs);
  if (verdict.decision == PairedVerdict::Decision::NeedMore) return verdict;
  if (verdict.decision == PairedVerdict::Decision::Accept) {
    std::vector<double> candidate, incumbent;
    for (const TimedPair& p : at->pairs) {
      candidate.push_back(p.candidate);
      incumbent.push_back(p.incumbent);
    }
    const auto entry = m_impl->cache.offer(at->candidate.subgraph, at->candidate.candidate, at->gate, timingOf(candidate).median,
                                           timingOf(incumbent).median);
    if (entry != FunctionCache::Entry::Entered) verdict.decision = PairedVerdict::Decision::Reject;
    else m_impl->bestToRecord.push_back(at->subject);
  }
  m_impl->offered.erase(at);
  m_impl->changed.notify_all();
  return verdict;
}

void TuningService::forget(std::uint64_t ticket) {
  const std::lock_guard lock(m_impl->mutex);
  std::erase_if(m_impl->offered, [ticket](const Impl::Offered& o) { return o.candidate.ticket == ticket; });
  m_impl->changed.notify_all();
}

void TuningService::withdraw(std::uint64_t ticket, const std::string& reason) {
  Impl::Offered taken;
  {
    const std::lock_guard lock(m_impl->mutex);
    const auto at = std::find_if(m_impl->offered.begin(), m_impl->offered.end(),
                                 [&](const Impl::Offered& o) { return o.candidate.ticket == ticket; });
    if (at == m_impl->offered.end()) return;
    taken = std::move(*at);
    m_impl->offered.erase(at);
    m_impl->changed.notify_all();
  }
  m_impl->report(*taken.subject, taken.candidate.candidate->schedule, TrialStatus::Crashed, {}, reason, true);
}

std::vector<TuningService::State> TuningService::states() const {
  const std::lock_guard lock(m_impl->mutex);
  std::vector<State> states;
  for (const auto& subject : m_impl->subjects) states.push_back(subject->state);
  return states;
}

std::string TuningService::trouble() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->trouble;
}

std::string TuningService::waitsFor() const {
  const std::lock_guard lock(m_impl->mutex);
  if (!m_impl->started || m_impl->paused) return {};
  if (m_impl->limitReached()) return "the search has used up its trials";
  if (m_impl->idle()) return "the search has nothing left that would be worth a trial";
  if (m_impl->waitingForBudget) return "the search waits: its share of device time is used up for now";
  if (m_impl->compilingSince) {
    const double seconds = std::chrono::duration<double>(m_impl->clock.now() - *m_impl->compilingSince).count();
    if (seconds >= kLongCompile) return "the search waits for its compiler: the machine is busy";
  }
  return {};
}

std::int64_t TuningService::trials() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->trialCount;
}

double TuningService::deviceSecondsSpent() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->spent;
}

bool TuningService::finished() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->idle();
}

bool TuningService::waitFinished(std::stop_token stop, std::chrono::milliseconds atMost) const {
  std::unique_lock lock(m_impl->mutex);
  return m_impl->changed.wait_for(lock, stop, atMost, [&] { return m_impl->idle(); });
}

}  // namespace nf
