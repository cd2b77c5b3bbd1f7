// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/step_chooser.h"

#include <QSignalBlocker>

namespace nf {

StepChooser::StepChooser(QWidget* parent) : QComboBox(parent) {
  setAccessibleName(tr("Training whose step is shown"));
  setToolTip(tr("Of which training graph, decisions, kernels and trials are; the one that was begun last is chosen by itself"));
  setProperty("flat", true);
  setSizeAdjustPolicy(QComboBox::AdjustToContents);
  connect(this, &QComboBox::activated, this, &StepChooser::chosen);
  hide();
}

void StepChooser::setTrains(const QStringList& losses, int current) {
  const QSignalBlocker blocker(this);
  QStringList names;
  for (qsizetype i = 0; i < losses.size(); ++i)
    names << (losses.count(losses[i]) > 1 ? tr("step of %1, train %2").arg(losses[i]).arg(i + 1) : tr("step of %1").arg(losses[i]));
  bool same = names.size() == count();
  for (int i = 0; same && i < count(); ++i) same = itemText(i) == names[i];
  if (!same) {
    clear();
    addItems(names);
  }
  setCurrentIndex(current);
  setVisible(losses.size() > 1);
}

}  // namespace nf
