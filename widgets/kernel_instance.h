// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>

#include "core/protocol/values.h"

namespace nf {

// One of the places that a kernel is used in: what it came from in the source, and the name of what it computes there.
struct KernelInstance {
  protocol::Origins origins;
  QString name;
  bool operator==(const KernelInstance&) const = default;
};

}  // namespace nf
