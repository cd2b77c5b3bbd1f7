// SPDX-License-Identifier: Apache-2.0
#include "core/tune/tune_program.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace nf {
namespace {

class TaskCollector {
 public:
  // hints: of the whole program; they name tensors of the bodies in it too.
  TaskCollector(const std::vector<Hint>& hints, const Target* target, std::vector<HintProblem>* problems)
      : m_hints(hints), m_target(target), m_problems(problems) {}

  void collect(const Program& program, double calls) {
    const SubgraphExtractor extractor(program);
    for (const Group& group : program.groups) {
      const Operator& first = program[group.operators.front()];
      if (isStepped(program, group)) {
        const Loop& loop = program[first.loop];
        if (loop.body && !loop.body->groups.empty()) {
          collect(*loop.body, calls * static_cast<double>(loop.trips));
          continue;
        }
      }
      add(program, group, extractor.extract(group.operators), first.phase == Phase::Evaluation ? calls / 100 : calls);
    }
  }

  std::vector<TuningTask> take() { return std::move(m_tasks); }

 private:
  void add(const Program& program, const Group& group, Subgraph subgraph, double calls) {
    const auto [at, isNew] = m_known.emplace(subgraph.hash, m_tasks.size());
    if (isNew) {
      TuningTask task;
      task.hash = subgraph.hash;
      task.subgraph = std::make_shared<const Program>(std::move(subgraph.program));
      task.name = group.name.empty() ? program[group.operators.back()].name : group.name;
      task.callsPerStep = 0;
      m_tasks.push_back(std::move(task));
    }
    TuningTask& task = m_tasks[at->second];
    task.callsPerStep += calls;
    if (const Hint* hint = pinOf(m_hints, program, group.operators)) {
      auto schedule = pinnedSchedule(*hint, *task.subgraph, m_target);
      if (schedule) task.forced = std::move(*schedule);
      else note(*hint, schedule.error());
    }
  }

  void note(const Hint& hint, const Error& error) {
    if (!m_problems) return;
    const bool known = std::any_of(m_problems->begin(), m_problems->end(), [&](const HintProblem& p) {
      return p.origin == hint.origin && p.error.message == error.message;
    });
    if (!known) m_problems->push_back({hint.origin, error});
  }

  const std::vector<Hint>& m_hints;
  const Target* m_target;
  std::vector<HintProblem>* m_problems;
  std::vector<TuningTask> m_tasks;
  std::unordered_map<Hash, std::size_t> m_known;
};

}  // namespace

bool pinsLoop(const Hint& hint) {
  if (hint.kind != Hint::Kind::Schedule) return false;
  const auto json = nlohmann::json::parse(hint.attributes, nullptr, false);
  return json.is_object() && json.contains("kind") && json["kind"] == "recurrence";
}

const Hint* pinOf(const std::vector<Hint>& hints, const Program& program, const std::vector<OperatorId>& operators) {
  // A loop may hand on a tensor under the name that it has in its body.
  const bool loop = !operators.empty() && program[operators.front()].kind == OperatorKind::Loop;
  const auto writes = [&](const std::string& name) {
    return std::any_of(operators.begin(), operators.end(), [&](OperatorId op) {
      const std::vector<TensorId> written = writesOf(program, op);
      return std::any_of(written.begin(), written.end(), [&](TensorId t) { return program[t].name == name; });
    });
  };
  for (const Hint& hint : hints)
    if (hint.kind == Hint::Kind::Schedule && pinsLoop(hint) == loop &&
        std::any_of(hint.tensors.begin(), hint.tensors.end(), writes))
      return &hint;
  return nullptr;
}

Result<Schedule> pinnedSchedule(const Hint& hint, const Program& subgraph, const Target* target) {
  const std::string where = "hint schedule " + (hint.tensors.empty() ? std::string() : hint.tensors.front()) + ": ";
  auto json = nlohmann::json::parse(hint.attributes, nullptr, false);
  if (!json.is_object()) return Error{"hint", where + "the attributes are no JSON object", {}, {}};
  if (!json.contains("version")) json["version"] = 1;
  auto schedule = Schedule::parse(json.dump());
  if (!schedule) return Error{"hint", where + schedule.error().message, {}, schedule.error().detail};
  if (!target) return schedule;
  NF_TRY(const auto space, scheduleSpace(subgraph, *target));
  if (const auto legal = space->check(*schedule); !legal)
    return Error{"hint", where + "this kernel has no such schedule: " + legal.error().message, {}, legal.error().detail};
  return schedule;
}

std::vector<TuningTask> tuningTasks(const Program& program, const Target* target, std::vector<HintProblem>* problems) {
  TaskCollector collector(program.hints, target, problems);
  collector.collect(program, 1);
  return collector.take();
}

Result<TuneSummary> tuneProgram(const Program& program, BackendRegistry& registry, const TuneProgramOptions& options) {
  const auto say = [&](const std::string& message) {
    if (options.onMessage) options.onMessage(message);
  };
  Backend* backend = registry.find(options.backend);
  if (!backend) return Error{"tune", "there is no back end " + options.backend + " here", options.device, {}};
  CompileService compile({options.compileWorkers, options.worker});
  NF_TRY(Target target, backend->target(options.device, options.threads));
  MeasureService measure({options.backend, options.device, options.threads, options.worker, {}});

  std::string message;
  auto records = RecordDatabase::open(options.recordsPath.empty() ? RecordDatabase::defaultPath() : options.recordsPath, &message);
  if (!message.empty()) say(message);
  if (!records) say("No tuning records are read or kept: " + records.error().message + ".");

  std::vector<HintProblem> problems;
  std::vector<TuningTask> tasks = tuningTasks(program, &target, &problems);
  for (const HintProblem& p : problems) say(p.error.message);
  if (!options.only.empty()) {
    std::erase_if(tasks, [&](const TuningTask& task) {
      return std::find(options.only.begin(), options.only.end(), task.hash) == options.only.end();
    });
    if (tasks.empty()) return Error{"tune", "The program has none of these kernels now.", options.device, {}};
  }
  std::vector<Hash> hashes;
  for (const TuningTask& task : tasks) hashes.push_back(task.hash);

  TuningOptions tuning;
  tuning.seed = options.seed;
  tuning.deviceShare = 1;
  tuning.maximumTrials = options.trials;
  tuning.roundSize = 8;
  tuning.lastWordInSteps = false;
  tuning.searchAfterHit = true;
  std::atomic<bool> told = false;
  tuning.onTrial = [&](const TrialEvent& event) {
    if (const std::string trouble = records ? (*records)->trouble() : std::string(); !trouble.empty() && !told.exchange(true))
      say(trouble);
    if (options.onTrial) options.onTrial(event);
  };
  tuning.onCounters = options.onCounters;
  FunctionCache cache;
  SteadyClock clock;
  const auto evaluator = workerEvaluator(compile, measure);
  TuningService service(std::make_shared<const Target>(std::move(target)), *evaluator, cache, records ? records->get() : nullptr,
                        clock, std::move(tuning));
  const Clock::Time start = clock.now();
  const auto limit = options.seconds > 0 ? std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1000))
                                         : std::chrono::milliseconds(std::chrono::hours(24 * 365));
  service.add(std::move(tasks));
  service.start();
  service.waitFinished(options.stop, limit);
  service.stop();

  TuneSummary summary;
  summary.subgraphs = service.states();
  summary.trials = service.trials();
  summary.seconds = std::chrono::duration<double>(clock.now() - start).count();
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const TuningService::State& state = summary.subgraphs[i];
    summary.firstStepMicroseconds += state.callsPerStep * state.firstMicroseconds;
    summary.bestStepMicroseconds += state.callsPerStep * state.bestMicroseconds;
    const auto failure = cache.failure(hashes[i]);
    if (failure && isStopped(*failure)) ++summary.withoutFirst;
    else if (failure) say(state.name + " has no kernel: " + failure->message);
  }
  return summary;
}

}  // namespace nf
