// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/support/result.h"

namespace nf::cuda {

// Folders in which a file of NVIDIA's toolkit may lie, ending in '/': `inside` ("bin") of CUDA_HOME and of CUDA_PATH, beside this
// program's own libraries, and of /usr/local/cuda.
std::vector<std::string> toolkitFolders(const std::string& inside);

// The first of them that has the file; empty: none.
std::string findIn(const std::vector<std::string>& folders, const std::string& name);

// NVIDIA's assembler, a program: of the toolkit, or on the PATH. Empty: it is not installed, and the driver must assemble.
std::string ptxasPath();
// Its release, 13 of "release 13.0"; 0: it does not tell. Runs the program, once.
int ptxasMajor();

// A cubin. architecture: "sm_90"; it may be later than the PTX's. Runs the program and waits for it: workers call it. Its own words are
// the error's detail.
Result<std::vector<std::byte>> assemble(const std::string& ptxas, const std::string& ptx, const std::string& architecture);

}  // namespace nf::cuda
