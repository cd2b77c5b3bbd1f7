// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <QStringList>

namespace nf {

inline const QString kRuns = QStringLiteral(".out");  // behind a notebook's name: the folder of its runs

QStringList runsIn(const QString& folder);  // their names, the newest first: they are named by the time they were made at

// The folders of runs in `from`, as those of another notebook. A name that is taken there gets a number. What went wrong; empty: nothing.
QString moveRuns(const QString& from, const QString& to);  // also to another file system
QString copyRuns(const QString& from, const QString& to);  // the same files under both names where the file system can
// Seen in `to` while they are still written to in `from`; moveRuns() and copyRuns() put the folders themselves there.
void showRunsAt(const QString& from, const QString& to);

}  // namespace nf
