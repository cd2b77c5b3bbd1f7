// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <unordered_map>

#include "core/ir/program.h"

namespace nf {

// Copies expressions into a program (another one or the same), replacing index variables and accesses and folding what becomes
// constant: indices are simplified under `ranges`, conditions that the ranges decide become literals, scalar nodes go through Folding.
class ExprRewriter {
 public:
  ExprRewriter(const Program& from, Program& to) : m_from(from), m_to(to) {}
  std::function<std::optional<IndexExpr>(IndexVar)> variable;  // unset: same variables
  RangeOf ranges;                                              // of the variables that result; unset: nothing is simplified
  // Gets the access with its indices rewritten and the tensor of `from`; gives the access in `to`. Unset: same tensor.
  std::function<Access(Access)> access;
  std::function<std::optional<ExprId>(ExprId, const ScalarNode&)> node;  // a ready replacement in `to`; unset: none
  std::function<OriginId(OriginId)> origin;                              // unset: same id (tables share a prefix)

  ExprId rewrite(ExprId root);
  AccessIndex rewrite(const AccessIndex& index);
  IndexExpr rewrite(const IndexExpr& index) const;

 private:
  const Program& m_from;
  Program& m_to;
  std::unordered_map<std::uint32_t, ExprId> m_done;
};

// The condition with what the ranges decide folded away.
IndexCond simplify(const IndexCond& condition, const RangeOf& ranges);

// Drops the tensors with ids from `keep` on that no operator writes or reads and nothing names, here and in the bodies of loops (there
// with every id). Ids below `keep` stay. Returns by old id the new one.
std::vector<TensorId> dropUnusedTensors(Program& program, std::size_t keep);

// Brings the operators into a topological order that keeps their given order where it can: an operator moves behind what it reads.
// Returns by old id the new one; an empty list where operators wait for each other (the program is left as it was).
std::vector<OperatorId> sortOperators(Program& program);

// Copies origins of one table into another, each once.
class OriginImporter {
 public:
  OriginImporter(const Program& from, Program& to) : m_from(from), m_to(to) {}
  OriginId operator()(OriginId id);

 private:
  const Program& m_from;
  Program& m_to;
  std::unordered_map<std::uint32_t, OriginId> m_done;
};

// An operator of a loop's body as one of the program around it, with time as its first axis: it computes all steps.
//   before: (in `for t in 0..T`)  Z[b,n] = sum[i] W[n,i]*X[b,t,i]      after: Z[t,b,n] = sum[i] W[n,i]*X[b,t,i]
// tensor: the outer tensor of an inner one, and whether it has time as its first axis. The output is left for the caller to set.
struct OuterTensor {
  TensorId id;
  bool timed = false;
};
Operator liftOverTime(const Program& body, Program& outer, const Operator& op, const Loop& loop, OriginId loopOrigin,
                      const std::function<OuterTensor(TensorId)>& tensor, OriginImporter& import);

}  // namespace nf
