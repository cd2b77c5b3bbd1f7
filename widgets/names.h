// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>

namespace nf {

// Names of derivatives as one writes them by hand; other names as they are.
QString derivativeText(const QString& name);  // "dL/dW" for "d(L)/d(W)"
QString shortName(const QString& name);       // "dW", where the loss is understood
inline QString shortName(const std::string& name) { return shortName(QString::fromStdString(name)); }

}  // namespace nf
