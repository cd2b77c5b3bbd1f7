// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "core/schedule/loop_ir.h"

namespace nf::cpu {

struct EmittedStage {
  std::string symbol;
  std::int64_t tasks = 1;
};

struct Emitted {
  std::unique_ptr<llvm::Module> module;
  std::vector<EmittedStage> stages;
};

// Loops to LLVM IR with explicit vectors. One exported StageEntry a stage. `features`: LLVM's feature list, comma separated.
// With `lines`, debug locations are lines of the loop text.
Emitted emit(const loop::Function& function, llvm::LLVMContext& context, const std::string& features, const loop::LoopText* lines);

}  // namespace nf::cpu
