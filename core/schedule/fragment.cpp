// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/fragment.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nf::loop {

double roundedToFragment(DType type, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  // Significant bits, and the exponent of the smallest normal number as frexp has it.
  const int bits = type == DType::BF16 ? 8 : 11, least = type == DType::F16 ? -13 : -125, most = type == DType::F16 ? 16 : 128;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, least) - bits;
  const double scaled = std::ldexp(value, -unit);
  const double result = std::ldexp(type == DType::F32 ? std::round(scaled) : std::nearbyint(scaled), unit);
  if (std::fabs(result) >= std::ldexp(1.0, most)) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return result;
}

}  // namespace nf::loop
