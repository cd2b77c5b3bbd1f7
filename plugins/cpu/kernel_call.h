// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace nf::cpu {

// What a compiled stage is called with; the layout is part of the code generator's version.
struct KernelCall {
  void* const* tensors;
  void* workspace;
  const std::int64_t* counters;
  std::uint64_t seed;
  std::uint64_t step;
  std::int64_t* status;  // [0]: 0, or 1 + the check that failed; [1]: the value it met
};

using StageEntry = void (*)(const KernelCall*, std::int64_t begin, std::int64_t end);  // tasks [begin, end)

}  // namespace nf::cpu
