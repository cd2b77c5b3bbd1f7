// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QComboBox>

namespace nf {

// A box of choices that is narrower than its words: their ends stay in sight, the tooltip has them whole.
class ElidedCombo : public QComboBox {
 public:
  using QComboBox::QComboBox;
  QString shown() const;  // what fits

 protected:
  void paintEvent(QPaintEvent*) override;
  bool event(QEvent* event) override;
};

}  // namespace nf
