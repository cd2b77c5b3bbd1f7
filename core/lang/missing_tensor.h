// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/lang/compile.h"
#include "core/support/result.h"

namespace nf {

// `name` is of no tensor that has a value at the end of the notebook: what may be meant, and the tensors that there are. A name of
// repetitions is the full names of what they made; one of a loop whose last value nothing reads has no tensor either, and says so.
Error missingTensor(const CompiledNotebook& notebook, std::string stage, const std::string& name);

}  // namespace nf
