// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QElapsedTimer>
#include <QWidget>
#include <functional>

#include "core/protocol/latency.h"
#include "core/protocol/message.h"
#include "widgets/theme.h"

class QBoxLayout;
class QGridLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QVBoxLayout;

namespace nf {

class ElidedLabel;
class IconButton;
class LatencyPlot;
class LossPlot;
class MessageStrip;
class SwapList;

// Under a train cell: progress with time left, the live step latency with its swaps and the recorded step of another system, loss and
// evaluations, every kernel swap with what it gained, pause and stop.
class TrainStrip : public QWidget {
  Q_OBJECT
 public:
  explicit TrainStrip(const Theme* theme, QWidget* parent = nullptr);
  void start(bool resumed = false);  // resumed: what was drawn goes on
  void setSteps(const std::vector<protocol::StepEvent>& steps, const std::vector<protocol::KernelSwapEvent>& swaps,
                const std::vector<protocol::EvalEvent>& evals);  // in place of what was drawn
  void setState(const protocol::RunState& state);
  void addStep(const protocol::StepEvent& step);
  void addSwap(const protocol::KernelSwapEvent& swap);
  void addEval(const protocol::EvalEvent& eval);
  void addTrial(const protocol::TrialEvent& trial);  // those that ended their worker are counted
  void setDone(const protocol::DoneEvent& done);
  // Where a message is about a place: its name, "cell 2, line 3", and what leads there.
  struct Place {
    QString name;
    std::function<void()> go;
  };
  void setError(const QString& message, const Place& place = {});
  // What was found doubtful while it is prepared or runs; the run goes on.
  void addWarning(const QString& message, const Place& place = {});
  void setCheckpointFailed(const QString& message);
  void setUnsaved(const QString& message);  // it has ended, and what it learnt is on no disk
  QStringList warnings() const;
  // A run of an earlier window, which began at this time. `done` and `error`: how it ended; neither: nobody knows.
  void setKept(const QString& began, const std::vector<protocol::StepEvent>& steps,
               const std::vector<protocol::KernelSwapEvent>& swaps, const std::vector<protocol::EvalEvent>& evals,
               const std::optional<protocol::DoneEvent>& done, const std::optional<protocol::ErrorEvent>& error);
  // Of the run before, while it stands there: another one was asked for and could not begin.
  void setRefused(const QString& message, const Place& place);
  // Whether the run that is shown has left a checkpoint: what is offered is to resume it, else to train again. One that came to its end
  // is resumed only where `more` is asked for than it did. `step`: that of the checkpoint, 0: not known.
  enum class Checkpoint : std::uint8_t { None, Usable, OfOtherText, AtTheEnd };  // the last two cannot be gone on with
  void setCheckpoint(Checkpoint checkpoint, std::int64_t step = 0, const QString& why = {}, bool more = false);
  void setRuns(bool there);  // to be looked at: the one that is shown, earlier ones
  bool ended() const { return m_end != End::None; }
  bool cut() const { return m_end == End::Cut; }  // the last run can be gone on with, if it left a checkpoint
  bool resumes() const { return m_checkpoint == Checkpoint::Usable; }
  Checkpoint checkpoint() const { return m_checkpoint; }
  std::int64_t checkpointStep() const { return m_checkpointStep; }  // 0: not known, or none
  void setLost();                                                   // the engine died: what was drawn stays
  void setPeer(const QString& name, double milliseconds);
  LatencyPlot* plot() const { return m_plot; }
  LossPlot* lossPlot() const { return m_lossPlot; }
  QString result() const;  // the line that stands when it has ended
  bool running() const { return m_running; }
  bool paused() const { return m_running && m_paused; }
  bool hasCurves() const;
  QString failure() const;  // what it ended with; empty: it did not fail
  QString detail() const;
  QString note() const;                  // what else is to be known of the run: what it began with, where Resume has gone
  void setOrigin(const QString& words);  // of a run that begins with what another one learnt
  QString tuner() const;                 // what the search has tried, swapped, and lost workers by
  QString figures() const;               // the median step with its spread, and how it stands to the other system's
  void setOnPaper(bool onPaper);
  void drawOnPaper();
  SwapList* swaps() const { return m_swapList; }
  IconButton* resume() const { return m_resume; }
  IconButton* runs() const { return m_runs; }
  IconButton* again() const { return m_again; }  // beside resume(), or alone where nothing is left to go on with

 Q_SIGNALS:
  void swapChosen(const nf::protocol::KernelSwapEvent& swap);
  void pauseRequested(bool pause);
  void stopRequested();
  void resumeRequested();
  void trainAgainRequested();
  void runsRequested();

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  enum class Shape { Narrow, Usual, Wide };
  Shape shapeOf(int width) const;
  void arrange();
  void setRunning(bool running);
  void say(const QString& message, const Place& place);
  void clearWarnings();
  void offer();
  void showPeer();
  void showCurves();
  void sayNoSwaps(bool ended);
  void showStep(const protocol::StepSpread& spread, const QString& name);
  void tellSpan();
  void sayNote();
  void showNewest();
  void followLatency();
  void followLoss();
  void followEval();
  void showTuner();
  void sayLoss(double loss);
  void sayLost();
  const Theme* m_theme;
  ElidedLabel *m_detail, *m_right;
  QLabel* m_note;
  QString m_origin;
  QLabel *m_figure, *m_figureName, *m_interval, *m_loss, *m_eval, *m_peer;
  QLabel* m_title;
  MessageStrip *m_message, *m_checkpointTrouble;
  QPushButton* m_goTo;
  QVBoxLayout* m_warnings;
  QProgressBar* m_progress;
  IconButton *m_pause, *m_stop, *m_resume, *m_again, *m_runs;
  QElapsedTimer m_stopped;  // since Stop was clicked
  LatencyPlot* m_plot;
  LossPlot* m_lossPlot;
  QBoxLayout* m_top;
  QGridLayout* m_grid;
  QWidget* m_column;
  SwapList* m_swapList;
  QString m_peerName;
  double m_peerMs = 0, m_figureMs = 0;                              // m_figureMs: the median that stands above; 0: none
  protocol::SearchState m_search = protocol::SearchState::Unknown;  // of the run that is over
  Shape m_shape = Shape::Usual;
  std::int64_t m_steps = 0;  // of a run that is over
  bool m_running = false, m_paused = false;
  std::int64_t m_trials = 0, m_candidates = 0, m_deaths = 0;
  std::int64_t m_swapsSince = 0, m_splitsSince = 0;  // of the run as it was resumed last
  Checkpoint m_checkpoint = Checkpoint::Usable;
  bool m_resumed = false;     // what runs goes on from one
  bool m_lost = false;        // it ended with the engine
  bool m_searchless = false;  // no search runs beside the steps
  bool m_more = false, m_hasRuns = false;
  std::int64_t m_checkpointStep = 0;
  std::int64_t m_from = 0;               // the step that it was resumed from, as far as it is known; 0: it began by itself
  std::optional<std::int64_t> m_keptTo;  // the last step that an interrupted run left behind, until its checkpoint is told
  enum class End { None, Whole, Cut } m_end = End::None;  // of the last run
};

}  // namespace nf
