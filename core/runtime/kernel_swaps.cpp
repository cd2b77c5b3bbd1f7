// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kernel_swaps.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace nf {

std::optional<Hash> hashFromHex(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  for (const bool highFirst : {true, false}) {
    Hash hash;
    std::uint64_t words[2] = {0, 0};
    for (int w = 0; w < 2; ++w) {
      const char* begin = hex.data() + 16 * w;
      if (const auto [end, code] = std::from_chars(begin, begin + 16, words[w], 16); code != std::errc{} || end != begin + 16)
        return std::nullopt;
    }
    hash.high = words[highFirst ? 0 : 1];
    hash.low = words[highFirst ? 1 : 0];
    if (hash.hex() == hex) return hash;
  }
  return std::nullopt;
}

namespace {

std::string revertedLine(const KernelSwap& swap) {
  nlohmann::json line{{"reverted", swap.subgraph.hex()}, {"step", swap.step}};
  for (const Hash& part : swap.parts) line["parts"].push_back(part.hex());
  return line.dump() + "\n";
}

}  // namespace

std::string toJsonLines(std::span<const KernelSwap> swaps) {
  std::string text;
  for (const KernelSwap& s : swaps) {
    if (s.device) text += nlohmann::json{{"fused_for", toJson(*s.device)}, {"step", s.step}}.dump() + "\n";
    else if (s.reverted) text += revertedLine(s);
    else  // a schedule's text is JSON
      text += R"({"schedule":)" + (s.schedule.empty() ? std::string("null") : s.schedule) + R"(,"step":)" + std::to_string(s.step) +
              R"(,"subgraph":")" + s.subgraph.hex() + "\"}\n";
  }
  return text;
}

Result<std::vector<KernelSwap>> swapsFromJsonLines(std::string_view text, const std::string& file) {
  std::vector<KernelSwap> swaps;
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded() && end == std::string_view::npos && number > 1) break;
    const Error damaged{"replay",
                        "Line " + std::to_string(number) + " of the swap log " + file + (file.empty() ? "" : " ") + "is damaged.",
                        {},
                        {}};
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer() || json["step"].get<std::int64_t>() < 0)
      return damaged;
    if (const auto found = json.find("fused_for"); found != json.end()) {
      DeviceConstants device;
      for (const auto& [key, value] :
           {std::pair("P_d", &device.bandwidth), {"P_c", &device.flopRate}, {"L", &device.launchSeconds}}) {
        if (!found->is_object() || !found->contains(key) || !(*found)[key].is_number() || !((*found)[key].get<double>() > 0))
          return damaged;
        *value = (*found)[key].get<double>();
      }
      swaps.push_back({json["step"].get<std::int64_t>(), {}, {}, false, device});
      continue;
    }
    const bool reverted = json.contains("reverted");
    const char* const key = reverted ? "reverted" : "subgraph";
    if (!json.contains(key) || !json[key].is_string() || (!reverted && !json.contains("schedule"))) return damaged;
    const auto hash = hashFromHex(json[key].get<std::string>());
    if (!hash) return damaged;
    if (reverted) {
      std::vector<Hash> parts;
      for (const auto& told : json.value("parts", nlohmann::json::array())) {
        const auto part = told.is_string() ? hashFromHex(told.get<std::string>()) : std::nullopt;
        if (!part) return damaged;
        parts.push_back(*part);
      }
      swaps.push_back({json["step"].get<std::int64_t>(), *hash, {}, true, {}, std::move(parts)});
      continue;
    }
    const auto& schedule = json["schedule"];
    swaps.push_back({json["step"].get<std::int64_t>(), *hash, schedule.is_null() ? std::string() : schedule.dump(), false, {}});
  }
  return swaps;
}

}  // namespace nf
