// SPDX-License-Identifier: Apache-2.0
// Reductions inside expressions: each becomes an operator of its own, over the axes it needs and where it is wanted.
#include <algorithm>
#include <limits>

#include "core/ir/folding.h"
#include "core/ir/rewrite.h"
#include "core/lang/operation.h"
#include "core/support/checked.h"

namespace nf::lang {

void Statement::freeVariables(TermId id, std::vector<bool>& into, std::vector<bool>& seen) const {
  if (seen[id]) return;
  seen[id] = true;
  const Term& t = m_terms[id];
  std::vector<IndexVar> variables;
  t.index.collectVariables(variables);
  for (const TermIndex& i : t.indices) {
    if (i.data != kNoTerm) freeVariables(i.data, into, seen);
    else i.affine.collectVariables(variables);
  }
  for (const IndexVar v : variables)
    if (v < into.size()) into[v] = true;
  for (const TermId o : t.operands)
    if (o != kNoTerm) freeVariables(o, into, seen);
  if (t.otherwise != kNoTerm) freeVariables(t.otherwise, into, seen);
  for (const IndexVar v : t.variables) into[v] = false;  // names of reductions are unique, so nothing outside means them
}

// Every affine access below stays in bounds without help of conditions further up.
bool Statement::boundsObvious(TermId id, std::vector<bool>& seen) const {
  if (seen[id]) return true;
  seen[id] = true;
  const Term& t = m_terms[id];
  if (t.kind == Term::Kind::Load) {
    const Tensor& tensor = m_elab.tensorOf(t.tensor);
    const RangeOf known = ranges();
    for (std::size_t k = 0; k < t.indices.size(); ++k) {
      if (t.indices[k].data != kNoTerm) {
        if (!boundsObvious(t.indices[k].data, seen)) return false;
        continue;
      }
      if (t.otherwise != kNoTerm) continue;
      const auto range = bounds(t.indices[k].affine, known);
      if (!range || range->lo < 0 || range->hi >= tensor.shape[k]) return false;
    }
  }
  for (const TermId o : t.operands)
    if (o != kNoTerm && !boundsObvious(o, seen)) return false;
  return t.otherwise == kNoTerm || boundsObvious(t.otherwise, seen);
}

// The turns that lead to the reductions below, where several ways lead to one those that all of them take.
void Statement::findPaths(Operation& op, const std::vector<TermId>& roots) const {
  std::vector<TermId> order;  // what is read stands before its readers
  std::vector<bool> seen(m_terms.size(), false);
  bool nested = false;
  const std::function<void(TermId)> visit = [&](TermId id) {
    if (id == kNoTerm || seen[id]) return;
    seen[id] = true;
    const Term& t = m_terms[id];
    if (t.kind == Term::Kind::Reduce) {
      nested = true;
    } else {
      for (const TermIndex& i : t.indices) visit(i.data);
      for (const TermId o : t.operands) visit(o);
      visit(t.otherwise);
    }
    order.push_back(id);
  };
  for (const TermId root : roots) visit(root);
  if (!nested) return;
  using Turn = Operation::Turn;
  std::unordered_map<TermId, std::vector<Turn>> turns;
  for (const TermId root : roots) turns[root] = {};
  const auto reach = [&](TermId id, std::vector<Turn> way) {
    if (id == kNoTerm) return;
    const auto [known, first] = turns.try_emplace(id, way);
    if (!first)
      std::erase_if(known->second, [&](const Turn& turn) { return std::find(way.begin(), way.end(), turn) == way.end(); });
  };
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const TermId id = *at;
    const Term& t = m_terms[id];
    const std::vector<Turn> way = turns.at(id);
    if (t.kind == Term::Kind::Reduce) {
      op.turns.emplace(id, way);
      continue;
    }
    const auto turning = [&](bool holds) {
      std::vector<Turn> longer = way;
      longer.push_back({id, holds});
      return longer;
    };
    const bool select = t.kind == Term::Kind::Op && t.op == ScalarOp::Select;
    for (const TermIndex& i : t.indices) reach(i.data, way);
    for (std::size_t k = 0; k < t.operands.size(); ++k) reach(t.operands[k], select && k > 0 ? turning(k == 1) : way);
    reach(t.otherwise, turning(false));
  }
}

// Over the operator's variables: what holds wherever the value of this reduction is wanted.
std::vector<PathCondition> Statement::pathTo(const Operation& op, TermId reduction) const {
  std::vector<PathCondition> path = op.path;
  const auto turns = op.turns.find(reduction);
  if (turns == op.turns.end()) return path;
  for (const Operation::Turn& turn : turns->second) {
    const auto condition = op.conditions.find(turn.at);
    if (condition == op.conditions.end()) continue;  // never fails
    for (PathCondition& c : pathOf(m_elab.program(), condition->second, turn.holds))
      if (std::find(path.begin(), path.end(), c) == path.end()) path.push_back(std::move(c));
  }
  return path;
}

// Whether the value or a slope may be infinite or no number though what is read is finite.
bool Statement::mayBlowUp(TermId id, std::vector<bool>& seen) const {
  if (id == kNoTerm || seen[id]) return false;
  seen[id] = true;
  const Term& t = m_terms[id];
  if (t.kind == Term::Kind::Op && t.type != DType::Bool) {
    switch (t.op) {
      case ScalarOp::Exp:
      case ScalarOp::Log:
      case ScalarOp::Sqrt:
      case ScalarOp::Rsqrt: return true;
      case ScalarOp::Div: {
        const auto by = constantOf(t.operands[1]);
        if (!by || by->value() == 0) return true;
        break;
      }
      case ScalarOp::Pow: {
        const auto to = constantOf(t.operands[1]);
        if (!to || !to->isInteger || to->integer < 0) return true;
        break;
      }
      default: break;
    }
  }
  for (const TermIndex& i : t.indices)
    if (mayBlowUp(i.data, seen)) return true;
  for (const TermId o : t.operands)
    if (mayBlowUp(o, seen)) return true;
  return mayBlowUp(t.otherwise, seen);
}

// Whether an index below is read from data, which no proof keeps in bounds.
bool Statement::looksUpData(TermId id, std::vector<bool>& seen) const {
  if (id == kNoTerm || seen[id]) return false;
  seen[id] = true;
  const Term& t = m_terms[id];
  for (const TermIndex& i : t.indices)
    if (i.data != kNoTerm) return true;
  for (const TermId o : t.operands)
    if (looksUpData(o, seen)) return true;
  return looksUpData(t.otherwise, seen);
}

namespace {

std::vector<IndexVar> variablesOf(const Program& p, const PathCondition& c) {
  std::vector<IndexVar> result;
  if (c.index) {
    collectVariables(*c.index, result);
    return result;
  }
  for (const ExprId e : nodesOf(p, c.data)) {
    const ScalarNode& n = p[e];
    if (n.index.valid()) p[n.index].collectVariables(result);
    if (n.access.valid())
      for (const AccessIndex& i : p[n.access].indices) i.affine.collectVariables(result);
  }
  return result;
}

}  // namespace

ExprId underPath(Program& p, const std::vector<PathCondition>& path, ExprId value, OriginId origin) {
  for (std::size_t end = path.size(); end > 0;) {
    std::size_t begin = end - 1;
    ExprId condition;
    if (path[begin].index) {
      while (begin > 0 && path[begin - 1].index) --begin;
      std::vector<IndexCond> all;
      for (std::size_t k = begin; k < end; ++k) all.push_back(*path[k].index);
      condition = p.cond(IndexCond::all(std::move(all)), origin);
    } else {
      condition = path[begin].holds ? path[begin].data : Folding(p).logicalNot(path[begin].data, origin);
    }
    value = p.select(condition, value, p.constant(0, p[value].type, origin), origin);
    end = begin;
  }
  return value;
}

ExprId Statement::emitNested(Operation& outer, TermId id) {
  const Term t = m_terms[id];
  std::vector<bool> free(m_variables.size(), false), seen(m_terms.size(), false);
  freeVariables(id, free, seen);
  std::fill(seen.begin(), seen.end(), false);
  std::vector<PathCondition> path = pathTo(outer, id);
  // The value is wanted under these conditions only. Its operator has to know where bounds rest on them, and where a gradient does:
  // the adjoint that comes back is 0 elsewhere, but 0 times the infinite slope of log(0) is no number. Where an index is data, too: a
  // condition on that data may be what keeps it in bounds.
  const bool forBounds = !path.empty() && !boundsObvious(id, seen);
  std::fill(seen.begin(), seen.end(), false);
  const bool forSlopes = !path.empty() && mayBlowUp(id, seen);
  std::fill(seen.begin(), seen.end(), false);
  const bool forData = !path.empty() && looksUpData(id, seen);
  if (!forSlopes && !forData) std::erase_if(path, [&](const PathCondition& c) { return !forBounds || !c.index; });
  if (forBounds)
    for (const PathCondition& c : path)
      if (c.index)
        for (const IndexVar v : variablesOf(m_elab.program(), c))
          if (v < outer.axes.size()) free[outer.axes[v]] = true;
  Operation inner;
  std::vector<std::int64_t> shape;
  std::vector<std::string> names;
  for (const IndexVar v : outer.axes)
    if (free[v]) {
      inner.axes.push_back(v);
      shape.push_back(m_variables[v].extent);
      names.push_back(m_variables[v].name);
    }
  Wish wish;
  const std::string base = m_elab.m_nestedBase.empty() ? "t" : m_elab.m_nestedBase;
  wish.tensor.local = base + "." + std::string(t.mean ? "mean" : name(t.reducer));
  wish.tensor.span = t.head;
  wish.tensor.temporary = true;
  wish.tensor.shape = shape;
  wish.tensor.axisNames = names;
  const auto known = [&](const PathCondition& c) {
    const auto used = variablesOf(m_elab.program(), c);
    return std::all_of(used.begin(), used.end(), [&](IndexVar v) { return v >= outer.axes.size() || free[outer.axes[v]]; });
  };
  if (std::all_of(path.begin(), path.end(), known)) inner.path = onAxes(outer, inner.axes, path);
  else inner.path = somewhere(outer, inner.axes, path, base + ".any", t);
  m_guard = inner.path;
  const std::vector<IndexVar> axes = inner.axes;
  const TensorRef made = finish(inner, id, wish, t.span, t.frame);
  std::vector<AccessIndex> at;
  for (const IndexVar v : axes) {
    AccessIndex index;
    index.affine = IndexExpr::variable(outer.position[v]);
    at.push_back(std::move(index));
  }
  const OriginId origin = m_elab.originThrough(m_elab.context(), t.head, t.frame, t.passed);
  if (!made.valid()) {
    m_failed = true;
    return m_elab.program().constant(0, t.type, origin);
  }
  return m_elab.program().load(made.id, std::move(at), origin);
}

// Conditions over the outer operator's variables as conditions over an operator with these axes.
std::vector<PathCondition> Statement::onAxes(const Operation& outer, const std::vector<IndexVar>& axes,
                                             const std::vector<PathCondition>& path) {
  const auto move = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v >= outer.axes.size()) return std::nullopt;
    const auto at = std::find(axes.begin(), axes.end(), outer.axes[v]);
    return IndexExpr::variable(static_cast<IndexVar>(at - axes.begin()));
  };
  ExprRewriter rewriter(m_elab.program(), m_elab.program());
  rewriter.variable = move;
  std::vector<PathCondition> moved;
  for (const PathCondition& c : path) {
    if (c.index) moved.push_back({substitute(*c.index, move), {}, true});
    else moved.push_back({std::nullopt, rewriter.rewrite(c.data), c.holds});
  }
  return moved;
}

// Where the conditions vary along more than the axes of what they guard: whether they hold anywhere along the others, which an
// operator of its own works out once.
std::vector<PathCondition> Statement::somewhere(const Operation& outer, const std::vector<IndexVar>& axes,
                                                const std::vector<PathCondition>& path, const std::string& local, const Term& t) {
  Program& p = m_elab.program();
  std::vector<bool> used(m_variables.size(), false);
  for (const PathCondition& c : path)
    for (const IndexVar v : variablesOf(p, c))
      if (v < outer.axes.size()) used[outer.axes[v]] = true;
  std::vector<IndexVar> along;  // the shared ones first
  Elaborator::NewTensor wish;
  std::vector<AccessIndex> at;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (!used[axes[k]]) continue;
    along.push_back(axes[k]);
    wish.shape.push_back(m_variables[axes[k]].extent);
    wish.axisNames.push_back(m_variables[axes[k]].name);
    at.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
  }
  const std::size_t shared = along.size();
  for (const IndexVar v : outer.axes)
    if (used[v] && std::find(along.begin(), along.end(), v) == along.end()) along.push_back(v);
  const OriginId origin = m_elab.originIn(m_elab.context(), t.head, t.frame);
  Operator made;
  std::unordered_set<std::string> taken;
  for (std::size_t k = 0; k < along.size(); ++k) {
    const Variable& v = m_variables[along[k]];
    std::string axis = v.name.empty() ? std::string(1, "ijklmnopqr"[k % 10]) : v.name;
    const std::string name = axis;
    for (int n = 2; !taken.insert(axis).second; ++n) axis = name + std::to_string(n);
    made.axes.push_back({axis, v.extent, origin});
  }
  made.outputRank = static_cast<std::uint32_t>(shared);
  made.reducer = Reducer::Max;
  made.body = underPath(p, onAxes(outer, along, path), p.constant(1, DType::F32, origin), origin);
  made.phase = m_elab.m_phase;
  made.origin = origin;
  wish.local = local;
  wish.span = t.head;
  wish.type = DType::F32;
  wish.temporary = true;
  const TensorRef result = m_elab.makeTensor(wish);
  if (!result.valid()) {
    m_failed = true;
    return {};
  }
  made.name = p[result.id].name;
  made.output = result.id;
  p.addOperator(std::move(made));
  const ExprId any = p.load(result.id, std::move(at), origin);
  return {{std::nullopt, p.binary(ScalarOp::Lt, p.constant(0, DType::F32, origin), any, origin), true}};
}

}  // namespace nf::lang
