// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/phase.h"

#include <algorithm>
#include <numeric>

#include "core/autodiff/partition.h"
#include "core/support/checked.h"

namespace nf {

void collectPhaseModuli(const IndexExpr& e, std::vector<std::int64_t>& moduli) {
  for (const IndexTerm& t : e.terms()) {
    if (!t.atom.isFloorDiv()) continue;
    for (const IndexTerm& inner : t.atom.numerator->terms()) {
      if (inner.atom.isFloorDiv() || inner.atom.variable >= moduli.size()) continue;
      const std::int64_t h = t.atom.divisor / std::gcd(t.atom.divisor, inner.coefficient);
      std::int64_t& modulus = moduli[inner.atom.variable];
      modulus = checkedMul(modulus / std::gcd(modulus, h), h).value_or(modulus);
    }
    collectPhaseModuli(*t.atom.numerator, moduli);
  }
}

void collectPhaseModuli(const IndexCond& c, std::vector<std::int64_t>& moduli) {
  collectPhaseModuli(c.expr, moduli);
  for (const IndexCond& operand : c.operands) collectPhaseModuli(operand, moduli);
}

std::vector<std::int64_t> phaseModuli(const Inverse& inverse, std::size_t zDimensions) {
  std::vector<std::int64_t> moduli(zDimensions, 1);
  for (const IndexExpr& e : inverse.y) collectPhaseModuli(e, moduli);
  for (const IndexCond& g : inverse.zGuards) collectPhaseModuli(g, moduli);
  for (const IndexCond& g : inverse.tGuards) collectPhaseModuli(g, moduli);
  return moduli;
}

void keepWithin(const PhaseOptions& options, std::vector<std::int64_t>& moduli) {
  std::int64_t count = 1;
  for (std::int64_t& h : moduli) {
    if (h > options.mostPerDimension || count * h > options.mostPhases) h = 1;
    count *= h;
  }
}

namespace {

// One class of one part.
struct PartPhase {
  AccessProblem problem;  // y as before; component j is (f_j - phase_j) / modulus_j, where that divides
  Nest nest;
  std::vector<std::int64_t> phase;
};

AccessProblem problemOf(const AccessProblem& whole, const std::vector<std::int64_t>& modulus,
                        const std::vector<std::int64_t>& phase, const std::vector<std::int64_t>& shape) {
  AccessProblem problem = whole;
  problem.shape = shape;
  for (std::size_t j = 0; j < shape.size(); ++j) {
    if (modulus[j] == 1) continue;
    const IndexExpr offset = whole.access[j] - IndexExpr(phase[j]);
    problem.access[j] = floorDiv(offset, modulus[j]);
    problem.guards.push_back(IndexCond::eq0(floorMod(offset, modulus[j])));
  }
  return problem;
}

// Every class of a part that some y reaches.
std::vector<PartPhase> phasesOf(const Part& part, const std::vector<std::int64_t>& modulus, const QuestionLimit& limit) {
  const std::size_t m = part.z.size();
  std::vector<PartPhase> result;
  std::vector<std::int64_t> phase(m, 0);
  for (bool more = true; more;) {
    PartPhase one;
    one.phase = phase;
    for (std::size_t j = 0; j < m; ++j) one.nest.shape.push_back(floorDiv(part.problem.shape[j] - 1 - phase[j], modulus[j]) + 1);
    one.nest.axes = part.inverse.axes;
    one.nest.tOfY = part.inverse.tOfY;
    const auto split = [&](IndexVar v) -> std::optional<IndexExpr> {
      if (v >= m) return std::nullopt;
      return modulus[v] * IndexExpr::variable(v) + IndexExpr(phase[v]);
    };
    for (const IndexExpr& e : part.inverse.y) one.nest.y.push_back(substitute(e, split));
    for (const auto* guards : {&part.inverse.zGuards, &part.inverse.tGuards})
      for (const IndexCond& g : *guards) one.nest.guards.push_back({substitute(g, split), {}});
    one.problem = problemOf(part.problem, modulus, phase, one.nest.shape);
    const bool reachable =
        std::all_of(one.nest.shape.begin(), one.nest.shape.end(), [](std::int64_t extent) { return extent > 0; });
    if (reachable && prune(one.nest, limit, PartNames{}) != NestState::Empty) result.push_back(std::move(one));
    more = false;
    for (std::size_t j = m; j-- > 0 && !more;) {
      more = ++phase[j] < modulus[j];
      if (!more) phase[j] = 0;
    }
  }
  return result;
}

}  // namespace

std::vector<PhaseNest> splitPhases(const AccessProblem& problem, const Inverse& inverse, const PhaseOptions& phases,
                                   const InvertOptions& options) {
  if (inverse.state != Inverse::State::Gather) return {};
  const std::size_t m = problem.shape.size();
  std::vector<std::int64_t> modulus = phaseModuli(inverse, m);
  keepWithin(phases, modulus);
  const auto parts = partsOf(problem, inverse);
  if (!parts) return {};
  std::vector<std::vector<PartPhase>> choices;
  for (const Part& part : *parts) {
    std::vector<std::int64_t> ofPart;
    for (const std::size_t j : part.z) ofPart.push_back(modulus[j]);
    choices.push_back(phasesOf(part, ofPart, options.pruneQuota));
    if (choices.back().empty()) return {};
  }
  // Every combination of the parts' classes, the last part's running fastest.
  std::vector<PhaseNest> result;
  std::vector<std::size_t> chosen(parts->size(), 0);
  for (bool more = true; more;) {
    PhaseNest one;
    one.modulus = modulus;
    one.phase.assign(m, 0);
    one.shape = problem.shape;
    one.inverse.y.resize(problem.domain.size());
    for (std::size_t p = 0; p < parts->size(); ++p) {
      const PartPhase& phase = choices[p][chosen[p]];
      for (std::size_t k = 0; k < (*parts)[p].z.size(); ++k) {
        one.phase[(*parts)[p].z[k]] = phase.phase[k];
        one.shape[(*parts)[p].z[k]] = phase.nest.shape[k];
      }
      appendNest((*parts)[p], phase.nest, m, one.inverse);
    }
    for (const std::int64_t extent : one.inverse.axes) one.inverse.tripsPerZ *= extent;  // at most the whole inverse's
    one.inverse.phaseModulus = phaseModuli(one.inverse, m);
    const AccessProblem ofPhase = problemOf(problem, one.modulus, one.phase, one.shape);
    const bool proved = certify(ofPhase, one.inverse, options.certificateQuota).value_or(false);
    one.inverse.state = proved ? Inverse::State::Gather : Inverse::State::Uncertified;
    if (!proved) one.inverse.why = "the phase is not proved";
    result.push_back(std::move(one));
    more = false;
    for (std::size_t p = parts->size(); p-- > 0 && !more;) {
      more = ++chosen[p] < choices[p].size();
      if (!more) chosen[p] = 0;
    }
  }
  return result;
}

Peeled peelGuards(const Inverse& inverse, std::size_t zDimensions) {
  Peeled result;
  result.loops.resize(inverse.axes.size());
  for (const IndexCond& g : inverse.tGuards) {
    std::vector<IndexVar> used;
    collectVariables(g, used);
    const bool compares = g.kind == IndexCond::Kind::GreaterEqualZero || g.kind == IndexCond::Kind::EqualZero;
    const IndexVar last = used.empty() ? 0 : used.back();
    const std::int64_t c = compares && last >= zDimensions ? g.expr.coefficientOf(last) : 0;
    const IndexExpr rest = g.expr - c * IndexExpr::variable(last);
    if (c == 0 || rest.uses(last) || rest.overflowed()) {
      result.guards.push_back(g);
      continue;
    }
    PeeledLoop& loop = result.loops[last - zDimensions];
    const bool equality = g.kind == IndexCond::Kind::EqualZero;
    // c*t + rest >= 0: t >= ceil(-rest/c), or t <= floor(rest/-c)
    if (c > 0) loop.lower.push_back(-floorDiv(rest, c));
    if (c < 0) loop.upper.push_back(floorDiv(rest, -c));
    if (equality && c > 0) loop.upper.push_back(floorDiv(-rest, c));
    if (equality && c < 0) loop.lower.push_back(-floorDiv(-rest, -c));
  }
  return result;
}

}  // namespace nf
