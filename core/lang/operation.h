// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ir/rewrite.h"
#include "core/lang/statement.h"

namespace nf::lang {

// The operator that emit() is making of a statement's terms.
struct Statement::Operation {
  std::vector<IndexVar> axes;           // statement variables, output first
  std::vector<std::uint32_t> position;  // of a statement variable among the axes; kNone: none
  bool identity = true;                 // the axes are variables 0, 1, ..
  std::vector<std::pair<TermId, ExprId>> done;
  std::vector<std::pair<ExprId, TermId>> loads;
  struct Turn {  // into an arm of a select, or to what stands behind `else`
    TermId at;
    bool holds;
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  std::unordered_map<TermId, std::vector<Turn>> turns;  // of nested reductions: those that every way to them takes, outermost first
  std::unordered_map<TermId, ExprId> conditions;        // by the term of a turn: emitted
  std::vector<PathCondition> path;                      // under which all of this is wanted
  std::unordered_map<std::uint64_t, ExprId> memo;       // by term and, of a soft one or one of an index, type
  std::unordered_map<std::uint32_t, Range> wide;        // of i64 nodes, whatever the i32 are that they read
  const std::vector<Variable>* variables = nullptr;

  void index(std::size_t variableCount) {
    position.assign(variableCount, ast::kNone);
    identity = true;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      position[axes[i]] = static_cast<std::uint32_t>(i);
      identity = identity && axes[i] == i;
    }
  }
  // `known`: the axes' ranges. A function's arithmetic is simplified under them, `k // (K // groups)` for one group is 0;
  // what a person writes in place stays as it is.
  IndexExpr map(const IndexExpr& e, const RangeOf& known, bool expanded) const {
    const IndexExpr simple = expanded && e.floorDivCount() > 0 ? simplify(e, known) : e;
    if (identity || simple.isConstant()) return simple;
    return substitute(simple, [this](IndexVar v) -> std::optional<IndexExpr> {
      if (v >= position.size()) return std::nullopt;
      return IndexExpr::variable(position[v]);
    });
  }
};

// `value` where all of the path holds, else 0.
ExprId underPath(Program& program, const std::vector<PathCondition>& path, ExprId value, OriginId origin);

}  // namespace nf::lang
