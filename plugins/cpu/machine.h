// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/schedule/schedule.h"

namespace nf::cpu {

// Counts when generated code changes its meaning or its calls: part of the fingerprint.
inline constexpr int kCodeGeneratorVersion = 4;

// What this host is: features, caches, vector registers; no measurement.
Target describeHost(int threads);
std::string hostDescription(int threads);

// P_d, P_c and L of fusion's reward and the bandwidth of the second-level caches, measured (about 0.2 s) or read from
// $XDG_CACHE_HOME/neoflow, where a measurement is left for the next process. A cache that cannot be written costs a measurement a
// process, nothing else.
// `again`: measured whatever the cache holds.
Target measuredHost(int threads, bool again = false);
double measuredAt(int threads);           // seconds since 1970; 0: no cache
double measuredL2Bandwidth(int threads);  // bytes per second of the second-level caches of all these threads; 0: no cache

}  // namespace nf::cpu
