// SPDX-License-Identifier: Apache-2.0
#include "core/lang/compile.h"
#include "core/ir/structural_hash.h"
#include "core/ir/work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/verify.h"

namespace nf {
namespace {

CompiledNotebook compiled(const std::string& text, const CompileOptions& options = {}) {
  return compileNotebook({"test.nf", {}, text}, options);
}

std::vector<std::string> mistakes(const std::string& text) {
  std::vector<std::string> codes;
  for (const Diagnostic& d : compiled(text).diagnostics)
    if (d.severity == Severity::Error) codes.push_back(d.code);
  return codes;
}

CompiledNotebook clean(const std::string& text, const CompileOptions& options = {}) {
  CompiledNotebook c = compiled(text, options);
  EXPECT_EQ(render(c.diagnostics, c.sources), "");
  for (const std::string& problem : verify(c.program, Stage::Source)) ADD_FAILURE() << problem;
  return c;
}

// What follows from a mistake is not told again.
TEST(Compile, AMistakeAboveALoopIsToldOnce) {
  EXPECT_EQ(mistakes("input X[3, 2] = 1\nconst h[Q] = 0.5\nfor t in 0..3 {\n  h = h + X[t, _]\n}\nY[i] = h[i]\nshow Y\n").size(),
            1u);
  EXPECT_EQ(mistakes("input X[3, 2] = 1\nG[i] = Q[i]\nfor t in 0..3 {\n  stack Hs = G\n}\nY[i] = Hs[0, i]\nshow Y\n").size(), 1u);
  EXPECT_EQ(mistakes("input X[3, 2] = 1\nfor t in 0..3 {\n  y = X[t, _]\n}\n"), std::vector<std::string>{"no-effect"});
}

TEST(Compile, AMistakeInAFunctionIsToldOnceForAllItsCalls) {
  const auto c = compiled(
      "input X[3] = 1\ndef act(a[I]) -> R {\n  R[i] = a[ii] * 2\n}\ndef odd(a[I]) -> R {\n  R[i: I] = a[i + 1]\n}\n"
      "P = act(X)\nQ = act(X)\nS = odd(X)\nT = odd(X)\n");
  std::vector<std::pair<std::string, std::size_t>> told;  // codes, and how many calls each names
  for (const Diagnostic& d : c.diagnostics)
    told.emplace_back(d.code, std::ranges::count_if(d.notes, [](const auto& n) {
                        return n.message.ends_with("this call of `act`") || n.message.ends_with("this call of `odd`");
                      }));
  EXPECT_EQ(told, (std::vector<std::pair<std::string, std::size_t>>{{"undefined-name", 2}, {"index-out-of-bounds", 2}}))
      << render(c.diagnostics, c.sources);
}

TEST(Compile, AMistakeInALoopIsToldAlone) {
  using Codes = std::vector<std::string>;
  EXPECT_EQ(mistakes("input X[4] = 1\na = X\nfor t in 0..3 {\n  a[i] = a[i - 1] else -1\n}\nshow a\n"), Codes{"else-atom"});
  EXPECT_EQ(mistakes("input X[4] = 1\na = X\nfor t in 0..3 {\n  if 1 == 1 {\n    a[i] = a[i - 1] else -1\n  }\n}\nshow a\n"),
            Codes{"else-atom"});
  EXPECT_EQ(mistakes("input X[4] = 1\nfor t in 0..3 {\n  stack H = X + )\n}\nshow H\n").size(), 1u);
}

TEST(Compile, ALossThatIsNoNumberIsToldOnce) {
  EXPECT_EQ(mistakes("param W[3] = 1\nloss L = W\ntrain L { steps = 3 }\n"), std::vector<std::string>{"not-scalar"});
  EXPECT_EQ(mistakes("param W[3] = 1\nloss W\ntrain W { steps = 3 }\n"), std::vector<std::string>{"not-scalar"});
  EXPECT_EQ(mistakes("param W[3] = 1\ntrain W { steps = 3 }\n"), std::vector<std::string>{"not-scalar"});
}

TEST(Compile, CapsuleConvolution) {
  const auto c = clean(R"(# %% [markdown]
# # Capsule convolution

# %%
let B = 1, C = 8, K = 32, H = 28, R = 3

input A[B, C, 2*H+1, 2*H+1, 4, 4] = normal(0, 1)
param W[K, C, R, R, 4, 4]         = normal(0, 0.05)

Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]

# %%
loss L = mean[b,k,p,q,i,j] (Y[b,k,p,q,i,j] - 1)^2

# %%
show d(L)/d(W), d(L)/d(A)
)");
  const Program& p = c.program;
  const Tensor& y = p[p.tensorNamed("Y")];
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{1, 32, 28, 28, 4, 4}));
  ASSERT_EQ(p.operators.size(), 2u);
  EXPECT_EQ(p.operators[0].axes.size(), 10u);
  EXPECT_EQ(p.operators[1].reducer, Reducer::Sum);
  ASSERT_EQ(p.derivatives.size(), 2u);
  EXPECT_EQ(p[p.derivatives[0].result].name, "d(L)/d(W)");
  EXPECT_EQ(p.outputs.size(), 3u);
  EXPECT_EQ(c.cells.size(), 4u);
}

TEST(Compile, AChainOfConditionsEndsWithItsLine) {
  const auto c = clean("input X[3]\nif 1 == 2 {\n A = X\n} else if 1 == 1 {\n A = X * 2\n}\nC = X + 1\nshow A, C\n");
  EXPECT_TRUE(c.program.tensorNamed("C").valid());
}

// A sum in single precision has 24 bits for what the terms of the mean have 31 of.
TEST(Compile, TheMeanOfWholeNumbersIsAddedUpInDoublePrecision) {
  for (const char* text : {"input c[10] : i32\nM = mean[i] c[i]\n", "input c[10] : i32\nM = mean[i] (c[i] - 1)\n",
                           "input c[10] : i32\nM : f64 = mean[i] c[i]\n"}) {
    const auto c = clean(text);
    ASSERT_EQ(c.program.operators.size(), 1u);
    const Operator& op = c.program.operators[0];
    EXPECT_EQ(c.program[op.body].type, DType::F64) << text;
    EXPECT_EQ(c.program[op.output].type, std::string(text).find("f64") != std::string::npos ? DType::F64 : DType::F32) << text;
  }
}

TEST(Compile, NestedReductionsBecomeOperators) {
  const auto c = clean("input X[4, 9]\nP[i,j] = exp(X[i,j] - max[k] X[i,k])\nY[i,j] = P[i,j] / sum[k] P[i,k]\n");
  EXPECT_EQ(c.program.operators.size(), 4u);
  EXPECT_TRUE(c.program.tensorNamed("P.max").valid());
}

TEST(Compile, ElsePadsOnlyWhereItCanLeave) {
  const auto c = clean("input X[5]\nY[i: 5] = X[i - 1] else 0\n");
  const Program& p = c.program;
  const ScalarNode& root = p[p.operators[0].body];
  ASSERT_EQ(root.op, ScalarOp::Select);
  EXPECT_EQ(p[root.operands[0]].op, ScalarOp::IndexGe0);
}

TEST(Compile, WholeTensorsAndFunctions) {
  const auto c = clean(R"(
def linear(X[N, I], O) -> Y {
  param W[O, I] = kaiming()
  param b[O] = zeros()
  Y[n, o] = b[o] + sum[i] X[n, i] * W[o, i]
}
def scaled(x; by = 2) = x * by
input X[4, 8]
H = relu(linear(X, 16))
Z = linear(H, 3) + 1
V = scaled(Z, by=3)
)");
  const Program& p = c.program;
  EXPECT_TRUE(p.tensorNamed("H.linear.W").valid());
  EXPECT_EQ(p[p.tensorNamed("H.linear.W")].init.numbers, (std::vector<double>{8, 16}));
  EXPECT_EQ(p[p.tensorNamed("V")].shape, (std::vector<std::int64_t>{4, 3}));
}

TEST(Compile, TrainMakesDerivativesAndUpdates) {
  const std::string text = R"(
def sgd(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }
input X[4, 8]
param W[3, 8] = normal(0, 1)
Y[n, o] = sum[i] X[n, i] * W[o, i]
loss L = mean[n, o] Y[n, o]^2
eval worst = max[n, o] Y[n, o]
train L { steps = 10; optimizer = sgd(lr=0.1); clip = 1 }
)";
  const auto c = clean(text);
  EXPECT_EQ(c.program.updates.size(), 1u);
  EXPECT_EQ(c.program.derivatives.size(), 1u);
  ASSERT_EQ(c.trains.size(), 1u);
  EXPECT_EQ(c.trains[0].steps, 10);
  CompileOptions evaluation;
  evaluation.training = false;
  EXPECT_TRUE(clean(text, evaluation).program.updates.empty());
}

// The norm that gradients are clipped by is as exact as they are.
TEST(Compile, GradientsAreClippedInTheirOwnType) {
  for (const DType type : {DType::F32, DType::F64}) {
    const auto c = clean("param W[3]: " + std::string(name(type)) +
                         " = normal(0, 1)\nparam V[3] = zeros()\nloss L = sum[i] ((W[i] - 3)^2 + V[i]^2)\n"
                         "train L { steps = 10; optimizer = sgd(lr=0.1); clip = 1 }\n");
    const TensorId scale = c.program.tensorNamed("gradient.scale");
    ASSERT_TRUE(scale.valid());
    EXPECT_EQ(c.program[scale].type, type);
    EXPECT_EQ(c.program[c.program.tensorNamed("d(L)/d(V).clipped")].type, DType::F32);
  }
}

// Each `train` is a job: its program has its own optimizer and nothing of the others.
TEST(Compile, SeveralTrainStatementsMayTrainOneParameter) {
  const std::string text = R"(
input X[4, 8]
param W[3, 8] = normal(0, 1)
param V[3] = zeros()
Y[n, o] = V[o] + sum[i] X[n, i] * W[o, i]
loss L = mean[n, o] Y[n, o]^2
loss M = mean[n, o] abs(Y[n, o])
train L { steps = 10; optimizer = sgd(lr=0.1) }
train M { steps = 20; optimizer = adam(lr=1e-3); wrt = tensors(W) }
show d(M)/d(W)
)";
  const auto first = clean(text);
  ASSERT_EQ(first.trains.size(), 2u);
  EXPECT_EQ(first.program.updates.size(), 2u);
  EXPECT_FALSE(first.program.tensorNamed("W.adam.m").valid());
  EXPECT_EQ(first.program.derivatives.size(), 3u);
  CompileOptions options;
  options.train = 1;
  const auto second = clean(text, options);
  EXPECT_TRUE(second.program.tensorNamed("W.adam.m").valid());
  EXPECT_EQ(second.program.updates.size(), 4u);  // W, its two moments, the step counter
  EXPECT_EQ(second.program.derivatives.size(), 1u);
  // A hint for one job's kernel is nothing to the others, nor to the evaluation.
  const std::string hinted = text + "hint schedule W.adam.M {\"kind\": \"fake\", \"knobs\": {\"tile\": [4]}}\n";
  EXPECT_TRUE(clean(hinted).program.hints.empty());
  EXPECT_EQ(clean(hinted, options).program.hints.size(), 1u);
  options.training = false;
  EXPECT_TRUE(clean(hinted, options).program.hints.empty());
}

// Jobs of their own: the rows of a batch are what the one says that the program is for.
TEST(Compile, EveryTrainHasItsOwnBatch) {
  const auto rows = [](const std::string& text, std::size_t train) {
    CompileOptions options;
    options.training = true;
    options.train = train;
    const auto result = compiled(text, options);
    for (const Diagnostic& d : result.diagnostics) ADD_FAILURE() << d.message;
    const TensorId x = result.program.tensorNamed("X");
    return x.valid() ? result.program[x].shape[0] : -1;
  };
  const std::string net =
      "data D = digits\ninput X[B, 64] = batch D[:, 0..64]\nparam W[64] = normal(0, 1)\n"
      "loss L = mean[b] (sum[k] X[b, k] * W[k])^2\n";
  const std::string trains = "train L { batch = 16 }\ntrain L { batch = 64 }\ntrain L { steps = 3 }\n";
  EXPECT_EQ(rows("let B = 32\n" + net + trains, 0), 16);
  EXPECT_EQ(rows("let B = 32\n" + net + trains, 1), 64);
  EXPECT_EQ(rows("let B = 32\n" + net + trains, 2), 32) << "the notebook's own";
  EXPECT_EQ(rows(net + trains, 2), 16) << "nothing else names it";
  const auto fixed = compiled(
      "data D = digits\ninput X[8, 64] = batch D[:, 0..64]\nparam W[64] = normal(0, 1)\n"
      "loss L = mean[b] (sum[k] X[b, k] * W[k])^2\ntrain L { batch = 8 }\ntrain L { batch = 16 }\n");
  ASSERT_EQ(fixed.diagnostics.size(), 1u);
  EXPECT_EQ(fixed.diagnostics[0].message, "`batch` is 16, input `X` has 8 rows");
  const auto twice = compiled("param W[2] = zeros()\nloss L = sum[i] W[i]^2\ntrain L { wrt = tensors(W, W); steps = 3 }\n");
  ASSERT_FALSE(twice.diagnostics.empty());
  EXPECT_EQ(twice.diagnostics[0].message, "`wrt` names `W` twice");
}

// Passes leave one of two equal operators: what reads the other reads it.
TEST(Compile, AHintMayNameEitherOfEqualOperators) {
  const std::string text =
      "input X[8, 16]\nE[i, j] = exp(X[i, j] - (max[k] X[i, k]))\nS[i] = sum[j] exp(X[i, j] - (max[k] X[i, k]))\n"
      "Y[i, j] = E[i, j] / S[i]\nZ[i] = sum[j] exp(X[i, j] - (min[k] X[i, k]))\nshow Y\nshow Z\n";
  EXPECT_TRUE(compiled(text + "hint split E.max, S\nhint fuse S.max, E\n").diagnostics.empty());
  const auto other = compiled(text + "hint split E.max, Z\n");
  ASSERT_EQ(other.diagnostics.size(), 1u);
  EXPECT_TRUE(other.diagnostics[0].message.ends_with("the hint changes nothing")) << other.diagnostics[0].message;
}

// In words or as JSON a schedule is the same, and it is printed in words.
TEST(Compile, AScheduleIsReadInWordsAndAsJson) {
  const std::string text = "input X[3]\nY[i] = X[i] * 2\nshow Y\n";
  const auto words = clean(text + "hint schedule Y {\n  kind = nest; order = rows  # of tiles\n  tile = [8, 8]\n}\n");
  const auto json = clean(text + R"(hint schedule Y {"knobs": {"tile": [8, 8], "order": "rows"}, "kind": "nest"})" + "\n");
  ASSERT_EQ(words.program.hints.size(), 1u);
  ASSERT_EQ(json.program.hints.size(), 1u);
  EXPECT_EQ(words.program.hints[0].attributes, R"({"kind":"nest","knobs":{"order":"rows","tile":[8,8]},"version":1})");
  EXPECT_EQ(words.program.hints[0].attributes, json.program.hints[0].attributes);
  EXPECT_NE(toText(json.program).find("hint schedule Y { kind = nest; order = rows; tile = [8, 8] }\n"), std::string::npos)
      << toText(json.program);
  const auto wrong = compiled(text + "hint schedule Y { kind = nest; tile 8 }\n");
  ASSERT_EQ(wrong.diagnostics.size(), 1u);
  EXPECT_EQ(wrong.diagnostics[0].message, "expected `=` and the value of `tile`");
  EXPECT_EQ(wrong.sources.text(wrong.diagnostics[0].span), "8");
  const auto less = compiled(text + "hint schedule Y { tile = 8 }\n");
  ASSERT_EQ(less.diagnostics.size(), 1u);
  EXPECT_EQ(less.diagnostics[0].message, "a schedule has a kind and knobs");
}

TEST(Compile, MistakesOfEveryTrainStatementAreTold) {
  const auto c = compiled(
      "param W[3] = zeros()\nloss L = sum[i] W[i]^2\ntrain L { steps = 1 }\ntrain L { steps = 1; optimizer = sgd(rate=1) }\n"
      "W[...] <- W[...] * 2\n");
  ASSERT_EQ(c.diagnostics.size(), 2u);
  EXPECT_EQ(c.diagnostics[0].code, "unknown-option");
  EXPECT_EQ(c.diagnostics[1].code, "updated-twice");
}

// A step against the gradient only; what a tensor gives is not known here.
TEST(Train, ANegativeRateIsRefusedAndATensorTaken) {
  const std::string net = "param W[3] = zeros()\ninput r = 0.1\nloss L = sum[i] W[i]^2\n";
  for (const char* optimizer : {"sgd(lr=-1)", "momentum(lr=-1)", "adam(lr=-1)", "sgd(decay=-1)", "adam(eps=-1)"}) {
    const auto c = compiled(net + "train L { steps = 1; optimizer = " + optimizer + " }\n");
    ASSERT_EQ(c.diagnostics.size(), 1u) << optimizer;
    EXPECT_EQ(c.diagnostics[0].code, "requirement");
    EXPECT_NE(c.diagnostics[0].message.find("= -1"), std::string::npos) << c.diagnostics[0].message;
    EXPECT_EQ(c.sources.lineColumn(c.diagnostics[0].span).line, 4u);
  }
  for (const char* optimizer : {"sgd(lr=r)", "momentum(lr=r)", "momentum(beta=r)", "adam(lr=r)", "sgd(lr=0)"})
    clean(net + "train L { steps = 1; optimizer = " + optimizer + " }\n");
}

// x * 0 is no 0 where x is infinite: without decay the term is not there at all.
TEST(Compile, AnOptimizerWithoutDecayDoesNotReadThroughIt) {
  const auto c = clean("param W[3] = zeros()\nloss L = sum[i] W[i]^2\ntrain L { steps = 1; optimizer = sgd(lr=0.5) }\n");
  EXPECT_NE(toText(c.program).find("W[i] - 0.5 * d(L)/d(W)[i]"), std::string::npos) << toText(c.program);
  const auto decayed =
      clean("param W[3] = zeros()\nloss L = sum[i] W[i]^2\ntrain L { steps = 1; optimizer = sgd(lr=0.5, decay=0.1) }\n");
  EXPECT_NE(toText(decayed.program).find("0.1 * W[i]"), std::string::npos) << toText(decayed.program);
}

TEST(Compile, LoopCarriesAndStacks) {
  const auto c = clean(R"(
def cell(x[B, I], h[B, H]) -> y {
  param W[H, I] = normal(0, 1)
  param U[H, H] = normal(0, 1)
  y[b, n] = tanh(sum[i] W[n, i] * x[b, i] + sum[k] U[n, k] * h[b, k])
}
input X[2, 5, 3]
const h[2, 4] = zeros()
for t in 0..5 {
  h = cell(X[_, t, _], h)
  stack Hs = h
}
loss L = sum[b, n] h[b, n]^2 + sum[t, b, n] Hs[t, b, n]
)");
  const Program& p = c.program;
  ASSERT_EQ(p.loops.size(), 1u);
  EXPECT_EQ(p.loops[0].carried.size(), 1u);
  EXPECT_TRUE(p.loops[0].carried[0].last.valid());
  EXPECT_EQ(p[p.tensorNamed("Hs")].shape, (std::vector<std::int64_t>{5, 2, 4}));
  EXPECT_TRUE(p.tensorNamed("h.W").valid());
}

TEST(Compile, ScatterAddsInPlaces) {
  const auto c = clean("input idx[6] : i32\ninput X[6, 4]\nT[idx[n]: 10, d] += X[n, d]\nY[n, d] = T[idx[n], d]\n");
  const Program& p = c.program;
  EXPECT_EQ(p.operators[0].kind, OperatorKind::Scatter);
  EXPECT_EQ(p[p.tensorNamed("T")].shape, (std::vector<std::int64_t>{10, 4}));
}

TEST(Compile, BoundsAreProvedUnderConditions) {
  clean("input A[3]\ninput B[4]\nY[i: 7] = select(i < 3, A[i], B[i - 3])\n");
  const auto c = compiled("input A[5]\nY[i: 5] = A[i + 1]\n");
  ASSERT_EQ(c.diagnostics.size(), 1u);
  EXPECT_EQ(c.diagnostics[0].code, "index-out-of-bounds");
}

TEST(Compile, OriginsLeadFromTheLibraryToTheCall) {
  const std::string text = "input X[2, 3]\nY = softmax(X)\n";
  const auto c = clean(text);
  const Program& p = c.program;
  ASSERT_FALSE(p.operators.empty());
  for (const Operator& op : p.operators) {
    const Origin& o = p[op.origin];
    EXPECT_EQ(o.pass, "expand");
    EXPECT_EQ(c.sources.at(o.span.source).name, "std/norm.nf");
    ASSERT_EQ(o.parents.size(), 1u);
    EXPECT_EQ(c.sources.text(p[o.parents[0]].span), "softmax");
    EXPECT_EQ(p[o.parents[0]].span.source, c.notebook);
  }
  for (const ScalarNode& n : p.scalars) ASSERT_TRUE(n.origin.valid());
  for (const Operator& op : p.operators)
    for (const Axis& axis : op.axes) EXPECT_TRUE(axis.origin.valid());
}

TEST(Compile, OriginsPointAtTheTokens) {
  const auto c = clean("input X[2, 3]\nY[i] = sum[k] exp(X[i, k]) * 2\n");
  const Program& p = c.program;
  std::vector<std::string> tokens;
  for (const ExprId e : nodesOf(p, p.operators[0].body)) tokens.emplace_back(c.sources.text(p[p[e].origin].span));
  EXPECT_EQ(tokens, (std::vector<std::string>{"X[i, k]", "exp", "2", "*"}));
  EXPECT_EQ(c.sources.text(p[p.operators[0].axes[1].origin].span), "k");
  EXPECT_EQ(c.sources.text(p[p.operators[0].origin].span), "Y[i] = sum[k] exp(X[i, k]) * 2");
}

TEST(Compile, CellsKnowWhatTheyShow) {
  const auto c = clean("# %%\ninput X[2]\nY[i] = X[i] + 1\n# %%\nshow Y, X\n");
  ASSERT_EQ(c.cells.size(), 2u);
  EXPECT_TRUE(c.cells[0].shows.empty());
  ASSERT_EQ(c.cells[1].shows.size(), 2u);
  EXPECT_EQ(c.program[c.cells[1].shows[0]].name, "Y");
  EXPECT_EQ(c.program[c.cells[1].shows[1]].name, "X");
}

TEST(Compile, SymbolsReferencesAndHints) {
  const auto c = clean("let N = 5\ninput X[N, 4]\nY[i, k] = X[i, k] * 2\nloss L = mean[i, k] Y[i, k]\nshow d(L)/d(X)\n");
  const auto symbol = [&](const std::string& name) -> const Symbol& {
    for (const Symbol& s : c.symbols)
      if (s.name == name) return s;
    static const Symbol none;
    return none;
  };
  EXPECT_EQ(symbol("N").kind, Symbol::Kind::Extent);
  EXPECT_EQ(symbol("N").detail, "5");
  EXPECT_EQ(symbol("N").uses.size(), 1u);
  EXPECT_EQ(symbol("X").detail, "f32 [5, 4]");
  EXPECT_EQ(symbol("X").uses.size(), 2u);
  EXPECT_EQ(symbol("L").kind, Symbol::Kind::Loss);
  ASSERT_EQ(c.extents.size(), 4u);
  EXPECT_EQ(c.extents[0].axis, "i");
  EXPECT_EQ(c.extents[0].extent, 5);
  for (const TensorReference& r : c.references) {
    const std::string word(c.sources.text(r.span));
    if (word.find('/') == std::string::npos) { EXPECT_EQ(c.program[r.tensor].name, word); }
  }
}

// A function of one line has indices of its own: they are none of the statement that calls it.
TEST(Compile, ExtentsOfAStatementAreThoseOfItsOwnIndices) {
  const auto c = clean("input X[3, 4]\ninput C[4, 5]\ndef dot(x[M], y[M]) = sum[i] x[i] * y[i]\nS[i, j] = dot(X[i, _], C[_, j])\n");
  std::vector<std::string> axes;
  for (const ExtentHint& hint : c.extents) axes.push_back(hint.axis + std::to_string(hint.extent));
  EXPECT_EQ(axes, (std::vector<std::string>{"i3", "j5"}));
}

TEST(Compile, BatchIsDecidedByTheCallerThenSetThenTrainThenLet) {
  const std::string text =
      "let B = 8\ndata D = digits\ninput X[B, 64] = batch D[:, 0..64] / 16 - 0.5\nparam w = 1\nloss L = mean[b, i] X[b, i] * "
      "w\ntrain L { epochs = 2; batch = 32; optimizer = sgd() }\n";
  const auto batchOf = [](const CompiledNotebook& c) { return c.program[c.program.tensorNamed("X")].shape[0]; };
  const auto c = clean(text);
  EXPECT_EQ(batchOf(c), 32);
  EXPECT_EQ(c.trains.at(0).batch, 32);
  EXPECT_EQ(c.trains.at(0).epochs, 2);
  const Initializer& init = c.program[c.program.tensorNamed("X")].init;
  EXPECT_EQ(init.scale, 1.0 / 16);
  EXPECT_EQ(init.shift, -0.5);
  CompileOptions set;
  set.sets["B"] = "16";
  EXPECT_EQ(batchOf(compiled(text, set)), 16);
  CompileOptions rest = set;
  rest.training = false;
  rest.batchOverride = 5;
  EXPECT_EQ(batchOf(compiled(text, rest)), 5);
  CompileOptions wrong;
  wrong.sets["Q"] = "1";
  EXPECT_EQ(compiled(text, wrong).diagnostics.at(0).code, "unknown-set");
}

// A name is that of the tensor that it means in the end; what it meant before the repetition has a number.
TEST(Compile, RepeatRebindsAndIndexesNames) {
  const auto c =
      clean("input X[2, 3]\nH = X * 1\nrepeat i in 0..3 {\n  Z = H * 2\n  H = linear(Z, 3)\n}\nshow H, Z.1, H.2.W, H.1\n");
  EXPECT_TRUE(c.program.tensorNamed("H.0.W").valid());
  EXPECT_EQ(c.program[c.program.outputs[0].tensor].name, "H");
  EXPECT_EQ(c.program[c.program.operators[0].output].name, "H#1");
  EXPECT_EQ(c.program.operators[0].name, "H#1");
  EXPECT_EQ(c.program[c.program.outputs[1].tensor].name, "Z.1");
  EXPECT_EQ(c.tensorNamed("H"), c.program.outputs[0].tensor);
}

// What a repetition makes last goes by the plain name where no other tensor has it; the index finds it still.
TEST(Compile, AfterARepetitionItsLastValueHasThePlainName) {
  const auto c = clean(
      "def twice(X[...]) -> Y {\n  Y = X\n  repeat 3 { Y = Y * 2 }\n}\ninput X[2]\nZ = twice(X)\nR = Z\nrepeat 2 { R = R + Z }\n"
      "S[i] = R[i] * R.1[i]\nhint fuse Z, R\nloss L = sum[i] R[i]\nshow d(L)/d(X)\n");
  const Program& p = c.program;
  EXPECT_TRUE(p.tensorNamed("Z").valid());
  EXPECT_TRUE(p.tensorNamed("Z.1").valid());
  EXPECT_FALSE(p.tensorNamed("Z.2").valid());
  EXPECT_EQ(c.tensorNamed("R"), p.tensorNamed("R"));
  EXPECT_EQ(p.operators.back().name, "L");
  ASSERT_EQ(p.hints.size(), 1u);
  EXPECT_EQ(p.hints[0].tensors, (std::vector<std::string>{"Z", "R"}));
}

TEST(Compile, ANameMeansWhatItsLoopLeft) {
  const auto c = clean("input X[4, 3]\nconst h[3] = 0\nfor t in 0..4 { h[i] = h[i] + X[t, i] }\nY[i] = h[i] * 2\nhint fuse h, Y\n");
  EXPECT_EQ(c.program[c.tensorNamed("h")].name, "h");
  EXPECT_EQ(c.program[c.program.loops[0].carried[0].last].name, "h");
  EXPECT_EQ(c.program[c.program.loops[0].carried[0].initial].name, "h#1");
  EXPECT_EQ(c.tensorNamed("Y"), c.program.tensorNamed("Y"));
}

// The rule holds in bodies, for names that nothing reads behind the loop, and with several loops; hints follow.
TEST(Compile, WhatANameMeantBeforeHasANumber) {
  const auto c = clean(
      "input X[4, 3]\nh[i] = X[0, i] + 1\ng[i] = X[1, i] * h[i]\nconst c[3] = 0\nhint fuse h, g\n"
      "for t in 0..4 {\n  c[i] = h[i] * c[i]\n  h[i] = h[i] + X[t, i]\n}\nfor t in 0..2 { h[i] = h[i] * 2 + g[i] }\nY[i] = h[i] * "
      "2\n");
  const Program& p = c.program;
  ASSERT_EQ(p.loops.size(), 2u);
  const Loop &first = p.loops[0], &second = p.loops[1];
  EXPECT_EQ(p[first.carried[1].initial].name, "h#1");
  EXPECT_EQ(p[first.carried[1].last].name, "h#2");
  EXPECT_EQ(p[second.carried[0].last].name, "h");
  EXPECT_EQ(p[first.carried[0].initial].name, "c#1");
  EXPECT_FALSE(p.tensorNamed("c").valid());
  EXPECT_EQ((*first.body)[first.carried[1].innerIn].name, "h#1");
  EXPECT_EQ((*first.body)[first.carried[1].innerOut].name, "h");
  EXPECT_EQ(p.hints[0].tensors, (std::vector<std::string>{"h#1", "g"}));
  EXPECT_EQ(toText(p).find("c#"), std::string::npos) << toText(p);
}

TEST(Compile, AHintNamesAPairOfAStep) {
  const std::string loop =
      "input X[4, 8]\nconst h[8] = 1\nconst c[8] = 0\nfor t in 0..4 {\n  c[i] = c[i] + X[t, i]\n  g[i] = X[t, i]^2\n"
      "  h[i] = tanh(c[i]) * h[i] * g[i]\n}\nY[i] = h[i] * 2\n";
  EXPECT_EQ(clean(loop + "hint split c, h\n").program.hints.size(), 1u);
  const auto apart = compileNotebook({"test.nf", "", loop + "hint split c, Y\n"});
  ASSERT_EQ(apart.diagnostics.size(), 1u);
  EXPECT_EQ(apart.diagnostics[0].severity, Severity::Warning);
}

// The same words ask for another derivative once the name means another tensor.
TEST(Compile, ADerivativeIsOfWhatItsNamesMean) {
  const auto c = clean(
      "param H[3] = zeros()\nloss S = sum[i] H[i]^2\nG = d(S)/d(H)\nrepeat 2 { H = H * 2 }\nloss T = sum[i] H[i]^2\n"
      "show d(T)/d(H), G\n");
  ASSERT_EQ(c.program.derivatives.size(), 2u);
  EXPECT_EQ(c.program[c.program.derivatives[0].wrt].name, "H#1");
  EXPECT_EQ(c.program[c.program.derivatives[1].wrt].name, "H");
}

// One shape in both programs, and mistakes of both are told.
TEST(Compile, TrainingIsAConstantOfEachProgram) {
  const std::string text = "input X[5, 3]\nU[i, j] = select(training, X[i, j] * 2, 0)\nV[i, j] = select(training, 1, X[i, j])\n";
  CompileOptions evaluation;
  evaluation.training = false;
  for (const CompileOptions& options : {CompileOptions{}, evaluation}) {
    const auto c = clean(text, options);
    for (const char* name : {"U", "V"})
      EXPECT_EQ(c.program[c.program.tensorNamed(name)].shape, (std::vector<std::int64_t>{5, 3})) << options.training << name;
  }
  const auto c = compiled("input X[3]\nif training { Y[i] = X[i] } else { Y[i] = X[i] + Z[i] }\nshow Y\n");
  ASSERT_EQ(c.diagnostics.size(), 1u);
  EXPECT_EQ(c.diagnostics[0].message, "`Z` is not defined");
}

TEST(Compile, EllipsisAndWhere) {
  const auto c = clean(
      "input X[2, 3, 4]\ninput s[2]\nY[n, ...] = X[n, ...] * s[n]\nM = mean[...] Y[...]^2\nZ[i, j, k] = a * a where a = exp(X[i, "
      "j, k])\n");
  const Program& p = c.program;
  EXPECT_EQ(p[p.tensorNamed("Y")].shape, (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(p[p.tensorNamed("M")].shape.size(), 0u);
  EXPECT_EQ(nodesOf(p, p.operators[2].body).size(), 3u);
}

// The cases the language was made for, as they are written.
std::vector<std::string> codesOf(const std::string& text) {
  std::vector<std::string> codes;
  for (const Diagnostic& d : compiled(text).diagnostics) codes.push_back(d.code);
  return codes;
}

TEST(Compile, IndicesThatLeave64BitsAreRefused) {
  const std::vector<std::string> overflow{"index-overflow"};
  const std::string data = "input A[4] = 1\ninput t[3] : i32 = 2147483647\n";
  for (const char* statement :
       {"Z[i: 9] = A[i*4611686018427387904] else 0", "Y[i: 5] = select(i*4611686018427387904 == 0, 1, 0)",
        "W[i: 5] = i*4611686018427387904", "Z[i: 5] = A[-i*4611686018427387904 - 1] else 0",
        "for s in 0..5 { Z[i: 4] = A[s*4611686018427387904 + i] else 0 }", "Y[i] = A[t[i]*4611686018427387904] else 0",
        "Y[i] = select(t[i] < 3000000000, 1, 0)", "scatter[i: 9] S[i*4611686018427387904: 4] += A[i % 4]"})
    EXPECT_EQ(codesOf(data + statement), overflow) << statement;
  clean(data + "W[i: 2] = i*4611686018427387904\nY[i] = A[t[i] - 2147483647] else 0\n");
  const auto c = compiled("input A[4] = 1\nZ[i: 9] = A[i*4611686018427387904] else 0\n");
  ASSERT_EQ(c.diagnostics.size(), 1u);
  EXPECT_EQ(c.sources.text(c.diagnostics[0].span), "i*4611686018427387904");
  EXPECT_EQ(c.diagnostics[0].notes.at(0).message, "with `i` over 0..8");
}

// An argument is one node, however often the function uses it.
TEST(Compile, NestedCallsShareTheirArguments) {
  std::string call = "1 + i";
  for (int k = 0; k < 60; ++k) call = "f(" + call + ")";
  const auto c = clean("def f(x) = x*x + x\nY[i: 3] = " + call + "\n");
  EXPECT_LE(c.program.scalars.size(), 200u);
}

// Tensors of a one-line function: it is as if its expression had been written in its place.
TEST(Compile, OneLineFunctionsReadTensors) {
  const std::string given = R"(input A[3] = 1
input B[3] = 2
input M[4, 3] = 3
)";
  const std::string called = given + R"(
def dot(x[N], y[N]) = sum[i: N] x[i]*y[i]
def twice(x[3]) = x*2
def times(x[N]) = x*N
def total(x) = sum[i] x[i]
def both(x) = total(x) + total(x)*max[i] x[i]
def error(x[...], t[...]) = mean[...] (x[...] - t[...])^2
def unit(x[N]) = x / s where s = sqrt(dot(x, x))
def first(x, K; by) = sum[k: K] x[k]*by[k]
def probable(x) = 2*softmax(x)
D = dot(A, B)
E = dot(A, B)*twice(A)
F = times(A)
G = both(A)
H[p, q] = dot(M[p, _], M[q, _])
J = error(M, 2*M)
K = unit(A)
P[r] = first(M[r, _], 2, by=A)
Q = probable(B)
for t in 0..4 {
  R[c] = dot(M[t, _], A) * A[c]
  stack S = R
}
)";
  const std::string written = given + R"(
D = sum[i] A[i]*B[i]
E = (sum[i] A[i]*B[i])*(A*2)
F = A*3
G = (sum[i] A[i]) + (sum[i] A[i])*max[i] A[i]
H[p, q] = sum[i] M[p, i]*M[q, i]
J.value = 2*M
J = mean[n, m] (M[n, m] - J.value[n, m])^2
K = A / s where s = sqrt(sum[i] A[i]*A[i])
P[r] = sum[k: 2] M[r, k]*A[k]
Q = 2*softmax(B)
for t in 0..4 {
  R[c] = (sum[i] M[t, i]*A[i]) * A[c]
  stack S = R
}
)";
  EXPECT_EQ(structuralHash(clean(called).program).hex(), structuralHash(clean(written).program).hex());
  EXPECT_EQ(codesOf(given + "def g(x[3]) = x*2\nY = g(M)\n"), std::vector<std::string>{"rank-mismatch"});
  EXPECT_EQ(codesOf(given + "def g(x[4]) = x*2\nY = g(A)\n"), std::vector<std::string>{"shape-mismatch"});
  EXPECT_EQ(codesOf(given + "def g(x[N, N]) = x*2\nY = g(M)\n"), std::vector<std::string>{"shape-mismatch"});
  EXPECT_EQ(codesOf(given + "def g(x[N]) = x*2\nY = g(3)\n"), std::vector<std::string>{"not-a-tensor"});
  // What the caller calls its own means nothing in the function.
  EXPECT_EQ(codesOf("def f(x) = x*k\ndef g(x) -> y {\n  let k = 3\n  y = f(x)\n}\ninput A[3]\nY = g(A)\n"),
            std::vector<std::string>{"undefined-name"});
}

TEST(Compile, SlicesStandWhereWholeTensorsDo) {
  const auto c = clean(R"(input X[4, 3] = normal(0, 1)
param h0[3] = 0
Z = X[0, _] + X[1, _]
Y = 0.5*relu(X[2, _] + 1)
h = h0
for t in 0..4 { h = 0.5*h + X[t, _] }
)");
  EXPECT_EQ(c.program[c.program.tensorNamed("Z")].shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(c.program[c.program.tensorNamed("Y")].shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(codesOf("input X[4, 3]\nZ = X[0, _] + X[4, _]\n"), std::vector<std::string>{"index-out-of-bounds"});
  EXPECT_EQ(codesOf("input X[4, 3]\nZ = X[0, _] + X[_, 0]\n"), std::vector<std::string>{"extent-conflict"});
}

TEST(Compile, WhatALoopLeavesHasTheNameThatItCarries) {
  const auto c = clean("input X[4, 3]\nparam h0[3] = 0\nh = h0\nfor t in 0..4 { h = 0.5*h + X[t, _] }\nY[i] = h[i] + h0[i]\n");
  EXPECT_TRUE(c.program.tensorNamed("h").valid());
  EXPECT_EQ(c.program[c.program.loops[0].carried[0].last].name, "h");
  EXPECT_FALSE(c.program.tensorNamed("h0#2").valid());
}

// A kernel's own name is one that a hint may say.
TEST(Compile, AHintNamesWhatAGradientComputesBesideAReduction) {
  const std::string text =
      "input X[4, 5]\nparam w[5] = 1\nconst h[4] = 0.5\nY[i] = max[j] (X[i, j] * w[j])\n"
      "for t in 0..3 { h[i] = max[j] (h[i] * w[j]) + h[i] * Y[i] }\nloss L = mean[i] (h[i]^2 + exp(max[j] (X[i, j] + w[j])))\n"
      "show d(L)/d(w)\n";
  for (const char* name : {"Y_argmax", "Y_ties", "L.max_argmax", "h.max_argmax", "h.max_argmax_steps"})
    EXPECT_EQ(clean(text + "hint split " + name + ", `d(L)/d(w)`\n").program.hints.at(0).tensors.at(0), name);
  for (const char* name : {"Z_argmax", "Y_arg", "_argmax"})
    EXPECT_EQ(compiled(text + "hint split " + name + ", Y\n").diagnostics.size(), 1u) << name;
}

// Of a stacked tensor a step reads its slice.
TEST(Compile, TrafficIsOfTheElementsThatAreReached) {
  const auto traffic = [](const char* text) { return trafficOf(clean(text).program); };
  EXPECT_EQ(traffic("input X[8, 4, 64]\nY[b] = X[3, 0, b]\n"), 4 * 64) << "nothing is an output";
  EXPECT_EQ(traffic("input X[8, 64]\nY[b] = sum[t] X[t, b]\n"), 4 * 8 * 64);
  EXPECT_EQ(traffic("input X[8, 64]\nY[b] = X[0, b] * X[1, b]\n"), 4 * 2 * 64);
  EXPECT_EQ(traffic("input X[9]\nY[i: 7, j: 3] = X[i + j]\n"), 4 * 9) << "no more than there are";
}

// What a loop carries last is its cell's, wherever it is read first.
TEST(Compile, ALoopsCellDefinesWhatTheLoopMakes) {
  const CompiledNotebook c = clean(
      "# %%\nparam R[5, 5] = normal(0, 0.3)\nconst h[4, 5] = 0.1\nfor t in 0..3 { h[b, i] = tanh(sum[j] h[b, j] * R[i, j]) }\n\n"
      "# %%\nS[b] = sum[i] h[b, i]\n\n# %%\nloss L = mean[b, i] (h[b, i] - 0.3)^2 + mean[b] S[b]\n");
  const auto defined = [&](std::size_t cell) {
    std::vector<std::string> names;
    for (const TensorId t : c.cells[cell].defines) names.push_back(c.program[t].name);
    return names;
  };
  ASSERT_EQ(c.cells.size(), 3u);
  EXPECT_EQ(defined(0), (std::vector<std::string>{"R", "h#1", "h"}));
  EXPECT_EQ(defined(1), (std::vector<std::string>{"S"}));
  for (const std::string& name : defined(2)) EXPECT_NE(name, "h");
}

// A step's tensors are no mistake where no step is made, or where another `train` makes it: what reads them is left out.
TEST(Compile, WhatOtherStepsMakeIsLeftOut) {
  const std::string text =
      "param W[3] = zeros()\nstate M[3] = zeros()\nM[i] <- M[i] + W[i]\nP[i] = select(training, 2, 1) * W[i]\n"
      "loss L = sum[i] (P[i] - 1)^2\neval e = max[i] P[i]\n"
      "train L { steps = 1; optimizer = adam(lr=0.1) }\n"
      "Z[i] = W.next[i] * 2\neval n = sum[i] Z[i]\nshow W.next\nshow W.adam.m\nshow M.next\nshow `d(L)/d(W)`\nshow P\n";
  const CompiledNotebook whole = clean(text);
  EXPECT_TRUE(whole.ofOtherSteps.empty());
  CompileOptions options;
  options.training = false;
  const CompiledNotebook evaluation = compileNotebook({"t.nf", {}, text}, options);
  EXPECT_TRUE(evaluation.diagnostics.empty()) << evaluation.diagnostics[0].message;
  std::set<std::string> outputs, left;
  for (const Output& o : evaluation.program.outputs) outputs.insert(o.name);
  for (const NameUse& use : evaluation.ofOtherSteps) left.insert(use.name);
  EXPECT_EQ(outputs, (std::set<std::string>{"L", "e", "P"}));
  EXPECT_EQ(left, (std::set<std::string>{"W.next", "Z", "W.adam.m", "M.next", "d(L)/d(W)"}));
  EXPECT_TRUE(evaluation.program.updates.empty());
  for (const Operator& op : evaluation.program.operators) EXPECT_NE(op.phase, Phase::Optimizer) << op.name;
  EXPECT_TRUE(evaluation.unsound.empty());

  const std::string two =
      "param A[3] = zeros()\nparam C[3] = zeros()\nloss L1 = sum[i] A[i]^2\nloss L2 = sum[i] (C[i] - 1)^2\n"
      "train L1 { steps = 1 }\ntrain L2 { steps = 1 }\nshow A.next\nshow C.next\n";
  for (const std::size_t train : {0, 1}) {
    options = {};
    options.train = train;
    const CompiledNotebook job = compileNotebook({"t.nf", {}, two}, options);
    ASSERT_TRUE(job.ok()) << job.diagnostics[0].message;
    ASSERT_EQ(job.ofOtherSteps.size(), 1u);
    EXPECT_EQ(job.ofOtherSteps[0].name, train == 0 ? "C.next" : "A.next");
    EXPECT_EQ(job.diagnostics.size(), train == 0 ? 1u : 0u) << "cells have the first one's";
  }
}

// `batch` of `train` names the batch, and --set decides over it, with a `let` or without.
TEST(Compile, TheBatchThatATrainingNamesMayBeSet) {
  for (const char* let : {"", "let B = 16\n"}) {
    const std::string text = std::string(let) +
                             "data D = digits { split = last 360 }\ninput X[B, 64] = batch D[:, 0..64]\nparam W[64] = zeros()\n"
                             "loss L = mean[b] (sum[i] X[b, i] * W[i])^2\ntrain L { batch = 8 }\n";
    for (const std::int64_t set : {0, 4}) {
      CompileOptions options;
      if (set > 0) options.sets["B"] = std::to_string(set);
      const CompiledNotebook c = compileNotebook({"t.nf", {}, text}, options);
      ASSERT_TRUE(c.ok()) << c.diagnostics[0].message;
      EXPECT_EQ(c.program[c.tensorNamed("X")].shape[0], set > 0 ? set : 8);
      ASSERT_EQ(c.trains.size(), 1u);
      EXPECT_EQ(c.trains[0].batch, set > 0 ? set : 8);
    }
  }
}

TEST(Compile, CasesThatMustWork) {
  clean("input A[4, 4]\nY[i] = A[i, i]\n");
  clean("input A[4]\nY[i, j] = A[i] * A[j]\n");
  clean("input A[9]\nparam W[3] = zeros()\nY[i] = sum[j] A[i + j] * W[j]\n");
  clean("input X[6]\nY[i: 6] = X[(i + 5) % 6]\n");                       // circular padding
  clean("input X[3]\nY[i: 6] = X[i // 2]\n");                            // nearest upsampling
  clean("input X[6]\nY[i: 6] = X[i % 2 * 3 + i // 2]\n");                // channel shuffle
  clean("input X[8]\nY[i: 8] = select(i % 2 == 0, X[i], -X[i - 1])\n");  // conditions on indices
  clean("input X[4, 5]\nP[i,j] = exp(X[i,j] - max[k] X[i,k])\nY[i,j] = P[i,j] / sum[k] P[i,k]\n");
  clean("input Y[3, 10]\ninput y[3] : i32\neval a = mean[b] (argmax[n] Y[b,n] == y[b])\n");
  clean("input X[4]\nY[i] = X[i] * f32(2*i + 1) + i\n");
  clean("input X[3] : f16\nY[i] : bf16 = X[i] * 2\nZ = Y + X\n");
  clean("input X[5]\nY[i: 5] = select(i > 0, sum[k: 2] X[i - k], 0)\n");  // a nested reduction under its condition
  clean("input S[3]\nL = sum[i] S[i]^2\nG = d(L)/d(S)\nloss P = sum[i] G[i]^2\nshow d(P)/d(S)\n");
}

}  // namespace
}  // namespace nf
