// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/expression_editor.h"

#include <QAbstractItemView>
#include <QCompleter>
#include <QKeyEvent>
#include <QPainter>
#include <QScrollBar>
#include <QStringListModel>
#include <QTextBlock>
#include <QTextLayout>

#include "core/document/document.h"
#include "widgets/code_highlighter.h"

namespace nf {
namespace {
constexpr int kPadX = 12, kPadY = 8;

QString shown(std::string_view bytes) {
  const std::u16string text = displayText(bytes);
  return QString::fromUtf16(text.data(), static_cast<qsizetype>(text.size()));
}
}  // namespace

ExpressionEditor::ExpressionEditor(const Theme* theme, bool code, QWidget* parent)
    : QPlainTextEdit(parent), m_theme(theme), m_code(code), m_completer(new QCompleter(this)), m_words(new QStringListModel(this)) {
  setUndoRedoEnabled(false);
  setFrameShape(QFrame::NoFrame);
  setLineWrapMode(code ? QPlainTextEdit::NoWrap : QPlainTextEdit::WidgetWidth);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setTabChangesFocus(false);
  setAcceptDrops(false);
  document()->setDocumentMargin(0);
  setViewportMargins(kPadX, kPadY, kPadX, kPadY);
  m_completer->setModel(m_words);
  m_completer->setWidget(this);
  m_completer->setCompletionMode(QCompleter::PopupCompletion);
  m_completer->setCaseSensitivity(Qt::CaseInsensitive);
  connect(m_completer, qOverload<const QString&>(&QCompleter::activated), this, [this](const QString& word) {
    QTextCursor cursor = textCursor();
    cursor.movePosition(QTextCursor::Left, QTextCursor::KeepAnchor, static_cast<int>(m_completer->completionPrefix().size()));
    cursor.insertText(word);
    setTextCursor(cursor);
  });
  connect(this, &QPlainTextEdit::textChanged, this, &ExpressionEditor::noticeChange);
  connect(this, &QPlainTextEdit::cursorPositionChanged, this, [this] {
    if (!m_setting) Q_EMIT caretMoved();
  });
  // The cell is as high as its text: it never scrolls upright, also not while it is being laid out.
  connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this](int value) {
    if (value != 0) verticalScrollBar()->setValue(0);
  });
  const auto dress = [this] {
    const QFont font = m_theme->mono(13);
    setFont(font);
    setTabStopDistance(2 * QFontMetricsF(font).horizontalAdvance(QLatin1Char(' ')));
    const Palette& c = m_theme->colors();
    setStyleSheet(QStringLiteral("QPlainTextEdit { background: %1; color: %2; font-family: '%3'; font-size: 13px; }")
                      .arg(c.code.name(), c.text.name(), font.family()));
    recolor();
    showMarks();
    fit();
  };
  connect(theme, &Theme::changed, this, dress);
  dress();
}

void ExpressionEditor::setBytes(const std::string& bytes) {
  const QString now = toPlainText(), next = shown(bytes);
  m_setting = true;
  if (now != next) {
    int same = 0;
    while (same < now.size() && same < next.size() && now[same] == next[same]) ++same;
    int tail = 0;
    while (tail < now.size() - same && tail < next.size() - same && now[now.size() - 1 - tail] == next[next.size() - 1 - tail])
      ++tail;
    QTextCursor cursor(document());
    cursor.setPosition(same);
    cursor.setPosition(static_cast<int>(now.size()) - tail, QTextCursor::KeepAnchor);
    cursor.insertText(next.mid(same, next.size() - same - tail));
    // Without the focus the cursor waits at the start: a view that is not laid out yet would scroll to it and stay there.
    cursor.setPosition(hasFocus() ? static_cast<int>(next.size()) - tail : 0);
    setTextCursor(cursor);
  }
  m_bytes = bytes;
  m_setting = false;
  recolor();
  fit();
}

void ExpressionEditor::noticeChange() {
  if (m_setting) return;
  const QString before = shown(m_bytes), now = toPlainText();
  if (before == now) return;
  // The caret's side decides between equal choices: `aa` + `a` is an insertion before the caret.
  const int caret = textCursor().position();
  int tail = 0;
  while (tail < before.size() && tail < now.size() - std::min<int>(caret, static_cast<int>(now.size())) &&
         before[before.size() - 1 - tail] == now[now.size() - 1 - tail])
    ++tail;
  int same = 0;
  while (same < before.size() - tail && same < now.size() - tail && before[same] == now[same]) ++same;
  if (same > 0 && same < now.size() && now[same].isLowSurrogate()) --same;
  if (tail > 0 && now[now.size() - tail].isLowSurrogate()) --tail;
  const std::size_t begin = byteOffset(m_bytes, static_cast<std::size_t>(same));
  const std::size_t end = byteOffset(m_bytes, static_cast<std::size_t>(before.size() - tail));
  const QByteArray text = now.mid(same, now.size() - same - tail).toUtf8();
  m_bytes.replace(begin, end - begin, text.toStdString());
  recolor();
  fit();
  Q_EMIT bytesEdited(begin, end, text);
}

void ExpressionEditor::recolor() {
  if (!m_code) return;
  const auto runs = highlight(m_bytes, m_theme->colors());
  std::size_t at = 0;
  for (QTextBlock block = document()->begin(); block.isValid(); block = block.next()) {
    QList<QTextLayout::FormatRange> ranges;
    const int from = block.position(), to = from + block.length() - 1;
    while (at > 0 && at < runs.size() && runs[at].begin >= from) --at;
    for (; at < runs.size() && runs[at].begin < to; ++at) {
      const int begin = std::max(runs[at].begin, from), end = std::min(runs[at].begin + runs[at].length, to);
      if (begin < end) ranges.append({begin - from, end - begin, runs[at].format});
      if (runs[at].begin + runs[at].length > to) break;
    }
    block.layout()->setFormats(ranges);
  }
  document()->markContentsDirty(0, document()->characterCount());
}

void ExpressionEditor::fit() {
  const QSize want = sizeHint();
  if (height() != want.height()) {
    setFixedHeight(want.height());
    updateGeometry();
  }
}

QSize ExpressionEditor::sizeHint() const {
  int lines = 0;
  for (QTextBlock block = document()->begin(); block.isValid(); block = block.next())
    lines += std::max(1, block.layout()->lineCount());
  int height = lines * fontMetrics().lineSpacing() + 2 * kPadY + 2;
  if (horizontalScrollBar()->maximum() > 0 && m_code) height += 10;
  return {400, height};
}

void ExpressionEditor::setHints(std::vector<Hint> hints) {
  m_hints = std::move(hints);
  viewport()->update();
}

void ExpressionEditor::setOutdated(bool outdated) {
  if (m_outdated == outdated) return;
  m_outdated = outdated;
  viewport()->update();
}

void ExpressionEditor::setMarks(std::vector<Mark> marks) {
  m_marks = std::move(marks);
  showMarks();
}

void ExpressionEditor::showMarks() {
  QList<QTextEdit::ExtraSelection> selections;
  const Palette& c = m_theme->colors();
  const int last = document()->characterCount() - 1;
  for (const Mark& mark : m_marks) {
    QTextEdit::ExtraSelection s;
    if (mark.kind == Mark::Kind::Selected) {
      s.format.setBackground(c.accentSoft);
    } else {
      const QColor color = mark.kind == Mark::Kind::Error ? c.failed : c.stale;
      s.format.setBackground(mixed(c.code, color, 0.14));
      s.format.setUnderlineStyle(QTextCharFormat::SingleUnderline);
      s.format.setUnderlineColor(color);
    }
    int begin = static_cast<int>(unitOffset(m_bytes, mark.begin)), end = static_cast<int>(unitOffset(m_bytes, mark.end));
    if (end <= begin) end = begin + 1;  // a place between characters: the one after it
    if (begin > 0 && begin >= last) begin = last - 1;
    s.cursor = QTextCursor(document());
    s.cursor.setPosition(std::clamp(begin, 0, last));
    s.cursor.setPosition(std::clamp(end, 0, last), QTextCursor::KeepAnchor);
    selections.append(s);
  }
  setExtraSelections(selections);
}

void ExpressionEditor::setCompletions(const QStringList& words) {
  if (words != m_words->stringList()) m_words->setStringList(words);
}

bool ExpressionEditor::completing() const { return m_completer->popup()->isVisible(); }

std::size_t ExpressionEditor::caretByte() const { return byteOffset(m_bytes, static_cast<std::size_t>(textCursor().position())); }

std::pair<std::size_t, std::size_t> ExpressionEditor::selectionBytes() const {
  const QTextCursor cursor = textCursor();
  return {byteOffset(m_bytes, static_cast<std::size_t>(cursor.selectionStart())),
          byteOffset(m_bytes, static_cast<std::size_t>(cursor.selectionEnd()))};
}

void ExpressionEditor::moveCaretTo(std::size_t byte) {
  QTextCursor cursor = textCursor();
  cursor.setPosition(std::min(static_cast<int>(unitOffset(m_bytes, byte)), document()->characterCount() - 1));
  setTextCursor(cursor);
}

void ExpressionEditor::insertAtCaret(const QString& text) { textCursor().insertText(text); }

bool ExpressionEditor::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    auto* key = static_cast<QKeyEvent*>(event);
    // The history is the notebook's: these reach the window's actions.
    const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
    if (key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo) ||
        (enter && key->modifiers() != Qt::NoModifier && !completing())) {
      event->ignore();
      return false;
    }
  }
  return QPlainTextEdit::event(event);
}

void ExpressionEditor::keyPressEvent(QKeyEvent* event) {
  if (completing()) {
    switch (event->key()) {
      case Qt::Key_Enter:
      case Qt::Key_Return:
      case Qt::Key_Escape:
      case Qt::Key_Tab: event->ignore(); return;
      default: break;
    }
  }
  const bool plain = !(event->modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::ShiftModifier));
  // Where no command of the window took them before they came here.
  if (event->matches(QKeySequence::Undo)) return Q_EMIT undoWanted();
  if (event->matches(QKeySequence::Redo)) return Q_EMIT redoWanted();
  if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && !plain) return event->ignore();
  if (event->key() == Qt::Key_Escape) return Q_EMIT commandModeWanted();
  if (event->key() == Qt::Key_Tab && plain) return textCursor().insertText(QStringLiteral("  "));
  if (event->key() == Qt::Key_Space && event->modifiers() == Qt::ControlModifier) return complete(true);
  if (plain && event->key() == Qt::Key_Up && textCursor().blockNumber() == 0 && !textCursor().hasSelection())
    return Q_EMIT leaveUp();
  if (plain && event->key() == Qt::Key_Down && textCursor().blockNumber() == blockCount() - 1 && !textCursor().hasSelection())
    return Q_EMIT leaveDown();
  QPlainTextEdit::keyPressEvent(event);
  const QString typed = event->text();
  if (m_code && !typed.isEmpty() && (typed[0].isLetterOrNumber() || typed[0] == QLatin1Char('_'))) complete(false);
  else if (completing() && !typed.isEmpty()) m_completer->popup()->hide();
}

void ExpressionEditor::complete(bool asked) {
  const QTextCursor cursor = textCursor();
  const QString text = cursor.block().text().left(cursor.positionInBlock());
  int from = static_cast<int>(text.size());
  while (from > 0 &&
         (text[from - 1].isLetterOrNumber() || text[from - 1] == QLatin1Char('_') || text[from - 1] == QLatin1Char('.')))
    --from;
  const QString prefix = text.mid(from);
  if (!asked && (prefix.size() < 2 || prefix[0].isDigit())) return m_completer->popup()->hide();
  m_completer->setCompletionPrefix(prefix);
  const int count = m_completer->completionCount();
  if (count == 0 || (count == 1 && m_completer->currentCompletion() == prefix)) return m_completer->popup()->hide();
  m_completer->popup()->setCurrentIndex(m_completer->completionModel()->index(0, 0));
  QRect rect = cursorRect().translated(kPadX, kPadY);
  rect.setWidth(240);
  m_completer->complete(rect);
}

void ExpressionEditor::paintEvent(QPaintEvent* event) {
  QPlainTextEdit::paintEvent(event);
  if (m_hints.empty()) return;
  QPainter p(viewport());
  const Palette& c = m_theme->colors();
  p.setFont(m_theme->mono(12));
  p.setPen(m_outdated ? mixed(c.code, c.hint, 0.45) : c.hint);
  for (const Hint& hint : m_hints) {
    const QTextBlock block = document()->findBlock(static_cast<int>(unitOffset(m_bytes, hint.byte)));
    if (!block.isValid()) continue;
    const QRectF box = blockBoundingGeometry(block).translated(contentOffset());
    const QTextLine last = block.layout()->lineAt(std::max(0, block.layout()->lineCount() - 1));
    const double x = box.left() + (last.isValid() ? last.naturalTextWidth() : 0) + 18;
    p.drawText(QRectF(x, box.top(), 1000, box.height()), Qt::AlignBottom | Qt::AlignLeft, hint.text);
  }
}

void ExpressionEditor::resizeEvent(QResizeEvent* event) {
  QPlainTextEdit::resizeEvent(event);
  fit();
}

void ExpressionEditor::focusInEvent(QFocusEvent* event) {
  QPlainTextEdit::focusInEvent(event);
  Q_EMIT focused();
}

void ExpressionEditor::focusOutEvent(QFocusEvent* event) {
  QPlainTextEdit::focusOutEvent(event);
  if (event->reason() != Qt::PopupFocusReason) m_completer->popup()->hide();
}

// The notebook scrolls, not the cell.
void ExpressionEditor::wheelEvent(QWheelEvent* event) {
  if (std::abs(event->angleDelta().x()) > std::abs(event->angleDelta().y())) QPlainTextEdit::wheelEvent(event);
  else event->ignore();
}

}  // namespace nf
