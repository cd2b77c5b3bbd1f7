// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// The condition as index arithmetic alone; nullopt where it depends on data.
std::optional<IndexCond> asIndexCond(const Program& program, ExprId condition);

// A load, and what index conditions of the selects above it promise wherever it is read. Select is lazy, so these hold
// whenever the load happens; conditions on data are left out. A load that is reached on several paths stands once a path.
struct GuardedLoad {
  ExprId load;
  std::vector<IndexCond> guards;  // a conjunction
};

// In order of evaluation. Paths to one shared node beyond 64 are merged into one without guards (weaker, still true).
std::vector<GuardedLoad> guardedLoads(const Program& program, ExprId root);

// A condition on the way from an operator's body to a node: index arithmetic, or an expression on data.
struct PathCondition {
  std::optional<IndexCond> index;
  ExprId data;        // valid where `index` is not set
  bool holds = true;  // of data: false means its negation
  friend bool operator==(const PathCondition&, const PathCondition&) = default;
};

// The conjuncts of a condition (or of its negation), those of pure index arithmetic as such.
std::vector<PathCondition> pathOf(const Program& program, ExprId condition, bool holds);
// value where the conditions hold, else 0; lazily, the first condition outermost.
ExprId guarded(Program& program, const std::vector<PathCondition>& path, ExprId value);

}  // namespace nf
