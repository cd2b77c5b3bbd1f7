// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"
#include "core/session/origin_spans.h"

namespace nf {

// What fusion is decided by, besides the notebook.
struct FusionInputs {
  DeviceConstants device;
  std::shared_ptr<const Target> target;             // null: none is known
  std::shared_ptr<const MeasuredKernels> reverted;  // the device's; null: none
  std::function<bool()> outdated;                   // ends the passes with outdatedFusion(), which is not remembered; empty: never
  std::stop_token stop;                             // the same with stopped(), also within a proof
};

// What is known of one revision. The passes run when somebody first asks, once; others wait for them. Fusion is decided anew when
// measurements have undone some of it, and by a device that was measured again.
class Revision {
 public:
  // options.train may be too great: it is the last statement then.
  // inverses: where gradients are looked up and kept; it outlives the revision. Null: each pass has its own.
  Revision(std::uint64_t number, Source source, const CompileOptions& options, InverseCache* inverses = nullptr);

  std::uint64_t number() const { return m_number; }
  std::size_t step() const { return m_options.train; }  // of which `train` statement of sound(), from 0, all below is
  const CompiledNotebook& notebook() const { return m_notebook; }
  // What of it holds in spite of mistakes: all else is made of this. Not ok() where nothing holds.
  const CompiledNotebook& sound() const { return m_sound ? *m_sound : m_notebook; }
  const OriginSpans& spans() const { return m_spans; }
  double analysisMilliseconds() const { return m_milliseconds; }
  const Diagnostics& hintDiagnostics() const {
    return m_hints;
  }  // of hints that change nothing where the notebook trains, and of what held-out rows cannot have
  // All that the notebook computes. Null where nothing of it is sound; an Error where a pass failed. Proofs that take long are put off:
  // made for views, not to run. Beside a `train` it ends partitioned: what is fused then is the step.
  Result<std::shared_ptr<const Stages>> stages(const FusionInputs& inputs) const;
  // The same, fused, of what fusion is decided for: decidedProgram().
  Result<std::shared_ptr<const Stages>> decidedStages(const FusionInputs& inputs) const;
  // Of `stages` as decidedStages() gave them: pairs that a hint would fuse and that stay two, schedules that no kernel can have, where the
  // inputs name a target, and evals that batches would average. Found when somebody first asks.
  Diagnostics warnings(const std::shared_ptr<const Stages>& stages, const FusionInputs& inputs) const;
  // The same to run: every gradient proved or a scatter.
  Result<std::shared_ptr<const Stages>> runningStages(const FusionInputs& inputs) const;

 private:
  std::uint64_t m_number;
  CompileOptions m_options;
  double m_milliseconds = 0;  // before the notebook: compiling it sets this
  CompiledNotebook m_notebook;
  std::optional<CompiledNotebook> m_sound;
  Diagnostics m_hints;
  OriginSpans m_spans;
  InverseCache* m_inverses;
  mutable std::mutex m_mutex;
  struct Known {
    DeviceConstants device;
    std::shared_ptr<const MeasuredKernels> reverted;
    std::uint64_t proofs = 0;  // settled when these were made
    Result<std::shared_ptr<const Stages>> stages;
  };
  enum class Of { Notebook, Decided, Running };
  Result<std::shared_ptr<const Stages>> known(std::optional<Known>& slot, const FusionInputs& inputs, Of of,
                                              std::shared_ptr<const Stages> around = nullptr) const;
  StageOptions optionsOf(const FusionInputs& inputs, Of of) const;
  mutable std::optional<Known> m_stages, m_decided, m_running;
  mutable std::pair<std::shared_ptr<const Stages>, Diagnostics> m_warnings;
};

}  // namespace nf
