// SPDX-License-Identifier: Apache-2.0
#include "core/syntax/schedule_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/syntax/lexer.h"

namespace nf {
namespace {

using Json = nlohmann::json;

constexpr int kMostNested = 8;
constexpr std::string_view kIndent = "  ";

bool isWord(TokenKind kind) { return kind == TokenKind::Name || kind == TokenKind::Keyword || kind == TokenKind::Reducer; }

// Without quotes it is read as this one word.
bool isWord(const std::string& text) {
  const LexResult read = lex(text, SourceId());
  return read.diagnostics.empty() && read.tokens.size() == 2 && isWord(read.tokens.front().kind) &&
         read.tokens.front().begin == 0 && read.tokens.front().end == text.size();
}

bool isQuotable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c != '"' && c != '\\' && c != '{' && c != '}' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

std::optional<std::string> valueText(const Json& value, int depth = 0) {
  if (value.is_number()) return value.dump();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (isWord(text)) return text;
    return isQuotable(text) ? std::optional('"' + text + '"') : std::nullopt;
  }
  if (!value.is_array() || depth > kMostNested) return std::nullopt;
  std::string text = "[";
  for (const Json& item : value) {
    const auto one = valueText(item, depth + 1);
    if (!one) return std::nullopt;
    text += (text.size() > 1 ? ", " : "") + *one;
  }
  return text + "]";
}

bool isSchedule(const Json& json) {
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string() || !json.contains("knobs") ||
      !json["knobs"].is_object() || (json.contains("version") && json["version"] != 1))
    return false;
  return std::all_of(json.items().begin(), json.items().end(),
                     [](const auto& item) { return item.key() == "kind" || item.key() == "knobs" || item.key() == "version"; });
}

// "kind = contraction", "unroll = 4", ...; nothing where it has no such form.
std::optional<std::vector<std::string>> settings(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!isSchedule(json)) return std::nullopt;
  std::vector<std::string> all;
  const auto kind = valueText(json["kind"]);
  if (!kind) return std::nullopt;
  all.push_back("kind = " + *kind);
  for (const auto& [name, value] : json["knobs"].items()) {
    const auto written = valueText(value);
    if (!written || !isWord(name) || name == "kind") return std::nullopt;
    all.push_back(name + " = " + *written);
  }
  return all;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : m_text(text) {
    for (const Token& t : lex(text, SourceId()).tokens)
      if (t.kind != TokenKind::Comment) m_tokens.push_back(t);
  }

  bool readable() const {
    return m_tokens.front().kind == TokenKind::LeftBrace && m_tokens[1].kind != TokenKind::String &&
           m_tokens[1].kind != TokenKind::RightBrace;
  }

  ScheduleReading read() {
    ScheduleReading out;
    Json json{{"version", 1}, {"knobs", Json::object()}};
    ++m_at;  // the brace
    bool separated = true;
    while (m_mistake.empty() && !at(TokenKind::RightBrace) && !at(TokenKind::End)) {
      if (at(TokenKind::Semicolon) || at(TokenKind::Comma)) {
        ++m_at;
        separated = true;
        continue;
      }
      if (!separated && !tok().newlineBefore) {
        fail("expected `;` or `}`");
        break;
      }
      setting(json);
      separated = false;
    }
    // What is no UTF-8 is no word and no schedule's; it is told of later, as what it was made into.
    if (m_mistake.empty()) return {json.dump(-1, ' ', false, Json::error_handler_t::replace), {}, 0, 0};
    out.mistake = m_mistake;
    out.begin = m_begin;
    out.end = m_end;
    return out;
  }

 private:
  const Token& tok() const { return m_tokens[std::min(m_at, m_tokens.size() - 1)]; }
  bool at(TokenKind kind) const { return tok().kind == kind; }
  std::string textOf(const Token& t) const { return std::string(m_text.substr(t.begin, t.end - t.begin)); }
  void fail(std::string mistake) {
    if (!m_mistake.empty()) return;
    m_mistake = std::move(mistake);
    m_begin = tok().begin;
    m_end = tok().end;
  }

  void setting(Json& json) {
    if (!isWord(tok().kind)) return fail("expected the name of a knob");
    const std::string name = textOf(tok());
    const bool known = name == "kind" ? json.contains("kind") : json["knobs"].contains(name);
    if (known) return fail("`" + name + "` stands twice");
    ++m_at;
    if (!at(TokenKind::Assign)) return fail("expected `=` and the value of `" + name + "`");
    ++m_at;
    const Token first = tok();
    Json read = value(0);
    if (!m_mistake.empty()) return;
    if (name != "kind") {
      json["knobs"][name] = std::move(read);
    } else if (read.is_string()) {
      json["kind"] = std::move(read);
    } else {
      fail("the kind of a schedule is a word");
      m_begin = first.begin;
      m_end = first.end;
    }
  }

  Json value(int depth) {
    const Token& t = tok();
    const bool negative = t.kind == TokenKind::Minus;
    if (negative) ++m_at;
    if (at(TokenKind::Number)) {
      const Json number = Json::parse((negative ? "-" : "") + textOf(tok()), nullptr, false);
      if (number.is_number()) {
        ++m_at;
        return number;
      }
    } else if (!negative && isWord(t.kind)) {
      ++m_at;
      return textOf(t);
    } else if (!negative && t.kind == TokenKind::String && t.end - t.begin >= 2) {
      const std::string text = textOf(t).substr(1, t.end - t.begin - 2);
      if (isQuotable(text)) {
        ++m_at;
        return text;
      }
    } else if (!negative && t.kind == TokenKind::LeftBracket && depth <= kMostNested) {
      return list(depth);
    }
    fail("expected a number, a word, a string in quotes or a list of them");
    return {};
  }

  Json list(int depth) {
    Json items = Json::array();
    ++m_at;
    while (m_mistake.empty() && !at(TokenKind::RightBracket)) {
      items.push_back(value(depth + 1));
      if (!m_mistake.empty() || at(TokenKind::RightBracket)) break;
      if (!at(TokenKind::Comma)) fail("expected `,` or `]`");
      else ++m_at;
    }
    ++m_at;
    return items;
  }

  std::string_view m_text;
  std::vector<Token> m_tokens;
  std::size_t m_at = 0;
  std::string m_mistake;
  std::size_t m_begin = 0, m_end = 0;
};

}  // namespace

std::string scheduleText(std::string_view json) {
  const auto all = settings(json);
  if (!all) return std::string(json);
  std::string text = "{ ";
  for (const std::string& one : *all) text += (text.size() > 2 ? "; " : "") + one;
  return text + " }";
}

std::string scheduleText(std::string_view json, std::size_t before, std::size_t columns) {
  std::string line = scheduleText(json);
  const auto all = settings(json);
  if (!all || before + line.size() <= columns) return line;
  std::string text = "{";
  std::size_t wide = columns;  // of the last line
  for (const std::string& one : *all) {
    if (wide + 2 + one.size() > columns) {
      text += "\n" + std::string(kIndent) + one;
      wide = kIndent.size() + one.size();
    } else {
      text += "; " + one;
      wide += 2 + one.size();
    }
  }
  return text + "\n}";
}

ScheduleReading readSchedule(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (isSchedule(json)) {
    Json canonical = json;
    canonical["version"] = 1;
    return {canonical.dump(), {}, 0, 0};
  }
  // A name in quotes, or nothing at all, is JSON's.
  Reader reader(text);
  return json.is_object() || !reader.readable() ? ScheduleReading{std::string(text), {}, 0, 0} : reader.read();
}

}  // namespace nf
