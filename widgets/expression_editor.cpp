// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/expression_editor.h"

#include <QAbstractItemView>
#include <QAbstractTextDocumentLayout>
#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QKeyEvent>
#include <QMimeData>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextLayout>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/document/document.h"
#include "core/support/bidi.h"
#include "widgets/basic.h"
#include "widgets/code_highlighter.h"
#include "widgets/completion_list.h"
#include "widgets/completion_view.h"

namespace nf {
namespace {
constexpr int kPadX = 12, kPadY = 8;

// Joiners make the emoji of a comment one: they stay.
bool isMarked(char16_t c) {
  constexpr char16_t kNonJoiner = 0x200c, kJoiner = 0x200d;
  return reordersText(c) || (isInvisible(c) && c != kJoiner && c != kNonJoiner);
}

QString shown(std::string_view bytes) {
  std::u16string text = displayText(bytes);
  std::replace_if(text.begin(), text.end(), isMarked, u'\ufffd');
  return QString::fromUtf16(text.data(), static_cast<qsizetype>(text.size()));
}

// Where the JSON of a `hint schedule` line begins; -1: it has none that can be read.
int scheduleBegin(const QString& line, QStringList& entries) {
  static const QRegularExpression form(QStringLiteral(R"(^\s*hint\s+schedule\s[^{]*(?=\{))"));
  const auto match = form.match(line);
  if (!match.hasMatch()) return -1;
  const int begin = static_cast<int>(match.capturedEnd());
  const QJsonObject schedule = QJsonDocument::fromJson(line.mid(begin).toUtf8()).object();
  if (schedule.isEmpty()) return -1;
  entries = {schedule[QStringLiteral("kind")].toString()};
  const QJsonObject knobs = schedule[QStringLiteral("knobs")].toObject();
  for (auto knob = knobs.begin(); knob != knobs.end(); ++knob) {
    const QByteArray value = QJsonDocument(QJsonArray{knob.value()}).toJson(QJsonDocument::Compact);
    QString text = QString::fromUtf8(value.mid(1, value.size() - 2));
    entries << QStringLiteral("%1: %2").arg(knob.key(),
                                            text.remove(QLatin1Char('"')).replace(QLatin1Char(','), QStringLiteral(", ")));
  }
  return begin;
}

QString nameIn(const QTextCursor& cursor) {
  const QString words = cursor.block().text();
  const QString before = words.left(words.indexOf(QLatin1Char('#')));
  const auto isPart = [](QChar c) { return c.isLetterOrNumber() || c == QLatin1Char('_') || c.isSurrogate(); };
  qsizetype begin = cursor.positionInBlock(), end = begin;
  while (begin > 0 && begin <= before.size() && isPart(before[begin - 1])) --begin;
  while (end < before.size() && isPart(before[end])) ++end;
  return before.mid(begin, end - begin);
}

// Characters that take no room.
QTextCharFormat foldedFormat(const QFont& around) {
  QFont font = around;
  font.setPixelSize(1);
  QTextCharFormat format;
  format.setProperty(QTextFormat::FontPixelSize, 1);
  format.setFontLetterSpacingType(QFont::AbsoluteSpacing);
  format.setFontLetterSpacing(-QFontMetricsF(font).horizontalAdvance(QLatin1Char('0')));
  format.setForeground(Qt::transparent);
  return format;
}
}  // namespace

ExpressionEditor::ExpressionEditor(const Theme* theme, bool code, QWidget* parent)
    : QPlainTextEdit(parent), m_theme(theme), m_code(code), m_completions(new CompletionView(theme, this)) {
  setUndoRedoEnabled(false);
  setFocusPolicy(Qt::ClickFocus);  // Tab writes: it would lead in and not out again
  setFrameShape(QFrame::NoFrame);
  setLineWrapMode(code ? QPlainTextEdit::NoWrap : QPlainTextEdit::WidgetWidth);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  if (!code) setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);  // of the lines that are broken
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setTabChangesFocus(false);
  setAcceptDrops(false);
  document()->setDocumentMargin(0);
  setViewportMargins(kPadX, kPadY, kPadX, kPadY);
  connect(m_completions, &CompletionView::chosen, this, &ExpressionEditor::choose);
  connect(this, &QPlainTextEdit::textChanged, this, &ExpressionEditor::noticeChange);
  connect(this, &QPlainTextEdit::cursorPositionChanged, this, [this] {
    if (m_setting) return;
    refold();
    tellSignature();
    // Behind a change it moves before the text is known to have changed: its place can be told only then.
    if (shown(m_bytes) == toPlainText()) Q_EMIT caretMoved();
  });
  // The cell is as high as its text: it never scrolls upright, also not while it is being laid out.
  connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this](int value) {
    if (value != 0) verticalScrollBar()->setValue(0);
  });
  // Nor sideways where lines are broken: there is nothing to the right of what is seen.
  connect(horizontalScrollBar(), &QScrollBar::valueChanged, this, [this](int value) {
    if (!m_code && value != 0) horizontalScrollBar()->setValue(0);
  });
  connect(horizontalScrollBar(), &QScrollBar::rangeChanged, this, &ExpressionEditor::fit);
  leaveWheelToPage(horizontalScrollBar());
  connect(document()->documentLayout(), &QAbstractTextDocumentLayout::documentSizeChanged, this, &ExpressionEditor::fit);
  const auto dress = [this] {
    const QFont font = m_theme->mono(13);
    setFont(font);
    setTabStopDistance(2 * QFontMetricsF(font).horizontalAdvance(QLatin1Char(' ')));
    const Palette& c = m_theme->colors();
    setStyleSheet(QStringLiteral("QPlainTextEdit { background: %1; color: %2; font-family: '%3'; font-size: %4px; }")
                      .arg(c.code.name(), c.text.name(), font.family())
                      .arg(font.pixelSize()));
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
    const int end = static_cast<int>(now.size()) - tail, newEnd = static_cast<int>(next.size()) - tail;
    // Behind the same text as before; where that has changed, in the line and column of before, or what is nearest to them.
    const auto placeNow = [&](int place) {
      if (place <= same) return place;
      if (place >= end) return place - end + newEnd;
      const auto before = QStringView(now).first(place);
      qsizetype line = 0;
      for (qsizetype n = before.count(QLatin1Char('\n')); n > 0; --n) {
        const qsizetype following = next.indexOf(QLatin1Char('\n'), line) + 1;
        if (following == 0) break;
        line = following;
      }
      const qsizetype lineEnd = next.indexOf(QLatin1Char('\n'), line);
      const qsizetype column = place - (before.lastIndexOf(QLatin1Char('\n')) + 1);
      const qsizetype found = std::min(line + column, lineEnd < 0 ? next.size() : lineEnd);
      return std::clamp(static_cast<int>(found), same, newEnd);
    };
    const QTextCursor before = textCursor();
    // What was selected is no longer there: a part of what replaced it is nothing that anybody chose.
    const bool changed = before.selectionStart() <= end && before.selectionEnd() >= same;
    const int caret = placeNow(before.position()), anchor = changed ? caret : placeNow(before.anchor());
    QTextCursor cursor(document());
    cursor.setPosition(same);
    cursor.setPosition(end, QTextCursor::KeepAnchor);
    cursor.insertText(next.mid(same, newEnd - same));
    cursor.setPosition(anchor);
    cursor.setPosition(caret, QTextCursor::KeepAnchor);
    setTextCursor(cursor);
  }
  m_bytes = bytes;
  placeHints();
  m_setting = false;
  recolor();
  forgetLinesGone();
  fit();
}

// Qt keeps the width of a line that was the longest when it goes together with another one.
void ExpressionEditor::forgetLinesGone() {
  const int lines = std::exchange(m_lines, blockCount());
  if (lines <= m_lines || lineWrapMode() != QPlainTextEdit::NoWrap || horizontalScrollBar()->maximum() == 0) return;
  const int scrolled = horizontalScrollBar()->value();
  setLineWrapMode(QPlainTextEdit::WidgetWidth);
  setLineWrapMode(QPlainTextEdit::NoWrap);
  sizeHint();  // lays all lines out
  horizontalScrollBar()->setValue(scrolled);
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
  const QByteArray text = now.mid(same, now.size() - same - tail).toUtf8().replace('\n', m_newline.c_str());
  m_bytes.replace(begin, end - begin, text.toStdString());
  for (Hint& hint : m_hints)
    if (hint.byte >= end) hint.byte = hint.byte - (end - begin) + static_cast<std::size_t>(text.size());
    else if (hint.byte > begin) hint.byte = begin;
  placeHints();
  recolor();
  forgetLinesGone();
  fit();
  Q_EMIT bytesEdited(begin, end, text);
  Q_EMIT caretMoved();
}

void ExpressionEditor::recolor() {
  if (!m_code) return;
  const auto runs = highlight(m_bytes, m_theme->colors());
  std::size_t at = 0;
  // Only lines whose colours change are laid out again.
  int dirtyFrom = -1, dirtyTo = -1;
  m_folds.clear();
  for (QTextBlock block = document()->begin(); block.isValid(); block = block.next()) {
    QList<QTextLayout::FormatRange> ranges;
    const int from = block.position(), to = from + block.length() - 1;
    while (at > 0 && at < runs.size() && runs[at].begin >= from) --at;
    for (; at < runs.size() && runs[at].begin < to; ++at) {
      const int begin = std::max(runs[at].begin, from), end = std::min(runs[at].begin + runs[at].length, to);
      if (begin < end) ranges.append({begin - from, end - begin, runs[at].format});
      if (runs[at].begin + runs[at].length > to) break;
    }
    if (QStringList entries; mayFold(block))
      if (const int begin = scheduleBegin(block.text(), entries); begin >= 0) {
        m_folds.emplace(block.blockNumber(), std::move(entries));
        ranges.removeIf([begin](const QTextLayout::FormatRange& r) { return r.start + r.length > begin; });
        ranges.append({begin, block.length() - 1 - begin, foldedFormat(font())});
      }
    if (block.layout()->formats() == ranges) continue;
    block.layout()->setFormats(ranges);
    if (dirtyFrom < 0) dirtyFrom = from;
    dirtyTo = from + block.length();
  }
  if (dirtyFrom >= 0) document()->markContentsDirty(dirtyFrom, dirtyTo - dirtyFrom);
}

bool ExpressionEditor::mayFold(const QTextBlock& block) const {
  const int line = block.blockNumber();
  return (line != m_caretLine || m_screen) && !std::binary_search(m_markedLines.begin(), m_markedLines.end(), line);
}

// A line that is written in, or that has a mistake, is written out.
void ExpressionEditor::refold() {
  if (!m_code) return;
  const int line = hasFocus() ? textCursor().blockNumber() : -1;
  if (line == m_caretLine) return;
  m_caretLine = line;
  recolor();
  fit();
}

void ExpressionEditor::fit() {
  const QSize want = sizeHint();
  if (height() != want.height()) {
    setFixedHeight(want.height());
    updateGeometry();
  }
}

QSize ExpressionEditor::sizeHint() const {
  // As it is laid out: another font's letters make a line higher, and heights are fractions of a pixel.
  double text = 0;
  for (QTextBlock block = document()->begin(); block.isValid(); block = block.next()) text += blockBoundingRect(block).height();
  int height = static_cast<int>(std::ceil(text)) + 2 * kPadY + 2;
  if (horizontalScrollBarPolicy() != Qt::ScrollBarAlwaysOff && horizontalScrollBar()->maximum() > 0)
    height += horizontalScrollBar()->sizeHint().height();
  return {400, height};
}

void ExpressionEditor::setHints(std::vector<Hint> hints) {
  if (hints == m_hints) return;  // an edit of the text has placed them already
  m_hints = std::move(hints);
  placeHints();
  viewport()->update();
}

void ExpressionEditor::setOutdated(bool outdated) {
  if (m_outdated == outdated) return;
  m_outdated = outdated;
  viewport()->update();
}

void ExpressionEditor::setOnPaper(bool onPaper) {
  if (onPaper == m_screen.has_value()) return;
  m_setting = true;
  QTextCursor cursor = textCursor();
  if (onPaper) {
    m_screen = Screen{horizontalScrollBar()->value(), cursor.anchor(), cursor.position(), isReadOnly()};
    setReadOnly(true);  // what is has no caret
    cursor.clearSelection();
    setTextCursor(cursor);
  }
  if (m_code) {
    setLineWrapMode(onPaper ? QPlainTextEdit::WidgetWidth : QPlainTextEdit::NoWrap);
    setHorizontalScrollBarPolicy(onPaper ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
  }
  const std::optional<Screen> was = onPaper ? std::nullopt : std::exchange(m_screen, std::nullopt);
  if (was) {
    cursor.setPosition(was->anchor);
    cursor.setPosition(was->caret, QTextCursor::KeepAnchor);
    setTextCursor(cursor);
    horizontalScrollBar()->setValue(was->scrolled);
    setReadOnly(was->readOnly);
  }
  m_setting = false;
  recolor();
  showMarks();
  fit();
}

void ExpressionEditor::setMarks(std::vector<Mark> marks) {
  if (marks.empty() && m_marks.empty()) return;
  m_marks = std::move(marks);
  std::vector<int> lines;
  for (const Mark& mark : m_marks)
    if (mark.kind != Mark::Kind::Selected)
      lines.push_back(static_cast<int>(
          std::count(m_bytes.begin(), m_bytes.begin() + static_cast<std::ptrdiff_t>(std::min(mark.begin, m_bytes.size())), '\n')));
  std::sort(lines.begin(), lines.end());
  if (lines != m_markedLines) {
    m_markedLines = std::move(lines);
    recolor();
    fit();
  }
  showMarks();
}

void ExpressionEditor::showMarks() {
  QList<QTextEdit::ExtraSelection> selections;
  const Palette& c = m_theme->colors();
  const int last = document()->characterCount() - 1;
  // Marks come in order or nearly: each place is counted on from the one before.
  std::size_t knownByte = 0, knownUnit = 0;
  const auto unitOf = [&](std::size_t byte) {
    if (byte < knownByte) knownByte = knownUnit = 0;
    byte = std::min(byte, m_bytes.size());
    knownUnit += unitOffset(std::string_view(m_bytes).substr(knownByte), byte - knownByte);
    knownByte = byte;
    return static_cast<int>(knownUnit);
  };
  for (const Mark& mark : m_marks) {
    if (m_screen && mark.kind != Mark::Kind::Error && mark.kind != Mark::Kind::Warning) continue;
    QTextEdit::ExtraSelection s;
    if (mark.kind == Mark::Kind::Selected) {
      s.format.setBackground(c.accentSoft);
    } else if (mark.kind == Mark::Kind::Found || mark.kind == Mark::Kind::FoundHere) {
      s.format.setBackground(c.found(mark.kind == Mark::Kind::FoundHere));
    } else {
      const QColor color = mark.kind == Mark::Kind::Error ? c.failed : c.stale;
      s.format.setBackground(mixed(c.code, color, 0.14));
      s.format.setUnderlineStyle(QTextCharFormat::SingleUnderline);
      s.format.setUnderlineColor(color);
    }
    int begin = unitOf(mark.begin), end = unitOf(mark.end);
    if (end <= begin) end = begin + 1;  // a place between characters: the one after it
    if (begin > 0 && begin >= last) begin = last - 1;
    s.cursor = QTextCursor(document());
    s.cursor.setPosition(std::clamp(begin, 0, last));
    s.cursor.setPosition(std::clamp(end, 0, last), QTextCursor::KeepAnchor);
    selections.append(s);
  }
  setExtraSelections(selections);
}

// The list may be the window's child by now.
ExpressionEditor::~ExpressionEditor() { delete m_completions.data(); }

void ExpressionEditor::setSymbols(Symbols symbols) { m_symbols = std::move(symbols); }

QAbstractItemView* ExpressionEditor::completionList() const { return m_completions; }

bool ExpressionEditor::completing() const { return m_completions && m_completions->isVisible(); }

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

void ExpressionEditor::selectBytes(std::size_t begin, std::size_t end) {
  QTextCursor cursor = textCursor();
  const int last = document()->characterCount() - 1;
  cursor.setPosition(std::min(static_cast<int>(unitOffset(m_bytes, begin)), last));
  cursor.setPosition(std::min(static_cast<int>(unitOffset(m_bytes, end)), last), QTextCursor::KeepAnchor);
  setTextCursor(cursor);
}

QRect ExpressionEditor::rectOf(std::size_t byte) const {
  QTextCursor cursor(document());
  cursor.setPosition(std::min(static_cast<int>(unitOffset(m_bytes, byte)), document()->characterCount() - 1));
  return cursorRect(cursor).translated(viewport()->pos());
}

void ExpressionEditor::insertAtCaret(const QString& text) { textCursor().insertText(text); }

QString ExpressionEditor::nameAtCaret() const { return m_code ? nameIn(textCursor()) : QString(); }

QString ExpressionEditor::whatIsAt(const QPoint& position) const {
  if (!m_code) return {};
  const QTextCursor cursor = cursorForPosition(position);
  const int line = cursor.blockNumber();
  QStringList inferred;
  for (std::size_t i = 0; i < m_hints.size(); ++i)
    if (m_hintLines[i] == line) inferred = m_hints[i].entries;
  // The name below the pointer, which beyond the line's end is over none.
  const QString name = nameIn(cursor);
  const double right = hintLeft(cursor.block());
  QStringList all;
  if (!name.isEmpty() && !name[0].isDigit() && position.x() < right) {
    for (const QString& entry : inferred)
      if (entry.startsWith(name + QStringLiteral(": "))) all << tr("%1: index, %2 values").arg(name, entry.mid(name.size() + 2));
    const std::string wanted = name.toStdString();
    const auto known = [&](const protocol::SymbolInfo& s) { return s.name == wanted; };
    if (m_symbols && all.isEmpty())
      if (const auto found = std::find_if(m_symbols->begin(), m_symbols->end(), known); found != m_symbols->end()) {
        constexpr auto kinds = protocol::enumNames(protocol::SymbolKind{});
        const QString kind = QString::fromLatin1(kinds[static_cast<std::size_t>(found->kind)]);
        all << QStringLiteral("%1: %2").arg(name, kind) +
                   (found->detail.empty() ? QString() : QStringLiteral(", ") + QString::fromStdString(found->detail));
        if (!found->definition.source.empty()) all << tr("from %1").arg(QString::fromStdString(found->definition.source));
        else if (const QString place = m_placeName && !m_outdated ? m_placeName(found->definition.begin) : QString();
                 !place.isEmpty())
          all << tr("defined in %1").arg(place);
        const bool stands =
            !found->definition.source.empty() || !m_outdated;  // a file of the library is the same whatever is typed
        if (const QString about = m_about && stands ? m_about(found->definition) : QString(); !about.isEmpty()) all << about;
      }
  }
  if (!inferred.isEmpty()) all << tr("Inferred: %1").arg(inferred.join(QStringLiteral("  ")));
  return all.join(QLatin1Char('\n'));
}

bool ExpressionEditor::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    if (const QString text = whatIsAt(help->pos()); text.isEmpty()) QToolTip::hideText();
    else QToolTip::showText(help->globalPos(), text, viewport());
    return true;
  }
  return QPlainTextEdit::viewportEvent(event);
}

bool ExpressionEditor::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    auto* key = static_cast<QKeyEvent*>(event);
    if (completing() && m_completions->takesKey(*key)) {
      event->accept();
      return true;
    }
    // The history is the notebook's: these reach the window's actions.
    const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
    if (key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo) || (enter && key->modifiers() != Qt::NoModifier)) {
      m_completions->hide();
      event->ignore();
      return false;
    }
  }
  return QPlainTextEdit::event(event);
}

namespace {

const QString kIndent = QStringLiteral("  ");

// Of keys that are no command of the notebook. A space turns a page where nothing can be written.
bool writes(const QKeyEvent& event) {
  if (event.matches(QKeySequence::Paste) || event.matches(QKeySequence::Cut)) return true;
  switch (event.key()) {
    case Qt::Key_Space: return false;
    case Qt::Key_Backspace:
    case Qt::Key_Delete:
    case Qt::Key_Return:
    case Qt::Key_Enter: return true;
    default: break;
  }
  const bool command = event.modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier);
  return !command && !event.text().isEmpty() && event.text().front().isPrint();
}

}  // namespace

void ExpressionEditor::keyPressEvent(QKeyEvent* event) {
  if (completing() && m_completions->takesKey(*event)) return m_completions->pressKey(*event);
  const bool plain = !(event->modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::ShiftModifier));
  // Where no command of the window took them before they came here.
  if (event->matches(QKeySequence::Undo)) return Q_EMIT undoWanted();
  if (event->matches(QKeySequence::Redo)) return Q_EMIT redoWanted();
  if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && !plain) return event->ignore();
  if (event->key() == Qt::Key_Escape) return Q_EMIT commandModeWanted();
  if (isReadOnly() && writes(*event)) return Q_EMIT writingRefused();
  if (isReadOnly() && (event->key() == Qt::Key_Tab || event->key() == Qt::Key_Space)) return QPlainTextEdit::keyPressEvent(event);
  if (event->key() == Qt::Key_Tab && plain) return textCursor().insertText(kIndent);
  if (m_code && plain && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)) return breakLine();
  if (m_code && event->text() == QLatin1String("}")) closeBlock();
  if (event->key() == Qt::Key_Space && event->modifiers() == Qt::ControlModifier) return complete(true);
  if (plain && event->key() == Qt::Key_Up && textCursor().blockNumber() == 0 && !textCursor().hasSelection())
    return Q_EMIT leaveUp();
  if (plain && event->key() == Qt::Key_Down && textCursor().blockNumber() == blockCount() - 1 && !textCursor().hasSelection())
    return Q_EMIT leaveDown();
  // The editor is as high as its text: a page is what is seen of it.
  if (const bool up = event->key() == Qt::Key_PageUp;
      (up || event->key() == Qt::Key_PageDown) && !(event->modifiers() & (Qt::ControlModifier | Qt::AltModifier))) {
    const int lines = visibleRegion().boundingRect().height() / std::max(1, fontMetrics().lineSpacing()) - 1;
    QTextCursor cursor = textCursor();
    cursor.movePosition(up ? QTextCursor::Up : QTextCursor::Down,
                        event->modifiers() & Qt::ShiftModifier ? QTextCursor::KeepAnchor : QTextCursor::MoveAnchor,
                        std::max(1, lines));
    if (cursor == textCursor()) return event->ignore();  // from there on it is the notebook that is turned
    return setTextCursor(cursor);
  }
  const bool had = hasFocus();
  QPlainTextEdit::keyPressEvent(event);
  if (had && !hasFocus()) {
    // The key began another cell, which has the keyboard: Qt has shown this one's caret again since, and hides it with the focus alone.
    QFocusEvent in(QEvent::FocusIn), out(QEvent::FocusOut);
    QPlainTextEdit::focusInEvent(&in);
    QPlainTextEdit::focusOutEvent(&out);
    return;
  }
  const QString typed = event->text();
  if (m_code && !isReadOnly() && !typed.isEmpty() && (typed[0].isLetterOrNumber() || typed[0] == QLatin1Char('_'))) complete(false);
  else if (completing() && !typed.isEmpty()) m_completions->hide();
}

// As deep as the line that is left, and deeper after a brace; between braces the closing one goes to a line of its own.
void ExpressionEditor::breakLine() {
  m_completions->hide();
  QTextCursor cursor = textCursor();
  cursor.beginEditBlock();
  cursor.removeSelectedText();
  const QString line = cursor.block().text(), before = line.left(cursor.positionInBlock());
  const QString after = line.mid(cursor.positionInBlock());
  qsizetype depth = 0;
  while (depth < before.size() && before[depth].isSpace()) ++depth;
  const bool opens = before.trimmed().endsWith(QLatin1Char('{'));
  cursor.insertText(QLatin1Char('\n') + before.left(depth) + (opens ? kIndent : QString()));
  if (opens && after.trimmed().startsWith(QLatin1Char('}'))) {
    cursor.insertText(QLatin1Char('\n') + before.left(depth));
    cursor.movePosition(QTextCursor::PreviousBlock);
    cursor.movePosition(QTextCursor::EndOfBlock);
  }
  cursor.endEditBlock();
  setTextCursor(cursor);
  ensureCursorVisible();
}

// A closing brace that begins its line stands where its block began.
void ExpressionEditor::closeBlock() {
  QTextCursor cursor = textCursor();
  if (cursor.hasSelection()) return;
  const QString before = cursor.block().text().left(cursor.positionInBlock());
  if (!before.trimmed().isEmpty() || !before.endsWith(kIndent)) return;
  cursor.movePosition(QTextCursor::PreviousCharacter, QTextCursor::KeepAnchor, static_cast<int>(kIndent.size()));
  cursor.removeSelectedText();
}

void ExpressionEditor::complete(bool asked) {
  constexpr std::size_t kMostShown = 60;
  const auto caret = static_cast<std::uint32_t>(caretByte());
  const CompletionContext context = completionContext(m_bytes, caret);
  static const std::vector<protocol::SymbolInfo> none;
  std::vector<CompletionItem> items;
  if (m_code && (asked || context.prefix.size() >= 2))
    items = completionsAt(m_bytes, caret, context, m_symbols ? *m_symbols : none);
  if (items.empty() || (items.size() == 1 && items[0].word.toStdString() == context.prefix)) return m_completions->hide();
  m_wordBegin = context.begin, m_wordEnd = context.end;
  if (items.size() > kMostShown) items.resize(kMostShown);
  m_completions->offer(items, cursorRect().translated(kPadX, kPadY));
}

void ExpressionEditor::choose(const QString& word, bool call) {
  QTextCursor cursor = textCursor();
  cursor.setPosition(static_cast<int>(unitOffset(m_bytes, m_wordBegin)));
  cursor.setPosition(std::max(static_cast<int>(unitOffset(m_bytes, m_wordEnd)), textCursor().position()), QTextCursor::KeepAnchor);
  const bool bracket = call && document()->characterAt(cursor.selectionEnd()) != QLatin1Char('(');
  cursor.insertText(bracket ? word + QLatin1Char('(') : word);
  setTextCursor(cursor);
}

void ExpressionEditor::tellSignature() {
  if (!m_code || !m_symbols) return;
  const QString signature = signatureAt(completionContext(m_bytes, static_cast<std::uint32_t>(caretByte())), *m_symbols);
  if (signature == m_signature) return;
  m_signature = signature;
  Q_EMIT signatureChanged(signature);
}

// The lines of the hints, in one pass over the text.
void ExpressionEditor::placeHints() {
  std::vector<std::size_t> order(m_hints.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return m_hints[a].byte < m_hints[b].byte; });
  m_hintLines.assign(m_hints.size(), 0);
  std::size_t at = 0;
  int line = 0;
  for (const std::size_t i : order) {
    for (; at < std::min(m_hints[i].byte, m_bytes.size()); ++at) line += m_bytes[at] == '\n';
    m_hintLines[i] = line;
  }
}

// Where the hint of a line begins: after its text.
double ExpressionEditor::hintLeft(const QTextBlock& block) const {
  const QTextLine last = block.layout()->lineAt(std::max(0, block.layout()->lineCount() - 1));
  return contentOffset().x() + (last.isValid() ? last.naturalTextWidth() : 0) + 18;
}

QString ExpressionEditor::shownHint(std::size_t hint) const {
  const QTextBlock block = document()->findBlockByNumber(m_hintLines[hint]);
  return block.isValid() ? fitting(block, m_hints[hint].entries) : QString();
}

QString ExpressionEditor::shownFold(int line) const {
  const auto fold = m_folds.find(line);
  const QTextBlock block = document()->findBlockByNumber(line);
  return fold == m_folds.end() || !block.isValid() ? QString() : fitting(block, fold->second);
}

QString ExpressionEditor::fitting(const QTextBlock& block, const QStringList& all) const {
  const QFontMetrics metrics(m_theme->mono(12));
  const double room = std::max(0.0, viewport()->width() - hintLeft(block));
  if (const QString text = all.join(QStringLiteral("  ")); metrics.horizontalAdvance(text) <= room) return text;
  // Closer together before any is left out.
  QStringList entries = all;
  for (QString& entry : entries) entry.replace(QStringLiteral(": "), QStringLiteral(":"));
  for (qsizetype n = entries.size(); n > 0; --n) {
    QString some = entries.mid(0, n).join(QLatin1Char(' '));
    if (n < entries.size()) some += QStringLiteral(" …");
    if (metrics.horizontalAdvance(some) <= room) return some;
  }
  return metrics.horizontalAdvance(QChar(0x2026)) <= room ? QStringLiteral("…") : QString();
}

void ExpressionEditor::paintEvent(QPaintEvent* event) {
  QPlainTextEdit::paintEvent(event);
  if (m_hints.empty() && m_folds.empty()) return;
  QPainter p(viewport());
  const Palette& c = m_theme->colors();
  p.setFont(m_theme->mono(12));
  p.setPen(m_outdated ? mixed(c.code, c.hint, 0.45) : c.hint);
  std::multimap<int, std::size_t> byLine;
  for (std::size_t i = 0; i < m_hints.size(); ++i) byLine.emplace(m_hintLines[i], i);
  // Where a line stands is known from those above it: one pass, down to the end of what is painted.
  double top = contentOffset().y();
  for (QTextBlock block = firstVisibleBlock(); block.isValid() && top < event->rect().bottom() + 1; block = block.next()) {
    const double height = blockBoundingRect(block).height();
    if (top + height >= event->rect().top()) {
      if (m_folds.contains(block.blockNumber())) {
        const double left = hintLeft(block);
        p.drawText(QRectF(left, top, std::max(0.0, viewport()->width() - left), height), Qt::AlignBottom | Qt::AlignLeft,
                   shownFold(block.blockNumber()));
      }
      const auto [from, to] = byLine.equal_range(block.blockNumber());
      for (auto hint = from; hint != to; ++hint) {
        const double left = hintLeft(block);
        p.drawText(QRectF(left, top, std::max(0.0, viewport()->width() - left), height), Qt::AlignBottom | Qt::AlignLeft,
                   shownHint(hint->second));
      }
    }
    top += height;
  }
}

void ExpressionEditor::resizeEvent(QResizeEvent* event) {
  QPlainTextEdit::resizeEvent(event);
  fit();
}

// Above and below the lines is otherwise the end of the text.
QPoint ExpressionEditor::nearestLine(QPoint at) const {
  QTextCursor end(document());
  end.movePosition(QTextCursor::End);
  const int first = cursorRect(QTextCursor(document())).center().y(), last = cursorRect(end).center().y();
  return {std::clamp(at.x(), 0, viewport()->width() - 1), std::clamp(at.y(), first, last)};
}

void ExpressionEditor::mousePressEvent(QMouseEvent* event) {
  const int before = textCursor().position();
  QMouseEvent onLine(event->type(), nearestLine(event->position().toPoint()), event->scenePosition(), event->globalPosition(),
                     event->button(), event->buttons(), event->modifiers(), event->pointingDevice());
  QPlainTextEdit::mousePressEvent(&onLine);
  event->setAccepted(onLine.isAccepted());
  if (event->button() == Qt::LeftButton && textCursor().position() == before) Q_EMIT caretMoved();
}

// What the commands of the menu are about is what was clicked.
void ExpressionEditor::contextMenuEvent(QContextMenuEvent* event) {
  m_completions->hide();
  QTextCursor at = textCursor();
  if (event->reason() == QContextMenuEvent::Mouse) {
    const QTextCursor clicked = cursorForPosition(nearestLine(event->pos()));
    const bool inSelection =
        at.hasSelection() && clicked.position() >= at.selectionStart() && clicked.position() <= at.selectionEnd();
    if (!inSelection) setTextCursor(clicked);
  }
  Q_EMIT menuWanted(event->globalPos());
}

// An empty selection of X11 has no formats, of which Qt 6.4 reads the first.
void ExpressionEditor::insertFromMimeData(const QMimeData* source) {
  if (source->hasText()) QPlainTextEdit::insertFromMimeData(source);
}

void ExpressionEditor::pressBeside(QPoint at) {
  const int before = textCursor().position();
  setFocus(Qt::MouseFocusReason);
  setTextCursor(cursorForPosition(nearestLine(viewport()->mapFrom(this, at))));
  if (textCursor().position() == before) Q_EMIT caretMoved();
}

void ExpressionEditor::focusInEvent(QFocusEvent* event) {
  QPlainTextEdit::focusInEvent(event);
  refold();
  tellSignature();
  Q_EMIT focused();
}

void ExpressionEditor::focusOutEvent(QFocusEvent* event) {
  QPlainTextEdit::focusOutEvent(event);
  refold();
  if (m_completions) m_completions->hide();
  // Of the call that the caret stands in, as long as somebody is there.
  if (event->reason() != Qt::PopupFocusReason && !std::exchange(m_signature, {}).isEmpty()) Q_EMIT signatureChanged({});
}

// The notebook scrolls, not the cell.
void ExpressionEditor::wheelEvent(QWheelEvent* event) {
  if (std::abs(event->angleDelta().x()) > std::abs(event->angleDelta().y())) QPlainTextEdit::wheelEvent(event);
  else event->ignore();
}

}  // namespace nf
