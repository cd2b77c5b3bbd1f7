// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "core/schedule/gpu.h"
#include "core/schedule/recurrence.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (const std::int64_t e : extents) n *= e;
  return n;
}

// One nest of threads of one nest of blocks; inside, the stages of the body one after the other, for each step.
class Lowering {
 public:
  Lowering(const RecurrenceView& view, const RecurrencePlan& plan, const RecurrenceKnobs& knobs)
      : m_view(view), m_plan(plan), m_knobs(knobs), m_p(*view.body), m_body(m_p, m_f) {}

  Function run() {
    const Loop& loop = m_view.loop;
    const Operator& op = m_view.outer->operators.front();
    declareOperands();
    m_block = m_f.addVar("b", m_knobs.blocks, LoopKind::Block);
    m_thread = m_f.addVar("thread", m_knobs.threads, LoopKind::Thread);
    m_step = m_f.addVar(loop.reversed ? "step" : loop.counter, loop.trips, LoopKind::Serial);
    m_counter = loop.reversed ? IndexExpr(loop.trips - 1) - at(m_step) : at(m_step);
    m_body.counter = std::pair<IndexVar, IndexExpr>(kLoopVariable + loop.depth, m_counter);
    m_body.special = [this](TensorId t, const std::vector<IndexExpr>& indices) { return onChip(t, indices); };
    makeHomes();
    if (m_knobs.hold == Hold::Shared)
      for (const RecurrenceSlice& s : m_plan.slices) hold(s);

    std::vector<StmtId> steps, all;
    for (std::size_t s = 0; s < m_view.stages.size(); ++s) {
      append(steps, stage(s));
      meet(steps, m_plan.behind[s]);
    }
    for (const RecurrenceHome& home : m_view.homes)
      if (home.carriedRead) append(all, begin(home));
    append(all, std::move(m_held));
    meet(all, m_plan.first);
    all.push_back(m_f.forEach(m_step, std::move(steps), op.origin));
    m_f.stages.push_back({op.name, {m_f.forEach(m_block, {m_f.forEach(m_thread, std::move(all), op.origin)}, op.origin)}});
    return std::move(m_f);
  }

 private:
  static void append(std::vector<StmtId>& all, std::vector<StmtId> more) { all.insert(all.end(), more.begin(), more.end()); }

  void meet(std::vector<StmtId>& all, Meeting meeting) {
    if (meeting == Meeting::None) return;
    const bool grid = meeting == Meeting::Grid && m_knobs.blocks > 1;
    all.push_back(m_f.barrier(m_view.outer->operators.front().origin, grid ? BarrierScope::Grid : BarrierScope::Block));
  }

  std::vector<StmtId> under(ValueId condition, std::vector<StmtId> body, OriginId origin) {
    if (!condition.valid() || body.empty()) return body;
    return {m_f.when(condition, std::move(body), {}, origin)};
  }

  std::vector<StmtId> looped(VarId loop, std::vector<StmtId> body, OriginId origin) {
    if (!loop.valid()) return body;
    return {m_f.forEach(loop, std::move(body), origin)};
  }

  static Place here(BufferId buffer, const IndexExpr& offset = IndexExpr(0)) { return {buffer, offset, {}}; }

  Place element(BufferId buffer, const std::vector<std::int64_t>& strides, const std::vector<IndexExpr>& indices,
                const IndexExpr& begin = IndexExpr(0)) const {
    IndexExpr offset = begin;
    for (std::size_t k = 0; k < indices.size(); ++k) offset = offset + strides[k] * indices[k];
    return {buffer, simplify(offset, m_f.ranges()), {}};
  }

  // ------------------------------------------------------------ memory
  void declareOperands() {
    const Program& outer = *m_view.outer;
    m_operands.resize(outer.tensors.size());
    m_body.buffers.assign(m_p.tensors.size(), BufferId{});
    m_body.begins.assign(m_p.tensors.size(), IndexExpr(0));
    const auto operand = [&](TensorId t, Direction direction) {
      const Tensor& tensor = outer[t];
      m_f.buffers.push_back({tensor.name, tensor.type, tensor.elements(), Scope::Global, direction, 0});
      m_operands[t.value] = BufferId(m_f.buffers.size() - 1);
    };
    const auto made = producers(outer);
    for (std::size_t t = 0; t < outer.tensors.size(); ++t)
      if (!made[t].valid()) operand(TensorId(t), Direction::In);
    for (const Output& o : outer.outputs) {
      if (!made[o.tensor.value].valid() || m_operands[o.tensor.value].valid()) continue;
      const auto& sums = m_view.loop.accumulated;
      const bool sum = std::any_of(sums.begin(), sums.end(), [&](const auto& a) { return a.outer == o.tensor; });
      operand(o.tensor, sum ? Direction::InOut : Direction::Out);
    }
    m_f.operands = m_f.buffers.size();
    m_f.name = outer.operators.front().name;
    m_f.flops = flopsOf(outer, OperatorId(std::size_t{0}));
    for (const auto& i : m_view.loop.invariants) m_body.buffers[i.inner.value] = m_operands[i.outer.value];
  }

  // A block's share of a tensor in shared memory, row-major.
  struct Share {
    TensorId tensor;
    int unit = -1;
    BufferId buffer;
    std::vector<std::int64_t> extents, strides;
  };

  Share share(TensorId tensor, int unit, DType type) {
    if (m_knobs.blocks == 1) unit = -1;
    Share s{tensor, unit, {}, m_p[tensor].shape, {}};
    if (unit >= 0) s.extents[static_cast<std::size_t>(unit)] = shareOf(s.extents[static_cast<std::size_t>(unit)], m_knobs.blocks);
    s.strides.assign(s.extents.size(), 1);
    for (std::size_t k = s.extents.size(); k-- > 1;) s.strides[k - 1] = s.strides[k] * s.extents[k];
    s.buffer = m_f.addShared(m_p[tensor].name, type, product(s.extents));
    return s;
  }

  // Where an element of the block's own units is in its share.
  Place inShare(const Share& s, std::vector<IndexExpr> indices) const {
    if (s.unit >= 0) {
      IndexExpr& unit = indices[static_cast<std::size_t>(s.unit)];
      unit = simplify(unit - s.extents[static_cast<std::size_t>(s.unit)] * at(m_block), m_f.ranges());
    }
    return element(s.buffer, s.strides, indices);
  }

  // Does the stage, at its unit, read weights of the block's share? Units of another extent are shared out in parts of another size.
  bool isOfShare(const Share& s, const std::vector<IndexExpr>& indices) const {
    if (s.unit < 0) return true;
    const auto unit = static_cast<std::size_t>(s.unit);
    std::vector<IndexVar> used;
    simplify(indices[unit] - s.extents[unit] * at(m_block), m_f.ranges()).collectVariables(used);
    return indices[unit] == m_unit && !std::binary_search(used.begin(), used.end(), m_block.value);
  }

  void makeHomes() {
    const std::vector<bool> shared = homesInShared(m_view, m_plan, m_knobs);
    for (std::size_t h = 0; h < m_view.homes.size(); ++h) {
      const RecurrenceHome& home = m_view.homes[h];
      const Tensor& t = m_p[home.tensor];
      const DType type = home.isOutput ? t.type : arithmeticType(t.type);
      m_shareOf.push_back(shared[h] ? m_shares.size() : SIZE_MAX);
      if (shared[h]) m_shares.push_back(share(home.tensor, m_plan.unit[home.stage], type));
      else if (home.read || home.carriedRead) {
        const bool twice = home.carriedRead || m_plan.crosses[h];
        const std::int64_t elements = t.elements();
        const BufferId buffer = m_f.addWorkspace(t.name, type, (twice ? 2 : 1) * elements);
        m_body.buffers[home.tensor.value] = buffer;
        const IndexExpr side = floorMod(at(m_step), 2);
        if (twice) m_body.begins[home.tensor.value] = elements * (home.carriedRead ? IndexExpr(1) - side : side);
        if (!home.carriedRead) continue;
        m_body.buffers[home.before.value] = buffer;
        m_body.begins[home.before.value] = elements * side;
      }
    }
  }

  // Copied once, by all threads of the block.
  void hold(const RecurrenceSlice& slice) {
    const Tensor& t = m_p[slice.tensor];
    const OriginId origin = t.origin;
    const BufferId from = m_body.buffers[slice.tensor.value];
    m_shares.push_back(share(slice.tensor, slice.unit, t.type));
    const Share& s = m_shares.back();
    const std::int64_t points = product(s.extents), trips = ceilDiv(points, m_knobs.threads);
    VarId loop;
    IndexExpr number = at(m_thread);
    if (trips > 1) {
      loop = m_f.addVar("h", trips, LoopKind::Serial);
      number = number + m_knobs.threads * at(loop);
    }
    std::vector<IndexExpr> indices = digits(number, s.extents, m_f.ranges());
    ValueId inside;
    if (points % m_knobs.threads != 0) inside = m_f.ge0(IndexExpr(points - 1) - number);
    const IndexExpr offset = element(s.buffer, s.strides, indices).offset;
    if (slice.unit >= 0) {
      const auto unit = static_cast<std::size_t>(slice.unit);
      indices[unit] = s.extents[unit] * at(m_block) + indices[unit];
      if (s.extents[unit] * m_knobs.blocks > t.shape[unit])
        inside = m_f.both(inside, m_f.ge0(IndexExpr(t.shape[unit] - 1) - indices[unit]));
    }
    const ValueId value = m_f.load(element(from, stridesOf(t), indices), inside, origin);
    append(m_held, looped(loop, under(inside, {m_f.store(here(s.buffer, offset), value, origin)}, origin), origin));
  }

  // A weight in a register of this thread, of the stage that is being made.
  struct Register {
    TensorId tensor;
    std::vector<IndexExpr> indices;
    BufferId buffer;
    IndexExpr offset;
  };

  std::optional<ValueId> onChip(TensorId tensor, const std::vector<IndexExpr>& indices) {
    for (const Register& r : m_registers)
      if (r.tensor == tensor && r.indices == indices) return m_f.load(here(r.buffer, r.offset));
    const std::size_t home = m_view.homeOf[tensor.value];
    if (home != SIZE_MAX) {
      const bool inPlace = m_view.homes[home].stage == m_number || m_view.homes[home].tensor != tensor;
      if (inPlace || m_shareOf[home] == SIZE_MAX) return std::nullopt;
      return m_f.load(inShare(m_shares[m_shareOf[home]], indices));
    }
    for (const Share& s : m_shares)
      if (s.tensor == tensor && isOfShare(s, indices)) return m_f.load(inShare(s, indices));
    return std::nullopt;
  }

  // ------------------------------------------------------------ what a thread makes
  // The axes of a stage, and where they are inside of it.
  struct Frame {
    std::vector<IndexExpr> axes;
    ValueId inside;
  };

  // The output axes from the number of a place in the block, which is `rows` neighbours along the axis of equal weights; `row` of them.
  Frame outputs(std::size_t number, const std::vector<std::int64_t>& extents, const IndexExpr& place, std::int64_t rows,
                const IndexExpr& row) {
    Frame frame;
    const auto made = digits(place, extents, m_f.ranges());
    const int unit = m_plan.unit[number];
    const RecurrenceStage& stage = m_view.stages[number];
    for (std::size_t k = 0; k < stage.extents.size(); ++k) {
      IndexExpr e = made[k];
      if (static_cast<int>(k) == unit) {
        e = simplify(extents[k] * at(m_block) + e, m_f.ranges());
        if (extents[k] * m_knobs.blocks > stage.extents[k]) frame.inside = m_f.ge0(IndexExpr(stage.extents[k] - 1) - e);
      } else if (static_cast<int>(k) == m_plan.reuse[number]) {
        e = simplify(rows * e + row, m_f.ranges());
      }
      frame.axes.push_back(std::move(e));
    }
    if (unit < 0 && m_knobs.blocks > 1) frame.inside = m_f.eq0(at(m_block));
    return frame;
  }

  std::vector<std::int64_t> shares(std::size_t number) const {
    std::vector<std::int64_t> extents = m_view.stages[number].extents;
    if (const int unit = m_plan.unit[number]; unit >= 0)
      extents[static_cast<std::size_t>(unit)] = shareOf(extents[static_cast<std::size_t>(unit)], m_knobs.blocks);
    return extents;
  }

  std::vector<StmtId> stage(std::size_t number) {
    const RecurrenceStage& stage = m_view.stages[number];
    const std::vector<BufferId> visible = m_body.buffers;
    hideOwn(m_view.group, stage.operators, m_body);
    m_number = number;
    std::vector<StmtId> made = stage.reduced.empty() ? elementwise(number, visible) : reduction(number, visible);
    m_body.buffers = visible;
    m_body.forget();
    m_registers.clear();
    return made;
  }

  void atUnit(std::size_t number, const Frame& frame) {
    const int unit = m_plan.unit[number];
    m_unit = unit < 0 ? IndexExpr(-1) : frame.axes[static_cast<std::size_t>(unit)];
  }

  // One point of the elementwise mapping: the same thread has the same point in every stage of these extents.
  struct Spread {
    VarId loop;
    Frame frame;
  };
  Spread spread(std::size_t number) {
    const std::vector<std::int64_t> extents = shares(number);
    const std::int64_t points = product(extents), trips = ceilDiv(points, m_knobs.threads);
    Spread s;
    IndexExpr place = at(m_thread);
    if (trips > 1) {
      s.loop = m_f.addVar("p", trips, LoopKind::Serial);
      place = place + m_knobs.threads * at(s.loop);
    }
    s.frame = outputs(number, extents, place, 1, IndexExpr(0));
    if (points % m_knobs.threads != 0) s.frame.inside = m_f.both(s.frame.inside, m_f.ge0(IndexExpr(points - 1) - place));
    return s;
  }

  // Carried values before the first step.
  std::vector<StmtId> begin(const RecurrenceHome& home) {
    const Tensor& t = m_p[home.tensor];
    const OriginId origin = t.origin;
    Spread s = spread(home.stage);
    s.frame.axes.resize(t.shape.size());
    const ValueId value = m_f.load(element(m_operands[home.initial.value], stridesOf(t), s.frame.axes), s.frame.inside, origin);
    const StmtId store = m_f.store(element(m_body.buffers[home.tensor.value], stridesOf(t), s.frame.axes), value, origin);
    return looped(s.loop, under(s.frame.inside, {store}, origin), origin);
  }

  std::vector<StmtId> elementwise(std::size_t number, const std::vector<BufferId>& visible) {
    const RecurrenceStage& stage = m_view.stages[number];
    const Spread s = spread(number);
    atUnit(number, s.frame);
    std::vector<StmtId> body;
    OriginId origin;
    for (const OperatorId id : stage.operators) {
      const Operator& op = m_p[id];
      origin = op.origin;
      append(body, stores(op, m_body.lower(id, op.body, s.frame.axes), s.frame.axes, visible));
    }
    return looped(s.loop, under(s.frame.inside, std::move(body), origin), origin);
  }

  // Everywhere the value goes: to those who read it, and out of the loop.
  std::vector<StmtId> stores(const Operator& op, ValueId value, const std::vector<IndexExpr>& axes,
                             const std::vector<BufferId>& visible) {
    std::vector<StmtId> all;
    const Tensor& t = m_p[op.output];
    const Loop& loop = m_view.loop;
    const std::vector<IndexExpr> point(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(t.shape.size()));
    const auto strides = stridesOf(t);
    const ValueId v = m_body.convert(value, arithmeticType(t.type));
    const std::size_t home = m_view.homeOf[op.output.value];
    if (m_shareOf[home] != SIZE_MAX) {
      all.push_back(m_f.store(inShare(m_shares[m_shareOf[home]], point), v, op.origin));
    } else if (const BufferId buffer = visible[op.output.value]; buffer.valid()) {
      all.push_back(m_f.store(element(buffer, strides, point, m_body.begins[op.output.value]), v, op.origin));
    }
    for (const auto& s : loop.stacked)
      if (s.inner == op.output && m_operands[s.outer.value].valid())
        all.push_back(m_f.store(element(m_operands[s.outer.value], strides, point, t.elements() * m_counter), v, op.origin));
    for (const auto& a : loop.accumulated) {
      if (a.inner != op.output || !m_operands[a.outer.value].valid()) continue;
      const Place sum = element(m_operands[a.outer.value], strides, point);
      const ValueId more = m_f.apply(ScalarOp::Add, m_f[v].type, {m_f.load(sum), v, {}}, op.origin);
      all.push_back(m_f.when(m_f.eq0(at(m_step)), {m_f.store(sum, v, op.origin)}, {m_f.store(sum, more, op.origin)}, op.origin));
    }
    for (const auto& c : loop.carried) {
      if (c.innerOut != op.output || !c.last.valid() || !m_operands[c.last.value].valid()) continue;
      const StmtId last = m_f.store(element(m_operands[c.last.value], strides, point), v, op.origin);
      append(all, under(m_f.eq0(at(m_step) - IndexExpr(loop.trips - 1)), {last}, op.origin));
    }
    return all;
  }

  // ------------------------------------------------------------ sums and their like
  struct Accumulator {
    const Operator* op = nullptr;
    BufferId value, other;
    DType type = DType::F32;
  };

  // One more term. Of products a sum takes each without rounding it.
  StmtId take(const Accumulator& acc, ValueId term, const IndexExpr& row) {
    const Place place = here(acc.value, row);
    const ValueId old = m_f.load(place);
    const Value v = m_f[term];
    const auto is = [&](std::size_t k) { return m_f[v.operands[k]].type == acc.type; };
    const bool fused = acc.op->reducer == Reducer::Sum && v.kind == Value::Kind::Apply && v.op == ScalarOp::Mul &&
                       v.type == acc.type && isFloating(acc.type) && is(0) && is(1);
    const ValueId sum =
        fused ? m_f.addProduct(term, old, acc.op->origin) : combine(m_f, acc.op->reducer, old, m_body.convert(term, acc.type));
    return m_f.store(place, sum, acc.op->origin);
  }

  std::vector<StmtId> reduction(std::size_t number, const std::vector<BufferId>& visible) {
    const RecurrenceStage& stage = m_view.stages[number];
    const OriginId origin = m_p[stage.operators.front()].origin;
    const int lanes = m_knobs.lanes;
    const std::int64_t groups = m_knobs.threads / lanes, rows = rowsOf(m_plan, stage, number, m_knobs);
    const std::int64_t terms = product(stage.reduced), turns = ceilDiv(terms, lanes);
    const bool registers = m_knobs.hold == Hold::Registers && !m_plan.held[number].empty();
    const IndexExpr group = floorDiv(at(m_thread), lanes), lane = floorMod(at(m_thread), lanes);

    // Places of the block, in turns of its groups of lanes; with weights in registers a group keeps its places for all rows.
    std::vector<std::int64_t> extents = shares(number);
    const int reuse = m_plan.reuse[number];
    std::int64_t blocksOfRows = 1;
    if (reuse >= 0) {
      auto& extent = extents[static_cast<std::size_t>(reuse)];
      extent /= rows;
      if (registers) blocksOfRows = std::exchange(extent, 1);
    }
    const std::int64_t places = product(extents), rounds = ceilDiv(places, groups);
    const auto placeOf = [&](VarId round) {
      return round.valid() ? simplify(groups * at(round) + group, m_f.ranges()) : simplify(group, m_f.ranges());
    };
    const auto variable = [&](const char* name, std::int64_t extent, LoopKind kind) {
      return extent > 1 ? m_f.addVar(name, extent, kind) : VarId{};
    };
    const auto valueOf = [](VarId v) { return v.valid() ? at(v) : IndexExpr(0); };
    const LoopKind kept = registers ? LoopKind::Unrolled : LoopKind::Serial;
    const VarId round = variable("g", rounds, kept), block = variable("r", blocksOfRows, LoopKind::Serial);
    const VarId row = variable("j", rows, LoopKind::Unrolled), turn = variable("k", turns, kept);

    const auto frameOf = [&](VarId ofRound, VarId ofTurn, const IndexExpr& along, ValueId& term) {
      Frame frame = outputs(number, extents, placeOf(ofRound), rows, along);
      if (places % groups != 0) frame.inside = m_f.both(frame.inside, m_f.ge0(IndexExpr(places - 1) - placeOf(ofRound)));
      const IndexExpr point = simplify(static_cast<std::int64_t>(lanes) * valueOf(ofTurn) + lane, m_f.ranges());
      for (IndexExpr& e : digits(point, stage.reduced, m_f.ranges())) frame.axes.push_back(std::move(e));
      if (terms % lanes != 0) term = m_f.ge0(IndexExpr(terms - 1) - point);
      return frame;
    };
    ValueId termInside;
    const Frame frame = frameOf(round, turn, simplify(rows * valueOf(block) + valueOf(row), m_f.ranges()), termInside);
    atUnit(number, frame);
    if (registers) {
      const VarId r = variable("g", rounds, LoopKind::Unrolled), k = variable("k", turns, LoopKind::Unrolled);
      ValueId inside;
      const Frame early = frameOf(r, k, IndexExpr(0), inside);
      inside = m_f.both(early.inside, inside);
      std::vector<StmtId> loads;
      for (const HeldAccess& h : m_plan.held[number]) {
        const Tensor& t = m_p[h.tensor];
        const BufferId buffer = m_f.addLocal(t.name, arithmeticType(t.type), rounds * turns);
        const auto indicesAt = [&](const Frame& f) {
          std::vector<IndexExpr> indices;
          for (const IndexExpr& e : h.indices) indices.push_back(m_body.at(e, f.axes));
          return indices;
        };
        const auto offsetAt = [&](VarId ofRound, VarId ofTurn) {
          return simplify(turns * valueOf(ofRound) + valueOf(ofTurn), m_f.ranges());
        };
        const ValueId value = m_f.load(element(m_body.buffers[h.tensor.value], stridesOf(t), indicesAt(early)), inside, t.origin);
        loads.push_back(m_f.store(here(buffer, offsetAt(r, k)), value, t.origin));
        m_registers.push_back({h.tensor, indicesAt(frame), buffer, offsetAt(round, turn)});
      }
      append(m_held, looped(r, looped(k, under(inside, std::move(loads), origin), origin), origin));
    }

    std::vector<Accumulator> accumulators;
    std::vector<StmtId> start, step, result;
    for (const OperatorId id : stage.operators) {
      const Operator& op = m_p[id];
      const ValueId term = m_body.lower(id, op.body, frame.axes);
      Accumulator acc;
      acc.op = &op;
      acc.type = m_f[term].type == DType::Bool ? DType::F32 : m_f[term].type;
      acc.value = m_f.addLocal("acc", acc.type, rows);
      acc.other = lanes > 1 ? m_f.addLocal("other", acc.type, rows) : BufferId{};
      const IndexExpr at = valueOf(row);
      start.push_back(m_f.store(here(acc.value, at), m_f.constant(identityOf(op.reducer, acc.type), acc.type), op.origin));
      step.push_back(take(acc, term, at));
      append(result, stores(op, m_f.load(here(acc.value, at)), frame.axes, visible));
      accumulators.push_back(acc);
    }
    std::vector<StmtId> all = looped(row, std::move(start), origin);
    append(all, under(frame.inside, looped(turn, under(termInside, looped(row, std::move(step), origin), origin), origin), origin));
    for (std::int64_t bit = lanes / 2; bit >= 1; bit /= 2) {
      std::vector<StmtId> exchange;
      for (const Accumulator& acc : accumulators) {
        const Place mine = here(acc.value, valueOf(row)), others = here(acc.other, valueOf(row));
        exchange.push_back(m_f.exchange(others, mine, bit, origin));
        exchange.push_back(m_f.store(mine, combine(m_f, acc.op->reducer, m_f.load(mine), m_f.load(others)), origin));
      }
      append(all, looped(row, std::move(exchange), origin));
    }
    const ValueId first = lanes > 1 ? m_f.eq0(lane) : ValueId{};
    append(all, under(m_f.both(frame.inside, first), looped(row, std::move(result), origin), origin));
    return looped(round, looped(block, std::move(all), origin), origin);
  }

  const RecurrenceView& m_view;
  const RecurrencePlan& m_plan;
  const RecurrenceKnobs& m_knobs;
  const Program& m_p;
  Function m_f;
  BodyLowering m_body;
  VarId m_block, m_thread, m_step;
  IndexExpr m_counter;
  std::size_t m_number = SIZE_MAX;     // of the stage that is being made
  IndexExpr m_unit;                    // the value of its unit axis; -1: it has none
  std::vector<BufferId> m_operands;    // by tensor of the subgraph
  std::vector<Share> m_shares;         // of values and weights
  std::vector<std::size_t> m_shareOf;  // by home; SIZE_MAX: it lies in global memory, or nobody reads it
  std::vector<Register> m_registers;
  std::vector<StmtId> m_held;  // what fills shared memory and registers before the first step
};

}  // namespace

Function lowerRecurrence(const RecurrenceView& view, const RecurrencePlan& plan, const RecurrenceKnobs& knobs) {
  return Lowering(view, plan, knobs).run();
}

}  // namespace nf::loop
