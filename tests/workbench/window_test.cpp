// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>
#include <signal.h>

#include <QtTest/qtestspontaneevent.h>
#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QScrollBar>
#include <QSettings>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QTreeWidget>
#include <QTreeWidgetItemIterator>
#include <QWheelEvent>

#include "app/workbench/answer_watch.h"
#include "core/syntax/schedule_text.h"
#include "tests/workbench/killed_window.h"
#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/command_palette.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/message_bar.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/stage_slider.h"
#include "widgets/swap_list.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  QApplication application(argc, argv);
  QApplication::setApplicationName("neoflow-workbench-test");
  QApplication::setOrganizationName("neoflow-test");
  if (argc > 2 && QString::fromLocal8Bit(argv[1]) == "--window") return nf::windowToKill(QApplication::arguments().mid(2));
  // Tests run side by side: each has settings of its own.
  QTemporaryDir settings;
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());
  return RUN_ALL_TESTS();
}

namespace nf {
namespace {

TEST_F(Window, OpensChecksAndRunsNothing) {
  openChecked();
  EXPECT_EQ(window->notebook()->cells().size(), 4u);
  EXPECT_FALSE(window->workspace().running());
  EXPECT_TRUE(window->workspace().steps().empty());
  EXPECT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->formulas().size() == 2; }));
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

TEST_F(Window, ClosingWithChangesAsksInTheWindow) {
  open();
  document().replace(0, 0, "# x\n", "Edit");
  EXPECT_FALSE(window->close());
  EXPECT_EQ(window->messages()->key(), "close");
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  EXPECT_FALSE(window->isVisible());
  EXPECT_EQ(onDisk(), "# x\n" + capsule::kText);
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
  EXPECT_EQ(window->messages()->buttons().at(2)->text(), "Cancel");
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
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
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
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
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

TEST_F(Window, ATrainingThatFailedStaysInTheStatusBarUntilTheTextChanges) {
  std::string text = capsule::kText;
  text.replace(text.find("lr=0.1"), 6, "lr=inf");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->result().startsWith("Failed"); }));
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(window->statusText().contains("The loss L is not a number in step 3")) << window->statusText().toStdString();
  window->showPage(MainWindow::Page::Tune);
  window->showPage(MainWindow::Page::Author);
  EXPECT_TRUE(window->statusText().startsWith("Failed: The loss")) << window->statusText().toStdString();
  document().replace(text.find("lr=inf"), text.find("lr=inf") + 6, "lr=0.1", "Edit");
  window->notebook()->followDocument();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  run(3);
  ASSERT_TRUE(wait([&] { return window->statusText().contains("up to date"); })) << window->statusText().toStdString();
}

// What was drawn of an engine that ends is there still, whatever was looked at in between, and says of when it is.
TEST_F(Window, ValuesOutliveTheEngineTheyCameFrom) {
  write(capsule::kText + "# values of a run only\n");
  openChecked();
  run(2);
  InspectorView* inspector = window->inspector();
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView() && cell(2)->tensorView()->model()->rowCount() > 0; }));
  window->pinInspector("d(L)/d(W)");
  ASSERT_TRUE(wait([&] { return inspector->values()->tensor() == "d(L)/d(W)" && inspector->values()->model()->rowCount() > 0; }));
  EXPECT_FALSE(inspector->values()->old());
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  EXPECT_TRUE(window->messages()->text().contains("A new engine was started.")) << window->messages()->text().toStdString();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  inspector->clear();
  window->pinInspector("W");
  ASSERT_TRUE(wait([&] { return inspector->values()->note().contains("no value yet"); }));
  EXPECT_EQ(inspector->values()->model()->rowCount(), 0) << "nothing was ever shown of it";
  window->pinInspector("d(L)/d(W)");
  ASSERT_TRUE(wait([&] { return inspector->values()->note().contains("no value yet"); }));
  EXPECT_GT(inspector->values()->model()->rowCount(), 0);
  EXPECT_TRUE(inspector->values()->old());
  EXPECT_TRUE(inspector->values()->note().contains("last run")) << inspector->values()->note().toStdString();
}

TEST_F(Window, KillingTheEngineCostsNothingButTheJob) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().steps().size() == 100; }));
  EXPECT_TRUE(cell(3)->train()->running());
  const auto process = window->workspace().engine().processId();
  ASSERT_GT(process, 0);
  ASSERT_EQ(::kill(static_cast<pid_t>(process), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  EXPECT_EQ(document().text(), text);
  EXPECT_FALSE(cell(3)->train()->running());
  EXPECT_EQ(cell(3)->train()->plot()->steps(), 100);
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "q");
  EXPECT_NE(document().text(), text);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  EXPECT_NE(window->workspace().engine().processId(), process);
  // One that is killed at once again is not started without being asked.
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->workspace().engine().state() == EngineLink::State::Dead; }));
  ASSERT_EQ(window->messages()->key(), "engine");
  QTest::mouseClick(window->messages()->buttons().at(0), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  EXPECT_TRUE(window->messages()->key().isEmpty());
}

// What is offered after a kill is what can be done.
TEST_F(Window, ResumeIsOfferedWhereThereIsACheckpoint) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  const QDir out(folder.filePath("capsule.nf.out/2026-11-21-235430"));
  ASSERT_TRUE(out.mkpath("."));
  const auto put = [&](const char* name, const char* bytes) {
    QFile file(out.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(bytes);
  };
  put("run.json", R"({"train":"L","settings":{"resume":""}})");
  for (const bool any : {false, true}) {
    if (any) put("checkpoint.safetensors", "weights");
    openChecked();
    run(3);
    TrainStrip* strip = cell(3)->train();
    ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400; }));
    ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
    ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && window->workspace().analysisIsKnown(); }));
    ASSERT_TRUE(strip->resume()->isVisible());
    EXPECT_EQ(strip->resume()->text(), any ? "Resume" : "Train again");
    EXPECT_EQ(strip->detail().contains("no checkpoint yet"), !any) << strip->detail().toStdString();
    ASSERT_EQ(window->messages()->buttons().size(), 1);
    EXPECT_EQ(window->messages()->buttons().front()->text(), any ? "Resume training" : "Train again");
    if (any) {
      // It was deleted meanwhile: that is no mistake of the cell.
      ASSERT_TRUE(QFile::remove(out.filePath("checkpoint.safetensors")));
      QTest::mouseClick(strip->resume(), Qt::LeftButton);
      EXPECT_FALSE(strip->running());
      EXPECT_EQ(strip->resume()->text(), "Train again");
      EXPECT_EQ(cell(3)->status(), protocol::CellStatus::Stale);
      EXPECT_EQ(strip->failure(), "");
    }
    QTest::mouseClick(strip->resume(), Qt::LeftButton);
    ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400; }));
    EXPECT_TRUE(strip->running());
    window->action("run.stop")->trigger();
    ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
    EXPECT_EQ(strip->resume()->text(), "Train again") << "none was made";
    window.reset();
  }
}

// A checkpoint that lies behind the end of the training is nothing to go on from, until the text asks for more: of steps or of epochs.
TEST_F(Window, ResumeIsNotOfferedPastTheEnd) {
  const QDir out(folder.filePath("capsule.nf.out/2026-11-21-235430"));
  ASSERT_TRUE(out.mkpath("."));
  const auto put = [&](const char* name, const QByteArray& bytes) {
    QFile file(out.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(bytes);
  };
  put("run.json", R"({"train":"L","settings":{"resume":""}})");
  put("events.jsonl", "{\"event\":\"step\",\"step\":3018,\"ms\":1,\"loss\":0.5}\n");
  const QByteArray header = R"({"__metadata__":{"neoflow":"{\"step\":3018}"}})";
  QByteArray length(8, '\0');
  length[0] = static_cast<char>(header.size());
  put("checkpoint.safetensors", length + header);
  openChecked();
  TrainStrip* strip = cell(3)->train();
  ASSERT_TRUE(strip && strip->hasCurves());
  EXPECT_EQ(strip->resume()->text(), "Train again");
  EXPECT_TRUE(strip->resume()->toolTip().contains(grouped(3018) + " steps behind it, and training ends with step 500"))
      << strip->resume()->toolTip().toStdString();
  window->notebook()->activate(cell(3)->id(), true);
  cell(3)->editor()->moveCaretTo(cell(3)->editor()->bytes().find("500") + 3);
  QTest::keyClicks(cell(3)->editor(), "00");
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  EXPECT_EQ(strip->resume()->text(), "Resume");
}

TEST_F(Window, ResumeIsNotOfferedPastTheLastEpoch) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "epochs = 2");
  write(text);
  const QDir out(folder.filePath("capsule.nf.out/2026-11-21-235430"));
  ASSERT_TRUE(out.mkpath("."));
  const auto put = [&](const char* name, const QByteArray& bytes) {
    QFile file(out.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(bytes);
  };
  put("run.json", R"({"train":"L","settings":{"resume":""},"steps_per_epoch":25})");
  put("events.jsonl", "{\"event\":\"step\",\"step\":50,\"ms\":1,\"loss\":0.5}\n");
  const QByteArray header = R"({"__metadata__":{"neoflow":"{\"step\":50}"}})";
  QByteArray length(8, '\0');
  length[0] = static_cast<char>(header.size());
  put("checkpoint.safetensors", length + header);
  openChecked();
  TrainStrip* strip = cell(3)->train();
  ASSERT_TRUE(strip && strip->hasCurves());
  EXPECT_EQ(strip->resume()->text(), "Train again");
  EXPECT_TRUE(strip->resume()->toolTip().contains("50 steps behind it, and training ends with step 50"));
  EXPECT_TRUE(strip->resume()->toolTip().contains("Ask for more"));
  QTest::mouseClick(strip->resume(), Qt::LeftButton);
  EXPECT_TRUE(strip->running());
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  EXPECT_LT(window->workspace().steps().front().step, 50) << "from the first step";
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  window.reset();

  text.replace(text.find("epochs = 2"), 10, "epochs = 3");
  write(text);
  openChecked();
  EXPECT_EQ(cell(3)->train()->resume()->text(), "Resume");
}

TEST_F(Window, AnEngineThatDoesNotAnswerIsSaidAndRestarted) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  auto* watch = window->workspace().findChild<AnswerWatch*>();
  ASSERT_TRUE(watch);
  for (const bool goesOn : {true, false}) {
    run(3);
    ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400 && window->workspace().running(); }));
    const auto process = static_cast<pid_t>(window->workspace().engine().processId());
    ASSERT_EQ(::kill(process, SIGSTOP), 0);
    window->action("run.stop")->trigger();
    EXPECT_TRUE(window->statusText().startsWith("Stopping")) << window->statusText().toStdString();
    EXPECT_FALSE(window->action("run.stop")->isEnabled());
    watch->setPatience(40);
    ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
    EXPECT_TRUE(window->messages()->text().contains("does not answer")) << window->messages()->text().toStdString();
    watch->setPatience(10 * kPatience);
    if (goesOn) {
      ASSERT_EQ(::kill(process, SIGCONT), 0);
      ASSERT_TRUE(wait([&] { return window->messages()->key().isEmpty() && !window->workspace().running(); }));
      continue;
    }
    ASSERT_EQ(window->messages()->buttons().size(), 1);
    QTest::mouseClick(window->messages()->buttons().front(), Qt::LeftButton);
    ASSERT_TRUE(wait([&] { return window->workspace().engine().processId() != process && window->workspace().analysisIsKnown(); }));
    EXPECT_FALSE(window->workspace().running());
    EXPECT_FALSE(cell(3)->train()->running());
    EXPECT_EQ(cell(3)->train()->plot()->steps(), 100) << "what was drawn stays";
    EXPECT_EQ(document().text(), text);
  }
}

// One that lives and never says its first word.
TEST_F(Window, AnEngineThatDoesNotBeginIsSaidAndRestarted) {
  const QString program = folder.filePath("engine"), silent = folder.filePath("silent");
  QFile script(program);
  ASSERT_TRUE(script.open(QIODevice::WriteOnly));
  script.write(QStringLiteral("#!/bin/sh\n[ -e %1 ] && exec cat >/dev/null\nexec %2\n").arg(silent, NF_SCRIPTED_ENGINE).toUtf8());
  script.close();
  ASSERT_TRUE(script.setPermissions(QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner));
  ASSERT_TRUE(QFile(silent).open(QIODevice::WriteOnly));
  open(program);
  auto* watch = window->workspace().findChild<AnswerWatch*>();
  watch->setPatience(40);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  EXPECT_TRUE(window->messages()->text().contains("does not answer")) << window->messages()->text().toStdString();
  ASSERT_EQ(window->messages()->buttons().size(), 1);
  watch->setPatience(10 * kPatience);
  ASSERT_TRUE(QFile::remove(silent));
  QTest::mouseClick(window->messages()->buttons().front(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  EXPECT_TRUE(window->messages()->key().isEmpty());
}

// A run that was asked for and of which nothing is heard can be stopped.
TEST_F(Window, StopIsLitFromTheFirstMoment) {
  openChecked();
  const auto process = static_cast<pid_t>(window->workspace().engine().processId());
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  run(3);
  EXPECT_TRUE(window->action("run.stop")->isEnabled());
  EXPECT_TRUE(window->statusText().startsWith("Preparing")) << window->statusText().toStdString();
  window->action("run.stop")->trigger();
  EXPECT_FALSE(window->action("run.stop")->isEnabled());
  EXPECT_TRUE(window->statusText().startsWith("Stopping")) << window->statusText().toStdString();
  ASSERT_EQ(::kill(process, SIGCONT), 0);
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && !window->workspace().runAsked(); }));
  EXPECT_FALSE(window->action("run.stop")->isEnabled());
  EXPECT_FALSE(window->statusText().startsWith("Stopping")) << window->statusText().toStdString();
}

TEST_F(Window, AnEngineThatIsNotThereIsSaid) {
  open(folder.filePath("no-such-engine"));
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  EXPECT_TRUE(window->messages()->text().contains("no-such-engine")) << window->messages()->text().toStdString();
  // Put away, the word comes again to who runs a cell.
  Q_EMIT window->messages()->answered("engine", -1);
  window->messages()->dismiss("engine");
  EXPECT_TRUE(window->messages()->key().isEmpty());
  run(2);
  ASSERT_EQ(window->messages()->key(), "engine");
  ASSERT_EQ(window->messages()->buttons().size(), 1);
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "still works");
  window->action("file.save")->trigger();
  EXPECT_NE(onDisk().find("still works"), std::string::npos);
}

TEST_F(Window, AnEngineThatTalksNonsenseIsSkippedOver) {
  open(QStringLiteral("/bin/cat"));  // says back what it hears: requests are no replies
  ASSERT_TRUE(wait([&] { return window->workspace().engine().state() == EngineLink::State::Ready; }));
  window->showPage(MainWindow::Page::Explain);
  window->showPage(MainWindow::Page::Tune);
  EXPECT_EQ(document().text(), capsule::kText);
}

TEST_F(Window, TrainingIsDrawnAndEnds) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && !cell(3)->train()->running() && cell(3)->train()->plot()->steps() == 100; }));
  EXPECT_TRUE(cell(3)->train()->detail().contains("500 steps")) << cell(3)->train()->detail().toStdString();
  EXPECT_EQ(cell(3)->train()->plot()->swaps(), 4);
  EXPECT_EQ(cell(3)->status(), protocol::CellStatus::Ok);
  EXPECT_EQ(window->tune()->latency()->steps(), 100);
}

// What is doubtful does not stop a run: it is said where the run stands, with the way to its place, and in the status bar.
TEST_F(Window, AWarningOfARunIsSaidAndLeadsToItsPlace) {
  std::string text = capsule::kText;
  text.insert(text.find("input A"), "# labels stray\n");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running() && cell(3)->train()->result().startsWith("Trained"); }));
  ASSERT_EQ(cell(3)->train()->warnings(), QStringList{"A holds labels up to 12, and Y has 10 classes."});
  EXPECT_TRUE(wait([&] { return window->statusText() == "A holds labels up to 12, and Y has 10 classes."; }))
      << window->statusText().toStdString();
  QPushButton* shown = nullptr;
  for (QPushButton* b : cell(3)->train()->findChildren<QPushButton*>("place"))
    if (!b->isHidden()) shown = b;
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->text(), "Go to cell 1, line 3");
  QTest::mouseClick(shown, Qt::LeftButton);
  EXPECT_EQ(window->notebook()->activeCell(), cell(1)->id());
  EXPECT_EQ(window->notebook()->caretByte(), document().text().find("A[B, C"));
  run(3);
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running() && cell(3)->train()->result().startsWith("Trained"); }));
  EXPECT_EQ(cell(3)->train()->warnings().size(), 1) << "of the new run";
}

TEST_F(Window, ACheckpointThatCannotBeWrittenIsSaidAndTrainingGoesOn) {
  write(capsule::kText + "\n# %%\n# disk full\n");
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running() && cell(3)->train()->result().startsWith("Trained"); }));
  ASSERT_EQ(cell(3)->train()->warnings().size(), 1);
  EXPECT_TRUE(cell(3)->train()->warnings().front().startsWith("3 checkpoints could not be written while it ran."));
  EXPECT_TRUE(cell(3)->train()->warnings().front().contains("no space left on device"));
  EXPECT_TRUE(wait([&] { return window->statusText().startsWith("3 checkpoints could not be written"); }))
      << window->statusText().toStdString();
}

TEST_F(Window, ASwapOfTheListLeadsToItsKernel) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train() && !cell(3)->train()->running() && cell(3)->train()->swaps()->count() == 4; }));
  EXPECT_TRUE(cell(3)->train()->figures().contains("[1.17, 1.20] ms  n = 50")) << cell(3)->train()->figures().toStdString();
  QTableWidget* table = cell(3)->train()->swaps()->table();
  window->notebook()->ensureWidgetVisible(table);
  QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(table->item(0, 1)).center());
  EXPECT_EQ(window->page(), MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->list()->count() == 3; }));
  EXPECT_EQ(window->tune()->current(), window->workspace().swaps().front().subgraph);
}

// A trial whose number says that there are others before it, from earlier runs: they are asked for, and the curve has them all.
TEST_F(Window, TrialsOnRecordComeWithTheFirstNewOne) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().trials("bb02").size() == capsule::trials().size(); }));
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->list()->count() == 3; }));
  window->tune()->list()->setFocus();
  while (window->tune()->current() != "bb02") QTest::keyClick(window->tune()->list(), Qt::Key_Down);
  EXPECT_EQ(window->tune()->trials()->points(), static_cast<int>(capsule::trials().size()));
  EXPECT_GT(window->tune()->trials()->bestSoFar().size(), 3);
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

TEST_F(Window, TrainingFillsTheTunePage) {
  QFile peer(folder.filePath("capsule.peer.json"));
  ASSERT_TRUE(peer.open(QIODevice::WriteOnly));
  peer.write(R"({"name": "PyTorch", "step_ms": 4.5})");
  peer.close();
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  run(3);
  ASSERT_TRUE(wait([&] { return window->tune()->latency()->steps() == 100 && !window->workspace().running(); }));
  EXPECT_EQ(window->tune()->loss()->points(), 100);
  EXPECT_EQ(window->tune()->loss()->evaluations(), 1);
  EXPECT_EQ(window->tune()->latency()->swaps(), 4);
  const auto against = window->tune()->latency()->againstPeer();
  EXPECT_TRUE(against && against->from);
  EXPECT_TRUE(window->tune()->now().contains("nothing runs"));
  EXPECT_EQ(cell(3)->train()->lossPlot()->points(), 100);
}

TEST_F(Window, AStoppedTrainingHasNoTickOfAFinishedOne) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().steps().size() == 100; }));
  EXPECT_FALSE(cell(3)->stoppedEarly());
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(cell(3)->stoppedEarly());
  const auto said = [&] {
    for (QTreeWidgetItemIterator it(window->outline()->tree()); *it; ++it)
      if ((*it)->data(0, Qt::UserRole + 1).toString() == "stopped") return true;
    return false;
  };
  EXPECT_TRUE(wait(said));
}

TEST_F(Window, TheWheelOverAPlotOfATrainingScrollsTheNotebook) {
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train()->lossPlot()->points() == 100 && !window->workspace().running(); }));
  QScrollBar* bar = window->notebook()->verticalScrollBar();
  ASSERT_TRUE(wait([&] { return bar->maximum() > 0; }));
  QWidget* canvas = cell(3)->train()->lossPlot()->canvas();
  bar->setValue(bar->maximum());
  const QPointF at(20, 20);
  QWheelEvent wheel(at, canvas->mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
  QSpontaneKeyEvent::setSpontaneous(&wheel);  // others do not go on to what is around
  QApplication::instance()->notify(canvas, &wheel);
  EXPECT_LT(bar->value(), bar->maximum());
}

TEST_F(Window, TheBudgetReachesTheEngineAndComesBack) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().budgetShare > 0; }));
  window->tune()->budget()->setFocus();
  QTest::keyClick(window->tune()->budget(), Qt::Key_End);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().budgetShare == 0.9; }));
  EXPECT_EQ(window->tune()->budget()->value(), 90);
}

TEST_F(Window, AStepIsProfiledByAClick) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->list()->count() == 3; }));
  QTest::mouseClick(window->tune()->profile()->findChild<IconButton*>("profile"), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->tune()->profile()->model()->rowCount() == 3; }));
}

TEST_F(Window, AScheduleIsMeasuredByHand) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->knob("threads") != nullptr && window->tune()->trials()->points() > 0; }));
  window->tune()->knob("threads")->setFocus();
  QTest::keyClick(window->tune()->knob("threads"), Qt::Key_End);
  QTest::mouseClick(window->tune()->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->tune()->measured().contains("33.3"); })) << window->tune()->measured().toStdString();
}

TEST_F(Window, PinAfterMeasureKeepsTheScheduleThatWasMeasured) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  tune->knob("threads")->setFocus();
  QTest::keyClick(tune->knob("threads"), Qt::Key_End);
  const std::string measured = tune->chosenSchedule().text;
  ASSERT_EQ(knobsOf(measured).at("threads"), "2");
  QTest::mouseClick(tune->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return tune->measured().contains("33.3"); })) << tune->measured().toStdString();
  EXPECT_EQ(tune->trial(), 900u);
  EXPECT_TRUE(tune->lineage().contains("c900")) << tune->lineage().toStdString();
  EXPECT_EQ(knobsOf(tune->chosenSchedule().text), knobsOf(measured)) << "the panel left the trial that was measured";
  QTest::mouseClick(tune->pin(), Qt::LeftButton);
  const std::string line = "hint schedule Y " + scheduleText(measured, 16, 88);
  EXPECT_NE(document().text().find(line), std::string::npos) << document().text();
}

TEST_F(Window, WhatTheKernelCannotHaveIsGreySaysWhyAndIsNotPinned) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  QComboBox *threads = tune->knob("threads"), *tile = tune->knob("tile");
  const int wide = tile->findData("[8,8]");
  EXPECT_FALSE(tile->itemData(wide, Qt::ForegroundRole).isValid());
  threads->setFocus();
  QTest::keyClick(threads, Qt::Key_End);
  ASSERT_TRUE(wait([&] { return tile->itemData(wide, Qt::ToolTipRole).toString().contains("registers"); }));
  EXPECT_TRUE(tile->itemData(wide, Qt::ForegroundRole).isValid());
  EXPECT_FALSE(tile->itemData(0, Qt::ForegroundRole).isValid());
  EXPECT_TRUE(tune->pin()->isEnabled());
  tile->setFocus();
  QTest::keyClick(tile, Qt::Key_End);
  EXPECT_FALSE(tune->pin()->isEnabled()) << "nobody has said yet that the kernel can have it";
  ASSERT_TRUE(wait([&] { return !tune->measure()->isEnabled(); }));
  EXPECT_TRUE(tune->measured().contains("registers")) << tune->measured().toStdString();
  EXPECT_TRUE(tune->pin()->toolTip().contains("registers")) << tune->pin()->toolTip().toStdString();
  QTest::mouseClick(tune->pin(), Qt::LeftButton);
  EXPECT_EQ(document().text(), capsule::kText);
  QTest::keyClick(tile, Qt::Key_Home);
  ASSERT_TRUE(wait([&] { return tune->pin()->isEnabled(); }));
  EXPECT_TRUE(tune->measure()->isEnabled());
  EXPECT_EQ(tune->measured(), "");
}

TEST_F(Window, PinKeepsAScheduleInTheNotebookAndUnpinTakesItOut) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->knob("threads") != nullptr && tune->trials()->points() > 0; }));
  tune->chooseTrial(7);
  ASSERT_EQ(tune->pin()->text(), "Pin");
  QTest::mouseClick(tune->pin(), Qt::LeftButton);
  const std::string line = "hint schedule Y " + scheduleText(capsule::trials()[7].schedule.text, 16, 88);
  EXPECT_NE(document().text().find(line), std::string::npos) << document().text();
  EXPECT_EQ(tune->pin()->text(), "Unpin");
  EXPECT_EQ(cell(4)->editor()->bytes(), line);  // the hint's cell is in the notebook's view, too
  ASSERT_TRUE(wait([&] {
    const auto& all = window->workspace().subgraphs().subgraphs;
    return window->workspace().analysisIsCurrent() && !all.empty() && all[0].state == protocol::SubgraphState::Pinned;
  }));
  EXPECT_TRUE(window->statusText().contains("Y") || window->statusText().contains("up to date"));
  QTest::keyClick(tune->pin(), Qt::Key_Space);
  EXPECT_EQ(document().text().find("hint schedule"), std::string::npos);
  EXPECT_EQ(tune->pin()->text(), "Pin");
  window->action("edit.undo")->trigger();
  EXPECT_EQ(tune->pin()->text(), "Unpin");
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_EQ(tune->pin()->text(), "Pin");
}

TEST_F(Window, AReplayStandsBesideTheFigureItRepeats) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->trials()->points() > 0; }));
  tune->chooseTrial(2);
  QTest::mouseClick(tune->replay(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return tune->measured().contains("now 33.3"); })) << tune->measured().toStdString();
  EXPECT_TRUE(tune->measured().contains("g0 c2 was 621")) << tune->measured().toStdString();
  EXPECT_TRUE(tune->measured().contains("faster")) << tune->measured().toStdString();
  EXPECT_TRUE(tune->replay()->isEnabled());
  EXPECT_EQ(tune->trial(), 2u);  // the playhead stays on what was measured again
}

TEST_F(Window, TwoKernelsAreComparedThroughTheEngine) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return window->tune()->trials()->points() > 0 && window->tune()->kernel()->comparison()->count() > 3; }));
  window->tune()->chooseTrial(2);
  ASSERT_TRUE(wait([&] { return window->tune()->kernel()->text().contains("0..32"); }));
  QComboBox* with = window->tune()->kernel()->comparison();
  with->setFocus();
  for (int i = 1; i < with->count() && window->tune()->kernel()->difference().first == 0; ++i) {
    QTest::keyClick(with, Qt::Key_Down);
    const bool odd = with->currentText().section('c', 1).section(' ', 0, 0).toInt() % 2 == 1;
    if (odd) {
      ASSERT_TRUE(wait([&] { return window->tune()->kernel()->difference() == std::pair(1, 1); }));
    }
  }
  EXPECT_EQ(window->tune()->kernel()->difference(), (std::pair{1, 1}));
}

TEST_F(Window, ValuesInSightFollowTheTraining) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  ASSERT_TRUE(wait([&] { return !window->inspector()->tensor().isEmpty(); }));
  run(3);
  int slices = 0;
  QObject::connect(&window->workspace(), &Workspace::sliceArrived, window.get(), [&] { ++slices; });
  ASSERT_TRUE(wait([&] { return slices >= 2; }));
}

TEST_F(Window, TheLastValuesOfARunAreShownWhenItHasEnded) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->inspector()->values()->facts().contains("at step 400"); }));
  int kernels = 0;
  QObject::connect(&window->workspace(), &Workspace::subgraphsArrived, window.get(), [&] { ++kernels; });
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return window->inspector()->values()->facts().contains("at step 401") && kernels > 0; }));
  EXPECT_FALSE(window->inspector()->values()->old());
}

TEST_F(Window, StopStops) {
  std::string text = capsule::kText;
  text.replace(text.find("steps = 500"), 11, "steps = 1000000");
  write(text);
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->action("run.stop")->isEnabled(); }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(cell(3)->train()->detail().contains("stopped"));
}

TEST_F(Window, RunningAShowCellShowsItsValues) {
  openChecked();
  run(2);
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView() && cell(2)->tensorView()->model()->rowCount() > 0; }));
  EXPECT_EQ(cell(2)->tensorView()->tensor(), "Y");
}

TEST_F(Window, ForcingAFusionWritesAHintAndDecidesAgain) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(2);
  QTest::mouseClick(window->explain()->card()->force(), Qt::LeftButton);
  EXPECT_NE(document().text().find("hint fuse Y, d(L)/d(Y)"), std::string::npos);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->report().decisions[2].state == protocol::FusionState::Forced; }));
  window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->report().decisions[2].state == protocol::FusionState::Refused; }));
}

TEST_F(Window, DecisionsAndGraphOfAnOlderTextAreGreyed) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() == 4 && !explain->graph()->graph().nodes.empty(); }));
  EXPECT_FALSE(isGreyed(explain->table()) || explain->graph()->outdated());
  document().setFusionHint("Y", "L", Document::FusionHint::Split);
  EXPECT_TRUE(isGreyed(explain->table()) && explain->graph()->outdated());
  window->notebook()->followDocument();
  ASSERT_TRUE(wait([&] { return !isGreyed(explain->table()) && !explain->graph()->outdated(); }));
}

TEST_F(Window, BothWaysOfADecisionAreMeasured) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() == 4; }));
  window->explain()->chooseDecision(2);
  QTest::mouseClick(window->explain()->card()->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->explain()->card()->whatIf().contains("slower by 1.8"); }));
  EXPECT_TRUE(window->explain()->card()->measure()->isEnabled());
  EXPECT_TRUE(window->explain()->card()->intervals());
  const QAbstractItemModel* table = window->explain()->fusion();
  EXPECT_TRUE(table->index(2, FusionModel::kMeasured).data().toString().contains("±"));
  EXPECT_EQ(table->index(1, FusionModel::kMeasured).data().toString(), "–");
  window->explain()->chooseDecision(1);
  EXPECT_FALSE(window->explain()->card()->intervals());
}

TEST_F(Window, TheStageSliderChangesTheGraph) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().nodes.size() == 7; }));
  QTest::keyClick(window->explain()->slider(), Qt::Key_Left);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "partitioned"; }));
}

TEST_F(Window, NodesStayWhereTheyAreWhileTheSliderMoves) {
  openChecked();
  window->showPage(MainWindow::Page::Author);
  QTest::keyClick(window.get(), Qt::Key_2, Qt::ControlModifier);
  GraphView* graph = window->explain()->graph();
  const auto places = [graph] {
    std::map<std::string, QPointF> out;
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      out[graph->graph().nodes[i].id] = graph->toWidget(graph->layoutOf().nodes[i].rect.topLeft());
    return out;
  };
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused" && graph->graph().nodes.size() == 7; }));
  const auto before = places();
  window->explain()->slider()->setFocus();
  for (const char* stage : {"partitioned", "transformed", "differentiated", "source"}) {
    QTest::keyClick(window->explain()->slider(), Qt::Key_Left);
    ASSERT_TRUE(wait([&] { return graph->graph().stage == stage; }));
    for (const auto& [id, at] : places()) EXPECT_EQ(at, before.at(id)) << stage << " " << id;
  }
}

// The stage that is looked at when the text changes is not the one that knows the groups: that one is asked for first.
TEST_F(Window, AnEarlyStageIsDrawnOnThePlacesOfTheLast) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  GraphView* graph = window->explain()->graph();
  int plans = 0;
  QObject::connect(&window->workspace(), &Workspace::graphPlanArrived, window.get(), [&] { ++plans; });
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused"; }));
  for (const char* stage : {"partitioned", "transformed", "differentiated", "source"}) {
    QTest::keyClick(window->explain()->slider(), Qt::Key_Left);
    ASSERT_TRUE(wait([&] { return graph->graph().stage == stage; }));
  }
  EXPECT_EQ(plans, 0);
  document().replace(0, 0, "# x\n", "Edit");
  ASSERT_TRUE(wait([&] { return graph->graph().revision == document().revision(); }));
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(graph->graph().stage, "source");
  QTest::keyClick(window->explain()->slider(), Qt::Key_Right);
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "differentiated"; }));
  EXPECT_EQ(plans, 1);
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

TEST_F(Window, ThePaletteFindsAndRunsACommand) {
  openChecked();
  window->action("tools.palette")->trigger();
  ASSERT_TRUE(window->palette()->isVisible());
  QTest::keyClicks(window->palette()->field(), "explain");
  QTest::keyClick(window->palette()->field(), Qt::Key_Return);
  EXPECT_EQ(window->page(), MainWindow::Page::Explain);
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
