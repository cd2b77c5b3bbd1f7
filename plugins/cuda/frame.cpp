// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/frame.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/gpu.h"
#include "core/support/checked.h"

namespace nf::cuda {

using namespace loop;

namespace {

constexpr std::int64_t kDeclaredShared = 48 << 10;  // bytes that a kernel may declare on every device

}  // namespace

void Frame::collect(const std::vector<StmtId>& body, Touched& into) const {
  const auto place = [&](const Place& p, std::set<BufferId>& how) {
    if (!p.buffer.valid()) return;
    into.buffers.insert(p.buffer);
    how.insert(p.buffer);
  };
  for (const StmtId id : body) {
    const Statement& s = m_f[id];
    place(s.target, into.written);
    place(s.left, into.read);
    place(s.right, into.read);
    into.swizzled = into.swizzled || s.kind == Statement::Kind::WarpgroupTile || s.kind == Statement::Kind::TensorCopy;
    if (s.kind == Statement::Kind::TensorCopy) into.maps.insert(s.map);
    for (const ValueId v : valuesOf(m_f, s)) {
      place(m_f[v].place, into.read);
      if (m_f[v].kind == Value::Kind::Random) into.streams.insert(static_cast<std::uint64_t>(m_f[v].constant));
    }
    collect(s.body, into);
    collect(s.otherwise, into);
  }
}

// The variables of a chain of loops of one kind, and what stands inside.
std::vector<VarId> Frame::chain(LoopKind kind, const std::vector<StmtId>*& body) const {
  std::vector<VarId> loops;
  while (body->size() == 1 && m_f[body->front()].kind == Statement::Kind::For && m_f[m_f[body->front()].var].kind == kind) {
    loops.push_back(m_f[body->front()].var);
    body = &m_f[body->front()].body;
  }
  return loops;
}

std::int64_t Frame::product(const std::vector<VarId>& loops) const {
  std::int64_t n = 1;
  for (const VarId v : loops) n *= m_f[v].extent;
  return n;
}

std::optional<Grid> Frame::grid(std::size_t index) {
  const loop::Stage& stage = m_f.stages[index];
  m_stage = stage.name;
  Grid result;
  result.stage.symbol = "nf_stage" + std::to_string(index);
  const auto refuse = [&](const std::string& what) {
    fail(what);
    return std::nullopt;
  };
  const std::vector<StmtId>* inside = &stage.body;
  result.blocks = chain(LoopKind::Block, inside);
  result.stage.tasks = product(result.blocks);
  for (const StmtId id : *inside) {
    const std::vector<StmtId> one{id};
    const std::vector<StmtId>* body = &one;
    auto threads = chain(LoopKind::Thread, body);
    if (threads.empty()) return refuse("something stands outside its threads");
    result.nests.push_back({std::move(threads), body});
  }
  if (result.nests.empty()) return refuse("it has no threads");
  result.stage.threads = product(result.nests.front().threads);
  for (const ThreadNest& nest : result.nests)
    if (product(nest.threads) != result.stage.threads) return refuse("its nests have different numbers of threads");
  result.stage.cooperative = hasGridBarrier(m_f, stage.body);
  if (result.stage.cooperative && result.nests.size() > 1) return refuse("its blocks wait for each other in one of several nests");
  if (result.stage.threads > 1024) return refuse("a block has more than 1024 threads");
  if (result.stage.tasks > INT32_MAX) return refuse("the grid has more blocks than 31 bits count");
  layShared(stage.body, result);
  Touched used;
  collect(stage.body, used);
  for (const MapId m : used.maps) result.stage.maps.push_back(mapOf(m));
  result.stage.random = !used.streams.empty();
  return result;
}

KernelTensorMap Frame::mapOf(MapId id) const {
  const TensorMap& map = m_f[id];
  const Buffer& buffer = m_f[map.buffer];
  const std::int64_t bytes = bytesOf(buffer.type);
  const bool operand = map.buffer.value < m_f.operands;
  KernelTensorMap result;
  result.operand = operand ? static_cast<std::int64_t>(map.buffer.value) : -1;
  result.offset = map.offset * bytes + (operand ? 0 : buffer.workspaceOffset);
  result.type = buffer.type;
  result.rounded = map.rounded;
  for (const TensorMap::Axis& a : map.axes) result.axes.push_back({a.extent, a.stride * bytes, a.box});
  return result;
}

void Frame::layShared(const std::vector<StmtId>& body, Grid& grid) const {
  Touched used;
  collect(body, used);
  const std::int64_t alignment = used.swizzled ? kSwizzledAtomBytes : kSharedAlignment;
  std::int64_t bytes = 0;
  for (const BufferId b : used.buffers) {
    if (m_f[b].scope != Scope::Shared) continue;
    grid.shared[b] = bytes;
    bytes += ceilDiv(m_f[b].elements * bytesOf(m_f[b].type), alignment) * alignment;
  }
  if (bytes <= kDeclaredShared && !used.swizzled) return grid.shared.clear();
  grid.stage.sharedBytes = bytes;
}

IndexExpr Frame::bind(const IndexExpr& e) const {
  if (m_constants.empty()) return e;
  return simplify(substitute(e,
                             [&](IndexVar v) -> std::optional<IndexExpr> {
                               const auto found = m_constants.find(v);
                               if (found != m_constants.end()) return IndexExpr(found->second);
                               return std::nullopt;
                             }),
                  m_f.ranges());
}

IndexExpr Frame::atLane(const IndexExpr& e, VarId lane, std::int64_t l) const {
  return simplify(substitute(e,
                             [&](IndexVar v) -> std::optional<IndexExpr> {
                               if (v == lane.value) return IndexExpr(l);
                               return std::nullopt;
                             }),
                  m_f.ranges());
}

std::optional<double> Frame::magnitude(const IndexExpr& e) const {
  double sum = std::fabs(static_cast<double>(e.constant()));
  for (const IndexTerm& t : e.terms()) {
    double most = 0;
    if (t.atom.isFloorDiv()) {
      const auto inner = magnitude(*t.atom.numerator);
      if (!inner || *inner > INT32_MAX || t.atom.divisor > INT32_MAX) return std::nullopt;
      most = std::ceil(*inner / static_cast<double>(t.atom.divisor)) + 1;
    } else {
      if (t.atom.variable >= m_f.vars.size()) return std::nullopt;
      most = static_cast<double>(m_f.vars[t.atom.variable].extent - 1);
    }
    sum += std::fabs(static_cast<double>(t.coefficient)) * most;
  }
  return sum;
}

bool Frame::fitsInt(const IndexExpr& e) const {
  const auto most = magnitude(e);
  return most && *most <= INT32_MAX;
}

bool Frame::nonNegativeFloors(const IndexExpr& e) const {
  for (const IndexTerm& t : e.terms()) {
    if (!t.atom.isFloorDiv()) continue;
    const auto range = bounds(*t.atom.numerator, m_f.ranges());
    if (!range || range->lo < 0 || !nonNegativeFloors(*t.atom.numerator)) return false;
  }
  return true;
}

bool Frame::wide(BufferId id, const IndexExpr& unbound, std::int64_t elements) const {
  const Buffer& buffer = m_f[id];
  const std::int64_t bytes = elements * bytesOf(buffer.type);
  if (buffer.scope == Scope::Local || buffer.scope == Scope::Fragment || (bytes != 4 && bytes != 8 && bytes != 16)) return false;
  if (id.value < m_f.operands && buffer.elements * bytesOf(buffer.type) % bytes != 0) return false;
  const IndexExpr offset = bind(unbound);
  if (offset.constant() % elements != 0) return false;
  return std::all_of(offset.terms().begin(), offset.terms().end(),
                     [&](const IndexTerm& t) { return t.coefficient % elements == 0; });
}

bool Frame::together(const Place& p, VarId lane, std::int64_t count) const {
  if (!p.data.empty()) return false;
  const IndexExpr first = atLane(p.offset, lane, 0);
  for (std::int64_t l = 1; l < count; ++l)
    if (!(atLane(p.offset, lane, l) == first + IndexExpr(l))) return false;
  return wide(p.buffer, first, count);
}

}  // namespace nf::cuda
