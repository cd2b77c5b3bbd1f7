// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <optional>

#include "core/support/result.h"

namespace nf::cuda {

// Whether the driver recovers from what it returned: the call failed, and nothing else. What is not known to be so leaves memory or the
// program in an unknown state, and every later call fails the same way (cuda.h, CUresult: "the process must be terminated and
// relaunched").
bool recoverable(CUresult code);

// The first error that this process lost device `number` by, until the process ends: a context that is opened anew has it, too.
void rememberLoss(int number, const Error& error);
std::optional<Error> lossOf(int number);

}  // namespace nf::cuda
