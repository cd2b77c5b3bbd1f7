// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
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

// Three figures and a unit with its prefix: "1.23 MB". Only of seconds there are parts.
inline std::string siText(double value, const char* unit) {
  static constexpr const char* kPrefixes[] = {"n", "u", "m", "", "k", "M", "G", "T"};
  if (value == 0) return std::string("0 ") + unit;
  int prefix = 3;
  double magnitude = std::abs(value);
  while (magnitude >= 1000 && prefix < 7) {
    magnitude /= 1000;
    ++prefix;
  }
  while (magnitude < 1 && prefix > 0 && *unit == 's') {
    magnitude *= 1000;
    --prefix;
  }
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%s%.3g %s%s", value < 0 ? "-" : "", magnitude, kPrefixes[prefix], unit);
  return buffer;
}

// "157 ns", "1.57 µs"
inline std::string durationText(double seconds) {
  std::string text = siText(seconds, "s");
  if (const std::size_t micro = text.find(" us"); micro != std::string::npos) text.replace(micro + 1, 1, "\u00b5");
  return text;
}

// "2.05 PiB"
inline std::string bytesText(std::int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return scaledText(static_cast<double>(bytes), kUnits, 1024);
}

}  // namespace nf
