// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/device/profiler.h"
#include "plugins/cuda/cupti/cupti.h"

namespace nf::cuda {

// The metrics that are asked for, by their names in CUPTI. A chip may lack some: they are left out.
//   time, occupancy and bytes   gpu__time_duration.sum, sm__warps_active.., dram__bytes.sum, lts__t_bytes.sum
//   arithmetic                  threads that executed an addition, multiplication or fused one, by type; the tensor paths' operations
//   stalls                      warps that wait for each reason, a cycle in which something was issued
// Source: NVIDIA, Nsight Compute, "Kernel Profiling Guide", metrics reference, and the sections of the tool that use them.
const std::vector<const char*>& metricNames();
// What their values mean together. values[i] is of names[i].
KernelCounters countersFrom(const std::vector<const char*>& names, const std::vector<double>& values);

// One range around `launch`, which is run once a pass, with everything it launches: CUPTI's range profiler in user replay.
Result<KernelCounters> countRange(const Cupti& cupti, CUcontext context, int device,
                                  const std::function<Result<Unit>()>& launchAndWait);

// Samples of the program counter while `launch` runs, several times where it is short, by line of the text that `code` was compiled from.
struct SampledLines {
  std::vector<KernelCounters::Line> lines;  // the most first
  std::string without;                      // why there are none
};
SampledLines sampleLines(const Cupti& cupti, CUcontext context, const std::function<Result<Unit>()>& launchAndWait,
                         const std::function<std::span<const std::byte>()>& code);

}  // namespace nf::cuda
