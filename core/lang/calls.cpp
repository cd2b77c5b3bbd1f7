// SPDX-License-Identifier: Apache-2.0
// Functions of the language.
#include <algorithm>
#include <cmath>

#include "core/ir/folding.h"
#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

namespace {

std::optional<ScalarOp> unaryNamed(std::string_view name) {
  for (std::size_t i = 0; i < kScalarOpCount; ++i) {
    const auto op = static_cast<ScalarOp>(i);
    if (info(op).form == ScalarForm::Call && info(op).arity == 1 && op != ScalarOp::Cast && info(op).spelling == name) return op;
  }
  return std::nullopt;
}

std::optional<DType> castNamed(std::string_view name) {
  if (name == "float") return DType::F32;
  if (name == "int") return DType::I32;
  if (name == "i64") return DType::I64;
  const auto type = dtypeNamed(name);
  return type && *type != DType::Bool ? type : std::nullopt;
}

}  // namespace

bool isBuiltinFunction(std::string_view name) {
  return unaryNamed(name) || castNamed(name) || name == "max" || name == "min" || name == "pow" || name == "select" ||
         name == "random" || name == "grad";
}

std::vector<std::string> builtinFunctions() {
  std::vector<std::string> names{"bf16", "f16", "f32", "f64", "float", "grad", "i32", "max", "min", "pow", "random", "select"};
  for (std::size_t i = 0; i < kScalarOpCount; ++i)
    if (const std::string_view spelling = info(static_cast<ScalarOp>(i)).spelling; unaryNamed(spelling))
      names.emplace_back(spelling);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool Statement::arity(const Expr& e, std::size_t least, std::size_t most) {
  if (!e.binders.empty()) {
    report("unknown-option", "`" + std::string(e.text) + "` has no option `" + std::string(e.binders[0].name) + "`",
           e.binders[0].span);
    return false;
  }
  if (e.args.size() >= least && e.args.size() <= most) return true;
  std::string wanted = std::to_string(least) + (least == 1 ? " argument" : " arguments");
  if (most > 1000) wanted = "at least " + wanted;
  else if (most != least) wanted = std::to_string(least) + " to " + std::to_string(most) + " arguments";
  report("wrong-arity",
         "`" + std::string(e.text) + "` takes " + wanted + (e.args.size() == 1 ? ", here is " : ", here are ") +
             std::to_string(e.args.size()),
         e.span);
  return false;
}

TermId Statement::call(const Expr& e) {
  bool known = true;
  const TermId built = builtin(e, known);
  if (known) return built;
  const Function* f = m_elab.functionNamed(e.text);
  if (f && f->def->value != kNone) return inlined(*f, e);
  const ExprRef ref = static_cast<ExprRef>(&e - m_ast->exprs.data());
  auto value = wholeCall(ref);
  if (!value) return error(e.span);
  return entityTerm(*value, e);
}

std::optional<Entity> Statement::wholeCall(ExprRef e) {
  m_elab.m_wholeCalls.push_back({this, &(*m_ast)[e]});
  auto value = m_elab.wholeValue(*m_ast, e, {});
  m_elab.m_wholeCalls.pop_back();
  return value;
}

bool Statement::indexOfCaller(const Expr& name) {
  const auto holds = [&](Span s) { return s.source == name.span.source && s.begin <= name.span.begin && name.span.end <= s.end; };
  const auto around = std::find_if(m_elab.m_wholeCalls.rbegin(), m_elab.m_wholeCalls.rend(), [&](const Elaborator::WholeCall& c) {
    return c.within != this && holds(c.call->span) && c.within->variableNamed(name.text);
  });
  if (around == m_elab.m_wholeCalls.rend()) return false;
  if (std::exchange(around->told, true)) return true;
  const std::string function(around->call->text);
  Diagnostic& d = report("undefined-name",
                         "`" + std::string(name.text) + "` is an index of this statement, and `" + function +
                             "` takes whole tensors: no index of the statement means anything in its arguments",
                         name.span);
  std::string indices;
  for (const Binding& b : around->within->m_bindings)
    if (!b.name.empty()) indices += (indices.empty() ? "" : ", ") + std::string(b.name);
  std::string made = "A";
  while (m_elab.lookup(made)) made += 'A';
  for (const ExprRef a : around->call->args)
    if (holds((*m_ast)[a].span))
      d.notes.push_back({"name what it takes first, `" + made + "[" + indices + "] = " + textOf((*m_ast)[a].span) + "`; then `" +
                             function + "(" + made + (around->call->args.size() > 1 ? ", ..." : "") + ")[" + indices +
                             "]` reads the result",
                         {}});
  return true;
}

TermId Statement::builtin(const Expr& e, bool& known) {
  if (const auto op = unaryNamed(e.text)) return unaryCall(*op, e);
  if (const auto type = castNamed(e.text)) return castCall(*type, e);
  if (e.text == "select") return selectCall(e);
  if (e.text == "random") return randomCall(e);
  if (e.text == "pow") {
    if (!arity(e, 2, 2)) return error(e.span);
    const TermId a = asValue(term(e.args[0]), "to calculate with"), b = asValue(term(e.args[1]), "to calculate with");
    if (m_terms[a].kind == Term::Kind::Error || m_terms[b].kind == Term::Kind::Error) return error(e.span);
    Expr power = e;
    power.op = Op::Pow;
    return arithmetic(power, a, b);
  }
  if (e.text == "max" || e.text == "min") {
    if (!arity(e, 2, 1000000)) return error(e.span);
    const ScalarOp op = e.text == "max" ? ScalarOp::Max : ScalarOp::Min;
    TermId all = asValue(term(e.args[0]), "to compare");
    for (std::size_t i = 1; i < e.args.size(); ++i) {
      const TermId next = asValue(term(e.args[i]), "to compare");
      if (m_terms[all].kind == Term::Kind::Error || m_terms[next].kind == Term::Kind::Error) return error(e.span);
      const Term &x = m_terms[all], &y = m_terms[next];
      if (x.kind == Term::Kind::Constant && y.kind == Term::Kind::Constant && x.soft && y.soft) {
        const bool first = op == ScalarOp::Max ? x.number.value() > y.number.value() : x.number.value() < y.number.value();
        all = constant(first ? x.number : y.number, e.span);
      } else {
        all = operation(op, {all, next, kNoTerm}, e);
      }
    }
    return all;
  }
  known = false;
  return kNoTerm;
}

// A real number worked out from numbers. `finite`: they all are, so that it should be.
TermId Statement::worked(double y, bool finite, const Expr& e) {
  if (!finite || std::isfinite(y)) return constant(Number::of(y), e.span);
  Diagnostic& d =
      report("not-finite", "`" + textOf(e.span) + "` is " + (std::isnan(y) ? "not a number" : "too large for a double"), e.span);
  d.notes.push_back({"where that is meant, write `nan` or `inf`", {}});
  return error(e.span);
}

TermId Statement::unaryCall(ScalarOp op, const Expr& e) {
  if (!arity(e, 1, 1)) return error(e.span);
  const TermId a = asValue(term(e.args[0]), "for a function");
  const Term& t = m_terms[a];
  if (t.kind == Term::Kind::Error) return error(e.span);
  if (t.kind == Term::Kind::Constant && t.soft && op != ScalarOp::StopGradient) {
    const double y = evaluateScalar(op, DType::F64, t.number.value(), 0).value();
    const bool stays = t.number.isInteger && (op == ScalarOp::Abs || op == ScalarOp::Relu || op == ScalarOp::Floor);
    const bool floors = op == ScalarOp::Floor && std::fabs(y) < 9e15;
    if (stays || floors) return constant(Number::of(static_cast<std::int64_t>(y)), e.span);
    return worked(y, std::isfinite(t.number.value()), e);
  }
  const bool keepsInteger = op == ScalarOp::Abs || op == ScalarOp::Relu || op == ScalarOp::StopGradient || op == ScalarOp::Floor;
  if (!t.soft && isInteger(t.type) && !keepsInteger) {
    const TermId real = operation(ScalarOp::Cast, {a, kNoTerm, kNoTerm}, e);
    m_terms[real].type = DType::F32;
    return operation(op, {real, kNoTerm, kNoTerm}, e);
  }
  return operation(op, {a, kNoTerm, kNoTerm}, e);
}

TermId Statement::castCall(DType type, const Expr& e) {
  if (!arity(e, 1, 1)) return error(e.span);
  const TermId a = term(e.args[0]);
  Term t = m_terms[a];
  if (t.kind == Term::Kind::Error) return error(e.span);
  t.span = e.span;
  t.head = e.head;
  const bool whole = t.soft ? asIndex(a).has_value() : isInteger(t.type) || t.type == DType::Bool;
  if (type == DType::I64 && !whole) {
    report("type-mismatch", "`i64` is of indices: it takes integers", e.span);
    return error(e.span);
  }
  if (t.type == DType::Bool) {  // 1 or 0
    const TermId one = constant(Number::of(std::int64_t{1}), e.span), zero = constant(Number::of(std::int64_t{0}), e.span);
    const TermId s = operation(ScalarOp::Select, {a, one, zero}, e);
    m_terms[s].soft = false;
    m_terms[s].type = type;
    return s;
  }
  const bool plain = type == DType::F32 || type == DType::F64 || isInteger(type);
  const bool exact = !isInteger(type) || t.kind == Term::Kind::Index || (t.kind == Term::Kind::Constant && t.number.isInteger);
  if (t.soft && plain && exact && t.kind != Term::Kind::Op) {
    t.soft = false;
    t.type = type;
    return push(std::move(t));
  }
  const TermId cast = operation(ScalarOp::Cast, {a, kNoTerm, kNoTerm}, e);
  m_terms[cast].soft = false;
  m_terms[cast].type = type;
  return cast;
}

// A call of a function with a body, a slice, a derivative: reading it adds to the program.
bool Statement::makesTensors(ExprRef e) const {
  std::vector<ExprRef> stack{e};
  while (!stack.empty()) {
    const Expr& x = (*m_ast)[stack.back()];
    stack.pop_back();
    if (x.kind == ExprKind::Derivative || x.kind == ExprKind::Hole) return true;
    if (x.kind == ExprKind::Call) {
      const Function* f = m_elab.functionNamed(x.text);
      if (x.text == "grad" || x.text == "random" || (f && f->def->value == kNone)) return true;
    }
    stack.insert(stack.end(), x.args.begin(), x.args.end());
    for (const Binder& b : x.binders)
      if (b.value != kNone) stack.push_back(b.value);
  }
  return false;
}

TermId Statement::selectCall(const Expr& e) {
  if (!arity(e, 3, 3)) return error(e.span);
  const TermId c = term(e.args[0]);
  if (m_terms[c].kind == Term::Kind::Error) return error(e.span);
  if (m_terms[c].type != DType::Bool || m_terms[c].soft) {
    report("type-mismatch", "`select` takes a condition first", m_terms[c].span).notes.push_back({kOfNumber, {}});
    return error(e.span);
  }
  if (m_terms[c].kind == Term::Kind::Truth && !m_terms[c].literal) {
    const ExprRef taken = e.args[m_terms[c].truth ? 1 : 2], other = e.args[m_terms[c].truth ? 2 : 1];
    // What the other branch says of extents holds here, too: the same tensor has one shape in training and evaluation.
    const Span condition = m_terms[c].span;
    if (!makesTensors(other)) noteFolded(term(other), condition);
    return term(taken);
  }
  const std::size_t tested = m_tested.size();
  testedBy(c, m_tested);
  const TermId a = term(e.args[1]), b = term(e.args[2]);
  m_tested.resize(tested);
  const Term &ta = m_terms[a], &tb = m_terms[b];
  if (ta.kind == Term::Kind::Error || tb.kind == Term::Kind::Error) return error(e.span);
  if ((ta.type == DType::Bool) != (tb.type == DType::Bool)) {
    report("type-mismatch", "`select` chooses between two numbers or two conditions", e.span);
    return error(e.span);
  }
  return operation(ScalarOp::Select, {c, a, b}, e);
}

// random() numbers its use; random(stream, point) is what the printer writes.
TermId Statement::randomCall(const Expr& e) {
  if (!arity(e, 0, 2)) return error(e.span);
  Term t;
  t.kind = Term::Kind::Random;
  t.op = ScalarOp::Random;
  t.span = e.span;
  t.head = e.head;
  t.readsData = true;
  if (e.args.empty()) {
    t.number = Number::of(m_elab.m_randomStreams++);
    return push(std::move(t));
  }
  if (!arity(e, 2, 2)) return error(e.span);
  const auto stream = constantOf(term(e.args[0]));
  const TermId at = term(e.args[1]);
  const auto point = asIndex(at);
  if (!stream || !stream->isInteger || !point) {
    report("type-mismatch", "`random(stream, point)` takes a constant integer and an index", e.span);
    return error(e.span);
  }
  t.number = *stream;
  t.index = *point;
  t.hasPoint = true;
  return push(std::move(t));
}

}  // namespace nf::lang
