// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/module_run.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include "plugins/cuda/nvptx/emit.h"
#include "plugins/cuda/nvptx/generate.h"

namespace nf::test {
namespace {

Error failure(const std::string& message, const std::string& detail = {}) { return Error{"run on host", message, {}, detail}; }

// What stands for an intrinsic; empty: nothing does, on a machine without copies under way.
Result<std::string> hostName(llvm::Intrinsic::ID id) {
  switch (id) {
    case llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x: return std::string("nf_host_thread");
    case llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x: return std::string("nf_host_block");
    case llvm::Intrinsic::nvvm_barrier0: return std::string("nf_host_barrier");
    case llvm::Intrinsic::nvvm_shfl_sync_bfly_i32: return std::string("nf_host_exchange");
    case llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4: return std::string("nf_host_copy4");
    case llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8: return std::string("nf_host_copy8");
    case llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16: return std::string("nf_host_copy16");
    case llvm::Intrinsic::nvvm_cp_async_commit_group:
    case llvm::Intrinsic::nvvm_cp_async_wait_group: return std::string();
    default: return failure("there is nothing for the intrinsic " + llvm::Intrinsic::getBaseName(id).str());
  }
}

Result<Unit> retarget(llvm::Module& module, const std::string& prefix) {
  if (auto* annotations = module.getNamedMetadata("nvvm.annotations")) annotations->eraseFromParent();
  for (llvm::Function& f : llvm::make_early_inc_range(module)) {
    const std::string name = f.getName().str();
    if (!f.isDeclaration()) {
      f.setCallingConv(llvm::CallingConv::C);
      f.setName(prefix + name);
    } else if (name.starts_with("__nv_")) {
      f.setName(name.substr(5));
      // By name it is the C library's: nothing is to be made of that.
      for (llvm::User* user : f.users())
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(user)) call->addFnAttr(llvm::Attribute::NoBuiltin);
    } else if (name.starts_with("llvm.nvvm.")) {
      NF_TRY(const std::string host, hostName(f.getIntrinsicID()));
      llvm::FunctionCallee callee;
      if (!host.empty()) callee = module.getOrInsertFunction(host, f.getFunctionType());
      for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
        auto* call = llvm::cast<llvm::CallInst>(user);
        if (!host.empty()) {
          const std::vector<llvm::Value*> arguments(call->arg_begin(), call->arg_end());
          call->replaceAllUsesWith(llvm::IRBuilder<>(call).CreateCall(callee, arguments));
        }
        call->eraseFromParent();
      }
      f.eraseFromParent();
    }
  }
  return Unit{};
}

bool meets(const llvm::Function& kernel) {
  for (const llvm::BasicBlock& block : kernel)
    for (const llvm::Instruction& i : block)
      if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&i); call && call->getCalledFunction())
        if (const auto name = call->getCalledFunction()->getName(); name == "nf_host_barrier" || name == "nf_host_exchange")
          return true;
  return false;
}

}  // namespace

Result<HostObject> moduleForHost(const loop::Function& function, const std::string& architecture, const std::string& prefix) {
  static const bool once = !llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter();
  llvm::LLVMContext context;
  NF_TRY(cuda::EmittedModule emitted, cuda::emitModule(function, context, cuda::capabilityOf(architecture), nullptr));
  llvm::Module& module = *emitted.module;
  std::string words;
  llvm::raw_string_ostream out(words);
  if (llvm::verifyModule(module, &out)) return failure("the module is invalid", words);
  NF_TRY([[maybe_unused]] const Unit optimized, cuda::optimizeNvptx(module, architecture));
  NF_TRY([[maybe_unused]] const Unit retargeted, retarget(module, prefix));
  const std::string triple = llvm::sys::getProcessTriple();
  const llvm::Target* target = once ? llvm::TargetRegistry::lookupTarget(triple, words) : nullptr;
  if (!target) return failure("LLVM has no code generator for " + triple, words);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  const std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "generic", "", options, llvm::Reloc::PIC_));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  if (llvm::verifyModule(module, &out)) return failure("the module for this machine is invalid", words);
  HostObject object;
  object.prefix = prefix;
  object.stages = emitted.stages;
  for (const KernelStage& s : emitted.stages) object.meets.push_back(meets(*module.getFunction(prefix + s.symbol)));
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream bytes(code);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, bytes, nullptr, llvm::CodeGenFileType::ObjectFile))
    return failure("LLVM cannot write an object file");
  passes.run(module);
  object.code.assign(code.begin(), code.end());
  return object;
}

}  // namespace nf::test
