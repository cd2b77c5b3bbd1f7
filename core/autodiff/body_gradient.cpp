// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/body_gradient.h"

#include <algorithm>
#include <numbers>
#include <unordered_map>
#include <unordered_set>

#include "core/ir/folding.h"
#include "core/support/assert.h"

namespace nf {
namespace {

constexpr std::size_t kMostPaths = 64;

// Why no gradient passes a node whatever its operands are; null where one may.
const char* whyFlat(const Program& program, ExprId id) {
  const ScalarNode& n = program[id];
  switch (n.op) {
    case ScalarOp::Floor: return "floor has slope 0";
    case ScalarOp::StopGradient: return "stop_gradient cuts it";
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Eq:
    case ScalarOp::Ne: return "a comparison has slope 0";
    case ScalarOp::Cast: return isFloating(n.type) ? nullptr : "a cast to whole numbers has slope 0";
    default: return nullptr;
  }
}

// An adjoint, and where it holds.
struct PathAdjoint {
  std::vector<PathCondition> path;
  ExprId weight;
};

class Sweep {
 public:
  Sweep(Program& program, const SweepRequest& request) : m_program(program), m_request(request), m_fold(program) {}

  SweepResult run() {
    const std::vector<ExprId> order = nodesOf(m_program, m_request.body);
    findActive(order);
    SweepResult result;
    result.flat = flatLoads(order);
    if (!m_active.contains(m_request.body.value)) return result;
    m_adjoints[m_request.body.value].push_back({m_request.path, m_request.adjoint});
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const auto found = m_adjoints.find(it->value);
      if (found == m_adjoints.end()) continue;
      const std::vector<PathAdjoint> adjoints = std::move(found->second);
      m_adjoints.erase(found);
      for (const PathAdjoint& a : adjoints) visit(*it, a);
    }
    result.occurrences = std::move(m_occurrences);
    return result;
  }

 private:
  // Nodes through which a wanted tensor reaches the body's value differentiably.
  void findActive(const std::vector<ExprId>& order) {
    for (const ExprId id : order) {
      const ScalarNode& n = m_program[id];
      if (!isFloating(n.type)) continue;
      bool active = false;
      switch (n.op) {
        case ScalarOp::Load: active = m_request.wanted(m_program[n.access].tensor); break;
        case ScalarOp::StopGradient:
        case ScalarOp::Floor: break;
        case ScalarOp::Select: active = isActive(n.operands[1]) || isActive(n.operands[2]); break;
        default:
          for (int k = 0; k < info(n.op).arity; ++k) active = active || isActive(n.operands[k]);
      }
      if (active) m_active.insert(id.value);
    }
  }

  // Wanted loads below a node without slope, each with the outermost such node.
  std::vector<FlatLoad> flatLoads(const std::vector<ExprId>& order) const {
    std::vector<FlatLoad> result;
    std::unordered_set<std::uint32_t> seen;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const char* why = whyFlat(m_program, *it);
      const ScalarNode& n = m_program[*it];
      if (!why && n.op != ScalarOp::Select) continue;
      for (const ExprId below : nodesOf(m_program, why ? *it : n.operands[0])) {
        const ScalarNode& leaf = m_program[below];
        if (leaf.op != ScalarOp::Load || !isFloating(leaf.type) || !m_request.wanted(m_program[leaf.access].tensor)) continue;
        if (seen.insert(below.value).second)
          result.push_back({below, why ? *it : n.operands[0], why ? why : "a condition has slope 0"});
      }
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  bool isActive(ExprId id) const { return m_active.contains(id.value); }

  void give(ExprId operand, const std::vector<PathCondition>& path, ExprId weight) {
    auto& list = m_adjoints[operand.value];
    for (PathAdjoint& known : list)
      if (known.path == path) {
        known.weight = m_fold.add(known.weight, weight);
        return;
      }
    list.push_back({path, weight});
    if (list.size() <= kMostPaths) return;
    // Too many ways to tell apart: one adjoint that asks for each way's conditions itself.
    ExprId sum;
    for (const PathAdjoint& known : list) {
      const ExprId one = guarded(m_program, known.path, known.weight);
      sum = sum.valid() ? m_fold.add(sum, one) : one;
    }
    list = {{{}, sum}};
  }

  std::vector<PathCondition> extended(const std::vector<PathCondition>& path, const std::vector<PathCondition>& more) const {
    std::vector<PathCondition> result = path;
    for (const PathCondition& c : more)
      if (std::find(result.begin(), result.end(), c) == result.end()) result.push_back(c);
    return result;
  }

  ExprId number(double value, ExprId like) { return m_program.constant(value, m_program[like].type, m_program[like].origin); }
  // The node's own value: read from the operator's output where that stores it.
  ExprId valueOf(ExprId id) const { return id == m_request.body && m_request.output.valid() ? m_request.output : id; }

  ExprId less(ExprId a, ExprId b, OriginId origin) { return m_program.binary(ScalarOp::Lt, a, b, origin); }

  void visit(ExprId id, const PathAdjoint& adjoint) {
    const ScalarNode n = m_program[id];
    const ExprId g = adjoint.weight;
    const auto& path = adjoint.path;
    const ExprId a = n.operands[0], b = n.operands[1];
    const ExprId y = valueOf(id);
    const OriginId o = n.origin;
    const auto to = [&](ExprId operand, auto&& weight) {
      if (isActive(operand)) give(operand, path, weight());
    };
    switch (n.op) {
      case ScalarOp::Load: return occurrence(id, adjoint);
      case ScalarOp::Neg: return to(a, [&] { return m_fold.neg(g, o); });
      case ScalarOp::Exp: return to(a, [&] { return m_fold.mul(g, y, o); });
      case ScalarOp::Log: return to(a, [&] { return m_fold.div(g, a, o); });
      case ScalarOp::Sqrt: return to(a, [&] { return m_fold.div(m_fold.mul(g, number(0.5, a), o), y, o); });
      case ScalarOp::Rsqrt:
        return to(a, [&] { return m_fold.mul(m_fold.mul(g, number(-0.5, a), o), m_fold.mul(m_fold.mul(y, y, o), y, o), o); });
      case ScalarOp::Tanh: return to(a, [&] { return m_fold.mul(g, m_fold.sub(number(1, a), m_fold.mul(y, y, o), o), o); });
      case ScalarOp::Sigmoid: return to(a, [&] { return m_fold.mul(g, m_fold.mul(y, m_fold.sub(number(1, a), y, o), o), o); });
      case ScalarOp::Erf:
        return to(a, [&] {
          const ExprId bell = m_program.unary(ScalarOp::Exp, m_fold.neg(m_fold.mul(a, a, o), o), o);
          return m_fold.mul(g, m_fold.mul(number(2 * std::numbers::inv_sqrtpi, a), bell, o), o);
        });
      case ScalarOp::Sin: return to(a, [&] { return m_fold.mul(g, m_program.unary(ScalarOp::Cos, a, o), o); });
      case ScalarOp::Cos: return to(a, [&] { return m_fold.neg(m_fold.mul(g, m_program.unary(ScalarOp::Sin, a, o), o), o); });
      case ScalarOp::Abs:
        return to(a, [&] {
          const ExprId zero = number(0, a);
          return m_fold.select(less(a, zero, o), m_fold.neg(g, o), m_fold.select(less(zero, a, o), g, number(0, g), o), o);
        });
      case ScalarOp::Relu:
        if (isActive(a)) give(a, extended(path, {{std::nullopt, less(number(0, y), y, o), true}}), g);
        return;
      case ScalarOp::Cast: return to(a, [&] { return g; });
      case ScalarOp::Add: to(a, [&] { return g; }); return to(b, [&] { return g; });
      case ScalarOp::Sub: to(a, [&] { return g; }); return to(b, [&] { return m_fold.neg(g, o); });
      case ScalarOp::Mul: to(a, [&] { return m_fold.mul(g, b, o); }); return to(b, [&] { return m_fold.mul(g, a, o); });
      case ScalarOp::Div:
        to(a, [&] { return m_fold.div(g, b, o); });
        return to(b, [&] { return m_fold.neg(m_fold.div(m_fold.mul(g, y, o), b, o), o); });
      case ScalarOp::Pow: return power(n, path, g, y);
      case ScalarOp::Max:
      case ScalarOp::Min: {
        // A tie goes to the second operand.
        const ExprId first = n.op == ScalarOp::Max ? less(b, a, o) : less(a, b, o);
        if (isActive(a)) give(a, extended(path, {{std::nullopt, first, true}}), g);
        if (isActive(b)) give(b, extended(path, {{std::nullopt, first, false}}), g);
        return;
      }
      case ScalarOp::Select:
        if (isActive(b)) give(b, extended(path, pathOf(m_program, a, true)), g);
        if (isActive(n.operands[2])) give(n.operands[2], extended(path, pathOf(m_program, a, false)), g);
        return;
      case ScalarOp::Constant:
      case ScalarOp::Index:
      case ScalarOp::Training:
      case ScalarOp::Random:
      case ScalarOp::IndexGe0:
      case ScalarOp::IndexEq0:
      case ScalarOp::Not:
      case ScalarOp::Floor:
      case ScalarOp::StopGradient:
      case ScalarOp::FloorDiv:
      case ScalarOp::Mod:
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Eq:
      case ScalarOp::Ne:
      case ScalarOp::And:
      case ScalarOp::Or: return;
    }
  }

  void power(const ScalarNode& n, const std::vector<PathCondition>& path, ExprId g, ExprId y) {
    const ExprId a = n.operands[0], b = n.operands[1];
    const OriginId o = n.origin;
    if (isActive(a)) {
      ExprId slope;
      if (const auto c = m_fold.constant(b)) {
        if (*c == 0) return;
        const ExprId rest = *c == 1   ? number(1, a)
                            : *c == 2 ? a
                                      : m_program.binary(ScalarOp::Pow, a, m_program.constant(*c - 1, m_program[b].type, o), o);
        slope = m_fold.mul(number(*c, a), rest, o);
      } else {
        // b*a^(b-1), which is 0 for b = 0 even where a is 0.
        const ExprId one = m_program.constant(1, m_program[a].type, o), zero = m_program.constant(0, m_program[a].type, o);
        const ExprId rest = m_program.binary(ScalarOp::Pow, a, m_program.binary(ScalarOp::Sub, b, one, o), o);
        slope = m_fold.select(m_program.binary(ScalarOp::Eq, b, zero, o), zero, m_fold.mul(b, rest, o), o);
      }
      give(a, path, m_fold.mul(g, slope, o));
    }
    if (isActive(b)) {
      const ExprId zero = number(0, a);
      const ExprId slope = m_fold.mul(y, m_program.unary(ScalarOp::Log, a, o), o);
      give(b, path, m_fold.mul(g, m_fold.select(m_program.binary(ScalarOp::Eq, a, zero, o), zero, slope, o), o));
    }
  }

  void occurrence(ExprId load, const PathAdjoint& adjoint) {
    std::vector<IndexCond> guards;
    std::vector<PathCondition> onData;
    for (const PathCondition& c : adjoint.path) {
      if (c.index) guards.push_back(*c.index);
      else onData.push_back(c);
    }
    const ExprId weight = guarded(m_program, onData, adjoint.weight);
    const Access& access = m_program[m_program[load].access];
    for (Occurrence& known : m_occurrences) {
      const Access& other = m_program[m_program[known.load].access];
      const bool same =
          other.tensor == access.tensor && known.guards == guards &&
          std::equal(access.indices.begin(), access.indices.end(), other.indices.begin(), other.indices.end(),
                     [](const AccessIndex& x, const AccessIndex& z) { return x.data == z.data && x.affine == z.affine; });
      if (!same) continue;
      known.weight = m_fold.add(known.weight, weight);
      return;
    }
    m_occurrences.push_back({load, std::move(guards), weight});
  }

  Program& m_program;
  const SweepRequest& m_request;
  Folding m_fold;
  std::unordered_set<std::uint32_t> m_active;
  std::unordered_map<std::uint32_t, std::vector<PathAdjoint>> m_adjoints;
  std::vector<Occurrence> m_occurrences;
};

}  // namespace

SweepResult sweepBody(Program& program, const SweepRequest& request) { return Sweep(program, request).run(); }

}  // namespace nf
