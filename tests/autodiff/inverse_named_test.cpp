// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/autodiff/named_accesses.h"
#include "tests/fuzz/access_oracle.h"
#include "tests/golden.h"

namespace nf::testing {
namespace {

TEST(InverseNamed, GoldenTextsExactAndCertified) {
  std::string text;
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse inverse = invert(access.problem);
    const OracleResult result = compareExactly(access.problem, inverse);
    EXPECT_TRUE(result.right) << access.name << ": " << result.wrong;
    EXPECT_EQ(inverse.state, Inverse::State::Gather) << access.name << ": " << inverse.why;
    text += access.name + "\n    " + toText(inverse, access.variables) + "\n    forward " + std::to_string(result.domain) +
            ", contributions " + std::to_string(result.contributions) + ", visits " + std::to_string(result.hoistedVisits) + "\n";
  }
  expectGolden("autodiff/named_inverses.golden", text);
}

// A guard that is needed and missing must be found out by the certificate: the result is then no gather. Existence guards (step 6b)
// only save visits; every other guard that is kept is needed.
class InverseMutation : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(InverseNamed, InverseMutation, ::testing::Bool());

TEST_P(InverseMutation, CertificateRefusesEveryWrongInverse) {
  std::size_t deleted = 0, wrong = 0;
  InvertOptions options;
  options.existenceGuard = GetParam();
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse whole = invert(access.problem, options);
    const std::size_t guards = whole.zGuards.size() + whole.tGuards.size();
    for (std::size_t g = 0; g < guards; ++g) {
      ++deleted;
      InvertOptions spoiling = options;
      spoiling.sabotage = [g](Inverse& inverse) {
        if (g < inverse.zGuards.size()) inverse.zGuards.erase(inverse.zGuards.begin() + static_cast<std::ptrdiff_t>(g));
        else inverse.tGuards.erase(inverse.tGuards.begin() + static_cast<std::ptrdiff_t>(g - inverse.zGuards.size()));
      };
      const Inverse spoilt = invert(access.problem, spoiling);
      if (compareExactly(access.problem, spoilt).right) continue;
      ++wrong;
      EXPECT_EQ(spoilt.state, Inverse::State::Uncertified) << access.name << ", guard " << g << " of " << guards;
      EXPECT_EQ(certify(access.problem, spoilt, 10000000), false) << access.name << ", guard " << g << " of " << guards;
    }
  }
  EXPECT_GT(wrong, 50u);
  if (!options.existenceGuard) { EXPECT_EQ(wrong, deleted) << "a guard was kept that was not needed"; }
}

// Other ways to be wrong: an axis too short or too long, a shifted solution, two solutions swapped.
TEST(InverseNamed, CertificateRefusesSpoiltSolutions) {
  std::size_t wrong = 0;
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse whole = invert(access.problem);
    std::vector<Inverse> spoilt;
    for (std::size_t k = 0; k < whole.axes.size(); ++k)
      for (const int change : {-1, 1}) {
        spoilt.push_back(whole);
        spoilt.back().axes[k] += change;
      }
    for (std::size_t i = 0; i < whole.y.size(); ++i) {
      spoilt.push_back(whole);
      spoilt.back().y[i] = whole.y[i] + IndexExpr(1);
      if (i == 0) continue;
      spoilt.push_back(whole);
      std::swap(spoilt.back().y[i - 1], spoilt.back().y[i]);
    }
    for (const Inverse& inverse : spoilt) {
      if (compareExactly(access.problem, inverse).right) continue;
      ++wrong;
      EXPECT_EQ(certify(access.problem, inverse, 10000000), false) << access.name;
    }
  }
  EXPECT_GT(wrong, 100u);
}

TEST(InverseNamed, ReinvertedGradientsAreRight) {
  for (const NamedAccess& access : namedAccesses()) {
    const Inverse inverse = invert(access.problem);
    for (const std::uint32_t keep : {~0u, 0u}) {
      const AccessProblem again = secondOrder(access.problem, inverse, keep);
      const Inverse inner = invert(again);
      EXPECT_TRUE(compareExactly(again, inner).right) << access.name;
      EXPECT_NE(inner.state, Inverse::State::Uncertified) << access.name << ": " << inner.why;
    }
  }
}

}  // namespace
}  // namespace nf::testing
