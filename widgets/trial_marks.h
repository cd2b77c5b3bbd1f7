// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <qcustomplot.h>

#include <QString>

#include "core/protocol/message.h"

// How the plots of the search tell trials apart: by what came of them, by name, by shape.
namespace nf {

inline constexpr int kTrialsMargin = 62;  // pixels left of the trials' axis; the legend begins there, too

// Each trial is one of these.
bool measured(const protocol::TrialInfo& trial);  // it has a time that counts
bool dropped(const protocol::TrialInfo& trial);   // early: it has a time, but only as far as it was measured
bool failed(const protocol::TrialInfo& trial);
bool untimed(const protocol::TrialInfo& trial);  // checked, and not timed

struct FailureKind {
  protocol::TrialStatus status;
  QCPScatterStyle::ScatterShape shape;
  const char* words;
};
inline constexpr FailureKind kFailures[] = {
    {protocol::TrialStatus::Wrong, QCPScatterStyle::ssCross, QT_TRANSLATE_NOOP("nf", "wrong result")},
    {protocol::TrialStatus::Failed, QCPScatterStyle::ssTriangle, QT_TRANSLATE_NOOP("nf", "not compiled")},
    {protocol::TrialStatus::Killed, QCPScatterStyle::ssSquare, QT_TRANSLATE_NOOP("nf", "timed out")},
    {protocol::TrialStatus::Crashed, QCPScatterStyle::ssDiamond, QT_TRANSLATE_NOOP("nf", "killed its worker")}};
QString wordsOf(const FailureKind& kind);

QString nameOf(const protocol::TrialInfo& trial);       // "g2 c14"
QString timeOf(const protocol::TrialInfo& trial);       // with its interval; empty: it has none
QString statusWords(const protocol::TrialInfo& trial);  // empty: it was measured
QString turnsText(const protocol::TrialInfo& trial);    // what taking turns with the best until then came to; empty: it took none

}  // namespace nf
