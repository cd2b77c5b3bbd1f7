// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/device/backend.h"

namespace nf::cpu {

// Subgraph and schedule to a relocatable object. LLVM's fatal errors end the process: only workers call it.
std::unique_ptr<Compiler> makeCompiler(const Target& target);

}  // namespace nf::cpu
