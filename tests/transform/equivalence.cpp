// SPDX-License-Identifier: Apache-2.0
// Every transformation against the interpreter on random programs: the outputs keep their values (EQ, in double precision).
#include <gtest/gtest.h>

#include <cmath>

#include "core/device/reference.h"
#include "core/ir/verify.h"
#include "core/transform/hoist_loops.h"
#include "core/transform/merge_equal_operators.h"
#include "core/transform/remove_dead_operators.h"
#include "core/transform/simplify_scalars.h"
#include "core/transform/unroll_loops.h"
#include "tests/random_program.h"

namespace nf {
namespace {

using Pass = std::function<Result<Program>(const Program&)>;

struct Named {
  const char* name;
  Pass pass;
};

const std::vector<Named>& passes() {
  static const std::vector<Named> all{
      {"removeDeadOperators", [](const Program& p) { return removeDeadOperators(p); }},
      {"mergeEqualOperators", [](const Program& p) { return mergeEqualOperators(p); }},
      {"simplifyScalars", [](const Program& p) { return simplifyScalars(p); }},
      {"unrollLoops", [](const Program& p) { return unrollLoops(p); }},
      {"hoistLoops", [](const Program& p) { return hoistLoops(p); }},
      {"all",
       [](const Program& p) -> Result<Program> {
         NF_TRY(const Program a, hoistLoops(p));
         NF_TRY(const Program b, simplifyScalars(a));
         NF_TRY(const Program c, mergeEqualOperators(b));
         NF_TRY(const Program d, hoistLoops(c));
         NF_TRY(const Program e, unrollLoops(d, 2));
         return removeDeadOperators(e);
       }},
  };
  return all;
}

// Outputs by name; inputs are bound by name, since passes renumber tensors.
std::map<std::string, std::vector<double>> outputsOf(const Program& p, const std::map<std::string, TensorData>& inputs) {
  InterpretOptions options;
  TensorValues values;
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (const auto found = inputs.find(p.tensors[t].name); found != inputs.end() && p.tensors[t].kind != TensorKind::Intermediate)
      values[TensorId(t)] = found->second;
  for (const Output& o : p.outputs) options.outputs.push_back(o.tensor);
  const auto result = interpret(p, values, options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  std::map<std::string, std::vector<double>> named;
  if (result.ok())
    for (const Output& o : p.outputs) named[o.name] = result->at(o.tensor).values;
  return named;
}

void expectEqual(const std::map<std::string, std::vector<double>>& a, const std::map<std::string, std::vector<double>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    const auto& other = b.at(name);
    ASSERT_EQ(values.size(), other.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], other[i], 1e-12 * (1 + std::fabs(values[i]))) << name << " at " << i;
  }
}

TEST(Equivalence, RandomPrograms) {
  const char* given = std::getenv("NF_TEST_SEED");
  const std::uint64_t first = test::testSeed(1), count = given ? 1 : 200;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    test::RandomProgram generator(seed);
    const test::Build b = generator.make();
    ASSERT_TRUE(verify(b.p, Stage::Source).empty()) << "NF_TEST_SEED=" << seed << " " << verify(b.p, Stage::Source).front();
    std::map<std::string, TensorData> inputs;
    for (const auto& [t, data] : generator.inputs(b.p)) inputs[b.p[t].name] = data;
    const auto expected = outputsOf(b.p, inputs);
    for (const Named& pass : passes()) {
      SCOPED_TRACE(std::string(pass.name) + ", replay with NF_TEST_SEED=" + std::to_string(seed));
      const auto made = pass.pass(b.p);
      ASSERT_TRUE(made.ok()) << made.error().message;
      const auto problems = verify(*made, Stage::Source);
      ASSERT_TRUE(problems.empty()) << problems.front();
      expectEqual(expected, outputsOf(*made, inputs));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nf
