// SPDX-License-Identifier: Apache-2.0
// The engine as a user meets it: its own process, workers, the real CPU back end, driven over the protocol.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>

#include "tests/session/engine_jobs.h"
#include "tests/session/engine_process.h"

namespace nf {
namespace {

using namespace protocol;

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

// What fails in one cell says nothing of the others.
TEST_F(EngineJobs, ACellThatCannotBeComputedLeavesTheOthersTheirValues) {
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "# %%\nZ[i: 4] = 1.0\nshow Z\n\n"
      "# %%\ndata D = csv(\"nowhere.csv\")\nlet B = 2\ninput X[B, 3] = batch D[:, 0..3]\nQ[b] = sum[k] X[b, k]\nshow Q\n\n"
      "# %%\nU[i: 4] = 2.0\nshow U\n");
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  const auto cells = engine.passed<CellResult>();
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].status, CellStatus::Ok) << cells[0].message;
  EXPECT_EQ(cells[1].status, CellStatus::Error);
  EXPECT_NE(cells[1].message.find("nowhere.csv"), std::string::npos) << cells[1].message;
  EXPECT_EQ(cells[2].status, CellStatus::Ok) << cells[2].message;
  for (const auto& [name, value] : {std::pair{"Z", 1.0}, {"U", 2.0}}) {
    engine.ask<TensorSlice>(TensorRequest{name, {}, {}, 100});
    EXPECT_EQ(unpackValues(engine.binary()), std::vector<double>(4, value)) << name;
  }
}

TEST_F(EngineJobs, AGradientThatNoCellShowsSaysWhatWouldCompute) {
  EngineProcess engine(m_folder.path(""));
  const std::string train = "train L { steps = 1; clip = 1 }\n";
  const std::pair<std::string, std::string> notebooks[] = {
      {"d(L)/d(W)", "param W[2] = normal(0, 1)\nloss L = mean[i] W[i]^2\n" + train},
      {"d(L)/d(H.V)",
       "def layer(X[n]) -> Y {\n  param V[n] = normal(0, 1)\n  Y[i] = X[i] * V[i]\n}\ninput X[2] = normal(0, 1)\n"
       "H = layer(X)\nloss L = mean[i] H[i]^2\n" +
           train}};
  std::uint64_t revision = 0;
  for (const auto& [gradient, notebook] : notebooks) {
    const Analysis a = engine.document(notebook, ++revision);
    ASSERT_TRUE(a.diagnostics.empty()) << a.diagnostics[0].message;
    EXPECT_EQ(engine.ask<Failed>(TensorRequest{gradient, {}, {}, 100}).message,
              "No cell asks for " + gradient + ": `show " + gradient + "` computes its values.");
  }
}

TEST_F(EngineJobs, APartOfWhatACallMakesIsSaidToBeComputedByAShow) {
  EngineProcess engine(m_folder.path(""));
  const std::string text = "# %%\nparam X[2, 4] = normal(0, 1)\nQ = softmax(X)\nloss L = mean[i, j] (Q[i, j] - 1)^2\nshow Q\n";
  const std::string said = "Q.E is made on the way to Q and not kept: `show Q.E` computes its values.";
  const TensorRequest part{"Q.E", {}, {}, 100};
  engine.document(text);
  EXPECT_EQ(engine.ask<Failed>(part).message, said);
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  EXPECT_EQ(engine.ask<Failed>(part).message, said) << "a run of its cell does not make it";
  engine.document(text + "show Q.E\n", 2);
  EXPECT_EQ(engine.ask<Failed>(part).message, "Q.E has no value: run its cell.");
  engine.ask<Finished>(RunRequest{2, {}, "auto", {}});
  EXPECT_EQ(engine.ask<TensorSlice>(part).shape, (std::vector<std::int64_t>{2, 4}));
  // After a training it is computed for who asks, as what the steps do not keep is.
  engine.document(text + "# %%\ntrain L { steps = 2; optimizer = sgd(lr=0.1); mode = static }\n", 3);
  TrainRequest train;
  train.revision = 3;
  train.cell = 2;
  engine.ask<Finished>(train);
  EXPECT_EQ(engine.ask<TensorSlice>(part).step, 2);
}

TEST_F(EngineJobs, WhatATrainingMakesOfGradientsIsSaidToBeItsOwn) {
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "# %%\nparam W.x[3] = normal(0, 1)\nloss L = sum[i] W.x[i]^2\nshow L\n"
      "# %%\ntrain L { steps = 2; optimizer = adam(lr=0.1); clip = 1; mode = static }\n");
  const std::vector<std::string> names = {"d(L)/d(W.x).square", "W.x.next"};
  const auto said = [&](const char* when) {
    for (const std::string& name : names)
      EXPECT_EQ(engine.ask<Failed>(TensorRequest{name, {}, {}, 100}).message,
                name + " is worked out in training steps alone: a cell below `train` that shows it computes it.")
          << when;
  };
  said("before anything was run");
  const auto ofState = [&] { return engine.ask<Failed>(TensorRequest{"W.x.adam.m", {}, {}, 100}).message; };
  const std::string kept = "W.x.adam.m is kept from step to step of a training, and has no value before one: run its `train` cell.";
  EXPECT_EQ(ofState(), kept);
  engine.ask<Finished>(RunRequest{1, {0}, "auto", {}});
  said("after a run");
  EXPECT_EQ(ofState(), kept);
  TrainRequest train;
  train.revision = 1;
  train.cell = 1;
  engine.ask<Finished>(train);
  said("after a training");
  EXPECT_EQ(engine.ask<TensorSlice>(TensorRequest{"W.x.adam.m", {}, {}, 100}).step, 2);
}

TEST_F(EngineJobs, ATrainingLeavesItsReport) {
  const std::string folder = m_folder.path("");
  std::ofstream(folder + "/test.peer.json") << R"({"name": "Someone", "step_ms": 12.5})";
  EngineProcess engine(folder);
  engine.send(DocumentReplaced{1, "test.nf", folder,
                               "# %%\nparam W[3] = normal(0, 1)\nloss L = sum[i] W[i]^2\n"
                               "# %%\ntrain L { steps = 20; optimizer = sgd(lr=0.1); mode = static }\n"});
  engine.await<Analysis>();
  TrainRequest train;
  train.revision = 1;
  train.cell = 1;
  engine.ask<Finished>(train);
  std::vector<std::string> reports;
  for (const auto& run : std::filesystem::directory_iterator(folder + "/test.nf.out")) {
    std::ifstream in(run.path() / "report.html");
    reports.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  ASSERT_EQ(reports.size(), 1u);
  for (const char* part : {"<svg", "test.nf", "Someone"}) EXPECT_NE(reports[0].find(part), std::string::npos) << part;
}

TEST_F(EngineJobs, ATrainCellSaysHowMuchItTrains) {
  EngineProcess engine(m_folder.path(""));
  const Analysis a = engine.document(
      "# %%\nparam W[30] = normal(0, 1)\nparam b = 0\nparam U[4] = 1\nloss L = sum[i] (W[i] - b)^2\n"
      "# %%\ntrain L { steps = 2; optimizer = sgd(lr=0.1, momentum=0.9) }\n");
  ASSERT_EQ(a.cells.size(), 2u);
  EXPECT_TRUE(a.cells[1].summary.starts_with("trains 2 parameters, 31 values · ")) << a.cells[1].summary;
  EXPECT_TRUE(a.cells[1].summary.ends_with(" an update")) << a.cells[1].summary;
}

TEST_F(EngineJobs, TwoCellsThatShowANameHaveTheirOwnTensors) {
  EngineProcess engine(m_folder.path(""));
  const Analysis a = engine.document(
      "const X[3] = 1\nA[i] = X[i] + i\nshow A\n# %%\nfor t in 0..5 { A = A*2 }\nshow A\n# %%\nshow A[0] + X[0] as \"sum\"\n");
  ASSERT_TRUE(a.diagnostics.empty()) << a.diagnostics[0].message;
  engine.ask<Finished>(RunRequest{1, {}, "auto", {}});
  const std::vector<std::vector<double>> wanted = {{1, 2, 3}, {32, 64, 96}, {33}};
  ASSERT_EQ(a.cells.size(), wanted.size());
  for (std::size_t cell = 0; cell < wanted.size(); ++cell) {
    ASSERT_EQ(a.cells[cell].shows.size(), 1u);
    engine.ask<TensorSlice>(TensorRequest{a.cells[cell].shows[0], {}, {}, 100});
    EXPECT_EQ(unpackValues(engine.binary()), wanted[cell]) << a.cells[cell].shows[0];
  }
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

// A run is of the whole notebook; where no machine has memory for that, of what its cell shows.
TEST_F(EngineJobs, ACellIsRunBesideOneThatNoMachineHasMemoryFor) {
  EngineProcess engine(m_folder.path(""));
  engine.send(DocumentReplaced{1, "test.nf", m_folder.path(""),
                               "# %%\nlet N = 1000000\nconst v[4] = 3\nP[i: N, j: N] = v[0] * (i + j)\nshow P\n"
                               "# %%\nq[i] = v[i] * 2\nr[i] = q[i] + 1\nshow q\nshow r\n"});
  engine.await<Analysis>();
  const auto run = [&](std::uint32_t cell) {
    engine.ask<Finished>(RunRequest{1, {cell}, "reference", {}});
    return engine.passed<CellResult>().back();
  };
  EXPECT_EQ(run(1).status, CellStatus::Ok);
  for (const auto& [name, value] : {std::pair{"q", 6.}, std::pair{"r", 7.}, std::pair{"v", 3.}}) {
    engine.ask<TensorSlice>(TensorRequest{name, {}, {}, 10});
    EXPECT_EQ(unpackValues(engine.binary()), std::vector<double>(4, value)) << name;
  }
  const CellResult large = run(0);
  EXPECT_EQ(large.status, CellStatus::Error);
  EXPECT_TRUE(large.message.starts_with("There is no memory for P: it takes ")) << large.message;
  EXPECT_TRUE(engine.ask<Failed>(TensorRequest{"P", {}, {}, 10}).message.starts_with("There is no memory for P: it takes "));
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

TEST_F(EngineJobs, ADecisionIsTheHintsOrItsOwnAndNamesTheGradientThatItCounts) {
  EngineProcess engine(m_folder.path(""));
  const std::string text =
      "let N = 6, M = 4, D = 5\ninput X[N, D] = uniform(-1, 1)\nparam W[D, M] = normal(0, 0.5)\nparam V[D, M] = normal(0, 0.5)\n"
      "P[n, m] = sum[d] X[n, d] * W[d, m]\nQ[n, m] = sum[d] X[n, d] * V[d, m]\n"
      "loss L = mean[n, m] (tanh(P[n, m]) + Q[n, m]^3 - 1)^2\ntrain L { optimizer = sgd(lr=0.05); steps = 3 }\n";
  using Decisions = std::map<std::string, FusionDecisionInfo>;
  const auto decisions = [&](const std::string& hint, std::uint64_t revision) {
    engine.document(text + hint, revision);
    Decisions found;
    for (const FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{revision}).decisions)
      found[d.producer + " " + d.consumer] = d;
    return found;
  };
  // What a gradient saves with its forward tensor stands in the one row that counts both.
  Decisions found = decisions("", 1);
  EXPECT_NE(found["P d(L)/d(Q)"].why.find("Counted with it: d(L)/d(P) -> d(L)/d(W), its gradient's."), std::string::npos)
      << found["P d(L)/d(Q)"].why;
  EXPECT_EQ(found["d(L)/d(P) d(L)/d(W)"].dT, 0);
  EXPECT_NE(found["d(L)/d(P) d(L)/d(W)"].why.find("Decided and counted with `P`"), std::string::npos);
  // A copy of P in L, d(L)/d(Q) and d(L)/d(P) would break the hint, but could not be without it either.
  found = decisions("hint split P, d(L)/d(Q)\n", 2);
  EXPECT_EQ(found["P d(L)/d(Q)"].state, FusionState::Forbidden);
  EXPECT_EQ(found["P d(L)/d(Q)"].why, "A `hint split` keeps them apart.");
  EXPECT_EQ(found["P L"].state, FusionState::NotLowerable) << found["P L"].why;
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

// It is in the source by its name, and in no stage that leaves out what nothing needs.
TEST_F(EngineJobs, ALoopThatNothingReadsHasItsNameInTheSource) {
  EngineProcess engine(m_folder.path(""));
  engine.document("input X[8] = normal(0, 1)\nconst a[8] = 0.5\nfor t in 0..4 { a = tanh(a) + X }\nE[i] = X[i] * 2\nshow E\n");
  const auto at = [&](const char* stage) {
    std::map<std::string, std::vector<std::int64_t>> made;
    for (const GraphNode& n : engine.ask<GraphPage>(GraphRequest{1, stage}).nodes)
      if (n.kind == NodeKind::Operator) made[n.id] = n.shape;
    return made;
  };
  using Made = std::map<std::string, std::vector<std::int64_t>>;
  EXPECT_EQ(at("source"), (Made{{"a", {8}}, {"E", {8}}}));
  EXPECT_EQ(at("fused"), (Made{{"E", {8}}}));
}

// A schedule of the kernel that another fusion has: the kernel that is there instead is not pinned.
TEST_F(EngineJobs, AKernelWhosePinIsSetAsideIsNotPinned) {
  EngineProcess engine(m_folder.path(""));
  const std::string notebook =
      "input A[64, 48] = normal(0, 1)\nparam V[64, 48] = normal(0, 1)\nP[n, d] = exp(A[n, d] * V[n, d])\n"
      "loss L = mean[n, d] P[n, d]^2\ntrain L { steps = 3; optimizer = sgd(lr=0.1) }\n";
  const std::string hint = "hint schedule P {\"kind\": \"elementwise\", \"knobs\": {\"lanes\": 32, \"vector\": \"axis0\"}}\n";
  const auto makerOfP = [&](const std::string& more, std::uint64_t revision) {
    engine.document(notebook + more, revision);
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{revision}).subgraphs)
      if (std::ranges::find(s.operators, "P") != s.operators.end()) return s;
    return SubgraphInfo{};
  };
  const SubgraphInfo fused = makerOfP("hint fuse P, L\n" + hint, 1);
  ASSERT_GT(fused.operators.size(), 1u);
  EXPECT_NE(fused.state, SubgraphState::Pinned);
  EXPECT_EQ(fused.setAside, "P");
  const SubgraphInfo alone = makerOfP("hint split P, L, d(L)/d(P), d(L)/d(V)\nhint split P, d(L)/d(V)\n" + hint, 2);
  EXPECT_EQ(alone.kind, "elementwise");
  EXPECT_EQ(alone.state, SubgraphState::Pinned) << alone.name;
  EXPECT_EQ(alone.setAside, "");
}

// What the notebook names before what is kept of all steps for the gradient, whichever comes first.
TEST_F(EngineJobs, ALoopGoesByANameOfTheNotebook) {
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "input X[5, 4] = normal(0, 1)\nparam U[4, 4] = normal(0, 1)\nconst h[4] = 0.5\n"
      "for t in 0..5 { a[i] = tanh(X[t, i] + sum[k] U[i, k] * h[k])\n h = a * 0.3 + h\n accumulate As = a }\n"
      "loss L = sum[i] As[i]^2\nshow L, d(L)/d(U)\n");
  for (const char* stage : {"differentiated", "transformed", "fused"}) {
    std::set<std::string> forward;
    for (const GraphNode& n : engine.ask<GraphPage>(GraphRequest{1, stage}).nodes)
      if (n.category == "loop" && n.phase == protocol::Phase::Forward)
        forward.insert(n.id + " of " + std::to_string(n.shape.size()));
    EXPECT_EQ(forward, std::set<std::string>{"As of 1"}) << stage;
  }
}

// By what it computes and of what, not by its name alone.
TEST_F(EngineJobs, AStageSaysWhatItsPassAddedAndChanged) {
  EngineProcess engine(m_folder.path(""));
  const Analysis a = engine.document(
      "param U[4, 4] = normal(0, 1)\ninput X[4] = normal(0, 1)\nP[i] = X[i] * 2\nh[i: 4] = P[i]\n"
      "for t in 0..5 { e[i] = sum[k] U[i, k] * X[k]\n h[i] = tanh(h[i] * 0.5 + e[i]) }\nloss L = sum[i] h[i]^2\nshow L\n");
  ASSERT_TRUE(a.diagnostics.empty()) << a.diagnostics[0].message;
  const auto at = [&](const char* stage) {
    std::map<std::string, std::pair<bool, bool>> nodes;
    for (const GraphNode& n : engine.ask<GraphPage>(GraphRequest{1, stage}).nodes)
      if (n.kind == NodeKind::Operator) nodes[n.id] = {n.added, n.changed};
    return nodes;
  };
  for (const auto& [name, is] : at("source")) EXPECT_EQ(is, std::pair(false, false)) << name;
  const auto transformed = at("transformed");
  int added = 0, changed = 0;
  for (const auto& [name, is] : transformed) added += is.first, changed += is.second;
  EXPECT_EQ(added, 1) << "what does not change in the loop stands before it";
  EXPECT_EQ(changed, 1) << "the loop";
  ASSERT_TRUE(transformed.contains("P"));
  EXPECT_EQ(transformed.at("P"), std::pair(false, false));
  for (const auto& [name, is] : at("partitioned")) EXPECT_EQ(is, std::pair(false, false)) << name;
}

// The origins of a loop's body are numbers of its own program.
TEST_F(EngineJobs, ADecisionInALoopComesFromItsPlaceInTheText) {
  EngineProcess engine(m_folder.path(""));
  const std::string text =
      "param U[4, 4] = normal(0, 1)\nh[i: 4] = 0.5\n"
      "for t in 0..5 { m[i] = sum[k] U[i, k] * h[k]\n h[i] = tanh(m[i]) }\nY[i] = h[i] * 2\nZ[i] = Y[i] + 1\n"
      "loss L = sum[i] Z[i]^2\nshow L\n";
  const Analysis a = engine.document(text);
  ASSERT_TRUE(a.diagnostics.empty()) << a.diagnostics[0].message;
  int inside = 0;
  for (const FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{1}).decisions) {
    if (d.producer != "m") continue;
    ++inside;
    EXPECT_EQ(d.repeats, 5);
    ASSERT_FALSE(d.origins.empty());
    for (const auto id : d.origins) {
      ASSERT_LT(id, a.spans.size());
      const std::string source = text.substr(a.spans[id].begin, a.spans[id].end - a.spans[id].begin);
      EXPECT_NE(source.find("U[i, k] * h[k]"), std::string::npos) << source;
    }
  }
  EXPECT_EQ(inside, 1);
}

// A loop makes several tensors, and is one node.
TEST_F(EngineJobs, BothEndsOfADecisionAreNodesOfTheGraph) {
  EngineProcess engine(m_folder.path(""));
  const Analysis a = engine.document(
      "param U[4, 4] = normal(0, 1)\nparam V[4] = normal(0, 1)\ninput X[5, 4] = normal(0, 1)\nconst h[4] = 0.5\n"
      "P[t, i] = X[t, i] * X[t, i]\nfor t in 0..5 { h[i] = tanh(P[t, i] + sum[k] U[i, k] * h[k]) }\n"
      "Y[i] = h[i] * V[i]\nloss L = sum[i] Y[i]^2\ntrain L\n");
  ASSERT_TRUE(a.diagnostics.empty()) << a.diagnostics[0].message;
  std::set<std::string> loops;
  std::map<std::string, const GraphNode*> nodes;
  const auto graph = engine.ask<GraphPage>(GraphRequest{1, "partitioned", 0, 20000});
  for (const GraphNode& n : graph.nodes) {
    nodes.emplace(n.id, &n);
    if (n.category == "loop") loops.insert(n.id);
  }
  ASSERT_EQ(loops.size(), 2u) << "there and back";
  std::set<std::string> met;
  for (const FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{1}).decisions) {
    if (d.repeats > 1) continue;  // in a loop's body, which the graph does not draw
    SCOPED_TRACE(d.producer + " -> " + d.consumer);
    ASSERT_TRUE(nodes.contains(d.producerNode) && nodes.contains(d.consumerNode)) << d.producerNode << " -> " << d.consumerNode;
    for (const auto& [id, known] : {std::pair(d.producerNode, d.producerClass), std::pair(d.consumerNode, d.consumerClass)})
      EXPECT_TRUE(loops.contains(id) || nodes[id]->category == known) << id << ": " << nodes[id]->category << ", " << known;
    EXPECT_TRUE(std::ranges::any_of(graph.edges, [&](const GraphEdge& e) {
      return e.from == d.producerNode && e.to == d.consumerNode && e.tensor == d.producer;
    }));
    EXPECT_EQ(d.consumerOrigins, nodes.at(d.consumerNode)->origins);
    for (const std::string& end : {d.producerNode, d.consumerNode})
      if (loops.contains(end)) met.insert(end);
    for (const std::string& loop : loops)
      if (d.why.find("is a scatter or a loop") != std::string::npos && (d.producerNode == loop || d.consumerNode == loop)) {
        EXPECT_TRUE(d.why.find(d.producerNode) != std::string::npos || d.why.find(d.consumerNode) != std::string::npos) << d.why;
      }
  }
  EXPECT_EQ(met, loops);
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
  // Other kernels, though the terms are the same, and then these again.
  const auto now = [&](std::uint64_t revision, const std::string& body) {
    std::string text = kFormula;
    const std::string was = "u[i, j] * u[i, j]";
    engine.document(text.replace(text.find(was), was.size(), body), revision);
    for (FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{revision}).decisions)
      if (d.producer == "u" && d.consumer == "v") return d;
    ADD_FAILURE() << "no such decision";
    return FusionDecisionInfo{};
  };
  const FusionDecisionInfo other = now(2, "u[i, j] * u[i, j] - 7"), again = now(3, "u[i, j] * u[i, j]  # as it was");
  EXPECT_EQ(other.dT, again.dT);
  EXPECT_FALSE(other.measuredSaving);
  ASSERT_TRUE(again.measuredSaving);
  EXPECT_EQ(*again.measuredSaving, compared.saving);
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
    EXPECT_GE(k.l2Bytes, 64 << 10);
    if (cpu->kernels) { EXPECT_LT(cpu->kernels->measuredSecondsAgo, 86400); }
    EXPECT_EQ(files, cpu->kernels ? 2 : 1);
    // Decisions count with what was measured, by this engine or by another one since.
    const auto counted = [&] { return engine.ask<FusionReport>(FusionRequest{1}).device.bandwidth; };
    EXPECT_EQ(counted(), (cpu->kernels ? *cpu->kernels : k).bandwidth);
    for (const auto& entry : std::filesystem::directory_iterator(cache + "/neoflow")) {
      if (!entry.path().filename().string().starts_with("machine-") || entry.path().extension() != ".json") continue;
      auto figures = nlohmann::json::parse(std::ifstream(entry.path()));
      figures["P_d"] = 12.5e9;
      std::ofstream(entry.path()) << figures;
    }
    engine.ask<Devices>(DevicesRequest{});
    EXPECT_EQ(counted(), 12.5e9);
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

// A time is of the device that it was measured on: none is told of another one, and it is there again with its device.
TEST_F(EngineJobs, TimesOfKernelsAreThoseOfTheDeviceInUse) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto timed = [&](const std::string& device) {
    engine.ask<Devices>(DevicesRequest{false, device});
    std::int64_t count = 0;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
      count += s.us.has_value() + s.firstUs.has_value() + s.trials + s.inUse.text.starts_with("{");
      count += static_cast<std::int64_t>(engine.ask<Trials>(TrialsRequest{s.id}).total);
    }
    return count;
  };
  engine.ask<Devices>(DevicesRequest{false, "cpu"});
  engine.ask<Finished>(train(40));
  const std::int64_t before = timed("cpu");
  EXPECT_GT(before, 0);
  EXPECT_EQ(timed("reference"), 0);
  EXPECT_EQ(timed("cpu"), before);
}

}  // namespace
}  // namespace nf
