// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace nf {

// 128-bit structural hash: stable between runs and machines (it is a key of the record database).
struct Hash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend auto operator<=>(const Hash&, const Hash&) = default;
  std::string hex() const;  // 32 digits
};

class Hasher {
 public:
  Hasher& add(std::uint64_t word);
  Hasher& add(std::string_view text);
  Hasher& add(const Hash& hash) { return add(hash.low).add(hash.high); }
  Hasher& addReal(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return add(bits);
  }
  Hash finish() const;

 private:
  std::uint64_t m_low = 0x9e3779b97f4a7c15ull;
  std::uint64_t m_high = 0xc2b2ae3d27d4eb4full;
  std::uint64_t m_count = 0;
};

}  // namespace nf

template <>
struct std::hash<nf::Hash> {
  std::size_t operator()(const nf::Hash& h) const noexcept { return h.low ^ (h.high * 0x9e3779b97f4a7c15ull); }
};
