// SPDX-License-Identifier: Apache-2.0
// Loops as typeset mathematics.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/session/engine_process.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace protocol;

std::string text(const Formula& f, std::size_t id) {
  const FormulaNode& n = f.nodes[id];
  const auto child = [&](std::size_t k) { return text(f, n.children[k]); };
  std::string list;
  for (std::size_t k = n.kind == FormulaKind::Subscript ? 1 : 0; k < n.children.size(); ++k)
    list += (list.empty() ? "" : ", ") + child(k);
  switch (n.kind) {
    case FormulaKind::Number:
    case FormulaKind::Name: return n.text;
    case FormulaKind::Subscript: return child(0) + "_[" + list + "]";
    case FormulaKind::Reduce: {
      std::string axes;
      for (const FormulaAxis& a : n.axes)
        axes += (axes.empty() ? "" : ", ") + a.name + "=" + std::to_string(a.first) + ".." + std::to_string(a.last);
      return n.text + "[" + axes + "] " + child(0);
    }
    case FormulaKind::Infix: return child(0) + " " + n.text + " " + child(1);
    case FormulaKind::Prefix: return n.text + child(0);
    case FormulaKind::Fraction: return "(" + child(0) + ")/(" + child(1) + ")";
    case FormulaKind::Power: return child(0) + "^" + child(1);
    case FormulaKind::Call: return n.text + "(" + list + ")";
    case FormulaKind::Cases: return "cases(" + list + ")";
    case FormulaKind::Partial: return "∂" + child(0) + "/∂" + child(1);
    case FormulaKind::Equation: return child(0) + " = " + child(1);
  }
  return {};
}

struct LoopFormula : ::testing::Test {
  // The formulas of what the notebook shows, by line.
  std::vector<std::vector<std::string>> shown(const std::string& notebook) {
    EngineProcess engine(folder.path(""));
    const Analysis a = engine.document(notebook);
    EXPECT_TRUE(a.diagnostics.empty()) << (a.diagnostics.empty() ? "" : a.diagnostics[0].message);
    std::vector<std::vector<std::string>> all;
    for (const CellInfo& cell : a.cells)
      for (const std::string& tensor : cell.shows) {
        auto& lines = all.emplace_back();
        for (const Formula& f : engine.ask<Expression>(ExpressionRequest{1, tensor, false}).formulas) {
          EXPECT_TRUE(wellFormed(f));
          lines.push_back(text(f, f.nodes.size() - 1));
        }
      }
    return all;
  }
  fakes::Folder folder;
};

TEST_F(LoopFormula, IsWhatItBeginsWithAndTheEquationsOfAStep) {
  const auto lines = shown(
      "h[n: 2, i: 3] = 0\n"
      "for s in 0..5 {\n  z[n, i] = h[n, i]*2\n  h[n, i] = tanh(z[n, i])\n  stack Hs = h\n}\nshow h, Hs\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines[1]) << "one loop makes both";
  EXPECT_EQ(lines[0], (std::vector<std::string>{
                          "h_[n, i]^(0) = 0",
                          "for s in 0..5",
                          "z_[n, i]^(s) = h_[n, i]^(s) * 2",
                          "h_[n, i]^(s + 1) = tanh(z_[n, i]^(s))",
                          "Hs_[s] = h^(s + 1)",
                          "h = h^(5)",
                      }));
}

TEST_F(LoopFormula, OfALoopInALoopCountsTheStepsOfBoth) {
  const auto lines = shown(
      "h[i: 3] = 1\nfor s in 0..2 {\n  g[i: 3] = 0\n  for t in 0..4 {\n    g[i] = g[i]*0.5 + h[i]\n  }\n  h[i] = h[i] + "
      "g[i]\n}\nshow h\n");
  ASSERT_EQ(lines.size(), 1u);
  const auto has = [&](const std::string& line) { return std::count(lines[0].begin(), lines[0].end(), line); };
  std::string all;
  for (const std::string& line : lines[0]) all += line + "\n";
  EXPECT_EQ(has("g_[i]^(s, 0) = 0"), 1) << all;
  EXPECT_EQ(has("g_[i]^(s, t + 1) = g_[i]^(s, t) * 0.5 + h_[i]^(s)"), 1) << all;
  EXPECT_EQ(has("h_[i]^(s + 1) = h_[i]^(s) + g_[i]^(s, 4)"), 1) << all;
}

TEST_F(LoopFormula, TwoLoopsBehindOneAnotherAreToldApart) {
  const auto lines = shown("h[i: 3] = 1\nfor s in 0..2 { h[i] = h[i]*3 }\nfor s in 0..4 { h[i] = h[i]*5 }\nshow h\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            (std::vector<std::string>{"h'^(0) = h^(2)", "for s in 0..4", "h'_[i]^(s + 1) = h'_[i]^(s) * 5", "h = h'^(4)"}));
}

// What passes call the values that a loop keeps for its gradient is nothing that a notebook says.
TEST_F(LoopFormula, AGradientNamesTheStepsThatItReads) {
  const auto lines = shown(
      "input X[4, 5, 2] = normal(0, 1)\nparam U[3, 2] = normal(0, 1)\nparam V[3, 3] = normal(0, 0.1)\nh[n: 4, i: 3] = 0\n"
      "for s in 0..5 { h[n, i] = tanh(sum[k] U[i, k]*X[n, s, k] + sum[j] V[i, j]*h[n, j]) }\n"
      "loss L = sum[n, i] h[n, i]^2\nshow d(L)/d(V), d(L)/d(U)\n");
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& gradient : lines) {
    ASSERT_FALSE(gradient.empty());
    std::string all;
    for (const std::string& line : gradient) all += line + "\n";
    EXPECT_EQ(all.find("_steps"), std::string::npos) << all;
    EXPECT_EQ(all.find('#'), std::string::npos) << all;
  }
  std::string ofV;
  for (const std::string& line : lines[0]) ofV += line + "\n";
  EXPECT_NE(ofV.find("h_[n, "), std::string::npos) << ofV;
  EXPECT_NE(ofV.find("^(s)"), std::string::npos) << ofV;
}

TEST_F(LoopFormula, AGradientThroughALoopInALoopNamesTheStepsOfBoth) {
  const auto lines = shown(
      "param U[3, 3] = normal(0, 0.5)\ninput x[2, 3] = normal(0, 1)\nconst h[2, 3] = 0.5\n"
      "for t in 0..4 {\n  for s in 0..2 { h[n, j] = tanh(sum[k] h[n, k] * U[k, j] + x[n, j]) }\n  h[n, j] = h[n, j] * 0.5\n}\n"
      "loss L = mean[n, j] h[n, j]^2\nshow h, d(L)/d(U), d(L)/d(x)\n");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], (std::vector<std::string>{
                          "∂L/∂h_[n, j]^(4) = 0.166667 * 2 * h_[n, j]^(4)",
                          "for t in reversed 0..4",
                          "∂L/∂h_[n, j]^(t, 2) = ∂L/∂h_[n, j]^(t + 1) * 0.5",
                          "for s in reversed 0..2",
                          "∂L/∂h.sum_[n, j]^(t, s) = ∂L/∂h_[n, j]^(t, s + 1) * 1 - h_[n, j]^(t, s + 1) * h_[n, j]^(t, s + 1)",
                          "∂L/∂h_[n, k]^(t, s) = sum[j=0..2] ∂L/∂h.sum_[n, j]^(t, s) * U_[k, j]",
                          "∂L/∂h_[z0, z1]^(t) = ∂L/∂h_[z0, z1]^(t, 0)",
                          "∂L/∂U_[k, j]^(t) = sum[s=0..1, n=0..1] ∂L/∂h.sum_[n, j]^(t, s) * h_[n, k]^(t, s)",
                          "∂L/∂x_[n, j]^(t) = sum[s=0..1] ∂L/∂h_[n, j]^(t, s + 1) * 1 - h_[n, j]^(t, s + 1) * h_[n, j]^(t, s + 1)",
                          "∂L/∂U^[2] = sum[t=0..3] ∂L/∂U^(t)",
                          "∂L/∂x^[2] = sum[t=0..3] ∂L/∂x^(t)",
                          "∂L/∂U_[z0, z1] = ∂L/∂U_[z0, z1]^[2]",
                      }));
}

}  // namespace
}  // namespace nf
