// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>

namespace nf {

// Whether the newest run of this notebook left a checkpoint, of its own or the one it was resumed from. True too where no run is seen: an
// engine on another machine knows better.
bool newestRunResumes(const QString& notebook);

}  // namespace nf
