// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QLayout>
#include <vector>

namespace nf {

// Items beside each other, each as wide as it wants to be, in as many rows as the width asks for. One that is wider than a row has the
// row to itself and gives way. Those aligned to the right stand at the right end of their row.
class WrapLayout : public QLayout {
 public:
  explicit WrapLayout(int spacing) { setSpacing(spacing); }
  ~WrapLayout() override;
  void addItem(QLayoutItem* item) override { m_items.push_back(item); }
  int count() const override { return static_cast<int>(m_items.size()); }
  QLayoutItem* itemAt(int index) const override;
  QLayoutItem* takeAt(int index) override;
  Qt::Orientations expandingDirections() const override { return {}; }
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override { return arrange({0, 0, width, 0}, false); }
  QSize sizeHint() const override;     // of one row
  QSize minimumSize() const override;  // of one item a row
  void setGeometry(const QRect& rect) override;

 private:
  int arrange(const QRect& rect, bool apply) const;  // its height
  std::vector<QLayoutItem*> m_items;
};

}  // namespace nf
