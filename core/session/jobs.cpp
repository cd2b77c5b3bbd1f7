// SPDX-License-Identifier: Apache-2.0
#include "core/session/jobs.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/runtime/checkpoint.h"
#include "core/runtime/data_file.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/initialize.h"
#include "core/runtime/meaning.h"
#include "core/runtime/report.h"
#include "core/runtime/run_folder.h"
#include "core/runtime/step_program.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

constexpr std::size_t kMostPoints = 1u << 20;
constexpr std::int64_t kMostKept = 256 << 20;  // bytes of what a training learnt
constexpr const char* kOnRecord = ", on record";
constexpr const char* kTooLarge = "what was learnt takes more than 256 MiB.";

std::size_t trainOfCell(const CompiledNotebook& notebook, std::uint32_t cell) {
  if (cell < notebook.cells.size())
    for (std::size_t i = 0; i < notebook.trains.size(); ++i) {
      const Span place = notebook.trains[i].span, around = notebook.cells[cell].span;
      if (place.begin >= around.begin && place.begin < around.end) return i;
    }
  return 0;
}

std::string outputRootOf(const Source& source) {
  if (source.directory.empty() || source.name.empty()) return {};
  const std::size_t slash = source.name.rfind('/');
  return source.directory + "/" + (slash == std::string::npos ? source.name : source.name.substr(slash + 1)) + ".out";
}

// That the values of the cell are computed from.
std::set<std::string> parametersOf(const CompiledNotebook& notebook, std::uint32_t cell) {
  std::vector<TensorId> wanted = notebook.cells[cell].defines;
  wanted.insert(wanted.end(), notebook.cells[cell].shows.begin(), notebook.cells[cell].shows.end());
  Program whole = notebook.program;
  whole.outputs.clear();
  for (const TensorId t : wanted) whole.outputs.push_back({whole[t].name, t, OutputRole::Named});
  const Program needed = restrictedTo(whole, wanted, false);
  std::set<std::string> parameters;
  const auto add = [&](const Program& p, TensorId t) {
    if (t.valid() && p[t].kind == TensorKind::Param) parameters.insert(p[t].name);
  };
  for (const TensorId t : wanted) add(notebook.program, t);
  for (std::size_t o = 0; o < needed.operators.size(); ++o)
    for (const TensorId t : readsOf(needed, OperatorId(o))) add(needed, t);
  for (const Derivative& d : needed.derivatives) add(needed, d.wrt);
  return parameters;
}

// Empty: its folder does not say.
std::string deviceOf(const std::string& run) {
  const auto text = readFile(run + "/run.json");
  const auto record = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  const auto at = nlohmann::json::json_pointer("/machine/device");
  return record.is_object() && record.contains(at) && record[at].is_string() ? record[at].get<std::string>() : std::string();
}

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "`" : ", `") + name + "`";
  return out;
}

// Why the cell cannot be run; empty: it can.
std::string whyNot(const CompiledNotebook& notebook, std::uint32_t cell) {
  if (cell >= notebook.cells.size()) return {};
  const Span around = notebook.cells[cell].span;
  for (const Unsound& u : notebook.unsound)
    if (u.span.begin >= around.begin && u.span.begin < around.end)
      return u.uses.empty() ? "The cell has a mistake."
                            : "The cell uses `" + u.uses + "`, which a mistake has kept from being made.";
  return {};
}

}  // namespace

Jobs::Jobs(BackendRegistry& registry, Outbox& outbox, std::string version)
    : m_registry(registry), m_outbox(outbox), m_version(std::move(version)),
      m_worker([this](std::stop_token stop) { work(stop); }) {
  // The device first, so that workers are up before somebody presses a key.
  enqueue(
      0,
      [this](std::stop_token) {
        context("auto", 0);
        {
          const std::lock_guard lock(m_mutex);
          m_opened = true;
        }
        m_changed.notify_all();
      },
      true);
}

Jobs::~Jobs() {
  stop();
  m_worker.request_stop();
}

void Jobs::fail(protocol::RequestId id, const Error& error) {
  m_outbox.send(protocol::Failed{error.stage, error.message, error.device, error.detail}, id);
}

void Jobs::enqueue(protocol::RequestId id, std::function<void(std::stop_token)> work, bool ours, bool yields) {
  auto task = std::make_shared<Task>();
  task->yields = yields;
  task->id = id;
  task->ours = ours;
  task->work = std::move(work);
  {
    const std::lock_guard lock(m_mutex);
    if (!yields && m_task && m_task->yields) m_task->stop.request_stop();
    m_tasks.push_back(std::move(task));
  }
  m_changed.notify_all();
}

void Jobs::work(std::stop_token stop) {
  for (;;) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(m_mutex);
      m_task.reset();
      if (!m_changed.wait(lock, stop, [this] { return !m_tasks.empty(); })) return;
      task = m_task = std::move(m_tasks.front());
      m_tasks.pop_front();
    }
    task->work(task->stop.get_token());
  }
}

void Jobs::stop() {
  std::shared_ptr<TrainJob> training;
  std::vector<std::shared_ptr<Task>> dropped;
  {
    const std::lock_guard lock(m_mutex);
    if (m_task) m_task->stop.request_stop();
    training = m_train;
    std::erase_if(m_tasks, [&](const std::shared_ptr<Task>& task) {
      if (task->ours) return false;
      dropped.push_back(task);
      return true;
    });
  }
  if (training) training->resume();  // a paused run ends too
  for (const auto& task : dropped) m_outbox.send(protocol::Cancelled{}, task->id);
}

bool Jobs::cancel(protocol::RequestId id) {
  std::shared_ptr<TrainJob> training;
  bool waiting = false;
  {
    const std::lock_guard lock(m_mutex);
    if (m_task && m_task->id == id) {
      m_task->cancelled = true;
      m_task->stop.request_stop();
      training = m_train;
    } else {
      waiting = std::erase_if(m_tasks, [id](const std::shared_ptr<Task>& task) { return task->id == id; }) > 0;
      if (!waiting) return false;
    }
  }
  if (training) training->resume();
  if (waiting) m_outbox.send(protocol::Cancelled{}, id);
  return true;
}

void Jobs::finish(protocol::RequestId id) {
  bool cancelled;
  {
    const std::lock_guard lock(m_mutex);
    cancelled = m_task && m_task->cancelled;
  }
  if (cancelled) m_outbox.send(protocol::Cancelled{}, id);
  else m_outbox.send(protocol::Finished{}, id);
}

void Jobs::pause() {
  const std::lock_guard lock(m_mutex);
  if (m_train) m_train->pause();
}

void Jobs::resume() {
  const std::lock_guard lock(m_mutex);
  if (m_train) m_train->resume();
}

void Jobs::setBudget(const protocol::BudgetRequest& request) {
  const std::lock_guard lock(m_mutex);
  if (request.share) m_share = *request.share;
  if (m_train && request.share) m_train->setDeviceShare(*request.share);
}

void Jobs::use(const std::string& device, protocol::RequestId id, std::function<void()> then) {
  enqueue(id, [this, device, id, then = std::move(then)](std::stop_token) {
    if (context(device, id)) then();
  });
}

// On the job's thread only.
DeviceContext* Jobs::context(const std::string& device, protocol::RequestId id) {
  // Nothing that was made on a device survives its loss.
  const bool lost = m_context && m_context->device().lost();
  const bool same = device == "auto" || device == m_contextDevice || (m_context && device == m_context->device().name());
  if (m_context && !lost && same) return m_context.get();
  DeviceContextOptions options;
  options.device = device;
  auto opened = DeviceContext::open(m_registry, options);
  if (!opened) {
    if (id != 0) fail(id, opened.error());
    return nullptr;
  }
  {
    const std::lock_guard lock(m_mutex);
    m_run.reset();
    if (m_context && m_context->device().name() != (*opened)->device().name()) {
      m_searched[m_context->device().name()] = {std::exchange(m_trials, {}), m_restored};
      auto& back = m_searched[(*opened)->device().name()];
      m_trials = std::move(back.trials), m_restored = back.restored;
    }
    m_context = std::move(*opened);
    m_contextDevice = device;
    m_reverted.reset();
  }
  readReverted();
  return m_context.get();
}

// The same object as long as nothing has changed: what was made with it holds.
void Jobs::readReverted() {
  if (!m_context) return;
  auto reverted = std::make_shared<const MeasuredKernels>(revertedKernels(*m_context));
  const std::lock_guard lock(m_mutex);
  if (!m_reverted || *m_reverted != *reverted) m_reverted = std::move(reverted);
}

FusionInputs Jobs::fusionInputs() {
  FusionInputs inputs;
  if (const auto device = target()) {
    inputs.device = deviceConstants(*device);
    inputs.target = std::make_shared<const Target>(*device);
  }
  const std::lock_guard lock(m_mutex);
  inputs.reverted = m_reverted;
  return inputs;
}

std::optional<Target> Jobs::target() {
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [this] { return m_opened; });
  if (!m_context || !m_context->target()) return std::nullopt;
  return *m_context->target();
}

bool Jobs::busy() const {
  const std::lock_guard lock(m_mutex);
  return m_task || !m_tasks.empty();
}

void Jobs::setMeasured(const Target& target) {
  const std::lock_guard lock(m_mutex);
  if (m_context && m_context->target() && !m_task && m_tasks.empty()) m_context->setTarget(target);
}

std::string Jobs::deviceInUse() {
  const std::lock_guard lock(m_mutex);
  return m_context ? m_context->device().name() : std::string();
}

void Jobs::loadRecords(const std::string& subgraph) {
  const auto hash = hashFromHex(subgraph);
  if (!hash) return;
  std::shared_ptr<DeviceContext> context;
  {
    const std::lock_guard lock(m_mutex);
    const auto known = m_trials.find(subgraph);
    if (known != m_trials.end() && (known->second.loaded || !known->second.list.empty())) return;
    if (!m_context || !m_context->records() || !m_context->target()) return;
    context = m_context;
  }
  const auto records = context->records()->all(*hash, context->target()->fingerprint);
  const auto best = context->records()->best(*hash, context->target()->fingerprint);
  const auto first = context->records()->first(*hash, context->target()->fingerprint);
  const std::lock_guard lock(m_mutex);
  Trials& trials = m_trials[subgraph];
  if (trials.loaded || !trials.list.empty()) return;
  trials.loaded = true;
  const auto setTime = [](protocol::TrialInfo& info, const Timing& timing) {
    if (timing.runs <= 0) return;
    info.us = timing.median;
    const TimeInterval quartiles = quartilesOf(timing);
    info.lowUs = quartiles.low;
    info.highUs = quartiles.high;
  };
  if (first) trials.firstUs = first->timing.median;
  if (first && first->quick) {
    protocol::TrialInfo info;
    info.schedule.text = first->schedule.text();
    info.how = std::string("first") + kOnRecord;
    setTime(info, first->timing);
    trials.quick = 0;
    trials.list.push_back(std::move(info));
  }
  for (const TuningRecord& record : records) {
    // One that was started and never ended may be running now.
    if (!record.status) continue;
    const bool ofFirst = first && first->quick && record.schedule == first->schedule;
    if (ofFirst && first->standsIn) continue;
    protocol::TrialInfo info;
    info.number = trials.list.size();
    info.status = protocolStatus(*record.status);
    info.schedule.text = record.schedule.text();
    info.generation = record.round;
    for (const std::string& parent : record.parents)
      for (const protocol::TrialInfo& known : trials.list)
        if (known.schedule.text == parent) {
          info.parents.push_back(known.number);
          break;
        }
    const std::string how = ofFirst ? kFullFirst : record.how;
    info.how = how.empty() ? "on record" : how + kOnRecord;
    setTime(info, record.timing);
    if (info.us && info.status == protocol::TrialStatus::Ok && !trials.firstUs) trials.firstUs = info.us;
    trials.list.push_back(std::move(info));
  }
  for (protocol::TrialInfo& info : trials.byHand) {
    const auto same = [&](const protocol::TrialInfo& known) { return known.schedule == info.schedule; };
    if (std::ranges::any_of(trials.list, same)) continue;
    info.number = trials.list.size();
    trials.list.push_back(info);
  }
  trials.recorded = trials.list.size();
  if (best && best->timing.runs > 0 && trials.schedule.empty()) {
    trials.us = best->timing.median;
    trials.schedule = best->schedule.text();
  }
}

// Of a new run: those before it are read from the records, but for those by hand, which are on none.
void Jobs::beginTrials() {
  std::map<std::string, Trials> kept;
  for (auto& [subgraph, trials] : m_trials) {
    std::vector<protocol::TrialInfo> byHand = std::move(trials.byHand);
    for (protocol::TrialInfo& t : trials.list)
      if (t.how.starts_with(kByHand)) {
        std::erase_if(byHand, [&](const protocol::TrialInfo& old) { return old.schedule == t.schedule; });
        t.parents.clear();
        byHand.push_back(std::move(t));
      }
    if (!byHand.empty()) kept[subgraph].byHand = std::move(byHand);
  }
  m_trials = std::move(kept);
}

// Every message of a job passes here on its way out: what views ask for later is kept.
void Jobs::note(const protocol::Message& message) {
  if (std::holds_alternative<protocol::FusionRevertedEvent>(message)) readReverted();
  if (const auto* trial = std::get_if<protocol::TrialEvent>(&message)) loadRecords(trial->subgraph);
  {
    const std::lock_guard lock(m_mutex);
    const auto add = [this](const char* series, Point point) {
      auto& points = m_series[series];
      // Steps that a lost device took along are made again.
      while (!points.empty() && points.back().x > point.x) points.pop_back();
      if (points.size() < kMostPoints) points.push_back(point);
    };
    if (const auto* m = std::get_if<protocol::StepEvent>(&message)) {
      m_step = m->step;
      if (m_profile) readProfile();
      add("latency", {static_cast<double>(m->step), m->ms_min, m->ms_max, m->ms, m->steps});
      if (m->loss)
        add("loss",
            {static_cast<double>(m->step), m->loss_min.value_or(*m->loss), m->loss_max.value_or(*m->loss), *m->loss, m->steps});
    } else if (const auto* e = std::get_if<protocol::EvalEvent>(&message)) {
      for (const auto& [name, value] : e->values) add(name.c_str(), {static_cast<double>(e->step), value, value, value, 1});
    } else if (const auto* t = std::get_if<protocol::TrialEvent>(&message)) {
      m_outbox.send(noteTrial(*t, m_train ? Teller::Training : Teller::Tuning));
      return;
    } else if (const auto* s = std::get_if<protocol::KernelSwapEvent>(&message)) {
      m_outbox.send(noteSwap(*s));
      return;
    }
  }
  m_outbox.send(message);
}

std::size_t Jobs::placeOf(const Trials& trials, const protocol::TrialEvent& event) {
  const auto& list = trials.list;
  if (event.quick && trials.quick && list[*trials.quick].schedule == event.schedule) return *trials.quick;
  std::size_t place = 0;
  while (place < list.size() && (place == trials.quick || list[place].schedule != event.schedule)) ++place;
  return place;
}

const protocol::TrialInfo* Jobs::inUseOf(const Trials& trials) {
  const protocol::TrialInfo* found = nullptr;
  for (const protocol::TrialInfo& t : trials.list)
    if (t.schedule.text == trials.inUse && (!found || (trials.swapped && t.us && t.status == protocol::TrialStatus::Ok)))
      found = &t;
  return found;
}

protocol::TrialEvent Jobs::noteTrial(const protocol::TrialEvent& event, Teller teller) {
  using protocol::TrialStatus;
  Trials& trials = m_trials[event.subgraph];
  const std::size_t place = placeOf(trials, event);
  const bool isNew = place == trials.list.size();
  const bool ok = event.status == TrialStatus::Ok;
  if (isNew && event.quick && ok && !trials.firstUs) trials.quick = place;
  else if (place == trials.quick && !ok) trials.quick.reset();
  if (isNew) trials.list.emplace_back();
  protocol::TrialInfo& info = trials.list[place];
  info.number = place;
  trials.ofRun += event.counted;
  // What a search begins with, timed again: one figure stays. It may have been bred in an earlier one, or measured by hand.
  const bool ofFirst = event.how.starts_with("first"), begins = ofFirst && event.how != kFullFirst;
  const std::optional<double> before = info.us;
  const bool known = ofFirst && before;
  const bool kept = known || (before && teller == Teller::KeptRun && place < trials.recorded);
  if (!known) info.generation = event.generation;
  info.seconds = event.seconds;
  if (!kept && (event.us || !info.us)) {
    info.us = event.us;
    info.lowUs = event.low_us;
    info.highUs = event.high_us;
    info.besideUs = event.beside_us;
    info.won = event.won;
  }
  if (!known) info.parents.clear();
  for (const protocol::JsonText& parent : event.parents)
    for (const protocol::TrialInfo& other : trials.list)
      if (&other != &info && other.schedule == parent) {
        info.parents.push_back(other.number);
        break;
      }
  if (event.predicted_us) info.predictedUs = event.predicted_us;
  info.status = event.status;
  info.schedule = event.schedule;
  const bool fullFirst = begins && trials.quick && place != trials.quick && trials.list[*trials.quick].schedule == event.schedule;
  if (!known || info.how == event.how + kOnRecord) info.how = fullFirst ? std::string(kFullFirst) : event.how;
  if (teller != Teller::Tuning && begins && ok && trials.inUse.empty()) trials.inUse = event.schedule.text;
  if (info.us && event.us && ok) {
    if (!trials.firstUs) trials.firstUs = info.us;
    // One that is timed again has one figure everywhere.
    if (!trials.us || *info.us < *trials.us || trials.us == before) {
      trials.us = info.us;
      trials.schedule = event.schedule.text;
    }
  }
  ++m_trialsTold;
  protocol::TrialEvent numbered = event;
  numbered.number = info.number;
  numbered.generation = info.generation, numbered.how = info.how;
  if (known)
    for (const std::uint64_t parent : info.parents) numbered.parents.push_back(trials.list[parent].schedule);
  numbered.us = info.us, numbered.low_us = info.lowUs, numbered.high_us = info.highUs;
  numbered.beside_us = info.besideUs, numbered.won = info.won;
  return numbered;
}

protocol::KernelSwapEvent Jobs::noteSwap(const protocol::KernelSwapEvent& event) {
  Trials& trials = m_trials[event.subgraph];
  trials.name = event.name;
  if (event.after_us) trials.us = *event.after_us;
  // A first kernel of this run has the generation that an earlier run bred it in.
  protocol::KernelSwapEvent numbered = event;
  for (const protocol::TrialInfo& known : trials.list)
    if (known.schedule == event.schedule) numbered.generation = known.generation;
  trials.generation = numbered.generation;
  trials.inUse = event.schedule.text;
  trials.swapped = true;
  return numbered;
}

void Jobs::restoreRun(const Source& notebook) {
  bool own;
  {
    const std::lock_guard lock(m_mutex);
    if (std::exchange(m_restored, true)) return;
    own = !m_results.empty();
  }
  std::error_code code;
  if (!own && (notebook.name.empty() || !std::filesystem::exists(std::filesystem::path(notebook.directory) / notebook.name, code)))
    return;
  const auto run = newestRun(resultsOf(notebook));
  if (!run || deviceOf(*run) != deviceInUse()) return;
  const auto text = readFile(*run + "/events.jsonl");
  if (!text) return;
  std::vector<protocol::Message> events;
  std::set<std::string> tried;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    auto event = protocol::decode(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!event) continue;  // the last line of a run that was killed
    if (const auto* t = std::get_if<protocol::TrialEvent>(&*event)) tried.insert(t->subgraph);
    else if (!std::holds_alternative<protocol::KernelSwapEvent>(*event)) continue;
    events.push_back(std::move(*event));
  }
  {
    const std::lock_guard lock(m_mutex);
    for (const std::string& subgraph : tried) m_trials.erase(subgraph);
  }
  for (const protocol::Message& event : events) {
    if (const auto* t = std::get_if<protocol::TrialEvent>(&event)) {
      loadRecords(t->subgraph);
      const std::lock_guard lock(m_mutex);
      noteTrial(*t, Teller::KeptRun);
    } else {
      const std::lock_guard lock(m_mutex);
      noteSwap(std::get<protocol::KernelSwapEvent>(event));
    }
  }
}

void Jobs::setResults(const std::string& folder) {
  const std::lock_guard lock(m_mutex);
  m_results = folder;
}

std::string Jobs::resultsOf(const Source& notebook) const {
  const std::lock_guard lock(m_mutex);
  return m_results.empty() ? outputRootOf(notebook) : m_results;
}

std::shared_ptr<const Jobs::Trained> Jobs::lastTrained(const Source& notebook) {
  Kept kept;
  std::string chosen;
  bool own;
  {
    const std::lock_guard lock(m_mutex);
    chosen = m_chosen;
    if (m_trained && chosen.empty()) return m_trained;
    kept = m_kept;
    own = !m_results.empty();
  }
  // Without a file the name is nobody's: another notebook may have trained under it.
  std::error_code code;
  if (chosen.empty() && !own &&
      (notebook.name.empty() || !std::filesystem::exists(std::filesystem::path(notebook.directory) / notebook.name, code)))
    return nullptr;
  const auto checkpoint = chosen.empty() ? newestCheckpoint(resultsOf(notebook)) : Result<std::string>(std::move(chosen));
  if (!checkpoint) return nullptr;
  const auto time = std::filesystem::last_write_time(*checkpoint, code);
  if (kept.trained && kept.checkpoint == *checkpoint && kept.time == time) return kept.trained;
  auto trained = std::make_shared<Trained>();
  if (std::filesystem::file_size(*checkpoint, code) > static_cast<std::uintmax_t>(kMostKept)) {
    trained->missing = kTooLarge;
  } else if (auto read = readCheckpoint(*checkpoint); read && read->declared.empty()) {
    trained->missing = "the checkpoint does not say how they were declared. Train again.";
  } else if (read) {
    for (auto& [name, value] : read->tensors) trained->values.emplace(name, std::move(value));
    trained->declared = std::move(read->declared);
    trained->places = std::move(read->places);
    trained->step = read->step;
  } else {
    trained->missing = read.error().message;
  }
  const std::lock_guard lock(m_mutex);
  m_kept = {*checkpoint, time, trained};
  return trained;
}

Jobs::GoingOn Jobs::goingOn(const Trained* trained, const CompiledNotebook& notebook) {
  GoingOn g;
  if (!trained) return g;
  const Program& program = notebook.program;
  bool learnt = false;  // states alone, as an optimizer's, are nothing to go on from
  for (const auto& entry : trained->values) {
    const std::string& name = entry.first;
    const TensorId now = program.tensorNamed(name);
    if (!now.valid()) continue;
    const bool parameter = program[now].kind == TensorKind::Param;
    if (const auto then = trained->declared.find(name);
        then != trained->declared.end() && then->second == declarationOf(program[now])) {
      g.same.emplace(name, name);
      learnt = learnt || parameter;
    } else if (parameter) {
      g.others.insert(name);
    }
  }
  std::map<std::string, std::string> goneAt;  // by place
  std::vector<std::string> gone;
  for (const auto& [name, place] : trained->places) {
    if (program.tensorNamed(name).valid() || !trained->values.contains(name)) continue;
    goneAt.emplace(place, name);
    gone.push_back(name);
  }
  if (!gone.empty()) {
    g.gone = quoted(gone);
    for (const TrainSettings& train : notebook.trains)
      for (const auto& [name, place] : parameterPlaces(program, notebook.tensorNamed(train.loss))) {
        if (trained->values.contains(name)) continue;
        const bool parameter = program[program.tensorNamed(name)].kind == TensorKind::Param;
        if (const auto then = goneAt.find(place); then != goneAt.end()) {
          g.same.emplace(name, then->second);
          learnt = learnt || parameter;
        } else if (parameter) {
          g.unknown.insert(name);
        }
      }
    for (const auto& [now, then] : g.same) g.unknown.erase(now);
  }
  if (!learnt) g.same.clear();
  return g;
}

std::string Jobs::GoingOn::beginning(const std::set<std::string>& parameters) const {
  std::string out;
  const auto add = [&](const std::set<std::string>& these, const std::string& why, const std::string& whySeveral) {
    std::vector<std::string> names;
    std::set_intersection(parameters.begin(), parameters.end(), these.begin(), these.end(), std::back_inserter(names));
    if (names.empty()) return;
    out += (out.empty() ? "" : " ") + quoted(names) +
           (names.size() == 1 ? " has its initial value: " + why : " have their initial values: " + whySeveral);
  };
  add(others, "it was declared another way when the notebook was trained.",
      "they were declared another way when the notebook was trained.");
  const std::string learnt = "what was learnt is of " + gone + ", and the notebook has no such name now.";
  add(unknown, learnt, learnt);
  return out;
}

void Jobs::useValues(const protocol::ValuesRequest& request, protocol::RequestId id) {
  enqueue(id, [this, checkpoint = request.checkpoint, id](std::stop_token) {
    {
      const std::lock_guard lock(m_mutex);
      m_chosen = checkpoint;
      m_run.reset();
      m_runRevision.reset();
    }
    finish(id);
  });
}

// Of everything, so that any of it can be looked at; where there is no memory for that, of `least` alone.
Result<bool> Jobs::prepareRun(std::unique_ptr<RunJob>& job, DeviceContext& device, RunOptions options,
                              std::vector<std::string> least, bool& whole, std::stop_token stop,
                              const std::function<void(std::size_t, std::size_t)>& waiting) {
  job = std::make_unique<RunJob>(device, options);
  auto prepared = job->prepare(stop, waiting);
  whole = prepared || prepared.error().stage != "allocate" || least.empty();
  if (whole) return prepared;
  options.tensors = std::move(least);
  job = std::make_unique<RunJob>(device, std::move(options));
  return job->prepare(stop, waiting);
}

void Jobs::run(std::shared_ptr<const Revision> revision, protocol::RunRequest request, protocol::RequestId id) {
  enqueue(id, [this, revision = std::move(revision), request = std::move(request), id](std::stop_token stop) {
    const CompiledNotebook& notebook = revision->sound();
    if (!notebook.ok()) return fail(id, {"source", "The notebook has errors.", {}, {}});
    for (const std::uint32_t cell : request.cells)
      if (const std::string why = whyNot(revision->notebook(), cell); !why.empty()) return fail(id, {"source", why, {}, {}});
    DeviceContext* device = context(request.device.empty() ? "auto" : request.device, id);
    if (!device) return;
    protocol::RunState state;
    state.phase = protocol::RunPhase::Preparing;
    state.revision = revision->number();
    state.device = device->device().name();
    m_outbox.send(state);
    RunOptions options;
    options.source = notebook.sources.at(notebook.notebook);
    options.sets = request.sets;
    options.tensors = {"all"};
    options.train = revision->step();
    const auto trained = lastTrained(options.source);
    const GoingOn from = goingOn(trained.get(), notebook);
    for (const auto& [name, then] : from.same) options.values.emplace(name, trained->values.at(then));
    const std::int64_t step = options.values.empty() ? -1 : trained->step;
    const auto begin = std::chrono::steady_clock::now();
    const auto tell = [&](std::uint32_t cell, const std::string& message) {
      protocol::CellResult result;
      result.revision = revision->number();
      result.cell = cell;
      result.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      result.status = message.empty() ? protocol::CellStatus::Ok : protocol::CellStatus::Error;
      result.message = message;
      if (const bool missing = trained && !trained->missing.empty(); message.empty() && (missing || !from.whole())) {
        const std::set<std::string> parameters = parametersOf(notebook, cell);
        if (!missing) result.message = from.beginning(parameters);
        else if (!parameters.empty()) result.message = "Computed with initial values: " + trained->missing;
      }
      if (message.empty())
        for (const TensorId t : notebook.cells[cell].defines) result.tensors.push_back(notebook.program[t].name);
      m_outbox.send(result, id);
    };
    const auto waiting = [&](std::size_t done, std::size_t all) {
      state.detail = "compiling and checking " + std::to_string(done) + " of " + std::to_string(all) + " kernels";
      m_outbox.send(state);
    };
    const auto shown = [&](std::uint32_t cell) {
      std::vector<std::string> names;
      for (const TensorId t : notebook.cells[cell].shows) names.push_back(notebook.program[t].name);
      return names;
    };
    // False: it was stopped.
    const auto compute = [&](const RunOptions& what, std::vector<std::string> least, bool all) -> Result<bool> {
      std::unique_ptr<RunJob> job;
      bool whole = true;
      state.phase = protocol::RunPhase::Preparing;
      NF_TRY(const bool ready, prepareRun(job, *device, what, std::move(least), whole, stop, waiting));
      if (!ready) return false;
      for (const protocol::WarningEvent& w : job->warnings()) m_outbox.send(w);
      state.phase = protocol::RunPhase::Computing;
      state.detail.clear();
      m_outbox.send(state);
      const auto done = job->run(false, stop);
      if (!done && isStopped(done.error())) return false;
      if (!done) return done.error();
      const std::lock_guard lock(m_mutex);
      m_run = std::move(job);
      m_runRevision = revision;
      m_runIsWhole = whole && all;
      m_step = step;
      return true;
    };
    std::vector<std::uint32_t> cells = request.cells;
    if (cells.empty())
      for (std::uint32_t i = 0; i < notebook.cells.size(); ++i) cells.push_back(i);
    std::erase_if(cells,
                  [&](std::uint32_t cell) { return cell >= notebook.cells.size() || !whyNot(revision->notebook(), cell).empty(); });
    std::vector<std::string> least;
    if (!request.cells.empty())
      for (const std::uint32_t cell : cells) std::ranges::copy(shown(cell), std::back_inserter(least));
    auto computed = compute(options, std::move(least), true);
    if (!computed && cells.size() > 1) {
      // What fails in one of them says nothing of the others, whose values are then made together.
      std::vector<std::pair<std::uint32_t, std::string>> outcomes;
      std::vector<std::string> good;
      for (const std::uint32_t cell : cells) {
        if (notebook.cells[cell].shows.empty()) continue;
        options.tensors = shown(cell);
        computed = compute(options, {}, false);
        if (computed && !*computed) break;
        if (computed) std::ranges::copy(options.tensors, std::back_inserter(good));
        outcomes.emplace_back(cell, computed ? std::string() : computed.error().message);
      }
      if (good.size() > 1 && !(computed && !*computed)) {
        options.tensors = std::move(good);
        computed = compute(options, {}, false);
      }
      for (const auto& [cell, message] : outcomes) tell(cell, message);
    } else if (!computed || *computed) {
      for (const std::uint32_t cell : cells) tell(cell, computed ? std::string() : computed.error().message);
    }
    if (computed && !*computed) m_outbox.send(protocol::Cancelled{}, id);
    else finish(id);
    m_outbox.send(protocol::RunState{});
  });
}

void Jobs::train(std::shared_ptr<const Revision> revision, protocol::TrainRequest request, protocol::RequestId id) {
  enqueue(id, [this, revision = std::move(revision), request = std::move(request), id](std::stop_token stop) {
    const CompiledNotebook& notebook = revision->sound();
    if (!notebook.ok()) return fail(id, {"source", "The notebook has errors.", {}, {}});
    if (const std::string why = whyNot(revision->notebook(), request.cell); !why.empty()) return fail(id, {"source", why, {}, {}});
    const std::size_t statement = trainOfCell(notebook, request.cell);
    std::string wanted = request.device;
    if (wanted.empty() && statement < notebook.trains.size()) wanted = notebook.trains[statement].device;
    DeviceContext* device = context(wanted.empty() ? "auto" : wanted, id);
    if (!device) return;
    TrainOptions options;
    options.source = notebook.sources.at(notebook.notebook);
    options.sets = request.sets;
    options.train = statement;
    options.mode = request.mode;
    options.steps = request.steps;
    options.seconds = request.seconds;
    options.outputRoot = resultsOf(options.source);
    options.resume = request.resume;
    options.initialWeights = request.weights;
    if (request.resume == "newest") {
      std::optional<TrainPlace> place;
      if (statement < notebook.trains.size()) place = trainPlace(notebook, statement);
      if (place && statement != revision->step()) place->program.clear();  // it was not compiled for that one
      const auto checkpoint = newestCheckpoint(options.outputRoot, place);
      if (!checkpoint) return fail(id, checkpoint.error());
      options.resume = *checkpoint;
    }
    options.version = m_version;
    options.standIn = [this] { return openHostDevice(m_registry, {}); };
    options.processStart = std::chrono::steady_clock::now();
    {
      const std::lock_guard lock(m_mutex);
      if (m_share) options.tuning.deviceShare = *m_share;
    }
    auto job = std::make_shared<TrainJob>(
        *device, std::move(options), [this, cell = request.cell, number = revision->number()](const protocol::Message& message) {
          if (const auto* m = std::get_if<protocol::RunState>(&message)) {
            protocol::RunState state = *m;
            state.cell = cell;
            state.revision = number;
            m_outbox.send(state);
            return;
          }
          note(message);
        });
    {
      const std::lock_guard lock(m_mutex);
      beginTrials();
      m_restored = true;
      m_series.clear();
      m_step = -1;
      m_run.reset();
      m_train = job;
      m_trainRevision = revision;
    }
    const auto summary = job->run(stop);
    auto trained = std::make_shared<Trained>();
    trained->values = job->weights(kMostKept);
    if (trained->values.empty()) trained->missing = kTooLarge;
    for (const auto& [name, value] : trained->values)
      if (const TensorId t = notebook.program.tensorNamed(name); t.valid())
        trained->declared.emplace(name, declarationOf(notebook.program[t]));
    if (statement < notebook.trains.size())
      trained->places = parameterPlaces(notebook.program, notebook.tensorNamed(notebook.trains[statement].loss));
    std::optional<PendingProfile> unread;
    {
      const std::lock_guard lock(m_mutex);
      m_train.reset();
      trained->step = m_step;
      if (m_step >= 0) m_trained = std::move(trained), m_chosen.clear();
      unread.swap(m_profile);
    }
    // Asked for in the last steps: of steps of its own then.
    if (unread && summary && !stop.stop_requested())
      profile(unread->revision, {unread->revision->number(), unread->steps}, unread->id);
    else if (unread) m_outbox.send(protocol::Cancelled{}, unread->id);
    if (summary && !summary->folder.empty()) {
      const Source& source = notebook.sources.at(notebook.notebook);
      if (const auto written = writeReport(summary->folder, source.directory + "/" + source.name); !written) {
        protocol::WarningEvent warning;
        warning.message = "The report was not written: " + written.error().message + ".";
        m_outbox.send(warning);
      }
    }
    if (!summary && isStopped(summary.error())) m_outbox.send(protocol::Cancelled{}, id);
    else if (!summary) fail(id, summary.error());
    else if (summary->unsaved) fail(id, *summary->unsaved);
    else finish(id);
    m_outbox.send(protocol::RunState{});
  });
}

void Jobs::tune(std::shared_ptr<const Revision> revision, protocol::TuneRequest request, protocol::RequestId id) {
  enqueue(id, [this, revision = std::move(revision), request = std::move(request), id](std::stop_token stop) {
    DeviceContext* device = context("auto", id);
    if (!device) return;
    restoreRun(revision->notebook().sources.at(revision->notebook().notebook));
    FusionInputs inputs = fusionInputs();
    inputs.stop = stop;
    const auto stages = revision->runningStages(inputs);
    if (!stages && isStopped(stages.error())) return m_outbox.send(protocol::Cancelled{}, id);
    if (!stages) return fail(id, stages.error());
    if (!*stages || !(*stages)->fused) return fail(id, {"tune", "The notebook has errors.", {}, {}});
    if (!device->target() || device->inProcess()) return fail(id, {"tune", "The interpreter has nothing to tune.", {}, {}});
    TuneProgramOptions options;
    for (const std::string& subgraph : request.subgraphs) {
      const auto hash = hashFromHex(subgraph);
      if (!hash) return fail(id, {"tune", "The program has no kernel " + subgraph + " now.", {}, {}});
      options.only.push_back(*hash);
    }
    const auto tuning = [this](bool now) {
      const std::lock_guard lock(m_mutex);
      m_tuning = now;
    };
    tuning(true);
    const std::shared_ptr<void> ended(nullptr, [&](void*) { tuning(false); });
    protocol::RunState state;
    state.phase = protocol::RunPhase::Tuning;
    state.revision = revision->number();
    state.device = device->device().name();
    m_outbox.send(state);
    options.threads = static_cast<int>(device->target()->threads);
    if (request.trials > 0) options.trials = request.trials;
    options.seconds = request.seconds;
    options.stop = stop;
    options.onCounters = [this](const CountersEvent& e) { note(protocolEvent(e)); };
    options.onTrial = [&](const TrialEvent& e) {
      note(protocolEvent(e));
      state.trials += e.counted;
      state.seconds = e.seconds;
      state.detail = "trial " + std::to_string(state.trials) + (options.trials > 0 ? " of " + std::to_string(options.trials) : "");
      if (options.seconds > 0) state.secondsLeft = std::max(0.0, options.seconds - e.seconds);
      m_outbox.send(state);
    };
    // Which kernels there are comes before what they are made by, unless somebody has chosen some.
    StageOptions passes;
    passes.device = inputs.device;
    passes.target = inputs.target;
    if (inputs.reverted) passes.fusion.reverted = *inputs.reverted;
    auto settled = Result<Stages>(**stages);
    if (request.subgraphs.empty()) {
      const auto begin = std::chrono::steady_clock::now();
      const auto judging = [&](std::size_t done, std::size_t all, const FusedKernel& kernel) {
        state.detail =
            "fused kernel " + std::to_string(done + 1) + " of " + std::to_string(all) + " against its parts: " + kernel.name;
        const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (done > 0) state.secondsLeft = passed / static_cast<double>(done) * static_cast<double>(all - done);
        m_outbox.send(state);
      };
      settled = settleFusion(
          **stages, *device, passes, [&](const RevertedFusion& r) { note(revertedEvent(r)); }, stop, judging);
      state.secondsLeft.reset();
    }
    // Who is told of the end and asks at once is not told of a search.
    const auto over = [&] {
      tuning(false);
      m_outbox.send(protocol::RunState{});
    };
    if (!settled) return fail(id, settled.error()), over();
    const auto summary = tuneProgram(*settled->fused, m_registry, options);
    if (!summary) fail(id, summary.error());
    else finish(id);
    over();
  });
}

}  // namespace nf
