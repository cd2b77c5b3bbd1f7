// SPDX-License-Identifier: GPL-3.0-or-later
// What survives: a killed window, a file that two windows have open, one that changes or goes on disk, one that cannot be written.
#include <signal.h>
#include <sys/resource.h>

#include <QApplication>
#include <QDir>
#include <QDirIterator>
#include <QDockWidget>
#include <QFileDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProcess>
#include <QPushButton>
#include <QSettings>
#include <QTabBar>
#include <QTextBlock>
#include <cstdio>

#include "app/workbench/kept_run.h"
#include "tests/workbench/killed_window.h"
#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/command_note.h"
#include "widgets/dock_page.h"
#include "widgets/expression_editor.h"
#include "widgets/message_bar.h"
#include "widgets/plots.h"
#include "widgets/swap_list.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {

int windowToKill(const QStringList& steps) {
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, qEnvironmentVariable("NF_TEST_SETTINGS"));
  Theme theme;
  MainWindow window(&theme, {"/bin/false"});
  window.show();
  for (qsizetype i = 0; i < steps.size(); ++i) {
    if (steps[i] == "open") window.openFile(steps[++i]);
    if (steps[i] == "new") window.action("file.new")->trigger();
    if (steps[i] == "type") {
      const auto& views = window.notebook()->cells();
      CellView* code = *std::find_if(views.begin(), views.end(), [](const CellView* v) { return v->kind() == CellKind::Code; });
      window.notebook()->activate(code->id(), true);
      QTest::keyClicks(code->editor(), steps[++i]);
    }
    if (steps[i] == "dark") window.action("view.dark")->trigger();
    if (steps[i] == "hide-inspector") window.action("view.inspector")->trigger();
  }
  // Killed at once: only what is written without waiting is there.
  if (!steps.contains("at-once")) {
    for (int i = 0; i < window.tabs()->count(); ++i) {
      window.showTab(i);
      window.workspace().writeJournal();
    }
    window.showTab(window.tabs()->count() - 1);
    window.writeSession();
  }
  std::puts("kept");
  std::fflush(stdout);
  return QApplication::exec();
}

namespace {

struct Recovery : Window {
  QTemporaryDir settings;
  QString other(const char* name = "other.nf", const char* text = "# %%\nlet z = 3\n") const {
    QFile file(folder.filePath(name));
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
    return file.fileName();
  }
  // Runs these steps in another process, which then is killed or, with `then`, stands while that runs.
  template <class F>
  void inAnotherWindow(const QStringList& steps, F then) {
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("NF_TEST_SETTINGS", settings.path());
    process.setProcessEnvironment(environment);
    process.start(QApplication::applicationFilePath(), QStringList{"--window"} + steps);
    QByteArray said;
    const bool ready = wait([&] {
      said += process.readAllStandardOutput();
      return said.contains("kept") || process.state() == QProcess::NotRunning;
    });
    EXPECT_TRUE(ready && said.contains("kept")) << process.readAllStandardError().toStdString();
    then();
    ::kill(static_cast<pid_t>(process.processId()), SIGKILL);
    EXPECT_TRUE(process.waitForFinished(kPatience));
  }
  void kill(const QStringList& steps) {
    inAnotherWindow(steps, [] {});
  }
  void start() {
    window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());
    window->show();
    window->restoreLayout();
    window->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
  }
  void startBare() {
    start();
    window->restoreSession();
  }
  void startWith(const QString& file) {
    start();
    window->openFile(file);
  }
  // The notebook with this typed into its first code cell.
  static std::string with(const std::string& typed) {
    std::string text = capsule::kText;
    return text.insert(text.find("let B"), typed);
  }
  void press(int button) { QTest::mouseClick(window->messages()->buttons().at(button), Qt::LeftButton); }
  std::string textOf(int tab) {
    window->showTab(tab);
    return document().text();
  }
  // A window on another file offers the two notebooks that were open; both come, the second with this text.
  void openTwoBeside(const QString& file, const std::string& second) {
    startWith(file);
    window->tellOfLeft();
    ASSERT_EQ(window->messages()->key(), "left");
    EXPECT_TRUE(window->messages()->text().contains("2 notebooks were open")) << window->messages()->text().toStdString();
    press(0);
    ASSERT_EQ(window->tabs()->count(), 3);
    EXPECT_EQ(textOf(1), capsule::kText);
    EXPECT_EQ(textOf(2), second);
  }
  QStringList journals() const {
    QStringList found;
    const QDir windows(SessionStore::defaultRoot());
    for (const QString& name : windows.entryList(QDir::Dirs | QDir::NoDotAndDotDot))
      found += QDir(windows.filePath(name)).entryList({"*.journal"});
    return found;
  }
};

TEST_F(Recovery, TheThemeThatWasChosenIsKeptWhenTheWindowIsKilled) {
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());
  EXPECT_EQ(MainWindow::keptTheme(), Theme::Mode::System);
  kill({"dark", "at-once"});
  EXPECT_EQ(MainWindow::keptTheme(), Theme::Mode::Dark);
  // A window for a picture, or one that was told its theme, changes nothing of it.
  theme.setMode(Theme::Mode::Light);
  start();
  EXPECT_EQ(MainWindow::keptTheme(), Theme::Mode::Dark);
  EXPECT_TRUE(window->action("view.light")->isChecked());
  window->forgetSession();
  window->action("view.system")->trigger();
  EXPECT_EQ(theme.mode(), Theme::Mode::System);
  EXPECT_EQ(MainWindow::keptTheme(), Theme::Mode::Dark);
}

TEST_F(Recovery, AKilledWindowComesBackWithEveryTab) {
  const QString second = other();
  kill({"type", "let first = 1", "open", path(), "type", "# mine ", "open", second, "new", "type", "let u = 7", "hide-inspector"});
  startBare();
  ASSERT_EQ(window->tabs()->count(), 4);
  EXPECT_EQ(window->tabs()->currentIndex(), 3);
  EXPECT_EQ(window->messages()->key(), "recovered");
  for (const char* name : {"untitled.nf", "capsule.nf"}) EXPECT_TRUE(window->messages()->text().contains(name)) << name;
  EXPECT_FALSE(window->messages()->text().contains("other.nf")) << "nothing of it was unsaved";
  EXPECT_FALSE(window->authorPage()->panel("inspector")->isVisible());
  // Each file has its own bar, which stays when it has been compared.
  window->showTab(1);
  ASSERT_EQ(window->messages()->key(), "recovered");
  ASSERT_EQ(window->messages()->buttons().size(), 1);
  press(0);
  EXPECT_EQ(window->messages()->key(), "recovered");
  window->showTab(2);
  EXPECT_TRUE(window->messages()->key().isEmpty()) << "nothing of it was unsaved";
  window->showTab(0);
  EXPECT_EQ(window->messages()->key(), "recovered");
  EXPECT_TRUE(window->messages()->buttons().isEmpty()) << "there is no file to compare with";
  window->showTab(3);
  EXPECT_EQ(textOf(0), "let first = 1");
  EXPECT_EQ(textOf(1), with("# mine "));
  EXPECT_EQ(textOf(2), "# %%\nlet z = 3\n");
  EXPECT_EQ(textOf(3), "let u = 7");
  EXPECT_TRUE(document().modified());
  // Undone, the text is the saved one, and counts as that.
  window->showTab(1);
  while (document().canUndo()) window->action("edit.undo")->trigger();
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_FALSE(document().modified());
  window->action("edit.redo")->trigger();
  window->showTab(0);
  // Killed again before anything was saved, nothing is lost.
  window.reset();
  startBare();
  ASSERT_EQ(window->tabs()->count(), 4);
  EXPECT_EQ(textOf(0), "let first = 1");
  EXPECT_EQ(textOf(3), "let u = 7");
}

// A run that was resumed is shown whole: what ran before, up to where it was left, and what came then.
TEST_F(Recovery, ARunThatWasResumedIsShownWhole) {
  kill({"open", path(), "type", "# mine "});
  const auto leg = [&](const QString& name, const std::string& settings, int first, int last, std::vector<int> swaps) {
    const QDir run(folder.filePath("capsule.nf.out/" + name));
    ASSERT_TRUE(run.mkpath("."));
    std::string events;
    for (const int at : swaps) {
      protocol::KernelSwapEvent swap;
      swap.subgraph = "aa01", swap.name = "Y", swap.before_us = 900, swap.after_us = 400, swap.step = at;
      events += protocol::encode(swap) + "\n";
    }
    if (first == 1) {
      protocol::FusionRevertedEvent reverted;
      reverted.name = "Y", reverted.fused_us = 20, reverted.split_us = 15, reverted.step = 25;
      events += protocol::encode(reverted) + "\n";
    }
    for (int i = first; i <= last; ++i) {
      protocol::StepEvent e;
      e.step = i, e.ms = 2, e.ms_min = 1.9, e.ms_max = 2.2, e.loss = 2.0 / i, e.seconds = i * 0.002;
      events += protocol::encode(e) + "\n";
    }
    for (const auto& [file, text] :
         {std::pair("run.json", R"({"train":"L","settings":)" + settings + "}"), {"events.jsonl", events}}) {
      QFile out(run.filePath(file));
      ASSERT_TRUE(out.open(QIODevice::WriteOnly));
      out.write(text.data(), static_cast<qint64>(text.size()));
    }
  };
  leg("2026-11-21-235430", "{}", 1, 40, {20, 35});
  leg("2026-11-21-235530", R"({"resume":"/elsewhere/2026-11-21-235430/checkpoint.safetensors","resumed_at":30})", 31, 50, {45});
  leg("2026-11-21-235630", R"({"resume":"/elsewhere/2026-11-21-235530/checkpoint.safetensors","resumed_at":48})", 49, 60, {});
  startBare();
  window->workspace().startEngine();
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->plot()->steps() == 60; }));
  EXPECT_EQ(cell(3)->train()->result(), "Interrupted run of 21 Nov 2026, 23:56:30: at step 60");
  EXPECT_EQ(cell(3)->train()->swaps()->count(), 3)
      << "the one of step 35 was not gone on from; a fusion that was taken back is one";
  EXPECT_EQ(cell(3)->train()->lossPlot()->points(), 60);
}

// Its seconds are of the steps that it made itself; where the end does not say of which, the run's settings do.
TEST_F(Recovery, AKeptRunKnowsWhatItWasResumedFrom) {
  const QDir run(folder.filePath("capsule.nf.out/2026-11-21-235530"));
  ASSERT_TRUE(run.mkpath("."));
  protocol::StepEvent step;
  step.step = 50, step.steps = 20, step.ms = 2;
  for (const auto& [file, text] :
       {std::pair("run.json", std::string(R"({"train":"L","settings":{"resume":"gone.safetensors","resumed_at":30}})")),
        {"events.jsonl", protocol::encode(step) + "\n" + R"({"event":"done","steps":50,"seconds":0.04})" + "\n"}}) {
    QFile out(run.filePath(file));
    ASSERT_TRUE(out.open(QIODevice::WriteOnly));
    out.write(text.data(), static_cast<qint64>(text.size()));
  }
  const auto kept = newestKeptRun(path());
  ASSERT_TRUE(kept && kept->done);
  EXPECT_EQ(kept->done->resumed_at, 30);
}

// Its newest step lies far from the end of its events.
TEST_F(Recovery, ARunThatWasKilledInItsTrialsIsAmongTheRuns) {
  const QDir run(folder.filePath("capsule.nf.out/2026-11-21-235530"));
  ASSERT_TRUE(run.mkpath("."));
  protocol::StepEvent step;
  step.step = 50, step.steps = 20, step.ms = 2;
  protocol::TrialEvent trial;
  trial.how = std::string(500, 'x');
  std::string events = protocol::encode(step) + "\n";
  for (int k = 0; k < 2000; ++k) events += protocol::encode(trial) + "\n";
  for (const auto& [file, text] :
       {std::pair("run.json", std::string(R"({"train":"L","settings":{}})")), {"events.jsonl", events}}) {
    QFile out(run.filePath(file));
    ASSERT_TRUE(out.open(QIODevice::WriteOnly));
    out.write(text.data(), static_cast<qint64>(text.size()));
  }
  const auto lines = keptRuns(path(), TrainOf{.loss = "L"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines.front().words.endsWith("interrupted at step 50")) << lines.front().words.toStdString();
}

// What the run of a killed window left beside the notebook is shown again, as what it is.
TEST_F(Recovery, ANotebookOfAKilledWindowShowsTheRunThatWasKept) {
  kill({"open", path(), "type", "# mine "});
  const QDir run(folder.filePath("capsule.nf.out/2026-11-21-235430"));
  ASSERT_TRUE(run.mkpath("."));
  const auto put = [&](const char* name, const std::string& text) {
    QFile file(run.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text.data(), static_cast<qint64>(text.size()));
  };
  put("run.json", R"({"train":"L","settings":{}})");
  std::string events;
  for (int i = 1; i <= 40; ++i) {
    protocol::StepEvent e;
    e.step = i, e.ms = 2, e.ms_min = 1.9, e.ms_max = 2.2, e.loss = 2.0 / i, e.seconds = i * 0.002;
    events += protocol::encode(e) + "\n";
  }
  protocol::KernelSwapEvent swap;
  swap.subgraph = "aa01", swap.name = "Y", swap.before_us = 900, swap.after_us = 400, swap.step = 20;
  events += protocol::encode(swap) + "\n";
  put("events.jsonl", events + R"({"event":"step","st)");
  startBare();
  window->workspace().startEngine();
  ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->plot()->steps() == 40; }));
  EXPECT_TRUE(cell(3)->train()->isVisibleTo(cell(3)));
  EXPECT_EQ(cell(3)->train()->result(), "Interrupted run of 21 Nov 2026, 23:54:30: at step 40");
  EXPECT_FALSE(cell(3)->train()->resumes()) << "it left no checkpoint";
  EXPECT_EQ(cell(3)->train()->plot()->swaps(), 1);
  EXPECT_EQ(cell(3)->train()->lossPlot()->points(), 40);
  EXPECT_TRUE(cell(3)->neverTrained()) << "not by this window";
  window->showPage(MainWindow::Page::Tune);
  EXPECT_EQ(window->tune()->latency()->steps(), 40);
  // A run takes its place.
  window->showPage(MainWindow::Page::Author);
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  this->run(3);
  ASSERT_TRUE(wait([&] { return cell(3)->train()->plot()->steps() == 100; }));
  ASSERT_TRUE(wait([&] { return !cell(3)->train()->running(); }));
  EXPECT_FALSE(cell(3)->neverTrained());
}

// It is nobody's to be changed here, and its run is there to be read; one that has no end may be under way in the other window.
TEST_F(Recovery, ANotebookThatIsOpenElsewhereShowsARunThatHasEnded) {
  const auto put = [&](const char* name, const char* file, const std::string& text) {
    const QDir run(folder.filePath(QStringLiteral("capsule.nf.out/") + QLatin1String(name)));
    ASSERT_TRUE(run.mkpath("."));
    QFile out(run.filePath(QLatin1String(file)));
    ASSERT_TRUE(out.open(QIODevice::WriteOnly));
    out.write(text.data(), static_cast<qint64>(text.size()));
  };
  std::string events;
  for (int i = 1; i <= 40; ++i) {
    protocol::StepEvent e;
    e.step = i, e.ms = 2, e.ms_min = 1.9, e.ms_max = 2.2, e.loss = 2.0 / i, e.seconds = i * 0.002;
    events += protocol::encode(e) + "\n";
  }
  protocol::DoneEvent done;
  done.steps = 40, done.seconds = 0.08;
  put("2026-11-21-235430", "run.json", R"({"train":"L","settings":{}})");
  put("2026-11-21-235430", "events.jsonl", events + protocol::encode(done) + "\n");
  inAnotherWindow({"open", path()}, [&] {
    startWith(path());
    ASSERT_TRUE(document().readOnly());
    window->workspace().startEngine();
    ASSERT_TRUE(wait([&] { return cell(3)->train() && cell(3)->train()->plot()->steps() == 40; }));
    EXPECT_TRUE(cell(3)->train()->isVisibleTo(cell(3)));
    EXPECT_TRUE(cell(3)->train()->result().contains(": 40 steps in ")) << cell(3)->train()->result().toStdString();
  });
}

TEST_F(Recovery, AWindowThatWasClosedLeavesNothing) {
  startBare();
  QTest::keyClicks(cell(0)->editor(), "let a = 1");
  window->workspace().writeJournal();
  EXPECT_EQ(journals().size(), 1);
  EXPECT_FALSE(window->close());
  press(1);
  EXPECT_FALSE(window->isVisible());
  window.reset();
  EXPECT_TRUE(QDir(SessionStore::defaultRoot()).isEmpty());
  startBare();
  EXPECT_EQ(window->tabs()->count(), 1);
  EXPECT_TRUE(window->messages()->key().isEmpty());
}

TEST_F(Recovery, AFileIsAskedAboutItsOwnJournalAndOthersWait) {
  const QString second = other();
  kill({"open", path(), "type", "# lost ", "open", second, "type", "# other ", "new", "type", "let u = 7"});
  startWith(path());
  EXPECT_EQ(document().text(), capsule::kText);
  ASSERT_EQ(window->messages()->key(), "journal");
  press(0);
  EXPECT_EQ(document().text(), with("# lost "));
  EXPECT_TRUE(document().modified());
  EXPECT_TRUE(window->messages()->key().isEmpty());
  window->tellOfLeft();
  EXPECT_EQ(window->messages()->key(), "left");
  EXPECT_TRUE(window->messages()->text().contains("2 notebooks")) << window->messages()->text().toStdString();
  window->action("file.save")->trigger();
  EXPECT_EQ(onDisk(), with("# lost "));
  EXPECT_TRUE(window->close());
  window.reset();
  startBare();
  std::vector<std::string> texts;
  for (int i = 0; i < window->tabs()->count(); ++i) texts.push_back(textOf(i));
  EXPECT_NE(std::find(texts.begin(), texts.end(), "# %%\n# other let z = 3\n"), texts.end());
  EXPECT_NE(std::find(texts.begin(), texts.end(), "let u = 7"), texts.end());
}

TEST_F(Recovery, WhatWasOpenComesBackHoweverSoonTheWindowIsKilled) {
  const QString second = other();
  kill({"open", path(), "open", second, "at-once"});
  startBare();
  ASSERT_EQ(window->tabs()->count(), 2);
  EXPECT_EQ(textOf(0), capsule::kText);
  EXPECT_EQ(textOf(1), "# %%\nlet z = 3\n");
}

TEST_F(Recovery, AWindowStartedOnAFileOffersAllThatWasOpen) {
  const QString second = other(), third = other("third.nf", "let t = 1\n");
  kill({"open", path(), "open", second});
  openTwoBeside(third, "# %%\nlet z = 3\n");
  EXPECT_TRUE(window->close());
  window.reset();
  kill({"open", path(), "open", second, "type", "# other "});
  startWith(path());
  window->tellOfLeft();
  ASSERT_EQ(window->messages()->key(), "left");
  EXPECT_TRUE(window->messages()->text().contains("1 notebook that was not saved")) << "the other one is open";
}

// The session was written while the notebook was saved, its journal after: one notebook, which can be edited.
TEST_F(Recovery, AJournalThatItsSessionDoesNotKnowIsOfTheNotebookThatWasOpen) {
  const QString second = other(), third = other("third.nf", "let t = 1\n");
  kill({"open", path(), "open", second, "type", "# other "});
  for (QDirIterator it(SessionStore::defaultRoot(), {"session.json"}, QDir::Files, QDirIterator::Subdirectories); it.hasNext();) {
    QFile file(it.next());
    ASSERT_TRUE(file.open(QIODevice::ReadWrite));
    QByteArray json = file.readAll();
    ASSERT_TRUE(json.contains(".journal\""));
    const qsizetype end = json.indexOf(".journal\"") + 8, begin = json.lastIndexOf('"', end - 9) + 1;
    file.resize(0);
    file.write(json.remove(begin, end - begin));
  }
  openTwoBeside(third, "# %%\n# other let z = 3\n");
  window->tabs()->setCurrentIndex(2);
  EXPECT_FALSE(document().readOnly());
  EXPECT_TRUE(document().modified());
}

TEST_F(Recovery, WhatWasOpenIsForgottenOnRequestAndBringsNothingElse) {
  const QString second = other(), third = other("third.nf", "let t = 1\n");
  // Put away, it waits; an ordinary end meanwhile is none of its notebooks.
  kill({"open", path()});
  startWith(second);
  window->tellOfLeft();
  EXPECT_TRUE(window->close());
  window.reset();
  startWith(third);
  window->tellOfLeft();
  ASSERT_EQ(window->messages()->key(), "left");
  EXPECT_TRUE(window->messages()->text().contains("1 notebook was open")) << window->messages()->text().toStdString();
  press(0);
  ASSERT_EQ(window->tabs()->count(), 2) << "as many as it said";
  EXPECT_EQ(textOf(1), capsule::kText);
  EXPECT_TRUE(window->close());
  window.reset();
  kill({"open", path()});
  startWith(third);
  window->tellOfLeft();
  ASSERT_EQ(window->messages()->key(), "left");
  press(1);
  EXPECT_EQ(window->tabs()->count(), 1);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  window->tellOfLeft();
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_TRUE(window->close());
  window.reset();
  // What is not saved cannot be forgotten unseen.
  kill({"open", path(), "type", "# lost "});
  startWith(third);
  window->tellOfLeft();
  ASSERT_EQ(window->messages()->key(), "left");
  EXPECT_EQ(window->messages()->answers().size(), 1);
}

TEST_F(Recovery, ANotebookThatWasRecoveredIsOfNoSessionThatWasLeft) {
  const QString second = other(), third = other("third.nf", "let t = 1\n");
  kill({"open", path(), "type", "# lost "});
  startWith(path());
  ASSERT_EQ(window->messages()->key(), "journal");
  press(0);
  window->action("file.save")->trigger();
  EXPECT_EQ(onDisk(), with("# lost "));
  EXPECT_TRUE(window->close());
  window.reset();
  startWith(third);
  window->tellOfLeft();
  EXPECT_EQ(window->messages()->key(), "") << window->messages()->text().toStdString();
  EXPECT_TRUE(window->close());
  window.reset();
  // Of several, the others are left, and the one that was in front of them.
  kill({"open", path(), "open", second, "open", third});
  startWith(path());
  EXPECT_TRUE(window->close());
  window.reset();
  startWith(other("last.nf", "let u = 1\n"));
  window->tellOfLeft();
  EXPECT_TRUE(window->messages()->text().contains("2 notebooks were open")) << window->messages()->text().toStdString();
  press(0);
  EXPECT_EQ(window->workspace().path(), third);
}

// What this window has not saved has no part in another one's end.
TEST_F(Recovery, OnlyWhatWasRecoveredIsCalledSo) {
  const QString second = other();
  kill({"open", path(), "type", "# lost "});
  startWith(second);
  window->tellOfLeft();
  window->notebook()->activate(cell(0)->id(), true);
  QTest::keyClicks(cell(0)->editor(), "# mine ");
  window->workspace().writeJournal();
  ASSERT_EQ(window->messages()->key(), "left");
  press(0);
  EXPECT_EQ(document().text(), with("# lost "));
  ASSERT_EQ(window->messages()->key(), "recovered");
  EXPECT_FALSE(window->messages()->text().contains("other.nf")) << window->messages()->text().toStdString();
  window->showTab(0);
  EXPECT_EQ(window->workspace().path(), second);
  EXPECT_EQ(window->messages()->key(), "") << window->messages()->text().toStdString();
}

TEST_F(Recovery, AnUnansweredJournalIsNotLost) {
  kill({"open", path(), "type", "# lost "});
  startWith(path());
  ASSERT_EQ(window->messages()->key(), "journal");
  EXPECT_TRUE(window->close());
  window.reset();
  startBare();
  EXPECT_EQ(document().text(), with("# lost "));
}

TEST_F(Recovery, AJournalOfAFileThatChangedSinceAsks) {
  kill({"open", path(), "type", "# lost "});
  write("# %%\nlet b = 2\n");
  startBare();
  EXPECT_EQ(document().text(), with("# lost "));
  EXPECT_EQ(window->workspace().onDisk(), Workspace::OnDisk::Changed);
  window->action("file.save")->trigger();
  EXPECT_EQ(onDisk(), "# %%\nlet b = 2\n");
  // Compared, each of the bars stands where it stood.
  const QStringList bars = window->messages()->shown();
  ASSERT_TRUE(bars.contains("outside") && bars.contains("recovered")) << bars.join('|').toStdString();
  for (const QString& key : {QStringLiteral("Compare with the file"), QStringLiteral("Compare")}) {
    QPushButton* compare = nullptr;
    ASSERT_TRUE(wait([&] {
      for (QPushButton* b : window->messages()->findChildren<QPushButton*>())
        if (b->isVisible() && b->accessibleName() == key) compare = b;
      return compare != nullptr;
    })) << key.toStdString();
    QTest::mouseClick(compare, Qt::LeftButton);
    EXPECT_EQ(window->messages()->shown(), bars) << key.toStdString();
  }
}

TEST_F(Recovery, AWindowThatLivesKeepsItsJournals) {
  inAnotherWindow({"open", path(), "type", "# theirs ", "new", "type", "let u = 7"}, [&] {
    startBare();
    EXPECT_EQ(window->tabs()->count(), 1);
    EXPECT_TRUE(document().text().empty());
    EXPECT_EQ(journals().size(), 2);
    window->close();
    window.reset();
  });
}

TEST_F(Recovery, AFileThatIsOpenElsewhereIsReadOnly) {
  inAnotherWindow({"open", path()}, [&] {
    startWith(path());
    ASSERT_EQ(window->messages()->key(), "lock");
    EXPECT_TRUE(window->messages()->text().contains("process"));
    window->notebook()->activate(cell(1)->id(), true);
    QTest::keyClicks(cell(1)->editor(), "x");
    QTest::keyClick(cell(1)->editor(), Qt::Key_Tab);
    window->notebook()->insertBelow();
    window->notebook()->removeActive();
    EXPECT_TRUE(window->statusText().contains("read-only")) << window->statusText().toStdString();
    EXPECT_EQ(document().text(), capsule::kText);
    EXPECT_EQ(window->notebook()->cells().size(), 4u);
  });
  // Killed, it holds the file no longer.
  window->workspace().checkLock();
  EXPECT_TRUE(window->messages()->key().isEmpty());
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "x");
  EXPECT_NE(document().text(), capsule::kText);
  window->action("file.save")->trigger();
  EXPECT_EQ(onDisk(), document().text());
}

// With its bar put away, too, who types is told why nothing is written, and is offered to edit.
TEST_F(Recovery, TypingIntoAFileThatIsOpenElsewhereSaysWhyNothingIsWritten) {
  inAnotherWindow({"open", path()}, [&] {
    startWith(path());
    ASSERT_TRUE(document().readOnly());
    window->notebook()->activate(cell(1)->id(), true);
    ExpressionEditor* editor = cell(1)->editor();
    const CommandNote* note = window->notebook()->commandNote();
    const auto putAway = [&] {
      Q_EMIT window->messages()->answered("lock", -1);
      window->messages()->dismiss("lock");
    };
    for (const Qt::Key key : {Qt::Key_X, Qt::Key_Backspace, Qt::Key_Return}) {
      SCOPED_TRACE(key);
      putAway();
      ASSERT_TRUE(window->messages()->key().isEmpty());
      QTest::keyClick(editor, key);
      EXPECT_EQ(note->words(), "Read-only here: the notebook is open elsewhere");
      EXPECT_EQ(window->messages()->key(), "lock");
      EXPECT_EQ(window->messages()->answers(), QStringList{"Edit anyway"});
      EXPECT_EQ(document().text(), capsule::kText);
      // Reading is nothing that is refused.
      editor->moveCaretTo(editor->caretByte() == 0 ? 3 : 0);
      EXPECT_EQ(note->words(), "");
      putAway();
      QTest::keyClick(editor, Qt::Key_Space);
      QTest::keyClick(editor, Qt::Key_C, Qt::ControlModifier);
      EXPECT_EQ(note->words(), "");
      EXPECT_TRUE(window->messages()->key().isEmpty());
    }
  });
}

TEST_F(Recovery, TheLockOfAKilledWindowIsTakenOver) {
  kill({"open", path()});
  EXPECT_TRUE(QFile::exists(folder.filePath(".capsule.nf.lock")));
  startWith(path());
  EXPECT_FALSE(document().readOnly());
}

TEST_F(Recovery, ASymbolicLinkIsTheSameFile) {
  ASSERT_TRUE(QFile::link(path(), folder.filePath("link.nf")));
  inAnotherWindow({"open", folder.filePath("link.nf")}, [&] {
    startWith(path());
    EXPECT_EQ(window->messages()->key(), "lock");
    window->openFile(folder.filePath("link.nf"));
    EXPECT_EQ(window->tabs()->count(), 1);
  });
}

TEST_F(Recovery, TwoWhoEditAnywayDoNotOverwriteEachOther) {
  inAnotherWindow({"open", path()}, [&] {
    startWith(path());
    press(0);
    window->notebook()->activate(cell(1)->id(), true);
    QTest::keyClicks(cell(1)->editor(), "# mine ");
    write("# theirs\n" + capsule::kText);  // as the other one saves
    window->action("file.save")->trigger();
    EXPECT_EQ(onDisk(), "# theirs\n" + capsule::kText);
    EXPECT_EQ(document().text(), with("# mine "));
    ASSERT_EQ(window->messages()->key(), "outside");
    press(0);
    window->action("file.save")->trigger();
    EXPECT_EQ(onDisk(), with("# mine "));
    EXPECT_TRUE(window->messages()->key().isEmpty());
  });
}

TEST_F(Recovery, AFileChangedOutsideIsReadAgainOrAskedAbout) {
  open();
  write("# %%\nlet a = 1\n");
  ASSERT_TRUE(wait([&] { return document().text() == "# %%\nlet a = 1\n"; }));
  EXPECT_EQ(window->notebook()->cells().size(), 1u);
  document().replace(0, 0, "# mine\n", "Edit");
  write("# %%\nlet b = 2\n");
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  EXPECT_TRUE(document().text().starts_with("# mine"));
  press(2);  // compared, the question stands still
  auto* lines = window->findChild<QPlainTextEdit*>(QStringLiteral("comparison"));
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->lineWrapMode(), QPlainTextEdit::WidgetWidth) << "nothing of a line is out of sight";
  QStringList marked;
  for (QTextBlock block = lines->document()->begin(); block.isValid(); block = block.next())
    for (auto part = block.begin(); !part.atEnd(); ++part)
      if (part.fragment().charFormat().background().style() != Qt::NoBrush) marked << part.fragment().text();
  EXPECT_FALSE(marked.isEmpty()) << "what changed within a line is marked";
  EXPECT_EQ(window->messages()->key(), "outside");
  press(1);
  EXPECT_EQ(document().text(), "# %%\nlet b = 2\n");
  EXPECT_TRUE(window->messages()->key().isEmpty());
}

// Whoever writes in it goes on where the caret stood, whatever else of the notebook has changed.
TEST_F(Recovery, TheCaretStaysWhereItWasInAFileThatIsReadAgain) {
  const auto stands = [&](const char* text, std::size_t at, const char* then, std::size_t wanted) {
    SCOPED_TRACE(then);
    write(text);
    open();
    window->notebook()->scrollToByte(at, true);
    ASSERT_TRUE(window->notebook()->editing());
    ASSERT_EQ(window->notebook()->caretByte(), at);
    write(then);
    ASSERT_TRUE(wait([&] { return document().text() == then; }));
    EXPECT_TRUE(window->notebook()->editing());
    EXPECT_EQ(window->notebook()->caretByte(), wanted);
    EXPECT_TRUE(window->close());
    window.reset();
  };
  const std::string text = "# %%\nlet a = 1\nlet b = 2\n\n# %%\nlet c = 3\nlet d = 4\n";
  const std::size_t at = text.find("c = 3");
  const auto with = [&](const std::string& old, const std::string& next) {
    std::string out = text;
    return out.replace(out.find(old), old.size(), next);
  };
  stands(text.c_str(), at, with("let d = 4", "let d = 40\nlet e = 5").c_str(), at);
  stands(text.c_str(), at, with("let a = 1\n", "").c_str(), at - 10);
  stands(text.c_str(), at + 2, with("let c", "let x = 0\nlet c").c_str(), at + 12);
  const std::string both = "# %%\nlet a = 10\nlet b = 2\n\n# %%\nlet q = 7\nlet d = 40\n";
  stands(text.c_str(), at + 2, both.c_str(), both.find("q = 7") + 2);
}

TEST_F(Recovery, OnlyWhatIsOnDiskIsCalledSaved) {
  open();
  const auto said = [&](const QString& word) {
    for (const QLabel* l : window->findChildren<QLabel*>())
      if (l->text() == word) return true;
    return false;
  };
  EXPECT_TRUE(said("saved"));
  document().replace(0, 0, "# mine\n", "Edit");
  write("# %%\nlet b = 2\n");
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  EXPECT_TRUE(said("changed on disk"));
  QTest::keyClick(window->messages()->buttons().front(), Qt::Key_Escape);
  EXPECT_TRUE(window->messages()->key().isEmpty()) << "put away";
  window->action("edit.undo")->trigger();
  EXPECT_FALSE(document().modified());
  EXPECT_EQ(said("saved"), document().text() == onDisk());  // unless it was read again meanwhile
}

// Answered by the mouse or by keys, a question leaves the cursor in its cell.
TEST_F(Recovery, TheKeysAreTheCellsAgainOnceAQuestionIsAnswered) {
  open();
  window->notebook()->activate(cell(1)->id(), true);
  ExpressionEditor* editor = cell(1)->editor();
  editor->moveCaretTo(0);
  const auto disturb = [&](const char* mine, const char* theirs) {
    QTest::keyClicks(editor, mine);
    write(theirs);
    ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  };
  disturb("#mine ", "# %%\nlet b = 2\n");  // a comment: no list of names opens
  press(0);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_EQ(QApplication::focusWidget(), editor);
  disturb("2", "# %%\nlet b = 3\n");
  QPushButton* keep = window->messages()->buttons().at(0);
  keep->setFocus(Qt::TabFocusReason);
  ASSERT_EQ(QApplication::focusWidget(), keep);
  QTest::keyClick(keep, Qt::Key_Space);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  ASSERT_EQ(QApplication::focusWidget(), editor);
  const std::string text = document().text();
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Space);
  EXPECT_EQ(document().text().size(), text.size() + 1) << "typed, nothing undone";
}

TEST_F(Recovery, TheQuestionEndsWithWhatItAsks) {
  open();
  document().replace(0, 0, "# mine\n", "Edit");
  write("# %%\nlet b = 2\n");
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  // Another notebook is not asked; back here it is asked again.
  window->openFile(other());
  EXPECT_TRUE(window->messages()->key().isEmpty());
  window->showTab(0);
  EXPECT_EQ(window->messages()->key(), "outside");
  // The file is put back as it was.
  write(capsule::kText);
  ASSERT_TRUE(wait([&] { return window->messages()->key().isEmpty(); }));
  write("# %%\nlet b = 2\n");
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  press(0);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  window->workspace().checkDisk();
  EXPECT_TRUE(window->messages()->key().isEmpty()) << "answered";
  EXPECT_TRUE(document().modified());
  window->action("edit.undo")->trigger();
  EXPECT_TRUE(document().modified()) << "the file holds something else now";
}

TEST_F(Recovery, ADeletedFileIsSaidAndSavedAgain) {
  open();
  ASSERT_TRUE(QFile::remove(path()));
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  EXPECT_TRUE(window->messages()->text().contains("deleted"));
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_TRUE(document().modified());
  EXPECT_FALSE(window->close()) << "the text is nowhere else";
  QTest::keyClick(window.get(), Qt::Key_S, Qt::ControlModifier);
  EXPECT_EQ(onDisk(), capsule::kText);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  EXPECT_FALSE(document().modified());
  // One that comes back by itself is no question.
  ASSERT_TRUE(QFile::remove(path()));
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "outside"; }));
  write(capsule::kText);
  ASSERT_TRUE(wait([&] { return window->messages()->key().isEmpty(); }));
  EXPECT_FALSE(document().modified());
}

TEST_F(Recovery, TheTextOfADeletedFileComesBackAfterAKill) {
  open();
  ASSERT_TRUE(QFile::remove(path()));
  ASSERT_TRUE(wait([&] { return journals().size() == 1; })) << "nobody has typed, and the text is nowhere else";
  window->writeSession();
  window.reset();  // as a kill leaves it
  startBare();
  ASSERT_EQ(window->workspace().path(), path());
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_TRUE(document().modified());
  ASSERT_TRUE(wait([&] { return window->workspace().onDisk() == Workspace::OnDisk::Deleted; }));
  QTest::keyClick(window.get(), Qt::Key_S, Qt::ControlModifier);
  EXPECT_EQ(onDisk(), capsule::kText);
  EXPECT_TRUE(journals().isEmpty());
}

TEST_F(Recovery, AReplacedFileIsNotADeletedOne) {
  open();
  bool deleted = false;
  QObject::connect(&window->workspace(), &Workspace::diskChanged, window.get(),
                   [&] { deleted |= window->workspace().onDisk() == Workspace::OnDisk::Deleted; });
  QFile next(folder.filePath("next"));
  ASSERT_TRUE(next.open(QIODevice::WriteOnly));
  next.write("# %%\nlet a = 1\n");
  next.close();
  ASSERT_EQ(::rename(next.fileName().toLocal8Bit().constData(), path().toLocal8Bit().constData()), 0);
  ASSERT_TRUE(wait([&] { return document().text() == "# %%\nlet a = 1\n"; }));
  write("# %%\nlet a = 2\n");  // the new file is watched as the old one was
  ASSERT_TRUE(wait([&] { return document().text() == "# %%\nlet a = 2\n"; }));
  EXPECT_FALSE(deleted);
}

TEST_F(Recovery, AnUntitledNotebookIsAskedForAName) {
  startBare();
  QTest::keyClicks(cell(0)->editor(), "let a = 1");
  QTest::keyClick(window.get(), Qt::Key_S, Qt::ControlModifier);
  auto* dialog = window->findChild<QFileDialog*>();
  ASSERT_TRUE(dialog);
  dialog->setDirectory(folder.path());
  auto* field = dialog->findChild<QLineEdit*>("fileNameEdit");
  ASSERT_TRUE(field);
  field->setText(folder.filePath("fresh"));
  QTest::keyClick(field, Qt::Key_Return);
  ASSERT_TRUE(wait([&] { return window->workspace().path() == folder.filePath("fresh.nf"); }));
  QFile saved(folder.filePath("fresh.nf"));
  ASSERT_TRUE(saved.open(QIODevice::ReadOnly));
  EXPECT_EQ(saved.readAll(), "let a = 1");
  EXPECT_FALSE(document().modified());
}

TEST_F(Recovery, AFileKeepsItsModeAndAProtectedOneItsText) {
  const QFile::Permissions mine = QFile::ReadOwner | QFile::WriteOwner | QFile::ReadGroup | QFile::WriteGroup;
  const QFile::Permissions user = QFile::ReadUser | QFile::WriteUser;
  ASSERT_TRUE(QFile::setPermissions(path(), mine));
  open();
  QTest::keyClicks(cell(1)->editor(), "# one ");
  QTest::keyClick(window.get(), Qt::Key_S, Qt::ControlModifier);
  EXPECT_EQ(onDisk(), document().text());
  EXPECT_EQ(QFile::permissions(path()) & ~user, mine);
  const QFile::Permissions locked = QFile::ReadOwner | QFile::ReadGroup | QFile::ReadOther;
  ASSERT_TRUE(QFile::setPermissions(path(), locked));
  const std::string before = onDisk();
  QTest::keyClicks(cell(1)->editor(), "# two ");
  QTest::keyClick(window.get(), Qt::Key_S, Qt::ControlModifier);
  EXPECT_EQ(onDisk(), before);
  EXPECT_EQ(window->messages()->key(), "save");
  EXPECT_TRUE(document().modified());
  ASSERT_TRUE(QFile::setPermissions(path(), mine));
  press(0);
  EXPECT_EQ(onDisk(), document().text());
}

TEST_F(Recovery, ASaveThatFailsKeepsTheText) {
  open();
  document().replace(0, 0, "# mine\n", "Edit");
  const std::string mine = document().text();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit full{16, limit.rlim_max};  // as a full disk: the write itself fails
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  window->action("file.save")->trigger();
  window->workspace().writeJournal();
  const QString saving = window->messages()->text();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ::signal(SIGXFSZ, before);
  EXPECT_FALSE(window->workspace().journalError().isEmpty());
  EXPECT_EQ(onDisk(), capsule::kText);
  EXPECT_EQ(document().text(), mine);
  EXPECT_TRUE(document().modified());
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "keep"; }));
  window->action("file.save")->trigger();
  EXPECT_EQ(onDisk(), mine);
  EXPECT_TRUE(window->messages()->key().isEmpty()) << window->messages()->text().toStdString();
}

TEST_F(Recovery, AFolderThatTakesNoFileIsSaid) {
  open();
  document().replace(0, 0, "# mine\n", "Edit");
  EXPECT_FALSE(window->workspace().save("/proc/none.nf"));
  EXPECT_FALSE(window->workspace().save("/proc/version", true)) << "nobody writes there";
  EXPECT_EQ(window->workspace().path(), path());
  EXPECT_TRUE(document().modified());
}

}  // namespace
}  // namespace nf
