// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "core/autodiff/inverse.h"

// Oracle A: every y has a random integer weight; brute force scatters them into dA, the gather is walked literally, and all of dA
// is compared as integers (design: autodiff, section 10).
namespace nf::testing {

struct OracleResult {
  bool right = false;
  std::string wrong;  // the first disagreement
  std::int64_t domain = 0, elements = 0;
  std::int64_t contributions = 0;                // points y that reach the tensor
  std::int64_t largestFibre = 0, inhabited = 0;  // over z
  std::int64_t passing = 0;                      // z where Pz holds
  std::int64_t hoistedVisits = 0;                // body visits: passing * trips
  std::int64_t guardedVisits = 0;                // those of them where Pt holds
};

OracleResult compareExactly(const AccessProblem& problem, const Inverse& inverse);

std::string describe(const AccessProblem& problem);

// What splitPhases makes of the gather: of each class the points that reach its elements, and the inverse that its nest is.
struct AccessPhase {
  std::vector<std::int64_t> modulus, phase;
  AccessProblem problem;  // y as before; component j is (f_j - phase_j) / modulus_j, where that divides
  Inverse inverse;        // proved by itself, or Uncertified
};
std::vector<AccessPhase> phasesOf(const AccessProblem& problem, const Inverse& inverse);

// Oracles A and B of every class, and that together they have all contributions. Empty: right and proved.
std::string wrongPhases(const AccessProblem& problem, const Inverse& inverse);

// Makes the problem smaller as long as `fails` says it still fails: fewer components, guards and variables, smaller extents and
// coefficients.
AccessProblem shrink(AccessProblem problem, const std::function<bool(const AccessProblem&)>& fails);

// The gradient's access of dB when the gather is differentiated once more: its domain is (z, t), its index components `keep` of y,
// its guards the gather's own.
AccessProblem secondOrder(const AccessProblem& problem, const Inverse& inverse, std::uint32_t keep);

}  // namespace nf::testing
