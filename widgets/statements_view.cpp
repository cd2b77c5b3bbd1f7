// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/statements_view.h"

#include <QKeyEvent>
#include <QScrollBar>
#include <QTextBlock>
#include <algorithm>
#include <iterator>

#include "widgets/basic.h"
#include "widgets/code_highlighter.h"

namespace nf {

StatementsView::StatementsView(const Theme* theme, Selection* selection, QWidget* parent)
    : QPlainTextEdit(parent), m_theme(theme), m_selection(selection) {
  setReadOnly(true);
  setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  setFrameShape(QFrame::NoFrame);
  setLineWrapMode(QPlainTextEdit::NoWrap);
  leaveWheelToPage(horizontalScrollBar());
  setStyleSheet(QStringLiteral("QPlainTextEdit { background: transparent; }"));
  connect(selection, &Selection::changed, this, &StatementsView::tint);
}

void StatementsView::setStatements(std::vector<protocol::DerivedStatement> statements, const QString& heading) {
  m_statements = std::move(statements);
  m_begins.clear();
  QStringList parts;
  int line = 0;
  const auto add = [&](const QString& text) {
    parts << text;
    line += static_cast<int>(text.count(QLatin1Char('\n'))) + 1;
  };
  if (!heading.isEmpty()) add(heading);
  for (const auto& s : m_statements) {
    m_begins.push_back(line);
    add(QString::fromStdString(s.text).trimmed());
  }
  // Setting the same text again would lose the caret and what is marked.
  if (const QString text = parts.join(QLatin1Char('\n')); text != toPlainText()) setPlainText(text);
  dress();
}

void StatementsView::dress() {
  setFont(m_theme->mono(13));
  m_code = highlighted(*this, m_theme->colors());
  tint();
}

void StatementsView::setOnPaper(bool onPaper) {
  m_onPaper = onPaper;
  tint();
}

bool StatementsView::tinted(std::size_t statement) const {
  if (m_onPaper || m_selection->empty() || statement >= m_statements.size()) return false;
  const protocol::DerivedStatement& s = m_statements[statement];
  return s.tensor.empty() ? m_selection->relation(s.origins) == Selection::Relation::Exact
                          : m_selection->relation({s.tensor}, s.origins) == Selection::Relation::Exact;
}

void StatementsView::tint() {
  QList<QTextEdit::ExtraSelection> marks;
  for (std::size_t i = 0; i < m_statements.size(); ++i) {
    if (!tinted(i)) continue;
    const int end = i + 1 < m_begins.size() ? m_begins[i + 1] : document()->blockCount();
    for (int line = m_begins[i]; line < end; ++line) {
      QTextEdit::ExtraSelection s;
      s.format.setBackground(m_theme->colors().accentSoft);
      s.format.setProperty(QTextFormat::FullWidthSelection, true);
      s.cursor = QTextCursor(document()->findBlockByNumber(line));
      marks << s;
    }
  }
  setExtraSelections(marks + m_code);
}

void StatementsView::selectAt(const QTextCursor& at) {
  const auto behind = std::upper_bound(m_begins.begin(), m_begins.end(), at.blockNumber());
  if (behind == m_begins.begin()) return;
  const protocol::DerivedStatement& s = m_statements[static_cast<std::size_t>(std::distance(m_begins.begin(), behind)) - 1];
  if (s.tensor.empty()) m_selection->select(s.origins);
  else m_selection->select({}, {s.tensor});
}

void StatementsView::mouseReleaseEvent(QMouseEvent* event) {
  QPlainTextEdit::mouseReleaseEvent(event);
  if (event->button() == Qt::LeftButton && !textCursor().hasSelection()) selectAt(cursorForPosition(event->position().toPoint()));
}

void StatementsView::keyPressEvent(QKeyEvent* event) {
  if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && event->modifiers() == Qt::NoModifier)
    return selectAt(textCursor());
  QPlainTextEdit::keyPressEvent(event);
}

}  // namespace nf
