// SPDX-License-Identifier: Apache-2.0
#include "core/tune/function_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace nf {
namespace {

constexpr Hash kA{1, 1}, kB{2, 2};
const GateReport kPassed{true, 256, 0.1, {}};

std::shared_ptr<const KernelObject> kernel(std::int64_t flops) {
  auto object = std::make_shared<KernelObject>();
  object->flops = flops;
  return object;
}

TEST(FunctionCache, OnlyAPassedGateOpensIt) {
  FunctionCache cache;
  EXPECT_EQ(cache.offer(kA, kernel(1), GateReport{false, 256, 7, "Y[0] is 1, expected 2"}, 5), FunctionCache::Entry::NotGated);
  EXPECT_FALSE(cache.find(kA));
  EXPECT_EQ(cache.offer(kA, kernel(1), kPassed, {}), FunctionCache::Entry::Entered);
  EXPECT_EQ(cache.find(kA)->generation, 1u);
}

TEST(FunctionCache, SlowerNeverReplacesFaster) {
  FunctionCache cache;
  cache.offer(kA, kernel(1), kPassed, 10);
  EXPECT_EQ(cache.offer(kA, kernel(2), kPassed, 11), FunctionCache::Entry::Slower);
  EXPECT_EQ(cache.offer(kA, kernel(3), kPassed, 10), FunctionCache::Entry::Slower);
  EXPECT_EQ(cache.offer(kA, kernel(4), kPassed, {}), FunctionCache::Entry::Slower);
  EXPECT_EQ(cache.find(kA)->object->flops, 1);
  EXPECT_EQ(cache.offer(kA, kernel(5), kPassed, 9), FunctionCache::Entry::Entered);
  EXPECT_EQ(cache.find(kA)->generation, 2u);
  // Measured in the same session the incumbent needed 8: today's times decide, not yesterday's.
  EXPECT_EQ(cache.offer(kA, kernel(6), kPassed, 8.5, 8), FunctionCache::Entry::Slower);
  EXPECT_EQ(cache.offer(kA, kernel(7), kPassed, 12, 14), FunctionCache::Entry::Entered);
}

TEST(FunctionCache, AnyKernelReplacesAStandIn) {
  FunctionCache cache;
  cache.fail(kA, Error{"compile", "dead", {}, {}});
  cache.standIn(kA, kernel(0));
  EXPECT_FALSE(cache.failure(kA));
  ASSERT_TRUE(cache.find(kA));
  EXPECT_TRUE(cache.find(kA)->standIn);
  const auto version = cache.version();
  EXPECT_EQ(cache.offer(kA, kernel(1), kPassed, std::nullopt), FunctionCache::Entry::Entered);
  EXPECT_FALSE(cache.find(kA)->standIn);
  const auto changes = cache.changesSince(version).changes;
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].beforeMicroseconds);
  cache.standIn(kA, kernel(2));
  EXPECT_FALSE(cache.find(kA)->standIn) << "it never replaces a kernel";
}

TEST(FunctionCache, ChangesSinceGivesTheNewestOfEach) {
  FunctionCache cache;
  const std::uint64_t start = cache.version();
  cache.offer(kA, kernel(1), kPassed, 10);
  cache.offer(kB, kernel(2), kPassed, 20);
  auto changes = cache.changesSince(start);
  ASSERT_EQ(changes.changes.size(), 2u);
  EXPECT_FALSE(changes.changes[0].beforeMicroseconds);
  cache.offer(kA, kernel(3), kPassed, 8);
  cache.offer(kA, kernel(4), kPassed, 5);
  const auto later = cache.changesSince(changes.version);
  ASSERT_EQ(later.changes.size(), 1u);
  EXPECT_EQ(later.changes[0].subgraph, kA);
  EXPECT_EQ(later.changes[0].kernel.object->flops, 4);
  EXPECT_EQ(later.changes[0].kernel.generation, 3u);
  EXPECT_EQ(later.changes[0].beforeMicroseconds, 8);
  EXPECT_TRUE(cache.changesSince(later.version).changes.empty());
}

TEST(FunctionCache, WaitsForKernelsAndFailures) {
  FunctionCache cache;
  const std::vector<Hash> both{kA, kB};
  EXPECT_FALSE(cache.waitFor(both, {}, std::chrono::milliseconds(0)));
  std::jthread other([&] {
    cache.offer(kA, kernel(1), kPassed, {});
    cache.fail(kB, Error{"compile", "no template", "cpu", {}});
  });
  EXPECT_TRUE(cache.waitFor(both, {}));
  EXPECT_EQ(cache.failure(kB)->message, "no template");
  cache.offer(kB, kernel(1), kPassed, {});
  EXPECT_FALSE(cache.failure(kB));
}

TEST(FunctionCache, AStopEndsTheWait) {
  FunctionCache cache;
  std::stop_source stop;
  std::jthread other([&] { stop.request_stop(); });
  const std::vector<Hash> one{kA};
  EXPECT_FALSE(cache.waitFor(one, stop.get_token()));
}

TEST(FunctionCache, ManyThreadsSeeOnlyImprovement) {
  FunctionCache cache;
  std::atomic<bool> done = false;
  std::jthread reader([&] {
    std::uint64_t version = 0;
    double last = 1e30;
    while (!done) {
      for (const auto& change : cache.changesSince(version).changes) {
        EXPECT_LT(*change.kernel.microseconds, last);
        last = *change.kernel.microseconds;
      }
      version = cache.version();
    }
  });
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 3; ++w)
      writers.emplace_back([&, w] {
        for (int i = 0; i < 300; ++i) cache.offer(kA, kernel(i), kPassed, 1 + (i * 7919 + w * 104729) % 1000);
      });
  }
  done = true;
  EXPECT_EQ(
      cache.find(kA)->microseconds, 1 + [] {
        int best = 1000;
        for (int w = 0; w < 3; ++w)
          for (int i = 0; i < 300; ++i) best = std::min(best, (i * 7919 + w * 104729) % 1000);
        return best;
      }());
}

}  // namespace
}  // namespace nf
