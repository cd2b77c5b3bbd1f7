// SPDX-License-Identifier: Apache-2.0
#include "core/session/revision.h"

#include <chrono>

#include "core/runtime/train.h"

namespace nf {
namespace {

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

CompiledNotebook compiled(Source source, const CompileOptions& options, double& milliseconds) {
  const auto begin = std::chrono::steady_clock::now();
  CompiledNotebook notebook = compileNotebook(std::move(source), options);
  milliseconds = since(begin);
  return notebook;
}

}  // namespace

Revision::Revision(std::uint64_t number, Source source, const CompileOptions& options)
    : m_number(number), m_notebook(compiled(std::move(source), options, m_milliseconds)),
      m_spans(m_notebook.program, m_notebook.sources, m_notebook.notebook) {}

Result<std::shared_ptr<const Stages>> Revision::known(std::optional<Known>& slot, const FusionInputs& inputs, bool running) const {
  const std::lock_guard lock(m_mutex);
  if (slot && slot->reverted == inputs.reverted) return slot->stages;
  StageOptions options;
  options.device = inputs.device;
  options.invert.explain = !running;
  if (inputs.reverted) options.fusion.reverted = *inputs.reverted;
  auto stages = [&]() -> Result<Stages> {
    if (slot && slot->stages && (*slot->stages)->partitioned) return fusedAgain(**slot->stages, options);
    return runStages(std::make_shared<const Program>(running ? trainingProgram(m_notebook, 0) : m_notebook.program), options);
  }();
  slot = Known{inputs.reverted, stages ? Result<std::shared_ptr<const Stages>>(std::make_shared<const Stages>(std::move(*stages)))
                                       : Result<std::shared_ptr<const Stages>>(stages.error())};
  return slot->stages;
}

Result<std::shared_ptr<const Stages>> Revision::stages(const FusionInputs& inputs) const {
  if (!m_notebook.ok()) return std::shared_ptr<const Stages>();
  return known(m_stages, inputs, false);
}

Result<std::shared_ptr<const Stages>> Revision::runningStages(const FusionInputs& inputs) const {
  if (!m_notebook.ok() || m_notebook.trains.empty()) return stages(inputs);
  return known(m_running, inputs, true);
}

}  // namespace nf
