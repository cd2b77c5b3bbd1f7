// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/ir/program.h"
#include "core/protocol/values.h"
#include "core/session/origin_spans.h"

namespace nf {

// An operator as typeset mathematics: out[x] = REDUCE body. A loop is what it begins with, its head, the equations of a step and what it
// keeps, with the number of the step above what a step makes. Parts beyond the depth or size that a reader could take in are an ellipsis.
std::vector<protocol::Formula> formulasOf(const Program& program, OperatorId op, const OriginSpans& spans);

}  // namespace nf
