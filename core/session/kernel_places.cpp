// SPDX-License-Identifier: Apache-2.0
#include "core/session/kernel_places.h"

#include <algorithm>
#include <set>

namespace nf {

KernelPlaces::KernelPlaces(const OriginSpans& spans, const Program& first, const std::vector<Subgraph>& others)
    : m_spans(spans), m_programs{&first} {
  for (const Subgraph& other : others) {
    const Program& p = other.program;
    if (p.operators.size() != first.operators.size() || p.scalars.size() != first.scalars.size() ||
        p.tensors.size() != first.tensors.size())
      continue;
    m_programs.push_back(&p);
    const auto pair = [&](OriginId ours, OriginId theirs) {
      if (ours.valid() && theirs.valid()) m_same[ours].emplace_back(&p, theirs);
    };
    for (std::size_t i = 0; i < p.operators.size(); ++i) {
      pair(first.operators[i].origin, p.operators[i].origin);
      for (std::size_t k = 0; k < std::min(first.operators[i].axes.size(), p.operators[i].axes.size()); ++k)
        pair(first.operators[i].axes[k].origin, p.operators[i].axes[k].origin);
    }
    for (std::size_t i = 0; i < p.scalars.size(); ++i) pair(first.scalars[i].origin, p.scalars[i].origin);
    for (std::size_t i = 0; i < p.tensors.size(); ++i) pair(first.tensors[i].origin, p.tensors[i].origin);
  }
}

template <class SpansOf>
protocol::Origins KernelPlaces::everywhere(OriginId origin, const SpansOf& spansOf) const {
  protocol::Origins out = spansOf(*m_programs.front(), origin);
  const auto found = m_same.find(origin);
  if (found == m_same.end()) return out;
  for (const auto& [program, id] : found->second)
    for (const std::uint32_t span : spansOf(*program, id))
      if (std::find(out.begin(), out.end(), span) == out.end()) out.push_back(span);
  return out;
}

protocol::Origins KernelPlaces::of(OriginId origin) const {
  return everywhere(origin, [this](const Program& program, OriginId id) { return m_spans.of(program, id); });
}

protocol::Origins KernelPlaces::withBodies(OriginId origin) const {
  return everywhere(origin, [this](const Program& program, OriginId id) {
    protocol::Origins all = m_spans.of(program, id);
    const protocol::Origins bodies = m_spans.expandedFrom(program, id);
    all.insert(all.end(), bodies.begin(), bodies.end());
    return all;
  });
}

protocol::Origins KernelPlaces::ofAll(OperatorId op) const {
  std::set<std::uint32_t> all;
  for (const Program* program : m_programs) all.merge(m_spans.placesOf(*program, op));
  return {all.begin(), all.end()};
}

void joinReadsOfSums(Program& program, const OriginSpans& spans) {
  const auto places = [&](OriginId origin) { return std::pair(spans.of(program, origin), spans.expandedFrom(program, origin)); };
  for (ScalarNode& n : program.scalars) {
    if (n.op != ScalarOp::Load) continue;
    const OriginId made = program[program[n.access].tensor].origin;
    if (made.valid() && places(n.origin) == places(made)) n.origin = made;
  }
}

}  // namespace nf
