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
//    "form": "gather|scatter|zero|empty", "why",       why: of all but gather; empty: no point reads the access
//    "certificate": {"state": "proved|checking|none|empty", "ms"},
//    "axes": [extents], "y": {"p": "z0 // 2 - t0", ..},   w0, u0, .. instead of z0, t0, .. where the forward operator has such names
//    "guards": {"z": [..], "t": [..]},
//    "excluded_by": [conditions],                      of empty: what no point fulfils together
//    "cost": {"points", "forward_points", "ratio"},    after hoisting the guards of z
//    "linear_system", "solution", "free_axes", "dropped_guards", "existence": [lines],
//    "derivation": [{"title", "lines"}]}
nlohmann::json explanationJson(const Program& program, const GradientTerm& term);

// The same as comment lines of the language, each starting with "# ".
std::string explanationText(const Program& program, const GradientTerm& term);

}  // namespace nf
