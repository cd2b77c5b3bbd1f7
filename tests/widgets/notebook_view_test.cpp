// SPDX-License-Identifier: GPL-3.0-or-later
// The notebook as it is typed: cells, keys of the command mode, results that are of an earlier text, derivations.
#include <gtest/gtest.h>

#include <QApplication>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QTest>
#include <QTextBlock>
#include <QToolButton>
#include <QTreeWidget>

#include "core/document/document.h"
#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/derivation_view.h"
#include "widgets/formula_view.h"
#include "widgets/markdown_view.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/rename_bar.h"
#include "widgets/statements_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using namespace protocol;

struct Notebook : Widgets {
  Document document{capsule::kText};
  NotebookView view{&theme, &selection};
  Notebook() {
    view.resize(1000, 900);
    view.setDocument(&document);
    QObject::connect(&view, &NotebookView::edited, &view, &NotebookView::followDocument);
    view.show();
  }
  CellView* cell(std::size_t i) { return view.cells()[i]; }
  void analyse() { view.setAnalysis(capsule::analysis(document.text(), document.revision())); }
};

// What nobody sees is set anew when it is shown, once for all that has changed meanwhile.
TEST_F(Notebook, AHiddenNotebookTakesAThemeWhenItIsShown) {
  const auto size = [&] { return cell(1)->editor()->font().pixelSize(); };
  const int before = size();
  view.hide();
  theme.setTextScale(1.5);
  theme.setMode(Theme::Mode::Dark);
  EXPECT_EQ(size(), before);
  view.show();
  EXPECT_EQ(size(), qRound(before * 1.5));
  const QImage page = view.viewport()->grab().toImage();
  EXPECT_EQ(page.pixelColor(page.width() - 4, page.height() - 4), theme.colors().page);
  theme.setTextScale(1);
  EXPECT_EQ(size(), before) << "in sight at once";
  theme.setMode(Theme::Mode::Light);
}

// The library's name stands nowhere in the notebook: nothing else changes its meaning.
TEST_F(Notebook, AFunctionMayTakeTheNameOfOneOfTheLibrary) {
  const auto symbol = [](SymbolKind kind, const char* name, const char* source) {
    SymbolInfo s;
    s.kind = kind, s.name = name, s.definition = {source, 0, 4};
    return s;
  };
  document = Document("# %%\ndef cell(x[4]) -> y {\n  y[i] = x[i]\n}\ninput A[4]\nB = cell(A)\n");
  view.setDocument(&document);
  Analysis a = capsule::analysis(document.text(), document.revision());
  a.symbols = {symbol(SymbolKind::Function, "cell", ""), symbol(SymbolKind::Input, "A", ""),
               symbol(SymbolKind::Function, "linear", "std/linear.nf")};
  view.setAnalysis(a);
  EXPECT_TRUE(view.rename("A", "linear").contains("std/linear.nf"));
  EXPECT_EQ(view.rename("cell", "linear"), "");
  EXPECT_EQ(document.text(), "# %%\ndef linear(x[4]) -> y {\n  y[i] = x[i]\n}\ninput A[4]\nB = linear(A)\n");
  EXPECT_TRUE(view.rename("linear", "B").contains("taken"));
}

TEST_F(Notebook, WhyANameCannotBeGivenTakesNoRoomFromIt) {
  RenameBar bar(&theme);
  bar.resize(500, 40);
  bar.open("cell");
  QCoreApplication::processEvents();
  const int width = bar.field()->width();
  EXPECT_GT(width, 100);
  bar.refuse("`sum_of_everything` is taken: it is a function of std/elementwise.nf, and it stands in the notebook.");
  QCoreApplication::processEvents();
  EXPECT_EQ(bar.field()->width(), width);
  QTest::keyClicks(bar.field(), "x");
  EXPECT_EQ(bar.refusal(), "");
}

// The next answer has another time and the same figures: no cell is laid out for it.
TEST_F(Notebook, AnAnswerThatOnlyTookAnotherTimeLaysOutNothing) {
  Analysis analysis = capsule::analysis(document.text(), document.revision());
  for (CellInfo& info : analysis.cells) info.summary = "A  [4], 16 B";
  analysis.ms = 12.3;
  for (int i = 0; i < 2; ++i) {  // an editor's height follows from its width, which the first layout gives it
    view.setAnalysis(analysis);
    QCoreApplication::processEvents();
  }
  struct Layouts : QObject {
    QStringList of;
    bool eventFilter(QObject* watched, QEvent* event) override {
      if (event->type() == QEvent::LayoutRequest && qobject_cast<QWidget*>(watched))
        of << QString::fromLatin1(watched->metaObject()->className());
      return false;
    }
  } layouts;
  qApp->installEventFilter(&layouts);
  analysis.ms = 4.56;
  view.setAnalysis(analysis);
  QCoreApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
  qApp->removeEventFilter(&layouts);
  EXPECT_EQ(layouts.of, QStringList());
  QStringList words;
  for (const QLabel* l : cell(1)->findChildren<QLabel*>()) words << l->text();
  EXPECT_TRUE(words.contains("checked 4.56 ms")) << words.join('|').toStdString();
}

// Every key brings every row of the outline again: only those that differ are written.
TEST_F(Widgets, TheOutlineFollowsTheChosenCell) {
  OutlineView outline(&theme, &selection);
  outline.resize(260, 400);
  outline.show();
  std::vector<OutlineView::CellLine> cells;
  for (CellId id = 1; id <= 200; ++id)
    cells.push_back({id, QStringLiteral("cell %1").arg(id), {}, OutlineView::CellLine::Kind::Code, 0});
  const auto inSight = [&](int row) {
    const QTreeWidget* tree = outline.tree();
    return tree->viewport()->rect().contains(tree->visualItemRect(tree->topLevelItem(0)->child(row)).center());
  };
  outline.setCells(cells, 1);
  EXPECT_TRUE(inSight(0));
  EXPECT_FALSE(inSight(150));
  outline.setCells(cells, 151);
  EXPECT_TRUE(inSight(150));
  // Somebody who looks elsewhere is left there while the same cell is chosen.
  outline.tree()->scrollToTop();
  cells[3].title = QStringLiteral("edited");
  outline.setCells(cells, 151);
  EXPECT_FALSE(inSight(150));
}

TEST_F(Widgets, TheOutlineKeepsTheItemsOfWhatStayed) {
  OutlineView outline(&theme, &selection);
  Analysis analysis;
  for (int i = 0; i < 30; ++i) {
    TensorInfo t;
    t.name = "T" + std::to_string(i), t.shape = {i};
    analysis.tensors.push_back(t);
  }
  std::vector<OutlineView::CellLine> cells;
  for (CellId id = 1; id <= 12; ++id)
    cells.push_back({id, QStringLiteral("cell %1").arg(id), {}, OutlineView::CellLine::Kind::Code, 0});
  outline.setCells(cells, 3);
  outline.setNames(analysis);
  const auto rows = [&](int section) {
    QStringList texts;
    QTreeWidgetItem* item = outline.tree()->topLevelItem(section);
    for (int i = 0; i < item->childCount(); ++i) texts << item->child(i)->text(0);
    return texts;
  };
  int changes = 0;
  const auto count = [&] { ++changes; };
  QObject::connect(outline.tree()->model(), &QAbstractItemModel::dataChanged, &outline, count);
  QObject::connect(outline.tree()->model(), &QAbstractItemModel::rowsInserted, &outline, count);
  QObject::connect(outline.tree()->model(), &QAbstractItemModel::rowsRemoved, &outline, count);
  outline.setCells(cells, 3);
  outline.setNames(analysis);
  EXPECT_EQ(changes, 0);
  // One is renamed, one comes, one goes.
  analysis.tensors[7].name = "Seven";
  TensorInfo fresh;
  fresh.name = "Fresh";
  analysis.tensors.insert(analysis.tensors.begin() + 20, fresh);
  outline.setNames(analysis);
  QStringList wanted;
  for (const TensorInfo& t : analysis.tensors) wanted << QString::fromStdString(t.name);
  EXPECT_EQ(rows(1), wanted);
  cells.erase(cells.begin() + 4);
  cells[5].title = "another";
  outline.setCells(cells, 2);
  QStringList titles;
  for (const auto& line : cells) titles << line.title;
  EXPECT_EQ(rows(0), titles);
  QStringList chosen;
  for (const QTreeWidgetItem* item : outline.tree()->selectedItems()) chosen << item->text(0);
  EXPECT_EQ(chosen, QStringList{"cell 2"});
  analysis.tensors.resize(2);
  outline.setNames(analysis);
  EXPECT_EQ(rows(1), (QStringList{"T0", "T1"}));
}

// Every cell gets its line of figures, and what stands below moves with all of them together.
TEST_F(Widgets, AnAnalysisLaysCellsOutOnce) {
  struct Moves : QObject {
    int count = 0;
    bool eventFilter(QObject*, QEvent* event) override {
      count += event->type() == QEvent::Move;
      return false;
    }
  };
  constexpr int kCells = 40;
  std::string text;
  for (int i = 0; i < kCells; ++i) text += "# %%\nlet A" + std::to_string(i) + " = 1\n";
  Document document{text};
  NotebookView view{&theme, &selection};
  view.resize(1000, 900);
  view.setDocument(&document);
  view.show();
  QCoreApplication::processEvents();
  Analysis analysis;
  analysis.revision = document.revision();
  for (const Cell& cell : document.cells()) {
    CellInfo info;
    info.begin = static_cast<std::uint32_t>(cell.begin);
    info.end = static_cast<std::uint32_t>(cell.end);
    info.summary = "A  [4], 16 B";
    analysis.cells.push_back(info);
  }
  Moves moves;
  CellView* const last = view.cells().back();
  const int before = last->y();
  last->installEventFilter(&moves);
  view.setAnalysis(analysis);
  QCoreApplication::processEvents();
  EXPECT_GT(last->y(), before);
  EXPECT_LT(moves.count, kCells / 4);
  for (std::size_t i = 1; i < view.cells().size(); ++i)
    EXPECT_GT(view.cells()[i]->y(), view.cells()[i - 1]->geometry().bottom()) << i;
}

TEST_F(Notebook, TypingReachesTheDocumentAndComesBack) {
  view.activate(cell(1)->id(), true);
  cell(1)->editor()->moveCaretTo(0);
  QTest::keyClicks(cell(1)->editor(), "let Z = 2");
  QTest::keyClick(cell(1)->editor(), Qt::Key_Return);
  EXPECT_NE(document.text().find("# %%\nlet Z = 2\nlet B = 1"), std::string::npos);
  while (document.canUndo()) document.undo();
  view.followDocument();
  EXPECT_EQ(document.text(), capsule::kText);
  EXPECT_TRUE(cell(1)->editor()->toPlainText().startsWith("let B"));
}

// A run that did not end says so, also where the result that is shown is of an earlier text.
TEST_F(Notebook, TheLastRunOfATextSpeaksBeforeTheAgeOfItsResult) {
  const auto analyse = [&](const char* meaning) {
    auto a = capsule::analysis(document.text(), document.revision());
    a.cells[3].meaning = meaning;
    view.setAnalysis(a);
  };
  const auto run = [&] { cell(3)->beginRun(); };
  using protocol::CellStatus;
  analyse("40 epochs");
  EXPECT_TRUE(cell(3)->neverTrained());
  run();
  cell(3)->setStatus(CellStatus::Ok, {});
  EXPECT_FALSE(cell(3)->neverTrained());
  analyse("4000 epochs");
  EXPECT_TRUE(cell(3)->note().contains("has changed since it ran")) << cell(3)->note().toStdString();
  run();
  ASSERT_TRUE(cell(3)->train());
  cell(3)->train()->start();
  protocol::StepEvent step;
  step.step = 1, step.ms = step.ms_min = step.ms_max = 2;
  cell(3)->train()->addStep(step);
  ASSERT_TRUE(cell(3)->train()->hasCurves());
  EXPECT_FALSE(cell(3)->runIsOld());
  cell(3)->setInterrupted("The engine ended before this was finished.");
  EXPECT_FALSE(cell(3)->runIsOld()) << "its curves are of the text as it is";
  analyse("4001 epochs");
  EXPECT_TRUE(cell(3)->runIsOld());
  analyse("4000 epochs");
  EXPECT_EQ(cell(3)->note(), "The engine ended before this was finished.");
  EXPECT_EQ(cell(3)->status(), CellStatus::Stale);
  run();
  cell(3)->setStatus(CellStatus::Error, "no memory");
  EXPECT_EQ(cell(3)->status(), CellStatus::Error);
  EXPECT_EQ(cell(3)->failure(), "no memory");
  analyse("4 epochs");
  EXPECT_EQ(cell(3)->status(), CellStatus::Stale);
  EXPECT_EQ(cell(3)->failure(), QString());
}

TEST_F(Notebook, AFailureOfACellThatShowsNothingGoesWithTheText) {
  auto a = capsule::analysis(document.text(), document.revision());
  view.setAnalysis(a);
  ASSERT_TRUE(cell(1)->shows().isEmpty());
  cell(1)->beginRun();
  cell(1)->setStatus(protocol::CellStatus::Error, "Tensor W has no values.");
  view.setAnalysis(a);
  EXPECT_EQ(cell(1)->status(), protocol::CellStatus::Error);
  document.replace(document.text().size(), document.text().size(), "# more\n", "Typing");
  view.followDocument();
  view.setAnalysis(capsule::analysis(document.text(), document.revision()));
  EXPECT_EQ(cell(1)->status(), protocol::CellStatus::Ok);
  EXPECT_EQ(cell(1)->failure(), QString());
}

// The edge of the box around a text is no place beside it.
TEST_F(Notebook, AClickOnTheEdgeOfATextWritesThere) {
  view.activate(cell(2)->id(), false);
  QCoreApplication::processEvents();
  ExpressionEditor* editor = cell(1)->editor();
  const QPoint edge(editor->width() / 2, 1);
  ASSERT_FALSE(editor->viewport()->geometry().contains(edge)) << "the box has an edge";
  QTest::mouseClick(cell(1), Qt::LeftButton, {}, editor->mapTo(cell(1), edge));
  EXPECT_TRUE(view.editing());
  EXPECT_EQ(view.activeCell(), cell(1)->id());
  EXPECT_EQ(editor->textCursor().blockNumber(), 0);
  EXPECT_GT(editor->textCursor().positionInBlock(), 0);
}

// `show Y,`: what is missing is missed behind the last letter.
TEST_F(Notebook, AResultStaysWhileTheEndOfItsCellIsNotWritten) {
  auto a = capsule::analysis(document.text(), document.revision());
  view.setAnalysis(a);
  const QStringList shown = cell(2)->shows();
  ASSERT_EQ(shown.size(), 2);
  protocol::DiagnosticInfo missing;
  missing.severity = protocol::Severity::Error;
  missing.message = "expected an expression, found the end";
  const auto end = static_cast<std::uint32_t>(cell(2)->bodyBegin + cell(2)->editor()->bytes().size());
  missing.span = {"", end, end};
  a.diagnostics.push_back(missing);
  a.cells[2].end = end;
  a.cells[2].shows.clear();
  view.setAnalysis(a);
  EXPECT_EQ(cell(2)->diagnosticTexts().size(), 1);
  EXPECT_EQ(cell(2)->status(), protocol::CellStatus::Error);
  EXPECT_EQ(cell(2)->shows(), shown);
}

TEST_F(Notebook, ACellThatWaitsForATrainingSaysSo) {
  using protocol::CellStatus;
  cell(2)->beginRun(true);
  EXPECT_EQ(cell(2)->status(), CellStatus::Queued);
  EXPECT_EQ(cell(2)->note(), "Waits until the training has ended.");
  cell(2)->trainingEnded();
  EXPECT_EQ(cell(2)->status(), CellStatus::Running);
  EXPECT_EQ(cell(2)->note(), "");
  cell(2)->beginRun(true);
  cell(2)->setStatus(CellStatus::Ok, {});
  EXPECT_EQ(cell(2)->note(), "");
}

// A training that failed leaves its words and curve under the cell: of another text, they are marked as any result is.
TEST_F(Notebook, AFailedTrainingIsStaleOnceItsTextChanges) {
  const auto analyse = [&](const char* meaning) {
    auto a = capsule::analysis(document.text(), document.revision());
    a.cells[3].meaning = meaning;
    view.setAnalysis(a);
  };
  using protocol::CellStatus;
  analyse("lr=inf");
  cell(3)->beginRun();
  cell(3)->setStatus(CellStatus::Error, "The loss L is not a number in step 3.");
  ASSERT_EQ(cell(3)->status(), CellStatus::Error);
  analyse("lr=0.1");
  EXPECT_EQ(cell(3)->status(), CellStatus::Stale);
  EXPECT_TRUE(cell(3)->note().startsWith("Stale: ")) << cell(3)->note().toStdString();
  EXPECT_EQ(cell(3)->failure(), QString());
  analyse("lr=inf");
  EXPECT_EQ(cell(3)->status(), CellStatus::Error);
}

TEST_F(Notebook, BlankLinesTypedAtTheEndStay) {
  view.activate(cell(3)->id(), true);
  QTest::keyClick(cell(3)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClick(cell(3)->editor(), Qt::Key_Return);
  QTest::keyClick(cell(3)->editor(), Qt::Key_Return);
  QTest::keyClicks(cell(3)->editor(), "show L");
  EXPECT_TRUE(cell(3)->editor()->toPlainText().endsWith("}\n\nshow L"));
  EXPECT_EQ(std::string(document.body(document.cells()[3])), cell(3)->editor()->bytes());
}

TEST_F(Notebook, ASeparatorThatIsTypedSplitsTheCell) {
  view.activate(cell(3)->id(), true);
  QTest::keyClick(cell(3)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClick(cell(3)->editor(), Qt::Key_Return);
  QTest::keyClicks(cell(3)->editor(), "# %%");
  EXPECT_EQ(view.cells().size(), 5u);
}

TEST_F(Notebook, KeysOfTheCommandMode) {
  view.activate(cell(1)->id(), false);
  QTest::keyClick(&view, Qt::Key_B);
  EXPECT_EQ(view.cells().size(), 5u);
  EXPECT_EQ(view.activeCell(), cell(2)->id());
  QTest::keyClick(&view, Qt::Key_A);
  EXPECT_EQ(view.cells().size(), 6u);
  QTest::keyClick(&view, Qt::Key_D);
  EXPECT_EQ(view.cells().size(), 6u);
  QTest::keyClick(&view, Qt::Key_D);
  EXPECT_EQ(view.cells().size(), 5u);
  QTest::keyClick(&view, Qt::Key_M);
  EXPECT_EQ(document.cell(view.activeCell())->kind, CellKind::Markdown);
  QTest::keyClick(&view, Qt::Key_Y);
  EXPECT_EQ(document.cell(view.activeCell())->kind, CellKind::Code);
  const CellId here = view.activeCell();
  QTest::keyClick(&view, Qt::Key_K);
  EXPECT_NE(view.activeCell(), here);
  QTest::keyClick(&view, Qt::Key_J);
  EXPECT_EQ(view.activeCell(), here);
  for (const auto modifiers : {Qt::NoModifier, Qt::ControlModifier}) {
    QTest::keyClick(&view, Qt::Key_End, modifiers);
    EXPECT_EQ(view.activeCell(), view.cells().back()->id());
    QTest::keyClick(&view, Qt::Key_Home, modifiers);
    EXPECT_EQ(view.activeCell(), view.cells().front()->id());
  }
  view.activate(here, false);
  QTest::keyClick(&view, Qt::Key_Return);
  EXPECT_TRUE(view.editing());
  QTest::keyClick(view.view(here)->editor(), Qt::Key_Escape);
  EXPECT_FALSE(view.editing());
}

TEST_F(Notebook, LinesThatWrapNeverScrollSideways) {
  Document document("# %% [markdown]\n# Words\n");
  NotebookView view(&theme, &selection);
  view.resize(600, 500);
  view.setDocument(&document);
  view.show();
  CellView* cell = view.cells()[0];
  view.activate(cell->id(), true);
  ExpressionEditor* editor = cell->editor();
  editor->moveCaretTo(editor->bytes().size());
  for (int i = 0; i < 60; ++i) {
    QTest::keyClicks(editor, i % 2 ? " and one more word" : "longer");
    QTest::qWait(1);
    ASSERT_EQ(editor->horizontalScrollBar()->value(), 0) << i;
  }
}

TEST_F(Notebook, CodeInWordsIsSetAsCode) {
  MarkdownView view(&theme);
  view.setMarkdown("words\n\n```\nlet a = 1\n\n  b\n```\n\nmore");
  QStringList code;
  for (QTextBlock block = view.document()->begin(); block.isValid(); block = block.next()) {
    const bool grounded = block.blockFormat().background().style() != Qt::NoBrush;
    EXPECT_EQ(grounded, !QStringList({"words", "more"}).contains(block.text())) << block.text().toStdString();
    if (!grounded || block.text().isEmpty()) continue;
    code << block.text();
    EXPECT_EQ(block.begin().fragment().charFormat().font().family(), theme.mono(13).family());
  }
  EXPECT_EQ(code, QStringList({"let a = 1", "  b"}));
}

TEST_F(Notebook, MarkdownIsEditedInPlace) {
  view.activate(cell(0)->id(), true);
  EXPECT_TRUE(cell(0)->editor()->isVisible());
  QTest::keyClick(cell(0)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(cell(0)->editor(), " More.");
  EXPECT_NE(document.text().find("# One operator that no library has. More.\n"), std::string::npos);
  QTest::keyClick(cell(0)->editor(), Qt::Key_Escape);
  EXPECT_FALSE(cell(0)->editor()->isVisible());
}

TEST_F(Notebook, AnErrorStandsUnderItsCellWithAButtonThatMendsIt) {
  const std::size_t at = document.text().find("W[k, c");
  document.replace(at, at + 1, "nowhere", "Edit");
  view.followDocument();
  analyse();
  EXPECT_EQ(cell(1)->status(), CellStatus::Error);
  EXPECT_EQ(cell(1)->diagnosticTexts(), QStringList{"nowhere is not defined\ndid you mean W?"});
  auto* fix = cell(1)->findChild<QPushButton*>("fix");
  ASSERT_TRUE(fix);
  QTest::mouseClick(fix, Qt::LeftButton);
  EXPECT_EQ(document.text(), capsule::kText);
}

TEST_F(Notebook, AnOldAnalysisIsNotShownOnANewText) {
  const auto old = capsule::analysis(document.text(), document.revision());
  document.replace(0, 0, "# %%\nx\n", "Edit");
  view.followDocument();
  view.setAnalysis(old);
  EXPECT_FALSE(view.analysisCell(cell(1)->id()));
}

TEST_F(Notebook, AShowCellHasFormulaSourceAndDerivation) {
  QStringList wanted;
  QObject::connect(&view, &NotebookView::expressionWanted, &view, [&](const QString& t) { wanted << t; });
  analyse();
  EXPECT_EQ(wanted, (QStringList{"Y", "d(L)/d(W)"}));
  view.setExpression(capsule::expression("Y", 1));
  view.setExpression(capsule::expression("d(L)/d(W)", 1));
  EXPECT_EQ(cell(2)->formulaView()->formulas().size(), 2u);
  EXPECT_TRUE(cell(2)->source().contains("`d(L)/d(W)`[k,c,r,s,l,j] = 2/401408"));
  EXPECT_TRUE(cell(2)->latex().contains("\\partial W"));
  for (int tab = 0; tab < 4; ++tab) {
    cell(2)->showResult(tab);
    cell(2)->grab();
  }
  view.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&view));
  cell(2)->showResult(2);
  const auto* derivation = cell(2)->findChild<DerivationView*>();
  ASSERT_TRUE(derivation);
  EXPECT_GT(derivation->steps(), 0);
  EXPECT_TRUE(QTest::qWaitFor([&] { return derivation->height() >= 12 * derivation->steps(); }, 30000));
  // While the next proof is under way it stays, grey.
  const int steps = derivation->steps();
  auto next = capsule::expression("d(L)/d(W)", 2);
  ASSERT_FALSE(next.terms.empty());
  for (auto& t : next.terms) t.certificate = CertificateState::Checking, t.derivation.clear();
  view.setExpression(next);
  EXPECT_EQ(derivation->steps(), steps);
  EXPECT_TRUE(cell(2)->resultIsGreyed());
  view.setExpression(capsule::expression("d(L)/d(W)", 2));
  EXPECT_EQ(derivation->steps(), steps);
  EXPECT_FALSE(cell(2)->resultIsGreyed());
}

// What a derivative refers to stands folded below its formula, and goes along when its source is copied.
TEST_F(Notebook, WhatAGradientIsMadeOfIsFoldedBelowIt) {
  analyse();
  view.setExpression(capsule::expression("Y", 1));
  auto gradient = capsule::expression("d(L)/d(W)", 1);
  gradient.definitions = {{"d(L)/d(Y)", "`d(L)/d(Y)`[b, k] = 2 * Y[b, k]\n", {1}},
                          {"g", "for t in 0..4 reversed {\n  g[i] = g[i] * h[i]\n}\n", {1}}};
  gradient.definitionCount = 2;
  view.setExpression(gradient);
  view.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&view));
  auto* fold = cell(2)->findChild<QToolButton*>("definitions");
  ASSERT_TRUE(fold);
  auto* field = cell(2)->findChild<StatementsView*>();
  ASSERT_TRUE(field);
  for (const int tab : {0, 1}) {
    cell(2)->showResult(tab);
    EXPECT_TRUE(fold->isVisible());
    EXPECT_EQ(fold->text(), "Derived before it: 2 statements");
    EXPECT_FALSE(field->isVisible());
  }
  QTest::mouseClick(fold, Qt::LeftButton);
  EXPECT_TRUE(field->isVisible());
  EXPECT_TRUE(field->toPlainText().startsWith("`d(L)/d(Y)`[b, k] = 2 * Y[b, k]\nfor t in 0..4 reversed {"));
  EXPECT_FALSE(cell(2)->ownSource().contains("reversed"));
  // Each is an operator of its own, to be selected by a click on any of its lines or by Enter.
  const auto clickLine = [&](int line) {
    QTextCursor at(field->document()->findBlockByNumber(line));
    QTest::mouseClick(field->viewport(), Qt::LeftButton, Qt::NoModifier, field->cursorRect(at).center() + QPoint(4, 0));
  };
  clickLine(0);
  EXPECT_EQ(selection.tensors(), std::vector<std::string>{"d(L)/d(Y)"});
  EXPECT_TRUE(field->tinted(0));
  EXPECT_FALSE(field->tinted(1));
  clickLine(2);
  EXPECT_EQ(selection.tensors(), std::vector<std::string>{"g"});
  EXPECT_FALSE(field->tinted(0));
  EXPECT_TRUE(field->tinted(1));
  QTest::keyClick(field, Qt::Key_Home, Qt::ControlModifier);
  QTest::keyClick(field, Qt::Key_Return);
  EXPECT_EQ(selection.tensors(), std::vector<std::string>{"d(L)/d(Y)"});
  EXPECT_LT(cell(2)->source().indexOf("reversed"), cell(2)->source().indexOf("`d(L)/d(W)`[k,c,r,s,l,j]"));
  cell(2)->showResult(2);
  EXPECT_FALSE(fold->isVisible());
  EXPECT_FALSE(field->isVisible());
}

TEST_F(Notebook, TheCaretSelectsTheAccessUnderIt) {
  analyse();
  view.activate(cell(1)->id(), true);
  const auto& bytes = cell(1)->editor()->bytes();
  cell(1)->editor()->moveCaretTo(bytes.find("p*2+r"));
  EXPECT_EQ(selection.origins(), Origins{1});
}

}  // namespace
}  // namespace nf
