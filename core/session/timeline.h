// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "core/protocol/values.h"
#include "core/runtime/activity.h"
#include "core/session/origin_spans.h"

namespace nf {

// Described launches of one revision: those of a training are the same from profile to profile, and an origin may lead far back.
class TimelineSites {
 public:
  // spans: null where the launches are of another text than the revision's.
  const protocol::TimelineSite& of(const ActivitySite& site, const OriginSpans* spans, std::uint64_t revision);

 private:
  std::uint64_t m_revision = 0;
  bool m_placed = false;
  std::map<std::string, protocol::TimelineSite> m_known;  // by subgraph, name and expression
};

// The run of the record whose time is the median of all.
protocol::Timeline describeTimeline(const ActivityRecord& record, const OriginSpans* spans, std::uint64_t revision,
                                    TimelineSites& sites);

}  // namespace nf
