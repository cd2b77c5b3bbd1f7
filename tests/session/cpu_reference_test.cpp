// SPDX-License-Identifier: Apache-2.0
// The operators and nets of tests/data on compiled, fused CPU kernels in single precision, against PyTorch's values: outputs, loss, every
// gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/lang/compile.h"
#include "core/runtime/executable.h"
#include "core/runtime/pipeline.h"
#include "plugins/cpu/plugin.h"
#include "tests/autodiff/reference_file.h"

namespace nf {
namespace {

// Of single against double precision in PyTorch: of the loss absolute, else relative to the largest element of a tensor; the gradients' is
// the worst parameter's. PyTorch adds up a batch normalisation in double precision, and its other sums in parts.
struct Tolerance {
  double out, loss, input, gradient;
};
const std::map<std::string, Tolerance> kModels = {
    {"bert", {1.4e-07, 8.5e-08, 5.3e-07, 1.2e-06}},          {"capconv_mat", {2.5e-07, 2.0e-08, 1.6e-07, 1.4e-07}},
    {"capconv_vec", {1.4e-07, 4.0e-09, 1.2e-07, 2.4e-07}},   {"capsnet", {2.0e-07, 5.6e-08, 2.2e-07, 3.9e-07}},
    {"lltm", {1.3e-07, 4.0e-08, 1.3e-07, 9.9e-07}},          {"milstm", {1.2e-07, 6.2e-08, 1.8e-07, 1.3e-06}},
    {"mobilenet", {3.0e-07, 6.3e-08, 2.4e-07, 3.4e-06}},     {"resnet_basic", {2.0e-07, 5.1e-08, 4.2e-07, 8.5e-07}},
    {"resnet_bottle", {4.0e-07, 1.8e-07, 7.6e-07, 3.9e-06}}, {"scrnn", {8.6e-08, 3.7e-08, 1.1e-07, 1.6e-07}},
    {"shufflenet", {5.3e-07, 4.4e-08, 4.1e-07, 2.7e-06}},    {"sublstm", {1.4e-07, 8.5e-09, 1.5e-07, 2.1e-06}}};
constexpr double kAllowed = 4;          // times that: another order of the same sums
constexpr double kLastPlace = 0x1p-23;  // a result that PyTorch happens to round well has still one, relative to it
constexpr double kSmall = 0.01;         // of the parameters' largest gradient element: what a parameter's is measured by at least
constexpr double kOperatorError = 5e-07;

enum class Kind { Result, Loss, Gradient };
struct Wanted {
  std::string name;
  const test::Reference* reference;
  double tolerance;
  Kind kind = Kind::Result;  // Gradient: of a parameter
};

// `values` by tensor name; what is not there is zero (states), or 0, 1, 2, .. (integers).
void expectOnCpu(Program source, const std::map<std::string, const test::Reference*>& values, const std::vector<Wanted>& wanted) {
  source.updates.clear();
  source.outputs.clear();
  for (const Wanted& w : wanted) {
    ASSERT_TRUE(source.tensorNamed(w.name).valid()) << w.name;
    source.outputs.push_back({w.name, source.tensorNamed(w.name), OutputRole::Named});
  }
  Backend* backend = neoflowPlugin(kPluginVersion);
  const auto device = std::move(*backend->open("cpu", 1));
  const auto compiler = std::move(*backend->compiler(device->target()));
  StageOptions passes;
  passes.device = deviceConstants(device->target());
  const auto stages = runStages(std::make_shared<const Program>(std::move(source)), passes);
  ASSERT_TRUE(stages.ok());
  const Program& p = stages->last();
  auto plan = planExecution(p);
  ASSERT_TRUE(plan.ok());
  const auto store = std::make_shared<TensorStore>(*device);
  auto executable = Executable::create(*plan, *device, store);
  ASSERT_TRUE(executable.ok());
  for (std::uint32_t i = 0; i < (*plan)->subgraphs.size(); ++i) {
    const Program& subgraph = *(*plan)->subgraphs[i].program;
    const auto space = scheduleSpace(subgraph, device->target());
    ASSERT_TRUE(space.ok()) << (*plan)->subgraphs[i].name;
    const auto object = compiler->compile({subgraph, (*space)->first(), {}});
    ASSERT_TRUE(object.ok()) << (*plan)->subgraphs[i].name << ": " << object.error().message;
    auto kernel = device->link(*object);
    ASSERT_TRUE(kernel.ok()) << (*plan)->subgraphs[i].name;
    auto linked = std::make_shared<LinkedKernel>();
    linked->kernel = std::move(*kernel);
    linked->workspaceBytes = object->workspaceBytes;
    ASSERT_TRUE((*executable)->setKernel(i, std::move(linked)).ok());
  }
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    TensorStore::Entry* entry = (*executable)->entry(TensorId(t));
    if (!entry) continue;
    HostTensor host = HostTensor::make(p.tensors[t].type, p.tensors[t].shape);
    const auto given = values.find(p.tensors[t].name);
    for (std::int64_t i = 0; i < host.elements(); ++i) {
      if (given != values.end()) host.set(i, given->second->values[static_cast<std::size_t>(i)]);
      else if (p.tensors[t].type == DType::I32) host.set(i, static_cast<double>(i));
    }
    ASSERT_TRUE(store->write(*entry, host).ok());
  }
  ASSERT_TRUE((*executable)->run(1, 0).ok());
  double largestGradient = 0;
  for (const Wanted& w : wanted)
    if (w.kind == Kind::Gradient)
      for (const double g : w.reference->values) largestGradient = std::max(largestGradient, std::fabs(g));
  for (const Wanted& w : wanted) {
    const auto output = std::find_if(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.name == w.name; });
    ASSERT_NE(output, p.outputs.end()) << w.name;
    const auto got = (*executable)->read(output->tensor);
    ASSERT_TRUE(got.ok()) << w.name;
    const auto& expected = w.reference->values;
    ASSERT_EQ(static_cast<std::size_t>(got->elements()), expected.size()) << w.name;
    // A gradient that is zero but for rounding, as of a bias in front of a normalisation, is measured by the net's others.
    double largest = w.kind == Kind::Gradient ? kSmall * largestGradient : 0, worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::fabs(expected[i]));
      worst = std::max(worst, std::fabs(got->at(static_cast<std::int64_t>(i)) - expected[i]));
    }
    const double limit = std::max(kAllowed * w.tolerance * (w.kind == Kind::Loss ? 1 : largest), kLastPlace * largest);
    EXPECT_LE(worst, limit) << w.name;
  }
}

Program compiled(const std::string& file, std::map<std::string, std::string> sets = {}) {
  CompileOptions options;
  options.sets = std::move(sets);
  const CompiledNotebook notebook = compileNotebook({file, {}, test::readText(file)}, options);
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  return notebook.program;
}

class CpuOperator : public testing::TestWithParam<std::string> {};

TEST_P(CpuOperator, OutputAndGradients) {
  static const auto references = test::readReferences("ops.ref");
  const std::string prefix = GetParam() + "/";
  const Program p = compiled("ops/" + GetParam() + ".nf");
  std::map<std::string, const test::Reference*> values;
  std::vector<Wanted> wanted;
  for (const auto& [name, reference] : references) {
    if (!name.starts_with(prefix)) continue;
    const std::string local = name.substr(prefix.size());
    if (p[p.tensorNamed(local)].kind == TensorKind::Intermediate) wanted.push_back({local, &reference, kOperatorError});
    else values[local] = &reference;
  }
  ASSERT_GE(wanted.size(), 2u);
  expectOnCpu(p, values, wanted);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, CpuOperator, testing::ValuesIn(test::filesIn("ops")), [](const auto& i) { return i.param; });

// `p` holds the net `model` of models.ref under the same names.
void expectLossAndEveryGradient(Program p, const std::string& model) {
  static const auto references = test::readReferences("models.ref");
  const std::string prefix = model + "/";
  const Tolerance& tolerance = kModels.at(model);
  const TensorId L = p.tensorNamed("L");
  std::map<std::string, const test::Reference*> values;
  std::vector<Wanted> wanted;
  for (const auto& [name, reference] : references) {
    if (!name.starts_with(prefix)) continue;
    const std::string local = name.substr(prefix.size());
    if (local == "loss") {
      wanted.push_back({"L", &reference, tolerance.loss, Kind::Loss});
    } else if (local == "out") {
      wanted.push_back({"out", &reference, tolerance.out});
    } else if (local.starts_with("d(")) {
      const std::string wrt = local.substr(2, local.size() - 3);
      Tensor result = p[p.tensorNamed(wrt)];
      result.name = "d(L)/" + local;
      result.kind = TensorKind::Intermediate;
      if (!p.tensorNamed(result.name).valid()) {  // a `train` has asked for it
        const TensorId gradient = p.addTensor(result);
        p.derivatives.push_back({L, p.tensorNamed(wrt), gradient, {}, {}});
      }
      if (wrt == "in0") wanted.push_back({result.name, &reference, tolerance.input});
      else wanted.push_back({result.name, &reference, tolerance.gradient, Kind::Gradient});
    } else {
      values[local] = &reference;
    }
  }
  ASSERT_GE(wanted.size(), 4u);
  expectOnCpu(std::move(p), values, wanted);
}

class CpuModel : public testing::TestWithParam<std::string> {};

TEST_P(CpuModel, LossAndEveryGradient) { expectLossAndEveryGradient(compiled("models/" + GetParam() + ".nf"), GetParam()); }

INSTANTIATE_TEST_SUITE_P(PyTorch, CpuModel, testing::ValuesIn(test::filesIn("models")), [](const auto& i) { return i.param; });

// The benchmark's notebooks at the references' sizes: what is timed computes these numbers.
using Sets = std::map<std::string, std::string>;
const std::map<std::string, Sets> kBenchModels = {
    {"milstm", {{"B", "3"}, {"T", "4"}, {"X", "5"}, {"H", "6"}, {"N", "3"}}},
    {"sublstm", {{"B", "3"}, {"T", "4"}, {"X", "5"}, {"H", "6"}, {"N", "3"}}},
    {"lltm", {{"B", "3"}, {"T", "4"}, {"X", "5"}, {"H", "6"}, {"N", "3"}}},
    {"scrnn", {{"B", "3"}, {"T", "4"}, {"X", "5"}, {"H", "6"}, {"S", "3"}, {"N", "3"}}},
    {"capconv_vec", {{"B", "3"}, {"C", "3"}, {"H", "7"}, {"W", "6"}, {"K", "5"}, {"M", "4"}}},
    {"capconv_mat", {{"B", "3"}, {"C", "3"}, {"H", "7"}, {"W", "6"}, {"K", "4"}, {"I", "2"}, {"M", "3"}, {"J", "4"}}},
    {"capsnet", {{"B", "3"}, {"H", "12"}, {"K", "4"}, {"R", "5"}, {"Q", "3"}, {"A", "2"}, {"D", "4"}, {"N", "3"}, {"E", "5"}}}};

class BenchModel : public testing::TestWithParam<std::string> {};

TEST_P(BenchModel, LossAndEveryGradient) {
  ASSERT_TRUE(kBenchModels.contains(GetParam())) << "no sizes for it here";
  expectLossAndEveryGradient(compiled("../bench/models/" + GetParam() + ".nf", kBenchModels.at(GetParam())), GetParam());
}

INSTANTIATE_TEST_SUITE_P(PyTorch, BenchModel, testing::ValuesIn(test::filesIn("../bench/models")),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace nf
