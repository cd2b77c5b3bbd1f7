// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/profile_text.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/support/row_names.h"

namespace nf {

Result<CountedKernels> countersOf(RunJob& job, Device& device, std::stop_token stop) {
  CountedKernels counted;
  if (!device.profiler()) return counted;
  auto kernels = job.count(stop);
  if (kernels) counted.kernels = std::move(*kernels);
  else if (kernels.error().stage == kCountersStage) counted.missing = kernels.error().message;
  else return kernels.error();
  return counted;
}

nlohmann::json toJson(const KernelCounters& c) {
  nlohmann::json stalls = nlohmann::json::object(), lines = nlohmann::json::array();
  for (const KernelCounters::Stall& s : c.stalls) stalls[s.reason] = s.share;
  for (const KernelCounters::Line& l : c.lines) lines.push_back({{"line", l.line}, {"samples", l.samples}, {"reason", l.reason}});
  return {{"us", c.us},
          {"flops", c.flops},
          {"dram_bytes", c.dramBytes},
          {"l2_bytes", c.l2Bytes},
          {"occupancy", c.occupancy},
          {"stalls", std::move(stalls)},
          {"lines", std::move(lines)},
          {"lines_missing", c.withoutLines}};
}

void printCounters(const std::vector<std::string>& names, std::size_t width, const std::vector<KernelTime>& kernels,
                   const CountedKernels& counted) {
  if (!counted.missing.empty()) std::printf("No counters were read: %s\n", counted.missing.c_str());
  if (counted.kernels.empty()) return;
  std::printf("\n%s %10s %9s %9s %9s %8s  %s\n", padded("counters", width).c_str(), "us", "GFLOP/s", "DRAM GB/s", "L2 GB/s",
              "resident", "most stalls");
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto found = counted.kernels.find(kernels[i].subgraph);
    if (found == counted.kernels.end()) continue;
    const KernelCounters& c = found->second;
    const double perMs = c.us > 0 ? 1e-3 / c.us : 0;
    std::printf("%s %10.2f %9.2f %9.2f %9.2f %6.1f %%  %s\n", padded(names[i], width).c_str(), c.us, c.flops * perMs,
                c.dramBytes * perMs, c.l2Bytes * perMs, 100 * c.occupancy,
                c.stalls.empty() ? "-" : c.stalls.front().reason.c_str());
  }
}

}  // namespace nf
