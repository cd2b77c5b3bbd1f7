// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/access_oracle.h"

#include <algorithm>

#include "core/autodiff/phase.h"
#include "core/autodiff/points.h"

namespace nf::testing {
namespace {

std::uint64_t weightOf(std::span<const std::int64_t> y) {
  Hasher hasher;
  for (const std::int64_t v : y) hasher.add(static_cast<std::uint64_t>(v));
  return hasher.finish().low % 1000000000 + 1;
}

std::string tuple(std::span<const std::int64_t> values) {
  std::string text;
  for (const std::int64_t v : values) text += (text.empty() ? "(" : ", ") + std::to_string(v);
  return text + ")";
}

}  // namespace

OracleResult compareExactly(const AccessProblem& problem, const Inverse& inverse) {
  constexpr std::size_t kAll = std::size_t{1} << 40;
  OracleResult result;
  const std::size_t n = problem.domain.size(), m = problem.shape.size();
  result.domain = result.elements = 1;
  for (const Range& r : problem.domain) result.domain *= r.extent();
  for (const std::int64_t extent : problem.shape) result.elements *= extent;
  std::vector<std::uint64_t> expected(static_cast<std::size_t>(result.elements), 0), got = expected;
  std::vector<std::int64_t> fibre(expected.size(), 0);

  Tape forward(n);
  std::vector<Tape::Slot> access;
  std::vector<Tape::Test> guards;
  for (const IndexExpr& f : problem.access) access.push_back(forward.add(f));
  for (const IndexCond& g : problem.guards) guards.push_back(forward.add(g));
  std::vector<std::int64_t> y(forward.slots());
  // The element that y reads; -1 where it reads none.
  const auto elementOf = [&] {
    forward.run(y);
    std::int64_t element = 0;
    for (std::size_t j = 0; j < m; ++j) {
      const std::int64_t z = y[access[j]];
      if (z < 0 || z >= problem.shape[j]) return std::int64_t{-1};
      element = element * problem.shape[j] + z;
    }
    return std::all_of(guards.begin(), guards.end(), [&](const Tape::Test& g) { return g.holds(y); }) ? element : std::int64_t{-1};
  };
  BoxPoints domain(problem.domain, kAll);
  while (domain.next(y)) {
    const std::int64_t element = elementOf();
    if (element < 0) continue;
    expected[static_cast<std::size_t>(element)] += weightOf(std::span(y).first(n));
    ++fibre[static_cast<std::size_t>(element)];
    ++result.contributions;
  }
  for (const std::int64_t size : fibre) {
    result.largestFibre = std::max(result.largestFibre, size);
    result.inhabited += size > 0 ? 1 : 0;
  }

  if (inverse.state != Inverse::State::Empty) {
    Tape nest(m + inverse.axes.size());
    std::vector<Tape::Slot> solution;
    std::vector<Tape::Test> ofZ, ofT;
    for (const IndexExpr& e : inverse.y) solution.push_back(nest.add(e));
    for (const IndexCond& g : inverse.zGuards) ofZ.push_back(nest.add(g));
    for (const IndexCond& g : inverse.tGuards) ofT.push_back(nest.add(g));
    std::vector<Range> box;
    for (const std::int64_t extent : problem.shape) box.push_back({0, extent - 1});
    for (const std::int64_t extent : inverse.axes) box.push_back({0, extent - 1});
    std::vector<std::int64_t> values(nest.slots());
    BoxPoints points(box, kAll);
    while (points.next(values)) {
      nest.run(values);
      const auto holds = [&](const Tape::Test& g) { return g.holds(values); };
      if (!std::all_of(ofZ.begin(), ofZ.end(), holds)) continue;
      ++result.hoistedVisits;
      if (!std::all_of(ofT.begin(), ofT.end(), holds)) continue;
      ++result.guardedVisits;
      std::int64_t z = 0;
      for (std::size_t j = 0; j < m; ++j) z = z * problem.shape[j] + values[j];
      bool inside = true;
      for (std::size_t i = 0; i < n; ++i) {
        y[i] = values[solution[i]];
        inside = inside && y[i] >= problem.domain[i].lo && y[i] <= problem.domain[i].hi;
      }
      if (!inside || elementOf() != z) {
        result.wrong = "at (z, t) = " + tuple(std::span(values).first(box.size())) +
                       " the gather visits y = " + tuple(std::span(y).first(n)) + ", which does not read z";
        return result;
      }
      got[static_cast<std::size_t>(z)] += weightOf(std::span(y).first(n));
    }
    result.passing = result.hoistedVisits / std::max<std::int64_t>(1, inverse.tripsPerZ);
  }
  for (std::size_t z = 0; z < expected.size(); ++z)
    if (expected[z] != got[z]) {
      result.wrong =
          "element " + std::to_string(z) + " has " + std::to_string(got[z]) + " instead of " + std::to_string(expected[z]);
      return result;
    }
  result.right = true;
  return result;
}

std::vector<AccessPhase> phasesOf(const AccessProblem& problem, const Inverse& inverse) {
  const Nest whole = nestOf(problem.shape, inverse);
  std::vector<std::int64_t> moduli = phaseModuli(whole);
  keepWithin({}, moduli);
  std::vector<AccessPhase> phases;
  const InvertOptions quotas;
  for (const NestClass& one : splitPhases(whole, moduli, quotas.pruneQuota)) {
    AccessPhase phase{one.modulus, one.phase, problem, inverseOf(one.nest)};
    phase.problem.shape = one.nest.shape;
    for (std::size_t j = 0; j < one.modulus.size(); ++j) {
      if (one.modulus[j] == 1) continue;
      const IndexExpr offset = problem.access[j] - IndexExpr(one.phase[j]);
      phase.problem.access[j] = floorDiv(offset, one.modulus[j]);
      phase.problem.guards.push_back(IndexCond::eq0(floorMod(offset, one.modulus[j])));
    }
    const bool proved = certify(phase.problem, phase.inverse, quotas.certificateQuota).value_or(false);
    phase.inverse.state = proved ? Inverse::State::Gather : Inverse::State::Uncertified;
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::string wrongPhases(const AccessProblem& problem, const Inverse& inverse) {
  std::int64_t contributions = 0;
  for (const AccessPhase& phase : phasesOf(problem, inverse)) {
    std::string where = "class";
    for (const std::int64_t p : phase.phase) where += " " + std::to_string(p);
    const OracleResult exact = compareExactly(phase.problem, phase.inverse);
    if (!exact.right) return where + ": " + exact.wrong;
    if (phase.inverse.state != Inverse::State::Gather) return where + " is not proved";
    contributions += exact.contributions;
  }
  const std::int64_t all = compareExactly(problem, inverse).contributions;
  if (contributions == all) return {};
  return "the classes have " + std::to_string(contributions) + " of " + std::to_string(all) + " contributions";
}

std::string describe(const AccessProblem& problem) {
  const auto name = [](IndexVar v) { return "y" + std::to_string(v); };
  std::string text;
  for (std::size_t i = 0; i < problem.domain.size(); ++i)
    text += name(static_cast<IndexVar>(i)) + " in " + std::to_string(problem.domain[i].lo) + ".." +
            std::to_string(problem.domain[i].hi) + "; ";
  text += "A[";
  for (std::size_t j = 0; j < problem.access.size(); ++j) text += (j ? ", " : "") + toText(problem.access[j], name);
  text += "] of shape [";
  for (std::size_t j = 0; j < problem.shape.size(); ++j) text += (j ? ", " : "") + std::to_string(problem.shape[j]);
  text += "]";
  for (const IndexCond& g : problem.guards) text += "; where " + toText(g, name);
  return text;
}

namespace {

AccessProblem withoutVariable(const AccessProblem& problem, std::size_t variable) {
  const auto renumber = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v == variable) return IndexExpr(problem.domain[variable].lo);
    return IndexExpr::variable(v > variable ? v - 1 : v);
  };
  AccessProblem smaller = problem;
  smaller.domain.erase(smaller.domain.begin() + static_cast<std::ptrdiff_t>(variable));
  for (IndexExpr& f : smaller.access) f = substitute(f, renumber);
  for (IndexCond& g : smaller.guards) g = substitute(g, renumber);
  return smaller;
}

// Every problem one step smaller.
std::vector<AccessProblem> smaller(const AccessProblem& problem) {
  std::vector<AccessProblem> result;
  for (std::size_t g = 0; g < problem.guards.size(); ++g) {
    AccessProblem p = problem;
    p.guards.erase(p.guards.begin() + static_cast<std::ptrdiff_t>(g));
    result.push_back(std::move(p));
    for (const IndexCond& operand : problem.guards[g].operands) {
      p = problem;
      p.guards[g] = operand;
      result.push_back(std::move(p));
    }
  }
  for (std::size_t j = 0; j < problem.access.size() && problem.access.size() > 1; ++j) {
    AccessProblem p = problem;
    p.access.erase(p.access.begin() + static_cast<std::ptrdiff_t>(j));
    p.shape.erase(p.shape.begin() + static_cast<std::ptrdiff_t>(j));
    result.push_back(std::move(p));
  }
  for (std::size_t i = 0; i < problem.domain.size(); ++i) result.push_back(withoutVariable(problem, i));
  for (std::size_t i = 0; i < problem.domain.size(); ++i) {
    if (problem.domain[i].extent() <= 1) continue;
    AccessProblem p = problem;
    --p.domain[i].hi;
    result.push_back(p);
    p = problem;
    ++p.domain[i].lo;
    result.push_back(std::move(p));
  }
  for (std::size_t j = 0; j < problem.shape.size(); ++j) {
    if (problem.shape[j] <= 1) continue;
    AccessProblem p = problem;
    --p.shape[j];
    result.push_back(std::move(p));
  }
  for (std::size_t j = 0; j < problem.access.size(); ++j)
    for (const IndexTerm& t : problem.access[j].terms()) {
      AccessProblem p = problem;
      const IndexExpr atom =
          t.atom.isFloorDiv() ? floorDiv(*t.atom.numerator, t.atom.divisor) : IndexExpr::variable(t.atom.variable);
      p.access[j] = problem.access[j] - t.coefficient * atom;
      result.push_back(p);
      if (t.coefficient != 1) {
        p.access[j] = p.access[j] + atom;
        result.push_back(std::move(p));
      }
    }
  return result;
}

}  // namespace

AccessProblem shrink(AccessProblem problem, const std::function<bool(const AccessProblem&)>& fails) {
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (AccessProblem& candidate : smaller(problem)) {
      if (!fails(candidate)) continue;
      problem = std::move(candidate);
      shrunk = true;
      break;
    }
  }
  return problem;
}

AccessProblem secondOrder(const AccessProblem& problem, const Inverse& inverse, std::uint32_t keep) {
  AccessProblem second;
  for (const std::int64_t extent : problem.shape) second.domain.push_back({0, extent - 1});
  for (const std::int64_t extent : inverse.axes) second.domain.push_back({0, extent - 1});
  for (std::size_t i = 0; i < inverse.y.size(); ++i) {
    if (i > 0 && (keep >> i & 1) == 0) continue;
    second.access.push_back(inverse.y[i] - IndexExpr(problem.domain[i].lo));
    second.shape.push_back(problem.domain[i].extent());
  }
  second.guards = inverse.zGuards;
  second.guards.insert(second.guards.end(), inverse.tGuards.begin(), inverse.tGuards.end());
  return second;
}

}  // namespace nf::testing
