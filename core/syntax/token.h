// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nf {

enum class TokenKind : std::uint8_t {
  End,
  Name,        // "conv2d", "Z.F", "λ": letters, digits, underscore; parts of a path are joined by dots
  QuotedName,  // "`d(L)/d(W)#2`": any tensor name
  Number,
  String,  // "w.npy" in double quotes
  Keyword,
  Reducer,  // sum prod max min mean argmax argmin
  LeftParen,
  RightParen,
  LeftBracket,
  RightBracket,
  LeftBrace,
  RightBrace,
  Comma,
  Semicolon,
  Colon,
  Assign,     // =
  AddAssign,  // +=
  Becomes,    // <-
  Yields,     // ->
  Plus,
  Minus,
  Star,
  Slash,
  SlashSlash,
  Percent,
  Caret,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  EqualEqual,
  NotEqual,
  DotDot,    // ..
  Ellipsis,  // ...
  Hole,      // _
  At,        // @
  Comment,
  CellMarker,  // a whole line "# %%" or "# %% [markdown]"
  Markdown,    // a whole line of a Markdown cell
  Invalid,
};

// "`]`", "a name": how a person is told about a kind of token.
std::string_view describe(TokenKind kind);

// A token is bytes [begin, end) of its text. Whitespace belongs to none.
struct Token {
  TokenKind kind = TokenKind::End;
  bool newlineBefore = false;  // first on its line
  bool spaceBefore = false;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

bool isKeyword(std::string_view word);
bool isReducerName(std::string_view word);
// Keywords that begin a statement: where the parser starts again after a mistake.
bool beginsStatement(std::string_view keyword);
std::span<const std::string_view> statementWords();
// A name as the lexer reads one, dots included: what needs no backquotes.
bool isPlainName(std::string_view text);
// d(name)/d(name) of plain names, possibly nested: needs none either.
bool isDerivativeName(std::string_view text);
// A tensor's name as source has it: in backquotes where it is no plain name or derivative of such.
std::string quotedName(std::string_view name);

}  // namespace nf
