// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/ir/structural_hash.h"
#include "core/schedule/schedule.h"
#include "core/tune/clock.h"
#include "core/tune/compile_service.h"
#include "core/tune/cost_model.h"
#include "core/tune/function_cache.h"
#include "core/tune/genetic_search.h"
#include "core/tune/measure_service.h"
#include "core/tune/record_database.h"
#include "core/tune/trial.h"

// The explore and generate loops of dynamic mode (paper, section 6; design: architecture, "Dynamic mode").
namespace nf {

// One unique subgraph of a running program.
struct TuningTask {
  std::shared_ptr<const Program> subgraph;
  Hash hash;
  std::string name;                // for people
  double callsPerStep = 1;         // of all groups that share it, loop trips included
  std::optional<Schedule> forced;  // `hint schedule`: this one, never searched
  bool background = false;         // nobody waits for its first kernel yet: made behind all others', at low priority, until hurry()
};

// Where candidates are compiled, checked and timed: processes, or a test's fake. Calls block; they come from the generate loop.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual CompileOutcome compile(CompileJob job, std::stop_token stop) = 0;
  virtual MeasureOutcome measure(MeasureJob job, std::stop_token stop) = 0;
  // Where branches can't be compared: an outcome of status Crashed that says so.
  virtual MeasureOutcome compare(CompareJob job, std::stop_token stop);
};
std::unique_ptr<Evaluator> workerEvaluator(CompileService& compile, MeasureService& measure);

// How the first kernel's schedule came to be tried once more, where the first kernel was compiled quickly.
inline constexpr const char* kFullFirst = "first, compiled with full effort";

struct TrialEvent {
  Hash subgraph;
  std::string name;
  Schedule schedule;
  TrialStatus status = TrialStatus::Ok;
  std::optional<double> microseconds;
  double bestMicroseconds = 0;               // of the subgraph after this trial
  std::optional<double> besideMicroseconds;  // of the best so far, timed in turns with this one
  bool won = false;                          // those turns: the steps have the last word
  bool improved = false;                     // this trial is the new best
  bool counted = true;                       // trials() counts it: a time was asked for, not only whether a first kernel is right
  bool quick = false;                        // of the schedule as it was compiled with CompileEffort::Quick
  std::string reason;
  double seconds = 0;  // since the service started
  double spreadMicroseconds = 0;
  Lineage lineage;  // round 0: a first kernel
};
// Two kernels of a subgraph under the device's counters: the one in use, and one that has beaten it.
struct CountersEvent {
  Hash subgraph;
  std::string name;
  Schedule before, after;  // made by
  std::optional<KernelCounters> beforeCounters, afterCounters;
  std::string missing;  // why there are none, one sentence: told once
  double seconds = 0;   // since the service started
};
nlohmann::json toJson(const TrialEvent& event);  // {"event":"trial","subgraph":..,"schedule":{..},"us":..|null,"status":..,...}

// A candidate for the last word: the executor runs it in alternation with the incumbent inside real steps and reports.
struct StepCandidate {
  Hash subgraph;
  std::uint64_t ticket = 0;
  std::shared_ptr<const KernelObject> candidate, incumbent;
};

struct TuningOptions {
  std::uint64_t seed = 1;
  double deviceShare = 0.30;        // of device time, for tuning, while much is to be gained
  double deviceCapacity = 1;        // device seconds there are in a second: cores, where measuring takes none from the steps
  std::int64_t maximumTrials = -1;  // all subgraphs together; -1: no limit
  std::size_t queueCapacity = 8;    // schedules between explore and generate
  std::size_t roundSize = 2;        // schedules of one explore round: small, so that several kernels take turns
  bool lastWordInSteps = true;      // false: the measuring worker's pairs decide (`neoflow tune`, no executor)
  bool quickFirst = false;      // first kernels by CompileEffort::Quick: the first trial of each is its schedule, compiled fully
  bool exclusive = true;        // see MeasureJob
  bool useRecords = true;       // start from recorded schedules
  bool searchAfterHit = false;  // search on where records already hold a finished search (`neoflow tune`)
  // Where schedule spaces come from; empty: scheduleSpace().
  std::function<Result<std::unique_ptr<ScheduleSpace>>(const Program&, const Target&)> space;
  // A kernel that computes a subgraph slowly but without a worker (the interpreter). It stands in where workers die of every schedule
  // and, where `standInWhileKilled`, for all first kernels that are missing once workers have been killed by others a few times; these
  // are tried again meanwhile. Empty: then a subgraph whose workers die fails, and kills by others are waited out.
  std::function<Result<KernelObject>(const Program&)> standIn;
  bool standInWhileKilled = false;
  // The cost model of one search; empty: RidgeModel.
  std::function<std::unique_ptr<CostModel>()> costModel;
  std::function<void(const TrialEvent&)> onTrial;        // called on the generate thread, no lock held
  std::function<void(const CountersEvent&)> onCounters;  // the same; empty: nothing is counted
};

// First kernels made at once: two compile workers and the measuring worker are busy.
inline constexpr int kFirstKernelThreads = 3;

class TuningService {
 public:
  // All references outlive the service. `records` may be null.
  TuningService(std::shared_ptr<const Target> target, Evaluator& evaluator, FunctionCache& cache, RecordDatabase* records,
                Clock& clock, TuningOptions options);
  ~TuningService();  // stop()
  TuningService(const TuningService&) = delete;
  TuningService& operator=(const TuningService&) = delete;

  // Adds subgraphs (known ones only change calls and name) and makes their first kernels: the forced or recorded
  // schedule, else the analytic model's. Returns at once; FunctionCache::waitFor() tells when they are there.
  void add(std::vector<TuningTask> tasks);
  // Somebody waits for the first kernels of these now.
  void hurry(std::span<const Hash> subgraphs);
  // Subgraphs that are no longer run are not tuned any more; their kernels stay in the cache.
  void retain(std::span<const Hash> running);

  // The loops; without it only first kernels are made (static mode). Rounds begin once each first kernel has been tried: what is measured
  // while compilers run reads slower than it is.
  void start();
  void pause();  // answers at once; a trial that runs ends by itself
  void resume();
  void stop();                        // joins the loops
  void setDeviceShare(double share);  // 0 to 1, live

  // ---- other work on the same device that the budget pays for: waits until it has something left and, while kernels are
  // searched, a few of their trials have been made since the last turn (false: a stop); says what was spent
  bool awaitBudget(std::stop_token stop);
  void charge(double deviceSeconds);
  // The schedule that a kernel of this subgraph is made by best, as far as is known: of the cache, else recorded.
  std::optional<Schedule> bestSchedule(const Hash& subgraph) const;
  // The round of the search that proposed it, as its TrialEvent has it; 0: a first kernel, or none of this search.
  std::int64_t roundOf(const Hash& subgraph, const Schedule& schedule) const;

  // ---- the executor's side, between steps; these never wait for work
  void stepDone(double seconds);  // duration of a step: the scale of expected gains
  // What a call of a first kernel took inside steps: the dearest ones are measured and searched first.
  void seenInSteps(const Hash& subgraph, double microseconds);
  // One of a subgraph at a time: the next waits until something is said of the last.
  std::optional<StepCandidate> nextCandidate();
  // Further pairs of a candidate, microseconds of one call each. Accept: it stands in the cache now. Reject: forget it.
  PairedVerdict reportPairs(std::uint64_t ticket, std::span<const TimedPair> pairs);
  void withdraw(std::uint64_t ticket, const std::string& reason);  // it failed to link or launch
  void forget(std::uint64_t ticket);                               // no step runs its subgraph any more: says nothing about it

  struct State {
    Hash subgraph;
    std::string name;
    double callsPerStep = 0;
    std::int64_t trials = 0, failed = 0;
    double firstMicroseconds = 0, bestMicroseconds = 0;  // 0: not measured
    double rooflineMicroseconds = 0;                     // lower bound from peak rate and bandwidth
    double expectedGainSeconds = 0;                      // of a step
    bool exhausted = false, recordHit = false;
    std::string notLowerable;  // the reason; empty: it has a schedule space
  };
  std::vector<State> states() const;
  std::int64_t trials() const;
  std::int64_t candidates() const;  // of the trials: all but those that time first kernels
  // What keeps first kernels from being made just now, for people; empty: nothing.
  std::string trouble() const;
  // What the search waits for, for people; empty: it goes on, or has not begun.
  std::string waitsFor() const;
  double deviceSecondsSpent() const;
  bool finished() const;  // nothing is left to try, or the limit of trials is reached
  bool waitFinished(std::stop_token stop, std::chrono::milliseconds atMost) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
