// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/kept_run.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLocale>
#include <algorithm>
#include <iterator>
#include <type_traits>

#include "app/workbench/carry_runs.h"
#include "widgets/basic.h"

namespace nf {
namespace {

constexpr int kMostResumed = 100;  // runs one behind the other

// What it was resumed from, and behind which step; of one that began by itself nothing.
struct Before {
  QString checkpoint;
  std::int64_t step = 0;
};

QString beganText(const QString& folder) {
  const QString stamp = QStringLiteral("yyyy-MM-dd-HHmmss");
  const QDateTime began = QDateTime::fromString(folder.left(stamp.size()), stamp);
  return began.isValid() ? QLocale::c().toString(began, QStringLiteral("d MMM yyyy, HH:mm:ss")) : folder;
}

// Long, and the engine has them on record.
bool isTrial(const QByteArray& line) { return line.startsWith("{\"event\":\"trial\""); }

std::optional<KeptRun> readRun(const QDir& folder, Before& before) {
  QFile settings(folder.filePath(QStringLiteral("run.json"))), events(folder.filePath(QStringLiteral("events.jsonl")));
  if (!settings.open(QIODevice::ReadOnly) || !events.open(QIODevice::ReadOnly)) return std::nullopt;
  KeptRun run;
  run.folder = folder.dirName();
  run.began = beganText(run.folder);
  run.record = QJsonDocument::fromJson(settings.readAll()).object();
  const QJsonObject set = run.record.value(QStringLiteral("settings")).toObject();
  before = {set.value(QStringLiteral("resume")).toString(), set.value(QStringLiteral("resumed_at")).toInteger(-1)};
  run.meaning = run.record.value(QStringLiteral("meaning")).toString().toStdString();
  while (!events.atEnd()) {
    const QByteArray line = events.readLine().trimmed();
    if (isTrial(line)) continue;
    const auto message = protocol::decode({line.constData(), static_cast<std::size_t>(line.size())});
    if (!message) continue;  // the last line of a run that was killed
    if (const auto* step = std::get_if<protocol::StepEvent>(&*message)) {
      // What a lost device took along was made again.
      while (!run.steps.empty() && run.steps.back().step >= step->step) run.steps.pop_back();
      run.steps.push_back(*step);
    } else if (const auto* swap = std::get_if<protocol::KernelSwapEvent>(&*message)) run.swaps.push_back(*swap);
    else if (const auto* reverted = std::get_if<protocol::FusionRevertedEvent>(&*message)) run.swaps.push_back(swapOf(*reverted));
    else if (const auto* eval = std::get_if<protocol::EvalEvent>(&*message)) run.evals.push_back(*eval);
    else if (const auto* done = std::get_if<protocol::DoneEvent>(&*message)) run.done = *done;
    else if (const auto* error = std::get_if<protocol::ErrorEvent>(&*message)) run.error = *error;
  }
  if (run.steps.empty()) return std::nullopt;
  if (before.step < 0) before.step = run.steps.front().step - run.steps.front().steps;
  return run;
}

// Puts what the runs did that it goes on from before what it did itself, up to the step where each was left.
void addEarlier(KeptRun& run, const QDir& root, Before before) {
  for (int n = 0; n < kMostResumed && !before.checkpoint.isEmpty(); ++n) {
    // Beside it where the folder was moved since.
    const QDir named = QFileInfo(before.checkpoint).dir();
    const QDir beside(root.filePath(named.dirName()));
    const std::int64_t until = before.step;
    const auto earlier = readRun(beside.exists() ? beside : named, before);
    if (!earlier) return;
    const auto put = [](auto& into, const auto& from, auto kept) {
      std::remove_cvref_t<decltype(into)> all;
      std::copy_if(from.begin(), from.end(), std::back_inserter(all), kept);
      all.insert(all.end(), into.begin(), into.end());
      into = std::move(all);
    };
    const auto done = [until](const auto& event) { return event.step <= until; };
    put(run.steps, earlier->steps, done);
    put(run.evals, earlier->evals, done);
    put(run.swaps, earlier->swaps, [until](const auto& swap) { return swap.step < until; });  // before the next step
  }
}

// The last events of a run: how it ended, else how far it came.
struct LastEvents {
  std::int64_t step = 0;
  std::optional<protocol::DoneEvent> done;
  bool failed = false;
};

LastEvents lastEvents(const QDir& folder) {
  QFile events(folder.filePath(QStringLiteral("events.jsonl")));
  LastEvents last;
  if (!events.open(QIODevice::ReadOnly)) return last;
  // From the end, and farther back where nothing there says how far it came: a slow step has many trials behind it.
  for (qint64 tail = 1 << 16; last.step == 0; tail *= 8) {
    last = {};
    const bool whole = events.size() <= tail;
    events.seek(whole ? 0 : events.size() - tail);
    if (!whole) events.readLine();
    while (!events.atEnd()) {
      const QByteArray line = events.readLine().trimmed();
      if (isTrial(line)) continue;
      const auto message = protocol::decode({line.constData(), static_cast<std::size_t>(line.size())});
      if (!message) continue;
      if (const auto* step = std::get_if<protocol::StepEvent>(&*message)) last.step = step->step;
      else if (const auto* eval = std::get_if<protocol::EvalEvent>(&*message)) last.step = std::max(last.step, eval->step);
      else if (const auto* done = std::get_if<protocol::DoneEvent>(&*message)) last.done = *done, last.step = done->steps;
      else if (std::holds_alternative<protocol::ErrorEvent>(*message)) last.failed = true;
    }
    if (whole) break;
  }
  return last;
}

std::optional<KeptRun> wholeRun(const QDir& root, const QString& folder) {
  Before before;
  auto run = readRun(QDir(root.filePath(folder)), before);
  if (!run) return std::nullopt;
  if (run->done && !before.checkpoint.isEmpty() && before.step > 0)
    run->done->resumed_at = before.step;  // an older engine told none
  addEarlier(*run, root, before);
  return run;
}

QDir runsOf(const QString& notebook) { return QDir(notebook + kRuns); }

}  // namespace

std::optional<KeptRun> newestKeptRun(const QString& notebook) {
  const QDir root = runsOf(notebook);
  for (const QString& name : runsIn(root.path()))
    if (auto run = wholeRun(root, name)) return run;
  return std::nullopt;
}

std::optional<KeptRun> keptRun(const QString& notebook, const QString& folder) { return wholeRun(runsOf(notebook), folder); }

bool hasRuns(const QString& notebook) {
  const QDir root = runsOf(notebook);
  const QStringList all = runsIn(root.path());
  return std::any_of(all.begin(), all.end(),
                     [&](const QString& name) { return QFile::exists(root.filePath(name + QStringLiteral("/run.json"))); });
}

QString begunWith(const QString& weights) {
  const auto tr = [](const char* text) { return QCoreApplication::translate("nf::KeptRun", text); };
  if (weights.isEmpty()) return {};
  const QFileInfo file(weights);
  const QString folder = file.dir().dirName(), began = beganText(folder);
  return began == folder ? tr("Begun with the values of %1").arg(file.fileName())
                         : tr("Begun with what the run of %1 learnt").arg(began);
}

QString begunWith(const QJsonObject& record) {
  return begunWith(record.value(QStringLiteral("settings")).toObject().value(QStringLiteral("weights")).toString());
}

std::vector<KeptRunLine> keptRuns(const QString& notebook, const TrainOf& train) {
  const auto tr = [](const char* text) { return QCoreApplication::translate("nf::KeptRun", text); };
  std::vector<KeptRunLine> lines;
  const QDir root = runsOf(notebook);
  for (const QString& name : runsIn(root.path())) {
    const QDir folder(root.filePath(name));
    QFile settings(folder.filePath(QStringLiteral("run.json")));
    if (!settings.open(QIODevice::ReadOnly)) continue;
    const QJsonObject record = QJsonDocument::fromJson(settings.readAll()).object();
    if (!isRunOf(record, train)) continue;
    const LastEvents last = lastEvents(folder);
    if (last.step == 0) continue;
    const QString way = last.done && !last.done->stopped ? tr("trained %1 steps")
                        : last.done                      ? tr("stopped at step %1")
                        : last.failed                    ? tr("failed at step %1")
                                                         : tr("interrupted at step %1");
    QString words = beganText(name) + QStringLiteral(":  ") + way.arg(grouped(last.step));
    if (last.done && last.done->loss) words += tr(", loss %1").arg(significant(*last.done->loss, 4));
    if (last.done && last.done->accuracy) words += tr(", held out %1 %").arg(100 * *last.done->accuracy, 0, 'f', 2);
    if (const QString from = begunWith(record); !from.isEmpty())
      words += QStringLiteral("; ") + from.left(1).toLower() + from.mid(1);
    lines.push_back({name, words});
  }
  return lines;
}

}  // namespace nf
