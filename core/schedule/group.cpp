// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/group.h"

#include <algorithm>

#include "core/fusion/kept.h"
#include "core/ir/paths.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

Error refuse(const std::string& why) { return Error{"schedule", why, {}, {}}; }

}  // namespace

Result<GroupView> viewGroup(const Program& program) {
  GroupView view;
  view.program = &program;
  view.producers = producers(program);
  view.isOutput.resize(program.tensors.size(), false);
  view.stored.resize(program.tensors.size(), false);
  if (program.operators.empty()) return refuse("the subgraph has no operator");
  for (const Operator& op : program.operators) {
    if (op.kind == OperatorKind::Loop)
      return refuse("operator " + op.name + " is a loop: its body's operators are kernels, it is not");
    if (op.kind == OperatorKind::Gather && program[op.output].shape.size() != op.outputRank)
      return refuse("operator " + op.name + " does not match the rank of its output");
    std::int64_t points = 1;
    for (const Axis& axis : op.axes) {
      const auto more = checkedMul(points, axis.extent);
      if (!more) return refuse("operator " + op.name + " has more points than 64 bits count");
      points = *more;
    }
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (!view.producers[t].valid()) view.inputs.push_back(TensorId(t));
  for (const Output& output : program.outputs) {
    if (!output.tensor.valid() || !view.producers[output.tensor.value].valid() || view.isOutput[output.tensor.value]) continue;
    view.outputs.push_back(output.tensor);
    view.isOutput[output.tensor.value] = true;
  }
  if (view.outputs.empty()) return refuse("the subgraph has no output");

  std::vector<OperatorId> all;
  std::vector<KeptFacts> facts;
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    all.emplace_back(o);
    facts.push_back(keptFactsOf(program, all.back()));
  }
  const std::vector<bool> kept = keptInGroup(
      program, all, [&](OperatorId op) -> const KeptFacts& { return facts[op.value]; },
      [&](TensorId t) { return static_cast<bool>(view.isOutput[t.value]); });
  for (std::size_t o = 0; o < all.size(); ++o)
    if (kept[o]) view.stored[program.operators[o].output.value] = true;
  return view;
}

bool readsOwnPoint(const Operator& op, const Access& access) {
  if (access.indices.size() != op.outputRank) return false;
  for (std::size_t k = 0; k < access.indices.size(); ++k)
    if (!readsOwnPlace(op, access, k)) return false;
  return true;
}

void declareOperands(const GroupView& group, Function& function, std::vector<BufferId>& buffers) {
  const Program& p = *group.program;
  buffers.assign(p.tensors.size(), BufferId{});
  const auto operand = [&](TensorId t, Direction direction) {
    function.buffers.push_back({p[t].name, p[t].type, p[t].elements(), Scope::Global, direction, 0});
    buffers[t.value] = BufferId(function.buffers.size() - 1);
  };
  for (const TensorId t : group.inputs) operand(t, Direction::In);
  for (const TensorId t : group.outputs) {
    // A stored output that a later operator of the group reads again is read and written.
    bool read = false;
    for (std::size_t o = 0; o < p.operators.size() && !read; ++o) {
      const auto reads = readsOf(p, OperatorId(o));
      read = std::find(reads.begin(), reads.end(), t) != reads.end();
    }
    read = read || group.producerOf(t).kind == OperatorKind::Scatter;
    operand(t, read ? Direction::InOut : Direction::Out);
  }
  function.operands = function.buffers.size();
  function.name = group.producerOf(group.outputs.front()).name;
  for (std::size_t o = 0; o < p.operators.size(); ++o) function.flops += flopsOf(p, OperatorId(o));
}

void declareWorkspace(const GroupView& group, Function& function, std::vector<BufferId>& buffers, TensorId t) {
  const Tensor& tensor = (*group.program)[t];
  // Between stages nothing is rounded to a narrow storage type.
  buffers[t.value] = function.addWorkspace(tensor.name, arithmeticType(tensor.type), tensor.elements());
}

std::vector<StagePlan> planStages(const GroupView& group) {
  const Program& p = *group.program;
  const auto extents = [&](const Operator& op) {
    std::vector<std::int64_t> e{static_cast<std::int64_t>(op.outputRank)};
    for (const Axis& axis : op.axes) e.push_back(axis.extent);
    return e;
  };
  // Tensors whose values `op` needs through inlined producers: 1 where every read on the way is at the operator's own point, else 2.
  const auto needs = [&](OperatorId id) {
    std::vector<int> needed(p.tensors.size(), 0);
    std::vector<std::pair<OperatorId, int>> stack{{id, 1}};
    while (!stack.empty()) {
      const auto [at, how] = stack.back();
      stack.pop_back();
      for (const ExprId e : nodesOf(p, p[at].body)) {
        if (p[e].op != ScalarOp::Load) continue;
        const Access& access = p[p[e].access];
        const int reaches = readsOwnPoint(p[at], access) ? how : 2;
        const std::size_t t = access.tensor.value;
        if (needed[t] >= reaches) continue;
        needed[t] = reaches;
        if (group.producers[t].valid() && group.injective(group.producers[t])) stack.emplace_back(group.producers[t], reaches);
      }
    }
    return needed;
  };
  std::vector<StagePlan> stages;
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    const OperatorId id(o);
    const Operator& op = p[id];
    if (!group.stored[op.output.value]) continue;
    if (!stages.empty() && op.kind == OperatorKind::Gather) {
      const Operator& first = p[stages.back().front()];
      bool joins = first.kind == OperatorKind::Gather && extents(first) == extents(op) &&
                   (first.reducer == Reducer::None) == (op.reducer == Reducer::None) && stages.back().size() < 8;
      // Values of the same nest are at hand at the same point, and only of injective operators.
      if (joins) {
        const auto needed = needs(id);
        const int most = first.reducer == Reducer::None ? 1 : 0;
        for (const OperatorId other : stages.back()) joins = joins && needed[p[other].output.value] <= most;
      }
      if (joins) {
        stages.back().push_back(id);
        continue;
      }
    }
    stages.push_back({id});
  }
  return stages;
}

namespace {

void conjunctsOf(const Program& p, ExprId condition, std::vector<ExprId>& into) {
  if (p[condition].op == ScalarOp::And) {
    conjunctsOf(p, p[condition].operands[0], into);
    conjunctsOf(p, p[condition].operands[1], into);
  } else {
    into.push_back(condition);
  }
}

bool depthIsSmall(const Program& p, ExprId root) { return nodesOf(p, root).size() < 4000; }

bool isZero(const Program& p, ExprId e) { return p[e].op == ScalarOp::Constant && p[e].value == 0; }

}  // namespace

Peeled peel(const Program& p, ExprId root) {
  Peeled result{{}, root};
  for (;;) {
    const ScalarNode& node = p[result.value];
    if (node.op != ScalarOp::Select || !isFloating(node.type) || !isZero(p, node.operands[2]) ||
        !depthIsSmall(p, node.operands[0]) || !asIndexCond(p, node.operands[0]))
      return result;
    conjunctsOf(p, node.operands[0], result.conditions);
    result.value = node.operands[1];
  }
}

}  // namespace nf::loop
