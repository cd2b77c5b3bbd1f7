// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/device/profiler.h"
#include "core/ir/tensor_data.h"
#include "core/runtime/activity_recorder.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/step_graphs.h"
#include "core/runtime/tensor_store.h"

namespace nf {

// A kernel as the executor holds it.
struct LinkedKernel {
  std::unique_ptr<Kernel> kernel;
  std::string schedule;  // its text: what the swap log keeps
  bool quick = false;    // compiled with CompileEffort::Quick
  std::int64_t workspaceBytes = 0;
  std::uint64_t generation = 1;
};

// A planned program on one device: runs its launches in order, one thread. Nothing is allocated while a step runs. Where the device
// records, steps are replayed as one graph from the second one on, apart from those that are timed kernel by kernel.
class Executable {
 public:
  // Takes its persistent tensors from `store` where name, shape and type agree; those of another shape (batches) are its own.
  // failedAt: becomes the place of the tensor that there is no memory for.
  static Result<std::unique_ptr<Executable>> create(std::shared_ptr<const ExecutionPlan> plan, Device& device,
                                                    std::shared_ptr<TensorStore> store, Span* failedAt = nullptr);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const ExecutionPlan& plan() const { return *m_plan; }
  const Program& program() const { return *m_plan->main.program; }
  Device& device() const { return m_device; }
  TensorStore& store() const { return *m_store; }

  // Between steps only. Null takes it away.
  Result<Unit> setKernel(std::uint32_t subgraph, std::shared_ptr<LinkedKernel> kernel);
  const std::shared_ptr<LinkedKernel>& kernel(std::uint32_t subgraph) const { return m_kernels[subgraph]; }
  bool complete() const;  // every subgraph has a kernel

  // Where the value of an input, param, const or state stands; null for tensors that the plan does not need.
  TensorStore::Entry* entry(TensorId tensor) const { return m_entries[tensor.value]; }
  // Takes up buffers that another executable of the store has exchanged.
  void bind();

  // All launches of one step. An error names the operator; nothing has been updated then. stop: as LaunchArgs', looked at between
  // launches too.
  Result<Unit> run(std::uint64_t seed, std::uint64_t step, const std::atomic<bool>* stop = nullptr);
  // Where the operator of the last failed launch stands in the source.
  Span failedAt() const { return m_failedAt; }
  // Updates take effect.
  Result<Unit> applyUpdates();

  // run() ends behind the launch that makes `loss` where that is not a number, so that what the updates of the step before replaced is
  // there still. Not on a device that replays whole steps.
  void holdBackAt(TensorId loss);
  // Undoes the newest updates: between applyUpdates() and run(), or after a run that was held back. False: there is nothing to go back
  // to, or that run has written over more states of its forward pass than are kept.
  bool revertUpdates();
  // The first updated tensor that holds a NaN; invalid: none does.
  Result<TensorId> updatedNaN() const;
  // The names of the updated parameters that hold an infinity.
  Result<std::set<std::string>> infiniteParameters() const;

  // After run(): any output, kept or persistent tensor, and what nothing has written over. An Error says why there is none of another.
  Result<HostTensor> read(TensorId tensor) const;
  Result<double> scalar(TensorId tensor) const;

  // Wall time of launches, for the subgraphs that are watched; synchronises the device around each when it is not the host.
  struct Watch {
    bool on = false;
    double seconds = 0;
    std::int64_t calls = 0;
    std::array<float, 33> latest{};  // seconds of the newest calls
    void add(double duration);
    double median() const;  // of the newest calls; 0 where there were none
  };
  std::vector<Watch>& watches() { return m_watches; }
  // The same for every subgraph at once, apart from the watches: from zero when it is switched on. Where the device gives its own account
  // of what it does, those are its times, there once profiling is switched off, and no launch waits for the one before.
  void setProfiling(bool on);
  bool isProfiling() const { return m_profiling; }
  std::int64_t profiledRuns() const { return m_profiledRuns; }  // since it was last switched on
  const std::vector<Watch>& profile() const { return m_profile; }
  // What is done in runs that are profiled from the next time it is switched on: at most so many activities, 0: none.
  void setRecording(std::int64_t most) { m_recorded = most; }
  // Of the last profiling, once it is switched off.
  ActivityRecord takeActivities();
  // One step whose kernels run under the device's counters, each where the step first comes to it, as often as that takes. By subgraph;
  // nothing: the step does not come to it. Fails in one sentence where there are no counters, or where they may not be read.
  Result<std::vector<std::optional<KernelCounters>>> countStep(std::uint64_t seed, std::uint64_t step,
                                                               const std::atomic<bool>* stop = nullptr);

  // Runs the step again from the same inputs, states and weights, launch by launch, and names the operator whose output is the first
  // to hold a NaN. Between run() and applyUpdates(). Empty: none was met.
  Result<std::string> firstNaN(std::uint64_t seed, std::uint64_t step);
  // The same of the infinities in `tensor`: the operator or loop from which infinite values alone lead to it, so that what is infinite
  // elsewhere and stays there, as under a mask, is none. Invalid: `tensor` is finite now.
  Result<TensorId> firstInfinity(TensorId tensor, std::uint64_t seed, std::uint64_t step);

  std::int64_t peakBytes() const;  // arena, workspace and store

 private:
  explicit Executable(std::shared_ptr<const ExecutionPlan> plan, Device& device, std::shared_ptr<TensorStore> store);
  struct Check;
  void place(const PlannedSequence& s);
  Result<Unit> runSequence(const PlannedSequence& s, Check* check);
  Result<Unit> runSteps(const PlannedSequence& s, std::size_t begin, std::size_t end, Check* check);
  Result<Unit> runLoop(const PlannedSequence& s, const PlannedLoop& l, Check* check);
  Result<Unit> launch(const PlannedSequence& s, const PlannedLaunch& l, Check* check);
  Result<TensorValues> inputsOf(const PlannedSequence& s, const PlannedLaunch& l) const;
  // launch: null where the kernel adds up the steps of a loop.
  Result<Unit> launchKernel(std::uint32_t subgraph, std::size_t tensors, const PlannedSequence& s, const PlannedLaunch* launch);
  Result<Unit> launchTimed(std::uint32_t subgraph, const LaunchArgs& args, const PlannedSequence& s, const PlannedLaunch* launch);
  Result<Unit> copyWithin(void* to, const void* from, std::int64_t bytes);
  void readProfiler();
  Result<Unit> runOnce();
  LaunchGraph* graph();
  Result<bool> hasNaN(const void* from, const Tensor& tensor) const;
  Result<bool> hasInfinity(const void* from, const Tensor& tensor) const;
  std::int64_t bytesOfTensor(const Tensor& t) const { return m_device.storesDoubles() ? t.elements() * 8 : t.bytes(); }
  void*& slot(const PlannedSequence& s, TensorId t) { return m_slots[s.firstSlot + t.value]; }

  std::shared_ptr<const ExecutionPlan> m_plan;
  Device& m_device;
  std::shared_ptr<TensorStore> m_store;
  std::vector<std::shared_ptr<LinkedKernel>> m_kernels;
  std::vector<TensorStore::Entry*> m_entries;  // by tensor of the main program
  std::vector<std::unique_ptr<TensorStore::Entry>> m_own;
  std::vector<void*> m_slots;  // by PlannedSequence::firstSlot + tensor
  std::vector<void*> m_arguments;
  std::vector<std::int64_t> m_counters;
  std::vector<Watch> m_watches, m_profile;
  bool m_profiling = false;
  std::int64_t m_profiledRuns = 0;
  std::int64_t m_recorded = 0;
  std::unique_ptr<ActivityRecorder> m_recorder;  // while something is recorded, and until it is taken
  Profiler* m_profiler = nullptr;                // of the device, while it records
  std::vector<std::optional<KernelCounters>>* m_counting = nullptr;
  void* m_arena = nullptr;
  void* m_workspace = nullptr;
  std::int64_t m_workspaceBytes = 0;
  std::uint64_t m_seed = 0, m_step = 0;
  const std::atomic<bool>* m_stop = nullptr;  // of the run in progress
  std::vector<void*> m_bound;                 // where persistent and directly updated tensors stand, for the graphs
  StepGraphs m_graphs;
  bool m_applied = false;
  TensorId m_guard;                 // of holdBackAt()
  std::size_t m_guardedSteps = 0;   // of the main sequence, up to the one that makes it
  std::vector<bool> m_overwritten;  // by update: in these steps
  // Of these, what stood there at the start of the step before; none where it would take more than kMostKept.
  std::vector<std::vector<std::byte>> m_backups;
  static constexpr std::int64_t kMostKept = std::int64_t{1} << 20;
  Result<Unit> backUp();
  bool m_heldBack = false;
  Span m_failedAt;
};

// The kernels of an executable straight from a back end's compiler, in this process: the reference device, tests.
Result<Unit> linkInProcess(Executable& executable, Compiler& compiler);

}  // namespace nf
