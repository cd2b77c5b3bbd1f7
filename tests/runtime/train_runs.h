// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/runtime/train.h"

// Runs of notebooks on the interpreter, and what they send.
namespace nf::runs {

inline constexpr const char* kDigits = R"(
let B = 32
data D = digits { split = last 360 }
input X[B, 64] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]
param W[10, 64] = normal(0, 0.05)
Z[b, n] = sum[k] X[b, k] * W[n, k]
loss L = mean[b, n] (Z[b, n] - select(y[b] == n, 1, 0))^2
eval accuracy = mean[b] (argmax[n] Z[b, n] == y[b])
train L { epochs = 1; batch = 32; optimizer = adam(lr=1e-2); mode = static; seed = 3 }
)";

inline std::unique_ptr<DeviceContext> interpreter() {
  BackendRegistry none;
  auto context = DeviceContext::open(none, {.device = "reference"});
  EXPECT_TRUE(context.ok());
  return std::move(*context);
}

inline TrainOptions optionsFor(const std::string& text) {
  TrainOptions o;
  o.source = {"test.nf", "", text};
  o.verify = true;
  return o;
}

template <class T>
std::vector<T> only(const std::vector<protocol::Message>& messages) {
  std::vector<T> found;
  for (const auto& m : messages)
    if (const T* t = std::get_if<T>(&m)) found.push_back(*t);
  return found;
}

}  // namespace nf::runs
