// SPDX-License-Identifier: Apache-2.0
#include "core/session/loop_names.h"

#include <algorithm>

#include "core/support/unique_names.h"

namespace nf {
namespace {

std::string stemOf(const std::string& name) { return std::string(withoutNumber(name)); }

// "d(L)/d(" and the "h#2" and ")#1" of d(L)/d(h#2)#1.
struct Partial {
  std::string before, by, behind;
};
std::optional<Partial> partialOf(const std::string& name) {
  const std::size_t middle = name.find(")/d("), end = name.rfind(')');
  if (!name.starts_with("d(") || middle == std::string::npos || end < middle + 4) return std::nullopt;
  return Partial{name.substr(0, middle + 4), name.substr(middle + 4, end - middle - 4), name.substr(end)};
}

std::string stepText(const std::vector<std::string>& around, const std::string& step) {
  std::string out = "(";
  for (const std::string& counter : around) out += counter + ", ";
  return out + step + ")";
}

}  // namespace

LoopNames::LoopNames(const Program& program) {
  const auto note = [this](const Program& p, auto&& self) -> void {
    std::map<std::string, std::string, std::less<>> primes;  // what several loops carry, one behind the other
    for (const Loop& loop : p.loops) {
      std::string own;
      for (const Loop::Carried& c : loop.carried)
        if (const auto before = primes.find((*loop.body)[c.innerIn].name); before != primes.end())
          own = std::max(own, before->second + '\'');
      for (const Loop::Carried& c : loop.carried) primes[(*loop.body)[c.innerIn].name] = own;
      m_primes[&loop] = own;
      const Program& body = *loop.body;
      for (const Loop::Carried& c : loop.carried) {
        const std::string& in = body[c.innerIn].name;
        if (partialOf(in)) continue;
        m_carried.emplace(in, Known{stemOf(in), loop.reversed ? 1 : 0});
        if (const std::string& out = body[c.innerOut].name; !partialOf(out))
          m_carried.emplace(out, Known{stemOf(in), loop.reversed ? 0 : 1});
      }
      self(body, self);
    }
  };
  note(program, note);
  place(program, {});
}

std::string LoopNames::carriedName(const Loop& loop, const Loop::Carried& carried) const {
  const std::string& name = (*loop.body)[carried.innerIn].name;
  const auto partial = partialOf(name);
  return partial ? partial->before + stemOf(partial->by) + ")" : stemOf(name) + m_primes.at(&loop);
}

FormulaName LoopNames::first(const Loop& loop, const Loop::Carried& carried) const {
  return {carriedName(loop, carried), stepText(m_counters, std::to_string(loop.reversed ? loop.trips : 0)), {}, {}};
}

FormulaName LoopNames::last(const Loop& loop, const Loop::Carried& carried) const {
  return {carriedName(loop, carried), stepText(m_counters, std::to_string(loop.reversed ? 0 : loop.trips)), {}, {}};
}

std::string LoopNames::next(const Loop& loop, const std::vector<std::string>& counters) const {
  return stepText(m_counters, counters.back() + (loop.reversed ? "" : " + 1"));
}

LoopNames::Stepped LoopNames::stepped(const Loop& loop, TensorId inner) const {
  for (const Loop::Carried& c : loop.carried)
    if (c.innerIn == inner) return {carriedName(loop, c), loop.reversed ? 1 : 0};
  for (const Loop::Carried& c : loop.carried)
    if (c.innerOut == inner) return {carriedName(loop, c), loop.reversed ? 0 : 1};
  const std::string& name = (*loop.body)[inner].name;
  if (const auto partial = partialOf(name))
    if (const auto known = m_carried.find(partial->by); known != m_carried.end())
      return {partial->before + known->second.stem + partial->behind, known->second.offset};
  return {name, 0};
}

// What passes keep of all steps; in a loop's body it may be kept of all steps of the loop around, too.
std::optional<FormulaName> LoopNames::stackedOf(const Loop& loop, const Loop::Stacked& stacked, const Program& program) const {
  const Program& body = *loop.body;
  const std::string &all = program[stacked.outer].name, made = body[stacked.inner].name + "_steps";
  if (all != made && !all.starts_with(made + '#')) return std::nullopt;
  for (const Loop& within : body.loops)
    for (const Loop::Stacked& s : within.stacked)
      if (s.outer == stacked.inner)
        if (auto name = stackedOf(within, s, body)) {
          name->stacked.insert(name->stacked.begin(), 0);
          return name;
        }
  Stepped one = stepped(loop, stacked.inner);
  return FormulaName{std::move(one.name), {}, {}, {one.offset}};
}

// "d(L)/d(h#2)" begins a loop that carries d(L)/d(h).
bool LoopNames::isCarriedBy(const std::string& name, const Loop& loop, const Loop::Carried& carried) const {
  const auto partial = partialOf(name);
  return (partial && partial->behind == ")" ? partial->before + stemOf(partial->by) + ")" : stemOf(name)) ==
         carriedName(loop, carried);
}

void LoopNames::place(const Program& program, const std::vector<std::string>& counters) {
  m_counters = counters;
  m_names.resize(program.tensors.size());
  std::vector<bool> known(program.tensors.size(), false);
  std::map<std::string, FormulaName, std::less<>> lasts;
  for (const Loop& loop : program.loops) {
    for (const Loop::Carried& c : loop.carried) {
      const Tensor& initial = program[c.initial];
      if (!known[c.initial.value] && initial.kind == TensorKind::Intermediate && isCarriedBy(initial.name, loop, c)) {
        m_names[c.initial.value] = first(loop, c);
        known[c.initial.value] = true;
      }
      if (c.last.valid()) {
        m_names[c.last.value] = last(loop, c);
        known[c.last.value] = true;
        lasts.emplace(program[c.last].name, m_names[c.last.value]);
      }
    }
    for (const Loop::Stacked& s : loop.stacked) {
      auto name = stackedOf(loop, s, program);
      if (!name) continue;
      for (const std::string& counter : counters) name->around += counter + ", ";
      m_names[s.outer.value] = std::move(*name);
      known[s.outer.value] = true;
    }
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (known[t]) continue;
    m_names[t].name = program.tensors[t].name;
    const auto partial = partialOf(program.tensors[t].name);
    const auto by = partial ? lasts.find(partial->by) : lasts.end();
    if (by != lasts.end()) m_names[t] = {partial->before + by->second.name + partial->behind, by->second.step, {}, {}};
  }
}

LoopNames LoopNames::inside(const Loop& loop, const std::vector<std::string>& counters) const {
  const Program& body = *loop.body;
  LoopNames names;
  names.m_carried = m_carried;
  names.m_primes = m_primes;
  names.place(body, counters);
  const std::vector<std::string> around(counters.begin(), counters.end() - 1);
  std::vector<bool> given(body.tensors.size(), false);
  for (const Loop::Invariant& x : loop.invariants) {
    names.m_names[x.inner.value] = m_names[x.outer.value];
    given[x.inner.value] = true;
  }
  for (std::size_t t = 0; t < body.tensors.size(); ++t) {
    FormulaName& name = names.m_names[t];
    if (given[t] || !name.stacked.empty() || !name.step.empty()) continue;
    Stepped one = stepped(loop, TensorId(t));
    name.name = std::move(one.name);
    name.step = stepText(around, counters.back() + (one.offset != 0 ? " + 1" : ""));
  }
  names.placeSlices(body, counters.back(), counters.size() - 1);
  return names;
}

// What is kept of all steps of two loops, at the step of the outer one: `h_steps_step[z0, z1] = h_steps_steps[t, z0, z1]`.
void LoopNames::placeSlices(const Program& body, const std::string& counter, std::size_t depth) {
  for (const Operator& op : body.operators) {
    if (op.kind != OperatorKind::Gather || !op.output.valid() || op.reducer != Reducer::None) continue;
    const ScalarNode& n = body[op.body];
    if (n.op != ScalarOp::Load) continue;
    const Access& access = body[n.access];
    FormulaName name = m_names[access.tensor.value];
    if (name.stacked.size() < 2 || access.indices.size() != op.outputRank + 1) continue;
    const auto is = [&](std::size_t k, IndexVar v) {
      return !access.indices[k].isData() && access.indices[k].affine == IndexExpr::variable(v);
    };
    bool whole = is(0, kLoopVariable + static_cast<IndexVar>(depth));
    for (std::uint32_t k = 0; k < op.outputRank; ++k) whole = whole && is(k + 1, k);
    if (!whole) continue;
    name.around += counter + (name.stacked.front() != 0 ? " + 1, " : ", ");
    name.stacked.erase(name.stacked.begin());
    m_names[op.output.value] = std::move(name);
  }
}

}  // namespace nf
