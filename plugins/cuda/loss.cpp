// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/loss.h"

#include <map>
#include <mutex>

namespace nf::cuda {
namespace {

struct Losses {
  std::mutex mutex;
  std::map<int, Error> of;
};

Losses& losses() {
  static Losses self;
  return self;
}

}  // namespace

bool recoverable(CUresult code) {
  for (const CUresult known :
       {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_INVALID_SOURCE,
        CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_READY, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED,
        CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE})
    if (code == known) return true;
  return false;
}

void rememberLoss(int number, const Error& error) {
  const std::lock_guard lock(losses().mutex);
  losses().of.emplace(number, error);
}

std::optional<Error> lossOf(int number) {
  const std::lock_guard lock(losses().mutex);
  const auto found = losses().of.find(number);
  if (found == losses().of.end()) return std::nullopt;
  return found->second;
}

}  // namespace nf::cuda
