// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPainterPath>
#include <QPen>
#include <QWidget>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "widgets/graph_layout.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

namespace nf {

class MovedPlaces;

// By node: what stands below its name: the operator in short.
QStringList captionsOf(const protocol::GraphPage& graph);

// The graph of one stage: drag pans, the wheel zooms, arrow keys follow edges, a group opens and closes at its title. Only what is in
// sight is painted. Edges that leave their part of the picture (a parameter read by its gradient, a value kept for backward) are faint
// until an end of theirs is selected.
class GraphView : public QWidget {
  Q_OBJECT
 public:
  GraphView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  // The stage that knows the fused groups: every stage of this revision takes its places from it. A graph of stage `fused` is its own.
  void setPlan(protocol::GraphPage plan);
  const protocol::GraphPage* plan() const { return m_plan.get(); }
  void setGraph(protocol::GraphPage graph);
  const protocol::GraphPage& graph() const { return m_graph; }
  // The text is another one now; what is shown stays until its graph comes.
  void movePlaces(const MovedPlaces& moved);
  // Of a graph that does not take the place of what is shown, because a mistake keeps operators out of it.
  void takePlaces(const protocol::GraphPage& newer);
  // What stands in a node and in a group's title.
  QString captionOf(int node) const { return m_captions.value(node); }
  QString timeOf(std::size_t node) const;  // of a step, of an operator with a kernel of its own; "": it has none, or no time
  QString factsOf(int group) const;
  QString formulaOf(int group) const;  // of a closed one
  QString tagOf(int group) const;      // "G3", drawn before its name
  // Kernels by their operators: groups show the time of a step and its share of all of them.
  void setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs);
  const GraphLayout& layoutOf() const { return m_layout; }
  void setRevision(std::uint64_t revision);  // the newest text: a graph of an older one is faded
  bool outdated() const { return m_outdated; }
  void setNothing(const QString& why);  // what stands there while no node does
  QString nothing() const { return m_nothing; }
  void setHighlightChanges(bool on);
  // A decision's edge, between two nodes: drawn with its reward, as long as the decision is what is selected.
  void setDecision(const QString& producer, const QString& consumer, const QString& text);
  QPainterPath edgePath(std::size_t edge) const;  // on the sheet
  QRectF decisionPlace() const;                   // of its label, on the sheet; null: it is not drawn
  void choose(const QString& id, bool reveal);
  QString chosen() const { return m_chosen; }
  // By node: outlined, or hidden in a closed group that is.
  bool isOutlined(std::size_t node) const { return node < m_marks.size() && m_marks[node] == Mark::Chosen; }
  bool highlightsChanges() const { return m_changes; }
  bool isChosen(std::size_t node) const { return node < m_marks.size() && m_marks[node] == Mark::Chosen; }
  bool belongs(std::size_t node) const { return node < m_marks.size() && m_marks[node] == Mark::Belongs; }  // to what is chosen
  bool decided() const;  // a decision is what is selected
  // The nodes that a text is found in, by their places in the graph: those of that name first, then those whose name begins with it.
  std::vector<std::size_t> found(const QString& text) const;
  bool findFirst(const QString& text);
  bool findNext(const QString& text);  // after the chosen one, in that order
  void fit();
  void showGroup(const QString& id);  // brings it in sight; what is selected stays
  // Large graphs start with their fused groups closed; Space or a click on the title opens one.
  void toggleGroup(int group);
  void toggleGroups();  // all of them: closed ones open when none is open
  void reset();         // another notebook: nothing of the old one is kept
  void zoomBy(double factor, std::optional<QPointF> at = {});
  double zoom() const { return m_scale; }
  bool saveSvg(const QString& path);
  QPointF toWidget(QPointF world) const { return world * m_scale + m_offset; }

 Q_SIGNALS:
  void nodeChosen(const QString& id);  // empty: none any more
  void nodeOpened(const QString& id);  // by a double click or Enter: to its source
  void zoomChanged(double zoom);
  void groupChosen(const QString& group);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  bool event(QEvent*) override;

 private:
  QString timeOf(double us) const;
  void settle();
  QRectF shown() const;  // where all of it lies, in pixels
  void keepEdges(const QRectF& was);
  void shrink(const QRectF& was);
  bool isFusedAgain() const;
  void bringChosenIntoSight();
  void paintWorld(QPainter& p, const QRectF& visible, double scale);
  void paintEdge(QPainter& p, std::size_t edge, const QColor& color, double width);
  void changePlaces(const std::function<void(protocol::GraphPage&)>& change);
  void adopt(GraphLayout layout);
  void place();  // lays the plan out where that is not done, puts the graph on it
  bool standsOnOpen(const protocol::GraphPage& graph) const;
  const GraphLayout* sheet() const { return m_onOpen ? m_open.get() : m_planned.get(); }
  void showFirst();
  int groupAt(QPointF world, bool titleOnly) const;
  QRectF overview() const;
  QRectF cornerFor(QSizeF overview) const;
  void paintOverview(QPainter& p);
  struct LegendEntry {
    QString word;
    QColor color;
    Qt::PenStyle style;  // NoPen: the sign of what is carried
    double width;
  };
  std::vector<std::vector<LegendEntry>> legend() const;  // by row
  double legendHeight() const;                           // at the foot of the view
  void paintLegend(QPainter& p) const;
  QRectF freePlace(QPointF wanted, QSizeF size) const;
  void paintGroup(QPainter& p, std::size_t group, double scale);
  void relate();
  void chooseTensors(const protocol::Origins& origins, std::vector<std::string> tensors);
  bool isEndOfDecision(const protocol::GraphNode& node) const;
  std::optional<std::size_t> decisionEdge() const;
  void chooseNothing();
  int nodeAt(QPointF world) const;
  void step(int key);
  QColor phaseColor(const protocol::GraphNode& node) const;
  const Theme* m_theme;
  Selection* m_selection;
  protocol::GraphPage m_graph;
  QStringList m_captions;  // of its nodes
  GraphLayout m_layout;
  std::unordered_map<std::string, QPointF> m_previous;
  std::string m_stageShown;
  std::shared_ptr<const protocol::GraphPage> m_plan;
  std::shared_ptr<const GraphLayout> m_planned;
  std::shared_ptr<const GraphLayout> m_open;         // the plan with every group open: what stages stand on that have none
  bool m_onOpen = false;                             // what is shown does
  std::optional<std::pair<QPointF, double>> m_away;  // offset and scale that the other one of the two was left with
  struct Earlier {
    std::shared_ptr<const protocol::GraphPage> plan;
    std::shared_ptr<const GraphLayout> planned;
    std::set<std::string> closed;
    QPointF offset;
    double scale = 1;
  };
  std::optional<std::pair<QPointF, double>> m_back;  // offset and scale of an earlier plan that came back
  std::deque<Earlier> m_earlier;                     // the last plans of this notebook, the newest first
  protocol::GraphPage m_coming;                      // that is being placed
  std::set<std::string> m_closed;
  std::unordered_set<std::string> m_alone;           // operators with a kernel of their own
  std::unordered_map<std::string, double> m_stepUs;  // of the kernel, by each of its operators
  std::set<std::string> m_steps;                     // operators that a step runs; empty: not known
  QString m_nothing;
  double m_totalUs = 0;  // of the step; 0: a kernel of it was not measured
  bool m_groupsSeen = false;
  std::vector<std::vector<int>> m_in, m_out;  // edges by node
  enum class Mark : std::uint8_t { Plain, Path, Belongs, Chosen };
  QPen outline(Mark mark, const QColor& plain) const;
  std::vector<Mark> m_marks;  // by node; empty: nothing is selected
  QString m_chosen, m_decisionFrom, m_decisionTo, m_decisionText;
  std::uint64_t m_revision = 0, m_decisionChoice = 0, m_nodeChoice = 0;  // of the selection
  double m_scale = 1;
  QPointF m_offset, m_pressed, m_pressedOffset;
  bool m_choosing = false;
  mutable std::size_t m_corner = 0;  // that the overview stands in
  bool m_titleClicked = false, m_doubleClicked = false;
  bool m_dragging = false, m_fitted = false, m_outdated = false, m_changes = false;
  bool m_moved = false;  // by hand: it stays as it was put when the room changes
  std::uint64_t m_generation = 0;
};

}  // namespace nf
