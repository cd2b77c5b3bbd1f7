// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/schedule/gpu.h"
#include "core/schedule/phases.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::int64_t kPad = 4;                 // elements: threads that write a column of a slice meet in fewer banks
constexpr std::int64_t kSharedBytes = 48 << 10;  // what every device gives a block without being asked
constexpr double kMostParts = 64.0 * (1 << 20);  // bytes of a workspace that holds the parts of split results

// One operand, and how its slices come into shared memory.
struct Side {
  const std::vector<ExprId>* factors = nullptr;
  std::vector<std::size_t> axes;  // merged axes of its own: left's or right's
  std::int64_t points = 1;        // of them
  std::int64_t block = 1;         // of them in a slice
  bool innerFast = false;         // neighbouring threads take neighbours along the reduced axes
  std::int64_t row = 1;           // elements between neighbours along the reduced points, in shared memory
  bool plain = false;             // a read of memory as it is, under conditions at most
  ExprId read;
  BufferId shared;
  VarId tile;  // of the grid
};

class GpuContraction {
 public:
  GpuContraction(const GroupView& group, const ContractionView& view, const GpuContractionKnobs& knobs)
      : m_p(*group.program), m_group(group), m_view(view), m_knobs(knobs) {}

  Function run() {
    declareOperands(m_group, m_f, m_buffers);
    BodyLowering body(m_p, m_f);
    m_body = &body;
    body.buffers = m_buffers;
    for (const OperatorId id : m_view.before) {
      const TensorId t = m_p[id].output;
      if (!body.buffers[t.value].valid()) declareWorkspace(m_group, m_f, body.buffers, t);
      lowerGpuStage(m_group, {id}, {}, 256, m_f, body);
    }
    m_made = m_p[m_view.op].output;
    m_targets = body.buffers;
    body.buffers[m_made.value] = {};
    for (const OperatorId id : m_view.epilogue) body.buffers[m_p[id].output.value] = {};
    kernel();
    return std::move(m_f);
  }

 private:
  OriginId origin() const { return m_p[m_view.op].origin; }
  const NestAxis& axis(std::size_t a) const { return m_view.nest.axes[a]; }

  std::vector<std::size_t> axesOf(AxisClass c, std::int64_t& points) const {
    std::vector<std::size_t> axes;
    points = 1;
    for (std::size_t a = 0; a < m_view.classes.size(); ++a)
      if (m_view.classes[a] == c) {
        axes.push_back(a);
        points *= axis(a).extent;
      }
    return axes;
  }

  void assign(std::vector<IndexExpr>& merged, const std::vector<std::size_t>& which, const IndexExpr& number) const {
    std::vector<std::int64_t> extents;
    for (const std::size_t a : which) extents.push_back(axis(a).extent);
    const auto made = digits(number, extents, m_f.ranges());
    for (std::size_t k = 0; k < which.size(); ++k) merged[which[k]] = made[k];
  }

  std::vector<IndexExpr> originals(const std::vector<IndexExpr>& merged) const {
    std::vector<IndexExpr> axes;
    for (const IndexExpr& e : m_view.nest.original)
      axes.push_back(simplify(substitute(e,
                                         [&](IndexVar v) -> std::optional<IndexExpr> {
                                           if (v < merged.size()) return merged[v];
                                           return std::nullopt;
                                         }),
                              m_f.ranges()));
    return axes;
  }

  std::vector<StmtId> under(ValueId condition, std::vector<StmtId> body, std::vector<StmtId> otherwise = {}) {
    if (!condition.valid()) return body;
    return {m_f.when(condition, std::move(body), std::move(otherwise), origin())};
  }
  ValueId below(const IndexExpr& e, std::int64_t extent, bool always) {
    return always ? ValueId{} : m_f.ge0(IndexExpr(extent - 1) - e);
  }
  StmtId loop(VarId v, std::vector<StmtId> body) { return m_f.forEach(v, std::move(body), origin()); }
  static void append(std::vector<StmtId>& all, std::vector<StmtId> more) { all.insert(all.end(), more.begin(), more.end()); }

  // 1 where the side's first load moves by one element along the fastest of the axes.
  static bool contiguous(const std::vector<double>& strides, const std::vector<std::size_t>& axes) {
    return !axes.empty() && strides[axes.back()] == 1;
  }

  void open(Side& side, AxisClass c, const std::vector<ExprId>& factors, bool plain, ExprId read,
            const std::vector<double>& strides, std::int64_t block, const char* name) {
    side.axes = axesOf(c, side.points);
    side.factors = &factors;
    side.plain = plain;
    side.read = read;
    side.block = block;
    side.innerFast = contiguous(strides, m_inner) && !contiguous(strides, side.axes);
    side.row = block + (side.innerFast ? kPad : 0);
    side.shared = m_f.addShared(name, DType::F32, m_knobs.stages * m_knobs.blockK * side.row);
  }

  void kernel() {
    m_batch = axesOf(AxisClass::Batch, m_batches);
    m_inner = axesOf(AxisClass::Inner, m_steps);
    open(m_left, AxisClass::Left, m_view.left, m_view.leftPlain, m_view.leftRead, m_view.leftStride, m_knobs.blockM, "left");
    open(m_right, AxisClass::Right, m_view.right, m_view.rightPlain, m_view.rightRead, m_view.rightStride, m_knobs.blockN, "right");
    m_slices = ceilDiv(m_steps, m_knobs.blockK);
    m_each = ceilDiv(m_slices, m_knobs.split);

    std::vector<VarId> blocks;
    const auto block = [&](const char* name, std::int64_t extent) {
      const VarId v = m_f.addVar(name, extent, LoopKind::Block);
      if (extent > 1) blocks.push_back(v);
      return v;
    };
    const VarId batch = block("b", m_batches);
    m_part = block("part", m_knobs.split);
    m_left.tile = block("mb", ceilDiv(m_left.points, m_knobs.blockM));
    m_right.tile = block("nb", ceilDiv(m_right.points, m_knobs.blockN));
    // A loop of one point is a zero.
    m_partIndex = m_knobs.split > 1 ? at(m_part) : IndexExpr(0);
    m_batchIndex = m_batches > 1 ? at(batch) : IndexExpr(0);
    if (blocks.empty()) blocks.push_back(m_right.tile);
    const std::int64_t across = m_knobs.blockN / m_knobs.threadN, down = m_knobs.blockM / m_knobs.threadM;
    const VarId tm = m_f.addVar("tm", down, LoopKind::Thread), tn = m_f.addVar("tn", across, LoopKind::Thread);
    m_tm = at(tm);
    m_tn = at(tn);
    m_thread = across * m_tm + m_tn;
    m_threads = across * down;
    m_merged.assign(m_view.nest.axes.size(), IndexExpr{});
    assign(m_merged, m_batch, m_batchIndex);
    m_acc = m_f.addLocal("acc", DType::F32, m_knobs.threadM * m_knobs.threadN);
    m_a = m_f.addLocal("a", DType::F32, m_knobs.threadM);
    m_b = m_f.addLocal("b", DType::F32, m_knobs.threadN);

    std::vector<StmtId> body = zero();
    append(body, pipeline());
    append(body, m_knobs.split > 1 ? storeParts() : storeResults());
    body = {loop(tm, {loop(tn, std::move(body))})};
    for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) body = {loop(*it, std::move(body))};
    m_f.stages.push_back({m_p[m_view.op].name, std::move(body)});
    if (m_knobs.split > 1) together();
  }

  std::vector<StmtId> zero() {
    const VarId i = m_f.addVar("i", m_knobs.threadM * m_knobs.threadN, LoopKind::Unrolled);
    return {loop(i, {m_f.store({m_acc, at(i), {}}, m_f.constant(0, DType::F32), origin())})};
  }

  // ------------------------------------------------------------ slices
  std::vector<StmtId> pipeline() {
    const std::int64_t stages = m_knobs.stages;
    std::vector<StmtId> all;
    for (std::int64_t s = 0; s + 1 < stages; ++s) {
      append(all, bring(IndexExpr(s), IndexExpr(s), below(IndexExpr(s), m_each, s < m_each)));
      all.push_back(m_f.asyncCommit(origin()));
    }
    const VarId slice = m_f.addVar("slice", m_each, LoopKind::Serial);
    const IndexExpr next = at(slice) + IndexExpr(stages - 1);
    std::vector<StmtId> inside;
    if (stages == 1) {
      append(inside, bring(at(slice), IndexExpr(0), {}));
      inside.push_back(m_f.asyncCommit(origin()));
      inside.push_back(m_f.asyncWait(0, origin()));
      inside.push_back(m_f.barrier(origin()));
      append(inside, multiply(IndexExpr(0)));
      inside.push_back(m_f.barrier(origin()));
    } else {
      inside.push_back(m_f.asyncWait(stages - 2, origin()));
      inside.push_back(m_f.barrier(origin()));
      append(inside, bring(next, floorMod(next, stages), m_f.ge0(IndexExpr(m_each - 1) - next)));
      inside.push_back(m_f.asyncCommit(origin()));
      append(inside, multiply(floorMod(at(slice), stages)));
    }
    all.push_back(loop(slice, std::move(inside)));
    if (stages > 1) all.push_back(m_f.asyncWait(0, origin()));
    return all;
  }

  // Starts the copies of one slice into one of the buffers.
  std::vector<StmtId> bring(const IndexExpr& slice, const IndexExpr& buffer, ValueId there) {
    std::vector<StmtId> all;
    for (const Side* side : {&m_left, &m_right}) append(all, bringSide(*side, slice, buffer));
    return under(there, std::move(all));
  }

  std::vector<StmtId> bringSide(const Side& side, const IndexExpr& slice, const IndexExpr& buffer) {
    const bool aligned = side.plain && side.block % 4 == 0 && side.points % 4 == 0 && !side.innerFast;
    if (aligned)
      if (auto wide = bringElements(side, slice, buffer, 4)) return std::move(*wide);
    return *bringElements(side, slice, buffer, 1);
  }

  // `width` neighbours of the side's own points a copy. nullopt: they are not neighbours in memory.
  std::optional<std::vector<StmtId>> bringElements(const Side& side, const IndexExpr& slice, const IndexExpr& buffer,
                                                   std::int64_t width) {
    const std::int64_t columns = side.block / width, total = columns * m_knobs.blockK, rounds = ceilDiv(total, m_threads);
    IndexExpr number = m_thread;
    VarId round;
    if (rounds > 1) {
      round = m_f.addVar("e", rounds, LoopKind::Unrolled);
      number = m_threads * at(round) + number;
    }
    IndexExpr inSlice, own;
    if (side.innerFast) {
      inSlice = floorMod(number, m_knobs.blockK);
      own = floorDiv(number, m_knobs.blockK);
    } else {
      inSlice = floorDiv(number, columns);
      own = width * floorMod(number, columns);
    }
    inSlice = simplify(inSlice, m_f.ranges());
    own = simplify(own, m_f.ranges());
    const Place to{side.shared, simplify(m_knobs.blockK * side.row * buffer + side.row * inSlice + own, m_f.ranges()), {}};
    const IndexExpr step = m_knobs.blockK * (m_each * m_partIndex + slice) + inSlice;
    const std::int64_t tiles = ceilDiv(side.points, side.block);
    const IndexExpr point = tiles > 1 ? side.block * at(side.tile) + own : own;
    std::vector<IndexExpr> merged = m_merged;
    assign(merged, m_inner, step);
    assign(merged, side.axes, point);
    const std::vector<IndexExpr> axes = originals(merged);
    ValueId inside = below(step, m_steps, m_each * m_knobs.blockK * m_knobs.split == m_steps);
    inside = m_f.both(inside, below(point, side.points, side.points % side.block == 0));

    std::vector<StmtId> body;
    if (side.plain) {
      for (const ExprId c : peel(m_p, side.factors->front()).conditions)
        inside = m_f.both(inside, m_body->lower(m_view.op, c, axes));
      const ValueId value = m_body->lower(m_view.op, side.read, axes);
      const Place from = m_f[value].place;
      if (width > 1) {
        // Another point than the first may be under another condition or elsewhere.
        if (!peel(m_p, side.factors->front()).conditions.empty() || !neighbours(from.offset, merged, side, point, width))
          return std::nullopt;
      }
      body.push_back(m_f.asyncCopy(to, from, width, origin()));
    } else {
      ValueId value;
      for (const ExprId f : *side.factors) {
        const ValueId one = m_body->convert(m_body->lower(m_view.op, f, axes), DType::F32);
        value = value.valid() ? m_f.apply(ScalarOp::Mul, DType::F32, {value, one, {}}) : one;
      }
      body.push_back(m_f.store(to, value, origin()));
    }
    std::vector<StmtId> otherwise;
    if (inside.valid())
      for (std::int64_t w = 0; w < width; ++w)
        otherwise.push_back(m_f.store({side.shared, to.offset + IndexExpr(w), {}}, m_f.constant(0, DType::F32), origin()));
    body = under(inside, std::move(body), std::move(otherwise));
    if (total % m_threads != 0) body = under(m_f.ge0(IndexExpr(total - 1) - number), std::move(body));
    if (round.valid()) body = {loop(round, std::move(body))};
    m_body->forget();
    return body;
  }

  // The next points of the side lie side by side in memory, from a multiple of `width` on.
  bool neighbours(const IndexExpr& offset, std::vector<IndexExpr> merged, const Side& side, const IndexExpr& point,
                  std::int64_t width) {
    if (offset.constant() % width != 0) return false;
    for (const IndexTerm& t : offset.terms())
      if (t.coefficient % width != 0) return false;
    for (std::int64_t w = 1; w < width; ++w) {
      assign(merged, side.axes, point + IndexExpr(w));
      const ValueId value = m_body->lower(m_view.op, side.read, originals(merged));
      if (!(m_f[value].place.offset == offset + IndexExpr(w))) return false;
    }
    return true;
  }

  // ------------------------------------------------------------ register tile
  // Of a thread's results along one side: `width` neighbours, then the next ones as far away as all threads' together.
  static std::int64_t widthOf(std::int64_t mine) { return std::min<std::int64_t>(mine, 4); }

  std::vector<StmtId> multiply(const IndexExpr& buffer) {
    const std::int64_t unrolled = std::min<std::int64_t>(4, m_knobs.blockK);
    const VarId outer = m_f.addVar("k", m_knobs.blockK / unrolled, LoopKind::Serial);
    const VarId inner = m_f.addVar("ku", unrolled, LoopKind::Unrolled);
    const IndexExpr step = simplify(unrolled * at(outer) + at(inner), m_f.ranges());
    const auto take = [&](const Side& side, BufferId into, std::int64_t mine, const IndexExpr& thread) {
      const std::int64_t width = widthOf(mine), apart = side.block / mine * width;
      const VarId c = m_f.addVar("c", mine / width, LoopKind::Unrolled), v = m_f.addVar("v", width, LoopKind::Vector);
      const IndexExpr from = m_knobs.blockK * side.row * buffer + side.row * step + apart * at(c) + width * thread + at(v);
      const StmtId store = m_f.store({into, width * at(c) + at(v), {}}, m_f.load({side.shared, from, {}}), origin());
      return loop(c, {loop(v, {store})});
    };
    std::vector<StmtId> body{take(m_left, m_a, m_knobs.threadM, m_tm), take(m_right, m_b, m_knobs.threadN, m_tn)};
    const VarId i = m_f.addVar("i", m_knobs.threadM, LoopKind::Unrolled), j = m_f.addVar("j", m_knobs.threadN, LoopKind::Unrolled);
    const Place acc{m_acc, m_knobs.threadN * at(i) + at(j), {}};
    const ValueId sum = m_f.fma(m_f.load({m_a, at(i), {}}), m_f.load({m_b, at(j), {}}), m_f.load(acc), origin());
    body.push_back(loop(i, {loop(j, {m_f.store(acc, sum, origin())})}));
    return {loop(outer, {loop(inner, std::move(body))})};
  }

  // Statements for each result of the thread's tile, made by `point` of row, column and place in the tile.
  template <class Make>
  std::vector<StmtId> overTile(Make&& make) {
    const std::int64_t wm = widthOf(m_knobs.threadM), wn = widthOf(m_knobs.threadN);
    const VarId ci = m_f.addVar("ci", m_knobs.threadM / wm, LoopKind::Unrolled), vi = m_f.addVar("vi", wm, LoopKind::Unrolled);
    const VarId cj = m_f.addVar("cj", m_knobs.threadN / wn, LoopKind::Unrolled);
    const bool whole = m_right.points % wn == 0;  // a thread's neighbours are inside or outside together
    const VarId vj = m_f.addVar("vj", wn, whole ? LoopKind::Vector : LoopKind::Unrolled);
    const auto start = [&](const Side& side) {
      return ceilDiv(side.points, side.block) > 1 ? side.block * at(side.tile) : IndexExpr(0);
    };
    const IndexExpr row = start(m_left) + m_knobs.blockM / m_knobs.threadM * wm * at(ci) + wm * m_tm + at(vi);
    const IndexExpr first = start(m_right) + m_knobs.blockN / m_knobs.threadN * wn * at(cj) + wn * m_tn;
    const IndexExpr column = first + at(vj);
    const IndexExpr place = m_knobs.threadN * (wm * at(ci) + at(vi)) + wn * at(cj) + at(vj);
    std::vector<StmtId> body = make(row, column, place);
    const ValueId rowInside = below(row, m_left.points, m_left.points % m_left.block == 0);
    const ValueId columnInside = below(whole ? first : column, m_right.points, m_right.points % m_right.block == 0);
    if (whole) body = under(columnInside, {loop(vj, std::move(body))});
    else body = {loop(vj, under(columnInside, std::move(body)))};
    return {loop(ci, {loop(vi, under(rowInside, {loop(cj, std::move(body))}))})};
  }

  // The contraction's output, where it is one, and the epilogue, of the sum at m_sum.
  std::vector<StmtId> results(const std::vector<IndexExpr>& merged, const Place& sum) {
    const std::vector<IndexExpr> axes = originals(merged);
    m_body->special = [this, &sum](TensorId t, const std::vector<IndexExpr>&) -> std::optional<ValueId> {
      if (t != m_made) return std::nullopt;
      return m_f.load(sum);
    };
    const auto place = [&](const Operator& op) {
      Place to;
      to.buffer = m_targets[op.output.value];
      const auto strides = stridesOf(m_p[op.output]);
      for (std::size_t k = 0; k < strides.size(); ++k) to.offset = to.offset + strides[k] * axes[k];
      to.offset = simplify(to.offset, m_f.ranges());
      return to;
    };
    std::vector<StmtId> stores;
    if (m_group.isOutput[m_made.value]) stores.push_back(m_f.store(place(m_p[m_view.op]), m_f.load(sum), origin()));
    for (const OperatorId id : m_view.epilogue) {
      const Operator& op = m_p[id];
      const Place to = place(op);
      const std::vector<IndexExpr> own(axes.begin(), axes.begin() + op.outputRank);
      const ValueId value = m_body->convert(m_body->lower(id, op.body, own), arithmeticType(m_f[to.buffer].type));
      stores.push_back(m_f.store(to, value, op.origin));
    }
    m_body->special = {};
    m_body->forget();
    return stores;
  }

  std::vector<StmtId> storeResults() {
    return overTile([&](const IndexExpr& row, const IndexExpr& column, const IndexExpr& place) {
      std::vector<IndexExpr> merged = m_merged;
      assign(merged, m_left.axes, row);
      assign(merged, m_right.axes, column);
      return results(merged, {m_acc, place, {}});
    });
  }

  // ------------------------------------------------------------ split
  std::int64_t points() const { return m_batches * m_left.points * m_right.points; }

  std::vector<StmtId> storeParts() {
    m_parts = m_f.addWorkspace(m_p[m_view.op].name + "#parts", DType::F32, m_knobs.split * points());
    return overTile([&](const IndexExpr& row, const IndexExpr& column, const IndexExpr& place) {
      const IndexExpr at_ = m_right.points * (m_left.points * (m_batches * m_partIndex + m_batchIndex) + row) + column;
      return std::vector<StmtId>{m_f.store({m_parts, at_, {}}, m_f.load({m_acc, place, {}}), origin())};
    });
  }

  void together() {
    constexpr std::int64_t kThreads = 256;
    const VarId block = m_f.addVar("b", ceilDiv(points(), kThreads), LoopKind::Block);
    const VarId thread = m_f.addVar("t", kThreads, LoopKind::Thread);
    const VarId part = m_f.addVar("part", m_knobs.split, LoopKind::Serial);
    const IndexExpr point = kThreads * at(block) + at(thread);
    const BufferId acc = m_f.addLocal("acc", DType::F32, 1);
    const auto number = digits(point, {m_batches, m_left.points, m_right.points}, m_f.ranges());
    std::vector<IndexExpr> merged(m_view.nest.axes.size());
    assign(merged, m_batch, number[0]);
    assign(merged, m_left.axes, number[1]);
    assign(merged, m_right.axes, number[2]);
    const Place sum{acc, IndexExpr(0), {}};
    const ValueId more = m_f.load({m_parts, points() * at(part) + point, {}});
    std::vector<StmtId> body{
        m_f.store(sum, m_f.constant(0, DType::F32), origin()),
        loop(part, {m_f.store(sum, m_f.apply(ScalarOp::Add, DType::F32, {m_f.load(sum), more, {}}), origin())})};
    append(body, results(merged, sum));
    body = under(below(point, points(), points() % kThreads == 0), std::move(body));
    m_f.stages.push_back({m_p[m_view.op].name + " of its parts", {loop(block, {loop(thread, std::move(body))})}});
  }

  const Program& m_p;
  const GroupView& m_group;
  const ContractionView& m_view;
  GpuContractionKnobs m_knobs;
  Function m_f;
  BodyLowering* m_body = nullptr;
  std::vector<BufferId> m_buffers, m_targets;
  TensorId m_made;
  std::vector<std::size_t> m_batch, m_inner;
  std::int64_t m_batches = 1, m_steps = 1, m_slices = 1, m_each = 1, m_threads = 1;
  Side m_left, m_right;
  VarId m_part;
  IndexExpr m_partIndex, m_batchIndex, m_tm, m_tn, m_thread;
  std::vector<IndexExpr> m_merged;
  BufferId m_acc, m_a, m_b, m_parts;
};

}  // namespace

ContractionExtents extentsOf(const ContractionView& view) {
  ContractionExtents e;
  for (std::size_t a = 0; a < view.classes.size(); ++a) {
    const auto extent = static_cast<double>(view.nest.axes[a].extent);
    switch (view.classes[a]) {
      case AxisClass::Batch: e.batch *= extent; break;
      case AxisClass::Left: e.left *= extent; break;
      case AxisClass::Right: e.right *= extent; break;
      case AxisClass::Inner: e.inner *= extent; break;
    }
  }
  return e;
}

std::string refuseGpuContraction(const ContractionView& view, const GpuContractionKnobs& k, const Target&) {
  if (k.blockM < k.threadM || k.blockN < k.threadN) return "the tile of a thread is larger than that of its block";
  if (k.threads() < kWarp || k.threads() > 512 || k.threads() % kWarp != 0)
    return "these tiles make no block of 32 to 512 threads in whole warps";
  if (static_cast<std::int64_t>(k.stages) * k.blockK * (k.blockM + k.blockN + 2 * kPad) * 4 > kSharedBytes)
    return "the slices of knob stages do not fit the shared memory of a block";
  const ContractionExtents e = extentsOf(view);
  if (k.split > 1 && k.split * k.blockK > e.inner) return "knob split_k has more parts than there are slices";
  if (k.split > 1 && k.split * e.batch * e.left * e.right * 4 > kMostParts) return "the parts of knob split_k take too much memory";
  return {};
}

// Waves of blocks, each as slow as the slower of its arithmetic and its slices.
double estimateGpuContraction(const ContractionView& view, const GpuContractionKnobs& k, const Target& target) {
  const ContractionExtents e = extentsOf(view);
  const double processors = static_cast<double>(std::max<std::int64_t>(target.threads, 1));
  const double flops = target.peakFlops > 0 ? target.peakFlops : 2e11;
  const double bandwidth = target.peakBandwidth > 0 ? target.peakBandwidth : 1e12;
  const double clock = flops / 256;  // 128 fused additions and multiplications a cycle
  const double blocks = e.batch * std::ceil(e.left / k.blockM) * std::ceil(e.right / k.blockN) * k.split;
  const double threads = k.threads();
  const double registers = std::min(255.0, k.threadM * k.threadN + 2.0 * (k.threadM + k.threadN) + 40);
  const double shared = static_cast<double>(k.stages) * k.blockK * (k.blockM + k.blockN) * 4;
  const double resident =
      std::max(1.0, std::floor(std::min({65536 / (registers * threads), 98304 / shared, 2048 / threads, 16.0})));
  const double slices = std::ceil(std::ceil(e.inner / k.blockK) / k.split);
  // A block's cycles of one slice, alone on its multiprocessor.
  const double additions = static_cast<double>(k.blockM) * k.blockN * k.blockK / 128;
  const double reads = threads / kWarp * k.blockK * (k.threadM + k.threadN) / 4 * 2;
  const bool plain = view.leftPlain && view.rightPlain;
  const double elements = static_cast<double>(k.blockM + k.blockN) * k.blockK;
  const double copies = elements / kWarp * (plain ? 1.0 : 3.0);
  const double issue = std::max(additions, reads) + copies + 20;
  const double together = std::min(resident, std::max(1.0, blocks / processors));
  // Warps that are there hide the latency of memory and of additions.
  const double warps = threads / kWarp * together;
  const double hidden = std::min(1.0, warps / 8);
  const double stall = k.stages == 1 ? 600 / together : k.stages == 2 ? 150 / together : 40 / together;
  const double cycles = slices * (issue * together / hidden + stall) + 600;
  const double waves = std::ceil(blocks / (processors * together));
  const double traffic = blocks * slices * elements * 4;  // mostly from the second-level cache
  double seconds =
      std::max({waves * cycles / clock, traffic / (4 * bandwidth), view.nest.bytes / bandwidth}) + target.launchSeconds;
  if (k.split > 1) seconds += target.launchSeconds + k.split * e.batch * e.left * e.right * 8 / bandwidth;
  return seconds;
}

Function lowerGpuContraction(const GroupView& group, const ContractionView& view, const GpuContractionKnobs& knobs, const Target&) {
  return GpuContraction(group, view, knobs).run();
}

namespace {

class GpuContractionSpace final : public KnobSpace {
 public:
  explicit GpuContractionSpace(const Target& target) : KnobSpace("contraction"), m_target(target) {
    m_knobs = {{"block_m", "results of a block along the left operand's axes", {16, 32, 64, 128}},
               {"block_n", "results of a block along the right operand's axes", {16, 32, 64, 128, 256}},
               {"block_k", "reduced points of a slice in shared memory", {8, 16, 32}},
               {"thread_m", "results of a thread along the left operand's axes", {1, 2, 4, 8}},
               {"thread_n", "results of a thread along the right operand's axes", {1, 2, 4, 8}},
               {"stages", "slices under way", {1, 2, 3, 4}},
               {"split_k", "parts of the reduced points, put together by a second kernel", {1, 2, 4, 8, 16, 32, 64}, true}};
  }

  bool open(const Program& program) {
    addForm(program, "own");
    // An axis that stands under floors on both sides is of both; in a residue class it may be of one.
    if (const auto split = withPhases(program)) addForm(*split, "phases");
    Knob axes{"axes", "as the accesses have them, or split into residue classes", {}, true};
    for (const Form& form : m_forms) axes.values.push_back(form.name);
    m_knobs.push_back(std::move(axes));
    return !m_forms.empty();
  }

 protected:
  Point firstPoint() const override {
    if (!m_first.empty()) return m_first;
    double bestSeconds = std::numeric_limits<double>::infinity();
    Point point(m_knobs.size(), 0);
    const auto search = [&](auto&& self, std::size_t knob) -> void {
      if (knob == m_knobs.size()) {
        if (!illegal(point).empty()) return;
        const double seconds = estimate(point);
        if (seconds >= bestSeconds) return;
        m_first = point;
        bestSeconds = seconds;
        return;
      }
      for (point[knob] = 0; point[knob] < m_knobs[knob].values.size(); ++point[knob]) self(self, knob + 1);
      point[knob] = 0;
    };
    search(search, 0);
    return m_first;
  }

  std::string illegal(const Point& point) const override {
    return refuseGpuContraction(formOf(point).view, knobsOf(point), m_target);
  }
  double estimate(const Point& point) const override {
    return estimateGpuContraction(formOf(point).view, knobsOf(point), m_target);
  }

  std::vector<double> featuresOf(const Point& point) const override {
    const ContractionView& view = formOf(point).view;
    const ContractionExtents e = extentsOf(view);
    const GpuContractionKnobs k = knobsOf(point);
    const double blocks = e.batch * std::ceil(e.left / k.blockM) * std::ceil(e.right / k.blockN) * k.split;
    const auto waste = [](double extent, int block) { return std::ceil(extent / block) * block / extent; };
    return {std::log2(e.batch),
            std::log2(e.left),
            std::log2(e.right),
            std::log2(e.inner),
            std::log2(k.blockM),
            std::log2(k.blockN),
            std::log2(k.blockK),
            std::log2(k.threadM),
            std::log2(k.threadN),
            static_cast<double>(k.stages),
            std::log2(k.split),
            std::log2(k.threads()),
            std::log2(blocks / static_cast<double>(std::max<std::int64_t>(m_target.threads, 1))),
            waste(e.left, k.blockM),
            waste(e.right, k.blockN),
            view.leftPlain ? 1.0 : 0.0,
            view.rightPlain ? 1.0 : 0.0,
            std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override {
    const Form& form = formOf(point);
    return lowerGpuContraction(form.source->group, form.view, knobsOf(point), m_target);
  }

 private:
  enum : std::size_t { kAxes = 7 };

  // A program with its guards on the factors; the group borrows it.
  struct Source {
    explicit Source(GuardedFactors g) : guarded(std::move(g)) {}
    GuardedFactors guarded;
    GroupView group;
  };
  struct Form {
    std::shared_ptr<const Source> source;
    std::string name;  // value of the knob axes
    ContractionView view;
  };
  const Form& formOf(const Point& point) const { return m_forms[point[kAxes]]; }

  void addForm(const Program& program, const char* name) {
    const auto source = std::make_shared<Source>(withGuardsOnFactors(program));
    auto group = viewGroup(source->guarded.program);
    if (!group) return;
    source->group = std::move(*group);
    auto view = viewContraction(source->group, source->guarded.skips);
    if (!view) return;
    // A few rows are reductions: a group of threads a result.
    const ContractionExtents e = extentsOf(*view);
    if (std::min(e.left, e.right) > kFewRows) m_forms.push_back({source, name, std::move(*view)});
  }

  GpuContractionKnobs knobsOf(const Point& point) const {
    const auto knob = [&](std::size_t k) { return value(point, k).get<int>(); };
    return {knob(0), knob(1), knob(2), knob(3), knob(4), knob(5), knob(6)};
  }

  static constexpr double kFewRows = 8;
  Target m_target;
  std::vector<Form> m_forms;
  mutable Point m_first;
};

}  // namespace

std::unique_ptr<KnobSpace> gpuContractionSpace(const Program& program, const GroupView&, const Target& target) {
  auto space = std::make_unique<GpuContractionSpace>(target);
  if (!space->open(program)) return nullptr;
  return space;
}

}  // namespace nf::loop
