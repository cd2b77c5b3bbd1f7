// SPDX-License-Identifier: Apache-2.0
// A worker process of the CPU back end, as `neoflow worker`.
#include "core/tune/worker_main.h"
#include "plugins/cpu/plugin.h"

int main(int count, char** values) {
  nf::BackendRegistry registry;
  registry.add("cpu", neoflowPlugin);
  return nf::workerMain(std::vector<std::string>(values + 1, values + count), registry);
}
