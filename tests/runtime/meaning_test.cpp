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

}  // namespace
}  // namespace nf
