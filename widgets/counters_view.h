// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/protocol/message.h"
#include "widgets/plots.h"
#include "widgets/theme.h"

class QLabel;
class QTableWidget;

namespace nf {

// What the device's counters say of the chosen kernel: of the one before the last swap and of the one after it, side by side, bars by
// the larger of both. A profile without a training gives the kernel in use alone.
class CountersView : public QWidget {
  Q_OBJECT
 public:
  explicit CountersView(const Theme* theme, QWidget* parent = nullptr);
  void setProfile(const protocol::Profile& profile);
  void add(const protocol::KernelCountersEvent& counters);
  void choose(const std::string& subgraph);
  void clear();
  QTableWidget* rows() const { return m_table; }
  QString sentence() const;  // instead of rows, or what stands below them
  PlotTable table() const;

 private:
  struct Row {
    QString what;
    std::optional<double> before, after;
    QString (*text)(double);
  };
  std::vector<Row> rowsOf(const protocol::KernelCountersEvent& counters) const;
  void refresh();
  const Theme* m_theme;
  QTableWidget* m_table;
  QLabel* m_sentence;
  std::map<std::string, protocol::KernelCountersEvent> m_counted;  // by subgraph
  std::string m_chosen, m_missing;
  std::vector<Row> m_rows;
};

}  // namespace nf
