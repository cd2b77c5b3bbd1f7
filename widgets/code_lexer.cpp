// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/code_lexer.h"

#include <Qsci/qsciscintilla.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace nf {
namespace {

enum Style { kPlain, kWord, kNumber, kCall, kComment, kOther, kStyles };  // kOther looks like kPlain

constexpr std::string_view kWords[] = {
    "acc",    "add",  "alignstack", "alloca", "barrier",  "block", "br",      "buffer",   "call",   "const",  "declare", "define",
    "double", "else", "extern",     "fadd",   "fast",     "fcmp",  "fdiv",    "float",    "fma",    "fmul",   "for",     "fsub",
    "global", "icmp", "if",         "in",     "inout",    "int",   "kernel",  "label",    "lane",   "let",    "load",    "local",
    "mul",    "nsw",  "nuw",        "out",    "parallel", "phi",   "private", "ptr",      "ret",    "select", "serial",  "sext",
    "shared", "shl",  "store",      "sub",    "thread",   "to",    "tile",    "unrolled", "vector", "void",   "while",   "zext"};

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || (c & 0x80); }

}  // namespace

CodeLexer::CodeLexer(const Theme* theme, const QFont& font, QsciScintilla* editor) : QsciLexerCustom(editor) {
  const Palette& c = theme->colors();
  setDefaultFont(font);
  setDefaultColor(c.text);
  setDefaultPaper(c.page);
  const QColor colors[kStyles] = {c.text, c.keyword, c.number, c.call, c.comment, c.text};
  for (int style = 0; style < kStyles; ++style) {
    setFont(font, style);
    setColor(colors[style], style);
    setPaper(c.page, style);
  }
}

void CodeLexer::setCodeLanguage(const QString& language) { m_language = language; }

QString CodeLexer::description(int style) const {
  static const char* const names[kStyles] = {"text", "keyword", "number", "call", "comment", "sign"};
  return style >= 0 && style < kStyles ? QString::fromLatin1(names[style]) : QString();
}

void CodeLexer::styleText(int start, int end) {
  if (!editor() || end <= start) return;
  // Whole lines: a comment ends with its line.
  start = static_cast<int>(editor()->SendScintilla(QsciScintilla::SCI_POSITIONFROMLINE,
                                                   editor()->SendScintilla(QsciScintilla::SCI_LINEFROMPOSITION, start)));
  const QByteArray bytes = editor()->bytes(start, end);
  std::string_view text(bytes.constData(), static_cast<std::size_t>(bytes.size()));
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  const bool assembly = m_language == QLatin1String("asm") || m_language == QLatin1String("ptx");
  const char mark = m_language == QLatin1String("llvm") ? ';' : assembly ? '#' : '\0';
  const bool divides = m_language == QLatin1String("loops");  // where // is a floor division
  startStyling(start);
  bool first = true;  // of the line: a mnemonic
  for (std::size_t at = 0; at < text.size();) {
    std::size_t to = at + 1;
    Style style = kPlain;
    const char c = text[at];
    if (c == '\n') {
      first = true;
    } else if ((mark && c == mark) || (!divides && text.substr(at, 2) == "//")) {
      to = std::min(text.find('\n', at), text.size());
      style = kComment;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      while (to < text.size() && isWord(text[to])) ++to;
      style = kNumber;
    } else if (isWord(c) || c == '%' || c == '@' || c == '$') {
      while (to < text.size() && isWord(text[to])) ++to;
      const std::string_view word = text.substr(at, to - at);
      const bool label = to < text.size() && text[to] == ':';
      if (assembly && first && !label) style = c == '.' ? kComment : kWord;
      else if (c == '@' || (to < text.size() && text[to] == '(' && !assembly)) style = kCall;
      else if (!assembly && std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords)) style = kWord;
      first = false;
    } else if (std::ispunct(static_cast<unsigned char>(c)) && at % 2) {
      // A style ends a run of text, and with it the ligature that would make one sign of `>=`.
      style = kOther;
    }
    setStyling(static_cast<int>(to - at), style);
    at = to;
  }
}

}  // namespace nf
