// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/autodiff/differentiate.h"
#include "core/device/reference.h"
#include "core/ir/verify.h"
#include "tests/build_program.h"

namespace nf::test {

inline Program differentiated(const Program& program, bool clean = true) {
  auto result = differentiate(program);
  EXPECT_TRUE(result.ok());
  if (clean) {
    for (const Diagnostic& d : result->diagnostics)
      if (d.severity == Severity::Error) ADD_FAILURE() << d.code << ": " << d.message;
    for (const std::string& problem : verify(result->program, Stage::Differentiated)) ADD_FAILURE() << problem;
  }
  return result->program;
}

inline TensorValues inputsFor(const Program& p, std::mt19937_64& rng) {
  TensorValues values;
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind != TensorKind::Intermediate && isFloating(p.tensors[t].type))
      values[TensorId(t)] = randomData(p.tensors[t], rng);
  return values;
}

inline TensorValues values(const Program& p, const TensorValues& inputs, std::vector<TensorId> outputs) {
  InterpretOptions options;
  options.outputs = std::move(outputs);
  auto result = interpret(p, inputs, options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : TensorValues{};
}

// Every pending derivative against central differences in double precision (GC: step 1e-6, atol 1e-5, rtol 1e-3; here 1e-6 relative).
// Points beyond `most` a tensor are left out, evenly.
inline void checkAgainstDifferences(const Program& source, TensorValues inputs, double tolerance = 1e-6, std::size_t most = 64) {
  const Program made = differentiated(source);
  for (const Derivative& d : source.derivatives) {
    const TensorValues got = values(made, inputs, {d.result});
    if (!got.contains(d.result)) return;
    const std::vector<double>& gradient = got.at(d.result).values;
    std::vector<double> seed{1};
    if (d.seed.valid())
      seed = inputs.contains(d.seed) ? inputs.at(d.seed).values : values(made, inputs, {d.seed}).at(d.seed).values;
    auto prepared = ReferenceProgram::prepare(made, {d.of});
    ASSERT_TRUE(prepared.ok());
    ASSERT_TRUE(inputs.contains(d.wrt));
    std::vector<double>& x = inputs.at(d.wrt).values;
    ASSERT_EQ(gradient.size(), x.size());
    const std::size_t step = std::max<std::size_t>(1, x.size() / most);
    for (std::size_t i = 0; i < x.size(); i += step) {
      const double at = x[i], h = 1e-6;
      x[i] = at + h;
      const auto up = prepared->run(inputs);
      x[i] = at - h;
      const auto down = prepared->run(inputs);
      x[i] = at;
      ASSERT_TRUE(up.ok() && down.ok());
      double slope = 0;
      const auto& a = up->at(d.of).values;
      const auto& b = down->at(d.of).values;
      for (std::size_t k = 0; k < a.size(); ++k) slope += seed[k] * (a[k] - b[k]) / (2 * h);
      EXPECT_NEAR(gradient[i], slope, tolerance * (1 + std::fabs(slope))) << source[d.result].name << " at " << i;
    }
  }
}

}  // namespace nf::test
