// SPDX-License-Identifier: Apache-2.0
// What `neoflow run` computes and `neoflow grad` derives: the same on every device, held against differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "core/runtime/data_file.h"
#include "tests/session/command_line.h"

namespace nf {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST_F(CommandLine, BothShowsOfANameThatIsGivenToAnotherTensorComeOut) {
  file("twice.nf", "const X[3] = 1\nA[i] = X[i] + i\nshow A\nfor t in 0..5 { A = A*2 }\nshow A\n");
  const Outcome shown = run("run twice.nf --device cpu");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_LT(shown.out.find("    1 2 3\n"), shown.out.find("    32 64 96\n")) << shown.out;
  EXPECT_THAT(shown.out, HasSubstr("    32 64 96\n"));
  const auto json = nlohmann::json::parse(run("run twice.nf --device cpu --json").out);
  ASSERT_EQ(json["tensors"].size(), 2u) << json.dump();
  EXPECT_EQ(json["tensors"][0]["name"], "A#1");
  EXPECT_EQ(json["tensors"][0]["first"], nlohmann::json({1.0, 2.0, 3.0}));
  EXPECT_EQ(json["tensors"][1]["name"], "A");
  EXPECT_EQ(json["tensors"][1]["first"], nlohmann::json({32.0, 64.0, 96.0}));
  EXPECT_EQ(run("run twice.nf --device cpu --dump all -o twice.d").code, 0);
  EXPECT_EQ(readNpy(m_folder.path("twice.d/A.npy"))->at(2), 96);
  EXPECT_EQ(readNpy(m_folder.path("twice.d/A#1.npy"))->at(2), 3);
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

// What f16 and bf16 hold does not hang on whether it is kept: an operator that is computed where it is read rounds as well.
TEST_F(CommandLine, HalfPrecisionRoundsWhetherItIsStoredOrNot) {
  const std::string head =
      "input X[8, 16] = normal(0, 1)\nparam W[16, 4] = normal(0, 1)\nH[i, k] : bf16 = X[i, k] * 3\n"
      "G[i, k] : f16 = X[i, k] + 1\nY[i, j] = sum[k] H[i, k] * W[k, j]\nZ[i, k] = G[i, k] * 2 + f16(X[i, k])\n";
  file("apart.nf", head + "show Y, Z\nhint split H, Y\nhint split G, Z\n");
  file("within.nf", head + "show Y, Z\n");
  file("casts.nf",
       "input X[8, 16] = normal(0, 1)\nparam W[16, 4] = normal(0, 1)\n"
       "Y[i, j] = sum[k] bf16(X[i, k] * 3) * W[k, j]\nZ[i, k] = f16(X[i, k] + 1) * 2 + f16(X[i, k])\nshow Y, Z\n");
  const auto lineOf = [](const std::string& text, const char* name) {
    const auto at = text.find(std::string(name) + "  f32");
    return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', text.find('\n', at) + 1) - at);
  };
  const Outcome wanted = run("run apart.nf --device cpu");
  EXPECT_EQ(wanted.code, 0) << wanted.err;
  EXPECT_NE(lineOf(wanted.out, "Z"), "") << wanted.out;
  for (const char* notebook : {"within", "casts"}) {
    const Outcome o = run(std::string("run ") + notebook + ".nf --device cpu");
    EXPECT_EQ(o.code, 0) << notebook << o.err;
    EXPECT_EQ(lineOf(o.out, "Z"), lineOf(wanted.out, "Z")) << notebook;
    EXPECT_EQ(lineOf(o.out, "Y").substr(0, 40), lineOf(wanted.out, "Y").substr(0, 40)) << notebook;
  }
}

// What an inner index tensor may hold is bounded by each place that it leads to, those of a scatter among them.
TEST_F(CommandLine, AGatherThroughTwoIndexTensorsTrains) {
  file("two.nf",
       "T[i: 5] : i32 = (i * 3 + 1) % 5\nparam W[100] = normal(0, 1)\nB[i: 5] = W[T[T[i]]]\nloss L = sum[i] B[i]^2\n"
       "show d(L)/d(W)\nscatter[i: 5] S[T[T[i]]: 100] += W[i]\nshow S\ntrain L { steps = 3; optimizer = sgd(lr=0.1); mode = static "
       "}\n");
  for (const char* arguments : {"run two.nf --device cpu", "train two.nf --device cpu -o two.d --no-records"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << arguments << o.err;
  }
}

// A product of indices is a whole number, in f64 an exact one.
TEST_F(CommandLine, IndicesAreMultipliedInTheTypeTheyAreWantedIn) {
  file("squares.nf", "Y[i: 6000] = f64(i*i)\nm = max[i] (Y[i] - 35988000)\nshow m\n");
  const Outcome o = run("run squares.nf --device cpu");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("m = 1\n"));
  file("cubes.nf",
       "input x[7] = normal(0, 1)\nY[i: 6000] = x[(i32(i*i) + i32(i*i*i)) % 7]\nZ[i: 6000] = i32(i*i) % 5\n"
       "bad = sum[i] select(Z[i] == i32(i % 5) * i32(i % 5) % 5, 0, 1)\nL = sum[i] Y[i]^2\nshow Y, bad, d(L)/d(x)\n");
  const Outcome cpu = run("run cubes.nf --device cpu --dump Y,bad -o cpu.d"),
                reference = run("run cubes.nf --device reference --dump Y,bad -o reference.d");
  EXPECT_EQ(cpu.code, 0) << cpu.err;
  EXPECT_EQ(reference.code, 0) << reference.err;
  EXPECT_THAT(cpu.out, HasSubstr("bad = 0\n"));
  const auto here = readNpy(m_folder.path("cpu.d/Y.npy")), there = readNpy(m_folder.path("reference.d/Y.npy"));
  ASSERT_TRUE(here.ok() && there.ok());
  for (std::int64_t i = 0; i < 6000; ++i) ASSERT_EQ(here->at(i), static_cast<float>(there->at(i))) << i;
}

// The error of a sum of millions of numbers is that of sums of parts.
TEST_F(CommandLine, AMeanOfMillionsIsPrecise) {
  file("mean.nf", "input X[25, 50, 48, 50] = uniform(0, 1)\nm = mean[b,k,p,q] (relu(X[b,k,p,q] - 0.2) - 1)^2\nshow m\n");
  double mean[2] = {};
  for (const int which : {0, 1}) {
    const std::string device = which ? "reference" : "cpu";
    const Outcome o = run("run mean.nf --device " + device + " --dump m -o " + device + ".d");
    ASSERT_EQ(o.code, 0) << o.err;
    const auto value = readNpy(m_folder.path(device + ".d/m.npy"));
    ASSERT_TRUE(value.ok()) << value.error().message;
    mean[which] = value->at(0);
  }
  EXPECT_NEAR(mean[0] / mean[1], 1, 1e-6);
}

// What single precision holds as 0, or with few bits, is no wrong result.
TEST_F(CommandLine, ALongProductMayUnderflow) {
  file("prod.nf", "input x[600] = normal(0, 1.5)\nP = prod[i] x[i]\nshow P, d(P)/d(x)\n");
  const Outcome o = run("run prod.nf --device cpu");
  EXPECT_EQ(o.code, 0) << o.err;
}

// What a guard of a scatter looks up is there where the guards before it hold.
TEST_F(CommandLine, GuardsOfAScatterAreLookedAtInOrder) {
  file("guards.nf",
       "I[i: 5] : i32 = (i * 3 + 1) % 6\nB[i: 6] = 1.0 * i - 2.5\ninput X[40] = normal(0, 1)\n"
       "scatter[z: 40, j: 4] T[z + j - 10: 26] += select(z + j >= 10, select(z + j <= 35, select(z >= 18, select(z <= 22, "
       "select(not B[I[z - 18]] < X[j], X[z], 0), 0), 0), 0), 0)\nshow T\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run guards.nf --dump T --device ") + device + " -o " + device);
    EXPECT_EQ(o.code, 0) << device << o.err;
  }
  const auto here = readNpy(m_folder.path("cpu/T.npy")), there = readNpy(m_folder.path("reference/T.npy"));
  ASSERT_TRUE(here.ok() && there.ok());
  for (std::int64_t i = 0; i < 26; ++i) EXPECT_NEAR(here->at(i), there->at(i), 1e-5) << i;
}

// Sorted or not: where a guard fails there need be no place.
TEST_F(CommandLine, APointThatAGuardShutsOutHasNoPlace) {
  const std::string net =
      "I[i: 8] : i32 = i - 2\ninput X[8, 5] = normal(0, 1)\n"
      "scatter[i: 8, j: 5] T[I[i]: 6, j: 5] += select(i >= 2, X[i, j], 0)\nD = sum[i, j] abs(T[i, j] - X[i + 2, j])\nshow D\n";
  file("plain.nf", net);
  const Outcome plain = run("run plain.nf --device cpu");
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("D = 0\n"));
  // How many lanes suit the axis is the machine's: those of one of its vectors.
  int suited = 0;
  for (const int lanes : {4, 8, 16}) {
    file("sorted.nf",
         net + "hint schedule T { kind = scatter; lanes = " + std::to_string(lanes) + "; vector = \"1:j\"; points = sorted }\n");
    const Outcome o = run("run sorted.nf --device cpu");
    if (o.code != 0) {
      EXPECT_THAT(o.err, HasSubstr("this kernel has no such schedule: knob lanes")) << lanes;
      continue;
    }
    ++suited;
    EXPECT_THAT(o.out, HasSubstr("D = 0\n")) << lanes;
  }
  EXPECT_EQ(suited, 1);
}

// A scatter behind a guard that no point passes looks no index up.
TEST_F(CommandLine, ABranchThatIsNeverTakenReadsNothing) {
  file("dead.nf",
       "input A[5] = normal(0, 1)\ninput I[1] : i32 = zeros()\nY[i: 5] = select(i > 10, A[I[3*i]], A[i])\n"
       "L = sum[i] Y[i]\nshow Y, d(L)/d(A)\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run dead.nf --device ") + device);
    EXPECT_EQ(o.code, 0) << device << o.err;
    EXPECT_THAT(o.out, HasSubstr("1 1 1 1 1"));
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

// What is shown can be held against the file, whatever the seed.
TEST_F(CommandLine, CellsShowTheFirstTrainingRowsInTheFilesOrder) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += std::to_string(i) + "," + std::to_string(10 * i) + "\n";
  file("r.csv", rows);
  file("r.nf", "data D = csv(\"r.csv\") { split = last 4 }\ninput X[5, 2] = batch D[:, 0..2]\nY[b] = X[b, 0] + X[b, 1]\nshow Y\n");
  for (const char* seed : {"1", "7"}) {
    const Outcome o = run(std::string("run r.nf --seed ") + seed);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("0 11 22 33 44"));
    EXPECT_THAT(o.out, HasSubstr("The inputs hold the first 5 rows for training"));
  }
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

// A name means what its loop has left, and the tensor bears it.
TEST_F(CommandLine, AGradientByANameThatIsWrittenOverIsOfTheLast) {
  file("over.nf",
       "input X[4] : f64 = normal(0, 1)\nparam W[4] : f64 = normal(0, 1)\nh[i] = 2 * X[i]\nfor t in 0..3 { h = h * W }\nL = sum[i] "
       "h[i]^2\n");
  const Outcome over = run("grad over.nf L h");
  EXPECT_EQ(over.code, 0) << over.err;
  EXPECT_THAT(over.out, HasSubstr("d(L)/d(h)[i] = 2 * h[i]\n"));
  EXPECT_THAT(over.out, Not(HasSubstr("at the end of the notebook")));
  const auto json = nlohmann::json::parse(run("grad over.nf L h --json").out);
  EXPECT_EQ(json["input"], (nlohmann::json{{"asked", "h"}, {"tensor", "h"}}));
  EXPECT_EQ(json["output"], (nlohmann::json{{"asked", "L"}, {"tensor", "L"}}));
  EXPECT_THAT(run("grad over.nf L W").out, Not(HasSubstr("at the end of the notebook")));
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

TEST_F(CommandLine, CheckNamesThePartsOfAGradientThatAreZeroByRule) {
  file("part.nf",
       "input X[4] = normal(0, 1)\nloss L = sum[i] X[i] * floor(X[3 - i])\nM = sum[i] floor(2*X[i])\nN = sum[i] elu(X[i])\n"
       "show d(L)/d(X)\nshow d(M)/d(X)\nshow d(N)/d(X)\n");
  const Outcome o = run("check part.nf");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("part.nf:2:30: note: `X[3 - i]` adds nothing to `d(L)/d(X)`: floor has slope 0"));
  const auto json = nlohmann::json::parse(run("check part.nf --json").out);
  EXPECT_TRUE(json["ok"].get<bool>());
  int parts = 0, wholes = 0;
  for (const auto& d : json["diagnostics"]) {
    wholes += d["code"] == "zero-derivative";
    if (d["code"] != "zero-part") continue;
    ++parts;
    EXPECT_EQ(d["severity"], "note");
    EXPECT_EQ(d["line"], 2);
  }
  EXPECT_EQ(wholes, 1) << "d(M)/d(X), which is no part";
  EXPECT_EQ(parts, 1) << "a condition within the library is none of the notebook's";
}

TEST_F(CommandLine, ValuesOfTrainingAreToldFromThoseOfEvaluation) {
  const std::string net = "param w = 2\nL = select(training, 5, 3) * w\nG = 2 * d(L)/d(w)\nQ = G + L\n";
  file("both.nf", net + "show L\nshow G\nshow Q\n");
  const Outcome both = run("run both.nf --device reference");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.out, testing::AllOf(HasSubstr("L = 6\n"), HasSubstr("G = 10\n"), HasSubstr("Q = 20\n")));
  EXPECT_THAT(both.out, testing::EndsWith("Of the training program: G, Q; the other values are of evaluation.\n"));
  std::map<std::string, std::string> programs;
  const auto json = nlohmann::json::parse(run("run both.nf --device reference --json").out);
  for (const auto& t : json["tensors"]) programs[t["name"].get<std::string>()] = t["program"].get<std::string>();
  EXPECT_EQ(programs, (std::map<std::string, std::string>{{"G", "training"}, {"L", "evaluation"}, {"Q", "training"}}));
  file("gradient.nf", net + "show G\n");
  EXPECT_THAT(run("run gradient.nf --device reference").out,
              testing::EndsWith("All values are of the training program, not of evaluation.\n"));
  file("one.nf", "param w = 2\nL = 3 * w\nG = 2 * d(L)/d(w)\nshow L\nshow G\n");
  EXPECT_THAT(run("run one.nf --device reference").out, testing::EndsWith("G = 6\n"));
  EXPECT_FALSE(nlohmann::json::parse(run("run one.nf --device reference --json").out)["tensors"][0].contains("program"));
}

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

// A parameter that begins at 0 learns through it.
TEST_F(CommandLine, SoftplusIsSmoothAtZero) {
  file("soft.nf",
       "input t[3] = uniform(1, 2)\nx[i] = select(i == 1, 0, (i - 1) * 60 * t[i])\nL = sum[i] softplus(x[i])\nshow d(L)/d(x)\n");
  for (const char* device : {"reference", "cpu"}) {
    const Outcome o = run(std::string("run soft.nf --json --device ") + device);
    ASSERT_EQ(o.code, 0) << o.err;
    const nlohmann::json printed = nlohmann::json::parse(o.out);
    const auto slopes = printed["tensors"][0]["first"].get<std::vector<double>>();
    ASSERT_EQ(slopes.size(), 3u);
    EXPECT_NEAR(slopes[0], 0, 1e-20);
    EXPECT_DOUBLE_EQ(slopes[1], 0.5);
    EXPECT_DOUBLE_EQ(slopes[2], 1);
  }
}

}  // namespace
}  // namespace nf
