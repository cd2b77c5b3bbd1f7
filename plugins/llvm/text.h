// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <llvm/IR/DebugLoc.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ValueHandle.h>

#include "core/device/backend.h"
#include "core/schedule/loop_ir.h"

namespace nf::codegen {

// The debug locations that a module's instructions have now. For a debugger's sake passes that move an instruction take its location
// away; here it says what the instruction was made from, wherever it is.
class DebugLocations {
 public:
  explicit DebugLocations(llvm::Module& module);
  void restore();  // to the instructions that passes have left without one

 private:
  std::vector<std::pair<llvm::WeakVH, llvm::DebugLoc>> m_locations;  // of instructions
};

// Texts of a module whose debug locations are lines of `loops`, with the origins of those lines.
KernelText moduleText(const llvm::Module& module, const loop::LoopText& loops);
KernelText assemblyText(std::string text, const loop::LoopText& loops);  // assembly or PTX

}  // namespace nf::codegen
