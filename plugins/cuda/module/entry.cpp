// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) nf::Backend* neoflowPlugin(std::uint32_t version) {
  return neoflowCudaPlugin(version);
}
