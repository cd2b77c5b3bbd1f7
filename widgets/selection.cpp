// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/selection.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nf {

using protocol::SourceSpan;

void Selection::setSpans(std::vector<SourceSpan> spans, Functions functions) {
  m_functions = std::move(functions);
  const std::vector<SourceSpan> before = std::exchange(m_spans, std::move(spans));
  for (protocol::Origins* places : {&m_selected, &m_body, &m_written}) {
    protocol::Origins kept;
    for (const auto id : *places) {
      if (id >= before.size()) continue;
      const auto found = std::find(m_spans.begin(), m_spans.end(), before[id]);
      if (found != m_spans.end()) kept.push_back(static_cast<std::uint32_t>(found - m_spans.begin()));
    }
    *places = std::move(kept);
  }
  if (m_spans.empty()) m_tensors.clear();
  relate();
  Q_EMIT changed();
}

protocol::Origins Selection::expandedOf(const protocol::Origins& places) const {
  protocol::Origins expanded;
  std::ranges::copy_if(places, std::back_inserter(expanded), [this](std::uint32_t p) { return m_functions.expanded.contains(p); });
  return expanded;
}

void Selection::select(const protocol::Origins& origins, std::vector<std::string> tensors) {
  if (m_body.empty() && tensors == m_tensors && (!tensors.empty() || origins == m_selected)) return;
  m_selected = origins;
  m_tensors = std::move(tensors);
  m_body.clear();
  m_written.clear();
  m_reads.clear();
  ++m_choices;
  relate();
  Q_EMIT changed();
}

void Selection::place(const protocol::Origins& origins) {
  if (origins == m_selected) return;
  m_selected = origins;
  relate();
  Q_EMIT changed();
}

void Selection::call(std::vector<std::string> tensors) {
  if (tensors == m_tensors) return;
  m_tensors = std::move(tensors);
  Q_EMIT changed();
}

void Selection::callIn(protocol::Origins body, std::vector<std::string> tensors, bool reads) {
  if (tensors == m_tensors && body == m_body) return;
  m_readsThere = reads;
  m_body = std::move(body);
  m_tensors = std::move(tensors);
  relate();
  Q_EMIT changed();
}

void Selection::write(protocol::Origins places) {
  if (places == m_written) return;
  m_written = std::move(places);
  Q_EMIT changed();
}

void Selection::read(std::string tensor) {
  if (tensor == m_reads) return;
  m_reads = std::move(tensor);
  Q_EMIT changed();
}

protocol::Origins Selection::innermost(const protocol::Origins& origins) const {
  const auto holds = [this](std::uint32_t outer, std::uint32_t inner) {
    if (outer >= m_spans.size() || inner >= m_spans.size()) return false;
    const SourceSpan &a = m_spans[outer], &b = m_spans[inner];
    return a.source == b.source && a.begin <= b.begin && a.end >= b.end && a.end - a.begin > b.end - b.begin;
  };
  protocol::Origins out;
  for (const auto o : origins)
    if (std::none_of(origins.begin(), origins.end(), [&](std::uint32_t k) { return holds(o, k); })) out.push_back(o);
  return out;
}

bool Selection::isCalled(std::string_view tensor) const {
  return std::find(m_tensors.begin(), m_tensors.end(), tensor) != m_tensors.end();
}

Selection::Relation Selection::relation(const std::vector<std::string>& tensors, const protocol::Origins& origins) const {
  if (m_tensors.empty()) return relation(origins);
  return std::any_of(tensors.begin(), tensors.end(), [this](const auto& t) { return isCalled(t); }) ? Relation::Exact
                                                                                                    : Relation::None;
}

void Selection::selectBytes(std::uint32_t begin, std::uint32_t end) {
  std::uint32_t smallest = 0xffffffffu;
  protocol::Origins found;
  for (std::size_t i = 0; i < m_spans.size(); ++i) {
    const SourceSpan& s = m_spans[i];
    if (!s.source.empty() || s.begin > begin || s.end < end || s.begin >= s.end) continue;
    const std::uint32_t length = s.end - s.begin;
    if (length < smallest) found.clear(), smallest = length;
    if (length == smallest) found.push_back(static_cast<std::uint32_t>(i));
  }
  select(found);
}

void Selection::relate() {
  m_relation = relationsTo(m_selected);
  m_ofBody = relationsTo(m_body);
}

std::vector<Selection::Relation> Selection::relationsTo(const protocol::Origins& all) const {
  std::vector<Relation> relations(m_spans.size(), Relation::None);
  for (const auto id : all) {
    if (id >= m_spans.size()) continue;
    const SourceSpan& chosen = m_spans[id];
    for (std::size_t i = 0; i < m_spans.size(); ++i) {
      const SourceSpan& s = m_spans[i];
      if (s.source != chosen.source) continue;
      if (s.begin >= chosen.begin && s.end <= chosen.end) relations[i] = Relation::Exact;
      else if (s.begin <= chosen.begin && s.end >= chosen.end) relations[i] = std::max(relations[i], Relation::Around);
    }
  }
  return relations;
}

Selection::Relation Selection::relation(const protocol::Origins& origins) const { return best(m_relation, origins); }

Selection::Relation Selection::relationOfPlaces(const protocol::Origins& places) const {
  return best(m_body.empty() ? m_relation : m_ofBody, places);
}

Selection::Relation Selection::best(const std::vector<Relation>& relations, const protocol::Origins& origins) {
  Relation best = Relation::None;
  for (const auto id : origins)
    if (id < relations.size()) best = std::max(best, relations[id]);
  return best;
}

std::vector<SourceSpan> Selection::selectedSpans() const {
  std::vector<SourceSpan> out;
  for (const auto id : m_selected)
    if (id < m_spans.size() && m_spans[id].source.empty()) out.push_back(m_spans[id]);
  return out;
}

}  // namespace nf
