// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

// The back end `cuda` has two code generators over one loop IR: "llvm" (LLVM's NVPTX back end) and "nvrtc" (CUDA C through NVIDIA's
// compiler, which takes twice as long and more). A kernel has the same results bit by bit with either, so which one makes it is a knob,
// `generator`, beside those of every template for a GPU.
namespace nf {

// First the one that a schedule without the knob has: nvrtc for contractions, llvm for the rest; nvrtc alone for recurrences.
std::vector<std::string> generatorsOf(const std::string& kind);

std::string generatorOf(const Schedule& schedule);

// The same loops by another generator; a schedule does not name the one that it has anyway.
Schedule withGenerator(const Schedule& schedule, const std::string& generator);

// The space of a template with the knob.
std::unique_ptr<ScheduleSpace> generatorSpace(std::unique_ptr<ScheduleSpace> space);

}  // namespace nf
