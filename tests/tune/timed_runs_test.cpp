// SPDX-License-Identifier: Apache-2.0
#include "core/tune/timed_runs.h"

#include <gtest/gtest.h>

#include "core/tune/measure.h"

namespace nf {
namespace {

// A device on a clock of its own: a run costs the host `launchNs`, the device `runNs`, and a wait takes `waitNs` beyond what is queued. A
// graph costs the host one launch, whatever it holds.
struct Queue {
  std::int64_t launchNs = 4000, runNs = 3000, waitNs = 15'000;
  std::int64_t now = 0, free = 0;
  int graphs = 0, replays = 0, launches = 0, waits = 0;
  bool recording = false, refuses = false;
  std::int64_t recorded = 0;

  void queue(std::int64_t runs) {
    now += launchNs;
    free = std::max(free, now) + runs * runNs;
  }
};

class QueuedGraph final : public LaunchGraph {
 public:
  QueuedGraph(Queue& queue, std::int64_t runs) : m_queue(queue), m_runs(runs) {}
  Result<Unit> replay(std::uint64_t seed, std::uint64_t step) override {
    EXPECT_EQ(seed, TimedRuns::kSeed);
    EXPECT_EQ(step, TimedRuns::kStep);
    ++m_queue.replays;
    m_queue.queue(m_runs);
    return Unit{};
  }

 private:
  Queue& m_queue;
  std::int64_t m_runs;
};

class QueuedDevice final : public Device, public LaunchRecorder {
 public:
  QueuedDevice(Queue& queue, bool records) : m_queue(queue), m_records(records) {}
  std::string name() const override { return "queued"; }
  std::string description() const override { return "a clock"; }
  const Target& target() const override { return m_target; }
  Result<void*> allocate(std::int64_t) override { return Error{}; }
  void release(void*) override {}
  Result<Unit> copyIn(void*, const void*, std::int64_t) override { return Error{}; }
  Result<Unit> copyOut(void*, const void*, std::int64_t) override { return Error{}; }
  Result<std::unique_ptr<Kernel>> link(const KernelObject&) override { return Error{}; }
  Result<Unit> synchronize() override {
    EXPECT_FALSE(m_queue.recording);
    ++m_queue.waits;
    m_queue.now = std::max(m_queue.now, m_queue.free) + m_queue.waitNs;
    return Unit{};
  }
  LaunchRecorder* recorder() override { return m_records ? this : nullptr; }

  Result<Unit> begin() override {
    m_queue.recording = true;
    m_queue.recorded = 0;
    return Unit{};
  }
  Result<std::unique_ptr<LaunchGraph>> end(std::unique_ptr<LaunchGraph>) override {
    m_queue.recording = false;
    if (m_queue.refuses) return Error{"record", "no room", "queued", {}};
    ++m_queue.graphs;
    return std::unique_ptr<LaunchGraph>(std::make_unique<QueuedGraph>(m_queue, m_queue.recorded));
  }
  void discard() override { m_queue.recording = false; }
  Counts counts() const override { return {}; }

  Result<Unit> run() {
    if (m_queue.recording) ++m_queue.recorded;
    else {
      ++m_queue.launches;
      m_queue.queue(1);
    }
    return Unit{};
  }

 private:
  Queue& m_queue;
  bool m_records;
  Target m_target;
};

TimedRuns timed(QueuedDevice& device, Queue& queue, int* before = nullptr) {
  return TimedRuns(
      device, [&device] { return device.run(); }, [&queue] { return queue.now; },
      [before] {
        if (before) ++*before;
      });
}

// A launch of such a kernel takes the host longer than the device, and the wait longer than both.
TEST(TimedRuns, ShortKernelsOfAQueueAreTimedAsTheDeviceRunsThem) {
  for (const std::int64_t ns : {2000, 3000, 6000, 40'000}) {
    Queue queue;
    queue.runNs = ns;
    QueuedDevice device(queue, true);
    int before = 0;
    TimedRuns runs = timed(device, queue, &before);
    const auto us = runs();
    ASSERT_TRUE(us);
    EXPECT_NEAR(*us * 1000, static_cast<double>(ns), 0.1 * static_cast<double>(ns)) << ns;
    EXPECT_GE(static_cast<double>(runs.runsOfSample()) * *us * 1000, TimedRuns::kQueuedSample / 2.0);
    const int graphs = queue.graphs, launches = queue.launches;
    ASSERT_TRUE(runs());
    EXPECT_EQ(queue.graphs, graphs) << "the next sample has the same runs";
    EXPECT_EQ(queue.launches, launches);
    EXPECT_EQ(before, 2);
  }
}

TEST(TimedRuns, ALongKernelRunsOnce) {
  Queue queue;
  queue.runNs = 3'000'000;
  QueuedDevice device(queue, true);
  TimedRuns runs = timed(device, queue);
  const auto us = runs();
  ASSERT_TRUE(us);
  EXPECT_EQ(runs.runsOfSample(), 1);
  EXPECT_EQ(queue.launches, 1);
  EXPECT_EQ(queue.graphs, 0);
}

TEST(TimedRuns, WhatNoGraphHoldsIsLaunchedOneByOne) {
  Queue queue;
  queue.refuses = true;
  queue.launchNs = 1000;
  QueuedDevice device(queue, true);
  TimedRuns runs = timed(device, queue);
  const auto us = runs();
  ASSERT_TRUE(us);
  EXPECT_NEAR(*us, 3, 0.3);
  EXPECT_EQ(queue.replays, 0);
  EXPECT_GT(queue.launches, 80);
}

// On a host a call has ended when it returns, and samples are shorter.
TEST(TimedRuns, WithoutAQueueSamplesAreShort) {
  Queue queue;
  queue.waitNs = 0;
  queue.launchNs = 0;
  QueuedDevice device(queue, false);
  TimedRuns runs = timed(device, queue);
  const auto us = runs();
  ASSERT_TRUE(us);
  EXPECT_DOUBLE_EQ(*us, 3);
  EXPECT_LE(runs.runsOfSample() * queue.runNs, 2 * TimedRuns::kSample);
}

// What a target says of itself is of one CPU thread, of one multiprocessor of a GPU.
TEST(TimedRuns, TheMostThatADeviceCanComputeCountsAllOfIt) {
  Target gpu;
  gpu.backend = "cuda";
  gpu.threads = 132;
  gpu.peakFlops = 2.0 * 128 * 1.98e9;
  EXPECT_GT(mostFlops(gpu, 1), 989e12) << "an H100 multiplies f16 at this rate";
  EXPECT_LT(mostFlops(gpu, 1), 1e16);
  EXPECT_EQ(mostFlops(gpu, 8), mostFlops(gpu, 1)) << "the host's threads add nothing";
  Target cpu;
  cpu.peakFlops = 1.2e11;
  cpu.threads = 2;
  EXPECT_DOUBLE_EQ(mostFlops(cpu, 1), 3.6e11);
  EXPECT_DOUBLE_EQ(mostFlops(cpu, 4), 4 * 3.6e11);
  EXPECT_EQ(mostFlops(Target{}, 1), 0);
}

}  // namespace
}  // namespace nf
