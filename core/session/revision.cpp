// SPDX-License-Identifier: Apache-2.0
#include "core/session/revision.h"

#include <algorithm>
#include <chrono>

#include "core/runtime/evaluation_check.h"
#include "core/runtime/schedule_check.h"
#include "core/runtime/step_program.h"

namespace nf {
namespace {

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Whether there are fewer `train` statements than that; the options are of the last one then.
bool takesLast(const CompiledNotebook& notebook, CompileOptions& options) {
  const std::size_t last = std::max<std::size_t>(notebook.trains.size(), 1) - 1;
  if (options.train <= last) return false;
  options.train = last;
  return true;
}

CompiledNotebook compiled(const Source& source, CompileOptions& options, double& milliseconds) {
  const auto begin = std::chrono::steady_clock::now();
  CompiledNotebook notebook = compileNotebook(source, options);
  if (takesLast(notebook, options)) notebook = compileNotebook(source, options);
  milliseconds = since(begin);
  return notebook;
}

// A mistake may cost a `train` statement, too.
std::optional<CompiledNotebook> soundOf(const CompiledNotebook& notebook, CompileOptions& options) {
  if (notebook.ok()) return std::nullopt;
  auto sound = soundPart(notebook, options);
  return sound && takesLast(*sound, options) ? soundPart(notebook, options) : sound;
}

}  // namespace

Revision::Revision(std::uint64_t number, Source source, const CompileOptions& options, InverseCache* inverses)
    : m_number(number), m_options(options), m_notebook(compiled(source, m_options, m_milliseconds)),
      m_sound(soundOf(m_notebook, m_options)), m_hints(sound().ok() ? trainingWarnings(sound(), m_options) : Diagnostics{}),
      m_spans(sound().program, sound().sources, sound().notebook, sound().references, sound().symbols), m_inverses(inverses) {}

namespace {

bool isChecking(const Result<std::shared_ptr<const Stages>>& stages) {
  return stages && *stages && std::any_of((*stages)->terms.begin(), (*stages)->terms.end(), [](const GradientTerm& term) {
           return term.inverse.state == Inverse::State::Checking || term.inverse.hasty;
         });
}

}  // namespace

StageOptions Revision::optionsOf(const FusionInputs& inputs, Of of) const {
  StageOptions options;
  options.device = inputs.device;
  options.target = inputs.target;
  options.invert.explain = of == Of::Notebook;
  options.invert.putOffProofs = of != Of::Running && m_inverses;
  options.invert.cache = m_inverses;
  options.invert.stop = inputs.stop;
  if (inputs.reverted) options.fusion.reverted = *inputs.reverted;
  options.fusion.outdated = inputs.outdated;
  return options;
}

Result<std::shared_ptr<const Stages>> Revision::known(std::optional<Known>& slot, const FusionInputs& inputs, Of of,
                                                      std::shared_ptr<const Stages> around) const {
  const std::lock_guard lock(m_mutex);
  const std::uint64_t proofs = m_inverses ? m_inverses->settledProofs() : 0;
  if (slot && slot->proofs != proofs && isChecking(slot->stages)) slot.reset();
  const bool fuses = of != Of::Notebook || sound().trains.empty();
  if (slot && (!fuses || (slot->device == inputs.device && slot->reverted == inputs.reverted))) return slot->stages;
  StageOptions options = optionsOf(inputs, of);
  options.around = std::move(around);
  // Of equal operators the one that the step has stands for those outside it.
  if (!fuses) {
    const Program stepped = decidedProgram(sound(), step());
    for (const Operator& op : stepped.operators)
      if (op.output.valid()) options.preferred.insert(stepped[op.output].name);
  }
  auto stages = [&]() -> Result<Stages> {
    if (slot && slot->stages && (*slot->stages)->partitioned) return fusedAgain(**slot->stages, options);
    return runStages(
        std::make_shared<const Program>(of == Of::Notebook ? notebookProgram(sound()) : decidedProgram(sound(), step())), options,
        fuses ? Stage::Fused : Stage::Partitioned);
  }();
  if (!stages && (isOutdated(stages.error()) || isStopped(stages.error()))) return stages.error();
  slot = Known{inputs.device, inputs.reverted, proofs,
               stages ? Result<std::shared_ptr<const Stages>>(std::make_shared<const Stages>(std::move(*stages)))
                      : Result<std::shared_ptr<const Stages>>(stages.error())};
  return slot->stages;
}

Result<std::shared_ptr<const Stages>> Revision::stages(const FusionInputs& inputs) const {
  if (!sound().ok()) return std::shared_ptr<const Stages>();
  return known(m_stages, inputs, Of::Notebook);
}

Result<std::shared_ptr<const Stages>> Revision::decidedStages(const FusionInputs& inputs) const {
  if (sound().trains.empty()) return stages(inputs);
  if (!sound().ok()) return std::shared_ptr<const Stages>();
  const auto whole = stages(inputs);
  if (!whole && (isOutdated(whole.error()) || isStopped(whole.error()))) return whole.error();
  return known(m_decided, inputs, Of::Decided, whole ? *whole : nullptr);
}

Diagnostics Revision::warnings(const std::shared_ptr<const Stages>& stages, const FusionInputs& inputs) const {
  if (!stages || !stages->fused) return {};
  {
    const std::lock_guard lock(m_mutex);
    if (m_warnings.first == stages) return m_warnings.second;
  }
  const StageOptions passes = optionsOf(inputs, Of::Decided);
  Diagnostics found;
  if (!stages->source->hints.empty()) {
    found = unobeyedHints(*stages);
    if (inputs.target) {
      for (Diagnostic& d : checkPins(*stages, passes, *inputs.target).diagnostics) found.push_back(std::move(d));
      for (Diagnostic& d : checkSchedulesOutsideSteps(sound(), m_options, passes, *inputs.target, pinsOf(*stages)))
        found.push_back(std::move(d));
    }
  }
  for (Diagnostic& d : averagedEvals(sound(), m_options, passes)) found.push_back(std::move(d));
  const std::lock_guard lock(m_mutex);
  m_warnings = {stages, found};
  return found;
}

Result<std::shared_ptr<const Stages>> Revision::runningStages(const FusionInputs& inputs) const {
  if (!sound().ok()) return std::shared_ptr<const Stages>();
  if (auto decided = decidedStages(inputs); !isChecking(decided)) return decided;
  return known(m_running, inputs, Of::Running);
}

}  // namespace nf
