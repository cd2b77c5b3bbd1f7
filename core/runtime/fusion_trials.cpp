// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/fusion_trials.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/tune/tune_program.h"

namespace nf {
namespace {

// The model is off by less than this where it matters: parts that it holds for slower still are not measured.
constexpr double kDoubtful = 0.6;
// Comparisons of one kernel: where its schedules are superseded each time, it stays.
constexpr int kMostComparisons = 4;

struct Compiled {
  std::map<Hash, std::shared_ptr<const KernelObject>> objects;
};

// What `hint schedule` pins the kernel to.
std::optional<Schedule> pinnedTo(const SiteKernel& kernel, const std::vector<Hint>& hints, const Target& target) {
  for (const Hint& hint : hints) {
    if (hint.kind != Hint::Kind::Schedule || pinsLoop(hint)) continue;
    const auto& names = hint.tensors;
    if (std::none_of(kernel.made.begin(), kernel.made.end(),
                     [&](const std::string& made) { return std::find(names.begin(), names.end(), made) != names.end(); }))
      continue;
    if (auto schedule = pinnedSchedule(hint, *kernel.subgraph, &target)) return std::move(*schedule);
  }
  return std::nullopt;
}

Result<bool> compileKernels(const std::vector<SiteKernel>& kernels, DeviceContext& context, const CompareOptions& options,
                            std::stop_token stop, Compiled& into) {
  for (const SiteKernel& k : kernels) {
    if (into.objects.contains(k.hash)) continue;
    NF_TRY(const auto space, scheduleSpace(*k.subgraph, *context.target()));
    CompileJob job;
    job.subgraph = k.subgraph;
    job.hash = k.hash;
    job.target = context.target();
    if (auto pin = pinnedTo(k, options.hints, *context.target())) {
      job.schedules.push_back(std::move(*pin));
    } else {
      if (const auto best = options.schedule ? options.schedule(k.hash) : std::nullopt; best && space->check(*best))
        job.schedules.push_back(*best);
      job.schedules.push_back(space->first());
    }
    job.priority = options.whole ? CompilePriority::FirstKernel : CompilePriority::Background;  // a person waits for a whole one
    job.attempts = 1;
    CompileOutcome outcome = context.evaluator()->compile(std::move(job), stop);
    if (outcome.cancelled) return false;
    if (!outcome.kernel) return outcome.kernel.error();
    into.objects[k.hash] = std::make_shared<const KernelObject>(std::move(*outcome.kernel));
  }
  return true;
}

std::vector<BranchKernel> branchOf(const std::vector<SiteKernel>& kernels, const Compiled& compiled) {
  std::map<std::string, std::uint32_t> numbers;
  std::vector<BranchKernel> branch;
  for (const SiteKernel& k : kernels) {
    BranchKernel b{k.subgraph, k.hash, compiled.objects.at(k.hash), {}};
    for (const std::string& tensor : k.tensors)
      b.tensors.push_back(numbers.emplace(tensor, static_cast<std::uint32_t>(numbers.size())).first->second);
    branch.push_back(std::move(b));
  }
  return branch;
}

}  // namespace

Error measuresNothing(std::string device) {
  return {
      "measure", "The interpreter runs no kernels, so there is nothing to measure: choose another device.", std::move(device), {}};
}

Result<std::optional<FusionComparison>> compareSite(const FusionSite& site, DeviceContext& context, const CompareOptions& options,
                                                    std::stop_token stop) {
  if (!context.evaluator()) return measuresNothing(context.device().name());
  if (site.first.empty() || site.second.empty()) return Error{"measure", "The two programs have the same kernels.", {}, {}};
  Compiled compiled;
  for (const auto* side : {&site.first, &site.second}) {
    NF_TRY(const bool made, compileKernels(*side, context, options, stop, compiled));
    if (!made) return std::optional<FusionComparison>();
  }
  CompareJob job;
  job.first = branchOf(site.first, compiled);
  job.second = branchOf(site.second, compiled);
  job.whole = options.whole;
  job.exclusive = options.exclusive;
  const MeasureOutcome outcome = context.evaluator()->compare(std::move(job), stop);
  if (outcome.cancelled) return std::optional<FusionComparison>();
  if (outcome.status != TrialStatus::Ok && outcome.status != TrialStatus::Slow)
    return Error{"measure", outcome.reason, context.device().name(), {}};
  FusionComparison result;
  result.first = outcome.incumbent;
  result.second = outcome.timing;
  result.pairs = outcome.pairs;
  result.deviceSeconds = outcome.deviceSeconds;
  for (const auto& [hash, object] : compiled.objects) result.schedules.emplace(hash, object->schedule);
  std::vector<double> saved;
  for (const TimedPair& pair : outcome.pairs) saved.push_back(pair.candidate - pair.incumbent);
  result.saved = timingOf(saved).median;
  result.savedInterval = medianInterval(std::move(saved));
  result.verdict = judge(outcome.pairs);
  if (outcome.status == TrialStatus::Slow) result.verdict.decision = PairedVerdict::Decision::Reject;
  result.separates = outcome.status == TrialStatus::Slow || result.savedInterval.low > 0 || result.savedInterval.high < 0;
  return std::optional(std::move(result));
}

// What is told of it is the interval: what holds a zero takes nothing back.
bool FusionComparison::takesBack() const { return verdict.decision == PairedVerdict::Decision::Accept && savedInterval.high < 0; }

namespace {

FusionMeasurement measurementOf(const FusionComparison& c, const FusionSite& site) {
  return {c.first.median,
          c.first.spread,
          c.second.median,
          c.second.spread,
          static_cast<std::int64_t>(c.pairs.size()),
          c.saved,
          c.savedInterval.low,
          c.savedInterval.high,
          static_cast<std::int64_t>(site.first.size()),
          static_cast<std::int64_t>(site.second.size())};
}

}  // namespace

std::string BranchComparison::verdict() const {
  char text[160];
  const std::string schedules = recorded()   ? "Both sides ran by the best schedules on record."
                                : fusedTuned ? "Both sides ran by first schedules, as only the fused side is tuned."
                                : splitTuned ? "Both sides ran by first schedules, as only the split side is tuned."
                                             : "Both sides ran by first schedules, as neither is tuned.";
  const auto pairs = comparison.pairs.size();
  const double gain = comparison.verdict.medianGain;
  if (!comparison.separates) std::snprintf(text, sizeof text, "The two cannot be told apart in %zu pairs.", pairs);
  else
    std::snprintf(text, sizeof text, "%s is %.1f %% faster (%zu pairs).", gain > 0 ? "Split" : "Fused",
                  100 * (gain > 0 ? gain : -gain / (1 - gain)), pairs);
  const std::string anew = judged == FusionState::Accepted   ? " It had been taken back, and is fused again."
                           : judged == FusionState::Reverted ? " It stays taken back."
                                                             : "";
  return text + (" " + schedules) + (pinned ? " Pinned kernels ran by their hints." : "") + anew;
}

namespace {

// A search that found nothing better than the first schedule records none as the best: its trials tell.
bool tuned(const std::vector<SiteKernel>& kernels, const DeviceContext& context) {
  RecordDatabase* const records = context.records();
  return std::all_of(kernels.begin(), kernels.end(), [&](const SiteKernel& k) {
    if (!records) return false;
    const std::string& device = context.target()->fingerprint;
    if (records->best(k.hash, device)) return true;
    const auto trials = records->all(k.hash, device);
    return std::any_of(trials.begin(), trials.end(), [](const TuningRecord& r) { return r.round > 0; });
  });
}

// Whether one kernel makes both, or computes them again.
bool together(const Program& fused, const std::string& a, const std::string& b) {
  for (const Group& group : fused.groups) {
    bool hasA = false, hasB = false;
    for (const OperatorId op : group.operators)
      for (const TensorId t : writesOf(fused, op)) {
        const std::string name = originalName(fused[t].name);
        hasA |= name == a;
        hasB |= name == b;
      }
    if (hasA && hasB) return true;
  }
  return std::any_of(fused.loops.begin(), fused.loops.end(), [&](const Loop& loop) { return together(*loop.body, a, b); });
}

}  // namespace

Result<FusionSite> branchSite(const Stages& stages, const StageOptions& options, const std::string& producer,
                              const std::string& consumer) {
  const std::string a = originalName(producer), b = originalName(consumer);
  const auto decision = std::find_if(stages.decisions.begin(), stages.decisions.end(),
                                     [&](const FusionDecision& d) { return d.producer == producer && d.consumer == consumer; });
  const bool taken =
      decision != stages.decisions.end() && (decision->state == FusionState::Accepted || decision->state == FusionState::Forced);
  // What was fused may have been computed again elsewhere by a later decision, and stand apart now.
  const bool now = together(*stages.fused, a, b);
  const bool fused = decision == stages.decisions.end() ? now : taken;
  Stages open = stages;
  Program partitioned = *stages.partitioned;
  std::erase_if(partitioned.hints, [&](const Hint& h) {
    return h.kind != Hint::Kind::Schedule && std::find(h.tensors.begin(), h.tensors.end(), producer) != h.tensors.end() &&
           std::find(h.tensors.begin(), h.tensors.end(), consumer) != h.tensors.end();
  });
  open.partitioned = std::make_shared<const Program>(std::move(partitioned));
  NF_TRY(Stages other, fusedAgain(open, options));
  if (together(*other.fused, a, b) == now) {
    StageOptions against = options;
    (fused ? against.fusion.forbid : against.fusion.force).emplace_back(producer, consumer);
    NF_TRY(other, fusedAgain(open, against));
  }
  for (const FusionDecision& d : other.decisions)
    if (!fused && d.state == FusionState::NotLowerable && d.producer == producer && d.consumer == consumer)
      return Error{"compare", "They cannot be fused: " + d.why, {}, {}};
  FusionSite site = siteAround(fused ? *stages.fused : *other.fused, fused ? *other.fused : *stages.fused, a);
  if (site.first.empty() && fused && !now)
    return Error{"compare",
                 "A later decision computes one of " + producer + " and " + consumer +
                     " elsewhere: their kernels are the same when they are never fused.",
                 {},
                 {}};
  if (site.first.empty())
    return Error{"compare", "There is no fusion of " + producer + " and " + consumer + " to force or to forbid.", {}, {}};
  return site;
}

Result<std::optional<BranchComparison>> compareBranches(const Stages& stages, DeviceContext& context, const StageOptions& options,
                                                        const std::string& producer, const std::string& consumer,
                                                        std::stop_token stop) {
  BranchComparison result;
  NF_TRY(result.site, branchSite(stages, options, producer, consumer));
  CompareOptions compare;
  compare.whole = true;
  compare.hints = stages.partitioned->hints;
  for (const auto* side : {&result.site.first, &result.site.second})
    result.pinned |= std::any_of(side->begin(), side->end(),
                                 [&](const SiteKernel& k) { return pinnedTo(k, compare.hints, *context.target()).has_value(); });
  compare.exclusive = context.lease() != nullptr;
  // A side that the search has been over against one that it has not would show what the search is worth.
  result.fusedTuned = tuned(result.site.first, context);
  result.splitTuned = tuned(result.site.second, context);
  if (result.recorded()) compare.schedule = recordedSchedules(context);
  NF_TRY(auto compared, compareSite(result.site, context, compare, stop));
  if (!compared) return std::optional<BranchComparison>();
  result.comparison = std::move(*compared);
  const auto decision = std::ranges::find_if(
      stages.decisions, [&](const FusionDecision& d) { return d.producer == producer && d.consumer == consumer; });
  if (context.records() && !result.pinned && result.fusedTuned == result.splitTuned && decision != stages.decisions.end() &&
      decision->state == FusionState::Reverted &&
      std::ranges::find(result.site.first, decision->lost.kernel, &SiteKernel::signature) != result.site.first.end()) {
    const bool loses = result.comparison.takesBack();
    NF_TRY([[maybe_unused]] const Unit done,
           context.records()->setFusion(context.target()->fingerprint,
                                        {decision->lost, loses, measurementOf(result.comparison, result.site)}));
    result.judged = loses ? FusionState::Reverted : FusionState::Accepted;
  }
  return std::optional(std::move(result));
}

std::function<std::optional<Schedule>(const Hash&)> recordedSchedules(const DeviceContext& context) {
  return [records = context.records(), fingerprint = context.target()->fingerprint](const Hash& hash) -> std::optional<Schedule> {
    if (!records) return std::nullopt;
    const auto best = records->best(hash, fingerprint);
    if (!best) return std::nullopt;
    return best->schedule;
  };
}

MeasuredKernels revertedKernels(const DeviceContext& context) {
  MeasuredKernels reverted;
  if (context.records())
    for (const auto& record : context.records()->fusions(context.target()->fingerprint))
      if (record.reverted) reverted.emplace(record.kernel, record.measurement);
  return reverted;
}

protocol::FusionRevertedEvent revertedEvent(const RevertedFusion& r) {
  protocol::FusionRevertedEvent e;
  e.kernel = r.kernel.signature.hex();
  e.name = r.kernel.name;
  e.producer = r.kernel.producer;
  e.consumer = r.kernel.consumer;
  const auto told = std::ranges::find_if(
      r.stages.decisions, [&](const FusionDecision& d) { return d.state == FusionState::Reverted && d.lost == r.judged(); });
  if (told != r.stages.decisions.end()) e.producer = told->producer, e.consumer = told->consumer;
  e.fused_us = r.measurement.fused;
  e.split_us = r.measurement.split;
  e.fused_kernels = r.measurement.fusedKernels;
  e.split_kernels = r.measurement.splitKernels;
  e.pairs = r.measurement.pairs;
  return e;
}

FusionTrials::FusionTrials(DeviceContext& context, Stages running, Options options)
    : m_context(context), m_running(std::move(running)), m_options(std::move(options)) {
  if (!m_options.useRecords || !context.records()) return;
  std::set<Hash> lost;
  for (const auto& record : context.records()->fusions(context.target()->fingerprint)) {
    m_known.insert(record.kernel);
    (record.reverted ? lost : m_judged).insert(record.kernel.kernel);
  }
  for (const Hash& kernel : lost) m_judged.erase(kernel);
}

// Seconds of one run of them all, as the analytic model has it.
std::optional<double> FusionTrials::estimate(const std::vector<SiteKernel>& kernels) const {
  double seconds = 0;
  for (const SiteKernel& k : kernels) {
    const auto space = scheduleSpace(*k.subgraph, *m_context.target());
    if (!space) return std::nullopt;
    const auto best = m_options.schedule ? m_options.schedule(k.hash) : std::nullopt;
    seconds += (*space)->estimateSeconds(best && (*space)->check(*best) ? *best : (*space)->first());
  }
  return seconds;
}

// What the program is without this kernel, where it pays to measure that. nullopt: a hint asks for the kernel or its schedule, fusion finds
// no other way, or the model is sure.
Result<std::optional<FusionTrials::Doubt>> FusionTrials::doubtfulSite(const FusedKernel& kernel) const {
  StageOptions without = m_options.stages;
  without.fusion.reverted.emplace(JudgedKernel{kernel.signature, {}}, FusionMeasurement{});  // whatever its parts are
  NF_TRY(const Stages alternative, fusedAgain(m_running, without));
  for (FusionSite& site : differingSites(*m_running.fused, *alternative.fused)) {
    const auto found = std::ranges::find(site.first, kernel.subgraph, &SiteKernel::hash);
    if (found == site.first.end()) continue;
    const auto isPinned = [&](const SiteKernel& k) {
      return pinnedTo(k, m_running.partitioned->hints, *m_context.target()).has_value();
    };
    if (std::any_of(site.first.begin(), site.first.end(), isPinned) ||
        std::any_of(site.second.begin(), site.second.end(), isPinned))
      break;
    const auto fused = estimate(site.first), split = estimate(site.second);
    const BarredKernel* const barred = barredAt(alternative.barred, site, *found);
    if (barred && fused && split && *fused > kDoubtful * *split && !m_known.contains(barred->judged))
      return std::optional(Doubt{std::move(site), barred->judged.parts});
    break;
  }
  return std::optional<Doubt>();
}

std::map<Hash, std::optional<Schedule>> FusionTrials::schedulesOf(const FusionSite& site) const {
  std::map<Hash, std::optional<Schedule>> schedules;
  for (const auto* side : {&site.first, &site.second})
    for (const SiteKernel& k : *side) schedules[k.hash] = m_options.schedule ? m_options.schedule(k.hash) : std::nullopt;
  return schedules;
}

void FusionTrials::record(const JudgedKernel& kernel, bool reverted, const FusionMeasurement& measurement) {
  m_known.insert(kernel);
  if (m_options.useRecords && m_context.records()) [[maybe_unused]]
    const auto done = m_context.records()->setFusion(m_context.target()->fingerprint, {kernel, reverted, measurement});
}

Result<FusionTrials::Judgement> FusionTrials::verdictOn(const FusedKernel& kernel, std::stop_token stop) {
  NF_TRY(const auto doubt, doubtfulSite(kernel));
  if (!doubt || m_measured[kernel.signature] == kMostComparisons) return Judgement{};
  if (m_options.before && !m_options.before(stop)) return Judgement{Verdict::Stopped, {}, {}, {}};
  ++m_measured[kernel.signature];
  const auto known = schedulesOf(doubt->site);
  CompareOptions options;
  options.exclusive = m_options.exclusive;
  options.schedule = [&known](const Hash& hash) { return known.at(hash); };
  const auto compared = compareSite(doubt->site, m_context, options, stop);
  if (!compared) return Judgement{};  // a part that has no kernel: what is fused stays fused
  if (!*compared) return Judgement{Verdict::Stopped, {}, {}, {}};
  const FusionComparison& result = **compared;
  if (m_options.after) m_options.after(result.deviceSeconds);
  Judgement judgement{Verdict::Stays, doubt->parts, measurementOf(result, doubt->site), result.schedules};
  const bool loses = result.takesBack();
  if (!loses) record({kernel.signature, doubt->parts}, false, judgement.measurement);
  else judgement.verdict = schedulesOf(doubt->site) == known ? Verdict::Loses : Verdict::Superseded;
  return judgement;
}

Result<std::optional<RevertedFusion>> FusionTrials::next(std::stop_token stop) {
  NF_ASSERT(!m_open);
  std::vector<FusedKernel> kernels = fusedKernels(*m_running.fused);
  std::erase_if(kernels, [&](const FusedKernel& k) { return m_judged.contains(k.signature); });
  const std::size_t all = m_seen + kernels.size();
  for (FusedKernel& kernel : kernels) {
    if (stop.stop_requested()) break;
    if (m_options.judging) m_options.judging(m_seen, all, kernel);
    Judgement judgement;
    do { NF_TRY(judgement, verdictOn(kernel, stop)); } while (judgement.verdict == Verdict::Superseded);
    if (judgement.verdict == Verdict::Stopped) break;
    ++m_seen;
    if (judgement.verdict == Verdict::Stays) {
      m_judged.insert(kernel.signature);
      continue;
    }
    m_open = Open{kernel, judgement.parts, judgement.measurement, m_running};
    m_options.stages.fusion.reverted[m_open->judged()] = judgement.measurement;
    NF_TRY(m_running, fusedAgain(m_running, m_options.stages));
    return std::optional(
        RevertedFusion{std::move(kernel), judgement.parts, judgement.measurement, std::move(judgement.schedules), m_running});
  }
  return std::optional<RevertedFusion>();
}

void FusionTrials::accept() {
  NF_ASSERT(m_open);
  record(m_open->judged(), true, m_open->measurement);
  m_open.reset();
}

void FusionTrials::refuse(bool superseded) {
  NF_ASSERT(m_open);
  m_options.stages.fusion.reverted.erase(m_open->judged());
  m_running = std::move(m_open->before);
  if (superseded) --m_seen;
  else m_judged.insert(m_open->kernel.signature);
  m_open.reset();
}

Result<Stages> settleFusion(Stages stages, DeviceContext& context, StageOptions options,
                            const std::function<void(const RevertedFusion&)>& reverted, std::stop_token stop,
                            decltype(FusionTrials::Options::judging) judging) {
  FusionTrials::Options o;
  o.stages = std::move(options);
  o.exclusive = context.lease() != nullptr;
  o.schedule = recordedSchedules(context);
  o.judging = std::move(judging);
  FusionTrials trials(context, stages, std::move(o));
  for (;;) {
    NF_TRY(auto found, trials.next(stop));
    if (!found) return stages;
    trials.accept();
    stages = found->stages;
    if (reverted) reverted(*found);
  }
}

}  // namespace nf
