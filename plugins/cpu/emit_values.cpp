// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emitter.h"

namespace nf::cpu {

bool Emitter::reads(ValueId id, BufferId buffer) {
  auto& known = m_reads[id];
  if (known.empty()) {
    known.push_back(BufferId{});  // visited
    Statement probe;
    probe.value = id;
    for (const ValueId v : valuesOf(m_f, probe))
      if (m_f[v].kind == Value::Kind::Load) known.push_back(m_f[v].place.buffer);
  }
  return std::find(known.begin() + 1, known.end(), buffer) != known.end();
}

bool Emitter::usesVariable(ValueId id, VarId v) {
  const auto found = m_uses.find({id, v});
  if (found != m_uses.end()) return found->second;
  Statement probe;
  probe.value = id;
  bool uses = false;
  for (const ValueId o : valuesOf(m_f, probe)) uses = uses || m_f[o].index.uses(v.value) || m_f[o].place.offset.uses(v.value);
  m_uses.emplace(std::pair{id, v}, uses);
  return uses;
}

void Emitter::forgetUsers(VarId v) {
  std::erase_if(m_scopes.back().values, [&](const auto& entry) { return usesVariable(entry.first, v); });
}

void Emitter::forgetReaders(BufferId buffer) {
  for (Scope_& scope : m_scopes) std::erase_if(scope.values, [&](const auto& entry) { return reads(entry.first, buffer); });
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
