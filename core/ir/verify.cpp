// SPDX-License-Identifier: Apache-2.0
#include "core/ir/verify.h"

#include <algorithm>
#include <unordered_set>

#include "core/ir/bounds.h"
#include "core/ir/folding.h"
#include "core/ir/paths.h"
#include "core/support/checked.h"

namespace nf {
namespace {

class Verifier {
 public:
  Verifier(const Program& program, Stage stage, std::vector<std::int64_t> counters, std::string where)
      : m_program(program), m_stage(stage), m_counters(std::move(counters)), m_where(std::move(where)) {}

  std::vector<std::string> run() {
    checkTensors();
    if (m_problems.empty()) checkScalars();
    if (m_problems.empty()) checkOperators();
    if (m_problems.empty()) checkOrder();
    if (m_problems.empty()) checkUses();
    if (m_problems.empty()) checkGroups();
    return std::move(m_problems);
  }

 private:
  void problem(const std::string& text) {
    if (m_problems.size() < 100) m_problems.push_back(m_where + text);
  }

  template <class Tag>
  bool in(Id<Tag> id, std::size_t size) const {
    return id.valid() && id.value < size;
  }

  void checkOrigin(OriginId id, const std::string& what) {
    if (id.valid() && id.value >= m_program.origins.size()) problem(what + " has an origin out of range");
  }

  void checkTensors() {
    std::unordered_set<std::string> names;
    for (std::size_t i = 0; i < m_program.origins.size(); ++i)
      for (const OriginId parent : m_program.origins[i].parents)
        if (!in(parent, i)) problem("origin " + std::to_string(i) + " does not follow its parents");
    for (const Tensor& t : m_program.tensors) {
      if (t.name.empty()) problem("a tensor has no name");
      if (!names.insert(t.name).second) problem("two tensors are named " + t.name);
      for (const std::int64_t extent : t.shape)
        if (extent <= 0) problem("tensor " + t.name + " has the extent " + std::to_string(extent));
      const auto elements = checkedProduct(t.shape);
      if (!elements || !checkedMul(*elements, bytesOf(t.type))) problem("the size of tensor " + t.name + " overflows");
      if (t.type == DType::Bool) problem("tensor " + t.name + " stores conditions");
      checkOrigin(t.origin, "tensor " + t.name);
      checkOrigin(t.init.origin, "what tensor " + t.name + " begins with");
    }
  }

  void checkScalars() {
    for (std::size_t i = 0; i < m_program.scalars.size(); ++i) {
      const ScalarNode& n = m_program.scalars[i];
      const std::string what = "node " + std::to_string(i) + " (" + std::string(info(n.op).name) + ")";
      checkOrigin(n.origin, what);
      for (int k = 0; k < info(n.op).arity; ++k)
        if (!in(n.operands[k], i)) {
          problem(what + " does not follow its operands");
          return;
        }
      const bool wantsIndex =
          n.op == ScalarOp::Index || n.op == ScalarOp::IndexGe0 || n.op == ScalarOp::IndexEq0 || n.op == ScalarOp::Random;
      if (wantsIndex && !in(n.index, m_program.indices.size())) problem(what + " lacks its index expression");
      else if (constantIndexNode(m_program, n)) problem(what + " is a constant: no variable stands in its index expression");
      if (n.index.valid() && m_program[n.index].overflowed()) problem(what + " has an index that overflowed");
      if (n.op == ScalarOp::Load) {
        if (!in(n.access, m_program.accesses.size())) {
          problem(what + " lacks its access");
          continue;
        }
        checkAccess(m_program[n.access], what, i);
      }
      checkType(n, what);
    }
  }

  void checkAccess(const Access& access, const std::string& what, std::size_t before) {
    if (!in(access.tensor, m_program.tensors.size())) {
      problem(what + " reads no tensor");
      return;
    }
    const Tensor& t = m_program[access.tensor];
    if (access.indices.size() != t.shape.size())
      problem(what + " reads " + t.name + " with " + std::to_string(access.indices.size()) + " indices, its rank is " +
              std::to_string(t.shape.size()));
    for (const AccessIndex& index : access.indices) {
      if (index.isData() && (!in(index.data, before) || !isInteger(m_program[index.data].type)))
        problem(what + " has a data-dependent index that is no integer");
      if (!index.isData() && index.affine.overflowed()) problem(what + " has an index that overflowed");
    }
  }

  void checkType(const ScalarNode& n, const std::string& what) {
    const auto type = [&](int k) { return m_program[n.operands[k]].type; };
    switch (n.op) {
      case ScalarOp::Select:
        if (type(0) != DType::Bool) problem(what + " selects on a value that is no condition");
        if ((type(1) == DType::Bool) != (type(2) == DType::Bool)) problem(what + " selects between different kinds");
        break;
      case ScalarOp::Not:
        if (type(0) != DType::Bool) problem(what + " negates a value that is no condition");
        break;
      case ScalarOp::IndexGe0:
      case ScalarOp::IndexEq0:
      case ScalarOp::Training:
        if (n.type != DType::Bool) problem(what + " is no condition");
        break;
      case ScalarOp::Load:
        if (n.type != arithmeticType(m_program[m_program[n.access].tensor].type))
          problem(what + " has another type than its tensor");
        break;
      default:
        if (info(n.op).arity == 2) {
          const auto expected = resultType(n.op, type(0), type(1));
          if (!expected) problem(what + " does not take these types");
          else if ((*expected == DType::Bool) != (n.type == DType::Bool)) problem(what + " has the wrong type");
        }
    }
  }

  void checkOperators() {
    for (std::size_t i = 0; i < m_program.operators.size() && m_problems.empty(); ++i) {
      const Operator& op = m_program.operators[i];
      const std::string what = "operator " + op.name;
      checkOrigin(op.origin, what);
      if (op.kind == OperatorKind::Loop) {
        checkLoop(op, what);
        continue;
      }
      if (!in(op.output, m_program.tensors.size()) || !in(op.body, m_program.scalars.size())) {
        problem(what + " lacks its output or body");
        continue;
      }
      const Tensor& out = m_program[op.output];
      std::unordered_set<std::string> names;
      for (const Axis& axis : op.axes) {
        if (axis.extent <= 0) problem(what + " has an axis of extent " + std::to_string(axis.extent));
        if (!names.insert(axis.name).second) problem(what + " has two axes named " + axis.name);
      }
      if (m_program[op.body].type == DType::Bool) problem(what + " stores a condition");
      if (op.kind == OperatorKind::Gather) checkGather(op, out, what);
      else checkScatter(op, out, what);
      checkBounds(op, what);
    }
  }

  void checkGather(const Operator& op, const Tensor& out, const std::string& what) {
    if (op.outputRank != out.shape.size() || op.outputRank > op.axes.size()) {
      problem(what + " has another rank than its output");
      return;
    }
    for (std::uint32_t k = 0; k < op.outputRank; ++k)
      if (op.axes[k].extent != out.shape[k])
        problem(what + " runs axis " + op.axes[k].name + " over another extent than its output has");
    if ((op.reducer == Reducer::None) != (op.axes.size() == op.outputRank))
      problem(what + " has reduction axes without a reducer, or the reverse");
    const bool arg = op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin;
    if (arg && out.type != DType::I32) problem(what + " stores positions in a tensor that is not i32");
    if (!arg && out.type == DType::I32 && m_program[op.body].type != DType::I32)
      problem(what + " stores a real value in an i32 tensor");
  }

  void checkScatter(const Operator& op, const Tensor& out, const std::string& what) {
    if (op.outputRank != 0) problem(what + " is a scatter with output axes");
    if (op.scatter.size() != out.shape.size()) problem(what + " scatters with another rank than its output");
    if (op.reducer != Reducer::None && op.reducer != Reducer::Sum) problem(what + " scatters with another reducer than sum");
    for (const AccessIndex& index : op.scatter)
      if (index.isData() && (!in(index.data, m_program.scalars.size()) || !isInteger(m_program[index.data].type)))
        problem(what + " scatters by an index that is no integer");
  }

  void checkBounds(const Operator& op, const std::string& what) {
    std::vector<Range> domain;
    for (const Axis& axis : op.axes) domain.push_back({0, axis.extent - 1});
    BoundsProver prover(domain, m_counters);
    const auto require = [&](const std::vector<IndexCond>& guards, const IndexExpr& index, const Tensor& t, std::size_t axis) {
      if (prover.inBounds(guards, index, t.shape[axis]).value_or(false)) return;
      problem(what + ": index " + std::to_string(axis) + " of " + t.name + " is not proved to stay in [0, " +
              std::to_string(t.shape[axis]) + ")");
    };
    for (const GuardedLoad& load : guardedLoads(m_program, op.body)) {
      const Access& access = m_program[m_program[load.load].access];
      for (std::size_t k = 0; k < access.indices.size(); ++k)
        if (!access.indices[k].isData()) require(load.guards, access.indices[k].affine, m_program[access.tensor], k);
    }
    // A scatter whose affine index leaves the output adds nothing there: its path conditions say where it writes.
  }

  void checkLoop(const Operator& op, const std::string& what) {
    if (!in(op.loop, m_program.loops.size())) {
      problem(what + " lacks its loop");
      return;
    }
    const Loop& loop = m_program[op.loop];
    if (loop.trips <= 0) problem(what + " runs " + std::to_string(loop.trips) + " times");
    if (!loop.body) {
      problem(what + " has no body");
      return;
    }
    if (loop.depth != m_counters.size()) problem(what + " counts with the variable of another depth");
    if (m_counters.size() > 64) {
      problem(what + " is nested too deep");
      return;
    }
    const Program& body = *loop.body;
    const std::size_t outerCount = m_program.tensors.size(), innerCount = body.tensors.size();
    const auto same = [&](TensorId outer, TensorId inner, std::size_t dropped, const char* part) {
      if (!in(outer, outerCount) || !in(inner, innerCount)) {
        problem(what + " has a " + part + " tensor out of range");
        return;
      }
      const auto& a = m_program[outer].shape;
      const auto& b = body[inner].shape;
      if (a.size() != b.size() + dropped || !std::equal(b.begin(), b.end(), a.begin() + static_cast<std::ptrdiff_t>(dropped)) ||
          (dropped == 1 && a[0] != loop.trips))
        problem(what + " has a " + part + " tensor " + m_program[outer].name + " of another shape than " + body[inner].name);
    };
    for (const auto& c : loop.carried) {
      same(c.initial, c.innerIn, 0, "carried");
      same(c.initial, c.innerOut, 0, "carried");
      if (c.last.valid()) same(c.last, c.innerOut, 0, "carried");
    }
    for (const auto& i : loop.invariants) same(i.outer, i.inner, 0, "invariant");
    for (const auto& s : loop.stacked) same(s.outer, s.inner, 1, "stacked");
    for (const auto& a : loop.accumulated) same(a.outer, a.inner, 0, "accumulated");
    std::vector<std::int64_t> counters = m_counters;
    counters.push_back(loop.trips);
    for (std::string& p : Verifier(body, m_stage, std::move(counters), m_where + "in " + op.name + ": ").run())
      m_problems.push_back(std::move(p));
  }

  void checkOrder() {
    std::vector<bool> written(m_program.tensors.size(), false);
    const std::vector<OperatorId> made = producers(m_program);
    std::unordered_set<std::uint32_t> pending;
    if (m_stage == Stage::Source)
      for (const Derivative& d : m_program.derivatives) pending.insert(d.result.value);
    for (std::size_t i = 0; i < m_program.operators.size(); ++i) {
      const OperatorId id(i);
      for (const TensorId t : readsOf(m_program, id))
        if (made[t.value].valid() && !written[t.value] && !pending.contains(t.value))
          problem("operator " + m_program[id].name + " reads " + m_program[t].name + " before it is written");
      for (const TensorId t : writesOf(m_program, id)) {
        if (!in(t, written.size())) continue;
        if (written[t.value]) problem("tensor " + m_program[t].name + " is written twice");
        written[t.value] = true;
        if (m_program[t].kind != TensorKind::Intermediate) problem("tensor " + m_program[t].name + " is given and written");
      }
    }
    // Inside a Loop the carried and invariant tensors come from outside.
    if (!m_counters.empty()) return;
    for (std::size_t t = 0; t < written.size(); ++t)
      if (!written[t] && m_program.tensors[t].kind == TensorKind::Intermediate && !pending.contains(static_cast<std::uint32_t>(t)))
        problem("tensor " + m_program.tensors[t].name + " is never written");
  }

  void checkUses() {
    const std::size_t count = m_program.tensors.size();
    for (const Derivative& d : m_program.derivatives)
      if (!in(d.of, count) || !in(d.wrt, count) || !in(d.result, count) || (d.seed.valid() && !in(d.seed, count)))
        problem("a derivative names no tensor");
    for (const Update& u : m_program.updates) {
      if (!in(u.target, count) || !in(u.value, count)) {
        problem("an update names no tensor");
        continue;
      }
      if (m_program[u.target].kind != TensorKind::Param && m_program[u.target].kind != TensorKind::State)
        problem("tensor " + m_program[u.target].name + " is updated but is neither param nor state");
      if (m_program[u.target].shape != m_program[u.value].shape)
        problem("the update of " + m_program[u.target].name + " has another shape");
      if (m_program[u.target].type != m_program[u.value].type)
        problem("the update of " + m_program[u.target].name + " has another type");
    }
    for (const Output& o : m_program.outputs)
      if (!in(o.tensor, count)) problem("output " + o.name + " names no tensor");
  }

  void checkGroups() {
    if (m_stage < Stage::Partitioned) return;
    std::vector<int> times(m_program.operators.size(), 0);
    for (const Group& g : m_program.groups)
      for (const OperatorId id : g.operators) {
        if (!in(id, times.size())) problem("group " + g.name + " names no operator");
        else ++times[id.value];
      }
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times[i] != 1) problem("operator " + m_program.operators[i].name + " is in " + std::to_string(times[i]) + " groups");
  }

  const Program& m_program;
  Stage m_stage;
  std::vector<std::int64_t> m_counters;  // trips of the loops around, outermost first
  std::string m_where;
  std::vector<std::string> m_problems;
};

}  // namespace

std::vector<std::string> verify(const Program& program, Stage stage) { return Verifier(program, stage, {}, {}).run(); }

}  // namespace nf
