// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule.h"

#include <regex>

#include <nlohmann/json.hpp>

namespace nf {

bool roundsToTf32(const Schedule& schedule) {
  if (!schedule.knobs) return false;
  const auto precision = schedule.knobs->find("precision");
  return precision != schedule.knobs->end() && *precision == "tf32";
}

std::string Schedule::text() const {
  nlohmann::json json{{"version", 1}, {"kind", kind}, {"knobs", knobs ? *knobs : nlohmann::json::object()}};
  return json.dump();
}

namespace {

// "0:k*2 2:j*4", as axes were called once, with the names of one notebook, is "axis0*2 axis2*4".
std::string withoutNames(const std::string& text) {
  static const std::regex kAxis(R"((^| )([0-9]+):[^ *]*)");
  return std::regex_replace(text, kAxis, "$1axis$2");
}

}  // namespace

Result<Schedule> Schedule::parse(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto refuse = [](const std::string& why) { return Error{"schedule", why, {}, {}}; };
  if (json.is_discarded() || !json.is_object()) return refuse("the schedule is no JSON object");
  // Written by hand it has no version: then it is of this one.
  if (json.contains("version") && json["version"] != 1) return refuse("the schedule has another version than 1");
  if (!json.contains("kind") || !json["kind"].is_string()) return refuse("the schedule names no kind");
  if (!json.contains("knobs") || !json["knobs"].is_object()) return refuse("the schedule has no knobs");
  Schedule schedule;
  schedule.kind = json["kind"].get<std::string>();
  nlohmann::json knobs = json["knobs"];
  for (auto& value : knobs)
    if (value.is_string()) value = withoutNames(value.get<std::string>());
  schedule.knobs = std::make_shared<const nlohmann::json>(std::move(knobs));
  return schedule;
}

}  // namespace nf
