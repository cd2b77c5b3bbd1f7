// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/driver.h"

#include <dlfcn.h>

#include <iterator>
#include <type_traits>

namespace nf::cuda {
namespace {

constexpr int kOldestDriver = 12000;
// Where the loader looks; where containers have the driver of their host, which not all tell the loader; where Windows gives its Linux one.
constexpr const char* kLibraries[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};

Error refuse(const std::string& why) { return Error{"open device", why, "cuda", {}}; }

void* openLibrary() {
  void* library = nullptr;
  for (std::size_t k = 0; !library && k < std::size(kLibraries); ++k) library = dlopen(kLibraries[k], RTLD_NOW | RTLD_LOCAL);
  return library;
}

Result<Unit> open(Driver& driver) {
  void* library = openLibrary();
  if (!library) return refuse("There is no NVIDIA driver on this machine: libcuda.so.1 can't be opened.");
  std::string missing;
#define NF_FIND(slot, function, name)                                                                   \
  driver.slot = reinterpret_cast<std::remove_reference_t<decltype(driver.slot)>>(dlsym(library, name)); \
  if (!driver.slot && missing.empty()) missing = name;
  NF_CUDA_DRIVER(NF_FIND)
  NF_CUDA_GRAPHS(NF_FIND)
#undef NF_FIND
  if (!missing.empty()) return refuse("The NVIDIA driver is too old: it lacks " + missing + ", CUDA 12.0 or later is needed.");
  if (driver.driverVersion(&driver.version) != CUDA_SUCCESS || driver.version < kOldestDriver)
    return refuse("The NVIDIA driver serves CUDA " + versionText(driver.version) + ", 12.0 or later is needed.");
  const CUresult code = driver.init(0);
  if (code == CUDA_ERROR_NO_DEVICE) return refuse("The NVIDIA driver finds no GPU on this machine.");
  if (code != CUDA_SUCCESS) {
    const char* words = nullptr;
    driver.errorString(code, &words);
    return refuse(std::string("The NVIDIA driver does not start: ") + (words ? words : "it gives no reason") + ".");
  }
  if (driver.deviceCount(&driver.devices) != CUDA_SUCCESS || driver.devices == 0)
    return refuse("The NVIDIA driver finds no GPU on this machine.");
  return Unit{};
}

}  // namespace

Result<const Driver*> Driver::get() {
  static Driver self;
  static const Result<Unit> opened = open(self);
  if (!opened) return opened.error();
  return &self;
}

Error Driver::failure(const char* stage, const std::string& what, CUresult code, const std::string& device) const {
  const char *name = nullptr, *words = nullptr;
  errorName(code, &name);
  errorString(code, &words);
  std::string detail = name ? name : "error " + std::to_string(static_cast<int>(code));
  if (words) detail += std::string(": ") + words;
  return Error{stage, what, device, detail};
}

int servedByDriver() {
  static const int served = [] {
    void* library = openLibrary();
    const auto ask = library ? reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion")) : nullptr;
    int version = 0;
    return ask && ask(&version) == CUDA_SUCCESS ? version : 0;
  }();
  return served;
}

bool driverLoads(int toolkitMajor) {
  const int served = servedByDriver();
  return served == 0 || toolkitMajor <= served / 1000;
}

std::string versionText(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

}  // namespace nf::cuda
