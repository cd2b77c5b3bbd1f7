// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/kept_run.h"

#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLocale>

namespace nf {
namespace {

struct Leg {
  KeptRun run;
  QString from;  // the checkpoint that it went on from; empty: none
};

std::optional<Leg> readRun(const QDir& folder) {
  QFile settings(folder.filePath(QStringLiteral("run.json"))), events(folder.filePath(QStringLiteral("events.jsonl")));
  if (!settings.open(QIODevice::ReadOnly) || !events.open(QIODevice::ReadOnly)) return std::nullopt;
  KeptRun run;
  const QString stamp = QStringLiteral("yyyy-MM-dd-HHmmss");
  const QDateTime began = QDateTime::fromString(folder.dirName().left(stamp.size()), stamp);
  run.began = began.isValid() ? QLocale::c().toString(began, QStringLiteral("d MMM yyyy, HH:mm")) : folder.dirName();
  const QJsonObject record = QJsonDocument::fromJson(settings.readAll()).object();
  run.loss = record.value(QStringLiteral("train")).toString().toStdString();
  run.meaning = record.value(QStringLiteral("meaning")).toString().toStdString();
  while (!events.atEnd()) {
    const QByteArray line = events.readLine().trimmed();
    if (line.startsWith("{\"event\":\"trial\"")) continue;  // long, and the engine has them on record
    const auto message = protocol::decode({line.constData(), static_cast<std::size_t>(line.size())});
    if (!message) continue;  // the last line of a run that was killed
    if (const auto* step = std::get_if<protocol::StepEvent>(&*message)) run.steps.push_back(*step);
    else if (const auto* swap = std::get_if<protocol::KernelSwapEvent>(&*message)) run.swaps.push_back(*swap);
    else if (const auto* eval = std::get_if<protocol::EvalEvent>(&*message)) run.evals.push_back(*eval);
    else if (const auto* done = std::get_if<protocol::DoneEvent>(&*message)) run.done = *done;
    else if (const auto* error = std::get_if<protocol::ErrorEvent>(&*message)) run.error = *error;
  }
  if (run.steps.empty()) return std::nullopt;
  return Leg{std::move(run), record.value(QStringLiteral("settings")).toObject().value(QStringLiteral("resume")).toString()};
}

// What an earlier leg did up to `step`, before what `run` has. Each counts its seconds from its own beginning.
void prepend(KeptRun& run, KeptRun earlier, std::int64_t step) {
  std::erase_if(earlier.steps, [&](const auto& e) { return e.step > step; });
  std::erase_if(earlier.swaps, [&](const auto& e) { return e.step > step; });
  std::erase_if(earlier.evals, [&](const auto& e) { return e.step > step; });
  const double seconds = earlier.steps.empty() ? 0 : earlier.steps.back().seconds;
  for (auto& e : run.steps) e.seconds += seconds;
  for (auto& e : run.swaps) e.seconds += seconds;
  const auto put = [](auto& all, auto& before) { all.insert(all.begin(), before.begin(), before.end()); };
  put(run.steps, earlier.steps);
  put(run.swaps, earlier.swaps);
  put(run.evals, earlier.evals);
}

// A notebook that was moved with its runs finds them where they are now.
std::optional<Leg> legBehind(const QDir& root, const QString& checkpoint) {
  const QDir there = QFileInfo(checkpoint).dir();
  if (auto leg = readRun(there)) return leg;
  return readRun(QDir(root.filePath(there.dirName())));
}

KeptRun withEarlierLegs(const QDir& root, Leg leg) {
  KeptRun run = std::move(leg.run);
  if (leg.from.isEmpty()) return run;
  const auto beforeFirst = [&] { return run.steps.front().step - run.steps.front().steps; };
  run.resumedAfter = beforeFirst();
  // Every leg begins before the one behind it: a ring has an end.
  while (!leg.from.isEmpty()) {
    const std::int64_t step = beforeFirst();
    auto earlier = legBehind(root, leg.from);
    run.whole = earlier && earlier->run.loss == run.loss && earlier->run.steps.front().step <= step &&
                earlier->run.steps.front().step < run.steps.front().step;
    if (!run.whole) return run;
    leg.from = earlier->from;
    prepend(run, std::move(earlier->run), step);
  }
  return run;
}

}  // namespace

std::optional<KeptRun> newestKeptRun(const QString& notebook) {
  const QDir root(notebook + QStringLiteral(".out"));
  // Folders are named by the time they were made at.
  QStringList runs = root.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed);
  for (const QString& name : runs)
    if (auto leg = readRun(QDir(root.filePath(name)))) return withEarlierLegs(root, std::move(*leg));
  return std::nullopt;
}

}  // namespace nf
