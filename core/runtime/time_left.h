// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>

namespace nf {

// How long the rest takes, at the pace of the recent half of the time so far: wall time, with all that stands between steps.
class TimeLeft {
 public:
  // `step` steps are done, `seconds` after they began. Both only grow.
  void add(double seconds, std::int64_t step);
  // Seconds for `steps` more; nothing before the recent half has a step in it.
  std::optional<double> forSteps(std::int64_t steps) const;

 private:
  struct Mark {
    double seconds = 0;
    std::int64_t step = 0;
  };
  std::deque<Mark> m_marks;  // the first is where the recent half begins
  Mark m_now;
};

}  // namespace nf
