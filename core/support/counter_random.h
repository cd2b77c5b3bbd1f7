// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

// The generator behind ScalarOp::Random, defined once: interpreter, CPU and CUDA kernels emit this same integer arithmetic, so one
// seed gives the same numbers on every back end and at any thread count. A finaliser of SplitMix64 over a counter: two 64-bit
// multiplications a number. The key of (seed, step, stream) is constant in a launch; only `randomBits` runs per point.
namespace nf {

inline constexpr std::uint64_t kRandomIncrement = 0x9e3779b97f4a7c15ull;

inline constexpr std::uint64_t mixBits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

inline constexpr std::uint64_t randomKey(std::uint64_t seed, std::uint64_t step, std::uint64_t stream) {
  return mixBits(mixBits(mixBits(seed + kRandomIncrement) + step * kRandomIncrement) + stream * kRandomIncrement);
}

inline constexpr std::uint64_t randomBits(std::uint64_t key, std::int64_t point) {
  return mixBits(key + static_cast<std::uint64_t>(point) * kRandomIncrement);
}

// In [0, 1), a multiple of 2^-24: exact in f32 and equal in every type.
inline constexpr double randomUniform(std::uint64_t key, std::int64_t point) {
  return static_cast<double>(randomBits(key, point) >> 40) * 0x1p-24;
}

}  // namespace nf
