// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/linear_system.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/autodiff/nest.h"
#include "core/autodiff/points.h"
#include "core/ir/rewrite.h"
#include "core/support/checked.h"

namespace nf {
namespace {

// Below it a domain is enumerated: exact, and faster than one question to isl.
constexpr std::size_t kEnumerated = 2048;

RangeOf rangesOf(const std::vector<Range>& ranges) {
  return [&ranges](IndexVar v) -> std::optional<Range> {
    if (v < ranges.size()) return ranges[v];
    return std::nullopt;
  };
}

void collectFloors(const IndexExpr& e, std::set<IndexAtom>& into) {
  for (const IndexTerm& t : e.terms())
    if (t.atom.isFloorDiv() && into.insert(t.atom).second) collectFloors(*t.atom.numerator, into);
}

void collectFloors(const IndexCond& c, std::set<IndexAtom>& into) {
  collectFloors(c.expr, into);
  for (const IndexCond& operand : c.operands) collectFloors(operand, into);
}

// The fields are filled by linear(), innermost floors first.
class Lineariser {
 public:
  // floors: all that linear() will meet. firstQuotient: the number of the first one's name.
  Lineariser(LinearSystem& system, const std::vector<Range>& ranges, const std::set<IndexAtom>& floors, std::size_t firstQuotient)
      : m_system(system), m_ranges(ranges), m_floors(floors), m_firstQuotient(firstQuotient) {}

  struct Form {
    std::map<std::size_t, std::int64_t> terms;
    std::int64_t constant = 0;
  };

  bool overflowed() const { return m_overflowed; }
  std::size_t quotients() const { return m_quotients.size(); }

  Form linear(const IndexExpr& e) {
    Form form;
    form.constant = e.constant();
    if (e.overflowed()) m_overflowed = true;
    for (const IndexTerm& t : e.terms()) add(form, t.atom.isFloorDiv() ? quotient(t.atom) : t.atom.variable, t.coefficient);
    return form;
  }

  void addTo(Form& form, std::size_t unknown, std::int64_t coefficient) { add(form, unknown, coefficient); }

  Equation equation(Form form, const IndexExpr& rhs) {
    Equation result;
    for (const auto& [unknown, coefficient] : form.terms)
      if (coefficient != 0) result.terms.emplace_back(unknown, coefficient);
    result.rhs = rhs - IndexExpr(form.constant);
    return result;
  }

  std::size_t addUnknown(Unknown::Kind kind, IndexExpr definition, std::optional<std::int64_t> low,
                         std::optional<std::int64_t> high, std::string name) {
    Unknown u;
    u.kind = kind;
    const auto interval = bounds(definition, rangesOf(m_ranges));
    if (!interval) m_overflowed = true;
    else u.hull = *interval;
    if (low) u.hull.lo = std::max(u.hull.lo, *low);
    if (high) u.hull.hi = std::min(u.hull.hi, *high);
    u.definition = std::move(definition);
    u.low = low;
    u.high = high;
    u.name = std::move(name);
    m_system.unknowns.push_back(std::move(u));
    return m_system.unknowns.size() - 1;
  }

  std::vector<Equation> definitions;  // of quotients, remainders and slacks

 private:
  void add(Form& form, std::size_t unknown, std::int64_t coefficient) {
    std::int64_t& at = form.terms[unknown];
    if (__builtin_add_overflow(at, coefficient, &at)) m_overflowed = true;
  }

  // The dividend and divisor with the least remainder: floor(e/d) = floor((floor(e'/d') + (e - e')/d') / (d/d')) where another floor
  // divides e', which differs from e by a multiple of d', by a factor d' of d. So the digits of i//2, i//4, i//8 are unknowns of their
  // own and an axis can run over one of them.
  std::pair<IndexExpr, std::int64_t> division(const IndexAtom& atom) {
    std::pair<IndexExpr, std::int64_t> best{*atom.numerator, atom.divisor};
    for (const IndexAtom& other : m_floors) {
      const std::int64_t d = other.divisor;
      if (d >= atom.divisor || atom.divisor % d != 0 || atom.divisor / d >= best.second) continue;
      const IndexExpr difference = *atom.numerator - *other.numerator, steps = floorDiv(difference, d);
      if (steps.overflowed() || d * steps != difference) continue;
      best = {floorDiv(*other.numerator, d) + steps, atom.divisor / d};
    }
    return best;
  }

  // floor(e/d) = q with e - d*q - m = 0, 0 <= m < d.
  std::size_t quotient(const IndexAtom& atom) {
    const auto known = m_quotients.find(atom);
    if (known != m_quotients.end()) return known->second;
    const auto [dividend, divisor] = division(atom);
    Form form = linear(dividend);
    const std::string number = std::to_string(m_firstQuotient + m_quotients.size());
    IndexExpr q = floorDiv(*atom.numerator, atom.divisor);
    IndexExpr m = dividend - divisor * q;
    const std::size_t qIndex = addUnknown(Unknown::Kind::Quotient, std::move(q), {}, {}, "q" + number);
    const std::size_t mIndex = addUnknown(Unknown::Kind::Remainder, std::move(m), 0, divisor - 1, "m" + number);
    m_quotients.emplace(atom, qIndex);
    add(form, qIndex, -divisor);
    add(form, mIndex, -1);
    definitions.push_back(equation(std::move(form), 0));
    return qIndex;
  }

  LinearSystem& m_system;
  const std::vector<Range>& m_ranges;
  const std::set<IndexAtom>& m_floors;
  std::size_t m_firstQuotient;
  std::map<IndexAtom, std::size_t> m_quotients;
  bool m_overflowed = false;
};

void flatten(const IndexCond& c, std::vector<IndexCond>& into) {
  if (c.kind != IndexCond::Kind::And) return into.push_back(c);
  for (const IndexCond& operand : c.operands) flatten(operand, into);
}

void findComponents(LinearSystem& system) {
  std::vector<std::size_t> parent(system.unknowns.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto find = [&](std::size_t u) {
    while (parent[u] != u) u = parent[u] = parent[parent[u]];
    return u;
  };
  for (const Equation& e : system.equations)
    for (const auto& term : e.terms) {
      const std::size_t a = find(e.terms[0].first), b = find(term.first);
      parent[std::max(a, b)] = std::min(a, b);
    }
  std::map<std::size_t, std::size_t> componentOf;
  for (std::size_t u = 0; u < system.unknowns.size(); ++u) {
    const auto [at, isNew] = componentOf.emplace(find(u), system.components.size());
    if (isNew) system.components.emplace_back();
    system.components[at->second].unknowns.push_back(u);
  }
  for (std::size_t e = 0; e < system.equations.size(); ++e) {
    const auto& terms = system.equations[e].terms;
    if (terms.empty()) system.constantEquations.push_back(e);
    else system.components[componentOf[find(terms[0].first)]].equations.push_back(e);
  }
}

std::string equationText(const LinearSystem& system, const Equation& e, const PartNames& names) {
  IndexExpr left;
  for (const auto& [unknown, coefficient] : e.terms)
    left = left + coefficient * IndexExpr::variable(static_cast<IndexVar>(unknown));
  return toText(left, [&](IndexVar v) { return system.unknowns[v].name; }) + " = " + names.textZ(e.rhs);
}

void explain(const LinearSystem& system, const PartNames& names) {
  auto& lines = names.lines->system;
  for (const Equation& e : system.equations) lines.push_back(equationText(system, e, names));
  for (const Unknown& u : system.unknowns) {
    std::string line = std::to_string(u.hull.lo) + " <= " + u.name + " <= " + std::to_string(u.hull.hi);
    if (u.kind != Unknown::Kind::Variable) line += "   (" + u.name + " is " + names.textY(u.definition) + ")";
    lines.push_back(std::move(line));
  }
  for (const IndexCond& guard : system.residual) lines.push_back("where " + names.textY(guard));
}

}  // namespace

FiberSet::FiberSet(const AccessProblem& problem, const QuestionLimit& limit) : m_problem(problem), m_limit(limit) {
  const std::size_t n = problem.domain.size();
  Tape tape(n);
  std::vector<Tape::Slot> access;
  std::vector<Tape::Test> guards;
  for (const IndexExpr& f : problem.access) access.push_back(tape.add(f));
  for (const IndexCond& g : problem.guards) guards.push_back(tape.add(g));
  BoxPoints points(problem.domain, kEnumerated);
  m_exhaustive = points.exhaustive();
  std::vector<std::int64_t> values(tape.slots());
  while (points.next(values)) {
    tape.run(values);
    bool inside = true;
    for (std::size_t j = 0; j < access.size() && inside; ++j)
      inside = values[access[j]] >= 0 && values[access[j]] < problem.shape[j];
    for (std::size_t k = 0; k < guards.size() && inside; ++k) inside = guards[k].holds(values);
    if (inside) m_points.insert(m_points.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

FiberSet::~FiberSet() = default;

void FiberSet::build() {
  if (m_set) return;
  m_context = std::make_unique<IntegerContext>(m_limit);
  m_set = IntegerSet::box(*m_context, m_problem.domain);
  for (const IndexCond& g : m_problem.guards) m_set = m_set->constrained(g);
  const RangeOf ranges = rangesOf(m_problem.domain);
  for (std::size_t j = 0; j < m_problem.access.size(); ++j) {
    const IndexExpr& f = m_problem.access[j];
    const auto interval = bounds(f, ranges);
    if (!interval || interval->lo < 0) m_set = m_set->constrained(IndexCond::ge0(f));
    if (!interval || interval->hi >= m_problem.shape[j])
      m_set = m_set->constrained(IndexCond::ge0(IndexExpr(m_problem.shape[j] - 1) - f));
  }
}

std::optional<bool> FiberSet::isEmpty() {
  if (m_exhaustive || !m_points.empty() || m_problem.domain.empty()) return m_points.empty() && !m_problem.domain.empty();
  build();
  return m_set->isEmpty();
}

std::vector<Range> FiberSet::hulls(const std::vector<IndexExpr>& expressions, const std::vector<Range>& intervals) {
  const std::size_t n = m_problem.domain.size();
  Tape tape(n);
  std::vector<Tape::Slot> slots;
  for (const IndexExpr& e : expressions) slots.push_back(tape.add(e));
  std::vector<Range> seen(expressions.size());
  std::vector<std::int64_t> values(tape.slots());
  for (std::size_t p = 0; n > 0 && p < m_points.size(); p += n) {
    std::copy_n(m_points.begin() + static_cast<std::ptrdiff_t>(p), n, values.begin());
    tape.run(values);
    for (std::size_t k = 0; k < slots.size(); ++k) {
      const std::int64_t v = values[slots[k]];
      seen[k] = p == 0 ? Range{v, v} : Range{std::min(seen[k].lo, v), std::max(seen[k].hi, v)};
    }
  }
  if (m_exhaustive) return seen;
  std::vector<Range> result = intervals;
  for (std::size_t k = 0; k < expressions.size(); ++k) {
    if (!m_points.empty() && seen[k] == intervals[k]) continue;  // both ends are attained
    build();
    if (const auto exact = m_set->rangeOf(expressions[k]); exact && !exact->empty())
      result[k] = {std::max(exact->lo, intervals[k].lo), std::min(exact->hi, intervals[k].hi)};
  }
  return result;
}

SystemState makeLinearSystem(const AccessProblem& problem, const QuestionLimit& limit, const PartNames& names,
                             LinearSystem& system) {
  const std::size_t n = problem.domain.size();
  FiberSet fibers(problem, limit);
  if (fibers.isEmpty().value_or(false)) return SystemState::Empty;

  // Step 0. From here on a variable's range is its hull: f is simplified under it, so it must be guarded (pitfall P1).
  std::vector<IndexExpr> variables;
  for (std::size_t i = 0; i < n; ++i) variables.push_back(IndexExpr::variable(static_cast<IndexVar>(i)));
  const std::vector<Range> hull = fibers.hulls(variables, problem.domain);
  const RangeOf ranges = rangesOf(hull);
  std::vector<IndexExpr> access;
  std::vector<IndexCond> guards;
  std::set<IndexAtom> floors;
  for (const IndexExpr& f : problem.access) access.push_back(simplify(f, ranges));
  for (const IndexCond& g : problem.guards) {
    flatten(simplify(g, ranges), guards);
    if (names && simplify(g, ranges).isAlways() && !folded(g).isAlways())
      names.lines->dropped.push_back(names.textY(g) + ": the ranges of what it compares imply it");
  }
  for (const IndexExpr& f : access) collectFloors(f, floors);
  for (const IndexCond& g : guards) collectFloors(g, floors);
  Lineariser lineariser(system, hull, floors, names ? names.lines->quotients : 0);
  for (std::size_t i = 0; i < n; ++i)
    lineariser.addUnknown(Unknown::Kind::Variable, variables[i], hull[i].lo, hull[i].hi, names ? names.y[i] : std::string());

  // Step 1.
  for (std::size_t j = 0; j < access.size(); ++j)
    system.equations.push_back(lineariser.equation(lineariser.linear(access[j]), IndexExpr::variable(static_cast<IndexVar>(j))));
  std::size_t slacks = names ? names.lines->slacks : 0;
  for (const IndexCond& g : guards) {
    if (g.kind == IndexCond::Kind::EqualZero) {
      system.equations.push_back(lineariser.equation(lineariser.linear(g.expr), 0));
    } else if (g.kind == IndexCond::Kind::GreaterEqualZero) {
      const IndexExpr e = reducedInequality(g.expr);
      if (e.isAffine() && e.terms().size() == 1) {
        system.residual.push_back(g);  // a bound of one variable: its hull knows
        continue;
      }
      Lineariser::Form form = lineariser.linear(e);
      const std::size_t slack = lineariser.addUnknown(Unknown::Kind::Slack, e, 0, std::nullopt, "s" + std::to_string(slacks++));
      lineariser.addTo(form, slack, -1);
      lineariser.definitions.push_back(lineariser.equation(std::move(form), 0));
    } else {
      system.residual.push_back(g);
    }
  }
  system.equations.insert(system.equations.end(), lineariser.definitions.begin(), lineariser.definitions.end());
  for (const Equation& e : system.equations)
    if (e.rhs.overflowed()) return SystemState::Overflow;
  if (lineariser.overflowed()) return SystemState::Overflow;

  std::vector<IndexExpr> definitions;
  std::vector<Range> intervals;
  for (std::size_t u = n; u < system.unknowns.size(); ++u) {
    definitions.push_back(system.unknowns[u].definition);
    intervals.push_back(system.unknowns[u].hull);
  }
  const std::vector<Range> exact = fibers.hulls(definitions, intervals);
  for (std::size_t u = n; u < system.unknowns.size(); ++u) system.unknowns[u].hull = exact[u - n];

  findComponents(system);  // step 2
  if (names) {
    explain(system, names);
    names.lines->quotients += lineariser.quotients();
    names.lines->slacks = slacks;
  }
  return SystemState::Ready;
}

}  // namespace nf
