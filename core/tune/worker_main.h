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
// For demonstrations: with NEOFLOW_ABORT_COMPILES=FILE in its environment a worker aborts at a compile, and takes one from the number
// in FILE, until that is 0.
int workerMain(const std::vector<std::string>& arguments, BackendRegistry& registry);

}  // namespace nf
