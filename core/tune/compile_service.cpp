// SPDX-License-Identifier: Apache-2.0
#include "core/tune/compile_service.h"

#include <nlohmann/json.hpp>

#include "core/tune/worker_messages.h"
#include "core/tune/worker_pool.h"

namespace nf {
namespace {

std::vector<std::string> compileCommand(const WorkerCommand& command) {
  std::vector<std::string> arguments = command.arguments;
  arguments.push_back("--compile");
  return arguments;
}

// One job on its way through schedules and attempts.
struct Pending {
  CompileJob job;
  std::function<void(CompileOutcome)> done;
  std::size_t schedule = 0;
  int attemptsWithSchedule = 0;
  int attempts = 0;
  int killed = 0;  // by others
  TrialStatus wanted = TrialStatus::Ok;

  Frame request(WorkerMemory& memory) const {
    nlohmann::json header{{"op", "compile"},
                          {"schedule", job.schedules[schedule].text()},
                          {"texts", job.texts},
                          {"quick", job.effort == CompileEffort::Quick},
                          {"nice", job.priority == CompilePriority::Background}};
    addProgram(header, *job.subgraph, job.hash, memory);
    const std::string target = targetToJson(*job.target).dump();
    header["targetKey"] = target;
    if (memory.targets.insert(target).second) header["target"] = targetToJson(*job.target);
    return {header.dump(), {}};
  }

  void finish(Result<KernelObject> kernel) { done({std::move(kernel), wanted, attempts, false, false, false}); }
  void fail(Error error, bool CompileOutcome::*why) {
    CompileOutcome outcome{std::move(error), wanted, attempts, false, false, false};
    outcome.*why = true;
    done(std::move(outcome));
  }

  // The schedule is no good: the next one, or the end.
  bool giveUp(TrialStatus status, Error error, bool died) {
    if (schedule == 0) wanted = status;
    attemptsWithSchedule = 0;
    if (++schedule < job.schedules.size()) return false;
    if (died) fail(std::move(error), &CompileOutcome::died);
    else finish(std::move(error));
    return true;
  }
};

}  // namespace

struct CompileService::State {
  explicit State(Options options) : pool({options.workers, compileCommand(options.command), true}) {}
  std::atomic<std::int64_t> compiled{0}, refused{0};
  WorkerPool pool;

  bool attempted(Pending& pending, WorkerPool::Attempt attempt) {
    using Failure = WorkerProcess::Failure;
    const std::string device = pending.job.target->backend;
    if (attempt.cancelled) {
      pending.fail(Error{"compile", "cancelled", device, {}}, &CompileOutcome::cancelled);
      return true;
    }
    ++pending.attempts;
    if (attempt.reply.killedFromOutside) {
      if (++pending.killed <= pending.job.forgivenKills) return false;
      pending.fail(Error{"compile", "the compiler's process was killed by others " + std::to_string(pending.killed) + " times",
                         device, attempt.reply.how},
                   &CompileOutcome::outside);
      return true;
    }
    ++pending.attemptsWithSchedule;
    if (!attempt.startError.empty()) {
      if (pending.attemptsWithSchedule < pending.job.attempts) return false;
      pending.wanted = TrialStatus::Crashed;
      pending.fail(Error{"compile", attempt.startError, device, {}}, &CompileOutcome::died);
      return true;
    }
    if (attempt.reply.failure != Failure::None) {
      const bool late = attempt.reply.failure == Failure::Deadline;
      if (pending.attemptsWithSchedule < pending.job.attempts) return false;
      return pending.giveUp(
          late ? TrialStatus::Killed : TrialStatus::Crashed,
          Error{"compile", late ? "the compiler did not finish" : "the compiler's process died", device, attempt.reply.how}, true);
    }
    Result<KernelObject> kernel = answer(attempt.reply.frame);
    if (!kernel) {
      ++refused;
      return pending.giveUp(TrialStatus::Crashed, kernel.error(), false);
    }
    ++compiled;
    kernel->subgraph = pending.job.hash;
    restoreOrigins(*kernel, *pending.job.subgraph);
    pending.finish(std::move(kernel));
    return true;
  }

  static Result<KernelObject> answer(Frame& frame) {
    NF_TRY(const nlohmann::json header, parseObject(frame.header));
    if (const auto error = header.find("error"); error != header.end())
      return Error{error->value("stage", "compile"), error->value("message", ""), error->value("device", ""),
                   error->value("detail", "")};
    const auto kernel = header.find("kernel");
    if (kernel == header.end()) return Error{"compile", "an answer without a kernel", {}, {}};
    return kernelFromJson(*kernel, std::move(frame.body));
  }
};

CompileService::CompileService(Options options) : m_state(std::make_unique<State>(std::move(options))) {}
CompileService::~CompileService() = default;

void CompileService::compile(CompileJob job, std::function<void(CompileOutcome)> done) {
  NF_ASSERT(job.subgraph && job.target && !job.schedules.empty());
  auto pending = std::make_shared<Pending>();
  pending->job = std::move(job);
  pending->done = std::move(done);
  WorkerPool::Job work;
  work.priority = pending->job.priority;
  work.stop = pending->job.stop;
  work.request = [pending](WorkerMemory& memory) { return pending->request(memory); };
  work.deadline = [pending] { return pending->job.deadline; };
  work.attempted = [state = m_state.get(), pending](WorkerPool::Attempt attempt) {
    return state->attempted(*pending, std::move(attempt));
  };
  m_state->pool.submit(std::move(work));
}

std::future<CompileOutcome> CompileService::compile(CompileJob job) {
  auto promise = std::make_shared<std::promise<CompileOutcome>>();
  auto future = promise->get_future();
  compile(std::move(job), [promise](CompileOutcome outcome) { promise->set_value(std::move(outcome)); });
  return future;
}

CompileService::Statistics CompileService::statistics() const {
  return {m_state->compiled, m_state->refused, m_state->pool.started(), m_state->pool.died(), m_state->pool.deadlines()};
}

std::vector<pid_t> CompileService::processIds() const { return m_state->pool.processIds(); }

}  // namespace nf
