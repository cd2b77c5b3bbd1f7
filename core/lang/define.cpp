// SPDX-License-Identifier: Apache-2.0
// What gives a tensor its value: definitions, updates, scatters, losses; and what is asked of tensors: show, hint.
#include "core/lang/elaborator.h"

#include <algorithm>
#include <map>

#include "core/ir/structural_hash.h"
#include "core/lang/statement.h"
#include "core/syntax/derivative_name.h"
#include "core/syntax/schedule_text.h"

namespace nf::lang {

using namespace ast;

// In a function the name of what another one makes is where that is made, too.
void Elaborator::noteName(const Entity& entity, Span name) {
  if (m_frame == 0 || !inNotebook(name) || entity.kind != Entity::Kind::Tensor || !entity.view.tensor.valid()) return;
  Context& context = *m_contexts[entity.view.tensor.level];
  Program& p = *context.program;
  const OriginId made = p[entity.view.tensor.id].origin;
  if (!made.valid() || p[made].pass != "expand" || p[made].span == name) return;
  const OriginId named = originIn(context, name, m_frame);
  Origin both = p[made];
  both.parents.push_back(named);
  p.tensors[entity.view.tensor.id.value].origin = p.addOrigin(std::move(both));
}

bool Elaborator::bindTarget(const Target& target, Entity entity, Symbol::Kind kind) {
  noteName(entity, target.nameSpan);
  return declare(target.name, target.nameSpan, std::move(entity), kind);
}

void Elaborator::assignment(const Ast& ast, const Stmt& s) {
  if (s.assign == AssignOp::Update) return update(ast, s);
  if (s.assign == AssignOp::Scatter) return scatter(ast, s);
  if (s.targets.size() == 1 && s.values.size() == 1) {
    if (s.targets[0].hasIndices) return define(ast, s, s.targets[0], s.values[0]);
    return defineWhole(ast, s, s.targets[0], s.values[0]);
  }
  for (auto t = s.targets.begin(); t != s.targets.end(); ++t) {
    const auto twice = std::find_if(s.targets.begin(), t, [&](const Target& other) { return other.name == t->name; });
    if (twice == t) continue;
    report("redefinition", "this statement names `" + std::string(t->name) + "` twice", t->nameSpan)
        .notes.push_back({"it was named here", twice->nameSpan});
    return;
  }
  for (const Target& t : s.targets)
    if (t.hasIndices) {
      report("several-targets", "several tensors at once are named without indices: `h, c = lstm(...)`", t.span);
      return;
    }
  for (const Target& t : s.targets)
    if (t.type || !t.layout.empty()) {
      report("type-mismatch", "a type belongs to the definition of one tensor", t.span);
      return;
    }
  if (!s.binders.empty()) {
    report("several-targets", "several tensors at once are named without `where`", s.binders.front().span);
    return;
  }
  if (s.values.size() == 1) {
    const Expr& e = ast[s.values[0]];
    if (e.kind != ExprKind::Call || !functionNamed(e.text)) {
      report("wrong-arity", std::to_string(s.targets.size()) + " names need a function with as many results, or as many values",
             e.span);
      return;
    }
    for (const Target& t : s.targets)
      if (!checkFree(t.name, t.nameSpan)) return;
    std::vector<std::string> names;
    for (const Target& t : s.targets) names.push_back(fullName(std::string(t.name)));
    const auto results = expand(ast, e, names[0], names);
    if (!results) return;
    if (results->size() != s.targets.size()) {
      Diagnostic& d =
          report("wrong-arity",
                 "`" + std::string(e.text) + "` gives " + std::to_string(results->size()) +
                     (results->size() == 1 ? " result" : " results") + ", here are " + std::to_string(s.targets.size()) + " names",
                 e.span);
      d.notes.push_back({functionNamed(e.text)->signature, {}});
      return;
    }
    for (std::size_t i = 0; i < s.targets.size(); ++i) {
      noteName((*results)[i], s.span);
      bindTarget(s.targets[i], (*results)[i]);
    }
    noteReference(s.span, results->front());  // its signs and numbers are what it makes
    return;
  }
  if (s.values.size() != s.targets.size()) {
    report("wrong-arity",
           std::to_string(s.targets.size()) + (s.targets.size() == 1 ? " name" : " names") + " on the left, " +
               std::to_string(s.values.size()) + " values on the right",
           s.span);
    return;
  }
  // Side by side: every right side sees the old names.
  std::vector<Entity> values;
  for (std::size_t i = 0; i < s.values.size(); ++i) {
    const auto value = wholeValue(ast, s.values[i], fullName(std::string(s.targets[i].name)));
    if (!value) return;
    values.push_back(*value);
  }
  for (std::size_t i = 0; i < s.targets.size(); ++i) {
    // A name is of a tensor, not of a part of one.
    if (values[i].kind == Entity::Kind::Tensor && !values[i].view.fixed.empty())
      values[i].view = materialise(values[i].view, fullName(std::string(s.targets[i].name)), s.span);
    bindTarget(s.targets[i], values[i]);
  }
  noteReference(s.span, values.front());
}

// The target's indices are known to `right`: the operator, and its name.
void Elaborator::defineBy(const Ast& ast, Statement& right, const Stmt& s, const Target& target, ExprRef value) {
  const TermId root = right.term(value);
  if (right.failed()) return;
  Statement::Wish wish;
  wish.tensor.local = target.name;
  wish.tensor.span = target.nameSpan;
  wish.tensor.layout = target.layout;
  wish.typed = target.type.has_value();
  if (target.type) wish.tensor.type = *target.type;
  const TensorRef made = right.emit(root, std::move(wish), s.span);
  if (!made.valid()) return;
  right.noteHints(s.span);
  Entity e;
  e.kind = Entity::Kind::Tensor;
  e.view = wholeView(made);
  noteCalls(ast, value, e);
  bindTarget(target, std::move(e));
}

void Elaborator::define(const Ast& ast, const Stmt& s, const Target& target, ExprRef value) {
  if (!checkFree(target.name, target.nameSpan)) return;
  m_nestedBase = fullName(std::string(target.name));
  Statement right(*this, ast);
  right.where(s.binders, 0);
  if (target.type == DType::F64) right.forceType(DType::F64);
  if (m_scope->kind == Scope::Kind::Loop && m_scope->rebinds.contains(std::string(target.name))) right.carried();
  if (!right.outputs(target.indices)) return;
  defineBy(ast, right, s, target, value);
}

void Elaborator::defineWhole(const Ast& ast, const Stmt& s, const Target& target, ExprRef value) {
  if (!checkFree(target.name, target.nameSpan)) return;
  const std::string full = fullName(std::string(target.name));
  m_nestedBase = full;
  const Expr& e = ast[value];
  const bool plainName = e.kind == ExprKind::Name && !e.text.empty() && s.binders.empty();
  const bool calls = e.kind == ExprKind::Call && !isBuiltinFunction(e.text) &&
                     (!functionNamed(e.text) || functionNamed(e.text)->def->value == kNone);
  const bool grad = e.kind == ExprKind::Call && e.text == "grad";
  if (plainName || calls || grad || e.kind == ExprKind::Derivative) {
    auto entity = wholeValue(ast, value, full);
    if (!entity) return;
    if (target.type || !target.layout.empty()) {
      if (entity->kind == Entity::Kind::Tensor && target.layout.empty() && typeOf(entity->view) == *target.type) {
        bindTarget(target, std::move(*entity));
        return;
      }
      report("type-mismatch",
             "a type belongs to a definition; to convert write `" + std::string(target.name) + "[...] = f16(X[...])`", target.span);
      return;
    }
    if (entity->kind == Entity::Kind::Number) {
      Diagnostic& d =
          report("number-as-tensor", "`" + std::string(target.name) + "` would be a number: numbers are named with `let`", s.span);
      d.fixes.push_back({"write `let`", {s.span.source, s.span.begin, s.span.begin}, "let "});
      return;
    }
    if (entity->kind == Entity::Kind::Tensor) entity->symbol = kNone;
    noteReference(s.span, *entity);
    bindTarget(target, std::move(*entity));
    return;
  }
  Statement right(*this, ast);
  right.where(s.binders, 0);
  if (target.type == DType::F64) right.forceType(DType::F64);
  right.wholeOutput();
  if (isSlice(ast, e)) {
    const auto view = slice(ast, value);
    if (!view) return;
    Entity entity;
    entity.kind = Entity::Kind::Tensor;
    entity.view = materialise(*view, full, s.span);
    bindTarget(target, std::move(entity));
    return;
  }
  defineBy(ast, right, s, target, value);
}

void Elaborator::update(const Ast& ast, const Stmt& s) {
  if (s.targets.size() != 1 || s.values.size() != 1) {
    report("several-targets", "`<-` updates one tensor", s.span);
    return;
  }
  const Target& target = s.targets[0];
  Entity* entity = resolve(target.name, target.nameSpan);
  if (!entity || entity->kind == Entity::Kind::Poison) return;
  const bool tensor = entity->kind == Entity::Kind::Tensor && entity->view.fixed.empty();
  const TensorKind kind = tensor ? tensorOf(entity->view.tensor).kind : TensorKind::Intermediate;
  if (!tensor || (kind != TensorKind::State && kind != TensorKind::Param)) {
    report("not-updatable", "`<-` updates a `state` or a `param`, `" + std::string(target.name) + "` is neither", target.span);
    return;
  }
  if (!m_options.training && !m_inTrain) {
    if (level() > 0 || m_frame != 0) return;
    m_inTrain = true;
    rehearse([&] { update(ast, s); });
    m_inTrain = false;
    return;
  }
  if (level() > 0) {
    report("update-in-loop", "`<-` takes effect at the end of a step: it can't stand inside `for`", s.span);
    return;
  }
  const TensorRef ref = entity->view.tensor;
  const std::string name = tensorOf(ref).name;
  const auto& updates = m_out.program.updates;
  const bool updated = std::any_of(updates.begin(), updates.end(), [&](const Update& u) { return u.target == ref.id; });
  if (updated || (!m_inTrain && m_trained.contains(ref.id.value))) {
    report("updated-twice", "`" + name + "` is updated already in this step", target.span);
    return;
  }
  const std::vector<std::int64_t> shape = tensorOf(ref).shape;
  const DType type = tensorOf(ref).type;
  m_nestedBase = name + ".next";
  const Expr& e = ast[s.values[0]];
  TensorRef value;
  if (!target.hasIndices && (e.kind == ExprKind::Name || e.kind == ExprKind::Derivative)) {
    const auto view = wholeTensor(ast, s.values[0], name + ".next");
    if (!view) return;
    // One of another type or shape is what the operator below converts, or refuses.
    if (tensorOf(view->tensor).type == type) value = materialise(*view, name + ".next", s.span).tensor;
  }
  if (!value.valid()) {
    Statement right(*this, ast);
    right.where(s.binders, 0);
    if (target.hasIndices) {
      if (!right.outputs(target.indices)) return;
      const bool all = target.indices.size() == 1 && ast[target.indices[0].expr].kind == ExprKind::Ellipsis;
      if (all) right.knowGroup(shape, m_contexts[0]->axisNames[ref.id.value]);
      else if (!right.fixOutputs(shape, name, target.span)) return;
    } else {
      right.wholeOutput();
      right.knowGroup(shape, m_contexts[0]->axisNames[ref.id.value]);
    }
    const TermId root = right.term(s.values[0]);
    if (right.failed()) return;
    Statement::Wish wish;
    wish.tensor.local = name + ".next";
    wish.tensor.temporary = true;
    wish.tensor.span = target.nameSpan;
    wish.tensor.type = type;
    wish.typed = true;
    value = right.emit(root, std::move(wish), s.span);
    if (!value.valid()) return;
    right.noteHints(s.span);
  }
  if (tensorOf(value).shape != shape) {
    report("shape-mismatch", "`" + name + "` is " + detailOf(tensorOf(ref)) + ", its new value is " + detailOf(tensorOf(value)),
           s.span);
    return;
  }
  m_out.program.updates.push_back({ref.id, value.id, origin(s.span)});
}

void Elaborator::scatter(const Ast& ast, const Stmt& s) {
  if (s.targets.size() != 1 || s.values.size() != 1 || !s.targets[0].hasIndices) {
    report("several-targets", "`+=` adds into one tensor at the places its indices say: `T[idx[n]: V, d] += X[n, d]`", s.span);
    return;
  }
  const Target& target = s.targets[0];
  if (!checkFree(target.name, target.nameSpan)) return;
  m_nestedBase = fullName(std::string(target.name));
  Statement right(*this, ast);
  right.where(s.binders, s.explicitAxes ? s.scatterAxes : 0);
  if (s.explicitAxes) right.axes(s.binders, s.scatterAxes);
  right.implicitIndices(!s.explicitAxes);
  std::vector<TermIndex> into;
  std::vector<std::int64_t> shape;
  std::vector<std::optional<IndexVar>> inferred;
  for (const TargetIndex& index : target.indices) {
    const Expr& e = ast[index.expr];
    if (e.kind == ExprKind::Ellipsis || e.kind == ExprKind::Hole) {
      report("target-index", "the places of a scatter are written out", e.span);
      return;
    }
    into.push_back(right.indexTerm(index.expr));
    if (right.failed()) return;
    const auto plain = into.back().data == kNoTerm ? into.back().affine.asVariable() : std::nullopt;
    if (index.extent != kNone) {
      const auto n = extent(ast, index.extent, "`" + std::string(target.name) + "`");
      if (!n) return;
      shape.push_back(*n);
      inferred.emplace_back();
      if (plain && !s.explicitAxes) right.giveExtent(*plain, *n, ast[index.extent].span);
    } else if (plain) {
      shape.push_back(0);
      inferred.emplace_back(plain);
    } else {
      Diagnostic& d = report("ambiguous-extent",
                             "how many places `" + std::string(m_out.sources.text(e.span)) +
                                 "` chooses from can't be inferred: write their number after it",
                             e.span);
      d.notes.push_back(
          {"the places are numbered by the data: `" + std::string(target.name) + "[idx[n]: 100] += ...` has 100", {}});
      return;
    }
  }
  right.implicitIndices(false);
  const TermId root = right.term(s.values[0]);
  if (right.failed() || !right.inferExtents()) return;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (inferred[i]) shape[i] = right.extentOf(*inferred[i]);
  Statement::Wish wish;
  wish.tensor.local = target.name;
  wish.tensor.span = target.nameSpan;
  wish.tensor.shape = shape;
  wish.tensor.layout = target.layout;
  wish.tensor.axisNames.resize(shape.size());
  wish.typed = target.type.has_value();
  if (target.type) wish.tensor.type = *target.type;
  const TensorRef made = right.emitScatter(root, std::move(into), std::move(wish), s.span);
  if (!made.valid()) return;
  right.noteHints(s.span);
  Entity e;
  e.kind = Entity::Kind::Tensor;
  e.view = wholeView(made);
  bindTarget(target, std::move(e));
}

void Elaborator::namedScalar(const Ast& ast, const Stmt& s) {
  const bool isLoss = s.kind == StmtKind::Loss;
  const char* word = isLoss ? "loss" : "eval";
  if (m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "`" + std::string(word) + "` stands in a cell, not inside a block", s.span);
    return;
  }
  TensorRef ref;
  if (s.values.empty()) {  // names a scalar that is there
    Entity* e = resolve(s.name, s.nameSpan);
    if (!e || e->kind == Entity::Kind::Poison) return;
    if (e->kind != Entity::Kind::Tensor || !e->view.fixed.empty()) {
      report("not-scalar", "`" + std::string(s.name) + "` is no scalar tensor", s.nameSpan);
      return;
    }
    ref = e->view.tensor;
  } else {
    if (!isLoss && !s.hasPhase) m_phase = Phase::Evaluation;
    const std::size_t errors = m_errors;
    defineWhole(ast, s, s.targets[0], s.values[0]);
    if (failedSince(errors)) return;
    Entity* e = lookup(s.name);
    if (!e || e->kind != Entity::Kind::Tensor) return;
    if (e->symbol != kNone) m_out.symbols[e->symbol].kind = isLoss ? Symbol::Kind::Loss : Symbol::Kind::Eval;
    ref = e->view.tensor;
    if (!e->view.fixed.empty()) ref = materialise(e->view, std::string(s.name), s.span).tensor;
  }
  const Tensor& t = tensorOf(ref);
  if (!t.shape.empty()) {
    Diagnostic& d = report("not-scalar", "`" + std::string(s.name) + "` must be one number, it is " + detailOf(t), s.nameSpan);
    d.notes.push_back({"reduce over its indices, as in `mean[...] X[...]`", {}});
    m_noLosses.insert(std::string(s.name));
    return;
  }
  if (isLoss && !isFloating(t.type)) {
    report("type-mismatch", "a loss is a real number, `" + std::string(s.name) + "` is " + std::string(name(t.type)), s.nameSpan);
    m_noLosses.insert(std::string(s.name));
    return;
  }
  if (!s.values.empty()) {
    const Expr& e = ast[s.values[0]];
    const bool mean = e.kind == ExprKind::Reduce && e.text == "mean";
    if (mean || (e.kind == ExprKind::Call && e.text == "accuracy")) m_out.means.insert(std::string(s.name));
  }
  m_out.program.outputs.push_back({std::string(s.name), ref.id, isLoss ? OutputRole::Loss : OutputRole::Eval});
}

void Elaborator::show(const Ast& ast, const Stmt& s) {
  if (m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "`show` stands in a cell, not inside a block", s.span);
    return;
  }
  if (s.value != kNone && s.values.size() > 1)
    report("label-of-several", "`as` names one value, these are " + std::to_string(s.values.size()), ast[s.value].span)
        .notes.push_back({"give each its own `show`", {}});
  for (const ExprRef ref : s.values) {
    const Expr& e = ast[ref];
    std::string label = e.kind == ExprKind::Derivative ? "d(" + std::string(e.text) + ")/d(" + std::string(e.text2) + ")"
                                                       : std::string(m_out.sources.text(e.span));
    if (e.kind == ExprKind::Name) label = e.text;
    if (s.value != kNone && s.values.size() == 1) label = ast[s.value].text;
    const auto value = wholeValue(ast, ref, "shown");
    if (!value || value->kind == Entity::Kind::Poison) continue;
    if (value->kind != Entity::Kind::Tensor) {
      report("not-a-tensor", "`show` takes tensors", e.span);
      continue;
    }
    const View whole = materialise(value->view, "shown", e.span);
    if (!whole.tensor.valid()) continue;
    m_out.program.outputs.push_back({label, whole.tensor.id, s.named ? OutputRole::Named : OutputRole::Show});
    if (!s.named) m_shown.push_back(whole.tensor.id);
  }
}

namespace {
// Made by equal operators of the same: passes leave one of the two.
bool isSame(const Program& p, const std::vector<OperatorId>& makers, TensorId a, TensorId b,
            std::map<std::pair<TensorId, TensorId>, bool>& known) {
  if (a == b) return true;
  if (const auto found = known.find({a, b}); found != known.end()) return found->second;
  bool& same = known[{a, b}];
  const OperatorId left = makers[a.value], right = makers[b.value];
  if (!left.valid() || !right.valid() || p[left].kind != OperatorKind::Gather || p[right].kind != OperatorKind::Gather)
    return false;
  if (structuralHash(p, left) != structuralHash(p, right)) return false;
  const auto of = readsOf(p, left), against = readsOf(p, right);
  return same = std::equal(of.begin(), of.end(), against.begin(), against.end(),
                           [&](TensorId x, TensorId y) { return isSame(p, makers, x, y, known); });
}

bool readsOther(const Program& p, const std::string& a, const std::string& b) {
  const std::vector<OperatorId> makers = producers(p);
  std::map<std::pair<TensorId, TensorId>, bool> known;
  const TensorId first = p.tensorNamed(a), second = p.tensorNamed(b);
  for (std::size_t i = p.operators.size(); first.valid() && second.valid() && i-- > 0;) {
    const auto writes = writesOf(p, OperatorId(i));
    for (const auto& [made, read] : {std::pair{first, second}, std::pair{second, first}}) {
      if (std::find(writes.begin(), writes.end(), made) == writes.end()) continue;
      const auto reads = readsOf(p, OperatorId(i));
      if (std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return isSame(p, makers, t, read, known); })) return true;
    }
  }
  return std::any_of(p.loops.begin(), p.loops.end(), [&](const Loop& loop) { return loop.body && readsOther(*loop.body, a, b); });
}
}  // namespace

namespace {
// A tensor of a loop's body; `_steps` is what passes keep of all its steps.
bool isOfLoop(const Program& program, std::string_view name) {
  while (name.ends_with("_steps")) name.remove_suffix(std::string_view("_steps").size());
  return std::any_of(program.loops.begin(), program.loops.end(), [&](const Loop& loop) {
    return loop.body && (std::any_of(loop.body->tensors.begin(), loop.body->tensors.end(),
                                     [&](const Tensor& t) { return t.kind == TensorKind::Intermediate && t.name == name; }) ||
                         isOfLoop(*loop.body, name));
  });
}
}  // namespace

// `Y_argmax`, which the gradient of Y = max[..] computes beside Y; of all its steps in a loop, too.
bool Elaborator::isBesideReduction(std::string_view name) {
  while (name.ends_with("_steps")) name.remove_suffix(std::string_view("_steps").size());
  return std::ranges::any_of(kBesideReduction, [&](std::string_view suffix) {
    const std::string_view reduced = name.substr(0, name.size() - std::min(name.size(), suffix.size()));
    return name.ends_with(suffix) &&
           (lookup(reduced) || m_fullNames.contains(std::string(reduced)) || isOfLoop(m_out.program, reduced));
  });
}

// One of two tensors is read by the operator that makes the other, in a step of a loop perhaps. What a derived name reads is not known
// yet.
bool Elaborator::readsOther(const std::string& a, const std::string& b) const {
  const Program& p = m_out.program;
  // A gradient has its operators later, and what is kept of all steps its readers: they may read what no expression has named.
  const auto known = [&p](const std::string& name) {
    const TensorId t = p.tensorNamed(name);
    if (!t.valid()) return !name.ends_with("_steps") && isOfLoop(p, name);
    return std::none_of(p.derivatives.begin(), p.derivatives.end(), [t](const Derivative& d) { return d.result == t; });
  };
  return !known(a) || !known(b) || lang::readsOther(p, a, b);
}

std::pair<std::string, std::string> Elaborator::readsWithin(const std::string& a, const std::string& b) const {
  for (const auto& [outer, other] : {std::pair(b, a), std::pair(a, b)})
    for (const Tensor& t : m_out.program.tensors)
      if (t.name.starts_with(outer + ".") && readsOther(other, t.name)) return {outer, t.name};
  return {};
}

void Elaborator::hint(const Ast&, const Stmt& s) {
  Hint h;
  h.kind = s.hint;
  h.origin = origin(s.span);
  for (const Target& t : s.targets) {
    const std::string name(t.name);
    if (!lookup(name)) {
      // Names of derived tensors and operators exist later only.
      const bool derived = name.find('/') != std::string::npos || name.find('#') != std::string::npos;
      if (derived || m_fullNames.contains(name) || isOfLoop(m_out.program, name) || isBesideReduction(name)) {
        h.tensors.push_back(name);
        continue;
      }
      // An optimizer's tensor: an evaluation, or another job, has no such kernel.
      if (m_elsewhere.contains(name)) return;
    }
    // A pair of a step; what its loop leaves need not be there.
    if (Entity* e = lookup(name); e && e->kind == Entity::Kind::LastOf && isOfLoop(m_out.program, name)) {
      noteUse(*e, t.nameSpan, true);
      h.tensors.push_back(name);
      continue;
    }
    const std::size_t told = m_out.diagnostics.size();
    const Entity* e = resolve(t.name, t.nameSpan);
    if (!e && m_out.diagnostics.size() > told && m_out.diagnostics[told].fixes.empty() && m_out.diagnostics[told].notes.empty())
      listTensors(m_out.diagnostics[told]);
    if (!e || e->kind == Entity::Kind::Poison) continue;
    if (e->kind != Entity::Kind::Tensor) {
      report("not-a-tensor", "a hint names tensors, `" + name + "` is none", t.nameSpan);
      continue;
    }
    const TensorKind kind = tensorOf(e->view.tensor).kind;
    // Folding makes constants of tensors that hints name.
    if (e->view.tensor.level == 0 && kind != TensorKind::Intermediate && kind != TensorKind::Const) {
      const char* what = kind == TensorKind::Input ? "an input" : kind == TensorKind::Param ? "a parameter" : "a state";
      report("bad-hint", "`" + name + "` is " + what + ": no kernel makes it", t.nameSpan)
          .notes.push_back({"a hint names tensors that operators make", {}});
      continue;
    }
    h.tensors.push_back(tensorOf(e->view.tensor).name);
  }
  if (h.tensors.size() != s.targets.size()) return;
  if (h.kind != Hint::Kind::Schedule && h.tensors.size() < 2) {
    report("wrong-arity", "`hint " + std::string(h.kind == Hint::Kind::Fuse ? "fuse" : "split") + "` names at least two tensors",
           s.span);
    return;
  }
  if (h.kind == Hint::Kind::Schedule) {
    ScheduleReading read = readSchedule(m_out.sources.text(s.raw));
    const auto written = [](Diagnostic& d) {
      d.notes.push_back({"as in `hint schedule Y { kind = elementwise; vector = axis0; lanes = 64 }`", {}});
      d.notes.push_back({"`neoflow show --stage scheduled` prints a schedule of every kernel", {}});
    };
    if (!read.mistake.empty()) {
      const auto place = [&](std::size_t at) { return s.raw.begin + static_cast<std::uint32_t>(at); };
      written(report("bad-attribute", read.mistake, {s.raw.source, place(read.begin), place(read.end)}));
      return;
    }
    h.attributes = std::move(read.json);
    if (!isJsonObject(h.attributes)) {
      report("bad-attribute", "a schedule is a JSON object", s.raw);
      return;
    }
    if (!isSchedule(h.attributes)) {
      written(report("bad-attribute", "a schedule has a kind and knobs", s.raw));
      return;
    }
    // A loop and an operator of its body may go by one name: their schedules are of other kinds.
    const bool loop = isLoopSchedule(h.attributes);
    for (const Hint& other : m_out.program.hints) {
      if (other.kind != Hint::Kind::Schedule || isLoopSchedule(other.attributes) != loop) continue;
      for (std::size_t i = 0; i < h.tensors.size(); ++i) {
        if (std::find(other.tensors.begin(), other.tensors.end(), h.tensors[i]) == other.tensors.end()) continue;
        Diagnostic& d = report("contradiction", "`" + h.tensors[i] + "` has a schedule already", s.targets[i].nameSpan);
        if (other.origin.valid()) d.notes.push_back({"the other hint", m_out.program[other.origin].span});
        return;
      }
    }
  } else {
    // Neighbours in the list are what a hint speaks of.
    for (std::size_t i = 0; i + 1 < h.tensors.size(); ++i) {
      const std::string &a = h.tensors[i], &b = h.tensors[i + 1];
      const Span span = cover(s.targets[i].nameSpan, s.targets[i + 1].nameSpan);
      if (a == b) {
        const std::string first(s.targets[i].name), second(s.targets[i + 1].name);
        report("bad-hint",
               (first == second ? "`" + a + "` stands beside itself"
                                : "`" + first + "` and `" + second + "` are one tensor, `" + a + "`") +
                   ": a hint names a tensor and one that reads it",
               span);
        return;
      }
      if (readsOther(a, b)) continue;
      // `P = exp(sum[j] A[i, j])` reads A in `P.sum`, an operator of its own.
      const auto [outer, part] = readsWithin(a, b);
      if (!part.empty()) {
        const std::size_t at = outer == a ? i : i + 1;
        Diagnostic& d = warn(
            "bad-hint", "`" + outer + "` reads `" + (outer == a ? b : a) + "` within `" + part + "`, an operator of its own", span);
        d.notes.push_back({"a hint names a tensor and one that reads it", {}});
        d.fixes.push_back({"name `" + part + "`", s.targets[at].nameSpan, part});
        continue;
      }
      warn("bad-hint", "neither of `" + a + "` and `" + b + "` reads the other: the hint changes nothing", span)
          .notes.push_back({"a hint names a tensor and one that reads it", {}});
    }
    for (const Hint& other : m_out.program.hints) {
      if (other.kind == h.kind || other.kind == Hint::Kind::Schedule) continue;
      for (std::size_t i = 0; i + 1 < h.tensors.size(); ++i)
        for (std::size_t k = 0; k + 1 < other.tensors.size(); ++k) {
          const bool same = h.tensors[i] == other.tensors[k] && h.tensors[i + 1] == other.tensors[k + 1];
          const bool turned = h.tensors[i] == other.tensors[k + 1] && h.tensors[i + 1] == other.tensors[k];
          if (!same && !turned) continue;
          Diagnostic& d = report("contradiction",
                                 "`" + h.tensors[i] + "` and `" + h.tensors[i + 1] + "` can't be both fused and split", s.span);
          if (other.origin.valid()) d.notes.push_back({"the other hint", m_out.program[other.origin].span});
          return;
        }
    }
  }
  m_out.program.hints.push_back(std::move(h));
}

}  // namespace nf::lang
