// SPDX-License-Identifier: Apache-2.0
#include "core/ir/folding.h"

#include <algorithm>
#include <cmath>

#include "core/support/assert.h"

namespace nf {

double wrappedI32(double value) {
  constexpr double kAll = 4294967296;
  const double rest = value - kAll * std::floor(value / kAll);
  return rest < kAll / 2 ? rest : rest - kAll;
}

double wrappedProduct(double a, double b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(a)) *
                                   static_cast<std::uint32_t>(static_cast<std::int64_t>(b)));
}

std::optional<double> evaluateScalar(ScalarOp op, DType type, double a, double b) {
  if (type == DType::I32) switch (op) {
      case ScalarOp::Neg: return wrappedI32(-a);
      case ScalarOp::Abs: return wrappedI32(std::fabs(a));
      case ScalarOp::Add: return wrappedI32(a + b);
      case ScalarOp::Sub: return wrappedI32(a - b);
      case ScalarOp::Mul: return wrappedProduct(a, b);
      case ScalarOp::FloorDiv: return b == 0 ? std::nullopt : std::optional(wrappedI32(std::floor(a / b)));
      default: break;
    }
  switch (op) {
    case ScalarOp::Neg: return -a;
    case ScalarOp::Not: return a == 0 ? 1.0 : 0.0;
    case ScalarOp::Exp: return std::exp(a);
    case ScalarOp::Log: return std::log(a);
    case ScalarOp::Sqrt: return std::sqrt(a);
    case ScalarOp::Rsqrt: return 1 / std::sqrt(a);
    case ScalarOp::Tanh: return std::tanh(a);
    case ScalarOp::Sigmoid: return 1 / (1 + std::exp(-a));
    case ScalarOp::Erf: return std::erf(a);
    case ScalarOp::Sin: return std::sin(a);
    case ScalarOp::Cos: return std::cos(a);
    case ScalarOp::Abs: return std::fabs(a);
    case ScalarOp::Floor: return std::floor(a);
    case ScalarOp::Relu: return a <= 0 ? 0.0 : a;
    case ScalarOp::Cast: return type == DType::I32 ? std::trunc(a) : storedAs(type, a);
    case ScalarOp::StopGradient: return a;
    case ScalarOp::Add: return a + b;
    case ScalarOp::Sub: return a - b;
    case ScalarOp::Mul: return a * b;
    case ScalarOp::Div: return a / b;
    case ScalarOp::Pow: return powerOf(a, b);
    case ScalarOp::FloorDiv: return b == 0 ? std::nullopt : std::optional(std::floor(a / b));
    case ScalarOp::Mod: return b == 0 ? std::nullopt : std::optional(a - b * std::floor(a / b));
    case ScalarOp::Max: return a > b || std::isnan(a) ? a : b;
    case ScalarOp::Min: return a < b || std::isnan(a) ? a : b;
    case ScalarOp::Lt: return a < b ? 1.0 : 0.0;
    case ScalarOp::Le: return a <= b ? 1.0 : 0.0;
    case ScalarOp::Eq: return a == b ? 1.0 : 0.0;
    case ScalarOp::Ne: return a != b ? 1.0 : 0.0;
    case ScalarOp::And: return a != 0 && b != 0 ? 1.0 : 0.0;
    case ScalarOp::Or: return a != 0 || b != 0 ? 1.0 : 0.0;
    case ScalarOp::Constant:
    case ScalarOp::Index:
    case ScalarOp::Load:
    case ScalarOp::Training:
    case ScalarOp::Random:
    case ScalarOp::IndexGe0:
    case ScalarOp::IndexEq0:
    case ScalarOp::Select: break;
  }
  return std::nullopt;
}

std::int64_t evaluateI64(ScalarOp op, std::int64_t a, std::int64_t b) {
  const auto bits = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  const auto wrapped = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  const auto quotient = [&] {
    if (b == 0) return std::int64_t{0};
    if (b == -1) return wrapped(0 - bits(a));
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
  };
  switch (op) {
    case ScalarOp::Neg: return wrapped(0 - bits(a));
    case ScalarOp::Abs: return a < 0 ? wrapped(0 - bits(a)) : a;
    case ScalarOp::Relu: return std::max<std::int64_t>(a, 0);
    case ScalarOp::Floor:
    case ScalarOp::StopGradient:
    case ScalarOp::Cast: return a;
    case ScalarOp::Add: return wrapped(bits(a) + bits(b));
    case ScalarOp::Sub: return wrapped(bits(a) - bits(b));
    case ScalarOp::Mul: return wrapped(bits(a) * bits(b));
    case ScalarOp::FloorDiv: return quotient();
    case ScalarOp::Mod: return wrapped(bits(a) - bits(quotient()) * bits(b));
    case ScalarOp::Max: return std::max(a, b);
    case ScalarOp::Min: return std::min(a, b);
    case ScalarOp::Lt: return a < b;
    case ScalarOp::Le: return a <= b;
    case ScalarOp::Eq: return a == b;
    case ScalarOp::Ne: return a != b;
    default: break;
  }
  NF_ASSERT(false);
  return 0;
}

std::optional<double> constantIndexNode(const Program& program, const ScalarNode& node) {
  if (!node.index.valid() || !program[node.index].isConstant() || program[node.index].overflowed()) return std::nullopt;
  const std::int64_t at = program[node.index].constant();
  switch (node.op) {
    case ScalarOp::Index: return static_cast<double>(at);
    case ScalarOp::IndexGe0: return at >= 0 ? 1.0 : 0.0;
    case ScalarOp::IndexEq0: return at == 0 ? 1.0 : 0.0;
    default: return std::nullopt;
  }
}

std::optional<double> Folding::constant(ExprId e) const {
  const ScalarNode& n = m_program[e];
  return n.op == ScalarOp::Constant ? std::optional(n.value) : std::nullopt;
}

ExprId Folding::kept(ExprId e, ExprId a, ExprId b) const {
  const auto type = resultType(ScalarOp::Add, m_program[a].type, m_program[b].type);
  return type == m_program[e].type ? e : ExprId{};
}

ExprId Folding::neg(ExprId a, OriginId origin) {
  if (const auto v = constant(a)) return m_program.constant(-*v, m_program[a].type, origin);
  if (m_program[a].op == ScalarOp::Neg) return m_program[a].operands[0];
  return m_program.unary(ScalarOp::Neg, a, origin);
}

ExprId Folding::add(ExprId a, ExprId b, OriginId origin) {
  if (is(a, 0))
    if (const ExprId e = kept(b, a, b)) return e;
  if (is(b, 0))
    if (const ExprId e = kept(a, a, b)) return e;
  if (m_program[b].op == ScalarOp::Neg) return sub(a, m_program[b].operands[0], origin);
  return m_program.binary(ScalarOp::Add, a, b, origin);
}

ExprId Folding::sub(ExprId a, ExprId b, OriginId origin) {
  if (is(b, 0))
    if (const ExprId e = kept(a, a, b)) return e;
  return m_program.binary(ScalarOp::Sub, a, b, origin);
}

ExprId Folding::mul(ExprId a, ExprId b, OriginId origin) {
  for (const auto& [one, other] : {std::pair{a, b}, std::pair{b, a}}) {
    if (is(one, 1))
      if (const ExprId e = kept(other, a, b)) return e;
    if (is(one, -1) && kept(other, a, b)) return neg(other, origin);
  }
  return m_program.binary(ScalarOp::Mul, a, b, origin);
}

ExprId Folding::div(ExprId a, ExprId b, OriginId origin) {
  if (is(b, 1) && m_program[a].type != DType::I32)
    if (const ExprId e = kept(a, a, b)) return e;
  return m_program.binary(ScalarOp::Div, a, b, origin);
}

ExprId Folding::logicalNot(ExprId a, OriginId origin) {
  if (const auto v = constant(a)) return m_program.constant(*v == 0 ? 1 : 0, DType::Bool, origin);
  if (m_program[a].op == ScalarOp::Not) return m_program[a].operands[0];
  return m_program.unary(ScalarOp::Not, a, origin);
}

ExprId Folding::logicalAnd(ExprId a, ExprId b, OriginId origin) {
  if (const auto v = constant(a)) return *v != 0 ? b : a;
  if (const auto v = constant(b)) return *v != 0 ? a : b;
  return m_program.binary(ScalarOp::And, a, b, origin);
}

ExprId Folding::logicalOr(ExprId a, ExprId b, OriginId origin) {
  if (const auto v = constant(a)) return *v != 0 ? a : b;
  if (const auto v = constant(b)) return *v != 0 ? b : a;
  return m_program.binary(ScalarOp::Or, a, b, origin);
}

ExprId Folding::select(ExprId condition, ExprId then, ExprId otherwise, OriginId origin) {
  const bool same = m_program[then].type == m_program[otherwise].type;
  if (const auto v = constant(condition); v && same) return *v != 0 ? then : otherwise;
  if (then == otherwise) return then;
  return m_program.select(condition, then, otherwise, origin);
}

ExprId Folding::rebuilt(ScalarNode node) {
  const auto& [a, b, c] = node.operands;
  ExprId made;
  const int arity = info(node.op).arity;
  if (arity > 0 && constant(a) && (arity < 2 || constant(b)))
    if (const auto value = evaluateScalar(node.op, node.type, *constant(a), arity > 1 ? *constant(b) : 0);
        value && (node.type != DType::I64 || std::fabs(*value) < 0x1p53))
      return m_program.constant(*value, node.type, node.origin);
  if (const auto value = constantIndexNode(m_program, node)) return m_program.constant(*value, node.type, node.origin);
  switch (node.op) {
    case ScalarOp::Neg: made = neg(a, node.origin); break;
    case ScalarOp::Add: made = add(a, b, node.origin); break;
    case ScalarOp::Sub: made = sub(a, b, node.origin); break;
    case ScalarOp::Mul: made = mul(a, b, node.origin); break;
    case ScalarOp::Div: made = div(a, b, node.origin); break;
    case ScalarOp::Not: made = logicalNot(a, node.origin); break;
    case ScalarOp::And: made = logicalAnd(a, b, node.origin); break;
    case ScalarOp::Or: made = logicalOr(a, b, node.origin); break;
    case ScalarOp::Select: made = select(a, b, c, node.origin); break;
    default: break;
  }
  if (made.valid() && m_program[made].type == node.type) return made;
  m_program.scalars.push_back(node);
  return ExprId(m_program.scalars.size() - 1);
}

}  // namespace nf
