// SPDX-License-Identifier: Apache-2.0
#include "core/ir/paths.h"

#include <algorithm>
#include <unordered_map>

#include "core/ir/folding.h"

namespace nf {

std::optional<IndexCond> asIndexCond(const Program& program, ExprId condition) {
  // Operands precede users, so one sweep builds the trees bottom-up without recursion.
  std::unordered_map<std::uint32_t, std::optional<IndexCond>> made;
  for (const ExprId id : nodesOf(program, condition)) {
    const ScalarNode& node = program[id];
    std::optional<IndexCond> cond;
    const auto operand = [&](int k) -> const std::optional<IndexCond>& { return made.at(node.operands[k].value); };
    switch (node.op) {
      case ScalarOp::IndexGe0: cond = IndexCond::ge0(program[node.index]); break;
      case ScalarOp::IndexEq0: cond = IndexCond::eq0(program[node.index]); break;
      case ScalarOp::Constant:
        if (node.type == DType::Bool) cond = node.value != 0 ? IndexCond::all({}) : IndexCond::any({});
        break;
      case ScalarOp::Not:
        if (operand(0)) cond = IndexCond::negate(*operand(0));
        break;
      case ScalarOp::And:
        if (operand(0) && operand(1)) cond = IndexCond::all({*operand(0), *operand(1)});
        break;
      case ScalarOp::Or:
        if (operand(0) && operand(1)) cond = IndexCond::any({*operand(0), *operand(1)});
        break;
      default: break;
    }
    made.emplace(id.value, std::move(cond));
  }
  return made.at(condition.value);
}

namespace {

// The index conditions that a true condition implies: all of it where it is pure, else the pure parts of a conjunction.
void conjuncts(const Program& program, ExprId condition, std::vector<IndexCond>& into) {
  std::vector<ExprId> stack{condition};
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    const ScalarNode& node = program[id];
    if (node.op == ScalarOp::And) {
      stack.push_back(node.operands[1]);
      stack.push_back(node.operands[0]);
    } else if (auto cond = asIndexCond(program, id)) {
      into.push_back(std::move(*cond));
    }
  }
}

void negatedConjuncts(const Program& program, ExprId condition, std::vector<IndexCond>& into) {
  std::vector<ExprId> stack{condition};
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    const ScalarNode& node = program[id];
    if (node.op == ScalarOp::Or) {
      stack.push_back(node.operands[1]);
      stack.push_back(node.operands[0]);
    } else if (auto cond = asIndexCond(program, id)) {
      into.push_back(IndexCond::negate(std::move(*cond)));
    }
  }
}

}  // namespace

std::vector<GuardedLoad> guardedLoads(const Program& program, ExprId root) {
  constexpr std::size_t kMostPaths = 64;
  const std::vector<ExprId> order = nodesOf(program, root);
  // Users before operands: when a node is met, all paths to it are known.
  std::unordered_map<std::uint32_t, std::vector<std::vector<IndexCond>>> paths;
  if (root.valid()) paths[root.value] = {{}};
  const auto reach = [&](ExprId id, const std::vector<std::vector<IndexCond>>& from, const std::vector<IndexCond>& more) {
    auto& known = paths[id.value];
    for (const auto& path : from) {
      std::vector<IndexCond> extended = path;
      for (const IndexCond& c : more)
        if (std::find(extended.begin(), extended.end(), c) == extended.end()) extended.push_back(c);
      if (std::find(known.begin(), known.end(), extended) == known.end()) known.push_back(std::move(extended));
    }
    if (known.size() > kMostPaths) known = {{}};
  };
  std::vector<GuardedLoad> loads;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const ScalarNode& node = program[*it];
    const auto from = paths[it->value];
    if (node.op == ScalarOp::Select) {
      std::vector<IndexCond> taken, other;
      conjuncts(program, node.operands[0], taken);
      negatedConjuncts(program, node.operands[0], other);
      reach(node.operands[0], from, {});
      reach(node.operands[1], from, taken);
      reach(node.operands[2], from, other);
      continue;
    }
    for (int k = 0; k < info(node.op).arity; ++k) reach(node.operands[k], from, {});
    if (node.op == ScalarOp::Load) {
      for (const AccessIndex& index : program[node.access].indices)
        if (index.isData()) reach(index.data, from, {});
      for (auto path = from.rbegin(); path != from.rend(); ++path) loads.push_back({*it, *path});
    }
  }
  std::reverse(loads.begin(), loads.end());
  return loads;
}

std::vector<PathCondition> pathOf(const Program& program, ExprId condition, bool holds) {
  std::vector<PathCondition> result;
  std::vector<std::pair<ExprId, bool>> stack{{condition, holds}};
  while (!stack.empty()) {
    const auto [id, positive] = stack.back();
    stack.pop_back();
    const ScalarNode& n = program[id];
    if (n.op == ScalarOp::Not) {
      stack.emplace_back(n.operands[0], !positive);
    } else if (n.op == (positive ? ScalarOp::And : ScalarOp::Or)) {
      stack.emplace_back(n.operands[1], positive);
      stack.emplace_back(n.operands[0], positive);
    } else if (auto index = asIndexCond(program, id)) {
      result.push_back({positive ? *index : IndexCond::negate(*index), {}, true});
    } else {
      result.push_back({std::nullopt, id, positive});
    }
  }
  return result;
}

ExprId guarded(Program& program, const std::vector<PathCondition>& path, ExprId value) {
  Folding fold(program);
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    // The zero stands last: a scatter skips the points whose condition fails.
    const ExprId condition = it->index ? program.cond(*it->index) : it->holds ? it->data : fold.logicalNot(it->data);
    const ExprId zero = program.constant(0, program[value].type, program[value].origin);
    value = fold.select(condition, value, zero, program[value].origin);
  }
  return value;
}

}  // namespace nf
