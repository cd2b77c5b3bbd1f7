// SPDX-License-Identifier: Apache-2.0
#include "core/lang/elaborator.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/lang/statement.h"
#include "core/support/checked.h"

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
  if (m_frame != 0) {
    const std::string function =
        m_frames[m_frame].function ? "`" + std::string(m_frames[m_frame].function->def->name) + "`" : "this call";
    if (!inNotebook(span) && site.valid()) {
      d.span = site;
      d.notes.push_back({"in " + function + ", expanded from here", span});
    } else {
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

std::vector<std::string> Elaborator::suggestions(std::string_view name) const {
  const auto distance = [&](std::string_view other) {
    std::vector<std::size_t> row(other.size() + 1);
    for (std::size_t j = 0; j <= other.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] == other[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    return row[other.size()];
  };
  if (name.size() > 60) return {};
  std::vector<std::pair<std::size_t, std::string>> near;
  const auto consider = [&](const std::string& other) {
    const std::size_t allowed = name.size() < 3 ? 0 : name.size() < 5 ? 1 : 2;
    if (other.size() > name.size() + allowed || other.size() + allowed < name.size()) return;
    const std::size_t d = distance(other);
    if (d <= allowed || (d == 1 && name.size() > 1)) near.emplace_back(d, other);
  };
  for (const Scope* s = m_scope; s; s = s->parent)
    for (const auto& [other, entity] : s->names) consider(other);
  for (const auto& [other, f] : m_functions) consider(other);
  std::sort(near.begin(), near.end());
  std::vector<std::string> best;
  for (const auto& [d, other] : near)
    if (best.size() < 2) best.push_back(other);
  return best;
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
  for (const std::string& near : suggestions(name)) d.fixes.push_back({"write `" + near + "`", use, near});
}

void Elaborator::noteUse(Entity& entity, Span use) {
  if (!inNotebook(use)) return;
  if (entity.symbol != kNone) m_out.symbols[entity.symbol].uses.push_back(use);
  if (entity.kind == Entity::Kind::Tensor && entity.view.tensor.level == 0)
    m_out.references.push_back({use, entity.view.tensor.id});
}

Entity* Elaborator::resolve(std::string_view name, Span use) {
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
      t.name = initial.name;
      for (int n = 2; !c.names.insert(t.name).second; ++n) t.name = initial.name + "#" + std::to_string(n);
      t.type = initial.type;
      t.shape = initial.shape;
      t.origin = originIn(c, use, m_frame);
      carried.last = c.program->addTensor(t);
      c.axisNames.resize(c.program->tensors.size());
      if (entity->level == 0) m_fullNames.emplace(t.name, TensorRef{0, carried.last});
    }
    entity->kind = Entity::Kind::Tensor;
    entity->view = wholeView({entity->level, carried.last});
  }
  noteUse(*entity, use);
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

void Elaborator::bind(std::string_view name, Entity entity) {
  const std::string key(name);
  if (m_scope->kind == Scope::Kind::Repeat && m_scope->rebinds.contains(key)) {
    for (Scope* s = m_scope->parent; s; s = s->parent) {
      const auto found = s->names.find(key);
      if (found == s->names.end()) continue;
      entity.symbol = found->second.symbol;
      found->second = std::move(entity);
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
    if (entity.kind == Entity::Kind::Tensor && entity.view.tensor.level == 0) {
      symbol.tensor = entity.view.tensor.id;
      m_out.references.push_back({span, symbol.tensor});
    }
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

std::string Elaborator::fullName(const std::string& local) {
  std::string suffix;
  for (Scope* s = m_scope; s; s = s->parent) {
    switch (s->kind) {
      case Scope::Kind::Notebook: return local + suffix;
      case Scope::Kind::Function: {
        const auto result = s->results.find(local);
        return (result != s->results.end() ? result->second : s->prefix + local) + suffix;
      }
      case Scope::Kind::Repeat: suffix = s->suffix + suffix; break;
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
  t.name = full;
  const char* joint = wish.temporary ? "" : "#";
  for (int n = 2; !c.names.insert(t.name).second; ++n) t.name = full + joint + std::to_string(n);
  t.kind = wish.kind;
  t.type = wish.type;
  t.shape = std::move(wish.shape);
  t.init = std::move(wish.init);
  t.layout.order = std::move(wish.layout);
  t.origin = originIn(c, wish.span, m_frame);
  const auto elements = checkedProduct(t.shape);
  if (!elements || !checkedMul(*elements, bytesOf(t.type))) {
    std::string shape;
    for (const std::int64_t e : t.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(e);
    report("extent-overflow", "`" + t.name + "` would have " + shape + " elements: more than 64 bits count", wish.span);
    c.names.erase(t.name);
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
    t.name = outer.name;
    for (int n = 2; !c.names.insert(t.name).second; ++n) t.name = outer.name + "#" + std::to_string(n);
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
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value || std::isnan(value)) break;
  }
  return buffer;
}

std::optional<Number> Elaborator::number(const Ast& ast, ExprRef e, const std::string& what) {
  const std::size_t errors = m_errors;
  Statement s(*this, ast);
  const TermId id = s.term(e);
  if (const auto n = s.constantOf(id)) return n;
  if (!failedSince(errors) && s.at(id).kind != Term::Kind::Error)
    report("not-a-constant", what + " must be a number known while compiling", ast[e].span);
  return std::nullopt;
}

std::optional<std::int64_t> Elaborator::integer(const Ast& ast, ExprRef e, const std::string& what) {
  const auto n = number(ast, e, what);
  if (!n) return std::nullopt;
  if (n->isInteger) return n->integer;
  report("not-an-integer", what + " must be an integer, this is " + printReal(n->real), ast[e].span);
  return std::nullopt;
}

std::optional<std::int64_t> Elaborator::extent(const Ast& ast, ExprRef e, const std::string& of) {
  const auto n = integer(ast, e, "the extent of " + of);
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
      Function f;
      f.ast = &ast;
      f.def = &s;
      f.standard = standard;
      f.signature = signature(s);
      if (!standard) {
        Symbol symbol;
        symbol.kind = Symbol::Kind::Function;
        symbol.name = name;
        symbol.detail = f.signature;
        symbol.definition = s.nameSpan;
        f.symbol = static_cast<std::uint32_t>(m_out.symbols.size());
        m_out.symbols.push_back(std::move(symbol));
      }
      m_functions[name] = std::move(f);
    }
}

void Elaborator::run(const Ast& notebook) {
  m_notebook = &notebook;
  addFunctions(notebook, false);
  for (const Cell& cell : notebook.cells)
    for (const StmtRef ref : cell.statements) {
      const Stmt& s = notebook.stmts[ref];
      if (s.kind == StmtKind::Hint || s.assign == AssignOp::Update) continue;
      for (const Target& t : s.targets)
        if (!t.name.empty()) m_laterNames.emplace(std::string(t.name), Later{t.nameSpan, &s});
    }
  prepareBatch(notebook);
  for (const Cell& cell : notebook.cells) {
    CellInfo info;
    info.kind = cell.markdown ? CellInfo::Kind::Markdown : CellInfo::Kind::Code;
    info.span = cell.span;
    const std::size_t before = m_out.program.tensors.size();
    statements(notebook, cell.statements);
    for (const StmtRef ref : cell.statements) {
      info.hasTrain = info.hasTrain || notebook.stmts[ref].kind == StmtKind::Train;
      info.hasShow = info.hasShow || notebook.stmts[ref].kind == StmtKind::Show;
    }
    for (std::size_t t = before; t < m_out.program.tensors.size(); ++t) info.defines.push_back(TensorId(t));
    m_out.cells.push_back(std::move(info));
  }
  for (const auto& [name, value] : m_options.sets)
    if (!m_setsUsed.contains(name)) {
      Diagnostic d;
      d.code = "unknown-set";
      d.message = "--set " + name + ": the notebook has no `let " + name + "`";
      m_out.diagnostics.push_back(std::move(d));
      ++m_errors;
    }
  finishKaiming();
}

void Elaborator::statements(const Ast& ast, const std::vector<StmtRef>& list) {
  for (const StmtRef ref : list) statement(ast, ast.stmts[ref]);
}

// Calls and repetitions multiply: what would take minutes to expand is refused.
bool Elaborator::spend(Span where) {
  constexpr std::size_t kMost = 400000;
  if (++m_work < kMost) return true;
  if (m_work == kMost) report("too-large", "this expands to more than " + std::to_string(kMost) + " statements", where);
  return false;
}

void Elaborator::statement(const Ast& ast, const Stmt& s) {
  if (!spend(s.span)) return;
  constexpr std::size_t kMostDiagnostics = 200;
  if (m_out.diagnostics.size() >= kMostDiagnostics) return poisonTargets(s);
  const std::size_t errors = m_errors;
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
}

void Elaborator::letNames(const Ast& ast, const Stmt& s) {
  for (const Binder& b : s.binders) {
    Entity e;
    e.kind = Entity::Kind::Number;
    const std::string name(b.name);
    std::optional<Number> value;
    const bool top = m_scope->kind == Scope::Kind::Notebook;
    const auto decided = m_batchNames.find(name);
    if (top && decided != m_batchNames.end()) value = decided->second;
    else value = number(ast, b.value, "`" + name + "`");
    if (top && m_options.sets.contains(name)) m_setsUsed.insert(name);
    if (!value) {
      poison(name, b.span);
      continue;
    }
    e.number = *value;
    declare(name, b.span, std::move(e), Symbol::Kind::Extent);
  }
}

bool Elaborator::initializer(const Ast& ast, ExprRef ref, Initializer& into) {
  const Expr& e = ast[ref];
  struct Form {
    std::string_view name;
    Initializer::Kind kind;
    std::size_t numbers, optional, strings;
  };
  static constexpr Form kForms[] = {
      {"zeros", Initializer::Kind::Zeros, 0, 0, 0},     {"normal", Initializer::Kind::Normal, 2, 0, 0},
      {"uniform", Initializer::Kind::Uniform, 2, 0, 0}, {"kaiming", Initializer::Kind::Kaiming, 0, 2, 0},
      {"xavier", Initializer::Kind::Xavier, 0, 2, 0},   {"npy", Initializer::Kind::Npy, 0, 0, 1},
      {"npz", Initializer::Kind::Npz, 0, 0, 2},         {"idx", Initializer::Kind::Idx, 0, 0, 1},
      {"csv", Initializer::Kind::Csv, 0, 0, 1},         {"safetensors", Initializer::Kind::Safetensors, 0, 0, 2},
  };
  if (e.kind == ExprKind::Call) {
    const auto form = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == e.text; });
    if (form == std::end(kForms)) {
      const bool function = functionNamed(e.text) || isBuiltinFunction(e.text);
      if (!function) {
        report(
            "unknown-initializer",
            "`" + std::string(e.text) +
                "` is no initial value: there are normal, uniform, kaiming, xavier, zeros, npy, npz, idx, csv, safetensors, batch",
            e.head);
        return false;
      }
    } else {
      if (!e.binders.empty()) {
        report("unknown-option", "`" + std::string(e.text) + "` has no option `" + std::string(e.binders[0].name) + "`",
               e.binders[0].span);
        return false;
      }
      const std::size_t count = form->numbers + form->strings;
      if (e.args.size() != count && !(form->optional && e.args.size() == form->optional)) {
        report("wrong-arity",
               "`" + std::string(e.text) + "` takes " + std::to_string(count) + (count == 1 ? " argument" : " arguments") +
                   ", here are " + std::to_string(e.args.size()),
               e.span);
        return false;
      }
      into.kind = form->kind;
      for (std::size_t i = 0; i < e.args.size(); ++i) {
        const Expr& a = ast[e.args[i]];
        if (form->strings > 0) {
          if (a.kind != ExprKind::String) {
            report("expected-string", "`" + std::string(e.text) + "` takes a name in double quotes", a.span);
            return false;
          }
          into.strings.emplace_back(a.text);
          continue;
        }
        const auto n = number(ast, e.args[i], "an argument of `" + std::string(e.text) + "`");
        if (!n) return false;
        into.numbers.push_back(n->value());
      }
      if (form->kind == Initializer::Kind::Uniform && into.numbers[0] > into.numbers[1]) {
        report("empty-range", "`uniform` takes the lower bound first", e.span);
        return false;
      }
      if (form->kind == Initializer::Kind::Normal && into.numbers[1] < 0) {
        report("negative-deviation", "the deviation of `normal` is not negative", e.span);
        return false;
      }
      return true;
    }
  }
  const auto n = number(ast, ref, "an initial value");
  if (!n) return false;
  into.kind = n->value() == 0 && !std::signbit(n->value()) ? Initializer::Kind::Zeros : Initializer::Kind::Constant;
  if (into.kind == Initializer::Kind::Constant) into.numbers = {n->value()};
  return true;
}

bool Elaborator::batchInitializer(const Ast& ast, const Stmt& s, const std::vector<std::int64_t>& shape, DType, Initializer& into) {
  Entity* data = resolve(s.batchData, s.batchSpan);
  if (!data || data->kind == Entity::Kind::Poison) return false;
  if (data->kind != Entity::Kind::Data) {
    report("not-data",
           "`" + std::string(s.batchData) + "` is no data set: `data " + std::string(s.batchData) + " = csv(\"...\")` makes one",
           s.batchSpan);
    return false;
  }
  into.kind = Initializer::Kind::Batch;
  into.data = s.batchData;
  const auto begin = integer(ast, s.batchBegin, "a column");
  if (!begin) return false;
  const auto end = s.batchEnd == kNone ? std::optional(*begin + 1) : integer(ast, s.batchEnd, "a column");
  if (!end) return false;
  const Span columns = s.batchEnd == kNone ? ast[s.batchBegin].span : cover(ast[s.batchBegin].span, ast[s.batchEnd].span);
  if (*begin < 0 || *end <= *begin) {
    report("bad-columns", "columns run from 0 on and must not be empty", columns);
    return false;
  }
  into.columnBegin = *begin;
  into.columnEnd = *end;
  if (shape.empty()) {
    report("batch-shape", "a batch needs a first axis for its rows", s.targets[0].span);
    return false;
  }
  const auto each = checkedProduct(std::span(shape).subspan(1));
  if (!each || *each != *end - *begin) {
    report("batch-shape",
           "a row of `" + std::string(s.targets[0].name) + "` has " + (each ? std::to_string(*each) : "too many") +
               " elements, the columns are " + std::to_string(*end - *begin),
           columns);
    return false;
  }
  for (const auto& [op, ref] : s.batchArithmetic) {
    const auto n = number(ast, ref, "what a batch is scaled with");
    if (!n) return false;
    const double x = n->value();
    if (op == Op::Div && x == 0) {
      report("division-by-zero", "this divides by zero", ast[ref].span);
      return false;
    }
    if (op == Op::Add) into.shift += x;
    if (op == Op::Sub) into.shift -= x;
    if (op == Op::Mul || op == Op::Div) {
      const double f = op == Op::Mul ? x : 1 / x;
      into.scale *= f;
      into.shift *= f;
    }
  }
  return true;
}

void Elaborator::declaration(const Ast& ast, const Stmt& s) {
  const Target& target = s.targets[0];
  const char* word = s.declares == TensorKind::Input   ? "input"
                     : s.declares == TensorKind::Param ? "param"
                     : s.declares == TensorKind::Const ? "const"
                                                       : "state";
  if (s.declares == TensorKind::Input && m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "an `input` is declared in a cell, not inside a block", s.span);
    return;
  }
  NewTensor wish;
  wish.local = target.name;
  wish.span = target.nameSpan;
  wish.kind = s.declares;
  wish.type = target.type.value_or(DType::F32);
  wish.layout = target.layout;
  bool good = checkFree(target.name, target.nameSpan);
  for (const TargetIndex& index : target.indices) {
    const Expr& e = ast[index.expr];
    if (e.kind == ExprKind::Ellipsis) {
      // The remaining extents of the function's own `...`.
      const Entity* rest = lookup("...");
      if (!rest) {
        report("ellipsis-without-target", "`...` means the extents that a parameter `X[...]` brought: there is none here", e.span);
        good = false;
        continue;
      }
      for (const std::int64_t n : shapeOf(rest->view)) wish.shape.push_back(n);
      continue;
    }
    if (index.extent != kNone || e.kind == ExprKind::Hole) {
      report("bad-extent",
             "an `" + std::string(word) + "` is declared with extents, as in `" + std::string(word) + " " +
                 std::string(target.name) + "[3, 4]`",
             e.span);
      good = false;
      continue;
    }
    const auto n = extent(ast, index.expr, "`" + std::string(target.name) + "`");
    wish.shape.push_back(n.value_or(1));
    wish.axisNames.emplace_back();
    good = good && n;
  }
  if (!s.batchData.empty()) {
    if (s.declares != TensorKind::Input) {
      report("misplaced-batch", "`batch` feeds an `input`, this is a `" + std::string(word) + "`", s.batchSpan);
      good = false;
    } else if (good) {
      good = batchInitializer(ast, s, wish.shape, wish.type, wish.init);
    }
  } else if (s.value != kNone) {
    good = initializer(ast, s.value, wish.init) && good;
  } else if (s.declares == TensorKind::Param && m_frame == 0) {
    const Span end{target.span.source, target.span.end, target.span.end};
    Diagnostic& d = warn("no-initial-value", "`" + std::string(target.name) + "` has no initial value", target.span);
    d.fixes.push_back({"draw it at random", target.type ? Span{s.span.source, s.span.end, s.span.end} : end, " = kaiming()"});
  }
  if (!good) return;
  const TensorRef made = makeTensor(std::move(wish));
  if (!made.valid()) return;
  Entity e;
  e.kind = Entity::Kind::Tensor;
  e.view = wholeView(made);
  const Symbol::Kind kind = s.declares == TensorKind::Input   ? Symbol::Kind::Input
                            : s.declares == TensorKind::Param ? Symbol::Kind::Param
                            : s.declares == TensorKind::Const ? Symbol::Kind::Const
                                                              : Symbol::Kind::State;
  declare(target.name, target.nameSpan, std::move(e), kind);
}

void Elaborator::dataSet(const Ast& ast, const Stmt& s) {
  if (m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "a data set is named in a cell, not inside a block", s.span);
    return;
  }
  if (!checkFree(s.name, s.nameSpan)) return;
  DataSet set;
  set.name = s.name;
  set.directory = m_out.sources.at(m_out.notebook).directory;
  set.origin = origin(s.nameSpan);
  if (s.bundled) {
    const Expr& e = ast[s.value];
    if (e.text != "digits") {
      report("unknown-data", "`" + std::string(e.text) + "` is no bundled data set: there is `digits`", e.span);
      return;
    }
    set.source.strings = {std::string(e.text)};
    set.heldOutLast = 360;
  } else {
    if (!initializer(ast, s.value, set.source)) return;
    const bool file = set.source.kind == Initializer::Kind::Csv || set.source.kind == Initializer::Kind::Npy ||
                      set.source.kind == Initializer::Kind::Npz || set.source.kind == Initializer::Kind::Idx;
    if (!file) {
      report("not-data", "a data set comes from csv, npy, npz, idx, or is a bundled one", ast[s.value].span);
      return;
    }
  }
  for (const Binder& b : s.binders) {
    const Expr& e = ast[b.value];
    if (b.name != "split") {
      report("unknown-attribute", "a data set has no attribute `" + std::string(b.name) + "`: there is `split = last N`", b.span);
      continue;
    }
    if (e.kind != ExprKind::Call || e.text != "last" || e.args.size() != 1) {
      report("bad-attribute", "`split` takes `last N`", e.span);
      continue;
    }
    const auto n = integer(ast, e.args[0], "the number of rows held out");
    if (n && *n < 0) report("bad-attribute", "the number of rows held out is not negative", e.span);
    else if (n) set.heldOutLast = *n;
  }
  m_out.program.data.push_back(std::move(set));
  Entity e;
  e.kind = Entity::Kind::Data;
  declare(s.name, s.nameSpan, std::move(e), Symbol::Kind::Data);
}

bool Elaborator::bindTarget(const Target& target, Entity entity, Symbol::Kind kind) {
  return declare(target.name, target.nameSpan, std::move(entity), kind);
}

void Elaborator::assignment(const Ast& ast, const Stmt& s) {
  if (s.assign == AssignOp::Update) return update(ast, s);
  if (s.assign == AssignOp::Scatter) return scatter(ast, s);
  if (s.targets.size() == 1 && s.values.size() == 1) {
    if (s.targets[0].hasIndices) return define(ast, s, s.targets[0], s.values[0]);
    return defineWhole(ast, s, s.targets[0], s.values[0]);
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
    for (std::size_t i = 0; i < s.targets.size(); ++i) bindTarget(s.targets[i], (*results)[i]);
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
  for (std::size_t i = 0; i < s.targets.size(); ++i) bindTarget(s.targets[i], values[i]);
}

void Elaborator::define(const Ast& ast, const Stmt& s, const Target& target, ExprRef value) {
  if (!checkFree(target.name, target.nameSpan)) return;
  m_nestedBase = fullName(std::string(target.name));
  Statement right(*this, ast);
  right.where(s.binders, 0);
  if (target.type == DType::F64) right.forceType(DType::F64);
  if (!right.outputs(target.indices)) return;
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
  bindTarget(target, std::move(e));
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
    bindTarget(target, std::move(*entity));
    return;
  }
  Statement right(*this, ast);
  right.where(s.binders, 0);
  if (target.type == DType::F64) right.forceType(DType::F64);
  right.wholeOutput();
  const bool slices = e.kind == ExprKind::Index &&
                      std::any_of(e.args.begin() + 1, e.args.end(), [&](ExprRef a) { return ast[a].kind == ExprKind::Hole; });
  if (slices) {
    const auto view = slice(ast, value);
    if (!view) return;
    Entity entity;
    entity.kind = Entity::Kind::Tensor;
    entity.view = materialise(*view, full, s.span);
    bindTarget(target, std::move(entity));
    return;
  }
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
  Entity entity;
  entity.kind = Entity::Kind::Tensor;
  entity.view = wholeView(made);
  bindTarget(target, std::move(entity));
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
  if (!m_options.training) return;
  if (level() > 0) {
    report("update-in-loop", "`<-` takes effect at the end of a step: it can't stand inside `for`", s.span);
    return;
  }
  const TensorRef ref = entity->view.tensor;
  const std::string name = tensorOf(ref).name;
  for (const Update& u : m_out.program.updates)
    if (u.target == ref.id) {
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
    value = materialise(*view, name + ".next", s.span).tensor;
  } else {
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
      Diagnostic& d = report(
          "ambiguous-extent",
          "how many places `" + std::string(m_out.sources.text(e.span)) + "` chooses from can't be inferred: write `: N` after it",
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
    return;
  }
  if (isLoss && !isFloating(t.type)) {
    report("type-mismatch", "a loss is a real number, `" + std::string(s.name) + "` is " + std::string(name(t.type)), s.nameSpan);
    return;
  }
  m_out.program.outputs.push_back({std::string(s.name), ref.id, isLoss ? OutputRole::Loss : OutputRole::Eval});
}

void Elaborator::show(const Ast& ast, const Stmt& s) {
  if (m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "`show` stands in a cell, not inside a block", s.span);
    return;
  }
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
    if (whole.tensor.valid())
      m_out.program.outputs.push_back({label, whole.tensor.id, s.named ? OutputRole::Named : OutputRole::Show});
  }
}

void Elaborator::hint(const Ast&, const Stmt& s) {
  Hint h;
  h.kind = s.hint;
  h.origin = origin(s.span);
  for (const Target& t : s.targets) {
    // Names of derived tensors and operators exist later only.
    const std::string name(t.name);
    const bool derived = name.find('/') != std::string::npos || name.find('#') != std::string::npos;
    if (!derived && !m_fullNames.contains(name)) {
      if (!m_options.training && !lookup(name)) return;  // an optimiser's tensor: an evaluation has no such kernel
      Entity* e = resolve(t.name, t.nameSpan);
      if (!e || e->kind == Entity::Kind::Poison) continue;
      if (e->kind != Entity::Kind::Tensor) {
        report("not-a-tensor", "a hint names tensors, `" + name + "` is none", t.nameSpan);
        continue;
      }
      h.tensors.push_back(tensorOf(e->view.tensor).name);
      continue;
    }
    if (Entity* e = lookup(name)) noteUse(*e, t.nameSpan);
    h.tensors.push_back(name);
  }
  if (h.tensors.size() != s.targets.size()) return;
  if (h.kind != Hint::Kind::Schedule && h.tensors.size() < 2) {
    report("wrong-arity", "`hint " + std::string(h.kind == Hint::Kind::Fuse ? "fuse" : "split") + "` names at least two tensors",
           s.span);
    return;
  }
  if (h.kind == Hint::Kind::Schedule) {
    h.attributes = std::string(m_out.sources.text(s.raw));
    if (!isJsonObject(h.attributes)) {
      report("bad-attribute", "a schedule is a JSON object", s.raw);
      return;
    }
  }
  m_out.program.hints.push_back(std::move(h));
}

// ---------------------------------------------------------------- batches and fans

// The batch extent is decided by the caller, by --set, by `train`, by its `let`, in this order.
void Elaborator::prepareBatch(const Ast& ast) {
  for (const auto& [name, text] : m_options.sets) {
    char* end = nullptr;
    const std::int64_t i = std::strtoll(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0') {
      m_batchNames[name] = Number::of(i);
      continue;
    }
    const double r = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0') {
      m_batchNames[name] = Number::of(r);
      continue;
    }
    report("bad-set", "--set " + name + "=" + text + ": the value is no number", {});
  }
  std::unordered_set<std::string> extents, lets;
  std::vector<Binder> trainBatch;
  for (const Cell& cell : ast.cells)
    for (const StmtRef ref : cell.statements) {
      const Stmt& s = ast.stmts[ref];
      if (s.kind == StmtKind::Let)
        for (const Binder& b : s.binders) lets.insert(std::string(b.name));
      if (s.kind == StmtKind::Declare && !s.batchData.empty() && !s.targets[0].indices.empty()) {
        const Expr& first = ast[s.targets[0].indices[0].expr];
        if (first.kind == ExprKind::Name) extents.insert(std::string(first.text));
      }
      if (s.kind == StmtKind::Train)
        for (const Binder& b : s.binders)
          if (b.name == "batch" && b.value != kNone) trainBatch.push_back(b);
    }
  std::optional<std::int64_t> decided;
  if (m_options.batchOverride > 0) decided = m_options.batchOverride;
  else if (!trainBatch.empty() && ast[trainBatch[0].value].kind == ExprKind::Number && ast[trainBatch[0].value].isInteger &&
           ast[trainBatch[0].value].integer > 0)
    decided = ast[trainBatch[0].value].integer;
  if (!decided) return;
  for (const std::string& name : extents) {
    if (m_options.batchOverride <= 0 && m_options.sets.contains(name)) continue;
    m_batchNames[name] = Number::of(*decided);
    if (lets.contains(name)) continue;
    Entity e;  // `batch = 64` alone names it
    e.kind = Entity::Kind::Number;
    e.number = m_batchNames[name];
    e.definition = trainBatch.empty() ? Span{} : ast[trainBatch[0].value].span;
    m_global.names.emplace(name, std::move(e));
  }
}

namespace {

// Per tensor of `outer`: extents of the reduction and output axes that index it in its first reader.
void collectFans(const Program& p, const std::function<std::vector<double>*(TensorId)>& fansOf) {
  for (const Operator& op : p.operators) {
    if (op.kind == OperatorKind::Loop) {
      const Loop& loop = p[op.loop];
      std::unordered_map<std::uint32_t, TensorId> outer;
      for (const auto& invariant : loop.invariants) outer.emplace(invariant.inner.value, invariant.outer);
      collectFans(*loop.body, [&](TensorId inner) -> std::vector<double>* {
        const auto found = outer.find(inner.value);
        return found == outer.end() ? nullptr : fansOf(found->second);
      });
      continue;
    }
    for (const ExprId e : nodesOf(p, op.body)) {
      const ScalarNode& node = p[e];
      if (node.op != ScalarOp::Load) continue;
      std::vector<double>* fans = fansOf(p[node.access].tensor);
      if (!fans || !fans->empty()) continue;
      std::vector<IndexVar> variables;
      for (const AccessIndex& index : p[node.access].indices)
        if (!index.isData()) index.affine.collectVariables(variables);
      *fans = {1, 1};
      for (std::size_t a = 0; a < op.axes.size(); ++a)
        if (std::find(variables.begin(), variables.end(), a) != variables.end())
          (*fans)[a < op.outputRank ? 1 : 0] *= static_cast<double>(op.axes[a].extent);
    }
  }
}

}  // namespace

void Elaborator::finishKaiming() {
  Program& p = m_out.program;
  std::unordered_map<std::uint32_t, std::vector<double>> fans;
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Initializer& init = p.tensors[i].init;
    const bool fan = init.kind == Initializer::Kind::Kaiming || init.kind == Initializer::Kind::Xavier;
    if (fan && init.numbers.empty()) fans.emplace(static_cast<std::uint32_t>(i), std::vector<double>());
  }
  if (fans.empty()) return;
  collectFans(p, [&](TensorId t) -> std::vector<double>* {
    const auto found = fans.find(t.value);
    return found == fans.end() ? nullptr : &found->second;
  });
  for (auto& [tensor, found] : fans) {
    if (found.empty()) {  // nobody reads it: as a matrix of its first axis by the others
      found = {1, 1};
      for (std::size_t k = 0; k < p.tensors[tensor].shape.size(); ++k)
        found[k == 0 ? 1 : 0] *= static_cast<double>(p.tensors[tensor].shape[k]);
    }
    p.tensors[tensor].init.numbers = found;
  }
}

}  // namespace nf::lang
