// SPDX-License-Identifier: Apache-2.0
// What differentiate() leaves behind: names, terms, phases, diagnostics, order.
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/autodiff/explain.h"
#include "core/lang/compile.h"
#include "core/transform/hoist_loops.h"
#include "core/transform/merge_equal_operators.h"
#include "core/transform/remove_dead_operators.h"
#include "core/transform/simplify_scalars.h"
#include "core/transform/unroll_loops.h"
#include "tests/autodiff/graph_check.h"
#include "tests/autodiff/reference_file.h"
#include "tests/build_loop.h"

namespace nf {
namespace {

using test::Build;
using test::var;

Program compiled(const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  return notebook.program;
}

const Operator* producer(const Program& p, std::string_view tensor) {
  const TensorId t = p.tensorNamed(tensor);
  if (!t.valid()) return nullptr;
  const OperatorId o = producers(p)[t.value];
  return o.valid() ? &p[o] : nullptr;
}

TEST(GraphStructure, OneTermIsOneOperator) {
  const Program p =
      test::differentiated(compiled("input X[4] = zeros()\nparam W[4] = zeros()\nloss L = sum[i] W[i]*X[i]\nshow d(L)/d(W)\n"));
  const Operator* op = producer(p, "d(L)/d(W)");
  ASSERT_TRUE(op);
  EXPECT_EQ(op->phase, Phase::Backward);
  EXPECT_EQ(op->axes.size(), 1u);
  EXPECT_EQ(p[op->body].op, ScalarOp::Load);
  EXPECT_EQ(p[p[p[op->body].access].tensor].name, "X");
}

TEST(GraphStructure, PartialsAreNumberedAndAddedUp) {
  Build b;
  const auto A = b.tensor("A", {3, 2});
  const auto Y =
      b.op("Y", {{"i", 3}, {"j", 3}, {"k", 2}}, 2, Reducer::Sum, b.mul(b.load(A, {var(0), var(2)}), b.load(A, {var(1), var(2)})));
  const auto dY = b.tensor("dY", {3, 3});
  const auto g = b.derivative(Y, A, dY);
  const auto result = differentiate(b.p);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->terms.size(), 2u);
  const Program& p = result->program;
  EXPECT_TRUE(producer(p, "d(Y)/d(A)#1"));
  EXPECT_TRUE(producer(p, "d(Y)/d(A)#2"));
  for (const GradientTerm& term : result->terms) {
    EXPECT_EQ(term.form, GradientTerm::Form::Gather);
    EXPECT_EQ(term.inverse.state, Inverse::State::Gather);
    EXPECT_EQ(term.tensor, A);
    EXPECT_EQ(p[term.forward].name, "Y");
    EXPECT_EQ(p[term.access].op, ScalarOp::Load);
    ASSERT_TRUE(term.backward.valid());
    // A derived operator comes from its forward operator and from the access.
    EXPECT_EQ(p[p[term.backward].origin].pass, "differentiate");
  }
  EXPECT_NE(result->terms[0].backward, result->terms[1].backward);
  EXPECT_EQ(producers(p)[g.value].valid(), true);
}

TEST(GraphStructure, OriginsReachTheToken) {
  const std::string text = "input X[4] = zeros()\nparam W[4] = zeros()\nloss L = sum[i] W[i]*X[i]\nshow d(L)/d(W)\n";
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
  const auto result = differentiate(notebook.program);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->terms.size(), 1u);
  const Origin& origin = result->program[result->program[result->terms[0].backward].origin];
  ASSERT_EQ(origin.parents.size(), 2u);
  EXPECT_EQ(notebook.sources.text(result->program[origin.parents[1]].span), "W[i]");
}

TEST(GraphStructure, IndependentTensorsGetAnExplicitZero) {
  Build b;
  const auto X = b.tensor("X", {2}), Z = b.tensor("Z", {3});
  const auto L = b.op("L", {{"i", 2}}, 0, Reducer::Sum, b.load(X, {var(0)}));
  b.derivative(L, Z);
  const auto result = differentiate(b.p);
  ASSERT_EQ(result->terms.size(), 1u);
  EXPECT_EQ(result->terms[0].form, GradientTerm::Form::Zero);
  EXPECT_EQ(result->terms[0].why, "nothing leads from Z to L");
  EXPECT_TRUE(verify(result->program, Stage::Differentiated).empty());
}

TEST(GraphStructure, DataDependentAccessesScatterAndSayWhy) {
  Build b;
  const auto E = b.tensor("E", {5, 2}, TensorKind::Param), I = b.tensor("I", {3}, TensorKind::Input, DType::I32);
  const auto Y = b.op("Y", {{"n", 3}, {"d", 2}}, 2, Reducer::None, b.p.load(E, {{{}, b.load(I, {var(0)})}, {var(1), {}}}));
  const auto dY = b.tensor("dY", {3, 2});
  b.derivative(Y, E, dY);
  const auto result = differentiate(b.p);
  ASSERT_EQ(result->terms.size(), 1u);
  EXPECT_EQ(result->terms[0].form, GradientTerm::Form::Scatter);
  EXPECT_EQ(result->terms[0].why, "the index depends on data");
  EXPECT_EQ(result->program[result->terms[0].backward].kind, OperatorKind::Scatter);
}

// Strided convolution with a guard: the proof is refused, or does not end, and the gradient is the same numbers as a scatter.
TEST(GraphStructure, WithoutAProofTheGradientIsAScatter) {
  Build b;
  const auto X = b.tensor("X", {9}), W = b.tensor("W", {3});
  const IndexExpr at = 2 * var(0) + var(1) - IndexExpr(1);
  const ExprId x =
      b.p.select(b.p.cond(IndexCond::all({IndexCond::ge0(at), IndexCond::ge0(IndexExpr(8) - at)})), b.load(X, {at}), b.number(0));
  const auto Y = b.op("Y", {{"p", 5}, {"r", 3}}, 1, Reducer::Sum, b.mul(x, b.load(W, {var(1)})));
  const auto dY = b.tensor("dY", {5});
  const auto g = b.derivative(Y, X, dY);
  std::mt19937_64 rng(7);
  const TensorValues inputs = test::inputsFor(b.p, rng);
  const auto proved = differentiate(b.p);
  ASSERT_EQ(proved->terms.size(), 1u);
  ASSERT_EQ(proved->terms[0].form, GradientTerm::Form::Gather);
  const auto expected = test::values(proved->program, inputs, {g}).at(g).values;

  InvertOptions wrong, unfinished;
  wrong.sabotage = [](Inverse& inverse) { inverse.tGuards.clear(); };
  unfinished.certificateQuota = 1;
  for (const auto& [options, why] :
       {std::pair(wrong, "the proof failed"), {unfinished, "the proof did not end within its quota"}}) {
    const auto refused = differentiate(b.p, options);
    ASSERT_TRUE(refused.ok());
    ASSERT_EQ(refused->terms.size(), 1u);
    const GradientTerm& term = refused->terms[0];
    EXPECT_EQ(term.form, GradientTerm::Form::Scatter);
    EXPECT_EQ(term.why, why);
    EXPECT_EQ(term.inverse.state, Inverse::State::Uncertified);
    EXPECT_EQ(refused->program[term.backward].kind, OperatorKind::Scatter);
    EXPECT_TRUE(verify(refused->program, Stage::Differentiated).empty());
    const auto got = test::values(refused->program, inputs, {g}).at(g).values;
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  }
}

// Shown as a gather while its proof is under way; with the proof the same program, without one a scatter.
TEST(GraphStructure, ProofsUnderWay) {
  const Program source = compiled(
      "input X[8] = zeros()\nparam W[3] = zeros()\nY[p: 3] = sum[r: 3] X[2*p + r]*W[r]\nloss L = sum[p] Y[p]^2\n"
      "show d(L)/d(X)\n");
  for (const std::uint64_t quota : {1000000, 2}) {
    InvertOptions kept, typing;
    kept.interactiveQuota = 1;
    kept.certificateQuota = quota;
    InverseCache cache(kept);
    typing.cache = &cache;
    typing.putOffProofs = true;
    typing.explain = true;
    const auto states = [](const DifferentiateResult& result) {
      std::vector<Inverse::State> all;
      for (const GradientTerm& term : result.terms)
        if (term.form != GradientTerm::Form::Zero) all.push_back(term.inverse.state);
      return all;
    };
    const auto checking = differentiate(source, typing);
    using States = std::vector<Inverse::State>;
    EXPECT_EQ(states(*checking), (States{Inverse::State::Checking, Inverse::State::Checking}));
    EXPECT_TRUE(cache.settle());
    const auto settled = differentiate(source, typing);
    if (quota == 2) {
      EXPECT_EQ(settled->terms[1].form, GradientTerm::Form::Scatter);
      continue;
    }
    EXPECT_EQ(states(*settled), (States{Inverse::State::Gather, Inverse::State::Gather}));
    EXPECT_EQ(toText(settled->program), toText(checking->program));
    EXPECT_EQ(toText(settled->program), toText(differentiate(source)->program));
  }
}

// A load whose value passes only nodes without slope is a term of its own: zero, and why.
TEST(GraphStructure, FlatLoadsAreShown) {
  const auto zeroTerms = [](const std::string& body) {
    const auto result =
        differentiate(compiled("input X[4] = zeros()\nY[i] = " + body + "\nloss L = sum[i] Y[i]\nshow d(L)/d(X)\n"));
    std::vector<std::string> found;
    for (const GradientTerm& t : result->terms) {
      found.push_back((t.form == GradientTerm::Form::Zero ? "zero " : "gather ") + result->program[t.tensor].name + " " + t.why);
      EXPECT_TRUE(t.backward.valid());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(zeroTerms("X[i] * floor(X[3 - i])"), (Texts{"gather X ", "gather Y ", "zero X floor has slope 0"}));
  EXPECT_EQ(zeroTerms("X[i] * stop_gradient(X[i])"), (Texts{"gather X ", "gather Y ", "zero X stop_gradient cuts it"}));
  EXPECT_EQ(zeroTerms("select(X[i] > 0, X[i], 0)"), (Texts{"gather X ", "gather Y ", "zero X a condition has slope 0"}));
}

TEST(GraphStructure, ZeroByRuleIsAWarningWithItsReason) {
  const auto warned = [](const std::string& text, std::string_view at) {
    const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
    EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
    const auto result = differentiate(notebook.program);
    EXPECT_EQ(result->diagnostics.size(), 1u);
    if (result->diagnostics.size() != 1) return std::string();
    const Diagnostic& d = result->diagnostics[0];
    EXPECT_EQ(d.severity, Severity::Warning);
    EXPECT_EQ(d.code, "zero-derivative");
    EXPECT_EQ(notebook.sources.text(d.span), at);
    return d.message;
  };
  EXPECT_EQ(warned("input X[4] = zeros()\nloss L = sum[i] floor(2*X[i])\nshow d(L)/d(X)\n", "d(L)/d(X)"),
            "d(L)/d(X) is 0: L depends on X only where the slope is 0: floor has slope 0");
  EXPECT_EQ(warned("input X[4] = zeros()\nY[i] = 2*X[i]\nloss L = sum[i] floor(Y[i])\nshow d(L)/d(X)\n", "d(L)/d(X)"),
            "d(L)/d(X) is 0: L depends on X only where the slope is 0: floor has slope 0");
  EXPECT_EQ(warned("input X[4] = zeros()\nbest = argmax[i] X[i]\nloss L = float(best)\nshow d(L)/d(X)\n", "d(L)/d(X)"),
            "d(L)/d(X) is 0: L depends on X only where the slope is 0: best holds whole numbers");
  EXPECT_EQ(warned("input X[4] = zeros()\nloss L = sum[i: 4] X[i] ^ 0\nshow d(L)/d(X)\n", "d(L)/d(X)"),
            "d(L)/d(X) is 0: L depends on X only where the slope is 0: so is that of every way between them");
  // Only what lies between the two is named: L reads neither F nor what the loop counts.
  EXPECT_EQ(
      warned("input X[4] = zeros()\nW[i] = X[i]^0\nloss L = sum[i] W[i]\nF[i] = i32(X[i] * 10)\nshow d(L)/d(X), F\n", "d(L)/d(X)"),
      "d(L)/d(X) is 0: L depends on X only where the slope is 0: so is that of every way between them");
  EXPECT_EQ(warned("input X[4] = zeros()\nW[i] = X[i]^0\nh = 0 * W\nfor t in 0..3 {\n  h = h + W\n  stack F = i32(X[t])\n}\n"
                   "loss L = sum[i] h[i]\nshow d(L)/d(X), F\n",
                   "d(L)/d(X)"),
            "d(L)/d(X) is 0: L depends on X only where the slope is 0: so is that of every way between them");
  EXPECT_EQ(warned("input X[4] = zeros()\nF[i] = i32(X[i] * 10)\nbest = argmax[i] X[i]\nloss L = float(best)\nshow d(L)/d(X), F\n",
                   "d(L)/d(X)"),
            "d(L)/d(X) is 0: L depends on X only where the slope is 0: best holds whole numbers");
  EXPECT_EQ(warned("input X[4] = zeros()\ninput B[4] = zeros()\nloss L = sum[i] X[i]\nshow d(L)/d(B)\n", "d(L)/d(B)"),
            "d(L)/d(B) is 0: nothing leads from B to L");
  EXPECT_EQ(warned("input X[4] = zeros()\nloss L = sum[i] X[i]\nQ = 3*L\nshow d(L)/d(Q)\n", "d(L)/d(Q)"),
            "d(L)/d(Q) is 0: nothing leads from Q to L: Q is computed from L");
  EXPECT_EQ(warned("input X[5] = zeros()\nY[i: 3] = select(i > 5, X[i], 1)\nloss L = sum[i] Y[i]\nshow d(L)/d(X)\n", "d(L)/d(X)"),
            "d(L)/d(X) is 0: no point of Y reads X: none has i >= 6");
}

// An access that no point reads is a term with isl's word and the conditions that shut it out, none of them to spare.
TEST(GraphStructure, AccessesThatNoPointReadsAreTermsOfTheirOwn) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf",
                       {},
                       "input X[5] = zeros()\nY[i: 6, j: 4] = select(j < 3 and i + j >= 7 and i < 5, X[i], X[j])\n"
                       "loss L = sum[i, j] Y[i, j]\nshow d(L)/d(X)\n"});
  ASSERT_TRUE(notebook.ok());
  InvertOptions options;
  options.explain = true;
  const auto result = differentiate(notebook.program, options);
  EXPECT_TRUE(result->diagnostics.empty());
  const auto term = std::find_if(result->terms.begin(), result->terms.end(),
                                 [](const GradientTerm& t) { return t.form == GradientTerm::Form::Empty; });
  ASSERT_NE(term, result->terms.end());
  EXPECT_EQ(term->inverse.state, Inverse::State::Empty);
  EXPECT_EQ(term->inverse.excludedBy.size(), 3u);
  EXPECT_TRUE(term->backward.valid());
  EXPECT_EQ(result->program[result->program[term->backward].output].name, "d(L)/d(X)");
  const nlohmann::json json = explanationJson(result->program, *term, notebook.sources);
  EXPECT_EQ(json["form"], "empty");
  EXPECT_EQ(json["certificate"]["state"], "empty");
  EXPECT_EQ(json["excluded_by"].size(), 3u);
  EXPECT_NE(explanationText(result->program, *term, notebook.sources).find("proved: no point of the operator reads the tensor"),
            std::string::npos);

  AccessProblem read;  // the same without what shuts it out: isl says that it is read, so it is never taken for empty
  read.domain = {{0, 5}};
  read.access = {IndexExpr::variable(0)};
  read.shape = {5};
  EXPECT_EQ(certifyEmpty(read, 100000), false);
  read.guards = {IndexCond::ge0(IndexExpr::variable(0) - IndexExpr(5))};
  EXPECT_EQ(certifyEmpty(read, 100000), true);
}

// A gather that is differentiated again has axes like z0 and t0 itself: those of its inverse are called otherwise.
TEST(GraphStructure, TextsOfSecondOrderTellVariablesApart) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf",
                       {},
                       "input A[9] = zeros()\ninput W[3] = zeros()\nY[p: 4] = sum[r] A[2*p + r]*W[r]\nL = sum[p] Y[p]^2\n"
                       "M = sum[i] d(L)/d(A)[i]^2\nshow d(M)/d(W)\n"});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  InvertOptions options;
  options.explain = true;
  const auto result = differentiate(notebook.program, options);
  std::size_t renamed = 0;
  for (const GradientTerm& term : result->terms) {
    const nlohmann::json json = explanationJson(result->program, term, notebook.sources);
    for (const auto& [name, value] : json["y"].items())
      for (const auto& [forward, unused] : json["y"].items())
        EXPECT_EQ(value.get<std::string>().find(forward), std::string::npos) << forward << " in " << value;
    const std::string text = explanationText(result->program, term, notebook.sources);
    renamed += text.find("w0 = 2*t0 + z0 % 2, 0 <= w0 < 3") != std::string::npos;
  }
  EXPECT_EQ(renamed, 1u);
}

// Guards of any number are lines that a person can read.
TEST(GraphStructure, LongLinesOfADerivationAreBroken) {
  const CompiledNotebook notebook = compileNotebook(
      {"test.nf",
       {},
       "input X[6] = zeros()\nY[i: 5, j: 5, k: 5] = select(i + j != 3 and j + k != 4 and i + k != 2 and i + 2*j != 5 and "
       "k + 3*j != 7 and i + 3*k != 6 and j + 5*k != 8 and 2*i + k != 5, X[i], 0)\n"
       "loss L = sum[i, j, k] Y[i, j, k]^2\nshow d(L)/d(X)\n"});
  ASSERT_TRUE(notebook.ok());
  InvertOptions options;
  options.explain = true;
  const auto result = differentiate(notebook.program, options);
  std::size_t longest = 0, continued = 0;
  for (const GradientTerm& term : result->terms) {
    std::istringstream lines(explanationText(result->program, term, notebook.sources));
    for (std::string line; std::getline(lines, line);) {
      longest = std::max(longest, line.size());
      continued += line.starts_with("#         ");
    }
  }
  EXPECT_LE(longest, 120u);
  EXPECT_GT(continued, 0u);
}

// Counters by their names, of accesses in the body and of those that time is an axis of.
TEST(GraphStructure, DerivationsInLoopsNameTheCounter) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf",
                       {},
                       "input X[5, 4] = zeros()\ninput V[3] = zeros()\nh[i: 4] = 0.5\nfor step in 0..5 {\n"
                       "  h[i] = h[(i + step) % 4] * X[4 - step, i] + (V[i + 2*step] else 0) * select(step > 7, X[step, i], 1)\n}\n"
                       "loss L = sum[i] h[i]^2\nshow d(L)/d(X), d(L)/d(V)\n"});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  InvertOptions options;
  options.explain = true;
  const auto result = differentiate(notebook.program, options);
  std::set<std::string> accesses;
  for (const GradientTerm& term : result->terms) {
    const nlohmann::json json = explanationJson(result->program, term, notebook.sources);
    accesses.insert(json["access"].get<std::string>());
    for (const auto& [name, value] : json["y"].items()) EXPECT_TRUE(name == "i" || name == "step") << name;
    const std::string text = explanationText(result->program, term, notebook.sources);
    for (const char* number : {"y0", "y1", "v0", "v1", "v1048576"}) EXPECT_EQ(text.find(number), std::string::npos) << text;
  }
  for (const char* access : {"X[4 - step, i]", "h[(i + step) % 4]"}) EXPECT_TRUE(accesses.contains(access)) << access;
}

// The start of what a loop carries is `h#1`: nobody has written it. What is cut twice for one reason is one line.
TEST(GraphStructure, ReasonsOfZerosSpeakAsTheSourceDoes) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf",
                       {},
                       "input X[4] = zeros()\nh[i: 4] = 0.5\nfor t in 0..5 {\n  h[i] = h[i] * X[i]\n}\n"
                       "loss L = sum[i] (floor(h[i]) * floor(h[i] + 1) + floor(h[3 - i]))\nshow d(L)/d(X), d(L)/d(h)\n"});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  const auto result = differentiate(notebook.program);
  ASSERT_EQ(result->diagnostics.size(), 2u);
  EXPECT_EQ(result->diagnostics[1].message, "d(L)/d(h) is 0: L depends on h only where the slope is 0: floor has slope 0");
  std::multiset<std::string> cut;
  for (const GradientTerm& term : result->terms) {
    EXPECT_EQ(term.why.find('#'), std::string::npos) << term.why;
    if (term.cut.valid()) cut.insert(accessText(result->program, term));
  }
  EXPECT_EQ(cut, (std::multiset<std::string>{"h[3 - i]", "h[i]"}));
}

TEST(GraphStructure, LoopsWhoseLastStepNobodyReadsSaySo) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf",
                       {},
                       "input A[4] = zeros()\nh[i] = 0.5*A[i]\nfor t in 0..5 {\n  h[i] = 0.9*h[i] + t\n  stack H = h\n}\n"
                       "loss L = sum[t, i] H[t, i]^2\nshow d(L)/d(A), d(L)/d(h)\n"});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  const auto result = differentiate(notebook.program);
  std::vector<std::string> zeros;
  for (const GradientTerm& term : result->terms)
    if (term.form == GradientTerm::Form::Zero) zeros.push_back(term.why);
  EXPECT_EQ(zeros, (std::vector<std::string>{"nothing reads h after the loop", "nothing leads from h to L"}));
}

// What can't be differentiated is said with its place and reason, whether the language or the gradient notices.
TEST(GraphStructure, RefusalsPointAtTheSource) {
  const auto said = [](const std::string& text) {
    const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
    Diagnostics diagnostics = notebook.diagnostics;
    if (notebook.ok()) diagnostics = differentiate(notebook.program)->diagnostics;
    std::vector<std::string> all;
    for (const Diagnostic& d : diagnostics) all.push_back(std::string(notebook.sources.text(d.span)) + ": " + d.message);
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(said("input X[4] = zeros()\nbest = argmax[i] X[i]\nshow d(best)/d(X)\n"),
            (Texts{"d(best)/d(X): `best` holds integers: it has no derivative"}));
  EXPECT_EQ(said("input X[4] = zeros()\nY[i] = 2*X[i]\nshow d(Y)/d(X)\n"),
            (Texts{"d(Y)/d(X): `d(Y)/d(X)` needs a scalar, `Y` is f32 [4]"}));
  EXPECT_EQ(said("input X[16] = zeros()\nloss L = sum[i: 4] X[i*i]\nshow d(L)/d(X)\n"),
            (Texts{"i*i: this index is not affine: indices are added, and multiplied or divided by constants only"}));
}

TEST(GraphStructure, RefusalsNameWhatIsWrong) {
  Build b;
  const auto X = b.tensor("X", {2}), I = b.tensor("I", {2}, TensorKind::Input, DType::I32), seed = b.tensor("seed", {3});
  const auto Y = b.op("Y", {{"i", 2}}, 1, Reducer::None, b.load(X, {var(0)}));
  b.derivative(Y, X);
  b.derivative(Y, I, X);
  b.derivative(I, X, X);
  b.derivative(Y, X, seed);
  b.p[b.p.derivatives.back().result].name = "other";
  const auto result = differentiate(b.p);
  ASSERT_TRUE(result.ok());
  std::vector<std::string> codes;
  for (const Diagnostic& d : result->diagnostics) codes.push_back(d.code);
  EXPECT_EQ(codes,
            (std::vector<std::string>{"derivative-needs-seed", "derivative-by-integers", "derivative-of-integers", "seed-shape"}));
  EXPECT_EQ(result->diagnostics[0].message, "d(Y)/d(X) needs a scalar Y; use grad(Y, X, seed) with a seed of its shape");
  EXPECT_TRUE(verify(result->program, Stage::Differentiated).empty());  // whole all the same
}

TEST(GraphStructure, ADerivativeThatDependsOnItselfIsRefused) {
  Build b;
  const auto X = b.tensor("X", {2});
  const auto g = b.tensor("g", {2}, TensorKind::Intermediate);
  const auto L = b.op("L", {{"i", 2}}, 0, Reducer::Sum, b.mul(b.load(X, {var(0)}), b.load(g, {var(0)})));
  b.p.derivatives.push_back({L, X, g, {}, {}});
  const auto result = differentiate(b.p);
  ASSERT_EQ(result->diagnostics.size(), 1u);
  EXPECT_EQ(result->diagnostics[0].code, "circular-derivative");
}

TEST(GraphStructure, EqualDerivativesShareTheirWork) {
  Build b;
  const auto X = b.tensor("X", {2});
  const auto L = b.op("L", {{"i", 2}}, 0, Reducer::Sum, b.p.unary(ScalarOp::Sin, b.load(X, {var(0)})));
  const auto one = b.derivative(L, X);
  const auto two = b.tensor("two", {2}, TensorKind::Intermediate);
  b.p.derivatives.push_back({L, X, two, {}, {}});
  const Program p = test::differentiated(b.p);
  EXPECT_EQ(p.operators.size(), 3u);
  const auto got = test::values(p, {{X, {DType::F32, {2}, {1, 2}}}}, {one, two});
  EXPECT_EQ(got.at(one).values, got.at(two).values);
}

// A gradient penalty in the language: the loss is built on a derivative, and derived again.
TEST(GraphStructure, LossesMayBeBuiltOnDerivatives) {
  const Program source = compiled(
      "input X[3, 4] = zeros()\nparam W[4, 2] = zeros()\nH[b,n] = tanh(sum[i] X[b,i]*W[i,n])\nS = sum[b,n] H[b,n]^2\nG = "
      "d(S)/d(X)\n"
      "loss L = S + 0.1 * (sum[b,i] G[b,i]^2)\nshow d(L)/d(W)\n");
  std::mt19937_64 rng(test::testSeed(3));
  Program wanted = source;
  std::erase_if(wanted.derivatives, [&](const Derivative& d) { return source[d.of].name == "S"; });
  ASSERT_EQ(wanted.derivatives.size(), 1u);
  const Program made = test::differentiated(source);
  const TensorValues inputs = test::inputsFor(source, rng);
  const Derivative d = wanted.derivatives[0];
  const auto gradient = test::values(made, inputs, {d.result}).at(d.result).values;
  TensorValues moved = inputs;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    double slope = 0;
    for (const double h : {1e-6, -1e-6}) {
      moved[d.wrt].values[i] = inputs.at(d.wrt).values[i] + h;
      slope += test::values(made, moved, {d.of}).at(d.of).values[0] / (2 * h);
    }
    moved[d.wrt].values[i] = inputs.at(d.wrt).values[i];
    EXPECT_NEAR(gradient[i], slope, 1e-6 * (1 + std::fabs(slope)));
  }
}

// Half precision is a storage type: gradients have it too, their partial sums do not.
TEST(GraphStructure, HalfTensorsSumTheirPartialsInSingle) {
  Build b;
  const auto A = b.tensor("A", {3, 2}, TensorKind::Param, DType::F16);
  const auto Y =
      b.op("Y", {{"i", 3}, {"j", 3}, {"k", 2}}, 2, Reducer::Sum, b.mul(b.load(A, {var(0), var(2)}), b.load(A, {var(1), var(2)})));
  const auto dY = b.tensor("dY", {3, 3});
  const auto g = b.derivative(Y, A, dY);
  const Program p = test::differentiated(b.p);
  EXPECT_EQ(p[g].type, DType::F16);
  ASSERT_TRUE(p.tensorNamed("d(Y)/d(A)#2").valid());
  EXPECT_EQ(p[p.tensorNamed("d(Y)/d(A)#2")].type, DType::F32);
}

// The mask of a dropout is the same in the gradient, though it is computed over other axes there.
TEST(GraphStructure, RandomNumbersAreThoseOfTheForwardPass) {
  Build b;
  const auto X = b.tensor("X", {4, 3});
  const ExprId keep = b.p.binary(ScalarOp::Lt, b.p.random(0, 3 * var(0) + var(1)), b.number(0.5));
  const auto Y =
      b.op("Y", {{"i", 4}, {"j", 3}}, 2, Reducer::None, b.p.select(keep, b.load(X, {IndexExpr(3) - var(0), var(1)}), b.number(0)));
  const auto dY = b.tensor("dY", {4, 3});
  const auto g = b.derivative(Y, X, dY);
  const Program p = test::differentiated(b.p);
  const std::vector<double> ones(12, 1);
  const auto got = test::values(p, {{X, {DType::F32, {4, 3}, ones}}, {dY, {DType::F32, {4, 3}, ones}}}, {Y, g});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j) EXPECT_EQ(got.at(Y).values[i * 3 + j], got.at(g).values[(3 - i) * 3 + j]);
}

TEST(GraphStructure, DepthOfTheGraphCostsNoStack) {
  Build b;
  const auto X = b.tensor("X", {2});
  TensorId h = X;
  for (int i = 0; i < 20000; ++i)
    h = b.op("h" + std::to_string(i), {{"i", 2}}, 1, Reducer::None, b.mul(b.number(1.0001), b.load(h, {var(0)})));
  const auto L = b.op("L", {{"i", 2}}, 0, Reducer::Sum, b.load(h, {var(0)}));
  const auto g = b.derivative(L, X);
  const auto result = differentiate(b.p);
  ASSERT_TRUE(result.ok());
  const auto got = test::values(result->program, {{X, {DType::F32, {2}, {1, 1}}}}, {g});
  EXPECT_NEAR(got.at(g).values[0], std::pow(1.0001, 20000), 1e-9);
}

// Values of the outputs and derivatives by name before and after the passes that follow.
TEST(GraphStructure, TransformedGradientsKeepTheirValues) {
  for (const char* net : {"milstm", "scrnn", "sublstm", "lltm", "capsnet", "bert", "shufflenet"}) {
    SCOPED_TRACE(net);
    Program source = compiled(test::readText(std::string("models/") + net + ".nf"));
    const TensorId L = source.tensorNamed("L");
    const std::size_t count = source.tensors.size();
    for (std::size_t t = 0; t < count; ++t) {
      const Tensor wrt = source.tensors[t];
      if (wrt.kind == TensorKind::Intermediate || wrt.kind == TensorKind::State || !isFloating(wrt.type)) continue;
      Tensor result = wrt;
      result.name = "d(L)/d(" + wrt.name + ")";
      result.kind = TensorKind::Intermediate;
      const TensorId gradient = source.addTensor(result);
      source.derivatives.push_back({L, TensorId(t), gradient, {}, {}});
      source.outputs.push_back({result.name, gradient, OutputRole::Show});
    }
    source.updates.clear();
    const Program made = test::differentiated(source);
    std::mt19937_64 rng(17);
    std::map<std::string, TensorData> inputs;
    for (const Tensor& t : made.tensors) {
      if (t.kind == TensorKind::Intermediate) continue;
      inputs[t.name] = isFloating(t.type) ? test::randomData(t, rng) : TensorData{t.type, t.shape, {0, 1, 2}};
    }
    const auto outputs = [&](const Program& p) {
      TensorValues values;
      std::vector<TensorId> ids;
      for (std::size_t t = 0; t < p.tensors.size(); ++t)
        if (p.tensors[t].kind != TensorKind::Intermediate) values[TensorId(t)] = inputs.at(p.tensors[t].name);
      for (const Output& o : p.outputs) ids.push_back(o.tensor);
      const TensorValues got = test::values(p, values, ids);
      std::map<std::string, std::vector<double>> named;
      for (const Output& o : p.outputs) named[o.name] = got.at(o.tensor).values;
      return named;
    };
    const auto expected = outputs(made);
    ASSERT_GE(expected.size(), 3u);
    const auto same = [&](const char* pass, const Result<Program>& p) {
      SCOPED_TRACE(pass);
      ASSERT_TRUE(p.ok());
      for (const std::string& problem : verify(*p, Stage::Differentiated)) ADD_FAILURE() << problem;
      for (const auto& [name, values] : outputs(*p))
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], expected.at(name)[i], 1e-10 * (1 + std::fabs(values[i]))) << name << " at " << i;
    };
    same("simplify", simplifyScalars(made));
    same("merge", mergeEqualOperators(made));
    same("hoist", hoistLoops(made));
    same("unroll", unrollLoops(made));
    same("dead", removeDeadOperators(*hoistLoops(made)));
  }
}

}  // namespace
}  // namespace nf
