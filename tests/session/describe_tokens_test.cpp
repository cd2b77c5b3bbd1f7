// SPDX-License-Identifier: Apache-2.0
// What a click into the text selects.
#include "core/session/describe_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace nf {
namespace {

class Clicked {
 public:
  explicit Clicked(const std::string& text) : m_text(text), m_notebook(compileNotebook({"clicked.nf", "", text})) {
    EXPECT_TRUE(m_notebook.ok()) << render(m_notebook.diagnostics, m_notebook.sources);
    const OriginSpans spans(m_notebook.program, m_notebook.sources, m_notebook.notebook, m_notebook.references);
    m_spans = spans.spans();
    m_tokens = describeTokens(m_notebook, spans);
    m_expansions = describeExpansions(m_notebook, spans);
  }

  // The token of exactly `word`, at its place `before` bytes after where `context` begins.
  std::optional<protocol::TokenInfo> at(const std::string& context, std::size_t before, const std::string& word) const {
    const std::size_t begin = m_text.find(context) + before;
    EXPECT_EQ(m_text.substr(begin, word.size()), word);
    for (const auto& t : m_tokens)
      if (t.begin == begin && t.end == begin + word.size()) return t;
    return std::nullopt;
  }
  std::string tensor(const std::string& context, std::size_t before, const std::string& word) const {
    const auto token = at(context, before, word);
    if (!token) return "no token";
    // Where the text selects it: the table of places has exactly this one.
    for (const auto o : token->origins)
      if (m_spans.at(o).source.empty() && m_spans[o].begin == token->begin && m_spans[o].end == token->end) return token->tensor;
    return "no place";
  }
  // What the calls of a function make, or read, of a place in its body.
  std::vector<std::string> expanded(const std::string& word) const {
    const std::size_t begin = m_text.find(word);
    for (const auto& e : m_expansions)
      if (m_spans.at(e.span).begin == begin && m_spans[e.span].end == begin + word.size()) return e.tensors;
    return {"no place"};
  }
  bool hasPlace(const std::string& context, std::size_t length) const {
    const std::size_t begin = m_text.find(context);
    return std::any_of(m_spans.begin(), m_spans.end(),
                       [&](const auto& s) { return s.source.empty() && s.begin == begin && s.end == begin + length; });
  }

 private:
  std::string m_text;
  CompiledNotebook m_notebook;
  std::vector<protocol::SourceSpan> m_spans;
  std::vector<protocol::TokenInfo> m_tokens;
  std::vector<protocol::ExpansionInfo> m_expansions;
};

TEST(Tokens, WhatACallMakesAndItsArgumentsAreTensors) {
  const Clicked c(
      "def twice(x[N]) -> y {\n  z[i] = x[i] + x[i]\n  y[i] = z[i]*x[i]\n}\n"
      "def both(x[N]) -> p, q {\n  p[i] = x[i] + 1\n  q[i] = x[i] - 1\n}\n"
      "def total(x[N]) -> s {\n  s = sum[i] x[i]*x[i]\n}\n"
      "param A[4] = normal(0, 1)\nB = twice(A)\nD, E = both(B)\nF[i] = D[i]*E[i]\nloss L = total(F)\nshow B, d(L)/d(A)\n");
  EXPECT_EQ(c.tensor("B = twice", 0, "B"), "B");
  EXPECT_EQ(c.tensor("B = twice", 4, "twice"), "B") << "the function stands for what it makes here";
  EXPECT_EQ(c.tensor("twice(A)", 6, "A"), "A");
  EXPECT_EQ(c.tensor("D, E", 0, "D"), "D");
  EXPECT_EQ(c.tensor("D, E", 3, "E"), "E");
  EXPECT_EQ(c.tensor("both(B)", 5, "B"), "B");
  EXPECT_EQ(c.tensor("loss L", 5, "L"), "L");
  EXPECT_EQ(c.tensor("total(F)", 0, "total"), "L");
  EXPECT_EQ(c.tensor("total(F)", 6, "F"), "F");
  EXPECT_EQ(c.tensor("show B", 5, "B"), "B");
  EXPECT_EQ(c.tensor("d(L)/d(A)", 0, "d(L)/d(A)"), "d(L)/d(A)");
  EXPECT_EQ(c.tensor("D[i]*E[i]", 0, "D[i]"), "D") << "an access is one token";
  EXPECT_FALSE(c.hasPlace("D[i]*E[i]", 1)) << "whose name is no place of its own";
  EXPECT_FALSE(c.at("x[i] + x[i]", 0, "x[i]")) << "what stands in a function means another tensor at every call";
}

TEST(Tokens, InALoopTheyAreWhatItReadsAndWhatItMakes) {
  const Clicked c(
      "input X[2, 5, 3] = normal(0, 1)\nparam U[4, 3] = normal(0, 1)\nparam V[4, 4] = normal(0, 1)\nparam W[4] = 1\n"
      "h[n: 2, i: 4] = 0\n"
      "for s in 0..5 {\n"
      "  z[n, i] = sum[k] U[i, k]*X[n, s, k]\n"
      "  a[n, i] = z[n, i]*2\n"
      "  h[n, i] = tanh(a[n, i] + sum[j] V[i, j]*h[n, j])\n"
      "  stack As = a\n"
      "}\n"
      "loss L = sum[n, i] h[n, i]*W[i] + sum[s, n, i] As[s, n, i]\n");
  EXPECT_EQ(c.tensor("V[i, j]", 0, "V[i, j]"), "V");
  EXPECT_EQ(c.tensor("U[i, k]", 0, "U[i, k]"), "U");
  EXPECT_EQ(c.tensor("X[n, s, k]", 0, "X[n, s, k]"), "X");
  EXPECT_EQ(c.tensor("h[n: 2", 0, "h"), "h#1") << "what it begins with";
  const std::string last = c.tensor("h[n, i]*W", 0, "h[n, i]");
  EXPECT_EQ(last, "h");
  EXPECT_EQ(c.tensor("h[n, i] = tanh", 0, "h"), last) << "what it makes in the end";
  EXPECT_EQ(c.tensor("h[n, j]", 0, "h[n, j]"), last);
  EXPECT_EQ(c.at("h[n, j]", 0, "h[n, j]")->inside, "h#1") << "what the step takes";
  EXPECT_EQ(c.tensor("a[n, i] = z", 0, "a"), "As") << "it is kept by the stack";
  const auto local = c.at("z[n, i]*2", 0, "z[n, i]");
  ASSERT_TRUE(local);
  EXPECT_EQ(local->tensor, "") << "nothing keeps it";
  EXPECT_EQ(local->inside, "z");
  EXPECT_FALSE(c.at("for s in", 4, "s")) << "the counter names no tensor";
  EXPECT_EQ(c.at("h[n, i]*W", 0, "h[n, i]")->inside, "");
}

// What a step alone makes has no tensor around the loop: what the loop makes of the call stands for it.
TEST(Tokens, AFunctionThatALoopCallsHasPlacesInItsBody) {
  const Clicked c(
      "param A[6, 6] = normal(0, 0.3)\nconst h[4, 6] = 0.5\nconst c[4, 6] = zeros()\n"
      "def cell(h[B, D]) -> O {\n  P[b, d] = sum[e] h[b, e] * A[d, e]\n  O[b, d] = tanh(P[b, d]) + 1\n}\n"
      "for t in 0..3 {\n  c[i, j] = c[i, j] + h[i, j]\n  h = cell(h)\n}\n"
      "loss L = sum[b, d] h[b, d] * c[b, d]\nshow d(L)/d(A)\n");
  using Names = std::vector<std::string>;
  EXPECT_EQ(c.expanded("P[b, d] = sum[e] h[b, e] * A[d, e]"), Names{"h"});
  EXPECT_EQ(c.expanded("A[d, e]"), Names{"A"});
  EXPECT_EQ(c.expanded("O[b, d] = tanh(P[b, d]) + 1"), Names{"h"});
}

TEST(Tokens, OfLoopsInLoops) {
  const Clicked c(
      "param V[3] = normal(0, 1)\nh[i: 3] = 0\n"
      "for s in 0..2 {\n  g[i: 3] = 0\n  for t in 0..2 {\n    g[i] = g[i]*V[i] + 1\n  }\n  h[i] = h[i] + g[i]\n}\nshow h\n");
  EXPECT_EQ(c.tensor("V[i]", 0, "V[i]"), "V");
  EXPECT_EQ(c.tensor("g[i]*V", 0, "g[i]"), "") << "the inner loop's tensor is of the outer one's body";
  EXPECT_EQ(c.tensor("h[i] + g", 0, "h[i]"), c.tensor("show h", 5, "h"));
}

}  // namespace
}  // namespace nf
