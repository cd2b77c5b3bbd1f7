// SPDX-License-Identifier: GPL-3.0-or-later
// Where names are defined: in the notebook, and in the files of the standard library.
#include <QDialog>
#include <QDir>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QTest>
#include <QTreeWidget>
#include <QTreeWidgetItemIterator>

#include "tests/workbench/real_engine.h"
#include "widgets/command_palette.h"
#include "widgets/expression_editor.h"
#include "widgets/outline_view.h"

namespace nf {
namespace {

struct Library : RealEngine {
  void SetUp() override {
    RealEngine::SetUp();
    openChecked("# %%\ndef twice(x) = x * 2\ninput X[4, 8] = normal(0, 1)\n\n# %%\nY = linear(X, 3)\nZ[i, j] = twice(Y[i, j])\n");
  }
  QPlainTextEdit* shown() {
    auto* dialog = window->findChild<QDialog*>(QStringLiteral("library"));
    return dialog ? dialog->findChild<QPlainTextEdit*>() : nullptr;
  }
  void caretAt(std::size_t cellIndex, const std::string& word) {
    window->notebook()->activate(cell(cellIndex)->id(), true);
    cell(cellIndex)->editor()->moveCaretTo(cell(cellIndex)->editor()->bytes().find(word) + 1);
  }
};

TEST_F(Library, F12LeadsToTheDefinition) {
  caretAt(1, "linear");
  window->action("edit.definition")->trigger();
  ASSERT_TRUE(shown());
  EXPECT_TRUE(shown()->isReadOnly());
  EXPECT_EQ(shown()->textCursor().selectedText(), "linear") << shown()->toPlainText().left(200).toStdString();
  EXPECT_TRUE(shown()->window()->windowTitle().contains("std/linear.nf"));
  shown()->window()->close();
  caretAt(1, "twice");
  window->action("edit.definition")->trigger();
  EXPECT_EQ(window->notebook()->activeCell(), cell(0)->id());
  caretAt(1, " 3");
  window->action("edit.definition")->trigger();
  EXPECT_EQ(window->notebook()->activeCell(), cell(1)->id()) << "a number has none";
}

TEST_F(Library, TheOutlineAndTheLocatorLeadToItsFunctions) {
  auto* tree = window->outline()->findChild<QTreeWidget*>();
  QTreeWidgetItem* row = nullptr;
  for (QTreeWidgetItemIterator it(tree); *it; ++it)
    if ((*it)->text(0) == "linear") row = *it;
  ASSERT_TRUE(row);
  Q_EMIT tree->itemActivated(row, 0);
  ASSERT_TRUE(shown());
  EXPECT_EQ(shown()->textCursor().selectedText(), "linear");
  shown()->window()->close();
  QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  ASSERT_FALSE(shown());
  window->action("tools.go")->trigger();
  QTest::keyClicks(window->palette()->field(), "linear");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  ASSERT_TRUE(wait([&] { return shown() != nullptr; }));
}

// What the window shows is what the compiler reads.
TEST_F(Library, EveryFileIsThere) {
  caretAt(1, "linear");
  window->action("edit.definition")->trigger();
  const QDir files(QStringLiteral(NF_SOURCE_DIR "/resources/std"));
  for (const QString& name : files.entryList({QStringLiteral("*.nf")})) {
    QFile there(files.filePath(name)), here(QStringLiteral(":/std/") + name);
    ASSERT_TRUE(there.open(QIODevice::ReadOnly));
    ASSERT_TRUE(here.open(QIODevice::ReadOnly)) << name.toStdString() << " is not listed in std.qrc";
    EXPECT_EQ(here.readAll(), there.readAll());
  }
}

}  // namespace
}  // namespace nf
