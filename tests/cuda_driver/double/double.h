// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

// A stand-in for NVIDIA's libcuda.so.1, for tests alone: the tests' programs are linked with it, and it is neither installed nor found by
// any other. Its devices' memory is the host's; its modules are shared objects of this machine (tests/cuda/host_run.h, hostModule).
// What is queued runs as late as the driver's rules allow: when somebody waits for the stream. What a caller hands over must be good
// until then.
namespace nf::driver_double {

constexpr int kDevices = 6;
constexpr const char* kModel = "NeoFlow driver double";

// All contexts as a fresh process has them, no injected failure, all counts zero. Nothing may be queued or alive.
void reset();

// After `launches` more kernels of device `number` its next one ends in `code`, and so does every later call on the device.
void loseAfter(int number, std::int64_t launches, CUresult code);
// As a driver that can't change nodes of executable graphs, or has no room for graphs.
void refuseChanges(bool refuse);
void refuseGraphs(bool refuse);

struct Counts {
  std::int64_t kernels = 0;            // that ran, in graphs too
  std::int64_t streamLaunches = 0;     // of kernels, by calls of their own
  std::int64_t graphLaunches = 0;      // of graphs
  std::int64_t together = 0;           // kernels that ran as cooperative ones
  std::int64_t graphs = 0;             // instantiated
  std::int64_t changes = 0;            // of nodes in executable graphs
  std::int64_t copies = 0, fills = 0;  // within a device
  std::int64_t copiesIn = 0;           // from the host
  std::int64_t maps = 0;               // of tensors, encoded
  std::int64_t unlocked = 0;           // copies to host memory that is not page-locked, each a wait
};
Counts counts();
// Names of the kernels that ran, in order, since the last reset() or call of this.
std::vector<std::string> ran();

// What has been made and not been given back.
struct Alive {
  std::int64_t allocations = 0, modules = 0, graphs = 0, executables = 0, streams = 0, events = 0;
  friend bool operator==(const Alive&, const Alive&) = default;
};
Alive alive();

}  // namespace nf::driver_double
