// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QStringList>

namespace nf {

// A window in a process of its own, which a test kills. Its steps are commands: open FILE, new, type TEXT, dark, hide-inspector. It
// says "kept" once everything that is unsaved stands in journals, and stays.
int windowToKill(const QStringList& steps);

}  // namespace nf
