// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/schedule_check.h"

#include <algorithm>
#include <optional>

#include "core/fusion/site.h"
#include "core/ir/structural_hash.h"
#include "core/runtime/evaluation_check.h"
#include "core/runtime/step_program.h"
#include "core/syntax/token.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

// The group that writes what the hint names, and the program, a loop's body maybe, that it stands in.
struct PinnedGroup {
  const Program* program = nullptr;
  const Group* group = nullptr;
};

// A loop's body may have a name of the program around it: then there are several.
void groupsOf(const Program& program, const Hint& hint, std::vector<PinnedGroup>& into) {
  for (const Group& group : program.groups) {
    const Operator& first = program[group.operators.front()];
    if (pinOf({hint}, program, group.operators)) into.push_back({&program, &group});
    else if (first.kind == OperatorKind::Loop)
      if (const Loop& loop = program[first.loop]; loop.body && !loop.body->groups.empty()) groupsOf(*loop.body, hint, into);
  }
}

bool isMade(const Program& program, const Hint& hint) {
  std::vector<PinnedGroup> groups;
  groupsOf(program, hint, groups);
  return !groups.empty();
}

Result<Schedule> pinned(const PinnedGroup& at, const Hint& hint, const Target& target) {
  return pinnedSchedule(hint, SubgraphExtractor(*at.program).extract(at.group->operators).program, &target);
}

// The first of them that cannot have the schedule; nothing: all can, or there is none.
std::optional<PinnedGroup> misfit(const Program& program, const Hint& hint, const Target& target) {
  std::vector<PinnedGroup> groups;
  groupsOf(program, hint, groups);
  for (const PinnedGroup& at : groups)
    if (!pinned(at, hint, target)) return at;
  return std::nullopt;
}

// The tensors of a kernel that one of its operators writes and another one reads, each with that one's, as the program had them before
// anything was computed again.
using Edges = std::set<std::pair<std::string, std::string>>;
Edges edgesOf(const PinnedGroup& at) {
  const Program& p = *at.program;
  const std::vector<OperatorId> made = producers(p);
  Edges edges;
  for (const OperatorId reader : at.group->operators)
    for (const TensorId t : readsOf(p, reader)) {
      const OperatorId from = made[t.value];
      if (from.valid() && from != reader &&
          std::find(at.group->operators.begin(), at.group->operators.end(), from) != at.group->operators.end())
        edges.emplace(originalName(p[t].name), originalName(p[writesOf(p, reader).front()].name));
    }
  return edges;
}

std::string hintsTowards(const Edges& here, const Edges& there) {
  std::string text;
  const auto add = [&](const char* word, const Edges& from, const Edges& less) {
    for (const auto& [producer, consumer] : from)
      if (!less.contains({producer, consumer}))
        text += std::string(text.empty() ? "`hint " : ", `hint ") + word + " " + quotedName(producer) + ", " +
                quotedName(consumer) + "`";
  };
  add("fuse", there, here);
  add("split", here, there);
  return text;
}

// Another fusion of the program, as a device of other figures has it, whose kernel can have the schedule: its hints.
std::optional<std::string> pinnedElsewhere(const Stages& stages, const StageOptions& options, const Target& target,
                                           const Hint& hint, const PinnedGroup& here) {
  // Nothing fused, then P_d as far away as machines are, the nearest first.
  for (const double factor : {0.0, 0.7, 1.4, 0.5, 2.0, 0.25, 4.0, 0.125, 8.0, 0.0625, 16.0}) {
    StageOptions other = options;
    other.device.bandwidth *= factor;
    const auto fused = factor > 0 ? fusedAgain(stages, other) : Result<Stages>(stages);
    if (!fused) return std::nullopt;
    const Program& program = factor > 0 ? *fused->fused : *stages.partitioned;
    std::vector<PinnedGroup> there;
    groupsOf(program, hint, there);
    if (!there.empty() && !misfit(program, hint, target)) return hintsTowards(edgesOf(here), edgesOf(there.front()));
  }
  return std::nullopt;
}

}  // namespace

std::set<std::string> pinsOf(const Stages& stages) {
  std::set<std::string> tensors;
  if (!stages.partitioned) return tensors;
  for (const Hint& hint : stages.partitioned->hints) {
    if (hint.kind != Hint::Kind::Schedule) continue;
    if (isMade(*stages.partitioned, hint) || (stages.fused && isMade(*stages.fused, hint))) tensors.insert(hint.tensors.front());
  }
  return tensors;
}

PinFindings checkPins(const Stages& stages, const StageOptions& options, const Target& target,
                      const std::set<std::string>& ofOthers) {
  PinFindings findings;
  if (!stages.fused) return findings;
  const Program& program = *stages.fused;
  for (std::size_t i = 0; i < program.hints.size(); ++i) {
    const Hint& hint = program.hints[i];
    if (hint.kind != Hint::Kind::Schedule) continue;
    const auto wrong = misfit(program, hint, target);
    if (!wrong) continue;
    const PinnedGroup& here = *wrong;
    const auto schedule = pinned(here, hint, target);
    if (ofOthers.contains(hint.tensors.front())) {
      findings.setAside.push_back(i);
      continue;
    }
    Diagnostic d;
    d.code = "schedule";
    d.message = schedule.error().message;
    if (hint.origin.valid()) d.span = program[hint.origin].span;
    if (!schedule.error().detail.empty()) d.notes.push_back({schedule.error().detail, {}});
    const bool loop = (*here.program)[here.group->operators.front()].kind == OperatorKind::Loop;
    if (loop && isStepped(*here.program, *here.group)) {
      d.severity = Severity::Warning;
      d.notes.push_back({"its body's operators are kernels here, and the schedule is set aside", {}});
      findings.setAside.push_back(i);
    }
    if (loop) {
      findings.diagnostics.push_back(std::move(d));
      continue;
    }
    if (const auto hints = pinnedElsewhere(stages, options, target, hint, here)) {
      d.severity = Severity::Warning;
      d.message = "the fusion decided here has no kernel with this schedule, which is set aside: " + here.group->name + " makes `" +
                  hint.tensors.front() + "` here";
      d.notes.push_back({(hints->empty() ? ""
                                         : *hints + (hints->find(", `") == std::string::npos ? " keeps" : " keep") +
                                               " the kernel that it is for; ") +
                             schedule.error().message,
                         {}});
      findings.setAside.push_back(i);
    }
    findings.diagnostics.push_back(std::move(d));
  }
  return findings;
}

std::shared_ptr<const Program> withoutSetAside(std::shared_ptr<const Program> fused, const PinFindings& pins) {
  if (pins.setAside.empty()) return fused;
  Program program = *fused;
  for (std::size_t i = pins.setAside.size(); i-- > 0;)
    program.hints.erase(program.hints.begin() + static_cast<std::ptrdiff_t>(pins.setAside[i]));
  return std::make_shared<const Program>(std::move(program));
}

namespace {

void addNew(Diagnostics& to, Diagnostics found) {
  for (Diagnostic& d : found)
    if (std::none_of(to.begin(), to.end(), [&](const Diagnostic& o) { return o.span == d.span && o.message == d.message; }))
      to.push_back(std::move(d));
}

// What `problems` finds in the fused program of each training step, or in what the notebook computes where it trains nothing; each once.
// Nothing without a hint of this kind.
template <class Problems>
Diagnostics ofFusedPrograms(const CompiledNotebook& notebook, const StageOptions& options, Hint::Kind kind, Problems problems) {
  Diagnostics diagnostics;
  const std::vector<Hint>& hints = notebook.program.hints;
  if (std::none_of(hints.begin(), hints.end(), [&](const Hint& h) { return h.kind == kind; })) return diagnostics;
  for (std::size_t train = 0; train < std::max<std::size_t>(notebook.trains.size(), 1); ++train) {
    const auto stages = runStages(std::make_shared<const Program>(decidedProgram(notebook, train)), options);
    if (!stages || hasErrors(stages->diagnostics)) continue;  // somebody else says so
    addNew(diagnostics, problems(*stages));
  }
  return diagnostics;
}

}  // namespace

Diagnostics checkSchedules(const CompiledNotebook& notebook, const CompileOptions& compile, const StageOptions& options,
                           const Target& target, std::set<std::string>* ofSteps) {
  std::set<std::string> pins;
  Diagnostics diagnostics = ofFusedPrograms(notebook, options, Hint::Kind::Schedule, [&](const Stages& stages) {
    pins.merge(pinsOf(stages));
    return checkPins(stages, options, target).diagnostics;
  });
  addNew(diagnostics, checkSchedulesOutsideSteps(notebook, compile, options, target, pins));
  if (ofSteps) *ofSteps = std::move(pins);
  return diagnostics;
}

Diagnostics checkSchedulesOutsideSteps(const CompiledNotebook& notebook, const CompileOptions& compile, const StageOptions& options,
                                       const Target& target, const std::set<std::string>& ofSteps) {
  Diagnostics diagnostics;
  std::set<std::string> seen = ofSteps;
  const auto allSeen = [&] {
    const std::vector<Hint>& hints = notebook.program.hints;
    return std::none_of(hints.begin(), hints.end(),
                        [&](const Hint& h) { return h.kind == Hint::Kind::Schedule && !seen.contains(h.tensors.front()); });
  };
  const auto check = [&](Program program) {
    const auto stages = runStages(std::make_shared<const Program>(std::move(program)), options);
    if (!stages || hasErrors(stages->diagnostics)) return;  // somebody else says so
    addNew(diagnostics, checkPins(*stages, options, target, seen).diagnostics);
    seen.merge(pinsOf(*stages));
  };
  for (std::size_t train = 0; train < notebook.trains.size() && !allSeen(); ++train) {
    const std::int64_t rows = heldOutRows(evaluationProgram(notebook, notebook.trains[train].loss));
    CompileOptions evaluated = compile;
    evaluated.training = false;
    evaluated.train = train;
    if (rows > 0) evaluated.batchOverride = rows;
    const CompiledNotebook compiled = compileNotebook(notebook.sources.at(notebook.notebook), evaluated);
    if (!compiled.ok()) continue;  // somebody else says so
    check(rows > 0 ? evaluationProgram(compiled, notebook.trains[train].loss) : inputEvaluationProgram(compiled));
  }
  if (!notebook.trains.empty() && !allSeen()) check(notebookProgram(notebook));
  return diagnostics;
}

Diagnostics checkFusions(const CompiledNotebook& notebook, const StageOptions& options) {
  return ofFusedPrograms(notebook, options, Hint::Kind::Fuse, unobeyedHints);
}

}  // namespace nf
