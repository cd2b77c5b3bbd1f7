// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kernel_supply.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/device/reference_backend.h"
#include "core/runtime/kernel_failure.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

// What `hint schedule` pins, by subgraph.
Result<Unit> pinnedSchedules(const PlannedSequence& sequence, const std::vector<Hint>& hints, const ExecutionPlan& plan,
                             const Target& target, std::map<std::uint32_t, Schedule>& pinned, Span& place) {
  for (const PlannedLaunch& launch : sequence.launches)
    if (const Hint* hint = pinOf(hints, *sequence.program, launch.operators)) {
      if (hint->origin.valid()) place = (*plan.main.program)[hint->origin].span;
      NF_TRY(Schedule schedule, pinnedSchedule(*hint, *plan.subgraphs[launch.subgraph].program, &target));
      pinned.emplace(launch.subgraph, std::move(schedule));
    }
  for (const PlannedLoop& loop : sequence.loops) {
    NF_TRY([[maybe_unused]] const Unit inner, pinnedSchedules(*loop.body, hints, plan, target, pinned, place));
  }
  return Unit{};
}

constexpr std::size_t kTrialsAtOnce = 8;  // subgraphs with a candidate in the same steps
constexpr std::size_t kPairsPerReport = 3;
constexpr int kWatchedSteps = 4;                         // behind one that touches memory for the first time
constexpr const char* kReferenceSchedule = "reference";  // of a kernel that the interpreter runs

}  // namespace

KernelSupply::KernelSupply(DeviceContext& context, KernelSupplyOptions options)
    : m_context(context), m_options(std::move(options)) {
  if (context.inProcess()) return;
  if (const std::string& backend = context.target()->backend; backend != "cuda" && backend != "reference")
    if (auto opened = referenceBackend(kPluginVersion)->open("reference", 1)) m_interpreter = std::move(*opened);
  if (m_options.replay) return;
  if (m_interpreter) m_options.tuning.standIn = [this](const Program& subgraph) { return interpreted(subgraph); };
  // In static mode every step has the same kernels: better late than others.
  m_options.tuning.standInWhileKilled = m_options.dynamic;
  m_options.tuning.quickFirst = m_options.dynamic;
  m_tuning = std::make_unique<TuningService>(context.target(), *context.evaluator(), m_cache, context.records(), m_clock,
                                             m_options.tuning);
}

KernelSupply::~KernelSupply() {
  if (m_tuning) m_tuning->stop();
}

std::unordered_map<Hash, std::uint32_t>& KernelSupply::numbers(const Executable& executable) {
  auto& numbers = m_numbers[&executable];
  if (numbers.empty())
    for (std::uint32_t i = 0; i < executable.plan().subgraphs.size(); ++i) numbers.emplace(executable.plan().subgraphs[i].hash, i);
  return numbers;
}

Result<Unit> KernelSupply::request(Executable& executable, double callsFactor, bool background) {
  numbers(executable);
  m_versions.emplace(&executable, 0);
  if (Compiler* compiler = m_context.inProcess()) return linkInProcess(executable, *compiler);
  if (m_options.replay) return Unit{};
  const ExecutionPlan& plan = executable.plan();
  std::map<std::uint32_t, Schedule> hinted;
  NF_TRY([[maybe_unused]] const Unit pinned,
         pinnedSchedules(plan.main, plan.main.program->hints, plan, *m_context.target(), hinted, m_failedAt));
  std::vector<TuningTask> tasks;
  for (std::uint32_t i = 0; i < executable.plan().subgraphs.size(); ++i) {
    const PlannedSubgraph& s = executable.plan().subgraphs[i];
    TuningTask task{s.program, s.hash, s.name, s.callsPerStep * callsFactor, {}, background};
    if (const auto found = m_options.forced.find(s.hash); found != m_options.forced.end()) task.forced = found->second;
    else if (const auto hint = hinted.find(i); hint != hinted.end()) task.forced = hint->second;
    tasks.push_back(std::move(task));
  }
  m_tuning->add(std::move(tasks));
  return Unit{};
}

Result<KernelObject> KernelSupply::interpreted(const Program& subgraph) const {
  NF_TRY(const auto compiler, referenceBackend(kPluginVersion)->compiler(m_interpreter->target()));
  return compiler->compile({subgraph, {kReferenceSchedule, std::make_shared<const nlohmann::json>(nlohmann::json::object())}, {}});
}

Result<bool> KernelSupply::interpret(Executable& executable) {
  if (!m_interpreter) return false;
  const auto& subgraphs = executable.plan().subgraphs;
  for (std::uint32_t i = 0; i < subgraphs.size(); ++i) {
    NF_TRY(KernelObject object, interpreted(*subgraphs[i].program));
    NF_TRY(auto kernel, link(std::make_shared<const KernelObject>(std::move(object)), 1));
    NF_TRY([[maybe_unused]] const Unit used, use(executable, i, std::move(kernel)));
  }
  m_stoodIn.clear();  // whoever asked says why
  return true;
}

Result<std::shared_ptr<LinkedKernel>> KernelSupply::link(const std::shared_ptr<const KernelObject>& object,
                                                         std::uint64_t generation) {
  if (const auto known = m_links[object.get()].lock()) {
    known->generation = std::max(known->generation, generation);
    return known;
  }
  Device& device = m_interpreter && object->schedule.kind == kReferenceSchedule ? *m_interpreter : m_context.device();
  NF_TRY(std::unique_ptr<Kernel> kernel, device.link(*object));
  auto linked = std::make_shared<LinkedKernel>();
  linked->kernel = std::move(kernel);
  linked->schedule = object->schedule.text();
  linked->quick = object->effort == CompileEffort::Quick;
  linked->workspaceBytes = object->workspaceBytes;
  linked->generation = generation;
  // The object lives as long as its kernel: its address stays the key of m_links.
  auto kept = std::shared_ptr<LinkedKernel>(linked.get(), [linked, object](LinkedKernel*) {});
  m_links[object.get()] = kept;
  return kept;
}

Result<Unit> KernelSupply::use(Executable& executable, std::uint32_t subgraph, std::shared_ptr<LinkedKernel> kernel) {
  if (executable.kernel(subgraph) == kernel) return Unit{};
  static const std::string interpreted =
      Schedule{kReferenceSchedule, std::make_shared<const nlohmann::json>(nlohmann::json::object())}.text();
  if (m_stoodIn.empty() && kernel && kernel->schedule == interpreted) m_stoodIn = executable.plan().subgraphs[subgraph].name;
  return executable.setKernel(subgraph, std::move(kernel));
}

Result<bool> KernelSupply::collect(Executable& executable) {
  if (m_context.inProcess()) return executable.complete();
  const auto& subgraphs = executable.plan().subgraphs;
  if (m_options.replay) {
    // The newest of each up to now; those of a later step stand in until then.
    for (std::uint32_t i = 0; i < subgraphs.size(); ++i) {
      if (executable.kernel(i)) continue;
      const KernelSwap* logged = nullptr;
      for (const KernelSwap& s : *m_options.replay)
        if (s.ofKernel() && s.subgraph == subgraphs[i].hash && (!logged || s.step <= m_step)) logged = &s;
      NF_TRY(auto kernel, compiled(subgraphs[i], logged ? logged->schedule : std::string()));
      NF_TRY([[maybe_unused]] const Unit used, use(executable, i, std::move(kernel)));
    }
    return true;
  }
  bool complete = true;
  for (std::uint32_t i = 0; i < subgraphs.size(); ++i) {
    if (executable.kernel(i)) continue;
    if (const auto cached = m_cache.find(subgraphs[i].hash)) {
      NF_TRY(auto kernel, link(cached->object, cached->generation));
      m_best[subgraphs[i].hash] = kernel;
      NF_TRY([[maybe_unused]] const Unit used, use(executable, i, std::move(kernel)));
      continue;
    }
    if (const auto failure = m_cache.failure(subgraphs[i].hash))
      return isStopped(*failure) ? *failure : missingKernel(executable.plan(), i, *failure, m_failedAt);
    complete = false;
  }
  return complete;
}

Result<bool> KernelSupply::await(Executable& executable, std::stop_token stop,
                                 const std::function<void(std::size_t, std::size_t)>& waiting) {
  std::vector<Hash> hashes;
  for (const PlannedSubgraph& s : executable.plan().subgraphs) hashes.push_back(s.hash);
  if (m_tuning) m_tuning->hurry(hashes);
  while (!stop.stop_requested()) {
    NF_TRY(const bool complete, collect(executable));
    if (complete) return true;
    if (waiting) {
      std::size_t done = 0;
      for (std::uint32_t i = 0; i < hashes.size(); ++i) done += executable.kernel(i) != nullptr;
      waiting(done, hashes.size());
    }
    m_cache.waitFor(hashes, stop, std::chrono::milliseconds(20));
  }
  return false;
}

// A log of another machine, or one that was written by hand.
Error KernelSupply::notHere(const PlannedSubgraph& subgraph, const Error& why) {
  return {"replay",
          "The swap log gives " + (subgraph.name.empty() ? subgraph.hash.hex() : subgraph.name) +
              " a kernel that it can't have here: " + why.message + ".",
          {},
          why.detail};
}

Result<std::shared_ptr<LinkedKernel>> KernelSupply::compiled(const PlannedSubgraph& subgraph, const std::string& scheduleText) {
  const auto key = std::pair(subgraph.hash, scheduleText);
  if (const auto found = m_bySchedule.find(key); found != m_bySchedule.end()) return found->second;
  CompileJob job;
  job.subgraph = subgraph.program;
  job.hash = subgraph.hash;
  job.target = m_context.target();
  if (scheduleText.empty()) {
    NF_TRY(const auto space, scheduleSpace(*subgraph.program, *m_context.target()));
    job.schedules = {space->first()};
  } else {
    auto parsed = Schedule::parse(scheduleText);
    if (!parsed) return notHere(subgraph, parsed.error());
    Schedule schedule = std::move(*parsed);
    if (schedule.kind == kReferenceSchedule && m_interpreter) {
      NF_TRY(KernelObject object, interpreted(*subgraph.program));
      NF_TRY(auto kernel, link(std::make_shared<const KernelObject>(std::move(object)), 1));
      m_bySchedule.emplace(key, kernel);
      return kernel;
    }
    job.schedules = {std::move(schedule)};
  }
  const Schedule wanted = job.schedules.front();
  CompileOutcome outcome = m_context.evaluator()->compile(std::move(job), {});
  if (!outcome.kernel && !scheduleText.empty()) {
    NF_TRY(const auto space, scheduleSpace(*subgraph.program, *m_context.target()));
    if (const auto legal = space->check(wanted); !legal) return notHere(subgraph, legal.error());
  }
  if (!outcome.kernel) return outcome.kernel.error();
  NF_TRY(auto kernel, link(std::make_shared<const KernelObject>(std::move(*outcome.kernel)), 1));
  m_bySchedule.emplace(key, kernel);
  return kernel;
}

Result<Unit> KernelSupply::replayStep(Executable& training, std::int64_t step) {
  const auto& log = *m_options.replay;
  bool otherKernels = m_replayed == 0;
  for (; m_replayed < log.size() && log[m_replayed].step <= step; ++m_replayed) {
    otherKernels = otherKernels || log[m_replayed].reverted;
    if (!log[m_replayed].ofKernel()) continue;
    const auto found = numbers(training).find(log[m_replayed].subgraph);
    if (found == numbers(training).end()) {
      // The interpreter fuses nothing: its log has no figures and no schedules.
      const bool fused = std::any_of(log.begin(), log.end(), [](const KernelSwap& s) { return !s.schedule.empty(); });
      const bool tellsDevice =
          !fused || std::any_of(log.begin(), log.end(), [](const KernelSwap& s) { return s.device.has_value(); });
      const std::string kernel = log[m_replayed].subgraph.hex();
      return Error{"replay",
                   tellsDevice
                       ? "The swap log belongs to another program: it has a kernel for " + kernel + "."
                       : "The swap log has a kernel for " + kernel +
                             " and this program, as it is fused here, has none. The log is older than those that keep the "
                             "device's figures which fusion was decided with: they were others then, or it is another program.",
                   {},
                   {}};
    }
    if (m_context.inProcess()) {  // it has one kernel a subgraph, without a schedule
      if (!log[m_replayed].schedule.empty())
        return Error{"replay", "The swap log is of compiled kernels: " + m_context.device().name() + " has none of them.", {}, {}};
      continue;
    }
    NF_TRY(auto kernel, compiled(training.plan().subgraphs[found->second], log[m_replayed].schedule));
    NF_TRY([[maybe_unused]] const Unit used, use(training, found->second, std::move(kernel)));
  }
  if (!otherKernels) return Unit{};
  for (const PlannedSubgraph& s : training.plan().subgraphs)
    if (std::none_of(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(m_replayed),
                     [&](const KernelSwap& l) { return l.ofKernel() && l.subgraph == s.hash; }))
      return Error{"replay",
                   "The swap log is not whole: of step " + std::to_string(step + 1) + " the kernel for " +
                       (s.name.empty() ? s.hash.hex() : s.name) + " is missing.",
                   {},
                   {}};
  return Unit{};
}

void KernelSupply::takeCandidates(Executable& training) {
  while (m_trials.size() < kTrialsAtOnce) {
    auto candidate = m_tuning->nextCandidate();
    if (!candidate) return;
    const auto found = numbers(training).find(candidate->subgraph);
    if (found == numbers(training).end()) {
      m_tuning->forget(candidate->ticket);
      continue;
    }
    Trial trial;
    trial.subgraph = found->second;
    auto candidateKernel = link(candidate->candidate, 0);
    auto incumbent = link(candidate->incumbent, 1);
    if (!candidateKernel || !incumbent) {
      m_tuning->withdraw(candidate->ticket, candidateKernel ? incumbent.error().message : candidateKernel.error().message);
      continue;
    }
    trial.kernels[0] = std::move(*incumbent);
    trial.kernels[1] = std::move(*candidateKernel);
    trial.candidate = std::move(*candidate);
    m_trials.push_back(std::move(trial));
  }
}

Result<Unit> KernelSupply::takeBetter(Executable& executable) {
  if (!m_tuning || !m_options.dynamic || m_cache.version() == m_versions[&executable]) return Unit{};
  const auto changes = m_cache.changesSince(m_versions[&executable]);
  m_versions[&executable] = changes.version;
  for (const auto& change : changes.changes) {
    const auto found = numbers(executable).find(change.subgraph);
    if (found == numbers(executable).end()) continue;
    auto kernel = link(change.kernel.object, change.kernel.generation);
    if (!kernel) continue;  // the one in use goes on
    NF_TRY([[maybe_unused]] const Unit used, use(executable, found->second, std::move(*kernel)));
  }
  return Unit{};
}

Result<std::vector<KernelSupply::Swap>> KernelSupply::beforeStep(Executable& training, std::int64_t step) {
  std::vector<Swap> swaps;
  m_step = step;
  if (m_options.replay) {
    NF_TRY([[maybe_unused]] const Unit replayed, replayStep(training, step));
  } else if (m_tuning && m_options.dynamic) {
    if (m_cache.version() != m_versions[&training]) {
      const auto changes = m_cache.changesSince(m_versions[&training]);
      m_versions[&training] = changes.version;
      for (const auto& change : changes.changes) {
        const auto found = numbers(training).find(change.subgraph);
        if (found == numbers(training).end()) continue;
        auto kernel = link(change.kernel.object, change.kernel.generation);
        if (!kernel) continue;  // the one in use goes on
        const auto before = m_best[change.subgraph];
        m_best[change.subgraph] = *kernel;
        NF_TRY([[maybe_unused]] const Unit used, use(training, found->second, *kernel));
        if (before && before != *kernel)
          swaps.push_back({change.subgraph, training.plan().subgraphs[found->second].name, change.beforeMicroseconds,
                           change.kernel.microseconds, m_tuning->roundOf(change.subgraph, change.kernel.object->schedule),
                           (*kernel)->schedule});
      }
    }
    takeCandidates(training);
    for (Trial& trial : m_trials) {
      const bool candidate = trial.phase == 1 || trial.phase == 2;
      NF_TRY([[maybe_unused]] const Unit used, use(training, trial.subgraph, trial.kernels[candidate ? 1 : 0]));
      training.watches()[trial.subgraph] = {true, 0, 0};
    }
  }
  logKernels(training, step);
  return swaps;
}

std::vector<JudgedKernel> KernelSupply::revertedUpTo(std::int64_t step) const {
  std::vector<JudgedKernel> kernels;
  if (m_options.replay)
    for (const KernelSwap& s : *m_options.replay)
      if (s.reverted && s.step <= step) kernels.push_back(s.judged());
  return kernels;
}

void KernelSupply::replace(Executable& training, Executable& next) {
  for (const Trial& trial : m_trials) m_tuning->forget(trial.candidate.ticket);
  m_trials.clear();
  numbers(next);
  drop(training);
}

void KernelSupply::drop(const Executable& executable) {
  m_numbers.erase(&executable);
  m_versions.erase(&executable);
  if (!m_tuning) return;
  std::vector<Hash> running;
  for (const auto& [executable, subgraphs] : m_numbers)
    for (const auto& [hash, number] : subgraphs) running.push_back(hash);
  m_tuning->retain(running);
}

void KernelSupply::logKernels(const Executable& training, std::int64_t step) {
  for (std::uint32_t i = 0; i < training.plan().subgraphs.size(); ++i) {
    const auto& kernel = training.kernel(i);
    auto& logged = m_logged[training.plan().subgraphs[i].hash];
    if (kernel == logged || !kernel) continue;
    // The same schedule linked anew computes the same bits: no entry.
    const bool same = logged && logged->schedule == kernel->schedule;
    logged = kernel;
    if (!same) m_swaps.push_back({step, training.plan().subgraphs[i].hash, kernel->schedule, false, {}});
  }
}

void KernelSupply::watchFirstSteps(Executable& training) {
  if (!m_startWanted || m_watchedSteps > kWatchedSteps) return;
  auto& watches = training.watches();
  for (std::size_t i = 0; i < watches.size(); ++i) {
    if (m_watchedSteps == kWatchedSteps && watches[i].calls > 0)
      m_tuning->seenInSteps(training.plan().subgraphs[i].hash, watches[i].median() * 1e6);
    if (m_watchedSteps == 0 || m_watchedSteps == kWatchedSteps) watches[i] = {m_watchedSteps == 0, 0, 0};
  }
  if (m_watchedSteps++ == kWatchedSteps) m_tuning->start();
}

void KernelSupply::afterStep(Executable& training, double seconds) {
  if (!m_tuning || !m_options.dynamic) return;
  m_tuning->stepDone(seconds);
  watchFirstSteps(training);
  std::erase_if(m_trials, [&](Trial& trial) {
    Executable::Watch& watch = training.watches()[trial.subgraph];
    const double microseconds = watch.calls > 0 ? watch.seconds / static_cast<double>(watch.calls) * 1e6 : 0;
    const bool candidate = trial.phase == 1 || trial.phase == 2;
    (candidate ? trial.open.candidate : trial.open.incumbent) = microseconds;
    if (trial.phase % 2 == 1) {
      trial.pairs.push_back(trial.open);
      trial.open = {};
    }
    trial.phase = (trial.phase + 1) % 4;
    if (trial.pairs.size() < kPairsPerReport || trial.phase % 2 == 1) return false;
    const PairedVerdict verdict = m_tuning->reportPairs(trial.candidate.ticket, trial.pairs);
    trial.pairs.clear();
    if (verdict.decision == PairedVerdict::Decision::NeedMore) return false;
    watch.on = false;
    // Accepted: it comes back as a change of the cache. Else the best so far takes its place again.
    const auto best = m_best.find(trial.candidate.subgraph);
    if (best != m_best.end()) static_cast<void>(use(training, trial.subgraph, best->second));
    return true;
  });
}

void KernelSupply::abandonStep(std::int64_t step) {
  while (!m_swaps.empty() && m_swaps.back().step >= step) m_swaps.pop_back();
}

Result<bool> KernelSupply::recover(Executable& training, const Error& error) {
  if (m_trials.empty()) return false;
  for (Trial& trial : m_trials) {
    m_tuning->withdraw(trial.candidate.ticket, error.message);
    training.watches()[trial.subgraph].on = false;
    NF_TRY([[maybe_unused]] const Unit used, use(training, trial.subgraph, m_best[trial.candidate.subgraph]));
  }
  m_trials.clear();
  logKernels(training, m_step);
  return true;
}

}  // namespace nf
