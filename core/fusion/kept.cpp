// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/kept.h"

#include <algorithm>
#include <unordered_map>

namespace nf {
namespace {

constexpr std::size_t kDeepestInline = 48;
constexpr std::size_t kLargestInline = 2000;  // nodes of one expression after inlining

bool isCostly(ScalarOp op) { return isCall(op) || op == ScalarOp::Div || op == ScalarOp::Sqrt || op == ScalarOp::Rsqrt; }

}  // namespace

bool isCall(ScalarOp op) {
  switch (op) {
    case ScalarOp::Exp:
    case ScalarOp::Log:
    case ScalarOp::Tanh:
    case ScalarOp::Sigmoid:
    case ScalarOp::Erf:
    case ScalarOp::Sin:
    case ScalarOp::Cos:
    case ScalarOp::Pow: return true;
    default: return false;
  }
}

KeptFacts keptFactsOf(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  KeptFacts facts;
  facts.injective = op.kind == OperatorKind::Gather && op.reducer == Reducer::None;
  if (op.kind == OperatorKind::Loop) return facts;
  std::vector<ExprId> roots{op.body};
  for (const AccessIndex& index : op.scatter) roots.push_back(index.data);
  for (std::size_t r = 0; r < roots.size(); ++r) {
    for (const ExprId e : nodesOf(program, roots[r])) {
      ++facts.nodes;
      if (program[e].op == ScalarOp::Load) facts.loads.push_back(program[e].access);
      facts.costly = facts.costly || (r == 0 && isCostly(program[e].op));
    }
    if (r == 0) facts.ofBody = facts.loads.size();
  }
  return facts;
}

std::vector<bool> keptInGroup(const Program& p, std::span<const OperatorId> group,
                              const std::function<const KeptFacts&(OperatorId)>& facts, const std::function<bool(TensorId)>& leaves,
                              const std::function<bool(OperatorId, TensorId)>& inside) {
  std::unordered_map<std::uint32_t, std::size_t> makers;
  std::vector<bool> kept(group.size(), false);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const TensorId out = p[group[i]].output;
    if (out.valid()) makers.emplace(out.value, i);
    kept[i] = !out.valid() || leaves(out);
  }
  // Where the group makes what an access reads.
  const auto from = [&](std::size_t reader, AccessId access) {
    const TensorId t = p[access].tensor;
    const auto found = makers.find(t.value);
    return found == makers.end() || (inside && !inside(group[reader], t)) ? group.size() : found->second;
  };
  std::vector<std::size_t> depth(group.size(), 0), nodes(group.size(), 0);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const KeptFacts& own = facts(group[i]);
    if (!own.injective) kept[i] = true;
    nodes[i] = own.nodes;
    for (const AccessId access : own.loads) {
      const std::size_t made = from(i, access);
      if (made == group.size()) continue;
      const auto& indices = p[access].indices;
      if (std::any_of(indices.begin(), indices.end(), [](const AccessIndex& k) { return k.isData(); })) kept[made] = true;
      if (kept[made]) continue;
      depth[i] = std::max(depth[i], depth[made] + 1);
      nodes[i] += nodes[made];
    }
    if (depth[i] > kDeepestInline || nodes[i] > kLargestInline) kept[i] = true;
  }
  std::vector<double> evaluations(group.size(), 0);  // of what is not kept
  for (std::size_t i = group.size(); i-- > 0;) {
    const KeptFacts& own = facts(group[i]);
    const Operator& op = p[group[i]];
    if (!kept[i] && own.costly && evaluations[i] >= kKeptFrom * static_cast<double>(p[op.output].elements())) kept[i] = true;
    double points = 1;
    for (const Axis& axis : op.axes) points *= static_cast<double>(axis.extent);
    if (!kept[i]) points = evaluations[i];
    for (std::size_t k = 0; k < own.ofBody; ++k)
      if (const std::size_t made = from(i, own.loads[k]); made != group.size()) evaluations[made] += points;
  }
  return kept;
}

}  // namespace nf
