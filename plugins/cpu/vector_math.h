// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "core/ir/program.h"

namespace nf::cpu {

// Code for the functions that have no instruction, f32 as polynomials on scalars and vectors of any width alike, so that a value
// does not depend on the lane it is computed in. Errors against the exact result, all of f32 but where noted: exp 1.5 ulp,
// log 1.5 ulp, tanh 2 ulp, sigmoid 3 ulp, erf 2.5 ulp (tests/cpu states and checks them). sin, cos, pow and all of f64 call libm lane by lane.
class VectorMath {
 public:
  VectorMath(llvm::IRBuilder<>& builder, llvm::Module& module) : m_b(builder), m_module(module) {}
  llvm::Value* call(ScalarOp op, llvm::Value* x);
  llvm::Value* power(llvm::Value* x, llvm::Value* y);

 private:
  using V = llvm::Value;
  V* exp(V* x);
  V* log(V* x);
  V* tanh(V* x);
  V* sigmoid(V* x);
  V* erf(V* x);
  V* libm(const char* name, V* x, V* y = nullptr);
  // A function of its own: where a body has hundreds of them, what is live across each lane's call would be what compiling takes.
  llvm::FunctionCallee laneByLane(llvm::FunctionCallee scalar, llvm::FixedVectorType* type, bool two);
  V* real(V* like, double value);
  V* polynomial(V* x, std::initializer_list<double> fromConstant);
  V* fma(V* a, V* b, V* c);
  llvm::Type* integers(V* like);
  V* integer(V* like, std::int64_t value);
  V* powerOfTwo(V* exponent);  // i32 lanes -> 2^exponent

  llvm::IRBuilder<>& m_b;
  llvm::Module& m_module;
};

}  // namespace nf::cpu
