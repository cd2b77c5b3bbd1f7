// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/protocol/values.h"

namespace nf::protocol {
struct GraphPage;
}

namespace nf {

// What is shown of a text that was edited since: its places, by the numbers that the analysis of the new text gives them. What lies within
// the part that differs has none.
class MovedPlaces {
 public:
  // The texts are those of the notebook; spans of other sources stay where they are.
  MovedPlaces(const std::vector<protocol::SourceSpan>& before, std::string_view textBefore,
              const std::vector<protocol::SourceSpan>& now, std::string_view textNow);
  void move(protocol::Origins& places) const;
  void move(protocol::GraphPage& graph) const;
  void move(protocol::SubgraphInfo& kernel) const;

 private:
  std::vector<std::optional<std::uint32_t>> m_now;  // by the number before
};

// Where `newer`, a graph of the same stage, has the operators of this one written.
void takePlaces(protocol::GraphPage& graph, const protocol::GraphPage& newer);

}  // namespace nf
