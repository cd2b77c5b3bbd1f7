// SPDX-License-Identifier: GPL-3.0-or-later
// By keys alone: menus, tabs, the locator, the search; and what has room on a small screen.
#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSet>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTabBar>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <QTreeWidget>
#include <set>

#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/command_note.h"
#include "widgets/command_palette.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/find_bar.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/message_bar.h"
#include "widgets/outline_view.h"
#include "widgets/plots.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

struct Keyboard : Window {
  QMenu* menuOpen() { return qobject_cast<QMenu*>(QApplication::activePopupWidget()); }
  void closeMenus() {
    while (QWidget* popup = QApplication::activePopupWidget()) popup->close();
  }
  ExpressionEditor* editing(std::size_t i) {
    window->notebook()->activate(cell(i)->id(), true);
    return cell(i)->editor();
  }
  void go(const QString& text) {
    QTest::keyClick(window.get(), Qt::Key_K, Qt::ControlModifier);
    ASSERT_TRUE(window->palette()->isVisible());
    QTest::keyClicks(window->palette()->field(), text);
  }
};

// Deleted while it trains and brought back, a cell has its panel, which has heard all of the run; deleted after it, its curve.
TEST_F(Keyboard, ATrainCellThatWasDeletedComesBackWithItsRun) {
  writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400; }));
  const CellId id = cell(3)->id();
  const int steps = cell(3)->train()->plot()->steps();
  ASSERT_GT(steps, 0);
  const auto remove = [&] {
    QTest::keyClick(editing(3), Qt::Key_Escape);
    QTest::keyClick(window->notebook(), Qt::Key_D);
    QTest::keyClick(window->notebook(), Qt::Key_D);
    ASSERT_EQ(window->notebook()->cells().size(), 3u);
  };
  const auto undo = [&] {
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Z, Qt::ControlModifier);
    ASSERT_EQ(window->notebook()->cells().size(), 4u);
    ASSERT_EQ(cell(3)->id(), id);
    EXPECT_EQ(window->notebook()->activeCell(), id);
    EXPECT_EQ(cell(3)->train()->plot()->steps(), steps);
    EXPECT_TRUE(cell(3)->train()->isVisible());
  };
  remove();
  EXPECT_TRUE(window->workspace().running());
  EXPECT_EQ(window->messages()->key(), "deleted");
  undo();
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_TRUE(cell(3)->train()->running());
  EXPECT_EQ(cell(3)->status(), protocol::CellStatus::Running);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  EXPECT_EQ(cell(3)->status(), protocol::CellStatus::Running);
  // Stopped while it is deleted, it comes back as stopped; put away, the word about it does not come again.
  remove();
  ASSERT_EQ(window->messages()->buttons().size(), 1);
  QTest::mouseClick(window->messages()->buttons().front(), Qt::LeftButton);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  undo();
  EXPECT_FALSE(cell(3)->train()->running());
  EXPECT_TRUE(cell(3)->train()->result().startsWith("Stopped")) << cell(3)->train()->result().toStdString();
  EXPECT_TRUE(cell(3)->train()->resume()->isVisible());
  remove();
  EXPECT_TRUE(window->messages()->key().isEmpty());
  undo();
}

TEST_F(Keyboard, MenusOpen) {
  openChecked();
  const std::pair<Qt::Key, const char*> menus[] = {{Qt::Key_F, "File"}, {Qt::Key_E, "Edit"},  {Qt::Key_V, "View"},
                                                   {Qt::Key_C, "Cell"}, {Qt::Key_R, "Run"},   {Qt::Key_X, "Explain"},
                                                   {Qt::Key_T, "Tune"}, {Qt::Key_O, "Tools"}, {Qt::Key_H, "Help"}};
  for (const auto& [key, name] : menus) {
    QTest::keyClick(editing(1), key, Qt::AltModifier);
    ASSERT_TRUE(wait([&] { return menuOpen() != nullptr; })) << name;
    EXPECT_EQ(menuOpen()->title().remove(QLatin1Char('&')), name);
    closeMenus();
  }
  QTest::keyClick(editing(1), Qt::Key_F10);
  ASSERT_TRUE(wait([&] { return menuOpen() != nullptr; }));
  EXPECT_EQ(menuOpen()->title(), "&File");
  closeMenus();
  EXPECT_EQ(document().text(), capsule::kText);
}

// Whatever is hidden with the keyboard, it does not come to a button of the toolbar that the next Space would press.
TEST_F(Keyboard, SpaceUndoesNothingByAccident) {
  openChecked();
  QTest::keyClicks(editing(1), "#");
  const std::string text = document().text();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && window->action("edit.undo")->isEnabled(); }));
  window->showPage(MainWindow::Page::Tune);
  QPushButton* tune = nullptr;
  for (QPushButton* b : window->tune()->findChildren<QPushButton*>())
    if (b->text() == "Tune") tune = b;
  ASSERT_TRUE(tune);
  const auto spaceIsHarmless = [&] {
    QWidget* now = QApplication::focusWidget();
    EXPECT_TRUE(now && !window->findChild<QToolBar*>()->isAncestorOf(now)) << (now ? now->objectName().toStdString() : "nothing");
    QTest::keyClick(now ? now : window.get(), Qt::Key_Space);
    EXPECT_EQ(document().text(), text);
  };
  // A command of the palette leaves the keyboard where it was.
  window->tune()->list()->setFocus();
  QTest::keyClick(window->tune()->list(), Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(window->palette()->isVisible());
  QTest::keyClicks(window->palette()->field(), "dark");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  EXPECT_FALSE(window->palette()->isVisible());
  EXPECT_EQ(QApplication::focusWidget(), window->tune()->list());
  spaceIsHarmless();
  go("nothing of this");
  QTest::keyClick(window->palette()->field(), Qt::Key_Escape);
  EXPECT_EQ(QApplication::focusWidget(), window->tune()->list());
  // What is hidden with the keyboard leaves it to no other button, of its page neither.
  tune->setFocus();
  tune->hide();
  EXPECT_FALSE(qobject_cast<QAbstractButton*>(QApplication::focusWidget()));
  spaceIsHarmless();
  tune->show();
  // The last one of the page, after which Qt begins with the first of the window.
  std::vector<QWidget*> after;
  for (QWidget* w = tune; w && after.size() < 200; w = w->nextInFocusChain())
    if (window->tune()->isAncestorOf(w) && w->isVisible() && w->isEnabled() && w->focusPolicy() & Qt::TabFocus) after.push_back(w);
  ASSERT_FALSE(after.empty());
  after.back()->setFocus();
  if (QApplication::focusWidget() == after.back()) after.back()->hide();
  spaceIsHarmless();
  // By Tab the buttons are in reach.
  auto* undo = window->findChild<QToolButton*>("edit.undo");
  for (int i = 0; i < 200 && QApplication::focusWidget() != undo; ++i) QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
  ASSERT_EQ(QApplication::focusWidget(), undo);
  QTest::keyClick(undo, Qt::Key_Space);
  EXPECT_EQ(document().text(), capsule::kText);
}

// What a key asked is answered by keys, and the keys are the notebook's again.
TEST_F(Keyboard, AQuestionHasTheKeysUntilItIsAnswered) {
  openChecked();
  QTest::keyClicks(editing(1), "#");
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  const std::string text = document().text();
  ASSERT_NE(text, capsule::kText);
  QWidget* before = QApplication::focusWidget();
  const auto ask = [&](Qt::Key key) {
    QTest::keyClick(window.get(), key, Qt::ControlModifier);
    ASSERT_EQ(window->messages()->key(), "close");
    ASSERT_EQ(QApplication::focusWidget(), window->messages()->buttons().front());
  };
  ask(Qt::Key_W);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
  EXPECT_EQ(QApplication::focusWidget(), window->messages()->buttons().at(1));
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_EQ(QApplication::focusWidget(), before);
  EXPECT_EQ(document().text(), text);
  // By its letter, too, which is no menu's.
  ask(Qt::Key_Q);
  QSet<QString> letters;
  for (const QPushButton* b : window->messages()->buttons()) letters << QKeySequence::mnemonic(b->text()).toString();
  ASSERT_EQ(letters.size(), 3);
  EXPECT_FALSE(letters.contains(QString()));
  for (const QAction* menu : window->menuBar()->actions())
    EXPECT_FALSE(letters.contains(QKeySequence::mnemonic(menu->text()).toString())) << menu->text().toStdString();
  const QString cancel = QKeySequence::mnemonic(window->messages()->buttons().at(2)->text()).toString();
  QTest::keyClick(QApplication::focusWidget(), cancel.back().toLower().toLatin1(), Qt::AltModifier);
  ASSERT_TRUE(wait([&] { return window->messages()->key().isEmpty(); })) << "pressed as it is seen";
  EXPECT_TRUE(window->isVisible());
  EXPECT_EQ(QApplication::focusWidget(), before);
  ask(Qt::Key_W);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
  EXPECT_EQ(onDisk(), text);
  EXPECT_TRUE(document().text().empty()) << "closed";
}

TEST_F(Keyboard, ABarThatWaitsIsReachedByOneKey) {
  openChecked();
  ExpressionEditor* editor = editing(1);
  QTest::keyClick(editor, Qt::Key_F6);
  EXPECT_EQ(window->statusText(), "No message waits");
  EXPECT_EQ(QApplication::focusWidget(), editor);
  window->messages()->ask("restored", "first", {});
  window->messages()->ask("left", "second", {"Open it", "Later"});
  ASSERT_EQ(QApplication::focusWidget(), editor) << "nobody asked for it";
  QTest::keyClick(editor, Qt::Key_F6);
  EXPECT_EQ(QApplication::focusWidget(), window->messages()->buttons().front());
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_F6);
  ASSERT_TRUE(QApplication::focusWidget());
  EXPECT_EQ(QApplication::focusWidget()->accessibleName(), "Dismiss") << "the other one has no answers";
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_F6);
  EXPECT_EQ(QApplication::focusWidget(), editor);
  // Asked anew with other answers, it keeps the keys.
  QTest::keyClick(editor, Qt::Key_F6);
  window->messages()->ask("left", "second", {"Later"});
  EXPECT_EQ(QApplication::focusWidget(), window->messages()->buttons().front());
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  EXPECT_EQ(QApplication::focusWidget(), editor);
  EXPECT_EQ(window->messages()->shown(), QStringList{"restored"});
  EXPECT_EQ(document().text(), capsule::kText);
}

TEST_F(Keyboard, TabsChangeWhereverOneIs) {
  openChecked();
  window->action("file.new")->trigger();
  window->action("file.new")->trigger();
  ASSERT_EQ(window->tabs()->count(), 3);
  window->showTab(0);
  QTest::keyClick(editing(1), Qt::Key_Tab, Qt::ControlModifier);
  EXPECT_EQ(window->tabs()->currentIndex(), 1);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab, Qt::ControlModifier);
  EXPECT_EQ(window->tabs()->currentIndex(), 2);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab, Qt::ControlModifier);
  EXPECT_EQ(window->tabs()->currentIndex(), 0);
  QTest::keyClick(editing(1), Qt::Key_Backtab, Qt::ControlModifier | Qt::ShiftModifier);
  EXPECT_EQ(window->tabs()->currentIndex(), 2);
  window->showTab(0);
  window->showPage(MainWindow::Page::Explain);
  QTest::keyClick(window->explain()->graph(), Qt::Key_Tab, Qt::ControlModifier);
  EXPECT_EQ(window->tabs()->currentIndex(), 1);
  EXPECT_EQ(document().text(), "");
}

TEST_F(Keyboard, TheCursorsPlaceIsThatOfTheTab) {
  openChecked();
  QLabel* place = nullptr;
  const auto find = [&] {
    place = nullptr;
    for (QLabel* l : window->statusBar()->findChildren<QLabel*>())
      if (l->text().startsWith("Ln ")) place = l;
    return place;
  };
  QFile file(folder.filePath("other.nf"));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write("# %%\nlet z = 3\n");
  file.close();
  window->openFile(file.fileName());
  EXPECT_FALSE(find()) << "no cell of it is written in";
  window->showTab(0);
  editing(1)->moveCaretTo(20);
  ASSERT_TRUE(find());
  QTest::keyClick(cell(1)->editor(), Qt::Key_PageDown, Qt::ControlModifier);
  ASSERT_EQ(window->tabs()->currentIndex(), 1);
  EXPECT_FALSE(find()) << place->text().toStdString();
}

// At the end of a line, where the text before the key has a shorter one.
TEST_F(Keyboard, TheCursorsPlaceIsTrueWhileOneTypes) {
  write("# %%\nlet N = 4\nlet M = 5\n");
  open();
  ExpressionEditor* editor = editing(0);
  editor->moveCaretTo(9);
  const auto place = [&] {
    QString said;
    for (QLabel* l : window->statusBar()->findChildren<QLabel*>())
      if (l->text().startsWith("Ln ")) said = l->text();
    return said;
  };
  EXPECT_EQ(place(), "Ln 2, Col 10");
  QTest::keyClicks(editor, "7");
  EXPECT_EQ(place(), "Ln 2, Col 11");
  QTest::keyClick(editor, Qt::Key_Backspace);
  EXPECT_EQ(place(), "Ln 2, Col 10");
}

TEST_F(Keyboard, ACellIsRunAsSoonAsTheEngineIsThere) {
  open();
  ASSERT_EQ(window->workspace().engineState(), EngineLink::State::Starting);
  QTest::keyClick(editing(3), Qt::Key_Return, Qt::ControlModifier);
  EXPECT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->plot()->steps() > 0; }));
}

TEST_F(Keyboard, WithoutAnEngineARunOffersToStartIt) {
  open(QStringLiteral("/bin/false"));
  ASSERT_TRUE(wait([&] { return window->workspace().engineState() == EngineLink::State::Dead; }));
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  QToolButton* cross = nullptr;
  for (QToolButton* b : window->messages()->findChildren<QToolButton*>())
    if (b->accessibleName() == "Dismiss") cross = b;
  ASSERT_TRUE(cross);
  QTest::mouseClick(cross, Qt::LeftButton);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  QTest::keyClick(editing(3), Qt::Key_Return, Qt::ControlModifier);
  ASSERT_EQ(window->messages()->key(), "engine");
  ASSERT_EQ(window->messages()->buttons().size(), 1);
  EXPECT_EQ(window->messages()->answers().front(), "Restart the engine");
}

TEST_F(Keyboard, TheLocatorFindsWholeWordsFirst) {
  std::string text = capsule::kText;
  text.insert(0, "# %% [markdown]\n# Training starts here.\n\n");
  write(text);
  openChecked();
  go("train");
  ASSERT_GT(window->palette()->list()->count(), 1);
  EXPECT_TRUE(window->palette()->list()->item(0)->text().startsWith("train "))
      << window->palette()->list()->item(0)->text().toStdString();
}

TEST_F(Keyboard, TheLocatorFindsGradientsByTheirName) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  go("dL");
  ASSERT_GT(window->palette()->list()->count(), 0);
  EXPECT_EQ(window->palette()->list()->item(0)->text(), "dL/dW");
  // As the language writes it, too.
  window->palette()->field()->clear();
  QTest::keyClicks(window->palette()->field(), "d(L)/d(W)");
  ASSERT_GT(window->palette()->list()->count(), 0);
  EXPECT_EQ(window->palette()->list()->item(0)->text(), "dL/dW");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  EXPECT_EQ(window->page(), MainWindow::Page::Author);
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  go("no such thing at all");
  EXPECT_TRUE(window->palette()->nothing().contains("no such thing at all"));
  EXPECT_FALSE(window->palette()->list()->isVisible());
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  EXPECT_TRUE(window->palette()->isVisible()) << "there is nothing to go to";
  window->palette()->field()->clear();
  EXPECT_TRUE(window->palette()->nothing().isEmpty());
  EXPECT_TRUE(window->palette()->list()->isVisible());
}

TEST_F(Keyboard, TextIsListedAsItReads) {
  write("# %% [markdown]\n# ## Strides of `p` and *q*\n# more\n\n# %%\nlet N = 2\n");
  open();
  auto* tree = window->findChild<OutlineView*>()->tree();
  ASSERT_GT(tree->topLevelItem(0)->childCount(), 0);
  EXPECT_EQ(tree->topLevelItem(0)->child(0)->text(0), "Strides of p and q");
  go("strides");
  ASSERT_GT(window->palette()->list()->count(), 0);
  EXPECT_EQ(window->palette()->list()->item(0)->text(), "Strides of p and q");
}

TEST_F(Keyboard, AGradientIsCheckedFromThePalette) {
  openChecked();
  go("dL/dW");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  ASSERT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  EXPECT_TRUE(window->inspector()->checked().isEmpty());
  QTest::keyClick(window.get(), Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  QTest::keyClicks(window->palette()->field(), "numeric");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  ASSERT_TRUE(wait([&] { return window->inspector()->checked().startsWith("numeric check"); }));
  // What was said of another one is not left standing.
  for (QTreeWidgetItemIterator it(window->outline()->findChild<QTreeWidget*>()); *it; ++it)
    if ((*it)->text(0) == "A") Q_EMIT window->outline()->tensorChosen("A");
  window->action("run.check")->trigger();
  EXPECT_TRUE(window->statusText().contains("no gradient")) << window->statusText().toStdString();
  Q_EMIT window->outline()->tensorChosen("d(L)/d(W)");
  window->action("run.check")->trigger();
  ASSERT_TRUE(wait([&] { return !window->statusText().contains("no gradient"); }));
}

TEST_F(Keyboard, EscapeClosesTheSearchFromEachOfItsParts) {
  openChecked();
  FindBar* bar = window->finder();
  const auto parts = bar->findChildren<QWidget*>();
  int tried = 0;
  for (QWidget* part : parts) {
    if (!(part->focusPolicy() & Qt::TabFocus)) continue;
    window->action("edit.replace")->trigger();
    ASSERT_TRUE(bar->isVisible());
    part->setFocus(Qt::TabFocusReason);
    ASSERT_TRUE(part->hasFocus());
    QTest::keyClick(part, Qt::Key_Escape);
    EXPECT_FALSE(bar->isVisible()) << part->metaObject()->className() << " " << part->accessibleName().toStdString();
    ++tried;
  }
  EXPECT_GE(tried, 7);
  window->action("edit.replace")->trigger();
  QTest::keyClicks(bar->field(), "Y");
  QTest::keyClicks(bar->replacement(), "Z");
  for (QPushButton* b : bar->findChildren<QPushButton*>())
    if (b->text() == "Replace all") QTest::mouseClick(b, Qt::LeftButton);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  EXPECT_FALSE(bar->isVisible());
}

TEST_F(Keyboard, ACommandDecidesAboutTheChosenFusion) {
  openChecked();
  const auto command = [&](const QString& text) {
    QTest::keyClick(window.get(), Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
    ASSERT_TRUE(window->palette()->isVisible());
    QTest::keyClicks(window->palette()->field(), text);
    QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  };
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(2);
  ASSERT_TRUE(window->explain()->card()->forbid()->isVisible());
  command("forbid");
  EXPECT_TRUE(document().text().find("hint split ") != std::string::npos) << document().text();
  ASSERT_TRUE(wait([&] { return window->explain()->card()->release()->isVisible(); }));
  command("reward");
  EXPECT_EQ(document().text(), capsule::kText);
}

TEST_F(Keyboard, TheCardSaysWhatItHasMeasured) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(2);
  DecisionCard* card = window->explain()->card();
  EXPECT_TRUE(card->measured().isEmpty());
  QTest::mouseClick(card->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return !card->measured().isEmpty(); }));
  EXPECT_TRUE(card->measured().contains("Timed: the kernels that differ")) << card->measured().toStdString();
  EXPECT_TRUE(card->measured().contains("paired: the median of the")) << card->measured().toStdString();
  EXPECT_TRUE(card->measured().contains("one pass of the loop"));
  EXPECT_TRUE(card->measured().contains("A, apart, 2 kernels: Y, dY"));
  EXPECT_TRUE(card->measured().contains("B, fused, 1 kernel: Y + dY"));
  const QString verdict = card->whatIf();
  EXPECT_TRUE(verdict.contains("Fused is slower")) << verdict.toStdString();
  // It stays when the page is left, and the decision read again.
  QSignalSpy read(&window->workspace(), &Workspace::fusionArrived);
  window->showPage(MainWindow::Page::Author);
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return read.count() > 0; }));
  EXPECT_EQ(card->whatIf(), verdict);
  EXPECT_TRUE(card->intervals());
  EXPECT_TRUE(window->explain()->fusion()->report().decisions[2].measuredSaving);
  window->explain()->chooseDecision(1);
  EXPECT_TRUE(card->measured().isEmpty());
}

TEST_F(Keyboard, KeysWorkAfterAClickBesideTheCells) {
  openChecked();
  editing(1)->moveCaretTo(0);
  const auto cells = window->notebook()->cells().size();
  QWidget* viewport = window->notebook()->viewport();
  QTest::mouseClick(viewport, Qt::LeftButton, {}, QPoint(viewport->width() / 2, viewport->height() - 4));
  EXPECT_FALSE(window->notebook()->editing());
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_B);
  EXPECT_EQ(window->notebook()->cells().size(), cells + 1);
}

// Text that is typed where no cell is written in is commands: each says what it did, and Z takes it back.
TEST_F(Keyboard, LettersForWholeCellsSayWhatTheyDid) {
  openChecked();
  QLabel* place = nullptr;
  editing(1);
  for (QLabel* l : window->statusBar()->findChildren<QLabel*>())
    if (l->text().startsWith("Ln ")) place = l;
  ASSERT_TRUE(place);
  const CommandNote* note = window->notebook()->commandNote();
  const auto type = [&](Qt::Key key, Qt::KeyboardModifiers with = {}) { QTest::keyClick(window->notebook(), key, with); };
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  EXPECT_EQ(place->text(), "Whole cell chosen: Enter writes into it");
  EXPECT_EQ(note->words(), "");
  window->showPage(MainWindow::Page::Explain);
  EXPECT_EQ(place->text(), "") << "there are no cells";
  window->showPage(MainWindow::Page::Author);
  EXPECT_EQ(place->text(), "Whole cell chosen: Enter writes into it");
  const std::string before = document().text();
  type(Qt::Key_A);
  EXPECT_EQ(note->words(), "A: a cell above, Z undoes it");
  type(Qt::Key_M);
  EXPECT_EQ(note->words(), "M: cell turned into text, Z undoes it");
  type(Qt::Key_S);
  EXPECT_TRUE(
      note->words().startsWith("A: a cell above, M: cell turned into text, Z undoes all of it. \u201cs\u201d is not written"))
      << note->words().toStdString();
  type(Qt::Key_Z);
  EXPECT_EQ(note->words(), "");
  EXPECT_EQ(document().text(), before);
  type(Qt::Key_A);
  type(Qt::Key_M);
  type(Qt::Key_Z);
  EXPECT_NE(document().text(), before) << "of two commands, the last one";
  type(Qt::Key_Z);
  EXPECT_EQ(document().text(), before);
  type(Qt::Key_Y);
  EXPECT_EQ(document().text(), before) << "it is code";
  type(Qt::Key_Z, Qt::ShiftModifier);
  EXPECT_NE(document().text(), before) << "made again";
  type(Qt::Key_Z);
  EXPECT_EQ(document().text(), before);
  type(Qt::Key_D);
  EXPECT_EQ(note->words(), "D again deletes the cell");
  EXPECT_TRUE(note->undo()->isHidden()) << "nothing was done";
  type(Qt::Key_D);
  EXPECT_EQ(note->words(), "D: cell deleted, Z undoes it");
  QTest::mouseClick(note->undo(), Qt::LeftButton);
  EXPECT_EQ(document().text(), before);
  EXPECT_EQ(note->words(), "");
  type(Qt::Key_Return);
  EXPECT_TRUE(place->text().startsWith("Ln ")) << place->text().toStdString();
}

// Words are not obeyed letter by letter.
TEST_F(Keyboard, TextTypedOverAWholeCellDoesNothingToIt) {
  openChecked();
  editing(1);
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  const CommandNote* note = window->notebook()->commandNote();
  const std::string before = document().text();
  QTest::keyClicks(window->notebook(), "six, max! bad zoo");
  EXPECT_EQ(document().text(), before);
  EXPECT_EQ(note->words(), "\u201csix, max! bad zoo\u201d is not written: a whole cell is chosen, Enter writes into it");
  EXPECT_TRUE(note->undo()->isHidden());
  EXPECT_TRUE(window->notebook()->viewport()->rect().contains(note->geometry()));
  QTest::qWait(1100);
  QTest::keyClick(window->notebook(), Qt::Key_X);
  EXPECT_NE(document().text(), before) << "a letter of its own is a command";
  EXPECT_EQ(note->words(), "X: cell cut, Z undoes it");
  QTest::mouseClick(window->notebook()->viewport(), Qt::LeftButton);
  EXPECT_EQ(note->words(), "");
}

// The letters that a word begins with may be commands: all that they did is said, and taken back at once.
TEST_F(Keyboard, AWordThatBeginsWithCommandsIsUndoneAtOnce) {
  openChecked();
  editing(1);
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  const CommandNote* note = window->notebook()->commandNote();
  const std::string before = document().text();
  const std::size_t cells = document().cells().size();
  QTest::keyClicks(window->notebook(), "xylophone delta");
  EXPECT_EQ(document().cells().size(), cells - 1) << "Y does nothing to a cell of code";
  EXPECT_TRUE(note->words().startsWith("X: cell cut, Z undoes it. \u201clophone delta\u201d is not written"))
      << note->words().toStdString();
  QTest::mouseClick(note->undo(), Qt::LeftButton);
  EXPECT_EQ(document().text(), before);
  EXPECT_EQ(note->words(), "");
  QTest::keyClicks(window->notebook(), "axm");
  QTest::keyClicks(window->notebook(), "ost");
  EXPECT_TRUE(
      note->words().startsWith("A: a cell above, X: cell cut, M: cell turned into text, Z undoes all of it. \u201cost\u201d"))
      << note->words().toStdString();
  QTest::mouseClick(note->undo(), Qt::LeftButton);
  EXPECT_EQ(document().text(), before);
  // Several cells that were pasted are one command.
  QApplication::clipboard()->setText("# %%\nlet p = 1\n\n# %%\nlet q = 2\n");
  QTest::keyClick(window->notebook(), Qt::Key_V);
  EXPECT_EQ(document().cells().size(), cells + 2);
  QTest::keyClick(window->notebook(), Qt::Key_Z);
  EXPECT_EQ(document().text(), before);
}

TEST_F(Keyboard, AClickOnAButtonLeavesTheKeyboardWhereItWas) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->isVisible() && !window->workspace().running(); }));
  editing(1)->moveCaretTo(0);
  const auto click = [&] {
    for (QToolButton* b : cell(3)->train()->findChildren<QToolButton*>())
      if (b->isVisible() && b->isEnabled()) return QTest::mouseClick(b, Qt::LeftButton);
    FAIL() << "no button";
  };
  click();
  EXPECT_EQ(QApplication::focusWidget(), cell(1)->editor());
  QTest::keyClicks(QApplication::focusWidget(), "#");
  EXPECT_TRUE(cell(1)->editor()->toPlainText().startsWith("#"));
  // Of whole cells it is the notebook's, and a click beside the cells leaves the text.
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  click();
  EXPECT_EQ(QApplication::focusWidget(), window->notebook());
  editing(1);
  QTest::mouseClick(window->notebook()->viewport(), Qt::LeftButton, {}, QPoint(4, window->notebook()->viewport()->height() - 4));
  EXPECT_EQ(QApplication::focusWidget(), window->notebook());
  EXPECT_FALSE(window->notebook()->editing());
}

TEST_F(Keyboard, KeysBehindAClickInAnOutputAreThoseOfWholeCells) {
  openChecked();
  run(2);
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView() && cell(2)->tensorView()->model()->rowCount() > 0; }));
  cell(2)->showResult(1);
  editing(1)->moveCaretTo(0);
  QPlainTextEdit* source = nullptr;
  for (QPlainTextEdit* e : cell(2)->findChildren<QPlainTextEdit*>())
    if (e->isVisible()) source = e;
  ASSERT_TRUE(source);
  const QPoint in = source->viewport()->rect().center();
  QTest::mouseClick(window->windowHandle(), Qt::LeftButton, {}, source->viewport()->mapTo(window.get(), in));
  ASSERT_EQ(QApplication::focusWidget(), source);
  EXPECT_FALSE(window->notebook()->editing());
  EXPECT_EQ(window->notebook()->activeCell(), cell(2)->id());
  const std::string text = document().text();
  QTest::keyClick(source, Qt::Key_B);
  EXPECT_NE(document().text(), text) << "a cell below";
}

// Tab writes in a cell's text: outside it leads to what the chosen cell has to press, never into a text.
TEST_F(Keyboard, TabGoesFromAChosenCellToItsButtons) {
  openChecked();
  const std::string text = document().text();
  editing(2);
  QTest::keyClick(cell(2)->editor(), Qt::Key_Escape);
  ASSERT_EQ(QApplication::focusWidget(), window->notebook());
  std::set<const QWidget*> seen;
  for (int i = 0; i < 12; ++i) {
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
    const QWidget* now = QApplication::focusWidget();
    ASSERT_TRUE(now);
    EXPECT_TRUE(i > 0 || cell(2)->isAncestorOf(now)) << now->metaObject()->className();
    EXPECT_FALSE(qobject_cast<const ExpressionEditor*>(now));
    seen.insert(now);
  }
  EXPECT_GT(seen.size(), 4u);
  EXPECT_EQ(document().text(), text);
}

TEST_F(Keyboard, EnterPressesTheButtonOfACellThatTabLedTo) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->isVisible() && !window->workspace().running(); }));
  const std::string text = document().text();
  window->notebook()->activate(cell(3)->id(), false);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
  auto* button = qobject_cast<QToolButton*>(QApplication::focusWidget());
  ASSERT_TRUE(button && cell(3)->isAncestorOf(button));
  QSignalSpy pressed(button, &QToolButton::clicked);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
  EXPECT_EQ(pressed.count(), 1);
  EXPECT_FALSE(window->notebook()->editing());
  EXPECT_EQ(document().text(), text);
}

// The inspector goes with what is typed, once it is checked.
TEST_F(Keyboard, WhatIsTypedIsInspected) {
  openChecked();
  ExpressionEditor* editor = editing(1);
  editor->moveCaretTo(editor->bytes().find("W[k, c"));
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "W"; }));
  editor->moveCaretTo(editor->bytes().find("A[b, c"));
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "A"; }));
  editor->selectBytes(editor->bytes().find("W[k, c"), editor->bytes().find("W[k, c"));
  QTest::keyClicks(editor, " ");
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  EXPECT_TRUE(wait([&] { return window->inspector()->tensor() == "W"; })) << window->inspector()->tensor().toStdString();
}

// It is of the last letter: whatever else is done ends it.
TEST_F(Keyboard, WhatALetterDidIsSaidUntilSomethingElseIsDone) {
  openChecked();
  editing(1);
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  const CommandNote* note = window->notebook()->commandNote();
  const auto mistype = [&] {
    QTest::keyClick(window->notebook(), Qt::Key_E);
    ASSERT_TRUE(note->words().startsWith("\u201ce\u201d is not written")) << note->words().toStdString();
  };
  const auto ended = [&](const char* by) { EXPECT_EQ(note->words(), "") << by; };
  mistype();
  QTest::keyClick(window->notebook(), Qt::Key_2, Qt::ControlModifier);
  QTest::keyClick(window.get(), Qt::Key_1, Qt::ControlModifier);
  ended("other views");
  mistype();
  run(3);
  ended("a run");
  mistype();
  document().replace(0, 0, "# x\n", "Edit");
  ended("an edit from elsewhere");
  mistype();
  window->action("edit.undo")->trigger();
  ended("undo");
  ASSERT_TRUE(wait([&] { return cell(2)->formulaView() && !cell(2)->formulaView()->formulas().empty(); }));
  FormulaView* formulas = cell(2)->formulaView();
  // The first click chooses, the second one nothing else, the last one hits no part.
  for (const QPoint at : {QPoint(12, 24), QPoint(12, 24), QPoint(formulas->width() - 2, 1)}) {
    mistype();
    QTest::mouseClick(formulas, Qt::LeftButton, {}, at);
    ended("a click in a formula");
  }
  mistype();
  QTest::mouseClick(window->statusBar(), Qt::LeftButton);
  ended("a click anywhere");
  mistype();
  window->outline()->tree()->setFocus();
  ended("the keys are another's");
}

TEST_F(Keyboard, AnEmptyLastCellIsTheOneToWriteOnIn) {
  openChecked();
  const auto cells = window->notebook()->cells().size();
  window->notebook()->activate(cell(cells - 1)->id(), false);
  window->notebook()->insertBelow();
  ASSERT_EQ(window->notebook()->cells().size(), cells + 1);
  window->action("run.cell")->trigger();
  EXPECT_EQ(window->notebook()->cells().size(), cells + 1);
}

struct SmallScreen : Keyboard {
  void openAt(int width, int height, const QString& name = QStringLiteral("capsule.nf")) {
    if (name != QLatin1String("capsule.nf")) QFile::rename(path(), folder.filePath(name));
    window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
    window->openFile(folder.filePath(name));
    window->resize(width, height);
    window->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(window.get()));
    ASSERT_EQ(window->height(), height);
    window->startEngine();
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  }
};

TEST_F(SmallScreen, EveryColumnOfADecisionIsReached) {
  openAt(1280, 800);
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  QTableView* table = window->explain()->table();
  for (int k = 0; k < FusionModel::kColumns; ++k) EXPECT_FALSE(table->isColumnHidden(k)) << k;
  const auto inSight = [&](int column) {
    const QRect cell = table->visualRect(table->model()->index(0, column));
    return cell.left() >= 0 && cell.right() <= table->viewport()->width();
  };
  for (const int column : {FusionModel::kPair, FusionModel::kState, FusionModel::kReward, FusionModel::kMeasured})
    EXPECT_TRUE(inSight(column)) << column;
  ASSERT_GT(table->horizontalScrollBar()->maximum(), 0);
  table->horizontalScrollBar()->setValue(table->horizontalScrollBar()->maximum());
  for (const int column : {FusionModel::kTrafficUs, FusionModel::kWorkUs, FusionModel::kLaunchUs})
    EXPECT_TRUE(inSight(column)) << column;
  window->resize(1700, 900);
  ASSERT_TRUE(wait([&] { return table->horizontalScrollBar()->maximum() == 0; }));
  for (int k = 0; k < FusionModel::kColumns; ++k) EXPECT_EQ(table->horizontalHeader()->visualIndex(k), k);
}

TEST_F(SmallScreen, AShortNameStandsWholeInTheTitle) {
  openAt(0, 700, QStringLiteral("num.nf"));
  ElidedLabel* name = nullptr;
  for (ElidedLabel* l : window->findChildren<ElidedLabel*>())
    if (l->text() == "num.nf" && l->isVisible()) name = l;
  ASSERT_TRUE(name);
  EXPECT_EQ(name->shown(), "num.nf");
}

TEST_F(SmallScreen, CellsAreNoWiderThanTheirPage) {
  openChecked();
  window->resize(window->minimumSizeHint().width(), 700);
  auto* notebook = window->notebook();
  ASSERT_TRUE(wait([&] { return notebook->widget()->width() == notebook->viewport()->width(); }))
      << notebook->widget()->width() << " of " << notebook->viewport()->width();
}

TEST_F(SmallScreen, TheInspectorScrollsAsFarAsItGoes) {
  openAt(1280, 700);
  InspectorView* inspector = window->inspector();
  ASSERT_TRUE(wait([&] { return !inspector->tensor().isEmpty(); }));
  for (const char* name : {"d(L)/d(W)", "Y", "A"}) {
    SCOPED_TRACE(name);
    Q_EMIT window->outline()->tensorChosen(QString::fromLatin1(name));
    const QScrollArea* area = inspector->scroll();
    const auto fits = [&] {
      const int wanted = area->widget()->layout()->heightForWidth(area->viewport()->width());
      return area->verticalScrollBar()->maximum() == std::max(0, wanted - area->viewport()->height());
    };
    ASSERT_TRUE(wait(fits)) << area->verticalScrollBar()->maximum() << " of "
                            << area->widget()->layout()->heightForWidth(area->viewport()->width());
  }
  window->action("file.new")->trigger();
  EXPECT_TRUE(inspector->tensor().isEmpty());
  EXPECT_TRUE(wait([&] { return inspector->scroll()->verticalScrollBar()->maximum() == 0; })) << "what is empty is not scrolled";
}

}  // namespace
}  // namespace nf
