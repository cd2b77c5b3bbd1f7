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
      m_spans(m_notebook.program, m_notebook.sources, m_notebook.notebook), m_inverses(inverses) {}

namespace {

Result<std::shared_ptr<const Stages>> passesOf(Program program, const DeviceConstants& device, InverseCache* inverses, bool show) {
  StageOptions options;
  options.device = device;
  options.invert.explain = show;
  options.invert.putOffProofs = show && inverses;
  options.invert.cache = inverses;
  auto stages = runStages(std::make_shared<const Program>(std::move(program)), options);
  if (!stages) return stages.error();
  return std::make_shared<const Stages>(std::move(*stages));
}

bool isChecking(const Result<std::shared_ptr<const Stages>>& stages) {
  return stages && *stages && std::any_of((*stages)->terms.begin(), (*stages)->terms.end(), [](const GradientTerm& term) {
           return term.inverse.state == Inverse::State::Checking;
         });
}

}  // namespace

Result<std::shared_ptr<const Stages>> Revision::stages(const DeviceConstants& device) const {
  if (!m_notebook.ok()) return std::shared_ptr<const Stages>();
  const std::lock_guard lock(m_mutex);
  const std::uint64_t proofs = m_inverses ? m_inverses->settledProofs() : 0;
  if (m_stages && m_proofsThen != proofs && isChecking(*m_stages)) m_stages.reset();
  if (!m_stages) {
    m_proofsThen = proofs;
    m_stages = passesOf(m_notebook.program, device, m_inverses, true);
  }
  return *m_stages;
}

Result<std::shared_ptr<const Stages>> Revision::runningStages(const DeviceConstants& device) const {
  if (!m_notebook.ok()) return std::shared_ptr<const Stages>();
  if (m_notebook.trains.empty())
    if (auto shown = stages(device); !isChecking(shown)) return shown;
  const std::lock_guard lock(m_mutex);
  if (!m_running)
    m_running =
        passesOf(m_notebook.trains.empty() ? m_notebook.program : trainingProgram(m_notebook, 0), device, m_inverses, false);
  return *m_running;
}

}  // namespace nf
