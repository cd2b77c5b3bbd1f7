// SPDX-License-Identifier: Apache-2.0
#include "core/session/caption.h"

#include <cstdio>

namespace nf {
namespace {

enum Level { kChoice, kCondition, kCompare, kSum, kProduct, kSign, kPower, kAtom };

struct Text {
  std::string text;
  Level level = kAtom;
};

std::string wrap(const Text& t, Level least) { return t.level < least ? "(" + t.text + ")" : t.text; }

class Caption {
 public:
  Caption(const Program& program, const Operator& op) : m_program(program), m_op(op) {}

  std::string text() {
    const Text body = scalar(m_op.body, 0);
    if (m_op.kind == OperatorKind::Scatter) return "scatter " + wrap(body, kProduct);
    switch (m_op.reducer) {
      case Reducer::None: return body.text;
      case Reducer::Sum: return "Σ " + wrap(body, kProduct);
      case Reducer::Prod: return "Π " + wrap(body, kProduct);
      case Reducer::Max:
      case Reducer::Min:
      case Reducer::ArgMax:
      case Reducer::ArgMin: return std::string(name(m_op.reducer)) + " " + wrap(body, kSum);
    }
    return body.text;
  }

 private:
  static constexpr int kDeepest = 12, kMostNodes = 200;  // what lies beyond is not seen in a box

  const ScalarNode& node(ExprId id) const { return m_program[id]; }
  bool isZero(ExprId id) const { return node(id).op == ScalarOp::Constant && node(id).value == 0; }

  // A condition on indices alone: it keeps an access inside its tensor.
  bool isBound(ExprId id, int depth = 0) const {
    const ScalarNode& n = node(id);
    if (n.op == ScalarOp::IndexGe0 || n.op == ScalarOp::IndexEq0) return true;
    if (depth > kDeepest || (n.op != ScalarOp::And && n.op != ScalarOp::Or && n.op != ScalarOp::Not)) return false;
    return isBound(n.operands[0], depth + 1) && (n.op == ScalarOp::Not || isBound(n.operands[1], depth + 1));
  }

  std::string variableName(IndexVar v) const {
    if (v < m_op.axes.size()) return m_op.axes[v].name;
    return v == kLoopVariable ? "t" : "t" + std::to_string(v - kLoopVariable);
  }

  static std::string numberText(double value) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.3g", value);
    return buffer;
  }

  Text scalar(ExprId id, int depth) {
    if (depth > kDeepest || ++m_nodes > kMostNodes) return {"…", kAtom};
    const ScalarNode& n = node(id);
    const auto child = [&](int k) { return scalar(n.operands[static_cast<std::size_t>(k)], depth + 1); };
    const auto variable = [this](IndexVar v) { return variableName(v); };
    switch (n.op) {
      case ScalarOp::Constant: {
        if (n.type == DType::Bool) return {n.value != 0 ? "true" : "false", kAtom};
        return {numberText(n.value), n.value < 0 ? kSign : kAtom};
      }
      case ScalarOp::Index: return {toText(m_program[n.index], variable), kSum};
      case ScalarOp::IndexGe0: return {toText(IndexCond::ge0(m_program[n.index]), variable), kCompare};
      case ScalarOp::IndexEq0: return {toText(IndexCond::eq0(m_program[n.index]), variable), kCompare};
      case ScalarOp::Load: return {m_program[m_program[n.access].tensor].name, kAtom};
      case ScalarOp::Training: return {"training", kAtom};
      case ScalarOp::Random: return {"random", kAtom};
      case ScalarOp::Cast:
      case ScalarOp::StopGradient: return child(0);
      case ScalarOp::Neg: return {"−" + wrap(child(0), kSign), kSign};
      case ScalarOp::Not: return {"not " + wrap(child(0), kCompare), kCondition};
      case ScalarOp::Sqrt: return {"√" + wrap(child(0), kAtom), kSign};
      case ScalarOp::Select: {
        if (isZero(n.operands[2])) {
          if (isBound(n.operands[0])) return child(1);
          return {wrap(child(1), kCondition) + " where " + wrap(child(0), kCondition), kChoice};
        }
        return {wrap(child(1), kCondition) + " or " + wrap(child(2), kCondition), kChoice};
      }
      case ScalarOp::Add: return {wrap(child(0), kSum) + " + " + wrap(child(1), kSum), kSum};
      case ScalarOp::Sub: return {wrap(child(0), kSum) + " − " + wrap(child(1), kProduct), kSum};
      case ScalarOp::Mul: return {wrap(child(0), kProduct) + "·" + wrap(child(1), kProduct), kProduct};
      case ScalarOp::Div:
      case ScalarOp::FloorDiv: return {wrap(child(0), kProduct) + "/" + wrap(child(1), kSign), kProduct};
      case ScalarOp::Mod: return {wrap(child(0), kProduct) + " mod " + wrap(child(1), kSign), kProduct};
      case ScalarOp::Pow: {
        const ScalarNode& exponent = node(n.operands[1]);
        const std::string base = wrap(child(0), kAtom);
        if (exponent.op == ScalarOp::Constant && exponent.value == 2) return {base + "²", kPower};
        if (exponent.op == ScalarOp::Constant && exponent.value == 3) return {base + "³", kPower};
        return {base + "^" + wrap(child(1), kAtom), kPower};
      }
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Eq:
      case ScalarOp::Ne:
      case ScalarOp::And:
      case ScalarOp::Or: {
        const bool logic = n.op == ScalarOp::And || n.op == ScalarOp::Or;
        const std::string sign = n.op == ScalarOp::Ne ? "≠" : n.op == ScalarOp::Le ? "≤" : std::string(info(n.op).spelling);
        const Level inner = logic ? kCompare : kSum;
        return {wrap(child(0), inner) + " " + sign + " " + wrap(child(1), inner), logic ? kCondition : kCompare};
      }
      case ScalarOp::Exp:
      case ScalarOp::Log:
      case ScalarOp::Rsqrt:
      case ScalarOp::Tanh:
      case ScalarOp::Sigmoid:
      case ScalarOp::Erf:
      case ScalarOp::Sin:
      case ScalarOp::Cos:
      case ScalarOp::Abs:
      case ScalarOp::Floor:
      case ScalarOp::Relu: return {std::string(info(n.op).spelling) + "(" + child(0).text + ")", kAtom};
      case ScalarOp::Max:
      case ScalarOp::Min: return {std::string(info(n.op).spelling) + "(" + child(0).text + ", " + child(1).text + ")", kAtom};
    }
    return {};
  }

  const Program& m_program;
  const Operator& m_op;
  int m_nodes = 0;
};

}  // namespace

std::string captionOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind == OperatorKind::Loop) return "for " + program[op.loop].counter + " in 0.." + std::to_string(program[op.loop].trips);
  std::string text = Caption(program, op).text();
  constexpr std::size_t kLongest = 120;
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text = text.substr(0, end) + "…";
  }
  return text;
}

}  // namespace nf
