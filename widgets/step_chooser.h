// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QComboBox>

namespace nf {

// Of which `train` statement a view shows the step. It is there where a notebook has several.
class StepChooser : public QComboBox {
  Q_OBJECT
 public:
  explicit StepChooser(QWidget* parent = nullptr);
  // losses: by the number of the statement.
  void setTrains(const QStringList& losses, int current);

 Q_SIGNALS:
  void chosen(int train);  // by a person
};

}  // namespace nf
