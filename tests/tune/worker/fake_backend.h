// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/device/backend.h"

namespace nf {

// A back end whose kernels are the reference interpreter, and whose compiler and kernels misbehave as the schedule says:
//   {"compile": "ok" | "abort" | "hang" | "refuse" | "exit", "run": "ok" | "wrong" | "last" | "partial" | "overrun" | "crash" |
//    "tf32" | "hang" | "fail", "spin_us": N}
// "last" spoils the last element alone, "partial" leaves it unwritten, "tf32" rounds what it reads; spin_us is thread CPU time added to each launch.
Backend* fakeBackend(std::uint32_t version);

}  // namespace nf
