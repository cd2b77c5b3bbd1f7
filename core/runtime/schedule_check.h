// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"

namespace nf {

// Every `hint schedule` that its kernel can't have on this target, at its place, with the knob and what is wrong with it: of each training
// step, or of all that the notebook computes where it trains nothing. `options`: as it would be fused on the device.
Diagnostics checkSchedules(const CompiledNotebook& notebook, const StageOptions& options, const Target& target);

// Every `hint fuse` that cannot be obeyed, as warnings, of the same programs.
Diagnostics checkFusions(const CompiledNotebook& notebook, const StageOptions& options);

}  // namespace nf
