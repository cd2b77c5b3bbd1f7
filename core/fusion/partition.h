// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// One group an operator; groups with equal structural hash share their subgraph number (paper, section 5).
//   before: Y = ..; Z = ..          after: groups {Y} subgraph 0, {Z} subgraph 1
Result<Program> partition(const Program& program);

// Numbers Group::subgraph by structural hash, in order of first occurrence. Loops are subgraphs of their own.
void numberSubgraphs(Program& program);

}  // namespace nf
