// SPDX-License-Identifier: Apache-2.0
#include "core/ir/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace nf {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, kDTypeCount> kNames{{{DType::F32, "f32"},
                                                                              {DType::F64, "f64"},
                                                                              {DType::F16, "f16"},
                                                                              {DType::BF16, "bf16"},
                                                                              {DType::I32, "i32"},
                                                                              {DType::Bool, "bool"},
                                                                              {DType::I64, "i64"}}};

}  // namespace

std::string_view name(DType type) { return kNames[static_cast<std::size_t>(type)].second; }

std::optional<DType> dtypeNamed(std::string_view name) {
  for (const auto& [type, spelling] : kNames)
    if (spelling == name && type != DType::I64) return type;
  return std::nullopt;
}

std::int64_t bytesOf(DType type) {
  switch (type) {
    case DType::F32: return 4;
    case DType::F64: return 8;
    case DType::F16: return 2;
    case DType::BF16: return 2;
    case DType::I32: return 4;
    case DType::Bool: return 1;
    case DType::I64: return 8;
  }
  return 0;
}

double storedAs(DType type, double value) {
  const bool half = type == DType::F16;
  if ((!half && type != DType::BF16) || value == 0 || !std::isfinite(value)) return value;
  // Significant bits, and the exponents of the smallest normal number and of the largest as frexp has them.
  const int bits = half ? 11 : 8, least = half ? -13 : -125, most = half ? 16 : 128;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, least) - bits;
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(result) >= std::ldexp(1.0, most)) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return result;
}

}  // namespace nf
