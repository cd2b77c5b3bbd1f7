// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/fragment.h"
#include "core/schedule/gpu_contraction.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::int64_t kPad = 4;        // elements: threads that write a column of a slice meet in fewer banks
constexpr std::int64_t kMostCopy = 16;  // bytes that a thread copies at once
constexpr std::int64_t kLeastAsync = 4;
constexpr std::int64_t kMostComputed = 16;  // numbers that a thread computes in unrolled loops
constexpr std::int64_t kBankRow = 8;        // 16-byte parts of a row of all 32 banks

// 1 where the side's first load moves by one element along the fastest of the axes.
bool contiguous(const std::vector<double>& strides, const std::vector<std::size_t>& axes) {
  return !axes.empty() && strides[axes.back()] == 1;
}

bool multiple(const IndexExpr& e, std::int64_t of) {
  return e.constant() % of == 0 &&
         std::all_of(e.terms().begin(), e.terms().end(), [&](const IndexTerm& t) { return t.coefficient % of == 0; });
}

}  // namespace

void GpuContraction::open(Side& side, AxisClass c) {
  side.isLeft = c == AxisClass::Left;
  side.axes = axesOf(c, side.points);
  side.factors = side.isLeft ? &m_view.left : &m_view.right;
  side.read = side.isLeft ? m_view.leftRead : m_view.rightRead;
  side.plain = (side.isLeft ? m_view.leftStored : m_view.rightStored) && m_p[m_p[m_p[side.read].access].tensor].type == m_step.type;
  side.block = side.isLeft ? m_knobs.blockM : m_knobs.blockN;
  const auto& strides = side.isLeft ? m_view.leftStride : m_view.rightStride;
  side.innerFast = contiguous(strides, m_inner) && !contiguous(strides, side.axes);
  side.innerRows = matrices() && side.innerFast;
  if (warpgroups()) {
    side.shared = m_f.addShared(side.isLeft ? "left" : "right", m_step.type, m_knobs.stages * m_knobs.blockK * side.block);
    const bool rounded = m_step.type == DType::F32;
    m_f.buffers[side.shared.value].rounded = rounded;
    if (tensors()) return openTensor(side);
    // The units on tf32 turn nothing, and want numbers that are tf32 already: they go through registers.
    side.innerRows = side.innerRows || rounded;
    side.plain = side.plain && !rounded;
    return;
  }
  side.row = side.innerRows ? m_knobs.blockK : side.block + (side.innerFast ? kPad : 0);
  const std::int64_t rows = side.innerRows ? side.block : m_knobs.blockK;
  side.shared = m_f.addShared(side.isLeft ? "left" : "right", m_step.type, m_knobs.stages * rows * side.row);
}

// For matrices the 16-byte parts of a row are turned, so that the same part of eight neighbouring rows lies in all banks: by one a row
// where a row is as long as the banks or longer, else by one every so many rows as the banks hold. Threads that take single numbers of
// four rows, two parts of each, want it turned by two.
IndexExpr GpuContraction::place(const Side& side, const IndexExpr& buffer, const IndexExpr& inSlice, const IndexExpr& own) const {
  if (warpgroups()) return placeSwizzled(side, buffer, inSlice, own);
  const IndexExpr &row = side.innerRows ? own : inSlice, &column = side.innerRows ? inSlice : own;
  const std::int64_t size = (side.innerRows ? side.block : m_knobs.blockK) * side.row;
  if (!matrices()) return simple(size * buffer + side.row * row + column);
  const std::int64_t each = matrixColumns(m_step.type), parts = side.row / each;
  const std::int64_t turns = m_step.type == DType::F32 && !side.innerRows ? 2 : 1;
  const IndexExpr turn = turns * (parts < kBankRow ? floorDiv(row, kBankRow / parts) : row);
  const IndexExpr part = simple(floorMod(floorDiv(column, each) + turn, parts));
  return simple(size * buffer + side.row * row + each * part + floorMod(column, each));
}

// What the warpgroups' operands are (fragment.h): rows of 128 bytes, the parts of row r in order of their number exclusive-or r % 8.
IndexExpr GpuContraction::placeSwizzled(const Side& side, const IndexExpr& buffer, const IndexExpr& inSlice,
                                        const IndexExpr& own) const {
  const std::int64_t columns = swizzledColumns(m_step.type), each = matrixColumns(m_step.type);
  const IndexExpr row = side.innerRows ? own : simple(m_knobs.blockK * floorDiv(own, columns) + inSlice);
  const IndexExpr column = side.innerRows ? inSlice : simple(floorMod(own, columns));
  const IndexExpr part = simple(floorDiv(column, each));
  IndexExpr turned(0);
  for (std::int64_t bit = 1; bit < kBankRow; bit *= 2)
    turned = turned + bit * floorMod(floorDiv(part, bit) + floorDiv(row, bit), 2);
  return simple(m_knobs.blockK * side.block * buffer + columns * row + each * turned + floorMod(column, each));
}

// Starts the copies of one slice into one of the buffers.
GpuContraction::Body GpuContraction::bring(const IndexExpr& slice, const IndexExpr& buffer, ValueId there) {
  if (tensors()) return bringTensors(slice, buffer, there);
  Body all;
  for (const Side* side : {&m_left, &m_right}) append(all, bringSide(*side, slice, buffer));
  return under(there, std::move(all));
}

GpuContraction::Body GpuContraction::bringSide(const Side& side, const IndexExpr& slice, const IndexExpr& buffer) {
  const std::int64_t bytes = bytesOf(m_step.type);
  const std::int64_t block = side.innerFast ? m_knobs.blockK : side.block, points = side.innerFast ? m_steps : side.points;
  // A single number is copied where it is large enough, else it goes through a register; then so may neighbours, each by itself.
  const auto widest = [&](bool copied) -> std::optional<Body> {
    const std::int64_t least = copied ? std::max<std::int64_t>(1, kLeastAsync / bytes) : 1;
    for (std::int64_t width = side.innerFast == side.innerRows ? kMostCopy / bytes : 1; width >= least; width /= 2)
      if (block % width == 0 && points % width == 0)
        if (auto body = bringElements(side, slice, buffer, width, copied)) return body;
    return std::nullopt;
  };
  if (side.plain)
    if (auto body = widest(true)) return std::move(*body);
  return *widest(false);
}

// `width` neighbours in a row at once. nullopt: they are not neighbours in memory.
std::optional<GpuContraction::Body> GpuContraction::bringElements(const Side& side, const IndexExpr& slice, const IndexExpr& buffer,
                                                                  std::int64_t width, bool copied) {
  const std::int64_t columns = (side.innerFast ? m_knobs.blockK : side.block) / width;
  const std::int64_t total = side.block * m_knobs.blockK / width, rounds = ceilDiv(total, m_threads);
  IndexExpr number = m_thread;
  VarId round;
  if (rounds > 1) {
    // What is computed may be long.
    const bool unrolled = copied || rounds * width <= kMostComputed;
    round = m_f.addVar("e", rounds, unrolled ? LoopKind::Unrolled : LoopKind::Serial);
    number = m_threads * at(round) + number;
  }
  const IndexExpr along = simple(width * floorMod(number, columns)), across = simple(floorDiv(number, columns));
  const IndexExpr &inSlice = side.innerFast ? along : across, &own = side.innerFast ? across : along;
  const IndexExpr step = m_knobs.blockK * (m_each * m_partIndex + slice) + inSlice, point = begin(side) + own;
  const auto axesAt = [&](const IndexExpr& atStep, const IndexExpr& atPoint) {
    std::vector<IndexExpr> merged = m_merged;
    assign(merged, m_inner, atStep);
    assign(merged, side.axes, atPoint);
    return originals(merged);
  };
  const Place to{side.shared, place(side, buffer, inSlice, own), {}};
  ValueId inside = below(step, m_steps, m_each * m_knobs.blockK * m_knobs.split == m_steps);
  inside = m_f.both(inside, below(point, side.points, side.points % side.block == 0));

  Body body;
  if (copied) {
    const std::vector<IndexExpr> axes = axesAt(step, point);
    const auto conditions = peel(m_p, side.factors->front()).conditions;
    for (const ExprId c : conditions) inside = m_f.both(inside, m_body->lower(m_view.op, c, axes));
    const Place from = m_f[m_body->lower(m_view.op, side.read, axes)].place;
    // Another point than the first may be under another condition or elsewhere.
    if (width > 1 && !conditions.empty()) return std::nullopt;
    for (std::int64_t w = 0; w < width && width > 1; ++w) {
      const IndexExpr next(w);
      const ValueId read =
          m_body->lower(m_view.op, side.read, side.innerFast ? axesAt(step + next, point) : axesAt(step, point + next));
      if (!(m_f[read].place.offset == from.offset + next) || !multiple(from.offset, width)) return std::nullopt;
    }
    body.push_back(m_f.asyncCopy(to, from, width, origin()));
  } else {
    const VarId v = m_f.addVar("v", width, LoopKind::Vector);
    const IndexExpr lane = width > 1 ? at(v) : IndexExpr(0);
    const IndexExpr ownStep = side.innerFast ? lane : IndexExpr(0), ownPoint = side.innerFast ? IndexExpr(0) : lane;
    const std::vector<IndexExpr> axes = axesAt(step + ownStep, point + ownPoint);
    ValueId value;
    for (const ExprId f : *side.factors) {
      const ValueId one = m_body->convert(m_body->lower(m_view.op, f, axes), DType::F32);
      value = value.valid() ? m_f.apply(ScalarOp::Mul, DType::F32, {value, one, {}}) : one;
    }
    const Place mine{side.shared, place(side, buffer, simple(inSlice + ownStep), simple(own + ownPoint)), {}};
    body.push_back(m_f.store(mine, value, origin()));
    if (width > 1) body = {loop(v, std::move(body))};
  }
  Body otherwise;
  if (inside.valid())
    for (std::int64_t w = 0; w < width; ++w)
      otherwise.push_back(m_f.store({side.shared, to.offset + IndexExpr(w), {}}, m_f.constant(0, DType::F32), origin()));
  body = under(inside, std::move(body), std::move(otherwise));
  if (total % m_threads != 0) body = under(m_f.ge0(IndexExpr(total - 1) - number), std::move(body));
  if (round.valid()) body = {loop(round, std::move(body))};
  m_body->forget();
  return body;
}

}  // namespace nf::loop
