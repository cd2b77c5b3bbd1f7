// SPDX-License-Identifier: Apache-2.0
// Fusion decisions for scripts and for people.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/fusion/fuse.h"
#include "core/support/scaled_text.h"

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

}  // namespace

Json toJson(const DeviceConstants& device) {
  return {{"P_d", device.bandwidth}, {"P_c", device.flopRate}, {"L", device.launchSeconds}};
}

std::string toText(const DeviceConstants& device) {
  return "P_d " + siText(device.bandwidth, "B/s") + "   P_c " + siText(device.flopRate, "FLOP/s") + "   L " +
         siText(device.launchSeconds, "s");
}

std::string kernelsText(const Program& program, std::int64_t operators, std::string_view what) {
  const auto counted = [](std::size_t n, const char* one) { return std::to_string(n) + " " + one + (n == 1 ? "" : "s"); };
  std::vector<std::size_t> loops;
  for (const Group& group : program.groups)
    if (isStepped(program, group)) loops.push_back(kernelGroups(*program[program[group.operators.front()].loop].body).size());
  std::string out = std::to_string(operators - static_cast<std::int64_t>(loops.size())) + std::string(what) + " in " +
                    counted(program.groups.size() - loops.size(), "kernel");
  if (loops.empty()) return out;
  const bool alike = std::all_of(loops.begin(), loops.end(), [&](std::size_t n) { return n == loops.front(); });
  out += ", " + (loops.size() == 1 ? std::string("a loop") : counted(loops.size(), "loop")) + " of ";
  if (alike) return out + counted(loops.front(), "kernel") + (loops.size() > 1 ? " each" : "");
  for (std::size_t i = 0; i < loops.size(); ++i)
    out += (i == 0 ? "" : i + 1 < loops.size() ? ", " : " and ") + std::to_string(loops[i]);
  return out + " kernels";
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
                    {"kept", d.kept},
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
           padded(std::string(name(d.state)), 23) + "  " + padded(siText(d.dT, "B"), 10) + "  " + padded(siText(d.dC, "op"), 10) +
           "  " + padded(std::to_string(d.dK), 2) + "  " + padded(siText(d.R, "s"), 10) + "  ";
    if (!d.flips.empty()) out += d.flips.front().quantity + " = " + siText(d.flips.front().threshold, d.flips.front().unit.c_str());
    out += "\n    " + reasonOf(d) + (d.loop.empty() ? "" : " In the loop " + d.loop + ".") + "\n";
  }
  return out;
}

}  // namespace nf
