// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QJsonObject>
#include <QString>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

// A `train` statement as runs know it (core/runtime/run_folder.h, TrainPlace).
struct TrainOf {
  std::string loss, program;
  std::int64_t ofLoss = 1;
  std::vector<std::string> losses;
};
std::optional<TrainOf> trainOf(const protocol::Analysis& analysis, std::size_t cell);  // none: the cell trains nothing
bool isRunOf(const QJsonObject& record, const TrainOf& train);                         // `run.json`

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
RunCheckpoint newestCheckpoint(const QString& notebook, const TrainOf* train);
RunCheckpoint checkpointOf(const QString& notebook, const QString& run, const TrainOf* train);  // a folder's name

}  // namespace nf
