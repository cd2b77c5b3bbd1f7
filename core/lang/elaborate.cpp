// SPDX-License-Identifier: Apache-2.0
#include "core/lang/elaborator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/lang/spelling.h"
#include "core/lang/statement.h"
#include "core/support/checked.h"
#include "core/syntax/lexer.h"

namespace nf::lang {

using namespace ast;

std::size_t View::rankOf(const Tensor& t) const {
  std::size_t fixedCount = 0;
  for (const auto& f : fixed) fixedCount += f.has_value();
  return t.shape.size() - fixedCount;
}

Elaborator::Elaborator(CompiledNotebook& out, const CompileOptions& options) : m_out(out), m_options(options) {
  m_contexts.push_back(std::make_unique<Context>());
  m_contexts.back()->program = &out.program;
  m_scope = &m_global;
}

// ---------------------------------------------------------------- diagnostics

Diagnostic& Elaborator::report(std::string code, std::string message, Span span) {
  ++m_errors;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.span = span;
  // A mistake inside the library is shown where the person called it; a mistake in a function of the notebook stays there.
  Span site;
  for (std::uint32_t f = m_frame; f != 0; f = m_frames[f].parent) site = m_frames[f].site;
  m_mistakenCall = site;
  if (m_frame != 0) {
    const std::string function =
        m_frames[m_frame].function ? "`" + std::string(m_frames[m_frame].function->def->name) + "`" : "this call";
    if (!inNotebook(span) && site.valid()) {
      d.span = site;
      d.notes.push_back({"in " + function + ", expanded from here", span});
    } else {
      // One mistake, however many calls meet it: the first is told whole.
      constexpr std::size_t kMostCalls = 3;
      const auto known = std::find_if(m_out.diagnostics.begin(), m_out.diagnostics.end(),
                                      [&](const Diagnostic& other) { return other.span == span && other.code == d.code; });
      if (known != m_out.diagnostics.end()) {
        const std::string words = "in this call of " + function;
        const auto calls = std::count_if(known->notes.begin(), known->notes.end(),
                                         [&](const DiagnosticNote& n) { return n.message.ends_with(words) && n.span.valid(); });
        if (static_cast<std::size_t>(calls) < kMostCalls) known->notes.push_back({"and " + words, m_frames[m_frame].site});
        m_repeated = std::move(d);
        return m_repeated;
      }
      d.notes.push_back({"in this call of " + function, m_frames[m_frame].site});
    }
  }
  m_out.diagnostics.push_back(std::move(d));
  return m_out.diagnostics.back();
}

Diagnostic& Elaborator::warn(std::string code, std::string message, Span span) {
  Diagnostic& d = report(std::move(code), std::move(message), span);
  --m_errors;
  d.severity = Severity::Warning;
  return d;
}

// ---------------------------------------------------------------- origins

OriginId Elaborator::originIn(Context& context, Span span, std::uint32_t frame) {
  if (!span.valid()) return {};
  const std::uint64_t key =
      Hasher().add(std::uint64_t{span.source.value} << 32 | span.begin).add(std::uint64_t{span.end} << 32 | frame).finish().low;
  const auto found = context.origins.find(key);
  if (found != context.origins.end()) return found->second;
  OriginId id;
  if (frame == 0) {
    id = context.program->sourceOrigin(span);
  } else {
    Origin o;
    o.span = span;
    o.pass = "expand";
    const OriginId site = originIn(context, m_frames[frame].site, m_frames[frame].parent);
    if (site.valid()) o.parents.push_back(site);
    id = context.program->addOrigin(std::move(o));
  }
  context.origins.emplace(key, id);
  return id;
}

// What goes through calls is not made by them: of places in their bodies it has the places alone, not the calls.
OriginId Elaborator::originThrough(Context& context, Span span, std::uint32_t frame, const std::vector<Passed>& passed) {
  const OriginId own = originIn(context, span, frame);
  if (!own.valid() || passed.empty()) return own;
  Hasher hasher;
  hasher.add(std::uint64_t{own.value});
  for (const Passed& p : passed)
    hasher.add(std::uint64_t{p.span.source.value} << 32 | p.span.begin).add(std::uint64_t{p.span.end} << 32 | p.frame);
  const std::uint64_t key = hasher.finish().low;
  if (const auto found = context.origins.find(key); found != context.origins.end()) return found->second;
  std::vector<OriginId> from;
  for (const Passed& p : passed) {
    if (p.frame == 0) {
      if (const OriginId id = originIn(context, p.span, 0); id.valid()) from.push_back(id);
    } else if (inNotebook(p.span)) {
      Origin o;
      o.span = p.span;
      o.pass = "expand";
      from.push_back(context.program->addOrigin(std::move(o)));
    }
  }
  Origin o = (*context.program)[own];
  o.parents.insert(o.parents.end(), from.begin(), from.end());
  const OriginId id = context.program->addOrigin(std::move(o));
  context.origins.emplace(key, id);
  return id;
}

OriginId Elaborator::origin(Span span) { return originIn(context(), span, m_frame); }

// ---------------------------------------------------------------- names

Scope& Elaborator::open(Scope scope) {
  m_scopes.push_back(std::move(scope));
  m_scope = &m_scopes.back();
  return *m_scope;
}

void Elaborator::close() {
  m_scopes.pop_back();
  m_scope = m_scopes.empty() ? &m_global : &m_scopes.back();
}

Entity* Elaborator::lookup(std::string_view name) {
  const std::string key(name);
  for (Scope* s = m_scope; s; s = s->parent) {
    const auto found = s->names.find(key);
    if (found != s->names.end()) return &found->second;
  }
  return nullptr;
}

namespace {

// "A B C", the first twenty of them.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? " " : "") + names[i];
  return text + (names.size() > kMost ? " ..." : "");
}

void addNamesGiven(const Ast& ast, const Stmt& s, std::vector<std::string>& to) {
  for (const Target& t : s.targets)
    if (!t.name.empty()) to.emplace_back(t.name);
  if (!s.name.empty() && s.kind != StmtKind::For && s.kind != StmtKind::Repeat) to.emplace_back(s.name);
  for (const auto* block : {&s.body, &s.otherwise})
    for (const StmtRef inner : *block) addNamesGiven(ast, ast.stmts[inner], to);
}

}  // namespace

std::vector<std::string> Elaborator::suggestions(std::string_view name, std::vector<std::string> others) const {
  for (const Scope* s = m_scope; s; s = s->parent)
    for (const auto& [other, entity] : s->names) others.push_back(other);
  for (const auto& [other, f] : m_functions) others.push_back(other);
  return nearest(name, others);
}

bool Elaborator::noteUncarried(std::string_view name, Diagnostic& d) const {
  for (const Scope* s = m_scope; s; s = s->parent) {
    if (std::find(s->assigned.begin(), s->assigned.end(), name) == s->assigned.end()) continue;
    const std::string text(name);
    d.notes.push_back({"what a step hands on to the next has a value before the first: give `" + text +
                           "` one before the loop, as in `" + text + " = 0`",
                       {}});
    return true;
  }
  return false;
}

void Elaborator::reportUndefinedFunction(const Expr& call) {
  // One that was not understood has been told about.
  if (const Entity* other = lookup(call.text); other && other->kind == Entity::Kind::Poison) {
    if (m_poisonMet.empty()) m_poisonMet = call.text;
    return;
  }
  const std::vector<std::string> language = builtinFunctions();
  std::vector<std::string> library, all = language;
  for (const auto& [name, f] : m_functions) {
    all.push_back(name);
    if (f.standard) library.push_back(name);
  }
  std::sort(library.begin(), library.end());
  Diagnostic& d = report("undefined-function", "there is no function `" + std::string(call.text) + "`", call.head);
  // X.sum() as other languages have it.
  if (const std::size_t dot = call.text.rfind('.'); dot != std::string_view::npos) {
    const std::string of(call.text.substr(0, dot)), function(call.text.substr(dot + 1));
    const Entity* owner = lookup(of);
    if (function == "backward") {
      const std::string loss = owner && owner->kind == Entity::Kind::Tensor ? of : "L";
      d.notes.push_back(
          {"a gradient is written `d(" + loss + ")/d(W)`; `train " + loss + " { steps = 100; optimizer = sgd(lr=0.1) }` trains",
           {}});
      return;
    }
    if (function == "where") {
      d.notes.push_back({"one of two values is chosen with `select(condition, a, b)`", {}});
      return;
    }
    if (owner && owner->kind == Entity::Kind::Tensor) {
      constexpr std::array<std::string_view, 7> kReductions{"argmax", "argmin", "max", "mean", "min", "prod", "sum"};
      const bool reduces = std::find(kReductions.begin(), kReductions.end(), function) != kReductions.end();
      const std::string meant = reduces ? function + "[i] " + of + "[i]" : function + "(" + of + ")";
      d.notes.push_back({"tensors have no functions of their own: it is `" + meant + "`", {}});
      return;
    }
  }
  if (isInitializer(call.text)) {
    std::string extents = "2, 3", values(m_out.sources.text(call.span));
    // As others write it, with the extents in the call.
    if (call.text == "zeros" && !call.args.empty()) {
      const std::size_t begin = values.find('(') + 1;
      extents = values.substr(begin, values.rfind(')') - begin);
      values = "zeros()";
    }
    d.notes.push_back({"it gives a declared tensor its values: `param W[" + extents + "] = " + values +
                           "`; `input`, `const` and `state` take it, too",
                       {}});
    return;
  }
  suggest(d, call.text, all, call.head);
  if (!d.fixes.empty() || std::exchange(m_functionsListed, true)) return;
  const auto list = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
  };
  d.notes.push_back({"functions of the language: " + list(language), {}});
  d.notes.push_back({"functions of the library: " + list(library), {}});
  d.notes.push_back({"one of your own: `def f(x) = x^2`", {}});
}

// Does the statement use one of the names, itself or through what is defined further down?
bool Elaborator::dependsOn(const Ast& ast, const Stmt& s, const std::vector<std::string>& names, std::size_t budget) const {
  if (budget == 0) return false;
  std::vector<ExprRef> stack(s.values);
  for (std::size_t steps = 0; !stack.empty() && steps < 2000; ++steps) {
    const Expr& e = ast[stack.back()];
    stack.pop_back();
    if (e.kind == ExprKind::Name) {
      const std::string used(e.text);
      if (std::find(names.begin(), names.end(), used) != names.end()) return true;
      const auto later = m_laterNames.find(used);
      if (later != m_laterNames.end() && later->second.statement != &s &&
          dependsOn(ast, *later->second.statement, names, budget / 2))
        return true;
    }
    stack.insert(stack.end(), e.args.begin(), e.args.end());
    for (const Binder& b : e.binders)
      if (b.value != kNone) stack.push_back(b.value);
  }
  return false;
}

void Elaborator::reportUndefined(std::string_view name, Span use) {
  const std::string text(name);
  const auto later = m_laterNames.find(text);
  if (later != m_laterNames.end() && inNotebook(use)) {
    const bool itself = std::find(m_defining.begin(), m_defining.end(), text) != m_defining.end();
    if (itself || dependsOn(*m_notebook, *later->second.statement, m_defining, 32)) {
      Diagnostic& d = report(
          "cyclic-use",
          itself ? "`" + text + "` is used in its own definition" : "`" + text + "` and what is defined here need each other", use);
      if (!itself) d.notes.push_back({"`" + text + "` is defined here", later->second.span});
      return;
    }
    report("used-before-definition", "`" + text + "` is used before it is defined", use)
        .notes.push_back({"it is defined here", later->second.span});
    return;
  }
  Diagnostic& d = report("undefined-name", "`" + text + "` is not defined", use);
  const Entity* turned = text.ends_with(".T") ? lookup(text.substr(0, text.size() - 2)) : nullptr;
  if (turned && turned->kind == Entity::Kind::Tensor)
    d.notes.push_back({"a transpose is written with indices: `Y[i, j] = " + text.substr(0, text.size() - 2) + "[j, i]`", {}});
  const Entity* derived = text.ends_with(".grad") ? lookup(text.substr(0, text.size() - 5)) : nullptr;
  if (derived && derived->kind == Entity::Kind::Tensor)
    d.notes.push_back({"a gradient is written `d(L)/d(" + text.substr(0, text.size() - 5) + ")`", {}});
  const Entity* trained = text.ends_with(".next") ? lookup(text.substr(0, text.size() - 5)) : nullptr;
  if (trained && trained->kind == Entity::Kind::Tensor)
    d.notes.push_back(
        {"a `train` that updates `" + text.substr(0, text.size() - 5) + "` makes it: it has to stand above what shows it", {}});
  if (noteUncarried(name, d)) return;
  for (const std::string& near : suggestions(name)) d.fixes.push_back({"write `" + near + "`", use, near});
}

void Elaborator::listTensors(Diagnostic& d) const {
  std::vector<std::string> made;
  for (const Tensor& t : m_out.program.tensors)
    if (t.kind == TensorKind::Intermediate && t.name.find_first_of("./#") == std::string::npos) made.push_back(t.name);
  if (!made.empty()) d.notes.push_back({"tensors that operators make: " + listed(made), {}});
}

void Elaborator::noteUse(Entity& entity, Span use, bool written) {
  if (!inNotebook(use)) return;
  if (entity.symbol != kNone) m_out.symbols[entity.symbol].uses.push_back(use);
  if (written) noteReference(use, entity);
}

// What stands in a function means another tensor at every call.
void Elaborator::noteReference(Span span, const Entity& entity) {
  if (!inNotebook(span) || m_frame != 0 || entity.kind != Entity::Kind::Tensor || !entity.view.tensor.valid()) return;
  const TensorRef& tensor = entity.view.tensor;
  auto& references = tensor.level == 0 ? m_out.references : m_contexts[tensor.level]->references;
  references.push_back({span, tensor.id, {}});
}

// The tensor's name in a slice is no place of its own, the slice is.
void Elaborator::noteSlice(Span name, Span whole, const TensorRef& tensor) {
  auto& references = tensor.level == 0 ? m_out.references : m_contexts[tensor.level]->references;
  if (!references.empty() && references.back().span == name) references.back().span = whole;
}

// The functions that are written into an operator are part of what it makes.
void Elaborator::noteCalls(const Ast& ast, ExprRef value, const Entity& made) {
  if (m_frame != 0) return;
  std::vector<ExprRef> stack{value};
  while (!stack.empty()) {
    const ExprRef ref = stack.back();
    stack.pop_back();
    if (ref == kNone) continue;
    const Expr& e = ast[ref];
    stack.insert(stack.end(), e.args.begin(), e.args.end());
    const Function* f = e.kind == ExprKind::Call ? functionNamed(e.text) : nullptr;
    if (f && f->def->value != kNone) noteReference(e.head, made);
  }
}

Entity* Elaborator::resolve(std::string_view name, Span use, bool written) {
  Entity* entity = lookup(name);
  if (!entity) {
    // By its full name: `Z.F`, `d(L)/d(W)`, names of a repetition.
    const auto full = m_fullNames.find(std::string(name));
    if (full != m_fullNames.end() && (name.find('.') != std::string_view::npos || name.find('/') != std::string_view::npos ||
                                      name.find('#') != std::string_view::npos)) {
      Entity found;
      found.kind = Entity::Kind::Tensor;
      found.view = wholeView(full->second);
      found.definition = {};
      m_global.names.emplace(std::string(name), found);
      entity = &m_global.names.at(std::string(name));
    }
  }
  if ((!entity || entity->kind == Entity::Kind::Poison) && m_elsewhere.contains(std::string(name))) {
    // Sound in the program that makes it; here it stands for nothing, and what reads it is left out.
    if (!entity) entity = &m_global.names.emplace(std::string(name), Entity()).first->second;
    ++m_metElsewhere;
    if (!inNotebook(use)) return entity;
    m_out.ofOtherSteps.push_back({std::string(name), use});
    if (m_options.training && m_options.train == 0)
      warn("of-another-step", "`" + std::string(name) + "` is of a later `train`: cells show what a step of the first one makes",
           use);
    return entity;
  }
  if (!entity) {
    if (const Function* f = functionNamed(name)) {
      report("function-as-value", "`" + std::string(name) + "` is a function: call it, " + f->signature, use);
      return nullptr;
    }
    reportUndefined(name, use);
    return nullptr;
  }
  if (entity->kind == Entity::Kind::LastOf) {
    // First read of a carried tensor after its loop.
    Context& c = *m_contexts[entity->level];
    Loop& loop = c.program->loops[entity->loop];
    auto& carried = loop.carried[entity->carried];
    if (!carried.last.valid()) {
      const Tensor& initial = (*c.program)[carried.initial];
      Tensor t;
      t.name = c.names.taken(entity->level == 0 ? fullName(std::string(name)) : std::string(name));
      t.type = initial.type;
      t.shape = initial.shape;
      t.origin = originIn(c, use, m_frame);
      carried.last = c.program->addTensor(t);
      c.axisNames.resize(c.program->tensors.size());
      if (entity->level == 0) m_fullNames.emplace(t.name, TensorRef{0, carried.last});
    }
    entity->kind = Entity::Kind::Tensor;
    entity->view = wholeView({entity->level, carried.last});
    noteMeaning(*entity);
  }
  if (m_poisonMet.empty() && entity->kind == Entity::Kind::Poison) m_poisonMet = name;
  noteUse(*entity, use, written);
  return entity;
}

const Function* Elaborator::functionNamed(std::string_view name) {
  const auto found = m_functions.find(std::string(name));
  return found == m_functions.end() ? nullptr : &found->second;
}

bool Elaborator::checkFree(std::string_view name, Span span) {
  const std::string key(name);
  for (Scope* s = m_scope; s; s = s->parent) {
    const auto found = s->names.find(key);
    if (found != s->names.end()) {
      const bool rebinds = m_scope->rebinds.contains(key);
      if (rebinds || found->second.kind == Entity::Kind::Poison) return true;
      Diagnostic& d = report("redefinition", "`" + key + "` is defined already", span);
      if (found->second.definition.valid()) d.notes.push_back({"it was defined here", found->second.definition});
      if (found->second.kind == Entity::Kind::Tensor) d.notes.push_back({"a name is given once: call the new value otherwise", {}});
      return false;
    }
    if (s->kind == Scope::Kind::Function || s->kind == Scope::Kind::Notebook) break;
  }
  const auto f = m_functions.find(key);
  if (f != m_functions.end() && !f->second.standard && m_scope->kind == Scope::Kind::Notebook) {
    report("redefinition", "`" + key + "` is defined already", span)
        .notes.push_back({"as a function, here", f->second.def->nameSpan});
    return false;
  }
  return true;
}

// A symbol's tensor is the one that its name has in the end.
void Elaborator::noteMeaning(const Entity& entity) {
  if (entity.symbol == kNone || m_contexts.size() > 1) return;
  const bool tensor = entity.kind == Entity::Kind::Tensor && entity.view.tensor.level == 0;
  Symbol& symbol = m_out.symbols[entity.symbol];
  symbol.tensor = tensor ? entity.view.tensor.id : TensorId();
  symbol.lastOf = entity.kind == Entity::Kind::LastOf && entity.level == 0 ? LoopId(entity.loop) : LoopId();
  symbol.carried = entity.carried;
}

void Elaborator::bind(std::string_view name, Entity entity) {
  const std::string key(name);
  if (m_scope->kind == Scope::Kind::Repeat && m_scope->rebinds.contains(key)) {
    for (Scope* s = m_scope->parent; s; s = s->parent) {
      const auto found = s->names.find(key);
      if (found == s->names.end()) continue;
      entity.symbol = found->second.symbol;
      found->second = std::move(entity);
      noteMeaning(found->second);
      return;
    }
  }
  m_scope->names[key] = std::move(entity);
}

bool Elaborator::declare(std::string_view name, Span span, Entity entity, Symbol::Kind kind) {
  if (!checkFree(name, span)) return false;
  entity.definition = span;
  if (inNotebook(span) && m_frame == 0) {
    Symbol symbol;
    symbol.kind = kind;
    symbol.name = name;
    symbol.definition = span;
    symbol.inside = m_scope->kind == Scope::Kind::Repeat || m_scope->kind == Scope::Kind::Loop;
    if (entity.kind == Entity::Kind::Tensor && entity.view.tensor.level == 0) symbol.tensor = entity.view.tensor.id;
    noteReference(span, entity);
    if (entity.kind == Entity::Kind::Tensor) symbol.detail = detailOf(tensorOf(entity.view.tensor));
    if (entity.kind == Entity::Kind::Number)
      symbol.detail = entity.number.isInteger ? std::to_string(entity.number.integer) : printReal(entity.number.real);
    entity.symbol = static_cast<std::uint32_t>(m_out.symbols.size());
    m_out.symbols.push_back(std::move(symbol));
  }
  bind(name, std::move(entity));
  return true;
}

void Elaborator::poison(std::string_view name, Span span) {
  const std::string key(name);
  if (lookup(name)) return;
  Entity e;
  e.definition = span;
  m_scope->names.emplace(key, std::move(e));
}

void Elaborator::poisonTargets(const Stmt& s) {
  for (const Target& t : s.targets)
    if (!t.name.empty()) poison(t.name, t.nameSpan);
  if (s.kind == StmtKind::Let || s.kind == StmtKind::Error)
    for (const Binder& b : s.binders)
      if (!b.name.empty()) poison(b.name, b.span);
  if (!s.name.empty() && s.kind != StmtKind::For && s.kind != StmtKind::Repeat) poison(s.name, s.nameSpan);
}

// An unsound statement that gives names from before it another value: they mean nothing after it.
void Elaborator::taint(const Ast& ast, const Stmt& s, bool inBlock) {
  const bool changes = s.kind == StmtKind::Assign && s.assign == AssignOp::Update;
  m_updateLost = m_updateLost || changes;
  const auto lose = [this](std::string_view name) {
    if (Entity* entity = lookup(name)) entity->kind = Entity::Kind::Poison;
  };
  if (changes || m_misread.contains(s.span.begin))
    for (const Target& t : s.targets) lose(t.name);
  if (s.kind == StmtKind::Error) {
    // It was not understood: a block, or an update, may change whatever stands left of a sign of assignment.
    const LexResult lexed = lex(m_out.sources.text(s.span), s.span.source);
    const auto is = [&](std::size_t i, TokenKind kind) { return i < lexed.tokens.size() && lexed.tokens[i].kind == kind; };
    bool block = inBlock;
    for (std::size_t i = 0; i < lexed.tokens.size(); ++i) block = block || is(i, TokenKind::LeftBrace) || is(i, TokenKind::Becomes);
    for (std::size_t i = 0; block && i < lexed.tokens.size(); ++i) {
      if (!is(i, TokenKind::Name)) continue;
      std::size_t next = i + 1;
      if (is(next, TokenKind::LeftBracket)) {
        while (next < lexed.tokens.size() && !is(next, TokenKind::RightBracket)) ++next;
        ++next;
      }
      if (is(next, TokenKind::Becomes)) m_updateLost = true;
      if (is(next, TokenKind::Assign) || is(next, TokenKind::Becomes) || is(next, TokenKind::Comma))
        lose(m_out.sources.text(s.span).substr(lexed.tokens[i].begin, lexed.tokens[i].end - lexed.tokens[i].begin));
    }
  }
  for (const auto* block : {&s.body, &s.otherwise})
    for (const StmtRef ref : *block) {
      const Stmt& inner = ast.stmts[ref];
      if (inner.kind == StmtKind::Assign)
        for (const Target& t : inner.targets) lose(t.name);
      taint(ast, inner, true);
    }
}

std::string Elaborator::fullName(const std::string& local) {
  std::string suffix;
  for (Scope* s = m_scope; s; s = s->kind == Scope::Kind::Inlined ? s->caller : s->parent) {
    switch (s->kind) {
      case Scope::Kind::Notebook: return local + suffix;
      case Scope::Kind::Function: {
        const auto result = s->results.find(local);
        return (result != s->results.end() ? result->second : s->prefix + local) + suffix;
      }
      case Scope::Kind::Repeat: suffix = s->suffix + suffix; break;
      case Scope::Kind::Inlined:
      case Scope::Kind::Loop: break;
    }
  }
  return local + suffix;
}

std::string Elaborator::callName(std::string_view function) {
  std::string base = m_nestedBase.empty() ? fullName(std::string(function)) : m_nestedBase + "." + std::string(function);
  const int n = ++m_prefixes[base];
  return n == 1 ? base : base + std::to_string(n);
}

// ---------------------------------------------------------------- tensors

std::string Elaborator::detailOf(const Tensor& t) const {
  std::string text(name(t.type));
  text += " [";
  for (std::size_t i = 0; i < t.shape.size(); ++i) text += (i ? ", " : "") + std::to_string(t.shape[i]);
  return text + "]";
}

TensorRef Elaborator::makeTensor(NewTensor wish) {
  const bool given = wish.kind != TensorKind::Intermediate;
  const std::uint32_t at = given ? 0 : level();  // parameters of a call in a loop are made once, outside time
  Context& c = *m_contexts[at];
  Tensor t;
  const std::string full = wish.temporary ? wish.local : fullName(wish.local);
  t.name = c.names.taken(full, wish.temporary ? "" : "#");
  t.kind = wish.kind;
  t.type = wish.type;
  t.shape = std::move(wish.shape);
  t.init = std::move(wish.init);
  t.init.origin = originIn(c, wish.valuesSpan, m_frame);
  t.layout.order = std::move(wish.layout);
  t.origin = originIn(c, wish.span, m_frame);
  const auto elements = checkedProduct(t.shape);
  if (!elements || !checkedMul(*elements, bytesOf(t.type))) {
    std::string shape;
    for (const std::int64_t e : t.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(e);
    report("extent-overflow", "`" + t.name + "` would have " + shape + " elements: more than 64 bits count", wish.span);
    c.names.release(t.name);
    return {};
  }
  if (!t.layout.order.empty()) {
    std::vector<std::uint32_t> sorted = t.layout.order;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == t.shape.size();
    for (std::size_t i = 0; i < sorted.size() && permutation; ++i) permutation = sorted[i] == i;
    if (!permutation) {
      report("bad-layout", "the layout of `" + t.name + "` must name each of its " + std::to_string(t.shape.size()) + " axes once",
             wish.span);
      t.layout.order.clear();
    } else if (!std::is_sorted(t.layout.order.begin(), t.layout.order.end())) {
      warn(
          "layout",
          "the layout of `" + t.name + "` changes nothing: kernels store tensors row by row and order copies of them by themselves",
          wish.span);
    }
  }
  const std::string name = t.name;
  const TensorId id = c.program->addTensor(std::move(t));
  c.axisNames.resize(c.program->tensors.size());
  c.axisNames[id.value] = std::move(wish.axisNames);
  if (at == 0) m_fullNames.emplace(name, TensorRef{0, id});
  return {at, id};
}

TensorId Elaborator::import(const TensorRef& ref) {
  TensorId id = ref.id;
  for (std::uint32_t l = ref.level + 1; l <= level(); ++l) {
    Context& c = *m_contexts[l];
    const auto found = c.imports.find(id.value);
    if (found != c.imports.end()) {
      id = found->second;
      continue;
    }
    const Tensor& outer = (*m_contexts[l - 1]->program)[id];
    Tensor t;
    t.name = c.names.taken(outer.name);
    t.kind = TensorKind::Input;
    t.type = outer.type;
    t.shape = outer.shape;
    t.layout = outer.layout;
    const OriginId o = outer.origin;
    if (o.valid()) t.origin = originIn(c, m_contexts[l - 1]->program->origins[o.value].span, 0);
    const TensorId inner = c.program->addTensor(std::move(t));
    c.axisNames.resize(c.program->tensors.size());
    c.imports.emplace(id.value, inner);
    c.invariants.push_back({id, inner});
    id = inner;
  }
  return id;
}

std::vector<std::int64_t> Elaborator::shapeOf(const View& view) const {
  const Tensor& t = tensorOf(view.tensor);
  std::vector<std::int64_t> shape;
  for (std::size_t k = 0; k < t.shape.size(); ++k)
    if (k >= view.fixed.size() || !view.fixed[k]) shape.push_back(t.shape[k]);
  return shape;
}

// ---------------------------------------------------------------- numbers

std::string printReal(double value) {
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::optional<Number> Elaborator::number(const Ast& ast, ExprRef e, const std::string& what, bool counts) {
  const std::size_t errors = m_errors;
  Statement s(*this, ast);
  s.numberFor(what, counts);
  const TermId id = s.term(e);
  if (const auto n = s.constantOf(id)) return n;
  if (!failedSince(errors) && s.at(id).kind != Term::Kind::Error)
    report("not-a-constant", what + " must be a number known while compiling", ast[e].span);
  return std::nullopt;
}

std::optional<std::int64_t> Elaborator::integer(const Ast& ast, ExprRef e, const std::string& what, bool counts) {
  const auto n = number(ast, e, what, counts);
  if (!n) return std::nullopt;
  if (n->isInteger) return n->integer;
  report("not-an-integer", what + " must be an integer, this is " + printReal(n->real), ast[e].span);
  return std::nullopt;
}

std::optional<std::int64_t> Elaborator::extent(const Ast& ast, ExprRef e, const std::string& of) {
  const auto n = integer(ast, e, "the extent of " + of, true);
  if (!n) return std::nullopt;
  if (*n > 0) return n;
  report(*n == 0 ? "zero-extent" : "negative-extent",
         "the extent of " + of + " is " + std::to_string(*n) + ": extents are at least 1", ast[e].span);
  return std::nullopt;
}

// ---------------------------------------------------------------- statements

void Elaborator::addFunctions(const Ast& ast, bool standard) {
  const auto signature = [&](const Stmt& s) {
    const std::string_view text = m_out.sources.at(s.span.source).text;
    const std::size_t end = std::min(text.find('{', s.nameSpan.begin), text.find('\n', s.nameSpan.begin));
    std::string sig(text.substr(s.nameSpan.begin, std::min(end, text.size()) - s.nameSpan.begin));
    while (!sig.empty() && (sig.back() == ' ' || sig.back() == '\r')) sig.pop_back();
    return sig;
  };
  for (const Cell& cell : ast.cells)
    for (const StmtRef ref : cell.statements) {
      const Stmt& s = ast.stmts[ref];
      if (s.kind != StmtKind::Def) continue;
      const std::string name(s.name);
      const auto known = m_functions.find(name);
      if (known != m_functions.end() && !known->second.standard) {
        report("redefinition", "function `" + name + "` is defined already", s.nameSpan)
            .notes.push_back({"it was defined here", known->second.def->nameSpan});
        continue;
      }
      if (!standard && isBuiltinFunction(name)) {
        report("reserved-name", "`" + name + "` is a function of the language", s.nameSpan);
        continue;
      }
      std::vector<std::pair<std::string_view, Span>> names, results;
      for (const Parameter& p : s.parameters) names.emplace_back(p.name, p.span);
      for (const Binder& b : s.binders) names.emplace_back(b.name, b.span);
      for (const Binder& b : s.results) results.emplace_back(b.name, b.span);
      for (const auto* const of : {&names, &results})
        for (auto n = of->begin(); n != of->end(); ++n) {
          const auto twice = std::find_if(of->begin(), n, [&](const auto& other) { return other.first == n->first; });
          if (twice == n || n->first.empty()) continue;
          report("redefinition", "`" + name + (of == &names ? "` names `" : "` gives `") + std::string(n->first) + "` twice",
                 n->second)
              .notes.push_back({"it was named here", twice->second});
        }
      Function f;
      f.ast = &ast;
      f.def = &s;
      f.standard = standard;
      f.signature = signature(s);
      Symbol symbol;
      symbol.kind = Symbol::Kind::Function;
      symbol.name = name;
      symbol.detail = f.signature;
      symbol.definition = s.nameSpan;
      f.symbol = static_cast<std::uint32_t>(m_out.symbols.size());
      m_out.symbols.push_back(std::move(symbol));
      m_functions[name] = std::move(f);
    }
}

void Elaborator::run(const Ast& notebook) {
  m_notebook = &notebook;
  addFunctions(notebook, false);
  findWholeParameters();
  for (const Cell& cell : notebook.cells)
    for (const StmtRef ref : cell.statements) {
      const Stmt& s = notebook.stmts[ref];
      if (s.kind == StmtKind::Let)
        for (const Binder& b : s.binders) m_laterNames.emplace(std::string(b.name), Later{b.span, &s});
      if (s.kind == StmtKind::Hint || s.assign == AssignOp::Update) continue;
      for (const Target& t : s.targets)
        if (!t.name.empty()) m_laterNames.emplace(std::string(t.name), Later{t.nameSpan, &s});
    }
  for (const Cell& cell : notebook.cells)
    for (const StmtRef ref : cell.statements)
      for (const Diagnostic& d : m_out.diagnostics)
        if (d.severity == Severity::Error && d.span.begin >= notebook.stmts[ref].span.begin &&
            d.span.begin <= notebook.stmts[ref].span.end)
          m_misread.insert(notebook.stmts[ref].span.begin);
  prepareBatch(notebook);
  std::vector<std::size_t> cellOfLoop;
  for (const Cell& cell : notebook.cells) {
    CellInfo info;
    info.kind = cell.markdown ? CellInfo::Kind::Markdown : CellInfo::Kind::Code;
    info.span = cell.span;
    const std::size_t before = m_out.program.tensors.size();
    m_shown.clear();
    statements(notebook, cell.statements);
    info.shows = std::move(m_shown);
    for (const StmtRef ref : cell.statements) info.hasTrain = info.hasTrain || notebook.stmts[ref].kind == StmtKind::Train;
    for (std::size_t t = before; t < m_out.program.tensors.size(); ++t) info.defines.push_back(TensorId(t));
    cellOfLoop.resize(m_out.program.loops.size(), m_out.cells.size());
    m_out.cells.push_back(std::move(info));
  }
  // What a loop carries last is made where it is first read, and yet is its loop's.
  for (std::size_t l = 0; l < cellOfLoop.size(); ++l)
    for (const Loop::Carried& carried : m_out.program.loops[l].carried) {
      if (!carried.last.valid()) continue;
      for (CellInfo& reader : m_out.cells) std::erase(reader.defines, carried.last);
      m_out.cells[cellOfLoop[l]].defines.push_back(carried.last);
    }
  for (const auto& [name, value] : m_options.sets)
    if (!m_setsUsed.contains(name)) {
      Diagnostic d;
      d.code = "unknown-set";
      d.message = "--set " + name + ": the notebook has no `let " + name + "`";
      std::vector<std::string> lets;
      for (const Symbol& s : m_out.symbols)
        if (s.kind == Symbol::Kind::Extent && s.definition.source == m_out.notebook) lets.push_back(s.name);
      for (const std::string& near : nearest(name, lets)) d.notes.push_back({"is `" + near + "` meant?", {}});
      if (d.notes.empty()) d.notes.push_back({lets.empty() ? "it has none" : "those there are: " + listed(lets), {}});
      m_out.diagnostics.push_back(std::move(d));
      ++m_errors;
    }
  finishKaiming();
}

void Elaborator::statements(const Ast& ast, const std::vector<StmtRef>& list) {
  for (const StmtRef ref : list) {
    if (m_refused) return;
    statement(ast, ast.stmts[ref]);
  }
}

// Calls and repetitions multiply: what would take minutes to expand is refused.
bool Elaborator::spend(Span where) {
  constexpr std::size_t kMost = 400000;
  if (++m_work < kMost) return true;
  if (m_work == kMost) report("too-large", "this expands to more than " + std::to_string(kMost) + " statements", where);
  return false;
}

// A statement all of whose mistakes, those from `told` on, stand in a function that it calls: its name. Empty: one is its own.
std::string Elaborator::calledWithMistakes(const Stmt& s, std::size_t told) const {
  const auto inside = [&](Span span) {
    return span.source == s.span.source && s.span.begin <= span.begin && span.end <= s.span.end;
  };
  for (std::size_t i = told; i < m_out.diagnostics.size(); ++i)
    if (m_out.diagnostics[i].severity == Severity::Error && inside(m_out.diagnostics[i].span)) return {};
  return inside(m_mistakenCall) ? std::string(m_out.sources.text(m_mistakenCall)) : std::string();
}

void Elaborator::statement(const Ast& ast, const Stmt& s) {
  const std::size_t errors = m_errors, told = m_out.diagnostics.size();
  const bool top = m_contexts.size() == 1 && m_frame == 0 && m_scope == &m_global;
  const auto unsound = [&] {
    if (!top) return;
    Unsound& u = m_out.unsound.emplace_back(Unsound{s.span, failedSince(errors) ? calledWithMistakes(s, told) : m_poisonMet, {}});
    addNamesGiven(ast, s, u.gives);
    if (s.kind != StmtKind::Def) taint(ast, s);
  };
  if (!spend(s.span)) return unsound();
  constexpr std::size_t kMostDiagnostics = 200;
  if (m_out.diagnostics.size() >= kMostDiagnostics) {
    poisonTargets(s);
    return unsound();
  }
  const std::string met = std::exchange(m_poisonMet, {});
  const std::size_t elsewhere = m_metElsewhere;
  const Phase phase = m_phase;
  const std::string base = m_nestedBase;
  m_nestedBase.clear();
  m_defining.clear();
  if (s.hasPhase) m_phase = s.phase;
  if (s.kind != StmtKind::Hint && s.assign != AssignOp::Update)
    for (const Target& t : s.targets) m_defining.emplace_back(t.name);
  switch (s.kind) {
    case StmtKind::Error: poisonTargets(s); break;
    case StmtKind::Let: letNames(ast, s); break;
    case StmtKind::Declare: declaration(ast, s); break;
    case StmtKind::Data: dataSet(ast, s); break;
    case StmtKind::Assign: assignment(ast, s); break;
    case StmtKind::Call: callAlone(ast, s); break;
    case StmtKind::Def:
      if (m_scope->kind != Scope::Kind::Notebook)
        report("nested-function", "functions are defined in a cell, not inside another block", s.nameSpan);
      break;
    case StmtKind::For: forLoop(ast, s); break;
    case StmtKind::Repeat: repeat(ast, s); break;
    case StmtKind::If: conditional(ast, s); break;
    case StmtKind::Require: require(ast, s); break;
    case StmtKind::Stack:
    case StmtKind::Accumulate: collect(ast, s); break;
    case StmtKind::Loss:
    case StmtKind::Eval: namedScalar(ast, s); break;
    case StmtKind::Show: show(ast, s); break;
    case StmtKind::Train: train(ast, s); break;
    case StmtKind::Hint: hint(ast, s); break;
  }
  m_phase = phase;
  m_nestedBase = base;
  // What could not be made is known as a mistake, so that its uses are not told about again.
  const bool makes =
      s.kind == StmtKind::Assign || s.kind == StmtKind::Declare || s.kind == StmtKind::Loss || s.kind == StmtKind::Eval;
  if (failedSince(errors) || makes) poisonTargets(s);
  if (makes && !failedSince(errors) && m_metElsewhere > elsewhere) {
    for (const Target& t : s.targets) m_elsewhere.emplace(t.name);
    if (!s.name.empty()) m_elsewhere.emplace(s.name);
  }
  const bool misread = top && m_misread.contains(s.span.begin);
  if (failedSince(errors) || !m_poisonMet.empty() || misread || (s.kind == StmtKind::Train && m_updateLost)) unsound();
  if (!met.empty()) m_poisonMet = met;  // the first that was met around it
}

}  // namespace nf::lang
