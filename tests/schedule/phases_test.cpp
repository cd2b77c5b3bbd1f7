// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/autodiff/differentiate.h"
#include "core/device/reference.h"
#include "core/ir/verify.h"
#include "core/lang/compile.h"
#include "core/schedule/phases.h"

namespace nf::loop {
namespace {

// The operator that makes `name`, with the elementwise one behind it where there is one, as a program of its own.
Program gradientOf(const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", {}, text});
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  return differentiate(notebook.program)->program;
}

Program only(const Program& whole, const std::vector<std::string>& names) {
  Program p = whole;
  std::vector<Operator> kept;
  for (const Operator& op : p.operators)
    if (std::find(names.begin(), names.end(), op.name) != names.end()) kept.push_back(op);
  p.operators = std::move(kept);
  p.outputs = {{names.back(), p.tensorNamed(names.back()), OutputRole::Named}};
  for (Tensor& t : p.tensors)
    if (t.kind == TensorKind::Intermediate && std::find(names.begin(), names.end(), t.name) == names.end())
      t.kind = TensorKind::Input;
  return p;
}

TensorValues randomValues(const Program& p) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  TensorValues values;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].kind == TensorKind::Intermediate) continue;
    TensorData data{p.tensors[t].type, p.tensors[t].shape, std::vector<double>(static_cast<std::size_t>(p.tensors[t].elements()))};
    for (double& v : data.values) v = uniform(rng);
    values.emplace(TensorId(t), std::move(data));
  }
  return values;
}

std::vector<double> run(const Program& p, TensorId wanted, const TensorValues& values) {
  const auto prepared = ReferenceProgram::prepare(p, {wanted});
  EXPECT_TRUE(prepared.ok());
  const auto result = prepared->run(values);
  EXPECT_TRUE(result.ok());
  return result->at(wanted).values;
}

constexpr const char* kStrided =
    "input X[2, 3, 8, 9] = zeros()\ninput W[4, 3, 3, 3] = zeros()\n"
    "Y[b,k,p: 4,q: 5] = sum[c,r,s] (X[b,c,2*p+r-1,2*q+s-1] else 0) * W[k,c,r,s]\n"
    "loss L = sum[b,k,p,q] Y[b,k,p,q]^3\nshow d(L)/d(X)\n";

TEST(Phases, SplitAxesAreTheSameMemory) {
  const Program whole = only(gradientOf(kStrided), {"d(L)/d(X)"});
  const auto split = withPhases(whole);
  ASSERT_TRUE(split);
  const TensorId dX = whole.tensorNamed("d(L)/d(X)");
  EXPECT_EQ((*split)[dX].shape, (std::vector<std::int64_t>{2, 3, 4, 2, 9}));  // 9 is no whole number of classes
  const Operator& op = split->operators[0];
  EXPECT_EQ(op.axes[3].name, op.axes[2].name + "_phase");
  for (const std::string& problem : verify(*split, Stage::Differentiated)) ADD_FAILURE() << problem;
  const TensorValues values = randomValues(whole);
  EXPECT_EQ(run(whole, dX, values), run(*split, dX, values));
}

// What is read at its own place has the classes too; what is read elsewhere, or by data, reads the split tensor by quotient and remainder.
TEST(Phases, ReadersFollow) {
  const std::string text =
      "input X[8] = zeros()\nU[i: 8] = X[i // 2] * X[(i + 1) % 4]\nV[i] = U[i] * 2\nZ[i: 7] = V[i + 1]\nS = sum[i] V[i]\n"
      "show Z, S\n";
  using Shape = std::vector<std::int64_t>;
  const Program program = gradientOf(text);
  const auto split = withPhases(program);
  ASSERT_TRUE(split);
  for (const char* name : {"U", "V"}) EXPECT_EQ((*split)[split->tensorNamed(name)].shape, (Shape{2, 4})) << name;
  const TensorValues values = randomValues(program);
  for (const char* name : {"Z", "S"}) {
    const TensorId t = program.tensorNamed(name);
    EXPECT_EQ((*split)[t].shape, program[t].shape);
    EXPECT_EQ(run(program, t, values), run(*split, t, values)) << name;
  }
  const Program byData = gradientOf("input I[5]: i32 = zeros()\n" + text + "G[n] = V[I[n]]\nshow G\n");
  const auto some = withPhases(byData);
  ASSERT_TRUE(some);
  EXPECT_EQ((*some)[some->tensorNamed("U")].shape, (Shape{2, 4}));
  EXPECT_EQ((*some)[some->tensorNamed("V")].shape, (Shape{8}));
  const TensorValues more = randomValues(byData);
  EXPECT_EQ(run(byData, byData.tensorNamed("V"), more), run(*some, byData.tensorNamed("V"), more));
}

TEST(Phases, NothingToSplit) {
  EXPECT_FALSE(withPhases(gradientOf("input X[6] = zeros()\nY[i] = X[5 - i]\nshow Y\n")));
  EXPECT_FALSE(withPhases(gradientOf("input X[4] = zeros()\nY[i: 7] = X[i // 2]\nshow Y\n")));
}

}  // namespace
}  // namespace nf::loop
