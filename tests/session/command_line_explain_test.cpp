// SPDX-License-Identifier: Apache-2.0
// `neoflow show`, `explain`, `bench` and `profile`: how a program is fused and scheduled, and what its kernels take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/fusion/site.h"
#include "core/ir/serialize.h"
#include "tests/session/command_line.h"

namespace nf {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(CommandLine, BenchOfANotebookMeasuresTheKernelsOfTheDevice) {
  file("net.nf", kNet);
  for (const auto& [device, backend] :
       {std::pair("", "cpu"), std::pair("--device cpu", "cpu"), std::pair("--device reference", "reference")}) {
    const Outcome o = run(std::string("bench net.nf --seconds 0.01 --threads 1 --json ") + device);
    ASSERT_EQ(o.code, 0) << o.err;
    const auto json = nlohmann::json::parse(o.out);
    const std::string machine = json["machine"]["device"];
    EXPECT_TRUE(machine == backend || (*device == 0 && machine == "cuda")) << machine;
    EXPECT_GT(json["rows"][0]["ours_ms"].get<double>(), 0);
  }
}

TEST_F(CommandLine, BenchCheckHoldsKernelsAgainstTheInterpreter) {
  file("net.nf", kNet);
  file("quiet.nf", "input X[4, 3] = normal(0, 1)\n");
  const Outcome o = run("bench check net.nf --set B=3 --programs 3 --seed 5 --schedules 1 --device cpu --json");
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json["compared"], 8);
  EXPECT_EQ(json["failed"], 0);
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_GT(json["worst"].get<double>(), 0) << "nothing was rounded: was anything compared?";
  ASSERT_EQ(json["rows"].size(), 2u) << "of random programs those that differ";
  EXPECT_EQ(json["rows"][1]["schedule"], "random 1");
  const Outcome one = run("bench check --programs 1 --seed 6 --device cpu");
  EXPECT_EQ(one.code, 0) << one.out;
  EXPECT_THAT(one.out, HasSubstr("seed 6"));
  const Outcome kernels = run("bench check --kernels --filter scatter --device cpu");
  EXPECT_EQ(kernels.code, 0) << kernels.out;
  EXPECT_THAT(kernels.out, HasSubstr("1 compared on cpu, 0 differ"));
  const Outcome quiet = run("bench check quiet.nf --device cpu");
  EXPECT_EQ(quiet.code, 1);
  EXPECT_THAT(quiet.out, HasSubstr("nothing to compare"));
  EXPECT_EQ(run("bench check --kernels --filter nosuch --device cpu").code, 2);
  EXPECT_EQ(run("bench check").code, 2);
}

// Gradients that are zero but for rounding, or cancel, what Adam makes of them, and half precision.
TEST_F(CommandLine, BenchCheckAllowsWhatRoundingDoes) {
  const std::string train = "train L { steps = 3; optimizer = adam(lr=1e-3) }\n";
  file("attention.nf", "input X[8, 6, 8] = normal(0, 1)\nA = self_attention(X, 2)\nloss L = mean[...] A[...]^2\n" + train);
  file("norm.nf",
       "input X[16, 3, 6, 6] = normal(0, 1)\nA = relu(batch_norm(conv2d(X, 8, 3, pad=1)))\n"
       "C = relu(batch_norm(conv2d(A, 4, 3, pad=1)))\nloss L = mean[...] (C[...] - 1)^2\n" +
           train);
  file("half.nf",
       "input X[8, 16] = normal(0, 1)\nparam W[4, 16] : bf16 = normal(0, 0.1)\n"
       "H[b, k] : bf16 = sum[i] X[b, i] * W[k, i]\nloss L = mean[b, k] H[b, k]^2\n" +
           train);
  for (const char* name : {"attention", "norm", "half"}) {
    const Outcome o = run(std::string("bench check ") + name + ".nf --schedules 1 --device cpu");
    EXPECT_EQ(o.code, 0) << o.out << o.err;
  }
}

TEST_F(CommandLine, BenchInTurnsAnswersEachLine) {
  const auto lines = [](const std::string& text) {
    std::vector<nlohmann::json> found;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  };
  file("net.nf", kNet);
  file("steps", "{\"seconds\": 0.001}\n{\"seconds\": 0.001}\nfoo\n{\"seconds\": \"x\"}\n{\"seconds\": -1}\n");
  const Outcome o = run("bench net.nf --turns --device cpu <steps");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto steps = lines(o.out);
  ASSERT_EQ(steps.size(), 6u);
  for (std::size_t k : {3, 4, 5}) EXPECT_EQ(steps[k]["error"], "A line is {} or {\"seconds\": 1.5}.");
  EXPECT_EQ(steps[0]["ready"], true);
  for (std::size_t k : {1, 2}) {
    EXPECT_GT(steps[k]["ms"].get<double>(), 0);
    EXPECT_GE(steps[k]["steps"].get<int>(), 3);
  }
  file("cases",
       "{\"list\": true}\n{\"case\": \"gemm:rnn28_b64\", \"type\": \"f16\", \"seconds\": 0.001}\n"
       "{\"case\": \"conv:digits_c1\", \"seconds\": 0.001}\n{\"case\": \"nosuch\"}\nno JSON\n");
  const Outcome operators = run("bench ops --turns --device cpu <cases");
  ASSERT_EQ(operators.code, 0) << operators.err;
  const auto answers = lines(operators.out);
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_THAT(answers[0]["cases"].get<std::vector<std::string>>(), testing::Contains("gemm:rnn28_b64"));
  for (std::size_t k : {1, 2}) EXPECT_GT(answers[k]["ms"].get<double>(), 0) << answers[k];
  EXPECT_EQ(answers[1]["shape"]["n"], 512);
  EXPECT_EQ(answers[2]["shape"]["out_channels"], 64);
  EXPECT_EQ(answers[3]["error"], "There is no case nosuch.");
  EXPECT_TRUE(answers[4].contains("error"));
}

// Constants of a device are those of so many threads: whoever prints them says of how many, and the same ones are the same.
TEST_F(CommandLine, ConstantsOfADeviceSayOfHowManyThreads) {
  file("net.nf", kNet);
  const auto explain = nlohmann::json::parse(run("explain net.nf --json").out);
  const int threads = explain["device"]["threads"];
  EXPECT_GE(threads, 1);
  EXPECT_THAT(run("explain net.nf").out, HasSubstr("cpu, " + std::to_string(threads) + " thread"));
  const auto again = nlohmann::json::parse(run("explain net.nf --json").out);
  EXPECT_EQ(again["device"], explain["device"]);
  // With how far they may be off, as the doctor tells it.
  if (!explain["intervals"]["P_d"].is_null()) { EXPECT_THAT(run("explain net.nf").out, HasSubstr("95 %: P_d ")); }
  const auto doctor = nlohmann::json::parse(run("doctor --json").out);
  for (const auto& device : doctor["devices"])
    if (device["name"] == "cpu") {
      EXPECT_GE(device["threads"].get<int>(), 1);
      for (const char* constant : {"P_d", "P_c", "L"}) {
        const auto& interval = device["intervals"][constant];
        if (interval.is_null()) continue;  // of a cache that is older than intervals
        EXPECT_LE(interval["low"].get<double>(), device[constant].get<double>());
        EXPECT_GE(interval["high"].get<double>(), device[constant].get<double>());
        EXPECT_GT(interval["samples"].get<int>(), 0);
      }
      if (device["threads"] == threads) { EXPECT_EQ(device["P_c"], explain["device"]["P_c"]); }
      EXPECT_THAT(run("doctor").out, HasSubstr("cpu  " + std::to_string(device["threads"].get<int>()) + " thread"));
    }
}

// `show` fuses as `explain` says, and its last two stages are what a training begins with.
TEST_F(CommandLine, ShowAndExplainAreOfOneFusion) {
  file("net.nf",
       "input X[64, 30] = normal(0, 1)\nparam W[20, 30] = normal(0, 1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\nZ = tanh(Y)\n"
       "loss L = mean[b, n] (Z[b, n] - 0.3)^2\ntrain L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }\n");
  const auto explain = nlohmann::json::parse(run("explain net.nf --json").out);
  const auto shown = nlohmann::json::parse(run("show net.nf --stage fused --json").out);
  EXPECT_EQ(shown["device"], explain["device"]);
  const auto fused = programFromJson(shown);
  ASSERT_TRUE(fused.ok());
  std::map<std::pair<std::string, std::string>, bool> edges, told;
  for (std::size_t i = 0; i < fused->operators.size(); ++i)
    for (const TensorId t : readsOf(*fused, OperatorId(i)))
      for (std::size_t k = 0; k < fused->operators.size(); ++k) {
        if (fused->operators[k].output != t) continue;
        const auto groupOf = [&](std::size_t op) {
          return std::find_if(fused->groups.begin(), fused->groups.end(), [&](const Group& g) {
            return std::find(g.operators.begin(), g.operators.end(), OperatorId(op)) != g.operators.end();
          });
        };
        const std::pair edge{originalName((*fused)[t].name), originalName(fused->operators[i].name)};
        edges.emplace(edge, false).first->second |= groupOf(i) == groupOf(k);
      }
  for (const auto& d : explain["decisions"])
    told.emplace(std::pair(originalName(d["producer"]), originalName(d["consumer"])), false).first->second |=
        d["accepted"].get<bool>();
  EXPECT_EQ(told, edges);
  const Outcome scheduled = run("show net.nf --stage scheduled"), lowered = run("show net.nf --stage lowered");
  ASSERT_EQ(scheduled.code, 0) << scheduled.err;
  EXPECT_THAT(lowered.out, HasSubstr("for "));
  file("scheduled.nf", scheduled.out);
  EXPECT_EQ(run("check scheduled.nf").code, 0);
  const auto kernels = nlohmann::json::parse(run("show net.nf --stage lowered --json").out)["kernels"];
  EXPECT_EQ(kernels.size(), fused->groups.size());
  for (const auto& k : kernels) {
    EXPECT_EQ(k["from"], "model");
    EXPECT_THAT(scheduled.out, HasSubstr(k["name"].get<std::string>() + ", schedule of the model: " + k["schedule"].dump()));
    EXPECT_THAT(lowered.out, HasSubstr(k["loops"].get<std::string>()));
  }
  EXPECT_EQ(run("show net.nf --stage lowered --dot").code, 2);
}

// What only a `show` needs has no say in what is fused.
constexpr const char* kTwo = R"(input A[64, 48] = normal(0, 1)
param P[48, 32] = normal(0, 0.1)
param Q[48, 32] = normal(0, 0.1)
U[i, j] = sum[k] A[i, k] * P[k, j]
V[i, j] = sum[k] A[i, k] * Q[k, j]
loss L = mean[i, j] (U[i, j] * V[i, j] - 1)^2
show L, d(L)/d(A)
train L { steps = 3; optimizer = sgd(lr=0.1); seed = 1; mode = static }
)";

TEST_F(CommandLine, ExplainDecidesForTheStepThatTrains) {
  std::filesystem::copy_file(std::string(NF_EXAMPLES) + "/welcome.nf", m_folder.path("welcome.nf"));
  file("two.nf", kTwo);
  std::string without = kTwo;
  without.replace(without.find(", d(L)/d(A)"), 11, "");
  file("without.nf", without);
  for (const std::string notebook : {"welcome", "two"}) {
    SCOPED_TRACE(notebook);
    const auto scheduled = nlohmann::json::parse(run("show " + notebook + ".nf --stage scheduled --json").out);
    const auto explain = nlohmann::json::parse(run("explain " + notebook + ".nf --json").out);
    std::set<std::string> shown, ran;
    for (const auto& k : scheduled["kernels"]) shown.insert(k["subgraph"]);
    EXPECT_LE(shown.size(), explain["kernels"].size());
    ASSERT_EQ(run("train " + notebook + ".nf --mode static --steps 1 --device cpu -o " + notebook + ".d").code, 0);
    for (const auto& entry : std::filesystem::directory_iterator(m_folder.path(notebook + ".d"))) {
      std::ifstream log(entry.path() / "swaps.jsonl");
      for (std::string line; std::getline(log, line);)
        if (const auto swap = nlohmann::json::parse(line); swap.contains("subgraph")) ran.insert(swap["subgraph"]);
    }
    EXPECT_EQ(shown, ran);
    EXPECT_THAT(explain["outside"].dump(), HasSubstr("d(L)/d(A)"));
    EXPECT_EQ(scheduled["outside"], explain["outside"]);
    for (const auto& d : explain["decisions"]) EXPECT_NE(d["consumer"], "d(L)/d(A)");
    const Outcome text = run("show " + notebook + ".nf --stage fused");
    EXPECT_THAT(text.out, HasSubstr("\n# Outside the training step, for `show` and `eval`, no part of what is decided:\n# "));
    file("again.nf", text.out);
    EXPECT_EQ(run("check again.nf").code, 0);
  }
  const auto two = nlohmann::json::parse(run("explain two.nf --json").out);
  auto same = nlohmann::json::parse(run("explain without.nf --json").out);
  EXPECT_TRUE(same["outside"].empty());
  EXPECT_EQ(two["decisions"], same["decisions"]);
  EXPECT_EQ(two["kernels"], same["kernels"]);
}

// A tensor and its gradient are decided together: what is counted is what was carried out of both.
TEST_F(CommandLine, LaunchesThatDecisionsCountAreThoseThatAreSaved) {
  for (const char* notebook : {"welcome.nf", "welcome.nf --set B=2", "digits_capsnet.nf"}) {
    const std::string path = std::string(NF_EXAMPLES) + "/" + notebook;
    const auto kernelsAt = [&](const char* stage) {
      const std::string text = "\n" + run("show " + path + " --stage " + stage).out, mark = "\n# subgraph ";
      std::int64_t count = 0;
      for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) ++count;
      return count;
    };
    const auto explained = nlohmann::json::parse(run("explain " + path + " --json").out);
    std::int64_t claimed = 0;
    for (const auto& d : explained["decisions"])
      if (d["accepted"].get<bool>()) claimed += d["dK"].get<std::int64_t>();
    // What only a `show` needs is partitioned with the rest, and no part of what is decided.
    const std::int64_t before = kernelsAt("partitioned") - static_cast<std::int64_t>(explained["outside"].size());
    const std::int64_t after = kernelsAt("fused");
    EXPECT_GT(after, 1) << notebook;
    EXPECT_EQ(claimed, before - after) << notebook << ": " << before << " kernels became " << after;
  }
}

// Nothing is on record: both sides are measured by first schedules, and it is said.
TEST_F(CommandLine, ABranchIsMeasuredLikeWithLike) {
  file("net.nf",
       "input X[64, 48] = normal(0, 1)\nparam W[32, 48] = normal(0, 0.1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\n"
       "Z[b, n] = tanh(Y[b, n])\nshow Z\nhint fuse Y, Z\n");
  const Outcome o = run("explain net.nf --json --measure Y,Z");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto measured = nlohmann::json::parse(o.out);
  EXPECT_EQ(measured["schedules"], "first");
  EXPECT_THAT(measured["verdict"].get<std::string>(), HasSubstr("Both sides ran by first schedules, as neither is tuned."));
}

TEST_F(CommandLine, ABranchIsMeasuredByItsPins) {
  const std::string net =
      "input X[64, 48] = normal(0, 1)\nparam W[32, 48] = normal(0, 0.1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\n"
      "Z[b, n] = tanh(Y[b, n])\nshow Z\n";
  file("alone.nf", net + "hint split Y, Z\n");
  std::string schedule;
  const auto kernels = nlohmann::json::parse(run("show alone.nf --stage scheduled --json").out)["kernels"];
  for (const auto& k : kernels)
    if (k["name"] == "Z") schedule = k["schedule"].dump();
  ASSERT_FALSE(schedule.empty());
  file("net.nf", net + "hint split Y, Z\nhint schedule Z " + schedule + "\n");
  const Outcome o = run("explain net.nf --json --measure Y,Z");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(nlohmann::json::parse(o.out)["verdict"].get<std::string>(), HasSubstr("Pinned kernels ran by their hints."));
}

TEST_F(CommandLine, AHintForAShowAloneIsTold) {
  file("net.nf", std::string(kTwo) +
                     "R[i, j] = U[i, j] * 2\nT[i, j] = R[i, j] + 1\nshow T\nhint fuse R, T\nhint fuse d(L)/d(U), d(L)/d(P)\n");
  const Outcome o = run("check net.nf");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("net.nf:12:1: warning: only a `show` needs `R`: no training step makes it"));
  EXPECT_THAT(o.err, Not(HasSubstr("d(L)/d(U)")));
  EXPECT_THAT(run("explain net.nf").err, HasSubstr("only a `show` needs `R`"));
}

// The step makes the equal one: the hint is the evaluation's alone.
TEST_F(CommandLine, AHintForTheEqualOfWhatAStepMakesIsTold) {
  const std::string net =
      "input X[6, 5] = normal(0, 1)\nparam V[5, 5] = normal(0, 1)\nA[n, d] = tanh(sum[k] X[n, k] * V[k, d])\n"
      "P[n, d] = exp(A[n, d])\nQ[n, d] = exp(A[n, d])\nM[n, d] = A[n, d] * 3\nloss L = mean[n, d] Q[n, d]^2\n"
      "eval e = sum[n, d] (P[n, d] + M[n, d])\ntrain L { steps = 3; optimizer = sgd(lr=0.1) }\n";
  file("net.nf", net + "hint split A, P\n");
  const Outcome o = run("check net.nf");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("net.nf:10:1: warning: only an `eval` needs `P`: no training step makes it"));
  EXPECT_THAT(o.err, HasSubstr("what a step makes is `Q`, which is equal: name that"));
  for (const char* hint : {"hint split A, Q\n", "hint split A, M\n"}) {
    file("net.nf", net + hint);
    EXPECT_THAT(run("check net.nf").err, Not(HasSubstr("warning"))) << hint;
  }
}

// What the language has warned of is no edge that could be decided.
TEST_F(CommandLine, AHintThatNamesNoEdgeIsNoDecision) {
  file("net.nf",
       "input X[6, 5] = normal(0, 1)\nparam V[5, 5] = normal(0, 1)\nA[n, d] = tanh(sum[k] X[n, k] * V[k, d])\n"
       "B[n, d] = tanh(sum[k] A[n, k] * V[k, d])\nQ[n, d] = exp(A[n, d]) + B[n, d]\nloss L = mean[n, d] Q[n, d]^2\n"
       "train L { steps = 3; optimizer = sgd(lr=0.1) }\nhint fuse A, B\n");
  const Outcome o = run("explain net.nf --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto decisions = nlohmann::json::parse(o.out)["decisions"];
  EXPECT_FALSE(decisions.empty());
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& d : decisions) {
    EXPECT_TRUE(pairs.emplace(d["producer"].get<std::string>(), d["consumer"].get<std::string>()).second) << d.dump();
    EXPECT_FALSE(d["producer"] == "A" && d["consumer"] == "B.sum" && d["state"] == "not lowerable") << d.dump();
  }
}

// Fusion follows the machine's figures, and with it which kernels there are: a schedule of one that is not here stops nothing.
TEST_F(CommandLine, APinnedScheduleOfAnotherFusionIsSetAside) {
  const std::string net =
      "input X[64, 48] = normal(0, 1)\nparam W[32, 48] = normal(0, 0.1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\n"
      "Z[b, n] = tanh(Y[b, n])\nshow Z\n";
  file("alone.nf", net + "hint split Y, Z\n");
  std::string schedule;
  const auto kernels = nlohmann::json::parse(run("show alone.nf --stage scheduled --json").out)["kernels"];
  for (const auto& k : kernels)
    if (k["name"] == "Z") schedule = k["schedule"].dump();
  ASSERT_FALSE(schedule.empty()) << kernels.dump(1);
  file("pinned.nf", net +
                        "loss L = mean[b, n] (Z[b, n] - 0.5)^2\n"
                        "train L { steps = 2; optimizer = sgd(lr=0.1); seed = 1; mode = static }\nhint fuse Y, Z\n"
                        "hint schedule Z " +
                        schedule + "\n");
  for (const char* command : {"check pinned.nf", "run pinned.nf --device cpu", "train pinned.nf --device cpu -o out.d"}) {
    SCOPED_TRACE(command);
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(
        o.err, HasSubstr("pinned.nf:9:1: warning: the fusion decided here has no kernel with this schedule, which is set aside: "));
    EXPECT_THAT(o.err, HasSubstr("`hint split Y, Z`"));
    EXPECT_THAT(o.err, HasSubstr(" the kernel that it is for"));
  }
  EXPECT_EQ(run("show pinned.nf --stage scheduled").code, 0);
}

TEST_F(CommandLine, ExplainCountsTheKernelsThatAProfileTimes) {
  file("loop.nf",
       "input X[6, 3] = normal(0, 1)\nparam U[3, 3] = normal(0, 1)\nh[i: 3] = 0 * X[0, i]\n"
       "for t in 0..6 { h[i] = tanh(X[t, i] + sum[k] U[i, k] * h[k]) }\nloss L = sum[i] h[i]^2\n"
       "train L { steps = 1; optimizer = sgd(lr=0.1) }\n");
  const auto profile = nlohmann::json::parse(run("profile loop.nf --device cpu --repeats 1 --json").out);
  const auto explain = nlohmann::json::parse(run("explain loop.nf --json").out);
  std::multiset<std::string> counted, timed;
  for (const auto& kernel : explain["kernels"]) counted.insert(originalName(kernel));
  for (const auto& kernel : profile["kernels"]) timed.insert(originalName(kernel["kernel"]));
  EXPECT_EQ(counted.size(), timed.size()) << explain["kernels"] << profile["kernels"];
  EXPECT_THAT(run("explain loop.nf").out, testing::ContainsRegex("\n[0-9]+ operators in [0-9]+ kernels?, 2 loops of "));
}

TEST_F(CommandLine, AProfileIsOfATrainingStep) {
  file("net.nf", kNet);
  const auto json = nlohmann::json::parse(run("profile net.nf --device reference --repeats 2 --json").out);
  EXPECT_EQ(json["program"], "a training step of L");
  bool updates = false;
  for (const auto& kernel : json["kernels"])
    updates = updates || kernel["kernel"].get<std::string>().find("W.next") != std::string::npos;
  EXPECT_TRUE(updates) << json.dump(1);
  file("shown.nf", "X[i: 8] = 1 + i\nshow X\n");
  EXPECT_EQ(nlohmann::json::parse(run("profile shown.nf --device reference --repeats 2 --json").out)["program"],
            "what the cells show");
}

TEST_F(CommandLine, ABenchOfANotebook) {
  file("net.nf", kNet);
  file("net.peer.json", R"({"name": "a peer", "step_ms": 7.5})");
  const Outcome o = run("bench net.nf --device reference --seconds 0.05 --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto json = nlohmann::json::parse(o.out);
  ASSERT_EQ(json["rows"].size(), 1u);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["case"], "net, training step of L");
  EXPECT_GT(row["ours_ms"].get<double>(), 0);
  EXPECT_EQ(row["peer"], "a peer");
  EXPECT_DOUBLE_EQ(row["ratio"].get<double>(), 7.5 / row["ours_ms"].get<double>());
  EXPECT_TRUE(json["machine"].contains("P_c"));
  EXPECT_EQ(run("bench ops --filter nosuch").code, 2);
}

}  // namespace
}  // namespace nf
