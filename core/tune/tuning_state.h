// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/tune/genetic_search.h"
#include "core/tune/tuning_service.h"

// What the threads of a TuningService share: its first kernels (first_kernels.cpp) and its loops (tuning_loops.cpp).
namespace nf {

inline constexpr std::chrono::seconds kRetryFirst{1}, kRetryMost{60};  // of a first kernel that took its workers down
// Between two turns of other work that the budget pays, while kernels are searched.
inline constexpr std::int64_t kTrialsATurn = 16;
inline constexpr double kFirstCredit = 0.05;  // for each device second of a second
// Seconds of compiling: at least; an operator's share before one is timed.
inline constexpr double kLeastTrial = 1e-3, kOperatorTrial = 8e-3;
// A nice compiler on a busy machine may wait for seconds; one that hangs costs the search that long and the steps nothing.
inline constexpr std::chrono::milliseconds kFirstDeadline{10000}, kCompileDeadline{20000}, kMeasureDeadline{10000};

// Lower bound of one call, from peak rate and bandwidth.
double rooflineSeconds(const Program& program, const Target& target);
// What compiling a kernel takes, in operators that only map elements: a reduction is tiled, packed and unrolled.
double compilingWeight(const Program& program);

struct TuningService::Impl {
  // Shared fields are guarded by `mutex`; `space` is set before `firstDone` and constant from then on; `search` and
  // `model` belong to the explore thread.
  struct Subject {
    TuningTask task;
    State state;
    bool running = true;
    bool compiledQuickly = false;  // the first kernel; its schedule has not been tried with full effort yet
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
    std::map<std::string, Lineage> lineages;  // by text, of what was proposed
  };
  struct Item {
    Subject* subject = nullptr;
    Schedule schedule;
    bool baseline = false;
    std::shared_ptr<const KernelObject> object;  // once compiled
    bool ofFullEffort = false;                   // of the first kernel's schedule, see kFullFirst
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
  std::int64_t trialCount = 0;      // those that were asked for a time
  std::int64_t candidateCount = 0;  // of these, all but first kernels
  double share = 0, stepSeconds = 0, stepSecondsTold = 0;
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
  void makeFirstKernels(std::stop_token stop);
  // Something slow in its place until it can be made: true. The first kernel is to be tried again.
  bool standIn(Subject& subject);
  // A worker was killed by others: the kernel is tried again, the others first. False, as of makeFirstKernel().
  bool killedByOthers(Subject& subject, const std::string& what);
  // Every schedule has failed, `died`: by taking workers down. True: that is the end of it.
  bool firstFailed(Subject& subject, const Error& why, bool died);
  // Legal schedules in the order of trust: forced or recorded, the analytic model's, then a few others.
  std::vector<Schedule> firstSchedules(Subject& subject, const ScheduleSpace& space, bool& recorded);
  bool recordedAsFinished(const Subject& subject) const;
  // False: to be tried again.
  bool makeFirstKernel(Subject& subject, std::stop_token stop);
  CompilePriority priorityOf(const Subject& subject) const;
  MeasureJob gateJob(const Subject& subject, std::shared_ptr<const KernelObject> object) const;
  bool cancelFirst(const Subject& subject);
  bool enterFirst(Subject& subject, std::shared_ptr<const KernelObject> object, const GateReport& gate, bool recorded);

  // ---------------------------------------------------------------- records and events
  void begin(const Subject& subject, const Schedule& schedule);
  void withdraw(const Subject& subject, const Schedule& schedule);
  // Into the record database, the counters and the callback. `asked`: the trial was asked for a time. `turns`: with the best so far; may
  // be null.
  void report(Subject& subject, const Schedule& schedule, TrialStatus status, const Timing& timing, const std::string& reason,
              bool asked, RecordDatabase::Timed timed = RecordDatabase::Timed::Trial, const MeasureOutcome* turns = nullptr);

  // ---------------------------------------------------------------- explore
  bool limitReached() const;
  // Seconds of a step that tuning this subgraph may win. Before its first kernel has been timed what steps show of it counts, or what
  // the analytic model thinks; where there are no steps all are timed first.
  double gainOf(const Subject& s) const;
  // By the second of compiling: a small kernel's ten trials may cost as much as one of a large one.
  double worthOf(const Subject& s) const { return gainOf(s) / s.trialSeconds; }
  // The subgraph to propose for. Those that are worth far less than the best wait until its gain has fallen, even while
  // the best waits for its measurements.
  Subject* mostWorth() const;
  // Kernels leave the device alone for now.
  bool nothingToDo() const { return mostWorth() == nullptr && nothingUnderWay(); }
  bool nothingUnderWay() const;
  void explore(std::stop_token stop);
  void learn(const Observation& o);
  void startSearch(Subject& subject);
  void proposeRound(std::unique_lock<std::mutex>& lock);

  // ---------------------------------------------------------------- generate
  void done(Item& item, TrialStatus status, double seconds);
  // Taken back: it says nothing about the schedule.
  void cancelled(Item& item);
  // What needs no compiler first; then the kernel that is worth most, in the order of its round.
  std::deque<Item>::iterator nextToCompile();
  void compileLoop(std::stop_token stop);
  // Share of device time that tuning gets now: all of it while much is to be gained, less as that falls.
  double effectiveShare() const;
  // Device seconds a second.
  double rate() const { return std::min(effectiveShare() * options.deviceCapacity, 1.0); }
  void accrue();
  // Waits until the budget has something left. False: a stop.
  bool waitForBudget(std::unique_lock<std::mutex>& lock, std::stop_token stop);
  void measureLoop(std::stop_token stop);
  const Offered* waitingFor(const Subject& subject) const;
  void measureItem(Item& item, std::shared_ptr<const KernelObject> pending, std::stop_token stop);
  void finishBaseline(Subject& subject, const CachedKernel& kernel, const MeasureOutcome& outcome);
  // The measuring worker found it right and not slow: is it better, and who says so?
  void weigh(Subject& subject, std::shared_ptr<const KernelObject> object, std::shared_ptr<const KernelObject> incumbent,
             const MeasureOutcome& outcome);
  // The kernel in use and one that has beaten it once more, under counters, where the device has some. In a run of its own: whatever
  // becomes of it says nothing about the trial.
  void countKernels(const Subject& subject, std::shared_ptr<const KernelObject> object,
                    std::shared_ptr<const KernelObject> incumbent, std::stop_token stop);
  bool countersRefused = false;  // of the thread that measures
  void recordBest(std::unique_lock<std::mutex>& lock);
  bool idle() const;
};

}  // namespace nf
