// SPDX-License-Identifier: Apache-2.0
// Names and accesses as terms.
#include <algorithm>
#include <cctype>

#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

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
      const bool counter = hidden->kind == Entity::Kind::Index;
      Diagnostic& d =
          report("shadowing",
                 "index `" + std::string(e.text) + "` would hide the " + (counter ? "counter of the loop" : "number of that name"),
                 e.span);
      d.notes.push_back({"`" + std::string(e.text) + "` is named here" + (counter ? "" : ": one of the two takes another name"),
                         hidden->definition});
      if (counter) d.notes.push_back({"an index runs by itself: what is computed for each element needs no `for`", {}});
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
    const auto taken = std::find_if(m_macros.begin() + static_cast<std::ptrdiff_t>(m_macrosBase), m_macros.end(),
                                    [&](const Macro& m) { return m.name == binders[i].name; });
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
    if (e.text == "training") m_elab.m_out.readsTraining = true;
    if (e.text == "training" && m_elab.inNotebook(e.span)) m_elab.m_asksForTraining = true;
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
  if (!entity && !m_elab.m_laterNames.contains(std::string(e.text)) && (!m_outputs.empty() || m_scatters) &&
      !m_elab.functionNamed(e.text) && e.text.find('.') == std::string_view::npos) {
    if (indexOfCaller(e)) return error(e.span);
    const std::string name(e.text);
    if (const auto functions = builtinFunctions(); std::ranges::binary_search(functions, name)) {
      report("function-as-value", "`" + name + "` is a function: call it, " + name + "(x)", e.span);
      return error(e.span);
    }
    Diagnostic& d =
        report("undefined-name", "`" + name + "` is not defined: it is no tensor, number or index of this statement", e.span);
    const auto ended =
        std::find_if(m_variables.begin(), m_variables.end(), [&](const Variable& v) { return v.reduced && v.name == e.text; });
    if (m_elab.noteUncarried(e.text, d)) return error(e.span);
    if (ended != m_variables.end())
      d.notes.push_back(
          {"the reduction over `" + name + "` ends before this: parentheses take in all of a sum, `sum[" + name + "] (... + ...)`",
           ended->span});
    else
      d.notes.push_back({"as an index it stands on the left, or in a reduction: `sum[" + name + (m_scatters ? ": N" : "") +
                             "] ...`" + (m_scatters ? ", or all are listed: `scatter[" + name + ": N, ...]`" : ""),
                         {}});
    std::vector<std::string> indices;
    for (std::size_t i = m_bindingsBase; i < m_bindings.size(); ++i) indices.emplace_back(m_bindings[i].name);
    for (const std::string& near : m_elab.suggestions(e.text, std::move(indices)))
      d.fixes.push_back({"write `" + near + "`", e.span, near});
    return error(e.span);
  }
  entity = m_elab.resolve(e.text, e.span);
  if (!entity) return error(e.span);
  return entityTerm(*entity, e);
}

void Statement::passThrough(TermId argument, const Passed& place) {
  std::vector<Passed>& passed = m_terms[argument].passed;
  if (std::ranges::find(passed, place) == passed.end()) passed.push_back(place);
}

TermId Statement::entityTerm(Entity& entity, const Expr& e) {
  if (entity.within == this && entity.term != kNone) {
    if (m_elab.m_frame != 0) passThrough(entity.term, {e.span, m_elab.m_frame});
    return entity.term;
  }
  if (entity.within && entity.within != this && entity.kind != Entity::Kind::Number) {
    m_elab.reportWithin(e.text, e.span);
    return error(e.span);
  }
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
    case Entity::Kind::Term: break;
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
    t.passed = view.passed;
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
  if (m_numberFor) {
    Diagnostic& d =
        report("not-a-constant", *m_numberFor + " must be a number known while compiling, `" + name + "` is a tensor", e.span);
    if (!m_counts) return error(e.span);
    const std::vector<std::string> extents = m_elab.extentTexts(e.text, m_elab.tensorOf(view.tensor));
    std::string list;
    bool named = true;
    for (const std::string& extent : extents) {
      list += (list.empty() ? "" : ", ") + extent;
      named = named && !std::isdigit(static_cast<unsigned char>(extent[0]));
    }
    d.notes.push_back({"`" + name + (rank == 1 ? "` has the extent " + list : "` has the extents [" + list + "]") +
                           (named ? "" : ": one that several places share is given a name, as in `let N = 4` and `input A[N]`"),
                       {}});
    if (extents.size() == 1) d.fixes.push_back({"write `" + extents[0] + "`", e.span, extents[0]});
    return error(e.span);
  }
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
    if (entity->within && entity->within != this && entity->kind == Entity::Kind::Tensor) {
      m_elab.reportWithin(base.text, base.span);
      return error(e.span);
    }
    if (entity->kind != Entity::Kind::Tensor) {
      report("not-a-tensor",
             "`" + std::string(base.text) + "` is " + (entity->kind == Entity::Kind::Data ? "a data set" : "a number") +
                 ", no tensor: it has no indices",
             e.span);
      return error(e.span);
    }
    view = entity->view;
  } else if (base.kind == ExprKind::Call) {
    const auto value = wholeCall(e.args[0]);
    if (value && value->kind == Entity::Kind::Tensor) view = value->view;
    else if (value && value->kind != Entity::Kind::Poison) report("not-a-tensor", "a tensor is needed here", base.span);
  } else if (base.kind == ExprKind::Derivative || base.kind == ExprKind::Index) {
    view = m_elab.wholeTensor(*m_ast, e.args[0], {});
  } else if (base.kind == ExprKind::Else) {
    const Span read{e.span.source, (*m_ast)[base.args[1]].span.begin, e.span.end};
    Diagnostic& d = report("else-atom", "`else` takes one number, name or parenthesis: an access needs parentheses there", read);
    d.fixes.push_back({"add parentheses", read, "(" + textOf(read) + ")"});
  } else if (base.kind != ExprKind::Error) {
    report("not-a-tensor", "only a tensor can be indexed", base.span);
  }
  if (!view) return error(e.span);
  const bool slices = isSlice(*m_ast, e);
  if (slices && m_whole && m_openGroups.size() == 1 && otherwise == kNoTerm) {
    const auto sliced = m_elab.slice(*m_ast, static_cast<ExprRef>(&e - m_ast->exprs.data()));
    return sliced ? bareTensor(*sliced, e) : error(e.span);
  }
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
  } else if (!t.readsData && (t.soft || !isInteger(t.type))) {
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
  } else if (!isInteger(t.type) || t.soft) {
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
      report("bad-slice",
             "`_` makes a slice, and a slice stands where a whole tensor may: an argument, `show`, a statement without indices",
             e.span)
          .notes.push_back({"write an index in its place", {}});
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
  t.passed = view.passed;
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

}  // namespace nf::lang
