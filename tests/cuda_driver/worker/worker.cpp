// SPDX-License-Identifier: Apache-2.0
// A worker process on the driver double's devices, for tests:  cuda_driver_worker --compile | --measure ...
#include "core/tune/worker_main.h"
#include "plugins/cuda/plugin.h"
#include "tests/cuda_driver/double/double.h"

int main(int count, char** values) {
  nf::driver_double::reset();
  nf::BackendRegistry registry;
  registry.add("cuda", &neoflowCudaPlugin);
  return nf::workerMain({values + 1, values + count}, registry);
}
