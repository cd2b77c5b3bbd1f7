// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/nest.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "core/schedule/scatter.h"
#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf::loop {

void hideOwn(const GroupView& group, const StagePlan& stage, BodyLowering& body) {
  for (const OperatorId id : stage)
    if (group.injective(id)) body.buffers[(*group.program)[id].output.value] = {};
}

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
        return f.fma(v.operands[0], v.operands[1], accumulator, v.origin);
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

namespace {

// Builds the loops of one stage.
class NestBuilder {
 public:
  // rows: variables of the leading axes, bound outside; the loops are then returned, not made a stage.
  NestBuilder(const GroupView& group, const StagePlan& plan, const NestKnobs& knobs, Function& function, BodyLowering& body,
              std::vector<VarId> rows = {})
      : m_group(group), m_p(*group.program), m_plan(plan), m_knobs(knobs), m_f(function), m_body(body), m_rows(std::move(rows)),
        m_view(viewNest(group, plan, m_rows.size(), {}, knobs.phases)) {}

  std::vector<StmtId> run() {
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

 private:
  void gather(const Operator& first) {
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

  // Loops of their own by class: where each is a constant of its loops, no lane and no part of a tile.
  bool byClasses() const {
    if (m_view.classes.empty() || (m_view.classAxes.empty() && !m_knobs.peeled)) return false;
    return std::none_of(m_view.classAxes.begin(), m_view.classAxes.end(), [&](std::size_t a) { return isVector(a) || isTiled(a); });
  }

  // The reduced axes as long as the class needs them; those on the lanes and merged ones stay, and keep guards for it.
  void openClass(const StageClass& one) {
    m_class = &one;
    std::vector<IndexCond> guards = one.guards;
    m_reduced.clear();
    for (std::size_t a = 0; a < m_view.axes.size(); ++a) {
      if (!axis(a).reduced) continue;
      const std::vector<std::size_t>& members = m_view.members[a];
      if (members.size() == 1 && !isVector(a)) {
        const Range& left = one.left[members[0]];
        m_merged[a] = IndexExpr(left.lo) + reducedCounter(axis(a).name, left.extent());
        continue;
      }
      if (!isVector(a)) m_merged[a] = reducedCounter(axis(a).name, axis(a).extent);
      for (const std::size_t k : members) {
        const IndexExpr t = IndexExpr::variable(static_cast<IndexVar>(k));
        guards.push_back(IndexCond::ge0(t - IndexExpr(one.left[k].lo)));
        guards.push_back(IndexCond::ge0(IndexExpr(one.left[k].hi) - t));
      }
    }
    setAxes();
    m_guards.clear();
    for (const IndexCond& g : guards) {
      const IndexCond here = simplify(substitute(g,
                                                 [&](IndexVar v) -> std::optional<IndexExpr> {
                                                   if (v < m_axes.size()) return m_axes[v];
                                                   return std::nullopt;
                                                 }),
                                      m_f.ranges());
      if (!here.isAlways()) m_guards.push_back(here);
    }
  }

  // The loops once without the guards that hold everywhere inside, and once with them for the border.
  std::vector<StmtId> peeled(const std::function<std::vector<StmtId>()>& inner, OriginId origin) {
    if (!m_knobs.peeled) return inner();
    const auto isInside = [&](IndexVar v) {
      const bool lane = (m_lane.valid() && v == m_lane.value) || (m_tile.valid() && v == m_tile.value);
      const bool block = m_block.valid() && (VarId(v) == m_block || VarId(v) == m_blockPart) &&
                         axis(static_cast<std::size_t>(m_knobs.vectorAxis)).reduced;
      return lane || block || std::find(m_reduced.begin(), m_reduced.end(), VarId(v)) != m_reduced.end();
    };
    PeeledGuards split = peelGuards(m_guards, isInside, m_f.ranges());
    if (split.peeled.empty()) return inner();
    ValueId inside;
    for (const IndexCond& c : split.interior) inside = m_f.both(inside, m_f.ge0(c.expr));
    std::vector<IndexCond> all = std::move(m_guards);
    m_guards = std::move(split.kept);
    std::vector<StmtId> interior = inner();
    m_guards = std::move(all);
    std::vector<StmtId> border = inner();
    return {m_f.when(inside, std::move(interior), std::move(border), origin)};
  }

  ValueId test(const IndexCond& c) {
    switch (c.kind) {
      case IndexCond::Kind::GreaterEqualZero: return m_f.ge0(c.expr);
      case IndexCond::Kind::EqualZero: return m_f.eq0(c.expr);
      case IndexCond::Kind::Not: return m_f.apply(ScalarOp::Not, DType::Bool, {test(c.operands[0]), {}, {}});
      case IndexCond::Kind::And:
      case IndexCond::Kind::Or: break;
    }
    const bool every = c.kind == IndexCond::Kind::And;
    if (c.operands.empty()) return m_f.constant(every ? 1 : 0, DType::Bool);
    ValueId result = test(c.operands[0]);
    for (std::size_t k = 1; k < c.operands.size(); ++k)
      result = m_f.apply(every ? ScalarOp::And : ScalarOp::Or, DType::Bool, {result, test(c.operands[k]), {}});
    return result;
  }

  // Of the class's guards those that are the same for all lanes and neighbours of a tile, or the others. Invalid: there are none.
  ValueId testsOf(bool uniform) {
    ValueId all;
    for (const IndexCond& g : m_guards) {
      std::vector<IndexVar> used;
      collectVariables(g, used);
      const bool same = std::none_of(used.begin(), used.end(), [&](IndexVar v) {
        return (m_lane.valid() && v == m_lane.value) || (m_tile.valid() && v == m_tile.value);
      });
      if (same == uniform) all = m_f.both(all, test(g));
    }
    return all;
  }

  // What a point of the operator is worth to the reduction.
  ValueId termOf(OperatorId id) {
    const ExprId body = m_p[id].body;
    if (!m_class || !m_view.term.valid()) return m_body.lower(id, body, m_axes);
    const ValueId guard = testsOf(false);
    const ValueId value = m_body.convert(m_body.lower(id, m_view.term, m_axes, guard), m_p[body].type);
    if (!guard.valid()) return value;
    return m_f.apply(ScalarOp::Select, m_p[body].type, {guard, value, m_f.constant(0, m_p[body].type)}, m_p[body].origin);
  }

  // Terms that a test for all lanes shuts out are not there.
  std::vector<StmtId> whereTermsAre(std::vector<StmtId> step, OriginId origin) {
    if (!m_class || !m_view.term.valid()) return step;
    const ValueId guard = testsOf(true);
    if (!guard.valid()) return step;
    return {m_f.when(guard, std::move(step), {}, origin)};
  }

  void close(std::vector<StmtId> inner, const Operator& op) {
    ValueId exists;
    for (const IndexExpr& e : m_ragged)
      if (!m_lane.valid() || !e.uses(m_lane.value)) exists = m_f.both(exists, m_f.ge0(e));
    if (exists.valid()) inner = {m_f.when(exists, std::move(inner), {}, op.origin)};
    for (auto it = m_open.rbegin(); it != m_open.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
    if (m_rows.empty()) m_f.stages.push_back({op.name, std::move(inner)});
    else m_made = std::move(inner);
  }

  const NestAxis& axis(std::size_t a) const { return m_view.axes[a]; }
  bool isVector(std::size_t a) const { return m_knobs.vectorAxis == static_cast<int>(a); }
  bool isTiled(std::size_t a) const { return m_knobs.tileAxis == static_cast<int>(a) && m_knobs.tile > 1; }

  // Variables of all axes; loops of the output axes are opened, those of reduced ones come later.
  void openLoops(OriginId) {
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
  void openReduced() {
    for (std::size_t a = 0; a < m_view.axes.size(); ++a)
      if (axis(a).reduced && !isVector(a)) m_merged[a] = reducedCounter(axis(a).name, axis(a).extent);
    setAxes();
  }

  IndexExpr reducedCounter(const std::string& name, std::int64_t extent) {
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

  void setAxes() {
    m_axes = originals(m_merged);
    m_ragged.clear();
    for (const std::size_t k : m_view.ragged)
      m_ragged.push_back(simplify(IndexExpr(m_p[m_plan.front()].axes[k].extent - 1) - m_axes[k], m_f.ranges()));
  }

  std::vector<IndexExpr> originals(const std::vector<IndexExpr>& merged) const {
    return originalAxes(m_view, merged, m_f.ranges());
  }

  bool tail() const { return m_lane.valid() && (m_laneExtent % m_knobs.lanes != 0 || m_whole != m_laneExtent); }
  ValueId inside() {
    ValueId all = m_f.ge0(IndexExpr(m_laneExtent - 1) - m_laneIndex);
    for (const IndexExpr& e : m_ragged)
      if (e.uses(m_lane.value)) all = m_f.both(all, m_f.ge0(e));
    return all;
  }

  // Statements over the lanes, where the lanes are an axis: whole blocks without a mask, the last one with it.
  std::vector<StmtId> overLanes(std::vector<StmtId> body, OriginId origin) {
    if (!m_lane.valid()) return body;
    if (!tail()) return {m_f.forEach(m_lane, std::move(body), origin)};
    const StmtId masked = m_f.forEach(m_lane, {m_f.when(inside(), body)}, origin);
    if (!m_block.valid()) return {masked};
    const StmtId whole = m_f.forEach(m_lane, std::move(body), origin);
    return {m_f.when(m_f.ge0(IndexExpr(m_full - 1) - m_blockAt), {whole}, {masked}, origin)};
  }

  Place outputPlace(const Operator& op) { return outputPlace(op, m_axes); }
  Place outputPlace(const Operator& op, const std::vector<IndexExpr>& axes) {
    Place place;
    place.buffer = m_targets[op.output.value];
    const auto strides = stridesOf(m_p[op.output]);
    for (std::size_t k = 0; k < strides.size(); ++k) place.offset = place.offset + strides[k] * axes[k];
    place.offset = simplify(place.offset, m_f.ranges());
    return place;
  }

  ValueId stored(ValueId value, BufferId buffer) { return m_body.convert(value, arithmeticType(m_f[buffer].type)); }

  std::vector<StmtId> elementwise() {
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
  std::vector<StmtId> transposed(std::vector<StmtId> body, OriginId origin) {
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
  BufferId transposeBlock(BufferId from, std::vector<StmtId>& all, OriginId origin) {
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

  struct Accumulator {
    BufferId value, index;
    DType type;
  };

  // Long sums are sums of parts: of n numbers in a row the rounding error grows with n, of the sums of parts with the lengths of both.
  static constexpr std::int64_t kLongSum = 64;
  static constexpr std::int64_t kLongRows = 512;  // of vectors, of which each lane adds up its own

  // The steps of a part of a long loop: its largest divisor up to the root. 1: it stays whole.
  std::int64_t partOf(std::int64_t extent) const {
    if (extent < kLongSum || m_p[m_plan.front()].reducer != Reducer::Sum) return 1;
    auto steps = static_cast<std::int64_t>(std::sqrt(static_cast<double>(extent)));
    while (extent % steps != 0) --steps;
    return steps >= 4 ? steps : 1;
  }

  // Outermost first: those of the reduced axes, then of the vectors where those are along one.
  std::vector<VarId> reducedSequence(bool rows) const {
    std::vector<VarId> loops = m_reduced;
    for (const VarId v : {m_blockPart, m_block})
      if (rows && v.valid()) loops.push_back(v);
    return loops;
  }

  // How many of the loops stand outside a part; 0: the sum is short.
  std::size_t loopsOutsideParts(const std::vector<VarId>& loops) const {
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

  Place local(BufferId buffer, const IndexExpr& offset) { return {buffer, offset, {}}; }

  std::vector<StmtId> reduction() {
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

  static void append(std::vector<StmtId>& all, std::vector<StmtId> more) { all.insert(all.end(), more.begin(), more.end()); }

  std::vector<StmtId> lanes(std::vector<StmtId> body, bool masked, OriginId origin) {
    if (!m_lane.valid()) return body;
    if (masked) body = {m_f.when(inside(), std::move(body), {}, origin)};
    return {m_f.forEach(m_lane, std::move(body), origin)};
  }

  std::vector<StmtId> reducedLoops(std::vector<StmtId> inner, const std::vector<VarId>& loops, OriginId origin) {
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
  IndexExpr linearReduced(const Operator& op) {
    IndexExpr linear;
    for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) linear = op.axes[k].extent * linear + m_axes[k];
    return simplify(linear, m_f.ranges());
  }

  // Vectors that stand below each other, folded pair by pair: half of the lanes of one beside half of those of the next, until
  // lane l of one vector is the sum of vector l.
  //   a0 a1 a2 a3 | b0 b1 b2 b3   ->   a0+a2 a1+a3 b0+b2 b1+b3   ->   ..
  std::vector<StmtId> foldRows(std::vector<Accumulator>& accumulators, OriginId origin) {
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
  std::vector<StmtId> tree(const std::vector<Accumulator>& accumulators, OriginId origin) {
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

  void scatter(const Operator& op) {
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

  void sortedScatter(const Operator& op) {
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
    const auto walk = [&](const std::string& what,
                          const std::function<std::vector<StmtId>(const Place&, const IndexExpr&)>& inner) {
      std::vector<VarId> loops;
      std::vector<IndexExpr> axes(op.axes.size());
      IndexExpr number;
      for (std::size_t a = 0; a < op.axes.size(); ++a) {
        if (!byData.contains(a)) continue;
        loops.push_back(m_f.addVar(op.axes[a].name, op.axes[a].extent, LoopKind::Serial));
        axes[a] = at(loops.back());
        number = op.axes[a].extent * number + axes[a];
      }
      // As the scatter's own place, of the components by data alone. A point that a guard shuts out may have no index: it adds its 0
      // to the first place.
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
  void sumSegments(const Operator& op, BufferId target, const std::set<std::size_t>& byData, BufferId starts, BufferId values,
                   std::int64_t points, std::int64_t others) {
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
      const bool last = std::none_of(op.axes.begin() + static_cast<std::ptrdiff_t>(a) + 1, op.axes.end(), [&](const Axis& b) {
        return !byData.contains(static_cast<std::size_t>(&b - op.axes.data()));
      });
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

  void zero(const Operator& op, BufferId target) {
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

  const GroupView& m_group;
  const Program& m_p;
  const StagePlan& m_plan;
  NestKnobs m_knobs;
  Function& m_f;
  BodyLowering& m_body;
  std::vector<VarId> m_rows;
  NestView m_view;
  std::vector<StmtId> m_made;  // of a row
  std::vector<BufferId> m_targets;
  std::vector<VarId> m_open, m_reduced;
  const StageClass* m_class = nullptr;  // the class whose loops are made; null: all points alike
  std::vector<IndexCond> m_guards;      // of its terms, over the loops' variables
  std::vector<IndexExpr> m_axes, m_merged;
  std::size_t m_partLoops = 0;                 // reduced loops outside a part of the sums; 0: no parts
  std::vector<StmtId> m_partStart, m_partEnd;  // around one
  VarId m_lane, m_block, m_blockPart, m_tile;
  IndexExpr m_blockAt;  // number of the vector
  IndexExpr m_tileBase;
  IndexExpr m_laneIndex;
  std::vector<IndexExpr> m_ragged;  // at least 0 where the point exists
  std::int64_t m_laneExtent = 1, m_whole = 1, m_full = 0;
};

}  // namespace

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
