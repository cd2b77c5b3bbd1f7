// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace nf {

// of, wrt of "d(of)/d(wrt)"; the number of a partial sum, "d(L)/d(T)#1", is left out. Nullopt: no derivative is named so.
inline std::optional<std::pair<std::string, std::string>> derivativeNames(const std::string& name) {
  const std::size_t middle = name.find(")/d(");
  const std::size_t end = name.rfind(')');
  if (!name.starts_with("d(") || middle == std::string::npos || end < middle + 4) return std::nullopt;
  return std::pair(name.substr(2, middle - 2), name.substr(middle + 4, end - middle - 4));
}

// What a gradient computes beside a reduction Y has the name of Y and one of these: Y_argmax.
inline constexpr std::array<std::string_view, 7> kBesideReduction{"_argmax", "_argmin", "_elements", "_best",
                                                                  "_ties",   "_zeros",  "_nonzero"};

}  // namespace nf
