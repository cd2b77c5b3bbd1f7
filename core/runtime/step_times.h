// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace nf {

// How long the steps of a run took, in milliseconds, in room that does not grow with the run: the newest `kRecent`, and of all of them at
// most `kKept`: one of each so many, drawn, since what takes longer may come as evenly as they are spaced (the step behind an evaluation).
// Up to `kKept` steps every one is kept, and all medians are exact.
class StepTimes {
 public:
  static constexpr std::size_t kRecent = 1 << 16, kKept = 1 << 20;
  void expect(std::int64_t steps);  // so many take no allocation
  void add(float milliseconds);
  std::int64_t count() const { return m_count; }
  bool empty() const { return m_count == 0; }
  // The newest, oldest first: at most `most` and kRecent.
  std::vector<float> newest(std::int64_t most) const;
  // Of all steps; of the first and the last tenth of them, of one step at least.
  std::vector<float> all() const { return m_kept; }
  std::vector<float> firstTenth() const;
  std::vector<float> lastTenth() const;

 private:
  std::size_t tenth() const;
  std::vector<float> m_recent;                           // a ring: step i is at i % kRecent
  std::vector<float> m_kept;                             // one of each m_spacing steps
  std::int64_t m_count = 0, m_spacing = 1, m_drawn = 0;  // m_drawn: the step that is kept of the m_spacing that are under way
  std::minstd_rand m_random;
};

}  // namespace nf
