// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/trial_marks.h"

#include <QCoreApplication>

#include "widgets/basic.h"

namespace nf {

using protocol::TrialInfo;
using protocol::TrialStatus;

bool measured(const TrialInfo& t) { return t.us && *t.us > 0 && t.status == TrialStatus::Ok; }
bool dropped(const TrialInfo& t) { return t.us && *t.us > 0 && t.status == TrialStatus::Slow; }
bool failed(const TrialInfo& t) { return !measured(t) && !dropped(t) && t.status != TrialStatus::Ok; }
bool untimed(const TrialInfo& t) { return !measured(t) && !dropped(t) && !failed(t); }

QString wordsOf(const FailureKind& kind) { return QCoreApplication::translate("nf", kind.words); }

QString nameOf(const TrialInfo& t) { return QStringLiteral("g%1 c%2").arg(t.generation).arg(t.number); }

QString timeOf(const TrialInfo& t) { return t.us ? measuredText(*t.us, t.lowUs, t.highUs) : QString(); }

QString statusWords(const TrialInfo& t) {
  if (measured(t)) return {};
  if (dropped(t)) return QObject::tr("dropped early");
  for (const FailureKind& kind : kFailures)
    if (kind.status == t.status) return wordsOf(kind);
  return QObject::tr("checked, not timed");
}

QString turnsText(const TrialInfo& t) {
  if (!t.us || !t.besideUs) return {};
  return (t.won ? QObject::tr("in turns with the best until then %1 against %2: faster, the steps decide")
                : QObject::tr("in turns with the best until then %1 against %2: no faster beyond noise"))
      .arg(microsecondsText(*t.us), microsecondsText(*t.besideUs));
}

}  // namespace nf
