// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// A Program as JSON, origins included: what crosses the pipe to a worker. Equal programs give equal text.
nlohmann::json toJson(const Program& program);
Result<Program> programFromJson(const nlohmann::json& json);

}  // namespace nf
