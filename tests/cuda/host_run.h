// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/tensor_data.h"
#include "core/support/result.h"
#include "plugins/cuda/emit.h"
#include "plugins/cuda/kernel_call.h"

namespace nf::test {

// Stages as machine code of this machine, each a function `prefix` + symbol.
struct HostObject {
  std::string code, prefix;  // of an object file; empty: none
  std::vector<KernelStage> stages;
  std::vector<bool> meets;  // by stage: threads of a block wait for each other
};

// One call of generated CUDA C, or of what `object` holds instead. Operands in binding order.
struct HostCall {
  cuda::EmittedSource emitted;
  HostObject object;
  std::vector<TensorData> inputs;
  std::vector<TensorData> outputs;  // types and shapes; values are filled in
  std::int64_t workspaceBytes = 0;
  std::vector<std::int64_t> counters;
  std::uint64_t seed = 7, step = 3;
  std::uint64_t status[cuda::kStatusWords] = {};
};

// Runs the kernels' text on this machine: the C++ compiler that built the tests makes a shared object of all of them, the threads of a
// block are fibres that change at barriers and exchanges, of all blocks where they wait for each other. Checks the text itself, not what NVIDIA's compilers make of it.
Result<Unit> runOnHost(std::vector<HostCall>& calls);

// A shared object of this machine that stands for a cubin: for each stage a function of the stage's name,
//   int STAGE(void** parameters, unsigned blocks, unsigned threads),
// which runs its grid with the parameters that cuLaunchKernel takes and gives a CUresult, and `unsigned long STAGE_bytes[]`, the sizes of
// those parameters and a zero. operands: their types, in binding order.
Result<std::vector<std::byte>> hostModule(const cuda::EmittedSource& emitted, const std::vector<DType>& operands);
// The same of C++ text.
Result<std::vector<std::byte>> hostModuleOf(const std::string& source);

}  // namespace nf::test
