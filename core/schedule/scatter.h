// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <vector>

#include "core/schedule/group.h"

namespace nf::loop {

// The store of a scatter: the guards peeled off its body, and the value.
struct ScatterParts {
  std::vector<ExprId> guards;
  ExprId value;
};
ScatterParts partsOf(const Program& program, const Operator& op);
// When the store happens: the guards hold and the affine places lie inside the output. Invalid: always. axes: of the operator.
ValueId storeGuard(const Program& program, OperatorId id, const ScatterParts& parts, const std::vector<IndexExpr>& axes,
                   Function& function, BodyLowering& body);

// Axes of the operator that the places by data depend on.
std::set<std::size_t> axesOfData(const Program& program, const Operator& op);

// Of an expression of the operator: does it use these axes alone, and counters of loops around it?
bool dependsOnlyOn(const Program& program, const Operator& op, ExprId root, const std::set<std::size_t>& axes);

// Can the points of a scatter be sorted by the place that data gives them? Then they are counted by place, kept in that order (stable, so
// sums have the order of the points), and each place sums up its own segment: places run in parallel, meet nobody and need no atomics, and
// the result is bit-identical to the scatter's in the order of the points, whatever the number of threads.
//   dE[I[n], j] += W(n, j)      before: for j parallel: for n: dE[I[n], j] += W(n, j)
//   after : start[v], rank[n] by counting I;  S[rank[n], j] = W(n, j);  for v, j parallel: dE[v, j] = sum over start[v] <= p < start[v+1] of S[p, j]
bool sortsPoints(const Program& program, const Operator& op);

// Is there no pair of points of different values of `v` whose affine places in the scatter's output are equal? axes: of the operator,
// in variables of `ranges`. Asked of isl; unknown means no.
bool iterationsNeverMeet(const Operator& op, const std::vector<IndexExpr>& axes, IndexVar v, const RangeOf& ranges);

}  // namespace nf::loop
