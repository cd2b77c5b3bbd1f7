// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPlainTextEdit>
#include <QPointer>
#include <QStringList>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/protocol/values.h"
#include "widgets/theme.h"

class QAbstractItemView;

namespace nf {

class CompletionView;

// The text of one cell: as high as its text, coloured, with grey hints after lines, underlines, and a tint for the selection.
// It has no history of its own: every change is told in bytes and the document remembers it.
class ExpressionEditor : public QPlainTextEdit {
  Q_OBJECT
 public:
  ExpressionEditor(const Theme* theme, bool code, QWidget* parent = nullptr);
  ~ExpressionEditor() override;

  const std::string& bytes() const { return m_bytes; }
  // Shows another text, keeping the cursor where the text around it is the same.
  void setBytes(const std::string& bytes);
  void setNewline(const std::string& newline) { m_newline = newline; }  // of the lines that are written here; "\n" or "\r\n"
  // What is shown is what the document holds at these bytes: no change of the view.
  void acceptBytes(std::string bytes) { m_bytes = std::move(bytes); }

  struct Hint {
    std::size_t byte;     // its line gets the words
    QStringList entries;  // "p: 28"
    bool operator==(const Hint&) const = default;
  };
  void setHints(std::vector<Hint> hints);
  struct Mark {
    enum class Kind { Error, Warning, Selected, Found, FoundHere };
    std::size_t begin, end;  // bytes
    Kind kind;
  };
  void setMarks(std::vector<Mark> marks);
  void setOutdated(bool outdated);  // hints are of an older text: paler
  // As it is printed: lines are broken, nothing is selected or found, no caret. All of it comes back with `false`.
  void setOnPaper(bool onPaper);
  using Symbols = std::shared_ptr<const std::vector<protocol::SymbolInfo>>;
  void setSymbols(Symbols symbols);  // what completion offers beside the words of the language

  std::size_t caretByte() const;
  std::pair<std::size_t, std::size_t> selectionBytes() const;
  void moveCaretTo(std::size_t byte);
  void pressBeside(QPoint at);  // a click on the box around the text, in this widget: it is for the nearest line
  void selectBytes(std::size_t begin, std::size_t end);
  QRect rectOf(std::size_t byte) const;  // of the character there, in this widget
  void insertAtCaret(const QString& text);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {80, sizeHint().height()}; }
  bool completing() const;
  QAbstractItemView* completionList() const;
  // The hint of a line as it is drawn: entries that do not fit are left out.
  QString shownHint(std::size_t hint) const;
  // At the caret, or just before it; empty: none. Comments have none.
  QString nameAtCaret() const;
  // Of the name there, in the viewport: kind, type and shape or signature, and where it is defined; what was inferred of its line.
  QString whatIsAt(const QPoint& position) const;
  void setPlaceName(std::function<QString(std::uint32_t)> name) { m_placeName = std::move(name); }
  void setAbout(std::function<QString(const protocol::SourceSpan&)> about) { m_about = std::move(about); }
  // What stands for the JSON of a `hint schedule` line while the caret is elsewhere; empty: the line is written out.
  QString shownFold(int line) const;

 Q_SIGNALS:
  void signatureChanged(const QString& signature);  // of the call around the cursor; empty: none
  // Bytes [begin, end) of bytes() as it was became `text`.
  void bytesEdited(std::size_t begin, std::size_t end, const QByteArray& text);
  void caretMoved();  // or a click where it stands: something else may have been selected since it came there
  void focused();
  void leaveUp();
  void leaveDown();
  void commandModeWanted();
  void writingRefused();  // a key that would have written, where the text is read only
  void undoWanted();
  void redoWanted();
  void menuWanted(const QPoint& at);  // on the screen

 protected:
  bool event(QEvent*) override;
  bool viewportEvent(QEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;
  void insertFromMimeData(const QMimeData*) override;
  void paintEvent(QPaintEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  QPoint nearestLine(QPoint at) const;  // in the viewport
  void noticeChange();
  void recolor();
  void showMarks();
  void fit();
  void forgetLinesGone();
  void breakLine();
  void closeBlock();
  void complete(bool asked);
  void choose(const QString& word, bool call);
  void tellSignature();
  void placeHints();
  double hintLeft(const QTextBlock& block) const;
  QString fitting(const QTextBlock& block, const QStringList& entries) const;
  bool mayFold(const QTextBlock& block) const;
  void refold();
  const Theme* m_theme;
  bool m_code;
  std::string m_bytes, m_newline = "\n";
  std::vector<Hint> m_hints;
  std::vector<int> m_hintLines;
  std::map<int, QStringList> m_folds;  // by line: kind and knobs
  std::vector<int> m_markedLines;      // ascending, of errors and of what was found: these are written out
  int m_caretLine = -1;                // written out; -1: none, the keyboard is elsewhere
  std::vector<Mark> m_marks;
  bool m_outdated = false;
  bool m_setting = false;
  int m_lines = 1;  // when the text changed last
  struct Screen {
    int scrolled, anchor, caret;
    bool readOnly;
  };
  std::optional<Screen> m_screen;  // while it is on paper: what the screen showed
  QPointer<CompletionView> m_completions;
  Symbols m_symbols;
  std::function<QString(std::uint32_t)> m_placeName;            // of a byte of the notebook, in words
  std::function<QString(const protocol::SourceSpan&)> m_about;  // what is written about what is defined there
  std::size_t m_wordBegin = 0, m_wordEnd = 0;                   // bytes that a choice replaces
  QString m_signature;
};

}  // namespace nf
