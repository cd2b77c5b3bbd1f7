// SPDX-License-Identifier: Apache-2.0
// The 46 named accesses as operators, whose inverses lose one guard after the other: where the exact oracle calls what is left wrong, the
// certificate refuses it and the gradient is a scatter with the right numbers.
#include "tests/autodiff/graph_check.h"
#include "tests/autodiff/named_accesses.h"
#include "tests/fuzz/access_oracle.h"

namespace nf {
namespace {

using test::Build;
using test::var;

struct Differentiable {
  Build b;
  TensorId A, dY, gradient;
};

// Y[y] = A[f(y)] where the guards hold and f(y) is inside A, else 0.
Differentiable operatorOf(const testing::NamedAccess& access) {
  Differentiable d;
  d.A = d.b.tensor("A", access.problem.shape);
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::vector<std::int64_t> shape;
  for (std::size_t k = 0; k < access.problem.domain.size(); ++k) {
    EXPECT_EQ(access.problem.domain[k].lo, 0);
    axes.emplace_back(access.variables[k], access.problem.domain[k].extent());
    shape.push_back(access.problem.domain[k].extent());
  }
  std::vector<IndexCond> conditions = access.problem.guards;
  for (std::size_t j = 0; j < access.problem.access.size(); ++j) {
    conditions.push_back(IndexCond::ge0(access.problem.access[j]));
    conditions.push_back(IndexCond::ge0(IndexExpr(access.problem.shape[j] - 1) - access.problem.access[j]));
  }
  const ExprId read = d.b.load(d.A, access.problem.access);
  const ExprId body = d.b.p.select(d.b.p.cond(IndexCond::all(conditions)), read, d.b.number(0));
  const TensorId Y = d.b.op("Y", axes, static_cast<std::uint32_t>(axes.size()), Reducer::None, body);
  d.dY = d.b.tensor("dY", shape);
  d.gradient = d.b.derivative(Y, d.A, d.dY);
  return d;
}

// Whole numbers, so that sums do not depend on their order.
TensorValues inputsOf(const Differentiable& d) {
  std::mt19937_64 rng(11);
  TensorValues inputs = test::inputsFor(d.b.p, rng);
  for (double& v : inputs[d.dY].values) v = static_cast<double>(rng() % 1000 + 1);
  return inputs;
}

TEST(GraphMutation, AWrongInverseIsAScatter) {
  std::size_t deleted = 0, wrong = 0;
  for (const testing::NamedAccess& access : testing::namedAccesses()) {
    SCOPED_TRACE(access.name);
    const Differentiable d = operatorOf(access);
    const TensorValues inputs = inputsOf(d);
    const auto whole = differentiate(d.b.p);
    ASSERT_TRUE(whole.ok());
    ASSERT_EQ(whole->terms.size(), 1u);
    const GradientTerm& term = whole->terms[0];
    ASSERT_EQ(term.form, GradientTerm::Form::Gather) << term.why;
    ASSERT_EQ(term.inverse.state, Inverse::State::Gather);
    const auto expected = test::values(whole->program, inputs, {d.gradient}).at(d.gradient).values;
    const std::size_t zGuards = term.inverse.zGuards.size(), guards = zGuards + term.inverse.tGuards.size();
    for (std::size_t g = 0; g < guards; ++g) {
      ++deleted;
      InvertOptions spoiling;
      spoiling.sabotage = [g, zGuards](Inverse& inverse) {
        auto& list = g < zGuards ? inverse.zGuards : inverse.tGuards;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(g < zGuards ? g : g - zGuards));
      };
      const bool right = testing::compareExactly(term.problem, invert(term.problem, spoiling)).right;
      wrong += right ? 0 : 1;
      const auto left = differentiate(d.b.p, spoiling);
      ASSERT_TRUE(left.ok());
      ASSERT_EQ(left->terms.size(), 1u);
      const GradientTerm& made = left->terms[0];
      if (!right) {
        EXPECT_EQ(made.form, GradientTerm::Form::Scatter) << "guard " << g << " of " << guards;
        EXPECT_EQ(made.why, "the proof failed");
        EXPECT_EQ(left->program[made.backward].kind, OperatorKind::Scatter);
      }
      EXPECT_TRUE(verify(left->program, Stage::Differentiated).empty());
      EXPECT_EQ(test::values(left->program, inputs, {d.gradient}).at(d.gradient).values, expected)
          << "guard " << g << " of " << guards;
    }
  }
  EXPECT_GT(wrong, 50u);
  std::printf("%zu guards deleted, %zu of them needed\n", deleted, wrong);
}

// The gather itself against brute force, so that "the same numbers" above means the right ones.
TEST(GraphMutation, NamedOperatorsAgainstBruteForce) {
  for (const testing::NamedAccess& access : testing::namedAccesses()) {
    SCOPED_TRACE(access.name);
    const Differentiable d = operatorOf(access);
    const TensorValues inputs = inputsOf(d);
    std::vector<double> expected(inputs.at(d.A).values.size(), 0);
    std::vector<std::int64_t> y(access.problem.domain.size(), 0);
    const auto at = [&](IndexVar v) { return y[v]; };
    for (const double weight : inputs.at(d.dY).values) {
      std::int64_t element = 0;
      bool inside = std::all_of(access.problem.guards.begin(), access.problem.guards.end(),
                                [&](const IndexCond& g) { return evaluate(g, at); });
      for (std::size_t j = 0; j < access.problem.shape.size(); ++j) {
        const std::int64_t z = evaluate(access.problem.access[j], at);
        inside = inside && z >= 0 && z < access.problem.shape[j];
        element = element * access.problem.shape[j] + z;
      }
      if (inside) expected[static_cast<std::size_t>(element)] += weight;
      for (std::size_t k = y.size(); k-- > 0;) {
        if (++y[k] < access.problem.domain[k].extent()) break;
        y[k] = 0;
      }
    }
    const Program p = test::differentiated(d.b.p);
    EXPECT_EQ(test::values(p, inputs, {d.gradient}).at(d.gradient).values, expected);
  }
}

}  // namespace
}  // namespace nf
