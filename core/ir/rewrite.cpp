// SPDX-License-Identifier: Apache-2.0
#include "core/ir/rewrite.h"

#include <algorithm>
#include <queue>

#include "core/ir/folding.h"
#include "core/support/assert.h"

namespace nf {

IndexExpr ExprRewriter::rewrite(const IndexExpr& index) const {
  IndexExpr result = variable ? substitute(index, variable) : index;
  return ranges ? simplify(result, ranges) : result;
}

AccessIndex ExprRewriter::rewrite(const AccessIndex& index) {
  AccessIndex copy;
  if (index.isData()) copy.data = rewrite(index.data);
  else copy.affine = rewrite(index.affine);
  return copy;
}

ExprId ExprRewriter::rewrite(ExprId root) {
  if (!root.valid()) return {};
  Folding fold(m_to);
  for (const ExprId id : nodesOf(m_from, root)) {
    if (m_done.contains(id.value)) continue;
    ScalarNode copy = m_from[id];
    if (node) {
      if (const auto replaced = node(id, copy)) {
        m_done[id.value] = *replaced;
        continue;
      }
    }
    if (origin) copy.origin = origin(copy.origin);
    for (int k = 0; k < info(copy.op).arity; ++k) copy.operands[k] = m_done.at(copy.operands[k].value);
    if (copy.index.valid()) {
      IndexExpr index = rewrite(m_from[copy.index]);
      if (ranges && (copy.op == ScalarOp::IndexGe0 || copy.op == ScalarOp::IndexEq0)) {
        const IndexCond decided = simplify(copy.op == ScalarOp::IndexGe0 ? IndexCond::ge0(index) : IndexCond::eq0(index), ranges);
        if (decided.kind == IndexCond::Kind::And || decided.kind == IndexCond::Kind::Or) {
          m_done[id.value] = m_to.constant(decided.isAlways() ? 1 : 0, DType::Bool, copy.origin);
          continue;
        }
      }
      m_to.indices.push_back(std::move(index));
      copy.index = IndexId(m_to.indices.size() - 1);
    }
    if (copy.access.valid()) {
      Access made = m_from[copy.access];
      for (AccessIndex& index : made.indices) {
        if (index.isData()) index.data = m_done.at(index.data.value);
        else index.affine = rewrite(index.affine);
      }
      if (access) made = access(std::move(made));
      m_to.accesses.push_back(std::move(made));
      copy.access = AccessId(m_to.accesses.size() - 1);
    }
    m_done[id.value] = fold.rebuilt(copy);
  }
  return m_done.at(root.value);
}

IndexCond simplify(const IndexCond& condition, const RangeOf& ranges) {
  switch (condition.kind) {
    case IndexCond::Kind::GreaterEqualZero:
    case IndexCond::Kind::EqualZero: {
      IndexExpr e = simplify(condition.expr, ranges);
      const auto range = bounds(e, ranges);
      const bool ge = condition.kind == IndexCond::Kind::GreaterEqualZero;
      if (range && (ge ? range->lo >= 0 : range->lo == 0 && range->hi == 0)) return IndexCond::always();
      if (range && (range->hi < 0 || (!ge && range->lo > 0))) return IndexCond::any({});
      return ge ? IndexCond::ge0(std::move(e)) : IndexCond::eq0(std::move(e));
    }
    case IndexCond::Kind::Not: {
      const IndexCond inner = simplify(condition.operands[0], ranges);
      if (inner.isAlways()) return IndexCond::any({});
      if (inner.kind == IndexCond::Kind::Or && inner.operands.empty()) return IndexCond::always();
      return IndexCond::negate(inner);
    }
    case IndexCond::Kind::And:
    case IndexCond::Kind::Or: break;
  }
  const bool conjunction = condition.kind == IndexCond::Kind::And;
  std::vector<IndexCond> kept;
  for (const IndexCond& operand : condition.operands) {
    IndexCond one = simplify(operand, ranges);
    const bool never = one.kind == IndexCond::Kind::Or && one.operands.empty();
    if (conjunction ? never : one.isAlways()) return one;
    if (conjunction ? one.isAlways() : never) continue;
    kept.push_back(std::move(one));
  }
  if (kept.size() == 1) return kept.front();
  return conjunction ? IndexCond::all(std::move(kept)) : IndexCond::any(std::move(kept));
}

namespace {

// Everything but the operators that a tensor may be needed for; `named`: by what stands around the program.
std::vector<TensorId> compactTensors(Program& program, std::size_t keep, const std::vector<TensorId>& named) {
  std::vector<bool> used(program.tensors.size(), false);
  const auto use = [&](TensorId t) {
    if (t.valid()) used[t.value] = true;
  };
  for (std::size_t t = 0; t < keep && t < used.size(); ++t) used[t] = true;
  for (const TensorId t : named) use(t);
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    for (const TensorId t : readsOf(program, OperatorId(o))) use(t);
    for (const TensorId t : writesOf(program, OperatorId(o))) use(t);
  }
  for (const Derivative& d : program.derivatives)
    for (const TensorId t : {d.of, d.wrt, d.result, d.seed}) use(t);
  for (const Update& u : program.updates)
    for (const TensorId t : {u.target, u.value}) use(t);
  for (const Output& o : program.outputs) use(o.tensor);

  std::vector<TensorId> moved(used.size());
  std::vector<Tensor> tensors;
  for (std::size_t t = 0; t < used.size(); ++t) {
    if (!used[t]) continue;
    moved[t] = TensorId(tensors.size());
    tensors.push_back(std::move(program.tensors[t]));
  }
  const bool changed = tensors.size() != used.size();
  program.tensors = std::move(tensors);
  if (!changed) return moved;
  const auto move = [&](TensorId& t) {
    if (t.valid()) t = moved[t.value];
  };
  // A load of a dropped tensor stands in no operator: it becomes a literal, so that the pools stay well-formed.
  for (ScalarNode& n : program.scalars)
    if (n.op == ScalarOp::Load && !moved[program.accesses[n.access.value].tensor.value].valid()) {
      n.op = ScalarOp::Constant;
      n.value = 0;
      n.access = {};
    }
  for (Access& a : program.accesses) {
    move(a.tensor);
    if (a.tensor.valid() || program.tensors.empty()) continue;
    a.tensor = TensorId(std::size_t{0});
    a.indices.assign(program.tensors[0].shape.size(), {});
  }
  for (Operator& op : program.operators) move(op.output);
  for (Loop& loop : program.loops) {
    for (auto& c : loop.carried) {
      move(c.initial);
      move(c.last);
    }
    for (auto& i : loop.invariants) move(i.outer);
    for (auto& s : loop.stacked) move(s.outer);
    for (auto& a : loop.accumulated) move(a.outer);
  }
  for (Derivative& d : program.derivatives)
    for (TensorId* t : {&d.of, &d.wrt, &d.result, &d.seed}) move(*t);
  for (Update& u : program.updates)
    for (TensorId* t : {&u.target, &u.value}) move(*t);
  for (Output& o : program.outputs) move(o.tensor);
  return moved;
}

void compactLoops(Program& program) {
  for (Loop& loop : program.loops) {
    if (!loop.body) continue;
    Program body = *loop.body;
    compactLoops(body);
    std::vector<TensorId*> inner;
    for (auto& c : loop.carried) inner.insert(inner.end(), {&c.innerIn, &c.innerOut});
    for (auto& i : loop.invariants) inner.push_back(&i.inner);
    for (auto& s : loop.stacked) inner.push_back(&s.inner);
    for (auto& a : loop.accumulated) inner.push_back(&a.inner);
    std::vector<TensorId> named;
    for (const TensorId* t : inner) named.push_back(*t);
    const std::vector<TensorId> moved = compactTensors(body, 0, named);
    for (TensorId* t : inner) *t = moved[t->value];
    loop.body = std::make_shared<const Program>(std::move(body));
  }
}

}  // namespace

std::vector<TensorId> dropUnusedTensors(Program& program, std::size_t keep) {
  compactLoops(program);
  return compactTensors(program, keep, {});
}

std::vector<OperatorId> sortOperators(Program& program) {
  const std::size_t count = program.operators.size();
  const std::vector<OperatorId> made = producers(program);
  std::vector<std::vector<std::uint32_t>> readers(count);
  std::vector<std::uint32_t> waits(count, 0);
  for (std::size_t o = 0; o < count; ++o)
    for (const TensorId t : readsOf(program, OperatorId(o)))
      if (const OperatorId from = made[t.value]; from.valid()) {
        readers[from.value].push_back(static_cast<std::uint32_t>(o));
        ++waits[o];
      }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::size_t o = 0; o < count; ++o)
    if (waits[o] == 0) ready.push(static_cast<std::uint32_t>(o));
  std::vector<OperatorId> moved(count);
  std::vector<std::uint32_t> order;
  while (!ready.empty()) {
    const std::uint32_t o = ready.top();
    ready.pop();
    moved[o] = OperatorId(order.size());
    order.push_back(o);
    for (const std::uint32_t reader : readers[o])
      if (--waits[reader] == 0) ready.push(reader);
  }
  if (order.size() != count) return {};
  std::vector<Operator> operators;
  operators.reserve(count);
  for (const std::uint32_t o : order) operators.push_back(std::move(program.operators[o]));
  program.operators = std::move(operators);
  for (Group& g : program.groups)
    for (OperatorId& id : g.operators) id = moved[id.value];
  return moved;
}

OriginId OriginImporter::operator()(OriginId id) {
  if (!id.valid() || id.value >= m_from.origins.size()) return {};
  // Parents precede what is made from them, so a stack of what is not copied yet ends.
  std::vector<OriginId> stack{id};
  while (!stack.empty()) {
    const OriginId next = stack.back();
    if (m_done.contains(next.value)) {
      stack.pop_back();
      continue;
    }
    const Origin& origin = m_from[next];
    bool complete = true;
    for (const OriginId parent : origin.parents)
      if (!m_done.contains(parent.value)) {
        stack.push_back(parent);
        complete = false;
      }
    if (!complete) continue;
    Origin copy = origin;
    for (OriginId& parent : copy.parents) parent = m_done.at(parent.value);
    m_done.emplace(next.value, m_to.addOrigin(std::move(copy)));
    stack.pop_back();
  }
  return m_done.at(id.value);
}

Operator liftOverTime(const Program& body, Program& outer, const Operator& op, const Loop& loop, OriginId loopOrigin,
                      const std::function<OuterTensor(TensorId)>& tensor, OriginImporter& import) {
  Operator lifted = op;
  std::string time = loop.counter;
  const auto taken = [&] { return std::any_of(op.axes.begin(), op.axes.end(), [&](const Axis& a) { return a.name == time; }); };
  while (taken()) time += "_";
  for (Axis& axis : lifted.axes) axis.origin = import(axis.origin);
  lifted.axes.insert(lifted.axes.begin(), {time, loop.trips, loopOrigin});
  if (op.kind == OperatorKind::Gather) ++lifted.outputRank;
  lifted.origin = import(op.origin);
  ExprRewriter rewriter(body, outer);
  rewriter.origin = [&](OriginId o) { return import(o); };
  rewriter.variable = [depth = loop.depth](IndexVar v) -> std::optional<IndexExpr> {
    if (v == kLoopVariable + depth) return IndexExpr::variable(0);
    if (v >= kLoopVariable) return std::nullopt;
    return IndexExpr::variable(v + 1);
  };
  rewriter.access = [&](Access access) {
    const OuterTensor found = tensor(access.tensor);
    access.tensor = found.id;
    if (found.timed) access.indices.insert(access.indices.begin(), {IndexExpr::variable(0), {}});
    return access;
  };
  lifted.body = rewriter.rewrite(op.body);
  for (AccessIndex& index : lifted.scatter) index = rewriter.rewrite(index);
  if (op.kind == OperatorKind::Scatter) lifted.scatter.insert(lifted.scatter.begin(), {IndexExpr::variable(0), {}});
  lifted.output = {};
  return lifted;
}

}  // namespace nf
