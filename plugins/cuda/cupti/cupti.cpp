// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/cupti/cupti.h"

#include <dlfcn.h>

#include <type_traits>
#include <vector>

#include "core/device/profiler.h"
#include "plugins/cuda/toolkit.h"

namespace nf::cuda {
namespace {

Error refuse(const std::string& why) { return Error{kCountersStage, why, "cuda", {}}; }

Result<std::unique_ptr<const Cupti>> find() {
  std::vector<std::string> folders{std::string()};
  for (const char* inside : {"extras/CUPTI/lib64", "lib64", "lib"})
    for (const std::string& folder : toolkitFolders(inside)) folders.push_back(folder);
  std::string why;
  for (const std::string& folder : folders)
    for (const char* name : {"libcupti.so.13", "libcupti.so.12"}) {
      auto opened = Cupti::open(folder + name);
      if (opened) return opened;
      if (why.empty() && opened.error().detail.empty()) why = opened.error().message;
    }
  if (!why.empty()) return refuse(why);
  return refuse(
      "CUPTI, the profiling library of NVIDIA's CUDA toolkit 12 or later, is not installed: libcupti.so.13 and libcupti.so.12 are "
      "neither known to the loader nor below CUDA_HOME.");
}

}  // namespace

Result<std::unique_ptr<const Cupti>> Cupti::open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const words = dlerror();
    Error error = refuse(path + " can't be opened.");
    error.detail = words ? words : "it is not there";
    return error;
  }
  auto self = std::make_unique<Cupti>();
  std::string missing;
#define NF_FIND(slot, function)                                                                            \
  self->slot = reinterpret_cast<std::remove_reference_t<decltype(self->slot)>>(dlsym(library, #function)); \
  if (!self->slot && missing.empty()) missing = #function;
  NF_CUPTI(NF_FIND)
  if (!missing.empty()) return refuse("The CUPTI that is installed lacks " + missing + ".");
  NF_CUPTI_RANGE(NF_FIND)
#undef NF_FIND
#ifdef NF_CUPTI_RANGES
  self->hasRanges = missing.empty();
#endif
  self->version(&self->number);
  return std::unique_ptr<const Cupti>(std::move(self));
}

Result<const Cupti*> Cupti::get() {
  static const Result<std::unique_ptr<const Cupti>> found = find();
  if (!found) return found.error();
  return found->get();
}

Error Cupti::failure(const std::string& what, CUptiResult code) const {
  const char* name = nullptr;
  resultName(code, &name);
  const std::string detail = name ? name : "error " + std::to_string(static_cast<int>(code));
  std::string why;
  switch (static_cast<int>(code)) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      why =
          "The driver shows the GPU's counters to administrators alone (ERR_NVGPUCTRPERM): run as root, or write `options nvidia "
          "NVreg_RestrictProfilingToAdminUsers=0` to a file in /etc/modprobe.d and restart the machine.";
      break;
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      why = "The host of this virtual machine does not let it read the GPU's counters: its administrator must allow profiling.";
      break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      why = "Another profiler or debugger holds CUPTI in this process: end it first.";
      break;
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED: why = "CUPTI gives no counters of a part of a GPU (MIG)."; break;
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      why = "The GPU is in confidential mode, in which nothing may be profiled.";
      break;
    default: why = what + ": " + detail + ".";
  }
  return Error{kCountersStage, why, "cuda", detail};
}

}  // namespace nf::cuda
