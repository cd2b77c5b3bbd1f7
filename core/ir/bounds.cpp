// SPDX-License-Identifier: Apache-2.0
#include "core/ir/bounds.h"

#include <algorithm>

#include "core/support/checked.h"

namespace nf {

bool fits64Bits(const IndexExpr& e, const RangeOf& ranges) {
  if (e.overflowed()) return false;
  Range total{e.constant(), e.constant()};
  for (const IndexTerm& t : e.terms()) {
    const IndexExpr atom = t.atom.isFloorDiv() ? floorDiv(*t.atom.numerator, t.atom.divisor) : IndexExpr::variable(t.atom.variable);
    if (t.atom.isFloorDiv() && !fits64Bits(*t.atom.numerator, ranges)) return false;
    const auto range = bounds(atom, ranges);
    if (!range) return false;
    const auto atLow = checkedMul(t.coefficient, range->lo), atHigh = checkedMul(t.coefficient, range->hi);
    if (!atLow || !atHigh) return false;
    const auto low = checkedAdd(total.lo, std::min(*atLow, *atHigh)), high = checkedAdd(total.hi, std::max(*atLow, *atHigh));
    if (!low || !high) return false;
    total = {*low, *high};
  }
  return true;
}

BoundsProver::BoundsProver(std::vector<Range> axes, std::vector<std::int64_t> counters)
    : m_ranges(std::move(axes)), m_axes(m_ranges.size()) {
  for (const std::int64_t trips : counters) m_ranges.push_back({0, trips - 1});
}

BoundsProver::~BoundsProver() = default;

IndexExpr BoundsProver::flattened(const IndexExpr& e) const {
  return substitute(e, [this](IndexVar v) -> std::optional<IndexExpr> {
    if (v < kLoopVariable) return std::nullopt;
    return IndexExpr::variable(static_cast<IndexVar>(m_axes + (v - kLoopVariable)));
  });
}

IntegerSet BoundsProver::pointsWhere(std::span<const IndexCond> guards) {
  if (!m_context) m_context = std::make_unique<IntegerContext>();
  IntegerSet points = IntegerSet::box(*m_context, m_ranges);
  for (const IndexCond& guard : guards)
    points = points.constrained(substitute(guard, [this](IndexVar v) -> std::optional<IndexExpr> {
      if (v < kLoopVariable) return std::nullopt;
      return IndexExpr::variable(static_cast<IndexVar>(m_axes + (v - kLoopVariable)));
    }));
  return points;
}

std::optional<Range> BoundsProver::rangeWhere(std::span<const IndexCond> guards, const IndexExpr& index) {
  const IndexExpr e = flattened(index);
  if (e.overflowed()) return std::nullopt;
  const IntegerSet points = pointsWhere(guards);
  const auto empty = points.isEmpty();
  if (!empty) return std::nullopt;
  if (*empty) return Range{};
  return points.rangeOf(e);
}

std::optional<bool> BoundsProver::inBounds(std::span<const IndexCond> guards, const IndexExpr& index, std::int64_t extent) {
  const IndexExpr e = flattened(index);
  if (e.overflowed()) return false;
  const RangeOf ranges = [this](IndexVar v) -> std::optional<Range> {
    if (v < m_ranges.size()) return m_ranges[v];
    return std::nullopt;
  };
  const auto interval = bounds(e, ranges);
  if (interval && interval->lo >= 0 && interval->hi < extent) return true;
  const auto exact = rangeWhere(guards, index);
  if (!exact) return std::nullopt;
  return exact->empty() || (exact->lo >= 0 && exact->hi < extent);
}

}  // namespace nf
