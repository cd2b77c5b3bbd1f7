// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/activity_recorder.h"

#include <algorithm>

namespace nf {

ActivityRecorder::ActivityRecorder(const ExecutionPlan& plan, std::string device, std::int64_t most)
    : m_plan(plan), m_most(static_cast<std::size_t>(std::max<std::int64_t>(most, 0))) {
  m_record.device = std::move(device);
  m_record.lanes = {"steps"};
  m_record.activities.reserve(std::min(m_most, static_cast<std::size_t>(2 * plan.launchesPerStep) + 64));
}

std::int64_t ActivityRecorder::since(Clock::time_point t) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t - m_begin).count();
}

void ActivityRecorder::beginRun() {
  if (m_keeps) m_longest = std::max(m_longest, m_record.activities.size() - m_runBegin);
  m_trips.clear();
  m_counters.clear();
  m_names.clear();
  const std::size_t expected =
      m_longest > 0 ? m_longest : static_cast<std::size_t>(std::max<std::int64_t>(m_plan.launchesPerStep, 0)) + 1;
  m_keeps = m_record.activities.size() + expected <= m_most;
  if (!m_keeps) {
    if (m_most > 0) ++m_record.leftOut;
    return;
  }
  m_runBegin = m_record.activities.size();
  const std::int64_t now = since(Clock::now());
  m_record.activities.push_back({ActivityKind::Step, 0, now, now, m_record.runs++});
}

void ActivityRecorder::extendRun() {
  if (m_keeps) m_record.activities[m_runBegin].end = since(Clock::now());
}

void ActivityRecorder::openTrip(const std::string& counter, std::int64_t trip) {
  m_counters.push_back(trip);
  m_names.push_back(counter);
  if (!m_keeps) return;
  m_trips.push_back(m_record.activities.size());
  const std::int64_t now = since(Clock::now());
  m_record.activities.push_back({ActivityKind::Trip, 0, now, now, m_record.runs - 1, Activity::kNoSite, trip, 0, counter});
}

void ActivityRecorder::closeTrip() {
  m_counters.pop_back();
  m_names.pop_back();
  if (!m_keeps) return;
  m_record.activities[m_trips.back()].end = since(Clock::now());
  m_trips.pop_back();
}

std::uint32_t ActivityRecorder::siteOf(const PlannedSequence& sequence, const PlannedLaunch& launch) {
  const auto [at, added] = m_sites.emplace(&launch, static_cast<std::uint32_t>(m_record.sites.size()));
  if (!added) return at->second;
  ActivitySite site;
  site.subgraph = launch.subgraph;
  site.hash = m_plan.subgraphs[launch.subgraph].hash;
  site.program = sequence.program;
  site.operators = launch.operators;
  site.counters = m_names;
  const Program& program = *sequence.program;
  for (const OperatorId o : launch.operators) {
    if (!site.name.empty()) site.name += ", ";
    site.name += program[program[o].output].name;
  }
  // A fused group is coloured by its last operator, as boxes of the graph are.
  if (!launch.operators.empty()) site.phase = program[launch.operators.back()].phase;
  m_record.sites.push_back(std::move(site));
  return at->second;
}

std::uint32_t ActivityRecorder::siteOf(std::uint32_t subgraph) {
  const auto [at, added] = m_additions.emplace(subgraph, static_cast<std::uint32_t>(m_record.sites.size()));
  if (!added) return at->second;
  ActivitySite site;
  site.subgraph = subgraph;
  site.hash = m_plan.subgraphs[subgraph].hash;
  site.name = m_plan.subgraphs[subgraph].name;
  site.phase = Phase::Backward;  // only a gradient adds up over the steps of a loop
  m_record.sites.push_back(std::move(site));
  return at->second;
}

std::uint64_t ActivityRecorder::number(std::uint32_t site) {
  m_launches.push_back({site, m_record.runs - 1, m_counters.empty() ? -1 : m_counters.back(), m_keeps});
  return m_launches.size() - 1;
}

void ActivityRecorder::add(ActivityKind kind, std::uint32_t site, Clock::time_point begin, Clock::time_point end,
                           std::int64_t bytes) {
  if (!m_keeps) return;
  m_record.activities.push_back(
      {kind, 0, since(begin), since(end), m_record.runs - 1, site, m_counters.empty() ? -1 : m_counters.back(), bytes});
}

std::uint32_t ActivityRecorder::subgraphOf(std::uint64_t launch) const { return m_record.sites[m_launches[launch].site].subgraph; }

std::vector<double> ActivityRecorder::take(const std::vector<DeviceActivity>& activities) {
  m_record.ofDevice = true;
  std::vector<double> seconds(m_launches.size(), 0.0);
  const std::int64_t zero = std::chrono::duration_cast<std::chrono::nanoseconds>(m_begin.time_since_epoch()).count();
  const auto kindOf = [](DeviceActivity::Kind kind) {
    switch (kind) {
      case DeviceActivity::Kind::Kernel: return ActivityKind::Kernel;
      case DeviceActivity::Kind::Copy: return ActivityKind::Copy;
      case DeviceActivity::Kind::Fill: return ActivityKind::Fill;
      case DeviceActivity::Kind::GraphLaunch: return ActivityKind::GraphLaunch;
    }
    return ActivityKind::Kernel;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> begins;  // of runs, and their numbers
  for (const Activity& a : m_record.activities)
    if (a.kind == ActivityKind::Step) begins.emplace_back(a.begin, a.run);
  for (const DeviceActivity& a : activities) {
    const bool known = a.launch < m_launches.size();
    if (known && a.kind == DeviceActivity::Kind::Kernel) seconds[a.launch] += static_cast<double>(a.end - a.begin) * 1e-9;
    if (m_record.runs == 0 || (known && !m_launches[a.launch].kept)) continue;
    const auto [lane, added] = m_streams.emplace(a.stream, static_cast<std::uint32_t>(m_record.lanes.size()));
    if (added) m_record.lanes.push_back("stream " + std::to_string(a.stream));
    Activity activity{kindOf(a.kind), lane->second, a.begin - zero, a.end - zero, 0, Activity::kNoSite, -1, a.bytes, a.name};
    if (known) {
      activity.site = m_launches[a.launch].site;
      activity.trip = m_launches[a.launch].trip;
      activity.run = m_launches[a.launch].run;
    } else {
      // Of nothing that was announced: of the run that it began in, as the host's clock has it.
      const auto next = std::upper_bound(begins.begin(), begins.end(), std::pair{activity.begin, INT64_MAX});
      if (next == begins.begin()) continue;
      activity.run = std::prev(next)->second;
    }
    m_record.activities.push_back(std::move(activity));
  }
  std::stable_sort(m_record.activities.begin(), m_record.activities.end(),
                   [](const Activity& a, const Activity& b) { return a.begin != b.begin ? a.begin < b.begin : a.kind < b.kind; });
  return seconds;
}

}  // namespace nf
