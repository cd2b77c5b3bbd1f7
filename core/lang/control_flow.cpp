// SPDX-License-Identifier: Apache-2.0
// `repeat`, `if`, `require`, and `for` with what a loop collects.
#include <algorithm>
#include <span>

#include "core/lang/elaborator.h"
#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

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

// A statement that was not understood is known by its mistake; what it would have assigned is not.
bool holdsMistake(const Ast& ast, const std::vector<StmtRef>& body) {
  return std::any_of(body.begin(), body.end(), [&](StmtRef ref) {
    const Stmt& s = ast.stmts[ref];
    return s.kind == StmtKind::Error || holdsMistake(ast, s.body) || holdsMistake(ast, s.otherwise);
  });
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
  std::vector<std::pair<std::string, TensorId>> before;
  for (const std::string& name : assigned)
    if (const Entity* e = lookup(name); e && e->kind == Entity::Kind::Tensor && e->view.tensor.level == level())
      before.emplace_back(name, e->view.tensor.id);
  const std::int64_t around = m_copies;
  m_copies = std::max<std::int64_t>(m_copies, 1) * std::max<std::int64_t>(*to - from, 1);
  for (std::int64_t i = from; i < *to && spend(s.span); ++i) {
    Scope scope;
    scope.kind = Scope::Kind::Repeat;
    scope.parent = m_scope;
    scope.suffix = "." + std::to_string(i);
    scope.assigned = assigned;
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
    if (i + 1 < *to) continue;
    for (const auto& [name, id] : before)
      if (const Entity* e = lookup(name); !e || e->kind != Entity::Kind::Tensor || e->view.tensor.id != id) renumber(name, id);
    for (const std::string& name : rebound) nameLast(name);
  }
  m_copies = around;
}

void Elaborator::rename(TensorId id, const std::string& name) {
  Program& p = program();
  const std::string before = std::exchange(p.tensors[id.value].name, name);
  const auto made = std::find_if(p.operators.rbegin(), p.operators.rend(), [&](const Operator& op) { return op.output == id; });
  if (made != p.operators.rend() && made->name == before) made->name = name;
  if (level() > 0) return;
  m_fullNames.insert_or_assign(name, TensorRef{0, id});
  for (Hint& hint : p.hints) std::replace(hint.tensors.begin(), hint.tensors.end(), before, name);
}

void Elaborator::renumber(const std::string& name, TensorId before) {
  const std::string full = level() == 0 ? fullName(name) : name;
  if (program()[before].name != full) return;
  rename(before, context().names.earlier(full));
  context().names.release(full);
  if (level() == 0) m_fullNames.erase(full);
}

// `Y.2` becomes `Y` where no tensor is called so; the index still finds it.
void Elaborator::nameLast(const std::string& name) {
  const Entity* last = lookup(name);
  if (!last || last->kind != Entity::Kind::Tensor || !last->view.fixed.empty() || last->view.tensor.level != level()) return;
  const TensorId id = last->view.tensor.id;
  const Tensor& t = program()[id];
  const std::string full = fullName(name);
  if (t.kind == TensorKind::Intermediate && t.name.starts_with(full + ".") && context().names.take(full)) rename(id, full);
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

// A parameter takes a number or a tensor; of what a call gives as a tensor no value is known here.
bool Elaborator::readsGivenTensor(const Ast& ast, ExprRef condition) {
  const Function* f = m_frames[m_frame].function;
  if (m_frame == 0 || !f) return false;
  const auto options = std::span(f->def->binders).first(f->def->optionCount);
  std::vector<ExprRef> stack{condition};
  while (!stack.empty()) {
    const Expr& e = ast[stack.back()];
    stack.pop_back();
    stack.insert(stack.end(), e.args.begin(), e.args.end());
    if (e.kind != ExprKind::Name) continue;
    const auto named = [&](const auto& p) { return p.name == e.text; };
    const auto& parameters = f->def->parameters;
    const auto parameter = std::find_if(parameters.begin(), parameters.end(), named);
    const bool takesBoth =
        parameter != parameters.end() ? !parameter->hasShape : std::any_of(options.begin(), options.end(), named);
    const Entity* entity = takesBoth ? lookup(e.text) : nullptr;
    if (entity && entity->kind == Entity::Kind::Tensor) return true;
  }
  return false;
}

// In a function it is the call that is at fault.
void Elaborator::require(const Ast& ast, const Stmt& s) {
  const ExprRef condition = s.values[0];
  if (readsGivenTensor(ast, condition)) return;
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
    e = resolve(name, s.nameSpan, false);
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
  scope.assigned = assigned;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const Tensor& outer = program()[initial[i].id];
    Tensor t;
    t.name = carried[i];
    context->names.take(t.name);
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
  m_counters.push_back({loop.counter, *from, ast[s.values[1]].span});
  open(std::move(scope));
  for (const Binder& b : s.binders) {
    Entity* e = resolve(b.name, b.span);
    if (e && e->kind == Entity::Kind::Tensor) import(e->view.tensor);
  }
  statements(ast, s.body);
  bool poisoned = false;
  for (std::size_t i = 0; i < carried.size() && !failedSince(errors); ++i) {
    Entity* e = lookup(carried[i]);
    if (e->kind == Entity::Kind::LastOf) e = resolve(carried[i], s.nameSpan, false);
    poisoned = e->kind != Entity::Kind::Tensor;
    if (poisoned) {
      if (m_poisonMet.empty()) m_poisonMet = carried[i];
      break;
    }
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
      const auto extents = [&](const Tensor& t) {
        return t.shape.empty() ? std::string("a scalar") : detailOf(t).substr(nf::name(t.type).size() + 1);
      };
      if (out.type != type)
        d.notes.push_back({"make both of one type: start it as `" + carried[i] + (shape.empty() ? "" : "[...]") + " : " +
                               std::string(nf::name(out.type)) + " = ...`, or write `" + std::string(nf::name(type)) +
                               "(...)` around its new value",
                           lookup(carried[i])->definition});
      else
        d.notes.push_back({"what a step hands on has the shape of what it took: start with " + extents(out) + ", make it " +
                               extents(before) + " here, or give what is made here a name of its own",
                           lookup(carried[i])->definition});
      break;
    }
    loop.carried[i].innerOut = last.id;
    if (last.id == loop.carried[i].innerIn) continue;
    renumber(carried[i], loop.carried[i].innerIn);
    if (const Tensor& t = (*body)[last.id];
        t.kind == TensorKind::Intermediate && t.name.starts_with(carried[i] + "#") && this->context().names.take(carried[i]))
      rename(last.id, carried[i]);
  }
  loop.invariants = m_contexts.back()->invariants;
  const std::unique_ptr<Context> inside = std::move(m_contexts.back());
  close();
  m_scope = outer;
  m_trips.pop_back();
  m_counters.pop_back();
  m_contexts.pop_back();
  // What could not be collected is known as a mistake behind the loop, too.
  const auto lose = [&] {
    for (const StmtRef ref : s.body)
      if (const Stmt& inner = ast.stmts[ref];
          inner.kind == StmtKind::Stack || inner.kind == StmtKind::Accumulate || inner.kind == StmtKind::Error)
        if (!inner.name.empty()) poison(inner.name, inner.nameSpan);
  };
  if (failedSince(errors) || poisoned) {
    for (const Collected& c : inside->collected) poison(c.name, c.span);
    lose();
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
    lose();
    for (const std::string& name : assigned)
      if (const Entity* e = lookup(name); e && e->kind == Entity::Kind::Poison && m_poisonMet.empty()) m_poisonMet = name;
    if (m_poisonMet.empty() && !holdsMistake(ast, s.body))
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
  auto& references = level() == 0 ? m_out.references : m_contexts.back()->references;
  for (TensorReference& r : inside->references) {
    r.loops.insert(r.loops.begin(), id);
    references.push_back(std::move(r));
  }
  for (std::size_t i = 0; i < carried.size(); ++i) {
    renumber(carried[i], initial[i].id);
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
  lose();
}

TensorId Elaborator::collected(const Collected& c, const Context& body, std::int64_t trips) {
  const Tensor& inner = (*body.program)[c.inner];
  Tensor t;
  t.name = context().names.taken(level() == 0 ? fullName(c.name) : c.name);
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
