// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/device/profiler.h"
#include "core/runtime/activity.h"
#include "core/runtime/execution_plan.h"

namespace nf {

// Takes down what an executable does while it runs. Runs are whole: one that might not fit is left out.
class ActivityRecorder {
 public:
  using Clock = std::chrono::steady_clock;
  // most: activities that are kept; launches are numbered without limit. Allocates what one run needs.
  ActivityRecorder(const ExecutionPlan& plan, std::string device, std::int64_t most);

  void beginRun();
  // The run lasts until here: after its launches, and again after the updates.
  void extendRun();
  // A step of a loop, until closeTrip().
  void openTrip(const std::string& counter, std::int64_t trip);
  void closeTrip();
  std::uint32_t siteOf(const PlannedSequence& sequence, const PlannedLaunch& launch);
  std::uint32_t siteOf(std::uint32_t subgraph);  // what adds up the steps of a loop
  // The number that the device is to know the launch by.
  std::uint64_t number(std::uint32_t site);
  void add(ActivityKind kind, std::uint32_t site, Clock::time_point begin, Clock::time_point end, std::int64_t bytes = 0);

  // What the device says it did: lanes of its own. By number of launch, the seconds of each launch's kernels; 0: unknown.
  std::vector<double> take(const std::vector<DeviceActivity>& activities);
  std::uint32_t subgraphOf(std::uint64_t launch) const;

  ActivityRecord& record() { return m_record; }

 private:
  struct Launch {
    std::uint32_t site = 0;
    std::int64_t run = 0, trip = -1;
    bool kept = true;
  };
  std::int64_t since(Clock::time_point t) const;
  const ExecutionPlan& m_plan;
  ActivityRecord m_record;
  Clock::time_point m_begin = Clock::now();
  std::size_t m_most;
  std::size_t m_longest = 0;  // activities of a run so far
  std::size_t m_runBegin = 0;
  bool m_keeps = false;                  // this run is kept
  std::vector<std::size_t> m_trips;      // open ones, indices of activities
  std::vector<std::int64_t> m_counters;  // of open ones
  std::vector<std::string> m_names;      // of these
  std::vector<Launch> m_launches;        // since the device began to record
  std::unordered_map<const PlannedLaunch*, std::uint32_t> m_sites;
  std::unordered_map<std::uint32_t, std::uint32_t> m_additions;  // by subgraph
  std::unordered_map<std::uint32_t, std::uint32_t> m_streams;    // lanes
};

}  // namespace nf
