// SPDX-License-Identifier: Apache-2.0
#include "core/session/describe_tokens.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace nf {
namespace {

// What a tensor of a loop's body is in the program around: what it is there, what becomes of it; else invalid.
TensorId around(const Loop& loop, TensorId inner) {
  for (const Loop::Invariant& x : loop.invariants)
    if (x.inner == inner) return x.outer;
  const Loop::Carried* carried = nullptr;
  for (const Loop::Carried& c : loop.carried)
    if (c.innerIn == inner || c.innerOut == inner) carried = &c;
  if (carried && carried->last.valid()) return carried->last;
  const auto is = [&](TensorId t) { return t == inner || (carried && (t == carried->innerOut || t == carried->innerIn)); };
  for (const Loop::Stacked& s : loop.stacked)
    if (is(s.inner)) return s.outer;
  for (const Loop::Accumulated& a : loop.accumulated)
    if (is(a.inner)) return a.outer;
  // What is carried and nothing reads behind the loop is not what the loop began with.
  return TensorId();
}

// Tensors by their names in the program around all loops.
class Around {
 public:
  explicit Around(const CompiledNotebook& notebook) : m_notebook(notebook) {}

  const Program& body() const {
    const Program* program = &m_notebook.program;
    for (const LoopId loop : m_loops) program = (*program)[loop].body.get();
    return *program;
  }

  std::string shown(TensorId tensor) const {
    std::vector<const Program*> programs{&m_notebook.program};
    for (const LoopId loop : m_loops) programs.push_back((*programs.back())[loop].body.get());
    for (std::size_t level = m_loops.size(); level > 0 && tensor.valid(); --level)
      tensor = around((*programs[level - 1])[m_loops[level - 1]], tensor);
    return tensor.valid() ? m_notebook.program[tensor].name : std::string();
  }

 protected:
  template <class Visit>
  void inBodies(const Program& program, Visit visit) {
    for (std::size_t i = 0; i < program.loops.size(); ++i) {
      if (!program.loops[i].body) continue;
      m_loops.push_back(LoopId(i));
      visit(*program.loops[i].body);
      m_loops.pop_back();
    }
  }

  const CompiledNotebook& m_notebook;
  std::vector<LoopId> m_loops;  // around what is being looked at
};

class Tokens : Around {
 public:
  Tokens(const CompiledNotebook& notebook, const OriginSpans& spans) : Around(notebook), m_spans(spans) {}

  std::vector<protocol::TokenInfo> all() {
    place(m_notebook.program);
    for (const TensorReference& r : m_notebook.references) {
      m_loops = r.loops;
      const Program& program = body();
      if (const auto number = m_spans.number(r.span)) add(program, r.span, r.tensor, {*number});
    }
    std::sort(m_tokens.begin(), m_tokens.end(),
              [](const auto& x, const auto& y) { return x.begin < y.begin || (x.begin == y.begin && x.end > y.end); });
    return std::move(m_tokens);
  }

 private:
  // What is calculated on the way to a tensor has no name in the text.
  bool names(Span span, const std::string& tensor) const {
    const std::string_view text = m_notebook.sources.text(span);
    const std::string_view word = text.substr(0, text.find_first_of("[ ="));
    return !word.empty() && tensor.starts_with(word) && (tensor.size() == word.size() || tensor[word.size()] == '#');
  }

  static std::uint64_t key(Span span) { return std::uint64_t{span.begin} << 32 | span.end; }
  bool isKnown(Span span) const { return m_seen.contains(key(span)); }

  void add(const Program& program, Span span, TensorId tensor, protocol::Origins origins) {
    if (isKnown(span)) return;
    std::string name = shown(tensor);
    if (name.empty() && !names(span, program[tensor].name)) return;
    m_seen.insert(key(span));
    m_tokens.push_back(
        {span.begin, span.end, std::move(name), m_loops.empty() ? std::string() : program[tensor].name, std::move(origins)});
  }

  void add(const Program& program, OriginId origin, TensorId tensor) {
    if (!origin.valid()) return;
    const Origin& o = program[origin];
    if (o.pass.empty() && o.span.source == m_notebook.notebook && !isKnown(o.span))
      add(program, o.span, tensor, m_spans.of(program, origin));
  }

  void place(const Program& program) {
    for (const Operator& op : program.operators)
      if (op.kind != OperatorKind::Loop && op.output.valid()) add(program, program[op.output].origin, op.output);
    for (const ScalarNode& n : program.scalars)
      if (n.op == ScalarOp::Load) add(program, n.origin, program[n.access].tensor);
    // Every statement of a body is the loop's operator: what it is for, the text says.
    if (!m_loops.empty())
      for (const Operator& op : program.operators)
        if (op.kind != OperatorKind::Loop && op.output.valid()) add(program, op.origin, op.output);
    inBodies(program, [this](const Program& body) { place(body); });
  }

  const OriginSpans& m_spans;
  std::vector<protocol::TokenInfo> m_tokens;
  std::unordered_set<std::uint64_t> m_seen;
};

class Expansions : Around {
 public:
  Expansions(const CompiledNotebook& notebook, const OriginSpans& spans) : Around(notebook), m_spans(spans) {}

  std::vector<protocol::ExpansionInfo> all() {
    place(m_notebook.program);
    placeNames();
    std::vector<protocol::ExpansionInfo> out;
    for (auto& [number, tensors] : m_tensors)
      out.push_back({number, std::move(tensors), std::move(m_madeAt[number]), std::move(m_calls[number])});
    const auto& spans = m_spans.spans();
    std::sort(out.begin(), out.end(), [&](const auto& x, const auto& y) {
      const protocol::SourceSpan &a = spans[x.span], &b = spans[y.span];
      return a.begin < b.begin || (a.begin == b.begin && a.end > b.end);
    });
    return out;
  }

 private:
  static constexpr std::size_t kMost = 64;  // tensors of a place

  static void join(std::vector<std::string>& tensors, const std::string& tensor) {
    if (tensors.size() < kMost && std::find(tensors.begin(), tensors.end(), tensor) == tensors.end()) tensors.push_back(tensor);
  }

  // What is made in a function that another one calls is in the place of that call, too; what is read, in the places that hand it over.
  void add(const Program& program, OriginId origin, const std::string& tensor, bool made, bool access = false) {
    std::unordered_set<std::uint32_t> seen;
    std::vector<OriginId> open{origin};
    while (!open.empty()) {
      const OriginId id = open.back();
      open.pop_back();
      if (!id.valid() || !seen.insert(id.value).second) continue;
      const Origin& o = program[id];
      const bool expanded = m_spans.isExpanded(o);
      const std::size_t call = o.pass == "expand" && !o.parents.empty() && !made ? 1 : 0;
      open.insert(open.end(), o.parents.rbegin(), o.parents.rend() - static_cast<std::ptrdiff_t>(call));
      const auto number = expanded ? m_spans.number(o.span) : std::nullopt;
      if (!number) continue;
      join(m_tensors[*number], tensor);
      if (!made) continue;
      join(m_madeAt[*number], tensor);
      join(m_made[o.span.begin], tensor);
      if (!access) addCalls(m_calls[*number], program, id);
    }
  }

  void addCalls(protocol::Origins& into, const Program& program, OriginId expanded) const {
    for (OriginId id = expanded; id.valid() && program[id].pass == "expand" && !program[id].parents.empty();) {
      id = program[id].parents.front();
      const auto call = id.valid() ? m_spans.number(program[id].span) : std::nullopt;
      if (call && into.size() < kMost && std::find(into.begin(), into.end(), *call) == into.end()) into.push_back(*call);
    }
  }

  // A function's name is what its body makes, up to the next function: nothing else in between is written out by calls.
  void placeNames() {
    std::map<std::uint32_t, std::uint32_t> names;  // where they begin, numbers of their spans
    for (const Symbol& s : m_notebook.symbols)
      if (s.kind == Symbol::Kind::Function && s.definition.source == m_notebook.notebook)
        if (const auto number = m_spans.number(s.definition)) names.emplace(s.definition.begin, *number);
    std::map<std::uint32_t, protocol::Origins> calls;  // by where the place begins
    for (const auto& [number, of] : m_calls) {
      protocol::Origins& all = calls[m_spans.spans()[number].begin];
      all.insert(all.end(), of.begin(), of.end());
    }
    for (auto name = names.begin(); name != names.end(); ++name) {
      const auto last = std::next(name) == names.end() ? calls.end() : calls.lower_bound(std::next(name)->first);
      protocol::Origins& own = m_calls[name->second];
      for (auto place = calls.upper_bound(name->first); place != last; ++place)
        for (const std::uint32_t call : place->second)
          if (own.size() < kMost && std::find(own.begin(), own.end(), call) == own.end()) own.push_back(call);
      const auto end = std::next(name) == names.end() ? m_made.end() : m_made.lower_bound(std::next(name)->first);
      for (auto made = m_made.upper_bound(name->first); made != end; ++made)
        for (const std::string& tensor : made->second)
          for (auto* all : {&m_tensors, &m_madeAt}) join((*all)[name->second], tensor);
    }
  }

  // What the outermost loop makes of its steps: `h` of what a call that gives `h` names `h.P`, else the first.
  std::string madeByLoop(const std::string& inner) const {
    if (m_loops.empty()) return {};
    const Program& program = m_notebook.program;
    const Loop& loop = program[m_loops.front()];
    std::vector<TensorId> made;
    for (const Loop::Carried& c : loop.carried) made.push_back(c.last);
    for (const Loop::Stacked& s : loop.stacked) made.push_back(s.outer);
    for (const Loop::Accumulated& a : loop.accumulated) made.push_back(a.outer);
    std::erase_if(made, [](TensorId t) { return !t.valid(); });
    if (made.empty()) return {};
    const std::string of = inner.substr(0, inner.find('.'));
    const auto found = std::ranges::find(made, of, [&](TensorId t) { return program[t].name; });
    return program[found == made.end() ? made.front() : *found].name;
  }

  std::string madeAs(const Program& program, TensorId tensor) const {
    std::string made = shown(tensor);
    return made.empty() ? madeByLoop(program[tensor].name) : made;  // of a step alone
  }

  void place(const Program& program) {
    for (std::size_t i = 0; i < program.operators.size(); ++i) {
      const Operator& op = program.operators[i];
      if (op.kind == OperatorKind::Loop) {
        for (const TensorId t : writesOf(program, OperatorId(i)))
          if (const std::string made = t.valid() ? madeAs(program, t) : std::string(); !made.empty())
            add(program, op.origin, made, true);
        continue;
      }
      const std::string made = op.output.valid() ? madeAs(program, op.output) : std::string();
      if (made.empty()) continue;
      add(program, op.origin, made, true);
      add(program, program[op.output].origin, made, true);
      for (const ExprId e : nodesOf(program, op.body)) {
        const ScalarNode& n = program[e];
        const std::string read = n.op == ScalarOp::Load ? shown(program[n.access].tensor) : made;
        add(program, n.origin, read.empty() ? made : read, read.empty() || read == made, n.op == ScalarOp::Load);
      }
    }
    inBodies(program, [this](const Program& body) { place(body); });
  }

  const OriginSpans& m_spans;
  std::unordered_map<std::uint32_t, std::vector<std::string>> m_tensors, m_madeAt;  // by the number of a span
  std::unordered_map<std::uint32_t, protocol::Origins> m_calls;                     // likewise
  std::map<std::uint32_t, std::vector<std::string>> m_made;                         // by where the place begins
};

}  // namespace

std::vector<protocol::ExpansionInfo> describeExpansions(const CompiledNotebook& notebook, const OriginSpans& spans) {
  return Expansions(notebook, spans).all();
}

std::vector<protocol::TokenInfo> describeTokens(const CompiledNotebook& notebook, const OriginSpans& spans) {
  return Tokens(notebook, spans).all();
}

}  // namespace nf
