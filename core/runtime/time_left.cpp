// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/time_left.h"

namespace nf {

void TimeLeft::add(double seconds, std::int64_t step) {
  constexpr double kMarksInHalf = 32;
  m_now = {seconds, step};
  if (m_marks.empty() || seconds - m_marks.back().seconds >= seconds / (2 * kMarksInHalf)) m_marks.push_back(m_now);
  while (m_marks.size() > 1 && m_marks[1].seconds <= seconds / 2) m_marks.pop_front();
}

std::optional<double> TimeLeft::forSteps(std::int64_t steps) const {
  if (m_marks.empty() || m_now.step <= m_marks.front().step || !(m_now.seconds > m_marks.front().seconds)) return std::nullopt;
  return static_cast<double>(steps) * (m_now.seconds - m_marks.front().seconds) /
         static_cast<double>(m_now.step - m_marks.front().step);
}

}  // namespace nf
