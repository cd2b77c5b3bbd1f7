// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/tune/measure_service.h"
#include "core/tune/trial.h"

namespace nf {

// Device memory of one subgraph and the values its outputs must have: what the gate compares kernels with (design:
// architecture, "Correctness gate"). Inputs are sparse small integers, where results are exact in any order of summation, and
// random reals; what reaches a data-dependent index keeps it in range. Outputs are poisoned before each run and have guard zones
// behind them. A kernel whose schedule rounds operands to tf32 may differ by what 11 significant bits of every factor allow.
class Gate {
 public:
  // Allocates and fills inputs. Fails where memory is short.
  static Result<std::unique_ptr<Gate>> prepare(Device& device, std::shared_ptr<const Program> subgraph, const Hash& hash);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Runs the kernel and compares. Quick: as many sampled points as fit 10 ms of reference work, corners first. Full: everything
  // the reference computes within 2 MFLOP, else 256 points, and each output against the first kernel that passed. Where no inputs are
  // found whose indices are in range, a kernel passes that refuses what the reference refuses; it can't be timed then.
  GateReport check(Kernel& kernel, const KernelObject& object, GateLevel level);

  // Inputs, then outputs, in subgraph order: for timing. Values are those of the last check.
  std::span<void* const> tensors() const;
  std::span<const std::int64_t> counters() const;
  // Whether values of this input decide which elements are read: others than the gate's may lead out of range.
  bool reachesIndex(std::size_t binding) const;
  std::int64_t bytes() const;  // of the device, all together

 private:
  struct Impl;
  explicit Gate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
