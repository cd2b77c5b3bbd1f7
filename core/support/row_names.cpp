// SPDX-License-Identifier: Apache-2.0
#include "core/support/row_names.h"

#include <algorithm>
#include <map>
#include <set>

namespace nf {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The first `columns` characters.
std::string firstOf(const std::string& text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (!continues(text[at]) && columns-- == 0) break;
  return text.substr(0, at);
}

std::string rowName(const RowName& row, bool shared, std::size_t digits, std::size_t width) {
  const bool cut = columnsOf(row.name) > width;
  if (!cut && !shared) return row.name;
  const std::string tail = row.id.empty() ? "" : " #" + row.id.substr(0, digits);
  const std::size_t room = width - std::min(columnsOf(tail), width);
  if (columnsOf(row.name) <= room) return row.name + tail;
  return firstOf(row.name, room > 0 ? room - 1 : 0) + "\u2026" + tail;
}

}  // namespace

std::size_t columnsOf(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string padded(std::string text, std::size_t width) {
  if (const std::size_t columns = columnsOf(text); columns < width) text.append(width - columns, ' ');
  return text;
}

std::vector<std::string> rowNames(const std::vector<RowName>& rows, std::size_t width) {
  width = std::max<std::size_t>(width, 16);
  std::map<std::string, std::size_t> count;
  std::size_t longest = 4;
  for (const RowName& row : rows) {
    ++count[row.name];
    longest = std::max(longest, row.id.size());
  }
  for (std::size_t digits = 4;; digits += 4) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const RowName& row : rows) {
      names.push_back(rowName(row, count[row.name] > 1, digits, std::max(width, digits + 8)));
      seen.insert(names.back());
    }
    if (seen.size() == rows.size() || digits >= longest) return names;
  }
}

}  // namespace nf
