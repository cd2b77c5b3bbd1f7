// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "core/device/reference.h"

namespace nf {

// A program whose inputs and whose every operator's results move by a relative amount, up or down at random, element by element: how far
// its outputs move with them is what rounding does to them, in proportion (Monte Carlo arithmetic; Parker, 1997). Sees what cancels,
// which no multiple of a result's own size does. Whole numbers of operators stay, as they do in single precision; f64 stays as it is.
class MovedReference {
 public:
  // Of these outputs; borrows nothing of `program`.
  static Result<MovedReference> prepare(const Program& program, const std::vector<TensorId>& outputs, Storage storage);
  Result<TensorValues> run(TensorValues inputs, std::uint64_t seed, double move, std::mt19937_64& random) const;

 private:
  struct Stage {
    ReferenceProgram value;
    std::vector<TensorId> dies;  // what nothing reads behind it
  };
  std::vector<Stage> m_stages;
};

}  // namespace nf
