// SPDX-License-Identifier: GPL-3.0-or-later
// A window on a notebook: its text is checked and undone, its commands are found, its views agree.
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QScrollBar>
#include <QToolButton>
#include <algorithm>
#include <functional>
#include <map>

#include "tests/workbench/window.h"
#include "widgets/command_palette.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/message_bar.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

TEST_F(Window, OpensChecksAndRunsNothing) {
  openChecked();
  EXPECT_EQ(window->notebook()->cells().size(), 4u);
  EXPECT_FALSE(window->workspace().running());
  EXPECT_TRUE(window->workspace().steps().empty());
  EXPECT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->formulas().size() == 2; }));
}

// A formula that comes while the window is about to be painted is painted in a cell that has room for it.
TEST_F(Window, FormulasArePaintedInTheirPlace) {
  openChecked();
  const auto settled = [&] { return window->statusText().contains("up to date"); };
  ASSERT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->formulas().size() == 2 && settled(); }));
  FormulaView* formulas = cell(2)->formulaView();
  window->notebook()->bringIntoSight(formulas);
  const auto bottom = [&] { return formulas->mapTo(cell(2), QPoint(0, formulas->height())).y(); };
  ASSERT_TRUE(wait([&] { return bottom() <= cell(2)->height(); }));
  QCoreApplication::processEvents();
  struct Paints : QObject {
    std::function<void()> painted;
    bool eventFilter(QObject*, QEvent* event) override {
      if (event->type() == QEvent::Paint) painted();
      return false;
    }
  } paints;
  std::size_t shown = 0;
  int beyond = 0;
  paints.painted = [&] {
    shown = std::max(shown, formulas->formulas().size());
    beyond = std::max(beyond, bottom() - cell(2)->height());
  };
  formulas->installEventFilter(&paints);
  auto more = formulas->formulas();
  more.push_back(more[0]);
  more.push_back(more[1]);
  QMetaObject::invokeMethod(
      formulas, [&] { formulas->setFormulas(more); }, Qt::QueuedConnection);
  formulas->update();
  ASSERT_TRUE(wait([&] { return shown == 4; }));
  EXPECT_EQ(beyond, 0);
  formulas->removeEventFilter(&paints);
}

// What comes into the cells above it leaves a cell that was gone to where it is, until the page is scrolled.
TEST_F(Window, ACellThatWasGoneToStaysInSight) {
  openChecked();
  ASSERT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->formulas().size() == 2; }));
  NotebookView* notebook = window->notebook();
  CellView* last = cell(3);
  window->showCell(last->id());
  const auto inSight = [&] {
    const int top = last->mapTo(notebook->viewport(), QPoint()).y();
    return top >= 0 && top < notebook->viewport()->height() - 20;
  };
  ASSERT_TRUE(wait(inSight));
  const auto grow = [&] {
    auto more = cell(2)->formulaView()->formulas();
    const std::size_t known = more.size();
    for (int i = 0; i < 20; ++i) more.push_back(more[0]);
    const int before = cell(2)->height();
    cell(2)->formulaView()->setFormulas(more);
    EXPECT_TRUE(wait([&] { return cell(2)->height() > before + 300; })) << known;
    for (int i = 0; i < 10; ++i) QCoreApplication::processEvents();
  };
  grow();
  EXPECT_TRUE(wait(inSight));
  notebook->verticalScrollBar()->triggerAction(QAbstractSlider::SliderToMinimum);
  grow();
  EXPECT_EQ(notebook->verticalScrollBar()->value(), 0);
}

TEST_F(Window, TypingIsCheckedAndShowsItsError) {
  openChecked();
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClick(cell(1)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(cell(1)->editor(), " + nowhere");
  EXPECT_TRUE(document().modified());
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && !cell(1)->diagnosticTexts().isEmpty(); }));
  QTest::mouseClick(cell(1)->findChild<QPushButton*>("fix"), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && cell(1)->diagnosticTexts().isEmpty(); }));
  EXPECT_NE(document().text().find(" + W"), std::string::npos);
}

// A derivation that takes long: what stands there meanwhile is of the text before, and looks so.
TEST_F(Window, AnOldGradientNeverLooksCurrent) {
  openChecked();
  CellView* shows = cell(2);
  InspectorView* inspector = window->inspector();
  const auto settled = [&] { return window->statusText().contains("up to date"); };
  ASSERT_TRUE(wait([&] { return shows->formulaView() && shows->formulaView()->formulas().size() == 2 && settled(); }));
  ASSERT_EQ(inspector->tensor(), "d(L)/d(W)");
  EXPECT_FALSE(shows->resultIsGreyed());
  window->notebook()->activate(cell(1)->id(), true);
  ExpressionEditor* editor = cell(1)->editor();
  QTest::keyClick(editor, Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(editor, " # derives slowly");
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && shows->checking() && inspector->checking(); }));
  EXPECT_TRUE(shows->resultIsGreyed());
  EXPECT_EQ(shows->formulaView()->formulas().size(), 2u) << "greyed, never blank";
  EXPECT_TRUE(window->statusText().startsWith("Checking")) << window->statusText().toStdString();
  // Typed on: still nothing is answered.
  QTest::keyClicks(editor, "er");
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  EXPECT_TRUE(shows->checking() && shows->resultIsGreyed() && inspector->checking());
  EXPECT_FALSE(settled());
  for (int i = 0; i < 8; ++i) QTest::keyClick(editor, Qt::Key_Backspace);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && settled(); }));
  EXPECT_FALSE(shows->checking() || shows->resultIsGreyed() || inspector->checking());
}

TEST_F(Window, UndoIsOneHistoryOverTextCellsAndHints) {
  openChecked();
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "x");
  window->notebook()->insertBelow();
  document().setFusionHint("Y", "L", Document::FusionHint::Split);
  for (int i = 0; i < 3; ++i) window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_FALSE(document().modified());
  for (int i = 0; i < 3; ++i) window->action("edit.redo")->trigger();
  EXPECT_NE(document().text().find("hint split Y, L"), std::string::npos);
}

TEST_F(Window, TheUndoKeyWorksInsideACell) {
  openChecked();
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "abc");
  ASSERT_NE(document().text(), capsule::kText);
  QTest::keyClick(cell(1)->editor(), Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(document().text(), capsule::kText);
}

TEST_F(Window, ABinaryFileIsNotOpened) {
  openChecked();
  QFile file(folder.filePath("a.nf"));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write(
      QByteArray("\x7f"
                 "ELF\0\1",
                 6));
  file.close();
  window->openFile(file.fileName());
  EXPECT_EQ(window->messages()->key(), "open");
  EXPECT_TRUE(window->messages()->text().contains("binary"));
  EXPECT_EQ(document().text(), capsule::kText);
}

TEST_F(Window, TheRunButtonOnTheLastCellAddsNone) {
  openChecked();
  window->notebook()->activate(cell(2)->id(), false);
  auto* button = window->findChild<QToolButton*>("run.cell");
  ASSERT_TRUE(button);
  EXPECT_EQ(button->text(), "Run cell");
  QTest::mouseClick(button, Qt::LeftButton);
  EXPECT_EQ(window->notebook()->activeCell(), cell(3)->id());
  EXPECT_TRUE(cell(3)->neverTrained());
  QTest::mouseClick(button, Qt::LeftButton);
  EXPECT_EQ(window->notebook()->cells().size(), 4u);
  EXPECT_EQ(document().text(), capsule::kText);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->result().startsWith("Trained"); }));
  EXPECT_FALSE(cell(3)->neverTrained());
  // The key writes on.
  QTest::keyClick(window.get(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(window->notebook()->cells().size(), 5u);
}

TEST_F(Window, RunningAShowCellShowsItsValues) {
  openChecked();
  run(2);
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView() && cell(2)->tensorView()->model()->rowCount() > 0; }));
  EXPECT_EQ(cell(2)->tensorView()->tensor(), "Y");
}

TEST_F(Window, OneSelectionReachesEveryView) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->tune()->kernel()->text().isEmpty(); }));
  window->showPage(MainWindow::Page::Author);
  window->notebook()->activate(cell(1)->id(), true);
  cell(1)->editor()->moveCaretTo(cell(1)->editor()->bytes().find("p*2+r"));
  EXPECT_EQ(window->workspace().selection().origins(), protocol::Origins{1});
  EXPECT_EQ(window->inspector()->tensor(), "A");
  ASSERT_TRUE(wait([&] { return window->tune()->kernel()->tintedLines() == std::vector<int>{4}; }));
}

// Wherever the device's constants stand they are the ones that everything is counted with, in the same words, and say what they are of.
TEST_F(Window, TheConstantsOfTheDeviceAreTheSameEverywhere) {
  openChecked();
  ASSERT_TRUE(wait([&] { return !window->constantsText().isEmpty(); }));
  EXPECT_EQ(window->constantsText(), "cpu, 1 of 2 threads:  P_d 21.4 GB/s  ·  P_c 96.0 GFLOP/s  ·  L 2.10 µs");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(1);
  EXPECT_EQ(window->explain()->card()->scope(), "cpu, 1 thread:  P_d 21.4 GB/s  ·  P_c 96.0 GFLOP/s  ·  L 2.10 µs");
  window->showPage(MainWindow::Page::Tune);
  EXPECT_TRUE(window->tune()->ceilings().endsWith("of cpu, 1 thread")) << window->tune()->ceilings().toStdString();
  window->showPage(MainWindow::Page::Devices);
  QStringList words;
  for (const QLabel* l : window->findChildren<QLabel*>())
    if (l->isVisible()) words << l->text();
  EXPECT_TRUE(words.contains("cpu, 1 of 2 threads"));
  EXPECT_TRUE(words.contains("All of it: cpu, 2 threads"));
  EXPECT_TRUE(words.contains("21.4 GB/s"));
  EXPECT_TRUE(words.contains("38.0 GB/s"));
}

TEST_F(Window, ThePaletteFindsAndRunsACommand) {
  openChecked();
  window->action("tools.palette")->trigger();
  ASSERT_TRUE(window->palette()->isVisible());
  QTest::keyClicks(window->palette()->field(), "explain");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  EXPECT_EQ(window->page(), MainWindow::Page::Explain);
  window->action("tools.palette")->trigger();
  QTest::keyClicks(window->palette()->field(), "theme dark");
  ASSERT_GT(window->palette()->list()->count(), 0) << "words in another order";
  EXPECT_TRUE(window->palette()->list()->item(0)->text().contains("Dark", Qt::CaseInsensitive));
  QTest::keyClick(window->palette()->field(), Qt::Key_Escape);
  window->action("tools.go")->trigger();
  QTest::keyClicks(window->palette()->field(), "loss");
  EXPECT_GT(window->palette()->list()->count(), 0);
  QTest::keyClick(window->palette()->field(), Qt::Key_Escape);
  EXPECT_FALSE(window->palette()->isVisible());
}

TEST_F(Window, EveryCommandHasItsOwnKey) {
  open();
  std::map<QString, QString> taken;
  for (const auto& [id, action] : window->actions())
    for (const QKeySequence& key : action->shortcuts()) {
      if (key.isEmpty()) continue;
      EXPECT_FALSE(taken.contains(key.toString()))
          << key.toString().toStdString() << ": " << id.toStdString() << " and " << taken[key.toString()].toStdString();
      taken[key.toString()] = id;
    }
}

TEST_F(Window, LightAndDarkOnEveryPage) {
  openChecked();
  for (const auto mode : {Theme::Mode::Dark, Theme::Mode::Light})
    for (const auto page :
         {MainWindow::Page::Author, MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
      theme.setMode(mode);
      window->showPage(page);
      EXPECT_FALSE(window->grab().isNull());
    }
}

}  // namespace
}  // namespace nf
