// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/ir/structural_hash.h"
#include "core/runtime/initialize.h"
#include "core/runtime/meaning.h"
#include "core/runtime/step_program.h"

namespace nf {

TensorId lossOf(const Program& program, const std::string& name) {
  for (const Output& o : program.outputs)
    if (o.role == OutputRole::Loss && (name.empty() || o.name == name)) return o.tensor;
  return program.tensorNamed(name);
}

Result<Unit> TrainJob::Impl::compile() {
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
  places = parameterPlaces(notebook.program, notebook.tensorNamed(settings.loss));
  place = settings.span;
  seed = options.seed.value_or(settings.seed);
  const std::string mode = options.mode.empty() ? settings.mode : options.mode;
  if (mode != "static" && mode != "dynamic") return Error{"train", "The mode is static or dynamic, not " + mode + ".", {}, {}};
  dynamic = mode == "dynamic" && !context->inProcess() && options.replaySwaps.empty();
  return Unit{};
}

Result<Unit> TrainJob::Impl::prepareTraining(std::stop_token stop) {
  store = std::make_shared<TensorStore>(context->device());
  prepareOptions.verify = options.verify;
  prepareOptions.reverted = firstReverted();
  prepareOptions.device = fusedFor();
  prepareOptions.stop = stop;
  prepareOptions.failedAt = &place;
  NF_TRY(training, prepare(trainingProgram(notebook, options.train), *context, store, prepareOptions));
  prepareOptions.failedAt = nullptr;
  prepareOptions.stop = {};  // what is fused later is quick, and its stop is waited for
  for (protocol::WarningEvent& e : warningEvents(training.warnings, notebook.sources)) emit(std::move(e));
  if (protocol::WarningEvent e; !context->recordsMessage().empty()) {
    e.message = context->recordsMessage();
    emit(e);
  }
  place = settings.span;
  loss = lossOf(training.executable->program(), settings.loss);
  training.executable->holdBackAt(loss);
  if (!loss.valid()) return Error{"train", "There is no loss " + settings.loss + ".", {}, {}};
  return Unit{};
}

DeviceConstants TrainJob::Impl::fusedFor() const {
  const std::vector<KernelSwap>* log = replay ? &*replay : checkpoint && !dynamic ? &checkpoint->swaps : nullptr;
  if (log)
    for (const KernelSwap& s : *log)
      if (s.device) return *s.device;
  return deviceConstants(*context->target());
}

MeasuredKernels TrainJob::Impl::firstReverted() const {
  MeasuredKernels reverted;
  const std::vector<KernelSwap>* log = replay ? &*replay : checkpoint ? &checkpoint->swaps : nullptr;
  const std::int64_t from = checkpoint ? checkpoint->step : 0;
  if (log)
    for (const KernelSwap& s : *log)
      if (s.reverted && (!replay || s.step <= from)) reverted.emplace(s.judged(), FusionMeasurement{});
  if (!replay && (dynamic || !checkpoint) && options.tuning.useRecords) reverted.merge(revertedKernels(*context));
  return reverted;
}

Result<Unit> TrainJob::Impl::makeSupply() {
  KernelSupplyOptions o;
  o.dynamic = dynamic;
  o.tuning = options.tuning;
  o.tuning.seed = seed;
  o.tuning.exclusive = context->lease() != nullptr;
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
  o.tuning.onCounters = [this](const CountersEvent& event) {
    const std::lock_guard lock(mutex);
    counterEvents.push_back(protocolEvent(event));
    attention = true;
  };
  // Bit-identical resume: the kernels that ran last, whatever the records say by now.
  if (checkpoint && !dynamic)
    for (const KernelSwap& s : checkpoint->swaps)
      if (auto schedule = Schedule::parse(s.schedule); schedule && s.ofKernel())
        o.forced.insert_or_assign(s.subgraph, std::move(*schedule));
  o.replay = replay;
  supply = std::make_unique<KernelSupply>(*context, std::move(o));
  if (!context->inProcess()) supply->logDevice(*prepareOptions.device, step);
  for (const auto& [kernel, measurement] : *prepareOptions.reverted) supply->logReverted(kernel, step);
  auto requested = supply->request(*training.executable);
  if (!requested) place = supply->failedAt();
  return requested;
}

Result<Unit> TrainJob::Impl::loadData(std::stop_token stop) {
  emitState(protocol::RunPhase::Preparing, "filling the tensors", true);
  const Program evaluated = options.evaluate ? evaluationProgram(notebook, settings.loss) : Program{};
  NF_TRY(feed, DataFeed::open(training.executable->program(), options.source.directory, seed, &place, stop, &evaluated));
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

std::vector<TensorStore::Entry*> TrainJob::Impl::inputsOf(const Executable& executable) const {
  std::vector<TensorStore::Entry*> entries;
  for (const DataFeed::Input& in : feed->inputs()) {
    const TensorId t = executable.program().tensorNamed(in.name);
    entries.push_back(t.valid() ? executable.entry(t) : nullptr);
  }
  return entries;
}

std::string TrainJob::Impl::epochsText() const {
  const std::int64_t epochs = options.steps > 0    ? 0
                              : options.epochs > 0 ? options.epochs
                              : settings.steps > 0 ? 0
                                                   : settings.epochs;
  if (epochs == 0) return {};
  return " (" + std::to_string(epochs) + (epochs == 1 ? " epoch of " : " epochs of ") + std::to_string(feed->stepsPerEpoch()) +
         " steps)";
}

std::string TrainJob::Impl::programHash() const { return structuralHash(*training.stages.source).hex(); }

Result<Unit> TrainJob::Impl::writeRunFile() {
  struct utsname machine {};
  ::uname(&machine);
  nlohmann::json run{{"notebook", options.source.name},
                     {"train", settings.loss},
                     {"of_loss", trainPlace(notebook, options.train).ofLoss},
                     {"settings",
                      {{"optimizer", settings.optimizer},
                       {"mode", dynamic ? "dynamic" : "static"},
                       {"batch", settings.batch},
                       {"steps", stepLimit},
                       {"seconds", options.seconds},
                       {"sets", options.sets},
                       {"resume", options.resume},
                       {"weights", options.initialWeights},
                       {"replay", options.replaySwaps},
                       {"device_share", options.tuning.deviceShare}}},
                     {"seed", seed},
                     {"program", programHash()},
                     {"meaning", trainMeaning(notebook, settings)},
                     {"machine",
                      {{"device", context->device().name()},
                       {"description", context->device().description()},
                       {"threads", context->target()->threads},
                       {"system", std::string(machine.sysname) + " " + machine.release},
                       {"fingerprint", context->target()->fingerprint}}},
                     {"versions", {{"neoflow", options.version}}},
                     {"launches_per_step", training.plan->launchesPerStep},
                     {"steps_per_epoch", feed->stepsPerEpoch()},
                     {"unique_kernels", training.plan->subgraphs.size()},
                     {"arena_bytes", training.plan->main.arenaBytes}};
  if (checkpoint) run["settings"]["resumed_at"] = firstStep;
  return writeFileAtomically(folder->file("run.json"), run.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace nf
