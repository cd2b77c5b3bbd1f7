// SPDX-License-Identifier: Apache-2.0
#include "core/ir/program.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/ir/folding.h"
#include "core/ir/work.h"
#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf {
namespace {

constexpr std::array<ScalarOpInfo, kScalarOpCount> kScalarOps{{
#define NF_SCALAR(name, arity, spelling, form, flops) {#name, arity, spelling, ScalarForm::form, flops},
#include "core/ir/scalar_ops.def"
#undef NF_SCALAR
}};

constexpr std::array<std::string_view, 7> kReducers{"none", "sum", "prod", "max", "min", "argmax", "argmin"};
constexpr std::array<std::string_view, 7> kStages{"source", "differentiated", "transformed", "partitioned",
                                                  "fused",  "scheduled",      "lowered"};

}  // namespace

const ScalarOpInfo& info(ScalarOp op) { return kScalarOps[static_cast<std::size_t>(op)]; }
std::string_view name(Reducer reducer) { return kReducers[static_cast<std::size_t>(reducer)]; }
std::string_view name(Stage stage) { return kStages[static_cast<std::size_t>(stage)]; }

std::optional<Stage> stageNamed(std::string_view name) {
  for (std::size_t i = 0; i < kStages.size(); ++i)
    if (kStages[i] == name) return static_cast<Stage>(i);
  return std::nullopt;
}

bool operator==(const Initializer& a, const Initializer& b) {
  const auto said = [](const Initializer& i) {
    return std::tie(i.kind, i.numbers, i.strings, i.data, i.columnBegin, i.columnEnd, i.scale, i.shift);
  };
  return said(a) == said(b);
}

void add(Hasher& hasher, const Initializer& init) {
  hasher.add(static_cast<std::uint64_t>(init.kind)).add(init.numbers.size());
  for (const double number : init.numbers) hasher.addReal(number);
  hasher.add(init.strings.size());
  for (const std::string& text : init.strings) hasher.add(text);
  hasher.add(init.data).add(static_cast<std::uint64_t>(init.columnBegin)).add(static_cast<std::uint64_t>(init.columnEnd));
  hasher.addReal(init.scale).addReal(init.shift);
}

std::int64_t Tensor::elements() const {
  const auto product = checkedProduct(shape);
  NF_ASSERT(product.has_value());
  return *product;
}

TensorId Program::tensorNamed(std::string_view name) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return TensorId(i);
  return {};
}

TensorId Program::addTensor(Tensor tensor) {
  tensors.push_back(std::move(tensor));
  return TensorId(tensors.size() - 1);
}

OperatorId Program::addOperator(Operator op) {
  operators.push_back(std::move(op));
  return OperatorId(operators.size() - 1);
}

OriginId Program::addOrigin(Origin origin) {
  origins.push_back(std::move(origin));
  return OriginId(origins.size() - 1);
}

OriginId Program::sourceOrigin(Span span) { return addOrigin({span, {}, {}}); }

OriginId Program::derivedOrigin(std::string_view pass, std::vector<OriginId> parents) {
  Origin origin;
  origin.pass = pass;
  std::erase_if(parents, [](OriginId id) { return !id.valid(); });
  for (const OriginId parent : parents) {
    if (origin.span.valid()) break;
    origin.span = origins[parent.value].span;
  }
  origin.parents = std::move(parents);
  return addOrigin(std::move(origin));
}

namespace {

// An index value without variables is a number, such a condition true or false: what is equal has one form.
ExprId push(Program& program, ScalarNode node) {
  if (const auto value = constantIndexNode(program, node)) {
    ScalarNode constant;
    constant.op = ScalarOp::Constant;
    constant.type = node.type;
    constant.value = *value;
    constant.origin = node.origin;
    node = constant;
  }
  program.scalars.push_back(node);
  return ExprId(program.scalars.size() - 1);
}

IndexId pushIndex(Program& program, IndexExpr index) {
  program.indices.push_back(std::move(index));
  return IndexId(program.indices.size() - 1);
}

}  // namespace

ExprId Program::constant(double value, DType type, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::Constant;
  node.type = type;
  node.value = value;
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::indexValue(IndexExpr index, DType type, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::Index;
  node.type = type;
  node.index = pushIndex(*this, std::move(index));
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::load(TensorId tensor, std::vector<AccessIndex> at, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::Load;
  node.type = arithmeticType(tensors[tensor.value].type);
  accesses.push_back({tensor, std::move(at)});
  node.access = AccessId(accesses.size() - 1);
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::condGe0(IndexExpr index, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::IndexGe0;
  node.type = DType::Bool;
  node.index = pushIndex(*this, std::move(index));
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::condEq0(IndexExpr index, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::IndexEq0;
  node.type = DType::Bool;
  node.index = pushIndex(*this, std::move(index));
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::cond(const IndexCond& condition, OriginId origin) {
  switch (condition.kind) {
    case IndexCond::Kind::GreaterEqualZero: return condGe0(condition.expr, origin);
    case IndexCond::Kind::EqualZero: return condEq0(condition.expr, origin);
    case IndexCond::Kind::Not: return unary(ScalarOp::Not, cond(condition.operands[0], origin), origin);
    case IndexCond::Kind::And:
    case IndexCond::Kind::Or: break;
  }
  const bool conjunction = condition.kind == IndexCond::Kind::And;
  if (condition.operands.empty()) return constant(conjunction ? 1 : 0, DType::Bool, origin);
  ExprId all = cond(condition.operands[0], origin);
  for (std::size_t i = 1; i < condition.operands.size(); ++i)
    all = binary(conjunction ? ScalarOp::And : ScalarOp::Or, all, cond(condition.operands[i], origin), origin);
  return all;
}

ExprId Program::random(std::int64_t stream, IndexExpr point, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::Random;
  node.type = DType::F32;
  node.value = static_cast<double>(stream);
  node.index = pushIndex(*this, std::move(point));
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::unary(ScalarOp op, ExprId a, OriginId origin) {
  NF_ASSERT(info(op).arity == 1);
  ScalarNode node;
  node.op = op;
  node.type = op == ScalarOp::Not ? DType::Bool : scalars[a.value].type;
  node.operands[0] = a;
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::binary(ScalarOp op, ExprId a, ExprId b, OriginId origin) {
  NF_ASSERT(info(op).arity == 2);
  const auto type = resultType(op, scalars[a.value].type, scalars[b.value].type);
  NF_ASSERT(type.has_value());
  ScalarNode node;
  node.op = op;
  node.type = *type;
  node.operands[0] = a;
  node.operands[1] = b;
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::select(ExprId condition, ExprId then, ExprId otherwise, OriginId origin) {
  const DType a = scalars[then.value].type, b = scalars[otherwise.value].type;
  const auto type = a == b ? std::optional(a) : resultType(ScalarOp::Add, a, b);
  NF_ASSERT(type.has_value());
  ScalarNode node;
  node.op = ScalarOp::Select;
  node.type = *type;
  node.operands = {condition, then, otherwise};
  node.origin = origin;
  return push(*this, node);
}

ExprId Program::cast(DType type, ExprId a, OriginId origin) {
  ScalarNode node;
  node.op = ScalarOp::Cast;
  node.type = type;
  node.operands[0] = a;
  node.origin = origin;
  return push(*this, node);
}

std::string Program::freshName(std::string_view wish) const {
  std::string candidate(wish);
  for (std::size_t n = 2; tensorNamed(candidate).valid(); ++n) candidate = std::string(wish) + "#" + std::to_string(n);
  return candidate;
}

DType arithmeticType(DType type) { return type == DType::F16 || type == DType::BF16 ? DType::F32 : type; }

std::optional<DType> resultType(ScalarOp op, DType a, DType b) {
  switch (op) {
    case ScalarOp::And:
    case ScalarOp::Or:
      if (a == DType::Bool && b == DType::Bool) return DType::Bool;
      return std::nullopt;
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Eq:
    case ScalarOp::Ne:
      if ((a == DType::Bool) != (b == DType::Bool)) return std::nullopt;
      return DType::Bool;
    case ScalarOp::FloorDiv:
    case ScalarOp::Mod:
      if (!isInteger(a) || !isInteger(b)) return std::nullopt;
      return a == DType::I64 || b == DType::I64 ? DType::I64 : DType::I32;
    default: break;
  }
  if (a == DType::Bool || b == DType::Bool) return std::nullopt;
  if (a == DType::F64 || b == DType::F64) return DType::F64;
  if (isInteger(a) && isInteger(b)) {
    if (op == ScalarOp::Div || op == ScalarOp::Pow) return DType::F32;
    return a == DType::I64 || b == DType::I64 ? DType::I64 : DType::I32;
  }
  return DType::F32;
}

bool isStepped(const Program& program, const Group& group) {
  const Operator& first = program[group.operators.front()];
  return first.kind == OperatorKind::Loop && !program[first.loop].persistent;
}

std::vector<const Group*> kernelGroups(const Program& program) {
  std::vector<const Group*> out;
  for (const Group& group : program.groups) {
    if (!isStepped(program, group)) {
      out.push_back(&group);
      continue;
    }
    const auto inside = kernelGroups(*program[program[group.operators.front()].loop].body);
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

RangeOf rangesOf(const Operator& op, std::vector<std::int64_t> counters) {
  std::vector<std::int64_t> extents;
  extents.reserve(op.axes.size());
  for (const Axis& axis : op.axes) extents.push_back(axis.extent);
  return [extents = std::move(extents), counters = std::move(counters)](IndexVar v) -> std::optional<Range> {
    if (v < extents.size()) return Range{0, extents[v] - 1};
    if (v >= kLoopVariable && v - kLoopVariable < counters.size()) return Range{0, counters[v - kLoopVariable] - 1};
    return std::nullopt;
  };
}

std::vector<TensorId> writesOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind != OperatorKind::Loop) return {op.output};
  std::vector<TensorId> written;
  const Loop& loop = program[op.loop];
  for (const auto& carried : loop.carried)
    if (carried.last.valid()) written.push_back(carried.last);
  for (const auto& stacked : loop.stacked) written.push_back(stacked.outer);
  for (const auto& accumulated : loop.accumulated) written.push_back(accumulated.outer);
  return written;
}

std::vector<OperatorId> producers(const Program& program) {
  std::vector<OperatorId> result(program.tensors.size());
  for (std::size_t i = 0; i < program.operators.size(); ++i)
    for (const TensorId t : writesOf(program, OperatorId(i))) result[t.value] = OperatorId(i);
  return result;
}

std::vector<ExprId> nodesOf(const Program& program, ExprId root) {
  // Data-dependent access components are operands too: they are evaluated before the load.
  std::vector<ExprId> order;
  std::unordered_set<std::uint32_t> seen;
  std::vector<std::pair<ExprId, bool>> stack{{root, false}};
  while (!stack.empty()) {
    const auto [id, expanded] = stack.back();
    stack.pop_back();
    if (!id.valid()) continue;
    if (expanded) {
      order.push_back(id);
      continue;
    }
    if (!seen.insert(id.value).second) continue;
    stack.emplace_back(id, true);
    const ScalarNode& node = program[id];
    if (node.op == ScalarOp::Load) {
      const auto& indices = program[node.access].indices;
      for (auto it = indices.rbegin(); it != indices.rend(); ++it)
        if (it->isData()) stack.emplace_back(it->data, false);
    }
    for (int k = info(node.op).arity - 1; k >= 0; --k) stack.emplace_back(node.operands[k], false);
  }
  return order;
}

bool readsOwnPlace(const Operator& op, const Access& access, std::size_t axis) {
  const AccessIndex& index = access.indices[axis];
  if (index.isData() || axis >= op.axes.size()) return false;
  return index.affine.asVariable() == std::optional<IndexVar>(static_cast<IndexVar>(axis)) ||
         (op.axes[axis].extent == 1 && index.affine == IndexExpr(0));
}

std::vector<TensorId> readsOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  std::vector<TensorId> reads;
  std::unordered_set<std::uint32_t> seen;
  const auto note = [&](TensorId t) {
    if (t.valid() && seen.insert(t.value).second) reads.push_back(t);
  };
  if (op.kind == OperatorKind::Loop) {
    const Loop& loop = program[op.loop];
    for (const auto& carried : loop.carried) note(carried.initial);
    for (const auto& invariant : loop.invariants) note(invariant.outer);
    return reads;
  }
  const auto noteExpr = [&](ExprId root) {
    for (const ExprId e : nodesOf(program, root))
      if (program[e].op == ScalarOp::Load) note(program[program[e].access].tensor);
  };
  noteExpr(op.body);
  for (const AccessIndex& index : op.scatter)
    if (index.isData()) noteExpr(index.data);
  return reads;
}

int flopsOfNode(const Program& program, const ScalarNode& node) {
  if (node.op != ScalarOp::Pow || program[node.operands[1]].op != ScalarOp::Constant) return info(node.op).flops;
  const double exponent = program[node.operands[1]].value;
  if (exponent == 1) return 0;
  if (exponent == 2) return 1;
  return exponent == 3 || exponent == 4 ? 2 : info(node.op).flops;
}

std::int64_t flopsOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind == OperatorKind::Loop) {
    const Loop& loop = program[op.loop];
    std::int64_t body = 0;
    for (std::size_t i = 0; i < loop.body->operators.size(); ++i) body += flopsOf(*loop.body, OperatorId(i));
    return loop.trips * body;
  }
  std::int64_t points = 1;
  for (const Axis& axis : op.axes) points = checkedMul(points, axis.extent).value_or(INT64_MAX / 4096);
  std::int64_t each = op.reducer == Reducer::None && op.kind == OperatorKind::Gather ? 0 : 1;
  for (const ExprId e : nodesOf(program, op.body)) each += flopsOfNode(program, program[e]);
  return checkedMul(points, each).value_or(INT64_MAX / 4096);
}

std::int64_t leastFlopsOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind == OperatorKind::Loop) {
    const Loop& loop = program[op.loop];
    std::int64_t body = 0;
    for (std::size_t i = 0; i < loop.body->operators.size(); ++i) body += leastFlopsOf(*loop.body, OperatorId(i));
    return loop.trips > 0 ? body : 0;
  }
  std::unordered_map<ExprId, std::vector<bool>> axesOf;
  const auto note = [&](std::vector<bool>& axes, const IndexExpr& e) {
    for (std::size_t a = 0; a < op.axes.size(); ++a)
      if (e.uses(IndexVar(a))) axes[a] = true;
  };
  const auto points = [&](const std::vector<bool>& axes) {
    std::int64_t n = 1;
    for (std::size_t a = 0; a < op.axes.size(); ++a)
      if (axes[a]) n = checkedMul(n, op.axes[a].extent).value_or(INT64_MAX / 4096);
    return n;
  };
  for (const ExprId e : nodesOf(program, op.body)) {
    const ScalarNode& node = program[e];
    std::vector<bool> axes(op.axes.size());
    const auto join = [&](ExprId operand) {
      for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = axes[a] || axesOf.at(operand)[a];
    };
    for (int k = 0; k < info(node.op).arity; ++k) join(node.operands[k]);
    if (node.index.valid()) note(axes, program[node.index]);
    if (node.op == ScalarOp::Load)
      for (const AccessIndex& index : program[node.access].indices) {
        if (index.isData()) join(index.data);
        else note(axes, index.affine);
      }
    axesOf.emplace(e, std::move(axes));
  }
  std::int64_t least = 0;
  const auto add = [&](std::int64_t more) { least = std::min(least + more, INT64_MAX / 4096); };
  std::unordered_set<ExprId> seen;
  std::vector<ExprId> open{op.body};
  while (!open.empty()) {
    const ExprId e = open.back();
    open.pop_back();
    if (program[e].op == ScalarOp::Select || !seen.insert(e).second) continue;
    if (info(program[e].op).flops > 0) add(points(axesOf.at(e)));
    for (int k = 0; k < info(program[e].op).arity; ++k) open.push_back(program[e].operands[k]);
  }
  if ((op.reducer != Reducer::None || op.kind == OperatorKind::Scatter) && program[op.body].op != ScalarOp::Select)
    add(points(axesOf.at(op.body)));
  return least;
}

ExprId ExprCloner::clone(ExprId root) {
  if (!root.valid()) return {};
  for (const ExprId id : nodesOf(m_from, root)) {
    if (m_done.contains(id)) continue;
    ScalarNode copy = m_from[id];
    if (node) {
      if (const auto replaced = node(id, copy)) {
        m_done[id] = *replaced;
        continue;
      }
    }
    for (int k = 0; k < info(copy.op).arity; ++k) copy.operands[k] = m_done.at(copy.operands[k]);
    if (copy.index.valid()) {
      const IndexExpr& index = m_from[copy.index];
      copy.index = pushIndex(m_to, variable ? substitute(index, variable) : index);
    }
    if (copy.access.valid()) {
      Access access = m_from[copy.access];
      if (tensor) access.tensor = tensor(access.tensor);
      for (AccessIndex& index : access.indices) index = clone(index);
      m_to.accesses.push_back(std::move(access));
      copy.access = AccessId(m_to.accesses.size() - 1);
    }
    if (origin) copy.origin = origin(copy.origin);
    m_done[id] = push(m_to, copy);
  }
  return m_done.at(root);
}

AccessIndex ExprCloner::clone(const AccessIndex& index) {
  AccessIndex copy;
  if (index.isData()) copy.data = clone(index.data);
  else copy.affine = variable ? substitute(index.affine, variable) : index.affine;
  return copy;
}

}  // namespace nf
