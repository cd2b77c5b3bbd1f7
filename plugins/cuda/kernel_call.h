// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace nf::cuda {

// Parameters of every compiled kernel, in this order; the layout is part of the code generator's version:
//   a pointer an operand, in binding order; the workspace; Counters; const u64* random (seed, step); u64* status; u32 kernel;
//   then the stage's own: a CUtensorMap for each of KernelStage::maps.
// status[0] is 0, or kernel << 32 | 1 + the check that failed; status[1] is the value it met. The low half of status[2] is the word at which
// blocks of one grid meet (nf_grid_barrier): zero at first, and no launch leaves anything but its highest bit changed.
inline constexpr std::size_t kStatusWords = 3;
inline constexpr std::size_t kMostCounters = 8;
struct Counters {
  std::int64_t of[kMostCounters] = {};
};

// Parameters of a kernel take 4 KiB at most, a map as much as so many operands.
inline constexpr std::size_t kMostOperands = 480, kOperandsOfMap = 24;

}  // namespace nf::cuda
