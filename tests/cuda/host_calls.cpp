// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/host_calls.h"

#include <gtest/gtest.h>

#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "tests/kernel_cases.h"

namespace nf::test {

HostCall callOf(const Program& p, const loop::Function& loops, const TensorValues& inputs) {
  HostCall call;
  call.workspaceBytes = loops.workspaceBytes;
  for (const auto& [id, data] : inputs) call.inputs.push_back(data);
  for (const Output& o : p.outputs) call.outputs.push_back({p[o.tensor].type, p[o.tensor].shape, {}});
  return call;
}

Result<std::vector<std::vector<double>>> interpretedOutputs(const Program& p, const loop::Function& loops,
                                                            const TensorValues& inputs) {
  const HostCall call{};  // its seed and step
  std::vector<std::vector<double>> operands;
  for (const auto& [id, data] : inputs) operands.push_back(data.values);
  for (const Output& o : p.outputs) operands.emplace_back(static_cast<std::size_t>(p[o.tensor].elements()), 0.0);
  NF_TRY([[maybe_unused]] const Unit ran, loop::interpret(loops, {&operands, {}, call.seed, call.step}));
  return std::vector(operands.begin() + static_cast<std::ptrdiff_t>(inputs.size()), operands.end());
}

void InterpretedCalls::add(const std::string& name, const Program& p, const Schedule& schedule, const Target& target,
                           std::mt19937_64& rng) {
  const auto function = lower(p, schedule, target);
  ASSERT_TRUE(function.ok()) << name << ": " << function.error().message;
  auto emitted = cuda::emit(*function);
  ASSERT_TRUE(emitted.ok()) << name << ": " << emitted.error().message;
  TensorValues inputs = randomInputs(p, rng);
  for (auto& [id, data] : inputs) {
    std::uniform_real_distribution<double> real(-3, 3);
    for (double& v : data.values) v = data.type == DType::F32 ? static_cast<float>(real(rng)) : storedAs(data.type, real(rng));
  }
  auto want = interpretedOutputs(p, *function, inputs);
  ASSERT_TRUE(want.ok()) << name << ": " << want.error().message;
  HostCall call = callOf(p, *function, inputs);
  call.emitted = std::move(*emitted);
  m_names.push_back(name);
  m_calls.push_back(std::move(call));
  m_want.push_back(std::move(*want));
}

void InterpretedCalls::runAndCompare() {
  const auto ran = runOnHost(m_calls);
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << ran.error().detail;
  for (std::size_t c = 0; c < m_calls.size(); ++c)
    for (std::size_t o = 0; o < m_want[c].size(); ++o) EXPECT_EQ(m_calls[c].outputs[o].values, m_want[c][o]) << m_names[c];
}

}  // namespace nf::test
