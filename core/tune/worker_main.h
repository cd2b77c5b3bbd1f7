// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/device/backend.h"

namespace nf {

// The process behind CompileService and MeasureService, `neoflow worker` of the command line. Reads frames from standard input
// and answers on standard output until the input ends; dies with its parent. Returns the exit code.
//   --compile
//   --measure --backend NAME --device NAME --threads N [--lease-directory DIR]
int workerMain(const std::vector<std::string>& arguments, BackendRegistry& registry);

}  // namespace nf
