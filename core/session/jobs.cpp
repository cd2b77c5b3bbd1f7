// SPDX-License-Identifier: Apache-2.0
#include "core/session/jobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/ir/structural_hash.h"
#include "core/ir/work.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/run_folder.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

constexpr std::size_t kMostPoints = 1u << 20;

protocol::TrialStatus protocolStatus(TrialStatus status) {
  switch (status) {
    case TrialStatus::Ok: return protocol::TrialStatus::Ok;
    case TrialStatus::Wrong: return protocol::TrialStatus::Wrong;
    case TrialStatus::Killed: return protocol::TrialStatus::Killed;
    case TrialStatus::Crashed: return protocol::TrialStatus::Crashed;
    case TrialStatus::Slow: return protocol::TrialStatus::Slow;
  }
  return protocol::TrialStatus::Failed;
}

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

Jobs::Jobs(BackendRegistry& registry, Outbox& outbox)
    : m_registry(registry), m_outbox(outbox), m_worker([this](std::stop_token stop) { work(stop); }) {
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

void Jobs::enqueue(protocol::RequestId id, std::function<void(std::stop_token)> work, bool ours) {
  auto task = std::make_shared<Task>();
  task->id = id;
  task->ours = ours;
  task->work = std::move(work);
  {
    const std::lock_guard lock(m_mutex);
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

// On the job's thread only.
DeviceContext* Jobs::context(const std::string& device, protocol::RequestId id) {
  if (m_context && (m_contextDevice == device || device == "auto")) return m_context.get();
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
  if (const auto device = target()) inputs.device = deviceConstants(*device);
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
  const std::lock_guard lock(m_mutex);
  Trials& trials = m_trials[subgraph];
  if (trials.loaded || !trials.list.empty()) return;
  trials.loaded = true;
  for (const TuningRecord& record : records) {
    // One that was started and never ended may be running now.
    if (!record.status) continue;
    protocol::TrialInfo info;
    info.number = trials.list.size();
    info.status = protocolStatus(*record.status);
    info.schedule.text = record.schedule.text();
    info.how = "on record";
    if (record.timing.runs > 0) {
      info.us = record.timing.median;
      info.lowUs = record.timing.median - record.timing.spread;
      info.highUs = record.timing.median + record.timing.spread;
    }
    if (info.us && info.status == protocol::TrialStatus::Ok && !trials.firstUs) trials.firstUs = info.us;
    trials.list.push_back(std::move(info));
  }
  trials.recorded = trials.list.size();
  if (best && best->timing.runs > 0 && trials.schedule.empty()) {
    trials.us = best->timing.median;
    trials.schedule = best->schedule.text();
  }
}

// Every message of a job passes here on its way out: what views ask for later is kept.
void Jobs::note(const protocol::Message& message) {
  if (std::holds_alternative<protocol::FusionRevertedEvent>(message)) readReverted();
  if (const auto* trial = std::get_if<protocol::TrialEvent>(&message)) loadRecords(trial->subgraph);
  {
    const std::lock_guard lock(m_mutex);
    const auto add = [this](const char* series, Point point) {
      auto& points = m_series[series];
      if (points.size() < kMostPoints) points.push_back(point);
    };
    if (const auto* m = std::get_if<protocol::StepEvent>(&message)) {
      m_step = m->step;
      if (m_profile && m->step >= m_profile->until) readProfile();
      add("latency", {static_cast<double>(m->step), m->ms_min, m->ms_max, m->ms, m->steps});
      if (m->loss) add("loss", {static_cast<double>(m->step), *m->loss, *m->loss, *m->loss, 1});
    } else if (const auto* e = std::get_if<protocol::EvalEvent>(&message)) {
      for (const auto& [name, value] : e->values) add(name.c_str(), {static_cast<double>(e->step), value, value, value, 1});
    } else if (const auto* t = std::get_if<protocol::TrialEvent>(&message)) {
      Trials& trials = m_trials[t->subgraph];
      // The first kernel is told when it has passed its gate and again when it has been timed: one trial. So is one on record that is
      // tried again.
      const auto recorded = trials.list.begin() + static_cast<std::ptrdiff_t>(trials.recorded);
      auto place = std::find_if(trials.list.begin(), recorded,
                                [&](const protocol::TrialInfo& known) { return known.schedule == t->schedule; });
      if (place == recorded) {
        const bool timed = recorded != trials.list.end() && !trials.list.back().us && trials.list.back().schedule == t->schedule;
        if (!timed) trials.list.emplace_back();
        place = std::prev(trials.list.end());
      }
      protocol::TrialInfo& info = *place;
      info.number = static_cast<std::uint64_t>(place - trials.list.begin());
      info.generation = t->generation;
      info.seconds = t->seconds;
      if (t->us || !info.us) {
        info.us = t->us;
        info.lowUs = t->low_us;
        info.highUs = t->high_us;
      }
      for (const protocol::JsonText& parent : t->parents)
        for (const protocol::TrialInfo& known : trials.list)
          if (&known != &info && known.schedule == parent) {
            info.parents.push_back(known.number);
            break;
          }
      if (t->predicted_us) info.predictedUs = t->predicted_us;
      info.status = t->status;
      info.schedule = t->schedule;
      info.how = t->how;
      if (t->us && t->status == protocol::TrialStatus::Ok) {
        if (!trials.firstUs) trials.firstUs = *t->us;
        if (!trials.us || *t->us < *trials.us) {
          trials.us = *t->us;
          trials.schedule = t->schedule.text;
        }
      }
      protocol::TrialEvent numbered = *t;
      numbered.number = info.number;
      numbered.us = info.us, numbered.low_us = info.lowUs, numbered.high_us = info.highUs;
      m_outbox.send(numbered);
      return;
    } else if (const auto* s = std::get_if<protocol::KernelSwapEvent>(&message)) {
      Trials& trials = m_trials[s->subgraph];
      trials.name = s->name;
      if (s->after_us) trials.us = *s->after_us;
      trials.generation = s->generation;
      if (!trials.firstUs && s->before_us) trials.firstUs = *s->before_us;
    }
  }
  m_outbox.send(message);
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
    auto job = std::make_unique<RunJob>(*device, options);
    const auto begin = std::chrono::steady_clock::now();
    const auto end = [&](const std::string& message) {
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      std::vector<std::uint32_t> cells = request.cells;
      if (cells.empty())
        for (std::uint32_t i = 0; i < notebook.cells.size(); ++i) cells.push_back(i);
      for (const std::uint32_t cell : cells) {
        if (cell >= notebook.cells.size() || !whyNot(revision->notebook(), cell).empty()) continue;
        protocol::CellResult result;
        result.revision = revision->number();
        result.cell = cell;
        result.ms = ms;
        result.status = message.empty() ? protocol::CellStatus::Ok : protocol::CellStatus::Error;
        result.message = message;
        if (message.empty())
          for (const TensorId t : notebook.cells[cell].defines) result.tensors.push_back(notebook.program[t].name);
        m_outbox.send(result, id);
      }
      finish(id);
      m_outbox.send(protocol::RunState{});
    };
    const auto prepared = job->prepare(stop, [&](std::size_t done, std::size_t all) {
      state.detail = "compiling " + std::to_string(done) + " of " + std::to_string(all) + " kernels";
      m_outbox.send(state);
    });
    if (!prepared) return end(prepared.error().message);
    if (!*prepared) {
      m_outbox.send(protocol::Cancelled{}, id);
      m_outbox.send(protocol::RunState{});
      return;
    }
    state.phase = protocol::RunPhase::Computing;
    state.detail.clear();
    m_outbox.send(state);
    const auto done = job->run(false, stop);
    if (!done && isStopped(done.error())) {
      m_outbox.send(protocol::Cancelled{}, id);
      m_outbox.send(protocol::RunState{});
      return;
    }
    if (done) {
      const std::lock_guard lock(m_mutex);
      m_run = std::move(job);
      m_step = -1;
    }
    end(done ? std::string() : done.error().message);
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
    options.outputRoot = outputRootOf(options.source);
    options.resume = request.resume;
    if (request.resume == "newest") {
      const auto checkpoint = newestCheckpoint(options.outputRoot);
      if (!checkpoint) return fail(id, checkpoint.error());
      options.resume = *checkpoint;
    }
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
      m_trials.clear();
      m_series.clear();
      m_step = -1;
      m_run.reset();
      m_train = job;
    }
    const auto summary = job->run(stop);
    std::optional<PendingProfile> unread;
    {
      const std::lock_guard lock(m_mutex);
      m_train.reset();
      unread.swap(m_profile);
    }
    if (unread) m_outbox.send(protocol::Cancelled{}, unread->id);
    if (!summary) fail(id, summary.error());
    else finish(id);
    m_outbox.send(protocol::RunState{});
  });
}

void Jobs::tune(std::shared_ptr<const Revision> revision, protocol::TuneRequest request, protocol::RequestId id) {
  enqueue(id, [this, revision = std::move(revision), request = std::move(request), id](std::stop_token stop) {
    DeviceContext* device = context("auto", id);
    if (!device) return;
    const FusionInputs inputs = fusionInputs();
    const auto stages = revision->runningStages(inputs);
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
    options.onTrial = [&](const TrialEvent& e) {
      note(protocolEvent(e));
      ++state.trials;
      state.seconds = e.seconds;
      state.detail = "trial " + std::to_string(state.trials) + (options.trials > 0 ? " of " + std::to_string(options.trials) : "");
      if (options.seconds > 0) state.secondsLeft = std::max(0.0, options.seconds - e.seconds);
      m_outbox.send(state);
    };
    // Which kernels there are comes before what they are made by, unless somebody has chosen some.
    StageOptions passes;
    passes.device = inputs.device;
    if (inputs.reverted) passes.fusion.reverted = *inputs.reverted;
    auto settled = Result<Stages>(**stages);
    if (request.subgraphs.empty()) {
      state.detail = "fused kernels against their parts";
      m_outbox.send(state);
      settled = settleFusion(
          **stages, *device, passes, [&](const RevertedFusion& r) { note(revertedEvent(r)); }, stop);
    }
    if (!settled) return fail(id, settled.error()), m_outbox.send(protocol::RunState{});
    const auto summary = tuneProgram(*settled->fused, m_registry, options);
    if (!summary) fail(id, summary.error());
    else finish(id);
    m_outbox.send(protocol::RunState{});
  });
}

// ---------------------------------------------------------------- answers
struct Jobs::Found {
  std::shared_ptr<const Stages> stages;
  Group group;
  Subgraph subgraph;
  Target target;
  std::unique_ptr<ScheduleSpace> space;
  Schedule first;  // pinned, or the analytic model's
  bool pinned = false;
  std::vector<Subgraph> equals;  // the other groups of the same kernel
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
  const SubgraphExtractor extractor(program);
  std::optional<Found> found;
  for (const Group& group : program.groups) {
    if (program[group.operators[0]].kind == OperatorKind::Loop) continue;
    Subgraph subgraph = extractor.extract(group.operators);
    if (subgraph.hash.hex() != id) continue;
    if (found) {
      found->equals.push_back(std::move(subgraph));
      continue;
    }
    auto space = scheduleSpace(subgraph.program, *device);
    if (!space) {
      fail(request, space.error());
      return std::nullopt;
    }
    Schedule first = (*space)->first();
    bool pins = false;
    if (const Hint* hint = pinOf(program.hints, program, group.operators))
      if (auto pinned = pinnedSchedule(*hint, subgraph.program, &*device)) first = std::move(*pinned), pins = true;
    found.emplace(Found{*stages, group, std::move(subgraph), *device, std::move(*space), std::move(first), pins, {}});
  }
  if (found) return found;
  fail(request, {"kernel", "The program has no kernel " + id.substr(0, 8) + " now.", {}, {}});
  return std::nullopt;
}

void Jobs::answerSubgraphs(const Revision& revision, const FusionInputs& inputs, protocol::RequestId id) {
  protocol::Subgraphs answer;
  answer.revision = revision.number();
  const auto stages = revision.runningStages(inputs);
  if (!stages) return fail(id, stages.error());
  if (!*stages || !(*stages)->fused) return m_outbox.send(answer, id);
  const Program& program = *(*stages)->fused;
  const auto device = target();
  const SubgraphExtractor extractor(program);
  std::map<std::string, std::size_t> places;
  for (const Group& group : program.groups) {
    if (program[group.operators[0]].kind == OperatorKind::Loop) continue;
    const Subgraph subgraph = extractor.extract(group.operators);
    const std::string hash = subgraph.hash.hex();
    const auto [place, isNew] = places.emplace(hash, answer.subgraphs.size());
    if (!isNew) {
      ++answer.subgraphs[place->second].callsPerStep;
    } else {
      protocol::SubgraphInfo info;
      info.id = hash;
      info.name = group.name;
      if (device)
        if (const auto space = scheduleSpace(subgraph.program, *device)) info.kind = (*space)->first().kind;
      for (const TensorId t : subgraph.inputs) info.bytes += subgraph.program[t].bytes();
      for (const TensorId t : subgraph.outputs) info.bytes += subgraph.program[t].bytes();
      info.flops = workOf(subgraph.program);
      if (device) loadRecords(hash);
      const std::lock_guard lock(m_mutex);
      const auto trials = m_trials.find(hash);
      if (trials != m_trials.end() && (!trials->second.list.empty() || trials->second.us)) {
        info.us = trials->second.us;
        info.firstUs = trials->second.firstUs;
        info.trials = static_cast<std::int64_t>(trials->second.list.size());
        info.generation = trials->second.generation;
        info.state = m_train || m_tuning ? protocol::SubgraphState::Searching : protocol::SubgraphState::Done;
      }
      if (pinOf(program.hints, program, group.operators)) info.state = protocol::SubgraphState::Pinned;
      for (const OperatorId op : group.operators)
        if (const std::string& tensor = program[program[op].output].name; tensor.find('#') == std::string::npos)
          info.pinTensor = tensor;
      answer.subgraphs.push_back(std::move(info));
    }
    protocol::SubgraphInfo& info = answer.subgraphs[place->second];
    for (const OperatorId op : group.operators) {
      info.operators.push_back(program[program[op].output].name);
      for (const std::uint32_t origin : revision.spans().of(program, program[op].origin))
        if (std::find(info.origins.begin(), info.origins.end(), origin) == info.origins.end()) info.origins.push_back(origin);
    }
  }
  // Shares are of what this engine has tried.
  std::int64_t tried = 0;
  const std::lock_guard lock(m_mutex);
  const auto ownTrials = [this](const protocol::SubgraphInfo& s) {
    const auto found = m_trials.find(s.id);
    return found == m_trials.end() ? 0 : static_cast<std::int64_t>(found->second.list.size() - found->second.recorded);
  };
  for (const auto& s : answer.subgraphs) tried += ownTrials(s);
  for (auto& s : answer.subgraphs) s.budgetShare = tried > 0 ? static_cast<double>(ownTrials(s)) / static_cast<double>(tried) : 0;
  m_outbox.send(answer, id);
}

void Jobs::answerTrials(const protocol::TrialsRequest& request, protocol::RequestId id) {
  protocol::Trials answer;
  answer.subgraph = request.subgraph;
  loadRecords(request.subgraph);
  {
    const std::lock_guard lock(m_mutex);
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
  m_outbox.send(answer, id);
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
  m_outbox.send(answer, id);
}

namespace {

// The same expression written in several places is one kernel: what a line of it came from, in each of them. Equal programs number
// their parts alike.
class OriginsOfEquals {
 public:
  OriginsOfEquals(const Program& first, const std::vector<Subgraph>& others) : m_first(first) {
    for (const Subgraph& other : others) {
      const Program& p = other.program;
      if (p.operators.size() != first.operators.size() || p.scalars.size() != first.scalars.size() ||
          p.tensors.size() != first.tensors.size())
        continue;
      const auto pair = [&](OriginId ours, OriginId theirs) {
        if (ours.valid() && theirs.valid()) m_same[ours.value].emplace_back(&p, theirs);
      };
      for (std::size_t i = 0; i < p.operators.size(); ++i) {
        pair(first.operators[i].origin, p.operators[i].origin);
        for (std::size_t k = 0; k < std::min(first.operators[i].axes.size(), p.operators[i].axes.size()); ++k)
          pair(first.operators[i].axes[k].origin, p.operators[i].axes[k].origin);
      }
      for (std::size_t i = 0; i < p.scalars.size(); ++i) pair(first.scalars[i].origin, p.scalars[i].origin);
      for (std::size_t i = 0; i < p.tensors.size(); ++i) pair(first.tensors[i].origin, p.tensors[i].origin);
    }
  }
  protocol::Origins spans(const OriginSpans& spans, OriginId origin) const {
    protocol::Origins out = spans.of(m_first, origin);
    const auto found = m_same.find(origin.value);
    if (found == m_same.end()) return out;
    for (const auto& [program, id] : found->second)
      for (const std::uint32_t span : spans.of(*program, id))
        if (std::find(out.begin(), out.end(), span) == out.end()) out.push_back(span);
    return out;
  }

 private:
  const Program& m_first;
  std::map<std::uint32_t, std::vector<std::pair<const Program*, OriginId>>> m_same;
};

}  // namespace

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
  {
    const std::lock_guard lock(m_mutex);
    const auto trials = m_trials.find(request.subgraph);
    if (request.trial && (trials == m_trials.end() || *request.trial >= trials->second.list.size()))
      return fail(id, {"kernel", "There is no such trial.", {}, {}});
    if (trials != m_trials.end()) {
      answer.generation = trials->second.generation;
      answer.us = trials->second.us;
      if (!found->pinned && !trials->second.schedule.empty()) scheduleText = trials->second.schedule;
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
  const OriginsOfEquals same(sub, found->equals);
  for (std::size_t i = 0; i < sub.operators.size(); ++i) {
    answer.expression += toText(sub, OperatorId(i)) + "\n";
    answer.expressionOrigins.push_back(same.spans(revision.spans(), sub.operators[i].origin));
  }
  CompileJob job;
  job.subgraph = std::make_shared<const Program>(sub);
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
        for (const std::uint32_t span : same.spans(revision.spans(), origin))
          if (std::find(origins.begin(), origins.end(), span) == origins.end()) origins.push_back(span);
      info.lineOrigins.push_back(std::move(origins));
    }
    answer.texts.push_back(std::move(info));
  }
  answer.facts = {{"template", schedule->kind},
                  {"stages", std::to_string(outcome.kernel->stages.size())},
                  {"workspace", std::to_string(outcome.kernel->workspaceBytes) + " B"},
                  {"code", std::to_string(outcome.kernel->code.size()) + " B"},
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
  {
    const std::lock_guard lock(m_mutex);
    context = m_context;
  }
  CompileService* const compile = context ? context->compileService() : nullptr;
  MeasureService* const measure = context ? context->measureService() : nullptr;
  if (!compile || !measure) return fail(id, {"measure", "This device measures nothing.", {}, {}});
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
  answer.trial.schedule = request.schedule;
  answer.trial.how = request.replays ? "replay of c" + std::to_string(*request.replays) : "by hand";
  if (request.replays) answer.trial.parents = {*request.replays};
  const std::string asked = answer.trial.how;
  answer.trial.predictedUs = found->space->estimateSeconds(*schedule) * 1e6;
  if (!compiled.kernel) {
    answer.trial.status = protocolStatus(compiled.status == TrialStatus::Ok ? TrialStatus::Crashed : compiled.status);
    answer.trial.how = compiled.kernel.error().message;
  } else {
    MeasureJob measured;
    measured.subgraph = program;
    measured.hash = Hasher().add(found->subgraph.hash).add("with origins").add(revision.number()).finish();
    measured.candidate = std::make_shared<const KernelObject>(*compiled.kernel);
    measured.stop = stop;
    const MeasureOutcome outcome = measure->measure(std::move(measured)).get();
    if (outcome.cancelled) return m_outbox.send(protocol::Cancelled{}, id);
    answer.trial.status = protocolStatus(outcome.status);
    if (outcome.timing.runs > 0) {
      answer.trial.us = outcome.timing.median;
      answer.trial.lowUs = outcome.timing.median - outcome.timing.spread;
      answer.trial.highUs = outcome.timing.median + outcome.timing.spread;
    }
    if (!outcome.reason.empty()) answer.trial.how = asked + ": " + outcome.reason;
  }
  answer.trial.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  {
    const std::lock_guard lock(m_mutex);
    Trials& trials = m_trials[request.subgraph];
    answer.trial.number = trials.list.size();
    if (!trials.list.empty()) answer.trial.seconds += trials.list.back().seconds;
    trials.list.push_back(answer.trial);
  }
  m_outbox.send(answer, id);
}

namespace {

// The median's interval that holds the true one with 95 %, by its standard error.
protocol::Measured measuredOf(std::vector<double> samples) {
  protocol::Measured m;
  m.samples = samples;
  const Timing timing = timingOf(std::move(samples));
  const double error = 1.96 * 1.2533 * 1.4826 * timing.spread / std::sqrt(static_cast<double>(std::max(1, timing.runs)));
  m.median = timing.median;
  m.low = m.median - error;
  m.high = m.median + error;
  return m;
}

std::string savingKey(const FusionDecision& d) {
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "\n%.17g\n%.17g\n%lld", d.dT, d.dC, static_cast<long long>(d.dK));
  return d.producer + "\n" + d.consumer + numbers;
}

}  // namespace

std::optional<protocol::Measured> Jobs::measuredSaving(const FusionDecision& decision) const {
  const std::lock_guard lock(m_mutex);
  const auto found = m_savings.find(savingKey(decision));
  if (found == m_savings.end()) return std::nullopt;
  return found->second;
}

void Jobs::answerCompareFusion(const Revision& revision, const FusionInputs& inputs, const protocol::CompareFusionRequest& request,
                               protocol::RequestId id, std::stop_token stop) {
  const auto stages = revision.stages(inputs);
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
  {
    const std::lock_guard lock(m_mutex);
    for (const FusionDecision& d : (*stages)->decisions)
      if (d.producer == request.producer && d.consumer == request.consumer) m_savings[savingKey(d)] = answer.saving;
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

void Jobs::sendTensor(const HostTensor& tensor, const protocol::TensorRequest& request, std::int64_t step, protocol::RequestId id) {
  protocol::TensorSlice slice;
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

void Jobs::answerTensor(const protocol::TensorRequest& request, protocol::RequestId id) {
  std::shared_ptr<TrainJob> training;
  {
    const std::lock_guard lock(m_mutex);
    training = m_train;
    if (!training && m_run) {
      const auto value = m_run->tensor(request.tensor);
      if (value) return sendTensor(*value, request, m_step, id);
      return fail(id, {"tensor", request.tensor + " has no value: run its cell.", {}, {}});
    }
  }
  if (!training) return fail(id, {"tensor", request.tensor + " has no value yet: run its cell.", {}, {}});
  const bool asked = training->betweenSteps([this, request, id](Executable& executable) {
    const TensorId tensor = executable.program().tensorNamed(request.tensor);
    if (!tensor.valid()) return fail(id, {"tensor", request.tensor + " is not kept while training.", {}, {}});
    const auto value = executable.read(tensor);
    if (!value) return fail(id, {"tensor", request.tensor + " is not kept while training: fused kernels never write it.", {}, {}});
    std::int64_t step;
    {
      const std::lock_guard lock(m_mutex);
      step = m_step;
    }
    sendTensor(*value, request, step, id);
  });
  if (!asked) fail(id, {"tensor", "Training has just ended: run the cell for values.", {}, {}});
}

}  // namespace nf
