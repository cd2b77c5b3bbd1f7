// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>

#include "core/schedule/schedule.h"
#include "core/support/result.h"
#include "core/tune/trial.h"

namespace nf {

// How much of one candidate is measured (design: codegen, "Search"): once, given up beyond 3 times the incumbent; three runs,
// dropped beyond 1.2 times; then at least seven pairs, interleaved with the incumbent, until they decide.
struct MeasurePolicy {
  double killBeyond = 3;
  double dropBeyond = 1.2;
  PairedPolicy pairs;
  bool whole = false;  // never given up: as many pairs as there may be, of which at least `minimumPairs` past `seconds`
  // A gain does not end it: it is held against as many pairs as there may be, as far as they fit into `seconds`.
  bool fullGain = false;
  double seconds = 2;
};

struct Measured {
  TrialStatus status = TrialStatus::Ok;  // Ok or Slow
  std::string reason;
  Timing timing;
  Timing incumbent;
  std::vector<TimedPair> pairs;
};

// `candidate` and `incumbent` run their kernel once and give microseconds; the latter is empty when there is none yet.
Result<Measured> measureCandidate(const std::function<Result<double>()>& candidate,
                                  const std::function<Result<double>()>& incumbent, const MeasurePolicy& policy = {});

// Floating-point operations a second that no kernel of the target exceeds, matrix units included; 0: not known. threads: of a CPU's kernels.
double mostFlops(const Target& target, int threads);

}  // namespace nf
