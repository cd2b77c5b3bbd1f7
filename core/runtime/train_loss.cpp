// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/initialize.h"
#include "core/runtime/train_job.h"

namespace nf {
namespace {

std::string stepsText(std::int64_t from, std::int64_t to) {
  if (from == to) return "step " + std::to_string(from) + " is";
  return "steps " + std::to_string(from) + " to " + std::to_string(to) + " are";
}

// What people want to know first: how much of the work is gone.
std::string whatIsLost(std::int64_t reached, const std::optional<Checkpoint>& from, bool read, std::int64_t first,
                       const std::string& file) {
  if (read) return "with the values of step " + std::to_string(reached) + ", which could still be read: nothing is lost";
  const std::int64_t at = from ? from->step : first;
  std::string text = from ? "from step " + std::to_string(at) + ", the newest one whose values the host has" +
                                (file.empty() ? std::string() : " (those of " + file + ")")
                          : "from the values that this run began with: the host has no others";
  if (reached > at) text += "; " + stepsText(at + 1, reached) + " lost and made again";
  return text;
}

}  // namespace

bool TrainJob::Impl::goesOnElsewhere(std::stop_token stop) const {
  // What is replayed is replayed bit by bit, which no other device can do.
  return context->device().lost() && options.standIn && !replay && !stop.stop_requested();
}

Result<Unit> TrainJob::Impl::goOnElsewhere(std::stop_token stop) {
  Error lost = *context->device().lost();
  const std::int64_t reached = step;
  // Nobody works on the lost device any more.
  if (supply->tuning()) supply->tuning()->stop();
  fusionThread = {};
  evaluationThread = {};
  std::optional<Checkpoint> from = std::move(kept);
  kept.reset();
  const std::string file = from && folder && checkpointTrouble.empty() ? folder->file(kCheckpointFile) : std::string();
  bool read = false;
  if (auto newest = readState()) {
    from = std::move(*newest);
    read = true;
  }
  auto opened = options.standIn();
  if (!opened) {
    lost.message += " Nothing can take its place: " + opened.error().message;
    return lost;
  }

  evaluations.clear();
  evaluationsPlanned = evaluationsTaken = false;
  replanned.reset();
  fusionTrials.reset();
  {
    const std::lock_guard lock(mutex);
    plannedEvaluations.reset();
    revertedFusion.reset();
  }
  trainingInputs.clear();
  training = {};
  supply.reset();
  store.reset();
  context = opened->get();
  standIn = std::move(*opened);
  leaseStuck = false;
  timeLeft = {};
  swapsLogged = 0;
  dynamic = dynamic && !context->inProcess();
  step = from ? from->step : firstStep;

  protocol::WarningEvent warning;
  warning.message = lost.message + (lost.detail.empty() ? "" : " " + lost.detail + ".") + " Training continues on " +
                    context->device().name() + " " + whatIsLost(reached, from, read, firstStep, file) + ".";
  emit(warning);
  emitState(protocol::RunPhase::Preparing, "compiling for " + context->device().name(), true);

  // The kernels of the lost device's schedules are no longer to be had: what was resumed from counts for values alone.
  const std::optional<Checkpoint> resumed = std::move(checkpoint);
  checkpoint.reset();
  NF_TRY([[maybe_unused]] const Unit prepared, prepareTraining(stop));
  NF_TRY([[maybe_unused]] const Unit supplied, makeSupply());
  trainingInputs = inputsOf(*training.executable);
  tellKernels();
  NF_TRY([[maybe_unused]] const Unit initial,
         initializeTensors(*training.executable, seed, options.source.directory, &place, nullptr, stop));
  place = settings.span;
  NF_TRY([[maybe_unused]] const Unit valued,
         from ? loadWeights(from->tensors, "what the host has of the lost device", true) : loadFirstValues(resumed));
  return Unit{};
}

}  // namespace nf
