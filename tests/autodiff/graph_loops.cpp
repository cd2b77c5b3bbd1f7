// SPDX-License-Identifier: Apache-2.0
// Gradients of Loops against central differences.
#include "tests/autodiff/graph_check.h"
#include "tests/build_loop.h"

namespace nf {
namespace {

using test::Build;
using test::BuildLoop;
using test::var;

void checkAll(Build& b, TensorId loss, double tolerance = 1e-6) {
  const std::size_t count = b.p.tensors.size();
  for (std::size_t t = 0; t < count; ++t)
    if (b.p.tensors[t].kind != TensorKind::Intermediate && isFloating(b.p.tensors[t].type)) b.derivative(loss, TensorId(t));
  ASSERT_TRUE(verify(b.p, Stage::Source).empty()) << verify(b.p, Stage::Source).front();
  std::mt19937_64 rng(test::testSeed(9));
  test::checkAgainstDifferences(b.p, test::inputsFor(b.p, rng), tolerance);
}

TEST(GraphLoop, RecurrentNet) {
  for (const bool reversed : {false, true})
    for (const std::int64_t trips : {1, 2, 5}) {
      SCOPED_TRACE("trips " + std::to_string(trips));
      Build b;
      checkAll(b, test::recurrentNet(b, trips, reversed));
    }
}

// Gradients of weights leave the loop: one contraction over time and batch, no operator of the reversed body is as large as W.
TEST(GraphLoop, WeightGradientsAreContractionsOverTime) {
  Build b;
  const TensorId L = test::recurrentNet(b, 5, false);
  const TensorId dW = b.derivative(L, b.p.tensorNamed("W"));
  const Program p = test::differentiated(b.p);
  const auto made = producers(p)[dW.value];
  ASSERT_TRUE(made.valid());
  EXPECT_EQ(p[made].kind, OperatorKind::Gather);
  EXPECT_EQ(p[made].reducer, Reducer::Sum);
  ASSERT_EQ(p[made].axes.size(), 4u);
  EXPECT_EQ(p[made].axes[2].name, "t");
  EXPECT_EQ(p[made].axes[3].name, "b");
  for (const Loop& loop : p.loops) EXPECT_TRUE(loop.accumulated.empty() || !loop.reversed);
}

// Every access inside a loop's body has its term, in the body of the forward loop and of the one that runs back.
void checkTerms(const DifferentiateResult& result, std::size_t atLeast) {
  std::size_t inside = 0;
  for (const GradientTerm& term : result.terms) {
    if (!term.backward.valid()) continue;
    const Program& forward = bodyAt(result.program, term.forwardLoops);
    const Program& backward = bodyAt(result.program, term.backwardLoops);
    ASSERT_LT(term.backward.value, backward.operators.size());
    EXPECT_EQ(backward[term.backward].phase, Phase::Backward);
    EXPECT_NE(backward[term.backward].kind, OperatorKind::Loop);
    if (!term.access.valid() || term.forwardLoops.empty()) continue;
    ++inside;
    EXPECT_EQ(forward[forward[term.access].access].tensor, term.tensor);
    if (forward[term.forward].kind == OperatorKind::Loop) continue;  // an inner loop's operator with time as an axis
    const auto nodes = nodesOf(forward, forward[term.forward].body);
    EXPECT_NE(std::find(nodes.begin(), nodes.end(), term.access), nodes.end()) << forward[term.forward].name;
    const std::string wanted = ")/d(" + forward[term.tensor].name + ")";
    EXPECT_NE(backward[backward[term.backward].output].name.find(wanted), std::string::npos)
        << backward[backward[term.backward].output].name << " for " << wanted;
  }
  EXPECT_GE(inside, atLeast);
}

TEST(GraphLoop, TermsInsideBodies) {
  for (const bool reversed : {false, true}) {
    Build b;
    const TensorId L = test::recurrentNet(b, 5, reversed);
    b.derivative(L, b.p.tensorNamed("h"));
    const auto result = differentiate(b.p);
    ASSERT_TRUE(result.ok());
    checkTerms(*result, 2);
  }
}

TEST(GraphLoop, SecondOrder) {
  Build b;
  const TensorId L = test::recurrentNet(b, 3, false);
  const TensorId g = b.derivative(L, b.p.tensorNamed("U"));
  const TensorId G = test::squareSum(b, "G", g);
  for (const char* name : {"W", "U", "h", "X"}) b.derivative(G, b.p.tensorNamed(name));
  b.p.derivatives.erase(b.p.derivatives.begin());
  b.p.derivatives.push_back({L, b.p.tensorNamed("U"), g, {}, {}});
  std::mt19937_64 rng(test::testSeed(21));
  test::checkAgainstDifferences(b.p, test::inputsFor(b.p, rng), 3e-5);
}

// The counter in guards, in an access of the carried tensor, and as a value.
TEST(GraphLoop, CounterInGuardsAccessesAndValues) {
  Build b;
  const auto h0 = b.tensor("h", {4}), A = b.tensor("A", {5});
  BuildLoop l(b, 3);
  const auto a = l.invariant(A);
  const auto h = l.carried(h0);
  Build& s = l.body;
  const ExprId rolled = s.load(h, {floorMod(var(0) + l.counter(), 4)});
  const ExprId picked =
      s.p.select(s.p.condGe0(var(0) - l.counter()), s.load(h, {var(0) - l.counter()}), s.load(a, {l.counter() + IndexExpr(2)}));
  const auto next =
      s.op("next", {{"i", 4}}, 1, Reducer::None,
           s.add(s.p.unary(ScalarOp::Sin, rolled), s.mul(picked, s.p.indexValue(l.counter() + IndexExpr(1), DType::F32))));
  const auto last = l.carry(h0, h, next);
  l.close();
  checkAll(b, test::squareSum(b, "L", last));
}

// x never changes, y is overwritten and never read, (p, q) <- (q, p*q) swap places, w becomes an invariant.
TEST(GraphLoop, OddCarriedTensors) {
  Build b;
  const auto x0 = b.tensor("x", {}), y0 = b.tensor("y", {}), p0 = b.tensor("p", {}), q0 = b.tensor("q", {}), w0 = b.tensor("w", {}),
             C = b.tensor("C", {});
  BuildLoop l(b, 4);
  const auto c = l.invariant(C);
  const auto x = l.carried(x0), y = l.carried(y0), p = l.carried(p0), q = l.carried(q0), w = l.carried(w0);
  Build& s = l.body;
  const auto yNext = s.op("y_next", {}, 0, Reducer::None, s.mul(s.load(x, {}), s.load(p, {})));
  const auto qNext =
      s.op("q_next", {}, 0, Reducer::None,
           s.add(s.mul(s.load(p, {}), s.load(q, {})), s.mul(s.load(w, {}), s.p.indexValue(l.counter(), DType::F32))));
  std::vector<TensorId> parts;
  const auto xl = l.carry(x0, x, x), yl = l.carry(y0, y, yNext), pl = l.carry(p0, p, q), ql = l.carry(q0, q, qNext),
             wl = l.carry(w0, w, c);
  const auto before = l.stack(p);
  l.close();
  int n = 0;
  for (const TensorId t : {xl, yl, pl, ql, wl, before}) parts.push_back(test::squareSum(b, "S" + std::to_string(n++), t));
  checkAll(b, test::plus(b, "L", parts), 1e-5);
}

TEST(GraphLoop, UnusedLoopAndIndependentInput) {
  Build b;
  const auto h0 = b.tensor("h", {2}), A = b.tensor("A", {2}), Z = b.tensor("Z", {3});
  BuildLoop l(b, 2);
  const auto h = l.carried(h0);
  const auto next = l.body.op("next", {{"i", 2}}, 1, Reducer::None, l.body.p.unary(ScalarOp::Sin, l.body.load(h, {var(0)})));
  l.carry(h0, h, next);
  l.close();
  const TensorId L = test::squareSum(b, "L", A);
  const TensorId dh = b.derivative(L, h0), dZ = b.derivative(L, Z);
  const Program p = test::differentiated(b.p);
  std::mt19937_64 rng(1);
  const auto got = test::values(p, test::inputsFor(p, rng), {dh, dZ});
  EXPECT_EQ(got.at(dh).values, (std::vector<double>{0, 0}));
  EXPECT_EQ(got.at(dZ).values, (std::vector<double>{0, 0, 0}));
}

// for t { for u { g <- tanh(V[t,u] * g + K * h) ; } h <- h + g }: weights read inside both loops, slices by both counters.
TEST(GraphLoop, LoopInALoop) {
  for (const bool reversed : {false, true}) {
    Build b;
    const std::int64_t T = 3, S = 2, N = 2;
    const auto V = b.tensor("V", {T, S, N}), K = b.tensor("K", {N, N}), h0 = b.tensor("h", {N});
    BuildLoop outer(b, T);
    const auto v = outer.invariant(V), k = outer.invariant(K);
    const auto h = outer.carried(h0);
    Build& o = outer.body;
    const auto g0 = o.op("g", {{"n", N}}, 1, Reducer::None, o.mul(o.number(0.5), o.load(h, {var(0)})));
    BuildLoop inner(o, S, 1, reversed);
    const auto vi = inner.invariant(v), ki = inner.invariant(k), hi = inner.invariant(h);
    const auto g = inner.carried(g0);
    Build& s = inner.body;
    const auto kh = s.op("kh", {{"n", N}, {"m", N}}, 1, Reducer::Sum, s.mul(s.load(ki, {var(0), var(1)}), s.load(hi, {var(1)})));
    const auto gNext = s.op(
        "g_next", {{"n", N}}, 1, Reducer::None,
        s.p.unary(ScalarOp::Tanh,
                  s.add(s.mul(s.load(vi, {outer.counter(), inner.counter(), var(0)}), s.load(g, {var(0)})), s.load(kh, {var(0)}))));
    const auto gLast = inner.carry(g0, g, gNext), gAll = inner.stack(gNext);
    inner.close("inner");
    const auto hNext = o.op("h_next", {{"n", N}, {"u", S}}, 1, Reducer::Sum,
                            o.add(o.add(o.load(h, {var(0)}), o.load(gLast, {var(0)})), o.load(gAll, {var(1), var(0)})));
    const auto last = outer.carry(h0, h, hNext);
    outer.close("outer");
    checkAll(b, test::squareSum(b, "L", last), 1e-5);
    const auto result = differentiate(b.p);
    ASSERT_TRUE(result.ok());
    checkTerms(*result, 5);
    EXPECT_TRUE(std::any_of(result->terms.begin(), result->terms.end(),
                            [](const GradientTerm& t) { return t.forwardLoops.size() == 2 && t.backwardLoops.size() == 2; }));
  }
}

}  // namespace
}  // namespace nf
