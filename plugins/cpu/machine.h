// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/device/backend.h"
#include "core/schedule/schedule.h"

namespace nf::cpu {

// Counts when generated code changes its meaning or its calls: part of the fingerprint.
inline constexpr int kCodeGeneratorVersion = 6;

// What this host is: features, caches, vector registers; no measurement.
Target describeHost(int threads);
std::string hostDescription(int threads);

// P_d, P_c and L of fusion's reward and the bandwidth of the second-level caches, measured (about 0.2 s) or read from
// $XDG_CACHE_HOME/neoflow, where a measurement is left for the next process. A cache that cannot be written costs a measurement a
// process, nothing else.
// `again`: measured whatever the cache holds.
Target measuredHost(int threads, bool again = false);
// Ranks, from 0, in sorted samples: of the quantile, and of two that hold the true one between them with `confidence`, as far as there are
// samples to do it (Wilks's interval of order statistics; no distribution is assumed).
struct QuantileRanks {
  int low = 0, at = 0, high = 0;
};
QuantileRanks quantileRanks(int samples, double quantile, double confidence);

// What the cache knows of its constants: all zero without one, no interval in one that is older than they are.
struct Measurements {
  double at = 0;                                         // seconds since 1970
  Backend::Estimate bandwidth, flopRate, launchSeconds;  // of all these threads, per second
  Backend::Estimate l2Bandwidth;                         // bytes per second of the second-level caches of all these threads
};
Measurements measurements(int threads);

}  // namespace nf::cpu
