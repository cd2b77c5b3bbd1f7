// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/step_times.h"

#include <algorithm>

namespace nf {

void StepTimes::expect(std::int64_t steps) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(steps, 0));
  m_recent.reserve(std::min(n, kRecent));
  m_kept.reserve(std::min(n, kKept));
}

void StepTimes::add(float milliseconds) {
  if (m_recent.size() < kRecent) m_recent.push_back(milliseconds);
  else m_recent[static_cast<std::size_t>(m_count) % kRecent] = milliseconds;
  const auto draw = [this](std::int64_t of) { return static_cast<std::int64_t>(m_random() % static_cast<std::uint64_t>(of)); };
  if (m_count % m_spacing == 0) m_drawn = m_count + draw(m_spacing);
  if (m_count == m_drawn && m_kept.size() == kKept) {
    for (std::size_t i = 0; 2 * i < m_kept.size(); ++i) m_kept[i] = m_kept[2 * i + static_cast<std::size_t>(draw(2))];
    m_kept.resize(kKept / 2);
    // The steps under way are the first half of twice as many: this one is kept, or one of the second half.
    if (draw(2) == 1) m_drawn += m_spacing - m_drawn % m_spacing + draw(m_spacing);
    m_spacing *= 2;
  }
  if (m_count == m_drawn) m_kept.push_back(milliseconds);
  ++m_count;
}

std::vector<float> StepTimes::newest(std::int64_t most) const {
  const std::int64_t n = std::clamp<std::int64_t>(most, 0, static_cast<std::int64_t>(m_recent.size()));
  std::vector<float> list;
  list.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = m_count - n; i < m_count; ++i) list.push_back(m_recent[static_cast<std::size_t>(i) % kRecent]);
  return list;
}

std::size_t StepTimes::tenth() const { return std::min(m_kept.size(), std::max<std::size_t>(1, m_kept.size() / 10)); }

std::vector<float> StepTimes::firstTenth() const { return {m_kept.begin(), m_kept.begin() + static_cast<std::ptrdiff_t>(tenth())}; }

std::vector<float> StepTimes::lastTenth() const { return {m_kept.end() - static_cast<std::ptrdiff_t>(tenth()), m_kept.end()}; }

}  // namespace nf
