// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/autodiff/inverse.h"

// Random quasi-affine accesses (design: autodiff, section 10): 1-6 variables of extents 1-7, coefficients -3..4, nested divisions
// and remainders by 2..6, clipped and enlarged tensors, guards of every kind, and the structured classes.
namespace nf::testing {

enum class AccessClass { Affine, Floor, Mod, Pair, Mixed, Guards, ConvLike, Reshape, Wide };
inline constexpr std::array kAccessClasses = {AccessClass::Affine,   AccessClass::Floor,   AccessClass::Mod,
                                              AccessClass::Pair,     AccessClass::Mixed,   AccessClass::Guards,
                                              AccessClass::ConvLike, AccessClass::Reshape, AccessClass::Wide};
std::string_view name(AccessClass c);

// Choices: from a seed, or from a fuzzer's bytes (0 where those have run out).
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : m_state(seed) {}
  explicit Choices(std::span<const std::uint8_t> bytes) : m_bytes(bytes), m_fromBytes(true) {}

  std::uint64_t word();
  int between(int lo, int hi) { return lo + static_cast<int>(word() % static_cast<std::uint64_t>(hi - lo + 1)); }
  bool chance(int percent) { return between(0, 99) < percent; }
  template <class T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<int>(choices.size()) - 1)];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(between(0, static_cast<int>(i) - 1))]);
  }

 private:
  std::uint64_t m_state = 0;
  std::span<const std::uint8_t> m_bytes;
  bool m_fromBytes = false;
};

// nullopt: the draw was too large to check by brute force.
std::optional<AccessProblem> randomAccess(AccessClass c, Choices& choices);

}  // namespace nf::testing
