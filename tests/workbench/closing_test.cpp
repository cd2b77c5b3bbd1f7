// SPDX-License-Identifier: GPL-3.0-or-later
// Saving, closing, quitting: what is asked and what is on disk then.
#include <QApplication>
#include <QPushButton>
#include <QTabBar>

#include "tests/workbench/window.h"
#include "widgets/expression_editor.h"
#include "widgets/message_bar.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

TEST_F(Window, SavingIsToTheByteAndClearsTheJournal) {
  const std::string odd = capsule::kText + "\r\n# %%\r\n\xff tail  \n\n\n";
  write(odd);
  open();
  EXPECT_EQ(document().text(), odd);
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "y");
  window->workspace().writeJournal();
  EXPECT_TRUE(QFile::exists(window->workspace().journalFile()));
  window->action("edit.undo")->trigger();
  document().replace(0, 0, "#", "Edit");
  window->action("file.save")->trigger();
  EXPECT_EQ(onDisk(), "#" + odd);
  EXPECT_FALSE(QFile::exists(window->workspace().journalFile()));
  EXPECT_FALSE(document().modified());
}

// The byte order mark of some editors: the file's, and no part of its first cell.
TEST_F(Window, AFileThatBeginsWithAMarkKeepsItThere) {
  const std::string mark = "\xef\xbb\xbf";
  for (const char* end : {"\n", "\r\n"}) {
    std::string text = std::string("# %% [markdown]") + end + "# # Title" + end + end + "# %%" + end + "let a = 1" + end;
    write(mark + text);
    open();
    ASSERT_EQ(document().text(), text);
    ASSERT_EQ(window->notebook()->cells().size(), 2u);
    EXPECT_EQ(cell(0)->kind(), CellKind::Markdown);
    document().insertCell(0, CellKind::Code, "let b = 2");
    window->notebook()->followDocument();
    window->action("file.save")->trigger();
    EXPECT_EQ(onDisk(), mark + document().text());
    EXPECT_FALSE(document().modified());
    EXPECT_TRUE(document().text().starts_with("# %%"));
    // Read again from disk it is the same, and saved under another name it has the mark there.
    window->workspace().reloadFromDisk();
    EXPECT_FALSE(document().modified());
    ASSERT_TRUE(window->workspace().save(folder.filePath("copy.nf")));
    QFile copy(folder.filePath("copy.nf"));
    ASSERT_TRUE(copy.open(QIODevice::ReadOnly));
    EXPECT_EQ(copy.readAll().toStdString(), mark + document().text());
    window.reset();
    QFile::remove(folder.filePath("copy.nf"));
  }
}

TEST_F(Window, ClosingWithChangesAsksInTheWindow) {
  open();
  document().replace(0, 0, "# x\n", "Edit");
  EXPECT_FALSE(window->close());
  EXPECT_EQ(window->messages()->key(), "close");
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  EXPECT_FALSE(window->isVisible());
  EXPECT_EQ(onDisk(), "# x\n" + capsule::kText);
}

// Only its own answer closes what a question asks about.
TEST_F(Window, SavingWithTheKeysClosesNothingThatWasLeftUnanswered) {
  open();
  document().replace(0, 0, "# x\n", "Edit");
  QFile file(folder.filePath("second.nf"));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write("# %%\nlet z = 3\n");
  file.close();
  window->openFile(file.fileName());
  document().replace(0, 0, "# mine\n", "Edit");
  window->showTab(0);
  const auto press = [&](Qt::Key key) { QTest::keyClick(window.get(), key, Qt::ControlModifier); };
  press(Qt::Key_W);
  ASSERT_EQ(window->messages()->key(), "close");
  window->showTab(1);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  press(Qt::Key_S);
  EXPECT_EQ(window->tabs()->count(), 2);
  EXPECT_FALSE(document().modified());
  window->showTab(0);
  press(Qt::Key_W);
  ASSERT_EQ(window->messages()->key(), "close");
  press(Qt::Key_S);
  EXPECT_EQ(window->tabs()->count(), 2);
  EXPECT_EQ(onDisk(), "# x\n" + capsule::kText);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  document().replace(0, 0, "# y\n", "Edit");
  press(Qt::Key_W);
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  EXPECT_EQ(window->tabs()->count(), 1);
  EXPECT_EQ(onDisk(), "# y\n# x\n" + capsule::kText);
}

TEST_F(Window, EachFileThatCannotBeOpenedIsTold) {
  open();
  const auto put = [&](const char* name, const QByteArray& bytes) {
    QFile file(folder.filePath(name));
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(bytes);
    return file.fileName();
  };
  const QString missing = folder.filePath("missing.nf"), data = put("data.nf", QByteArray("# %%\0", 5));
  window->openFiles({missing, put("second.nf", "# %%\nlet z = 3\n"), folder.path(), data, put("third.nf", "# %%\nlet w = 3\n")});
  EXPECT_EQ(window->tabs()->count(), 3);
  ASSERT_EQ(window->messages()->key(), "open");
  EXPECT_EQ(window->messages()->text().split('\n'), QStringList({missing + " cannot be read.", folder.path() + " cannot be read.",
                                                                 data + " is no notebook: it holds binary data."}));
}

TEST_F(Window, QuittingAsksOnceForAllNotebooks) {
  open();
  const auto edit = [&](const char* name) {
    QFile file(folder.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write("# %%\nlet z = 3\n");
    file.close();
    window->openFile(file.fileName());
    document().replace(0, 0, "# mine\n", "Edit");
  };
  document().replace(0, 0, "# x\n", "Edit");
  edit("second.nf");
  edit("third.nf");
  EXPECT_FALSE(window->close());
  ASSERT_EQ(window->messages()->key(), "close");
  for (const char* name : {"3 notebooks", "capsule.nf", "second.nf", "third.nf"})
    EXPECT_TRUE(window->messages()->text().contains(name)) << window->messages()->text().toStdString();
  ASSERT_EQ(window->messages()->buttons().size(), 3);
  EXPECT_EQ(window->messages()->answers().at(2), "Cancel");
  QTest::mouseClick(window->messages()->buttons().at(2), Qt::LeftButton);
  EXPECT_TRUE(window->isVisible());
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_EQ(onDisk(), capsule::kText);
  EXPECT_FALSE(window->close());
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  EXPECT_FALSE(window->isVisible());
  EXPECT_EQ(onDisk(), "# x\n" + capsule::kText);
  for (const char* name : {"second.nf", "third.nf"}) {
    QFile file(folder.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_EQ(file.readAll(), "# mine\n# %%\nlet z = 3\n") << name;
  }
}

TEST_F(Window, QuittingNamesWhatIsNotSavedAndWhatTrains) {
  const std::string text = writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400; }));
  const auto answer = [&](int i) { QTest::mouseClick(window->messages()->buttons().at(i), Qt::LeftButton); };
  QTest::keyClick(window.get(), Qt::Key_Q, Qt::ControlModifier);
  ASSERT_EQ(window->messages()->key(), "quit");
  EXPECT_EQ(window->messages()->text(), "Quit? capsule.nf trains, which ends with the window.");
  answer(1);
  EXPECT_TRUE(window->isVisible());
  EXPECT_TRUE(cell(3)->train()->running());
  QTest::keyClick(window.get(), Qt::Key_N, Qt::ControlModifier);
  QTest::keyClicks(QApplication::focusWidget(), "let a = 1");
  QTest::keyClick(window.get(), Qt::Key_Q, Qt::ControlModifier);
  ASSERT_EQ(window->messages()->key(), "close");
  const QString name = window->workspace().name();
  EXPECT_EQ(window->messages()->text(),
            "Quit? " + name + " has changes that are not saved. capsule.nf trains, which ends with the window.");
  answer(2);
  EXPECT_TRUE(window->isVisible());
  QTest::keyClick(window.get(), Qt::Key_Q, Qt::ControlModifier);
  answer(1);
  EXPECT_FALSE(window->isVisible());
}

TEST_F(Window, DiscardingGivesAllChangesUpAtOnce) {
  open();
  document().replace(0, 0, "# x\n", "Edit");
  window->action("file.new")->trigger();
  document().replace(0, 0, "let a = 1", "Edit");
  EXPECT_FALSE(window->close());
  QTest::mouseClick(window->messages()->buttons().at(1), Qt::LeftButton);
  EXPECT_FALSE(window->isVisible());
  EXPECT_EQ(onDisk(), capsule::kText);
}

TEST_F(Window, ClosingANotebookThatTrainsAsks) {
  const std::string text = writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400; }));
  QTest::keyClick(window.get(), Qt::Key_W, Qt::ControlModifier);
  ASSERT_EQ(window->messages()->key(), "training");
  EXPECT_EQ(document().text(), text);
  QTest::mouseClick(window->messages()->buttons().at(2), Qt::LeftButton);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_TRUE(cell(3)->train()->running());
  // It trains on, and the tab goes with the end of it.
  QTest::keyClick(window.get(), Qt::Key_W, Qt::ControlModifier);
  QTest::mouseClick(window->messages()->buttons().at(1), Qt::LeftButton);
  EXPECT_EQ(document().text(), text);
  EXPECT_TRUE(cell(3)->train()->running());
  // Asked again, it is stopped.
  QTest::keyClick(window.get(), Qt::Key_W, Qt::ControlModifier);
  ASSERT_EQ(window->messages()->key(), "training");
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return document().text().empty(); }));
  EXPECT_TRUE(window->messages()->key().isEmpty());
}

}  // namespace
}  // namespace nf
