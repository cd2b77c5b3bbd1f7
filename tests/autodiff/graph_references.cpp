// SPDX-License-Identifier: Apache-2.0
// Operators written in the language, differentiated and interpreted, against PyTorch's values in double precision.
#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"
#include "tests/autodiff/reference_file.h"

namespace nf {
namespace {

Program compiled(const std::string& name, const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({name, {}, text});
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  for (const std::string& problem : verify(notebook.program, Stage::Source)) ADD_FAILURE() << problem;
  return notebook.program;
}

class ReferenceOperator : public testing::TestWithParam<std::string> {};

TEST_P(ReferenceOperator, OutputAndGradients) {
  static const auto references = test::readReferences("ops.ref");
  const std::string prefix = GetParam() + "/";
  const Program p = test::differentiated(compiled(GetParam() + ".nf", test::readText("ops/" + GetParam() + ".nf")));
  TensorValues inputs;
  std::vector<TensorId> outputs;
  for (const auto& [name, reference] : references) {
    if (!name.starts_with(prefix)) continue;
    const TensorId t = p.tensorNamed(name.substr(prefix.size()));
    ASSERT_TRUE(t.valid()) << name;
    ASSERT_EQ(p[t].shape, reference.shape) << name;
    if (p[t].kind == TensorKind::Intermediate) outputs.push_back(t);
    else inputs[t] = {p[t].type, reference.shape, reference.values};
  }
  ASSERT_GE(outputs.size(), 2u);
  const TensorValues got = test::values(p, inputs, outputs);
  for (const TensorId t : outputs) {
    const auto& expected = references.at(prefix + p[t].name).values;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(got.at(t).values[i], expected[i], 1e-10 * (1 + std::fabs(expected[i]))) << p[t].name << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, ReferenceOperator, testing::ValuesIn(test::filesIn("ops")),
                         [](const auto& i) { return i.param; });

class ReferenceModel : public testing::TestWithParam<std::string> {};

// Tiny versions of published nets: result, loss, and the gradient of every parameter and of the input.
TEST_P(ReferenceModel, LossAndEveryGradient) {
  static const auto references = test::readReferences("models.ref");
  const std::string prefix = GetParam() + "/";
  Program source = compiled(GetParam() + ".nf", test::readText("models/" + GetParam() + ".nf"));
  const TensorId L = source.tensorNamed("L");
  ASSERT_TRUE(L.valid());
  std::vector<std::pair<TensorId, const test::Reference*>> expected;
  std::map<std::string, const test::Reference*> given;
  for (const auto& [name, reference] : references) {
    if (!name.starts_with(prefix)) continue;
    const std::string local = name.substr(prefix.size());
    if (local == "loss") {
      expected.emplace_back(L, &reference);
    } else if (local == "out") {
      expected.emplace_back(source.tensorNamed("out"), &reference);
    } else if (local.starts_with("d(")) {
      const TensorId wrt = source.tensorNamed(local.substr(2, local.size() - 3));
      ASSERT_TRUE(wrt.valid()) << name;
      Tensor result = source[wrt];
      result.name = "d(L)/" + local;
      result.kind = TensorKind::Intermediate;
      const TensorId gradient = source.addTensor(std::move(result));
      source.derivatives.push_back({L, wrt, gradient, {}, {}});
      expected.emplace_back(gradient, &reference);
    } else {
      given[local] = &reference;
    }
  }
  const Program p = test::differentiated(source);
  TensorValues inputs;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const Tensor& tensor = p.tensors[t];
    if (tensor.kind == TensorKind::Intermediate) continue;
    const auto found = given.find(tensor.name);
    if (found != given.end()) inputs[TensorId(t)] = {tensor.type, tensor.shape, found->second->values};
    else if (tensor.kind == TensorKind::State)
      inputs[TensorId(t)] = {tensor.type, tensor.shape, std::vector<double>(static_cast<std::size_t>(tensor.elements()))};
    else if (tensor.name == "target") inputs[TensorId(t)] = {tensor.type, tensor.shape, {0, 1, 2}};
  }
  std::vector<TensorId> outputs;
  ASSERT_GE(expected.size(), 4u);  // out, loss, d(in0) and a parameter
  for (const auto& [t, reference] : expected) outputs.push_back(t);
  const TensorValues got = test::values(p, inputs, outputs);
  for (const auto& [t, reference] : expected) {
    ASSERT_EQ(got.at(t).values.size(), reference->values.size()) << p[t].name;
    double largest = 0;
    for (const double v : reference->values) largest = std::max(largest, std::fabs(v));
    for (std::size_t i = 0; i < reference->values.size(); ++i)
      ASSERT_NEAR(got.at(t).values[i], reference->values[i], 1e-9 * (1e-3 + largest)) << p[t].name << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, ReferenceModel, testing::ValuesIn(test::filesIn("models")),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace nf
