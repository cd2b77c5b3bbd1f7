// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/eval_values.h"

#include <QStringList>
#include <algorithm>

namespace nf {

std::map<std::string, double> valuesOf(const protocol::EvalEvent& eval) {
  std::map<std::string, double> values = eval.values;
  if (eval.accuracy) values.emplace("accuracy", *eval.accuracy);
  return values;
}

bool isShare(const std::string& name, double value) { return name == "accuracy" && value >= 0 && value <= 1; }

QString evalText(const std::map<std::string, double>& values, const std::vector<std::string>& averaged) {
  QStringList parts;
  for (const auto& [name, value] : values) {
    QString text =
        isShare(name, value) ? QStringLiteral("%1 %").arg(QString::number(value * 100, 'f', 2)) : QString::number(value, 'g', 4);
    if (std::ranges::count(averaged, name) > 0) text += QStringLiteral(" (mean over batches)");
    parts << (values.size() == 1 && isShare(name, value) ? text : QString::fromStdString(name) + QLatin1Char(' ') + text);
  }
  return parts.join(QStringLiteral(", "));
}

}  // namespace nf
