// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/code_highlighter.h"

#include <QPlainTextEdit>
#include <algorithm>

#include "core/document/document.h"
#include "core/syntax/lexer.h"

namespace nf {

std::vector<ColoredRun> highlight(std::string_view bytes, const Palette& c) {
  std::vector<ColoredRun> runs;
  const auto tokens = lex(bytes, SourceId{}).tokens;
  std::size_t byte = 0;
  int unit = 0;
  int brackets = 0;
  const auto advance = [&](std::size_t to) {
    unit += static_cast<int>(displayText(bytes.substr(byte, to - byte)).size());
    byte = to;
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& t = tokens[i];
    if (t.kind == TokenKind::End || t.end > bytes.size() || t.begin < byte) continue;
    advance(t.begin);
    const int begin = unit;
    advance(t.end);
    QColor color;
    const TokenKind next = i + 1 < tokens.size() ? tokens[i + 1].kind : TokenKind::End;
    if (t.kind == TokenKind::LeftBracket) ++brackets;
    if (t.kind == TokenKind::RightBracket && brackets > 0) --brackets;
    switch (t.kind) {
      case TokenKind::Keyword:
      case TokenKind::Reducer: color = c.keyword; break;
      case TokenKind::Number: color = c.number; break;
      case TokenKind::String: color = c.call; break;
      case TokenKind::Comment:
      case TokenKind::CellMarker:
      case TokenKind::Markdown: color = c.comment; break;
      case TokenKind::Invalid: color = c.failed; break;
      case TokenKind::Name:
        if (next == TokenKind::LeftParen) color = c.call;
        else if (brackets > 0 && next != TokenKind::LeftBracket)
          color = bytes[t.begin] >= 'A' && bytes[t.begin] <= 'Z' ? QColor() : c.index;
        break;
      default: break;
    }
    if (!color.isValid()) continue;
    QTextCharFormat format;
    format.setForeground(color);
    runs.push_back({begin, unit - begin, format});
  }
  return runs;
}

QList<QTextEdit::ExtraSelection> highlighted(const QPlainTextEdit& field, const Palette& colors) {
  const QString text = field.toPlainText();
  const int size = static_cast<int>(text.size());
  QList<QTextEdit::ExtraSelection> runs;
  for (const ColoredRun& run : highlight(text.toStdString(), colors)) {
    QTextCursor cursor(field.document());
    cursor.setPosition(std::min(run.begin, size));
    cursor.setPosition(std::min(run.begin + run.length, size), QTextCursor::KeepAnchor);
    runs.push_back({cursor, run.format});
  }
  return runs;
}

}  // namespace nf
