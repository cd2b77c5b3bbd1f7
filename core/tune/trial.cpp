// SPDX-License-Identifier: Apache-2.0
#include "core/tune/trial.h"

#include <algorithm>
#include <cmath>

namespace nf {
namespace {

// Linear interpolation between order statistics; `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::string_view name(TrialStatus status) {
  switch (status) {
    case TrialStatus::Ok: return "ok";
    case TrialStatus::Wrong: return "wrong";
    case TrialStatus::Killed: return "killed";
    case TrialStatus::Crashed: return "crashed";
    case TrialStatus::Slow: return "slow";
  }
  return {};
}

std::optional<TrialStatus> trialStatusNamed(std::string_view text) {
  for (const TrialStatus s : {TrialStatus::Ok, TrialStatus::Wrong, TrialStatus::Killed, TrialStatus::Crashed, TrialStatus::Slow})
    if (name(s) == text) return s;
  return std::nullopt;
}

Timing timingOf(std::vector<double> microseconds) {
  if (microseconds.empty()) return {};
  std::sort(microseconds.begin(), microseconds.end());
  return {quantile(microseconds, 0.5), (quantile(microseconds, 0.75) - quantile(microseconds, 0.25)) / 2,
          static_cast<int>(microseconds.size())};
}

TimeInterval quartilesOf(const Timing& timing) {
  if (!(timing.median > 0)) return {timing.median, timing.median + timing.spread};
  return {timing.median * (timing.median / (timing.median + timing.spread)), timing.median + timing.spread};
}

TimeInterval medianInterval(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const double count = static_cast<double>(samples.size());
  const double rank = std::floor(count / 2 - 1.96 / 2 * std::sqrt(count));  // from 1, counted from either end
  const std::size_t at = rank > 1 ? static_cast<std::size_t>(rank) - 1 : 0;
  return {samples[at], samples[samples.size() - 1 - at]};
}

PairedVerdict judge(const std::vector<TimedPair>& pairs, const PairedPolicy& policy) {
  PairedVerdict verdict;
  std::vector<double> gains;
  gains.reserve(pairs.size());
  for (const TimedPair& pair : pairs)
    if (pair.incumbent > 0 && std::isfinite(pair.incumbent) && std::isfinite(pair.candidate))
      gains.push_back(1 - pair.candidate / pair.incumbent);
  if (gains.empty()) return verdict;
  std::sort(gains.begin(), gains.end());
  verdict.medianGain = quantile(gains, 0.5);
  const double interquartile = quantile(gains, 0.75) - quantile(gains, 0.25);
  verdict.spread = 1.2533 * 0.7413 * interquartile / std::sqrt(static_cast<double>(gains.size()));
  const auto count = static_cast<int>(gains.size());
  if (count < policy.minimumPairs) return verdict;
  // Twice the standard error: about one wrong acceptance in forty at no true gain.
  const bool sure = verdict.medianGain - 2 * verdict.spread > 0;
  if (verdict.medianGain > policy.minimumGain && sure) verdict.decision = PairedVerdict::Decision::Accept;
  else if (verdict.medianGain <= policy.minimumGain && verdict.medianGain + 2 * verdict.spread < policy.minimumGain)
    verdict.decision = PairedVerdict::Decision::Reject;
  else if (count >= policy.maximumPairs) verdict.decision = PairedVerdict::Decision::Reject;
  return verdict;
}

}  // namespace nf
