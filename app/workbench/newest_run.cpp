// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/newest_run.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QtEndian>
#include <algorithm>
#include <optional>

#include "app/workbench/carry_runs.h"

namespace nf {

namespace {

// Of the header of a safetensors file: eight bytes of its length, then JSON.
std::int64_t stepsOf(const QString& checkpoint) {
  constexpr quint64 kLongest = 1 << 26;
  QFile file(checkpoint);
  if (!file.open(QIODevice::ReadOnly)) return 0;
  const QByteArray length = file.read(8);
  if (length.size() < 8) return 0;
  const auto bytes = qFromLittleEndian<quint64>(length.constData());
  if (bytes > kLongest) return 0;
  const QString own = QJsonDocument::fromJson(file.read(static_cast<qint64>(bytes)))
                          .object()
                          .value(QStringLiteral("__metadata__"))
                          .toObject()
                          .value(QStringLiteral("neoflow"))
                          .toString();
  return QJsonDocument::fromJson(own.toUtf8()).object().value(QStringLiteral("step")).toInteger();
}

std::optional<RunCheckpoint> leftBy(const QDir& root, const QString& name, const TrainOf* train) {
  const QDir run(root.filePath(name));
  QFile settings(run.filePath(QStringLiteral("run.json")));
  if (!settings.open(QIODevice::ReadOnly)) return std::nullopt;
  const QJsonObject json = QJsonDocument::fromJson(settings.readAll()).object();
  const QJsonObject set = json.value(QStringLiteral("settings")).toObject();
  RunCheckpoint left;
  left.ofTrain = !train || isRunOf(json, *train);
  if (!left.ofTrain) return left;
  left.stepsPerEpoch = json.value(QStringLiteral("steps_per_epoch")).toInteger();
  left.batch = set.value(QStringLiteral("batch")).toInteger();
  left.program = json.value(QStringLiteral("program")).toString().toStdString();
  left.path = run.filePath(QStringLiteral("checkpoint.safetensors"));
  if (!QFile::exists(left.path)) {
    left.path = set.value(QStringLiteral("resume")).toString();
    // The runs of a notebook move with it.
    if (const QFileInfo was(left.path); !left.path.isEmpty() && !was.exists())
      left.path = root.filePath(was.dir().dirName() + QLatin1Char('/') + was.fileName());
  }
  left.there = !left.path.isEmpty() && QFile::exists(left.path);
  left.steps = left.there ? stepsOf(left.path) : 0;
  return left;
}

QDir runsOf(const QString& notebook) { return QDir(notebook + kRuns); }

}  // namespace

std::optional<TrainOf> trainOf(const protocol::Analysis& analysis, std::size_t cell) {
  if (cell >= analysis.cells.size() || !analysis.cells[cell].train) return std::nullopt;
  const protocol::TrainInfo& own = *analysis.cells[cell].train;
  TrainOf of{own.loss, own.program, 1, {}};
  for (const protocol::CellInfo& other : analysis.cells) {
    if (!other.train) continue;
    of.losses.push_back(other.train->loss);
    of.ofLoss += other.train->loss == own.loss && other.train->number < own.number;
  }
  return of;
}

bool isRunOf(const QJsonObject& record, const TrainOf& train) {
  const std::string loss = record.value(QStringLiteral("train")).toString().toStdString();
  const QJsonValue number = record.value(QStringLiteral("of_loss"));
  if (loss == train.loss) return number.isUndefined() || number.toInteger() == train.ofLoss;
  return !train.program.empty() && record.value(QStringLiteral("program")).toString().toStdString() == train.program &&
         std::find(train.losses.begin(), train.losses.end(), loss) == train.losses.end();
}

RunCheckpoint newestCheckpoint(const QString& notebook, const TrainOf* train) {
  const QDir root = runsOf(notebook);
  bool any = false;
  for (const QString& name : runsIn(root.path()))
    if (const auto left = leftBy(root, name, train)) {
      if (left->ofTrain) return *left;
      any = true;
    }
  return {.there = !any};
}

RunCheckpoint checkpointOf(const QString& notebook, const QString& run, const TrainOf* train) {
  return leftBy(runsOf(notebook), run, train).value_or(RunCheckpoint{.there = false});
}

}  // namespace nf
