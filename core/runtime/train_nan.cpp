// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <algorithm>
#include <cmath>

#include "core/ir/work.h"
#include "core/runtime/schedule_check.h"

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
  if (bad.valid())
    return nanError(x, x.program()[bad].name + " holds a value that is not a number after step " + std::to_string(step));
  NF_TRY(const std::set<std::string> infinite, x.infiniteParameters());
  for (const std::string& name : infinite)
    if (!infiniteAtFirst.contains(name)) return infinityError(x, name);
  return Unit{};
}

Error TrainJob::Impl::infinityError(Executable& x, const std::string& parameter) {
  const Program& p = x.program();
  const auto update =
      std::find_if(p.updates.begin(), p.updates.end(), [&](const Update& u) { return p[u.target].name == parameter; });
  std::string message = parameter + " holds an infinite value after step " + std::to_string(step);
  const auto tellAt = [&](TensorId t) {
    if (const Span at = placeOf(p, t); at.valid()) place = at;
  };
  tellAt(update->target);
  if (x.revertUpdates()) {
    const auto before = x.infiniteParameters();
    if (before && before->contains(parameter)) {
      message += ", and held one before that step";
    } else if (const TensorId made = firstInfinity(x, update->value); made.valid()) {
      tellAt(made);
      message += "; the first one came from " + p[made].name +
                 (made == update->value ? ", the new " + parameter + " of step " : " in step ") + std::to_string(step);
      if (lastLoss && std::isinf(*lastLoss)) message += std::string(", whose loss was ") + (*lastLoss < 0 ? "-inf" : "inf");
    }
  }
  message += infiniteInput(p, {step - 1});
  return {"train", message + ".", context->device().name(), {}};
}

TensorId TrainJob::Impl::firstInfinity(Executable& x, TensorId tensor) {
  const auto of = static_cast<std::uint64_t>(step - 1);
  if (!feedBatch(step - 1)) return {};
  const Program& p = x.program();
  if (const auto each = byOperator(); each && each->executable) {
    const Program& single = each->executable->program();
    if (const TensorId same = single.tensorNamed(p[tensor].name); same.valid())
      if (const auto made = each->executable->firstInfinity(same, seed, of); made && made->valid())
        if (const TensorId here = p.tensorNamed(single[*made].name); here.valid()) return here;
  }
  const auto made = x.firstInfinity(tensor, seed, of);
  return made ? *made : TensorId();
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
    if (const Span at = t.valid() ? placeOf(p, t) : Span{}; at.valid()) place = at;
    message += "; the first one came from " + (t.valid() ? p[t].name : *first) + when;
    if (kept && !before) {
      const auto file = givenBy.find(*first);
      message += ", whose first value has one";
      if (file != givenBy.end()) message += ", given by " + file->second;
    }
    if (before && lastLoss && std::isinf(*lastLoss)) message += std::string(", whose loss was ") + (*lastLoss < 0 ? "-inf" : "inf");
  }
  message += infiniteInput(x.program(), {step - 1, step});
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

Result<Prepared> TrainJob::Impl::byOperator() {
  Stages single = training.stages;
  if (context->inProcess() || !single.partitioned || workOf(*single.partitioned) > kInterpreted) return Prepared{};
  single.fused = single.partitioned;
  PrepareOptions alone = prepareOptions;
  alone.pinsOfOthers = pinsOf(single);
  NF_TRY(Prepared each, prepare(std::move(single), *context, store, alone));
  NF_TRY(const bool interpreted, supply->interpret(*each.executable));
  if (!interpreted) return Prepared{};
  each.executable->bind();
  return each;
}

Result<std::string> TrainJob::Impl::firstNaNByOperator(std::int64_t of) {
  NF_TRY(const Prepared each, byOperator());
  if (!each.executable) return std::string();
  return each.executable->firstNaN(seed, static_cast<std::uint64_t>(of));
}

std::string TrainJob::Impl::infiniteInput(std::int64_t at) {
  for (std::size_t i = 0; i < feed->inputs().size(); ++i) {
    if (!trainingInputs[i]) continue;
    const DataFeed::Input& in = feed->inputs()[i];
    feed->training(at, i, staging.data());
    for (std::int64_t e = 0, n = feed->batch() * in.rowElements; e < n; ++e)
      if (std::isinf(loadValue(in.type, staging.data(), e))) return in.name;
  }
  return {};
}

std::string TrainJob::Impl::infiniteInput(const Program& program, std::initializer_list<std::int64_t> steps) {
  for (const std::int64_t at : steps) {
    const std::string input = at < firstStep ? std::string() : infiniteInput(at);
    if (input.empty()) continue;
    const TensorId t = program.tensorNamed(input);
    if (t.valid() && program[t].origin.valid()) place = program[program[t].origin].span;
    return "; " + input + " has an infinite value in step " + std::to_string(at + 1);
  }
  return {};
}

}  // namespace nf
