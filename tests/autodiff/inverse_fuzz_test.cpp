// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"
#include "tests/fuzz/body_oracle.h"

namespace nf::testing {
namespace {

bool fails(const AccessProblem& problem) {
  const Inverse inverse = invert(problem);
  return inverse.state == Inverse::State::Uncertified || !compareExactly(problem, inverse).right;
}

bool splitsWrong(const AccessProblem& problem) {
  const Inverse inverse = invert(problem);
  return inverse.state == Inverse::State::Gather && !wrongPhases(problem, inverse).empty();
}

// Oracles A (exact integers) and B (isl's certificate) over `count` accesses of all classes, both of each residue class on one in four, and
// D (the gradient differentiated again) on one in eight. Tightness: the share of those outside Wide that some element gets a term from,
// whose loops make as many turns an element as the fullest element has terms.
void check(std::uint64_t seed, std::size_t count, double* tightness = nullptr) {
  std::size_t gathered = 0, tight = 0;
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
    if (c != AccessClass::Wide && inverse.state == Inverse::State::Gather) {
      ++gathered;
      tight += inverse.tripsPerZ <= std::max<std::int64_t>(1, result.largestFibre);
    }
    if (i % 4 == 0 && inverse.state == Inverse::State::Gather) {
      ASSERT_EQ(wrongPhases(*problem, inverse), "")
          << name(c) << ", case " << i << "\n"
          << describe(*problem) << "\nminimal: " << describe(shrink(*problem, splitsWrong));
    }
    if (i % 8 != 0 || c == AccessClass::Wide || inverse.state != Inverse::State::Gather) continue;
    const AccessProblem again = secondOrder(*problem, inverse, static_cast<std::uint32_t>(choices.word()));
    const Inverse inner = invert(again);
    const OracleResult innerResult = compareExactly(again, inner);
    ASSERT_TRUE(innerResult.right) << "second order of case " << i << ": " << innerResult.wrong << "\n" << describe(again);
    ASSERT_NE(inner.state, Inverse::State::Uncertified) << "second order of case " << i << ": " << inner.why << "\n"
                                                        << describe(again);
  }
  if (tightness) *tightness = static_cast<double>(tight) / static_cast<double>(gathered);
}

// A solver that forgets its inner guards is found out by the exact oracle, and the failure shrinks until nothing can be taken away: at
// most two variables of the least extents at which the guard matters. The certificate refuses each of them.
TEST(InverseFuzz, FailuresOfABrokenSolverShrink) {
  InvertOptions broken;
  broken.sabotage = [](Inverse& inverse) { inverse.tGuards.clear(); };
  const auto isWrong = [&](const AccessProblem& problem) { return !compareExactly(problem, invert(problem, broken)).right; };
  std::size_t found = 0;
  std::mt19937_64 seeds(7);
  for (std::size_t i = 0; found < 6; ++i) {
    Choices choices(seeds());
    const auto problem = randomAccess(kAccessClasses[i % kAccessClasses.size()], choices);
    if (!problem || !isWrong(*problem)) continue;
    ++found;
    EXPECT_EQ(invert(*problem, broken).state, Inverse::State::Uncertified) << describe(*problem);
    const AccessProblem minimal = shrink(*problem, isWrong);
    ASSERT_TRUE(isWrong(minimal)) << describe(minimal);
    EXPECT_EQ(invert(minimal, broken).state, Inverse::State::Uncertified) << describe(minimal);
    EXPECT_LE(minimal.domain.size(), 2u) << describe(minimal);
    EXPECT_LE(minimal.access.size() + minimal.guards.size(), 2u) << describe(minimal);
    EXPECT_EQ(describe(shrink(minimal, isWrong)), describe(minimal));
    std::int64_t points = 1;
    for (const Range& r : minimal.domain) points *= r.extent();
    EXPECT_LE(points, 6) << describe(minimal);
    EXPECT_TRUE(compareExactly(minimal, invert(minimal)).right) << "the whole solver is right there";
  }
}

// Oracle C: the accesses within random operators, against central differences; ties and zeros apart.
void checkBodies(std::uint64_t seed, std::size_t count) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 seeds(seed);
  std::size_t compared = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Choices choices(seeds());
    const auto problem = randomAccess(kAccessClasses[i % kAccessClasses.size()], choices);
    if (!problem) continue;
    for (const BodyKind kind : {BodyKind::Differences, BodyKind::Ties, BodyKind::Zeros}) {
      const BodyResult result = compareBody(*problem, kind, choices, 400);
      ASSERT_TRUE(result.right) << "case " << i << ": " << result.wrong << describe(*problem);
      compared += result.compared;
    }
  }
  EXPECT_GT(compared, count);
}

TEST(BodyFuzz, FixedSeed) { checkBodies(20261121, 250); }

TEST(BodyFuzz, RandomSeed) {
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  checkBodies(seed, 250);
}

TEST(InverseFuzz, FixedSeed) {
  double tightness = 0;
  check(20261121, 1000, &tightness);
  EXPECT_GE(tightness, 0.95) << "of the accesses outside Wide";
}

TEST(InverseFuzz, RandomSeed) {
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %llu (replay: neoflow-fuzz --seed ...)\n", static_cast<unsigned long long>(seed));
  check(seed, 1000);
}

}  // namespace
}  // namespace nf::testing
