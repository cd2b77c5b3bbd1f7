// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace nf {
namespace {

// Free intervals of an arena that grows at its end.
class FreeList {
 public:
  std::int64_t take(std::int64_t bytes) {
    auto fit = m_bySize.lower_bound({bytes, 0});
    if (fit == m_bySize.end()) {
      // None is large enough: one that ends the arena is stretched.
      std::int64_t start = m_end;
      if (!m_byOffset.empty()) {
        const auto last = std::prev(m_byOffset.end());
        if (last->first + last->second == m_end) {
          start = last->first;
          remove(last->first, last->second);
        }
      }
      m_end = start + bytes;
      return start;
    }
    const auto [size, offset] = *fit;
    remove(offset, size);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(std::int64_t offset, std::int64_t bytes) {
    auto next = m_byOffset.lower_bound(offset);
    if (next != m_byOffset.end() && offset + bytes == next->first) {
      const std::int64_t size = next->second;
      remove(next->first, size);
      bytes += size;
      next = m_byOffset.lower_bound(offset);
    }
    if (next != m_byOffset.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        const auto [start, size] = *before;
        remove(start, size);
        offset = start;
        bytes += size;
      }
    }
    insert(offset, bytes);
  }

  std::int64_t end() const { return m_end; }

 private:
  void insert(std::int64_t offset, std::int64_t bytes) {
    m_byOffset.emplace(offset, bytes);
    m_bySize.emplace(bytes, offset);
  }
  void remove(std::int64_t offset, std::int64_t bytes) {
    m_byOffset.erase(offset);
    m_bySize.erase({bytes, offset});
  }
  std::map<std::int64_t, std::int64_t> m_byOffset;
  std::set<std::pair<std::int64_t, std::int64_t>> m_bySize;
  std::int64_t m_end = 0;
};

MemoryPlan inOrderOfLaunches(std::span<const MemoryRequest> requests) {
  MemoryPlan plan;
  plan.offsets.resize(requests.size());
  std::vector<std::uint32_t> starts(requests.size());
  std::iota(starts.begin(), starts.end(), 0u);
  // Of those that start together the largest first: it has the fewest places to go.
  std::sort(starts.begin(), starts.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(requests[a].first, -requests[a].bytes, a) < std::tuple(requests[b].first, -requests[b].bytes, b);
  });
  std::multimap<std::uint32_t, std::uint32_t> running;  // last -> request
  FreeList free;
  for (const std::uint32_t r : starts) {
    while (!running.empty() && running.begin()->first < requests[r].first) {
      const std::uint32_t over = running.begin()->second;
      free.give(plan.offsets[over], aligned(requests[over].bytes));
      running.erase(running.begin());
    }
    if (requests[r].bytes == 0) continue;
    plan.offsets[r] = free.take(aligned(requests[r].bytes));
    running.emplace(requests[r].last, r);
  }
  plan.bytes = free.end();
  return plan;
}

MemoryPlan bySize(std::span<const MemoryRequest> requests) {
  MemoryPlan plan;
  plan.offsets.resize(requests.size());
  std::vector<std::uint32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<std::uint32_t> placed;  // by offset
  for (const std::uint32_t r : order) {
    const std::int64_t bytes = aligned(requests[r].bytes);
    if (bytes == 0) continue;
    std::int64_t at = 0, best = -1, bestGap = 0;
    for (const std::uint32_t p : placed) {
      if (requests[p].last < requests[r].first || requests[r].last < requests[p].first) continue;
      const std::int64_t gap = plan.offsets[p] - at;
      if (gap >= bytes && (best < 0 || gap < bestGap)) {
        best = at;
        bestGap = gap;
      }
      at = std::max(at, plan.offsets[p] + aligned(requests[p].bytes));
    }
    plan.offsets[r] = best >= 0 ? best : at;
    plan.bytes = std::max(plan.bytes, plan.offsets[r] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), r,
                                   [&](std::uint32_t a, std::uint32_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  r);
  }
  return plan;
}

}  // namespace

MemoryPlan planMemory(std::span<const MemoryRequest> requests) {
  constexpr std::size_t kQuadraticUpTo = 4096;
  MemoryPlan plan = inOrderOfLaunches(requests);
  if (requests.size() > kQuadraticUpTo) return plan;
  MemoryPlan other = bySize(requests);
  return other.bytes < plan.bytes ? other : plan;
}

}  // namespace nf
