// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "core/ir/program.h"

namespace nf {

// What came from `to` comes from `from`, too, by a pass; an invalid one is nothing.
inline void joinOrigins(Program& program, std::string_view pass, OriginId& to, OriginId from) {
  if (!from.valid() || to == from) return;
  to = to.valid() ? program.derivedOrigin(pass, {to, from}) : from;
}

}  // namespace nf
