// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/kept_run.h"

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

namespace nf {
namespace {

constexpr int kMostResumed = 100;  // runs one behind the other

// What it was resumed from, and behind which step; of one that began by itself nothing.
struct Before {
  QString checkpoint;
  std::int64_t step = 0;
};

std::optional<KeptRun> readRun(const QDir& folder, Before& before) {
  QFile settings(folder.filePath(QStringLiteral("run.json"))), events(folder.filePath(QStringLiteral("events.jsonl")));
  if (!settings.open(QIODevice::ReadOnly) || !events.open(QIODevice::ReadOnly)) return std::nullopt;
  KeptRun run;
  const QString stamp = QStringLiteral("yyyy-MM-dd-HHmmss");
  const QDateTime began = QDateTime::fromString(folder.dirName().left(stamp.size()), stamp);
  run.began = began.isValid() ? QLocale::c().toString(began, QStringLiteral("d MMM yyyy, HH:mm")) : folder.dirName();
  const QJsonObject record = QJsonDocument::fromJson(settings.readAll()).object();
  run.loss = record.value(QStringLiteral("train")).toString().toStdString();
  const QJsonObject set = record.value(QStringLiteral("settings")).toObject();
  before = {set.value(QStringLiteral("resume")).toString(), set.value(QStringLiteral("resumed_at")).toInteger(-1)};
  run.meaning = record.value(QStringLiteral("meaning")).toString().toStdString();
  while (!events.atEnd()) {
    const QByteArray line = events.readLine().trimmed();
    if (line.startsWith("{\"event\":\"trial\"")) continue;  // long, and the engine has them on record
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

}  // namespace

std::optional<KeptRun> newestKeptRun(const QString& notebook) {
  const QDir root(notebook + QStringLiteral(".out"));
  // Folders are named by the time they were made at.
  QStringList runs = root.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed);
  for (const QString& name : runs) {
    Before before;
    auto run = readRun(QDir(root.filePath(name)), before);
    if (!run) continue;
    if (run->done && !before.checkpoint.isEmpty() && before.step > 0)
      run->done->resumed_at = before.step;  // an older engine told none
    addEarlier(*run, root, before);
    return run;
  }
  return std::nullopt;
}

}  // namespace nf
