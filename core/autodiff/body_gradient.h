// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "core/ir/paths.h"

namespace nf {

// One access of a wanted tensor: dA[f(y)] += weight(y) for every y that satisfies the guards.
struct Occurrence {
  ExprId load;                    // the first of the merged loads
  std::vector<IndexCond> guards;  // a conjunction
  ExprId weight;                  // over the operator's variables; conditions on data stand in it as lazy selects
};

// A load of a wanted tensor whose value reaches the body's only through a node without slope, and why that has none.
struct FlatLoad {
  ExprId load, cut;
  const char* why;  // "floor has slope 0"
};

struct SweepResult {
  std::vector<Occurrence> occurrences;
  std::vector<FlatLoad> flat;
};

struct SweepRequest {
  ExprId body;
  ExprId adjoint;                   // of the body's value at a point
  std::vector<PathCondition> path;  // under which the adjoint holds (a max reduction's "this one is the best")
  std::function<bool(TensorId)> wanted;
  ExprId output;  // a load of the body's own value where the operator stores it exactly; may be invalid
};

// Reverse sweep over a body (design: autodiff, section 5): new nodes are appended to the program, over the same variables.
// Conditions of selects go to the path, never into the weight's arithmetic, so a branch that is not taken is never read.
SweepResult sweepBody(Program& program, const SweepRequest& request);

}  // namespace nf
