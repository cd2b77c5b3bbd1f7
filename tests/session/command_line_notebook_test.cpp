// SPDX-License-Identifier: Apache-2.0
// Mistakes and warnings of a notebook on the command line: with their places, for people and for scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "core/runtime/data_file.h"
#include "tests/session/command_line.h"

namespace nf {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST_F(CommandLine, TheStepOfEveryTrainCanBeLookedAt) {
  file("two.nf",
       "input A[8] = 1\nparam W[8] = normal(0, 1)\nparam V[8] = normal(0, 1)\nH[i] = A[i]*W[i]\nG[i] = tanh(A[i]*V[i])\n"
       "loss La = mean[i] H[i]^2\nloss Lb = mean[i] G[i]^2\ntrain La { optimizer = sgd(lr=0.1); steps = 3; wrt = W }\n"
       "train Lb { optimizer = adam(lr=0.1); steps = 3; wrt = V }\n");
  for (const auto& [command, has, hasNot] : {std::tuple("explain two.nf", "H -> La", "G -> Lb"),
                                             {"explain two.nf --which 2", "G -> Lb", "H -> La"},
                                             {"show two.nf --stage fused", "W.next", "V.next"},
                                             {"show two.nf --stage fused --which 2", "V.next", "W.next"}}) {
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 0) << command << o.err;
    EXPECT_THAT(o.out, HasSubstr(has)) << command;
    EXPECT_THAT(o.out, Not(HasSubstr(hasNot))) << command;
  }
  EXPECT_THAT(run("explain two.nf --which 3").err, HasSubstr("There is no `train` statement 3."));
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

TEST_F(CommandLine, WhatHeldOutRowsCannotHaveIsWarnedOf) {
  file("rows.nf",
       "let B = 20, K = 500000\ndata D = digits { split = last 360 }\ninput X[B, 64] = batch D[:, 0..64] / 16\n"
       "param U[K, 64] = normal(0, 1)\nparam off[B] = 0.5\nH[b, k] = sum[i] X[b, i] * U[k, i]\nR[b] = max[k] H[b, k]\n"
       "hint split H, R\nloss L = mean[b] (R[b] - off[b])^2\neval average = mean[b] R[b]\neval top = max[b] R[b]\n"
       "train L { steps = 3; optimizer = sgd(lr=0.1) }\n");
  const Outcome o = run("check rows.nf");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("rows.nf:5:7: warning: `off` has the extent of the batch"));
  EXPECT_THAT(o.err,
              testing::ContainsRegex("rows.nf:11:[0-9]+: warning: `top` is averaged over batches of 20 rows, which is right"));
  EXPECT_THAT(o.err, Not(HasSubstr("`average`")));
}

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

TEST_F(CommandLine, AHintOfADerivativeThatReadsNothingOfTheOtherIsWarnedOf) {
  file("hint.nf",
       "input X[16, 8] = normal(0, 1)\nparam W[8, 4] = normal(0, 1)\nB[i, k] = sum[j] X[i, j] * W[j, k]\nC[i, k] = tanh(B[i, k]) * "
       "2\n"
       "S[i] = sum[k] C[i, k]\nloss L = mean[i] exp(-S[i]^2)\ntrain L { steps = 2; optimizer = sgd(lr=0.1) }\n"
       "hint fuse d(L)/d(C), B\nhint fuse d(L)/d(C), d(L)/d(B)\n");
  const Outcome check = run("check hint.nf");
  EXPECT_EQ(check.code, 0);
  EXPECT_THAT(check.err, testing::AllOf(HasSubstr("hint.nf:8:"), HasSubstr("warning: `hint fuse d(L)/d(C), B` cannot be obeyed"),
                                        Not(HasSubstr("d(L)/d(B)` cannot"))));
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
  const Outcome checked = run("check big.nf");
  EXPECT_EQ(checked.code, 0) << "another machine may have it";
  EXPECT_THAT(checked.err,
              testing::AllOf(HasSubstr("big.nf:3:7"), HasSubstr("warning: a step takes 7."), HasSubstr("EiB of memory")));
  const auto json = nlohmann::json::parse(run("run big.nf --device cpu --json").out);
  EXPECT_EQ(json["event"], "error");
  EXPECT_EQ(json["line"], 3);
  EXPECT_EQ(json["column"], 7);
}

// The check of a kernel makes no more of a tensor on the way than the kernel does.
TEST_F(CommandLine, RowsOfAPlaneThatNoMemoryHoldsAreShown) {
  file("plane.nf", "Y[i: 100000, j: 100000] = f32(i + j)\na, b = Y[5, _], Y[_, 7]\nshow a, b\n");
  const Outcome o = run("run plane.nf --device cpu");
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
  EXPECT_THAT(o.out, testing::AllOf(HasSubstr("a  f32 [100000]"), HasSubstr("b  f32 [100000]"), HasSubstr("min 7, max 1e+05")));
}

TEST_F(CommandLine, AnAccessThatAConditionLeavesOutIsNamedWhereItsDerivativeIsZero) {
  file("out.nf",
       "input A[4] = 1\ninput B[4] = 1\nY[i: 4] = select(i % 1 != 0, A[i], B[i])\nL = sum[i] Y[i]\nshow d(L)/d(A), d(L)/d(B)\n");
  const Outcome o = run("check out.nf");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, testing::AllOf(HasSubstr("d(L)/d(A) is 0: nothing leads from A to L"),
                                    HasSubstr("out.nf:3:30: note: no point of Y reads it: `i % 1 != 0` leaves none")));
  EXPECT_THAT(o.err, Not(HasSubstr("d(L)/d(B) is 0")));
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

// The program in C of docs/schedules.md, built with what is exported.
TEST_F(CommandLine, AnExportedKernelIsCalledFromC) {
  file("net.nf", "input X[4, 3] = normal(0, 1)\nparam W[2, 3] = normal(0, 1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\nshow Y\n");
  ASSERT_EQ(run("export net.nf kernels --to llvm").code, 0);
  std::string kernel;
  for (const auto& entry : std::filesystem::directory_iterator(m_folder.path("kernels")))
    if (entry.path().extension() == ".s") kernel = entry.path().string();
  ASSERT_FALSE(kernel.empty());
  const std::string loops = *readFile(kernel.substr(0, kernel.size() - 2) + ".loops");
  ASSERT_THAT(loops, HasSubstr("(@in X: f32[12], @in W: f32[6], @out Y: f32[8])"));
  ASSERT_THAT(loops, HasSubstr("stage Y, 1 task:")) << "what the page calls";
  std::istringstream page(*readFile((std::filesystem::path(NF_EXAMPLES).parent_path() / "docs/schedules.md").string()));
  std::string source, line;
  while (std::getline(page, line) && line != "# On a GPU")
    if (line.starts_with("    ") && (!source.empty() || line.find("#include") != std::string::npos))
      source += line.substr(4) + "\n";
  ASSERT_THAT(source, HasSubstr("forward"));
  source += R"(#include <math.h>
#include <stdio.h>
int main() {
  float X[12], W[6], Y[8];
  for (int i = 0; i < 12; ++i) X[i] = i - 4;
  for (int i = 0; i < 6; ++i) W[i] = 3 - 2 * i;
  if (forward(X, W, Y)) return 1;
  for (int b = 0; b < 4; ++b)
    for (int n = 0; n < 2; ++n) {
      float sum = 0;
      for (int k = 0; k < 3; ++k) sum += X[3 * b + k] * W[3 * n + k];
      if (fabsf(Y[2 * b + n] - sum) > 1e-5f) return 2;
    }
  puts("equal");
})";
  file("call.c", source);
  const std::string build =
      "cd '" + m_folder.path(".") + "' && cc -o call call.c '" + kernel + "' -lm 2> cc.txt && ./call > said.txt";
  EXPECT_EQ(std::system(build.c_str()), 0) << *readFile(m_folder.path("cc.txt"));
  EXPECT_EQ(*readFile(m_folder.path("said.txt")), "equal\n");
}

TEST_F(CommandLine, ANextValueThatIsShownIsOfTheTraining) {
  file("next.nf",
       "param W[3] = 1\nloss L = sum[i] W[i]^2\ntrain L { steps = 3; optimizer = sgd(lr=0.1) }\nshow W.next, L\n"
       "Y[i: 4] = select(i == 0, log(W[0] - 1), 10)\nshow Y\n");
  EXPECT_EQ(run("check next.nf").code, 0);
  const Outcome o = run("run next.nf --device reference");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("W.next  f64 [3]  mean 0.8,"));
  EXPECT_THAT(o.out, HasSubstr("L = 3\n"));
  EXPECT_THAT(o.out, HasSubstr("Of the training program: W.next; the other values are of evaluation."));
  // What is not finite counts nowhere.
  EXPECT_THAT(o.out, HasSubstr("Y  f64 [4]  mean 10, rms 10, min 10, max 10, 1 not finite"));
  EXPECT_THAT(run("run next.nf --dump W.nxt").err, HasSubstr("There is no tensor W.nxt"));
}

TEST_F(CommandLine, ANameOfAPartIsOfThatPart) {
  file("part.nf", "const X[2, 3] = 1\nP[i, j] = X[i, j] * (10*i + j)\na, b = P[_, 0], P[_, 2]\nS = sum[i] a[i]\nshow S\n");
  const Outcome o = run("run part.nf --device reference --dump a,b");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("0 10\n"));
  EXPECT_THAT(o.out, HasSubstr("2 12\n"));
}

// With a `dot` that only copies: what is tested is how it is called.
TEST_F(CommandLine, AGraphIsDrawnWhateverItsNotebookIsCalled) {
  file("it's.nf", "input X[3] = 1\nY[i] = X[i]\nshow Y\n");
  file("dot", "#!/bin/sh\nexec cat\n");
  std::filesystem::permissions(m_folder.path("dot"), std::filesystem::perms::owner_all);
  const Outcome o = run("export \"it's.nf\" \"an 'other' one\" --to svg", {}, "PATH=\"$PWD:$PATH\"");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_GT(std::filesystem::file_size(m_folder.path("an 'other' one/it's.svg")), 0u);
}

// What a page tells people to write is legal: every schedule of the documentation in words, behind the notebook that language.md
// begins with.
TEST_F(CommandLine, SchedulesOfTheDocumentationAreLegal) {
  const auto textOf = [](const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const std::filesystem::path docs = std::filesystem::path(NF_EXAMPLES).parent_path() / "docs";
  std::istringstream lines(textOf(docs / "language.md"));
  std::string notebook, line;
  while (std::getline(lines, line) && (notebook.empty() || line.starts_with("    ")))
    if (line.starts_with("    ")) notebook += line.substr(4) + "\n";
  ASSERT_THAT(notebook, HasSubstr("train L"));
  const std::regex schedule(R"(hint schedule \w+ \{[^}]*kind[^}]*\})");
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(docs)) {
    if (entry.path().extension() != ".md") continue;
    const std::string text = textOf(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), schedule), end; at != end; ++at) {
      if (at->str().find("..") != std::string::npos) continue;  // says that something stands there
      ++found;
      file("page.nf", notebook + at->str() + "\n");
      const Outcome o = run("run page.nf --device cpu --set H=4");
      EXPECT_EQ(o.code, 0) << entry.path() << ": " << at->str() << "\n" << o.err;
    }
  }
  EXPECT_GE(found, 1);
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

// A training is not lost for it.
TEST_F(CommandLine, APinThatNoEvaluationCanHaveIsAnErrorButOfTraining) {
  file("pinned.nf",
       "let B = 32\ndata D = digits { split = last 360 }\ninput X[B, 64] = batch D[:, 0..64] / 16\ninput y[B] : i32 = batch D[:, "
       "64]\n"
       "param W[10, 64] = normal(0, 0.1)\nZ[b, n] = sum[k] X[b, k] * W[n, k]\nloss L = cross_entropy(Z, y)\n"
       "P[b] = sum[n] exp(Z[b, n])\neval mass = mean[b] P[b]\n"
       "train L { steps = 3; batch = 32; optimizer = sgd(lr=0.1); mode = static; seed = 1 }\nhint schedule P { kind = contraction "
       "}\n");
  for (const char* command : {"check", "run"}) {
    const Outcome o = run(std::string(command) + " pinned.nf" + (command[0] == 'r' ? " --dump mass" : ""));
    EXPECT_EQ(o.code, 1) << command;
    EXPECT_THAT(o.err, HasSubstr("pinned.nf:11:1: error: hint schedule P")) << command;
  }
  const Outcome trained = run("train pinned.nf");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("pinned.nf:11:1: warning: hint schedule P"));
  EXPECT_THAT(trained.err, HasSubstr("what is held out is evaluated without it"));
  EXPECT_THAT(trained.out, HasSubstr("held out: mass"));
  file("shown.nf",
       "param w[8] = normal(0, 1)\nloss L = sum[i] w[i]^2\nQ = sum[i] abs(w[i])\nshow Q\n"
       "train L { steps = 3; optimizer = sgd(lr=0.1); mode = static }\nhint schedule Q { kind = contraction }\n");
  for (const char* command : {"check", "run"}) {
    const Outcome o = run(std::string(command) + " shown.nf");
    EXPECT_EQ(o.code, 1) << command;
    EXPECT_THAT(o.err, HasSubstr("shown.nf:6:1: error: hint schedule Q")) << command;
  }
  EXPECT_EQ(run("train shown.nf").code, 0);
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

}  // namespace
}  // namespace nf
