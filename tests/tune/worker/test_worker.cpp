// SPDX-License-Identifier: Apache-2.0
// A worker process for tests:  tune_test_worker [--abort-first FILE COUNT] --compile | --measure ...
#include "core/tune/worker_main.h"
#include "tests/tune/worker/fake_backend.h"

int main(int count, char** values) {
  std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.size() >= 3 && arguments[0] == "--abort-first") {
    nf::abortFirstCompiles(arguments[1], std::atoi(arguments[2].c_str()));
    arguments.erase(arguments.begin(), arguments.begin() + 3);
  }
  nf::BackendRegistry registry;
  registry.add("fake", nf::fakeBackend);
  return nf::workerMain(arguments, registry);
}
