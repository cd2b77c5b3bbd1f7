// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/protocol/message.h"
#include "core/runtime/device_context.h"
#include "core/runtime/evaluation_check.h"
#include "core/runtime/host_tensor.h"
#include "core/runtime/kernel_supply.h"
#include "core/runtime/pipeline.h"

namespace nf {

// What stands here overrides the `train` statement; empty, 0 and nullopt: as written there.
struct TrainOptions {
  Source source;
  std::map<std::string, std::string> sets;
  std::size_t train = 0;  // which `train` statement
  std::string mode;       // static, dynamic
  std::optional<std::uint64_t> seed;
  std::int64_t steps = 0, epochs = 0;
  double seconds = 0;             // of wall time
  bool evaluate = true;           // held-out rows after every epoch and at the end; without any, the inputs at the end
  bool onlyEvaluate = false;      // no step: with the first values, or the checkpoint's; nothing is written
  std::string outputRoot;         // NAME.nf.out; empty: nothing is written
  std::string resume;             // a checkpoint
  std::string replaySwaps;        // swaps.jsonl of an earlier run
  std::string initialWeights;     // safetensors or npz: by name, in place of initial values
  double checkpointSeconds = 10;  // between checkpoints, which take a fiftieth of the time at most; the last step always makes one.
                                  // One that can't be written does not end the training.
  std::int64_t evaluationBytes = kEvaluationBytes;  // a larger one is made in batches
  TuningOptions tuning;
  // Opens what training goes on with where its device is lost; empty: it ends there.
  std::function<Result<std::unique_ptr<DeviceContext>>()> standIn;
  bool verify = false;  // every stage of the program
  std::string version;  // for run.json
  std::chrono::steady_clock::time_point processStart = std::chrono::steady_clock::now();
};

struct TrainSummary {
  protocol::DoneEvent done;
  std::string folder;  // of the run; empty: nothing was written
  std::string checkpoint;
  std::vector<KernelSwap> swaps;
  std::optional<Error> unsaved;  // trained to the end, but the last checkpoint or other results could not be written
};

// One training run. Events are the messages of the protocol, FirstStepEvent to DoneEvent and RunState, given on the thread that
// runs; an Error of run() has been reported as ErrorEvent too, TrainSummary::unsaved as one behind the DoneEvent.
class TrainJob {
 public:
  using Sink = std::function<void(const protocol::Message&)>;
  TrainJob(DeviceContext& context, TrainOptions options, Sink sink);
  ~TrainJob();

  // Trains until the end, an error, or a stop, which is answered between two steps.
  Result<TrainSummary> run(std::stop_token stop);

  // From any thread while run() goes on.
  void pause();
  void resume();
  void setDeviceShare(double share);
  // With the training executable, and the newest step that was made: what the executable holds is of it.
  using Task = std::function<void(Executable&, std::int64_t step)>;
  // Calls `task` between two steps (or while it is paused). False: the run is over or has not begun.
  bool betweenSteps(Task task);
  // When run() has returned: the parameters and states as it left them, by name; none where they take more than `mostBytes`.
  std::map<std::string, HostTensor> weights(std::int64_t mostBytes) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> m_impl;
};

// A trial as views and scripts get it; its number is the receiver's.
protocol::TrialEvent protocolEvent(const TrialEvent& event);
protocol::KernelCountersEvent protocolEvent(const CountersEvent& event);
protocol::CounterInfo describeCounters(const KernelCounters& counters);
protocol::TrialStatus protocolStatus(TrialStatus status);

}  // namespace nf
