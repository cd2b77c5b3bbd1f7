// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/gpu_contraction.h"

#include "core/support/checked.h"

namespace nf::loop {

Function GpuContraction::run() {
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

std::vector<std::size_t> GpuContraction::axesOf(AxisClass c, std::int64_t& points) const {
  std::vector<std::size_t> axes;
  points = 1;
  for (std::size_t a = 0; a < m_view.classes.size(); ++a)
    if (m_view.classes[a] == c) {
      axes.push_back(a);
      points *= axis(a).extent;
    }
  return axes;
}

void GpuContraction::assign(std::vector<IndexExpr>& merged, const std::vector<std::size_t>& which, const IndexExpr& number) const {
  std::vector<std::int64_t> extents;
  for (const std::size_t a : which) extents.push_back(axis(a).extent);
  const auto made = digits(number, extents, m_f.ranges());
  for (std::size_t k = 0; k < which.size(); ++k) merged[which[k]] = made[k];
}

std::vector<IndexExpr> GpuContraction::originals(const std::vector<IndexExpr>& merged) const {
  return originalAxes(m_view.nest, merged, m_f.ranges());
}

GpuContraction::Body GpuContraction::under(ValueId condition, Body body, Body otherwise) {
  if (!condition.valid()) return body;
  return {m_f.when(condition, std::move(body), std::move(otherwise), origin())};
}

ValueId GpuContraction::below(const IndexExpr& e, std::int64_t extent, bool always) {
  return always ? ValueId{} : m_f.ge0(IndexExpr(extent - 1) - e);
}

void GpuContraction::kernel() {
  m_batch = axesOf(AxisClass::Batch, m_batches);
  m_inner = axesOf(AxisClass::Inner, m_steps);
  open(m_left, AxisClass::Left);
  open(m_right, AxisClass::Right);
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
  const std::vector<VarId> threads = declareThreads();
  m_merged.assign(m_view.nest.axes.size(), IndexExpr{});
  assign(m_merged, m_batch, m_batchIndex);

  Body body;
  if (tensors()) append(body, beginArrivals());
  append(body, zero());
  append(body, pipeline());
  append(body, m_knobs.split > 1 ? storeParts() : storeResults());
  for (auto it = threads.rbegin(); it != threads.rend(); ++it) body = {loop(*it, std::move(body))};
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) body = {loop(*it, std::move(body))};
  m_f.stages.push_back({m_p[m_view.op].name, std::move(body)});
  if (m_knobs.split > 1) together();
}

void GpuContraction::bringFirst(Body& all, std::int64_t slices) {
  for (std::int64_t s = 0; s < slices; ++s) {
    append(all, bring(IndexExpr(s), IndexExpr(s), below(IndexExpr(s), m_each, s < m_each)));
    commit(all);
  }
}

void GpuContraction::commit(Body& body) {
  if (!tensors()) body.push_back(m_f.asyncCommit(origin()));
}

// Tensors come with an arrival each: the barrier is there for the buffer that is filled next, and with one buffer stands behind its products.
void GpuContraction::land(Body& body, const IndexExpr& slice, std::int64_t inFlight) {
  if (tensors()) {
    const std::int64_t stages = m_knobs.stages;
    const IndexExpr phase = simple(floorMod(floorDiv(slice, stages), 2));
    body.push_back(m_f.arrivalWait({m_arrivals, simple(floorMod(slice, stages)), {}}, phase, origin()));
    if (stages > 1) body.push_back(m_f.barrier(origin()));
    return;
  }
  body.push_back(m_f.asyncWait(inFlight, origin()));
  if (warpgroups()) body.push_back(m_f.proxyFence(origin()));
  body.push_back(m_f.barrier(origin()));
}

// A slice's products are begun before those of the one before have ended, so the slice before that is the one whose memory is free.
GpuContraction::Body GpuContraction::pipelineOfWarpgroups() {
  const std::int64_t stages = m_knobs.stages;
  Body all;
  bringFirst(all, stages - 2);
  const VarId slice = m_f.addVar("slice", m_each, LoopKind::Serial);
  const IndexExpr next = at(slice) + IndexExpr(stages - 2);
  Body inside;
  land(inside, at(slice), stages - 3);
  append(inside, bring(next, floorMod(next, stages), m_f.ge0(IndexExpr(m_each - 1) - next)));
  commit(inside);
  append(inside, multiplyWarpgroups(floorMod(at(slice), stages)));
  inside.push_back(m_f.warpgroupWait(1, origin()));
  all.push_back(loop(slice, std::move(inside)));
  all.push_back(m_f.warpgroupWait(0, origin()));
  if (!tensors()) all.push_back(m_f.asyncWait(0, origin()));
  return all;
}

// Three levels: a slice's last step multiplies while the next one's first fragments come from shared memory.
GpuContraction::Body GpuContraction::pipelineOfFragments() {
  const std::int64_t stages = m_knobs.stages, last = m_knobs.blockK / m_step.points - 1;
  Body all;
  bringFirst(all, stages - 1);
  const auto landed = [&](Body& body, const IndexExpr& buffer) {
    land(body, buffer, stages - 2);
    append(body, loadStep(buffer, IndexExpr(0)));
  };
  landed(all, IndexExpr(0));
  if (m_each > 1) {
    const VarId slice = m_f.addVar("slice", m_each - 1, LoopKind::Serial);
    const IndexExpr next = at(slice) + IndexExpr(stages - 1);
    Body inside = bring(next, floorMod(next, stages), m_f.ge0(IndexExpr(m_each - 1) - next));
    inside.push_back(m_f.asyncCommit(origin()));
    append(inside, multiplyAhead(floorMod(at(slice), stages)));
    landed(inside, floorMod(at(slice) + IndexExpr(1), stages));
    inside.push_back(tiles(IndexExpr(last), IndexExpr(0)));
    all.push_back(loop(slice, std::move(inside)));
  }
  append(all, multiplyAhead(IndexExpr((m_each - 1) % stages)));
  all.push_back(tiles(IndexExpr(last), IndexExpr(0)));
  all.push_back(m_f.asyncWait(0, origin()));
  return all;
}

GpuContraction::Body GpuContraction::pipeline() {
  if (m_knobs.pipeline > 2) return warpgroups() ? pipelineOfWarpgroups() : pipelineOfFragments();
  const std::int64_t stages = m_knobs.stages;
  Body all;
  bringFirst(all, stages - 1);
  const VarId slice = m_f.addVar("slice", m_each, LoopKind::Serial);
  const IndexExpr next = at(slice) + IndexExpr(stages - 1);
  Body inside;
  if (stages == 1) {
    append(inside, bring(at(slice), IndexExpr(0), {}));
    commit(inside);
    land(inside, at(slice), 0);
    append(inside, multiply(IndexExpr(0)));
    inside.push_back(m_f.barrier(origin()));
  } else {
    land(inside, at(slice), stages - 2);
    append(inside, bring(next, floorMod(next, stages), m_f.ge0(IndexExpr(m_each - 1) - next)));
    commit(inside);
    append(inside, multiply(floorMod(at(slice), stages)));
  }
  all.push_back(loop(slice, std::move(inside)));
  if (stages > 1 && !tensors()) all.push_back(m_f.asyncWait(0, origin()));
  return all;
}

// The contraction's output, where it is one, and the epilogue, of the sum at m_sum.
GpuContraction::Body GpuContraction::results(const std::vector<IndexExpr>& merged, const Place& sum) {
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
  Body stores;
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

GpuContraction::Body GpuContraction::storeResults() {
  return overTile([&](const IndexExpr& row, const IndexExpr& column, const IndexExpr& place) {
    std::vector<IndexExpr> merged = m_merged;
    assign(merged, m_left.axes, row);
    assign(merged, m_right.axes, column);
    return results(merged, {m_acc, place, {}});
  });
}

GpuContraction::Body GpuContraction::storeParts() {
  m_parts = m_f.addWorkspace(m_p[m_view.op].name + "#parts", DType::F32, m_knobs.split * points());
  return overTile([&](const IndexExpr& row, const IndexExpr& column, const IndexExpr& place) {
    const IndexExpr at_ = m_right.points * (m_left.points * (m_batches * m_partIndex + m_batchIndex) + row) + column;
    return Body{m_f.store({m_parts, at_, {}}, m_f.load({m_acc, place, {}}), origin())};
  });
}

void GpuContraction::together() {
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
  Body body{m_f.store(sum, m_f.constant(0, DType::F32), origin()),
            loop(part, {m_f.store(sum, m_f.apply(ScalarOp::Add, DType::F32, {m_f.load(sum), more, {}}), origin())})};
  append(body, results(merged, sum));
  body = under(below(point, points(), points() % kThreads == 0), std::move(body));
  m_f.stages.push_back({m_p[m_view.op].name + " of its parts", {loop(block, {loop(thread, std::move(body))})}});
}

Function lowerGpuContraction(const GroupView& group, const ContractionView& view, const GpuContractionKnobs& knobs, const Target&) {
  return GpuContraction(group, view, knobs).run();
}

}  // namespace nf::loop
