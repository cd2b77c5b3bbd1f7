// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/newest_run.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QtEndian>

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

}  // namespace

NewestCheckpoint newestCheckpoint(const QString& notebook) {
  const QDir root(notebook + QStringLiteral(".out"));
  // Folders are named by the time they were made at.
  for (const QString& name : root.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed)) {
    const QDir run(root.filePath(name));
    QFile settings(run.filePath(QStringLiteral("run.json")));
    if (!settings.open(QIODevice::ReadOnly)) continue;
    const QString own = QStringLiteral("checkpoint.safetensors");
    const QJsonObject json = QJsonDocument::fromJson(settings.readAll()).object();
    const QJsonObject set = json.value(QStringLiteral("settings")).toObject();
    const std::int64_t perEpoch = json.value(QStringLiteral("steps_per_epoch")).toInteger();
    const std::int64_t batch = set.value(QStringLiteral("batch")).toInteger();
    const std::string program = json.value(QStringLiteral("program")).toString().toStdString();
    if (run.exists(own)) return {true, stepsOf(run.filePath(own)), perEpoch, batch, program};
    QString from = set.value(QStringLiteral("resume")).toString();
    // The runs of a notebook move with it.
    if (const QFileInfo was(from); !from.isEmpty() && !was.exists())
      from = root.filePath(was.dir().dirName() + QLatin1Char('/') + was.fileName());
    return {!from.isEmpty() && QFile::exists(from), from.isEmpty() ? 0 : stepsOf(from), perEpoch, batch, program};
  }
  return {};
}

}  // namespace nf
