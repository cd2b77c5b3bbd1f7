// SPDX-License-Identifier: GPL-3.0-or-later
// The runs of what has no file yet are its own, and follow it to its name.

#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QLineEdit>
#include <QPushButton>

#include "tests/workbench/real_engine.h"
#include "widgets/basic.h"
#include "widgets/message_bar.h"
#include "widgets/plots.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using protocol::CellStatus;

struct NewNotebook : RealEngine {
  QString state() const { return SessionStore::defaultRoot(); }
  QStringList runs(const QString& notebook) const {
    return QDir(notebook + ".out").entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name);
  }
  void start() {
    window = std::make_unique<MainWindow>(&theme, QStringList{NF_NEOFLOW, "engine"});
    window->show();
    window->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
    window->restoreSession();
    window->startEngine();
    checked();
  }
  void startNew(const char* steps) {
    start();
    document().replace(0, document().text().size(),
                       std::string("# %%\nlet N = 4\nparam W[N] = normal(0, 1)\nloss L = mean[i] (W[i] - 3)^2\n\n"
                                   "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = ") +
                           steps + "; device = reference }\n",
                       "Paste");
    window->notebook()->followDocument();
    checked();
  }
  void saveAs(const QString& name) {
    window->action("file.saveAs")->trigger();
    auto* dialog = window->findChild<QFileDialog*>();
    ASSERT_TRUE(dialog);
    dialog->setDirectory(folder.path());
    auto* field = dialog->findChild<QLineEdit*>("fileNameEdit");
    ASSERT_TRUE(field);
    field->setText(folder.filePath(name));
    QTest::keyClick(field, Qt::Key_Return);
    ASSERT_TRUE(wait([&] { return window->workspace().path() == folder.filePath(name); }));
    ASSERT_TRUE(wait([&] { return !window->findChild<QFileDialog*>(); }));
  }
  bool showsCurve() {
    return wait([&] { return cell(1)->train() && cell(1)->train()->plot()->steps() > 0; });
  }
};

TEST_F(NewNotebook, ItsRunsGoWithItsTextWhenItIsSaved) {
  startNew("30");
  run(1);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == CellStatus::Ok && !window->workspace().running(); }));
  const QString before = window->workspace().place();
  ASSERT_EQ(runs(before).size(), 1);
  saveAs("mine.nf");
  ASSERT_EQ(runs(folder.filePath("mine.nf")).size(), 1);
  EXPECT_FALSE(QFile::exists(before + ".out"));
  checked();
  // A copy has them too, and the original keeps its own; what is trained now goes to the copy.
  ASSERT_TRUE(window->workspace().save(folder.filePath("copy.nf")));
  EXPECT_EQ(runs(folder.filePath("mine.nf")).size(), 1);
  EXPECT_EQ(runs(folder.filePath("copy.nf")), runs(folder.filePath("mine.nf")));
  checked();
  run(1);
  ASSERT_TRUE(wait([&] { return runs(folder.filePath("copy.nf")).size() == 2 && !window->workspace().running(); }));
  EXPECT_EQ(runs(folder.filePath("mine.nf")).size(), 1);
  window.reset();
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_NEOFLOW, "engine"});
  window->openFile(folder.filePath("mine.nf"));
  window->show();
  window->startEngine();
  checked();
  EXPECT_TRUE(showsCurve());
}

// Nothing of what was learnt is left behind without a word, nor called untrained.
TEST_F(NewNotebook, RunsThatCannotFollowAreSaidAndStayInReach) {
  startNew("30");
  run(1);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == CellStatus::Ok && !window->workspace().running(); }));
  const QString before = window->workspace().place();
  QFile inTheWay(folder.filePath("mine.nf.out"));
  ASSERT_TRUE(inTheWay.open(QIODevice::WriteOnly));
  inTheWay.close();
  saveAs("mine.nf");
  ASSERT_TRUE(window->messages()->shown().contains("runs"));
  EXPECT_TRUE(window->messages()->text().contains(before + ".out")) << window->messages()->text().toStdString();
  checked();
  ASSERT_TRUE(cell(1)->train()->runs()->isVisible());
  EXPECT_FALSE(cell(1)->train()->resume()->isVisible()) << "it has done all its steps";
  EXPECT_EQ(runs(before).size(), 1);
  ASSERT_TRUE(inTheWay.remove());
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  EXPECT_FALSE(window->messages()->shown().contains("runs"));
  EXPECT_EQ(runs(folder.filePath("mine.nf")).size(), 1);
  EXPECT_FALSE(QFile::exists(before + ".out"));
  // The same with a copy.
  QFile again(folder.filePath("copy.nf.out"));
  ASSERT_TRUE(again.open(QIODevice::WriteOnly));
  again.close();
  ASSERT_TRUE(window->workspace().save(folder.filePath("copy.nf")));
  EXPECT_TRUE(window->messages()->shown().contains("runs"));
  ASSERT_TRUE(again.remove());
  window->workspace().carryAgain();
  EXPECT_EQ(runs(folder.filePath("copy.nf")), runs(folder.filePath("mine.nf")));
  EXPECT_FALSE(window->messages()->shown().contains("runs"));
}

TEST_F(NewNotebook, SavingItWhileItTrainsTakesTheRunAlongWhenItEnds) {
  startNew("100000000");
  run(1);
  ASSERT_TRUE(showsCurve());
  saveAs("mine.nf");
  const QStringList seen = runs(folder.filePath("mine.nf"));
  ASSERT_EQ(seen.size(), 1) << "it is there at once";
  window->action("run.stop")->trigger();
  const QDir run(folder.filePath("mine.nf.out/" + seen.front()));
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && !QFileInfo(run.path()).isSymLink(); }));
  for (const char* name : {"run.json", "events.jsonl", "checkpoint.safetensors"}) EXPECT_TRUE(run.exists(name)) << name;
}

TEST_F(NewNotebook, ItsRunsComeBackWithItsTextAndGoWhenItIsDiscarded) {
  startNew("30");
  run(1);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == CellStatus::Ok && !window->workspace().running(); }));
  window->workspace().writeJournal();
  window->writeSession();
  const std::string text = document().text();
  window.reset();  // as a kill leaves it
  start();
  ASSERT_EQ(document().text(), text);
  EXPECT_TRUE(showsCurve());
  const QString place = window->workspace().place();
  EXPECT_EQ(runs(place).size(), 1);
  QTest::keyClick(window.get(), Qt::Key_W, Qt::ControlModifier);
  ASSERT_EQ(window->messages()->key(), "close");
  QTest::mouseClick(window->messages()->buttons().at(1), Qt::LeftButton);
  EXPECT_FALSE(QFile::exists(place + ".out"));
}

TEST_F(NewNotebook, ATrainingIsThereAgainWhenEverythingWasUndoneAndDone) {
  start();
  const auto type = [&](std::size_t index, const std::string& text) {
    document().replace(document().cells()[index].bodyBegin, document().cells()[index].bodyBegin, text, "Typing", true);
  };
  type(0, "param W[4] = normal(0, 1)\nloss L = mean[i] (W[i] - 3)^2");
  document().insertCell(1, CellKind::Code);
  type(1, "train L { optimizer = sgd(lr=0.01); steps = 30; device = reference }");
  window->notebook()->followDocument();
  checked();
  run(1);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == CellStatus::Ok && !window->workspace().running(); }));
  ASSERT_TRUE(showsCurve());
  const std::string text = document().text();
  while (document().canUndo()) QTest::keyClick(window.get(), Qt::Key_Z, Qt::ControlModifier);
  ASSERT_EQ(window->notebook()->cells().size(), 1u);
  checked();
  while (document().canRedo()) QTest::keyClick(window.get(), Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_EQ(document().text(), text);
  checked();
  ASSERT_TRUE(cell(1)->train() && cell(1)->train()->plot()->steps() == 30);
  EXPECT_EQ(cell(1)->status(), CellStatus::Ok);
}

}  // namespace
}  // namespace nf
