// SPDX-License-Identifier: Apache-2.0
#include "core/support/hash.h"

#include <cstdio>

namespace nf {
namespace {

// Finaliser of MurmurHash3 (public domain constants): every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return x;
}

}  // namespace

Hasher& Hasher::add(std::uint64_t word) {
  ++m_count;
  m_low = mix(m_low ^ word) + 0x165667b19e3779f9ull;
  m_high = mix(m_high + word * 0x27d4eb2f165667c5ull) ^ m_low;
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < 8 && i + k < text.size(); ++k)
      word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i + k])) << (8 * k);
    add(word);
  }
  return *this;
}

Hash Hasher::finish() const { return {mix(m_low ^ m_count), mix(m_high + m_count)}; }

std::string Hash::hex() const {
  char buffer[33];
  std::snprintf(buffer, sizeof buffer, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return buffer;
}

}  // namespace nf
