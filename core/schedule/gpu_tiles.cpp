// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/fragment.h"
#include "core/schedule/gpu_contraction.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::int64_t kWarpgroupRows = 64;  // of a tile
constexpr std::int64_t kFragment = 16;       // points of a side that are loaded together

// Of a thread's results along one side: `width` neighbours, then the next ones as far away as all threads' together.
std::int64_t widthOf(std::int64_t mine) { return std::min<std::int64_t>(mine, 4); }

}  // namespace

// Threads along both sides, or warps along both sides and the threads of one.
std::vector<VarId> GpuContraction::declareThreads() {
  m_threads = m_knobs.threads();
  m_acc = m_f.addLocal("acc", DType::F32, m_knobs.threadM * m_knobs.threadN);
  if (!matrices()) {
    const std::int64_t across = m_knobs.blockN / m_knobs.threadN;
    const VarId tm = m_f.addVar("tm", m_threads / across, LoopKind::Thread), tn = m_f.addVar("tn", across, LoopKind::Thread);
    m_left.mine = at(tm);
    m_right.mine = at(tn);
    m_thread = across * m_left.mine + m_right.mine;
    m_left.part = m_f.addLocal("a", DType::F32, m_knobs.threadM);
    m_right.part = m_f.addLocal("b", DType::F32, m_knobs.threadN);
    return {tm, tn};
  }
  if (warpgroups()) {
    const std::int64_t groups = m_threads / kWarpgroupThreads;
    const VarId group = m_f.addVar("wg", groups, LoopKind::Thread), warp = m_f.addVar("warp", 4, LoopKind::Thread);
    const VarId lane = m_f.addVar("lane", kWarp, LoopKind::Thread);
    m_left.mine = groups > 1 ? at(group) : IndexExpr(0);
    m_warp = at(warp);
    m_lane = at(lane);
    m_thread = kWarpgroupThreads * m_left.mine + kWarp * m_warp + m_lane;
    return {group, warp, lane};
  }
  const std::int64_t down = m_knobs.blockM / warpPoints(m_left), across = m_knobs.blockN / warpPoints(m_right);
  const VarId wm = m_f.addVar("wm", down, LoopKind::Thread), wn = m_f.addVar("wn", across, LoopKind::Thread);
  const VarId lane = m_f.addVar("lane", kWarp, LoopKind::Thread);
  m_left.mine = down > 1 ? at(wm) : IndexExpr(0);
  m_right.mine = across > 1 ? at(wn) : IndexExpr(0);
  m_lane = at(lane);
  m_thread = kWarp * (across * m_left.mine + m_right.mine) + m_lane;
  const std::int64_t steps = m_knobs.pipeline > 2 ? 2 : 1;
  m_left.part = m_f.addFragment("a", m_step.type, steps * held(m_left) * partElements());
  m_right.part = m_f.addFragment("b", m_step.type, steps * held(m_right) * partElements());
  return {wm, wn, lane};
}

std::int64_t GpuContraction::held(const Side& side) const {
  return side.isLeft && m_knobs.fragments > 0 ? m_knobs.fragments : warpPoints(side) / kFragment;
}

IndexExpr GpuContraction::bankOf(const Side& side, const IndexExpr& step) const {
  return m_knobs.pipeline > 2 ? simple(held(side) * partElements() * floorMod(step, 2)) : IndexExpr(0);
}

std::int64_t GpuContraction::partElements() const { return kFragment * m_step.points / kWarp; }

IndexExpr GpuContraction::begin(const Side& side) const {
  return side.points > side.block ? side.block * at(side.tile) : IndexExpr(0);
}

GpuContraction::Body GpuContraction::zero() {
  const VarId i = m_f.addVar("i", m_knobs.threadM * m_knobs.threadN, LoopKind::Unrolled);
  return {loop(i, {m_f.store({m_acc, at(i), {}}, m_f.constant(0, DType::F32), origin())})};
}

GpuContraction::Body GpuContraction::multiply(const IndexExpr& buffer) {
  if (!matrices()) return multiplyNumbers(buffer);
  if (!warpgroups()) return multiplyMatrices(buffer);
  Body body = multiplyWarpgroups(buffer);
  body.push_back(m_f.warpgroupWait(0, origin()));
  return body;
}

// A warpgroup's tiles of 64 rows and all columns, of one step each.
GpuContraction::Body GpuContraction::multiplyWarpgroups(const IndexExpr& buffer) {
  const std::int64_t columns = swizzledColumns(m_step.type), rows = m_knobs.threadM / 2;
  const VarId i = m_f.addVar("i", rows, LoopKind::Unrolled);
  const VarId k = m_f.addVar("k", m_knobs.blockK / m_step.points, LoopKind::Unrolled);
  const auto operand = [&](const Side& side, const IndexExpr& own) {
    const IndexExpr step = m_step.points * at(k);
    const IndexExpr from = side.innerRows ? columns * own + step : m_knobs.blockK * own + columns * step;
    return Place{side.shared, simple(m_knobs.blockK * side.block * buffer + from), {}};
  };
  const auto lies = [&](const Side& side) {
    return SwizzledOperand{!side.innerRows, side.innerRows ? 0 : m_knobs.blockK * columns};
  };
  const Place c{m_acc, m_knobs.blockN / 2 * at(i), {}};
  const Place a = operand(m_left, kWarpgroupRows * (rows * m_left.mine + at(i))), b = operand(m_right, IndexExpr(0));
  const StmtId tile =
      m_f.warpgroupTile(c, a, lies(m_left), b, lies(m_right), {kWarpgroupRows, m_knobs.blockN, m_step.points}, origin());
  return {m_f.warpgroupFence(origin()), loop(k, {loop(i, {tile})}), m_f.warpgroupCommit(origin())};
}

GpuContraction::Body GpuContraction::multiplyNumbers(const IndexExpr& buffer) {
  const std::int64_t unrolled = std::min<std::int64_t>(4, m_knobs.blockK);
  const VarId outer = m_f.addVar("k", m_knobs.blockK / unrolled, LoopKind::Serial);
  const VarId inner = m_f.addVar("ku", unrolled, LoopKind::Unrolled);
  const IndexExpr step = simple(unrolled * at(outer) + at(inner));
  const auto take = [&](const Side& side, std::int64_t mine) {
    const std::int64_t width = widthOf(mine), apart = side.block / mine * width;
    const VarId c = m_f.addVar("c", mine / width, LoopKind::Unrolled), v = m_f.addVar("v", width, LoopKind::Vector);
    const IndexExpr own = apart * at(c) + width * side.mine + at(v);
    const IndexExpr from = m_knobs.blockK * side.row * buffer + side.row * step + own;
    const StmtId store = m_f.store({side.part, width * at(c) + at(v), {}}, m_f.load({side.shared, from, {}}), origin());
    return loop(c, {loop(v, {store})});
  };
  Body body{take(m_left, m_knobs.threadM), take(m_right, m_knobs.threadN)};
  const VarId i = m_f.addVar("i", m_knobs.threadM, LoopKind::Unrolled), j = m_f.addVar("j", m_knobs.threadN, LoopKind::Unrolled);
  const Place acc{m_acc, m_knobs.threadN * at(i) + at(j), {}};
  const ValueId sum = m_f.fma(m_f.load({m_left.part, at(i), {}}), m_f.load({m_right.part, at(j), {}}), m_f.load(acc), origin());
  body.push_back(loop(i, {loop(j, {m_f.store(acc, sum, origin())})}));
  return {loop(outer, {loop(inner, std::move(body))})};
}

GpuContraction::Body GpuContraction::multiplyMatrices(const IndexExpr& buffer) {
  const VarId k = m_f.addVar("k", m_knobs.blockK / m_step.points, LoopKind::Unrolled);
  const IndexExpr step = m_knobs.blockK > m_step.points ? at(k) : IndexExpr(0);
  const std::int64_t groups = warpPoints(m_left) / kFragment / held(m_left);
  if (groups == 1) {
    Body body = loadStep(buffer, step);
    body.push_back(tiles(step, IndexExpr(0)));
    return {loop(k, std::move(body))};
  }
  const VarId g = m_f.addVar("g", groups, LoopKind::Unrolled);
  const IndexExpr first = held(m_left) * at(g);
  Body group = loadMatrices(m_left, buffer, step, first);
  group.push_back(tiles(step, first));
  Body body = loadMatrices(m_right, buffer, step, IndexExpr(0));
  body.push_back(loop(g, std::move(group)));
  return {loop(k, std::move(body))};
}

GpuContraction::Body GpuContraction::multiplyAhead(const IndexExpr& buffer) {
  const std::int64_t steps = m_knobs.blockK / m_step.points - 1;
  const VarId k = m_f.addVar("k", steps, LoopKind::Unrolled);
  const IndexExpr step = steps > 1 ? at(k) : IndexExpr(0);
  Body body = loadStep(buffer, step + IndexExpr(1));
  body.push_back(tiles(step, IndexExpr(0)));
  return {loop(k, std::move(body))};
}

GpuContraction::Body GpuContraction::loadStep(const IndexExpr& buffer, const IndexExpr& step) {
  Body body = loadMatrices(m_left, buffer, step, IndexExpr(0));
  append(body, loadMatrices(m_right, buffer, step, IndexExpr(0)));
  return body;
}

// The accumulators of a warp's 16 x 8 tiles one after the other, row by row, four numbers a thread.
StmtId GpuContraction::tiles(const IndexExpr& step, const IndexExpr& first) {
  const std::int64_t rows = held(m_left), columns = warpPoints(m_right) / 8;
  const VarId i = m_f.addVar("i", rows, LoopKind::Unrolled), j = m_f.addVar("j", columns, LoopKind::Unrolled);
  const Place c{m_acc, 4 * columns * (first + at(i)) + 4 * at(j), {}};
  const Place a{m_left.part, bankOf(m_left, step) + partElements() * at(i), {}};
  const Place b{m_right.part, bankOf(m_right, step) + partElements() / 2 * at(j), {}};
  return loop(i, {loop(j, {m_f.matrixTile(c, a, b, {16, 8, m_step.points}, origin())})});
}

// The fragments of the warp's points, 16 at a time: of the left side one of A, of the right side two of B, side by side. A has its
// registers in order of the points' halves first, B in that of the reduced points'.
GpuContraction::Body GpuContraction::loadMatrices(const Side& side, const IndexExpr& buffer, const IndexExpr& step,
                                                  const IndexExpr& from) {
  const std::int64_t half = matrixColumns(m_step.type);  // reduced points of one matrix
  const std::int64_t halves = m_step.points / half, matrices = 2 * halves;
  const VarId f = m_f.addVar("f", held(side), LoopKind::Unrolled);
  const IndexExpr base = warpPoints(side) * side.mine + kFragment * (from + at(f));
  const auto load = [&](const IndexExpr& target, const IndexExpr& inSlice, const IndexExpr& own) {
    return std::pair{Place{side.part, bankOf(side, step) + partElements() * at(f) + target, {}},
                     Place{side.shared, place(side, buffer, simple(m_step.points * step + inSlice), simple(base + own)), {}}};
  };
  if (m_step.type == DType::F32 && !side.innerRows) {
    // Loads of matrices transpose pairs of 2 bytes alone.
    const VarId h = m_f.addVar("h", 2, LoopKind::Unrolled), g = m_f.addVar("g", 2, LoopKind::Unrolled);
    const IndexExpr target = side.isLeft ? at(h) + 2 * at(g) : 2 * at(h) + at(g);
    const auto [into, source] = load(target, half * at(g) + floorMod(m_lane, 4), 8 * at(h) + floorDiv(m_lane, 4));
    return {loop(f, {loop(h, {loop(g, {m_f.store(into, m_f.load(source), origin())})})})};
  }
  // Thread 8*j + r names row r of matrix j.
  const IndexExpr row = floorMod(m_lane, 8), first = floorMod(floorDiv(m_lane, 8), 2), second = floorDiv(m_lane, 16);
  const IndexExpr ownHalf = halves == 1 || side.isLeft ? first : second;
  const IndexExpr stepHalf = halves == 1 ? IndexExpr(0) : side.isLeft ? second : first;
  const bool transposed = !side.innerRows;
  const auto [into, source] =
      load(IndexExpr(0), half * stepHalf + (transposed ? row : IndexExpr(0)), 8 * ownHalf + (transposed ? IndexExpr(0) : row));
  return {loop(f, {m_f.matrixLoad(into, source, matrices, transposed, origin())})};
}

GpuContraction::Body GpuContraction::overTile(const Make& make) {
  // A thread's results: blocks of rows, rows of them, blocks of neighbours.
  std::int64_t rowBlocks, rowsEach, columnBlocks, width;
  IndexExpr row, first, place;
  const auto declare = [&] {
    return std::array{m_f.addVar("ci", rowBlocks, LoopKind::Unrolled), m_f.addVar("vi", rowsEach, LoopKind::Unrolled),
                      m_f.addVar("cj", columnBlocks, LoopKind::Unrolled)};
  };
  std::array<VarId, 3> loops;
  if (matrices()) {
    width = 2;
    rowBlocks = warpPoints(m_left) / 16;
    rowsEach = 2;
    columnBlocks = warpPoints(m_right) / 8;
    loops = declare();
    row = warpgroups() ? kWarpgroupRows * (rowBlocks * m_left.mine + at(loops[0])) + 16 * m_warp
                       : warpPoints(m_left) * m_left.mine + 16 * at(loops[0]);
    row = begin(m_left) + row + 8 * at(loops[1]) + floorDiv(m_lane, 4);
    first = begin(m_right) + warpPoints(m_right) * m_right.mine + 8 * at(loops[2]) + 2 * floorMod(m_lane, 4);
    place = 4 * columnBlocks * at(loops[0]) + 4 * at(loops[2]) + 2 * at(loops[1]);
  } else {
    width = widthOf(m_knobs.threadN);
    rowsEach = widthOf(m_knobs.threadM);
    rowBlocks = m_knobs.threadM / rowsEach;
    columnBlocks = m_knobs.threadN / width;
    loops = declare();
    row = begin(m_left) + m_knobs.blockM / m_knobs.threadM * rowsEach * at(loops[0]) + rowsEach * m_left.mine + at(loops[1]);
    first = begin(m_right) + m_knobs.blockN / m_knobs.threadN * width * at(loops[2]) + width * m_right.mine;
    place = m_knobs.threadN * (rowsEach * at(loops[0]) + at(loops[1])) + width * at(loops[2]);
  }
  const bool whole = m_right.points % width == 0;  // a thread's neighbours are inside or outside together
  const VarId v = m_f.addVar("vj", width, whole ? LoopKind::Vector : LoopKind::Unrolled);
  const IndexExpr column = first + at(v);
  Body body = make(row, column, place + at(v));
  const ValueId rowInside = below(row, m_left.points, m_left.points % m_left.block == 0);
  const ValueId columnInside = below(whole ? first : column, m_right.points, m_right.points % m_right.block == 0);
  if (whole) body = under(columnInside, {loop(v, std::move(body))});
  else body = {loop(v, under(columnInside, std::move(body)))};
  return {loop(loops[0], {loop(loops[1], under(rowInside, {loop(loops[2], std::move(body))}))})};
}

}  // namespace nf::loop
