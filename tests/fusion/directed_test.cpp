// SPDX-License-Identifier: Apache-2.0
// What hints and measurements ask of a fusion, in loops too.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/fusion/fuse.h"
#include "core/fusion/site.h"
#include "tests/fusion/fusion_build.h"

namespace nf {
namespace {

using namespace fusion_test;

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
  options.reverted[{kernels[0].signature, {}}] = {12, 0.5, 9, 0.25, 9};
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
    for (const FusedKernel& part : parts) options.reverted[{part.signature, {}}] = {5, 0, 4, 0, 9};
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
    options.reverted[{kernel.signature, {}}] = {3, 0.1, 2.7, 0.1, 21};
    const auto split = fuse(program, device, options);
    ASSERT_TRUE(split.ok());
    const auto told =
        std::ranges::find_if(split->decisions, [&](const FusionDecision& d) { return d.lost.kernel == kernel.signature; });
    ASSERT_NE(told, split->decisions.end()) << kernel.name;
    EXPECT_EQ(told->state, FusionState::Reverted);
    EXPECT_GT(told->R, 0);
    EXPECT_EQ(told->why, "Measured, the fused kernel took 3 \u00b5s and its parts 2.7 \u00b5s (21 pairs).");
    // Times of several kernels are not said to be those of one.
    FusionMeasurement& m = options.reverted[{kernel.signature, {}}];
    m.fused = 3712.4, m.split = 99.96, m.fusedKernels = 4, m.splitKernels = 1;
    const auto several = fuse(program, device, options);
    ASSERT_TRUE(several.ok());
    EXPECT_EQ(
        std::ranges::find_if(several->decisions, [&](const FusionDecision& d) { return d.lost.kernel == kernel.signature; })->why,
        "Measured with all that changes beside it: fused, 4 kernels took 3712 \u00b5s; split, one kernel took 100 \u00b5s (21 "
        "pairs).");
    ++measured;
  }
  EXPECT_GT(measured, 1);
}

// A kernel that is slower than these parts is not known to be slower than others: where a hint puts others in its place it is made again.
TEST(Fusion, AVerdictHoldsWhereTheSamePartsTakeItsPlace) {
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
  const auto fused = fuse(chain, kSlowMemory);
  const Hash whole = fusedKernels(fused->program).at(0).signature;
  FusionOptions options;
  options.reverted[{whole, {}}] = {12, 0.5, 9, 0.25, 21, -3, -3.5, -2.5};
  const auto split = fuse(chain, kSlowMemory, options);
  ASSERT_EQ(split->program.groups.size(), 2u);
  const FusionDecision compared = takenBack(*split).at(0);
  EXPECT_EQ(compared.lost, (JudgedKernel{whole, {}}));
  ASSERT_EQ(split->barred.size(), 1u);
  const JudgedKernel judged = split->barred[0].judged;
  EXPECT_EQ(judged.kernel, whole);
  EXPECT_EQ(split->barred[0].made, (std::vector<std::string>{"B", "C", "D"}));
  ASSERT_EQ(judged.parts.size(), 2u);

  options.reverted = {{judged, {12, 0.5, 9, 0.25, 21, -3, -3.5, -2.5}}};
  const auto again = fuse(chain, kSlowMemory, options);
  EXPECT_EQ(kernelsOf(again->program), kernelsOf(split->program));
  ASSERT_EQ(takenBack(*again).size(), 1u);
  EXPECT_EQ(takenBack(*again)[0].lost, judged);
  EXPECT_EQ(takenBack(*again)[0].measured->saved, -3);

  // The hint joins two of them otherwise, so that the rest is another part.
  FusionOptions hinted = options;
  hinted.force = {{compared.producer, compared.consumer}};
  const auto elsewhere = fuse(chain, kSlowMemory, hinted);
  EXPECT_EQ(elsewhere->program.groups.size(), 1u);
  EXPECT_TRUE(takenBack(*elsewhere).empty());
  // Measured there as well, it is known of both.
  FusionOptions any = hinted;
  any.reverted = {{{whole, {}}, {}}};
  const auto apart = fuse(chain, kSlowMemory, any);
  ASSERT_EQ(apart->program.groups.size(), 2u);
  const auto site = differingSites(elsewhere->program, apart->program).at(0);
  const BarredKernel* const there = barredAt(apart->barred, site, site.first.at(0));
  ASSERT_TRUE(there);
  hinted.reverted[there->judged] = {11, 0.5, 9, 0.25, 21, -2, -2.5, -1.5};
  EXPECT_EQ(hinted.reverted.size(), 2u);
  const auto both = fuse(chain, kSlowMemory, hinted);
  EXPECT_EQ(kernelsOf(both->program), kernelsOf(apart->program));
  ASSERT_EQ(takenBack(*both).size(), 1u);
  EXPECT_EQ(takenBack(*both)[0].measured->saved, -2);
  EXPECT_EQ(fuse(chain, kSlowMemory, options)->program.groups.size(), 2u);
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

}  // namespace
}  // namespace nf
