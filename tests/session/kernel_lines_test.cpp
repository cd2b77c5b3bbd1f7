// SPDX-License-Identifier: Apache-2.0
// What lines of a kernel and of its expression came from.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/session/engine_jobs.h"
#include "tests/session/engine_process.h"

namespace nf {
namespace {

using namespace protocol;

struct KernelLines : EngineJobs {
  void open(const std::string& notebook) {
    text = notebook;
    engine.send(DocumentReplaced{1, "test.nf", m_folder.path(""), text});
    spans = engine.await<Analysis>().spans;
  }
  std::string word(std::uint32_t span) const { return text.substr(spans[span].begin, spans[span].end - spans[span].begin); }

  EngineProcess engine{m_folder.path("")};
  std::string text;
  std::vector<SourceSpan> spans;
};

// The same expression in two cells is one kernel; its lines came from both.
TEST_F(KernelLines, ALineOfAKernelCameFromEveryPlaceThatHasIt) {
  open(
      "# %%\ninput A[8, 16] = normal(0, 1)\nP[i] = sum[k] A[i, k] * A[i, k]\nshow P\n"
      "# %%\ninput B[8, 16] = normal(0, 1)\nQ[i] = sum[k] B[i, k] * B[i, k]\nshow Q\n");
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  ASSERT_EQ(subgraphs.size(), 1u);
  EXPECT_EQ(subgraphs[0].callsPerStep, 2);
  const auto kernel = engine.ask<Kernel>(KernelRequest{subgraphs[0].id, {}, {"loops"}});
  ASSERT_EQ(kernel.texts.size(), 1u);
  std::set<std::string> tokens;
  for (const Origins& line : kernel.texts[0].lineOrigins)
    for (const std::uint32_t o : line) tokens.insert(word(o));
  EXPECT_TRUE(tokens.contains("A[i, k]"));
  EXPECT_TRUE(tokens.contains("B[i, k]"));
  ASSERT_EQ(kernel.expressionPlaces.size(), 1u);
  tokens.clear();
  for (const std::uint32_t o : kernel.expressionPlaces[0]) tokens.insert(word(o));
  EXPECT_TRUE(tokens.contains("A[i, k]"));
  EXPECT_TRUE(tokens.contains("B[i, k]"));
}

// In a function, and in a loop, whose body has no nodes.
TEST_F(KernelLines, ALineOfAnExpressionHasThePlacesOfItsStatement) {
  open(
      "def twice(x[8, 6]) -> y {\n  y[n, i] = tanh(x[n, i]) * 2 }\n"
      "input X[8, 6] = normal(0, 1)\nparam V[6, 6] = normal(0, 0.1)\nT = twice(X)\nh[n: 8, i: 6] = 0\n"
      "for s in 0..12 {\n  z[n, i] = sum[j] V[i, j]*h[n, j]\n  h[n, i] = sigmoid(z[n, i] + T[n, i])\n}\n"
      "loss L = mean[n, i] h[n, i]^2\ntrain L { steps = 20; optimizer = sgd(lr=0.1) }\n");
  std::map<std::string, std::set<std::string>> written;  // by what a line makes
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
    const auto kernel = engine.ask<Kernel>(KernelRequest{s.id, {}, {"loops"}});
    std::istringstream lines(kernel.expression);
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line); ++number) {
      ASSERT_LT(number, kernel.expressionPlaces.size());
      auto& places = written[line.substr(0, line.find('['))];
      for (const std::uint32_t o : kernel.expressionPlaces[number]) places.insert(word(o));
    }
    EXPECT_EQ(kernel.expressionPlaces.size(), number);
  }
  const auto has = [&](const std::string& tensor, const std::string& place) { return written[tensor].contains(place); };
  EXPECT_TRUE(has("T", "x[n, i]"));
  EXPECT_TRUE(has("T", "twice"));
  EXPECT_TRUE(has("z", "V[i, j]"));
  EXPECT_TRUE(has("h", "T[n, i]"));
  EXPECT_FALSE(has("h", "V[i, j]"));
  EXPECT_FALSE(has("z", "T[n, i]"));
}

// What is computed where it is read leaves no read behind: the line knows the access, in a function too. What a line does itself
// stands first.
TEST_F(KernelLines, ALineCameFromTheAccessesThatWereComputedInPlace) {
  open(
      "def twice(x[n, m]) -> y {\n  u[i, k] = tanh(x[i, k])\n  y[i, k] = u[i, k] * 2 }\n"
      "input X[8, 16] = normal(0, 1)\nP[i, k] = X[i, k] * 3\nQ = twice(P)\nR[i] = exp(sum[k] Q[i, k])\nshow R\n");
  std::set<std::string> all;
  std::vector<std::string> ofR;
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
    const auto kernel = engine.ask<Kernel>(KernelRequest{s.id, {}, {"loops"}});
    std::istringstream lines(kernel.texts.at(0).text);
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line); ++number) {
      if (number >= kernel.texts[0].lineOrigins.size()) break;
      const bool stores = line.find(" R[") < line.find(" = ");
      for (const std::uint32_t o : kernel.texts[0].lineOrigins[number]) {
        const std::string place = word(o);
        all.insert(place);
        if (stores) ofR.push_back(place);
      }
    }
  }
  EXPECT_TRUE(all.contains("P[i, k]") || all.contains("x[i, k]"));
  EXPECT_TRUE(all.contains("u[i, k]"));
  EXPECT_TRUE(all.contains("Q[i, k]")) << "its product goes into a sum";
  ASSERT_FALSE(ofR.empty());
  EXPECT_EQ(ofR.front(), "R[i] = exp(sum[k] Q[i, k])");
}

}  // namespace
}  // namespace nf
