// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

#include "core/device/reference_code.h"
#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf::reference {

// Fills in the code of an operator, a Gather or Scatter. trips: of the loops around, outermost first, as far as they are known.
Result<Unit> prepare(const Program& program, const Operator& op, bool training, std::span<const std::int64_t> trips,
                     ReferenceKernel::Code& code);

}  // namespace nf::reference
