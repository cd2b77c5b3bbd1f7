// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/ir/program.h"

namespace nf {

// The operator graph for Graphviz: tensors given as boxes, operators with their expression, groups as clusters, edges with bytes.
std::string toDot(const Program& program);

}  // namespace nf
