// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <map>
#include <optional>

#include "core/protocol/message.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QComboBox;
class QLabel;
class QListWidget;
class QPushButton;
class QSlider;
class QSplitter;
class QVBoxLayout;

namespace nf {

class KernelView;
class LatencyPlot;
class PanelHeader;
class RooflinePlot;
class TrialsPlot;

// The search: subgraphs and their share, every trial, the latency of the steps, the kernel and its place under the roofline.
class TuneView : public QWidget {
  Q_OBJECT
 public:
  TuneView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  void setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs);
  void setTrials(const std::string& subgraph, const std::vector<protocol::TrialInfo>& trials);
  void setSpace(const protocol::Space& space);
  void setKernel(const protocol::Kernel& kernel);
  void setDevice(std::optional<protocol::DeviceConstants> device);
  void setRunState(const protocol::RunState& state);
  void setSteps(const std::vector<protocol::StepEvent>& steps, const std::vector<protocol::KernelSwapEvent>& swaps);
  void addStep(const protocol::StepEvent& step);
  void addSwap(const protocol::KernelSwapEvent& swap);
  void clearSteps();
  std::string current() const { return m_current; }
  void chooseSubgraph(const std::string& id);
  void chooseTrial(std::optional<std::uint64_t> number);
  TrialsPlot* trials() const { return m_trials; }
  LatencyPlot* latency() const { return m_latency; }
  KernelView* kernel() const { return m_kernel; }
  QListWidget* list() const { return m_list; }
  protocol::JsonText chosenSchedule() const;
  QPushButton* measure() const { return m_measure; }

 Q_SIGNALS:
  void subgraphChosen(const std::string& id);
  void trialWanted(const std::string& subgraph, std::optional<std::uint64_t> trial);
  void measureRequested(const std::string& subgraph, const nf::protocol::JsonText& schedule);
  void budgetRequested(double share);
  void tuneRequested();

 private:
  void showKnobs();
  void showLineage();
  void markSelection();
  const protocol::SubgraphInfo* subgraph() const;
  const Theme* m_theme;
  Selection* m_selection;
  std::vector<protocol::SubgraphInfo> m_subgraphs;
  std::vector<protocol::TrialInfo> m_trialList;
  std::string m_current;
  std::optional<std::uint64_t> m_trial;
  protocol::Space m_space;
  std::map<QString, QComboBox*> m_knobs;
  QLabel *m_budget, *m_spent, *m_legend;
  QSlider* m_share;
  QListWidget* m_list;
  PanelHeader *m_trialsHeader, *m_latencyHeader, *m_knobHeader;
  QWidget* m_knobBox;
  QLabel* m_lineage;
  QPushButton *m_measure, *m_tune;
  TrialsPlot* m_trials;
  LatencyPlot* m_latency;
  RooflinePlot* m_roofline;
  KernelView* m_kernel;
};

// The knobs of a schedule's JSON text by name, as JSON text; and the schedule with some of them set.
std::map<std::string, std::string> knobsOf(const std::string& schedule);
std::string withKnobs(const std::string& schedule, const std::map<std::string, std::string>& knobs);

}  // namespace nf
