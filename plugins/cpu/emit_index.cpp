// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emitter.h"

namespace nf::cpu {

IndexExpr Emitter::bind(const IndexExpr& e) {
  bool nested = false;
  for (const IndexTerm& term : e.terms()) {
    if (term.atom.isFloorDiv()) {
      nested = true;
      break;
    }
  }
  if (m_constants.empty()) return e;
  const auto with = [&](IndexVar v) -> std::optional<IndexExpr> {
    const auto found = m_constants.find(v);
    if (found != m_constants.end()) return IndexExpr(found->second);
    return std::nullopt;
  };
  if (nested) return simplify(substitute(e, with), m_f.ranges());
  bool any = false;
  for (const IndexTerm& term : e.terms()) any = any || m_constants.contains(term.atom.variable);
  return any ? substitute(e, with) : e;
}

std::size_t Emitter::depthOf(const IndexAtom& atom) {
  if (!atom.isFloorDiv()) {
    if (atom.variable >= kLoopVariable) return 0;
    return m_depth.at(atom.variable);
  }
  std::size_t depth = 0;
  for (const IndexTerm& t : atom.numerator->terms()) depth = std::max(depth, depthOf(t.atom));
  return depth;
}

LV* Emitter::counterValue(std::uint32_t number) {
  auto& known = m_counters[number];
  if (!known)
    known = inScope(0, [&] {
      LV* counters = field(m_call, 2, m_b.getPtrTy());
      return m_b.CreateLoad(m_b.getInt64Ty(), m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), counters, number));
    });
  return known;
}

LV* Emitter::atomValue(const IndexAtom& atom) {
  if (!atom.isFloorDiv()) {
    if (atom.variable >= kLoopVariable) return counterValue(atom.variable - kLoopVariable);
    return m_runtime.at(atom.variable);
  }
  LV* numerator = index(*atom.numerator);
  const auto range = bounds(*atom.numerator, m_f.ranges());
  LV* divisor = m_b.getInt64(static_cast<std::uint64_t>(atom.divisor));
  if (range && range->lo >= 0) return m_b.CreateUDiv(numerator, divisor);
  if ((atom.divisor & (atom.divisor - 1)) == 0)
    return m_b.CreateAShr(numerator, static_cast<std::uint64_t>(__builtin_ctzll(static_cast<std::uint64_t>(atom.divisor))));
  LV* negative = m_b.CreateICmpSLT(numerator, m_b.getInt64(0));
  LV* shifted = m_b.CreateSub(numerator, m_b.getInt64(static_cast<std::uint64_t>(atom.divisor - 1)));
  return m_b.CreateSDiv(m_b.CreateSelect(negative, shifted, numerator), divisor);
}

LV* Emitter::index(const IndexExpr& unbound) {
  const IndexExpr e = bind(unbound);
  std::map<std::size_t, IndexExpr> byDepth;
  for (const IndexTerm& term : e.terms()) {
    IndexExpr one =
        term.atom.isFloorDiv() ? floorDiv(*term.atom.numerator, term.atom.divisor) : IndexExpr::variable(term.atom.variable);
    IndexExpr& sum = byDepth[depthOf(term.atom)];
    sum = sum + term.coefficient * one;
  }
  LV* sum = nullptr;
  IndexExpr so_far;
  for (const auto& [depth, part] : byDepth) {
    so_far = so_far + part;
    auto& cache = m_scopes[depth].indices;
    const auto found = cache.find(so_far);
    if (found != cache.end()) {
      sum = found->second;
      continue;
    }
    LV* previous = sum;
    sum = inScope(depth, [&] {
      LV* total = previous;
      for (const IndexTerm& term : part.terms()) {
        LV* v = atomValue(term.atom);
        if (term.coefficient != 1)
          v = m_b.CreateMul(v, m_b.getInt64(static_cast<std::uint64_t>(term.coefficient)), "", false, true);
        total = total ? m_b.CreateAdd(total, v, "", false, true) : v;
      }
      return total ? total : m_b.getInt64(0);
    });
    m_scopes[depth].indices.emplace(so_far, sum);
  }
  LV* constant = m_b.getInt64(static_cast<std::uint64_t>(e.constant()));
  if (!sum) return constant;
  return e.constant() == 0 ? sum : m_b.CreateAdd(sum, constant, "", false, true);
}

bool Emitter::fits32(const IndexExpr& e) const {
  const auto range = bounds(e, m_f.ranges());
  return range && range->lo > -(1ll << 30) && range->hi < (1ll << 30);
}

LV* Emitter::laneVector(const IndexExpr& e, bool narrow) {
  llvm::Type* element = narrow ? m_b.getInt32Ty() : m_b.getInt64Ty();
  auto* type = llvm::FixedVectorType::get(element, m_lanes);
  const auto splat = [&](LV* v) { return m_b.CreateVectorSplat(m_lanes, narrow ? m_b.CreateTrunc(v, element) : v); };
  const auto constant = [&](std::int64_t c) { return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(c), true); };
  IndexExpr uniform(e.constant());
  LV* sum = nullptr;
  const auto add = [&](LV* v) { sum = sum ? m_b.CreateAdd(sum, v) : v; };
  for (const IndexTerm& term : e.terms()) {
    if (!term.atom.isFloorDiv()) {
      if (term.atom.variable != m_lane.value) {
        uniform = uniform + term.coefficient * IndexExpr::variable(term.atom.variable);
        continue;
      }
      std::vector<llvm::Constant*> lanes;
      for (unsigned l = 0; l < m_lanes; ++l)
        lanes.push_back(llvm::ConstantInt::get(element, static_cast<std::uint64_t>(term.coefficient * l), true));
      add(llvm::ConstantVector::get(lanes));
      continue;
    }
    if (!usesLane(*term.atom.numerator)) {
      uniform = uniform + term.coefficient * floorDiv(*term.atom.numerator, term.atom.divisor);
      continue;
    }
    LV* numerator = laneVector(*term.atom.numerator, narrow);
    const auto range = bounds(*term.atom.numerator, m_f.ranges());
    LV* quotient;
    const std::int64_t d = term.atom.divisor;
    if (range && range->lo >= 0) {
      quotient = m_b.CreateUDiv(numerator, constant(d));
    } else if ((d & (d - 1)) == 0) {
      quotient = m_b.CreateAShr(numerator, constant(__builtin_ctzll(static_cast<std::uint64_t>(d))));
    } else {
      LV* negative = m_b.CreateICmpSLT(numerator, constant(0));
      quotient = m_b.CreateSDiv(m_b.CreateSelect(negative, m_b.CreateSub(numerator, constant(d - 1)), numerator), constant(d));
    }
    add(term.coefficient == 1 ? quotient : m_b.CreateMul(quotient, constant(term.coefficient)));
  }
  if (!(uniform == IndexExpr(0)) || !sum) add(splat(index(uniform)));
  return sum;
}

bool Emitter::narrowEverywhere(const IndexExpr& e) const {
  if (!fits32(e)) return false;
  for (const IndexTerm& term : e.terms()) {
    if (term.coefficient > (1 << 30) || term.coefficient < -(1 << 30)) return false;
    if (term.atom.isFloorDiv() && (term.atom.divisor > (1 << 30) || !narrowEverywhere(*term.atom.numerator))) return false;
  }
  return true;
}

LaneOffsets Emitter::lanes(const IndexExpr& unbound) {
  const IndexExpr e = bind(unbound);
  LaneOffsets result;
  if (!usesLane(e)) {
    result.base = index(e);
    result.fixed.assign(m_lanes, 0);
    return result;
  }
  std::int64_t stride = 0;
  bool inFloor = false;
  IndexExpr rest(e.constant());
  for (const IndexTerm& term : e.terms()) {
    if (!term.atom.isFloorDiv()) {
      if (term.atom.variable == m_lane.value) stride = term.coefficient;
      else rest = rest + term.coefficient * IndexExpr::variable(term.atom.variable);
    } else {
      inFloor = inFloor || usesLane(*term.atom.numerator);
      rest = rest + term.coefficient * floorDiv(*term.atom.numerator, term.atom.divisor);
    }
  }
  if (!inFloor) {
    result.base = index(rest);
    for (unsigned l = 0; l < m_lanes; ++l) result.fixed.push_back(stride * l);
    return result;
  }
  // What only the lane decides is a number a lane.
  IndexExpr ofLane, others(e.constant());
  for (const IndexTerm& term : e.terms()) {
    const bool uses = term.atom.isFloorDiv() ? usesLane(*term.atom.numerator) : term.atom.variable == m_lane.value;
    IndexExpr& part = uses ? ofLane : others;
    part = part + term.coefficient * (term.atom.isFloorDiv() ? floorDiv(*term.atom.numerator, term.atom.divisor)
                                                             : IndexExpr::variable(term.atom.variable));
  }
  std::vector<IndexVar> used;
  ofLane.collectVariables(used);
  if (used.size() == 1) {
    const auto at = [&](unsigned lane) { return evaluate(ofLane, [&](IndexVar) { return static_cast<std::int64_t>(lane); }); };
    for (unsigned l = 0; l < m_lanes; ++l) result.fixed.push_back(at(l) - at(0));
    result.base = index(others + IndexExpr(at(0)));
    return result;
  }
  // Floors of the lane: the distances may still be constants, (16*b + l)//8 for one.
  std::optional<IndexExpr> first;
  for (unsigned l = 0; l < m_lanes; ++l) {
    const IndexExpr at = simplify(substitute(e,
                                             [&](IndexVar v) -> std::optional<IndexExpr> {
                                               if (v == m_lane.value) return IndexExpr(static_cast<std::int64_t>(l));
                                               return std::nullopt;
                                             }),
                                  m_f.ranges());
    if (!first) first = at;
    const IndexExpr distance = at - *first;
    if (!distance.isConstant()) {
      result.fixed.clear();
      break;
    }
    result.fixed.push_back(distance.constant());
  }
  if (!result.fixed.empty()) {
    result.base = index(*first);
    return result;
  }
  result.base = m_b.getInt64(0);
  result.vector = laneVector(e, narrowEverywhere(e));
  return result;
}

}  // namespace nf::cpu
