// SPDX-License-Identifier: Apache-2.0
#include "core/ir/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <nlohmann/json.hpp>
#include <random>

#include "core/ir/folding.h"
#include "core/ir/paths.h"
#include "core/ir/serialize.h"
#include "core/ir/structural_hash.h"
#include "core/ir/verify.h"
#include "core/ir/work.h"

namespace nf {
namespace {

IndexExpr var(IndexVar v) { return IndexExpr::variable(v); }
AccessIndex at(IndexVar v) { return {var(v), {}}; }

TensorId given(Program& p, std::string name, std::vector<std::int64_t> shape, TensorKind kind = TensorKind::Input) {
  Tensor t;
  t.name = std::move(name);
  t.kind = kind;
  t.shape = std::move(shape);
  return p.addTensor(std::move(t));
}

Operator gather(std::string name, std::vector<Axis> axes, std::uint32_t rank, Reducer reducer, ExprId body, TensorId out) {
  Operator op;
  op.name = std::move(name);
  op.axes = std::move(axes);
  op.outputRank = rank;
  op.reducer = reducer;
  op.body = body;
  op.output = out;
  return op;
}

// C[i,j] = sum[k] A[i,k]*B[k,j]; D[i,j] = relu(C[i,j])
Program matmulRelu(std::string prefix = "") {
  Program p;
  const TensorId a = given(p, prefix + "A", {4, 6}), b = given(p, prefix + "B", {6, 5});
  const TensorId c = given(p, prefix + "C", {4, 5}, TensorKind::Intermediate);
  const TensorId d = given(p, prefix + "D", {4, 5}, TensorKind::Intermediate);
  const ExprId left = p.load(a, {at(0), at(2)}), right = p.load(b, {at(2), at(1)});
  const ExprId product = p.binary(ScalarOp::Mul, left, right);
  p.addOperator(gather(prefix + "C", {{"i", 4, {}}, {"j", 5, {}}, {"k", 6, {}}}, 2, Reducer::Sum, product, c));
  p.addOperator(
      gather(prefix + "D", {{"i", 4, {}}, {"j", 5, {}}}, 2, Reducer::None, p.unary(ScalarOp::Relu, p.load(c, {at(0), at(1)})), d));
  p.outputs.push_back({"D", d, OutputRole::Show});
  return p;
}

TEST(Program, VerifiesAndCountsWork) {
  const Program p = matmulRelu();
  EXPECT_EQ(verify(p, Stage::Differentiated), std::vector<std::string>{});
  EXPECT_EQ(flopsOf(p, OperatorId(0u)), 4 * 5 * 6 * 2);
  EXPECT_EQ(leastFlopsOf(p, OperatorId(0u)), 4 * 5 * 6 * 2);
  EXPECT_EQ(readsOf(p, OperatorId(0u)), (std::vector{p.tensorNamed("A"), p.tensorNamed("B")}));
}

TEST(Program, NoExecutionDoesLessThanTheLeastWork) {
  Program p;
  const TensorId x = given(p, "X", {4}), w = given(p, "W", {4, 6});
  const TensorId y = given(p, "Y", {4}, TensorKind::Intermediate), z = given(p, "Z", {4, 6}, TensorKind::Intermediate);
  // A square is one product, and exp(X[i]) is one value for all j.
  const ExprId e = p.unary(ScalarOp::Exp, p.load(x, {at(0)}));
  const ExprId square = p.binary(ScalarOp::Pow, p.load(w, {at(0), at(1)}), p.constant(2));
  p.addOperator(gather("Y", {{"i", 4, {}}, {"j", 6, {}}}, 1, Reducer::Sum, p.binary(ScalarOp::Mul, e, square), y));
  EXPECT_EQ(leastFlopsOf(p, OperatorId(0u)), 4 + 24 + 24 + 24);
  EXPECT_EQ(flopsOf(p, OperatorId(0u)), 24 * (1 + info(ScalarOp::Exp).flops + 1 + 1));
  // A branch may never be taken.
  const ExprId inside = p.cond(IndexCond::ge0(IndexExpr::variable(1) - IndexExpr(5)));
  p.addOperator(gather("Z", {{"i", 4, {}}, {"j", 6, {}}}, 2, Reducer::None, p.select(inside, square, p.constant(0)), z));
  EXPECT_EQ(leastFlopsOf(p, OperatorId(1u)), 0);
}

// The gradient of a convolution with stride 2: of each output pixel only the taps that hit it are work, whatever the loop runs over.
TEST(Program, ZerosOfAGuardAreNoWork) {
  for (const std::int64_t extent : {9, 40}) {  // all points of a condition are counted, or a part of them evenly
    SCOPED_TRACE(extent);
    const std::int64_t taps = extent == 9 ? 3 : 7, outputs = (extent - taps) / 2 + 1;
    Program p;
    const TensorId y = given(p, "dY", {2, 5, outputs, outputs}), w = given(p, "W", {5, 4, taps, taps});
    const TensorId a = given(p, "dA", {2, 4, extent, extent}, TensorKind::Intermediate);
    // axes: b i u v, reduced k r s
    const IndexExpr row = var(2) - var(5), column = var(3) - var(6);
    std::vector<IndexCond> hits;
    for (const IndexExpr& e : {row, column}) {
      hits.push_back(IndexCond::eq0(floorMod(e, 2)));
      hits.push_back(IndexCond::ge0(e));
      hits.push_back(IndexCond::ge0(IndexExpr(2 * (outputs - 1)) - e));
    }
    const ExprId product = p.binary(ScalarOp::Mul, p.load(y, {at(0), at(4), {floorDiv(row, 2), {}}, {floorDiv(column, 2), {}}}),
                                    p.load(w, {at(4), at(1), at(5), at(6)}));
    p.addOperator(gather(
        "dA", {{"b", 2, {}}, {"i", 4, {}}, {"u", extent, {}}, {"v", extent, {}}, {"k", 5, {}}, {"r", taps, {}}, {"s", taps, {}}}, 4,
        Reducer::Sum, p.select(p.cond(IndexCond::all(hits)), product, p.constant(0)), a));
    // As many products as the convolution itself has.
    const std::int64_t forward = 2 * 2 * 4 * 5 * taps * taps * outputs * outputs;
    EXPECT_EQ(workOf(p, OperatorId(0u)), forward);
    EXPECT_EQ(flopsOf(p, OperatorId(0u)), 2 * 2 * 4 * 5 * taps * taps * extent * extent);
  }
}

TEST(Program, WorkOfLargeConditionsIsEstimatedEvenly) {
  Program p;
  const TensorId x = given(p, "X", {3000, 2000}), y = given(p, "Y", {3000, 2000}, TensorKind::Intermediate);
  const IndexCond lower = IndexCond::ge0(2 * var(0) - 3 * var(1));  // half of it
  const ExprId twice = p.binary(ScalarOp::Mul, p.load(x, {at(0), at(1)}), p.constant(2));
  p.addOperator(
      gather("Y", {{"i", 3000, {}}, {"j", 2000, {}}}, 2, Reducer::None, p.select(p.cond(lower), twice, p.constant(0)), y));
  const auto work = static_cast<double>(workOf(p, OperatorId(0u)));
  EXPECT_NEAR(work / 3e6, 1, 0.01);
}

TEST(Program, WorkCountsWhatDataDecideWholeAndSharedValuesOnce) {
  Program p;
  const TensorId x = given(p, "X", {4}), w = given(p, "W", {4, 6}), y = given(p, "Y", {4, 6}, TensorKind::Intermediate);
  const ExprId value = p.load(x, {at(0)}), e = p.unary(ScalarOp::Exp, value);
  const ExprId positive = p.binary(ScalarOp::Lt, p.constant(0), value);
  const ExprId product = p.binary(ScalarOp::Mul, e, p.load(w, {at(0), at(1)}));
  p.addOperator(gather("Y", {{"i", 4, {}}, {"j", 6, {}}}, 2, Reducer::None, p.select(positive, product, e), y));
  EXPECT_EQ(workOf(p, OperatorId(0u)), 4 * info(ScalarOp::Exp).flops + 4 + 24);  // exp and the comparison once for all j
  EXPECT_EQ(workOf(p), workOf(p, OperatorId(0u)));
}

TEST(Program, SquaresAreProductsAndOtherPowersAreThoseOfTheLibrary) {
  for (const double x : {-3.1, -0.0, 1e-200, 0.1, 7.3, 1e200, static_cast<double>(INFINITY)}) {
    EXPECT_EQ(evaluateScalar(ScalarOp::Pow, DType::F64, x, 2), x * x) << x;
    for (const double y : {-2.0, 0.0, 0.5, 3.0}) {
      const double expected = std::pow(x, y), made = *evaluateScalar(ScalarOp::Pow, DType::F64, x, y);
      EXPECT_TRUE(made == expected || (std::isnan(made) && std::isnan(expected))) << x << "^" << y;
    }
  }
}

TEST(Program, HashIgnoresNamesAndSeesStructure) {
  const Program p = matmulRelu(), q = matmulRelu("other_");
  EXPECT_EQ(structuralHash(p), structuralHash(q));
  Program r = matmulRelu();
  r.operators[0].reducer = Reducer::Max;
  EXPECT_NE(structuralHash(p), structuralHash(r));
  // A*A and A*B differ: which operands name one tensor counts.
  Program s = matmulRelu();
  s.accesses[1].tensor = s.accesses[0].tensor;
  EXPECT_NE(structuralHash(p), structuralHash(s));
}

TEST(Initializer, IsEqualToWhatSaysTheSameElsewhere) {
  const auto hash = [](const Initializer& init) {
    Hasher h;
    add(h, init);
    return h.finish();
  };
  Initializer file;
  file.kind = Initializer::Kind::Npz;
  file.strings = {"x.npz", "W"};
  Initializer moved = file;
  moved.origin = OriginId(7u);
  EXPECT_TRUE(file == moved);
  EXPECT_EQ(hash(file), hash(moved));
  const std::vector<std::function<void(Initializer&)>> changes{[](auto& i) { i.kind = Initializer::Kind::Safetensors; },
                                                               [](auto& i) { i.numbers = {1}; },
                                                               [](auto& i) { i.strings[1] = "V"; },
                                                               [](auto& i) { i.data = "D"; },
                                                               [](auto& i) { i.columnBegin = 1; },
                                                               [](auto& i) { i.columnEnd = 1; },
                                                               [](auto& i) { i.scale = 2; },
                                                               [](auto& i) { i.shift = 2; }};
  for (std::size_t k = 0; k < changes.size(); ++k) {
    Initializer other = file;
    changes[k](other);
    EXPECT_FALSE(other == file) << k;
    EXPECT_NE(hash(other), hash(file)) << k;
  }
}

TEST(Subgraph, ListsInputsAndWhatLeaves) {
  const Program p = matmulRelu();
  const Subgraph both = extractSubgraph(p, {OperatorId(0u), OperatorId(1u)});
  EXPECT_EQ(both.outerInputs, (std::vector{p.tensorNamed("A"), p.tensorNamed("B")}));
  EXPECT_EQ(both.outerOutputs, std::vector{p.tensorNamed("D")});
  EXPECT_EQ(verify(both.program, Stage::Differentiated), std::vector<std::string>{});
  const Subgraph first = extractSubgraph(p, {OperatorId(0u)});
  EXPECT_EQ(first.outerOutputs, std::vector{p.tensorNamed("C")});
  EXPECT_NE(first.hash, both.hash);
}

TEST(Serialize, RoundTrips) {
  const Program p = matmulRelu();
  const nlohmann::json json = toJson(p);
  const auto back = programFromJson(json);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(toJson(*back), json);
  EXPECT_EQ(structuralHash(*back), structuralHash(p));
}

// Any single damaged value is read as a failure or as another program, never as a crash.
TEST(Serialize, SurvivesDamage) {
  const nlohmann::json json = toJson(matmulRelu());
  const nlohmann::json flat = json.flatten();
  std::vector<std::string> keys;
  for (const auto& item : flat.items()) keys.push_back(item.key());
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  const std::vector<nlohmann::json> values{nullptr, -1, 4000000000u, "x", nlohmann::json::array(), 1e300, false};
  for (int round = 0; round < 400; ++round) {
    nlohmann::json damaged = json;
    damaged[nlohmann::json::json_pointer(keys[rng() % keys.size()])] = values[rng() % values.size()];
    const auto read = programFromJson(damaged);
    EXPECT_TRUE(read.ok() || !read.error().message.empty());
  }
}

TEST(Verify, NamesWhatIsWrong) {
  const auto firstProblem = [](const Program& p, Stage stage = Stage::Differentiated) {
    const auto problems = verify(p, stage);
    return problems.empty() ? std::string("none") : problems[0];
  };
  Program outOfBounds = matmulRelu();
  outOfBounds.accesses[0].indices[1].affine = IndexExpr::variable(2) + IndexExpr(1);
  EXPECT_EQ(firstProblem(outOfBounds), "operator C: index 1 of A is not proved to stay in [0, 6)");
  Program unordered = matmulRelu();
  std::swap(unordered.operators[0], unordered.operators[1]);
  EXPECT_EQ(firstProblem(unordered), "operator D reads C before it is written");
  Program rank = matmulRelu();
  rank.accesses[0].indices.pop_back();
  EXPECT_NE(firstProblem(rank).find("its rank is 2"), std::string::npos);
  Program groups = matmulRelu();
  groups.groups.push_back({{OperatorId(0u)}, 0, "C"});
  EXPECT_EQ(firstProblem(groups, Stage::Partitioned), "operator D is in 0 groups");
  Program names = matmulRelu();
  names.tensors[1].name = "A";
  EXPECT_EQ(firstProblem(names), "two tensors are named A");
  Program extent = matmulRelu();
  extent.tensors[0].shape[0] = 0;
  EXPECT_EQ(firstProblem(extent), "tensor A has the extent 0");
}

// Padding by select: the guard of the branch is what proves the access.
TEST(Paths, GuardsProveTheBranch) {
  Program p;
  const TensorId x = given(p, "X", {8}), y = given(p, "Y", {10}, TensorKind::Intermediate);
  const IndexExpr shifted = IndexExpr::variable(0) - IndexExpr(1);
  const ExprId inside = p.binary(ScalarOp::And, p.condGe0(shifted), p.condGe0(IndexExpr(7) - shifted));
  const ExprId body = p.select(inside, p.load(x, {{shifted, {}}}), p.constant(0));
  p.addOperator(gather("Y", {{"i", 10, {}}}, 1, Reducer::None, body, y));
  EXPECT_EQ(verify(p, Stage::Differentiated), std::vector<std::string>{});
  const auto loads = guardedLoads(p, body);
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].guards, (std::vector{IndexCond::ge0(shifted), IndexCond::ge0(IndexExpr(7) - shifted)}));
}

}  // namespace
}  // namespace nf
