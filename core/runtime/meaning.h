// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/support/hash.h"

namespace nf {

// By cell: what a run of it depends on. Equal in two notebooks where the cell would show the same values, or train the same. Names and
// places of intermediate tensors do not count, what is given does: initial values, data, settings. Zero where a cell shows nothing.
std::vector<Hash> cellMeanings(const CompiledNotebook& notebook);

// What the value of one tensor depends on, by its name in the notebook's program; a derivative that nothing asks for is its two ends'.
// Zero: there is none of that name.
Hash tensorMeaning(const CompiledNotebook& notebook, const std::string& name);

}  // namespace nf
