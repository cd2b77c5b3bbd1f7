// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/device/backend.h"

namespace nf {

struct LinkedKernel;

// The steps of one executable as graphs of its device, one by the buffers that its values stand in: updated tensors have two, which
// change places after each step, so there are two graphs in turn. On a device without a recorder there is never one.
class StepGraphs {
 public:
  explicit StepGraphs(Device& device) : m_device(device) {}

  // The graph of a step that reads and writes these buffers with these kernels. `record` queues the step. Made in the second step that
  // could have one: the first one is due at once, and may be the only one. Null: the device does not record, or can't take this step
  // (it is tried again with other kernels); the step is to be launched as it is.
  LaunchGraph* of(const std::vector<void*>& buffers, const std::vector<std::shared_ptr<LinkedKernel>>& kernels,
                  const std::function<Result<Unit>()>& record);
  // Other kernels or another workspace: graphs are changed when they are next wanted.
  void outdate() { ++m_version; }
  void clear() { m_recorded.clear(); }

 private:
  struct Recorded {
    std::vector<void*> buffers;
    std::uint64_t version = 0;
    std::uint64_t used = 0;
    // What the graph launches lives as long as it.
    std::vector<std::shared_ptr<LinkedKernel>> kernels;
    std::unique_ptr<LaunchGraph> graph;
  };
  Device& m_device;
  std::vector<Recorded> m_recorded;
  std::uint64_t m_version = 1, m_refused = 0, m_steps = 0;
};

}  // namespace nf
