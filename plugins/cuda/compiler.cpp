// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/compiler.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/schedule/generator.h"
#include "core/schedule/lower.h"
#include "plugins/cuda/driver.h"
#include "plugins/cuda/emit.h"
#include "plugins/cuda/nvptx/generate.h"
#include "plugins/cuda/nvrtc.h"
#include "plugins/cuda/toolkit.h"

namespace nf::cuda {
namespace {

Error failure(const std::string& message) { return Error{"compile", message, "cuda", {}}; }

std::string nominalFingerprint(const std::string& architecture) { return "nominal " + architecture; }

std::size_t numberAt(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// PTX says which line of which file an instruction comes from: ".loc 1 12 3"; ".file 1 "kernel.cu"" names the file, at the end.
KernelText ptxText(std::string text, const KernelText& source) {
  KernelText result;
  std::size_t file = 0;
  const std::size_t named = text.find("kernel.cu\"");
  if (named != std::string::npos) {
    const std::size_t begin = text.rfind(".file", named);
    if (begin != std::string::npos) {
      const std::size_t digit = text.find_first_of("0123456789", begin);
      file = numberAt(std::string_view(text).substr(digit));
    }
  }
  std::size_t current = 0, begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    std::vector<OriginId> origins;
    const std::size_t loc = line.find(".loc\t") != std::string_view::npos ? line.find(".loc\t") : line.find(".loc ");
    if (loc != std::string_view::npos) {
      const std::string_view rest = line.substr(loc + 5);
      const std::size_t space = rest.find(' ');
      // What the prelude's functions do belongs to the line that called them.
      const std::size_t inlined = rest.find("inlined_at ");
      if (inlined != std::string_view::npos) {
        const std::string_view call = rest.substr(inlined + 11);
        const std::size_t next = call.find(' ');
        if (numberAt(call) == file && next != std::string_view::npos) current = numberAt(call.substr(next + 1));
      } else if (numberAt(rest) == file && space != std::string_view::npos) {
        current = numberAt(rest.substr(space + 1));
      }
    } else if (line.starts_with(".visible") || line.starts_with("}")) {
      current = 0;
    } else if (line.starts_with("\t") && line.size() > 1 && line[1] != '.' && line[1] != '/' && current >= 1 &&
               current <= source.lineOrigins.size()) {
      origins = source.lineOrigins[current - 1];
    }
    result.lineOrigins.push_back(std::move(origins));
    begin = end + 1;
  }
  if (!text.empty() && text.back() != '\n') text.push_back('\n');
  result.text = std::move(text);
  return result;
}

class CudaCompiler final : public Compiler {
 public:
  CudaCompiler(Target target, std::string architecture, const Nvrtc* nvrtc, std::string ptxas)
      : m_target(std::move(target)), m_architecture(std::move(architecture)), m_nvrtc(nvrtc), m_ptxas(std::move(ptxas)) {}

  Result<KernelObject> compile(const CompileRequest& request) override {
    NF_TRY(const loop::Function function, lower(request.subgraph, request.schedule, m_target));
    KernelObject object;
    object.backend = "cuda";
    object.schedule = request.schedule;
    object.effort = request.effort;
    object.workspaceBytes = function.workspaceBytes;
    object.flops = function.flops;
    object.checks = function.checks;
    // What comes soonest is LLVM's.
    const bool llvm = request.effort == CompileEffort::Quick || generatorOf(request.schedule) == "llvm";
    Result<Unit> made = llvm || !m_nvrtc ? byLlvm(function, request, object) : byNvrtc(function, request, object);
    if (!made && llvm && m_nvrtc) made = byNvrtc(function, request, object);
    if (!made) return made.error();
    addOtherSource(function, request, object);
    return object;
  }

 private:
  static bool wanted(const CompileRequest& request, const char* text) {
    return std::find(request.texts.begin(), request.texts.end(), text) != request.texts.end();
  }

  // Instructions of one architecture alone are that of its name with an a.
  std::string architectureFor(const loop::Function& function) const {
    const bool own = std::any_of(function.statements.begin(), function.statements.end(),
                                 [](const loop::Statement& s) { return s.kind == loop::Statement::Kind::WarpgroupTile; });
    return own && !m_architecture.ends_with("a") ? m_architecture + "a" : m_architecture;
  }

  Result<Unit> byNvrtc(const loop::Function& function, const CompileRequest& request, KernelObject& object) const {
    NF_TRY(EmittedSource emitted, emit(function));
    NF_TRY(Nvrtc::Output output, m_nvrtc->compile(emitted.source.text, architectureFor(function), wanted(request, "ptx")));
    object.code = std::move(output.cubin);
    object.stages = std::move(emitted.stages);
    if (wanted(request, "loops")) {
      loop::LoopText loops = loop::toText(function);
      object.texts["loops"] = {std::move(loops.text), std::move(loops.lineOrigins)};
    }
    if (wanted(request, "ptx")) object.texts["ptx"] = ptxText(std::move(output.ptx), emitted.source);
    if (wanted(request, "cuda")) object.texts["cuda"] = std::move(emitted.source);
    object.generator = "nvrtc";
    return Unit{};
  }

  static std::string libdevice() {
    const auto found = findLibdevice(toolkitFolders("nvvm/libdevice"));
    return found ? *found : std::string();
  }

  // What the other generator would make of the same loops, for those who read.
  void addOtherSource(const loop::Function& function, const CompileRequest& request, KernelObject& object) const {
    if (wanted(request, "cuda") && !object.texts.contains("cuda")) {
      if (auto emitted = emit(function)) object.texts["cuda"] = std::move(emitted->source);
    }
    if (wanted(request, "llvm") && !object.texts.contains("llvm")) {
      const loop::LoopText loops = loop::toText(function);
      if (auto output = generateNvptx(function, m_architecture, libdevice(), &loops))
        object.texts["llvm"] = std::move(output->texts.at("llvm"));
    }
  }

  Result<Unit> byLlvm(const loop::Function& function, const CompileRequest& request, KernelObject& object) const {
    std::optional<loop::LoopText> loops;
    if (!request.texts.empty()) loops = loop::toText(function);
    NF_TRY(NvptxOutput output, generateNvptx(function, m_architecture, libdevice(), loops ? &*loops : nullptr));
    if (!m_ptxas.empty()) {
      NF_TRY(object.code, assemble(m_ptxas, output.ptx, m_architecture));
    } else {
      // The driver assembles it; it wants the zero at the end.
      object.code.resize(output.ptx.size() + 1);
      std::memcpy(object.code.data(), output.ptx.c_str(), object.code.size());
    }
    object.stages = std::move(output.stages);
    for (auto& [language, text] : output.texts)
      if (wanted(request, language.c_str())) object.texts[language] = std::move(text);
    if (wanted(request, "loops")) object.texts["loops"] = {std::move(loops->text), std::move(loops->lineOrigins)};
    object.generator = "llvm";
    return Unit{};
  }

  Target m_target;
  std::string m_architecture;
  const Nvrtc* m_nvrtc;  // null: it is not there, or makes code that the driver does not load, and LLVM generates all
  std::string m_ptxas;   // empty: likewise, and the driver assembles
};

}  // namespace

Result<std::unique_ptr<Compiler>> makeCompiler(const Target& target) {
  if (target.backend != "cuda" || target.features.empty()) return failure("the target is no CUDA device");
  const std::string& architecture = target.features.front();
  NF_TRY([[maybe_unused]] const std::string known, nvptxTarget(architecture));
  // What is made for an architecture by its name is for another machine.
  const bool elsewhere = target.fingerprint == nominalFingerprint(architecture);
  const auto nvrtc = elsewhere ? Nvrtc::get() : Nvrtc::forDriver();
  const std::string ptxas = elsewhere || driverLoads(ptxasMajor()) ? ptxasPath() : std::string();
  if (nvrtc) {
    const auto& served = (*nvrtc)->architectures();
    if (!served.empty() && std::find(served.begin(), served.end(), architecture) == served.end())
      return failure("NVRTC " + (*nvrtc)->version() + " generates no code for " + architecture + ".");
  }
  return std::unique_ptr<Compiler>(std::make_unique<CudaCompiler>(target, architecture, nvrtc ? *nvrtc : nullptr, ptxas));
}

Result<Target> nominalTarget(const std::string& architecture) {
  const int number = capabilityOf(architecture);
  if (number < 75) return failure("Architecture " + architecture + " is not one of sm_75 and later.");
  Target t;
  t.backend = "cuda";
  t.fingerprint = nominalFingerprint(architecture);
  t.features = {architecture};
  t.vectorBytes = 16;
  t.vectorRegisters = 255;
  t.l1Bytes = 48 << 10;
  t.l2Bytes = number >= 80 ? 40 << 20 : 4 << 20;
  t.threads = number >= 90 ? 132 : number >= 80 ? 108 : 40;
  t.peakFlops = number >= 90 ? 4.6e11 : number >= 80 ? 1.8e11 : 2.0e11;
  t.peakBandwidth = number >= 90 ? 3.3e12 : number >= 80 ? 1.5e12 : 3.2e11;
  t.launchSeconds = 3e-6;
  return t;
}

}  // namespace nf::cuda
