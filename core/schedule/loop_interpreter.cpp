// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/loop_interpreter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/ir/folding.h"
#include "core/schedule/arrival_order.h"
#include "core/schedule/fragment.h"
#include "core/schedule/warpgroup_order.h"
#include "core/support/checked.h"
#include "core/support/counter_random.h"

namespace nf::loop {
namespace {

// Who touched an element: the thread or task, its block, and the interval between barriers. Intervals are numbered through all
// stages, so one before the stage's first is another stage's.
struct Who {
  std::int64_t thread = 0, block = 0, interval = -1;
};

constexpr std::int64_t kWarpThreads = 32;

bool ofThread(const Buffer& buffer) { return buffer.scope == Scope::Local || buffer.scope == Scope::Fragment; }

// The last write and the reads of a stage. Of readers it is enough to know two that differ.
struct Touch {
  Who writer, reader;
  bool readByBlocks = false;   // of this stage: more than one
  bool readByThreads = false;  // of this interval: more than one
};

class Interpreter {
 public:
  Interpreter(const Function& f, const LoopRun& run)
      : m_f(f), m_run(run), m_vars(f.vars.size(), 0), m_barriers(f.statements.size(), 0), m_warpgroups(f), m_arrivals(f) {}

  Result<Unit> run() {
    for (std::size_t b = 0; b < m_f.buffers.size(); ++b) {
      const Buffer& buffer = m_f.buffers[b];
      const auto n = static_cast<std::size_t>(buffer.elements);
      if (b < m_f.operands) {
        if (m_run.operands->at(b).size() != n)
          return Error{"interpret loops", "operand " + buffer.name + " has another size", {}, {}};
        m_memory.push_back(m_run.operands->at(b));
        m_known.emplace_back(n, buffer.direction == Direction::In ? 1 : 0);
      } else {
        m_memory.emplace_back(n, 0.0);
        m_known.emplace_back(n, 0);
      }
      m_touched.emplace_back(ofThread(buffer) ? 0 : n);
    }
    for (const Stage& stage : m_f.stages) {
      ++m_interval;
      m_stageBegan = m_interval;
      m_who = m_block = 0;
      m_tasks = 0;
      m_stage = stage.name;
      m_meet = hasGridBarrier(m_f, stage.body);
      body(stage.body);
      if (!m_error.empty()) return Error{"interpret loops", m_error, {}, {}};
    }
    for (std::size_t b = 0; b < m_f.operands; ++b) {
      if (m_f.buffers[b].direction == Direction::In) continue;
      if (std::find(m_known[b].begin(), m_known[b].end(), 0) != m_known[b].end())
        return Error{"interpret loops", "an element of " + m_f.buffers[b].name + " is never written", {}, {}};
      m_run.operands->at(b) = std::move(m_memory[b]);
    }
    return Unit{};
  }

 private:
  void fail(const std::string& what) {
    if (m_error.empty()) m_error = "stage " + m_stage + ": " + what;
  }

  // Of statements for which all threads of a block, or of a warp, must come together.
  bool hasBarrier(StmtId id) {
    char& known = m_barriers[id.value];
    if (known != 0) return known == 2;
    const Statement& s = m_f[id];
    bool has = s.kind == Statement::Kind::Barrier || s.kind == Statement::Kind::Exchange || s.kind == Statement::Kind::MatrixLoad ||
               s.kind == Statement::Kind::MatrixTile || s.kind == Statement::Kind::WarpgroupTile ||
               s.kind == Statement::Kind::WarpgroupFence || s.kind == Statement::Kind::WarpgroupCommit ||
               s.kind == Statement::Kind::WarpgroupWait || s.kind == Statement::Kind::ArrivalWait;
    for (const StmtId inner : s.body) has = hasBarrier(inner) || has;
    for (const StmtId inner : s.otherwise) has = hasBarrier(inner) || has;
    m_barriers[id.value] = has ? 2 : 1;
    return has;
  }

  void body(const std::vector<StmtId>& statements) {
    for (const StmtId id : statements) {
      if (!m_error.empty()) return;
      statement(id);
    }
  }

  void statement(StmtId id) {
    const Statement& s = m_f[id];
    switch (s.kind) {
      case Statement::Kind::For: {
        const Var& v = m_f[s.var];
        if (v.kind == LoopKind::Thread) return threads(s, {});
        if (v.kind == LoopKind::Block && m_meet) return together(s);
        for (std::int64_t i = 0; i < v.extent && m_error.empty(); ++i) {
          m_vars[s.var.value] = i;
          // Each task and each block of a stage is somebody of its own; a block's first thread is its next number.
          if (v.kind == LoopKind::Parallel || v.kind == LoopKind::Block) m_who = m_block = ++m_tasks;
          if (v.kind == LoopKind::Block)
            for (std::size_t b = m_f.operands; b < m_f.buffers.size(); ++b)
              if (m_f.buffers[b].scope == Scope::Shared) {
                m_known[b].assign(m_known[b].size(), 0);
                m_touched[b].assign(m_touched[b].size(), Touch{});
              }
          body(s.body);
        }
        return;
      }
      case Statement::Kind::If:
        if (value(s.value) != 0) body(s.body);
        else body(s.otherwise);
        return;
      case Statement::Kind::Store: {
        const double v = value(s.value);
        const auto at = offset(s.target);
        if (at) write(s.target.buffer, *at, v);
        return;
      }
      case Statement::Kind::Barrier:
        if (s.barrier == BarrierScope::Grid) return fail("a barrier of the grid outside its threads");
        ++m_interval;
        return;
      case Statement::Kind::AsyncCopy: {
        const auto to = offset(s.target), from = offset(s.left);
        for (std::int64_t i = 0; to && from && i < s.elements && m_error.empty(); ++i) {
          const double v = read(s.left.buffer, *from + i);
          write(s.target.buffer, *to + i, 0);
          if (!m_error.empty()) return;
          m_known[s.target.buffer.value][static_cast<std::size_t>(*to + i)] = 0;  // until it lands
          copies().open.push_back({s.target.buffer, *to + i, v});
        }
        return;
      }
      case Statement::Kind::AsyncCommit: copies().flying.push_back(std::exchange(copies().open, {})); return;
      case Statement::Kind::AsyncWait: {
        auto& flying = copies().flying;
        while (static_cast<std::int64_t>(flying.size()) > s.elements) {
          for (const Landing& l : flying.front()) write(l.buffer, l.at, l.value);
          flying.erase(flying.begin());
        }
        return;
      }
      case Statement::Kind::Exchange: return fail("threads exchange values outside a block");
      case Statement::Kind::MatrixLoad:
      case Statement::Kind::MatrixTile: return fail("a matrix of a warp outside a block");
      case Statement::Kind::WarpgroupFence:
      case Statement::Kind::WarpgroupTile:
      case Statement::Kind::WarpgroupCommit:
      case Statement::Kind::WarpgroupWait: return fail("a tile of a warpgroup outside a block");
      case Statement::Kind::ProxyFence: m_arrivals.proxyFence(m_thread); return m_warpgroups.proxyFence(m_thread, m_interval);
      case Statement::Kind::TensorCopy: return tensorCopy(s);
      case Statement::Kind::ArrivalInit:
        if (const auto at = arrival(s.target)) report(m_arrivals.init(s.target, *at, m_thread, m_interval));
        return;
      case Statement::Kind::ArrivalExpect:
        if (const auto at = arrival(s.target)) report(m_arrivals.expect(s.target, *at, s.elements, m_thread, m_interval));
        return;
      case Statement::Kind::ArrivalWait: return fail("a wait for an arrival outside a block");
    }
  }

  struct Landing {
    BufferId buffer;
    std::int64_t at = 0;
    double value = 0;
  };

  struct Copies {
    std::vector<Landing> open;
    std::vector<std::vector<Landing>> flying;  // closed groups, oldest first
  };
  Copies& copies() {
    if (m_copies.size() <= m_thread) m_copies.resize(m_thread + 1);
    return m_copies[m_thread];
  }

  // The element of an arrival; nullopt: it is none of a block's own.
  std::optional<std::int64_t> arrival(const Place& place) {
    if (m_together) fail("an arrival where blocks wait for each other");
    const auto at = offset(place);
    if (!at || !inside(place.buffer, *at) || !m_error.empty()) return std::nullopt;
    return at;
  }

  void tensorCopy(const Statement& s) {
    const TensorMap& map = m_f[s.map];
    const DType type = m_f[s.target.buffer].type;
    const auto to = offset(s.target), place = arrival(s.right);
    if (!to || !place) return;
    if (*to * bytesOf(type) % kSwizzledAtomBytes != 0)
      return fail("a tensor copy does not begin at the first of eight rows of " + m_f[s.target.buffer].name);
    std::vector<std::int64_t> first;
    for (const IndexExpr& c : s.coordinates) first.push_back(index(c));
    const std::int64_t bytes = boxBytes(m_f, map);
    std::vector<ArrivalOrder::Landing> landings;
    for (std::int64_t n = 0; n < bytes / bytesOf(type) && m_error.empty(); ++n) {
      std::int64_t rest = n, from = map.offset;
      bool inTensor = true;
      for (std::size_t a = 0; a < map.axes.size(); ++a) {
        const std::int64_t c = first[a] + rest % map.axes[a].box;
        rest /= map.axes[a].box;
        inTensor = inTensor && c >= 0 && c < map.axes[a].extent;
        from += c * map.axes[a].stride;
      }
      const std::int64_t at = swizzled(type, *to + n);
      const double value = inTensor ? read(map.buffer, from) : 0;
      if (!inside(s.target.buffer, at) || !claim(s.target.buffer, at)) return;
      if (m_warpgroups.concerns(s.target.buffer)) m_warpgroups.overwritten(s.target.buffer, at);
      m_known[s.target.buffer.value][cell(s.target.buffer, at)] = 0;  // until it lands
      landings.push_back({s.target.buffer, at, value});
    }
    report(m_arrivals.copy(s.right, *place, bytes, landings, m_thread, m_interval));
  }

  void arrivalWait(const Statement& s) {
    const auto at = arrival(s.target);
    if (!at) return;
    std::vector<ArrivalOrder::Landing> landed;
    report(m_arrivals.wait(s.target, *at, index(s.parity), m_thread, m_interval, landed));
    for (const ArrivalOrder::Landing& l : landed) {
      const std::size_t i = cell(l.buffer, l.at);
      m_memory[l.buffer.value][i] = m_f[l.buffer].rounded ? roundedToFragment(m_f[l.buffer].type, l.value) : l.value;
      m_known[l.buffer.value][i] = 1;
      m_touched[l.buffer.value][i].writer = {};  // who has waited comes behind it, and nobody else may read
      if (m_warpgroups.concerns(l.buffer)) m_warpgroups.landed(l.buffer, l.at);
    }
  }

  // All blocks of a grid that waits for itself.
  void together(const Statement& outer) {
    std::vector<VarId> blocks{outer.var};
    const std::vector<StmtId>* inside = &outer.body;
    const auto is = [&](LoopKind kind) {
      return inside->size() == 1 && m_f[inside->front()].kind == Statement::Kind::For && m_f[m_f[inside->front()].var].kind == kind;
    };
    for (; is(LoopKind::Block); inside = &m_f[inside->front()].body) blocks.push_back(m_f[inside->front()].var);
    if (!is(LoopKind::Thread)) return fail("a barrier of the grid stands where a block is not one nest of threads");
    threads(m_f[inside->front()], blocks);
  }

  // All threads of a block, or of these blocks: nested Thread loops together, the innermost fastest. A thread's local buffers are a slice
  // of their own, and so are a block's shared ones.
  void threads(const Statement& outer, const std::vector<VarId>& blocks) {
    std::vector<VarId> loops = blocks;
    loops.push_back(outer.var);
    const std::vector<StmtId>* inside = &outer.body;
    while (inside->size() == 1 && m_f[inside->front()].kind == Statement::Kind::For &&
           m_f[m_f[inside->front()].var].kind == LoopKind::Thread) {
      loops.push_back(m_f[inside->front()].var);
      inside = &m_f[inside->front()].body;
    }
    std::size_t count = 1;
    for (const VarId v : loops) count *= static_cast<std::size_t>(m_f[v].extent);
    m_loops = loops;
    m_blocks = 1;
    for (const VarId v : blocks) m_blocks *= static_cast<std::size_t>(m_f[v].extent);
    m_threadsOfBlock = count / m_blocks;
    m_counts.resize(count * loops.size());
    for (std::size_t t = 0; t < count; ++t) {
      std::size_t rest = t;
      for (std::size_t k = loops.size(); k-- > 0;) {
        const auto extent = static_cast<std::size_t>(m_f[loops[k]].extent);
        m_counts[t * loops.size() + k] = static_cast<std::int64_t>(rest % extent);
        rest /= extent;
      }
    }
    for (std::size_t b = 0; b < m_f.buffers.size(); ++b) {
      if (!ofThread(m_f.buffers[b])) continue;
      const std::size_t n = count * static_cast<std::size_t>(m_f.buffers[b].elements);
      m_memory[b].resize(std::max(n, m_memory[b].size()));
      m_known[b].assign(std::max(n, m_known[b].size()), 0);
    }
    for (std::size_t b = m_f.operands; !blocks.empty() && b < m_f.buffers.size(); ++b) {
      if (m_f.buffers[b].scope != Scope::Shared) continue;
      const std::size_t n = m_blocks * static_cast<std::size_t>(m_f.buffers[b].elements);
      m_memory[b].resize(n);
      m_known[b].assign(n, 0);
      m_touched[b].assign(n, Touch{});
    }
    m_together = !blocks.empty();
    m_firstBlock = m_tasks + 1;
    if (m_together) m_tasks += static_cast<std::int64_t>(m_blocks);
    m_first = m_tasks + 1;
    m_tasks += static_cast<std::int64_t>(count);
    m_warpgroups.begin(count);
    m_arrivals.begin(count);
    lockstep(*inside, count);
    report(m_warpgroups.end());
    report(m_arrivals.end());
    for (const Copies& c : m_copies)
      if (!c.flying.empty() || !c.open.empty()) fail("a thread ends before its asynchronous copies");
    m_thread = 0;
    m_together = false;
    ++m_interval;
  }

  // All threads hand over before any takes.
  void exchange(const Statement& s, std::size_t count) {
    std::vector<double> values;
    for (std::size_t t = 0; t < count; ++t) {
      enter(t);
      const auto from = offset(s.left);
      values.push_back(from ? read(s.left.buffer, *from) : 0);
    }
    for (std::size_t t = 0; t < count && m_error.empty(); ++t) {
      const std::size_t partner = t ^ static_cast<std::size_t>(s.elements);
      if (partner >= count || partner / m_threadsOfBlock != t / m_threadsOfBlock)
        return fail("a thread exchanges with one that is not there");
      enter(t);
      const auto to = offset(s.target);
      if (to) write(s.target.buffer, *to, values[partner]);
    }
  }

  void report(const std::string& wrong) {
    if (!wrong.empty()) fail(wrong);
  }

  // Calls `warp` with the first thread of each.
  template <class Call>
  void eachWarp(std::size_t count, Call&& warp) {
    if (m_threadsOfBlock % kWarpThreads != 0) return fail("a matrix is of a warp that has not all its threads");
    for (std::size_t t = 0; t < count && m_error.empty(); t += kWarpThreads) warp(t);
  }

  // What the place is for all threads of a warp, or of a warpgroup, which must agree.
  std::optional<std::int64_t> shared(const Place& place, std::size_t first, std::int64_t threads = kWarpThreads) {
    std::optional<std::int64_t> at;
    for (std::size_t lane = 0; lane < static_cast<std::size_t>(threads); ++lane) {
      enter(first + lane);
      const auto own = offset(place);
      if (!own) return std::nullopt;
      if (at && *at != *own)
        fail(std::string("the threads of a ") + (threads == kWarpThreads ? "warp" : "warpgroup") + " name different parts of " +
             m_f[place.buffer].name);
      at = own;
    }
    return at;
  }

  void matrixLoad(const Statement& s, std::size_t count) {
    const DType type = m_f[s.target.buffer].type;
    const std::int64_t columns = matrixColumns(type), each = perRegister(type);
    std::vector<double> values(static_cast<std::size_t>(s.elements * kMatrixRows * columns));
    eachWarp(count, [&](std::size_t first) {
      const auto to = shared(s.target, first);
      if (!to) return;
      for (std::int64_t row = 0; row < s.elements * kMatrixRows && m_error.empty(); ++row) {
        enter(first + static_cast<std::size_t>(row));
        const auto from = offset(s.left);
        if (!from) return;
        if (*from % columns != 0) return fail("a row of a matrix does not begin at 16 bytes of " + m_f[s.left.buffer].name);
        for (std::int64_t c = 0; c < columns; ++c)
          values[static_cast<std::size_t>(row * columns + c)] = read(s.left.buffer, *from + c);
      }
      for (std::size_t lane = 0; lane < kWarpThreads && m_error.empty(); ++lane) {
        enter(first + lane);
        for (std::int64_t e = 0; e < s.elements * each; ++e) {
          const MatrixElement at = elementLoaded(type, static_cast<std::int64_t>(lane), e % each, s.transposed);
          write(s.target.buffer, *to + e,
                values[static_cast<std::size_t>((e / each * kMatrixRows + at.row) * columns + at.column)]);
        }
      }
    });
  }

  void matrixTile(const Statement& s, std::size_t count) {
    const DType type = m_f[s.left.buffer].type;
    const auto m = s.tile[0], n = s.tile[1], k = s.tile[2];
    const auto cell = [](std::int64_t row, std::int64_t columns, std::int64_t column) {
      return static_cast<std::size_t>(row * columns + column);
    };
    std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)), c(static_cast<std::size_t>(m * n));
    eachWarp(count, [&](std::size_t first) {
      const auto atA = shared(s.left, first), atB = shared(s.right, first), atC = shared(s.target, first);
      if (!atA || !atB || !atC) return;
      for (std::int64_t lane = 0; lane < kWarpThreads && m_error.empty(); ++lane) {
        enter(first + static_cast<std::size_t>(lane));
        for (std::int64_t e = 0; e < m * k / kWarpThreads; ++e) {
          const MatrixElement at = elementOfA(type, lane, e);
          a[cell(at.row, k, at.column)] = read(s.left.buffer, *atA + e);
        }
        for (std::int64_t e = 0; e < k * n / kWarpThreads; ++e) {
          const MatrixElement at = elementOfB(type, lane, e);
          b[cell(at.row, n, at.column)] = read(s.right.buffer, *atB + e);
        }
        for (std::int64_t e = 0; e < m * n / kWarpThreads; ++e) {
          const MatrixElement at = elementOfC(lane, e);
          c[cell(at.row, n, at.column)] = read(s.target.buffer, *atC + e);
        }
      }
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double& sum = c[cell(i, n, j)];
          for (std::int64_t p = 0; p < k; ++p) sum += a[cell(i, k, p)] * b[cell(p, n, j)];
          sum = static_cast<float>(sum);
        }
      for (std::int64_t lane = 0; lane < kWarpThreads && m_error.empty(); ++lane) {
        enter(first + static_cast<std::size_t>(lane));
        for (std::int64_t e = 0; e < m * n / kWarpThreads; ++e) {
          const MatrixElement at = elementOfC(lane, e);
          write(s.target.buffer, *atC + e, c[cell(at.row, n, at.column)]);
        }
      }
    });
  }

  // The operand of a tile, m x k or n x k: where its parts lie is the hardware's to find, so it must begin where they come in order.
  void operand(const Place& p, const SwizzledOperand& lies, std::int64_t points, std::int64_t steps, std::size_t first,
               std::vector<double>& values) {
    const auto from = shared(p, first, kWarpgroupThreads);
    if (!from) return;
    const DType type = m_f[p.buffer].type;
    const std::int64_t byte = *from * bytesOf(type);
    if (byte % kMatrixRowBytes != 0 || byte % kSwizzledAtomBytes >= (lies.turned ? 1 : kSwizzledRowBytes) ||
        lies.apart * bytesOf(type) % kSwizzledAtomBytes != 0)
      return fail("a tile of a warpgroup does not begin in the first of eight rows of " + m_f[p.buffer].name);
    enter(first);
    for (std::int64_t i = 0; i < points && m_error.empty(); ++i)
      for (std::int64_t s = 0; s < steps && m_error.empty(); ++s) {
        const std::int64_t at = swizzled(type, *from + beforeSwizzle(type, lies, i, s));
        values[static_cast<std::size_t>(i * steps + s)] = roundedToFragment(type, read(p.buffer, at));
        readByAll(p.buffer, at);
        report(m_warpgroups.takes(p.buffer, at, m_interval, first));
        if (m_arrivals.fills(p.buffer)) report(m_arrivals.read(p.buffer, at, first, kWarpgroupThreads));
      }
  }

  // Four warps read it: it is not enough that one of them writes no earlier.
  void readByAll(BufferId buffer, std::int64_t at) {
    Touch& t = m_touched[buffer.value][cell(buffer, at)];
    t.reader = {m_who, m_block, m_interval};
    t.readByThreads = true;
  }

  void warpgroupTile(const Statement& s, std::size_t count) {
    const auto m = s.tile[0], n = s.tile[1], k = s.tile[2];
    const std::int64_t each = m * n / kWarpgroupThreads;
    if (count % kWarpgroupThreads != 0) return fail("a tile is of a warpgroup that has not all its threads");
    std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k));
    for (std::size_t first = 0; first < count && m_error.empty(); first += kWarpgroupThreads) {
      const auto to = shared(s.target, first, kWarpgroupThreads);
      if (!to) return;
      operand(s.left, s.leftLies, m, k, first, a);
      operand(s.right, s.rightLies, n, k, first, b);
      for (std::int64_t thread = 0; thread < kWarpgroupThreads && m_error.empty(); ++thread) {
        enter(first + static_cast<std::size_t>(thread));
        if (!inside(s.target.buffer, *to) || !inside(s.target.buffer, *to + each - 1)) return;
        report(m_warpgroups.accumulates(s.target.buffer, *to, each, m_thread));
        for (std::int64_t e = 0; e < each; ++e) {
          const MatrixElement at = elementOfWarpgroupC(thread, e);
          const std::size_t i = cell(s.target.buffer, *to + e);
          if (!m_known[s.target.buffer.value][i])
            return fail("an accumulator of " + m_f[s.target.buffer].name + " is read before it is written");
          double sum = m_memory[s.target.buffer.value][i];
          for (std::int64_t p = 0; p < k; ++p)
            sum += a[static_cast<std::size_t>(at.row * k + p)] * b[static_cast<std::size_t>(at.column * k + p)];
          m_memory[s.target.buffer.value][i] = static_cast<float>(sum);
        }
      }
    }
  }

  // The elements that a tile took are read until here.
  void warpgroupWait(const Statement& s) {
    std::vector<WarpgroupOrder::Element> ended;
    report(m_warpgroups.wait(m_thread, s.elements, ended));
    for (const WarpgroupOrder::Element& e : ended) {
      if (meets(m_touched[e.buffer.value][cell(e.buffer, e.at)].writer))
        fail("a race on element " + std::to_string(e.at) + " of " + m_f[e.buffer].name);
      readByAll(e.buffer, e.at);
    }
  }

  // Statement by statement where a barrier stands inside, else each thread runs through.
  void lockstep(const std::vector<StmtId>& statements, std::size_t count) {
    for (const StmtId id : statements) {
      if (!m_error.empty()) return;
      const Statement& s = m_f[id];
      if (s.kind == Statement::Kind::Barrier) {
        ++m_interval;
        // What was before it is over for every block, as another stage's.
        if (s.barrier == BarrierScope::Grid) m_stageBegan = m_interval;
      } else if (s.kind == Statement::Kind::Exchange) {
        exchange(s, count);
      } else if (s.kind == Statement::Kind::MatrixLoad) {
        matrixLoad(s, count);
      } else if (s.kind == Statement::Kind::MatrixTile) {
        matrixTile(s, count);
      } else if (s.kind == Statement::Kind::WarpgroupTile) {
        warpgroupTile(s, count);
      } else if (s.kind == Statement::Kind::ArrivalWait) {
        for (std::size_t t = 0; t < count && m_error.empty(); ++t) {
          enter(t);
          arrivalWait(s);
        }
      } else if (s.kind == Statement::Kind::WarpgroupFence || s.kind == Statement::Kind::WarpgroupCommit ||
                 s.kind == Statement::Kind::WarpgroupWait) {
        for (std::size_t t = 0; t < count; ++t) {
          enter(t);
          if (s.kind == Statement::Kind::WarpgroupFence) m_warpgroups.fence(t);
          else if (s.kind == Statement::Kind::WarpgroupCommit) m_warpgroups.commit(t);
          else warpgroupWait(s);
        }
      } else if (!hasBarrier(id)) {
        for (std::size_t t = 0; t < count; ++t) {
          enter(t);
          statement(id);
        }
      } else if (s.kind == Statement::Kind::For) {
        for (std::int64_t i = 0; i < m_f[s.var].extent && m_error.empty(); ++i) {
          m_vars[s.var.value] = i;
          lockstep(s.body, count);
        }
      } else {
        fail("a barrier stands under a condition");
      }
    }
  }

  void enter(std::size_t thread) {
    m_thread = thread;
    m_who = m_first + static_cast<std::int64_t>(thread);
    if (m_together) m_block = m_firstBlock + static_cast<std::int64_t>(thread / m_threadsOfBlock);
    for (std::size_t k = 0; k < m_loops.size(); ++k) m_vars[m_loops[k].value] = m_counts[thread * m_loops.size() + k];
  }

  // ------------------------------------------------------------ memory
  bool inside(BufferId buffer, std::int64_t at) {
    if (at >= 0 && at < m_f[buffer].elements) return true;
    fail("offset " + std::to_string(at) + " of " + m_f[buffer].name + " is outside [0, " + std::to_string(m_f[buffer].elements) +
         ")");
    return false;
  }

  // Nothing orders that access and one of here and now.
  bool meets(const Who& other) const {
    if (other.interval < m_stageBegan) return false;
    return other.block != m_block || (other.interval == m_interval && other.thread != m_who);
  }

  std::size_t cell(BufferId buffer, std::int64_t at) const {
    const Buffer& b = m_f[buffer];
    if (m_together && b.scope == Scope::Shared)
      return m_thread / m_threadsOfBlock * static_cast<std::size_t>(b.elements) + static_cast<std::size_t>(at);
    return static_cast<std::size_t>(ofThread(b) ? static_cast<std::int64_t>(m_thread) * b.elements + at : at);
  }

  double read(BufferId buffer, std::int64_t at) {
    if (!inside(buffer, at)) return 0;
    const std::size_t i = cell(buffer, at);
    if (!m_known[buffer.value][i])
      fail("element " + std::to_string(at) + " of " + m_f[buffer].name + " is read before it is written");
    if (!ofThread(m_f[buffer])) {
      Touch& t = m_touched[buffer.value][i];
      if (meets(t.writer)) fail("a race on element " + std::to_string(at) + " of " + m_f[buffer].name);
      if (t.reader.interval >= m_stageBegan) {
        t.readByBlocks = t.readByBlocks || t.reader.block != m_block;
        t.readByThreads = t.reader.interval == m_interval && (t.readByThreads || t.reader.thread != m_who);
      } else {
        t.readByBlocks = t.readByThreads = false;
      }
      t.reader = {m_who, m_block, m_interval};
    }
    if (m_warpgroups.concerns(buffer)) report(m_warpgroups.read(buffer, at, m_thread));
    if (m_arrivals.fills(buffer)) report(m_arrivals.read(buffer, at, m_thread, 1));
    return m_memory[buffer.value][i];
  }

  void write(BufferId buffer, std::int64_t at, double v) {
    if (!inside(buffer, at)) return;
    const std::size_t i = cell(buffer, at);
    if (m_f[buffer].direction == Direction::In) fail(m_f[buffer].name + " is @in and written");
    if (!ofThread(m_f[buffer])) claim(buffer, at);
    if (m_warpgroups.concerns(buffer)) report(m_warpgroups.written(buffer, at, m_thread));
    const bool rounds = m_f[buffer].scope == Scope::Fragment || m_f[buffer].rounded;
    m_memory[buffer.value][i] = rounds ? roundedToFragment(m_f[buffer].type, v) : v;
    m_known[buffer.value][i] = 1;
  }

  // This thread is the last to write the element. False: somebody else uses it meanwhile.
  bool claim(BufferId buffer, std::int64_t at) {
    Touch& t = m_touched[buffer.value][cell(buffer, at)];
    const bool others =
        (t.reader.interval >= m_stageBegan && t.readByBlocks) || (t.reader.interval == m_interval && t.readByThreads);
    if (others || meets(t.writer) || meets(t.reader)) fail("a race on element " + std::to_string(at) + " of " + m_f[buffer].name);
    t.writer = {m_who, m_block, m_interval};
    return m_error.empty();
  }

  std::int64_t index(const IndexExpr& e) const {
    std::int64_t sum = e.constant();
    for (const IndexTerm& t : e.terms()) {
      std::int64_t v;
      if (t.atom.isFloorDiv()) {
        const std::int64_t n = index(*t.atom.numerator);
        v = n / t.atom.divisor - (n % t.atom.divisor < 0 ? 1 : 0);
      } else if (t.atom.variable >= kLoopVariable) {
        const std::size_t counter = t.atom.variable - kLoopVariable;
        v = counter < m_run.counters.size() ? m_run.counters[counter] : 0;
      } else {
        v = m_vars[t.atom.variable];
      }
      sum += t.coefficient * v;
    }
    return sum;
  }

  // nullopt: a data index is out of range, which is reported, or an operand of it failed.
  std::optional<std::int64_t> offset(const Place& place) {
    std::int64_t at = index(place.offset);
    for (const DataIndex& d : place.data) {
      const auto v = component(d, value(d.value));
      if (!v) {
        fail(d.check < m_f.checks.size() ? m_f.checks[d.check] : "an index is out of range");
        return std::nullopt;
      }
      at += d.stride * *v;
    }
    return at;
  }

  // nullopt: out of range.
  std::optional<std::int64_t> component(const DataIndex& d, double v) const {
    if (m_f[d.value].type == DType::I64) {
      const std::int64_t i = wholeI64(v);
      return i >= 0 && i < d.extent ? std::optional(i) : std::nullopt;
    }
    return v >= 0 && v < static_cast<double>(d.extent) ? std::optional(static_cast<std::int64_t>(v)) : std::nullopt;
  }

  // ------------------------------------------------------------ values
  // Operands first, in ascending order, as they stand in the pool; nothing recurses over an expression.
  double value(ValueId root) {
    if (m_orders.size() < m_f.values.size()) m_orders.resize(m_f.values.size());
    auto& order = m_orders[root.value];
    if (order.empty()) {
      Statement probe;
      probe.value = root;
      order = valuesOf(m_f, probe);
    }
    if (m_values.size() < m_f.values.size()) m_values.resize(m_f.values.size(), 0);
    for (const ValueId id : order) m_values[id.value] = one(m_f[id]);
    return m_values[root.value];
  }

  double known(ValueId id) const { return m_values[id.value]; }

  double one(const Value& v) {
    switch (v.kind) {
      case Value::Kind::Constant: return v.type == DType::I64 ? heldI64(static_cast<std::int64_t>(v.constant)) : v.constant;
      case Value::Kind::Index: return v.type == DType::I64 ? heldI64(index(v.index)) : static_cast<double>(index(v.index));
      case Value::Kind::IndexGe0: return index(v.index) >= 0;
      case Value::Kind::IndexEq0: return index(v.index) == 0;
      case Value::Kind::Random:
        return randomUniform(randomKey(m_run.seed, m_run.step, static_cast<std::uint64_t>(v.constant)), index(v.index));
      case Value::Kind::Load: {
        if (v.guard.valid() && known(v.guard) == 0) return 0;
        std::int64_t at = index(v.place.offset);
        for (const DataIndex& d : v.place.data) {
          const auto inRange = component(d, known(d.value));
          if (!inRange) {
            fail(d.check < m_f.checks.size() ? m_f.checks[d.check] : "an index is out of range");
            return 0;
          }
          at += d.stride * *inRange;
        }
        return read(v.place.buffer, at);
      }
      case Value::Kind::Fma: return known(v.operands[0]) * known(v.operands[1]) + known(v.operands[2]);
      case Value::Kind::Apply: return apply(v);
    }
    return 0;
  }

  double apply(const Value& v) const {
    const int arity = info(v.op).arity;
    const double x = known(v.operands[0]);
    const double y = arity > 1 ? known(v.operands[1]) : 0;
    if (v.op == ScalarOp::Select) return x != 0 ? y : known(v.operands[2]);
    const auto isWide = [&](int k) { return m_f[v.operands[static_cast<std::size_t>(k)]].type == DType::I64; };
    if (arity > 0 && (isWide(0) || (arity > 1 && isWide(1)) || v.type == DType::I64)) {
      const auto operand = [&](int k, double held) { return isWide(k) ? wholeI64(held) : static_cast<std::int64_t>(held); };
      const std::int64_t result = evaluateI64(v.op, operand(0, x), arity > 1 ? operand(1, y) : 0);
      return v.type == DType::I64 ? heldI64(result) : static_cast<double>(result);
    }
    if (const auto value = evaluateScalar(v.op, v.type, x, y)) return *value;
    return v.op == ScalarOp::Mod ? x : 0;  // i32 by zero, as generated code does it
  }

  const Function& m_f;
  const LoopRun& m_run;
  std::vector<std::int64_t> m_vars;
  std::vector<std::vector<double>> m_memory;
  std::vector<std::vector<char>> m_known;
  std::vector<std::vector<Touch>> m_touched;
  std::vector<double> m_values;
  std::vector<std::vector<ValueId>> m_orders;  // by value
  std::vector<char> m_barriers;                // by statement: 0 not known yet, 1 none inside, 2 some
  std::vector<VarId> m_loops;                  // Thread loops of the nest that runs
  std::vector<std::int64_t> m_counts;          // their values, by thread
  std::vector<Copies> m_copies;                // by thread
  WarpgroupOrder m_warpgroups;
  ArrivalOrder m_arrivals;
  std::size_t m_thread = 0, m_blocks = 1, m_threadsOfBlock = 1;
  bool m_meet = false;      // the blocks of the stage wait for each other
  bool m_together = false;  // they run, all of them
  std::int64_t m_first = 0, m_firstBlock = 0;
  std::int64_t m_interval = 0, m_stageBegan = 0, m_who = 0, m_block = 0, m_tasks = 0;
  std::string m_stage, m_error;
};

}  // namespace

Result<Unit> interpret(const Function& function, const LoopRun& run) { return Interpreter(function, run).run(); }

}  // namespace nf::loop
