// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/runtime/device_context.h"
#include "core/runtime/executable.h"
#include "core/runtime/kernel_swaps.h"
#include "core/tune/tuning_service.h"

namespace nf {

struct KernelSupplyOptions {
  bool dynamic = false;  // search for better kernels while steps run
  TuningOptions tuning;
  std::map<Hash, Schedule> forced;                // of static resume: these kernels, nothing else
  std::optional<std::vector<KernelSwap>> replay;  // exactly these kernels at exactly these steps
};

// Where the executables of one run get their kernels: first ones as soon as they are compiled and gated, better ones between steps
// (paper, section 6; design: architecture, "Dynamic mode"). All methods belong to the thread that steps.
class KernelSupply {
 public:
  KernelSupply(DeviceContext& context, KernelSupplyOptions options);
  ~KernelSupply();

  // Asks for the kernels an executable lacks and returns at once. callsFactor: its runs for one training step. background: they are not
  // waited for, unless by await().
  Result<Unit> request(Executable& executable, double callsFactor = 1, bool background = false);
  // What request(), collect() or await() failed on, in the source: a hint, an operator.
  Span failedAt() const { return m_failedAt; }
  // Gives it every kernel that is there. True: none is missing. An Error where one can't be made.
  Result<bool> collect(Executable& executable);
  // Until none is missing; `waiting(done, all)` is called now and then. False: stop was requested.
  Result<bool> await(Executable& executable, std::stop_token stop,
                     const std::function<void(std::size_t, std::size_t)>& waiting = {});
  // Gives it the interpreter's kernels, on the values of the device. False: those are not in the host's memory.
  Result<bool> interpret(Executable& executable);
  // The search runs, in dynamic mode, as soon as a few steps have shown what is dear.
  void start() { m_startWanted = true; }

  struct Swap {
    Hash subgraph;
    std::string name;
    std::optional<double> beforeMicroseconds, afterMicroseconds;
    std::int64_t generation = 0;  // the round of the search, as trials count it
    std::string schedule;
  };
  // In dynamic mode: what the cache has by now in place of what this executable, complete and no training one, began with.
  Result<Unit> takeBetter(Executable& executable);
  // Before training step `step`: new kernels from the cache, kernels of candidates under trial, or those of the replayed log.
  // Returns what the cache has replaced for good.
  Result<std::vector<Swap>> beforeStep(Executable& training, std::int64_t step);
  // Another partition of the training program takes over before step `step`: `next` is complete.
  void replace(Executable& training, Executable& next);
  void drop(const Executable& executable);  // nobody runs it any more
  // Into the log: from this step on fusion goes without these kernels.
  void logReverted(const JudgedKernel& kernel, std::int64_t step) {
    m_swaps.push_back({step, kernel.kernel, {}, true, {}, kernel.parts});
  }
  void logDevice(const DeviceConstants& device, std::int64_t step) { m_swaps.push_back({step, {}, {}, false, device}); }
  // Of a replay: those that the log names up to this step.
  std::vector<JudgedKernel> revertedUpTo(std::int64_t step) const;
  // After it: reports the timings of candidates.
  void afterStep(Executable& training, double seconds);
  // The step was stopped in its middle and counts for nothing: what was logged for it goes.
  void abandonStep(std::int64_t step);
  // A launch failed: true when a candidate was running, which is withdrawn; the step can be repeated.
  Result<bool> recover(Executable& training, const Error& error);

  // What keeps first kernels from being made just now, for people; empty: nothing.
  std::string trouble() const { return m_tuning ? m_tuning->trouble() : std::string(); }
  // A subgraph that the interpreter has computed in a worker's place; empty: none.
  const std::string& stoodIn() const { return m_stoodIn; }
  // Of that and of the search, whatever is to be said.
  std::string activity() const {
    const std::string words = trouble();
    return words.empty() && m_tuning && m_options.dynamic ? m_tuning->waitsFor() : words;
  }

  const std::vector<KernelSwap>& swaps() const { return m_swaps; }
  TuningService* tuning() const { return m_tuning.get(); }
  FunctionCache& cache() { return m_cache; }
  std::size_t trialsRunning() const { return m_trials.size(); }

 private:
  struct Trial {
    StepCandidate candidate;
    std::uint32_t subgraph = 0;
    std::shared_ptr<LinkedKernel> kernels[2];  // incumbent, candidate
    std::vector<TimedPair> pairs;
    std::size_t reported = 0;
    TimedPair open;
    int phase = 0;  // of four: incumbent, candidate, candidate, incumbent
  };
  Result<KernelObject> interpreted(const Program& subgraph) const;
  Result<std::shared_ptr<LinkedKernel>> link(const std::shared_ptr<const KernelObject>& object, std::uint64_t generation);
  Result<Unit> use(Executable& executable, std::uint32_t subgraph, std::shared_ptr<LinkedKernel> kernel);
  Result<Unit> replayStep(Executable& training, std::int64_t step);
  static Error notHere(const PlannedSubgraph& subgraph, const Error& why);
  Result<std::shared_ptr<LinkedKernel>> compiled(const PlannedSubgraph& subgraph, const std::string& schedule);
  void watchFirstSteps(Executable& training);
  void takeCandidates(Executable& training);
  void logKernels(const Executable& training, std::int64_t step);
  std::unordered_map<Hash, std::uint32_t>& numbers(const Executable& executable);

  DeviceContext& m_context;
  KernelSupplyOptions m_options;
  std::unique_ptr<Device> m_interpreter;  // on the device's own memory; null: that is not the host's
  FunctionCache m_cache;
  SteadyClock m_clock;
  std::unique_ptr<TuningService> m_tuning;  // after what it refers to
  std::map<const Executable*, std::unordered_map<Hash, std::uint32_t>> m_numbers;
  std::map<const Executable*, std::uint64_t> m_versions;
  std::unordered_map<Hash, std::shared_ptr<LinkedKernel>> m_best;                      // linked, of the cache
  std::map<std::pair<Hash, std::string>, std::shared_ptr<LinkedKernel>> m_bySchedule;  // of a replay
  std::map<const KernelObject*, std::weak_ptr<LinkedKernel>> m_links;
  std::vector<Trial> m_trials;
  std::vector<KernelSwap> m_swaps;
  std::unordered_map<Hash, std::shared_ptr<LinkedKernel>> m_logged;
  Span m_failedAt;
  std::string m_stoodIn;
  std::int64_t m_step = 0;
  int m_watchedSteps = 0;  // before the search
  bool m_startWanted = false;
  std::size_t m_replayed = 0;
};

}  // namespace nf
