// SPDX-License-Identifier: Apache-2.0
#include "core/transform/merge_equal_operators.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "core/ir/rewrite.h"
#include "core/transform/join_origins.h"

namespace nf {
namespace {

constexpr std::size_t kDeepestLoop = 64;

// What an operator computes from which tensors; names, origins and ids of nodes do not count, but for the loss of a seed.
Hash keyOf(const Program& program, const Operator& op) {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(op.kind)).add(static_cast<std::uint64_t>(op.reducer)).add(op.tiesEven ? 1 : 0);
  hasher.add(op.outputRank).add(op.axes.size());
  for (const Axis& axis : op.axes) hasher.add(static_cast<std::uint64_t>(axis.extent));
  const Tensor& out = program[op.output];
  hasher.add(static_cast<std::uint64_t>(out.type)).add(out.shape.size());
  for (const std::int64_t extent : out.shape) hasher.add(static_cast<std::uint64_t>(extent));
  for (const std::uint32_t axis : out.layout.order) hasher.add(axis);
  std::unordered_map<std::uint32_t, std::uint64_t> number;
  bool reads = false;
  const auto expression = [&](ExprId root) {
    for (const ExprId id : nodesOf(program, root)) {
      if (!number.emplace(id.value, number.size()).second) continue;
      const ScalarNode& n = program[id];
      hasher.add(static_cast<std::uint64_t>(n.op)).add(static_cast<std::uint64_t>(n.type)).addReal(n.value);
      for (int k = 0; k < info(n.op).arity; ++k) hasher.add(number.at(n.operands[k].value));
      if (n.index.valid()) program[n.index].addTo(hasher);
      if (!n.access.valid()) continue;
      reads = true;
      const Access& access = program[n.access];
      hasher.add(access.tensor.value);
      for (const AccessIndex& index : access.indices) {
        hasher.add(index.isData() ? 1 : 0);
        if (index.isData()) hasher.add(number.at(index.data.value));
        else index.affine.addTo(hasher);
      }
    }
    hasher.add(number.at(root.value));
  };
  expression(op.body);
  for (const AccessIndex& index : op.scatter) {
    hasher.add(index.isData() ? 1 : 0);
    if (index.isData()) expression(index.data);
    else index.affine.addTo(hasher);
  }
  // d(L)/d(S) = 1 where L is S + ..: the same number for every loss, and no part of what another one trains.
  if (const std::size_t of = out.name.find(")/d("); !reads && of != std::string::npos && out.name.starts_with("d("))
    hasher.add(std::string_view(out.name).substr(0, of));
  return hasher.finish();
}

// Of two operators with one key: what computes either of them now comes from both, part by part.
void joinOrigins(Program& program, Operator& kept, const Operator& gone) {
  const auto join = [&](OriginId& to, OriginId from) { joinOrigins(program, "merge_equal_operators", to, from); };
  join(kept.origin, gone.origin);
  join(program.tensors[kept.output.value].origin, program[gone.output].origin);
  for (std::size_t i = 0; i < kept.axes.size(); ++i) join(kept.axes[i].origin, gone.axes[i].origin);
  const auto joinNodes = [&](ExprId to, ExprId from) {
    const std::vector<ExprId> here = nodesOf(program, to), there = nodesOf(program, from);
    for (std::size_t i = 0; i < here.size(); ++i) join(program.scalars[here[i].value].origin, program[there[i]].origin);
  };
  joinNodes(kept.body, gone.body);
  for (std::size_t i = 0; i < kept.scatter.size(); ++i)
    if (kept.scatter[i].isData()) joinNodes(kept.scatter[i].data, gone.scatter[i].data);
}

std::vector<TensorId> themselves(const Program& program) {
  std::vector<TensorId> tensors;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) tensors.emplace_back(t);
  return tensors;
}

// `replaced`: by tensor, the one that stands for it; what is merged is added.
Result<Unit> merge(Program& program, std::vector<TensorId>& replaced, MergedNames& names, const Names& preferred,
                   std::size_t depth) {
  if (depth > kDeepestLoop) return Error{"transform", "loops are nested deeper than 64", {}, {}};
  const auto now = [&](TensorId& t) {
    if (t.valid()) t = replaced[t.value];
  };
  std::unordered_map<Hash, std::size_t> known;
  std::vector<Operator> kept;
  for (Operator& op : program.operators) {
    if (op.kind == OperatorKind::Loop) {
      Loop& loop = program[op.loop];
      for (auto& c : loop.carried) now(c.initial);
      for (auto& i : loop.invariants) now(i.outer);
      Program body = *loop.body;
      std::vector<TensorId> inner = themselves(body);
      // What is one tensor outside is one inside.
      std::unordered_map<std::uint32_t, TensorId> known;
      std::erase_if(loop.invariants, [&](const Loop::Invariant& i) {
        const auto [at, isNew] = known.emplace(i.outer.value, i.inner);
        if (!isNew) inner[i.inner.value] = at->second;
        return !isNew;
      });
      auto merged = merge(body, inner, names, {}, depth + 1);
      if (!merged) return merged.error();
      for (auto& c : loop.carried) c.innerOut = inner[c.innerOut.value];
      for (auto& s : loop.stacked) s.inner = inner[s.inner.value];
      for (auto& a : loop.accumulated) a.inner = inner[a.inner.value];
      loop.body = std::make_shared<const Program>(std::move(body));
      kept.push_back(std::move(op));
      continue;
    }
    const auto rename = [&](ExprId root) {
      for (const ExprId id : nodesOf(program, root))
        if (program[id].access.valid()) now(program.accesses[program[id].access.value].tensor);
    };
    rename(op.body);
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) rename(index.data);
    const auto [at, isNew] = known.emplace(keyOf(program, op), kept.size());
    if (isNew) {
      kept.push_back(std::move(op));
      continue;
    }
    Operator& first = kept[at->second];
    replaced[op.output.value] = first.output;
    std::string &stays = program.tensors[first.output.value].name, &goes = program.tensors[op.output.value].name;
    if (preferred.contains(goes) && !preferred.contains(stays)) {
      for (auto& [gone, standing] : names)
        if (standing == stays) standing = goes;
      std::swap(stays, goes);
      std::swap(first.name, op.name);
    }
    names.emplace(goes, stays);
    joinOrigins(program, first, op);
    // What the forward pass needs too is no longer a matter of the backward pass alone.
    first.phase = std::min(first.phase, op.phase);
  }
  program.operators = std::move(kept);
  for (Derivative& d : program.derivatives)
    for (TensorId* t : {&d.of, &d.wrt, &d.seed}) now(*t);
  for (Update& u : program.updates) now(u.value);
  for (Output& o : program.outputs) now(o.tensor);
  return Unit{};
}

}  // namespace

Result<Program> mergeEqualOperators(const Program& program, MergedNames* asked, const Names& preferred) {
  Program result = program;
  std::vector<TensorId> replaced = themselves(result);
  MergedNames names;
  NF_TRY([[maybe_unused]] const Unit merged, merge(result, replaced, names, preferred, 0));
  // A hint goes on to mean the operator that computes what it names.
  for (Hint& hint : result.hints)
    for (std::string& tensor : hint.tensors)
      if (const auto kept = names.find(tensor); kept != names.end()) tensor = kept->second;
  dropUnusedTensors(result, 0);
  if (asked) *asked = std::move(names);
  return result;
}

void adoptMergedOrigins(Program& program, const Program& around, const MergedNames& merged) {
  std::set<std::string_view> standing;
  for (const auto& [gone, kept] : merged) standing.insert(kept);
  const std::vector<OperatorId> made = producers(program), madeThere = producers(around);
  OriginImporter import(around, program);
  const auto adopt = [&](OriginId& to, OriginId from) {
    if (from.valid()) to = import(from);
  };
  const auto adoptNodes = [&](ExprId to, ExprId from) {
    const std::vector<ExprId> here = nodesOf(program, to), there = nodesOf(around, from);
    for (std::size_t i = 0; i < here.size() && here.size() == there.size(); ++i)
      adopt(program.scalars[here[i].value].origin, around[there[i]].origin);
  };
  for (const std::string_view name : standing) {
    const TensorId t = program.tensorNamed(name), there = around.tensorNamed(name);
    if (!t.valid() || !there.valid() || !made[t.value].valid() || !madeThere[there.value].valid()) continue;
    Operator& op = program[made[t.value]];
    const Operator& from = around[madeThere[there.value]];
    if (op.kind != from.kind || op.kind == OperatorKind::Loop) continue;
    adopt(op.origin, from.origin);
    adopt(program.tensors[t.value].origin, around[there].origin);
    for (std::size_t i = 0; i < op.axes.size() && op.axes.size() == from.axes.size(); ++i)
      adopt(op.axes[i].origin, from.axes[i].origin);
    adoptNodes(op.body, from.body);
    for (std::size_t i = 0; i < op.scatter.size() && op.scatter.size() == from.scatter.size(); ++i)
      if (op.scatter[i].isData() && from.scatter[i].isData()) adoptNodes(op.scatter[i].data, from.scatter[i].data);
  }
}

}  // namespace nf
