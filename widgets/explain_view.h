// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <functional>

#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSortFilterProxyModel;
class QSplitter;
class QStackedWidget;
class QTableView;
class QTableWidget;

namespace nf {

class Badge;
class FusionModel;
class GraphView;
class IconButton;
class PanelHeader;
class Section;

// The stages of the compiler as stops on a line.
class StageSlider : public QWidget {
  Q_OBJECT
 public:
  explicit StageSlider(const Theme* theme, QWidget* parent = nullptr);
  void setStages(const std::vector<protocol::StageSummary>& stages);
  void setCurrent(const QString& stage);
  QString current() const { return m_current; }

 Q_SIGNALS:
  void chosen(const QString& stage);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  int count() const;
  double xOf(int i) const;
  const Theme* m_theme;
  std::vector<protocol::StageSummary> m_stages;
  QString m_current;
};

// One decision: why, in numbers that add up; what would flip it; force and forbid.
class DecisionCard : public QWidget {
  Q_OBJECT
 public:
  explicit DecisionCard(const Theme* theme, QWidget* parent = nullptr);
  void clear();
  void setDecision(int number, const protocol::FusionDecisionInfo& decision, const protocol::DeviceConstants& device,
                   Document::FusionHint hint);
  QPushButton* force() const { return m_force; }
  QPushButton* forbid() const { return m_forbid; }

 Q_SIGNALS:
  void hintRequested(Document::FusionHint hint);

 private:
  const Theme* m_theme;
  PanelHeader* m_header;
  QLabel *m_title, *m_why, *m_empty, *m_noise;
  Badge* m_badge;
  Section *m_waterfall, *m_flip, *m_what;
  QPushButton *m_force, *m_forbid, *m_release;
  QWidget* m_body;
};

// Graph by stage, fusion decisions, and the card of the chosen one: one selection.
class ExplainView : public QWidget {
  Q_OBJECT
 public:
  ExplainView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  void setGraph(const protocol::GraphPage& graph);
  void setFusion(const protocol::FusionReport& report);
  void setOutdated(bool outdated);
  void setHints(std::function<Document::FusionHint(const std::string&, const std::string&)> hints) { m_hints = std::move(hints); }
  QString stage() const { return m_stage; }
  GraphView* graph() const { return m_graph; }
  FusionModel* fusion() const { return m_model; }
  QTableView* table() const { return m_table; }
  DecisionCard* card() const { return m_card; }
  StageSlider* slider() const { return m_slider; }
  void chooseDecision(int number);
  QSplitter* splitter() const { return m_split; }

 Q_SIGNALS:
  void stageWanted(const QString& stage);
  void hintRequested(const QString& producer, const QString& consumer, Document::FusionHint hint);

 private:
  const Theme* m_theme;
  Selection* m_selection;
  QString m_stage = QStringLiteral("fused");
  PanelHeader *m_graphHeader, *m_fusionHeader;
  StageSlider* m_slider;
  GraphView* m_graph;
  QTableWidget* m_nodes;
  QStackedWidget* m_graphStack;
  QLineEdit* m_find;
  QLabel* m_zoom;
  FusionModel* m_model;
  QSortFilterProxyModel* m_proxy;
  QTableView* m_table;
  QComboBox* m_states;
  DecisionCard* m_card;
  QSplitter* m_split;
  std::function<Document::FusionHint(const std::string&, const std::string&)> m_hints;
};

}  // namespace nf
