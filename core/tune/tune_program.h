// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/tune/tuning_service.h"

namespace nf {

// The unique subgraphs of a program with groups (stage Partitioned or later), bodies of Loops included: calls count the groups
// that share a subgraph times the trips around them. Groups of phase Evaluation count as a hundredth of a call. A `hint schedule`
// of a tensor that a group writes becomes the task's forced schedule; `problems` says which hints are none that their kernel can have on
// the target (any, where that is null), once each.
struct HintProblem {
  OriginId origin;  // of the hint, in the program
  Error error;
};
std::vector<TuningTask> tuningTasks(const Program& program, const Target* target = nullptr,
                                    std::vector<HintProblem>* problems = nullptr);

// The schedule that `hint schedule Y {..}` pins for the kernel that writes Y: `{"kind": .., "knobs": ..}`, with or without the version that
// records carry. An Error of stage "hint" where it is none, or none that this kernel can have on this target (any, where that is null).
Result<Schedule> pinnedSchedule(const Hint& hint, const Program& subgraph, const Target* target);
// Is it the schedule of a Loop as one kernel (kind `recurrence`)? Its tensors are those that the loop hands on.
bool pinsLoop(const Hint& hint);
// The hint among `hints` that names a tensor the operators write; null: none. A loop's is of kind `recurrence`, others are of other kinds.
const Hint* pinOf(const std::vector<Hint>& hints, const Program& program, const std::vector<OperatorId>& operators);

struct TuneProgramOptions {
  std::string backend = "cpu";
  std::string device = "cpu";
  int threads = 1;
  std::int64_t trials = 256;  // all subgraphs together
  double seconds = 0;         // 0: no limit
  std::uint64_t seed = 1;
  std::vector<Hash> only;   // these subgraphs; empty: all. An Error where the program has none of them
  std::string recordsPath;  // empty: RecordDatabase::defaultPath()
  int compileWorkers = 2;
  WorkerCommand worker;
  std::stop_token stop;
  std::function<void(const TrialEvent&)> onTrial;
  std::function<void(const CountersEvent&)> onCounters;
  std::function<void(const std::string&)> onMessage;  // for people: records moved aside, a subgraph that has no kernel
};

struct TuneSummary {
  std::vector<TuningService::State> subgraphs;
  std::int64_t trials = 0;
  double seconds = 0;
  // Of one step: the first kernels and the best ones, over all subgraphs that were timed.
  double firstStepMicroseconds = 0, bestStepMicroseconds = 0;
  std::size_t withoutFirst = 0;  // subgraphs whose first kernel was still being made when the stop or the limit came
};

// `neoflow tune`: searches the schedules of every subgraph with the whole device for itself, records what it finds. Returns when
// the trials or the seconds are used up, nothing is left to win, or a stop is requested.
Result<TuneSummary> tuneProgram(const Program& program, BackendRegistry& registry, const TuneProgramOptions& options);

}  // namespace nf
