// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/device/profiler.h"

namespace nf::cuda {

// What a profiler needs of the device whose account it keeps.
struct ProfiledContext {
  CUcontext context = nullptr;
  int number = 0;                             // of the device
  std::function<Result<Unit>()> synchronize;  // waits for all that was launched
  // Of the kernel that was launched last: its cubin; empty where the driver made it of PTX.
  std::function<std::span<const std::byte>()> code;
};

// Opens libcupti when it is first asked for something. Without it every call says in one sentence what is missing; a build that had no
// CUPTI headers says that.
std::unique_ptr<Profiler> makeProfiler(ProfiledContext context);
// Its version, "CUDA 13.0", or why there is none in one sentence.
std::string profilerVersion();

}  // namespace nf::cuda
