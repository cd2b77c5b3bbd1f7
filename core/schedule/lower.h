// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/schedule/loop_ir.h"
#include "core/schedule/schedule.h"
#include "core/support/result.h"

namespace nf {

// The loops of a subgraph under a schedule of its space. Operands in binding order: producer-less tensors by id, then the
// program's outputs. Before: `Y[i] = sum[k] A[i,k]*B[k]` and {"vector":"k","lanes":16}. After: a Parallel loop over i around 16-lane
// accumulation over k and a fixed tree. Fails where the schedule is not legal here, naming the knob.
Result<loop::Function> lower(const Program& subgraph, const Schedule& schedule, const Target& target);

}  // namespace nf
