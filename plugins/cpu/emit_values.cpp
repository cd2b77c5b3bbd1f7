// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emitter.h"

namespace nf::cpu {

// Operands have smaller ids: one pass, however deep the expression is.
template <class Is>
std::vector<bool> Emitter::dependents(Is&& is) const {
  std::vector<bool> found(m_f.values.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Value& v = m_f.values[i];
    const auto on = [&](ValueId id) { return id.valid() && found[id.value]; };
    found[i] = is(v) || on(v.guard) || std::any_of(v.operands.begin(), v.operands.end(), on) ||
               std::any_of(v.place.data.begin(), v.place.data.end(), [&](const auto& d) { return on(d.value); });
  }
  return found;
}

void Emitter::forgetUsers(VarId v) {
  auto& users = m_users[v];
  if (users.empty())
    users = dependents([&](const Value& value) { return value.index.uses(v.value) || value.place.offset.uses(v.value); });
  std::erase_if(m_scopes.back().values, [&](const auto& entry) { return users[entry.first.value]; });
}

void Emitter::forgetReaders(BufferId buffer) {
  auto& readers = m_readers[buffer];
  if (readers.empty())
    readers = dependents([&](const Value& value) { return value.kind == Value::Kind::Load && value.place.buffer == buffer; });
  for (Scope_& scope : m_scopes) std::erase_if(scope.values, [&](const auto& entry) { return readers[entry.first.value]; });
}

LV* Emitter::value(ValueId root) {
  auto& cache = m_scopes.back().values;
  const auto found = cache.find(root);
  if (found != cache.end()) return found->second;
  Statement probe;
  probe.value = root;
  // Operands have smaller ids: in ascending order everything is there when it is asked for. Values under a guard that is
  // not taken are computed all the same: they are pure.
  for (const ValueId id : valuesOf(m_f, probe)) {
    if (m_scopes.back().values.contains(id)) continue;
    LV* made = one(m_f[id]);
    m_scopes.back().values[id] = made;
  }
  return m_scopes.back().values.at(root);
}

LV* Emitter::indexAs(const IndexExpr& unbound, DType type) {
  const IndexExpr e = bind(unbound);
  if (!usesLane(e)) return convertIndex(index(e), type);
  return convertIndex(laneVector(e, narrowEverywhere(e)), type);
}

LV* Emitter::condition(const Value& v) {
  const IndexExpr e = bind(v.index);
  LV* x = usesLane(e) ? laneVector(e, narrowEverywhere(e)) : index(e);
  LV* zero = llvm::ConstantInt::get(x->getType(), 0);
  return v.kind == Value::Kind::IndexGe0 ? m_b.CreateICmpSGE(x, zero) : m_b.CreateICmpEQ(x, zero);
}

LV* Emitter::randomValue(const Value& v) {
  const auto stream = static_cast<std::uint64_t>(v.constant);
  LV*& key = m_keys[stream];
  if (!key)
    key = inScope(0, [&] {
      LV* seed = field(m_call, 3, m_b.getInt64Ty());
      LV* step = field(m_call, 4, m_b.getInt64Ty());
      return randomKey(seed, step, stream);
    });
  const IndexExpr e = bind(v.index);
  LV* point = usesLane(e) ? laneVector(e, false) : index(e);
  return randomAt(width(point) > 1 ? spread(key) : key, point);
}

LV* Emitter::one(const Value& v) {
  const auto operands = [&] {
    std::array<LV*, 3> made{};
    for (std::size_t k = 0; k < made.size(); ++k)
      if (v.operands[k].valid()) made[k] = value(v.operands[k]);
    return made;
  };
  switch (v.kind) {
    case Value::Kind::Constant: return constant(v);
    case Value::Kind::Index: return indexAs(v.index, v.type);
    case Value::Kind::IndexGe0:
    case Value::Kind::IndexEq0: return condition(v);
    case Value::Kind::Random: return randomValue(v);
    case Value::Kind::Load: return loadFrom(v);
    case Value::Kind::Fma: return fma(m_f, v, operands());
    case Value::Kind::Apply: return apply(m_f, v, operands());
  }
  return nullptr;
}

}  // namespace nf::cpu
