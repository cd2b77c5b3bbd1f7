// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kernel_failure.h"

#include <algorithm>

#include "core/syntax/token.h"
#include "core/tune/trial.h"

namespace nf {
namespace {

struct Launch {
  const Program* program = nullptr;
  const std::vector<OperatorId>* operators = nullptr;
};

// The first that runs the subgraph.
Launch launchOf(const PlannedSequence& sequence, std::uint32_t subgraph) {
  for (const PlannedLaunch& launch : sequence.launches)
    if (launch.subgraph == subgraph) return {sequence.program.get(), &launch.operators};
  for (const PlannedLoop& loop : sequence.loops)
    if (const Launch inside = launchOf(*loop.body, subgraph); inside.program) return inside;
  return {};
}

// The operator whose result the gate's sentence begins with: `t[3] is ..`. The last one where it names none.
OperatorId refusedOperator(const Launch& launch, const std::string& sentence) {
  const Program& p = *launch.program;
  for (const OperatorId op : *launch.operators)
    for (const TensorId t : writesOf(p, op))
      if (t.valid() && sentence.starts_with(p[t].name + "[")) return op;
  return launch.operators->back();
}

// Two of the kernel's tensors, the first read by the operator of the second, one of them this operator's: what a hint can part.
std::string partedBy(const Launch& launch, OperatorId refused) {
  const Program& p = *launch.program;
  const std::vector<OperatorId> made = producers(p);
  const auto isInside = [&](OperatorId op) {
    return op.valid() && std::find(launch.operators->begin(), launch.operators->end(), op) != launch.operators->end();
  };
  const auto hint = [&](TensorId from, OperatorId to) {
    return "`hint split " + quotedName(p[from].name) + ", " + quotedName(p[p[to].output].name) + "`, ";
  };
  for (const TensorId t : readsOf(p, refused))
    if (isInside(made[t.value]) && made[t.value] != refused) return hint(t, refused);
  for (const OperatorId reader : *launch.operators)
    for (const TensorId t : readsOf(p, reader))
      if (made[t.value] == refused && reader != refused) return hint(t, reader);
  return {};
}

}  // namespace

Error missingKernel(const ExecutionPlan& plan, std::uint32_t subgraph, const Error& why, Span& place) {
  Error error = why;
  error.message = "No kernel for " + plan.subgraphs[subgraph].name + ": " + why.message;
  const Launch launch = launchOf(plan.main, subgraph);
  if (!launch.program || launch.operators->empty()) return error;
  const OperatorId op = refusedOperator(launch, why.message);
  if (const OriginId origin = (*launch.program)[op].origin; origin.valid()) place = (*launch.program)[origin].span;
  if (why.stage == kGateStage && why.message.find(" expected ") != std::string::npos)
    error.message += ". That is more than rounding explains; what helps is " + partedBy(launch, op) +
                     "the type `: f64` for what it is computed from, or the device `reference`";
  return error;
}

}  // namespace nf
