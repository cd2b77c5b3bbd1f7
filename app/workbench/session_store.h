// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QLockFile>
#include <QString>
#include <QStringList>
#include <memory>
#include <optional>
#include <vector>

#include "core/document/journal.h"

namespace nf {

// A notebook of a window, as the window's folder tells it.
struct SessionTab {
  QString path;      // empty: it has no file yet
  QString journal;   // its file; empty: nothing unsaved was written
  int untitled = 0;  // the number of one that has no file
  int cell = 0;      // the active one, counted from 0
  friend bool operator==(const SessionTab&, const SessionTab&) = default;
};

struct Session {
  std::vector<SessionTab> tabs;
  int current = 0;
  int page = 0;
  friend bool operator==(const Session&, const Session&) = default;
};

// The text of a notebook that a window did not save before it ended, with the file it stands in.
struct LeftJournal {
  QString file;
  Journal journal;
};

// Each window keeps its tabs and the journals of what is unsaved in a folder of its own and holds the folder's lock. Where the lock's
// process is gone the window was killed: another one takes the journals over, by renaming them into its own folder, so that only one
// gets each.
class SessionStore {
 public:
  explicit SessionStore(const QString& root = defaultRoot());  // its folder is made when something is to be kept
  ~SessionStore();                                             // as after a kill, unless close() came first
  static QString defaultRoot();

  QString newJournal();  // a file of this window's folder that nobody uses
  void write(const Session& session);
  // The window ends in order. Journals nobody has decided about stay for the next one.
  void close();

  struct Left {
    std::vector<Session> sessions;  // of windows that were killed; the journals are this window's now
    QStringList unreadable;         // journals that are damaged, as they are called now
  };
  Left takeAll();
  struct Waiting {
    int notebooks = 0, unsaved = 0;  // in all; of those with a journal
  };
  Waiting countLeft(const QStringList& open) const;  // what takeAll() would bring, without these files
  void forgetLeft();                                 // but for what has a journal
  // The journals of one notebook, newest first; the rest stays. It is none of what was left any more.
  std::vector<LeftJournal> takeOf(const QString& path);

 private:
  void make();
  QStringList leftFolders() const;  // of windows that may be dead
  QString m_root, m_folder;
  std::unique_ptr<QLockFile> m_lock;
  Session m_written;
  int m_next = 0;
};

std::optional<Journal> readJournal(const QString& file);
// Where the runs of a notebook are that has a journal and no file.
QString folderOfJournal(const QString& file);

}  // namespace nf
