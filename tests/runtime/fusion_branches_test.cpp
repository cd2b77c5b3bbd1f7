// SPDX-License-Identifier: Apache-2.0
// What measuring a decision both ways runs: the plan as it stands, and its neighbour.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "core/lang/compile.h"
#include "core/runtime/fusion_trials.h"

namespace nf {
namespace {

const DeviceConstants kDevice{6e9, 1e11, 2e-7};

CompiledNotebook example(const std::string& name, const std::string& more) {
  const auto path = std::filesystem::path(NF_SOURCE_DIR) / "examples" / name;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return compileNotebook({path.string(), path.parent_path().string(), text + more}, {});
}

Stages planOf(const CompiledNotebook& notebook, const StageOptions& options) {
  EXPECT_TRUE(notebook.ok());
  auto stages = runStages(std::make_shared<const Program>(notebook.program), options);
  EXPECT_TRUE(stages.ok() && stages->fused);
  return *stages;
}

std::multiset<std::string> kernelsOf(const Program& program) {
  std::multiset<std::string> names;
  for (const Group& g : program.groups) names.insert(g.name);
  for (const Loop& loop : program.loops) names.merge(kernelsOf(*loop.body));
  return names;
}

std::vector<std::string> namesOf(const std::vector<SiteKernel>& kernels) {
  std::vector<std::string> names;
  for (const SiteKernel& k : kernels) names.push_back(k.name);
  return names;
}

TEST(FusionBranches, OneIsThePlanThatIsDrawn) {
  StageOptions options;
  options.device = kDevice;
  for (const char* name : {"welcome.nf", "milstm.nf", "digits_capsnet.nf"}) {
    SCOPED_TRACE(name);
    const Stages plan = planOf(example(name, ""), options);
    const auto drawn = kernelsOf(*plan.fused);
    std::size_t compared = 0;
    for (const FusionDecision& d : plan.decisions) {
      SCOPED_TRACE(d.producer + " -> " + d.consumer);
      const auto site = branchSite(plan, options, d.producer, d.consumer);
      if (!site && site.error().message.starts_with("A later decision computes")) continue;
      if (d.state == FusionState::Accepted) {
        ASSERT_TRUE(site.ok()) << site.error().message;
        for (const SiteKernel& k : site->first) EXPECT_TRUE(drawn.contains(k.name)) << k.name;
        ++compared;
      } else if (site.ok()) {
        for (const SiteKernel& k : site->second) EXPECT_TRUE(drawn.contains(k.name)) << k.name;
      }
    }
    EXPECT_GT(compared, 0u);
  }
}

// With B = 1 simplification writes 0 for the batch's index: Y's gradient is its epilogue all the same, as with every other B.
TEST(FusionBranches, AnEpilogueIsOneForABatchOfOne) {
  StageOptions options;
  options.device = kDevice;
  const Stages plan = planOf(example("welcome.nf", "\n# %%\nhint split `d(L)/d(Y)`, `d(L)/d(W)`\n"), options);
  const auto found = std::find_if(plan.decisions.begin(), plan.decisions.end(),
                                  [](const FusionDecision& d) { return d.producer == "Y" && d.consumer == "d(L)/d(Y)"; });
  ASSERT_NE(found, plan.decisions.end());
  EXPECT_EQ(found->state, FusionState::Accepted) << found->why;
}

// Whatever is decided about can be written as a hint, and no check calls that one without effect: what a gradient reads is not known where
// hints are checked.
TEST(FusionBranches, AHintForADecisionIsNotCalledWithoutEffect) {
  StageOptions options;
  options.device = kDevice;
  for (const char* name : {"welcome.nf", "milstm.nf", "figure4.nf", "digits_capsnet.nf"}) {
    SCOPED_TRACE(name);
    std::string hints = "\n# %%\n";
    for (const FusionDecision& d : planOf(example(name, ""), options).decisions)
      hints += "hint split `" + d.producer + "`, `" + d.consumer + "`\n";
    for (const Diagnostic& d : example(name, hints).diagnostics) EXPECT_NE(d.code, "bad-hint") << d.message;
  }
}

// Y's gradient is computed again in both of its readers: that is the branch that is measured, however the notebook came to it.
TEST(FusionBranches, RecomputationIsMeasuredAsDrawn) {
  StageOptions options;
  options.device = kDevice;
  const std::string a = "d(L)/d(Y)", b = "d(L)/d(W)";
  // With Y the gradient would be its epilogue, and computed once.
  const std::string apart = "\n# %%\nhint split Y, `d(L)/d(Y)`\n";
  const Stages plan = planOf(example("welcome.nf", apart), options);
  const auto site = branchSite(plan, options, a, b);
  ASSERT_TRUE(site.ok()) << site.error().message;
  EXPECT_EQ(namesOf(site->first), (std::vector<std::string>{"d(L)/d(Y) + d(L)/d(W) + W.sgd.M + W.next", "d(L)/d(Y) + d(L)/d(A)"}));
  EXPECT_EQ(namesOf(site->second), (std::vector<std::string>{"d(L)/d(Y) + d(L)/d(A)", "d(L)/d(W) + W.sgd.M + W.next"}));
  for (const char* hint : {"hint fuse", "hint split"}) {
    const Stages hinted = planOf(example("welcome.nf", apart + hint + " `d(L)/d(Y)`, `d(L)/d(W)`\n"), options);
    const auto same = branchSite(hinted, options, a, b);
    ASSERT_TRUE(same.ok()) << same.error().message;
    EXPECT_EQ(namesOf(same->first), namesOf(site->first)) << hint;
    EXPECT_EQ(namesOf(same->second), namesOf(site->second)) << hint;
  }
}

// A side that the search has been over is not held against one that it has not, and the sentence says which is which.
TEST(FusionBranches, TheVerdictNamesTheSideThatIsTuned) {
  BranchComparison both{{}, {}, true, true}, fused{{}, {}, true, false}, split{{}, {}, false, true}, neither;
  EXPECT_TRUE(both.recorded());
  EXPECT_TRUE(both.verdict().ends_with(" Both sides ran by the best schedules on record.")) << both.verdict();
  for (const auto& [comparison, words] : {std::pair(fused, "only the fused side is tuned."),
                                          {split, "only the split side is tuned."},
                                          {neither, "neither is tuned."}}) {
    EXPECT_FALSE(comparison.recorded());
    EXPECT_TRUE(comparison.verdict().ends_with(std::string(" Both sides ran by first schedules, as ") + words))
        << comparison.verdict();
  }
}

// What is said to flip a decision does when the notebook has that size, and the number before it does not.
TEST(FusionFlips, ASizeThatFlipsADecisionDoesWhenItIsSet) {
  struct Case {
    const char* lets;
    std::size_t sizes;  // that flip it
  };
  for (const Case& c : {Case{"let N = 24, K = 40, J = 8\n", 1}, Case{"let N = 24, K = 40, J = 30\n", 3}}) {
    SCOPED_TRACE(c.lets);
    const std::string text = std::string(c.lets) +
                             "input A[N, K] = normal(0, 1)\ninput B[K, J] = normal(0, 1)\n"
                             "E[i, k] = (((A[i, k]*3 + 1)*A[i, k] + 2)*A[i, k] + 5)*A[i, k] + 7\n"
                             "Y[i, j] = max[k] (E[i, k] + B[k, j])\nshow Y\n";
    const auto decided = [&](const std::map<std::string, std::string>& sets) {
      StageOptions options;
      options.device = kDevice;
      CompileOptions compile;
      compile.sets = sets;
      const Stages plan = planOf(compileNotebook({"sizes.nf", "", text}, compile), options);
      const auto found = std::ranges::find_if(plan.decisions, [](const auto& d) { return d.producer == "E" && d.consumer == "Y"; });
      EXPECT_NE(found, plan.decisions.end());
      return *found;
    };
    const FusionDecision d = decided({});
    std::map<double, std::string> names{{24, "N"}, {40, "K"}};
    names.emplace(d.R > 0 ? 8 : 30, "J");
    std::size_t sizes = 0;
    for (const FusionFlip& f : d.flips) {
      EXPECT_NEAR(f.rewardAt(f.now), d.R, 1e-9 * std::abs(d.R)) << f.quantity;
      if (!f.unit.empty()) {
        EXPECT_NEAR(f.rewardAt(f.threshold), 0, 1e-9 * std::abs(d.R)) << f.quantity;
        continue;
      }
      SCOPED_TRACE(f.quantity);
      ++sizes;
      const std::string name = names.at(f.now);
      const auto set = [&](double value) { return decided({{name, std::to_string(std::llround(value))}}); };
      const FusionDecision turned = set(f.threshold), before = set(f.threshold + (f.threshold > f.now ? -1 : 1));
      EXPECT_NEAR(turned.R, f.rewardAt(f.threshold), 1e-9 * std::abs(d.R));
      EXPECT_NE(turned.R > 0, d.R > 0) << f.threshold;
      EXPECT_EQ(before.R > 0, d.R > 0) << f.threshold;
    }
    EXPECT_EQ(sizes, c.sizes);
  }
}

// Indices under // and %, of which the second ones span nothing: a size that is set gives the R that its flip foretells, as long as no other
// decision comes before it then.
TEST(FusionFlips, DigitsOfAnIndexScaleNoDimensionThatTheyStayIn) {
  struct Let {
    const char* name;
    double by;  // the extent that flips are told of is so many times it
  };
  struct Case {
    const char* text;
    std::map<double, Let> lets;  // by extent
    const char *producer, *consumer;
    std::size_t held;  // flips that could be held against what is decided
  };
  const Case cases[] = {{"let B = 64, T = 6, Q = 9\ninput C[B, Q, T, 2, 2] = normal(0, 1)\nparam G[T*4, Q] = normal(0, 1)\n"
                         "P[b, i: T*4, d] = C[b, d, i//4, i//2%2, i%2]\nU = squash(P)\n"
                         "loss L = mean[b, i, d] (U[b, i, d]*G[i, d] - 1)^2\ntrain L { steps = 10 }\n",
                         {{64, {"B", 1}}, {24, {"T", 4}}, {9, {"Q", 1}}},
                         "P",
                         "U.Q",
                         0},
                        {"let N = 32, K = 16, J = 48\ninput A[N, K] = normal(0, 1)\nparam W[J, K] = normal(0, 1)\n"
                         "Y[n, j: J] = A[n, j%K]*W[j, j%K]\nloss L = mean[n, j] (Y[n, j] - 1)^2\ntrain L { steps = 10 }\n",
                         {{32, {"N", 1}}, {16, {"K", 1}}, {48, {"J", 1}}},
                         "Y",
                         "L",
                         0},
                        {"let N = 40, T = 10\ninput A[N, T*3] = normal(0, 1)\n"
                         "E[n, t, r: 3] = (((A[n, t*3 + r]*3 + 1)*A[n, t*3 + r] + 2)*A[n, t*3 + r] + 5)*A[n, t*3 + r] + 7\n"
                         "Y[n, m: T*3] = max[k: N] (E[k, m//3, m%3] + A[n, m])\nshow Y\n",
                         {{40, {"N", 1}}, {30, {"T", 3}}, {10, {"T", 1}}},
                         "E",
                         "Y",
                         1}};
  const auto planWith = [](const Case& c, const std::map<std::string, std::string>& sets) {
    StageOptions options;
    options.device = {2.2e10, 1.95e11, 2.4e-8};
    CompileOptions compile;
    compile.sets = sets;
    return planOf(compileNotebook({"digits.nf", "", c.text}, compile), options);
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Stages plan = planWith(c, {});
    std::size_t held = 0;
    bool met = false;
    for (std::size_t n = 0; n < plan.decisions.size(); ++n) {
      const FusionDecision& d = plan.decisions[n];
      met = met || (d.producer == c.producer && d.consumer == c.consumer);
      for (const FusionFlip& f : d.flips) {
        if (!f.unit.empty()) continue;
        SCOPED_TRACE(d.producer + " -> " + d.consumer + ", " + f.quantity);
        const auto found = c.lets.find(f.now);
        if (found == c.lets.end()) continue;
        const Let& let = found->second;
        const double value = f.threshold > f.now ? std::ceil(f.threshold / let.by) : std::floor(f.threshold / let.by);
        const Stages turned = planWith(c, {{let.name, std::to_string(std::llround(value))}});
        std::size_t at = 0;
        while (at < turned.decisions.size() && at < n && turned.decisions[at].producer == plan.decisions[at].producer &&
               turned.decisions[at].consumer == plan.decisions[at].consumer &&
               turned.decisions[at].state == plan.decisions[at].state)
          ++at;
        if (at < n || turned.decisions[n].producer != d.producer || turned.decisions[n].consumer != d.consumer) continue;
        ++held;
        EXPECT_NEAR(turned.decisions[n].R, f.rewardAt(value * let.by), 1e-9 * std::abs(d.R));
      }
    }
    EXPECT_TRUE(met);
    EXPECT_EQ(held, c.held);
  }
}

// R as a function of each quantity is R at what it is now, for every decision that a notebook has, loops and copies included.
TEST(FusionFlips, EveryCurveGoesThroughWhatIsNow) {
  StageOptions options;
  options.device = kDevice;
  std::size_t sizes = 0;
  for (const char* name : {"welcome.nf", "milstm.nf", "figure4.nf", "digits_capsnet.nf"}) {
    SCOPED_TRACE(name);
    for (const FusionDecision& d : planOf(example(name, ""), options).decisions) {
      SCOPED_TRACE(d.producer + " -> " + d.consumer);
      for (const FusionFlip& f : d.flips) {
        EXPECT_NEAR(f.rewardAt(f.now), d.R, 1e-9 * std::abs(d.R) + 1e-18) << f.quantity;
        sizes += f.unit.empty();
      }
    }
  }
  EXPECT_GT(sizes, 0u);
}

}  // namespace
}  // namespace nf
