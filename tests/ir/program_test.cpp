// SPDX-License-Identifier: Apache-2.0
#include "core/ir/program.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/ir/paths.h"
#include "core/ir/serialize.h"
#include "core/ir/structural_hash.h"
#include "core/ir/verify.h"

namespace nf {
namespace {

AccessIndex at(IndexVar v) { return {IndexExpr::variable(v), {}}; }

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
