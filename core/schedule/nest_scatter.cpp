// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "core/schedule/nest_builder.h"
#include "core/schedule/scatter.h"
#include "core/support/checked.h"

namespace nf::loop {

void NestBuilder::scatter(const Operator& op) {
  if (m_knobs.sorted) return sortedScatter(op);
  const BufferId target = m_targets[op.output.value];
  zero(op, target);
  openLoops(op.origin);
  openReduced();
  // Points may meet in one element. Loops whose iterations never do go outside and run in parallel; the others keep their order, so
  // each element sums in the same order whatever the number of threads.
  const auto free = std::stable_partition(m_open.begin(), m_open.end(),
                                          [&](VarId v) { return iterationsNeverMeet(op, m_axes, v.value, m_f.ranges()); });
  for (auto it = m_open.begin(); it != free; ++it) m_f.vars[it->value].kind = LoopKind::Parallel;
  for (auto it = free; it != m_open.end(); ++it) m_f.vars[it->value].kind = LoopKind::Serial;
  const OperatorId id = m_plan.front();
  const ScatterParts parts = partsOf(m_p, op);
  const ValueId guard = storeGuard(m_p, id, parts, m_axes, m_f, m_body);
  const ValueId value = m_body.lower(id, parts.value, m_axes);
  Place place = m_body.place(id, op.output, target, op.scatter, m_axes);
  const DType type = arithmeticType(m_f[target].type);
  const ValueId sum = m_f.apply(ScalarOp::Add, type, {m_f.load(place), m_body.convert(value, type), {}}, op.origin);
  std::vector<StmtId> body{m_f.store(std::move(place), sum, op.origin)};
  if (guard.valid()) body = {m_f.when(guard, std::move(body), {}, op.origin)};
  close(overLanes(std::move(body), op.origin), op);
}

void NestBuilder::sortedScatter(const Operator& op) {
  const OperatorId id = m_plan.front();
  const BufferId target = m_targets[op.output.value];
  const DType type = arithmeticType(m_f[target].type);
  const std::set<std::size_t> byData = axesOfData(m_p, op);
  const auto& shape = m_p[op.output].shape;
  std::int64_t points = 1, others = 1, places = 1;
  for (std::size_t a = 0; a < op.axes.size(); ++a) (byData.contains(a) ? points : others) *= op.axes[a].extent;
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (op.scatter[k].isData()) places *= shape[k];
  std::vector<ExprId> guards;
  for (const ExprId g : partsOf(m_p, op).guards)
    if (dependsOnlyOn(m_p, op, g, byData)) guards.push_back(g);
  // starts[v + 1], while points are ranked, is where the next one of place v goes; then starts[v] is where those of v begin.
  const BufferId starts = m_f.addWorkspace(op.name + " starts", DType::I32, places + 2);
  const BufferId rank = m_f.addWorkspace(op.name + " rank", DType::I32, points);
  const BufferId values = m_f.addWorkspace(op.name + " sorted", type, points * others);
  const auto stage = [&](const std::string& what, const std::vector<VarId>& loops, std::vector<StmtId> inner) {
    for (auto it = loops.rbegin(); it != loops.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
    m_f.stages.push_back({op.name + what, std::move(inner)});
    m_body.forget();
  };
  const auto one = [&] { return m_f.constant(1, DType::I32); };
  const auto sum = [&](ValueId a, ValueId b) { return m_f.apply(ScalarOp::Add, DType::I32, {a, b, {}}, op.origin); };
  const VarId empty = m_f.addVar("v", places + 2, LoopKind::Serial);
  stage(" starts = 0", {empty}, {m_f.store({starts, at(empty), {}}, m_f.constant(0, DType::I32), op.origin)});

  // One walk over the points that data tells apart, in their order; `inner` gets the place of the point's counter and its number.
  const auto walk = [&](const std::string& what, const std::function<std::vector<StmtId>(const Place&, const IndexExpr&)>& inner) {
    std::vector<VarId> loops;
    std::vector<IndexExpr> axes(op.axes.size());
    IndexExpr number;
    for (std::size_t a = 0; a < op.axes.size(); ++a) {
      if (!byData.contains(a)) continue;
      loops.push_back(m_f.addVar(op.axes[a].name, op.axes[a].extent, LoopKind::Serial));
      axes[a] = at(loops.back());
      number = op.axes[a].extent * number + axes[a];
    }
    // As the scatter's own place, of the components by data alone. A point that a guard shuts out may have no index: it adds its 0 to
    // the first place.
    ValueId guard;
    for (const ExprId g : guards) guard = m_f.both(guard, m_body.lower(id, g, axes, guard));
    Place counter = m_body.place(id, op.output, target, op.scatter, axes, guard);
    if (guard.valid())
      for (DataIndex& d : counter.data)
        d.value = m_f.apply(ScalarOp::Select, m_f[d.value].type, {guard, d.value, m_f.constant(0, m_f[d.value].type)}, op.origin);
    counter.buffer = starts;
    counter.offset = IndexExpr();
    std::int64_t stride = places;
    std::size_t component = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (!op.scatter[k].isData()) continue;
      stride /= shape[k];
      counter.data[component++].stride = stride;
    }
    stage(what, loops, inner(counter, number));
  };
  walk(" counts", [&](Place counter, const IndexExpr&) -> std::vector<StmtId> {
    counter.offset = IndexExpr(2);
    const ValueId more = sum(m_f.load(counter), one());
    return {m_f.store(counter, more, op.origin)};
  });
  const VarId place = m_f.addVar("v", places, LoopKind::Serial);
  stage(" starts", {place},
        {m_f.store({starts, at(place) + IndexExpr(2), {}},
                   sum(m_f.load({starts, at(place) + IndexExpr(2), {}}), m_f.load({starts, at(place) + IndexExpr(1), {}})),
                   op.origin)});
  walk(" ranks", [&](Place counter, const IndexExpr& number) -> std::vector<StmtId> {
    counter.offset = IndexExpr(1);
    const StmtId mine = m_f.store({rank, number, {}}, m_f.load(counter), op.origin);
    const ValueId next = sum(m_f.load({rank, number, {}}), one());
    return {mine, m_f.store(counter, next, op.origin)};
  });

  openLoops(op.origin);
  openReduced();
  for (const VarId v : m_open) m_f.vars[v.value].kind = LoopKind::Parallel;  // every point has a rank of its own
  IndexExpr number, column;
  for (std::size_t a = 0; a < op.axes.size(); ++a) {
    IndexExpr& e = byData.contains(a) ? number : column;
    e = op.axes[a].extent * e + m_axes[a];
  }
  Place sorted{values, simplify(column, m_f.ranges()), {}};
  const ValueId mine = m_f.load({rank, simplify(number, m_f.ranges()), {}});
  m_f.checks.push_back("operator " + op.name + ": the rank of a point is outside its points");
  sorted.data.push_back({mine, others, points, static_cast<std::uint32_t>(m_f.checks.size() - 1)});
  const ValueId value = m_body.convert(m_body.lower(id, op.body, m_axes), type);
  std::vector<StmtId> inner = overLanes({m_f.store(std::move(sorted), value, op.origin)}, op.origin);
  for (auto it = m_open.rbegin(); it != m_open.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
  m_f.stages.push_back({op.name + " sorted", std::move(inner)});
  m_body.forget();
  sumSegments(op, target, byData, starts, values, points, others);
}

// Each place adds up its segment.
void NestBuilder::sumSegments(const Operator& op, BufferId target, const std::set<std::size_t>& byData, BufferId starts,
                              BufferId values, std::int64_t points, std::int64_t others) {
  const DType type = arithmeticType(m_f[target].type);
  const auto& shape = m_p[op.output].shape;
  const auto strides = stridesOf(m_p[op.output]);
  std::vector<VarId> loops;
  IndexExpr offset, number, column;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (!op.scatter[k].isData()) continue;
    loops.push_back(m_f.addVar("v" + std::to_string(k), shape[k], LoopKind::Parallel));
    number = shape[k] * number + at(loops.back());
    offset = offset + strides[k] * at(loops.back());
  }
  // Columns: the other axes, the innermost on the lanes.
  VarId lane;
  ValueId inside;
  for (std::size_t a = 0; a < op.axes.size(); ++a) {
    if (byData.contains(a)) continue;
    const std::int64_t extent = op.axes[a].extent;
    const bool last = std::none_of(op.axes.begin() + static_cast<std::ptrdiff_t>(a) + 1, op.axes.end(),
                                   [&](const Axis& b) { return !byData.contains(static_cast<std::size_t>(&b - op.axes.data())); });
    IndexExpr e;
    if (last && m_knobs.lanes > 1) {
      const int lanes = lanesCovering(extent, m_knobs.lanes);
      lane = m_f.addVar(op.axes[a].name + "v", lanes, LoopKind::Vector);
      e = at(lane);
      if (const std::int64_t blocks = ceilDiv(extent, lanes); blocks > 1) {
        loops.push_back(m_f.addVar(op.axes[a].name + "b", blocks, LoopKind::Parallel));
        e = lanes * at(loops.back()) + e;
      }
      if (extent % lanes != 0) inside = m_f.ge0(IndexExpr(extent - 1) - e);
    } else {
      loops.push_back(m_f.addVar(op.axes[a].name, extent, LoopKind::Parallel));
      e = at(loops.back());
    }
    column = extent * column + e;
    for (std::size_t k = 0; k < shape.size(); ++k)
      if (!op.scatter[k].isData() && op.scatter[k].affine.asVariable() == static_cast<IndexVar>(a))
        offset = offset + strides[k] * e;
  }
  const std::int64_t lanes = lane.valid() ? m_f[lane].extent : 1;
  const BufferId sum = m_f.addLocal("acc", type, lanes);
  const Place own{sum, lane.valid() ? at(lane) : IndexExpr(0), {}};
  const auto over = [&](StmtId statement) {
    if (inside.valid()) statement = m_f.when(inside, {statement}, {}, op.origin);
    return lane.valid() ? m_f.forEach(lane, {statement}, op.origin) : statement;
  };
  const VarId p = m_f.addVar("p", points, LoopKind::Serial);
  const ValueId here = m_f.indexValue(at(p), DType::I32);
  const ValueId begins = m_f.apply(ScalarOp::Le, DType::Bool, {m_f.load({starts, number, {}}), here, {}});
  const ValueId ends = m_f.apply(ScalarOp::Lt, DType::Bool, {here, m_f.load({starts, number + IndexExpr(1), {}}), {}});
  const ValueId more =
      m_f.apply(ScalarOp::Add, type, {m_f.load(own), m_f.load({values, others * at(p) + column, {}}), {}}, op.origin);
  const StmtId add = over(m_f.store(own, more, op.origin));
  std::vector<StmtId> inner{over(m_f.store(own, m_f.constant(0, type), op.origin)),
                            m_f.forEach(p, {m_f.when(m_f.both(begins, ends), {add}, {}, op.origin)}, op.origin),
                            over(m_f.store({target, offset, {}}, m_f.load(own), op.origin))};
  for (auto it = loops.rbegin(); it != loops.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
  m_f.stages.push_back({op.name, std::move(inner)});
}

void NestBuilder::zero(const Operator& op, BufferId target) {
  const std::int64_t n = m_f[target].elements;
  const std::int64_t lanes = n >= 64 ? 64 : lanesCovering(n, 64);
  const VarId lane = m_f.addVar("z", lanes, LoopKind::Vector);
  const VarId block = m_f.addVar("zb", ceilDiv(n, lanes), LoopKind::Parallel);
  const IndexExpr index = lanes * at(block) + at(lane);
  const DType type = arithmeticType(m_f[target].type);
  StmtId body = m_f.store({target, index, {}}, m_f.constant(0, type), op.origin);
  if (n % lanes != 0) body = m_f.when(m_f.ge0(IndexExpr(n - 1) - index), {body}, {}, op.origin);
  body = m_f.forEach(block, {m_f.forEach(lane, {body}, op.origin)}, op.origin);
  m_f.stages.push_back({op.name + " = 0", {body}});
}

}  // namespace nf::loop
