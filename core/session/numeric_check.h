// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <stop_token>

#include "core/ir/program.h"
#include "core/protocol/values.h"
#include "core/support/result.h"

namespace nf {

// Holds a derived gradient against central differences of the reference interpreter, in double precision on random inputs: the same
// sampled elements of `wrt`, eps 1e-6, error relative to the largest gradient element. `program` is differentiated, `result` holds
// d(of)/d(wrt), weighted by `seed` where `of` is no scalar. Error: `wrt` is computed rather than given, the program is too large to
// interpret within `operations`, it can't be interpreted, or stop was requested.
Result<protocol::NumericCheck> checkNumerically(const Program& program, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                                double operations, std::stop_token stop);

}  // namespace nf
