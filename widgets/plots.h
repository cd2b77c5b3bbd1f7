// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <optional>
#include <vector>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QCustomPlot;
class QTimer;

// Plots without frames: a thin grid, few round numbers, log where the range is wide. Redraws are thinned to 20 a second; every point stays.
namespace nf {

class Plot : public QWidget {
  Q_OBJECT
 public:
  Plot(const Theme* theme, QWidget* parent = nullptr);
  QCustomPlot* plot() const { return m_plot; }
  bool saveSvg(const QString& path) const;

 protected:
  void requestRedraw();
  virtual void redraw() = 0;
  virtual void dress();
  const Theme* m_theme;
  QCustomPlot* m_plot;

 private:
  QTimer* m_timer;
};

// Step latency over steps or time: buckets with their min/max band, kernel swaps named where they happened.
class LatencyPlot : public Plot {
  Q_OBJECT
 public:
  LatencyPlot(const Theme* theme, bool compact, QWidget* parent = nullptr);
  void clear();
  void addStep(const protocol::StepEvent& step);
  void addSwap(const protocol::KernelSwapEvent& swap);
  void setSteps(std::vector<protocol::StepEvent> steps, std::vector<protocol::KernelSwapEvent> swaps);
  int steps() const { return static_cast<int>(m_steps.size()); }
  int swaps() const { return static_cast<int>(m_swaps.size()); }

 protected:
  void redraw() override;

 private:
  bool m_compact;
  std::vector<protocol::StepEvent> m_steps;
  std::vector<protocol::KernelSwapEvent> m_swaps;
};

class LossPlot : public Plot {
  Q_OBJECT
 public:
  explicit LossPlot(const Theme* theme, QWidget* parent = nullptr);
  void clear();
  void addStep(const protocol::StepEvent& step);
  void addEval(const protocol::EvalEvent& eval);

 protected:
  void redraw() override;

 private:
  std::vector<std::pair<double, double>> m_losses, m_evals;
};

// Every trial of one subgraph: discs, the best-so-far staircase, failures in a strip above, each kind with its shape and count.
class TrialsPlot : public Plot {
  Q_OBJECT
 public:
  explicit TrialsPlot(const Theme* theme, QWidget* parent = nullptr);
  enum class Axis { Trials, Time };
  void setAxis(Axis axis);
  void setTrials(const std::vector<protocol::TrialInfo>& trials);
  void setCurrent(std::optional<std::uint64_t> number);
  int points() const { return static_cast<int>(m_trials.size()); }
  int failures() const;
  // The measured trial nearest to a place of the widget, within 12 px.
  std::optional<std::uint64_t> trialAt(QPoint at) const;

 Q_SIGNALS:
  void trialChosen(std::uint64_t number);

 protected:
  void redraw() override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  double xOf(const protocol::TrialInfo& trial) const;
  Axis m_axis = Axis::Trials;
  std::vector<protocol::TrialInfo> m_trials;
  std::optional<std::uint64_t> m_current;
};

// Operations a second over operations a byte, under the measured ceilings of the device; the path of the tuner's best trials.
class RooflinePlot : public Plot {
  Q_OBJECT
 public:
  explicit RooflinePlot(const Theme* theme, QWidget* parent = nullptr);
  void setDevice(std::optional<protocol::DeviceConstants> device);
  void setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs, const std::string& current);
  void setTrials(const std::vector<protocol::TrialInfo>& trials);

 protected:
  void redraw() override;

 private:
  std::optional<protocol::DeviceConstants> m_device;
  std::vector<protocol::SubgraphInfo> m_subgraphs;
  std::string m_current;
  std::vector<protocol::TrialInfo> m_path;
};

}  // namespace nf
