// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/result.h"

namespace nf {

// With the folders above it; there already is fine. The Error names the file that stands in the way.
Result<Unit> makeFolder(const std::string& folder);

// Stands for `steps` steps, which end with `step`: for one as long as there are few, so that hours of steps of a microsecond fill no disk.
struct StepRow {
  std::int64_t step = 0;
  double seconds = 0;       // since training began, at the step's end
  double milliseconds = 0;  // of the steps, the median
  double waited = 0;        // milliseconds of one spent waiting for the device's lease, the mean
  double loss = 0;          // of `step`
  std::int64_t steps = 1;
};

// NAME.nf.out/RUN/: run.json (settings), events.jsonl (one event a line), steps.bin (StepRow), swaps.jsonl, checkpoint. Safe to delete.
// A file that the disk has no room for just now waits in memory and goes on where it stopped.
//
// steps.bin, little-endian: the 8 bytes "NFSTEPS1"; u32 number of columns; for each: u32 length of its name, the name, u32 type (0: i64,
// 1: f64). Then chunks until the end of the file: u32 number of rows, then column after column that many values. A chunk that is cut
// off is ignored.
class RunFolder {
 public:
  // Makes ROOT/RUN, RUN from the time of day, with a number behind it where that is taken.
  static Result<std::unique_ptr<RunFolder>> create(const std::string& root);
  ~RunFolder();  // flushes
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return m_path; }
  std::string file(const std::string& name) const { return m_path + "/" + name; }
  void addStep(const StepRow& row);
  void addEvent(std::string_view jsonLine);
  void addSwaps(std::string_view jsonLines);  // written at once: a killed run is replayed by them
  void flush();
  // Which results are not complete on disk (it is full) at this moment, or never will be, and why; empty: all are, as of the last flush.
  std::string failure() const;

 private:
  RunFolder() = default;
  struct File {
    int descriptor = -1;
    std::string waiting;  // not written yet
    int error = 0;        // of the last write
    bool lost = false;    // too much had to wait: nothing is added any more
    bool open(const std::string& path);
    void add(std::string_view bytes);
    void write();
    ~File();
  };
  std::string m_path;
  File m_steps, m_events, m_swaps;
  std::vector<StepRow> m_rows;
};

// Of which `train` statement of a notebook a run is.
struct TrainPlace {
  std::string loss;
  std::size_t ofLoss = 1;  // which of the statements that train it, from 1
  std::string program;     // as run.json has it; empty: not known
  std::vector<std::string>
      losses;  // of all statements: a run of another one than these is of a loss that was renamed, if its program is this
};

// The newest run under `root`, a notebook's, where `of` is given of that statement; an Error where there is none.
Result<std::string> newestRun(const std::string& root, const std::optional<TrainPlace>& of = {});

// The checkpoint of the newest run under `root`, or the one that run was resumed from while it has none of its own; an Error where there
// is neither. Never another run's.
Result<std::string> newestCheckpoint(const std::string& root, const std::optional<TrainPlace>& of = {});

// The checkpoint that `path` stands for: a file is one, a run's folder has one, of a folder of runs it is newestCheckpoint(). An Error
// where the folder has none.
Result<std::string> checkpointAt(const std::string& path, const std::optional<TrainPlace>& of = {});

Result<std::vector<StepRow>> readSteps(const std::string& path);

}  // namespace nf
