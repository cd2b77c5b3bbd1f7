// SPDX-License-Identifier: Apache-2.0
#include "core/protocol/latency.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace nf::protocol {
namespace {

constexpr std::int64_t kLeastWindow = 9, kWindowsOfRun = 50;

// How far to both sides of a sample's middle the window of its median goes, in halves of a step.
std::int64_t reachAt(std::int64_t middle) { return std::max(kLeastWindow, middle / 2 / kWindowsOfRun); }

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
  std::vector<std::int64_t> until(times.size());  // where the sample's steps end; all places in halves of a step
  std::int64_t total = 0;
  for (std::size_t i = 0; i < times.size(); ++i) until[i] = total += 2 * count(i);
  Ranks window(times.size());
  std::vector<std::int64_t> held(times.size(), 0);
  for (std::size_t i = 0, begin = 0, end = 0; i < times.size(); ++i) {
    const std::int64_t middle = until[i] - count(i), reach = reachAt(middle);
    const std::int64_t low = middle - reach, high = middle + reach;
    const auto from = [&](std::size_t k) { return until[k] - 2 * count(k); };
    const auto hold = [&](std::size_t k) {
      const std::int64_t now = std::max<std::int64_t>(0, std::min(high, until[k]) - std::max(low, from(k)));
      window.add(rank[k], now - held[k]);
      held[k] = now;
    };
    if (end > 0) hold(end - 1);
    for (; end < times.size() && from(end) < high; ++end) hold(end);
    for (; until[begin] <= low; ++begin) hold(begin);
    hold(begin);
    medians[i] = times[byTime[window.middle()]].ms;
  }
  return medians;
}

std::optional<StepSpread> newestSteps(std::span<const StepTime> times) {
  if (times.empty()) return std::nullopt;
  const auto halves = [](const StepTime& t) { return 2 * std::max<std::int64_t>(1, t.steps); };
  std::int64_t total = 0;
  for (const StepTime& t : times) total += halves(t);
  const std::int64_t middle = total - halves(times.back()) / 2, low = middle - reachAt(middle);
  const std::int64_t high = middle + reachAt(middle);
  std::vector<std::pair<double, std::int64_t>> held;
  std::int64_t count = 0, end = total;
  for (auto t = times.rbegin(); t != times.rend() && end > low; end -= halves(*t++)) {
    held.emplace_back(t->ms, std::min(end, high) - std::max(end - halves(*t), low));
    count += held.back().second;
  }
  std::sort(held.begin(), held.end());
  const auto ranked = [&](std::int64_t quarters) {
    std::int64_t below = 0;
    auto at = held.begin();
    while ((below += at->second) * 4 <= count * quarters) ++at;
    return at->first;
  };
  return StepSpread{ranked(2), ranked(1), ranked(3), (count + 1) / 2};
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
