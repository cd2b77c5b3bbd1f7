// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/support/result.h"

namespace nf {

// The stage of an Error that says why counters or activities can't be had; the work itself is as good without them.
inline constexpr const char* kCountersStage = "counters";

// Something a device did, by its own account. Times are nanoseconds of std::chrono::steady_clock.
struct DeviceActivity {
  enum class Kind : std::uint8_t { Kernel, Copy, Fill, GraphLaunch };
  static constexpr std::uint64_t kNoLaunch = UINT64_MAX;
  Kind kind = Kind::Kernel;
  std::int64_t begin = 0, end = 0;
  std::uint64_t launch = kNoLaunch;  // as Profiler::launching() was told; none: of nothing that was announced
  std::uint32_t stream = 0;
  std::int64_t bytes = 0;  // of a copy or a fill
  std::string name;        // a kernel's symbol; "host to device"
};

// What the counters of a device say of one launch of a kernel, all its stages together.
struct KernelCounters {
  double us = 0;
  double flops = 0;                   // additions and multiplications in floating point, a fused one counts two
  double dramBytes = 0, l2Bytes = 0;  // moved
  double occupancy = 0;               // resident warps, of those that a multiprocessor holds, 0..1
  struct Stall {
    std::string reason;  // "long_scoreboard"
    double share = 0;    // of the warps' cycles in which nothing was issued, 0..1
    friend bool operator==(const Stall&, const Stall&) = default;
  };
  std::vector<Stall> stalls;  // the greatest first
  // Samples of the program counter by line of the kernel's own text, the most first.
  struct Line {
    std::uint32_t line = 0;  // from 1; 0: of no line
    std::int64_t samples = 0;
    std::string reason;  // why warps stood there most often
    friend bool operator==(const Line&, const Line&) = default;
  };
  std::vector<Line> lines;
  std::string withoutLines;  // why there are none, one sentence; empty: there are, or no sample was taken
  friend bool operator==(const KernelCounters&, const KernelCounters&) = default;
};

// A device's own account of what it does. One thread at a time, the one that launches.
class Profiler {
 public:
  virtual ~Profiler() = default;
  // Records from here on. Fails in one sentence where this device or this user may not.
  virtual Result<Unit> start() = 0;
  // What this thread queues from now on belongs to this launch; kNoLaunch: to none.
  virtual void launching(std::uint64_t launch) = 0;
  // Waits for the device and yields what it did since start(), by begin.
  virtual Result<std::vector<DeviceActivity>> stop() = 0;
  // Runs `launch` as often as the counters take passes, apart from every other work. It leaves the kernel's inputs as they are.
  virtual Result<KernelCounters> count(const std::function<Result<Unit>()>& launch) = 0;
};

}  // namespace nf
