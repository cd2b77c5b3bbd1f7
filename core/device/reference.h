// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/device/reference_kernel.h"
#include "core/ir/program.h"
#include "core/ir/tensor_data.h"
#include "core/support/result.h"

// The reference interpreter: whole Programs in double precision, the oracle every other back end is held against.
// It follows the definitions of the IR literally (lazy select, first best on ties, sums in row-major order). With Storage::Exact it
// rounds nothing, which is what differences and tolerances are held against; with Storage::Rounded it keeps in f16 and bf16 tensors
// what they hold, and casts to them round, as every device does. Every data-dependent index, and every affine one that interval
// arithmetic does not prove, is checked as it is read.
namespace nf {

struct InterpretOptions {
  std::uint64_t seed = 1, step = 0;  // of Random
  bool training = true;              // value of the condition `training`
  Storage storage = Storage::Exact;
  std::vector<TensorId> outputs;  // what is wanted; empty: every tensor
};

// `inputs` holds every input, param, const and state tensor that the wanted ones need, in their shapes. Updates are not applied: the
// caller copies `value` over `target`. Fails on a missing input, a pending Derivative, and an index out of range (naming the operator).
Result<TensorValues> interpret(const Program& program, const TensorValues& inputs, const InterpretOptions& options = {});

// The same, prepared once and run any number of times.
class ReferenceProgram {
 public:
  // Borrows nothing of `program`.
  static Result<ReferenceProgram> prepare(const Program& program, const std::vector<TensorId>& outputs = {}, bool training = true,
                                          Storage storage = Storage::Exact);
  // counters: values of the loop variables around the program, outermost first. stop: as LaunchArgs'.
  Result<TensorValues> run(const TensorValues& inputs, std::uint64_t seed = 1, std::uint64_t step = 0,
                           std::span<const std::int64_t> counters = {}, const std::atomic<bool>* stop = nullptr) const;

  ReferenceProgram(ReferenceProgram&&) noexcept;
  ReferenceProgram& operator=(ReferenceProgram&&) noexcept;
  ~ReferenceProgram();

  struct Impl;

 private:
  explicit ReferenceProgram(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
