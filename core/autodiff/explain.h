// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/autodiff/differentiate.h"

namespace nf {

// What `neoflow grad --explain` says about one term; `neoflow grad` adds "place" and, of a load cut off by a node without slope, "cut": the
// {"file", "line", "column", "length"} of the access and of that node. With InvertOptions::explain set the derivation's steps stand in it.
//
//   {"forward", "tensor", "access", "result",          names and the access as written; result: the tensor the term is part of
//    "form": "gather|scatter|zero", "why",             why: of scatter and zero
//    "certificate": {"state": "proved|checking|none|empty", "ms"},
//    "axes": [extents], "y": {"p": "z0 // 2 - t0", ..},
//    "guards": {"z": [..], "t": [..]},
//    "cost": {"points", "forward_points", "ratio"},    after hoisting the guards of z
//    "linear_system", "solution", "free_axes", "dropped_guards", "existence": [lines],
//    "derivation": [{"title", "lines"}]}
nlohmann::json explanationJson(const Program& program, const GradientTerm& term);

// The same as comment lines of the language, each starting with "# ".
std::string explanationText(const Program& program, const GradientTerm& term);

}  // namespace nf
