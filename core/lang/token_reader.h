// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <unordered_set>
#include <vector>

#include "core/lang/ast.h"
#include "core/support/diagnostic.h"
#include "core/syntax/token.h"

// The tokens of one source as the parser walks them: statements end with lines, mistakes are told once a statement, and after one the
// reader goes on at the next statement. Private to core/lang.
namespace nf::lang {

class TokenReader {
 protected:
  TokenReader(std::string_view text, SourceId source, Diagnostics& diagnostics);

  // ------------------------------------------------------------ tokens
  const Token& tok() const { return m_tokens[m_at]; }
  const Token& tokAt(std::size_t i) const { return m_tokens[std::min(i, m_tokens.size() - 1)]; }
  std::string_view text(const Token& t) const { return m_text.substr(t.begin, t.end - t.begin); }
  Span span(const Token& t) const { return {m_source, t.begin, t.end}; }
  Span spanFrom(std::uint32_t begin) const { return {m_source, begin, std::max(begin, m_lastEnd)}; }

  // The kind of the next token of this statement; End where the statement ends.
  TokenKind kind() const;
  bool at(TokenKind k) const { return kind() == k; }
  bool atKeyword(std::string_view word) const { return at(TokenKind::Keyword) && text(tok()) == word; }
  bool atWord(std::string_view word) const { return at(TokenKind::Name) && text(tok()) == word; }
  bool atEnd() const { return at(TokenKind::End) || at(TokenKind::Semicolon) || at(TokenKind::RightBrace); }

  const Token& take();
  bool accept(TokenKind k);
  // The statement goes on in the next line: after an operator, `=`, a comma, a reduction's bracket.
  void continueLine() { m_continued = m_at; }

  // The same where an expression is to come: a statement in the next line is no part of it.
  void continueExpression() {
    if (!startsStatement(m_at)) continueLine();
  }

  // ------------------------------------------------------------ mistakes
  Diagnostic* fail(std::string code, std::string message, Span where);

  // Where a person looks for what is missing: the token there, or the end of the line before.
  Span here() const;
  std::string found() const;
  Diagnostic* expected(const std::string& what) { return fail("expected", "expected " + what + ", found " + found(), here()); }

  bool expect(TokenKind k, const std::string& why);

  // A closing bracket. Says where it was opened when the cell or a new statement comes first.
  bool close(TokenKind k, const Token& opened);

  // A line that looks like a statement of its own, whatever bracket is still open.
  bool startsStatement(std::size_t i) const;
  // A line that is a definition with indices, all its brackets closed: no part of an expression, not even a named argument.
  bool isWholeStatement(std::size_t i) const;

  // After a mistake: to the end of the statement. Brackets opened since then are skipped whole.
  void synchronise();

  struct Deeper {
    explicit Deeper(TokenReader& p) : parser(p) { ++p.m_depth; }
    ~Deeper() { --parser.m_depth; }
    TokenReader& parser;
  };
  bool tooDeep();

  std::string_view m_text;
  SourceId m_source;
  Diagnostics& m_diagnostics;
  std::vector<Token> m_tokens;  // without comments and Markdown
  std::size_t m_at = 0;
  std::size_t m_continued = ast::kNone;  // a token that may stand on a new line
  std::size_t m_statementBegin = 0;
  std::uint32_t m_lastEnd = 0;
  int m_nesting = 0;  // open ( and [: newlines do not count inside
  std::uint32_t m_depth = 0;
  std::unordered_set<std::uint32_t> m_refused;  // places of the lexer's diagnostics
  std::size_t m_told = 0;
  bool m_failed = false;  // this statement has its mistake: nothing more is read or reported
};

}  // namespace nf::lang
