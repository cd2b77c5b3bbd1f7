// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// What the latencies of a training run say: one reckoning for curves, panels and reports.
namespace nf::protocol {

// Stands for `steps` steps, which end with `step`; `ms` is their median, above 0.
struct StepTime {
  std::int64_t step = 0;
  double ms = 0;
  std::int64_t steps = 1;
};

// Of each sample the median of the steps around its middle: a 50th as many as came before it, at least nine steps, fewer at the ends
// of the run. A sample that stands for several steps counts with those of them that are within. What comes later changes no median
// but those of the last steps, so that a claim about early ones holds however long the run goes on.
//   1 1 1 9 1 1 1 1 1 1 1  ->  1 1 1 1 1 1 1 1 1 1 1
std::vector<double> runningMedians(std::span<const StepTime> times);

// Median and quartiles, ms.
struct StepSpread {
  double ms = 0, low = 0, high = 0;
  std::int64_t steps = 0;  // that they are of
};
// Of the steps that the last of the running medians is of, which is its `ms`. Nothing without a step.
std::optional<StepSpread> newestSteps(std::span<const StepTime> times);

struct AgainstPeer {
  std::optional<std::int64_t> from;  // the first step from which the running median stays below the peer's step to the end
  double ms = 0;                     // the running median at the end
};
// Nothing without a step. peerMs: milliseconds of the other system's step.
std::optional<AgainstPeer> againstPeer(std::span<const StepTime> times, double peerMs);

}  // namespace nf::protocol
