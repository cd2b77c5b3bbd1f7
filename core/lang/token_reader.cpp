// SPDX-License-Identifier: Apache-2.0
#include "core/lang/token_reader.h"

#include <algorithm>

#include "core/syntax/lexer.h"

namespace nf::lang {

using namespace ast;

TokenReader::TokenReader(std::string_view text, SourceId source, Diagnostics& diagnostics)
    : m_text(text), m_source(source), m_diagnostics(diagnostics) {
  LexResult lexed = lex(text, source);
  for (Diagnostic& d : lexed.diagnostics) {
    m_refused.insert(d.span.begin);
    m_diagnostics.push_back(std::move(d));
  }
  std::erase_if(lexed.tokens, [](const Token& t) { return t.kind == TokenKind::Comment || t.kind == TokenKind::Markdown; });
  m_tokens = std::move(lexed.tokens);
}

// ------------------------------------------------------------ tokens

// The kind of the next token of this statement; End where the statement ends.
TokenKind TokenReader::kind() const {
  if (m_failed) return TokenKind::End;
  const Token& t = tok();
  if (t.kind == TokenKind::CellMarker) return TokenKind::End;
  if (m_nesting == 0 && t.newlineBefore && m_at != m_continued) return TokenKind::End;
  return t.kind;
}

const Token& TokenReader::take() {
  const Token& t = tok();
  m_lastEnd = t.end;
  if (t.kind != TokenKind::End) ++m_at;
  return t;
}

bool TokenReader::accept(TokenKind k) {
  if (!at(k)) return false;
  take();
  return true;
}

// ------------------------------------------------------------ mistakes

Diagnostic* TokenReader::fail(std::string code, std::string message, Span where) {
  if (m_failed) return nullptr;
  m_failed = true;
  // What the lexer refused is told about once; a text that is no program at all is not told about line by line.
  constexpr std::size_t kMost = 100;
  if (m_told >= kMost || m_refused.contains(where.begin)) return nullptr;
  ++m_told;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.span = where;
  m_diagnostics.push_back(std::move(d));
  return &m_diagnostics.back();
}

// Where a person looks for what is missing: the token there, or the end of the line before.
Span TokenReader::here() const {
  const Token& t = tok();
  const bool ended =
      t.kind == TokenKind::End || t.kind == TokenKind::CellMarker || (t.newlineBefore && m_nesting == 0 && m_at != m_continued);
  if (ended) return {m_source, m_lastEnd, m_lastEnd};
  return span(t);
}

std::string TokenReader::found() const {
  const Token& t = tok();
  if (t.kind == TokenKind::End) return "the end";
  if (t.kind == TokenKind::CellMarker) return "the end of the cell";
  if (t.newlineBefore && m_nesting == 0 && m_at != m_continued) return "the end of the line";
  if (t.kind == TokenKind::Invalid || t.kind == TokenKind::Name || t.kind == TokenKind::Keyword || t.kind == TokenKind::Number ||
      t.kind == TokenKind::Reducer)
    return "`" + std::string(text(t).substr(0, 40)) + "`";
  return std::string(describe(t.kind));
}

bool TokenReader::expect(TokenKind k, const std::string& why) {
  if (accept(k)) return true;
  expected(std::string(describe(k)) + why);
  return false;
}

// A closing bracket. Says where it was opened when the cell or a new statement comes first.
bool TokenReader::close(TokenKind k, const Token& opened) {
  if (!m_failed && tok().kind == k) {
    --m_nesting;
    take();
    return true;
  }
  if (!m_failed) {
    const Token& t = tok();
    const bool stops = t.kind == TokenKind::End || t.kind == TokenKind::CellMarker || startsStatement(m_at);
    if (stops) {
      Diagnostic* d = fail(
          "unclosed-bracket",
          std::string(describe(opened.kind)) + " is not closed" + (t.kind == TokenKind::CellMarker ? " before its cell ends" : ""),
          span(opened));
      if (d)
        d->notes.push_back({"expected " + std::string(describe(k)) + " before this",
                            t.kind == TokenKind::End ? Span{m_source, m_lastEnd, m_lastEnd} : span(t)});
    } else {
      Diagnostic* d = expected(std::string(describe(k)) + " or a comma");
      if (d && k == TokenKind::RightBracket && t.kind == TokenKind::Colon)
        d->notes.push_back({"a part of an axis is read with an index, `Y[i: 3] = X[i + 2]`; a whole axis is `_`", {}});
    }
  }
  --m_nesting;
  return false;
}

// A line that looks like a statement of its own, whatever bracket is still open.
bool TokenReader::startsStatement(std::size_t i) const {
  const Token& t = tokAt(i);
  if (!t.newlineBefore) return false;
  if (t.kind == TokenKind::Keyword) return beginsStatement(text(t));
  if (t.kind != TokenKind::Name && t.kind != TokenKind::QuotedName) return false;
  int depth = 0;
  for (std::size_t k = i + 1; k < m_tokens.size() && !m_tokens[k].newlineBefore; ++k) {
    switch (m_tokens[k].kind) {
      case TokenKind::LeftBracket: ++depth; break;
      case TokenKind::RightBracket: --depth; break;
      case TokenKind::Assign:
      case TokenKind::AddAssign:
      case TokenKind::Becomes:
        if (depth == 0) return true;
        break;
      case TokenKind::LeftParen:
        if (depth == 0) return false;
        break;
      case TokenKind::RightParen:
      case TokenKind::LeftBrace:
      case TokenKind::RightBrace: return false;
      default: break;
    }
    if (depth < 0) return false;
  }
  return false;
}

bool TokenReader::isWholeStatement(std::size_t i) const {
  if (tokAt(i + 1).kind != TokenKind::LeftBracket || !startsStatement(i)) return false;
  int open = 0;
  for (std::size_t k = i + 1; k < m_tokens.size() && !m_tokens[k].newlineBefore && open >= 0; ++k) {
    const TokenKind kind = m_tokens[k].kind;
    open += kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket;
    open -= kind == TokenKind::RightParen || kind == TokenKind::RightBracket;
  }
  return open == 0;
}

// After a mistake: to the end of the statement. Brackets opened since then are skipped whole.
void TokenReader::synchronise() {
  m_failed = false;
  int open = std::max(m_nesting, 0);
  m_nesting = 0;
  while (true) {
    const Token& t = tok();
    if (t.kind == TokenKind::End || t.kind == TokenKind::CellMarker) return;
    if (m_at > m_statementBegin && startsStatement(m_at)) return;
    if (open == 0 && m_at > m_statementBegin &&
        (t.newlineBefore || t.kind == TokenKind::Semicolon || t.kind == TokenKind::RightBrace))
      return;
    if (t.kind == TokenKind::LeftParen || t.kind == TokenKind::LeftBracket || t.kind == TokenKind::LeftBrace) ++open;
    if (t.kind == TokenKind::RightParen || t.kind == TokenKind::RightBracket || t.kind == TokenKind::RightBrace)
      open = std::max(0, open - 1);
    m_lastEnd = t.end;
    ++m_at;
  }
}

bool TokenReader::tooDeep() {
  if (m_depth <= kMaxDepth) return false;
  // A bracket costs two levels, a sign one: people are told of what they wrote.
  const bool brackets = m_nesting > static_cast<int>(kMaxDepth) / 4;
  const std::string what = brackets ? std::to_string(m_nesting) + " brackets are open here"
                                    : "this is nested " + std::to_string(kMaxDepth) + " levels deep";
  fail("too-deep", what + ": that is too deep, name a part of it", here());
  return true;
}

}  // namespace nf::lang
