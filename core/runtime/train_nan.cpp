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

Result<std::string> TrainJob::Impl::firstNaNByOperator() {
  Stages single = training.stages;
  if (context->inProcess() || !single.partitioned || workOf(*single.partitioned) > kInterpreted) return std::string();
  single.fused = single.partitioned;
  NF_TRY(Prepared each, prepare(std::move(single), *context, store, prepareOptions));
  NF_TRY(const bool interpreted, supply->interpret(*each.executable));
  std::string first;
  if (interpreted) {
    each.executable->bind();
    NF_TRY(first, each.executable->firstNaN(seed, static_cast<std::uint64_t>(step)));
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
