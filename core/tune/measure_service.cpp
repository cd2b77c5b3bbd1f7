// SPDX-License-Identifier: Apache-2.0
#include "core/tune/measure_service.h"

#include <nlohmann/json.hpp>

#include "core/tune/worker_messages.h"
#include "core/tune/worker_pool.h"

namespace nf {
namespace {

std::vector<std::string> measureCommand(const MeasureService::Options& options) {
  std::vector<std::string> arguments = options.command.arguments;
  for (const std::string& a : {std::string("--measure"), std::string("--backend"), options.backend, std::string("--device"),
                               options.device, std::string("--threads"), std::to_string(options.threads)})
    arguments.push_back(a);
  if (!options.leaseDirectory.empty()) {
    arguments.push_back("--lease-directory");
    arguments.push_back(options.leaseDirectory);
  }
  return arguments;
}

Frame requestOf(const MeasureJob& job, WorkerMemory& memory) {
  nlohmann::json header{{"op", "measure"},
                        {"candidate", kernelToJson(*job.candidate)},
                        {"full", job.gate == GateLevel::Full},
                        {"time", job.time},
                        {"count", job.count},
                        {"exclusive", job.exclusive}};
  addProgram(header, *job.subgraph, job.hash, memory);
  Frame frame;
  frame.body = job.candidate->code;
  if (job.incumbent) {
    header["incumbent"] = kernelToJson(*job.incumbent);
    frame.body.insert(frame.body.end(), job.incumbent->code.begin(), job.incumbent->code.end());
  }
  frame.header = header.dump();
  return frame;
}

Frame requestOf(const CompareJob& job, WorkerMemory& memory) {
  nlohmann::json branches = nlohmann::json::array();
  Frame frame;
  for (const auto* branch : {&job.first, &job.second}) {
    nlohmann::json kernels = nlohmann::json::array();
    for (const BranchKernel& k : *branch) {
      nlohmann::json kernel{{"kernel", kernelToJson(*k.object)}, {"tensors", k.tensors}};
      addProgram(kernel, *k.subgraph, k.hash, memory);
      frame.body.insert(frame.body.end(), k.object->code.begin(), k.object->code.end());
      kernels.push_back(std::move(kernel));
    }
    branches.push_back(std::move(kernels));
  }
  frame.header =
      nlohmann::json{{"op", "compare"}, {"branches", std::move(branches)}, {"whole", job.whole}, {"exclusive", job.exclusive}}
          .dump();
  return frame;
}

// The worker's context of the device is lost, and with it the process ends.
bool losesDevice(const Frame& answer) {
  const auto header = parseObject(answer.header);
  return header && header->value("lostDevice", false);
}

}  // namespace

struct MeasureService::State {
  explicit State(Options options) : device(options.device), pool({1, measureCommand(options), false}) {}
  std::string device;
  std::atomic<std::int64_t> measured{0}, refused{0};
  WorkerPool pool;

  MeasureOutcome outcomeOf(const WorkerPool::Attempt& attempt) {
    using Failure = WorkerProcess::Failure;
    MeasureOutcome outcome;
    outcome.cancelled = attempt.cancelled;
    outcome.status = TrialStatus::Crashed;
    if (attempt.cancelled) {
      outcome.reason = "cancelled";
    } else if (!attempt.startError.empty()) {
      outcome.reason = attempt.startError;
    } else if (attempt.reply.failure == Failure::Deadline) {
      outcome.status = TrialStatus::Killed;
      outcome.reason = attempt.reply.how;
    } else if (attempt.reply.failure == Failure::Died) {
      outcome.reason = "the measuring process ended: " + attempt.reply.how;
    } else {
      auto header = parseObject(attempt.reply.frame.header);
      Result<MeasureOutcome> answer = header ? outcomeFromJson(*header) : Result<MeasureOutcome>(header.error());
      if (answer) return std::move(*answer);
      outcome.reason = answer.error().message;
    }
    return outcome;
  }
};

MeasureService::MeasureService(Options options) : m_state(std::make_unique<State>(std::move(options))) {}
MeasureService::~MeasureService() = default;

void MeasureService::measure(MeasureJob job, std::function<void(MeasureOutcome)> done) {
  NF_ASSERT(job.subgraph && job.candidate);
  const auto shared = std::make_shared<MeasureJob>(std::move(job));
  // A first kernel is needed: only a kernel that takes down three workers in a row is to blame.
  const bool first = shared->priority == CompilePriority::FirstKernel;
  const auto attemptsLeft = std::make_shared<int>(first ? 3 : 1), killed = std::make_shared<int>(0);
  WorkerPool::Job work;
  work.priority = shared->priority;
  work.stop = shared->stop;
  work.request = [shared](WorkerMemory& memory) { return requestOf(*shared, memory); };
  work.deadline = [shared] { return shared->deadline; };
  work.ends = losesDevice;
  work.attempted = [state = m_state.get(), shared, attemptsLeft, killed, done = std::move(done)](WorkerPool::Attempt attempt) {
    const bool answered =
        attempt.startError.empty() && attempt.reply.failure == WorkerProcess::Failure::None && !losesDevice(attempt.reply.frame);
    const bool outside = !attempt.cancelled && attempt.reply.killedFromOutside;
    if (outside && ++*killed <= shared->forgivenKills) return false;
    if (!outside && !attempt.cancelled && !answered && --*attemptsLeft > 0) return false;
    MeasureOutcome outcome = state->outcomeOf(attempt);
    outcome.outside = outside;
    ++(outcome.status == TrialStatus::Ok ? state->measured : state->refused);
    done(std::move(outcome));
    return true;
  };
  m_state->pool.submit(std::move(work));
}

std::future<MeasureOutcome> MeasureService::measure(MeasureJob job) {
  auto promise = std::make_shared<std::promise<MeasureOutcome>>();
  auto future = promise->get_future();
  measure(std::move(job), [promise](MeasureOutcome outcome) { promise->set_value(std::move(outcome)); });
  return future;
}

std::future<MeasureOutcome> MeasureService::compare(CompareJob job) {
  NF_ASSERT(!job.first.empty() && !job.second.empty());
  auto promise = std::make_shared<std::promise<MeasureOutcome>>();
  auto future = promise->get_future();
  const auto shared = std::make_shared<CompareJob>(std::move(job));
  WorkerPool::Job work;
  work.priority = shared->priority;
  work.stop = shared->stop;
  work.request = [shared](WorkerMemory& memory) { return requestOf(*shared, memory); };
  work.deadline = [shared] { return shared->deadline; };
  work.ends = losesDevice;
  work.attempted = [state = m_state.get(), promise, killed = std::make_shared<int>(0),
                    forgiven = shared->forgivenKills](WorkerPool::Attempt attempt) {
    if (!attempt.cancelled && attempt.reply.killedFromOutside && ++*killed <= forgiven) return false;
    MeasureOutcome outcome = state->outcomeOf(attempt);
    ++(outcome.status == TrialStatus::Ok ? state->measured : state->refused);
    promise->set_value(std::move(outcome));
    return true;
  };
  m_state->pool.submit(std::move(work));
  return future;
}

CompileService::Statistics MeasureService::statistics() const {
  return {m_state->measured, m_state->refused, m_state->pool.started(), m_state->pool.died(), m_state->pool.deadlines()};
}

std::vector<pid_t> MeasureService::processIds() const { return m_state->pool.processIds(); }

}  // namespace nf
