// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

enum class Storage : std::uint8_t { Exact, Rounded };

// One Gather or Scatter, prepared for interpretation: its body as blocks of instructions over strips of points in row-major order,
// its accesses as linear offsets that are stepped instead of recomputed.
class ReferenceKernel {
 public:
  // counters: trips of the loops around, outermost first, as far as they are known.
  // storage: whether what is stored in f16 and bf16, and cast to them, is rounded.
  static Result<ReferenceKernel> prepare(const Program& program, const Operator& op, bool training,
                                         std::span<const std::int64_t> counterTrips, Storage storage = Storage::Exact);

  struct Bindings {
    std::span<const std::vector<double>* const> tensors;  // by tensor id; those that the operator reads are set
    std::vector<double>* output = nullptr;                // resized and written
    std::span<const std::int64_t> counters;
    std::uint64_t seed = 1, step = 0;
    const std::atomic<bool>* stop = nullptr;  // as LaunchArgs'
  };
  Result<Unit> run(const Bindings& bindings) const;
  TensorId output() const;

  ReferenceKernel(ReferenceKernel&&) noexcept;
  ReferenceKernel& operator=(ReferenceKernel&&) noexcept;
  ~ReferenceKernel();

  struct Code;

 private:
  explicit ReferenceKernel(std::unique_ptr<Code> code);
  std::unique_ptr<Code> m_code;
};

}  // namespace nf
