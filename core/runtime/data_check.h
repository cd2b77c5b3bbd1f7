// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/lang/compile.h"

namespace nf {

// Reads every file that the notebook's tensors and data sets take their values from, as a run would: what is missing, no such file,
// of another shape, or split beyond its rows is a mistake at its place. Files relative to the notebook's folder.
Diagnostics checkData(const CompiledNotebook& notebook);

}  // namespace nf
