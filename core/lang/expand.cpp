// SPDX-License-Identifier: Apache-2.0
// Whole tensors and calls of functions.
#include <algorithm>

#include "core/lang/elaborator.h"
#include "core/lang/spelling.h"
#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

namespace {
constexpr const char* kDerivativeInLoop =
    "a derivative cannot be asked for inside a loop: behind it, `d(L)/d(W)` goes back through all its steps";
}  // namespace

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
  noteSlice(ast[e.args[0]].span, e.span, base->tensor);
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
  view.passed = base->passed;
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
    const Entity* there = resolve(written, e.span, false);
    if (!there || there->kind != Entity::Kind::Tensor) return std::nullopt;
    noteReference(e.span, *there);
    return there->view;
  }
  Entity* of = resolve(e.text, e.span, false);
  if (!of || of->kind == Entity::Kind::Poison) return std::nullopt;
  const Entity ofCopy = *of;
  Entity* wrt = resolve(e.text2, e.span, false);
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
    if (inNotebook(e.span)) m_out.references.push_back({e.span, made->second.id, {}});
    return wholeView(made->second);
  }
  if (level() > 0) {
    report("derivative-in-loop", kDerivativeInLoop, e.span);
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
  if (inNotebook(e.span)) m_out.references.push_back({e.span, result.id, {}});
  return wholeView(result);
}

std::optional<View> Elaborator::gradWithSeed(const Ast& ast, const Expr& e, const std::string& wish) {
  if (e.args.size() != 3 || !e.binders.empty()) {
    report("wrong-arity", "`grad` takes three tensors: `grad(Y, W, dY)`", e.span);
    return std::nullopt;
  }
  if (level() > 0) {
    report("derivative-in-loop", kDerivativeInLoop, e.span);
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

std::string Elaborator::fresh(const std::string& wish) { return context().names.free(wish); }

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
  auto results = expandWith(*f, arguments, options, call.head, wish, resultNames);
  if (results && !results->empty()) noteReference(call.head, results->front());
  return results;
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

bool Elaborator::hasArity(const Function& f, std::size_t arguments, std::span<const std::string> options, Span site) {
  const std::size_t wanted = f.def->parameters.size();
  if (arguments == wanted) return true;
  Diagnostic& d =
      report("wrong-arity",
             "`" + std::string(f.def->name) + "` takes " + std::to_string(wanted) + (wanted == 1 ? " argument" : " arguments") +
                 (arguments == 1 ? ", here is " : ", here are ") + std::to_string(arguments),
             site);
  for (const std::string& option : options)
    for (const auto& parameter : f.def->parameters)
      if (parameter.name == option)
        d.notes.push_back({"`" + option + "` is an argument: its value stands in its place, without its name", site});
  d.notes.push_back({f.signature, f.def->nameSpan});
  return false;
}

bool Elaborator::bindParameters(const Function& f, const std::vector<Argument>& arguments, const std::vector<Argument>& options,
                                Span site, Statement* within) {
  const Stmt& def = *f.def;
  Scope& into = *m_scope;
  std::vector<std::string> named;
  for (const Argument& option : options) named.push_back(option.name);
  if (!hasArity(f, arguments.size(), named, site)) return false;
  // The frame of this call is the next one.
  const auto pass = [&](Entity& e, const Argument& argument, const Parameter& p) {
    if (e.kind == Entity::Kind::Tensor) e.view.passed.push_back({argument.span, m_frame});
    const Passed parameter{p.span, static_cast<std::uint32_t>(m_frames.size())};
    if (e.kind == Entity::Kind::Tensor) e.view.passed.push_back(parameter);
    if (within && e.term != kNone) within->passThrough(e.term, parameter);
  };
  // Numbers first: a shape may name one, as in X[N, K] with K an argument.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& p = def.parameters[i];
    if (p.hasShape) continue;
    Entity e = arguments[i].entity;
    pass(e, arguments[i], p);
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
    pass(e, arguments[i], p);
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
      Diagnostic& d =
          report("unknown-option", "`" + std::string(def.name) + "` has no option `" + options[k].name + "`", options[k].span);
      d.notes.push_back({f.signature, def.nameSpan});
      std::vector<std::string> known;
      for (std::size_t i = 0; i < def.optionCount; ++i) known.emplace_back(def.binders[i].name);
      suggest(d, options[k].name, known, options[k].span);
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
  // What the rest of its text makes is not what was meant; the rest is read for its own mistakes.
  const bool misread = !f.standard && m_misread.contains(def.span.begin);
  if (misread && m_poisonMet.empty()) m_poisonMet = def.name;
  if (bindParameters(f, arguments, options, site)) {
    m_frames.push_back({site, frame, &f});
    m_frame = static_cast<std::uint32_t>(m_frames.size() - 1);
    statements(*f.ast, def.body);
    m_refused = refused;
    results.emplace();
    for (const Binder& r : def.results) {
      Entity* e = lookup(r.name);
      if (e && e->kind == Entity::Kind::LastOf) e = resolve(r.name, r.span, false);
      if (!e || (e->kind != Entity::Kind::Tensor && e->kind != Entity::Kind::Poison)) {
        if (!failedSince(errors) && !misread)
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
  if (misread || failedSince(errors) || !results || results->size() != def.results.size()) return std::nullopt;
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
    if (m_out.diagnostics.size() > told && m_out.diagnostics[told].code == "undefined-function" && !e.args.empty()) {
      const Expr& shown = ast[e.args[0]];
      const std::string text(m_out.sources.text(shown.span));
      m_out.diagnostics[told].notes.push_back({shown.kind == ExprKind::Name
                                                   ? "a value is shown with `show " + text + "`"
                                                   : "a value is shown by its name: `V = " + text + "`, `show V`",
                                               {}});
    }
    return;
  }
  if (!f->def->results.empty() || f->def->value != kNone) {
    Diagnostic& d = report("no-effect", "the result of `" + std::string(e.text) + "` is not used", e.span);
    d.fixes.push_back({"name it", {e.span.source, e.span.begin, e.span.begin}, "Y = "});
    return;
  }
  expand(ast, e, callName(e.text), {});
}

}  // namespace nf::lang
