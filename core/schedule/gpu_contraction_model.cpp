// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/schedule/fragment.h"
#include "core/schedule/gpu_contraction.h"

namespace nf::loop {
namespace {

constexpr std::int64_t kPad = 4;                 // elements a row of a slice may be longer
constexpr double kMostParts = 64.0 * (1 << 20);  // bytes of a workspace that holds the parts of split results
constexpr double kMemoryCycles = 600, kSharedCycles = 30, kBarrierCycles = 30, kAdditionCycles = 4, kMatrixCycles = 33;

constexpr int kRegisters = 65536;                                           // of a multiprocessor
constexpr int kWidest = 16, kMostAccumulators = 128, kOtherRegisters = 40;  // of a thread
constexpr int kWarpgroupCapability = 90;                                    // wgmma is in sm_90a and nowhere else
constexpr double kWarpgroupRate = 2048;                                     // multiplications of f16 a cycle, all of H100's
constexpr double kWarpgroupCycles = 64;                                     // until the products that were begun last are there

// 75 of "sm_75", 90 of "sm_90a"; 0: not known.
int capabilityOf(const Target& target) {
  int number = 0;
  for (const std::string& f : target.features)
    if (f.starts_with("sm_")) std::from_chars(f.data() + 3, f.data() + f.size(), number);
  return number;
}

// NVIDIA's white papers: 512 multiplications of f16 a cycle on Turing, 1024 on A100, 512 on the smaller Amperes and Adas (data centre
// boards), 2048 on H100, of which mma.sync reaches some 63 %; for what came after Hopper the same is taken, and 512 for its small ones.
// Leads, not measured here.
GpuProcessor processorOf(const Target& target) {
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
    case MatrixUnit::Wgmma: return "wgmma";
  }
  return {};
}

MatrixStep stepOf(MatrixUnit unit, const ContractionView& view) {
  switch (unit) {
    case MatrixUnit::Fma: break;
    case MatrixUnit::Mma16816: return {view.leftType, 16};
    case MatrixUnit::Wgmma: {
      const bool halves = view.leftType == view.rightType && view.leftType != DType::F32;
      return halves ? MatrixStep{view.leftType, 16} : MatrixStep{DType::F32, 8};
    }
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
    if (capability == kWarpgroupCapability) units.push_back(MatrixUnit::Wgmma);
  } else if (capability >= 80) {
    units.push_back(MatrixUnit::Mma16816);
    if (capability == kWarpgroupCapability) units.push_back(MatrixUnit::Wgmma);
  } else if (view.leftType == DType::F16) {
    units.push_back(MatrixUnit::Mma1688);
  }
  return units;
}

bool couldRound(const ContractionView& view, const Target& target) {
  return capabilityOf(target) >= 80 && (view.leftType == DType::F32 || view.rightType == DType::F32);
}

bool hasWarpgroups(const Target& target) { return capabilityOf(target) == kWarpgroupCapability; }

double matrixSpeed(const Target& target) {
  if (capabilityOf(target) < 75) return 1;
  const GpuProcessor p = processorOf(target);
  return (hasWarpgroups(target) ? kWarpgroupRate : p.f16) / p.f32;
}

std::int64_t sharedBytesOfBlock(const Target& target) {
  const int capability = capabilityOf(target);
  std::int64_t kilobytes = 48;
  if (capability >= 75) kilobytes = 64;
  if (capability >= 80) kilobytes = 163;
  if (capability > 80 && capability < 90 && capability != 87) kilobytes = 99;
  if (capability >= 90) kilobytes = 227;
  if (capability >= 120) kilobytes = 99;
  return kilobytes << 10;
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

GpuContractionModel::GpuContractionModel(const GroupView& group, const ContractionView& view, const Target& target)
    : m_extents(extentsOf(view)), m_units(matrixUnits(view, target)), m_couldRound(loop::couldRound(view, target)),
      m_sharedBytes(sharedBytesOfBlock(target)), m_left(tensorOperand(group, view, true)),
      m_right(tensorOperand(group, view, false)), m_processor(processorOf(target)), m_bytes(view.nest.bytes),
      m_bandwidth(target.peakBandwidth > 0 ? target.peakBandwidth : 1e12),
      m_clock((target.peakFlops > 0 ? target.peakFlops : 2e11) / (2 * m_processor.f32)), m_launch(target.launchSeconds),
      m_processors(static_cast<double>(std::max<std::int64_t>(target.threads, 1))) {
  for (const MatrixUnit unit : kMatrixUnits) {
    const MatrixStep step = stepOf(unit, view);
    const bool numbers = unit == MatrixUnit::Fma;
    const bool registers = unit == MatrixUnit::Wgmma && step.type == DType::F32;  // where they are rounded
    const auto plain = [&](bool asNumbers, bool stored, DType type) {
      return numbers ? asNumbers : stored && step.type == type && !registers;
    };
    m_uses[static_cast<std::size_t>(unit)] = {step, plain(view.leftPlain, view.leftStored, view.leftType),
                                              plain(view.rightPlain, view.rightStored, view.rightType)};
  }
}

std::string GpuContractionModel::refuse(const GpuContractionKnobs& k) const {
  if (k.blockM < k.threadM || k.blockN < k.threadN) return "the tile of a thread is larger than that of its block";
  if (k.threads() < kWarp || k.threads() > 512 || k.threads() % kWarp != 0)
    return "these tiles make no block of 32 to 512 threads in whole warps";
  const MatrixStep& step = useOf(k).step;
  const bool tf32 = k.matrix == MatrixUnit::Tf32 || k.matrix == MatrixUnit::Wgmma;
  if (k.rounded && (!m_couldRound || !tf32)) return "knob precision rounds for the matrix units tf32 and wgmma alone";
  if (tf32 && m_couldRound && !k.rounded) return "knob matrix rounds operands in f32 to tf32, which knob precision does not allow";
  if (k.matrix == MatrixUnit::Fma && (k.fragments != 0 || k.pipeline != 2))
    return "knobs fragments and pipeline are of matrix units, which do not multiply here";
  if (k.matrix != MatrixUnit::Fma) {
    if (!k.rounded && std::find(m_units.begin(), m_units.end(), k.matrix) == m_units.end())
      return "knob matrix cannot be " + std::string(name(k.matrix)) + " for these operands on this device";
  }
  if (k.matrix != MatrixUnit::Wgmma && k.threadN > kWidest) return "knob thread_n is larger than 16 for warpgroups alone";
  if (k.matrix == MatrixUnit::Wgmma) {
    if (k.blockK != swizzledColumns(step.type))
      return step.type == DType::F32 ? "knob block_k must be 32 for wgmma on tf32" : "knob block_k must be 64 for wgmma";
    if ((k.threadM != 2 && k.threadM != 4) || k.blockM % (32 * k.threadM) != 0 || k.blockN != 4 * k.threadN || k.blockN % 64 != 0)
      return "a warpgroup's 32 thread_m x 4 thread_n results are not 64 or 128 rows of its block's and all columns, 64, 128 or 256";
    if (k.threadM * k.threadN > kMostAccumulators || k.threads() * (k.threadM * k.threadN + kOtherRegisters) > kRegisters)
      return "the results of a thread fill its registers";
    if (k.fragments != 0) return "wgmma reads shared memory, and no fragments";
    if (k.pipeline > 2 && k.stages < 3) return "knob pipeline of 3 levels needs 3 slices under way for wgmma";
  } else if (k.matrix != MatrixUnit::Fma) {
    if (k.threadM < 2 || k.threadN < 4 || k.blockM % (8 * k.threadM) != 0 || k.blockN % (4 * k.threadN) != 0)
      return "a warp's 8 thread_m x 4 thread_n results are no 16 x 16 tiles of its block's";
    if (k.blockK % step.points != 0) return "knob block_k is no multiple of what the matrix unit takes at once";
    if (k.fragments > 0 && k.threadM / 2 % k.fragments != 0) return "knob fragments divides no warp's of the left operand";
    if (k.pipeline > 2 && k.fragments > 0) return "knob pipeline of 3 levels holds all fragments of a warp, knob fragments a part";
    if (k.pipeline > 2 && k.stages == 1) return "knob pipeline of 3 levels needs slices under way";
    if (k.pipeline > 2 && k.blockK / step.points % 2 != 0) return "knob pipeline of 3 levels needs an even number of steps a slice";
  }
  if (k.copies == SliceCopies::Tensors)
    if (std::string why = refuseTensors(k); !why.empty()) return why;
  const std::int64_t arrivals = k.copies == SliceCopies::Tensors ? kSwizzledAtomBytes : 0;
  if (arrivals + static_cast<std::int64_t>(k.stages) * k.blockK *
                     (k.blockM + k.blockN + (k.matrix == MatrixUnit::Fma ? 2 * kPad : 0)) * bytesOf(step.type) >
      m_sharedBytes)
    return "the slices of knob stages do not fit the shared memory of a block";
  const ContractionExtents& e = m_extents;
  if (k.split > 1 && k.split * k.blockK > e.inner) return "knob split_k has more parts than there are slices";
  if (k.split > 1 && k.split * e.batch * e.left * e.right * 4 > kMostParts) return "the parts of knob split_k take too much memory";
  return {};
}

std::string GpuContractionModel::refuseTensors(const GpuContractionKnobs& k) const {
  if (k.matrix != MatrixUnit::Wgmma) return "knob copies cannot be tma but for wgmma";
  const auto why = [&](const char* side, const TensorOperand& operand, int block) {
    TensorTile tile;
    const std::string refused = tensorTile(operand, useOf(k).step.type, block, k.blockK, tile);
    return refused.empty() ? refused : std::string("knob copies cannot be tma for the ") + side + " operand: " + refused;
  };
  std::string refused = why("left", m_left, k.blockM);
  return refused.empty() ? why("right", m_right, k.blockN) : refused;
}

namespace {

// Of times that overlap: the largest, and more where another is near it.
template <class... Times>
double overlapped(Times... times) {
  const auto fourth = [](double t) { return t * t * t * t; };
  return std::sqrt(std::sqrt((fourth(times) + ...)));
}

}  // namespace

GpuContractionModel::SliceCost GpuContractionModel::slice(const GpuContractionKnobs& k) const {
  const auto& [step, leftPlain, rightPlain] = useOf(k);
  const auto bytes = static_cast<double>(bytesOf(step.type));
  const double warps = static_cast<double>(k.threads()) / kWarp, steps = static_cast<double>(k.blockK) / step.points;
  const double products = static_cast<double>(k.blockM) * k.blockN * k.blockK;
  const auto copied = [&](bool plain, double block) { return block * k.blockK / kWarp * (plain ? bytes / 4 : 3); };
  const bool numbers = k.matrix == MatrixUnit::Fma;
  // What the engine brings takes no instructions and, like what is copied, its time of shared memory.
  const bool tensors = k.copies == SliceCopies::Tensors;
  const double copies = copied(leftPlain || tensors, k.blockM) + copied(rightPlain || tensors, k.blockN);
  SliceCost cost;
  double arithmetic, reads, instructions;
  if (numbers) {
    // A load of 16 bytes a thread takes two cycles; four steps are unrolled.
    const auto cycles = [](double mine) { return mine < 4 ? 1.0 : mine / 2; };
    const auto loads = [](double mine) { return mine < 4 ? 1.0 : mine / 4; };
    arithmetic = products / m_processor.f32;
    reads = warps * steps * (cycles(k.threadM) + cycles(k.threadN));
    instructions = products / kWarp + warps * steps * (loads(k.threadM) + loads(k.threadN) + 1.5);
    const double each = std::max(4.0 * kWarp / m_processor.f32 * k.threadM * k.threadN, kAdditionCycles);
    cost.alone = steps * each + steps / 4 * kSharedCycles;
    cost.registers = k.threadM * k.threadN + 2.0 * (k.threadM + k.threadN) + 40;
  } else if (k.matrix == MatrixUnit::Wgmma) {
    const double tiles = static_cast<double>(k.blockM) / 64 * steps;
    arithmetic = products / (step.type == DType::F32 ? kWarpgroupRate / 2 : kWarpgroupRate);
    reads = tiles * (64 + k.blockN) * step.points * bytes / 128;
    instructions = 4 * tiles * 4;
    cost.alone = arithmetic / (warps / 4) + (k.pipeline > 2 ? 0 : kWarpgroupCycles);
    cost.registers = k.threadM * k.threadN + kOtherRegisters;
  } else {
    const double rate = step.type == DType::F32 ? m_processor.f16 / 2 : m_processor.f16;
    const double fragments = k.threadM / 2.0 + k.threadN / 4.0, tiles = k.threadM / 2.0 * (k.threadN / 4.0);  // of 16, of 16 x 16
    arithmetic = products / rate;
    reads = warps * steps * fragments * 16 * step.points * bytes / 128;
    instructions = warps * steps * (2 * tiles + 5 * fragments);
    // What is loaded ahead waits for nobody; what is loaded in groups waits for each.
    const double groups = k.fragments > 0 ? k.threadM / 2.0 / k.fragments : 1;
    const double waits = (k.pipeline > 2 ? 0 : kSharedCycles) + steps * (groups - 1) * kSharedCycles / 2;
    const double held = (k.fragments > 0 ? k.fragments : k.threadM / 2.0) + k.threadN / 4.0;
    cost.alone = steps * (std::max(4 * 16 * 16 * step.points * tiles / rate, kMatrixCycles) + 8) + waits;
    cost.registers = k.threadM * k.threadN + (k.pipeline > 2 ? 2 : 1) * held * 16 * step.points * bytes / 4 / kWarp + 40;
  }
  cost.busy = overlapped(arithmetic, reads + copies, (instructions + (tensors ? 0 : 2 * copies)) / 4) + kBarrierCycles / 2;
  cost.alone += (tensors ? 0 : copies / warps * 4) + kBarrierCycles;
  return cost;
}

// Waves of blocks. Of a multiprocessor's blocks that are there together each slice takes what its busiest unit needs for all of them, or
// what one block needs by itself: its own work, and the latency of memory as far as stages do not hide it.
double GpuContractionModel::seconds(const GpuContractionKnobs& k) const {
  const ContractionExtents& e = m_extents;
  const auto bytes = static_cast<double>(bytesOf(useOf(k).step.type));
  const double blocks = e.batch * std::ceil(e.left / k.blockM) * std::ceil(e.right / k.blockN) * k.split;
  const double threads = k.threads();
  const double slices = std::ceil(std::ceil(e.inner / k.blockK) / k.split);
  const SliceCost cost = slice(k);
  const double elements = static_cast<double>(k.blockM + k.blockN) * k.blockK;
  const double resident = std::max(
      1.0, std::floor(std::min({65536 / (cost.registers * threads), m_processor.sharedBytes / (k.stages * elements * bytes),
                                m_processor.threads / threads, 16.0})));
  const double together = std::min(resident, std::max(1.0, std::ceil(blocks / m_processors)));
  const double own = overlapped(cost.busy, cost.alone);
  const double exposed = k.stages == 1 ? kMemoryCycles : std::max(0.0, kMemoryCycles / (k.stages - 1) - own);
  const double results = static_cast<double>(k.blockM) * k.blockN / kWarp * 2;
  const double cycles =
      slices * overlapped(together * cost.busy, own + exposed) + kMemoryCycles + together * results / 4 + results * kWarp / threads;
  const double waves = std::ceil(blocks / (m_processors * together));
  const double traffic = blocks * slices * elements * bytes / (2.5 * m_bandwidth);  // mostly from the second-level cache
  double seconds = overlapped(waves * cycles / m_clock, traffic, m_bytes / m_bandwidth) + m_launch;
  if (cost.registers > 255) seconds *= 4;
  if (k.split > 1) seconds += m_launch + kMemoryCycles / m_clock + k.split * e.batch * e.left * e.right * 8 / m_bandwidth;
  return seconds;
}

}  // namespace nf::loop
