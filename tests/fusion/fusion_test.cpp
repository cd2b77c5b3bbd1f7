// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/fuse.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/fusion/kernel_graph.h"
#include "core/fusion/site.h"
#include "tests/fusion/fusion_build.h"

namespace nf {
namespace {

using namespace fusion_test;

// The four cases of the design, with their terms in tensor sizes. All tensors have kN elements.
TEST(FusionCases, OnePlusOne) {
  Build b;
  const TensorId a = b.given("A", kN), gc = b.given("d(L)/d(C)", kN);
  const TensorId B = b.product("B", {a}, kN), C = b.product("C", {B}, kN);
  const TensorId gb = b.product("d(L)/d(B)", {gc}, kN, Phase::Backward), ga = b.product("d(L)/d(A)", {gb}, kN, Phase::Backward);
  b.keep(C);
  b.keep(ga);
  const auto result = fuse(b.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "B");
  EXPECT_EQ(d.category, "One+One");
  EXPECT_EQ(d.state, FusionState::Accepted);
  EXPECT_EQ(d.dT, 4 * kBytes);
  EXPECT_EQ(term(d, "B"), 2);
  EXPECT_EQ(term(d, "d(L)/d(B)"), 2);
  EXPECT_EQ(d.dC, 0);
  EXPECT_EQ(d.dK, 2);
  EXPECT_EQ(result->program.groups.size(), 2u);
}

TEST(FusionCases, OnePlusMany) {
  Build b;
  const TensorId a = b.given("A", kN), D = b.given("D", kN), gc = b.given("d(L)/d(C)", kN);
  const TensorId B = b.product("B", {a}, kN), C = b.product("C", {B, D}, kN);
  const TensorId gb = b.product("d(L)/d(B)", {gc, D}, kN, Phase::Backward),
                 gd = b.product("d(L)/d(D)", {gc, B}, kN, Phase::Backward);
  const TensorId ga = b.product("d(L)/d(A)", {gb}, kN, Phase::Backward);
  for (const TensorId t : {C, gd, ga}) b.keep(t);
  const auto result = fuse(b.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "B");
  EXPECT_EQ(d.category, "One+Many");
  EXPECT_EQ(d.state, FusionState::Accepted);
  EXPECT_EQ(d.dT, 4 * kBytes);  // 5B - A
  EXPECT_EQ(term(d, "A"), -1);
  EXPECT_EQ(d.dC, -kN);  // Op1 again
  EXPECT_EQ(d.dK, 2);
  EXPECT_EQ(d.recomputed, "B");
  EXPECT_EQ(verify(result->program, Stage::Fused), std::vector<std::string>{});
}

TEST(FusionCases, ManyPlusOne) {
  Build b;
  const TensorId a = b.given("A", kN), D = b.given("D", kN), gc = b.given("d(L)/d(C)", kN);
  const TensorId B = b.product("B", {a, D}, kN), C = b.product("C", {B}, kN);
  const TensorId gb = b.product("d(L)/d(B)", {gc}, kN, Phase::Backward);
  const TensorId ga = b.product("d(L)/d(A)", {gb, D}, kN, Phase::Backward),
                 gd = b.product("d(L)/d(D)", {gb, a}, kN, Phase::Backward);
  for (const TensorId t : {C, gd, ga}) b.keep(t);
  const auto result = fuse(b.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "B");
  EXPECT_EQ(d.category, "Many+One");
  EXPECT_EQ(d.dT, 4 * kBytes);  // 5B - C
  EXPECT_EQ(term(d, "d(L)/d(C)"), -1);
  EXPECT_EQ(d.dC, -kN);  // Op2' again
  EXPECT_EQ(d.dK, 2);
  EXPECT_EQ(verify(result->program, Stage::Fused), std::vector<std::string>{});
}

TEST(FusionCases, ManyPlusMany) {
  Build b;
  const TensorId A = b.given("A", kN), B = b.given("B", kN), D = b.given("D", kN), ge = b.given("d(L)/d(E)", kN);
  const TensorId C = b.product("C", {A, B}, kN), E = b.product("E", {C, D}, kN);
  const TensorId gc = b.product("d(L)/d(C)", {ge, D}, kN, Phase::Backward),
                 gd = b.product("d(L)/d(D)", {ge, C}, kN, Phase::Backward);
  const TensorId ga = b.product("d(L)/d(A)", {gc, B}, kN, Phase::Backward),
                 gb = b.product("d(L)/d(B)", {gc, A}, kN, Phase::Backward);
  for (const TensorId t : {E, gd, ga, gb}) b.keep(t);
  const Program partitioned = b.partitioned();
  // Recomputing on both sides, as the paper fuses.
  const KernelGraph graph(partitioned);
  std::map<TensorId, double> traffic;
  double bytes = 0, operations = 0;
  std::int64_t kernels = 0;
  for (const TensorId t : {C, gc})
    for (const KernelGraph::Move& m : graph.movesFor(t)) {
      if (m.kind != KernelGraph::Move::Kind::Inline) continue;
      for (const auto& [tensor, amount] : *m.traffic) traffic[tensor] += amount / kBytes;
      bytes += m.bytes;
      operations += m.operations;
      kernels += m.kernels;
    }
  EXPECT_EQ(traffic, (std::map<TensorId, double>{{A, -1}, {B, -1}, {D, -1}, {ge, -1}, {C, 3}, {gc, 3}}));
  EXPECT_EQ(bytes, 2 * kBytes);    // 6C - A - B - D - E
  EXPECT_EQ(operations, -2 * kN);  // Op1 and Op2'_C again
  EXPECT_EQ(kernels, 2);
  // With sizes all equal, writing C once for gD saves as much and computes nothing again: the decision takes that.
  const auto result = fuse(partitioned, kSlowMemory);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "C");
  EXPECT_EQ(d.category, "Many+Many");
  EXPECT_EQ(d.dT, 2 * kBytes);
  EXPECT_EQ(d.dC, 0);
  EXPECT_EQ(d.dK, 2);
  EXPECT_EQ(verify(result->program, Stage::Fused), std::vector<std::string>{});
}

// A negative reward is refused, and the flip says what would turn it.
TEST(Fusion, RefusesWhatCostsMore) {
  Build b;
  const TensorId a = b.given("A", kN);
  const TensorId big = b.made("E", {kN});
  b.define(big, b.p.binary(ScalarOp::Mul, b.at(a), b.p.constant(2)));
  // Every point of Y reads all of E: fused, the product would be computed kN times as often.
  const TensorId y = b.made("Y", {kN});
  const ExprId x = b.at(a), e = b.at(big, {1});
  b.define(y, b.p.binary(ScalarOp::Max, x, e), Phase::Forward, Reducer::Sum, {kN});
  b.keep(y);
  const DeviceConstants slowArithmetic{1e12, 1e6, 0};
  const auto result = fuse(b.partitioned(), slowArithmetic);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "E");
  EXPECT_EQ(d.state, FusionState::Refused);
  EXPECT_EQ(d.dC, -1.0 * kN * (kN - 1));
  EXPECT_LT(d.R, 0);
  EXPECT_EQ(d.recomputed, "E");
  ASSERT_FALSE(d.flips.empty());
  for (const FusionFlip& f : d.flips) {
    DeviceConstants changed = slowArithmetic;
    if (f.quantity == "P_d") changed.bandwidth = f.threshold;
    else if (f.quantity == "P_c") changed.flopRate = f.threshold;
    else continue;
    EXPECT_NEAR(d.dT / changed.bandwidth + d.dC / changed.flopRate, 0, 1e-9 * std::abs(d.R)) << f.quantity;
  }
}

// What is costly and read often is computed once and kept between the kernel's loops. It costs no traffic while it stays in the cache.
TEST(Fusion, WhatTheKernelKeepsIsComputedOnce) {
  Build b;
  const TensorId a = b.given("A", kN);
  const TensorId big = b.made("E", {kN});
  b.define(big, b.p.unary(ScalarOp::Exp, b.at(a)));
  const TensorId y = b.made("Y", {kN});
  const ExprId x = b.at(a), e = b.at(big, {1});
  b.define(y, b.p.binary(ScalarOp::Max, x, e), Phase::Forward, Reducer::Sum, {kN});
  b.keep(y);
  const DeviceConstants slowArithmetic{1e12, 1e6, 1e-9};
  for (const bool fits : {true, false}) {
    SCOPED_TRACE(fits);
    FusionOptions options;
    options.limits.rowBytes = fits ? kBytes : kBytes - 1;
    const auto result = fuse(b.partitioned(), slowArithmetic, options);
    ASSERT_TRUE(result.ok());
    const FusionDecision& d = decisionOn(*result, "E");
    EXPECT_EQ(d.state, FusionState::Accepted);
    EXPECT_EQ(d.dC, 0);
    EXPECT_EQ(d.recomputed, "");
    EXPECT_EQ(d.dT, fits ? 3.0 * kBytes : 1.0 * kBytes) << "A is read once less, and E goes through memory where it does not fit";
    EXPECT_EQ(d.kept, fits ? "" : "E");
    EXPECT_EQ(d.why.find("E written and read inside") == std::string::npos, fits) << d.why;
  }
  // Read twice it is computed again, as what costs little is.
  Build twice;
  const TensorId in = twice.given("A", kN), made = twice.made("E", {kN}), z = twice.made("Z", {kN});
  twice.define(made, twice.p.unary(ScalarOp::Exp, twice.at(in)));
  const IndexExpr mirrored = IndexExpr(kN - 1) - IndexExpr::variable(0);
  const ExprId here = twice.at(made), there = twice.p.load(made, {{mirrored, {}}});
  twice.define(z, twice.p.binary(ScalarOp::Add, here, there));
  twice.keep(z);
  const auto result = fuse(twice.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(decisionOn(*result, "E").dC, -8.0 * kN);
  EXPECT_EQ(decisionOn(*result, "E").recomputed, "E");
}

// C reads B at its own point and at the transposed one: each of B's elements is computed twice in the fused kernel.
TEST(Fusion, EveryPlaceThatIsReadIsComputedAgain) {
  constexpr std::int64_t n = 30;
  Build b;
  Tensor x;
  x.name = "X";
  x.kind = TensorKind::Input;
  x.shape = {n, n};
  const TensorId in = b.p.addTensor(x), middle = b.made("B", {n, n}), out = b.made("C", {n, n});
  b.define(middle, b.p.binary(ScalarOp::Mul, b.at(in, {0, 1}), b.p.constant(2)));
  const ExprId there = b.at(middle, {0, 1}), across = b.at(middle, {1, 0});
  b.define(out, b.p.binary(ScalarOp::Add, b.p.binary(ScalarOp::Add, there, across), b.at(middle, {1, 0})));
  b.keep(out);
  const auto result = fuse(b.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "B");
  EXPECT_EQ(d.dC, -n * n);
  EXPECT_EQ(d.dT, 2 * 4 * n * n);
  EXPECT_EQ(d.recomputed, "B");
}

// Along an extent of 1 the place 0 is the reader's own, however the access writes it.
TEST(Fusion, AnAxisOfExtentOneIsTheSamePlaceAsZero) {
  for (const bool asZero : {false, true}) {
    SCOPED_TRACE(asZero);
    const IndexExpr first = asZero ? IndexExpr(0) : IndexExpr::variable(0);
    Build b;
    const TensorId x = b.given("X", 1);
    b.p[x].shape = {1, kN, 8};
    const TensorId Y = b.made("Y", {1, kN}), dY = b.made("dY", {1, kN});
    b.define(Y, b.at(x, {0, 1, 2}), Phase::Forward, Reducer::Sum, {8});
    b.define(dY, b.p.binary(ScalarOp::Mul, b.p.load(Y, {{first, {}}, {IndexExpr::variable(1), {}}}), b.p.constant(2)));
    b.keep(dY);
    const auto result = fuse(b.partitioned(), kSlowMemory);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(decisionOn(*result, "Y").state, FusionState::Accepted) << decisionOn(*result, "Y").why;
    EXPECT_EQ(result->program.groups.size(), 1u);
  }
  // Any other place is another point, and 0 is one of several along a longer axis.
  Build b;
  const TensorId x = b.given("X", 1);
  b.p[x].shape = {2, kN, 8};
  const TensorId Y = b.made("Y", {2, kN}), dY = b.made("dY", {2, kN});
  b.define(Y, b.at(x, {0, 1, 2}), Phase::Forward, Reducer::Sum, {8});
  b.define(dY, b.p.load(Y, {{IndexExpr(0), {}}, {IndexExpr::variable(1), {}}}));
  b.keep(dY);
  FusionOptions options;
  options.limits.rowBytes = 16;
  const auto apart = fuse(b.partitioned(), kSlowMemory, options);
  ASSERT_TRUE(apart.ok());
  EXPECT_EQ(decisionOn(*apart, "Y").state, FusionState::NotLowerable);
}

// What an optimiser computes stays the optimiser's where a gradient's kernel computes it again.
TEST(Fusion, ACopyOfAnOptimiserStaysTheOptimisers) {
  Build b;
  const TensorId a = b.given("A", kN), D = b.given("D", kN);
  const TensorId c = b.product("c", {a}, kN, Phase::Optimizer), w = b.product("w", {c, D}, kN, Phase::Optimizer);
  const TensorId g = b.product("g", {D, D}, kN, Phase::Backward), u = b.product("u", {g, c}, kN, Phase::Optimizer);
  for (const TensorId t : {w, u}) b.keep(t);
  KernelGraph graph(b.partitioned());
  for (const auto& [tensor, kind] : {std::pair(g, KernelGraph::Move::Kind::Merge), {c, KernelGraph::Move::Kind::Inline}}) {
    const auto moves = graph.movesFor(tensor);
    const auto move = std::find_if(moves.begin(), moves.end(), [&](const KernelGraph::Move& m) { return m.kind == kind; });
    ASSERT_NE(move, moves.end());
    graph.apply(*move);
  }
  const Program fused = std::move(graph).take();
  int copies = 0;
  for (const Operator& op : fused.operators)
    if (fused[op.output].name != originalName(fused[op.output].name)) {
      ++copies;
      EXPECT_EQ(op.phase, Phase::Optimizer) << fused[op.output].name;
    }
  EXPECT_EQ(copies, 1);
}

TEST(Fusion, EvaluationStaysOutOfTheStep) {
  Build b;
  const TensorId a = b.given("A", kN);
  const TensorId B = b.product("B", {a}, kN), C = b.product("C", {B}, kN), e = b.product("E", {B}, kN, Phase::Evaluation);
  b.keep(B);
  b.keep(C);
  b.keep(e);
  const auto result = fuse(b.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  for (const Group& g : result->program.groups)
    for (const OperatorId op : g.operators)
      EXPECT_EQ(result->program[op].phase, result->program[g.operators.front()].phase) << g.name;
}

// Distinct extents, so that each term shows which tensor it counts: the paper's 5B - A with B the larger.
TEST(FusionCases, TermsCarryTheSizesOfTheirTensors) {
  const auto decide = [](std::int64_t a, std::int64_t columns) {
    Build b;
    const TensorId A = b.given("A", a), D = b.given("D", a), gc = b.given("d(L)/d(C)", a);
    b.p[D].shape = b.p[gc].shape = {a, columns};
    const auto wide = [&](const std::string& name, ExprId body, Phase phase = Phase::Forward) {
      const TensorId t = b.made(name, {a, columns});
      b.define(t, body, phase);
      return t;
    };
    const ExprId spread = b.at(A, {0});
    const TensorId B = wide("B", b.p.binary(ScalarOp::Mul, spread, b.p.constant(2)));
    const ExprId x = b.at(B, {0, 1}), y = b.at(D, {0, 1});
    const TensorId C = wide("C", b.p.binary(ScalarOp::Mul, x, y));
    const ExprId u = b.at(gc, {0, 1}), v = b.at(B, {0, 1});
    const TensorId gd = wide("d(L)/d(D)", b.p.binary(ScalarOp::Mul, u, v), Phase::Backward);
    b.keep(C);
    b.keep(gd);
    return fuse(b.partitioned(), kSlowMemory);
  };
  const auto result = decide(10, 100);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "B");
  EXPECT_EQ(d.state, FusionState::Accepted);
  // B is written and read twice before; after, each of its two readers reads A, which is a hundredth of its size.
  std::map<std::string, double> terms;
  for (const FusionTerm& t : d.traffic) terms[t.name] = t.amount;
  EXPECT_EQ(terms, (std::map<std::string, double>{{"B", 3 * 4000.0}, {"A", -40.0}}));
  EXPECT_EQ(d.dC, -1000);
  EXPECT_EQ(d.dK, 1);
}

TEST(Fusion, JsonHasTheKeysScriptsRead) {
  Build b;
  const TensorId a = b.given("A", kN);
  const TensorId B = b.product("B", {a}, kN), C = b.product("C", {B}, kN);
  b.keep(C);
  const auto result = fuse(b.partitioned(), kSlowMemory);
  ASSERT_TRUE(result.ok());
  const nlohmann::json json = toJson(result->decisions, kSlowMemory);
  EXPECT_EQ(json["device"]["P_d"], 1e9);
  for (const char* key : {"producer", "consumer", "category", "dT", "dC", "dK", "R", "accepted", "why", "flip"})
    EXPECT_TRUE(json["decisions"][0].contains(key)) << key;
  EXPECT_NE(toText(result->decisions).find("B -> C"), std::string::npos);
}

}  // namespace
}  // namespace nf
