// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QElapsedTimer>
#include <QTimer>
#include <functional>
#include <map>
#include <set>

#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/decision_card.h"
#include "widgets/dock_page.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QModelIndex;
class QToolButton;
class QSortFilterProxyModel;
class QStackedWidget;
class QTableView;
class QTableWidget;

namespace nf {

class DecisionCard;
class FusionModel;
class GraphView;
class MovedPlaces;
class PanelHeader;
class StageSlider;
class StepChooser;

// Graph by stage in the middle; fusion decisions and the card of the chosen one in panels around it: one selection.
class ExplainView : public DockPage {
  Q_OBJECT
 public:
  // What the selection is for the decisions.
  struct Related {
    std::set<std::string> called;       // calledNames() of the plan; empty: none of them has a node there
    std::string led;                    // node of what is read at the place that is selected, or that it is part of making
    std::set<std::string> inBody;       // of a place in a function: the nodes that it leads to
    std::map<std::string, bool> nodes;  // of the plan: whether the selected place leads there; empty: no place is selected
    // What is selected and computed again, `Q` of `Q#3`, and the tensors of the kernels that hold it.
    std::vector<std::pair<std::string, std::set<std::string>>> again;
  };

  ExplainView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  void setGraph(const protocol::GraphPage& graph);
  // What the fused groups and every stage's places are known from; before setGraph() of that revision.
  void setPlan(const protocol::GraphPage& plan);
  void setSubgraphs(const std::vector<protocol::SubgraphInfo>& subgraphs);
  void setFusion(const protocol::FusionReport& report);
  void setComparison(const DecisionCard::Comparison& comparison);  // in the card, and in the row
  void setComparisonFailed(const QString& message);
  bool measuring() const { return m_measuring.has_value(); }  // both ways of a decision, whichever is looked at
  void setRevision(std::uint64_t revision);                   // the newest text: what is of an older one is greyed
  void setEngineGone(bool gone);                              // what is not known yet waits for another one
  void movePlaces(const MovedPlaces& moved);                  // of what is of an older one
  void takePlaces(const protocol::GraphPage& newer);          // of a graph that a mistake keeps operators out of
  void setWaiting(bool waiting);                              // the graph and the decisions of what is written now are on their way
  void setHints(std::function<Document::FusionHint(const std::string&, const std::string&)> hints) { m_hints = std::move(hints); }
  QString stage() const { return m_stage; }
  void wantStage(const QString& stage);  // the slider goes there, the graph comes
  GraphView* graph() const { return m_graph; }
  FusionModel* fusion() const { return m_model; }
  QTableView* table() const { return m_table; }
  QComboBox* states() const { return m_states; }  // which are shown
  const QLabel* none() const { return m_none; }
  QTableWidget* nodes() const { return m_nodes; }
  DecisionCard* card() const { return m_card; }
  QLineEdit* finder() const { return m_find; }
  QString counts() const;     // of the graph: "7 nodes, 8 edges"
  QString foundText() const;  // "2 of 5": which of the nodes that the text is found in
  StageSlider* slider() const { return m_slider; }
  StepChooser* steps() const { return m_steps; }
  void chooseDecision(int number);
  void selectDecision();                      // of the card, where something else is selected
  bool decided() const { return m_decided; }  // the card's decision is what is selected
  std::vector<int> relatedDecisions() const;  // that came from the selection, from 0
  const protocol::FusionDecisionInfo* chosenDecision() const;
  // The fused stage, whose operators decisions and kernels are about, whatever stage is in sight; that one as long as there is no other.
  const protocol::GraphPage& plannedGraph() const;
  // Node ids of the plan that the selected place leads to; empty where tensors are selected.
  std::set<std::string> ledOperators() const;
  void reset();  // another notebook

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 Q_SIGNALS:
  void decisionChosen();
  void stageWanted(const QString& stage);
  void hintRequested(const QString& producer, const QString& consumer, Document::FusionHint hint);

 private:
  void greyDecisions();
  void showFound();
  void showCounts();
  std::uint64_t m_revision = 0;
  const Theme* m_theme;
  Selection* m_selection;
  QString m_stage = QStringLiteral("fused"), m_counts;
  std::ptrdiff_t m_added = 0, m_changed = 0, m_fused = 0;  // nodes by the stage's pass; kernels of several operators
  PanelHeader *m_graphHeader, *m_fusionHeader;
  StageSlider* m_slider;
  StepChooser* m_steps;
  GraphView* m_graph;
  QTableWidget* m_nodes;
  QStackedWidget* m_graphStack;
  QLineEdit* m_find;
  QLabel* m_found;
  QToolButton* m_zoom;
  FusionModel* m_model;
  QSortFilterProxyModel* m_proxy;
  QTableView* m_table;
  QComboBox* m_states;
  QLabel* m_none;  // of the states shown there is no decision
  DecisionCard* m_card;
  void markSelection();
  void bringIntoSight(const QModelIndex& row);
  void revealRelated(const std::vector<int>& related);  // where nothing of it is chosen
  std::vector<int> m_revealed;
  std::vector<bool> m_byPlace;         // nodes that the selected place leads to; empty where tensors are selected
  std::vector<bool> m_plannedByPlace;  // the same of the plan
  void fitTable();
  void showDecision(int number, bool select);
  void filterStates(int state);
  void showNone();
  int chosenRow() const;  // of the model; -1: none
  const DecisionCard::Comparison* comparisonOf(const protocol::FusionDecisionInfo& decision) const;
  bool m_marking = false, m_filtering = false;
  bool m_narrow = false;
  int m_orderedAt = -1;  // the width that the order of the columns was chosen for; -1: for none
  bool m_fitting = false;
  std::set<int> m_byHand;  // columns
  bool m_decided = false, m_deciding = false;
  Related m_related;
  std::uint64_t m_decisionChoice = 0;  // of the selection
  using Pair = std::pair<std::string, std::string>;
  std::optional<Pair> m_pair;  // producer and consumer of the decision in the card, by which it is known
  struct Compared {
    DecisionCard::Comparison comparison;
    protocol::FusionState state;  // as it was decided then, and by what reward
    double dT, dC, dK;
    std::string parts;
  };
  std::map<Pair, Compared> m_compared;
  std::optional<protocol::FusionDecisionInfo> m_measuring;
  std::function<Document::FusionHint(const std::string&, const std::string&)> m_hints;
  void showWaiting();
  bool m_engineGone = false;
  QTimer m_waitTimer;
  QElapsedTimer m_waitBegan;
};

}  // namespace nf
