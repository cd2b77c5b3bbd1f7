// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train.h"
#include "core/runtime/time_left.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "core/device/reference_backend.h"
#include "core/protocol/latency.h"
#include "core/runtime/checkpoint.h"
#include "core/runtime/data_file.h"
#include "core/runtime/report.h"
#include "core/runtime/run.h"
#include "core/runtime/run_folder.h"
#include "tests/runtime/train_runs.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using testing::HasSubstr;

using namespace runs;

TEST(Train, ANumberThatIsTrainedIsALossWithoutTheWord) {
  const auto context = interpreter();
  for (const char* kind : {"", "eval ", "loss "}) {
    TrainJob job(*context,
                 optionsFor("param w = 1\n" + std::string(kind) +
                            "L = (w - 3)^2\ntrain L { steps = 1; optimizer = sgd(lr=0.1); mode = static }\n"),
                 {});
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << kind << summary.error().message;
    EXPECT_EQ(summary->done.loss, 4) << kind;
    EXPECT_NEAR(job.weights(1 << 20).at("w").at(0), 1.4, 1e-6) << kind;
  }
}

// With X = 1, P = sum of 4 V^2 w^4 + V^2, whose slope by w is 16 V^2 w^3 and by V is 8 V w^4 + 2 V; Q is the sum of its first terms.
TEST(Train, WhatALossReadsThroughADerivativeIsTrained) {
  const std::string net =
      "input X[2] = 1\nparam w[2] = 0.5\nparam V[2] = 1\nS = sum[k] V[k] * (X[k] * w[k])^2\nG = d(S)/d(X)\n"
      "R = sum[i] G[i]^2\nD = d(R)/d(V)\n"  // 8 V w^4
      "loss P = sum[i] G[i]^2 + sum[k] V[k]^2\nloss Q = sum[i] D[i]\n";
  const auto context = interpreter();
  for (const auto& [loss, w, v] : {std::tuple("P", 0.5 - 0.01 * 2, 1 - 0.01 * 2.5), {"Q", 0.5 - 0.01 * 4, 1 - 0.01 * 0.5}}) {
    TrainJob job(*context, optionsFor(net + "train " + loss + " { steps = 1; optimizer = sgd(lr=0.01); mode = static }\n"), {});
    const auto summary = job.run({});
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto weights = job.weights(1 << 20);
    for (int i = 0; i < 2; ++i) {
      EXPECT_NEAR(weights.at("w").at(i), w, 1e-6) << loss;
      EXPECT_NEAR(weights.at("V").at(i), v, 1e-6) << loss;
    }
  }
}

// Rows and events stand for more steps each, the more there were: together for all of them.
TEST(Train, TheFolderOfALongRunIsThinned) {
  const fakes::Folder folder;
  TrainOptions o =
      optionsFor("param w[1] = normal(2, 0)\nloss L = sum[i] w[i]^2\ntrain L { steps = 150000; optimizer = sgd(lr=1e-9) }\n");
  o.outputRoot = folder.path("test.nf.out");
  const auto context = interpreter();
  const auto summary = TrainJob(*context, o, [](const protocol::Message&) {}).run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto rows = readSteps(summary->folder + "/steps.bin");
  ASSERT_TRUE(rows.ok());
  std::int64_t steps = 0, told = 0;
  for (const StepRow& row : *rows) {
    steps += row.steps;
    ASSERT_EQ(row.step, steps);
  }
  EXPECT_EQ(steps, summary->done.steps);
  EXPECT_LT(rows->size(), 125000u);
  std::istringstream events(*readFile(summary->folder + "/events.jsonl"));
  for (std::string line; std::getline(events, line);)
    if (const auto event = protocol::decode(line))
      if (const auto* step = std::get_if<protocol::StepEvent>(&*event)) told += step->steps;
  EXPECT_EQ(told, summary->done.steps);
}

// Epochs of a step of a microsecond: each is evaluated, and only as many evaluations are told as somebody can look at.
TEST(Train, TheEvaluationsOfALongRunAreThinned) {
  const fakes::Folder folder;
  std::ofstream(folder.path("d.csv")) << "1,2\n3,4\n";
  TrainOptions o =
      optionsFor("data D = csv(\"" + folder.path("d.csv") +
                 "\") { split = last 1 }\ninput X[1, 2] = batch D[:, 0..2]\nparam w[1] = normal(2, 0)\n"
                 "loss L = sum[i] w[i]^2 + 0 * X[0, 0]\neval e = w[0]\ntrain L { steps = 9000; optimizer = sgd(lr=1e-9) }\n");
  o.outputRoot = folder.path("test.nf.out");
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  const auto summary = TrainJob(*context, o, [&](const protocol::Message& m) { messages.push_back(m); }).run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto isOrdered = [](const std::vector<std::int64_t>& steps) {
    return std::is_sorted(steps.begin(), steps.end()) && std::adjacent_find(steps.begin(), steps.end()) == steps.end();
  };
  std::vector<std::int64_t> told, written;
  for (const auto& e : only<protocol::EvalEvent>(messages)) told.push_back(e.step);
  std::istringstream events(*readFile(summary->folder + "/events.jsonl"));
  std::int64_t steps = 0;
  for (std::string line; std::getline(events, line);)
    if (const auto event = protocol::decode(line)) {
      if (const auto* e = std::get_if<protocol::EvalEvent>(&*event)) written.push_back(e->step);
      if (const auto* e = std::get_if<protocol::StepEvent>(&*event)) steps += e->steps;
    }
  for (const auto& list : {told, written}) {
    EXPECT_TRUE(isOrdered(list));
    ASSERT_GT(list.size(), 256u);
    EXPECT_EQ(list[255], 256) << "the first all";
    EXPECT_LT(list.size(), 8000u);
    EXPECT_EQ(list.back(), 9000);
  }
  EXPECT_EQ(steps, 9000);
}

TEST(Train, APauseIsNoTimeOfTraining) {
  using Clock = std::chrono::steady_clock;
  TrainOptions o =
      optionsFor("param w[1] = normal(2, 0)\nloss L = sum[i] w[i]^2\ntrain L { steps = 2000; optimizer = sgd(lr=1e-9) }\n");
  const auto context = interpreter();
  std::promise<void> stands;
  TrainJob* running = nullptr;
  bool asked = false;
  TrainJob job(*context, o, [&](const protocol::Message& m) {
    if (std::holds_alternative<protocol::FirstStepEvent>(m)) running->pause();
    if (const auto* s = std::get_if<protocol::RunState>(&m);
        s && s->phase == protocol::RunPhase::Paused && !std::exchange(asked, true))
      stands.set_value();
  });
  running = &job;
  Clock::duration paused{};
  std::jthread other([&] {
    stands.get_future().wait();
    const auto began = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    paused = Clock::now() - began;
    job.resume();
  });
  const auto began = Clock::now();
  const auto summary = job.run({});
  const auto whole = Clock::now() - began;
  other.join();
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->done.steps, 2000);
  EXPECT_LE(summary->done.seconds, std::chrono::duration<double>(whole - paused).count());
}

TEST(Train, LearnsDigitsAndReportsEvents) {
  const fakes::Folder folder;
  TrainOptions o = optionsFor(kDigits);
  o.outputRoot = folder.path("test.nf.out");
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message << " " << summary.error().detail;
  EXPECT_EQ(summary->done.steps, 1437 / 32);
  EXPECT_GT(*summary->done.accuracy, 0.8);
  ASSERT_EQ(only<protocol::FirstStepEvent>(messages).size(), 1u);
  ASSERT_EQ(only<protocol::EvalEvent>(messages).size(), 1u);
  ASSERT_EQ(only<protocol::DoneEvent>(messages).size(), 1u);
  std::int64_t steps = 0;
  for (const auto& e : only<protocol::StepEvent>(messages)) steps += e.steps;
  EXPECT_EQ(steps, summary->done.steps) << "thinned events stand for all steps";

  const auto rows = readSteps(summary->folder + "/steps.bin");
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), static_cast<std::size_t>(summary->done.steps));
  EXPECT_EQ(rows->back().loss, *summary->done.loss);
  EXPECT_LT(rows->back().loss, rows->front().loss / 2);
  auto row = rows->begin();
  for (const auto& e : only<protocol::StepEvent>(messages)) {
    std::vector<double> times, losses;
    for (; row != rows->end() && row->step <= e.step; ++row) times.push_back(row->milliseconds), losses.push_back(row->loss);
    ASSERT_EQ(times.size(), static_cast<std::size_t>(e.steps));
    std::sort(times.begin(), times.end());
    EXPECT_NEAR(e.ms, times[times.size() / 2], 1e-6 * e.ms) << "the median of its steps";
    EXPECT_EQ(e.ms_min, times.front());
    EXPECT_EQ(e.ms_max, times.back());
    EXPECT_EQ(e.loss, losses.back());
    EXPECT_EQ(e.loss_min, *std::min_element(losses.begin(), losses.end()));
    EXPECT_EQ(e.loss_max, *std::max_element(losses.begin(), losses.end()));
  }
  EXPECT_EQ(row, rows->end());
  const auto html = htmlReport(summary->folder, {"Digits", 10.5, "PyTorch"});
  ASSERT_TRUE(html.ok()) << html.error().message;
  EXPECT_THAT(*html, HasSubstr("<svg"));
  EXPECT_THAT(*html, testing::Not(HasSubstr("http://")));
}

// However fast the steps are, the curve of the events is that of the steps, in the run's folder too.
TEST(Train, AnEventStandsForASmallPartOfTheSteps) {
  const fakes::Folder folder;
  TrainOptions o = optionsFor(R"(
param W = 3
loss L = W^2
train L { steps = 2000; optimizer = sgd(lr=0.01); mode = static; seed = 3 }
)");
  o.verify = false;
  o.outputRoot = folder.path("test.nf.out");
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message << " " << summary.error().detail;
  const auto events = only<protocol::StepEvent>(messages);
  std::int64_t step = 0;
  for (const auto& e : events) {
    EXPECT_EQ(step + e.steps, e.step) << "none is left out";
    EXPECT_LT((e.steps - 1) * 256, e.step) << e.step;
    step = e.step;
  }
  EXPECT_EQ(step, 2000);
  EXPECT_GT(summary->done.preparation_ms, 0);
  EXPECT_LE(summary->done.preparation_ms, summary->done.first_step_ms);
  const auto text = readFile(summary->folder + "/events.jsonl");
  ASSERT_TRUE(text.ok());
  std::vector<protocol::StepEvent> kept;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);)
    if (const auto m = protocol::decode(line); m.ok())
      if (const auto* e = std::get_if<protocol::StepEvent>(&*m)) kept.push_back(*e);
  EXPECT_EQ(kept, events);
}

TEST(TimeLeft, IsThePaceOfTheRecentHalfWithAllThatStandsBetweenSteps) {
  TimeLeft pace;
  EXPECT_FALSE(pace.forSteps(10));
  // Two seconds of compiling, then a step every tenth of a second.
  pace.add(0.1, 0);
  pace.add(2, 1);
  EXPECT_NEAR(*pace.forSteps(10), 19, 1e-9) << "what has gone by so far";
  for (int step = 2; step <= 101; ++step) pace.add(2 + 0.1 * (step - 1), step);
  EXPECT_NEAR(*pace.forSteps(10), 1, 1e-9) << "the beginning is past";
  // Steps of a millisecond between waits of a second: the waits count.
  TimeLeft waits;
  for (int step = 1; step <= 50; ++step) waits.add(step * 1.001, step);
  EXPECT_NEAR(*waits.forSteps(10), 10.01, 1e-6);
}

// The checkpoint of a training to this step.
std::string trainedTo(const fakes::Folder& folder, const std::string& text, std::int64_t steps, const std::string& resume = {}) {
  const auto context = interpreter();
  TrainOptions o = optionsFor(text);
  o.steps = steps;
  o.resume = resume;
  o.evaluate = false;
  o.outputRoot = folder.path("out");
  TrainJob job(*context, o, {});
  auto summary = job.run({});
  EXPECT_TRUE(summary.ok()) << summary.error().message;
  return summary.ok() ? summary->checkpoint : std::string();
}

TEST(Train, StaticResumeIsBitIdentical) {
  const fakes::Folder folder;
  const auto whole = readCheckpoint(trainedTo(folder, kDigits, 60));  // past the end of an epoch
  const auto half = trainedTo(folder, kDigits, 25);
  const auto resumed = readCheckpoint(trainedTo(folder, kDigits, 60, half));
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->step, 60);
  EXPECT_EQ(whole->tensors, resumed->tensors);
  EXPECT_GE(whole->tensors.size(), 4u) << "weights, two moments, the step counter";
}

// Its optimizer's states go by its name.
TEST(Train, ARenamedParameterIsResumedAsItWas) {
  const fakes::Folder folder;
  std::string renamed = kDigits;
  for (std::size_t at = 0; (at = renamed.find("W[", at)) != std::string::npos; at += 7) renamed.replace(at, 1, "weight");
  const auto whole = readCheckpoint(trainedTo(folder, kDigits, 30));
  const auto resumed = readCheckpoint(trainedTo(folder, renamed, 30, trainedTo(folder, kDigits, 12)));
  ASSERT_TRUE(whole.ok() && resumed.ok());
  EXPECT_EQ(resumed->step, 30);
  ASSERT_EQ(resumed->tensors.size(), whole->tensors.size());
  std::size_t found = 0;
  for (const auto& [name, value] : whole->tensors) {
    const std::string now = name.starts_with("W") ? "weight" + name.substr(1) : name;
    for (const auto& [other, its] : resumed->tensors)
      if (other == now) {
        ++found;
        EXPECT_EQ(its, value) << name;
      }
  }
  EXPECT_EQ(found, whole->tensors.size());
}

// Steps are of the whole training, times of what the run made itself: both say from where.
TEST(Train, AResumedRunTellsWhereItGoesOnFrom) {
  const fakes::Folder folder;
  const auto context = interpreter();
  TrainOptions o = optionsFor(kDigits);
  o.evaluate = false;
  o.outputRoot = folder.path("out");
  o.steps = 25;
  const auto begun = TrainJob(*context, o, {}).run({});
  ASSERT_TRUE(begun.ok()) << begun.error().message;
  EXPECT_EQ(begun->done.resumed_at, 0);
  o.steps = 60;
  o.resume = begun->checkpoint;
  std::vector<protocol::RunState> states;
  const auto resumed = TrainJob(*context, o, [&](const protocol::Message& m) {
                         if (const auto* s = std::get_if<protocol::RunState>(&m)) states.push_back(*s);
                       }).run({});
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(resumed->done.steps, 60);
  EXPECT_EQ(resumed->done.resumed_at, 25);
  for (const protocol::RunState& s : states)
    if (s.step > 0) { EXPECT_EQ(s.resumedAt, 25) << s.step; }
  const auto prepares = [](const protocol::RunState& s) { return s.phase == protocol::RunPhase::Preparing && s.resumedAt == 25; };
  EXPECT_TRUE(std::any_of(states.begin(), states.end(), prepares)) << "before its first step";
  const auto html = htmlReport(resumed->folder, {"Digits", {}, ""});
  ASSERT_TRUE(html.ok()) << html.error().message;
  EXPECT_THAT(*html, HasSubstr("35 steps since it was resumed from step 25"));
}

// Killed at any time, a run of cheap checkpoints loses the first second, else at most the half of what it did and the period.
TEST(Train, CheckpointsBeginEarlyAndCostLittle) {
  for (const double cost : {0.0, 0.001, 0.05, 0.5}) {
    std::vector<double> written;
    double at = 0, spent = 0;
    while (at < 300) {
      const double distance = checkpointDistance(at, cost, 10);
      EXPECT_GE(distance, 1);
      at += distance;
      spent += cost;
      if (!written.empty()) {  // the first one comes within the period, whatever it may cost
        EXPECT_LE(distance, std::max({1.0, written.back(), 50 * cost}));
        EXPECT_LE(distance, std::max(10.0, 50 * cost));
        EXPECT_LE(cost, 0.02 * distance + 1e-12);
      }
      written.push_back(at);
    }
    EXPECT_DOUBLE_EQ(written.front(), std::clamp(50 * cost, 1.0, 10.0)) << cost;
    EXPECT_LE(spent, 0.02 * at + cost) << cost;
  }
  EXPECT_DOUBLE_EQ(checkpointDistance(0, 0, 0.25), 0.25) << "asked for more often";
  EXPECT_DOUBLE_EQ(checkpointDistance(40, 0.01, 10), 10);
}

TEST(Train, ACheckpointOfAnotherProgramIsRefused) {
  const fakes::Folder folder;
  Checkpoint c;
  c.program = "0123";
  c.tensors = {{"W", HostTensor::make(DType::F32, {2})}};
  const std::string path = folder.path("c.safetensors");
  ASSERT_TRUE(writeCheckpoint(path, c).ok());
  const auto context = interpreter();
  TrainOptions o = optionsFor(kDigits);
  o.resume = path;
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  EXPECT_THAT(job.run({}).error().message, HasSubstr("belongs to another program"));
  ASSERT_EQ(only<protocol::ErrorEvent>(messages).size(), 1u);
  ASSERT_TRUE(writeSafetensors(path, c.tensors).ok());
  EXPECT_THAT(readCheckpoint(path).error().message, HasSubstr("no state of a training run"));
}

TEST(Checkpoints, AFlippedBitIsFound) {
  const fakes::Folder folder;
  const std::string path = folder.path("c.safetensors");
  Checkpoint c;
  c.step = 7;
  c.program = "0123456789abcdef";
  for (const char* name : {"W", "A.m"}) {
    HostTensor t = HostTensor::make(DType::F32, {3, 2});
    for (std::int64_t i = 0; i < 6; ++i) t.set(i, 0.1 * static_cast<double>(i + 1));
    c.tensors.emplace_back(name, std::move(t));
  }
  ASSERT_TRUE(writeCheckpoint(path, c));
  const auto whole = readCheckpoint(path);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->step, 7);
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  for (std::size_t at = text.str().size() - 48; at < text.str().size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string bytes = text.str();
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      std::ofstream(path, std::ios::binary) << bytes;
      const auto damaged = readCheckpoint(path);
      ASSERT_FALSE(damaged.ok()) << at;
      EXPECT_THAT(damaged.error().message, HasSubstr("is damaged"));
      EXPECT_FALSE(readWeights(path).ok()) << at;
    }
  std::ofstream(path, std::ios::binary) << text.str();
  EXPECT_EQ(*readWeights(path), whole->tensors);
}

TEST(Train, AResumeThatHasNothingLeftToDoSaysSo) {
  const fakes::Folder folder;
  const auto context = interpreter();
  TrainOptions o = optionsFor(kDigits);
  o.steps = 5;
  o.evaluate = false;
  o.outputRoot = folder.path("out");
  TrainJob first(*context, o, {});
  o.resume = first.run({})->checkpoint;
  TrainJob again(*context, o, {});
  const auto summary = again.run({});
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.error().message, HasSubstr("has 5 steps behind it, and training ends with step 5: give more."));
  o.steps = 0;
  o.source.text.replace(o.source.text.find("last 360"), 8, "last 1700");
  o.resume.clear();
  o.epochs = 1;
  TrainJob few(*context, o, {});
  o.resume = few.run({})->checkpoint;
  TrainJob ended(*context, o, {});
  EXPECT_THAT(ended.run({}).error().message, HasSubstr("training ends with step 3 (1 epoch of 3 steps): give more."));
}

// Before the first step nothing was learnt: a checkpoint of it would be large and hold nothing.
TEST(Train, AStopWhileTensorsAreFilledEndsItWithoutACheckpoint) {
  const auto context = interpreter();
  TrainOptions o = optionsFor(R"(
param W[3000, 1000] = normal(0, 1)
loss L = mean[i, j] W[i, j]^2
train L { steps = 10; optimizer = sgd(lr=0.1); mode = static }
)");
  o.outputRoot = std::filesystem::path(testing::TempDir()) / "stop_while_filling.out";
  std::filesystem::remove_all(o.outputRoot);
  std::stop_source stop;
  std::vector<std::string> details;
  TrainJob job(*context, o, [&](const protocol::Message& m) {
    if (const auto* s = std::get_if<protocol::RunState>(&m)) {
      details.push_back(s->detail);
      if (s->detail == "filling the tensors") stop.request_stop();
    }
    EXPECT_FALSE(std::holds_alternative<protocol::ErrorEvent>(m));
  });
  const auto summary = job.run(stop.get_token());
  ASSERT_FALSE(summary.ok());
  EXPECT_TRUE(isStopped(summary.error()));
  EXPECT_THAT(details, testing::Contains("filling the tensors"));
  EXPECT_FALSE(newestCheckpoint(o.outputRoot).ok());
}

TEST(Train, StopEndsBetweenStepsAndTasksSeeTheWeights) {
  const auto context = interpreter();
  TrainOptions o = optionsFor(kDigits);
  o.steps = 1000000;
  o.evaluate = false;
  std::stop_source stop;
  std::int64_t elements = 0;
  TrainJob* running = nullptr;
  TrainJob job(*context, o, [&](const protocol::Message& m) {
    if (!std::holds_alternative<protocol::FirstStepEvent>(m)) return;
    EXPECT_TRUE(running->betweenSteps([&](Executable& x, std::int64_t) {
      elements = x.read(x.program().tensorNamed("W"))->elements();
      stop.request_stop();
    }));
  });
  running = &job;
  const auto summary = job.run(stop.get_token());
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(summary->done.stopped);
  EXPECT_EQ(elements, 640);
  EXPECT_FALSE(job.betweenSteps([](Executable&, std::int64_t) {}));
}

// Steps are told several at once: who reads a tensor is told the step that it is of.
TEST(Train, TasksAreToldTheStepThatTheValuesAreOf) {
  const auto context = interpreter();
  int read = 0;
  TrainJob* running = nullptr;
  TrainJob job(*context, optionsFor(R"(
param w[1] = normal(1, 0)
loss L = mean[i] w[i]
train L { steps = 1000; optimizer = sgd(lr=0.0009765625); mode = static }
)"),
               [&](const protocol::Message& m) {
                 const auto* told = std::get_if<protocol::StepEvent>(&m);
                 if (!told) return;
                 running->betweenSteps([&](Executable& x, std::int64_t step) {
                   const auto w = x.read(x.program().tensorNamed("w"));
                   ASSERT_TRUE(w.ok());
                   EXPECT_EQ(step, static_cast<std::int64_t>((1 - w->at(0)) * 1024));
                   ++read;
                 });
               });
  running = &job;
  ASSERT_TRUE(job.run({}).ok());
  EXPECT_GT(read, 256);
}

// Kernels made in this process, with made-up timings: what the loops do, without processes.
class InProcess final : public Evaluator {
 public:
  CompileOutcome compile(CompileJob job, std::stop_token) override {
    auto object = (*m_backend->compiler(*job.target))->compile({*job.subgraph, job.schedules.front(), {}});
    object->subgraph = job.hash;
    return {std::move(*object)};
  }
  MeasureOutcome measure(MeasureJob job, std::stop_token) override {
    MeasureOutcome outcome;
    outcome.gate.passed = true;
    const double us = fakes::Space::seconds(job.candidate->schedule) * 1e6;
    if (job.time) outcome.timing = {us, us * 0.001, 7};
    if (job.incumbent) {
      const double before = fakes::Space::seconds(job.incumbent->schedule) * 1e6;
      outcome.incumbent = {before, before * 0.001, 7};
      outcome.pairs.assign(7, {before, us});
    }
    return outcome;
  }

 private:
  Backend* m_backend = referenceBackend(kPluginVersion);
};

std::unique_ptr<DeviceContext> tunedInProcess() {
  return DeviceContext::of(std::move(*referenceBackend(kPluginVersion)->open("reference", 1)), nullptr,
                           std::make_unique<InProcess>());
}

// Whose gate lets no kernel pass that writes this tensor.
class Refusing final : public Evaluator {
 public:
  explicit Refusing(std::string tensor) : m_tensor(std::move(tensor)) {}
  CompileOutcome compile(CompileJob job, std::stop_token stop) override { return m_inner.compile(std::move(job), stop); }
  MeasureOutcome measure(MeasureJob job, std::stop_token stop) override {
    const Program& p = *job.subgraph;
    const bool wrong =
        std::any_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return p[o.tensor].name == m_tensor; });
    if (!wrong) return m_inner.measure(std::move(job), stop);
    MeasureOutcome outcome;
    outcome.status = TrialStatus::Wrong;
    outcome.reason = outcome.gate.failure = m_tensor + "[1] is 2, expected 3";
    return outcome;
  }

 private:
  InProcess m_inner;
  std::string m_tensor;
};

TrainOptions dynamicOptions(bool lastWordInSteps) {
  TrainOptions o = optionsFor(kDigits);
  o.mode = "dynamic";
  o.steps = 1000000;
  o.evaluate = false;
  o.tuning.deviceShare = 1;
  o.tuning.lastWordInSteps = lastWordInSteps;
  o.tuning.space = [](const Program&, const Target&) -> Result<std::unique_ptr<ScheduleSpace>> {
    return std::unique_ptr<ScheduleSpace>(std::make_unique<fakes::Space>());
  };
  return o;
}

// The place of the operator, and something that helps.
TEST(Train, AKernelThatTheGateRefusesIsToldAtItsOperator) {
  const std::string text =
      "input x[64] = normal(0, 1)\nparam w[64] = normal(0, 1)\ny[i] = x[i] * w[i]\nz[i] = tanh(y[i])\n"
      "loss L = mean[i] (z[i] - 1)^2\nshow z, y\nhint fuse y, z\n"
      "train L { steps = 2; optimizer = sgd(lr=0.1); mode = static; seed = 1 }\n";
  const auto context = DeviceContext::of(std::move(*referenceBackend(kPluginVersion)->open("reference", 1)), nullptr,
                                         std::make_unique<Refusing>("z"));
  RunOptions run;
  run.source = {"test.nf", "", text};
  run.tensors = {"z", "y"};
  run.tuning.space = dynamicOptions(false).tuning.space;
  RunJob job(*context, run);
  const auto prepared = job.prepare({});
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().stage, kGateStage);
  EXPECT_THAT(prepared.error().message, testing::StartsWith("No kernel for "));
  EXPECT_THAT(prepared.error().message,
              HasSubstr("z[1] is 2, expected 3. That is more than rounding explains; what helps is `hint split y, z`, "));
  EXPECT_EQ(job.notebook().sources.lineColumn(job.place()).line, 4);

  TrainOptions o = optionsFor(text);
  o.verify = false;
  o.tuning.space = run.tuning.space;
  const auto other = DeviceContext::of(std::move(*referenceBackend(kPluginVersion)->open("reference", 1)), nullptr,
                                       std::make_unique<Refusing>("L"));
  std::vector<protocol::Message> messages;
  TrainJob training(*other, o, [&](const protocol::Message& m) { messages.push_back(m); });
  ASSERT_FALSE(training.run({}).ok());
  const auto errors = only<protocol::ErrorEvent>(messages);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].line, 5) << errors[0].message;
  EXPECT_THAT(errors[0].message, HasSubstr("the device `reference`"));
}

TEST(Train, DynamicModeSwapsKernelsAndItsLogReplaysBitIdentically) {
  const fakes::Folder folder;
  for (const bool inSteps : {false, true}) {
    SCOPED_TRACE(inSteps ? "last word in steps" : "last word of the measuring worker");
    const auto context = tunedInProcess();
    TrainOptions o = dynamicOptions(inSteps);
    o.outputRoot = folder.path(inSteps ? "a" : "b");
    std::stop_source stop;
    std::atomic<int> events{0};
    TrainJob job(*context, o, [&](const protocol::Message& m) {
      // A kernel for good, or a dozen candidates that steps had the last word on.
      if (inSteps ? std::holds_alternative<protocol::TrialEvent>(m) && ++events > 40
                  : std::holds_alternative<protocol::KernelSwapEvent>(m))
        stop.request_stop();
    });
    const auto summary = job.run(stop.get_token());
    ASSERT_TRUE(summary.ok()) << summary.error().message << " " << summary.error().detail;
    const auto trained = readCheckpoint(summary->checkpoint);
    ASSERT_TRUE(trained.ok());
    ASSERT_GT(summary->swaps.size(), 0u);

    TrainOptions again = dynamicOptions(inSteps);
    again.steps = trained->step;
    again.replaySwaps = summary->folder + "/swaps.jsonl";
    again.outputRoot = folder.path(inSteps ? "a2" : "b2");
    TrainJob replay(*context, again, {});
    const auto replayed = replay.run({});
    ASSERT_TRUE(replayed.ok()) << replayed.error().message;
    EXPECT_EQ(readCheckpoint(replayed->checkpoint)->tensors, trained->tensors);
    EXPECT_EQ(replayed->swaps, summary->swaps);

    // What a log decides makes the steps of the mode that it is of.
    TrainOptions onward = dynamicOptions(inSteps);
    onward.steps = trained->step + 3;
    onward.replaySwaps = again.replaySwaps;
    onward.resume = summary->checkpoint;
    std::vector<protocol::Message> messages;
    TrainJob resumed(*context, onward, [&](const protocol::Message& m) { messages.push_back(m); });
    ASSERT_TRUE(resumed.run({}).ok());
    for (const auto& warning : only<protocol::WarningEvent>(messages)) ADD_FAILURE() << warning.message;
  }
}

// The only run below `root`.
std::string runIn(const std::string& root) {
  for (const auto& entry : std::filesystem::directory_iterator(root)) return entry.path().string();
  return {};
}

TEST(Train, TheSwapLogIsOnDiskBehindEveryStep) {
  const fakes::Folder folder;
  const auto context = tunedInProcess();
  TrainOptions o = dynamicOptions(true);
  o.outputRoot = folder.path("out");
  std::stop_source stop;
  int trials = 0;
  std::vector<std::pair<std::int64_t, std::string>> seen;  // after so many steps, what stood there
  TrainJob job(*context, o, [&](const protocol::Message& m) {
    if (std::holds_alternative<protocol::TrialEvent>(m) && ++trials > 40) stop.request_stop();
    if (const auto* s = std::get_if<protocol::StepEvent>(&m))
      seen.emplace_back(s->step - 1, *readFile(runIn(o.outputRoot) + "/swaps.jsonl"));
  });
  const auto summary = job.run(stop.get_token());
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  ASSERT_GE(seen.size(), 2u);
  for (const auto& [steps, text] : seen) {
    // All of the steps before the one that was told, which is being finished; behind the last one its own too.
    const std::vector<KernelSwap> logged = *swapsFromJsonLines(text);
    ASSERT_LE(logged.size(), summary->swaps.size());
    EXPECT_TRUE(std::equal(logged.begin(), logged.end(), summary->swaps.begin())) << "after " << steps;
    const auto before = [&](std::int64_t step) {
      return static_cast<std::size_t>(
          std::count_if(summary->swaps.begin(), summary->swaps.end(), [&](const KernelSwap& s) { return s.step < step; }));
    };
    EXPECT_GE(logged.size(), before(steps)) << "after " << steps;
    EXPECT_LE(logged.size(), before(steps + 1)) << "after " << steps;
  }
  EXPECT_FALSE(swapsFromJsonLines(seen.back().second)->empty());
  EXPECT_EQ(*readFile(summary->folder + "/swaps.jsonl"), toJsonLines(summary->swaps));
}

TEST(KernelSwaps, ALineThatIsCutOffIsLeftOut) {
  const std::vector<KernelSwap> swaps{
      {0, hashFromHex(std::string(31, '0') + "7").value(), R"({"kind":"rows","knobs":{"tile":[8,4]}})", false, {}},
      {2, {}, {}, false, DeviceConstants{1.7e10 / 3, 5.1e10, 1e-7 / 3}},
      {3, hashFromHex(std::string(31, '0') + "9").value(), {}, true, {}},
      {4, hashFromHex(std::string(31, '0') + "a").value(), {}, true, {}, {Hash{2, 1}, Hash{3, 1}}},
      {5, hashFromHex(std::string(31, '0') + "7").value(), R"({"kind":"rows","knobs":{}})", false, {}}};
  const std::string text = toJsonLines(swaps);
  EXPECT_EQ(*swapsFromJsonLines(text), swaps);
  EXPECT_EQ(*swapsFromJsonLines(text.substr(0, text.size() - 1)), swaps) << "whole but for its newline";
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t end = last; end + 1 < text.size(); ++end)
    EXPECT_EQ(*swapsFromJsonLines(text.substr(0, end)), std::vector(swaps.begin(), swaps.end() - 1)) << end;
  EXPECT_FALSE(swapsFromJsonLines("{\"step\": wh").ok()) << "nothing whole stands before it";
  EXPECT_FALSE(swapsFromJsonLines("{\"step\": what\n" + text).ok());
  for (const char* constants : {"3", "{}", R"({"P_d":1e10,"P_c":1e10,"L":0})", R"({"P_d":1e10,"P_c":"fast","L":1e-6})"})
    EXPECT_FALSE(swapsFromJsonLines(std::string(R"({"step":0,"fused_for":)") + constants + "}\n" + text).ok()) << constants;
  for (const char* parts : {R"(["no hash"])", "[3]", "3"})
    EXPECT_FALSE(
        swapsFromJsonLines(R"({"step":0,"reverted":")" + std::string(32, '0') + R"(","parts":)" + parts + "}\n" + text).ok())
        << parts;
}

// As a full disk has it: no file may grow.
class FullDisk {
 public:
  FullDisk() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &m_before), 0);
    m_handler = signal(SIGXFSZ, SIG_IGN);
    set(0);
  }
  ~FullDisk() { clear(); }
  void clear() {
    set(m_before.rlim_cur);
    signal(SIGXFSZ, m_handler);
  }

 private:
  void set(rlim_t bytes) {
    const rlimit limit{bytes, m_before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  rlimit m_before{};
  void (*m_handler)(int) = SIG_DFL;
};

TEST(Train, AFullDiskCostsTheCheckpointNotTheTraining) {
  const fakes::Folder folder;
  const auto context = interpreter();
  TrainOptions o = optionsFor(kDigits);
  o.steps = 1000000;
  o.evaluate = false;
  o.outputRoot = folder.path("out");
  o.checkpointSeconds = 1e-6;
  std::stop_source stop;
  std::optional<FullDisk> full;
  std::int64_t failedAt = -1, after = 0;
  bool saidInState = false, saidStill = false;
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) {
    if (std::holds_alternative<protocol::FirstStepEvent>(m)) {
      std::filesystem::remove(runIn(o.outputRoot) + "/checkpoint.safetensors");
      full.emplace();
    }
    if (const auto* s = std::get_if<protocol::RunState>(&m)) {
      const bool says = s->detail.find("checkpoint of step") != std::string::npos;
      saidInState = saidInState || says;
      saidStill = says && s->phase == protocol::RunPhase::Training;
    }
    if (const auto* e = std::get_if<protocol::CheckpointFailedEvent>(&m)) failedAt = e->step;
    if (const auto* s = std::get_if<protocol::StepEvent>(&m); s && failedAt >= 0) {
      // A few more that fail, then there is room again, and training goes on until a checkpoint is there.
      if (full && ++after == 4) full.reset();
      if (!full && !saidStill && std::filesystem::exists(runIn(o.outputRoot) + "/checkpoint.safetensors")) stop.request_stop();
    }
    messages.push_back(m);
  });
  const auto summary = job.run(stop.get_token());
  full.reset();
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_FALSE(summary->unsaved) << summary->unsaved->message;
  EXPECT_GT(summary->done.steps, failedAt);
  EXPECT_GE(summary->done.checkpoints_failed, 1);
  EXPECT_TRUE(saidInState);
  const auto failures = only<protocol::CheckpointFailedEvent>(messages);
  ASSERT_EQ(failures.size(), 1u) << "said once";
  EXPECT_THAT(failures[0].message, HasSubstr("checkpoint.safetensors: cannot be written (File too large). Training goes on"));
  EXPECT_EQ(readCheckpoint(summary->checkpoint)->step, summary->done.steps);
  EXPECT_THAT(*readFile(summary->folder + "/events.jsonl"), HasSubstr("\"checkpoint_failed\""));
  EXPECT_EQ(readSteps(summary->folder + "/steps.bin")->size(), static_cast<std::size_t>(summary->done.steps));
}

TEST(Train, AFullDiskAtTheEndIsAnErrorBehindTheResult) {
  const fakes::Folder folder;
  const auto context = interpreter();
  TrainOptions o = optionsFor(kDigits);
  o.steps = 5;
  o.evaluate = false;
  o.outputRoot = folder.path("out");
  std::optional<FullDisk> full;
  std::vector<protocol::Message> messages;
  TrainJob job(*context, o, [&](const protocol::Message& m) {
    if (std::holds_alternative<protocol::FirstStepEvent>(m)) full.emplace();
    messages.push_back(m);
  });
  const auto summary = job.run({});
  full.reset();
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->done.steps, 5);
  ASSERT_TRUE(summary->unsaved);
  EXPECT_EQ(summary->unsaved->stage, "save");
  EXPECT_THAT(summary->unsaved->message, HasSubstr("its checkpoint was not written"));
  ASSERT_EQ(only<protocol::DoneEvent>(messages).size(), 1u);
  ASSERT_EQ(only<protocol::ErrorEvent>(messages).size(), 1u);
  EXPECT_EQ(only<protocol::ErrorEvent>(messages)[0].message, summary->unsaved->message);
}

TEST(RunFolder, WhatCannotBeWrittenIsTold) {
  const fakes::Folder folder;
  auto run = RunFolder::create(folder.path("r"));
  ASSERT_TRUE(run.ok());
  (*run)->addEvent("{}");
  (*run)->flush();
  EXPECT_TRUE((*run)->failure().empty());
  std::optional<FullDisk> full(std::in_place);
  (*run)->addEvent("{\"event\":\"late\"}");
  (*run)->addSwaps("{}\n");
  for (int i = 0; i < 300; ++i) (*run)->addStep({i, i * 0.5, 1.25, 0, 1});
  (*run)->flush();
  EXPECT_THAT((*run)->failure(), HasSubstr("not complete"));
  // When there is room again it all goes on where it stopped.
  full.reset();
  (*run)->flush();
  EXPECT_TRUE((*run)->failure().empty());
  EXPECT_EQ(*readFile((*run)->file("events.jsonl")), "{}\n{\"event\":\"late\"}\n");
  EXPECT_EQ(*readFile((*run)->file("swaps.jsonl")), "{}\n");
  EXPECT_EQ(readSteps((*run)->file("steps.bin"))->size(), 300u);
}

TEST(RunFolder, AChunkThatIsCutOffIsIgnored) {
  const fakes::Folder folder;
  std::string path;
  {
    auto run = RunFolder::create(folder.path("r"));
    ASSERT_TRUE(run.ok());
    for (int i = 0; i < 300; ++i) (*run)->addStep({i, i * 0.5, 1.25, 0, NAN});
    path = (*run)->file("steps.bin");
  }
  EXPECT_EQ(readSteps(path)->size(), 300u);
  EXPECT_EQ(readSteps(path)->at(299).seconds, 149.5);
  const std::string bytes = *readFile(path);
  ASSERT_TRUE(writeFileAtomically(path, bytes.substr(0, bytes.size() - 1)).ok());
  EXPECT_EQ(readSteps(path)->size(), 256u);
  ASSERT_TRUE(writeFileAtomically(path, bytes.substr(0, 9)).ok());
  EXPECT_FALSE(readSteps(path).ok());
}

}  // namespace
}  // namespace nf
