// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// Everything a stage promises: ids in range, topological order, ranks, extents, types, reducers, unique names, every access
// in bounds under its path conditions (proved with isl). Empty: the program holds. Debug builds and tests run it after every pass.
std::vector<std::string> verify(const Program& program, Stage stage);

}  // namespace nf
