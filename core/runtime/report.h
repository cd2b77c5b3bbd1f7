// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/result.h"

namespace nf {

// NAME.peer.json beside NAME.nf: {"name": "PyTorch 1.13.1, one thread", "step_ms": 10.5}, another system's recorded step, which the
// report draws as a line. Nothing where there is no such file or it holds something else.
struct PeerFigure {
  std::string name;
  double stepMilliseconds = 0;
};
std::optional<PeerFigure> peerBeside(const std::string& file);

struct ReportOptions {
  std::string title;
  std::optional<double> peerStepMilliseconds;  // a recorded figure of another system: a reference line in the latency curve
  std::string peerName;
  std::vector<std::string>
      meanings;  // trainMeaning() of the text that the page shows: a run of another is said to be one. Empty: no text
};

// One HTML file without any other: final numbers, latency with its min/max band, kernel swaps named where they happened and the moment it
// crosses the peer's step, loss, accuracy, kernels and swaps as tables, settings. Reads what RunFolder wrote.
Result<std::string> htmlReport(const std::string& runFolder, const ReportOptions& options);

// The report of a run as `report.html` of its folder. notebook: its file, there or not.
Result<Unit> writeReport(const std::string& runFolder, const std::string& notebook);

// The same without head and body, sections under <h2>: for a page that holds more.
Result<std::string> htmlOfRun(const std::string& runFolder, const ReportOptions& options);

// <!doctype> to <body><main>, with the style of all reports, light and dark; and what closes it.
std::string htmlHead(std::string_view title);
std::string htmlTail();
std::string htmlEscaped(std::string_view text);

}  // namespace nf
