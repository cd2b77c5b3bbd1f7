// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "core/autodiff/inverse.h"
#include "core/autodiff/nest.h"

// A problem, or a problem with its inverse, as a product of independent ones: the variables of one never meet those of another in
// an access, a guard or a solution. A convolution falls into {n}, {k}, {p, r}, {q, s}, {c}; each is inverted and proved alone.
namespace nf {

// A product of bijections is one, and a product of sets is equal to another where all factors are: so a proof of every part is a
// proof of the whole.
struct Part {
  AccessProblem problem;          // its variables and components renumbered from 0
  std::vector<std::size_t> y, z;  // the whole problem's numbers of them, ascending
  Inverse inverse;                // of partsOf(problem, inverse)
  std::vector<std::size_t> t;     // the whole inverse's axes
};

// nullopt: a guard without variables is false.
std::optional<std::vector<Part>> partsOf(const AccessProblem& problem);
std::optional<std::vector<Part>> partsOf(const AccessProblem& problem, const Inverse& inverse);

// Brings a part's nest into the inverse of the whole, which has m z dimensions: z by their numbers, t behind those that are there.
void appendNest(const Part& part, const Nest& nest, std::size_t m, Inverse& inverse);

}  // namespace nf
