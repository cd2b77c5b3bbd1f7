// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/generator.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace nf {
namespace {

constexpr const char* kKnob = "generator";

Error refuse(const std::string& why) { return Error{"schedule", why, {}, {}}; }

// LLVM's NVPTX back end has no matrix units here: their instructions are text of CUDA C's prelude.
bool hasMatrixUnits(const Schedule& s) { return s.knobs->contains("matrix") && s.knobs->at("matrix") != "fma"; }

class GeneratorSpace final : public ScheduleSpace {
 public:
  explicit GeneratorSpace(std::unique_ptr<ScheduleSpace> space)
      : m_space(std::move(space)), m_generators(generatorsOf(m_space->first().kind)) {}

  double size() const override { return m_space->size() * static_cast<double>(m_generators.size()); }
  Schedule first() const override { return m_space->first(); }

  Schedule random(std::mt19937_64& rng) const override {
    const Schedule s = m_space->random(rng);
    return with(s, m_generators[rng() % m_generators.size()]);
  }

  Schedule mutate(const Schedule& s, std::mt19937_64& rng) const override {
    if (!check(s)) return first();
    if (rng() % 8 == 0)
      for (const std::string& g : m_generators)
        if (const Schedule other = with(s, g); !(other == s)) return other;
    return with(m_space->mutate(loopsOf(s), rng), generatorOf(s));
  }

  Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const override {
    if (!check(a) || !check(b)) return first();
    const Schedule child = m_space->cross(loopsOf(a), loopsOf(b), rng);
    return with(child, generatorOf(rng() % 2 == 0 ? a : b));
  }

  Result<Unit> check(const Schedule& s) const override {
    NF_TRY([[maybe_unused]] const Unit legal, m_space->check(loopsOf(s)));
    if (!s.knobs->contains(kKnob)) return Unit{};
    const nlohmann::json& asked = s.knobs->at(kKnob);
    if (std::find(m_generators.begin(), m_generators.end(), asked) == m_generators.end())
      return refuse("knob generator cannot be " + asked.dump() + " here");
    if (asked == "llvm" && hasMatrixUnits(s)) return refuse("knob generator cannot be llvm where matrix units multiply");
    return Unit{};
  }

  double estimateSeconds(const Schedule& s) const override { return m_space->estimateSeconds(loopsOf(s)); }

  std::vector<double> features(const Schedule& s) const override {
    std::vector<double> features = m_space->features(loopsOf(s));
    features.push_back(generatorOf(s) == "llvm" ? 1.0 : 0.0);
    return features;
  }

  std::vector<KnobInfo> knobs() const override {
    std::vector<KnobInfo> infos = m_space->knobs();
    KnobInfo info{kKnob, "what makes machine code of the loops, with the same results", {}};
    for (const std::string& g : m_generators) info.values.push_back(nlohmann::json(g).dump());
    infos.push_back(std::move(info));
    return infos;
  }

 private:
  // The first generator where this one cannot have the loops.
  Schedule with(const Schedule& s, const std::string& generator) const {
    return generator == "llvm" && hasMatrixUnits(s) ? s : withGenerator(s, generator);
  }
  Schedule loopsOf(const Schedule& s) const { return s.knobs ? withGenerator(s, m_generators.front()) : s; }

  std::unique_ptr<ScheduleSpace> m_space;
  std::vector<std::string> m_generators;
};

}  // namespace

std::vector<std::string> generatorsOf(const std::string& kind) {
  if (kind == "recurrence") return {"nvrtc"};
  if (kind == "contraction") return {"nvrtc", "llvm"};
  return {"llvm", "nvrtc"};
}

std::string generatorOf(const Schedule& schedule) {
  const auto named = schedule.knobs ? schedule.knobs->find(kKnob) : nlohmann::json::const_iterator();
  if (!schedule.knobs || named == schedule.knobs->end() || !named->is_string()) return generatorsOf(schedule.kind).front();
  return named->get<std::string>();
}

Schedule withGenerator(const Schedule& schedule, const std::string& generator) {
  nlohmann::json knobs = schedule.knobs ? *schedule.knobs : nlohmann::json::object();
  if (generator == generatorsOf(schedule.kind).front()) knobs.erase(kKnob);
  else knobs[kKnob] = generator;
  return {schedule.kind, std::make_shared<const nlohmann::json>(std::move(knobs))};
}

std::unique_ptr<ScheduleSpace> generatorSpace(std::unique_ptr<ScheduleSpace> space) {
  return std::make_unique<GeneratorSpace>(std::move(space));
}

}  // namespace nf
