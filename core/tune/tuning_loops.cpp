// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/tune/tuning_state.h"

namespace nf {
namespace {

constexpr std::size_t kCompiledAhead = 2;  // kernels that wait for the measuring worker
constexpr int kBarrenEnd = 64;             // trials without improvement that end a search
constexpr double kWorthOfStep = 5e-4;      // gains below this share of a step are left alone
constexpr double kFullEffortGain = 0.05;   // expected gain of the step from which on the whole share is spent
constexpr double kLeastEffort = 0.1;       // of the share, while anything at all is to be gained
constexpr int kForgivenOfTrials = 3;
constexpr int kProofEvery = 3;        // of rounds one goes to a first kernel that is not fully checked yet
constexpr double kFullGain = 0.05;    // of a kernel's time, expected from compiling it with full effort
constexpr double kMostCredit = 0.25;  // seconds of device time that may be saved up

}  // namespace

bool TuningService::Impl::limitReached() const {
  return options.maximumTrials >= 0 &&
         trialCount + static_cast<std::int64_t>(scheduled.size() + compiled.size() + itemsActive) >= options.maximumTrials;
}

double TuningService::Impl::gainOf(const Subject& s) const {
  if (!s.running || !s.firstDone) return 0;
  if (!s.baselineDone) {
    if (!options.lastWordInSteps) return INFINITY;
    const double floor = s.state.rooflineMicroseconds * 1e-6;
    const double seconds = s.stepMicroseconds > 0 ? s.stepMicroseconds * 1e-6 : s.estimate;
    return std::max(GeneticSearch::priorGainSeconds(seconds, floor) * s.task.callsPerStep, 1e-12);
  }
  if (s.compiledQuickly) return std::max(kFullGain * s.state.firstMicroseconds * 1e-6 * s.task.callsPerStep, 1e-12);
  const double gain = s.state.expectedGainSeconds;
  return s.state.exhausted || gain < kWorthOfStep * stepSeconds ? 0 : gain;
}

TuningService::Impl::Subject* TuningService::Impl::mostWorth() const {
  constexpr double kComparable = 0.2;
  double most = 0;
  for (const auto& s : subjects)
    if (const double worth = worthOf(*s); std::isfinite(worth)) most = std::max(most, worth);
  Subject* best = nullptr;
  double bestWorth = 0;
  // Every first kernel is checked fully in the end, however little it costs.
  const bool proof = sinceProof >= kProofEvery || nothingUnderWay();
  for (const auto& s : subjects) {
    const double worth = worthOf(*s);
    if (worth == 0 || (worth < kComparable * most && (s->baselineDone || !proof))) continue;
    if (!s->baselineDone && s->baselineQueued) continue;
    if (s->inFlight > 0) continue;  // a round learns from the one before: trajectories stay reproducible
    if (worth > bestWorth) {
      bestWorth = worth;
      best = s.get();
    }
  }
  return best;
}

bool TuningService::Impl::nothingUnderWay() const {
  return scheduled.empty() && compiled.empty() && itemsActive == 0 &&
         std::none_of(subjects.begin(), subjects.end(), [](const auto& s) { return s->inFlight > 0 || s->baselineQueued; });
}

void TuningService::Impl::explore(std::stop_token stop) {
  std::unique_lock lock(mutex);
  const auto canPropose = [&] {
    return !paused && firstUntried == 0 && !limitReached() && scheduled.size() < options.queueCapacity && mostWorth() != nullptr;
  };
  while (changed.wait(lock, stop, [&] { return !observations.empty() || canPropose(); })) {
    std::vector<Observation> news;
    news.swap(observations);
    exploring = true;
    lock.unlock();
    for (const Observation& o : news) learn(o);
    lock.lock();
    if (canPropose()) proposeRound(lock);
    exploring = false;
    changed.notify_all();
  }
}

void TuningService::Impl::learn(const Observation& o) {
  Subject& subject = *o.subject;
  if (!subject.search) startSearch(subject);
  subject.search->observe(o.schedule, o.status, o.seconds);
  const double gain = subject.search->expectedGainSeconds(rooflineSeconds(*subject.task.subgraph, *target));
  const std::lock_guard lock(mutex);
  subject.inFlight = std::max(subject.inFlight - 1, 0);
  subject.state.expectedGainSeconds = gain * subject.task.callsPerStep;
  if (subject.search->barrenTrials() >= kBarrenEnd) subject.state.exhausted = true;
}

void TuningService::Impl::startSearch(Subject& subject) {
  SearchOptions search;
  search.seed = options.seed ^ subject.task.hash.low;
  subject.model = options.costModel();
  subject.search = std::make_unique<GeneticSearch>(*subject.space, *subject.model, search);
  if (!records || !options.useRecords) return;
  for (const TuningRecord& r : records->all(subject.task.hash, target->fingerprint)) {
    subject.search->goOnAfter(r.round);
    if (!r.status || *r.status == TrialStatus::Killed || *r.status == TrialStatus::Crashed || *r.status == TrialStatus::Wrong)
      subject.search->forbid(r.schedule);
    else if (r.timing.runs > 0) subject.search->observe(r.schedule, *r.status, r.timing.median * 1e-6);
  }
  for (const TuningRecord& r : records->nearest(subject.task.hash, target->fingerprint, subject.traits, 4))
    subject.search->suggest(r.schedule);
}

void TuningService::Impl::proposeRound(std::unique_lock<std::mutex>& lock) {
  Subject* subject = mostWorth();
  if (!subject->baselineDone) {
    subject->baselineQueued = true;
    sinceProof = 0;
    scheduled.push_back({subject, {}, true, nullptr});
    return;
  }
  if (std::exchange(subject->compiledQuickly, false)) {
    if (const auto kernel = cache.find(subject->task.hash)) {
      subject->inFlight = 1;
      subject->lineages[kernel->object->schedule.text()].how = kFullFirst;
      scheduled.push_back({subject, kernel->object->schedule, false, nullptr, true});
      return;
    }
  }
  std::size_t count = std::min(options.roundSize, options.queueCapacity - scheduled.size());
  if (options.maximumTrials >= 0)
    count = std::min(
        count,
        static_cast<std::size_t>(std::max<std::int64_t>(
            options.maximumTrials - trialCount - static_cast<std::int64_t>(scheduled.size() + compiled.size() + itemsActive), 1)));
  ++sinceProof;
  lock.unlock();
  if (!subject->search) startSearch(*subject);
  std::vector<Schedule> round = subject->search->propose(count);
  std::vector<Lineage> lineages;
  for (const Schedule& s : round)
    if (const Lineage* known = subject->search->lineage(s)) lineages.push_back(*known);
  lock.lock();
  for (std::size_t i = 0; i < lineages.size(); ++i) subject->lineages[round[i].text()] = std::move(lineages[i]);
  subject->inFlight = static_cast<int>(round.size());
  if (round.empty()) subject->state.exhausted = true;
  for (Schedule& s : round) scheduled.push_back({subject, std::move(s), false, nullptr});
}

void TuningService::Impl::done(Item& item, TrialStatus status, double seconds) {
  const std::lock_guard lock(mutex);
  --itemsActive;
  observations.push_back({item.subject, std::move(item.schedule), status, seconds});
  changed.notify_all();
}

void TuningService::Impl::cancelled(Item& item) {
  if (item.schedule.knobs) withdraw(*item.subject, item.schedule);
  const std::lock_guard lock(mutex);
  --itemsActive;
  if (item.baseline) item.subject->baselineQueued = false;
  item.subject->inFlight = std::max(item.subject->inFlight - 1, 0);
  changed.notify_all();
}

std::deque<TuningService::Impl::Item>::iterator TuningService::Impl::nextToCompile() {
  const auto rank = [&](const Item& item) { return item.baseline ? INFINITY : worthOf(*item.subject); };
  return std::max_element(scheduled.begin(), scheduled.end(), [&](const Item& a, const Item& b) { return rank(a) < rank(b); });
}

void TuningService::Impl::compileLoop(std::stop_token stop) {
  std::unique_lock lock(mutex);
  while (changed.wait(lock, stop, [&] { return !paused && !scheduled.empty() && compiled.size() < kCompiledAhead; })) {
    const auto next = nextToCompile();
    Item item = std::move(*next);
    scheduled.erase(next);
    ++itemsActive;
    changed.notify_all();
    const Clock::Time begun = clock.now();
    if (!item.baseline) compilingSince = begun;
    lock.unlock();
    bool goesOn = item.baseline;
    if (!item.baseline) {
      begin(*item.subject, item.schedule);
      CompileJob job;
      job.subgraph = item.subject->task.subgraph;
      job.hash = item.subject->task.hash;
      job.target = target;
      job.schedules = {item.schedule};
      job.priority = CompilePriority::Background;
      job.deadline = kCompileDeadline;
      job.attempts = 1;
      job.forgivenKills = kForgivenOfTrials;
      CompileOutcome outcome = evaluator.compile(std::move(job), stop);
      goesOn = outcome.kernel.ok();
      if (outcome.cancelled || outcome.outside) {
        cancelled(item);
      } else if (!goesOn) {
        const Error& e = outcome.kernel.error();
        report(*item.subject, item.schedule, outcome.status, {}, e.message + (e.detail.empty() ? "" : ": " + e.detail), true);
        done(item, outcome.status, 0);
      } else {
        item.object = std::make_shared<const KernelObject>(std::move(*outcome.kernel));
      }
    }
    lock.lock();
    compilingSince.reset();
    if (!item.baseline && goesOn) {
      const double took = std::max(std::chrono::duration<double>(clock.now() - begun).count(), kLeastTrial);
      double& known = item.subject->trialSeconds;
      known = item.subject->compiledBefore ? 0.7 * known + 0.3 * took : took;
      item.subject->compiledBefore = true;
    }
    if (goesOn) {
      --itemsActive;
      compiled.push_back(std::move(item));
      changed.notify_all();
    }
  }
}

double TuningService::Impl::effectiveShare() const {
  if (stepSeconds <= 0) return share;
  double gain = 0;
  for (const auto& s : subjects) {
    if (s->running && s->firstDone && (!s->baselineDone || s->compiledQuickly)) return share;
    if (s->running && !s->state.exhausted) gain += s->state.expectedGainSeconds;
  }
  return share * std::clamp(gain / (kFullEffortGain * stepSeconds), kLeastEffort, 1.0);
}

void TuningService::Impl::accrue() {
  const Clock::Time now = clock.now();
  if (!paused) credit = std::min(credit + std::chrono::duration<double>(now - creditAt).count() * rate(), kMostCredit);
  creditAt = now;
}

bool TuningService::Impl::waitForBudget(std::unique_lock<std::mutex>& lock, std::stop_token stop) {
  for (;;) {
    if (stop.stop_requested()) return false;
    if (paused) return true;
    accrue();
    const double share = rate();
    if ((credit > 0 && share > 0) || share >= 1) return true;
    // Looked at again at least every 50 ms: the share may be set anew.
    const double seconds = share > 0 ? std::min(-credit / share, 0.05) : 0.05;
    const auto until = clock.now() + std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9) + 1000);
    waitingForBudget = true;
    clock.waitUntil(lock, changed, stop, until, [] { return false; });
    waitingForBudget = false;
  }
}

void TuningService::Impl::measureLoop(std::stop_token stop) {
  std::unique_lock lock(mutex);
  while (changed.wait(lock, stop, [&] { return !paused && (!compiled.empty() || !bestToRecord.empty()); })) {
    if (!bestToRecord.empty()) {
      recordBest(lock);
      continue;
    }
    // Within the budget first: what is measured is chosen when it can be.
    if (!waitForBudget(lock, stop)) break;
    if (paused || compiled.empty()) continue;
    Item item = std::move(compiled.front());
    compiled.pop_front();
    ++itemsActive;
    const Offered* waiting = waitingFor(*item.subject);
    const std::shared_ptr<const KernelObject> pending = waiting ? waiting->candidate.candidate : nullptr;
    changed.notify_all();
    lock.unlock();
    measureItem(item, pending, stop);
    lock.lock();
  }
}

const TuningService::Impl::Offered* TuningService::Impl::waitingFor(const Subject& subject) const {
  const Offered* found = nullptr;
  for (const Offered& o : offered)
    if (o.subject == &subject) found = &o;
  return found;
}

void TuningService::Impl::measureItem(Item& item, std::shared_ptr<const KernelObject> pending, std::stop_token stop) {
  Subject& subject = *item.subject;
  const auto current = cache.find(subject.task.hash);
  if (item.baseline && current) {
    item.object = current->object;
    item.schedule = current->object->schedule;
    begin(subject, item.schedule);
  }
  if (!current || !item.object) return cancelled(item);
  MeasureJob job;
  job.subgraph = subject.task.subgraph;
  job.hash = subject.task.hash;
  job.candidate = item.object;
  if (!item.baseline) job.incumbent = pending ? pending : current->object;
  job.exclusive = options.exclusive;
  job.deadline = kMeasureDeadline;
  job.forgivenKills = kForgivenOfTrials;
  const std::shared_ptr<const KernelObject> incumbent = job.incumbent;
  const MeasureOutcome outcome = evaluator.measure(std::move(job), stop);
  {
    const std::lock_guard lock(mutex);
    credit -= outcome.deviceSeconds;
    spent += outcome.deviceSeconds;
  }
  if (outcome.cancelled || outcome.outside) return cancelled(item);
  const bool quick = item.baseline && item.object->effort == CompileEffort::Quick;
  if (records && item.baseline && outcome.status == TrialStatus::Ok && outcome.timing.runs > 0) [[maybe_unused]]
    const auto done = records->setFirst(subject.task.hash, target->fingerprint, {item.schedule, outcome.timing, quick});
  using Timed = RecordDatabase::Timed;
  report(subject, item.schedule, outcome.status, outcome.timing, outcome.reason, true,
         quick                                ? Timed::Quickly
         : item.baseline || item.ofFullEffort ? Timed::Begun
                                              : Timed::Trial,
         item.baseline ? nullptr : &outcome);
  if (item.baseline) finishBaseline(subject, *current, outcome);
  else if (outcome.status == TrialStatus::Ok) weigh(subject, item.object, pending ? nullptr : current->object, outcome);
  if (!item.baseline && outcome.hasCounters && outcome.status == TrialStatus::Ok &&
      judge(outcome.pairs).decision == PairedVerdict::Decision::Accept)
    countKernels(subject, item.object, incumbent, stop);
  done(item, outcome.status, outcome.timing.median * 1e-6);
}

void TuningService::Impl::countKernels(const Subject& subject, std::shared_ptr<const KernelObject> object,
                                       std::shared_ptr<const KernelObject> incumbent, std::stop_token stop) {
  if (!options.onCounters || countersRefused) return;
  MeasureJob job;
  job.subgraph = subject.task.subgraph;
  job.hash = subject.task.hash;
  job.candidate = object;
  job.incumbent = incumbent;
  job.gate = GateLevel::Quick;
  job.time = false;
  job.count = true;
  job.exclusive = options.exclusive;
  job.deadline = kMeasureDeadline;
  job.forgivenKills = kForgivenOfTrials;
  MeasureOutcome outcome = evaluator.measure(std::move(job), stop);
  CountersEvent event;
  {
    const std::lock_guard lock(mutex);
    credit -= outcome.deviceSeconds;
    spent += outcome.deviceSeconds;
    event.name = subject.task.name;
    event.seconds = std::chrono::duration<double>(clock.now() - born).count();
  }
  if (outcome.cancelled || outcome.outside) return;
  event.subgraph = subject.task.hash;
  event.after = object->schedule;
  if (incumbent) event.before = incumbent->schedule;
  event.afterCounters = std::move(outcome.counters);
  event.beforeCounters = std::move(outcome.incumbentCounters);
  event.missing = outcome.status == TrialStatus::Ok
                      ? std::move(outcome.countersMissing)
                      : "The measuring process did not come to an end of the counters: " + outcome.reason;
  countersRefused = !event.missing.empty();
  options.onCounters(event);
}

void TuningService::Impl::finishBaseline(Subject& subject, const CachedKernel& kernel, const MeasureOutcome& outcome) {
  if (outcome.status == TrialStatus::Ok) {
    cache.measured(subject.task.hash, kernel.generation, outcome.timing.median);
    if (records && !subject.state.recordHit) [[maybe_unused]]
      const auto done = records->setBest(subject.task.hash, target->fingerprint, kernel.object->schedule);
  }
  if (outcome.status == TrialStatus::Wrong) cache.revoke(subject.task.hash, kernel.generation);
  const std::lock_guard lock(mutex);
  ++subject.inFlight;  // the observation that follows takes it back
  if (outcome.status == TrialStatus::Wrong) {
    // The full gate saw what the quick one did not: another first kernel, without this schedule.
    subject.avoid.push_back(kernel.object->schedule);
    subject.firstDone = subject.baselineQueued = false;
    firstQueue.push_back(&subject);
    return;
  }
  subject.baselineDone = true;
  subject.state.firstMicroseconds = outcome.timing.median;
}

void TuningService::Impl::weigh(Subject& subject, std::shared_ptr<const KernelObject> object,
                                std::shared_ptr<const KernelObject> incumbent, const MeasureOutcome& outcome) {
  if (judge(outcome.pairs).decision != PairedVerdict::Decision::Accept) return;
  if (!options.lastWordInSteps) {
    const auto entry = cache.offer(subject.task.hash, object, outcome.gate, outcome.timing.median, outcome.incumbent.median);
    if (entry == FunctionCache::Entry::Entered && records) [[maybe_unused]]
      const auto done = records->setBest(subject.task.hash, target->fingerprint, object->schedule);
    return;
  }
  const auto current = cache.find(subject.task.hash);
  const std::lock_guard lock(mutex);
  // It has beaten the one that waits, too.
  std::erase_if(offered, [&](const Offered& o) { return o.subject == &subject && !o.handedOut; });
  Offered made;
  made.subject = &subject;
  made.candidate = {subject.task.hash, nextTicket++, std::move(object), incumbent ? incumbent : current->object};
  made.gate = outcome.gate;
  offered.push_back(std::move(made));
}

void TuningService::Impl::recordBest(std::unique_lock<std::mutex>& lock) {
  std::vector<Subject*> toRecord;
  toRecord.swap(bestToRecord);
  lock.unlock();
  for (const Subject* subject : toRecord)
    if (const auto kernel = cache.find(subject->task.hash); kernel && records) [[maybe_unused]]
      const auto done = records->setBest(subject->task.hash, target->fingerprint, kernel->object->schedule);
  lock.lock();
}

bool TuningService::Impl::idle() const {
  if (!firstQueue.empty() || firstActive || itemsActive || exploring || !scheduled.empty() || !compiled.empty() ||
      !observations.empty())
    return false;
  return !started || limitReached() || mostWorth() == nullptr;
}

}  // namespace nf
