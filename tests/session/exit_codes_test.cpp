// SPDX-License-Identifier: Apache-2.0
// One table of exit codes for every command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/tune/fakes.h"

namespace nf {
namespace {

using testing::HasSubstr;

constexpr const char* kNet = R"(input X[4, 3] = normal(0, 1)
param W[2, 3] = normal(0, 1)
Y[b, n] = sum[k] X[b, k] * W[n, k]
loss L = mean[b, n] Y[b, n]^2
show Y
train L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }
)";

class ExitCodes : public testing::Test {
 protected:
  ExitCodes() {
    write("net.nf", kNet);
    write("wrong.nf", std::string(kNet) + "Z[i] = nowhere[i]\n");
    write("data.nf",
          "input X[4, 3] = npy(\"missing.npy\")\nparam W[3] = normal(0, 1)\nloss L = sum[b, k] (X[b, k] * W[k])^2\n"
          "show L\ntrain L { steps = 1; optimizer = sgd(lr=0.1) }\n");
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(m_folder.path(name)) << text; }
  int run(const std::string& arguments) {
    const std::string command = "cd '" + m_folder.path(".") + "' && HOME='" + m_folder.path("home") + "' NEOFLOW_RECORDS='" +
                                m_folder.path("records.sqlite") + "' '" NF_NEOFLOW "' " + arguments + " >out 2>err";
    const int status = std::system(command.c_str());
    const auto text = [this](const char* name) {
      std::stringstream s;
      s << std::ifstream(m_folder.path(name)).rdbuf();
      return s.str();
    };
    m_out = text("out"), m_err = text("err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  fakes::Folder m_folder;
  std::string m_out, m_err;
};

// Every command that takes a notebook, with what it needs beside it.
const std::vector<std::pair<std::string, std::string>> kCommands = {
    {"check", ""}, {"show", ""},        {"grad", " L W"}, {"explain", ""},           {"run", ""}, {"train", ""}, {"tune", ""},
    {"bench", ""}, {"bench check", ""}, {"profile", ""},  {"export", " --to json d"}};

TEST_F(ExitCodes, AMistakeInTheNotebookIsOneOfEveryCommand) {
  for (const auto& [command, more] : kCommands)
    for (const char* json : {"", " --json"}) {
      EXPECT_EQ(run(command + " wrong.nf" + more + json), 1) << command << json << "\n" << m_err;
      EXPECT_THAT(m_out + m_err, HasSubstr("nowhere")) << command << json;
      if (*json) { EXPECT_TRUE(nlohmann::json::accept(m_out)) << command << ": " << m_out; }
    }
}

TEST_F(ExitCodes, SoItIsWhereTheNotebookIsStandardInput) {
  for (const char* command :
       {"check -", "show -", "grad - L W", "explain -", "run -", "train -", "tune -", "profile -", "export - --to json d"})
    for (const char* json : {"", " --json"}) {
      EXPECT_EQ(run(std::string(command) + json + " <wrong.nf"), 1) << command << json << "\n" << m_out << m_err;
      EXPECT_THAT(m_out + m_err, HasSubstr("nowhere")) << command << json;
    }
}

TEST_F(ExitCodes, AFileThatCannotBeReadIsOneOfEveryCommand) {
  for (const auto& [command, more] : kCommands) EXPECT_EQ(run(command + " none.nf" + more), 1) << command << "\n" << m_err;
  for (const char* command : {"run data.nf --device reference", "train data.nf --device reference -o d"})
    EXPECT_EQ(run(command), 1) << command << "\n" << m_err;
}

TEST_F(ExitCodes, WhatIsWrongWithTheCommandIsTwo) {
  for (const auto& [command, more] : kCommands)
    EXPECT_EQ(run(command + " net.nf" + more + " --no-such-option"), 2) << command << "\n" << m_err;
  for (const char* command : {"",
                              "nonsense",
                              "show net.nf --stage nonsense",
                              "run net.nf --device nonsense",
                              "train net.nf --device nonsense",
                              "profile net.nf --device nonsense",
                              "bench net.nf --device nonsense",
                              "bench check net.nf --device nonsense",
                              "bench ops --device nonsense",
                              "train net.nf --which 2",
                              "profile net.nf --which 2",
                              "explain net.nf --which 2",
                              "tune net.nf --which 2",
                              "show net.nf --stage fused --which 2",
                              "export net.nf --to dot --which 2 d",
                              "export net.nf --to nonsense d",
                              "export net.nf --to dot --stage lowered d",
                              "export net.nf --to llvm --device cuda d",
                              "export net.nf --to cuda --device cpu d",
                              "run net.nf --set N",
                              "explain net.nf --measure Y"})
    EXPECT_EQ(run(command), 2) << command << "\n" << m_err;
}

TEST_F(ExitCodes, WhatIsNotInTheNotebookIsOne) {
  for (const char* command : {"grad net.nf L nowhere", "run net.nf --device reference --dump nowhere"})
    EXPECT_EQ(run(command), 1) << command << "\n" << m_err;
}

TEST_F(ExitCodes, WhatTheMachineLacksIsThree) {
  for (const char* command : {"run net.nf --device cuda:99", "train net.nf --device cuda:99", "profile net.nf --device cuda:99",
                              "bench net.nf --device cuda:99"})
    EXPECT_EQ(run(command), 3) << command << "\n" << m_err;
  EXPECT_EQ(run("export net.nf --to json /proc/nowhere/d"), 3) << m_err;
}

TEST_F(ExitCodes, WhatIsDoneIsZeroAndHelpHasTheTable) {
  for (const char* command : {"check net.nf", "show net.nf", "grad net.nf L W --check", "run net.nf --device reference",
                              "train net.nf --device reference -o d", "profile net.nf --device reference",
                              "bench check net.nf --device cpu", "export net.nf --to json d", "--version"})
    EXPECT_EQ(run(command), 0) << command << "\n" << m_err;
  EXPECT_EQ(run("--help"), 0);
  EXPECT_THAT(m_out, HasSubstr("Exit codes of every command"));
}

// It waits for the rest of a notebook. A shell's background job ignores SIGINT, which stays so; SIGTERM ends it in the same way.
TEST_F(ExitCodes, WhatCannotBeStoppedInOrderSaysThatItWasStopped) {
  for (const char* command : {"explain -", "export - --to json d", "check -"}) {
    std::ofstream(m_folder.path("stop.sh")) << "cd '" << m_folder.path(".") << "' && rm -f pipe && mkfifo pipe || exit 1\n"
                                            << "'" NF_NEOFLOW "' " << command << " <pipe >out 2>err & p=$!\n"
                                            << "exec 3>pipe\n"
                                            << "caught() { sed -n 's/SigCgt:[[:space:]]*//p' /proc/$p/status; }\n"
                                            << "until [ $((0x$(caught) & 0x4000)) -ne 0 ]; do :; done\n"
                                            << "kill -TERM $p; wait $p; exit $?\n";
    const int status = std::system(("bash '" + m_folder.path("stop.sh") + "' 2>/dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 128 + 15) << command;
    std::stringstream said;
    said << std::ifstream(m_folder.path("err")).rdbuf();
    EXPECT_EQ(said.str(), "neoflow: Stopped before the result was there.\n") << command;
  }
}

// The pipe holds less than what is printed.
TEST_F(ExitCodes, AReaderThatLeavesIsNoFault) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "input X" + std::to_string(i) + "[4, 3] = normal(0, 1)\nshow X" + std::to_string(i) + "\n";
  write("long.nf", text);
  for (const char* command : {"show long.nf", "show long.nf --json"}) {
    const std::string line = "cd '" + m_folder.path(".") + "' && HOME='" + m_folder.path("home") +
                             "' bash -c '\"" NF_NEOFLOW "\" " + command + " 2>err | head -c 1 >out; exit ${PIPESTATUS[0]}'";
    const int status = std::system(line.c_str());
    EXPECT_TRUE(WIFEXITED(status)) << command;
    EXPECT_EQ(WEXITSTATUS(status), 0) << command;
    std::stringstream said;
    said << std::ifstream(m_folder.path("err")).rdbuf();
    EXPECT_EQ(said.str(), "") << command;
  }
}

}  // namespace
}  // namespace nf
