// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/device/backend.h"

// The CUDA back end: NVRTC for code, the driver for devices; both libraries are opened at run time. As a shared object its entry point
// is neoflowPlugin.
extern "C" nf::Backend* neoflowCudaPlugin(std::uint32_t version);
