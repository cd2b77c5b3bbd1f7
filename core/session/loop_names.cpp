// SPDX-License-Identifier: Apache-2.0
#include "core/session/loop_names.h"

#include <algorithm>

namespace nf {
namespace {

std::string stemOf(const std::string& name) { return name.substr(0, name.find('#')); }

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
  return {carriedName(loop, carried), stepText(m_counters, std::to_string(loop.reversed ? loop.trips : 0)), false, 0};
}

FormulaName LoopNames::last(const Loop& loop, const Loop::Carried& carried) const {
  return {carriedName(loop, carried), stepText(m_counters, std::to_string(loop.reversed ? 0 : loop.trips)), false, 0};
}

std::string LoopNames::next(const Loop& loop, const std::vector<std::string>& counters) const {
  return stepText(m_counters, counters.back() + (loop.reversed ? "" : " + 1"));
}

// By the name in the body and what is added to the counter.
FormulaName LoopNames::stepped(const Loop& loop, TensorId inner) const {
  for (const Loop::Carried& c : loop.carried)
    if (c.innerIn == inner) return {carriedName(loop, c), {}, false, loop.reversed ? 1 : 0};
  for (const Loop::Carried& c : loop.carried)
    if (c.innerOut == inner) return {carriedName(loop, c), {}, false, loop.reversed ? 0 : 1};
  const std::string& name = (*loop.body)[inner].name;
  if (const auto partial = partialOf(name))
    if (const auto known = m_carried.find(partial->by); known != m_carried.end())
      return {partial->before + known->second.stem + partial->behind, {}, false, known->second.offset};
  return {name, {}, false, 0};
}

void LoopNames::place(const Program& program, const std::vector<std::string>& counters) {
  m_counters = counters;
  m_names.resize(program.tensors.size());
  std::vector<bool> known(program.tensors.size(), false);
  std::map<std::string, FormulaName, std::less<>> lasts;
  for (const Loop& loop : program.loops) {
    for (const Loop::Carried& c : loop.carried) {
      const Tensor& initial = program[c.initial];
      if (!known[c.initial.value] && initial.kind == TensorKind::Intermediate && initial.name == carriedName(loop, c)) {
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
      const std::string &all = program[s.outer].name, made = (*loop.body)[s.inner].name + "_steps";
      if (all != made && !all.starts_with(made + '#')) continue;
      FormulaName& name = m_names[s.outer.value];
      name = stepped(loop, s.inner);
      name.stacked = true;
      known[s.outer.value] = true;
    }
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (known[t]) continue;
    m_names[t].name = program.tensors[t].name;
    const auto partial = partialOf(program.tensors[t].name);
    const auto by = partial ? lasts.find(partial->by) : lasts.end();
    if (by != lasts.end()) m_names[t] = {partial->before + by->second.name + partial->behind, by->second.step, false, 0};
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
    if (given[t] || name.stacked || !name.step.empty()) continue;
    name = stepped(loop, TensorId(t));
    name.step = stepText(around, counters.back() + (name.offset != 0 ? " + 1" : ""));
    name.offset = 0;
  }
  return names;
}

}  // namespace nf
