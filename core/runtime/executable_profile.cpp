// SPDX-License-Identifier: Apache-2.0
// What an executable tells of its own runs: wall time of launches, and what the device says of them.
#include "core/runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace nf {

void Executable::setProfiling(bool on) {
  if (on == m_profiling) return;
  m_profiling = on;
  if (!on) return readProfiler();
  m_profiledRuns = 0;
  std::fill(m_profile.begin(), m_profile.end(), Watch{});
  m_recorder.reset();
  m_profiler = m_device.profiler();
  std::string why;
  if (m_profiler) {
    if (const auto started = m_profiler->start(); !started) {
      why = started.error().message;
      m_profiler = nullptr;
    }
  }
  if (!m_profiler && m_recorded == 0 && why.empty()) return;
  m_recorder = std::make_unique<ActivityRecorder>(*m_plan, m_device.name(), m_recorded);
  m_recorder->record().why = std::move(why);
}

void Executable::readProfiler() {
  if (!m_profiler) return;
  Profiler& profiler = *m_profiler;
  m_profiler = nullptr;
  const auto activities = profiler.stop();
  if (!activities) {
    m_recorder->record().why = activities.error().message;
    return;
  }
  const std::vector<double> seconds = m_recorder->take(*activities);
  for (std::uint64_t launch = 0; launch < seconds.size(); ++launch)
    if (seconds[launch] > 0) m_profile[m_recorder->subgraphOf(launch)].add(seconds[launch]);
}

Result<std::vector<std::optional<KernelCounters>>> Executable::countStep(std::uint64_t seed, std::uint64_t step,
                                                                         const std::atomic<bool>* stop) {
  if (!m_device.profiler())
    return Error{kCountersStage, "The device " + m_device.name() + " has no counters.", m_device.name(), {}};
  std::vector<std::optional<KernelCounters>> counters(m_kernels.size());
  const bool profiling = std::exchange(m_profiling, false);
  m_counting = &counters;
  const auto ran = run(seed, step, stop);
  m_counting = nullptr;
  m_profiling = profiling;
  if (!ran) return ran.error();
  return counters;
}

ActivityRecord Executable::takeActivities() {
  ActivityRecord record;
  record.device = m_device.name();
  if (m_recorder) record = std::move(m_recorder->record());
  m_recorder.reset();
  return record;
}

Result<Unit> Executable::launchTimed(std::uint32_t subgraph, const LaunchArgs& args, const PlannedSequence& s,
                                     const PlannedLaunch* launch) {
  using Clock = ActivityRecorder::Clock;
  LinkedKernel& linked = *m_kernels[subgraph];
  if (m_counting) {
    std::optional<KernelCounters>& counters = (*m_counting)[subgraph];
    if (counters) return linked.kernel->launch(args);
    NF_TRY(counters, m_device.profiler()->count([&] { return linked.kernel->launch(args); }));
    return Unit{};
  }
  Watch& watch = m_watches[subgraph];
  const bool recorded = m_profiling && m_recorder;
  const std::uint32_t site = !recorded ? Activity::kNoSite : launch ? m_recorder->siteOf(s, *launch) : m_recorder->siteOf(subgraph);
  // The device's own account needs nobody to wait, a watch does.
  const bool waits = m_device.target().backend == "cuda" && (watch.on || !m_profiler);
  if (recorded && m_profiler) m_profiler->launching(m_recorder->number(site));
  if (waits) { NF_TRY([[maybe_unused]] const Unit waited, m_device.synchronize()); }
  const Clock::time_point begin = Clock::now();
  auto done = linked.kernel->launch(args);
  if (recorded && m_profiler) m_profiler->launching(DeviceActivity::kNoLaunch);
  if (waits && done) done = m_device.synchronize();
  const Clock::time_point end = Clock::now();
  const double seconds = std::chrono::duration<double>(end - begin).count();
  if (watch.on) watch.add(seconds);
  if (m_profiling && !m_profiler) m_profile[subgraph].add(seconds);
  if (recorded) m_recorder->add(m_profiler ? ActivityKind::Launch : ActivityKind::Kernel, site, begin, end);
  return done;
}

Result<Unit> Executable::copyWithin(void* to, const void* from, std::int64_t bytes) {
  // The device tells of its own copies.
  if (!m_profiling || !m_recorder || m_profiler) return m_device.copy(to, from, bytes);
  const bool waits = m_device.target().backend == "cuda";
  const auto begin = ActivityRecorder::Clock::now();
  auto done = m_device.copy(to, from, bytes);
  if (waits && done) done = m_device.synchronize();
  m_recorder->add(ActivityKind::Copy, Activity::kNoSite, begin, ActivityRecorder::Clock::now(), bytes);
  return done;
}

}  // namespace nf
