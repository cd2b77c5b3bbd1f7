// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/names.h"

#include <QRegularExpression>

namespace nf {

namespace {
const QRegularExpression& derivative() {
  static const QRegularExpression form(QStringLiteral(R"(d\(([^()]+)\)/d\(([^()]+)\))"));
  return form;
}
}  // namespace

QString derivativeText(const QString& name) { return QString(name).replace(derivative(), QStringLiteral("d\\1/d\\2")); }

QString shortName(const QString& name) { return QString(name).replace(derivative(), QStringLiteral("d\\2")); }

QString elidedName(const QFontMetrics& metrics, const QString& name, int width) {
  static const QRegularExpression form(QStringLiteral(R"(^(.*?)( and (\d+) more)$)"));
  const auto counted = form.match(name);
  if (!counted.hasMatch() || metrics.horizontalAdvance(name) <= width) return metrics.elidedText(name, Qt::ElideMiddle, width);
  const QString first = counted.captured(1);
  for (const QString& count : {counted.captured(2), QStringLiteral(" +") + counted.captured(3)})
    if (const int room = width - metrics.horizontalAdvance(count); room >= metrics.horizontalAdvance(first.left(1) + QChar(0x2026)))
      return metrics.elidedText(first, Qt::ElideRight, room) + count;
  return QStringLiteral("+") + counted.captured(3);
}

QString kernelName(const std::string& name, int most) {
  const QString text = shortName(name);
  if (text.size() <= most) return text;
  const QStringList parts = text.split(QStringLiteral(" + "));
  QString out = parts.front();
  if (out.size() > most - 3) out = out.left(most - 4) + QChar(0x2026);
  if (parts.size() > 1) out += QStringLiteral(" +%1").arg(parts.size() - 1);
  return out;
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
