// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "core/syntax/completion.h"
#include "core/syntax/lexer.h"

namespace nf {
namespace {

std::string kinds(std::string_view text) {
  std::string all;
  for (const Token& t : lex(text, SourceId(std::size_t{0})).tokens) {
    if (t.kind == TokenKind::End) break;
    all += (all.empty() ? "" : " ") + std::string(text.substr(t.begin, t.end - t.begin));
  }
  return all;
}

TEST(Lexer, NamesPathsAndRanges) {
  EXPECT_EQ(kinds("Z.F[i] 0..64 block3.conv1.F Y.2 λ_1"), "Z.F [ i ] 0 .. 64 block3.conv1.F Y.2 λ_1");
  EXPECT_EQ(kinds("D[:, 0..64] / 16"), "D [ : , 0 .. 64 ] / 16");
  EXPECT_EQ(kinds("h-2"), "h - 2");
  EXPECT_EQ(kinds("W[...] <- W"), "W [ ... ] <- W");
  EXPECT_EQ(kinds("x<-1"), "x <- 1");
  EXPECT_EQ(kinds("1.5e-3 .5 1. inf"), "1.5e-3 .5 1. inf");
}

TEST(Lexer, CellsMarkdownAndComments) {
  const std::string text = "# %% [markdown]\n# # Title (\n\n# %%\nlet N = 3 # three\r\nY = N\n";
  const LexResult r = lex(text, SourceId(std::size_t{0}));
  ASSERT_TRUE(r.diagnostics.empty());
  EXPECT_EQ(r.tokens[0].kind, TokenKind::CellMarker);
  EXPECT_EQ(r.tokens[1].kind, TokenKind::Markdown);
  std::size_t comments = 0, markers = 0;
  for (const Token& t : r.tokens) {
    comments += t.kind == TokenKind::Comment;
    markers += t.kind == TokenKind::CellMarker;
    if (t.kind == TokenKind::Comment) { EXPECT_EQ(text.substr(t.begin, t.end - t.begin), "# three"); }
  }
  EXPECT_EQ(comments, 1u);
  EXPECT_EQ(markers, 2u);
}

TEST(Lexer, WrongBytesAreToldOnce) {
  const LexResult r = lex("let \xff\xfe\xfd = 3\nlet N = 1e+\n\"open\n", SourceId(std::size_t{0}));
  ASSERT_EQ(r.diagnostics.size(), 3u);
  EXPECT_EQ(r.diagnostics[0].code, "invalid-utf8");
  EXPECT_EQ(r.diagnostics[0].span.length(), 3u);
  EXPECT_EQ(r.diagnostics[1].code, "bad-number");
  EXPECT_EQ(r.diagnostics[2].code, "unclosed-quote");
}

// As the workbench sends them: its text is UTF-8 with a stand-in for each of them.
TEST(Lexer, WhatStandsForWrongBytesIsToldAsThem) {
  const LexResult r = lex("\x1a\x1alet N = 3\nlet M = 4  # \x1a\x1a\n", SourceId(std::size_t{0}));
  ASSERT_EQ(r.diagnostics.size(), 2u);
  for (const Diagnostic& d : r.diagnostics) {
    EXPECT_EQ(d.code, "invalid-utf8");
    EXPECT_EQ(d.span.length(), 2u);
    EXPECT_TRUE(d.notes.empty());
  }
  EXPECT_EQ(r.diagnostics[0].severity, Severity::Error);
  EXPECT_EQ(r.diagnostics[1].severity, Severity::Warning);
}

TEST(Lexer, WrongBytesOfACommentAreWarnedOf) {
  const LexResult r = lex("let N = 3  # caf\xe9 au \xe9\n# %% [markdown]\n\xfc\n# caf\xc3\xa9\n", SourceId(std::size_t{0}));
  ASSERT_EQ(r.diagnostics.size(), 2u);
  for (const Diagnostic& d : r.diagnostics) {
    EXPECT_EQ(d.code, "invalid-utf8");
    EXPECT_EQ(d.severity, Severity::Warning);
    EXPECT_EQ(d.span.length(), 1u);
  }
}

TEST(Lexer, WhatReordersTextIsWarnedOfInACommentAndRefusedInCode) {
  const std::string text = "let N = 3  # \u202e }{ 1+1 \u202c ok\nlet M = \u2066 4\n# %% [markdown]\n# \u202eevil\u202c\n";
  const LexResult r = lex(text, SourceId(std::size_t{0}));
  ASSERT_EQ(r.diagnostics.size(), 3u);
  EXPECT_EQ(r.diagnostics[0].code, "bidirectional-control");
  EXPECT_EQ(r.diagnostics[0].severity, Severity::Warning);
  EXPECT_EQ(r.diagnostics[0].span.begin, text.find("\u202e"));
  EXPECT_EQ(r.diagnostics[0].span.length(), 3u);
  ASSERT_EQ(r.diagnostics[0].fixes.size(), 1u);
  EXPECT_EQ(r.diagnostics[0].fixes[0].text, "");
  EXPECT_EQ(r.diagnostics[1].code, "unexpected-character");
  EXPECT_EQ(r.diagnostics[1].severity, Severity::Error);
  EXPECT_EQ(r.diagnostics[2].code, "bidirectional-control");
  // Names of any script are text like any other, and joiners are no controls.
  EXPECT_TRUE(lex("# \u05e9\u05dc\u05d5\u05dd \u200d\n", SourceId(std::size_t{0})).diagnostics.empty());
}

// Tokens lie in order, do not overlap and leave only blanks between them, whatever the bytes.
TEST(Lexer, CoversAnyBytes) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text;
    static const std::string kCommon = "aZ_09.[](){}+-*/%^<>=!,;:# \n\r\t\"`@λ";
    for (std::size_t n = random() % 60; n > 0; --n)
      text += random() % 8 == 0 ? static_cast<char>(random()) : kCommon[random() % kCommon.size()];
    const LexResult r = lex(text, SourceId(std::size_t{0}));
    std::uint32_t at = text.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
    for (const Token& t : r.tokens) {
      ASSERT_LE(at, t.begin) << "seed " << seed;
      ASSERT_EQ(text.substr(at, t.begin - at).find_first_not_of(" \t\r\n"), std::string::npos) << "seed " << seed;
      ASSERT_LE(t.begin, t.end);
      at = t.end;
    }
    ASSERT_EQ(at, text.size()) << "seed " << seed;
  }
}

TEST(Lexer, PlainNames) {
  for (const char* name : {"x", "Z.F", "Y.2", "λ", "_x", "conv2d"}) EXPECT_TRUE(isPlainName(name)) << name;
  for (const char* name : {"", "_", "inf", "let", "sum", "2x", "a b", "d(L)/d(W)", "Y#2", "a.", ".a", "a..b"})
    EXPECT_FALSE(isPlainName(name)) << name;
}

CompletionContext at(std::string text) {
  const std::size_t cursor = text.find('|');
  text.erase(cursor, 1);
  return completionContext(text, static_cast<std::uint32_t>(cursor));
}

TEST(Completion, KnowsWhatMayStandWhere) {
  using Kind = CompletionContext::Kind;
  EXPECT_EQ(at("|").kind, Kind::Statement);
  EXPECT_EQ(at("inp|").kind, Kind::Statement);
  EXPECT_EQ(at("input X[3]\n|").kind, Kind::Statement);
  EXPECT_EQ(at("input |").kind, Kind::NewName);
  EXPECT_EQ(at("input X[N|]").kind, Kind::Expression);
  EXPECT_EQ(at("input X[3] : |").kind, Kind::Type);
  EXPECT_EQ(at("param W[3] = nor|").kind, Kind::Initializer);
  EXPECT_EQ(at("Y[i] = su|").kind, Kind::Expression);
  EXPECT_EQ(at("Y[i] = X[i] +\n  |").kind, Kind::Expression);
  EXPECT_EQ(at("train L { |").kind, Kind::Attribute);
  EXPECT_EQ(at("train L { steps = 3; op|").kind, Kind::Attribute);
  EXPECT_EQ(at("train L { optimizer = ad|").kind, Kind::AttributeValue);
  EXPECT_EQ(at("train L { steps = |").kind, Kind::Expression);
  EXPECT_EQ(at("data D = csv(\"a\") { sp|").kind, Kind::Attribute);
  EXPECT_EQ(at("hint f|").kind, Kind::Hint);
  EXPECT_EQ(at("for t in 0..3 {\n  |").kind, Kind::Statement);
  EXPECT_EQ(at("# a comm|ent").kind, Kind::None);
  EXPECT_EQ(at("# %% [markdown]\n# te|xt").kind, Kind::None);
  EXPECT_EQ(at("const c[3] = npy(\"a|\")").kind, Kind::None);
  EXPECT_EQ(at("Y[i] = conv|2d(X)").prefix, "conv");
  EXPECT_EQ(at("Y[i] = conv|2d(X)").end, 13u);
}

TEST(Completion, NamesTheCallAround) {
  const auto c = at("Z = conv2d(X, linear(Y, 3), |");
  ASSERT_TRUE(c.call.has_value());
  EXPECT_EQ(c.call->function, "conv2d");
  EXPECT_EQ(c.call->argument, 2u);
  EXPECT_FALSE(at("Y[i] = (X[i] + |").call.has_value());
}

TEST(Completion, FindsTheIndicesOfTheStatement) {
  const std::string text = "input X[N, 4]\nY[i, k] = sum[j] X[i, j] * \n  W[k, m*2] \nZ[a] = Y[a, 0]\n";
  const auto around = [&](const char* place) { return indicesAround(text, static_cast<std::uint32_t>(text.find(place))); };
  EXPECT_EQ(around("sum"), (std::vector<std::string_view>{"i", "k", "j", "m"}));
  EXPECT_EQ(around("W["), (std::vector<std::string_view>{"i", "k", "j", "m"}));
  EXPECT_EQ(around("Z["), (std::vector<std::string_view>{"a"}));
}

TEST(Completion, OffersTheLanguagesWords) {
  EXPECT_EQ(languageWords(at("train L { optimizer = s|")), (std::vector<std::string_view>{"sgd"}));
  EXPECT_EQ(languageWords(at("train L { mode = |")), (std::vector<std::string_view>{"dynamic", "static"}));
  EXPECT_EQ(languageWords(at("param W[3] = nor|")), (std::vector<std::string_view>{"normal"}));
  EXPECT_EQ(languageWords(at("train L { s|")), (std::vector<std::string_view>{"seed", "steps"}));
  EXPECT_TRUE(languageWords(at("# s|")).empty());
}

}  // namespace
}  // namespace nf
