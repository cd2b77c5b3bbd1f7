// SPDX-License-Identifier: Apache-2.0
// The command line as scripts meet it: exit codes, what stands on which stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/fusion/site.h"
#include "core/ir/serialize.h"
#include "core/support/uncaught.h"
#include "core/tune/device_lease.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kNet = R"(input X[4, 3] = normal(0, 1)
param W[2, 3] = normal(0, 1)
Y[b, n] = sum[k] X[b, k] * W[n, k]
loss L = mean[b, n] Y[b, n]^2
show Y
train L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }
)";

struct Outcome {
  int code = -1;
  std::string out, err;
};

class CommandLine : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(m_folder.path(name)) << text;
    return m_folder.path(name);
  }
  // Arguments as a shell takes them; `to`: where standard output goes instead; `before`: what the shell does first, "ulimit -f 1 &&".
  Outcome run(const std::string& arguments, const std::string& to = {}, const std::string& before = {}) {
    const std::string out = to.empty() ? m_folder.path("out") : to, err = m_folder.path("err");
    const std::string command = "cd '" + m_folder.path(".") + "' && " + before + " HOME='" + m_folder.path("home") +
                                "' NEOFLOW_RECORDS='" + m_folder.path("records.sqlite") + "' '" NF_NEOFLOW "' " + arguments +
                                " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    const auto text = [](const std::string& path) {
      std::stringstream s;
      s << std::ifstream(path).rdbuf();
      return s.str();
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, to.empty() ? text(out) : std::string(), text(err)};
  }
  fakes::Folder m_folder;
};

TEST_F(CommandLine, WhatCouldNotBePrintedIsTold) {
  file("net.nf", kNet);
  for (const char* arguments :
       {"check net.nf", "check net.nf --json", "show net.nf", "show net.nf --json", "grad net.nf L W", "grad net.nf L W --json",
        "explain net.nf --json", "doctor", "doctor --json", "--help", "run net.nf --device reference",
        "run net.nf --device reference --json", "train net.nf --device reference -o out.d",
        "train net.nf --device reference -o out.d --json-progress", "profile net.nf --device reference --json"}) {
    const Outcome o = run(arguments, "/dev/full");
    EXPECT_EQ(o.code, 3) << arguments;
    EXPECT_THAT(o.err, HasSubstr("could not be written")) << arguments;
  }
}

TEST_F(CommandLine, NumbersThatAreNoneAreUsageErrors) {
  file("net.nf", kNet);
  for (const char* arguments : {"train net.nf --seconds nan", "train net.nf --budget nan", "train net.nf --checkpoint-seconds nan",
                                "tune net.nf --seconds nan", "bench net.nf --seconds nan", "bench ops --seconds inf",
                                "resume --help", "bench", "profile net.nf --which 0"})
    EXPECT_EQ(run(arguments).code, 2) << arguments;
}

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

TEST_F(CommandLine, BenchInTurnsAnswersEachLine) {
  const auto lines = [](const std::string& text) {
    std::vector<nlohmann::json> found;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  };
  file("net.nf", kNet);
  file("steps", "{\"seconds\": 0.001}\n{\"seconds\": 0.001}\n");
  const Outcome o = run("bench net.nf --turns --device cpu <steps");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto steps = lines(o.out);
  ASSERT_EQ(steps.size(), 3u);
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

TEST_F(CommandLine, MistakesOfDataStandInTheNotebook) {
  file("bytes.npy", "root:x:0:0:root:/root:/bin/bash\n");
  file("missing.nf", "data D = csv(\"nowhere.csv\")\nlet B = 2\ninput X[B, 3] = batch D[:, 0..3]\nloss L = mean[b, k] X[b, k]^2\n");
  file("split.nf", "data D = digits { split = last 100000 }\nlet B = 2\ninput X[B, 64] = batch D[:, 0..64]\nshow X\n");
  file("npy.nf", "let N = 4\ninput A[N] = npy(\"bytes.npy\")\nshow A\n");
  const std::pair<const char*, const char*> cases[] = {
      {"missing.nf", "missing.nf:1:14"}, {"split.nf", "split.nf:1:6"}, {"npy.nf", "npy.nf:2:18"}};
  for (const auto& [name, place] : cases) {
    const Outcome check = run(std::string("check ") + name);
    EXPECT_EQ(check.code, 1) << name;
    EXPECT_THAT(check.err, HasSubstr(place)) << name;
    const Outcome json = run(std::string("check --json ") + name);
    EXPECT_EQ(json.code, 1);
    EXPECT_FALSE(nlohmann::json::parse(json.out)["ok"].get<bool>());
    const Outcome ran = run(std::string("run --device reference --dump all ") + name);
    EXPECT_EQ(ran.code, 1) << name;
    EXPECT_THAT(ran.err, HasSubstr(place)) << name;
  }
}

TEST_F(CommandLine, AnIndexThatIsComputedStaysLegalInTheGate) {
  file("index.nf",
       "input x[64] = uniform(0, 1)\nparam E[7] = normal(0, 1)\nY[n] = E[i32(floor(x[n] * 7))]^2\nloss L = sum[n] Y[n]\n"
       "show L, d(L)/d(E)\ntrain L { steps = 3; optimizer = sgd(lr=0.01); mode = static }\n");
  for (const char* arguments :
       {"run index.nf --device cpu", "train index.nf --device cpu -o out.d --no-records", "grad index.nf L E --check"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << arguments << o.err;
  }
}

TEST_F(CommandLine, AnIndexOutOfRangeHasItsPlaceAndValueOnEveryDevice) {
  file("beyond.nf",
       "input x[4] = 1\nparam E[5, 2] = 1\nY[n, d] = E[i32(x[n] * 9), d]\nloss L = sum[n, d] Y[n, d]\nshow Y\n"
       "train L { steps = 3; optimizer = sgd(lr=0.01) }\n");
  for (const char* command : {"run", "train"}) {
    std::string said;
    for (const char* device : {"reference", "cpu"}) {
      const Outcome o = run(std::string(command) + " beyond.nf -o out.d --device " + device);
      EXPECT_EQ(o.code, 1) << o.err;
      EXPECT_THAT(o.err, HasSubstr("beyond.nf:3:1"));
      EXPECT_THAT(o.err, HasSubstr("Operator Y: index 0 of E is 9, outside [0, 5)"));
      const std::string told = o.err.substr(o.err.find("beyond.nf:3:1"));
      if (said.empty()) said = told;
      EXPECT_EQ(told, said);
    }
  }
}

// Terms that single precision can't hold cancel on every device.
TEST_F(CommandLine, AMeanOfWholeNumbersIsAddedUpInDoublePrecision) {
  file("mean.nf",
       "k[i: 4] : i32 = select(i == 0, 2147483647, select(i == 1, 0 - 2147483647, select(i == 2, 3, 1)))\nm = mean[i] k[i]\n"
       "n = 1 + mean[i] k[i]\nshow m, n\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run mean.nf --device ") + device);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("m = 1\n"));
    EXPECT_THAT(o.out, HasSubstr("n = 2\n"));
  }
}

// Gradients of a size of 1e-6 and below are told apart from what rounding does to differences; indices are those of the data.
// What a gradient does not see is no disagreement: 0 where the rest agrees, 1 where it does not, 2 where nothing could be compared.
TEST_F(CommandLine, NumericChecksSayWhatTheyHoldAndWhenTheyCannot) {
  file("stop.nf", "input x[4] : f64 = uniform(0, 1)\nY[i] = x[i] + stop_gradient(floor(3*x[i]) - x[i])\nL = sum[i] Y[i]^2\n");
  const Outcome stop = run("grad stop.nf L x --check");
  EXPECT_EQ(stop.code, 0) << stop.out << stop.err;
  EXPECT_THAT(stop.out, HasSubstr("stop_gradient at stop.nf:2:15: the differences hold its value"));
  const auto json = nlohmann::json::parse(run("grad stop.nf L Y --check --json").out);
  EXPECT_TRUE(json["ok"]);
  EXPECT_EQ(json["check"]["held"], 0);
  const auto held = nlohmann::json::parse(run("grad stop.nf L x --check --json").out);
  EXPECT_EQ(held["check"]["held_at"][0]["line"], 2);
  EXPECT_EQ(held["check"]["held_at"][0]["column"], 15);

  file("jump.nf", "input x[3] : f64 = 0\nL = sum[i] select(x[i] > 0, log(x[i]), 3*x[i])\n");
  const Outcome jump = run("grad jump.nf L x --check");
  EXPECT_EQ(jump.code, 0) << jump.out << jump.err;
  EXPECT_THAT(jump.out, HasSubstr("[1]: derived 3, differences 3, error 0, beside a jump"));

  // The notebook's own point is what is checked and told; where equals tie there the choice is named.
  file("tie.nf", "param A[5] : f64 = 1\nL = max[i] 3*A[i]\n");
  const Outcome tie = run("grad tie.nf L A --check");
  EXPECT_EQ(tie.code, 0) << tie.out << tie.err;
  EXPECT_THAT(tie.out, testing::AllOf(HasSubstr("[0]: derived 3, differences 3, error "), HasSubstr(", at a tie or kink\n")));
  EXPECT_THAT(tie.out, HasSubstr("5 samples lie at a tie of `max` in L (tie.nf:2:"));
  EXPECT_THAT(tie.out,
              HasSubstr("# check: also with A moved by about 1 %, as values that are all equal test little: 5 of 5 elements"));
  const auto tied = nlohmann::json::parse(run("grad tie.nf L A --check --json").out);
  EXPECT_EQ(tied["check"]["ties"], 5);
  EXPECT_EQ(tied["check"]["choices"][0]["what"], "max");
  EXPECT_EQ(tied["check"]["choices"][0]["place"]["line"], 2);
  EXPECT_EQ(tied["check"]["moved"]["tensors"], nlohmann::json::array({"A"}));
  EXPECT_EQ(tied["check"]["moved"]["refuted"], 0);

  file("many.nf", "input x[5000] : f64 = 1\nL = sum[i, j: 5000] x[i] * stop_gradient(x[i] * x[j])\n");
  const Outcome many = run("grad many.nf L x --check");
  EXPECT_EQ(many.code, 2) << many.out << many.err;
  EXPECT_THAT(many.err, HasSubstr("Nothing was compared: "));
  EXPECT_EQ(run("grad many.nf L x --check --json").code, 2);
}

TEST_F(CommandLine, AGradientIsCheckedOnTheNotebooksValues) {
  file("tokens.csv", "1,2,3,4\n");
  file("tokens.nf",
       "input tok[4] : i32 = csv(\"tokens.csv\")\nparam E[5, 3] = normal(0, 1)\nY[n, d] = E[tok[n], d]^2\n"
       "loss L = 5 + 1e-7 * (sum[n, d] Y[n, d])\n");
  const Outcome o = run("grad tokens.nf L E --check --json");
  EXPECT_EQ(o.code, 0) << o.out;
  const auto json = nlohmann::json::parse(o.out);
  int moved = 0;
  for (const auto& sample : json["check"]["worst_samples"]) moved += sample["derived"] != 0 && sample["element"][0] != 0;
  EXPECT_GT(moved, 0) << o.out;
}

// Where the gradient or the differences are no number there is no error to tell, and no number is made up.
TEST_F(CommandLine, AGradientSaysWhereItsTextBelongs) {
  file("loop.nf",
       "input X[5, 3] = normal(0, 1)\nparam U[3, 3] = normal(0, 0.5)\nh[i: 3] = 0.1\n"
       "for t in 0..5 { h[i] = tanh(X[t, i] + sum[k] U[i, k] * h[k]) }\nL = sum[i] h[i]^2\n");
  file("twice.nf", "param x[4] = uniform(-1, 1)\nS = sum[n] x[n]^3\ndu = d(S)/d(x)\nM = sum[n] du[n]^2\n");
  const Outcome loop = run("grad loop.nf L U");
  EXPECT_THAT(loop.out, testing::StartsWith("# belongs behind the notebook, in a cell of its own\n"));
  std::ifstream notebook(m_folder.path("loop.nf"));
  file("pasted.nf", std::string(std::istreambuf_iterator<char>(notebook), {}) + "# %%\n" + loop.out);
  EXPECT_EQ(run("check pasted.nf").code, 0) << run("check pasted.nf").err;
  const Outcome twice = run("grad twice.nf M x");
  EXPECT_THAT(twice.out, testing::StartsWith("# stands alone, as a notebook of its own\n"));
  file("alone.nf", twice.out);
  EXPECT_EQ(run("check alone.nf").code, 0);
}

TEST_F(CommandLine, MistakesOfTheCommandHaveARemedy) {
  file("net.nf", kNet);
  file("lets.nf", "let Alpha = 3\nlet n = 4\ninput X[Alpha] = 1\nshow X\n");
  file("unnamed.nf", "data D = csv(\"\")\nlet B = 1\ninput X[B, 1] = batch D[:, 0..1]\nshow X\n");
  file("untrained.nf", "input X[3] = 1\nshow X\n");
  const std::pair<const char*, const char*> cases[] = {
      {"check lets.nf --set Q=3", "those there are: Alpha n"},
      {"check lets.nf --set Alpa=3", "is `Alpha` meant?"},
      {"check unnamed.nf", "\"\": cannot be opened"},
      {"train untrained.nf", "train L { steps = 100"},
      {"train net.nf --seed 99999999999999999999", "99999999999999999999 is more than 1000000000000000"},
      {"export net.nf d --to json --stage lowered", "`neoflow show` has scheduled and lowered"},
      {"grad lets.nf X n", "n is a number, a gradient is of tensors"}};
  for (const auto& [arguments, words] : cases) {
    const Outcome o = run(arguments);
    EXPECT_NE(o.code, 0) << arguments;
    EXPECT_THAT(o.err, HasSubstr(words)) << arguments;
  }
  for (const char* child : {"engine --help", "worker --help"}) EXPECT_THAT(run(child).out, Not(HasSubstr("Examples:"))) << child;
}

TEST_F(CommandLine, AnAccessWithoutAPointIsExplained) {
  file("folded.nf",
       "input A[5] = 1\ninput W[5] = 2\ninput Z = 1\n"
       "Y = sum[x: 5] (select(not ((3*x - x + 3)%2 < 5), (A[x + 0] else 0)*W[x], 0))\nL = Y + Z\n");
  const Outcome o = run("grad folded.nf L A --explain");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, HasSubstr("# A[x + 0] in Y: empty, no point of Y reads it: `"));
  EXPECT_THAT(o.out, Not(HasSubstr("# W[x]"))) << "not asked for";
  int empty = 0;
  const auto json = nlohmann::json::parse(run("grad folded.nf L A --explain --json").out);
  for (const auto& term : json["terms"])
    if (term["form"] == "empty") {
      ++empty;
      EXPECT_EQ(term["tensor"], "A");
      EXPECT_EQ(term["place"]["line"], 4);
      EXPECT_EQ(term["certificate"]["state"], "empty");
    }
  EXPECT_EQ(empty, 1);
}

TEST_F(CommandLine, EpochsNeedADataSet) {
  file("net.nf", kNet);
  const Outcome o = run("train net.nf --device reference --epochs 3 -o out.d");
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--epochs needs a data set"));
  EXPECT_FALSE(std::filesystem::exists(m_folder.path("out.d")));
  EXPECT_THAT(run("train --help").out, HasSubstr("takes the place of the"));
}

TEST_F(CommandLine, AnUndefinedGradientIsNoSmallError) {
  file("x.csv", "0,-1,2\n");
  file("undefined.nf", "input x[3] : f64 = csv(\"x.csv\")\nN = sqrt(sum[i] (x[i]*0)^2)\nR = sum[i] x[i]^2.5\n");
  Outcome o = run("grad undefined.nf N x --check");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, HasSubstr("3 of 3 elements by central differences, undefined at 3 elements, the first [0]\n"));
  EXPECT_THAT(o.out, HasSubstr("[0]: derived nan, differences 0, undefined\n"));
  EXPECT_THAT(o.out, Not(HasSubstr("worst error")));
  o = run("grad undefined.nf R x --check");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, HasSubstr("[2]: derived 7.07106781, differences nan, undefined\n"));
  const auto json = nlohmann::json::parse(run("grad undefined.nf N x --check --explain --json").out);
  EXPECT_EQ(json["check"]["undefined"], 3);
  EXPECT_EQ(json["check"]["first_undefined"], nlohmann::json::array({0}));
  EXPECT_TRUE(json["check"]["worst"].is_null());
  // The load of a scalar has an inverse without expressions; it is proved like the others.
  for (const auto& term : json["terms"]) {
    EXPECT_EQ(term["certificate"]["state"], "proved") << term.dump(1);
    EXPECT_EQ(term["cost"]["points"], term["tensor"] == "x" ? 3 : 1) << term.dump(1);
  }
}

TEST_F(CommandLine, APipeIsNoDataFile) {
  const std::string pipe = m_folder.path("pipe.csv");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  file("pipe.nf", "input A[2, 3] = csv(\"pipe.csv\")\nshow A\n");
  for (const char* arguments : {"check pipe.nf", "run pipe.nf --device reference"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.err, HasSubstr("pipe.csv: is a pipe, a file was expected"));
  }
}

TEST_F(CommandLine, ExitCodesSayWhoseMistakeItIs) {
  file("net.nf", kNet);
  file("damaged.jsonl", "{\"step\": what\n");
  EXPECT_EQ(run("run net.nf --device tpu").code, 2);
  EXPECT_EQ(run("train net.nf --device tpu").code, 2);
  EXPECT_EQ(run("train net.nf --steps 5 --epochs 3").code, 2);
  EXPECT_EQ(run("train net.nf --device cpu -o out.d --replay-swaps damaged.jsonl").code, 1);
  const Outcome missing = run("check nowhere.nf --json");
  EXPECT_EQ(missing.code, 1);
  const auto json = nlohmann::json::parse(missing.out);
  EXPECT_FALSE(json["ok"].get<bool>());
  EXPECT_EQ(json["diagnostics"].size(), 1u);
}

TEST_F(CommandLine, ASwapLogOfAnotherProgramIsAWrongInput) {
  file("net.nf", kNet);
  std::string wider = kNet;
  wider.replace(wider.find("X[4, 3]"), 7, "X[8, 3]");
  file("wider.nf", wider);
  ASSERT_EQ(run("train net.nf --device reference -o out.d").code, 0);
  std::string log;
  for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("out.d"))) log = entry.path() / "swaps.jsonl";
  EXPECT_EQ(run("train net.nf --device reference -o again.d --replay-swaps '" + log + "'").code, 0);
  const Outcome other = run("train wider.nf --device reference -o other.d --replay-swaps '" + log + "'");
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("belongs to another program"));
}

// The constants of the machine are measured: a run is repeated with those it was fused for, whatever they are by now.
TEST_F(CommandLine, ReplayAndStaticResumeFuseAsTheRunDid) {
  file("wave.nf", R"(input X[64, 32] = normal(0, 1)
param W[32] = normal(0, 1)
E[b, k] = sin(exp(sin(X[b, k] * W[k])))
Y[b, n: 64] = sum[k] E[b, k] * X[(b + n) % 64, k]
loss L = mean[b, n] Y[b, n]^2
train L { steps = 4; optimizer = sgd(lr=1e-4); seed = 1; mode = static }
)");
  const auto runIn = [&](const std::string& root) {
    for (const auto& entry : std::filesystem::directory_iterator(m_folder.path(root))) return entry.path().string();
    return std::string();
  };
  const auto read = [](const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto kernels = [&](const std::string& root) {
    return nlohmann::json::parse(read(runIn(root) + "/run.json"))["unique_kernels"].get<int>();
  };
  const std::string train = "train wave.nf --device cpu --no-records ";
  setenv("XDG_CACHE_HOME", m_folder.path("cache").c_str(), 1);
  const Outcome whole = run(train + "-o whole.d");
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(run(train + "--steps 2 -o half.d").code, 0);
  // Memory far faster than arithmetic, or far slower: one of them fuses otherwise than this machine does.
  bool otherwise = false;
  for (const auto& [bandwidth, flops] : {std::pair(1e20, 1e6), {1e6, 1e20}}) {
    for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("cache/neoflow"))) {
      if (entry.path().extension() != ".json") continue;
      auto measured = nlohmann::json::parse(read(entry.path()));
      measured["P_d"] = bandwidth;
      measured["P_c"] = flops;
      measured["L"] = 1e-12;
      std::ofstream(entry.path()) << measured.dump();
    }
    for (const char* root : {"fresh.d", "again.d", "resumed.d"}) std::filesystem::remove_all(m_folder.path(root));
    ASSERT_EQ(run(train + "-o fresh.d").code, 0);
    otherwise = otherwise || kernels("fresh.d") != kernels("whole.d");
    const Outcome again = run(train + "-o again.d --replay-swaps '" + runIn("whole.d") + "/swaps.jsonl'");
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(read(runIn("again.d") + "/swaps.jsonl"), read(runIn("whole.d") + "/swaps.jsonl"));
    const Outcome resumed = run(train + "-o resumed.d --resume '" + (otherwise ? runIn("half.d") : m_folder.path("half.d")) + "'");
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(kernels("resumed.d"), kernels("whole.d"));
  }
  unsetenv("XDG_CACHE_HOME");
  EXPECT_TRUE(otherwise);
}

TEST_F(CommandLine, ASwapLogThatCanNotBeIsAWrongInput) {
  file("net.nf", kNet);
  ASSERT_EQ(run("train net.nf --device cpu --mode static --no-records -o out.d").code, 0);
  std::string log;
  for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("out.d"))) log = entry.path() / "swaps.jsonl";
  std::ifstream in(log);
  std::string line;
  nlohmann::json swap;
  while (std::getline(in, line) && !swap["schedule"].is_object()) swap = nlohmann::json::parse(line);
  ASSERT_TRUE(swap["schedule"].is_object());
  auto wide = swap, early = swap;
  for (auto& [name, value] : wide["schedule"]["knobs"].items()) value = 1000000;
  early["step"] = -5;
  file("wide.jsonl", wide.dump() + "\n");
  file("early.jsonl", early.dump() + "\n");
  file("empty.jsonl", "");
  file("short.jsonl", swap.dump() + "\n");
  const std::map<std::string, std::string> said{{"wide", "a kernel that it can't have here: knob "},
                                                {"early", "Line 1 of the swap log is damaged."},
                                                {"empty", "empty.jsonl is empty."},
                                                {"short", "The swap log is not whole: of step 1 the kernel for "}};
  for (const auto& [name, text] : said) {
    const Outcome o = run("train net.nf --device cpu --no-records -o again.d --replay-swaps " + name + ".jsonl");
    EXPECT_EQ(o.code, 1) << name;
    EXPECT_THAT(o.err, HasSubstr(text)) << name;
  }
}

TEST_F(CommandLine, ErrorEventsHaveTheirPlace) {
  file("none.nf", "input X[3] = 1\nY[i] = X[i]\nshow Y\n");
  file("net.nf", kNet);
  const auto event = [&](const std::string& arguments, int code) {
    const Outcome o = run(arguments + " --json-progress");
    EXPECT_EQ(o.code, code) << arguments;
    return nlohmann::json::parse(o.out);
  };
  const auto missing = event("train none.nf --device reference", 1);
  EXPECT_EQ(missing["file"], "none.nf");
  EXPECT_EQ(missing["line"], 0);
  const auto which = event("train net.nf --device reference --which 4", 2);
  EXPECT_EQ(which["file"], "net.nf");
  const std::string net = kNet;
  EXPECT_EQ(which["line"], 1 + std::count(net.begin(), net.begin() + static_cast<std::ptrdiff_t>(net.find("train")), '\n'));
  EXPECT_EQ(run("profile none.nf --device reference --which 3").code, 2);
}

// One object, whoever reads it: the event of the first mistake, and all of them as `check --json` has them.
TEST_F(CommandLine, MistakesOfANotebookHaveOneFormInJson) {
  file("two.nf", "input X[3] = 1\nY[i] = Z[i]\nU[i] = V[i]\ntrain U { steps = 1 }\n");
  const auto all = nlohmann::json::parse(run("check two.nf --json").out)["diagnostics"];
  for (const char* command :
       {"train two.nf --json", "train two.nf --json-progress", "run two.nf --json", "tune two.nf --json-progress"}) {
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 1) << command;
    const auto event = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_TRUE(event.is_object()) << command << "\n" << o.out;
    EXPECT_EQ(event["event"], "error") << command;
    EXPECT_EQ(event["line"], 2) << command;
    EXPECT_EQ(event["ok"], false) << command;
    EXPECT_EQ(event["diagnostics"], all) << command;
  }
}

TEST_F(CommandLine, LabelsThatMatchNothingAreWarnedOf) {
  file("d.csv", "0,1\n1,12\n2,3\n");
  file("stray.nf",
       "let B = 1\ndata D = csv(\"d.csv\") { split = last 0 }\ninput x[B, 1] = batch D[:, 0..1]\ninput y[B] : i32 = batch D[:, 1]\n"
       "param W[10] = normal(0, 1)\nS[b, n] = x[b, 0] * W[n]\nloss L = cross_entropy(S, y)\ntrain L { epochs = 1 }\n");
  const Outcome o = run("check stray.nf");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("stray.nf:4:7: warning: element 1 of `y` is 12, and is compared with 0..9 only: it matches none"));
  EXPECT_THAT(o.err, HasSubstr("stray.nf:2:33: warning: `split = last 0` holds no row out"));
  for (const char* command : {"run stray.nf --device reference --dump L -o r.d", "train stray.nf --device reference -o t.d"}) {
    const Outcome told = run(command);
    EXPECT_EQ(told.code, 0) << command;
    EXPECT_THAT(told.err, HasSubstr("stray.nf:4:7: warning: element 1 of `y` is 12, and is compared with 0..9 only")) << command;
    const Outcome events = run(std::string(command) + " --json-progress");
    const std::size_t warning = events.out.find("\"event\":\"warning\""), steps = events.out.find("\"event\":\"first_step\"");
    ASSERT_NE(warning, std::string::npos) << events.out;
    EXPECT_LT(warning, std::min(steps, events.out.find("\"event\":\"done\""))) << events.out;
    EXPECT_THAT(events.out, HasSubstr("\"file\":\"stray.nf\""));
  }
}

// Stopped in the middle of its first step, which would take hours: no result, so no success.
TEST_F(CommandLine, AHintThatCannotBeObeyedIsWarnedOf) {
  file("hint.nf",
       "input X[64, 8] = normal(0, 1)\nN[i] = sum[k] X[i, k]\nT = sum[i] N[i]\nU[i] = N[i] + T\nV[i] = 2 * U[i]\nhint fuse U, V\n"
       "hint fuse T, U\nshow V\n");
  const std::string place = "hint.nf:7:", words = "`hint fuse T, U` cannot be obeyed, they stay two kernels";
  const Outcome check = run("check hint.nf");
  EXPECT_EQ(check.code, 0);
  EXPECT_THAT(check.err,
              testing::AllOf(HasSubstr(place), HasSubstr("warning: " + words), HasSubstr("The operators agree on no leading axis"),
                             Not(HasSubstr("hint fuse U, V` cannot"))));
  const Outcome ran = run("run hint.nf --device cpu");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, testing::AllOf(HasSubstr(place), HasSubstr("warning: " + words),
                                      HasSubstr("The operators agree on no leading axis")));
  EXPECT_THAT(run("explain hint.nf").out, HasSubstr("A `hint fuse` asks for it, in vain. "));
  const Outcome measured = run("explain hint.nf --measure T,U");
  EXPECT_EQ(measured.code, 1) << measured.out << measured.err;
  EXPECT_THAT(measured.err, testing::AllOf(HasSubstr("They cannot be fused: "), Not(HasSubstr("hint"))));
  const auto explained = nlohmann::json::parse(run("explain hint.nf --json").out);
  for (const auto& d : explained["decisions"])
    EXPECT_EQ(d["asked_in_vain"].get<bool>(), d["producer"] == "T" && d["consumer"] == "U") << d;
}

TEST_F(CommandLine, AStopBeforeTheFirstStepIsNoSuccess) {
  file("long.nf",
       "param Y[4] = normal(0, 1)\nloss L = sum[i: 100000000000] Y[i % 4]\ntrain L { steps = 3; optimizer = sgd(lr=0.1) }\n");
  file("stop.sh",
       "sh -c 'echo $$ >pid; exec \"$0\" train long.nf --device reference --mode static --no-records -o out.d' '" NF_NEOFLOW
       "' >out 2>err &\n"
       "until ls out.d/*/run.json >ls.out 2>&1; do sleep 0.02; done\nkill -TERM \"$(cat pid)\"\nwait $!\n");
  const int status = std::system(("cd '" + m_folder.path(".") + "' && sh stop.sh").c_str());
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 3);
  std::stringstream out;
  out << std::ifstream(m_folder.path("out")).rdbuf();
  EXPECT_THAT(out.str(), HasSubstr("stopped before the first one was made"));
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

TEST_F(CommandLine, AHintForAShowAloneIsTold) {
  file("net.nf", std::string(kTwo) +
                     "R[i, j] = U[i, j] * 2\nT[i, j] = R[i, j] + 1\nshow T\nhint fuse R, T\nhint fuse d(L)/d(U), d(L)/d(P)\n");
  const Outcome o = run("check net.nf");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("net.nf:12:1: warning: only a `show` needs `R`: no training step makes it"));
  EXPECT_THAT(o.err, Not(HasSubstr("d(L)/d(U)")));
  EXPECT_THAT(run("explain net.nf").err, HasSubstr("only a `show` needs `R`"));
}

TEST_F(CommandLine, TheLastLineOfATrainingHasEveryEval) {
  file("eval.nf",
       "let B = 64\ndata D = digits { split = last 128 }\ninput X[B, 64] = batch D[:, 0..64] / 16\nparam w[64] = normal(0, 0.1)\n"
       "y[b] = sum[k] X[b, k] * w[k]\nloss L = mean[b] (y[b] - 1)^2\neval mse = mean[b] (y[b] - 1)^2\n"
       "train L { steps = 4; optimizer = sgd(lr=0.1); mode = static }\n");
  const Outcome o = run("train eval.nf --device reference --no-records -o out.d");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, testing::ContainsRegex("4 steps in .*, loss .*, held out: mse [0-9]"));
  const std::string events = run("train eval.nf --device reference --no-records --json-progress -o out.e").out;
  EXPECT_THAT(events, HasSubstr(R"("search":"static")"));
}

TEST_F(CommandLine, WhatThereIsNoMemoryForHasItsPlaceAndSize) {
  file("big.nf",
       "let N = 1500000000\ninput X[4] = 1\ninput A[N, N] = 1\nY[i] = A[i, i] * X[0]\nloss L = sum[i] Y[i]\nshow Y\nparam w = 1.0\n"
       "loss M = L * w\ntrain M { steps = 1; optimizer = sgd(lr=0.1) }\n");
  for (const char* command : {"run big.nf -o out.d --device cpu", "train big.nf -o out.d --device cpu",
                              "profile big.nf --device cpu", "tune big.nf --trials 1"}) {
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 3) << command;
    EXPECT_THAT(o.err, HasSubstr("big.nf:3:7")) << command;
    EXPECT_THAT(o.err, HasSubstr("There is no memory for A: it takes 7.81 EiB, and this machine has ")) << command;
  }
  const auto json = nlohmann::json::parse(run("run big.nf --device cpu --json").out);
  EXPECT_EQ(json["event"], "error");
  EXPECT_EQ(json["line"], 3);
  EXPECT_EQ(json["column"], 7);
}

TEST_F(CommandLine, AFileInTheWayOfAFolderIsNamed) {
  file("net.nf", kNet);
  for (const char* arguments : {"train net.nf --device reference -o net.nf", "run net.nf --device reference -o net.nf/deep/er"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 3) << arguments;
    EXPECT_THAT(o.err, HasSubstr("cannot be made: net.nf is a file.")) << arguments;
  }
}

TEST_F(CommandLine, EveryErrorEventHasAPlace) {
  file("net.nf", kNet);
  const std::pair<const char*, const char*> cases[] = {{"train none.nf --json-progress", "none.nf"},
                                                       {"grad net.nf L Q --json", ""},
                                                       {"run net.nf --device nope --json-progress", ""},
                                                       {"show net.nf --stage fusd --json", ""}};
  for (const auto& [arguments, about] : cases) {
    const auto event = nlohmann::json::parse(run(arguments).out, nullptr, false);
    ASSERT_TRUE(event.is_object()) << arguments;
    EXPECT_EQ(event["event"], "error") << arguments;
    EXPECT_TRUE(event["file"].is_string() && (*about == 0 || event["file"] == about)) << arguments;
    EXPECT_TRUE(event["line"].is_number() && event["column"].is_number()) << arguments;
  }
}

TEST_F(CommandLine, AMisspeltOptionNamesTheOneThatIsMeant) {
  file("net.nf", kNet);
  const std::pair<const char*, const char*> cases[] = {
      {"train net.nf --stepz 3", "neoflow train has no option --stepz: is --steps meant?"},
      {"run net.nf --dumb=Y", "neoflow run has no option --dumb: is --dump meant?"},
      {"bench ops --filtr gemm", "neoflow bench ops has no option --filtr: is --filter meant?"},
      {"--frob", "neoflow has no option --frob."},
      {"--versoin", "neoflow has no option --versoin: is --version meant?"},
      {"check net.nf --qwertyuiop", "neoflow check has no option --qwertyuiop."},
      {"show net.nf --stage fusd", "There is no stage \"fusd\""},
      {"check net.nf more.nf", "neoflow check takes no further argument \"more.nf\"."},
      {"trian net.nf", "There is no command \"trian\": is train meant?"},
      {"train net.nf --steps", "--steps needs a value."},
      {"train net.nf --steps many", "many is no whole number from 1 on"},
      {"train net.nf --threads 5000", "5000 is no whole number from 0 to 1024"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_THAT(o.err, HasSubstr(message)) << arguments;
    const auto json = nlohmann::json::parse(run(std::string(arguments) + " --json").out, nullptr, false);
    if (std::string_view(arguments).ends_with("--steps")) continue;  // takes --json for its value
    EXPECT_EQ(json["stage"], "usage") << arguments;
  }
  file("let.nf", "let N = 4\nX[i: N] = 1\nshow X\n");
  EXPECT_EQ(run("check --set N=5 let.nf").code, 0) << "an option does not swallow what follows its value";
}

TEST_F(CommandLine, TheDeviceOfATrainStatementIsHonoured) {
  std::string text = kNet;
  text.replace(text.find("seed = 1"), 8, "device = reference");
  file("device.nf", text);
  const Outcome own = run("train device.nf -o out.d");
  EXPECT_EQ(own.code, 0) << own.err;
  const Outcome other = run("train device.nf -o out.d --device cpu");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("asks for the device reference"));
}

// What has no gradient, and what is zero by rule: with place and reason, for people and for scripts.
TEST_F(CommandLine, GradientsThatAreNoneOrZeroSayWhyAndWhere) {
  file("net.nf", "input X[4] = zeros()\nbest = argmax[i] X[i]\nloss L = sum[i] X[i] * floor(X[3 - i])\nM = sum[i] floor(2*X[i])\n");
  file("index.nf", "input X[16] = zeros()\nloss L = sum[i: 4] X[i*i]\n");
  struct Refused {
    const char *arguments, *place, *message;
    int line, column;
  };
  for (const Refused& r : {Refused{"net.nf best X", "net.nf:2:1", "best holds integers and has no derivative", 2, 1},
                           Refused{"net.nf L best", "net.nf:2:1", "nothing can be differentiated by best: it holds integers", 2, 1},
                           Refused{"index.nf L X", "index.nf:2:22", "this index is not affine", 2, 22}}) {
    const Outcome o = run(std::string("grad ") + r.arguments);
    EXPECT_EQ(o.code, 1) << r.arguments;
    EXPECT_THAT(o.err, HasSubstr(r.place));
    EXPECT_THAT(o.err, HasSubstr(r.message));
    const auto json = nlohmann::json::parse(run(std::string("grad --json ") + r.arguments).out);
    EXPECT_FALSE(json["ok"].get<bool>());
    ASSERT_EQ(json["diagnostics"].size(), 1u);
    EXPECT_EQ(json["diagnostics"][0]["line"], r.line) << r.arguments;
    EXPECT_EQ(json["diagnostics"][0]["column"], r.column) << r.arguments;
  }
  EXPECT_THAT(run("grad net.nf L X").out, HasSubstr("# X[3 - i] in L: zero, floor has slope 0"));
  const auto some = nlohmann::json::parse(run("grad --json net.nf L X").out);
  int zeros = 0;
  for (const auto& term : some["terms"]) {
    if (term["form"] != "zero") continue;
    ++zeros;
    EXPECT_EQ(term["access"], "X[3 - i]");
    EXPECT_EQ(term["why"], "floor has slope 0");
    EXPECT_EQ(term["place"]["line"], 3);
    EXPECT_EQ(term["place"]["column"], 30);
    EXPECT_EQ(term["cut"]["column"], 24);
  }
  EXPECT_EQ(zeros, 1);
  const Outcome whole = run("grad net.nf M X");
  EXPECT_EQ(whole.code, 0);
  EXPECT_THAT(whole.err, HasSubstr("warning: d(M)/d(X) is 0: M depends on X only where the slope is 0: floor has slope 0"));
  EXPECT_THAT(whole.err, HasSubstr("net.nf:4:"));
  EXPECT_THAT(whole.out, HasSubstr("= 0\n"));
}

TEST_F(CommandLine, ALongListOfMistakesIsCutForPeople) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Y" + std::to_string(i) + " = nowhere" + std::to_string(i) + "\n";
  file("wrong.nf", text);
  const Outcome o = run("check wrong.nf");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("35 more are left out"));
  EXPECT_THAT(o.out, HasSubstr("60 errors"));
  EXPECT_EQ(nlohmann::json::parse(run("check --json wrong.nf").out)["diagnostics"].size(), 60u);
}

TEST_F(CommandLine, APinnedScheduleThatCannotBeHasItsPlace) {
  file("pinned.nf", std::string(kNet) + "hint schedule Y {\"kind\": \"contraction\", \"knobs\": {\"tile\": [8, 8]}}\n");
  for (const char* command : {"check", "run", "train"}) {
    const Outcome o = run(std::string(command) + " pinned.nf");
    EXPECT_EQ(o.code, 1) << command;
    EXPECT_THAT(o.err, HasSubstr("pinned.nf:7:1")) << command;
    EXPECT_THAT(o.err, HasSubstr("knob")) << command;
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

TEST_F(CommandLine, EveryNamedTensorIsDumpedAndNothingElseWhereItIsNamed) {
  file("layers.nf", "input X[4, 3] = normal(0, 1)\nO = linear(X, 2)\nQ[i, j] = O[i, j]^2\nloss L = mean[i, j] Q[i, j]\nshow O\n");
  ASSERT_EQ(run("run layers.nf --device reference --dump all -o all.d").code, 0);
  for (const char* name : {"O.W.npy", "O.bias.npy", "O.npy", "Q.npy", "X.npy", "L.npy"})
    EXPECT_TRUE(std::filesystem::exists(m_folder.path(std::string("all.d/") + name))) << name;
  ASSERT_EQ(run("run layers.nf --device reference --dump 'Q,d(L)/d(O)' -o some.d").code, 0);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(m_folder.path("some.d"))) ++files;
  EXPECT_EQ(files, 2u);
}

TEST_F(CommandLine, AnInputWithoutValuesIsToldBeforeItIsNeeded) {
  file("open.nf", "input A[4]\ninput B[4]\nY[i] = A[i]^2\nloss L = sum[i] Y[i] * B[i]\nshow d(L)/d(A)\n");
  const Outcome check = run("check open.nf");
  EXPECT_EQ(check.code, 0);
  EXPECT_THAT(check.err, HasSubstr("open.nf:1:7: warning: `A` has no values, and `show d(L)/d(A)` needs them"));
  EXPECT_THAT(check.err, HasSubstr("open.nf:2:7: warning: `B` has no values"));
  const auto json = nlohmann::json::parse(run("check open.nf --json").out);
  EXPECT_TRUE(json["ok"].get<bool>());
  EXPECT_EQ(json["diagnostics"].size(), 2u);
  const Outcome ran = run("run open.nf --device reference");
  EXPECT_EQ(ran.code, 1);
  file("unused.nf", "input A[4]\nY[i] = A[i]^2\nshow Y as \"y\"\n");
  EXPECT_THAT(run("check unused.nf").err, HasSubstr("`show y` needs them"));
  file("only.nf", "input A[4]\nY[i] = A[i]^2\n");
  EXPECT_EQ(run("check only.nf").err, "") << "nothing computes it";
}

// Killed between two steps of its second event: the log of its kernels is there and is replayed, with its last line cut too.
TEST_F(CommandLine, AKilledRunIsReplayed) {
  file("net.nf", kNet);
  file("kill.sh",
       "sh -c 'echo $$ >pid; exec \"$0\" train net.nf --device cpu --mode dynamic --steps 1000000000 --no-records --json-progress "
       "-o "
       "killed.d' '" NF_NEOFLOW
       "' | while read -r line; do\n"
       "case $line in *'\"event\":\"step\"'*) n=$((n + 1)); [ $n -ne 2 ] || kill -9 \"$(cat pid)\";; esac\ndone\n");
  ASSERT_EQ(std::system(("cd '" + m_folder.path(".") + "' && sh kill.sh").c_str()), 0);
  std::string log;
  for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("killed.d"))) log = entry.path() / "swaps.jsonl";
  ASSERT_GT(std::filesystem::file_size(log), 0u);
  std::ofstream(log, std::ios::app) << "{\"schedule\":{\"ki";
  const Outcome o = run("train net.nf --device cpu --no-records --steps 4 -o again.d --replay-swaps '" + log + "'");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("4 steps in"));
  EXPECT_THAT(o.out, HasSubstr("kernels as in the swap log"));
}

TEST_F(CommandLine, AClosedTerminalEndsATrainingWithItsCheckpoint) {
  file("net.nf", kNet);
  const auto hangUp = [&](const std::string& before, const std::string& terminateAt) {
    std::filesystem::remove(m_folder.path("steps"));
    file("hup.sh",
         before +
             "sh -c 'echo $$ >pid; exec \"$0\" train net.nf --device reference --steps 1000000000 --no-records --json-progress "
             "-o hup.d' '" NF_NEOFLOW
             "' | while read -r line; do\n"
             "case $line in *'\"event\":\"step\"'*) n=$((n + 1)); [ $n -ne 2 ] || kill -HUP \"$(cat pid)\"; "
             "[ $n -ne " +
             terminateAt +
             " ] || kill -TERM \"$(cat pid)\";; esac\n"
             "case $line in *'\"event\":\"done\"'*) echo $n >steps;; esac\ndone\n");
    EXPECT_EQ(std::system(("cd '" + m_folder.path(".") + "' && sh hup.sh").c_str()), 0);
    int steps = 0;
    std::ifstream(m_folder.path("steps")) >> steps;
    return steps;
  };
  EXPECT_GE(hangUp("", "-1"), 2);
  bool checkpoint = false;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(m_folder.path("hup.d")))
    checkpoint = checkpoint || entry.path().filename() == "checkpoint.safetensors";
  EXPECT_TRUE(checkpoint);
  EXPECT_GE(hangUp("trap '' HUP\n", "400"), 400) << "a hangup that is ignored, as under nohup, stops nothing";
}

TEST_F(CommandLine, AHolderOfTheDeviceThatStandsStillDelaysStepsAndEndsNone) {
  file("net.nf", kNet);
  const auto lease = DeviceLease::open("cpu", m_folder.path("neoflow"));
  ASSERT_TRUE(lease.ok()) << lease.error().message;
  const DeviceLease::Hold hold = (*lease)->acquire();
  setenv("XDG_RUNTIME_DIR", m_folder.path(".").c_str(), 1);
  const Outcome o = run("train net.nf --device cpu --no-records --mode dynamic --steps 40 -o held.d");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("40 steps in"));
}

// A signal that means nothing here keeps its own meaning, and takes none from the others.
TEST_F(CommandLine, ASignalOfAnotherKindDeafensNoTraining) {
  file("net.nf", kNet);
  const auto told = [&](const std::string& before, const std::string& signals) {
    file("signal.sh",
         before +
             "{ sh -c 'echo $$ >pid; exec \"$0\" train net.nf --device reference --steps 1000000000 --no-records --json-progress "
             "-o signal.d' '" NF_NEOFLOW
             "'; echo $? >code; } | while read -r line; do\n"
             "case $line in *'\"event\":\"step\"'*) n=$((n + 1)); [ $n -ne 2 ] || for s in " +
             signals +
             "; do kill -$s \"$(cat pid)\"; done;; esac\n"
             "case $line in *'\"event\":\"done\"'*) echo yes >done;; esac\ndone\n");
    std::filesystem::remove(m_folder.path("done"));
    EXPECT_EQ(std::system(("cd '" + m_folder.path(".") + "' && sh signal.sh 2>/dev/null").c_str()), 0);
    int code = -1;
    std::ifstream(m_folder.path("code")) >> code;
    return std::pair(code, std::filesystem::exists(m_folder.path("done")));
  };
  EXPECT_EQ(told("", "USR1"), std::pair(128 + SIGUSR1, false));
  EXPECT_EQ(told("trap '' USR1\n", "USR1 TERM"), std::pair(0, true)) << "ignored where whoever starts it says so";
}

TEST_F(CommandLine, AFullDiskEndsNoTraining) {
  file("wide.nf",
       "param W[64, 64] = normal(0, 1)\nloss L = mean[i, j] W[i, j]^2\ntrain L { steps = 9; optimizer = sgd(lr=0.1) }\n");
  const auto limited = [&](const std::string& more) {
    // Files of 8 KiB at most: run.json fits, the weights do not.
    const std::string command = "cd '" + m_folder.path(".") +
                                "' && ulimit -f 16 && '" NF_NEOFLOW
                                "' train wide.nf --device reference --no-records --checkpoint-seconds 0.0000001 -o out.d " +
                                more + " >out 2>err";
    const int status = std::system(command.c_str());
    const auto text = [&](const char* name) {
      std::stringstream s;
      s << std::ifstream(m_folder.path(name)).rdbuf();
      return s.str();
    };
    return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out"), text("err")};
  };
  const Outcome people = limited("");
  EXPECT_EQ(people.code, 3);
  EXPECT_THAT(people.out, HasSubstr("9 steps in"));
  EXPECT_THAT(people.err, HasSubstr("was not written: "));
  EXPECT_THAT(people.err, HasSubstr("Training goes on and tries again."));
  EXPECT_THAT(people.err, HasSubstr("The training has ended, but its checkpoint was not written"));
  EXPECT_THAT(people.err, HasSubstr("The report was not written: "));
  for (const auto& item : std::filesystem::recursive_directory_iterator(m_folder.path("out.d")))
    EXPECT_THAT(item.path().filename().string(), testing::Not(testing::AnyOf(HasSubstr("report"), HasSubstr("checkpoint"))));
  const Outcome one = limited("--json");
  EXPECT_EQ(one.code, 3);
  const auto object = nlohmann::json::parse(one.out);
  EXPECT_EQ(object["event"], "error");
  EXPECT_EQ(object["stage"], "save");
  std::map<std::string, int> events;
  std::istringstream lines(limited("--json-progress").out);
  for (std::string line; std::getline(lines, line);) ++events[nlohmann::json::parse(line)["event"].get<std::string>()];
  EXPECT_EQ(events["checkpoint_failed"], 1);
  EXPECT_EQ(events["done"], 1);
  EXPECT_EQ(events["error"], 1);
}

TEST_F(CommandLine, AFullDiskLeavesNoHalfExport) {
  file("net.nf", kNet);
  for (const char* to : {"html", "json", "llvm"}) {
    const Outcome o = run(std::string("export net.nf some.d --to ") + to, {}, "ulimit -f 1 &&");
    EXPECT_EQ(o.code, 3) << to;
    EXPECT_THAT(o.err, HasSubstr("some.d/")) << to;
    EXPECT_THAT(o.err, HasSubstr("cannot be written")) << to;
    for (const auto& item : std::filesystem::directory_iterator(m_folder.path("some.d")))
      EXPECT_LE(item.file_size(), 512u) << item.path();
  }
  for (const auto& item : std::filesystem::directory_iterator(m_folder.path("some.d")))
    EXPECT_THAT(item.path().filename().string(), Not(HasSubstr("net"))) << item.path();
}

// The whole process ends by it, so each stands in a process of its own.
TEST(UncaughtDeathTest, WhatTheMachineLacksIsASentence) {
  const auto ends = [](bool json, auto thrown) {
    tellUncaughtExceptions(json);
    if (json) dup2(STDERR_FILENO, STDOUT_FILENO);
    std::thread([&] { throw thrown; }).join();
  };
  EXPECT_EXIT(ends(false, std::bad_alloc()), testing::ExitedWithCode(3), "^neoflow: There is not enough memory");
  const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EXIT(ends(false, std::system_error(again)), testing::ExitedWithCode(3), "^neoflow: No further thread can be had");
  EXPECT_EXIT(ends(true, std::system_error(again)), testing::ExitedWithCode(3),
              "^\\{\"event\":\"error\",\"stage\":\"system\",\"message\":\"No further thread");
  EXPECT_EXIT(ends(true, std::runtime_error("a \"quoted\" word")), testing::ExitedWithCode(4),
              R"(Internal error: a \\"quoted\\" word)");
}

#if !defined(__SANITIZE_THREAD__)  // its runtime has places of its own in the address space
TEST_F(CommandLine, NoFurtherThreadIsASentence) {
  file("net.nf", kNet);
  // Stacks that no address space has room for.
  const std::string before = "ulimit -S -s 137438953472 &&";
  const Outcome people = run("train net.nf --device reference -o out.d", {}, before);
  EXPECT_EQ(people.code, 3);
  EXPECT_THAT(people.err, testing::StartsWith("neoflow: No further thread can be had"));
  const Outcome scripts = run("train net.nf --device reference -o out.d --json", {}, before);
  EXPECT_EQ(scripts.code, 3);
  EXPECT_EQ(nlohmann::json::parse(scripts.out)["event"], "error");
}
#endif

TEST_F(CommandLine, IntegersWrapAlikeOnEveryDevice) {
  file("whole.nf",
       "input X[2] : i32 = 2147483647\ninput p[2] : i32 = 46341\nY[i] = X[i] + 1\nZ[i] = X[i] * X[i]\nP[i] = p[i] * p[i]\n"
       "S = sum[i] X[i]\nM = prod[i] p[i]\nN[i] = -X[i] - 2\nshow Y, Z, P, S, M, N\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run whole.nf --device ") + device);
    EXPECT_EQ(o.code, 0) << device << o.err;
    EXPECT_THAT(o.out, HasSubstr("    -2147483648 -2147483648\n")) << device;
    EXPECT_THAT(o.out, HasSubstr("    1 1\n")) << device;
    EXPECT_THAT(o.out, HasSubstr("    -2147479015 -2147479015\n")) << device;
    EXPECT_THAT(o.out, HasSubstr("S = -2\n")) << device;
    EXPECT_THAT(o.out, HasSubstr("M = -2147479015\n")) << device;
    EXPECT_THAT(o.out, HasSubstr("    2147483647 2147483647\n")) << device;
  }
}

TEST_F(CommandLine, IntegersAreDividedAlikeOnEveryDevice) {
  file("divided.nf",
       "input k[3] : i32 = 7\ninput z[3] : i32 = 0\ninput s[3] : i32 = -1\nY[i] = k[i] // z[i]\nM[i] = k[i] % z[i]\n"
       "O[i] = (0 - 2147483647 - 1) // s[i]\nR[i] = (0 - 2147483647 - 1) % s[i]\nshow Y, M, O, R\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run divided.nf --device ") + device);
    EXPECT_EQ(o.code, 0) << device << o.err;
    EXPECT_THAT(o.out, testing::ContainsRegex("Y[^\n]*\n    0 0 0\n")) << device;
    EXPECT_THAT(o.out, testing::ContainsRegex("M[^\n]*\n    7 7 7\n")) << device;
    EXPECT_THAT(o.out, testing::ContainsRegex("O[^\n]*\n    -2147483648 -2147483648 -2147483648\n")) << device;
    EXPECT_THAT(o.out, testing::ContainsRegex("R[^\n]*\n    0 0 0\n")) << device;
  }
}

TEST_F(CommandLine, WeightsOfAnotherNetAreRefused) {
  const std::string train = "\ntrain L { steps = 1; optimizer = sgd(lr=0.1) }\n";
  file("one.nf", "param W[2] = 1\nloss L = sum[i] W[i]^2" + train);
  file("two.nf", "param V[2] = 1\nloss L = sum[i] V[i]^2\nshow L" + train);
  ASSERT_EQ(run("train one.nf --device reference -o one.d").code, 0);
  for (const char* command : {"run two.nf", "train two.nf -o two.d"}) {
    const Outcome o = run(std::string(command) + " --device reference --weights one.d/*/checkpoint.safetensors");
    EXPECT_NE(o.code, 0) << command;
    EXPECT_THAT(o.err,
                testing::AllOf(HasSubstr(" holds "), HasSubstr("W"), HasSubstr("no parameter here has such a name, they are V.")))
        << command;
  }
}

// What an optimizer keeps of a parameter in double precision is in double precision, and a whole state takes a value of another type.
TEST_F(CommandLine, ParametersInDoublePrecisionTrainWithEveryOptimizer) {
  for (const char* optimizer : {"sgd(lr=0.1)", "sgd(lr=0.1, momentum=0.9)", "momentum(lr=0.1)", "adam(lr=0.1)"})
    for (const char* device : {"reference", "cpu"}) {
      file("double.nf",
           std::string(
               "param W[4] : f64 = normal(0, 1)\nstate s[4] = 0\nS[i] = f64(2) * W[i]\ns <- S\nloss L = sum[i] (W[i] - 1)^2\n"
               "train L { steps = 3; optimizer = ") +
               optimizer + " }\n");
      const Outcome o = run(std::string("train double.nf --mode static -o out.d --device ") + device);
      EXPECT_EQ(o.code, 0) << optimizer << " " << device << o.err;
    }
  EXPECT_THAT(run("show double.nf").out, HasSubstr("state W.adam.m[4] : f64"));
}

TEST_F(CommandLine, IndexArithmeticIsDoneIn64Bits) {
  file("far.nf",
       "input t[3] : i32 = 2147483647\nA[i: 5] = f32(i) + 1\nY[i] = A[t[i]*2 + 2] else 7\nZ[i] = A[t[i]*t[i] - 1] else 8\n"
       "S[i] = A[(t[i]*4 + 4) // 2147483648] else 9\nI[i] = A[i32(t[i]*2 + 2)] else 6\n"
       "R[i] = A[(t[i]*2147483629) % 5]\nshow Y, Z, S, I, R\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run far.nf --device ") + device);
    EXPECT_EQ(o.code, 0) << device << o.err;
    for (const char* values : {"    7 7 7\n", "    8 8 8\n", "    5 5 5\n", "    1 1 1\n", "    4 4 4\n"})
      EXPECT_THAT(o.out, HasSubstr(values)) << device << o.out;
  }
  const Outcome text = run("show far.nf");
  EXPECT_THAT(text.out, HasSubstr("A[i32(w1)]"));
  file("far2.nf", text.out);
  EXPECT_EQ(run("show far2.nf").out, text.out);
}

TEST_F(CommandLine, ATensorThatIsNotThereIsAMistakeOfTheCommand) {
  file("net.nf", "input X[3] = 1\nY[i] = X[i]\n");
  const Outcome o = run("run net.nf --device reference --dump Q");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("There is no tensor Q."));
  EXPECT_THAT(o.err, HasSubstr("Tensors here: X, Y"));
}

TEST_F(CommandLine, AWrongNotebookIsOneErrorEvent) {
  file("wrong.nf", "input X[3]\nY[i] = Q[i]\n");
  for (const char* command : {"run", "train", "tune"}) {
    const Outcome o = run(std::string(command) + " wrong.nf --json-progress");
    EXPECT_EQ(o.code, 1) << command;
    const auto event = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_TRUE(event.is_object()) << command << ": " << o.out;
    EXPECT_EQ(event["event"], "error");
    EXPECT_EQ(event["stage"], "check");
    EXPECT_EQ(event["file"], "wrong.nf");
    EXPECT_EQ(event["line"], 2);
    EXPECT_EQ(event["column"], 8);
    EXPECT_THAT(event["message"].get<std::string>(), HasSubstr("`Q` is not defined"));
    EXPECT_EQ(nlohmann::json::parse(run(std::string(command) + " none.nf --json-progress").out)["event"], "error") << command;
  }
}

TEST_F(CommandLine, TheDoctorSaysWhatIsKeptWhere) {
  const auto json = nlohmann::json::parse(run("doctor --json").out);
  EXPECT_EQ(json["files"][0]["path"], m_folder.path("records.sqlite"));
  EXPECT_EQ(json["tools"][0]["name"], "dot");
  const auto state = [&] { return nlohmann::json::parse(run("doctor --json").out)["files"][0]["state"].get<std::string>(); };
  EXPECT_EQ(state(), "made by the first run");
  // The answer itself is smaller than what a run would write.
  EXPECT_THAT(nlohmann::json::parse(run("doctor --json", {}, "ulimit -f 16 &&").out)["files"][0]["state"].get<std::string>(),
              testing::AllOf(HasSubstr("can't be made in "), HasSubstr("runs go on without")));
  std::filesystem::create_directory(m_folder.path("records.sqlite"));
  EXPECT_THAT(state(), HasSubstr("is no file"));
  std::filesystem::remove(m_folder.path("records.sqlite"));
  file("records.sqlite", std::string(5000, 'x'));
  EXPECT_THAT(state(), HasSubstr("is no database"));
}

}  // namespace
}  // namespace nf
