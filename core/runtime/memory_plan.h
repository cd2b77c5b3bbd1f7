// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace nf {

inline constexpr std::int64_t kAlignment = 64;
inline std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A block of memory that is in use during the launches [first, last].
struct MemoryRequest {
  std::int64_t bytes = 0;
  std::uint32_t first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // by request, multiples of 64
  std::int64_t bytes = 0;             // of the arena
};

// Offsets in one arena such that blocks in use at the same time never overlap. Best fit in order of launches, O(n log n); up to a few
// thousand blocks also best fit by falling size, and the smaller arena of the two wins.
MemoryPlan planMemory(std::span<const MemoryRequest> requests);

}  // namespace nf
