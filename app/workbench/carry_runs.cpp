// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/carry_runs.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <filesystem>

namespace nf {
namespace {

namespace fs = std::filesystem;

fs::path pathOf(const QString& path) { return QFile::encodeName(path).toStdString(); }

// It was carried there already.
bool isThere(const QString& from, const QString& to, const QString& run) {
  const auto settings = [&](const QString& root) {
    QFile file(QDir(root).filePath(run + QStringLiteral("/run.json")));
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  };
  const QByteArray there = settings(to);
  return !there.isEmpty() && !QFileInfo(QDir(to).filePath(run)).isSymLink() && there == settings(from);
}

// Where a run of this name goes; what only shows it there makes room.
fs::path freePlace(const QString& from, const QString& to, const QString& run) {
  for (int n = 1;; ++n) {
    const fs::path place = pathOf(QDir(to).filePath(n == 1 ? run : run + QStringLiteral("-%1").arg(n)));
    std::error_code code;
    if (fs::is_symlink(place, code) && fs::read_symlink(place, code) == pathOf(QDir(from).absoluteFilePath(run)))
      fs::remove(place, code);
    if (!fs::exists(fs::symlink_status(place, code))) return place;
  }
}

std::error_code copyFolder(const fs::path& from, const fs::path& to, bool link) {
  std::error_code code;
  if (link) {
    fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::create_hard_links, code);
    if (!code) return code;
    std::error_code ignored;
    fs::remove_all(to, ignored);
    code.clear();
  }
  fs::copy(from, to, fs::copy_options::recursive, code);
  if (code) {
    std::error_code ignored;
    fs::remove_all(to, ignored);
  }
  return code;
}

QString carry(const QString& from, const QString& to, bool move) {
  const QStringList runs = runsIn(from);  // where there is no room for all, the newest is wanted
  if (runs.isEmpty()) return {};
  if (!QDir().mkpath(to)) return QObject::tr("the folder %1 cannot be made").arg(to);
  QString error;
  for (const QString& run : runs) {
    if (!move && isThere(from, to, run)) continue;
    const fs::path source = pathOf(QDir(from).absoluteFilePath(run)), target = freePlace(from, to, run);
    std::error_code code;
    if (move) fs::rename(source, target, code);
    if (!move || code) {
      code = copyFolder(source, target, !move);
      std::error_code ignored;
      if (move && !code) fs::remove_all(source, ignored);
    }
    if (code && error.isEmpty()) error = QString::fromStdString(code.message());
  }
  if (move) {
    QDir().rmdir(from);
    QDir().rmdir(QFileInfo(from).absolutePath());
  }
  return error;
}

}  // namespace

QStringList runsIn(const QString& folder) {
  return QDir(folder).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed);
}

QString moveRuns(const QString& from, const QString& to) { return carry(from, to, true); }
QString copyRuns(const QString& from, const QString& to) { return carry(from, to, false); }

void showRunsAt(const QString& from, const QString& to) {
  const QStringList runs = runsIn(from);
  if (runs.isEmpty() || !QDir().mkpath(to)) return;
  for (const QString& run : runs) {
    std::error_code code;
    fs::create_directory_symlink(pathOf(QDir(from).absoluteFilePath(run)), freePlace(from, to, run), code);
  }
}

}  // namespace nf
