// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

// What stands in the braces of `hint schedule Y { ... }`: a schedule as a person reads and writes it, or its JSON.
//   { kind = contraction; rows = "axis0*2 axis2*4"; tile = [8, 8]; unroll = 4 }
//   {"kind": "contraction", "knobs": {"rows": "axis0*2 axis2*4", "tile": [8, 8], "unroll": 4}, "version": 1}
namespace nf {

// As a person reads it, on one line. JSON that is no schedule, or holds what has no such form (objects, booleans, another version),
// comes back as it is.
std::string scheduleText(std::string_view json);

// The same over several lines where it is wider than `columns`, `before` (in front of the brace) counted in.
std::string scheduleText(std::string_view json, std::size_t before, std::size_t columns);

struct ScheduleReading {
  std::string json;                // canonical where it is a schedule; JSON of anything else as it was written
  std::string mistake;             // empty: none
  std::size_t begin = 0, end = 0;  // of the mistake, bytes of the text
};

// Of both forms, braces inclusive. Whether JSON holds a schedule is the caller's question.
ScheduleReading readSchedule(std::string_view text);

}  // namespace nf
