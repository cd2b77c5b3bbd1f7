// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/step_program.h"
#include "core/runtime/train_job.h"

#include <algorithm>

namespace nf {

Result<Unit> TrainJob::Impl::readEarlier() {
  if (!options.replaySwaps.empty()) {
    NF_TRY(const std::string text, readFile(options.replaySwaps));
    NF_TRY(replay, swapsFromJsonLines(text, options.replaySwaps));
    if (replay->empty()) return Error{"replay", "The swap log " + options.replaySwaps + " is empty.", {}, {}};
  }
  if (!options.resume.empty()) {
    NF_TRY(options.resume, checkpointAt(options.resume, trainPlace(notebook, options.train)));
    NF_TRY(checkpoint, readCheckpoint(options.resume));
  }
  return Unit{};
}

Result<Unit> TrainJob::Impl::loadWeights(const NamedTensors& tensors, const std::string& from, bool all) {
  NF_TRY(const std::vector<std::string> written, writeWeights(*store, tensors, from));
  for (const std::string& name : written) givenBy[name] = from;
  for (const auto& [name, value] : tensors) {
    const TensorId t = store->find(name) ? TensorId() : notebook.tensorNamed(name);
    if (!t.valid() || notebook.program[t].shape != value.shape) continue;
    if (const TensorKind kind = notebook.program[t].kind; kind == TensorKind::Param || kind == TensorKind::State)
      bystanders[name] = value;
  }
  if (!all) return Unit{};
  for (const auto& [name, entry] : store->entries()) {
    if (entry->kind != TensorKind::Param && entry->kind != TensorKind::State) continue;
    if (std::none_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == name; }))
      return Error{"resume", from + " has no tensor " + name + ".", {}, {}};
  }
  return Unit{};
}

void TrainJob::Impl::tellWhatResumesDifferently() {
  const Checkpoint& was = *checkpoint;
  std::string from, to;
  const auto compare = [&](const std::string& what, const std::string& then, const std::string& now) {
    if (then.empty() || then == now) return;
    from += (from.empty() ? "" : ", ") + what + " " + then;
    to += (to.empty() ? "" : ", ") + what + " " + now;
  };
  compare("device", was.device, context->device().name());
  if (!replay) compare("mode", was.mode, dynamic ? "dynamic" : "static");  // what is replayed makes the same steps
  if (from.empty()) return;
  protocol::WarningEvent warning;
  warning.message = "The checkpoint was trained with " + from + "; training continues with " + to +
                    ", so its steps are not those that a training without a stop makes.";
  emit(warning);
}

double TrainJob::Impl::estimatedCheckpointSeconds() const {
  constexpr double kSlowBytesPerSecond = 100e6;
  double bytes = 0;
  for (const auto& [name, entry] : store->entries())
    if (entry->kind == TensorKind::Param || entry->kind == TensorKind::State) bytes += static_cast<double>(entry->bytes);
  return bytes / kSlowBytesPerSecond;
}

Result<Checkpoint> TrainJob::Impl::readState() {
  Checkpoint c;
  c.step = step;
  c.seed = seed;
  c.program = programHash();
  c.optimizer = settings.optimizer;
  c.device = context->device().name();
  c.mode = dynamic ? "dynamic" : "static";
  for (const auto& [name, entry] : store->entries()) {
    if (entry->kind != TensorKind::Param && entry->kind != TensorKind::State) continue;
    NF_TRY(HostTensor value, store->read(*entry));
    c.tensors.emplace_back(name, std::move(value));
    const Program& source = *training.stages.source;
    if (const TensorId t = source.tensorNamed(name); t.valid()) c.declared.emplace(name, declarationOf(source[t]));
  }
  for (const auto& [name, value] : bystanders)
    if (!store->find(name)) c.tensors.emplace_back(name, value);
  c.places = places;
  c.swaps = supply->swaps();
  return c;
}

Result<Result<Unit>> TrainJob::Impl::saveCheckpoint() {
  NF_TRY(Checkpoint c, readState());
  const auto write = [&]() -> Result<Unit> {
    if (!folder) return Unit{};
    folder->flush();
    return writeCheckpoint(folder->file(kCheckpointFile), c);
  };
  Result<Result<Unit>> written = write();
  if (context->device().mayBeLost()) kept = std::move(c);
  return written;
}

Result<Unit> TrainJob::Impl::tryCheckpoint() {
  if (!folder && !context->device().mayBeLost()) return Unit{};
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

void TrainJob::Impl::logSwaps() {
  const std::vector<KernelSwap>& all = supply->swaps();
  if (folder && all.size() > swapsLogged) folder->addSwaps(toJsonLines(std::span(all).subspan(swapsLogged)));
  swapsLogged = all.size();
}

}  // namespace nf
