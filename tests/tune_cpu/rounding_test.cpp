// SPDX-License-Identifier: Apache-2.0
// The gate on real single-precision kernels whose results cancel or jump.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "core/device/reference.h"
#include "core/ir/structural_hash.h"
#include "core/lang/compile.h"
#include "core/schedule/schedule.h"
#include "core/tune/gate.h"
#include "core/tune/point_evaluator.h"
#include "plugins/cpu/plugin.h"

namespace nf {
namespace {

struct Made {
  std::shared_ptr<const Program> program;
  Hash hash;
  KernelObject object;
  std::unique_ptr<Kernel> kernel;
};

class Rounding : public ::testing::Test {
 protected:
  Rounding() : m_backend(neoflowPlugin(kPluginVersion)), m_device(std::move(*m_backend->open("cpu", 1))) {}

  // All operators of a notebook in one kernel, by its first schedule.
  Made make(const std::string& text) {
    CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
    EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
    Program& all = notebook.program;
    std::vector<OperatorId> operators;
    for (std::size_t i = 0; i < all.operators.size(); ++i) operators.push_back(OperatorId(i));
    Subgraph subgraph = SubgraphExtractor(all).extract(operators);
    Made made;
    made.program = std::make_shared<const Program>(std::move(subgraph.program));
    made.hash = subgraph.hash;
    const auto compiler = std::move(*m_backend->compiler(m_device->target()));
    const auto space = scheduleSpace(*made.program, m_device->target());
    EXPECT_TRUE(space.ok()) << (space ? "" : space.error().message);
    made.object = std::move(*compiler->compile({*made.program, (*space)->first(), {}}));
    made.kernel = std::move(*m_device->link(made.object));
    return made;
  }

  // `kernel` where `wanted` is asked for.
  GateReport check(const Made& wanted, const Made& kernel, GateLevel level) {
    const auto gate = std::move(*Gate::prepare(*m_device, wanted.program, wanted.hash));
    return gate->check(*kernel.kernel, kernel.object, level);
  }

  Backend* m_backend;
  std::unique_ptr<Device> m_device;
};

// Each with a slight mistake that must be found all the same.
const std::pair<const char*, const char*> kCancelling[] = {
    {"input x[64] = normal(0,1)\ns = sum[i] x[i]\nd[i] = x[i] - s/64\nt = sum[i] d[i]\nshow t\n",
     "input x[64] = normal(0,1)\ns = sum[i] x[i]\nd[i] = x[i] - s/63\nt = sum[i] d[i]\nshow t\n"},
    {"input x[300] = normal(0,1)\nu[i: 300] = sin(x[i]*1e-3 + i/50)\nq[i: 298] = u[i+2] - 2*u[i+1] + u[i]\nshow q\n",
     "input x[300] = normal(0,1)\nu[i: 300] = sin(x[i]*1e-3 + i/50)\nq[i: 298] = u[i+2] - 2.001*u[i+1] + u[i]\nshow q\n"},
    {"input x[50] = normal(0,1)\na[i] = sin(x[i]*12.9898)*43758.5453\nf[i] = a[i] - floor(a[i])\nshow f\n",
     "input x[50] = normal(0,1)\na[i] = sin(x[i]*12.9898)*43758.5453\nf[i] = floor(a[i]) + 1 - a[i]\nshow f\n"},
    {"input x[50] = normal(0,1)\nd[i] = 1e8 + x[i] - 1e8\nshow d\n",
     "input x[50] = normal(0,1)\nd[i] = 1e8 + x[i]*1000 - 1e8\nshow d\n"},
    {"input x[50] = normal(0,1)\nk[i] = i32(x[i]*2e9)\nshow k\n",
     "input x[50] = normal(0,1)\nk[i] = i32(x[i]*2.00001e9)\nshow k\n"},
    {"input x[40, 40] = normal(0,1)\nm[i] = mean[j] x[i,j]\nv[i] = mean[j] x[i,j]^2 - m[i]^2\nc[i,j] = 1e6 + x[i,j]\n"
     "w[i] = sqrt(mean[j] (c[i,j] - 1e6)^2 - m[i]^2)\nshow v, w\n",
     "input x[40, 40] = normal(0,1)\nm[i] = mean[j] x[i,j]\nv[i] = mean[j] x[i,j]^2 - 1.01*m[i]^2\nc[i,j] = 1e6 + x[i,j]\n"
     "w[i] = sqrt(mean[j] (c[i,j] - 1e6)^2 - m[i]^2)\nshow v, w\n"},
};

TEST_F(Rounding, WhatCancelsPassesAndWhatIsWrongDoesNot) {
  for (const auto& [right, wrong] : kCancelling)
    for (const GateLevel level : {GateLevel::Quick, GateLevel::Full}) {
      SCOPED_TRACE(right);
      const Made wanted = make(right), other = make(wrong);
      const GateReport report = check(wanted, wanted, level);
      EXPECT_TRUE(report.passed) << report.failure;
      EXPECT_FALSE(check(wanted, other, level).passed);
    }
}

// The bound holds, and where nothing cancels it is no excuse: some roundings of what is summed up.
TEST_F(Rounding, TheBoundOfARightKernelHolds) {
  std::random_device entropy;
  const std::uint64_t seed = std::getenv("NF_SEED") ? std::strtoull(std::getenv("NF_SEED"), nullptr, 10) : entropy();
  SCOPED_TRACE("NF_SEED=" + std::to_string(seed));
  std::mt19937_64 rng(seed);
  std::vector<std::string> texts{
      "input x[200] = normal(0,1)\ninput y[200] = normal(0,1)\nz[i] = exp(x[i])/(1 + exp(x[i])) - tanh(y[i])*x[i]^3\nshow z\n",
      "input x[9, 70] = normal(0,1)\ninput y[9, 70] = normal(0,1)\ns[i] = sum[j] x[i,j]*y[i,j]\np[i] = prod[j] (1 + x[i,j]/8)\n"
      "m[i] = max[j] x[i,j]\ne[i] = log(sum[j] exp(x[i,j] - m[i])) + m[i]\nshow s, p, e\n",
      "input x[150] = normal(0,1)\ninput y[150] = normal(0,1)\nq[i] = sqrt(x[i]^2 + y[i]^2) - abs(x[i])\nr[i] = x[i]^(-3) + "
      "floor(y[i]/0.2)\n"
      "c[i] = cos(9*x[i]) - sin(7*y[i])\nw[i] = select(x[i] < y[i], x[i], log(1 + y[i]^2))\nshow q, r, c, w\n",
  };
  for (const auto& pair : kCancelling) texts.emplace_back(pair.first);
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const Made made = make(text);
    std::vector<TensorId> outputs;
    std::vector<std::vector<float>> memory;
    std::vector<void*> bindings;
    auto bounds = PointEvaluator::prepare(*made.program, true, true);
    ASSERT_TRUE(bounds.ok());
    const std::vector<OperatorId> writer = producers(*made.program);
    std::uniform_real_distribution<float> uniform(-2, 2);
    std::vector<TensorId> inputs;
    for (std::size_t t = 0; t < made.program->tensors.size(); ++t)
      if (!writer[t].valid()) inputs.push_back(TensorId(t));
    for (const Output& o : made.program->outputs) outputs.push_back(o.tensor);
    memory.reserve(inputs.size() + outputs.size());
    for (const TensorId t : inputs) {
      auto& values = memory.emplace_back(static_cast<std::size_t>((*made.program)[t].elements()));
      for (float& v : values) v = uniform(rng);
      bounds->bind(t, {DType::F32, values.data()});
    }
    for (const TensorId t : outputs) memory.emplace_back(static_cast<std::size_t>((*made.program)[t].elements()));
    for (auto& m : memory) bindings.push_back(m.data());
    std::vector<std::byte> space(static_cast<std::size_t>(made.object.workspaceBytes) + 64);
    void* workspace = space.data();
    std::size_t room = space.size();
    std::align(64, static_cast<std::size_t>(made.object.workspaceBytes), workspace, room);
    LaunchArgs args;
    args.tensors = bindings;
    args.workspace = workspace;
    ASSERT_TRUE(made.kernel->launch(args).ok());
    std::int64_t finite = 0, close = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const DType type = (*made.program)[outputs[o]].type;
      const auto elements = (*made.program)[outputs[o]].elements();
      for (std::int64_t e = 0; e < elements; ++e) {
        std::int64_t work = INT64_MAX / 2;
        const auto value = bounds->value(outputs[o], e, work), error = bounds->error(outputs[o], e, work);
        ASSERT_TRUE(value && error);
        if (!std::isfinite(*error)) continue;
        const double got = readElement({type, memory[inputs.size() + o].data()}, e);
        EXPECT_LE(std::fabs(got - *value), *error) << (*made.program)[outputs[o]].name << " " << e << ": " << got << ", " << *value;
        ++finite;
        close += *error <= 1e-4 * std::max(std::fabs(*value), 1.0);
      }
    }
    EXPECT_GT(finite, 0);
    const bool plain = &text < texts.data() + 3;
    EXPECT_TRUE(!plain || close > finite * 3 / 4) << close << " of " << finite;
  }
}

}  // namespace
}  // namespace nf
