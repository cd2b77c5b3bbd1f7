// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>

#include "core/runtime/execution_plan.h"
#include "core/support/diagnostic.h"
#include "core/support/result.h"

namespace nf {

// What a step holds at once, in bytes: its tensors, the second buffers of those that it updates, and the arena between operators.
struct MemoryNeed {
  double bytes = 0;
  TensorId largest;  // of the main program; invalid: there are no tensors
  double largestBytes = 0;
};
MemoryNeed memoryNeed(const ExecutionPlan& plan, bool doubles = false);

double machineMemory();  // bytes; 0: unknown

// More than `machine` bytes is an Error, of stage "allocate", before anything is allocated or filled: one tensor by one the system may
// promise all of it and end the program later. More than half is a warning at the largest tensor.
std::optional<Error> tooLarge(const MemoryNeed& need, const Program& program, double machine);
std::optional<Diagnostic> muchMemory(const MemoryNeed& need, const Program& program, double machine);

}  // namespace nf
