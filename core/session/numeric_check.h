// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <stop_token>
#include <string>

#include "core/ir/program.h"
#include "core/protocol/values.h"
#include "core/support/result.h"

namespace nf {

// Holds a derived gradient against central differences of the reference interpreter, in double precision on the notebook's own
// values (data files relative to `directory`, the first batch, initialisers of seed 1; where there are none, random ones): the same
// sampled elements of `wrt`, two steps extrapolated, as long as they agree best, error relative to the largest gradient element and
// beyond what rounding does to the differences. `program` is differentiated, `result` holds d(of)/d(wrt), weighted by `seed` where
// `of` is no scalar. Error: `wrt` is computed rather than given, the program is too large to interpret within `operations`, it
// can't be interpreted, a data file can't be read, or stop was requested.
Result<protocol::NumericCheck> checkNumerically(const Program& program, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                                double operations, std::stop_token stop, const std::string& directory = {});

}  // namespace nf
