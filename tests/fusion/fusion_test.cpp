// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "core/device/reference.h"
#include "core/fusion/kernel_graph.h"
#include "core/fusion/partition.h"
#include "core/fusion/site.h"
#include "core/ir/verify.h"

namespace nf {
namespace {

// Builds programs of elementwise operators over one extent each, and of what else a case needs.
class Build {
 public:
  Program p;

  TensorId given(const std::string& name, std::int64_t extent) {
    Tensor t;
    t.name = name;
    t.kind = TensorKind::Input;
    t.shape = {extent};
    return p.addTensor(t);
  }
  TensorId made(const std::string& name, std::vector<std::int64_t> shape) {
    Tensor t;
    t.name = name;
    t.shape = std::move(shape);
    return p.addTensor(t);
  }
  ExprId at(TensorId t, std::vector<IndexVar> vars = {0}) {
    std::vector<AccessIndex> indices;
    for (const IndexVar v : vars) indices.push_back({IndexExpr::variable(v), {}});
    return p.load(t, indices);
  }
  void define(TensorId out, ExprId body, Phase phase = Phase::Forward, Reducer reducer = Reducer::None,
              std::vector<std::int64_t> reduced = {}) {
    Operator op;
    op.name = p[out].name;
    op.phase = phase;
    op.reducer = reducer;
    for (std::size_t k = 0; k < p[out].shape.size(); ++k) op.axes.push_back({"i" + std::to_string(k), p[out].shape[k], {}});
    for (std::size_t k = 0; k < reduced.size(); ++k) op.axes.push_back({"r" + std::to_string(k), reduced[k], {}});
    op.outputRank = static_cast<std::uint32_t>(p[out].shape.size());
    op.body = body;
    op.output = out;
    p.addOperator(op);
  }
  // name[i] = product of the operands at i: linear in each, so the backward operators read what fusion.md lists.
  TensorId product(const std::string& name, std::vector<TensorId> operands, std::int64_t extent, Phase phase = Phase::Forward) {
    const TensorId out = made(name, {extent});
    ExprId body = at(operands[0]);
    for (std::size_t k = 1; k < operands.size(); ++k) body = p.binary(ScalarOp::Mul, body, at(operands[k]));
    if (operands.size() == 1) body = p.binary(ScalarOp::Mul, body, p.constant(2));
    define(out, body, phase);
    return out;
  }
  void keep(TensorId t) { p.outputs.push_back({p[t].name, t, OutputRole::Named}); }

  Program partitioned() {
    p.stage = Stage::Differentiated;
    EXPECT_EQ(verify(p, Stage::Differentiated), std::vector<std::string>{});
    auto result = partition(p);
    EXPECT_TRUE(result.ok());
    return std::move(result).value();
  }
};

constexpr std::int64_t kN = 1000, kBytes = 4 * kN;
const DeviceConstants kSlowMemory{1e9, 1e12, 1e-6};  // recomputation is cheap: the paper's formulas show

const FusionDecision& decisionOn(const FusionResult& r, const std::string& producer) {
  for (const FusionDecision& d : r.decisions)
    if (d.producer == producer) return d;
  ADD_FAILURE() << "no decision on " << producer;
  static const FusionDecision kNone;
  return kNone;
}

double term(const FusionDecision& d, const std::string& name) {
  for (const FusionTerm& t : d.traffic)
    if (t.name == name) return t.amount / kBytes;
  return 0;
}

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
    for (const KernelGraph::Move& m : graph.movesFor(t, {})) {
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
  b.define(big, b.p.unary(ScalarOp::Exp, b.at(a)));
  // Every point of Y reads all of E: fused, exp would be computed kN times as often.
  const TensorId y = b.made("Y", {kN});
  const ExprId x = b.at(a), e = b.at(big, {1});
  b.define(y, b.p.binary(ScalarOp::Max, x, e), Phase::Forward, Reducer::Sum, {kN});
  b.keep(y);
  const DeviceConstants slowArithmetic{1e12, 1e6, 0};
  const auto result = fuse(b.partitioned(), slowArithmetic);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "E");
  EXPECT_EQ(d.state, FusionState::Refused);
  EXPECT_EQ(d.dC, -8.0 * kN * (kN - 1));
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
    const auto moves = graph.movesFor(tensor, {});
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

TEST(Fusion, ForceAndForbidWin) {
  const auto program = [] {
    Build b;
    const TensorId a = b.given("A", kN);
    const TensorId B = b.product("B", {a}, kN), C = b.product("C", {B}, kN), D = b.product("D", {C}, kN);
    b.keep(D);
    return b;
  };
  Build split = program();
  split.p.hints.push_back({Hint::Kind::Split, {"B", "C"}, {}, {}});
  const auto apart = fuse(split.partitioned(), kSlowMemory);
  ASSERT_TRUE(apart.ok());
  EXPECT_EQ(decisionOn(*apart, "B").state, FusionState::Forbidden);
  EXPECT_EQ(apart->program.groups.size(), 2u);

  Build forced = program();
  forced.p.hints.push_back({Hint::Kind::Fuse, {"B", "C"}, {}, {}});
  const DeviceConstants launchesFree{1e30, 1e30, -1.0};  // nothing pays here: every merge costs
  const auto together = fuse(forced.partitioned(), launchesFree);
  ASSERT_TRUE(together.ok());
  EXPECT_EQ(decisionOn(*together, "B").state, FusionState::Forced);
  EXPECT_EQ(decisionOn(*together, "C").state, FusionState::Refused);
  EXPECT_EQ(together->program.groups.size(), 2u);
}

// One move computes B again wherever it is read: what is told of it names the reader that the hint names, not the first.
TEST(Fusion, WhatAHintNamesIsToldOfThePairItNames) {
  const auto program = [](std::vector<std::pair<const char*, const char*>> hints) {
    Build b;
    const TensorId a = b.given("A", kN), x = b.given("X", kN);
    const TensorId B = b.product("B", {a}, kN);
    const TensorId first = b.product("C", {B}, kN), second = b.product("D", {B, x}, kN);
    b.keep(first);
    b.keep(second);
    for (const auto& [from, to] : hints) b.p.hints.push_back({Hint::Kind::Fuse, {from, to}, {}, {}});
    return b;
  };
  const auto decision = [](const FusionResult& result, const char* producer, const char* consumer) {
    for (const FusionDecision& d : result.decisions)
      if (d.producer == producer && d.consumer == consumer) return d;
    ADD_FAILURE() << producer << " -> " << consumer;
    return FusionDecision{};
  };
  const DeviceConstants dear{1e9, 1e9, -1.0};  // a kernel less costs: greedy fuses nothing
  const auto alone = fuse(program({}).partitioned(), dear);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(decision(*alone, "B", "C").state, FusionState::Refused);

  const auto one = fuse(program({{"B", "D"}}).partitioned(), dear);
  ASSERT_TRUE(one.ok());
  const FusionDecision named = decision(*one, "B", "D");
  EXPECT_EQ(named.state, FusionState::Forced);
  EXPECT_NE(named.R, 0);
  EXPECT_NE(decision(*one, "B", "C").state, FusionState::Forced);

  const auto both = fuse(program({{"B", "D"}, {"C", "B"}}).partitioned(), dear);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(decision(*both, "B", "D").state, FusionState::Forced);
  const FusionDecision met = decision(*both, "B", "C");
  EXPECT_EQ(met.state, FusionState::Forced);
  EXPECT_EQ(met.R, 0) << "counted once";
}

TEST(Fusion, ForcedButNotLowerableIsRefusedWithTheReason) {
  Build b;
  const TensorId a = b.given("A", kN);
  const TensorId sum = b.made("S", {});
  b.define(sum, b.at(a), Phase::Forward, Reducer::Sum, {kN});
  const TensorId max = b.made("M", {kN});
  b.define(max, b.p.binary(ScalarOp::Mul, b.at(a), b.p.load(sum, {})));
  const TensorId again = b.made("T", {kN});
  b.define(again, b.p.binary(ScalarOp::Mul, b.p.load(max, {{IndexExpr::variable(1), {}}}), b.at(a)), Phase::Forward, Reducer::Sum,
           {kN});
  b.keep(again);
  b.p.hints.push_back({Hint::Kind::Fuse, {"M", "T"}, {}, {}});
  b.p.hints.push_back({Hint::Kind::Fuse, {"S", "M"}, {}, {}});
  FusionOptions options;
  options.limits.rowBytes = 16;
  const auto result = fuse(b.partitioned(), kSlowMemory, options);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "S");
  EXPECT_EQ(d.state, FusionState::NotLowerable);
  EXPECT_EQ(reasonOf(d), "A `hint fuse` asks for it, in vain. " + d.why);
  EXPECT_EQ(d.askedInVain, std::pair(std::string("S"), std::string("M")));
  EXPECT_TRUE(decisionOn(*result, "M").askedInVain.first.empty());
  EXPECT_TRUE(d.why.ends_with(" Their kernels hold T, too.")) << d.why;
}

// B = 2*X[t], C = 2*B, carried along: fused in the body, and counted once a trip.
Program loopProgram(std::int64_t trips) {
  Build inner;
  const TensorId in = inner.given("x", kN);
  const TensorId b = inner.product("B", {in}, kN), c = inner.product("C", {b}, kN);
  Build outer;
  const TensorId x = outer.given("X", kN), last = outer.made("Y", {kN});
  Loop loop;
  loop.trips = trips;
  loop.body = std::make_shared<const Program>(std::move(inner.p));
  loop.carried.push_back({x, in, c, last});
  outer.p.loops.push_back(std::move(loop));
  Operator op;
  op.name = "over";
  op.kind = OperatorKind::Loop;
  op.loop = LoopId(std::size_t{0});
  outer.p.addOperator(op);
  outer.keep(last);
  return outer.partitioned();
}

// What is known of a kernel holds for every kernel of the same operators, whatever its tensors are called.
TEST(Fusion, AKernelThatMeasuredSlowerIsSplitAgain) {
  const auto chain = [](const std::string& prefix) {
    Build b;
    const TensorId a = b.given(prefix + "A", kN);
    const TensorId x = b.product(prefix + "B", {a}, kN), y = b.product(prefix + "C", {x, a}, kN);
    b.keep(b.product(prefix + "D", {y}, kN));
    return b.partitioned();
  };
  const auto whole = fuse(chain(""), kSlowMemory);
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(whole->program.groups.size(), 1u);
  const auto kernels = fusedKernels(whole->program);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].signature, kernelSignature(whole->program, whole->program.groups[0].operators));

  FusionOptions options;
  options.reverted[kernels[0].signature] = {12, 0.5, 9, 0.25, 9};
  const auto split = fuse(chain("other"), kSlowMemory, options);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->program.groups.size(), 2u);
  EXPECT_EQ(verify(split->program, Stage::Fused), std::vector<std::string>{});
  std::size_t told = 0;
  for (const FusionDecision& d : split->decisions) {
    if (d.state != FusionState::Reverted) continue;
    ++told;
    ASSERT_TRUE(d.measured);
    EXPECT_EQ(d.measured->split, 9);
    EXPECT_EQ(d.why, "Measured, the fused kernel took 12 µs and its parts 9 µs (9 pairs).");
    EXPECT_GT(d.R, 0);
  }
  EXPECT_EQ(told, 1u);
  const auto json = toJson(split->decisions, kSlowMemory)["decisions"];
  const auto reverted =
      std::find_if(json.begin(), json.end(), [](const auto& d) { return d["state"] == "reverted by measurement"; });
  ASSERT_NE(reverted, json.end());
  EXPECT_EQ((*reverted)["accepted"], false);
  EXPECT_EQ((*reverted)["measured"]["fused_us"], 12.0);

  // The two sides of it, and nothing around them.
  const auto named = fuse(chain(""), kSlowMemory, options);
  const auto sites = differingSites(whole->program, named->program);
  ASSERT_EQ(sites.size(), 1u);
  ASSERT_EQ(sites[0].first.size(), 1u);
  EXPECT_EQ(sites[0].first[0].tensors, (std::vector<std::string>{"A", "D"}));
  ASSERT_EQ(sites[0].second.size(), 2u);
  EXPECT_EQ(sites[0].second[1].tensors.back(), "D");
  EXPECT_EQ(sites[0].second[0].tensors.back(), sites[0].second[1].tensors.front());

  // A part that loses as well is split in its turn; and what a person forces is theirs to decide.
  for (auto parts = kernels; !parts.empty(); parts = fusedKernels(fuse(chain(""), kSlowMemory, options)->program))
    for (const FusedKernel& part : parts) options.reverted[part.signature] = {5, 0, 4, 0, 9};
  EXPECT_EQ(fuse(chain(""), kSlowMemory, options)->program.groups.size(), 3u);
  options.force = {{"B", "C"}, {"C", "D"}};
  EXPECT_EQ(fuse(chain(""), kSlowMemory, options)->program.groups.size(), 1u);
}

// Split again, its parts may join others, and then nothing can bring them together: the measurement is told all the same.
TEST(Fusion, WhatWasMeasuredIsToldWhereOtherMergesTookItsPlace) {
  Build b;
  constexpr std::int64_t kRows = 32, kInner = 64;
  const TensorId q = b.made("Q", {kRows, kInner}), w = b.made("W", {kInner, kInner}), target = b.made("T", {kRows, kInner});
  for (const TensorId t : {q, w, target}) b.p.tensors[t.value].kind = TensorKind::Input;
  const TensorId r = b.made("R", {kRows, kInner}), s = b.made("S", {kRows, kInner}), l = b.made("L", {});
  const TensorId ds = b.made("d(L)/d(S)", {kRows, kInner}), dr = b.made("d(L)/d(R)", {kRows, kInner});
  const auto mul = [&](ExprId x, ExprId y) { return b.p.binary(ScalarOp::Mul, x, y); };
  const auto sub = [&](ExprId x, ExprId y) { return b.p.binary(ScalarOp::Sub, x, y); };
  b.define(r, mul(b.at(q, {0, 2}), b.at(w, {2, 1})), Phase::Forward, Reducer::Sum, {kInner});
  b.define(s, b.p.unary(ScalarOp::Sigmoid, b.at(r, {0, 1})));
  b.define(l, mul(sub(b.at(s, {0, 1}), b.at(target, {0, 1})), sub(b.at(s, {0, 1}), b.at(target, {0, 1}))), Phase::Forward,
           Reducer::Sum, {kRows, kInner});
  b.define(ds, sub(b.at(s, {0, 1}), b.at(target, {0, 1})), Phase::Backward);
  b.define(dr, mul(b.at(ds, {0, 1}), mul(b.at(s, {0, 1}), sub(b.p.constant(1), b.at(s, {0, 1})))), Phase::Backward);
  b.keep(l);
  b.keep(dr);
  const Program program = b.partitioned();
  const DeviceConstants device{4e10, 2.5e11, 2e-7};
  const auto fused = fuse(program, device);
  ASSERT_TRUE(fused.ok());
  int measured = 0;
  for (const FusedKernel& kernel : fusedKernels(fused->program)) {
    FusionOptions options;
    options.reverted[kernel.signature] = {3, 0.1, 2.7, 0.1, 21};
    const auto split = fuse(program, device, options);
    ASSERT_TRUE(split.ok());
    const auto told = std::ranges::find_if(split->decisions, [&](const FusionDecision& d) { return d.lost == kernel.signature; });
    ASSERT_NE(told, split->decisions.end()) << kernel.name;
    EXPECT_EQ(told->state, FusionState::Reverted);
    EXPECT_GT(told->R, 0);
    EXPECT_EQ(told->why, "Measured, the fused kernel took 3 \u00b5s and its parts 2.7 \u00b5s (21 pairs).");
    ++measured;
  }
  EXPECT_GT(measured, 1);
}

// The same kernel cut in another place is another comparison: its figures do not stand there.
TEST(Fusion, AMeasurementStandsWithTheCutThatWasCompared) {
  Build b;
  const TensorId a = b.given("A", kN);
  const TensorId x = b.product("B", {a}, kN), y = b.product("C", {x, a}, kN);
  b.keep(b.product("D", {y}, kN));
  const Program chain = b.partitioned();
  const auto takenBack = [](const FusionResult& result) {
    std::vector<FusionDecision> found;
    for (const FusionDecision& d : result.decisions)
      if (d.state == FusionState::Reverted) found.push_back(d);
    return found;
  };
  const Hash whole = fusedKernels(fuse(chain, kSlowMemory)->program).at(0).signature;
  FusionOptions options;
  options.reverted[whole] = {12, 0.5, 9, 0.25, 21, -3, -3.5, -2.5, {}};
  auto told = takenBack(*fuse(chain, kSlowMemory, options));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].lost, whole);
  ASSERT_NE(told[0].cut, Hash());
  const FusionDecision compared = told[0];
  options.reverted[whole].cut = compared.cut;
  told = takenBack(*fuse(chain, kSlowMemory, options));
  ASSERT_EQ(told.size(), 1u);
  ASSERT_TRUE(told[0].measured);
  EXPECT_EQ(told[0].measured->saved, -3);

  options.force = {{compared.producer, compared.consumer}};
  told = takenBack(*fuse(chain, kSlowMemory, options));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(std::pair(told[0].producer, told[0].consumer), std::pair(compared.producer, compared.consumer));
  EXPECT_EQ(told[0].lost, whole);
  EXPECT_FALSE(told[0].measured);
  EXPECT_EQ(told[0].why, "The kernel of both was measured, cut in another place, and was slower than its parts.");
}

// With anything split or not the kernels are a sound partition that computes every operator.
TEST(FusionProperty, AnyKernelCanBeTakenBack) {
  std::mt19937 rng(5);
  for (int round = 0; round < 40; ++round) {
    Build b;
    std::vector<TensorId> all{b.given("A", kN), b.given("B", kN)};
    const int operators = 3 + static_cast<int>(rng() % 4);
    for (int i = 0; i < operators; ++i) {
      std::vector<TensorId> operands{all[rng() % all.size()]};
      if (rng() % 2) operands.push_back(all[rng() % all.size()]);
      all.push_back(b.product("T" + std::to_string(i), operands, kN));
    }
    b.keep(all.back());
    const Program program = b.partitioned();
    FusionOptions options;
    auto fused = fuse(program, kSlowMemory);
    // Down to one kernel an operator, one kernel at a time.
    for (int step = 0; step < 1000; ++step) {
      ASSERT_TRUE(fused.ok());
      ASSERT_EQ(verify(fused->program, Stage::Fused), std::vector<std::string>{});
      const auto kernels = fusedKernels(fused->program);
      if (kernels.empty()) break;
      const FusedKernel& chosen = kernels[rng() % kernels.size()];
      options.reverted[chosen.signature] = {2, 0, 1, 0, 7};
      auto next = fuse(program, kSlowMemory, options);
      ASSERT_TRUE(next.ok());
      for (const FusedKernel& k : fusedKernels(next->program)) EXPECT_FALSE(options.reverted.contains(k.signature));
      bool found = false;
      for (const FusionSite& site : differingSites(fused->program, next->program)) {
        ASSERT_FALSE(site.first.empty());
        ASSERT_FALSE(site.second.empty());
        for (const SiteKernel& k : site.first) found |= k.hash == chosen.subgraph;
      }
      EXPECT_TRUE(found);
      fused = std::move(next);
    }
    EXPECT_TRUE(fusedKernels(fused->program).empty());
  }
}

TEST(Fusion, LoopBodiesCountOnceATrip) {
  const auto result = fuse(loopProgram(7), kSlowMemory);
  ASSERT_TRUE(result.ok());
  const FusionDecision& d = decisionOn(*result, "B");
  EXPECT_EQ(d.state, FusionState::Accepted);
  EXPECT_EQ(d.loop, "over");
  EXPECT_EQ(d.dT, 7 * 2 * kBytes);
  EXPECT_EQ(d.dK, 7);
  EXPECT_EQ(result->program.loops[0].body->groups.size(), 1u);
  EXPECT_EQ(verify(result->program, Stage::Fused), std::vector<std::string>{});
}

TEST(Fusion, HintsReachIntoLoops) {
  Program program = loopProgram(3);
  program.hints.push_back({Hint::Kind::Split, {"B", "C"}, {}, {}});
  const auto result = fuse(program, kSlowMemory);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(decisionOn(*result, "B").state, FusionState::Forbidden);
  EXPECT_EQ(result->program.loops[0].body->groups.size(), 2u);
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

// ---------------------------------------------------------------- properties
Program randomGraph(std::mt19937_64& rng) {
  Build b;
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  const std::int64_t rows = 3, columns = 4;
  std::vector<TensorId> matrices, vectors;
  for (int i = 0; i < 2; ++i) {
    const TensorId t = b.given("A" + std::to_string(i), 1);
    b.p[t].shape = {rows, columns};
    matrices.push_back(t);
  }
  vectors.push_back(b.given("v", rows));
  const std::size_t count = 4 + pick(14);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "T" + std::to_string(i);
    const TensorId m = matrices[pick(matrices.size())], v = vectors[pick(vectors.size())], other = matrices[pick(matrices.size())];
    switch (pick(5)) {
      case 0: {  // injective
        const TensorId t = b.made(name, {rows, columns});
        const ExprId x = b.at(m, {0, 1}), y = b.at(other, {0, 1});
        b.define(t, b.p.binary(ScalarOp::Add, x, b.p.unary(ScalarOp::Tanh, y)));
        matrices.push_back(t);
        break;
      }
      case 1: {  // broadcast
        const TensorId t = b.made(name, {rows, columns});
        const ExprId x = b.at(m, {0, 1}), y = b.at(v, {0});
        b.define(t, b.p.binary(ScalarOp::Mul, x, y));
        matrices.push_back(t);
        break;
      }
      case 2: {  // row reduction
        const TensorId t = b.made(name, {rows});
        b.define(t, b.at(m, {0, 1}), Phase::Forward, pick(2) ? Reducer::Sum : Reducer::Max, {columns});
        vectors.push_back(t);
        break;
      }
      case 3: {  // away from the own point
        const TensorId t = b.made(name, {rows, columns});
        b.define(t, b.p.load(m, {{IndexExpr::variable(0), {}}, {IndexExpr(columns - 1) - IndexExpr::variable(1), {}}}));
        matrices.push_back(t);
        break;
      }
      default: {  // contraction m * other^T * other
        const TensorId t = b.made(name, {rows, rows});
        b.define(t, b.p.binary(ScalarOp::Mul, b.at(m, {0, 2}), b.at(other, {1, 2})), Phase::Backward, Reducer::Sum, {columns});
        const TensorId u = b.made(name + "b", {rows, columns});
        b.define(u, b.p.binary(ScalarOp::Mul, b.at(t, {0, 2}), b.at(m, {2, 1})), Phase::Backward, Reducer::Sum, {rows});
        matrices.push_back(u);
        break;
      }
    }
  }
  b.keep(matrices.back());
  b.keep(vectors.back());
  return b.partitioned();
}

// Distinct tensors every kernel reads and writes, straight from the groups.
double bytesMoved(const Program& p) {
  double total = 0;
  const auto made = producers(p);
  for (const Group& g : p.groups) {
    std::set<TensorId> inside, moved;
    for (const OperatorId op : g.operators)
      for (const TensorId t : writesOf(p, op)) inside.insert(t);
    for (const OperatorId op : g.operators)
      for (const TensorId t : readsOf(p, op))
        if (!inside.contains(t)) moved.insert(t);
    for (const TensorId t : inside) {
      bool read = false, leaves = false;
      for (const Output& o : p.outputs) leaves |= o.tensor == t;
      for (std::size_t i = 0; i < p.operators.size(); ++i) {
        const auto reads = readsOf(p, OperatorId(i));
        if (std::find(reads.begin(), reads.end(), t) == reads.end()) continue;
        read = true;
        leaves |= std::find(g.operators.begin(), g.operators.end(), OperatorId(i)) == g.operators.end();
      }
      if (leaves || !read) moved.insert(t);
    }
    for (const TensorId t : moved) total += static_cast<double>(p[t].bytes());
  }
  return total;
}

void expectSameMoves(const std::vector<KernelGraph::Move>& a, const std::vector<KernelGraph::Move>& b) {
  ASSERT_EQ(a.size(), b.size());
  const auto terms = [](const KernelGraph::Move& m) { return std::map<TensorId, double>(m.traffic->begin(), m.traffic->end()); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].kind, b[i].kind);
    EXPECT_EQ(a[i].consumer, b[i].consumer);
    EXPECT_EQ(a[i].bytes, b[i].bytes);
    EXPECT_EQ(a[i].operations, b[i].operations);
    EXPECT_EQ(a[i].kernels, b[i].kernels);
    EXPECT_EQ(a[i].recomputed, b[i].recomputed);
    EXPECT_EQ(a[i].obstacle, b[i].obstacle);
    EXPECT_EQ(a[i].forbidden, b[i].forbidden);
    EXPECT_EQ(terms(a[i]), terms(b[i]));
  }
}

// What is kept of one score for the next never differs from the score taken from scratch, however kernels were merged in between.
TEST(FusionProperty, ScoresThatAreKeptEqualScoresFromScratch) {
  const char* given = std::getenv("NF_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("NF_SEED=" + std::to_string(seed));
  std::mt19937_64 rng(seed);
  const FusionLimits limits{32 << 10, 6};
  const auto worth = [](const KernelGraph::Move& m) { return m.bytes / 10 + m.operations / 50 + static_cast<double>(m.kernels); };
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    KernelGraph graph(randomGraph(rng));
    if (const auto& tensors = graph.program().tensors; round % 3 == 0)
      graph.forbid(TensorId(rng() % tensors.size()), TensorId(rng() % tensors.size()));
    for (bool merged = true; merged && !HasFailure();) {
      KernelGraph anew = graph;
      std::vector<KernelGraph::Move> feasible;
      for (std::size_t i = 0; i < graph.program().tensors.size(); ++i) {
        const TensorId t(i);
        anew.forget();
        const auto moves = graph.movesFor(t, limits);
        expectSameMoves(moves, anew.movesFor(t, limits));
        // The best of them, without judging those that are worth less.
        anew.forget();
        const KernelGraph::Move* best = nullptr;
        for (const auto& m : moves) {
          if (m.obstacle || m.forbidden) continue;
          feasible.push_back(m);
          if (worth(m) > 0 && (!best || worth(m) > worth(*best))) best = &m;
        }
        for (const KernelGraph* g : {&graph, &anew}) {
          const auto found = g->bestFor(t, limits, worth);
          ASSERT_EQ(found.has_value(), best != nullptr);
          if (best) expectSameMoves({*found}, {*best});
        }
      }
      merged = !feasible.empty();
      if (merged) graph.apply(feasible[rng() % feasible.size()]);
    }
    EXPECT_EQ(verify(std::move(graph).take(), Stage::Fused), std::vector<std::string>{});
  }
}

// T0 = X * X, Tk = T(k-1) * X, and backwards; d(L)/d(X) is one operator that reads them all.
std::uint64_t workOnChain(int length) {
  Build b;
  const TensorId x = b.given("X", 16);
  std::vector<TensorId> forward{b.product("T0", {x, x}, 16)};
  const auto name = [](int k) { return "T" + std::to_string(k); };
  const auto gradient = [](const std::string& of) { return "d(L)/d(" + of + ")"; };
  for (int k = 1; k < length; ++k) forward.push_back(b.product(name(k), {forward.back(), x}, 16));
  TensorId back = b.product(gradient(name(length - 1)), {forward.back()}, 16, Phase::Backward);
  const TensorId dX = b.made(gradient("X"), {16});
  ExprId sum = b.p.binary(ScalarOp::Mul, b.at(back), b.at(x));
  for (int k = length - 2; k >= 0; --k) {
    back = b.product(gradient(name(k)), {back, x}, 16, Phase::Backward);
    sum = b.p.binary(ScalarOp::Add, sum, b.p.binary(ScalarOp::Mul, b.at(back), b.at(forward[static_cast<std::size_t>(k)])));
  }
  b.define(dX, sum, Phase::Backward);
  b.p.outputs.push_back({gradient("X"), dX, OutputRole::Show});
  const auto partitioned = partition(b.p);
  EXPECT_TRUE(partitioned.ok());
  const auto fused = fuse(*partitioned, kSlowMemory);
  EXPECT_TRUE(fused.ok());
  EXPECT_EQ(verify(fused->program, Stage::Fused), std::vector<std::string>{});
  return fused->work;
}

// An operator that reads as many tensors as there are others is met by each of them at the other's cost, not at its own.
TEST(Fusion, ALongChainWithItsGradientCostsTheSameAnOperator) {
  const std::uint64_t few = workOnChain(100), many = workOnChain(800);
  EXPECT_GT(few, 100u);
  EXPECT_LT(many, 8 * few * 3 / 2);
}

// Whenever it is told that nobody waits any more: it ends, and what it is asked of next is what it would have been.
TEST(FusionProperty, AnOutdatedFusionEndsAndLeavesNothingBehind) {
  std::mt19937_64 rng(7);
  const Program before = randomGraph(rng);
  std::size_t asked = 0;
  FusionOptions options;
  options.outdated = [&] { return ++asked, false; };
  const auto whole = fuse(before, kSlowMemory, options);
  ASSERT_TRUE(whole.ok());
  const std::size_t all = asked;
  EXPECT_GT(all, before.tensors.size()) << "asked at least once a tensor";
  for (std::size_t at = 1; at <= all; ++at) {
    asked = 0;
    options.outdated = [&] { return ++asked >= at; };
    const auto ended = fuse(before, kSlowMemory, options);
    ASSERT_FALSE(ended.ok());
    EXPECT_TRUE(isOutdated(ended.error()));
    EXPECT_EQ(asked, at) << "not asked again";
  }
  options.outdated = {};
  EXPECT_EQ(toText(fuse(before, kSlowMemory, options)->decisions), toText(whole->decisions));
  EXPECT_FALSE(isOutdated(Error{"fuse", "The program is not partitioned.", {}, {}}));
}

using NamedEdge = std::pair<std::string, std::string>;

// What an operator reads of another one, and whether a kernel has both: where one is computed again, another may not.
void edgesOf(const Program& fused, std::map<NamedEdge, bool>& into) {
  std::map<TensorId, std::pair<OperatorId, std::size_t>> made;
  for (std::size_t g = 0; g < fused.groups.size(); ++g)
    for (const OperatorId op : fused.groups[g].operators)
      for (const TensorId t : writesOf(fused, op)) made[t] = {op, g};
  for (std::size_t g = 0; g < fused.groups.size(); ++g)
    for (const OperatorId op : fused.groups[g].operators) {
      for (const TensorId t : readsOf(fused, op)) {
        const auto producer = made.find(t);
        if (producer == made.end() || producer->second.first == op) continue;
        const NamedEdge edge{originalName(fused[t].name), originalName(fused[op].name)};
        const bool together = producer->second.second == g;
        into.emplace(edge, together).first->second |= together;
      }
      if (fused[op].kind == OperatorKind::Loop) edgesOf(*fused[fused[op].loop].body, into);
    }
}

TEST(FusionProperty, EveryEdgeHasItsDecision) {
  const char* given = std::getenv("NF_SEED");  // replays a printed seed
  // With the second a reader has two copies, and only one of them is in its producer's kernel.
  for (const std::uint64_t seed : {given ? std::strtoull(given, nullptr, 10) : std::random_device{}(), 4007745001ull}) {
    SCOPED_TRACE("NF_SEED=" + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const DeviceConstants devices[] = {kSlowMemory, {1e10, 1e9, 1e-6}, {1e10, 5e10, 1e-9}};
    for (int round = 0; round < 150; ++round) {
      const auto result = fuse(randomGraph(rng), devices[round % 3]);
      ASSERT_TRUE(result.ok());
      std::map<NamedEdge, bool> edges, told;
      edgesOf(result->program, edges);
      for (const FusionDecision& d : result->decisions) {
        const bool accepted = d.state == FusionState::Accepted;
        const auto [row, fresh] = told.emplace(NamedEdge{originalName(d.producer), originalName(d.consumer)}, accepted);
        if (!fresh) row->second = row->second || accepted;
      }
      EXPECT_EQ(told, edges) << "round " << round << "\n" << toText(result->decisions);
      if (HasFailure()) return;
    }
  }
}

TEST(FusionProperty, dTIsTheDifferenceOfBytesCountedOverTheKernels) {
  const char* given = std::getenv("NF_SEED");  // replays a printed seed
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("NF_SEED=" + std::to_string(seed));
  std::mt19937_64 rng(seed);
  const DeviceConstants devices[] = {kSlowMemory, {1e10, 1e9, 1e-6}, {1e10, 5e10, 1e-9}};
  for (int round = 0; round < 150; ++round) {
    const Program before = randomGraph(rng);
    const auto result = fuse(before, devices[round % 3]);
    ASSERT_TRUE(result.ok());
    const Program& after = result->program;
    ASSERT_EQ(verify(after, Stage::Fused), std::vector<std::string>{}) << "round " << round;
    double claimed = 0;
    std::int64_t kernels = 0;
    for (const FusionDecision& d : result->decisions)
      if (d.state == FusionState::Accepted) {
        claimed += d.dT;
        kernels += d.dK;
      }
    EXPECT_EQ(claimed, bytesMoved(before) - bytesMoved(after)) << "round " << round;
    EXPECT_EQ(kernels, static_cast<std::int64_t>(before.groups.size()) - static_cast<std::int64_t>(after.groups.size()))
        << "round " << round;
    for (const Group& g : after.groups) EXPECT_EQ(whyNotLowerable(after, g.operators), std::nullopt) << "round " << round;
    // The same values come out.
    TensorValues inputs;
    for (std::size_t t = 0; t < before.tensors.size(); ++t) {
      const Tensor& tensor = before.tensors[t];
      if (tensor.kind != TensorKind::Input) continue;
      TensorData data{tensor.type, tensor.shape, {}};
      for (std::int64_t i = 0; i < tensor.elements(); ++i) data.values.push_back(static_cast<double>(rng() % 1000) / 500 - 1);
      inputs[TensorId(t)] = data;
    }
    const auto x = interpret(before, inputs), y = interpret(after, inputs);
    ASSERT_TRUE(x.ok() && y.ok());
    for (const Output& o : before.outputs)
      EXPECT_EQ(x->at(o.tensor).values, y->at(after.tensorNamed(o.name)).values) << "round " << round;
  }
}

}  // namespace
}  // namespace nf
