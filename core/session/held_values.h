// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// What central differences would see and a gradient does not: values behind stop_gradient, steps, and the other side of a kink.
enum class Hold {
  Stops,    // stop_gradient
  Choices,  // that; floor, comparisons, casts to whole numbers, the index of the best; which side of a kink (`relu`, `abs`, `max` and
            // `min` of two) and which of equals (`max` and `min` of many) has the gradient
};

// A program and the same with some of its values read from tensors instead of computed.
//   before  : Y[i] = x[i] + stop_gradient(f(x[i]))
//   computes: Y as before;  held[i] = f(x[i])
//   holds   : Y[i] = x[i] + held[i];  input held
struct HeldProgram {
  struct Value {
    TensorId computed, held;  // in `computes` and in `holds`, of one shape
    std::size_t site = 0;
  };
  struct Site {
    enum class Kind { Stop, Jump, Kink, First, Even };
    std::string what;    // as it is written: "floor", "<", "max"
    std::string reader;  // the operator it stands in
    Span place;
    Kind kind = Kind::Stop;
  };
  Program computes, holds;
  std::vector<Site> sites;
  std::vector<Value> values;
  std::int64_t uses = 0;     // nodes that are held
  std::vector<Span> places;  // where they are written, each once; in order
};

// Holds what depends on `moved` on the way to `of`, in bodies of loops too. nullopt where some value can't be told apart in its expression,
// or where all of them have more than `mostElements`.
std::optional<HeldProgram> holdValues(const Program& program, TensorId of, TensorId moved, Hold hold, std::int64_t mostElements);

}  // namespace nf
