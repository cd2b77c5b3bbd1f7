// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/ir/index_expr.h"

namespace nf {

// Evaluates many index expressions and conditions at many points: equal floors are computed once.
class Tape {
 public:
  using Slot = std::uint32_t;

  // A condition over slots.
  struct Test {
    IndexCond::Kind kind = IndexCond::Kind::And;
    Slot slot = 0;
    std::vector<Test> operands;
    bool holds(std::span<const std::int64_t> values) const;
  };

  explicit Tape(std::size_t variables) : m_variables(variables) {}  // slots 0 .. variables-1 are the variables
  Slot add(const IndexExpr& e);
  Test add(const IndexCond& c);

  std::size_t slots() const { return m_variables + m_instructions.size(); }
  // values: slots() of them, the variables' set; computes the others.
  void run(std::span<std::int64_t> values) const;

 private:
  struct Operand {
    Slot slot;
    std::int64_t coefficient;
  };
  struct Instruction {
    std::size_t begin, end;  // operands
    std::int64_t constant, divisor;
  };
  Slot add(const IndexExpr& e, std::int64_t divisor);

  std::size_t m_variables;
  std::vector<Instruction> m_instructions;
  std::vector<Operand> m_operands;
  std::map<std::pair<IndexExpr, std::int64_t>, Slot> m_known;
};

// Points of a box: all of them where they are at most `budget`, else a fixed sample rich in corners and edges.
class BoxPoints {
 public:
  BoxPoints(std::vector<Range> box, std::size_t budget);
  bool exhaustive() const { return m_exhaustive; }
  std::size_t count() const { return m_count; }
  // Sets `point` (as many values as the box has dimensions) to the next point, the last dimension running fastest; false at the end.
  bool next(std::span<std::int64_t> point);

 private:
  std::vector<Range> m_box;
  bool m_exhaustive = false;
  std::size_t m_count = 0;
  std::size_t m_done = 0;
  std::uint64_t m_random = 0x9e3779b97f4a7c15ull;
};

}  // namespace nf
