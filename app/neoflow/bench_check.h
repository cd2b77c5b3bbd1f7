// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/neoflow/commands.h"
#include "core/ir/program.h"
#include "core/ir/tensor_data.h"

namespace nf {

// `neoflow bench check`: a device's kernels against the interpreter in double precision, on the same inputs, made and run in this
// process: a memory checker around it sees them.
struct BenchCheckOptions {
  std::vector<std::string> files;  // notebooks: loss, every gradient and every state of the first training step, or what cells show
  std::vector<std::string> sets;   // NAME=VALUE: of those notebooks that have the name
  DeviceChoice device;
  std::int64_t programs = 0;   // random ones, of seed, seed + 1, ..
  bool kernels = false;        // the kernels that the tests compile
  std::string filter;          // of them: part of the name
  std::uint64_t seed = 1;      // of programs, inputs, schedules
  std::int64_t schedules = 0;  // random schedules of every kernel, beside the first one
  bool json = false;
};

// Exit code 1: something differs.
int runBenchCheck(BackendRegistry& registry, const BenchCheckOptions& options);

// A program with outputs and no updates, and values for what it reads, by name.
struct CheckProgram {
  std::string name;
  Program program;
  std::map<std::string, TensorData> inputs;
};
// Those of the tests; tests/bench/check_programs.cpp.
CheckProgram randomCheckProgram(std::uint64_t seed);
std::vector<CheckProgram> kernelCheckPrograms(std::uint64_t seed);

}  // namespace nf
