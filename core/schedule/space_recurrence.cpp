// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/schedule/gpu.h"
#include "core/schedule/recurrence.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::int64_t kMostRegisters = 128;  // of a thread, for weights; what is left holds sums and addresses
constexpr std::int64_t kMostUnrolled = 4096;  // multiplications that weights in registers may be written out as
// Seconds: what a meeting of all blocks takes on Volta and later (about 1.5 us in published measurements of grid.sync), one of a block, and
// a round trip to the cache that all multiprocessors share.
constexpr double kGridBarrier = 1.5e-6, kBlockBarrier = 4e-8, kFarAway = 4e-7, kClock = 1.5e9;
constexpr double kNearBytes = 128, kSharedCacheBytes = 48;  // a multiprocessor's bytes a cycle: its own memory, the shared cache

Error refuse(const std::string& why) { return Error{"schedule", why, {}, {}}; }

double product(const std::vector<std::int64_t>& extents) {
  double n = 1;
  for (const std::int64_t e : extents) n *= static_cast<double>(e);
  return n;
}

class RecurrenceSpace final : public KnobSpace {
 public:
  RecurrenceSpace(RecurrenceView view, const Target& target) : KnobSpace("recurrence"), m_view(std::move(view)), m_target(target) {
    bool holds = false;
    for (std::size_t a = 0; a < m_view.axes.size(); ++a) {
      m_plans.push_back(std::array<RecurrencePlan, 2>{planRecurrence(m_view, a, false), planRecurrence(m_view, a, true)});
      holds = holds || !m_plans.back()[0].slices.empty();
    }
    for (const RecurrenceStage& stage : m_view.stages) {
      double work = 0;
      for (const OperatorId id : stage.operators) work += static_cast<double>(flopsOf(*m_view.body, id));
      m_work.push_back(work / std::max(1.0, product(stage.extents) * product(stage.reduced)));
    }
    const std::int64_t processors = std::max<std::int64_t>(m_target.threads, 1);
    std::vector<std::int64_t> blocks{1};
    for (std::int64_t b = 2; b <= std::min(processors, longest()); b *= 2) blocks.push_back(b);
    // As many as there are multiprocessors, each with as many units as another.
    for (const RecurrenceStage& stage : m_view.stages)
      for (const std::int64_t extent : stage.extents)
        if (extent > 1) blocks.push_back(ceilDiv(extent, ceilDiv(extent, std::min(processors, extent))));
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());

    const bool none = m_view.axisNames.size() == 1 && m_view.axisNames.front() == "none";
    m_knobs.push_back({"axis", "the axis of carried values that blocks share out" + (none ? "" : axesText(m_view.axisNames)), {}});
    for (std::size_t a = 0; a < m_view.axisNames.size(); ++a) m_knobs[kAxis].values.push_back(none ? "none" : axisValue(a));
    m_knobs[kAxis].words = m_view.axisNames;
    m_knobs.push_back({"blocks", "that stay through all steps, each on a multiprocessor of its own", {}});
    for (const std::int64_t b : blocks) m_knobs[kBlocks].values.push_back(b);
    m_knobs.push_back({"threads", "threads of a block", {64, 128, 256, 512}});
    m_knobs.push_back({"lanes", "threads that share a sum", {1, 2, 4, 8, 16, 32}});
    m_knobs.push_back({"rows", "neighbours of equal weights, along the batch, that a thread sums together", {1, 2, 4, 8, 16}});
    m_knobs.push_back({"hold", "where a block keeps weights from step to step", {"none"}});
    if (holds)
      for (const char* where : {"shared", "registers"}) m_knobs[kHold].values.push_back(where);
  }

 protected:
  enum : std::size_t { kAxis, kBlocks, kThreads, kLanes, kRows, kHold };

  Point firstPoint() const override {
    if (!m_first.empty()) return m_first;
    double bestSeconds = std::numeric_limits<double>::infinity();
    Point point(m_knobs.size(), 0);
    const auto count = [&](std::size_t k) { return m_knobs[k].values.size(); };
    for (point[kAxis] = 0; point[kAxis] < count(kAxis); ++point[kAxis])
      for (point[kBlocks] = 0; point[kBlocks] < count(kBlocks); ++point[kBlocks])
        for (point[kThreads] = 0; point[kThreads] < count(kThreads); ++point[kThreads])
          for (point[kLanes] = 0; point[kLanes] < count(kLanes); ++point[kLanes])
            for (point[kRows] = 0; point[kRows] < count(kRows); ++point[kRows])
              for (point[kHold] = 0; point[kHold] < count(kHold); ++point[kHold]) {
                if (!illegal(point).empty()) continue;
                const double seconds = estimate(point);
                if (seconds >= bestSeconds) continue;
                m_first = point;
                bestSeconds = seconds;
              }
    return m_first;
  }

  std::string illegal(const Point& point) const override {
    const RecurrenceKnobs knobs = knobsOf(point);
    const RecurrencePlan& plan = planOf(point);
    std::int64_t shared = 0, registers = 0, unrolled = 0;
    for (const RecurrenceSlice& slice : plan.slices) shared += sharedBytes(m_view, slice, knobs);
    if (knobs.hold == Hold::Shared && plan.slices.empty()) return "knob hold finds no weights to keep with this axis";
    if (knobs.hold == Hold::Shared && shared > knobs.sharedBytes)
      return "knob hold keeps more than the " + std::to_string(knobs.sharedBytes >> 10) + " KB of shared memory that a block has";
    if (knobs.hold != Hold::Registers) return {};
    if (plan.slices.empty()) return "knob hold finds no weights to keep with this axis";
    for (std::size_t s = 0; s < m_view.stages.size(); ++s) {
      if (plan.held[s].empty()) continue;
      const RecurrenceStage& stage = m_view.stages[s];
      const std::int64_t groups = knobs.threads / knobs.lanes;
      const std::int64_t each = ceilDiv(placesOf(plan, stage, s, knobs), groups) *
                                ceilDiv(static_cast<std::int64_t>(product(stage.reduced)), knobs.lanes);
      registers += each * static_cast<std::int64_t>(plan.held[s].size());
      unrolled += each * rowsOf(plan, stage, s, knobs) * static_cast<std::int64_t>(stage.operators.size());
    }
    const std::int64_t most = std::min<std::int64_t>(kMostRegisters, 65536 / knobs.threads - 64);
    if (registers > most) return "knob hold keeps more weights than the registers of a thread have place for";
    if (unrolled > kMostUnrolled)
      return "knob hold would write out more than " + std::to_string(kMostUnrolled) + " multiplications";
    return {};
  }

  // Of a step, stage by stage: the slowest of arithmetic and what comes from near and far, and the way of one value through it.
  double estimate(const Point& point) const override {
    const RecurrenceKnobs knobs = knobsOf(point);
    const RecurrencePlan& plan = planOf(point);
    const Program& p = *m_view.body;
    double step = 0, held = 0;
    for (std::size_t s = 0; s < m_view.stages.size(); ++s) {
      const RecurrenceStage& stage = m_view.stages[s];
      const double terms = product(stage.reduced), rows = static_cast<double>(rowsOf(plan, stage, s, knobs));
      double results = static_cast<double>(placesOf(plan, stage, s, knobs));
      if (plan.reuse[s] >= 0) results *= static_cast<double>(stage.extents[static_cast<std::size_t>(plan.reuse[s])]);
      const double groups = static_cast<double>(knobs.threads) / (stage.reduced.empty() ? 1 : knobs.lanes);
      const double rounds = std::ceil(results / rows / groups), turns = stage.reduced.empty() ? 1 : std::ceil(terms / knobs.lanes);
      // A multiprocessor begins four instructions of 32 threads a cycle; few threads wait for themselves.
      const double each = rounds * turns * (rows * (m_work[s] + 1) + 2);
      const double busy = each * knobs.threads / 128, alone = 4 * each;
      double near = 0, far = 0;
      for (const RecurrenceRead& read : stage.reads) {
        const Tensor& t = p[read.tensor];
        const bool weight =
            std::any_of(plan.held[s].begin(), plan.held[s].end(), [&](const HeldAccess& h) { return h.tensor == read.tensor; });
        const double size = static_cast<double>(bytesOf(t.type));
        if (weight) {
          const double bytes = results / rows * terms * size;
          (knobs.hold == Hold::Shared ? near : far) += knobs.hold == Hold::Registers ? 0 : bytes;
        } else {
          near += results * terms * size;
          far += std::min(results * terms, static_cast<double>(t.elements())) * size;
        }
      }
      step += std::max({busy, alone, near / kNearBytes, far / kSharedCacheBytes}) / kClock;
      if (!stage.reduced.empty()) step += std::log2(knobs.lanes) * 2e-8;
      step += plan.behind[s] == Meeting::Grid && knobs.blocks > 1 ? kGridBarrier + kFarAway
              : plan.behind[s] == Meeting::None                   ? 0
                                                                  : kBlockBarrier;
    }
    if (knobs.hold != Hold::None)
      for (const RecurrenceSlice& slice : plan.slices)
        held += static_cast<double>(sharedBytes(m_view, slice, knobs)) / kSharedCacheBytes / kClock;
    const double launch = m_target.launchSeconds > 0 ? m_target.launchSeconds : 3e-6;
    return launch + held + static_cast<double>(m_view.loop.trips) * step;
  }

  std::vector<double> featuresOf(const Point& point) const override {
    const RecurrenceKnobs knobs = knobsOf(point);
    const RecurrencePlan& plan = planOf(point);
    const auto log = [](double x) { return std::log2(1 + x); };
    double places = 0, terms = 0, meetings = 0, bytes = 0;
    for (std::size_t s = 0; s < m_view.stages.size(); ++s) {
      places += static_cast<double>(placesOf(plan, m_view.stages[s], s, knobs));
      terms += product(m_view.stages[s].reduced);
      meetings += plan.behind[s] == Meeting::Grid ? 1 : 0;
    }
    for (const RecurrenceSlice& slice : plan.slices) bytes += static_cast<double>(sharedBytes(m_view, slice, knobs));
    return {static_cast<double>(m_view.stages.size()),
            log(static_cast<double>(m_view.loop.trips)),
            log(knobs.blocks),
            std::log2(knobs.threads),
            std::log2(knobs.lanes),
            std::log2(knobs.rows),
            knobs.hold == Hold::Shared ? 1.0 : 0.0,
            knobs.hold == Hold::Registers ? 1.0 : 0.0,
            log(places),
            log(terms),
            meetings,
            log(bytes),
            std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override { return lowerRecurrence(m_view, planOf(point), knobsOf(point)); }

 private:
  std::int64_t longest() const {
    std::int64_t most = 1;
    for (const RecurrenceStage& stage : m_view.stages)
      for (const std::int64_t e : stage.extents) most = std::max(most, e);
    return most;
  }

  RecurrenceKnobs knobsOf(const Point& point) const {
    RecurrenceKnobs knobs;
    knobs.blocks = value(point, kBlocks).get<int>();
    knobs.threads = value(point, kThreads).get<int>();
    knobs.lanes = value(point, kLanes).get<int>();
    knobs.rows = value(point, kRows).get<int>();
    knobs.hold = static_cast<Hold>(point[kHold]);
    knobs.sharedBytes = sharedBytesOfBlock(m_target);
    return knobs;
  }

  const RecurrencePlan& planOf(const Point& point) const { return m_plans[point[kAxis]][point[kBlocks] == 0 ? 1 : 0]; }

  RecurrenceView m_view;
  Target m_target;
  std::vector<std::array<RecurrencePlan, 2>> m_plans;  // by axis: of many blocks, of one
  std::vector<double> m_work;                          // operations of a point, by stage
  mutable Point m_first;
};

}  // namespace

Result<std::unique_ptr<KnobSpace>> recurrenceSpace(const Program& subgraph, const Target& target) {
  if (target.backend != "cuda")
    return refuse("a loop is one kernel on CUDA devices alone: elsewhere its body's operators are kernels");
  if (std::find(target.features.begin(), target.features.end(), "no nvrtc") != target.features.end())
    return refuse("a loop is one kernel where NVRTC compiles it, which is not here");
  NF_TRY(RecurrenceView view, viewRecurrence(subgraph));
  return std::unique_ptr<KnobSpace>(std::make_unique<RecurrenceSpace>(std::move(view), target));
}

}  // namespace nf::loop
