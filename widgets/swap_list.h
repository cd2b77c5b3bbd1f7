// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <vector>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QLabel;
class QTableWidget;

namespace nf {

// What made the step faster: every kernel swap with its kernel, its old and its new time. None: said, with the reason.
class SwapList : public QWidget {
  Q_OBJECT
 public:
  explicit SwapList(const Theme* theme, QWidget* parent = nullptr);
  void clear();
  void add(const protocol::KernelSwapEvent& swap);
  void nameAgain();  // where names of derivatives have changed since
  // What is said while there is none.
  void setNone(const QString& sentence);
  QString sentence() const;
  QTableWidget* table() const { return m_table; }
  int count() const { return static_cast<int>(m_swaps.size()); }
  void setOnPaper(bool onPaper);                     // every row, where the screen scrolls
  int splits() const;                                // rows of fused kernels that were split again
  std::int64_t swapsUntil(std::int64_t step) const;  // the others, of that step and those before it

 Q_SIGNALS:
  void swapChosen(const nf::protocol::KernelSwapEvent& swap);  // by a click or Enter

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  void dress();
  void fit();
  void fitColumns();
  const Theme* m_theme;
  QLabel* m_sentence;
  QTableWidget* m_table;
  bool m_onPaper = false, m_losses = false;  // names say which loss they are of
  std::vector<int> m_widest;                 // of each column's texts, pixels
  std::vector<protocol::KernelSwapEvent> m_swaps;
};

}  // namespace nf
