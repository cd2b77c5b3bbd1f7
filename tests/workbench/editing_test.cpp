// SPDX-License-Identifier: GPL-3.0-or-later
// Writing in notebooks: new ones, long ones, odd ones; nothing is cut off; cell operations are undone.
#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QTabBar>
#include <QTextBlock>
#include <QToolButton>
#include <QTreeWidget>
#include <QUrl>
#include <QWindow>

#include "core/syntax/rename.h"
#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/expression_editor.h"
#include "widgets/markdown_view.h"
#include "widgets/outline_view.h"
#include "widgets/rename_bar.h"

namespace nf {
namespace {

struct Editing : Window {
  void openBare() {
    window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
    window->showPage(MainWindow::Page::Author);
    window->show();
    window->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
  }
  void type(const QString& text) {
    ASSERT_TRUE(wait([] { return QApplication::focusWidget() != nullptr; }));
    QTest::keyClicks(QApplication::focusWidget(), text);
  }
  // What the views show is what the document holds.
  void followed() {
    const auto& cells = document().cells();
    ASSERT_EQ(window->notebook()->cells().size(), cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      EXPECT_EQ(cell(i)->id(), cells[i].id);
      EXPECT_EQ(cell(i)->kind(), cells[i].kind);
      const std::string body(document().body(cells[i]));
      EXPECT_EQ(cell(i)->editor()->bytes(), cells[i].kind == CellKind::Markdown ? markdownOf(body) : body);
    }
  }
};

TEST_F(Editing, ANewNotebookIsWrittenIntoAtOnce) {
  openBare();
  type("abc xyz");
  EXPECT_EQ(document().text(), "abc xyz");
  QTest::keyClick(window.get(), Qt::Key_N, Qt::ControlModifier);
  EXPECT_EQ(window->tabs()->count(), 2);
  type("let d = 1");
  EXPECT_EQ(document().text(), "let d = 1");
  // So is a cell that is added with the mouse.
  for (QToolButton* button : window->findChildren<QToolButton*>())
    if (button->text() == "Cell") QTest::mouseClick(button, Qt::LeftButton);
  type("dd");
  EXPECT_EQ(document().body(document().cells().back()), "dd");
}

TEST_F(Editing, DeletingAtTheStartOfACellStaysInIt) {
  openBare();
  type("let A = 1");
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  type("b");
  ASSERT_EQ(window->notebook()->cells().size(), 2u);
  const CellId first = cell(0)->id();
  QTest::mouseClick(cell(0)->editor()->viewport(), Qt::LeftButton, {}, QPoint(20, 8));
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Home);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Delete);
  type("l");
  EXPECT_EQ(document().body(document().cells()[0]), "let A = 1");
  EXPECT_EQ(cell(0)->id(), first);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_A, Qt::ControlModifier);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Delete);
  followed();
  ASSERT_EQ(window->notebook()->cells().size(), 2u);
  type("d");
  followed();
  EXPECT_EQ(document().body(document().cells()[0]), "d");
  EXPECT_EQ(cell(0)->id(), first);
  window->action("edit.undo")->trigger();
  window->action("edit.undo")->trigger();
  followed();
  EXPECT_EQ(document().body(document().cells()[0]), "let A = 1");
}

TEST_F(Editing, RunningTheLastCellWritesOnInANewOne) {
  openBare();
  type("let A = 1");
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return, Qt::ShiftModifier);
  type("let B = 2");
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return, Qt::AltModifier);
  // Empty, it is the one to write on in.
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return, Qt::ShiftModifier);
  type("let D = 3");
  followed();
  ASSERT_EQ(document().cells().size(), 3u);
  EXPECT_EQ(document().body(document().cells()[0]), "let A = 1");
  EXPECT_EQ(document().body(document().cells()[1]), "let B = 2");
  EXPECT_EQ(document().body(document().cells()[2]), "let D = 3");
}

TEST_F(Editing, RunningTheLastCellWhereNoneIsInSightAddsNone) {
  openBare();
  type("let A = 1");
  for (const MainWindow::Page page : {MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
    window->showPage(page);
    QTest::keyClick(window.get(), Qt::Key_Return, Qt::ShiftModifier);
    EXPECT_EQ(document().text(), "let A = 1");
  }
  window->showPage(MainWindow::Page::Author);
  QTest::keyClick(window.get(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(document().cells().size(), 2u);
}

TEST_F(Editing, AListOfCompletionsThatHasClosedTakesNoKeyboardFromTheNextCell) {
  openBare();
  type("sh");
  ASSERT_TRUE(cell(0)->editor()->completing());
  type("ow P");
  ASSERT_FALSE(cell(0)->editor()->completing());
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return, Qt::ShiftModifier);
  // Only now it is told that the list had been active, and that the window is again.
  QApplication::processEvents();
  window->windowHandle()->requestActivate();
  QApplication::processEvents();
  EXPECT_EQ(QApplication::focusWidget(), cell(1)->editor());
  type("let zz = 5");
  ASSERT_EQ(document().cells().size(), 2u);
  EXPECT_EQ(document().body(document().cells()[0]), "show P");
  EXPECT_EQ(document().body(document().cells()[1]), "let zz = 5");
}

TEST_F(Editing, ASeparatorThatIsTypedBeginsTheCellThatIsWrittenOnIn) {
  openBare();
  const auto enter = [] { QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return); };
  type("let a = 1");
  enter();
  type("# %%");
  ASSERT_EQ(window->notebook()->cells().size(), 2u);
  enter();
  type("let b = 2");
  EXPECT_EQ(document().text(), "let a = 1\n# %%\nlet b = 2");
  enter();
  type("# %%");
  type("let c = 3");
  EXPECT_EQ(document().text(), "let a = 1\n# %%\nlet b = 2\n# %%\nlet c = 3");
  enter();
  type("# %%");
  type(" [markdown]");
  ASSERT_EQ(window->notebook()->cells().size(), 4u);
  ASSERT_EQ(cell(3)->kind(), CellKind::Markdown);
  enter();
  type("words");
  EXPECT_EQ(markdownOf(document().body(document().cells()[3])), "words");
  enter();
  enter();
  type("more");
  EXPECT_EQ(markdownOf(document().body(document().cells()[3])), "words\n\nmore") << "only that of the separator's line is none";
  followed();
  // Between cells that are there, the return that ends the separator's line makes no blank one.
  window->notebook()->activate(cell(0)->id(), true);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_End, Qt::ControlModifier);
  enter();
  type("# %%");
  enter();
  type("let d = 4");
  ASSERT_EQ(window->notebook()->cells().size(), 5u);
  EXPECT_EQ(document().body(document().cells()[1]), "let d = 4");
  EXPECT_EQ(document().body(document().cells()[2]), "let b = 2");
  followed();
}

TEST_F(Editing, ASeparatorThatIsTypedInMarkdownBeginsACell) {
  openBare();
  const auto enter = [] { QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return); };
  type("# %% [markdown]");
  enter();
  type("Hello");
  enter();
  type("# %%");
  enter();
  type("let a = 3");
  enter();
  type("# %%");
  type(" [markdown]");
  enter();
  type("World");
  EXPECT_EQ(document().text(), "# %% [markdown]\n# Hello\n# %%\nlet a = 3\n# %% [markdown]\n# World");
  ASSERT_EQ(window->notebook()->cells().size(), 3u);
  followed();
  // Above words, it takes them in as they read.
  window->notebook()->activate(cell(0)->id(), true);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Home, Qt::ControlModifier);
  enter();
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Up);
  type("Above");
  enter();
  type("# %%");
  type(" [markdown]");
  ASSERT_EQ(window->notebook()->cells().size(), 4u);
  EXPECT_EQ(cell(0)->editor()->bytes(), "Above");
  EXPECT_EQ(cell(1)->kind(), CellKind::Markdown);
  EXPECT_TRUE(cell(1)->editor()->bytes().ends_with("Hello")) << cell(1)->editor()->bytes();
  followed();
}

// Word by word, as in code, and what is typed next goes on there.
TEST_F(Editing, UndoInMarkdownStaysInItsText) {
  openBare();
  type("# %% [markdown]");
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
  type("One sentence. And another");
  const auto undo = [] { QTest::keyClick(QApplication::focusWidget(), Qt::Key_Z, Qt::ControlModifier); };
  undo();
  EXPECT_EQ(cell(0)->editor()->bytes(), "One sentence. And");
  EXPECT_TRUE(window->notebook()->editing());
  ASSERT_EQ(QApplication::focusWidget(), cell(0)->editor());
  type(" date");
  EXPECT_EQ(cell(0)->editor()->bytes(), "One sentence. And date");
  EXPECT_EQ(document().cells().size(), 1u);
  // The caret goes to what came back, in another cell too.
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
  type("last");
  cell(0)->editor()->moveCaretTo(4);
  type("x");
  window->action("cell.below")->trigger();
  ASSERT_NE(QApplication::focusWidget(), cell(0)->editor());
  window->action("edit.undo")->trigger();
  undo();
  ASSERT_EQ(QApplication::focusWidget(), cell(0)->editor());
  EXPECT_TRUE(cell(0)->editor()->isVisible());
  type("y");
  EXPECT_TRUE(cell(0)->editor()->bytes().starts_with("One ysentence.")) << cell(0)->editor()->bytes();
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  window->action("edit.undo")->trigger();
  EXPECT_FALSE(window->notebook()->editing()) << "nobody wrote in it";
}

// A title is what one writes first.
TEST_F(Editing, ASeparatorMayBeTheFirstLineThatIsTyped) {
  openBare();
  const auto enter = [] { QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return); };
  type("# %% [markdown]");
  ASSERT_EQ(window->notebook()->cells().size(), 1u);
  EXPECT_EQ(cell(0)->kind(), CellKind::Markdown);
  enter();
  type("# Title");
  EXPECT_EQ(markdownOf(document().body(document().cells()[0])), "# Title");
  EXPECT_TRUE(document().text().starts_with("# %% [markdown]\n")) << document().text();
  followed();
}

TEST_F(Editing, ASeparatorTypedAboveWordsTakesThemIn) {
  openBare();
  type("some words");
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Home, Qt::ControlModifier);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Up);
  type("# %% [markdown]");
  ASSERT_EQ(window->notebook()->cells().size(), 1u);
  EXPECT_EQ(cell(0)->kind(), CellKind::Markdown);
  EXPECT_NE(markdownOf(document().body(document().cells()[0])).find("some words"), std::string::npos) << document().text();
  followed();
}

// The same keys make the same lines, whichever end the file's lines have.
TEST_F(Editing, LinesAreWrittenWithTheLineEndsOfTheFile) {
  const std::string start = "# %% [markdown]\n# Title\n# more\n\n# %%\nlet N = 3\ninput X[N] = normal(0, 1)\n\n# %%\nlet Z = 1\n";
  std::string written;
  for (const std::string newline : {"\n", "\r\n"}) {
    SCOPED_TRACE(newline.size());
    std::string text = start;
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + newline.size()))
      text.replace(at, 1, newline);
    write(text);
    open();
    const auto type = [&](std::size_t i, bool atEnd, std::initializer_list<const char*> lines) {
      window->notebook()->activate(cell(i)->id(), true);
      cell(i)->editor()->moveCaretTo(atEnd ? cell(i)->editor()->bytes().size() : 0);
      for (auto line = lines.begin(); line != lines.end(); ++line) {
        if (line != lines.begin()) QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
        QTest::keyClicks(QApplication::focusWidget(), *line);
      }
    };
    type(1, true, {"", "let M = 4", "", "let K = 5"});
    type(1, false, {"let A = 1", "let B = 2", ""});
    type(0, true, {"", "and", "", "on"});
    type(2, true, {"", "let Y = 2", "# %%", "let W = 3", "let V = 4"});
    std::string now = document().text();
    if (newline == "\n") {
      written = now;
      EXPECT_TRUE(now.starts_with("# %% [markdown]\n# Title\n# more\n# and\n#\n# on\n\n# %%\nlet A = 1\nlet B = 2\nlet N = 3\n"))
          << now;
      EXPECT_NE(now.find("normal(0, 1)\nlet M = 4\n\nlet K = 5\n"), std::string::npos) << now;
      EXPECT_NE(now.find("let Z = 1\nlet Y = 2\n# %%\nlet W = 3\nlet V = 4"), std::string::npos) << now;
      continue;
    }
    for (std::size_t at = now.find("\r\n"); at != std::string::npos; at = now.find("\r\n", at + 1)) now.erase(at, 1);
    EXPECT_EQ(now, written);
    std::size_t ends = 0, lines = 0;
    const std::string& kept = document().text();
    for (std::size_t i = 0; i < kept.size(); ++i) lines += kept[i] == '\n', ends += i > 0 && kept[i] == '\n' && kept[i - 1] == '\r';
    EXPECT_EQ(ends, lines) << "lines of both kinds";
  }
}

TEST_F(Editing, ANameBelowThePointerSaysWhatItIs) {
  openBare();
  type("Y[p] = A[p] * conv2d(A)");
  protocol::SymbolInfo tensor, function;
  tensor.name = "A", tensor.kind = protocol::SymbolKind::Input, tensor.detail = "f32 [28]", tensor.definition.begin = 0;
  function.name = "conv2d", function.kind = protocol::SymbolKind::Function, function.detail = "conv2d(X[N,C,H,W]) -> Y";
  function.definition.source = "std/gone.nf";
  ExpressionEditor* editor = cell(0)->editor();
  editor->setSymbols(std::make_shared<const std::vector<protocol::SymbolInfo>>(std::vector{tensor, function}));
  editor->setHints({{editor->bytes().size(), {"p: 28"}}});
  editor->setOutdated(false);
  const auto at = [&](std::size_t byte) {
    const QPoint place = editor->rectOf(byte).center() - editor->viewport()->pos() + QPoint(2, 0);
    return editor->whatIsAt(place).split('\n');
  };
  EXPECT_EQ(at(7), (QStringList{"A: input, f32 [28]", "defined in cell 1, line 1", "Inferred: p: 28"}));
  EXPECT_EQ(at(16), (QStringList{"conv2d: function, conv2d(X[N,C,H,W]) -> Y", "from std/gone.nf", "Inferred: p: 28"}));
  EXPECT_EQ(at(2), (QStringList{"p: index, 28 values", "Inferred: p: 28"}));
  EXPECT_EQ(editor->whatIsAt(QPoint(editor->viewport()->width() - 1, 4)), "Inferred: p: 28");
}

TEST_F(Editing, ANewNotebookIsWrittenIntoFromEveryPage) {
  openBare();
  type("let A = 1");
  for (const auto page : {MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
    window->showPage(page);
    QTest::keyClick(window.get(), Qt::Key_N, Qt::ControlModifier);
    EXPECT_EQ(window->page(), MainWindow::Page::Author);
    type("let B = 2");
    EXPECT_EQ(document().text(), "let B = 2");
  }
  EXPECT_EQ(window->tabs()->count(), 4);
}

TEST_F(Editing, NothingOfACellIsCutOff) {
  write("# %%\nlet N = 4\n\n# λ 漢字 ∑ 🙂\nA[i: N] = i  # ѣ\n漢\n\n# %%\n" + std::string(40, 'x') + " + " +
        std::string(400, 'y') + "\nU = squash(P)\n\n# %% [markdown]\n# " + std::string(90, 'w') + " " + std::string(90, 'v') +
        "\n# 漢字 last\n\n# %%\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\np\nq\n");
  open();
  QStringList files{path()};
  for (const char* name : {"digits_capsnet.nf", "milstm.nf", "welcome.nf"}) {
    const QString copy = folder.filePath(name);
    QFile::copy(QStringLiteral(NF_SOURCE_DIR "/examples/") + name, copy);
    files << copy;
  }
  for (const QString& file : files) {
    window->openFile(file);
    for (const int width : {900, 1600, 1100}) {
      window->resize(width, 800);
      QApplication::processEvents();
      for (CellView* v : window->notebook()->cells()) {
        if (v->kind() == CellKind::Markdown) {
          window->notebook()->activate(v->id(), true);
          QApplication::processEvents();
        }
        ExpressionEditor* e = v->editor();
        QTextCursor end(e->document());
        end.movePosition(QTextCursor::End);
        EXPECT_GE(e->cursorRect().top(), 0);
        const QTextBlock last = e->document()->lastBlock();
        double height = 0;
        for (QTextBlock b = e->document()->begin(); b.isValid(); b = b.next())
          height += e->document()->documentLayout()->blockBoundingRect(b).height();
        const bool whole = wait([&] { return e->viewport()->height() >= height; });
        EXPECT_TRUE(whole) << file.toStdString() << ": " << last.text().toStdString() << ": " << e->viewport()->height() << " of "
                           << height;
        EXPECT_LE(e->cursorRect(end).bottom(), e->viewport()->height()) << last.text().toStdString();
        window->notebook()->activate(v->id(), false);
        if (auto* markdown = v->findChild<MarkdownView*>()) {
          QApplication::processEvents();
          EXPECT_GE(markdown->height(), markdown->heightForWidth(markdown->width()));
        }
      }
    }
  }
}

TEST_F(Editing, CellOperationsAreUndoneOneByOne) {
  open();
  const auto run = [&](const char* id, std::size_t i) {
    window->notebook()->activate(cell(i)->id(), false);
    window->action(id)->trigger();
    followed();
  };
  std::vector<std::string> texts{document().text()};
  const auto then = [&] { texts.push_back(document().text()); };
  run("cell.remove", 1), then();
  run("cell.join", 1), then();
  run("cell.up", 1), then();
  run("cell.kind", 0), then();
  run("cell.kind", 0), then();
  run("cell.copy", 1);
  run("cell.paste", 0), then();
  window->notebook()->activate(cell(0)->id(), true);
  if (cell(0)->kind() == CellKind::Code) {
    cell(0)->editor()->moveCaretTo(3);
    window->action("cell.split")->trigger();
    followed();
    then();
  }
  EXPECT_GE(texts.size(), 7u);
  for (std::size_t i = texts.size() - 1; i-- > 0;) {
    window->action("edit.undo")->trigger();
    EXPECT_EQ(document().text(), texts[i]) << i;
    followed();
  }
  EXPECT_FALSE(document().modified());
  for (std::size_t i = 1; i < texts.size(); ++i) {
    window->action("edit.redo")->trigger();
    EXPECT_EQ(document().text(), texts[i]) << i;
    followed();
  }
}

// What was chosen before is chosen again, and text that is read is not opened to be written.
TEST_F(Editing, AnInsertionThatIsUndoneLeadsBack) {
  open();
  const auto chosen = [&] { return document().indexOf(window->notebook()->activeCell()); };
  const std::size_t cells = document().cells().size();
  ASSERT_EQ(cell(0)->kind(), CellKind::Markdown);
  ASSERT_GE(cells, 3u);
  for (const char* id : {"cell.above", "cell.below", "cell.paste"})
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, cells - 1})
      for (const bool editing : {false, true}) {
        window->notebook()->activate(cell(at)->id(), false);
        window->action("cell.copy")->trigger();
        window->action(id)->trigger();
        followed();
        ASSERT_EQ(document().cells().size(), cells + 1) << id;
        window->notebook()->activate(window->notebook()->activeCell(), editing);
        window->action("edit.undo")->trigger();
        followed();
        EXPECT_EQ(chosen(), at) << id << (editing ? ", written in" : "");
        EXPECT_EQ(window->notebook()->editing(), editing && cell(at)->kind() == CellKind::Code) << id << " at " << at;
      }
}

TEST_F(Editing, AFileThatIsDroppedIsOpened) {
  openBare();
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(path())});
  // Wherever it falls: on a cell too.
  const QPoint where = cell(0)->editor()->mapTo(window.get(), cell(0)->editor()->rect().center());
  QDragEnterEvent enter(where, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(window->windowHandle(), &enter);
  EXPECT_TRUE(enter.isAccepted());
  QDropEvent drop(where, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(window->windowHandle(), &drop);
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_EQ(window->tabs()->count(), 1);
}

TEST_F(Editing, ALongNotebookIsEditedCellByCell) {
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += (i % 5 == 0 ? "# %% [markdown]\n# ## Part " : "# %%\nlet a") + std::to_string(i) + (i % 5 == 0 ? "\n\n" : " = 1\n\n");
  write(text);
  openChecked();
  ASSERT_EQ(window->notebook()->cells().size(), 500u);
  const std::vector<CellView*> before = window->notebook()->cells();
  window->notebook()->activate(cell(251)->id(), true);
  QTest::keyClicks(cell(251)->editor(), "xyz");
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  EXPECT_EQ(window->notebook()->cells(), before) << "an edit of one cell makes none anew";
  window->notebook()->activate(cell(252)->id(), false);
  window->action("cell.remove")->trigger();
  ASSERT_EQ(window->notebook()->cells().size(), 499u);
  EXPECT_EQ(cell(251), before[251]);
  EXPECT_EQ(cell(252), before[253]);
  window->action("edit.undo")->trigger();
  followed();
}

TEST_F(Editing, ANameBelowThePointerHasWhatIsWrittenAboutIt) {
  const std::string text =
      "# %% [markdown]\n# # Weights\n#\n# What is learnt,\n# all of it.\n\n# %%\nlet W = 3\n\n"
      "# The \u03bb of the loss.\nlet l = 2  # behind\nlet m = 1  # kept small\nlet n = 4\n";
  write(text);
  open();
  const auto about = [&](const char* statement) {
    const auto at = static_cast<std::uint32_t>(text.find(statement) + 4);
    return window->notebook()->aboutAt({"", at, at + 1}).toStdString();
  };
  EXPECT_EQ(about("let W"), "What is learnt, all of it.");
  EXPECT_EQ(about("let l"), "The \u03bb of the loss.");
  EXPECT_EQ(about("let m"), "kept small");
  EXPECT_EQ(about("let n"), "");
}

TEST_F(Editing, TheMenuOfTextUndoesWhatWasTyped) {
  const QString path = folder.filePath("menu.nf");
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write("# %%\nA = 1\n\n# %%\nB = 2\n");
  file.close();
  open();
  window->openFile(path);
  ExpressionEditor* editor = cell(1)->editor();
  const auto menuAt = [&](std::size_t byte) {
    const QPoint at = editor->viewport()->mapFrom(editor, editor->rectOf(byte).center());
    QContextMenuEvent event(QContextMenuEvent::Mouse, at, editor->viewport()->mapToGlobal(at));
    QApplication::sendEvent(editor->viewport(), &event);
    return qobject_cast<QMenu*>(QApplication::activePopupWidget());
  };
  const auto entry = [](const QMenu* menu, const QString& words) -> QAction* {
    for (QAction* a : menu->actions())
      if (a->text().startsWith(words)) return a;
    return nullptr;
  };
  QTest::mouseClick(editor->viewport(), Qt::LeftButton);
  QTest::keyClick(editor, Qt::Key_End);
  QTest::keyClicks(editor, "34");
  const std::string typed = document().text();
  EXPECT_NE(typed.find("B = 234"), std::string::npos) << typed;
  QMenu* menu = menuAt(0);
  ASSERT_TRUE(menu && entry(menu, "Undo") && entry(menu, "Cut text") && entry(menu, "Select all text"));
  EXPECT_EQ(editor->nameAtCaret(), "B");  // what was clicked
  EXPECT_TRUE(entry(menu, "Undo")->isEnabled());
  EXPECT_FALSE(entry(menu, "Redo")->isEnabled());
  EXPECT_FALSE(entry(menu, "Cut text")->isEnabled());
  QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(entry(menu, "Undo")).center());
  EXPECT_EQ(document().text().find("B = 234"), std::string::npos) << document().text();
  editor->selectAll();
  menu = menuAt(1);
  ASSERT_TRUE(menu);
  EXPECT_TRUE(editor->textCursor().hasSelection());
  QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(entry(menu, "Copy text")).center());
  EXPECT_EQ(QApplication::clipboard()->text(), "B = 2");
  window->notebook()->setReadOnly(true);
  menu = menuAt(1);
  ASSERT_TRUE(menu);
  EXPECT_FALSE(entry(menu, "Cut text")->isEnabled());
  EXPECT_FALSE(entry(menu, "Paste text")->isEnabled());
  EXPECT_TRUE(entry(menu, "Copy text")->isEnabled());
  menu->close();
}

TEST_F(Editing, ANameIsRenamedInEveryCellAsOneStep) {
  openChecked();
  const std::string before = document().text();
  CellView* first = nullptr;
  for (CellView* v : window->notebook()->cells())
    if (!first && v->kind() == CellKind::Code && v->editor()->bytes().find('W') != std::string::npos) first = v;
  ASSERT_TRUE(first);
  window->notebook()->activate(first->id(), true);
  first->editor()->moveCaretTo(first->editor()->bytes().find('W'));
  EXPECT_EQ(first->editor()->nameAtCaret(), "W");
  window->action("edit.rename")->trigger();
  ASSERT_TRUE(window->renamer()->isVisible());
  EXPECT_EQ(window->renamer()->name(), "W");
  const auto give = [&](const QString& name) {
    window->renamer()->field()->setText(name);
    QTest::keyClick(window->renamer()->field(), Qt::Key_Return);
  };
  give("Y");
  EXPECT_TRUE(window->renamer()->refusal().contains("taken")) << window->renamer()->refusal().toStdString();
  give("2W");
  EXPECT_TRUE(window->renamer()->refusal().contains("no name")) << window->renamer()->refusal().toStdString();
  EXPECT_EQ(document().text(), before);
  give("Weight");
  EXPECT_FALSE(window->renamer()->isVisible());
  std::string expected = before;
  const auto places = placesOfName(before, "W");
  EXPECT_GT(places.size(), 2u);
  for (auto it = places.rbegin(); it != places.rend(); ++it) expected.replace(it->first, it->second - it->first, "Weight");
  EXPECT_EQ(document().text(), expected);
  followed();
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), before);
  // Escape leaves the name as it is.
  window->action("edit.rename")->trigger();
  QTest::keyClick(window->renamer()->field(), Qt::Key_Escape);
  EXPECT_FALSE(window->renamer()->isVisible());
  EXPECT_EQ(document().text(), before);
}

// The fusion and the kernels of the device are asked a moment after the analysis.
TEST_F(Editing, AHintThatTheDeviceCannotObeyIsMarkedInItsCell) {
  openChecked();
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClick(cell(1)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(cell(1)->editor(), "  # kind = nonsense");
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && !cell(1)->diagnosticTexts().isEmpty(); }));
  EXPECT_TRUE(cell(1)->diagnosticTexts().front().contains("no kind of schedule `nonsense`"));
  EXPECT_TRUE(cell(0)->diagnosticTexts().isEmpty());
  const auto listed = [&](const QString& words) {
    const QTreeWidgetItem* cells = window->outline()->tree()->topLevelItem(0);
    for (int i = 0; i < cells->childCount(); ++i)
      for (int role = Qt::UserRole; role < Qt::UserRole + 10; ++role)
        if (cells->child(i)->data(0, role).toString() == words) return true;
    return false;
  };
  EXPECT_TRUE(listed("1 error")) << "the outline counts it, too";
  // Where the cell is not in sight, the bar says what is wrong.
  EXPECT_EQ(window->statusText(), "1 error");
  window->showPage(MainWindow::Page::Explain);
  EXPECT_EQ(window->statusText(), "1 error: there is no kind of schedule nonsense");
  window->showPage(MainWindow::Page::Author);
  window->action("edit.undo")->trigger();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent() && cell(1)->diagnosticTexts().isEmpty(); }));
  EXPECT_FALSE(listed("1 error"));
}

}  // namespace
}  // namespace nf
