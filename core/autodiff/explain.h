// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/autodiff/differentiate.h"
#include "core/support/span.h"

namespace nf {

// What `neoflow grad --explain` says about one term; `neoflow grad` adds "place" and, of a load cut off by a node without slope, "cut": the
// {"file", "line", "column", "length"} of the access and of that node. With InvertOptions::explain set the derivation's steps stand in it.
//
//   {"forward", "tensor", "access", "result",          names; access: in normal form; result: the tensor the term is part of
//    "written",                                        the access as it stands in the source; "": as "access" but for spaces
//    "form": "gather|scatter|zero|empty", "why",       why: of all but gather; empty: no point reads the access
//    "certificate": {"state": "proved|checking|none|empty", "ms"},
//    "axes": [extents], "y": {"p": "z0 // 2 - t0", ..},   w0, u0, .. instead of z0, t0, .. where the forward operator has such names
//    "guards": {"z": [..], "t": [..]},
//    "excluded_by": [conditions],                      of empty: what no point fulfils together
//    "cost": {"points", "forward_points", "ratio"},    after hoisting the guards of z
//    "linear_system", "solution", "free_axes", "dropped_guards", "existence": [lines],
//    "derivation": [{"title", "lines"}]}
// An access that is in no operator, since its condition leaves it no point, has an entry of the same keys, form "empty", from `neoflow grad`.
nlohmann::json explanationJson(const Program& program, const GradientTerm& term, const SourceMap& sources);

// The same as comment lines of the language, each starting with "# ".
std::string explanationText(const Program& program, const GradientTerm& term, const SourceMap& sources);

// The term's access in normal form, with the names of its operator's axes and of the loops around; of a term without one its tensor.
std::string accessText(const Program& program, const GradientTerm& term);

// The text of the term's access in the source, on one line, where it differs from its normal form by more than spaces; else empty.
// Indices are kept in normal form: `p*2 + r` is `2*p + r`, and the proof is of both.
std::string accessAsWritten(const Program& program, const GradientTerm& term, const SourceMap& sources);

// A note for each access whose part of a gradient is 0 by rule while others are not, at its place: what a node without slope cuts off
// within `notebook`; functions of the library mean theirs. A gradient that is 0 as a whole has a warning from differentiate().
Diagnostics zeroParts(const DifferentiateResult& differentiated, const SourceMap& sources, SourceId notebook);

}  // namespace nf
