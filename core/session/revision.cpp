// SPDX-License-Identifier: Apache-2.0
#include "core/session/revision.h"

#include <algorithm>
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

Revision::Revision(std::uint64_t number, Source source, const CompileOptions& options, InverseCache* inverses)
    : m_number(number), m_notebook(compiled(std::move(source), options, m_milliseconds)),
      m_sound(m_notebook.ok() ? std::nullopt : soundPart(m_notebook, options)),
      m_spans(sound().program, sound().sources, sound().notebook), m_inverses(inverses) {}

namespace {

bool isChecking(const Result<std::shared_ptr<const Stages>>& stages) {
  return stages && *stages && std::any_of((*stages)->terms.begin(), (*stages)->terms.end(), [](const GradientTerm& term) {
           return term.inverse.state == Inverse::State::Checking;
         });
}

}  // namespace

Result<std::shared_ptr<const Stages>> Revision::known(std::optional<Known>& slot, const FusionInputs& inputs, bool running) const {
  const std::lock_guard lock(m_mutex);
  const std::uint64_t proofs = m_inverses ? m_inverses->settledProofs() : 0;
  if (slot && slot->proofs != proofs && isChecking(slot->stages)) slot.reset();
  if (slot && slot->reverted == inputs.reverted) return slot->stages;
  StageOptions options;
  options.device = inputs.device;
  options.invert.explain = !running;
  options.invert.putOffProofs = !running && m_inverses;
  options.invert.cache = m_inverses;
  if (inputs.reverted) options.fusion.reverted = *inputs.reverted;
  options.fusion.outdated = inputs.outdated;
  auto stages = [&]() -> Result<Stages> {
    if (slot && slot->stages && (*slot->stages)->partitioned) return fusedAgain(**slot->stages, options);
    const bool trains = running && !sound().trains.empty();
    return runStages(std::make_shared<const Program>(trains ? trainingProgram(sound(), 0) : sound().program), options);
  }();
  if (!stages && isOutdated(stages.error())) return stages.error();
  slot = Known{inputs.reverted, proofs,
               stages ? Result<std::shared_ptr<const Stages>>(std::make_shared<const Stages>(std::move(*stages)))
                      : Result<std::shared_ptr<const Stages>>(stages.error())};
  return slot->stages;
}

Result<std::shared_ptr<const Stages>> Revision::stages(const FusionInputs& inputs) const {
  if (!sound().ok()) return std::shared_ptr<const Stages>();
  return known(m_stages, inputs, false);
}

Result<std::shared_ptr<const Stages>> Revision::runningStages(const FusionInputs& inputs) const {
  if (!sound().ok()) return std::shared_ptr<const Stages>();
  if (sound().trains.empty())
    if (auto shown = stages(inputs); !isChecking(shown)) return shown;
  return known(m_running, inputs, true);
}

}  // namespace nf
