// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/body.h"

#include <algorithm>

#include "core/support/assert.h"

namespace nf::loop {

std::vector<std::int64_t> stridesOf(const Tensor& tensor) {
  const std::size_t rank = tensor.shape.size();
  std::vector<std::int64_t> strides(rank, 1);
  std::int64_t stride = 1;
  for (std::size_t k = rank; k-- > 0;) {
    const std::size_t axis = tensor.layout.order.empty() ? k : tensor.layout.order[k];
    strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  return strides;
}

BodyLowering::BodyLowering(const Program& program, Function& function)
    : buffers(program.tensors.size()), m_program(program), m_function(function), m_producers(producers(program)) {}

void BodyLowering::forget() { m_done.clear(); }

std::uint32_t BodyLowering::contextOf(Context context) {
  const auto [at, isNew] = m_contextIds.emplace(context, m_contexts.size());
  if (isNew) m_contexts.push_back(std::move(context));
  return at->second;
}

IndexExpr BodyLowering::at(const IndexExpr& e, const std::vector<IndexExpr>& axes) const {
  return simplify(substitute(e,
                             [&](IndexVar v) -> std::optional<IndexExpr> {
                               if (v < axes.size()) return axes[v];
                               if (counter && v == counter->first) return counter->second;
                               return std::nullopt;
                             }),
                  m_function.ranges());
}

ValueId BodyLowering::convert(ValueId value, DType type, OriginId origin) {
  const DType from = m_function[value].type;
  if (from == type) return value;
  return m_function.apply(ScalarOp::Cast, type, {value, {}, {}}, origin);
}

// What is computed where it is read is what would have been read, had it been stored.
ValueId BodyLowering::asStored(TensorId tensor, ValueId value, OriginId origin) {
  const DType type = m_program[tensor].type;
  return type == DType::F16 || type == DType::BF16 ? convert(value, type, origin) : value;
}

// The access that the value stands for leaves no read behind: its origin goes on to the value. A sum that is read
// where it is written, with the origin of its tensor, has its own lines.
ValueId BodyLowering::readAs(const ScalarNode& load, ValueId value) {
  const ValueId made = convert(asStored(m_program[load.access].tensor, value, load.origin), load.type, load.origin);
  auto& origins = m_function.values[made.value].readAs;
  if (load.origin.valid() && std::find(origins.begin(), origins.end(), load.origin) == origins.end() &&
      load.origin != m_program[m_program[load.access].tensor].origin)
    origins.push_back(load.origin);
  return made;
}

bool BodyLowering::proved(OperatorId op, ExprId load) const {
  const Access& access = m_program[m_program[load].access];
  const auto& shape = m_program[access.tensor].shape;
  const RangeOf ranges = rangesOf(m_program[op]);
  for (std::size_t k = 0; k < access.indices.size(); ++k) {
    if (access.indices[k].isData()) return false;
    const auto range = bounds(access.indices[k].affine, ranges);
    if (!range || range->lo < 0 || range->hi >= shape[k]) return false;
  }
  return true;
}

// Does anything below `id` read where only a guard makes it legal?
bool BodyLowering::readsGuarded(OperatorId op, ExprId id) {
  const auto found = m_readsGuarded.find({op, id});
  if (found != m_readsGuarded.end()) return found->second;
  for (const ExprId e : nodesOf(m_program, id)) {
    if (m_readsGuarded.contains({op, e})) continue;
    const ScalarNode& node = m_program[e];
    bool reads = node.op == ScalarOp::Load && !proved(op, e);
    for (int k = 0; k < info(node.op).arity; ++k) reads = reads || m_readsGuarded.at({op, node.operands[k]});
    if (node.op == ScalarOp::Load)
      for (const AccessIndex& index : m_program[node.access].indices)
        if (index.isData()) reads = reads || m_readsGuarded.at({op, index.data});
    m_readsGuarded.emplace(std::pair{op, e}, reads);
  }
  return m_readsGuarded.at({op, id});
}

ValueId BodyLowering::lower(OperatorId op, ExprId root, const std::vector<IndexExpr>& axes, ValueId guard) {
  return run({contextOf({op, axes, {}}), root, guard.valid() && readsGuarded(op, root) ? guard : ValueId{}});
}

ValueId BodyLowering::both(ValueId a, ValueId b) {
  const auto found = m_both.find({a, b});
  if (found != m_both.end()) return found->second;
  const ValueId made = m_function.both(a, b);
  m_both.emplace(std::pair{a, b}, made);
  return made;
}

// An explicit stack: expressions and chains of inlined operators may be deeper than ours.
ValueId BodyLowering::run(Key root) {
  std::vector<Key> stack{root};
  std::vector<Key> missing;
  while (!stack.empty()) {
    const Key key = stack.back();
    if (m_done.contains(key)) {
      stack.pop_back();
      continue;
    }
    missing.clear();
    const auto value = build(key, missing);
    if (value) {
      m_done.emplace(key, *value);
      stack.pop_back();
      continue;
    }
    NF_ASSERT(!missing.empty());
    for (auto it = missing.rbegin(); it != missing.rend(); ++it) stack.push_back(*it);
  }
  return m_done.at(root);
}

// What the ranges decide is no test: of a residue class often all.
ValueId BodyLowering::indexTest(ScalarOp op, IndexExpr e, OriginId origin) {
  const bool atLeast = op == ScalarOp::IndexGe0;
  if (const auto range = bounds(e, m_function.ranges())) {
    if (atLeast ? range->lo >= 0 : *range == Range{0, 0}) return m_function.constant(1, DType::Bool, origin);
    if (range->hi < 0 || (!atLeast && range->lo > 0)) return m_function.constant(0, DType::Bool, origin);
  }
  return atLeast ? m_function.ge0(std::move(e), origin) : m_function.eq0(std::move(e), origin);
}

std::optional<ValueId> BodyLowering::build(const Key& key, std::vector<Key>& missing) {
  const auto contextId = std::get<0>(key);
  const auto id = std::get<1>(key);
  const auto guard = std::get<2>(key);
  const Context context = m_contexts[contextId];
  const ScalarNode& node = m_program[id];
  const auto operand = [&](ExprId e, ValueId under) -> std::optional<ValueId> {
    const Key wanted{contextId, e, readsGuarded(context.op, e) ? under : ValueId{}};
    const auto found = m_done.find(wanted);
    if (found != m_done.end()) return found->second;
    missing.push_back(wanted);
    return std::nullopt;
  };
  switch (node.op) {
    case ScalarOp::Constant: return m_function.constant(node.value, node.type, node.origin);
    case ScalarOp::Training: return m_function.constant(1, node.type, node.origin);
    case ScalarOp::Index: return m_function.indexValue(at(m_program[node.index], context.axes), node.type, node.origin);
    case ScalarOp::IndexGe0:
    case ScalarOp::IndexEq0: return indexTest(node.op, at(m_program[node.index], context.axes), node.origin);
    case ScalarOp::Random: return m_function.random(node.value, at(m_program[node.index], context.axes), node.origin);
    case ScalarOp::Load: return buildLoad(key, missing);
    case ScalarOp::StopGradient: return operand(node.operands[0], guard);
    case ScalarOp::Select: {
      const auto condition = operand(node.operands[0], guard);
      if (!condition) return std::nullopt;
      const Value& c = m_function[*condition];
      if (c.kind == Value::Kind::Constant) {
        const auto taken = operand(node.operands[c.constant != 0 ? 1 : 2], guard);
        if (!taken) return std::nullopt;
        return convert(*taken, node.type, node.origin);
      }
      ValueId whenTrue, whenFalse;
      if (readsGuarded(context.op, node.operands[1])) whenTrue = both(guard, *condition);
      if (readsGuarded(context.op, node.operands[2])) {
        const ValueId negated = m_function.apply(ScalarOp::Not, DType::Bool, {*condition, {}, {}}, node.origin);
        whenFalse = both(guard, negated);
      }
      // The conditions above are new values each time: the branches are lowered here and now, under them.
      const ValueId a = run({contextId, node.operands[1], whenTrue});
      const ValueId b = run({contextId, node.operands[2], whenFalse});
      const ValueId then = convert(a, node.type, node.origin), otherwise = convert(b, node.type, node.origin);
      return m_function.apply(ScalarOp::Select, node.type, {*condition, then, otherwise}, node.origin);
    }
    default: break;
  }
  std::array<ValueId, 3> operands;
  bool ready = true;
  for (int k = 0; k < info(node.op).arity; ++k) {
    const auto value = operand(node.operands[k], guard);
    if (value) operands[k] = *value;
    else ready = false;
  }
  if (!ready) return std::nullopt;
  return m_function.apply(node.op, node.type, operands, node.origin);
}

Place BodyLowering::place(OperatorId op, TensorId tensor, BufferId buffer, const std::vector<AccessIndex>& indices,
                          const std::vector<IndexExpr>& axes, ValueId guard) {
  Place place;
  place.buffer = buffer;
  const Tensor& t = m_program[tensor];
  const auto strides = stridesOf(t);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!indices[k].isData()) {
      place.offset = place.offset + strides[k] * at(indices[k].affine, axes);
      continue;
    }
    DataIndex d;
    d.value = lower(op, indices[k].data, axes, guard);
    d.stride = strides[k];
    d.extent = t.shape[k];
    d.check = static_cast<std::uint32_t>(m_function.checks.size());
    m_function.checks.push_back("operator " + m_program[op].name + ": index " + std::to_string(k) + " of " + t.name +
                                " is outside [0, " + std::to_string(t.shape[k]) + ")");
    place.data.push_back(std::move(d));
  }
  place.offset = simplify(place.offset, m_function.ranges());
  return place;
}

std::optional<ValueId> BodyLowering::buildLoad(const Key& key, std::vector<Key>& missing) {
  const auto [contextId, id, pathGuard] = key;
  const Context context = m_contexts[contextId];
  const ScalarNode& node = m_program[id];
  const Access& access = m_program[node.access];
  const bool safe = proved(context.op, id);
  const ValueId guard = safe ? context.guard : both(context.guard, pathGuard);
  const BufferId buffer = buffers[access.tensor.value];

  std::vector<IndexExpr> indices;
  bool data = false;
  for (const AccessIndex& index : access.indices) {
    data = data || index.isData();
    indices.push_back(index.isData() ? IndexExpr{} : at(index.affine, context.axes));
  }
  if (!data && special)
    if (const auto value = special(access.tensor, indices)) return readAs(node, *value);

  if (!buffer.valid()) {
    const OperatorId producer = m_producers[access.tensor.value];
    NF_ASSERT(producer.valid() && !data);
    const ExprId body = m_program[producer].body;
    const Key inner{contextOf({producer, indices, guard}), body, {}};
    const auto found = m_done.find(inner);
    if (found == m_done.end()) {
      missing.push_back(inner);
      return std::nullopt;
    }
    return readAs(node, found->second);
  }

  Place place;
  place.buffer = buffer;
  if (!begins.empty()) place.offset = begins[access.tensor.value];
  const auto strides = stridesOf(m_program[access.tensor]);
  for (std::size_t k = 0; k < access.indices.size(); ++k) {
    if (!access.indices[k].isData()) {
      place.offset = place.offset + strides[k] * indices[k];
      continue;
    }
    const ExprId e = access.indices[k].data;
    const Key wanted{contextId, e, readsGuarded(context.op, e) ? pathGuard : ValueId{}};
    const auto found = m_done.find(wanted);
    if (found == m_done.end()) {
      missing.push_back(wanted);
      continue;
    }
    DataIndex d;
    d.value = found->second;
    d.stride = strides[k];
    d.extent = m_program[access.tensor].shape[k];
    d.check = static_cast<std::uint32_t>(m_function.checks.size());
    place.data.push_back(std::move(d));
  }
  if (!missing.empty()) return std::nullopt;
  for (const DataIndex& d : place.data)
    m_function.checks.push_back("operator " + m_program[context.op].name + ": an index of " + m_program[access.tensor].name +
                                " is outside [0, " + std::to_string(d.extent) + ")");
  for (std::size_t k = 0; k < place.data.size(); ++k)
    place.data[k].check = static_cast<std::uint32_t>(m_function.checks.size() - place.data.size() + k);
  place.offset = simplify(place.offset, m_function.ranges());
  return m_function.load(std::move(place), guard, node.origin);
}

}  // namespace nf::loop
