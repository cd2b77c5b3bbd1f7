// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractTableModel>

#include <utility>

#include "core/protocol/message.h"
#include "widgets/theme.h"

namespace nf {

class MovedPlaces;

QString stateWord(protocol::FusionState state);
QString stateIcon(protocol::FusionState state);
Shade stateColor(protocol::FusionState state);
// Why no change of one size or constant turns the sign of R; empty: one does.
QString neverFlips(const protocol::FusionDecisionInfo& decision);

// What was measured of one pass, for all passes of a step, as R is.
protocol::Measured savingOfAStep(const protocol::FusionDecisionInfo& decision);

// Every decision with its numbers: bytes, FLOP and microseconds saved.
class FusionModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column {
    kNumber,
    kPair,
    kCategory,
    kTraffic,
    kWork,
    kKernels,
    kTrafficUs,
    kWorkUs,
    kLaunchUs,
    kBar,
    kReward,
    kMeasured,
    kState,
    kColumns
  };
  static constexpr int kDecisionRole = Qt::UserRole + 1;
  static constexpr int kSortRole = Qt::UserRole + 2;
  using QAbstractTableModel::QAbstractTableModel;
  void setReport(protocol::FusionReport report);
  void movePlaces(const MovedPlaces& moved);
  // An A/B of this decision has ended.
  void setMeasured(const std::string& producer, const std::string& consumer, protocol::Measured saving);
  const protocol::FusionReport& report() const { return m_report; }
  int rowCount(const QModelIndex& = {}) const override { return static_cast<int>(m_report.decisions.size()); }
  int columnCount(const QModelIndex& = {}) const override { return kColumns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  double largestReward() const { return m_largest; }
  QString csv() const;

 private:
  double microseconds(const protocol::FusionDecisionInfo& d, int column) const;
  protocol::FusionReport m_report;
  double m_largest = 0;                                                                             // microseconds
  std::pair<double, QString> m_traffic{1, QStringLiteral("B")}, m_work{1, QStringLiteral("FLOP")};  // scale and unit of a column
};

}  // namespace nf
