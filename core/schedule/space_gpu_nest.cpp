// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/schedule/gpu.h"

namespace nf::loop {
namespace {

std::size_t pick(std::mt19937_64& rng, std::size_t count) { return count <= 1 ? 0 : static_cast<std::size_t>(rng() % count); }

// Every stage a kernel of its own, or all of them in one kernel for some rows after the other: for any group at all.
class GpuNestSpace final : public KnobSpace {
 public:
  GpuNestSpace(const Program& program, const GroupView& group, const Target& target, std::string kind)
      : KnobSpace(std::move(kind)), m_program(program), m_group(group), m_target(target), m_stages(planStages(group)) {
    m_group.program = &m_program;
    m_shared = sharedRows(m_group, m_stages);
    for (std::size_t r = 0; r <= m_shared; ++r) {
      m_views.emplace_back();
      for (const StagePlan& stage : m_stages) m_views.back().push_back(viewNest(m_group, stage, r));
    }
    m_knobs.push_back({"threads", "threads of a block", {64, 128, 256, 512}});
    m_knobs.push_back({"rows", "leading axes of which some rows run through all stages in one block", {0}, true});
    for (std::size_t r = 1; r <= m_shared; ++r) m_knobs[kRows].values.push_back(r);
    m_knobs.push_back({"row_threads", "threads of one row", {32, 8, 16, 64, 128, 256, 512}, true});
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const std::string of = m_stages.size() == 1 ? "" : "stage" + std::to_string(s) + ".";
      const Operator& first = m_program[m_stages[s].front()];
      const std::string made = first.name;
      const bool scatter = first.kind == OperatorKind::Scatter, reduces = first.reducer != Reducer::None;
      Knob vector{of + "vector", "neighbours along the last axis that a thread makes of " + made, {1}, true};
      Knob lanes{of + "lanes", "threads that share a result of " + made, {1}, true};
      Knob order{of + "order", "threads of one result side by side, or those of neighbouring results", {"lanes", "results"}, true};
      Knob split{of + "split", "parts of the reduced points of " + made + ", put together by a second kernel", {1}, true};
      if (!reduces && !scatter) vector.values = {1, 2, 4};
      if (reduces) lanes.values = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
      if (reduces || scatter) split.values = {1, 2, 4, 8, 16, 32, 64, 128, 256};
      for (Knob* k : {&vector, &lanes, &order, &split}) m_knobs.push_back(std::move(*k));
    }
  }

  // One stage's knobs hang together: they are drawn, changed and inherited as one.
  Schedule random(std::mt19937_64& rng) const override {
    Point point(m_knobs.size(), 0);
    drawFrame(point, rng);
    for (std::size_t s = 0; s < m_stages.size(); ++s) draw(point, s, rng);
    return scheduleOf(point);
  }

  Schedule mutate(const Schedule& schedule, std::mt19937_64& rng) const override {
    const auto from = pointOf(schedule);
    if (!from) return first();
    for (int attempt = 0; attempt < 32; ++attempt) {
      Point point = *from;
      if (pick(rng, 4) == 0) {
        drawFrame(point, rng);
        for (std::size_t s = 0; s < m_stages.size(); ++s)
          if (!refusal(point, s).empty()) draw(point, s, rng);
      } else {
        draw(point, pick(rng, m_stages.size()), rng);
      }
      if (point != *from) return scheduleOf(point);
    }
    return schedule;
  }

  Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const override {
    const auto left = pointOf(a), right = pointOf(b);
    if (!left || !right) return first();
    Point point = *left;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      if (pick(rng, 2) == 0) continue;
      const Point before = point;
      for (std::size_t k = at(s, 0); k < at(s + 1, 0); ++k) point[k] = (*right)[k];
      if (!refusal(point, s).empty()) point = before;
    }
    return scheduleOf(point);
  }

 protected:
  enum : std::size_t { kThreads, kRows, kRowThreads, kStages };

  Point firstPoint() const override {
    if (!m_first.empty()) return m_first;
    double bestSeconds = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r <= m_shared; ++r)
      for (std::size_t t = 0; t < (r == 0 ? 1 : m_knobs[kRowThreads].values.size()); ++t) {
        Point point(m_knobs.size(), 0);
        point[kThreads] = positionOf(kThreads, 256);
        point[kRows] = r;
        point[kRowThreads] = t;
        if (!frameRefusal(point).empty()) continue;
        for (std::size_t s = 0; s < m_stages.size(); ++s)
          set(point, s, firstGpuStage(m_views[r][s], scatters(s), args(s), threadsOf(point), r > 0, m_target));
        const double seconds = estimate(point);
        if (!m_first.empty() && seconds >= bestSeconds) continue;
        m_first = std::move(point);
        bestSeconds = seconds;
      }
    return m_first;
  }

  std::string illegal(const Point& point) const override {
    std::string why = frameRefusal(point);
    for (std::size_t s = 0; s < m_stages.size() && why.empty(); ++s) why = refusal(point, s);
    return why;
  }

  double estimate(const Point& point) const override {
    const std::size_t rows = point[kRows];
    double seconds = rows > 0 ? m_target.launchSeconds : 0;
    for (std::size_t s = 0; s < m_stages.size(); ++s)
      seconds += estimateGpuStage(m_views[rows][s], scatters(s), knobsOf(point, s), threadsOf(point), rows > 0, m_target);
    return seconds;
  }

  std::vector<double> featuresOf(const Point& point) const override {
    double points = 0, bytes = 0, work = 0, calls = 0, lanes = 0, splits = 0, vectors = 0, apart = 0, chain = 0;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      const NestView& view = m_views[point[kRows]][s];
      const GpuStageKnobs knobs = knobsOf(point, s);
      points += view.points;
      bytes += view.bytes;
      work += view.work * view.points;
      calls += view.calls * view.points;
      lanes += std::log2(knobs.lanes);
      splits += std::log2(knobs.split);
      vectors += std::log2(knobs.vector);
      apart += knobs.across ? 1 : 0;
      double reduced = 1;
      for (const NestAxis& a : view.axes)
        if (a.reduced) reduced *= static_cast<double>(a.extent);
      chain += std::log2(1 + reduced / (knobs.lanes * knobs.split));
    }
    const auto log = [](double x) { return std::log2(1 + x); };
    return {static_cast<double>(m_stages.size()),
            static_cast<double>(point[kRows]),
            std::log2(threadsOf(point)),
            log(value(point, kThreads).get<double>()),
            log(points),
            log(bytes),
            log(work),
            log(calls),
            lanes,
            splits,
            vectors,
            apart,
            chain,
            std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override {
    Function f;
    std::vector<BufferId> buffers;
    declareOperands(m_group, f, buffers);
    BodyLowering body(m_program, f);
    body.buffers = buffers;
    std::vector<GpuStageKnobs> knobs;
    const int threads = value(point, kThreads).get<int>();
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      for (const OperatorId id : m_stages[s])
        if (!body.buffers[m_program[id].output.value].valid()) declareWorkspace(m_group, f, body.buffers, m_program[id].output);
      knobs.push_back(knobsOf(point, s));
      if (point[kRows] == 0) lowerGpuStage(m_group, m_stages[s], knobs.back(), threads, f, body);
    }
    if (point[kRows] > 0) lowerGpuRows(m_group, m_stages, point[kRows], knobs, threadsOf(point), threads, f, body);
    return f;
  }

 private:
  std::size_t at(std::size_t stage, std::size_t which) const { return kStages + 4 * stage + which; }
  bool scatters(std::size_t s) const { return m_program[m_stages[s].front()].kind == OperatorKind::Scatter; }
  bool args(std::size_t s) const {
    return std::any_of(m_stages[s].begin(), m_stages[s].end(), [&](OperatorId id) { return isArg(m_program[id].reducer); });
  }

  // Of a row, where rows share the block.
  int threadsOf(const Point& point) const { return value(point, point[kRows] > 0 ? kRowThreads : kThreads).get<int>(); }

  std::string frameRefusal(const Point& point) const {
    if (point[kRows] == 0) return point[kRowThreads] == 0 ? std::string() : "knob row_threads takes rows";
    if (value(point, kRowThreads).get<int>() > value(point, kThreads).get<int>())
      return "knob row_threads is more than the threads of a block";
    return {};
  }

  std::string refusal(const Point& point, std::size_t s) const {
    return refuseGpuStage(m_views[point[kRows]][s], scatters(s), args(s), knobsOf(point, s), threadsOf(point), point[kRows] > 0);
  }

  GpuStageKnobs knobsOf(const Point& point, std::size_t s) const {
    return {value(point, at(s, 0)).get<int>(), value(point, at(s, 1)).get<int>(), point[at(s, 2)] == 1,
            value(point, at(s, 3)).get<int>()};
  }

  void set(Point& point, std::size_t s, const GpuStageKnobs& knobs) const {
    point[at(s, 0)] = positionOf(at(s, 0), knobs.vector);
    point[at(s, 1)] = positionOf(at(s, 1), knobs.lanes);
    point[at(s, 2)] = knobs.across ? 1 : 0;
    point[at(s, 3)] = positionOf(at(s, 3), knobs.split);
  }

  void drawFrame(Point& point, std::mt19937_64& rng) const {
    do {
      point[kThreads] = pick(rng, m_knobs[kThreads].values.size());
      point[kRows] = pick(rng, m_shared + 1);
      point[kRowThreads] = point[kRows] == 0 ? 0 : pick(rng, m_knobs[kRowThreads].values.size());
    } while (!frameRefusal(point).empty());
  }

  // Legal knobs of a stage: the plain ones always are.
  void draw(Point& point, std::size_t s, std::mt19937_64& rng) const {
    for (int attempt = 0; attempt < 16; ++attempt) {
      for (std::size_t k = at(s, 0); k < at(s + 1, 0); ++k) point[k] = pick(rng, m_knobs[k].values.size());
      if (refusal(point, s).empty()) return;
    }
    for (std::size_t k = at(s, 0); k < at(s + 1, 0); ++k) point[k] = 0;
  }

  Program m_program;
  GroupView m_group;
  Target m_target;
  std::vector<StagePlan> m_stages;
  std::size_t m_shared = 0;
  std::vector<std::vector<NestView>> m_views;  // by number of row axes, by stage
  mutable Point m_first;
};

}  // namespace

std::unique_ptr<KnobSpace> gpuNestSpace(const Program& program, const GroupView& group, const Target& target) {
  bool scatters = false, reduces = false;
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    if (!group.stored[program.operators[o].output.value]) continue;
    scatters = scatters || program.operators[o].kind == OperatorKind::Scatter;
    reduces = reduces || program.operators[o].reducer != Reducer::None;
  }
  return std::make_unique<GpuNestSpace>(program, group, target, scatters ? "scatter" : reduces ? "reduction" : "elementwise");
}

}  // namespace nf::loop
