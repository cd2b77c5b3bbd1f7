// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "tests/fuzz/access_generator.h"

// Oracle C: the access stands in an operator with a random body and reducer, whose gradients by all inputs are compared (design: autodiff,
// section 10) with
//   differences    central differences in double precision at a sample of elements. Where the slopes on both sides differ, the gradient
//                  must be one of them
//   ties           maxima and minima over data with many equal elements, both rules of sharing: exactly, by brute force
//   zeros          products over data with many zeros: central differences, as they are polynomials
namespace nf::testing {

enum class BodyKind { Differences, Ties, Zeros };

struct BodyResult {
  bool right = true;
  std::string wrong;         // the first disagreement, with the operator
  std::size_t compared = 0;  // elements of gradients
  std::size_t kinks = 0;     // of them with two slopes
};

// An access over more points than `mostPoints` is left out: nothing is compared.
BodyResult compareBody(const AccessProblem& problem, BodyKind kind, Choices& choices, std::size_t mostPoints = 2000);

}  // namespace nf::testing
