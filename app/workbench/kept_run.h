// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QJsonObject>
#include <QString>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/newest_run.h"
#include "core/protocol/message.h"

namespace nf {

// What a training run has left beside its notebook, in NAME.nf.out. Of one that was resumed the steps, swaps and evaluations of the runs
// before it, too.
struct KeptRun {
  QString folder;       // its name
  QString began;        // in words
  QJsonObject record;   // its run.json
  std::string meaning;  // CellInfo's of its cell, as it was; empty: not known
  std::vector<protocol::StepEvent> steps;
  std::vector<protocol::KernelSwapEvent> swaps;
  std::vector<protocol::EvalEvent> evals;
  std::optional<protocol::DoneEvent> done;  // none: it did not come to its end
  std::optional<protocol::ErrorEvent> error;
};

// The newest run of this notebook that made a step; nothing where there is none or it cannot be read.
std::optional<KeptRun> newestKeptRun(const QString& notebook);
// The run in this folder; nothing where it made no step or cannot be read.
std::optional<KeptRun> keptRun(const QString& notebook, const QString& folder);

// In words, of a run that took its first values from this file; empty: it took them from none.
QString begunWith(const QString& weights);
QString begunWith(const QJsonObject& record);  // its run.json

struct KeptRunLine {
  QString folder;  // its name
  QString words;   // when it began, how it ended
};
bool hasRuns(const QString& notebook);
// The runs of the `train` statement, the newest first; those without a step are left out.
std::vector<KeptRunLine> keptRuns(const QString& notebook, const TrainOf& train);

}  // namespace nf
