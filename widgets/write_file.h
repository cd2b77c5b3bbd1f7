// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <string_view>

namespace nf {

// All of it or, with what went wrong, nothing: the file is what it was. Empty: written.
QString writeWhole(const QString& path, std::string_view bytes);

}  // namespace nf
