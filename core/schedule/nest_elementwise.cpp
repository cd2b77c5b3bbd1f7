// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "core/schedule/nest_builder.h"

namespace nf::loop {

std::vector<StmtId> NestBuilder::elementwise() {
  std::vector<StmtId> body;
  for (const OperatorId id : m_plan) {
    const Operator& op = m_p[id];
    const ValueId value = m_body.lower(id, op.body, m_axes);
    const Place place = outputPlace(op);
    body.push_back(m_f.store(place, stored(value, place.buffer), op.origin));
  }
  const OriginId origin = m_p[m_plan.front()].origin;
  if (!m_tile.valid()) return overLanes(std::move(body), origin);
  return transposed(std::move(body), origin);
}

// A block of lanes by as many neighbours along the tile axis. Reads that are contiguous along the tile axis come in as vectors of
// it and are turned, so that the stores are contiguous along the lanes.
std::vector<StmtId> NestBuilder::transposed(std::vector<StmtId> body, OriginId origin) {
  const std::int64_t lanes = m_knobs.lanes;
  const NestAxis& other = axis(static_cast<std::size_t>(m_knobs.tileAxis));
  const bool otherTail = other.extent % lanes != 0;
  std::vector<StmtId> all;
  std::map<ValueId, ValueId> turned;
  const auto turn = [&](ValueId id) {
    const Value load = m_f[id];
    BufferId block = m_f.addLocal("block", arithmeticType(m_f[load.place.buffer].type), lanes * lanes);
    const VarId row = m_f.addVar("u", lanes, LoopKind::Unrolled), lane = m_f.addVar("w", lanes, LoopKind::Vector);
    Place from = load.place;
    from.offset = simplify(substitute(from.offset,
                                      [&](IndexVar v) -> std::optional<IndexExpr> {
                                        if (v == m_lane.value) return at(row);
                                        if (v == m_tile.value) return at(lane);
                                        return std::nullopt;
                                      }),
                           m_f.ranges());
    // Rows past the end of the lanes and lanes past the end of the tile are not read.
    ValueId guard;
    if (tail()) {
      IndexExpr index = at(row);
      if (m_block.valid()) index = lanes * m_blockAt + index;
      guard = m_f.both(guard, m_f.ge0(IndexExpr(m_laneExtent - 1) - index));
    }
    if (otherTail) guard = m_f.both(guard, m_f.ge0(IndexExpr(other.extent - 1) - m_tileBase - at(lane)));
    const ValueId read = m_f.load(std::move(from), guard, load.origin);
    const StmtId store = m_f.store(local(block, lanes * at(row) + at(lane)), read, origin);
    all.push_back(m_f.forEach(lane, {m_f.forEach(row, {store}, origin)}, origin));
    return m_f.load(local(transposeBlock(block, all, origin), lanes * at(m_tile) + at(m_lane)), {}, load.origin);
  };
  for (const StmtId id : body) {
    const ValueId root = m_f[id].value;
    for (const ValueId v : valuesOf(m_f, m_f[id])) {
      if (turned.contains(v)) continue;
      Value value = m_f[v];
      const bool plain = value.kind == Value::Kind::Load && !value.guard.valid() && value.place.data.empty();
      if (plain && transposable(value.place.offset, m_lane.value, m_tile.value)) {
        turned.emplace(v, turn(v));
        continue;
      }
      bool changed = false;
      const auto replace = [&](ValueId& operand) {
        if (!operand.valid()) return;
        changed = changed || turned.at(operand) != operand;
        operand = turned.at(operand);
      };
      for (ValueId& operand : value.operands) replace(operand);
      replace(value.guard);
      for (DataIndex& d : value.place.data) replace(d.value);
      if (changed) m_f.values.push_back(std::move(value));
      turned.emplace(v, changed ? ValueId(m_f.values.size() - 1) : v);
    }
    m_f[id].value = turned.at(root);
  }
  if (otherTail) body = {m_f.when(m_f.ge0(IndexExpr(other.extent - 1) - m_tileBase - at(m_tile)), std::move(body), {}, origin)};
  append(all, overLanes({m_f.forEach(m_tile, std::move(body), origin)}, origin));
  return all;
}

// lanes x lanes elements, turned in place of a network: step by step row bits and lane bits change places.
BufferId NestBuilder::transposeBlock(BufferId from, std::vector<StmtId>& all, OriginId origin) {
  const std::int64_t lanes = m_knobs.lanes;
  for (std::int64_t bit = 1; bit < lanes; bit *= 2) {
    const BufferId into = m_f.addLocal("turned", m_f[from].type, lanes * lanes);
    const VarId row = m_f.addVar("u", lanes, LoopKind::Unrolled), lane = m_f.addVar("w", lanes, LoopKind::Vector);
    const IndexExpr rowBit = floorMod(floorDiv(at(row), bit), 2), laneBit = floorMod(floorDiv(at(lane), bit), 2);
    const IndexExpr place = lanes * (at(row) + bit * (laneBit - rowBit)) + at(lane) + bit * (rowBit - laneBit);
    const StmtId store = m_f.store(local(into, lanes * at(row) + at(lane)), m_f.load(local(from, place)), origin);
    all.push_back(m_f.forEach(lane, {m_f.forEach(row, {store}, origin)}, origin));
    from = into;
  }
  return from;
}

}  // namespace nf::loop
