// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"

namespace nf {

// What is to be said of the `hint schedule` lines of a fused program, at their places, with the knob and what is wrong with it. An error:
// no kernel of its tensor has such a schedule. A warning: the kernel that has it is one of another fusion, as other figures of the device
// decide it; with the hints that bring it about here. Training goes on without the ones in `setAside`.
struct PinFindings {
  Diagnostics diagnostics;
  std::vector<std::size_t> setAside;  // hints of the fused program
};
// `options`: as the stages were fused.
PinFindings checkPins(const Stages& stages, const StageOptions& options, const Target& target);
// Of a program that is not the training step, whose kernels the hints are for: those that it has otherwise are set aside.
PinFindings pinsOfOthers(const Stages& stages, const Target& target);
std::shared_ptr<const Program> withoutSetAside(std::shared_ptr<const Program> fused, const PinFindings& pins);

// The diagnostics of each training step, or of all that the notebook computes where it trains nothing.
Diagnostics checkSchedules(const CompiledNotebook& notebook, const StageOptions& options, const Target& target);

// Every `hint fuse` that cannot be obeyed, as warnings, of the same programs.
Diagnostics checkFusions(const CompiledNotebook& notebook, const StageOptions& options);

}  // namespace nf
