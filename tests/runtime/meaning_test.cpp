// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/meaning.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/count_allocations.h"

namespace nf {
namespace {

std::int64_t allocationsOfMeanings(int operators) {
  std::string text = "input X0[16] = normal(0, 1)\n";
  for (int i = 1; i <= operators; ++i) {
    text += "X" + std::to_string(i) + "[i] = X" + std::to_string(i - 1) + "[i] * 2 + " + std::to_string(i) + "\n";
    if (i % 3 == 0) text += "# %%\n";
  }
  const CompiledNotebook notebook = compileNotebook({"chain.nf", "", text + "show X" + std::to_string(operators) + "\n"}, {});
  EXPECT_TRUE(notebook.ok());
  const std::int64_t before = allocationCount();
  const std::vector<Hash> meanings = cellMeanings(notebook);
  const std::int64_t made = allocationCount() - before;
  EXPECT_FALSE(meanings.empty() || meanings.back() == Hash());
  return made;
}

TEST(Meaning, OfALongNotebookTakesWorkInProportionToItsLength) {
  const std::int64_t half = allocationsOfMeanings(400), whole = allocationsOfMeanings(800);
  EXPECT_LT(whole, 3 * half) << half;
}

std::map<std::string, std::string> placesIn(const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({"places.nf", "", text}, {});
  EXPECT_TRUE(notebook.ok());
  return parameterPlaces(notebook.program, notebook.tensorNamed("L"));
}

TEST(Meaning, AParametersPlaceInTheLossIsNotItsName) {
  const std::string head = "input X[4] = normal(0, 1)\n";
  const auto a = placesIn(head +
                          "param U[4] = normal(0, 1)\nparam V[4] = normal(0, 1)\nparam N[4] = 0\n"
                          "Y[i] = U[i] * X[i] + V[i]\nloss L = sum[i] Y[i]^2\n");
  const auto b = placesIn(head +
                          "param S[4] = normal(0, 1)\nparam U[4] = normal(0, 1)\n"
                          "Q[i] = U[i] * X[i] + S[i]\nE[i] = Q[i] + 1\nloss L = sum[i] Q[i]^2\n");
  EXPECT_EQ(a.size(), 2u) << "N is not in the loss";
  EXPECT_NE(a.at("U"), a.at("V"));
  EXPECT_EQ(a.at("U"), b.at("U"));
  EXPECT_EQ(a.at("V"), b.at("S"));
  for (const char* other : {"param U[4] = normal(0, 2)\nY[i] = U[i] * X[i]\nloss L = sum[i] Y[i]^2\n",
                            "param U[4] = normal(0, 1)\nY[i] = U[i] * X[i]\nloss L = sum[i] Y[i]^3\n",
                            "param U[4] = normal(0, 1)\nY[i] = U[i] * X[i] + U[i]\nloss L = sum[i] Y[i]^2\n"})
    EXPECT_NE(placesIn(head + other).at("U"),
              placesIn(head + "param U[4] = normal(0, 1)\nY[i] = U[i] * X[i]\nloss L = sum[i] Y[i]^2\n").at("U"))
        << other;
}

TEST(Meaning, OfParametersAtLikePlacesTheFirstIsTheFirst) {
  const std::string rest = "[4] = normal(0, 1)\nloss L = sum[i] (A[i] + B[i])^2\n";
  const auto two = placesIn("param A[4] = normal(0, 1)\nparam B" + rest);
  EXPECT_NE(two.at("A"), two.at("B"));
  EXPECT_EQ(placesIn("param A[4] = normal(0, 1)\nparam C[4] = normal(0, 1)\nloss L = sum[i] (A[i] + C[i])^2\n").at("C"),
            two.at("B"));
}

// Whether somebody reads what a loop carries last is nothing to what it computes.
TEST(Meaning, WhatIsShownOfALoopChangesNothingOfATraining) {
  const std::string text =
      "param W[4] = normal(0, 1)\nconst c[4] = 0\nconst h[4] = 0.5\n"
      "for t in 0..3 { c[i] = c[i] + h[i] * W[i]\n h[i] = tanh(c[i]) }\nloss L = sum[i] h[i]^2\n# %%\ntrain L { steps = 2 }\n";
  const CompiledNotebook plain = compileNotebook({"t.nf", "", text}),
                         shown = compileNotebook({"t.nf", "", text + "# %%\nshow c, h\n"}),
                         other = compileNotebook({"t.nf", "", text + "# %%\nshow h\n"});
  ASSERT_TRUE(plain.ok() && shown.ok() && other.ok());
  for (const CompiledNotebook* notebook : {&shown, &other}) {
    EXPECT_EQ(trainMeaning(*notebook, notebook->trains[0]), trainMeaning(plain, plain.trains[0]));
    EXPECT_EQ(parameterPlaces(notebook->program, notebook->tensorNamed("L")),
              parameterPlaces(plain.program, plain.tensorNamed("L")));
    EXPECT_EQ(tensorMeaning(*notebook, "L"), tensorMeaning(plain, "L"));
  }
  EXPECT_NE(tensorMeaning(shown, "c"), tensorMeaning(shown, "h"));
}

// A loss of a gradient: the place of what it is taken by, and of what it is taken of.
TEST(Meaning, PlacesReachThroughDerivatives) {
  const auto named = [](const std::string& p) {
    return placesIn("input X[4] = normal(0, 1)\nparam " + p + "[4] = normal(0, 1)\nloss K = sum[i] sin(" + p +
                    "[i] * X[i])\nG[i] = d(K)/d(" + p + ")[i]\nloss L = sum[i] G[i]^2\n");
  };
  const auto w = named("W"), other = named("V");
  ASSERT_TRUE(w.contains("W"));
  EXPECT_EQ(w.at("W"), other.at("V"));
}

}  // namespace
}  // namespace nf
