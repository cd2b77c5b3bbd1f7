// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_preparation.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/ir/folding.h"
#include "core/support/checked.h"

namespace nf::reference {
namespace {

constexpr std::size_t kDeepestSelect = 1000;  // nesting of selects: execution recurses over them

class Preparation {
 public:
  Preparation(const Program& program, const Operator& op, bool training, std::span<const std::int64_t> trips)
      : m_program(program), m_op(op), m_training(training), m_ranges(rangesOf(op, {trips.begin(), trips.end()})) {}

  Result<Unit> run(ReferenceKernel::Code& code) {
    m_code = &code;
    if (!describe()) return Error{"interpret", "operator " + m_op.name + " has more points than 64 bits count", "reference", {}};
    for (const ExprId root : roots())
      for (const ExprId id : nodesOf(m_program, root))
        if (m_seen.insert(id.value).second) m_order.push_back(id);
    placeNodes();
    if (m_deepest > kDeepestSelect)
      return Error{
          "interpret", "operator " + m_op.name + " nests selects deeper than " + std::to_string(kDeepestSelect), "reference", {}};
    for (const ExprId id : m_order) emit(id);
    finish();
    return Unit{};
  }

 private:
  struct Scope {
    std::uint32_t depth = 0;
    std::unordered_set<std::uint32_t> called;
  };

  const ScalarNode& node(ExprId id) const { return m_program[id]; }

  bool describe() {
    m_code->name = m_op.name;
    m_code->output = m_op.output;
    m_code->scatter = m_op.kind == OperatorKind::Scatter;
    m_code->reducer = m_op.reducer;
    m_code->integers = node(m_op.body).type == DType::I32 && m_program[m_op.output].type == DType::I32;
    for (std::size_t k = 0; k < m_op.axes.size(); ++k) {
      const std::int64_t extent = m_op.axes[k].extent;
      m_code->extents.push_back(extent);
      const auto points = checkedMul(m_code->points, extent);
      if (!points) return false;
      m_code->points = *points;
      if (k >= m_op.outputRank) m_code->reduced *= extent;
    }
    m_code->outputElements = m_program[m_op.output].elements();
    return true;
  }

  // The expressions that are evaluated at each point. A scatter's guards are peeled off its body.
  std::vector<ExprId> roots() {
    m_value = m_op.body;
    if (m_op.kind != OperatorKind::Scatter) return {m_value};
    std::vector<ExprId> all;
    while (node(m_value).op == ScalarOp::Select) {
      const ScalarNode& otherwise = node(node(m_value).operands[2]);
      if (otherwise.op != ScalarOp::Constant || otherwise.value != 0) break;
      m_guards.push_back(node(m_value).operands[0]);
      m_value = node(m_value).operands[1];
    }
    all = m_guards;
    all.push_back(m_value);
    for (const AccessIndex& index : m_op.scatter)
      if (index.isData()) all.push_back(index.data);
    return all;
  }

  std::uint32_t newScope(std::uint32_t depth) {
    m_scopes.push_back({depth, {}});
    m_code->blocks.emplace_back();
    m_deepest = std::max<std::size_t>(m_deepest, depth);
    return static_cast<std::uint32_t>(m_scopes.size() - 1);
  }

  // A node used in one scope stands there; one used in several gets a block of its own that runs at most once a point, when
  // first asked for. So select stays lazy and no node is evaluated twice.
  void placeNodes() {
    const std::uint32_t first = newScope(0);
    std::unordered_map<std::uint32_t, std::uint32_t> use;  // node -> the scope it is used in, or kSeveral
    const auto useIn = [&](ExprId id, std::uint32_t scope) {
      const auto [at, isNew] = use.emplace(id.value, scope);
      if (!isNew && at->second != scope) at->second = kSeveral;
    };
    std::uint32_t stage = first;
    for (const ExprId guard : m_guards) {
      useIn(guard, stage);
      stage = newScope(0);
      m_code->stages.push_back(stage);
    }
    useIn(m_value, stage);
    for (const AccessIndex& index : m_op.scatter)
      if (index.isData()) useIn(index.data, stage);

    for (auto it = m_order.rbegin(); it != m_order.rend(); ++it) {
      const ScalarNode& n = node(*it);
      if (n.op == ScalarOp::Constant || n.op == ScalarOp::Training) continue;
      const auto used = use.find(it->value);
      if (used == use.end()) continue;  // a condition that its select evaluates by itself
      std::uint32_t scope = used->second;
      if (scope == kSeveral) {
        scope = newScope(m_deepestUse[it->value] + 1);
        m_call.emplace(it->value, m_code->calls++);
      }
      m_home.emplace(it->value, scope);
      const std::uint32_t depth = m_scopes[scope].depth;
      const auto operand = [&](ExprId id, std::uint32_t in) {
        useIn(id, in);
        auto& deepest = m_deepestUse[id.value];
        deepest = std::max(deepest, m_scopes[in].depth);
      };
      if (n.op == ScalarOp::Select) {
        const std::uint32_t then = newScope(depth + 1), otherwise = newScope(depth + 1);
        m_branches.emplace(it->value, std::pair{then, otherwise});
        if (!isIndexConjunction(n.operands[0])) operand(n.operands[0], scope);
        operand(n.operands[1], then);
        operand(n.operands[2], otherwise);
        continue;
      }
      for (int k = 0; k < info(n.op).arity; ++k) operand(n.operands[k], scope);
      if (n.op == ScalarOp::Load)
        for (const AccessIndex& index : m_program[n.access].indices)
          if (index.isData()) operand(index.data, scope);
    }
  }

  bool isIndexConjunction(ExprId condition) const {
    for (const ExprId id : nodesOf(m_program, condition)) {
      const ScalarOp op = node(id).op;
      if (op != ScalarOp::And && op != ScalarOp::IndexGe0 && op != ScalarOp::IndexEq0) return false;
    }
    return true;
  }

  // Makes an operand's value available in a scope.
  std::uint32_t require(ExprId id, std::uint32_t scope) {
    const auto call = m_call.find(id.value);
    if (call != m_call.end() && m_scopes[scope].called.insert(id.value).second) {
      Instruction i;
      i.kind = Kind::CallOnce;
      i.thenBlock = m_home.at(id.value);
      i.a = call->second;
      m_code->blocks[scope].push_back(std::move(i));
    }
    return m_registers.at(id.value);
  }

  void emit(ExprId id) {
    const ScalarNode& n = node(id);
    if (n.op != ScalarOp::Constant && n.op != ScalarOp::Training && !m_home.contains(id.value)) return;
    const std::uint32_t reg = m_code->registers++;
    m_registers.emplace(id.value, reg);
    if (n.op == ScalarOp::Constant || n.op == ScalarOp::Training) {
      const double value = n.op == ScalarOp::Training ? (m_training ? 1.0 : 0.0) : n.value;
      m_code->constants.emplace_back(reg, n.type == DType::I64 ? heldI64(static_cast<std::int64_t>(value)) : value);
      return;
    }
    const std::uint32_t scope = m_home.at(id.value);
    Instruction i;
    i.dst = reg;
    i.op = n.op;
    i.type = n.type;
    switch (n.op) {
      case ScalarOp::Index: i.kind = Kind::Index; break;
      case ScalarOp::IndexGe0: i.kind = Kind::Ge0; break;
      case ScalarOp::IndexEq0: i.kind = Kind::Eq0; break;
      case ScalarOp::Random:
        i.kind = Kind::Random;
        i.stream = static_cast<std::uint32_t>(n.value);
        break;
      case ScalarOp::Load: load(n, scope, i); break;
      case ScalarOp::Select: {
        i.kind = Kind::Select;
        std::tie(i.thenBlock, i.elseBlock) = m_branches.at(id.value);
        if (isIndexConjunction(n.operands[0])) {
          for (const ExprId c : nodesOf(m_program, n.operands[0])) {
            if (node(c).op == ScalarOp::And) continue;
            (node(c).op == ScalarOp::IndexGe0 ? i.atLeastZero : i.zero).push_back(slot(linear(m_program[node(c).index])));
          }
        } else {
          i.a = require(n.operands[0], scope);
        }
        i.thenReg = require(n.operands[1], i.thenBlock);
        i.elseReg = require(n.operands[2], i.elseBlock);
        break;
      }
      default:
        i.a = require(n.operands[0], scope);
        i.wideA = node(n.operands[0]).type == DType::I64;
        if (info(n.op).arity > 1) {
          i.b = require(n.operands[1], scope);
          i.wideB = node(n.operands[1]).type == DType::I64;
        }
        break;
    }
    if (n.index.valid()) i.slot = slot(linear(m_program[n.index]));
    m_code->blocks[scope].push_back(std::move(i));
  }

  void load(const ScalarNode& n, std::uint32_t scope, Instruction& i) {
    i.kind = Kind::Load;
    const Access& access = m_program[n.access];
    i.tensor = access.tensor.value;
    m_code->tensorNames.emplace(i.tensor, m_program[access.tensor].name);
    LinearForm offset;
    std::int64_t stride = 1;
    const auto& shape = m_program[access.tensor].shape;
    for (std::size_t k = shape.size(); k-- > 0;) {
      const AccessIndex& index = access.indices[k];
      const auto component = static_cast<std::uint32_t>(k);
      if (index.isData()) {
        i.data.push_back({require(index.data, scope), stride, shape[k], component, node(index.data).type == DType::I64});
      } else {
        const LinearForm form = linear(index.affine);
        accumulate(offset, form, stride);
        const auto range = bounds(index.affine, m_ranges);
        if (!range || range->lo < 0 || range->hi >= shape[k]) i.checks.push_back({slot(form), shape[k], component});
      }
      stride *= shape[k];
    }
    i.slot = slot(offset);
  }

  static void addTerm(std::vector<std::pair<std::uint32_t, std::int64_t>>& terms, std::uint32_t key, std::int64_t coefficient) {
    const auto at = std::lower_bound(terms.begin(), terms.end(), key, [](const auto& t, std::uint32_t k) { return t.first < k; });
    if (at != terms.end() && at->first == key) {
      at->second += coefficient;
      if (at->second == 0) terms.erase(at);
    } else {
      terms.insert(at, {key, coefficient});
    }
  }

  static void accumulate(LinearForm& into, const LinearForm& form, std::int64_t factor) {
    into.constant += factor * form.constant;
    for (const auto& [axis, c] : form.axes) addTerm(into.axes, axis, factor * c);
    for (const auto& [counter, c] : form.counters) addTerm(into.counters, counter, factor * c);
    for (const auto& [atom, c] : form.atoms) addTerm(into.atoms, atom, factor * c);
  }

  bool isInner(const LinearForm& form) const {
    if (m_op.axes.empty()) return false;
    const auto last = static_cast<std::uint32_t>(m_op.axes.size() - 1);
    return std::any_of(form.axes.begin(), form.axes.end(), [&](const auto& t) { return t.first == last; }) ||
           std::any_of(form.atoms.begin(), form.atoms.end(), [&](const auto& t) { return m_code->atoms[t.first].inner; });
  }

  LinearForm linear(const IndexExpr& e) {
    LinearForm form;
    form.constant = e.constant();
    for (const IndexTerm& term : e.terms()) {
      if (!term.atom.isFloorDiv()) {
        const IndexVar v = term.atom.variable;
        if (v >= kLoopVariable) {
          addTerm(form.counters, v - kLoopVariable, term.coefficient);
          m_code->counters = std::max<std::size_t>(m_code->counters, v - kLoopVariable + 1);
        } else {
          addTerm(form.axes, v, term.coefficient);
        }
        continue;
      }
      FloorAtom atom{linear(*term.atom.numerator), term.atom.divisor, false};
      atom.inner = isInner(atom.numerator);
      auto& atoms = m_code->atoms;
      const auto found = std::find(atoms.begin(), atoms.end(), atom);
      const auto number = static_cast<std::uint32_t>(found - atoms.begin());
      if (found == atoms.end()) atoms.push_back(std::move(atom));
      addTerm(form.atoms, number, term.coefficient);
    }
    return form;
  }

  std::uint32_t slot(const LinearForm& form) {
    auto& slots = m_code->slots;
    const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.form == form; });
    if (found != slots.end()) return static_cast<std::uint32_t>(found - slots.begin());
    slots.push_back({form, isInner(form)});
    return static_cast<std::uint32_t>(slots.size() - 1);
  }

  void finish() {
    for (std::size_t k = 0; k < m_guards.size(); ++k) m_code->guards.push_back(require(m_guards[k], m_code->stages[k]));
    const std::uint32_t last = m_code->stages.back();
    m_code->result = require(m_value, last);
    if (m_op.kind == OperatorKind::Scatter) {
      const auto& shape = m_program[m_op.output].shape;
      std::int64_t stride = 1;
      m_code->targets.resize(shape.size());
      for (std::size_t k = shape.size(); k-- > 0;) {
        auto& target = m_code->targets[k];
        target.extent = shape[k];
        target.stride = stride;
        target.data = m_op.scatter[k].isData();
        if (target.data) {
          target.reg = require(m_op.scatter[k].data, last);
          target.wide = node(m_op.scatter[k].data).type == DType::I64;
        } else target.slot = slot(linear(m_op.scatter[k].affine));
        stride *= shape[k];
      }
    }
  }

  static constexpr std::uint32_t kSeveral = 0xffffffffu;
  const Program& m_program;
  const Operator& m_op;
  bool m_training;
  RangeOf m_ranges;
  ReferenceKernel::Code* m_code = nullptr;
  ExprId m_value;
  std::vector<ExprId> m_guards, m_order;
  std::unordered_set<std::uint32_t> m_seen;
  std::vector<Scope> m_scopes;
  std::size_t m_deepest = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> m_home, m_call, m_registers, m_deepestUse;
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> m_branches;
};

}  // namespace

Result<Unit> prepare(const Program& program, const Operator& op, bool training, std::span<const std::int64_t> trips,
                     ReferenceKernel::Code& code) {
  return Preparation(program, op, training, trips).run(code);
}

}  // namespace nf::reference
