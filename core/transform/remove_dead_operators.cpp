// SPDX-License-Identifier: Apache-2.0
#include "core/transform/remove_dead_operators.h"

#include <algorithm>

#include "core/ir/rewrite.h"

namespace nf {
namespace {

constexpr std::size_t kDeepestLoop = 64;

// Drops operators that write nothing needed; `needed` is by tensor and grows by what the kept ones read.
Result<Unit> prune(Program& program, std::vector<bool>& needed, std::size_t depth);

// Drops what nobody uses of one loop: results, carried tensors that influence no result, operators of the body.
Result<Unit> pruneLoop(Loop& loop, const std::vector<bool>& needed, std::size_t depth) {
  if (depth > kDeepestLoop) return Error{"transform", "loops are nested deeper than 64", {}, {}};
  Program body = *loop.body;
  std::vector<bool> inner(body.tensors.size(), false);
  for (auto& c : loop.carried) {
    if (c.last.valid() && !needed[c.last.value]) c.last = {};
    if (c.last.valid()) inner[c.innerOut.value] = true;
  }
  std::erase_if(loop.stacked, [&](const auto& s) { return !needed[s.outer.value]; });
  std::erase_if(loop.accumulated, [&](const auto& a) { return !needed[a.outer.value]; });
  for (const auto& s : loop.stacked) inner[s.inner.value] = true;
  for (const auto& a : loop.accumulated) inner[a.inner.value] = true;
  // Through time: a carried tensor that is read needs its next value.
  std::vector<bool> live = inner;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t o = body.operators.size(); o-- > 0;) {
      const auto writes = writesOf(body, OperatorId(o));
      if (!std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return live[t.value]; })) continue;
      for (const TensorId t : readsOf(body, OperatorId(o))) live[t.value] = true;
    }
    for (const auto& c : loop.carried)
      if (live[c.innerIn.value] && !live[c.innerOut.value]) live[c.innerOut.value] = changed = true;
  }
  std::erase_if(loop.carried, [&](const auto& c) { return !c.last.valid() && !live[c.innerIn.value]; });
  for (const auto& c : loop.carried) live[c.innerOut.value] = true;
  auto pruned = prune(body, live, depth);
  if (!pruned) return pruned.error();
  std::erase_if(loop.invariants, [&](const auto& i) { return !live[i.inner.value]; });
  loop.body = std::make_shared<const Program>(std::move(body));
  return Unit{};
}

Result<Unit> prune(Program& program, std::vector<bool>& needed, std::size_t depth) {
  std::vector<Operator> kept;
  for (std::size_t o = program.operators.size(); o-- > 0;) {
    const OperatorId id(o);
    const auto writes = writesOf(program, id);
    if (!std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return needed[t.value]; })) continue;
    if (program[id].kind == OperatorKind::Loop)
      if (auto pruned = pruneLoop(program[program[id].loop], needed, depth + 1); !pruned) return pruned.error();
    for (const TensorId t : readsOf(program, id)) needed[t.value] = true;
    kept.push_back(program[id]);
  }
  std::reverse(kept.begin(), kept.end());
  program.operators = std::move(kept);
  return Unit{};
}

}  // namespace

Result<Program> removeDeadOperators(const Program& program) {
  Program result = program;
  std::vector<bool> needed(program.tensors.size(), false);
  const auto need = [&](TensorId t) {
    if (t.valid()) needed[t.value] = true;
  };
  for (const Output& o : program.outputs) need(o.tensor);
  for (const Update& u : program.updates) need(u.value);
  for (const Derivative& d : program.derivatives) {
    need(d.of);
    need(d.wrt);
    need(d.seed);
  }
  NF_TRY([[maybe_unused]] const Unit pruned, prune(result, needed, 0));
  // Given tensors keep their place even where nobody reads them: their values are bound by name.
  const std::vector<OperatorId> made = producers(result);
  for (std::size_t t = 0; t < result.tensors.size(); ++t)
    if (result.tensors[t].kind != TensorKind::Intermediate) result.outputs.push_back({{}, TensorId(t), OutputRole::Named});
  const std::size_t extra = result.outputs.size() - program.outputs.size();
  dropUnusedTensors(result, 0);
  result.outputs.resize(result.outputs.size() - extra);
  return result;
}

}  // namespace nf
