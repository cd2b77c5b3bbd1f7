// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/ir/folding.h"
#include "core/lang/statement.h"
#include "core/support/checked.h"

namespace nf::lang {

using namespace ast;

namespace {

bool isNumberLike(const Term& t) { return t.kind == Term::Kind::Constant; }

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
  const auto type = dtypeNamed(name);
  return type && *type != DType::Bool ? type : std::nullopt;
}

}  // namespace

bool isBuiltinFunction(std::string_view name) {
  return unaryNamed(name) || castNamed(name) || name == "max" || name == "min" || name == "pow" || name == "select" ||
         name == "random" || name == "grad";
}

Statement::Statement(Elaborator& elaborator, const Ast& ast) : m_elab(elaborator), m_ast(&ast) { m_groups.emplace_back(); }

Diagnostic& Statement::report(std::string code, std::string message, Span span) {
  m_failed = true;
  return m_elab.report(std::move(code), std::move(message), span);
}

std::string Statement::textOf(Span span) const { return std::string(m_elab.m_out.sources.text(span)); }

TermId Statement::push(Term t) {
  t.frame = m_elab.m_frame;
  for (const TermId o : t.operands)
    if (o != kNoTerm) t.readsData = t.readsData || m_terms[o].readsData;
  m_terms.push_back(std::move(t));
  return static_cast<TermId>(m_terms.size() - 1);
}

TermId Statement::error(Span span) {
  m_failed = true;
  Term t;
  t.span = t.head = span;
  return push(std::move(t));
}

TermId Statement::constant(Number n, Span span) {
  Term t;
  t.kind = Term::Kind::Constant;
  t.soft = true;
  t.number = n;
  t.span = t.head = span;
  return push(std::move(t));
}

std::optional<Number> Statement::constantOf(TermId id) const {
  const Term& t = m_terms[id];
  if (t.kind == Term::Kind::Constant) return t.number;
  if (t.kind == Term::Kind::Index && t.index.isConstant()) return Number::of(t.index.constant());
  return std::nullopt;
}

std::optional<IndexExpr> Statement::asIndex(TermId id) const {
  const Term& t = m_terms[id];
  if (!t.soft) return std::nullopt;
  if (t.kind == Term::Kind::Index) return t.index;
  if (t.kind == Term::Kind::Constant && t.number.isInteger) return IndexExpr(t.number.integer);
  return std::nullopt;
}

// ---------------------------------------------------------------- variables

std::optional<IndexVar> Statement::variableNamed(std::string_view name) const {
  for (std::size_t i = m_bindings.size(); i > m_bindingsBase; --i)
    if (m_bindings[i - 1].name == name) return m_bindings[i - 1].variable;
  return std::nullopt;
}

IndexVar Statement::addVariable(std::string_view name, Span span) {
  Variable v;
  v.name = name;
  v.span = span;
  m_variables.push_back(std::move(v));
  return static_cast<IndexVar>(m_variables.size() - 1);
}

void Statement::setExtent(IndexVar v, ExprRef e) {
  if (e == kNone) return;
  // Extents are numbers: indices of this statement mean nothing in them.
  const auto n = m_elab.extent(*m_ast, e, "index `" + m_variables[v].name + "`");
  m_variables[v].extentSpan = (*m_ast)[e].span;
  m_variables[v].given = true;
  m_variables[v].extent = n.value_or(1);
  if (!n) m_failed = true;
}

bool Statement::outputs(const std::vector<TargetIndex>& indices) {
  for (const TargetIndex& item : indices) {
    const Expr& e = (*m_ast)[item.expr];
    if (e.kind == ExprKind::Ellipsis) {
      if (std::any_of(m_outputs.begin(), m_outputs.end(), [](const OutputItem& o) { return o.isGroup; })) {
        report("two-ellipses", "`...` may stand once in a pair of brackets", e.span);
        return false;
      }
      m_outputs.push_back({true, 0});
      m_groups[0].span = e.span;
      m_openGroups.push_back(0);
      continue;
    }
    if (e.kind != ExprKind::Name) {
      if (e.kind == ExprKind::Error) return m_failed = true, false;
      Diagnostic& d = report("target-index", "the left side takes names of indices, not `" + textOf(e.span) + "`", e.span);
      if (e.kind == ExprKind::Hole) d.notes.push_back({"give this index a name", {}});
      else d.notes.push_back({"to write some elements only, select them on the right; to add at computed places use `+=`", {}});
      return false;
    }
    if (variableNamed(e.text)) {
      report("duplicate-index", "index `" + std::string(e.text) + "` stands twice on the left", e.span);
      return false;
    }
    const Entity* hidden = m_elab.lookup(e.text);
    if (hidden && (hidden->kind == Entity::Kind::Number || hidden->kind == Entity::Kind::Index)) {
      Diagnostic& d = report("shadowing", "index `" + std::string(e.text) + "` would hide the number of that name", e.span);
      d.notes.push_back({"`" + std::string(e.text) + "` is named here", hidden->definition});
      return false;
    }
    const IndexVar v = addVariable(e.text, e.span);
    m_bindings.push_back({m_ast->exprs[item.expr].text, v});
    m_outputs.push_back({false, v});
    setExtent(v, item.extent);
  }
  return !m_failed;
}

void Statement::wholeOutput() {
  m_whole = true;
  m_outputs.push_back({true, 0});
  m_openGroups.push_back(0);
}

void Statement::axes(const std::vector<Binder>& binders, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const IndexVar v = addVariable(binders[i].name, binders[i].span);
    m_bindings.push_back({binders[i].name, v});
    setExtent(v, binders[i].value);
  }
}

void Statement::knowGroup(const std::vector<std::int64_t>& shape, const std::vector<std::string>& names) {
  Group& group = m_groups[0];
  if (group.known) return;
  group.known = true;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const IndexVar v = addVariable(i < names.size() ? names[i] : std::string(), group.span);
    m_variables[v].generated = true;
    m_variables[v].extent = shape[i];
    group.variables.push_back(v);
  }
}

bool Statement::fixOutputs(const std::vector<std::int64_t>& shape, const std::string& name, Span span) {
  std::size_t written = 0;
  bool group = false;
  for (const OutputItem& item : m_outputs) {
    group = group || item.isGroup;
    written += item.isGroup ? 0 : 1;
  }
  if (written > shape.size() || (!group && written != shape.size())) {
    report("rank-mismatch",
           "`" + name + "` has rank " + std::to_string(shape.size()) + " and is written with " + std::to_string(written) +
               (written == 1 ? " index" : " indices"),
           span);
    return false;
  }
  std::size_t k = 0;
  for (const OutputItem& item : m_outputs) {
    if (item.isGroup) {
      const std::size_t rest = shape.size() - written;
      knowGroup({shape.begin() + static_cast<std::ptrdiff_t>(k), shape.begin() + static_cast<std::ptrdiff_t>(k + rest)}, {});
      k += rest;
      continue;
    }
    if (m_variables[item.variable].extent == 0) m_variables[item.variable].extent = shape[k];
    ++k;
  }
  return true;
}

void Statement::giveExtent(IndexVar v, std::int64_t extent, Span span) {
  m_variables[v].extent = extent;
  m_variables[v].extentSpan = span;
  m_variables[v].given = true;
}

void Statement::where(const std::vector<Binder>& binders, std::size_t from) {
  for (std::size_t i = from; i < binders.size(); ++i) {
    const auto taken = std::find_if(m_macros.begin(), m_macros.end(), [&](const Macro& m) { return m.name == binders[i].name; });
    if (taken != m_macros.end() || variableNamed(binders[i].name)) {
      report("redefinition", "`" + std::string(binders[i].name) + "` is named twice in this statement", binders[i].span);
      continue;
    }
    Macro macro;
    macro.name = binders[i].name;
    macro.expr = binders[i].value;
    m_macros.push_back(macro);
  }
}

// ---------------------------------------------------------------- terms

TermId Statement::term(ExprRef ref) {
  const Expr& e = (*m_ast)[ref];
  switch (e.kind) {
    case ExprKind::Error: return error(e.span);
    case ExprKind::Number: {
      const TermId t = constant(e.isInteger ? Number::of(e.integer) : Number::of(e.number), e.span);
      return t;
    }
    case ExprKind::String: report("unexpected-string", "a string means nothing in an expression", e.span); return error(e.span);
    case ExprKind::Name: return nameTerm(e);
    case ExprKind::Prefix: return prefix(e);
    case ExprKind::Infix: return infix(e);
    case ExprKind::Call: return call(e);
    case ExprKind::Index: return indexing(e, kNoTerm);
    case ExprKind::Reduce: return reduction(e);
    case ExprKind::Else: {
      const Expr& inner = (*m_ast)[e.args[0]];
      if (inner.kind != ExprKind::Index) {
        report("else-without-access", "`else` belongs to an access, as in `X[i - 1] else 0`", e.head);
        return error(e.span);
      }
      const TermId otherwise = asValue(term(e.args[1]), "after `else`");
      const TermId load = indexing(inner, otherwise);
      m_terms[load].span = e.span;
      return load;
    }
    case ExprKind::Derivative: {
      const auto view = m_elab.derivative(e);
      return view ? bareTensor(*view, e) : error(e.span);
    }
    case ExprKind::Hole:
    case ExprKind::Ellipsis:
      report("bad-slice", "`" + textOf(e.span) + "` stands in the brackets of a tensor only", e.span);
      return error(e.span);
  }
  return error(e.span);
}

TermId Statement::nameTerm(const Expr& e) {
  if (const auto v = variableNamed(e.text)) {
    Term t;
    t.kind = Term::Kind::Index;
    t.soft = true;
    t.index = IndexExpr::variable(*v);
    t.span = t.head = e.span;
    return push(std::move(t));
  }
  if (e.text == "training" || e.text == "true" || e.text == "false") {
    Term t;
    t.kind = Term::Kind::Truth;
    t.type = DType::Bool;
    t.literal = e.text != "training";
    t.truth = t.literal ? e.text == "true" : m_elab.m_options.training;
    t.span = t.head = e.span;
    return push(std::move(t));
  }
  for (std::size_t i = m_macros.size(); i > m_macrosBase; --i) {
    Macro& macro = m_macros[i - 1];
    if (macro.name != e.text) continue;
    if (macro.open) {
      report("cyclic-use", "`" + std::string(e.text) + "` is defined by itself", e.span);
      return error(e.span);
    }
    // A name that was worked out under more indices than stand here now would leak them.
    const bool sameIndices =
        macro.depth <= m_bindings.size() && (macro.depth == 0 || m_bindings[macro.depth - 1].variable == macro.innermost);
    if (macro.term != kNoTerm && sameIndices) return macro.term;
    macro.open = true;
    const TermId t = term(macro.expr);
    m_macros[i - 1].open = false;
    m_macros[i - 1].term = t;
    m_macros[i - 1].depth = m_bindings.size();
    m_macros[i - 1].innermost = m_bindings.empty() ? 0 : m_bindings.back().variable;
    return t;
  }
  if (m_implicit && !m_elab.lookup(e.text)) {
    const IndexVar v = addVariable(e.text, e.span);
    m_bindings.push_back({e.text, v});
    return nameTerm(e);
  }
  Entity* entity = m_elab.lookup(e.text);
  if (!entity && !m_elab.m_laterNames.contains(std::string(e.text)) && !m_outputs.empty() && !m_elab.functionNamed(e.text) &&
      e.text.find('.') == std::string_view::npos) {
    const std::string name(e.text);
    Diagnostic& d =
        report("undefined-name", "`" + name + "` is not defined: it is no tensor, number or index of this statement", e.span);
    d.notes.push_back({"as an index it stands on the left, or in a reduction: `sum[" + name + "] ...`", {}});
    for (const std::string& near : m_elab.suggestions(e.text)) d.fixes.push_back({"write `" + near + "`", e.span, near});
    return error(e.span);
  }
  entity = m_elab.resolve(e.text, e.span);
  if (!entity) return error(e.span);
  return entityTerm(*entity, e);
}

TermId Statement::entityTerm(Entity& entity, const Expr& e) {
  switch (entity.kind) {
    case Entity::Kind::Poison: return error(e.span);
    case Entity::Kind::Number: return constant(entity.number, e.span);
    case Entity::Kind::Index: {
      Term t;
      t.kind = Term::Kind::Index;
      t.soft = true;
      t.index = entity.index;
      t.span = t.head = e.span;
      return push(std::move(t));
    }
    case Entity::Kind::Tensor: return bareTensor(entity.view, e);
    case Entity::Kind::Data:
      report("data-as-value",
             "`" + std::string(e.text) + "` is a data set: read it with `input X[...] = batch " + std::string(e.text) + "[:, ...]`",
             e.span);
      return error(e.span);
    case Entity::Kind::LastOf:
    case Entity::Kind::Macro: break;
  }
  return error(e.span);
}

// A tensor without brackets: a scalar, or all remaining indices in `Y = relu(X)`.
TermId Statement::bareTensor(const View& view, const Expr& e) {
  const std::size_t rank = view.rankOf(m_elab.tensorOf(view.tensor));
  if (rank == 0) return accessTerm(view, {}, e.span, e.head, kNoTerm);
  if (m_whole && m_openGroups.size() == 1) {
    if (!expandGroup(m_groups[0], view, 0, 0, e.span)) return error(e.span);
    Term t;
    t.kind = Term::Kind::Load;
    t.readsData = true;
    t.tensor = view.tensor;
    t.type = arithmeticType(m_elab.typeOf(view));
    t.tested = m_tested;
    std::size_t next = 0;
    const std::size_t full = m_elab.tensorOf(view.tensor).shape.size();
    for (std::size_t k = 0; k < full; ++k) {
      TermIndex index;
      index.span = e.span;
      if (k < view.fixed.size() && view.fixed[k]) index.affine = *view.fixed[k];
      else index.affine = IndexExpr::variable(m_groups[0].variables[next++]);
      t.indices.push_back(std::move(index));
    }
    t.span = e.span;
    t.head = e.head;
    return push(std::move(t));
  }
  const std::string name = textOf(e.head);
  std::string indices = "i";
  for (std::size_t k = 1; k < rank; ++k)
    indices += std::string(", ") + (k < 7 ? std::string(1, "ijklmno"[k]) : "i" + std::to_string(k));
  report("missing-indices",
         "`" + name + "` has rank " + std::to_string(rank) + ": its indices are needed here, as in `" + name + "[" + indices + "]`",
         e.span);
  return error(e.span);
}

// Makes the group's variables from the first tensor it meets, or checks that it stands for as many axes again.
bool Statement::expandGroup(Group& group, const View& view, std::size_t written, std::size_t before, Span span) {
  const Tensor& t = m_elab.tensorOf(view.tensor);
  std::vector<std::size_t> free;
  for (std::size_t k = 0; k < t.shape.size(); ++k)
    if (k >= view.fixed.size() || !view.fixed[k]) free.push_back(k);
  if (free.size() < written) {
    report("rank-mismatch",
           "`" + t.name + "` has rank " + std::to_string(free.size()) + ", " + std::to_string(written) +
               " indices and `...` are too many",
           span);
    return false;
  }
  const std::size_t rank = free.size() - written;
  if (!group.known) {
    group.known = true;
    group.span = group.span.valid() ? group.span : span;
    const auto& axisNames = m_elab.m_contexts[view.tensor.level]->axisNames;
    for (std::size_t i = 0; i < rank; ++i) {
      std::string name;
      const std::size_t axis = free[before + i];
      if (view.tensor.id.value < axisNames.size() && axis < axisNames[view.tensor.id.value].size())
        name = axisNames[view.tensor.id.value][axis];
      const IndexVar v = addVariable(name, span);
      m_variables[v].generated = true;
      m_variables[v].reduced = group.reduced;
      group.variables.push_back(v);
    }
    return true;
  }
  if (group.variables.size() == rank) return true;
  Diagnostic& d = report("rank-mismatch",
                         m_whole ? "`" + t.name + "` has rank " + std::to_string(rank) + " where rank " +
                                       std::to_string(group.variables.size()) + " is needed"
                                 : "`...` stands for " + std::to_string(group.variables.size()) + " indices and `" + t.name +
                                       "` has " + std::to_string(rank) + " left",
                         span);
  if (group.span.valid() && !(group.span == span)) d.notes.push_back({"the rank was fixed here", group.span});
  return false;
}

TermId Statement::indexing(const Expr& e, TermId otherwise) {
  const Expr& base = (*m_ast)[e.args[0]];
  std::optional<View> view;
  if (base.kind == ExprKind::Name) {
    if (const auto v = variableNamed(base.text)) {
      Diagnostic& d =
          report("shadowing", "`" + std::string(base.text) + "` is an index in this statement and can't be indexed", base.span);
      if (m_elab.lookup(base.text))
        d.notes.push_back({"the tensor of that name is hidden by the index: rename one of them", m_variables[*v].span});
      return error(e.span);
    }
    Entity* entity = m_elab.resolve(base.text, base.span);
    if (!entity || entity->kind == Entity::Kind::Poison) return error(e.span);
    if (entity->kind != Entity::Kind::Tensor) {
      report("not-a-tensor",
             "`" + std::string(base.text) + "` is " + (entity->kind == Entity::Kind::Data ? "a data set" : "a number") +
                 ", no tensor: it has no indices",
             e.span);
      return error(e.span);
    }
    view = entity->view;
  } else if (base.kind == ExprKind::Call || base.kind == ExprKind::Derivative || base.kind == ExprKind::Index) {
    view = m_elab.wholeTensor(*m_ast, e.args[0], {});
  } else if (base.kind != ExprKind::Error) {
    report("not-a-tensor", "only a tensor can be indexed", base.span);
  }
  if (!view) return error(e.span);
  return accessTerm(*view, {e.args.begin() + 1, e.args.end()}, e.span, base.head, otherwise);
}

TermIndex Statement::indexTerm(ExprRef ref) {
  const Expr& e = (*m_ast)[ref];
  TermIndex index;
  index.span = e.span;
  const TermId id = term(ref);
  if (m_terms[id].kind == Term::Kind::Error) return index;
  if (const auto affine = asIndex(id)) {
    index.affine = *affine;
    if (index.affine.overflowed()) report("index-overflow", "this integer does not fit 64 bits", e.span);
    return index;
  }
  const Term& t = m_terms[id];
  if (t.type == DType::Bool) {
    report("type-mismatch", "a condition can't be an index", e.span);
  } else if (!t.readsData && (t.soft || t.type != DType::I32)) {
    if (t.kind == Term::Kind::Constant) {
      report("non-integer-index", "an index is an integer, this is " + textOf(e.span), e.span);
    } else if (t.op == ScalarOp::Div) {
      Diagnostic& d = report("non-affine-index", "`/` divides real numbers: an index divides with `//`", t.head);
      if (t.head.length() == 1) d.fixes.push_back({"write `//`", t.head, "//"});
    } else {
      Diagnostic& d = report("non-affine-index",
                             "this index is not affine: indices are added, and multiplied or divided by constants only", e.span);
      d.notes.push_back(
          {"allowed are `+ - *` by constants, `//` and `%` by positive constants, and an integer tensor as an index", {}});
    }
  } else if (t.type != DType::I32 || t.soft) {
    Diagnostic& d = report("type-mismatch", "an index is an integer, this is " + std::string(name(t.type)), e.span);
    d.fixes.push_back({"convert it", e.span, "i32(" + textOf(e.span) + ")"});
  } else {
    index.data = id;
  }
  return index;
}

TermId Statement::accessTerm(const View& view, const std::vector<ExprRef>& indices, Span span, Span head, TermId otherwise) {
  const Tensor& tensor = m_elab.tensorOf(view.tensor);
  const std::string tensorName = tensor.name;
  const std::size_t rank = view.rankOf(tensor), full = tensor.shape.size();
  const DType type = arithmeticType(tensor.type);
  std::size_t ellipsis = indices.size();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Expr& e = (*m_ast)[indices[i]];
    if (e.kind == ExprKind::Hole) {
      report("bad-slice", "`_` makes a slice, and a slice stands where a whole tensor may: an argument, `show`", e.span);
      return error(span);
    }
    if (e.kind != ExprKind::Ellipsis) continue;
    if (ellipsis != indices.size()) {
      report("two-ellipses", "`...` may stand once in a pair of brackets", e.span);
      return error(span);
    }
    ellipsis = i;
  }
  std::vector<TermIndex> components;
  if (ellipsis == indices.size()) {
    if (indices.size() != rank) {
      Diagnostic& d = report("rank-mismatch",
                             "`" + tensorName + "` has rank " + std::to_string(rank) + " and is read with " +
                                 std::to_string(indices.size()) + (indices.size() == 1 ? " index" : " indices"),
                             span);
      d.notes.push_back({"`" + tensorName + "` is " + m_elab.detailOf(m_elab.tensorOf(view.tensor)), {}});
      return error(span);
    }
    for (const ExprRef e : indices) components.push_back(indexTerm(e));
  } else {
    if (m_openGroups.empty()) {
      report("ellipsis-without-target",
             "`...` stands for the remaining indices of the left side or of a reduction: there are none here",
             (*m_ast)[indices[ellipsis]].span);
      return error(span);
    }
    const std::uint32_t g = m_openGroups.back();
    if (!expandGroup(m_groups[g], view, indices.size() - 1, ellipsis, span)) return error(span);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (i != ellipsis) {
        components.push_back(indexTerm(indices[i]));
        continue;
      }
      for (const IndexVar v : m_groups[g].variables) {
        TermIndex index;
        index.affine = IndexExpr::variable(v);
        index.span = (*m_ast)[indices[i]].span;
        components.push_back(std::move(index));
      }
    }
  }
  Term t;
  t.kind = Term::Kind::Load;
  t.readsData = true;
  t.tensor = view.tensor;
  t.type = type;
  t.tested = m_tested;
  t.otherwise = otherwise;
  std::size_t next = 0;
  for (std::size_t k = 0; k < full; ++k) {
    if (k < view.fixed.size() && view.fixed[k]) {
      TermIndex index;
      index.affine = *view.fixed[k];
      index.span = span;
      t.indices.push_back(std::move(index));
    } else {
      t.indices.push_back(std::move(components[next++]));
    }
  }
  t.span = span;
  t.head = head;
  return push(std::move(t));
}

TermId Statement::asValue(TermId id, const char* where) {
  const Term& t = m_terms[id];
  if (t.kind == Term::Kind::Error || t.type != DType::Bool) return id;
  const Span span = t.span;
  Diagnostic& d = report("type-mismatch", std::string("a condition is no number ") + where, span);
  d.fixes.push_back({"make it 1 or 0", span, "select(" + textOf(span) + ", 1, 0)"});
  return error(span);
}

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
  t.soft = soft;
  t.type = type.value_or(DType::F32);
  // A number with a fraction beside an integer tensor: the result is real.
  if (type == DType::I32)
    for (int k = first; k < arity; ++k) {
      const Term& o = m_terms[operands[k]];
      if (o.soft && (o.kind == Term::Kind::Op || (o.kind == Term::Kind::Constant && !o.number.isInteger))) t.type = DType::F32;
    }
  if (t.type == DType::I32 && (op == ScalarOp::Div || op == ScalarOp::Pow)) t.type = DType::F32;
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
      report("type-mismatch", "`not` takes a condition", e.span);
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

TermId Statement::infix(const Expr& e) {
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
  if (isNumberLike(ta) && isNumberLike(tb) && ta.soft && tb.soft) {
    const double x = ta.number.value(), y = tb.number.value();
    switch (e.op) {
      case Op::Add: return constant(Number::of(x + y), e.span);
      case Op::Sub: return constant(Number::of(x - y), e.span);
      case Op::Mul: return constant(Number::of(x * y), e.span);
      case Op::Div:
        if (y == 0 && tb.number.isInteger) {
          report("division-by-zero", "this divides by zero", e.span);
          return error(e.span);
        }
        return constant(Number::of(x / y), e.span);
      case Op::Pow: {
        const double p = std::pow(x, y);
        const bool exact = ta.number.isInteger && tb.number.isInteger && y >= 0 && std::fabs(p) < 9e15;
        return constant(exact ? Number::of(static_cast<std::int64_t>(p)) : Number::of(p), e.span);
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
  const auto integral = [&](TermId id) { return m_terms[id].soft ? asIndex(id).has_value() : m_terms[id].type == DType::I32; };
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
  if (isNumberLike(ta) && isNumberLike(tb) && ta.soft && tb.soft) {
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
      d.notes.push_back({"`" + std::string(b.name) + "` is named here", hidden->definition});
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

// ---------------------------------------------------------------- calls

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
  report("wrong-arity", "`" + std::string(e.text) + "` takes " + wanted + ", here are " + std::to_string(e.args.size()), e.span);
  return false;
}

TermId Statement::call(const Expr& e) {
  bool known = true;
  const TermId built = builtin(e, known);
  if (known) return built;
  const Function* f = m_elab.functionNamed(e.text);
  if (f && f->def->value != kNone) return inlined(*f, e);
  const ExprRef ref = static_cast<ExprRef>(&e - m_ast->exprs.data());
  auto value = m_elab.wholeValue(*m_ast, ref, {});
  if (!value) return error(e.span);
  return entityTerm(*value, e);
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
      if (isNumberLike(x) && isNumberLike(y) && x.soft && y.soft) {
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

TermId Statement::unaryCall(ScalarOp op, const Expr& e) {
  if (!arity(e, 1, 1)) return error(e.span);
  const TermId a = asValue(term(e.args[0]), "for a function");
  const Term& t = m_terms[a];
  if (t.kind == Term::Kind::Error) return error(e.span);
  if (t.kind == Term::Kind::Constant && t.soft && op != ScalarOp::StopGradient) {
    const double y = evaluateScalar(op, DType::F64, t.number.value(), 0).value();
    const bool stays = t.number.isInteger && (op == ScalarOp::Abs || op == ScalarOp::Relu || op == ScalarOp::Floor);
    const bool floors = op == ScalarOp::Floor && std::fabs(y) < 9e15;
    return constant(stays || floors ? Number::of(static_cast<std::int64_t>(y)) : Number::of(y), e.span);
  }
  const bool keepsInteger = op == ScalarOp::Abs || op == ScalarOp::Relu || op == ScalarOp::StopGradient || op == ScalarOp::Floor;
  if (!t.soft && t.type == DType::I32 && !keepsInteger) {
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
  if (t.type == DType::Bool) {  // 1 or 0
    const TermId one = constant(Number::of(std::int64_t{1}), e.span), zero = constant(Number::of(std::int64_t{0}), e.span);
    const TermId s = operation(ScalarOp::Select, {a, one, zero}, e);
    m_terms[s].soft = false;
    m_terms[s].type = type;
    return s;
  }
  const bool plain = type == DType::F32 || type == DType::F64 || type == DType::I32;
  const bool exact = type != DType::I32 || t.kind == Term::Kind::Index || (t.kind == Term::Kind::Constant && t.number.isInteger);
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

TermId Statement::selectCall(const Expr& e) {
  if (!arity(e, 3, 3)) return error(e.span);
  const TermId c = term(e.args[0]);
  if (m_terms[c].kind == Term::Kind::Error) return error(e.span);
  if (m_terms[c].type != DType::Bool || m_terms[c].soft) {
    report("type-mismatch", "`select` takes a condition first", m_terms[c].span);
    return error(e.span);
  }
  if (m_terms[c].kind == Term::Kind::Truth && !m_terms[c].literal) return term(e.args[m_terms[c].truth ? 1 : 2]);
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

// def gelu(x) = ...: its expression over the caller's terms.
TermId Statement::inlined(const Function& f, const Expr& e) {
  const Stmt& def = *f.def;
  if (e.args.size() != def.parameters.size()) {
    Diagnostic& d =
        report("wrong-arity",
               "`" + std::string(e.text) + "` takes " + std::to_string(def.parameters.size()) +
                   (def.parameters.size() == 1 ? " argument" : " arguments") + ", here are " + std::to_string(e.args.size()),
               e.span);
    d.notes.push_back({f.signature, def.nameSpan});
    return error(e.span);
  }
  if (!m_elab.spend(e.span)) return error(e.span);
  if (m_elab.m_callDepth > 100) {
    report("recursive-function", "`" + std::string(e.text) + "` calls itself: functions are expanded, so they can't", e.span);
    return error(e.span);
  }
  std::vector<Macro> macros;
  bool good = true;
  for (std::size_t i = 0; i < e.args.size(); ++i) {
    Macro m;
    m.name = def.parameters[i].name;
    m.term = term(e.args[i]);
    good = good && m_terms[m.term].kind != Term::Kind::Error;
    macros.push_back(m);
  }
  std::vector<bool> used(e.binders.size(), false);
  std::vector<ExprRef> defaults;
  for (std::size_t i = 0; i < def.binders.size(); ++i) {
    const Binder& option = def.binders[i];
    Macro m;
    m.name = option.name;
    for (std::size_t k = 0; k < e.binders.size(); ++k)
      if (e.binders[k].name == option.name) {
        used[k] = true;
        m.term = term(e.binders[k].value);
      }
    m.expr = option.value;  // worked out in the function's own source
    macros.push_back(m);
  }
  for (std::size_t k = 0; k < used.size(); ++k)
    if (!used[k]) {
      Diagnostic& d =
          report("unknown-option", "`" + std::string(e.text) + "` has no option `" + std::string(e.binders[k].name) + "`",
                 e.binders[k].span);
      d.notes.push_back({f.signature, def.nameSpan});
      good = false;
    }
  if (!good) return error(e.span);
  const Ast* caller = m_ast;
  const std::size_t bindingsBase = m_bindingsBase, macrosBase = m_macrosBase, macroCount = m_macros.size();
  const std::uint32_t frame = m_elab.m_frame;
  m_ast = f.ast;
  m_bindingsBase = m_bindings.size();
  m_macrosBase = m_macros.size();
  m_macros.insert(m_macros.end(), macros.begin(), macros.end());
  m_elab.m_frames.push_back({e.head, frame, &f});
  m_elab.m_frame = static_cast<std::uint32_t>(m_elab.m_frames.size() - 1);
  ++m_elab.m_callDepth;
  const TermId result = term(def.value);
  --m_elab.m_callDepth;
  m_elab.m_frame = frame;
  m_macros.resize(macroCount);
  m_macrosBase = macrosBase;
  m_bindingsBase = bindingsBase;
  m_ast = caller;
  return result;
}

}  // namespace nf::lang
