// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// Keeps what outputs, updates and pending derivatives need; inside loops, what the loop's used results need. Tensors without a producer
// that are given from outside stay; the others are renumbered.
//   before: A = ..; B = A*2; C = A + 1; output C      after: A = ..; C = A + 1; output C
Result<Program> removeDeadOperators(const Program& program);

}  // namespace nf
