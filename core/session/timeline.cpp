// SPDX-License-Identifier: Apache-2.0
#include "core/session/timeline.h"

#include <algorithm>

#include "core/lang/compile.h"

namespace nf {
namespace {

protocol::ActivityKind describe(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::Step: return protocol::ActivityKind::Step;
    case ActivityKind::Trip: return protocol::ActivityKind::Trip;
    case ActivityKind::Launch: return protocol::ActivityKind::Launch;
    case ActivityKind::Kernel: return protocol::ActivityKind::Kernel;
    case ActivityKind::Copy: return protocol::ActivityKind::Copy;
    case ActivityKind::Fill: return protocol::ActivityKind::Fill;
    case ActivityKind::GraphLaunch: return protocol::ActivityKind::GraphLaunch;
  }
  return protocol::ActivityKind::Kernel;
}

protocol::Phase describe(Phase phase) {
  switch (phase) {
    case Phase::Forward: return protocol::Phase::Forward;
    case Phase::Backward: return protocol::Phase::Backward;
    case Phase::Optimizer: return protocol::Phase::Optimizer;
    case Phase::Evaluation: return protocol::Phase::Evaluation;
  }
  return protocol::Phase::Forward;
}

}  // namespace

const protocol::TimelineSite& TimelineSites::of(const ActivitySite& site, const OriginSpans* spans, std::uint64_t revision) {
  if (revision != m_revision || m_placed != (spans != nullptr)) m_known.clear();
  m_revision = revision;
  m_placed = spans != nullptr;
  // Equal groups have one name each: their outputs'.
  const auto [at, added] = m_known.emplace(site.hash.hex() + " " + site.name, protocol::TimelineSite{});
  protocol::TimelineSite& known = at->second;
  if (!added) return known;
  known.subgraph = site.hash.hex();
  known.name = site.name;
  known.phase = describe(site.phase);
  if (!site.program || site.operators.empty()) return known;
  const Program& program = *site.program;
  known.expression = toText(program, site.operators, site.counters);
  for (const OperatorId o : site.operators) {
    if (site.counters.empty()) known.operators.push_back(program[program[o].output].name);
    if (!spans) continue;
    for (const std::uint32_t origin : spans->of(program, program[o].origin))
      if (std::find(known.origins.begin(), known.origins.end(), origin) == known.origins.end()) known.origins.push_back(origin);
  }
  return known;
}

protocol::Timeline describeTimeline(const ActivityRecord& record, const OriginSpans* spans, std::uint64_t revision,
                                    TimelineSites& sites) {
  protocol::Timeline timeline;
  timeline.lanes = record.lanes;
  timeline.ofDevice = record.ofDevice;
  timeline.why = record.why;
  timeline.leftOut = record.leftOut;
  const std::int64_t run = medianRun(record);
  if (run < 0) return timeline;
  const ActivityRecord one = oneRun(record, run);
  for (const ActivitySite& site : one.sites) timeline.sites.push_back(sites.of(site, spans, revision));
  for (const Activity& a : one.activities)
    timeline.activities.push_back({describe(a.kind), a.lane, a.begin, a.end,
                                   a.site == Activity::kNoSite ? -1 : static_cast<std::int64_t>(a.site), a.trip, a.bytes, a.name});
  return timeline;
}

}  // namespace nf
