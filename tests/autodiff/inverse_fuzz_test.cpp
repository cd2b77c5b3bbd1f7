// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"

namespace nf::testing {
namespace {

bool fails(const AccessProblem& problem) {
  const Inverse inverse = invert(problem);
  return inverse.state == Inverse::State::Uncertified || !compareExactly(problem, inverse).right;
}

// Oracles A (exact integers) and B (isl's certificate) over `count` accesses of all classes, and D (the gradient differentiated
// again) on one in eight.
void check(std::uint64_t seed, std::size_t count) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 seeds(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const AccessClass c = kAccessClasses[i % kAccessClasses.size()];
    Choices choices(seeds());
    const auto problem = randomAccess(c, choices);
    if (!problem) continue;
    const Inverse inverse = invert(*problem);
    const OracleResult result = compareExactly(*problem, inverse);
    ASSERT_TRUE(result.right) << name(c) << ", case " << i << ": " << result.wrong << "\n"
                              << describe(*problem) << "\n"
                              << toText(inverse) << "\nminimal: " << describe(shrink(*problem, fails));
    ASSERT_NE(inverse.state, Inverse::State::Uncertified)
        << name(c) << ", case " << i << ": " << inverse.why << "\n"
        << describe(*problem) << "\nminimal: " << describe(shrink(*problem, fails));
    if (i % 8 != 0 || c == AccessClass::Wide || inverse.state != Inverse::State::Gather) continue;
    const AccessProblem again = secondOrder(*problem, inverse, static_cast<std::uint32_t>(choices.word()));
    const Inverse inner = invert(again);
    const OracleResult innerResult = compareExactly(again, inner);
    ASSERT_TRUE(innerResult.right) << "second order of case " << i << ": " << innerResult.wrong << "\n" << describe(again);
    ASSERT_NE(inner.state, Inverse::State::Uncertified) << "second order of case " << i << ": " << inner.why << "\n"
                                                        << describe(again);
  }
}

TEST(InverseFuzz, FixedSeed) { check(20261121, 1000); }

TEST(InverseFuzz, RandomSeed) {
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %llu (replay: neoflow-fuzz --seed ...)\n", static_cast<unsigned long long>(seed));
  check(seed, 1000);
}

}  // namespace
}  // namespace nf::testing
