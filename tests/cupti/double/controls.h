// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cupti.h>

#include <cstddef>
#include <cstdint>

// What a test tells the double of libcupti to have seen. C names, found by dlsym.
namespace nf::test {

struct DoubleControls {
  // A kernel, a copy or a graph of this moment's external id.
  void (*kernel)(const char* name, std::uint32_t device, std::uint64_t begin, std::uint64_t end, std::uint32_t stream);
  void (*copy)(std::uint64_t bytes, std::uint64_t begin, std::uint64_t end, std::uint32_t stream);
  void (*fill)(std::uint64_t bytes, std::uint64_t begin, std::uint64_t end, std::uint32_t stream);
  void (*graph)(std::uint64_t begin, std::uint64_t end, std::uint32_t stream);
  void (*refuse)(const char* function, CUptiResult code);  // every call of it from now on; CUPTI_SUCCESS: no more
  void (*drop)(std::size_t records);
  std::size_t (*enabledKinds)();
  std::uint64_t (*clock)();  // the one that was registered, read once
  int (*passes)();           // of the range profiler so far
  void (*reset)();
};

}  // namespace nf::test
