// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/schedule/fragment.h"
#include "core/schedule/gpu_contraction.h"
#include "core/schedule/phases.h"

namespace nf::loop {
namespace {

class GpuContractionSpace final : public KnobSpace {
 public:
  explicit GpuContractionSpace(const Target& target) : KnobSpace("contraction"), m_target(target) {
    m_knobs = {{"block_m", "results of a block along the left operand's axes", {16, 32, 64, 128, 256}},
               {"block_n", "results of a block along the right operand's axes", {16, 32, 64, 128, 256}},
               {"block_k", "reduced points of a slice in shared memory", {8, 16, 32, 64}},
               {"thread_m", "results of a thread along the left operand's axes", {1, 2, 4, 8}},
               {"thread_n", "results of a thread along the right operand's axes", {1, 2, 4, 8, 16}},
               {"stages", "slices under way", {1, 2, 3, 4, 6}},
               {"split_k", "parts of the reduced points, put together by a second kernel", {1, 2, 4, 8, 16, 32, 64}, true}};
    // A warpgroup's threads have all columns of its rows.
    if (hasWarpgroups(target))
      for (const int n : {32, 64}) m_knobs[kThreadN].values.push_back(n);
    for (const Knob& knob : m_knobs) {
      m_numbers.emplace_back();
      for (const auto& v : knob.values) m_numbers.back().push_back(v.get<int>());
    }
  }

  bool open(const Program& program) {
    addForm(program, "own");
    // An axis that stands under floors on both sides is of both; in a residue class it may be of one.
    if (const auto split = withPhases(program)) addForm(*split, "phases");
    Knob axes{"axes", "as the accesses have them, or split into residue classes", {}, true};
    for (const Form& form : m_forms) axes.values.push_back(form.name);
    m_knobs.push_back(std::move(axes));
    Knob matrix{"matrix", "what multiplies: single threads, or the matrix units of a warp on f16, bf16 or tf32", {}, true};
    for (const Form& form : m_forms)
      for (const MatrixUnit unit : form.model.units())
        if (std::find(m_units.begin(), m_units.end(), unit) == m_units.end()) {
          m_units.push_back(unit);
          matrix.values.push_back(std::string(loop::name(unit)));
        }
    const bool round = std::any_of(m_forms.begin(), m_forms.end(), [](const Form& f) { return f.model.couldRound(); });
    for (const MatrixUnit unit : {MatrixUnit::Tf32, MatrixUnit::Wgmma}) {
      if (!round || std::find(m_units.begin(), m_units.end(), unit) != m_units.end()) continue;
      if (unit == MatrixUnit::Wgmma && !hasWarpgroups(m_target)) continue;
      m_units.push_back(unit);
      matrix.values.push_back(std::string(loop::name(unit)));
      ++matrix.asked;
    }
    m_knobs.push_back(std::move(matrix));
    Knob precision{"precision", "what operands in f32 are rounded to before they are multiplied", {"f32"}, true};
    Knob fragments{"fragments", "of 16 rows of the left operand that a warp holds at once", {"all"}, true};
    Knob pipeline{"pipeline", "levels: 2 multiplies from shared memory, 3 loads the next fragments meanwhile", {2}, true};
    if (round) {
      precision.values.push_back("tf32");
      precision.asked = 1;
    }
    if (m_units.size() > 1) {
      for (const int n : {1, 2, 4}) fragments.values.push_back(n);
      pipeline.values.push_back(3);
    }
    Knob copies{"copies", "how slices come: async, by all threads, or tma, by the copy engine", {"async"}, true};
    if (hasWarpgroups(m_target) && std::find(m_units.begin(), m_units.end(), MatrixUnit::Wgmma) != m_units.end())
      copies.values.push_back("tma");
    for (Knob* knob : {&precision, &fragments, &pipeline, &copies}) m_knobs.push_back(std::move(*knob));
    return !m_forms.empty();
  }

 protected:
  // The best by the model of all that a search could take, but for fragments and copies: what holding fewer, or the engine, is good for measuring
  // shows.
  Point firstPoint() const override {
    if (!m_first.empty()) return m_first;
    constexpr std::array kOrder{kAxes, kMatrix, kPipeline, kBlockM, kBlockN, kThreadM, kThreadN, kBlockK, kStages, kSplit};
    double bestSeconds = std::numeric_limits<double>::infinity();
    Point point(m_knobs.size(), 0);
    const auto search = [&](auto&& self, std::size_t depth) -> void {
      if (depth == kOrder.size()) {
        if (!illegal(point).empty()) return;
        const double seconds = estimate(point);
        if (seconds >= bestSeconds) return;
        m_first = point;
        bestSeconds = seconds;
        return;
      }
      const std::size_t knob = kOrder[depth];
      if (knob == kBlockK) {
        const int threads = knobsOf(point).threads();
        if (threads < kWarp || threads > 512 || threads % kWarp != 0) return;
      }
      if (knob == kStages && !fitsAtAll(point)) return;
      std::size_t count = m_knobs[knob].searched();
      if (knob == kPipeline && m_units[point[kMatrix]] == MatrixUnit::Fma) count = 1;
      if (knob == kSplit && !splitHelps(point)) count = 1;
      for (point[knob] = 0; point[knob] < count; ++point[knob]) self(self, depth + 1);
      point[knob] = 0;
    };
    search(search, 0);
    return m_first;
  }

  void settle(Point& point) const override {
    const MatrixUnit unit = m_units[point[kMatrix]];
    if (unit == MatrixUnit::Fma) point[kFragments] = point[kPipeline] = 0;
    if (unit != MatrixUnit::Wgmma) {
      point[kCopies] = 0;
      return;
    }
    // Of its tiles little is free.
    const auto number = [&](std::size_t knob) { return m_numbers[knob][point[knob]]; };
    const auto set = [&](std::size_t knob, int to) { point[knob] = positionOf(knob, to); };
    set(kBlockK, static_cast<int>(swizzledColumns(stepOf(unit, formOf(point).view).type)));
    set(kBlockN, std::max(number(kBlockN), 64));
    set(kThreadN, number(kBlockN) / 4);
    set(kThreadM, number(kThreadM) > 2 && number(kBlockN) < 256 ? 4 : 2);
    set(kBlockM, std::max(number(kBlockM), 32 * number(kThreadM)));
    point[kFragments] = 0;
    if (number(kStages) < 3) point[kPipeline] = 0;
    if (point[kCopies] > 0 && !illegal(point).empty()) point[kCopies] = 0;
  }

  std::string illegal(const Point& point) const override { return formOf(point).model.refuse(knobsOf(point)); }
  double estimate(const Point& point) const override { return formOf(point).model.seconds(knobsOf(point)); }

  std::vector<double> featuresOf(const Point& point) const override {
    const ContractionView& view = formOf(point).view;
    const ContractionExtents& e = formOf(point).model.extents();
    const GpuContractionKnobs k = knobsOf(point);
    const double blocks = e.batch * std::ceil(e.left / k.blockM) * std::ceil(e.right / k.blockN) * k.split;
    const auto waste = [](double extent, int block) { return std::ceil(extent / block) * block / extent; };
    return {std::log2(e.batch),
            std::log2(e.left),
            std::log2(e.right),
            std::log2(e.inner),
            std::log2(k.blockM),
            std::log2(k.blockN),
            std::log2(k.blockK),
            std::log2(k.threadM),
            std::log2(k.threadN),
            static_cast<double>(k.stages),
            std::log2(k.split),
            std::log2(k.threads()),
            std::log2(blocks / static_cast<double>(std::max<std::int64_t>(m_target.threads, 1))),
            waste(e.left, k.blockM),
            waste(e.right, k.blockN),
            view.leftPlain ? 1.0 : 0.0,
            view.rightPlain ? 1.0 : 0.0,
            k.matrix == MatrixUnit::Fma ? 0.0 : 1.0,
            static_cast<double>(k.fragments),
            static_cast<double>(k.pipeline),
            static_cast<double>(point[kCopies]),
            std::log2(static_cast<double>(bytesOf(stepOf(k.matrix, view).type))),
            std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override {
    const Form& form = formOf(point);
    return lowerGpuContraction(form.source->group, form.view, knobsOf(point), m_target);
  }

 private:
  enum : std::size_t {
    kBlockM,
    kBlockN,
    kBlockK,
    kThreadM,
    kThreadN,
    kStages,
    kSplit,
    kAxes,
    kMatrix,
    kPrecision,
    kFragments,
    kPipeline,
    kCopies
  };

  // A program with its guards on the factors; the group borrows it.
  struct Source {
    explicit Source(GuardedFactors g) : guarded(std::move(g)) {}
    GuardedFactors guarded;
    GroupView group;
  };
  struct Form {
    std::shared_ptr<const Source> source;
    std::string name;  // value of the knob axes
    ContractionView view;
    GpuContractionModel model;
  };
  const Form& formOf(const Point& point) const { return m_forms[point[kAxes]]; }

  void addForm(const Program& program, const char* name) {
    const auto source = std::make_shared<Source>(withGuardsOnFactors(program));
    auto group = viewGroup(source->guarded.program);
    if (!group) return;
    source->group = std::move(*group);
    auto view = viewContraction(source->group, source->guarded.skips);
    if (!view) return;
    // A few rows are reductions: a group of threads a result.
    GpuContractionModel model(source->group, *view, m_target);
    if (std::min(model.extents().left, model.extents().right) > kFewRows)
      m_forms.push_back({source, name, std::move(*view), std::move(model)});
  }

  GpuContractionKnobs knobsOf(const Point& point) const {
    const auto knob = [&](std::size_t k) { return m_numbers[k][point[k]]; };
    GpuContractionKnobs k{knob(kBlockM),  knob(kBlockN), knob(kBlockK), knob(kThreadM),
                          knob(kThreadN), knob(kStages), knob(kSplit),  m_units[point[kMatrix]]};
    k.rounded = point[kPrecision] > 0;
    k.fragments = point[kFragments] > 0 ? value(point, kFragments).get<int>() : 0;
    k.pipeline = value(point, kPipeline).get<int>();
    k.copies = point[kCopies] > 0 ? SliceCopies::Tensors : SliceCopies::Async;
    return k;
  }

  // Whether the tiles are legal with one stage, one part and the fewest levels.
  bool fitsAtAll(Point point) const {
    point[kStages] = point[kSplit] = point[kPipeline] = 0;
    return illegal(point).empty();
  }

  // Blocks enough for all multiprocessors need no parts.
  bool splitHelps(const Point& point) const {
    const ContractionExtents& e = formOf(point).model.extents();
    const GpuContractionKnobs k = knobsOf(point);
    return e.batch * std::ceil(e.left / k.blockM) * std::ceil(e.right / k.blockN) <
           4 * static_cast<double>(std::max<std::int64_t>(m_target.threads, 1));
  }

  static constexpr double kFewRows = 8;
  Target m_target;
  std::vector<Form> m_forms;
  std::vector<MatrixUnit> m_units;          // by position in knob matrix
  std::vector<std::vector<int>> m_numbers;  // by knob before kAxes and position
  mutable Point m_first;
};

}  // namespace

std::unique_ptr<KnobSpace> gpuContractionSpace(const Program& program, const GroupView&, const Target& target) {
  auto space = std::make_unique<GpuContractionSpace>(target);
  if (!space->open(program)) return nullptr;
  return space;
}

}  // namespace nf::loop
