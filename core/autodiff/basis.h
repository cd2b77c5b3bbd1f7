// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/autodiff/linear_system.h"
#include "core/autodiff/nest.h"

namespace nf {

// Steps 3 to 5 (design: autodiff, section 3): the integer solutions of every component by its Hermite form, the cheapest ordered
// basis of its free directions as axes, and the guards that hold each unknown in its range. False: a number does not fit.
bool solveSystem(const LinearSystem& system, const PartNames& names, Nest& nest);

}  // namespace nf
