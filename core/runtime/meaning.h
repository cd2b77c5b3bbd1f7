// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/support/hash.h"

namespace nf {

// By cell: what a run of it depends on. Equal in two notebooks where the cell would show the same values, or train the same. Names and
// places of intermediate tensors do not count, what is given does: initial values, data, settings. Zero where a cell shows nothing.
std::vector<Hash> cellMeanings(const CompiledNotebook& notebook);

// The same of the cell that holds a `train` statement, as text: what run.json says of the run. Empty where no cell holds it.
std::string trainMeaning(const CompiledNotebook& notebook, const TrainSettings& settings);

// What the value of one tensor depends on, by its name in the notebook's program; a derivative that nothing asks for is its two ends'.
// Zero: there is none of that name.
Hash tensorMeaning(const CompiledNotebook& notebook, const std::string& name);

// By name, of the parameters and states that `loss` is computed from: declaration and place in it. Equal in two programs that compute
// the loss alike, whatever parameters, states and intermediate tensors are called; of two that stand at like places the one that is
// declared first is the first in both. Stable between runs, as Hash is.
std::map<std::string, std::string> parameterPlaces(const Program& program, TensorId loss);

}  // namespace nf
