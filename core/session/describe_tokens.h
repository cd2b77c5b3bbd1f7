// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/lang/compile.h"
#include "core/protocol/values.h"
#include "core/session/origin_spans.h"

namespace nf {

// What a click into the text of a notebook without mistakes selects, in the order of the text, the longer first; one for each place.
std::vector<protocol::TokenInfo> describeTokens(const CompiledNotebook& notebook, const OriginSpans& spans);

// The places in the functions of the notebook that its calls wrote out, in the order of the text.
std::vector<protocol::ExpansionInfo> describeExpansions(const CompiledNotebook& notebook, const OriginSpans& spans);

}  // namespace nf
