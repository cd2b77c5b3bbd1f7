// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include "plugins/cuda/driver.h"
#include "plugins/cuda/emit.h"
#include "plugins/cuda/toolkit.h"

namespace nf::cuda {
namespace {

Error failure(const std::string& message, const std::string& detail = {}) { return Error{"compile", message, "cuda", detail}; }

int majorOf(void* library) {
  const auto ask = reinterpret_cast<decltype(&nvrtcVersion)>(dlsym(library, "nvrtcVersion"));
  int major = 0, minor = 0;
  return ask && ask(&major, &minor) == NVRTC_SUCCESS ? major : 0;
}

// Beside this program's own libraries, where the loader looks, and where toolkits are installed.
void* openLibrary(std::string& tried) {
  std::vector<std::string> folders = toolkitFolders("lib64");
  folders.insert(folders.begin(), std::string());
  void* later = nullptr;
  for (const std::string& folder : folders) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) continue;
      if (driverLoads(majorOf(library))) return library;
      if (!later) later = library;
    }
    if (!folder.empty()) tried += (tried.empty() ? "" : ", ") + folder;
  }
  return later;
}

}  // namespace

struct Nvrtc::Table {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) errorString;
  decltype(&nvrtcGetNumSupportedArchs) countArchs;
  decltype(&nvrtcGetSupportedArchs) archs;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetCUBINSize) cubinSize;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptxSize;
  decltype(&nvrtcGetPTX) ptx;
  decltype(&nvrtcGetProgramLogSize) logSize;
  decltype(&nvrtcGetProgramLog) log;
};

Result<Unit> Nvrtc::open(Nvrtc& into) {
  std::string tried;
  void* library = openLibrary(tried);
  if (!library)
    return failure(
        "NVRTC, the compiler of NVIDIA's CUDA toolkit 12 or later, is not installed: libnvrtc.so is neither known to the loader "
        "nor in " +
        tried + ".");
  static Table table;
  std::string missing;
  const auto find = [&](auto& slot, const char* name) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
    if (!slot) missing = name;
  };
  find(table.version, "nvrtcVersion");
  find(table.errorString, "nvrtcGetErrorString");
  find(table.countArchs, "nvrtcGetNumSupportedArchs");
  find(table.archs, "nvrtcGetSupportedArchs");
  find(table.create, "nvrtcCreateProgram");
  find(table.destroy, "nvrtcDestroyProgram");
  find(table.compile, "nvrtcCompileProgram");
  find(table.cubinSize, "nvrtcGetCUBINSize");
  find(table.cubin, "nvrtcGetCUBIN");
  find(table.ptxSize, "nvrtcGetPTXSize");
  find(table.ptx, "nvrtcGetPTX");
  find(table.logSize, "nvrtcGetProgramLogSize");
  find(table.log, "nvrtcGetProgramLog");
  if (!missing.empty()) return failure("The NVRTC that is installed lacks " + missing + ".");
  int major = 0, minor = 0, count = 0;
  if (table.version(&major, &minor) != NVRTC_SUCCESS || major < 12)
    return failure("The NVRTC that is installed is version " + std::to_string(major) + "." + std::to_string(minor) +
                   ", 12 or later is needed.");
  into.m_major = major;
  into.m_version = std::to_string(major) + "." + std::to_string(minor);
  if (table.countArchs(&count) == NVRTC_SUCCESS && count > 0) {
    std::vector<int> numbers(static_cast<std::size_t>(count));
    if (table.archs(numbers.data()) == NVRTC_SUCCESS)
      for (const int n : numbers) into.m_architectures.push_back("sm_" + std::to_string(n));
  }
  into.m_table = &table;
  return Unit{};
}

Result<const Nvrtc*> Nvrtc::get() {
  static Nvrtc self;
  static const Result<Unit> opened = open(self);
  if (!opened) return opened.error();
  return &self;
}

Result<const Nvrtc*> Nvrtc::forDriver() {
  NF_TRY(const Nvrtc* nvrtc, get());
  if (driverLoads(nvrtc->m_major)) return nvrtc;
  return failure("NVRTC " + nvrtc->m_version + " makes code that the driver, which serves CUDA " + versionText(servedByDriver()) +
                 ", does not load: NVRTC " + std::to_string(servedByDriver() / 1000) + " or a driver for CUDA " +
                 std::to_string(nvrtc->m_major) + " is needed. LLVM makes the kernels that it can.");
}

Result<Nvrtc::Output> Nvrtc::compile(const std::string& source, const std::string& architecture, bool ptx) const {
  const Table& t = *m_table;
  const auto refused = [&](nvrtcResult code, const std::string& log) {
    return failure(std::string("NVRTC refuses the kernel: ") + t.errorString(code), log);
  };
  const char* headers[] = {preludeText()};
  const char* names[] = {preludeName()};
  nvrtcProgram program = nullptr;
  nvrtcResult code = t.create(&program, source.c_str(), "kernel.cu", 1, headers, names);
  if (code != NVRTC_SUCCESS) return refused(code, {});
  const std::string arch = "--gpu-architecture=" + architecture;
  // Fused multiplications stand in the loops where they are meant: the same results on every back end.
  // Lines change no instruction: samples of the program counter and compute-sanitizer name them.
  std::vector<const char*> options{arch.c_str(), "--std=c++17", "--fmad=false", "--generate-line-info"};
  code = t.compile(program, static_cast<int>(options.size()), options.data());
  Output output;
  if (code != NVRTC_SUCCESS) {
    std::size_t size = 0;
    std::string log;
    if (t.logSize(program, &size) == NVRTC_SUCCESS && size > 1) {
      log.resize(size - 1);
      t.log(program, log.data());
    }
    t.destroy(&program);
    return refused(code, log);
  }
  std::size_t size = 0;
  code = t.cubinSize(program, &size);
  if (code == NVRTC_SUCCESS) {
    output.cubin.resize(size);
    code = t.cubin(program, reinterpret_cast<char*>(output.cubin.data()));
  }
  if (code == NVRTC_SUCCESS && ptx) {
    code = t.ptxSize(program, &size);
    if (code == NVRTC_SUCCESS && size > 1) {
      output.ptx.resize(size);
      code = t.ptx(program, output.ptx.data());
      output.ptx.resize(size - 1);
    }
  }
  t.destroy(&program);
  if (code != NVRTC_SUCCESS) return refused(code, {});
  return output;
}

}  // namespace nf::cuda
