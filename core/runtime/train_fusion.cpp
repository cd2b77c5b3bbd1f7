// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

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
      const std::lock_guard lock(mutex);
      revertedFusions.push_back(std::move(**found));
    }
  });
}

Result<Unit> TrainJob::Impl::replan() {
  if (replay) return replanAsLogged();
  if (!replanned) {
    const std::lock_guard lock(mutex);
    if (revertedFusions.empty()) return Unit{};
    replanned = Replanned{std::move(revertedFusions.front()), {}, false};
    revertedFusions.pop_front();
  }
  if (!replanned->requested) {
    replanned->requested = true;
    NF_TRY(replanned->prepared, prepare(replanned->reverted.stages, *context, store, prepareOptions));
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

Result<Unit> TrainJob::Impl::replanAsLogged() {
  std::size_t added = 0;
  for (const Hash& kernel : supply->revertedUpTo(step))
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
  return Unit{};
}

}  // namespace nf
