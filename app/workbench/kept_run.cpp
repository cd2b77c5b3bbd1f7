// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/kept_run.h"

#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLocale>

namespace nf {
namespace {

std::optional<KeptRun> readRun(const QDir& folder) {
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
  return run.steps.empty() ? std::nullopt : std::optional(std::move(run));
}

}  // namespace

std::optional<KeptRun> newestKeptRun(const QString& notebook) {
  const QDir root(notebook + QStringLiteral(".out"));
  // Folders are named by the time they were made at.
  QStringList runs = root.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed);
  for (const QString& name : runs)
    if (auto run = readRun(QDir(root.filePath(name)))) return run;
  return std::nullopt;
}

}  // namespace nf
