// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QJsonObject>
#include <QString>
#include <cstdint>
#include <string>

#include "core/protocol/message.h"

namespace nf {

// What a run of a notebook left to go on from: a checkpoint of its own or the one it was resumed from.
struct RunCheckpoint {
  bool there = true;
  QString path;                               // empty: not known
  std::int64_t steps = 0;                     // behind it; 0: not known
  std::int64_t stepsPerEpoch = 0, batch = 0;  // of the run that wrote it; 0: not known, the notebook's own
  std::string program;                        // that it trained, as protocol::TrainInfo has it; empty: not known
  bool ofTrain = true;                        // of the `train` statement that was asked for
};
// Of the newest run of this statement; null: of any. Where no run is seen one is taken to be there: an engine on another machine knows
// better.
RunCheckpoint newestCheckpoint(const QString& notebook, const protocol::TrainInfo* train);
RunCheckpoint checkpointOf(const QString& notebook, const QString& run, const protocol::TrainInfo* train);  // a folder's name
// Is it the `run.json` of a run of this statement? One of before its number was written is known by its loss.
bool isRunOf(const QJsonObject& record, const protocol::TrainInfo& train);

}  // namespace nf
