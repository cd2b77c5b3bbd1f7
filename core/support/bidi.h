// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace nf {

// Embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX #9): they show text in another order than it is read in.
constexpr bool reordersText(char32_t c) { return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069); }

// Characters of no width that text copied from pages and word processors carries; the joiners of emoji and scripts are among them.
constexpr bool isInvisible(char32_t c) {
  return c == 0xad || c == 0x180e || (c >= 0x200b && c <= 0x200f) || (c >= 0x2060 && c <= 0x2064) || c == 0xfeff;
}

}  // namespace nf
