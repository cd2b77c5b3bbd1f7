// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// Values of one tensor as the double-precision oracle holds them: row-major, i32 as exact doubles, nothing rounded to `type`.
struct TensorData {
  DType type = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

using TensorValues = std::map<TensorId, TensorData>;

}  // namespace nf
