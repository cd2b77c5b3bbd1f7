// SPDX-License-Identifier: Apache-2.0
// The Trace Event Format: "Trace Event Format", Google, 2016 (the document that chrome://tracing and Perfetto refer to).
#include <nlohmann/json.hpp>

#include "core/lang/compile.h"
#include "core/runtime/activity.h"

namespace nf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHost = 1, kDevice = 2;

const char* phaseName(Phase phase) {
  switch (phase) {
    case Phase::Forward: return "forward";
    case Phase::Backward: return "backward";
    case Phase::Optimizer: return "optimizer";
    case Phase::Evaluation: return "evaluation";
  }
  return "";
}

// What every launch of a site has in common.
struct SiteText {
  std::string expression, origin;
};

SiteText textOf(const ActivitySite& site, const SourceMap& sources) {
  SiteText text;
  if (!site.program || site.operators.empty()) return text;
  const Program& program = *site.program;
  text.expression = toText(program, site.operators, site.counters);
  for (const OperatorId o : site.operators) {
    const OriginId origin = program[o].origin;
    if (!origin.valid() || origin.value >= program.origins.size()) continue;
    const Span span = program[origin].span;
    if (!span.valid() || span.source.value >= sources.size()) continue;
    const LineColumn at = sources.lineColumn(span);
    const std::string place = sources.at(span.source).name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
    if (text.origin.find(place) == std::string::npos) text.origin += (text.origin.empty() ? "" : ", ") + place;
  }
  return text;
}

Json metadata(const char* what, int process, std::size_t thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::string chromeTrace(const ActivityRecord& record, const SourceMap& sources, const std::string& title) {
  std::vector<SiteText> texts;
  for (const ActivitySite& site : record.sites) texts.push_back(textOf(site, sources));
  const auto processOf = [](std::size_t lane) { return lane == 0 ? kHost : kDevice; };
  Json events = Json::array();
  events.push_back(metadata("process_name", kHost, 0, title));
  if (record.lanes.size() > 1) events.push_back(metadata("process_name", kDevice, 0, record.device));
  for (std::size_t l = 0; l < record.lanes.size(); ++l) events.push_back(metadata("thread_name", processOf(l), l, record.lanes[l]));
  for (const Activity& a : record.activities) {
    Json event;
    Json arguments = Json::object();
    std::string label(name(a.kind)), category = label;
    if (a.kind == ActivityKind::Step) label += " " + std::to_string(a.run);
    if (a.kind == ActivityKind::Trip) label = a.name + " = " + std::to_string(a.trip);
    if (a.site != Activity::kNoSite) {
      const ActivitySite& site = record.sites[a.site];
      label = site.name;
      if (a.kind == ActivityKind::Kernel) category += std::string(",") + phaseName(site.phase);
      arguments["subgraph"] = site.hash.hex();
      arguments["phase"] = phaseName(site.phase);
      if (!texts[a.site].expression.empty()) arguments["expression"] = texts[a.site].expression;
      if (!texts[a.site].origin.empty()) arguments["origin"] = texts[a.site].origin;
    }
    if (!a.name.empty() && a.kind != ActivityKind::Trip)
      arguments[a.kind == ActivityKind::Kernel ? "symbol" : "direction"] = a.name;
    if (a.trip >= 0) arguments["trip"] = a.trip;
    if (a.bytes > 0) arguments["bytes"] = a.bytes;
    arguments["step"] = a.run;
    event["name"] = std::move(label);
    event["cat"] = std::move(category);
    event["ph"] = "X";
    event["ts"] = static_cast<double>(a.begin) * 1e-3;
    event["dur"] = static_cast<double>(a.end - a.begin) * 1e-3;
    event["pid"] = processOf(a.lane);
    event["tid"] = a.lane;
    event["args"] = std::move(arguments);
    events.push_back(std::move(event));
  }
  Json root;
  root["displayTimeUnit"] = "ns";
  root["traceEvents"] = std::move(events);
  root["otherData"] = {{"device", record.device},
                       {"clock", record.ofDevice ? "the device's own" : "the host's, around each launch"},
                       {"steps", std::to_string(record.runs)},
                       {"steps_left_out", std::to_string(record.leftOut)}};
  if (!record.why.empty()) root["otherData"]["why"] = record.why;
  return root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace nf
