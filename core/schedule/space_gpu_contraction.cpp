// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/schedule/gpu_contraction.h"
#include "core/schedule/phases.h"

namespace nf::loop {
namespace {

constexpr std::int64_t kPad = 4;                 // elements a row of a slice may be longer
constexpr std::int64_t kSharedBytes = 48 << 10;  // what every device gives a block without being asked
constexpr double kMostParts = 64.0 * (1 << 20);  // bytes of a workspace that holds the parts of split results
constexpr double kMemoryCycles = 600, kSharedCycles = 30, kBarrierCycles = 30, kAdditionCycles = 4, kMatrixCycles = 33;

// 75 of "sm_75", 90 of "sm_90a"; 0: not known.
int capabilityOf(const Target& target) {
  int number = 0;
  for (const std::string& f : target.features)
    if (f.starts_with("sm_")) std::from_chars(f.data() + 3, f.data() + f.size(), number);
  return number;
}

// Of one multiprocessor. Fused multiplications a cycle, f32 and f16 with f32 sums; tf32 takes twice as long. NVIDIA's white papers: 512 on
// Turing, 1024 on A100, 512 on the smaller Amperes and Adas (data centre boards), 2048 on H100, of which mma.sync reaches some 63 %; for
// what came after Hopper the same is taken, and 512 for its small ones. Leads, not measured here.
struct Processor {
  double f32 = 128, f16 = 1024;
  double sharedBytes = 98304, threads = 2048;
};
Processor processorOf(const Target& target) {
  const int capability = capabilityOf(target);
  if (capability >= 120) return {128, 512, 100e3, 1536};
  if (capability >= 90) return {128, 1290, 227e3, 2048};
  if (capability > 80) return {128, 512, 100e3, 1536};
  if (capability == 80) return {64, 1024, 163e3, 2048};
  return {64, 512, 64e3, 1024};
}

}  // namespace

std::string_view name(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::Fma: return "fma";
    case MatrixUnit::Mma16816: return "mma16816";
    case MatrixUnit::Mma1688: return "mma1688";
    case MatrixUnit::Tf32: return "tf32";
  }
  return {};
}

MatrixStep stepOf(MatrixUnit unit, const ContractionView& view) {
  switch (unit) {
    case MatrixUnit::Fma: break;
    case MatrixUnit::Mma16816: return {view.leftType, 16};
    case MatrixUnit::Mma1688: return {view.leftType, 8};
    case MatrixUnit::Tf32: return {DType::F32, 8};
  }
  return {};
}

std::vector<MatrixUnit> matrixUnits(const ContractionView& view, const Target& target) {
  std::vector<MatrixUnit> units{MatrixUnit::Fma};
  const int capability = capabilityOf(target);
  if (capability < 75 || view.leftType == DType::F32 || view.rightType == DType::F32) return units;
  if (view.leftType != view.rightType) {
    if (capability >= 80) units.push_back(MatrixUnit::Tf32);
  } else if (capability >= 80) {
    units.push_back(MatrixUnit::Mma16816);
  } else if (view.leftType == DType::F16) {
    units.push_back(MatrixUnit::Mma1688);
  }
  return units;
}

ContractionExtents extentsOf(const ContractionView& view) {
  ContractionExtents e;
  for (std::size_t a = 0; a < view.classes.size(); ++a) {
    const auto extent = static_cast<double>(view.nest.axes[a].extent);
    switch (view.classes[a]) {
      case AxisClass::Batch: e.batch *= extent; break;
      case AxisClass::Left: e.left *= extent; break;
      case AxisClass::Right: e.right *= extent; break;
      case AxisClass::Inner: e.inner *= extent; break;
    }
  }
  return e;
}

std::string refuseGpuContraction(const ContractionView& view, const GpuContractionKnobs& k, const Target& target) {
  if (k.blockM < k.threadM || k.blockN < k.threadN) return "the tile of a thread is larger than that of its block";
  if (k.threads() < kWarp || k.threads() > 512 || k.threads() % kWarp != 0)
    return "these tiles make no block of 32 to 512 threads in whole warps";
  const MatrixStep step = stepOf(k.matrix, view);
  if (k.matrix != MatrixUnit::Fma) {
    const auto units = matrixUnits(view, target);
    if (std::find(units.begin(), units.end(), k.matrix) == units.end())
      return "knob matrix cannot be " + std::string(name(k.matrix)) + " for these operands on this device";
    if (k.threadM < 2 || k.threadN < 4 || k.blockM % (8 * k.threadM) != 0 || k.blockN % (4 * k.threadN) != 0)
      return "a warp's 8 thread_m x 4 thread_n results are no 16 x 16 tiles of its block's";
    if (k.blockK % step.points != 0) return "knob block_k is no multiple of what the matrix unit takes at once";
  }
  if (static_cast<std::int64_t>(k.stages) * k.blockK * (k.blockM + k.blockN + (k.matrix == MatrixUnit::Fma ? 2 * kPad : 0)) *
          bytesOf(step.type) >
      kSharedBytes)
    return "the slices of knob stages do not fit the shared memory of a block";
  const ContractionExtents e = extentsOf(view);
  if (k.split > 1 && k.split * k.blockK > e.inner) return "knob split_k has more parts than there are slices";
  if (k.split > 1 && k.split * e.batch * e.left * e.right * 4 > kMostParts) return "the parts of knob split_k take too much memory";
  return {};
}

namespace {

// Of times that overlap: the largest, and more where another is near it.
template <class... Times>
double overlapped(Times... times) {
  const auto fourth = [](double t) { return t * t * t * t; };
  return std::sqrt(std::sqrt((fourth(times) + ...)));
}

// Cycles of a block's slice on its multiprocessor.
struct SliceCost {
  double busy = 0;       // of the busiest unit
  double alone = 0;      // of one warp that waits for nobody
  double registers = 0;  // of a thread
};
SliceCost sliceCost(const ContractionView& view, const GpuContractionKnobs& k, const Processor& processor) {
  const MatrixStep step = stepOf(k.matrix, view);
  const auto bytes = static_cast<double>(bytesOf(step.type));
  const double warps = static_cast<double>(k.threads()) / kWarp, steps = static_cast<double>(k.blockK) / step.points;
  const double products = static_cast<double>(k.blockM) * k.blockN * k.blockK;
  const auto copied = [&](bool plain, double block) { return block * k.blockK / kWarp * (plain ? bytes / 4 : 3); };
  const bool numbers = k.matrix == MatrixUnit::Fma;
  const double copies = copied(numbers ? view.leftPlain : view.leftStored && step.type == view.leftType, k.blockM) +
                        copied(numbers ? view.rightPlain : view.rightStored && step.type == view.rightType, k.blockN);
  SliceCost cost;
  double arithmetic, reads, instructions;
  if (numbers) {
    // A load of 16 bytes a thread takes two cycles; four steps are unrolled.
    const auto cycles = [](double mine) { return mine < 4 ? 1.0 : mine / 2; };
    const auto loads = [](double mine) { return mine < 4 ? 1.0 : mine / 4; };
    arithmetic = products / processor.f32;
    reads = warps * steps * (cycles(k.threadM) + cycles(k.threadN));
    instructions = products / kWarp + warps * steps * (loads(k.threadM) + loads(k.threadN) + 1.5);
    const double each = std::max(4.0 * kWarp / processor.f32 * k.threadM * k.threadN, kAdditionCycles);
    cost.alone = steps * each + steps / 4 * kSharedCycles;
    cost.registers = k.threadM * k.threadN + 2.0 * (k.threadM + k.threadN) + 40;
  } else {
    const double rate = step.type == DType::F32 ? processor.f16 / 2 : processor.f16;
    const double fragments = k.threadM / 2.0 + k.threadN / 4.0, tiles = k.threadM / 2.0 * (k.threadN / 4.0);  // of 16, of 16 x 16
    arithmetic = products / rate;
    reads = warps * steps * fragments * 16 * step.points * bytes / 128;
    instructions = warps * steps * (2 * tiles + 5 * fragments);
    cost.alone = steps * (std::max(4 * 16 * 16 * step.points * tiles / rate, kMatrixCycles) + 8) + kSharedCycles;
    cost.registers = k.threadM * k.threadN + fragments * 16 * step.points * bytes / 4 / kWarp + 40;
  }
  cost.busy = overlapped(arithmetic, reads + copies, (instructions + 2 * copies) / 4) + kBarrierCycles / 2;
  cost.alone += copies / warps * 4 + kBarrierCycles;
  return cost;
}

}  // namespace

// Waves of blocks. Of a multiprocessor's blocks that are there together each slice takes what its busiest unit needs for all of them, or
// what one block needs by itself: its own work, and the latency of memory as far as stages do not hide it.
double estimateGpuContraction(const ContractionView& view, const GpuContractionKnobs& k, const Target& target) {
  const ContractionExtents e = extentsOf(view);
  const Processor processor = processorOf(target);
  const auto bytes = static_cast<double>(bytesOf(stepOf(k.matrix, view).type));
  const double processors = static_cast<double>(std::max<std::int64_t>(target.threads, 1));
  const double flops = target.peakFlops > 0 ? target.peakFlops : 2e11;
  const double bandwidth = target.peakBandwidth > 0 ? target.peakBandwidth : 1e12;
  const double clock = flops / (2 * processor.f32);
  const double blocks = e.batch * std::ceil(e.left / k.blockM) * std::ceil(e.right / k.blockN) * k.split;
  const double threads = k.threads();
  const double slices = std::ceil(std::ceil(e.inner / k.blockK) / k.split);
  const SliceCost slice = sliceCost(view, k, processor);
  const double elements = static_cast<double>(k.blockM + k.blockN) * k.blockK;
  const double resident =
      std::max(1.0, std::floor(std::min({65536 / (slice.registers * threads), processor.sharedBytes / (k.stages * elements * bytes),
                                         processor.threads / threads, 16.0})));
  const double together = std::min(resident, std::max(1.0, std::ceil(blocks / processors)));
  const double own = overlapped(slice.busy, slice.alone);
  const double exposed = k.stages == 1 ? kMemoryCycles : std::max(0.0, kMemoryCycles / (k.stages - 1) - own);
  const double results = static_cast<double>(k.blockM) * k.blockN / kWarp * 2;
  const double cycles = slices * overlapped(together * slice.busy, own + exposed) + kMemoryCycles + together * results / 4 +
                        results * kWarp / threads;
  const double waves = std::ceil(blocks / (processors * together));
  const double traffic = blocks * slices * elements * bytes / (2.5 * bandwidth);  // mostly from the second-level cache
  double seconds = overlapped(waves * cycles / clock, traffic, view.nest.bytes / bandwidth) + target.launchSeconds;
  if (slice.registers > 255) seconds *= 4;
  if (k.split > 1) seconds += target.launchSeconds + kMemoryCycles / clock + k.split * e.batch * e.left * e.right * 8 / bandwidth;
  return seconds;
}

namespace {

class GpuContractionSpace final : public KnobSpace {
 public:
  explicit GpuContractionSpace(const Target& target) : KnobSpace("contraction"), m_target(target) {
    m_knobs = {{"block_m", "results of a block along the left operand's axes", {16, 32, 64, 128}},
               {"block_n", "results of a block along the right operand's axes", {16, 32, 64, 128, 256}},
               {"block_k", "reduced points of a slice in shared memory", {8, 16, 32, 64}},
               {"thread_m", "results of a thread along the left operand's axes", {1, 2, 4, 8}},
               {"thread_n", "results of a thread along the right operand's axes", {1, 2, 4, 8, 16}},
               {"stages", "slices under way", {1, 2, 3, 4}},
               {"split_k", "parts of the reduced points, put together by a second kernel", {1, 2, 4, 8, 16, 32, 64}, true}};
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
      for (const MatrixUnit unit : matrixUnits(form.view, m_target))
        if (std::find(m_units.begin(), m_units.end(), unit) == m_units.end()) {
          m_units.push_back(unit);
          matrix.values.push_back(std::string(loop::name(unit)));
        }
    m_knobs.push_back(std::move(matrix));
    return !m_forms.empty();
  }

 protected:
  Point firstPoint() const override {
    if (!m_first.empty()) return m_first;
    double bestSeconds = std::numeric_limits<double>::infinity();
    Point point(m_knobs.size(), 0);
    const auto search = [&](auto&& self, std::size_t knob) -> void {
      const auto number = [&](std::size_t n) { return value(point, n).template get<int>(); };
      if (knob == kStages && (number(kThreadM) > number(kBlockM) || number(kThreadN) > number(kBlockN))) return;
      if (knob == kStages) {
        const int threads = number(kBlockM) / number(kThreadM) * (number(kBlockN) / number(kThreadN));
        if (threads < kWarp || threads > 512 || threads % kWarp != 0) return;
      }
      if (knob == m_knobs.size()) {
        if (!illegal(point).empty()) return;
        const double seconds = estimate(point);
        if (seconds >= bestSeconds) return;
        m_first = point;
        bestSeconds = seconds;
        return;
      }
      for (point[knob] = 0; point[knob] < m_knobs[knob].values.size(); ++point[knob]) self(self, knob + 1);
      point[knob] = 0;
    };
    search(search, 0);
    return m_first;
  }

  std::string illegal(const Point& point) const override {
    return refuseGpuContraction(formOf(point).view, knobsOf(point), m_target);
  }
  double estimate(const Point& point) const override {
    return estimateGpuContraction(formOf(point).view, knobsOf(point), m_target);
  }

  std::vector<double> featuresOf(const Point& point) const override {
    const ContractionView& view = formOf(point).view;
    const ContractionExtents e = extentsOf(view);
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
            std::log2(static_cast<double>(bytesOf(stepOf(k.matrix, view).type))),
            std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override {
    const Form& form = formOf(point);
    return lowerGpuContraction(form.source->group, form.view, knobsOf(point), m_target);
  }

 private:
  enum : std::size_t { kBlockM, kBlockN, kBlockK, kThreadM, kThreadN, kStages, kSplit, kAxes, kMatrix };

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
    const ContractionExtents e = extentsOf(*view);
    if (std::min(e.left, e.right) > kFewRows) m_forms.push_back({source, name, std::move(*view)});
  }

  GpuContractionKnobs knobsOf(const Point& point) const {
    const auto knob = [&](std::size_t k) { return value(point, k).get<int>(); };
    return {knob(kBlockM),  knob(kBlockN), knob(kBlockK), knob(kThreadM),
            knob(kThreadN), knob(kStages), knob(kSplit),  m_units[point[kMatrix]]};
  }

  static constexpr double kFewRows = 8;
  Target m_target;
  std::vector<Form> m_forms;
  std::vector<MatrixUnit> m_units;  // by position in knob matrix
  mutable Point m_first;
};

}  // namespace

std::unique_ptr<KnobSpace> gpuContractionSpace(const Program& program, const GroupView&, const Target& target) {
  auto space = std::make_unique<GpuContractionSpace>(target);
  if (!space->open(program)) return nullptr;
  return space;
}

}  // namespace nf::loop
