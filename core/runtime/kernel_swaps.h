// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fusion/fuse.h"
#include "core/support/hash.h"
#include "core/support/result.h"

namespace nf {

// From step `step` on, this subgraph ran the kernel of this schedule; or, `reverted`, fusion went without the kernel of this signature
// where these parts take its place;
// or, `device`, these constants decided what was fused: they are measured, and another measurement may fuse otherwise.
// What was run follows from the log: replaying it is bit-identical.
struct KernelSwap {
  std::int64_t step = 0;
  Hash subgraph;
  std::string schedule;  // its canonical text; of a reverted fusion none
  bool reverted = false;
  std::optional<DeviceConstants> device;
  std::vector<Hash> parts{};  // of a reverted fusion
  bool ofKernel() const { return !reverted && !device; }
  JudgedKernel judged() const { return {subgraph, parts}; }
  friend bool operator==(const KernelSwap&, const KernelSwap&) = default;
};

// {"step":..,"subgraph":"hex","schedule":{..}}, {"step":..,"reverted":"hex","parts":["hex"]} or {"step":..,"fused_for":{"P_d":..,"P_c":..,"L":..}} a line.
std::string toJsonLines(std::span<const KernelSwap> swaps);
// A last line without its newline, behind whole ones, was being written when its program was killed: it is left out where it is cut.
Result<std::vector<KernelSwap>> swapsFromJsonLines(std::string_view text, const std::string& file = {});
std::optional<Hash> hashFromHex(std::string_view hex);

}  // namespace nf
