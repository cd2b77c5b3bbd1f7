// SPDX-License-Identifier: Apache-2.0
// Slices that the copy engine brings, one thread asking for all.
#include "core/schedule/fragment.h"
#include "core/schedule/gpu_contraction.h"
#include "core/support/assert.h"

namespace nf::loop {

void GpuContraction::openTensor(Side& side) {
  const TensorOperand operand = tensorOperand(m_group, m_view, side.isLeft);
  const std::string refused = tensorTile(operand, m_step.type, side.block, m_knobs.blockK, side.box);
  NF_ASSERT(refused.empty());  // the model has seen to it
  for (const TilePoints points : kTilePoints)
    for (const TensorOperand::Axis& a : operand.of(points)) side.radix[static_cast<std::size_t>(points)].push_back(a.extent);
  side.innerRows = side.box.innerRows;
  TensorMap map;
  map.name = side.isLeft ? "left_map" : "right_map";
  map.buffer = m_body->buffers[operand.tensor.value];
  map.offset = operand.offset;
  map.rounded = m_step.type == DType::F32;
  for (const TensorTile::Axis& a : side.box.axes) map.axes.push_back({a.extent, a.stride, a.box});
  side.map = m_f.addMap(std::move(map));
}

GpuContraction::Body GpuContraction::beginArrivals() {
  m_arrivals = m_f.addShared("arrivals", DType::I64, m_knobs.stages);
  const VarId i = m_f.addVar("i", m_knobs.stages, LoopKind::Unrolled);
  Body first{loop(i, {m_f.arrivalInit({m_arrivals, m_knobs.stages > 1 ? at(i) : IndexExpr(0), {}}, origin())}),
             m_f.proxyFence(origin())};
  return {m_f.when(m_f.eq0(m_thread), std::move(first), {}, origin()), m_f.barrier(origin())};
}

GpuContraction::Body GpuContraction::bringTensors(const IndexExpr& slice, const IndexExpr& buffer, ValueId there) {
  const Place arrival{m_arrivals, buffer, {}};
  const std::int64_t bytes = static_cast<std::int64_t>(m_knobs.blockM + m_knobs.blockN) * m_knobs.blockK * bytesOf(m_step.type);
  Body all{m_f.arrivalExpect(arrival, bytes, origin())};
  for (const Side* side : {&m_left, &m_right}) append(all, bringBoxes(*side, slice, buffer, arrival));
  return under(m_f.both(m_f.eq0(m_thread), there), std::move(all));
}

// A box has all of a side's points where its rows lie along the reduced ones, else those of one row's 128 bytes.
GpuContraction::Body GpuContraction::bringBoxes(const Side& side, const IndexExpr& slice, const IndexExpr& buffer,
                                                const Place& arrival) {
  const std::int64_t columns = swizzledColumns(m_step.type), boxes = side.innerRows ? 1 : side.block / columns;
  const VarId box = m_f.addVar("box", boxes, LoopKind::Unrolled);
  const IndexExpr number = boxes > 1 ? at(box) : IndexExpr(0);
  const IndexExpr step = m_knobs.blockK * (m_each * m_partIndex + slice);
  std::array<std::vector<IndexExpr>, kTilePoints.size()> made;
  const auto split = [&](TilePoints points, const IndexExpr& of) {
    const auto k = static_cast<std::size_t>(points);
    if (!side.radix[k].empty()) made[k] = digits(simple(of), side.radix[k], m_f.ranges());
  };
  split(TilePoints::Own, begin(side) + columns * number);
  split(TilePoints::Inner, step);
  split(TilePoints::Batch, m_batchIndex);
  std::vector<IndexExpr> coordinates;
  for (const TensorTile::Axis& a : side.box.axes) coordinates.push_back(simple(made[static_cast<std::size_t>(a.points)][a.digit]));
  const Place to{side.shared, simple(m_knobs.blockK * (side.block * buffer + columns * number)), {}};
  return {loop(box, {m_f.tensorCopy(to, side.map, std::move(coordinates), arrival, origin())})};
}

}  // namespace nf::loop
