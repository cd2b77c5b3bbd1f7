// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/autodiff/phase.h"
#include "core/autodiff/points.h"
#include "tests/autodiff/named_accesses.h"
#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"
#include "tests/golden.h"

namespace nf::testing {
namespace {

using Point = std::vector<std::int64_t>;
using Pairs = std::multimap<Point, Point>;  // z -> y

Pairs fibresOf(const AccessProblem& problem) {
  Pairs pairs;
  std::vector<std::int64_t> y(problem.domain.size());
  BoxPoints points(problem.domain, std::size_t{1} << 40);
  const auto at = [&](IndexVar v) { return y[v]; };
  while (points.next(y)) {
    Point z;
    for (const IndexExpr& f : problem.access) z.push_back(evaluate(f, at));
    bool inside = std::all_of(problem.guards.begin(), problem.guards.end(), [&](const IndexCond& g) { return evaluate(g, at); });
    for (std::size_t j = 0; j < z.size(); ++j) inside = inside && z[j] >= 0 && z[j] < problem.shape[j];
    if (inside) pairs.emplace(std::move(z), y);
  }
  return pairs;
}

std::vector<std::pair<Point, Point>> sorted(const Pairs& pairs) {
  std::vector<std::pair<Point, Point>> list(pairs.begin(), pairs.end());
  std::sort(list.begin(), list.end());
  return list;
}

// All (z, y) that the phases visit; `floors` counts the floors left in their solutions.
Pairs visitsOf(const std::vector<PhaseNest>& phases, std::size_t& floors) {
  Pairs pairs;
  for (const PhaseNest& phase : phases) {
    for (const IndexExpr& e : phase.inverse.y) floors += e.floorDivCount();
    std::vector<Range> box;
    for (const std::int64_t extent : phase.shape) box.push_back({0, extent - 1});
    for (const std::int64_t extent : phase.inverse.axes) box.push_back({0, extent - 1});
    std::vector<std::int64_t> values(box.size());
    BoxPoints points(box, std::size_t{1} << 40);
    const auto at = [&](IndexVar v) { return values[v]; };
    while (points.next(values)) {
      const auto holds = [&](const IndexCond& g) { return evaluate(g, at); };
      if (!std::all_of(phase.inverse.zGuards.begin(), phase.inverse.zGuards.end(), holds)) continue;
      if (!std::all_of(phase.inverse.tGuards.begin(), phase.inverse.tGuards.end(), holds)) continue;
      Point z, y;
      for (std::size_t j = 0; j < phase.shape.size(); ++j) z.push_back(phase.modulus[j] * values[j] + phase.phase[j]);
      for (const IndexExpr& e : phase.inverse.y) y.push_back(evaluate(e, at));
      pairs.emplace(std::move(z), std::move(y));
    }
  }
  return pairs;
}

TEST(SplitPhases, NamedOperatorsAreExact) {
  std::string text;
  std::size_t split = 0, withFloors = 0;
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse inverse = invert(access.problem);
    if (std::all_of(inverse.phaseModulus.begin(), inverse.phaseModulus.end(), [](std::int64_t h) { return h == 1; })) continue;
    ++split;
    const auto phases = splitPhases(access.problem, inverse);
    std::size_t floors = 0;
    EXPECT_EQ(sorted(visitsOf(phases, floors)), sorted(fibresOf(access.problem))) << access.name;
    withFloors += floors > 0 ? 1 : 0;
    text += access.name + "\n";
    for (const PhaseNest& phase : phases) {
      EXPECT_EQ(phase.inverse.state, Inverse::State::Gather) << access.name << ": " << phase.inverse.why;
      for (std::size_t j = 0; j < phase.modulus.size(); ++j)
        if (phase.modulus[j] > 1)
          text += "    z" + std::to_string(j) + " = " + std::to_string(phase.modulus[j]) + "*z" + std::to_string(j) + "' + " +
                  std::to_string(phase.phase[j]);
      text += ": " + toText(phase.inverse, access.variables) + "\n";
    }
  }
  EXPECT_EQ(split, 23u);
  EXPECT_LE(withFloors, 3u);
  expectGolden("autodiff/phases.golden", text);
}

// With and without the guards that say where a fibre is not empty (step 6b): both split into classes that are exact and proved.
class SplitRandomly : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(SplitPhases, SplitRandomly, ::testing::Bool());

TEST_P(SplitRandomly, RandomAccessesAreExact) {
  InvertOptions options;
  options.existenceGuard = GetParam();
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Choices choices(seed);
    const auto problem = randomAccess(kAccessClasses[seed % 8], choices);
    if (!problem) continue;
    const Inverse inverse = invert(*problem, options);
    if (inverse.state != Inverse::State::Gather) continue;
    std::size_t floors = 0;
    const auto phases = splitPhases(*problem, inverse);
    ASSERT_EQ(sorted(visitsOf(phases, floors)), sorted(fibresOf(*problem))) << "seed " << seed << ": " << describe(*problem);
    for (const PhaseNest& phase : phases)
      ASSERT_EQ(phase.inverse.state, Inverse::State::Gather) << "seed " << seed << ": " << describe(*problem);
  }
}

// Walks the peeled loops: all points where the guards hold, and how many bodies are visited for that.
std::size_t walk(const Inverse& inverse, const Peeled& peeled, Point& point, std::size_t m, std::vector<Point>& found) {
  const auto at = [&](IndexVar v) { return point[v]; };
  const std::size_t axis = point.size() - m;
  if (axis == inverse.axes.size()) {
    if (std::all_of(peeled.guards.begin(), peeled.guards.end(), [&](const IndexCond& g) { return evaluate(g, at); }))
      found.push_back(point);
    return 1;
  }
  std::int64_t lo = 0, hi = inverse.axes[axis] - 1;
  for (const IndexExpr& e : peeled.loops[axis].lower) lo = std::max(lo, evaluate(e, at));
  for (const IndexExpr& e : peeled.loops[axis].upper) hi = std::min(hi, evaluate(e, at));
  std::size_t visits = 0;
  for (std::int64_t t = lo; t <= hi; ++t) {
    point.push_back(t);
    visits += walk(inverse, peeled, point, m, found);
    point.pop_back();
  }
  return visits;
}

void checkPeeling(const AccessProblem& problem, const std::string& name) {
  const Inverse inverse = invert(problem);
  if (inverse.state != Inverse::State::Gather) return;
  const std::size_t m = problem.shape.size();
  const Peeled peeled = peelGuards(inverse, m);
  std::vector<Range> box;
  for (const std::int64_t extent : problem.shape) box.push_back({0, extent - 1});
  std::vector<Range> axes;
  for (const std::int64_t extent : inverse.axes) axes.push_back({0, extent - 1});
  Point z(m);
  BoxPoints elements(box, std::size_t{1} << 40);
  while (elements.next(z)) {
    std::vector<Point> expected, found;
    Point point(m + axes.size());
    std::copy(z.begin(), z.end(), point.begin());
    BoxPoints trips(axes, std::size_t{1} << 40);
    while (trips.next(std::span(point).subspan(m)))
      if (std::all_of(inverse.tGuards.begin(), inverse.tGuards.end(),
                      [&](const IndexCond& g) { return evaluate(g, [&](IndexVar v) { return point[v]; }); }))
        expected.push_back(point);
    Point walked = z;
    const std::size_t visits = walk(inverse, peeled, walked, m, found);
    ASSERT_EQ(found, expected) << name;
    if (peeled.guards.empty()) { ASSERT_EQ(visits, expected.size()) << name; }
  }
}

TEST(PeelGuards, NamedOperators) {
  std::size_t peeledAll = 0;
  for (const NamedAccess& access : namedAccesses()) {
    checkPeeling(access.problem, access.name);
    peeledAll += peelGuards(invert(access.problem), access.problem.shape.size()).guards.empty() ? 1 : 0;
  }
  EXPECT_EQ(peeledAll, namedAccesses().size());
}

TEST(PeelGuards, RandomAccesses) {
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    Choices choices(seed);
    const auto problem = randomAccess(kAccessClasses[seed % 8], choices);
    if (problem) checkPeeling(*problem, "seed " + std::to_string(seed) + ": " + describe(*problem));
  }
}

}  // namespace
}  // namespace nf::testing
