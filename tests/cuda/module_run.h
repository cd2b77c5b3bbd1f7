// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/schedule/loop_ir.h"
#include "tests/cuda/host_run.h"

namespace nf::test {

// The module that LLVM's NVPTX back end would get, as machine code of this machine: special registers, barriers, exchanges and copies are
// calls of host_run's fibres, functions of libdevice those of libm. Everything else is as it was, passes included.
Result<HostObject> moduleForHost(const loop::Function& function, const std::string& architecture, const std::string& prefix);

}  // namespace nf::test
