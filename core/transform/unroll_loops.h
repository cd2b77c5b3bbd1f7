// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// Replaces each Loop of at most `mostTrips` steps by that many copies of its body, inner loops first (the paper's form). Names gain
// the step: "z.0", "z.1". Fails where the copies would be more than a million operators.
//   before: for t in 0..2 { h = f(h, X[t]) }      after: h.0 = f(h, X[0]); h.1 = f(h.0, X[1])
Result<Program> unrollLoops(const Program& program, std::int64_t mostTrips = 1 << 20);

}  // namespace nf
