// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>

namespace nf::cpu {

inline constexpr std::atomic<bool> kNever{false};

// What a compiled stage is called with; the layout is part of the code generator's version.
struct KernelCall {
  void* const* tensors;
  void* workspace;
  const std::int64_t* counters;
  std::uint64_t seed;
  std::uint64_t step;
  std::int64_t* status;                     // [0]: 0, or 1 + the check that failed; [1]: the value it met
  const std::atomic<bool>* stop = &kNever;  // stages that run long end early where it is set
};

static_assert(sizeof(std::atomic<bool>) == 1 && std::atomic<bool>::is_always_lock_free, "generated code reads a byte");

using StageEntry = void (*)(const KernelCall*, std::int64_t begin, std::int64_t end);  // tasks [begin, end)

}  // namespace nf::cpu
