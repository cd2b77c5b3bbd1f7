// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <utility>

#include "core/tune/tuning_state.h"

namespace nf {
namespace {

constexpr std::size_t kFinishedSearch = 24;  // recorded trials that make an exact hit skip the search
constexpr int kKillsForgiven = 3;  // by others, while first kernels are missing: beyond them something stands in for all of these
// Of one whose workers were killed by others, after the first time. A killer that strikes now and then is outlived at once; where it
// strikes all workers alike, those that live longest are the fresh ones, so the waits stay short.
constexpr std::chrono::milliseconds kAfterKill{20}, kAfterKillsMost{320};

}  // namespace

void TuningService::Impl::makeFirstKernels(std::stop_token stop) {
  std::unique_lock lock(mutex);
  const auto next = [&] {
    return std::min_element(firstQueue.begin(), firstQueue.end(), [](const Subject* a, const Subject* b) {
      return std::pair(a->retryAt, a->task.background) < std::pair(b->retryAt, b->task.background);
    });
  };
  // While workers are killed faster than kernels are made, one at a time has the machine: its compiler gets furthest.
  const auto mayTake = [&] { return !firstQueue.empty() && (killsInARow <= kKillsForgiven || firstActive == 0); };
  while (changed.wait(lock, stop, mayTake)) {
    const auto earliest = next();
    if ((*earliest)->retryAt > clock.now()) {
      clock.waitUntil(lock, changed, stop, (*earliest)->retryAt, [&] { return mayTake() && (*next())->retryAt <= clock.now(); });
      if (stop.stop_requested()) return;
      continue;
    }
    Subject* subject = *earliest;
    firstQueue.erase(earliest);
    ++firstActive;
    lock.unlock();
    const bool made = makeFirstKernel(*subject, stop);
    lock.lock();
    --firstActive;
    if (!std::exchange(subject->firstTried, true)) --firstUntried;
    // Behind those that have not been tried yet.
    if (!made) firstQueue.push_back(subject);
    changed.notify_all();
  }
}

bool TuningService::Impl::standIn(Subject& subject) {
  if (!options.standIn) return false;
  if (cache.find(subject.task.hash)) return true;
  auto object = options.standIn(*subject.task.subgraph);
  if (!object) return false;
  object->subgraph = subject.task.hash;
  cache.standIn(subject.task.hash, std::make_shared<const KernelObject>(std::move(*object)));
  return true;
}

bool TuningService::Impl::killedByOthers(Subject& subject, const std::string& what) {
  std::vector<Subject*> missing;
  {
    const std::lock_guard lock(mutex);
    trouble = what + "; trying again";
    ++kills;
    ++killsInARow;
    subject.retryAt = clock.now() + subject.afterKill;
    subject.afterKill = std::clamp<Clock::Time>(2 * subject.afterKill, kAfterKill, kAfterKillsMost);
    if (options.standInWhileKilled && kills > kKillsForgiven) {
      missing.assign(firstQueue.begin(), firstQueue.end());
      missing.push_back(&subject);
    }
  }
  for (Subject* s : missing) standIn(*s);
  return false;
}

bool TuningService::Impl::firstFailed(Subject& subject, const Error& why, bool died) {
  if (!died || !standIn(subject)) {
    cache.fail(subject.task.hash, why);
    return true;
  }
  const std::lock_guard lock(mutex);
  trouble =
      "the interpreter stands in for " + subject.task.name + ": " + why.message + (why.detail.empty() ? "" : ", " + why.detail);
  subject.retryAt = clock.now() + subject.retryAfter;
  subject.retryAfter = std::min<Clock::Time>(2 * subject.retryAfter, kRetryMost);
  return false;
}

std::vector<Schedule> TuningService::Impl::firstSchedules(Subject& subject, const ScheduleSpace& space, bool& recorded) {
  std::vector<Schedule> result;
  const auto add = [&](const Schedule& s) {
    const bool avoided = std::find(subject.avoid.begin(), subject.avoid.end(), s) != subject.avoid.end();
    if (avoided || !space.check(s) || std::find(result.begin(), result.end(), s) != result.end()) return false;
    result.push_back(s);
    return true;
  };
  if (subject.task.forced) add(*subject.task.forced);
  if (records && options.useRecords && !subject.task.forced)
    if (const auto best = records->best(subject.task.hash, target->fingerprint)) recorded = add(best->schedule);
  add(space.first());
  std::mt19937_64 rng(options.seed ^ subject.task.hash.low);
  for (int i = 0; i < 8 && result.size() < 4; ++i) add(space.random(rng));
  return result;
}

bool TuningService::Impl::recordedAsFinished(const Subject& subject) const {
  return records->all(subject.task.hash, target->fingerprint).size() >= kFinishedSearch;
}

bool TuningService::Impl::makeFirstKernel(Subject& subject, std::stop_token stop) {
  if (!subject.space) {
    auto space = options.space(*subject.task.subgraph, *target);
    if (!space) {
      {
        const std::lock_guard lock(mutex);
        subject.state.notLowerable = space.error().message;
      }
      cache.fail(subject.task.hash, space.error());
      return true;
    }
    subject.space = std::move(*space);
    subject.traits = traitsOf(*subject.task.subgraph, subject.space->first().kind);
  }
  bool recorded = false;
  std::vector<Schedule> schedules = firstSchedules(subject, *subject.space, recorded);
  Error last{"compile", "no schedule of " + subject.task.name + " works", target->backend, {}};
  bool died = false;
  while (!schedules.empty() && !stop.stop_requested()) {
    begin(subject, schedules[0]);
    std::shared_ptr<const KernelObject> object = std::exchange(subject.ungated, nullptr);
    if (!object) {
      CompileJob job;
      job.subgraph = subject.task.subgraph;
      job.hash = subject.task.hash;
      job.target = target;
      job.schedules = schedules;
      job.priority = priorityOf(subject);
      if (options.quickFirst && job.priority == CompilePriority::FirstKernel) job.effort = CompileEffort::Quick;
      job.deadline = job.priority == CompilePriority::Background ? kCompileDeadline : kFirstDeadline;
      job.forgivenKills = 0;
      CompileOutcome outcome = evaluator.compile(std::move(job), stop);
      if (outcome.cancelled) {
        withdraw(subject, schedules[0]);
        return cancelFirst(subject);
      }
      if (outcome.outside) {
        withdraw(subject, schedules[0]);
        return killedByOthers(subject, outcome.kernel.error().message);
      }
      if (outcome.status != TrialStatus::Ok) {
        const std::string why =
            outcome.kernel ? "its compiler failed" : outcome.kernel.error().message + " " + outcome.kernel.error().detail;
        report(subject, schedules[0], outcome.status, {}, why, false);
      }
      if (!outcome.kernel) {
        last = outcome.kernel.error();
        died = outcome.died;
        break;
      }
      object = std::make_shared<const KernelObject>(std::move(*outcome.kernel));
    }
    // The wanted one, or one that stood behind it.
    const auto used = std::find(schedules.begin(), schedules.end(), object->schedule);
    if (used != schedules.begin() && used != schedules.end()) {
      recorded = false;
      schedules.erase(schedules.begin(), used);
      begin(subject, schedules[0]);
    }
    MeasureJob gate = gateJob(subject, object);
    gate.forgivenKills = 0;
    const auto measured = evaluator.measure(std::move(gate), stop);
    if (measured.cancelled) {
      withdraw(subject, schedules[0]);
      return cancelFirst(subject);
    }
    if (measured.outside) {
      withdraw(subject, schedules[0]);
      subject.ungated = object;
      return killedByOthers(subject, measured.reason);
    }
    report(subject, schedules[0], measured.status, {}, measured.reason, false,
           object->effort == CompileEffort::Quick ? RecordDatabase::Timed::Quickly : RecordDatabase::Timed::Begun);
    if (measured.status == TrialStatus::Ok) return enterFirst(subject, object, measured.gate, recorded);
    last = {kGateStage, measured.reason, target->backend, {}};
    if (measured.lacksMemory) return firstFailed(subject, last, false);
    died = measured.status == TrialStatus::Crashed || measured.status == TrialStatus::Killed;
    recorded = false;
    schedules.erase(schedules.begin());
  }
  if (!schedules.empty() && stop.stop_requested()) return cancelFirst(subject);  // the next one was not tried any more
  return firstFailed(subject, last, died);
}

CompilePriority TuningService::Impl::priorityOf(const Subject& subject) const {
  const std::lock_guard lock(mutex);
  return subject.task.background ? CompilePriority::Background : CompilePriority::FirstKernel;
}

MeasureJob TuningService::Impl::gateJob(const Subject& subject, std::shared_ptr<const KernelObject> object) const {
  MeasureJob job;
  job.subgraph = subject.task.subgraph;
  job.hash = subject.task.hash;
  job.candidate = std::move(object);
  job.gate = GateLevel::Quick;
  job.time = false;
  job.exclusive = options.exclusive;
  job.priority = CompilePriority::FirstKernel;
  job.deadline = kFirstDeadline;
  return job;
}

bool TuningService::Impl::cancelFirst(const Subject& subject) {
  Error why = stopped();
  why.message = "stopped before " + subject.task.name + " had its first kernel";
  cache.fail(subject.task.hash, why);
  return true;
}

bool TuningService::Impl::enterFirst(Subject& subject, std::shared_ptr<const KernelObject> object, const GateReport& gate,
                                     bool recorded) {
  const bool finishedSearch = recorded && !options.searchAfterHit && recordedAsFinished(subject);
  {
    const std::lock_guard lock(mutex);
    subject.firstDone = true;
    subject.compiledQuickly = object->effort == CompileEffort::Quick;
    subject.estimate = subject.space->estimateSeconds(object->schedule);
    subject.trialSeconds = kOperatorTrial * (1 + compilingWeight(*subject.task.subgraph));
    trouble.clear();
    killsInARow = 0;
    if (firstQueue.empty() && firstActive == 1) kills = 0;
    subject.state.recordHit = recorded;
    if (finishedSearch || subject.task.forced) subject.state.exhausted = true;
  }
  // What is written ahead names those that kill; the rest about this one follows with its time.
  withdraw(subject, object->schedule);
  cache.offer(subject.task.hash, std::move(object), gate, std::nullopt);
  changed.notify_all();
  return true;
}

}  // namespace nf
