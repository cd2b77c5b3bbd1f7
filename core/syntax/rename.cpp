// SPDX-License-Identifier: Apache-2.0
#include "core/syntax/rename.h"

#include <algorithm>
#include <cctype>

#include "core/syntax/completion.h"
#include "core/syntax/lexer.h"

namespace nf {
namespace {

using Places = std::vector<std::pair<std::size_t, std::size_t>>;

bool isComment(TokenKind kind) {
  return kind == TokenKind::Comment || kind == TokenKind::Markdown || kind == TokenKind::CellMarker;
}

class Finder {
 public:
  Finder(std::string_view text, std::string_view name) : m_text(text), m_name(name) {
    for (const Token& t : lex(text, SourceId(std::size_t{0})).tokens)
      if (!isComment(t.kind)) m_tokens.push_back(t);
  }

  Places places() {
    std::vector<TokenKind> open;       // brackets around the token
    std::vector<std::string_view> of;  // by open brace: what it belongs to
    std::string_view lead;             // the keyword that the statement begins with
    std::size_t localUntil = 0;        // of a function that has the name for itself
    for (std::size_t i = 0; i < m_tokens.size(); ++i) {
      const Token& t = m_tokens[i];
      const bool newLine =
          i == 0 || m_text.substr(m_tokens[i - 1].end, t.begin - m_tokens[i - 1].end).find('\n') != std::string_view::npos;
      if (newLine && (open.empty() || open.back() == TokenKind::LeftBrace)) lead = {};
      if (t.kind == TokenKind::Keyword && beginsBlock(wordOf(t))) lead = wordOf(t);
      if (t.kind == TokenKind::Keyword && wordOf(t) == "def")
        if (const std::size_t end = endOfFunction(i); hasForItself(i, end)) localUntil = end;
      switch (t.kind) {
        case TokenKind::LeftBrace: of.push_back(std::exchange(lead, {})); [[fallthrough]];
        case TokenKind::LeftParen:
        case TokenKind::LeftBracket: open.push_back(t.kind); continue;
        case TokenKind::RightBrace:
          if (!of.empty()) of.pop_back();
          [[fallthrough]];
        case TokenKind::RightParen:
        case TokenKind::RightBracket:
          if (!open.empty()) open.pop_back();
          continue;
        default: break;
      }
      if (i < localUntil) continue;
      if (t.kind == TokenKind::QuotedName) quoted(t);
      if (t.kind != TokenKind::Name || firstPart(t) != m_name) continue;
      const std::string_view around = of.empty() ? std::string_view() : of.back();
      const bool attributes = !open.empty() && open.back() == TokenKind::LeftBrace && (around == "train" || around == "data");
      const bool key = is(i + 1, TokenKind::Assign) && (attributes || (!open.empty() && open.back() == TokenKind::LeftParen));
      const bool word = is(i - 1, TokenKind::Keyword) && wordOf(m_tokens[i - 1]) == "hint";
      const bool chosen = attributes && is(i - 1, TokenKind::Assign) && i >= 2 &&
                          (wordOf(m_tokens[i - 2]) == "mode" || wordOf(m_tokens[i - 2]) == "device");
      const bool source = lead == "data" && !is(i - 1, TokenKind::Keyword);
      if (key || word || chosen || source || around == "hint") continue;
      m_places.emplace_back(t.begin, t.begin + m_name.size());
    }
    return std::move(m_places);
  }

  bool stands() const {
    return std::any_of(m_tokens.begin(), m_tokens.end(),
                       [&](const Token& t) { return t.kind == TokenKind::Name && firstPart(t) == m_name; });
  }

 private:
  static bool beginsBlock(std::string_view word) {
    constexpr std::string_view kWords[] = {"train", "data", "hint", "def", "for", "repeat", "if", "else"};
    return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
  }
  static bool declares(std::string_view word) {
    constexpr std::string_view kWords[] = {"param", "state", "const", "input", "let", "stack", "accumulate", "for", "repeat"};
    return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
  }
  std::string_view wordOf(const Token& t) const { return m_text.substr(t.begin, t.end - t.begin); }
  std::string_view firstPart(const Token& t) const { return wordOf(t).substr(0, wordOf(t).find('.')); }
  bool is(std::size_t i, TokenKind kind) const { return i < m_tokens.size() && m_tokens[i].kind == kind; }

  // Behind the brace that closes its body, or the line of its expression.
  std::size_t endOfFunction(std::size_t def) const {
    int depth = 0;
    for (std::size_t i = def + 1; i < m_tokens.size(); ++i) {
      const TokenKind kind = m_tokens[i].kind;
      const std::size_t gap = m_tokens[i - 1].end;
      if (depth == 0 && i > def + 1 && m_text.substr(gap, m_tokens[i].begin - gap).find('\n') != std::string_view::npos) return i;
      depth += kind == TokenKind::LeftBrace || kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket;
      depth -= kind == TokenKind::RightBrace || kind == TokenKind::RightParen || kind == TokenKind::RightBracket;
      if (depth == 0 && kind == TokenKind::RightBrace) return i + 1;
    }
    return m_tokens.size();
  }

  // A parameter, an option, its result, or what its body declares or assigns. `def`: its keyword.
  bool hasForItself(std::size_t def, std::size_t end) const {
    bool signature = true;
    for (std::size_t i = def + 2; i < end; ++i) {
      if (m_tokens[i].kind == TokenKind::LeftBrace) signature = false;
      if (m_tokens[i].kind == TokenKind::Assign && depthBetween(def, i) == 0) return false;  // `def f(x) = expression`
      if (m_tokens[i].kind != TokenKind::Name || wordOf(m_tokens[i]) != m_name) continue;
      if (signature) return true;
      const Token& before = m_tokens[i - 1];
      const bool begins = m_text.substr(before.end, m_tokens[i].begin - before.end).find('\n') != std::string_view::npos ||
                          before.kind == TokenKind::LeftBrace;
      if (begins || (before.kind == TokenKind::Keyword && declares(wordOf(before)))) return true;
    }
    return false;
  }

  int depthBetween(std::size_t from, std::size_t to) const {
    int depth = 0;
    for (std::size_t i = from; i < to; ++i) {
      const TokenKind kind = m_tokens[i].kind;
      depth += kind == TokenKind::LeftBrace || kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket;
      depth -= kind == TokenKind::RightBrace || kind == TokenKind::RightParen || kind == TokenKind::RightBracket;
    }
    return depth;
  }

  // `d(L)/d(W)`, `W.next`: whole words that are no later part of a path.
  void quoted(const Token& t) {
    const std::string_view word = wordOf(t);
    const auto part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
    };
    for (std::size_t at = word.find(m_name); at != std::string_view::npos; at = word.find(m_name, at + m_name.size())) {
      const std::size_t end = at + m_name.size();
      const bool begins = at == 0 || (!part(word[at - 1]) && word[at - 1] != '.'), ends = end >= word.size() || !part(word[end]);
      if (begins && ends) m_places.emplace_back(t.begin + at, t.begin + end);
    }
  }

  std::string_view m_text, m_name;
  std::vector<Token> m_tokens;
  Places m_places;
};

}  // namespace

Places placesOfName(std::string_view notebook, std::string_view name) { return Finder(notebook, name).places(); }

std::string whyNotNamed(std::string_view notebook, std::string_view to) {
  const std::string quoted = "`" + std::string(to) + "`";
  if (isKeyword(to) || isReducerName(to)) return quoted + " is a word of the language.";
  if (!isPlainName(to) || to.find('.') != std::string_view::npos)
    return quoted + " is no name: letters, digits and underscores, the first one no digit.";
  CompletionContext expression;
  expression.kind = CompletionContext::Kind::Expression;
  const auto words = languageWords(expression);
  if (std::find(words.begin(), words.end(), to) != words.end()) return quoted + " is a word of the language.";
  if (Finder(notebook, to).stands()) return quoted + " is taken: it stands in the notebook.";
  return {};
}

}  // namespace nf
