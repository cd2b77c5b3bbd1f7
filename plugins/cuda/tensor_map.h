// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/device/backend.h"
#include "plugins/cuda/driver.h"

namespace nf::cuda {

// The map of what begins at `memory`, as a kernel's parameter: swizzled by 128 bytes, zero outside.
CUresult encode(const Driver& driver, const KernelTensorMap& map, CUdeviceptr memory, CUtensorMap& into);

}  // namespace nf::cuda
