// SPDX-License-Identifier: Apache-2.0
// A worker process for tests:  tune_test_worker --compile | --measure ...
#include "core/tune/worker_main.h"
#include "tests/tune/worker/fake_backend.h"

int main(int count, char** values) {
  nf::BackendRegistry registry;
  registry.add("fake", nf::fakeBackend);
  return nf::workerMain({values + 1, values + count}, registry);
}
