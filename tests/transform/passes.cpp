// SPDX-License-Identifier: Apache-2.0
// What each pass is for, on the smallest program that shows it.
#include <gtest/gtest.h>

#include <set>

#include "core/ir/verify.h"
#include "core/lang/compile.h"
#include "core/transform/hoist_loops.h"
#include "core/transform/merge_equal_operators.h"
#include "core/transform/remove_dead_operators.h"
#include "core/transform/simplify_scalars.h"
#include "core/transform/unroll_loops.h"
#include "tests/build_loop.h"

namespace nf {
namespace {

using test::Build;
using test::BuildLoop;
using test::var;

std::vector<std::string> names(const Program& p) {
  std::vector<std::string> result;
  for (const Operator& op : p.operators) result.push_back(op.name);
  return result;
}

TEST(RemoveDeadOperators, KeepsOutputsUpdatesAndGivenTensors) {
  Build b;
  const auto X = b.tensor("X", {2}), P = b.tensor("P", {2}, TensorKind::Param), unused = b.tensor("unused", {3});
  const auto A = b.op("A", {{"i", 2}}, 1, Reducer::None, b.load(X, {var(0)}));
  b.op("dead", {{"i", 2}}, 1, Reducer::None, b.load(A, {var(0)}));
  const auto next = b.op("next", {{"i", 2}}, 1, Reducer::None, b.load(P, {var(0)}));
  b.output(A);
  b.p.updates.push_back({P, next, {}});
  const auto p = removeDeadOperators(b.p);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(names(*p), (std::vector<std::string>{"A", "next"}));
  EXPECT_TRUE(p->tensorNamed(b.p[unused].name).valid());
  EXPECT_FALSE(p->tensorNamed("dead").valid());
  EXPECT_EQ(p->outputs.size(), 1u);
}

TEST(RemoveDeadOperators, PrunesLoops) {
  Build b;
  const TensorId L = test::recurrentNet(b, 3, false);
  b.output(b.p.tensorNamed("L1"));
  (void)L;
  const auto p = removeDeadOperators(b.p);
  ASSERT_TRUE(p.ok());
  EXPECT_TRUE(verify(*p, Stage::Source).empty());
  const Loop& loop = p->loops[0];
  EXPECT_TRUE(loop.stacked.empty());
  EXPECT_TRUE(loop.accumulated.empty());
  EXPECT_EQ(loop.carried.size(), 1u);
}

TEST(MergeEqualOperators, FirstIsKeptAndNamesBothOrigins) {
  Build b;
  const auto X = b.tensor("X", {2, 3});
  const auto one = b.p.sourceOrigin({SourceId(std::size_t{0}), 0, 1}), two = b.p.sourceOrigin({SourceId(std::size_t{0}), 5, 6});
  const auto M = b.op("M", {{"i", 2}, {"k", 3}}, 1, Reducer::Max, b.load(X, {var(0), var(1)}));
  const auto N = b.op("N", {{"i", 2}, {"q", 3}}, 1, Reducer::Max, b.load(X, {var(0), var(1)}));
  b.p.operators[0].origin = one;
  b.p.operators[1].origin = two;
  const auto Y = b.op("Y", {{"i", 2}}, 1, Reducer::None, b.add(b.load(M, {var(0)}), b.load(N, {var(0)})));
  b.output(Y);
  b.p.hints.push_back({Hint::Kind::Split, {"N", "Y"}, {}, {}});
  const auto p = mergeEqualOperators(b.p);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->hints[0].tensors, (std::vector<std::string>{"M", "Y"}));
  EXPECT_EQ(names(*p), (std::vector<std::string>{"M", "Y"}));
  EXPECT_EQ((*p)[p->operators[0].origin].parents, (std::vector<OriginId>{one, two}));
  EXPECT_TRUE(verify(*p, Stage::Source).empty());
}

// The same expression in two places: what computes it once is selected from the tokens of both.
TEST(MergeEqualOperators, EveryPartComesFromBothPlaces) {
  Build b;
  const auto X = b.tensor("X", {2, 3});
  const auto at = [&](std::uint32_t place) { return b.p.sourceOrigin({SourceId(std::size_t{0}), place, place + 1}); };
  std::vector<ExprId> bodies;
  const auto statement = [&](const char* name, std::uint32_t begin) {
    const ExprId x = b.p.load(X, {AccessIndex{var(0)}, AccessIndex{var(1)}}, at(begin));
    bodies.push_back(b.p.unary(ScalarOp::Exp, x, at(begin + 1)));
    const auto made = b.op(name, {{"i", 2}, {"k", 3}}, 1, Reducer::Sum, bodies.back());
    b.p.operators.back().axes[1].origin = at(begin + 2);
    return made;
  };
  const auto M = statement("M", 0), N = statement("N", 10);
  const auto spans = [](const Program& p, OriginId id) {
    std::vector<std::uint32_t> begins;
    for (const OriginId parent : p[id].parents) begins.push_back(p[parent].span.begin);
    return begins;
  };
  b.output(b.op("Y", {{"i", 2}}, 1, Reducer::None, b.add(b.load(M, {var(0)}), b.load(N, {var(0)}))));
  const auto p = mergeEqualOperators(b.p);
  ASSERT_TRUE(p.ok());
  ASSERT_EQ(names(*p), (std::vector<std::string>{"M", "Y"}));
  const Operator& kept = p->operators[0];
  const ScalarNode& root = (*p)[kept.body];
  EXPECT_EQ(spans(*p, root.origin), (std::vector<std::uint32_t>{1, 11}));
  EXPECT_EQ(spans(*p, (*p)[root.operands[0]].origin), (std::vector<std::uint32_t>{0, 10}));
  EXPECT_EQ(spans(*p, kept.axes[1].origin), (std::vector<std::uint32_t>{2, 12}));
  EXPECT_TRUE(verify(*p, Stage::Source).empty());
}

// What is kept has the name that is wanted; a part of the program that has it alone comes from all that it stands for.
TEST(MergeEqualOperators, TheNameThatIsWantedStaysAndAPartAdoptsTheOrigins) {
  const auto program = [](bool whole) {
    Build b;
    const auto X = b.tensor("X", {2, 3});
    const auto at = [&](std::uint32_t place) { return b.p.sourceOrigin({SourceId(std::size_t{0}), place, place + 1}); };
    std::vector<TensorId> made;
    for (const auto& [name, place] : {std::pair{"K", 20}, std::pair{"M", 0}, std::pair{"N", 10}}) {
      if (!whole && std::string_view(name) != "N") continue;
      const ExprId x = b.p.load(X, {AccessIndex{var(0)}, AccessIndex{var(1)}}, at(static_cast<std::uint32_t>(place)));
      made.push_back(b.op(name, {{"i", 2}, {"k", 3}}, 1, Reducer::Sum, x));
      b.p.operators.back().origin = at(static_cast<std::uint32_t>(place) + 1);
    }
    for (const TensorId t : made)
      b.output(b.op(b.p[t].name + "Y", {{"i", 2}}, 1, Reducer::None, b.p.unary(ScalarOp::Exp, b.load(t, {var(0)}))));
    if (whole) b.p.hints.push_back({Hint::Kind::Split, {"M", "MY"}, {}, {}});
    return b.p;
  };
  MergedNames merged;
  const auto whole = mergeEqualOperators(program(true), &merged, {"N", "NY"});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(names(*whole), (std::vector<std::string>{"N", "NY"}));
  EXPECT_EQ(whole->hints[0].tensors, (std::vector<std::string>{"N", "NY"}));
  EXPECT_EQ(merged.at("K"), "N");
  EXPECT_EQ(merged.at("M"), "N");
  EXPECT_FALSE(merged.contains("N"));
  EXPECT_TRUE(verify(*whole, Stage::Source).empty());
  Program part = program(false);
  adoptMergedOrigins(part, *whole, merged);
  EXPECT_TRUE(verify(part, Stage::Source).empty());
  const std::function<void(OriginId, std::set<std::uint32_t>&)> collect = [&](OriginId id, std::set<std::uint32_t>& places) {
    if (part[id].parents.empty()) places.insert(part[id].span.begin);
    for (const OriginId parent : part[id].parents) collect(parent, places);
  };
  std::set<std::uint32_t> statements, accesses;
  collect(part.operators[0].origin, statements);
  collect(part[part.operators[0].body].origin, accesses);
  EXPECT_EQ(statements, (std::set<std::uint32_t>{1, 11, 21}));
  EXPECT_EQ(accesses, (std::set<std::uint32_t>{0, 10, 20}));
}

// The seed of a loss that is a sum is 1, whichever loss that is; it has the places of its own.
TEST(MergeEqualOperators, SeedsOfTwoLossesStayTwo) {
  Build b;
  const auto X = b.tensor("X", {4});
  for (const std::string seed : {"d(La)/d(S)", "d(La)/d(T)", "d(Lb)/d(S)"}) {
    const auto one = b.op(seed, {}, 0, Reducer::None, b.number(1));
    b.output(b.op(seed + ".read", {{"i", 4}}, 1, Reducer::None, b.mul(b.load(one, {}), b.load(X, {var(0)}))));
  }
  const auto p = mergeEqualOperators(b.p);
  ASSERT_TRUE(p);
  std::set<std::string> made;
  for (const Operator& op : p->operators) made.insert((*p)[op.output].name);
  EXPECT_EQ(made, (std::set<std::string>{"d(La)/d(S)", "d(La)/d(S).read", "d(Lb)/d(S)", "d(Lb)/d(S).read"}));
}

// Two equal tensors that a loop reads are one for it, too: it would be counted, and read, twice.
TEST(MergeEqualOperators, OneOutsideIsOneWithinALoop) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf",
                       {},
                       "input X[4] = zeros()\ninput b[4] = zeros()\nP[i] = X[i] * 2\nQ[i] = X[i] * 2\nh[i: 4] = 0.5\n"
                       "for t in 0..3 { h[i] = h[i] * P[i] + Q[i] * b[i] }\nshow h\n"});
  ASSERT_TRUE(notebook.ok());
  const auto p = mergeEqualOperators(notebook.program);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(verify(*p, Stage::Source), std::vector<std::string>{});
  const Loop& loop = p->loops.at(0);
  EXPECT_EQ(loop.invariants.size(), 2u);
  std::set<std::uint32_t> read;
  for (const TensorId t : readsOf(*loop.body, OperatorId(std::size_t{0}))) read.insert(t.value);
  EXPECT_EQ(read.size(), 3u) << "h, P and b";
  EXPECT_EQ(loop.body->tensors.size(), 4u);
}

TEST(MergeEqualOperators, DifferentTensorsAndTiesStayApart) {
  Build b;
  const auto X = b.tensor("X", {3}), Z = b.tensor("Z", {3});
  b.output(b.op("M", {{"k", 3}}, 0, Reducer::Max, b.load(X, {var(0)})));
  b.output(b.op("N", {{"k", 3}}, 0, Reducer::Max, b.load(Z, {var(0)})));
  b.output(b.op("O", {{"k", 3}}, 0, Reducer::Max, b.load(X, {var(0)})));
  b.p.operators[2].tiesEven = true;
  EXPECT_EQ(mergeEqualOperators(b.p)->operators.size(), 3u);
}

TEST(SimplifyScalars, FoldsConstantsAndDecidedConditions) {
  Build b;
  const auto X = b.tensor("X", {4});
  const ExprId x = b.mul(b.load(X, {var(0)}), b.number(1));
  const ExprId inside = b.p.select(b.p.condGe0(var(0)), x, b.number(0));
  const auto Y = b.op("Y", {{"i", 4}}, 1, Reducer::None, b.add(inside, b.mul(b.number(2), b.number(3))));
  b.output(Y);
  const auto p = simplifyScalars(b.p);
  ASSERT_TRUE(p.ok());
  const ScalarNode& root = (*p)[p->operators[0].body];
  ASSERT_EQ(root.op, ScalarOp::Add);
  EXPECT_EQ((*p)[root.operands[0]].op, ScalarOp::Load);
  EXPECT_EQ((*p)[root.operands[1]].op, ScalarOp::Constant);
  EXPECT_EQ((*p)[root.operands[1]].value, 6);
}

TEST(SimplifyScalars, AScatterOfNothingBecomesZeros) {
  Build b;
  const auto X = b.tensor("X", {5});
  const auto I = b.tensor("I", {1}, TensorKind::Input, DType::I32);
  const ExprId place = b.load(I, {3 * var(0)});
  const ExprId never = b.p.condGe0(var(0) - 11);
  b.output(b.scatter("S", {{"i", 5}}, {7, 2}, {AccessIndex{{}, place}, AccessIndex{var(0) - 4, {}}},
                     b.p.select(never, b.load(X, {var(0)}), b.number(0))));
  const auto p = simplifyScalars(b.p);
  ASSERT_TRUE(p.ok());
  EXPECT_TRUE(verify(*p, Stage::Source).empty());
  const Operator& op = p->operators[0];
  EXPECT_EQ(op.kind, OperatorKind::Gather);
  ASSERT_EQ(op.axes.size(), 2u);
  EXPECT_EQ(op.axes[0].extent, 7);
  EXPECT_EQ(op.axes[1].extent, 2);
  EXPECT_EQ(op.outputRank, 2u);
  EXPECT_TRUE(op.scatter.empty());
  EXPECT_EQ((*p)[op.body].op, ScalarOp::Constant);
}

TEST(SimplifyScalars, AConditionHoldsInsideItsOwnBranch) {
  Build b;
  const auto X = b.tensor("X", {4});
  const auto positive = [&] { return b.p.binary(ScalarOp::Lt, b.number(0), b.load(X, {var(0)})); };
  const ExprId inner = b.p.select(positive(), b.load(X, {var(0)}), b.number(5));
  b.output(b.op("Y", {{"i", 4}}, 1, Reducer::None, b.p.select(positive(), inner, b.number(7))));
  const auto p = simplifyScalars(b.p);
  const ScalarNode& root = (*p)[p->operators[0].body];
  ASSERT_EQ(root.op, ScalarOp::Select);
  EXPECT_EQ((*p)[root.operands[1]].op, ScalarOp::Load);
}

TEST(SimplifyScalars, TrainingBecomesALiteral) {
  Build b;
  const auto X = b.tensor("X", {4});
  ScalarNode training;
  training.op = ScalarOp::Training;
  training.type = DType::Bool;
  b.p.scalars.push_back(training);
  const ExprId condition(b.p.scalars.size() - 1);
  b.output(b.op("Y", {{"i", 4}}, 1, Reducer::None, b.p.select(condition, b.load(X, {var(0)}), b.number(7))));
  EXPECT_EQ((*simplifyScalars(b.p, true))[simplifyScalars(b.p, true)->operators[0].body].op, ScalarOp::Load);
  EXPECT_EQ((*simplifyScalars(b.p, false))[simplifyScalars(b.p, false)->operators[0].body].value, 7);
  EXPECT_EQ((*simplifyScalars(b.p))[simplifyScalars(b.p)->operators[0].body].op, ScalarOp::Select);
}

TEST(HoistLoops, InputContractionLeavesToTheFront) {
  Build b;
  const TensorId L = test::recurrentNet(b, 3, false);
  b.output(L);
  const auto p = hoistLoops(b.p);
  ASSERT_TRUE(p.ok());
  ASSERT_TRUE(verify(*p, Stage::Source).empty()) << verify(*p, Stage::Source).front();
  // W x of all steps first, then the loop; zh steers h and stays.
  EXPECT_EQ(p->operators[0].name, "zx_steps");
  EXPECT_EQ(p->operators[0].axes.size(), 4u);
  EXPECT_EQ(p->operators[1].kind, OperatorKind::Loop);
  EXPECT_EQ(names(*p->loops[0].body), (std::vector<std::string>{"zh", "next"}));
}

// g = sum[b] dZ[t,b,n]*h[b,k], accumulated: one contraction over time behind the loop.
TEST(HoistLoops, AccumulationsLeaveAsContractionsOverTime) {
  Build b;
  const auto dZ = b.tensor("dZ", {5, 2, 3}), h0 = b.tensor("h", {2, 4});
  BuildLoop l(b, 5);
  const auto z = l.invariant(dZ);
  const auto h = l.carried(h0);
  Build& s = l.body;
  const auto next = s.op("next", {{"b", 2}, {"k", 4}}, 2, Reducer::None, s.p.unary(ScalarOp::Tanh, s.load(h, {var(0), var(1)})));
  const auto g = s.op("g", {{"n", 3}, {"k", 4}, {"b", 2}}, 2, Reducer::Sum,
                      s.mul(s.load(z, {l.counter(), var(2), var(0)}), s.load(h, {var(2), var(1)})));
  l.carry(h0, h, next, false);
  const auto dW = l.accumulate(g);
  l.close();
  b.output(dW);
  const auto p = hoistLoops(b.p);
  ASSERT_TRUE(p.ok());
  ASSERT_TRUE(verify(*p, Stage::Source).empty()) << verify(*p, Stage::Source).front();
  ASSERT_EQ(p->operators.size(), 2u);
  const Operator& contraction = p->operators[1];
  EXPECT_EQ((*p)[contraction.output].name, "g_total");
  ASSERT_EQ(contraction.axes.size(), 4u);
  EXPECT_EQ(contraction.outputRank, 2u);
  EXPECT_EQ(contraction.axes[2].name, "t");
  EXPECT_EQ(contraction.axes[2].extent, 5);
  EXPECT_TRUE(p->loops[0].accumulated.empty());
}

TEST(HoistLoops, ALoopWithNothingLeftDisappears) {
  Build b;
  const auto X = b.tensor("X", {4, 3});
  BuildLoop l(b, 4);
  const auto x = l.invariant(X);
  const auto y = l.body.op("y", {{"i", 3}}, 1, Reducer::None, l.body.p.unary(ScalarOp::Exp, l.body.load(x, {l.counter(), var(0)})));
  const auto all = l.stack(y);
  l.close();
  b.output(all);
  const auto p = hoistLoops(b.p);
  ASSERT_EQ(p->operators.size(), 1u);
  EXPECT_EQ(p->operators[0].kind, OperatorKind::Gather);
  EXPECT_TRUE(verify(*p, Stage::Source).empty());
}

TEST(UnrollLoops, CopiesAreNamedByStep) {
  Build b;
  const auto h0 = b.tensor("h", {});
  BuildLoop l(b, 3);
  const auto h = l.carried(h0);
  const auto next = l.body.op("next", {}, 0, Reducer::None, l.body.mul(l.body.number(2), l.body.load(h, {})));
  b.output(l.carry(h0, h, next));
  l.close();
  const auto p = unrollLoops(b.p);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(names(*p), (std::vector<std::string>{"next.0", "next.1", "next.2", "h_last"}));
  EXPECT_TRUE(verify(*p, Stage::Source).empty());
  EXPECT_EQ(unrollLoops(b.p, 2)->operators.size(), 1u);  // longer loops stay
}

TEST(UnrollLoops, RefusesMillionsOfCopies) {
  Build b;
  const auto h0 = b.tensor("h", {});
  BuildLoop l(b, 1 << 20);
  const auto h = l.carried(h0);
  Build& s = l.body;
  const auto next = s.op("n2", {}, 0, Reducer::None, s.load(s.op("n1", {}, 0, Reducer::None, s.load(h, {})), {}));
  b.output(l.carry(h0, h, next));
  l.close("long");
  const auto p = unrollLoops(b.p);
  ASSERT_FALSE(p.ok());
  EXPECT_EQ(p.error().message, "unrolling long would make more than a million operators");
}

}  // namespace
}  // namespace nf
