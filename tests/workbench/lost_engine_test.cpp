// SPDX-License-Identifier: GPL-3.0-or-later
// Engines that are killed, hang or are not there: what stays, what is said, and what a run goes on from.
#include <signal.h>

#include <QComboBox>
#include <QDir>
#include <QListWidget>
#include <QPushButton>

#include "app/workbench/answer_watch.h"
#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/message_bar.h"
#include "widgets/plots.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

// The folder that an earlier run of the notebook left.
struct KeptRun {
  QDir out;
  explicit KeptRun(const QTemporaryDir& folder) : out(folder.filePath("capsule.nf.out/2026-11-21-235430")) {
    EXPECT_TRUE(out.mkpath("."));
  }
  void put(const char* name, const QByteArray& bytes) const {
    QFile file(out.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(bytes);
  }
  void putCheckpoint(int step) const {
    const QByteArray header = R"({"__metadata__":{"neoflow":"{\"step\":)" + QByteArray::number(step) + R"(}"}})";
    QByteArray length(8, '\0');
    length[0] = static_cast<char>(header.size());
    put("checkpoint.safetensors", length + header);
  }
};

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
  EXPECT_TRUE(cell(2)->tensorView()->old()) << "nobody has asked for them since";
  EXPECT_TRUE(inspector->values()->old());
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
  const std::string text = writeLongTraining();
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

// With no engine behind it a window shows what it was told last, whatever is chosen.
TEST_F(Window, WhatWasToldOutlivesTheEngineWhileThereIsNone) {
  openChecked();
  run(2);
  InspectorView* inspector = window->inspector();
  const auto proved = [&] {
    for (const Badge* b : inspector->findChildren<Badge*>())
      if (b->isVisible() && b->accessibleName() == "proved") return true;
    return false;
  };
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView() && cell(2)->tensorView()->model()->rowCount() > 0; }));
  window->pinInspector("d(L)/d(W)");
  ASSERT_TRUE(wait([&] { return proved() && inspector->values()->model()->rowCount() > 0; }));
  TuneView* tune = window->tune();
  const auto knob = [&] {
    for (const QComboBox* b : tune->findChildren<QComboBox*>())
      if (!b->isHidden() && b->accessibleName() == "tile") return b->count();
    return 0;
  };
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return tune->list()->count() == 3; }));
  for (const char* id : {"bb02", "aa01"}) {
    tune->chooseSubgraph(id);
    ASSERT_TRUE(wait([&] { return knob() > 0; })) << id;
  }
  EngineLink& engine = window->workspace().engine();
  const auto first = engine.processId();
  ASSERT_EQ(::kill(static_cast<pid_t>(first), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return engine.processId() != first && window->workspace().analysisIsKnown(); }));
  ASSERT_EQ(::kill(static_cast<pid_t>(engine.processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return engine.state() == EngineLink::State::Dead; }));
  tune->chooseSubgraph("bb02");
  EXPECT_TRUE(wait([&] { return knob() > 0; }));
  window->showPage(MainWindow::Page::Author);
  inspector->clear();
  window->pinInspector("W");
  window->pinInspector("d(L)/d(W)");
  EXPECT_TRUE(wait(proved));
  EXPECT_GT(inspector->values()->model()->rowCount(), 0);
  EXPECT_TRUE(inspector->values()->old());
}

// What somebody asks for while there is no engine has its answer at once, and nothing waits for ever.
TEST_F(Window, WhatIsAskedOfNoEngineIsAnswered) {
  writeLongTraining();
  openChecked();
  run(3);
  ASSERT_TRUE(wait([&] { return window->workspace().steps().size() == 100; }));
  run(2);
  EXPECT_EQ(cell(2)->status(), protocol::CellStatus::Queued);
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->trials()->points() > 0 && !tune->kernel()->pending(); }));
  EngineLink& engine = window->workspace().engine();
  const auto first = engine.processId();
  ASSERT_EQ(::kill(static_cast<pid_t>(first), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return engine.processId() != first && window->workspace().analysisIsKnown(); }));
  ASSERT_TRUE(wait([&] { return tune->trials()->points() > 1 && tune->replay()->isEnabled() && window->workspace().idle(); }));
  ASSERT_EQ(::kill(static_cast<pid_t>(engine.processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return engine.state() == EngineLink::State::Dead; }));
  tune->chooseTrial(2);
  EXPECT_TRUE(tune->kernel()->pending());
  QTest::mouseClick(tune->replay(), Qt::LeftButton);
  EXPECT_FALSE(tune->measuring());
  EXPECT_EQ(tune->measured(), "the engine is not running");
  for (const char* id : {"tune.profile", "tune.measureDevice", "tune.start", "run.all"}) {
    window->action("tools.message")->trigger();
    window->action(id)->trigger();
    EXPECT_EQ(window->statusText(), "The engine is not running") << id;
  }
  EXPECT_NE(cell(2)->status(), protocol::CellStatus::Running);
  // Resume asks for an engine.
  QTest::mouseClick(cell(3)->train()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().running(); }));
  EXPECT_TRUE(cell(3)->train()->running());
  EXPECT_TRUE(wait([&] { return !tune->kernel()->pending() && tune->replay()->isEnabled(); }));
}

// What is offered after a kill is what can be done.
TEST_F(Window, ResumeIsOfferedWhereThereIsACheckpoint) {
  const std::string text = writeLongTraining();
  const KeptRun kept(folder);
  kept.put("run.json", R"({"train":"L","settings":{"resume":""}})");
  for (const bool any : {false, true}) {
    if (any) kept.put("checkpoint.safetensors", "weights");
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
    EXPECT_EQ(window->messages()->answers().front(), any ? "Resume training" : "Train again");
    if (any) {
      // It was deleted meanwhile: that is no mistake of the cell.
      ASSERT_TRUE(QFile::remove(kept.out.filePath("checkpoint.safetensors")));
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

// The curve had come further than the newest checkpoint: how far back a resumed run begins is said where it is offered and while it does.
TEST_F(Window, AResumeSaysWhereItGoesOnFrom) {
  const std::string text = writeLongTraining();
  const KeptRun kept(folder);
  kept.put("run.json", R"({"train":"L","settings":{"resume":""}})");
  kept.putCheckpoint(150);
  openChecked();
  run(3);
  TrainStrip* strip = cell(3)->train();
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step == 400; }));
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && window->workspace().analysisIsKnown(); }));
  EXPECT_TRUE(window->messages()->text().contains("go on from step 150")) << window->messages()->text().toStdString();
  EXPECT_TRUE(strip->detail().startsWith("newest checkpoint: step 150")) << strip->detail().toStdString();
  QTest::mouseClick(strip->resume(), Qt::LeftButton);
  EXPECT_TRUE(strip->running());
  EXPECT_TRUE(strip->detail().startsWith("going on from step 150")) << strip->detail().toStdString();
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
}

// A checkpoint that lies behind the end of the training is nothing to go on from, until the text asks for more: of steps or of epochs.
TEST_F(Window, ResumeIsNotOfferedPastTheEnd) {
  const KeptRun kept(folder);
  kept.put("run.json", R"({"train":"L","settings":{"resume":""}})");
  kept.put("events.jsonl", "{\"event\":\"step\",\"step\":3018,\"ms\":1,\"loss\":0.5}\n");
  kept.putCheckpoint(3018);
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
  const KeptRun kept(folder);
  kept.put("run.json", R"({"train":"L","settings":{"resume":""},"steps_per_epoch":25})");
  kept.put("events.jsonl", "{\"event\":\"step\",\"step\":50,\"ms\":1,\"loss\":0.5}\n");
  kept.putCheckpoint(50);
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
  const std::string text = writeLongTraining();
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
  EXPECT_EQ(window->explain()->graph()->nothing(), "The graph of the operators stands here when the engine runs again.");
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

}  // namespace
}  // namespace nf
