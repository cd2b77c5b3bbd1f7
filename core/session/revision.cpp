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

namespace {

Result<std::shared_ptr<const Stages>> passesOf(Program program, const DeviceConstants& device, bool explain) {
  StageOptions options;
  options.device = device;
  options.invert.explain = explain;
  auto stages = runStages(std::make_shared<const Program>(std::move(program)), options);
  if (!stages) return stages.error();
  return std::make_shared<const Stages>(std::move(*stages));
}

}  // namespace

Result<std::shared_ptr<const Stages>> Revision::stages(const DeviceConstants& device) const {
  if (!m_notebook.ok()) return std::shared_ptr<const Stages>();
  const std::lock_guard lock(m_mutex);
  if (!m_stages) m_stages = passesOf(m_notebook.program, device, true);
  return *m_stages;
}

Result<std::shared_ptr<const Stages>> Revision::runningStages(const DeviceConstants& device) const {
  if (!m_notebook.ok() || m_notebook.trains.empty()) return stages(device);
  const std::lock_guard lock(m_mutex);
  if (!m_running) m_running = passesOf(trainingProgram(m_notebook, 0), device, false);
  return *m_running;
}

}  // namespace nf
