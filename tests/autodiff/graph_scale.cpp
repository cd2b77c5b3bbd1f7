// SPDX-License-Identifier: Apache-2.0
// Long programs, and programs that change a little at a time.
#include "core/fusion/partition.h"
#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"

namespace nf {
namespace {

Program compiled(const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  return notebook.program;
}

// Through parser, verifier, gradient, printer and partition: nothing recurses along the chain.
TEST(GraphScale, AHundredThousandOperatorsInARow) {
  constexpr int kLength = 100000;
  std::string text = "input X[2] = zeros()\nY0[i] = X[i]\n";
  for (int k = 1; k < kLength; ++k) {
    const std::string number = std::to_string(k);
    text += "Y" + number + "[i] = 0.99999*Y" + std::to_string(k - 1) + "[i]\n";
  }
  text += "loss L = sum[i] Y" + std::to_string(kLength - 1) + "[i]\nshow d(L)/d(X)\n";
  const Program source = compiled(text);
  ASSERT_EQ(source.operators.size(), kLength + 1u);
  EXPECT_TRUE(verify(source, Stage::Source).empty());
  const auto result = differentiate(source);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->diagnostics.empty());
  EXPECT_TRUE(verify(result->program, Stage::Differentiated).empty());
  const TensorId g = result->program.tensorNamed("d(L)/d(X)");
  const auto got = test::values(result->program, {{source.tensorNamed("X"), {DType::F32, {2}, {1, 1}}}}, {g});
  EXPECT_NEAR(got.at(g).values[0], std::pow(0.99999, kLength - 1), 1e-9);
  const std::string printed = toText(result->program);
  EXPECT_GT(static_cast<std::size_t>(std::count(printed.begin(), printed.end(), '\n')), result->program.operators.size());
  const auto groups = partition(result->program);
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(groups->groups.size(), result->program.operators.size());
}

// One body of as many nodes: the sweep over it keeps its own stack.
TEST(GraphScale, AHundredThousandNodesInOneBody) {
  test::Build b;
  const auto X = b.tensor("X", {2});
  const ExprId x = b.load(X, {test::var(0)});
  ExprId body = x;
  for (int k = 1; k < 100000; ++k) body = k % 2 == 0 ? b.add(body, x) : b.p.unary(ScalarOp::Neg, body);
  const auto L = b.op("L", {{"i", 2}}, 0, Reducer::Sum, body);
  const auto g = b.derivative(L, X);
  const Program p = test::differentiated(b.p);
  const auto got = test::values(p, {{X, {DType::F32, {2}, {1, 1}}}}, {g});
  // s <- 1 - s, over and over, from 1: what the sum of signs is.
  int slope = 1;
  for (int k = 1; k < 100000; ++k) slope = k % 2 == 0 ? slope + 1 : -slope;
  EXPECT_EQ(got.at(g).values[0], slope);
}

// Flat sums and products as somebody writes them: signs hold wherever the parser halves the chain.
TEST(GraphScale, LongFlatSumsAndProductsHaveTheirValueAndSlope) {
  for (const int length : {255, 256, 257, 511, 1000, 4099}) {
    SCOPED_TRACE(length);
    double slope = 0;
    std::string sum = "0", product = "X[i]";
    for (int k = 1; k < length; ++k) {
      const bool minus = k % 3 == 0 || k % 7 == 2;
      sum += std::string(minus ? " - " : " + ") + std::to_string(k) + "*X[i]";
      slope += minus ? -k : k;
      product += " * 1.001";
    }
    const Program source = compiled("input X[2] : f64 = zeros()\nloss L = sum[i] (" + sum + ")\nM = sum[i] " + product +
                                    "\nshow d(L)/d(X), d(M)/d(X)\n");
    const Program p = test::differentiated(source);
    const TensorId L = p.tensorNamed("L"), g = p.tensorNamed("d(L)/d(X)"), h = p.tensorNamed("d(M)/d(X)");
    const auto got = test::values(p, {{p.tensorNamed("X"), {DType::F64, {2}, {1, 2}}}}, {L, g, h});
    EXPECT_EQ(got.at(L).values[0], 3 * slope);
    EXPECT_EQ(got.at(g).values[1], slope);
    EXPECT_NEAR(got.at(h).values[0] / std::pow(1.001, length - 1), 1, 1e-12);
  }
}

// A notebook of two nets: typing in one of them solves only what it changed, and asking again solves nothing.
TEST(GraphScale, RevisionsShareTheirInverses) {
  const auto notebook = [](int stride, int width) {
    return compiled(
        "input X[2, 3, 16, 16] = zeros()\nparam F[4, 3, 3, 3] = zeros()\n"
        "Y[n,k,p: 6,q: 6] = sum[c,r,s] X[n,c," +
        std::to_string(stride) + "*p+r," + std::to_string(stride) +
        "*q+s]*F[k,c,r,s]\nloss L = sum[n,k,p,q] Y[n,k,p,q]^2\n"
        "input U[8, " +
        std::to_string(width) + "] = zeros()\nparam W[5, " + std::to_string(width) +
        "] = zeros()\n"
        "Z[b,o] = tanh(sum[i] U[b,i]*W[o,i])\nM = sum[b,o] Z[b,o]^2\nshow d(L)/d(X), d(L)/d(F), d(M)/d(U), d(M)/d(W)\n");
  };
  InverseCache cache;
  InvertOptions options;
  options.cache = &cache;
  const auto solves = [&](const Program& program) {
    const std::size_t before = cache.size(), hits = cache.hits();
    const auto result = differentiate(program, options);
    EXPECT_TRUE(result.ok());
    std::size_t accesses = 0;
    for (const GradientTerm& term : result->terms) accesses += term.form != GradientTerm::Form::Zero ? 1 : 0;
    EXPECT_EQ(accesses, cache.size() - before + cache.hits() - hits);
    return cache.size() - before;
  };
  const std::size_t first = solves(notebook(2, 6));
  EXPECT_GE(first, 6u);
  EXPECT_EQ(solves(notebook(2, 6)), 0u);
  // Another width changes the accesses of U and W alone, another stride that of X.
  EXPECT_EQ(solves(notebook(2, 7)), 2u);
  EXPECT_EQ(solves(notebook(1, 7)), 1u);
  EXPECT_EQ(solves(notebook(2, 7)), 0u);
  const std::size_t known = cache.size();
  EXPECT_EQ(solves(notebook(1, 6)), 0u);
  EXPECT_EQ(cache.size(), known);
}

}  // namespace
}  // namespace nf
