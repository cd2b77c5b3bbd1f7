// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/schedule/knob_space.h"
#include "core/schedule/nest.h"

namespace nf::loop {
namespace {

// Every stage a nest of its own: for any group at all.
class NestSpace final : public KnobSpace {
 public:
  NestSpace(const Program& program, const GroupView& group, const Target& target, std::string kind)
      : KnobSpace(std::move(kind)), m_program(program), m_group(group), m_target(target), m_stages(planStages(group)) {
    m_group.program = &m_program;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      m_views.push_back(viewNest(m_group, m_stages[s]));
      const NestView& view = m_views.back();
      const std::string of = m_stages.size() == 1 ? "" : "stage" + std::to_string(s) + ".";
      Knob axis{of + "vector", "axis on the vector lanes of " + m_program[m_stages[s].front()].name, {""}};
      for (std::size_t a = 0; a < view.axes.size(); ++a)
        if (view.lanesAllowed[a]) axis.values.push_back(std::to_string(a) + ":" + view.axes[a].name);
      Knob lanes{of + "lanes", "elements one step of the vector axis handles", {}};
      const auto native = static_cast<int>(std::max<std::int64_t>(target.vectorBytes / 4, 4));
      for (const int l : {1, native, 2 * native, 4 * native}) lanes.values.push_back(l);
      m_knobs.push_back(std::move(axis));
      m_knobs.push_back(std::move(lanes));
    }
  }

 protected:
  Point firstPoint() const override {
    Point point;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestKnobs best = firstNest(m_views[s], m_target);
      point.push_back(best.vectorAxis < 0 ? 0 : positionOf(2 * s, nameOf(s, static_cast<std::size_t>(best.vectorAxis))));
      point.push_back(positionOf(2 * s + 1, best.lanes));
    }
    return point;
  }

  std::string illegal(const Point& point) const override {
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestKnobs knobs = knobsOf(point, s);
      if (knobs.vectorAxis < 0) {
        if (knobs.lanes != 1) return "knob " + m_knobs[2 * s + 1].name + " must be 1 where no axis is on the lanes";
        continue;
      }
      const auto allowed = lanesFor(m_views[s], knobs.vectorAxis, m_target);
      if (std::find(allowed.begin(), allowed.end(), knobs.lanes) == allowed.end())
        return "knob " + m_knobs[2 * s + 1].name + " does not suit the axis on the lanes";
    }
    return {};
  }

  double estimate(const Point& point) const override {
    double seconds = m_target.launchSeconds * static_cast<double>(m_stages.size());
    for (std::size_t s = 0; s < m_stages.size(); ++s) seconds += estimateNest(m_views[s], knobsOf(point, s), m_target);
    return seconds;
  }

  std::vector<double> featuresOf(const Point& point) const override {
    double points = 0, bytes = 0, work = 0, calls = 0, cost = 0, lanes = 0, waste = 0, reduced = 0;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestView& view = m_views[s];
      const NestKnobs knobs = knobsOf(point, s);
      points += view.points;
      bytes += view.bytes;
      work += view.work * view.points;
      calls += view.calls * view.points;
      lanes += std::log2(knobs.lanes);
      if (knobs.vectorAxis < 0) continue;
      const auto axis = static_cast<std::size_t>(knobs.vectorAxis);
      cost += view.accessCost[axis] * view.points;
      const auto extent = static_cast<double>(view.axes[axis].extent);
      waste += std::ceil(extent / knobs.lanes) * knobs.lanes / extent - 1;
      reduced += view.axes[axis].reduced ? 1 : 0;
    }
    const auto log = [](double x) { return std::log2(1 + x); };
    return {
        static_cast<double>(m_stages.size()),      log(points), log(bytes), log(work), log(calls), log(cost), lanes, waste, reduced,
        std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override {
    Function f;
    std::vector<BufferId> buffers;
    declareOperands(m_group, f, buffers);
    BodyLowering body(m_program, f);
    body.buffers = buffers;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      for (const OperatorId id : m_stages[s])
        if (!body.buffers[m_program[id].output.value].valid()) declareWorkspace(m_group, f, body.buffers, m_program[id].output);
      lowerNest(m_group, m_stages[s], knobsOf(point, s), f, body);
    }
    return f;
  }

 private:
  std::string nameOf(std::size_t stage, std::size_t axis) const {
    return std::to_string(axis) + ":" + m_views[stage].axes[axis].name;
  }
  NestKnobs knobsOf(const Point& point, std::size_t stage) const {
    const std::string axis = value(point, 2 * stage).get<std::string>();
    return {axis.empty() ? -1 : std::stoi(axis), value(point, 2 * stage + 1).get<int>()};
  }

  Program m_program;
  GroupView m_group;
  Target m_target;
  std::vector<StagePlan> m_stages;
  std::vector<NestView> m_views;
};

}  // namespace

std::unique_ptr<KnobSpace> nestSpace(const Program& program, const GroupView& group, const Target& target) {
  bool scatters = false, reduces = false;
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    if (!group.stored[program.operators[o].output.value]) continue;
    scatters = scatters || program.operators[o].kind == OperatorKind::Scatter;
    reduces = reduces || program.operators[o].reducer != Reducer::None;
  }
  return std::make_unique<NestSpace>(program, group, target, scatters ? "scatter" : reduces ? "reduction" : "elementwise");
}

}  // namespace nf::loop
