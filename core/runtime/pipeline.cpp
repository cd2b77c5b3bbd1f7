// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/pipeline.h"

#include <algorithm>
#include <chrono>

#include "core/fusion/partition.h"
#include "core/ir/verify.h"
#include "core/runtime/persist_loops.h"
#include "core/support/assert.h"
#include "core/transform/hoist_loops.h"
#include "core/transform/merge_equal_operators.h"
#include "core/transform/remove_dead_operators.h"
#include "core/transform/simplify_scalars.h"

namespace nf {
namespace {

// What kernels hand on lies row by row, as whoever fills and reads it expects: a layout is of copies inside one kernel (core/schedule).
void layRowByRow(Program& program) {
  const auto isLaid = [](const Tensor& t) { return !t.layout.order.empty(); };
  const auto hasLaid = [&](const auto& self, const Program& p) -> bool {
    return std::ranges::any_of(p.tensors, isLaid) ||
           std::ranges::any_of(p.loops, [&](const Loop& loop) { return loop.body && self(self, *loop.body); });
  };
  for (Tensor& t : program.tensors) t.layout.order.clear();
  for (Loop& loop : program.loops) {
    if (!loop.body || !hasLaid(hasLaid, *loop.body)) continue;
    Program body = *loop.body;
    layRowByRow(body);
    loop.body = std::make_shared<const Program>(std::move(body));
  }
}

Result<Program> transform(const Program& program, MergedNames& names, const Names& preferred) {
  NF_TRY(Program simple, simplifyScalars(program));
  layRowByRow(simple);
  NF_TRY(Program alive, removeDeadOperators(simple));
  NF_TRY(Program hoisted, hoistLoops(alive));
  NF_TRY(Program merged, mergeEqualOperators(hoisted, &names, preferred));
  return removeDeadOperators(merged);
}

Result<FusionResult> fusedUnlessStopped(const Program& partitioned, const StageOptions& options) {
  FusionOptions fusion = options.fusion;
  fusion.outdated = [&] { return options.invert.stop.stop_requested() || (options.fusion.outdated && options.fusion.outdated()); };
  auto fused = fuse(partitioned, options.device, fusion);
  if (!fused && isOutdated(fused.error()) && options.invert.stop.stop_requested()) return stopped();
  if (fused && options.target) fused->program = persistLoops(std::move(fused->program), *options.target);
  return fused;
}

}  // namespace

const Program* Stages::at(Stage stage) const {
  switch (stage) {
    case Stage::Source: return source.get();
    case Stage::Differentiated: return differentiated.get();
    case Stage::Transformed: return transformed.get();
    case Stage::Partitioned: return partitioned.get();
    case Stage::Fused: return fused.get();
    case Stage::Scheduled:
    case Stage::Lowered: return nullptr;
  }
  return nullptr;
}

const Program& Stages::last() const {
  for (const auto* p : {&fused, &partitioned, &transformed, &differentiated})
    if (*p) return **p;
  return *source;
}

DeviceConstants deviceConstants(const Target& target) {
  DeviceConstants c;
  if (target.peakBandwidth > 0) c.bandwidth = target.peakBandwidth;
  if (target.peakFlops > 0) c.flopRate = target.peakFlops * static_cast<double>(std::max<std::int64_t>(1, target.threads));
  if (target.launchSeconds > 0) c.launchSeconds = target.launchSeconds;
  return c;
}

Result<Stages> runStages(std::shared_ptr<const Program> source, const StageOptions& options, Stage upTo) {
  Stages s;
  s.source = std::move(source);
  auto begin = std::chrono::steady_clock::now();
  const auto done = [&](Stage stage, std::shared_ptr<const Program>& slot, Program program) -> Result<Unit> {
    program.stage = stage;
    const auto now = std::chrono::steady_clock::now();
    s.milliseconds.emplace_back(stage, std::chrono::duration<double, std::milli>(now - begin).count());
    slot = std::make_shared<const Program>(std::move(program));
    if (options.verify) {
      const std::vector<std::string> problems = verify(*slot, stage);
      if (!problems.empty())
        return Error{
            "verify", "The program is not sound after the stage \"" + std::string(name(stage)) + "\".", {}, problems.front()};
    }
    begin = std::chrono::steady_clock::now();
    if (options.invert.stop.stop_requested()) return stopped();
    if (options.fusion.outdated && options.fusion.outdated()) return outdatedFusion();
    return Unit{};
  };
  if (upTo == Stage::Source) return s;
  NF_TRY(DifferentiateResult differentiated, differentiate(*s.source, options.invert));
  s.terms = std::move(differentiated.terms);
  s.diagnostics = std::move(differentiated.diagnostics);
  if (hasErrors(s.diagnostics)) return s;
  NF_TRY([[maybe_unused]] Unit a, done(Stage::Differentiated, s.differentiated, std::move(differentiated.program)));
  if (upTo == Stage::Differentiated) return s;
  NF_TRY(Program transformed, transform(*s.differentiated, s.merged, options.preferred));
  if (options.around && options.around->transformed)
    adoptMergedOrigins(transformed, *options.around->transformed, options.around->merged);
  NF_TRY([[maybe_unused]] Unit b, done(Stage::Transformed, s.transformed, std::move(transformed)));
  if (upTo == Stage::Transformed) return s;
  NF_TRY(Program partitioned, partition(*s.transformed));
  NF_TRY([[maybe_unused]] Unit c, done(Stage::Partitioned, s.partitioned, std::move(partitioned)));
  if (upTo == Stage::Partitioned) return s;
  if (!options.fuse) {
    NF_TRY([[maybe_unused]] Unit d, done(Stage::Fused, s.fused, *s.partitioned));
    return s;
  }
  NF_TRY(FusionResult fused, fusedUnlessStopped(*s.partitioned, options));
  s.decisions = std::move(fused.decisions);
  s.barred = std::move(fused.barred);
  NF_TRY([[maybe_unused]] Unit e, done(Stage::Fused, s.fused, std::move(fused.program)));
  return s;
}

Diagnostics unobeyedHints(const Stages& stages) {
  Diagnostics warnings;
  for (const FusionDecision& d : stages.decisions) {
    if (d.askedInVain.first.empty()) continue;
    const auto& [a, b] = d.askedInVain;
    Diagnostic w;
    w.severity = Severity::Warning;
    w.code = "hint";
    w.message = "`hint fuse " + a + ", " + b + "` cannot be obeyed" + (d.loop.empty() ? "" : " in the loop " + d.loop) +
                ", they stay two kernels";
    w.notes.push_back({d.why, {}});
    // As the passes name what is hinted at: of equal operators the first is kept.
    for (const Hint& hint : stages.fused->hints)
      for (std::size_t i = 0; i + 1 < hint.tensors.size() && !w.span.valid(); ++i)
        if (hint.kind == Hint::Kind::Fuse && hint.tensors[i] == a && hint.tensors[i + 1] == b && hint.origin.valid())
          w.span = (*stages.fused)[hint.origin].span;
    warnings.push_back(std::move(w));
  }
  return warnings;
}

Result<Stages> fusedAgain(const Stages& stages, const StageOptions& options) {
  NF_ASSERT(stages.partitioned);
  Stages again = stages;
  NF_TRY(FusionResult fused, fusedUnlessStopped(*stages.partitioned, options));
  again.decisions = std::move(fused.decisions);
  again.barred = std::move(fused.barred);
  again.fused = std::make_shared<const Program>(std::move(fused.program));
  return again;
}

}  // namespace nf
