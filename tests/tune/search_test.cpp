// SPDX-License-Identifier: Apache-2.0
#include "core/tune/genetic_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/tune/fakes.h"

namespace nf {
namespace {

using fakes::Space;

// A run of the search against timings that a table gives: what a replay of measured ones does.
std::vector<std::string> trajectory(std::uint64_t seed, int rounds, double* best = nullptr) {
  const Space space;
  RidgeModel model;
  SearchOptions options;
  options.seed = seed;
  GeneticSearch search(space, model, options);
  std::vector<std::string> order;
  for (int r = 0; r < rounds; ++r)
    for (const Schedule& s : search.propose(4)) {
      order.push_back(s.text());
      search.observe(s, TrialStatus::Ok, Space::seconds(s));
    }
  if (best) *best = *search.bestSeconds();
  return order;
}

TEST(GeneticSearch, SameSeedAndTimingsGiveTheSameTrajectory) {
  const auto once = trajectory(7, 20);
  EXPECT_EQ(once, trajectory(7, 20));
  EXPECT_NE(once, trajectory(8, 20));
  EXPECT_EQ(once[0], Space().first().text());
}

TEST(GeneticSearch, NothingIsOfferedTwice) {
  const auto order = trajectory(3, 40);
  EXPECT_EQ(std::set<std::string>(order.begin(), order.end()).size(), order.size());
  EXPECT_EQ(order.size(), 160u);
}

TEST(GeneticSearch, BeatsRandomAtEqualTrials) {
  const Space space;
  int wins = 0;
  double searched = 0, drawn = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    double best = 0;
    trajectory(seed, 16, &best);
    std::mt19937_64 rng(seed);
    double random = 1;
    for (int i = 0; i < 64; ++i) random = std::min(random, Space::seconds(space.random(rng)));
    wins += best < random;
    searched += std::log(best / Space::bestSeconds());
    drawn += std::log(random / Space::bestSeconds());
  }
  EXPECT_GE(wins, 15);
  EXPECT_LT(searched, 0.5 * drawn);
}

TEST(GeneticSearch, ForbiddenAndIllegalSchedulesAreNeverOffered) {
  const Space space;
  RidgeModel model;
  GeneticSearch search(space, model);
  search.forbid(space.first());
  search.suggest(fakes::schedule({{"a", 99}, {"b", 0}, {"c", 0}}));
  search.suggest(Space::make(1, 2, 3));
  const auto round = search.propose(8);
  ASSERT_EQ(round.size(), 8u);
  EXPECT_EQ(round[0], Space::make(1, 2, 3));
  for (const Schedule& s : round) {
    EXPECT_NE(s, space.first());
    EXPECT_TRUE(space.check(s));
  }
}

// Random points of this space are all the first one, as where nearly every combination is illegal.
class NarrowSpace final : public ScheduleSpace {
 public:
  double size() const override { return m_space.size(); }
  Schedule first() const override { return m_space.first(); }
  Schedule random(std::mt19937_64&) const override { return first(); }
  Schedule mutate(const Schedule& s, std::mt19937_64& rng) const override { return m_space.mutate(s, rng); }
  Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const override { return m_space.cross(a, b, rng); }
  Result<Unit> check(const Schedule& s) const override { return m_space.check(s); }
  double estimateSeconds(const Schedule& s) const override { return m_space.estimateSeconds(s); }
  std::vector<double> features(const Schedule& s) const override { return m_space.features(s); }
  std::vector<KnobInfo> knobs() const override { return {}; }

 private:
  Space m_space;
};

TEST(GeneticSearch, ANarrowSpaceIsNotTakenForExhausted) {
  const NarrowSpace space;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    RidgeModel model;
    SearchOptions options;
    options.seed = seed;
    GeneticSearch search(space, model, options);
    for (int i = 0; i < 40; ++i) {
      const auto round = search.propose(1);
      ASSERT_EQ(round.size(), 1u) << "seed " << seed << " round " << i;
      search.observe(round[0], TrialStatus::Ok, Space::seconds(round[0]));
    }
  }
}

TEST(GeneticSearch, FailedTrialsDoNotBreedAndTheGainFalls) {
  const Space space;
  RidgeModel model;
  GeneticSearch search(space, model);
  search.observe(space.first(), TrialStatus::Ok, 1e-3);
  const double before = search.expectedGainSeconds(0);
  EXPECT_GT(before, 0);
  for (int i = 0; i < 24; ++i) search.observe(Space::make(i % 16, i / 16, 0), i % 2 ? TrialStatus::Wrong : TrialStatus::Crashed, 0);
  EXPECT_EQ(search.observed(), 1u);
  EXPECT_EQ(search.bestSeconds(), 1e-3);
  EXPECT_NEAR(search.expectedGainSeconds(0), before / 4, before * 1e-9);
  EXPECT_LT(search.expectedGainSeconds(1e-3), search.expectedGainSeconds(0) / 2);
}

TEST(RidgeModel, LearnsALinearResidual) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<CostSample> samples;
  const auto truth = [](const std::vector<double>& f) { return 0.5 + 2 * f[0] - 3 * f[1]; };
  for (int i = 0; i < 200; ++i) {
    CostSample s;
    s.features = {unit(rng), 100 * unit(rng), 1.0};
    s.residual = truth(s.features);
    samples.push_back(s);
  }
  RidgeModel model;
  EXPECT_EQ(model.predict(std::vector<std::vector<double>>{samples[0].features})[0], 0);
  model.fit(samples);
  const std::vector<std::vector<double>> asked{{0.3, 20, 1}, {-0.7, -50, 1}};
  const auto predicted = model.predict(asked);
  for (std::size_t i = 0; i < asked.size(); ++i)
    EXPECT_NEAR(predicted[i], truth(asked[i]), 0.02 * std::fabs(truth(asked[i])) + 0.05);
}

}  // namespace
}  // namespace nf
