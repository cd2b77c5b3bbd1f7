// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference.h"

#include <algorithm>

#include "core/device/backend.h"

namespace nf {
namespace {

Error failure(std::string message) { return Error{"interpret", std::move(message), "reference", {}}; }

// One program, or the body of one Loop: kernels in order, and after each the tensors that nobody reads any more.
struct Sequence {
  struct Step {
    std::unique_ptr<ReferenceKernel> kernel;
    std::unique_ptr<Sequence> body;  // of a Loop
    Loop loop;                       // without its body
    std::vector<std::size_t> reads, dies;
  };
  std::vector<Step> steps;
  std::vector<std::string> names;
  std::vector<std::size_t> sizes;
  std::vector<DType> types;  // that stored values are rounded to; f64: to none
  std::vector<bool> written, wanted;
};

constexpr std::size_t kDeepestLoop = 64;

Result<std::unique_ptr<Sequence>> sequence(const Program& program, const std::vector<TensorId>& outputs, bool training,
                                           Storage storage, std::vector<std::int64_t>& trips) {
  if (trips.size() > kDeepestLoop) return failure("loops are nested deeper than " + std::to_string(kDeepestLoop));
  auto result = std::make_unique<Sequence>();
  const std::size_t tensors = program.tensors.size();
  for (const Tensor& t : program.tensors) {
    result->names.push_back(t.name);
    result->sizes.push_back(static_cast<std::size_t>(t.elements()));
    result->types.push_back(storage == Storage::Rounded ? t.type : DType::F64);
  }
  result->wanted.assign(tensors, false);
  result->written.assign(tensors, false);
  for (const TensorId t : outputs) result->wanted[t.value] = true;

  std::vector<bool> needed = result->wanted, runs(program.operators.size(), false);
  for (std::size_t o = program.operators.size(); o-- > 0;) {
    const OperatorId id(o);
    const auto writes = writesOf(program, id);
    runs[o] = std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return needed[t.value]; });
    if (!runs[o]) continue;
    for (const TensorId t : readsOf(program, id)) needed[t.value] = true;
  }
  for (std::size_t o = 0; o < runs.size(); ++o) {
    if (!runs[o]) continue;
    const Operator& op = program.operators[o];
    Sequence::Step step;
    if (op.kind == OperatorKind::Loop) {
      step.loop = program[op.loop];
      std::vector<TensorId> inner;
      for (const auto& c : step.loop.carried) inner.push_back(c.innerOut);
      for (const auto& s : step.loop.stacked) inner.push_back(s.inner);
      for (const auto& a : step.loop.accumulated) inner.push_back(a.inner);
      trips.push_back(step.loop.trips);
      auto body = sequence(*step.loop.body, inner, training, storage, trips);
      trips.pop_back();
      if (!body) return body.error();
      step.body = std::move(*body);
      step.loop.body.reset();
    } else {
      NF_TRY(ReferenceKernel kernel, ReferenceKernel::prepare(program, op, training, trips, storage));
      step.kernel = std::make_unique<ReferenceKernel>(std::move(kernel));
    }
    for (const TensorId t : readsOf(program, OperatorId(o))) step.reads.push_back(t.value);
    for (const TensorId t : writesOf(program, OperatorId(o))) result->written[t.value] = true;
    result->steps.push_back(std::move(step));
  }
  std::vector<bool> later = result->wanted;
  for (std::size_t s = result->steps.size(); s-- > 0;)
    for (const std::size_t t : result->steps[s].reads) {
      if (later[t] || !result->written[t]) continue;
      later[t] = true;
      result->steps[s].dies.push_back(t);
    }
  return result;
}

using Values = std::vector<const std::vector<double>*>;

class Run {
 public:
  Run(std::uint64_t seed, std::uint64_t step, std::vector<std::int64_t> counters, const std::atomic<bool>* stop)
      : m_seed(seed), m_step(step), m_counters(std::move(counters)), m_stop(stop) {}

  // given: by tensor id, what comes from outside. own: what the sequence wrote and is wanted or still alive.
  Result<Unit> sequence(const Sequence& s, Values& given, std::vector<std::vector<double>>& own) {
    for (const Sequence::Step& step : s.steps) {
      for (const std::size_t t : step.reads)
        if (!given[t]) return failure("tensor " + s.names[t] + (s.written[t] ? " is read before it is written" : " has no value"));
      if (step.body) {
        NF_TRY([[maybe_unused]] const Unit looped, loop(s, step, given, own));
      } else {
        NF_TRY([[maybe_unused]] const Unit ran, kernel(step, given, own));
      }
      for (const std::size_t t : step.dies) {
        own[t] = {};
        given[t] = nullptr;
      }
    }
    return Unit{};
  }

 private:
  Result<Unit> kernel(const Sequence::Step& step, Values& given, std::vector<std::vector<double>>& own) {
    ReferenceKernel::Bindings bindings;
    const std::size_t out = step.kernel->output().value;
    bindings.tensors = given;
    bindings.output = &own[out];
    bindings.counters = m_counters;
    bindings.seed = m_seed;
    bindings.step = m_step;
    bindings.stop = m_stop;
    NF_TRY(const Unit ran, step.kernel->run(bindings));
    given[out] = &own[out];
    return ran;
  }

  Result<Unit> loop(const Sequence& s, const Sequence::Step& step, Values& given, std::vector<std::vector<double>>& own) {
    const Loop& loop = step.loop;
    const Sequence& body = *step.body;
    std::vector<std::vector<double>> carried;
    for (const auto& c : loop.carried) carried.push_back(*given[c.initial.value]);
    const auto open = [&](TensorId outer) {
      own[outer.value].assign(s.sizes[outer.value], 0.0);
      given[outer.value] = &own[outer.value];
    };
    for (const auto& k : loop.stacked) open(k.outer);
    for (const auto& a : loop.accumulated) open(a.outer);
    m_counters.push_back(0);
    for (std::int64_t n = 0; n < loop.trips; ++n) {
      const std::int64_t t = loop.reversed ? loop.trips - 1 - n : n;
      m_counters.back() = t;
      if (m_stop && m_stop->load(std::memory_order_relaxed)) return stopped();
      Values inner(body.names.size(), nullptr);
      std::vector<std::vector<double>> innerOwn(body.names.size());
      for (std::size_t k = 0; k < carried.size(); ++k) inner[loop.carried[k].innerIn.value] = &carried[k];
      for (const auto& i : loop.invariants) inner[i.inner.value] = given[i.outer.value];
      NF_TRY([[maybe_unused]] const Unit ran, sequence(body, inner, innerOwn));
      for (const auto& k : loop.stacked) {
        if (!inner[k.inner.value]) return failure("tensor " + body.names[k.inner.value] + " has no value");
        const auto& from = *inner[k.inner.value];
        std::copy(from.begin(), from.end(),
                  own[k.outer.value].begin() + static_cast<std::ptrdiff_t>(t * static_cast<std::int64_t>(from.size())));
      }
      for (const auto& a : loop.accumulated) {
        if (!inner[a.inner.value]) return failure("tensor " + body.names[a.inner.value] + " has no value");
        const auto& from = *inner[a.inner.value];
        auto& into = own[a.outer.value];
        for (std::size_t i = 0; i < from.size(); ++i) into[i] = storedAs(s.types[a.outer.value], into[i] + from[i]);
      }
      std::vector<std::vector<double>> next;
      for (const auto& c : loop.carried) {
        if (!inner[c.innerOut.value]) return failure("tensor " + body.names[c.innerOut.value] + " has no value");
        next.push_back(*inner[c.innerOut.value]);
      }
      carried = std::move(next);
    }
    m_counters.pop_back();
    for (std::size_t k = 0; k < carried.size(); ++k)
      if (const TensorId last = loop.carried[k].last; last.valid()) {
        own[last.value] = carried[k];
        given[last.value] = &own[last.value];
      }
    return Unit{};
  }

  std::uint64_t m_seed, m_step;
  std::vector<std::int64_t> m_counters;
  const std::atomic<bool>* m_stop;
};

}  // namespace

struct ReferenceProgram::Impl {
  std::unique_ptr<Sequence> sequence;
  std::vector<Tensor> tensors;
  std::vector<TensorId> outputs;
};

ReferenceProgram::ReferenceProgram(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
ReferenceProgram::ReferenceProgram(ReferenceProgram&&) noexcept = default;
ReferenceProgram& ReferenceProgram::operator=(ReferenceProgram&&) noexcept = default;
ReferenceProgram::~ReferenceProgram() = default;

Result<ReferenceProgram> ReferenceProgram::prepare(const Program& program, const std::vector<TensorId>& outputs, bool training,
                                                   Storage storage) {
  auto impl = std::make_unique<Impl>();
  impl->tensors = program.tensors;
  impl->outputs = outputs;
  std::vector<bool> pending(program.tensors.size(), false);
  const auto made = producers(program);
  for (const Derivative& d : program.derivatives) pending[d.result.value] = !made[d.result.value].valid();
  if (outputs.empty())
    for (std::size_t t = 0; t < program.tensors.size(); ++t)
      if (!pending[t]) impl->outputs.push_back(TensorId(t));
  for (const TensorId t : impl->outputs)
    if (pending[t.value]) return failure("the derivative " + program[t].name + " is asked for and not made yet");
  std::vector<std::int64_t> trips;
  NF_TRY(impl->sequence, sequence(program, impl->outputs, training, storage, trips));
  return ReferenceProgram(std::move(impl));
}

Result<TensorValues> ReferenceProgram::run(const TensorValues& inputs, std::uint64_t seed, std::uint64_t step,
                                           std::span<const std::int64_t> counters, const std::atomic<bool>* stop) const {
  const std::size_t count = m_impl->tensors.size();
  Values given(count, nullptr);
  for (const auto& [id, data] : inputs) {
    if (!id.valid() || id.value >= count) return failure("a value was given for a tensor that the program does not have");
    const Tensor& t = m_impl->tensors[id.value];
    if (m_impl->sequence->written[id.value]) continue;
    if (data.shape != t.shape || data.values.size() != static_cast<std::size_t>(t.elements()))
      return failure("the value given for " + t.name + " has another shape");
    given[id.value] = &data.values;
  }
  std::vector<std::vector<double>> own(count);
  NF_TRY([[maybe_unused]] const Unit ran,
         Run(seed, step, {counters.begin(), counters.end()}, stop).sequence(*m_impl->sequence, given, own));
  TensorValues result;
  for (const TensorId id : m_impl->outputs) {
    if (result.contains(id)) continue;
    const Tensor& t = m_impl->tensors[id.value];
    if (!given[id.value]) return failure("tensor " + t.name + " has no value");
    auto& mine = own[id.value];
    result[id] = {t.type, t.shape, given[id.value] == &mine ? std::move(mine) : *given[id.value]};
  }
  return result;
}

Result<TensorValues> interpret(const Program& program, const TensorValues& inputs, const InterpretOptions& options) {
  NF_TRY(const ReferenceProgram prepared, ReferenceProgram::prepare(program, options.outputs, options.training, options.storage));
  return prepared.run(inputs, options.seed, options.step);
}

}  // namespace nf
