// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/moved_places.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "core/protocol/message.h"

namespace nf {

using namespace protocol;

MovedPlaces::MovedPlaces(const std::vector<SourceSpan>& before, std::string_view textBefore, const std::vector<SourceSpan>& now,
                         std::string_view textNow)
    : m_now(before.size()) {
  const std::size_t shorter = std::min(textBefore.size(), textNow.size());
  std::size_t same = 0, sameAtEnd = 0;
  while (same < shorter && textBefore[same] == textNow[same]) ++same;
  while (sameAtEnd < shorter - same && textBefore[textBefore.size() - 1 - sameAtEnd] == textNow[textNow.size() - 1 - sameAtEnd])
    ++sameAtEnd;
  const auto shift = static_cast<std::int64_t>(textNow.size()) - static_cast<std::int64_t>(textBefore.size());
  std::map<std::tuple<std::string_view, std::int64_t, std::int64_t>, std::uint32_t> numbers;
  for (std::size_t i = 0; i < now.size(); ++i)
    numbers.emplace(std::tuple(std::string_view(now[i].source), now[i].begin, now[i].end), static_cast<std::uint32_t>(i));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const SourceSpan& s = before[i];
    const bool behind = s.source.empty() && s.end > same;
    if (behind && s.begin < textBefore.size() - sameAtEnd) continue;
    const std::int64_t by = behind ? shift : 0;
    const auto found = numbers.find(std::tuple(std::string_view(s.source), s.begin + by, s.end + by));
    if (found != numbers.end()) m_now[i] = found->second;
  }
}

void MovedPlaces::move(Origins& places) const {
  Origins moved;
  for (const std::uint32_t place : places)
    if (place < m_now.size() && m_now[place]) moved.push_back(*m_now[place]);
  places = std::move(moved);
}

void MovedPlaces::move(GraphPage& graph) const {
  for (GraphNode& node : graph.nodes) {
    move(node.origins);
    move(node.places);
    std::ranges::sort(node.places);
    for (MergedOperator& m : node.merged) move(m.origins);
  }
  for (GraphGroup& group : graph.groups) move(group.origins);
}

void MovedPlaces::move(SubgraphInfo& kernel) const {
  move(kernel.origins);
  move(kernel.places);
  std::ranges::sort(kernel.places);
}

void takePlaces(GraphPage& graph, const GraphPage& newer) {
  if (graph.stage != newer.stage) return;
  std::unordered_map<std::string_view, const GraphNode*> known;
  for (const GraphNode& node : newer.nodes) known.emplace(node.id, &node);
  for (GraphNode& node : graph.nodes)
    if (const auto found = known.find(node.id); found != known.end()) {
      node.origins = found->second->origins;
      node.places = found->second->places;
      node.merged = found->second->merged;
    }
}

}  // namespace nf
