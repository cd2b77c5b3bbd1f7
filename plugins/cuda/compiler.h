// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/device/backend.h"

namespace nf::cuda {

// Schedules, loops and their text change meaning with it: part of the fingerprint of tuning records.
inline constexpr int kCodeGeneratorVersion = 6;

// Subgraph and schedule to a cubin for the architecture of the target (its first feature, "sm_90"), or to PTX for the driver where LLVM
// generated it and there is no ptxas. The schedule says which generator (core/schedule/generator.h); what compiles quickly is LLVM's, and
// where one cannot serve the other does. Both may end the process: only workers call it. Texts: "loops", "cuda" and "llvm", and "ptx"
// of the generator.
Result<std::unique_ptr<Compiler>> makeCompiler(const Target& target);

// A target for generating code where no such device is: the figures are those of a common device of the architecture's kind and steer
// first schedules alone. Fails on an architecture below sm_75.
Result<Target> nominalTarget(const std::string& architecture);

}  // namespace nf::cuda
