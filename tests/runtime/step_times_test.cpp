// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nf {
namespace {

TEST(StepTimes, OfAShortRunAreAllThere) {
  StepTimes times;
  EXPECT_TRUE(times.newest(100).empty());
  EXPECT_TRUE(times.lastTenth().empty());
  for (int i = 0; i < 25; ++i) times.add(static_cast<float>(i));
  EXPECT_EQ(times.count(), 25);
  EXPECT_EQ(times.all().size(), 25u);
  EXPECT_EQ(times.firstTenth(), (std::vector<float>{0, 1}));
  EXPECT_EQ(times.lastTenth(), (std::vector<float>{23, 24}));
  EXPECT_EQ(times.newest(3), (std::vector<float>{22, 23, 24}));
  EXPECT_EQ(times.newest(100).size(), 25u);
}

// Where each eighth step takes longer, as behind the evaluation of an epoch, the median is that of the others all the same.
TEST(StepTimes, WhatComesEvenlyIsKeptAsOftenAsItComes) {
  StepTimes times;
  constexpr std::int64_t kSteps = 9'000'000;
  for (std::int64_t i = 0; i < kSteps; ++i) times.add(i % 8 == 0 ? 2.0f : 1.0f);
  for (const std::vector<float>& kept : {times.firstTenth(), times.lastTenth(), times.all()}) {
    const auto slow = static_cast<double>(std::count(kept.begin(), kept.end(), 2.0f)) / static_cast<double>(kept.size());
    EXPECT_NEAR(slow, 0.125, 0.01);
  }
}

TEST(StepTimes, OfALongRunTakeNoMoreRoomAndStandEvenly) {
  StepTimes times;
  constexpr std::int64_t kSteps = 5'000'000;
  for (std::int64_t i = 0; i < kSteps; ++i) times.add(static_cast<float>(i));
  EXPECT_EQ(times.count(), kSteps);
  const std::vector<float> all = times.all();
  EXPECT_LE(all.size(), StepTimes::kKept);
  EXPECT_GT(all.size(), StepTimes::kKept / 2);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(static_cast<std::size_t>(all[i]) / 8, i);
  EXPECT_NEAR(times.firstTenth().back(), 0.1 * kSteps, 16);
  EXPECT_NEAR(times.lastTenth().front(), 0.9 * kSteps, 16);
  const std::vector<float> newest = times.newest(kSteps);
  ASSERT_EQ(newest.size(), StepTimes::kRecent);
  for (std::size_t i = 0; i < newest.size(); ++i)
    ASSERT_EQ(newest[i], static_cast<float>(kSteps - static_cast<std::int64_t>(newest.size() - i)));
}

}  // namespace
}  // namespace nf
