// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "core/device/backend.h"

namespace nf {

// `neoflow bench ops`: single operators against oneDNN and OpenBLAS where installed, ours and theirs in turn in one run.
// Ratios are speeds, theirs = 1. One thread is timed by processor time, more by wall time.
struct BenchOpsOptions {
  std::string filter;  // part of a case's name
  bool json = false;
  int threads = 1;
  int trials = 0;        // schedules tried beside the first one; the best is reported
  double seconds = 0.4;  // of measurement a case
  std::uint64_t seed = 1;
  bool texts = false;  // print the schedule
  std::string device = "cpu";
  std::string type = "f32";  // of products and convolutions: f16 and bf16 are stored so and added up in f32
  bool turns = false;        // measure what each line on standard input asks for, one JSON line an answer
};

int runBenchOps(BackendRegistry& registry, const BenchOpsOptions& options);

}  // namespace nf
