// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/loop_ir.h"
#include "core/support/result.h"

namespace nf::loop {

struct LoopRun {
  std::vector<std::vector<double>>* operands = nullptr;  // by operand; outputs in their size, i32 as exact doubles
  std::span<const std::int64_t> counters;
  std::uint64_t seed = 1, step = 0;
};

// Runs a function in double precision, rounding nothing to storage types. Threads of a block run one after the other between
// barriers; two that touch one element of a shared or global buffer between the same barriers, one of them writing, are a race,
// as are two tasks or blocks of one stage. What an asynchronous copy brings is there when its thread has waited for it, what a tensor copy
// brings for each thread that has. Fails on a
// race, an offset outside its buffer, a read of what nobody wrote (or not in this block, or not yet), and on a data index out of
// range.
Result<Unit> interpret(const Function& function, const LoopRun& run);

}  // namespace nf::loop
