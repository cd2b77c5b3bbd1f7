// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <cstdint>

namespace nf {

// What a run of a notebook left to go on from: a checkpoint of its own or the one it was resumed from.
struct RunCheckpoint {
  bool there = true;
  QString path;                               // empty: not known
  std::int64_t steps = 0;                     // behind it; 0: not known
  std::int64_t stepsPerEpoch = 0, batch = 0;  // of the run that wrote it; 0: not known, the notebook's own
  std::string program;                        // that it trained, as protocol::TrainInfo has it; empty: not known
};
// Where no run is seen one is taken to be there: an engine on another machine knows better.
RunCheckpoint newestCheckpoint(const QString& notebook);
RunCheckpoint checkpointOf(const QString& notebook, const QString& run);  // a folder's name

}  // namespace nf
