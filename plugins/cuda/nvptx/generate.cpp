// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/nvptx/generate.h"

#include <charconv>
#include <memory>
#include <set>
#include <vector>

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/Internalize.h>

#include "plugins/cuda/nvptx/emit.h"
#include "plugins/cuda/toolkit.h"
#include "plugins/llvm/text.h"

namespace nf::cuda {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";
// PTX 8.0 is what the oldest driver that is served takes, CUDA 12.0's.
constexpr const char* kPtx = "+ptx80";

Error failure(const std::string& message, const std::string& detail = {}) { return Error{"compile", message, "cuda", detail}; }

const llvm::Target* nvptx() {
  static const llvm::Target* const target = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    std::string ignored;
    return llvm::TargetRegistry::lookupTarget(kTriple, ignored);
  }();
  return target;
}

Result<std::unique_ptr<llvm::TargetMachine>> machineFor(const std::string& architecture) {
  if (!nvptx()) return failure("LLVM " + llvmVersion() + " is built without its NVPTX back end.");
  llvm::TargetOptions options;
  // Fused multiplications stand in the loops where they are meant.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(nvptx()->createTargetMachine(kTriple, architecture, kPtx, options, llvm::Reloc::PIC_,
                                                                            std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine) return failure("LLVM cannot generate code for " + architecture + ".");
  return machine;
}

// Links what the module calls of libdevice, and nothing else, as functions of its own.
Result<Unit> linkLibdevice(llvm::Module& module, const std::string& path) {
  std::set<std::string> wanted;
  for (const llvm::Function& f : module)
    if (f.isDeclaration() && f.getName().starts_with("__nv_")) wanted.insert(f.getName().str());
  if (wanted.empty()) return Unit{};
  if (path.empty()) return failure("The kernel calls " + *wanted.begin() + ", and there is no libdevice.10.bc to take it from.");
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> library = llvm::getLazyIRFileModule(path, problem, module.getContext());
  if (!library) return failure("The file libdevice.10.bc can't be read.", path + ": " + problem.getMessage().str());
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  std::set<std::string> kernels;
  for (const llvm::Function& f : module)
    if (!f.isDeclaration()) kernels.insert(f.getName().str());
  const bool failed = llvm::Linker::linkModules(
      module, std::move(library), llvm::Linker::Flags::LinkOnlyNeeded, [&](llvm::Module& linked, const llvm::StringSet<>&) {
        llvm::internalizeModule(linked, [&](const llvm::GlobalValue& g) { return kernels.contains(g.getName().str()); });
      });
  if (failed) return failure("The file libdevice.10.bc can't be linked.", path);
  for (const std::string& name : wanted)
    if (const llvm::Function* f = module.getFunction(name); f && f->isDeclaration())
      return failure("The file libdevice.10.bc has no " + name + ".", path);
  return Unit{};
}

void place(llvm::Module& module, const llvm::TargetMachine& machine) {
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine.createDataLayout());
}

// LLVM 19 keeps what it reads of a module's annotations by the addresses of module and kernel, and forgets it only when it has written
// PTX: a module that is optimised and then freed would leave its bounds to the next one there. No pass before those that write PTX needs
// them: the range of each number of a thread or block is its call's.
class WithoutAnnotations {
 public:
  explicit WithoutAnnotations(llvm::Module& module) : m_module(module) {
    llvm::NamedMDNode* named = module.getNamedMetadata(kName);
    if (!named) return;
    m_annotations.assign(named->op_begin(), named->op_end());
    named->eraseFromParent();
  }
  ~WithoutAnnotations() {
    if (m_annotations.empty()) return;
    llvm::NamedMDNode* named = m_module.getOrInsertNamedMetadata(kName);
    for (llvm::MDNode* annotation : m_annotations) named->addOperand(annotation);
  }
  WithoutAnnotations(const WithoutAnnotations&) = delete;

 private:
  static constexpr const char* kName = "nvvm.annotations";
  llvm::Module& m_module;
  std::vector<llvm::MDNode*> m_annotations;  // they live as long as the context
};

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  const WithoutAnnotations without(module);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  codegen::DebugLocations locations(module);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
  locations.restore();
}

}  // namespace

std::string llvmVersion() { return LLVM_VERSION_STRING; }

int capabilityOf(const std::string& architecture) {
  int number = 0;
  if (architecture.starts_with("sm_")) std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  return number;
}

Result<std::string> nvptxTarget(const std::string& architecture) {
  const int capability = capabilityOf(architecture);
  if (capability < 75) return failure("Architecture " + architecture + " is not one of sm_75 and later.");
  NF_TRY(const std::unique_ptr<llvm::TargetMachine> machine, machineFor("sm_75"));
  const llvm::MCSubtargetInfo& known = *machine->getMCSubtargetInfo();
  if (known.isCPUStringValid(architecture)) return architecture;
  for (int n = capability; n > 75; --n)
    if (const std::string name = "sm_" + std::to_string(n); known.isCPUStringValid(name)) return name;
  return std::string("sm_75");
}

Result<std::string> findLibdevice(const std::vector<std::string>& folders) {
  const std::string name = "libdevice.10.bc";
  std::string found = findIn(folders, name), tried;
  if (!found.empty()) return found;
  for (const std::string& folder : folders) tried += (tried.empty() ? "" : ", ") + folder;
  return failure("libdevice.10.bc, the CUDA toolkit's functions for LLVM, is not in " + tried +
                 ": kernels with functions such as exp are generated by NVRTC.");
}

Result<Unit> optimizeNvptx(llvm::Module& module, const std::string& architecture) {
  NF_TRY(const std::string taken, nvptxTarget(architecture));
  NF_TRY(const std::unique_ptr<llvm::TargetMachine> machine, machineFor(taken));
  place(module, *machine);
  optimize(module, *machine);
  return Unit{};
}

Result<NvptxOutput> generateNvptx(const loop::Function& function, const std::string& architecture, const std::string& libdevice,
                                  const loop::LoopText* lines) {
  NF_TRY(const std::string taken, nvptxTarget(architecture));
  NF_TRY(const std::unique_ptr<llvm::TargetMachine> machine, machineFor(taken));
  llvm::LLVMContext context;
  NF_TRY(EmittedModule emitted, emitModule(function, context, capabilityOf(taken), lines));
  llvm::Module& module = *emitted.module;
  place(module, *machine);
#ifndef NDEBUG
  std::string broken;
  llvm::raw_string_ostream words(broken);
  if (llvm::verifyModule(module, &words)) return failure("the code generator made an invalid module", words.str());
#endif
  NF_TRY([[maybe_unused]] const Unit linked, linkLibdevice(module, libdevice));
  optimize(module, *machine);
  NvptxOutput output;
  output.stages = std::move(emitted.stages);
  if (lines) output.texts["llvm"] = codegen::moduleText(module, *lines);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return failure("LLVM cannot write PTX.");
  passes.run(module);
  output.ptx.assign(text.begin(), text.end());
  if (lines) output.texts["ptx"] = codegen::assemblyText(output.ptx, *lines);
  return output;
}

}  // namespace nf::cuda
