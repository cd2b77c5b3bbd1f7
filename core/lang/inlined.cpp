// SPDX-License-Identifier: Apache-2.0
// def dot(x[N], y[N]) = sum[i] x[i]*y[i]: functions of one expression, written into the operator that uses them.
#include <algorithm>

#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

bool isSlice(const Ast& ast, const Expr& e) {
  return e.kind == ExprKind::Index &&
         std::any_of(e.args.begin() + 1, e.args.end(), [&](ExprRef a) { return ast[a].kind == ExprKind::Hole; });
}

// A parameter is read as a tensor where its shape is written, where it has indices, and where it goes on to what takes a tensor:
// a function with a block, a derivative, such a parameter of another function.
void Elaborator::findWholeParameters() {
  using Node = std::uint32_t;
  std::vector<std::vector<Node>> implies;  // parameters and arguments: whole ones make these whole
  std::vector<Node> reached;
  std::vector<bool> whole;
  const auto add = [&] {
    implies.emplace_back();
    whole.push_back(false);
    return static_cast<Node>(whole.size() - 1);
  };
  const auto mark = [&](Node n) {
    if (!whole[n]) reached.push_back(n);
    whole[n] = true;
  };
  std::unordered_map<const Function*, std::vector<std::pair<std::string_view, Node>>> names;
  for (const auto& [name, f] : m_functions) {
    if (f.def->value == kNone) continue;
    auto& own = names[&f];
    for (const Parameter& p : f.def->parameters) {
      own.emplace_back(p.name, add());
      if (p.hasShape) mark(own.back().second);
    }
    for (std::size_t i = 0; i < f.def->optionCount; ++i) own.emplace_back(f.def->binders[i].name, add());
  }
  const auto nodeOf = [](const auto& own, std::string_view name) -> std::optional<Node> {
    for (const auto& [known, node] : own)
      if (known == name) return node;
    return std::nullopt;
  };
  for (const auto& entry : names) {
    const auto& f = entry.first;
    const auto& own = entry.second;
    const Ast& ast = *f->ast;
    struct Item {
      ExprRef expr;
      std::optional<Node> argument;  // the innermost that it stands in
    };
    std::vector<Item> stack{{f->def->value, {}}};
    for (std::size_t i = f->def->optionCount; i < f->def->binders.size(); ++i) stack.push_back({f->def->binders[i].value, {}});
    while (!stack.empty()) {
      const ExprRef ref = stack.back().expr;
      const std::optional<Node> argument = stack.back().argument;
      stack.pop_back();
      if (ref == kNone) continue;
      const Expr& e = ast[ref];
      const auto markNamed = [&](std::string_view name) {
        if (const auto node = nodeOf(own, name)) mark(*node);
      };
      if (e.kind == ExprKind::Name && argument)
        if (const auto node = nodeOf(own, e.text)) implies[*argument].push_back(*node);
      if (e.kind == ExprKind::Index && ast[e.args[0]].kind == ExprKind::Name) markNamed(ast[e.args[0]].text);
      if (e.kind == ExprKind::Derivative) {
        markNamed(e.text);
        markNamed(e.text2);
      }
      const Function* callee = e.kind == ExprKind::Call && !isBuiltinFunction(e.text) ? functionNamed(e.text) : nullptr;
      const auto inlined = callee ? names.find(callee) : names.end();
      const auto descend = [&](ExprRef part, std::optional<Node> parameter) {
        if (!callee && e.text != "grad") return stack.push_back({part, argument});
        const Node here = add();
        if (argument) implies[*argument].push_back(here);
        if (inlined == names.end()) mark(here);
        else if (parameter) implies[*parameter].push_back(here);
        stack.push_back({part, here});
      };
      for (std::size_t i = 0; i < e.args.size(); ++i)
        descend(e.args[i], inlined != names.end() && i < callee->def->parameters.size() ? std::optional(inlined->second[i].second)
                                                                                        : std::nullopt);
      for (const Binder& b : e.binders) descend(b.value, inlined != names.end() ? nodeOf(inlined->second, b.name) : std::nullopt);
    }
  }
  while (!reached.empty()) {
    const Node n = reached.back();
    reached.pop_back();
    for (const Node next : implies[n]) mark(next);
  }
  for (auto& [name, f] : m_functions) {
    if (f.def->value == kNone) continue;
    f.whole.clear();
    for (const auto& [parameter, node] : names.at(&f)) f.whole.push_back(whole[node]);
  }
}

void Elaborator::reportWithin(std::string_view name, Span use) {
  const Entity* entity = lookup(name);
  const std::string text = "`" + std::string(name) + "`";
  if (entity && entity->kind == Entity::Kind::Tensor) {
    report("slice-of-operator",
           text + " is a slice at an index of the operator that this is written into: no tensor is made from it", use)
        .notes.push_back({"make the tensor for all of them first, as in `T[i, ...] = ...`, and take its slice `T[i, _]`", {}});
    return;
  }
  report("not-a-constant",
         text + " is a value of the operator that this is written into, here stands a number known while compiling", use);
}

std::optional<Entity> Statement::termArgument(ExprRef ref) {
  const TermId id = term(ref);
  const Term& t = m_terms[id];
  if (t.kind == Term::Kind::Error) return std::nullopt;
  Entity e;
  e.within = this;
  e.term = id;
  e.kind = Entity::Kind::Term;
  if (const auto n = constantOf(id); n && t.soft) {
    e.kind = Entity::Kind::Number;
    e.number = *n;
  }
  return e;
}

// What only this operator knows: its indices, names after `where`, numbers that a function was given.
std::optional<std::string_view> Statement::ownName(ExprRef ref) const {
  std::vector<ExprRef> stack{ref}, found;
  std::vector<std::string_view> hidden;
  while (!stack.empty()) {
    const Expr& e = (*m_ast)[stack.back()];
    if (e.kind == ExprKind::Name) found.push_back(stack.back());
    stack.pop_back();
    stack.insert(stack.end(), e.args.rbegin(), e.args.rend());
    for (const Binder& b : e.binders) {
      if (e.kind == ExprKind::Reduce) hidden.push_back(b.name);
      if (b.value != kNone) stack.push_back(b.value);
    }
  }
  for (const ExprRef at : found) {
    const std::string_view name = (*m_ast)[at].text;
    if (std::find(hidden.begin(), hidden.end(), name) != hidden.end()) continue;
    if (variableNamed(name)) return name;
    for (std::size_t i = m_macrosBase; i < m_macros.size(); ++i)
      if (m_macros[i].name == name) return name;
    const Entity* entity = m_elab.lookup(name);
    if (entity && entity->within == this && entity->kind == Entity::Kind::Term) return name;
  }
  return std::nullopt;
}

std::optional<Entity> Statement::wholeArgument(ExprRef ref, const std::string& takes, const Function* f) {
  const Expr& e = (*m_ast)[ref];
  const auto own = isSlice(*m_ast, e) ? std::nullopt : ownName(ref);
  if (own) {
    Diagnostic& d = report(
        "not-a-tensor",
        takes + " a whole tensor; `" + textOf(e.span) + "` depends on `" + std::string(*own) + "`, which only this operator knows",
        e.span);
    d.notes.push_back({"a part of a tensor at an index is a slice, `T[i, _]`; what is calculated is made a tensor first", {}});
    if (f) d.notes.push_back({f->signature, f->def->nameSpan});
    return std::nullopt;
  }
  if (isSlice(*m_ast, e)) {
    const auto view = m_elab.slice(*m_ast, ref, this);
    if (!view) return std::nullopt;
    Entity made;
    made.kind = Entity::Kind::Tensor;
    made.view = *view;
    for (const auto& fixed : view->fixed) {
      std::vector<IndexVar> variables;
      if (fixed) fixed->collectVariables(variables);
      if (std::any_of(variables.begin(), variables.end(), [](IndexVar v) { return v < kLoopVariable; })) made.within = this;
    }
    return made;
  }
  if (e.kind != ExprKind::Name) return m_elab.wholeValue(*m_ast, ref, {});
  Entity* entity = m_elab.lookup(e.text);
  if (!entity || entity->within != this) return m_elab.wholeValue(*m_ast, ref, {});
  return *entity;
}

std::optional<View> Statement::tensorArgument(ExprRef ref) {
  const auto value = wholeArgument(ref, "a slice is of", nullptr);
  if (!value || value->kind == Entity::Kind::Poison) return std::nullopt;
  if (value->kind == Entity::Kind::Tensor) return value->view;
  report("not-a-tensor", "a tensor is needed here", (*m_ast)[ref].span);
  return std::nullopt;
}

TermId Statement::inlined(const Function& f, const Expr& e) {
  const Stmt& def = *f.def;
  std::vector<std::string> named;
  for (const auto& option : e.binders) named.emplace_back(option.name);
  if (!m_elab.hasArity(f, e.args.size(), named, e.span) || !m_elab.spend(e.span)) return error(e.span);
  if (m_elab.m_callDepth > 100) {
    report("recursive-function", "`" + std::string(e.text) + "` calls itself: functions are expanded, so they can't", e.span);
    return error(e.span);
  }
  bool good = true;
  const auto argument = [&](ExprRef ref, std::size_t at, std::string_view name) {
    if (at >= f.whole.size() || !f.whole[at]) return termArgument(ref);
    return wholeArgument(ref, "`" + std::string(name) + "` of `" + std::string(e.text) + "` takes", &f);
  };
  std::vector<Elaborator::Argument> arguments, options;
  for (std::size_t i = 0; i < e.args.size(); ++i) {
    const auto value = argument(e.args[i], i, def.parameters[i].name);
    good = good && value;
    if (value) arguments.push_back({{}, *value, (*m_ast)[e.args[i]].span});
  }
  for (const Binder& b : e.binders) {
    std::size_t at = 0;
    while (at < def.optionCount && def.binders[at].name != b.name) ++at;
    const auto value = argument(b.value, def.parameters.size() + at, b.name);
    good = good && value;
    if (value) options.push_back({std::string(b.name), *value, b.span});
  }
  if (!good) return error(e.span);
  const Ast* caller = m_ast;
  const std::size_t bindingsBase = m_bindingsBase, macrosBase = m_macrosBase, macroCount = m_macros.size();
  const std::uint32_t frame = m_elab.m_frame;
  Scope scope;
  scope.kind = Scope::Kind::Inlined;
  scope.parent = f.standard ? nullptr : &m_elab.m_global;
  scope.caller = m_elab.m_scope;
  Scope* outside = m_elab.m_scope;
  m_elab.open(std::move(scope));
  m_ast = f.ast;
  m_bindingsBase = m_bindings.size();
  m_macrosBase = m_macros.size();
  TermId result = kNoTerm;
  if (m_elab.bindParameters(f, arguments, options, e.head, this)) {
    m_elab.m_frames.push_back({e.head, frame, &f});
    m_elab.m_frame = static_cast<std::uint32_t>(m_elab.m_frames.size() - 1);
    ++m_elab.m_callDepth;
    where(def.binders, def.optionCount);
    result = term(def.value);
    --m_elab.m_callDepth;
    m_elab.m_frame = frame;
  }
  m_macros.resize(macroCount);
  m_macrosBase = macrosBase;
  m_bindingsBase = bindingsBase;
  m_ast = caller;
  m_elab.close();
  m_elab.m_scope = outside;
  return result == kNoTerm ? error(e.span) : result;
}

}  // namespace nf::lang
