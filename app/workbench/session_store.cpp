// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/session_store.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStandardPaths>
#include <QUuid>
#include <algorithm>

#include "widgets/write_file.h"

namespace nf {
namespace {

const QString kSession = QStringLiteral("session.json");

std::optional<Session> readSession(const QString& folder) {
  QFile file(QDir(folder).filePath(kSession));
  if (!file.open(QIODevice::ReadOnly)) return std::nullopt;
  const QJsonObject json = QJsonDocument::fromJson(file.readAll()).object();
  Session session;
  session.current = json.value(QStringLiteral("current")).toInt();
  session.page = json.value(QStringLiteral("page")).toInt();
  for (const QJsonValue& value : json.value(QStringLiteral("tabs")).toArray()) {
    const QJsonObject tab = value.toObject();
    const QString journal = tab.value(QStringLiteral("journal")).toString();
    session.tabs.push_back({tab.value(QStringLiteral("path")).toString(),
                            journal.isEmpty() ? QString() : QDir(folder).filePath(QFileInfo(journal).fileName()),
                            tab.value(QStringLiteral("untitled")).toInt(), tab.value(QStringLiteral("cell")).toInt()});
  }
  return session;
}

QString writeSession(const QString& folder, const Session& session) {
  QJsonArray tabs;
  for (const SessionTab& tab : session.tabs)
    tabs.append(QJsonObject{{QStringLiteral("path"), tab.path},
                            {QStringLiteral("journal"), QFileInfo(tab.journal).fileName()},
                            {QStringLiteral("untitled"), tab.untitled},
                            {QStringLiteral("cell"), tab.cell}});
  const QJsonObject json{
      {QStringLiteral("tabs"), tabs}, {QStringLiteral("current"), session.current}, {QStringLiteral("page"), session.page}};
  return writeWhole(QDir(folder).filePath(kSession), QJsonDocument(json).toJson().toStdString());
}

// Without the notebook of this file.
void takeOut(const QString& folder, const QString& path) {
  std::optional<Session> session = readSession(folder);
  if (!session) return;
  const auto isIt = [&](const SessionTab& tab) { return tab.path == path; };
  const auto current = session->tabs.begin() + std::clamp<std::ptrdiff_t>(session->current, 0, std::ssize(session->tabs));
  session->current -= static_cast<int>(std::count_if(session->tabs.begin(), current, isIt));
  if (std::erase_if(session->tabs, isIt) == 0) return;
  if (session->tabs.empty()) QFile::remove(QDir(folder).filePath(kSession));
  else writeSession(folder, *session);
}

QStringList journalsIn(const QString& folder) {
  QStringList files;
  for (const QString& name : QDir(folder).entryList({QStringLiteral("*.journal")}, QDir::Files, QDir::Time))
    files << QDir(folder).filePath(name);
  return files;
}

// The lock of a window's folder stands beside it: it is there before the folder and goes after it.
std::unique_ptr<QLockFile> lockOf(const QString& folder) {
  auto lock = std::make_unique<QLockFile>(folder + QStringLiteral(".lock"));
  lock->setStaleLockTime(0);  // a window may stand open for weeks
  return lock->tryLock(0) ? std::move(lock) : nullptr;
}

}  // namespace

std::optional<Journal> readJournal(const QString& file) {
  QFile in(file);
  if (!in.open(QIODevice::ReadOnly)) return std::nullopt;
  return journalFrom(in.readAll().toStdString());
}

QString folderOfJournal(const QString& file) {
  const QFileInfo info(file);
  return info.dir().filePath(info.completeBaseName());
}

QString SessionStore::defaultRoot() {
  return QDir(QStandardPaths::writableLocation(QStandardPaths::AppLocalDataLocation)).filePath(QStringLiteral("windows"));
}

SessionStore::SessionStore(const QString& root)
    : m_root(root), m_folder(QDir(root).filePath(QUuid::createUuid().toString(QUuid::WithoutBraces))) {}

void SessionStore::make() {
  if (m_lock) return;
  QDir().mkpath(m_root);
  m_lock = lockOf(m_folder);
  QDir().mkpath(m_folder);
}

SessionStore::~SessionStore() = default;

QString SessionStore::newJournal() {
  make();
  return QDir(m_folder).filePath(QString::number(++m_next) + QStringLiteral(".journal"));
}

void SessionStore::write(const Session& session) {
  if (session == m_written) return;
  make();
  if (writeSession(m_folder, session).isEmpty()) m_written = session;
}

void SessionStore::close() {
  QFile::remove(QDir(m_folder).filePath(kSession));
  QDir().rmdir(m_folder);  // not where journals are left
  m_lock.reset();
}

QStringList SessionStore::leftFolders() const {
  QFileInfoList folders = QDir(m_root).entryInfoList(QDir::Dirs | QDir::NoDotAndDotDot);
  std::sort(folders.begin(), folders.end(),
            [](const QFileInfo& a, const QFileInfo& b) { return a.lastModified() < b.lastModified(); });
  QStringList out;
  for (const QFileInfo& folder : folders)
    if (folder.absoluteFilePath() != QFileInfo(m_folder).absoluteFilePath()) out << folder.absoluteFilePath();
  return out;
}

SessionStore::Left SessionStore::takeAll() {
  Left left;
  for (const QString& folder : leftFolders()) {
    const auto lock = lockOf(folder);
    if (!lock) continue;
    Session session = readSession(folder).value_or(Session{});
    QStringList files = journalsIn(folder);
    for (SessionTab& tab : session.tabs) {
      if (!files.removeOne(tab.journal)) tab.journal.clear();
    }
    std::reverse(files.begin(), files.end());
    for (const QString& file : files)  // written after the session was, or handed on without an answer
      session.tabs.push_back({{}, file, 0, 0});
    std::vector<SessionTab> tabs;
    for (SessionTab& tab : session.tabs) {
      if (!tab.journal.isEmpty()) {
        const auto journal = readJournal(tab.journal);
        const QString mine = newJournal();
        if (const QString damaged = tab.journal + QStringLiteral(".damaged"); !journal && QFile::rename(tab.journal, damaged))
          left.unreadable << damaged;
        if (const QString before = tab.journal; journal && QFile::rename(before, mine)) {
          tab.journal = mine;
          if (const QString runs = folderOfJournal(before); journal->path.empty() && QFileInfo::exists(runs))
            QFile::rename(runs, folderOfJournal(mine));
          tab.path = QString::fromStdString(journal->path);
        } else {
          tab.journal.clear();
        }
      }
      if (!tab.path.isEmpty() || !tab.journal.isEmpty()) tabs.push_back(tab);
      else if (session.current >= static_cast<int>(tabs.size()) && session.current > 0) --session.current;
    }
    session.tabs = std::move(tabs);
    QFile::remove(QDir(folder).filePath(kSession));
    QDir().rmdir(folder);
    if (!session.tabs.empty()) left.sessions.push_back(std::move(session));
  }
  return left;
}

SessionStore::Waiting SessionStore::countLeft(const QStringList& open) const {
  Waiting waiting;
  QStringList known = open;
  for (const QString& folder : leftFolders()) {
    const auto lock = lockOf(folder);
    if (!lock) continue;
    const QStringList files = journalsIn(folder);
    waiting.unsaved += static_cast<int>(files.size());
    for (const QString& file : files)
      if (const auto journal = readJournal(file); journal && !journal->path.empty()) known << QString::fromStdString(journal->path);
    for (const SessionTab& tab : readSession(folder).value_or(Session{}).tabs)
      if (!tab.path.isEmpty() && !files.contains(tab.journal) && !known.contains(tab.path) && QFileInfo(tab.path).isReadable()) {
        known << tab.path;
        ++waiting.notebooks;
      }
  }
  waiting.notebooks += waiting.unsaved;
  return waiting;
}

void SessionStore::forgetLeft() {
  for (const QString& folder : leftFolders()) {
    const auto lock = lockOf(folder);
    if (!lock || !journalsIn(folder).isEmpty()) continue;
    QFile::remove(QDir(folder).filePath(kSession));
    QDir().rmdir(folder);
  }
}

std::vector<LeftJournal> SessionStore::takeOf(const QString& path) {
  std::vector<std::pair<QDateTime, LeftJournal>> found;
  for (const QString& folder : leftFolders()) {
    const auto lock = lockOf(folder);
    if (!lock) continue;
    for (const QString& file : journalsIn(folder)) {
      auto journal = readJournal(file);
      if (!journal || QString::fromStdString(journal->path) != path) continue;
      const QDateTime when = QFileInfo(file).lastModified();
      const QString mine = newJournal();
      if (QFile::rename(file, mine)) found.push_back({when, {mine, std::move(*journal)}});
    }
    takeOut(folder, path);
    if (journalsIn(folder).isEmpty() && !QFile::exists(QDir(folder).filePath(kSession))) QDir().rmdir(folder);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<LeftJournal> out;
  for (auto& [when, journal] : found) out.push_back(std::move(journal));
  return out;
}

}  // namespace nf
