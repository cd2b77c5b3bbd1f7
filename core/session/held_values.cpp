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

bool isKink(const Program& p, ExprId id, Hold hold) {
  if (hold == Hold::Stops || !isFloating(p[id].type)) return false;
  const ScalarOp op = p[id].op;
  return op == ScalarOp::Abs || op == ScalarOp::Relu || op == ScalarOp::Max || op == ScalarOp::Min;
}

bool isBestOfMany(const Operator& op) { return op.reducer == Reducer::Max || op.reducer == Reducer::Min; }
bool isIndexOfBest(const Operator& op) { return op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin; }

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
      else if (m_hold == Hold::Choices && isIndexOfBest(op)) best(p, OperatorId(o), trips, level);
      else nodes(p, OperatorId(o), moved, trips, level);
      if (m_hold == Hold::Choices && !m_failed && isBestOfMany(op) && isFloating(p[op.body].type))
        shares(p, OperatorId(o), trips, level);
    }
    return level;
  }

  bool failed() const { return m_failed; }
  std::vector<HeldProgram::Site> sites;
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

  std::size_t told(const Program& p, const Operator& op, OriginId origin, std::string_view what, HeldProgram::Site::Kind kind) {
    ++uses;
    const Span span = origin.valid() ? p[origin].span : Span{};
    if (span.valid() && std::find(places.begin(), places.end(), span) == places.end()) places.push_back(span);
    sites.push_back({std::string(what), op.name, span, kind});
    return sites.size() - 1;
  }

  // An operator over the axes of `op`, the first `rank` of them the output's. Its output.
  TensorId addComputed(Program& computes, const Operator& op, std::size_t rank, Reducer reducer, ExprId body, DType type) {
    Tensor t;
    t.name = computes.freshName("held");
    t.type = type;
    for (std::size_t k = 0; k < rank; ++k) t.shape.push_back(op.axes[k].extent);
    Operator made;
    made.name = t.name;
    made.axes = op.axes;
    made.outputRank = static_cast<std::uint32_t>(rank);
    made.reducer = reducer;
    made.body = body;
    made.origin = op.origin;
    made.output = computes.addTensor(std::move(t));
    const TensorId output = made.output;
    computes.addOperator(std::move(made));
    return output;
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
      level.values.push_back({stacked, all, v.site});
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
    level.values.push_back(
        {p[id].output, held, told(p, p[id], p[id].origin, spelling(p[id].reducer), HeldProgram::Site::Kind::Jump)});
  }

  // The best of many is a sum of them all, weighted by who has the gradient: 1 for the first of equals, or their share each.
  void shares(const Program& p, OperatorId id, const std::vector<std::int64_t>& trips, Level& level) {
    const Operator& op = p[id];
    std::vector<std::int64_t> shape;
    for (const Axis& axis : op.axes) shape.push_back(axis.extent);
    if (!takes(trips, shape)) return;
    Program& c = level.computes;
    const DType type = p[op.body].type;
    const auto one = [&] { return c.constant(1, type); };
    const auto zero = [&] { return c.constant(0, type); };
    ExprId weight;
    if (op.tiesEven) {
      const TensorId best = addComputed(c, op, op.outputRank, op.reducer, op.body, type);
      const TensorId isBest =
          addComputed(c, op, op.axes.size(), Reducer::None,
                      c.select(c.binary(ScalarOp::Eq, op.body, heldAt(c, best, 0, op.outputRank)), one(), zero()), type);
      const TensorId equals = addComputed(c, op, op.outputRank, Reducer::Sum, heldAt(c, isBest, 0, op.axes.size()), type);
      weight = c.binary(ScalarOp::Div, heldAt(c, isBest, 0, op.axes.size()), heldAt(c, equals, 0, op.outputRank));
    } else {
      const TensorId best =
          addComputed(c, op, op.outputRank, op.reducer == Reducer::Max ? Reducer::ArgMax : Reducer::ArgMin, op.body, DType::I32);
      IndexExpr place;
      for (std::size_t k = op.outputRank; k < op.axes.size(); ++k)
        place = op.axes[k].extent * place + IndexExpr::variable(static_cast<IndexVar>(k));
      weight = c.select(c.binary(ScalarOp::Eq, c.indexValue(place, DType::I32), heldAt(c, best, 0, op.outputRank)), one(), zero());
    }
    const TensorId computed = addComputed(c, op, op.axes.size(), Reducer::None, weight, type);
    const TensorId held = addHeld(level.holds, type, joined(trips, shape));
    level.values.push_back({computed, held,
                            told(p, op, op.origin, spelling(op.reducer),
                                 op.tiesEven ? HeldProgram::Site::Kind::Even : HeldProgram::Site::Kind::First)});
    Program& h = level.holds;
    const ExprId share = heldAt(h, held, trips.size(), shape.size());
    const ExprId body = h.select(h.binary(ScalarOp::Ne, share, h.constant(0, type)), h.binary(ScalarOp::Mul, share, h[id].body),
                                 h.constant(0, type));
    h[id].body = body;
    h[id].reducer = Reducer::Sum;
    h[id].tiesEven = false;
  }

  static std::string_view spelling(Reducer reducer) {
    switch (reducer) {
      case Reducer::Max: return "max";
      case Reducer::Min: return "min";
      case Reducer::ArgMax: return "argmax";
      default: return "argmin";
    }
  }

  void nodes(const Program& p, OperatorId id, const std::vector<bool>& moved, const std::vector<std::int64_t>& trips,
             Level& level) {
    const Operator& op = p[id];
    std::vector<ExprId> roots{op.body};
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) roots.push_back(index.data);
    std::unordered_map<std::uint32_t, ExprId> replacement, sides;  // sides: of kinks, what is held of them
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
        if (isKink(p, *it, m_hold) && depends[it->value] && !sides.contains(it->value)) {
          sides[it->value] = hold(p, op, root, order, *it, trips, level);
          if (m_failed) return;
        }
        for (const ExprId operand : below(p, *it)) used[operand.value] = true;
      }
    }
    if (replacement.empty() && sides.empty()) return;
    ExprRewriter rewriter(p, level.holds);
    rewriter.node = [&](ExprId node, const ScalarNode& n) -> std::optional<ExprId> {
      if (const auto found = replacement.find(node.value); found != replacement.end()) return found->second;
      const auto side = sides.find(node.value);
      if (side == sides.end()) return std::nullopt;
      Program& h = level.holds;
      const ExprId a = rewriter.rewrite(n.operands[0]);
      if (n.op == ScalarOp::Abs) return h.binary(ScalarOp::Mul, side->second, a);
      const ExprId b = n.op == ScalarOp::Relu ? h.constant(0, n.type) : rewriter.rewrite(n.operands[1]);
      return h.select(h.binary(ScalarOp::Ne, side->second, h.constant(0, n.type)), a, b);
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
    const TensorId computed = addComputed(level.computes, op, op.axes.size(), Reducer::None, *value, type);
    const TensorId held = addHeld(level.holds, type, joined(trips, shape));
    using Kind = HeldProgram::Site::Kind;
    const Kind kind = p[node].op == ScalarOp::StopGradient ? Kind::Stop : isKink(p, node, m_hold) ? Kind::Kink : Kind::Jump;
    level.values.push_back(
        {computed, held, told(p, op, p[node].origin, isCondition(p, node) ? "comparison" : info(p[node].op).spelling, kind)});
    const ExprId read = heldAt(level.holds, held, trips.size(), shape.size());
    return isCondition(p, node) ? level.holds.binary(ScalarOp::Ne, read, level.holds.constant(0, type)) : read;
  }

  // The slope of `abs`; 1 where `relu` passes, and where the first of two is better, else 0. On the kink as the gradient has it.
  static ExprId sideOf(const ScalarNode& n, Program& to) {
    const auto number = [&](double v) { return to.constant(v, n.type); };
    const ExprId a = n.operands[0], b = n.op == ScalarOp::Max || n.op == ScalarOp::Min ? n.operands[1] : number(0);
    const auto less = [&](ExprId x, ExprId y) { return to.binary(ScalarOp::Lt, x, y); };
    if (n.op == ScalarOp::Abs) return to.select(less(a, b), number(-1), to.select(less(b, a), number(1), number(0)));
    return to.select(n.op == ScalarOp::Min ? less(a, b) : less(b, a), number(1), number(0));
  }

  // The node's value where the evaluation of `root` comes to it, on whatever way, else 0. nullopt: too many nodes to visit.
  std::optional<ExprId> valueOnTheWay(const Program& p, ExprId root, const std::vector<ExprId>& order, ExprId node, Program& to) {
    m_visits += static_cast<std::int64_t>(order.size());
    if (m_visits > kMostVisits) return std::nullopt;
    std::unordered_map<std::uint32_t, ExprId> value, reached;  // reached: where, of those that are not always
    std::unordered_map<std::uint32_t, bool> always;
    const auto zeroLike = [&](ExprId e) { return to.constant(0, to[e].type); };
    if (isCondition(p, node)) value[node.value] = to.select(node, to.constant(1), to.constant(0));
    else if (isKink(p, node, m_hold)) value[node.value] = sideOf(p[node], to);
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
  return HeldProgram{
      std::move(level.computes), std::move(level.holds), std::move(holder.sites), std::move(level.values), holder.uses,
      std::move(holder.places)};
}

}  // namespace nf
