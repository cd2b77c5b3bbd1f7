// SPDX-License-Identifier: Apache-2.0
#include "core/tune/worker_messages.h"

#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "core/ir/serialize.h"
#include "core/tune/worker_pool.h"

namespace nf {
namespace {

using nlohmann::json;

Error malformed(const std::string& what) { return {"worker", "malformed message: " + what, {}, {}}; }

// JSON has no infinities: they travel as null.
json real(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
double realFrom(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : 0;
}

// Calls f with each origin id of the program's own pools, those of loops' bodies left out.
template <class P, class F>
void eachOrigin(P& program, F f) {
  for (auto& t : program.tensors) f(t.origin);
  for (auto& op : program.operators) {
    f(op.origin);
    for (auto& axis : op.axes) f(axis.origin);
  }
  for (auto& n : program.scalars) f(n.origin);
}

}  // namespace

json targetToJson(const Target& t) {
  return {{"backend", t.backend},
          {"fingerprint", t.fingerprint},
          {"features", t.features},
          {"vectorBytes", t.vectorBytes},
          {"vectorRegisters", t.vectorRegisters},
          {"l1", t.l1Bytes},
          {"l2", t.l2Bytes},
          {"l3", t.l3Bytes},
          {"threads", t.threads},
          {"peakFlops", t.peakFlops},
          {"peakBandwidth", t.peakBandwidth},
          {"launchSeconds", t.launchSeconds}};
}

Result<Target> targetFromJson(const json& j) {
  try {
    Target t;
    j.at("backend").get_to(t.backend);
    j.at("fingerprint").get_to(t.fingerprint);
    j.at("features").get_to(t.features);
    j.at("vectorBytes").get_to(t.vectorBytes);
    j.at("vectorRegisters").get_to(t.vectorRegisters);
    j.at("l1").get_to(t.l1Bytes);
    j.at("l2").get_to(t.l2Bytes);
    j.at("l3").get_to(t.l3Bytes);
    j.at("threads").get_to(t.threads);
    j.at("peakFlops").get_to(t.peakFlops);
    j.at("peakBandwidth").get_to(t.peakBandwidth);
    j.at("launchSeconds").get_to(t.launchSeconds);
    return t;
  } catch (const json::exception& e) { return malformed(e.what()); }
}

json kernelToJson(const KernelObject& k) {
  json stages = json::array(), texts = json::object();
  for (const KernelStage& s : k.stages) {
    json maps = json::array();
    for (const KernelTensorMap& m : s.maps) {
      json axes = json::array();
      for (const KernelTensorMap::Axis& a : m.axes) axes.push_back({a.extent, a.stride, a.box});
      maps.push_back({m.operand, m.offset, std::string(name(m.type)), m.rounded, std::move(axes)});
    }
    stages.push_back({s.symbol, s.tasks, s.threads, s.sharedBytes, s.cooperative, std::move(maps), s.random});
  }
  for (const auto& [key, text] : k.texts) {
    json lines = json::array();
    for (const auto& origins : text.lineOrigins) {
      json line = json::array();
      for (const OriginId id : origins) line.push_back(id.value);
      lines.push_back(std::move(line));
    }
    texts[key] = {{"text", text.text}, {"origins", std::move(lines)}};
  }
  return {{"backend", k.backend},
          {"generator", k.generator},
          {"subgraph", k.subgraph.hex()},
          {"schedule", k.schedule.text()},
          {"stages", stages},
          {"workspace", k.workspaceBytes},
          {"flops", k.flops},
          {"quick", k.effort == CompileEffort::Quick},
          {"texts", texts},
          {"codeBytes", k.code.size()},
          {"checks", k.checks}};
}

Result<KernelObject> kernelFromJson(const json& j, std::vector<std::byte> code) {
  try {
    KernelObject k;
    j.at("backend").get_to(k.backend);
    j.at("generator").get_to(k.generator);
    NF_TRY(k.subgraph, hashFromHex(j.at("subgraph").get<std::string>()));
    NF_TRY(k.schedule, Schedule::parse(j.at("schedule").get<std::string>()));
    for (const json& s : j.at("stages")) {
      k.stages.push_back({s.at(0).get<std::string>(), s.at(1).get<std::int64_t>(), s.at(2).get<std::int64_t>(),
                          s.at(3).get<std::int64_t>(), s.at(4).get<bool>()});
      for (const json& m : s.at(5)) {
        KernelTensorMap map{m.at(0).get<std::int64_t>(), m.at(1).get<std::int64_t>()};
        const auto type = dtypeNamed(m.at(2).get<std::string>());
        if (!type) return malformed("a map of no type");
        map.type = *type;
        m.at(3).get_to(map.rounded);
        for (const json& a : m.at(4))
          map.axes.push_back({a.at(0).get<std::int64_t>(), a.at(1).get<std::int64_t>(), a.at(2).get<std::int64_t>()});
        k.stages.back().maps.push_back(std::move(map));
      }
      if (s.size() > 6) s.at(6).get_to(k.stages.back().random);
    }
    if (j.contains("checks")) j.at("checks").get_to(k.checks);
    k.effort = j.at("quick").get<bool>() ? CompileEffort::Quick : CompileEffort::Full;
    j.at("workspace").get_to(k.workspaceBytes);
    j.at("flops").get_to(k.flops);
    for (const auto& [key, text] : j.at("texts").items()) {
      KernelText& t = k.texts[key];
      text.at("text").get_to(t.text);
      for (const json& line : text.at("origins")) {
        auto& origins = t.lineOrigins.emplace_back();
        for (const json& id : line) origins.push_back(OriginId(id.get<std::uint32_t>()));
      }
    }
    if (j.at("codeBytes").get<std::size_t>() != code.size()) return malformed("code of another length");
    k.code = std::move(code);
    return k;
  } catch (const json::exception& e) { return malformed(e.what()); }
}

Result<Hash> hashFromHex(const std::string& hex) {
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) return malformed("hash " + hex);
  return Hash{std::stoull(hex.substr(16), nullptr, 16), std::stoull(hex.substr(0, 16), nullptr, 16)};
}

json gateToJson(const GateReport& g) {
  return {{"passed", g.passed}, {"compared", g.comparedOutputs}, {"worst", real(g.worstError)}, {"failure", g.failure}};
}
GateReport gateFromJson(const json& j) {
  return {j.at("passed").get<bool>(), j.at("compared").get<std::int64_t>(), realFrom(j, "worst"),
          j.at("failure").get<std::string>()};
}
json timingToJson(const Timing& t) { return {{"median", real(t.median)}, {"spread", real(t.spread)}, {"runs", t.runs}}; }
Timing timingFromJson(const json& j) { return {realFrom(j, "median"), realFrom(j, "spread"), j.at("runs").get<int>()}; }

json countersToJson(const KernelCounters& c) {
  json stalls = json::array(), lines = json::array();
  for (const KernelCounters::Stall& s : c.stalls) stalls.push_back({s.reason, s.share});
  for (const KernelCounters::Line& l : c.lines) lines.push_back({l.line, l.samples, l.reason});
  return {{"us", c.us},
          {"flops", c.flops},
          {"dram", c.dramBytes},
          {"l2", c.l2Bytes},
          {"occupancy", c.occupancy},
          {"stalls", std::move(stalls)},
          {"lines", std::move(lines)},
          {"withoutLines", c.withoutLines}};
}
KernelCounters countersFromJson(const json& j) {
  KernelCounters c;
  c.us = realFrom(j, "us");
  c.flops = realFrom(j, "flops");
  c.dramBytes = realFrom(j, "dram");
  c.l2Bytes = realFrom(j, "l2");
  c.occupancy = realFrom(j, "occupancy");
  for (const json& s : j.at("stalls")) c.stalls.push_back({s.at(0).get<std::string>(), s.at(1).get<double>()});
  for (const json& l : j.at("lines"))
    c.lines.push_back({l.at(0).get<std::uint32_t>(), l.at(1).get<std::int64_t>(), l.at(2).get<std::string>()});
  j.at("withoutLines").get_to(c.withoutLines);
  return c;
}

json outcomeToJson(const MeasureOutcome& o) {
  json pairs = json::array();
  for (const TimedPair& p : o.pairs) pairs.push_back({real(p.incumbent), real(p.candidate)});
  json counters = json::object();
  if (o.counters) counters["candidate"] = countersToJson(*o.counters);
  if (o.incumbentCounters) counters["incumbent"] = countersToJson(*o.incumbentCounters);
  return {{"status", name(o.status)},
          {"hasCounters", o.hasCounters},
          {"counters", std::move(counters)},
          {"countersMissing", o.countersMissing},
          {"reason", o.reason},
          {"gate", gateToJson(o.gate)},
          {"timing", timingToJson(o.timing)},
          {"incumbent", timingToJson(o.incumbent)},
          {"pairs", std::move(pairs)},
          {"lostDevice", o.lostDevice},
          {"lacksMemory", o.lacksMemory},
          {"deviceSeconds", real(o.deviceSeconds)}};
}

Result<MeasureOutcome> outcomeFromJson(const json& j) {
  try {
    MeasureOutcome o;
    const auto status = trialStatusNamed(j.at("status").get<std::string>());
    if (!status) return malformed("status");
    o.status = *status;
    j.at("hasCounters").get_to(o.hasCounters);
    j.at("countersMissing").get_to(o.countersMissing);
    const json& counters = j.at("counters");
    if (const auto it = counters.find("candidate"); it != counters.end()) o.counters = countersFromJson(*it);
    if (const auto it = counters.find("incumbent"); it != counters.end()) o.incumbentCounters = countersFromJson(*it);
    j.at("reason").get_to(o.reason);
    o.gate = gateFromJson(j.at("gate"));
    o.timing = timingFromJson(j.at("timing"));
    o.incumbent = timingFromJson(j.at("incumbent"));
    for (const json& p : j.at("pairs"))
      if (p.at(0).is_number() && p.at(1).is_number()) o.pairs.push_back({p.at(0).get<double>(), p.at(1).get<double>()});
    o.deviceSeconds = realFrom(j, "deviceSeconds");
    j.at("lostDevice").get_to(o.lostDevice);
    j.at("lacksMemory").get_to(o.lacksMemory);
    return o;
  } catch (const json::exception& e) { return malformed(e.what()); }
}

std::vector<OriginId> compactOrigins(const Program& program) {
  std::vector<OriginId> used;
  std::unordered_set<std::uint32_t> seen;
  const auto note = [&](OriginId id) {
    if (id.valid() && seen.insert(id.value).second) used.push_back(id);
  };
  eachOrigin(program, note);
  for (const Loop& loop : program.loops) eachOrigin(*loop.body, note);
  return used;
}

void restoreOrigins(KernelObject& kernel, const Program& program) {
  if (kernel.texts.empty()) return;
  const std::vector<OriginId> used = compactOrigins(program);
  for (auto& [key, text] : kernel.texts)
    for (auto& line : text.lineOrigins) {
      std::erase_if(line, [&](OriginId id) { return id.value >= used.size(); });
      for (OriginId& id : line) id = used[id.value];
    }
}

void addProgram(json& request, const Program& program, const Hash& hash, WorkerMemory& memory) {
  constexpr std::size_t kKnownPrograms = 1024;
  request["hash"] = hash.hex();
  if (memory.programs.contains(hash)) return;
  if (memory.programs.size() >= kKnownPrograms) {
    memory.programs.clear();
    request["forget"] = true;
  }
  memory.programs.insert(hash);
  Program sent;
  sent.tensors = program.tensors;
  sent.operators = program.operators;
  sent.scalars = program.scalars;
  sent.indices = program.indices;
  sent.accesses = program.accesses;
  sent.loops = program.loops;
  sent.outputs = program.outputs;
  sent.stage = program.stage;
  const std::vector<OriginId> used = compactOrigins(program);
  std::unordered_map<std::uint32_t, std::uint32_t> number;
  for (const OriginId id : used) number.emplace(id.value, static_cast<std::uint32_t>(number.size()));
  eachOrigin(sent, [&](OriginId& id) {
    if (id.valid()) id = OriginId(number.at(id.value));
  });
  sent.origins.resize(used.size());
  for (Loop& loop : sent.loops) {
    auto body = std::make_shared<Program>(*loop.body);
    eachOrigin(*body, [&](OriginId& id) {
      if (id.valid()) id = OriginId(number.at(id.value));
    });
    body->origins = sent.origins;
    loop.body = std::move(body);
  }
  request["program"] = toJson(sent);
}

Result<json> parseObject(const std::string& text) {
  json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return malformed("no JSON object");
  return j;
}

}  // namespace nf
