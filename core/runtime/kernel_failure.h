// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/runtime/execution_plan.h"
#include "core/support/result.h"
#include "core/support/span.h"

namespace nf {

// Why a subgraph of the plan has no kernel, in words about the notebook: the kernel's name, and where the gate refused it what helps.
// `place`: of the operator that it is about, in the source.
Error missingKernel(const ExecutionPlan& plan, std::uint32_t subgraph, const Error& why, Span& place);

}  // namespace nf
