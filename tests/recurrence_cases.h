// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>

#include "tests/kernel_cases.h"

namespace nf::test {

// A subgraph that is one Loop. Random: extents, direction, carried values of rank 0 to 2, sums over all units, gates, which values are
// stacked, summed over the steps or handed on.
Program randomRecurrence(std::mt19937_64& rng, std::int64_t leastSteps = 1);

// h = tanh(U h + x_t), of `batch` rows and `units`.
Program plainRecurrence(std::int64_t steps, std::int64_t batch, std::int64_t units);

}  // namespace nf::test
