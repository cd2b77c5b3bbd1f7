// SPDX-License-Identifier: Apache-2.0
// Fusion decisions for scripts and for people.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/fusion/fuse.h"

namespace nf {
namespace {

using Json = nlohmann::json;

Json toJson(const FusionFlip& f) {
  return {{"quantity", f.quantity}, {"now", f.now}, {"threshold", f.threshold}, {"unit", f.unit}};
}

Json toJson(const std::vector<FusionTerm>& terms) {
  Json list = Json::array();
  for (const FusionTerm& t : terms) list.push_back({{"name", t.name}, {"amount", t.amount}});
  return list;
}

// Three figures and a unit prefix: 1.23 M.
std::string shortNumber(double value, const char* unit) {
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

}  // namespace

Json toJson(const DeviceConstants& device) {
  return {{"P_d", device.bandwidth}, {"P_c", device.flopRate}, {"L", device.launchSeconds}};
}

std::string toText(const DeviceConstants& device) {
  return "P_d " + shortNumber(device.bandwidth, "B/s") + "   P_c " + shortNumber(device.flopRate, "FLOP/s") + "   L " +
         shortNumber(device.launchSeconds, "s");
}

Json toJson(const std::vector<FusionDecision>& decisions, const DeviceConstants& device) {
  Json list = Json::array();
  for (const FusionDecision& d : decisions) {
    Json flips = Json::array();
    for (const FusionFlip& f : d.flips) flips.push_back(toJson(f));
    list.push_back({{"producer", d.producer},
                    {"consumer", d.consumer},
                    {"category", d.category},
                    {"producer_class", name(d.producerClass)},
                    {"consumer_class", name(d.consumerClass)},
                    {"dT", d.dT},
                    {"dC", d.dC},
                    {"dK", d.dK},
                    {"R", d.R},
                    {"traffic", toJson(d.traffic)},
                    {"arithmetic", toJson(d.arithmetic)},
                    {"recomputed", d.recomputed},
                    {"state", name(d.state)},
                    {"accepted", d.state == FusionState::Accepted || d.state == FusionState::Forced},
                    {"why", d.why},
                    {"flip", d.flips.empty() ? Json(nullptr) : toJson(d.flips.front())},
                    {"flips", flips},
                    {"asked_in_vain", !d.askedInVain.first.empty()},
                    {"loop", d.loop}});
    if (d.measured)
      list.back()["measured"] = {{"fused_us", d.measured->fused},          {"fused_spread_us", d.measured->fusedSpread},
                                 {"split_us", d.measured->split},          {"split_spread_us", d.measured->splitSpread},
                                 {"saved_us", d.measured->saved},          {"saved_low_us", d.measured->savedLow},
                                 {"saved_high_us", d.measured->savedHigh}, {"pairs", d.measured->pairs}};
  }
  return {{"device", toJson(device)}, {"decisions", list}};
}

std::string reasonOf(const FusionDecision& decision) {
  return (decision.askedInVain.first.empty() ? "" : "A `hint fuse` asks for it, in vain. ") + decision.why;
}

std::string toText(const std::vector<FusionDecision>& decisions) {
  std::string out;
  std::size_t wide = 20;
  for (const FusionDecision& d : decisions)
    wide = std::max(wide, std::min<std::size_t>(48, d.producer.size() + d.consumer.size() + 4));
  const auto padded = [](std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
  };
  out += padded("producer -> consumer", wide) +
         "  category   state                    dT          dC          dK  R           flips at\n";
  for (const FusionDecision& d : decisions) {
    out += padded(d.producer + " -> " + d.consumer, wide) + "  " + padded(d.category, 9) + "  " +
           padded(std::string(name(d.state)), 23) + "  " + padded(shortNumber(d.dT, "B"), 10) + "  " +
           padded(shortNumber(d.dC, "op"), 10) + "  " + padded(std::to_string(d.dK), 2) + "  " + padded(shortNumber(d.R, "s"), 10) +
           "  ";
    if (!d.flips.empty())
      out += d.flips.front().quantity + " = " + shortNumber(d.flips.front().threshold, d.flips.front().unit.c_str());
    out += "\n    " + reasonOf(d) + (d.loop.empty() ? "" : " In the loop " + d.loop + ".") + "\n";
  }
  return out;
}

}  // namespace nf
