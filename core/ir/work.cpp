// SPDX-License-Identifier: Apache-2.0
#include "core/ir/work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/ir/paths.h"

namespace nf {
namespace {

constexpr std::int64_t kMostPoints = 65536;

using AxisSet = std::vector<bool>;
// Conditions over indices that all hold, by their place in Work::m_conditions; sorted.
using Guards = std::vector<std::size_t>;

class Work {
 public:
  Work(const Program& program, const Operator& op) : m_program(program), m_op(op) {}

  double count() {
    const std::vector<ExprId> nodes = nodesOf(m_program, m_op.body);
    for (const ExprId e : nodes) findAxes(e);
    findGuards(nodes);
    double work = 0;
    for (const ExprId e : nodes)
      if (const int each = flopsOfNode(m_program, m_program[e]); each > 0) work += each * points(m_axes.at(e), m_guards.at(e));
    if (m_op.reducer != Reducer::None || m_op.kind == OperatorKind::Scatter) work += steps();
    return work;
  }

 private:
  void findAxes(ExprId e) {
    const ScalarNode& node = m_program[e];
    AxisSet axes(m_op.axes.size());
    const auto join = [&](ExprId operand) {
      const AxisSet& other = m_axes.at(operand);
      for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = axes[a] || other[a];
    };
    const auto note = [&](const IndexExpr& index) {
      for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = axes[a] || index.uses(IndexVar(a));
    };
    for (int k = 0; k < info(node.op).arity; ++k) join(node.operands[static_cast<std::size_t>(k)]);
    if (node.index.valid()) note(m_program[node.index]);
    if (node.op == ScalarOp::Load)
      for (const AccessIndex& index : m_program[node.access].indices) {
        if (index.isData()) join(index.data);
        else note(index.affine);
      }
    m_axes.emplace(e, std::move(axes));
  }

  // What holds whenever a value is needed: on every path to it.
  void findGuards(const std::vector<ExprId>& nodes) {
    const auto reach = [&](ExprId e, const Guards& guards) {
      const auto [found, isNew] = m_guards.emplace(e, guards);
      if (isNew) return;
      Guards both;
      std::set_intersection(found->second.begin(), found->second.end(), guards.begin(), guards.end(), std::back_inserter(both));
      found->second = std::move(both);
    };
    reach(m_op.body, {});
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const ScalarNode& node = m_program[*it];
      const Guards here = m_guards.at(*it);
      for (int k = 0; k < info(node.op).arity; ++k) {
        const ExprId operand = node.operands[static_cast<std::size_t>(k)];
        reach(operand, node.op == ScalarOp::Select && k > 0 ? with(here, node.operands[0], k == 1) : here);
      }
      if (node.op == ScalarOp::Load)
        for (const AccessIndex& index : m_program[node.access].indices)
          if (index.isData()) reach(index.data, here);
    }
  }

  Guards with(Guards guards, ExprId condition, bool holds) {
    auto cond = asIndexCond(m_program, condition);
    if (!cond) return guards;
    add(guards, holds ? std::move(*cond) : IndexCond::negate(std::move(*cond)));
    return guards;
  }

  void add(Guards& guards, IndexCond cond) {
    if (cond.kind == IndexCond::Kind::And) {
      for (IndexCond& part : cond.operands) add(guards, std::move(part));
      return;
    }
    auto at = std::find(m_conditions.begin(), m_conditions.end(), cond);
    if (at == m_conditions.end()) at = m_conditions.insert(at, std::move(cond));
    const auto place = static_cast<std::size_t>(at - m_conditions.begin());
    const auto where = std::lower_bound(guards.begin(), guards.end(), place);
    if (where == guards.end() || *where != place) guards.insert(where, place);
  }

  // Points over `axes` at which the guards can hold. Guards without a common axis are independent.
  double points(const AxisSet& axes, const Guards& guards) {
    std::vector<std::size_t> group(m_op.axes.size());
    std::iota(group.begin(), group.end(), std::size_t{0});
    std::vector<std::vector<IndexVar>> used;
    for (const std::size_t g : guards) {
      std::vector<IndexVar> variables;
      collectVariables(m_conditions[g], variables);
      for (const IndexVar v : variables) {
        const std::size_t from = group[v], to = group[variables.front()];
        for (std::size_t& x : group)
          if (x == from) x = to;
      }
      used.push_back(std::move(variables));
    }
    std::map<std::size_t, Guards> joined;
    double n = 1;
    for (std::size_t i = 0; i < guards.size(); ++i) {
      if (!used[i].empty()) joined[group[used[i].front()]].push_back(guards[i]);
      else if (!evaluate(m_conditions[guards[i]], [](IndexVar) { return std::int64_t{0}; })) return 0;
    }
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (axes[a] && !joined.contains(group[a])) n *= static_cast<double>(m_op.axes[a].extent);
    for (const auto& [name, together] : joined) {
      std::vector<IndexVar> all;
      double room = 1;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        if (group[a] != name) continue;
        all.push_back(IndexVar(a));
        if (axes[a]) room *= static_cast<double>(m_op.axes[a].extent);
      }
      n *= std::min(room, satisfying(together, all));
    }
    return n;
  }

  double satisfying(const Guards& guards, const std::vector<IndexVar>& over) {
    const auto known = m_counts.find(guards);
    if (known != m_counts.end()) return known->second;
    double all = 1;
    for (const IndexVar v : over) all *= static_cast<double>(m_op.axes[v].extent);
    const bool whole = all <= static_cast<double>(kMostPoints);
    const std::int64_t taken = whole ? static_cast<std::int64_t>(all) : kMostPoints;
    std::vector<std::int64_t> at(m_op.axes.size());
    std::int64_t hits = 0;
    for (std::int64_t i = 0; i < taken; ++i) {
      std::int64_t rest = i;
      for (std::size_t k = 0; k < over.size(); ++k) {
        const std::int64_t extent = m_op.axes[over[k]].extent;
        if (whole) {
          at[over[k]] = rest % extent;
          rest /= extent;
        } else {
          // Kronecker's sequence: even in every number of dimensions, and in step with no remainder.
          const double place = std::fmod(static_cast<double>(i + 1) * std::sqrt(kPrimes[k % std::size(kPrimes)]), 1.0);
          at[over[k]] = std::min(extent - 1, static_cast<std::int64_t>(place * static_cast<double>(extent)));
        }
      }
      hits += std::all_of(guards.begin(), guards.end(),
                          [&](std::size_t g) { return evaluate(m_conditions[g], [&](IndexVar v) { return at[v]; }); });
    }
    const double n = taken == 0 ? 0 : all * static_cast<double>(hits) / static_cast<double>(taken);
    m_counts.emplace(guards, n);
    return n;
  }

  // Adding what a select leaves at zero is no work.
  double steps() {
    Guards guards;
    ExprId e = m_op.body;
    const auto zero = [&](ExprId id) {
      return m_op.reducer == Reducer::Sum && m_program[id].op == ScalarOp::Constant && m_program[id].value == 0;
    };
    while (m_program[e].op == ScalarOp::Select) {
      const auto& [condition, then, otherwise] = m_program[e].operands;
      if (zero(otherwise)) guards = with(guards, condition, true), e = then;
      else if (zero(then)) guards = with(guards, condition, false), e = otherwise;
      else break;
    }
    return points(m_axes.at(m_op.body), guards);
  }

  static constexpr double kPrimes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
  const Program& m_program;
  const Operator& m_op;
  std::unordered_map<ExprId, AxisSet> m_axes;
  std::unordered_map<ExprId, Guards> m_guards;
  std::vector<IndexCond> m_conditions;
  std::map<Guards, double> m_counts;
};

std::int64_t rounded(double n) { return n < 9e15 ? std::llround(n) : std::int64_t{9'000'000'000'000'000}; }

}  // namespace

std::int64_t workOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind == OperatorKind::Loop) {
    const Loop& loop = program[op.loop];
    return rounded(static_cast<double>(loop.trips) * static_cast<double>(workOf(*loop.body)));
  }
  return rounded(Work(program, op).count());
}

std::int64_t workOf(const Program& program) {
  double sum = 0;
  for (std::size_t i = 0; i < program.operators.size(); ++i) sum += static_cast<double>(workOf(program, OperatorId(i)));
  return rounded(sum);
}

std::int64_t trafficOf(const Program& kernel) {
  std::vector<double> reached(kernel.tensors.size(), 0);  // elements
  for (std::size_t i = 0; i < kernel.operators.size(); ++i) {
    const Operator& op = kernel.operators[i];
    std::set<TensorId> counted;
    std::set<AccessId> seen;
    if (op.kind != OperatorKind::Loop)
      for (const ExprId e : nodesOf(kernel, op.body)) {
        const ScalarNode& node = kernel[e];
        if (node.op != ScalarOp::Load || !seen.insert(node.access).second) continue;
        const Access& access = kernel[node.access];
        std::vector<IndexVar> variables;
        double points = 1;
        for (const AccessIndex& index : access.indices)
          if (index.data.valid()) points = HUGE_VAL;
          else index.affine.collectVariables(variables);
        for (const IndexVar v : variables)
          if (v < op.axes.size()) points *= static_cast<double>(op.axes[v].extent);
        reached[access.tensor.value] += points;
        counted.insert(access.tensor);
      }
    for (const TensorId t : readsOf(kernel, OperatorId(i)))
      if (!counted.contains(t)) reached[t.value] = HUGE_VAL;
  }
  const auto made = producers(kernel);
  double bytes = 0;
  for (std::size_t t = 0; t < kernel.tensors.size(); ++t) {
    const Tensor& tensor = kernel.tensors[t];
    if (!made[t].valid()) bytes += std::min(static_cast<double>(tensor.elements()), reached[t]) * bytesOf(tensor.type);
  }
  for (const Output& output : kernel.outputs) bytes += static_cast<double>(kernel[output.tensor].bytes());
  return rounded(bytes);
}

}  // namespace nf
