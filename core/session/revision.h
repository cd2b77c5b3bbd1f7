// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"
#include "core/session/origin_spans.h"

namespace nf {

// What is known of one revision. The passes run when somebody first asks, once; others wait for them.
class Revision {
 public:
  // inverses: where gradients are looked up and kept; it outlives the revision. Null: each pass has its own.
  Revision(std::uint64_t number, Source source, const CompileOptions& options, InverseCache* inverses = nullptr);

  std::uint64_t number() const { return m_number; }
  const CompiledNotebook& notebook() const { return m_notebook; }
  const OriginSpans& spans() const { return m_spans; }
  double analysisMilliseconds() const { return m_milliseconds; }
  // Null where the notebook has errors; an Error where a pass failed. Proofs that take long are put off: made for views, not to run.
  Result<std::shared_ptr<const Stages>> stages(const DeviceConstants& device) const;
  // The same of what runs, every gradient proved or a scatter: the training step of the first `train`, else all that the notebook
  // computes.
  Result<std::shared_ptr<const Stages>> runningStages(const DeviceConstants& device) const;

 private:
  std::uint64_t m_number;
  double m_milliseconds = 0;  // before the notebook: compiling it sets this
  CompiledNotebook m_notebook;
  OriginSpans m_spans;
  InverseCache* m_inverses;
  mutable std::uint64_t m_proofsThen = 0;  // settled when m_stages was made
  mutable std::mutex m_mutex;
  mutable std::optional<Result<std::shared_ptr<const Stages>>> m_stages, m_running;
};

}  // namespace nf
