// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/device/backend.h"
#include "core/device/profiler.h"
#include "core/runtime/run.h"

namespace nf {

// Enough for twenty steps of a net with thousands of launches; a trace of them takes some tens of megabytes.
inline constexpr std::int64_t kTracedActivities = 200'000;

// What the device's counters say of the kernels of a step.
struct CountedKernels {
  std::map<Hash, KernelCounters> kernels;  // by subgraph
  std::string missing;                     // why there are none where the device could have some; one sentence
};
// A step more of the job, where its device has counters. Fails where the step does, or by a stop.
Result<CountedKernels> countersOf(RunJob& job, Device& device, std::stop_token stop);

nlohmann::json toJson(const KernelCounters& counters);
// A table, or why there is none; nothing where the device has no counters.
void printCounters(const std::vector<std::string>& names, std::size_t width, const std::vector<KernelTime>& kernels,
                   const CountedKernels& counted);

}  // namespace nf
