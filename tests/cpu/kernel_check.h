// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <string>

#include "core/device/backend.h"
#include "core/ir/program.h"
#include "tests/kernel_cases.h"

namespace nf::test {

Target hostTarget(int threads = 1);
Backend& cpu();

// Compiles the program under the schedule, runs it on the device, and compares with the reference by features.md's EQ. Empty: equal.
std::string compare(const Program& p, const Schedule& schedule, const Target& target, Device& device, std::mt19937_64& rng,
                    std::vector<std::int64_t> counters = {}, int integerLimit = 4);
std::string compareFirst(const Program& p, std::mt19937_64& rng, int threads = 1, std::vector<std::int64_t> counters = {},
                         int integerLimit = 4);

}  // namespace nf::test
