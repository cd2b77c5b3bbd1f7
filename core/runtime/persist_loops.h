// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/schedule/schedule.h"

namespace nf {

// Loops, in bodies of others too, that run as one kernel over all their steps (Loop::persistent; core/schedule/recurrence.h). On a target
// with the template `recurrence`: those that a `hint schedule H { kind = recurrence; .. }` names by a tensor that they hand on, and those of
// which the analytic model says that one kernel takes less time than their body's kernels at each step. Where a hint pins a kernel of the
// body, the loop stays as it is.
//   before: for t in 0..512 { Z = ..; H = .. }   2 kernels, 1024 launches
//   after : the same, persistent                 1 kernel, 1 launch
Program persistLoops(Program fused, const Target& target);

}  // namespace nf
