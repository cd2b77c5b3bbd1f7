// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"

namespace nf {

// The notebook as one self-contained page: its cells, what each defines, its derived gradients, and every fusion decision.
std::string notebookHtml(const CompiledNotebook& notebook, const Stages& stages, const DeviceConstants& device);

}  // namespace nf
