// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/lang/compile.h"
#include "core/protocol/message.h"
#include "core/runtime/device_context.h"
#include "core/runtime/executable.h"
#include "core/runtime/initialize.h"
#include "core/runtime/pipeline.h"

namespace nf {

// A program taken through all passes and laid out on a device; its kernels come from a KernelSupply.
struct Prepared {
  Stages stages;
  Diagnostics warnings;     // of hints that cannot be obeyed and pinned schedules that were set aside
  Diagnostics refusedPins;  // errors: whoever asks for the kernels gets them
  std::shared_ptr<const ExecutionPlan> plan;
  std::unique_ptr<Executable> executable;  // null: only planned
};

struct PrepareOptions {
  bool updates = true;
  bool verify = false;
  std::optional<MeasuredKernels> reverted;  // fusion goes without these; nullopt: without those that are recorded
  std::optional<DeviceConstants> device;    // fusion decides with these; nullopt: with what is known of the device
  std::stop_token stop;                     // ends the passes with stopped()
  Span* failedAt = nullptr;                 // becomes the place of what there is no memory for
  std::vector<std::string> keep;            // tensors, by name, that stay readable; those that no pass has removed
  bool readsBack = false;                   // each output is read to the host, one at a time: there must be memory for that, too
  std::set<std::string> pinsOfOthers;       // checkPins(): the training step's, where something else is computed
};

// Stage by stage; the interpreter runs one operator at a time, other devices what fusion decided.
Result<Prepared> prepare(const Program& program, DeviceContext& context, const std::shared_ptr<TensorStore>& store,
                         const PrepareOptions& options);

// The same in two halves: passes and plan, which touch neither the store nor the device and may be made on another thread; then, on the
// thread that steps, the executable.
Result<Prepared> planned(const Program& program, DeviceContext& context, const PrepareOptions& options);
Result<Unit> layOut(Prepared& prepared, DeviceContext& context, const std::shared_ptr<TensorStore>& store, Span* failedAt = nullptr,
                    bool readsBack = false);

// How these passes are run on this device.
StageOptions stageOptions(DeviceContext& context, const PrepareOptions& options);
// Only what follows the passes.
Result<Prepared> prepare(Stages stages, DeviceContext& context, const std::shared_ptr<TensorStore>& store,
                         const PrepareOptions& options);

// Initial values for what the executable reads and nobody has given a value; integers that index others are range-checked. `place`:
// where the tensor that has none stands in the source.
// `strayLabels`: takes what DataFeed::strayLabels() has of batches, of the others.
// A stop ends it with stopped() some milliseconds later, the tensor it was at without a value.
Result<Unit> initializeTensors(Executable& executable, std::uint64_t seed, const std::string& directory, Span* place = nullptr,
                               StrayLabels* strayLabels = nullptr, std::stop_token stop = {});

// A failure as the event that scripts read, with its place in the source where one is known.
protocol::ErrorEvent errorEvent(const Error& error, const SourceMap& sources, Span place);
// Labels that nothing matches, as events with their places. Of `program`.
std::vector<protocol::WarningEvent> warningEvents(const StrayLabels& labels, const Program& program, const SourceMap& sources);
std::vector<protocol::WarningEvent> warningEvents(const Diagnostics& warnings, const SourceMap& sources);
// Of the operator that makes the tensor, else where that is declared; invalid: it stands in no source.
Span placeOf(const Program& program, TensorId tensor);
// The first error among the diagnostics, as a failure.
Error firstError(const Diagnostics& diagnostics, const std::string& stage, Span& place);

}  // namespace nf
