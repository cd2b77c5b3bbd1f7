// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <string>

#include "core/device/backend.h"
#include "core/device/reference.h"
#include "core/ir/program.h"

namespace nf::test {

// Small ways to write programs by hand.
struct Builder {
  Program p;
  TensorId input(const std::string& name, std::vector<std::int64_t> shape, DType type = DType::F32);
  // Output axes from the shape, reduced ones from `reduced`; `body` gets the axis variables.
  TensorId op(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int64_t> reduced, Reducer reducer,
              const std::function<ExprId(const std::vector<IndexExpr>&)>& body, DType type = DType::F32);
  ExprId at(TensorId t, const std::vector<IndexExpr>& indices);
  void output(TensorId t);
};

Target hostTarget(int threads = 1);
Backend& cpu();

// Values that stay small under products: reals in [-1, 1), i32 in [0, limit).
TensorValues randomInputs(const Program& p, std::mt19937_64& rng, int integerLimit = 4);

// Compiles the program under the schedule, runs it on the device, and compares with the reference by features.md's EQ. Empty: equal.
std::string compare(const Program& p, const Schedule& schedule, const Target& target, Device& device, std::mt19937_64& rng,
                    std::vector<std::int64_t> counters = {}, int integerLimit = 4);
std::string compareFirst(const Program& p, std::mt19937_64& rng, int threads = 1, std::vector<std::int64_t> counters = {},
                         int integerLimit = 4);

}  // namespace nf::test
