// SPDX-License-Identifier: GPL-3.0-or-later
// An engine of known answers for tests of the window: it speaks the whole protocol over its standard streams.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/widgets/capsule.h"

using namespace nf;
using namespace nf::protocol;

namespace {

std::string text;
std::uint64_t revision = 0;
struct Held {
  RequestId id;
  std::uint64_t revision;
  std::string tensor;
};
std::vector<Held> held;  // derivations that take long
bool training = false;
bool ran = false;
bool judged = false;
std::map<std::string, TrialInfo> byHand;  // by subgraph: the last trial that was asked for
std::int64_t stepOfValues = -1;
double share = 0.3;
RunState lastState;

// What was measured by hand is faster than what there was.
KernelMaking madeOf(const std::string& subgraph) {
  const auto own = byHand.find(subgraph);
  return {own == byHand.end() ? JsonText{R"({"kind":"first"})"} : own->second.schedule, false};
}

RunState trainingState() {
  RunState state = lastState;
  state.budgetShare = share;
  return state;
}

void say(const Message& message, RequestId id = 0, std::string binary = {}) {
  const std::string frame = encodeFrame({id, message, std::move(binary)});
  std::cout.write(frame.data(), static_cast<std::streamsize>(frame.size()));
  std::cout.flush();
}

void train(RequestId id, std::uint32_t cell) {
  ran = true;
  if (text.find("lr=inf") != std::string::npos) {
    say(ErrorEvent{"train", "The loss L is not a number in step 3.", {}, 0, 0});
    say(Failed{"train", "The loss L is not a number in step 3.", {}, {}}, id);
    return say(RunState{});
  }
  training = true;
  stepOfValues = 400;
  if (text.find("labels stray") != std::string::npos) {
    const auto at = text.find("input A");
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    say(WarningEvent{"A holds labels up to 12, and Y has 10 classes.", "capsule.nf", line, 7});
  }
  RunState state;
  state.phase = RunPhase::Training, state.cell = cell, state.device = "cpu", state.steps = 500;
  say(state);
  say(FirstStepEvent{312});
  double ms = 8;
  for (int step = 1; step <= 400; step += 4) {
    if (step % 80 == 1 && step > 1) {
      ms *= 0.62;
      KernelSwapEvent swap;
      swap.subgraph = step % 160 == 1 ? "aa01" : "bb02", swap.name = step % 160 == 1 ? "Y" : "dW", swap.before_us = 900,
      swap.after_us = 400, swap.generation = step / 80, swap.step = step;
      say(swap);
    }
    StepEvent e;
    e.step = step, e.ms = ms * (1 + (step * 37 % 11) * 0.004), e.ms_min = ms * 0.98, e.ms_max = ms * 1.1, e.steps = 4,
    e.loss = 2.3 / (1 + step * 0.02), e.seconds = step * 0.004;
    say(e);
  }
  for (const TrialInfo& t : capsule::trials(40)) {
    TrialEvent e;
    e.subgraph = "aa01", e.number = t.number, e.generation = t.generation, e.us = t.us, e.status = t.status,
    e.schedule = t.schedule, e.seconds = t.seconds, e.how = t.how, e.name = "Y + L", e.predicted_us = t.predictedUs,
    e.beside_us = t.besideUs, e.won = t.won;
    e.low_us = t.lowUs, e.high_us = t.highUs;
    say(e);
  }
  // The last of those that are on record: the ones before it have to be asked for.
  const TrialInfo last = capsule::trials().back();
  TrialEvent e;
  e.subgraph = "bb02", e.number = last.number, e.us = last.us, e.schedule = last.schedule, e.how = last.how, e.name = "dW + sgd";
  say(e);
  const bool full = text.find("disk full") != std::string::npos;
  if (full) {
    CheckpointFailedEvent failed;
    failed.message = "checkpoint.safetensors cannot be written: no space left on device", failed.step = 200;
    say(failed);
  }
  EvalEvent eval;
  eval.step = 400, eval.accuracy = 0.9417;
  say(eval);
  state.step = 400, state.loss = 0.256, state.stepMs = 1.18, state.stepMsLow = 1.17, state.stepMsHigh = 1.2, state.samples = 50,
  state.trials = 40, state.candidates = 36, state.swaps = 4, state.secondsLeft = 0.4;
  state.seconds = 2, state.budgetSpentSeconds = 0.6;
  lastState = state;
  say(trainingState());
  if (text.find("steps = 1000000") != std::string::npos) return;  // goes on until it is stopped
  training = false;
  stepOfValues = 500;
  DoneEvent done;
  done.steps = 500, done.loss = 0.21, done.accuracy = 0.9417, done.first_step_ms = 312, done.preparation_ms = 300,
  done.median_step_ms_first_tenth = 8, done.median_step_ms_last_tenth = 1.18, done.seconds = 1.6;
  done.last_tenth_low_ms = 1.17, done.last_tenth_high_ms = 1.2, done.last_tenth_steps = 50;
  done.checkpoints_failed = full ? 3 : 0;
  say(done, id);
  if (text.find("# disk stays full") != std::string::npos) {
    ErrorEvent unsaved;
    unsaved.message = "The training has ended, but its checkpoint was not written: no space left on device.";
    say(unsaved);
  }
  say(RunState{});
}

}  // namespace

int main() {
  FrameReader reader;
  char buffer[65536];
  while (true) {
    const ssize_t n = ::read(0, buffer, sizeof buffer);
    if (n <= 0) return 0;
    std::vector<Error> errors;
    for (const Envelope& envelope : reader.feed({buffer, static_cast<std::size_t>(n)}, errors)) {
      const RequestId id = envelope.id;
      const Message& m = envelope.message;
      if (std::holds_alternative<Hello>(m)) {
        Hello hello;
        hello.program = "scripted engine", hello.process = ::getpid();
        say(hello);
      } else if (const auto* r = std::get_if<DocumentReplaced>(&m)) {
        text = r->text, revision = r->revision;
        say(capsule::analysis(text, revision));
      } else if (const auto* r = std::get_if<DocumentEdited>(&m)) {
        if (r->revision != revision + 1 || r->end > text.size() || r->begin > r->end) {
          say(Failed{"revision", "the replica is of another revision", {}, {}}, id);
          continue;
        }
        text.replace(r->begin, r->end - r->begin, r->text);
        revision = r->revision;
        // What is overtaken is answered all the same, for the text that it was asked about.
        if (text.find("derives slowly") == std::string::npos) {
          for (const Held& h : held) say(capsule::expression(h.tensor, h.revision, false), h.id);
          held.clear();
        }
        say(capsule::analysis(text, revision));
      } else if (const auto* r = std::get_if<ExpressionRequest>(&m)) {
        if (text.find("derives slowly") != std::string::npos) held.push_back({id, revision, r->tensor});
        else say(capsule::expression(r->tensor, revision, r->numericCheck), id);
      } else if (const auto* r = std::get_if<GraphRequest>(&m)) {
        GraphPage graph = capsule::graph(revision, r->stage);
        if (judged && r->stage == "fused") graph.groups.pop_back();
        say(graph, id);
      } else if (std::holds_alternative<FusionRequest>(m)) {
        FusionReport report = capsule::fusion(revision);
        for (auto& d : report.decisions) {
          if (text.find("hint fuse " + d.producer + ", " + d.consumer) != std::string::npos) d.state = FusionState::Forced;
          if (text.find("hint split " + d.producer + ", " + d.consumer) != std::string::npos) d.state = FusionState::Forbidden;
        }
        if (const auto at = text.find("kind = nonsense"); at != std::string::npos) {
          DiagnosticInfo d;
          d.code = "schedule", d.message = "there is no kind of schedule `nonsense`";
          d.span.begin = static_cast<std::uint32_t>(at), d.span.end = d.span.begin + 15;
          report.refusedHints = {d};
        }
        say(report, id);
      } else if (std::holds_alternative<DevicesRequest>(m)) {
        say(capsule::devices(), id);
      } else if (std::holds_alternative<SubgraphsRequest>(m)) {
        Subgraphs answer{revision, capsule::subgraphs()};
        for (auto& s : answer.subgraphs) {
          s.made = madeOf(s.id);
          if (text.find("hint schedule " + s.pinTensor + " {") != std::string::npos) s.state = SubgraphState::Pinned;
        }
        say(answer, id);
      } else if (const auto* r = std::get_if<TrialsRequest>(&m)) {
        auto trials = capsule::trials();
        if (const auto own = byHand.find(r->subgraph); own != byHand.end()) trials.push_back(own->second);
        say(Trials{r->subgraph, trials.size(), trials}, id);
      } else if (const auto* r = std::get_if<SpaceRequest>(&m)) {
        say(capsule::spaceAt(r->subgraph, r->at.value_or(capsule::space(r->subgraph).current)), id);
      } else if (const auto* r = std::get_if<KernelRequest>(&m)) {
        say(r->trial && *r->trial % 2 ? capsule::otherKernel(r->subgraph, *r->trial) : capsule::kernel(r->subgraph, r->trial), id);
      } else if (std::holds_alternative<ProfileRequest>(m)) {
        Profile profile = capsule::profile(revision, training);
        for (auto& k : profile.kernels) {
          k.made = madeOf(k.subgraph);
          if (k.subgraph == "cc03") k.us = 2.75;  // another time than a trial's
        }
        say(profile, id);
      } else if (const auto* r = std::get_if<BudgetRequest>(&m)) {
        share = r->share.value_or(share);
        if (training) say(trainingState());
      } else if (const auto* r = std::get_if<MeasureRequest>(&m)) {
        TrialInfo t;
        t.number = r->replays.value_or(900), t.us = 33.3, t.lowUs = 33.1, t.highUs = 33.6, t.schedule = r->schedule;
        t.how = r->replays ? "replay of c" + std::to_string(*r->replays) : "by hand";
        if (!r->replays) byHand[r->subgraph] = t;
        say(TrialMeasured{r->subgraph, t}, id);
      } else if (const auto* r = std::get_if<CompareFusionRequest>(&m)) {
        FusionCompared k;
        k.revision = r->revision, k.producer = r->producer, k.consumer = r->consumer, k.device = "cpu";
        k.split = {41.8, 41.4, 42.3, {41.4, 41.8, 42.3}}, k.fused = {43.6, 43.1, 44.3, {43.1, 43.6, 44.3}};
        k.saving = {-1.8, -2.4, -1.2, {-1.7, -1.8, -2.0}}, k.separates = true;
        k.loop = "scan", k.fusedKernels = {"Y + d(L)/d(Y)"}, k.splitKernels = {"Y", "d(L)/d(Y)"};
        k.verdict = "Fused is slower by 1.8 us [1.2, 2.4], separated.";
        k.judged = judged = text.find("# a verdict counts") != std::string::npos;
        say(k, id);
      } else if (const auto* r = std::get_if<TensorRequest>(&m)) {
        if (!ran && text.find("values of a run only") != std::string::npos) {
          say(Failed{"tensor", r->tensor + " has no value yet: run its cell.", {}, {}}, id);
          continue;
        }
        TensorSlice slice;
        slice.step = stepOfValues;
        for (const auto end : r->end) slice.shape.push_back(end);
        for (const TensorInfo& t : capsule::analysis(text, revision).tensors)
          if (t.name == r->tensor) slice.shape = t.shape;
        slice.tensor = r->tensor, slice.dtype = "f32", slice.begin = r->begin, slice.end = r->end;
        std::size_t count = 1;
        for (std::size_t i = 0; i < r->begin.size(); ++i) count *= static_cast<std::size_t>(r->end[i] - r->begin[i]);
        std::vector<double> values;
        for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<double>(i) * 1.7) * 0.02);
        slice.min = -0.02, slice.max = 0.02, slice.rms = 0.0141, slice.histogram = {1, 3, 7, 12, 20, 26, 24, 17, 10, 5, 2};
        say(slice, id, packValues(values));
      } else if (const auto* r = std::get_if<RunRequest>(&m)) {
        ran = true;
        for (const auto cell : r->cells) {
          CellResult result;
          result.revision = revision, result.cell = cell, result.ms = 4;
          say(result, id);
        }
        say(Finished{}, id);
      } else if (const auto* r = std::get_if<TrainRequest>(&m)) {
        train(id, r->cell);
      } else if (std::holds_alternative<PauseRequest>(m) && training) {
        lastState.phase = RunPhase::Paused;
        say(trainingState());
      } else if (std::holds_alternative<ResumeRequest>(m) && training) {
        lastState.phase = RunPhase::Training;
        say(trainingState());
      } else if (std::holds_alternative<StopRequest>(m) && training) {
        training = false;
        DoneEvent done;
        done.steps = stepOfValues = 401, done.stopped = true;
        say(done);
        say(RunState{});
      }
    }
  }
}
