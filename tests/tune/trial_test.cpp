// SPDX-License-Identifier: Apache-2.0
#include "core/tune/trial.h"

#include <gtest/gtest.h>

#include <random>

namespace nf {
namespace {

TEST(Trial, StatusNamesRoundTrip) {
  for (const char* text : {"ok", "wrong", "killed", "crashed", "slow"}) {
    const auto status = trialStatusNamed(text);
    ASSERT_TRUE(status) << text;
    EXPECT_EQ(name(*status), text);
  }
  EXPECT_FALSE(trialStatusNamed("started"));
}

TEST(Trial, TimingIsMedianAndHalfTheQuartileDistance) {
  const Timing timing = timingOf({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(timing.median, 3);
  EXPECT_DOUBLE_EQ(timing.spread, 1);
  EXPECT_EQ(timing.runs, 5);
  EXPECT_EQ(timingOf({}).runs, 0);
}

// However widely a time varies, it is above zero.
TEST(Trial, IntervalsOfTimesStayAboveZero) {
  const Timing wide = timingOf({1, 2, 2.14, 9, 16});
  ASSERT_GT(wide.spread, wide.median);
  const TimeInterval quartiles = quartilesOf(wide);
  EXPECT_GT(quartiles.low, 0);
  EXPECT_LT(quartiles.low, wide.median);
  EXPECT_DOUBLE_EQ(quartiles.high, wide.median + wide.spread);
  EXPECT_DOUBLE_EQ(quartiles.low * quartiles.high, wide.median * wide.median);
  const TimeInterval narrow = quartilesOf({100, 1, 9});
  EXPECT_NEAR(narrow.low, 99, 0.01);
  EXPECT_EQ(narrow.high, 101);
}

TEST(Trial, TheMediansIntervalIsOfOrderStatistics) {
  std::vector<double> samples;
  for (int i = 21; i > 0; --i) samples.push_back(i);
  // Ranks 6 and 16 of 21: Conover, Practical Nonparametric Statistics, confidence intervals of quantiles.
  EXPECT_EQ(medianInterval(samples).low, 6);
  EXPECT_EQ(medianInterval(samples).high, 16);
  EXPECT_EQ(medianInterval({3, 1, 2}).low, 1);
  EXPECT_EQ(medianInterval({3, 1, 2}).high, 3);
  EXPECT_EQ(medianInterval({}).high, 0);
}

std::vector<TimedPair> pairs(int count, double gain, double noise, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> jitter(0, noise);
  std::vector<TimedPair> result;
  for (int i = 0; i < count; ++i) result.push_back({100 * (1 + jitter(rng)), 100 * (1 - gain) * (1 + jitter(rng))});
  return result;
}

TEST(PairedVerdict, NeedsSevenPairs) {
  EXPECT_EQ(judge(pairs(6, 0.5, 0, 1)).decision, PairedVerdict::Decision::NeedMore);
  EXPECT_EQ(judge(pairs(7, 0.5, 0, 1)).decision, PairedVerdict::Decision::Accept);
  EXPECT_EQ(judge({}).decision, PairedVerdict::Decision::NeedMore);
}

TEST(PairedVerdict, RefusesTwoPercentAndLess) {
  EXPECT_NE(judge(pairs(7, 0.0199, 0, 1)).decision, PairedVerdict::Decision::Accept);
  EXPECT_EQ(judge(pairs(21, 0.0199, 0, 1)).decision, PairedVerdict::Decision::Reject);
  EXPECT_EQ(judge(pairs(7, -0.1, 0, 1)).decision, PairedVerdict::Decision::Reject);
  EXPECT_EQ(judge(pairs(7, 0.021, 0, 1)).decision, PairedVerdict::Decision::Accept);
}

TEST(PairedVerdict, NoiseAloneIsRarelyAccepted) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    accepted += judge(pairs(21, 0, 0.1, seed)).decision == PairedVerdict::Decision::Accept;
  EXPECT_LT(accepted, 50);
}

TEST(PairedVerdict, AClearGainIsSeenThroughNoise) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    accepted += judge(pairs(21, 0.2, 0.05, seed)).decision == PairedVerdict::Decision::Accept;
  EXPECT_GT(accepted, 950);
}

}  // namespace
}  // namespace nf
