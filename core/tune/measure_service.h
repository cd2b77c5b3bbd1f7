// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/device/profiler.h"
#include "core/tune/compile_service.h"

namespace nf {

// What is asked of the measuring worker about one kernel. The gate comes first; a kernel that fails it is not timed.
enum class GateLevel : std::uint8_t {
  Quick,  // within about 20 ms: first kernels, somebody waits
  Full,   // more points, and every output compared with the incumbent's
};

struct MeasureJob {
  std::shared_ptr<const Program> subgraph;
  Hash hash;
  std::shared_ptr<const KernelObject> candidate;
  std::shared_ptr<const KernelObject> incumbent;  // null: none yet; then three runs are timed
  GateLevel gate = GateLevel::Full;
  bool time = true;
  bool count = false;  // in place of timing: both kernels once more, under the device's counters
  // Every run under the device's lease, in slices of at most 20 ms or one run. False: on a core that nobody else uses.
  bool exclusive = true;
  CompilePriority priority = CompilePriority::Background;
  std::chrono::milliseconds deadline{10000};
  int forgivenKills = 15;  // as CompileJob's
  std::stop_token stop;    // as CompileJob's
};

struct MeasureOutcome {
  TrialStatus status = TrialStatus::Ok;
  std::string reason;  // of a status that is not Ok
  GateReport gate;
  Timing timing;                 // of the candidate; runs 0: not timed
  Timing incumbent;              // of the incumbent, in the same session
  std::vector<TimedPair> pairs;  // with the incumbent; empty: dropped before
  bool hasCounters = false;      // the device could count
  std::optional<KernelCounters> counters, incumbentCounters;
  std::string countersMissing;  // why there are none though they were asked for, one sentence
  double deviceSeconds = 0;     // spent on the device, gate included: what the budget pays
  bool cancelled = false;       // by `stop` or the end of the service: says nothing about the candidate
  bool outside = false;         // its workers were killed by others again and again: says nothing either
  bool lostDevice = false;      // the kernel left the worker's context of the device unusable; the next job gets another worker
  bool lacksMemory = false;     // the worker, for the check: no other schedule and no other worker would do better
};

// One kernel of a branch. `tensors` numbers its inputs, then its outputs: what a kernel writes, later ones of the branch read.
struct BranchKernel {
  std::shared_ptr<const Program> subgraph;
  Hash hash;
  std::shared_ptr<const KernelObject> object;
  std::vector<std::uint32_t> tensors;
};

// Two ways of computing the same, each a sequence of kernels run one after the other: a fused kernel and its parts. Every kernel
// passes the quick gate first. The second branch is the candidate of the outcome, the first one its incumbent.
struct CompareJob {
  std::vector<BranchKernel> first, second;
  bool whole = false;  // all pairs, whichever is slower; else it ends as soon as the second one has lost or gains nothing
  bool exclusive = true;
  CompilePriority priority = CompilePriority::Background;
  std::chrono::milliseconds deadline{30000};
  int forgivenKills = 15;
  std::stop_token stop;
};

// The one process that holds a context of this device and runs candidates: links, checks, times (measurement policy: codegen,
// "Search"). It may hang or die; its parent kills it and starts another.
class MeasureService {
 public:
  struct Options {
    std::string backend = "cpu";
    std::string device = "cpu";
    int threads = 1;
    WorkerCommand command;
    std::string leaseDirectory;
  };
  explicit MeasureService(Options options);
  ~MeasureService();
  MeasureService(const MeasureService&) = delete;
  MeasureService& operator=(const MeasureService&) = delete;

  // A worker that dies, or whose device is lost to it, under a FirstKernel job is replaced and the job repeated twice; a Background job
  // ends as Crashed or Killed.
  // Kills by others count for neither.
  std::future<MeasureOutcome> measure(MeasureJob job);
  void measure(MeasureJob job, std::function<void(MeasureOutcome)> done);
  // As a Background job.
  std::future<MeasureOutcome> compare(CompareJob job);
  CompileService::Statistics statistics() const;
  std::vector<pid_t> processIds() const;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace nf
