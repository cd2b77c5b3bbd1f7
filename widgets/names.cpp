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

QString kernelName(const std::string& name, int most) {
  const QString text = shortName(name);
  if (text.size() <= most) return text;
  const QStringList parts = text.split(QStringLiteral(" + "));
  QString out = parts.front();
  if (out.size() > most - 3) out = out.left(most - 4) + QChar(0x2026);
  if (parts.size() > 1) out += QStringLiteral(" +%1").arg(parts.size() - 1);
  return out;
}

}  // namespace nf
