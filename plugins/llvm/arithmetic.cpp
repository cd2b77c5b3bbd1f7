// SPDX-License-Identifier: Apache-2.0
#include "plugins/llvm/arithmetic.h"

#include <llvm/IR/Intrinsics.h>

#include "core/support/assert.h"
#include "core/support/counter_random.h"

namespace nf::codegen {
namespace {

// The type comparisons are done in.
DType common(DType a, DType b) {
  if (isInteger(a) && isInteger(b)) return a == b ? a : DType::I64;
  if (a == b && (a == DType::Bool || a == DType::F64)) return a;
  if (a == DType::F64 || b == DType::F64) return DType::F64;
  return DType::F32;
}

}  // namespace

llvm::Type* Arithmetic::valueType(DType type) {
  switch (type) {
    case DType::F32:
    case DType::F16:
    case DType::BF16: return m_b.getFloatTy();
    case DType::F64: return m_b.getDoubleTy();
    case DType::I32: return m_b.getInt32Ty();
    case DType::I64: return m_b.getInt64Ty();
    case DType::Bool: return m_b.getInt1Ty();
  }
  return nullptr;
}

llvm::Type* Arithmetic::storageType(DType type) {
  switch (type) {
    case DType::F16: return m_b.getHalfTy();
    case DType::BF16: return m_b.getInt16Ty();
    case DType::Bool: return m_b.getInt8Ty();
    case DType::F32:
    case DType::F64:
    case DType::I32:
    case DType::I64: return valueType(type);
  }
  return nullptr;
}

llvm::Type* Arithmetic::lanesOf(llvm::Type* scalar, unsigned lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

unsigned Arithmetic::width(LV* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? vector->getNumElements() : 1;
}

void Arithmetic::level(LV*& a, LV*& b) {
  if (width(a) == width(b)) return;
  LV*& narrow = width(a) == 1 ? a : b;
  narrow = m_b.CreateVectorSplat(width(narrow == a ? b : a), narrow);
}

LV* Arithmetic::fromStorage(LV* v, DType type) {
  if (type == DType::F16) return m_b.CreateFPExt(v, lanesOf(m_b.getFloatTy(), width(v)));
  if (type == DType::BF16) {
    llvm::Type* i32 = lanesOf(m_b.getInt32Ty(), width(v));
    return m_b.CreateBitCast(m_b.CreateShl(m_b.CreateZExt(v, i32), 16), lanesOf(m_b.getFloatTy(), width(v)));
  }
  if (type == DType::Bool) return m_b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
  return v;
}

LV* Arithmetic::toStorage(LV* v, DType type) {
  if (type == DType::F16) return m_b.CreateFPTrunc(v, lanesOf(m_b.getHalfTy(), width(v)));
  if (type == DType::BF16) {
    // To nearest, ties to even; a NaN stays one.
    llvm::Type* i32 = lanesOf(m_b.getInt32Ty(), width(v));
    const auto c = [&](std::uint64_t n) { return llvm::ConstantInt::get(i32, n); };
    LV* bits = m_b.CreateBitCast(v, i32);
    LV* odd = m_b.CreateAnd(m_b.CreateLShr(bits, 16), c(1));
    LV* rounded = m_b.CreateLShr(m_b.CreateAdd(bits, m_b.CreateAdd(odd, c(0x7fff))), 16);
    LV* nan = m_b.CreateOr(m_b.CreateLShr(bits, 16), c(0x40));
    LV* chosen = m_b.CreateSelect(m_b.CreateFCmpUNO(v, v), nan, rounded);
    return m_b.CreateTrunc(chosen, lanesOf(m_b.getInt16Ty(), width(v)));
  }
  if (type == DType::Bool) return m_b.CreateZExt(v, lanesOf(m_b.getInt8Ty(), width(v)));
  return v;
}

LV* Arithmetic::convert(LV* v, DType from, DType to) {
  const unsigned n = width(v);
  llvm::Type* target = lanesOf(valueType(to), n);
  const bool fromReal = isFloating(from), toReal = isFloating(to);
  if (to == DType::Bool) {
    if (from == DType::Bool) return v;
    return fromReal ? m_b.CreateFCmpUNE(v, llvm::ConstantFP::get(v->getType(), 0))
                    : m_b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
  }
  if (from == DType::Bool) return toReal ? m_b.CreateUIToFP(v, target) : m_b.CreateZExt(v, target);
  if (fromReal && !toReal) return m_b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {target, v->getType()}, {v});
  if (!fromReal && !toReal) return m_b.CreateSExtOrTrunc(v, target);
  if (!fromReal) v = m_b.CreateSIToFP(v, target);
  else if (v->getType() != target) v = m_b.CreateFPCast(v, target);
  // Casts to the narrow types round to them; the value goes on in f32.
  if (to == DType::F16 || to == DType::BF16) v = fromStorage(toStorage(v, to), to);
  return v;
}

LV* Arithmetic::convertIndex(LV* v, DType type) {
  llvm::Type* target = lanesOf(valueType(type), width(v));
  if (type == DType::Bool) return m_b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
  if (!isFloating(type)) return m_b.CreateSExtOrTrunc(v, target);
  return m_b.CreateSIToFP(v, target);
}

LV* Arithmetic::constant(const loop::Value& v) {
  if (v.type == DType::Bool) return m_b.getInt1(v.constant != 0);
  if (v.type == DType::I64) return m_b.getInt64(static_cast<std::uint64_t>(static_cast<std::int64_t>(v.constant)));
  if (v.type == DType::I32) return m_b.getInt32(static_cast<std::uint32_t>(static_cast<std::int64_t>(v.constant)));
  return llvm::ConstantFP::get(valueType(v.type), v.constant);
}

LV* Arithmetic::mix(LV* x) {
  const auto c = [&](std::uint64_t n) { return llvm::ConstantInt::get(x->getType(), n); };
  x = m_b.CreateMul(m_b.CreateXor(x, m_b.CreateLShr(x, c(30))), c(0xbf58476d1ce4e5b9ull));
  x = m_b.CreateMul(m_b.CreateXor(x, m_b.CreateLShr(x, c(27))), c(0x94d049bb133111ebull));
  return m_b.CreateXor(x, m_b.CreateLShr(x, c(31)));
}

LV* Arithmetic::randomKey(LV* seed, LV* step, std::uint64_t stream) {
  LV* increment = m_b.getInt64(kRandomIncrement);
  LV* k = mix(m_b.CreateAdd(seed, increment));
  k = mix(m_b.CreateAdd(k, m_b.CreateMul(step, increment)));
  return mix(m_b.CreateAdd(k, m_b.getInt64(stream * kRandomIncrement)));
}

LV* Arithmetic::randomAt(LV* key, LV* point) {
  LV* bits = mix(m_b.CreateAdd(key, m_b.CreateMul(point, llvm::ConstantInt::get(point->getType(), kRandomIncrement))));
  LV* top = m_b.CreateTrunc(m_b.CreateLShr(bits, 40), lanesOf(m_b.getInt32Ty(), width(bits)));
  LV* real = m_b.CreateSIToFP(top, lanesOf(m_b.getFloatTy(), width(bits)));
  return m_b.CreateFMul(real, llvm::ConstantFP::get(real->getType(), 0x1p-24));
}

LV* Arithmetic::fma(const loop::Function& f, const loop::Value& v, const std::array<LV*, 3>& operands) {
  const auto operand = [&](std::size_t k) { return convert(operands[k], f[v.operands[k]].type, v.type); };
  LV *a = operand(0), *b = operand(1), *c = operand(2);
  level(a, b);
  level(a, c);
  level(b, c);
  return m_b.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

LV* Arithmetic::apply(const loop::Function& f, const loop::Value& v, const std::array<LV*, 3>& operands) {
  const auto typeOf = [&](std::size_t k) { return f[v.operands[k]].type; };
  const auto operand = [&](std::size_t k, DType as) { return convert(operands[k], typeOf(k), as); };
  if (v.op == ScalarOp::Cast) return operand(0, v.type);
  if (v.op == ScalarOp::Select) {
    LV* c = operand(0, DType::Bool);
    LV *a = operand(1, v.type), *b = operand(2, v.type);
    level(a, b);
    if (width(c) > 1 && width(a) == 1) {
      a = m_b.CreateVectorSplat(width(c), a);
      b = m_b.CreateVectorSplat(width(c), b);
    }
    return m_b.CreateSelect(c, a, b);
  }
  if (v.type == DType::Bool) {
    if (v.op == ScalarOp::Not) return m_b.CreateNot(operand(0, DType::Bool));
    const bool logical = v.op == ScalarOp::And || v.op == ScalarOp::Or;
    const DType type = logical ? DType::Bool : common(typeOf(0), typeOf(1));
    LV *a = operand(0, type), *b = operand(1, type);
    level(a, b);
    return condition(v.op, type, a, b);
  }
  if (info(v.op).arity == 1) return unary(v.op, v.type, operand(0, v.type));
  LV *a = operand(0, v.type), *b = operand(1, v.type);
  level(a, b);
  return isInteger(v.type) ? integerOp(v.op, v.type, a, b) : realOp(v.op, a, b);
}

LV* Arithmetic::condition(ScalarOp op, DType type, LV* a, LV* b) {
  const bool real = isFloating(type);
  switch (op) {
    case ScalarOp::And: return m_b.CreateAnd(a, b);
    case ScalarOp::Or: return m_b.CreateOr(a, b);
    case ScalarOp::Lt: return real ? m_b.CreateFCmpOLT(a, b) : m_b.CreateICmpSLT(a, b);
    case ScalarOp::Le: return real ? m_b.CreateFCmpOLE(a, b) : m_b.CreateICmpSLE(a, b);
    case ScalarOp::Eq: return real ? m_b.CreateFCmpOEQ(a, b) : m_b.CreateICmpEQ(a, b);
    case ScalarOp::Ne: return real ? m_b.CreateFCmpUNE(a, b) : m_b.CreateICmpNE(a, b);
    default: break;
  }
  NF_ASSERT(false);
  return nullptr;
}

LV* Arithmetic::unary(ScalarOp op, DType type, LV* x) {
  const bool real = isFloating(type);
  LV* zero = llvm::Constant::getNullValue(x->getType());
  if (!real) {
    switch (op) {
      case ScalarOp::Neg: return m_b.CreateNeg(x);
      case ScalarOp::Abs: return m_b.CreateSelect(m_b.CreateICmpSLT(x, zero), m_b.CreateNeg(x), x);
      case ScalarOp::Relu: return m_b.CreateSelect(m_b.CreateICmpSLT(x, zero), zero, x);
      case ScalarOp::Floor:
      case ScalarOp::StopGradient: return x;
      default: break;
    }
    // A function of an integer: through f32 and back.
    return convert(unary(op, DType::F32, convert(x, type, DType::F32)), DType::F32, type);
  }
  switch (op) {
    case ScalarOp::Neg: return m_b.CreateFNeg(x);
    case ScalarOp::Abs: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    case ScalarOp::Floor: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case ScalarOp::Sqrt: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case ScalarOp::Rsqrt:
      return m_b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1), m_b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
    case ScalarOp::Relu: return m_b.CreateSelect(m_b.CreateFCmpOLE(x, zero), zero, x);
    case ScalarOp::StopGradient: return x;
    default: break;
  }
  return function(op, x);
}

LV* Arithmetic::realOp(ScalarOp op, LV* a, LV* b) {
  switch (op) {
    case ScalarOp::Add: return m_b.CreateFAdd(a, b);
    case ScalarOp::Sub: return m_b.CreateFSub(a, b);
    case ScalarOp::Mul: return m_b.CreateFMul(a, b);
    case ScalarOp::Div: return m_b.CreateFDiv(a, b);
    case ScalarOp::Pow: return power(a, b);
    // A NaN in either wins, the first operand's first.
    case ScalarOp::Max: return m_b.CreateSelect(m_b.CreateOr(m_b.CreateFCmpOGT(a, b), m_b.CreateFCmpUNO(a, a)), a, b);
    case ScalarOp::Min: return m_b.CreateSelect(m_b.CreateOr(m_b.CreateFCmpOLT(a, b), m_b.CreateFCmpUNO(a, a)), a, b);
    case ScalarOp::FloorDiv: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, m_b.CreateFDiv(a, b));
    case ScalarOp::Mod:
      return m_b.CreateFSub(a, m_b.CreateFMul(b, m_b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, m_b.CreateFDiv(a, b))));
    default: break;
  }
  NF_ASSERT(false);
  return nullptr;
}

LV* Arithmetic::integerOp(ScalarOp op, DType type, LV* a, LV* b) {
  switch (op) {
    case ScalarOp::Add: return m_b.CreateAdd(a, b);
    case ScalarOp::Sub: return m_b.CreateSub(a, b);
    case ScalarOp::Mul: return m_b.CreateMul(a, b);
    case ScalarOp::Max: return m_b.CreateSelect(m_b.CreateICmpSGT(a, b), a, b);
    case ScalarOp::Min: return m_b.CreateSelect(m_b.CreateICmpSLT(a, b), a, b);
    case ScalarOp::FloorDiv: return floorQuotient(a, b);
    case ScalarOp::Mod: return m_b.CreateSub(a, m_b.CreateMul(floorQuotient(a, b), b));
    case ScalarOp::Div:
    case ScalarOp::Pow: {
      LV* x = convert(a, type, DType::F32);
      LV* y = convert(b, type, DType::F32);
      return convert(realOp(op, x, y), DType::F32, type);
    }
    default: break;
  }
  NF_ASSERT(false);
  return nullptr;
}

LV* Arithmetic::floorQuotient(LV* a, LV* b) {
  const auto c = [&](std::int64_t n) { return llvm::ConstantInt::get(a->getType(), static_cast<std::uint64_t>(n), true); };
  LV* none = m_b.CreateICmpEQ(b, c(0));
  LV* minus = m_b.CreateICmpEQ(b, c(-1));
  LV* safe = m_b.CreateSelect(m_b.CreateOr(none, minus), c(1), b);
  LV* q = m_b.CreateSDiv(a, safe);
  LV* r = m_b.CreateSub(a, m_b.CreateMul(q, safe));
  LV* different = m_b.CreateICmpSLT(m_b.CreateXor(r, safe), c(0));
  LV* down = m_b.CreateAnd(m_b.CreateICmpNE(r, c(0)), different);
  q = m_b.CreateSub(q, m_b.CreateZExt(down, a->getType()));
  q = m_b.CreateSelect(minus, m_b.CreateNeg(a), q);
  return m_b.CreateSelect(none, c(0), q);
}

}  // namespace nf::codegen
