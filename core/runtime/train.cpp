// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train.h"

#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/ir/structural_hash.h"
#include "core/ir/work.h"
#include "core/runtime/checkpoint.h"
#include "core/runtime/data_feed.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/initialize.h"
#include "core/runtime/meaning.h"
#include "core/runtime/prepared.h"
#include "core/runtime/run_folder.h"
#include "core/runtime/step_program.h"
#include "core/runtime/time_left.h"

namespace nf {
namespace {

using Time = std::chrono::steady_clock::time_point;
constexpr std::chrono::milliseconds kEventPeriod{50};
constexpr const char* kCheckpointFile = "checkpoint.safetensors";
constexpr std::int64_t kInterpreted = 500'000'000;  // operations that the interpreter does in some seconds
constexpr std::int64_t kResolution = 256;           // an event stands for at most this part of the steps so far

double secondsSince(Time start) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }

double medianOf(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

TensorId lossOf(const Program& program, const std::string& name) {
  for (const Output& o : program.outputs)
    if (o.role == OutputRole::Loss && (name.empty() || o.name == name)) return o.tensor;
  return program.tensorNamed(name);
}

}  // namespace

struct TrainJob::Impl {
  Impl(DeviceContext& c, TrainOptions o, Sink s) : context(c), options(std::move(o)), sink(std::move(s)) {}

  DeviceContext& context;
  TrainOptions options;
  Sink sink;

  struct Evaluation {
    Prepared prepared;
    std::int64_t rows = 0;
    std::vector<TensorStore::Entry*> inputs;  // as the feed has them
    bool ready = false;
  };
  struct PlannedEvaluations {
    std::vector<Evaluation> evaluations;  // without executables
    std::optional<Error> error;
    Span place;
  };

  // ---- shared with other threads
  std::mutex mutex;
  std::condition_variable_any changed;
  bool paused = false, running = false;
  std::optional<double> share;
  std::deque<std::function<void(Executable&)>> tasks;
  std::vector<protocol::TrialEvent> trialEvents;
  std::deque<RevertedFusion> revertedFusions;  // found, not yet in use
  std::optional<PlannedEvaluations> plannedEvaluations;
  std::atomic<bool> attention{false};    // something above wants the stepping thread
  std::atomic<bool> interrupted{false};  // the stop, for kernels that run long

  // ---- of the thread that runs
  CompiledNotebook notebook;
  TrainSettings settings;
  std::shared_ptr<TensorStore> store;
  std::unique_ptr<KernelSupply> supply;
  Prepared training;
  PrepareOptions prepareOptions;  // of training; `reverted` grows
  std::optional<Checkpoint> checkpoint;
  std::optional<std::vector<KernelSwap>> replay;
  std::unique_ptr<FusionTrials> fusionTrials;
  struct Replanned {
    RevertedFusion reverted;
    Prepared prepared;
    bool requested = false;
  };
  std::optional<Replanned> replanned;   // waits for its kernels
  std::vector<Evaluation> evaluations;  // of full batches, of the remainder
  bool evaluates = false, evaluationsTaken = false;
  std::optional<DataFeed> feed;
  std::vector<std::byte> staging;
  std::vector<TensorStore::Entry*> trainingInputs;
  std::unique_ptr<RunFolder> folder;
  std::map<std::string, std::string> givenBy;  // files, by the tensor whose first value they hold
  TensorId loss;
  Span place;  // of the failure
  std::uint64_t seed = 1;
  std::int64_t firstStep = 0, step = 0, stepLimit = 0;
  Time begun;
  std::vector<float> stepMilliseconds;
  protocol::DoneEvent done;
  protocol::StepEvent thinned;
  Time lastStepEvent{}, lastState{};
  protocol::RunPhase lastPhase = protocol::RunPhase::Idle;
  TimeLeft timeLeft;
  double pausedSeconds = 0;
  std::int64_t swapCount = 0;
  std::size_t swapsLogged = 0;    // of supply->swaps(), in the folder
  std::string checkpointTrouble;  // why the newest checkpoint is missing; empty: it was written
  std::optional<double> lastLoss;
  bool dynamic = false;
  double waited = 0;
  double lastStepSeconds = 0;  // without the wait for the lease
  bool leaseStuck = false;

  std::jthread fusionThread, evaluationThread;  // last: they use all of the above

  void emit(const protocol::Message& message, bool intoFolder = true) {
    if (folder && intoFolder) folder->addEvent(protocol::encode(message));
    if (sink) sink(message);
  }

  void emitState(protocol::RunPhase phase, const std::string& detail, bool atOnce = false) {
    const Time now = std::chrono::steady_clock::now();
    if (!atOnce && now - lastState < kEventPeriod) return;
    lastState = now;
    lastPhase = phase;
    protocol::RunState s;
    s.phase = phase;
    s.device = context.device().name();
    s.detail = detail;
    s.step = step;
    s.steps = stepLimit;
    const std::int64_t perEpoch = feed ? feed->stepsPerEpoch() : 1;
    s.epoch = step / perEpoch;
    s.epochs = stepLimit / perEpoch;
    s.seconds = begun == Time{} ? 0 : secondsSince(begun);
    s.loss = lastLoss;
    const std::size_t count = std::min<std::size_t>(stepMilliseconds.size(), 100);
    if (count > 0) {
      std::vector<float> last(stepMilliseconds.end() - static_cast<std::ptrdiff_t>(count), stepMilliseconds.end());
      std::sort(last.begin(), last.end());
      s.stepMs = last[count / 2];
      s.stepMsLow = last[count / 4];
      s.stepMsHigh = last[count * 3 / 4];
      s.samples = static_cast<std::int64_t>(count);
      timeLeft.add(s.seconds - pausedSeconds, step - firstStep);
      if (stepLimit > step && options.seconds == 0) s.secondsLeft = timeLeft.forSteps(stepLimit - step);
      if (options.seconds > 0) s.secondsLeft = std::max(0.0, options.seconds - s.seconds);
    }
    if (supply && supply->tuning()) {
      s.trials = supply->tuning()->trials();
      s.budgetShare = options.tuning.deviceShare;
      s.budgetSpentSeconds = supply->tuning()->deviceSecondsSpent();
    }
    s.swaps = swapCount;
    emit(s, false);
  }

  // What other threads have left: trials, tasks, a new share, a pause.
  void attend(std::stop_token stop) {
    if (!attention.exchange(false)) return;
    std::vector<protocol::TrialEvent> events;
    std::deque<std::function<void(Executable&)>> todo;
    {
      std::unique_lock lock(mutex);
      events.swap(trialEvents);
      todo.swap(tasks);
      if (share && supply && supply->tuning()) {
        supply->tuning()->setDeviceShare(*share);
        options.tuning.deviceShare = *share;
      }
      share.reset();
    }
    for (const auto& event : events) emit(event);
    if (training.executable)
      for (const auto& task : todo) task(*training.executable);
    bool wait;
    {
      const std::unique_lock lock(mutex);
      wait = paused;
    }
    if (!wait) return;
    if (supply && supply->tuning()) supply->tuning()->pause();
    emitState(protocol::RunPhase::Paused, {}, true);
    const Time pauseBegan = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    while (paused && !stop.stop_requested()) {
      changed.wait(lock, stop, [&] { return !paused || !tasks.empty(); });
      todo.swap(tasks);
      lock.unlock();
      if (training.executable)
        for (const auto& task : todo) task(*training.executable);
      todo.clear();
      lock.lock();
    }
    lock.unlock();
    if (begun != Time{}) pausedSeconds += secondsSince(pauseBegan);
    if (supply && supply->tuning()) supply->tuning()->resume();
  }

  // ---------------------------------------------------------------- preparation
  Result<Unit> compile() {
    CompileOptions compile;
    compile.sets = options.sets;
    compile.train = options.train;
    notebook = compileNotebook(options.source, compile);
    if (!notebook.ok()) return firstError(notebook.diagnostics, "check", place);
    if (options.train >= notebook.trains.size())
      return Error{"train",
                   notebook.trains.empty() ? "The notebook has no `train` statement." : "There is no such `train` statement.",
                   {},
                   {}};
    settings = notebook.trains[options.train];
    place = settings.span;
    seed = options.seed.value_or(settings.seed);
    const std::string mode = options.mode.empty() ? settings.mode : options.mode;
    if (mode != "static" && mode != "dynamic") return Error{"train", "The mode is static or dynamic, not " + mode + ".", {}, {}};
    dynamic = mode == "dynamic" && !context.inProcess() && options.replaySwaps.empty();
    return Unit{};
  }

  protocol::SearchState searchState() const {
    using protocol::SearchState;
    if (replay) return SearchState::Replayed;
    if (!dynamic || !supply->tuning()) return SearchState::Static;
    if (supply->tuning()->trials() > 0) return SearchState::Searched;
    const auto states = supply->tuning()->states();
    const bool all = std::all_of(states.begin(), states.end(), [](const auto& s) { return s.exhausted; });
    return all ? SearchState::Finished : SearchState::Unbegun;
  }

  // What fusion decides with: what the log or the checkpoint says where bits must agree, else what the machine has been measured to be.
  DeviceConstants fusedFor() const {
    const std::vector<KernelSwap>* log = replay ? &*replay : checkpoint && !dynamic ? &checkpoint->swaps : nullptr;
    if (log)
      for (const KernelSwap& s : *log)
        if (s.device) return *s.device;
    return deviceConstants(*context.target());
  }

  // What fusion goes without at first: what the log or the checkpoint says where bits must agree, else what is recorded.
  MeasuredKernels firstReverted() const {
    MeasuredKernels reverted;
    const std::vector<KernelSwap>* log = replay ? &*replay : checkpoint ? &checkpoint->swaps : nullptr;
    const std::int64_t from = checkpoint ? checkpoint->step : 0;
    if (log)
      for (const KernelSwap& s : *log)
        if (s.reverted && (!replay || s.step <= from)) reverted.emplace(s.subgraph, FusionMeasurement{});
    if (!replay && (dynamic || !checkpoint) && options.tuning.useRecords) reverted.merge(revertedKernels(context));
    return reverted;
  }

  Result<Unit> readEarlier() {
    if (!options.replaySwaps.empty()) {
      NF_TRY(const std::string text, readFile(options.replaySwaps));
      NF_TRY(replay, swapsFromJsonLines(text));
      if (replay->empty()) return Error{"replay", "The swap log " + options.replaySwaps + " is empty.", {}, {}};
    }
    if (!options.resume.empty()) {
      NF_TRY(options.resume, checkpointAt(options.resume));
      NF_TRY(checkpoint, readCheckpoint(options.resume));
    }
    return Unit{};
  }

  Result<Unit> prepareTraining(std::stop_token stop) {
    store = std::make_shared<TensorStore>(context.device());
    prepareOptions.verify = options.verify;
    prepareOptions.reverted = firstReverted();
    prepareOptions.device = fusedFor();
    prepareOptions.stop = stop;
    prepareOptions.failedAt = &place;
    NF_TRY(training, prepare(trainingProgram(notebook, options.train), context, store, prepareOptions));
    prepareOptions.failedAt = nullptr;
    prepareOptions.stop = {};  // what is fused later is quick, and its stop is waited for
    for (protocol::WarningEvent& e : warningEvents(training.warnings, notebook.sources)) emit(std::move(e));
    place = settings.span;
    loss = lossOf(training.executable->program(), settings.loss);
    if (!loss.valid()) return Error{"train", "There is no loss " + settings.loss + ".", {}, {}};
    return Unit{};
  }

  Result<Unit> makeSupply() {
    KernelSupplyOptions o;
    o.dynamic = dynamic;
    o.tuning = options.tuning;
    o.tuning.seed = seed;
    o.tuning.exclusive = context.lease() != nullptr;
    if (!o.tuning.exclusive) o.tuning.deviceCapacity = std::max(1u, std::thread::hardware_concurrency());
    o.tuning.onTrial = [this, outer = options.tuning.onTrial](const TrialEvent& event) {
      protocol::TrialEvent e = protocolEvent(event);
      {
        const std::lock_guard lock(mutex);
        trialEvents.push_back(std::move(e));
        attention = true;
      }
      if (outer) outer(event);
    };
    // Bit-identical resume: the kernels that ran last, whatever the records say by now.
    if (checkpoint && !dynamic)
      for (const KernelSwap& s : checkpoint->swaps)
        if (auto schedule = Schedule::parse(s.schedule); schedule && s.ofKernel())
          o.forced.insert_or_assign(s.subgraph, std::move(*schedule));
    o.replay = replay;
    supply = std::make_unique<KernelSupply>(context, std::move(o));
    if (!context.inProcess()) supply->logDevice(*prepareOptions.device, step);
    for (const auto& [kernel, measurement] : *prepareOptions.reverted) supply->logReverted(kernel, step);
    auto requested = supply->request(*training.executable);
    if (!requested) place = supply->failedAt();
    return requested;
  }

  Result<Unit> loadData(std::stop_token stop) {
    emitState(protocol::RunPhase::Preparing, "filling the tensors", true);
    NF_TRY(feed, DataFeed::open(training.executable->program(), options.source.directory, seed, &place, stop));
    NF_TRY([[maybe_unused]] const Unit trains, feed->trains(training.executable->program(), &place));
    std::size_t most = 0;
    trainingInputs = inputsOf(*training.executable);
    for (const DataFeed::Input& in : feed->inputs())
      most = std::max(most, static_cast<std::size_t>(feed->batch() * in.rowElements * bytesOf(in.type)));
    staging.resize(most);
    StrayLabels strays = feed->strayLabels();
    auto initial = initializeTensors(*training.executable, seed, options.source.directory, &place, &strays, stop);
    if (initial)
      for (protocol::WarningEvent& e : warningEvents(strays, training.executable->program(), notebook.sources)) emit(std::move(e));
    if (initial) place = settings.span;
    return initial;
  }

  Result<Unit> loadWeights(const NamedTensors& tensors, const std::string& from, bool all) {
    NF_TRY(const std::vector<std::string> written, writeWeights(*store, tensors, from));
    for (const std::string& name : written) givenBy[name] = from;
    if (!all) return Unit{};
    for (const auto& [name, entry] : store->entries()) {
      if (entry->kind != TensorKind::Param && entry->kind != TensorKind::State) continue;
      if (std::none_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == name; }))
        return Error{"resume", from + " has no tensor " + name + ".", {}, {}};
    }
    return Unit{};
  }

  std::string programHash() const { return structuralHash(*training.stages.source).hex(); }

  // On a thread of its own: steps go on while the evaluating programs are compiled, fused and planned.
  void planEvaluations() {
    evaluates = options.evaluate && feed->heldOutRows() > 0;
    if (!evaluates) return;
    PrepareOptions prepare{
        .updates = false, .verify = options.verify, .reverted = prepareOptions.reverted, .device = prepareOptions.device};
    evaluationThread = std::jthread([this, prepare = std::move(prepare), batch = feed->batch(), all = feed->heldOutRows()] {
      PlannedEvaluations plans;
      for (const std::int64_t rows : {batch, all % batch}) {
        if (rows == 0 || rows > all || plans.error) continue;
        CompileOptions compile;
        compile.sets = options.sets;
        compile.training = false;
        compile.batchOverride = rows;
        const CompiledNotebook compiled = compileNotebook(options.source, compile);
        if (!compiled.ok()) {
          plans.error = firstError(compiled.diagnostics, "check", plans.place);
          continue;
        }
        auto plan = planned(evaluationProgram(compiled, settings.loss), context, prepare);
        if (!plan) plans.error = plan.error();
        else plans.evaluations.push_back({std::move(*plan), rows, {}, false});
      }
      {
        const std::lock_guard lock(mutex);
        plannedEvaluations = std::move(plans);
      }
      changed.notify_all();
    });
  }

  // Asks for the kernels of what has been planned. False: it is not there yet, or a stop was requested while it was waited for.
  Result<bool> takeEvaluations(std::stop_token stop, bool wait) {
    if (!evaluates || evaluationsTaken) return true;
    std::optional<PlannedEvaluations> plans;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        if (wait) changed.wait_for(lock, stop, kEventPeriod, [&] { return plannedEvaluations.has_value(); });
        plans.swap(plannedEvaluations);
      }
      if (plans) break;
      if (!wait || stop.stop_requested()) return false;
      attend(stop);
    }
    evaluationsTaken = true;
    if (plans->error) {
      if (plans->place.valid()) place = plans->place;
      return *plans->error;
    }
    for (Evaluation& e : plans->evaluations) {
      NF_TRY([[maybe_unused]] const Unit made, layOut(e.prepared, context, store));
      NF_TRY([[maybe_unused]] const Unit initial,
             initializeTensors(*e.prepared.executable, seed, options.source.directory, nullptr, nullptr, stop));
      const double runs = static_cast<double>(feed->heldOutRows() / e.rows) / static_cast<double>(feed->stepsPerEpoch());
      NF_TRY([[maybe_unused]] const Unit requested,
             supply->request(*e.prepared.executable,
                             e.rows == feed->batch() ? runs : runs / static_cast<double>(feed->heldOutRows() / e.rows), true));
      e.inputs = inputsOf(*e.prepared.executable);
      evaluations.push_back(std::move(e));
    }
    return true;
  }

  // ---------------------------------------------------------------- steps
  // In dynamic mode steps do not wait for the kernels of the first evaluation, which is made as soon as they are there.
  Result<bool> mayEvaluate(std::stop_token stop) {
    if (!dynamic) return true;
    NF_TRY(bool all, takeEvaluations(stop, false));
    for (Evaluation& e : evaluations) {
      if (!e.ready) { NF_TRY(e.ready, supply->collect(*e.prepared.executable)); }
      all = all && e.ready;
    }
    return all;
  }

  Result<Unit> evaluate(std::stop_token stop) {
    NF_TRY(const bool taken, takeEvaluations(stop, true));
    if (!taken || evaluations.empty()) return Unit{};
    std::map<std::string, double> sums;
    std::optional<double> lossSum;
    std::int64_t row = 0;
    for (Evaluation& e : evaluations) {
      if (!e.ready) {
        NF_TRY(const bool complete, supply->await(*e.prepared.executable, stop, [&](std::size_t have, std::size_t all) {
          attend(stop);
          emitState(protocol::RunPhase::Training,
                    "compiling " + std::to_string(have) + " of " + std::to_string(all) + " kernels of the evaluation");
        }));
        if (!complete) return Unit{};
        e.ready = true;
      }
      Executable& x = *e.prepared.executable;
      NF_TRY([[maybe_unused]] const Unit better, supply->takeBetter(x));
      x.bind();
      while (row + e.rows <= feed->heldOutRows() && (e.rows == feed->batch() || row + e.rows == feed->heldOutRows())) {
        for (std::size_t i = 0; i < feed->inputs().size(); ++i) {
          TensorStore::Entry* entry = e.inputs[i];
          if (!entry) continue;
          staging.resize(std::max(
              staging.size(), static_cast<std::size_t>(e.rows * feed->inputs()[i].rowElements * bytesOf(feed->inputs()[i].type))));
          feed->heldOut(row, e.rows, i, staging.data());
          NF_TRY([[maybe_unused]] const Unit written, x.store().writeBytes(*entry, staging.data()));
        }
        if (auto ran = x.run(seed, static_cast<std::uint64_t>(step), &interrupted); !ran) {
          if (isStopped(ran.error())) return Unit{};
          return ran;
        }
        for (const Output& o : x.program().outputs) {
          if (x.program()[o.tensor].elements() != 1) continue;
          NF_TRY(const double value, x.scalar(o.tensor));
          if (o.role == OutputRole::Loss) lossSum = lossSum.value_or(0) + value * static_cast<double>(e.rows);
          else sums[o.name] += value * static_cast<double>(e.rows);
        }
        row += e.rows;
      }
    }
    protocol::EvalEvent event;
    event.step = step;
    const auto rows = static_cast<double>(feed->heldOutRows());
    for (auto& [name, sum] : sums) event.values[name] = sum / rows;
    if (lossSum) event.loss = *lossSum / rows;
    if (const auto accuracy = event.values.find("accuracy"); accuracy != event.values.end()) event.accuracy = accuracy->second;
    done.accuracy = event.accuracy;
    // The training executable's inputs have been overwritten where shapes agree: the next step writes them anew.
    emit(event);
    return Unit{};
  }

  // ---------------------------------------------------------------- fusion undone by measurement
  // Between two steps; training goes on with what it has until the other partition's kernels are all there.
  Result<Unit> replan() {
    if (replay) return replanAsLogged();
    if (!replanned) {
      const std::lock_guard lock(mutex);
      if (revertedFusions.empty()) return Unit{};
      replanned = Replanned{std::move(revertedFusions.front()), {}, false};
      revertedFusions.pop_front();
    }
    if (!replanned->requested) {
      replanned->requested = true;
      NF_TRY(replanned->prepared, prepare(replanned->reverted.stages, context, store, prepareOptions));
      NF_TRY([[maybe_unused]] const Unit asked, supply->request(*replanned->prepared.executable));
    }
    const auto complete = supply->collect(*replanned->prepared.executable);
    if (!complete) {
      // One of the parts has no kernel after all: what runs goes on.
      supply->drop(*replanned->prepared.executable);
      replanned.reset();
      return Unit{};
    }
    if (!*complete) return Unit{};
    const RevertedFusion& r = replanned->reverted;
    prepareOptions.reverted->insert_or_assign(r.kernel.signature, r.measurement);
    supply->logReverted(r.kernel.signature, step);
    NF_TRY([[maybe_unused]] const Unit used, trainWith(std::move(replanned->prepared)));
    protocol::FusionRevertedEvent e = revertedEvent(r);
    e.step = step;
    e.seconds = secondsSince(begun);
    emit(e);
    replanned.reset();
    return Unit{};
  }

  Result<Unit> replanAsLogged() {
    std::size_t added = 0;
    for (const Hash& kernel : supply->revertedUpTo(step))
      if (prepareOptions.reverted->emplace(kernel, FusionMeasurement{}).second) {
        supply->logReverted(kernel, step);
        ++added;
      }
    if (added == 0) return Unit{};
    NF_TRY(Stages stages, fusedAgain(training.stages, stageOptions(context, prepareOptions)));
    NF_TRY(Prepared next, prepare(std::move(stages), context, store, prepareOptions));
    NF_TRY([[maybe_unused]] const Unit asked, supply->request(*next.executable));
    NF_TRY([[maybe_unused]] const bool complete, supply->collect(*next.executable));
    return trainWith(std::move(next));
  }

  Result<Unit> trainWith(Prepared next) {
    NF_TRY([[maybe_unused]] const Unit initial, initializeTensors(*next.executable, seed, options.source.directory));
    supply->replace(*training.executable, *next.executable);
    training = std::move(next);
    training.executable->bind();
    loss = lossOf(training.executable->program(), settings.loss);
    trainingInputs = inputsOf(*training.executable);
    return Unit{};
  }

  std::vector<TensorStore::Entry*> inputsOf(const Executable& executable) const {
    std::vector<TensorStore::Entry*> entries;
    for (const DataFeed::Input& in : feed->inputs()) {
      const TensorId t = executable.program().tensorNamed(in.name);
      entries.push_back(t.valid() ? executable.entry(t) : nullptr);
    }
    return entries;
  }

  void startFusionTrials() {
    if (!dynamic || !supply->tuning() || !context.evaluator()) return;
    FusionTrials::Options o;
    o.stages = stageOptions(context, prepareOptions);
    o.exclusive = context.lease() != nullptr;
    o.useRecords = options.tuning.useRecords;
    TuningService& tuning = *supply->tuning();
    o.schedule = [&tuning](const Hash& hash) { return tuning.bestSchedule(hash); };
    o.before = [&tuning](std::stop_token stop) { return tuning.awaitBudget(stop); };
    o.after = [&tuning](double seconds) { tuning.charge(seconds); };
    fusionTrials = std::make_unique<FusionTrials>(context, training.stages, std::move(o));
    fusionThread = std::jthread([this](std::stop_token stop) {
      for (;;) {
        auto found = fusionTrials->next(stop);
        if (!found || !*found) return;
        const std::lock_guard lock(mutex);
        revertedFusions.push_back(std::move(**found));
      }
    });
  }

  Result<Unit> feedBatch() {
    for (std::size_t i = 0; i < trainingInputs.size(); ++i) {
      if (!trainingInputs[i]) continue;
      feed->training(step, i, staging.data());
      NF_TRY([[maybe_unused]] const Unit written, store->writeBytes(*trainingInputs[i], staging.data()));
    }
    return Unit{};
  }

  // A holder that neither runs nor dies (a stopped worker, until its parent's deadline) keeps steps waiting once, not each time: until
  // the lease is free again they go on without it.
  DeviceLease::Hold takeLease() {
    constexpr std::chrono::nanoseconds kLeast = std::chrono::milliseconds(250);
    constexpr double kSteps = 4;  // a candidate's run that takes longer is slower than all it could stand for
    const auto steps = std::chrono::nanoseconds(static_cast<std::int64_t>(kSteps * lastStepSeconds * 1e9));
    auto hold = context.lease()->acquireWithin(leaseStuck ? std::chrono::nanoseconds(0) : std::max(kLeast, steps));
    leaseStuck = !hold;
    return hold ? std::move(*hold) : DeviceLease::Hold();
  }

  Result<Unit> oneStep() {
    NF_TRY([[maybe_unused]] const Unit planned, replan());
    Executable& x = *training.executable;
    NF_TRY(const auto swaps, supply->beforeStep(x, step));
    for (const KernelSupply::Swap& s : swaps) {
      protocol::KernelSwapEvent e;
      e.subgraph = s.subgraph.hex();
      e.name = s.name;
      e.before_us = s.beforeMicroseconds;
      e.after_us = s.afterMicroseconds;
      e.generation = static_cast<std::int64_t>(s.generation);
      e.schedule.text = s.schedule;
      e.step = step;
      e.seconds = secondsSince(begun);
      ++swapCount;
      emit(e);
    }
    const Time start = std::chrono::steady_clock::now();
    waited = 0;
    double value = 0;
    {
      DeviceLease::Hold hold;
      if (dynamic && context.lease()) {
        hold = takeLease();
        waited = secondsSince(start) * 1e3;
      }
      NF_TRY([[maybe_unused]] const Unit fed, feedBatch());
      auto ran = x.run(seed, static_cast<std::uint64_t>(step), &interrupted);
      if (!ran) {
        if (isStopped(ran.error())) {
          supply->abandonStep(step);
          return ran;
        }
        NF_TRY(const bool again, supply->recover(x, ran.error()));
        if (again) ran = x.run(seed, static_cast<std::uint64_t>(step), &interrupted);
        if (!ran) {
          place = x.failedAt();
          return ran;
        }
      }
      NF_TRY(value, x.scalar(loss));
      if (std::isnan(value)) return nanFound(x);
      NF_TRY([[maybe_unused]] const Unit applied, x.applyUpdates());
    }
    const double seconds = secondsSince(start);
    lastStepSeconds = seconds - waited / 1e3;
    supply->afterStep(x, seconds);
    record(seconds * 1e3, value);
    return Unit{};
  }

  // Where the steps are counted in epochs: what they are.
  std::string epochsText() const {
    const std::int64_t epochs = options.steps > 0    ? 0
                                : options.epochs > 0 ? options.epochs
                                : settings.steps > 0 ? 0
                                                     : settings.epochs;
    if (epochs == 0) return {};
    return " (" + std::to_string(epochs) + (epochs == 1 ? " epoch of " : " epochs of ") + std::to_string(feed->stepsPerEpoch()) +
           " steps)";
  }

  // The first input whose batch of this step holds one; empty: none.
  std::string infiniteInput(std::int64_t at) {
    for (std::size_t i = 0; i < feed->inputs().size(); ++i) {
      const DataFeed::Input& in = feed->inputs()[i];
      feed->training(at, i, staging.data());
      for (std::int64_t e = 0, n = feed->batch() * in.rowElements; e < n; ++e)
        if (std::isinf(loadValue(in.type, staging.data(), e))) return in.name;
    }
    return {};
  }

  // What fused kernels don't write has no value to look at, and theirs come in another order: where it takes seconds at most, the step
  // is interpreted one operator at a time. Empty: it is not, or nothing was met.
  Result<std::string> firstNaNByOperator() {
    Stages single = training.stages;
    if (context.inProcess() || !single.partitioned || workOf(*single.partitioned) > kInterpreted) return std::string();
    single.fused = single.partitioned;
    NF_TRY(Prepared each, prepare(std::move(single), context, store, prepareOptions));
    NF_TRY(const bool interpreted, supply->interpret(*each.executable));
    std::string first;
    if (interpreted) {
      each.executable->bind();
      NF_TRY(first, each.executable->firstNaN(seed, static_cast<std::uint64_t>(step)));
    }
    return first;
  }

  Error nanFound(Executable& x) {
    auto first = firstNaNByOperator();
    if (!first || first->empty()) first = x.firstNaN(seed, static_cast<std::uint64_t>(step));
    std::string message = "The loss " + settings.loss + " is not a number in step " + std::to_string(step + 1);
    if (first && !first->empty()) {
      const Program& p = x.program();
      TensorId t = p.tensorNamed(*first);
      // A value kept from the step before became none in its update.
      const auto update = std::find_if(p.updates.begin(), p.updates.end(), [&](const Update& u) { return u.target == t; });
      const bool kept = t.valid() && update != p.updates.end(), before = kept && step > firstStep;
      if (before) t = update->value;
      const auto made = producers(p);
      if (t.valid()) {
        const OriginId origin = made[t.value].valid() ? p[made[t.value]].origin : p[t].origin;
        if (origin.valid()) place = p[origin].span;
      }
      message += "; the first one came from " + (t.valid() ? p[t].name : *first);
      if (kept && !before) {
        const auto file = givenBy.find(*first);
        message += ", whose first value has one";
        if (file != givenBy.end()) message += ", given by " + file->second;
      }
      if (before) message += ", the new " + *first + " of step " + std::to_string(step);
      if (before && lastLoss && std::isinf(*lastLoss))
        message += std::string(", whose loss was ") + (*lastLoss < 0 ? "-inf" : "inf");
    }
    for (const std::int64_t at : {step - 1, step})
      if (const std::string input = at < firstStep ? std::string() : infiniteInput(at); !input.empty()) {
        const TensorId t = x.program().tensorNamed(input);
        if (t.valid() && x.program()[t].origin.valid()) place = x.program()[x.program()[t].origin].span;
        message += "; " + input + " has an infinite value in step " + std::to_string(at + 1);
        break;
      }
    return {"train", message + ".", context.device().name(), {}};
  }

  void record(double milliseconds, double value) {
    const Time now = std::chrono::steady_clock::now();
    ++step;
    lastLoss = value;
    stepMilliseconds.push_back(static_cast<float>(milliseconds));
    if (folder) folder->addStep({step, secondsSince(begun), milliseconds, waited, value});
    if (stepMilliseconds.size() == 1) {
      protocol::FirstStepEvent first;
      first.ms = done.first_step_ms = secondsSince(options.processStart) * 1e3;
      emit(first);
    }
    if (thinned.steps == 0) thinned.ms_min = thinned.ms_max = milliseconds;
    thinned.ms_min = std::min(thinned.ms_min, milliseconds);
    thinned.ms_max = std::max(thinned.ms_max, milliseconds);
    thinned.loss_min = std::min(thinned.loss_min.value_or(value), value);
    thinned.loss_max = std::max(thinned.loss_max.value_or(value), value);
    ++thinned.steps;
    thinned.step = step;
    thinned.loss = value;
    if (now - lastStepEvent >= kEventPeriod || thinned.steps * kResolution >= step - firstStep) flushStepEvent(now);
    // However short the training is.
    if (lastPhase != protocol::RunPhase::Training || now - lastState >= kEventPeriod)
      emitState(protocol::RunPhase::Training, activity(), true);
  }

  std::string activity() const {
    const std::string kernels = supply->activity();
    return checkpointTrouble + (checkpointTrouble.empty() || kernels.empty() ? "" : "; ") + kernels;
  }

  void flushStepEvent(Time now) {
    if (thinned.steps == 0) return;
    // Not the newest step's: an event is due the sooner the longer its last step took.
    thinned.ms = medianOf({stepMilliseconds.end() - static_cast<std::ptrdiff_t>(thinned.steps), stepMilliseconds.end()});
    thinned.seconds = secondsSince(begun);
    emit(thinned);
    thinned = {};
    thinned.steps = 0;
    lastStepEvent = now;
  }

  // A killed run is replayed by what stands there: written when a step has been made, so that none holds what was abandoned.
  void logSwaps() {
    const std::vector<KernelSwap>& all = supply->swaps();
    if (folder && all.size() > swapsLogged) folder->addSwaps(toJsonLines(std::span(all).subspan(swapsLogged)));
    swapsLogged = all.size();
  }

  // Before one was written: what a slow disk would take.
  double estimatedCheckpointSeconds() const {
    constexpr double kSlowBytesPerSecond = 100e6;
    double bytes = 0;
    for (const auto& [name, entry] : store->entries())
      if (entry->kind == TensorKind::Param || entry->kind == TensorKind::State) bytes += static_cast<double>(entry->bytes);
    return bytes / kSlowBytesPerSecond;
  }

  // Outer: what the device says; inner: whether the file could be written.
  Result<Result<Unit>> saveCheckpoint() {
    Checkpoint c;
    c.step = step;
    c.seed = seed;
    c.program = programHash();
    for (const auto& [name, entry] : store->entries()) {
      if (entry->kind != TensorKind::Param && entry->kind != TensorKind::State) continue;
      NF_TRY(HostTensor value, store->read(*entry));
      c.tensors.emplace_back(name, std::move(value));
      const Program& source = *training.stages.source;
      if (const TensorId t = source.tensorNamed(name); t.valid()) c.declared.emplace(name, declarationOf(source[t]));
    }
    c.swaps = supply->swaps();
    folder->flush();
    return writeCheckpoint(folder->file(kCheckpointFile), c);
  }

  // On the way: a full disk costs the checkpoint, not the training.
  Result<Unit> tryCheckpoint() {
    if (!folder) return Unit{};
    NF_TRY(const Result<Unit> written, saveCheckpoint());
    if (written) {
      checkpointTrouble.clear();
      return Unit{};
    }
    ++done.checkpoints_failed;
    const bool said = !checkpointTrouble.empty();
    checkpointTrouble = "the checkpoint of step " + std::to_string(step) + " could not be written";
    if (said) return Unit{};
    protocol::CheckpointFailedEvent e;
    e.message = "The checkpoint of step " + std::to_string(step) + " was not written: " + written.error().message +
                ". Training goes on and tries again.";
    e.step = step;
    e.seconds = secondsSince(begun);
    emit(e);
    emitState(protocol::RunPhase::Training, activity(), true);
    return Unit{};
  }

  // Of the cell that trains: a notebook in which it is another one has moved on since.
  std::string meaning() const {
    const std::vector<Hash> cells = cellMeanings(notebook);
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (settings.span.begin >= notebook.cells[i].span.begin && settings.span.begin < notebook.cells[i].span.end)
        return cells[i].hex();
    return {};
  }

  Result<Unit> writeRunFile() {
    struct utsname machine {};
    ::uname(&machine);
    nlohmann::json run{{"notebook", options.source.name},
                       {"train", settings.loss},
                       {"settings",
                        {{"optimizer", settings.optimizer},
                         {"mode", dynamic ? "dynamic" : "static"},
                         {"batch", settings.batch},
                         {"steps", stepLimit},
                         {"seconds", options.seconds},
                         {"sets", options.sets},
                         {"resume", options.resume},
                         {"replay", options.replaySwaps},
                         {"device_share", options.tuning.deviceShare}}},
                       {"seed", seed},
                       {"program", programHash()},
                       {"meaning", meaning()},
                       {"machine",
                        {{"device", context.device().name()},
                         {"description", context.device().description()},
                         {"threads", context.target()->threads},
                         {"system", std::string(machine.sysname) + " " + machine.release},
                         {"fingerprint", context.target()->fingerprint}}},
                       {"versions", {{"neoflow", options.version}}},
                       {"launches_per_step", training.plan->launchesPerStep},
                       {"steps_per_epoch", feed->stepsPerEpoch()},
                       {"unique_kernels", training.plan->subgraphs.size()},
                       {"arena_bytes", training.plan->main.arenaBytes}};
    if (checkpoint) run["settings"]["resumed_at"] = firstStep;
    return writeFileAtomically(folder->file("run.json"), run.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  Result<TrainSummary> train(std::stop_token stop) {
    const std::stop_callback onStop(stop, [this] { interrupted = true; });
    emitState(protocol::RunPhase::Preparing, "compiling", true);
    NF_TRY([[maybe_unused]] const Unit compiled, compile());
    NF_TRY([[maybe_unused]] const Unit read, readEarlier());
    NF_TRY([[maybe_unused]] const Unit prepared, prepareTraining(stop));
    if (checkpoint) {
      if (checkpoint->program != programHash()) return Error{"resume", options.resume + " belongs to another program.", {}, {}};
      if (!options.seed) seed = checkpoint->seed;
      firstStep = step = checkpoint->step;
    }
    NF_TRY([[maybe_unused]] const Unit supplied, makeSupply());
    NF_TRY([[maybe_unused]] const Unit loaded, loadData(stop));
    if (!options.initialWeights.empty()) {
      NF_TRY(const NamedTensors weights, readWeights(options.initialWeights));
      NF_TRY([[maybe_unused]] const Unit given, loadWeights(weights, options.initialWeights, false));
    }
    if (checkpoint) { NF_TRY([[maybe_unused]] const Unit restored, loadWeights(checkpoint->tensors, options.resume, true)); }
    stepLimit = options.steps > 0     ? options.steps
                : options.epochs > 0  ? options.epochs * feed->stepsPerEpoch()
                : options.seconds > 0 ? 0
                : settings.steps > 0  ? settings.steps
                                      : settings.epochs * feed->stepsPerEpoch();
    if (stepLimit == 0 && options.seconds <= 0)
      return Error{"train", "Nothing says how long to train: give epochs, steps or seconds.", {}, {}};
    if (checkpoint && stepLimit > 0 && step >= stepLimit)
      return Error{"train",
                   options.resume + " has " + std::to_string(step) + " steps behind it, and training ends with step " +
                       std::to_string(stepLimit) + epochsText() + ": give more.",
                   {},
                   {}};
    if (!options.outputRoot.empty()) {
      NF_TRY(folder, RunFolder::create(options.outputRoot));
      NF_TRY([[maybe_unused]] const Unit described, writeRunFile());
    }
    stepMilliseconds.reserve(static_cast<std::size_t>(std::clamp<std::int64_t>(stepLimit - step, 1024, 1 << 22)));
    const auto complete = supply->await(*training.executable, stop, [&](std::size_t have, std::size_t all) {
      attend(stop);
      const std::string trouble = supply->trouble();
      emitState(protocol::RunPhase::Preparing, "compiling " + std::to_string(have) + " of " + std::to_string(all) + " kernels" +
                                                   (trouble.empty() ? "" : "; " + trouble));
    });
    if (!complete) {
      if (supply->failedAt().valid()) place = supply->failedAt();
      return complete.error();
    }
    begun = std::chrono::steady_clock::now();
    done.preparation_ms = secondsSince(options.processStart) * 1e3;
    thinned.steps = 0;
    if (*complete) {
      // A step that is stopped in its middle has changed no weight.
      if (auto stepped = steps(stop); !stepped && !isStopped(stepped.error())) return stepped.error();
    }
    flushStepEvent(std::chrono::steady_clock::now());
    return finish(stop);
  }

  Result<Unit> steps(std::stop_token stop) {
    const std::int64_t perEpoch = feed->stepsPerEpoch();
    Time lastCheckpoint = begun;
    double checkpointTook = estimatedCheckpointSeconds();
    bool searches = false, evaluationDue = false;
    while (!stop.stop_requested() && (stepLimit == 0 || step < stepLimit) &&
           (options.seconds <= 0 || secondsSince(begun) < options.seconds)) {
      if (attention.load(std::memory_order_relaxed)) {
        attend(stop);
        if (stop.stop_requested()) break;
      }
      auto stepped = oneStep();
      logSwaps();
      if (!stepped) return stepped;
      // After the first step: nothing stands in its way.
      if (step == firstStep + 1) planEvaluations();
      if (!searches) {
        // Behind the kernels of the evaluations.
        NF_TRY(searches, takeEvaluations(stop, false));
        if (searches) {
          supply->start();
          startFusionTrials();
        }
      }
      const bool last = stepLimit > 0 && step >= stepLimit;
      const bool epochEnds = step % perEpoch == 0 && evaluates;
      if ((epochEnds || evaluationDue) && !last) {
        // One that is an epoch late is waited for.
        bool ready = epochEnds && evaluationDue;
        if (!ready) { NF_TRY(ready, mayEvaluate(stop)); }
        if (ready) { NF_TRY([[maybe_unused]] const Unit evaluated, evaluate(stop)); }
        evaluationDue = !ready;
      }
      const double trained = std::chrono::duration<double>(lastCheckpoint - begun).count();
      if (options.checkpointSeconds > 0 &&
          secondsSince(lastCheckpoint) > checkpointDistance(trained, checkpointTook, options.checkpointSeconds)) {
        const Time start = std::chrono::steady_clock::now();
        NF_TRY([[maybe_unused]] const Unit tried, tryCheckpoint());
        checkpointTook = secondsSince(start);
        lastCheckpoint = std::chrono::steady_clock::now();
      }
    }
    return Unit{};
  }

  Result<TrainSummary> finish(std::stop_token stop) {
    TrainSummary summary;
    if (supply->tuning()) supply->tuning()->pause();
    fusionThread = {};  // asked to stop, and waited for
    if (!stop.stop_requested() && step > firstStep) { NF_TRY([[maybe_unused]] const Unit evaluated, evaluate(stop)); }
    // Without a step there is nothing to save, and a large one would keep whoever stopped it waiting.
    if (folder && step > 0) {
      NF_TRY(const Result<Unit> written, saveCheckpoint());
      if (written) summary.checkpoint = folder->file(kCheckpointFile);
      else
        summary.unsaved =
            Error{"save", "The training has ended, but its checkpoint was not written: " + written.error().message + ".", {}, {}};
    }
    attention = true;
    attend(stop.stop_requested() ? stop : std::stop_token{});
    done.steps = step;
    done.loss = lastLoss;
    const std::size_t tenth = std::max<std::size_t>(1, stepMilliseconds.size() / 10);
    if (!stepMilliseconds.empty()) {
      done.median_step_ms = medianOf(stepMilliseconds);
      done.median_step_ms_first_tenth =
          medianOf({stepMilliseconds.begin(), stepMilliseconds.begin() + static_cast<std::ptrdiff_t>(tenth)});
      std::vector<float> last(stepMilliseconds.end() - static_cast<std::ptrdiff_t>(tenth), stepMilliseconds.end());
      std::sort(last.begin(), last.end());
      done.median_step_ms_last_tenth = last[tenth / 2];
      done.last_tenth_low_ms = last[tenth / 4];
      done.last_tenth_high_ms = last[tenth * 3 / 4];
      done.last_tenth_steps = static_cast<std::int64_t>(tenth);
    }
    done.seconds = secondsSince(begun);
    done.peak_bytes = training.executable->peakBytes();
    for (const Evaluation& e : evaluations) done.peak_bytes += e.prepared.executable->peakBytes() - store->bytes();
    done.stopped = stop.stop_requested();
    done.search = searchState();
    emit(done);
    summary.done = done;
    summary.swaps = supply->swaps();
    if (folder) {
      folder->flush();
      if (const std::string failure = folder->failure(); !failure.empty()) {
        if (summary.unsaved) summary.unsaved->message += " " + failure;
        else summary.unsaved = Error{"save", failure, {}, {}};
      }
      summary.folder = folder->path();
    }
    return summary;
  }
};

TrainJob::TrainJob(DeviceContext& context, TrainOptions options, Sink sink)
    : m_impl(std::make_unique<Impl>(context, std::move(options), std::move(sink))) {}
TrainJob::~TrainJob() = default;

Result<TrainSummary> TrainJob::run(std::stop_token stop) {
  Impl& job = *m_impl;
  {
    const std::lock_guard lock(job.mutex);
    job.running = true;
  }
  auto result = job.train(stop);
  std::deque<std::function<void(Executable&)>> late;
  {
    const std::lock_guard lock(job.mutex);
    job.running = false;
    late.swap(job.tasks);
  }
  if (job.training.executable)
    for (const auto& task : late) task(*job.training.executable);
  if (!result) {
    if (!isStopped(result.error())) job.emit(errorEvent(result.error(), job.notebook.sources, job.place));
  } else if (result->unsaved) {
    job.emit(errorEvent(*result->unsaved, job.notebook.sources, {}));
  }
  job.emitState(protocol::RunPhase::Idle, {}, true);
  if (job.folder) job.folder->flush();
  return result;
}

void TrainJob::pause() {
  const std::lock_guard lock(m_impl->mutex);
  m_impl->paused = true;
  m_impl->attention = true;
}

void TrainJob::resume() {
  {
    const std::lock_guard lock(m_impl->mutex);
    m_impl->paused = false;
  }
  m_impl->changed.notify_all();
}

void TrainJob::setDeviceShare(double share) {
  const std::lock_guard lock(m_impl->mutex);
  m_impl->share = share;
  m_impl->attention = true;
}

protocol::TrialStatus protocolStatus(TrialStatus status) {
  switch (status) {
    case TrialStatus::Ok: return protocol::TrialStatus::Ok;
    case TrialStatus::Wrong: return protocol::TrialStatus::Wrong;
    case TrialStatus::Killed: return protocol::TrialStatus::Killed;
    case TrialStatus::Crashed: return protocol::TrialStatus::Crashed;
    case TrialStatus::Slow: return protocol::TrialStatus::Slow;
  }
  return protocol::TrialStatus::Failed;
}

protocol::TrialEvent protocolEvent(const TrialEvent& event) {
  protocol::TrialEvent e;
  e.subgraph = event.subgraph.hex();
  e.name = event.name;
  e.schedule.text = event.schedule.text();
  e.us = event.microseconds;
  if (event.microseconds) {
    e.low_us = *event.microseconds - event.spreadMicroseconds;
    e.high_us = *event.microseconds + event.spreadMicroseconds;
  }
  e.status = protocolStatus(event.status);
  e.counted = event.counted;
  e.seconds = event.seconds;
  e.generation = event.lineage.round;
  if (event.lineage.predictedSeconds > 0) e.predicted_us = event.lineage.predictedSeconds * 1e6;
  for (const std::string& parent : event.lineage.parents) e.parents.push_back({parent});
  e.how = event.reason.empty() ? event.lineage.how : event.reason;
  return e;
}

bool TrainJob::betweenSteps(std::function<void(Executable&)> task) {
  {
    const std::lock_guard lock(m_impl->mutex);
    if (!m_impl->running) return false;
    m_impl->tasks.push_back(std::move(task));
    m_impl->attention = true;
  }
  m_impl->changed.notify_all();
  return true;
}

std::map<std::string, HostTensor> TrainJob::weights(std::int64_t mostBytes) const {
  std::map<std::string, HostTensor> out;
  if (!m_impl->training.executable) return out;
  const Executable& x = *m_impl->training.executable;
  const Program& p = x.program();
  std::int64_t bytes = 0;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].kind != TensorKind::Param && p.tensors[t].kind != TensorKind::State) continue;
    bytes += p.tensors[t].bytes();
    if (bytes > mostBytes) return {};
    if (auto value = x.read(TensorId(t))) out.emplace(p.tensors[t].name, std::move(*value));
  }
  return out;
}

}  // namespace nf
