// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QTableView>
#include <QTreeWidget>

#include "tests/workbench/window.h"
#include "widgets/explain_view.h"
#include "widgets/outline_view.h"

namespace nf {

struct Selected : Window {
  Selected() {
    for (const char* name : {"XDG_CACHE_HOME", "XDG_STATE_HOME", "NEOFLOW_RECORDS"})
      qputenv(name, folder.filePath("engine").toUtf8());
  }
  void openWith(const std::string& text) {
    write(text);
    window = std::make_unique<MainWindow>(&theme, QStringList{NF_NEOFLOW, "engine"});
    window->openFile(path());
    window->show();
    window->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
    window->startEngine();
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  }
  static std::string example(const char* name) {
    QFile file(QStringLiteral(NF_SOURCE_DIR "/examples/") + QString::fromLatin1(name));
    EXPECT_TRUE(file.open(QIODevice::ReadOnly));
    return file.readAll().toStdString();
  }
  void clickInOutline(const QString& text) {
    auto* tree = window->outline()->findChild<QTreeWidget*>();
    for (QTreeWidgetItemIterator it(tree); *it; ++it)
      if ((*it)->text(0) == text) {
        tree->scrollToItem(*it);
        return QTest::mouseClick(tree->viewport(), Qt::LeftButton, {}, tree->visualItemRect(*it).center());
      }
    FAIL() << text.toStdString() << " is not in the outline";
  }
  void clickRow(int row) {
    QTableView* table = window->explain()->table();
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(table->model()->index(row, 1)).center());
  }
  const Selection& selection() { return window->workspace().selection(); }
};

}  // namespace nf
