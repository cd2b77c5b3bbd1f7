// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/autodiff/inverse.h"

// What a scheduler may make of a gather (design: autodiff, section 4).
namespace nf {

// For each z dimension the least common multiple of the divisors that act on it: with z = h*z' + phi every floor over z folds.
std::vector<std::int64_t> phaseModuli(const Inverse& inverse, std::size_t zDimensions);
// The same of one expression or condition, for variables 0..moduli.size()-1: raises their moduli.
void collectPhaseModuli(const IndexExpr& e, std::vector<std::int64_t>& moduli);
void collectPhaseModuli(const IndexCond& c, std::vector<std::int64_t>& moduli);

struct PhaseOptions {
  std::int64_t mostPerDimension = 16;  // a dimension with a larger modulus is not split
  std::int64_t mostPhases = 64;        // of all dimensions together: the later dimensions stay whole
};

// What is too large for the options becomes 1: a modulus by itself, or with those before it.
void keepWithin(const PhaseOptions& options, std::vector<std::int64_t>& moduli);

// One residue class of the gradient's elements: z_j = modulus_j * z'_j + phase_j, 0 <= z'_j < shape_j.
//   before: r = z % 2 + 2*t, p = z // 2 - t, t < 2, guard r <= 2
//   after : phase 0: r = 2*t, p = z' - t, t < 2      phase 1: r = 1, p = z', no axis
struct PhaseNest {
  std::vector<std::int64_t> modulus, phase, shape;
  Inverse inverse;  // over z' and t; certified by itself, as the inverse of the accesses that meet this class
};

// Splits a certified inverse. Classes that no y reaches are left out: they are zero fill. A class whose proof does not end within
// `certificateQuota` is Uncertified: then the whole inverse is to be used.
std::vector<PhaseNest> splitPhases(const AccessProblem& problem, const Inverse& inverse, const PhaseOptions& phases = {},
                                   const InvertOptions& options = {});

// Guards as loop bounds: an axis whose bounds are given runs from the greatest of 0 and `lower` to the least of its extent - 1 and
// `upper`, both inclusive; they are expressions over z and earlier axes.
struct PeeledLoop {
  std::vector<IndexExpr> lower, upper;
};
struct Peeled {
  std::vector<PeeledLoop> loops;  // one an axis
  std::vector<IndexCond> guards;  // those of tGuards that stay inside
};

// Every t guard that is linear in its last axis, outside any floor, becomes a bound of that axis: the loop visits no point where
// it fails.
//   before: t in 0..2, guard z // 2 - t >= 0        after: t in 0..min(2, z // 2)
Peeled peelGuards(const Inverse& inverse, std::size_t zDimensions);

}  // namespace nf
