// SPDX-License-Identifier: GPL-3.0-or-later
// What the pages share: the selection, formulas, editors, bars of messages, names, plots.
#include <gtest/gtest.h>

#include <qcustomplot.h>
#include <sys/stat.h>
#include <QAbstractTextDocumentLayout>
#include <QApplication>
#include <QFile>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QMimeData>
#include <QPushButton>
#include <QScrollBar>
#include <QTemporaryDir>
#include <QTest>
#include <QTextDocument>
#include <QTextTable>
#include <QWheelEvent>
#include <random>

#include "core/document/document.h"
#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/basic.h"
#include "widgets/code_highlighter.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/kernel_view.h"
#include "widgets/markdown_view.h"
#include "widgets/message_bar.h"
#include "widgets/names.h"
#include "widgets/plots.h"
#include "widgets/tensor_view.h"
#include "widgets/tune_view.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application(argc, argv);
  return RUN_ALL_TESTS();
}

namespace nf {
namespace {

using namespace protocol;

TEST_F(Widgets, SelectionLightsWhatCameFromATokenAndNotItsSiblings) {
  selection.select({1});  // the access of A in Y
  EXPECT_EQ(selection.relation({1}), Selection::Relation::Exact);
  EXPECT_EQ(selection.relation({0}), Selection::Relation::Around);
  EXPECT_EQ(selection.relation({2}), Selection::Relation::None);
  EXPECT_EQ(selection.relation({3}), Selection::Relation::None);
  selection.select({0});
  EXPECT_EQ(selection.relation({1}), Selection::Relation::Exact);
  const auto spans = capsule::analysis(capsule::kText, 1).spans;
  selection.selectBytes(spans[2].begin + 2, spans[2].begin + 2);
  EXPECT_EQ(selection.origins(), Origins{2});
  selection.selectBytes(0, 0);
  EXPECT_TRUE(selection.empty());
}

TEST_F(Widgets, ASectionsDetailThatGrowsIsNotCut) {
  Section section(&theme, "Values");
  section.setDetail("at step 9");
  section.resize(340, 80);
  section.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&section));
  section.setDetail("at step 1 234 567");
  const auto* detail = section.findChild<ElidedLabel*>();
  ASSERT_TRUE(detail);
  EXPECT_EQ(detail->shown(), "at step 1 234 567") << "it waits for a layout";
}

// The beginning of a word says nothing: a header that is short of room has its title alone.
TEST_F(Widgets, AHeadersDetailHasAWordOrNothing) {
  ElidedLabel detail("muted");
  detail.setWholeWords();
  detail.setText("timed alone");
  const auto wide = [&](const QString& text) { return detail.fontMetrics().horizontalAdvance(text) + 2; };
  detail.resize(wide("tim\u2026"), 20);
  EXPECT_EQ(detail.shown(), "");
  detail.resize(wide("timed\u2026"), 20);
  EXPECT_TRUE(detail.shown().startsWith("timed")) << detail.shown().toStdString();
  detail.resize(wide("timed alone"), 20);
  EXPECT_EQ(detail.shown(), "timed alone");
  PanelHeader header(&theme, "Subgraphs");
  header.setDetail("timed alone");
  header.resize(wide("Subgraphs") + 60, 34);
  header.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&header));
  EXPECT_EQ(header.findChild<ElidedLabel*>()->shown(), "");
}

TEST_F(Widgets, ALabelOfTwoLinesIsElidedBehindThem) {
  ElidedLabel label("muted");
  const QString words = "run of 30 Nov 2026, 19:22:14: after 1 419 214 steps, 870 122 of them in 5.2 s since it was resumed";
  label.setText(words);
  const int whole = label.fontMetrics().horizontalAdvance(words), line = label.fontMetrics().lineSpacing();
  label.setLines(2);
  EXPECT_EQ(label.heightForWidth(whole + 20), line);
  EXPECT_EQ(label.heightForWidth(whole * 2 / 3), 2 * line);
  EXPECT_EQ(label.heightForWidth(whole / 4), 2 * line);
  label.resize(whole * 2 / 3, 2 * line);
  EXPECT_EQ(label.shown(), words);
  label.resize(whole / 4, 2 * line);
  EXPECT_TRUE(label.shown().endsWith(QChar(0x2026))) << label.shown().toStdString();
  EXPECT_GT(label.shown().size(), words.size() / 4);
  label.setLines(1);
  EXPECT_FALSE(label.hasHeightForWidth());
}

TEST_F(Widgets, SelectionIsFoundAgainInANewAnalysis) {
  selection.select({2});
  auto spans = selection.spans();
  spans.insert(spans.begin(), SourceSpan{"std/nn.nf", 0, 4});
  selection.setSpans(spans);
  EXPECT_EQ(selection.origins(), Origins{3});
}

TEST_F(Widgets, FormulasAreSetAndTakenOutAsLatex) {
  const Expression y = capsule::expression("Y", 1), gradient = capsule::expression("d(L)/d(W)", 1);
  ASSERT_TRUE(wellFormed(y.formulas[0]));
  ASSERT_TRUE(wellFormed(gradient.formulas[0]));
  const FormulaBox box = setFormula(y.formulas[0], theme, 22);
  EXPECT_GT(box.width, 200);
  EXPECT_GT(box.ascent, 20);
  EXPECT_GE(box.regions.size(), 3u);
  EXPECT_EQ(toLatex(y.formulas[0]),
            "Y_{b, k, p, q, i, j} = \\sum_{c=0}^{7} \\sum_{r=0}^{2} \\sum_{s=0}^{2} \\sum_{l=0}^{3} "
            "A_{b, c, 2 p + r, 2 q + s, i, l} \\, W_{k, c, r, s, l, j}");
  EXPECT_TRUE(toLatex(gradient.formulas[0])
                  .startsWith("\\frac{\\partial L}{\\partial W_{k, c, r, s, l, j}} = \\frac{2}{401408} \\, \\sum_{b=0}^{0}"));
  EXPECT_TRUE(toLatex(gradient.formulas[0]).contains("\\left(Y_{b, k, p, q, i, j} - 1\\right)"));
}

TEST_F(Widgets, AFormulaThatIsNoTreeIsNotDrawn) {
  Formula broken;
  broken.nodes.resize(2);
  broken.nodes[0].children = {1};
  EXPECT_EQ(setFormula(broken, theme, 22).width, 0);
  EXPECT_TRUE(toLatex(broken).isEmpty());
}

TEST_F(Widgets, EveryFormulaKindHasASize) {
  for (const FormulaKind kind : {FormulaKind::Infix, FormulaKind::Fraction, FormulaKind::Power, FormulaKind::Partial,
                                 FormulaKind::Cases, FormulaKind::Call, FormulaKind::Prefix}) {
    for (const char* text : {"+", "-", "*", "/", "//", "%", "<=", "sqrt", "abs", "floor", "exp", "not"}) {
      capsule::FormulaMaker m;
      std::vector<std::uint32_t> children;
      const int count = kind == FormulaKind::Cases ? 3 : kind == FormulaKind::Prefix || kind == FormulaKind::Call ? 1 : 2;
      for (int i = 0; i < count; ++i) children.push_back(m.add(FormulaKind::Name, "x"));
      m.add(kind, text, children);
      ASSERT_TRUE(wellFormed(m.formula));
      EXPECT_GT(setFormula(m.formula, theme, 20).width, 5);
      EXPECT_FALSE(toLatex(m.formula).isEmpty());
    }
  }
}

TEST_F(Widgets, AClickOnASymbolSelectsItsOrigin) {
  FormulaView view(&theme, &selection);
  view.resize(900, 200);
  view.setFormulas(capsule::expression("Y", 1).formulas);
  view.show();
  bool found = false;
  for (int x = 0; x < 700 && !found; x += 4)
    for (int y = 0; y < view.height() && !found; y += 4) {
      const auto part = view.partAt(QPointF(x, y));
      if (!part || view.formulas()[part->first].nodes[part->second].origins != Origins{2}) continue;
      QTest::mouseClick(&view, Qt::LeftButton, {}, QPoint(x, y));
      found = true;
    }
  EXPECT_TRUE(found);
  EXPECT_EQ(selection.origins(), Origins{2});
}

TEST_F(Widgets, HighlightingKeepsPlacesInAnyBytes) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 300; ++round) {
    std::string text = capsule::kText.substr(rng() % capsule::kText.size(), rng() % 80);
    for (auto n = rng() % 4; n > 0 && !text.empty(); --n) text[rng() % text.size()] = static_cast<char>(rng());
    int at = 0;
    const int size = static_cast<int>(displayText(text).size());
    for (const ColoredRun& run : highlight(text, theme.colors())) {
      EXPECT_GE(run.begin, at);
      at = run.begin + run.length;
    }
    EXPECT_LE(at, size);
  }
}

TEST_F(Widgets, TheWheelOverABarAcrossScrollsThePage) {
  ExpressionEditor editor(&theme, true);
  editor.resize(300, 80);
  editor.setBytes(std::string(400, 'x'));
  editor.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&editor));
  QScrollBar* bar = editor.horizontalScrollBar();
  ASSERT_TRUE(QTest::qWaitFor([&] { return bar->maximum() > 0; }));
  const auto turn = [&](QPoint by) {
    QWheelEvent wheel(QPointF(5, 5), bar->mapToGlobal(QPointF(5, 5)), {}, by, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase,
                      false);
    QApplication::sendEvent(bar, &wheel);
    return bar->value();
  };
  EXPECT_EQ(turn({0, -120}), 0);
  EXPECT_GT(turn({-120, 0}), 0);
}

TEST_F(Widgets, TypingInAnEditorIsToldInBytes) {
  ExpressionEditor editor(&theme, true);
  editor.setBytes("αβ = 1\r\nx");
  std::string replica = editor.bytes();
  QObject::connect(&editor, &ExpressionEditor::bytesEdited, &editor,
                   [&](std::size_t begin, std::size_t end, const QByteArray& text) {
                     replica.replace(begin, end - begin, text.toStdString());
                     EXPECT_EQ(replica, editor.bytes());
                   });
  editor.show();
  editor.setFocus();
  editor.moveCaretTo(2);  // between the Greek letters
  QTest::keyClicks(&editor, "a2");
  EXPECT_EQ(replica, "αa2β = 1\r\nx");
  QTest::keyClick(&editor, Qt::Key_Backspace);
  QTest::keyClick(&editor, Qt::Key_End, Qt::ControlModifier);
  QTest::keyClick(&editor, Qt::Key_Return);
  QTest::keyClicks(&editor, "yy");
  EXPECT_EQ(replica, "αaβ = 1\r\nx\nyy");
}

// What the middle button pastes on X11 where nothing is selected has no formats.
TEST_F(Widgets, AnEmptySelectionIsPastedAsNothing) {
  struct Editor : ExpressionEditor {
    using ExpressionEditor::ExpressionEditor, ExpressionEditor::insertFromMimeData;
  } editor(&theme, true);
  editor.setBytes("x");
  QMimeData data;
  editor.insertFromMimeData(&data);
  EXPECT_EQ(editor.bytes(), "x");
  data.setHtml("<b>no text</b>");
  data.setText("a\nb ");
  editor.insertFromMimeData(&data);
  EXPECT_EQ(editor.bytes(), "a\nb x");
}

TEST_F(Widgets, ALongLineThatIsGoneLeavesNothingToScroll) {
  ExpressionEditor editor(&theme, true);
  editor.resize(400, 100);
  const std::string before = "A = 1\nB = 2\nC = 3";
  editor.setBytes(before);
  editor.show();
  for (const std::size_t place : {std::size_t{0}, std::size_t{5}, before.find('C'), before.size()}) {
    SCOPED_TRACE(place);
    editor.moveCaretTo(place);
    editor.insertAtCaret("x\n" + QString(200, QLatin1Char('y')) + "\nz\n");
    QCoreApplication::processEvents();
    EXPECT_GT(editor.horizontalScrollBar()->maximum(), 0);
    editor.setBytes(before);
    QCoreApplication::processEvents();
    EXPECT_EQ(editor.horizontalScrollBar()->maximum(), 0);
  }
  const int height = editor.height();
  editor.moveCaretTo(before.find('C'));
  editor.insertAtCaret(QString(200, QLatin1Char('y')) + "\nz\n");
  QCoreApplication::processEvents();
  QTextCursor cursor = editor.textCursor();
  cursor.movePosition(QTextCursor::PreviousBlock, QTextCursor::KeepAnchor, 2);
  cursor.removeSelectedText();
  QCoreApplication::processEvents();
  EXPECT_EQ(editor.bytes(), before);
  EXPECT_EQ(editor.horizontalScrollBar()->maximum(), 0);
  EXPECT_EQ(editor.height(), height);
}

TEST_F(Widgets, LinesInABlockAreIndented) {
  ExpressionEditor editor(&theme, true);
  editor.setBytes("");
  std::string replica;
  QObject::connect(
      &editor, &ExpressionEditor::bytesEdited, &editor,
      [&](std::size_t begin, std::size_t end, const QByteArray& text) { replica.replace(begin, end - begin, text.toStdString()); });
  editor.show();
  editor.setFocus();
  const auto enter = [&] { QTest::keyClick(&editor, Qt::Key_Return); };
  QTest::keyClicks(&editor, "for t in 0..4 { ");
  enter();
  QTest::keyClicks(&editor, "if {");
  enter();
  QTest::keyClicks(&editor, "h = 1");
  enter();
  QTest::keyClicks(&editor, "}");
  enter();
  QTest::keyClicks(&editor, "}");
  enter();
  QTest::keyClicks(&editor, "x}");
  EXPECT_EQ(replica, "for t in 0..4 { \n  if {\n    h = 1\n  }\n}\nx}");
  EXPECT_EQ(replica, editor.bytes());
  // Between two braces, and in place of what is selected.
  editor.setBytes("train L {yy}");
  replica = editor.bytes();
  editor.selectBytes(9, 11);
  enter();
  QTest::keyClicks(&editor, "steps = 1");
  EXPECT_EQ(replica, "train L {\n  steps = 1\n}");
  // Words are not code.
  ExpressionEditor words(&theme, false);
  words.setBytes("  a {");
  words.show();
  words.setFocus();
  words.moveCaretTo(5);
  QTest::keyClick(&words, Qt::Key_Return);
  EXPECT_EQ(words.bytes(), "  a {\n");
}

TEST_F(Widgets, RandomTypingNeverLosesAByte) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    ExpressionEditor editor(&theme, true);
    editor.setBytes(std::string("aaa\nb") + "\xff" + "\r\n\rc𝛼");
    std::string replica = editor.bytes();
    QObject::connect(&editor, &ExpressionEditor::bytesEdited, &editor,
                     [&](std::size_t begin, std::size_t end, const QByteArray& text) {
                       replica.replace(begin, end - begin, text.toStdString());
                     });
    editor.show();
    for (int i = 0; i < 150; ++i) {
      switch (rng() % 6) {
        case 0: QTest::keyClick(&editor, Qt::Key_Left, rng() % 2 ? Qt::ShiftModifier : Qt::NoModifier); break;
        case 1: QTest::keyClick(&editor, Qt::Key_Backspace); break;
        case 2: QTest::keyClick(&editor, Qt::Key_Delete); break;
        case 3: QTest::keyClick(&editor, Qt::Key_Return); break;
        case 4: editor.moveCaretTo(rng() % (replica.size() + 1)); break;
        default: editor.insertAtCaret(rng() % 2 ? QStringLiteral("a") : QStringLiteral("𝛽"));
      }
      ASSERT_EQ(replica, editor.bytes());
      const std::u16string shown = displayText(replica);
      ASSERT_EQ(editor.toPlainText(), QString::fromUtf16(shown.data(), static_cast<qsizetype>(shown.size())));
    }
  }
}

TEST_F(Widgets, WhatHasANameIsSelectedByItAlone) {
  selection.select({0, 2}, {"d(L)/d(W)"});
  EXPECT_EQ(selection.relation({"d(L)/d(W)"}, {0, 2}), Selection::Relation::Exact);
  EXPECT_EQ(selection.relation({"Y"}, {0}), Selection::Relation::None) << "it comes from the same statement";
  const auto choice = selection.choices();
  selection.select({2}, {"d(L)/d(W)"});
  selection.place({2});
  EXPECT_EQ(selection.choices(), choice) << "the same choice";
  EXPECT_EQ(selection.origins(), Origins{2});
  selection.setSpans(capsule::analysis(capsule::kText + "\n# %%\n", 2).spans);
  EXPECT_EQ(selection.tensors(), std::vector<std::string>{"d(L)/d(W)"});
  selection.select({0});
  EXPECT_EQ(selection.relation({"Y"}, {0}), Selection::Relation::Exact);
  selection.setSpans({});
  EXPECT_TRUE(selection.empty());
}

TEST_F(Widgets, ACountIsNeverCutOutOfAName) {
  const QFontMetrics metrics(theme.ui(12));
  const QString name = "V.Vote.0 and 12 more";
  EXPECT_EQ(elidedName(metrics, name, metrics.horizontalAdvance(name)), name);
  for (int width = metrics.horizontalAdvance(name) - 1; width > metrics.horizontalAdvance("V… +12"); --width) {
    const QString text = elidedName(metrics, name, width);
    EXPECT_TRUE(text.endsWith(" +12")) << text.toStdString();
    EXPECT_LE(metrics.horizontalAdvance(text), width) << text.toStdString();
  }
  EXPECT_EQ(elidedName(metrics, name, 8), "+12");
  EXPECT_EQ(kernelName("V.Vote.0 and 12 more", 14), "V.Vote.0 +12");
  EXPECT_EQ(kernelName("V.Vote.0 and 12 more", 30), "V.Vote.0 and 12 more");
}

TEST_F(Widgets, KernelLinesFollowTheSelection) {
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setKernel(capsule::kernel("aa01", {}));
  EXPECT_TRUE(view.text().contains("parallel for p"));
  selection.select({1});
  EXPECT_EQ(view.tintedLines(), std::vector<int>{4});
  view.showLanguage("llvm");
  EXPECT_EQ(view.tintedLines(), std::vector<int>{2});
  // Of a line's places the innermost is what it was made for, not the statement around it.
  Kernel kernel = capsule::kernel("aa01", {});
  for (auto& text : kernel.texts)
    if (text.language == "llvm") text.lineOrigins.assign(4, Origins{0, 2});
  view.setKernel(kernel);
  view.showLanguage("llvm");
  view.chooseLine(2);
  EXPECT_EQ(selection.origins(), Origins{2});
  view.clear();
  EXPECT_TRUE(view.text().isEmpty());
}

TEST_F(Widgets, EveryTrialIsAPointAndAClickChoosesOne) {
  TuneView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  EXPECT_EQ(view.current(), "aa01");
  view.setTrials("aa01", capsule::trials());
  view.setTrials("bb02", {});
  EXPECT_EQ(view.trials()->points(), 120);
  EXPECT_GT(view.trials()->failures(), 5);
  view.setSpace(capsule::space("aa01"));
  std::optional<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) { wanted = t; });
  view.chooseTrial(3);
  EXPECT_EQ(wanted, 3u);
  EXPECT_EQ(knobsOf(view.chosenSchedule().text), knobsOf(capsule::trials()[3].schedule.text));
  QTest::keyClick(view.list(), Qt::Key_Down);
  EXPECT_EQ(view.current(), "bb02");
  EXPECT_EQ(selection.origins(), (Origins{2, 5}));
  view.grab();
}

TEST_F(Widgets, WhatReordersTextIsShownInItsPlaceAndKept) {
  ExpressionEditor editor(&theme, true);
  const std::string text = "let N = 3  # \u202e }{ 1+1 \u202c ok";
  editor.setBytes(text);
  EXPECT_EQ(editor.toPlainText(), QString::fromUtf8("let N = 3  # \ufffd }{ 1+1 \ufffd ok"));
  EXPECT_EQ(editor.bytes(), text);
  editor.moveCaretTo(text.size());
  editor.insertAtCaret("!");
  EXPECT_EQ(editor.bytes(), text + "!") << "only how it is shown is another way";
}

TEST_F(Widgets, KnobsAreSetInTheScheduleAndNowhereElse) {
  const std::string schedule = R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,8]},"version":1})";
  EXPECT_EQ(withKnobs(schedule, {{"tile", "[8,8]"}}), R"({"kind":"contraction","knobs":{"threads":1,"tile":[8,8]},"version":1})");
  EXPECT_EQ(knobsOf("no json").size(), 0u);
}

TEST_F(Widgets, LatencyKeepsEveryStepAndSwap) {
  LatencyPlot plot(&theme, false);
  plot.resize(600, 300);
  for (int i = 0; i < 5000; ++i) {
    StepEvent e;
    e.step = i, e.ms = 5.0 / (1 + i / 1000);
    plot.addStep(e);
  }
  plot.addSwap({"aa01", "Y", 9, 4, 1, 1000, 0});
  EXPECT_EQ(plot.steps(), 5000);
  EXPECT_EQ(plot.swaps(), 1);
  QTemporaryDir folder;
  EXPECT_EQ(plot.save(folder.filePath("p.svg")), "");
  // The axis that it shares with the loss on the screen is its own in a file.
  QFile file(folder.filePath("p.svg"));
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  const QString svg = QString::fromUtf8(file.readAll());
  EXPECT_TRUE(svg.contains(">step</text>")) << svg.right(2000).toStdString();
  EXPECT_TRUE(svg.contains(QLatin1Char('>') + grouped(1000) + "</text>")) << svg.right(2000).toStdString();
  auto* shown = qobject_cast<QCustomPlot*>(plot.canvas());
  ASSERT_TRUE(shown);
  EXPECT_FALSE(shown->xAxis->tickLabels());
  EXPECT_TRUE(shown->xAxis->label().isEmpty());
}

TEST_F(Widgets, EverySwapHasItsNumberInThePlot) {
  LatencyPlot plot(&theme, false);
  plot.resize(700, 300);
  for (int i = 1; i <= 1000; ++i) {
    StepEvent e;
    e.step = i, e.ms = 5;
    plot.addStep(e);
  }
  for (const std::int64_t step : {100, 102, 104, 600, 605, 900}) plot.addSwap({"aa01", "Y", 9, 4, 1, step, 0});
  plot.tickLabels(Qt::Horizontal);
  auto* shown = qobject_cast<QCustomPlot*>(plot.canvas());
  ASSERT_TRUE(shown);
  QStringList numbers;
  for (int i = 0; i < shown->itemCount(); ++i)
    if (const auto* text = qobject_cast<QCPItemText*>(shown->item(i));
        text && text->position->typeY() == QCPItemPosition::ptAxisRectRatio)
      numbers << text->text();
  EXPECT_EQ(numbers, (QStringList{"1–3", "4–5", "6"}));
}

TEST_F(Widgets, TensorValuesFillTheTableAndHostileOnesDoNot) {
  TensorView view(&theme, false);
  view.setTensor("W", {2, 3, 4});
  EXPECT_EQ(view.request().begin, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(view.request().end, (std::vector<std::int64_t>{1, 3, 4}));
  TensorSlice slice;
  slice.tensor = "W", slice.begin = {0, 0, 0}, slice.end = {1, 3, 4}, slice.max = 1;
  view.setSlice(slice, {1, 2, 3});
  EXPECT_EQ(view.model()->rowCount(), 3);
  EXPECT_EQ(view.model()->data(view.model()->index(0, 2), Qt::DisplayRole).toString(), "3.000");
  EXPECT_EQ(view.model()->data(view.model()->index(2, 3), Qt::DisplayRole).toString(), "NaN");
  slice.end = {1, 1 << 30, 1 << 30};
  view.setSlice(slice, {});
  EXPECT_EQ(view.model()->rowCount(), 0);
  slice.end = {};
  view.setSlice(slice, {});
}

// Larger text moves what stands beside the words, and hides none of them.
TEST_F(Widgets, WordsOfARowHaveTheirRoomAtEveryScale) {
  QWidget window;
  auto* layout = new QHBoxLayout(&window);
  auto* tabs = new TabRow(&theme, {"Formula", "Source", "Derivation", "Values"});
  auto* beside = label("Z");
  layout->addWidget(tabs);
  layout->addWidget(beside);
  layout->addStretch(1);
  window.resize(900, 60);
  window.show();
  for (const double scale : {1.0, 1.5, 2.0, 1.0}) {
    theme.setTextScale(scale);
    QCoreApplication::processEvents();
    const QFontMetrics bold(theme.ui(12, QFont::DemiBold));
    EXPECT_GE(tabs->width(), bold.horizontalAdvance("FormulaSourceDerivationValues")) << scale;
    EXPECT_GE(tabs->height(), bold.height()) << scale;
    EXPECT_GE(beside->x(), tabs->x() + tabs->width()) << scale;
  }
}

// A picture among words is as high as it is, and never wider than its page.
TEST_F(Widgets, APictureAmongWordsTakesItsOwnRoom) {
  const QTemporaryDir folder;
  const QString file = folder.filePath("picture.png");
  QImage picture(600, 400, QImage::Format_RGB32);
  picture.fill(Qt::red);
  ASSERT_TRUE(picture.save(file));
  MarkdownView view(&theme);
  view.resize(800, 100);
  const auto heightOf = [&](const QString& markdown, int width) {
    view.setMarkdown(markdown.arg(file));
    return view.heightForWidth(width);
  };
  EXPECT_NEAR(heightOf("![x](%1)", 800), 400, 40);
  EXPECT_NEAR(heightOf("words ![x](%1) words", 800), 450, 50);
  EXPECT_NEAR(heightOf("> words\n> ![x](%1)", 800), 430, 50);
  EXPECT_NEAR(heightOf("words\n\n- a\n- ![x](%1)", 330), 250, 60);
  // Behind words that leave it no room.
  const QString quote = QStringLiteral("> words and more ![x](%1) words");
  for (const int width : {660, 700, 800}) EXPECT_NEAR(heightOf(quote, width), 450, 50) << width;
  for (const char* markdown : {"![x](%1)", "> words\n> ![x](%1)", "- a\n- ![x](%1)"}) {
    heightOf(QString::fromLatin1(markdown), 330);
    EXPECT_LE(view.document()->idealWidth(), 331) << markdown;
    EXPECT_GT(view.heightForWidth(800), 400) << markdown;
  }
}

// Its name begins in the folder of the notebook, wherever the process runs.
TEST_F(Widgets, APictureIsFoundBesideItsNotebook) {
  const QTemporaryDir folder, other;
  QImage picture(60, 400, QImage::Format_RGB32);
  picture.fill(Qt::red);
  ASSERT_TRUE(QDir(folder.path()).mkdir("pictures") && picture.save(folder.filePath("pictures/a b.png")));
  MarkdownView view(&theme);
  view.setMarkdown("![x](pictures/a%20b.png)");
  EXPECT_LT(view.heightForWidth(800), 100) << "a notebook without a file has no folder";
  view.setFolder(folder.path());
  EXPECT_GT(view.heightForWidth(800), 400);
  view.setFolder(other.path());
  EXPECT_LT(view.heightForWidth(800), 100);
}

// Neither of these ever ends, and a notebook may come from anywhere.
TEST_F(Widgets, APictureIsReadFromAFileAlone) {
  const QTemporaryDir folder;
  const QString pipe = folder.filePath("pipe.png");
  ASSERT_EQ(::mkfifo(pipe.toLocal8Bit().constData(), 0600), 0);
  MarkdownView view(&theme);
  for (const QString& name :
       {QStringLiteral("/dev/zero"), QStringLiteral("file:///dev/zero"), pipe, folder.path(), folder.filePath("none.png"),
        QStringLiteral("http://localhost/x.png"), QStringLiteral("/proc/kmsg")}) {
    view.setMarkdown(QStringLiteral("before ![x](%1) behind").arg(name));
    EXPECT_LT(view.heightForWidth(800), 100) << name.toStdString();
    EXPECT_TRUE(view.document()->toPlainText().contains("behind"));
    EXPECT_TRUE(view.document()->toPlainText().contains(QStringLiteral("before [picture %1: ").arg(name))) << "why it is not there";
  }
}

TEST_F(Widgets, ATableHasThinLinesAndRoom) {
  MarkdownView view(&theme);
  view.setMarkdown("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nwords");
  const QTextTable* table = nullptr;
  for (const QTextFrame* frame : view.document()->rootFrame()->childFrames()) table = qobject_cast<const QTextTable*>(frame);
  ASSERT_TRUE(table);
  EXPECT_TRUE(table->format().borderCollapse());
  EXPECT_EQ(table->format().border(), 1);
  EXPECT_GE(table->format().cellPadding(), 4);
  const double line = QFontMetricsF(theme.ui(15)).height();
  view.heightForWidth(800);
  const auto height = view.document()->documentLayout()->frameBoundingRect(const_cast<QTextTable*>(table)).height();
  EXPECT_GT(height, 3 * (line + 8));
  EXPECT_LT(height, 3 * (line + 16) + 14) << "a row is a line with room around it";
}

// What happened meanwhile hides nothing that was said before: bars stand under one another, and what there is no room for is counted.
TEST_F(Widgets, MessagesStandUnderOneAnother) {
  MessageBar bar(&theme);
  bar.resize(600, 400);
  EXPECT_TRUE(bar.isHidden());
  bar.ask("left", "A session ended.", {"Open it"});
  bar.ask("open", "pic.png is no notebook.", {});
  bar.show();
  EXPECT_EQ(bar.shown(), QStringList({"open", "left"}));
  QStringList read;
  for (const QLabel* l : bar.findChildren<QLabel*>())
    if (l->isVisible()) read << l->text();
  EXPECT_TRUE(read.contains("A session ended.") && read.contains("pic.png is no notebook.")) << read.join('|').toStdString();
  QString key;
  int index = -2;
  QObject::connect(&bar, &MessageBar::answered, [&](const QString& k, int i) { key = k, index = i; });
  QPushButton* open = nullptr;
  for (QPushButton* b : bar.findChildren<QPushButton*>())
    if (b->accessibleName() == "Open it") open = b;
  ASSERT_TRUE(open && open->isVisible()) << "one that waits is answered, too";
  QTest::mouseClick(open, Qt::LeftButton);
  EXPECT_EQ(key, "left");
  EXPECT_EQ(index, 0);
  EXPECT_EQ(bar.shown(), QStringList({"open"}));
  for (const char* more : {"a", "b", "c"}) bar.ask(more, more, {});
  EXPECT_EQ(bar.shown(), QStringList({"c", "b", "a"}));
  bool counted = false;
  for (const QLabel* l : bar.findChildren<QLabel*>())
    counted = counted || (l->isVisible() && l->text().startsWith("1 message waits"));
  EXPECT_TRUE(counted);
  bar.ask("open", "pic.png is a picture.", {});
  EXPECT_EQ(bar.shown(), QStringList({"open", "c", "b"})) << "what nobody could read comes forward";
  for (const char* gone : {"c", "b", "a", "open"}) bar.dismiss(gone);
  EXPECT_TRUE(bar.isHidden());
}

// Whatever is said in one of them, or asked again by its answer, no two change places.
TEST_F(Widgets, AMessageKeepsItsPlaceWhileItLives) {
  MessageBar bar(&theme);
  bar.resize(600, 400);
  const auto askAll = [&] {
    for (const char* key : {"c", "b", "a"}) bar.ask(key, key, {"Compare"});
  };
  const auto press = [&](int i) {
    QPushButton* there = nullptr;
    QCoreApplication::processEvents();
    for (QPushButton* b : bar.findChildren<QPushButton*>())
      if (b->isVisible() && b->parentWidget() == bar.layout()->itemAt(i)->widget()) there = b;
    if (there) QTest::mouseClick(there, Qt::LeftButton);
    return there != nullptr;
  };
  askAll();
  bar.show();
  bar.ask("b", "It was compared.", {"Compare"});
  EXPECT_EQ(bar.shown(), QStringList({"a", "b", "c"}));
  bar.askNow("c", "Close it?", {"Close"});
  EXPECT_EQ(bar.shown(), QStringList({"a", "b", "c"}));
  QStringList gone;
  const auto again = QObject::connect(&bar, &MessageBar::answered, [&](const QString& key, int) {
    for (const QString& k : gone) bar.dismiss(k);
    bar.ask(key, "Still.", {"Compare"});
  });
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(press(i)) << i;
    EXPECT_EQ(bar.shown(), QStringList({"a", "b", "c"})) << i;
  }
  // What its answer settles of others takes nobody else's place.
  gone = QStringList{"a"};
  ASSERT_TRUE(press(1));
  EXPECT_EQ(bar.shown(), QStringList({"b", "c"}));
  // One that is asked later is a new one.
  QObject::disconnect(again);
  ASSERT_TRUE(press(1));
  bar.ask("c", "c", {"Compare"});
  EXPECT_EQ(bar.shown(), QStringList({"c", "b"}));
}

// Who presses twice answers one of them.
TEST_F(Widgets, AMessageThatIsAnsweredMovesNoOtherUnderThePointer) {
  QWidget window;
  auto* layout = new QVBoxLayout(&window);
  auto* bar = new MessageBar(&theme);
  layout->addWidget(bar);
  layout->addStretch(1);
  window.resize(700, 400);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  QStringList told;
  QObject::connect(bar, &MessageBar::answered, [&](const QString& key, int) { told << key; });
  bar->ask("c", "The third.", {"Do it"});
  bar->ask("b", "The second.", {"Do it"});
  bar->ask("a", "The first.", {"Do it"});
  const auto buttonOf = [&](int i) {
    std::vector<QPushButton*> all;
    for (QPushButton* b : bar->findChildren<QPushButton*>())
      if (b->isVisible()) all.push_back(b);
    std::sort(all.begin(), all.end(), [](const QPushButton* x, const QPushButton* y) {
      return x->mapToGlobal(QPoint()).y() < y->mapToGlobal(QPoint()).y();
    });
    return i < static_cast<int>(all.size()) ? all[static_cast<std::size_t>(i)] : nullptr;
  };
  ASSERT_TRUE(QTest::qWaitFor([&] { return buttonOf(2) && buttonOf(1)->mapTo(&window, QPoint()).y() > 40; }));
  const QPoint second = buttonOf(1)->mapTo(&window, buttonOf(1)->rect().center());
  QTest::mouseMove(buttonOf(0));
  const QPoint first = buttonOf(0)->mapTo(&window, buttonOf(0)->rect().center());
  for (int i = 0; i < 2; ++i)
    if (QWidget* under = window.childAt(first)) QTest::mouseClick(under, Qt::LeftButton), QCoreApplication::processEvents();
  EXPECT_EQ(told, QStringList{"a"});
  EXPECT_EQ(bar->shown(), QStringList({"b", "c"}));
  EXPECT_EQ(buttonOf(0)->mapTo(&window, buttonOf(0)->rect().center()), second);
  // Where the pointer has gone the rest closes up.
  QTest::mouseMove(&window, QPoint(350, 390));
  EXPECT_TRUE(QTest::qWaitFor([&] { return buttonOf(0)->mapTo(&window, QPoint()).y() < second.y() - 20; }));
  // A new one takes the place of the one before.
  QTest::mouseMove(buttonOf(0));
  QTest::mouseClick(buttonOf(0), Qt::LeftButton);
  bar->ask("d", "The fourth.", {"Do it"});
  EXPECT_EQ(bar->shown(), QStringList({"d", "c"}));
  EXPECT_TRUE(QTest::qWaitFor([&] { return buttonOf(1) && buttonOf(1)->mapTo(&window, QPoint()).y() < second.y() + 20; }));
}

}  // namespace
}  // namespace nf
