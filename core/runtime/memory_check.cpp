// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_check.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/runtime/step_program.h"

namespace nf {

bool mayTakeMuch(const CompiledNotebook& notebook, const MemoryLimit& limit) {
  // A gradient and second buffers for each, and what derivation adds to them.
  constexpr double kGrowth = 8;
  if (limit.bytes <= 0) return false;
  double bytes = 0;
  for (const Tensor& t : notebook.program.tensors) {
    double ofTensor = static_cast<double>(bytesOf(t.type));
    for (const std::int64_t extent : t.shape) ofTensor *= static_cast<double>(extent);
    bytes += ofTensor;
  }
  return kGrowth * bytes > limit.bytes / 2;
}

Diagnostics checkMemory(const CompiledNotebook& notebook, const StageOptions& options, const MemoryLimit& limit) {
  std::vector<std::pair<Program, bool>> programs;  // with whether it updates
  for (std::size_t train = 0; train < notebook.trains.size(); ++train)
    programs.emplace_back(trainingProgram(notebook, train), true);
  programs.emplace_back(notebookProgram(notebook), false);
  std::optional<Diagnostic> most;
  double mostBytes = 0;
  for (auto& [program, updates] : programs) {
    const auto stages = runStages(std::make_shared<const Program>(std::move(program)), options);
    if (!stages || hasErrors(stages->diagnostics)) continue;  // somebody else says so
    PlanOptions planned;
    planned.updates = updates;
    const auto plan = planExecution(stages->last(), planned);
    if (!plan) continue;
    const MemoryNeed need = memoryNeed(**plan);
    if (need.bytes <= mostBytes) continue;
    mostBytes = need.bytes;
    const Program& laidOut = *(*plan)->main.program;
    most = tooMuchMemory(need, laidOut, limit);
    if (!most) most = muchMemory(need, laidOut, limit);
  }
  if (!most) return {};
  return {*std::move(most)};
}

}  // namespace nf
