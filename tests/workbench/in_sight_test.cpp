// SPDX-License-Identifier: GPL-3.0-or-later
// What the page shows: results, the caret and cells that are gone to come into sight, and nothing else moves it.
#include <QScrollBar>
#include <QTreeWidget>
#include <set>

#include "tests/workbench/selected.h"
#include "widgets/expression_editor.h"
#include "widgets/inspector_view.h"
#include "widgets/tensor_view.h"

namespace nf {
namespace {

struct InSight : Selected {
  void compute(std::size_t i) {
    run(i);
    ASSERT_TRUE(wait([&] { return cell(i)->status() == protocol::CellStatus::Ok && !window->workspace().running(); }));
  }
};

TEST_F(InSight, OfACellHigherThanThePageTheResultComesIntoSight) {
  std::string text = "# %%\nlet N = 4\nparam W[N, N] = normal(0, 1)\n";
  for (int i = 0; i < 60; ++i) text += "# line " + std::to_string(i) + "\n";
  openWith(text + "A[i, j] = W[i, j] * 2\nshow A\n");
  window->resize(1300, 640);
  compute(0);
  const QWidget* page = window->notebook()->viewport();
  ASSERT_GT(cell(0)->height(), page->height());
  EXPECT_TRUE(wait([&] {
    const TensorView* values = cell(0)->tensorView();
    const int end = values->mapTo(page, QPoint(0, values->height())).y();
    return values->model()->rowCount() == 4 && end > values->height() && end <= page->height();
  }));
  // Gone to, it is its head that is seen.
  clickInOutline(QStringLiteral("1  W, A"));
  EXPECT_TRUE(wait([&] {
    const int top = cell(0)->mapTo(page, QPoint(0, 0)).y();
    return top >= 0 && top < page->height() / 2;
  }));
}

TEST_F(InSight, WhatACellShowsComesIntoSightWhereTheCellIsLookedAt) {
  openWith(
      "# %%\nlet N = 4\nparam W[N, N] = normal(0, 1)\n\n# %%\nA[i, j] = W[i, j] * 2\nshow A\n\n# %%\nC[i, j] = W[i, j] + 1\nshow "
      "C\n\n"
      "# %%\nD[i] = sum[j] C[i, j] * A[i, j]\nshow D\n\n# %%\nloss L = mean[i, j] (C[i, j] - 3)^2\nshow d(L)/d(W)\n");
  window->resize(1300, 640);
  NotebookView* page = window->notebook();
  const auto inSight = [&](std::size_t i) {
    const TensorView* values = cell(i)->tensorView();
    const int end = values->mapTo(page->viewport(), QPoint(0, values->height())).y();
    return values->isVisible() && values->model()->rowCount() > 0 && end > 0 && end <= page->viewport()->height();
  };
  page->activate(cell(2)->id(), false);
  page->ensureWidgetVisible(cell(2)->editor(), 0, 0);
  compute(2);
  EXPECT_TRUE(wait([&] { return inSight(2); }));
  // Scrolled away from, a cell leaves the page where it is.
  page->activate(cell(3)->id(), false);
  QCoreApplication::processEvents();
  page->verticalScrollBar()->setValue(0);
  ASSERT_TRUE(cell(3)->visibleRegion().isEmpty());
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->tensorView()->model()->rowCount() > 0; }));
  EXPECT_EQ(page->verticalScrollBar()->value(), 0);
}

TEST_F(InSight, ThePageFollowsTheCaretThroughACellThatIsHigher) {
  std::string text = "# %%\nlet a0 = 1\n";
  for (int i = 1; i < 90; ++i) text += "let a" + std::to_string(i) + " = a" + std::to_string(i - 1) + "\n";
  openWith(text);
  window->resize(1300, 560);
  NotebookView* page = window->notebook();
  ExpressionEditor* editor = cell(0)->editor();
  page->activate(cell(0)->id(), true);
  const auto inSight = [&] {
    const int y = editor->viewport()->mapTo(page->viewport(), editor->cursorRect().center()).y();
    return y >= 0 && y < page->viewport()->height();
  };
  ASSERT_GT(editor->height(), page->viewport()->height());
  const auto press = [&](Qt::Key key, Qt::KeyboardModifiers modifiers, int times) {
    for (int i = 0; i < times; ++i) QTest::keyClick(editor, key, modifiers);
    return wait(inSight);
  };
  EXPECT_TRUE(press(Qt::Key_End, Qt::ControlModifier, 1));
  EXPECT_GT(page->verticalScrollBar()->value(), 0);
  EXPECT_TRUE(press(Qt::Key_Return, {}, 30)) << "lines that were not there";
  EXPECT_TRUE(press(Qt::Key_Up, {}, 60));
  EXPECT_TRUE(press(Qt::Key_Home, Qt::ControlModifier, 1));
  EXPECT_TRUE(press(Qt::Key_PageDown, {}, 1));
  const int lines = page->viewport()->height() / editor->fontMetrics().lineSpacing();
  EXPECT_NEAR(editor->textCursor().blockNumber(), lines, lines / 3) << "a page is what is seen";
  EXPECT_TRUE(press(Qt::Key_PageDown, Qt::ShiftModifier, 1));
  EXPECT_TRUE(editor->textCursor().hasSelection());
  EXPECT_TRUE(press(Qt::Key_PageUp, {}, 4));
  EXPECT_EQ(editor->textCursor().blockNumber(), 0);
  EXPECT_TRUE(press(Qt::Key_Down, {}, 70));
  page->scrollToByte(document().text().find("let a5 "), false);
  EXPECT_TRUE(wait([&] {
    const int y =
        editor->mapTo(page->viewport(), editor->rectOf(document().text().find("let a5 ") - cell(0)->bodyBegin).center()).y();
    return y >= 0 && y < page->viewport()->height();
  }));
  EXPECT_TRUE(press(Qt::Key_Down, {}, 40));
  // A click on a line that the page cuts moves nothing under the pointer.
  const QRect line = editor->cursorRect();
  const int cut = editor->viewport()->mapTo(page->widget(), line.topLeft()).y() + line.height() / 2;
  page->verticalScrollBar()->setValue(cut);
  const QPoint below(line.center().x(), line.bottom() - 2);
  QTest::mousePress(editor->viewport(), Qt::LeftButton, {}, below);
  QCoreApplication::processEvents();
  EXPECT_EQ(page->verticalScrollBar()->value(), cut);
  QTest::mouseRelease(editor->viewport(), Qt::LeftButton, {}, below);
  QCoreApplication::processEvents();
  EXPECT_EQ(page->verticalScrollBar()->value(), cut);
  EXPECT_FALSE(editor->textCursor().hasSelection());
  // Scrolled away from, it comes back with what is typed.
  page->verticalScrollBar()->setValue(0);
  ASSERT_FALSE(inSight());
  EXPECT_TRUE(press(Qt::Key_X, {}, 1));
}

// Where a widget stands in another one each time that it is painted.
struct PlacesPainted : QObject {
  PlacesPainted(QWidget* painted, QWidget* in) : m_painted(painted), m_in(in) { painted->installEventFilter(this); }
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() == QEvent::Paint) places.insert(m_painted->mapTo(m_in, QPoint()).y());
    return false;
  }
  std::set<int> places;

 private:
  QWidget *m_painted, *m_in;
};

TEST_F(InSight, ResultsOfTheCellsAboveLeaveWhatIsWrittenInWhereItIs) {
  openWith(
      "# %%\nlet N = 4\nparam W[N, N] = normal(0, 1)\nshow W\n\n# %%\nA[i, j] = W[i, j] * 2\nshow A\n\n# %%\n"
      "C[i, j] = W[i, j] + 1\nshow C\n\n# %%\nD[i] = sum[j] C[i, j] * A[i, j]\n\n# %%\nE[i] = D[i] + 1\nF[i] = E[i] * 2\n");
  window->resize(1300, 640);
  NotebookView* page = window->notebook();
  page->activate(cell(3)->id(), true);
  ExpressionEditor* editor = cell(3)->editor();
  QTest::keyClick(editor, Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(editor, " + W[i, 0]");
  ASSERT_TRUE(wait([&] { return window->workspace().idle() && window->workspace().analysisIsKnown(); }));
  QTest::qWait(50);
  const auto top = [&](const QWidget* w) { return w->mapTo(page->viewport(), QPoint()).y(); };
  const int before = top(editor), first = top(cell(0));
  ASSERT_TRUE(page->viewport()->rect().contains(QPoint(10, before)));
  PlacesPainted painted(editor->viewport(), page->viewport());
  window->action("run.all")->trigger();
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView()->model()->rowCount() == 4 && !window->workspace().running(); }));
  QTest::qWait(50);
  EXPECT_EQ(top(editor), before);
  EXPECT_LT(top(cell(0)), first - 200) << "the results went up";
  EXPECT_LE(painted.places.size(), 1u) << *painted.places.begin() << " to " << *painted.places.rbegin();
  // What is clicked stays under the pointer, whatever stands below.
  QTest::mouseClick(cell(2), Qt::LeftButton, {}, QPoint(4, 4));
  const int head = top(cell(2));
  cell(2)->showResult(0);
  QTest::qWait(50);
  EXPECT_EQ(top(cell(2)), head);
}

TEST_F(InSight, ACellThatShowsWhatIsGivenFarAboveIsGoneTo) {
  std::string text = "# %%\nparam W[4, 4] = normal(0, 1)\nparam V[4] = normal(0, 1)\n\n# %% [markdown]\n";
  for (int i = 0; i < 60; ++i) text += "# Line " + std::to_string(i) + "\n#\n";
  openWith(text + "\n# %%\nshow W\n\n# %%\nshow V\n");
  window->resize(1300, 640);
  ASSERT_TRUE(wait([&] { return window->workspace().idle() && window->inspector()->tensor() == "V"; }));
  ASSERT_TRUE(cell(2)->visibleRegion().isEmpty());
  QTreeWidgetItem* item = nullptr;
  auto* tree = window->outline()->tree();
  for (QTreeWidgetItemIterator it(tree); *it; ++it)
    if ((*it)->text(0).endsWith("W") && (*it)->text(0) != "W") item = *it;  // the last cell of that name
  ASSERT_TRUE(item);
  tree->scrollToItem(item);
  QTest::mouseClick(tree->viewport(), Qt::LeftButton, {}, tree->visualItemRect(item).center());
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "W"; }));
  QTest::qWait(50);
  EXPECT_FALSE(cell(2)->visibleRegion().isEmpty());
}

}  // namespace
}  // namespace nf
