// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace nf {

// A typed index into one flat pool. Ids of different pools do not mix; a default id names nothing.
template <class Tag>
struct Id {
  static constexpr std::uint32_t kNone = 0xffffffffu;
  std::uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}
  constexpr bool valid() const { return value != kNone; }
  constexpr explicit operator bool() const { return valid(); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

}  // namespace nf

template <class Tag>
struct std::hash<nf::Id<Tag>> {
  std::size_t operator()(nf::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
