// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/runtime/execution_plan.h"
#include "core/support/diagnostic.h"
#include "core/support/result.h"

namespace nf {

// What a step holds at once, in bytes: its tensors, the second buffers of those that it updates, the arena between operators, and what is read
// back of them to be shown.
struct MemoryNeed {
  double bytes = 0;
  TensorId largest;  // of the main program; invalid: there are no tensors
  double largestBytes = 0;
  double readBytes = 0;  // part of `bytes`: what is read back of the largest output
};
MemoryNeed memoryNeed(const ExecutionPlan& plan, bool doubles = false, bool readsBack = false);

// What this process may use of the machine's memory.
struct MemoryLimit {
  double bytes = 0;        // 0: unknown
  bool ofProcess = false;  // a limit (`ulimit -v`) is less than the machine has

  std::string text() const;  // "this machine has 23.5 GiB", "a limit (`ulimit -v`) allows 5.72 GiB"
};
MemoryLimit memoryLimit();

// More than `limit` is an Error, of stage "allocate", before anything is allocated or filled: one tensor by one the system may
// promise all of it and end the program later. More than half is a warning at the largest tensor; so is more than all of it where nothing
// is to be run yet.
std::optional<Error> tooLarge(const MemoryNeed& need, const Program& program, const MemoryLimit& limit);
std::optional<Diagnostic> muchMemory(const MemoryNeed& need, const Program& program, const MemoryLimit& limit);
std::optional<Diagnostic> tooMuchMemory(const MemoryNeed& need, const Program& program, const MemoryLimit& limit);

}  // namespace nf
