// SPDX-License-Identifier: Apache-2.0
#include "core/session/origin_spans.h"

#include <algorithm>
#include <unordered_set>

namespace nf {

OriginSpans::OriginSpans(const Program& source, const SourceMap& sources, SourceId notebook,
                         const std::vector<TensorReference>& references, const std::vector<Symbol>& symbols)
    : m_sources(sources), m_notebook(notebook) {
  const auto add = [this](Span span) {
    const Key key{span.source.value, span.begin, span.end};
    if (m_numbers.emplace(key, static_cast<std::uint32_t>(m_spans.size())).second) m_spans.push_back(place(span));
  };
  std::unordered_set<std::uint32_t> accesses;  // where they begin in the notebook
  const auto note = [&](const Program& program, auto&& self) -> void {
    for (const Origin& origin : program.origins)
      if (origin.span.valid() && (origin.pass.empty() || isExpanded(origin))) add(origin.span);
    for (const ScalarNode& n : program.scalars) {
      if (n.op != ScalarOp::Load || !n.origin.valid()) continue;
      const Origin& origin = program[n.origin];
      if (origin.pass.empty() && origin.span.source == m_notebook) accesses.insert(origin.span.begin);
    }
    for (const Loop& loop : program.loops)
      if (loop.body) self(*loop.body, self);
  };
  note(source, note);
  for (const TensorReference& r : references)
    if (!accesses.contains(r.span.begin)) add(r.span);
  for (const Symbol& s : symbols)
    if (s.kind == Symbol::Kind::Function && s.definition.source == m_notebook) add(s.definition);
}

bool OriginSpans::isExpanded(const Origin& origin) const { return origin.pass == "expand" && origin.span.source == m_notebook; }

std::optional<std::uint32_t> OriginSpans::number(Span span) const {
  const auto found = m_numbers.find(Key{span.source.value, span.begin, span.end});
  return found == m_numbers.end() ? std::nullopt : std::optional(found->second);
}

protocol::SourceSpan OriginSpans::place(Span span) const {
  protocol::SourceSpan result;
  if (!span.valid()) return result;
  if (span.source != m_notebook && span.source.value < m_sources.size()) result.source = m_sources.at(span.source).name;
  result.begin = span.begin;
  result.end = span.end;
  return result;
}

protocol::Origins OriginSpans::of(const Program& program, OriginId origin) const {
  return among(program, origin, [](const Origin& o) { return o.pass.empty(); });
}

protocol::Origins OriginSpans::expandedFrom(const Program& program, OriginId origin) const {
  return among(program, origin, [this](const Origin& o) { return isExpanded(o); });
}

std::set<std::uint32_t> OriginSpans::placesOf(const Program& program, OperatorId op) const {
  std::set<std::uint32_t> places;
  addPlaces(places, program, op);
  return places;
}

void OriginSpans::addPlaces(std::set<std::uint32_t>& into, const Program& program, OperatorId id) const {
  const Operator& op = program[id];
  addPlaces(into, program, op.origin);
  if (op.kind == OperatorKind::Loop) {
    const Program& body = *program[op.loop].body;
    for (std::size_t i = 0; i < body.operators.size(); ++i) addPlaces(into, body, OperatorId(i));
    return;
  }
  if (op.output.valid()) addPlaces(into, program, program[op.output].origin);
  for (const Axis& axis : op.axes) addPlaces(into, program, axis.origin);
  std::unordered_set<std::uint32_t> seen;
  const auto add = [&](ExprId root) {
    for (const ExprId e : nodesOf(program, root))
      if (seen.insert(program[e].origin.value).second) addPlaces(into, program, program[e].origin);
  };
  add(op.body);
  for (const AccessIndex& index : op.scatter)
    if (index.isData()) add(index.data);
}

void OriginSpans::addPlaces(std::set<std::uint32_t>& into, const Program& program, OriginId origin) const {
  for (const protocol::Origins& places : {of(program, origin), expandedFrom(program, origin)})
    into.insert(places.begin(), places.end());
}

protocol::Origins OriginSpans::readAt(const Program& program, OriginId access) const {
  protocol::Origins result;
  const auto note = [&](const Origin& o) {
    const auto place = o.span.valid() ? number(o.span) : std::nullopt;
    if (place && std::find(result.begin(), result.end(), *place) == result.end()) result.push_back(*place);
  };
  // What nobody hands over, a parameter of the notebook, is read by the calls, too.
  for (OriginId id = access; id.valid();) {
    const Origin& o = program[id];
    if (o.pass.empty() || isExpanded(o)) note(o);
    const std::size_t calls = o.pass == "expand" && !o.parents.empty() ? 1 : 0;  // the call is the first
    for (std::size_t i = calls; i < o.parents.size(); ++i)
      if (o.parents[i].valid()) note(program[o.parents[i]]);
    id = o.parents.size() == 1 ? o.parents.front() : OriginId();
  }
  return result;
}

template <class Wanted>
protocol::Origins OriginSpans::among(const Program& program, OriginId origin, const Wanted& wanted) const {
  constexpr std::size_t kMost = 64, kMostVisited = 4096;
  protocol::Origins result;
  std::unordered_set<std::uint32_t> seen;
  std::vector<OriginId> queue{origin};
  for (std::size_t i = 0; i < queue.size() && i < kMostVisited && result.size() < kMost; ++i) {
    const OriginId id = queue[i];
    if (!id.valid() || id.value >= program.origins.size() || !seen.insert(id.value).second) continue;
    const Origin& o = program[id];
    if (o.span.valid() && wanted(o)) {
      const auto place = number(o.span);
      if (place && std::find(result.begin(), result.end(), *place) == result.end()) result.push_back(*place);
    }
    queue.insert(queue.end(), o.parents.begin(), o.parents.end());
  }
  return result;
}

}  // namespace nf
