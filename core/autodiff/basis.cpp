// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/basis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "core/autodiff/hermite.h"
#include "core/ir/rewrite.h"
#include "core/support/checked.h"

namespace nf {
namespace {

constexpr std::int64_t kMostUnknowns = 64;  // of a component: bounds the depth of the search
constexpr std::size_t kMostNodes = 20000;   // of the search; the narrowest unknowns come first where that does not suffice
constexpr std::size_t kBuilt = 32;          // bases of equal cost that are worked out to be compared by their floors
constexpr std::size_t kMostTies = 4096;

std::int64_t capped(std::optional<std::int64_t> v) { return v.value_or(std::numeric_limits<std::int64_t>::max()); }

// An ordered choice of unknowns to run axes over: with L = (their rows of K) * U lower triangular, unknown i of it takes
// l_i + (e_i mod h_i) + h_i * t_i, h_i = L_ii, for t_i in [0, ceil(width_i / h_i)).
struct Basis {
  std::int64_t trips = 0;
  int ragged = 0;      // axes whose last step may leave the range
  int preference = 0;  // variables before remainders before quotients before slacks
  int strides = 0;
  std::vector<std::size_t> rows;
  Matrix l{0, 0}, u{0, 0};

  auto key() const { return std::tie(trips, ragged, preference, strides, rows); }
};

class BasisSearch {
 public:
  BasisSearch(const Matrix& k, std::vector<std::int64_t> widths, std::vector<int> preferences)
      : m_k(k), m_widths(std::move(widths)), m_preferences(std::move(preferences)), m_used(k.rows, false) {
    for (std::size_t i = 0; i < k.rows; ++i)
      for (std::size_t j = 0; j < k.columns; ++j)
        if (k.at(i, j) != 0) {
          m_candidates.push_back(i);
          break;
        }
    double orders = 1;
    for (std::size_t j = 0; j < k.columns; ++j)
      orders *= static_cast<double>(m_candidates.size() - std::min(j, m_candidates.size()));
    m_all = orders <= static_cast<double>(kMostNodes) / 4;
  }

  // The cheapest ones, best first.
  std::vector<Basis> run() {
    const std::vector<std::size_t> natural = m_candidates;
    std::stable_sort(m_candidates.begin(), m_candidates.end(),
                     [&](std::size_t a, std::size_t b) { return m_widths[a] < m_widths[b]; });
    m_firstOnly = true;  // a bound to begin with: greedily the narrowest
    descend(m_k, Matrix::identity(m_k.columns), Basis{1, 0, 0, 0, {}, Matrix(0, 0), Matrix(0, 0)});
    m_firstOnly = false;
    m_nodes = 0;
    if (m_all) m_candidates = natural;
    if (!m_ties.empty()) {
      m_bound = {m_ties[0].trips, m_ties[0].ragged};
      const Basis greedy = m_ties[0];
      m_ties.clear();
      descend(m_k, Matrix::identity(m_k.columns), Basis{1, 0, 0, 0, {}, Matrix(0, 0), Matrix(0, 0)});
      if (m_ties.empty()) m_ties.push_back(greedy);
    }
    std::stable_sort(m_ties.begin(), m_ties.end(), [](const Basis& a, const Basis& b) { return a.key() < b.key(); });
    if (m_ties.size() > kBuilt) m_ties.erase(m_ties.begin() + kBuilt, m_ties.end());
    return std::move(m_ties);
  }

 private:
  // Extends `prefix` by one more row. The diagonal of the first rows does not depend on the later ones, and costs only grow,
  // so a prefix dearer than the best is cut.
  void descend(const Matrix& k, const Matrix& u, const Basis& prefix) {
    const std::size_t depth = prefix.rows.size();
    if (depth == k.columns) return complete(k, u, prefix);
    for (const std::size_t row : m_candidates) {
      if (m_used[row]) continue;
      if (++m_nodes > kMostNodes || (m_firstOnly && !m_ties.empty())) return;
      Matrix reduced = k, follower = u;
      const auto pivot = eliminateRow(reduced, follower, row, depth);
      if (!pivot || *pivot == 0) continue;
      Basis next = prefix;
      next.trips = capped(checkedMul(next.trips, ceilDiv(m_widths[row], *pivot)));
      next.ragged += *pivot > 1 && m_widths[row] % *pivot != 0 ? 1 : 0;
      if (std::pair(next.trips, next.ragged) > m_bound) continue;
      next.preference += m_preferences[row];
      next.strides += *pivot > 1 ? 1 : 0;
      next.rows.push_back(row);
      m_used[row] = true;
      descend(reduced, follower, next);
      m_used[row] = false;
    }
  }

  void complete(const Matrix& k, const Matrix& u, Basis basis) {
    const std::pair cost(basis.trips, basis.ragged);
    if (cost < m_bound) m_ties.clear();
    m_bound = std::min(m_bound, cost);
    if (m_ties.size() >= kMostTies) return;
    basis.l = Matrix(basis.rows.size(), k.columns);
    for (std::size_t a = 0; a < basis.rows.size(); ++a)
      for (std::size_t b = 0; b < k.columns; ++b) basis.l.at(a, b) = k.at(basis.rows[a], b);
    basis.u = u;
    m_ties.push_back(std::move(basis));
  }

  const Matrix& m_k;
  std::vector<std::int64_t> m_widths;
  std::vector<int> m_preferences;
  std::vector<std::size_t> m_candidates;
  std::vector<bool> m_used;
  std::vector<Basis> m_ties;
  std::pair<std::int64_t, int> m_bound{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<int>::max()};
  std::size_t m_nodes = 0;
  bool m_all = false, m_firstOnly = false;
};

int preferenceOf(Unknown::Kind kind) {
  switch (kind) {
    case Unknown::Kind::Variable: return 0;
    case Unknown::Kind::Remainder: return 1;
    case Unknown::Kind::Quotient: return 2;
    case Unknown::Kind::Slack: return 3;
  }
  return 0;
}

class Solver {
 public:
  Solver(const LinearSystem& system, const PartNames& names, Nest& nest)
      : m_system(system), m_names(names), m_nest(nest), m_solution(system.unknowns.size()),
        m_driving(system.unknowns.size(), false) {}

  bool run() {
    for (const std::size_t e : m_system.constantEquations) addGuard(IndexCond::eq0(m_system.equations[e].rhs), "consistent");
    for (const LinearSystem::Component& component : m_system.components)
      if (!solve(component)) return false;
    guardRanges();
    std::size_t y = 0;
    while (y < m_system.unknowns.size() && m_system.unknowns[y].kind == Unknown::Kind::Variable) ++y;
    m_nest.y.assign(m_solution.begin(), m_solution.begin() + static_cast<std::ptrdiff_t>(y));
    for (const IndexCond& c : m_system.residual)
      addGuard(substitute(c, [&](IndexVar v) { return std::optional(m_solution[v]); }), m_names ? m_names.textY(c) : "");
    if (m_names) explainSolution();
    for (const IndexExpr& e : m_nest.y)
      if (e.overflowed()) return false;
    return std::none_of(m_nest.guards.begin(), m_nest.guards.end(), [](const Guard& g) { return overflowed(g.condition); });
  }

 private:
  // What one basis gives: axes, guards, unknowns of the component.
  struct Built {
    std::vector<std::int64_t> axes;
    std::vector<IndexExpr> tOfY;
    std::vector<std::size_t> drivers;  // also those of one step, which make no axis
    std::vector<std::string> axisTexts;
    std::vector<std::pair<std::size_t, std::string>> axisOf;
    std::vector<std::size_t> ragged;  // drivers whose last step has a guard
    std::vector<Guard> guards;
    std::vector<IndexExpr> solution;
    std::size_t floors = 0;
  };

  static bool overflowed(const IndexCond& c) {
    return c.expr.overflowed() ||
           std::any_of(c.operands.begin(), c.operands.end(), [](const IndexCond& o) { return overflowed(o); });
  }

  void addGuard(IndexCond c, std::string why) { m_nest.guards.push_back({std::move(c), m_names ? std::move(why) : std::string()}); }

  RangeOf rangesWith(const std::vector<std::int64_t>& moreAxes) const {
    std::vector<std::int64_t> extents = m_nest.shape;
    extents.insert(extents.end(), m_nest.axes.begin(), m_nest.axes.end());
    extents.insert(extents.end(), moreAxes.begin(), moreAxes.end());
    return rangesOf(extents);
  }

  bool solve(const LinearSystem::Component& component) {
    const std::size_t n = component.unknowns.size();
    if (n > static_cast<std::size_t>(kMostUnknowns)) return false;
    Matrix a(component.equations.size(), n);
    for (std::size_t i = 0; i < component.equations.size(); ++i)
      for (const auto& [unknown, coefficient] : m_system.equations[component.equations[i]].terms)
        a.at(i, static_cast<std::size_t>(std::lower_bound(component.unknowns.begin(), component.unknowns.end(), unknown) -
                                         component.unknowns.begin())) = coefficient;
    const auto hermite = columnHermite(std::move(a));
    if (!hermite) return false;
    const std::vector<IndexExpr> fixed = forwardSubstitute(component, *hermite);

    const std::size_t rank = hermite->pivots.size(), free = n - rank;
    std::vector<IndexExpr> particular(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < rank; ++j)
        if (hermite->u.at(i, j) != 0) particular[i] = particular[i] + hermite->u.at(i, j) * fixed[j];
      if (particular[i].overflowed()) return false;
    }
    if (free == 0) {
      const RangeOf ranges = rangesWith({});
      for (std::size_t i = 0; i < n; ++i) m_solution[component.unknowns[i]] = simplify(particular[i], ranges);
      return true;
    }
    Matrix k(n, free);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < free; ++j) k.at(i, j) = hermite->u.at(i, rank + j);
    return chooseBasis(component, particular, k);
  }

  // Row by row: the column of a pivot gets floor(rhs / pivot), and rhs must be divisible; a row without one must hold as it is.
  std::vector<IndexExpr> forwardSubstitute(const LinearSystem::Component& component, const Hermite& hermite) {
    const RangeOf ranges = rangesWith({});
    std::vector<IndexExpr> fixed(hermite.pivots.size());
    std::size_t next = 0;
    for (std::size_t row = 0; row < component.equations.size(); ++row) {
      IndexExpr rest = m_system.equations[component.equations[row]].rhs;
      for (std::size_t j = 0; j < next; ++j)
        if (hermite.h.at(row, j) != 0) rest = rest - hermite.h.at(row, j) * fixed[j];
      rest = simplify(rest, ranges);
      if (next < hermite.pivots.size() && hermite.pivots[next].first == row) {
        const std::int64_t pivot = hermite.h.at(row, next);
        fixed[next++] = simplify(floorDiv(rest, pivot), ranges);
        if (pivot > 1) addGuard(IndexCond::eq0(simplify(floorMod(rest, pivot), ranges)), "divisible by " + std::to_string(pivot));
      } else {
        addGuard(IndexCond::eq0(rest), "consistent");
      }
    }
    return fixed;
  }

  bool chooseBasis(const LinearSystem::Component& component, const std::vector<IndexExpr>& particular, const Matrix& k) {
    std::vector<std::int64_t> widths;
    std::vector<int> preferences;
    for (const std::size_t u : component.unknowns) {
      widths.push_back(std::max<std::int64_t>(1, m_system.unknowns[u].hull.extent()));
      preferences.push_back(preferenceOf(m_system.unknowns[u].kind));
    }
    std::optional<Built> best;
    for (const Basis& basis : BasisSearch(k, std::move(widths), std::move(preferences)).run()) {
      std::optional<Built> built = build(component, particular, k, basis);
      if (!built) continue;
      if (!best || std::pair(built->floors, built->guards.size()) < std::pair(best->floors, best->guards.size()))
        best = std::move(built);
      if (best->floors == 0 && best->guards.empty()) break;
    }
    if (!best) return false;
    m_nest.axes.insert(m_nest.axes.end(), best->axes.begin(), best->axes.end());
    m_nest.tOfY.insert(m_nest.tOfY.end(), best->tOfY.begin(), best->tOfY.end());
    m_drivers.insert(m_drivers.end(), best->drivers.begin(), best->drivers.end());
    m_axisTexts.insert(m_axisTexts.end(), best->axisTexts.begin(), best->axisTexts.end());
    m_ragged.insert(best->ragged.begin(), best->ragged.end());
    m_axisOf.insert(best->axisOf.begin(), best->axisOf.end());
    for (Guard& g : best->guards) m_nest.guards.push_back(std::move(g));
    for (std::size_t i = 0; i < component.unknowns.size(); ++i) m_solution[component.unknowns[i]] = std::move(best->solution[i]);
    return true;
  }

  std::optional<Built> build(const LinearSystem::Component& component, const std::vector<IndexExpr>& particular, const Matrix& k,
                             const Basis& basis) {
    Built built;
    const std::size_t free = k.columns;
    std::vector<IndexExpr> tau;  // in the coordinates of L
    for (std::size_t a = 0; a < free; ++a) {
      const Unknown& driver = m_system.unknowns[component.unknowns[basis.rows[a]]];
      const std::int64_t low = driver.hull.lo, width = std::max<std::int64_t>(1, driver.hull.extent()), step = basis.l.at(a, a);
      IndexExpr e = particular[basis.rows[a]] - IndexExpr(low);
      for (std::size_t b = 0; b < a; ++b)
        if (basis.l.at(a, b) != 0) e = e + basis.l.at(a, b) * tau[b];
      const std::int64_t extent = ceilDiv(width, step);
      IndexExpr t;
      if (extent > 1) {
        t = IndexExpr::variable(static_cast<IndexVar>(m_nest.shape.size() + m_nest.axes.size() + built.axes.size()));
        if (m_names)
          built.axisTexts.push_back(m_names.textZ(t) + ": " + std::to_string(extent) + " runs over " + driver.name +
                                    (step > 1 ? " in steps of " + std::to_string(step) : std::string()) + ", " +
                                    std::to_string(low) + " <= " + driver.name + " <= " + std::to_string(low + width - 1));
        if (m_names) built.axisOf.emplace_back(component.unknowns[basis.rows[a]], m_names.textZ(t));
        built.axes.push_back(extent);
        built.tOfY.push_back(floorDiv(driver.definition - IndexExpr(low), step));
      }
      built.drivers.push_back(component.unknowns[basis.rows[a]]);
      const RangeOf ranges = rangesWith(built.axes);
      e = simplify(e, ranges);
      tau.push_back(t - simplify(floorDiv(e, step), ranges));
      if (step > 1 && width % step != 0) {
        built.ragged.push_back(component.unknowns[basis.rows[a]]);
        built.guards.push_back({IndexCond::ge0(simplify(IndexExpr(width - 1) - floorMod(e, step) - step * t, ranges)),
                                m_names ? "the last step of " + driver.name : std::string()});
      }
    }
    const RangeOf ranges = rangesWith(built.axes);
    std::vector<IndexExpr> free0;
    for (std::size_t i = 0; i < free; ++i) {
      IndexExpr sum;
      for (std::size_t j = 0; j < free; ++j)
        if (basis.u.at(i, j) != 0) sum = sum + basis.u.at(i, j) * tau[j];
      free0.push_back(std::move(sum));
    }
    for (std::size_t i = 0; i < component.unknowns.size(); ++i) {
      IndexExpr u = particular[i];
      for (std::size_t j = 0; j < free; ++j)
        if (k.at(i, j) != 0) u = u + k.at(i, j) * free0[j];
      u = simplify(u, ranges);
      if (u.overflowed()) return std::nullopt;
      if (m_system.unknowns[component.unknowns[i]].kind != Unknown::Kind::Quotient) built.floors += u.floorDivCount();
      built.solution.push_back(std::move(u));
    }
    for (const Guard& g : built.guards) built.floors += g.condition.expr.floorDivCount();
    return built;
  }

  // Step 5: every bound that no axis enforces. A quotient's follow from its remainder's.
  void guardRanges() {
    for (const std::size_t u : m_drivers) m_driving[u] = true;
    for (std::size_t u = 0; u < m_system.unknowns.size(); ++u) {
      const Unknown& unknown = m_system.unknowns[u];
      if (m_driving[u] || unknown.kind == Unknown::Kind::Quotient) {
        if (m_names) explainEnforced(u);
        continue;
      }
      if (unknown.low)
        addGuard(IndexCond::ge0(m_solution[u] - IndexExpr(*unknown.low)),
                 m_names ? unknown.name + " >= " + std::to_string(*unknown.low) : "");
      if (unknown.high)
        addGuard(IndexCond::ge0(IndexExpr(*unknown.high) - m_solution[u]),
                 m_names ? unknown.name + " <= " + std::to_string(*unknown.high) : "");
    }
  }

  // A range that needs no guard, and what enforces it.
  void explainEnforced(std::size_t u) {
    const Unknown& unknown = m_system.unknowns[u];
    std::string range;
    if (unknown.low) range = unknown.name + " >= " + std::to_string(*unknown.low);
    if (unknown.high && !m_ragged.contains(u))
      range += (range.empty() ? "" : ", ") + unknown.name + " <= " + std::to_string(*unknown.high);
    if (range.empty()) return;
    const auto axis = m_axisOf.find(u);
    m_names.lines->dropped.push_back(range + ": " +
                                     (!m_driving[u] ? "its remainder's range implies it"
                                      : axis == m_axisOf.end()
                                          ? unknown.name + " = " + m_names.textZ(m_solution[u]) + " enforces it"
                                          : axis->second + " runs over it"));
  }

  void explainSolution() {
    for (std::size_t u = 0; u < m_system.unknowns.size(); ++u)
      m_names.lines->solution.push_back(m_system.unknowns[u].name + " = " + m_names.textZ(m_solution[u]));
    m_names.lines->axes.insert(m_names.lines->axes.end(), m_axisTexts.begin(), m_axisTexts.end());
  }

  const LinearSystem& m_system;
  const PartNames& m_names;
  Nest& m_nest;
  std::vector<IndexExpr> m_solution;
  std::vector<bool> m_driving;
  std::vector<std::size_t> m_drivers;
  std::vector<std::string> m_axisTexts;
  std::set<std::size_t> m_ragged;
  std::map<std::size_t, std::string> m_axisOf;  // of unknowns that one runs over
};

}  // namespace

bool solveSystem(const LinearSystem& system, const PartNames& names, Nest& nest) { return Solver(system, names, nest).run(); }

}  // namespace nf
