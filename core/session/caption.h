// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/ir/program.h"

namespace nf {

// An operator in a few words, for a box in a picture: names without indices, bounds that only keep an access inside left out.
//   d(L)/d(W)[k, c] = sum[b: 64, p: 6] d(L)/d(Y)[b, k, p] * A[b, c, p]    ->    Σ d(L)/d(Y)·A
//   A[b, k] = select(b - 1 >= 0, X[b - 1, k], 0)                          ->    X
std::string captionOf(const Program& program, OperatorId op);

}  // namespace nf
