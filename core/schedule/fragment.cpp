// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/fragment.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nf::loop {

double roundedToFragment(DType type, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  if (type != DType::F32) return storedAs(type, value);
  // Significant bits, and the exponents of the smallest normal number and of the largest as frexp has them.
  constexpr int bits = 11, least = -125, most = 128;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, least) - bits;
  const double result = std::ldexp(std::round(std::ldexp(value, -unit)), unit);
  if (std::fabs(result) >= std::ldexp(1.0, most)) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return result;
}

}  // namespace nf::loop
