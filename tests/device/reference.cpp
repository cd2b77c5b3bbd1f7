// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/support/counter_random.h"
#include "tests/build_program.h"

namespace nf {
namespace {

using test::Build;
using test::var;

std::vector<double> run(const Build& b, const TensorValues& inputs, TensorId out) {
  InterpretOptions options;
  options.outputs = {out};
  auto result = interpret(b.p, inputs, options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? result->at(out).values : std::vector<double>{};
}

TensorData data(std::vector<std::int64_t> shape, std::vector<double> values, DType type = DType::F32) {
  return {type, std::move(shape), std::move(values)};
}

TEST(Reference, Contraction) {
  Build b;
  const auto A = b.tensor("A", {2, 3}), B = b.tensor("B", {3, 2});
  const auto C =
      b.op("C", {{"i", 2}, {"j", 2}, {"k", 3}}, 2, Reducer::Sum, b.mul(b.load(A, {var(0), var(2)}), b.load(B, {var(2), var(1)})));
  EXPECT_EQ(run(b, {{A, data({2, 3}, {1, 2, 3, 4, 5, 6})}, {B, data({3, 2}, {1, 0, 0, 1, 1, 1})}}, C),
            (std::vector<double>{4, 5, 10, 11}));
}

// Every reducer over the rows of one matrix with ties; the first best counts.
TEST(Reference, Reducers) {
  const std::vector<double> values{3, 1, 3, 2, -1, -1, 0, 5};
  const std::vector<std::pair<Reducer, std::vector<double>>> cases{{Reducer::Sum, {9, 3}},    {Reducer::Prod, {18, 0}},
                                                                   {Reducer::Max, {3, 5}},    {Reducer::Min, {1, -1}},
                                                                   {Reducer::ArgMax, {0, 3}}, {Reducer::ArgMin, {1, 0}}};
  for (const auto& [reducer, expected] : cases) {
    Build b;
    const auto A = b.tensor("A", {2, 4});
    const bool arg = reducer == Reducer::ArgMax || reducer == Reducer::ArgMin;
    const auto Y = b.op("Y", {{"i", 2}, {"k", 4}}, 1, reducer, b.load(A, {var(0), var(1)}), arg ? DType::I32 : DType::F32);
    EXPECT_EQ(run(b, {{A, data({2, 4}, values)}}, Y), expected) << name(reducer);
  }
}

TEST(Reference, ArgOverTwoAxesCountsRowMajor) {
  Build b;
  const auto A = b.tensor("A", {2, 3});
  const auto Y = b.op("Y", {{"r", 2}, {"s", 3}}, 0, Reducer::ArgMax, b.load(A, {var(0), var(1)}), DType::I32);
  EXPECT_EQ(run(b, {{A, data({2, 3}, {1, 2, 3, 4, 9, 9})}}, Y), (std::vector<double>{4}));
}

// A[2p+r] under a guard: the branch that would leave A is not read, and indices with floors are stepped right over many strips.
TEST(Reference, PaddingReadsOnlyTheTakenBranch) {
  Build b;
  const std::int64_t n = 1001;
  const auto A = b.tensor("A", {n});
  const IndexExpr at = var(0) + var(1) - IndexExpr(2);
  const auto inside = b.p.cond(IndexCond::all({IndexCond::ge0(at), IndexCond::ge0(IndexExpr(n - 1) - at)}));
  const auto Y = b.op("Y", {{"p", n}, {"r", 5}}, 1, Reducer::Sum, b.p.select(inside, b.load(A, {at}), b.number(0)));
  std::vector<double> values(n), expected(n);
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(i * i % 97);
  for (std::int64_t p = 0; p < n; ++p)
    for (std::int64_t i = std::max<std::int64_t>(0, p - 2); i <= std::min(n - 1, p + 2); ++i) expected[p] += values[i];
  EXPECT_EQ(run(b, {{A, data({n}, values)}}, Y), expected);
}

TEST(Reference, FloorAndModuloIndices) {
  Build b;
  const auto A = b.tensor("A", {8, 3, 2});
  const IndexExpr c = var(0), h = var(1), w = var(2);
  const auto Y = b.op("Y", {{"c", 2}, {"h", 6}, {"w", 4}}, 3, Reducer::None,
                      b.load(A, {4 * c + 2 * floorMod(h, 2) + floorMod(w, 2), floorDiv(h, 2), floorDiv(w, 2)}));
  std::vector<double> values(48), expected;
  for (int i = 0; i < 48; ++i) values[i] = i;
  for (int ci = 0; ci < 2; ++ci)
    for (int hi = 0; hi < 6; ++hi)
      for (int wi = 0; wi < 4; ++wi) expected.push_back((4 * ci + 2 * (hi % 2) + wi % 2) * 6 + hi / 2 * 2 + wi / 2);
  EXPECT_EQ(run(b, {{A, data({8, 3, 2}, values)}}, Y), expected);
}

TEST(Reference, SharedNodesOfTwoBranchesAreEvaluatedLazily) {
  Build b;
  const auto A = b.tensor("A", {4}), I = b.tensor("I", {4}, TensorKind::Input, DType::I32);
  // select(i >= 2, X, select(i >= 1, X + 1, 7)) with X = A[I[i]]; at i = 0 the index is out of range and must not be read.
  const ExprId x = b.p.load(A, {{{}, b.load(I, {var(0)})}});
  const ExprId inner = b.p.select(b.p.condGe0(var(0) - IndexExpr(1)), b.add(x, b.number(1)), b.number(7));
  const auto Y = b.op("Y", {{"i", 4}}, 1, Reducer::None, b.p.select(b.p.condGe0(var(0) - IndexExpr(2)), x, inner));
  EXPECT_EQ(run(b, {{A, data({4}, {10, 20, 30, 40})}, {I, data({4}, {99, 0, 1, 3}, DType::I32)}}, Y),
            (std::vector<double>{7, 11, 20, 40}));
}

TEST(Reference, DataIndexOutOfRangeNamesTheOperator) {
  Build b;
  const auto E = b.tensor("E", {5, 2}), tok = b.tensor("tok", {3}, TensorKind::Input, DType::I32);
  const auto Y = b.op("Y", {{"n", 3}, {"d", 2}}, 2, Reducer::None, b.p.load(E, {{{}, b.load(tok, {var(0)})}, {var(1), {}}}));
  TensorValues inputs{{E, data({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}, {tok, data({3}, {4, 0, 2}, DType::I32)}};
  EXPECT_EQ(run(b, inputs, Y), (std::vector<double>{8, 9, 0, 1, 4, 5}));
  inputs[tok].values[1] = 5;
  auto failed = interpret(b.p, inputs, {});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "operator Y: index 0 of E is 5, outside [0, 5)");
  inputs[tok].values[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(interpret(b.p, inputs, {}).error().message, "operator Y: index 0 of E is nan, outside [0, 5)");
}

TEST(Reference, ScatterAddsAndSkipsGuardedPoints) {
  Build b;
  const auto X = b.tensor("X", {4}), idx = b.tensor("idx", {4}, TensorKind::Input, DType::I32);
  // Points with i = 3 are skipped together with their index, which is out of range.
  const ExprId body = b.p.select(b.p.condGe0(IndexExpr(2) - var(0)), b.load(X, {var(0)}), b.number(0));
  const auto Y = b.scatter("Y", {{"i", 4}}, {3}, {{{}, b.load(idx, {var(0)})}}, body);
  EXPECT_EQ(run(b, {{X, data({4}, {1, 2, 4, 8})}, {idx, data({4}, {2, 0, 2, 77}, DType::I32)}}, Y), (std::vector<double>{2, 0, 5}));
  Build c;
  const auto Z = c.tensor("Z", {4});
  const auto S = c.scatter("S", {{"i", 4}}, {2}, {{var(0) - IndexExpr(1), {}}}, c.load(Z, {var(0)}));
  EXPECT_EQ(run(c, {{Z, data({4}, {1, 2, 4, 8})}}, S), (std::vector<double>{2, 4}));
}

TEST(Reference, RandomDependsOnSeedStepStreamAndPoint) {
  Build b;
  const auto Y = b.op("Y", {{"i", 300}}, 1, Reducer::None, b.p.random(3, var(0)));
  auto a = interpret(b.p, {}, {.seed = 7, .step = 2, .training = true, .outputs = {Y}});
  ASSERT_TRUE(a.ok());
  for (std::int64_t i = 0; i < 300; ++i) EXPECT_EQ(a->at(Y).values[i], randomUniform(randomKey(7, 2, 3), i));
  auto other = interpret(b.p, {}, {.seed = 7, .step = 3, .training = true, .outputs = {Y}});
  EXPECT_NE(a->at(Y).values, other->at(Y).values);
  double mean = 0;
  for (const double v : a->at(Y).values) mean += v / 300;
  EXPECT_NEAR(mean, 0.5, 0.1);
}

// h <- 2*h + X[t], forwards and backwards, with stacked, accumulated and last.
TEST(Reference, LoopCarriesStacksAccumulates) {
  for (const bool reversed : {false, true}) {
    Build body;
    const auto h = body.tensor("h", {}), X = body.tensor("X", {3});
    const auto next = body.op("h_next", {}, 0, Reducer::None,
                              body.add(body.mul(body.number(2), body.load(h, {})), body.load(X, {var(kLoopVariable)})));
    Build b;
    const auto h0 = b.tensor("h0", {}), Xo = b.tensor("Xo", {3});
    const auto last = b.tensor("last", {}, TensorKind::Intermediate), all = b.tensor("all", {3}, TensorKind::Intermediate),
               before = b.tensor("before", {3}, TensorKind::Intermediate), total = b.tensor("total", {}, TensorKind::Intermediate);
    Loop loop;
    loop.trips = 3;
    loop.reversed = reversed;
    loop.body = std::make_shared<const Program>(body.p);
    loop.carried.push_back({h0, h, next, last});
    loop.invariants.push_back({Xo, X});
    loop.stacked.push_back({next, all});
    loop.stacked.push_back({h, before});
    loop.accumulated.push_back({next, total});
    b.p.loops.push_back(loop);
    Operator op;
    op.name = "loop";
    op.kind = OperatorKind::Loop;
    op.loop = LoopId(std::size_t{0});
    b.p.addOperator(op);
    const TensorValues inputs{{h0, data({}, {1})}, {Xo, data({3}, {10, 20, 30})}};
    auto result = interpret(b.p, inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (!reversed) {
      EXPECT_EQ(result->at(all).values, (std::vector<double>{12, 44, 118}));
      EXPECT_EQ(result->at(before).values, (std::vector<double>{1, 12, 44}));
      EXPECT_EQ(result->at(last).values[0], 118);
      EXPECT_EQ(result->at(total).values[0], 174);
    } else {
      EXPECT_EQ(result->at(all).values, (std::vector<double>{178, 84, 32}));
      EXPECT_EQ(result->at(last).values[0], 178);
    }
  }
}

TEST(Reference, MissingAndMisshapenInputsAreNamed) {
  Build b;
  const auto A = b.tensor("A", {2});
  const auto Y = b.op("Y", {{"i", 2}}, 1, Reducer::None, b.load(A, {var(0)}));
  EXPECT_EQ(interpret(b.p, {}, {.seed = 1, .step = 0, .training = true, .outputs = {Y}}).error().message, "tensor A has no value");
  EXPECT_EQ(interpret(b.p, {{A, data({3}, {1, 2, 3})}}).error().message, "the value given for A has another shape");
  b.derivative(Y, A);
  EXPECT_EQ(
      interpret(b.p, {{A, data({2}, {1, 2})}}, {.seed = 1, .step = 0, .training = true, .outputs = {b.p.derivatives[0].result}})
          .error()
          .message,
      "the derivative d(Y)/d(A) is asked for and not made yet");
}

TEST(Storage, ValuesAreRoundedToTheNearestWithTiesToEven) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto half = [](double v) { return storedAs(DType::F16, v); };
  const auto brain = [](double v) { return storedAs(DType::BF16, v); };
  EXPECT_EQ(half(2049), 2048);  // half way: to the even one
  EXPECT_EQ(half(2051), 2052);
  EXPECT_EQ(half(2049 + 0x1p-30), 2050) << "a detour over f32 would round twice";
  EXPECT_EQ(half(-1.0 / 3), -0x1.554p-2);
  EXPECT_EQ(half(65519.9), 65504);
  EXPECT_EQ(half(65520), inf);
  EXPECT_EQ(half(-65520), -inf);
  EXPECT_EQ(half(0x1p-14 - 0x1p-26), 0x1p-14) << "the largest subnormal number and a bit more is the smallest normal one";
  EXPECT_EQ(half(0x1.8p-24), 0x1p-23) << "subnormal, a tie";
  EXPECT_EQ(half(0x1.1p-25), 0x1p-24);
  EXPECT_EQ(half(0x1p-25), 0);
  EXPECT_TRUE(std::signbit(half(-0x1p-25)));
  EXPECT_EQ(brain(257), 256);
  EXPECT_EQ(brain(259), 260);
  EXPECT_EQ(brain(0x1.ffp127), inf);
  EXPECT_EQ(brain(0x1.fefffp127), 0x1.fep127);
  EXPECT_EQ(brain(0x1.8p-133), 0x1p-132);
  EXPECT_EQ(brain(0x1p-134), 0);
  for (const DType type : {DType::F16, DType::BF16}) {
    EXPECT_EQ(storedAs(type, -inf), -inf);
    EXPECT_TRUE(std::isnan(storedAs(type, std::numeric_limits<double>::quiet_NaN())));
  }
  for (const DType type : {DType::F32, DType::F64, DType::I32}) EXPECT_EQ(storedAs(type, 1.0 / 3), 1.0 / 3);
}

// What is kept in f16 and cast to it is rounded where that is wanted, and what is computed from it sees that.
TEST(Storage, IsRoundedWhereThatIsWanted) {
  Build b;
  const auto A = b.tensor("A", {2});
  const auto H = b.op("H", {{"i", 2}}, 1, Reducer::None, b.load(A, {var(0)}), DType::F16);
  const auto Y = b.op("Y", {{"i", 2}}, 1, Reducer::None, b.sub(b.load(H, {var(0)}), b.load(A, {var(0)})));
  const auto C = b.op("C", {{"i", 2}}, 1, Reducer::None, b.p.cast(DType::F32, b.p.cast(DType::BF16, b.load(A, {var(0)}))));
  const auto S = b.op("S", {{"k", 2}}, 0, Reducer::Sum, b.load(A, {var(0)}), DType::BF16);
  const TensorValues inputs{{A, data({2}, {2049, 259})}};
  const auto exact = interpret(b.p, inputs), rounded = interpret(b.p, inputs, {.storage = Storage::Rounded});
  ASSERT_TRUE(exact.ok() && rounded.ok());
  EXPECT_EQ(exact->at(H).values, (std::vector<double>{2049, 259}));
  EXPECT_EQ(exact->at(C).values, (std::vector<double>{2049, 259}));
  EXPECT_EQ(rounded->at(H).values, (std::vector<double>{2048, 259}));
  EXPECT_EQ(rounded->at(Y).values, (std::vector<double>{-1, 0})) << "what is read is what is kept";
  EXPECT_EQ(rounded->at(C).values, (std::vector<double>{2048, 260}));
  EXPECT_EQ(rounded->at(S).values, (std::vector<double>{2304})) << "2308: the sum is rounded once, not each term";
}

TEST(Storage, WhatALoopAddsUpIsRoundedStepByStep) {
  Build body;
  const auto h = body.tensor("h", {}, TensorKind::Input, DType::F16);
  const auto next = body.op("h_next", {}, 0, Reducer::None, body.add(body.load(h, {}), body.number(0.75)), DType::F16);
  Build b;
  const auto h0 = b.tensor("h0", {}, TensorKind::Input, DType::F16);
  const auto last = b.tensor("last", {}, TensorKind::Intermediate, DType::F16),
             total = b.tensor("total", {}, TensorKind::Intermediate, DType::F16);
  Loop loop;
  loop.trips = 2;
  loop.body = std::make_shared<const Program>(body.p);
  loop.carried.push_back({h0, h, next, last});
  loop.accumulated.push_back({next, total});
  b.p.loops.push_back(loop);
  Operator op;
  op.name = "loop";
  op.kind = OperatorKind::Loop;
  op.loop = LoopId(std::size_t{0});
  b.p.addOperator(op);
  const TensorValues inputs{{h0, data({}, {2048}, DType::F16)}};
  const auto exact = interpret(b.p, inputs), rounded = interpret(b.p, inputs, {.storage = Storage::Rounded});
  ASSERT_TRUE(exact.ok() && rounded.ok());
  EXPECT_EQ(exact->at(last).values[0], 2049.5);
  EXPECT_EQ(rounded->at(last).values[0], 2048) << "2048.75 is 2048 in f16, twice";
  EXPECT_EQ(rounded->at(total).values[0], 4096);
}

TEST(Reference, DeepChainsNeedNoStack) {
  Build b;
  const auto A = b.tensor("A", {2});
  ExprId sum = b.load(A, {var(0)});
  for (int i = 0; i < 100000; ++i) sum = b.add(sum, b.number(1));
  const auto Y = b.op("Y", {{"i", 2}}, 1, Reducer::None, sum);
  EXPECT_EQ(run(b, {{A, data({2}, {1, 2})}}, Y), (std::vector<double>{100001, 100002}));
}

}  // namespace
}  // namespace nf
