// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/nest.h"

#include <algorithm>

#include "core/schedule/nest_builder.h"
#include "core/support/checked.h"

namespace nf::loop {

std::vector<StmtId> NestBuilder::run() {
  const Operator& first = m_p[m_plan.front()];
  const std::vector<BufferId> visible = m_body.buffers;
  hideOwn(m_group, m_plan, m_body);
  m_targets = visible;
  if (first.kind == OperatorKind::Scatter) scatter(first);
  else gather(first);
  m_body.buffers = visible;
  m_body.forget();
  return std::move(m_made);
}

void NestBuilder::gather(const Operator& first) {
  openLoops(first.origin);
  const auto inner = [&] { return first.reducer == Reducer::None ? elementwise() : reduction(); };
  if (!byClasses()) {
    openReduced();
    return close(inner(), first);
  }
  const std::vector<IndexExpr> outside = m_merged;
  std::vector<StmtId> all;
  for (auto one = m_view.classes.rbegin(); one != m_view.classes.rend(); ++one) {  // the last is what else there is
    m_merged = outside;
    ValueId isThis;
    for (const std::size_t a : m_view.classAxes) {
      const std::int64_t phase = one->phase[m_view.members[a].back()];
      isThis = m_f.both(isThis, m_f.eq0(m_merged[a] - IndexExpr(phase)));
      m_merged[a] = IndexExpr(phase);
    }
    openClass(*one);
    std::vector<StmtId> body = peeled(inner, first.origin);
    all = one == m_view.classes.rbegin() ? std::move(body)
                                         : std::vector{m_f.when(isThis, std::move(body), std::move(all), first.origin)};
  }
  m_class = nullptr;
  m_merged = outside;
  setAxes();
  close(std::move(all), first);
}

void NestBuilder::close(std::vector<StmtId> inner, const Operator& op) {
  ValueId exists;
  for (const IndexExpr& e : m_ragged)
    if (!m_lane.valid() || !e.uses(m_lane.value)) exists = m_f.both(exists, m_f.ge0(e));
  if (exists.valid()) inner = {m_f.when(exists, std::move(inner), {}, op.origin)};
  for (auto it = m_open.rbegin(); it != m_open.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
  if (m_rows.empty()) m_f.stages.push_back({op.name, std::move(inner)});
  else m_made = std::move(inner);
}

// Variables of all axes; loops of the output axes are opened, those of reduced ones come later.
void NestBuilder::openLoops(OriginId) {
  std::vector<IndexExpr> merged(m_view.axes.size());
  double tasks = 1;
  std::vector<std::size_t> outer;
  for (std::size_t a = 0; a < m_view.axes.size(); ++a) {
    if (isVector(a)) {
      const std::int64_t blocks = ceilDiv(axis(a).extent, m_knobs.lanes);
      m_full = axis(a).whole / m_knobs.lanes;
      m_whole = axis(a).whole;
      if (blocks > 1) {
        const std::int64_t inner = axis(a).reduced && blocks >= kLongRows ? partOf(blocks) : 1;
        if (inner > 1) m_blockPart = m_f.addVar(axis(a).name + "o", blocks / inner, LoopKind::Serial);
        m_block = m_f.addVar(axis(a).name + "b", inner > 1 ? inner : blocks, LoopKind::Serial);
        m_blockAt = inner > 1 ? inner * at(m_blockPart) + at(m_block) : at(m_block);
      }
      m_lane = m_f.addVar(axis(a).name + "v", m_knobs.lanes, LoopKind::Vector);
      merged[a] = at(m_lane);
      if (m_block.valid()) merged[a] = m_knobs.lanes * m_blockAt + merged[a];
      m_laneIndex = merged[a];
      m_laneExtent = axis(a).extent;
      continue;
    }
    if (axis(a).reduced) continue;
    const VarId v = m_f.addVar(axis(a).name + (isTiled(a) ? "o" : ""), ceilDiv(axis(a).extent, isTiled(a) ? m_knobs.tile : 1),
                               LoopKind::Serial);
    merged[a] = at(v);
    if (isTiled(a)) {
      m_tile = m_f.addVar(axis(a).name + "u", m_knobs.tile, LoopKind::Unrolled);
      m_tileBase = m_knobs.tile * at(v);
      merged[a] = m_tileBase + at(m_tile);
    }
    outer.push_back(v.value);
  }
  if (m_block.valid() && !axis(static_cast<std::size_t>(m_knobs.vectorAxis)).reduced) outer.push_back(m_block.value);
  for (const std::size_t v : outer) {
    // Few tasks keep one level serial; enough of them to share out is enough.
    if (tasks < 256 && m_rows.empty()) m_f.vars[v].kind = LoopKind::Parallel;
    tasks *= static_cast<double>(m_f.vars[v].extent);
    m_open.push_back(VarId(v));
  }
  for (const VarId row : m_rows) merged.push_back(at(row));
  m_merged = std::move(merged);
}

// Loops of the reduced axes, as far as they are not on the lanes.
void NestBuilder::openReduced() {
  for (std::size_t a = 0; a < m_view.axes.size(); ++a)
    if (axis(a).reduced && !isVector(a)) m_merged[a] = reducedCounter(axis(a).name, axis(a).extent);
  setAxes();
}

IndexExpr NestBuilder::reducedCounter(const std::string& name, std::int64_t extent) {
  if (m_class && extent == 1) return {};
  if (const std::int64_t inner = partOf(extent); inner > 1) {
    const VarId outside = m_f.addVar(name + "o", extent / inner, LoopKind::Serial);
    const VarId inside = m_f.addVar(name, inner, LoopKind::Serial);
    m_reduced.insert(m_reduced.end(), {outside, inside});
    return inner * at(outside) + at(inside);
  }
  m_reduced.push_back(m_f.addVar(name, extent, LoopKind::Serial));
  return at(m_reduced.back());
}

void NestBuilder::setAxes() {
  m_axes = originals(m_merged);
  m_ragged.clear();
  for (const std::size_t k : m_view.ragged)
    m_ragged.push_back(simplify(IndexExpr(m_p[m_plan.front()].axes[k].extent - 1) - m_axes[k], m_f.ranges()));
}

ValueId NestBuilder::inside() {
  ValueId all = m_f.ge0(IndexExpr(m_laneExtent - 1) - m_laneIndex);
  for (const IndexExpr& e : m_ragged)
    if (e.uses(m_lane.value)) all = m_f.both(all, m_f.ge0(e));
  return all;
}

// Statements over the lanes, where the lanes are an axis: whole blocks without a mask, the last one with it.
std::vector<StmtId> NestBuilder::overLanes(std::vector<StmtId> body, OriginId origin) {
  if (!m_lane.valid()) return body;
  if (!tail()) return {m_f.forEach(m_lane, std::move(body), origin)};
  const StmtId masked = m_f.forEach(m_lane, {m_f.when(inside(), body, {}, origin)}, origin);
  if (!m_block.valid()) return {masked};
  const StmtId whole = m_f.forEach(m_lane, std::move(body), origin);
  return {m_f.when(m_f.ge0(IndexExpr(m_full - 1) - m_blockAt), {whole}, {masked}, origin)};
}

Place NestBuilder::outputPlace(const Operator& op, const std::vector<IndexExpr>& axes) {
  Place place;
  place.buffer = m_targets[op.output.value];
  const auto strides = stridesOf(m_p[op.output]);
  for (std::size_t k = 0; k < strides.size(); ++k) place.offset = place.offset + strides[k] * axes[k];
  place.offset = simplify(place.offset, m_f.ranges());
  return place;
}

void hideOwn(const GroupView& group, const StagePlan& stage, BodyLowering& body) {
  for (const OperatorId id : stage)
    if (group.injective(id)) body.buffers[(*group.program)[id].output.value] = {};
}

void lowerNest(const GroupView& group, const StagePlan& stage, const NestKnobs& knobs, Function& function, BodyLowering& body) {
  NestBuilder(group, stage, knobs, function, body).run();
}

std::size_t sharedRows(const GroupView& group, const std::vector<StagePlan>& stages) {
  const Program& p = *group.program;
  const Operator* first = nullptr;
  std::size_t shared = 0;
  // Only operators that the stages need, inlined ones included; all of them make something another one reads or an output.
  for (const Operator& op : p.operators) {
    if (op.kind != OperatorKind::Gather) return 0;
    if (!first) {
      first = &op;
      shared = op.outputRank;
    }
    shared = std::min<std::size_t>(shared, op.outputRank);
    for (std::size_t k = 0; k < shared; ++k)
      if (op.axes[k].extent != first->axes[k].extent) shared = k;
    for (const ExprId e : nodesOf(p, op.body)) {
      if (p[e].op != ScalarOp::Load) continue;
      const Access& access = p[p[e].access];
      if (!group.producers[access.tensor.value].valid()) continue;
      for (std::size_t k = 0; k < shared; ++k)
        if (k >= access.indices.size() || !readsOwnPlace(op, access, k)) shared = k;
    }
  }
  return stages.size() < 2 ? 0 : shared;
}

void lowerRows(const GroupView& group, const std::vector<StagePlan>& stages, std::size_t rowAxes,
               const std::vector<NestKnobs>& knobs, Function& function, BodyLowering& body) {
  const Program& p = *group.program;
  const Operator& first = p[stages.front().front()];
  std::vector<VarId> rows;
  for (std::size_t k = 0; k < rowAxes; ++k)
    rows.push_back(function.addVar(first.axes[k].name, first.axes[k].extent, LoopKind::Parallel));
  std::vector<StmtId> all;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto made = NestBuilder(group, stages[s], knobs[s], function, body, rows).run();
    all.insert(all.end(), made.begin(), made.end());
  }
  for (auto it = rows.rbegin(); it != rows.rend(); ++it) all = {function.forEach(*it, std::move(all), first.origin)};
  function.stages.push_back({p[stages.back().back()].name, std::move(all)});
}

}  // namespace nf::loop
