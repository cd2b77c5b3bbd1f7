// SPDX-License-Identifier: Apache-2.0
#include "core/session/held_values.h"

#include <algorithm>
#include <unordered_map>

#include "core/autodiff/reverse.h"
#include "core/ir/rewrite.h"
#include "core/support/checked.h"

namespace nf {
namespace {

constexpr std::int64_t kMostVisits = 100'000'000;  // of nodes, while conditions on the ways to held ones are gathered

bool isCondition(const Program& p, ExprId id) {
  switch (p[id].op) {
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Eq:
    case ScalarOp::Ne: return true;
    default: return false;
  }
}

bool isHeld(const Program& p, ExprId id, Hold hold) {
  const ScalarNode& n = p[id];
  if (n.op == ScalarOp::StopGradient) return true;
  if (hold == Hold::Stops) return false;
  if (n.op == ScalarOp::Floor || isCondition(p, id)) return true;
  return n.op == ScalarOp::Cast && !isFloating(n.type) && isFloating(p[n.operands[0]].type);
}

// Operands, and expressions in the indices of a load.
std::vector<ExprId> below(const Program& p, ExprId id) {
  const ScalarNode& n = p[id];
  std::vector<ExprId> result(n.operands.begin(), n.operands.begin() + info(n.op).arity);
  if (n.op == ScalarOp::Load)
    for (const AccessIndex& index : p[n.access].indices)
      if (index.isData()) result.push_back(index.data);
  return result;
}

struct Level {
  Program computes, holds;
  std::vector<HeldProgram::Value> values;
};

class Holder {
 public:
  Holder(Hold hold, std::int64_t mostElements) : m_hold(hold), m_left(mostElements) {}

  // trips: of the loops around, outermost first. wanted: which operators are looked at.
  Level run(const Program& p, const std::vector<bool>& moved, std::vector<std::int64_t>& trips, const std::vector<bool>& wanted) {
    Level level{p, p, {}};
    for (std::size_t o = 0; o < p.operators.size() && !m_failed; ++o) {
      if (!wanted[o]) continue;
      const Operator& op = p.operators[o];
      const auto reads = readsOf(p, OperatorId(o));
      if (std::none_of(reads.begin(), reads.end(), [&](TensorId t) { return moved[t.value]; })) continue;
      if (op.kind == OperatorKind::Loop) loop(p, op.loop, moved, trips, level);
      else if (m_hold == Hold::Jumps && (op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin))
        best(p, OperatorId(o), trips, level);
      else nodes(p, OperatorId(o), moved, trips, level);
    }
    return level;
  }

  bool failed() const { return m_failed; }
  std::int64_t uses = 0;
  std::vector<Span> places;

 private:
  TensorId addHeld(Program& holds, DType type, std::vector<std::int64_t> shape) {
    Tensor t;
    t.name = holds.freshName("held");
    t.kind = TensorKind::Input;
    t.type = type;
    t.shape = std::move(shape);
    return holds.addTensor(std::move(t));
  }

  // The held tensor at this step's place: counters of the loops around, then the first `rank` axes.
  ExprId heldAt(Program& holds, TensorId held, std::size_t depth, std::size_t rank) {
    std::vector<AccessIndex> at;
    for (std::size_t d = 0; d < depth; ++d) at.push_back({IndexExpr::variable(static_cast<IndexVar>(kLoopVariable + d)), {}});
    for (std::size_t k = 0; k < rank; ++k) at.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
    return holds.load(held, std::move(at));
  }

  bool takes(const std::vector<std::int64_t>& trips, const std::vector<std::int64_t>& shape) {
    std::optional<std::int64_t> elements = 1;
    for (const auto* extents : {&trips, &shape})
      for (const std::int64_t extent : *extents)
        if (elements) elements = checkedMul(*elements, extent);
    if (!elements || *elements > m_left) m_failed = true;
    else m_left -= *elements;
    return !m_failed;
  }

  static std::vector<std::int64_t> joined(std::vector<std::int64_t> first, const std::vector<std::int64_t>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  void told(const Program& p, OriginId origin) {
    ++uses;
    const Span span = origin.valid() ? p[origin].span : Span{};
    if (span.valid() && std::find(places.begin(), places.end(), span) == places.end()) places.push_back(span);
  }

  void loop(const Program& p, LoopId id, const std::vector<bool>& moved, std::vector<std::int64_t>& trips, Level& level) {
    const Loop& loop = p[id];
    trips.push_back(loop.trips);
    Level inner =
        run(*loop.body, dependentsInLoop(loop, moved, Through::Any), trips, std::vector<bool>(loop.body->operators.size(), true));
    trips.pop_back();
    if (inner.values.empty()) return;
    for (const HeldProgram::Value& v : inner.values) {
      const Tensor& one = inner.computes[v.computed];
      Tensor steps;
      steps.name = level.computes.freshName("held");
      steps.type = one.type;
      steps.shape = joined({loop.trips}, one.shape);
      const TensorId stacked = level.computes.addTensor(std::move(steps));
      level.computes[id].stacked.push_back({v.computed, stacked});
      const TensorId all = addHeld(level.holds, inner.holds[v.held].type, inner.holds[v.held].shape);
      level.holds[id].invariants.push_back({all, v.held});
      level.values.push_back({stacked, all});
    }
    level.computes[id].body = std::make_shared<const Program>(std::move(inner.computes));
    level.holds[id].body = std::make_shared<const Program>(std::move(inner.holds));
  }

  // An index of the best is a tensor already.
  void best(const Program& p, OperatorId id, const std::vector<std::int64_t>& trips, Level& level) {
    const Tensor& output = p[p[id].output];
    if (!takes(trips, output.shape)) return;
    const TensorId held = addHeld(level.holds, output.type, joined(trips, output.shape));
    Operator& op = level.holds[id];
    op.axes.resize(op.outputRank);
    op.reducer = Reducer::None;
    op.body = heldAt(level.holds, held, trips.size(), op.outputRank);
    level.values.push_back({p[id].output, held});
    told(p, p[id].origin);
  }

  void nodes(const Program& p, OperatorId id, const std::vector<bool>& moved, const std::vector<std::int64_t>& trips,
             Level& level) {
    const Operator& op = p[id];
    std::vector<ExprId> roots{op.body};
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) roots.push_back(index.data);
    std::unordered_map<std::uint32_t, ExprId> replacement;
    for (const ExprId root : roots) {
      const std::vector<ExprId> order = nodesOf(p, root);
      std::unordered_map<std::uint32_t, bool> depends, used;
      for (const ExprId node : order) {
        bool any = p[node].op == ScalarOp::Load && moved[p[p[node].access].tensor.value];
        for (const ExprId operand : below(p, node)) any = any || depends[operand.value];
        depends[node.value] = any;
      }
      used[root.value] = true;
      for (auto it = order.rbegin(); it != order.rend(); ++it) {
        if (!used[it->value]) continue;
        if (isHeld(p, *it, m_hold) && depends[it->value]) {
          if (!replacement.contains(it->value)) replacement[it->value] = hold(p, op, root, order, *it, trips, level);
          if (m_failed) return;
          continue;
        }
        for (const ExprId operand : below(p, *it)) used[operand.value] = true;
      }
    }
    if (replacement.empty()) return;
    ExprRewriter rewriter(p, level.holds);
    rewriter.node = [&](ExprId node, const ScalarNode&) -> std::optional<ExprId> {
      const auto found = replacement.find(node.value);
      return found == replacement.end() ? std::nullopt : std::optional(found->second);
    };
    const ExprId body = rewriter.rewrite(op.body);
    std::vector<AccessIndex> scatter = op.scatter;
    for (AccessIndex& index : scatter) index = rewriter.rewrite(index);
    level.holds[id].body = body;
    level.holds[id].scatter = std::move(scatter);
  }

  // An operator that computes the node at every point where the operator reads it, and what stands for it.
  ExprId hold(const Program& p, const Operator& op, ExprId root, const std::vector<ExprId>& order, ExprId node,
              const std::vector<std::int64_t>& trips, Level& level) {
    std::vector<std::int64_t> shape;
    for (const Axis& axis : op.axes) shape.push_back(axis.extent);
    if (!takes(trips, shape)) return {};
    const std::optional<ExprId> value = valueOnTheWay(p, root, order, node, level.computes);
    if (!value) {
      m_failed = true;
      return {};
    }
    const DType type = level.computes[*value].type;
    Tensor t;
    t.name = level.computes.freshName("held");
    t.type = type;
    t.shape = shape;
    Operator made;
    made.name = t.name;
    made.axes = op.axes;
    made.outputRank = static_cast<std::uint32_t>(op.axes.size());
    made.body = *value;
    made.origin = op.origin;
    made.output = level.computes.addTensor(std::move(t));
    const TensorId computed = made.output;
    level.computes.addOperator(std::move(made));
    const TensorId held = addHeld(level.holds, type, joined(trips, shape));
    level.values.push_back({computed, held});
    told(p, p[node].origin);
    const ExprId read = heldAt(level.holds, held, trips.size(), shape.size());
    return isCondition(p, node) ? level.holds.binary(ScalarOp::Ne, read, level.holds.constant(0, type)) : read;
  }

  // The node's value where the evaluation of `root` comes to it, on whatever way, else 0. nullopt: too many nodes to visit.
  std::optional<ExprId> valueOnTheWay(const Program& p, ExprId root, const std::vector<ExprId>& order, ExprId node, Program& to) {
    m_visits += static_cast<std::int64_t>(order.size());
    if (m_visits > kMostVisits) return std::nullopt;
    std::unordered_map<std::uint32_t, ExprId> value, reached;  // reached: where, of those that are not always
    std::unordered_map<std::uint32_t, bool> always;
    const auto zeroLike = [&](ExprId e) { return to.constant(0, to[e].type); };
    if (isCondition(p, node)) value[node.value] = to.select(node, to.constant(1), to.constant(0));
    else value[node.value] = p[node].op == ScalarOp::StopGradient ? p[node].operands[0] : node;
    always[node.value] = true;
    for (const ExprId user : order) {
      if (user == node) continue;
      const std::vector<ExprId> operands = below(p, user);
      std::vector<std::size_t> having;
      for (std::size_t k = 0; k < operands.size(); ++k)
        if (value.contains(operands[k].value)) having.push_back(k);
      if (having.empty()) continue;
      const ScalarOp op = p[user].op;
      const auto lazy = [&](std::size_t k) {
        return op == ScalarOp::Select ? k > 0 : (op == ScalarOp::And || op == ScalarOp::Or) && k == 1;
      };
      const auto sure =
          std::find_if(having.begin(), having.end(), [&](std::size_t k) { return !lazy(k) && always[operands[k].value]; });
      if (sure != having.end()) {
        value[user.value] = value[operands[*sure].value];
        always[user.value] = true;
        continue;
      }
      const ExprId condition = operands[0];
      always[user.value] = op == ScalarOp::Select && having == std::vector<std::size_t>{1, 2} && always[operands[1].value] &&
                           always[operands[2].value];
      if (always[user.value]) {
        value[user.value] = to.select(condition, value[operands[1].value], value[operands[2].value]);
        continue;
      }
      // The first way that comes to it; its value is the same on every one.
      std::optional<ExprId> any, where;
      for (auto k = having.rbegin(); k != having.rend(); ++k) {
        const ExprId operand = operands[*k];
        ExprId one = value[operand.value], comes;
        if (lazy(*k)) {
          const bool taken = op == ScalarOp::Select ? *k == 1 : op == ScalarOp::And;
          const ExprId zero = zeroLike(one);
          one = to.select(condition, taken ? one : zero, taken ? zero : one);
          comes = taken ? condition : to.unary(ScalarOp::Not, condition);
          if (!always[operand.value]) comes = to.binary(ScalarOp::And, comes, reached[operand.value]);
        } else {
          comes = reached[operand.value];
        }
        any = any ? to.select(comes, one, *any) : one;
        where = where ? to.binary(ScalarOp::Or, comes, *where) : comes;
      }
      value[user.value] = *any;
      reached[user.value] = *where;
    }
    return value.at(root.value);
  }

  Hold m_hold;
  std::int64_t m_left, m_visits = 0;
  bool m_failed = false;
};

}  // namespace

std::optional<HeldProgram> holdValues(const Program& program, TensorId of, TensorId moved, Hold hold, std::int64_t mostElements) {
  std::vector<bool> depends(program.tensors.size(), false), needed(program.tensors.size(), false);
  depends[moved.value] = true;
  markDependents(program, depends, Through::Any);
  needed[of.value] = true;
  std::vector<bool> wanted(program.operators.size(), false);
  for (std::size_t o = program.operators.size(); o-- > 0;) {
    const auto writes = writesOf(program, OperatorId(o));
    wanted[o] = std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return needed[t.value]; });
    if (!wanted[o]) continue;
    for (const TensorId t : readsOf(program, OperatorId(o))) needed[t.value] = true;
  }
  Holder holder(hold, mostElements);
  std::vector<std::int64_t> trips;
  Level level = holder.run(program, depends, trips, wanted);
  if (holder.failed()) return std::nullopt;
  return HeldProgram{std::move(level.computes), std::move(level.holds), std::move(level.values), holder.uses,
                     std::move(holder.places)};
}

}  // namespace nf
