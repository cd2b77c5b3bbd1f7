// SPDX-License-Identifier: Apache-2.0
// Training on the interpreter against losses recorded with PyTorch in double precision.
#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"
#include "tests/autodiff/reference_file.h"

namespace nf {
namespace {

// The same hash as in make_references.py.
std::vector<double> fill(const std::string& name, std::int64_t count, double scale) {
  std::uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t z = h + static_cast<std::uint32_t>(i) * 0x9E3779B1u;
    z = (z ^ (z >> 16)) * 0x85EBCA6Bu;
    z = (z ^ (z >> 13)) * 0xC2B2AE35u;
    z ^= z >> 16;
    values.push_back((static_cast<double>(z >> 8) / 16777216.0 - 0.5) * scale);
  }
  return values;
}

TEST(GraphTraining, DigitsCapsuleNetFollowsPyTorchForTwentySteps) {
  const CompiledNotebook notebook = compileNotebook({"digits_capsnet.nf", {}, test::readText("digits_capsnet.nf")});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  const Program p = test::differentiated(notebook.program);
  const std::string bytes = test::readText("digits_320.bytes");
  ASSERT_EQ(bytes.size(), 320u * 65u);
  std::istringstream recorded(test::readText("digits_losses.txt"));

  const std::map<std::string, double> scales{{"F1", 1.0}, {"b1", 0.25}, {"F2", 0.125}, {"b2", 0.25}, {"W", 0.5}};
  TensorValues values;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const Tensor& tensor = p.tensors[t];
    if (tensor.kind == TensorKind::Intermediate) continue;
    const auto scale = scales.find(tensor.name);
    values[TensorId(t)] = {
        tensor.type, tensor.shape,
        scale == scales.end() ? std::vector<double>(tensor.elements()) : fill(tensor.name, tensor.elements(), scale->second)};
  }
  const TensorId X = p.tensorNamed("X"), y = p.tensorNamed("y"), L = p.tensorNamed("L");
  std::vector<TensorId> outputs{L};
  for (const Update& u : p.updates) outputs.push_back(u.value);
  EXPECT_EQ(p.updates.size(), 16u);
  auto prepared = ReferenceProgram::prepare(p, outputs);
  ASSERT_TRUE(prepared.ok());
  for (std::size_t step = 0; step < 20; ++step) {
    for (std::size_t n = 0; n < 64; ++n) {
      const std::size_t row = (step % 5 * 64 + n) * 65;
      for (std::size_t k = 0; k < 64; ++k) values[X].values[n * 64 + k] = static_cast<unsigned char>(bytes[row + k]) / 16.0;
      values[y].values[n] = static_cast<unsigned char>(bytes[row + 64]);
    }
    auto result = prepared->run(values, 1, step);
    ASSERT_TRUE(result.ok()) << result.error().message;
    double expected = 0;
    ASSERT_TRUE(recorded >> expected);
    EXPECT_NEAR(result->at(L).values[0], expected, 1e-9) << "step " << step;
    for (const Update& u : p.updates) values[u.target].values = result->at(u.value).values;
  }
}

// A whole training graph: every parameter has its gradient, every access a proof, and equal accesses are solved once.
TEST(GraphTraining, ResNet50IsProvedThroughout) {
  const CompiledNotebook notebook =
      compileNotebook({"resnet50.nf", {}, test::readText("resnet50.nf") + "train L { steps = 1; optimizer = sgd(lr=0.1) }\n"});
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  InverseCache cache;
  InvertOptions options;
  options.cache = &cache;
  const auto result = differentiate(notebook.program, options);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->diagnostics.empty());
  std::size_t parameters = 0, gathers = 0;
  for (const Tensor& t : result->program.tensors) parameters += t.kind == TensorKind::Param ? 1 : 0;
  EXPECT_EQ(parameters, 161u);  // 53 convolutions, 53 normalisations of two each, a linear layer with its bias
  for (const GradientTerm& term : result->terms) {
    if (term.form == GradientTerm::Form::Zero) continue;
    const std::string name = result->program[term.tensor].name;
    if (term.form == GradientTerm::Form::Scatter) {
      EXPECT_EQ(term.why, "the index depends on data") << name;
      continue;
    }
    ++gathers;
    EXPECT_EQ(term.inverse.state, Inverse::State::Gather) << name;
  }
  EXPECT_GT(gathers, 500u);
  EXPECT_LT(cache.size() * 4, gathers);
}

}  // namespace
}  // namespace nf
