// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda_driver/double/double.h"

// What stands behind the driver's handles.

struct CUmod_st {
  CUctx_st* context = nullptr;
  void* library = nullptr;
  bool loaded = true;
};

struct CUfunc_st {
  CUmod_st* module = nullptr;
  std::string name;
  const unsigned long* bytes = nullptr;  // of its parameters, ended by 0
  int (*run)(void** parameters, unsigned blocks, unsigned threads) = nullptr;
  unsigned mostShared = 48 << 10;  // bytes of a launch; more for the asking
};

namespace nf::driver_double {

// One piece of queued work, with everything it needs.
struct Work {
  enum class Kind { Launch, Copy, Fill, CopyIn, CopyOut, Event } kind = Kind::Launch;
  CUfunc_st* function = nullptr;
  unsigned blocks = 1, threads = 1, shared = 0;
  bool together = false;
  std::vector<std::vector<unsigned char>> parameters;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  unsigned char value = 0;
  CUevent_st* event = nullptr;
};

}  // namespace nf::driver_double

struct CUctx_st {
  int device = 0;
  int retained = 0;
  CUresult lost = CUDA_SUCCESS;
  std::int64_t untilLoss = -1;
  CUresult lossCode = CUDA_SUCCESS;
  std::map<std::uintptr_t, std::size_t> allocations;
  // As a process that ends gives all memory of its devices back.
  ~CUctx_st() {
    for (const auto& [address, bytes] : allocations) std::free(reinterpret_cast<void*>(address));
  }
};

struct CUstream_st {
  CUctx_st* context = nullptr;
  std::deque<nf::driver_double::Work> queue;
};

struct CUevent_st {
  CUstream_st* stream = nullptr;  // on which it is recorded and not reached yet
};

struct CUgraphNode_st {
  CUgraph_st* graph = nullptr;
  nf::driver_double::Work work;
  std::vector<CUgraphNode> after;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

struct CUgraphExec_st {
  CUctx_st* context = nullptr;
  std::vector<CUgraphNode> order;
  std::map<CUgraphNode, nf::driver_double::Work> work;
};

namespace nf::driver_double {

struct State {
  std::recursive_mutex mutex;
  std::array<CUctx_st, kDevices> contexts;
  std::vector<std::unique_ptr<CUmod_st>> modules;  // unloaded ones, too: a launch of theirs is noticed
  std::vector<std::unique_ptr<CUfunc_st>> functions;
  Counts counts;
  Alive alive;
  std::vector<std::string> ran;
  std::map<std::uintptr_t, std::size_t> locked;  // page-locked memory of the host
  bool refusesChanges = false, refusesGraphs = false;
};
State& state();

// The context of this thread; null: none.
CUctx_st*& current();
// Bytes [at, at + size) lie in one allocation of the context.
bool holds(const CUctx_st& context, const void* at, std::size_t size);
// Runs what is queued, in order; what fails loses the device.
CUresult drain(CUstream_st& stream);
Work workOf(CUfunction function, unsigned blocks, unsigned threads, unsigned shared, bool together, void** parameters);

}  // namespace nf::driver_double
