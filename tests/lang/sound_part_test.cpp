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
