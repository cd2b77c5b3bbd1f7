// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/checkpoint.h"
#include "core/runtime/data_feed.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/prepared.h"
#include "core/runtime/run_folder.h"
#include "core/runtime/step_times.h"
#include "core/runtime/time_left.h"
#include "core/runtime/train.h"

// One training run. Private to core/runtime.
//
//   train.cpp             the run from its beginning to its end, and what other threads ask of it between two steps
//   train_setup.cpp       what is ready before the first step: the program, its kernels and data, the file that describes the run
//   train_step.cpp        one step
//   train_nan.cpp         where a loss that is not a number, and weights that are not finite ones, came from
//   train_evaluation.cpp  evaluation on the rows held out, or on the inputs as they are
//   train_fusion.cpp      fusion undone by measurement
//   train_checkpoint.cpp  what is kept for a later run, and what an earlier one kept
//   train_loss.cpp        a device lost on the way: what goes on, where, and from which values
//   train_events.cpp      what the run says: events and its state
namespace nf {

using Time = std::chrono::steady_clock::time_point;
constexpr std::chrono::milliseconds kEventPeriod{50};
// Of the steps so far, and of the evaluations, an event and one in the folder stand for at most this part.
constexpr std::int64_t kResolution = 256, kWritten = 4096;
constexpr const char* kCheckpointFile = "checkpoint.safetensors";

inline double secondsSince(Time start) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
double medianOf(std::vector<float> values);  // 0: there are none
TensorId lossOf(const Program& program, const std::string& name);

struct TrainJob::Impl {
  Impl(DeviceContext& c, TrainOptions o, Sink s) : context(&c), options(std::move(o)), sink(std::move(s)) {}

  std::unique_ptr<DeviceContext> standIn;  // before all that is on it: what took the place of a device that was lost
  DeviceContext* context;
  TrainOptions options;
  Sink sink;

  struct Evaluation {
    Prepared prepared;
    std::int64_t rows = 0;                    // of one run of it; 1: the inputs as they are
    std::vector<TensorStore::Entry*> inputs;  // as the feed has them
    bool ready = false;
  };
  struct PlannedEvaluations {
    std::vector<Evaluation> evaluations;  // without executables
    std::optional<Error> error;
    Span place;
    std::string warning;                // of evals that batches average
    Diagnostics refusedPins;            // that only evaluations would have
    std::vector<std::string> averaged;  // those that are no mean
  };

  // ---- shared with other threads
  std::mutex mutex;
  std::condition_variable_any changed;
  bool paused = false, running = false;
  std::optional<double> share;
  std::deque<Task> tasks;
  std::vector<protocol::TrialEvent> trialEvents;
  std::vector<protocol::KernelCountersEvent> counterEvents;
  std::optional<RevertedFusion> revertedFusion;  // found, neither in use nor refused yet: the trials wait for that
  std::optional<PlannedEvaluations> plannedEvaluations;
  std::atomic<bool> attention{false};    // something above wants the stepping thread
  std::atomic<bool> interrupted{false};  // the stop, for kernels that run long

  // ---- of the thread that runs
  CompiledNotebook notebook;
  TrainSettings settings;
  std::map<std::string, std::string> places;  // of the parameters in the loss
  std::shared_ptr<TensorStore> store;
  std::unique_ptr<KernelSupply> supply;
  Prepared training;
  PrepareOptions prepareOptions;  // of training; `reverted` grows
  std::optional<Checkpoint> checkpoint;
  std::optional<Checkpoint> kept;  // the newest state that the host has read, of a device that may be lost
  std::optional<std::vector<KernelSwap>> replay;
  std::unique_ptr<FusionTrials> fusionTrials;
  struct Replanned {
    RevertedFusion reverted;
    Prepared prepared;
    bool requested = false;
    std::uint64_t heldAt = 0;  // version of the cache at which the verdict held last
  };
  std::optional<Replanned> replanned;          // waits for its kernels
  std::vector<Evaluation> evaluations;         // of full batches, of the remainder
  std::vector<std::string> averagedByBatches;  // no means, and averaged over the batches of an evaluation
  bool evaluates = false, evaluationsPlanned = false, evaluationsTaken = false;
  std::optional<DataFeed> feed;
  std::vector<std::byte> staging;
  std::vector<TensorStore::Entry*> trainingInputs;
  std::unique_ptr<RunFolder> folder;
  // Parameters and states that no step reads, as a file gave them: for evaluations, and for the checkpoints of this run.
  std::map<std::string, HostTensor> bystanders;
  std::map<std::string, std::string> givenBy;  // files, by the tensor whose first value they hold
  TensorId loss;
  Span place;  // of the failure
  std::uint64_t seed = 1;
  std::int64_t firstStep = 0, step = 0, stepLimit = 0;
  Time begun;  // later by what it was paused: what is counted from here is time in which it trained
  StepTimes stepTimes;
  protocol::DoneEvent done;
  protocol::StepEvent thinned;
  protocol::StepEvent written{.steps = 0};  // thinned events that the folder has not got yet, as one
  bool merged = false;                      // it is of several
  StepRow row{.steps = 0};                  // and of its steps
  protocol::EvalEvent newestEval;
  std::int64_t evaluated = 0, untold = 0,
               unwritten = 0;  // evaluations: all; those since the newest that was told, that the folder has
  Time lastStepEvent{}, lastState{}, lastEvalEvent{};
  protocol::RunPhase lastPhase = protocol::RunPhase::Idle;
  TimeLeft timeLeft;
  std::int64_t swapCount = 0;
  std::size_t swapsLogged = 0;    // of supply->swaps(), in the folder
  std::string checkpointTrouble;  // why the newest checkpoint is missing; empty: it was written
  std::optional<double> lastLoss;
  bool dynamic = false;
  double waited = 0;
  double lastStepSeconds = 0;  // without the wait for the lease
  bool leaseStuck = false;
  std::set<std::string> infiniteAtFirst;  // parameters
  bool recordsTold = false;
  bool standInTold = false;

  std::jthread fusionThread, evaluationThread;  // last: they use all of the above

  // ---- train.cpp
  Result<TrainSummary> train(std::stop_token stop);
  // Initial values, those of the weights that were given, those of the checkpoint that is resumed.
  Result<Unit> loadFirstValues(const std::optional<Checkpoint>& from);
  // False: stop was requested.
  Result<bool> awaitKernels(std::stop_token stop);
  Result<Unit> steps(std::stop_token stop);
  // What other threads have left: trials, tasks, a new share, a pause.
  bool isPaused();
  void attend(std::stop_token stop);
  void tellTrials();
  void endTuning();
  void tellOfRecords();  // once, that another program keeps them from being written
  Result<TrainSummary> finish(std::stop_token stop);

  // ---- train_setup.cpp
  Result<Unit> compile();
  Result<Unit> prepareTraining(std::stop_token stop);
  // What fusion decides with: what the log or the checkpoint says where bits must agree, else what the machine has been measured to be.
  DeviceConstants fusedFor() const;
  // What fusion goes without at first: what the log or the checkpoint says where bits must agree, else what is recorded.
  MeasuredKernels firstReverted() const;
  Result<Unit> makeSupply();
  Result<Unit> loadData(std::stop_token stop);
  std::vector<TensorStore::Entry*> inputsOf(const Executable& executable) const;
  // Where the steps are counted in epochs: what they are.
  std::string epochsText() const;
  std::string programHash() const;
  Result<Unit> writeRunFile();

  // ---- train_step.cpp
  Result<Unit> oneStep();
  // A holder that neither runs nor dies (a stopped worker, until its parent's deadline) keeps steps waiting once, not each time: until
  // the lease is free again they go on without it.
  DeviceLease::Hold takeLease();
  Result<Unit> feedBatch(std::int64_t of);
  void record(double milliseconds, double value);

  // ---- train_nan.cpp
  Error nanFound(Executable& x);
  // Weights that are not finite numbers are neither kept nor evaluated, nor states that are no numbers; a parameter that held an infinity
  // before the first step may keep it. Between steps.
  Result<Unit> checkUpdates();
  // parameter: holds one since the newest step or an earlier one.
  Error infinityError(Executable& x, const std::string& parameter);
  // By the step over again, whose updates have been undone.
  TensorId firstInfinity(Executable& x, TensorId tensor);
  // happened: the message so far.
  Error nanError(Executable& x, std::string happened);
  // The operator that made the NaN of a kept value, found by that step over again from what it began with. Invalid: it cannot be had, or
  // the step makes none now.
  TensorId madeInStepBefore(Executable& x);
  Result<std::string> firstNaN(Executable& x, std::int64_t of);
  // What fused kernels don't write has no value to look at, and theirs come in another order: where it takes seconds at most, the step
  // is interpreted one operator at a time. Without an executable: it is not.
  Result<Prepared> byOperator();
  // Empty: nothing was met.
  Result<std::string> firstNaNByOperator(std::int64_t of);
  // The first input whose batch of this step holds one; empty: none.
  std::string infiniteInput(std::int64_t at);
  // The words for it, of the first of `steps`, whose place becomes that of the failure.
  std::string infiniteInput(const Program& program, std::initializer_list<std::int64_t> steps);

  // ---- train_evaluation.cpp
  // On a thread of its own: steps go on while the evaluating programs are compiled, fused and planned.
  void planEvaluations();
  // Asks for the kernels of what has been planned. False: it is not there yet, or a stop was requested while it was waited for.
  Result<bool> takeEvaluations(std::stop_token stop, bool wait);
  // In dynamic mode steps do not wait for the kernels of the first evaluation, which is made as soon as they are there.
  Result<bool> mayEvaluate(std::stop_token stop);
  Result<Unit> evaluate(std::stop_token stop);
  // The newest one, where it was not told yet.
  void tellEvaluation(bool intoFolder);

  // ---- train_fusion.cpp
  void startFusionTrials();
  // Between two steps; training goes on with what it has until the other partition's kernels are all there.
  Result<Unit> replan();
  // A kernel that it was measured with is not the one that runs, or would: the search has gone on meanwhile.
  bool superseded();
  void settled();  // the trials go on
  Result<Unit> replanAsLogged();
  Result<Unit> trainWith(Prepared next);

  // ---- train_checkpoint.cpp
  Result<Unit> readEarlier();
  Result<Unit> loadWeights(const NamedTensors& tensors, const std::string& from, bool all);
  // A warning where what is resumed had another device or mode.
  void tellWhatResumesDifferently();
  // Before one was written: what a slow disk would take.
  double estimatedCheckpointSeconds() const;
  // The state after the newest step, as the device has it.
  Result<Checkpoint> readState();
  // Outer: what the device says; inner: whether the file could be written. Without a folder nothing is.
  Result<Result<Unit>> saveCheckpoint();
  // On the way: a full disk costs the checkpoint, not the training.
  Result<Unit> tryCheckpoint();
  // A killed run is replayed by what stands there: written when a step has been made, so that none holds what was abandoned.
  void logSwaps();

  // ---- train_loss.cpp
  // The device is lost, and another can take its place.
  bool goesOnElsewhere(std::stop_token stop) const;
  // Puts the run on it, as it was after the newest step that the host has the values of, and says so.
  Result<Unit> goOnElsewhere(std::stop_token stop);

  // ---- train_events.cpp
  void emit(const protocol::Message& message, bool intoFolder = true);
  void tellKernels();  // of the training's step, as they are from here on
  void emitState(protocol::RunPhase phase, const std::string& detail, bool atOnce = false);
  void flushStepEvent(Time now);
  void writeStep(const protocol::StepEvent& event);
  void writeRow(double milliseconds, double value);
  void flushWritten();
  void flushRow();
  double medianOfLast(std::int64_t steps) const;
  std::string activity() const;
  protocol::SearchState searchState() const;
};

}  // namespace nf
