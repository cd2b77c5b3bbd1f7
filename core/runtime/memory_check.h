// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/lang/compile.h"
#include "core/runtime/memory_need.h"
#include "core/runtime/pipeline.h"

namespace nf {

// Whether a step of the notebook could come near `limit`: by the size of its tensors, gradients guessed, without a pass over the program.
bool mayTakeMuch(const CompiledNotebook& notebook, const MemoryLimit& limit);

// A warning where a training step, or what the notebook shows, takes more than half of `limit` as the passes lay it out: of the one that
// takes most, at its largest tensor.
Diagnostics checkMemory(const CompiledNotebook& notebook, const StageOptions& options, const MemoryLimit& limit);

}  // namespace nf
