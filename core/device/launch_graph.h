// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "core/support/result.h"

// Steps that are the same each time need not be told to a device launch by launch (design: codegen, "Steps are captured into a CUDA
// graph"). An optional capability: Device::recorder().
namespace nf {

// Launches and copies in the order they were recorded in, with their addresses and loop counters.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Queues all of it behind what was queued before. seed, step: of Random, for every kernel in it. Errors as Kernel::launch.
  virtual Result<Unit> replay(std::uint64_t seed, std::uint64_t step) = 0;
};

class LaunchRecorder {
 public:
  virtual ~LaunchRecorder() = default;
  // From here to end() or discard() launches and copies within the device are noted down and not run. What no graph can hold, such as a
  // copy from or to the host, fails then.
  virtual Result<Unit> begin() = 0;
  // `earlier`, a graph of this recorder or null, is changed to what was noted down, which is cheap where kernels were swapped and little
  // else; so it must not be needed as it was. An error: the device can't replay it, and `earlier` is gone.
  virtual Result<std::unique_ptr<LaunchGraph>> end(std::unique_ptr<LaunchGraph> earlier) = 0;
  virtual void discard() = 0;

  // Of all its graphs since the device was opened.
  struct Counts {
    std::int64_t built = 0;    // whole graphs
    std::int64_t changed = 0;  // single nodes of graphs
    std::int64_t replayed = 0;
  };
  virtual Counts counts() const = 0;
};

}  // namespace nf
