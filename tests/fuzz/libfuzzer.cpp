// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry over the generator of neoflow-fuzz: bytes are the generator's choices, so coverage steers which accesses come.
// A wrong or uncertified inverse is printed with its minimal case, and aborts.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"

namespace nf::testing {
namespace {

bool fails(const AccessProblem& problem) {
  const Inverse inverse = invert(problem);
  return inverse.state == Inverse::State::Uncertified || !compareExactly(problem, inverse).right;
}

void check(const AccessProblem& problem) {
  const Inverse inverse = invert(problem);
  const OracleResult result = compareExactly(problem, inverse);
  if (result.right && inverse.state != Inverse::State::Uncertified) return;
  std::fprintf(stderr, "%s: %s\n  %s\n  minimal: %s\n", result.right ? "UNCERTIFIED" : "WRONG",
               result.right ? inverse.why.c_str() : result.wrong.c_str(), describe(problem).c_str(),
               describe(shrink(problem, fails)).c_str());
  std::abort();
}

}  // namespace
}  // namespace nf::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nf::testing;
  if (size < 2) return 0;
  Choices choices(std::span(data + 1, size - 1));
  if (const auto problem = randomAccess(kAccessClasses[data[0] % kAccessClasses.size()], choices)) check(*problem);
  return 0;
}
