// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractTableModel>
#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "core/protocol/values.h"
#include "widgets/plots.h"
#include "widgets/theme.h"

namespace nf {

// What was done in one step, in the order of its begin. Times count from the step's begin.
class TimelineModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { kBegin, kDuration, kWhat, kKernel, kLane, kColumns };
  using QAbstractTableModel::QAbstractTableModel;
  void setTimeline(const protocol::Timeline& timeline);
  const protocol::Timeline& timeline() const { return m_timeline; }
  const protocol::TimelineSite* siteOf(int row) const;  // null: none
  QString titleOf(int row) const;                       // in a few words: "Y + L", "t = 3", "copy, host to device"
  QString wordOf(int row) const;                        // its kind: "kernel, backward"
  QString textOf(int row) const;                        // all that is known, in lines
  PlotTable table() const;
  int rowCount(const QModelIndex& = {}) const override { return static_cast<int>(m_timeline.activities.size()); }
  int columnCount(const QModelIndex& = {}) const override { return kColumns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  protocol::Timeline m_timeline;
};

// One step over time: a band a lane, in it what is inside below what is around it, kernels in the colours of forward, backward and optimizer.
// Wheel, `+` and `-` zoom, `0` shows all; dragging, Shift and the wheel, Shift and the arrows move along; arrows choose the next and
// the previous one of a row, and the rows above and below.
class TimelineView : public QWidget {
  Q_OBJECT
 public:
  TimelineView(const Theme* theme, TimelineModel* model, QWidget* parent = nullptr);
  // Which launches are selected, by what they came from; asked at every paint.
  void setSelected(std::function<bool(const protocol::TimelineSite&)> selected) { m_selected = std::move(selected); }
  // Which launches are of the step as it is now, the others are grey; asked at every paint.
  void setNow(std::function<bool(const protocol::TimelineSite&)> now) { m_now = std::move(now); }
  QColor colorOf(int row) const;
  int chosen() const { return m_chosen; }  // row of the model; -1: none
  void choose(int row);                    // by a person: chosenByHand() follows
  void showAll();
  double from() const { return m_from; }  // ns, at the left edge
  double to() const { return m_to; }      // ns, at the right edge
  QRectF rectOf(int row) const;           // of the widget; empty: it is out of sight
  int rowAt(QPointF position) const;      // -1: none
  int bands() const { return m_bandCount; }
  int drawn() const { return m_drawn; }  // bars of the last paint: what shares a pixel is drawn once
  QString emptyText() const;             // instead of bars; empty: there are some
  QSize sizeHint() const override { return {480, 180}; }
  QSize minimumSizeHint() const override { return {160, 90}; }

 Q_SIGNALS:
  void chosenByHand(int row);

 protected:
  void paintEvent(QPaintEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  bool event(QEvent* event) override;

 private:
  void layOut();
  void zoom(double factor, double at);  // at: ns that stays where it is
  void move(double by);                 // ns
  void reveal(int row);
  void chooseNear(int row, int bands);
  double xOf(double ns) const;
  double nsAt(double x) const;
  QRectF area() const;
  void paintAxis(QPainter& p) const;

  const Theme* m_theme;
  TimelineModel* m_model;
  std::function<bool(const protocol::TimelineSite&)> m_selected, m_now;
  std::vector<int> m_band;                   // of each row: lanes one below the other, each as deep as it nests
  std::vector<std::vector<int>> m_rows;      // of each band, by begin
  std::vector<std::pair<int, int>> m_lanes;  // first band and how many, by lane
  int m_bandCount = 0, m_drawn = 0;
  double m_from = 0, m_to = 1, m_end = 1;
  int m_chosen = -1;
  std::optional<QPointF> m_pressed;
  double m_pressedFrom = 0;
  bool m_dragged = false;
};

}  // namespace nf
