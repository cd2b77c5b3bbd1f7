// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "core/autodiff/phase.h"
#include "core/autodiff/points.h"
#include "tests/autodiff/named_accesses.h"
#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"
#include "tests/golden.h"

namespace nf::testing {
namespace {

TEST(SplitPhases, NamedOperatorsAreExactAndProved) {
  std::string text;
  std::size_t split = 0, withFloors = 0;
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse inverse = invert(access.problem);
    if (std::all_of(inverse.phaseModulus.begin(), inverse.phaseModulus.end(), [](std::int64_t h) { return h == 1; })) continue;
    ++split;
    EXPECT_EQ(wrongPhases(access.problem, inverse), "") << access.name;
    std::size_t floors = 0;
    text += access.name + "\n";
    for (const AccessPhase& phase : phasesOf(access.problem, inverse)) {
      for (const IndexExpr& e : phase.inverse.y) floors += e.floorDivCount();
      for (std::size_t j = 0; j < phase.modulus.size(); ++j)
        if (phase.modulus[j] > 1)
          text += "    z" + std::to_string(j) + " = " + std::to_string(phase.modulus[j]) + "*z" + std::to_string(j) + "' + " +
                  std::to_string(phase.phase[j]);
      text += ": " + toText(phase.inverse, access.variables) + "\n";
    }
    withFloors += floors > 0 ? 1 : 0;
  }
  EXPECT_EQ(split, 23u);
  EXPECT_LE(withFloors, 3u);
  expectGolden("autodiff/phases.golden", text);
}

// With and without the guards that say where a fibre is not empty (step 6b): both split into classes that are exact and proved.
class SplitRandomly : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(SplitPhases, SplitRandomly, ::testing::Bool());

TEST_P(SplitRandomly, RandomAccessesAreExactAndProved) {
  InvertOptions options;
  options.existenceGuard = GetParam();
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Choices choices(seed);
    const auto problem = randomAccess(kAccessClasses[seed % 8], choices);
    if (!problem) continue;
    const Inverse inverse = invert(*problem, options);
    if (inverse.state != Inverse::State::Gather) continue;
    ASSERT_EQ(wrongPhases(*problem, inverse), "") << "seed " << seed << ": " << describe(*problem);
  }
}

// An oracle that finds nothing proves nothing: a class without its guards, or one point longer, is found out.
TEST(SplitPhases, TheOraclesRefuseSpoiltClasses) {
  std::size_t spoilt = 0;
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse inverse = invert(access.problem);
    for (AccessPhase& phase : phasesOf(access.problem, inverse)) {
      if (phase.inverse.tGuards.empty()) continue;
      ++spoilt;
      phase.inverse.tGuards.pop_back();
      const bool right = compareExactly(phase.problem, phase.inverse).right;
      EXPECT_EQ(certify(phase.problem, phase.inverse, InvertOptions{}.certificateQuota).value_or(false), right) << access.name;
      EXPECT_FALSE(right) << access.name << ": a guard that is not needed stayed";
    }
  }
  EXPECT_GT(spoilt, 20u);
}

// Of 7 elements four are even and three odd, and the odd ones have one term, not two.
TEST(SplitPhases, ARaggedClassHasFewerPoints) {
  const IndexExpr p = IndexExpr::variable(0), r = IndexExpr::variable(1);
  const AccessProblem problem{{{0, 2}, {0, 2}}, {2 * p + r}, {7}, {}};
  const auto phases = phasesOf(problem, invert(problem));
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].problem.shape, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(phases[0].inverse.tripsPerZ, 2);
  EXPECT_EQ(phases[1].problem.shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(phases[1].inverse.tripsPerZ, 1);
  EXPECT_TRUE(phases[1].inverse.tGuards.empty());
  EXPECT_TRUE(phases[1].inverse.zGuards.empty());
}

// Where the interior's conditions hold, the peeled guards hold at every t; where one of them fails, a guard fails at some t.
void checkPeeling(const AccessProblem& problem, const std::string& name, std::size_t& peeled, std::size_t& kept) {
  const Inverse inverse = invert(problem);
  if (inverse.state != Inverse::State::Gather) return;
  const std::size_t m = problem.shape.size();
  const std::vector<Range> box = nestOf(problem.shape, inverse).ranges();
  const RangeOf ranges = [&](IndexVar v) -> std::optional<Range> {
    if (v < box.size()) return box[v];
    return std::nullopt;
  };
  const PeeledGuards split = peelGuards(
      inverse.tGuards, [&](IndexVar v) { return v >= m; }, ranges);
  EXPECT_EQ(split.peeled.size() + split.kept.size(), inverse.tGuards.size()) << name;
  peeled += split.peeled.size();
  kept += split.kept.size();
  std::vector<std::int64_t> point(box.size());
  const auto at = [&](IndexVar v) { return point[v]; };
  const auto all = [&](const std::vector<IndexCond>& guards) {
    return std::all_of(guards.begin(), guards.end(), [&](const IndexCond& g) { return evaluate(g, at); });
  };
  BoxPoints elements({box.begin(), box.begin() + static_cast<std::ptrdiff_t>(m)}, std::size_t{1} << 40);
  while (elements.next(std::span(point).first(m))) {
    const bool interior = all(split.interior);
    bool everywhere = true;
    BoxPoints trips({box.begin() + static_cast<std::ptrdiff_t>(m), box.end()}, std::size_t{1} << 40);
    while (trips.next(std::span(point).subspan(m))) everywhere = everywhere && all(split.peeled);
    ASSERT_EQ(interior, everywhere) << name;
  }
}

TEST(PeelGuards, NamedOperators) {
  std::size_t peeled = 0, kept = 0;
  for (const NamedAccess& access : namedAccesses()) checkPeeling(access.problem, access.name, peeled, kept);
  EXPECT_GT(peeled, 40u);
  EXPECT_LT(kept, peeled / 8);
}

TEST(PeelGuards, RandomAccesses) {
  std::size_t peeled = 0, kept = 0;
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    Choices choices(seed);
    const auto problem = randomAccess(kAccessClasses[seed % 8], choices);
    if (problem) checkPeeling(*problem, "seed " + std::to_string(seed) + ": " + describe(*problem), peeled, kept);
  }
  EXPECT_GT(peeled, kept);
}

}  // namespace
}  // namespace nf::testing
