// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/schedule/loop_ir.h"
#include "core/support/result.h"

namespace llvm {
class Module;
}

namespace nf::cuda {

struct NvptxOutput {
  std::string ptx;
  std::vector<KernelStage> stages;
  std::map<std::string, KernelText> texts;  // with lines: "llvm", after the passes, and "ptx"
};

// Loops to PTX by LLVM's NVPTX back end. architecture: "sm_90". libdevice: path of libdevice.10.bc, of which what the kernel calls is
// linked in; empty: there is none, and a kernel that calls a function of it is refused. With `lines`, PTX says which line of the loop text
// an instruction comes from. LLVM's fatal errors end the process: only workers call it.
Result<NvptxOutput> generateNvptx(const loop::Function& function, const std::string& architecture, const std::string& libdevice,
                                  const loop::LoopText* lines);

// The passes over an emitted module, whose target triple and data layout they set; part of generateNvptx.
Result<Unit> optimizeNvptx(llvm::Module& module, const std::string& architecture);

// What LLVM generates code as: the architecture, or the latest before it that this LLVM knows, whose PTX later devices run. LLVM itself
// would silently take the oldest. Fails below sm_75.
Result<std::string> nvptxTarget(const std::string& architecture);

// The number of an architecture, 90 of "sm_90a"; 0: it is none.
int capabilityOf(const std::string& architecture);

// libdevice.10.bc of a toolkit; fails with one sentence where there is none in these folders.
Result<std::string> findLibdevice(const std::vector<std::string>& folders);

std::string llvmVersion();

}  // namespace nf::cuda
