// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <gtest/gtest.h>

#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "app/workbench/main_window.h"
#include "tests/widgets/capsule.h"
#include "widgets/cell_view.h"
#include "widgets/notebook_view.h"

// A window on the capsule notebook, with the scripted engine behind it.
namespace nf {

inline constexpr int kPatience = 30000;

struct Window : ::testing::Test {
  QTemporaryDir folder;
  Theme theme;
  std::unique_ptr<MainWindow> window;

  Window() {
    qputenv("XDG_DATA_HOME", folder.filePath("state").toUtf8());  // what windows leave
    theme.setMode(Theme::Mode::Light);
    write(capsule::kText);
  }
  QString path() const { return folder.filePath("capsule.nf"); }
  void write(const std::string& text) const {
    QFile file(path());
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text.data(), static_cast<qint64>(text.size()));
  }
  std::string onDisk() const {
    QFile file(path());
    return file.open(QIODevice::ReadOnly) ? file.readAll().toStdString() : std::string();
  }
  template <class F>
  static bool wait(F condition) {
    return QTest::qWaitFor(condition, kPatience);
  }
  // The capsule notebook, with a training that a test ends.
  std::string writeLongTraining() {
    std::string text = capsule::kText;
    text.replace(text.find("steps = 500"), 11, "steps = 1000000");
    write(text);
    return text;
  }
  void open(const QString& engine = NF_SCRIPTED_ENGINE) {
    window = std::make_unique<MainWindow>(&theme, QStringList{engine});
    window->openFile(path());
    window->show();
    window->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
    window->workspace().startEngine();
  }
  void openChecked() {
    open();
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  }
  Document& document() { return window->workspace().document(); }
  CellView* cell(std::size_t i) { return window->notebook()->cells()[i]; }
  void run(std::size_t i) {
    window->notebook()->activate(cell(i)->id(), false);
    window->action("run.stay")->trigger();
  }
};

}  // namespace nf
