// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/persist_loops.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/ir/structural_hash.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

// Of one step, by the first schedules of the body's kernels; nullopt: not known.
std::optional<double> secondsOfStep(const Program& body, const Target& target) {
  const SubgraphExtractor extractor(body);
  double seconds = 0;
  for (const Group& group : body.groups) {
    const auto space = scheduleSpace(extractor.extract(group.operators, false).program, target);
    if (!space) return std::nullopt;
    seconds += (*space)->estimateSeconds((*space)->first());
  }
  return seconds;
}

bool pinsKernelOf(const Program& body, const std::vector<Hint>& hints) {
  return std::any_of(body.groups.begin(), body.groups.end(),
                     [&](const Group& group) { return pinOf(hints, body, group.operators) != nullptr; });
}

bool persists(const Program& program, OperatorId id, const std::vector<Hint>& hints, const Target& target) {
  const auto space = scheduleSpace(SubgraphExtractor(program).extract({id}, false).program, target);
  if (!space) return false;
  if (pinOf(hints, program, {id})) return true;
  const Loop& loop = program[program[id].loop];
  if (pinsKernelOf(*loop.body, hints)) return false;
  const auto step = secondsOfStep(*loop.body, target);
  return step && (*space)->estimateSeconds((*space)->first()) < static_cast<double>(loop.trips) * *step;
}

Program persistAt(Program result, const std::vector<Hint>& hints, const Target& target) {
  for (std::size_t o = 0; o < result.operators.size(); ++o) {
    if (result.operators[o].kind != OperatorKind::Loop) continue;
    const OperatorId id(o);
    const bool persistent = persists(result, id, hints, target);
    Loop& loop = result[result[id].loop];
    loop.persistent = persistent;
    if (!persistent) loop.body = std::make_shared<const Program>(persistAt(*loop.body, hints, target));
  }
  return result;
}

}  // namespace

Program persistLoops(Program fused, const Target& target) {
  if (target.backend != "cuda" || fused.loops.empty()) return fused;
  const std::vector<Hint> hints = fused.hints;
  return persistAt(std::move(fused), hints, target);
}

}  // namespace nf
