// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QFileSystemWatcher>
#include <QObject>
#include <QSet>
#include <QTimer>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "app/workbench/engine_link.h"
#include "app/workbench/session_store.h"
#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/moved_places.h"
#include "widgets/selection.h"

namespace nf {

// One open notebook and what the engine has said about it. The document is the truth; the engine holds a numbered replica.
class Workspace : public QObject {
  Q_OBJECT
 public:
  // `selection` is the window's: only the current notebook's spans are in it. `untitled` numbers what has no file yet, `newJournal`
  // names the file that keeps what is not saved; an empty name: it is not kept.
  Workspace(QStringList engineCommand, Selection* selection, std::function<QString()> newJournal, int untitled = 1,
            QObject* parent = nullptr);
  ~Workspace() override;

  // ---- the file
  Document& document() { return *m_document; }
  QString path() const { return m_path; }
  QString folder() const;  // of path(); empty: it has none
  QString name() const;
  // Its runs are in place() + ".out": its path, or, while it has none, one in the window's folder of journals; empty: nowhere.
  QString place();
  int untitled() const { return m_untitled; }
  void setUntitled(int number) { m_untitled = number; }
  Result<Unit> open(const QString& path);
  static std::string textOf(const QByteArray& bytes);  // of a notebook's file
  void begin(const QString& path);                     // empty; saving makes the file
  // A file that changed since it was read is written over only where that is wanted: else an Error of stage "outside".
  Result<Unit> save(const QString& path, bool overwrite = false);
  void reloadFromDisk();
  bool writable() const { return m_writable; }  // its file takes what is saved; true where there is none

  // The file as it stands on disk, against what was read or written last.
  enum class OnDisk { Same, Changed, Deleted };
  OnDisk onDisk() const { return m_diskState; }
  bool neverSaved() const { return m_onDisk == Hash{}; }  // also one that has a path already
  void checkDisk();
  void keepMine();  // what is on disk now may be written over

  // Who edits the file elsewhere; empty: nobody. The document is read-only then.
  QString holder() const { return m_holder; }
  void checkLock();   // the other one may have closed it
  void editAnyway();  // beside the other one; saving still never writes over what it has written

  QString journalFile() const { return m_journalFile; }  // it is there once something unsaved was written
  bool hasJournal() const { return m_hasJournal; }
  QString journalError() const { return m_journalError; }
  void writeJournal();
  void removeJournal();
  void forget();  // closed without being saved: its journal goes, and the runs of what never had a file
  // The text of a session that was killed, with its history; its file is this notebook's journal from now on.
  void openJournal(const LeftJournal& left);
  void recover(const LeftJournal& left);  // into the notebook that is open

  // ---- the engine
  EngineLink& engine() { return *m_engine; }
  void startEngine();
  EngineLink::State engineState() const { return m_engine->state(); }
  // The engine that runs has analysed the text as it is.
  bool analysisIsKnown() const { return m_analysedHere && analysisIsCurrent(); }
  using Reply = std::function<void(const protocol::Envelope&)>;
  // The reply is called once, Failed included: of stage "gone" where the engine ends before it has answered.
  void ask(const protocol::Message& message, Reply reply);
  void tell(const protocol::Message& message) { m_engine->notify(message); }

  Selection& selection() { return *m_selection; }
  void setCurrent(bool current);
  const protocol::Analysis& analysis() const { return m_analysis; }
  bool analysisIsCurrent() const { return m_analysis.revision == m_document->revision(); }
  // Its tensors and functions; while it has an error, also those of the newest text without one that are gone: missing() names them.
  const protocol::Analysis& names() const { return m_names; }
  // Before the analysis of a text in which a name was changed: the names that mistakes hide change with it.
  void renameNames(const QString& name, const QString& to);
  // What was asked about a tensor of this text has an answer about another one, or a mistake, told at its place, hides the tensor.
  bool isOvertaken(std::uint64_t revision, const QString& tensor) const;
  const std::set<std::string>& missing() const { return m_missing; }
  // None before the first edit of what the engine was sent as a whole.
  std::optional<double> millisecondsAfterKey() const { return m_edited ? std::optional(m_afterKey) : std::nullopt; }
  const protocol::TensorInfo* tensor(const std::string& name) const;
  const protocol::RunState& runState() const { return m_runState; }
  const std::optional<protocol::Devices>& devices() const { return m_devices; }
  std::chrono::steady_clock::time_point devicesTaken() const { return m_devicesTaken; }  // when the engine told of them
  const protocol::Subgraphs& subgraphs() const { return m_subgraphs; }
  const std::set<std::string>& goneKernels() const { return m_gone; }  // of them, by a mistake: as they were before it
  const std::vector<protocol::TrialInfo>& trials(const std::string& subgraph) const;
  std::int64_t trialsByHand() const { return m_byHand; }  // since the last run began
  std::int64_t trialsOfOthers() const;                    // of this run, on kernels that are not among subgraphs() any more
  const std::optional<protocol::Profile>& profile() const { return m_profile; }  // the last one of this run
  std::chrono::steady_clock::time_point profileTaken() const { return m_profileTaken; }
  bool profileIsEdited() const;  // what trains is another text now than what was profiled
  // Subgraphs that have another kernel now than when the profile was taken, and than the one that it timed.
  std::set<std::string> replacedSinceProfile() const;
  std::string deviceInUse() const;  // empty: not known
  const std::vector<protocol::StepEvent>& steps() const { return m_steps; }
  const std::vector<protocol::KernelSwapEvent>& swaps() const { return m_swaps; }
  bool idle() const { return m_replies.empty(); }  // nothing that was asked for is still under way
  const std::vector<protocol::EvalEvent>& evals() const { return m_evals; }
  // A recorded step of another system: NAME.peer.json beside the notebook.
  struct Peer {
    QString name;
    double stepMs = 0;  // 0: there is none
  };
  Peer peer() const;
  // In place of what was drawn: of a run that another window began.
  void setRun(std::vector<protocol::StepEvent> steps, std::vector<protocol::KernelSwapEvent> swaps,
              std::vector<protocol::EvalEvent> evals) {
    m_steps = std::move(steps), m_swaps = std::move(swaps), m_evals = std::move(evals);
  }
  bool running() const { return m_runState.phase != protocol::RunPhase::Idle; }
  bool runAsked() const { return m_runAsked; }  // a run was asked for, and the engine has not said a word about it

  // ---- asking for what views show; the answer is a signal
  void wantExpression(const QString& tensor);
  void wantGraph(const QString& stage);
  void wantFusion();
  void wantPlan();  // decided anew: decisions and kernels, the graph at the stage that was asked for last
  // Share of the device that the search may take beside this notebook's steps, 0 to 1; each engine that it starts is told.
  void setBudget(double share);
  double budget() const { return m_budget.value_or(kUsualBudget); }
  void wantDevices(bool measure);
  void useDevice(const QString& name);        // from the next run on
  void useValues(const QString& checkpoint);  // of this one, until a training makes steps; valuesChosen() when they are to be had
  void wantSubgraphs();
  void wantTrials(const std::string& subgraph);
  void takeTrial(const std::string& subgraph, const protocol::TrialInfo& trial);  // measured by hand: known at once
  void wantKernel(const std::string& subgraph, std::optional<std::uint64_t> trial);
  void wantSpace(const std::string& subgraph, std::optional<protocol::JsonText> at = std::nullopt);
  void wantProfile();
  void wantSlice(const protocol::TensorRequest& request);
  void refreshSlice(const protocol::TensorRequest& request);  // unless it is asked for already

  // Where its runs lie: beside its file, or where they were left when the notebook got another name.
  QString runsPlace();
  QString strandedText() const;  // why they were left there; empty: they were not
  void carryAgain();
  void leaveStranded() { m_stranded.clear(); }
  bool awaitsStep() const { return m_resuming; }  // of a run that goes on from a checkpoint
  // Graph, decisions, kernels and trials become those of a step of this `train` statement, from 0; a training that begins does so for its own.
  void lookAtStep(std::uint32_t train);
  // `resume`: training goes on from this checkpoint, "newest" or a file; empty: from the first step.
  void runCell(std::uint32_t cell, bool train, const QString& resume = {}, const QString& weights = {});
  void runAll();
  void stop();
  void pause(bool pause);

 Q_SIGNALS:
  void opened();
  void documentEdited();
  void editRefused();  // the document is read-only
  void modifiedChanged();
  void moved();        // it has another path()
  void readAgain();    // the file changed outside and nothing was unsaved
  void diskChanged();  // onDisk()
  void lockChanged();  // holder()
  void journalChanged();
  void engineReady();
  void engineDied(const QString& reason);
  void placesMoved(const nf::MovedPlaces& moved);  // before analysed(): what is known of the text before has other numbers now
  void analysed();
  void hintsRefused();  // analysis() says now what the fusion and the kernels of the device have no room for
  void expressionArrived(const nf::protocol::Expression& expression);
  void expressionFailed(const QString& tensor, const QString& message);
  // All pages together. The plan, the stage `fused`, comes before the first graph of another stage of its revision.
  void graphPlanArrived(const nf::protocol::GraphPage& plan);
  void graphArrived(const nf::protocol::GraphPage& graph);
  void fusionArrived(const nf::protocol::FusionReport& report);
  void devicesArrived();
  void valuesChosen();
  void devicesMeasured();  // again, because somebody asked
  void subgraphsArrived();
  void trialsChanged(const std::string& subgraph);
  void kernelArrived(const nf::protocol::Kernel& kernel);
  void spaceArrived(const nf::protocol::Space& space);
  void sliceArrived(const nf::protocol::TensorSlice& slice, const std::vector<double>& values);
  void sliceFailed(const QString& tensor, const QString& message);
  void runStateChanged();
  void runStarted(std::uint32_t cell, bool resumed);
  void runsStranded();  // or not any more
  void stepsTrimmed();  // a resumed run does the last steps again
  void stepArrived(const nf::protocol::StepEvent& step);
  void swapArrived(const nf::protocol::KernelSwapEvent& swap);
  void countersArrived(const nf::protocol::KernelCountersEvent& counters);
  void trialArrived(const nf::protocol::TrialEvent& trial);
  void profileArrived(const nf::protocol::Profile& profile);
  void evalArrived(const nf::protocol::EvalEvent& eval);
  void cellFinished(const nf::protocol::CellResult& result);
  void done(const nf::protocol::DoneEvent& done);
  void runFailed(const QString& message, const nf::protocol::ErrorEvent& at = {});
  void warned(const nf::protocol::WarningEvent& warning);
  void checkpointFailed(const nf::protocol::CheckpointFailedEvent& event);
  void runEnded(const QString& message);  // of show cells: what has no result by now gets none
  void failed(const QString& what, const QString& message);
  void milestone(const QString& event);  // "analysis", "graph", "step" ...: what --after waits for

 private:
  void handle(const protocol::Envelope& envelope);
  void sendDocument();
  double sinceKey() const;
  void askRun(const protocol::Message& request, Reply reply);
  bool showLastSlice(const protocol::TensorRequest& asked);
  void keepNames();
  void offerSpans();  // of the newest analysis, for selecting
  void install(std::unique_ptr<Document> document, const QString& path);
  void attachDocument();
  void watch();
  void lookWhetherWritable();
  void setOnDisk(OnDisk state);
  bool lock(const QString& path);
  void carryRuns(const QString& from, bool move);
  void settleRuns();
  template <class T, class F>
  void askFor(const protocol::Message& request, const QString& what, F&& use);
  // All pages of a stage; `otherwise` where there is none.
  void graphPages(protocol::GraphPage soFar, const QString& stage, std::uint64_t ticket,
                  std::function<void(const protocol::GraphPage&)> use, std::function<void()> otherwise = {});

  std::unique_ptr<Document> m_document;
  QString m_path;
  static constexpr double kUsualBudget = 0.3;
  std::optional<double> m_budget;  // that somebody chose
  Hash m_onDisk;
  OnDisk m_diskState = OnDisk::Same;
  std::unique_ptr<QLockFile> m_lock;
  QString m_holder;
  std::function<QString()> m_newJournal;
  QString m_journalFile, m_journalError;
  QString m_device;    // that somebody chose; empty: the engine's own choice
  QString m_valuesOf;  // a checkpoint that somebody chose; empty: that of the last training
  bool m_hasJournal = false;
  struct Carry {
    QString from, to;
    bool move = false;
  };
  std::vector<Carry> m_stranded;  // that failed
  QString m_strandedWhy;
  std::vector<Carry> m_carries;  // folders of runs that follow when the run that is under way has ended
  std::uint64_t m_journalled = 0;
  QTimer m_journalTimer, m_goneTimer;
  QFileSystemWatcher m_watcher;
  bool m_wasModified = false, m_writable = true;
  QStringList m_engineCommand;
  std::unique_ptr<EngineLink> m_engine;
  std::map<protocol::RequestId, Reply> m_replies;
  bool m_replicaKnown = false, m_analysedHere = false;
  Selection* m_selection;
  int m_untitled;
  bool m_current = false;
  protocol::Analysis m_analysis, m_names;
  std::string m_analysedText;
  // While the text has an error: of the newest one without; before there was one, of the first that had names.
  protocol::Analysis m_wholeNames;
  bool m_namesAreWhole = false;
  std::vector<protocol::DiagnosticInfo> m_refusedHints;  // of m_analysis.diagnostics
  std::set<std::string> m_missing;
  std::uint32_t m_step = 0;       // DocumentReplaced::step
  std::uint64_t m_sentWhole = 0;  // the revision that the engine was given the whole text of last
  qint64 m_lastKeyMs = 0;
  std::string meaningOfTrainings() const;
  std::int64_t m_byHand = 0;
  std::optional<protocol::Profile> m_profile;
  std::string m_profileMeaning;  // of what trains, as it was profiled; empty: not known
  std::chrono::steady_clock::time_point m_profileTaken;
  std::map<std::string, std::optional<protocol::KernelMaking>> m_profileMade;  // by subgraph: the kernels then
  double m_afterKey = 0;
  bool m_edited = false;
  bool m_live = false;  // what is asked for now is what the newest analysis changes
  protocol::RunState m_runState;
  std::optional<protocol::Devices> m_devices;
  std::chrono::steady_clock::time_point m_devicesTaken;
  void takeSubgraphs(const protocol::Subgraphs& subgraphs);
  protocol::Subgraphs m_subgraphs;
  std::vector<protocol::SubgraphInfo> m_whole;  // as they were when the notebook had no mistakes
  std::set<std::string> m_gone;
  std::map<std::string, std::vector<protocol::TrialInfo>> m_trials;
  std::map<std::string, std::int64_t> m_counted;  // trials of this run
  std::vector<protocol::StepEvent> m_steps;
  std::vector<protocol::KernelSwapEvent> m_swaps;
  std::vector<protocol::EvalEvent> m_evals;
  using Place = std::pair<std::string, std::vector<std::int64_t>>;  // tensor, and where what is looked at of it begins
  static Place placeOf(const protocol::TensorRequest& request) { return {request.tensor, request.begin}; }
  std::set<Place> m_slices;  // asked for by refreshSlice()
  struct Values {
    protocol::TensorSlice slice;
    std::vector<double> values;
    std::uint64_t asked = 0;
  };
  std::uint64_t m_asked = 0;                             // slices so far: what an earlier question brings late is older
  std::map<Place, Values> m_values;                      // the last of each: an engine that ends takes none with it
  std::map<Place, protocol::TensorRequest> m_postponed;  // that came while no engine ran
  // The last answers, for who asks while no engine runs: by tensor, and of each subgraph as it was found.
  std::map<std::string, protocol::Expression> m_expressions;
  std::map<std::string, protocol::Space> m_spaces;
  bool m_profiling = false;  // a profile is asked for
  bool m_runAsked = false;
  bool m_resuming = false;  // until the first step tells where the checkpoint was
  std::uint64_t m_graphTicket = 0;
  QString m_stage;                   // of the graph that was asked for last; empty: none
  std::uint64_t m_planRevision = 0;  // whose `fused` stage has been told; 0: none
};

}  // namespace nf
