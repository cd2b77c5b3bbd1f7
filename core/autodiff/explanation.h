// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/autodiff/inverse.h"
#include "core/ir/rewrite.h"

namespace nf {

// The lines that invert() writes for people, gathered part by part.
struct Explanation {
  std::vector<std::string> system, solution, axes, kept, dropped, existence;
  std::size_t quotients = 0, slacks = 0;  // of the parts so far: the next ones go on counting
};

// The condition with what is known without any variable worked out.
inline IndexCond folded(const IndexCond& c) {
  return simplify(c, [](IndexVar) { return std::optional<Range>(); });
}

// Names of one part's variables; null `lines`: nobody asked.
struct PartNames {
  Explanation* lines = nullptr;
  std::vector<std::string> y, z;
  std::string t = "t";
  std::size_t firstAxis = 0;  // number of the part's axis 0 among all

  explicit operator bool() const { return lines != nullptr; }
  std::string ofY(IndexVar v) const { return y[v]; }
  std::string ofZ(IndexVar v) const {
    return v < z.size() ? z[v] : t + std::to_string(firstAxis + v - z.size());
  }  // of expressions over z and t
  std::string textY(const IndexExpr& e) const {
    return toText(e, [this](IndexVar v) { return ofY(v); });
  }
  std::string textY(const IndexCond& c) const {
    return toText(c, [this](IndexVar v) { return ofY(v); });
  }
  std::string textZ(const IndexExpr& e) const {
    return toText(e, [this](IndexVar v) { return ofZ(v); });
  }
  std::string textZ(const IndexCond& c) const {
    return toText(c, [this](IndexVar v) { return ofZ(v); });
  }
};

}  // namespace nf
