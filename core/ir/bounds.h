// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/ir/index_expr.h"
#include "core/ir/integer_set.h"

namespace nf {

// Whether 64 bits hold every number met in evaluating e anywhere in the ranges. False where a range is not known.
bool fits64Bits(const IndexExpr& e, const RangeOf& ranges);

// Proves where index expressions stay: by intervals first, by isl when those do not decide. One prover serves one box of
// points; isl is not started before the first question that needs it.
class BoundsProver {
 public:
  // axes: ranges of variables 0, 1, ..; counters: trips of the enclosing loops, outermost first.
  explicit BoundsProver(std::vector<Range> axes, std::vector<std::int64_t> counters = {});
  ~BoundsProver();

  // Does `index` stay in [0, extent) wherever the guards hold? nullopt: quota reached.
  std::optional<bool> inBounds(std::span<const IndexCond> guards, const IndexExpr& index, std::int64_t extent);
  // Least and greatest value where the guards hold; an empty range where they never do. nullopt: quota reached or overflow.
  std::optional<Range> rangeWhere(std::span<const IndexCond> guards, const IndexExpr& index);

 private:
  IndexExpr flattened(const IndexExpr& e) const;  // counters as the variables behind the axes
  IntegerSet pointsWhere(std::span<const IndexCond> guards);
  std::vector<Range> m_ranges;
  std::size_t m_axes;
  std::unique_ptr<IntegerContext> m_context;
};

}  // namespace nf
