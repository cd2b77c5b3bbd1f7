// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <random>
#include <string>

#include "core/schedule/loop_ir.h"
#include "core/schedule/schedule.h"
#include "tests/kernel_cases.h"

namespace nf::test {

Target gpuTarget(const std::string& architecture = "sm_80");
Schedule scheduled(const std::string& knobs, const std::string& kind = "contraction");

// The unit that a contraction multiplies on, "fma" or a matrix unit; of other schedules empty.
std::string unitOf(const Schedule& s);
// A random schedule that uses the matrix units, if the space has one.
std::optional<Schedule> randomMatrix(const ScheduleSpace& space, std::mt19937_64& rng);

// What the interpreter finds wrong with the loops on random inputs; empty: nothing.
std::string interpreted(const loop::Function& f, const Program& p);

// Takes each barrier and wait out of the contraction's pipeline, one at a time: the interpreter notices every one.
void everyBarrierIsNeeded(const Program& p, const std::string& knobs);

}  // namespace nf::test
