// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "core/support/result.h"

namespace nf {

struct ReportOptions {
  std::string title;
  std::optional<double> peerStepMilliseconds;  // a recorded figure of another system: a reference line in the latency curve
  std::string peerName;
};

// One HTML file without any other: settings, final numbers, latency on a logarithmic axis with kernel swaps marked and the moment it
// crosses the peer's step, loss, accuracy, swaps and trials as tables. Reads what RunFolder wrote.
Result<std::string> htmlReport(const std::string& runFolder, const ReportOptions& options);

}  // namespace nf
