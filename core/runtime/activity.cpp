// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/activity.h"

#include <algorithm>
#include <utility>

namespace nf {

std::string_view name(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::Step: return "step";
    case ActivityKind::Trip: return "trip";
    case ActivityKind::Launch: return "launch";
    case ActivityKind::Kernel: return "kernel";
    case ActivityKind::Copy: return "copy";
    case ActivityKind::Fill: return "fill";
    case ActivityKind::GraphLaunch: return "graph launch";
  }
  return {};
}

ActivityRecord oneRun(const ActivityRecord& record, std::int64_t run) {
  ActivityRecord one = record;
  std::erase_if(one.activities, [&](const Activity& a) { return a.run != run; });
  one.runs = one.activities.empty() ? 0 : 1;
  std::int64_t begin = INT64_MAX;
  for (const Activity& a : one.activities) begin = std::min(begin, a.begin);
  for (Activity& a : one.activities) {
    a.begin -= begin;
    a.end -= begin;
    a.run = 0;
  }
  return one;
}

std::int64_t medianRun(const ActivityRecord& record) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // how long, which
  for (const Activity& a : record.activities)
    if (a.kind == ActivityKind::Step) runs.emplace_back(a.end - a.begin, a.run);
  if (runs.empty()) return -1;
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end());
  return middle->second;
}

}  // namespace nf
