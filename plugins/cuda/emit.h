// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/schedule/loop_ir.h"
#include "core/support/result.h"

namespace nf::cuda {

// A function as CUDA C: one kernel a stage, each with the same parameters (kernel_call.h). It includes preludeName().
struct EmittedSource {
  KernelText source;  // with the origins of each line
  std::vector<KernelStage> stages;
};

// Fails on loops that are no GPU's: a stage that is not Block loops around nests of Thread loops.
Result<EmittedSource> emit(const loop::Function& function);

// Columns of the warpgroup tiles that the prelude has.
inline constexpr std::array<std::int64_t, 3> kWarpgroupColumns{64, 128, 256};

const char* preludeName();
const char* preludeText();
// The part of it that any C++ compiler takes, given __device__, __forceinline__, __align__, intrinsics and constants.
const char* portablePrelude();

}  // namespace nf::cuda
