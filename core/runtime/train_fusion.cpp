// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <algorithm>

#include "core/runtime/initialize.h"

namespace nf {

void TrainJob::Impl::startFusionTrials() {
  if (!dynamic || !supply->tuning() || !context->evaluator()) return;
  FusionTrials::Options o;
  o.stages = stageOptions(*context, prepareOptions);
  o.exclusive = context->lease() != nullptr;
  o.useRecords = options.tuning.useRecords;
  TuningService& tuning = *supply->tuning();
  o.schedule = [&tuning](const Hash& hash) { return tuning.bestSchedule(hash); };
  o.before = [&tuning](std::stop_token stop) { return tuning.awaitBudget(stop); };
  o.after = [&tuning](double seconds) { tuning.charge(seconds); };
  fusionTrials = std::make_unique<FusionTrials>(*context, training.stages, std::move(o));
  fusionThread = std::jthread([this](std::stop_token stop) {
    for (;;) {
      auto found = fusionTrials->next(stop);
      if (!found || !*found) return;
      std::unique_lock lock(mutex);
      revertedFusion = std::move(**found);
      if (!changed.wait(lock, stop, [this] { return !revertedFusion; })) return;
    }
  });
}

bool TrainJob::Impl::superseded() {
  const std::uint64_t version = supply->cache().version();
  if (version == replanned->heldAt) return false;
  const auto& measured = replanned->reverted.schedules;
  const bool holds = std::all_of(measured.begin(), measured.end(), [&](const auto& kernel) {
    const auto now = supply->cache().find(kernel.first);
    return !now || now->object->schedule == kernel.second;
  });
  if (holds) replanned->heldAt = version;
  return !holds;
}

void TrainJob::Impl::settled() {
  replanned.reset();
  const std::lock_guard lock(mutex);
  revertedFusion.reset();
  changed.notify_all();
}

Result<Unit> TrainJob::Impl::replan() {
  if (replay) return replanAsLogged();
  if (!replanned) {
    const std::lock_guard lock(mutex);
    if (!revertedFusion) return Unit{};
    replanned = Replanned{*revertedFusion, {}, false, 0};
  }
  const auto refuse = [this](bool again) {
    if (replanned->requested) supply->drop(*replanned->prepared.executable);
    fusionTrials->refuse(again);
    settled();
    return Unit{};
  };
  if (superseded()) return refuse(true);
  if (!replanned->requested) {
    NF_TRY(replanned->prepared, prepare(replanned->reverted.stages, *context, store, prepareOptions));
    replanned->requested = true;
    // In the background: compiled with full effort, as they were measured.
    NF_TRY([[maybe_unused]] const Unit asked, supply->request(*replanned->prepared.executable, 1, true));
  }
  const auto complete = supply->collect(*replanned->prepared.executable);
  if (!complete) return refuse(false);  // one of the parts has no kernel after all
  if (!*complete) return Unit{};
  if (superseded()) return refuse(true);
  const RevertedFusion& r = replanned->reverted;
  prepareOptions.reverted->insert_or_assign(r.judged(), r.measurement);
  supply->logReverted(r.judged(), step);
  NF_TRY([[maybe_unused]] const Unit used, trainWith(std::move(replanned->prepared)));
  protocol::FusionRevertedEvent e = revertedEvent(r);
  e.step = step;
  e.seconds = secondsSince(begun);
  fusionTrials->accept();
  emit(e);
  settled();
  return Unit{};
}

Result<Unit> TrainJob::Impl::replanAsLogged() {
  std::size_t added = 0;
  for (const JudgedKernel& kernel : supply->revertedUpTo(step))
    if (prepareOptions.reverted->emplace(kernel, FusionMeasurement{}).second) {
      supply->logReverted(kernel, step);
      ++added;
    }
  if (added == 0) return Unit{};
  NF_TRY(Stages stages, fusedAgain(training.stages, stageOptions(*context, prepareOptions)));
  NF_TRY(Prepared next, prepare(std::move(stages), *context, store, prepareOptions));
  NF_TRY([[maybe_unused]] const Unit asked, supply->request(*next.executable));
  NF_TRY([[maybe_unused]] const bool complete, supply->collect(*next.executable));
  return trainWith(std::move(next));
}

Result<Unit> TrainJob::Impl::trainWith(Prepared next) {
  NF_TRY([[maybe_unused]] const Unit initial, initializeTensors(*next.executable, seed, options.source.directory));
  supply->replace(*training.executable, *next.executable);
  training = std::move(next);
  training.executable->bind();
  loss = lossOf(training.executable->program(), settings.loss);
  training.executable->holdBackAt(loss);
  trainingInputs = inputsOf(*training.executable);
  tellKernels();
  return Unit{};
}

}  // namespace nf
