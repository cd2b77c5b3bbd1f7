// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/document/document.h"
#include "core/support/hash.h"

namespace nf {

// What a killed workbench leaves behind of one notebook: the whole text and the steps that can be undone.
struct Journal {
  std::string path;  // of the notebook; empty: never saved
  Hash onDisk;       // of the file's bytes when it was read or written last
  std::uint64_t revision = 0;
  std::string text;
  History history;
};

Hash hashOf(std::string_view bytes);
std::string toBytes(const Journal& journal);
std::optional<Journal> journalFrom(std::string_view bytes);  // nullopt: torn, or no journal

// A line of a comparison, for a person who decides between two texts.
struct DiffLine {
  enum class Kind : std::uint8_t { Same, Removed, Added };
  Kind kind = Kind::Same;
  std::string text;
  friend bool operator==(const DiffLine&, const DiffLine&) = default;
};
std::vector<DiffLine> diffLines(std::string_view before, std::string_view after);

}  // namespace nf
