// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/device/reference.h"
#include "core/ir/program.h"
#include "core/schedule/schedule.h"

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

// A program of one kernel.
struct Case {
  std::string name;
  Program program;
};
Program gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType left = DType::F32, DType right = DType::F32);
std::vector<Case> contractions();  // in every shape the examples use
// The same with inputs in these types, in turns.
std::vector<Case> contractions(const std::vector<DType>& types);
std::vector<Case> nests();  // reductions, elementwise operators, chains of both that share rows, a scatter

// NF_SEED=n replays a printed one.
std::uint64_t freshSeed();

// Values that stay small under products: reals in [-1, 1), i32 in [0, limit).
TensorValues randomInputs(const Program& p, std::mt19937_64& rng, int integerLimit = 4);

// The loops of the schedule, verified, interpreted and compared with the reference's answer. Empty: equal.
std::string compareLoops(const Program& p, const Schedule& schedule, const Target& target, const TensorValues& inputs,
                         const Result<TensorValues>& want, std::span<const std::int64_t> counters);

}  // namespace nf::test
