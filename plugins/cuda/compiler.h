// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/device/backend.h"

namespace nf::cuda {

// Schedules, loops and their text change meaning with it: part of the fingerprint of tuning records.
inline constexpr int kCodeGeneratorVersion = 1;

// Subgraph and schedule to a cubin for the architecture of the target (its first feature, "sm_90"). NVRTC may end the process: only
// workers call it. Texts: "loops", "cuda", "ptx".
Result<std::unique_ptr<Compiler>> makeCompiler(const Target& target);

// A target for generating code where no such device is: the figures are those of a common device of the architecture's kind and steer
// first schedules alone. Fails on an architecture below sm_75.
Result<Target> nominalTarget(const std::string& architecture);

}  // namespace nf::cuda
