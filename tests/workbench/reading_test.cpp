// SPDX-License-Identifier: GPL-3.0-or-later
// Finding, replacing, zooming and exporting a notebook; where its tabs stand; a very long cell.
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QSettings>
#include <QTabBar>
#include <set>

#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/find_bar.h"
#include "widgets/formula_view.h"
#include "widgets/graph_view.h"
#include "widgets/markdown_view.h"
#include "widgets/message_bar.h"
#include "widgets/outline_view.h"

namespace nf {
namespace {

const std::string kWords =
    "# %% [markdown]\n# # Alpha\n# alpha and beta\n\n"
    "# %%\nlet alpha = 2\nparam W[alpha, 3] = normal(0, 1)\n\n"
    "# %%\nY[i, j] = W[i, j] * alpha + alpha\n";

struct Reading : Window {
  void openWords() {
    write(kWords);
    openChecked();
  }
  void find(const QString& text) {
    window->action("edit.find")->trigger();
    ASSERT_TRUE(window->finder()->isVisible());
    window->finder()->field()->clear();
    QTest::keyClicks(window->finder()->field(), text);
  }
  std::string chosen() {
    CellView* v = window->notebook()->view(window->notebook()->activeCell());
    return v->editor()->textCursor().selectedText().toStdString();
  }
};

TEST_F(Reading, FindCountsGoesOnAndEndsAtThePlace) {
  openWords();
  find("alpha");
  FindBar* bar = window->finder();
  EXPECT_EQ(bar->countText(), "1 of 6");
  EXPECT_EQ(cell(0)->found().places.size(), 2u);
  QTest::keyClick(bar->field(), Qt::Key_Return);
  QTest::keyClick(bar->field(), Qt::Key_Return);
  EXPECT_EQ(bar->countText(), "3 of 6");
  EXPECT_EQ(cell(1)->found().here, 0);
  QTest::keyClick(bar->field(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(bar->countText(), "2 of 6");
  EXPECT_EQ(cell(1)->status(), protocol::CellStatus::Ok);  // nothing was run by it
  QTest::keyClick(bar->field(), Qt::Key_Return, Qt::ShiftModifier);
  QTest::keyClick(bar->field(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(bar->countText(), "6 of 6");
  QTest::keyClick(bar->field(), Qt::Key_Escape);
  EXPECT_FALSE(bar->isVisible());
  EXPECT_EQ(window->notebook()->activeCell(), cell(2)->id());
  EXPECT_TRUE(cell(2)->editor()->hasFocus());
  EXPECT_EQ(chosen(), "alpha");
  EXPECT_EQ(cell(2)->editor()->selectionBytes().first, std::string("Y[i, j] = W[i, j] * alpha + ").size());
  EXPECT_TRUE(cell(0)->found().places.empty());
  EXPECT_EQ(document().text(), kWords);
}

TEST_F(Reading, FindStartsAtTheCaretAndTakesWhatIsSelected) {
  openWords();
  window->notebook()->activate(cell(1)->id(), true);
  cell(1)->editor()->selectBytes(4, 9);
  QTest::keyClick(cell(1)->editor(), Qt::Key_F, Qt::ControlModifier);
  EXPECT_EQ(window->finder()->field()->text(), "alpha");
  EXPECT_EQ(window->finder()->countText(), "3 of 6");
  window->action("edit.findNext")->trigger();
  EXPECT_EQ(window->finder()->countText(), "4 of 6");
  window->action("edit.findPrevious")->trigger();
  EXPECT_EQ(window->finder()->countText(), "3 of 6");
}

TEST_F(Reading, TheSearchGoesOnOnceItIsClosed) {
  openWords();
  window->action("edit.findNext")->trigger();
  ASSERT_TRUE(window->finder()->isVisible()) << "nothing was looked for yet";
  find("alpha");
  QTest::keyClick(window->finder()->field(), Qt::Key_Escape);
  const auto place = [&] {
    for (CellView* v : window->notebook()->cells())
      if (v->editor()->hasFocus()) return v->bodyBegin + v->editor()->selectionBytes().first;
    return std::size_t(0);
  };
  std::vector<std::size_t> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(place());
    EXPECT_EQ(QString::fromStdString(std::string(chosen())).toLower(), "alpha");
    window->action("edit.findNext")->trigger();
  }
  EXPECT_EQ(std::set<std::size_t>(all.begin(), all.end()).size(), 6u);
  EXPECT_EQ(place(), all[0]) << "round";
  window->action("edit.findPrevious")->trigger();
  EXPECT_EQ(place(), all[5]);
  EXPECT_FALSE(window->finder()->isVisible());
  for (CellView* v : window->notebook()->cells()) EXPECT_TRUE(v->found().places.empty());
}

TEST_F(Reading, CapitalsCountWhereThatIsWished) {
  openWords();
  find("Alpha");
  EXPECT_EQ(window->finder()->countText(), "1 of 6");
  QTest::mouseClick(window->finder()->findChild<QAbstractButton*>(), Qt::LeftButton);
  EXPECT_EQ(window->finder()->countText(), "1 of 1");
  find("gamma");
  EXPECT_EQ(window->finder()->countText(), "nothing");
}

TEST_F(Reading, TypingWhileTheSearchIsOpenKeepsItsCount) {
  openWords();
  find("alpha");
  window->notebook()->activate(cell(2)->id(), true);
  cell(2)->editor()->moveCaretTo(cell(2)->editor()->bytes().size());
  QTest::keyClicks(cell(2)->editor(), " + alpha");
  EXPECT_EQ(window->finder()->countText(), "1 of 7");
}

TEST_F(Reading, ReplaceGoesOnAndAllIsOneStep) {
  openWords();
  window->action("edit.replace")->trigger();
  FindBar* bar = window->finder();
  QTest::keyClicks(bar->field(), "alpha");
  QTest::keyClicks(bar->replacement(), "gain");
  QTest::keyClick(bar->field(), Qt::Key_Return);
  QTest::keyClick(bar->field(), Qt::Key_Return);
  EXPECT_EQ(bar->countText(), "3 of 6");
  QTest::keyClick(bar->replacement(), Qt::Key_Return);
  EXPECT_NE(document().text().find("let gain = 2"), std::string::npos);
  EXPECT_EQ(bar->countText(), "3 of 5");
  const std::string before = document().text();
  for (QPushButton* b : bar->findChildren<QPushButton*>()) {
    if (b->text() != "Replace all") continue;
    b->setFocus();
    QTest::keyClick(b, Qt::Key_Return);
  }
  EXPECT_EQ(document().text(),
            "# %% [markdown]\n# # gain\n# gain and beta\n\n"
            "# %%\nlet gain = 2\nparam W[gain, 3] = normal(0, 1)\n\n"
            "# %%\nY[i, j] = W[i, j] * gain + gain\n");
  EXPECT_EQ(bar->countText(), "nothing");
  std::vector<CellId> ids;
  for (const CellView* v : window->notebook()->cells()) ids.push_back(v->id());
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), before);
  window->action("edit.redo")->trigger();
  EXPECT_EQ(document().text().find("alpha"), std::string::npos);
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), before);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(cell(i)->id(), ids[i]) << i;
}

// What was selected was replaced: nothing of the new text is.
TEST_F(Reading, ReplaceAllLeavesNoPartOfTheNewTextSelected) {
  openWords();
  window->notebook()->activate(cell(1)->id(), true);
  cell(1)->editor()->selectBytes(4, 9);
  window->action("edit.replace")->trigger();
  FindBar* bar = window->finder();
  bar->field()->selectAll();
  QTest::keyClicks(bar->field(), "alpha");
  QTest::keyClicks(bar->replacement(), "alphabet");
  for (QPushButton* b : bar->findChildren<QPushButton*>())
    if (b->text() == "Replace all") QTest::mouseClick(b, Qt::LeftButton);
  ASSERT_TRUE(cell(1)->editor()->bytes().starts_with("let alphabet = 2"));
  const auto [begin, end] = cell(1)->editor()->selectionBytes();
  EXPECT_EQ(begin, end);
}

TEST_F(Reading, OnThePageOfTheGraphFindIsForNodes) {
  openWords();
  window->showPage(MainWindow::Page::Explain);
  window->action("edit.find")->trigger();
  EXPECT_TRUE(window->explain()->finder()->hasFocus());
  EXPECT_FALSE(window->finder()->isVisible());
}

TEST_F(Reading, ZoomIsOfTheNotebookAndIsKept) {
  openChecked();
  ASSERT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->sizeHint().height() > 60; }));
  const int lineHeight = QFontMetrics(cell(1)->editor()->font()).lineSpacing(), cellHeight = cell(1)->editor()->height(),
            formula = cell(2)->formulaView()->sizeHint().height();
  const int outline = window->outline()->font().pixelSize();
  QTest::keyClick(window->notebook(), Qt::Key_Plus, Qt::ControlModifier);
  QTest::keyClick(window->notebook(), Qt::Key_Equal, Qt::ControlModifier);
  EXPECT_DOUBLE_EQ(window->textScale(), 1.25);
  EXPECT_GT(QFontMetrics(cell(1)->editor()->font()).lineSpacing(), lineHeight);
  EXPECT_GT(cell(1)->editor()->height(), cellHeight);
  EXPECT_GT(cell(2)->formulaView()->sizeHint().height(), formula);
  EXPECT_EQ(window->outline()->font().pixelSize(), outline);
  {
    MainWindow again(&theme, {NF_SCRIPTED_ENGINE});
    again.restoreLayout();
    EXPECT_DOUBLE_EQ(again.textScale(), 1.25);
    again.forgetSession();
  }
  QTest::keyClick(window->notebook(), Qt::Key_0, Qt::ControlModifier);
  EXPECT_DOUBLE_EQ(window->textScale(), 1);
  EXPECT_EQ(cell(1)->editor()->height(), cellHeight);
  QTest::keyClick(window->notebook(), Qt::Key_Minus, Qt::ControlModifier);
  EXPECT_LT(window->textScale(), 1);
  QTest::keyClick(window->notebook(), Qt::Key_0, Qt::ControlModifier);
}

TEST_F(Reading, OnThePageOfTheGraphZoomIsOfTheGraph) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return !window->explain()->graph()->graph().nodes.empty(); }));
  const double before = window->explain()->graph()->zoom();
  QTest::keyClick(window->explain()->graph(), Qt::Key_Plus, Qt::ControlModifier);
  EXPECT_GT(window->explain()->graph()->zoom(), before);
  EXPECT_DOUBLE_EQ(window->textScale(), 1);
  window->showPage(MainWindow::Page::Devices);
  EXPECT_FALSE(window->action("view.zoomIn")->isEnabled());
}

TEST_F(Reading, TheTabsAreInSightOnEveryPageOfANotebook) {
  openChecked();
  QFile other(folder.filePath("other.nf"));
  ASSERT_TRUE(other.open(QIODevice::WriteOnly));
  other.write("# %%\nlet z = 3\n");
  other.close();
  window->openFile(other.fileName());
  for (const auto page : {MainWindow::Page::Author, MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Author}) {
    window->showPage(page);
    ASSERT_TRUE(wait([&] { return window->tabs()->isVisible() && window->tabs()->height() > 20; }));
    QTest::mouseClick(window->tabs(), Qt::LeftButton, {}, window->tabs()->tabRect(0).center());
    EXPECT_EQ(document().text(), capsule::kText);
    QTest::mouseClick(window->tabs(), Qt::LeftButton, {}, window->tabs()->tabRect(1).center());
    EXPECT_EQ(document().text(), "# %%\nlet z = 3\n");
    EXPECT_EQ(window->page(), page);
  }
}

TEST_F(Reading, TheReportIsWrittenByTheCommandLine) {
  write(kWords);
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_NEOFLOW, "engine"});
  window->openFile(path());
  window->show();
  const auto exported = [&](const QString& name) {
    window->exportHtml(folder.filePath(name));
    EXPECT_TRUE(wait([&] { return !window->exporting(); }));
    QFile file(folder.filePath(name));
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  };
  EXPECT_TRUE(exported("saved.html").contains("alpha"));
  // What is not saved is in it, too.
  document().replace(document().text().size(), document().text().size(), "Zebra[i] = sum[j] Y[i, j]\n", "Edit");
  window->notebook()->followDocument();
  const QByteArray edited = exported("edited.html");
  EXPECT_TRUE(edited.contains("Zebra"));
  EXPECT_TRUE(edited.contains("<title>" + QFileInfo(path()).fileName().toUtf8() + "</title>")) << "by the name of its file";
  EXPECT_EQ(onDisk(), kWords);
  // A mistake is said in the window, and nothing is written.
  document().replace(0, document().text().size(), "# %%\nY[i] = nowhere[i]\n", "Edit");
  window->notebook()->followDocument();
  EXPECT_TRUE(exported("wrong.html").isEmpty());
  EXPECT_EQ(window->messages()->text(),
            "The report was not written: a mistake in cell 1, line 1 keeps it from being made, `nowhere` is not defined");
  const auto buttons = window->messages()->buttons();
  ASSERT_FALSE(buttons.isEmpty());
  EXPECT_EQ(window->messages()->answers().front(), "Go to cell 1, line 1");
  window->showPage(MainWindow::Page::Explain);
  QTest::mouseClick(buttons.front(), Qt::LeftButton);
  EXPECT_EQ(window->page(), MainWindow::Page::Author);
  EXPECT_EQ(window->notebook()->caretByte(), document().text().find("nowhere"));
}

TEST_F(Reading, ThePdfHasEveryCell) {
  openChecked();
  ASSERT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->formulas().size() == 2; }));
  const auto exported = [&] {
    window->exportPdf(folder.filePath("out.pdf"));
    QFile file(folder.filePath("out.pdf"));
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  };
  for (const auto mode : {Theme::Mode::Dark, Theme::Mode::Light}) {
    theme.setMode(mode);
    EXPECT_TRUE(exported().startsWith("%PDF"));
    EXPECT_EQ(theme.mode(), mode);
  }
  // Each cell that is taken out leaves less of it.
  for (qsizetype before = exported().size(); document().cells().size() > 1;) {
    document().replace(document().cells().back().begin, document().text().size(), "", "Edit");
    window->notebook()->followDocument();
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
    const qsizetype now = exported().size();
    EXPECT_LT(now, before) << document().cells().size() << " cells";
    before = now;
  }
  // Its text is there, not its frame alone.
  const auto withText = [&](const std::string& words) {
    const std::string cell = "# %% [markdown]\n# " + words + "\n\n";
    document().replace(0, 0, cell, "Edit");
    window->notebook()->followDocument();
    const qsizetype size = exported().size();
    document().replace(0, cell.size(), "", "Edit");
    window->notebook()->followDocument();
    return size;
  };
  std::string words;
  for (std::uint64_t i = 1; i <= 300; ++i) words += std::to_string(i * i * 0x9e3779b97f4a7c15u) + " ";
  EXPECT_GT(withText(words), withText("a") + 3000);
  window->exportPdf("/nowhere/out.pdf");
  EXPECT_TRUE(window->messages()->text().contains("/nowhere/out.pdf"));
}

// What is written there is read on paper, and what a button offers stands there in words.
TEST_F(Reading, PaperShowsWhatIsReadWhereSomebodyWrites) {
  openChecked();
  ASSERT_EQ(cell(0)->kind(), CellKind::Markdown);
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClick(cell(1)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(cell(1)->editor(), " + nowhere");
  ASSERT_TRUE(
      wait([&] { return window->workspace().analysisIsCurrent() && cell(1)->findChildren<QPushButton*>("fix").size() == 1; }));
  const QString fix = cell(1)->findChild<QPushButton*>("fix")->text();
  auto* markdown = cell(0)->findChild<MarkdownView*>();
  auto* fixes = cell(1)->findChild<QLabel*>("fixes");
  ASSERT_TRUE(markdown && fixes);
  window->notebook()->activate(cell(0)->id(), true);
  ASSERT_TRUE(cell(0)->editor()->isVisible());
  for (const std::size_t i : {0, 1}) cell(i)->setOnPaper(true);
  EXPECT_TRUE(cell(0)->editor()->isHidden());
  EXPECT_FALSE(markdown->isHidden());
  EXPECT_EQ(fixes->text(), "Fix: " + fix);
  for (const std::size_t i : {0, 1}) cell(i)->setOnPaper(false);
  EXPECT_FALSE(cell(0)->editor()->isHidden());
  EXPECT_TRUE(markdown->isHidden());
  EXPECT_EQ(fixes->text(), "Fix:");
  window->notebook()->activate(cell(0)->id(), true);
  window->exportPdf(folder.filePath("out.pdf"));
  EXPECT_EQ(window->focusWidget(), cell(0)->editor()) << "who writes goes on writing";
}

TEST_F(Reading, TheWindowIsNoLargerThanAScreenOf150Percent) {
  openChecked();
  for (const auto page : {MainWindow::Page::Author, MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
    window->showPage(page);
    const QSize least = window->minimumSizeHint();
    EXPECT_LE(least.width(), 1600 * 2 / 3 - 8) << static_cast<int>(page);
    EXPECT_LE(least.height(), 1000 * 2 / 3 - 40) << static_cast<int>(page);
  }
}

// A line of a long cell that is typed in lays out that line, not all of them.
TEST_F(Reading, AVeryLongCellIsTypedIn) {
  std::string text = "# %%\nlet n = 4\n";
  for (int i = 0; i < 4000; ++i) text += "let a" + std::to_string(i) + " = " + std::to_string(i) + "\n";
  write(text);
  openChecked();
  ExpressionEditor* editor = cell(0)->editor();
  QStringList dirty;
  QObject::connect(editor->document(), &QTextDocument::contentsChange, editor,
                   [&](int at, int removed, int added) { dirty << QStringLiteral("%1 %2 %3").arg(at).arg(removed).arg(added); });
  window->notebook()->activate(cell(0)->id(), true);
  const std::size_t middle = text.find("let a2000");
  editor->moveCaretTo(middle - cell(0)->bodyBegin);
  QTest::keyClicks(editor, "# ");
  EXPECT_EQ(document().text().substr(middle, 11), "# let a2000");
  for (const QString& change : dirty)
    EXPECT_LT(change.section(' ', 1, 1).toInt() + change.section(' ', 2, 2).toInt(), 200) << change.toStdString();
  EXPECT_EQ(editor->blockCount(), 4001);
}

TEST_F(Reading, ADoubleClickInTheOutlineOpensTheCell) {
  openChecked();
  Q_EMIT window->outline()->cellOpened(cell(1)->id());
  EXPECT_TRUE(cell(1)->editor()->hasFocus());
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return !window->explain()->graph()->graph().nodes.empty(); }));
  Q_EMIT window->explain()->graph()->nodeOpened("Y");
  EXPECT_EQ(window->page(), MainWindow::Page::Author);
  EXPECT_EQ(document().text().substr(window->notebook()->caretByte(), 3), "Y[b");
}

}  // namespace
}  // namespace nf
