// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/ir/program.h"

namespace nf {

bool isCall(ScalarOp op);  // a function rather than an instruction or a few: exp, tanh, pow, ...

inline constexpr double kKeptFrom = 4;  // evaluations an element in place of which a costly value is kept

// What the rule below asks of an operator.
struct KeptFacts {
  std::vector<AccessId> loads;  // of its body, then of the indices that it scatters at
  std::size_t ofBody = 0;       // how many of them
  std::size_t nodes = 0;
  bool injective = false;
  bool costly = false;  // divisions or functions are in it
};
KeptFacts keptFactsOf(const Program& program, OperatorId op);

// The one rule for what a kernel computes once and keeps, in a tensor that leaves it or in memory of its own between its loops; all else
// is computed again at every place that reads it. By position in `group`, which is in program order. Kept are what leaves, all that is
// not injective, what is read at places that depend on data or would make too long an expression, and what is costly and read kKeptFrom
// times an element or more. Lowering (core/schedule/group.h) follows it, and fusion counts by it.
// inside: whether an operator of the group reads the tensor from the group; null: whatever the group makes.
std::vector<bool> keptInGroup(const Program& program, std::span<const OperatorId> group,
                              const std::function<const KeptFacts&(OperatorId)>& facts, const std::function<bool(TensorId)>& leaves,
                              const std::function<bool(OperatorId, TensorId)>& inside = {});

}  // namespace nf
