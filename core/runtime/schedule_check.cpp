// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/schedule_check.h"

#include <algorithm>

#include "core/runtime/train.h"
#include "core/tune/tune_program.h"

namespace nf {

namespace {

// What `problems` finds in the fused program of each training step, or in what the notebook computes where it trains nothing; each once.
// Nothing without a hint of this kind.
template <class Problems>
Diagnostics ofFusedPrograms(const CompiledNotebook& notebook, const StageOptions& options, Hint::Kind kind, Problems problems) {
  Diagnostics diagnostics;
  const std::vector<Hint>& hints = notebook.program.hints;
  if (std::none_of(hints.begin(), hints.end(), [&](const Hint& h) { return h.kind == kind; })) return diagnostics;
  for (std::size_t train = 0; train < std::max<std::size_t>(notebook.trains.size(), 1); ++train) {
    Program program = notebook.trains.empty() ? notebook.program : trainingProgram(notebook, train);
    const auto stages = runStages(std::make_shared<const Program>(std::move(program)), options);
    if (!stages || hasErrors(stages->diagnostics)) continue;  // somebody else says so
    for (Diagnostic& d : problems(*stages)) {
      const bool known = std::any_of(diagnostics.begin(), diagnostics.end(),
                                     [&](const Diagnostic& other) { return other.span == d.span && other.message == d.message; });
      if (!known) diagnostics.push_back(std::move(d));
    }
  }
  return diagnostics;
}

}  // namespace

Diagnostics checkSchedules(const CompiledNotebook& notebook, const StageOptions& options, const Target& target) {
  return ofFusedPrograms(notebook, options, Hint::Kind::Schedule, [&](const Stages& stages) {
    std::vector<HintProblem> problems;
    tuningTasks(*stages.fused, &target, &problems);
    Diagnostics diagnostics;
    for (const HintProblem& p : problems) {
      Diagnostic d;
      d.code = "schedule";
      d.message = p.error.message;
      if (p.origin.valid()) d.span = (*stages.fused)[p.origin].span;
      if (!p.error.detail.empty()) d.notes.push_back({p.error.detail, {}});
      diagnostics.push_back(std::move(d));
    }
    return diagnostics;
  });
}

Diagnostics checkFusions(const CompiledNotebook& notebook, const StageOptions& options) {
  return ofFusedPrograms(notebook, options, Hint::Kind::Fuse, unobeyedHints);
}

}  // namespace nf
