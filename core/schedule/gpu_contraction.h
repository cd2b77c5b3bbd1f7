// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "core/schedule/body.h"
#include "core/schedule/gpu.h"
#include "core/schedule/tensor_tile.h"

namespace nf::loop {

// Lowers a contraction for a GPU. gpu_contraction.cpp: the grid, the pipeline over slices, results and parts; gpu_slices.cpp: how slices
// come into shared memory, and gpu_tensor_copies.cpp, where the copy engine brings them; gpu_tiles.cpp: what a thread or a warp makes of a slice.
class GpuContraction {
 public:
  GpuContraction(const GroupView& group, const ContractionView& view, const GpuContractionKnobs& knobs)
      : m_p(*group.program), m_group(group), m_view(view), m_knobs(knobs), m_step(stepOf(knobs.matrix, view)) {}
  Function run();

 private:
  using Body = std::vector<StmtId>;

  // One operand, and how its slices come into shared memory.
  struct Side {
    bool isLeft = false;
    const std::vector<ExprId>* factors = nullptr;
    std::vector<std::size_t> axes;  // merged axes of its own: left's or right's
    std::int64_t points = 1;        // of them
    std::int64_t block = 1;         // of them in a slice
    bool innerFast = false;         // neighbouring threads take neighbours along the reduced axes
    bool innerRows = false;         // so do neighbours in shared memory
    std::int64_t row = 1;           // elements of a row in shared memory
    bool plain = false;             // a read of memory as it is, under conditions at most
    ExprId read;
    BufferId shared, part;  // part: a thread's or warp's share of the slice
    VarId tile;             // of the grid
    IndexExpr mine;         // number of the thread, or of the warp, along its axes
    TensorTile box;         // what the copy engine brings
    MapId map;
    std::array<std::vector<std::int64_t>, kTilePoints.size()> radix;  // of the points' numbers, whose digits are its coordinates
  };

  // ------------------------------------------------------------ statements
  bool warpgroups() const { return m_knobs.matrix == MatrixUnit::Wgmma; }
  bool tensors() const { return m_knobs.copies == SliceCopies::Tensors; }
  bool matrices() const { return m_knobs.matrix != MatrixUnit::Fma; }
  OriginId origin() const { return m_p[m_view.op].origin; }
  const NestAxis& axis(std::size_t a) const { return m_view.nest.axes[a]; }
  std::vector<std::size_t> axesOf(AxisClass c, std::int64_t& points) const;
  void assign(std::vector<IndexExpr>& merged, const std::vector<std::size_t>& which, const IndexExpr& number) const;
  std::vector<IndexExpr> originals(const std::vector<IndexExpr>& merged) const;
  Body under(ValueId condition, Body body, Body otherwise = {});
  ValueId below(const IndexExpr& e, std::int64_t extent, bool always);
  StmtId loop(VarId v, Body body) { return m_f.forEach(v, std::move(body), origin()); }
  static void append(Body& all, Body more) { all.insert(all.end(), more.begin(), more.end()); }
  IndexExpr simple(const IndexExpr& e) const { return simplify(e, m_f.ranges()); }

  void kernel();
  Body pipeline();
  Body pipelineOfFragments();
  Body pipelineOfWarpgroups();
  void bringFirst(Body& all, std::int64_t slices);
  void land(Body& body, const IndexExpr& slice, std::int64_t inFlight);  // waits for a slice, and for the other threads
  void commit(Body& body);                                               // of the copies of a slice
  Body results(const std::vector<IndexExpr>& merged, const Place& sum);
  Body storeResults();
  std::int64_t points() const { return m_batches * m_left.points * m_right.points; }
  Body storeParts();
  void together();

  // ------------------------------------------------------------ slices
  void open(Side& side, AxisClass c);
  IndexExpr placeSwizzled(const Side& side, const IndexExpr& buffer, const IndexExpr& inSlice, const IndexExpr& own) const;
  IndexExpr place(const Side& side, const IndexExpr& buffer, const IndexExpr& inSlice, const IndexExpr& own) const;
  Body bring(const IndexExpr& slice, const IndexExpr& buffer, ValueId there);
  void openTensor(Side& side);
  Body beginArrivals();
  Body bringTensors(const IndexExpr& slice, const IndexExpr& buffer, ValueId there);
  Body bringBoxes(const Side& side, const IndexExpr& slice, const IndexExpr& buffer, const Place& arrival);
  Body bringSide(const Side& side, const IndexExpr& slice, const IndexExpr& buffer);
  std::optional<Body> bringElements(const Side& side, const IndexExpr& slice, const IndexExpr& buffer, std::int64_t width,
                                    bool copied);

  // ------------------------------------------------------------ tiles
  // Statements for a result of the thread: its row and column among all results, its place in the tile.
  using Make = std::function<Body(const IndexExpr& row, const IndexExpr& column, const IndexExpr& place)>;
  std::vector<VarId> declareThreads();
  Body zero();
  Body multiply(const IndexExpr& buffer);
  Body multiplyNumbers(const IndexExpr& buffer);
  Body multiplyMatrices(const IndexExpr& buffer);
  Body multiplyWarpgroups(const IndexExpr& buffer);  // begins the products of a slice
  // All steps of a slice but the last, whose fragments are loaded meanwhile.
  Body multiplyAhead(const IndexExpr& buffer);
  // Of the registers, where they hold two steps, the part of one.
  IndexExpr bankOf(const Side& side, const IndexExpr& step) const;
  // Fragment `from` and those behind it, into the registers of a step.
  Body loadMatrices(const Side& side, const IndexExpr& buffer, const IndexExpr& step, const IndexExpr& from);
  Body loadStep(const IndexExpr& buffer, const IndexExpr& step);
  StmtId tiles(const IndexExpr& step, const IndexExpr& first);
  std::int64_t held(const Side& side) const;  // fragments of 16 points in registers at once
  std::int64_t warpPoints(const Side& side) const { return side.isLeft ? 8 * m_knobs.threadM : 4 * m_knobs.threadN; }
  std::int64_t partElements() const;  // of a thread's share of 16 points of a side at one step
  Body overTile(const Make& make);
  IndexExpr begin(const Side& side) const;  // of the block's points

  const Program& m_p;
  const GroupView& m_group;
  const ContractionView& m_view;
  GpuContractionKnobs m_knobs;
  MatrixStep m_step;
  Function m_f;
  BodyLowering* m_body = nullptr;
  std::vector<BufferId> m_buffers, m_targets;
  TensorId m_made;
  std::vector<std::size_t> m_batch, m_inner;
  std::int64_t m_batches = 1, m_steps = 1, m_slices = 1, m_each = 1, m_threads = 1;
  Side m_left, m_right;
  VarId m_part;
  IndexExpr m_partIndex, m_batchIndex, m_thread, m_warp, m_lane;
  std::vector<IndexExpr> m_merged;
  BufferId m_acc, m_parts;
  BufferId m_arrivals;  // of the slices' buffers
};

}  // namespace nf::loop
