// SPDX-License-Identifier: Apache-2.0
#include "core/tune/function_cache.h"

#include <algorithm>

namespace nf {

FunctionCache::Entry FunctionCache::offer(const Hash& subgraph, std::shared_ptr<const KernelObject> kernel, const GateReport& gate,
                                          std::optional<double> microseconds, std::optional<double> incumbentMicroseconds) {
  if (!gate.passed || !kernel) return Entry::NotGated;
  {
    const std::lock_guard lock(m_mutex);
    Slot& slot = m_slots[subgraph];
    std::optional<double> before;
    if (slot.kernel.object && !slot.kernel.standIn) {
      before = incumbentMicroseconds ? incumbentMicroseconds : slot.kernel.microseconds;
      if (!microseconds || !before || !(*microseconds < *before)) return Entry::Slower;
    }
    slot.before = before;
    slot.error.reset();
    slot.kernel = {std::move(kernel), slot.kernel.generation + 1, microseconds, false};
    slot.version = ++m_version;
  }
  m_changed.notify_all();
  return Entry::Entered;
}

void FunctionCache::standIn(const Hash& subgraph, std::shared_ptr<const KernelObject> kernel) {
  {
    const std::lock_guard lock(m_mutex);
    Slot& slot = m_slots[subgraph];
    if (slot.kernel.object) return;
    slot.before.reset();
    slot.error.reset();
    slot.kernel = {std::move(kernel), slot.kernel.generation + 1, std::nullopt, true};
    slot.version = ++m_version;
  }
  m_changed.notify_all();
}

void FunctionCache::fail(const Hash& subgraph, Error error) {
  {
    const std::lock_guard lock(m_mutex);
    Slot& slot = m_slots[subgraph];
    if (slot.kernel.object) return;
    slot.error = std::move(error);
  }
  m_changed.notify_all();
}

void FunctionCache::revoke(const Hash& subgraph, std::uint64_t generation) {
  const std::lock_guard lock(m_mutex);
  const auto it = m_slots.find(subgraph);
  if (it == m_slots.end() || it->second.kernel.generation != generation) return;
  it->second.kernel.object.reset();
  it->second.kernel.microseconds.reset();
}

void FunctionCache::measured(const Hash& subgraph, std::uint64_t generation, double microseconds) {
  const std::lock_guard lock(m_mutex);
  const auto it = m_slots.find(subgraph);
  if (it != m_slots.end() && it->second.kernel.generation == generation) it->second.kernel.microseconds = microseconds;
}

std::optional<CachedKernel> FunctionCache::find(const Hash& subgraph) const {
  const std::lock_guard lock(m_mutex);
  const auto it = m_slots.find(subgraph);
  if (it == m_slots.end() || !it->second.kernel.object) return std::nullopt;
  return it->second.kernel;
}

std::optional<Error> FunctionCache::failure(const Hash& subgraph) const {
  const std::lock_guard lock(m_mutex);
  const auto it = m_slots.find(subgraph);
  return it == m_slots.end() ? std::nullopt : it->second.error;
}

FunctionCache::Changes FunctionCache::changesSince(std::uint64_t version) const {
  const std::lock_guard lock(m_mutex);
  Changes changes{m_version, {}};
  if (m_version == version) return changes;
  std::vector<std::pair<std::uint64_t, Change>> found;
  for (const auto& [hash, slot] : m_slots)
    if (slot.version > version && slot.kernel.object) found.push_back({slot.version, {hash, slot.kernel, slot.before}});
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [order, change] : found) changes.changes.push_back(std::move(change));
  return changes;
}

std::uint64_t FunctionCache::version() const {
  const std::lock_guard lock(m_mutex);
  return m_version;
}

bool FunctionCache::waitFor(std::span<const Hash> subgraphs, std::stop_token stop, std::chrono::milliseconds atMost) const {
  std::unique_lock lock(m_mutex);
  return m_changed.wait_for(lock, stop, atMost, [&] {
    return std::all_of(subgraphs.begin(), subgraphs.end(), [&](const Hash& hash) {
      const auto it = m_slots.find(hash);
      return it != m_slots.end() && (it->second.kernel.object || it->second.error);
    });
  });
}

}  // namespace nf
