// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "core/schedule/nest_builder.h"
#include "core/support/assert.h"

namespace nf::loop {

double identityOf(Reducer reducer, DType type) {
  const double infinity = type == DType::I32 ? 2147483647.0 : std::numeric_limits<double>::infinity();
  switch (reducer) {
    case Reducer::Prod: return 1;
    case Reducer::Max:
    case Reducer::ArgMax: return type == DType::I32 ? -2147483648.0 : -infinity;
    case Reducer::Min:
    case Reducer::ArgMin: return infinity;
    case Reducer::None:
    case Reducer::Sum: return 0;
  }
  return 0;
}

ValueId combine(Function& f, Reducer reducer, ValueId accumulator, ValueId value) {
  const DType type = f[accumulator].type;
  switch (reducer) {
    case Reducer::Sum: {
      const Value& v = f[value];
      if (v.kind == Value::Kind::Apply && v.op == ScalarOp::Mul && (type == DType::F32 || type == DType::F64) &&
          f[v.operands[0]].type == type && f[v.operands[1]].type == type)
        return f.addProduct(value, accumulator, v.origin);
      return f.apply(ScalarOp::Add, type, {accumulator, value, {}}, v.origin);
    }
    case Reducer::Prod: return f.apply(ScalarOp::Mul, type, {accumulator, value, {}}, f[value].origin);
    // max(x, y) keeps a NaN of either: the first one stays.
    case Reducer::Max: return f.apply(ScalarOp::Max, type, {value, accumulator, {}}, f[value].origin);
    case Reducer::Min: return f.apply(ScalarOp::Min, type, {value, accumulator, {}}, f[value].origin);
    case Reducer::None:
    case Reducer::ArgMax:
    case Reducer::ArgMin: break;
  }
  NF_ASSERT(false);
  return {};
}

// The steps of a part of a long loop: its largest divisor up to the root. 1: it stays whole.
std::int64_t NestBuilder::partOf(std::int64_t extent) const {
  if (extent < kLongSum || m_p[m_plan.front()].reducer != Reducer::Sum) return 1;
  auto steps = static_cast<std::int64_t>(std::sqrt(static_cast<double>(extent)));
  while (extent % steps != 0) --steps;
  return steps >= 4 ? steps : 1;
}

// Outermost first: those of the reduced axes, then of the vectors where those are along one.
std::vector<VarId> NestBuilder::reducedSequence(bool rows) const {
  std::vector<VarId> loops = m_reduced;
  for (const VarId v : {m_blockPart, m_block})
    if (rows && v.valid()) loops.push_back(v);
  return loops;
}

// How many of the loops stand outside a part; 0: the sum is short.
std::size_t NestBuilder::loopsOutsideParts(const std::vector<VarId>& loops) const {
  double all = 1, own = 1;
  for (const VarId v : loops) all *= static_cast<double>(m_f[v].extent);
  for (const VarId v : m_reduced) own *= static_cast<double>(m_f[v].extent);
  if (own < kLongSum && all < kLongRows) return 0;
  std::size_t best = 0;
  double outside = 1, shortest = all;
  for (std::size_t k = 1; k < loops.size(); ++k) {
    outside *= static_cast<double>(m_f[loops[k - 1]].extent);
    if (outside + all / outside >= shortest) continue;
    best = k;
    shortest = outside + all / outside;
  }
  return best;
}

std::vector<StmtId> NestBuilder::reduction() {
  const bool rows = m_lane.valid() && axis(static_cast<std::size_t>(m_knobs.vectorAxis)).reduced;
  const bool fold = rows && m_tile.valid();
  IndexExpr lane = m_lane.valid() ? at(m_lane) : IndexExpr(0);
  if (m_tile.valid()) lane = static_cast<std::int64_t>(m_knobs.lanes) * at(m_tile) + lane;
  // Where lanes of neighbours are folded, a last vector holds a result a lane.
  std::vector<IndexExpr> resultAxes = m_axes;
  VarId resultLane;
  if (fold) {
    resultLane = m_f.addVar("f", m_knobs.lanes, LoopKind::Vector);
    std::vector<IndexExpr> merged = m_merged;
    merged[static_cast<std::size_t>(m_knobs.tileAxis)] = m_tileBase + at(resultLane);
    resultAxes = originals(merged);
  }
  std::vector<Accumulator> accumulators;
  std::vector<StmtId> start, step, result;
  const std::vector<VarId> loops = reducedSequence(rows);
  m_partLoops = loopsOutsideParts(loops);
  m_partStart.clear();
  m_partEnd.clear();
  for (const OperatorId id : m_plan) {
    const Operator& op = m_p[id];
    const ValueId value = termOf(id);
    DType type = m_f[value].type;
    if (type == DType::Bool) type = DType::F32;
    Accumulator acc;
    acc.type = type;
    acc.value = m_f.addLocal("acc" + std::to_string(accumulators.size()), type,
                             static_cast<std::int64_t>(m_knobs.lanes) * (fold ? m_knobs.lanes : m_knobs.tile));
    const Place place = local(acc.value, lane);
    start.push_back(m_f.store(place, m_f.constant(identityOf(op.reducer, type), type), op.origin));
    const ValueId next = m_body.convert(value, type);
    const ValueId old = m_f.load(place);
    if (isArg(op.reducer)) {
      acc.index = m_f.addLocal("arg" + std::to_string(accumulators.size()), DType::I32, m_knobs.lanes);
      const Place where = local(acc.index, lane);
      start.push_back(m_f.store(where, m_f.constant(0, DType::I32), op.origin));
      ValueId better = m_f.apply(ScalarOp::Lt, DType::Bool, {old, next, {}});
      if (op.reducer == Reducer::ArgMin) better = m_f.apply(ScalarOp::Lt, DType::Bool, {next, old, {}});
      if (type != DType::I32) {
        const ValueId newNan = m_f.apply(ScalarOp::Ne, DType::Bool, {next, next, {}});
        const ValueId oldFine = m_f.apply(ScalarOp::Eq, DType::Bool, {old, old, {}});
        better = m_f.apply(ScalarOp::Or, DType::Bool, {better, m_f.apply(ScalarOp::And, DType::Bool, {newNan, oldFine, {}}), {}});
      }
      const ValueId here = m_f.indexValue(linearReduced(op), DType::I32);
      step.push_back(m_f.store(where, m_f.apply(ScalarOp::Select, DType::I32, {better, here, m_f.load(where)}), op.origin));
      step.push_back(m_f.store(place, m_f.apply(ScalarOp::Select, type, {better, next, old}), op.origin));
    } else if (op.reducer == Reducer::Sum && m_partLoops > 0) {
      const Place part = local(m_f.addLocal("part" + std::to_string(accumulators.size()), type, m_f[acc.value].elements), lane);
      m_partStart.push_back(m_f.store(part, m_f.constant(0, type), op.origin));
      step.push_back(m_f.store(part, combine(m_f, op.reducer, m_f.load(part), next), op.origin));
      m_partEnd.push_back(m_f.store(place, m_f.apply(ScalarOp::Add, type, {old, m_f.load(part), {}}), op.origin));
    } else {
      step.push_back(m_f.store(place, combine(m_f, op.reducer, old, next), op.origin));
    }
    const BufferId from = acc.index.valid() ? acc.index : acc.value;
    const Place out = outputPlace(op, resultAxes);
    const ValueId last = m_f.load(local(from, fold ? at(resultLane) : rows ? IndexExpr(0) : lane));
    result.push_back(m_f.store(out, stored(last, out.buffer), op.origin));
    accumulators.push_back(acc);
  }
  const OriginId origin = m_p[m_plan.front()].origin;
  if (m_tile.valid()) {
    start = {m_f.forEach(m_tile, std::move(start), origin)};
    step = {m_f.forEach(m_tile, std::move(step), origin)};
    for (auto* ends : {&m_partStart, &m_partEnd})
      if (!ends->empty()) *ends = {m_f.forEach(m_tile, std::move(*ends), origin)};
    if (!fold) result = {m_f.forEach(m_tile, std::move(result), origin)};
  }
  if (rows) {
    std::vector<StmtId> all = lanes(std::move(start), false, origin);
    std::vector<StmtId> inner = whereTermsAre(overLanes(std::move(step), origin), origin);
    append(all, reducedLoops(std::move(inner), loops, origin));
    if (fold) {
      append(all, foldRows(accumulators, origin));
      if (m_knobs.tile < m_knobs.lanes)
        result = {m_f.when(m_f.ge0(IndexExpr(m_knobs.tile - 1) - at(resultLane)), std::move(result), {}, origin)};
      append(all, {m_f.forEach(resultLane, std::move(result), origin)});
      return all;
    }
    append(all, tree(accumulators, origin));
    append(all, std::move(result));
    return all;
  }
  const auto column = [&](bool masked) {
    std::vector<StmtId> all = lanes(start, false, origin);
    append(all, reducedLoops(whereTermsAre(lanes(step, masked, origin), origin), loops, origin));
    append(all, lanes(result, masked, origin));
    return all;
  };
  if (!tail()) return column(false);
  if (!m_block.valid()) return column(true);
  return {m_f.when(m_f.ge0(IndexExpr(m_full - 1) - m_blockAt), column(false), column(true), origin)};
}

std::vector<StmtId> NestBuilder::lanes(std::vector<StmtId> body, bool masked, OriginId origin) {
  if (!m_lane.valid()) return body;
  if (masked) body = {m_f.when(inside(), std::move(body), {}, origin)};
  return {m_f.forEach(m_lane, std::move(body), origin)};
}

std::vector<StmtId> NestBuilder::reducedLoops(std::vector<StmtId> inner, const std::vector<VarId>& loops, OriginId origin) {
  if (m_class && m_class->empty) return {};
  double trips = 1;
  for (auto it = loops.rbegin(); it != loops.rend(); ++it) {
    Var& v = m_f.vars[it->value];
    const bool vectors = *it == m_block || *it == m_blockPart;
    if (!vectors) trips *= static_cast<double>(v.extent);
    if (!vectors && trips * m_knobs.tile <= (m_knobs.tile > 1 ? 32 : 9) && m_plan.size() == 1 && m_view.work < 12)
      v.kind = LoopKind::Unrolled;
    inner = {m_f.forEach(*it, std::move(inner), origin)};
    if (m_partStart.empty() || static_cast<std::size_t>(loops.rend() - it) != m_partLoops + 1) continue;
    std::vector<StmtId> part = lanes(m_partStart, false, origin);
    append(part, std::move(inner));
    append(part, lanes(m_partEnd, false, origin));
    inner = std::move(part);
  }
  return inner;
}

// Row-major number of a reduced point.
IndexExpr NestBuilder::linearReduced(const Operator& op) {
  IndexExpr linear;
  for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) linear = op.axes[k].extent * linear + m_axes[k];
  return simplify(linear, m_f.ranges());
}

// Vectors that stand below each other, folded pair by pair: half of the lanes of one beside half of those of the next, until
// lane l of one vector is the sum of vector l.
//   a0 a1 a2 a3 | b0 b1 b2 b3   ->   a0+a2 a1+a3 b0+b2 b1+b3   ->   ..
std::vector<StmtId> NestBuilder::foldRows(std::vector<Accumulator>& accumulators, OriginId origin) {
  const std::int64_t lanes = m_knobs.lanes;
  std::vector<StmtId> all;
  for (std::size_t k = 0; k < accumulators.size(); ++k) {
    const Reducer reducer = m_p[m_plan[k]].reducer;
    BufferId from = accumulators[k].value;
    const DType type = accumulators[k].type;
    if (m_knobs.tile < lanes) {
      const VarId lane = m_f.addVar("w", lanes, LoopKind::Vector);
      const VarId row = m_f.addVar("u", lanes - m_knobs.tile, LoopKind::Unrolled);
      const StmtId fill = m_f.store(local(from, lanes * (at(row) + IndexExpr(m_knobs.tile)) + at(lane)),
                                    m_f.constant(identityOf(reducer, type), type), origin);
      all.push_back(m_f.forEach(lane, {m_f.forEach(row, {fill}, origin)}, origin));
    }
    for (std::int64_t half = lanes / 2; half >= 1; half /= 2) {
      const std::int64_t rows = half;  // as many vectors as a segment has lanes
      const BufferId into = half == 1 ? accumulators[k].value : m_f.addLocal("fold", type, rows * lanes);
      const VarId lane = m_f.addVar("w", lanes, LoopKind::Vector);
      const VarId row = m_f.addVar("u", rows, LoopKind::Unrolled);
      const IndexExpr within = floorMod(at(lane), lanes / 2);
      const IndexExpr first =
          lanes * (2 * at(row) + floorDiv(at(lane), lanes / 2)) + 2 * half * floorDiv(within, half) + floorMod(within, half);
      const ValueId a = m_f.load(local(from, first));
      const ValueId b = m_f.load(local(from, first + IndexExpr(half)));
      const StmtId store = m_f.store(local(into, lanes * at(row) + at(lane)), combine(m_f, reducer, a, b), origin);
      all.push_back(m_f.forEach(lane, {m_f.forEach(row, {store}, origin)}, origin));
      from = into;
    }
  }
  return all;
}

// Halves the lanes until one is left: a fixed tree.
std::vector<StmtId> NestBuilder::tree(const std::vector<Accumulator>& accumulators, OriginId origin) {
  std::vector<StmtId> all;
  for (std::int64_t width = m_knobs.lanes / 2; width >= 1; width /= 2) {
    const VarId lane = m_f.addVar("w", width, LoopKind::Vector);
    std::vector<StmtId> body;
    for (std::size_t k = 0; k < accumulators.size(); ++k) {
      const Place to = local(accumulators[k].value, at(lane));
      const ValueId a = m_f.load(to);
      const ValueId b = m_f.load(local(accumulators[k].value, at(lane) + IndexExpr(width)));
      body.push_back(m_f.store(to, combine(m_f, m_p[m_plan[k]].reducer, a, b), origin));
    }
    all.push_back(m_f.forEach(lane, std::move(body), origin));
  }
  return all;
}

}  // namespace nf::loop
