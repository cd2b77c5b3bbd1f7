// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/vector_math.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "core/support/assert.h"

// The coefficients are Chebyshev interpolants computed for this file: of (exp(r)-1-r)/r^2 on |r| <= ln(2)/2, of
// (log(1+f)-f+f^2/2)/f^3 on [sqrt(1/2)-1, sqrt(2)-1], of (tanh(x)/x-1)/x^2 on |x| <= 0.625, of erf(x)/x on |x| <= 1, and of
// -log(1-erf(x)) on [1, 4].
namespace nf::cpu {

using llvm::Value;

Value* VectorMath::real(Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

llvm::Type* VectorMath::integers(Value* like) {
  llvm::Type* i32 = m_b.getInt32Ty();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType()))
    return llvm::FixedVectorType::get(i32, vector->getNumElements());
  return i32;
}

Value* VectorMath::integer(Value* like, std::int64_t value) {
  return llvm::ConstantInt::get(integers(like), static_cast<std::uint64_t>(value), true);
}

Value* VectorMath::fma(Value* a, Value* b, Value* c) {
  return m_b.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* VectorMath::polynomial(Value* x, std::initializer_list<double> fromConstant) {
  Value* sum = nullptr;
  for (auto it = std::rbegin(fromConstant); it != std::rend(fromConstant); ++it)
    sum = sum ? fma(sum, x, real(x, *it)) : real(x, *it);
  return sum;
}

Value* VectorMath::powerOfTwo(Value* exponent) {
  Value* bits = m_b.CreateShl(m_b.CreateAdd(exponent, llvm::ConstantInt::get(exponent->getType(), 127)), 23);
  llvm::Type* type = m_b.getFloatTy();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(exponent->getType()))
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  return m_b.CreateBitCast(bits, type);
}

Value* VectorMath::exp(Value* x) {
  // Past these ends the result is 0 or infinity all the same; a NaN survives the comparisons.
  Value* low = m_b.CreateSelect(m_b.CreateFCmpOLT(x, real(x, -104.0)), real(x, -104.0), x);
  Value* clamped = m_b.CreateSelect(m_b.CreateFCmpOGT(low, real(x, 89.0)), real(x, 89.0), low);
  Value* n = m_b.CreateUnaryIntrinsic(llvm::Intrinsic::rint, m_b.CreateFMul(clamped, real(x, 1.4426950408889634)));
  // ln(2) in two parts: the first has few bits, so that its product with n is exact.
  Value* r = fma(n, real(x, -0.693145751953125), clamped);
  r = fma(n, real(x, -1.42860682030941723212e-6), r);
  Value* p = polynomial(r, {5.000000000e-01, 1.666657699e-01, 4.166655462e-02, 8.363179053e-03, 1.392618359e-03});
  Value* y = m_b.CreateFAdd(fma(m_b.CreateFMul(r, r), p, r), real(x, 1.0));
  // 2^n in two factors reaches the denormals and infinity.
  Value* safe = m_b.CreateSelect(m_b.CreateFCmpUNO(n, n), real(x, 0), n);
  Value* i = m_b.CreateFPToSI(safe, integers(x));
  Value* half = m_b.CreateAShr(i, 1);
  y = m_b.CreateFMul(y, powerOfTwo(half));
  return m_b.CreateFMul(y, powerOfTwo(m_b.CreateSub(i, half)));
}

Value* VectorMath::log(Value* x) {
  const double smallest = 1.17549435e-38;
  Value* denormal = m_b.CreateFCmpOLT(x, real(x, smallest));
  Value* scaled = m_b.CreateSelect(denormal, m_b.CreateFMul(x, real(x, 8388608.0)), x);
  Value* bits = m_b.CreateBitCast(scaled, integers(x));
  // The mantissa goes to [sqrt(1/2), sqrt(2)).
  Value* shifted = m_b.CreateSub(bits, integer(x, 0x3f3504f3));
  Value* e = m_b.CreateAShr(shifted, 23);
  Value* mantissa = m_b.CreateBitCast(m_b.CreateSub(bits, m_b.CreateShl(e, 23)), x->getType());
  Value* exponent = m_b.CreateSIToFP(e, x->getType());
  exponent = m_b.CreateFSub(exponent, m_b.CreateSelect(denormal, real(x, 23.0), real(x, 0.0)));
  Value* f = m_b.CreateFSub(mantissa, real(x, 1.0));
  Value* p = polynomial(f, {3.333333118e-01, -2.499999696e-01, 2.000071575e-01, -1.666780232e-01, 1.424905765e-01, -1.242568734e-01,
                            1.168541991e-01, -1.147973382e-01, 6.971611461e-02});
  Value* f2 = m_b.CreateFMul(f, f);
  Value* tail = fma(m_b.CreateFMul(f2, f), p, m_b.CreateFMul(f2, real(x, -0.5)));
  tail = fma(exponent, real(x, 1.42860682030941723212e-6), tail);
  Value* y = m_b.CreateFAdd(f, tail);
  y = fma(exponent, real(x, 0.693145751953125), y);
  const double infinity = std::numeric_limits<double>::infinity();
  y = m_b.CreateSelect(m_b.CreateFCmpOEQ(x, real(x, infinity)), x, y);
  y = m_b.CreateSelect(m_b.CreateFCmpOEQ(x, real(x, 0.0)), real(x, -infinity), y);
  return m_b.CreateSelect(m_b.CreateFCmpULT(x, real(x, 0.0)), real(x, std::numeric_limits<double>::quiet_NaN()), y);
}

Value* VectorMath::tanh(Value* x) {
  Value* a = m_b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* z = m_b.CreateFMul(x, x);
  Value* p =
      polynomial(z, {-3.333333317e-01, 1.333330356e-01, -5.395925959e-02, 2.176891872e-02, -8.343945663e-03, 2.292744940e-03});
  Value* small = fma(m_b.CreateFMul(z, p), x, x);
  Value* e = exp(m_b.CreateFAdd(a, a));
  Value* big = m_b.CreateFSub(real(x, 1.0), m_b.CreateFDiv(real(x, 2.0), m_b.CreateFAdd(e, real(x, 1.0))));
  // The sign for both: -0 stays -0.
  return m_b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, m_b.CreateSelect(m_b.CreateFCmpOLT(a, real(x, 0.625)), small, big),
                                   x);
}

Value* VectorMath::sigmoid(Value* x) { return m_b.CreateFDiv(real(x, 1.0), m_b.CreateFAdd(real(x, 1.0), exp(m_b.CreateFNeg(x)))); }

Value* VectorMath::erf(Value* x) {
  Value* a = m_b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* z = m_b.CreateFMul(x, x);
  Value* small = m_b.CreateFMul(x, polynomial(z, {1.128379167e+00, -3.761263847e-01, 1.128378250e-01, -2.686543073e-02,
                                                  5.221031809e-03, -8.484080445e-04, 1.126595940e-04, -9.667045788e-06}));
  Value* t = m_b.CreateSelect(m_b.CreateFCmpOGT(a, real(x, 4.0)), real(x, 4.0), a);
  Value* q = polynomial(t, {-3.201380519e-04, 1.130233435e+00, 6.318260515e-01, 1.100800830e-01, -2.642113601e-02, 4.759596294e-03,
                            -5.968056256e-04, 4.605804268e-05, -1.637151414e-06});
  Value* big = m_b.CreateFSub(real(x, 1.0), exp(m_b.CreateFNeg(q)));
  big = m_b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, big, x);
  return m_b.CreateSelect(m_b.CreateFCmpOLT(a, real(x, 1.0)), small, big);
}

Value* VectorMath::libm(const char* name, Value* x, Value* y) {
  llvm::Type* scalar = x->getType()->getScalarType();
  std::string symbol = name;
  if (scalar->isFloatTy()) symbol += 'f';
  std::vector<llvm::Type*> parameters{scalar};
  if (y) parameters.push_back(scalar);
  llvm::FunctionCallee callee = m_module.getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, parameters, false));
  if (auto* f = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
    f->setDoesNotThrow();
    f->setDoesNotAccessMemory();
    f->setWillReturn();
  }
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType())) callee = laneByLane(callee, vector, y != nullptr);
  return y ? m_b.CreateCall(callee, {x, y}) : m_b.CreateCall(callee, {x});
}

llvm::FunctionCallee VectorMath::laneByLane(llvm::FunctionCallee scalar, llvm::FixedVectorType* type, bool two) {
  const unsigned lanes = type->getNumElements();
  const std::string symbol = "nf." + scalar.getCallee()->getName().str() + "." + std::to_string(lanes);
  if (llvm::Function* known = m_module.getFunction(symbol)) return known;
  auto* f = llvm::Function::Create(llvm::FunctionType::get(type, std::vector<llvm::Type*>(two ? 2 : 1, type), false),
                                   llvm::GlobalValue::InternalLinkage, symbol, m_module);
  const llvm::Function* const around = m_b.GetInsertBlock()->getParent();
  for (const char* attribute : {"target-features", "prefer-vector-width", "min-legal-vector-width", "no-trapping-math"})
    if (around->hasFnAttribute(attribute)) f->addFnAttr(around->getFnAttribute(attribute));
  f->addFnAttr(llvm::Attribute::NoInline);
  f->setDoesNotThrow();
  f->setDoesNotAccessMemory();
  f->setWillReturn();
  llvm::IRBuilder<> body(llvm::BasicBlock::Create(m_module.getContext(), "", f));
  Value* result = llvm::PoisonValue::get(type);
  for (unsigned l = 0; l < lanes; ++l) {
    std::vector<Value*> arguments;
    for (llvm::Argument& a : f->args()) arguments.push_back(body.CreateExtractElement(&a, l));
    result = body.CreateInsertElement(result, body.CreateCall(scalar, arguments), l);
  }
  body.CreateRet(result);
  return f;
}

Value* VectorMath::call(ScalarOp op, Value* x) {
  const bool single = x->getType()->getScalarType()->isFloatTy();
  switch (op) {
    case ScalarOp::Exp: return single ? exp(x) : libm("exp", x);
    case ScalarOp::Log: return single ? log(x) : libm("log", x);
    case ScalarOp::Tanh: return single ? tanh(x) : libm("tanh", x);
    case ScalarOp::Erf: return single ? erf(x) : libm("erf", x);
    case ScalarOp::Sigmoid:
      if (single) return sigmoid(x);
      return m_b.CreateFDiv(real(x, 1.0), m_b.CreateFAdd(real(x, 1.0), libm("exp", m_b.CreateFNeg(x))));
    case ScalarOp::Sin: return libm("sin", x);
    case ScalarOp::Cos: return libm("cos", x);
    default: break;
  }
  NF_ASSERT(false);
  return nullptr;
}

Value* VectorMath::power(Value* x, Value* y) {
  double exponent = 0.25;  // no shortcut
  const llvm::Constant* c = llvm::dyn_cast<llvm::Constant>(y);
  if (c && y->getType()->isVectorTy()) c = c->getSplatValue();
  if (const auto* fp = llvm::dyn_cast_or_null<llvm::ConstantFP>(c))
    exponent =
        fp->getType()->isDoubleTy() ? fp->getValueAPF().convertToDouble() : static_cast<double>(fp->getValueAPF().convertToFloat());
  if (exponent == 0.5) {
    // As pow has it: +0 of -0, and infinity of either one.
    Value* root = m_b.CreateFAdd(m_b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x), real(x, 0.0));
    Value* infinity = real(x, std::numeric_limits<double>::infinity());
    return m_b.CreateSelect(m_b.CreateFCmpOEQ(x, m_b.CreateFNeg(infinity)), infinity, root);
  }
  if (exponent == 0) return real(x, 1.0);
  if (exponent == std::floor(exponent) && std::fabs(exponent) <= 8) {
    Value* result = nullptr;
    Value* square = x;
    for (int n = static_cast<int>(std::fabs(exponent)); n > 0; n /= 2) {
      if (n % 2 == 1) result = result ? m_b.CreateFMul(result, square) : square;
      if (n > 1) square = m_b.CreateFMul(square, square);
    }
    return exponent < 0 ? m_b.CreateFDiv(real(x, 1.0), result) : result;
  }
  return libm("pow", x, y);
}

}  // namespace nf::cpu
