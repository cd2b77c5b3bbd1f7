// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// Folds constants and neutral elements in every body, index conditions that the ranges of axes or the selects around them decide, and
// nodes that stand twice in one body. `training`, where it is given, becomes a literal too.
//   before: select(i >= 0, X[i]*1, 0) + 2*3      after: X[i] + 6
// A scatter that adds nothing but zeros becomes zeros.
Result<Program> simplifyScalars(const Program& program, std::optional<bool> training = {});

}  // namespace nf
