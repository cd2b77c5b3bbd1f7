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

}  // namespace nf
