// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QElapsedTimer>
#include <QPointer>
#include <QScrollArea>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/cell_view.h"

class QVBoxLayout;

namespace nf {

class CommandNote;

// The notebook: cells under one another, edited in place or, as a whole, with the keys people know from notebooks.
// The document is the caller's; the view changes it and follows it.
class NotebookView : public QScrollArea {
  Q_OBJECT
 public:
  NotebookView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  ~NotebookView() override;

  void setDocument(Document* document);
  void setFolder(const QString& folder);  // that pictures are named from; empty: it has none
  // After any edit of the document, this view's own ones too.
  void followDocument();
  // `focus`: its cell becomes the active one, and the cursor goes there where `edit` says so of the cell's kind.
  enum class Edit : std::uint8_t { None, Code, Any };
  void scrollToByte(std::size_t byte, bool focus, Edit edit = Edit::Code);
  // Where one was when a cell that is no more was made; not known: `above`, or the first cell where that is no more, too.
  struct From {
    CellId cell;
    bool writing;  // in its text
  };
  From whereFrom(CellId made, CellId above) const;
  void showCell(CellView* cell);                                // in sight: all of it, or its head; results above leave it there
  void bringIntoSight(QWidget* part);                           // of a cell; one that was made just now, too
  void reveal(const std::vector<protocol::SourceSpan>& spans);  // one of them comes into sight; the cursor stays

  // ---- find and replace, in what the cells' fields show
  void find(const QString& text, bool exact);  // from the caret on; an empty text ends it
  void findNext(int direction);
  // Goes to the next place (1) or the one before (-1) without a search that is open; false: there is none.
  bool step(const QString& text, bool exact, int direction);
  void replaceFound(const QString& with);  // and goes to the next
  // What stands about a definition: the comment above its line or behind it, else the Markdown that its cell follows, its last paragraph.
  QString aboutAt(const protocol::SourceSpan& definition) const;
  void setLibrary(std::function<std::string(const std::string& source)> text) { m_library = std::move(text); }  // "std/conv.nf"
  // Every place of the name in code, as one step of the history. Why it was not done; empty: it was.
  QString rename(const QString& name, const QString& to);
  void replaceAllFound(const QString& with);  // one step of the history
  void goToFound();                           // into its cell, with the place selected
  int foundPlaces() const;
  int foundHere() const { return m_foundHere; }  // -1: nothing

  // Cells under one another on pages of A4, no line and nothing else that fits a page cut in two; the screen stays as it is.
  bool savePdf(const QString& path, const QString& title);

  void setReadOnly(bool readOnly);  // the text can be read and copied

  void setAnalysis(const protocol::Analysis& analysis);
  void setOutdated();
  QString placeName(std::uint32_t byte) const;  // "cell 2, line 3"; empty: between cells
  // What letters did to whole cells, or that they write nothing here; gone once something else is done.
  CommandNote* commandNote() const { return m_note; }
  void forgetCommand();
  bool awaitsAnswers() const;  // some of its results have not been answered for the newest text
  bool proves() const;         // the proof of some of what it shows is under way
  void setExpression(const protocol::Expression& expression);
  void setExpressionFailed(const QString& tensor, const QString& message);
  void setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values);
  void setCellStatus(CellId id, protocol::CellStatus status, const QString& message);

  const std::vector<CellView*>& cells() const { return m_cells; }
  CellView* view(CellId id) const;
  // Also a cell that ran and was deleted since: it comes back as it was, whatever its run has told meanwhile.
  CellView* viewThatRan(CellId id) const;
  std::vector<CellView*> cellsThatRan() const;  // those deleted too
  CellView* viewOfAnalysisCell(std::uint32_t index) const;
  std::optional<std::uint32_t> analysisCell(CellId id) const;
  CellId activeCell() const { return m_active; }
  bool editing() const { return m_editing; }
  void activate(CellId id, bool edit);
  void goTo(CellView* cell);
  void activateBeside(int direction);
  std::size_t caretByte() const;  // in the notebook's text
  std::size_t caretInBody(const CellView* v) const;

 public Q_SLOTS:
  void insertAbove();
  void insertBelow();
  void removeActive();
  void cutActive();
  void copyActive();
  void pasteBelow();
  void moveActive(int by);
  void toggleKind();
  void splitActive();
  void joinActive();
  void enterCommandMode();

 Q_SIGNALS:
  void checkingChanged();
  void writingRefused();  // somebody writes into what is read only; the note says so
  void runRequested(CellId id);
  void edited();  // the document was changed through this view
  void undoRequested();
  void textMenuRequested(ExpressionEditor* editor, const QPoint& at);  // on the screen
  void redoRequested();
  void caretMoved(int line, int column);
  void activeChanged();
  void expressionWanted(const QString& tensor);
  void tensorWanted(const nf::protocol::TensorRequest& request);
  void textCopied(const QString& what);
  void signatureChanged(const QString& signature);
  void pauseRequested(bool pause);
  void stopRequested();
  void swapChosen(const nf::protocol::KernelSwapEvent& swap);
  void resumeRequested(CellId id);
  void runsRequested(CellId id);
  void trainAgainRequested(CellId id);
  void foundChanged();
  void zoomWanted(int steps);

 protected:
  void showEvent(QShowEvent*) override;
  void hideEvent(QHideEvent*) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  bool focusNextPrevChild(bool next) override;

 private:
  CellView* make(const Cell& cell);
  void putAside(CellView* view);
  void followTyped(CellId id, std::size_t byte);
  void layOutAround(QWidget* part);
  void showPlace(CellView* cell, std::size_t byte);  // of the editor's
  void showSpan(int top, int bottom, int margin);    // px of the content
  void followCaret(CellView* view, bool pressed);
  void showKeptInSight();
  void selectCaret(const CellView* view);
  bool mark(CellId id, bool edit);  // true: it was another
  void followKeyboard(const QWidget* now);
  void keepHeld();
  void pressed(const QWidget* at);
  void letGo() { m_keptInSight = nullptr, m_held = nullptr; }
  void layOutCells();  // now, also where nobody sees them
  void setOnPaper(bool onPaper);

  void insertInto(CellView* view, const QString& text);
  Theme* m_look;  // asleep while nobody sees the notebook
  const Theme* m_theme;
  QString m_folder;
  Selection* m_selection;
  Document* m_document = nullptr;
  QWidget* m_content;
  QVBoxLayout* m_layout;
  std::vector<CellView*> m_cells;
  std::vector<CellView*> m_aside;  // deleted ones that ran, oldest first
  std::map<CellId, std::uint32_t> m_analysisCells;
  std::optional<protocol::Analysis> m_analysis;
  std::function<std::string(const std::string&)> m_library;

  CellId m_active = 0;
  std::map<CellId, From> m_madeFrom;  // the cell that was chosen when one was inserted or pasted
  CellId m_begun = 0;                 // the last one that a typed separator began; 0: none, or more was typed on its line
  bool m_editing = false, m_readOnly = false;
  QPointer<QWidget> m_keptInSight;
  std::optional<std::uint64_t> m_pressedBefore;  // Selection::choices() at the last press of the mouse, where that was in the page
  bool m_keptHead = false;                       // of a cell that is higher than the page
  std::uint64_t m_caretChoice = 0;               // of the selection: the last one that the caret made
  QPointer<CellView> m_held;                     // the one that is written in
  int m_heldAt = 0;                              // px of the page: top of its editor
  void handleKey(QKeyEvent* event);
  bool isText(const QKeyEvent& event);
  void tellCommand(const QKeyEvent& event, std::uint64_t changes);
  void tellDone(std::size_t first);
  void undoDone();
  void tell(const QString& words, bool undoes = false);
  void forgetWords();
  CommandNote* m_note;
  struct Done {
    QString what;
    std::uint64_t steps = 0;  // of the history
  };
  std::vector<Done> m_word;  // by letters that were typed as quickly as a word, the last one at the end
  QString m_done;            // that the note tells of
  std::uint64_t m_doneSteps = 0;
  QString m_typed;            // since then, that is no command
  QElapsedTimer m_letterAgo;  // since the last letter
  int m_lastKey = 0;          // D twice deletes
  void refind();
  void showFound(bool reveal);
  std::pair<CellView*, std::size_t> placeFound(int index) const;  // cell and the place's number in it
  QString m_find;
  bool m_findExact = false;
  int m_foundHere = -1;
};

}  // namespace nf
