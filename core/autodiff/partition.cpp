// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/partition.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace nf {
namespace {

class Groups {
 public:
  explicit Groups(std::size_t n) : m_parent(n) { std::iota(m_parent.begin(), m_parent.end(), std::size_t{0}); }
  std::size_t find(std::size_t a) {
    while (m_parent[a] != a) a = m_parent[a] = m_parent[m_parent[a]];
    return a;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    m_parent[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> m_parent;
};

// Conjunctions are taken apart: each conjunct joins only its own variables.
void flatten(const std::vector<IndexCond>& guards, std::vector<IndexCond>& into) {
  for (const IndexCond& g : guards) {
    if (g.kind == IndexCond::Kind::And) flatten(g.operands, into);
    else into.push_back(g);
  }
}

class Partition {
 public:
  Partition(const AccessProblem& problem, const Inverse* inverse)
      : m_problem(problem), m_inverse(inverse), m_n(problem.domain.size()), m_m(problem.access.size()),
        m_axes(inverse ? inverse->axes.size() : 0), m_groups(m_n + m_m + m_axes) {}

  std::optional<std::vector<Part>> run() {
    std::vector<IndexCond> guards, zGuards, tGuards;
    flatten(m_problem.guards, guards);
    const auto ofY = [](IndexVar v) { return static_cast<std::size_t>(v); };
    const auto ofZ = [this](IndexVar v) { return m_n + v; };
    for (std::size_t j = 0; j < m_m; ++j) joinAll(m_n + j, m_problem.access[j], ofY);
    for (const IndexCond& g : guards) joinAll(g, ofY);
    if (m_inverse) {
      flatten(m_inverse->zGuards, zGuards);
      flatten(m_inverse->tGuards, tGuards);
      for (std::size_t i = 0; i < m_n; ++i) joinAll(i, m_inverse->y[i], ofZ);
      for (const IndexCond& g : zGuards) joinAll(g, ofZ);
      for (const IndexCond& g : tGuards) joinAll(g, ofZ);
      for (std::size_t k = 0; k < m_inverse->tOfY.size(); ++k) joinAll(m_n + m_m + k, m_inverse->tOfY[k], ofY);
    }

    std::vector<Part> parts;
    std::map<std::size_t, std::size_t> partOf;
    m_local.resize(m_n + m_m + m_axes);
    const auto partFor = [&](std::size_t node) -> Part& {
      const auto [at, isNew] = partOf.emplace(m_groups.find(node), parts.size());
      if (isNew) parts.emplace_back();
      return parts[at->second];
    };
    for (std::size_t i = 0; i < m_n; ++i) {
      Part& part = partFor(i);
      m_local[i] = part.y.size();
      part.y.push_back(i);
      part.problem.domain.push_back(m_problem.domain[i]);
    }
    for (std::size_t j = 0; j < m_m; ++j) {
      Part& part = partFor(m_n + j);
      m_local[m_n + j] = part.z.size();
      part.z.push_back(j);
      part.problem.shape.push_back(m_problem.shape[j]);
      part.problem.access.push_back(substitute(m_problem.access[j], localY()));
    }
    for (std::size_t k = 0; k < m_axes; ++k) partFor(m_n + m_m + k).t.push_back(k);
    if (!scatterGuards(
            guards, ofY, [&](std::size_t node) -> std::vector<IndexCond>& { return partFor(node).problem.guards; }, localY()))
      return std::nullopt;
    if (!m_inverse) return parts;

    for (Part& part : parts)
      for (std::size_t k = 0; k < part.t.size(); ++k) {
        m_local[m_n + m_m + part.t[k]] = part.z.size() + k;
        part.inverse.axes.push_back(m_inverse->axes[part.t[k]]);
        if (!m_inverse->tOfY.empty()) part.inverse.tOfY.push_back(substitute(m_inverse->tOfY[part.t[k]], localY()));
        part.inverse.tripsPerZ *= m_inverse->axes[part.t[k]];
      }
    for (std::size_t i = 0; i < m_n; ++i) partFor(i).inverse.y.push_back(substitute(m_inverse->y[i], localZ()));
    for (Part& part : parts) part.inverse.state = m_inverse->state;
    const bool kept =
        scatterGuards(
            zGuards, ofZ, [&](std::size_t node) -> std::vector<IndexCond>& { return partFor(node).inverse.zGuards; }, localZ()) &&
        scatterGuards(
            tGuards, ofZ, [&](std::size_t node) -> std::vector<IndexCond>& { return partFor(node).inverse.tGuards; }, localZ());
    return kept ? std::optional(std::move(parts)) : std::nullopt;
  }

 private:
  using NodeOf = std::function<std::size_t(IndexVar)>;

  void joinAll(std::size_t node, const IndexExpr& e, const NodeOf& nodeOf) {
    std::vector<IndexVar> used;
    e.collectVariables(used);
    for (const IndexVar v : used) m_groups.join(node, nodeOf(v));
  }
  void joinAll(const IndexCond& c, const NodeOf& nodeOf) {
    std::vector<IndexVar> used;
    collectVariables(c, used);
    for (const IndexVar v : used) m_groups.join(nodeOf(used[0]), nodeOf(v));
  }

  // Each to the part of its variables; false where one without variables does not hold.
  bool scatterGuards(const std::vector<IndexCond>& guards, const NodeOf& nodeOf,
                     const std::function<std::vector<IndexCond>&(std::size_t)>& listOf,
                     const std::function<std::optional<IndexExpr>(IndexVar)>& renumber) {
    for (const IndexCond& g : guards) {
      std::vector<IndexVar> used;
      collectVariables(g, used);
      if (!used.empty()) listOf(nodeOf(used[0])).push_back(substitute(g, renumber));
      else if (!evaluate(g, [](IndexVar) { return std::int64_t{0}; })) return false;
    }
    return true;
  }

  std::function<std::optional<IndexExpr>(IndexVar)> localY() const {
    return [this](IndexVar v) { return std::optional(IndexExpr::variable(static_cast<IndexVar>(m_local[v]))); };
  }
  std::function<std::optional<IndexExpr>(IndexVar)> localZ() const {
    return [this](IndexVar v) { return std::optional(IndexExpr::variable(static_cast<IndexVar>(m_local[m_n + v]))); };
  }

  const AccessProblem& m_problem;
  const Inverse* m_inverse;
  std::size_t m_n, m_m, m_axes;
  Groups m_groups;  // y, then z, then t
  std::vector<std::size_t> m_local;
};

}  // namespace

void appendNest(const Part& part, const Nest& nest, std::size_t m, Inverse& inverse) {
  const std::size_t firstAxis = inverse.axes.size();
  const auto renumber = [&](IndexVar v) -> std::optional<IndexExpr> {
    const std::size_t whole = v < part.z.size() ? part.z[v] : m + firstAxis + (v - part.z.size());
    return IndexExpr::variable(static_cast<IndexVar>(whole));
  };
  inverse.axes.insert(inverse.axes.end(), nest.axes.begin(), nest.axes.end());
  for (std::size_t i = 0; i < part.y.size(); ++i) inverse.y[part.y[i]] = substitute(nest.y[i], renumber);
  for (const IndexExpr& e : nest.tOfY)
    inverse.tOfY.push_back(
        substitute(e, [&](IndexVar v) { return std::optional(IndexExpr::variable(static_cast<IndexVar>(part.y[v]))); }));
  std::vector<IndexCond> ofZ;
  for (const Guard& g : nest.guards) {
    const bool onAxis = nest.usesAxis(g.condition);
    (onAxis ? inverse.tGuards : inverse.zGuards).push_back(substitute(g.condition, renumber));
    if (!onAxis) ofZ.push_back(g.condition);
  }
  inverse.zShare *= shareOfGuarded(nest.shape, ofZ);
}

std::optional<std::vector<Part>> partsOf(const AccessProblem& problem) { return Partition(problem, nullptr).run(); }
std::optional<std::vector<Part>> partsOf(const AccessProblem& problem, const Inverse& inverse) {
  return Partition(problem, &inverse).run();
}

}  // namespace nf
