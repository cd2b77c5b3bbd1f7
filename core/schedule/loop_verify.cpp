// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/ir/bounds.h"
#include "core/schedule/fragment.h"
#include "core/schedule/loop_ir.h"

namespace nf::loop {
namespace {

class Verifier {
 public:
  explicit Verifier(const Function& f) : m_f(f), m_bound(f.vars.size(), false) {
    for (const Statement& s : f.statements) {
      if (s.kind == Statement::Kind::ArrivalInit && s.target.buffer.valid()) m_arrivals.insert(s.target.buffer);
      if (s.kind == Statement::Kind::TensorCopy && s.target.buffer.valid()) m_filled.insert(s.target.buffer);
    }
  }

  std::vector<std::string> run() {
    if (m_f.operands > m_f.buffers.size()) problem("more operands than buffers");
    for (std::size_t b = 0; b < m_f.buffers.size(); ++b) buffer(b);
    for (const TensorMap& m : m_f.maps) map(m);
    for (const Var& v : m_f.vars)
      if (v.extent < 1) problem("loop variable " + v.name + " has no points");
    for (std::size_t v = 0; v < m_f.values.size(); ++v) value(v);
    for (const Stage& stage : m_f.stages) {
      m_where = "stage " + stage.name;
      if (hasGridBarrier(m_f, stage.body)) together(stage.body);
      body(stage.body, {true, false, false});
    }
    return std::move(m_problems);
  }

 private:
  struct Around {
    bool outermost = false;  // only Parallel or Block loops around
    bool divergent = false;  // under a condition
    bool vector = false;
  };

  // Blocks that wait for each other are one nest of Block loops around one of Thread loops.
  void together(const std::vector<StmtId>& body) {
    const std::vector<StmtId>* inside = &body;
    const auto enter = [&](LoopKind kind) {
      if (inside->size() != 1 || m_f[inside->front()].kind != Statement::Kind::For) return false;
      const Statement& loop = m_f[inside->front()];
      if (m_f[loop.var].kind != kind) return false;
      inside = &loop.body;
      return true;
    };
    while (enter(LoopKind::Block)) {}
    if (!enter(LoopKind::Thread)) problem("a barrier of the grid stands where a block is not one nest of threads");
  }

  void problem(const std::string& what) {
    if (m_problems.size() < 50) m_problems.push_back(m_where.empty() ? what : m_where + ": " + what);
  }

  void buffer(std::size_t b) {
    const Buffer& x = m_f.buffers[b];
    if (x.elements < 1) problem("buffer " + x.name + " is empty");
    if (x.scope == Scope::Fragment && x.type != DType::F16 && x.type != DType::BF16 && x.type != DType::F32)
      problem("fragment " + x.name + " is of another type than f16, bf16 and f32");
    if (x.rounded && (x.scope != Scope::Shared || x.type != DType::F32))
      problem("buffer " + x.name + " rounds and is not shared memory of f32");
    if (b < m_f.operands && (x.scope != Scope::Global || x.direction == Direction::None))
      problem("operand " + x.name + " is not @in, @out or @inout");
    if (b >= m_f.operands && x.direction != Direction::None) problem("buffer " + x.name + " has a direction and is no operand");
    if (b >= m_f.operands && x.scope == Scope::Global &&
        (x.workspaceOffset < 0 || x.workspaceOffset % 64 != 0 ||
         x.workspaceOffset + x.elements * bytesOf(x.type) > m_f.workspaceBytes))
      problem("buffer " + x.name + " lies outside the workspace");
  }

  // What the engine takes (NVIDIA, CUDA driver API, cuTensorMapEncodeTiled), in bytes.
  void map(const TensorMap& m) {
    const auto wrong = [&](const char* what) { problem("map " + m.name + " " + what); };
    if (!m.buffer.valid() || m.buffer.value >= m_f.buffers.size()) return wrong("is of no buffer");
    const Buffer& b = m_f[m.buffer];
    if (b.scope != Scope::Global) return wrong("is not of global memory");
    if (m.axes.empty() || m.axes.size() > kMostMapAxes) return wrong("has no axes, or more than 5");
    const std::int64_t bytes = bytesOf(b.type);
    if (m.rounded && b.type != DType::F32) wrong("rounds other numbers than f32");
    if (m.offset < 0 || m.offset * bytes % kMapAlignment != 0) wrong("does not begin at a multiple of 16 bytes");
    if (m.axes[0].stride != 1 || m.axes[0].box * bytes != kSwizzledRowBytes) wrong("has no rows of 128 bytes");
    std::int64_t last = m.offset;
    for (std::size_t a = 0; a < m.axes.size(); ++a) {
      const TensorMap::Axis& axis = m.axes[a];
      if (axis.extent < 1 || axis.extent > kMostMapExtent || axis.box < 1 || axis.box > kMostBox)
        wrong("has an axis or a box that the engine does not take");
      if (a > 0 && (axis.stride * bytes % kMapAlignment != 0 || axis.stride * bytes >= kMostMapStride ||
                    axis.stride < m.axes[a - 1].stride * m.axes[a - 1].extent))
        wrong("has a stride that the engine does not take");
      last += (axis.extent - 1) * axis.stride;
    }
    if (last >= b.elements) wrong("leaves its buffer");
  }

  void value(std::size_t number) {
    const Value& v = m_f.values[number];
    const auto before = [&](ValueId id) {
      if (!id.valid() || id.value >= number)
        problem("value " + std::to_string(number) + " has an operand that does not precede it");
    };
    if (v.kind == Value::Kind::Apply)
      for (int k = 0; k < info(v.op).arity; ++k) before(v.operands[k]);
    if (v.kind == Value::Kind::Fma)
      for (const ValueId o : v.operands) before(o);
    if (v.guard.valid()) before(v.guard);
    if (v.kind != Value::Kind::Load) return;
    if (!v.place.buffer.valid() || v.place.buffer.value >= m_f.buffers.size())
      problem("value " + std::to_string(number) + " reads no buffer");
    for (const DataIndex& d : v.place.data) before(d.value);
  }

  void variables(const IndexExpr& e) {
    std::vector<IndexVar> used;
    e.collectVariables(used);
    for (const IndexVar v : used) {
      if (v >= kLoopVariable) continue;
      if (v >= m_bound.size() || !m_bound[v]) problem("a variable is used outside its loop");
    }
    if (e.overflowed()) problem("an offset overflows");
  }

  // Offsets that nothing guards must stay inside by their ranges alone.
  void place(const Place& p, bool guarded) {
    if (!p.buffer.valid() || p.buffer.value >= m_f.buffers.size()) return problem("a statement names no buffer");
    variables(p.offset);
    for (const DataIndex& d : p.data)
      if (d.extent < 1 || d.check >= m_f.checks.size()) problem("a data-dependent index has no extent or no check");
    if (guarded || !p.data.empty()) return;
    const auto range = bounds(p.offset, m_f.ranges());
    if (usesCounter(p.offset) || (range && range->lo >= 0 && range->hi < m_f[p.buffer].elements)) return;
    if (!proved(p.offset, m_f[p.buffer].elements)) problem("an offset of " + m_f[p.buffer].name + " may leave it");
  }

  // A place and the elements behind it.
  void places(const Place& p, std::int64_t elements, bool guarded) {
    place(p, guarded);
    if (elements > 1) place({p.buffer, p.offset + IndexExpr(elements - 1), p.data}, guarded);
  }

  // Intervals do not see that x//16 and x%16 are of one x; isl does.
  bool proved(const IndexExpr& offset, std::int64_t elements) const {
    std::vector<IndexVar> used;
    offset.collectVariables(used);
    std::vector<Range> box;
    for (const IndexVar v : used) box.push_back({0, m_f.vars[v].extent - 1});
    const IndexExpr numbered = substitute(offset, [&](IndexVar v) -> std::optional<IndexExpr> {
      const auto at = std::lower_bound(used.begin(), used.end(), v) - used.begin();
      return IndexExpr::variable(static_cast<IndexVar>(at));
    });
    return BoundsProver(std::move(box)).inBounds({}, numbered, elements).value_or(false);
  }

  static bool usesCounter(const IndexExpr& e) {
    std::vector<IndexVar> used;
    e.collectVariables(used);
    return std::any_of(used.begin(), used.end(), [](IndexVar v) { return v >= kLoopVariable; });
  }

  void body(const std::vector<StmtId>& statements, Around around) {
    if (statements.size() != 1) around.outermost = false;
    for (const StmtId id : statements) {
      if (!id.valid() || id.value >= m_f.statements.size()) {
        problem("a statement is not in the pool");
        continue;
      }
      statement(m_f[id], around);
    }
  }

  void statement(const Statement& s, const Around& around) {
    for (const ValueId v : valuesOf(m_f, s)) {
      const Value& read = m_f[v];
      variables(read.index);
      if (read.kind != Value::Kind::Load) continue;
      place(read.place, read.guard.valid() || around.divergent);
      if (read.place.buffer.valid() && m_f[read.place.buffer].scope == Scope::Fragment) problem("a fragment is read as numbers");
      if (m_arrivals.contains(read.place.buffer)) problem("an arrival is read as a number");
    }
    switch (s.kind) {
      case Statement::Kind::For: {
        if (!s.var.valid() || s.var.value >= m_f.vars.size()) return problem("a loop has no variable");
        const Var& v = m_f[s.var];
        if (m_bound[s.var.value]) problem("loop variable " + v.name + " is bound twice");
        if (v.kind == LoopKind::Parallel && !around.outermost) problem("parallel loop " + v.name + " is not outermost");
        if (v.kind == LoopKind::Vector && around.vector) problem("vector loop " + v.name + " stands inside another");
        Around inner = around;
        inner.outermost = around.outermost && (v.kind == LoopKind::Parallel || v.kind == LoopKind::Block);
        inner.vector = around.vector || v.kind == LoopKind::Vector;
        m_bound[s.var.value] = true;
        body(s.body, inner);
        m_bound[s.var.value] = false;
        return;
      }
      case Statement::Kind::If: {
        if (!s.value.valid() || m_f[s.value].type != DType::Bool) problem("a condition is no bool");
        Around inner = around;
        inner.divergent = true;
        inner.outermost = false;
        body(s.body, inner);
        body(s.otherwise, inner);
        return;
      }
      case Statement::Kind::Store:
        place(s.target, around.divergent);
        if (s.target.buffer.valid() && m_f[s.target.buffer].scope == Scope::Fragment && m_f[s.target.buffer].type != DType::F32)
          problem("a part of a register of fragment " + m_f[s.target.buffer].name + " is stored");
        byThreads(s.target.buffer);
        if (!s.value.valid()) return problem("a store has no value");
        if (s.target.buffer.valid() && m_f[s.target.buffer].direction == Direction::In)
          problem(m_f[s.target.buffer].name + " is @in and written");
        return;
      case Statement::Kind::Barrier:
        if (around.divergent) problem("a barrier stands under a condition");
        return;
      case Statement::Kind::AsyncCopy:
        places(s.target, s.elements, around.divergent);
        places(s.left, s.elements, around.divergent);
        byThreads(s.target.buffer);
        if (s.elements < 1) problem("an asynchronous copy moves nothing");
        if (m_f[s.target.buffer].scope != Scope::Shared) problem("an asynchronous copy does not go to a shared buffer");
        if (m_f[s.target.buffer].rounded) problem("an asynchronous copy goes to a buffer that rounds");
        return;
      case Statement::Kind::AsyncCommit:
      case Statement::Kind::AsyncWait: return;
      case Statement::Kind::Exchange:
        if (around.divergent) problem("an exchange stands under a condition");
        place(s.target, around.divergent);
        place(s.left, around.divergent);
        if (s.elements < 1 || s.elements > 31) problem("an exchange leaves its warp");
        for (const Place* p : {&s.target, &s.left})
          if (p->buffer.valid() && m_f[p->buffer].scope != Scope::Local) problem("an exchange is not between local buffers");
        return;
      case Statement::Kind::MatrixLoad:
        if (around.divergent) problem("a matrix is loaded under a condition");
        if (s.elements != 1 && s.elements != 2 && s.elements != 4) problem("a load is not of 1, 2 or 4 matrices");
        if (!s.target.buffer.valid() || !s.left.buffer.valid()) return problem("a matrix names no buffer");
        places(s.target, s.elements * perRegister(m_f[s.target.buffer].type), around.divergent);
        places(s.left, matrixColumns(m_f[s.left.buffer].type), around.divergent);
        if (m_f[s.target.buffer].scope != Scope::Fragment || m_f[s.left.buffer].scope != Scope::Shared)
          problem("a matrix is not loaded from a shared buffer into a fragment");
        if (m_f[s.target.buffer].type != m_f[s.left.buffer].type) problem("a matrix and its fragment have different types");
        if (s.transposed && bytesOf(m_f[s.left.buffer].type) != 2) problem("a matrix of other than 2-byte numbers is transposed");
        return;
      case Statement::Kind::MatrixTile: {
        if (around.divergent) problem("a matrix tile stands under a condition");
        if (!s.target.buffer.valid() || !s.left.buffer.valid() || !s.right.buffer.valid())
          return problem("a matrix tile names no buffer");
        const Buffer &c = m_f[s.target.buffer], &a = m_f[s.left.buffer], &b = m_f[s.right.buffer];
        if (c.scope != Scope::Local || c.type != DType::F32) problem("a matrix tile is not added to a local f32 buffer");
        if (a.scope != Scope::Fragment || b.scope != Scope::Fragment || a.type != b.type)
          problem("a matrix tile is not the product of fragments of one type");
        if (!isMatrixTile(a.type, s.tile)) return problem("no matrix unit has tiles of this shape");
        const auto [m, n, k] = s.tile;
        places(s.target, m * n / 32, around.divergent);
        places(s.left, m * k / 32, around.divergent);
        places(s.right, k * n / 32, around.divergent);
        return;
      }
      case Statement::Kind::WarpgroupTile: warpgroupTile(s, around.divergent); return;
      case Statement::Kind::WarpgroupFence:
      case Statement::Kind::WarpgroupCommit:
      case Statement::Kind::WarpgroupWait:
        if (around.divergent) problem("a fence, commit or wait of a warpgroup stands under a condition");
        return;
      case Statement::Kind::ProxyFence: return;
      case Statement::Kind::TensorCopy: tensorCopy(s, around.divergent); return;
      case Statement::Kind::ArrivalInit: arrival(s.target, around.divergent); return;
      case Statement::Kind::ArrivalExpect:
        arrival(s.target, around.divergent);
        if (s.elements < 1 || s.elements > kMostArrivalBytes) problem("an arrival expects nothing, or more than it counts");
        return;
      case Statement::Kind::ArrivalWait: {
        if (around.divergent) problem("a wait for an arrival stands under a condition");
        arrival(s.target, around.divergent);
        variables(s.parity);
        const auto range = bounds(s.parity, m_f.ranges());
        if ((!range || range->lo < 0 || range->hi > 1) && !proved(s.parity, 2))
          problem("a wait for an arrival names a phase that is not 0 or 1");
        return;
      }
    }
  }

  // What the copy engine fills, nobody else writes, and nobody writes an arrival.
  void byThreads(BufferId buffer) {
    if (!buffer.valid()) return;
    if (m_filled.contains(buffer)) problem(m_f[buffer].name + " is filled by tensor copies and written by threads");
    if (m_arrivals.contains(buffer)) problem("an arrival is written as a number");
  }

  void arrival(const Place& p, bool divergent) {
    place(p, divergent);
    if (!p.buffer.valid()) return;
    if (m_f[p.buffer].scope != Scope::Shared || m_f[p.buffer].type != DType::I64) problem("an arrival is not shared memory of i64");
    if (!m_arrivals.contains(p.buffer)) problem("arrivals of " + m_f[p.buffer].name + " never begin");
  }

  void tensorCopy(const Statement& s, bool divergent) {
    if (!s.map.valid() || s.map.value >= m_f.maps.size()) return problem("a tensor copy has no map");
    if (!s.target.buffer.valid() || !m_f[s.map].buffer.valid()) return problem("a tensor copy names no buffer");
    const TensorMap& m = m_f[s.map];
    const Buffer &from = m_f[m.buffer], &to = m_f[s.target.buffer];
    arrival(s.right, divergent);
    if (s.coordinates.size() != m.axes.size()) problem("a tensor copy has not as many coordinates as its map has axes");
    for (const IndexExpr& c : s.coordinates) variables(c);
    if (to.scope != Scope::Shared || to.type != from.type)
      return problem("a tensor copy does not go to a shared buffer of its type");
    if (to.rounded != m.rounded) problem("a tensor copy and the buffer it goes to do not both round");
    places(s.target, boxBytes(m_f, m) / bytesOf(to.type), divergent);
  }

  void warpgroupTile(const Statement& s, bool divergent) {
    if (divergent) problem("a tile of a warpgroup stands under a condition");
    if (!s.target.buffer.valid() || !s.left.buffer.valid() || !s.right.buffer.valid())
      return problem("a tile of a warpgroup names no buffer");
    const Buffer &c = m_f[s.target.buffer], &a = m_f[s.left.buffer], &b = m_f[s.right.buffer];
    if (c.scope != Scope::Local || c.type != DType::F32) problem("a tile of a warpgroup is not added to a local f32 buffer");
    if (a.scope != Scope::Shared || b.scope != Scope::Shared || a.type != b.type)
      problem("a tile of a warpgroup is not the product of shared buffers of one type");
    if (!isWarpgroupTile(a.type, s.tile)) return problem("no warpgroup has tiles of this shape");
    if (a.type == DType::F32) {
      if (s.leftLies.turned || s.rightLies.turned) problem("an operand of a tile on tf32 does not lie along the reduced points");
      if (!a.rounded || !b.rounded) problem("an operand of a tile on tf32 is not rounded to it");
    }
    const auto [m, n, k] = s.tile;
    places(s.target, m * n / kWarpgroupThreads, divergent);
    places(s.left, beforeSwizzle(a.type, s.leftLies, m - 1, k - 1) + 1, divergent);
    places(s.right, beforeSwizzle(b.type, s.rightLies, n - 1, k - 1) + 1, divergent);
  }

  const Function& m_f;
  std::set<BufferId> m_arrivals, m_filled;
  std::vector<bool> m_bound;
  std::string m_where;
  std::vector<std::string> m_problems;
};

}  // namespace

std::vector<std::string> verify(const Function& function) { return Verifier(function).run(); }

}  // namespace nf::loop
