// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/autodiff/nest.h"

// Phase split and guard peeling (design: autodiff, section 4): passes on the nest of an operator, a gradient's or any other's, that the
// scheduler asks for. z are the operator's output axes, t its reduced ones, the guards those of the terms it adds.
namespace nf {

// For each z the least common multiple of the divisors that act on it in `y` and in the guards: with z = h*z' + phi every floor over z folds.
std::vector<std::int64_t> phaseModuli(const Nest& nest);

struct PhaseOptions {
  std::int64_t mostPerDimension = 16;  // a dimension with a larger modulus is not split
  std::int64_t mostPhases = 64;        // of all dimensions together: the later dimensions stay whole
};

// What is too large for the options becomes 1: a modulus by itself, or with those before it.
void keepWithin(const PhaseOptions& options, std::vector<std::int64_t>& moduli);

// One residue class of a nest: z_j = modulus_j * z'_j + phase_j with a constant phase. Its axes are narrowed to what its guards leave, and
// guards that the others imply are gone.
//   before: r = z % 2 + 2*t, p = z // 2 - t, t < 2, guard r <= 2
//   after : phase 0: r = 2*t, p = z' - t, t < 2      phase 1: r = 1, p = z', no axis
struct NestClass {
  std::vector<std::int64_t> modulus, phase;
  Nest nest;  // over z' and what is left of t; a modulus that does not divide its extent leaves the later classes a point less
};

// Every class that a point reaches, those of the last z running fastest. The others have no terms.
std::vector<NestClass> splitPhases(const Nest& nest, const std::vector<std::int64_t>& modulus, const QuestionLimit& limit);

// Guards peeled off: where `interior` holds, those that are `peeled` hold at every inner point, so the loops inside go without them; around
// it is the border, which tests them. Peeled are inequalities in which the inner variables stand outside floors: the least value over the
// inner variables is exact then.
//   before: guards z - t >= 0, z - t <= 5, t < 3     interior: z - 2 >= 0, z <= 5
struct PeeledGuards {
  std::vector<IndexCond> interior, peeled, kept;
};
PeeledGuards peelGuards(const std::vector<IndexCond>& guards, const std::function<bool(IndexVar)>& inner, const RangeOf& ranges);

}  // namespace nf
