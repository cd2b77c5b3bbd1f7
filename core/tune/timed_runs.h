// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "core/device/backend.h"
#include "core/device/launch_graph.h"

namespace nf {

// Times what a device runs, many short runs at once, so that neither the clock nor the wait for the device counts. On a device with a queue
// of its own a wait takes as long as several short kernels (10 to 30 us on NVIDIA's, a lead from public sources), and so may the
// host's part of a launch; there the runs of a sample are one graph, as a step runs them.
class TimedRuns {
 public:
  static constexpr std::int64_t kSample = 50'000;         // ns that a sample is to last
  static constexpr std::int64_t kQueuedSample = 500'000;  // where there is a queue
  static constexpr std::int64_t kMostRuns = 1000, kMostRecorded = 250;
  static constexpr std::uint64_t kSeed = 1, kStep = 0;  // of Random

  // run: queues one run, with kSeed and kStep. now: ns. before: what precedes a sample and is not timed.
  TimedRuns(Device& device, std::function<Result<Unit>()> run, std::function<std::int64_t()> now, std::function<void()> before);

  // Microseconds of one run, the mean of a sample's.
  Result<double> operator()();
  std::int64_t runsOfSample() const { return m_runs; }

 private:
  Result<Unit> record();
  Result<std::int64_t> sample();

  Device& m_device;
  std::function<Result<Unit>()> m_run;
  std::function<std::int64_t()> m_now;
  std::function<void()> m_before;
  bool m_queued;
  bool m_refused = false;  // the device takes no graph of it
  std::int64_t m_runs = 1;
  std::unique_ptr<LaunchGraph> m_graph;  // of m_runs; null: launch by launch
};

}  // namespace nf
