// SPDX-License-Identifier: Apache-2.0
#include "core/syntax/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/support/bidi.h"

namespace nf {
namespace {

constexpr std::array<std::string_view, 26> kKeywords{
    "accumulate", "and", "const", "data",  "def",    "else",    "eval",    "for",  "hint",  "if",    "in",    "input",    "let",
    "loss",       "not", "or",    "param", "repeat", "require", "scatter", "show", "stack", "state", "train", "training", "where"};
constexpr std::array<std::string_view, 7> kReducers{"argmax", "argmin", "max", "mean", "min", "prod", "sum"};
constexpr std::array<std::string_view, 19> kStatements{"accumulate", "const", "data",  "def",   "eval",  "for",    "hint",
                                                       "input",      "let",   "if",    "loss",  "param", "repeat", "require",
                                                       "scatter",    "show",  "stack", "state", "train"};

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Where text passed through what takes only UTF-8, in place of each byte that was none.
constexpr unsigned char kSubstitute = 0x1a;

// Length of the UTF-8 sequence at `at`, 0 where the bytes are none.
std::size_t sequenceLength(std::string_view text, std::size_t at, std::uint32_t& codePoint) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first == kSubstitute) return 0;
  if (first < 0x80) {
    codePoint = first;
    return 1;
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return 0;
  std::uint32_t value = first & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    value = value << 6 | (byte(at + i) & 0x3f);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return 0;
  codePoint = value;
  return length;
}

bool isGreekLetter(std::uint32_t c) {
  return (c >= 0x386 && c <= 0x3ff && c != 0x387 && c != 0x3f6) || (c >= 0x370 && c <= 0x373) || c == 0x376 || c == 0x377;
}

// Bytes of the letter at `at`, digits not included; 0 for anything else.
std::size_t letterLength(std::string_view text, std::size_t at) {
  if (at >= text.size()) return 0;
  if (isLetter(text[at])) return 1;
  if (static_cast<unsigned char>(text[at]) < 0x80) return 0;
  std::uint32_t c = 0;
  const std::size_t length = sequenceLength(text, at, c);
  return length > 0 && isGreekLetter(c) ? length : 0;
}

std::size_t identifierEnd(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (isDigit(text[at])) {
      ++at;
      continue;
    }
    const std::size_t length = letterLength(text, at);
    if (length == 0) break;
    at += length;
  }
  return at;
}

// A path: identifier, then parts of letters or digits after single dots.
std::size_t nameEnd(std::string_view text, std::size_t at) {
  at = identifierEnd(text, at);
  while (at + 1 < text.size() && text[at] == '.' && (isDigit(text[at + 1]) || letterLength(text, at + 1) > 0))
    at = identifierEnd(text, at + 1);
  return at;
}

// What a word processor or another language writes, and what is meant.
struct LookAlike {
  std::string_view written, meant;
};
constexpr std::array<LookAlike, 21> kLookAlikes{{
    {"\u2212", "-"},  {"\u2013", "-"},  {"\u2014", "-"},  {"\u00d7", "*"},  {"\u00b7", "*"},  {"\u22c5", "*"},  {"\u00f7", "/"},
    {"\u2264", "<="}, {"\u2265", ">="}, {"\u2260", "!="}, {"\u2190", "<-"}, {"\u2192", "->"}, {"\u201c", "\""}, {"\u201d", "\""},
    {"\u201e", "\""}, {"\u2018", "\""}, {"\u2019", "\""}, {"\u00a0", " "},  {"&&", "and"},    {"||", "or"},     {"!", "not "},
}};

// No text at all: UTF-16, or bytes that nobody reads. Empty: it may be one.
std::string_view noText(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "this file is UTF-16: save it as UTF-8";
  const std::string_view begin = text.substr(0, 4096);
  if (begin.find('\0') == std::string_view::npos) return {};
  std::size_t strange = 0;
  for (std::size_t i = 0; i < begin.size();) {
    std::uint32_t c = 0;
    const std::size_t length = sequenceLength(begin, i, c);
    strange += length == 0 || (c < 0x20 && c != '\t' && c != '\n' && c != '\r');
    i += std::max<std::size_t>(length, 1);
  }
  return strange > 8 && strange > begin.size() / 16 ? std::string_view("this is no text: a notebook is UTF-8") : std::string_view();
}

class Lexer {
 public:
  Lexer(std::string_view text, SourceId source) : m_text(text), m_source(source) {}

  LexResult run() {
    if (const std::string_view why = noText(m_text); !why.empty()) {
      mistake("no-text", std::string(why), 0, std::min<std::size_t>(2, m_text.size()));
      push(TokenKind::Invalid, 0, m_text.size());
      push(TokenKind::End, m_text.size(), m_text.size());
      return std::move(m_result);
    }
    if (m_text.substr(0, 3) == "\xef\xbb\xbf") m_at = 3;
    while (true) {
      skipSpace();
      if (m_at >= m_text.size()) break;
      if (m_lineStart && (m_at == 0 || m_text[m_at - 1] == '\n' || m_at == 3) && lexLine()) continue;
      lexToken();
    }
    push(TokenKind::End, m_text.size(), m_text.size());
    return std::move(m_result);
  }

 private:
  char at(std::size_t i) const { return i < m_text.size() ? m_text[i] : '\0'; }

  void skipSpace() {
    m_space = false;
    while (m_at < m_text.size()) {
      const char c = m_text[m_at];
      if (c == '\n') {
        m_lineStart = true;
        ++m_at;
        if (m_markdown) return;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        if (m_markdown && m_lineStart && (m_at == 0 || m_text[m_at - 1] == '\n')) return;
        m_space = true;
        ++m_at;
      } else {
        return;
      }
    }
  }

  void push(TokenKind kind, std::size_t begin, std::size_t end) {
    m_result.tokens.push_back({kind, m_lineStart, m_space, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    if (kind != TokenKind::Comment) m_lineStart = false;
  }

  void mistake(std::string code, std::string message, std::size_t begin, std::size_t end,
               std::optional<DiagnosticFix> fix = std::nullopt, Severity severity = Severity::Error) {
    constexpr std::size_t kMost = 50;  // strange bytes are told about once, not one by one
    if (m_result.diagnostics.size() >= kMost) return;
    Diagnostic d;
    d.severity = severity;
    if (fix) {
      fix->span = {m_source, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
      d.fixes.push_back(std::move(*fix));
    }
    d.code = std::move(code);
    d.message = std::move(message);
    d.span = {m_source, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
    m_result.diagnostics.push_back(std::move(d));
  }

  std::size_t lineEnd(std::size_t from) const {
    std::size_t end = std::min(m_text.find('\n', from), m_text.size());
    if (end > from && m_text[end - 1] == '\r') --end;
    return end;
  }

  // A comment or a Markdown line means nothing to the program: bytes that nobody reads are only warned of, the first of them.
  // So is the first character that shows the line in another order than it is read in.
  void checkProse(std::size_t begin, std::size_t end) {
    std::uint32_t codePoint = 0;
    bool reordered = false;
    while (begin < end) {
      const std::size_t length = sequenceLength(m_text, begin, codePoint);
      if (length == 0) break;
      if (reordersText(codePoint) && !std::exchange(reordered, true))
        mistake("bidirectional-control",
                "a control character of bidirectional text: other programs show this line in another order", begin, begin + length,
                DiagnosticFix{"leave it out", {}, ""}, Severity::Warning);
      begin += length;
    }
    std::size_t last = begin;
    while (last < end && sequenceLength(m_text, last, codePoint) == 0) ++last;
    if (last > begin) mistake("invalid-utf8", "these bytes are no UTF-8 text", begin, last, std::nullopt, Severity::Warning);
  }

  // Cell markers and, in a Markdown cell, every other line.
  bool lexLine() {
    const std::size_t end = lineEnd(m_at);
    const std::string_view line = m_text.substr(m_at, end - m_at);
    const bool marker = isCellMarker(line);
    if (!marker) looksLikeMarker(line);
    if (!marker && !m_markdown) return false;
    if (marker) {
      m_markdown = isMarkdownMarker(line);
      if (!m_markdown) looksLikeMarkdown(line, end);
    }
    checkProse(m_at, end);
    push(marker ? TokenKind::CellMarker : TokenKind::Markdown, m_at, end);
    m_lineStart = true;
    m_at = end;
    while (m_at < m_text.size() && m_text[m_at] != '\n') ++m_at;
    return true;
  }

  void looksLikeMarker(std::string_view line) {
    if (!line.starts_with("#%%")) return;
    mistake("cell-marker", "a cell starts with `# %%`: this is a comment", m_at, m_at + 3,
            DiagnosticFix{"write `# %%`", {}, "# %%"}, Severity::Warning);
  }

  void looksLikeMarkdown(std::string_view line, std::size_t end) {
    const std::size_t word = line.find_first_not_of(" \t", 4);
    if (word == std::string_view::npos) return;
    const std::string_view rest = line.substr(word);
    if (rest != "markdown" && rest != "Markdown" && rest != "md" && rest != "[md]" && rest != "[Markdown]") return;
    mistake("cell-marker", "a Markdown cell starts with `# %% [markdown]`: this one is code", m_at + word, end,
            DiagnosticFix{"write `[markdown]`", {}, "[markdown]"}, Severity::Warning);
  }

  void lexToken() {
    const std::size_t begin = m_at;
    const char c = m_text[begin];
    if (c == '#') {
      m_at = lineEnd(begin);
      checkProse(begin, m_at);
      push(TokenKind::Comment, begin, m_at);
      return;
    }
    if (isDigit(c) || (c == '.' && isDigit(at(begin + 1)))) return lexNumber();
    if (letterLength(m_text, begin) > 0) return lexName();
    if (c == '`') return lexQuoted('`', TokenKind::QuotedName, "quoted name");
    if (c == '"') return lexQuoted('"', TokenKind::String, "string");
    lexPunctuation();
  }

  void lexNumber() {
    const std::size_t begin = m_at;
    std::size_t i = begin;
    while (isDigit(at(i))) ++i;
    if (at(i) == '.' && at(i + 1) != '.') {
      ++i;
      while (isDigit(at(i))) ++i;
    }
    bool good = true;
    if (at(i) == 'e' || at(i) == 'E') {
      std::size_t k = i + 1;
      if (at(k) == '+' || at(k) == '-') ++k;
      good = isDigit(at(k));
      while (isDigit(at(k))) ++k;
      i = k;
    }
    const bool moreDigits = at(i) == '.' && isDigit(at(i + 1));
    if (letterLength(m_text, i) > 0 || moreDigits) {
      good = false;
      while (i < m_text.size() && (isDigit(m_text[i]) || letterLength(m_text, i) > 0 || (m_text[i] == '.' && isDigit(at(i + 1)))))
        ++i;
    }
    m_at = i;
    if (!good) mistake("bad-number", "`" + std::string(m_text.substr(begin, i - begin)) + "` is no number", begin, i);
    push(good ? TokenKind::Number : TokenKind::Invalid, begin, i);
  }

  void lexName() {
    const std::size_t begin = m_at;
    m_at = nameEnd(m_text, begin);
    if (otherLetter(m_at) > 0) return lexForeignName(begin);
    const std::string_view word = m_text.substr(begin, m_at - begin);
    TokenKind kind = TokenKind::Name;
    if (word == "_") kind = TokenKind::Hole;
    else if (word == "inf" || word == "nan") kind = TokenKind::Number;
    else if (isKeyword(word)) kind = TokenKind::Keyword;
    else if (isReducerName(word)) kind = TokenKind::Reducer;
    push(kind, begin, m_at);
  }

  // Bytes of a character at `at` that a name of another language might hold; 0 for what means something else.
  std::size_t otherLetter(std::size_t at) const {
    if (at >= m_text.size() || static_cast<unsigned char>(m_text[at]) < 0x80) return 0;
    for (const LookAlike& l : kLookAlikes)
      if (m_text.substr(at).starts_with(l.written)) return 0;
    std::uint32_t c = 0;
    const std::size_t length = sequenceLength(m_text, at, c);
    return isInvisible(c) || reordersText(c) ? 0 : length;
  }

  void lexForeignName(std::size_t begin) {
    m_at = begin;
    for (std::size_t before = m_text.size(); m_at != before;) {
      before = m_at;
      m_at = identifierEnd(m_text, m_at);
      m_at += otherLetter(m_at);
    }
    const std::string name(m_text.substr(begin, m_at - begin));
    mistake("foreign-name", "`" + name + "` is no name: names are made of letters a to z, digits, `_` and Greek letters", begin,
            m_at, DiagnosticFix{"a tensor may have it in backquotes", {}, "`" + name + "`"});
    push(TokenKind::Invalid, begin, m_at);
  }

  void lexQuoted(char quote, TokenKind kind, const char* what) {
    const std::size_t begin = m_at, end = lineEnd(begin);
    const std::size_t close = m_text.find(quote, begin + 1);
    if (close == std::string_view::npos || close >= end) {
      mistake("unclosed-quote",
              std::string("this ") + what + " has no closing " + (quote == '"' ? "`\"`" : "backquote") + " on its line", begin,
              end);
      m_at = end;
      push(TokenKind::Invalid, begin, end);
      return;
    }
    m_at = close + 1;
    const bool empty = close == begin + 1 && kind == TokenKind::QuotedName;
    if (empty) mistake("empty-name", "a quoted name needs at least one character", begin, m_at);
    push(empty ? TokenKind::Invalid : kind, begin, m_at);
  }

  void lexPunctuation() {
    struct Spelling {
      std::string_view text;
      TokenKind kind;
    };
    static constexpr std::array<Spelling, 31> kSpellings{{
        {"...", TokenKind::Ellipsis},  {"..", TokenKind::DotDot},       {"->", TokenKind::Yields},     {"<-", TokenKind::Becomes},
        {"<=", TokenKind::LessEqual},  {">=", TokenKind::GreaterEqual}, {"==", TokenKind::EqualEqual}, {"!=", TokenKind::NotEqual},
        {"+=", TokenKind::AddAssign},  {"//", TokenKind::SlashSlash},   {"(", TokenKind::LeftParen},   {")", TokenKind::RightParen},
        {"[", TokenKind::LeftBracket}, {"]", TokenKind::RightBracket},  {"{", TokenKind::LeftBrace},   {"}", TokenKind::RightBrace},
        {",", TokenKind::Comma},       {";", TokenKind::Semicolon},     {":", TokenKind::Colon},       {"=", TokenKind::Assign},
        {"+", TokenKind::Plus},        {"-", TokenKind::Minus},         {"*", TokenKind::Star},        {"/", TokenKind::Slash},
        {"%", TokenKind::Percent},     {"^", TokenKind::Caret},         {"<", TokenKind::Less},        {">", TokenKind::Greater},
        {"@", TokenKind::At},          {"**", TokenKind::Invalid},      {"", TokenKind::Invalid},
    }};
    const std::string_view rest = m_text.substr(m_at);
    for (const Spelling& s : kSpellings) {
      if (s.text.empty() || rest.substr(0, s.text.size()) != s.text) continue;
      const std::size_t begin = m_at;
      m_at += s.text.size();
      push(s.kind, begin, m_at);
      return;
    }
    lexInvalid();
  }

  void lexInvalid() {
    const std::size_t begin = m_at;
    std::uint32_t codePoint = 0;
    const std::size_t length = sequenceLength(m_text, begin, codePoint);
    if (length == 0) {
      std::uint32_t ignored = 0;
      while (m_at < m_text.size() && sequenceLength(m_text, m_at, ignored) == 0) ++m_at;
      mistake("invalid-utf8", "these bytes are no UTF-8 text", begin, m_at);
      push(TokenKind::Invalid, begin, m_at);
      return;
    }
    for (const LookAlike& l : kLookAlikes) {
      if (!m_text.substr(begin).starts_with(l.written)) continue;
      m_at += l.written.size();
      mistake("unexpected-character", "`" + std::string(l.written) + "` means nothing here", begin, m_at,
              DiagnosticFix{"write `" + std::string(l.meant) + "`", {}, std::string(l.meant)});
      push(TokenKind::Invalid, begin, m_at);
      return;
    }
    if (reordersText(codePoint)) {
      m_at += length;
      mistake("unexpected-character", "a control character of bidirectional text means nothing here", begin, m_at,
              DiagnosticFix{"leave it out", {}, ""});
      push(TokenKind::Invalid, begin, m_at);
      return;
    }
    if (isInvisible(codePoint)) {
      m_at += length;
      char name[16];
      std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(codePoint));
      mistake("unexpected-character", std::string("an invisible character, ") + name + ", means nothing here", begin, m_at,
              DiagnosticFix{"leave it out", {}, ""});
      push(TokenKind::Invalid, begin, m_at);
      return;
    }
    if (m_text[begin] == '\'') return lexSingleQuoted();
    if (codePoint >= 0x80) return lexForeignName(begin);
    m_at += length;
    const bool printable = codePoint > 0x20 && codePoint != 0x7f;
    std::optional<DiagnosticFix> fix;
    // X[i].exp()
    const bool method = codePoint == '.' && begin > 0 && (m_text[begin - 1] == ']' || m_text[begin - 1] == ')') &&
                        m_at < m_text.size() && std::isalpha(static_cast<unsigned char>(m_text[m_at]));
    if (codePoint == '\\') fix = DiagnosticFix{"leave it out: a line that ends with an operator goes on", {}, ""};
    mistake("unexpected-character",
            printable ? "`" + std::string(m_text.substr(begin, length)) + "` means nothing here"
                      : "a control character means nothing here",
            begin, m_at, std::move(fix));
    const bool told = !m_result.diagnostics.empty() && m_result.diagnostics.back().span.begin == begin;
    if (codePoint == '?' && told)
      m_result.diagnostics.back().notes.push_back({"one of two values is chosen with `select(condition, a, b)`", {}});
    if (method && told) {
      std::size_t end = m_at;
      while (end < m_text.size() && (std::isalnum(static_cast<unsigned char>(m_text[end])) || m_text[end] == '_')) ++end;
      m_result.diagnostics.back().notes.push_back(
          {"a function stands before what it takes: `" + std::string(m_text.substr(m_at, end - m_at)) + "(...)`", {}});
    }
    // With its newline: what follows belongs to the statement that has the mistake.
    if (codePoint == '\\' && lineEnd(m_at) == m_at && m_at < m_text.size())
      m_at = std::min(m_text.find('\n', m_at) + 1, m_text.size());
    push(TokenKind::Invalid, begin, m_at);
  }

  void lexSingleQuoted() {
    const std::size_t begin = m_at, close = m_text.find('\'', begin + 1);
    const bool closed = close != std::string_view::npos && close < lineEnd(begin);
    m_at = closed ? close + 1 : begin + 1;
    std::optional<DiagnosticFix> fix;
    const std::string inside(m_text.substr(begin + 1, closed ? close - begin - 1 : 0));
    if (closed && inside.find('"') == std::string::npos)
      fix = DiagnosticFix{"write `\"" + inside + "\"`", {}, "\"" + inside + "\""};
    mistake("unexpected-character", "a string stands in double quotes", begin, m_at, std::move(fix));
    push(TokenKind::Invalid, begin, m_at);
  }

  std::string_view m_text;
  SourceId m_source;
  std::size_t m_at = 0;
  bool m_lineStart = true;
  bool m_space = false;
  bool m_markdown = false;
  LexResult m_result;
};

}  // namespace

std::string_view describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::End: return "the end";
    case TokenKind::Name: return "a name";
    case TokenKind::QuotedName: return "a quoted name";
    case TokenKind::Number: return "a number";
    case TokenKind::String: return "a string";
    case TokenKind::Keyword: return "a keyword";
    case TokenKind::Reducer: return "a reduction";
    case TokenKind::LeftParen: return "`(`";
    case TokenKind::RightParen: return "`)`";
    case TokenKind::LeftBracket: return "`[`";
    case TokenKind::RightBracket: return "`]`";
    case TokenKind::LeftBrace: return "`{`";
    case TokenKind::RightBrace: return "`}`";
    case TokenKind::Comma: return "`,`";
    case TokenKind::Semicolon: return "`;`";
    case TokenKind::Colon: return "`:`";
    case TokenKind::Assign: return "`=`";
    case TokenKind::AddAssign: return "`+=`";
    case TokenKind::Becomes: return "`<-`";
    case TokenKind::Yields: return "`->`";
    case TokenKind::Plus: return "`+`";
    case TokenKind::Minus: return "`-`";
    case TokenKind::Star: return "`*`";
    case TokenKind::Slash: return "`/`";
    case TokenKind::SlashSlash: return "`//`";
    case TokenKind::Percent: return "`%`";
    case TokenKind::Caret: return "`^`";
    case TokenKind::Less: return "`<`";
    case TokenKind::LessEqual: return "`<=`";
    case TokenKind::Greater: return "`>`";
    case TokenKind::GreaterEqual: return "`>=`";
    case TokenKind::EqualEqual: return "`==`";
    case TokenKind::NotEqual: return "`!=`";
    case TokenKind::DotDot: return "`..`";
    case TokenKind::Ellipsis: return "`...`";
    case TokenKind::Hole: return "`_`";
    case TokenKind::At: return "`@`";
    case TokenKind::Comment: return "a comment";
    case TokenKind::CellMarker: return "the end of the cell";
    case TokenKind::Markdown: return "Markdown";
    case TokenKind::Invalid: return "an invalid token";
  }
  return "";
}

bool isKeyword(std::string_view word) { return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end(); }
bool isReducerName(std::string_view word) { return std::find(kReducers.begin(), kReducers.end(), word) != kReducers.end(); }

bool beginsStatement(std::string_view keyword) {
  return !keyword.empty() && std::find(kStatements.begin(), kStatements.end(), keyword) != kStatements.end();
}

std::span<const std::string_view> statementWords() { return kStatements; }

bool isPlainName(std::string_view text) {
  if (letterLength(text, 0) == 0 || nameEnd(text, 0) != text.size()) return false;
  return text != "_" && text != "inf" && text != "nan" && !isKeyword(text) && !isReducerName(text);
}

namespace {
bool isDerivativeName(std::string_view text, int depth) {
  if (depth > 16) return false;
  const auto part = [&](std::string_view& rest) {
    if (rest.substr(0, 2) != "d(") return false;
    int open = 0;
    for (std::size_t i = 1; i < rest.size(); ++i) {
      if (rest[i] == '(') ++open;
      if (rest[i] == ')' && --open == 0) {
        const std::string_view inner = rest.substr(2, i - 2);
        rest.remove_prefix(i + 1);
        return isPlainName(inner) || isDerivativeName(inner, depth + 1);
      }
    }
    return false;
  };
  std::string_view rest = text;
  if (!part(rest) || rest.empty() || rest[0] != '/') return false;
  rest.remove_prefix(1);
  return part(rest) && rest.empty();
}
}  // namespace

bool isDerivativeName(std::string_view text) { return isDerivativeName(text, 0); }

std::string quotedName(std::string_view name) {
  if (isPlainName(name) || isDerivativeName(name)) return std::string(name);
  std::string clean(name);
  for (char& c : clean)
    if (c == '`' || c == '\n' || c == '\r') c = '\'';
  return "`" + clean + "`";
}

bool isCellMarker(std::string_view line) { return line.substr(0, 4) == "# %%"; }

bool isMarkdownMarker(std::string_view line) {
  if (!isCellMarker(line)) return false;
  std::size_t i = 4;
  while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
  return line.substr(i, 10) == "[markdown]";
}

LexResult lex(std::string_view text, SourceId source) { return Lexer(text, source).run(); }

}  // namespace nf
