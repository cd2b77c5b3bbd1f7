// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "core/device/backend.h"
#include "core/ir/folding.h"
#include "core/support/checked.h"
#include "core/support/counter_random.h"

namespace nf {
namespace {

constexpr std::size_t kStrip = 256;           // points an instruction works on at once: 2 KiB a register
constexpr std::size_t kDeepestSelect = 1000;  // nesting of selects: execution recurses over them

// constant + sums over axes, loop counters and floor atoms.
struct LinearForm {
  std::int64_t constant = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> axes, counters, atoms;
  friend bool operator==(const LinearForm&, const LinearForm&) = default;
};

struct FloorAtom {
  LinearForm numerator;
  std::int64_t divisor = 1;
  bool inner = false;  // depends on the innermost axis
  friend bool operator==(const FloorAtom& a, const FloorAtom& b) { return a.divisor == b.divisor && a.numerator == b.numerator; }
};

struct Slot {
  LinearForm form;
  bool inner = false;
};

struct Check {
  std::uint32_t slot;
  std::int64_t extent;
  std::uint32_t component;
};

struct DataIndex {
  std::uint32_t reg;
  std::int64_t stride, extent;
  std::uint32_t component;
  bool wide;
};

enum class Kind : std::uint8_t { Scalar, Index, Ge0, Eq0, Random, Load, Select, CallOnce };

struct Instruction {
  Kind kind = Kind::Scalar;
  ScalarOp op = ScalarOp::Add;
  DType type = DType::F32;            // of the result; for Div: decides nothing, for Cast: the target
  bool wideA = false, wideB = false;  // operands that are i64
  std::uint32_t dst = 0, a = 0, b = 0;
  std::uint32_t slot = 0;                                                // Index, Ge0, Eq0, Random, Load
  std::uint32_t tensor = 0;                                              // Load
  std::uint32_t stream = 0;                                              // Random
  std::uint32_t thenBlock = 0, elseBlock = 0, thenReg = 0, elseReg = 0;  // Select; CallOnce: thenBlock, a = number of the call
  std::vector<Check> checks;
  std::vector<DataIndex> data;
  // Select on a conjunction of index conditions: slots that must be >= 0 and slots that must be 0; `a` is not used then.
  std::vector<std::uint32_t> atLeastZero, zero;
  bool onIndices() const { return !atLeastZero.empty() || !zero.empty(); }
};

// Lanes of a strip: all of [0, count), or the listed ones.
struct Lanes {
  std::size_t count = 0;
  const std::uint16_t* list = nullptr;
};

template <class F>
void each(const Lanes& lanes, F&& f) {
  if (!lanes.list) {
    for (std::size_t i = 0; i < lanes.count; ++i) f(i);
  } else {
    for (std::size_t k = 0; k < lanes.count; ++k) f(lanes.list[k]);
  }
}

}  // namespace

struct ReferenceKernel::Code {
  std::string name;
  TensorId output;
  bool scatter = false;
  Reducer reducer = Reducer::None;
  bool integers = false;  // i32 are combined to i32
  bool rounds = false;    // to f16 and bf16
  DType outputType = DType::F32;
  std::vector<std::int64_t> extents;
  std::int64_t points = 1, outputElements = 1, reduced = 1;
  std::vector<FloorAtom> atoms;
  std::vector<Slot> slots;
  std::vector<std::vector<Instruction>> blocks;
  std::uint32_t registers = 0, calls = 0;
  std::size_t counters = 0;  // loop variables it uses: [0, counters)
  std::vector<std::pair<std::uint32_t, double>> constants;
  std::uint32_t result = 0;

  // Scatter: guards[k] is evaluated in block stages[k]; the value and the indices in the last stage.
  std::vector<std::uint32_t> stages{0}, guards;
  struct Target {
    bool data = false;
    bool wide = false;  // an i64
    std::uint32_t slot = 0, reg = 0;
    std::int64_t extent = 1, stride = 1;
  };
  std::vector<Target> targets;

  std::unordered_map<std::uint32_t, std::string> tensorNames;  // of what it reads, for messages
};

namespace {

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

// Walks the points of one operator, a strip at a time.
class Execution {
 public:
  Execution(const ReferenceKernel::Code& code, const ReferenceKernel::Bindings& bindings)
      : m_code(code), m_bindings(bindings), m_registers(code.registers * kStrip), m_slots(code.slots.size() * kStrip),
        m_atoms(code.atoms.size() * kStrip), m_done(code.calls * kStrip), m_position(code.extents.size(), 0) {
    for (const auto& [reg, value] : code.constants) std::fill_n(registerOf(reg), kStrip, value);
    for (const auto& block : code.blocks)
      for (const Instruction& i : block)
        if (i.kind == Kind::Random) m_keys.emplace(i.stream, randomKey(bindings.seed, bindings.step, i.stream));
    prepareSlots();
  }

  Result<Unit> run() {
    m_bindings.output->assign(static_cast<std::size_t>(m_code.outputElements), 0.0);
    std::int64_t point = 0;
    while (point < m_code.points) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kStrip, m_code.points - point));
      fillStrip(count);
      std::fill(m_done.begin(), m_done.end(), 0);
      if (m_code.scatter) scatterStrip(count);
      else gatherStrip(count);
      if (!m_error.empty()) return Error{"interpret", m_error, "reference", {}};
      if (m_bindings.stop && m_bindings.stop->load(std::memory_order_relaxed)) return stopped();
      point += static_cast<std::int64_t>(count);
    }
    return Unit{};
  }

 private:
  double* registerOf(std::uint32_t reg) { return m_registers.data() + static_cast<std::size_t>(reg) * kStrip; }
  std::int64_t* slotOf(std::uint32_t slot) { return m_slots.data() + static_cast<std::size_t>(slot) * kStrip; }

  // ------------------------------------------------------------ stepping of index forms
  struct Step {
    std::int64_t base = 0, inner = 0;   // inner: of the innermost axis, where it is the whole block
    std::int64_t start = 0;             // constant and counters
    std::vector<std::int64_t> pattern;  // over the block, where it has several axes
    std::vector<std::pair<std::uint32_t, std::int64_t>> outerAxes, outerAtoms, innerAtoms;
    std::vector<std::int64_t> advance;  // by axis: change of base when it steps and all further in return to 0
    bool affine = true;
  };

  Step stepOf(const LinearForm& form) const {
    Step s;
    s.start = form.constant;
    for (const auto& [counter, c] : form.counters) s.start += c * m_bindings.counters[counter];
    const std::size_t rank = m_code.extents.size();
    std::vector<std::int64_t> coefficients(rank, 0);
    for (const auto& [axis, c] : form.axes) {
      coefficients[axis] = c;
      if (axis < m_block) s.outerAxes.emplace_back(axis, c);
      else if (m_block + 1 == rank) s.inner = c;
    }
    for (const auto& [atom, c] : form.atoms) {
      s.affine = false;
      (m_code.atoms[atom].inner ? s.innerAtoms : s.outerAtoms).emplace_back(atom, c);
    }
    s.advance.resize(rank, 0);
    std::int64_t wrapped = 0;  // what the axes further in give back, the block left out: it is added a lane at a time
    for (std::size_t k = m_block; k-- > 0;) {
      s.advance[k] = coefficients[k] - wrapped;
      wrapped += coefficients[k] * (m_code.extents[k] - 1);
    }
    s.base = s.start;
    if (m_block + 1 < rank) {
      s.pattern.assign(1, 0);
      for (std::size_t k = m_block; k < rank; ++k) {
        std::vector<std::int64_t> longer;
        for (const std::int64_t before : s.pattern)
          for (std::int64_t i = 0; i < m_code.extents[k]; ++i) longer.push_back(before + coefficients[k] * i);
        s.pattern = std::move(longer);
      }
    }
    return s;
  }

  // The innermost axes that fit a strip together and that no floor depends on are one block with a fixed pattern of offsets.
  void chooseBlock() {
    const std::size_t rank = m_code.extents.size();
    if (rank == 0) return;
    m_block = rank - 1;
    m_blockSize = m_code.extents[m_block];
    std::vector<bool> floored(rank, false);
    for (const FloorAtom& atom : m_code.atoms)
      for (const auto& [axis, c] : atom.numerator.axes) floored[axis] = true;
    if (floored[m_block]) return;
    while (m_block > 0 && !floored[m_block - 1] && m_blockSize * m_code.extents[m_block - 1] <= static_cast<std::int64_t>(kStrip))
      m_blockSize *= m_code.extents[--m_block];
  }

  void prepareSlots() {
    chooseBlock();
    for (const Slot& slot : m_code.slots) m_slotSteps.push_back(stepOf(slot.form));
    for (const FloorAtom& atom : m_code.atoms) m_atomSteps.push_back(stepOf(atom.numerator));
    m_atomOuter.resize(m_code.atoms.size(), 0);
    refreshBases();
  }

  std::int64_t baseOf(const Step& s) const {
    std::int64_t base = s.start;
    for (const auto& [axis, c] : s.outerAxes) base += c * m_position[axis];
    for (const auto& [atom, c] : s.outerAtoms) base += c * m_atomOuter[atom];
    return base;
  }

  // After the outer axes moved: everything that is not stepped.
  void refreshBases() {
    for (std::size_t a = 0; a < m_atomSteps.size(); ++a) {
      m_atomSteps[a].base = baseOf(m_atomSteps[a]);
      if (!m_code.atoms[a].inner) m_atomOuter[a] = floorDiv(m_atomSteps[a].base, m_code.atoms[a].divisor);
    }
    for (Step& s : m_slotSteps)
      if (!s.affine) s.base = baseOf(s);
  }

  void fillRun(std::size_t lane, std::size_t length, std::int64_t inner) {
    const auto fill = [&](const Step& s, std::int64_t* out) {
      if (!s.pattern.empty()) {
        const std::int64_t* pattern = s.pattern.data() + inner;
        for (std::size_t i = 0; i < length; ++i) out[i] = s.base + pattern[i];
        return;
      }
      const std::int64_t from = s.base + s.inner * inner;
      for (std::size_t i = 0; i < length; ++i) out[i] = from + s.inner * static_cast<std::int64_t>(i);
      for (const auto& [atom, c] : s.innerAtoms) {
        const std::int64_t* values = m_atoms.data() + atom * kStrip + lane;
        for (std::size_t i = 0; i < length; ++i) out[i] += c * values[i];
      }
    };
    for (std::size_t a = 0; a < m_atomSteps.size(); ++a) {
      if (!m_code.atoms[a].inner) continue;
      std::int64_t* out = m_atoms.data() + a * kStrip + lane;
      fill(m_atomSteps[a], out);
      const std::int64_t divisor = m_code.atoms[a].divisor;
      for (std::size_t i = 0; i < length; ++i) out[i] = floorDiv(out[i], divisor);
    }
    for (std::size_t k = 0; k < m_slotSteps.size(); ++k) fill(m_slotSteps[k], m_slots.data() + k * kStrip + lane);
  }

  void fillStrip(std::size_t count) {
    std::size_t lane = 0;
    while (lane < count) {
      const auto length = std::min(count - lane, static_cast<std::size_t>(m_blockSize - m_inBlock));
      fillRun(lane, length, m_inBlock);
      lane += length;
      m_inBlock += static_cast<std::int64_t>(length);
      if (m_inBlock == m_blockSize) {
        m_inBlock = 0;
        advanceOuter();
      }
    }
  }

  void advanceOuter() {
    for (std::size_t k = m_block; k-- > 0;) {
      if (++m_position[k] < m_code.extents[k]) {
        for (Step& s : m_slotSteps)
          if (s.affine) s.base += s.advance[k];
        if (!m_atomSteps.empty()) refreshBases();
        return;
      }
      m_position[k] = 0;
    }
  }

  // ------------------------------------------------------------ instructions
  // nullopt: a NaN.
  static std::optional<std::int64_t> indexOf(double value, bool wide) {
    if (wide) return wholeI64(value);
    return std::isnan(value) ? std::nullopt : std::optional(static_cast<std::int64_t>(std::clamp(value, -0x1p62, 0x1p62)));
  }

  void outOfRange(const Instruction& i, std::uint32_t component, std::optional<std::int64_t> value, std::int64_t extent) {
    if (!m_error.empty()) return;
    const std::string text = value ? std::to_string(*value) : "nan";
    m_error = "operator " + m_code.name + ": index " + std::to_string(component) + " of " + m_code.tensorNames.at(i.tensor) +
              " is " + text + ", outside [0, " + std::to_string(extent) + ")";
  }

  void runBlock(std::uint32_t block, const Lanes& lanes) {
    if (lanes.count == 0) return;
    for (const Instruction& i : m_code.blocks[block]) {
      if (!m_error.empty()) return;
      double* out = registerOf(i.dst);
      switch (i.kind) {
        case Kind::Scalar: scalar(i, out, lanes); break;
        case Kind::Index:
          if (i.type == DType::I64) each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = heldI64(s[l]); });
          else each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = static_cast<double>(s[l]); });
          break;
        case Kind::Ge0: each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = s[l] >= 0; }); break;
        case Kind::Eq0: each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = s[l] == 0; }); break;
        case Kind::Random:
          each(lanes, [&, s = slotOf(i.slot), key = m_keys.at(i.stream)](std::size_t l) { out[l] = randomUniform(key, s[l]); });
          break;
        case Kind::Load: load(i, out, lanes); break;
        case Kind::Select: select(i, out, lanes); break;
        case Kind::CallOnce: callOnce(i, lanes); break;
      }
    }
  }

  void load(const Instruction& i, double* out, const Lanes& lanes) {
    for (const Check& check : i.checks) {
      const std::int64_t* s = slotOf(check.slot);
      each(lanes, [&](std::size_t l) {
        if (s[l] < 0 || s[l] >= check.extent) outOfRange(i, check.component, s[l], check.extent);
      });
    }
    for (const DataIndex& d : i.data) {
      const double* v = registerOf(d.reg);
      each(lanes, [&](std::size_t l) {
        const auto index = indexOf(v[l], d.wide);
        if (!index || *index < 0 || *index >= d.extent) outOfRange(i, d.component, index, d.extent);
      });
    }
    if (!m_error.empty()) return;
    const double* values = m_bindings.tensors[i.tensor]->data();
    const std::int64_t* s = slotOf(i.slot);
    if (i.data.empty()) {
      each(lanes, [&](std::size_t l) { out[l] = values[s[l]]; });
      return;
    }
    each(lanes, [&](std::size_t l) {
      std::int64_t offset = s[l];
      for (const DataIndex& d : i.data) offset += d.stride * *indexOf(registerOf(d.reg)[l], d.wide);
      out[l] = values[offset];
    });
  }

  void select(const Instruction& i, double* out, const Lanes& lanes) {
    const auto branch = [&](std::uint32_t block, std::uint32_t reg, const Lanes& some) {
      runBlock(block, some);
      const double* value = registerOf(reg);
      each(some, [&](std::size_t l) { out[l] = value[l]; });
    };
    std::uint16_t yes[kStrip], no[kStrip];
    std::size_t yesCount = 0, noCount = 0;
    const auto split = [&](auto&& holds) {
      each(lanes, [&](std::size_t l) {
        const bool h = holds(l);
        yes[yesCount] = no[noCount] = static_cast<std::uint16_t>(l);
        yesCount += h;
        noCount += !h;
      });
    };
    if (i.onIndices()) {
      // Negative where any condition fails.
      std::int64_t fails[kStrip];
      each(lanes, [&](std::size_t l) { fails[l] = 0; });
      for (const std::uint32_t k : i.atLeastZero) each(lanes, [&, s = slotOf(k)](std::size_t l) { fails[l] |= s[l]; });
      for (const std::uint32_t k : i.zero) each(lanes, [&, s = slotOf(k)](std::size_t l) { fails[l] |= s[l] | -s[l]; });
      split([&](std::size_t l) { return fails[l] >= 0; });
    } else {
      const double* condition = registerOf(i.a);
      split([&](std::size_t l) { return condition[l] != 0; });
    }
    if (noCount == 0) return branch(i.thenBlock, i.thenReg, lanes);
    if (yesCount == 0) return branch(i.elseBlock, i.elseReg, lanes);
    branch(i.thenBlock, i.thenReg, {yesCount, yes});
    branch(i.elseBlock, i.elseReg, {noCount, no});
  }

  void callOnce(const Instruction& i, const Lanes& lanes) {
    std::uint8_t* done = m_done.data() + static_cast<std::size_t>(i.a) * kStrip;
    std::uint16_t left[kStrip];
    std::size_t count = 0;
    each(lanes, [&](std::size_t l) {
      if (!done[l]) left[count++] = static_cast<std::uint16_t>(l);
      done[l] = 1;
    });
    if (count == lanes.count) runBlock(i.thenBlock, lanes);
    else runBlock(i.thenBlock, {count, left});
  }

  void scalar(const Instruction& i, double* out, const Lanes& lanes) {
    const double* a = registerOf(i.a);
    const double* b = registerOf(i.b);
    const auto map = [&](auto f) { each(lanes, [&](std::size_t l) { out[l] = f(a[l]); }); };
    const auto zip = [&](auto f) { each(lanes, [&](std::size_t l) { out[l] = f(a[l], b[l]); }); };
    if (i.wideA || i.wideB || i.type == DType::I64) {
      const auto operand = [](double v, bool wide) { return wide ? wholeI64(v) : static_cast<std::int64_t>(v); };
      const bool binary = info(i.op).arity > 1;
      return each(lanes, [&](std::size_t l) {
        const std::int64_t v = evaluateI64(i.op, operand(a[l], i.wideA), binary ? operand(b[l], i.wideB) : 0);
        out[l] = i.type == DType::I64 ? heldI64(v) : static_cast<double>(v);
      });
    }
    if (i.type == DType::I32) switch (i.op) {
        case ScalarOp::Neg: return map([](double x) { return wrappedI32(-x); });
        case ScalarOp::Abs: return map([](double x) { return wrappedI32(std::fabs(x)); });
        case ScalarOp::Add: return zip([](double x, double y) { return wrappedI32(x + y); });
        case ScalarOp::Sub: return zip([](double x, double y) { return wrappedI32(x - y); });
        case ScalarOp::Mul: return zip(wrappedProduct);
        // By zero as on i64 and on every device: a // 0 is 0, a % 0 is a.
        case ScalarOp::FloorDiv: return zip([](double x, double y) { return y == 0 ? 0.0 : wrappedI32(std::floor(x / y)); });
        case ScalarOp::Mod: return zip([](double x, double y) { return y == 0 ? x : x - y * std::floor(x / y); });
        default: break;
      }
    switch (i.op) {
      case ScalarOp::Neg: return map([](double x) { return -x; });
      case ScalarOp::Not: return map([](double x) { return x == 0 ? 1.0 : 0.0; });
      case ScalarOp::Exp: return map([](double x) { return std::exp(x); });
      case ScalarOp::Log: return map([](double x) { return std::log(x); });
      case ScalarOp::Sqrt: return map([](double x) { return std::sqrt(x); });
      case ScalarOp::Rsqrt: return map([](double x) { return 1 / std::sqrt(x); });
      case ScalarOp::Tanh: return map([](double x) { return std::tanh(x); });
      case ScalarOp::Sigmoid: return map([](double x) { return 1 / (1 + std::exp(-x)); });
      case ScalarOp::Erf: return map([](double x) { return std::erf(x); });
      case ScalarOp::Sin: return map([](double x) { return std::sin(x); });
      case ScalarOp::Cos: return map([](double x) { return std::cos(x); });
      case ScalarOp::Abs: return map([](double x) { return std::fabs(x); });
      case ScalarOp::Floor: return map([](double x) { return std::floor(x); });
      case ScalarOp::Relu: return map([](double x) { return x <= 0 ? 0.0 : x; });
      case ScalarOp::Cast:
        if (i.type == DType::I32) return map([](double x) { return std::trunc(x); });
        if (m_code.rounds) return map([type = i.type](double x) { return storedAs(type, x); });
        return map([](double x) { return x; });
      case ScalarOp::StopGradient: return map([](double x) { return x; });
      case ScalarOp::Add: return zip([](double x, double y) { return x + y; });
      case ScalarOp::Sub: return zip([](double x, double y) { return x - y; });
      case ScalarOp::Mul: return zip([](double x, double y) { return x * y; });
      case ScalarOp::Div: return zip([](double x, double y) { return x / y; });
      case ScalarOp::Pow: return zip([](double x, double y) { return std::pow(x, y); });
      case ScalarOp::FloorDiv: return zip([](double x, double y) { return std::floor(x / y); });
      case ScalarOp::Mod: return zip([](double x, double y) { return x - y * std::floor(x / y); });
      case ScalarOp::Max: return zip([](double x, double y) { return x > y || std::isnan(x) ? x : y; });
      case ScalarOp::Min: return zip([](double x, double y) { return x < y || std::isnan(x) ? x : y; });
      case ScalarOp::Lt: return zip([](double x, double y) { return x < y ? 1.0 : 0.0; });
      case ScalarOp::Le: return zip([](double x, double y) { return x <= y ? 1.0 : 0.0; });
      case ScalarOp::Eq: return zip([](double x, double y) { return x == y ? 1.0 : 0.0; });
      case ScalarOp::Ne: return zip([](double x, double y) { return x != y ? 1.0 : 0.0; });
      case ScalarOp::And: return zip([](double x, double y) { return x != 0 && y != 0 ? 1.0 : 0.0; });
      case ScalarOp::Or: return zip([](double x, double y) { return x != 0 || y != 0 ? 1.0 : 0.0; });
      case ScalarOp::Constant:
      case ScalarOp::Index:
      case ScalarOp::Load:
      case ScalarOp::Training:
      case ScalarOp::Random:
      case ScalarOp::IndexGe0:
      case ScalarOp::IndexEq0:
      case ScalarOp::Select: break;
    }
    NF_ASSERT(false);
  }

  // ------------------------------------------------------------ results
  void gatherStrip(std::size_t count) {
    runBlock(0, {count, nullptr});
    if (!m_error.empty()) return;
    const double* value = registerOf(m_code.result);
    double* out = m_bindings.output->data();
    if (m_code.reducer == Reducer::None) {
      for (std::size_t l = 0; l < count; ++l) out[m_outputAt++] = value[l];
      return;
    }
    if (m_code.reducer == Reducer::Sum) return sumStrip(count, value, out);
    for (std::size_t l = 0; l < count; ++l) {
      combine(value[l]);
      if (++m_reducedAt < m_code.reduced) continue;
      const bool arg = m_code.reducer == Reducer::ArgMax || m_code.reducer == Reducer::ArgMin;
      out[m_outputAt++] = arg ? static_cast<double>(m_best) : m_accumulator;
      m_reducedAt = 0;
    }
  }

  void sumStrip(std::size_t count, const double* value, double* out) {
    std::size_t l = 0;
    while (l < count) {
      const auto end =
          l + static_cast<std::size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(count - l), m_code.reduced - m_reducedAt));
      m_reducedAt += static_cast<std::int64_t>(end - l);
      double sum = m_accumulator;
      for (; l < end; ++l) sum += value[l];
      m_accumulator = sum;
      if (m_reducedAt < m_code.reduced) return;
      out[m_outputAt++] = m_code.integers ? wrappedI32(sum) : sum;
      m_accumulator = 0;
      m_reducedAt = 0;
    }
  }

  void combine(double v) {
    if (m_reducedAt == 0) {
      m_accumulator = v;
      m_best = 0;
      return;
    }
    bool better = false;
    switch (m_code.reducer) {
      case Reducer::Prod: m_accumulator = m_code.integers ? wrappedProduct(m_accumulator, v) : m_accumulator * v; return;
      case Reducer::Max:
      case Reducer::ArgMax: better = v > m_accumulator; break;
      case Reducer::Min:
      case Reducer::ArgMin: better = v < m_accumulator; break;
      case Reducer::Sum:
      case Reducer::None: break;
    }
    // The first NaN wins and stays.
    if (better || (std::isnan(v) && !std::isnan(m_accumulator))) {
      m_accumulator = v;
      m_best = m_reducedAt;
    }
  }

  void scatterStrip(std::size_t count) {
    std::uint16_t list[kStrip];
    Lanes lanes{count, nullptr};
    for (std::size_t k = 0; k < m_code.guards.size(); ++k) {
      runBlock(m_code.stages[k], lanes);
      const double* guard = registerOf(m_code.guards[k]);
      std::size_t kept = 0;
      each(lanes, [&](std::size_t l) {
        if (guard[l] != 0) list[kept++] = static_cast<std::uint16_t>(l);
      });
      lanes = {kept, list};
    }
    runBlock(m_code.stages.back(), lanes);
    if (!m_error.empty()) return;
    const double* value = registerOf(m_code.result);
    double* out = m_bindings.output->data();
    each(lanes, [&](std::size_t l) {
      std::int64_t offset = 0;
      for (std::size_t k = 0; k < m_code.targets.size(); ++k) {
        const auto& target = m_code.targets[k];
        if (target.data) {
          const auto v = indexOf(registerOf(target.reg)[l], target.wide);
          if (!v || *v < 0 || *v >= target.extent) {
            if (m_error.empty())
              m_error = "operator " + m_code.name + ": index " + std::to_string(k) + " of what it adds to is " +
                        (v ? std::to_string(*v) : std::string("nan")) + ", outside [0, " + std::to_string(target.extent) + ")";
            return;
          }
          offset += target.stride * *v;
        } else {
          const std::int64_t v = slotOf(target.slot)[l];
          if (v < 0 || v >= target.extent) return;
          offset += target.stride * v;
        }
      }
      out[offset] = m_code.integers ? wrappedI32(out[offset] + value[l]) : out[offset] + value[l];
    });
  }

  const ReferenceKernel::Code& m_code;
  const ReferenceKernel::Bindings& m_bindings;
  std::vector<double> m_registers;
  std::vector<std::int64_t> m_slots, m_atoms;
  std::vector<std::uint8_t> m_done;
  std::size_t m_block = 0;  // first axis of the innermost block
  std::int64_t m_blockSize = 1, m_inBlock = 0;
  std::vector<std::int64_t> m_position, m_atomOuter;  // position: of the axes before the block
  std::vector<Step> m_slotSteps, m_atomSteps;
  std::unordered_map<std::uint32_t, std::uint64_t> m_keys;
  std::string m_error;
  std::size_t m_outputAt = 0;
  std::int64_t m_reducedAt = 0, m_best = 0;
  double m_accumulator = 0;
};

}  // namespace

ReferenceKernel::ReferenceKernel(std::unique_ptr<Code> code) : m_code(std::move(code)) {}
ReferenceKernel::ReferenceKernel(ReferenceKernel&&) noexcept = default;
ReferenceKernel& ReferenceKernel::operator=(ReferenceKernel&&) noexcept = default;
ReferenceKernel::~ReferenceKernel() = default;

Result<ReferenceKernel> ReferenceKernel::prepare(const Program& program, const Operator& op, bool training,
                                                 std::span<const std::int64_t> counterTrips, Storage storage) {
  auto code = std::make_unique<Code>();
  code->rounds = storage == Storage::Rounded;
  code->outputType = program[op.output].type;
  NF_TRY([[maybe_unused]] const Unit done, Preparation(program, op, training, counterTrips).run(*code));
  return ReferenceKernel(std::move(code));
}

TensorId ReferenceKernel::output() const { return m_code->output; }

Result<Unit> ReferenceKernel::run(const Bindings& bindings) const {
  if (bindings.counters.size() < m_code->counters)
    return Error{"interpret", "operator " + m_code->name + " stands in a loop and was run without its counter", "reference", {}};
  NF_TRY(const Unit ran, Execution(*m_code, bindings).run());
  if (m_code->rounds && (m_code->outputType == DType::F16 || m_code->outputType == DType::BF16))
    for (double& value : *bindings.output) value = storedAs(m_code->outputType, value);
  return ran;
}

}  // namespace nf
