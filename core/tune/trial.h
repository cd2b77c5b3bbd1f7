// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nf {

// How a candidate ended. Killed: it ran past the deadline its parent held. Crashed: it took its worker down, or the
// compiler refused it. Slow: dropped by the measurement policy.
enum class TrialStatus : std::uint8_t { Ok, Wrong, Killed, Crashed, Slow };
std::string_view name(TrialStatus status);  // "ok", "wrong", "killed", "crashed", "slow"
std::optional<TrialStatus> trialStatusNamed(std::string_view name);

// One comparison of the candidate with the incumbent, run right after one another. Microseconds.
struct TimedPair {
  double incumbent = 0;
  double candidate = 0;
};

// Median and half the distance of the quartiles, in microseconds.
struct Timing {
  double median = 0;
  double spread = 0;
  int runs = 0;
};
Timing timingOf(std::vector<double> microseconds);

struct TimeInterval {
  double low = 0, high = 0;
};
// About the quartiles, of a time that varies by factors: median / r to median * r with r = 1 + spread / median, so never below zero.
TimeInterval quartilesOf(const Timing& timing);
// Order statistics that hold the true median of what was sampled with 95 % (sign test, normal approximation); of ten samples and
// fewer the smallest and the largest. Zeroes where there are none.
TimeInterval medianInterval(std::vector<double> samples);

// What a set of pairs says (design: codegen, "Search"): accepted when the median of the paired gains, 1 - candidate/incumbent,
// exceeds `minimumGain` and twice its spread; undecided while there are fewer than `minimumPairs`.
struct PairedVerdict {
  enum class Decision : std::uint8_t { NeedMore, Accept, Reject };
  Decision decision = Decision::NeedMore;
  double medianGain = 0;
  double spread = 0;  // standard error of the median gain: 1.2533 * 0.7413 * interquartile range / sqrt(pairs)
};
struct PairedPolicy {
  int minimumPairs = 7;
  int maximumPairs = 21;  // past it an undecided candidate is refused
  double minimumGain = 0.02;
};
PairedVerdict judge(const std::vector<TimedPair>& pairs, const PairedPolicy& policy = {});

// The stage of the Error that a subgraph has in place of a kernel where the gate refused all of them; its message is the gate's sentence.
inline constexpr const char* kGateStage = "gate";

// The correctness gate's finding. Only a passed gate opens the function cache.
struct GateReport {
  bool passed = false;
  std::int64_t comparedOutputs = 0;
  double worstError = 0;  // relative to the tolerance: above 1 it failed
  std::string failure;    // one sentence: which output, where, got and expected
};

}  // namespace nf
