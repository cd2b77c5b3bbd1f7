// SPDX-License-Identifier: Apache-2.0
#include "core/session/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <semaphore>
#include <set>

#include "core/ir/serialize.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace protocol;

// An engine behind two pipes, as the workbench meets it.
class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(m_in), 0);
    ASSERT_EQ(pipe(m_out), 0);
    m_engine = std::async(std::launch::async, [this] {
      return runEngine(m_registry, m_in[0], m_out[1], {"neoflow test", "test", {}, {}});
    });
  }
  void TearDown() override {
    close(m_in[1]);
    EXPECT_EQ(m_engine.get(), 0);
    for (const int descriptor : {m_in[0], m_out[0], m_out[1]}) close(descriptor);
  }

  void sendBytes(const std::string& bytes) {
    ASSERT_EQ(write(m_in[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void send(const Message& message, RequestId id = 0) { sendBytes(encode(message, id) + "\n"); }
  void document(const std::string& text, std::uint64_t revision = 1) { send(DocumentReplaced{revision, "test.nf", "", text}); }

  Envelope next() {
    while (m_received.empty()) {
      char buffer[65536];
      const ssize_t count = read(m_out[0], buffer, sizeof buffer);
      if (count <= 0) {
        ADD_FAILURE() << "the engine closed its output";
        return {};
      }
      std::vector<Error> errors;
      for (Envelope& e : m_reader.feed(std::string_view(buffer, static_cast<std::size_t>(count)), errors))
        m_received.push_back(std::move(e));
      EXPECT_TRUE(errors.empty()) << (errors.empty() ? "" : errors[0].message);
    }
    Envelope e = std::move(m_received.front());
    m_received.pop_front();
    return e;
  }
  // The next message of this type; others before it are passed over.
  template <class T>
  T await(RequestId id = 0) {
    for (int i = 0; i < 1000; ++i) {
      const Envelope e = next();
      if (const T* m = std::get_if<T>(&e.message); m && e.id == id) return *m;
      if (const auto* failed = std::get_if<Failed>(&e.message); failed && e.id == id && id != 0) {
        ADD_FAILURE() << failed->stage << ": " << failed->message << " " << failed->detail;
        return {};
      }
    }
    ADD_FAILURE() << "no such message";
    return {};
  }

  BackendRegistry m_registry;
  int m_in[2], m_out[2];
  std::future<int> m_engine;
  FrameReader m_reader;
  std::deque<Envelope> m_received;
};

const char* const kNotebook =
    "# %% [markdown]\n# # A title\n\n# %%\ninput A[4, 6]\nparam W[5, 6] = normal(0, 1)\nY[i, k] = sum[j] A[i, j] * W[k, j]\n\n"
    "# %%\nloss L = mean[i, k] (relu(Y[i, k]) - 1)^2\nshow d(L)/d(W)\n";

TEST_F(EngineTest, SaysHelloAndAnalyses) {
  EXPECT_EQ(await<Hello>().program, "neoflow test");
  document(kNotebook);
  const Analysis a = await<Analysis>();
  EXPECT_EQ(a.revision, 1u);
  EXPECT_TRUE(a.diagnostics.empty());
  ASSERT_EQ(a.cells.size(), 3u);
  EXPECT_TRUE(a.cells[0].markdown);
  const auto y = std::find_if(a.tensors.begin(), a.tensors.end(), [](const TensorInfo& t) { return t.name == "Y"; });
  ASSERT_NE(y, a.tensors.end());
  EXPECT_EQ(y->shape, (std::vector<std::int64_t>{4, 5}));
  ASSERT_FALSE(y->origins.empty());
  const std::string text = kNotebook;
  const auto token = std::find_if(a.tokens.begin(), a.tokens.end(),
                                  [&](const TokenInfo& t) { return text.substr(t.begin, t.end - t.begin) == "A[i, j]"; });
  ASSERT_NE(token, a.tokens.end());
  EXPECT_EQ(token->tensor, "A");
}

TEST_F(EngineTest, AnAccessIsOneTokenInEveryFormulaItLedTo) {
  await<Hello>();
  const std::string text =
      "input A[1, 29]\nparam W[3, 3] = normal(0, 1)\nY[k, p] = sum[r] A[0, p*2 + r] * W[k, r]\nloss L = mean[k, p] Y[k, p]^2\n"
      "show Y, d(L)/d(W)\n";
  document(text);
  const Analysis a = await<Analysis>();
  ASSERT_TRUE(a.diagnostics.empty());
  ASSERT_EQ(a.cells.size(), 1u);
  EXPECT_EQ(a.cells[0].shows, (std::vector<std::string>{"Y", "d(L)/d(W)"}));
  const auto begin = static_cast<std::uint32_t>(text.find("A[0"));
  const auto span =
      std::find_if(a.spans.begin(), a.spans.end(), [&](const SourceSpan& s) { return s.begin == begin && s.source.empty(); });
  ASSERT_NE(span, a.spans.end());
  EXPECT_EQ(text.substr(span->begin, span->end - span->begin), "A[0, p*2 + r]");
  const auto id = static_cast<std::uint32_t>(span - a.spans.begin());
  std::uint64_t request = 10;
  for (const std::string& tensor : a.cells[0].shows) {
    send(ExpressionRequest{1, tensor, false}, request);
    const Expression e = await<Expression>(request++);
    int accesses = 0;
    for (const Formula& f : e.formulas) {
      ASSERT_TRUE(wellFormed(f));
      for (const FormulaNode& n : f.nodes)
        accesses += n.kind == FormulaKind::Subscript && std::find(n.origins.begin(), n.origins.end(), id) != n.origins.end() &&
                    f.nodes[n.children[0]].text == "A";
    }
    EXPECT_GE(accesses, 1) << tensor;
  }
}

TEST_F(EngineTest, IndicesAndDerivativesAreTrees) {
  await<Hello>();
  document(
      "input A[1, 29]\nparam W[3, 3] = normal(0, 1)\nY[k, p] = sum[r] A[0, p*2 + r] * W[k, r]\nloss L = mean[k, p] Y[k, p]^2\n"
      "show d(L)/d(W)\n");
  await<Analysis>();
  send(ExpressionRequest{1, "Y", false}, 4);
  const Formula y = await<Expression>(4).formulas.at(0);
  const auto has = [](const Formula& f, FormulaKind kind, const std::string& text) {
    return std::any_of(f.nodes.begin(), f.nodes.end(), [&](const FormulaNode& n) { return n.kind == kind && n.text == text; });
  };
  EXPECT_TRUE(has(y, FormulaKind::Number, "2"));
  EXPECT_TRUE(has(y, FormulaKind::Infix, "+"));
  EXPECT_TRUE(has(y, FormulaKind::Name, "p"));
  send(ExpressionRequest{1, "d(L)/d(W)", false}, 5);
  const Formula w = await<Expression>(5).formulas.at(0);
  const auto partial =
      std::find_if(w.nodes.begin(), w.nodes.end(), [](const FormulaNode& n) { return n.kind == FormulaKind::Partial; });
  ASSERT_NE(partial, w.nodes.end());
  EXPECT_EQ(w.nodes[partial->children[1]].kind, FormulaKind::Subscript);
}

// What a statement sums beside other terms is not written elsewhere: it is shown above, with what it sums itself.
TEST_F(EngineTest, SumsWithinAStatementAreShownWithIt) {
  await<Hello>();
  document(
      "input x[4] = 1\ninput y[3] = 2\nZ[j] = sum[i] y[i] * x[j]\nY[i] = sum[j] (x[j] + 2)*3 + y[i] + sum[j] Z[j]*y[i]\nshow Y\n");
  await<Analysis>();
  send(ExpressionRequest{1, "Y", false}, 4);
  const Expression e = await<Expression>(4);
  ASSERT_EQ(e.formulas.size(), 3u) << e.text;
  std::set<std::string> above, read;
  for (std::size_t i = 0; i < 2; ++i) {
    const Formula& f = e.formulas[i];
    EXPECT_TRUE(wellFormed(f));
    EXPECT_EQ(f.nodes[f.nodes.back().children[1]].kind, FormulaKind::Reduce);
    above.insert(f.name);
  }
  for (const FormulaNode& n : e.formulas[2].nodes)
    if (n.kind == FormulaKind::Name && n.text.starts_with("Y.")) read.insert(n.text);
  EXPECT_EQ(above, read);
  EXPECT_EQ(e.text.find("Z[j] ="), std::string::npos) << "another statement's: " << e.text;
}

// The formula of a scatter is an equation: its left side names an element, its right side sums over the points that reach it.
TEST_F(EngineTest, AScatterIsAnEquation) {
  await<Hello>();
  document("input x[9] : i32 = 0\nparam E[7, 2] = normal(0, 1)\nloss L = sum[z0, d] E[x[z0], d]^2\nshow d(L)/d(E)\n");
  await<Analysis>();
  send(ExpressionRequest{1, "d(L)/d(E)", false}, 4);
  const Expression e = await<Expression>(4);
  EXPECT_EQ(e.terms.at(0).certificate, CertificateState::Untried);
  const Formula& f = e.formulas.at(0);
  const FormulaNode& equation = f.nodes.back();
  ASSERT_EQ(equation.kind, FormulaKind::Equation);
  std::set<std::string> left;
  const std::function<void(std::uint32_t)> names = [&](std::uint32_t id) {
    if (f.nodes[id].kind == FormulaKind::Name) left.insert(f.nodes[id].text);
    for (const std::uint32_t child : f.nodes[id].children) names(child);
  };
  names(equation.children[0]);
  EXPECT_EQ(left, (std::set<std::string>{"L", "E", "z0'", "z1"}));
  const FormulaNode& sum = f.nodes[equation.children[1]];
  ASSERT_EQ(sum.kind, FormulaKind::Reduce);
  for (const FormulaAxis& axis : sum.axes) EXPECT_FALSE(left.contains(axis.name)) << axis.name;
  const FormulaNode& cases = f.nodes[sum.children[0]];
  ASSERT_EQ(cases.kind, FormulaKind::Cases);
  EXPECT_EQ(f.nodes[cases.children[0]].text, "and");
  EXPECT_TRUE(wellFormed(f));
}

// Guards within guards that lead to the same number read as one condition, as those of one access do.
TEST_F(EngineTest, NestedGuardsAreOneCondition) {
  await<Hello>();
  document(
      "input x[4] = 1\nY[i] = select(i > 0, select(x[i] > 0, select(x[i] < 9, x[i], 0), 0), 0)\n"
      "Z[i] = select(i > 0, select(x[i] > 0, x[i], 1), 0)\nshow Y, Z\n");
  await<Analysis>();
  const auto count = [](const Formula& f, FormulaKind kind, const std::string& text) {
    return std::count_if(f.nodes.begin(), f.nodes.end(), [&](const FormulaNode& n) { return n.kind == kind && n.text == text; });
  };
  send(ExpressionRequest{1, "Y", false}, 4);
  const Formula joined = await<Expression>(4).formulas.at(0);
  EXPECT_TRUE(wellFormed(joined));
  EXPECT_EQ(count(joined, FormulaKind::Cases, ""), 1);
  EXPECT_EQ(count(joined, FormulaKind::Infix, "and"), 2);
  send(ExpressionRequest{1, "Z", false}, 5);
  const Formula apart = await<Expression>(5).formulas.at(0);
  EXPECT_TRUE(wellFormed(apart));
  EXPECT_EQ(count(apart, FormulaKind::Cases, ""), 2);
  EXPECT_EQ(count(apart, FormulaKind::Infix, "and"), 0);
}

// What a gradient refers to and the notebook does not make, a reversed loop among it, is told with it.
TEST_F(EngineTest, EveryDerivedNameIsDefined) {
  await<Hello>();
  const std::string text =
      "input A[4]\nparam W[4] = normal(0, 1)\nh[i] = A[i]*0.5\nfor t in 0..5 {\n  h[i] = tanh(h[i]*W[i])\n}\n"
      "Y[i] = exp(h[i])\nloss L = sum[i] Y[i]^2\nshow h, d(L)/d(A)\n";
  document(text);
  ASSERT_TRUE(await<Analysis>().diagnostics.empty());
  send(ExpressionRequest{1, "d(L)/d(A)", false}, 4);
  const Expression e = await<Expression>(4);
  EXPECT_EQ(e.definitionCount, static_cast<std::int64_t>(e.definitions.size()));
  std::string all;
  for (const DerivedStatement& statement : e.definitions) all += statement.text + "\n";
  all += e.text;
  EXPECT_NE(all.find("for "), std::string::npos) << all;
  EXPECT_NE(all.find("d(L)/d(Y)"), std::string::npos) << all;
  EXPECT_EQ(all.find("exp(h[i])\nloss"), std::string::npos) << "what the notebook has stays a name";
  // Every quoted name, those of steps and sums, is the left side of a statement.
  for (std::size_t at = all.find('`'); at != std::string::npos; at = all.find('`', all.find('`', at + 1) + 1)) {
    const std::string name = all.substr(at, all.find('`', at + 1) - at + 1);
    bool defined = false;
    for (std::size_t k = all.find(name); k != std::string::npos; k = all.find(name, k + 1)) {
      const std::size_t line = all.rfind('\n', k) + 1, equals = all.find(" = ", k), end = std::min(all.find('\n', k), all.size());
      defined = defined || (equals < end && all.substr(line, k - line).find(" = ") == std::string::npos);
    }
    EXPECT_TRUE(defined) << name << " in\n" << all;
  }
  send(ExpressionRequest{1, "h", false}, 5);
  EXPECT_TRUE(await<Expression>(5).definitions.empty());
}

// A loop reads the same whatever stands before it, so that a cell with two gradients has it once.
TEST_F(EngineTest, ALoopThatTwoGradientsReferToIsOneStatement) {
  await<Hello>();
  document(
      "let H = 4\nparam A[H] = normal(0, 1)\nparam V[H, H] = normal(0, 0.3)\nconst h[H] = 0.25\nfor t in 0..3 {\n"
      "  h[j] = tanh(A[j] + sum[k] h[k] * V[j, k])\n  stack Hs = h\n}\nloss L = sum[j] h[j]^2\nshow d(L)/d(A), d(L)/d(V)\n");
  ASSERT_TRUE(await<Analysis>().diagnostics.empty());
  std::map<std::string, std::string> texts;
  std::size_t both = 0;
  for (const char* gradient : {"d(L)/d(A)", "d(L)/d(V)"}) {
    send(ExpressionRequest{1, gradient, false}, 4);
    for (const DerivedStatement& s : await<Expression>(4).definitions) {
      EXPECT_FALSE(s.tensor.empty());
      EXPECT_FALSE(s.origins.empty());
      const auto [known, added] = texts.emplace(s.tensor, s.text);
      both += !added;
      EXPECT_EQ(known->second, s.text) << gradient;
    }
  }
  EXPECT_GE(both, 1u);
}

// The proof is of the access in normal form; the one that was typed stands beside it.
TEST_F(EngineTest, ATermHasItsAccessAsItWasTyped) {
  await<Hello>();
  document(
      "input A[1, 29]\ninput B[3]\nparam W[3, 3] = normal(0, 1)\nY[k, p] = sum[r] A[0, p*2 + r] * W[ k,r ] * B[r]\n"
      "loss L = mean[k, p] Y[k, p]^2\nshow d(L)/d(A), d(L)/d(W)\n");
  await<Analysis>();
  send(ExpressionRequest{1, "d(L)/d(A)", false}, 4);
  const GradientTermInfo a = await<Expression>(4).terms.at(0);
  EXPECT_EQ(a.access, "A[0, 2*p + r]");
  EXPECT_EQ(a.written, "A[0, p*2 + r]");
  send(ExpressionRequest{1, "d(L)/d(W)", false}, 5);
  const GradientTermInfo w = await<Expression>(5).terms.at(0);
  EXPECT_EQ(w.access, "W[k, r]");
  EXPECT_EQ(w.written, "") << "spaces are no difference";
}

// Of several trainings the views show the step of one.
TEST_F(EngineTest, TheStepOfEveryTrainCanBeLookedAt) {
  await<Hello>();
  const std::string text =
      "# %%\ninput A[8] = normal(0, 1)\nparam W[8] = normal(0, 1)\nparam V[8] = normal(0, 1)\nH[i] = A[i]*W[i]\nG[i] = "
      "tanh(A[i]*V[i])\n"
      "loss La = mean[i] H[i]^2\nloss Lb = mean[i] G[i]^2\n# %%\ntrain La { optimizer = sgd(lr=0.1); steps = 3; wrt = W }\n"
      "# %%\ntrain Lb { optimizer = adam(lr=0.1); steps = 3; wrt = V }\n";
  struct Seen {
    std::uint32_t step = 0;
    std::set<std::string> made, decided;
    std::vector<std::string> programs;
  };
  std::uint64_t revision = 0;
  const auto lookAt = [&](std::uint32_t step) {
    send(DocumentReplaced{++revision, "test.nf", "", text, step});
    const Analysis a = await<Analysis>();
    EXPECT_TRUE(a.diagnostics.empty());
    Seen seen;
    seen.step = a.step;
    for (const auto& cell : a.cells) seen.programs.push_back(cell.train ? cell.train->program : "-");
    EXPECT_EQ(a.cells[1].train->number, 0u);
    EXPECT_EQ(a.cells[2].train->number, 1u);
    send(GraphRequest{revision, "fused", 0, 1000}, 2 * revision);
    for (const GraphNode& node : await<GraphPage>(2 * revision).nodes)
      if (!node.outsideStep) seen.made.insert(node.id);
    send(FusionRequest{revision}, 2 * revision + 1);
    for (const FusionDecisionInfo& d : await<FusionReport>(2 * revision + 1).decisions) seen.decided.insert(d.producer);
    return seen;
  };
  const Seen first = lookAt(0), second = lookAt(1), beyond = lookAt(7);
  EXPECT_EQ(first.step, 0u);
  EXPECT_EQ(second.step, 1u);
  EXPECT_EQ(beyond.step, 1u) << "the last that there is";
  EXPECT_EQ(beyond.made, second.made);
  EXPECT_TRUE(first.made.contains("H") && first.made.contains("W.next"));
  EXPECT_FALSE(first.made.contains("G") || first.made.contains("V.next"));
  EXPECT_TRUE(second.made.contains("G") && second.made.contains("V.next") && second.made.contains("d(Lb)/d(V)"));
  EXPECT_FALSE(second.made.contains("H") || second.made.contains("W.next"));
  EXPECT_FALSE(first.decided.contains("G"));
  EXPECT_TRUE(second.decided.contains("G"));
  // What a checkpoint is held against is known of the one that is looked at.
  EXPECT_FALSE(first.programs[1].empty());
  EXPECT_TRUE(first.programs[2].empty());
  EXPECT_TRUE(second.programs[1].empty());
  EXPECT_FALSE(second.programs[2].empty());
}

TEST_F(EngineTest, AParameterKnowsWhoReadsIt) {
  await<Hello>();
  const std::string text =
      "param W[4] = normal(0, 1)\ninput A[4]\nh[i] = A[i]\nfor t in 0..3 {\n  h[i] = tanh(h[i]*W[i])\n}\n"
      "loss L = sum[i] h[i]*W[3 - i]\n";
  document(text);
  const Analysis a = await<Analysis>();
  const auto tensor = [&](const std::string& name) {
    return *std::find_if(a.tensors.begin(), a.tensors.end(), [&](const TensorInfo& t) { return t.name == name; });
  };
  std::vector<std::string> read;
  for (const auto place : tensor("W").readers)
    read.push_back(text.substr(a.spans[place].begin, a.spans[place].end - a.spans[place].begin));
  std::sort(read.begin(), read.end());
  EXPECT_EQ(read, (std::vector<std::string>{"W[3 - i]", "W[i]"}));
  EXPECT_TRUE(tensor("L").readers.empty());
}

// Its access there is of each call; the place is one.
TEST_F(EngineTest, AParameterKnowsTheFunctionsThatReadIt) {
  await<Hello>();
  const std::string text =
      "param W[4] = normal(0, 1)\nparam V[4] = normal(0, 1)\ninput A[4]\n"
      "def cell(x[4]) -> y {\n  y[i] = x[i]*W[i]\n}\ndef twice(x[4]) -> y {\n  y = cell(cell(x))\n}\n"
      "h[i] = A[i]\nfor t in 0..3 {\n  h = cell(h)\n}\nB = twice(V)\n";
  document(text);
  const Analysis a = await<Analysis>();
  EXPECT_TRUE(a.diagnostics.empty());
  const auto readersOf = [&](const std::string& name) {
    std::set<std::string> read;
    for (const TensorInfo& t : a.tensors)
      if (t.name == name)
        for (const auto place : t.readers)
          read.insert(text.substr(a.spans[place].begin, a.spans[place].end - a.spans[place].begin));
    return read;
  };
  EXPECT_EQ(readersOf("W"), (std::set<std::string>{"W[i]", "cell", "twice"}));
  EXPECT_EQ(readersOf("V"), (std::set<std::string>{"V", "x", "x[i]"})) << "where it is handed over, and where it is read then";
}

TEST_F(EngineTest, WhatUpdatesAParameterIsNoAccessInTheText) {
  await<Hello>();
  const std::string text =
      "param W[4] = normal(0, 1)\nparam V[4] = normal(0, 1)\nY[i] = W[i]*2\nloss L = sum[i] Y[i]*V[3 - i]\n"
      "train L { optimizer = adam(lr=0.1); steps = 10 }\n";
  document(text);
  const Analysis a = await<Analysis>();
  for (const auto& [name, access] : {std::pair("W", "W[i]"), std::pair("V", "V[3 - i]")}) {
    const auto t = std::find_if(a.tensors.begin(), a.tensors.end(), [&](const TensorInfo& each) { return each.name == name; });
    ASSERT_NE(t, a.tensors.end());
    ASSERT_EQ(t->readers.size(), 1u) << name;
    const auto& place = a.spans[t->readers.front()];
    EXPECT_EQ(text.substr(place.begin, place.end - place.begin), access);
  }
}

TEST_F(EngineTest, WhatAnOptimizerKeepsIsOfItsPhase) {
  await<Hello>();
  document(
      "param W[4] = normal(0, 1)\nstate seen[4] = zeros()\nY[i] = W[i]*2 + seen[i]\nloss L = sum[i] Y[i]\n"
      "train L { optimizer = adam(lr=0.1); steps = 10 }\n");
  await<Analysis>();
  send(GraphRequest{1, "fused", 0, 1000}, 8);
  const GraphPage page = await<GraphPage>(8);
  const auto phaseOf = [&](const char* id) -> std::optional<protocol::Phase> {
    for (const GraphNode& node : page.nodes)
      if (node.id == id) return node.phase;
    return std::nullopt;
  };
  EXPECT_EQ(phaseOf("W"), protocol::Phase::Forward);
  EXPECT_EQ(phaseOf("seen"), protocol::Phase::Forward);
  EXPECT_EQ(phaseOf("W.adam.m"), protocol::Phase::Optimizer);
  EXPECT_EQ(phaseOf("W.adam.v"), protocol::Phase::Optimizer);
}

TEST_F(EngineTest, EditsAreRevisions) {
  await<Hello>();
  document("input A[4]\nB[i] = A[i] + 1\n");
  await<Analysis>();
  // 4 -> 7
  send(DocumentEdited{2, 8, 9, "7"});
  const Analysis a = await<Analysis>();
  EXPECT_EQ(a.revision, 2u);
  const auto b = std::find_if(a.tensors.begin(), a.tensors.end(), [](const TensorInfo& t) { return t.name == "B"; });
  ASSERT_NE(b, a.tensors.end());
  EXPECT_EQ(b->shape, std::vector<std::int64_t>{7});
  send(DocumentEdited{9, 0, 0, "x"}, 5);
  const Envelope e = next();
  const Failed* failed = std::get_if<Failed>(&e.message);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->stage, "revision");
}

TEST_F(EngineTest, MistakesComeWithTheirPlace) {
  await<Hello>();
  document("input A[4]\nB[i] = A[i] + C[i]\n");
  const Analysis a = await<Analysis>();
  ASSERT_FALSE(a.diagnostics.empty());
  EXPECT_EQ(a.diagnostics[0].line, 2u);
  EXPECT_EQ(a.diagnostics[0].column, 15u);
}

// A cell waits for what another one owes it, not for what it does not make itself because of that.
TEST_F(EngineTest, ACellWaitsForTheFunctionThatHoldsTheMistake) {
  await<Hello>();
  const auto waitsWith = [&](const std::string& mistake, std::uint64_t revision) {
    document("# %%\nparam A[3]\n# %%\ndef cell(h[3]) -> O {" + mistake +
                 "\n  O[d] = h[d] * A[d]\n}\n# %%\nB = cell(A)\n# %%\nC = B * B\nE = C + A\n",
             revision);
    const Analysis a = await<Analysis>();
    EXPECT_EQ(a.cells.size(), 4u);
    EXPECT_EQ(a.cells[1].status, CellStatus::Error);
    std::vector<std::vector<std::string>> waits;
    for (const auto& cell : a.cells) waits.push_back(cell.waits);
    return waits;
  };
  const std::vector<std::vector<std::string>> expected{{}, {}, {"cell"}, {"B"}};
  EXPECT_EQ(waitsWith(" +", 1), expected) << "the parser's";
  EXPECT_EQ(waitsWith("\n  Q[d] = nowhere[d]", 2), expected) << "a call's";
}

TEST_F(EngineTest, AMistakeCostsOnlyWhatUsesIt) {
  const std::string text = std::string(kNotebook) + "\n# %%\nZ[i] = nothing[i]\n\n# %%\nshow Z\n";
  document(text);
  const Analysis a = await<Analysis>();
  ASSERT_EQ(a.cells.size(), 5u);
  ASSERT_EQ(a.diagnostics.size(), 1u);
  EXPECT_EQ(a.cells[3].status, CellStatus::Error);
  EXPECT_EQ(a.cells[4].status, CellStatus::Ok);
  EXPECT_EQ(a.cells[4].waits, std::vector<std::string>{"Z"});
  EXPECT_EQ(a.cells[2].shows, std::vector<std::string>{"d(L)/d(W)"});
  EXPECT_FALSE(a.cells[1].summary.empty());
  EXPECT_FALSE(a.extents.empty());
  send(ExpressionRequest{1, "d(L)/d(W)", false}, 7);
  EXPECT_FALSE(await<Expression>(7).terms.empty());
  send(GraphRequest{1, "fused", 0, 1000}, 8);
  EXPECT_GT(await<GraphPage>(8).totalNodes, 3);
}

// Nothing asks for a result: what no other operator reads is one.
TEST_F(EngineTest, OperatorsWithoutALossGoThroughEveryStage) {
  document(
      "# %%\nlet N = 8\nparam A[N, N] = normal(0, 1)\nB[i, j] = A[j, i] * 2\n\n# %%\nC[i] = sum[j] B[i, j]\n\n# %%\nE[i] = A[i, i] "
      "+ 1\n");
  for (const char* stage : {"source", "differentiated", "transformed", "partitioned", "fused"}) {
    send(GraphRequest{1, stage, 0, 1000}, 8);
    const GraphPage page = await<GraphPage>(8);
    std::set<std::string> computed;
    for (const GraphNode& node : page.nodes) computed.insert(node.id);
    EXPECT_TRUE(computed.contains("C") && computed.contains("E")) << stage;
    ASSERT_EQ(page.stages.size(), 5u) << stage;
    for (const StageSummary& s : page.stages) EXPECT_GE(s.operators, 2) << s.stage;
    EXPECT_EQ(page.stages.front().operators, 3);
  }
  send(FusionRequest{1}, 9);
  const FusionReport report = await<FusionReport>(9);
  ASSERT_EQ(report.decisions.size(), 1u);
  EXPECT_EQ(report.decisions.front().producer, "B");
}

TEST_F(EngineTest, TheMeaningOfACellFollowsWhatItDependsOn) {
  const std::string cells =
      "# %%\nlet N = 4\nparam W[N] = normal(0, 1)\n# %%\nA[i] = W[i] + 1\nshow A\n# %%\nB[i] = W[i] * 2\nshow B\n";
  document(cells, 1);
  const Analysis first = await<Analysis>();
  EXPECT_TRUE(first.cells[0].meaning.empty());
  const auto after = [&](const std::string& what, const std::string& with, std::uint64_t revision) {
    std::string text = cells;
    text.replace(text.find(what), what.size(), with);
    document(text, revision);
    const Analysis now = await<Analysis>();
    return std::pair(now.cells[1].meaning == first.cells[1].meaning, now.cells[2].meaning == first.cells[2].meaning);
  };
  EXPECT_EQ(after("W[i] + 1", "W[i] + 2", 2), std::pair(false, true));
  EXPECT_EQ(after("let N = 4", "let N = 5", 3), std::pair(false, false));
  EXPECT_EQ(after("normal(0, 1)", "normal(0, 3)", 4), std::pair(false, false));
  EXPECT_EQ(after("B[i] = W[i] * 2", "# more\nB[k] = W[k]*2", 5), std::pair(true, true));
}

TEST_F(EngineTest, GradientIsProvedAndChecked) {
  await<Hello>();
  document(kNotebook);
  send(ExpressionRequest{1, "d(L)/d(W)", true}, 7);
  const Expression e = await<Expression>(7);
  EXPECT_EQ(e.shape, (std::vector<std::int64_t>{5, 6}));
  EXPECT_NE(e.text.find("sum"), std::string::npos);
  ASSERT_FALSE(e.formulas.empty());
  for (const Formula& f : e.formulas) EXPECT_TRUE(wellFormed(f));
  ASSERT_FALSE(e.terms.empty());
  EXPECT_EQ(e.terms[0].form, GradientForm::Gather);
  EXPECT_EQ(e.terms[0].certificate, CertificateState::Proved);
  EXPECT_FALSE(e.terms[0].derivation.empty());
  ASSERT_TRUE(e.check.has_value());
  EXPECT_EQ(e.check->samples, 30);
  EXPECT_LT(e.check->worst, e.check->allowed);
  ASSERT_EQ(e.check->worstSamples.size(), 8u);
  EXPECT_EQ(e.check->worstSamples[0].error, e.check->worst);
  EXPECT_EQ(e.check->worstSamples[0].element.size(), 2u);
  send(GradientRequest{1, "Y", "A", true}, 8);
  const Expression g = await<Expression>(8);
  EXPECT_EQ(g.shape, (std::vector<std::int64_t>{4, 6}));
  ASSERT_TRUE(g.check.has_value());
  EXPECT_LT(g.check->worst, g.check->allowed);
}

// What a numeric check has found stays with the gradient through edits that change nothing of what it compares, and no longer.
TEST_F(EngineTest, ACheckHoldsAsLongAsWhatItCompares) {
  await<Hello>();
  const std::string text =
      "param W[40] = normal(0, 1)\nZ[i] = tanh(W[i]) * 2\nloss L = sum[i] Z[i]^2\nU[i] = W[i] + 1\nshow d(L)/d(W)\n";
  std::uint64_t revision = 0;
  RequestId id = 6;
  const auto shown = [&](const std::string& with, bool further) {
    document(with, ++revision);
    send(ExpressionRequest{revision, "d(L)/d(W)", further}, ++id);
    return await<Expression>(id).check;
  };
  EXPECT_FALSE(shown(text, false)) << "nobody has asked for it";
  auto check = shown(text, true);
  ASSERT_TRUE(check);
  const auto with = [&](const std::string& what, const std::string& now) {
    std::string out = text;
    return out.replace(out.find(what), what.size(), now);
  };
  EXPECT_EQ(shown(with("W[i] + 1", "W[i] + 2"), false), check) << "nothing of L";
  EXPECT_EQ(
      shown(with("Z[i] = tanh(W[i]) * 2\nloss L = sum[i] Z[i]^2", "# more\nV[k] = tanh(W[k])*2\nloss L = sum[i] V[i]^2"), false),
      check)
      << "names and words";
  EXPECT_FALSE(shown(with("* 2", "* 3"), false)) << "another gradient";
  EXPECT_FALSE(shown(text, false)) << "what it was is gone";
  check = shown(text, true);
  EXPECT_FALSE(shown(with("normal(0, 1)", "normal(0, 2)"), false)) << "other values";
}

// A gradient that is zero by rule says so and why, as a term; what has none is refused with its place.
TEST_F(EngineTest, GradientsThatAreZeroByRuleSayWhy) {
  await<Hello>();
  document(
      "input X[4] = zeros()\ninput Z[4] = zeros()\nbest = argmax[i] X[i]\nloss L = sum[i] X[i] * floor(X[3 - i])\n"
      "M = sum[i] floor(2*X[i])\nshow d(L)/d(X)\n");
  send(GradientRequest{1, "L", "X", false}, 7);
  const Expression some = await<Expression>(7);
  ASSERT_EQ(some.terms.size(), 2u);
  const auto zero = std::find_if(some.terms.begin(), some.terms.end(), [](const auto& t) { return t.form == GradientForm::Zero; });
  ASSERT_NE(zero, some.terms.end());
  EXPECT_EQ(zero->access, "X[3 - i]");
  EXPECT_EQ(zero->why, "floor has slope 0");
  EXPECT_FALSE(zero->origins.empty());
  send(GradientRequest{1, "M", "X", false}, 8);
  const Expression all = await<Expression>(8);
  ASSERT_FALSE(all.terms.empty());
  for (const auto& term : all.terms) EXPECT_EQ(term.form, GradientForm::Zero);
  EXPECT_EQ(all.terms.back().why, "M depends on X only where the slope is 0: floor has slope 0");
  send(GradientRequest{1, "M", "Z", false}, 9);
  const Expression none = await<Expression>(9);
  ASSERT_EQ(none.terms.size(), 1u);
  EXPECT_EQ(none.terms[0].why, "nothing leads from Z to M");
  send(GradientRequest{1, "best", "X", false}, 10);
  const Failed refused = await<Failed>(10);
  EXPECT_EQ(refused.message, "best holds integers and has no derivative");
  EXPECT_NE(refused.detail.find(":3:"), std::string::npos) << refused.detail;
}

// While somebody types a gradient is shown before it is proved, and again when it is.
TEST(EngineProofs, CheckingThenProved) {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Envelope> received;
  FrameReader reader;
  Outbox outbox([&](std::string_view bytes) {
    std::vector<Error> errors;
    const std::lock_guard lock(mutex);
    for (Envelope& e : reader.feed(bytes, errors)) received.push_back(std::move(e));
    arrived.notify_all();
    return true;
  });
  const auto expression = [&](RequestId id) {
    for (;;) {
      std::unique_lock lock(mutex);
      arrived.wait(lock, [&] { return !received.empty(); });
      const Envelope e = std::move(received.front());
      received.pop_front();
      if (const auto* m = std::get_if<Expression>(&e.message); m && e.id == id) return *m;
    }
  };
  const auto certificates = [](const Expression& e) {
    std::set<CertificateState> all;
    for (const GradientTermInfo& term : e.terms) all.insert(term.certificate);
    return all;
  };
  BackendRegistry registry;
  Engine::Options options;
  options.invert.interactiveQuota = 1;  // no proof ends at once
  Engine engine(registry, outbox, options);
  engine.receive({0, DocumentReplaced{1, "test.nf", "", kNotebook}, {}});
  engine.receive({7, ExpressionRequest{1, "d(L)/d(W)", false}, {}});
  EXPECT_EQ(certificates(expression(7)), std::set{CertificateState::Checking});
  EXPECT_EQ(certificates(expression(0)), std::set{CertificateState::Proved});
  engine.receive({8, ExpressionRequest{1, "d(L)/d(W)", false}, {}});
  EXPECT_EQ(certificates(expression(8)), std::set{CertificateState::Proved});  // known from before
}

TEST_F(EngineTest, GraphComesInPagesByStage) {
  await<Hello>();
  document(kNotebook);
  send(GraphRequest{1, "source", 0, 2000}, 3);
  const GraphPage source = await<GraphPage>(3);
  send(GraphRequest{1, "fused", 0, 2000}, 4);
  const GraphPage fused = await<GraphPage>(4);
  EXPECT_GT(fused.nodes.size(), source.nodes.size());
  EXPECT_FALSE(fused.groups.empty());
  EXPECT_EQ(fused.stages.size(), 5u);
  std::vector<GraphNode> paged;
  for (std::int64_t offset = 0; offset < fused.totalNodes; offset += 2) {
    send(GraphRequest{1, "fused", offset, 2}, 10);
    const GraphPage page = await<GraphPage>(10);
    paged.insert(paged.end(), page.nodes.begin(), page.nodes.end());
  }
  EXPECT_EQ(paged, fused.nodes);
  send(FusionRequest{1}, 11);
  const FusionReport report = await<FusionReport>(11);
  EXPECT_FALSE(report.decisions.empty());
  send(DevicesRequest{}, 12);
  EXPECT_FALSE(await<Devices>(12).doctor.empty());
}

// A box of the graph says in a few words what it computes; one that is not derived yet says so, in its phase, with its origin.
TEST_F(EngineTest, NodesOfTheGraphSayWhatTheyCompute) {
  await<Hello>();
  document(
      "# %%\ninput X[4, 6]\nparam W[5, 6] = normal(0, 1)\n"
      "Y[i, k] = sum[j] X[i, j] * W[k, j]\nZ[i, k] = sqrt(Y[i, k]^2 + 1) / (2 - tanh(Y[i, k]))\n"
      "P[i, k: 5] = max[w: 3] Z[i, k + w - 1] else 0\nQ[i, k] = relu(P[i, k]) * -(Y[i, k] + 0.5)\n"
      "# %%\nloss L = mean[i, k] (Q[i, k] - 1)^2\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  const auto texts = [this](const char* stage, RequestId id) {
    send(GraphRequest{1, stage, 0, 2000}, id);
    std::map<std::string, GraphNode> out;
    for (const GraphNode& n : await<GraphPage>(id).nodes) out[n.id] = n;
    return out;
  };
  const auto source = texts("source", 3);
  EXPECT_EQ(source.at("Y").text, "Σ X·W");
  EXPECT_EQ(source.at("Z").text, "√(Y² + 1)/(2 − tanh(Y))");
  EXPECT_EQ(source.at("P").text, "max Z");
  EXPECT_EQ(source.at("Q").text, "relu(P)·−(Y + 0.5)");
  EXPECT_EQ(source.at("d(L)/d(W)").text, "not derived yet");
  EXPECT_EQ(source.at("d(L)/d(W)").phase, protocol::Phase::Backward);
  EXPECT_FALSE(source.at("d(L)/d(W)").origins.empty());
  const auto derived = texts("differentiated", 4);
  EXPECT_EQ(derived.at("d(L)/d(W)").text, "Σ d(L)/d(Y)·X");
  for (const auto& [id, node] : derived) {
    if (node.kind != NodeKind::Operator) continue;
    EXPECT_FALSE(node.text.empty()) << id;
    EXPECT_EQ(node.text.find('['), std::string::npos) << node.text;
    EXPECT_FALSE(node.origins.empty()) << id;
  }
}

// An edit ends the passes of the older text: they are not remembered, and the answer is of the text that came.
TEST(RevisionTest, PassesThatAreOutdatedAreMadeAnew) {
  const Source source{"test.nf", {}, "input X[8, 4]\nA[i] = sum[j] X[i,j]\nB[i] = exp(A[i])\nC[i] = B[i] + A[i]\nshow C\n"};
  int all = 0;
  FusionInputs counting;
  counting.outdated = [&] { return ++all, false; };
  ASSERT_TRUE(Revision(1, source, {}).stages(counting).ok());
  EXPECT_GT(all, 4);
  const Revision revision(1, source, {});
  for (int calls = 0; calls < all; ++calls) {
    FusionInputs inputs;
    int left = calls;
    inputs.outdated = [&] { return left-- <= 0; };
    const auto ended = revision.stages(inputs);
    ASSERT_FALSE(ended.ok());
    EXPECT_TRUE(isOutdated(ended.error()));
  }
  const auto stages = revision.stages({});
  ASSERT_TRUE(stages.ok());
  ASSERT_TRUE((*stages)->fused);
  FusionInputs hasty;
  hasty.outdated = [] { return true; };
  EXPECT_TRUE(revision.stages(hasty).ok()) << "what is known is known";
}

// A device that is measured again is what fusion is decided by: every R is the sum of its terms by the new constants, and the plan is
// what those give.
TEST(RevisionTest, FusionIsDecidedAnewByConstantsThatWereMeasuredAgain) {
  const Source source{
      "test.nf",
      {},
      "input X[32, 16] = normal(0, 1)\nparam W[16] = normal(0, 1)\nE[i,j] = exp(tanh(X[i,j] * W[j]) + sin(X[i,j]))\n"
      "S[i] = sum[j] E[i,j]\nT[j] = sum[i] E[i,j]^2\nloss L = mean[i] S[i]^2 + mean[j] T[j]^2\n"
      "train L { optimizer = sgd(lr=0.1); steps = 3 }\n"};
  const Revision revision(1, source, {});
  FusionInputs inputs;
  std::shared_ptr<const Stages> before;
  std::set<std::string> plans;
  for (const nf::DeviceConstants& device :
       {nf::DeviceConstants{1e10, 5e10, 1e-6}, nf::DeviceConstants{2e10, 5e10, 1e-9}, nf::DeviceConstants{1e12, 1e9, 0}}) {
    inputs.device = device;
    const auto stages = revision.decidedStages(inputs);
    ASSERT_TRUE(stages.ok());
    ASSERT_TRUE(*stages && (*stages)->fused);
    EXPECT_NE(*stages, before);
    before = *stages;
    EXPECT_EQ(*revision.decidedStages(inputs), before) << "decided once";
    ASSERT_FALSE(before->decisions.empty());
    for (const FusionDecision& d : before->decisions)
      EXPECT_NEAR(d.R, d.repeats * (d.dT / device.bandwidth + d.dC / device.flopRate + d.dK * device.launchSeconds),
                  1e-12 * std::abs(d.R) + 1e-18)
          << d.producer << " -> " << d.consumer;
    plans.insert(toJson(*before->fused).dump());
    const Revision other(2, source, {});
    const auto fresh = other.decidedStages(inputs);
    ASSERT_TRUE(fresh.ok());
    EXPECT_EQ((*fresh)->decisions.size(), before->decisions.size());
    EXPECT_TRUE(plans.contains(toJson(*(*fresh)->fused).dump())) << "as if it had been so from the beginning";
  }
  EXPECT_GT(plans.size(), 1u) << "the constants here decide otherwise";
}

TEST_F(EngineTest, AnEditWhileAnAnswerIsMadeIsAnsweredOnceAndOfTheNewText) {
  const auto chain = [](int operators) {
    std::string text = "input X[16, 16]\nT0[i,j] = X[i,j] + 1\n";
    for (int i = 1; i < operators; ++i)
      text += "T" + std::to_string(i) + "[i,j] = exp(T" + std::to_string(i - 1) + "[i,j]) + " + std::to_string(i) + "\n";
    return text + "show T" + std::to_string(operators - 1) + "\n";
  };
  document(chain(400), 1);
  send(GraphRequest{.revision = 1, .stage = "fused", .limit = 10000}, 5);
  document(chain(3), 2);
  send(GraphRequest{.revision = 2, .stage = "fused", .limit = 10000}, 6);
  EXPECT_EQ(await<GraphPage>(5).stage, "fused");
  const auto second = await<GraphPage>(6);
  EXPECT_EQ(second.revision, 2u);
  EXPECT_EQ(
      std::count_if(second.nodes.begin(), second.nodes.end(), [](const GraphNode& n) { return n.kind == NodeKind::Operator; }), 3);
}

// A proof that takes minutes: a newer text ends it, and so does the end of the engine.
TEST(EngineStopTest, AProofIsEndedByANewerTextAndByTheEnd) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Envelope> received;
  FrameReader reader;
  Outbox outbox([&](std::string_view bytes) {
    std::vector<Error> errors;
    const std::lock_guard lock(mutex);
    for (Envelope& e : reader.feed(bytes, errors)) received.push_back(std::move(e));
    changed.notify_all();
    return true;
  });
  std::counting_semaphore<> begun(0);
  Engine::Options options;
  options.invert.pruneQuota = 1;
  options.invert.interactiveQuota = options.invert.certificateQuota = ~std::uint64_t{0};
  options.invert.accessMilliseconds = options.invert.proofMilliseconds = 1e9;
  options.invert.sabotage = [&](Inverse& inverse) {
    inverse.tripsPerZ = 1;  // that it pays
    begun.release();
  };
  const std::string slow =
      "input A[97] = normal(0, 1)\n"
      "loss L = sum[i: 300, j: 300] A[((i//2%3 + i//5%7*2 + i//11%13)*3 + (j//3%5 + j//7%11))%97]\nshow d(L)/d(A)\n";
  BackendRegistry registry;
  Engine engine(registry, outbox, options);
  engine.receive({0, DocumentReplaced{1, "test.nf", "", slow}, {}});
  engine.receive({5, ExpressionRequest{1, "d(L)/d(A)", false}, {}});
  begun.acquire();
  engine.receive({0, DocumentReplaced{2, "test.nf", "", "input A[9] = normal(0, 1)\nloss L = sum[i] A[i]\nshow d(L)/d(A)\n"}, {}});
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return std::any_of(received.begin(), received.end(), [](const Envelope& e) { return e.id == 5; }); });
    for (const Envelope& e : received)
      if (e.id == 5) {
        ASSERT_TRUE(std::holds_alternative<Expression>(e.message)) << encode(e.message);
        EXPECT_EQ(std::get<Expression>(e.message).revision, 2u);
      }
  }
  while (begun.try_acquire()) {}
  engine.receive({0, DocumentReplaced{3, "test.nf", "", slow}, {}});
  engine.receive({6, SubgraphsRequest{3}, {}});
  begun.acquire();  // the end of the engine, now, must not wait for it
}

TEST_F(EngineTest, HostileInputIsAnsweredNotDiedOf) {
  await<Hello>();
  sendBytes("this is no json\n{\"type\":\"no such message\"}\n{\"type\":\"get_graph\",\"id\":4,\"stage\":\"nonsense\"}\n");
  int failures = 0;
  for (int i = 0; i < 2; ++i) failures += std::holds_alternative<Failed>(next().message);
  EXPECT_EQ(failures, 2);
  document(std::string(5000, '['));
  EXPECT_FALSE(await<Analysis>().diagnostics.empty());
  document("\xff\xfe\x00garbage", 2);
  EXPECT_EQ(await<Analysis>().revision, 2u);
}

// What `neoflow check` says of files is in the analysis, too: it is sent again once they have been read, and at once while they are at fault.
TEST_F(EngineTest, MistakesInFilesAreOfTheAnalysis) {
  await<Hello>();
  const fakes::Folder folder;
  const auto told = [](const Analysis& a) {
    std::string text;
    for (const auto& d : a.diagnostics) text += d.message + "\n";
    return text;
  };
  const auto text = [](const std::string& file, int column) {
    return "# %%\ndata D = csv(\"" + file + "\") { split = last 1 }\ninput X[2] = batch D[:, " + std::to_string(column) +
           "]\n# %%\nshow X\n";
  };
  std::ofstream(folder.path("a.csv")) << "1,2\n3,4\n5,6\n";
  std::uint64_t revision = 0;
  const auto replaced = [&](const std::string& source) {
    send(DocumentReplaced{++revision, "test.nf", folder.path(""), source});
    return await<Analysis>();
  };
  EXPECT_EQ(told(replaced(text("b.csv", 0))), "") << "nothing waits for a file";
  const Analysis missing = await<Analysis>();
  EXPECT_EQ(missing.revision, revision);
  EXPECT_THAT(told(missing), testing::HasSubstr("b.csv"));
  EXPECT_EQ(missing.cells.at(0).status, CellStatus::Error);
  EXPECT_NE(missing.cells.at(1).status, CellStatus::Error);
  // While it is at fault a mistake does not come and go.
  EXPECT_THAT(told(replaced("# a word\n" + text("b.csv", 0))), testing::HasSubstr("b.csv"));
  EXPECT_THAT(told(replaced(text("a.csv", 5))), testing::HasSubstr("which has 2 columns"));
  EXPECT_EQ(told(replaced(text("a.csv", 1))), "");
}

}  // namespace
}  // namespace nf
