// SPDX-License-Identifier: Apache-2.0
// Whole tensors, calls of functions, loops and repetitions.
#include <algorithm>

#include "core/lang/elaborator.h"
#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

// ---------------------------------------------------------------- whole values

std::optional<View> Elaborator::wholeTensor(const Ast& ast, ExprRef ref, const std::string& wish) {
  const auto value = wholeValue(ast, ref, wish);
  if (!value || value->kind == Entity::Kind::Poison) return std::nullopt;
  if (value->kind == Entity::Kind::Tensor) return value->view;
  report("not-a-tensor", "a tensor is needed here", ast[ref].span);
  return std::nullopt;
}

std::optional<Entity> Elaborator::wholeValue(const Ast& ast, ExprRef ref, const std::string& wish, std::optional<DType> type) {
  const Expr& e = ast[ref];
  Entity made;
  made.kind = Entity::Kind::Tensor;
  switch (e.kind) {
    case ExprKind::Error: return std::nullopt;
    case ExprKind::Name: {
      if (e.text == "training" || e.text == "true" || e.text == "false") break;
      Entity* entity = resolve(e.text, e.span);
      if (!entity || entity->kind == Entity::Kind::Poison) return std::nullopt;
      if (entity->within && entity->kind != Entity::Kind::Number) {
        reportWithin(e.text, e.span);
        return std::nullopt;
      }
      Entity value = *entity;
      value.within = nullptr;
      value.term = kNone;
      return value;
    }
    case ExprKind::Derivative: {
      const auto view = derivative(e);
      if (!view) return std::nullopt;
      made.view = *view;
      return made;
    }
    case ExprKind::Index: {
      if (!isSlice(ast, e)) break;
      const auto view = slice(ast, ref);
      if (!view) return std::nullopt;
      made.view = *view;
      return made;
    }
    case ExprKind::Call: {
      if (e.text == "grad") {
        const auto view = gradWithSeed(ast, e, wish);
        if (!view) return std::nullopt;
        made.view = *view;
        return made;
      }
      const Function* f = functionNamed(e.text);
      if (!f && isBuiltinFunction(e.text)) break;
      if (f && f->def->value != kNone) break;
      if (!f) {
        const Entity* other = lookup(e.text);
        if (other && other->kind != Entity::Kind::Poison) {
          report("not-a-function", "`" + std::string(e.text) + "` is no function: a tensor is read with `[ ]`", e.head);
          return std::nullopt;
        }
        reportUndefinedFunction(e);
        return std::nullopt;
      }
      const std::string name = wish.empty() ? callName(e.text) : wish;
      const auto results = expand(ast, e, name, {name});
      if (!results) return std::nullopt;
      if (results->size() != 1) {
        report("wrong-arity",
               "`" + std::string(e.text) + "` gives " + std::to_string(results->size()) + " results, one is needed here", e.span)
            .notes.push_back({f->signature, {}});
        return std::nullopt;
      }
      return (*results)[0];
    }
    default: break;
  }
  // Anything else: a number, or elementwise over whole tensors.
  const std::string base = m_nestedBase;
  const std::size_t errors = m_errors;
  Statement s(*this, ast);
  if (type == DType::F64) s.forceType(DType::F64);
  s.wholeOutput();
  const TermId root = s.term(ref);
  if (s.failed() || failedSince(errors)) return std::nullopt;
  if (const auto n = s.constantOf(root)) {
    made.kind = Entity::Kind::Number;
    made.number = *n;
    return made;
  }
  if (s.at(root).kind == Term::Kind::Index) {
    made.kind = Entity::Kind::Index;
    made.index = s.at(root).index;
    return made;
  }
  if (const auto view = s.bareView(root)) {
    made.view = *view;
    return made;
  }
  Statement::Wish target;
  target.tensor.local = wish.empty() ? callName("value") : wish;
  target.tensor.temporary = true;
  target.tensor.span = e.head;
  m_nestedBase = target.tensor.local;
  const TensorRef ref2 = s.emit(root, std::move(target), e.span);
  m_nestedBase = base;
  if (!ref2.valid()) return std::nullopt;
  made.view = wholeView(ref2);
  return made;
}

// X[_, t, _]: `_` keeps an axis, everything else fixes one.
std::optional<View> Elaborator::slice(const Ast& ast, ExprRef ref, Statement* within) {
  const Expr& e = ast[ref];
  const auto base = within ? within->tensorArgument(e.args[0]) : wholeTensor(ast, e.args[0], {});
  if (!base) return std::nullopt;
  const Tensor& t = tensorOf(base->tensor);
  const std::string name = t.name;
  const std::size_t full = t.shape.size(), rank = base->rankOf(t);
  const std::vector<std::int64_t> shape = t.shape;
  if (e.args.size() - 1 != rank) {
    report("rank-mismatch",
           "`" + name + "` has rank " + std::to_string(rank) + ", this slice has " + std::to_string(e.args.size() - 1) + " indices",
           e.span);
    return std::nullopt;
  }
  View view;
  view.tensor = base->tensor;
  view.fixed.resize(full);
  std::size_t next = 1;
  for (std::size_t k = 0; k < full; ++k) {
    if (k < base->fixed.size() && base->fixed[k]) {
      view.fixed[k] = base->fixed[k];
      continue;
    }
    const ExprRef at = e.args[next++];
    if (ast[at].kind == ExprKind::Hole) continue;
    const std::size_t errors = m_errors;
    Statement alone(*this, ast);
    Statement& s = within ? *within : alone;
    const TermIndex index = s.indexTerm(at);
    if (failedSince(errors) || s.failed()) return std::nullopt;
    if (index.data != kNoTerm) {
      report("non-affine-index", "a slice is taken at a number or a counter; gather with an index: `Y[i] = X[idx[i]]`",
             ast[at].span);
      return std::nullopt;
    }
    const auto range = bounds(index.affine, [this](IndexVar v) -> std::optional<Range> {
      if (v < kLoopVariable || v - kLoopVariable >= m_trips.size()) return std::nullopt;
      return Range{0, m_trips[v - kLoopVariable] - 1};
    });
    // At an index of the operator the bounds are proved where it is read.
    if (!range ? !within : range->lo < 0 || range->hi >= shape[k]) {
      report("index-out-of-bounds",
             "index `" + std::string(m_out.sources.text(ast[at].span)) + "` of `" + name + "`, axis " + std::to_string(k) +
                 ", runs over " + (range ? std::to_string(range->lo) + ".." + std::to_string(range->hi) : "an unknown range") +
                 ", valid is 0.." + std::to_string(shape[k] - 1),
             ast[at].span);
      return std::nullopt;
    }
    view.fixed[k] = index.affine;
  }
  return view;
}

View Elaborator::materialise(const View& view, const std::string& wish, Span span) {
  const bool sliced = std::any_of(view.fixed.begin(), view.fixed.end(), [](const auto& f) { return f.has_value(); });
  if (!sliced && view.tensor.level == level()) return wholeView(view.tensor);
  if (!sliced && level() > 0) {
    View inner;
    inner.tensor = {level(), import(view.tensor)};
    return inner;
  }
  // A copy: out[free axes] = T[free axes and fixed places].
  const Tensor& t = tensorOf(view.tensor);
  NewTensor made;
  made.local = wish;
  made.temporary = true;
  made.span = span;
  made.type = t.type;
  Operator op;
  std::vector<AccessIndex> at;
  for (std::size_t k = 0; k < t.shape.size(); ++k) {
    AccessIndex index;
    if (k < view.fixed.size() && view.fixed[k]) {
      index.affine = *view.fixed[k];
    } else {
      index.affine = IndexExpr::variable(static_cast<IndexVar>(op.axes.size()));
      made.shape.push_back(t.shape[k]);
      op.axes.push_back({"i" + std::to_string(op.axes.size()), t.shape[k], {}});
    }
    at.push_back(std::move(index));
  }
  for (Axis& axis : op.axes) made.axisNames.push_back(axis.name);
  const OriginId o = origin(span);
  for (Axis& axis : op.axes) axis.origin = o;
  const TensorId source = import(view.tensor);
  const TensorRef result = makeTensor(std::move(made));
  if (!result.valid()) return wholeView(view.tensor);
  op.outputRank = static_cast<std::uint32_t>(op.axes.size());
  op.body = program().load(source, std::move(at), o);
  op.output = result.id;
  op.name = program()[result.id].name;
  op.phase = m_phase;
  op.origin = o;
  program().addOperator(std::move(op));
  return wholeView(result);
}

// ---------------------------------------------------------------- derivatives

std::optional<View> Elaborator::derivative(const Expr& e) {
  const std::string written = "d(" + std::string(e.text) + ")/d(" + std::string(e.text2) + ")";
  // Defined in the text, as in a dump, or asked for before.
  if (lookup(written)) {
    const Entity* there = resolve(written, e.span);
    if (!there || there->kind != Entity::Kind::Tensor) return std::nullopt;
    return there->view;
  }
  Entity* of = resolve(e.text, e.span);
  if (!of || of->kind == Entity::Kind::Poison) return std::nullopt;
  const Entity ofCopy = *of;
  Entity* wrt = resolve(e.text2, e.span);
  if (!wrt || wrt->kind == Entity::Kind::Poison) return std::nullopt;
  for (const auto& [entity, text] :
       {std::pair<const Entity&, std::string_view>(ofCopy, e.text), std::pair<const Entity&, std::string_view>(*wrt, e.text2)}) {
    if (entity.kind != Entity::Kind::Tensor || !entity.view.fixed.empty()) {
      report("not-a-tensor", "derivatives are of tensors, `" + std::string(text) + "` is none", e.span);
      return std::nullopt;
    }
    if (!isFloating(typeOf(entity.view))) {
      report("not-differentiable", "`" + std::string(text) + "` holds integers: it has no derivative", e.span);
      return std::nullopt;
    }
  }
  const Tensor &ofTensor = tensorOf(ofCopy.view.tensor), &wrtTensor = tensorOf(wrt->view.tensor);
  if (!ofTensor.shape.empty()) {
    Diagnostic& d = report("not-scalar",
                           "`d(" + std::string(e.text) + ")/d(" + std::string(e.text2) + ")` needs a scalar, `" +
                               std::string(e.text) + "` is " + detailOf(ofTensor),
                           e.span);
    d.notes.push_back(
        {"`grad(" + std::string(e.text) + ", " + std::string(e.text2) + ", seed)` takes any tensor and a seed of its shape", {}});
    return std::nullopt;
  }
  const std::string full = "d(" + ofTensor.name + ")/d(" + wrtTensor.name + ")";
  const bool outside = ofCopy.view.tensor.level == 0 && wrt->view.tensor.level == 0;
  if (const auto made = m_fullNames.find(full); outside && made != m_fullNames.end()) {
    if (inNotebook(e.span)) m_out.references.push_back({e.span, made->second.id});
    return wholeView(made->second);
  }
  if (level() > 0) {
    report("derivative-in-loop", "a derivative is asked for outside of loops", e.span);
    return std::nullopt;
  }
  const TensorId ofId = ofCopy.view.tensor.id, wrtId = wrt->view.tensor.id;
  NewTensor t;
  t.local = full;
  t.temporary = true;
  t.span = e.span;
  t.type = program()[wrtId].type;
  t.shape = program()[wrtId].shape;
  t.axisNames = m_contexts[0]->axisNames[wrtId.value];
  const TensorRef result = makeTensor(std::move(t));
  if (!result.valid()) return std::nullopt;
  m_out.program.derivatives.push_back({ofId, wrtId, result.id, {}, origin(e.span)});
  if (inNotebook(e.span)) m_out.references.push_back({e.span, result.id});
  return wholeView(result);
}

std::optional<View> Elaborator::gradWithSeed(const Ast& ast, const Expr& e, const std::string& wish) {
  if (e.args.size() != 3 || !e.binders.empty()) {
    report("wrong-arity", "`grad` takes three tensors: `grad(Y, W, dY)`", e.span);
    return std::nullopt;
  }
  if (level() > 0) {
    report("derivative-in-loop", "a derivative is asked for outside of loops", e.span);
    return std::nullopt;
  }
  std::array<TensorRef, 3> refs;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto view = wholeTensor(ast, e.args[i], {});
    if (!view) return std::nullopt;
    if (i == 1 && !view->fixed.empty()) {
      report("not-a-tensor", "a derivative is with respect to a whole tensor", ast[e.args[i]].span);
      return std::nullopt;
    }
    refs[i] = materialise(*view, wish + ".arg", ast[e.args[i]].span).tensor;
    if (!isFloating(tensorOf(refs[i]).type)) {
      report("not-differentiable", "`" + tensorOf(refs[i]).name + "` holds integers: it has no derivative", ast[e.args[i]].span);
      return std::nullopt;
    }
  }
  if (tensorOf(refs[0]).shape != tensorOf(refs[2]).shape) {
    report("shape-mismatch",
           "the seed has the shape of `" + tensorOf(refs[0]).name + "`, " + detailOf(tensorOf(refs[0])) + "; this one is " +
               detailOf(tensorOf(refs[2])),
           ast[e.args[2]].span);
    return std::nullopt;
  }
  NewTensor t;
  t.local = wish.empty() ? fresh("d(" + tensorOf(refs[0]).name + ")/d(" + tensorOf(refs[1]).name + ")") : wish;
  t.temporary = true;
  t.span = e.span;
  t.type = tensorOf(refs[1]).type;
  t.shape = tensorOf(refs[1]).shape;
  t.axisNames = m_contexts[0]->axisNames[refs[1].id.value];
  const TensorRef result = makeTensor(std::move(t));
  if (!result.valid()) return std::nullopt;
  m_out.program.derivatives.push_back({refs[0].id, refs[1].id, result.id, refs[2].id, origin(e.span)});
  return wholeView(result);
}

std::string Elaborator::fresh(const std::string& wish) {
  std::string name = wish;
  for (int n = 2; context().names.contains(name); ++n) name = wish + "#" + std::to_string(n);
  return name;
}

// ---------------------------------------------------------------- calls

std::optional<std::vector<Entity>> Elaborator::expand(const Ast& ast, const Expr& call, const std::string& wish,
                                                      const std::vector<std::string>& resultNames) {
  const Function* f = functionNamed(call.text);
  if (!f) {
    reportUndefinedFunction(call);
    return std::nullopt;
  }
  if (f->symbol != kNone && inNotebook(call.head)) m_out.symbols[f->symbol].uses.push_back(call.head);
  const std::string base = m_nestedBase;
  m_nestedBase = wish;
  std::vector<Argument> arguments, options;
  bool good = true;
  for (const ExprRef a : call.args) {
    const auto value = wholeValue(ast, a, {});
    if (!value) good = false;
    else arguments.push_back({{}, *value, ast[a].span});
  }
  for (const Binder& b : call.binders) {
    const auto value = wholeValue(ast, b.value, {});
    if (!value) good = false;
    else options.push_back({std::string(b.name), *value, b.span});
  }
  m_nestedBase = base;
  if (!good) return std::nullopt;
  return expandWith(*f, arguments, options, call.head, wish, resultNames);
}

bool Elaborator::bindShape(const Function& f, const Parameter& p, const View& view, Span argument) {
  const std::vector<std::int64_t> shape = shapeOf(view);
  const std::string tensorName = tensorOf(view.tensor).name;
  std::size_t ellipsis = p.shape.size(), dims = p.shape.size();
  for (std::size_t i = 0; i < p.shape.size(); ++i)
    if ((*f.ast)[p.shape[i]].kind == ExprKind::Ellipsis) {
      ellipsis = i;
      --dims;
    }
  const bool open = ellipsis != p.shape.size();
  const std::string where = "parameter `" + std::string(p.name) + "` of `" + std::string(f.def->name) + "`";
  if (open ? shape.size() < dims : shape.size() != dims) {
    Diagnostic& d = report("rank-mismatch",
                           where + " has rank " + (open ? "at least " : "") + std::to_string(dims) + ", `" + tensorName +
                               "` has rank " + std::to_string(shape.size()),
                           argument);
    d.notes.push_back({f.signature, f.def->nameSpan});
    return false;
  }
  std::size_t axis = 0;
  for (std::size_t i = 0; i < p.shape.size(); ++i) {
    if (i == ellipsis) {
      View rest = view;
      // `...` in declarations of the body: the extents that stand here.
      std::vector<std::optional<IndexExpr>> fixed(tensorOf(view.tensor).shape.size());
      std::size_t freeAxis = 0;
      const std::size_t from = axis, to = axis + shape.size() - dims;
      for (std::size_t k = 0; k < fixed.size(); ++k) {
        if (k < view.fixed.size() && view.fixed[k]) {
          fixed[k] = view.fixed[k];
          continue;
        }
        if (freeAxis < from || freeAxis >= to) fixed[k] = IndexExpr(0);
        ++freeAxis;
      }
      rest.fixed = std::move(fixed);
      Entity e;
      e.kind = Entity::Kind::Tensor;
      e.view = rest;
      m_scope->names.emplace("...", std::move(e));
      axis = to;
      continue;
    }
    const Expr& e = (*f.ast)[p.shape[i]];
    const std::int64_t have = shape[axis];
    if (e.kind == ExprKind::Name && !m_scope->names.contains(std::string(e.text))) {
      Entity bound;
      bound.kind = Entity::Kind::Number;
      bound.number = Number::of(have);
      bound.definition = e.span;
      m_scope->names.emplace(std::string(e.text), std::move(bound));
    } else {
      const auto n = integer(*f.ast, p.shape[i], "an extent");
      if (!n) return false;
      if (*n != have) {
        Diagnostic& d = report("shape-mismatch",
                               where + " needs extent " + std::to_string(*n) + " on axis " + std::to_string(axis) + ", `" +
                                   tensorName + "` has " + std::to_string(have),
                               argument);
        d.notes.push_back({f.signature, f.def->nameSpan});
        return false;
      }
    }
    ++axis;
  }
  return true;
}

bool Elaborator::hasArity(const Function& f, std::size_t arguments, Span site) {
  const std::size_t wanted = f.def->parameters.size();
  if (arguments == wanted) return true;
  Diagnostic& d = report("wrong-arity",
                         "`" + std::string(f.def->name) + "` takes " + std::to_string(wanted) +
                             (wanted == 1 ? " argument" : " arguments") + ", here are " + std::to_string(arguments),
                         site);
  d.notes.push_back({f.signature, f.def->nameSpan});
  return false;
}

bool Elaborator::bindParameters(const Function& f, const std::vector<Argument>& arguments, const std::vector<Argument>& options,
                                Span site, Statement* within) {
  const Stmt& def = *f.def;
  Scope& into = *m_scope;
  if (!hasArity(f, arguments.size(), site)) return false;
  // Numbers first: a shape may name one, as in X[N, K] with K an argument.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& p = def.parameters[i];
    if (p.hasShape) continue;
    Entity e = arguments[i].entity;
    e.symbol = kNone;
    e.definition = p.span;
    into.names.insert_or_assign(std::string(p.name), std::move(e));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& p = def.parameters[i];
    if (!p.hasShape) continue;
    if (arguments[i].entity.kind != Entity::Kind::Tensor) {
      Diagnostic& d =
          report("not-a-tensor", "parameter `" + std::string(p.name) + "` of `" + std::string(def.name) + "` is a tensor",
                 arguments[i].span);
      d.notes.push_back({f.signature, def.nameSpan});
      return false;
    }
    if (!bindShape(f, p, arguments[i].entity.view, arguments[i].span)) return false;
    Entity e = arguments[i].entity;
    e.symbol = kNone;
    e.definition = p.span;
    into.names.insert_or_assign(std::string(p.name), std::move(e));
  }
  std::vector<bool> used(options.size(), false);
  for (std::size_t i = 0; i < def.optionCount; ++i) {
    const Binder& b = def.binders[i];
    bool given = false;
    for (std::size_t k = 0; k < options.size(); ++k) {
      if (options[k].name != b.name) continue;
      used[k] = given = true;
      Entity e = options[k].entity;
      e.symbol = kNone;
      e.definition = b.span;
      into.names.insert_or_assign(std::string(b.name), std::move(e));
    }
    if (given) continue;
    if (b.value == kNone) {
      report("missing-option", "`" + std::string(def.name) + "` needs `" + std::string(b.name) + "=`", site)
          .notes.push_back({f.signature, def.nameSpan});
      return false;
    }
    const bool whole = !within || f.whole[def.parameters.size() + i];
    const auto value = whole ? wholeValue(*f.ast, b.value, {}) : within->termArgument(b.value);
    if (!value) return false;
    Entity e = *value;
    e.definition = b.span;
    into.names.insert_or_assign(std::string(b.name), std::move(e));
  }
  for (std::size_t k = 0; k < options.size(); ++k)
    if (!used[k]) {
      report("unknown-option", "`" + std::string(def.name) + "` has no option `" + options[k].name + "`", options[k].span)
          .notes.push_back({f.signature, def.nameSpan});
      return false;
    }
  return true;
}

std::optional<std::vector<Entity>> Elaborator::expandWith(const Function& f, const std::vector<Argument>& arguments,
                                                          const std::vector<Argument>& options, Span site, const std::string& wish,
                                                          const std::vector<std::string>& resultNames) {
  constexpr std::uint32_t kMostNested = 64;
  const Stmt& def = *f.def;
  if (m_callDepth >= kMostNested) {
    report("recursive-function", "`" + std::string(def.name) + "` calls itself: functions are expanded, so they can't", site);
    return std::nullopt;
  }
  Scope scope;
  scope.kind = Scope::Kind::Function;
  scope.parent = f.standard ? nullptr : &m_global;
  scope.prefix = wish + ".";
  if (resultNames.size() == def.results.size())
    for (std::size_t i = 0; i < resultNames.size(); ++i) scope.results[std::string(def.results[i].name)] = resultNames[i];
  Scope* caller = m_scope;
  const std::uint32_t frame = m_frame;
  const std::string base = m_nestedBase;
  const std::vector<std::string> defining = m_defining;
  open(std::move(scope));
  ++m_callDepth;
  std::optional<std::vector<Entity>> results;
  const std::size_t errors = m_errors;
  const bool refused = m_refused;
  if (bindParameters(f, arguments, options, site)) {
    m_frames.push_back({site, frame, &f});
    m_frame = static_cast<std::uint32_t>(m_frames.size() - 1);
    statements(*f.ast, def.body);
    m_refused = refused;
    results.emplace();
    for (const Binder& r : def.results) {
      Entity* e = lookup(r.name);
      if (e && e->kind == Entity::Kind::LastOf) e = resolve(r.name, r.span);
      if (!e || (e->kind != Entity::Kind::Tensor && e->kind != Entity::Kind::Poison)) {
        if (!failedSince(errors))
          report("missing-result", "`" + std::string(def.name) + "` does not define its result `" + std::string(r.name) + "`",
                 r.span);
        break;
      }
      Entity copy = *e;
      copy.symbol = kNone;
      results->push_back(std::move(copy));
    }
    m_frame = frame;
  }
  --m_callDepth;
  m_nestedBase = base;
  m_defining = defining;
  close();
  m_scope = caller;
  if (failedSince(errors) || !results || results->size() != def.results.size()) return std::nullopt;
  return results;
}

void Elaborator::callAlone(const Ast& ast, const Stmt& s) {
  const Expr& e = ast[s.values[0]];
  if (e.kind != ExprKind::Call) return;
  const Function* f = functionNamed(e.text);
  if (!f) {
    if (isBuiltinFunction(e.text)) {
      report(
          "no-effect",
          "the result of `" + std::string(e.text) + "` is not used: name it, `Y = " + std::string(m_out.sources.text(e.span)) + "`",
          e.span);
      return;
    }
    const std::size_t told = m_out.diagnostics.size();
    wholeValue(ast, s.values[0], {});
    if (m_out.diagnostics.size() > told && m_out.diagnostics[told].code == "undefined-function" && !e.args.empty())
      m_out.diagnostics[told].notes.push_back(
          {"a value is shown with `show " + std::string(m_out.sources.text(ast[e.args[0]].span)) + "`", {}});
    return;
  }
  if (!f->def->results.empty() || f->def->value != kNone) {
    Diagnostic& d = report("no-effect", "the result of `" + std::string(e.text) + "` is not used", e.span);
    d.fixes.push_back({"name it", {e.span.source, e.span.begin, e.span.begin}, "Y = "});
    return;
  }
  expand(ast, e, callName(e.text), {});
}

// ---------------------------------------------------------------- repeat

namespace {

void assignedNames(const Ast& ast, const std::vector<StmtRef>& body, std::vector<std::string>& names) {
  for (const StmtRef ref : body) {
    const Stmt& s = ast.stmts[ref];
    if (s.kind == StmtKind::Assign && s.assign != AssignOp::Update)
      for (const Target& t : s.targets) {
        const std::string name(t.name);
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    if (s.kind == StmtKind::For || s.kind == StmtKind::Repeat || s.kind == StmtKind::If) assignedNames(ast, s.body, names);
    if (s.kind == StmtKind::If) assignedNames(ast, s.otherwise, names);
  }
}

}  // namespace

void Elaborator::repeat(const Ast& ast, const Stmt& s) {
  std::int64_t from = 0;
  if (s.values.size() == 2) {
    const auto low = integer(ast, s.values[0], "the start of the repetition", true);
    if (!low) return;
    from = *low;
  }
  const auto to = integer(ast, s.values.back(), "the end of the repetition", true);
  if (!to) return;
  constexpr std::int64_t kMost = 10000, kMostNested = 400000;
  if (*to - from > kMost || *to < from) {
    report("bad-range",
           *to < from ? "this range ends before it starts"
                      : "`repeat` unrolls: " + std::to_string(*to - from) + " copies are too many",
           ast[s.values.back()].span);
    return;
  }
  if (const std::int64_t around = std::max<std::int64_t>(m_copies, 1); (*to - from) * around > kMostNested) {
    report("too-large",
           "`repeat` unrolls: with the repetitions around it these are " + std::to_string((*to - from) * around) +
               " copies, more than " + std::to_string(kMostNested),
           s.span);
    return;
  }
  std::vector<std::string> assigned;
  assignedNames(ast, s.body, assigned);
  const std::int64_t around = m_copies;
  m_copies = std::max<std::int64_t>(m_copies, 1) * std::max<std::int64_t>(*to - from, 1);
  for (std::int64_t i = from; i < *to && spend(s.span); ++i) {
    Scope scope;
    scope.kind = Scope::Kind::Repeat;
    scope.parent = m_scope;
    scope.suffix = "." + std::to_string(i);
    for (const std::string& name : assigned) {
      const Entity* e = lookup(name);
      if (e && (e->kind == Entity::Kind::Tensor || e->kind == Entity::Kind::LastOf)) scope.rebinds.insert(name);
    }
    Scope* outer = m_scope;
    Scope& inner = open(std::move(scope));
    if (!s.name.empty()) {
      Entity counter;
      counter.kind = Entity::Kind::Number;
      counter.number = Number::of(i);
      counter.definition = s.nameSpan;
      inner.names.emplace(std::string(s.name), std::move(counter));
    }
    const std::size_t errors = m_errors;
    statements(ast, s.body);
    const auto rebound = std::move(inner.rebinds);
    close();
    m_scope = outer;
    if (failedSince(errors)) break;
    if (i + 1 == *to)
      for (const std::string& name : rebound) nameLast(name);
  }
  m_copies = around;
}

// `Y.2` becomes `Y` where no tensor is called so; the index still finds it.
void Elaborator::nameLast(const std::string& name) {
  const Entity* last = lookup(name);
  if (!last || last->kind != Entity::Kind::Tensor || !last->view.fixed.empty() || last->view.tensor.level != level()) return;
  const TensorId id = last->view.tensor.id;
  Tensor& t = program().tensors[id.value];
  const std::string full = fullName(name);
  if (t.kind != TensorKind::Intermediate || !t.name.starts_with(full + ".") || !context().names.insert(full).second) return;
  const std::string before = std::exchange(t.name, full);
  for (Operator& op : program().operators)
    if (op.output == id && op.name == before) op.name = full;
  if (level() == 0) m_fullNames.emplace(full, TensorRef{0, id});
}

// ---------------------------------------------------------------- if

std::optional<bool> Elaborator::constantCondition(const Ast& ast, ExprRef e, const std::string& word) {
  const std::size_t errors = m_errors;
  Statement condition(*this, ast);
  const Term& t = condition.at(condition.term(e));
  if (t.kind == Term::Kind::Truth) return t.truth;
  if (!failedSince(errors) && t.kind != Term::Kind::Error)
    report("not-a-constant",
           "`" + word + "` takes a condition known while compiling; between numbers choose with `select(c, a, b)`", ast[e].span);
  return std::nullopt;
}

// The other block does not exist.
void Elaborator::conditional(const Ast& ast, const Stmt& s) {
  const auto condition = constantCondition(ast, s.values[0], "if");
  if (condition) statements(ast, *condition ? s.body : s.otherwise);
}

// In a function it is the call that is at fault.
void Elaborator::require(const Ast& ast, const Stmt& s) {
  const ExprRef condition = s.values[0];
  const auto holds = constantCondition(ast, condition, "require");
  if (!holds || *holds) return;
  std::string message = s.value != kNone ? std::string(ast[s.value].text)
                                         : "`" + std::string(m_out.sources.text(ast[condition].span)) + "` does not hold";
  std::vector<std::string_view> named;
  std::vector<ExprRef> stack{condition};
  while (!stack.empty()) {
    const Expr& e = ast[stack.back()];
    stack.pop_back();
    stack.insert(stack.end(), e.args.rbegin(), e.args.rend());
    if (e.kind != ExprKind::Name || std::find(named.begin(), named.end(), e.text) != named.end()) continue;
    const Entity* entity = lookup(e.text);
    if (!entity || entity->kind != Entity::Kind::Number) continue;
    const Number& n = entity->number;
    message +=
        (named.empty() ? ": " : ", ") + std::string(e.text) + " = " + (n.isInteger ? std::to_string(n.integer) : printReal(n.real));
    named.push_back(e.text);
  }
  if (m_frame == 0) {
    report("requirement", std::move(message), ast[condition].span);
    return;
  }
  m_refused = true;
  const std::uint32_t frame = m_frame;
  const Frame call = m_frames[frame];
  if (call.function) message = "`" + std::string(call.function->def->name) + "`: " + message;
  m_frame = call.parent;
  report("requirement", std::move(message), call.site).notes.push_back({"it is required here", ast[condition].span});
  m_frame = frame;
}

// ---------------------------------------------------------------- for

void Elaborator::forLoop(const Ast& ast, const Stmt& s) {
  const auto from = integer(ast, s.values[0], "the start of the loop", true),
             to = integer(ast, s.values[1], "the end of the loop", true);
  if (!from || !to) return;
  if (*to <= *from) {
    report("zero-extent", "this loop never runs: " + std::to_string(*from) + ".." + std::to_string(*to) + " is empty",
           cover(ast[s.values[0]].span, ast[s.values[1]].span));
    return;
  }
  constexpr std::uint32_t kMostNested = 32;
  if (level() >= kMostNested) {
    report("too-deep", "loops are nested more than " + std::to_string(kMostNested) + " levels deep", s.span);
    return;
  }
  if (const Entity* hidden = lookup(s.name); hidden && hidden->kind != Entity::Kind::Poison) {
    report("shadowing",
           "the counter `" + std::string(s.name) + "` would hide the " +
               (hidden->kind == Entity::Kind::Tensor ? "tensor" : "number") + " of that name",
           s.nameSpan)
        .notes.push_back({"`" + std::string(s.name) + "` is named here", hidden->definition});
    return;
  }
  Loop loop;
  loop.counter = s.name;
  loop.trips = *to - *from;
  loop.reversed = s.reversed;
  loop.depth = level();
  // What the body assigns and the outside knows is carried.
  std::vector<std::string> assigned, carried;
  assignedNames(ast, s.body, assigned);
  std::vector<TensorRef> initial;
  for (const std::string& name : assigned) {
    Entity* e = lookup(name);
    if (!e || (e->kind != Entity::Kind::Tensor && e->kind != Entity::Kind::LastOf)) continue;
    e = resolve(name, s.nameSpan);
    const View view = materialise(e->view, callName(name + ".start"), s.span);
    TensorRef ref = view.tensor;
    if (ref.level != level()) ref = {level(), import(ref)};
    carried.push_back(name);
    initial.push_back(ref);
  }
  auto context = std::make_unique<Context>();
  auto body = std::make_shared<Program>();
  context->program = body.get();
  const std::uint32_t outerLevel = level();
  Scope scope;
  scope.kind = Scope::Kind::Loop;
  scope.parent = m_scope;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const Tensor& outer = program()[initial[i].id];
    Tensor t;
    t.name = carried[i];
    context->names.insert(t.name);
    t.kind = TensorKind::Input;
    t.type = outer.type;
    t.shape = outer.shape;
    const OriginId o = outer.origin;
    if (o.valid()) t.origin = originIn(*context, program().origins[o.value].span, 0);
    const TensorId inner = body->addTensor(std::move(t));
    context->axisNames.resize(body->tensors.size());
    loop.carried.push_back({initial[i].id, inner, inner, {}});
    Entity e;
    e.kind = Entity::Kind::Tensor;
    e.view = wholeView({outerLevel + 1, inner});
    e.definition = lookup(carried[i])->definition;
    e.symbol = lookup(carried[i])->symbol;
    scope.names.emplace(carried[i], std::move(e));
    scope.rebinds.insert(carried[i]);
  }
  Entity counter;
  counter.kind = Entity::Kind::Index;
  counter.index = IndexExpr::variable(kLoopVariable + outerLevel) + IndexExpr(*from);
  counter.definition = s.nameSpan;
  scope.names.emplace(std::string(s.name), std::move(counter));
  Scope* outer = m_scope;
  const std::size_t errors = m_errors;
  m_contexts.push_back(std::move(context));
  m_trips.push_back(loop.trips);
  open(std::move(scope));
  for (const Binder& b : s.binders) {
    Entity* e = resolve(b.name, b.span);
    if (e && e->kind == Entity::Kind::Tensor) import(e->view.tensor);
  }
  statements(ast, s.body);
  for (std::size_t i = 0; i < carried.size() && !failedSince(errors); ++i) {
    Entity* e = lookup(carried[i]);
    if (e->kind == Entity::Kind::LastOf) e = resolve(carried[i], s.nameSpan);
    const Tensor& in = (*body)[loop.carried[i].innerIn];
    const std::vector<std::int64_t> shape = in.shape;
    const DType type = in.type;
    const View view = materialise(e->view, carried[i], s.span);
    TensorRef last = view.tensor;
    if (last.level != level()) last = {level(), import(last)};
    const Tensor& out = (*body)[last.id];
    if (out.shape != shape || out.type != type) {
      Tensor before;
      before.shape = shape;
      before.type = type;
      Diagnostic& d = report(
          "shape-mismatch",
          "`" + carried[i] + "` is carried from step to step as " + detailOf(before) + ", the body makes it " + detailOf(out),
          s.nameSpan);
      if (out.type != type)
        d.notes.push_back({"make both of one type: start it as `" + carried[i] + (shape.empty() ? "" : "[...]") + " : " +
                               std::string(nf::name(out.type)) + " = ...`, or write `" + std::string(nf::name(type)) +
                               "(...)` around its new value",
                           lookup(carried[i])->definition});
      else d.notes.push_back({"what a step hands on has the shape of what it took", lookup(carried[i])->definition});
      break;
    }
    loop.carried[i].innerOut = last.id;
  }
  loop.invariants = m_contexts.back()->invariants;
  const std::unique_ptr<Context> inside = std::move(m_contexts.back());
  close();
  m_scope = outer;
  m_trips.pop_back();
  m_contexts.pop_back();
  if (failedSince(errors)) {
    for (const Collected& c : inside->collected) poison(c.name, c.span);
    return;
  }
  std::vector<TensorId> made;
  for (const Collected& c : inside->collected) {
    made.push_back(collected(c, *inside, loop.trips));
    if (c.stacks) loop.stacked.push_back({c.inner, made.back()});
    else loop.accumulated.push_back({c.inner, made.back()});
  }
  body->stage = Stage::Source;
  loop.body = std::move(body);
  if (carried.empty() && made.empty()) {
    report("no-effect", "this loop carries nothing and collects nothing", s.nameSpan)
        .notes.push_back({"name a tensor before the loop and define it again inside, or `stack Hs = h`", {}});
    return;
  }
  Program& p = program();
  p.loops.push_back(std::move(loop));
  const LoopId id(p.loops.size() - 1);
  Operator op;
  op.kind = OperatorKind::Loop;
  op.loop = id;
  op.phase = m_phase;
  op.origin = origin(s.span);
  op.name = fullName(carried.empty() ? inside->collected[0].name : carried[0]);
  p.addOperator(std::move(op));
  for (std::size_t i = 0; i < carried.size(); ++i) {
    Entity last;
    last.kind = Entity::Kind::LastOf;
    last.loop = id.value;
    last.carried = static_cast<std::uint32_t>(i);
    last.level = level();
    Entity* before = lookup(carried[i]);
    last.definition = before->definition;
    last.symbol = before->symbol;
    if (m_scope->kind == Scope::Kind::Repeat && m_scope->rebinds.contains(carried[i])) {
      bind(carried[i], std::move(last));
      continue;
    }
    noteMeaning(last);
    m_scope->names[carried[i]] = std::move(last);
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    Entity e;
    e.kind = Entity::Kind::Tensor;
    e.view = wholeView({level(), made[i]});
    declare(inside->collected[i].name, inside->collected[i].span, std::move(e), Symbol::Kind::Tensor);
  }
}

TensorId Elaborator::collected(const Collected& c, const Context& body, std::int64_t trips) {
  const Tensor& inner = (*body.program)[c.inner];
  Tensor t;
  t.name = level() == 0 ? fullName(c.name) : c.name;
  const std::string wish = t.name;
  for (int n = 2; !context().names.insert(t.name).second; ++n) t.name = wish + "#" + std::to_string(n);
  t.type = c.type.value_or(inner.type);
  t.shape = inner.shape;
  t.layout.order = c.layout;
  if (c.stacks) t.shape.insert(t.shape.begin(), trips);
  t.origin = origin(c.span);
  std::vector<std::string> names = body.axisNames[c.inner.value];
  if (c.stacks) names.insert(names.begin(), std::string());
  const TensorId id = program().addTensor(std::move(t));
  context().axisNames.resize(program().tensors.size());
  context().axisNames[id.value] = std::move(names);
  if (level() == 0) m_fullNames.emplace(program()[id].name, TensorRef{0, id});
  return id;
}

// stack Hs = h, accumulate G = x: tensors of the program around.
void Elaborator::collect(const Ast& ast, const Stmt& s) {
  const bool stacks = s.kind == StmtKind::Stack;
  if (m_scope->kind != Scope::Kind::Loop) {
    report("misplaced-statement", std::string(stacks ? "`stack`" : "`accumulate`") + " stands directly in a `for`", s.span);
    return;
  }
  const std::string name(s.name);
  const Target& target = s.targets[0];
  const auto& sofar = context().collected;
  const auto twice = std::find_if(sofar.begin(), sofar.end(), [&](const Collected& c) { return c.name == name; });
  const Entity* taken = lookup(name);
  if (twice != sofar.end() || (taken && taken->kind != Entity::Kind::Poison)) {
    report("redefinition", "`" + name + "` is defined already", s.nameSpan)
        .notes.push_back({"it was defined here", twice != sofar.end() ? twice->span : taken->definition});
    return;
  }
  m_nestedBase = name;
  const auto view = wholeTensor(ast, s.values[0], context().names.contains(name) ? name + ".step" : fresh(name + ".step"));
  if (!view) return;
  TensorRef inner = materialise(*view, fresh(name + ".step"), s.span).tensor;
  if (inner.level != level()) inner = {level(), import(inner)};
  context().collected.push_back({name, s.nameSpan, stacks, inner.id, target.type, target.layout});
}

}  // namespace nf::lang
