// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/step_graphs.h"

#include <algorithm>

namespace nf {
namespace {

constexpr std::size_t kBindings = 2;

}  // namespace

LaunchGraph* StepGraphs::of(const std::vector<void*>& buffers, const std::vector<std::shared_ptr<LinkedKernel>>& kernels,
                            const std::function<Result<Unit>()>& record) {
  LaunchRecorder* const recorder = m_device.recorder();
  if (!recorder || m_steps++ == 0 || m_refused == m_version) return nullptr;
  auto found = std::find_if(m_recorded.begin(), m_recorded.end(), [&](const Recorded& r) { return r.buffers == buffers; });
  if (found != m_recorded.end() && found->version == m_version) {
    found->used = m_steps;
    return found->graph.get();
  }
  if (found == m_recorded.end()) {
    // With other addresses the nodes are the same ones: what was used longest ago is changed.
    if (m_recorded.size() < kBindings) found = m_recorded.emplace(m_recorded.end());
    else
      found = std::min_element(m_recorded.begin(), m_recorded.end(),
                               [](const Recorded& a, const Recorded& b) { return a.used < b.used; });
  }
  Recorded& recorded = *found;
  const auto refuse = [&] {
    m_refused = m_version;
    m_recorded.erase(found);
    return nullptr;
  };
  if (!recorder->begin()) return refuse();
  if (!record()) {
    recorder->discard();
    return refuse();
  }
  auto graph = recorder->end(std::move(recorded.graph));
  if (!graph) return refuse();
  recorded.graph = std::move(*graph);
  recorded.buffers = buffers;
  recorded.kernels = kernels;
  recorded.version = m_version;
  recorded.used = m_steps;
  return recorded.graph.get();
}

}  // namespace nf
