// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <algorithm>
#include <cmath>

#include "core/ir/work.h"

namespace nf {

namespace {

constexpr std::int64_t kInterpreted = 500'000'000;  // operations that the interpreter does in some seconds

}  // namespace

Error TrainJob::Impl::nanFound(Executable& x) {
  return nanError(x, "The loss " + settings.loss + " is not a number in step " + std::to_string(step + 1));
}

Result<Unit> TrainJob::Impl::checkUpdates() {
  if (step == firstStep) return Unit{};
  Executable& x = *training.executable;
  NF_TRY(const TensorId bad, x.updatedNaN());
  if (!bad.valid()) return Unit{};
  return nanError(x, x.program()[bad].name + " holds a value that is not a number after step " + std::to_string(step));
}

Error TrainJob::Impl::nanError(Executable& x, std::string happened) {
  auto first = firstNaN(x, step);
  std::string message = std::move(happened);
  if (first && !first->empty()) {
    const Program& p = x.program();
    TensorId t = p.tensorNamed(*first);
    const auto updateOf = [&](TensorId target) {
      return std::find_if(p.updates.begin(), p.updates.end(), [&](const Update& u) { return u.target == target; });
    };
    const auto update = updateOf(t);
    const bool kept = t.valid() && update != p.updates.end(), before = kept && step > firstStep;
    // A value kept from the step before became none in that step, mostly in its gradient.
    std::string when;
    if (before) {
      t = update->value;
      when = ", the new " + *first + " of step " + std::to_string(step);
      if (const TensorId made = madeInStepBefore(x); made.valid() && made != t && updateOf(made) == p.updates.end()) {
        t = made;
        when = " in step " + std::to_string(step);
      }
    }
    const auto made = producers(p);
    if (t.valid()) {
      const OriginId origin = made[t.value].valid() ? p[made[t.value]].origin : p[t].origin;
      if (origin.valid()) place = p[origin].span;
    }
    message += "; the first one came from " + (t.valid() ? p[t].name : *first) + when;
    if (kept && !before) {
      const auto file = givenBy.find(*first);
      message += ", whose first value has one";
      if (file != givenBy.end()) message += ", given by " + file->second;
    }
    if (before && lastLoss && std::isinf(*lastLoss)) message += std::string(", whose loss was ") + (*lastLoss < 0 ? "-inf" : "inf");
  }
  for (const std::int64_t at : {step - 1, step})
    if (const std::string input = at < firstStep ? std::string() : infiniteInput(at); !input.empty()) {
      const TensorId t = x.program().tensorNamed(input);
      if (t.valid() && x.program()[t].origin.valid()) place = x.program()[x.program()[t].origin].span;
      message += "; " + input + " has an infinite value in step " + std::to_string(at + 1);
      break;
    }
  return {"train", message + ".", context->device().name(), {}};
}

TensorId TrainJob::Impl::madeInStepBefore(Executable& x) {
  if (!x.revertUpdates() || !feedBatch(step - 1)) return {};
  const auto name = firstNaN(x, step - 1);
  return name && !name->empty() ? x.program().tensorNamed(*name) : TensorId();
}

Result<std::string> TrainJob::Impl::firstNaN(Executable& x, std::int64_t of) {
  auto first = firstNaNByOperator(of);
  return first && !first->empty() ? first : x.firstNaN(seed, static_cast<std::uint64_t>(of));
}

Result<std::string> TrainJob::Impl::firstNaNByOperator(std::int64_t of) {
  Stages single = training.stages;
  if (context->inProcess() || !single.partitioned || workOf(*single.partitioned) > kInterpreted) return std::string();
  single.fused = single.partitioned;
  NF_TRY(Prepared each, prepare(std::move(single), *context, store, prepareOptions));
  NF_TRY(const bool interpreted, supply->interpret(*each.executable));
  std::string first;
  if (interpreted) {
    each.executable->bind();
    NF_TRY(first, each.executable->firstNaN(seed, static_cast<std::uint64_t>(of)));
  }
  return first;
}

std::string TrainJob::Impl::infiniteInput(std::int64_t at) {
  for (std::size_t i = 0; i < feed->inputs().size(); ++i) {
    const DataFeed::Input& in = feed->inputs()[i];
    feed->training(at, i, staging.data());
    for (std::int64_t e = 0, n = feed->batch() * in.rowElements; e < n; ++e)
      if (std::isinf(loadValue(in.type, staging.data(), e))) return in.name;
  }
  return {};
}

}  // namespace nf
