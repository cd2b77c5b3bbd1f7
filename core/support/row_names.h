// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace nf {

struct RowName {
  std::string name;
  std::string id;  // letters and digits that tell rows of one name apart, as many as it needs; a hash in hexadecimal
};

// What the rows of a table are called, each at most `width` columns wide (at least 16): a name that is longer is cut, and one that was
// cut or is another row's too ends in as much of its id as tells all rows apart.
//   "Votes + d(L)/d(Votes) + d(L)/d(W)"     "Votes + d(L)/d(Vo\u2026 #5e07"
std::vector<std::string> rowNames(const std::vector<RowName>& rows, std::size_t width);

// `text` and spaces behind it, up to `width` columns.
std::string padded(std::string text, std::size_t width);
// Characters, which a terminal shows in a column each.
std::size_t columnsOf(const std::string& text);

}  // namespace nf
