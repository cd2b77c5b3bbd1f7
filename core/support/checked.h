// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace nf {

// 64-bit arithmetic of extents and addresses. nullopt: the result does not fit.
inline std::optional<std::int64_t> checkedAdd(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::int64_t> checkedSub(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::int64_t> checkedMul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::int64_t> checkedProduct(std::span<const std::int64_t> factors) {
  std::int64_t r = 1;
  for (const std::int64_t f : factors)
    if (__builtin_mul_overflow(r, f, &r)) return std::nullopt;
  return r;
}

// Division that rounds towards minus infinity, and its remainder in [0, d), for d > 0.
inline std::int64_t floorDiv(std::int64_t a, std::int64_t d) { return a / d - (a % d < 0 ? 1 : 0); }
inline std::int64_t floorMod(std::int64_t a, std::int64_t d) { return a % d < 0 ? a % d + d : a % d; }
inline std::int64_t ceilDiv(std::int64_t a, std::int64_t d) { return a / d + (a % d > 0 ? 1 : 0); }

}  // namespace nf
