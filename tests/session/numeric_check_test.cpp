// SPDX-License-Identifier: Apache-2.0
#include "core/session/numeric_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/lang/compile.h"
#include "core/runtime/run.h"
#include "core/session/held_values.h"

namespace nf {
namespace {

struct Checked {
  protocol::NumericCheck check;
  std::vector<std::string> held;
};

// slope: what the gradient is multiplied by before it is compared.
Result<Checked> checked(const std::string& text, const std::string& of, const std::string& wrt, double slope = 1) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
  if (!notebook.ok()) return Error{"test", render(notebook.diagnostics, notebook.sources), {}, {}};
  DerivativeProgram only = onlyDerivative(notebook.program, notebook.tensorNamed(of), notebook.tensorNamed(wrt));
  auto differentiated = differentiate(only.program);
  EXPECT_TRUE(differentiated.ok());
  Program& p = differentiated->program;
  if (slope != 1) {
    Operator& last = p[producers(p)[only.result.value]];
    const ExprId body = last.body;
    const ExprId wrong = p.binary(ScalarOp::Mul, body, p.constant(slope, p[body].type));
    last.body = wrong;
  }
  NF_TRY(NumericChecker checker, NumericChecker::prepare(p, notebook.tensorNamed(of), notebook.tensorNamed(wrt), only.result,
                                                         only.seed, 1e9, {"", notebook.randomSeed()}));
  NF_TRY(protocol::NumericCheck check, checker.goOn(1e9, {}));
  std::vector<std::string> held;
  for (const Span span : checker.held()) held.emplace_back(notebook.sources.text(span));
  return Checked{std::move(check), std::move(held)};
}

constexpr const char* kInput = "input x[6] : f64 = uniform(-1, 1)\n";

void expectAgrees(const std::string& text, std::int64_t held, std::int64_t jumps = 0) {
  SCOPED_TRACE(text);
  const auto made = checked(kInput + text, "L", "x");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->check.refuted, 0);
  EXPECT_EQ(made->check.undefined, 0);
  EXPECT_EQ(made->check.samples, 6);
  EXPECT_EQ(made->check.held, held);
  EXPECT_EQ(made->check.jumps, jumps);
  const auto wrong = checked(kInput + text, "L", "x", 1.01);
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  EXPECT_GT(wrong->check.refuted, 0) << "a gradient that is one percent too large passes";
}

// What is checked is what a run computes: weights and what is dropped are drawn by the seed of the training.
TEST(NumericCheck, ComputesWithTheSeedOfTheTraining) {
  const auto textOf = [](int seed) {
    return "param w[6] : f64 = normal(0, 1)\nloss L = sum[i] select(random() < 0.5, 3, 1) * w[i]^2\n"
           "train L { steps = 1; optimizer = sgd(lr=0.1); seed = " +
           std::to_string(seed) + " }\nshow w, d(L)/d(w)\n";
  };
  BackendRegistry none;
  const auto context = DeviceContext::open(none, {.device = "reference"});
  ASSERT_TRUE(context.ok());
  std::vector<double> gradients;
  for (const int seed : {1, 3}) {
    const auto made = checked(textOf(seed), "L", "w");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->check.refuted, 0);
    RunJob job(**context, {.source = {"test.nf", {}, textOf(seed)}, .tensors = {"shown"}});
    ASSERT_TRUE(job.prepare({}).ok());
    ASSERT_TRUE(job.run(false, {}).ok());
    const auto gradient = job.tensor("d(L)/d(w)");
    ASSERT_TRUE(gradient.ok());
    ASSERT_FALSE(made->check.worstSamples.empty());
    for (const protocol::NumericSample& sample : made->check.worstSamples)
      EXPECT_NEAR(sample.derived, gradient->at(sample.element[0]), 1e-12) << "seed " << seed;
    gradients.push_back(gradient->at(0));
  }
  EXPECT_NE(gradients[0], gradients[1]);
}

// Differences see through stop_gradient, so its values are held: then the check is one.
TEST(NumericCheck, HoldsWhatStopGradientCuts) {
  expectAgrees("L = sum[i] x[i] * stop_gradient(x[i])", 1);
  expectAgrees("Y[i] = x[i] + stop_gradient(floor(3*x[i]) - x[i])\nL = sum[i] Y[i]^2", 1);
  expectAgrees("S[i] = stop_gradient(x[i]^2)\nL = sum[i, j: 6] (S[i] * x[j] + exp(x[j]))", 1);
  expectAgrees("L = sum[i, r: 3] exp(x[(i + r) % 6] - stop_gradient(x[i] * (r + 1)))", 1);
  // Evaluated only where the branch is taken.
  expectAgrees("L = sum[i] select(x[i] > 0, stop_gradient(log(x[i])) * x[i], x[i]^2)", 1);
  expectAgrees("L = sum[i] (x[i]^2 + select(i < 5, x[i] * stop_gradient(x[i + 1]), 0))", 1);
  expectAgrees("h[i] = x[i]\nfor t in 0..3 {\n  h[i] = h[i] * 0.5 + x[i] * stop_gradient(h[i] * x[5 - i])\n}\nL = sum[i] h[i]^2",
               1);
  expectAgrees(
      "h[i] = x[i]\nfor t in 0..2 {\n  for s in 0..3 {\n    h[i] = h[i] * 0.5 + (s + 1) * x[i] * stop_gradient(h[i])\n  }\n}\n"
      "L = sum[i] h[i]^2",
      1);
  const auto made = checked(std::string(kInput) + "L = sum[i] x[i] * stop_gradient(x[i])", "L", "x");
  ASSERT_TRUE(made.ok());
  ASSERT_EQ(made->held.size(), 1u);
  EXPECT_EQ(made->held[0], "stop_gradient");
}

// Beside a jump differences step over it; with what jumps held they do not.
TEST(NumericCheck, TellsJumpsFromWrongGradients) {
  const std::string input = "input x[3] : f64 = 0\n";
  for (const std::string text :
       {"L = sum[i] (x[i] * 2 + select(x[i] > 0, 5, 0))", "L = sum[i] (x[i] * 2 + floor(x[i]))",
        "L = sum[i] exp(x[i]) * (1 + floor(x[i]))", "b = argmax[i] x[i]\nL = sum[i] x[i] * (float(b) + 1)"}) {
    SCOPED_TRACE(text);
    const auto made = checked(input + text, "L", "x");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->check.refuted, 0);
    EXPECT_GT(made->check.jumps, 0);
    const auto wrong = checked(input + text, "L", "x", 1.01);
    ASSERT_TRUE(wrong.ok()) << wrong.error().message;
    EXPECT_EQ(wrong->check.refuted, 3);
    EXPECT_EQ(wrong->check.jumps, 0);
  }
}

// Where equals tie and on a kink the gradient is a choice; the differences hold it, and a wrong gradient is wrong there too.
TEST(NumericCheck, TellsTiesAndKinksFromWrongGradients) {
  using Kind = protocol::NumericChoice::Kind;
  struct Case {
    const char *text, *what;
    Kind kind;
    std::int64_t ties;
  };
  for (const auto& [text, what, kind, ties] :
       {Case{"L = max[i] (x[i] + 1)", "max", Kind::First, 3},
        {"L = min[i] (2*x[i] + 1)", "min", Kind::First, 3},
        {"L = max[i; ties=even] (x[i] + 1)", "max", Kind::Even, 3},
        {"L = sum[i] (relu(x[i]) + 2*x[i])", "relu", Kind::Kink, 3},
        {"L = sum[i] (relu(x[i] + abs(x[i])) + 2*x[i])", "relu", Kind::Kink, 3},
        {"L = sum[i] max(x[i], 3*x[i])", "max", Kind::Kink, 3},
        {"L = sum[i] min(exp(x[i]), 1 + relu(x[i]) + 2*x[i])", "min", Kind::Kink, 3},
        {"h[i] = x[i] + 1\nfor t in 0..3 {\n  m = max[i] h[i]\n  h[i] = h[i] * 0.5 + m + t * x[i]\n}\nL = sum[i] h[i]", "max",
         Kind::First, 3},
        {"L = sum[i, j: 3] select(x[i] + j < 1.5, relu(x[i] + j) + x[i], 0)", "relu", Kind::Kink, 3}}) {
    SCOPED_TRACE(text);
    const std::string input = "input x[3] : f64 = 0\n";
    const auto made = checked(input + text, "L", "x");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->check.refuted, 0);
    EXPECT_EQ(made->check.ties, ties);
    ASSERT_FALSE(made->check.choices.empty());
    EXPECT_EQ(made->check.choices[0].what, what);
    EXPECT_EQ(made->check.choices[0].kind, kind);
    const auto wrong = checked(input + text, "L", "x", 1.01);
    ASSERT_TRUE(wrong.ok()) << wrong.error().message;
    EXPECT_GT(wrong->check.refuted, 0);
    for (const protocol::NumericSample& s : wrong->check.worstSamples) EXPECT_LE(s.error, 1);
  }
}

// A gradient that should not be 0 is wrong by all there is, not by a quotient of nothing.
TEST(NumericCheck, ErrorsAreRelativeToTheLargerOfBoth) {
  const auto wrong = checked("input x[3] : f64 = 2\nL = sum[i] x[i]^2", "L", "x", 1e-30);
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  EXPECT_EQ(wrong->check.refuted, 3);
  EXPECT_DOUBLE_EQ(wrong->check.worst, 1);
}

// Parameters stay where the notebook has them; a second point, where those that are all equal are moved, is told apart.
TEST(NumericCheck, ChecksTheNotebooksOwnPointFirst) {
  const std::string text = "input x[4] : f64 = 2\nparam W[4] : f64 = 0.5\nL = sum[i] W[i] * W[i] * x[i]";
  const auto made = checked(text, "L", "W");
  ASSERT_TRUE(made.ok()) << made.error().message;
  for (const protocol::NumericSample& s : made->check.worstSamples) EXPECT_EQ(s.derived, 2);
  ASSERT_TRUE(made->check.moved);
  EXPECT_EQ(made->check.moved->tensors, std::vector<std::string>{"W"});
  EXPECT_EQ(made->check.moved->samples, 4);
  EXPECT_EQ(made->check.moved->wanted, 4);
  EXPECT_EQ(made->check.moved->refuted, 0);
  for (const protocol::NumericSample& s : made->check.moved->worstSamples) {
    EXPECT_NE(s.derived, 2);
    EXPECT_NEAR(s.derived, 2, 0.3);
  }
  const auto wrong = checked(text, "L", "W", 1.01);
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  EXPECT_EQ(wrong->check.refuted, 8);
  EXPECT_EQ(wrong->check.moved->refuted, 4);
  const auto given = checked(text + "\nM = sum[i] x[i]^2", "M", "x");
  ASSERT_TRUE(given.ok()) << given.error().message;
  EXPECT_FALSE(given->check.moved);
}

// 256 of 257 elements, 200 of them beside a jump: at most one of those is left out, and none counts twice.
TEST(NumericCheck, SamplesEachElementOnce) {
  const auto made = checked("input x[257] : f64 = 0\nL = sum[i] (x[i] * 2 + select(i < 200, select(x[i] > 0, 5, 0), 0))", "L", "x");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->check.samples, 256);
  EXPECT_EQ(made->check.refuted, 0);
  EXPECT_GE(made->check.jumps, 199);
  EXPECT_LE(made->check.jumps, 200);
}

// At second order a comparison is come to on several ways, each with its conditions.
TEST(NumericCheck, TellsJumpsOfSecondOrder) {
  const std::string text =
      "input y[2] : f64 = 0\nx[i] = y[i] + 2*i\nL = sum[i] (select(x[i] > 0, sqrt(x[i]), x[i]) * select(x[i] > 0, 3, 1))\n"
      "G = d(L)/d(x)\nM = sum[i] G[i]^2";
  const auto made = checked(text, "M", "x");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->check.refuted, 0);
  EXPECT_EQ(made->check.jumps, 1);
  const auto wrong = checked(text, "M", "x", 1.01);
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  EXPECT_EQ(wrong->check.refuted, 1);
}

// log 2 + log 0.5 is 0 but for rounding: neither the second derivative nor the differences know better.
TEST(NumericCheck, RoundingOfTheDerivedValueRefutesNothing) {
  const std::string text =
      "x[i: 5] = select(i == 1, f64(-1), select(i == 2, f64(2), select(i == 4, f64(0.5), f64(0))))\n"
      "L = sum[i] select(x[i] > 0, (sum[j: 5] select(x[j] > 0, log(x[j]), 0) * (sum[k: 2] log(x[i]) * k)), 0)\n"
      "G = d(L)/d(x)\nM = sum[i] G[i]^2";
  const auto made = checked(text, "M", "x");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->check.refuted, 0);
  // With terms that do not cancel the same gradient is held to what is allowed.
  std::string other = text;
  other.replace(other.find("0.5"), 3, "0.7");
  const auto right = checked(other, "M", "x"), wrong = checked(other, "M", "x", 1.0001);
  ASSERT_TRUE(right.ok() && wrong.ok());
  EXPECT_EQ(right->check.refuted, 0);
  EXPECT_GT(wrong->check.refuted, 0);
}

// What is huge or tiny beside an element says nothing of how far that may be moved.
TEST(NumericCheck, StepsAreOfTheElementsOwnSize) {
  struct Case {
    const char *first, *others, *loss;
  };
  for (const auto& [first, others, loss] : {Case{"f64(1e30)", "f64(i) / 2", "tanh(x[i])"},
                                            {"f64(1e30)^10", "f64(i) / 2", "tanh(x[i])"},
                                            {"f64(1000)", "select(i == 1, f64(0.001), f64(2))", "sqrt(x[i])"},
                                            {"f64(1000)", "f64(1e-12)", "x[i]^2"}}) {
    const std::string text =
        std::string("x[i: 4] = select(i == 0, ") + first + ", " + others + ")\nL = sum[i] " + loss + "\nshow L";
    SCOPED_TRACE(text);
    const auto made = checked(text, "L", "x"), wrong = checked(text, "L", "x", 1.01);
    ASSERT_TRUE(made.ok() && wrong.ok()) << (made.ok() ? wrong : made).error().message;
    EXPECT_EQ(made->check.samples, 4);
    EXPECT_EQ(made->check.undefined, 0);
    EXPECT_EQ(made->check.refuted, 0);
    EXPECT_LE(made->check.worst, made->check.allowed);
    EXPECT_GT(wrong->check.refuted, 0);
  }
}

// A tensor that is computed is moved by itself, whoever makes it.
TEST(NumericCheck, MovesComputedTensorsByThemselves) {
  const std::string text = std::string(kInput) +
                           "Y[i] = x[i]^2\nh[i] = Y[i]\nfor t in 0..3 {\n  h[i] = h[i] * 0.5 + Y[i]\n  stack H = h\n}\n"
                           "L = sum[i] Y[i] * h[i] + sum[t, i] H[t, i]^2";
  for (const std::string wrt : {"Y", "h", "H"}) {
    SCOPED_TRACE(wrt);
    const auto made = checked(text, "L", wrt);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->check.refuted, 0);
    EXPECT_GT(made->check.samples, 5);
    const auto wrong = checked(text, "L", wrt, 1.01);
    ASSERT_TRUE(wrong.ok()) << wrong.error().message;
    EXPECT_GT(wrong->check.refuted, 0);
  }
}

TEST(NumericCheck, SaysWhereNothingCanBeHeld) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, std::string(kInput) + "L = sum[i] x[i] * stop_gradient(x[i])"});
  const TensorId L = notebook.tensorNamed("L"), x = notebook.tensorNamed("x");
  EXPECT_TRUE(holdValues(notebook.program, L, x, Hold::Stops, 6));
  EXPECT_FALSE(holdValues(notebook.program, L, x, Hold::Stops, 5));
}

}  // namespace
}  // namespace nf
