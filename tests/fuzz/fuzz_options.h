// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "core/support/result.h"

namespace nf::testing {

struct FuzzOptions {
  double seconds = 60;  // more than 0
  std::size_t cases = std::numeric_limits<std::size_t>::max();
  std::optional<std::uint64_t> seed;  // none: another one each run
  bool secondOrder = false;
};

// The command line of neoflow-fuzz, without its name. A number is one from its first character to its last; error: what is none, or not
// in range, or an option that there is not.
Result<FuzzOptions> parseFuzzOptions(std::span<const char* const> arguments);

}  // namespace nf::testing
