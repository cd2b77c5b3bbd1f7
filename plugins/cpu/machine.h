// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/schedule/schedule.h"

namespace nf::cpu {

// Counts when generated code changes its meaning or its calls: part of the fingerprint.
inline constexpr int kCodeGeneratorVersion = 2;

// What this host is: features, caches, vector registers; no measurement.
Target describeHost(int threads);
std::string hostDescription(int threads);

// P_d, P_c and L of fusion's reward, measured (about 0.15 s) or read from $XDG_CACHE_HOME/neoflow, where a measurement is left for
// the next process. A cache that cannot be written costs a measurement a process, nothing else.
Target measuredHost(int threads);

}  // namespace nf::cpu
