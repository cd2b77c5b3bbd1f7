// SPDX-License-Identifier: GPL-3.0-or-later
// The program as scripts and desktops start and end it: a picture after an event, or a sentence where the event does not come.
#include <gtest/gtest.h>

#include <QDirIterator>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include "tests/widgets/capsule.h"

namespace nf {
namespace {

struct Ended {
  int code = -1;
  QByteArray said;
  bool written = false;
};

// In a home of its own, with a notebook.
struct Program {
  Program() {
    QFile file(notebook);
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(capsule::kText.data(), static_cast<qint64>(capsule::kText.size()));
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("QT_QPA_PLATFORM", "offscreen");
    environment.insert("XDG_DATA_HOME", folder.filePath("state"));
    environment.insert("XDG_CONFIG_HOME", folder.filePath("config"));
    process.setProcessEnvironment(environment);
  }
  void start(const QStringList& options = {}) {
    process.start(NF_WORKBENCH_PROGRAM, QStringList{"--engine", NF_SCRIPTED_ENGINE} + options + QStringList{notebook});
  }
  QTemporaryDir folder;
  QString notebook = folder.filePath("capsule.nf");
  QProcess process;
};

Ended screenshotAfter(const QString& event) {
  Program started;
  const QTemporaryDir& folder = started.folder;
  QProcess& program = started.process;
  started.start({"--screenshot", folder.filePath("out.png"), "--after", event});
  Ended ended;
  if (!program.waitForFinished(120000)) {
    program.kill();
    program.waitForFinished();
    return ended;
  }
  ended.code = program.exitStatus() == QProcess::NormalExit ? program.exitCode() : -1;
  ended.said = program.readAllStandardError();
  ended.written = QFile::exists(folder.filePath("out.png"));
  return ended;
}

// A desktop ends it when somebody logs out: that is an end in order, and the next start has nothing to say of it.
TEST(Ending, ASignalEndsItInOrder) {
  Program started;
  QProcess& program = started.process;
  const auto kept = [&] {
    QStringList found;
    for (QDirIterator it(started.folder.filePath("state"), {"session.json"}, QDir::Files, QDirIterator::Subdirectories);
         it.hasNext();)
      found << it.next();
    return found;
  };
  started.start();
  ASSERT_TRUE(QTest::qWaitFor([&] { return !kept().isEmpty(); }, 60000)) << "the window has written down what is open";
  program.terminate();
  ASSERT_TRUE(program.waitForFinished(60000));
  EXPECT_EQ(program.exitStatus(), QProcess::NormalExit);
  EXPECT_EQ(program.exitCode(), 0);
  EXPECT_TRUE(kept().isEmpty()) << "as after a window that was closed";
}

TEST(Screenshot, IsTakenAfterAnEventThatComes) {
  const Ended ended = screenshotAfter("analysis");
  EXPECT_EQ(ended.code, 0) << ended.said.toStdString();
  EXPECT_TRUE(ended.written);
}

TEST(Screenshot, OfAnEventThatDoesNotComeIsASentence) {
  const Ended ended = screenshotAfter("profile");
  EXPECT_EQ(ended.code, 1) << ended.said.toStdString();
  EXPECT_TRUE(ended.said.contains("--after profile: ")) << ended.said.toStdString();
  EXPECT_FALSE(ended.written);
}

}  // namespace
}  // namespace nf
