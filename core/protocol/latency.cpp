// SPDX-License-Identifier: Apache-2.0
#include "core/protocol/latency.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace nf::protocol {
namespace {

constexpr std::int64_t kLeastWindow = 9, kWindowsOfRun = 50;

// Counts by rank; the rank at which half of them lie below.
class Ranks {
 public:
  explicit Ranks(std::size_t size) : m_sums(size + 1, 0) {}
  void add(std::size_t rank, std::int64_t count) {
    m_total += count;
    for (std::size_t i = rank + 1; i < m_sums.size(); i += i & (~i + 1)) m_sums[i] += count;
  }
  std::size_t middle() const {
    std::size_t at = 0;
    std::int64_t below = 0;
    for (std::size_t step = std::bit_floor(m_sums.size() - 1); step > 0; step /= 2)
      if (at + step < m_sums.size() && (below + m_sums[at + step]) * 2 <= m_total) at += step, below += m_sums[at];
    return at;
  }

 private:
  std::vector<std::int64_t> m_sums;  // a Fenwick tree, from 1
  std::int64_t m_total = 0;
};

}  // namespace

std::vector<double> runningMedians(std::span<const StepTime> times) {
  std::vector<double> medians(times.size());
  if (times.empty()) return medians;
  std::vector<std::size_t> byTime(times.size()), rank(times.size());
  std::iota(byTime.begin(), byTime.end(), 0);
  std::stable_sort(byTime.begin(), byTime.end(), [&](std::size_t a, std::size_t b) { return times[a].ms < times[b].ms; });
  for (std::size_t i = 0; i < byTime.size(); ++i) rank[byTime[i]] = i;
  const auto count = [&](std::size_t i) { return std::max<std::int64_t>(1, times[i].steps); };
  std::vector<std::int64_t> middle(times.size());  // of the sample's steps, in halves of a step
  std::int64_t total = 0;
  for (std::size_t i = 0; i < times.size(); ++i) total += count(i), middle[i] = 2 * total - count(i);
  const std::int64_t reach = std::max(kLeastWindow, total / kWindowsOfRun) - 1;
  Ranks window(times.size());
  for (std::size_t i = 0, begin = 0, end = 0; i < times.size(); ++i) {
    for (; end < times.size() && middle[end] - middle[i] <= reach; ++end) window.add(rank[end], count(end));
    for (; middle[i] - middle[begin] > reach; ++begin) window.add(rank[begin], -count(begin));
    medians[i] = times[byTime[window.middle()]].ms;
  }
  return medians;
}

std::optional<AgainstPeer> againstPeer(std::span<const StepTime> times, double peerMs) {
  if (times.empty()) return std::nullopt;
  const std::vector<double> medians = runningMedians(times);
  AgainstPeer result{{}, medians.back()};
  const auto slow = std::find_if(medians.rbegin(), medians.rend(), [&](double ms) { return !(ms < peerMs); });
  if (slow == medians.rend()) result.from = times.front().step - std::max<std::int64_t>(1, times.front().steps) + 1;
  else if (slow != medians.rbegin()) result.from = times[static_cast<std::size_t>(medians.rend() - slow - 1)].step + 1;
  return result;
}

}  // namespace nf::protocol
