// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPointer>
#include <QTimer>
#include <QWidget>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/expression_editor.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QSpacerItem;
class QStackedWidget;
class QToolButton;
class QVBoxLayout;

namespace nf {

class DerivationView;
class FormulaView;
class IconButton;
class MarkdownView;
class MessageStrip;
class StatementsView;
class TabRow;
class TensorView;
class TrainStrip;

// One cell: number and state in the gutter, its text, what the engine said about it, its results.
class CellView : public QWidget {
  Q_OBJECT
 public:
  CellView(const Theme* theme, Selection* selection, CellId id, CellKind kind, QWidget* parent = nullptr);
  CellId id() const { return m_id; }
  CellKind kind() const { return m_kind; }
  ExpressionEditor* editor() const { return m_editor; }
  TrainStrip* train() const { return m_train; }
  FormulaView* formulaView() const { return m_formula; }
  TensorView* tensorView() const { return m_values; }
  const QWidget* result() const { return m_result; }  // formula, source, derivation and values; null: it shows nothing
  IconButton* runHere() const { return m_runHere; }   // in place of values that nobody has computed

  void setNumber(int number);
  void setBody(const std::string& bytes);
  void setNewline(const std::string& newline);  // the notebook's
  void setFolder(const QString& folder);        // of the notebook
  std::size_t bodyBegin = 0;                    // where the body stands in the notebook

  enum class Active { No, Command, Editing };
  void setActive(Active active);
  Active active() const { return m_active; }
  void editMarkdown();
  void renderMarkdown();

  // What an analysis of the whole notebook says about this cell. `info` may be null: the engine knows no such cell.
  void setAnalysis(const protocol::Analysis& analysis, const protocol::CellInfo* info);
  // Where a byte of the notebook is, in words: for notes that speak of another place.
  void setPlaceName(std::function<QString(std::uint32_t)> name) {
    m_editor->setPlaceName(name);
    m_placeName = std::move(name);
  }
  void setOutdated(bool outdated);
  bool resultIsGreyed() const;  // what it shows is of an earlier text
  // What it shows has not been answered for the newest text; checking: for so long that it is drawn as old.
  bool awaitsAnswer() const;
  bool checking() const { return m_checking; }
  bool proves() const;  // the proof of what it shows is under way
  void showSelection();
  // Places of a search, in the editor's bytes; `here`: the one that is looked at, -1: none of them.
  struct Found {
    QString text;
    bool exact = false;  // capitals count
    std::vector<std::pair<std::size_t, std::size_t>> places;
    int here = -1;
  };
  void setFound(Found found);
  const Found& found() const { return m_found; }
  // `trained`: of a cell that trains, what ended is its training, not values that were computed beside it.
  void setStatus(protocol::CellStatus status, const QString& message, bool trained = true);
  protocol::CellStatus status() const { return m_status; }
  // A run of it has begun, on the text as it was analysed last; setStatus() ends it. Its results are stale once the cell means
  // something else.
  void beginRun(bool behindTraining = false);
  void trainingEnded();                         // what waits behind it runs
  void setInterrupted(const QString& message);  // what ran has ended without a result
  void setRefused();                            // the run that failed did not begin: the one before stands there
  // Of a run that was read from disk. Empty: not known; `whole`: it came to its end.
  void setResultMeaning(std::string meaning, bool whole);
  bool hasRun() const;  // or runs: it holds what cannot be made again from its text
  QString note() const;
  bool runIsOld() const;      // what trains, or has trained, is another text than the one that stands there
  bool stoppedEarly() const;  // it trained, and was stopped before its last step
  bool neverTrained() const;  // it trains, nothing is wrong with it, and it has not run since it was opened
  QString warning() const;    // of the last run of this text, which went on; empty: none
  QString failure() const;    // what the last run of this text failed with; empty: it did not
  const QStringList& shows() const { return m_shows; }
  QStringList diagnosticTexts() const;
  int errors() const { return m_errors; }  // of these; the others are warnings
  QString zeros() const;                   // which of the derivatives it shows are 0 by rule, and why, a line each; empty: none
  void setExpression(const protocol::Expression& expression);
  void setExpressionFailed(const QString& tensor, const QString& message);
  bool wantsValuesOf(const QString& tensor) const;
  void setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values);
  QString source() const;     // of what is shown, with what it refers to
  QString ownSource() const;  // of what is shown
  // Derived statements that it refers to; `count`: how many there are, those that the engine left out included.
  std::vector<protocol::DerivedStatement> definitions(std::int64_t* count = nullptr) const;
  QString latex() const;
  void showResult(int tab);
  // As it is printed: what is there to be clicked is not, and nothing scrolls. All of it comes back with `false`.
  void setOnPaper(bool onPaper);
  void fitOnPaper();   // once it is laid out as wide as it is: as high as its broken lines
  void drawOnPaper();  // once it is laid out as high as it is: what is drawn for its size

 Q_SIGNALS:
  void bytesEdited(std::size_t begin, std::size_t end, const QByteArray& text);
  void focused();
  void caretMoved();
  void fixRequested(std::uint32_t begin, std::uint32_t end, const QString& text);
  void leave(int direction);
  void commandModeWanted();
  void expressionWanted(const QString& tensor);
  void sliceWanted();
  void textCopied(const QString& what);
  void pauseRequested(bool pause);
  void stopRequested();
  void swapChosen(const nf::protocol::KernelSwapEvent& swap);
  void resumeRequested();
  void runsRequested();
  void trainAgainRequested();
  void runRequested();
  void placeRequested(std::uint32_t byte);                 // of the notebook
  void mistakeChosen(std::size_t begin, std::size_t end);  // of the editor's bytes
  void checkingChanged();

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;

 private:
  void refreshStatus();
  void greyResult();
  bool isAnswered(const QString& show) const;  // for the text that was analysed last
  void followAge();
  void setChecking(bool checking);
  bool isAbout(const protocol::DiagnosticInfo& diagnostic, const protocol::CellInfo& info) const;
  void rebuildMessages(const protocol::Analysis& analysis, const protocol::CellInfo& info);
  void ensureResult();
  void refreshResult();
  void refreshZeros();  // and what is 0 in part
  void refreshRunHere();
  void fitResult();
  void writeMarkdown(std::size_t from, std::size_t to);
  void dress();              // fonts that this view chose
  int numberHeight() const;  // in the gutter
  void showFound();
  void addFound(std::vector<ExpressionEditor::Mark>& marks) const;
  const Theme* m_theme;
  Selection* m_selection;
  CellId m_id;
  CellKind m_kind;
  int m_number = 0;
  Active m_active = Active::No;
  protocol::CellStatus m_status = protocol::CellStatus::Ok;
  bool m_known = false;  // the engine has said something about this text
  bool m_outdated = false;
  bool m_checking = false;
  std::uint64_t m_revision = 0;  // analysed last
  double m_analysisMs = 0;
  QTimer m_age;
  std::string m_meaning, m_runMeaning, m_resultMeaning;  // of the text now, of what runs, of what is shown; empty: nothing
  bool m_hasRun = false, m_running = false, m_failed = false, m_refused = false, m_interrupted = false, m_mistaken = false;
  std::uint64_t m_failedAt = 0;   // revision of the text
  bool m_behindTraining = false;  // that runs
  bool m_hidden = false;          // something it shows is not made
  QStringList m_waits;
  QString m_noteText;
  QString m_ended;  // what the last run said
  std::string m_body, m_newline = "\n";
  ExpressionEditor* m_editor;
  MarkdownView* m_markdown = nullptr;
  QWidget *m_summaryRow, *m_messages, *m_result = nullptr;
  QLabel *m_summary, *m_checked, *m_note;
  MessageStrip *m_failure, *m_zeros;
  QVBoxLayout* m_layout;
  QSpacerItem* m_gutter;
  QVBoxLayout* m_messageLayout;
  TabRow* m_tabs = nullptr;
  QStackedWidget* m_pages = nullptr;
  FormulaView* m_formula = nullptr;
  QPlainTextEdit* m_source = nullptr;
  QToolButton* m_definitionsFold = nullptr;
  StatementsView* m_definitions = nullptr;
  DerivationView* m_derivation = nullptr;
  QLabel *m_nothingDerived = nullptr, *m_waiting = nullptr, *m_partly = nullptr;
  TensorView* m_values = nullptr;
  QComboBox* m_which = nullptr;
  TrainStrip* m_train = nullptr;
  IconButton* m_runHere = nullptr;  // where it has no values
  std::function<QString(std::uint32_t)> m_placeName;
  QStringList m_shows, m_diagnosticTexts;
  int m_errors = 0;
  std::map<QString, protocol::Expression> m_expressions;
  std::map<QString, std::vector<protocol::GradientTermInfo>> m_proved;  // the newest derivation of each that is whole
  struct Failure {
    std::uint64_t revision;
    QString message;
  };
  std::map<QString, Failure> m_failures;
  std::map<QString, std::vector<std::int64_t>> m_shapes;
  struct DiagnosticMark {
    std::size_t begin, end;
    bool error;
  };
  bool m_onPaper = false;
  bool m_written = false;                     // Markdown that was being written when it came on paper
  std::vector<QPointer<QWidget>> m_offPaper;  // hidden while it is on paper
  Found m_found;
  std::vector<DiagnosticMark> m_diagnosticMarks;  // bytes of the body
};

}  // namespace nf
