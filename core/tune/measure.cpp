// SPDX-License-Identifier: Apache-2.0
#include "core/tune/measure.h"

#include <algorithm>

namespace nf {
namespace {

constexpr double kBeyondPeak = 3;  // clocks are above what they are said to be, and a peak of one type is not another's
// Multiplications of f16 a cycle over those of f32, with dense operands: 8 on Turing, 16 on A100 and H100, 32 on B200 (NVIDIA's white papers).
constexpr double kMatrixUnits = 32;

std::string times(double ratio) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f", ratio);
  return std::string(buffer) + " times the incumbent";
}

}  // namespace

Result<Measured> measureCandidate(const std::function<Result<double>()>& candidate,
                                  const std::function<Result<double>()>& incumbent, const MeasurePolicy& policy) {
  Measured result;
  std::vector<double> runs, others;
  const auto slow = [&](double ratio) {
    result.status = TrialStatus::Slow;
    result.reason = times(ratio);
    result.timing = timingOf(runs);
    result.incumbent = timingOf(others);
  };
  NF_TRY(const double first, candidate());
  runs.push_back(first);
  if (incumbent) {
    NF_TRY(const double other, incumbent());
    others.push_back(other);
    if (!policy.whole && first > policy.killBeyond * other) return slow(first / other), result;
  }
  for (int i = 0; i < 2; ++i) {
    NF_TRY(const double run, candidate());
    runs.push_back(run);
  }
  if (!incumbent) {
    result.timing = timingOf(runs);
    return result;
  }
  for (int i = 0; i < 2; ++i) {
    NF_TRY(const double run, incumbent());
    others.push_back(run);
  }
  // The least of three is the one least disturbed.
  const double ratio = *std::min_element(runs.begin(), runs.end()) / *std::min_element(others.begin(), others.end());
  if (!policy.whole && ratio > policy.dropBeyond) return slow(ratio), result;

  double spent = 0;  // microseconds
  const auto wanted = [&] {
    const auto count = static_cast<int>(result.pairs.size());
    if (count >= policy.pairs.maximumPairs) return false;
    if (policy.whole) return count < policy.pairs.minimumPairs || spent < policy.seconds * 1e6;
    const auto decision = judge(result.pairs, policy.pairs).decision;
    if (policy.fullGain && decision == PairedVerdict::Decision::Accept) return spent < policy.seconds * 1e6;
    return decision == PairedVerdict::Decision::NeedMore;
  };
  while (wanted()) {
    // Who goes first changes from pair to pair: what the first one leaves in the caches helps both alike.
    const bool candidateFirst = result.pairs.size() % 2 == 0;
    NF_TRY(const double a, (candidateFirst ? candidate : incumbent)());
    NF_TRY(const double b, (candidateFirst ? incumbent : candidate)());
    spent += a + b;
    result.pairs.push_back(candidateFirst ? TimedPair{b, a} : TimedPair{a, b});
  }
  runs.clear();
  others.clear();
  for (const TimedPair& pair : result.pairs) {
    runs.push_back(pair.candidate);
    others.push_back(pair.incumbent);
  }
  result.timing = timingOf(runs);
  result.incumbent = timingOf(others);
  return result;
}

double mostFlops(const Target& target, int threads) {
  // A GPU's threads are its multiprocessors.
  const double wide = target.backend == "cuda" ? kMatrixUnits * static_cast<double>(target.threads) : threads;
  return target.peakFlops > 0 ? kBeyondPeak * target.peakFlops * std::max(wide, 1.0) : 0;
}

}  // namespace nf
