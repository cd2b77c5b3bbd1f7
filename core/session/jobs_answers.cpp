// SPDX-License-Identifier: Apache-2.0
// What a view asks of kernels, trials, series and values.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/ir/work.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/meaning.h"
#include "core/session/describe.h"
#include "core/session/jobs.h"
#include "core/session/kernel_places.h"
#include "core/support/scaled_text.h"
#include "core/support/unique_names.h"
#include "core/syntax/derivative_name.h"
#include "core/tune/record_database.h"
#include "core/tune/tune_program.h"

namespace nf {

// ---------------------------------------------------------------- answers
struct Jobs::Found {
  std::shared_ptr<const Stages> stages;
  Group group;
  Subgraph subgraph;
  Target target;
  std::unique_ptr<ScheduleSpace> space;
  Schedule first;  // pinned, or the analytic model's
  bool pinned = false;
  std::vector<std::string> counters;  // of the loops around it
  std::vector<Subgraph> equals;       // the other groups of the same kernel
};

std::optional<Jobs::Found> Jobs::find(const Revision& revision, const FusionInputs& inputs, const std::string& id,
                                      protocol::RequestId request) {
  const auto stages = revision.runningStages(inputs);
  if (!stages || !*stages || !(*stages)->fused) {
    fail(request, stages ? Error{"kernel", "The notebook has errors.", {}, {}} : stages.error());
    return std::nullopt;
  }
  const auto device = target();
  if (!device) {
    fail(request, {"kernel", "There is no device that code can be made for: see the devices view.", {}, {}});
    return std::nullopt;
  }
  const Program& program = *(*stages)->fused;
  std::optional<Found> found;
  std::optional<Error> failed;
  forEachKernel(program, [&](const KernelSite& site) {
    if (failed) return;
    Subgraph subgraph = site.extractor.extract(site.group.operators);
    if (subgraph.hash.hex() != id) return;
    if (found) return found->equals.push_back(std::move(subgraph));
    auto space = scheduleSpace(subgraph.program, *device);
    if (!space) {
      failed = space.error();
      return;
    }
    Schedule first = (*space)->first();
    bool pins = false;
    if (const Hint* hint = pinOf(program.hints, site.program, site.group.operators))
      if (auto pinned = pinnedSchedule(*hint, subgraph.program, &*device)) first = std::move(*pinned), pins = true;
    found.emplace(
        Found{*stages, site.group, std::move(subgraph), *device, std::move(*space), std::move(first), pins, site.counters, {}});
  });
  if (failed) {
    fail(request, *failed);
    return std::nullopt;
  }
  if (found) return found;
  fail(request, {"revision", "The program has no kernel " + id.substr(0, 8) + " now.", {}, {}});
  return std::nullopt;
}

namespace {
// By value: a schedule that was written by hand may say a number otherwise.
bool isSchedule(const protocol::JsonText& text, const Schedule& schedule) {
  const auto read = Schedule::parse(text.text);
  return read && read->kind == schedule.kind &&
         (read->knobs == schedule.knobs || (read->knobs && schedule.knobs && *read->knobs == *schedule.knobs));
}

// The last one with a time; null: it was never timed.
const protocol::TrialInfo* timedTrialOf(const std::vector<protocol::TrialInfo>& trials, const Schedule& schedule) {
  const auto found =
      std::find_if(trials.rbegin(), trials.rend(), [&](const auto& t) { return t.us && isSchedule(t.schedule, schedule); });
  return found == trials.rend() ? nullptr : &*found;
}

// A first kernel that was only checked is none yet.
bool isTrial(const protocol::TrialInfo& t) { return t.us || t.status != protocol::TrialStatus::Ok; }

// The newest that was faster than the one before beyond noise: their intervals do not touch. Null: none has a time.
const protocol::TrialInfo* bestOf(const std::vector<protocol::TrialInfo>& trials) {
  const protocol::TrialInfo* best = nullptr;
  for (const protocol::TrialInfo& t : trials) {
    if (!t.us || t.status != protocol::TrialStatus::Ok) continue;
    if (!best || (*t.us < *best->us && t.highUs.value_or(*t.us) < best->lowUs.value_or(*best->us))) best = &t;
  }
  return best;
}

const protocol::TrialInfo* firstOf(const std::vector<protocol::TrialInfo>& trials) {
  const auto found = std::find_if(trials.begin(), trials.end(),
                                  [](const protocol::TrialInfo& t) { return t.us && t.status == protocol::TrialStatus::Ok; });
  return found == trials.end() ? nullptr : &*found;
}
}  // namespace

// What runs, with the time of its trial; where none has run, the best one, which a run would begin with.
const protocol::TrialInfo* Jobs::shownOf(const Trials& trials, const std::string& best) {
  if (const protocol::TrialInfo* inUse = inUseOf(trials)) return inUse;
  const auto held = std::find_if(trials.list.rbegin(), trials.list.rend(), [&](const auto& t) {
    return t.us && t.status == protocol::TrialStatus::Ok && t.schedule.text == best;
  });
  return held != trials.list.rend() ? &*held : bestOf(trials.list);
}

protocol::KernelMaking Jobs::makingOf(const Trials& trials, const protocol::TrialInfo& trial) {
  return {trial.schedule, trials.quick && &trials.list[*trials.quick] == &trial};
}

std::string Jobs::bestSchedule(const std::string& subgraph) {
  const auto hash = hashFromHex(subgraph);
  std::shared_ptr<DeviceContext> context;
  {
    const std::lock_guard lock(m_mutex);
    context = m_context;
  }
  if (!hash || !context || !context->records() || !context->target()) return {};
  const auto best = context->records()->best(*hash, context->target()->fingerprint);
  return best ? best->schedule.text() : std::string();
}

void Jobs::answerSubgraphs(const Revision& revision, const FusionInputs& inputs, protocol::RequestId id) {
  protocol::Subgraphs answer;
  answer.revision = revision.number();
  const auto stages = revision.runningStages(inputs);
  if (!stages) return fail(id, stages.error());
  if (!*stages || !(*stages)->fused) return m_outbox.send(answer, id);
  const Program& program = *(*stages)->fused;
  const auto device = target();
  restoreRun(revision.notebook().sources.at(revision.notebook().notebook));
  std::map<std::string, std::size_t> places;
  std::map<std::string, std::set<std::uint32_t>> written;  // by kernel: where it is, as spans
  std::map<std::string, std::set<std::string>>
      makers;  // kernels by what they make: a loop's body may have a name of the program around
  std::map<std::pair<std::string, std::string>, std::int64_t> work;  // of a kernel for what it makes, operations
  forEachKernel(program, [&](const KernelSite& site) {
    const Program& own = site.program;
    const Group& group = site.group;
    const Subgraph subgraph = site.extractor.extract(group.operators);
    const std::string hash = subgraph.hash.hex();
    const auto [place, isNew] = places.emplace(hash, answer.subgraphs.size());
    if (!isNew) {
      answer.subgraphs[place->second].callsPerStep += site.calls;
    } else {
      protocol::SubgraphInfo info;
      info.callsPerStep = site.calls;
      if (site.loop.valid())
        if (const auto made = writesOf(program, site.loop); !made.empty() && made.front().valid())
          info.loop = program[made.front()].name;
      info.id = hash;
      info.name = group.name;
      if (device)
        if (const auto space = scheduleSpace(subgraph.program, *device)) info.kind = (*space)->first().kind;
      info.bytes = trafficOf(subgraph.program);
      info.flops = workOf(subgraph.program);
      if (device) loadRecords(hash);
      const std::string best = device ? bestSchedule(hash) : std::string();
      const std::lock_guard lock(m_mutex);
      const auto trials = m_trials.find(hash);
      if (trials != m_trials.end() && (!trials->second.list.empty() || trials->second.us)) {
        const protocol::TrialInfo* shown = shownOf(trials->second, best);
        if (shown) info.trial = shown->number, info.made = makingOf(trials->second, *shown);
        info.us = shown ? shown->us : trials->second.us;
        // The first kernel may have been timed again.
        info.firstUs = shown && shown == firstOf(trials->second.list) ? shown->us : trials->second.firstUs;
        info.trials = std::count_if(trials->second.list.begin(), trials->second.list.end(), isTrial);
        info.generation = shown ? shown->generation : trials->second.generation;
        if (!trials->second.inUse.empty()) info.inUse.text = trials->second.inUse;
        info.state = m_train || m_tuning ? protocol::SubgraphState::Searching : protocol::SubgraphState::Done;
      }
      answer.subgraphs.push_back(std::move(info));
    }
    protocol::SubgraphInfo& info = answer.subgraphs[place->second];
    // A hint for one of the places that share the kernel is for all of them.
    if (const Hint* pin = pinOf(program.hints, own, group.operators); pin && info.state != protocol::SubgraphState::Pinned) {
      const auto schedule = device ? pinnedSchedule(*pin, subgraph.program, &*device) : Result<Schedule>(Error{});
      if (device && !schedule) {
        info.setAside = pin->tensors.front();
      } else {
        info.state = protocol::SubgraphState::Pinned;
        info.setAside.clear();
        info.pinTensor = pin->tensors.front();
      }
      // What it runs with is what was pinned, not the best that was found.
      if (schedule) {
        const std::lock_guard lock(m_mutex);
        const auto trials = m_trials.find(hash);
        // Behind a run the newest trial of it counts, as where it was measured by hand: the first one's time is of another moment.
        const protocol::TrialInfo* timed = trials == m_trials.end() || !m_train ? nullptr : inUseOf(trials->second);
        if (trials != m_trials.end() && (!timed || !timed->us || !isSchedule(timed->schedule, *schedule)))
          timed = timedTrialOf(trials->second.list, *schedule);
        info.us = timed ? timed->us : std::nullopt;
        info.trial = timed ? std::optional(timed->number) : std::nullopt;
        info.made = timed ? makingOf(trials->second, *timed) : protocol::KernelMaking{{schedule->text()}, false};
      }
    }
    for (const OperatorId op : group.operators) {
      const std::int64_t operations = workOf(own, op);
      for (const TensorId t : writesOf(own, op)) {
        info.operators.push_back(own[t].name);
        makers[own[t].name].insert(hash);
        work.emplace(std::pair(hash, own[t].name), operations);
      }
      for (const std::uint32_t origin : revision.spans().of(own, own[op].origin))
        if (std::find(info.origins.begin(), info.origins.end(), origin) == info.origins.end()) info.origins.push_back(origin);
      written[hash].merge(revision.spans().placesOf(own, op));
    }
  });
  for (protocol::SubgraphInfo& info : answer.subgraphs) info.places.assign(written[info.id].begin(), written[info.id].end());
  // By what it spends most on: a schedule is chosen for that, and what else is fused with it may be another kernel's after an edit or a
  // hint. So may a number at a name, and what is computed again elsewhere: only where there is no other.
  std::set<std::string> repeated;
  for (const auto& maker : makers)
    if (const std::string_view name = withoutNumber(maker.first); name != maker.first) repeated.emplace(name);
  const auto numbered = [](const std::string& name) { return name.find('#') != std::string::npos; };  // also inside, as d(L)/d(h#1)
  for (protocol::SubgraphInfo& s : answer.subgraphs) {
    if (!s.pinTensor.empty() && !numbered(s.pinTensor)) continue;
    const auto rank = [&](const std::string& made) {
      return std::tuple(makers.at(made).size() == 1, !numbered(made), !repeated.contains(made), work.at({s.id, made}));
    };
    const auto most = std::ranges::max_element(s.operators, {}, rank);
    if (most == s.operators.end() || makers.at(*most).size() != 1) continue;
    if (s.pinTensor.empty() || !numbered(*most)) s.pinTensor = *most;
  }
  // Shares are of what the last run has tried, also where a trial of it was on record.
  std::int64_t tried = 0;
  const std::lock_guard lock(m_mutex);
  const auto ownTrials = [this](const protocol::SubgraphInfo& s) {
    const auto found = m_trials.find(s.id);
    return found == m_trials.end() ? 0 : found->second.ofRun;
  };
  for (const auto& s : answer.subgraphs) tried += ownTrials(s);
  for (auto& s : answer.subgraphs) s.budgetShare = tried > 0 ? static_cast<double>(ownTrials(s)) / static_cast<double>(tried) : 0;
  m_outbox.send(answer, id);
}

void Jobs::answerTrials(const protocol::TrialsRequest& request, protocol::RequestId id) {
  loadRecords(request.subgraph);
  for (;;) {
    protocol::Trials answer;
    answer.subgraph = request.subgraph;
    std::uint64_t told;
    {
      const std::lock_guard lock(m_mutex);
      told = m_trialsTold;
      const auto found = m_trials.find(request.subgraph);
      if (found != m_trials.end()) {
        const auto& list = found->second.list;
        answer.total = list.size();
        const std::size_t first = std::min<std::size_t>(request.from, list.size());
        const std::size_t count =
            std::min<std::size_t>(list.size() - first, static_cast<std::size_t>(std::clamp<std::int64_t>(request.limit, 0, 20000)));
        answer.trials.assign(list.begin() + static_cast<std::ptrdiff_t>(first),
                             list.begin() + static_cast<std::ptrdiff_t>(first + count));
      }
    }
    // Thousands of trials are written down while others go on; one that was told of meanwhile belongs into the answer.
    Outbox::Encoded bytes = Outbox::encoded(answer, id);
    const std::lock_guard lock(m_mutex);
    if (told == m_trialsTold) return m_outbox.send(std::move(bytes));
  }
}

void Jobs::answerSpace(const Revision& revision, const FusionInputs& inputs, const protocol::SpaceRequest& request,
                       protocol::RequestId id) {
  const auto found = find(revision, inputs, request.subgraph, id);
  if (!found) return;
  protocol::Space answer;
  answer.subgraph = request.subgraph;
  const Schedule first = found->first;
  answer.kind = first.kind;
  answer.size = found->space->size();
  for (const KnobInfo& knob : found->space->knobs()) {
    protocol::KnobInfo info{knob.name, knob.help, {}};
    for (const std::string& value : knob.values) info.values.push_back({value});
    answer.knobs.push_back(std::move(info));
  }
  answer.current.text = first.text();
  {
    const std::lock_guard lock(m_mutex);
    const auto trials = m_trials.find(request.subgraph);
    if (!found->pinned && trials != m_trials.end() && !trials->second.schedule.empty())
      answer.current.text = trials->second.schedule;
  }
  answer.at = request.at.value_or(answer.current);
  const auto at = Schedule::parse(answer.at.text);
  if (!at) return fail(id, at.error());
  const auto whyNot = [&](const Schedule& schedule) {
    const auto legal = found->space->check(schedule);
    return legal ? std::string() : legal.error().message;
  };
  answer.ruledOut = whyNot(*at);
  for (protocol::KnobInfo& knob : answer.knobs)
    for (const protocol::JsonText& value : knob.values) {
      nlohmann::json turned = at->knobs ? *at->knobs : nlohmann::json::object();
      turned[knob.name] = nlohmann::json::parse(value.text);
      knob.ruledOut.push_back(whyNot({at->kind, std::make_shared<const nlohmann::json>(std::move(turned))}));
    }
  m_outbox.send(answer, id);
}

void Jobs::answerKernel(const Revision& revision, const FusionInputs& inputs, const protocol::KernelRequest& request,
                        protocol::RequestId id, std::stop_token stop) {
  auto found = find(revision, inputs, request.subgraph, id);
  if (!found) return;
  protocol::Kernel answer;
  answer.subgraph = request.subgraph;
  answer.name = found->group.name;
  answer.trial = request.trial;
  std::string scheduleText = found->first.text();
  std::shared_ptr<DeviceContext> context;
  const std::string best = bestSchedule(request.subgraph);
  {
    const std::lock_guard lock(m_mutex);
    const auto trials = m_trials.find(request.subgraph);
    if (request.trial && (trials == m_trials.end() || *request.trial >= trials->second.list.size()))
      return fail(id, {"kernel", "There is no such trial.", {}, {}});
    if (trials != m_trials.end()) {
      const protocol::TrialInfo* shown = nullptr;
      if (found->pinned) shown = timedTrialOf(trials->second.list, found->first);
      else if (shown = shownOf(trials->second, best); shown) scheduleText = shown->schedule.text;
      else {
        answer.generation = trials->second.generation;
        answer.us = trials->second.us;
        if (!trials->second.schedule.empty()) scheduleText = trials->second.schedule;
      }
      if (shown) {
        answer.us = shown->us;
        answer.generation = shown->generation;
      }
      if (request.trial) {
        const protocol::TrialInfo& trial = trials->second.list[*request.trial];
        scheduleText = trial.schedule.text;
        answer.us = trial.us;
        answer.generation = trial.generation;
      }
    }
    context = m_context;
  }
  CompileService* const service = context ? context->compileService() : nullptr;
  const auto schedule = Schedule::parse(scheduleText);
  if (!schedule) return fail(id, schedule.error());
  if (!service) return fail(id, {"kernel", "There is no compiler for this device.", {}, {}});
  answer.schedule.text = scheduleText;
  const Program& sub = found->subgraph.program;
  const KernelPlaces places(revision.spans(), sub, found->equals);
  for (std::size_t i = 0; i < sub.operators.size(); ++i) {
    answer.expression += toText(sub, {OperatorId(i)}, found->counters) + "\n";
    answer.expressionOrigins.push_back(places.of(sub.operators[i].origin));
    answer.expressionPlaces.push_back(places.ofAll(OperatorId(i)));
  }
  CompileJob job;
  Program sent = sub;
  joinReadsOfSums(sent, revision.spans());
  job.subgraph = std::make_shared<const Program>(std::move(sent));
  // With origins the program is another text than the one workers know under its hash: it is sent under a hash of its own.
  job.hash = Hasher().add(found->subgraph.hash).add("with origins").add(revision.number()).finish();
  job.target = std::make_shared<const Target>(found->target);
  job.schedules = {*schedule};
  job.texts = request.languages.empty() ? std::vector<std::string>{"loops", "llvm", "asm"} : request.languages;
  job.stop = stop;
  const CompileOutcome outcome = service->compile(std::move(job)).get();
  if (outcome.cancelled) return m_outbox.send(protocol::Cancelled{}, id);
  if (!outcome.kernel) return fail(id, outcome.kernel.error());
  for (const auto& [language, text] : outcome.kernel->texts) {
    protocol::KernelTextInfo info;
    info.language = language;
    info.text = text.text;
    for (const auto& line : text.lineOrigins) {
      protocol::Origins origins;
      for (const OriginId origin : line)
        for (const std::uint32_t span : places.withBodies(origin))
          if (std::find(origins.begin(), origins.end(), span) == origins.end()) origins.push_back(span);
      info.lineOrigins.push_back(std::move(origins));
    }
    answer.texts.push_back(std::move(info));
  }
  answer.facts = {{"template", schedule->kind},
                  {"stages", std::to_string(outcome.kernel->stages.size())},
                  {"workspace", bytesText(outcome.kernel->workspaceBytes)},
                  {"code", bytesText(static_cast<std::int64_t>(outcome.kernel->code.size()))},
                  {"vector", std::to_string(found->target.vectorBytes * 8) + " bits"}};
  m_outbox.send(answer, id);
}

void Jobs::answerMeasure(const Revision& revision, const FusionInputs& inputs, const protocol::MeasureRequest& request,
                         protocol::RequestId id, std::stop_token stop) {
  auto found = find(revision, inputs, request.subgraph, id);
  if (!found) return;
  const auto schedule = Schedule::parse(request.schedule.text);
  if (!schedule) return fail(id, schedule.error());
  const auto legal = found->space->check(*schedule);
  if (!legal) return fail(id, legal.error());
  loadRecords(request.subgraph);
  std::shared_ptr<DeviceContext> context;
  std::optional<std::uint64_t> replays = request.replays;
  {
    const std::lock_guard lock(m_mutex);
    context = m_context;
    // A schedule that was tried already is measured again, not found anew.
    if (const auto trials = m_trials.find(request.subgraph); !replays && trials != m_trials.end())
      for (const protocol::TrialInfo& t : trials->second.list)
        if (t.us && isSchedule(t.schedule, *schedule)) replays = t.number;
  }
  CompileService* const compile = context ? context->compileService() : nullptr;
  MeasureService* const measure = context ? context->measureService() : nullptr;
  if (!compile || !measure) return fail(id, measuresNothing());
  const auto begin = std::chrono::steady_clock::now();
  auto program = std::make_shared<const Program>(std::move(found->subgraph.program));
  CompileJob job;
  job.subgraph = program;
  job.hash = Hasher().add(found->subgraph.hash).add("with origins").add(revision.number()).finish();
  job.target = std::make_shared<const Target>(found->target);
  job.schedules = {*schedule};
  job.attempts = 1;
  job.stop = stop;
  const CompileOutcome compiled = compile->compile(std::move(job)).get();
  if (compiled.cancelled) return m_outbox.send(protocol::Cancelled{}, id);
  protocol::TrialMeasured answer;
  answer.subgraph = request.subgraph;
  answer.trial.schedule.text = schedule->text();
  answer.trial.how = replays ? "replay of c" + std::to_string(*replays) : std::string(kByHand);
  const std::string asked = answer.trial.how;
  TrialStatus status = TrialStatus::Ok;
  Timing timing;
  bool outside = false;  // what ended it says nothing of the schedule
  answer.trial.predictedUs = found->space->estimateSeconds(*schedule) * 1e6;
  if (!compiled.kernel) {
    answer.trial.how = asked + ": " + compiled.kernel.error().message;
    status = compiled.status == TrialStatus::Ok ? TrialStatus::Crashed : compiled.status;
    outside = compiled.outside;
  } else {
    MeasureJob measured;
    measured.subgraph = program;
    measured.hash = Hasher().add(found->subgraph.hash).add("with origins").add(revision.number()).finish();
    measured.candidate = std::make_shared<const KernelObject>(*compiled.kernel);
    measured.stop = stop;
    const MeasureOutcome outcome = measure->measure(std::move(measured)).get();
    if (outcome.cancelled) return m_outbox.send(protocol::Cancelled{}, id);
    status = outcome.status, timing = outcome.timing, outside = outcome.outside;
    if (outcome.timing.runs > 0) {
      answer.trial.us = outcome.timing.median;
      const TimeInterval quartiles = quartilesOf(outcome.timing);
      answer.trial.lowUs = quartiles.low;
      answer.trial.highUs = quartiles.high;
    }
    if (!outcome.reason.empty()) answer.trial.how = asked + ": " + outcome.reason;
  }
  answer.trial.status = protocolStatus(status);
  answer.trial.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bool recorded = false;
  std::vector<std::string> parents;
  {
    const std::lock_guard lock(m_mutex);
    Trials& trials = m_trials[request.subgraph];
    if (replays && *replays < trials.list.size()) {
      // No trial of its own: it belongs to the one it repeats, whose figure stays.
      protocol::TrialInfo& repeated = trials.list[*replays];
      answer.trial.number = repeated.number;
      answer.trial.generation = repeated.generation;
      answer.trial.parents = repeated.parents;
      answer.trial.seconds = repeated.seconds;
      const bool again = repeated.how.find("replayed: ") != std::string::npos;
      repeated.how += again ? ", " : repeated.how.empty() ? "replayed: " : "; replayed: ";
      repeated.how += answer.trial.us ? durationText(*answer.trial.us * 1e-6) : answer.trial.how;
    } else {
      answer.trial.number = trials.list.size();
      for (const protocol::TrialInfo& t : trials.list) answer.trial.generation = std::max(answer.trial.generation, t.generation);
      if (!trials.list.empty()) answer.trial.seconds += trials.list.back().seconds;
      if (request.base && *request.base < trials.list.size()) {
        answer.trial.parents = {*request.base};
        parents.push_back(trials.list[*request.base].schedule.text);
      }
      trials.list.push_back(answer.trial);
      recorded = !outside;
    }
  }
  // As what a search has tried: the next engine knows it, and the next search begins with it.
  if (RecordDatabase* const records = recorded ? context->records() : nullptr) {
    const std::string& fingerprint = found->target.fingerprint;
    auto kept = records->begin(found->subgraph.hash, fingerprint, *schedule, traitsOf(*program, schedule->kind));
    if (kept) kept = records->finish(found->subgraph.hash, fingerprint, *schedule, status, timing);
    if (kept)
      kept = records->setLineage(found->subgraph.hash, fingerprint, *schedule, answer.trial.generation, parents, answer.trial.how);
    if (!kept) {
      protocol::WarningEvent warning;
      warning.message = "What was measured is not kept: " + kept.error().message;
      m_outbox.send(warning);
    }
  }
  m_outbox.send(answer, id);
}

namespace {

protocol::Measured measuredOf(std::vector<double> samples) {
  protocol::Measured m;
  m.samples = samples;
  const TimeInterval interval = medianInterval(samples);
  m.median = timingOf(std::move(samples)).median;
  m.low = interval.low;
  m.high = interval.high;
  return m;
}

std::string savingKey(const std::string& device, const FusionDecision& d, const std::string& parts) {
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "\n%.17g\n%.17g\n%lld\n", d.dT, d.dC, static_cast<long long>(d.dK));
  return device + "\n" + d.producer + "\n" + d.consumer + numbers + parts;
}

}  // namespace

std::optional<protocol::Measured> Jobs::measuredSaving(const FusionDecision& decision, const std::string& parts) const {
  const std::lock_guard lock(m_mutex);
  const auto found = m_savings.find(savingKey(m_context ? m_context->device().name() : std::string(), decision, parts));
  if (found == m_savings.end()) return std::nullopt;
  return found->second;
}

void Jobs::answerCompareFusion(const Revision& revision, const FusionInputs& inputs, const protocol::CompareFusionRequest& request,
                               protocol::RequestId id, std::stop_token stop) {
  const auto stages = revision.decidedStages(inputs);
  if (!stages) return fail(id, stages.error());
  if (!*stages || !(*stages)->fused) return fail(id, {"compare", "The notebook has errors.", {}, {}});
  std::shared_ptr<DeviceContext> context;
  {
    const std::lock_guard lock(m_mutex);
    context = m_context;
  }
  if (!context) return fail(id, {"compare", "There is no device to measure on: see the devices view.", {}, {}});
  StageOptions passes;
  passes.device = inputs.device;
  passes.target = inputs.target;
  if (inputs.reverted) passes.fusion.reverted = *inputs.reverted;
  const auto compared = compareBranches(**stages, *context, passes, request.producer, request.consumer, stop);
  if (!compared) return fail(id, compared.error());
  if (!*compared) return m_outbox.send(protocol::Cancelled{}, id);
  const BranchComparison& c = **compared;
  protocol::FusionCompared answer;
  answer.revision = revision.number();
  answer.producer = request.producer;
  answer.consumer = request.consumer;
  answer.device = context->device().name();
  answer.loop = c.site.loop;
  for (const SiteKernel& k : c.site.first) answer.fusedKernels.push_back(k.name);
  for (const SiteKernel& k : c.site.second) answer.splitKernels.push_back(k.name);
  std::vector<double> fused, split, saving;
  for (const TimedPair& pair : c.comparison.pairs) {
    fused.push_back(pair.incumbent);
    split.push_back(pair.candidate);
    saving.push_back(pair.candidate - pair.incumbent);
  }
  answer.fused = measuredOf(std::move(fused));
  answer.split = measuredOf(std::move(split));
  answer.saving = measuredOf(std::move(saving));
  answer.separates = c.comparison.separates;
  answer.verdict = c.verdict();
  answer.judged = c.judged.has_value();
  if (answer.judged) readReverted();
  {
    DecidedParts parts(*(*stages)->fused);
    const std::lock_guard lock(m_mutex);
    for (const FusionDecision& d : (*stages)->decisions)
      if (d.producer == request.producer && d.consumer == request.consumer)
        m_savings[savingKey(answer.device, d, parts.of(d))] = answer.saving;
  }
  m_outbox.send(answer, id);
}

void Jobs::answerSeries(const protocol::SeriesRequest& request, protocol::RequestId id) {
  protocol::Series answer;
  answer.name = request.name;
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_series.find(request.name);
    if (found != m_series.end()) {
      const auto& points = found->second;
      const auto first =
          std::lower_bound(points.begin(), points.end(), request.from, [](const Point& p, double x) { return p.x < x; });
      const auto last = std::upper_bound(first, points.end(), request.to, [](double x, const Point& p) { return x < p.x; });
      const auto count = static_cast<std::size_t>(last - first);
      answer.points = static_cast<std::int64_t>(count);
      const std::size_t buckets =
          std::min<std::size_t>(count, static_cast<std::size_t>(std::clamp<std::int64_t>(request.buckets, 1, 10000)));
      for (std::size_t b = 0; b < buckets; ++b) {
        const std::size_t begin = b * count / buckets, end = (b + 1) * count / buckets;
        protocol::Bucket bucket;
        bucket.min = HUGE_VAL;
        bucket.max = -HUGE_VAL;
        for (std::size_t i = begin; i < end; ++i) {
          const Point& p = *(first + static_cast<std::ptrdiff_t>(i));
          bucket.x = p.x;
          bucket.min = std::min(bucket.min, p.low);
          bucket.max = std::max(bucket.max, p.high);
          bucket.last = p.last;
          bucket.count += p.count;
        }
        answer.buckets.push_back(bucket);
      }
    }
  }
  m_outbox.send(answer, id);
}

void Jobs::sendTensor(const HostTensor& tensor, const protocol::TensorRequest& request, std::int64_t step, protocol::RequestId id,
                      bool outdated, std::int64_t rows) {
  protocol::TensorSlice slice;
  slice.outdated = outdated;
  slice.rows = rows;
  slice.tensor = request.tensor;
  slice.dtype = name(tensor.type);
  slice.shape = tensor.shape;
  slice.step = step;
  const std::size_t rank = tensor.shape.size();
  slice.begin = request.begin;
  slice.end = request.end;
  slice.begin.resize(rank, 0);
  slice.end.resize(rank, INT64_MAX);
  std::int64_t values = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    slice.begin[k] = std::clamp<std::int64_t>(slice.begin[k], 0, tensor.shape[k]);
    slice.end[k] = std::clamp<std::int64_t>(slice.end[k], slice.begin[k], tensor.shape[k]);
    values *= slice.end[k] - slice.begin[k];
  }
  // Too many: whole rows of the outermost axes are cut off first.
  const std::int64_t limit = std::clamp<std::int64_t>(request.limit, 1, 1 << 22);
  for (std::size_t k = 0; k < rank && values > limit; ++k) {
    const std::int64_t extent = slice.end[k] - slice.begin[k], others = values / extent;
    const std::int64_t kept = std::max<std::int64_t>(1, std::min(extent, limit / others));
    slice.end[k] = slice.begin[k] + kept;
    values = others * kept;
  }
  const std::int64_t elements = tensor.elements();
  double sum = 0, squares = 0;
  slice.min = HUGE_VAL;
  slice.max = -HUGE_VAL;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double v = tensor.at(i);
    if (std::isnan(v)) ++slice.nans;
    else if (std::isinf(v)) ++slice.infinities;
    else {
      ++finite;
      sum += v;
      squares += v * v;
      slice.min = std::min(slice.min, v);
      slice.max = std::max(slice.max, v);
    }
  }
  if (finite > 0) {
    slice.mean = sum / static_cast<double>(finite);
    slice.rms = std::sqrt(squares / static_cast<double>(finite));
    constexpr int kBins = 40;
    slice.histogram.assign(kBins, 0);
    const double width = slice.max - slice.min;
    for (std::int64_t i = 0; i < elements; ++i) {
      const double v = tensor.at(i);
      if (!std::isfinite(v)) continue;
      const int bin = width > 0 ? static_cast<int>((v - slice.min) / width * kBins) : 0;
      ++slice.histogram[static_cast<std::size_t>(std::clamp(bin, 0, kBins - 1))];
    }
  } else {
    slice.min = slice.max = 0;
  }
  std::vector<double> numbers;
  numbers.reserve(static_cast<std::size_t>(values));
  std::vector<std::int64_t> at = slice.begin;
  for (std::int64_t n = 0; n < values; ++n) {
    std::int64_t linear = 0;
    for (std::size_t k = 0; k < rank; ++k) linear = linear * tensor.shape[k] + at[k];
    numbers.push_back(tensor.at(linear));
    for (std::size_t k = rank; k-- > 0;) {
      if (++at[k] < slice.end[k]) break;
      at[k] = slice.begin[k];
    }
  }
  protocol::Envelope envelope;
  envelope.id = id;
  envelope.message = std::move(slice);
  envelope.binary = protocol::packValues(numbers);
  m_outbox.send(envelope);
}

namespace {
// What a `train` statement makes of gradients, `d(L)/d(W).clipped`, `W.next`, and no cell shows.
bool isOfTraining(const CompiledNotebook& notebook, const std::string& tensor) {
  const TensorId t = notebook.tensorNamed(tensor);
  if (std::ranges::any_of(notebook.program.outputs, [&](const Output& o) { return o.tensor == t; })) return false;
  return t.valid() && std::ranges::any_of(notebook.program.operators,
                                          [&](const Operator& op) { return op.phase == Phase::Optimizer && op.output == t; });
}

std::string ofTrainingAlone(const std::string& tensor) {
  return tensor + " is worked out in training steps alone: a cell below `train` that shows it computes it.";
}

// What a function makes on the way to its result, `Q.E` of `Q = softmax(X)`, and no cell shows: a run leaves it out.
bool isPart(const CompiledNotebook& notebook, const std::string& tensor) {
  const TensorId t = notebook.tensorNamed(tensor);
  return t.valid() && !isOfTraining(notebook, tensor) && tensor.find('.') != std::string::npos &&
         notebook.program[t].kind == TensorKind::Intermediate && !notebook.tensorSymbol(tensor) &&
         std::ranges::none_of(notebook.program.outputs, [&](const Output& o) { return o.tensor == t; });
}
}  // namespace

// At the values that a training left: what its steps do not keep is computed when somebody asks for it.
void Jobs::evaluate(std::shared_ptr<const Revision> revision, protocol::TensorRequest request, protocol::RequestId id) {
  enqueue(
      id,
      [this, revision = std::move(revision), request = std::move(request), id](std::stop_token stop) {
        const auto answered = [&] {
          const std::lock_guard lock(m_mutex);
          const auto value = m_run ? m_run->tensorOfProgram(request.tensor) : Result<HostTensor>(Error{});
          if (value) sendTensor(*value, request, m_step, id, false, m_run->rowsBehind(request.tensor));
          return value.ok();
        };
        if (answered()) return;  // one that was asked for before it had all of them computed
        const CompiledNotebook& notebook = revision->sound();
        if (isOfTraining(notebook, request.tensor)) return fail(id, {"tensor", ofTrainingAlone(request.tensor), {}, {}});
        DeviceContext* device = context("auto", id);
        if (!device) return;
        RunOptions options;
        options.source = notebook.sources.at(notebook.notebook);
        options.tensors = {"all"};
        options.train = revision->step();
        if (isPart(notebook, request.tensor)) options.tensors.push_back(request.tensor);
        const auto trained = lastTrained(options.source);
        for (const auto& [name, then] : goingOn(trained.get(), notebook).same)
          options.values.emplace(name, trained->values.at(then));
        std::unique_ptr<RunJob> job;
        const auto stopped = [&] {
          {
            const std::lock_guard lock(m_mutex);
            if (m_task && m_task->cancelled) return m_outbox.send(protocol::Cancelled{}, id);
          }
          fail(id, {"tensor", request.tensor + " was not computed: something else was to run first.", {}, {}});
        };
        bool whole = true;
        const auto prepared = prepareRun(job, *device, options, {request.tensor}, whole, stop, {});
        if (!prepared) return fail(id, prepared.error());
        if (!*prepared) return stopped();
        if (const auto done = job->run(false, stop); !done) return isStopped(done.error()) ? stopped() : fail(id, done.error());
        {
          const std::lock_guard lock(m_mutex);
          m_run = std::move(job);
          m_runRevision = revision;
          m_runIsWhole = whole;
          m_step = trained ? trained->step : -1;
        }
        if (!answered()) fail(id, {"tensor", ofTrainingAlone(request.tensor), {}, {}});
      },
      true, true);
}

namespace {
// A derivative that the passes make on the way to another one has values where a cell asks for it.
std::string withoutValue(const Revision& revision, const std::string& tensor, const char* why) {
  const TensorId t = revision.sound().tensorNamed(tensor);
  const bool shown = std::ranges::any_of(revision.sound().program.outputs, [&](const Output& o) { return o.tensor == t; });
  if (derivativeNames(tensor) && tensor.ends_with(')') && !(t.valid() && shown))
    return "No cell asks for " + tensor + ": `show " + tensor + "` computes its values.";
  if (isOfTraining(revision.sound(), tensor)) return ofTrainingAlone(tensor);
  // An optimizer's: no statement of the notebook makes it.
  if (t.valid() && revision.sound().program[t].kind == TensorKind::State && !revision.sound().tensorSymbol(tensor))
    return tensor + " is kept from step to step of a training, and has no value before one: run its `train` cell.";
  if (isPart(revision.sound(), tensor))
    return tensor + " is made on the way to " + tensor.substr(0, tensor.find('.')) + " and not kept: `show " + tensor +
           "` computes its values.";
  return tensor + why;
}
}  // namespace

void Jobs::answerTensor(std::shared_ptr<const Revision> revision, const protocol::TensorRequest& request, protocol::RequestId id) {
  std::shared_ptr<TrainJob> training;
  std::optional<Result<HostTensor>> ofRun;
  std::shared_ptr<const Revision> computed;  // what the values are of
  std::int64_t ofStep = -1, rows = 0;
  bool whole = true;
  {
    const std::lock_guard lock(m_mutex);
    training = m_train;
    whole = m_runIsWhole;
    if (training) computed = m_trainRevision;
    if (!training && m_run) {
      ofRun = m_run->tensorOfProgram(request.tensor);
      if (*ofRun) rows = m_run->rowsBehind(request.tensor);
      computed = m_runRevision;
      ofStep = m_step;
    }
  }
  // Without the lock: meanings take time in proportion to the notebook.
  const auto outdated = [&] {
    return computed && computed->number() != revision->number() &&
           tensorMeaning(computed->sound(), request.tensor) != tensorMeaning(revision->sound(), request.tensor);
  };
  if (ofRun) {
    if (!*ofRun && !whole && revision->sound().tensorNamed(request.tensor).valid())
      return evaluate(std::move(revision), request, id);
    if (!*ofRun) return fail(id, {"tensor", withoutValue(*revision, request.tensor, " has no value: run its cell."), {}, {}});
    return sendTensor(**ofRun, request, ofStep, id, outdated(), rows);
  }
  if (!training) {
    const CompiledNotebook& notebook = revision->sound();
    if (notebook.ok())
      if (const auto trained = lastTrained(notebook.sources.at(notebook.notebook))) {
        const GoingOn from = goingOn(trained.get(), notebook);
        if (const auto same = from.same.find(request.tensor); same != from.same.end())
          return sendTensor(trained->values.at(same->second), request, trained->step, id);
        if (!from.same.empty() && from.whole() && notebook.tensorNamed(request.tensor).valid())
          return evaluate(std::move(revision), request, id);
      }
    return fail(id, {"tensor", withoutValue(*revision, request.tensor, " has no value yet: run its cell."), {}, {}});
  }
  const bool asked = training->betweenSteps([this, request, id, old = outdated()](Executable& executable, std::int64_t step) {
    const TensorId tensor = executable.program().tensorNamed(request.tensor);
    if (!tensor.valid()) return fail(id, {"tensor", request.tensor + " is not kept while training.", {}, {}});
    const auto value = executable.read(tensor);
    if (!value)
      return fail(id, {"tensor",
                       request.tensor + " is not kept while training: " +
                           (executable.plan().overwrites(tensor) ? "its place in memory is used again in the same step. Its cell "
                                                                   "computes it when the training has ended."
                                                                 : "fused kernels never write it."),
                       {},
                       {}});
    sendTensor(*value, request, step > 0 ? step : -1, id, old);
  });
  if (!asked) fail(id, {"tensor", "Training has just ended: run the cell for values.", {}, {}});
}

}  // namespace nf
