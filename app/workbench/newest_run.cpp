// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/newest_run.h"

#include <QDir>
#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>

namespace nf {

bool newestRunResumes(const QString& notebook) {
  const QDir root(notebook + QStringLiteral(".out"));
  // Folders are named by the time they were made at.
  for (const QString& name : root.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed)) {
    const QDir run(root.filePath(name));
    QFile settings(run.filePath(QStringLiteral("run.json")));
    if (!settings.open(QIODevice::ReadOnly)) continue;
    if (run.exists(QStringLiteral("checkpoint.safetensors"))) return true;
    const QJsonObject json = QJsonDocument::fromJson(settings.readAll()).object();
    const QString from = json.value(QStringLiteral("settings")).toObject().value(QStringLiteral("resume")).toString();
    return !from.isEmpty() && QFile::exists(from);
  }
  return true;
}

}  // namespace nf
