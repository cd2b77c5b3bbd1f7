// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/ir/program.h"
#include "core/schedule/body.h"
#include "core/schedule/loop_ir.h"
#include "core/support/result.h"

namespace nf::loop {

// A subgraph as the templates see it.
struct GroupView {
  const Program* program = nullptr;
  std::vector<OperatorId> producers;  // by tensor
  std::vector<TensorId> inputs;       // without producer, by id
  std::vector<TensorId> outputs;      // of the program's outputs, in order
  std::vector<bool> isOutput;         // by tensor
  std::vector<bool> stored;           // by tensor: has a buffer of its own in the plain lowering (core/fusion/kept.h)

  const Operator& producerOf(TensorId t) const { return (*program)[producers[t.value]]; }
  bool injective(OperatorId id) const {
    const Operator& op = (*program)[id];
    return op.kind == OperatorKind::Gather && op.reducer == Reducer::None;
  }
};

// Fails on a Loop, a missing output and what else no template lowers: one sentence.
Result<GroupView> viewGroup(const Program& program);

// The access reads at the operator's own output point: component k is axis k, or 0 where that has no other value.
bool readsOwnPoint(const Operator& op, const Access& access);

// Operand buffers in binding order; workspace for stored tensors that are no operands.
void declareOperands(const GroupView& group, Function& function, std::vector<BufferId>& buffers);
void declareWorkspace(const GroupView& group, Function& function, std::vector<BufferId>& buffers, TensorId tensor);

// An expression without the selects against zero at its root, and the conjuncts of their conditions; those on data stay.
struct Peeled {
  std::vector<ExprId> conditions;
  ExprId value;
};
Peeled peel(const Program& program, ExprId root);

// Operators that one loop nest computes: equal output extents and, for reductions, equal reduced extents.
using StagePlan = std::vector<OperatorId>;
std::vector<StagePlan> planStages(const GroupView& group);

}  // namespace nf::loop
