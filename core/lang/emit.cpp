// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "core/ir/folding.h"
#include "core/ir/rewrite.h"
#include "core/lang/statement.h"
#include "core/support/checked.h"

namespace nf::lang {

struct Statement::Operation {
  std::vector<IndexVar> axes;           // statement variables, output first
  std::vector<std::uint32_t> position;  // of a statement variable among the axes; kNone: none
  bool identity = true;                 // the axes are variables 0, 1, ..
  std::vector<std::pair<TermId, ExprId>> done;
  std::vector<std::pair<ExprId, TermId>> loads;
  struct Turn {  // into an arm of a select, or to what stands behind `else`
    TermId at;
    bool holds;
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  std::unordered_map<TermId, std::vector<Turn>> turns;  // of nested reductions: those that every way to them takes, outermost first
  std::unordered_map<TermId, ExprId> conditions;        // by the term of a turn: emitted
  std::vector<PathCondition> path;                      // under which all of this is wanted
  std::unordered_map<std::uint64_t, ExprId> memo;       // by term and, of a soft one or one of an index, type
  std::unordered_map<std::uint32_t, Range> wide;        // of i64 nodes, whatever the i32 are that they read
  const std::vector<Variable>* variables = nullptr;

  void index(std::size_t variableCount) {
    position.assign(variableCount, ast::kNone);
    identity = true;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      position[axes[i]] = static_cast<std::uint32_t>(i);
      identity = identity && axes[i] == i;
    }
  }
  // `known`: the axes' ranges. A function's arithmetic is simplified under them, `k // (K // groups)` for one group is 0;
  // what a person writes in place stays as it is.
  IndexExpr map(const IndexExpr& e, const RangeOf& known, bool expanded) const {
    const IndexExpr simple = expanded && e.floorDivCount() > 0 ? simplify(e, known) : e;
    if (identity || simple.isConstant()) return simple;
    return substitute(simple, [this](IndexVar v) -> std::optional<IndexExpr> {
      if (v >= position.size()) return std::nullopt;
      return IndexExpr::variable(position[v]);
    });
  }
};

DType Statement::valueType(TermId id) const {
  const Term& t = m_terms[id];
  if (t.type == DType::Bool) return DType::F32;
  if (!t.soft) return arithmeticType(t.type);
  return m_realType.value_or(DType::F32);
}

std::optional<View> Statement::bareView(TermId root) const {
  const Term& t = m_terms[root];
  if (t.kind != Term::Kind::Load || t.otherwise != kNoTerm || !m_whole) return std::nullopt;
  View view;
  view.tensor = t.tensor;
  std::size_t next = 0;
  bool sliced = false;
  for (const TermIndex& index : t.indices) {
    const auto v = index.data == kNoTerm ? index.affine.asVariable() : std::nullopt;
    if (v && next < m_groups[0].variables.size() && *v == m_groups[0].variables[next]) {
      ++next;
      view.fixed.emplace_back();
      continue;
    }
    std::vector<IndexVar> variables;
    index.affine.collectVariables(variables);
    if (index.data != kNoTerm || std::any_of(variables.begin(), variables.end(), [](IndexVar x) { return x < kLoopVariable; }))
      return std::nullopt;
    view.fixed.push_back(index.affine);
    sliced = true;
  }
  if (!sliced) view.fixed.clear();
  return view;
}

// ---------------------------------------------------------------- expressions

bool Statement::fits(const IndexExpr& index, Span span) {
  const RangeOf known = ranges();
  if (fits64Bits(index, known)) return true;
  if (m_failed) return false;
  Diagnostic& d = report("index-overflow", "`" + textOf(span) + "` does not fit 64 bits everywhere", span);
  std::vector<IndexVar> variables;
  index.collectVariables(variables);
  std::string where;
  for (const IndexVar v : variables)
    if (v < m_variables.size() && !m_variables[v].name.empty())
      where += (where.empty() ? "`" : ", `") + m_variables[v].name + "` over 0.." + std::to_string(m_variables[v].extent - 1);
  if (!where.empty()) d.notes.push_back({"with " + where, {}});
  return false;
}

void Statement::fitsInteger(Range range, Span span) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min(), kMost = std::numeric_limits<std::int32_t>::max();
  if (m_failed || (range.lo >= kLeast && range.hi <= kMost)) return;
  Diagnostic& d = report("index-overflow", "`" + textOf(span) + "` does not fit the 32 bits of an i32", span);
  d.notes.push_back(
      {"i32 holds " + std::to_string(kLeast) + ".." + std::to_string(kMost) + ", this is " +
           (range.lo == range.hi ? std::to_string(range.lo) : "in " + std::to_string(range.lo) + ".." + std::to_string(range.hi)),
       {}});
}

// `times`: extents of what stands around it.
bool Statement::countPoints(const Operation& op, std::vector<std::int64_t> times, const std::string& what, Span span) {
  std::string where;
  for (const IndexVar v : op.axes) {
    const Variable& variable = m_variables[v];
    times.push_back(variable.extent);
    if (!variable.name.empty())
      where += (where.empty() ? "`" : ", `") + variable.name + "` over 0.." + std::to_string(variable.extent - 1);
  }
  if (checkedProduct(times)) return true;
  if (m_failed) return false;
  Diagnostic& d = report("extent-overflow", what + " more points than 64 bits count", span);
  if (!where.empty()) d.notes.push_back({"with " + where, {}});
  return false;
}

void Statement::fitsExactly(std::int64_t number, Span span) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (m_failed || (number >= -kMost && number <= kMost)) return;
  report("index-overflow", "`" + textOf(span) + "` is too large beside an integer tensor", span)
      .notes.push_back({"in an index that reads data, numbers go up to " + std::to_string(kMost), {}});
}

// Index arithmetic is done in 64 bits; what it reads is taken to be any i32.
constexpr Range kI32{std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};

bool Statement::isIndexArithmetic(const Term& t) {
  if (t.kind != Term::Kind::Op) return false;
  switch (t.op) {
    case ScalarOp::Neg:
    case ScalarOp::Abs:
    case ScalarOp::Relu:
    case ScalarOp::Floor:
    case ScalarOp::StopGradient:
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
    case ScalarOp::FloorDiv:
    case ScalarOp::Mod:
    case ScalarOp::Max:
    case ScalarOp::Min:
    case ScalarOp::Select: return true;
    default: return false;
  }
}

// `i32(...)` in an index around arithmetic of i32 says where that is done; nothing is converted.
TermId Statement::narrowPart(TermId id) const {
  const Term& t = m_terms[id];
  if (t.kind != Term::Kind::Op || t.op != ScalarOp::Cast || t.type != DType::I32) return id;
  const Term& inner = m_terms[t.operands[0]];
  return !inner.soft && inner.type == DType::I32 && isIndexArithmetic(inner) ? t.operands[0] : id;
}

std::optional<Range> Statement::wideRange(const Operation& op, const ScalarNode& n) const {
  const auto at = [&](std::size_t k) { return op.wide.at(n.operands[k].value); };
  const auto of = [](std::initializer_list<std::optional<std::int64_t>> corners) -> std::optional<Range> {
    std::optional<Range> range;
    for (const auto& c : corners) {
      if (!c) return std::nullopt;
      range = range ? Range{std::min(range->lo, *c), std::max(range->hi, *c)} : Range{*c, *c};
    }
    return range;
  };
  switch (n.op) {
    case ScalarOp::Constant: return Range{static_cast<std::int64_t>(n.value), static_cast<std::int64_t>(n.value)};
    case ScalarOp::Index:
      return bounds(m_elab.program()[n.index],
                    [&, known = ranges()](IndexVar v) { return known(v < op.axes.size() ? op.axes[v] : v); });
    case ScalarOp::Neg: return of({checkedSub(0, at(0).lo), checkedSub(0, at(0).hi)});
    case ScalarOp::Abs:
      if (at(0).lo >= 0) return at(0);
      return of({at(0).hi < 0 ? checkedSub(0, at(0).hi) : 0, checkedSub(0, at(0).lo), std::max<std::int64_t>(at(0).hi, 0)});
    case ScalarOp::Relu: return Range{std::max<std::int64_t>(at(0).lo, 0), std::max<std::int64_t>(at(0).hi, 0)};
    case ScalarOp::Floor:
    case ScalarOp::StopGradient: return at(0);
    case ScalarOp::Add: return of({checkedAdd(at(0).lo, at(1).lo), checkedAdd(at(0).hi, at(1).hi)});
    case ScalarOp::Sub: return of({checkedSub(at(0).lo, at(1).hi), checkedSub(at(0).hi, at(1).lo)});
    case ScalarOp::Mul:
      return of({checkedMul(at(0).lo, at(1).lo), checkedMul(at(0).lo, at(1).hi), checkedMul(at(0).hi, at(1).lo),
                 checkedMul(at(0).hi, at(1).hi)});
    case ScalarOp::FloorDiv: {
      const auto [lo, hi] = at(0);
      const auto [least, most] = at(1);
      if (least > 0) return of({floorDiv(lo, least), floorDiv(lo, most), floorDiv(hi, least), floorDiv(hi, most)});
      return of({lo, hi, checkedSub(0, lo), checkedSub(0, hi), 0});
    }
    case ScalarOp::Mod: {
      const auto [lo, hi] = at(0);
      const auto [least, most] = at(1);
      if (least > 0) return Range{0, most - 1};
      return of({lo, hi, least, most, 0});  // by 0 it is the dividend
    }
    case ScalarOp::Max: return Range{std::max(at(0).lo, at(1).lo), std::max(at(0).hi, at(1).hi)};
    case ScalarOp::Min: return Range{std::min(at(0).lo, at(1).lo), std::min(at(0).hi, at(1).hi)};
    case ScalarOp::Select: return Range{std::min(at(1).lo, at(2).lo), std::max(at(1).hi, at(2).hi)};
    default: return std::nullopt;
  }
}

void Statement::fitsWide(Operation& op, ExprId made, Span span) {
  const auto range = wideRange(op, m_elab.program()[made]);
  op.wide.emplace(made.value, range.value_or(kI32));
  if (range || m_failed) return;
  Diagnostic& d = report("index-overflow", "`" + textOf(span) + "` does not fit 64 bits for every i32 that it may read", span);
  d.notes.push_back({"bound what is read, as in `t[i] % 1000`; `i32(...)` around a part keeps that part to 32 bits", {}});
}

AccessIndex Statement::emitIndex(Operation& op, const TermIndex& index, bool expanded) {
  AccessIndex made;
  if (index.data != kNoTerm)
    made.data = isIndexArithmetic(m_terms[index.data]) ? emitTerm(op, index.data, DType::I64)
                                                       : emitTerm(op, narrowPart(index.data), DType::I32);
  else if (fits(index.affine, index.span)) made.affine = op.map(index.affine, ranges(), expanded);
  return made;
}

ExprId Statement::asNumber(Operation&, ExprId condition, OriginId origin) {
  Program& p = m_elab.program();
  const DType type = m_realType.value_or(DType::F32);
  const ExprId one = p.constant(1, type, origin), zero = p.constant(0, type, origin);
  return p.select(condition, one, zero, origin);
}

ExprId Statement::emitCondition(Operation& op, const Term& t) {
  const OriginId origin = m_elab.originIn(m_elab.context(), t.head, t.frame);
  const IndexExpr e = fits(t.index, t.span) ? op.map(t.index, ranges(), t.frame != 0) : IndexExpr();
  return t.equality ? m_elab.program().condEq0(e, origin) : m_elab.program().condGe0(e, origin);
}

ExprId Statement::emitLoad(Operation& op, const Term& t) {
  const TermId self = static_cast<TermId>(&t - m_terms.data());
  const OriginId origin = m_elab.originIn(m_elab.context(), t.span, t.frame);
  std::vector<AccessIndex> at;
  at.reserve(t.indices.size());
  for (const TermIndex& index : t.indices) at.push_back(emitIndex(op, index, t.frame != 0));
  const TensorId tensor = m_elab.import(t.tensor);
  Program& p = m_elab.program();
  if (t.otherwise == kNoTerm) {
    const ExprId load = p.load(tensor, std::move(at), origin);
    op.loads.emplace_back(load, self);
    return load;
  }
  // In range on every axis that could leave it.
  const RangeOf known = ranges();
  ExprId inside;
  const auto also = [&](ExprId c) { inside = inside.valid() ? p.binary(ScalarOp::And, inside, c, origin) : c; };
  for (std::size_t k = 0; k < t.indices.size(); ++k) {
    const std::int64_t size = p[tensor].shape[k];
    if (at[k].isData()) {
      const ExprId value = at[k].data;
      const DType type = p[value].type;
      also(p.binary(ScalarOp::Le, p.constant(0, type, origin), value, origin));
      also(p.binary(ScalarOp::Lt, value, p.constant(static_cast<double>(size), type, origin), origin));
      continue;
    }
    const auto range = bounds(t.indices[k].affine, known);
    if (!range || range->lo < 0) also(p.condGe0(at[k].affine, origin));
    if (!range || range->hi >= size) {
      fits(IndexExpr(size - 1) - t.indices[k].affine, t.indices[k].span);
      also(p.condGe0(IndexExpr(size - 1) - at[k].affine, origin));
    }
  }
  const ExprId load = p.load(tensor, std::move(at), origin);
  op.loads.emplace_back(load, self);
  if (!inside.valid()) return load;
  const DType type = t.type;
  op.conditions[self] = inside;
  const ExprId otherwise = emitTerm(op, m_terms[self].otherwise, type);
  return m_elab.program().select(inside, load, otherwise, origin);
}

ExprId Statement::emitTerm(Operation& op, TermId id, DType want) {
  const Term& t = m_terms[id];
  // Everything is emitted once an operator; soft arithmetic may be wanted in two types, and a soft number is a node a use.
  const bool once = !t.soft || t.kind == Term::Kind::Op;
  const bool wide = want == DType::I64 || (!t.soft && t.type == DType::I64);
  const std::uint64_t key = std::uint64_t{id} << 8 | (wide     ? static_cast<std::uint64_t>(DType::I64) + 1
                                                      : t.soft ? static_cast<std::uint64_t>(want) + 1
                                                               : 0);
  if (const auto done = once ? op.memo.find(key) : op.memo.end(); done != op.memo.end()) return done->second;
  // The token of an access is all of it, indices included; of everything else its operator or name.
  const Span token = t.kind == Term::Kind::Load ? t.span : t.head;
  const OriginId origin = m_elab.originIn(m_elab.context(), token, t.frame);
  if (wide && !t.soft && t.kind == Term::Kind::Op && t.op == ScalarOp::Cast && t.type == DType::I64)
    return emitTerm(op, t.operands[0], DType::I64);
  if (wide && !t.soft && t.type == DType::I32 && !isIndexArithmetic(t)) {
    const ExprId value = emitTerm(op, narrowPart(id), DType::I32);
    const ExprId made = m_elab.program().cast(DType::I64, value, origin);
    op.wide.emplace(made.value, kI32);
    op.memo.emplace(key, made);
    return made;
  }
  const DType type = wide ? DType::I64 : t.soft ? want : t.type;
  ExprId made;
  switch (t.kind) {
    case Term::Kind::Error: NF_ASSERT(false); break;
    case Term::Kind::Constant: {
      const DType real = type == DType::I32 && !t.number.isInteger ? DType::F32 : type;
      if (real == DType::I32) fitsInteger({t.number.integer, t.number.integer}, t.span);
      if (real == DType::I64) fitsExactly(t.number.integer, t.span);
      made = m_elab.program().constant(t.number.value(), real, origin);
      break;
    }
    case Term::Kind::Index:
      if (type == DType::I32)
        if (const auto range = bounds(t.index, ranges())) fitsInteger(*range, t.span);
      made =
          m_elab.program().indexValue(fits(t.index, t.span) ? op.map(t.index, ranges(), t.frame != 0) : IndexExpr(), type, origin);
      break;
    case Term::Kind::Condition: made = emitCondition(op, t); break;
    case Term::Kind::Truth: made = m_elab.program().constant(t.truth ? 1 : 0, DType::Bool, origin); break;
    case Term::Kind::Load: made = emitLoad(op, t); break;
    case Term::Kind::Reduce: made = emitNested(op, id); break;
    case Term::Kind::Random: {
      if (t.hasPoint) {
        fits(t.index, t.span);
        made = m_elab.program().random(t.number.integer, op.map(t.index, ranges(), false), origin);
        break;
      }
      IndexExpr point;
      for (std::size_t d = 0; d < m_elab.m_trips.size(); ++d)
        point = m_elab.m_trips[d] * point + IndexExpr::variable(kLoopVariable + static_cast<IndexVar>(d));
      for (std::size_t i = 0; i < op.axes.size(); ++i)
        point = m_variables[op.axes[i]].extent * point + IndexExpr::variable(static_cast<IndexVar>(i));
      countPoints(op, m_elab.m_trips, "`random()` is worked out at", t.span);
      made = m_elab.program().random(t.number.integer, point, origin);
      break;
    }
    case Term::Kind::Op: {
      std::array<ExprId, 3> operands;
      const std::array<TermId, 3> terms = t.operands;
      const ScalarOp scalar = t.op;
      const int arity = info(scalar).arity;
      DType inner = type;
      if (scalar == ScalarOp::Cast) {
        inner = m_terms[terms[0]].soft ? DType::F32 : type;
      } else if (type == DType::Bool && arity == 2) {  // what is compared decides
        inner = m_realType.value_or(DType::F32);
        for (int k = 0; k < 2; ++k)
          if (!m_terms[terms[k]].soft) inner = m_terms[terms[k]].type;
      } else if (!t.soft && !wide) {
        for (int k = scalar == ScalarOp::Select ? 1 : 0; k < arity; ++k)
          if (!m_terms[terms[k]].soft) inner = arithmeticType(m_terms[terms[k]].type);
      }
      if (scalar == ScalarOp::Select) {
        operands[0] = emitTerm(op, terms[0], DType::Bool);
        op.conditions[id] = operands[0];
        operands[1] = emitTerm(op, terms[1], inner);
        operands[2] = emitTerm(op, terms[2], inner);
        made = m_elab.program().select(operands[0], operands[1], operands[2], origin);
        break;
      }
      for (int k = 0; k < arity; ++k) operands[k] = emitTerm(op, terms[k], inner);
      if (scalar == ScalarOp::Cast) made = m_elab.program().cast(type, operands[0], origin);
      else if (arity == 1) made = m_elab.program().unary(scalar, operands[0], origin);
      else made = m_elab.program().binary(scalar, operands[0], operands[1], origin);
      break;
    }
  }
  if (wide) fitsWide(op, made, t.span);
  if (once || wide) op.memo.emplace(key, made);
  return made;
}

// ---------------------------------------------------------------- nested reductions

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

}  // namespace

ExprId Statement::emitNested(Operation& outer, TermId id) {
  const Term t = m_terms[id];
  std::vector<bool> free(m_variables.size(), false), seen(m_terms.size(), false);
  freeVariables(id, free, seen);
  std::fill(seen.begin(), seen.end(), false);
  std::vector<PathCondition> path = pathTo(outer, id);
  // The value is wanted under these conditions only. Its operator has to know where bounds rest on them, and where a gradient does:
  // the adjoint that comes back is 0 elsewhere, but 0 times the infinite slope of log(0) is no number.
  const bool forBounds = !path.empty() && !boundsObvious(id, seen);
  std::fill(seen.begin(), seen.end(), false);
  const bool forSlopes = !path.empty() && mayBlowUp(id, seen);
  if (!forSlopes) std::erase_if(path, [&](const PathCondition& c) { return !forBounds || !c.index; });
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
  const TensorRef made = finish(inner, id, wish, t.span);
  std::vector<AccessIndex> at;
  for (const IndexVar v : axes) {
    AccessIndex index;
    index.affine = IndexExpr::variable(outer.position[v]);
    at.push_back(std::move(index));
  }
  const OriginId origin = m_elab.originIn(m_elab.context(), t.head, t.frame);
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

// ---------------------------------------------------------------- operators

namespace {

Hash scalarHash(const Program& p, ExprId root, DType type) {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(type));
  std::unordered_map<std::uint32_t, std::uint64_t> number;
  for (const ExprId e : nodesOf(p, root)) {
    const ScalarNode& n = p[e];
    number.emplace(e.value, number.size());
    hasher.add(static_cast<std::uint64_t>(n.op)).add(static_cast<std::uint64_t>(n.type)).addReal(n.value);
    for (int k = 0; k < info(n.op).arity; ++k) hasher.add(number.at(n.operands[k].value));
    if (n.access.valid()) {
      hasher.add(p[n.access].tensor.value);
      for (const AccessIndex& i : p[n.access].indices) i.affine.addTo(hasher);
    }
  }
  return hasher.finish();
}

}  // namespace

TensorRef Statement::finish(Operation& op, TermId root, Wish& wish, Span span) {
  const std::vector<PathCondition> guard = std::move(m_guard);
  m_guard.clear();
  const std::size_t scalarsBefore = m_elab.program().scalars.size(), accessesBefore = m_elab.program().accesses.size();
  Term t = m_terms[root];
  const std::size_t outputRank = op.axes.size();
  Operator made;
  TermId body = root;
  std::int64_t count = 1;
  if (t.kind == Term::Kind::Reduce) {
    made.reducer = t.reducer;
    made.tiesEven = t.tiesEven;
    body = t.operands[0];
    for (const IndexVar v : t.variables) {
      op.axes.push_back(v);
      count = checkedMul(count, m_variables[v].extent).value_or(INT64_MAX);
    }
  }
  op.index(m_variables.size());
  op.variables = &m_variables;
  if (!countPoints(op, {}, "`" + textOf(t.head) + "` runs over", t.head)) return {};
  const OriginId origin = m_elab.originIn(m_elab.context(), t.head, t.frame);
  DType type = valueType(body);
  if (wish.typed && m_terms[body].soft) type = arithmeticType(wish.tensor.type);
  if (t.kind == Term::Kind::Reduce && t.mean && type == DType::I32) type = DType::F32;
  findPaths(op, {body});
  ExprId value = emitTerm(op, body, type);
  if (m_failed) return {};
  if (m_elab.program()[value].type == DType::Bool) value = asNumber(op, value, origin);
  if (t.kind == Term::Kind::Reduce && t.mean) {
    const DType real = m_elab.program()[value].type == DType::F64 ? DType::F64 : DType::F32;
    value = m_elab.program().binary(ScalarOp::Mul, value, m_elab.program().constant(1.0 / static_cast<double>(count), real, origin),
                                    origin);
  }
  value = underPath(m_elab.program(), guard, value, origin);
  const bool arg = made.reducer == Reducer::ArgMax || made.reducer == Reducer::ArgMin;
  const DType computed = m_elab.program()[value].type;
  if (computed == DType::I64) {
    report("type-mismatch", "an i64 can't be stored: `i32(...)` or `f32(...)` makes a value of it", t.span);
    return {};
  }
  if (!wish.typed) wish.tensor.type = arg ? DType::I32 : arithmeticType(computed);
  if (arg && wish.tensor.type != DType::I32) {
    report("type-mismatch", "`" + std::string(name(made.reducer)) + "` gives positions: the result is i32", wish.tensor.span);
    return {};
  }
  if (!arg && wish.tensor.type == DType::I32 && computed != DType::I32) {
    Diagnostic& d = report("type-mismatch", "a real value can't be stored as i32", t.span);
    d.fixes.push_back({"convert it", t.span, "i32(" + textOf(t.span) + ")"});
    return {};
  }
  // Every parameter's optimizer works out the same scalars (Adam's bias corrections): one operator serves all.
  const bool shared = m_elab.m_phase == Phase::Optimizer && m_elab.m_frame != 0 && op.axes.empty() && m_elab.level() == 0;
  Hash same;
  if (shared) {
    same = scalarHash(m_elab.program(), value, wish.tensor.type);
    if (const auto there = m_elab.m_scalars.find(same); there != m_elab.m_scalars.end()) {
      m_elab.program().scalars.resize(scalarsBefore);
      m_elab.program().accesses.resize(accessesBefore);
      return there->second;
    }
  }
  std::unordered_set<std::string> taken;
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const Variable& v = m_variables[op.axes[i]];
    std::string axis = v.name.empty() ? std::string(1, "ijklmnopqr"[i % 10]) : v.name;
    const std::string base = axis;
    for (int n = 2; !taken.insert(axis).second; ++n) axis = base + std::to_string(n);
    made.axes.push_back({axis, v.extent, m_elab.originIn(m_elab.context(), v.span.valid() ? v.span : t.head, t.frame)});
  }
  made.outputRank = static_cast<std::uint32_t>(outputRank);
  wish.tensor.axisNames.clear();
  for (std::size_t i = 0; i < outputRank; ++i) wish.tensor.axisNames.push_back(made.axes[i].name);
  made.body = value;
  made.phase = m_elab.m_phase;
  made.origin = m_elab.originIn(m_elab.context(), span, t.frame);
  checkBounds(op, made);
  const TensorRef result = m_failed ? TensorRef{} : m_elab.makeTensor(wish.tensor);
  if (!result.valid()) {
    m_failed = true;
    return {};
  }
  made.name = m_elab.program()[result.id].name;
  made.output = result.id;
  m_elab.program().addOperator(std::move(made));
  if (shared) m_elab.m_scalars.emplace(same, result);
  return result;
}

TensorRef Statement::emit(TermId root, Wish wish, Span span) {
  if (m_failed || !inferExtents()) return {};
  Operation op;
  for (const OutputItem& item : m_outputs) {
    if (!item.isGroup) op.axes.push_back(item.variable);
    else op.axes.insert(op.axes.end(), m_groups[0].variables.begin(), m_groups[0].variables.end());
  }
  wish.tensor.shape = outputShape();
  return finish(op, root, wish, span);
}

TensorRef Statement::emitScatter(TermId root, std::vector<TermIndex> into, Wish wish, Span span) {
  if (m_failed || !inferExtents()) return {};
  Operation op;
  for (IndexVar v = 0; v < m_variables.size(); ++v)
    if (!m_variables[v].reduced) op.axes.push_back(v);
  op.index(m_variables.size());
  op.variables = &m_variables;
  const Term t = m_terms[root];
  if (!countPoints(op, {}, "this runs over", span)) return {};
  const OriginId origin = m_elab.originIn(m_elab.context(), t.head, t.frame);
  std::vector<TermId> roots{root};
  for (const TermIndex& index : into)
    if (index.data != kNoTerm) roots.push_back(index.data);
  findPaths(op, roots);
  ExprId value = emitTerm(op, root, wish.typed ? arithmeticType(wish.tensor.type) : valueType(root));
  if (m_failed) return {};
  if (m_elab.program()[value].type == DType::Bool) value = asNumber(op, value, origin);
  Operator made;
  made.kind = OperatorKind::Scatter;
  made.body = value;
  made.phase = m_elab.m_phase;
  made.origin = m_elab.originIn(m_elab.context(), span, t.frame);
  for (const TermIndex& index : into) made.scatter.push_back(emitIndex(op, index, t.frame != 0));
  for (const IndexVar v : op.axes)
    made.axes.push_back(
        {m_variables[v].name, m_variables[v].extent, m_elab.originIn(m_elab.context(), m_variables[v].span, t.frame)});
  if (m_elab.program()[value].type == DType::I64) {
    report("type-mismatch", "an i64 can't be stored: `i32(...)` or `f32(...)` makes a value of it", t.span);
    return {};
  }
  if (!wish.typed) wish.tensor.type = arithmeticType(m_elab.program()[value].type);
  checkBounds(op, made);
  if (m_failed) return {};
  const TensorRef result = m_elab.makeTensor(wish.tensor);
  if (!result.valid()) return {};
  made.name = m_elab.program()[result.id].name;
  made.output = result.id;
  warnOfDropped(made, into);
  m_elab.program().addOperator(std::move(made));
  return result;
}

// ---------------------------------------------------------------- bounds

// Legal, as the gradient of a padded read needs it; where nothing says that it is meant, it is told.
void Statement::warnOfDropped(const Operator& made, const std::vector<TermIndex>& into) {
  if (m_elab.program()[made.body].op == ScalarOp::Select) return;
  const RangeOf known = rangesOf(made, m_elab.m_trips);
  for (std::size_t k = 0; k < into.size(); ++k) {
    if (made.scatter[k].isData()) continue;
    const auto range = bounds(made.scatter[k].affine, known);
    const std::int64_t size = m_elab.program()[made.output].shape[k];
    if (!range || (range->lo >= 0 && range->hi < size)) continue;
    m_elab
        .warn("scatter-drops",
              "place `" + textOf(into[k].span) + "` of `" + made.name + "`, axis " + std::to_string(k) + ", runs over " +
                  std::to_string(range->lo) + ".." + std::to_string(range->hi) + ", and it has 0.." + std::to_string(size - 1) +
                  ": what falls outside is added nowhere",
              into[k].span)
        .notes.push_back({"a `select` around the value says that it is meant", {}});
  }
}

void Statement::checkBounds(const Operation& op, const Operator& made) {
  const Program& p = m_elab.program();
  const RangeOf known = rangesOf(made, m_elab.m_trips);
  // Intervals settle nearly all; only what is left asks for paths and isl.
  bool settled = true;
  for (const auto& [load, term] : op.loads) {
    const Access& access = p[p[load].access];
    for (std::size_t k = 0; k < access.indices.size() && settled; ++k) {
      if (access.indices[k].isData()) continue;
      const auto range = bounds(access.indices[k].affine, known);
      settled = range && range->lo >= 0 && range->hi < p[access.tensor].shape[k];
    }
  }
  if (settled) return;
  std::vector<Range> domain;
  for (const Axis& axis : made.axes) domain.push_back({0, axis.extent - 1});
  BoundsProver prover(domain, m_elab.m_trips);
  std::unordered_set<std::uint64_t> told;
  const auto check = [&](const GuardedLoad& load) {
    const Access& access = p[p[load.load].access];
    for (std::size_t k = 0; k < access.indices.size(); ++k) {
      if (access.indices[k].isData()) continue;
      const auto inside = prover.inBounds(load.guards, access.indices[k].affine, p[access.tensor].shape[k]);
      if (inside.value_or(false) || !told.insert(std::uint64_t{load.load.value} << 8 | k).second) continue;
      reportBounds(op, made, load.load, k, inside ? prover.rangeWhere(load.guards, access.indices[k].affine) : std::nullopt);
    }
  };
  for (const GuardedLoad& load : guardedLoads(p, made.body)) check(load);
  for (const AccessIndex& index : made.scatter)
    if (index.isData())
      for (const GuardedLoad& load : guardedLoads(p, index.data)) check(load);
}

void Statement::reportBounds(const Operation& op, const Operator& made, ExprId load, std::size_t axis, std::optional<Range> range) {
  const auto at = std::find_if(op.loads.begin(), op.loads.end(), [&](const auto& l) { return l.first == load; });
  const Program& p = m_elab.program();
  const Access& access = p[p[load].access];
  const Tensor& tensor = p[access.tensor];
  const std::int64_t size = tensor.shape[axis];
  const Term* term = at == op.loads.end() ? nullptr : &m_terms[at->second];
  const Span span = term ? term->indices[axis].span : Span{};
  const std::string text = toText(access.indices[axis].affine, [&](IndexVar v) {
    return v < made.axes.size() ? made.axes[v].name : "t" + std::to_string(v - kLoopVariable);
  });
  if (!range) {
    report("bounds-undecided",
           "index `" + text + "` of `" + tensor.name + "`, axis " + std::to_string(axis) + ", could not be proved to stay in 0.." +
               std::to_string(size - 1),
           span);
    return;
  }
  std::string how;
  if (range->lo < 0) how = range->lo == -1 ? "one before the start" : std::to_string(-range->lo) + " before the start";
  if (range->hi >= size)
    how += std::string(how.empty() ? "" : " and ") +
           (range->hi == size ? "one past the end" : std::to_string(range->hi - size + 1) + " past the end");
  Diagnostic& d = report("index-out-of-bounds",
                         "index `" + text + "` of `" + tensor.name + "`, axis " + std::to_string(axis) + ", runs over " +
                             std::to_string(range->lo) + ".." + std::to_string(range->hi) + ", valid is 0.." +
                             std::to_string(size - 1) + ": " + how,
                         span);
  std::vector<IndexVar> variables;
  access.indices[axis].affine.collectVariables(variables);
  std::string where;
  for (const IndexVar v : variables)
    if (v < made.axes.size())
      where += (where.empty() ? "`" : ", `") + made.axes[v].name + "` over 0.." + std::to_string(made.axes[v].extent - 1);
  if (!where.empty()) d.notes.push_back({"with " + where, {}});
  if (!term) return;
  // A written extent that is too large: the one that fits. Else a zero outside.
  for (const IndexVar v : variables) {
    if (v >= op.axes.size()) continue;
    const Variable& variable = m_variables[op.axes[v]];
    if (!variable.given) continue;
    const auto fits = largestExtent(term->indices[axis].affine, size, op.axes[v]);
    if (fits && *fits > 0)
      d.fixes.push_back({"run `" + variable.name + "` over " + std::to_string(*fits), variable.extentSpan, std::to_string(*fits)});
  }
  // An index that nothing else bounds: outside of the first point already, `else` would leave it open.
  const auto open = std::find_if(variables.begin(), variables.end(), [&](IndexVar v) {
    return v < op.axes.size() && !m_variables[op.axes[v]].given && made.axes[v].extent == 1;
  });
  if (open != variables.end()) {
    const std::string& name = m_variables[op.axes[*open]].name;
    d.notes.push_back({"no extent of `" + name + "` keeps it inside: write one, and what is read outside, as in `" + name + ": " +
                           std::to_string(size) + "` and `" + textOf(term->span) + " else 0`",
                       {}});
    return;
  }
  if (range->lo <= range->hi) d.fixes.push_back(readZeroOutside(at->second));
}

}  // namespace nf::lang
