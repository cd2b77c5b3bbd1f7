// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stop_token>

#include "core/lang/compile.h"
#include "core/support/hash.h"

namespace nf {

// Reads every file that the notebook's tensors and data sets take their values from, as a run would: what is missing, no such file,
// of another shape, or split beyond its rows is a mistake at its place. Files relative to the notebook's folder.
Diagnostics checkData(const CompiledNotebook& notebook);

// Without the warnings of inputs that nothing gives a value. A stop ends it with what was found by then.
Diagnostics checkFiles(const CompiledNotebook& notebook, std::stop_token stop = {});
// What checkFiles() reads and as what, with the files' sizes and times; Hash() where no file is read.
Hash filesRead(const CompiledNotebook& notebook);

}  // namespace nf
