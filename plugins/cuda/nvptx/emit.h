// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "core/device/backend.h"
#include "core/schedule/loop_ir.h"
#include "core/support/result.h"

namespace nf::cuda {

struct EmittedModule {
  std::unique_ptr<llvm::Module> module;
  std::vector<KernelStage> stages;
};

// Loops as LLVM IR for NVPTX: one kernel a stage with the parameters of kernel_call.h, and the same results bit by bit as the CUDA C of
// plugins/cuda/emit.h. Pointers are in NVPTX's address spaces; functions without an instruction are libdevice's, declared alone.
// capability: 80 for 8.0; below it, copies under way are plain ones. With `lines`, debug locations are lines of the loop text.
// Fails on loops that are no GPU's, and on matrix tiles.
Result<EmittedModule> emitModule(const loop::Function& function, llvm::LLVMContext& context, int capability,
                                 const loop::LoopText* lines);

}  // namespace nf::cuda
