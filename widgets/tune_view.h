// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QElapsedTimer>
#include <QWidget>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/protocol/message.h"
#include "widgets/budget_slider.h"
#include "widgets/kernel_instance.h"
#include "widgets/plots.h"
#include "widgets/selection.h"
#include "widgets/theme.h"
#include "widgets/tune_place.h"

class QComboBox;
class QLabel;
class QListWidget;
class QPushButton;
class QSplitter;
class QTimer;
class QToolButton;
class QVBoxLayout;

namespace nf {

class KernelView;
class PanelHeader;
class ProfileView;
class StepChooser;

// The search and the training it serves: subgraphs and their share, every trial, latency and loss of the steps, the kernel and its
// place under the roofline. The playhead, one trial, is in all of them.
class TuneView : public QWidget {
  Q_OBJECT
 public:
  TuneView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  // `revision`: of the notebook, which the origins in all that the engine answers are of. `gone`: those of them that a mistake took out
  // of the program, with what was known of them before it; they cannot be measured.
  void setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs, std::uint64_t revision = 0,
                    const std::set<std::string>& gone = {});
  // Operators that the selected place leads to, as graphs know them: a kernel's own places are those of its statements.
  void setLed(std::set<std::string> operators);
  bool holdsSelected(const std::string& subgraph) const;  // a part of what is selected, as the one that is shown does
  void setByHand(std::int64_t trials);                    // since the last run began: rows count them, the budget does not
  // Whether the text that the run was of has changed since, and the loss that it trained, where the step is another one's.
  void setRunOf(bool old, const QString& other);
  // That the next run is on, empty: not known, and whether the text that was profiled has changed since.
  // Of a device that interprets there is neither kernel nor schedule: nothing is asked for.
  void setStep(const std::string& device, bool edited, const std::set<std::string>& replaced = {});  // as ProfileModel's
  bool interprets() const;
  void setTrials(const std::string& subgraph, const std::vector<protocol::TrialInfo>& trials);
  void setSpace(const protocol::Space& space);
  void setKernel(const protocol::Kernel& kernel);
  void setKernelFailed(const QString& message);
  void setDevice(std::optional<protocol::DeviceConstants> device);
  void setProfile(const protocol::Profile& profile, std::chrono::steady_clock::time_point taken = std::chrono::steady_clock::now());
  void setPeer(const QString& name, double milliseconds);
  // `others`: trials of it on kernels that were split and have no row any more.
  void setRunState(const protocol::RunState& state, std::int64_t others = 0);
  // Nothing of another notebook stays: what follows is this one's.
  void reset();
  // It is gone back to when the kernels of the same notebook are known again.
  TunePlace place() const;
  void goBack(const TunePlace& place);
  void setRun(const std::vector<protocol::StepEvent>& steps, const std::vector<protocol::KernelSwapEvent>& swaps,
              const std::vector<protocol::EvalEvent>& evals);
  void addStep(const protocol::StepEvent& step);
  void addSwap(const protocol::KernelSwapEvent& swap);
  void addEval(const protocol::EvalEvent& eval);
  void addCounters(const protocol::KernelCountersEvent& counters);
  void setFigure(double milliseconds) { m_latency->setFigure(milliseconds); }  // of the run that was set, where it is over
  void addTrial(const protocol::TrialEvent& trial);                            // what the tuner does now
  void clearSteps();
  std::string current() const { return m_current; }
  void setEngineGone(bool gone);                 // what is not known yet waits for another one
  std::string tried() const { return m_tried; }  // the kernel that the search is at; empty: none
  std::optional<std::uint64_t> trial() const { return m_trial; }
  void chooseSubgraph(const std::string& id);
  void chooseTrial(std::optional<std::uint64_t> number);
  // A measurement by hand, from its start to its result.
  void setMeasuring();
  void setMeasured(const protocol::TrialInfo& trial);
  void setMeasureFailed(const QString& message);
  void askKernelAgain();  // what was on its way was lost
  bool measuring() const { return m_measuring; }
  // A trial measured once more: the new figure stands beside the old one.
  void setReplaying(std::uint64_t number);
  void setReplayed(std::uint64_t number, const protocol::TrialInfo& now);
  void showInstances();  // once they are known, or others
  // The places that a kernel is used in, each by its origins.
  void setInstances(std::function<std::vector<KernelInstance>(const protocol::SubgraphInfo&)> instances) {
    m_instances = std::move(instances);
  }
  // Whether the notebook pins the kernel that a tensor names.
  void setPins(std::function<bool(const std::string& tensor)> pins) { m_pins = std::move(pins); }
  void refreshPin();

  TrialsPlot* trials() const { return m_trials; }
  GenerationStrip* generations() const { return m_generations; }
  LatencyPlot* latency() const { return m_latency; }
  LossPlot* loss() const { return m_loss; }
  RooflinePlot* roofline() const { return m_roofline; }
  KernelView* kernel() const { return m_kernel; }
  ProfileView* profile() const { return m_profile; }
  BudgetSlider* budget() const { return m_share; }
  void setBudget(double share);  // of the notebook that is shown
  void finishBudget();           // what was chosen is asked for now
  QListWidget* list() const { return m_list; }
  QComboBox* knob(const QString& name) const;
  protocol::JsonText chosenSchedule() const;
  QPushButton* tune() const { return m_tune; }  // without training
  QPushButton* measure() const { return m_measure; }
  QPushButton* pin() const { return m_pin; }
  QPushButton* replay() const { return m_replay; }
  QString measured() const;
  StepChooser* steps() const { return m_steps; }
  QString lineage() const;  // as rich text
  QString now() const;
  QString spent() const;     // the budget in words
  QString byHand() const;    // what was tried besides; empty: nothing
  QString reason() const;    // why the search does not use its share
  QString ceilings() const;  // what the roofline's are of
  std::vector<Plot*> plots() const;

 Q_SIGNALS:
  void subgraphChosen(const std::string& id);
  void spaceWanted(const std::string& subgraph, const nf::protocol::JsonText& schedule);  // beside which values are ruled out
  void trialWanted(const std::string& subgraph, std::optional<std::uint64_t> trial);
  // `base`: the trial whose knobs were turned; none: they were those of no trial.
  void measureRequested(const std::string& subgraph, const nf::protocol::JsonText& schedule, std::optional<std::uint64_t> base);
  void replayRequested(const std::string& subgraph, std::uint64_t trial, const nf::protocol::JsonText& schedule);
  void pinRequested(const std::string& tensor, const nf::protocol::JsonText& schedule);
  void unpinRequested(const std::string& tensor);
  void budgetRequested(double share);
  void tuneRequested();
  void profileWanted();

 private:
  QWidget* makeLeft();
  void resizeEvent(QResizeEvent* event) override;
  QWidget* makeMiddle();
  QWidget* makeRight();
  QToolButton* tableButton(Plot* plot);
  void showKnobs();
  void showLineage();
  void showGains();  // in the rows
  void showMeasureState();
  void markRuledOut();
  QString refusal() const;  // why the kernel cannot have what the knobs say; empty: nothing is known against it
  bool told() const;        // whether the engine has said so of what the knobs say
  QString noKernels() const;
  void showOffers();
  void say(const QString& text);
  bool pinned() const;
  void showBudget();
  void showTried(const std::string& subgraph);
  void markSelection();
  void pick(const std::string& id);  // by a person: what it came from is selected everywhere
  void lead(const protocol::Origins& origins, std::vector<std::string> tensors);
  bool knows(const std::string& subgraph) const;  // or nothing is known yet
  bool profileIsNow() const;
  const protocol::SubgraphInfo* subgraph() const;
  const protocol::TrialInfo* trialNumbered(std::uint64_t number) const;
  // The playhead's trial, or the best one where none was chosen.
  const protocol::TrialInfo* shownTrial() const;
  const protocol::TrialInfo* trialInUse() const;                     // null: nothing has run, or its kernel is no trial
  void follow();                                                     // the kernel and the knobs are the shown trial's
  void askKernel(std::optional<std::uint64_t> number, bool byHand);  // what a hand moves fast is asked for where it rests
  bool edited() const;
  std::string shownSchedule() const;
  const Theme* m_theme;
  Selection* m_selection;
  std::vector<protocol::SubgraphInfo> m_subgraphs;
  std::vector<protocol::TrialInfo> m_trialList;
  std::map<std::string, protocol::TrialInfo> m_fastest;  // of the kernels whose trials have been shown
  bool isLed(const protocol::SubgraphInfo& subgraph) const;
  void countTrials(const std::string& subgraph, const std::vector<protocol::TrialInfo>& trials);
  std::set<std::string> m_ledOperators;
  std::uint64_t m_ledChoice = 0;  // Selection::choices() that they are of
  std::set<std::string> m_gone;
  bool isGone() const { return m_gone.contains(m_current); }
  static QString goneWords() { return tr("A mistake in the notebook keeps this kernel out: it is as it was before"); }
  std::uint64_t m_revision = 0, m_kernelRevision = 0;  // of the subgraphs; that the kernel was asked for at
  bool m_runOld = false;
  QString m_runOf;
  std::string m_device;  // in use; empty: not known
  std::string m_current;
  std::string m_tried;                 // the kernel that the search is at
  std::uint64_t m_followed = 0;        // choice of the selection that led to it, or that it came after
  std::optional<std::uint64_t> m_led;  // choice of the selection that it led to
  bool m_leading = false;              // to one just now
  std::optional<std::uint64_t> m_trial;
  bool m_trialKnown = false;                // it was among the trials
  std::optional<std::uint64_t> m_compared;  // the other side of the diff
  protocol::Space m_space;
  protocol::RunState m_state;
  std::map<QString, QComboBox*> m_knobs;
  std::map<QString, QString> m_knobsAsFound;  // what each box showed first
  std::string m_schedule;                     // that they were made of
  bool m_refusalSaid = false;
  QString m_spentInAll;  // by a search without training, when it has ended
  TunePlace m_back;
  QLabel *m_budget, *m_spent, *m_byHand, *m_now, *m_reason;
  BudgetSlider* m_share;
  QElapsedTimer m_sinceShare;  // since a person has moved the handle
  bool m_settingShare = false;
  StepChooser* m_steps;
  QListWidget* m_list;
  PanelHeader* m_roofHeader;
  PanelHeader *m_trialsHeader, *m_latencyHeader, *m_knobHeader, *m_lineageHeader;
  QWidget *m_knobBox, *m_lineageBox;
  QVBoxLayout *m_besideKnobs, *m_belowKnobs;  // one of them holds the lineage
  QLabel *m_lineage, *m_result;
  QPushButton *m_pin, *m_replay, *m_measure, *m_tune;
  std::function<bool(const std::string&)> m_pins;
  std::function<std::vector<KernelInstance>(const protocol::SubgraphInfo&)> m_instances;
  bool m_measuring = false;
  TrialsLegend* m_legend;
  TrialsPlot* m_trials;
  GenerationStrip* m_generations;
  LatencyPlot* m_latency;
  LossPlot* m_loss;
  ProfileView* m_profile;
  RooflinePlot* m_roofline;
  KernelView* m_kernel;
  bool m_kernelPending = false;
  std::optional<std::uint64_t> m_asked;  // the trial whose kernel is shown or on its way
  QTimer *m_kernelTimer, *m_spaceTimer, *m_shareTimer, *m_play;
  QToolButton* m_playButton = nullptr;
  QSplitter *m_columns, *m_rows;
};

// The knobs of a schedule's JSON text by name, as JSON text; and the schedule with some of them set.
std::map<std::string, std::string> knobsOf(const std::string& schedule);
std::string withKnobs(const std::string& schedule, const std::map<std::string, std::string>& knobs);

}  // namespace nf
