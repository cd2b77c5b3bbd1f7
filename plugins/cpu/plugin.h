// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/device/backend.h"

// The CPU back end: LLVM for code, this process' threads as the device.
extern "C" nf::Backend* neoflowPlugin(std::uint32_t version);
