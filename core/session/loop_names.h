// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// A tensor's name in a formula: `name`, which may be a derivative, d(L)/d(h), and above it the step that it is of: h^(s + 1).
struct FormulaName {
  std::string name;
  std::string step;                   // "(s + 1)"; empty: none
  std::string around;                 // of one that is stacked in the body of a loop: the steps before its own, "t, "
  std::vector<std::int64_t> stacked;  // one of every step: so many first indices are steps, and what is added to each
};

// What a loop carries goes by one name, with the number of the steps before it: h^(0) is what it begins with, h^(s) and h^(s + 1) are what a
// step takes and hands on, and h^(5) is what is left behind 5 steps, whatever passes have called them (`h#2`). What a step makes besides is of that
// step, also where derivatives keep it for all steps (`d(L)/d(h.sum)_steps`).
class LoopNames {
 public:
  explicit LoopNames(const Program& program);  // of the outermost program
  // `counters`: of the loops around the loop's operator and of its own, the outermost first.
  LoopNames inside(const Loop& loop, const std::vector<std::string>& counters) const;
  const FormulaName& operator[](TensorId tensor) const { return m_names[tensor.value]; }
  // What a loop of this program begins with and what is left of it, as a number of steps.
  FormulaName first(const Loop& loop, const Loop::Carried& carried) const;
  FormulaName last(const Loop& loop, const Loop::Carried& carried) const;
  // The step of what is handed on, with the counters of `inside`.
  std::string next(const Loop& loop, const std::vector<std::string>& counters) const;
  bool hasLoops() const { return !m_primes.empty(); }

 private:
  struct Known {
    std::string stem;
    std::int64_t offset = 0;
  };
  LoopNames() = default;
  // A name without its step, and what is added to the counter.
  struct Stepped {
    std::string name;
    std::int64_t offset = 0;
  };
  void place(const Program& program, const std::vector<std::string>& counters);
  void placeSlices(const Program& body, const std::string& counter, std::size_t depth);
  Stepped stepped(const Loop& loop, TensorId inner) const;
  std::optional<FormulaName> stackedOf(const Loop& loop, const Loop::Stacked& stacked, const Program& program) const;
  bool isCarriedBy(const std::string& name, const Loop& loop, const Loop::Carried& carried) const;
  std::string carriedName(const Loop& loop, const Loop::Carried& carried) const;
  std::map<std::string, Known, std::less<>> m_carried;  // by their names in the bodies of loops
  std::map<const Loop*, std::string> m_primes;          // tell loops that carry a tensor of the same name apart
  std::vector<FormulaName> m_names;                     // by tensor
  std::vector<std::string> m_counters;
};

}  // namespace nf
