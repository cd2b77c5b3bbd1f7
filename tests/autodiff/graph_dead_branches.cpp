// SPDX-License-Identifier: Apache-2.0
// Conditions of a statement reach the reductions inside it, so that no slope of a branch that is not taken meets a gradient.
#include <cmath>

#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"

namespace nf {
namespace {

struct Branch {
  const char* name;
  const char* statement;         // makes Z[i] of x[i: 5] and k[j: 2]
  std::vector<double> expected;  // d(sum Z)/d(x) at x = 0, -1, 2, 0, 0.5
};

class DeadBranch : public testing::TestWithParam<Branch> {};

TEST_P(DeadBranch, GivesNoNan) {
  const std::string text =
      std::string("input x[5] : f64\ninput k[2] : f64\n") + GetParam().statement + "\nloss L = sum[i] Z[i]\nshow d(L)/d(x)\n";
  const CompiledNotebook notebook = compileNotebook({"branch.nf", {}, text});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  const Program p = test::differentiated(notebook.program);
  const TensorId x = p.tensorNamed("x"), k = p.tensorNamed("k"), Z = p.tensorNamed("Z"), d = p.tensorNamed("d(L)/d(x)");
  const auto got = test::values(p, {{x, {DType::F64, {5}, {0, -1, 2, 0, 0.5}}}, {k, {DType::F64, {2}, {1, 2}}}}, {Z, d});
  for (const double v : got.at(Z).values) EXPECT_TRUE(std::isfinite(v));
  const std::vector<double>& gradient = got.at(d).values;
  ASSERT_EQ(gradient.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(gradient[i], GetParam().expected[i], 1e-12) << i << "\n" << toText(p);
}

const double kRoot2 = std::sqrt(2.0), kRootHalf = std::sqrt(0.5);

std::vector<Branch> branches() {
  return {
      {"condition_on_data", "Z[i] = select(x[i] > 0, (sum[j: 2] log(x[i])*(j+1)), 0)", {0, 0, 1.5, 0, 6}},
      {"the_other_arm", "Z[i] = select(x[i] <= 0, 0, (sum[j: 2] log(x[i])*(j+1)))", {0, 0, 1.5, 0, 6}},
      {"negated", "Z[i] = select(not (x[i] <= 0), (sum[j: 2] log(x[i])*k[j]), 0)", {0, 0, 1.5, 0, 6}},
      {"conjunction", "Z[i] = select(x[i] > 0 and i < 3, (sum[j: 2] log(x[i])*(j+1)), 0)", {0, 0, 1.5, 0, 0}},
      {"disjunction", "Z[i] = select(x[i] > 1 or x[i] == 0.5, (sum[j: 2] log(x[i])*(j+1)), 0)", {0, 0, 1.5, 0, 6}},
      {"disjunction_fails", "Z[i] = select(x[i] < 0 or x[i] == 0, 0, (sum[j: 2] log(x[i])*(j+1)))", {0, 0, 1.5, 0, 6}},
      {"nested_selects", "Z[i] = select(x[i] >= 0, select(x[i] > 0, (sum[j: 2] log(x[i])*(j+1)), x[i]), 0)", {1, 0, 1.5, 1, 6}},
      {"condition_on_indices", "Z[i] = select(i == 2, (mean[j: 2] 1/x[i]), 0)", {0, 0, -0.25, 0, 0}},
      {"maximum", "Z[i] = select(x[i] > 0, (max[j: 2] sqrt(x[i])*(j+1)), 0)", {0, 0, 1 / kRoot2, 0, 1 / kRootHalf}},
      {"product", "Z[i] = select(x[i] > 0, (prod[j: 2] sqrt(x[i])*(j+1)), 0)", {0, 0, 2, 0, 2}},
      {"reduction_in_a_reduction", "Z[i] = select(x[i] > 0, (sum[j: 2] k[j]*(sum[m: 2] log(x[i])*(m+1))), 0)", {0, 0, 4.5, 0, 18}},
      {"behind_else", "Z[i] = select(x[i] > 0, (x[i+5] else (sum[j: 2] log(x[i])*(j+1))), 0)", {0, 0, 1.5, 0, 6}},
      // x[1+i] lies inside for i < 4: only the last point takes the sum, and there x is 0.5.
      {"where_else_is_taken", "Z[i] = x[i+1] else (sum[j: 2] log(x[i])*(j+1))", {0, 1, 1, 1, 7}},
      // Wanted on several ways: what all of them ask for guards it, each value stays.
      {"shared_by_two_arms",
       "Z[i] = select(x[i] > 0, select(x[i] > 1, S, 2*S), 0) where S = sum[j: 2] log(x[i])*(j+1)",
       {0, 0, 1.5, 0, 12}},
      {"shared_with_outside",
       "Z[i] = select(x[i] > 1, S, 0) + S where S = sum[j: 2] sqrt(x[i] + 2)*(j+1)",
       {1.5 / kRoot2, 1.5, 1.5, 1.5 / kRoot2, 1.5 / std::sqrt(2.5)}},
      // The condition varies along an axis that the reduction has not: it is asked for once, whether it holds anywhere.
      {"never_taken", "Z[i] = select(x[i] > 3, (sum[j: 3] log(x[j])), 0)", {0, 0, 0, 0, 0}},
      {"taken_somewhere", "Z[i] = select(x[i] > 1, (sum[j: 2] log(x[2] + j)), 0)", {0, 0, 1.0 / 2 + 1.0 / 3, 0, 0}},
      {"varies_along_both",
       "P[i, m: 3] = select(x[i] > 0 and m < i, (sum[j: 2] log(x[i])*(j+1)), 0)\nZ[i] = sum[m] P[i, m]",
       {0, 0, 3, 0, 18}},
  };
}

INSTANTIATE_TEST_SUITE_P(All, DeadBranch, testing::ValuesIn(branches()),
                         [](const auto& info) { return std::string(info.param.name); });

// What is polynomial needs no guard, and a reduction keeps its axes: nothing is worked out once more than before.
TEST(DeadBranches, GuardOnlyWhatCanBlowUp) {
  const CompiledNotebook plain =
      compileNotebook({"plain.nf", {}, "input Q[4, 3]\ninput K[4, 3]\nS[i, j] = select(j <= i, (sum[d] Q[i, d]*K[j, d]), 0)\n"});
  ASSERT_TRUE(plain.ok()) << render(plain.diagnostics, plain.sources);
  EXPECT_EQ(
      toText(plain.program),
      "input Q[4, 3]\ninput K[4, 3]\nS.sum[i, j] = sum[d] Q[i, d] * K[j, d]\nS[i: 4, j: 4] = select(i >= j, S.sum[i, j], 0)\n");
}

}  // namespace
}  // namespace nf
