// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/protocol/message.h"
#include "tests/session/engine_process.h"
#include "tests/tune/fakes.h"

namespace nf {

// A head on the bundled digits: a contraction, an elementwise chain, a row reduction, and gradients of all.
inline constexpr const char* kDigits = R"(
# %%
let B = 32
data D = digits { split = last 360 }
input X[B, 64] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]
param W[10, 64] = normal(0, 0.05)
Z[b, n] = sum[k] X[b, k] * W[n, k]
# %%
P[b, n] = tanh(Z[b, n])
loss L = mean[b, n] (P[b, n] - select(y[b] == n, 1, 0))^2
eval accuracy = mean[b] (argmax[n] Z[b, n] == y[b])
# %%
train L { epochs = 2; batch = 32; optimizer = adam(lr=1e-2); mode = dynamic; seed = 3 }
)";
inline constexpr std::uint32_t kTrainCell = 3;  // the text before the first mark is a cell

inline constexpr const char* kFormula = R"(
# %%
param w[6, 4] = normal(2, 0)
u[i, j] = w[i, j] * float(i) + float(j)
v[i, j] = u[i, j] * u[i, j]
s[i] = sum[j] v[i, j]
# %%
loss L = sum[i] s[i]
show d(L)/d(w)
)";

class EngineJobs : public ::testing::Test {
 protected:
  protocol::TrainRequest train(std::int64_t steps, const std::string& mode = {}) const {
    protocol::TrainRequest r;
    r.revision = 1;
    r.cell = kTrainCell;
    r.steps = steps;
    r.mode = mode;
    return r;
  }
  static void awaitStep(EngineProcess& engine) { engine.await<protocol::StepEvent>(); }

  fakes::Folder m_folder;
};

}  // namespace nf
