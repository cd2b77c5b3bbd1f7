// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// What central differences would see and a gradient does not: values behind stop_gradient, and steps.
enum class Hold {
  Stops,  // stop_gradient
  Jumps,  // that, and floor, comparisons, casts to whole numbers, the index of the best
};

// A program and the same with some of its values read from tensors instead of computed.
//   before  : Y[i] = x[i] + stop_gradient(f(x[i]))
//   computes: Y as before;  held[i] = f(x[i])
//   holds   : Y[i] = x[i] + held[i];  input held
struct HeldProgram {
  struct Value {
    TensorId computed, held;  // in `computes` and in `holds`, of one shape
  };
  Program computes, holds;
  std::vector<Value> values;
  std::int64_t uses = 0;     // nodes that are held
  std::vector<Span> places;  // where they are written, each once; in order
};

// Holds what depends on `moved` on the way to `of`, in bodies of loops too. nullopt where some value can't be told apart in its expression,
// or where all of them have more than `mostElements`.
std::optional<HeldProgram> holdValues(const Program& program, TensorId of, TensorId moved, Hold hold, std::int64_t mostElements);

}  // namespace nf
