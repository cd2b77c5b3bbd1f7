// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <set>
#include <string>
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
// The tensors of the `hint schedule` lines that name one which a kernel of these makes.
std::set<std::string> pinsOf(const Stages& stages);
// `options`: as the stages were fused. `ofOthers`: the pins of another program, the training step where this one evaluates; its kernels
// are others, and what does not fit them is set aside without a word.
PinFindings checkPins(const Stages& stages, const StageOptions& options, const Target& target,
                      const std::set<std::string>& ofOthers = {});
std::shared_ptr<const Program> withoutSetAside(std::shared_ptr<const Program> fused, const PinFindings& pins);

// The diagnostics of each training step and of what stands beside it, or of all that the notebook computes where it trains nothing. `compile`: what
// the notebook was compiled with. `ofSteps`: takes the pins of the training steps.
Diagnostics checkSchedules(const CompiledNotebook& notebook, const CompileOptions& compile, const StageOptions& options,
                           const Target& target, std::set<std::string>* ofSteps = nullptr);
// Of what only an evaluation or a `show` needs. `ofSteps`: the pins of the training steps.
Diagnostics checkSchedulesOutsideSteps(const CompiledNotebook& notebook, const CompileOptions& compile, const StageOptions& options,
                                       const Target& target, const std::set<std::string>& ofSteps);

// Every `hint fuse` that cannot be obeyed, as warnings, of the same programs.
Diagnostics checkFusions(const CompiledNotebook& notebook, const StageOptions& options);

}  // namespace nf
