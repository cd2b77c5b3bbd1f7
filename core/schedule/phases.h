// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "core/autodiff/phase.h"
#include "core/ir/program.h"

namespace nf::loop {

// The phase split (design: autodiff, section 4) of a subgraph that is about to be scheduled: an output axis z that stands under floor
// divisions becomes z = h*z' + phi with axes z' and phi, where h divides its extent. The tensor [.., Z, ..] is then [.., Z/h, h, ..], which
// is the same memory, so operands and results are bound as before. What the subgraph reads of such a tensor follows.
//   before: dX[z: 8] = sum[t: 2] select(z//2 >= t, dY[z//2 - t]*W[z%2 + 2*t], 0)
//   after : dX[z: 4, z_phase: 2] = sum[t: 2] select(z >= t, dY[z - t]*W[z_phase + 2*t], 0)
// nullopt: no axis is to be split.
std::optional<Program> withPhases(const Program& program, const PhaseOptions& options = {});

}  // namespace nf::loop
