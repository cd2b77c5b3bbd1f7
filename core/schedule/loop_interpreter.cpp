// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/loop_interpreter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "core/ir/folding.h"
#include "core/support/checked.h"
#include "core/support/counter_random.h"

namespace nf::loop {
namespace {

// Who touched an element last: who = thread of the block or task of the stage, in which interval between barriers.
struct Touch {
  std::int64_t writer = -1, writtenIn = -1;
  std::int64_t reader = -1, readIn = -1;
  bool manyReaders = false;
};

class Interpreter {
 public:
  Interpreter(const Function& f, const LoopRun& run) : m_f(f), m_run(run), m_vars(f.vars.size(), 0) {}

  Result<Unit> run() {
    for (std::size_t b = 0; b < m_f.buffers.size(); ++b) {
      const Buffer& buffer = m_f.buffers[b];
      const auto n = static_cast<std::size_t>(buffer.elements);
      if (b < m_f.operands) {
        if (m_run.operands->at(b).size() != n)
          return Error{"interpret loops", "operand " + buffer.name + " has another size", {}, {}};
        m_memory.push_back(m_run.operands->at(b));
        m_known.emplace_back(n, buffer.direction == Direction::In);
      } else {
        m_memory.emplace_back(n, 0.0);
        m_known.emplace_back(n, false);
      }
      m_touched.emplace_back(buffer.scope == Scope::Local ? 0 : n);
    }
    for (const Stage& stage : m_f.stages) {
      ++m_epoch;
      m_who = 0;
      m_tasks = 0;
      m_stage = stage.name;
      body(stage.body);
      if (!m_error.empty()) return Error{"interpret loops", m_error, {}, {}};
    }
    for (std::size_t b = 0; b < m_f.operands; ++b) {
      if (m_f.buffers[b].direction == Direction::In) continue;
      if (std::find(m_known[b].begin(), m_known[b].end(), false) != m_known[b].end())
        return Error{"interpret loops", "an element of " + m_f.buffers[b].name + " is never written", {}, {}};
      m_run.operands->at(b) = std::move(m_memory[b]);
    }
    return Unit{};
  }

 private:
  void fail(const std::string& what) {
    if (m_error.empty()) m_error = "stage " + m_stage + ": " + what;
  }

  bool hasBarrier(StmtId id) {
    const auto found = m_barriers.find(id);
    if (found != m_barriers.end()) return found->second;
    const Statement& s = m_f[id];
    bool has = s.kind == Statement::Kind::Barrier;
    for (const StmtId inner : s.body) has = hasBarrier(inner) || has;
    for (const StmtId inner : s.otherwise) has = hasBarrier(inner) || has;
    m_barriers.emplace(id, has);
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
        if (v.kind == LoopKind::Thread) return threads(s);
        for (std::int64_t i = 0; i < v.extent && m_error.empty(); ++i) {
          m_vars[s.var.value] = i;
          // Each task and each block of a stage is somebody of its own; a block's first thread is its next number.
          if (v.kind == LoopKind::Parallel || v.kind == LoopKind::Block) m_who = ++m_tasks;
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
      case Statement::Kind::Barrier: ++m_epoch; return;
      case Statement::Kind::AsyncCopy: {
        const auto to = offset(s.target), from = offset(s.left);
        for (std::int64_t i = 0; to && from && i < s.elements; ++i) write(s.target.buffer, *to + i, read(s.left.buffer, *from + i));
        return;
      }
      case Statement::Kind::AsyncWait: return;
      case Statement::Kind::MatrixTile: matrix(s); return;
    }
  }

  void matrix(const Statement& s) {
    const auto c = offset(s.target), a = offset(s.left), b = offset(s.right);
    if (!c || !a || !b) return;
    for (std::int64_t i = 0; i < s.tile[0]; ++i)
      for (std::int64_t j = 0; j < s.tile[1]; ++j) {
        const std::int64_t at = *c + i * s.leading[0] + j;
        double sum = read(s.target.buffer, at);
        for (std::int64_t k = 0; k < s.tile[2]; ++k)
          sum += read(s.left.buffer, *a + i * s.leading[1] + k) * read(s.right.buffer, *b + k * s.leading[2] + j);
        write(s.target.buffer, at, sum);
      }
  }

  // All threads of a block: nested Thread loops together. Local buffers belong to a thread, so their contents are swapped.
  struct ThreadState {
    std::vector<std::pair<std::uint32_t, std::int64_t>> vars;
    std::map<std::size_t, std::pair<std::vector<double>, std::vector<bool>>> locals;
    std::int64_t who = 0;
  };

  void threads(const Statement& outer) {
    std::vector<VarId> loops{outer.var};
    const std::vector<StmtId>* inside = &outer.body;
    while (inside->size() == 1 && m_f[inside->front()].kind == Statement::Kind::For &&
           m_f[m_f[inside->front()].var].kind == LoopKind::Thread) {
      loops.push_back(m_f[inside->front()].var);
      inside = &m_f[inside->front()].body;
    }
    std::vector<ThreadState> all{ThreadState{}};
    for (const VarId v : loops) {
      std::vector<ThreadState> more;
      for (const ThreadState& t : all)
        for (std::int64_t i = 0; i < m_f[v].extent; ++i) {
          ThreadState next = t;
          next.vars.emplace_back(v.value, i);
          more.push_back(std::move(next));
        }
      all = std::move(more);
    }
    for (ThreadState& t : all) {
      t.who = ++m_tasks;
      for (std::size_t b = 0; b < m_f.buffers.size(); ++b)
        if (m_f.buffers[b].scope == Scope::Local) t.locals[b] = {m_memory[b], m_known[b]};
    }
    lockstep(*inside, all);
    ++m_epoch;
  }

  // Statement by statement where a barrier stands inside, else each thread runs through.
  void lockstep(const std::vector<StmtId>& statements, std::vector<ThreadState>& all) {
    for (const StmtId id : statements) {
      if (!m_error.empty()) return;
      const Statement& s = m_f[id];
      if (s.kind == Statement::Kind::Barrier) {
        ++m_epoch;
      } else if (!hasBarrier(id)) {
        for (ThreadState& t : all) {
          enter(t);
          statement(id);
          leave(t);
        }
      } else if (s.kind == Statement::Kind::For) {
        for (std::int64_t i = 0; i < m_f[s.var].extent && m_error.empty(); ++i) {
          m_vars[s.var.value] = i;
          lockstep(s.body, all);
        }
      } else {
        fail("a barrier stands under a condition");
      }
    }
  }

  void enter(ThreadState& t) {
    m_who = t.who;
    for (const auto& [v, i] : t.vars) m_vars[v] = i;
    swapLocals(t);
  }
  void leave(ThreadState& t) { swapLocals(t); }
  void swapLocals(ThreadState& t) {
    for (auto& [b, local] : t.locals) {
      std::swap(m_memory[b], local.first);
      std::swap(m_known[b], local.second);
    }
  }

  // ------------------------------------------------------------ memory
  bool inside(BufferId buffer, std::int64_t at) {
    if (at >= 0 && at < m_f[buffer].elements) return true;
    fail("offset " + std::to_string(at) + " of " + m_f[buffer].name + " is outside [0, " + std::to_string(m_f[buffer].elements) +
         ")");
    return false;
  }

  double read(BufferId buffer, std::int64_t at) {
    if (!inside(buffer, at)) return 0;
    const auto i = static_cast<std::size_t>(at);
    if (!m_known[buffer.value][i])
      fail("element " + std::to_string(at) + " of " + m_f[buffer].name + " is read before it is written");
    if (m_f[buffer].scope != Scope::Local) {
      Touch& t = m_touched[buffer.value][i];
      if (t.writtenIn == m_epoch && t.writer != m_who) fail("a race on element " + std::to_string(at) + " of " + m_f[buffer].name);
      t.manyReaders = t.readIn == m_epoch && (t.manyReaders || t.reader != m_who);
      t.reader = m_who;
      t.readIn = m_epoch;
    }
    return m_memory[buffer.value][i];
  }

  void write(BufferId buffer, std::int64_t at, double v) {
    if (!inside(buffer, at)) return;
    const auto i = static_cast<std::size_t>(at);
    if (m_f[buffer].direction == Direction::In) fail(m_f[buffer].name + " is @in and written");
    if (m_f[buffer].scope != Scope::Local) {
      Touch& t = m_touched[buffer.value][i];
      if ((t.writtenIn == m_epoch && t.writer != m_who) || (t.readIn == m_epoch && (t.manyReaders || t.reader != m_who)))
        fail("a race on element " + std::to_string(at) + " of " + m_f[buffer].name);
      t.writer = m_who;
      t.writtenIn = m_epoch;
    }
    m_memory[buffer.value][i] = v;
    m_known[buffer.value][i] = true;
  }

  std::int64_t index(const IndexExpr& e) {
    return evaluate(e, [this](IndexVar v) {
      if (v >= kLoopVariable) return v - kLoopVariable < m_run.counters.size() ? m_run.counters[v - kLoopVariable] : 0;
      return m_vars[v];
    });
  }

  // nullopt: a data index is out of range, which is reported, or an operand of it failed.
  std::optional<std::int64_t> offset(const Place& place) {
    std::int64_t at = index(place.offset);
    for (const DataIndex& d : place.data) {
      const double v = value(d.value);
      if (!(v >= 0 && v < static_cast<double>(d.extent))) {
        fail(d.check < m_f.checks.size() ? m_f.checks[d.check] : "an index is out of range");
        return std::nullopt;
      }
      at += d.stride * static_cast<std::int64_t>(v);
    }
    return at;
  }

  // ------------------------------------------------------------ values
  // Operands first, in ascending order, as they stand in the pool; nothing recurses over an expression.
  double value(ValueId root) {
    auto& order = m_orders[root];
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
      case Value::Kind::Constant: return v.constant;
      case Value::Kind::Index: return static_cast<double>(index(v.index));
      case Value::Kind::IndexGe0: return index(v.index) >= 0;
      case Value::Kind::IndexEq0: return index(v.index) == 0;
      case Value::Kind::Random:
        return randomUniform(randomKey(m_run.seed, m_run.step, static_cast<std::uint64_t>(v.constant)), index(v.index));
      case Value::Kind::Load: {
        if (v.guard.valid() && known(v.guard) == 0) return 0;
        std::int64_t at = index(v.place.offset);
        for (const DataIndex& d : v.place.data) {
          const double component = known(d.value);
          if (!(component >= 0 && component < static_cast<double>(d.extent))) {
            fail(d.check < m_f.checks.size() ? m_f.checks[d.check] : "an index is out of range");
            return 0;
          }
          at += d.stride * static_cast<std::int64_t>(component);
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
    if (const auto value = evaluateScalar(v.op, v.type, x, y)) return *value;
    return v.op == ScalarOp::Mod ? x : 0;  // i32 by zero, as generated code does it
  }

  const Function& m_f;
  const LoopRun& m_run;
  std::vector<std::int64_t> m_vars;
  std::vector<std::vector<double>> m_memory;
  std::vector<std::vector<bool>> m_known;
  std::vector<std::vector<Touch>> m_touched;
  std::vector<double> m_values;
  std::unordered_map<ValueId, std::vector<ValueId>> m_orders;
  std::map<StmtId, bool> m_barriers;
  std::int64_t m_epoch = 0, m_who = 0, m_tasks = 0;
  std::string m_stage, m_error;
};

}  // namespace

Result<Unit> interpret(const Function& function, const LoopRun& run) { return Interpreter(function, run).run(); }

}  // namespace nf::loop
