// SPDX-License-Identifier: Apache-2.0
// Wall time of every kernel of a step, for the workbench.
#include <algorithm>

#include "core/session/jobs.h"
#include "core/tune/worker_messages.h"

namespace nf {
namespace {

// Of all profiled steps together; a step of more is told, not drawn.
constexpr std::int64_t kRecorded = 20'000;

void beginProfile(Executable& executable) {
  executable.setRecording(kRecorded);
  executable.setProfiling(true);
}

}  // namespace

protocol::Profile Jobs::profileOf(Executable& executable, const Revision* revision, std::uint64_t number, bool training) {
  executable.setProfiling(false);
  protocol::Profile answer;
  answer.revision = number;
  answer.device = executable.device().name();
  answer.training = training;
  answer.runs = executable.profiledRuns();
  for (const KernelTime& t : kernelTimes(executable)) {
    if (!(t.microseconds > 0)) continue;
    answer.stepUs += t.microseconds * t.callsPerStep;
    protocol::KernelTimeInfo& info = answer.kernels.emplace_back();
    info.subgraph = t.subgraph.hex(), info.name = t.name, info.calls = t.callsPerStep, info.us = t.microseconds;
    info.flops = t.flops, info.bytes = t.bytes;
    if (!t.schedule.empty()) info.made = protocol::KernelMaking{{t.schedule}, t.quick};
  }
  answer.timeline = describeTimeline(executable.takeActivities(), revision ? &revision->spans() : nullptr, number, m_sites);
  return answer;
}

void Jobs::profile(std::shared_ptr<const Revision> revision, const protocol::ProfileRequest& request, protocol::RequestId id) {
  const std::int64_t steps = std::clamp<std::int64_t>(request.steps, 1, 100000);
  std::shared_ptr<TrainJob> training;
  std::optional<PendingProfile> replaced;
  {
    const std::lock_guard lock(m_mutex);
    training = m_train;
    if (training) {
      replaced.swap(m_profile);
      m_profile = {id, revision, steps};
    }
  }
  if (replaced) m_outbox.send(protocol::Cancelled{}, replaced->id);
  if (training) {
    if (training->betweenSteps([](Executable& executable, std::int64_t) { beginProfile(executable); })) return;
    const std::lock_guard lock(m_mutex);
    if (m_profile && m_profile->id == id) m_profile.reset();
    return fail(id, {"profile", "Training has not begun yet.", {}, {}});
  }
  enqueue(id, [this, revision = std::move(revision), steps, id](std::stop_token stop) {
    const CompiledNotebook& notebook = revision->sound();
    if (!notebook.ok()) return fail(id, {"source", "The notebook has errors.", {}, {}});
    DeviceContext* device = context("auto", id);
    if (!device) return;
    protocol::RunState state;
    state.phase = protocol::RunPhase::Preparing;
    state.revision = revision->number();
    state.device = device->device().name();
    m_outbox.send(state);
    RunOptions options;
    options.source = notebook.sources.at(notebook.notebook);
    options.tensors = {"outputs"};
    options.training = !notebook.trains.empty();
    if (options.training) options.trainStep = revision->step();
    if (notebook.program.operators.empty()) {
      fail(id, {"profile", "There is nothing to profile yet: a notebook that computes something has a step to time.", {}, {}});
      return m_outbox.send(protocol::RunState{});
    }
    RunJob job(*device, options);
    const auto prepared = job.prepare(stop, [&](std::size_t done, std::size_t all) {
      state.detail = "compiling and checking " + std::to_string(done) + " of " + std::to_string(all) + " kernels";
      m_outbox.send(state);
    });
    Result<Unit> done = Unit{};
    if (prepared && *prepared) {
      state.phase = protocol::RunPhase::Computing;
      state.detail = "profiling";
      m_outbox.send(state);
      // The first runs touch memory for the first time.
      constexpr std::int64_t kWarm = 2;
      job.setRecording(kRecorded);
      for (std::int64_t i = 0; done && i < kWarm + steps && !stop.stop_requested(); ++i) done = job.run(i >= kWarm, stop);
    }
    if (!prepared) fail(id, prepared.error());
    else if (!done && !isStopped(done.error())) fail(id, done.error());
    else if (!*prepared || stop.stop_requested()) m_outbox.send(protocol::Cancelled{}, id);
    else {
      protocol::Profile answer = profileOf(job.executable(), revision.get(), revision->number(), false);
      if (device->device().profiler()) {
        state.detail = "counting";
        m_outbox.send(state);
        const auto counted = job.count(stop);
        if (!counted) answer.countersMissing = counted.error().message;
        for (protocol::KernelTimeInfo& k : answer.kernels)
          if (const auto hash = hashFromHex(k.subgraph); counted && hash)
            if (const auto found = counted->find(*hash); found != counted->end()) k.counters = describeCounters(found->second);
      }
      m_outbox.send(answer, id);
    }
    m_outbox.send(protocol::RunState{});
  });
}

void Jobs::readProfile() {
  // Places of the text that trains are places of the asked revision only where that has the same text.
  const auto textOf = [](const Revision& revision) -> const std::string& {
    const CompiledNotebook& notebook = revision.notebook();
    return notebook.sources.at(notebook.notebook).text;
  };
  const bool same = m_trainRevision && textOf(*m_trainRevision) == textOf(*m_profile->revision);
  m_train->betweenSteps([this, id = m_profile->id, same](Executable& executable, std::int64_t) {
    PendingProfile pending;
    {
      const std::lock_guard lock(m_mutex);
      if (!m_profile || m_profile->id != id) return;
      // Another executable than the one that began: a fusion was taken back, or a device was lost.
      if (!executable.isProfiling()) return beginProfile(executable);
      // What told of steps may have been told before the profile began.
      if (executable.profiledRuns() < m_profile->steps) return;
      pending = std::move(*m_profile);
      m_profile.reset();
    }
    m_outbox.send(profileOf(executable, same ? pending.revision.get() : nullptr, pending.revision->number(), true), id);
  });
}

}  // namespace nf
