// SPDX-License-Identifier: Apache-2.0
#include "core/tune/tuning_service.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/schedule/gpu.h"
#include "core/tune/tuning_state.h"

namespace nf {
namespace {

constexpr double kLongCompile = 1;  // seconds
constexpr double kStepMoved = 0.1;  // of the duration of a step that the search was told of last

class WorkerEvaluator final : public Evaluator {
 public:
  WorkerEvaluator(CompileService& compile, MeasureService& measure) : m_compile(compile), m_measure(measure) {}
  CompileOutcome compile(CompileJob job, std::stop_token stop) override {
    job.stop = std::move(stop);
    return m_compile.compile(std::move(job)).get();
  }
  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    job.stop = std::move(stop);
    return m_measure.measure(std::move(job)).get();
  }
  MeasureOutcome compare(CompareJob job, std::stop_token stop) override {
    job.stop = std::move(stop);
    return m_measure.compare(std::move(job)).get();
  }

 private:
  CompileService& m_compile;
  MeasureService& m_measure;
};

}  // namespace

MeasureOutcome Evaluator::compare(CompareJob, std::stop_token) {
  MeasureOutcome outcome;
  outcome.status = TrialStatus::Crashed;
  outcome.reason = "branches are not compared here";
  return outcome;
}

std::unique_ptr<Evaluator> workerEvaluator(CompileService& compile, MeasureService& measure) {
  return std::make_unique<WorkerEvaluator>(compile, measure);
}

nlohmann::json toJson(const TrialEvent& event) {
  nlohmann::json j{{"event", "trial"},
                   {"subgraph", event.subgraph.hex()},
                   {"name", event.name},
                   {"schedule", nlohmann::json::parse(event.schedule.text(), nullptr, false)},
                   {"us", event.microseconds ? nlohmann::json(*event.microseconds) : nlohmann::json(nullptr)},
                   {"status", name(event.status)},
                   {"best_us", event.bestMicroseconds},
                   {"improved", event.improved},
                   {"counted", event.counted},
                   {"seconds", event.seconds}};
  if (event.besideMicroseconds) j["beside_us"] = *event.besideMicroseconds, j["won"] = event.won;
  if (!event.reason.empty()) j["reason"] = event.reason;
  return j;
}

double rooflineSeconds(const Program& program, const Target& target) {
  double flops = 0, bytes = 0, speed = 1;
  for (std::size_t i = 0; i < program.operators.size(); ++i) flops += static_cast<double>(leastFlopsOf(program, OperatorId(i)));
  const std::vector<OperatorId> writer = producers(program);
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (writer[t].valid()) continue;
    bytes += static_cast<double>(tensor.bytes());
    if (tensor.type == DType::F16 || tensor.type == DType::BF16) speed = loop::matrixSpeed(target);
  }
  for (const Output& output : program.outputs) bytes += static_cast<double>(program[output.tensor].bytes());
  double seconds = 0;
  if (target.peakFlops > 0)
    seconds = flops / (speed * target.peakFlops * static_cast<double>(std::max<std::int64_t>(target.threads, 1)));
  if (target.peakBandwidth > 0 && bytes > static_cast<double>(std::max(target.l2Bytes, target.l3Bytes)))
    seconds = std::max(seconds, bytes / target.peakBandwidth);
  return seconds;
}

double compilingWeight(const Program& program) {
  double weight = 0;
  for (const Operator& op : program.operators) weight += op.reducer == Reducer::None ? 1 : 5;
  return weight;
}

void TuningService::Impl::begin(const Subject& subject, const Schedule& schedule) {
  if (records) [[maybe_unused]]
    const auto done = records->begin(subject.task.hash, target->fingerprint, schedule, subject.traits);
}

void TuningService::Impl::withdraw(const Subject& subject, const Schedule& schedule) {
  if (records) [[maybe_unused]]
    const auto done = records->withdraw(subject.task.hash, target->fingerprint, schedule);
}

void TuningService::Impl::report(Subject& subject, const Schedule& schedule, TrialStatus status, const Timing& timing,
                                 const std::string& reason, bool asked, RecordDatabase::Timed timed, const MeasureOutcome* turns) {
  const bool hasTime = timing.runs > 0;
  // First kernels are only checked: their time follows with the baseline.
  if (records && (asked || status != TrialStatus::Ok)) [[maybe_unused]]
    const auto done = records->finish(subject.task.hash, target->fingerprint, schedule, status, timing, timed);
  TrialEvent event;
  event.counted = asked;
  event.quick = timed == RecordDatabase::Timed::Quickly;
  {
    const std::lock_guard lock(mutex);
    trialCount += asked;
    subject.state.trials += asked;
    const bool failed = status != TrialStatus::Ok && status != TrialStatus::Slow;
    subject.state.failed += failed;
    double& best = subject.state.bestMicroseconds;
    if (status == TrialStatus::Ok && hasTime && (best == 0 || timing.median < best)) {
      event.improved = best != 0;
      best = timing.median;
    }
    event.subgraph = subject.task.hash;
    event.name = subject.task.name;
    event.bestMicroseconds = best;
    if (const auto found = subject.lineages.find(schedule.text()); found != subject.lineages.end()) event.lineage = found->second;
    else event.lineage.how = "first";
    candidateCount += asked && !event.lineage.how.starts_with("first");
  }
  if (records && (asked || status != TrialStatus::Ok)) [[maybe_unused]]
    const auto done = records->setLineage(subject.task.hash, target->fingerprint, schedule, event.lineage.round,
                                          event.lineage.parents, event.lineage.how);
  event.schedule = schedule;
  event.status = status;
  if (hasTime) event.microseconds = timing.median;
  if (hasTime && turns && turns->incumbent.runs > 0) {
    event.besideMicroseconds = turns->incumbent.median;
    event.won = judge(turns->pairs).decision == PairedVerdict::Decision::Accept;
  }
  event.spreadMicroseconds = timing.spread;
  event.reason = reason;
  event.seconds = std::chrono::duration<double>(clock.now() - born).count();
  if (options.onTrial) options.onTrial(event);
}

TuningService::TuningService(std::shared_ptr<const Target> target, Evaluator& evaluator, FunctionCache& cache,
                             RecordDatabase* records, Clock& clock, TuningOptions options)
    : m_impl(std::make_unique<Impl>(std::move(target), evaluator, cache, records, clock, std::move(options))) {}

TuningService::~TuningService() { stop(); }

void TuningService::add(std::vector<TuningTask> tasks) {
  // The largest first, so that no compiler is left with one at the end while the others are idle.
  std::stable_sort(tasks.begin(), tasks.end(), [](const TuningTask& a, const TuningTask& b) {
    return compilingWeight(*a.subgraph) > compilingWeight(*b.subgraph);
  });
  const std::lock_guard lock(m_impl->mutex);
  for (TuningTask& task : tasks) {
    NF_ASSERT(task.subgraph);
    if (const auto known = m_impl->byHash.find(task.hash); known != m_impl->byHash.end()) {
      auto& subject = *known->second;
      subject.running = true;
      subject.state.callsPerStep = subject.task.callsPerStep = task.callsPerStep;
      subject.task.background = subject.task.background && task.background;
      subject.state.name = subject.task.name = task.name;
      continue;
    }
    auto subject = std::make_unique<Impl::Subject>();
    subject->state.subgraph = task.hash;
    subject->state.name = task.name;
    subject->state.callsPerStep = task.callsPerStep;
    subject->state.rooflineMicroseconds = rooflineSeconds(*task.subgraph, *m_impl->target) * 1e6;
    subject->task = std::move(task);
    m_impl->byHash.emplace(subject->task.hash, subject.get());
    m_impl->firstQueue.push_back(subject.get());
    ++m_impl->firstUntried;
    m_impl->subjects.push_back(std::move(subject));
  }
  m_impl->changed.notify_all();
}

void TuningService::hurry(std::span<const Hash> subgraphs) {
  const std::lock_guard lock(m_impl->mutex);
  for (const Hash& hash : subgraphs)
    if (const auto known = m_impl->byHash.find(hash); known != m_impl->byHash.end()) known->second->task.background = false;
}

void TuningService::retain(std::span<const Hash> running) {
  const std::lock_guard lock(m_impl->mutex);
  for (auto& subject : m_impl->subjects)
    subject->running = std::find(running.begin(), running.end(), subject->task.hash) != running.end();
  m_impl->changed.notify_all();
}

void TuningService::start() {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) return;
  m_impl->started = true;
  m_impl->creditAt = m_impl->clock.now();
  m_impl->exploreThread = std::jthread([this](std::stop_token s) { m_impl->explore(s); });
  m_impl->compileThread = std::jthread([this](std::stop_token s) { m_impl->compileLoop(s); });
  m_impl->measureThread = std::jthread([this](std::stop_token s) { m_impl->measureLoop(s); });
  m_impl->changed.notify_all();
}

void TuningService::pause() {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) m_impl->accrue();
  m_impl->paused = true;
}

void TuningService::resume() {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) m_impl->accrue();
  m_impl->paused = false;
  m_impl->changed.notify_all();
}

void TuningService::stop() {
  for (auto& thread : m_impl->firstThreads) thread.request_stop();
  for (auto* thread : {&m_impl->exploreThread, &m_impl->compileThread, &m_impl->measureThread}) thread->request_stop();
  for (auto& thread : m_impl->firstThreads)
    if (thread.joinable()) thread.join();
  for (auto* thread : {&m_impl->exploreThread, &m_impl->compileThread, &m_impl->measureThread})
    if (thread->joinable()) thread->join();
  std::unique_lock lock(m_impl->mutex);
  m_impl->recordBest(lock);
  for (const auto* subject : m_impl->firstQueue) m_impl->cancelFirst(*subject);
  m_impl->firstQueue.clear();
  m_impl->scheduled.clear();
  for (auto& item : m_impl->compiled)
    if (!item.baseline) m_impl->withdraw(*item.subject, item.schedule);
  m_impl->compiled.clear();
  m_impl->changed.notify_all();
}

void TuningService::setDeviceShare(double share) {
  const std::lock_guard lock(m_impl->mutex);
  if (m_impl->started) m_impl->accrue();
  m_impl->share = std::clamp(share, 0.0, 1.0);
  m_impl->changed.notify_all();
}

bool TuningService::awaitBudget(std::stop_token stop) {
  std::unique_lock lock(m_impl->mutex);
  // Kernels come first: they make the next step faster.
  const auto mayGoOn = [&] {
    return m_impl->started && !m_impl->paused &&
           (m_impl->trialCount >= m_impl->otherTurn || m_impl->limitReached() || m_impl->nothingToDo());
  };
  while (m_impl->changed.wait(lock, stop, mayGoOn)) {
    if (!m_impl->waitForBudget(lock, stop)) return false;
    if (m_impl->paused) continue;
    m_impl->otherTurn = m_impl->trialCount + kTrialsATurn;
    return true;
  }
  return false;
}

void TuningService::charge(double deviceSeconds) {
  const std::lock_guard lock(m_impl->mutex);
  m_impl->credit -= deviceSeconds;
  m_impl->spent += deviceSeconds;
}

std::optional<Schedule> TuningService::bestSchedule(const Hash& subgraph) const {
  if (const auto cached = m_impl->cache.find(subgraph); cached && !cached->standIn) return cached->object->schedule;
  if (m_impl->records && m_impl->options.useRecords)
    if (const auto best = m_impl->records->best(subgraph, m_impl->target->fingerprint)) return best->schedule;
  return std::nullopt;
}

std::int64_t TuningService::roundOf(const Hash& subgraph, const Schedule& schedule) const {
  const std::lock_guard lock(m_impl->mutex);
  const auto subject = m_impl->byHash.find(subgraph);
  if (subject == m_impl->byHash.end()) return 0;
  const auto found = subject->second->lineages.find(schedule.text());
  return found == subject->second->lineages.end() ? 0 : found->second.round;
}

void TuningService::stepDone(double seconds) {
  const std::lock_guard lock(m_impl->mutex);
  double& smooth = m_impl->stepSeconds;
  smooth = smooth == 0 ? seconds : 0.9 * smooth + 0.1 * seconds;
  // What is worth a trial may be other kernels now.
  if (std::abs(smooth - m_impl->stepSecondsTold) <= kStepMoved * m_impl->stepSecondsTold) return;
  m_impl->stepSecondsTold = smooth;
  m_impl->changed.notify_all();
}

void TuningService::seenInSteps(const Hash& subgraph, double microseconds) {
  const std::lock_guard lock(m_impl->mutex);
  if (const auto found = m_impl->byHash.find(subgraph); found != m_impl->byHash.end())
    found->second->stepMicroseconds = microseconds;
  m_impl->changed.notify_all();
}

std::optional<StepCandidate> TuningService::nextCandidate() {
  const std::lock_guard lock(m_impl->mutex);
  const auto underTrial = [&](const Impl::Subject* subject) {
    return std::any_of(m_impl->offered.begin(), m_impl->offered.end(),
                       [&](const Impl::Offered& o) { return o.subject == subject && o.handedOut; });
  };
  for (auto& o : m_impl->offered) {
    if (underTrial(o.subject)) continue;
    const auto current = m_impl->cache.find(o.subject->task.hash);
    if (!current) continue;
    o.handedOut = true;
    o.candidate.incumbent = current->object;
    return o.candidate;
  }
  return std::nullopt;
}

PairedVerdict TuningService::reportPairs(std::uint64_t ticket, std::span<const TimedPair> pairs) {
  const std::lock_guard lock(m_impl->mutex);
  const auto at = std::find_if(m_impl->offered.begin(), m_impl->offered.end(),
                               [&](const Impl::Offered& o) { return o.candidate.ticket == ticket; });
  if (at == m_impl->offered.end()) return {PairedVerdict::Decision::Reject, 0, 0};
  at->pairs.insert(at->pairs.end(), pairs.begin(), pairs.end());
  PairedVerdict verdict = judge(at->pairs);
  if (verdict.decision == PairedVerdict::Decision::NeedMore) return verdict;
  if (verdict.decision == PairedVerdict::Decision::Accept) {
    std::vector<double> candidate, incumbent;
    for (const TimedPair& p : at->pairs) {
      candidate.push_back(p.candidate);
      incumbent.push_back(p.incumbent);
    }
    const auto entry = m_impl->cache.offer(at->candidate.subgraph, at->candidate.candidate, at->gate, timingOf(candidate).median,
                                           timingOf(incumbent).median);
    if (entry != FunctionCache::Entry::Entered) verdict.decision = PairedVerdict::Decision::Reject;
    else m_impl->bestToRecord.push_back(at->subject);
  }
  m_impl->offered.erase(at);
  m_impl->changed.notify_all();
  return verdict;
}

void TuningService::forget(std::uint64_t ticket) {
  const std::lock_guard lock(m_impl->mutex);
  std::erase_if(m_impl->offered, [ticket](const Impl::Offered& o) { return o.candidate.ticket == ticket; });
  m_impl->changed.notify_all();
}

void TuningService::withdraw(std::uint64_t ticket, const std::string& reason) {
  Impl::Offered taken;
  {
    const std::lock_guard lock(m_impl->mutex);
    const auto at = std::find_if(m_impl->offered.begin(), m_impl->offered.end(),
                                 [&](const Impl::Offered& o) { return o.candidate.ticket == ticket; });
    if (at == m_impl->offered.end()) return;
    taken = std::move(*at);
    m_impl->offered.erase(at);
    m_impl->changed.notify_all();
  }
  m_impl->report(*taken.subject, taken.candidate.candidate->schedule, TrialStatus::Crashed, {}, reason, true);
}

std::vector<TuningService::State> TuningService::states() const {
  const std::lock_guard lock(m_impl->mutex);
  std::vector<State> states;
  for (const auto& subject : m_impl->subjects) states.push_back(subject->state);
  return states;
}

std::string TuningService::trouble() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->trouble;
}

std::string TuningService::waitsFor() const {
  const std::lock_guard lock(m_impl->mutex);
  if (!m_impl->started || m_impl->paused) return {};
  if (m_impl->limitReached()) return "the search has used up its trials";
  if (m_impl->idle()) return "the search has nothing left that would be worth a trial";
  if (m_impl->waitingForBudget) return "the search waits: its share of device time is used up for now";
  if (m_impl->compilingSince) {
    const double seconds = std::chrono::duration<double>(m_impl->clock.now() - *m_impl->compilingSince).count();
    if (seconds >= kLongCompile) return "the search waits for its compiler: the machine is busy";
  }
  return {};
}

std::int64_t TuningService::trials() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->trialCount;
}

std::int64_t TuningService::candidates() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->candidateCount;
}

double TuningService::deviceSecondsSpent() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->spent;
}

bool TuningService::finished() const {
  const std::lock_guard lock(m_impl->mutex);
  return m_impl->idle();
}

bool TuningService::waitFinished(std::stop_token stop, std::chrono::milliseconds atMost) const {
  std::unique_lock lock(m_impl->mutex);
  return m_impl->changed.wait_for(lock, stop, atMost, [&] { return m_impl->idle(); });
}

}  // namespace nf
