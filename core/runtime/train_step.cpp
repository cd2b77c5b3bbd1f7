// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <algorithm>
#include <cmath>

namespace nf {

Result<Unit> TrainJob::Impl::oneStep() {
  NF_TRY([[maybe_unused]] const Unit planned, replan());
  Executable& x = *training.executable;
  NF_TRY(const auto swaps, supply->beforeStep(x, step));
  for (const KernelSupply::Swap& s : swaps) {
    protocol::KernelSwapEvent e;
    e.subgraph = s.subgraph.hex();
    e.name = s.name;
    e.before_us = s.beforeMicroseconds;
    e.after_us = s.afterMicroseconds;
    e.generation = s.generation;
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
    if (dynamic && context->lease()) {
      hold = takeLease();
      waited = secondsSince(start) * 1e3;
    }
    NF_TRY([[maybe_unused]] const Unit fed, feedBatch(step));
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

DeviceLease::Hold TrainJob::Impl::takeLease() {
  constexpr std::chrono::nanoseconds kLeast = std::chrono::milliseconds(250);
  constexpr double kSteps = 4;  // a candidate's run that takes longer is slower than all it could stand for
  const auto steps = std::chrono::nanoseconds(static_cast<std::int64_t>(kSteps * lastStepSeconds * 1e9));
  auto hold = context->lease()->acquireWithin(leaseStuck ? std::chrono::nanoseconds(0) : std::max(kLeast, steps));
  leaseStuck = !hold;
  return hold ? std::move(*hold) : DeviceLease::Hold();
}

Result<Unit> TrainJob::Impl::feedBatch(std::int64_t of) {
  for (std::size_t i = 0; i < trainingInputs.size(); ++i) {
    if (!trainingInputs[i]) continue;
    feed->training(of, i, staging.data());
    NF_TRY([[maybe_unused]] const Unit written, store->writeBytes(*trainingInputs[i], staging.data()));
  }
  return Unit{};
}

void TrainJob::Impl::record(double milliseconds, double value) {
  const Time now = std::chrono::steady_clock::now();
  ++step;
  lastLoss = value;
  stepTimes.add(static_cast<float>(milliseconds));
  writeRow(milliseconds, value);
  if (stepTimes.count() == 1) {
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
  if (!standInTold && !replay && !supply->stoodIn().empty()) {
    standInTold = true;
    protocol::WarningEvent warning;
    warning.message =
        "No worker could compile the kernel " + supply->stoodIn() + ": the interpreter computes it, slowly, until one does.";
    emit(warning);
  }
  // However short the training is.
  if (lastPhase != protocol::RunPhase::Training || now - lastState >= kEventPeriod)
    emitState(protocol::RunPhase::Training, activity(), true);
}

}  // namespace nf
