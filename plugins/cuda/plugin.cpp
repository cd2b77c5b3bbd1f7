// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/plugin.h"

#include <charconv>

#include "plugins/cuda/compiler.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/driver.h"
#include "plugins/cuda/nvptx/generate.h"
#include "plugins/cuda/nvrtc.h"
#include "plugins/cuda/profiler.h"
#include "plugins/cuda/toolkit.h"

namespace nf::cuda {
namespace {

// "cuda" is the first device.
Result<int> numberOf(const std::string& device) {
  if (device == "cuda") return 0;
  int number = -1;
  if (device.starts_with("cuda:")) {
    const char *begin = device.data() + 5, *end = device.data() + device.size();
    const auto parsed = std::from_chars(begin, end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end && number >= 0) return number;
  }
  return Error{"open device", "There is no device " + device + ".", device, {}};
}

class CudaBackend final : public Backend {
 public:
  std::string name() const override { return "cuda"; }

  std::string unavailable() const override {
    const auto driver = Driver::get();
    if (!driver) return driver.error().message;
    std::string why;
    bool serves = false;
    for (int d = 0; d < (*driver)->devices; ++d) {
      const auto target = targetOf(d);
      serves = serves || target.ok();
      if (!target && why.empty()) why = target.error().message;
    }
    if (!serves) return why;
    const auto nvrtc = Nvrtc::forDriver();
    return nvrtc || findLibdevice(toolkitFolders("nvvm/libdevice")) ? std::string() : nvrtc.error().message;
  }

  std::vector<std::string> deviceNames() override {
    std::vector<std::string> names;
    const auto driver = Driver::get();
    // Also those that can't be used: target() says why.
    for (int d = 0; driver && d < (*driver)->devices; ++d) names.push_back(nameOf(d));
    return names;
  }

  Result<std::unique_ptr<Device>> open(const std::string& device, int) override {
    NF_TRY(const int number, numberOf(device));
    return openDevice(number);
  }

  Result<Target> target(const std::string& device, int) override {
    if (device.starts_with("cuda:sm_")) return nominalTarget(device.substr(5));
    NF_TRY(const int number, numberOf(device));
    return targetOf(number);
  }

  Result<std::unique_ptr<Compiler>> compiler(const Target& target) override { return makeCompiler(target); }

  About about(const std::string& device, int) override {
    About about;
    const auto number = numberOf(device);
    if (number) about.description = describe(*number);
    if (const auto driver = Driver::get()) about.versions.emplace_back("NVIDIA driver, CUDA", versionText((*driver)->version));
    const std::string unused = ", not used: the driver serves CUDA " + versionText(servedByDriver());
    if (const auto nvrtc = Nvrtc::get())
      about.versions.emplace_back("NVRTC", (*nvrtc)->version() + (driverLoads((*nvrtc)->major()) ? "" : unused));
    const auto libdevice = findLibdevice(toolkitFolders("nvvm/libdevice"));
    about.versions.emplace_back("LLVM NVPTX", llvmVersion() + ", " + (libdevice ? *libdevice : libdevice.error().message));
    const std::string ptxas = ptxasPath();
    about.versions.emplace_back("ptxas",
                                ptxas.empty() ? "none, the driver assembles" : ptxas + (driverLoads(ptxasMajor()) ? "" : unused));
    about.versions.emplace_back("CUPTI", profilerVersion());
    about.versions.emplace_back("code generator", std::to_string(kCodeGeneratorVersion));
    return about;
  }
};

}  // namespace
}  // namespace nf::cuda

extern "C" nf::Backend* neoflowCudaPlugin(std::uint32_t version) {
  static nf::cuda::CudaBackend backend;
  return version == nf::kPluginVersion ? &backend : nullptr;
}
