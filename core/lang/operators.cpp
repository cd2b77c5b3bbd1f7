// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons, logic and reductions over terms.
#include <algorithm>
#include <cmath>

#include "core/lang/statement.h"
#include "core/support/checked.h"

namespace nf::lang {

using namespace ast;

TermId Statement::operation(ScalarOp op, std::array<TermId, 3> operands, const Expr& e) {
  Term t;
  t.kind = Term::Kind::Op;
  t.op = op;
  t.operands = operands;
  t.span = e.span;
  t.head = e.head;
  const int arity = info(op).arity;
  const int first = op == ScalarOp::Select ? 1 : 0;
  bool soft = true;
  std::optional<DType> type;
  for (int k = first; k < arity; ++k) {
    const Term& o = m_terms[operands[k]];
    if (o.kind == Term::Kind::Error) return error(e.span);
    if (o.soft) continue;
    soft = false;
    if (!type) type = o.type;
    else type = o.type == *type ? *type : resultType(ScalarOp::Add, *type, o.type).value_or(*type);
  }
  if (arity - first == 2 && isWideAndReal(m_terms[operands[first]], m_terms[operands[first + 1]])) {
    report("type-mismatch", "`i64` is of indices: it meets integers only", e.span);
    return error(e.span);
  }
  t.soft = soft;
  t.type = type.value_or(DType::F32);
  // A number with a fraction beside an integer tensor: the result is real.
  if (type && isInteger(*type))
    for (int k = first; k < arity; ++k) {
      const Term& o = m_terms[operands[k]];
      if (o.soft && (o.kind == Term::Kind::Op || (o.kind == Term::Kind::Constant && !o.number.isInteger))) t.type = DType::F32;
    }
  if (isInteger(t.type) && (op == ScalarOp::Div || op == ScalarOp::Pow)) t.type = DType::F32;
  if (op == ScalarOp::Lt || op == ScalarOp::Le || op == ScalarOp::Eq || op == ScalarOp::Ne || op == ScalarOp::And ||
      op == ScalarOp::Or || op == ScalarOp::Not) {
    t.type = DType::Bool;
    t.soft = false;
  }
  return push(std::move(t));
}

TermId Statement::prefix(const Expr& e) {
  const TermId a = term(e.args[0]);
  if (m_terms[a].kind == Term::Kind::Error) return error(e.span);
  if (e.op == Op::Not) {
    Term& t = m_terms[a];
    if (t.type != DType::Bool || t.soft) {
      report("type-mismatch", "`not` takes a condition", e.span).notes.push_back({kOfNumber, {}});
      return error(e.span);
    }
    if (t.kind == Term::Kind::Truth && !t.literal) {
      Term negated = t;
      negated.truth = !negated.truth;
      negated.span = e.span;
      return push(std::move(negated));
    }
    return operation(ScalarOp::Not, {a, kNoTerm, kNoTerm}, e);
  }
  if (asValue(a, "to negate") != a) return error(e.span);
  const Term& t = m_terms[a];
  if (t.kind == Term::Kind::Constant && t.soft) {
    if (!t.number.isInteger) return constant(Number::of(-t.number.real), e.span);
    const auto negated = checkedSub(0, t.number.integer);
    if (!negated) {
      report("index-overflow", "this integer does not fit 64 bits", e.span);
      return error(e.span);
    }
    return constant(Number::of(*negated), e.span);
  }
  if (t.kind == Term::Kind::Index && t.soft) {
    Term negated = t;
    negated.index = -t.index;
    negated.span = e.span;
    return push(std::move(negated));
  }
  return operation(ScalarOp::Neg, {a, kNoTerm, kNoTerm}, e);
}

// dL/dW as mathematics has it, where neither is a name and L and W are tensors.
bool Statement::toldDerivative(const Expr& quotient) {
  if (quotient.op != Op::Div) return false;
  const Expr* above = &(*m_ast)[quotient.args[0]];
  const Expr* below = &(*m_ast)[quotient.args[1]];
  if (below->kind == ExprKind::Index) below = &(*m_ast)[below->args[0]];
  for (const Expr* name : {above, below}) {
    if (name->kind != ExprKind::Name || name->parenthesised || !name->text.starts_with('d')) return false;
    const bool known = variableNamed(name->text) || m_elab.lookup(name->text) ||
                       m_elab.m_laterNames.contains(std::string(name->text)) ||
                       std::any_of(m_macros.begin(), m_macros.end(), [&](const Macro& m) { return m.name == name->text; });
    const Entity* tensor = m_elab.lookup(name->text.substr(1));
    if (known || !tensor || tensor->kind != Entity::Kind::Tensor) return false;
  }
  const std::string of(above->text), wrt(below->text);
  const std::string meant = "d(" + of.substr(1) + ")/d(" + wrt.substr(1) + ")";
  const Span written = cover(above->span, below->span);
  Diagnostic& d = report("undefined-name", "`" + of + "` and `" + wrt + "` are not defined", written);
  d.notes.push_back({"a gradient is written `" + meant + "`", {}});
  d.fixes.push_back({"write `" + meant + "`", written, meant});
  return true;
}

TermId Statement::infix(const Expr& e) {
  if (toldDerivative(e)) return error(e.span);
  const TermId a = term(e.args[0]);
  const std::size_t tested = m_tested.size();
  // `c and x`: x is read only where c holds, so c guards it.
  if (e.op == Op::And || e.op == Op::Or) testedBy(a, m_tested);
  const TermId b = term(e.args[1]);
  m_tested.resize(tested);
  if (m_terms[a].kind == Term::Kind::Error || m_terms[b].kind == Term::Kind::Error) return error(e.span);
  switch (e.op) {
    case Op::And:
    case Op::Or: return logic(e, a, b);
    case Op::Less:
    case Op::LessEqual:
    case Op::Greater:
    case Op::GreaterEqual:
    case Op::Equal:
    case Op::NotEqual: return comparison(e, a, b);
    default: break;
  }
  if (asValue(a, "to calculate with") != a || asValue(b, "to calculate with") != b) return error(e.span);
  if (e.op == Op::FloorDiv || e.op == Op::Mod) return integerDivision(e, a, b);
  return arithmetic(e, a, b);
}

TermId Statement::arithmetic(const Expr& e, TermId a, TermId b) {
  const auto index = [&](IndexExpr i) {
    Term t;
    t.kind = Term::Kind::Index;
    t.soft = true;
    t.index = std::move(i);
    t.span = e.span;
    t.head = e.head;
    if (t.index.overflowed()) {
      report("index-overflow", "this integer does not fit 64 bits", e.span);
      return error(e.span);
    }
    if (t.index.isConstant()) return constant(Number::of(t.index.constant()), e.span);
    return push(std::move(t));
  };
  const auto ia = asIndex(a), ib = asIndex(b);
  if (ia && ib) {
    if (e.op == Op::Add) return index(*ia + *ib);
    if (e.op == Op::Sub) return index(*ia - *ib);
    if (e.op == Op::Mul && ia->isConstant()) return index(ia->constant() * *ib);
    if (e.op == Op::Mul && ib->isConstant()) return index(ib->constant() * *ia);
  }
  const Term &ta = m_terms[a], &tb = m_terms[b];
  if (ta.kind == Term::Kind::Constant && tb.kind == Term::Kind::Constant && ta.soft && tb.soft) {
    const double x = ta.number.value(), y = tb.number.value();
    const bool finite = std::isfinite(x) && std::isfinite(y);
    switch (e.op) {
      case Op::Add: return worked(x + y, finite, e);
      case Op::Sub: return worked(x - y, finite, e);
      case Op::Mul: return worked(x * y, finite, e);
      case Op::Div:
        if (y == 0) {
          report("division-by-zero", "this divides by zero", e.span);
          return error(e.span);
        }
        return worked(x / y, finite, e);
      case Op::Pow: {
        const double p = std::pow(x, y);
        const bool exact = ta.number.isInteger && tb.number.isInteger && y >= 0 && std::fabs(p) < 9e15;
        return exact ? constant(Number::of(static_cast<std::int64_t>(p)), e.span) : worked(p, finite, e);
      }
      default: break;
    }
  }
  const ScalarOp op = e.op == Op::Add   ? ScalarOp::Add
                      : e.op == Op::Sub ? ScalarOp::Sub
                      : e.op == Op::Mul ? ScalarOp::Mul
                      : e.op == Op::Div ? ScalarOp::Div
                                        : ScalarOp::Pow;
  return operation(op, {a, b, kNoTerm}, e);
}

TermId Statement::integerDivision(const Expr& e, TermId a, TermId b) {
  const bool divide = e.op == Op::FloorDiv;
  const Span divisorSpan = m_terms[b].span;
  if (const auto ib = asIndex(b)) {
    if (!ib->isConstant()) {
      report("division-by-variable", "an index is divided by a positive constant, `" + textOf(divisorSpan) + "` varies",
             divisorSpan);
      return error(e.span);
    }
    if (ib->constant() <= 0) {
      report(ib->constant() == 0 ? "division-by-zero" : "negative-divisor",
             "`" + std::string(spelling(e.op)) + "` takes a positive divisor, this one is " + std::to_string(ib->constant()),
             divisorSpan);
      return error(e.span);
    }
    if (const auto ia = asIndex(a)) {
      IndexExpr q = divide ? nf::floorDiv(*ia, ib->constant()) : nf::floorMod(*ia, ib->constant());
      if (q.isConstant()) return constant(Number::of(q.constant()), e.span);
      Term t;
      t.kind = Term::Kind::Index;
      t.soft = true;
      t.index = std::move(q);
      t.span = e.span;
      t.head = e.head;
      return push(std::move(t));
    }
  }
  const auto integral = [&](TermId id) { return m_terms[id].soft ? asIndex(id).has_value() : isInteger(m_terms[id].type); };
  // A product of indices is an integer too, but no index.
  const auto product = [&](const auto& self, TermId id) -> bool {
    const Term& t = m_terms[id];
    if (!t.soft || asIndex(id)) return t.soft;
    const bool whole = t.kind == Term::Kind::Op && (t.op == ScalarOp::Mul || t.op == ScalarOp::Add || t.op == ScalarOp::Sub);
    return whole && self(self, t.operands[0]) && self(self, t.operands[1]);
  };
  if (!integral(a) && product(product, a) && (integral(b) || product(product, b))) {
    Diagnostic& d =
        report("non-affine-index", "this index is not affine: indices are added, and multiplied or divided by constants only",
               m_terms[a].span);
    d.notes.push_back(
        {"`i32(" + textOf(m_terms[a].span) + ")` is a value, and `" + std::string(spelling(e.op)) + "` takes it", {}});
    return error(e.span);
  }
  if (!integral(a) || !integral(b)) {
    Diagnostic& d = report("type-mismatch", "`" + std::string(spelling(e.op)) + "` takes integers", e.span);
    if (divide) d.notes.push_back({"`floor(a / b)` rounds a real quotient down", {}});
    return error(e.span);
  }
  return operation(divide ? ScalarOp::FloorDiv : ScalarOp::Mod, {a, b, kNoTerm}, e);
}

TermId Statement::comparison(const Expr& e, TermId a, TermId b) {
  if (m_terms[a].type == DType::Bool || m_terms[b].type == DType::Bool) {
    report("type-mismatch", "conditions are joined with `and`, `or`, `not`; they do not compare", e.span);
    return error(e.span);
  }
  const auto ia = asIndex(a), ib = asIndex(b);
  const auto condition = [&](IndexExpr i, bool equality, bool negate) {
    Term t;
    t.kind = Term::Kind::Condition;
    t.type = DType::Bool;
    t.equality = equality;
    t.index = std::move(i);
    t.span = e.span;
    t.head = e.head;
    if (t.index.overflowed()) report("index-overflow", "this integer does not fit 64 bits", e.span);
    const TermId id = push(std::move(t));
    return negate ? operation(ScalarOp::Not, {id, kNoTerm, kNoTerm}, e) : id;
  };
  if (ia && ib && !(ia->isConstant() && ib->isConstant())) {
    switch (e.op) {
      case Op::Less: return condition(*ib - *ia - IndexExpr(1), false, false);
      case Op::LessEqual: return condition(*ib - *ia, false, false);
      case Op::Greater: return condition(*ia - *ib - IndexExpr(1), false, false);
      case Op::GreaterEqual: return condition(*ia - *ib, false, false);
      case Op::Equal: return condition(*ia - *ib, true, false);
      case Op::NotEqual: return condition(*ia - *ib, true, true);
      default: break;
    }
  }
  const Term &ta = m_terms[a], &tb = m_terms[b];
  if (ta.kind == Term::Kind::Constant && tb.kind == Term::Kind::Constant && ta.soft && tb.soft) {
    const double x = ta.number.value(), y = tb.number.value();
    Term t;
    t.kind = Term::Kind::Truth;
    t.type = DType::Bool;
    t.truth = e.op == Op::Less           ? x < y
              : e.op == Op::LessEqual    ? x <= y
              : e.op == Op::Greater      ? x > y
              : e.op == Op::GreaterEqual ? x >= y
              : e.op == Op::Equal        ? x == y
                                         : x != y;
    t.span = e.span;
    t.head = e.head;
    return push(std::move(t));
  }
  switch (e.op) {
    case Op::Less: return operation(ScalarOp::Lt, {a, b, kNoTerm}, e);
    case Op::LessEqual: return operation(ScalarOp::Le, {a, b, kNoTerm}, e);
    case Op::Greater: return operation(ScalarOp::Lt, {b, a, kNoTerm}, e);
    case Op::GreaterEqual: return operation(ScalarOp::Le, {b, a, kNoTerm}, e);
    case Op::Equal: return operation(ScalarOp::Eq, {a, b, kNoTerm}, e);
    default: return operation(ScalarOp::Ne, {a, b, kNoTerm}, e);
  }
}

TermId Statement::logic(const Expr& e, TermId a, TermId b) {
  for (const TermId id : {a, b})
    if (m_terms[id].type != DType::Bool || m_terms[id].soft) {
      report("type-mismatch", "`" + std::string(spelling(e.op)) + "` joins conditions, this is a number", m_terms[id].span);
      return error(e.span);
    }
  for (const auto& [known, other] : {std::pair(a, b), std::pair(b, a)}) {
    const Term& t = m_terms[known];
    if (t.kind != Term::Kind::Truth || t.literal) continue;
    return t.truth == (e.op == Op::And) ? other : known;
  }
  return operation(e.op == Op::And ? ScalarOp::And : ScalarOp::Or, {a, b, kNoTerm}, e);
}

void Statement::testedBy(TermId id, std::vector<IndexVar>& into) const {
  const Term& t = m_terms[id];
  if (t.kind == Term::Kind::Condition) t.index.collectVariables(into);
  if (t.kind == Term::Kind::Op && t.type == DType::Bool && (t.op == ScalarOp::And || t.op == ScalarOp::Or || t.op == ScalarOp::Not))
    for (const TermId o : t.operands)
      if (o != kNoTerm) testedBy(o, into);
}

// ---------------------------------------------------------------- reductions

TermId Statement::reduction(const Expr& e) {
  const std::size_t bindings = m_bindings.size(), groups = m_openGroups.size();
  Term t;
  t.kind = Term::Kind::Reduce;
  t.mean = e.text == "mean";
  t.reducer = e.text == "sum" || t.mean ? Reducer::Sum
              : e.text == "prod"        ? Reducer::Prod
              : e.text == "max"         ? Reducer::Max
              : e.text == "min"         ? Reducer::Min
              : e.text == "argmax"      ? Reducer::ArgMax
                                        : Reducer::ArgMin;
  t.tiesEven = e.tiesEven;
  t.span = e.span;
  t.head = e.head;
  struct Item {
    bool isGroup;
    std::uint32_t at;
  };
  std::vector<Item> items;
  bool good = true;
  for (const Binder& b : e.binders) {
    if (b.name == "...") {
      Group g;
      g.reduced = true;
      g.span = b.span;
      if (m_openGroups.size() > groups) {
        report("two-ellipses", "`...` may stand once in a pair of brackets", b.span);
        good = false;
        continue;
      }
      m_groups.push_back(std::move(g));
      m_openGroups.push_back(static_cast<std::uint32_t>(m_groups.size() - 1));
      items.push_back({true, m_openGroups.back()});
      continue;
    }
    if (const auto taken = variableNamed(b.name)) {
      Diagnostic& d =
          report("duplicate-index", "index `" + std::string(b.name) + "` already runs here: the reduction would hide it", b.span);
      d.notes.push_back({"it is named here", m_variables[*taken].span});
      good = false;
      continue;
    }
    const Entity* hidden = m_elab.lookup(b.name);
    if (hidden && (hidden->kind == Entity::Kind::Number || hidden->kind == Entity::Kind::Index)) {
      Diagnostic& d = report("shadowing", "index `" + std::string(b.name) + "` would hide the number of that name", b.span);
      d.notes.push_back({"`" + std::string(b.name) + "` is named here: one of the two takes another name", hidden->definition});
      good = false;
      continue;
    }
    const IndexVar v = addVariable(b.name, b.span);
    m_variables[v].reduced = true;
    m_bindings.push_back({b.name, v});
    setExtent(v, b.value);
    items.push_back({false, v});
  }
  const bool whole = m_whole;
  m_whole = false;
  const TermId body = good ? term(e.args[0]) : error(e.span);
  m_whole = whole;
  for (const Item& item : items) {
    if (!item.isGroup) {
      t.variables.push_back(item.at);
      continue;
    }
    const Group& g = m_groups[item.at];
    if (!g.known && good && m_terms[body].kind != Term::Kind::Error) {
      report("ellipsis-without-access", "nothing in this reduction says what `...` stands for", g.span);
      good = false;
    }
    t.variables.insert(t.variables.end(), g.variables.begin(), g.variables.end());
  }
  m_bindings.resize(bindings);
  m_openGroups.resize(groups);
  if (!good || m_terms[body].kind == Term::Kind::Error) return error(e.span);
  if (t.variables.empty()) return body;  // over the axes of a scalar
  t.operands[0] = body;
  const Term& b = m_terms[body];
  const bool arg = t.reducer == Reducer::ArgMax || t.reducer == Reducer::ArgMin;
  t.type = arg ? DType::I32 : b.type == DType::Bool || (b.soft && b.kind != Term::Kind::Op) ? DType::F32 : b.type;
  if (t.mean && t.type == DType::I32) t.type = DType::F32;
  if (b.soft) t.type = arg ? DType::I32 : m_realType.value_or(DType::F32);
  t.readsData = true;
  return push(std::move(t));
}

}  // namespace nf::lang
