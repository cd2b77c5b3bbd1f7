// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>

#include "core/lang/compile.h"
#include "core/runtime/checkpoint.h"

namespace nf {

class TensorStore;

// Which parameters and states of `store` a file of weights gives and lacks, and what it holds that the notebook has no tensor of; empty:
// they match. What an optimizer keeps of a parameter or a loss, `W.adam.m` and `L.step`, counts on neither side. `from`: the file.
std::string unmatchedWeights(const TensorStore& store, const CompiledNotebook& notebook, const NamedTensors& tensors,
                             const std::string& from);

// Inputs and constants of `store` whose values a file of weights stands in for, those that a data set feeds (`fed`) apart; empty: none.
std::string replacedInputs(const TensorStore& store, const NamedTensors& tensors, const std::set<std::string>& fed,
                           const std::string& from);

// Why a checkpoint is of another program than the one that trains `store` with `optimizer`: the first tensor that differs, else the
// optimizer, else only that. Ends with what its values can be used for.
std::string checkpointDifference(const TensorStore& store, const Checkpoint& checkpoint, const std::string& optimizer);

}  // namespace nf
