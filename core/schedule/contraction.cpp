// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/contraction.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf::loop {

bool uniform(const ContractionGuard& guard, const ContractionKnobs& knobs) {
  if (guard.axes[knobs.vectorAxis]) return false;
  return std::none_of(knobs.rows.begin(), knobs.rows.end(), [&](const auto& r) { return r.factor > 1 && guard.axes[r.axis]; });
}

AxisClass vectorSide(const ContractionView& view, const ContractionKnobs& knobs) { return view.classes[knobs.vectorAxis]; }

namespace {

// An axis of the original operator that a merged variable stands for, put together again.
IndexExpr mergedFromOriginal(const Operator& op, const NestView& nest, std::size_t axis) {
  IndexExpr e;
  for (const std::size_t member : nest.members[axis])
    e = op.axes[member].extent * e + IndexExpr::variable(static_cast<IndexVar>(member));
  return e;
}

// Replaces one side of the contraction by a copy in the order the kernel reads it: op#rows[.., tile, .., k.., in tile].
struct PackedSide {
  OperatorId op;  // writes the copy
  TensorId tensor;
  ExprId load;  // in the contraction's body
};

// outer, inner: merged axes of the copy. innerFirst: the copying loops walk the reduced axes outside, as the source stores them.
PackedSide pack(Program& p, const ContractionView& view, OperatorId target, const std::vector<ExprId>& factors,
                const std::vector<std::size_t>& outer, const std::vector<std::size_t>& inner,
                const std::vector<std::pair<std::size_t, std::int64_t>>& tiled, const std::string& name, bool innerFirst) {
  const Operator op = p[target];
  const auto tileOf = [&](std::size_t a) -> std::int64_t {
    for (const auto& [axis, factor] : tiled)
      if (axis == a) return factor;
    return 0;
  };
  Operator copy;
  copy.name = op.name + "#" + name;
  copy.origin = op.origin;
  copy.phase = op.phase;
  Tensor tensor;
  tensor.name = copy.name;
  tensor.type = DType::F32;
  tensor.origin = op.origin;
  std::vector<IndexExpr> merged(view.nest.axes.size());  // merged axis in terms of the copy's axes
  std::vector<AccessIndex> read;                         // the copy's axes in terms of the contraction's
  std::vector<std::pair<std::size_t, std::int64_t>> inside;
  std::vector<std::uint32_t> outerAxes, innerAxes, insideAxes;
  const auto axis = [&](const std::string& axisName, std::int64_t extent, std::vector<std::uint32_t>& kind) {
    copy.axes.push_back({axisName, extent, {}});
    tensor.shape.push_back(extent);
    kind.push_back(static_cast<std::uint32_t>(copy.axes.size() - 1));
    return IndexExpr::variable(kind.back());
  };
  std::int64_t panel = 4;
  for (const auto& [a, factor] : tiled) panel *= factor;
  const auto addInner = [&] {
    for (const std::size_t a : inner) {
      merged[a] = axis(view.nest.axes[a].name, view.nest.axes[a].extent, innerAxes);
      read.push_back({mergedFromOriginal(op, view.nest, a), {}});
      panel *= view.nest.axes[a].extent;
    }
  };
  if (innerFirst) addInner();
  for (const std::size_t a : outer) {
    const std::int64_t extent = view.nest.axes[a].extent, tile = tileOf(a);
    const IndexExpr whole = mergedFromOriginal(op, view.nest, a);
    if (tile == 0) {
      merged[a] = axis(view.nest.axes[a].name, extent, outerAxes);
      read.push_back({whole, {}});
    } else {
      merged[a] = tile * axis(view.nest.axes[a].name + "o", ceilDiv(extent, tile), outerAxes);
      read.push_back({floorDiv(whole, tile), {}});
      inside.emplace_back(a, tile);
    }
  }
  if (!innerFirst) addInner();
  ExprId guard;
  for (const auto& [a, tile] : inside) {
    merged[a] = merged[a] + axis(view.nest.axes[a].name + "i", tile, insideAxes);
    read.push_back({floorMod(mergedFromOriginal(op, view.nest, a), tile), {}});
    if (view.nest.axes[a].extent % tile == 0) continue;
    const ExprId within = p.condGe0(IndexExpr(view.nest.axes[a].extent - 1) - merged[a]);
    guard = guard.valid() ? p.binary(ScalarOp::And, guard, within) : within;
  }
  for (const auto* part : {&outerAxes, &innerAxes, &insideAxes})
    tensor.layout.order.insert(tensor.layout.order.end(), part->begin(), part->end());
  // Panels a multiple of 4 KiB apart would meet in the same cache sets: an unused row between them.
  if (panel % 4096 == 0 && !innerAxes.empty() && tensor.shape[innerAxes[0]] >= 32) ++tensor.shape[innerAxes[0]];
  copy.outputRank = static_cast<std::uint32_t>(copy.axes.size());
  std::vector<std::int64_t> extents;
  for (const Axis& x : copy.axes) extents.push_back(x.extent);
  const RangeOf ranges = rangesOf(std::span<const std::int64_t>(extents));
  const std::vector<IndexExpr> originals = originalAxes(view.nest, merged, ranges);
  const Program from = p;
  ExprCloner cloner(from, p);
  cloner.variable = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < originals.size()) return originals[v];
    return std::nullopt;
  };
  ExprId body;
  for (const ExprId f : factors) {
    const ExprId cloned = cloner.clone(f);
    body = body.valid() ? p.binary(ScalarOp::Mul, body, cloned) : cloned;
  }
  if (guard.valid()) body = p.select(guard, body, p.constant(0, p[body].type));
  copy.body = body;
  PackedSide result;
  result.tensor = p.addTensor(std::move(tensor));
  copy.output = result.tensor;
  result.op = p.addOperator(std::move(copy));
  result.load = p.load(result.tensor, std::move(read), factors.size() == 1 ? p[factors.front()].origin : op.origin);
  return result;
}

class ContractionBuilder {
 public:
  ContractionBuilder(const GroupView& group, const ContractionView& view, const ContractionKnobs& knobs, const Target& target)
      : m_program(*group.program), m_group(group), m_view(view), m_knobs(knobs), m_target(target) {
    m_group.program = &m_program;
  }

  Function run() {
    const AxisClass side = vectorSide(m_view, m_knobs);
    const bool vectorLeft = side == AxisClass::Left;
    m_columns = vectorLeft ? m_view.left : m_view.right;
    m_rows = vectorLeft ? m_view.right : m_view.left;
    m_op = m_view.op;
    m_width = static_cast<std::int64_t>(m_knobs.vectors) * m_knobs.lanes;
    hoistGuards();
    innerOrder();
    std::vector<OperatorId> stages = m_view.before;
    const auto packed = [&](std::vector<ExprId>& factors, Packing how, AxisClass of,
                            const std::vector<std::pair<std::size_t, std::int64_t>>& tiled, const std::string& name) {
      switch (how) {
        case Packing::Place: break;
        case Packing::Tiles: stages.push_back(packTiles(factors, of, tiled, name)); return;
        case Packing::Tensor: stages.push_back(packTensor(factors, of == side, name)); break;
      }
      for (ExprId& f : factors) f = withoutHoisted(f);
    };
    packed(m_columns, m_knobs.packColumns, side, {{m_knobs.vectorAxis, m_width}}, "columns");
    std::vector<std::pair<std::size_t, std::int64_t>> tiled;
    for (const auto& row : m_knobs.rows) tiled.emplace_back(row.axis, row.factor);
    packed(m_rows, m_knobs.packRows, vectorLeft ? AxisClass::Right : AxisClass::Left, tiled, "rows");
    StagePlan finish;
    if (m_knobs.apart) finish = splitFinish();
    declareOperands(m_group, m_f, m_buffers);
    BodyLowering body(m_program, m_f);
    m_body = &body;
    body.buffers = m_buffers;
    for (const OperatorId id : stages) {
      const TensorId t = m_program[id].output;
      if (!body.buffers[t.value].valid()) declareWorkspace(m_group, m_f, body.buffers, t);
      const StagePlan plan{id};
      lowerNest(m_group, plan, firstNest(viewNest(m_group, plan), m_target), m_f, body);
    }
    if (m_knobs.apart) declareWorkspace(m_group, m_f, body.buffers, m_program[m_op].output);
    const std::vector<BufferId> visible = body.buffers;
    hideContraction();
    kernel();
    body.special = {};
    body.buffers = visible;
    constexpr std::size_t kTogether = 8;
    for (std::size_t k = 0; k < finish.size(); k += kTogether) {
      const StagePlan plan(finish.begin() + static_cast<std::ptrdiff_t>(k),
                           finish.begin() + static_cast<std::ptrdiff_t>(std::min(finish.size(), k + kTogether)));
      lowerNest(m_group, plan, firstNest(viewNest(m_group, plan), m_target), m_f, body);
    }
    return std::move(m_f);
  }

 private:
  // Guards that a register tile passes or fails as a whole become one test around it.
  void hoistGuards() {
    for (const ContractionGuard& g : m_view.guards) {
      if (!g.skips || !uniform(g, m_knobs)) continue;
      m_hoisted.insert(g.conditions.begin(), g.conditions.end());
      for (std::size_t a = 0; a < g.axes.size(); ++a)
        if (g.axes[a] && m_view.classes[a] == AxisClass::Inner) m_guardAxes.insert(a);
    }
  }

  ExprId withoutHoisted(ExprId factor) {
    const Peeled peeled = peel(m_program, factor);
    ExprId guard;
    for (const ExprId c : peeled.conditions)
      if (!m_hoisted.contains(c)) guard = guard.valid() ? m_program.binary(ScalarOp::And, guard, c) : c;
    if (!guard.valid()) return peeled.value;
    return m_program.select(guard, peeled.value, m_program.constant(0, m_program[peeled.value].type));
  }

  // Reduced axes from outside in: those of hoisted guards outermost, so that a test counts for many points.
  void innerOrder() {
    for (const bool guarded : {true, false})
      for (std::size_t a = 0; a < m_view.classes.size(); ++a)
        if (m_view.classes[a] == AxisClass::Inner && m_guardAxes.contains(a) == guarded) m_inner.push_back(a);
  }

  // A copy of the tensor that the side reads, each element computed once; the vector axis innermost for the columns.
  OperatorId packTensor(std::vector<ExprId>& factors, bool columns, const std::string& name) {
    Program& p = m_program;
    const Peeled peeled = peel(p, factors[0]);
    const Access access = p[p[peeled.value].access];
    const Tensor source = p[access.tensor];
    Tensor tensor;
    tensor.name = p[m_op].name + "#" + name;
    tensor.type = DType::F32;
    tensor.origin = p[m_op].origin;
    tensor.shape = source.shape;
    Operator copy;
    copy.name = tensor.name;
    copy.origin = p[m_op].origin;
    copy.phase = p[m_op].phase;
    copy.outputRank = static_cast<std::uint32_t>(source.shape.size());
    std::vector<AccessIndex> point;
    for (std::size_t k = 0; k < source.shape.size(); ++k) {
      copy.axes.push_back({"x" + std::to_string(k), source.shape[k], {}});
      point.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
    }
    if (columns) {
      std::vector<std::uint32_t> last;
      for (const std::size_t member : m_view.nest.members[m_knobs.vectorAxis])
        for (std::uint32_t k = 0; k < access.indices.size(); ++k)
          if (access.indices[k].affine.uses(static_cast<IndexVar>(member))) last.push_back(k);
      for (std::uint32_t k = 0; k < source.shape.size(); ++k)
        if (std::find(last.begin(), last.end(), k) == last.end()) tensor.layout.order.push_back(k);
      tensor.layout.order.insert(tensor.layout.order.end(), last.begin(), last.end());
    }
    copy.body = p.load(access.tensor, std::move(point), p[peeled.value].origin);
    const TensorId made = p.addTensor(std::move(tensor));
    copy.output = made;
    const OperatorId id = p.addOperator(std::move(copy));
    ExprId value = p.load(made, access.indices, p[peeled.value].origin);
    for (const ExprId c : peeled.conditions) value = p.select(c, value, p.constant(0, p[value].type));
    factors = {value};
    addStage(made, id);
    return id;
  }

  // The contraction writes a tensor of its own, the vector axis innermost; its output becomes a copy of that.
  StagePlan splitFinish() {
    Program& p = m_program;
    const TensorId made = p[m_op].output;
    Tensor sums;
    sums.name = p[m_op].name + "#sums";
    sums.type = DType::F32;
    sums.shape = p[made].shape;
    sums.origin = p[m_op].origin;
    const auto& last = m_view.nest.members[m_knobs.vectorAxis];
    Operator copy;
    copy.name = p[m_op].name;
    copy.origin = p[m_op].origin;
    copy.phase = p[m_op].phase;
    copy.output = made;
    copy.outputRank = p[m_op].outputRank;
    std::vector<AccessIndex> point;
    for (std::uint32_t k = 0; k < copy.outputRank; ++k) {
      copy.axes.push_back(p[m_op].axes[k]);
      point.push_back({IndexExpr::variable(k), {}});
      if (std::find(last.begin(), last.end(), k) == last.end()) sums.layout.order.push_back(k);
    }
    for (const std::size_t k : last) sums.layout.order.push_back(static_cast<std::uint32_t>(k));
    const TensorId raw = p.addTensor(std::move(sums));
    copy.body = p.load(raw, std::move(point), p[m_op].origin);
    p[m_op].output = raw;
    const OperatorId id = p.addOperator(std::move(copy));
    addStage(raw, m_op);
    m_group.producers[made.value] = id;
    m_group.stored[made.value] = m_group.isOutput[made.value];
    StagePlan finish;
    if (m_group.isOutput[made.value]) finish.push_back(id);
    finish.insert(finish.end(), m_view.epilogue.begin(), m_view.epilogue.end());
    return finish;
  }

  void addStage(TensorId tensor, OperatorId producer) {
    const auto tensors = m_program.tensors.size();
    m_group.producers.resize(tensors);
    m_group.producers[tensor.value] = producer;
    m_group.isOutput.resize(tensors, false);
    m_group.stored.resize(tensors, false);
    m_group.stored[tensor.value] = true;
  }

  OperatorId packTiles(std::vector<ExprId>& factors, AxisClass side, const std::vector<std::pair<std::size_t, std::int64_t>>& tiled,
                       const std::string& name) {
    std::set<std::size_t> used;
    for (const ExprId f : factors)
      for (const std::size_t v : axesOf(m_group, f))
        for (std::size_t a = 0; a < m_view.nest.members.size(); ++a)
          for (const std::size_t member : m_view.nest.members[a])
            if (member == v) used.insert(a);
    std::vector<std::size_t> outer, inner;
    for (std::size_t a = 0; a < m_view.classes.size(); ++a)
      if (used.contains(a) && m_view.classes[a] != AxisClass::Inner) outer.push_back(a);
    for (const std::size_t a : m_inner)
      if (used.contains(a)) inner.push_back(a);
    const auto& strides = side == AxisClass::Left ? m_view.leftStride : m_view.rightStride;
    const bool innerFirst = tiled.size() == 1 && strides[tiled[0].first] == 1;
    const PackedSide packed = pack(m_program, m_view, m_op, factors, outer, inner, tiled, name, innerFirst);
    factors = {packed.load};
    addStage(packed.tensor, packed.op);
    return packed.op;
  }

  void hideContraction() {
    m_made = m_program[m_op].output;
    m_targets = m_body->buffers;
    m_body->buffers[m_made.value] = {};
    if (m_knobs.apart) return;
    for (const OperatorId id : m_view.epilogue) m_body->buffers[m_program[id].output.value] = {};
    m_body->special = [this](TensorId t, const std::vector<IndexExpr>&) -> std::optional<ValueId> {
      if (t != m_made) return std::nullopt;
      return m_f.load({m_acc, m_accOffset, {}});
    };
  }

  const NestAxis& axis(std::size_t a) const { return m_view.nest.axes[a]; }

  void kernel() {
    m_merged.assign(m_view.nest.axes.size(), IndexExpr{});
    std::int64_t tile = 1;
    for (const auto& row : m_knobs.rows) tile *= row.factor;
    m_acc = m_f.addLocal("acc", DType::F32, tile * m_width);
    m_column = m_f.addLocal("col", DType::F32, m_width);

    // Outer loops, outermost first.
    struct Outer {
      std::size_t axis;
      int kind;  // 0 plain, 1 rows, 2 columns
    };
    std::vector<Outer> batch, columns, rows;
    const AxisClass side = vectorSide(m_view, m_knobs);
    for (std::size_t a = 0; a < m_view.classes.size(); ++a) {
      if (m_view.classes[a] == AxisClass::Inner) continue;
      const bool row = std::any_of(m_knobs.rows.begin(), m_knobs.rows.end(), [&](const auto& r) { return r.axis == a; });
      const Outer outer{a, a == m_knobs.vectorAxis ? 2 : row ? 1 : 0};
      if (m_view.classes[a] == AxisClass::Batch) batch.push_back(outer);
      else (m_view.classes[a] == side ? columns : rows).push_back(outer);
    }
    std::vector<Outer> order = batch;
    const auto& first = m_knobs.rowsInside ? columns : rows;
    const auto& second = m_knobs.rowsInside ? rows : columns;
    order.insert(order.end(), first.begin(), first.end());
    order.insert(order.end(), second.begin(), second.end());

    std::vector<VarId> loops;
    for (const Outer& o : order) {
      const std::int64_t extent = axis(o.axis).extent;
      const std::int64_t step = o.kind == 2 ? m_width : o.kind == 1 ? factorOf(o.axis) : 1;
      const VarId v = m_f.addVar(axis(o.axis).name + (step > 1 ? "o" : ""), ceilDiv(extent, step), LoopKind::Parallel);
      loops.push_back(v);
      m_merged[o.axis] = step * at(v);
      if (o.kind == 2) m_columnVar = v;
      else if (o.kind == 1 && extent % step != 0) m_rowVar = v;
    }
    const std::int64_t columnRest = axis(m_knobs.vectorAxis).extent % m_width;
    std::vector<StmtId> body = rowVariants(false);
    if (columnRest != 0) {
      const std::int64_t full = axis(m_knobs.vectorAxis).extent / m_width;
      if (full == 0) body = rowVariants(true);
      else body = {m_f.when(m_f.ge0(IndexExpr(full - 1) - at(m_columnVar)), std::move(body), rowVariants(true), origin())};
    }
    for (auto it = loops.rbegin(); it != loops.rend(); ++it) body = {m_f.forEach(*it, std::move(body), origin())};
    m_f.stages.push_back({m_program[m_op].name, std::move(body)});
  }

  OriginId origin() const { return m_program[m_op].origin; }

  std::int64_t factorOf(std::size_t a) const {
    for (const auto& row : m_knobs.rows)
      if (row.axis == a) return row.factor;
    return 1;
  }

  std::vector<StmtId> rowVariants(bool columnTail) {
    if (m_knobs.rows.empty() || axis(m_knobs.rows[0].axis).extent % m_knobs.rows[0].factor == 0) return micro(columnTail, false);
    const std::int64_t full = axis(m_knobs.rows[0].axis).extent / m_knobs.rows[0].factor;
    if (full == 0) return micro(columnTail, true);
    return {m_f.when(m_f.ge0(IndexExpr(full - 1) - at(m_rowVar)), micro(columnTail, false), micro(columnTail, true), origin())};
  }

  // One register tile: zero, accumulate over the reduced axes, epilogue and store.
  // A long sum is a sum of parts, of about its root but of enough terms each to hide what adding it up costs: the rounding error of n
  // terms in a row grows with n, of the sum of parts with the lengths of both.
  struct Parts {
    std::size_t level = 0;   // reduced loops outside a part
    std::int64_t steps = 1;  // else: steps of the split axis in a part
    bool any() const { return level > 0 || steps > 1; }
  };
  // Terms. Adding a tile up at the end of a loop that is there anyway costs less than a loop of its own.
  static constexpr double kLongSum = 96, kShortestLoop = 48, kShortestSplit = 256;

  // split: of m_inner, the axis that is unrolled in part; unrolled: terms of a step that stand inside it.
  Parts partsOfSum(std::size_t split, double unrolled) const {
    double all = 1;
    for (const std::size_t a : m_inner) all *= static_cast<double>(axis(a).extent);
    Parts best;
    if (all < kLongSum) return best;
    double shortest = all, outside = 1;
    const auto better = [&](double inside, double least) {
      if (inside < least || all / inside + inside >= shortest) return false;
      shortest = all / inside + inside;
      return true;
    };
    for (std::size_t k = 1; k <= split && k < m_inner.size(); ++k) {
      outside *= static_cast<double>(axis(m_inner[k - 1]).extent);
      if (better(all / outside, kShortestLoop)) best = {k, 1};
    }
    if (split == m_inner.size()) return best;
    const auto factor = std::max<std::int64_t>(1, static_cast<std::int64_t>(m_knobs.unroll / unrolled));
    const std::int64_t whole = axis(m_inner[split]).extent / factor;
    const double step = static_cast<double>(factor) * unrolled;
    for (std::int64_t steps = 2; factor > 1 && steps < whole; ++steps)
      if (whole % steps == 0 && better(static_cast<double>(steps) * step, kShortestSplit)) best = {0, steps};
    return best;
  }

  std::vector<StmtId> micro(bool columnTail, bool rowTail) {
    const std::int64_t columnRest = axis(m_knobs.vectorAxis).extent % m_width;
    const std::int64_t vectors = columnTail ? ceilDiv(columnRest, m_knobs.lanes) : m_knobs.vectors;
    std::vector<IndexExpr> merged = m_merged;
    std::vector<VarId> rowVars;
    IndexExpr row;
    for (std::size_t r = 0; r < m_knobs.rows.size(); ++r) {
      const auto& [a, factor] = m_knobs.rows[r];
      const std::int64_t extent = rowTail && r == 0 ? axis(a).extent % factor : factor;
      if (extent == 1) {
        row = factor * row;
        continue;
      }
      const VarId u = m_f.addVar(axis(a).name + "r", extent, LoopKind::Unrolled);
      rowVars.push_back(u);
      merged[a] = merged[a] + at(u);
      row = factor * row + at(u);
    }
    const VarId v = m_f.addVar("v", vectors, LoopKind::Unrolled);
    const VarId lane = m_f.addVar("l", m_knobs.lanes, LoopKind::Vector);
    const IndexExpr inTile = static_cast<std::int64_t>(m_knobs.lanes) * at(v) + at(lane);
    merged[m_knobs.vectorAxis] = merged[m_knobs.vectorAxis] + inTile;
    const IndexExpr accOffset = m_width * row + inTile;

    const auto overTileOf = [&](std::vector<StmtId> body, OriginId of) {
      body = {m_f.forEach(v, std::move(body), of)};
      for (auto it = rowVars.rbegin(); it != rowVars.rend(); ++it) body = {m_f.forEach(*it, std::move(body), of)};
      return body;
    };
    const auto overTile = [&](std::vector<StmtId> body) { return overTileOf(std::move(body), origin()); };
    std::vector<StmtId> all{
        m_f.forEach(lane, overTile({m_f.store({m_acc, accOffset, {}}, m_f.constant(0, DType::F32), origin())}), origin())};

    // Lanes past the end are never loaded; they hold zero.
    if (columnTail && m_knobs.packColumns != Packing::Tiles)
      all.push_back(m_f.forEach(
          lane, {m_f.forEach(v, {m_f.store({m_column, inTile, {}}, m_f.constant(0, DType::F32), origin())}, origin())}, origin()));

    // Reduced axes: all but the last serial or, where few, unrolled; the last one split by the unroll factor.
    std::vector<VarId> innerVars;
    double unrolled = 1;
    for (const std::size_t a : m_inner) innerVars.push_back(m_f.addVar(axis(a).name, axis(a).extent, LoopKind::Serial));
    std::size_t split = m_inner.size();             // the axis that is split
    const std::size_t tested = m_guardAxes.size();  // they stand first, and stay loops
    for (std::size_t k = m_inner.size(); k-- > tested;) {
      const std::int64_t extent = axis(m_inner[k]).extent;
      if (unrolled * static_cast<double>(extent) <= m_knobs.unroll) {
        m_f.vars[innerVars[k].value].kind = LoopKind::Unrolled;
        unrolled *= static_cast<double>(extent);
        merged[m_inner[k]] = at(innerVars[k]);
        continue;
      }
      split = k;
      break;
    }
    for (std::size_t k = 0; k < split && k < m_inner.size(); ++k) merged[m_inner[k]] = at(innerVars[k]);
    // The test stands where the last of its axes is known.
    const auto test = [&](std::vector<StmtId> body) {
      if (m_hoisted.empty()) return body;
      const std::vector<IndexExpr> axes = originals(merged);
      ValueId holds;
      for (const ExprId c : m_hoisted) holds = m_f.both(holds, m_body->lower(m_op, c, axes));
      return std::vector<StmtId>{m_f.when(holds, std::move(body), {}, origin())};
    };
    const Parts parts = partsOfSum(split, unrolled);
    BufferId summed = m_acc;
    if (parts.any()) summed = m_f.addLocal("part", DType::F32, m_f[m_acc].elements);
    const auto inParts = [&](std::vector<StmtId> body) {
      const Place total{m_acc, accOffset, {}}, part{summed, accOffset, {}};
      const ValueId more = m_f.apply(ScalarOp::Add, DType::F32, {m_f.load(total), m_f.load(part), {}});
      std::vector<StmtId> whole{m_f.forEach(lane, overTile({m_f.store(part, m_f.constant(0, DType::F32), origin())}), origin())};
      whole.insert(whole.end(), body.begin(), body.end());
      whole.push_back(m_f.forEach(lane, overTile({m_f.store(total, more, origin())}), origin()));
      return whole;
    };
    const auto wrap = [&](std::vector<StmtId> body, std::size_t from, std::size_t to) {
      for (std::size_t k = to; k-- > from;) {
        if (k + 1 == parts.level) body = inParts(std::move(body));
        if (k + 1 == tested) body = test(std::move(body));
        body = {m_f.forEach(innerVars[k], std::move(body), origin())};
      }
      return body;
    };
    const auto step = [&](const std::vector<IndexExpr>& where) {
      const std::vector<IndexExpr> axes = originals(where);
      const Place column{m_column, inTile, {}};
      const StmtId load = m_f.store(column, product(m_columns, axes), origin());
      // The last vector's lanes past the end are read under a mask unless the copy has zeros there.
      StmtId loads = load;
      if (columnTail && m_knobs.packColumns != Packing::Tiles)
        loads = m_f.when(m_f.ge0(IndexExpr(columnRest - 1) - inTile), {load}, {}, origin());
      const Place acc{summed, accOffset, {}};
      const ValueId sum = m_f.fma(product(m_rows, axes), m_f.load(column), m_f.load(acc), m_program[m_program[m_op].body].origin);
      const StmtId add = m_f.store(acc, sum, origin());
      std::vector<StmtId> body{m_f.forEach(v, {loads}, origin())};
      for (const StmtId s : overTile({add})) body.push_back(s);
      return std::vector<StmtId>{m_f.forEach(lane, std::move(body), origin())};
    };
    std::vector<StmtId> sum;
    if (split == m_inner.size()) {
      sum = wrap(step(merged), 0, m_inner.size());
    } else {
      const std::size_t a = m_inner[split];
      const auto factor = std::max<std::int64_t>(1, static_cast<std::int64_t>(m_knobs.unroll / unrolled));
      const std::int64_t whole = axis(a).extent / factor, rest = axis(a).extent % factor;
      if (factor == 1) {
        merged[a] = at(innerVars[split]);
        sum = wrap(step(merged), split, m_inner.size());
      } else {
        const VarId outer = m_f.addVar(axis(a).name + "o", whole / parts.steps, LoopKind::Serial);
        const VarId u = m_f.addVar(axis(a).name + "u", factor, LoopKind::Unrolled);
        merged[a] = factor * at(outer) + at(u);
        VarId stepVar;
        if (parts.steps > 1) {
          stepVar = m_f.addVar(axis(a).name + "p", parts.steps, LoopKind::Serial);
          merged[a] = factor * (parts.steps * at(outer) + at(stepVar)) + at(u);
        }
        sum = {m_f.forEach(u, wrap(step(merged), split + 1, m_inner.size()), origin())};
        if (parts.steps > 1) sum = inParts({m_f.forEach(stepVar, std::move(sum), origin())});
        sum = {m_f.forEach(outer, std::move(sum), origin())};
        if (rest > 0) {
          const VarId last = m_f.addVar(axis(a).name + "t", rest, LoopKind::Unrolled);
          merged[a] = IndexExpr(whole * factor) + at(last);
          std::vector<StmtId> ending = {m_f.forEach(last, wrap(step(merged), split + 1, m_inner.size()), origin())};
          if (parts.steps > 1) ending = inParts(std::move(ending));
          sum.insert(sum.end(), ending.begin(), ending.end());
        }
      }
      sum = wrap(std::move(sum), 0, split);
    }
    if (tested == 0) sum = test(std::move(sum));
    all.insert(all.end(), sum.begin(), sum.end());

    // Epilogue.
    const std::vector<IndexExpr> axes = originals(merged);
    m_accOffset = accOffset;
    m_body->forget();
    std::vector<StmtId> stores;
    const auto place = [&](const Operator& op) {
      Place to;
      to.buffer = m_targets[op.output.value];
      const auto strides = stridesOf(m_program[op.output]);
      for (std::size_t k = 0; k < strides.size(); ++k) to.offset = to.offset + strides[k] * axes[k];
      to.offset = simplify(to.offset, m_f.ranges());
      return to;
    };
    if (m_knobs.apart || m_group.isOutput[m_made.value])
      stores.push_back(m_f.store(place(m_program[m_op]), m_f.load({m_acc, accOffset, {}}), origin()));
    for (const OperatorId id : m_knobs.apart ? std::vector<OperatorId>{} : m_view.epilogue) {
      const Operator& op = m_program[id];
      const Place to = place(op);
      const std::vector<IndexExpr> own(axes.begin(), axes.begin() + op.outputRank);
      const ValueId value = m_body->convert(m_body->lower(id, op.body, own), arithmeticType(m_f[to.buffer].type));
      stores.push_back(m_f.store(to, value, op.origin));
    }
    m_body->forget();
    const bool fused = !m_knobs.apart && !m_view.epilogue.empty();
    const OriginId last = fused ? m_program[m_view.epilogue.back()].origin : origin();
    if (columnTail) stores = {m_f.when(m_f.ge0(IndexExpr(columnRest - 1) - inTile), std::move(stores), {}, last)};
    all.push_back(m_f.forEach(lane, overTileOf(std::move(stores), last), last));
    return all;
  }

  std::vector<IndexExpr> originals(const std::vector<IndexExpr>& merged) const {
    return originalAxes(m_view.nest, merged, m_f.ranges());
  }

  ValueId product(const std::vector<ExprId>& factors, const std::vector<IndexExpr>& axes) {
    ValueId value;
    for (const ExprId f : factors) {
      const ValueId one = m_body->convert(m_body->lower(m_op, f, axes), DType::F32);
      value = value.valid() ? m_f.apply(ScalarOp::Mul, DType::F32, {value, one, {}}) : one;
    }
    return value;
  }

  Program m_program;
  GroupView m_group;
  const ContractionView& m_view;
  ContractionKnobs m_knobs;
  Target m_target;
  Function m_f;
  BodyLowering* m_body = nullptr;
  std::vector<BufferId> m_buffers, m_targets;
  std::vector<ExprId> m_rows, m_columns;
  std::vector<std::size_t> m_inner;
  std::set<ExprId> m_hoisted;
  std::set<std::size_t> m_guardAxes;  // reduced axes of hoisted guards
  OperatorId m_op;
  TensorId m_made;
  std::int64_t m_width = 16;
  BufferId m_acc, m_column;
  IndexExpr m_accOffset;
  std::vector<IndexExpr> m_merged;
  VarId m_columnVar, m_rowVar;
};

}  // namespace

double estimateContraction(const ContractionView& view, const ContractionKnobs& k, const Target& target) {
  const double native = static_cast<double>(target.vectorBytes) / 4;
  const double hertz = target.peakFlops > 0 ? target.peakFlops / (4 * native) : 2.5e9;
  const bool vectorLeft = vectorSide(view, k) == AxisClass::Left;
  const auto& columnStride = vectorLeft ? view.leftStride : view.rightStride;
  const auto& rowStride = vectorLeft ? view.rightStride : view.leftStride;
  double inner = 1, tiles = 1, points = 1;
  double columnsGuarded = 0;
  bool rowsGuarded = false;
  for (const ContractionGuard& g : view.guards) {
    if (g.skips && uniform(g, k)) {
      inner *= g.fraction;
      continue;
    }
    // A condition on the lanes is a vector of comparisons, any other one a test of an address.
    if (vectorLeft ? g.left : g.right) columnsGuarded = std::max(columnsGuarded, g.axes[k.vectorAxis] ? 10.0 : 3.0);
    rowsGuarded = rowsGuarded || (vectorLeft ? g.right : g.left);
  }
  const bool columnsPlain = (vectorLeft ? view.leftPlain : view.rightPlain) || k.packColumns != Packing::Place;
  const bool rowsPlain = (vectorLeft ? view.rightPlain : view.leftPlain) || k.packRows != Packing::Place;
  if (k.packColumns == Packing::Tiles) columnsGuarded = 0;
  if (k.packRows == Packing::Tiles) rowsGuarded = false;
  for (std::size_t a = 0; a < view.classes.size(); ++a) {
    const auto extent = static_cast<double>(view.nest.axes[a].extent);
    if (view.classes[a] == AxisClass::Inner) inner *= extent;
    else points *= extent;
  }
  double rowTile = 1;
  for (const auto& r : k.rows) rowTile *= static_cast<double>(r.factor);
  const double width = k.vectors * k.lanes;
  const auto vectorExtent = static_cast<double>(view.nest.axes[k.vectorAxis].extent);

  // Cycles of one register tile over all of k: arithmetic, loads, latency.
  const double perVector = static_cast<double>(k.lanes) / native;
  const auto tileCycles = [&](double r, double v) {
    const double fma = r * v * perVector / 2;
    double loads = v * perVector + r;
    const bool direct = k.packColumns == Packing::Place;
    double far = 0;  // a step of the reduction is a multiple of 4 KiB
    for (std::size_t a = 0; a < view.classes.size(); ++a)
      if (view.classes[a] == AxisClass::Inner && columnStride[a] > 0 && std::fmod(columnStride[a] * 4, 4096) == 0)
        far = columnStride[a];
    if (direct) {
      const double along = columnStride[k.vectorAxis];
      // A gather of a vector takes about 20 cycles, two loads one.
      if (along != 1 && along != 0) loads += v * perVector * 40 * (vectorLeft ? view.leftLoads : view.rightLoads);
    }
    if (!columnsPlain) loads += v * perVector * 6;
    if (!rowsPlain) loads += 6 * r;
    loads += columnsGuarded * v * perVector;
    if (rowsGuarded) loads += 3 * r;
    const double latency = 4;  // a chain of additions into one register
    double cycles = inner * std::max({fma, loads / 2, latency});
    const double registers = r * v * perVector + v * perVector + 2;
    if (registers > static_cast<double>(target.vectorRegisters))
      cycles *= 1.5 + 0.05 * (registers - static_cast<double>(target.vectorRegisters));
    // The panel of columns is read from where it fits.
    const double panel = inner * v * k.lanes * 4;
    // Read in place, all its lines meet in one set of the first-level cache, in few of the second's.
    // Measured at 1024^3: 62 GFLOP/s in place, 172 copied; at 512^3 (2 KiB apart) 178 in place, at 3 KiB 166.
    if (direct && far > 0) cycles *= inner * v * k.lanes * 4 > 0.5 * static_cast<double>(target.l1Bytes) ? 2.6 : 1.15;
    if (panel > 0.75 * static_cast<double>(target.l1Bytes)) cycles = std::max(cycles, panel / 40);
    if (panel > 0.75 * static_cast<double>(target.l2Bytes)) cycles = std::max(cycles, panel / 10);
    // Rows read in place far apart: a line a row and step.
    if (k.packRows != Packing::Tiles) {
      bool dense = false;
      for (std::size_t a = 0; a < view.classes.size(); ++a)
        if (view.classes[a] == AxisClass::Inner && rowStride[a] == 1) dense = true;
      if (!dense) cycles += inner * r * 1.0;
      // Rows a multiple of 4 KiB apart meet in one set of the first-level cache.
      if (k.packRows == Packing::Place || k.packRows == Packing::Tensor)
        for (const auto& row : k.rows)
          if (row.factor > 8 && rowStride[row.axis] > 0 && std::fmod(rowStride[row.axis] * 4, 4096) == 0) cycles += inner * r * 1.5;
    }
    return cycles + 30;
  };
  const double outStride = view.outStride[k.vectorAxis];
  const bool inOrder = outStride == 1 || k.apart;
  const double finished = k.apart ? 0 : static_cast<double>(view.epilogue.size());
  const double storeEach = (inOrder ? 1.5 : 22) * perVector * (1 + finished) + (inOrder ? 0 : 12) * perVector * finished;

  const double columnFull = std::floor(vectorExtent / width), columnRest = std::fmod(vectorExtent, width);
  double rowFull = 1, rowRest = 0;
  for (std::size_t r = 0; r < k.rows.size(); ++r) {
    const auto extent = static_cast<double>(view.nest.axes[k.rows[r].axis].extent);
    const auto factor = static_cast<double>(k.rows[r].factor);
    rowFull *= std::floor(extent / factor);
    if (r == 0) rowRest = std::fmod(extent, factor);
  }
  tiles = points / vectorExtent;
  for (const auto& r : k.rows) tiles /= static_cast<double>(view.nest.axes[r.axis].extent);
  double restTiles = 1;
  for (std::size_t r = 1; r < k.rows.size(); ++r)
    restTiles *= static_cast<double>(view.nest.axes[k.rows[r].axis].extent) / static_cast<double>(k.rows[r].factor);
  const double restRows = rowRest * (k.rows.empty() ? 1 : rowTile / static_cast<double>(k.rows[0].factor));
  const auto cost = [&](double r, double v) { return tileCycles(r, v) + r * v * storeEach; };
  const double restVectors = std::ceil(columnRest / k.lanes);
  double cycles = rowFull * columnFull * cost(rowTile, k.vectors);
  if (columnRest > 0) cycles += rowFull * cost(rowTile, restVectors) * 1.1;
  if (rowRest > 0) cycles += restTiles * columnFull * cost(restRows, k.vectors);
  if (rowRest > 0 && columnRest > 0) cycles += restTiles * cost(restRows, restVectors) * 1.1;
  cycles *= tiles;

  // Copies: elements moved, cheap where the source is walked in order.
  const auto copyCycles = [&](double elements, bool unit) {
    const bool big = elements * 4 > static_cast<double>(target.l2Bytes) / 2;
    return elements / 16 * (unit ? 3 : 12) * (big ? 2 : 1);
  };
  const auto copied = [&](Packing how, bool left, bool unit) {
    switch (how) {
      case Packing::Place: return 0.0;
      case Packing::Tiles: return copyCycles(left ? view.leftElements : view.rightElements, unit) + 200;
      case Packing::Tensor: return copyCycles(left ? view.leftReadElements : view.rightReadElements, unit) + 200;
    }
    return 0.0;
  };
  if (k.apart) cycles += points / native * (8 + 6 * static_cast<double>(view.epilogue.size())) + 200;
  cycles += copied(k.packColumns, vectorLeft, columnStride[k.vectorAxis] == 1);
  cycles += copied(k.packRows, !vectorLeft, k.packRows == Packing::Tensor);
  double outer = tiles * std::ceil(vectorExtent / width);
  for (const auto& r : k.rows)
    outer *= std::ceil(static_cast<double>(view.nest.axes[r.axis].extent) / static_cast<double>(r.factor));
  const double used = std::min(static_cast<double>(std::max<std::int64_t>(target.threads, 1)), outer);
  return cycles / hertz / used + target.launchSeconds;
}

Function lowerContraction(const GroupView& group, const ContractionView& view, const ContractionKnobs& knobs,
                          const Target& target) {
  return ContractionBuilder(group, view, knobs, target).run();
}

}  // namespace nf::loop
