// SPDX-License-Identifier: Apache-2.0
#include "core/ir/index_expr.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/bounds.h"
#include "core/support/checked.h"

namespace nf {
namespace {

const std::vector<std::int64_t> kExtents{5, 7, 4};

// An expression, and the same computed without normal forms.
struct Pair {
  IndexExpr expr;
  std::function<std::int64_t(const std::vector<std::int64_t>&)> value;
};

Pair randomPair(std::mt19937_64& rng, int depth) {
  const auto pick = [&](std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(hi - lo + 1));
  };
  const std::int64_t kind = depth == 0 ? pick(0, 1) : pick(0, 5);
  if (kind == 0) {
    const std::int64_t c = pick(-6, 6);
    return {IndexExpr(c), [c](const auto&) { return c; }};
  }
  if (kind == 1) {
    const auto v = static_cast<IndexVar>(pick(0, 2));
    return {IndexExpr::variable(v), [v](const auto& x) { return x[v]; }};
  }
  const Pair a = randomPair(rng, depth - 1);
  if (kind == 2 || kind == 3) {
    const Pair b = randomPair(rng, depth - 1);
    const std::int64_t k = pick(-4, 4);
    return {a.expr + k * b.expr, [=](const auto& x) { return a.value(x) + k * b.value(x); }};
  }
  const std::int64_t d = pick(1, 6);
  if (kind == 4) return {floorDiv(a.expr, d), [=](const auto& x) { return floorDiv(a.value(x), d); }};
  return {floorMod(a.expr, d), [=](const auto& x) { return floorMod(a.value(x), d); }};
}

template <class F>
void forEachPoint(F&& f) {
  for (std::int64_t a = 0; a < kExtents[0]; ++a)
    for (std::int64_t b = 0; b < kExtents[1]; ++b)
      for (std::int64_t c = 0; c < kExtents[2]; ++c) f(std::vector<std::int64_t>{a, b, c});
}

TEST(IndexExpr, NormalFormsKeepTheValue) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  const RangeOf ranges = rangesOf(kExtents);
  for (int round = 0; round < 1500; ++round) {
    const Pair p = randomPair(rng, 4);
    const IndexExpr simple = simplify(p.expr, ranges);
    const auto range = bounds(p.expr, ranges);
    ASSERT_TRUE(range.has_value());
    forEachPoint([&](const std::vector<std::int64_t>& x) {
      const auto value = [&](IndexVar v) { return x[v]; };
      const std::int64_t expected = p.value(x);
      ASSERT_EQ(evaluate(p.expr, value), expected) << "round " << round;
      ASSERT_EQ(evaluate(simple, value), expected) << "round " << round;
      ASSERT_LE(range->lo, expected) << "round " << round;
      ASSERT_GE(range->hi, expected) << "round " << round;
    });
  }
}

// isl's answer is exact: the least and greatest value over all points, with and without a guard.
TEST(BoundsProver, IsExact) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 150; ++round) {
    const Pair p = randomPair(rng, 3), g = randomPair(rng, 2);
    BoundsProver prover({{0, 4}, {0, 6}, {0, 3}});
    Range seen{INT64_MAX, INT64_MIN};
    forEachPoint([&](const std::vector<std::int64_t>& x) {
      if (g.value(x) < 0) return;
      seen.lo = std::min(seen.lo, p.value(x));
      seen.hi = std::max(seen.hi, p.value(x));
    });
    const std::vector<IndexCond> guards{IndexCond::ge0(g.expr)};
    const auto range = prover.rangeWhere(guards, p.expr);
    ASSERT_TRUE(range.has_value()) << "round " << round;
    if (seen.hi < seen.lo) {
      EXPECT_TRUE(range->empty()) << "round " << round;
      EXPECT_EQ(prover.inBounds(guards, p.expr, 1), true);
    } else {
      EXPECT_EQ(*range, seen) << "round " << round;
      EXPECT_EQ(prover.inBounds(guards, p.expr, seen.hi + 1), seen.lo >= 0) << "round " << round;
      EXPECT_EQ(prover.inBounds(guards, p.expr, std::max<std::int64_t>(seen.hi, 0)), seen.lo >= 0 && seen.hi < 0)
          << "round " << round;
    }
  }
}

TEST(IndexExpr, Cancels) {
  const IndexExpr x = IndexExpr::variable(0), y = IndexExpr::variable(1);
  EXPECT_EQ(4 * floorDiv(x, 4) + floorMod(x, 4), x);
  EXPECT_EQ(floorDiv(6 * x + 4 * y + IndexExpr(3), 2), 3 * x + 2 * y + IndexExpr(1));
  EXPECT_EQ(floorDiv(floorDiv(x, 3) + IndexExpr(1), 2), floorDiv(x + IndexExpr(3), 6));
  const std::vector<std::int64_t> extents{3, 5};
  EXPECT_EQ(simplify(floorDiv(3 * y + x, 3), rangesOf(extents)), y);
  EXPECT_EQ(simplify(floorMod(3 * y + x, 3), rangesOf(extents)), x);
  EXPECT_EQ(simplify(floorDiv(6 * y + x, 12), rangesOf(extents)), floorDiv(y, 2));
}

TEST(IndexExpr, OverflowStays) {
  const IndexExpr big = INT64_MAX * IndexExpr::variable(0);
  EXPECT_FALSE(big.overflowed());
  EXPECT_TRUE((big + big).overflowed());
  EXPECT_TRUE((IndexExpr(INT64_MAX) + IndexExpr(1)).overflowed());
  EXPECT_TRUE((0 * (big + big) + IndexExpr(1)).overflowed());
  const std::vector<std::int64_t> extents{3};
  EXPECT_EQ(bounds(big, rangesOf(extents)), std::nullopt);
}

TEST(IndexExpr, Text) {
  const auto name = [](IndexVar v) { return std::string(1, static_cast<char>('p' + v)); };
  const IndexExpr p = IndexExpr::variable(0), q = IndexExpr::variable(1);
  EXPECT_EQ(toText(IndexExpr(0), name), "0");
  EXPECT_EQ(toText(2 * p + q - IndexExpr(1), name), "2*p + q - 1");
  EXPECT_EQ(toText(IndexExpr(7) - p, name), "7 - p");
  EXPECT_EQ(toText(-p, name), "-p");
  EXPECT_EQ(toText(floorDiv(p, 4), name), "p // 4");
  EXPECT_EQ(toText(3 * floorDiv(p + q, 4), name), "3*((p + q) // 4)");
  EXPECT_EQ(toText(floorMod(p + IndexExpr(1), 6), name), "(p + 1) % 6");
  EXPECT_EQ(toText(4 * q + 2 * floorMod(p, 2) + floorMod(q, 2), name), "4*q + 2*(p % 2) + q % 2");
}

}  // namespace
}  // namespace nf
