// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train.h"

#include <algorithm>

#include "core/runtime/step_program.h"
#include "core/runtime/train_job.h"
#include "core/runtime/weights_match.h"

namespace nf {

Result<TrainSummary> TrainJob::Impl::train(std::stop_token stop) {
  const std::stop_callback onStop(stop, [this] { interrupted = true; });
  emitState(protocol::RunPhase::Preparing, "compiling", true);
  NF_TRY([[maybe_unused]] const Unit compiled, compile());
  NF_TRY([[maybe_unused]] const Unit read, readEarlier());
  NF_TRY([[maybe_unused]] const Unit prepared, prepareTraining(stop));
  if (checkpoint) {
    if (checkpoint->program != programHash())
      return Error{"resume",
                   options.resume + " belongs to another program: " + checkpointDifference(*store, *checkpoint, settings.optimizer),
                   {},
                   {}};
    if (options.seed && *options.seed != checkpoint->seed)
      return Error{"resume",
                   options.resume + " was trained with the seed " + std::to_string(checkpoint->seed) + ", not " +
                       std::to_string(*options.seed) +
                       ": a resumed run is the run that was begun. Leave the seed out, or begin another run with its values: "
                       "`neoflow train --weights`.",
                   {},
                   {}};
    renameTensors(checkpoint->tensors, renamedParameters(checkpoint->places, places));
    seed = checkpoint->seed;
    firstStep = step = checkpoint->step;
    if (!options.onlyEvaluate) tellWhatResumesDifferently();
    emitState(protocol::RunPhase::Preparing, "compiling", true);
  }
  if (options.evaluate) {
    CompileOptions compiled;
    compiled.sets = options.sets;
    compiled.train = options.train;
    for (const Diagnostics& warnings :
         {evalsWithoutRows(notebook), evalsOfSteps(notebook, compiled), valuesOfBatches(notebook, compiled)})
      for (protocol::WarningEvent& e : warningEvents(warnings, notebook.sources)) emit(std::move(e));
  }
  NF_TRY([[maybe_unused]] const Unit supplied, makeSupply());
  NF_TRY([[maybe_unused]] const Unit loaded, loadData(stop));
  NF_TRY([[maybe_unused]] const Unit first, loadFirstValues(checkpoint));
  NF_TRY(infiniteAtFirst, training.executable->infiniteParameters());
  if (options.onlyEvaluate) {
    planEvaluations();
    if (!evaluates)
      return Error{"data", "There is nothing to evaluate: the notebook has no `eval`, and no data set holds rows out.", {}, {}};
    begun = std::chrono::steady_clock::now();
    return finish(stop);
  }
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
  tellKernels();
  stepTimes.expect(std::max<std::int64_t>(stepLimit - step, 1024));
  NF_TRY(bool complete, awaitKernels(stop));
  begun = std::chrono::steady_clock::now();
  done.preparation_ms = secondsSince(options.processStart) * 1e3;
  thinned.steps = 0;
  for (;;) {
    auto stepped = complete ? steps(stop) : Result<Unit>(stopped());
    // A step that is stopped in its middle has changed no weight.
    const bool over = stepped || isStopped(stepped.error());
    flushStepEvent(std::chrono::steady_clock::now());
    tellEvaluation(true);
    flushWritten();
    flushRow();
    if (!over && !goesOnElsewhere(stop)) return stepped.error();
    if (over) {
      auto summary = finish(stop);
      if (summary || !goesOnElsewhere(stop)) return summary;
    }
    NF_TRY([[maybe_unused]] const Unit moved, goOnElsewhere(stop));
    NF_TRY(complete, awaitKernels(stop));
  }
}

Result<Unit> TrainJob::Impl::loadFirstValues(const std::optional<Checkpoint>& from) {
  if (!options.initialWeights.empty()) {
    NF_TRY(const NamedTensors weights, readWeights(options.initialWeights));
    NF_TRY([[maybe_unused]] const Unit given, loadWeights(weights, options.initialWeights, false));
    if (!from && begun == Time{}) {
      std::set<std::string> fed;
      for (const DataFeed::Input& in : feed->inputs()) fed.insert(in.name);
      for (const std::string& message : {unmatchedWeights(*store, notebook, weights, options.initialWeights),
                                         replacedInputs(*store, weights, fed, options.initialWeights)}) {
        protocol::WarningEvent warning;
        warning.message = message;
        if (!message.empty()) emit(warning);
      }
    }
  }
  return from ? loadWeights(from->tensors, options.resume, true) : Unit{};
}

Result<bool> TrainJob::Impl::awaitKernels(std::stop_token stop) {
  const auto complete = supply->await(*training.executable, stop, [&](std::size_t have, std::size_t all) {
    attend(stop);
    const std::string trouble = supply->trouble();
    emitState(protocol::RunPhase::Preparing, "compiling " + std::to_string(have) + " of " + std::to_string(all) + " kernels" +
                                                 (trouble.empty() ? "" : "; " + trouble));
  });
  if (!complete && supply->failedAt().valid()) place = supply->failedAt();
  return complete;
}

Result<Unit> TrainJob::Impl::steps(std::stop_token stop) {
  const std::int64_t perEpoch = feed->stepsPerEpoch();
  double savedAt = 0;
  std::int64_t checkpointed = firstStep;  // its step
  double checkpointTook = estimatedCheckpointSeconds();
  bool searches = false, evaluationDue = false;
  while (!stop.stop_requested() && (stepLimit == 0 || step < stepLimit) &&
         (options.seconds <= 0 || secondsSince(begun) < options.seconds)) {
    if (attention.load(std::memory_order_relaxed)) {
      // Nobody knows how long it stands still, and what its process comes to meanwhile.
      if (options.checkpointSeconds > 0 && step > checkpointed && isPaused()) {
        NF_TRY([[maybe_unused]] const Unit numbers, checkUpdates());
        NF_TRY([[maybe_unused]] const Unit tried, tryCheckpoint());
        checkpointed = step;
        savedAt = secondsSince(begun);
      }
      attend(stop);
      if (stop.stop_requested()) break;
    }
    auto stepped = oneStep();
    logSwaps();
    if (!stepped) return stepped;
    // After the first step: nothing stands in its way.
    if (!evaluationsPlanned) planEvaluations();
    if (!searches) {
      // Behind the kernels of the evaluations.
      NF_TRY(searches, takeEvaluations(stop, false));
      if (searches) {
        supply->start();
        startFusionTrials();
      }
    }
    const bool last = stepLimit > 0 && step >= stepLimit;
    const bool epochEnds = step % perEpoch == 0 && evaluates && feed->heldOutRows() > 0;
    if ((epochEnds || evaluationDue) && !last) {
      // One that is an epoch late is waited for.
      bool ready = epochEnds && evaluationDue;
      if (!ready) { NF_TRY(ready, mayEvaluate(stop)); }
      if (ready) { NF_TRY([[maybe_unused]] const Unit made, evaluate(stop)); }
      evaluationDue = !ready;
    }
    if (options.checkpointSeconds > 0 &&
        secondsSince(begun) - savedAt > checkpointDistance(savedAt, checkpointTook, options.checkpointSeconds)) {
      const Time start = std::chrono::steady_clock::now();
      NF_TRY([[maybe_unused]] const Unit numbers, checkUpdates());
      NF_TRY([[maybe_unused]] const Unit tried, tryCheckpoint());
      checkpointTook = secondsSince(start);
      checkpointed = step;
      savedAt = secondsSince(begun);
    }
  }
  return Unit{};
}

bool TrainJob::Impl::isPaused() {
  const std::lock_guard lock(mutex);
  return paused;
}

void TrainJob::Impl::attend(std::stop_token stop) {
  if (!attention.exchange(false)) return;
  tellTrials();
  std::deque<Task> todo;
  {
    std::unique_lock lock(mutex);
    todo.swap(tasks);
    if (share && supply && supply->tuning()) {
      supply->tuning()->setDeviceShare(*share);
      options.tuning.deviceShare = *share;
    }
    share.reset();
  }
  if (training.executable)
    for (const auto& task : todo) task(*training.executable, step);
  if (!isPaused()) return;
  flushStepEvent(std::chrono::steady_clock::now());  // what stands beside the step is of that step
  tellEvaluation(true);
  if (supply && supply->tuning()) supply->tuning()->pause();
  emitState(protocol::RunPhase::Paused, {}, true);
  const Time pauseBegan = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex);
  while (paused && !stop.stop_requested()) {
    changed.wait(lock, stop, [&] { return !paused || !tasks.empty(); });
    todo.swap(tasks);
    lock.unlock();
    if (training.executable)
      for (const auto& task : todo) task(*training.executable, step);
    todo.clear();
    lock.lock();
  }
  lock.unlock();
  if (begun != Time{}) begun += std::chrono::steady_clock::now() - pauseBegan;
  if (supply && supply->tuning()) supply->tuning()->resume();
}

void TrainJob::Impl::tellTrials() {
  std::vector<protocol::TrialEvent> events;
  std::vector<protocol::KernelCountersEvent> counted;
  {
    const std::lock_guard lock(mutex);
    events.swap(trialEvents);
    counted.swap(counterEvents);
  }
  for (const auto& event : events) emit(event);
  tellOfRecords();
  for (const auto& event : counted) emit(event);
}

// A trial that is on record is among the events, too, though it ended with the run.
void TrainJob::Impl::endTuning() {
  if (supply && supply->tuning()) supply->tuning()->stop();
  tellTrials();
}

void TrainJob::Impl::tellOfRecords() {
  if (recordsTold || !context->records()) return;
  protocol::WarningEvent warning;
  warning.message = context->records()->trouble();
  if (warning.message.empty()) return;
  recordsTold = true;
  emit(warning);
}

Result<TrainSummary> TrainJob::Impl::finish(std::stop_token stop) {
  TrainSummary summary;
  // While it runs still: a search that was stopped has nothing to do either.
  const bool searchedOut = supply->tuning() && supply->tuning()->trials() > 0 && supply->tuning()->finished();
  if (supply->tuning()) supply->tuning()->pause();
  fusionThread = {};  // asked to stop, and waited for
  NF_TRY([[maybe_unused]] const Unit numbers, checkUpdates());
  if (!stop.stop_requested() && (step > firstStep || options.onlyEvaluate)) {
    emitState(protocol::RunPhase::Training, activity(), true);
    NF_TRY([[maybe_unused]] const Unit made, evaluate(stop));
    tellEvaluation(true);
  }
  // Without a step there is nothing to save, and a large one would keep whoever stopped it waiting.
  if (folder && step > 0) {
    NF_TRY(const Result<Unit> written, saveCheckpoint());
    if (written) summary.checkpoint = folder->file(kCheckpointFile);
    else
      summary.unsaved =
          Error{"save", "The training has ended, but its checkpoint was not written: " + written.error().message + ".", {}, {}};
  }
  done.seconds = secondsSince(begun);
  endTuning();
  attention = true;
  attend(stop.stop_requested() ? stop : std::stop_token{});
  done.steps = step;
  done.resumed_at = firstStep;
  done.loss = lastLoss;
  if (!stepTimes.empty()) {
    done.median_step_ms = medianOf(stepTimes.all());
    done.median_step_ms_first_tenth = medianOf(stepTimes.firstTenth());
    std::vector<float> last = stepTimes.lastTenth();
    std::sort(last.begin(), last.end());
    done.median_step_ms_last_tenth = last[last.size() / 2];
    done.last_tenth_low_ms = last[last.size() / 4];
    done.last_tenth_high_ms = last[last.size() * 3 / 4];
    done.last_tenth_steps = std::max<std::int64_t>(1, stepTimes.count() / 10);
  }
  done.peak_bytes = training.executable->peakBytes();
  for (const Evaluation& e : evaluations) done.peak_bytes += e.prepared.executable->peakBytes() - store->bytes();
  done.stopped = stop.stop_requested();
  done.search = searchState();
  if (searchedOut && done.search == protocol::SearchState::Unbegun) done.search = protocol::SearchState::Finished;
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
  if (!result) job.endTuning();
  std::deque<Task> late;
  {
    const std::lock_guard lock(job.mutex);
    job.running = false;
    late.swap(job.tasks);
  }
  if (job.training.executable)
    for (const auto& task : late) task(*job.training.executable, job.step);
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

bool TrainJob::betweenSteps(Task task) {
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
