// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <utility>

namespace nf {

// of, wrt of "d(of)/d(wrt)"; the number of a partial sum, "d(L)/d(T)#1", is left out. Nullopt: no derivative is named so.
inline std::optional<std::pair<std::string, std::string>> derivativeNames(const std::string& name) {
  const std::size_t middle = name.find(")/d(");
  const std::size_t end = name.rfind(')');
  if (!name.starts_with("d(") || middle == std::string::npos || end < middle + 4) return std::nullopt;
  return std::pair(name.substr(2, middle - 2), name.substr(middle + 4, end - middle - 4));
}

}  // namespace nf
