// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/ir/program.h"

namespace nf {

// Scalar builders that fold what is exact in every floating type: neutral elements, constants, double negation, conditions that are
// known. Never x*0 (x may be infinite), never a reassociation, and never a change of the result's type.
//   before: mul(x, 1), add(0, x), select(true, a, b), neg(neg(x))      after: x, x, a, x
class Folding {
 public:
  explicit Folding(Program& program) : m_program(program) {}

  ExprId neg(ExprId a, OriginId origin = {});
  ExprId add(ExprId a, ExprId b, OriginId origin = {});
  ExprId sub(ExprId a, ExprId b, OriginId origin = {});
  ExprId mul(ExprId a, ExprId b, OriginId origin = {});
  ExprId div(ExprId a, ExprId b, OriginId origin = {});
  ExprId logicalNot(ExprId a, OriginId origin = {});
  ExprId logicalAnd(ExprId a, ExprId b, OriginId origin = {});
  ExprId logicalOr(ExprId a, ExprId b, OriginId origin = {});
  ExprId select(ExprId condition, ExprId then, ExprId otherwise, OriginId origin = {});
  // Any operation, through the builders above where they fold; `node` has its operands replaced already.
  ExprId rebuilt(ScalarNode node);

  std::optional<double> constant(ExprId e) const;  // the value, if it is one
  bool is(ExprId e, double value) const { return constant(e) == value; }

 private:
  ExprId kept(ExprId e, ExprId a, ExprId b) const;  // e, unless the operation would have widened its type
  Program& m_program;
};

// What 32 bits keep of a whole number below 2^53, and of the product of two i32: arithmetic of i32 wraps.
double wrappedI32(double value);
double wrappedProduct(double a, double b);

// x^y in double precision. A square is one product, as in kernels: std::pow took a seventh of the first step of a mean of squares.
inline double powerOf(double x, double y) { return y == 2 ? x * x : std::pow(x, y); }

// The value of an operation on constants, in double; nullopt for leaves, random numbers, and i32 division by zero.
std::optional<double> evaluateScalar(ScalarOp op, DType type, double a, double b);
// The same on i64, which a double does not hold: wraps at 64 bits; comparisons give 1 or 0. a // 0 is 0, a % 0 is a.
std::int64_t evaluateI64(ScalarOp op, std::int64_t a, std::int64_t b);
// The bits of an i64 in the place of a double, for what keeps every other value as a double.
inline double heldI64(std::int64_t value) { return std::bit_cast<double>(value); }
inline std::int64_t wholeI64(double held) { return std::bit_cast<std::int64_t>(held); }

// The value of an Index, IndexGe0 or IndexEq0 node in whose index expression no variable stands; conditions are 1 or 0. A program
// holds no such node: its builders make a Constant of it.
std::optional<double> constantIndexNode(const Program& program, const ScalarNode& node);

}  // namespace nf
