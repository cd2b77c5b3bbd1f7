// SPDX-License-Identifier: Apache-2.0
#include "core/syntax/rename.h"

#include <gtest/gtest.h>

namespace nf {
namespace {

std::string renamed(std::string text, const std::string& name, const std::string& to) {
  const auto places = placesOfName(text, name);
  for (auto it = places.rbegin(); it != places.rend(); ++it) text.replace(it->first, it->second - it->first, to);
  return text;
}

TEST(Rename, EveryPlaceOfANameAndNoOther) {
  EXPECT_EQ(renamed("# %% [markdown]\n# W is a weight\n\n# %%\nparam W[3, W2] = normal(0, 1)  # W\nY[i] = sum[k] W[i, k] * X.W[k]\n"
                    "show W, d(L)/d(W), `d(L)/d(W)`, W.next\nhint fuse `d(L)/d(W)`, `W.next`\n",
                    "W", "V"),
            "# %% [markdown]\n# W is a weight\n\n# %%\nparam V[3, W2] = normal(0, 1)  # W\nY[i] = sum[k] V[i, k] * X.W[k]\n"
            "show V, d(L)/d(V), `d(L)/d(V)`, V.next\nhint fuse `d(L)/d(V)`, `V.next`\n");
}

TEST(Rename, AttributesOptionsAndWordsOfHintsAreNoNames) {
  EXPECT_EQ(renamed("let steps = 4\ntrain L { steps = 2 * steps; mode = static }\nH = conv(X; steps = steps)\n", "steps", "many"),
            "let many = 4\ntrain L { steps = 2 * many; mode = static }\nH = conv(X; steps = many)\n");
  EXPECT_EQ(renamed("rows[i] = X[i]\nhint schedule rows { kind = contraction; order = rows }\n", "rows", "R"),
            "R[i] = X[i]\nhint schedule R { kind = contraction; order = rows }\n");
  EXPECT_EQ(renamed("let digits = 3\ndata D = digits\nY[i: digits] = 1\n", "digits", "n"),
            "let n = 3\ndata D = digits\nY[i: n] = 1\n");
}

TEST(Rename, AFunctionsOwnNamesStay) {
  const std::string function =
      "def linear(X[..., I], O) -> Y {\n  param W[O, I] = kaiming()\n  Y[..., o] = sum[i] X[..., i] * W[o, i]\n}\n";
  EXPECT_EQ(renamed(function + "input X[3, 4]\nH = linear(X, 5)\nshow H.W\n", "X", "Z"),
            function + "input Z[3, 4]\nH = linear(Z, 5)\nshow H.W\n");
  EXPECT_EQ(renamed(function + "param W[3]\nH = linear(W, 5)\nshow H.W\n", "W", "V"),
            function + "param V[3]\nH = linear(V, 5)\nshow H.W\n");
  EXPECT_EQ(renamed("def twice(x) = k * x\nlet k = 2\nY[i] = twice(x[i])\n", "k", "two"),
            "def twice(x) = two * x\nlet two = 2\nY[i] = twice(x[i])\n");
  EXPECT_EQ(renamed("def twice(x) = 2 * x\nY[i] = twice(x[i])\n", "x", "z"), "def twice(x) = 2 * x\nY[i] = twice(z[i])\n");
}

TEST(Rename, WhatIsTakenOrNoNameIsRefused) {
  const std::string text = "param W[3] = normal(0, 1)  # free\nY[i] = W[i]\n";
  EXPECT_EQ(whyNotNamed(text, "V"), "");
  EXPECT_EQ(whyNotNamed(text, "free"), "");
  EXPECT_EQ(whyNotNamed(text, "\u03bb"), "");
  EXPECT_EQ(whyNotNamed(text, "Y"), "`Y` is taken: it stands in the notebook.");
  EXPECT_EQ(whyNotNamed(text, "i"), "`i` is taken: it stands in the notebook.");
  for (const char* word : {"param", "sum", "relu"})
    EXPECT_EQ(whyNotNamed(text, word), "`" + std::string(word) + "` is a word of the language.");
  for (const char* wrong : {"", "2x", "a b", "a.b", "x+y"}) EXPECT_NE(whyNotNamed(text, wrong), "") << wrong;
}

}  // namespace
}  // namespace nf
