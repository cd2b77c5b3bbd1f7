// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/names.h"

#include <QRegularExpression>

namespace nf {

namespace {
const QRegularExpression& derivative() {
  static const QRegularExpression form(QStringLiteral(R"(d\(([^()]+)\)/d\(([^()]+)\))"));
  return form;
}
// By what has a number: the gradient's own would stand at the same place.
const QRegularExpression& derivativeByNumbered() {
  static const QRegularExpression form(QStringLiteral(R"(d\(([^()]+)\)/d\(([^()#]+#[^()]*)\))"));
  return form;
}
// "Y and 3 more"
const QRegularExpression& countedForm() {
  static const QRegularExpression form(QStringLiteral(R"(^(.*?)( and (\d+) more)$)"));
  return form;
}
bool severalLosses = false;
}  // namespace

void setSeveralLosses(bool several) { severalLosses = several; }
bool hasSeveralLosses() { return severalLosses; }

QString derivativeText(const QString& name) {
  return QString(name)
      .replace(derivativeByNumbered(), QStringLiteral("d\\1/d(\\2)"))
      .replace(derivative(), QStringLiteral("d\\1/d\\2"));
}

QString shortName(const QString& name) {
  if (severalLosses) return derivativeText(name);
  return QString(name).replace(derivativeByNumbered(), QStringLiteral("d(\\2)")).replace(derivative(), QStringLiteral("d\\2"));
}

std::string lossOf(const std::string& tensor) {
  const auto found = derivative().match(QString::fromStdString(tensor));
  return found.hasMatch() && found.capturedStart() == 0 ? found.captured(1).toStdString() : std::string();
}

QStringList spellings(const QString& name) {
  QStringList all{name, derivativeText(name), shortName(name)};
  all.removeDuplicates();
  return all;
}

QString elidedName(const QFontMetrics& metrics, const QString& name, int width) {
  const auto counted = countedForm().match(name);
  if (!counted.hasMatch() || metrics.horizontalAdvance(name) <= width) return metrics.elidedText(name, Qt::ElideMiddle, width);
  const QString first = counted.captured(1);
  const QString count = QStringLiteral("+") + counted.captured(3);
  if (const int room = width - metrics.horizontalAdvance(QLatin1Char(' ') + count);
      room >= metrics.horizontalAdvance(first.left(1) + QChar(0x2026)))
    return metrics.elidedText(first, Qt::ElideRight, room) + QLatin1Char(' ') + count;
  return count;
}

QString kernelName(const std::string& name, int most) {
  const QString text = shortName(name);
  if (text.size() <= most) return text;
  const auto counted = countedForm().match(text);
  const QStringList parts = counted.hasMatch() ? QStringList() : text.split(QStringLiteral(" + "));
  const QString count = counted.hasMatch() ? QStringLiteral(" +") + counted.captured(3)
                        : parts.size() > 1 ? QStringLiteral(" +%1").arg(parts.size() - 1)
                                           : QString();
  QString out = counted.hasMatch() ? counted.captured(1) : parts.back();
  if (out.size() > most - 3) out = out.left(most - 4) + QChar(0x2026);
  return out + count;
}

}  // namespace nf
