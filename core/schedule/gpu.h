// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/contraction.h"
#include "core/schedule/knob_space.h"
#include "core/schedule/nest.h"
#include "core/schedule/tensor_tile.h"

// Templates for a GPU: a stage is a kernel launch, its Block loops the grid, and inside them a nest of Thread loops, or several that a
// barrier of the block parts. All reductions have fixed trees, so that results do not depend on the order of blocks.
namespace nf::loop {

constexpr int kWarp = 32;

// One stage of planStages() on a grid.
struct GpuStageKnobs {
  int vector = 1;       // elementwise: neighbours along the last axis that a thread makes, a power of two
  int lanes = 1;        // reduction: threads that share a result, a power of two
  bool across = false;  // threads of a result stand apart, those of neighbouring results side by side
  int split = 1;  // reduction, scatter: parts of the reduced points; each in blocks of its own, put together by a second kernel
  friend bool operator==(const GpuStageKnobs&, const GpuStageKnobs&) = default;
};

// Why the stage cannot have these knobs; empty: it can. threads: of a block, or of a row.
std::string refuseGpuStage(const NestView& view, bool scatter, bool arg, const GpuStageKnobs& knobs, int threads, bool inRows);

// Appends the stage, its zeroing and what puts its parts together to the function. body.buffers names the buffers of earlier stages.
void lowerGpuStage(const GroupView& group, const StagePlan& stage, const GpuStageKnobs& knobs, int threads, Function& function,
                   BodyLowering& body);

// All stages for some rows, then for others: one kernel, threads / rowThreads rows a block.
void lowerGpuRows(const GroupView& group, const std::vector<StagePlan>& stages, std::size_t rowAxes,
                  const std::vector<GpuStageKnobs>& knobs, int rowThreads, int threads, Function& function, BodyLowering& body);

// The knobs that the analytic model takes for a stage.
GpuStageKnobs firstGpuStage(const NestView& view, bool scatter, bool arg, int threads, bool inRows, const Target& target);
double estimateGpuStage(const NestView& view, bool scatter, const GpuStageKnobs& knobs, int threads, bool inRows,
                        const Target& target);

// A number in mixed radix: the digit of each extent, the last one fastest. The first digit is not reduced.
std::vector<IndexExpr> digits(const IndexExpr& number, const std::vector<std::int64_t>& extents, const RangeOf& ranges);

// What multiplies: additions and multiplications of single threads, or the matrix units of a warp: mma.sync on f16 or bf16 with 16
// reduced points at once (sm_80) or 8 (sm_75, f16 alone), or on tf32 with 8; or those of four warps, wgmma on f16 or bf16 with 16 or on tf32
// with 8 (sm_90a).
// Sums are f32 in each.
enum class MatrixUnit : std::uint8_t { Fma, Mma16816, Mma1688, Tf32, Wgmma };
inline constexpr std::array kMatrixUnits{MatrixUnit::Fma, MatrixUnit::Mma16816, MatrixUnit::Mma1688, MatrixUnit::Tf32,
                                         MatrixUnit::Wgmma};
std::string_view name(MatrixUnit unit);  // "fma", the value of knob matrix
// Reduced points of one instruction, and the type of its operands. Fma: 1, F32.
struct MatrixStep {
  DType type = DType::F32;
  int points = 1;
};
MatrixStep stepOf(MatrixUnit unit, const ContractionView& view);
// Those the target has that hold every value of both operands as it is, Fma first: f16 and bf16 are read from storage and multiplied
// exactly, one of each in tf32. Operands in f32 take Fma.
std::vector<MatrixUnit> matrixUnits(const ContractionView& view, const Target& target);
// An operand is in f32, and the target could multiply it rounded to tf32.
bool couldRound(const ContractionView& view, const Target& target);
bool hasWarpgroups(const Target& target);
// Multiplications of f16 or bf16 by the matrix units in the time of one of f32 by single threads; 1: the target has no matrix units.
double matrixSpeed(const Target& target);
// Shared memory that a block can have, by the device's compute capability (NVIDIA, CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability").
std::int64_t sharedBytesOfBlock(const Target& target);
inline constexpr std::int64_t kSharedAlignment = 128;  // bytes, all banks: each buffer begins at a multiple

// How slices come into shared memory: each thread's asynchronous copies (cp.async), or what it computes; or boxes of the operands' tensors, by
// the copy engine (the Tensor Memory Accelerator of sm_90), for wgmma alone.
enum class SliceCopies : std::uint8_t { Async, Tensors };

// A contraction in tiles of shared memory: blockM x blockN results a block, threadM x threadN of them a thread, the reduced points in
// slices of blockK of which `stages` are under way. With a matrix unit a warp has 8 threadM x 4 threadN neighbours; with that of four warps these
// have 32 threadM rows of the block's, 64 at once, and all its columns.
struct GpuContractionKnobs {
  int blockM = 64, blockN = 64, blockK = 16;
  int threadM = 4, threadN = 4;
  int stages = 2;
  int split = 1;  // parts of the reduced points, put together by a second kernel
  MatrixUnit matrix = MatrixUnit::Fma;
  bool rounded = false;  // operands in f32 are rounded to tf32
  int fragments = 0;     // of 16 points of the left operand that a warp holds at once; 0: all of its own
  // Levels. 2: slices on their way to shared memory, multiplied from there. 3: the next step's fragments on their way to registers, too;
  // where four warps multiply, the next slice's products begun before those of one are there.
  int pipeline = 2;
  SliceCopies copies = SliceCopies::Async;
  int threads() const { return (blockM / threadM) * (blockN / threadN); }
};

Function lowerGpuContraction(const GroupView& group, const ContractionView& view, const GpuContractionKnobs& knobs,
                             const Target& target);

// Points of the axes of each class: batch, left, right, inner.
struct ContractionExtents {
  double batch = 1, left = 1, right = 1, inner = 1;
};
ContractionExtents extentsOf(const ContractionView& view);

// Of one multiprocessor: fused multiplications a cycle, of f32 and of f16 with f32 sums (tf32 takes twice as long).
struct GpuProcessor {
  double f32 = 128, f16 = 1024;
  double sharedBytes = 98304, threads = 2048;
};

// The analytic model of contractions of one form on one device.
class GpuContractionModel {
 public:
  GpuContractionModel(const GroupView& group, const ContractionView& view, const Target& target);
  std::string refuse(const GpuContractionKnobs& knobs) const;  // empty: it is legal
  double seconds(const GpuContractionKnobs& knobs) const;
  const ContractionExtents& extents() const { return m_extents; }
  const std::vector<MatrixUnit>& units() const { return m_units; }
  bool couldRound() const { return m_couldRound; }

 private:
  // Cycles of a block's slice on its multiprocessor.
  struct SliceCost {
    double busy = 0;       // of the busiest unit
    double alone = 0;      // of one warp that waits for nobody
    double registers = 0;  // of a thread
  };
  struct Use {
    MatrixStep step;
    bool leftPlain = false, rightPlain = false;  // copied as they are
  };
  const Use& useOf(const GpuContractionKnobs& k) const { return m_uses[static_cast<std::size_t>(k.matrix)]; }
  SliceCost slice(const GpuContractionKnobs& knobs) const;
  std::string refuseTensors(const GpuContractionKnobs& knobs) const;

  ContractionExtents m_extents;
  std::vector<MatrixUnit> m_units;
  bool m_couldRound;
  std::int64_t m_sharedBytes;
  std::array<Use, kMatrixUnits.size()> m_uses;
  TensorOperand m_left, m_right;
  GpuProcessor m_processor;
  double m_bytes, m_bandwidth, m_clock, m_launch, m_processors;
};

std::unique_ptr<KnobSpace> gpuContractionSpace(const Program& program, const GroupView& group, const Target& target);
std::unique_ptr<KnobSpace> gpuNestSpace(const Program& program, const GroupView& group, const Target& target);

}  // namespace nf::loop
