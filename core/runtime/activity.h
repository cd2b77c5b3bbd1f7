// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/support/hash.h"
#include "core/support/span.h"

// What happened in the runs of an executable, launch by launch, for timelines.
namespace nf {

enum class ActivityKind : std::uint8_t {
  Step,         // a run with its updates
  Trip,         // one step of a loop
  Launch,       // the host's call, where the device tells its own times
  Kernel,       // a launch on the host's clock; a stage of one on the device's
  Copy,         // within the device, or to and from it
  Fill,         // memory set to one value
  GraphLaunch,  // a captured step as a whole
};
std::string_view name(ActivityKind kind);  // "kernel"

// What a launch is: some operators of a program.
struct ActivitySite {
  std::string name;  // of the operators' outputs
  std::uint32_t subgraph = 0;
  Hash hash;  // of the subgraph
  Phase phase = Phase::Forward;
  std::shared_ptr<const Program> program;
  std::vector<OperatorId> operators;  // none: what adds up the steps of a loop
  std::vector<std::string> counters;  // of the loops around it, outermost first
};

struct Activity {
  static constexpr std::uint32_t kNoSite = UINT32_MAX;
  ActivityKind kind = ActivityKind::Kernel;
  std::uint32_t lane = 0;           // of ActivityRecord::lanes
  std::int64_t begin = 0, end = 0;  // ns since the record began
  std::int64_t run = 0;             // which of the recorded runs
  std::uint32_t site = kNoSite;     // of ActivityRecord::sites
  std::int64_t trip = -1;           // counter of the innermost loop around it; -1: none
  std::int64_t bytes = 0;           // of a copy or a fill
  std::string name;                 // a stage's symbol, a copy's direction, a loop's counter; empty: the site's
};

struct ActivityRecord {
  std::string device;
  std::vector<std::string> lanes;  // the first is the host's thread that steps; then the device's streams
  std::vector<ActivitySite> sites;
  std::vector<Activity> activities;  // by begin, what is around before what is inside
  std::int64_t runs = 0;
  std::int64_t leftOut = 0;  // runs that had no room
  bool ofDevice = false;     // kernels' times are the device's own; else from the call to its end on the host's clock
  std::string why;           // in one sentence, where the device could tell its own and did not
};

// One recorded run alone, its times from its own begin.
ActivityRecord oneRun(const ActivityRecord& record, std::int64_t run);
// The run whose time is the median of all; -1: none is recorded.
std::int64_t medianRun(const ActivityRecord& record);

// The Trace Event Format, as chrome://tracing and Perfetto read it: JSON with one complete event ("X") an activity, times in
// microseconds; process 1 is the host, process 2 the device, threads are lanes. Arguments of a kernel: its expression as source text, its
// place in the notebook, its subgraph.
std::string chromeTrace(const ActivityRecord& record, const SourceMap& sources, const std::string& title);

}  // namespace nf
