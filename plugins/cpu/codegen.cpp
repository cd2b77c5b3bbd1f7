// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/codegen.h"

#include <cstring>
#include <mutex>
#include <optional>

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "core/schedule/lower.h"
#include "plugins/cpu/emit.h"
#include "plugins/llvm/text.h"

namespace nf::cpu {
namespace {

Error failure(const std::string& message, const std::string& detail = {}) { return Error{"compile", message, "cpu", detail}; }

std::string joined(const std::vector<std::string>& features) {
  std::string all;
  for (const std::string& f : features) {
    if (!all.empty()) all += ',';
    all += f;
  }
  return all;
}

void initializeLlvm() {
  static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)once;
}

// Explicit vectors need no optimiser to speak of: locals go to registers, equal values are shared, what a loop does not change
// leaves it.
void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  codegen::DebugLocations locations(module);
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, functions);
  locations.restore();
}

// Loop strength reduction takes two fifths of the time of code generation and is worth some 5 % of a kernel's. LLVM has no other way to
// leave it out of a pipeline than a switch of the whole process, which is read while the pipeline is put together.
class Pipeline {
 public:
  explicit Pipeline(CompileEffort effort) : m_lock(mutex()) { set(effort == CompileEffort::Quick); }
  ~Pipeline() { set(false); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static void set(bool off) {
    auto& options = llvm::cl::getRegisteredOptions();
    if (const auto found = options.find("disable-lsr"); found != options.end())
      *static_cast<llvm::cl::opt<bool>*>(found->second) = off;
  }
  std::lock_guard<std::mutex> m_lock;
};

class CpuCompiler final : public Compiler {
 public:
  explicit CpuCompiler(Target target) : m_target(std::move(target)), m_features(joined(m_target.features)) { initializeLlvm(); }

  Result<KernelObject> compile(const CompileRequest& request) override {
    NF_TRY(const loop::Function function, lower(request.subgraph, request.schedule, m_target));
    std::optional<loop::LoopText> loops;
    if (!request.texts.empty()) loops = loop::toText(function);
    llvm::LLVMContext context;
    Emitted emitted = emit(function, context, m_features, loops ? &*loops : nullptr);
    llvm::Module& module = *emitted.module;
    NF_TRY(llvm::TargetMachine* const machine, targetMachine());
    module.setTargetTriple(machine->getTargetTriple().str());
    module.setDataLayout(machine->createDataLayout());
#ifndef NDEBUG
    std::string broken;
    llvm::raw_string_ostream words(broken);
    if (llvm::verifyModule(module, &words)) return failure("the code generator made an invalid module", words.str());
#endif
    optimize(module, *machine);

    KernelObject object;
    object.backend = "cpu";
    object.schedule = request.schedule;
    object.effort = request.effort;
    for (const EmittedStage& s : emitted.stages) object.stages.push_back({s.symbol, s.tasks});
    object.workspaceBytes = function.workspaceBytes;
    object.flops = function.flops;
    object.checks = function.checks;
    for (const std::string& wanted : request.texts) {
      if (wanted == "loops") object.texts["loops"] = {loops->text, loops->lineOrigins};
      if (wanted == "llvm") object.texts["llvm"] = codegen::moduleText(module, *loops);
      if (wanted == "asm") {
        llvm::SmallVector<char, 0> text;
        const auto copy = llvm::CloneModule(module);
        NF_TRY([[maybe_unused]] const Unit done,
               generate(*machine, *copy, text, llvm::CodeGenFileType::AssemblyFile, request.effort));
        object.texts["asm"] = codegen::assemblyText(std::string(text.begin(), text.end()), *loops);
      }
    }
    llvm::SmallVector<char, 0> code;
    NF_TRY([[maybe_unused]] const Unit done, generate(*machine, module, code, llvm::CodeGenFileType::ObjectFile, request.effort));
    object.code.resize(code.size());
    std::memcpy(object.code.data(), code.data(), code.size());
    return object;
  }

 private:
  // By feature list, not by name: an unknown name would be taken for the nearest known machine.
  Result<llvm::TargetMachine*> targetMachine() {
    if (m_machine) return m_machine.get();
    const std::string triple = llvm::sys::getProcessTriple();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target) return failure("LLVM has no code generator for " + triple, error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    m_machine.reset(target->createTargetMachine(triple, "x86-64", m_features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                llvm::CodeGenOptLevel::Default));
    if (!m_machine) return failure("LLVM cannot generate code for " + triple);
    return m_machine.get();
  }

  static Result<Unit> generate(llvm::TargetMachine& machine, llvm::Module& module, llvm::SmallVectorImpl<char>& into,
                               llvm::CodeGenFileType type, CompileEffort effort) {
    llvm::raw_svector_ostream out(into);
    llvm::legacy::PassManager passes;
    {
      const Pipeline pipeline(effort);
      if (machine.addPassesToEmitFile(passes, out, nullptr, type)) return failure("LLVM cannot write this kind of file");
    }
    passes.run(module);
    return Unit{};
  }

  Target m_target;
  std::string m_features;
  std::unique_ptr<llvm::TargetMachine> m_machine;
};

}  // namespace

std::unique_ptr<Compiler> makeCompiler(const Target& target) { return std::make_unique<CpuCompiler>(target); }

}  // namespace nf::cpu
