// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/device/reference_code.h"
#include "core/support/result.h"

namespace nf::reference {

// Fills in the bindings' output, unrounded. Fails where an index is outside its tensor, and where the bindings' `stop` is set.
Result<Unit> execute(const ReferenceKernel::Code& code, const ReferenceKernel::Bindings& bindings);

}  // namespace nf::reference
