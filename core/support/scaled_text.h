// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

namespace nf {

// A figure with the largest of these units that leaves it at 1 or more, each `step` times the one before.
inline std::string scaledText(double value, std::span<const char* const> units, double step) {
  std::size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  char buffer[48];
  std::snprintf(buffer, sizeof buffer,
                value < 10 && unit > 0    ? "%.2f %s"
                : value < 100 && unit > 0 ? "%.1f %s"
                                          : "%.0f %s",
                value, units[unit]);
  return buffer;
}

// "2.05 PiB"
inline std::string bytesText(std::int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return scaledText(static_cast<double>(bytes), kUnits, 1024);
}

}  // namespace nf
