// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emitter.h"

namespace nf::cpu {

LV* Emitter::pointerOf(BufferId id) {
  auto& known = m_pointers[id];
  if (!known) {
    const Buffer& buffer = m_f[id];
    NF_ASSERT(buffer.scope == Scope::Local);
    llvm::IRBuilder<> at(&m_function->getEntryBlock(), m_function->getEntryBlock().begin());
    auto* made = at.CreateAlloca(llvm::ArrayType::get(storageType(buffer.type), static_cast<std::uint64_t>(buffer.elements)));
    made->setAlignment(llvm::Align(64));
    known = made;
  }
  return known;
}

Emitter::Where Emitter::where(const Place& place, LV* guard) {
  Where w;
  w.mask = both(m_mask, guard);
  w.offsets = lanes(place.offset);
  for (const DataIndex& d : place.data) {
    LV* v = value(d.value);
    LV* extent = llvm::ConstantInt::get(v->getType(), static_cast<std::uint64_t>(d.extent));
    LV* inside = m_b.CreateICmpULT(v, extent);
    LV* bad = m_b.CreateNot(inside);
    if (w.mask)
      bad = width(w.mask) > 1 ? m_b.CreateAnd(w.mask, spread(bad)) : m_b.CreateAnd(width(bad) > 1 ? spread(w.mask) : w.mask, bad);
    report(bad, v, d.check);
    w.mask = both(w.mask, inside);
    LV* safe = m_b.CreateSelect(inside, v, llvm::ConstantInt::get(v->getType(), 0));
    LV* wide = m_b.CreateZExtOrTrunc(safe, lanesOf(m_b.getInt64Ty(), width(v)));
    wide = m_b.CreateMul(wide, llvm::ConstantInt::get(wide->getType(), static_cast<std::uint64_t>(d.stride)));
    if (width(wide) == 1) {
      w.offsets.base = m_b.CreateAdd(w.offsets.base, wide);
      continue;
    }
    if (!w.offsets.vector) {
      std::vector<llvm::Constant*> fixed;
      for (const std::int64_t o : w.offsets.fixed) fixed.push_back(m_b.getInt64(static_cast<std::uint64_t>(o)));
      w.offsets.vector = llvm::ConstantVector::get(fixed);
      w.offsets.fixed.clear();
    } else if (w.offsets.vector->getType()->getScalarSizeInBits() == 32) {
      w.offsets.vector = m_b.CreateSExt(w.offsets.vector, wide->getType());
    }
    w.offsets.vector = m_b.CreateAdd(w.offsets.vector, wide);
  }
  return w;
}

LV* Emitter::both(LV* a, LV* b) {
  if (!a) return b;
  if (!b) return a;
  if (width(a) != width(b)) {
    a = spread(a);
    b = spread(b);
  }
  return m_b.CreateAnd(a, b);
}

void Emitter::report(LV* bad, LV* met, std::uint32_t check) {
  auto* failed = llvm::BasicBlock::Create(m_context, "", m_function);
  auto* after = llvm::BasicBlock::Create(m_context, "", m_function);
  m_b.CreateCondBr(anyLane(bad), failed, after);
  m_b.SetInsertPoint(failed);
  LV* status = field(m_call, 5, m_b.getPtrTy());
  LV* one = width(met) == 1 ? met : m_b.CreateExtractElement(met, std::uint64_t{0});
  m_b.CreateStore(m_b.CreateSExtOrTrunc(one, m_b.getInt64Ty()), m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), status, 1));
  m_b.CreateStore(m_b.getInt64(check + 1), status);
  m_b.CreateBr(after);
  m_b.SetInsertPoint(after);
}

LV* Emitter::address(BufferId buffer, LV* offset) {
  llvm::Type* type = storageType(m_f[buffer].type);
  // base + constant apart, so that the constant folds into the instruction.
  if (auto* add = llvm::dyn_cast<llvm::BinaryOperator>(offset); add && add->getOpcode() == llvm::Instruction::Add)
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(add->getOperand(1)))
      return m_b.CreateInBoundsGEP(type, m_b.CreateInBoundsGEP(type, pointerOf(buffer), add->getOperand(0)), c);
  return m_b.CreateInBoundsGEP(type, pointerOf(buffer), offset);
}

LV* Emitter::addresses(BufferId buffer, const LaneOffsets& o) {
  LV* vector = o.vector;
  if (!vector) {
    std::vector<llvm::Constant*> fixed;
    const bool narrow =
        std::all_of(o.fixed.begin(), o.fixed.end(), [](std::int64_t x) { return x > -(1ll << 30) && x < (1ll << 30); });
    for (const std::int64_t x : o.fixed)
      fixed.push_back(narrow ? static_cast<llvm::Constant*>(m_b.getInt32(static_cast<std::uint32_t>(x)))
                             : m_b.getInt64(static_cast<std::uint64_t>(x)));
    vector = llvm::ConstantVector::get(fixed);
  }
  return m_b.CreateGEP(storageType(m_f[buffer].type), address(buffer, o.base), vector);
}

LV* Emitter::loadFrom(const Value& v) {
  LV* guard = v.guard.valid() ? value(v.guard) : nullptr;
  if (auto* constant = llvm::dyn_cast_or_null<llvm::Constant>(guard)) {
    if (constant->isNullValue()) return llvm::Constant::getNullValue(valueType(v.type));
    if (constant->isAllOnesValue()) guard = nullptr;
  }
  const Where w = where(v.place, guard);
  const BufferId buffer = v.place.buffer;
  const DType stored = m_f[buffer].type;
  llvm::Type* scalar = storageType(stored);
  const LaneOffsets& o = w.offsets;
  if (m_lanes == 1 || o.uniform()) {
    LV* base = o.base;
    if (m_lanes > 1 && o.fixed[0] != 0) base = m_b.CreateAdd(base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0])));
    if (w.mask && !llvm::isa<llvm::Constant>(w.mask)) {
      LV* any = anyLane(w.mask);
      LV* loaded = m_b.CreateAlignedLoad(scalar, address(buffer, m_b.CreateSelect(any, base, m_b.getInt64(0))), alignment(buffer));
      LV* result = fromStorage(loaded, stored);
      LV* mask = w.mask;
      if (width(mask) > 1) result = spread(result);
      return m_b.CreateSelect(mask, result, llvm::Constant::getNullValue(result->getType()));
    }
    return fromStorage(m_b.CreateAlignedLoad(scalar, address(buffer, base), alignment(buffer)), stored);
  }
  auto* type = llvm::FixedVectorType::get(scalar, m_lanes);
  LV* mask = w.mask ? spread(w.mask) : nullptr;
  if (o.consecutive()) {
    LV* at = address(buffer, m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0]))));
    if (o.fixed[0] == 0) at = address(buffer, o.base);
    if (!mask || m_f[buffer].scope == Scope::Local) return fromStorage(m_b.CreateAlignedLoad(type, at, alignment(buffer)), stored);
    return fromStorage(m_b.CreateMaskedLoad(type, at, alignment(buffer), mask, llvm::Constant::getNullValue(type)), stored);
  }
  if (m_f[buffer].scope == Scope::Local && o.fixed.size() == m_lanes) {
    if (LV* shuffled = shuffledLocal(buffer, o)) return fromStorage(shuffled, stored);
  }
  if (o.fixed.size() == m_lanes && !mask) {
    const auto [low, high] = std::minmax_element(o.fixed.begin(), o.fixed.end());
    const std::int64_t span = *high - *low + 1;
    unsigned wide = 4;
    while (wide < span && wide <= 32) wide *= 2;
    if (wide <= 32 && m_lanes <= 32) {
      // Neighbours that are all inside: one wide load and a permutation.
      auto* block = llvm::FixedVectorType::get(scalar, wide);
      LV* at = address(buffer, *low == 0 ? o.base : m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(*low))));
      LV* loaded;
      if (static_cast<std::int64_t>(wide) == span) {
        loaded = m_b.CreateAlignedLoad(block, at, alignment(buffer));
      } else {
        std::vector<llvm::Constant*> inside;
        for (unsigned l = 0; l < wide; ++l) inside.push_back(m_b.getInt1(static_cast<std::int64_t>(l) < span));
        loaded = m_b.CreateMaskedLoad(block, at, alignment(buffer), llvm::ConstantVector::get(inside),
                                      llvm::Constant::getNullValue(block));
      }
      std::vector<int> order;
      for (const std::int64_t x : o.fixed) order.push_back(static_cast<int>(x - *low));
      return fromStorage(m_b.CreateShuffleVector(loaded, order), stored);
    }
  }
  LV* all = mask ? mask : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(m_b.getInt1Ty(), m_lanes));
  return fromStorage(m_b.CreateMaskedGather(type, addresses(buffer, o), alignment(buffer), all, llvm::Constant::getNullValue(type)),
                     stored);
}

LV* Emitter::shuffledLocal(BufferId buffer, const LaneOffsets& o) {
  const auto* base = llvm::dyn_cast<llvm::ConstantInt>(o.base);
  if (!base) return nullptr;
  const auto lanes = static_cast<std::int64_t>(m_lanes);
  std::vector<std::int64_t> vectors;
  std::vector<int> order;
  for (const std::int64_t x : o.fixed) {
    const std::int64_t element = base->getSExtValue() + x, vector = element / lanes;
    auto known = std::find(vectors.begin(), vectors.end(), vector);
    if (known == vectors.end()) known = vectors.insert(vectors.end(), vector);
    order.push_back(static_cast<int>((known - vectors.begin()) * lanes + element % lanes));
  }
  if (vectors.size() > 2 || (std::max(vectors.front(), vectors.back()) + 1) * lanes > m_f[buffer].elements) return nullptr;
  auto* type = llvm::FixedVectorType::get(storageType(m_f[buffer].type), m_lanes);
  const auto part = [&](std::int64_t vector) {
    return m_b.CreateAlignedLoad(type, address(buffer, m_b.getInt64(static_cast<std::uint64_t>(vector * lanes))),
                                 alignment(buffer));
  };
  LV* first = part(vectors.front());
  return m_b.CreateShuffleVector(first, vectors.size() > 1 ? part(vectors.back()) : first, order);
}

void Emitter::store(const Statement& s) {
  const BufferId buffer = s.target.buffer;
  const DType type = m_f[buffer].type;
  LV* v = value(s.value);
  v = convert(v, m_f[s.value].type, arithmeticType(type));
  v = toStorage(v, type);
  const Where w = where(s.target, nullptr);
  const LaneOffsets& o = w.offsets;
  if (m_lanes == 1) {
    if (w.mask) guarded(w.mask, [&] { m_b.CreateAlignedStore(v, address(buffer, o.base), alignment(buffer)); });
    else m_b.CreateAlignedStore(v, address(buffer, o.base), alignment(buffer));
  } else {
    storeLanes(buffer, o, spread(v), w.mask ? spread(w.mask) : nullptr);
  }
  forgetReaders(buffer);
}

void Emitter::storeLanes(BufferId buffer, const LaneOffsets& o, LV* v, LV* mask) {
  if (o.consecutive()) {
    LV* base = o.fixed[0] == 0 ? o.base : m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0])));
    LV* at = address(buffer, base);
    if (mask && m_f[buffer].scope == Scope::Local) {
      LV* old = m_b.CreateAlignedLoad(v->getType(), at, alignment(buffer));
      v = m_b.CreateSelect(mask, v, old);
      mask = nullptr;
    }
    if (mask) m_b.CreateMaskedStore(v, at, alignment(buffer), mask);
    else m_b.CreateAlignedStore(v, at, alignment(buffer));
    return;
  }
  if (o.uniform()) {
    // Serial meaning: the last lane that stores wins.
    for (unsigned l = 0; l < m_lanes; ++l) {
      LV* at = address(buffer, m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0]))));
      LV* one = m_b.CreateExtractElement(v, l);
      if (mask) guarded(m_b.CreateExtractElement(mask, l), [&] { m_b.CreateAlignedStore(one, at, alignment(buffer)); });
      else if (l + 1 == m_lanes) m_b.CreateAlignedStore(one, at, alignment(buffer));
    }
    return;
  }
  LV* all = mask ? mask : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(m_b.getInt1Ty(), m_lanes));
  m_b.CreateMaskedScatter(v, addresses(buffer, o), alignment(buffer), all);
}

}  // namespace nf::cpu
