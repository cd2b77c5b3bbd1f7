// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include <llvm/IR/Module.h>

#include "core/device/backend.h"
#include "core/schedule/loop_ir.h"

namespace nf::codegen {

// Texts of a module whose debug locations are lines of `loops`, with the origins of those lines.
KernelText moduleText(const llvm::Module& module, const loop::LoopText& loops);
KernelText assemblyText(std::string text, const loop::LoopText& loops);  // assembly or PTX

}  // namespace nf::codegen
