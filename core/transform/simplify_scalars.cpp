// SPDX-License-Identifier: Apache-2.0
#include "core/transform/simplify_scalars.h"

#include <algorithm>
#include <unordered_map>

#include "core/ir/folding.h"
#include "core/ir/paths.h"
#include "core/ir/rewrite.h"
#include "core/transform/join_origins.h"

namespace nf {
namespace {

constexpr std::size_t kDeepestLoop = 64;

// Conditions that hold wherever a node is evaluated: the intersection over all ways to it.
using Known = std::vector<std::pair<ExprId, bool>>;

class Simplification {
 public:
  Simplification(Program& program, std::vector<std::int64_t> trips, std::optional<bool> training)
      : m_program(program), m_trips(std::move(trips)), m_training(training) {}

  Result<Unit> run() {
    if (m_trips.size() > kDeepestLoop) return Error{"transform", "loops are nested deeper than 64", {}, {}};
    for (Operator& op : m_program.operators) {
      if (op.kind == OperatorKind::Loop) {
        Loop& loop = m_program[op.loop];
        Program body = *loop.body;
        std::vector<std::int64_t> trips = m_trips;
        trips.push_back(loop.trips);
        auto simplified = Simplification(body, std::move(trips), m_training).run();
        if (!simplified) return simplified.error();
        loop.body = std::make_shared<const Program>(std::move(body));
        continue;
      }
      m_unique.clear();
      ExprRewriter rewriter(m_program, m_program);
      rewriter.ranges = rangesOf(op, m_trips);
      rewriter.node = [&](ExprId, const ScalarNode& n) -> std::optional<ExprId> {
        if (n.op != ScalarOp::Training || !m_training) return std::nullopt;
        return m_program.constant(*m_training ? 1 : 0, DType::Bool, n.origin);
      };
      op.body = proved(shared(rewriter.rewrite(op.body)));
      for (AccessIndex& index : op.scatter)
        index = index.isData() ? AccessIndex{{}, unwidened(shared(rewriter.rewrite(index.data)))} : rewriter.rewrite(index);
      if (op.kind == OperatorKind::Scatter && isZero(op.body)) becomeZeros(op);
    }
    return Unit{};
  }

 private:
  bool isZero(ExprId id) const { return m_program[id].op == ScalarOp::Constant && m_program[id].value == 0; }

  // With the guard that no point passes went what kept its indices from being looked up.
  void becomeZeros(Operator& op) const {
    const std::vector<std::int64_t>& shape = m_program[op.output].shape;
    op.kind = OperatorKind::Gather;
    op.reducer = Reducer::None;
    op.tiesEven = false;
    op.scatter.clear();
    op.axes.clear();
    for (std::size_t k = 0; k < shape.size(); ++k) op.axes.push_back({"z" + std::to_string(k), shape[k], op.origin});
    op.outputRank = static_cast<std::uint32_t>(shape.size());
  }

  // An i32 alone needs no 64 bits to be an index.
  ExprId unwidened(ExprId index) const {
    const ScalarNode& n = m_program[index];
    return n.op == ScalarOp::Cast && n.type == DType::I64 && m_program[n.operands[0]].type == DType::I32 ? n.operands[0] : index;
  }

  // One node for equal ones, which came from all of their places.
  ExprId shared(ExprId root) {
    std::unordered_map<std::uint32_t, ExprId> same;
    for (const ExprId id : nodesOf(m_program, root)) {
      ScalarNode n = m_program[id];
      Hasher hasher;
      hasher.add(static_cast<std::uint64_t>(n.op)).add(static_cast<std::uint64_t>(n.type)).addReal(n.value);
      bool changed = false;
      for (int k = 0; k < info(n.op).arity; ++k) {
        const ExprId operand = same.at(n.operands[k].value);
        changed = changed || operand != n.operands[k];
        n.operands[k] = operand;
        hasher.add(operand.value);
      }
      if (n.index.valid()) m_program[n.index].addTo(hasher);
      if (n.access.valid()) {
        Access access = m_program[n.access];
        hasher.add(access.tensor.value);
        bool moved = false;
        for (AccessIndex& index : access.indices) {
          if (index.isData()) {
            const ExprId data = unwidened(same.at(index.data.value));
            moved = moved || data != index.data;
            index.data = data;
          }
          hasher.add(index.isData() ? index.data.value : 0xffffffffu);
          index.affine.addTo(hasher);
        }
        if (moved) {
          m_program.accesses.push_back(std::move(access));
          n.access = AccessId(m_program.accesses.size() - 1);
          changed = true;
        }
      }
      const auto [at, isNew] = m_unique.emplace(hasher.finish(), id);
      if (isNew && changed) {
        m_program.scalars.push_back(n);
        at->second = ExprId(m_program.scalars.size() - 1);
      }
      if (!isNew) joinOrigins(m_program, "simplify_scalars", m_program.scalars[at->second.value].origin, n.origin);
      same.emplace(id.value, at->second);
    }
    return same.at(root.value);
  }

  // Replaces selects whose condition every way to them has decided: select(c, select(c, a, b), d) is select(c, a, d).
  ExprId proved(ExprId root) {
    const std::vector<ExprId> order = nodesOf(m_program, root);
    std::unordered_map<std::uint32_t, std::optional<Known>> known;
    known[root.value] = Known{};
    const auto reach = [&](ExprId id, Known facts) {
      auto& all = known[id.value];
      if (!all) {
        all = std::move(facts);
        return;
      }
      std::erase_if(*all, [&](const auto& fact) { return std::find(facts.begin(), facts.end(), fact) == facts.end(); });
    };
    std::unordered_map<std::uint32_t, bool> decided;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const ScalarNode& n = m_program[*it];
      const Known facts = *known[it->value];
      if (n.op != ScalarOp::Select) {
        for (int k = 0; k < info(n.op).arity; ++k) reach(n.operands[k], facts);
        if (n.op == ScalarOp::Load)
          for (const AccessIndex& index : m_program[n.access].indices)
            if (index.isData()) reach(index.data, facts);
        continue;
      }
      const auto fact = std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return f.first == n.operands[0]; });
      if (fact != facts.end()) {
        decided[it->value] = fact->second;
        reach(n.operands[0], facts);
        reach(n.operands[1], facts);
        reach(n.operands[2], facts);
        continue;
      }
      reach(n.operands[0], facts);
      for (const bool holds : {true, false}) {
        Known more = facts;
        if (more.size() < 64) more.emplace_back(n.operands[0], holds);
        reach(n.operands[holds ? 1 : 2], std::move(more));
      }
    }
    if (decided.empty()) return root;
    ExprRewriter rewriter(m_program, m_program);
    rewriter.node = [&](ExprId id, const ScalarNode& n) -> std::optional<ExprId> {
      const auto found = decided.find(id.value);
      if (found == decided.end()) return std::nullopt;
      const ExprId branch = n.operands[found->second ? 1 : 2];
      if (m_program[branch].type != n.type) return std::nullopt;
      return rewriter.rewrite(branch);
    };
    return rewriter.rewrite(root);
  }

  Program& m_program;
  std::vector<std::int64_t> m_trips;
  std::optional<bool> m_training;
  std::unordered_map<Hash, ExprId> m_unique;
};

}  // namespace

Result<Program> simplifyScalars(const Program& program, std::optional<bool> training) {
  Program result = program;
  NF_TRY([[maybe_unused]] const Unit done, Simplification(result, {}, training).run());
  return result;
}

}  // namespace nf
