// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/schedule_check.h"

#include <algorithm>

#include "core/runtime/step_program.h"
#include "core/tune/tune_program.h"

namespace nf {

Diagnostics checkSchedules(const CompiledNotebook& notebook, const StageOptions& options, const Target& target) {
  Diagnostics diagnostics;
  const std::vector<Hint>& hints = notebook.program.hints;
  if (std::none_of(hints.begin(), hints.end(), [](const Hint& h) { return h.kind == Hint::Kind::Schedule; })) return diagnostics;
  for (std::size_t train = 0; train < std::max<std::size_t>(notebook.trains.size(), 1); ++train) {
    const auto stages = runStages(std::make_shared<const Program>(decidedProgram(notebook, train)), options);
    if (!stages || hasErrors(stages->diagnostics)) continue;  // somebody else says so
    std::vector<HintProblem> problems;
    tuningTasks(*stages->fused, &target, &problems);
    for (const HintProblem& p : problems) {
      Diagnostic d;
      d.code = "schedule";
      d.message = p.error.message;
      if (p.origin.valid()) d.span = (*stages->fused)[p.origin].span;
      if (!p.error.detail.empty()) d.notes.push_back({p.error.detail, {}});
      const bool known = std::any_of(diagnostics.begin(), diagnostics.end(),
                                     [&](const Diagnostic& other) { return other.span == d.span && other.message == d.message; });
      if (!known) diagnostics.push_back(std::move(d));
    }
  }
  return diagnostics;
}

}  // namespace nf
