// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "core/ir/folding.h"
#include "core/ir/rewrite.h"
#include "core/lang/operation.h"
#include "core/support/checked.h"

namespace nf::lang {

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
  const bool inLoops = times.empty() && !m_elab.m_trips.empty();
  for (const IndexVar v : op.axes) {
    const Variable& variable = m_variables[v];
    times.push_back(variable.extent);
    if (!variable.name.empty())
      where += (where.empty() ? "`" : ", `") + variable.name + "` over 0.." + std::to_string(variable.extent - 1);
  }
  if (const auto points = checkedProduct(times)) {
    if (inLoops) times.insert(times.end(), m_elab.m_trips.begin(), m_elab.m_trips.end());
    // No machine of today comes to the end of these in a day.
    constexpr std::int64_t kMany = 1'000'000'000'000'000;
    const std::int64_t all = checkedProduct(times).value_or(INT64_MAX);
    if (all >= kMany && !m_failed && !std::exchange(m_toldMany, true)) {
      const std::int64_t days = all / 1'000'000'000 / 86'400;
      Diagnostic& d = m_elab.warn("many-points",
                                  what + " " + std::to_string(*points) + " points" + (inLoops ? " in each step of a loop" : "") +
                                      ": at a thousand million a second that takes " +
                                      (days < 1000 ? std::to_string(days) + " days" : std::to_string(days / 365) + " years"),
                                  span);
      if (!where.empty()) d.notes.push_back({"with " + where, {}});
    }
    return true;
  }
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

bool Statement::isWhole(TermId id) const {
  const Term& t = m_terms[id];
  if (!t.soft) return t.type == DType::I32;
  if (t.kind == Term::Kind::Constant) return t.number.isInteger;
  if (t.kind == Term::Kind::Index) return true;
  if (!isIndexArithmetic(t)) return false;
  for (int k = t.op == ScalarOp::Select ? 1 : 0; k < info(t.op).arity; ++k)
    if (!isWhole(t.operands[static_cast<std::size_t>(k)])) return false;
  return true;
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
  const OriginId origin = m_elab.originThrough(m_elab.context(), t.span, t.frame, t.passed);
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
  const OriginId origin = m_elab.originThrough(m_elab.context(), token, t.frame, t.passed);
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
        // What is whole stays so: as f32 it would have 24 bits.
        inner = !m_terms[terms[0]].soft || type == DType::F64 || (type == DType::I32 && isWhole(terms[0])) ? type : DType::F32;
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
        if (const ScalarNode& known = m_elab.program()[operands[0]]; known.op == ScalarOp::Constant)
          noteFolded(terms[known.value != 0 ? 2 : 1], m_terms[terms[0]].span);
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

// The loads below a branch that is never taken.
void Statement::noteFolded(TermId branch, Span condition) {
  std::vector<FoldedAccess>& folded = m_elab.m_out.folded;
  std::vector<TermId> stack{branch};
  while (!stack.empty()) {
    const Term& t = m_terms[stack.back()];
    stack.pop_back();
    if (t.kind == Term::Kind::Error) continue;
    for (const TermId operand : t.operands)
      if (operand != kNoTerm) stack.push_back(operand);
    if (t.otherwise != kNoTerm) stack.push_back(t.otherwise);
    if (t.kind != Term::Kind::Load || t.tensor.level != 0 || m_elab.m_defining.empty()) continue;
    // Without the brackets and the `else` around it.
    Span access = t.head;
    if (!t.indices.empty() && t.indices.back().span.source == access.source) {
      const std::string& text = m_elab.m_out.sources.at(access.source).text;
      const std::size_t end = text.find(']', t.indices.back().span.end);
      if (end < t.span.end) access.end = static_cast<std::uint32_t>(end + 1);
    }
    const bool known = std::any_of(folded.begin(), folded.end(), [&](const FoldedAccess& f) {
      return f.tensor == t.tensor.id && f.access == access && f.condition == condition;
    });
    if (!known) folded.push_back({t.tensor.id, std::string(m_elab.m_defining.front()), access, condition});
  }
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

// frame: the call in whose body `span` stands; the root of what a function of one line is written out to has that function's.
TensorRef Statement::finish(Operation& op, TermId root, Wish& wish, Span span, std::uint32_t frame) {
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
  const bool wholeMean = t.kind == Term::Kind::Reduce && t.mean && type == DType::I32;
  if (wholeMean) type = DType::F64;  // in single precision the terms would not even be what they are
  findPaths(op, {body});
  ExprId value = emitTerm(op, body, type);
  if (m_failed) return {};
  if (m_elab.program()[value].type == DType::Bool) {
    Program& p = m_elab.program();
    const bool whole = wish.typed && wish.tensor.type == DType::I32 && !t.mean;
    value = whole ? p.select(value, p.constant(1, DType::I32, origin), p.constant(0, DType::I32, origin), origin)
                  : asNumber(op, value, origin);
  }
  if (wholeMean && m_elab.program()[value].type == DType::I32) value = m_elab.program().cast(DType::F64, value, origin);
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
  if (!wish.typed) wish.tensor.type = arg ? DType::I32 : wholeMean ? DType::F32 : arithmeticType(computed);
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
    const bool own = v.span.source == span.source && v.span.begin >= span.begin && v.span.end <= span.end;
    made.axes.push_back(
        {axis, v.extent,
         m_elab.originIn(m_elab.context(), v.span.valid() ? v.span : t.head, v.span.valid() && own ? frame : t.frame)});
  }
  made.outputRank = static_cast<std::uint32_t>(outputRank);
  wish.tensor.axisNames.clear();
  for (std::size_t i = 0; i < outputRank; ++i) wish.tensor.axisNames.push_back(made.axes[i].name);
  made.body = value;
  made.phase = m_elab.m_phase;
  made.origin = m_elab.originIn(m_elab.context(), span, frame);
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
  return finish(op, root, wish, span, m_elab.m_frame);
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
  made.origin = m_elab.originIn(m_elab.context(), span, m_elab.m_frame);
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
  // A counter is told as it is written: the loop variable counts from 0.
  const auto& counters = m_elab.m_counters;
  const IndexExpr written = substitute(access.indices[axis].affine, [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < kLoopVariable) return std::nullopt;
    return IndexExpr::variable(v) - IndexExpr(counters[v - kLoopVariable].from);
  });
  const std::string text =
      toText(written, [&](IndexVar v) { return v < kLoopVariable ? made.axes[v].name : counters[v - kLoopVariable].name; });
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
  for (const IndexVar v : variables) {
    const bool counts = v >= kLoopVariable;
    const std::int64_t from = counts ? counters[v - kLoopVariable].from : 0;
    const std::int64_t extent = counts ? m_elab.m_trips[v - kLoopVariable] : made.axes[v].extent;
    where += (where.empty() ? "`" : ", `") + (counts ? counters[v - kLoopVariable].name : made.axes[v].name) +
             (counts ? "` in " : "` over ") + std::to_string(from) + ".." + std::to_string(from + extent - (counts ? 0 : 1));
  }
  if (!where.empty()) d.notes.push_back({"with " + where, {}});
  if (!term) return;
  // A written extent that is too large: the one that fits. Else a zero outside.
  for (const IndexVar v : variables) {
    if (v >= kLoopVariable) {
      const auto& counter = counters[v - kLoopVariable];
      const auto fits = largestExtent(term->indices[axis].affine, size, v);
      if (!fits || *fits <= 0) continue;
      const std::string end = std::to_string(counter.from + *fits);
      d.fixes.push_back({"run `" + counter.name + "` over " + std::to_string(counter.from) + ".." + end, counter.end, end});
    }
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
