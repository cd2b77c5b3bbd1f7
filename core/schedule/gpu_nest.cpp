// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/schedule/gpu.h"
#include "core/schedule/scatter.h"
#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr double kMostParts = 64.0 * (1 << 20);  // bytes of a workspace that holds the parts of split results

double pointsOf(const NestView& view, bool reduced) {
  double points = 1;
  for (const NestAxis& a : view.axes)
    if (a.reduced == reduced) points *= static_cast<double>(a.extent);
  return points;
}

// Builds the kernels of one stage, or the nest of threads that runs it for some rows.
class GpuNest {
 public:
  struct Rows {
    VarId block;
    std::vector<std::int64_t> extents;  // of the row axes
    std::int64_t count = 1;
    int threads = 0;  // of a row
  };

  GpuNest(const GroupView& group, const StagePlan& plan, const GpuStageKnobs& knobs, int threads, Function& function,
          BodyLowering& body, const Rows* rows = nullptr)
      : m_group(group), m_p(*group.program), m_plan(plan), m_knobs(knobs), m_threads(threads), m_f(function), m_body(body),
        m_rows(rows), m_view(viewNest(group, plan, rows ? rows->extents.size() : 0)) {}

  // Of rows: the nest, for the caller to put into their kernel.
  StmtId run() {
    const Operator& first = m_p[m_plan.front()];
    const std::vector<BufferId> visible = m_body.buffers;
    hideOwn(m_group, m_plan, m_body);
    m_targets = visible;
    if (first.kind == OperatorKind::Scatter) scatter(first);
    else if (first.reducer == Reducer::None) elementwise(first);
    else reduction(first);
    m_body.buffers = visible;
    m_body.forget();
    return m_nest;
  }

 private:
  // Who works on which point.
  struct Frame {
    VarId part, block, repeat;
    std::vector<VarId> threads;
    IndexExpr point, group, lane;  // group: number among all of the block
    ValueId inside;                // invalid: always
    int lanes = 1;
    std::vector<IndexExpr> row;  // row axes
  };

  Frame open(std::int64_t points, int lanes, bool across, std::int64_t parts) {
    Frame frame;
    frame.lanes = lanes;
    const int mine = m_rows ? m_rows->threads : m_threads;
    const std::int64_t groups = mine / lanes, together = m_threads / mine;
    const auto thread = [&](const char* name, std::int64_t extent) {
      if (extent == 1) return IndexExpr(0);
      frame.threads.push_back(m_f.addVar(name, extent, LoopKind::Thread));
      return at(frame.threads.back());
    };
    const IndexExpr row = thread("tr", together);
    IndexExpr group;
    if (across) {
      frame.lane = thread("tl", lanes);
      group = thread("tg", groups);
    } else {
      group = thread("tg", groups);
      frame.lane = thread("tl", lanes);
    }
    frame.group = groups * row + group;
    const std::int64_t steps = ceilDiv(points, groups);
    if (m_rows) {
      if (steps > 1) {
        frame.repeat = m_f.addVar("n", steps, LoopKind::Serial);
        group = groups * at(frame.repeat) + group;
      }
      const IndexExpr number = together * at(m_rows->block) + row;
      if (m_rows->count % together != 0) frame.inside = m_f.ge0(IndexExpr(m_rows->count - 1) - number);
      frame.row = digits(number, m_rows->extents, m_f.ranges());
    } else {
      frame.block = m_f.addVar("b", steps, LoopKind::Block);
      if (parts > 1) frame.part = m_f.addVar("part", parts, LoopKind::Block);
      group = groups * at(frame.block) + group;
    }
    if (points % groups != 0) frame.inside = m_f.both(frame.inside, m_f.ge0(IndexExpr(points - 1) - group));
    frame.point = group;
    return frame;
  }

  void close(const Frame& frame, std::vector<StmtId> body, const std::string& name, OriginId origin) {
    if (frame.repeat.valid()) body = {m_f.forEach(frame.repeat, std::move(body), origin)};
    for (auto it = frame.threads.rbegin(); it != frame.threads.rend(); ++it) body = {m_f.forEach(*it, std::move(body), origin)};
    if (m_rows) {
      m_nest = body.front();
      return;
    }
    body = {m_f.forEach(frame.block, std::move(body), origin)};
    if (frame.part.valid()) body = {m_f.forEach(frame.part, std::move(body), origin)};
    m_f.stages.push_back({name, std::move(body)});
  }

  std::vector<StmtId> under(ValueId condition, std::vector<StmtId> body, OriginId origin) {
    if (!condition.valid()) return body;
    return {m_f.when(condition, std::move(body), {}, origin)};
  }

  static void append(std::vector<StmtId>& all, std::vector<StmtId> more) { all.insert(all.end(), more.begin(), more.end()); }

  std::vector<IndexExpr> originals(std::vector<IndexExpr> merged, const Frame& frame) const {
    merged.insert(merged.end(), frame.row.begin(), frame.row.end());
    return originalAxes(m_view, merged, m_f.ranges());
  }

  std::vector<std::size_t> axesThatAre(bool reduced) const {
    std::vector<std::size_t> axes;
    for (std::size_t a = 0; a < m_view.axes.size(); ++a)
      if (m_view.axes[a].reduced == reduced) axes.push_back(a);
    return axes;
  }

  std::vector<std::int64_t> extentsOf(const std::vector<std::size_t>& axes) const {
    std::vector<std::int64_t> extents;
    for (const std::size_t a : axes) extents.push_back(m_view.axes[a].extent);
    return extents;
  }

  static std::int64_t product(const std::vector<std::int64_t>& extents) {
    std::int64_t n = 1;
    for (const std::int64_t e : extents) n *= e;
    return n;
  }

  // The merged axes `which` from the number of their point.
  void assign(std::vector<IndexExpr>& merged, const std::vector<std::size_t>& which, const IndexExpr& number) const {
    const auto made = digits(number, extentsOf(which), m_f.ranges());
    for (std::size_t k = 0; k < which.size(); ++k) merged[which[k]] = made[k];
  }

  Place outputPlace(const Operator& op, const std::vector<IndexExpr>& axes) const {
    Place place;
    place.buffer = m_targets[op.output.value];
    const auto strides = stridesOf(m_p[op.output]);
    for (std::size_t k = 0; k < strides.size(); ++k) place.offset = place.offset + strides[k] * axes[k];
    place.offset = simplify(place.offset, m_f.ranges());
    return place;
  }

  ValueId stored(ValueId value, BufferId buffer) { return m_body.convert(value, arithmeticType(m_f[buffer].type)); }

  // ------------------------------------------------------------ elementwise
  void elementwise(const Operator& first) {
    const auto out = axesThatAre(false);
    auto extents = extentsOf(out);
    const int vector = m_knobs.vector;
    if (vector > 1) extents.back() /= vector;
    Frame frame = open(product(extents), 1, false, 1);
    std::vector<IndexExpr> merged(m_view.axes.size());
    const auto made = digits(frame.point, extents, m_f.ranges());
    for (std::size_t k = 0; k < out.size(); ++k) merged[out[k]] = made[k];
    VarId lane;
    if (vector > 1) {
      lane = m_f.addVar("v", vector, LoopKind::Vector);
      merged[out.back()] = vector * merged[out.back()] + at(lane);
    }
    const auto axes = originals(merged, frame);
    std::vector<StmtId> body;
    for (const OperatorId id : m_plan) {
      const Operator& op = m_p[id];
      const ValueId value = m_body.lower(id, op.body, axes);
      const Place place = outputPlace(op, axes);
      body.push_back(m_f.store(place, stored(value, place.buffer), op.origin));
    }
    if (lane.valid()) body = {m_f.forEach(lane, std::move(body), first.origin)};
    close(frame, under(frame.inside, std::move(body), first.origin), first.name, first.origin);
  }

  // ------------------------------------------------------------ reduction
  struct Accumulator {
    Reducer reducer = Reducer::Sum;
    BufferId value, index;
    DType type = DType::F32;
    OriginId origin;
  };

  static Place here(BufferId buffer, const IndexExpr& offset = IndexExpr(0)) { return {buffer, offset, {}}; }

  // The accumulator takes another value in; of an arg reducer, with where it stands. inOrder: it stands behind all seen so far.
  std::vector<StmtId> take(const Accumulator& acc, ValueId value, ValueId index, bool inOrder) {
    const ValueId old = m_f.load(here(acc.value));
    if (!isArg(acc.reducer)) return {m_f.store(here(acc.value), combine(m_f, acc.reducer, old, value), acc.origin)};
    const ValueId oldIndex = m_f.load(here(acc.index));
    const auto compare = [&](ScalarOp op, ValueId a, ValueId b) { return m_f.apply(op, DType::Bool, {a, b, {}}); };
    ValueId better = acc.reducer == Reducer::ArgMax ? compare(ScalarOp::Lt, old, value) : compare(ScalarOp::Lt, value, old);
    ValueId same = compare(ScalarOp::Eq, old, value);
    if (acc.type != DType::I32) {
      const ValueId newNan = compare(ScalarOp::Ne, value, value), oldNan = compare(ScalarOp::Ne, old, old);
      const ValueId oldFine = compare(ScalarOp::Eq, old, old);
      better = compare(ScalarOp::Or, better, compare(ScalarOp::And, newNan, oldFine));
      same = compare(ScalarOp::Or, same, compare(ScalarOp::And, newNan, oldNan));
    }
    // Of equal ones the first.
    if (!inOrder) better = compare(ScalarOp::Or, better, compare(ScalarOp::And, same, compare(ScalarOp::Lt, index, oldIndex)));
    const BufferId chosen = m_f.addLocal("better", DType::I32, 1);
    const ValueId taken = m_f.apply(ScalarOp::Ne, DType::Bool, {m_f.load(here(chosen)), m_f.constant(0, DType::I32), {}});
    return {m_f.store(here(chosen), m_f.apply(ScalarOp::Cast, DType::I32, {better, {}, {}}), acc.origin),
            m_f.store(here(acc.index), m_f.apply(ScalarOp::Select, DType::I32, {taken, index, oldIndex}), acc.origin),
            m_f.store(here(acc.value), m_f.apply(ScalarOp::Select, acc.type, {taken, value, old}), acc.origin)};
  }

  std::vector<StmtId> startOf(const std::vector<Accumulator>& accumulators) {
    std::vector<StmtId> all;
    for (const Accumulator& acc : accumulators) {
      all.push_back(m_f.store(here(acc.value), m_f.constant(identityOf(acc.reducer, acc.type), acc.type), acc.origin));
      if (acc.index.valid()) all.push_back(m_f.store(here(acc.index), m_f.constant(0, DType::I32), acc.origin));
    }
    return all;
  }

  // Brings the accumulators of the lanes of one result together in that of lane 0.
  std::vector<StmtId> tree(const std::vector<Accumulator>& accumulators, const Frame& frame, OriginId origin) {
    std::vector<StmtId> all;
    const std::int64_t lanes = frame.lanes;
    if (lanes == 1) return all;
    if (!m_knobs.across) {
      for (const Accumulator& acc : accumulators) {
        const BufferId other = m_f.addLocal("other", acc.type, 1);
        const BufferId otherIndex = acc.index.valid() ? m_f.addLocal("otherIndex", DType::I32, 1) : BufferId{};
        for (std::int64_t bit = std::min<std::int64_t>(lanes, kWarp) / 2; bit >= 1; bit /= 2) {
          all.push_back(m_f.exchange(here(other), here(acc.value), bit, origin));
          if (acc.index.valid()) all.push_back(m_f.exchange(here(otherIndex), here(acc.index), bit, origin));
          append(all, take(acc, m_f.load(here(other)), acc.index.valid() ? m_f.load(here(otherIndex)) : ValueId{}, false));
        }
      }
      if (lanes <= kWarp) return all;
    }
    // Through shared memory: a slot a warp, or a slot a thread.
    const std::int64_t slots = m_knobs.across ? lanes : lanes / kWarp, groups = m_threads / lanes;
    const auto slot = [&](const IndexExpr& number) {
      return m_knobs.across ? groups * number + frame.group : slots * frame.group + number;
    };
    const IndexExpr own = m_knobs.across ? frame.lane : floorDiv(frame.lane, kWarp);
    if (frame.repeat.valid()) all.push_back(m_f.barrier(origin));
    std::vector<StmtId> write, read;
    for (const Accumulator& acc : accumulators) {
      const BufferId values = m_f.addShared("lanes", acc.type, slots * groups);
      const BufferId indices = acc.index.valid() ? m_f.addShared("places", DType::I32, slots * groups) : BufferId{};
      write.push_back(m_f.store(here(values, slot(own)), m_f.load(here(acc.value)), origin));
      if (acc.index.valid()) write.push_back(m_f.store(here(indices, slot(own)), m_f.load(here(acc.index)), origin));
      read.push_back(m_f.store(here(acc.value), m_f.load(here(values, slot(IndexExpr(0)))), origin));
      if (acc.index.valid()) read.push_back(m_f.store(here(acc.index), m_f.load(here(indices, slot(IndexExpr(0)))), origin));
      if (slots == 1) continue;
      const VarId j = m_f.addVar("j", slots - 1, LoopKind::Serial);
      const IndexExpr next = slot(at(j) + IndexExpr(1));
      const ValueId index = acc.index.valid() ? m_f.load(here(indices, next)) : ValueId{};
      read.push_back(m_f.forEach(j, take(acc, m_f.load(here(values, next)), index, false), origin));
    }
    if (!m_knobs.across) write = under(m_f.eq0(floorMod(frame.lane, kWarp)), std::move(write), origin);
    append(all, std::move(write));
    all.push_back(m_f.barrier(origin));
    append(all, under(m_f.eq0(frame.lane), std::move(read), origin));
    return all;
  }

  // Row-major number of a reduced point.
  IndexExpr linearReduced(const Operator& op, const std::vector<IndexExpr>& axes) const {
    IndexExpr linear;
    for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) linear = op.axes[k].extent * linear + axes[k];
    return simplify(linear, m_f.ranges());
  }

  // Loops over the reduced points of this lane and part.
  struct Steps {
    std::vector<VarId> loops;
    ValueId inside;
  };

  Steps walk(std::vector<IndexExpr>& merged, const std::vector<std::size_t>& which, const Frame& frame, std::int64_t parts) {
    Steps steps;
    const auto extents = extentsOf(which);
    const std::int64_t points = product(extents);
    if (frame.lanes == 1 && parts == 1) {
      for (const std::size_t a : which) {
        steps.loops.push_back(m_f.addVar(m_view.axes[a].name, m_view.axes[a].extent, LoopKind::Serial));
        merged[a] = at(steps.loops.back());
      }
      return steps;
    }
    const std::int64_t each = ceilDiv(points, parts), trips = ceilDiv(each, frame.lanes);
    IndexExpr number = frame.lane;
    if (trips > 1) {
      steps.loops.push_back(m_f.addVar("k", trips, LoopKind::Serial));
      number = static_cast<std::int64_t>(frame.lanes) * at(steps.loops.back()) + number;
    }
    if (parts > 1) {
      if (each % frame.lanes != 0) steps.inside = m_f.ge0(IndexExpr(each - 1) - number);
      number = each * at(frame.part) + number;
    }
    if (parts * each != points || (parts == 1 && points % frame.lanes != 0))
      steps.inside = m_f.both(steps.inside, m_f.ge0(IndexExpr(points - 1) - number));
    assign(merged, which, number);
    return steps;
  }

  std::vector<StmtId> looped(const Steps& steps, std::vector<StmtId> body, OriginId origin) {
    body = under(steps.inside, std::move(body), origin);
    for (auto it = steps.loops.rbegin(); it != steps.loops.rend(); ++it) body = {m_f.forEach(*it, std::move(body), origin)};
    return body;
  }

  void reduction(const Operator& first) {
    const auto out = axesThatAre(false), reduced = axesThatAre(true);
    const std::int64_t points = product(extentsOf(out)), parts = m_knobs.split;
    Frame frame = open(points, m_knobs.lanes, m_knobs.across, parts);
    std::vector<IndexExpr> merged(m_view.axes.size());
    assign(merged, out, frame.point);
    const Steps steps = walk(merged, reduced, frame, parts);
    const auto axes = originals(merged, frame);
    std::vector<Accumulator> accumulators;
    std::vector<StmtId> step, result;
    std::vector<BufferId> partial;
    for (const OperatorId id : m_plan) {
      const Operator& op = m_p[id];
      ValueId value = m_body.lower(id, op.body, axes);
      Accumulator acc;
      acc.reducer = op.reducer;
      acc.origin = op.origin;
      acc.type = m_f[value].type == DType::Bool ? DType::F32 : m_f[value].type;
      acc.value = m_f.addLocal("acc", acc.type, 1);
      value = m_body.convert(value, acc.type);
      ValueId index;
      if (isArg(op.reducer)) {
        acc.index = m_f.addLocal("arg", DType::I32, 1);
        index = m_f.indexValue(linearReduced(op, axes), DType::I32);
      }
      append(step, take(acc, value, index, true));
      accumulators.push_back(acc);
      const ValueId last = m_f.load(here(acc.index.valid() ? acc.index : acc.value));
      if (parts > 1) {
        partial.push_back(m_f.addWorkspace(op.name + "#parts", acc.type, parts * points));
        result.push_back(m_f.store(here(partial.back(), points * at(frame.part) + frame.point), last, op.origin));
        continue;
      }
      const Place place = outputPlace(op, axes);
      result.push_back(m_f.store(place, stored(last, place.buffer), op.origin));
    }
    std::vector<StmtId> all = startOf(accumulators);
    append(all, under(frame.inside, looped(steps, std::move(step), first.origin), first.origin));
    append(all, tree(accumulators, frame, first.origin));
    append(all, under(m_f.both(frame.inside, frame.lanes > 1 ? m_f.eq0(frame.lane) : ValueId{}), std::move(result), first.origin));
    close(frame, std::move(all), first.name, first.origin);
    if (parts > 1) together(first, partial, accumulators, points, out);
  }

  // The parts of each result, in order.
  void together(const Operator& first, const std::vector<BufferId>& partial, const std::vector<Accumulator>& made,
                std::int64_t points, const std::vector<std::size_t>& out) {
    const int lanes = m_knobs.split >= kWarp && points < m_threads ? kWarp : 1;
    m_knobs.across = false;
    Frame frame = open(points, lanes, false, 1);
    std::vector<IndexExpr> merged(m_view.axes.size());
    assign(merged, out, frame.point);
    const auto axes = originals(merged, frame);
    std::vector<Accumulator> accumulators;
    std::vector<StmtId> step, result;
    const VarId k = m_f.addVar("k", ceilDiv(m_knobs.split, lanes), LoopKind::Serial);
    const IndexExpr part = static_cast<std::int64_t>(lanes) * at(k) + frame.lane;
    for (std::size_t n = 0; n < m_plan.size(); ++n) {
      const Operator& op = m_p[m_plan[n]];
      Accumulator acc = made[n];
      acc.value = m_f.addLocal("acc", acc.type, 1);
      append(step, take(acc, m_f.load(here(partial[n], points * part + frame.point)), {}, true));
      const Place place = outputPlace(op, axes);
      result.push_back(m_f.store(place, stored(m_f.load(here(acc.value)), place.buffer), op.origin));
      accumulators.push_back(acc);
    }
    Steps steps;
    steps.loops = {k};
    if (m_knobs.split % lanes != 0) steps.inside = m_f.ge0(IndexExpr(m_knobs.split - 1) - part);
    std::vector<StmtId> all = startOf(accumulators);
    append(all, under(frame.inside, looped(steps, std::move(step), first.origin), first.origin));
    append(all, tree(accumulators, frame, first.origin));
    append(all, under(m_f.both(frame.inside, lanes > 1 ? m_f.eq0(frame.lane) : ValueId{}), std::move(result), first.origin));
    close(frame, std::move(all), first.name + " of its parts", first.origin);
  }

  // ------------------------------------------------------------ scatter
  void fill(const Operator& op, BufferId target) {
    const std::int64_t n = m_f[target].elements;
    Frame frame = open(n, 1, false, 1);
    const StmtId store = m_f.store(here(target, frame.point), m_f.constant(0, arithmeticType(m_f[target].type)), op.origin);
    close(frame, under(frame.inside, {store}, op.origin), op.name + " = 0", op.origin);
  }

  // Axes whose points never meet in one element are spread over threads; a thread walks the others in order, so that each element is
  // summed in one order. Parts have an output each.
  void scatter(const Operator& op) {
    const OperatorId id = m_plan.front();
    const BufferId target = m_targets[op.output.value];
    const std::int64_t parts = m_knobs.split, elements = m_f[target].elements;
    const DType type = arithmeticType(m_f[target].type);
    const BufferId into = parts > 1 ? m_f.addWorkspace(op.name + "#parts", type, parts * elements) : target;
    fill(op, into);
    std::vector<std::size_t> free, ordered;
    {
      std::vector<std::int64_t> extents;
      std::vector<IndexExpr> merged;
      for (std::size_t a = 0; a < m_view.axes.size(); ++a) {
        merged.push_back(IndexExpr::variable(static_cast<IndexVar>(a)));
        extents.push_back(m_view.axes[a].extent);
      }
      const RangeOf ranges = rangesOf(std::span<const std::int64_t>(extents));
      for (std::size_t a = 0; a < m_view.axes.size(); ++a)
        (iterationsNeverMeet(op, m_view.original, static_cast<IndexVar>(a), ranges) ? free : ordered).push_back(a);
    }
    Frame frame = open(product(extentsOf(free)), 1, false, parts);
    std::vector<IndexExpr> merged(m_view.axes.size());
    assign(merged, free, frame.point);
    const Steps steps = walk(merged, ordered, frame, parts);
    const auto axes = originals(merged, frame);
    const ScatterParts pieces = partsOf(m_p, op);
    const ValueId guard = storeGuard(m_p, id, pieces, axes, m_f, m_body);
    const ValueId value = m_body.lower(id, pieces.value, axes);
    Place place = m_body.place(id, op.output, into, op.scatter, axes);
    if (parts > 1) place.offset = place.offset + elements * at(frame.part);
    const ValueId sum = m_f.apply(ScalarOp::Add, type, {m_f.load(place), m_body.convert(value, type), {}}, op.origin);
    std::vector<StmtId> body = under(guard, {m_f.store(std::move(place), sum, op.origin)}, op.origin);
    close(frame, under(frame.inside, looped(steps, std::move(body), op.origin), op.origin), op.name, op.origin);
    if (parts == 1) return;
    Frame last = open(elements, 1, false, 1);
    const BufferId acc = m_f.addLocal("acc", type, 1);
    const VarId k = m_f.addVar("k", parts, LoopKind::Serial);
    const ValueId more =
        m_f.apply(ScalarOp::Add, type, {m_f.load(here(acc)), m_f.load(here(into, elements * at(k) + last.point)), {}});
    std::vector<StmtId> all{m_f.store(here(acc), m_f.constant(0, type), op.origin),
                            m_f.forEach(k, {m_f.store(here(acc), more, op.origin)}, op.origin),
                            m_f.store(here(target, last.point), m_f.load(here(acc)), op.origin)};
    close(last, under(last.inside, std::move(all), op.origin), op.name + " of its parts", op.origin);
  }

  const GroupView& m_group;
  const Program& m_p;
  const StagePlan& m_plan;
  GpuStageKnobs m_knobs;
  int m_threads;
  Function& m_f;
  BodyLowering& m_body;
  const Rows* m_rows;
  NestView m_view;
  StmtId m_nest;
  std::vector<BufferId> m_targets;
};

}  // namespace

std::vector<IndexExpr> digits(const IndexExpr& number, const std::vector<std::int64_t>& extents, const RangeOf& ranges) {
  std::vector<IndexExpr> result(extents.size());
  IndexExpr rest = number;
  for (std::size_t k = extents.size(); k-- > 0;) {
    result[k] = simplify(k == 0 ? rest : floorMod(rest, extents[k]), ranges);
    if (k > 0) rest = simplify(floorDiv(rest, extents[k]), ranges);
  }
  return result;
}

void lowerGpuStage(const GroupView& group, const StagePlan& stage, const GpuStageKnobs& knobs, int threads, Function& function,
                   BodyLowering& body) {
  GpuNest(group, stage, knobs, threads, function, body).run();
}

void lowerGpuRows(const GroupView& group, const std::vector<StagePlan>& stages, std::size_t rowAxes,
                  const std::vector<GpuStageKnobs>& knobs, int rowThreads, int threads, Function& function, BodyLowering& body) {
  const Program& p = *group.program;
  const Operator& first = p[stages.front().front()];
  GpuNest::Rows rows;
  rows.threads = rowThreads;
  for (std::size_t k = 0; k < rowAxes; ++k) {
    rows.extents.push_back(first.axes[k].extent);
    rows.count *= first.axes[k].extent;
  }
  rows.block = function.addVar("b", ceilDiv(rows.count, threads / rowThreads), LoopKind::Block);
  std::vector<StmtId> nests;
  for (std::size_t s = 0; s < stages.size(); ++s)
    nests.push_back(GpuNest(group, stages[s], knobs[s], threads, function, body, &rows).run());
  function.stages.push_back({p[stages.back().back()].name, {function.forEach(rows.block, std::move(nests), first.origin)}});
}

std::string refuseGpuStage(const NestView& view, bool scatter, bool arg, const GpuStageKnobs& knobs, int threads, bool inRows) {
  const bool reduces = std::any_of(view.axes.begin(), view.axes.end(), [](const NestAxis& a) { return a.reduced; });
  const NestAxis* last = nullptr;
  for (const NestAxis& a : view.axes)
    if (!a.reduced) last = &a;
  if (knobs.vector > 1 && (scatter || reduces || !last || last->extent % knobs.vector != 0))
    return "knob vector does not divide the last axis of an elementwise stage";
  if (knobs.lanes > 1 && (scatter || !reduces)) return "knob lanes is a reduction's";
  if (knobs.lanes > threads) return "knob lanes is more than the threads there are";
  if (knobs.across && (knobs.lanes < 2 || knobs.lanes > kWarp || knobs.lanes == threads))
    return "knob order keeps 2 to 32 lanes apart, and fewer than the threads there are";
  if (knobs.split == 1) return {};
  if (inRows) return "knob split does not go with rows";
  if (arg || (!reduces && !scatter)) return "knob split takes a sum, a product, a maximum or a minimum";
  const double points = pointsOf(view, scatter ? false : true);
  if (knobs.split > points) return "knob split has more parts than there are points";
  if ((scatter ? view.bytes : pointsOf(view, false) * 8) * knobs.split > kMostParts)
    return "the parts of knob split take too much memory";
  return {};
}

// Traffic of distinct bytes with what uncoalesced accesses add, arithmetic, and the chain of one thread; the slowest of them counts.
double estimateGpuStage(const NestView& view, bool scatter, const GpuStageKnobs& knobs, int threads, bool inRows,
                        const Target& target) {
  const double processors = static_cast<double>(std::max<std::int64_t>(target.threads, 1));
  const double flops = (target.peakFlops > 0 ? target.peakFlops : 2e11) * processors;
  const double bandwidth = target.peakBandwidth > 0 ? target.peakBandwidth : 1e12;
  const double made = scatter ? view.points : pointsOf(view, false), reduced = scatter ? 1 : pointsOf(view, true);
  const double groups = static_cast<double>(threads) / knobs.lanes;
  double workers = made / knobs.vector * knobs.lanes * knobs.split, chain = std::ceil(reduced / (knobs.lanes * knobs.split));
  if (inRows) {
    workers = view.rows * std::min(static_cast<double>(threads), made / knobs.vector * knobs.lanes);
    chain *= std::ceil(made / knobs.vector / groups);
  }
  // The axis along which neighbouring threads move.
  double cost = 1;
  for (std::size_t a = 0; a < view.axes.size(); ++a)
    if (view.axes[a].reduced == (knobs.lanes > 1 && !knobs.across)) cost = view.accessCost[a];
  const double accesses = static_cast<double>(std::max<std::size_t>(view.accesses, 1));
  const double apart = std::clamp(cost / accesses, 1.0, 8.0);
  constexpr double kResident = 1024;  // threads of a multiprocessor that keep its memory busy
  const double used = std::min(1.0, std::max(workers, 1.0) / (processors * kResident));
  const double memory = view.bytes * apart / bandwidth / std::sqrt(used);
  const double compute = view.points * (view.work + 8 * view.calls + accesses + 4) / flops / used;
  constexpr double kStep = 25e-9, kExchange = 10e-9, kBarrier = 40e-9;
  double latency = chain * kStep * knobs.vector + kExchange * std::log2(knobs.lanes);
  if (knobs.lanes > kWarp || knobs.across) latency += kBarrier;
  if (inRows) latency += kBarrier;
  double seconds = std::max({memory, compute, latency}) + 0.2 * (memory + compute);
  if (!inRows) seconds += target.launchSeconds;
  if (knobs.split > 1) seconds += target.launchSeconds + knobs.split * kStep;
  if (scatter) seconds += target.launchSeconds;
  return seconds;
}

GpuStageKnobs firstGpuStage(const NestView& view, bool scatter, bool arg, int threads, bool inRows, const Target& target) {
  GpuStageKnobs best;
  double bestSeconds = estimateGpuStage(view, scatter, best, threads, inRows, target);
  const auto consider = [&](const GpuStageKnobs& knobs) {
    if (!refuseGpuStage(view, scatter, arg, knobs, threads, inRows).empty()) return;
    const double seconds = estimateGpuStage(view, scatter, knobs, threads, inRows, target);
    if (seconds >= bestSeconds) return;
    best = knobs;
    bestSeconds = seconds;
  };
  for (const int vector : {2, 4}) consider({vector, 1, false, 1});
  for (int lanes = 1; lanes <= threads; lanes *= 2)
    for (const bool across : {false, true})
      for (int split = 1; split <= 256; split *= 2) consider({1, lanes, across, split});
  return best;
}

}  // namespace nf::loop
