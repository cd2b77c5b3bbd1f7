// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/compiler.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/schedule/lower.h"
#include "plugins/cuda/emit.h"
#include "plugins/cuda/nvrtc.h"

namespace nf::cuda {
namespace {

Error failure(const std::string& message) { return Error{"compile", message, "cuda", {}}; }

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
  CudaCompiler(Target target, std::string architecture, const Nvrtc* nvrtc)
      : m_target(std::move(target)), m_architecture(std::move(architecture)), m_nvrtc(nvrtc) {}

  Result<KernelObject> compile(const CompileRequest& request) override {
    NF_TRY(const loop::Function function, lower(request.subgraph, request.schedule, m_target));
    NF_TRY(EmittedSource emitted, emit(function));
    const auto wanted = [&](const char* text) {
      return std::find(request.texts.begin(), request.texts.end(), text) != request.texts.end();
    };
    NF_TRY(Nvrtc::Output output, m_nvrtc->compile(emitted.source.text, m_architecture, wanted("ptx")));
    KernelObject object;
    object.backend = "cuda";
    object.schedule = request.schedule;
    object.code = std::move(output.cubin);
    object.stages = std::move(emitted.stages);
    object.workspaceBytes = function.workspaceBytes;
    object.flops = function.flops;
    object.checks = function.checks;
    if (wanted("loops")) {
      loop::LoopText loops = loop::toText(function);
      object.texts["loops"] = {std::move(loops.text), std::move(loops.lineOrigins)};
    }
    if (wanted("ptx")) object.texts["ptx"] = ptxText(std::move(output.ptx), emitted.source);
    if (wanted("cuda")) object.texts["cuda"] = std::move(emitted.source);
    return object;
  }

 private:
  Target m_target;
  std::string m_architecture;
  const Nvrtc* m_nvrtc;
};

std::optional<int> numberOf(const std::string& architecture) {
  if (!architecture.starts_with("sm_")) return std::nullopt;
  const auto number = static_cast<int>(numberAt(std::string_view(architecture).substr(3)));
  return number > 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Compiler>> makeCompiler(const Target& target) {
  if (target.backend != "cuda" || target.features.empty()) return failure("the target is no CUDA device");
  NF_TRY(const Nvrtc* const nvrtc, Nvrtc::get());
  const std::string& architecture = target.features.front();
  const auto& known = nvrtc->architectures();
  if (!known.empty() && std::find(known.begin(), known.end(), architecture) == known.end())
    return failure("NVRTC " + nvrtc->version() + " generates no code for " + architecture + ".");
  return std::unique_ptr<Compiler>(std::make_unique<CudaCompiler>(target, architecture, nvrtc));
}

Result<Target> nominalTarget(const std::string& architecture) {
  const auto number = numberOf(architecture);
  if (!number || *number < 75) return failure("Architecture " + architecture + " is not one of sm_75 and later.");
  Target t;
  t.backend = "cuda";
  t.fingerprint = "nominal " + architecture;
  t.features = {architecture};
  t.vectorBytes = 16;
  t.vectorRegisters = 255;
  t.l1Bytes = 48 << 10;
  t.l2Bytes = *number >= 80 ? 40 << 20 : 4 << 20;
  t.threads = *number >= 90 ? 132 : *number >= 80 ? 108 : 40;
  t.peakFlops = *number >= 90 ? 4.6e11 : *number >= 80 ? 1.8e11 : 2.0e11;
  t.peakBandwidth = *number >= 90 ? 3.3e12 : *number >= 80 ? 1.5e12 : 3.2e11;
  t.launchSeconds = 3e-6;
  return t;
}

}  // namespace nf::cuda
