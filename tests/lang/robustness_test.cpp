// SPDX-License-Identifier: Apache-2.0
// No input may crash, hang or overflow the stack; a mistake leaves a Program that verifies.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "core/ir/structural_hash.h"
#include "core/ir/verify.h"
#include "core/lang/compile.h"

namespace nf {
namespace {

std::string fileText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

CompiledNotebook compiled(std::string text) { return compileNotebook({"input.nf", {}, std::move(text)}); }

std::string repeated(const std::string& part, std::size_t times) {
  std::string text;
  text.reserve(part.size() * times);
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

bool says(const CompiledNotebook& c, const std::string& code) {
  for (const Diagnostic& d : c.diagnostics)
    if (d.code == code) return true;
  return false;
}

// Everything the views do with a result must hold, whatever the input was.
void expectSane(const CompiledNotebook& c, const std::string& what) {
  ASSERT_EQ(verify(c.program, Stage::Source), std::vector<std::string>{}) << what;
  const std::string_view text = c.sources.at(c.notebook).text;
  for (const Diagnostic& d : c.diagnostics) {
    ASSERT_LE(d.span.begin, d.span.end) << what;
    if (d.span.source == c.notebook) { ASSERT_LE(d.span.end, text.size()) << what; }
    ASSERT_FALSE(d.code.empty()) << what;
    ASSERT_FALSE(d.message.empty()) << what;
  }
  ASSERT_LE(c.diagnostics.size(), 300u) << what;
  render(c.diagnostics, c.sources);
  toText(c.program);
  for (const TensorReference& r : c.references) {
    const Program* program = &c.program;
    for (const LoopId loop : r.loops) {
      ASSERT_LT(loop.value, program->loops.size()) << what;
      program = (*program)[loop].body.get();
    }
    ASSERT_LT(r.tensor.value, program->tensors.size()) << what;
  }
  for (const CellInfo& cell : c.cells) ASSERT_LE(cell.span.begin, cell.span.end) << what;
}

TEST(Robustness, NestingOf100000LevelsIsRefused) {
  constexpr std::size_t kLevels = 100000;
  const std::string head = "input X[3]\n";
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("(", kLevels) + "X[i]" + repeated(")", kLevels) + "\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("-", kLevels) + "X[i]\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("exp(", kLevels) + "X[i]" + repeated(")", kLevels) + "\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("X[", kLevels) + "0" + repeated("]", kLevels) + "\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("X[i]^", kLevels) + "2\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("X[i] / ", kLevels) + "2\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = " + repeated("sum[j] ", kLevels) + "2\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(head + "Y[i] = select(" + repeated("not ", kLevels) + "i > 0, 1, 0)\n"), "too-deep"));
  EXPECT_TRUE(says(compiled(repeated("repeat 2 {\n", kLevels) + repeated("}\n", kLevels)), "too-deep"));
  EXPECT_TRUE(says(compiled(repeated("for t in 0..2 {\n", kLevels)), "too-deep"));
  EXPECT_TRUE(says(compiled(repeated("if true {} else ", kLevels) + "{}"), "too-deep"));
  EXPECT_LE(compiled(repeated("for t in 0..2 {\n", kLevels)).diagnostics.size(), 2u);
  EXPECT_LE(compiled(repeated("if 1 == 1 {", kLevels)).diagnostics.size(), 2u);
  expectSane(compiled(repeated("d(", kLevels)), "d(");
  expectSane(compiled(repeated("{", kLevels)), "{");
  expectSane(compiled(repeated("[", kLevels)), "[");
}

// A flat sum or product is long, not deep.
TEST(Robustness, FlatSumsAndProductsMayBeLong) {
  const std::string head = "input X[3]\nY[i] = ";
  for (const std::string& text : {repeated("X[i] + ", 100000) + "2", repeated("X[i] - 2 + ", 20000) + "1",
                                  repeated("X[i] * ", 20000) + "2", repeated("X[i] * 2 - ", 20000) + "X[i]"}) {
    const CompiledNotebook c = compiled(head + text + "\n");
    EXPECT_EQ(render(c.diagnostics, c.sources), "") << text.substr(0, 20);
  }
}

TEST(Robustness, DoublingDoesNotExplode) {
  // Each name doubles the one before: shared parts stay shared.
  std::string text = "input X[3]\nY[i] = w30 where w0 = X[i]";
  for (int i = 1; i <= 30; ++i) text += ", w" + std::to_string(i) + " = w" + std::to_string(i - 1) + " * w" + std::to_string(i - 1);
  const auto c = compiled(text + "\n");
  EXPECT_EQ(render(c.diagnostics, c.sources), "");
  EXPECT_LT(c.program.scalars.size(), 100u);
  EXPECT_LT(toText(c.program).size(), 2000u);
  expectSane(compiled("def f(x) = x + x\ninput X[3]\nY = " + repeated("f(", 40) + "X" + repeated(")", 40) + "\n"), "inlined");
  expectSane(compiled("repeat 100000 { }\n"), "repeat");
  EXPECT_TRUE(
      says(compiled("const h[3] = 0\n" + repeated("repeat 9999 {\n", 5) + "h[i] = h[i] + 1\n" + repeated("}\n", 5)), "too-large"));
  std::string calls = "def f0(x) = x * 2\n";
  for (int i = 1; i < 60; ++i)
    calls += "def f" + std::to_string(i) + "(x) = f" + std::to_string(i - 1) + "(f" + std::to_string(i - 1) + "(x))\n";
  EXPECT_TRUE(says(compiled(calls + "input X[3]\nY = f59(X)\n"), "too-large"));
  // 2^20 tensors that all want one name.
  std::string blocks = "def g0(x[N]) -> y { y[i] = x[i]*2 }\n";
  for (int i = 1; i <= 20; ++i) {
    const std::string inner = "g" + std::to_string(i - 1);
    blocks += "def g" + std::to_string(i) + "(x[N]) -> y {\n  a = " + inner + "(x)\n  y = " + inner + "(a)\n}\n";
  }
  EXPECT_TRUE(says(compiled(blocks + "input X[3]\nY = g20(X)\n"), "too-large"));
  expectSane(compiled("input X[3]\nrepeat i in 0..9999 { X2[j] = X[j] }\n"), "repeat");
}

// In what a person counts: brackets where there are some.
TEST(Robustness, NestingIsToldAsItWasWritten) {
  const auto message = [](const CompiledNotebook& c) { return c.diagnostics.empty() ? std::string() : c.diagnostics[0].message; };
  const auto inBrackets = [&](std::size_t n) {
    return message(compiled("Y = " + repeated("(", n) + "1.5" + repeated(")", n) + "\nshow Y\n"));
  };
  EXPECT_EQ(inBrackets(380), "");
  EXPECT_EQ(inBrackets(420), "399 brackets are open here: that is too deep, name a part of it");
  EXPECT_EQ(message(compiled("Y = " + repeated("-", 900) + "1.5\nshow Y\n")),
            "this is nested 800 levels deep: that is too deep, name a part of it");
}

TEST(Robustness, EmptyAndOddTexts) {
  for (const std::string text : {"",
                                 "\n",
                                 "\r\n\r\n",
                                 "\xef\xbb\xbf",
                                 "# %%",
                                 "# %% [markdown]",
                                 "# %% [markdown]\n# %%\n",
                                 "`",
                                 "\"",
                                 "``",
                                 "let",
                                 "let =",
                                 "=",
                                 "train",
                                 "show",
                                 "hint",
                                 "hint schedule Y {",
                                 "data D = ",
                                 "input",
                                 "input X[",
                                 "Y[",
                                 "Y[i",
                                 "Y[i]",
                                 "Y[i] =",
                                 "d(L)/d(",
                                 "grad(",
                                 "for",
                                 "for t",
                                 "for t in",
                                 "def",
                                 "def f",
                                 "def f(",
                                 "def f()",
                                 "def f() ->",
                                 "def f() -> Y {",
                                 "@",
                                 "@backward",
                                 "scatter",
                                 "scatter[",
                                 "x = random(1, 2, 3)",
                                 "Y = X where",
                                 "output",
                                 "output X as",
                                 "let N = 1 / 0",
                                 "let N = 5 // 0",
                                 "let N = -9223372036854775807 - 1\nlet M = -N",
                                 "let N = 1e308 * 10",
                                 "let N = nan\ninput X[N]",
                                 "input X[1e30]"})
    expectSane(compiled(text), text);
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  expectSane(compiled(bytes + bytes), "all bytes");
  expectSane(compiled(std::string(3, '\0') + "let N = 3"), "zeros");
}

// A file that is no notebook is said once, and no byte of it reaches a terminal as it is.
TEST(Robustness, WhatIsNoTextIsSaidOnce) {
  const std::string utf16("\xff\xfei\0n\0p\0u\0t\0 \0x\0\n\0", 18);
  const CompiledNotebook wide = compiled(utf16);
  ASSERT_EQ(wide.diagnostics.size(), 1u);
  EXPECT_EQ(wide.diagnostics[0].message, "this file is UTF-16: save it as UTF-8");
  std::mt19937_64 random(5);
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes += static_cast<char>(random());
  const CompiledNotebook binary = compiled(bytes);
  ASSERT_EQ(binary.diagnostics.size(), 1u);
  EXPECT_EQ(binary.diagnostics[0].code, "no-text");
  const CompiledNotebook control = compiled("input x\ny = x \x1b[31m + `a\x07`\n" + std::string(1, '\0'));
  EXPECT_FALSE(control.diagnostics.empty());
  for (const CompiledNotebook* c : {&wide, &binary, &control}) {
    expectSane(*c, "no text");
    for (const char b : render(c->diagnostics, c->sources)) EXPECT_TRUE(b == '\n' || static_cast<unsigned char>(b) >= 0x20);
  }
}

// Mutates the examples, the golden mistakes and the library's test. NF_SEED=n replays one mutation; NF_MUTATIONS=n asks for more.
TEST(Robustness, MutatedNotebooksAreDiagnosed) {
  std::vector<std::string> seeds;
  for (const char* folder : {"/examples", "/tests/lang/golden", "/tests/lang", "/resources/std"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(NF_SOURCE_DIR) + folder))
      if (entry.path().extension() == ".nf") seeds.push_back(fileText(entry.path()));
  std::sort(seeds.begin(), seeds.end());
  std::uint64_t first = 1, count = 1500;
  if (const char* n = std::getenv("NF_MUTATIONS")) count = std::strtoull(n, nullptr, 10);
  if (const char* s = std::getenv("NF_SEED")) {
    first = std::strtoull(s, nullptr, 10);
    count = 1;
  }
  static const std::vector<std::string> kBits{"[",
                                              "]",
                                              "(",
                                              ")",
                                              "{",
                                              "}",
                                              "0",
                                              "-1",
                                              "4611686018427387904",
                                              "=",
                                              "+=",
                                              "<-",
                                              "..",
                                              "...",
                                              "else",
                                              "sum[",
                                              "d(L)/d(W)",
                                              "\n",
                                              "# %%\n",
                                              "_",
                                              "^",
                                              "//",
                                              "% ",
                                              "i",
                                              "X",
                                              "L",
                                              "`",
                                              "\"",
                                              "\xff",
                                              "1e400",
                                              "for t in 0..3 {",
                                              "repeat 3 {",
                                              "if training {",
                                              "where",
                                              "random()",
                                              "select(",
                                              "show ",
                                              "loss ",
                                              "stack S = ",
                                              ",",
                                              ";",
                                              ":",
                                              "0.5",
                                              "training",
                                              "h, c = ",
                                              "input ",
                                              "param ",
                                              "state ",
                                              "@backward ",
                                              "inf",
                                              "nan"};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::string text = seeds[pick(seeds.size())];
    for (std::size_t edits = 1 + pick(4); edits > 0; --edits) {
      const std::size_t at = pick(text.size() + 1), length = std::min(text.size() - at, pick(12));
      switch (pick(6)) {
        case 0: text.erase(at, length); break;
        case 1: text.insert(at, kBits[pick(kBits.size())]); break;
        case 2: text.replace(at, length, kBits[pick(kBits.size())]); break;
        case 3: text.insert(at, text.substr(pick(text.size() + 1), pick(40))); break;
        case 4:
          if (at < text.size()) text[at] = static_cast<char>(random());
          break;
        default: {
          const std::string& other = seeds[pick(seeds.size())];
          text.insert(at, other.substr(pick(other.size() + 1), pick(80)));
        }
      }
    }
    const CompiledNotebook c = compiled(text);
    expectSane(c, "NF_SEED=" + std::to_string(seed) + "\n" + text);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Robustness, TenThousandOperatorsCompile) {
  std::string text = "input X[64, 64]\nparam W[64, 64] = normal(0, 1)\nY0[i, j] = X[i, j]\n";
  for (int i = 1; i < 5000; ++i) {
    const std::string before = "Y" + std::to_string(i - 1), name = "Y" + std::to_string(i);
    text += i % 2 ? name + "[i, j] = relu(sum[k] " + before + "[i, k] * W[k, j])\n" : name + " = " + before + " + X\n";
  }
  text += "loss L = mean[i, j] Y4999[i, j]\ntrain L { steps = 1; optimizer = adam(lr=1e-3) }\n";
  const auto begin = std::chrono::steady_clock::now();
  const auto c = compiled(text);
  const auto end = std::chrono::steady_clock::now();
  EXPECT_EQ(render(c.diagnostics, c.sources), "");
  EXPECT_GT(c.program.operators.size(), 7000u);
  std::printf("%zu operators in %.0f ms\n", c.program.operators.size(),
              std::chrono::duration<double, std::milli>(end - begin).count());
}

}  // namespace
}  // namespace nf
