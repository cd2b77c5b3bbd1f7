// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>

#include <llvm/IR/IRBuilder.h>

#include "core/schedule/loop_ir.h"

namespace nf::codegen {

using LV = llvm::Value;

// Types, conversions and operations of the loop IR as LLVM IR, on scalars and on vectors of lanes alike: the same bits on every machine.
// Functions without an instruction (exp, pow, ..) are the generator's own.
class Arithmetic {
 protected:
  explicit Arithmetic(llvm::LLVMContext& context) : m_context(context), m_b(context) {}
  ~Arithmetic() = default;

  virtual LV* function(ScalarOp op, LV* x) = 0;
  virtual LV* power(LV* x, LV* y) = 0;

  // ------------------------------------------------------------ types
  llvm::Type* valueType(DType type);    // what is computed with
  llvm::Type* storageType(DType type);  // an element in memory
  static llvm::Type* lanesOf(llvm::Type* scalar, unsigned lanes);
  static unsigned width(LV* v);
  void level(LV*& a, LV*& b);  // a scalar beside a vector becomes one

  // ------------------------------------------------------------ conversions
  LV* fromStorage(LV* v, DType type);
  LV* toStorage(LV* v, DType type);
  LV* convert(LV* v, DType from, DType to);
  LV* convertIndex(LV* v, DType type);

  // ------------------------------------------------------------ operations
  LV* constant(const loop::Value& v);
  LV* mix(LV* x);
  LV* randomKey(LV* seed, LV* step, std::uint64_t stream);
  LV* randomAt(LV* key, LV* point);  // of one width
  // Operands in the types of their values.
  LV* fma(const loop::Function& f, const loop::Value& v, const std::array<LV*, 3>& operands);
  LV* apply(const loop::Function& f, const loop::Value& v, const std::array<LV*, 3>& operands);

  llvm::LLVMContext& m_context;
  llvm::IRBuilder<> m_b;

 private:
  LV* condition(ScalarOp op, DType type, LV* a, LV* b);
  LV* unary(ScalarOp op, DType type, LV* x);
  LV* realOp(ScalarOp op, LV* a, LV* b);
  LV* integerOp(ScalarOp op, DType type, LV* a, LV* b);
  // Rounds to minus infinity. The divisors that would trap, 0 and -1, are set aside: x/0 is 0 here.
  LV* floorQuotient(LV* a, LV* b);
};

}  // namespace nf::codegen
