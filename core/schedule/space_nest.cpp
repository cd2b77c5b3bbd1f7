// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/schedule/knob_space.h"
#include "core/schedule/nest.h"
#include "core/schedule/scatter.h"

namespace nf::loop {
namespace {

constexpr double kWorthPeeling = 0.97;

std::size_t pick(std::mt19937_64& rng, std::size_t count) { return count <= 1 ? 0 : static_cast<std::size_t>(rng() % count); }

// Every stage a nest of its own, one after the other over all points or for one row after the other: for any group at all.
class NestSpace final : public KnobSpace {
 public:
  NestSpace(const Program& program, const GroupView& group, const Target& target, std::string kind)
      : KnobSpace(std::move(kind)), m_program(program), m_group(group), m_target(target), m_stages(planStages(group)) {
    m_group.program = &m_program;
    const std::size_t shared = sharedRows(m_group, m_stages);
    bool phases = false;
    for (const StagePlan& stage : m_stages) phases = phases || hasPhases(m_group, stage);
    for (const bool split : {false, true}) {
      if (split && !phases) continue;
      for (std::size_t r = 0; r <= shared; ++r) {
        m_views.emplace_back();
        for (const StagePlan& stage : m_stages) m_views.back().push_back(viewNest(m_group, stage, r, {}, split));
      }
    }
    m_rowChoices = shared + 1;
    for (std::size_t r = 0; r <= shared; ++r)
      m_splits.push_back(
          std::any_of(m_stages.begin(), m_stages.end(), [&](const StagePlan& s) { return hasPhases(m_group, s, r); }));
    m_rows = shared > 0;
    if (m_rows) {
      m_knobs.push_back({"rows", "leading axes of which one row after the other runs through all stages", {}, true});
      for (std::size_t r = 0; r <= shared; ++r) m_knobs[0].values.push_back(r);
    }
    if (std::any_of(m_stages.begin(), m_stages.end(),
                    [&](const StagePlan& s) { return sortsPoints(m_program, m_program[s.front()]); })) {
      m_pointsKnob = m_knobs.size();
      m_knobs.push_back(
          {"points", "scatters add in the order of the points, or sort them by place first", {"in order", "sorted"}, true});
    }
    if (phases) {
      m_axesKnob = m_knobs.size();
      m_knobs.push_back({"axes", "as the accesses have them or split into residue classes", {"own", "phases"}, true});
    }
    const auto peels = [](const std::vector<NestView>& views) {
      return std::any_of(views.begin(), views.end(), [](const NestView& view) { return view.interior > 0; });
    };
    for (const auto& views : m_views) m_peels.push_back(peels(views));
    if (std::any_of(m_peels.begin(), m_peels.end(), [](bool any) { return any; })) {
      m_guardsKnob = m_knobs.size();
      m_knobs.push_back(
          {"guards", "tested at each term, or peeled: once around the loops where all hold", {"tested", "peeled"}, true});
    }
    m_firstStageKnob = m_knobs.size();
    const auto native = static_cast<int>(std::max<std::int64_t>(target.vectorBytes / 4, 4));
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const std::string of = m_stages.size() == 1 ? "" : "stage" + std::to_string(s) + ".";
      const std::string made = m_program[m_stages[s].front()].name;
      std::vector<std::string> names;
      for (const auto& a : m_views.front()[s].axes) names.push_back(a.name);
      Knob axis{of + "vector", "axis on the vector lanes of " + made + axesText(names), {""}};
      Knob lanes{of + "lanes", "elements one step of the vector axis handles", {}};
      Knob tile{of + "tile", "axis and how many neighbours along it are reduced together, or transposed in registers", {""}, true};
      const auto add = [](Knob& knob, const std::string& value) {
        if (std::find(knob.values.begin(), knob.values.end(), value) == knob.values.end()) knob.values.push_back(value);
      };
      for (const auto& views : m_views) {
        const NestView& view = views[s];
        for (std::size_t a = 0; a < view.axes.size(); ++a) {
          if (view.lanesAllowed[a]) add(axis, axisValue(a));
          if (!view.transposedCost.empty()) add(tile, axisValue(a) + "*" + std::to_string(native));
          if (!view.tileAllowed[a]) continue;
          for (int t = 2; t <= std::max(16, native); ++t)
            if (view.axes[a].extent % t == 0) add(tile, axisValue(a) + "*" + std::to_string(t));
        }
      }
      for (const int l : {1, native, 2 * native, 4 * native}) lanes.values.push_back(l);
      m_knobs.push_back(std::move(axis));
      m_knobs.push_back(std::move(lanes));
      m_knobs.push_back(std::move(tile));
    }
  }

  // One stage's knobs hang together: they are drawn, changed and inherited as one.
  Schedule random(std::mt19937_64& rng) const override {
    Point point(m_knobs.size(), 0);
    for (std::size_t k = 0; k < m_firstStageKnob; ++k) point[k] = pick(rng, m_knobs[k].values.size());
    keepWhatIs(point);
    for (std::size_t s = 0; s < m_stages.size(); ++s) set(point, s, draw(point, s, rng));
    return scheduleOf(point);
  }

  Schedule mutate(const Schedule& schedule, std::mt19937_64& rng) const override {
    const auto from = pointOf(schedule);
    if (!from) return first();
    for (int attempt = 0; attempt < 32; ++attempt) {
      Point point = *from;
      const std::size_t k = m_firstStageKnob > 0 ? pick(rng, m_firstStageKnob) : 0;
      if (m_firstStageKnob > 0 && pick(rng, 8) == 0) {
        point[k] = pick(rng, m_knobs[k].values.size());
        keepWhatIs(point);
        prepare();
        for (std::size_t s = 0; s < m_stages.size(); ++s) set(point, s, m_first[formOf(point)][s]);
      } else {
        const std::size_t s = pick(rng, m_stages.size());
        set(point, s, draw(point, s, rng));
      }
      if (point != *from) return scheduleOf(point);
    }
    return schedule;
  }

  Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const override {
    const auto left = pointOf(a), right = pointOf(b);
    if (!left || !right) return first();
    if (formOf(*left) != formOf(*right)) return pick(rng, 2) == 0 ? a : b;
    Point point = *left;
    for (std::size_t s = 0; s < m_stages.size(); ++s)
      if (pick(rng, 2) == 0) set(point, s, knobsOf(*right, s));
    return scheduleOf(point);
  }

 protected:
  Point firstPoint() const override {
    prepare();
    Point best;
    double bestSeconds = 0;
    for (std::size_t r = 0; r < m_views.size(); ++r) {
      if (r >= m_rowChoices && !m_splits[r % m_rowChoices]) continue;
      Point point(m_knobs.size(), 0);
      if (m_rows) point[0] = r % m_rowChoices;
      if (m_axesKnob) point[*m_axesKnob] = r / m_rowChoices;
      for (std::size_t s = 0; s < m_stages.size(); ++s) set(point, s, m_first[r][s]);
      double seconds = estimate(point);
      if (m_peels[r]) {
        // Twice the code.
        Point peeled = point;
        peeled[*m_guardsKnob] = 1;
        const double without = estimate(peeled);
        if (without < kWorthPeeling * seconds) {
          point = std::move(peeled);
          seconds = without;
        }
      }
      if (!best.empty() && seconds >= bestSeconds) continue;
      best = std::move(point);
      bestSeconds = seconds;
    }
    return best;
  }

  std::string illegal(const Point& point) const override {
    if (isSplit(point) && !m_splits[rowsOf(point)]) return "axes has nothing to split: the axes under divisions are rows already";
    if (isPeeled(point) && !m_peels[formOf(point)])
      return "guards has nothing to peel: no condition is the same for all terms inside";
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestView& view = m_views[formOf(point)][s];
      const std::string axis = text(point, s, 0), tile = text(point, s, 2);
      const NestKnobs knobs = knobsOf(point, s);
      if (!axis.empty() && (knobs.vectorAxis < 0 || !view.lanesAllowed[static_cast<std::size_t>(knobs.vectorAxis)]))
        return "knob " + knob(s, 0).name + " names no axis that these rows can have on the lanes";
      if (!tile.empty() && knobs.tileAxis < 0) return "knob " + knob(s, 2).name + " names no axis of these rows";
      const auto lanes = lanesFor(view, knobs.vectorAxis, m_target);
      if (std::find(lanes.begin(), lanes.end(), knobs.lanes) == lanes.end())
        return "knob " + knob(s, 1).name + " does not suit the axis on the lanes";
      const auto tiles = tilesFor(view, knobs, knobs.tileAxis, m_stages[s].size(), m_target);
      if (std::find(tiles.begin(), tiles.end(), knobs.tile) == tiles.end())
        return "knob " + knob(s, 2).name + " does not suit the axis on the lanes or the registers";
    }
    return {};
  }

  double estimate(const Point& point) const override {
    const std::size_t rows = rowsOf(point), form = formOf(point);
    double seconds = m_target.launchSeconds * (rows > 0 ? 1.0 : static_cast<double>(m_stages.size()));
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestKnobs knobs = knobsOf(point, s);
      const double once = estimateNest(m_views[form][s], knobs, m_target);
      // Sorting writes and reads all values once more and starts six stages; whether it pays hangs on the data.
      seconds += knobs.sorted ? 2 * once + 6 * m_target.launchSeconds : once;
    }
    // Fewer rows than threads leave some of them idle.
    const double threads = static_cast<double>(std::max<std::int64_t>(m_target.threads, 1));
    if (rows > 0) seconds *= threads / std::min(threads, m_views[form].front().rows);
    return seconds;
  }

  std::vector<double> featuresOf(const Point& point) const override {
    double points = 0, bytes = 0, work = 0, calls = 0, cost = 0, lanes = 0, waste = 0, reduced = 0, tiles = 0;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestView& view = m_views[formOf(point)][s];
      const NestKnobs knobs = knobsOf(point, s);
      points += view.points;
      bytes += view.bytes;
      work += view.work * view.points;
      calls += view.calls * view.points;
      lanes += std::log2(knobs.lanes);
      tiles += std::log2(knobs.tile);
      if (knobs.vectorAxis < 0) continue;
      const auto axis = static_cast<std::size_t>(knobs.vectorAxis);
      cost += view.accessCost[axis] * view.points;
      const auto extent = static_cast<double>(view.axes[axis].extent);
      waste += std::ceil(extent / knobs.lanes) * knobs.lanes / extent - 1;
      reduced += view.axes[axis].reduced ? 1 : 0;
    }
    const auto log = [](double x) { return std::log2(1 + x); };
    return {
        static_cast<double>(m_stages.size()),
        static_cast<double>(rowsOf(point)) + (isSorted(point) ? 1 : 0) + (isSplit(point) ? 0.5 : 0) + (isPeeled(point) ? 0.25 : 0),
        log(points),
        log(bytes),
        log(work),
        log(calls),
        log(cost),
        lanes,
        tiles,
        waste,
        reduced,
        std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override {
    Function f;
    std::vector<BufferId> buffers;
    declareOperands(m_group, f, buffers);
    BodyLowering body(m_program, f);
    body.buffers = buffers;
    std::vector<NestKnobs> knobs;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      for (const OperatorId id : m_stages[s])
        if (!body.buffers[m_program[id].output.value].valid()) declareWorkspace(m_group, f, body.buffers, m_program[id].output);
      knobs.push_back(knobsOf(point, s));
      if (rowsOf(point) == 0) lowerNest(m_group, m_stages[s], knobs.back(), f, body);
    }
    if (rowsOf(point) > 0) lowerRows(m_group, m_stages, rowsOf(point), knobs, f, body);
    return f;
  }

 private:
  static std::string nameOf(int axis) { return axis < 0 ? std::string() : axisValue(static_cast<std::size_t>(axis)); }
  static int axisNamed(const NestView& view, const std::string& name) {
    for (std::size_t a = 0; a < view.axes.size(); ++a)
      if (axisValue(a) == name) return static_cast<int>(a);
    return -1;
  }

  std::size_t rowsOf(const Point& point) const { return m_rows ? point[0] : 0; }
  bool isSplit(const Point& point) const { return m_axesKnob && point[*m_axesKnob] == 1; }
  bool isPeeled(const Point& point) const { return m_guardsKnob && point[*m_guardsKnob] == 1; }
  bool isSorted(const Point& point) const { return m_pointsKnob && point[*m_pointsKnob] == 1; }
  std::size_t formOf(const Point& point) const { return (isSplit(point) ? m_rowChoices : 0) + rowsOf(point); }
  void keepWhatIs(Point& point) const {
    if (isSplit(point) && !m_splits[rowsOf(point)]) point[*m_axesKnob] = 0;
    if (isPeeled(point) && !m_peels[formOf(point)]) point[*m_guardsKnob] = 0;
  }
  std::size_t at(std::size_t stage, std::size_t which) const { return m_firstStageKnob + 3 * stage + which; }
  const Knob& knob(std::size_t stage, std::size_t which) const { return m_knobs[at(stage, which)]; }
  std::string text(const Point& point, std::size_t stage, std::size_t which) const {
    return value(point, at(stage, which)).get<std::string>();
  }

  NestKnobs knobsOf(const Point& point, std::size_t stage) const {
    const NestView& view = m_views[formOf(point)][stage];
    NestKnobs knobs;
    knobs.sorted = isSorted(point) && sortsPoints(m_program, m_program[m_stages[stage].front()]);
    knobs.phases = isSplit(point);
    knobs.peeled = isPeeled(point) && view.interior > 0;
    knobs.vectorAxis = axisNamed(view, text(point, stage, 0));
    knobs.lanes = value(point, at(stage, 1)).get<int>();
    const std::string tile = text(point, stage, 2);
    if (tile.empty()) return knobs;
    const std::size_t star = tile.rfind('*');
    knobs.tileAxis = axisNamed(view, tile.substr(0, star));
    knobs.tile = std::stoi(tile.substr(star + 1));
    return knobs;
  }

  void set(Point& point, std::size_t stage, const NestKnobs& knobs) const {
    point[at(stage, 0)] = positionOf(at(stage, 0), nameOf(knobs.vectorAxis));
    point[at(stage, 1)] = positionOf(at(stage, 1), knobs.lanes);
    point[at(stage, 2)] = knobs.tile > 1 ? positionOf(at(stage, 2), nameOf(knobs.tileAxis) + "*" + std::to_string(knobs.tile)) : 0;
  }

  NestKnobs draw(const Point& point, std::size_t stage, std::mt19937_64& rng) const {
    const NestView& view = m_views[formOf(point)][stage];
    NestKnobs knobs;
    std::vector<int> axes{-1};
    for (std::size_t a = 0; a < view.axes.size(); ++a)
      if (view.lanesAllowed[a]) axes.push_back(static_cast<int>(a));
    knobs.vectorAxis = axes[pick(rng, axes.size())];
    const auto lanes = lanesFor(view, knobs.vectorAxis, m_target);
    knobs.lanes = lanes[pick(rng, lanes.size())];
    if (view.axes.empty()) return knobs;
    const int axis = static_cast<int>(pick(rng, view.axes.size()));
    const auto tiles = tilesFor(view, knobs, axis, m_stages[stage].size(), m_target);
    knobs.tile = tiles[pick(rng, tiles.size())];
    if (knobs.tile > 1) knobs.tileAxis = axis;
    return knobs;
  }

  // The analytic model's knobs of every stage, found when they are first asked for.
  void prepare() const {
    if (!m_first.empty()) return;
    for (const auto& views : m_views) {
      m_first.emplace_back();
      for (const NestView& view : views) m_first.back().push_back(firstNest(view, m_target));
    }
  }

  Program m_program;
  GroupView m_group;
  Target m_target;
  std::vector<StagePlan> m_stages;
  std::vector<std::vector<NestView>> m_views;  // by number of row axes, those with phases behind the others; by stage
  // Knobs of the whole group, before those of the stages: rows is the first.
  bool m_rows = false;
  std::optional<std::size_t> m_pointsKnob, m_axesKnob, m_guardsKnob;
  std::size_t m_rowChoices = 1, m_firstStageKnob = 0;
  std::vector<bool> m_splits;  // by number of row axes: residue classes are left to split
  std::vector<bool> m_peels;   // as m_views: a stage has guards to peel off
  mutable std::vector<std::vector<NestKnobs>> m_first;
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
