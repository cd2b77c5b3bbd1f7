// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/phase.h"

#include <algorithm>
#include <numeric>

#include "core/autodiff/explanation.h"
#include "core/support/checked.h"

namespace nf {
namespace {

void collect(const IndexExpr& e, std::vector<std::int64_t>& moduli) {
  for (const IndexTerm& t : e.terms()) {
    if (!t.atom.isFloorDiv()) continue;
    for (const IndexTerm& inner : t.atom.numerator->terms()) {
      if (inner.atom.isFloorDiv() || inner.atom.variable >= moduli.size()) continue;
      const std::int64_t h = t.atom.divisor / std::gcd(t.atom.divisor, inner.coefficient);
      std::int64_t& modulus = moduli[inner.atom.variable];
      modulus = checkedMul(modulus / std::gcd(modulus, h), h).value_or(modulus);
    }
    collect(*t.atom.numerator, moduli);
  }
}

void collect(const IndexCond& c, std::vector<std::int64_t>& moduli) {
  collect(c.expr, moduli);
  for (const IndexCond& operand : c.operands) collect(operand, moduli);
}

}  // namespace

std::vector<std::int64_t> phaseModuli(const Nest& nest) {
  std::vector<std::int64_t> moduli(nest.shape.size(), 1);
  for (const IndexExpr& e : nest.y) collect(e, moduli);
  for (const Guard& g : nest.guards) collect(g.condition, moduli);
  return moduli;
}

void keepWithin(const PhaseOptions& options, std::vector<std::int64_t>& moduli) {
  std::int64_t count = 1;
  for (std::int64_t& h : moduli) {
    if (h > options.mostPerDimension || count * h > options.mostPhases) h = 1;
    count *= h;
  }
}

std::vector<NestClass> splitPhases(const Nest& nest, const std::vector<std::int64_t>& modulus, const QuestionLimit& limit) {
  const std::size_t m = nest.shape.size();
  std::vector<NestClass> classes;
  std::vector<std::int64_t> phase(m, 0);
  for (bool more = true; more;) {
    NestClass one{modulus, phase, {}};
    for (std::size_t j = 0; j < m; ++j) one.nest.shape.push_back(floorDiv(nest.shape[j] - 1 - phase[j], modulus[j]) + 1);
    one.nest.axes = nest.axes;
    one.nest.tOfY = nest.tOfY;
    const auto split = [&](IndexVar v) -> std::optional<IndexExpr> {
      if (v >= m || modulus[v] == 1) return std::nullopt;
      return modulus[v] * IndexExpr::variable(v) + IndexExpr(phase[v]);
    };
    for (const IndexExpr& e : nest.y) one.nest.y.push_back(substitute(e, split));
    for (const Guard& g : nest.guards) one.nest.guards.push_back({substitute(g.condition, split), g.why});
    const bool inhabited =
        std::all_of(one.nest.shape.begin(), one.nest.shape.end(), [](std::int64_t extent) { return extent > 0; });
    if (inhabited) {
      Nest pruned = one.nest;
      switch (prune(pruned, limit, PartNames{})) {
        case NestState::Ready: one.nest = std::move(pruned); [[fallthrough]];
        case NestState::Overflow: classes.push_back(std::move(one)); break;  // it is right as it is
        case NestState::Empty: break;
      }
    }
    more = false;
    for (std::size_t j = m; j-- > 0 && !more;) {
      more = ++phase[j] < modulus[j];
      if (!more) phase[j] = 0;
    }
  }
  return classes;
}

PeeledGuards peelGuards(const std::vector<IndexCond>& guards, const std::function<bool(IndexVar)>& inner, const RangeOf& ranges) {
  PeeledGuards result;
  for (const IndexCond& g : guards) {
    IndexExpr least = g.expr;
    std::vector<IndexVar> used;
    collectVariables(g, used);
    bool linear = g.kind == IndexCond::Kind::GreaterEqualZero;
    bool any = false;
    for (const IndexVar v : used) {
      if (!linear || !inner(v)) continue;
      const std::int64_t c = g.expr.coefficientOf(v);
      const IndexExpr rest = least - c * IndexExpr::variable(v);
      const auto range = ranges(v);
      linear = range && !rest.uses(v);
      if (linear) least = rest + c * IndexExpr(c > 0 ? range->lo : range->hi);
      any = true;
    }
    least = simplify(least, ranges);
    const auto values = bounds(least, ranges);
    // A guard of outer variables alone is tested around the loops as it is; one that fails somewhere inside everywhere has no interior.
    const bool never = values && values->hi < 0;
    if (!linear || !any || least.overflowed() || never) {
      result.kept.push_back(g);
      continue;
    }
    result.peeled.push_back(g);
    IndexCond c = IndexCond::ge0(std::move(least));
    if (std::find(result.interior.begin(), result.interior.end(), c) == result.interior.end())
      result.interior.push_back(std::move(c));
  }
  return result;
}

}  // namespace nf
