// SPDX-License-Identifier: Apache-2.0
// Trainings of the engine, in its own process: their series and weights, and what goes on from their checkpoints.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/runtime/checkpoint.h"
#include "core/runtime/run_folder.h"
#include "tests/session/engine_jobs.h"
#include "tests/session/engine_process.h"

namespace nf {
namespace {

using namespace protocol;

TEST_F(EngineJobs, TrainingGoesToItsEndAndLeavesItsSeries) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const RequestId id = engine.newId();
  engine.send(train(0), id);
  const auto done = engine.await<DoneEvent>();
  engine.await<Finished>(id);
  const std::int64_t steps = 2 * (1437 / 32);
  EXPECT_EQ(done.steps, steps);
  EXPECT_FALSE(done.stopped);
  EXPECT_GT(*done.accuracy, 0.5) << "chance is 0.1";
  EXPECT_EQ(engine.passed<FirstStepEvent>().size(), 1u);
  // The first epoch's as soon as its kernels are there, which may be after the last step; then the end's says it.
  const auto evals = engine.passed<EvalEvent>();
  ASSERT_FALSE(evals.empty());
  EXPECT_LE(evals.size(), 2u);
  EXPECT_EQ(evals.back().step, steps);
  EXPECT_EQ(evals.back().accuracy, done.accuracy);
  std::int64_t told = 0;
  for (const StepEvent& e : engine.passed<StepEvent>()) told += e.steps;
  EXPECT_EQ(told, steps);
  std::set<RunPhase> phases;
  for (const RunState& s : engine.passed<RunState>()) phases.insert(s.phase);
  EXPECT_TRUE(phases.contains(RunPhase::Preparing));
  EXPECT_TRUE(phases.contains(RunPhase::Training));

  for (const char* name : {"latency", "loss"}) {
    SCOPED_TRACE(name);
    SeriesRequest request;
    request.name = name;
    request.buckets = 3;
    const auto series = engine.ask<Series>(request);
    EXPECT_EQ(series.points, static_cast<std::int64_t>(engine.passed<StepEvent>().size()));
    ASSERT_LE(series.buckets.size(), 3u);
    EXPECT_EQ(series.buckets.back().x, static_cast<double>(steps));
  }
  SeriesRequest none;
  none.name = "nonsense";
  EXPECT_EQ(engine.ask<Series>(none).points, 0);
  // Every trial that was told of can be asked for.
  std::map<std::string, std::set<std::uint64_t>> told_trials;
  for (const TrialEvent& e : engine.passed<TrialEvent>()) told_trials[e.subgraph].insert(e.number);
  EXPECT_FALSE(told_trials.empty());
  for (const auto& [subgraph, numbers] : told_trials)
    EXPECT_EQ(engine.ask<Trials>(TrialsRequest{subgraph, 0, 5000}).total, numbers.size());
  const std::string checkpoint = *newestCheckpoint(m_folder.path("test.nf.out")),
                    folder = checkpoint.substr(0, checkpoint.rfind('/'));
  std::ifstream record(folder + "/run.json");
  EXPECT_FALSE(nlohmann::json::parse(record)["versions"]["neoflow"].get<std::string>().empty());
  const auto run = readSteps(folder + "/steps.bin");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->size(), static_cast<std::size_t>(steps));
}

// What a cell computes after a training goes on from what was learnt, until the parameter is declared another way.
TEST_F(EngineJobs, CellsThatRunAfterATrainingUseWhatItLearnt) {
  EngineProcess engine(m_folder.path(""));
  const auto values = [&](const char* tensor, std::int64_t step) {
    const auto slice = engine.ask<TensorSlice>(TensorRequest{tensor, {}, {}, 65536});
    EXPECT_EQ(slice.step, step) << tensor;
    return unpackValues(engine.binary());
  };
  engine.document(kDigits);
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  const auto initial = values("W", -1), before = values("Z", -1);
  engine.ask<Finished>(train(20, "static"));
  const auto learnt = values("W", 20);
  ASSERT_NE(learnt, initial);
  const auto asked = values("Z", 20);
  EXPECT_NE(asked, before) << "computed when it was asked for";

  engine.ask<Finished>(RunRequest{1, {1}, "auto", {}});
  EXPECT_EQ(values("W", 20), learnt);
  EXPECT_EQ(values("Z", 20), asked);

  std::string edited = kDigits;
  edited.replace(edited.find("tanh(Z"), 4, "sin");
  engine.document(edited, 2);
  engine.ask<Finished>(RunRequest{2, {2}, "auto", {}});
  EXPECT_EQ(values("W", 20), learnt) << "an edit elsewhere";

  edited.replace(edited.find("0.05"), 4, "0.06");
  engine.document(edited, 3);
  engine.ask<Finished>(RunRequest{3, {1}, "auto", {}});
  const auto again = values("W", -1);
  ASSERT_EQ(again.size(), initial.size());
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_NEAR(again[i], initial[i] * 1.2, 1e-6);
}

// The interpreter leaves its values in double precision: any device goes on from them.
TEST_F(EngineJobs, ARunGoesOnFromWhatAnotherDeviceHasLearnt) {
  const auto valuesOf = [](EngineProcess& engine, std::int64_t step) {
    const auto slice = engine.ask<TensorSlice>(TensorRequest{"W", {}, {}, 65536});
    EXPECT_EQ(slice.step, step);
    return unpackValues(engine.binary());
  };
  std::ofstream(m_folder.path("test.nf")) << kDigits;
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  };
  std::vector<double> learnt, initial;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    engine.ask<Finished>(RunRequest{1, {}, "cpu", {}});
    initial = valuesOf(engine, -1);
    TrainRequest request = train(20, "static");
    request.device = "reference";
    engine.ask<Finished>(request);
    learnt = valuesOf(engine, 20);
    EXPECT_NE(learnt, initial);
    engine.ask<Finished>(RunRequest{1, {}, "cpu", {}});
    near(valuesOf(engine, 20), learnt);
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  engine.ask<Finished>(RunRequest{1, {}, "cpu", {}});
  near(valuesOf(engine, 20), learnt);
}

// An older run that somebody chose is what cells are computed with, until the next training.
TEST_F(EngineJobs, ValuesAreThoseOfTheRunThatWasChosen) {
  std::ofstream(m_folder.path("test.nf")) << kDigits;
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto values = [&](std::int64_t step) {
    const auto slice = engine.ask<TensorSlice>(TensorRequest{"W", {}, {}, 65536});
    EXPECT_EQ(slice.step, step);
    return unpackValues(engine.binary());
  };
  const auto newest = [&] {
    const auto found = newestCheckpoint(m_folder.path("test.nf.out"));
    EXPECT_TRUE(found) << found.error().message;
    return found.value();
  };
  engine.ask<Finished>(train(10, "static"));
  const std::vector<double> first = values(10);
  const std::string older = newest();
  engine.ask<Finished>(train(20, "static"));
  const std::vector<double> second = values(20);
  ASSERT_NE(first, second);
  engine.ask<Finished>(ValuesRequest{older});
  EXPECT_EQ(values(10), first);
  engine.ask<Finished>(RunRequest{1, {}, "cpu", {}});
  EXPECT_EQ(values(10), first);
  engine.ask<Finished>(ValuesRequest{});
  EXPECT_EQ(values(20), second);
  engine.ask<Finished>(ValuesRequest{older});
  engine.ask<Finished>(train(20, "static"));
  EXPECT_EQ(values(20), second);
  engine.ask<Finished>(ValuesRequest{m_folder.path("gone.safetensors")});
  const auto told = engine.ask<CellResult>(RunRequest{1, {0}, "cpu", {}});
  EXPECT_NE(told.message.find("Computed with initial values"), std::string::npos) << told.message;
}

// The same of an engine that was started anew, from the newest run's checkpoint; where a parameter is declared another way since,
// the cells that read it say so, and no others.
TEST_F(EngineJobs, ANewEngineGoesOnFromTheCheckpointBesideTheNotebook) {
  const auto valuesOf = [](EngineProcess& engine, const char* tensor, std::int64_t step) {
    const auto slice = engine.ask<TensorSlice>(TensorRequest{tensor, {}, {}, 65536});
    EXPECT_EQ(slice.step, step) << tensor;
    return unpackValues(engine.binary());
  };
  const std::string text = std::string(kDigits) + "# %%\nparam V[4] = normal(2, 0)\nU[i] = V[i] + 1\n";
  std::ofstream(m_folder.path("test.nf")) << text;
  std::vector<double> learnt, computed;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(text);
    engine.ask<Finished>(train(20, "static"));
    learnt = valuesOf(engine, "W", 20);
    engine.ask<Finished>(RunRequest{1, {1}, "auto", {}});
    computed = valuesOf(engine, "Z", 20);
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(text);
  EXPECT_EQ(valuesOf(engine, "W", 20), learnt) << "before anything ran";
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  EXPECT_EQ(valuesOf(engine, "W", 20), learnt);
  EXPECT_EQ(valuesOf(engine, "Z", 20), computed);
  for (const CellResult& c : engine.passed<CellResult>()) EXPECT_EQ(c.message, "") << c.cell;

  std::string edited = text;
  edited.replace(edited.find("0.05"), 4, "0.06");
  engine.document(edited, 2);
  engine.ask<Finished>(RunRequest{2, {}, "auto", {}});
  EXPECT_NE(valuesOf(engine, "W", -1), learnt);
  std::map<std::uint32_t, std::string> said;
  for (const CellResult& c : engine.passed<CellResult>())
    if (c.revision == 2) said[c.cell] = c.message;
  EXPECT_EQ(said[1], "`W` has its initial value: it was declared another way when the notebook was trained.");
  EXPECT_EQ(said[2], said[1]);
  EXPECT_EQ(said[4], "") << "it reads V alone";

  // A notebook without a file has nothing of another one that was trained under its name.
  std::filesystem::remove(m_folder.path("test.nf"));
  engine.document(text, 3);
  engine.ask<Finished>(RunRequest{3, {1}, "auto", {}});
  EXPECT_NE(valuesOf(engine, "W", -1), learnt);
}

// A new name for a parameter is no new parameter, in this engine and in the next one. One that stands at another place of the loss is
// one, and the cells that read it say so.
TEST_F(EngineJobs, ARenamedParameterKeepsWhatItLearnt) {
  const auto valuesOf = [](EngineProcess& engine, const char* tensor, std::int64_t step) {
    const auto slice = engine.ask<TensorSlice>(TensorRequest{tensor, {}, {}, 65536});
    EXPECT_EQ(slice.step, step) << tensor;
    return unpackValues(engine.binary());
  };
  const auto messagesOf = [](EngineProcess& engine, std::uint64_t revision) {
    std::map<std::uint32_t, std::string> said;
    for (const CellResult& c : engine.passed<CellResult>())
      if (c.revision == revision) said[c.cell] = c.message;
    return said;
  };
  std::string renamed = kDigits;
  renamed.replace(renamed.find("param W["), 8, "param Weight[");
  renamed.replace(renamed.find("* W["), 4, "* Weight[");
  std::ofstream(m_folder.path("test.nf")) << renamed;
  std::vector<double> learnt, computed;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    engine.ask<Finished>(train(20, "static"));
    learnt = valuesOf(engine, "W", 20);
    engine.document(renamed, 2);
    EXPECT_EQ(valuesOf(engine, "Weight", 20), learnt) << "before anything ran";
    engine.ask<Finished>(RunRequest{2, {1}, "auto", {}});
    EXPECT_EQ(valuesOf(engine, "Weight", 20), learnt);
    computed = valuesOf(engine, "Z", 20);
    EXPECT_EQ(messagesOf(engine, 2)[1], "");
    engine.document(kDigits, 3);
    engine.ask<Finished>(RunRequest{3, {1}, "auto", {}});
    EXPECT_EQ(valuesOf(engine, "Z", 20), computed) << "under the name that was trained";
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(renamed);
  engine.ask<Finished>(RunRequest{1, {1}, "auto", {}});
  EXPECT_EQ(valuesOf(engine, "Weight", 20), learnt);
  EXPECT_EQ(valuesOf(engine, "Z", 20), computed);

  std::string another = renamed;
  another.replace(another.find("tanh(Z"), 4, "sin");
  engine.document(another, 2);
  engine.ask<Finished>(RunRequest{2, {1}, "auto", {}});
  EXPECT_NE(valuesOf(engine, "Weight", -1), learnt);
  EXPECT_EQ(messagesOf(engine, 2)[1],
            "`Weight` has its initial value: what was learnt is of `W`, and the notebook has no such name now.");
}

// However short it was: what a training has learnt can be looked at when it has ended.
TEST_F(EngineJobs, ATrainingLeavesItsWeights) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto weights = [&](std::int64_t steps) {
    engine.ask<Finished>(train(steps, "static"));
    const auto slice = engine.ask<TensorSlice>(TensorRequest{"W", {}, {}, 10000});
    EXPECT_EQ(slice.step, steps);
    return unpackValues(engine.binary());
  };
  const auto one = weights(1), again = weights(1), three = weights(3);
  EXPECT_EQ(one.size(), 640u);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, three);
}

// What is resumed is the newest run, not whichever run has left a checkpoint.
TEST_F(EngineJobs, ARunIsResumedFromItsOwnCheckpointOrNotAtAll) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  engine.ask<Finished>(train(5, "static"));
  const std::string root = m_folder.path("test.nf.out"), first = *newestCheckpoint(root);
  const auto begin = [&](const std::string& resumed) {
    const std::string folder = root + "/9999-12-31-00000" + std::to_string(resumed.empty() ? 0 : 1);
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/run.json") << nlohmann::json{{"train", "L"}, {"settings", {{"resume", resumed}}}};
  };
  begin("");
  auto further = train(10, "static");
  further.resume = "newest";
  EXPECT_EQ(engine.ask<Failed>(further).message,
            "The newest run, 9999-12-31-000000, left no checkpoint: train again, or name the folder of an older run.");
  begin(first);
  EXPECT_EQ(*newestCheckpoint(root), first);
}

TEST_F(EngineJobs, AKilledEngineLeavesNothingRunningAndTheNextOneGoesOn) {
  const auto newest = [&] { return readCheckpoint(*newestCheckpoint(m_folder.path("test.nf.out"))); };
  std::vector<pid_t> workers;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    engine.ask<Finished>(train(30, "static"));
    EXPECT_EQ(newest()->step, 30);
    auto further = train(1'000'000'000, "static");
    further.resume = "newest";
    engine.send(further, engine.newId());
    engine.awaitThat([](const Envelope& e) {
      const auto* s = std::get_if<StepEvent>(&e.message);
      return s && s->step > 40;
    });
    workers = engine.children();
    EXPECT_GE(workers.size(), 2u);
    engine.kill();
  }
  for (const pid_t worker : workers) awaitEnd(worker);
  EXPECT_EQ(newest()->step, 30) << "a checkpoint is whole or not there";

  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    auto rest = train(60, "static");
    rest.resume = "newest";
    const RequestId id = engine.newId();
    engine.send(rest, id);
    EXPECT_EQ(engine.await<DoneEvent>().steps, 60);
    engine.await<Finished>(id);
  }
  const auto resumed = newest();
  EXPECT_EQ(resumed->step, 60);

  // The same as if nothing had happened.
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  engine.ask<Finished>(train(60, "static"));
  const auto whole = newest();
  EXPECT_EQ(whole->tensors, resumed->tensors);
}

// Kernels that cost next to nothing are left alone once they have been timed: while it runs and behind it the same is said.
TEST_F(EngineJobs, ASearchThatHasNothingLeftIsToldSoAfterAStop) {
  SearchState search = SearchState::Unknown;
  for (int run = 0; run < 20 && search != SearchState::Finished; ++run) {
    EngineProcess engine(m_folder.path(""));
    engine.document(
        "\n# %%\nparam w[2] = normal(0, 1)\nloss L = mean[i] (w[i] - 0.5)^2\n"
        "train L { steps = 10; optimizer = sgd(lr=1e-2); mode = dynamic; seed = 3 }\n");
    auto request = train(1'000'000'000'000);
    request.cell = 1;
    const RequestId id = engine.newId();
    engine.send(request, id);
    engine.awaitThat([](const Envelope& e) {
      const auto* s = std::get_if<RunState>(&e.message);
      return s && s->trials > 0 && s->detail.find("nothing left") != std::string::npos;
    });
    engine.send(StopRequest{});
    search = engine.await<DoneEvent>().search;
    engine.await<Finished>(id);
    EXPECT_NE(search, SearchState::Unbegun) << "run " << run;
  }
  EXPECT_EQ(search, SearchState::Finished);
}

TEST_F(EngineJobs, AResumeWithoutACheckpointIsRefused) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  auto request = train(3);
  request.resume = "newest";
  EXPECT_EQ(engine.ask<Failed>(request).stage, "resume");
}

}  // namespace
}  // namespace nf
