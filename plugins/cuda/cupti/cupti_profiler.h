// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "plugins/cuda/cupti/cupti.h"
#include "plugins/cuda/profiler.h"

namespace nf::cuda {

// With this library, which outlives it; null: Cupti::get(), when it is first needed.
std::unique_ptr<Profiler> makeProfiler(ProfiledContext context, const Cupti* cupti);

}  // namespace nf::cuda
