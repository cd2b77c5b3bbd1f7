// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "core/document/journal.h"
#include "core/protocol/message.h"
#include "widgets/kernel_instance.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QsciScintilla;

namespace nf {

class CodeLexer;
class ElidedLabel;
class PanelHeader;
class TabRow;

// The expression of a kernel above what it became: loop IR, LLVM IR, assembly. Numbered tags tie tokens of the source to lines: the
// gutter shows them, a click on one selects. Lines that came from the selection are tinted; any two candidates can be compared.
class KernelView : public QWidget {
  Q_OBJECT
 public:
  KernelView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  void clear();
  bool empty() const { return m_kernel.texts.empty(); }
  void setWaiting(const QString& why);  // said in place of a kernel
  // Another candidate is on its way: what is shown is greyed and says whose it is, until setKernel.
  void setPending(const QString& candidate);
  bool pending() const;
  void forgetPlaces();                     // the text that its lines came from is another one now
  void setFailed(const QString& message);  // what was on its way does not come
  QString detail() const;
  QString facts() const;  // as many as have room
  void setKernel(const protocol::Kernel& kernel);
  // What the code that is shown takes, where it is this one's: a trial may be timed again. Without a trial: the newest kernel's.
  void setTime(const std::string& subgraph, std::optional<std::uint64_t> trial, std::optional<double> us);
  // What can be compared with: trial numbers and their names.
  void setCandidates(std::vector<std::pair<std::uint64_t, QString>> candidates);
  void setCompared(const protocol::Kernel& kernel);
  // The source text of a span, for the tags; without it they have none.
  void setSpanText(std::function<QString(const protocol::SourceSpan&)> text) { m_spanText = std::move(text); }
  // Where the kernel is used, each place by its origins: a line or a token leads to that place which the selection came from.
  void setInstances(std::vector<KernelInstance> instances);
  // What the kernel makes, by its names in the graph; none of a loop's body, which has no nodes.
  void setOperators(std::vector<std::string> operators) { m_operators = std::move(operators); }
  std::uint64_t choice() const { return m_choice; }  // Selection::choices() of what was chosen in it last
  QString also() const;  // the place that the selection came from, where the expression is that of another
  // Whether a tensor is made, and by no kernel of a step; without it none is.
  void setOutside(std::function<bool(const std::string&)> outside) { m_outside = std::move(outside); }
  QString absent() const;  // what is selected and no kernel of a step computes; empty: some kernel does
  void chooseLine(int line);
  void showLanguage(const QString& language);
  void showMachineCode();             // of the kernel that is shown, and of those that come
  std::int64_t machineLines() const;  // of its machine code: lines that came from the selection, whatever language is shown
  QString language() const;
  QString text() const;
  std::pair<int, int> lineOnScreen(int line) const;  // its top and bottom in the code's viewport
  std::vector<int> tintedLines() const { return m_tinted; }
  std::vector<protocol::Origins> lineOrigins() const;  // of the shown text, by line
  struct Tag {
    std::uint32_t origin = 0;
    QString text;              // the token as written
    std::vector<int> lines;    // of the shown text, from 0
    int begin = -1, end = -1;  // in the expression; -1: not found there
  };
  const std::vector<Tag>& tags() const { return m_tags; }
  QComboBox* comparison() const { return m_comparison; }
  // Lines that the other kernel has and this one has not, and the other way round.
  std::pair<int, int> difference() const;

 Q_SIGNALS:
  void languageChosen(const QString& language);
  void comparisonWanted(std::optional<std::uint64_t> trial);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  static constexpr int kTagMargin = 1;
  struct ShownLine {
    std::string text;
    protocol::Origins origins;
    DiffLine::Kind kind = DiffLine::Kind::Same;
  };
  int textOf(const QStringList& languages) const;
  void choose(const QStringList& languages);
  std::vector<ShownLine> linesOf(const protocol::Kernel& kernel, const std::string& wanted) const;
  void showText();
  protocol::Origins ownOf(const protocol::Origins& origins) const;
  int activeInstance() const;
  bool isInBody(std::uint32_t span) const { return m_selection->isInBody(span); }
  // The places in bodies of functions that were selected, where lines were written out from them: they say more than what their calls make.
  std::unique_ptr<Selection> selectedInBody() const;  // null: none
  // The places in bodies where what was chosen by its name is written: its call has those of all that the function makes. Null: none.
  std::unique_ptr<Selection> calledInBody() const;
  // Of the operator that a line of the expression is: where it and all that it computes is written, and of that what stands in functions.
  protocol::Origins placesOfBlock(std::size_t block) const;
  protocol::Origins bodiesOfBlock(std::size_t block) const { return m_selection->expandedOf(placesOfBlock(block)); }
  protocol::Origins chosenByLine(const protocol::Origins& origins) const;
  protocol::Origins chosenByBlock(std::size_t block) const;
  std::unique_ptr<Selection> selectionOf(const protocol::Origins& places) const;
  bool holds(std::uint32_t outer, std::uint32_t inner) const;  // spans: more than the other one
  void selectHere(const protocol::Origins& origins, std::vector<std::string> tensors = {});
  void findTags();
  static std::string madeBy(const QString& line);   // what a line of the expression, or a statement, makes
  bool makesCalled(std::size_t block) const;        // a line of the expression makes what is chosen by its name
  bool isWrittenAs(std::uint32_t statement) const;  // a line of the expression makes what the statement does, by name
  void keepOneOfEqual(const std::set<std::uint32_t>& statements);
  void showTags();
  void tint();
  void showTinted();  // the first line of the selection comes in sight
  void dress();
  void showFacts();
  void fitExpression();
  void placeVeil();
  const Theme* m_theme;
  Selection* m_selection;
  protocol::Kernel m_kernel;
  std::optional<protocol::Kernel> m_compared;
  std::vector<std::pair<std::uint64_t, QString>> m_candidates;
  std::function<QString(const protocol::SourceSpan&)> m_spanText;
  std::function<bool(const std::string&)> m_outside;
  PanelHeader* m_header;
  TabRow* m_languages;
  QComboBox* m_comparison;
  QPlainTextEdit* m_expression;
  QLabel* m_tagRow;
  QsciScintilla* m_code;
  CodeLexer* m_lexer = nullptr;
  ElidedLabel* m_mapping;
  QLabel* m_facts;
  QWidget* m_veil;
  QString shownDetail() const;
  QString m_shown;  // whose code this is
  int m_current = 0;
  QStringList m_wishes{QStringLiteral("loops")};  // what a person has chosen: the first of these languages that there is
  std::vector<ShownLine> m_lines;
  std::vector<Tag> m_tags;
  struct Equal {
    std::uint32_t statement = 0;  // the one of several that compute one thing whose tags are shown
    bool another = false;         // not the first of them
  };
  std::vector<Equal> m_equal;
  std::vector<KernelInstance> m_instances;
  std::vector<std::string> m_operators;
  int m_instance = 0;
  std::uint64_t m_choice = 0;
  std::vector<int> m_tinted;
};

}  // namespace nf
