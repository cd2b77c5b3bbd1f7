// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/autodiff/inverse.h"

namespace nf::testing {

// The accesses of 46 operators people write: products, convolutions, pooling, shuffles, reshapes, bands, padding.
struct NamedAccess {
  std::string name;
  std::vector<std::string> variables;
  AccessProblem problem;
};
std::vector<NamedAccess> namedAccesses();

}  // namespace nf::testing
