// SPDX-License-Identifier: Apache-2.0
#include "core/device/moved_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/lang/compile.h"

namespace nf {
namespace {

// A sum that is 0 but for rounding: what single precision makes of it is within how far it moves, a sum that lacks a term is not.
TEST(MovedReference, ASumThatCancelsMovesByWhatItIsMadeOf) {
  const CompiledNotebook notebook =
      compileNotebook({"test.nf", "", "input X[64]\nM = mean[i] X[i]\nD[i] = X[i] - M\nS = sum[i] D[i]\nshow S\n"});
  ASSERT_TRUE(notebook.ok());
  const Program& p = notebook.program;
  const TensorId s = notebook.tensorNamed("S");
  TensorData x{DType::F32, {64}, {}};
  float mean = 0;
  for (int i = 0; i < 64; ++i) {
    x.values.push_back(static_cast<float>(3 + std::sin(1.0 + i)));
    mean += static_cast<float>(x.values.back()) / 64;
  }
  float sum = 0, without = 0;
  for (int i = 0; i < 64; ++i) {
    sum += static_cast<float>(x.values[i]) - mean;
    if (i != 63) without = sum;
  }
  const TensorValues inputs{{notebook.tensorNamed("X"), x}};
  const auto moved = MovedReference::prepare(p, {s}, Storage::Rounded);
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  std::mt19937_64 random(1);
  double most = 0;
  for (int n = 0; n < 3; ++n) {
    const auto values = moved->run(inputs, 1, 0x1p-20, random);
    ASSERT_TRUE(values.ok()) << values.error().message;
    most = std::max(most, std::fabs(values->at(s).values[0]));
  }
  EXPECT_LE(std::fabs(sum), 2 * most);
  EXPECT_GT(std::fabs(without), 100 * most);
  const auto still = moved->run(inputs, 1, 0, random);
  ASSERT_TRUE(still.ok());
  EXPECT_NEAR(still->at(s).values[0], 0, 1e-12);
}

}  // namespace
}  // namespace nf
