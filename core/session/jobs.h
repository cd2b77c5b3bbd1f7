// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/device/backend.h"
#include "core/protocol/message.h"
#include "core/runtime/device_context.h"
#include "core/runtime/run.h"
#include "core/runtime/train.h"
#include "core/session/outbox.h"
#include "core/session/revision.h"
#include "core/session/timeline.h"

namespace nf {

// What computes on behalf of the workbench: one job at a time (run, train, tune) on a thread of its own, and what is known of it
// afterwards: series, trials, kernels, values. Opens the device, and with it the workers, when the engine starts.
class Jobs {
 public:
  // `version`: of the program, for the records of runs.
  Jobs(BackendRegistry& registry, Outbox& outbox, std::string version);
  ~Jobs();  // stops the job, which ends within two seconds

  // Queued behind the job that runs.
  void run(std::shared_ptr<const Revision> revision, protocol::RunRequest request, protocol::RequestId id);
  void train(std::shared_ptr<const Revision> revision, protocol::TrainRequest request, protocol::RequestId id);
  void tune(std::shared_ptr<const Revision> revision, protocol::TuneRequest request, protocol::RequestId id);
  void pause();
  void resume();
  void stop();  // what runs ends by itself; what waits answers Cancelled
  // Of a job by its request: answered by Cancelled once it has ended. False: there is none.
  bool cancel(protocol::RequestId id);
  // Where the runs of the notebook go; empty: beside it, in NAME.nf.out.
  void setResults(const std::string& folder);
  void setBudget(const protocol::BudgetRequest& request);
  // What is computed from then on is with that checkpoint's parameters, until a training has made steps.
  void useValues(const protocol::ValuesRequest& request, protocol::RequestId id);

  // Answers. They may take as long as one kernel takes to compile or measure.
  void answerSubgraphs(const Revision& revision, const FusionInputs& inputs, protocol::RequestId id);
  void answerTrials(const protocol::TrialsRequest& request, protocol::RequestId id);
  void answerSpace(const Revision& revision, const FusionInputs& inputs, const protocol::SpaceRequest& request,
                   protocol::RequestId id);
  void answerKernel(const Revision& revision, const FusionInputs& inputs, const protocol::KernelRequest& request,
                    protocol::RequestId id, std::stop_token stop);
  void answerMeasure(const Revision& revision, const FusionInputs& inputs, const protocol::MeasureRequest& request,
                     protocol::RequestId id, std::stop_token stop);
  // Of the steps that train, read once enough of them have run; else of a step that is prepared for it.
  void profile(std::shared_ptr<const Revision> revision, const protocol::ProfileRequest& request, protocol::RequestId id);
  void answerSeries(const protocol::SeriesRequest& request, protocol::RequestId id);
  // Computes it where a training left what it is computed from.
  void answerTensor(std::shared_ptr<const Revision> revision, const protocol::TensorRequest& request, protocol::RequestId id);

  void answerCompareFusion(const Revision& revision, const FusionInputs& inputs, const protocol::CompareFusionRequest& request,
                           protocol::RequestId id, std::stop_token stop);
  // What an A/B has measured of this decision, as long as its numbers are the same.
  std::optional<protocol::Measured> measuredSaving(const FusionDecision& decision,
                                                   const std::string& parts) const;  // as DecidedParts has them

  // Opens this device in place of the one in use, then calls `then`; both on the thread of the jobs. Where it can't be opened, that is
  // what the request is answered with.
  void use(const std::string& device, protocol::RequestId id, std::function<void()> then);
  FusionInputs fusionInputs();     // of the device in use; waits until it is open
  std::optional<Target> target();  // of the device in use; waits until it is open
  std::string deviceInUse();
  bool busy() const;  // something runs or is about to
  // What the device in use was measured to be; taken up where nothing runs by what it was before.
  void setMeasured(const Target& target);  // its name; empty: none is open

 private:
  struct Trials {
    std::string name;
    std::vector<protocol::TrialInfo> list;
    std::vector<protocol::TrialInfo> byHand;  // measured by hand before the run, in any order
    std::optional<double> us, firstUs;        // firstUs: of what the first run began with, as it was timed then
    std::int64_t generation = 0;
    std::string schedule;              // of the newest kernel
    std::string inUse;                 // of the kernel that the last training runs with
    bool swapped = false;              // by that training: it did not begin with it
    std::int64_t ofRun = 0;            // trials that the last run counted
    std::optional<std::size_t> quick;  // the first kernel as it was compiled quickly: another code than the trial with its schedule
    std::size_t recorded = 0;          // the first ones of the list, known from the record database
    bool loaded = false;               // these have been read
  };
  // Where in the list a trial that is told of is, at its end where it is new: a schedule is one trial, but for the first kernel of all,
  // which is one as it was compiled quickly and another with full effort.
  static std::size_t placeOf(const Trials& trials, const protocol::TrialEvent& event);
  void beginTrials();
  static constexpr std::string_view kByHand = "by hand";  // TrialInfo::how begins so
  // The trial whose kernel the last training runs with; null: none has run it, or its kernel is no trial.
  static const protocol::TrialInfo* inUseOf(const Trials& trials);
  // In a row and as the kernel; null: none is timed. `best`: bestSchedule().
  static const protocol::TrialInfo* shownOf(const Trials& trials, const std::string& best);
  static protocol::KernelMaking makingOf(const Trials& trials, const protocol::TrialInfo& trial);
  // That won the last comparison of a search, so that a run would begin with it; empty: none is on record. Without m_mutex.
  std::string bestSchedule(const std::string& subgraph);
  struct Point {
    double x = 0, low = 0, high = 0, last = 0;
    std::int64_t count = 1;
  };

  struct Task {
    protocol::RequestId id = 0;
    std::function<void(std::stop_token)> work;
    std::stop_source stop;
    bool cancelled = false;
    bool ours = false;    // nobody's request: stop() leaves it
    bool yields = false;  // to any other that comes
  };
  void enqueue(protocol::RequestId id, std::function<void(std::stop_token)> work, bool ours = false, bool yields = false);
  static Result<bool> prepareRun(std::unique_ptr<RunJob>& job, DeviceContext& device, RunOptions options,
                                 std::vector<std::string> least, bool& whole, std::stop_token stop,
                                 const std::function<void(std::size_t, std::size_t)>& waiting);
  void evaluate(std::shared_ptr<const Revision> revision, protocol::TensorRequest request, protocol::RequestId id);
  void finish(protocol::RequestId id);  // of the job that runs: Finished or Cancelled
  void work(std::stop_token stop);
  struct PendingProfile {
    protocol::RequestId id = 0;
    std::shared_ptr<const Revision> revision;
    std::int64_t steps = 0;
  };
  void readProfile();  // with m_mutex held, after steps
  protocol::Profile profileOf(Executable& executable, const Revision* revision, std::uint64_t number, bool training);
  DeviceContext* context(const std::string& device, protocol::RequestId id);
  void fail(protocol::RequestId id, const Error& error);
  void note(const protocol::Message& message);
  enum class Teller : std::uint8_t { Training, Tuning, KeptRun };
  // With m_mutex held. Yields the event with what is known of its trial here.
  protocol::TrialEvent noteTrial(const protocol::TrialEvent& event, Teller teller);
  protocol::KernelSwapEvent noteSwap(const protocol::KernelSwapEvent& event);
  // The trials and kernels of the newest run in the notebook's folder, once, unless this engine has trained itself: those of an engine
  // that died are as they were. Without m_mutex.
  void restoreRun(const Source& notebook);
  void readReverted();
  // Trials of earlier runs come first in its list. Without m_mutex.
  void loadRecords(const std::string& subgraph);
  void sendTensor(const HostTensor& tensor, const protocol::TensorRequest& request, std::int64_t step, protocol::RequestId id,
                  bool outdated = false, std::int64_t rows = 0);
  struct Found;
  std::optional<Found> find(const Revision& revision, const FusionInputs& inputs, const std::string& subgraph,
                            protocol::RequestId id);

  BackendRegistry& m_registry;
  Outbox& m_outbox;
  const std::string m_version;

  mutable std::mutex m_mutex;
  std::condition_variable_any m_changed;
  std::deque<std::shared_ptr<Task>> m_tasks;
  std::shared_ptr<Task> m_task;  // that runs
  bool m_opened = false;
  std::string m_results;
  std::shared_ptr<DeviceContext> m_context;  // an answer may still use the one before
  std::string m_contextDevice;
  std::unique_ptr<RunJob> m_run;
  std::shared_ptr<const Revision> m_runRevision;  // that it computed
  bool m_runIsWhole = true;                       // there was memory for all of it
  std::shared_ptr<TrainJob> m_train;
  std::shared_ptr<const Revision> m_trainRevision;  // that it was started from
  // Parameters and states as a training left them, and how each was declared.
  struct Trained {
    std::map<std::string, HostTensor> values;
    std::map<std::string, std::string> declared;  // declarationOf()
    std::map<std::string, std::string> places;    // parameterPlaces() in the loss
    std::int64_t step = -1;
    std::string missing;  // why the values are not here; empty: they are
  };
  std::string resultsOf(const Source& notebook) const;
  // Of the checkpoint that was chosen, else of this engine's last training, else of the newest run in the notebook's folder; null: there
  // is none.
  std::shared_ptr<const Trained> lastTrained(const Source& notebook);
  // What of it a cell that runs next goes on from: what the notebook declares as the training did, under the same name or under a new
  // one at the same place of a loss.
  struct GoingOn {
    std::map<std::string, std::string> same;  // by name now: the name then
    std::set<std::string> others;             // parameters that were trained, and are declared another way now
    std::set<std::string> unknown;            // parameters of a loss that were not there then, while some of then are gone:
    std::string gone;                         // their names
    bool whole() const { return others.empty() && unknown.empty(); }
    std::string beginning(const std::set<std::string>& parameters) const;  // which of these begin anew, and why; empty: none
  };
  static GoingOn goingOn(const Trained* trained, const CompiledNotebook& notebook);
  std::shared_ptr<const Trained> m_trained;  // of this engine
  std::string m_chosen;                      // a checkpoint; empty: none
  struct Kept {
    std::string checkpoint;
    std::filesystem::file_time_type time;
    std::shared_ptr<const Trained> trained;
  };
  Kept m_kept;            // as read last
  bool m_tuning = false;  // a search without training runs
  struct Searched {
    std::map<std::string, Trials> trials;
    bool restored = false;
  };
  std::map<std::string, Searched> m_searched;  // of the devices that are not in use, by name: a time is of one device
  std::map<std::string, Trials> m_trials;      // of the one that is
  std::uint64_t m_trialsTold = 0;
  bool m_restored = false;  // or there is a training of this engine's
  std::map<std::string, std::vector<Point>> m_series;
  std::int64_t m_step = -1;
  std::optional<double> m_share;  // of device time for tuning, as last asked for
  std::optional<PendingProfile> m_profile;
  TimelineSites m_sites;  // of the thread that works
  std::shared_ptr<const MeasuredKernels> m_reverted;
  std::map<std::string, protocol::Measured> m_savings;  // by savingKey()

  std::jthread m_worker;  // last: it uses all of the above
};

}  // namespace nf
