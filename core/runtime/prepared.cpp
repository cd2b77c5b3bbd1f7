// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/prepared.h"

#include <string_view>
#include <unordered_map>

#include "core/runtime/fusion_trials.h"
#include "core/runtime/initialize.h"
#include "core/runtime/memory_need.h"
#include "core/runtime/schedule_check.h"

namespace nf {

Error firstError(const Diagnostics& diagnostics, const std::string& stage, Span& place) {
  for (const Diagnostic& d : diagnostics)
    if (d.severity == Severity::Error) {
      place = d.span;
      return {stage, d.message, {}, {}};
    }
  return {stage, "The program has mistakes.", {}, {}};
}

Span placeOf(const Program& p, TensorId t) {
  const OperatorId made = producers(p)[t.value];
  const OriginId origin = made.valid() ? p[made].origin : p[t].origin;
  return origin.valid() ? p[origin].span : Span{};
}

StageOptions stageOptions(DeviceContext& context, const PrepareOptions& options) {
  StageOptions stage;
  stage.device = options.device ? *options.device : deviceConstants(*context.target());
  stage.fuse = context.inProcess() == nullptr;
  if (stage.fuse) stage.target = context.target();
  stage.verify = options.verify;
  stage.invert.stop = options.stop;
  stage.fusion.reverted = options.reverted ? *options.reverted : revertedKernels(context);
  return stage;
}

namespace {

Result<Prepared> planned(Stages stages, DeviceContext& context, const PrepareOptions& options) {
  Prepared prepared;
  prepared.warnings = unobeyedHints(stages);
  if (!context.inProcess() && stages.fused && context.target()) {
    PinFindings pins = checkPins(stages, stageOptions(context, options), *context.target(), options.pinsOfOthers);
    stages.fused = withoutSetAside(stages.fused, pins);
    for (Diagnostic& d : pins.diagnostics)
      (d.severity == Severity::Warning ? prepared.warnings : prepared.refusedPins).push_back(std::move(d));
  }
  prepared.stages = std::move(stages);
  PlanOptions plan;
  plan.updates = options.updates;
  plan.doubles = context.device().storesDoubles();
  if (!options.keep.empty()) {
    const std::vector<Tensor>& tensors = prepared.stages.last().tensors;
    std::unordered_map<std::string_view, TensorId> named;
    for (std::size_t t = 0; t < tensors.size(); ++t) named.emplace(tensors[t].name, TensorId(t));
    for (const std::string& name : options.keep)
      if (const auto found = named.find(name); found != named.end()) plan.keep.push_back(found->second);
  }
  NF_TRY(prepared.plan, planExecution(prepared.stages.last(), plan));
  // Other devices have a memory of their own.
  if (context.device().target().backend != "cuda")
    if (auto much = muchMemory(memoryNeed(*prepared.plan, plan.doubles), *prepared.plan->main.program, memoryLimit()))
      prepared.warnings.push_back(std::move(*much));
  return prepared;
}

}  // namespace

Result<Prepared> planned(const Program& program, DeviceContext& context, const PrepareOptions& options) {
  NF_TRY(Stages stages, runStages(std::make_shared<const Program>(program), stageOptions(context, options)));
  if (hasErrors(stages.diagnostics)) {
    Span place;
    return firstError(stages.diagnostics, "differentiate", place);
  }
  return planned(std::move(stages), context, options);
}

Result<Unit> layOut(Prepared& prepared, DeviceContext& context, const std::shared_ptr<TensorStore>& store, Span* failedAt,
                    bool readsBack) {
  const MemoryNeed need = memoryNeed(*prepared.plan, context.device().storesDoubles(), readsBack);
  const Program& program = *prepared.plan->main.program;
  if (const auto error = tooLarge(need, program, memoryLimit()); error && context.device().target().backend != "cuda") {
    if (failedAt && need.largest.valid() && program[need.largest].origin.valid())
      *failedAt = program[program[need.largest].origin].span;
    return *error;
  }
  NF_TRY(prepared.executable, Executable::create(prepared.plan, context.device(), store, failedAt));
  return Unit{};
}

Result<Prepared> prepare(const Program& program, DeviceContext& context, const std::shared_ptr<TensorStore>& store,
                         const PrepareOptions& options) {
  NF_TRY(Prepared prepared, planned(program, context, options));
  NF_TRY([[maybe_unused]] const Unit made, layOut(prepared, context, store, options.failedAt, options.readsBack));
  return prepared;
}

Result<Prepared> prepare(Stages stages, DeviceContext& context, const std::shared_ptr<TensorStore>& store,
                         const PrepareOptions& options) {
  NF_TRY(Prepared prepared, planned(std::move(stages), context, options));
  NF_TRY([[maybe_unused]] const Unit made, layOut(prepared, context, store, options.failedAt, options.readsBack));
  return prepared;
}

Result<Unit> initializeTensors(Executable& executable, std::uint64_t seed, const std::string& directory, Span* place,
                               StrayLabels* strayLabels, std::stop_token stop) {
  const Program& p = executable.program();
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    TensorStore::Entry* entry = executable.entry(TensorId(t));
    if (!entry || entry->written || p.tensors[t].init.kind == Initializer::Kind::Batch) continue;
    const auto at = [&](OriginId origin) {
      if (place) *place = origin.valid() ? p[origin].span : Span{};
    };
    at(p.tensors[t].valuesOrigin());
    const bool checked = p.tensors[t].type == DType::I32 || isLabels(p, TensorId(t));
    if (isGenerated(p.tensors[t].init) && !checked) {
      NF_TRY([[maybe_unused]] const Unit filled,
             initialParts(p.tensors[t], seed, stop, [&](std::int64_t first, const HostTensor& part) {
               return executable.store().writePart(*entry, first, part);
             }));
      entry->written = true;
      continue;
    }
    NF_TRY(const HostTensor value, initialValue(p.tensors[t], seed, directory, stop));
    at(p.tensors[t].origin);
    NF_TRY([[maybe_unused]] const Unit inRange, checkIndexValues(p, TensorId(t), value, stop));
    if (auto stray = strayLabels ? strayLabel(p, TensorId(t), value) : std::nullopt)
      strayLabels->emplace_back(std::move(*stray), p.tensors[t].origin);
    NF_TRY([[maybe_unused]] const Unit written, executable.store().write(*entry, value));
  }
  return Unit{};
}

namespace {

template <class Event>
void put(Event& event, const SourceMap& sources, Span place) {
  if (!place.valid() || place.source.value >= sources.size()) return;
  const LineColumn at = sources.lineColumn(place);
  event.file = sources.at(place.source).name;
  event.line = at.line;
  event.column = at.column;
}

}  // namespace

protocol::ErrorEvent errorEvent(const Error& error, const SourceMap& sources, Span place) {
  protocol::ErrorEvent event;
  event.stage = error.stage;
  event.message = error.message;
  if (!error.detail.empty()) event.message += "\n" + error.detail;
  put(event, sources, place);
  return event;
}

std::vector<protocol::WarningEvent> warningEvents(const StrayLabels& labels, const Program& program, const SourceMap& sources) {
  std::vector<protocol::WarningEvent> events;
  for (const auto& [text, origin] : labels) {
    protocol::WarningEvent& event = events.emplace_back();
    event.message = text;
    if (origin.valid()) put(event, sources, program[origin].span);
  }
  return events;
}

std::vector<protocol::WarningEvent> warningEvents(const Diagnostics& warnings, const SourceMap& sources) {
  std::vector<protocol::WarningEvent> events;
  for (const Diagnostic& d : warnings) {
    protocol::WarningEvent& event = events.emplace_back();
    event.message = d.message;
    for (const DiagnosticNote& note : d.notes) event.message += "\n" + note.message;
    put(event, sources, d.span);
  }
  return events;
}

}  // namespace nf
