// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/support/diagnostic.h"

namespace nf::lang {

// Insertions, deletions and replacements of a byte that lead from one word to the other (Levenshtein).
inline std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The one or two of `others` that `name` may have been meant for. A name of two letters may have been meant for one of its letters where
// only one of the two is a name: `nn` for `n`.
inline std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& others) {
  if (name.size() > 60) return {};
  std::vector<std::pair<std::size_t, std::string>> near;
  const std::size_t allowed = name.size() < 3 ? 0 : name.size() < 5 ? 1 : 2;
  for (const std::string& other : others) {
    if (other.size() > name.size() + allowed || other.size() + allowed < name.size()) continue;
    const std::size_t d = editDistance(name, other);
    const bool sameLetters = std::equal(name.begin(), name.end(), other.begin(), other.end(),
                                        [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
    const auto [mine, theirs] = std::mismatch(name.begin(), name.end(), other.begin(), other.end());
    const bool turned = name.size() == other.size() && name.end() - mine > 1 && mine[0] == theirs[1] && mine[1] == theirs[0] &&
                        std::equal(mine + 2, name.end(), theirs + 2);  // neighbours in each other's place
    if (sameLetters || turned || d <= allowed || (d == 1 && name.size() > 1)) near.emplace_back(turned ? 1 : d, other);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::vector<std::string> best;
  if (near.empty() && name.size() == 2) {
    for (const std::string& other : others)
      if (other.size() == 1 && name.find(other) != std::string_view::npos && (best.empty() || best.front() != other))
        best.push_back(other);
    return best.size() == 1 ? best : std::vector<std::string>();
  }
  for (const auto& [d, other] : near)
    if (best.size() < 2) best.push_back(other);
  return best;
}

// The fixes that put them in place of what `span` holds.
inline void suggest(Diagnostic& diagnostic, std::string_view name, const std::vector<std::string>& others, Span span) {
  for (const std::string& near : nearest(name, others)) diagnostic.fixes.push_back({"write `" + near + "`", span, near});
}

}  // namespace nf::lang
