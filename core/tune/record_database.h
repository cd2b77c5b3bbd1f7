// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fusion/fuse.h"
#include "core/schedule/schedule.h"
#include "core/support/hash.h"
#include "core/support/result.h"
#include "core/tune/trial.h"

struct sqlite3;

namespace nf {

// The table of another program that stands where one of the records would; empty: none does.
std::string foreignRecordTable(sqlite3* database);

// One schedule tried on one workload and target: never a binary, never a path.
struct TuningRecord {
  Hash workload;            // structural hash of the subgraph
  std::string fingerprint;  // of the target
  Schedule schedule;
  std::optional<TrialStatus> status;  // nullopt: started and never finished, which counts as killed
  Timing timing;
  // How it came to be proposed: the round of its search, 0 where none is known, the schedules that it was bred from, and in words.
  std::int64_t round = 0;
  std::vector<std::string> parents;
  std::string how;
};

// What two workloads have in common, to seed one from the other: the schedule kind, and log2 sizes of what they compute.
struct WorkloadTraits {
  std::string kind;           // template
  std::vector<double> sizes;  // log2 of FLOP, input bytes, output bytes, then of the axes' extents, as many as there are
};

WorkloadTraits traitsOf(const Program& program, const std::string& kind);

// The tuning records of one user: SQLite in WAL mode, shared by any number of programs. Thread-safe.
class RecordDatabase {
 public:
  // $NEOFLOW_RECORDS, or $XDG_DATA_HOME/neoflow/records.sqlite, or ~/.local/share/neoflow/records.sqlite.
  static std::string defaultPath();
  // Creates the file and its folders. One that is no database, damaged, or of another version is moved aside to
  // PATH.damaged-N and a fresh one made; `message` then says so.
  static Result<std::unique_ptr<RecordDatabase>> open(const std::string& path, std::string* message = nullptr);
  ~RecordDatabase();

  // Another program keeps the file locked: what is written is lost until it is free. It is waited for once, 2 s; after that what is asked
  // for fails at once. Empty: it is free, as far as is known. Waits for nothing.
  std::string trouble() const;

  // Written ahead, before a candidate runs. An existing record of this schedule stays as it is.
  Result<Unit> begin(const Hash& workload, const std::string& fingerprint, const Schedule& schedule, const WorkloadTraits& traits);
  // What was timed, and with it whether a time that is known already stays.
  enum class Timed : std::uint8_t {
    Trial,    // of a search, or by hand: the newest says what it takes
    Begun,    // what a search begins with, timed again: one figure stays, unless it only stands in for that of the full compilation
    Quickly,  // compiled with CompileEffort::Quick: stands in where nothing is known of the schedule
  };
  Result<Unit> finish(const Hash& workload, const std::string& fingerprint, const Schedule& schedule, TrialStatus status,
                      const Timing& timing, Timed timed = Timed::Trial);
  // The kernel that everything later is compared with: what the first run began with, as it was timed before anything else was.
  struct FirstKernel {
    Schedule schedule;
    Timing timing;
    bool quick = false;     // compiled with CompileEffort::Quick: another code than the trial with its schedule has
    bool standsIn = false;  // as read: that trial was not timed yet, and its record has this time
  };
  // begin() of it comes first, finish() later. What was said first stays, and nothing is said where a kernel was timed before.
  Result<Unit> setFirst(const Hash& workload, const std::string& fingerprint, const FirstKernel& kernel);
  std::optional<FirstKernel> first(const Hash& workload, const std::string& fingerprint);
  // How a schedule that was begun came to be proposed; what was said of it first stays.
  Result<Unit> setLineage(const Hash& workload, const std::string& fingerprint, const Schedule& schedule, std::int64_t round,
                          const std::vector<std::string>& parents, const std::string& how);
  // Takes back a begin() that has no finish(): the trial was cancelled and says nothing.
  Result<Unit> withdraw(const Hash& workload, const std::string& fingerprint, const Schedule& schedule);
  // The schedule that won the last comparison. begin() and finish() of it come first.
  Result<Unit> setBest(const Hash& workload, const std::string& fingerprint, const Schedule& schedule);

  // Whether a fused kernel is kept or split again, by its signature and its parts' (core/fusion): what was measured, and which way it went.
  struct FusionRecord {
    JudgedKernel kernel;
    bool reverted = false;
    FusionMeasurement measurement;
  };
  Result<Unit> setFusion(const std::string& fingerprint, const FusionRecord& record);
  std::vector<FusionRecord> fusions(const std::string& fingerprint);

  std::optional<TuningRecord> best(const Hash& workload, const std::string& fingerprint);
  std::vector<TuningRecord> all(const Hash& workload,
                                const std::string& fingerprint);  // in order of their first trial, with lineage
  // The best schedules of other workloads of this kind and target, nearest sizes first.
  std::vector<TuningRecord> nearest(const Hash& workload, const std::string& fingerprint, const WorkloadTraits& traits,
                                    std::size_t atMost);

 private:
  struct Impl;
  explicit RecordDatabase(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
