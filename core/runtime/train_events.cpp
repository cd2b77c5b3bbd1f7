// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <algorithm>

namespace nf {

double medianOf(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

namespace {
constexpr std::int64_t kRows = 65536;  // a row in the folder stands for at most this part of the steps so far
}

void TrainJob::Impl::emit(const protocol::Message& message, bool intoFolder) {
  if (const auto* stepped = std::get_if<protocol::StepEvent>(&message)) {
    writeStep(*stepped);
  } else if (folder && intoFolder) {
    flushWritten();
    folder->addEvent(protocol::encode(message));
  }
  if (sink) sink(message);
}

void TrainJob::Impl::tellKernels() {
  protocol::StepKernelsEvent e;
  for (const PlannedSubgraph& s : training.plan->subgraphs) e.subgraphs.push_back(s.hash.hex());
  e.step = step;
  emit(e);
}

void TrainJob::Impl::emitState(protocol::RunPhase phase, const std::string& detail, bool atOnce) {
  const Time now = std::chrono::steady_clock::now();
  if (!atOnce && now - lastState < kEventPeriod) return;
  lastState = now;
  lastPhase = phase;
  protocol::RunState s;
  s.phase = phase;
  s.device = context->device().name();
  s.detail = detail;
  s.step = step;
  s.steps = stepLimit;
  s.resumedAt = firstStep;
  const std::int64_t perEpoch = feed ? feed->stepsPerEpoch() : 1;
  s.epoch = (std::max<std::int64_t>(step, 1) - 1) / perEpoch + 1;
  s.epochs = stepLimit / perEpoch;
  s.seconds = begun == Time{} ? 0 : secondsSince(begun);
  s.loss = lastLoss;
  std::vector<float> last = stepTimes.newest(100);
  if (const std::size_t count = last.size(); count > 0) {
    std::sort(last.begin(), last.end());
    s.stepMs = last[count / 2];
    s.stepMsLow = last[count / 4];
    s.stepMsHigh = last[count * 3 / 4];
    s.samples = static_cast<std::int64_t>(count);
    timeLeft.add(s.seconds, step - firstStep);
    if (stepLimit > step && options.seconds == 0) s.secondsLeft = timeLeft.forSteps(stepLimit - step);
    if (options.seconds > 0) s.secondsLeft = std::max(0.0, options.seconds - s.seconds);
  }
  if (supply && supply->tuning()) {
    s.trials = supply->tuning()->trials();
    s.candidates = supply->tuning()->candidates();
    s.budgetShare = options.tuning.deviceShare;
    s.budgetSpentSeconds = supply->tuning()->deviceSecondsSpent();
  }
  s.swaps = swapCount;
  emit(s, false);
}

void TrainJob::Impl::flushStepEvent(Time now) {
  if (thinned.steps == 0) return;
  // Not the newest step's: an event is due the sooner the longer its last step took.
  thinned.ms = medianOfLast(thinned.steps);
  thinned.seconds = secondsSince(begun);
  emit(thinned);
  thinned = {};
  thinned.steps = 0;
  lastStepEvent = now;
}

double TrainJob::Impl::medianOfLast(std::int64_t steps) const { return medianOf(stepTimes.newest(steps)); }

void TrainJob::Impl::writeStep(const protocol::StepEvent& event) {
  if (!folder) return;
  // Steps that a lost device took along are made again.
  if (written.steps > 0 && event.step - event.steps != written.step) flushWritten();
  if (written.steps == 0) {
    written = event;
    merged = false;
  } else {
    merged = true;
    written.step = event.step, written.loss = event.loss, written.seconds = event.seconds;
    written.steps += event.steps;
    written.ms_min = std::min(written.ms_min, event.ms_min), written.ms_max = std::max(written.ms_max, event.ms_max);
    written.loss_min = std::min(written.loss_min, event.loss_min), written.loss_max = std::max(written.loss_max, event.loss_max);
  }
  if (written.steps * kWritten >= step - firstStep) flushWritten();
}

void TrainJob::Impl::flushWritten() {
  if (written.steps == 0) return;
  // Events that were merged have no median yet; steps since then are few beside theirs.
  if (merged) written.ms = medianOfLast(written.steps + step - written.step);
  folder->addEvent(protocol::encode(written));
  written = {};
  written.steps = 0;
}

void TrainJob::Impl::writeRow(double milliseconds, double value) {
  if (!folder) return;
  if (row.steps > 0 && row.step + 1 != step) flushRow();
  row.step = step, row.seconds = secondsSince(begun), row.milliseconds = milliseconds, row.loss = value;
  row.waited += waited;
  if (++row.steps * kRows >= step - firstStep) flushRow();
}

void TrainJob::Impl::flushRow() {
  if (row.steps == 0) return;
  if (row.steps > 1) row.milliseconds = medianOfLast(row.steps), row.waited /= static_cast<double>(row.steps);
  folder->addStep(row);
  row = {};
  row.steps = 0;
}

std::string TrainJob::Impl::activity() const {
  const std::string kernels = supply->activity();
  return checkpointTrouble + (checkpointTrouble.empty() || kernels.empty() ? "" : "; ") + kernels;
}

protocol::SearchState TrainJob::Impl::searchState() const {
  using protocol::SearchState;
  if (replay) return SearchState::Replayed;
  if (context->inProcess()) return SearchState::Fixed;
  if (!dynamic || !supply->tuning()) return SearchState::Static;
  if (supply->tuning()->candidates() > 0) return SearchState::Searched;
  const auto states = supply->tuning()->states();
  const bool all = std::all_of(states.begin(), states.end(), [](const auto& s) { return s.exhausted; });
  return all ? SearchState::Finished : SearchState::Unbegun;
}

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

protocol::TrialEvent protocolEvent(const TrialEvent& event) {
  protocol::TrialEvent e;
  e.subgraph = event.subgraph.hex();
  e.name = event.name;
  e.schedule.text = event.schedule.text();
  e.us = event.microseconds;
  if (event.microseconds) {
    const TimeInterval quartiles = quartilesOf({*event.microseconds, event.spreadMicroseconds, 1});
    e.low_us = quartiles.low;
    e.high_us = quartiles.high;
  }
  e.beside_us = event.besideMicroseconds;
  e.won = event.won;
  e.status = protocolStatus(event.status);
  e.counted = event.counted;
  e.quick = event.quick;
  e.seconds = event.seconds;
  e.generation = event.lineage.round;
  if (event.lineage.predictedSeconds > 0) e.predicted_us = event.lineage.predictedSeconds * 1e6;
  for (const std::string& parent : event.lineage.parents) e.parents.push_back({parent});
  e.how = event.reason;
  if (!event.lineage.how.empty()) e.how += (e.how.empty() ? "" : "; ") + event.lineage.how;
  return e;
}

protocol::CounterInfo describeCounters(const KernelCounters& counters) {
  protocol::CounterInfo info{counters.us, counters.flops,       counters.dramBytes, counters.l2Bytes, counters.occupancy, {},
                             {},          counters.withoutLines};
  for (const KernelCounters::Stall& s : counters.stalls) info.stalls.push_back({s.reason, s.share});
  for (const KernelCounters::Line& l : counters.lines) info.lines.push_back({l.line, l.samples, l.reason});
  return info;
}

protocol::KernelCountersEvent protocolEvent(const CountersEvent& event) {
  protocol::KernelCountersEvent e;
  e.subgraph = event.subgraph.hex();
  e.name = event.name;
  e.seconds = event.seconds;
  e.missing = event.missing;
  const auto counted = [](const Schedule& schedule, const std::optional<KernelCounters>& counters) {
    protocol::CountedKernel kernel;
    if (schedule.knobs) kernel.schedule.text = schedule.text();
    if (counters) kernel.counters = describeCounters(*counters);
    return kernel;
  };
  e.before = counted(event.before, event.beforeCounters);
  e.after = counted(event.after, event.afterCounters);
  return e;
}

}  // namespace nf
