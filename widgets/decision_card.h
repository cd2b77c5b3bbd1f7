// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPointer>
#include <QWidget>

#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/leads.h"
#include "widgets/theme.h"

class QLabel;
class QPushButton;
class QScrollArea;
class QVBoxLayout;

namespace nf {

class Badge;
class PanelHeader;
class Section;

// One decision: why, in numbers that add up; what would flip it; force and forbid.
class DecisionCard : public QWidget {
  Q_OBJECT
 public:
  static constexpr int kLeastWidth = 356;  // px: nothing is cut
  explicit DecisionCard(const Theme* theme, QWidget* parent = nullptr);
  ~DecisionCard() override;
  void clear();
  void setRelated(const std::vector<int>& decisions);  // from 0, that the selection is part of: said while no decision is chosen
  void setDecision(int number, const protocol::FusionDecisionInfo& decision, const protocol::DeviceConstants& device,
                   Document::FusionHint hint);
  PanelHeader* header() const;  // the panel's title
  QPushButton* force() const { return m_force; }
  QPushButton* forbid() const { return m_forbid; }
  QPushButton* release() const { return m_release; }
  QPushButton* measure() const { return m_measure; }
  // Both ways measured in pairs on the device. `verdict`: one sentence, whether they separate.
  struct Comparison {
    std::string producer, consumer, device;
    protocol::Measured apart, fused, saving;  // microseconds: the kernels below once, without the rest of a step
    std::string verdict;
    std::string loop;  // one pass of whose body it is; empty: of none
    std::vector<std::string> fusedKernels, apartKernels;
  };
  QString whatIf() const;                    // what is said about measuring
  QString measured() const;                  // what the measured times are of
  QString scope() const { return m_scope; }  // the constants that R is counted with, and what they are of
  bool comparing() const;
  bool intervals() const;  // both ways are drawn
  void setComparing();     // the measurement is under way
  void setComparison(const Comparison& comparison);
  void setComparisonFailed(const QString& message);
  void setLeads(const std::vector<Lead>& leads);

 Q_SIGNALS:
  void hintRequested(Document::FusionHint hint);
  void leadChosen(const QString& target);
  void measureRequested(const std::string& producer, const std::string& consumer);

 private:
  void clearIntervals();
  const Theme* m_theme;
  QPointer<PanelHeader> m_header;  // until a panel takes it, the card's own
  QLabel *m_title, *m_why, *m_empty, *m_noise, *m_measured;
  Badge* m_badge;
  Section *m_waterfall, *m_flip, *m_what, *m_leads;
  QPushButton *m_force, *m_forbid, *m_release, *m_measure;
  QVBoxLayout* m_intervals;
  std::string m_producer, m_consumer;
  bool m_fused = false;  // as the plan stands
  QString m_scope;
  QScrollArea* m_scroll;
  QWidget *m_body, *m_foot;
};

}  // namespace nf
