// SPDX-License-Identifier: Apache-2.0
// Single operators against central differences: every access pattern and body rule of the gradient's design.
#include <limits>

#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"
#include "tests/golden.h"

namespace nf {
namespace {

using test::Build;
using test::var;
using Axes = std::vector<std::pair<std::string, std::int64_t>>;

struct Case {
  std::string name;
  std::function<TensorId(Build&)> make;  // builds inputs A, W, .. and the operator Y
};

IndexCond inside(const IndexExpr& e, std::int64_t extent) {
  return IndexCond::all({IndexCond::ge0(e), IndexCond::ge0(IndexExpr(extent - 1) - e)});
}

std::vector<Case> cases() {
  const auto v = [](IndexVar i) { return var(i); };
  return {
      {"matmul",
       [=](Build& b) {
         const auto A = b.tensor("A", {3, 5}), W = b.tensor("W", {5, 4});
         return b.op("Y", {{"i", 3}, {"j", 4}, {"k", 5}}, 2, Reducer::Sum, b.mul(b.load(A, {v(0), v(2)}), b.load(W, {v(2), v(1)})));
       }},
      {"conv2d_s2_d2_pad2_groups2",
       [=](Build& b) {
         const auto A = b.tensor("A", {1, 4, 6, 6}), W = b.tensor("W", {4, 2, 3, 2});
         const IndexExpr h = 2 * v(2) + 2 * v(5) - IndexExpr(2), w = 2 * v(3) + 2 * v(6) - IndexExpr(2);
         const ExprId x = b.p.select(b.p.cond(IndexCond::all({inside(h, 6), inside(w, 6)})),
                                     b.load(A, {v(0), 2 * floorDiv(v(1), 2) + v(4), h, w}), b.number(0));
         return b.op("Y", {{"n", 1}, {"k", 4}, {"p", 3}, {"q", 3}, {"c", 2}, {"r", 3}, {"s", 2}}, 4, Reducer::Sum,
                     b.mul(x, b.load(W, {v(1), v(4), v(5), v(6)})));
       }},
      {"transposed_conv",
       [=](Build& b) {
         const auto A = b.tensor("A", {2, 4}), W = b.tensor("W", {2, 2, 3});
         const IndexExpr d = v(1) - v(3);
         const ExprId c = b.p.cond(IndexCond::all({IndexCond::eq0(floorMod(d, 2)), inside(d, 8)}));
         return b.op("Y", {{"k", 2}, {"h", 9}, {"c", 2}, {"r", 3}}, 2, Reducer::Sum,
                     b.p.select(c, b.mul(b.load(A, {v(2), floorDiv(d, 2)}), b.load(W, {v(2), v(0), v(3)})), b.number(0)));
       }},
      {"depthwise",
       [=](Build& b) {
         const auto A = b.tensor("A", {3, 6}), W = b.tensor("W", {3, 3});
         return b.op("Y", {{"c", 3}, {"p", 4}, {"r", 3}}, 2, Reducer::Sum,
                     b.mul(b.load(A, {v(0), v(1) + v(2)}), b.load(W, {v(0), v(2)})));
       }},
      {"capsule_conv",
       [=](Build& b) {
         const auto A = b.tensor("A", {1, 2, 4, 4, 2, 2}), W = b.tensor("W", {2, 2, 2, 2, 2, 2});
         return b.op("Y", {{"b", 1}, {"k", 2}, {"p", 2}, {"q", 2}, {"i", 2}, {"j", 2}, {"c", 2}, {"r", 2}, {"s", 2}, {"l", 2}}, 6,
                     Reducer::Sum,
                     b.mul(b.load(A, {v(0), v(6), 2 * v(2) + v(7), 2 * v(3) + v(8), v(4), v(9)}),
                           b.load(W, {v(1), v(6), v(7), v(8), v(9), v(5)})));
       }},
      {"depth2space_times_2",
       [=](Build& b) {
         const auto A = b.tensor("A", {8, 2, 2});
         return b.op("Y", {{"c", 2}, {"h", 4}, {"w", 4}}, 3, Reducer::None,
                     b.mul(b.number(2), b.load(A, {4 * v(0) + 2 * floorMod(v(1), 2) + floorMod(v(2), 2), floorDiv(v(1), 2),
                                                   floorDiv(v(2), 2)})));
       }},
      {"concat_select",
       [=](Build& b) {
         const auto A = b.tensor("A", {4}), W = b.tensor("W", {5});
         const ExprId a = b.load(A, {v(0)});
         return b.op("Y", {{"x", 9}}, 1, Reducer::None,
                     b.p.select(b.p.condGe0(IndexExpr(3) - v(0)), b.mul(a, a),
                                b.p.unary(ScalarOp::Tanh, b.load(W, {v(0) - IndexExpr(4)}))));
       }},
      {"A_i_A_j",
       [=](Build& b) {
         const auto A = b.tensor("A", {4});
         return b.op("Y", {{"i", 4}, {"j", 4}}, 2, Reducer::None, b.mul(b.load(A, {v(0)}), b.load(A, {v(1)})));
       }},
      {"A_i_A_i_plus_flip",
       [=](Build& b) {
         const auto A = b.tensor("A", {4});
         return b.op("Y", {{"i", 4}}, 1, Reducer::None,
                     b.add(b.mul(b.load(A, {v(0)}), b.load(A, {v(0)})), b.load(A, {IndexExpr(3) - v(0)})));
       }},
      {"gram",
       [=](Build& b) {
         const auto A = b.tensor("A", {3, 2});
         return b.op("Y", {{"i", 3}, {"j", 3}, {"k", 2}}, 2, Reducer::Sum, b.mul(b.load(A, {v(0), v(2)}), b.load(A, {v(1), v(2)})));
       }},
      {"diagonal",
       [=](Build& b) {
         const auto A = b.tensor("A", {4, 4});
         return b.op("Y", {{"i", 4}}, 1, Reducer::None, b.p.unary(ScalarOp::Exp, b.load(A, {v(0), v(0)})));
       }},
      {"A_i_plus_j",
       [=](Build& b) {
         const auto A = b.tensor("A", {6}), W = b.tensor("W", {4});
         return b.op("Y", {{"i", 4}, {"j", 3}}, 2, Reducer::None, b.mul(b.load(A, {v(0) + v(1)}), b.load(W, {v(0)})));
       }},
      {"maxpool_k3_s2",
       [=](Build& b) {
         const auto A = b.tensor("A", {7, 7});
         return b.op("Y", {{"p", 3}, {"q", 3}, {"r", 3}, {"s", 3}}, 2, Reducer::Max, b.load(A, {2 * v(0) + v(2), 2 * v(1) + v(3)}));
       }},
      {"min_over_product",
       [=](Build& b) {
         const auto A = b.tensor("A", {3, 4}), W = b.tensor("W", {4});
         return b.op("Y", {{"i", 3}, {"k", 4}}, 1, Reducer::Min, b.mul(b.load(A, {v(0), v(1)}), b.load(W, {v(1)})));
       }},
      {"prod_reduce",
       [=](Build& b) {
         const auto A = b.tensor("A", {3, 4});
         return b.op("Y", {{"i", 3}, {"k", 4}}, 1, Reducer::Prod, b.load(A, {v(0), v(1)}));
       }},
      {"upsample",
       [=](Build& b) {
         const auto A = b.tensor("A", {4});
         return b.op("Y", {{"x", 7}}, 1, Reducer::None, b.load(A, {floorDiv(v(0), 2)}));
       }},
      {"circular_conv",
       [=](Build& b) {
         const auto A = b.tensor("A", {6}), W = b.tensor("W", {3});
         return b.op("Y", {{"x", 6}, {"r", 3}}, 1, Reducer::Sum,
                     b.mul(b.load(A, {floorMod(v(0) + v(1) - IndexExpr(1), 6)}), b.load(W, {v(1)})));
       }},
      {"cumsum",
       [=](Build& b) {
         const auto A = b.tensor("A", {5});
         return b.op("Y", {{"i", 5}, {"j", 5}}, 1, Reducer::Sum,
                     b.p.select(b.p.condGe0(v(0) - v(1)), b.load(A, {v(1)}), b.number(0)));
       }},
      {"causal_scores",
       [=](Build& b) {
         const auto A = b.tensor("A", {4, 2}), W = b.tensor("W", {4, 2});
         return b.op("Y", {{"i", 4}, {"j", 4}, {"k", 2}}, 2, Reducer::Sum,
                     b.p.select(b.p.condGe0(v(0) - v(1)), b.mul(b.load(A, {v(0), v(2)}), b.load(W, {v(1), v(2)})), b.number(-9)));
       }},
      {"elementwise_max",
       [=](Build& b) {
         const auto A = b.tensor("A", {6});
         return b.op("Y", {{"i", 5}}, 1, Reducer::None,
                     b.p.binary(ScalarOp::Max, b.load(A, {v(0)}), b.load(A, {v(0) + IndexExpr(1)})));
       }},
      {"avgpool_div",
       [=](Build& b) {
         const auto A = b.tensor("A", {6}), W = b.tensor("W", {3});
         return b.op("Y", {{"p", 3}, {"r", 2}}, 1, Reducer::Sum,
                     b.p.binary(ScalarOp::Div, b.load(A, {2 * v(0) + v(1)}), b.load(W, {v(0)})));
       }},
      {"embedding",
       [=](Build& b) {
         const auto A = b.tensor("A", {4, 3}), W = b.tensor("W", {3}), I = b.tensor("I", {5}, TensorKind::Input, DType::I32);
         return b.op("Y", {{"i", 5}, {"j", 3}}, 2, Reducer::None,
                     b.mul(b.p.load(A, {{{}, b.load(I, {v(0)})}, {v(1), {}}}), b.load(W, {v(1)})));
       }},
      {"reflect_pad",
       [=](Build& b) {
         const auto A = b.tensor("A", {5});
         const ExprId right =
             b.p.select(b.p.condGe0(v(0) - IndexExpr(7)), b.load(A, {IndexExpr(10) - v(0)}), b.load(A, {v(0) - IndexExpr(2)}));
         return b.op("Y", {{"x", 9}}, 1, Reducer::None,
                     b.p.select(b.p.condGe0(IndexExpr(1) - v(0)), b.load(A, {IndexExpr(2) - v(0)}), right));
       }},
      {"scatter_add",
       [=](Build& b) {
         const auto A = b.tensor("A", {5, 3}), I = b.tensor("I", {5}, TensorKind::Input, DType::I32);
         const ExprId a = b.load(A, {v(0), v(1)});
         return b.scatter("Y", {{"n", 5}, {"d", 3}}, {4, 3}, {{{}, b.load(I, {v(0)})}, {v(1), {}}}, b.mul(a, a));
       }},
      {"scatter_affine_partly_outside",
       [=](Build& b) {
         const auto A = b.tensor("A", {5});
         return b.scatter("Y", {{"n", 5}}, {3}, {{v(0) - IndexExpr(1), {}}}, b.p.unary(ScalarOp::Sin, b.load(A, {v(0)})));
       }},
      {"data_dependent_select",
       [=](Build& b) {
         const auto A = b.tensor("A", {6}), W = b.tensor("W", {6});
         const ExprId a = b.load(A, {v(0)}), w = b.load(W, {v(0)});
         return b.op("Y", {{"i", 6}}, 1, Reducer::None,
                     b.p.select(b.p.binary(ScalarOp::Lt, b.number(0), a), b.mul(b.p.unary(ScalarOp::Log, a), w), b.mul(a, a)));
       }},
  };
}

std::vector<ExprId> unaryRules(Build& b, TensorId A) {
  std::vector<ExprId> made;
  const ExprId a = b.load(A, {var(0)}), positive = b.add(b.mul(a, a), b.number(0.5));
  for (const ScalarOp op : {ScalarOp::Neg, ScalarOp::Exp, ScalarOp::Tanh, ScalarOp::Sigmoid, ScalarOp::Erf, ScalarOp::Sin,
                            ScalarOp::Cos, ScalarOp::Abs, ScalarOp::Relu, ScalarOp::Floor})
    made.push_back(b.p.unary(op, a));
  for (const ScalarOp op : {ScalarOp::Log, ScalarOp::Sqrt, ScalarOp::Rsqrt}) made.push_back(b.p.unary(op, positive));
  made.push_back(b.p.binary(ScalarOp::Pow, a, b.number(3)));
  made.push_back(b.p.binary(ScalarOp::Pow, positive, b.number(-1.5)));
  made.push_back(b.p.binary(ScalarOp::Pow, b.number(2), a));
  made.push_back(b.p.binary(ScalarOp::Pow, positive, a));
  made.push_back(b.p.binary(ScalarOp::Min, a, b.p.unary(ScalarOp::Sin, a)));
  made.push_back(b.p.cast(DType::F64, a));
  made.push_back(b.p.unary(ScalarOp::Exp, b.p.unary(ScalarOp::Tanh, a)));
  return made;
}

TensorValues inputsWithIndices(const Program& p, std::mt19937_64& rng) {
  TensorValues inputs = test::inputsFor(p, rng);
  if (const TensorId I = p.tensorNamed("I"); I.valid()) inputs[I] = {DType::I32, {5}, {2, 0, 2, 3, 2}};
  return inputs;
}

class GraphOperator : public ::testing::TestWithParam<std::size_t> {};

TEST_P(GraphOperator, FirstAndSecondOrder) {
  const Case c = cases()[GetParam()];
  const std::uint64_t seed = test::testSeed(5);
  SCOPED_TRACE("NF_TEST_SEED=" + std::to_string(seed) + " " + c.name);
  std::mt19937_64 rng(seed);
  Build b;
  const TensorId Y = c.make(b);
  const TensorId dY = b.tensor("dY", b.p[Y].shape);
  const std::vector<Tensor> tensors = b.p.tensors;
  std::vector<TensorId> first;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].kind == TensorKind::Input && isFloating(tensors[t].type) && TensorId(t) != dY)
      first.push_back(b.derivative(Y, TensorId(t), dY));
  Build once = b;
  test::checkAgainstDifferences(once.p, inputsWithIndices(once.p, rng));
  // The derivative of a derivative: G = sum sin(grad(Y, A, dY)), by every input and the seed.
  const TensorId g = first.front();
  Axes axes;
  std::vector<IndexExpr> at;
  for (std::size_t k = 0; k < b.p[g].shape.size(); ++k) {
    axes.emplace_back("z" + std::to_string(k), b.p[g].shape[k]);
    at.push_back(var(static_cast<IndexVar>(k)));
  }
  const TensorId G = b.op("G", axes, 0, Reducer::Sum, b.p.unary(ScalarOp::Sin, b.load(g, at)));
  b.p.derivatives.resize(1);
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].kind == TensorKind::Input && isFloating(tensors[t].type)) b.derivative(G, TensorId(t));
  for (std::size_t t = tensors.size(); t < b.p.tensors.size(); ++t) {
    const bool used =
        std::any_of(b.p.derivatives.begin(), b.p.derivatives.end(), [&](const Derivative& d) { return d.result == TensorId(t); });
    if (!used && TensorId(t) != G) b.p.tensors[t].kind = TensorKind::Const;  // the other first derivatives are not asked for now
  }
  test::checkAgainstDifferences(b.p, inputsWithIndices(b.p, rng), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(All, GraphOperator, ::testing::Range<std::size_t>(0, cases().size()),
                         [](const ::testing::TestParamInfo<std::size_t>& i) { return cases()[i.param].name; });

TEST(GraphRules, EveryScalarFunction) {
  Build probe;
  const std::size_t count = unaryRules(probe, probe.tensor("A", {6})).size();
  for (std::size_t k = 0; k < count; ++k) {
    SCOPED_TRACE("rule " + std::to_string(k));
    std::mt19937_64 rng(test::testSeed(11));
    Build b;
    const TensorId A = b.tensor("A", {6});
    const ExprId body = unaryRules(b, A)[k];
    const TensorId Y = b.op("Y", {{"i", 6}}, 1, Reducer::None, body, b.p[body].type);
    const TensorId dY = b.tensor("dY", {6});
    b.derivative(Y, A, dY);
    test::checkAgainstDifferences(b.p, test::inputsFor(b.p, rng));
  }
}

// The derived operators of 23 operators, by every input, as text.
TEST(GraphOperators, GoldenGradients) {
  constexpr const char* kNames[] = {"matmul",
                                    "conv2d_s2_d2_pad2_groups2",
                                    "transposed_conv",
                                    "depthwise",
                                    "capsule_conv",
                                    "depth2space_times_2",
                                    "concat_select",
                                    "A_i_A_j",
                                    "A_i_A_i_plus_flip",
                                    "gram",
                                    "diagonal",
                                    "A_i_plus_j",
                                    "maxpool_k3_s2",
                                    "min_over_product",
                                    "prod_reduce",
                                    "upsample",
                                    "circular_conv",
                                    "cumsum",
                                    "causal_scores",
                                    "elementwise_max",
                                    "avgpool_div",
                                    "embedding",
                                    "reflect_pad"};
  std::string text;
  const std::vector<Case> all = cases();
  for (const char* name : kNames) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Case& c) { return c.name == name; });
    ASSERT_NE(found, all.end()) << name;
    Build b;
    const TensorId Y = found->make(b);
    const std::size_t tensors = b.p.tensors.size();
    const TensorId dY = b.tensor("dY", b.p[Y].shape);
    for (std::size_t t = 0; t < tensors; ++t)
      if (b.p.tensors[t].kind == TensorKind::Input && isFloating(b.p.tensors[t].type)) b.derivative(Y, TensorId(t), dY);
    const std::size_t forward = b.p.operators.size();
    const Program p = test::differentiated(b.p);
    text += std::string(name) + "\n";
    for (std::size_t o = 0; o < p.operators.size(); ++o)
      if (o >= forward || p.operators[o].phase == Phase::Backward) text += "  " + toText(p, OperatorId(o)) + "\n";
  }
  testing::expectGolden("autodiff/operator_gradients.golden", text);
}

double sum(const std::vector<double>& v) {
  double s = 0;
  for (const double x : v) s += x;
  return s;
}

TEST(GraphRules, TiesConserveTheSum) {
  for (const bool even : {false, true}) {
    for (const bool square : {false, true}) {
      Build b;
      const auto A = b.tensor("A", {7, 7});
      const ExprId a = b.load(A, {2 * var(0) + var(2), 2 * var(1) + var(3)});
      const auto Y = b.op("Y", {{"p", 3}, {"q", 3}, {"r", 3}, {"s", 3}}, 2, Reducer::Max, square ? b.mul(a, a) : a);
      b.p.operators[0].tiesEven = even;
      const auto dY = b.tensor("dY", {3, 3});
      const auto g = b.derivative(Y, A, dY);
      std::mt19937_64 rng(3);
      TensorValues inputs = test::inputsFor(b.p, rng);
      inputs[A].values.assign(49, 1.0);
      const Program p = test::differentiated(b.p);
      const auto got = test::values(p, inputs, {g});
      EXPECT_NEAR(sum(got.at(g).values), (square ? 2 : 1) * sum(inputs[dY].values), 1e-12);
      const auto nonzero = std::count_if(got.at(g).values.begin(), got.at(g).values.end(), [](double v) { return v != 0; });
      EXPECT_EQ(nonzero, even ? 49 : 9);
    }
  }
}

// Casts between floating types pass the gradient on, those to whole numbers and to conditions stop it.
TEST(GraphRules, CastsPassOrStop) {
  Build b;
  const auto A = b.tensor("A", {3}), H = b.tensor("H", {3}, TensorKind::Input, DType::F16),
             D = b.tensor("D", {3}, TensorKind::Input, DType::F64);
  const ExprId a = b.load(A, {var(0)});
  const auto to = [&](DType type, ExprId e) { return b.p.cast(type, e); };
  // a * double(a) in double, h in single, and the whole part of a, which has no slope: d/dA = 2*a + int(a).
  const ExprId body = b.add(b.mul(to(DType::F64, a), to(DType::F64, a)),
                            b.mul(b.load(D, {var(0)}), to(DType::F64, to(DType::F32, b.load(H, {var(0)})))));
  const ExprId whole = b.mul(to(DType::F64, to(DType::I32, a)), to(DType::F64, a));
  const auto Y = b.op("Y", {{"i", 3}}, 0, Reducer::Sum, b.add(body, whole), DType::F64);
  const auto dA = b.derivative(Y, A), dH = b.derivative(Y, H), dD = b.derivative(Y, D);
  const auto result = differentiate(b.p);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->diagnostics.empty());
  const Program& p = result->program;
  EXPECT_TRUE(verify(p, Stage::Differentiated).empty());
  EXPECT_EQ(p[dA].type, DType::F32);
  EXPECT_EQ(p[dH].type, DType::F16);
  EXPECT_EQ(p[dD].type, DType::F64);
  const auto got = test::values(
      p, {{A, {DType::F32, {3}, {-2.5, 0.25, 3.75}}}, {H, {DType::F16, {3}, {1, 2, 3}}}, {D, {DType::F64, {3}, {10, 20, 30}}}},
      {dA, dH, dD});
  EXPECT_EQ(got.at(dA).values, (std::vector<double>{-5 - 2, 0.5 + 0, 7.5 + 3}));
  EXPECT_EQ(got.at(dH).values, (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(got.at(dD).values, (std::vector<double>{1, 2, 3}));
  const auto stopped = std::count_if(result->terms.begin(), result->terms.end(), [](const GradientTerm& t) {
    return t.form == GradientTerm::Form::Zero && t.why == "a cast to whole numbers has slope 0";
  });
  EXPECT_EQ(stopped, 1);
}

// The library's softmax stops at the maximum it subtracts: no argmax, no adjoint of it, and the same gradient as the softmax that
// passes through it, ties and large values included.
TEST(GraphRules, SoftmaxStopsAtItsMaximum) {
  const auto program = [](const std::string& softmax) {
    const CompiledNotebook notebook = compileNotebook(
        {"test.nf",
         {},
         "input X[3, 5] = zeros()\ninput T[3, 5] = zeros()\n" + softmax + "loss L = sum[i,k] Y[i,k]*T[i,k]\nshow d(L)/d(X)\n"});
    EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
    return test::differentiated(notebook.program);
  };
  const Program stopped = program("Y = softmax(X)\n"),
                through =
                    program("M[i] = max[k] X[i,k]\nE[i,k] = exp(X[i,k] - M[i])\nS[i] = sum[k] E[i,k]\nY[i,k] = E[i,k]/S[i]\n");
  const auto saysArgmax = [](const Program& p) {
    return std::any_of(p.operators.begin(), p.operators.end(), [](const Operator& op) { return op.reducer == Reducer::ArgMax; });
  };
  EXPECT_FALSE(saysArgmax(stopped));
  EXPECT_TRUE(saysArgmax(through));
  EXPECT_LT(stopped.operators.size(), through.operators.size());
  std::mt19937_64 rng(9);
  std::vector<double> x, t;
  for (int i = 0; i < 15; ++i) {
    x.push_back(i < 5 ? 2.0 : i < 10 ? 100.0 * static_cast<double>(rng() % 3) : static_cast<double>(rng() % 1000) / 500);
    t.push_back(static_cast<double>(rng() % 1000) / 500 - 1);
  }
  const auto gradient = [&](const Program& p) {
    const TensorId g = p.tensorNamed("d(L)/d(X)");
    return test::values(p, {{p.tensorNamed("X"), {DType::F32, {3, 5}, x}}, {p.tensorNamed("T"), {DType::F32, {3, 5}, t}}}, {g})
        .at(g)
        .values;
  };
  const auto one = gradient(stopped), other = gradient(through);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-15) << i;
}

// Which of several equal elements gets the gradient, for both reducers and rules.
TEST(GraphRules, TiesOfMaximumAndMinimum) {
  for (const Reducer reducer : {Reducer::Max, Reducer::Min})
    for (const bool even : {false, true}) {
      Build b;
      const auto A = b.tensor("A", {2, 2, 2});
      const auto Y = b.op("Y", {{"i", 2}, {"r", 2}, {"s", 2}}, 1, reducer, b.load(A, {var(0), var(1), var(2)}));
      b.p.operators[0].tiesEven = even;
      const auto dY = b.tensor("dY", {2});
      const auto g = b.derivative(Y, A, dY);
      const double best = reducer == Reducer::Max ? 3 : -3;
      const auto got = test::values(
          test::differentiated(b.p),
          {{A, {DType::F32, {2, 2, 2}, {0, best, best, best, best, 0, 1, best}}}, {dY, {DType::F32, {2}, {6, 8}}}}, {g});
      EXPECT_EQ(got.at(g).values,
                (even ? std::vector<double>{0, 2, 2, 2, 4, 0, 0, 4} : std::vector<double>{0, 6, 0, 0, 8, 0, 0, 0}));
    }
}

// Of two operands the second one has the gradient of a tie, so that max(x, 0) has relu's slope 0 at 0.
TEST(GraphRules, TiesOfTwoOperandsGoToTheSecond) {
  for (const ScalarOp op : {ScalarOp::Max, ScalarOp::Min}) {
    Build b;
    const auto A = b.tensor("A", {3}), B = b.tensor("B", {3});
    const auto Y = b.op("Y", {{"i", 3}}, 1, Reducer::None, b.p.binary(op, b.load(A, {var(0)}), b.load(B, {var(0)})));
    const auto Z = b.op("Z", {{"i", 3}}, 1, Reducer::None, b.p.binary(op, b.load(A, {var(0)}), b.number(0)));
    const auto dY = b.tensor("dY", {3});
    const auto dA = b.derivative(Y, A, dY), dB = b.derivative(Y, B, dY), dZ = b.derivative(Z, A, dY);
    const double way = op == ScalarOp::Max ? 1 : -1;
    const auto got = test::values(
        test::differentiated(b.p),
        {{A, {DType::F32, {3}, {0, way, -way}}}, {B, {DType::F32, {3}, {0, 0, 0}}}, {dY, {DType::F32, {3}, {5, 6, 7}}}},
        {dA, dB, dZ});
    EXPECT_EQ(got.at(dA).values, (std::vector<double>{0, 6, 0}));
    EXPECT_EQ(got.at(dB).values, (std::vector<double>{5, 0, 7}));
    EXPECT_EQ(got.at(dZ).values, (std::vector<double>{0, 6, 0}));
  }
}

TEST(GraphRules, ProductWithZeros) {
  Build b;
  const auto A = b.tensor("A", {3, 4});
  const auto Y = b.op("Y", {{"i", 3}, {"k", 4}}, 1, Reducer::Prod, b.load(A, {var(0), var(1)}));
  const auto dY = b.tensor("dY", {3});
  b.derivative(Y, A, dY);
  std::mt19937_64 rng(4);
  TensorValues inputs = test::inputsFor(b.p, rng);
  inputs[A].values[1] = inputs[A].values[4] = inputs[A].values[6] = 0;
  test::checkAgainstDifferences(b.p, inputs);
}

// Where two factors are 0 the product's first derivative is 0 and its second is not.
TEST(GraphRules, SecondDerivativeOfAProductWithTwoZeros) {
  Build b;
  const auto A = b.tensor("A", {3, 4});
  const auto Y = b.op("Y", {{"i", 3}, {"j", 2}, {"k", 2}}, 1, Reducer::Prod, b.load(A, {var(0), 2 * var(1) + var(2)}));
  const auto dY = b.tensor("dY", {3});
  const auto g = b.derivative(Y, A, dY);
  const auto G =
      b.op("G", {{"i", 3}, {"k", 4}}, 0, Reducer::Sum, b.p.unary(ScalarOp::Sin, b.add(b.load(g, {var(0), var(1)}), b.number(0.5))));
  b.derivative(G, A);
  b.derivative(G, dY);
  std::mt19937_64 rng(4);
  TensorValues inputs = test::inputsFor(b.p, rng);
  inputs[A].values[1] = inputs[A].values[2] = inputs[A].values[5] = 0;  // two in the first product, one in the second
  test::checkAgainstDifferences(b.p, inputs, 1e-5);
  const Program p = test::differentiated(b.p);
  const auto got = test::values(p, inputs, {b.p.derivatives[1].result}).at(b.p.derivatives[1].result).values;
  EXPECT_GT(std::fabs(got[1]), 1e-3);  // not flat
}

// d/dA select(A > 0, log(A), 0): log of the dead branch must not leak, neither value nor slope.
TEST(GraphRules, DeadBranchesGiveNoNan) {
  Build b;
  const auto A = b.tensor("A", {3});
  const ExprId a = b.load(A, {var(0)});
  const ExprId root = b.p.unary(ScalarOp::Sqrt, a);
  const auto Y = b.op("Y", {{"i", 3}}, 1, Reducer::None,
                      b.p.select(b.p.binary(ScalarOp::Lt, b.number(0), a), b.mul(root, b.p.unary(ScalarOp::Log, a)), b.number(0)));
  const auto dY = b.tensor("dY", {3});
  const auto g = b.derivative(Y, A, dY);
  const Program p = test::differentiated(b.p);
  const auto got = test::values(p, {{A, {DType::F32, {3}, {-2, 0, 1}}}, {dY, {DType::F32, {3}, {1, 1, 1}}}}, {g});
  EXPECT_EQ(got.at(g).values, (std::vector<double>{0, 0, 1}));
}

// An element that the path leaves out is never multiplied: 0 times infinity would be NaN.
TEST(GraphRules, WhatThePathLeavesOutIsNotMultiplied) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Build b;
  const auto A = b.tensor("A", {4}), W = b.tensor("W", {4});
  const auto Y = b.op("Y", {{"i", 4}}, 1, Reducer::None,
                      b.p.select(b.p.condGe0(IndexExpr(1) - var(0)), b.mul(b.load(A, {var(0)}), b.load(W, {var(0)})), b.number(0)));
  const auto dY = b.tensor("dY", {4});
  const auto g = b.derivative(Y, A, dY);
  // A strided read: elements between the read ones have an empty fibre.
  const auto S = b.op("S", {{"i", 2}}, 1, Reducer::None, b.mul(b.load(A, {2 * var(0)}), b.load(W, {2 * var(0)})));
  const auto dS = b.tensor("dS", {2});
  const auto s = b.derivative(S, A, dS);
  const Program p = test::differentiated(b.p);
  const auto got = test::values(p,
                                {{A, {DType::F32, {4}, {1, 2, nan, inf}}},
                                 {W, {DType::F32, {4}, {3, 4, inf, nan}}},
                                 {dY, {DType::F32, {4}, {1, 1, inf, nan}}},
                                 {dS, {DType::F32, {2}, {2, 0.5}}}},
                                {g, s});
  EXPECT_EQ(got.at(g).values, (std::vector<double>{3, 4, 0, 0}));
  EXPECT_EQ(got.at(s).values, (std::vector<double>{6, 0, inf, 0}));
}

// Where a NaN is among the elements the gradient goes to the one that the forward pass took.
TEST(GraphRules, MaximumOfNanGivesToTheForwardsChoice) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Build b;
  const auto A = b.tensor("A", {3, 3});
  const ExprId a = b.load(A, {var(0), var(1)});
  const auto Y = b.op("Y", {{"i", 3}, {"k", 3}}, 1, Reducer::Max, a);
  const auto I = b.op("I", {{"i", 3}, {"k", 3}}, 1, Reducer::ArgMax, a, DType::I32);
  const auto dY = b.tensor("dY", {3});
  const auto g = b.derivative(Y, A, dY);
  const Program p = test::differentiated(b.p);
  const auto got =
      test::values(p, {{A, {DType::F32, {3, 3}, {1, nan, 3, nan, 1, 2, 2, 1, nan}}}, {dY, {DType::F32, {3}, {5, 6, 7}}}}, {g, I});
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) EXPECT_EQ(got.at(g).values[3 * i + k], got.at(I).values[i] == k ? 5 + i : 0) << i << ", " << k;
}

TEST(GraphRules, StopGradientCutsAndReluIsFlatAtZero) {
  Build b;
  const auto A = b.tensor("A", {3});
  const ExprId a = b.load(A, {var(0)});
  const auto Y =
      b.op("Y", {{"i", 3}}, 0, Reducer::Sum, b.add(b.p.unary(ScalarOp::Relu, a), b.mul(a, b.p.unary(ScalarOp::StopGradient, a))));
  const auto g = b.derivative(Y, A);
  const auto M = b.op("M", {{"i", 3}}, 0, Reducer::Sum, b.p.binary(ScalarOp::Max, a, b.number(0)));
  const auto m = b.derivative(M, A);
  const Program p = test::differentiated(b.p);
  const auto got = test::values(p, {{A, {DType::F32, {3}, {-2, 0, 3}}}}, {g, m});
  EXPECT_EQ(got.at(g).values, (std::vector<double>{-2, 0, 4}));
  EXPECT_EQ(got.at(m).values, (std::vector<double>{0, 0, 1}));
}

}  // namespace
}  // namespace nf
