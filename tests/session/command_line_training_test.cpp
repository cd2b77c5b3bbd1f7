// SPDX-License-Identifier: Apache-2.0
// `neoflow train`: its devices, signals and full disks, and runs that are replayed and resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/runtime/data_file.h"
#include "core/tune/device_lease.h"
#include "tests/session/command_line.h"

namespace nf {
namespace {

using testing::HasSubstr;

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

// What ./run does without a display.
TEST_F(CommandLine, ANotebookIsTrainedOrComputedHeadless) {
  const auto headless = [&](const std::string& name) {
    return shell("'" NF_SOURCE_DIR "/.ci/headless' '" NF_NEOFLOW "' '" + m_folder.path(name) + "'");
  };
  std::string net = kNet;
  net.insert(net.rfind('}'), "; device = reference ");
  file("net.nf", net + net.substr(net.rfind("train L")));
  const Outcome trained = headless("net.nf");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out,
              testing::AllOf(HasSubstr("training "), HasSubstr("3 steps in "), HasSubstr("net.nf.out/report/net.html\n")));
  int runs = 0;
  for (const auto& item : std::filesystem::directory_iterator(m_folder.path("net.nf.out")))
    if (std::filesystem::exists(item.path() / "checkpoint.safetensors"))
      runs += std::filesystem::exists(item.path() / "report.html");
  EXPECT_EQ(runs, 2);
  EXPECT_THAT(*readFile(m_folder.path("net.nf.out/report/net.html")), HasSubstr("The newest run"));

  file("sum.nf", "input X[3] = 2\nS = sum[i] X[i]\nshow S\n");
  const Outcome computed = headless("sum.nf");
  EXPECT_EQ(computed.code, 0) << computed.err;
  EXPECT_THAT(computed.out, testing::AllOf(HasSubstr("running "), HasSubstr("S = 6"), HasSubstr("sum.nf.out/report/sum.html\n")));

  file("wrong.nf", "Y[i] = Q[i]\n");
  const Outcome wrong = headless("wrong.nf");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("`Q` is not defined"));
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
                                                {"early", "Line 1 of the swap log early.jsonl is damaged."},
                                                {"empty", "empty.jsonl is empty."},
                                                {"short", "The swap log is not whole: of step 1 the kernel for "}};
  for (const auto& [name, text] : said) {
    const Outcome o = run("train net.nf --device cpu --no-records -o again.d --replay-swaps " + name + ".jsonl");
    EXPECT_EQ(o.code, 1) << name;
    EXPECT_THAT(o.err, HasSubstr(text)) << name;
  }
}

// Stopped in the middle of its first step, which would take hours: no result, so no success.
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

TEST_F(CommandLine, TheLastLineOfATrainingHasEveryEval) {
  file("eval.nf",
       "let B = 64\ndata D = digits { split = last 128 }\ninput X[B, 64] = batch D[:, 0..64] / 16\nparam w[64] = normal(0, 0.1)\n"
       "y[b] = sum[k] X[b, k] * w[k]\nloss L = mean[b] (y[b] - 1)^2\neval mse = mean[b] (y[b] - 1)^2\n"
       "eval worst = max[b] abs(y[b] - 1)\neval accuracy = mean[b] (y[b] > 0.5)\n"
       "train L { steps = 4; optimizer = sgd(lr=0.1); mode = static }\n");
  const Outcome o = run("train eval.nf --device reference --no-records -o out.d");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, testing::ContainsRegex("4 steps in .*, loss .*, held out: accuracy [01].* mse [0-9].* worst [0-9]"));
  const auto done = nlohmann::json::parse(run("train eval.nf --device reference --no-records --json -o out.j").out);
  EXPECT_TRUE(done["evals"]["mse"].is_number());
  EXPECT_TRUE(done["evals"]["worst"].is_number());
  EXPECT_TRUE(done["accuracy"].is_number());
  // The same rows with the same weights, from the run and from its checkpoint.
  const std::string evaluate = "train eval.nf --device reference --evaluate ";
  EXPECT_THAT(run(evaluate + "--resume out.j").out, testing::StartsWith("held out: accuracy "));
  for (const char* weights : {"--resume out.j", "--weights out.j/*/checkpoint.safetensors"})
    EXPECT_EQ(nlohmann::json::parse(run(evaluate + weights + " --json").out)["evals"], done["evals"]) << weights;
  EXPECT_NE(nlohmann::json::parse(run(evaluate + "--json").out)["evals"], done["evals"]) << "with initial values";
  EXPECT_THAT(run(evaluate).out, testing::EndsWith(", with the initial weights\n"));
  EXPECT_EQ(run(evaluate + "--mode dynamic --resume out.j").err, "") << "no step is taken that could differ";
  EXPECT_FALSE(std::filesystem::exists(m_folder.path("eval.nf.out"))) << "an evaluation writes nothing";
  EXPECT_THAT(run(evaluate + "--steps 3").err, HasSubstr("--steps excludes --evaluate"));
  file("none.nf", "param w[4] = 1\nloss L = sum[i] w[i]^2\ntrain L { steps = 1; optimizer = sgd(lr=0.1) }\n");
  const Outcome none = run("train none.nf --device reference --evaluate");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("There is nothing to evaluate: the notebook has no `eval`, and no data set holds rows out."));
  EXPECT_THAT(
      run("run eval.nf --device reference --dump mse").out,
      HasSubstr("The inputs hold the first 64 rows for training; `neoflow train --evaluate` takes those that are held out."));
  const std::string events = run("train eval.nf --device reference --no-records --json-progress -o out.e").out;
  EXPECT_THAT(events, HasSubstr(R"("search":"fixed")"));
  EXPECT_THAT(run("train eval.nf --device cpu --mode static --no-records --json-progress -o out.s").out,
              HasSubstr(R"("search":"static")"));
}

// As a batch that is written as a number makes one.
TEST_F(CommandLine, AMeanOverBatchesOfWhatIsNoMeanIsMarked) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += std::to_string(i) + "\n";
  file("d.csv", rows);
  file("batches.nf",
       "data D = csv(\"d.csv\") { split = last 8 }\ninput X[4] = batch D[:, 0]\nparam w = normal(1, 0)\n"
       "loss L = mean[b] (X[b] * w)^2\neval average = mean[b] X[b]\neval top = max[b] X[b]\n"
       "train L { epochs = 1; optimizer = sgd(lr=0.0001); mode = static }\n");
  const Outcome o = run("train batches.nf --device reference --no-records -o out.d");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("held out: average 15.5 top 17 (mean over batches)"));
  const auto done = nlohmann::json::parse(run("train batches.nf --device reference --no-records --json -o out.j").out);
  EXPECT_EQ(done["averaged"], nlohmann::json::array({"top"}));
}

TEST_F(CommandLine, AnEvalWithoutADataSetStandsInTheLastLine) {
  file("eval.nf",
       "input X[4] = uniform(1, 2)\nparam w = 1\nloss L = mean[i] (X[i] * w - 3)^2\neval meanX = mean[i] X[i]\n"
       "train L { steps = 4; optimizer = sgd(lr=0.1); mode = static }\n");
  const Outcome o = run("train eval.nf --device reference --no-records -o out.d");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, testing::ContainsRegex("4 steps in .*, loss .*, on the inputs: meanX 1[.][0-9]"));
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
  EXPECT_EQ(told("ulimit -s 1024\n", "TERM"), std::pair(0, true)) << "the work has a thread of its own there";
  EXPECT_EQ(told("ulimit -s 1024\n", "USR1"), std::pair(128 + SIGUSR1, false));
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

TEST_F(CommandLine, WeightsThatAreMissingOrUnknownAreWarnedOf) {
  const std::string train = "\nshow L\ntrain L { steps = 1; optimizer = adam(lr=0.1) }\n";
  file("one.nf", "param W[2] = 1\nparam Q[2] = 1\nloss L = sum[i] W[i]*Q[i]" + train);
  file("two.nf", "param W[2] = 1\nparam b[2] = 1\nloss L = sum[i] W[i]*b[i]" + train);
  ASSERT_EQ(run("train one.nf --device reference -o one.d").code, 0);
  const std::string weights = " --device reference --weights one.d/*/checkpoint.safetensors";
  for (const char* command : {"run two.nf", "train two.nf -o two.d"}) {
    const Outcome o = run(command + weights);
    EXPECT_EQ(o.code, 0) << command << o.err;
    EXPECT_THAT(o.err, testing::AllOf(HasSubstr("warning: "), HasSubstr("gives W; it lacks b, which keeps its initial value"),
                                      HasSubstr("holds Q, which no tensor here is called")))
        << command;
  }
  // What an optimizer keeps is no part of what is asked for.
  for (const char* command : {"run one.nf", "train one.nf -o again.d"})
    EXPECT_THAT(run(command + weights).err, testing::Not(HasSubstr("warning"))) << command;
}

TEST_F(CommandLine, WeightsThatReplaceInputsAreWarnedOf) {
  file("from.nf", "param W[2] = 3\nparam X[2] = 5\nloss L = sum[i] W[i]*X[i]\ntrain L { steps = 1; optimizer = sgd(lr=0.1) }\n");
  file("to.nf", "input X[2] = 1\nparam W[2] = 1\nY[i] = W[i]*X[i]\nshow Y\n");
  ASSERT_EQ(run("train from.nf --device reference -o from.d").code, 0);
  const Outcome o = run("run to.nf --device reference --weights from.d/*/checkpoint.safetensors");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("replaces X, which is no parameter"));
  file("train.nf",
       "input X[2] = 1\nparam W[2] = 1\nloss L = sum[i] (W[i]*X[i])^2\ntrain L { steps = 1; optimizer = sgd(lr=0.1) }\n");
  const Outcome trained = run("train train.nf --device reference --weights from.d/*/checkpoint.safetensors -o train.d");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("replaces X, which is no parameter"));
  // A batch is no tensor's own value: each step writes it anew.
  file("fed.nf",
       "data D = csv(\"d.csv\")\ninput X[2] = batch D[:, 0]\nparam W[2] = 1\nloss L = sum[i] (W[i]*X[i])^2\n"
       "train L { steps = 1; optimizer = sgd(lr=0.01) }\n");
  file("d.csv", "1\n2\n3\n4\n");
  const Outcome fed = run("train fed.nf --device reference --weights from.d/*/checkpoint.safetensors -o fed.d");
  EXPECT_EQ(fed.code, 0) << fed.err;
  EXPECT_THAT(fed.err, testing::Not(HasSubstr("replaces")));
}

TEST_F(CommandLine, WeightsOfOtherShapesAreNamedTogether) {
  const std::string rest = "loss L = mean[i] W[i]^2 + mean[i] V[i]^2\ntrain L { steps = 1; optimizer = sgd(lr=0.1) }\n";
  file("one.nf", "param W[2] = 1\nparam V[3] = 1\n" + rest);
  file("two.nf", "param W[4] = 1\nparam V[5] = 1\n" + rest);
  ASSERT_EQ(run("train one.nf --device reference -o one.d").code, 0);
  const Outcome o = run("train two.nf --device reference --weights one.d/*/checkpoint.safetensors -o two.d");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("W has the shape [2], here it is [4]"));
  EXPECT_THAT(o.err, HasSubstr("V has the shape [3], here it is [5]"));
}

TEST_F(CommandLine, ATrainingSaysThatTheInterpreterStandsInForWorkersThatDie) {
  file("net.nf", "param W[40] = 1\nloss L = sum[i] W[i]^2\ntrain L { optimizer = sgd(lr=1e-3) }\n");
  file("aborts", "100000");
  const Outcome o = run("train net.nf --device cpu --steps 3 -o net.d --no-records", {}, "NEOFLOW_ABORT_COMPILES=aborts");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("No worker could compile the kernel "));
  EXPECT_THAT(o.err, HasSubstr(": the interpreter computes it, slowly, until one does."));
}

TEST_F(CommandLine, ARefusedResumeSaysWhatDiffers) {
  const auto net = [](const char* extent, const char* rate) {
    return std::string("let N = ") + extent +
           "\nparam W[N] = 1\nloss L = sum[i] W[i]^2\ntrain L { steps = 2; optimizer = sgd(lr=" + rate + ") }\n";
  };
  file("net.nf", net("4", "3e-3"));
  file("rate.nf", net("4", "1e-3"));
  file("wide.nf", net("6", "3e-3"));
  ASSERT_EQ(run("train net.nf --device reference -o net.d").code, 0);
  const std::string resume = " --device reference --steps 4 --resume net.d/*/checkpoint.safetensors";
  const Outcome rate = run("train rate.nf -o rate.d" + resume);
  EXPECT_EQ(rate.code, 1);
  EXPECT_THAT(rate.err,
              testing::AllOf(HasSubstr("belongs to another program: its optimizer is sgd(lr=3e-3), here it is sgd(lr=1e-3)"),
                             HasSubstr("`neoflow train --weights`")));
  const Outcome wide = run("train wide.nf -o wide.d" + resume);
  EXPECT_EQ(wide.code, 1);
  EXPECT_THAT(wide.err, HasSubstr("belongs to another program: W is [4] there and [6] here."));
  const Outcome same = run("train net.nf -o more.d" + resume);
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.out, testing::ContainsRegex("4 steps, 2 of them in .* s since it was resumed, loss"));
  EXPECT_THAT(same.err, testing::Not(HasSubstr("continues with")));
  const Outcome other = run("train net.nf -o other.d --seed 7" + resume);
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("was trained with the seed 1, not 7: a resumed run is the run that was begun."));
  EXPECT_EQ(run("train net.nf -o again.d --seed 1" + resume).code, 0);
}

TEST_F(CommandLine, ARunNamesTheOptimizerThatNobodyWrote) {
  file("plain.nf", "param W[4] = 1\nloss L = sum[i] W[i]^2\ntrain L { steps = 1 }\n");
  ASSERT_EQ(run("train plain.nf --device reference -o out.d").code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("out.d"))) {
    std::ifstream json(entry.path() / "run.json");
    EXPECT_EQ(nlohmann::json::parse(json)["settings"]["optimizer"], "sgd(lr=0.01, momentum=0, decay=0)");
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

// Adam's first step is lr wherever the gradient is not 0, as the two corrections undo the two decays.
TEST_F(CommandLine, AdamsCorrectionsAreAsExactAsDoublePrecision) {
  file("one.nf",
       "param W[4] = zeros()\nloss L = sum[i] (W[i] - 1)^2\nshow W\ntrain L { steps = 1; optimizer = adam(lr=0.1); mode = static "
       "}\n");
  ASSERT_EQ(run("train one.nf --device cpu -o out.d").code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("out.d"))) {
    const Outcome o =
        run("run one.nf --device reference --json --weights '" + (entry.path() / "checkpoint.safetensors").string() + "'");
    ASSERT_EQ(o.code, 0) << o.err;
    const nlohmann::json printed = nlohmann::json::parse(o.out);
    for (const auto& value : printed["tensors"][0]["first"]) EXPECT_NEAR(value.get<double>(), 0.1, 1e-7);
  }
}

}  // namespace
}  // namespace nf
