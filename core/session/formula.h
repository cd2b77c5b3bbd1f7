// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/protocol/values.h"
#include "core/session/origin_spans.h"

namespace nf {

// An operator as typeset mathematics: out[x] = REDUCE body. Parts beyond the depth or size that a reader could take in are an ellipsis.
protocol::Formula formulaOf(const Program& program, OperatorId op, const OriginSpans& spans);

}  // namespace nf
