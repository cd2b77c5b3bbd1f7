// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/device/backend.h"
#include "core/ir/structural_hash.h"
#include "core/tune/trial.h"

namespace nf {

// How a worker process is started: this command, then "--compile" or "--measure" with the options of worker_main.h.
struct WorkerCommand {
  std::vector<std::string> arguments = {"/proc/self/exe", "worker"};
};

// FirstKernel: somebody waits for it; goes before all Background work and runs at normal priority.
enum class CompilePriority : std::uint8_t { FirstKernel, Background };

struct CompileJob {
  std::shared_ptr<const Program> subgraph;
  Hash hash;  // of the subgraph: a worker is sent each program once
  std::shared_ptr<const Target> target;
  // The wanted schedule; then those to fall back on, the safest last, once it has taken down or stalled `attempts` workers
  // or the compiler has refused it.
  std::vector<Schedule> schedules;
  std::vector<std::string> texts;
  CompileEffort effort = CompileEffort::Full;
  CompilePriority priority = CompilePriority::FirstKernel;
  std::chrono::milliseconds deadline{10000};  // of one attempt
  int attempts = 3;                           // with one schedule
  int forgivenKills = 15;  // by others (SIGKILL): they count for no schedule, and one more ends the job as `outside`
  std::stop_token stop;    // ends a queued job at once, a running one within half a second
};

struct CompileOutcome {
  Result<KernelObject> kernel;
  TrialStatus status = TrialStatus::Ok;  // of the wanted schedule: Ok, Killed, Crashed
  int attempts = 0;                      // all together
  bool cancelled = false;                // by `stop` or the end of the service: says nothing about the schedule
  bool outside = false;                  // its workers were killed by others again and again: says nothing either
  bool died = false;                     // no kernel because workers died or stalled, not because the compiler refused
};

// Code generation in disposable processes (architecture, "Three kinds of process"). Each worker has a thread here that starts
// it, feeds it, holds the deadline, kills it and starts another. Worker 0 keeps normal priority and takes Background
// work only where it is the only one; the others turn nice at their first Background job and stay so.
class CompileService {
 public:
  struct Options {
    int workers = 2;
    WorkerCommand command;
  };
  explicit CompileService(Options options);
  ~CompileService();  // kills the workers; unfinished jobs end with an error
  CompileService(const CompileService&) = delete;
  CompileService& operator=(const CompileService&) = delete;

  std::future<CompileOutcome> compile(CompileJob job);
  // `done` is called once, on a thread of the service, with no lock held; it must not wait for another job.
  void compile(CompileJob job, std::function<void(CompileOutcome)> done);

  struct Statistics {
    std::int64_t compiled = 0, refused = 0, workersStarted = 0, workersDied = 0, deadlinesPassed = 0;
  };
  Statistics statistics() const;
  std::vector<pid_t> processIds() const;  // of the live workers

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace nf
