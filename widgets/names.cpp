// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/names.h"

#include <QRegularExpression>

namespace nf {

namespace {
const QRegularExpression& derivative() {
  static const QRegularExpression form(QStringLiteral(R"(d\(([^()]+)\)/d\(([^()]+)\))"));
  return form;
}
// "Y and 3 more"
const QRegularExpression& countedForm() {
  static const QRegularExpression form(QStringLiteral(R"(^(.*?)( and (\d+) more)$)"));
  return form;
}
}  // namespace

QString derivativeText(const QString& name) { return QString(name).replace(derivative(), QStringLiteral("d\\1/d\\2")); }

QString shortName(const QString& name) { return QString(name).replace(derivative(), QStringLiteral("d\\2")); }

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
  QString out = counted.hasMatch() ? counted.captured(1) : parts.front();
  if (out.size() > most - 3) out = out.left(most - 4) + QChar(0x2026);
  return out + count;
}

QStringList kernelNames(const std::vector<std::string>& names, int most) {
  QStringList out;
  std::vector<QStringList> parts;
  for (const std::string& name : names) {
    out << kernelName(name, most);
    parts.push_back(shortName(name).split(QStringLiteral(" + ")));
  }
  const QStringList plain = out;
  for (qsizetype i = 0; i < out.size(); ++i) {
    if (plain.count(plain[i]) < 2) continue;
    const auto& own = parts[static_cast<std::size_t>(i)];
    for (const QString& part : own) {
      bool shared = false;
      for (qsizetype k = 0; k < out.size(); ++k)
        shared = shared || (k != i && plain[k] == plain[i] && parts[static_cast<std::size_t>(k)].contains(part));
      if (shared) continue;
      out[i] = part.size() > most ? part.left(most - 1) + QChar(0x2026) : part;
      if (own.size() > 1) out[i] += QStringLiteral(" +%1").arg(own.size() - 1);
      break;
    }
  }
  return out;
}

}  // namespace nf
