// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QList>
#include <QPointF>
#include <QVariant>
#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "core/protocol/latency.h"
#include "core/protocol/message.h"
#include "widgets/theme.h"

class QCPItemLine;
class QCPItemText;
class QCustomPlot;
class QLabel;
class QStackedWidget;
class QTableView;
class QTimer;
class QToolButton;

// Plots without frames: a thin grid, few round numbers, log where the range is wide. Redraws are thinned to 20 a second; every point
// stays. Each plot is also a table: to read with the keyboard and to export.
namespace nf {

struct PlotTable {
  QStringList columns;  // with units
  std::vector<QVariantList> rows;
};
QString csvOf(const PlotTable& table);
QByteArray jsonOf(const PlotTable& table);  // an array of objects

class Plot : public QWidget {
  Q_OBJECT
 public:
  Plot(const Theme* theme, const QString& name, QWidget* parent = nullptr);
  QCustomPlot* plot() const { return m_plot; }
  virtual PlotTable table() const = 0;
  // By the suffix: csv, json, svg, png. What went wrong; empty: written.
  QString save(const QString& path);
  void saveAs(const QString& suffix);  // asks where
  void showTable(bool table);
  bool showsTable() const;
  QTableView* tableView() const { return m_table; }
  // Where a menu's "Save" asks for a path; a file dialog unless set. An empty answer cancels.
  void setNever(const QString& why);  // why nothing is to be drawn here, in place of when it is; empty: it may be
  void setPathChooser(std::function<QString(const QString& suggested)> chooser) { m_choosePath = std::move(chooser); }
  // The labels that found a place, with their rectangles in pixels of the plot.
  std::vector<std::pair<QString, QRectF>> shownLabels();
  QStringList tickLabels(Qt::Orientation orientation);
  QPointF valueAt(QPoint pixel) const;  // plot coordinates
  QWidget* canvas() const;              // what takes the mouse
  std::int64_t redraws() const { return m_redraws; }
  void setOnPaper(bool onPaper);  // drawn as lines and letters
  void drawOnPaper();             // at once, as large as it is

 Q_SIGNALS:
  void tableShown(bool table);
  void drawn();  // anew: what is said beside it is what it shows from now on

 protected:
  enum class Side { Right, Left, Above, Below, AboveRight, AboveLeft, BelowRight, BelowLeft };
  // A text beside a point. The first place that is free is taken; a label without one is not drawn.
  struct Label {
    QString text;
    double x = 0, y = 0;  // plot coordinates
    std::vector<Side> sides;
    int weight = QFont::Normal;
    QColor color;
    double gap = 6;                       // pixels from the point
    int rows = 0;                         // lines it may be moved away, further and further
    bool must = false;                    // drawn even where it covers something
    std::vector<QPointF> elsewhere = {};  // other points it may stand beside, the best first
    bool end = false;    // names a line at its end: in a column right of all lines, moved up or down where another one stands
    bool clear = false;  // of faint lines, too: of the labels that should be, only the first that is drawn may stand on one
    bool led = false;    // with a line from the point, where it had to be moved away from it
    QCPItemText* item = nullptr;
    QCPItemLine* leader = nullptr;
  };
  void requestRedraw();
  const QString& never() const { return m_never; }
  virtual void redraw() = 0;
  virtual void dress();
  // After the layout of a redraw: labels find their places.
  virtual void arrange();
  // The widest name that stands at the end of a line: the axis leaves as much.
  void addEndLabel(const QString& text, double x, double y, const QColor& color, int weight = QFont::DemiBold);
  void addLabel(Label label);
  void avoid(double x, double y, double radius);              // a point, pixels around it
  void avoidBox(double x0, double y0, double x1, double y1);  // plot coordinates
  // Plot coordinates, straight on the screen. `faint`: where there is room elsewhere, and else a word may stand on it.
  void avoidLine(double x0, double y0, double x1, double y1, bool faint = false);
  void showEvent(QShowEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void drawNow();
  std::vector<std::pair<QString, QRectF>> labelPlaces() const;  // since the last arrange()
  static QString shortMilliseconds(double ms);
  const Theme* m_theme;
  QCustomPlot* m_plot;
  bool m_saving = false;  // drawn for a file: what stands beside it on the screen does not

 private:
  struct Obstacle {
    QRectF box;  // plot coordinates
    double radius;
    bool line, faint = false;
  };
  std::vector<QRectF> placeEndLabels(const QRectF& area);
  void fillTable();
  QByteArray svg();
  QByteArray png();
  QByteArray forFile(QByteArray (Plot::*picture)());
  QString m_name;
  QTimer* m_timer;
  QStackedWidget* m_stack;
  QTableView* m_table = nullptr;
  QLabel* m_unsaved;
  std::vector<Label> m_labels;
  std::vector<Obstacle> m_obstacles;
  std::function<QString(const QString&)> m_choosePath;
  QString m_never;
  bool m_onPaper = false;
  bool m_waiting = false;  // something changed while nobody could see it
  std::int64_t m_redraws = 0;
};

enum class TrainingAxis { Steps, Time };

// Step latency: the running median with the min/max band of all steps, kernel swaps named where the line drops, reference lines.
class LatencyPlot : public Plot {
  Q_OBJECT
 public:
  LatencyPlot(const Theme* theme, bool compact, QWidget* parent = nullptr);
  void clear();
  void addStep(const protocol::StepEvent& step);
  void addSwap(const protocol::KernelSwapEvent& swap);
  void setSteps(std::vector<protocol::StepEvent> steps, std::vector<protocol::KernelSwapEvent> swaps);
  void setAxis(TrainingAxis axis);
  // A recorded step of another system; 0: none.
  void setPeer(const QString& name, double milliseconds);
  // What the steps of a run that is over are said to take, ms, in place of where the line ends; until the next step.
  void setFigure(double milliseconds);
  double given() const { return m_figureMs; }  // by setFigure(); 0: none
  double figure() const;                       // that stands at the end of the line; 0: there is no line
  int steps() const { return static_cast<int>(m_steps.size()); }
  int swaps() const { return static_cast<int>(m_swaps.size()); }
  std::optional<protocol::AgainstPeer> againstPeer() const;  // by the line that is drawn; nothing without a peer or a step
  std::optional<double> firstKernels() const;          // ms, median of the steps before the first swap; nothing without a swap
  std::optional<double> now() const;                   // ms, where the line ends
  std::optional<protocol::StepSpread> newest() const;  // of the steps that this is of; nothing without one
  PlotTable table() const override;

 Q_SIGNALS:
  void swapChosen(const nf::protocol::KernelSwapEvent& swap);

 protected:
  void redraw() override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  double xOf(const protocol::KernelSwapEvent& swap) const;
  std::vector<protocol::StepTime> times() const;
  bool m_compact;
  TrainingAxis m_axis = TrainingAxis::Steps;
  QString m_peer;
  double m_peerMs = 0, m_figureMs = 0;
  std::vector<protocol::StepEvent> m_steps;
  std::vector<protocol::KernelSwapEvent> m_swaps;
};

// Training loss of every step, held-out loss and accuracy of every evaluation.
class LossPlot : public Plot {
  Q_OBJECT
 public:
  LossPlot(const Theme* theme, bool compact, QWidget* parent = nullptr);
  void clear();
  void addStep(const protocol::StepEvent& step);
  void addEval(const protocol::EvalEvent& eval);
  void setRun(const std::vector<protocol::StepEvent>& steps, std::vector<protocol::EvalEvent> evals);
  void setAxis(TrainingAxis axis);
  int points() const { return static_cast<int>(m_steps.size()); }
  int evaluations() const { return static_cast<int>(m_evals.size()); }
  std::optional<double> newest() const;  // of the newest step, which is named where the line ends; nothing without one
  const protocol::EvalEvent* newestEval() const { return m_evals.empty() ? nullptr : &m_evals.back(); }
  PlotTable table() const override;

 protected:
  void redraw() override;
  void dress() override;

 private:
  double xOf(std::int64_t step) const;
  bool m_compact;
  TrainingAxis m_axis = TrainingAxis::Steps;
  std::vector<protocol::StepEvent> m_steps;
  std::optional<protocol::StepEvent> m_last;  // whatever its loss is: where the axis ends, as that of the latency does
  std::vector<protocol::EvalEvent> m_evals;
};

// Every trial of one subgraph: discs, the best-so-far staircase, failures in a strip above, each kind with its shape. The playhead
// stands on one trial; arrow keys move it.
class TrialsPlot : public Plot {
  Q_OBJECT
 public:
  explicit TrialsPlot(const Theme* theme, QWidget* parent = nullptr);
  enum class Axis { Trials, Time, Predicted };
  void setAxis(Axis axis);
  void setTrials(const std::vector<protocol::TrialInfo>& trials);
  void setCurrent(std::optional<std::uint64_t> number);
  std::optional<std::uint64_t> current() const { return m_current; }
  void setInUse(std::optional<std::uint64_t> number);  // whose kernel training runs
  std::optional<std::uint64_t> inUse() const { return m_inUse; }
  int points() const { return static_cast<int>(m_trials.size()); }
  int failures() const;
  // The trial nearest to a place of the plot, within 12 px; a failure is found in its strip.
  std::optional<std::uint64_t> trialAt(QPoint at) const;
  QPoint pixelOf(std::uint64_t number) const;
  QList<QPointF> bestSoFar();  // the staircase, as drawn
  PlotTable table() const override;

 Q_SIGNALS:
  void trialChosen(std::uint64_t number);

 protected:
  void redraw() override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  std::optional<double> xOf(const protocol::TrialInfo& trial) const;
  double yOf(const protocol::TrialInfo& trial) const;
  Axis m_axis = Axis::Trials;
  std::vector<protocol::TrialInfo> m_trials;
  std::optional<std::uint64_t> m_current, m_inUse;
  QList<QPointF> m_best;
  double m_strip = 0;  // where failures stand
  bool m_showsUntimed = false;
};

// The shapes of the trials plot with their counts.
class TrialsLegend : public QWidget {
  Q_OBJECT
 public:
  explicit TrialsLegend(const Theme* theme, QWidget* parent = nullptr);
  void setTrials(const std::vector<protocol::TrialInfo>& trials);
  QString text() const;  // "trial 148, best so far, wrong result 15"
  QSize sizeHint() const override { return {200, 26}; }
  std::vector<QRect> places() const;  // of the entries, in order; a narrow legend has several rows

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  struct Entry {
    int shape;
    QString words;
  };
  void fitHeight();
  const Theme* m_theme;
  std::vector<Entry> m_entries;
};

// What the search reached generation by generation, one box each; the chosen one is the playhead's.
class GenerationStrip : public QWidget {
  Q_OBJECT
 public:
  explicit GenerationStrip(const Theme* theme, QWidget* parent = nullptr);
  void setTrials(const std::vector<protocol::TrialInfo>& trials);
  void setCurrent(std::optional<std::uint64_t> number);
  struct Generation {
    std::int64_t number = 0;
    std::uint64_t best = 0;  // its fastest trial
    double us = 0;
  };
  const std::vector<Generation>& generations() const { return m_generations; }
  int current() const;  // index of the generation; -1: none
  void step(int by);
  QToolButton* back() const { return m_back; }
  QToolButton* forward() const { return m_forward; }
  std::vector<std::int64_t> shown() const;  // numbers of those in sight
  QSize sizeHint() const override { return {200, 48}; }

 Q_SIGNALS:
  void trialChosen(std::uint64_t number);

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QRect boxOf(int index) const;
  int fits() const;
  int firstShown() const;
  void refreshArrows();
  const Theme* m_theme;
  QToolButton *m_back, *m_forward;
  std::optional<std::uint64_t> m_best;  // the fastest trial of all
  std::vector<Generation> m_generations;
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
  // The trial of the playhead; none: the newest.
  void setCurrent(std::optional<std::uint64_t> number);
  std::optional<std::uint64_t> trial() const { return m_trial; }
  PlotTable table() const override;
  std::vector<QPolygonF> slopeNames();  // where the names along the ceilings stand, in pixels of the plot

 Q_SIGNALS:
  void subgraphChosen(const std::string& id);

 protected:
  void redraw() override;
  void arrange() override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  std::optional<protocol::DeviceConstants> m_device;
  std::vector<protocol::SubgraphInfo> m_subgraphs;
  std::string m_current;
  std::vector<protocol::TrialInfo> m_trials, m_path;
  std::optional<std::uint64_t> m_trial;
  struct Slope {
    QCPItemText* item;
    double x, y;      // where its name is wanted
    double from, to;  // of its line, along x
  };
  std::vector<Slope> m_slopes;  // names that run along a bandwidth ceiling
  std::vector<QPolygonF> m_slopeNames;
};

}  // namespace nf
