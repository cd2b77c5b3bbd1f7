// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/knob_space.h"

#include <algorithm>
#include <map>
#include <span>

#include "core/lang/spelling.h"
#include "core/schedule/generator.h"
#include "core/schedule/gpu.h"
#include "core/schedule/lower.h"
#include "core/schedule/recurrence.h"

namespace nf::loop {
namespace {

Error refuse(const std::string& why) { return Error{"schedule", why, {}, {}}; }

// std::uniform_int_distribution differs between libraries; a trajectory must replay from its seed anywhere.
std::size_t pick(std::mt19937_64& rng, std::size_t count) { return count <= 1 ? 0 : static_cast<std::size_t>(rng() % count); }

}  // namespace

double KnobSpace::size() const {
  double size = 1;
  for (const Knob& k : m_knobs) size *= static_cast<double>(k.searched());
  return size;
}

Schedule KnobSpace::scheduleOf(const Point& point) const {
  nlohmann::json knobs = nlohmann::json::object();
  for (std::size_t k = 0; k < m_knobs.size(); ++k)
    if (!m_knobs[k].optional || point[k] > 0) knobs[m_knobs[k].name] = value(point, k);
  return {m_kind, std::make_shared<const nlohmann::json>(std::move(knobs))};
}

std::size_t KnobSpace::positionOf(std::size_t knob, const nlohmann::json& value) const {
  const auto& values = m_knobs[knob].values;
  const auto found = std::find(values.begin(), values.end(), value);
  return found == values.end() ? 0 : static_cast<std::size_t>(found - values.begin());
}

Result<KnobSpace::Point> KnobSpace::pointOf(const Schedule& s) const {
  if (s.kind != m_kind) return refuse("the schedule is of kind " + s.kind + ", this subgraph takes " + m_kind);
  Point point;
  std::vector<std::string> mistakes;
  const auto named = [&](const Knob& knob) { return s.knobs && s.knobs->contains(knob.name); };
  for (const Knob& knob : m_knobs) {
    point.push_back(0);
    if (!named(knob)) continue;
    const nlohmann::json& asked = (*s.knobs)[knob.name];
    auto found = std::find(knob.values.begin(), knob.values.end(), asked);
    if (const auto word = std::find(knob.words.begin(), knob.words.end(), asked.is_string() ? asked.get<std::string>() : "");
        found == knob.values.end() && word != knob.words.end() && !word->empty())
      found = knob.values.begin() + (word - knob.words.begin());
    if (found == knob.values.end())
      mistakes.push_back("knob " + knob.name + " cannot be " + (*s.knobs)[knob.name].dump() + " here");
    else point.back() = static_cast<std::size_t>(found - knob.values.begin());
  }
  std::vector<std::string> free;  // that are not named: what an unknown one may have been meant for
  for (const Knob& knob : m_knobs)
    if (!named(knob)) free.push_back(knob.name);
  std::vector<std::string> meant;
  if (s.knobs)
    for (const auto& item : s.knobs->items()) {
      const std::string& name = item.key();
      if (std::any_of(m_knobs.begin(), m_knobs.end(), [&](const Knob& k) { return k.name == name; })) continue;
      const std::vector<std::string> near = lang::nearest(name, free);
      mistakes.push_back("there is no knob " + name + " here" + (near.empty() ? "" : ", is " + near.front() + " meant?"));
      if (!near.empty()) meant.push_back(near.front());
    }
  for (const Knob& knob : m_knobs)
    if (!named(knob) && !knob.optional && std::find(meant.begin(), meant.end(), knob.name) == meant.end())
      mistakes.push_back("the schedule lacks the knob " + knob.name);
  if (!mistakes.empty()) {
    constexpr std::size_t kMost = 3;
    std::string text = mistakes.front();
    for (std::size_t i = 1; i < std::min(mistakes.size(), kMost); ++i) text += "; " + mistakes[i];
    return refuse(mistakes.size() > kMost ? text + "; and " + std::to_string(mistakes.size() - kMost) + " more" : text);
  }
  const std::string why = illegal(point);
  if (!why.empty()) return refuse(why);
  return point;
}

std::string KnobSpace::axesText(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t a = 0; a < names.size(); ++a) text += (a ? ", " : "") + axisValue(a) + ": " + names[a];
  return text.empty() ? text : " (" + text + ")";
}

Schedule KnobSpace::random(std::mt19937_64& rng) const {
  for (int attempt = 0; attempt < 64; ++attempt) {
    Point point;
    for (const Knob& k : m_knobs) point.push_back(pick(rng, k.searched()));
    settle(point);
    if (illegal(point).empty()) return scheduleOf(point);
  }
  return first();
}

Schedule KnobSpace::mutate(const Schedule& s, std::mt19937_64& rng) const {
  const auto from = pointOf(s);
  if (!from || m_knobs.empty()) return first();
  for (int attempt = 0; attempt < 32; ++attempt) {
    Point point = *from;
    const std::size_t changes = 1 + pick(rng, 2);
    for (std::size_t c = 0; c < changes; ++c) {
      const std::size_t k = pick(rng, m_knobs.size());
      point[k] = pick(rng, m_knobs[k].searched());
    }
    settle(point);
    if (point != *from && illegal(point).empty()) return scheduleOf(point);
  }
  return s;
}

Schedule KnobSpace::cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const {
  const auto left = pointOf(a), right = pointOf(b);
  if (!left || !right) return first();
  for (int attempt = 0; attempt < 16; ++attempt) {
    Point point;
    for (std::size_t k = 0; k < m_knobs.size(); ++k) point.push_back(pick(rng, 2) == 0 ? (*left)[k] : (*right)[k]);
    settle(point);
    if (illegal(point).empty()) return scheduleOf(point);
  }
  return a;
}

Result<Unit> KnobSpace::check(const Schedule& s) const {
  const auto point = pointOf(s);
  if (!point) return point.error();
  return Unit{};
}

double KnobSpace::estimateSeconds(const Schedule& s) const {
  const auto point = pointOf(s);
  return point ? estimate(*point) : std::numeric_limits<double>::infinity();
}

std::vector<double> KnobSpace::features(const Schedule& s) const {
  const auto point = pointOf(s);
  return featuresOf(point ? *point : firstPoint());
}

std::vector<KnobInfo> KnobSpace::knobs() const {
  std::vector<KnobInfo> infos;
  for (const Knob& k : m_knobs) {
    KnobInfo info{k.name, k.help, {}};
    for (const auto& v : k.values) info.values.push_back(v.dump());
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<Function> KnobSpace::lower(const Schedule& s) const {
  NF_TRY(const Point point, pointOf(s));
  return lowerPoint(point);
}

}  // namespace nf::loop

namespace nf {
namespace {

using Maker = std::unique_ptr<loop::KnobSpace> (*)(const Program&, const loop::GroupView&, const Target&);
// Best first; the last one takes any group.
constexpr Maker kTemplates[] = {loop::contractionSpace, loop::nestSpace};
constexpr Maker kGpuTemplates[] = {loop::gpuContractionSpace, loop::gpuNestSpace};

bool isLoop(const Program& subgraph) {
  return subgraph.operators.size() == 1 && subgraph.operators.front().kind == OperatorKind::Loop;
}

// What adds up a sum comes from the word that stands for it, too: the operator's own place is the whole expression below it.
void tieSums(const Program& subgraph, loop::Function& function) {
  std::map<OriginId, OriginId> words;
  for (const Operator& op : subgraph.operators)
    if (op.reducer != Reducer::None && op.origin.valid() && subgraph[op.output].origin.valid())
      words.emplace(op.origin, subgraph[op.output].origin);
  for (const loop::Statement& s : function.statements) {
    const auto word = words.find(s.origin);
    if (s.kind != loop::Statement::Kind::Store || word == words.end()) continue;
    const auto values = loop::valuesOf(function, s);
    const bool adds = std::ranges::any_of(values, [&](loop::ValueId id) {
      const loop::Value& v = function[id];
      return v.kind == loop::Value::Kind::Load && v.place.buffer == s.target.buffer;
    });
    auto& origins = function.values[s.value.value].readAs;
    if (adds && std::ranges::find(origins, word->second) == origins.end()) origins.push_back(word->second);
  }
}

std::span<const Maker> templatesFor(const Target& target) {
  if (target.backend == "cuda") return kGpuTemplates;
  return kTemplates;
}

}  // namespace

Result<std::unique_ptr<ScheduleSpace>> scheduleSpace(const Program& subgraph, const Target& target) {
  if (isLoop(subgraph)) {
    NF_TRY(std::unique_ptr<ScheduleSpace> space, loop::recurrenceSpace(subgraph, target));
    return generatorSpace(std::move(space));
  }
  NF_TRY(const loop::GroupView group, loop::viewGroup(subgraph));
  for (const Maker make : templatesFor(target))
    if (std::unique_ptr<ScheduleSpace> space = make(subgraph, group, target))
      return target.backend == "cuda" ? generatorSpace(std::move(space)) : std::move(space);
  return Error{"schedule", "no template takes this subgraph", {}, {}};
}

Result<loop::Function> lower(const Program& subgraph, const Schedule& schedule, const Target& target) {
  // Loops are the same with every generator.
  const Schedule loops = target.backend == "cuda" ? withGenerator(schedule, generatorsOf(schedule.kind).front()) : schedule;
  if (isLoop(subgraph)) {
    NF_TRY(const std::unique_ptr<loop::KnobSpace> space, loop::recurrenceSpace(subgraph, target));
    return space->lower(loops);
  }
  NF_TRY(const loop::GroupView group, loop::viewGroup(subgraph));
  std::string why = "no template takes this subgraph";
  for (const Maker make : templatesFor(target)) {
    const auto space = make(subgraph, group, target);
    if (!space) continue;
    auto lowered = space->lower(loops);
    if (lowered) {
      tieSums(subgraph, *lowered);
      return lowered;
    }
    if (space->kind() == schedule.kind || make == templatesFor(target)[0]) why = lowered.error().message;
  }
  return Error{"schedule", why, {}, {}};
}

}  // namespace nf
