// SPDX-License-Identifier: Apache-2.0
// What a mistake leaves whole: the rest of the notebook means what it meant.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "core/ir/verify.h"
#include "core/lang/compile.h"

namespace nf {
namespace {

std::string fileText(const std::string& path) {
  std::ifstream in(std::string(NF_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::map<std::string, std::string> meaning(const Program& p) {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < p.operators.size(); ++i)
    if (p.operators[i].kind != OperatorKind::Loop && p.operators[i].output.valid())
      out[p[p.operators[i].output].name] = toText(p, OperatorId(i));
  return out;
}

std::vector<std::string> unsoundTexts(const CompiledNotebook& notebook) {
  std::vector<std::string> out;
  for (const Unsound& u : notebook.unsound) out.emplace_back(notebook.sources.text(u.span));
  return out;
}

// Text before the first marker is a cell because it holds statements: also while all of them are mistaken.
TEST(SoundPart, TheFirstCellStaysOneWithoutItsStatements) {
  for (const char* text : {"Y[i] = Foo[i]\n", "Y[i] = Foo[i]\n# %%\nlet N = 4\n"}) {
    const CompiledNotebook whole = compileNotebook({"a", {}, text});
    const auto part = soundPart(whole);
    ASSERT_TRUE(part && part->ok());
    ASSERT_EQ(part->cells.size(), whole.cells.size());
    for (std::size_t i = 0; i < whole.cells.size(); ++i) EXPECT_EQ(part->cells[i].span, whole.cells[i].span);
  }
}

TEST(SoundPart, KeepsWhatDoesNotDependOnTheMistake) {
  const CompiledNotebook whole =
      compileNotebook({"a",
                       {},
                       "# %%\nlet N = 4\ninput X[N]\nparam W[N]\n"
                       "# %%\nA[i] = X[i] * nowhere[i]\nB[i] = X[i] + W[i]\n"
                       "# %%\nC[i] = A[i] + 1\nD[i] = B[i] * 2\nloss L = mean[i] D[i]\nshow D, d(L)/d(W)\n"
                       "# %%\nshow C\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 5 }\n"});
  EXPECT_FALSE(whole.ok());
  EXPECT_EQ(unsoundTexts(whole), (std::vector<std::string>{"A[i] = X[i] * nowhere[i]", "C[i] = A[i] + 1", "show C"}));
  EXPECT_EQ(whole.unsound[0].uses, "");
  EXPECT_EQ(whole.unsound[1].uses, "A");
  EXPECT_EQ(whole.unsound[2].uses, "C");
  const auto part = soundPart(whole);
  ASSERT_TRUE(part && part->ok());
  EXPECT_TRUE(part->program.tensorNamed("D").valid());
  EXPECT_FALSE(part->program.tensorNamed("A").valid());
  EXPECT_FALSE(part->program.tensorNamed("C").valid());
  ASSERT_EQ(part->cells.size(), whole.cells.size());
  for (std::size_t i = 0; i < part->cells.size(); ++i) EXPECT_EQ(part->cells[i].span, whole.cells[i].span);
  EXPECT_EQ(part->cells[2].shows.size(), 2u);
  EXPECT_EQ(part->trains.size(), 1u);
}

// The body was read without what the parser could not read: what a call makes of the rest is not what was meant.
TEST(SoundPart, CallsOfAFunctionThatHoldsAMistakeWaitForIt) {
  const std::string declared = "# %%\nlet B = 2, D = 3\nparam A[D, D] = zeros()\nconst h[B, D] = zeros()\n# %%\n";
  const std::string calls = "# %%\nfor t in 0..3 { h = cell(h) }\n# %%\nG = cell(h)\nE = G * G\n# %%\nS[i: 3] = f32(i)\n";
  const auto read = [&](const std::string& body) {
    return compileNotebook({"a", {}, declared + "def cell(h[B, D]) -> O {" + body + "}\n" + calls});
  };
  const std::vector<std::string> calling{"for t in 0..3 { h = cell(h) }", "G = cell(h)", "E = G * G"};
  for (const std::string body : {" +\n  O[b, d] = sum[e] h[b, e] * A[d, e]\n", "\n  O[b, d] = sum[e] +\n",
                                 "\n  O[b, d] = sum[e] h[b, e] * nowhere[d, e]\n"}) {
    SCOPED_TRACE(body);
    const CompiledNotebook whole = read(body);
    EXPECT_EQ(whole.diagnostics.size(), 1u);
    std::vector<std::string> uses;
    for (const Unsound& u : whole.unsound) uses.push_back(u.uses);
    EXPECT_EQ(uses.size(), 4u);
    ASSERT_GE(uses.size(), 4u);
    EXPECT_EQ(uses[0], "") << "the function's own";
    EXPECT_EQ(uses[1], "cell");
    EXPECT_EQ(whole.unsound[1].gives, std::vector<std::string>{"h"});
    EXPECT_EQ(uses[3], "G");
    std::vector<std::string> texts = unsoundTexts(whole);
    texts.erase(texts.begin());
    EXPECT_EQ(texts, calling);
    const auto part = soundPart(whole);
    ASSERT_TRUE(part && part->ok());
    EXPECT_TRUE(part->program.tensorNamed("S").valid());
    EXPECT_FALSE(part->program.tensorNamed("E").valid());
  }
}

// In the order in which they are met: what a call makes of the first is named in its function only.
TEST(SoundPart, AStatementWaitsForTheFirstThatItMeets) {
  const CompiledNotebook whole = compileNotebook(
      {"a",
       {},
       "const h[3] = zeros()\nA[i: 3] = nowhere[i]\ndef cell(h[3]) -> O {\n  P[i] = h[i] * A[i]\n  O[i] = P[i] + 1\n}\n"
       "for t in 0..3 { h = cell(h) }\nB = cell(h)\n"});
  std::vector<std::string> uses;
  for (const Unsound& u : whole.unsound) uses.push_back(u.uses);
  EXPECT_EQ(uses, (std::vector<std::string>{"", "A", "h"}));
}

TEST(SoundPart, ALineThatEndsTooEarlyDoesNotTakeTheStatementBelow) {
  for (const std::string line : {"param A[3] = normal(0, 1) +", "param A[3] =", "A[i: 3] = 2 *"}) {
    SCOPED_TRACE(line);
    const CompiledNotebook whole =
        compileNotebook({"a", {}, line + "\nconst h[3] = zeros()\nB[i] = A[i] + h[i]\nC[i] = h[i] + 1\n"});
    ASSERT_EQ(whole.diagnostics.size(), 1u);
    EXPECT_EQ(whole.diagnostics[0].message, "expected an expression, found the end of the line");
    EXPECT_EQ(whole.diagnostics[0].span.begin, line.size());
    EXPECT_EQ(unsoundTexts(whole), (std::vector<std::string>{line, "B[i] = A[i] + h[i]"}));
  }
  const CompiledNotebook goesOn =
      compileNotebook({"a", {}, "A[i: 3] = 2 *\n  f32(i) +\n  1\nlet a = 1,\n  b = 2\nB[i: 2] =\n  f32(i)\n"});
  EXPECT_TRUE(goesOn.ok());
}

TEST(SoundPart, ALossWithAMistakeIsNotTrained) {
  const CompiledNotebook whole = compileNotebook(
      {"a", {}, "param W[4]\nloss L = mean[i] W[i] * nope\nshow W\ntrain L { optimizer = sgd(lr=0.1); steps = 5 }\n"});
  const auto part = soundPart(whole);
  ASSERT_TRUE(part);
  EXPECT_TRUE(part->trains.empty());
  EXPECT_TRUE(part->program.tensorNamed("W").valid());
}

TEST(SoundPart, WhatAnUnsoundBlockChangesMeansNothingAfterIt) {
  const CompiledNotebook loop = compileNotebook(
      {"a", {}, "input A[4]\nlet T = 3\nX[i] = A[i]\nrepeat t in 0..T {\n  X[i] = X[i] * nope\n}\nshow X\nshow A\n"});
  auto part = soundPart(loop);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->program.outputs.size(), 1u);
  const CompiledNotebook update = compileNotebook({"a",
                                                   {},
                                                   "state S[4] = 0\nparam W[4]\nloss L = mean[i] W[i]\nS[i] <- nope\nshow S\nshow "
                                                   "W\ntrain L { optimizer = sgd(lr=0.1); steps = 5 }\n"});
  part = soundPart(update);
  ASSERT_TRUE(part);
  EXPECT_EQ(unsoundTexts(update),
            (std::vector<std::string>{"S[i] <- nope", "show S", "train L { optimizer = sgd(lr=0.1); steps = 5 }"}));
  EXPECT_TRUE(part->trains.empty()) << "its steps would miss the update";
}

TEST(SoundPart, AnExampleBrokenOnAnyLineKeepsTheMeaningOfTheRest) {
  for (const char* path : {"examples/digits_capsnet.nf", "examples/milstm.nf", "examples/welcome.nf"}) {
    const std::string text = fileText(path), folder = std::string(NF_SOURCE_DIR) + "/examples";
    const CompiledNotebook whole = compileNotebook({path, folder, text});
    ASSERT_TRUE(whole.ok());
    EXPECT_TRUE(whole.unsound.empty());
    const auto before = meaning(whole.program);
    int broken = 0;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      if (text[at] == '#' || text[at] == '\n') continue;
      const std::size_t length = text.find('\n', at) - at;
      for (const std::size_t place : {length / 3, length - 1, length}) {
        std::string other = text;
        other.insert(at + place, "$");
        const CompiledNotebook now = compileNotebook({path, folder, other});
        if (now.ok()) continue;  // in a comment
        const auto part = soundPart(now);
        ASSERT_TRUE(part) << other.substr(at);
        ++broken;
        EXPECT_TRUE(verify(part->program, Stage::Source).empty());
        for (const auto& [name, made] : meaning(part->program))
          if (const auto found = before.find(name); found == before.end() || found->second != made)
            ADD_FAILURE() << path << " without `" << other.substr(at, length + 1) << "`: " << name << " is " << made;
      }
    }
    EXPECT_GT(broken, 12) << path;
  }
}

}  // namespace
}  // namespace nf
