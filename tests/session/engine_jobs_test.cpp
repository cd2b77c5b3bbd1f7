// SPDX-License-Identifier: Apache-2.0
// The engine as a user meets it: its own process, workers, the real CPU back end, driven over the protocol.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

#include "core/runtime/checkpoint.h"
#include "core/runtime/run_folder.h"
#include "tests/session/engine_process.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace protocol;

// A head on the bundled digits: a contraction, an elementwise chain, a row reduction, and gradients of all.
constexpr const char* kDigits = R"(
# %%
let B = 32
data D = digits { split = last 360 }
input X[B, 64] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]
param W[10, 64] = normal(0, 0.05)
Z[b, n] = sum[k] X[b, k] * W[n, k]
# %%
P[b, n] = tanh(Z[b, n])
loss L = mean[b, n] (P[b, n] - select(y[b] == n, 1, 0))^2
eval accuracy = mean[b] (argmax[n] Z[b, n] == y[b])
# %%
train L { epochs = 2; batch = 32; optimizer = adam(lr=1e-2); mode = dynamic; seed = 3 }
)";
constexpr std::uint32_t kTrainCell = 3;  // the text before the first mark is a cell

constexpr const char* kFormula = R"(
# %%
param w[6, 4] = normal(2, 0)
u[i, j] = w[i, j] * float(i) + float(j)
v[i, j] = u[i, j] * u[i, j]
s[i] = sum[j] v[i, j]
# %%
loss L = sum[i] s[i]
show d(L)/d(w)
)";

class EngineJobs : public ::testing::Test {
 protected:
  TrainRequest train(std::int64_t steps, const std::string& mode = {}) const {
    TrainRequest r;
    r.revision = 1;
    r.cell = kTrainCell;
    r.steps = steps;
    r.mode = mode;
    return r;
  }
  static void awaitStep(EngineProcess& engine) { engine.await<StepEvent>(); }

  fakes::Folder m_folder;
};

TEST_F(EngineJobs, RunComputesWhatSlicesShow) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kFormula);
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  const auto cells = engine.passed<CellResult>();
  ASSERT_EQ(cells.size(), 2u);
  for (const CellResult& c : cells) EXPECT_EQ(c.status, CellStatus::Ok) << c.message;
  EXPECT_NE(std::find(cells[0].tensors.begin(), cells[0].tensors.end(), "u"), cells[0].tensors.end());

  const auto slice = engine.ask<TensorSlice>(TensorRequest{"u", {1, 1}, {3, 4}, 65536});
  EXPECT_EQ(slice.shape, (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(slice.step, -1);
  EXPECT_EQ(unpackValues(engine.binary()), (std::vector<double>{3, 4, 5, 5, 6, 7}));
  EXPECT_EQ(slice.min, 0);
  EXPECT_EQ(slice.max, 13);
  std::int64_t counted = 0;
  for (const std::int64_t n : slice.histogram) counted += n;
  EXPECT_EQ(counted, 24);
  // Past the limit whole outer rows are cut off; past the tensor nothing is read.
  const auto cut = engine.ask<TensorSlice>(TensorRequest{"u", {}, {}, 8});
  EXPECT_EQ(cut.end, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(unpackValues(engine.binary()).size(), 8u);
  const auto outside = engine.ask<TensorSlice>(TensorRequest{"u", {-5, 9}, {99, 99}, 100});
  EXPECT_TRUE(unpackValues(engine.binary()).empty());
  EXPECT_EQ(outside.shape, (std::vector<std::int64_t>{6, 4}));
  engine.ask<TensorSlice>(TensorRequest{"d(L)/d(w)", {}, {}, 100});
  const auto gradient = unpackValues(engine.binary());
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 4; ++j) EXPECT_FLOAT_EQ(static_cast<float>(gradient[i * 4 + j]), 2.0f * (2 * i + j) * i);
  EXPECT_EQ(engine.ask<Failed>(TensorRequest{"nothing", {}, {}, 10}).stage, "tensor");
}

TEST_F(EngineJobs, ARunThatCannotBeSaysSoAndTheNextOneCan) {
  EngineProcess engine(m_folder.path(""));
  engine.document("data D = csv(\"missing.csv\")\ninput X[4, 2] = batch D[:, 0..2]\nY[b] = sum[k] X[b, k]\n");
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  bool told = false;
  for (const CellResult& c : engine.passed<CellResult>())
    told = told || (c.status == CellStatus::Error && c.message.find("missing.csv") != std::string::npos);
  EXPECT_TRUE(told);
  EXPECT_EQ(engine.ask<Failed>(RunRequest{1, {}, "cuda:9", {}}).stage, "open device");
  engine.document("param w[3] = normal(2, 0)\nu[i] = w[i] + 1\n", 2);
  engine.ask<Finished>(RunRequest{2, {0}, "reference", {}});
  engine.ask<TensorSlice>(TensorRequest{"u", {}, {}, 10});
  EXPECT_EQ(unpackValues(engine.binary()), (std::vector<double>{3, 3, 3}));
}

TEST_F(EngineJobs, ADeviceIsChosenForWhatFollows) {
  EngineProcess engine(m_folder.path(""));
  engine.document("param w[3] = normal(2, 0)\nu[i] = w[i] + 1\n");
  const auto inUse = [](const Devices& devices) {
    std::string name;
    for (const DeviceInfo& d : devices.devices)
      if (d.inUse) name += d.name;
    return name;
  };
  EXPECT_EQ(inUse(engine.ask<Devices>(DevicesRequest{false, "cpu"})), "cpu");
  EXPECT_EQ(engine.ask<Failed>(DevicesRequest{false, "cuda:9"}).stage, "open device");
  EXPECT_EQ(inUse(engine.ask<Devices>(DevicesRequest{})), "cpu");
  EXPECT_EQ(inUse(engine.ask<Devices>(DevicesRequest{false, "reference"})), "reference");
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  EXPECT_EQ(inUse(engine.ask<Devices>(DevicesRequest{})), "reference");
}

TEST_F(EngineJobs, KernelsShowTheirTextsAndKnobsAreMeasured) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1});
  ASSERT_FALSE(subgraphs.subgraphs.empty());
  std::set<std::string> kinds;
  for (const SubgraphInfo& s : subgraphs.subgraphs) {
    SCOPED_TRACE(s.name);
    EXPECT_FALSE(s.kind.empty());
    EXPECT_FALSE(s.operators.empty());
    kinds.insert(s.kind);
  }
  EXPECT_GT(kinds.size(), 1u) << "a contraction and others";
  const SubgraphInfo chosen = *std::max_element(subgraphs.subgraphs.begin(), subgraphs.subgraphs.end(),
                                                [](const auto& a, const auto& b) { return a.flops < b.flops; });

  const auto kernel = engine.ask<Kernel>(KernelRequest{chosen.id, {}, {}});
  EXPECT_EQ(kernel.subgraph, chosen.id);
  EXPECT_FALSE(kernel.expression.empty());
  std::set<std::string> languages;
  for (const KernelTextInfo& text : kernel.texts) {
    SCOPED_TRACE(text.language);
    languages.insert(text.language);
    EXPECT_FALSE(text.text.empty());
    EXPECT_TRUE(std::any_of(text.lineOrigins.begin(), text.lineOrigins.end(), [](const Origins& o) { return !o.empty(); }))
        << "no line leads back to the source";
  }
  EXPECT_EQ(languages, (std::set<std::string>{"asm", "llvm", "loops"}));
  const auto one = engine.ask<Kernel>(KernelRequest{chosen.id, {}, {"loops"}});
  ASSERT_EQ(one.texts.size(), 1u);
  EXPECT_EQ(engine.ask<Failed>(KernelRequest{"0123", {}, {}}).stage, "revision");
  EXPECT_EQ(engine.ask<Failed>(KernelRequest{chosen.id, 7, {}}).stage, "kernel") << "there is no trial yet";

  const auto space = engine.ask<Space>(SpaceRequest{chosen.id});
  EXPECT_EQ(space.kind, chosen.kind);
  ASSERT_FALSE(space.knobs.empty());
  const auto measured = engine.ask<TrialMeasured>(MeasureRequest{chosen.id, space.current});
  EXPECT_EQ(measured.trial.status, TrialStatus::Ok) << measured.trial.how;
  ASSERT_TRUE(measured.trial.us);
  EXPECT_GT(*measured.trial.us, 0);
  EXPECT_LE(*measured.trial.lowUs, *measured.trial.us);
  EXPECT_GE(*measured.trial.highUs, *measured.trial.us);
  for (const protocol::KnobInfo& knob : space.knobs) {
    if (knob.values.size() < 2) continue;
    auto json = nlohmann::json::parse(space.current.text);
    json["knobs"][knob.name] = nlohmann::json::parse(knob.values.back().text);
    if (json == nlohmann::json::parse(space.current.text)) continue;
    const RequestId id = engine.newId();
    engine.send(MeasureRequest{chosen.id, {json.dump()}}, id);
    const Envelope e = engine.awaitThat([id](const Envelope& m) { return m.id == id; });
    // A knob that can't be turned alone is refused with the reason.
    if (const auto* turned = std::get_if<TrialMeasured>(&e.message))
      EXPECT_TRUE(turned->trial.status == TrialStatus::Ok || turned->trial.status == TrialStatus::Slow) << turned->trial.how;
    else EXPECT_TRUE(std::holds_alternative<Failed>(e.message));
  }
  auto illegal = nlohmann::json::parse(space.current.text);
  illegal["knobs"] = {{"no such knob", -1}};
  engine.ask<Failed>(MeasureRequest{chosen.id, {illegal.dump()}});
  engine.ask<Failed>(MeasureRequest{chosen.id, {"[]"}});

  const auto trials = engine.ask<Trials>(TrialsRequest{chosen.id, 0, 5000});
  ASSERT_EQ(trials.total, trials.trials.size());
  ASSERT_GE(trials.total, 1u);
  EXPECT_EQ(trials.trials[0], measured.trial);
  EXPECT_EQ(engine.ask<Trials>(TrialsRequest{chosen.id, 99, 5000}).trials.size(), 0u);
  EXPECT_FALSE(engine.ask<Kernel>(KernelRequest{chosen.id, 0, {"asm"}}).texts.empty());
}

// The same expression in two cells is one kernel; its lines came from both.
TEST_F(EngineJobs, ALineOfAKernelCameFromEveryPlaceThatHasIt) {
  EngineProcess engine(m_folder.path(""));
  const std::string text =
      "# %%\ninput A[8, 16] = normal(0, 1)\nP[i] = sum[k] A[i, k] * A[i, k]\nshow P\n"
      "# %%\ninput B[8, 16] = normal(0, 1)\nQ[i] = sum[k] B[i, k] * B[i, k]\nshow Q\n";
  engine.send(DocumentReplaced{1, "test.nf", m_folder.path(""), text});
  const auto spans = engine.await<Analysis>().spans;
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  ASSERT_EQ(subgraphs.size(), 1u);
  EXPECT_EQ(subgraphs[0].callsPerStep, 2);
  const auto kernel = engine.ask<Kernel>(KernelRequest{subgraphs[0].id, {}, {"loops"}});
  ASSERT_EQ(kernel.texts.size(), 1u);
  std::set<std::string> tokens;
  for (const Origins& line : kernel.texts[0].lineOrigins)
    for (const std::uint32_t o : line) tokens.insert(text.substr(spans[o].begin, spans[o].end - spans[o].begin));
  EXPECT_TRUE(tokens.contains("A[i, k]"));
  EXPECT_TRUE(tokens.contains("B[i, k]"));
}

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

// What earlier runs have tried is shown before anything runs, and a trial of it can be measured once more.
TEST_F(EngineJobs, TrialsOnRecordAreShownByTheNextEngine) {
  std::map<std::string, std::set<std::string>> tried;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const RequestId id = engine.newId();
    engine.send(train(1'000'000'000), id);
    const auto timed = [](const TrialEvent& e) { return e.us && e.status == TrialStatus::Ok; };
    const Envelope first = engine.awaitThat([&](const Envelope& e) {
      const auto* trial = std::get_if<TrialEvent>(&e.message);
      return trial && timed(*trial);
    });
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
    const auto& trial = std::get<TrialEvent>(first.message);
    tried[trial.subgraph].insert(trial.schedule.text);
    for (const TrialEvent& e : engine.passed<TrialEvent>())
      if (timed(e)) tried[e.subgraph].insert(e.schedule.text);
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  std::map<std::string, SubgraphInfo> now;
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) now[s.id] = s;
  std::optional<std::pair<std::string, TrialInfo>> chosen;
  for (const auto& [subgraph, schedules] : tried) {
    if (!now.contains(subgraph)) continue;  // its fusion was undone
    SCOPED_TRACE(now[subgraph].name);
    EXPECT_TRUE(now[subgraph].us && now[subgraph].firstUs);
    EXPECT_EQ(now[subgraph].budgetShare, 0);
    std::set<std::string> known;
    for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{subgraph, 0, 5000}).trials) {
      known.insert(t.schedule.text);
      EXPECT_TRUE(t.how.ends_with("on record")) << t.how;
      if (t.generation > 0) { EXPECT_GT(t.how.size(), std::string("on record").size()) << "how it came about is on record, too"; }
      if (t.us) chosen = {subgraph, t};
    }
    for (const std::string& s : schedules) EXPECT_TRUE(known.contains(s)) << s;
  }
  ASSERT_TRUE(chosen);
  const auto total = engine.ask<Trials>(TrialsRequest{chosen->first, 0, 5000}).total;
  const auto again = engine.ask<TrialMeasured>(MeasureRequest{chosen->first, chosen->second.schedule, chosen->second.number}).trial;
  EXPECT_EQ(again.number, chosen->second.number);
  EXPECT_EQ(again.generation, chosen->second.generation);
  EXPECT_EQ(again.schedule, chosen->second.schedule);
  EXPECT_TRUE(again.how.starts_with("replay of c")) << again.how;
  EXPECT_TRUE(again.us) << again.how;
  // It is no trial of its own: there are as many as before, and the one that it repeats tells of it.
  const auto trials = engine.ask<Trials>(TrialsRequest{chosen->first, 0, 5000});
  EXPECT_EQ(trials.total, total);
  EXPECT_EQ(trials.trials[chosen->second.number].us, chosen->second.us);
  EXPECT_NE(trials.trials[chosen->second.number].how.find("; replayed: "), std::string::npos);
  // So is one by hand that turns no knob, however its schedule is written.
  const auto untouched =
      engine.ask<TrialMeasured>(MeasureRequest{chosen->first, {nlohmann::json::parse(chosen->second.schedule.text).dump(1)}, {}})
          .trial;
  EXPECT_EQ(untouched.number, chosen->second.number);
  EXPECT_TRUE(untouched.how.starts_with("replay of c")) << untouched.how;
  EXPECT_EQ(engine.ask<Trials>(TrialsRequest{chosen->first, 0, 5000}).total, total);
  // Another one by hand belongs to the newest generation and is counted by the list of kernels as by the trials.
  std::optional<TrialInfo> byHand;
  for (const protocol::KnobInfo& knob : engine.ask<Space>(SpaceRequest{chosen->first}).knobs)
    for (const JsonText& value : knob.values) {
      auto json = nlohmann::json::parse(chosen->second.schedule.text);
      json["knobs"][knob.name] = nlohmann::json::parse(value.text);
      const bool known = std::any_of(trials.trials.begin(), trials.trials.end(), [&](const TrialInfo& t) {
        return nlohmann::json::parse(t.schedule.text)["knobs"] == json["knobs"];
      });
      if (byHand || known) continue;
      const RequestId id = engine.newId();
      engine.send(MeasureRequest{chosen->first, {json.dump()}, {}}, id);
      const Envelope e = engine.awaitThat([id](const Envelope& m) { return m.id == id; });
      if (const auto* turned = std::get_if<TrialMeasured>(&e.message)) byHand = turned->trial;
    }
  ASSERT_TRUE(byHand) << "no knob can be turned alone";
  EXPECT_EQ(byHand->number, total);
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs)
    if (s.id == chosen->first) { EXPECT_EQ(static_cast<std::uint64_t>(s.trials), total + 1); }
}

// Of a notebook with a file: its trials, what it ran with and how its time was shared, although the engine that knew them is gone.
TEST_F(EngineJobs, TheTrialsOfARunOutliveTheirEngine) {
  std::ofstream(m_folder.path("test.nf")) << kDigits;
  struct Shown {
    std::map<std::string, std::tuple<std::optional<double>, TrialStatus, std::int64_t, std::string>> trials;
    std::string inUse;
    std::optional<double> us, firstUs;
    bool operator==(const Shown&) const = default;
  };
  double share = 0;
  const auto shown = [&](EngineProcess& engine) {
    std::map<std::string, Shown> all;
    share = 0;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
      Shown& one = all[s.id];
      one.inUse = s.inUse.text;
      one.us = s.us;
      one.firstUs = s.firstUs;
      share += s.budgetShare;
      for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{s.id, 0, 5000}).trials)
        one.trials[t.schedule.text] = {t.us, t.status, t.generation, t.how};
    }
    return all;
  };
  std::map<std::string, Shown> before;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const RequestId id = engine.newId();
    engine.send(train(1'000'000'000), id);
    int timed = 0;
    engine.awaitThat([&](const Envelope& e) {
      const auto* trial = std::get_if<TrialEvent>(&e.message);
      return trial && trial->us && ++timed >= 6;
    });
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
    before = shown(engine);
    engine.kill();
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto after = shown(engine);
  EXPECT_GT(share, 0) << "of the trials that the run made";
  ASSERT_EQ(after.size(), before.size());
  bool used = false;
  for (const auto& [subgraph, was] : before) {
    SCOPED_TRACE(subgraph);
    EXPECT_TRUE(after.at(subgraph) == was);
    EXPECT_EQ(after.at(subgraph).trials, was.trials);
    EXPECT_EQ(after.at(subgraph).inUse, was.inUse);
    used = used || !was.inUse.empty();
  }
  EXPECT_TRUE(used);
}

TEST_F(EngineJobs, ANotebookThatComputesNothingSaysWhatAProfileNeeds) {
  EngineProcess engine(m_folder.path(""));
  engine.document("# %%\nlet N = 4\n");
  const RequestId id = engine.newId();
  engine.send(ProfileRequest{1, 20}, id);
  const Envelope answer = engine.awaitThat([id](const Envelope& e) { return e.id == id; });
  const auto* failed = std::get_if<Failed>(&answer.message);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("nothing to profile yet"), std::string::npos) << failed->message;
}

TEST_F(EngineJobs, AnswersGoOnWhileItTrainsAndHostileLinesCostNothing) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const RequestId job = engine.newId();
  engine.send(train(1'000'000'000), job);
  engine.await<FirstStepEvent>();

  engine.sendBytes("this is no json\n");
  EXPECT_EQ(engine.await<Failed>().stage, "protocol");
  engine.sendBytes(std::string("\xff\xfe\x00\n", 4));
  engine.await<Failed>();
  engine.sendBytes("{\"type\":\"train\",\"id\":\"seven\",\"cell\":[]}\n");
  engine.await<Failed>();
  engine.sendBytes("{\"type\":\"get_tensor\",\"tensor\":\"W\",\"begin\":[\"x\"]}\n");
  engine.await<Failed>();
  engine.sendBytes("{\"type\":\"cancel\",\"request\":-3}\n");
  engine.await<Failed>();
  engine.sendBytes(std::string(200'000, '{') + "\n");
  engine.await<Failed>();
  engine.sendBytes("\n\n   \n");

  const auto slice = engine.ask<TensorSlice>(TensorRequest{"W", {0, 0}, {1, 4}, 100});
  EXPECT_GT(slice.step, 0);
  EXPECT_EQ(unpackValues(engine.binary()).size(), 4u);
  EXPECT_EQ(engine.ask<Failed>(TensorRequest{"no such tensor", {}, {}, 10}).stage, "tensor");
  const auto whole = engine.ask<GraphPage>(GraphRequest{1, "fused", 0, 2000});
  std::vector<GraphNode> paged;
  for (std::int64_t offset = 0; offset < whole.totalNodes; offset += 3)
    for (GraphNode& n : engine.ask<GraphPage>(GraphRequest{1, "fused", offset, 3}).nodes) paged.push_back(std::move(n));
  EXPECT_EQ(paged, whole.nodes);
  EXPECT_TRUE(engine.ask<GraphPage>(GraphRequest{1, "fused", -7, -2}).nodes.empty());
  EXPECT_TRUE(engine.ask<GraphPage>(GraphRequest{1, "source", INT64_MAX, INT64_MAX}).nodes.empty());
  EXPECT_EQ(engine.ask<Failed>(GraphRequest{1, "nonsense", 0, 10}).stage, "graph");
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1});
  EXPECT_FALSE(engine.ask<Kernel>(KernelRequest{subgraphs.subgraphs.front().id, {}, {"loops"}}).texts.empty());
  engine.send(BudgetRequest{0.1, {}});
  engine.send(PauseRequest{});
  engine.awaitThat([](const Envelope& e) {
    const auto* s = std::get_if<RunState>(&e.message);
    return s && s->phase == RunPhase::Paused;
  });
  EXPECT_GT(engine.ask<TensorSlice>(TensorRequest{"W", {}, {}, 10}).step, 0) << "a paused run has its values";
  engine.send(ResumeRequest{});
  awaitStep(engine);

  engine.send(StopRequest{});
  EXPECT_TRUE(engine.await<DoneEvent>().stopped);
  engine.await<Finished>(job);
}

TEST_F(EngineJobs, JobsAreCancelledByTheirIds) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const RequestId first = engine.newId(), second = engine.newId(), third = engine.newId();
  engine.send(train(1'000'000'000), first);
  engine.send(train(1'000'000'000), second);
  engine.send(RunRequest{1, {}, "auto", {}}, third);
  engine.await<FirstStepEvent>();
  engine.send(Cancel{second});
  engine.await<Cancelled>(second);
  engine.send(Cancel{4711});  // nobody's
  engine.send(PauseRequest{});
  engine.send(Cancel{first});  // also while it stands still
  engine.await<Cancelled>(first);
  engine.await<Finished>(third);
  EXPECT_EQ(engine.passed<FirstStepEvent>().size(), 0u);

  // A stop ends what runs by itself and takes back what waits.
  const RequestId running = engine.newId(), waiting = engine.newId();
  engine.send(train(1'000'000'000), running);
  engine.send(train(1'000'000'000), waiting);
  engine.await<FirstStepEvent>();
  engine.ask<Devices>(DevicesRequest{});  // answered in turn: both trainings are queued by now
  engine.send(StopRequest{});
  engine.await<Cancelled>(waiting);
  engine.await<Finished>(running);
}

TEST_F(EngineJobs, TuningIsOfWhatIsAskedFor) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  const SubgraphInfo chosen =
      *std::max_element(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  const RequestId id = engine.newId();
  TuneRequest request;
  request.revision = 1;
  request.subgraphs = {chosen.id};
  request.trials = 6;
  engine.send(request, id);
  engine.await<Finished>(id);
  const auto trials = engine.passed<TrialEvent>();
  EXPECT_GE(trials.size(), 2u);
  for (const TrialEvent& e : trials) EXPECT_EQ(e.subgraph, chosen.id);
  std::set<std::uint64_t> numbers;
  for (const TrialEvent& e : trials) numbers.insert(e.number);
  EXPECT_EQ(engine.ask<Trials>(TrialsRequest{chosen.id, 0, 100}).total, numbers.size());
  // An unknown one is told, and all are searched until a cancel.
  request.subgraphs = {"0123"};
  EXPECT_EQ(engine.ask<Failed>(request).stage, "tune");
  request.subgraphs = {};
  request.trials = 1'000'000;
  const RequestId all = engine.newId();
  engine.send(request, all);
  engine.await<TrialEvent>();
  engine.send(Cancel{all});
  engine.await<Cancelled>(all);
  // Fused kernels against their parts come first, each with its name and how many there are.
  const auto states = engine.passed<RunState>();
  EXPECT_TRUE(std::any_of(states.begin(), states.end(), [](const RunState& s) {
    return s.phase == RunPhase::Tuning && s.detail.starts_with("fused kernel 1 of ") &&
           s.detail.find(" against its parts: ") != std::string::npos;
  }));
  // Who is told that it is over finds nothing searching; and one rule says what is faster than the first kernel.
  const auto idle = [&] { return engine.await<RunState>().phase == RunPhase::Idle; };
  while (!idle()) {}
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
    EXPECT_NE(s.state, SubgraphState::Searching) << s.name;
    if (!s.us || !s.firstUs || *s.us == *s.firstUs) continue;
    const auto list = engine.ask<Trials>(TrialsRequest{s.id, 0, 10000}).trials;
    const auto first =
        std::find_if(list.begin(), list.end(), [](const TrialInfo& t) { return t.us && t.status == TrialStatus::Ok; });
    ASSERT_NE(first, list.end());
    EXPECT_EQ(*s.firstUs, *first->us);
    EXPECT_LT(*s.us, first->lowUs.value_or(*first->us));
  }
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

TEST_F(EngineJobs, ForcedAndForbiddenFusionsComputeTheSame) {
  EngineProcess engine(m_folder.path(""));
  std::vector<std::vector<double>> results;
  std::uint64_t revision = 0;
  for (const char* hint : {"", "hint split u, v\n", "hint fuse u, v\n"}) {
    SCOPED_TRACE(hint);
    engine.document(std::string(kFormula) + hint, ++revision);
    const auto report = engine.ask<FusionReport>(FusionRequest{revision});
    const std::string wanted = hint;
    const protocol::FusionState state = wanted.starts_with("hint split")  ? protocol::FusionState::Forbidden
                                        : wanted.starts_with("hint fuse") ? protocol::FusionState::Forced
                                                                          : protocol::FusionState::Accepted;
    EXPECT_TRUE(std::any_of(report.decisions.begin(), report.decisions.end(), [&](const FusionDecisionInfo& d) {
      return d.producer == "u" && d.consumer == "v" && d.state == state;
    }));
    engine.ask<Finished>(RunRequest{revision, {}, "auto", {}});
    engine.ask<TensorSlice>(TensorRequest{"d(L)/d(w)", {}, {}, 100});
    results.push_back(unpackValues(engine.binary()));
  }
  EXPECT_EQ(results[0].size(), 24u);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

// A `show` beside a `train` changes neither the plan nor a decision: what Explain draws is what Tune has and what trains.
TEST_F(EngineJobs, TheGraphAndTheDecisionsAreOfTheStepThatTrains) {
  std::stringstream welcome;
  welcome << std::ifstream(std::string(NF_EXAMPLES) + "/welcome.nf").rdbuf();
  const std::string two =
      "input A[64, 48] = normal(0, 1)\nparam P[48, 32] = normal(0, 0.1)\nparam Q[48, 32] = normal(0, 0.1)\n"
      "U[i, j] = sum[k] A[i, k] * P[k, j]\nV[i, j] = sum[k] A[i, k] * Q[k, j]\nloss L = mean[i, j] (U[i, j] * V[i, j] - 1)^2\n"
      "show L, d(L)/d(A)\ntrain L { steps = 3; optimizer = sgd(lr=0.1); seed = 1; mode = static }\n";
  EngineProcess engine(m_folder.path(""));
  std::uint64_t revision = 0;
  for (const std::string& text : {welcome.str(), two}) {
    engine.document(text, ++revision);
    const auto graph = engine.ask<GraphPage>(GraphRequest{revision, "fused", 0, 20000});
    std::map<std::uint32_t, std::set<std::string>> drawn;
    for (const GraphGroup& g : graph.groups) drawn[g.subgraph].insert(g.nodes.begin(), g.nodes.end());
    std::set<std::set<std::string>> plan, tuned;
    for (auto& [subgraph, nodes] : drawn) plan.insert(nodes);
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{revision}).subgraphs)
      tuned.emplace(s.operators.begin(), s.operators.end());
    EXPECT_EQ(plan, tuned);
    std::set<std::string> inside, outside;
    for (const GraphNode& n : graph.nodes)
      if (n.kind == NodeKind::Operator) (n.outsideStep ? outside : inside).insert(n.id);
    EXPECT_TRUE(outside.contains("d(L)/d(A)"));
    EXPECT_FALSE(inside.contains("d(L)/d(A)"));
    for (const auto& group : plan)
      for (const std::string& node : group) EXPECT_TRUE(inside.contains(node)) << node;
    for (const GraphEdge& e : graph.edges)
      for (const std::string& end : {e.from, e.to})
        EXPECT_TRUE(std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) { return n.id == end; })) << end;
    EXPECT_NE(graph.stages.back().note.find(std::to_string(outside.size()) + " outside the step"), std::string::npos)
        << graph.stages.back().note;
    for (const FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{revision}).decisions)
      EXPECT_FALSE(outside.contains(d.producer) || outside.contains(d.consumer)) << d.producer << " -> " << d.consumer;
    // Its expression is there as before.
    EXPECT_FALSE(engine.ask<Expression>(ExpressionRequest{revision, "d(L)/d(A)", false}).terms.empty());
  }
}

// Which branch is faster is the machine's business; that the answer is whole, and stays with the decision, is ours.
TEST_F(EngineJobs, AFusionIsMeasuredBothWays) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kFormula);
  const auto before = engine.ask<FusionReport>(FusionRequest{1});
  for (const FusionDecisionInfo& d : before.decisions) EXPECT_FALSE(d.measuredSaving);
  const auto compared = engine.ask<FusionCompared>(CompareFusionRequest{1, "u", "v"});
  EXPECT_EQ(compared.device, "cpu");
  EXPECT_FALSE(compared.fusedKernels.empty());
  EXPECT_FALSE(compared.splitKernels.empty());
  EXPECT_NE(compared.fusedKernels, compared.splitKernels);
  for (const protocol::Measured* m : {&compared.fused, &compared.split, &compared.saving}) {
    EXPECT_EQ(m->samples.size(), compared.fused.samples.size());
    EXPECT_LE(m->low, m->median);
    EXPECT_GE(m->high, m->median);
  }
  EXPECT_GE(compared.fused.samples.size(), 7u);
  EXPECT_GT(compared.fused.median, 0);
  EXPECT_EQ(compared.verdict.find("cannot be told apart") == std::string::npos, compared.separates);
  std::size_t carried = 0;
  for (const FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{1}).decisions)
    if (d.measuredSaving) {
      ++carried;
      EXPECT_EQ(d.producer, "u");
      EXPECT_EQ(*d.measuredSaving, compared.saving);
    }
  EXPECT_EQ(carried, 1u);
  EXPECT_EQ(engine.ask<Failed>(CompareFusionRequest{1, "u", "nothing"}).stage, "compare");
  EXPECT_EQ(engine.ask<Failed>(CompareFusionRequest{1, "w", "u"}).stage, "compare");
}

TEST_F(EngineJobs, APinnedScheduleIsUsedAndLeftAlone) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  const SubgraphInfo chosen =
      *std::max_element(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  EXPECT_NE(chosen.state, SubgraphState::Pinned);
  ASSERT_FALSE(chosen.pinTensor.empty());
  const auto space = engine.ask<Space>(SpaceRequest{chosen.id});
  const auto first = nlohmann::json::parse(space.current.text);
  auto pinned = first;
  // Knobs depend on one another: one that can be turned alone.
  for (const protocol::KnobInfo& knob : space.knobs)
    for (const JsonText& value : knob.values) {
      auto turned = first;
      turned["knobs"][knob.name] = nlohmann::json::parse(value.text);
      if (pinned != first || turned == first) continue;
      const RequestId id = engine.newId();
      engine.send(MeasureRequest{chosen.id, {turned.dump()}}, id);
      const Envelope e = engine.awaitThat([id](const Envelope& m) { return m.id == id; });
      const auto* measured = std::get_if<TrialMeasured>(&e.message);
      if (measured && (measured->trial.status == TrialStatus::Ok || measured->trial.status == TrialStatus::Slow)) pinned = turned;
    }
  ASSERT_NE(pinned, first);
  engine.document(std::string(kDigits) + "hint schedule " + chosen.pinTensor + " " + pinned.dump() + "\n", 2);
  const auto after = engine.ask<Subgraphs>(SubgraphsRequest{2}).subgraphs;
  for (const SubgraphInfo& s : after) EXPECT_EQ(s.state == SubgraphState::Pinned, s.id == chosen.id) << s.name;
  // Its time is that of what was pinned, not of the best that was tried.
  for (const SubgraphInfo& s : after)
    if (s.id == chosen.id)
      for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{chosen.id}).trials)
        if (t.us && nlohmann::json::parse(t.schedule.text) == pinned) { EXPECT_EQ(s.us, t.us); }
  EXPECT_EQ(nlohmann::json::parse(engine.ask<Space>(SpaceRequest{chosen.id}).current.text), pinned);
  const RequestId id = engine.newId();
  auto request = train(0);
  request.revision = 2;
  engine.send(request, id);
  engine.await<DoneEvent>();
  engine.await<Finished>(id);
  bool used = false;
  for (const TrialEvent& e : engine.passed<TrialEvent>()) {
    if (e.subgraph != chosen.id) continue;
    used = true;
    EXPECT_EQ(nlohmann::json::parse(e.schedule.text), pinned);
  }
  EXPECT_TRUE(used);

  // One that the kernel can't have is a mistake that is told, not passed over.
  engine.document(std::string(kDigits) + "hint schedule " + chosen.pinTensor + " {\"kind\": \"nonsense\", \"knobs\": {}}\n", 3);
  request.revision = 3;
  const RequestId wrong = engine.newId();
  engine.send(request, wrong);
  const auto failed = engine.awaitThat([&](const Envelope& e) { return e.id == wrong; });
  ASSERT_TRUE(std::holds_alternative<Failed>(failed.message));
  EXPECT_EQ(std::get<Failed>(failed.message).stage, "hint");
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

TEST_F(EngineJobs, TheNumericCheckReadsTheNotebooksData) {
  std::ofstream(m_folder.path("x.csv")) << "1,2\n3,4\n";
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "input X[2, 2] = csv(\"x.csv\")\nparam W[2] = normal(0, 1)\nloss L = sum[i, j] X[i, j] * W[j]^2\nshow d(L)/d(W)\n");
  const auto shown = engine.ask<Expression>(ExpressionRequest{1, "d(L)/d(W)", true});
  ASSERT_TRUE(shown.check.has_value());
  EXPECT_LT(shown.check->worst, shown.check->allowed);
}

// What decisions count with is measured again, not only the rates of the whole device.
TEST_F(EngineJobs, EveryFigureOfADeviceIsMeasuredAgain) {
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "", cache = m_folder.path("cache");
  setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  {
    EngineProcess engine(m_folder.path(""));
    engine.document("a = 1\n");
    engine.ask<Devices>(DevicesRequest{});
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cache + "/neoflow"))
      if (entry.path().filename().string().starts_with("machine-") && entry.path().extension() == ".json") {
        std::filesystem::last_write_time(entry.path(), entry.last_write_time() - std::chrono::hours(24 * 30));
        ++files;
      }
    EXPECT_GE(files, 1);
    const auto devices = engine.ask<Devices>(DevicesRequest{true}).devices;
    const auto cpu = std::find_if(devices.begin(), devices.end(), [](const DeviceInfo& d) { return d.name == "cpu"; });
    ASSERT_NE(cpu, devices.end());
    ASSERT_TRUE(cpu->constants.has_value());
    EXPECT_LT(cpu->constants->measuredSecondsAgo, 86400);
    // No figure without its interval.
    const auto& k = *cpu->constants;
    for (const auto& [value, interval] : {std::pair(k.bandwidth, k.bandwidthInterval),
                                          {k.flopRate, k.flopInterval},
                                          {k.launchSeconds, k.launchInterval},
                                          {k.l2Bandwidth, k.l2Interval}}) {
      EXPECT_GE(interval.samples, 64);
      EXPECT_GT(interval.low, 0);
      EXPECT_LE(interval.low, value);
      EXPECT_GE(interval.high, value);
    }
    if (cpu->kernels) { EXPECT_LT(cpu->kernels->measuredSecondsAgo, 86400); }
    EXPECT_EQ(files, cpu->kernels ? 2 : 1);
  }
  if (before) setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  else unsetenv("XDG_CACHE_HOME");
}

// Central differences of what is no polynomial are never exact: the error is shown, not what is left of it beyond rounding.
TEST_F(EngineJobs, TheNumericCheckShowsTheErrorItselfAndGoesOnInRounds) {
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "input X[16, 24] = normal(0, 1)\nparam M[24, 24] = normal(0, 1)\nZ[i, j] = sum[k] tanh(X[i, k]) * M[k, j]\n"
      "loss L = mean[i, j] tanh(Z[i, j])\nshow d(L)/d(M)\n");
  const ExpressionRequest request{1, "d(L)/d(M)", true};
  auto shown = engine.ask<Expression>(request);
  ASSERT_TRUE(shown.check.has_value()) << shown.uncheckable;
  EXPECT_EQ(shown.check->elements, 576);
  EXPECT_EQ(shown.check->wanted, 256);
  EXPECT_GE(shown.check->samples, 1);
  while (shown.check->samples < shown.check->wanted) {
    const std::int64_t before = shown.check->samples;
    shown = engine.ask<Expression>(request);
    ASSERT_TRUE(shown.check.has_value()) << shown.uncheckable;
    ASSERT_GT(shown.check->samples, before);
  }
  const NumericCheck& check = *shown.check;
  EXPECT_GT(check.worst, 1e-16);
  EXPECT_LT(check.worst, check.allowed);
  EXPECT_EQ(check.refuted, 0);
  EXPECT_EQ(std::accumulate(check.histogram.begin(), check.histogram.end(), std::int64_t{0}), 256);
  for (const NumericSample& s : check.worstSamples) EXPECT_GT(s.error, 0);
  EXPECT_EQ(engine.ask<Expression>(request).check->samples, 256) << "what is done is shown again";
}

// What is no number is the worst error there is, and stands in no bin.
TEST_F(EngineJobs, TheNumericCheckCallsWhatIsNotFiniteTheWorst) {
  EngineProcess engine(m_folder.path(""));
  std::ofstream(m_folder.path("x.csv")) << "0\n-1\n2\n";
  engine.document(
      "input x[3] : f64 = csv(\"x.csv\")\nN = sqrt(sum[i] (x[i]*0)^2)\nR = sum[i] select(x[i] < 0, 0, x[i]^0.5)\n"
      "S = sum[i] x[i]^2.5\nshow d(N)/d(x), d(R)/d(x), d(S)/d(x)\n");
  const auto checked = [&](const std::string& name) {
    const auto shown = engine.ask<Expression>(ExpressionRequest{1, name, true});
    EXPECT_TRUE(shown.check.has_value()) << shown.uncheckable;
    return shown.check.value_or(NumericCheck{});
  };
  const auto binned = [](const NumericCheck& c) {
    return std::accumulate(c.histogram.begin(), c.histogram.end(), std::int64_t{0});
  };
  const NumericCheck none = checked("d(N)/d(x)");
  EXPECT_TRUE(std::isnan(none.worst));
  EXPECT_EQ(none.refuted, 3);
  EXPECT_EQ(binned(none), 0);
  const NumericCheck root = checked("d(R)/d(x)");
  EXPECT_FALSE(std::isfinite(root.worst));
  EXPECT_EQ(root.refuted, 1);
  EXPECT_EQ(binned(root), 2);
  EXPECT_EQ(root.worstSamples.front().element, std::vector<std::int64_t>{0});
  EXPECT_TRUE(std::isinf(root.worstSamples.front().derived));
  const NumericCheck outside = checked("d(S)/d(x)");
  EXPECT_TRUE(std::isnan(outside.worst));
  for (const NumericSample& s : outside.worstSamples) EXPECT_TRUE(std::isnan(s.differences)) << "not 0: there are none";
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
    std::ofstream(folder + "/run.json") << nlohmann::json{{"settings", {{"resume", resumed}}}};
  };
  begin("");
  auto further = train(10, "static");
  further.resume = "newest";
  EXPECT_EQ(engine.ask<Failed>(further).message, "The newest run, 9999-12-31-000000, left no checkpoint: train again.");
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

TEST_F(EngineJobs, AResumeWithoutACheckpointIsRefused) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  auto request = train(3);
  request.resume = "newest";
  EXPECT_EQ(engine.ask<Failed>(request).stage, "resume");
}

}  // namespace
}  // namespace nf
