// SPDX-License-Identifier: Apache-2.0
// Whole random programs, loops and scatters among them, against central differences; and their text, read again.
#include "core/lang/compile.h"
#include "tests/autodiff/graph_check.h"
#include "tests/autodiff/reference_file.h"
#include "tests/random_program.h"

namespace nf {
namespace {

using test::Build;
using test::var;

TEST(GraphRandom, ProgramsAgainstDifferences) {
  const bool replay = std::getenv("NF_TEST_SEED") != nullptr;
  const std::uint64_t first = test::testSeed(1), count = replay ? 1 : 60;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("replay with NF_TEST_SEED=" + std::to_string(seed));
    test::RandomProgram generator(seed);
    Build b = generator.make();
    std::vector<TensorId> parts;
    const std::vector<Output> outputs = b.p.outputs;
    for (const Output& o : outputs) {
      const auto& shape = b.p[o.tensor].shape;
      const ExprId e = b.p.unary(ScalarOp::Sin, b.load(o.tensor, {var(0), var(1)}));
      parts.push_back(b.op(o.name + "_part", {{"i", shape[0]}, {"j", shape[1]}}, 0, Reducer::Sum, e));
    }
    ExprId sum = b.load(parts[0], {});
    for (std::size_t k = 1; k < parts.size(); ++k) sum = b.add(sum, b.load(parts[k], {}));
    const TensorId L = b.op("L", {}, 0, Reducer::None, sum);
    for (const char* name : {"A", "B", "P"}) b.derivative(L, b.p.tensorNamed(name));
    test::checkAgainstDifferences(b.p, generator.inputs(b.p), 2e-5, 4);
    if (testing::Test::HasFailure()) return;
  }
}

// What `neoflow grad` prints is legal source: it compiles to a program with the same values, bit for bit.
TEST(GraphRandom, GradientTextReadsBackToTheSameValues) {
  for (const char* net : {"milstm", "scrnn", "sublstm", "lltm", "capsnet", "bert", "resnet_basic", "shufflenet", "capconv_mat"}) {
    SCOPED_TRACE(net);
    const CompiledNotebook notebook = compileNotebook({net, {}, test::readText(std::string("models/") + net + ".nf")});
    ASSERT_TRUE(notebook.ok());
    Program source = notebook.program;
    const TensorId L = source.tensorNamed("L");
    for (std::size_t t = 0, end = source.tensors.size(); t < end; ++t) {
      if (source.tensors[t].kind != TensorKind::Param) continue;
      Tensor result = source.tensors[t];
      result.name = "d(L)/d(" + result.name + ")";
      result.kind = TensorKind::Intermediate;
      const TensorId gradient = source.addTensor(std::move(result));
      source.derivatives.push_back({L, TensorId(t), gradient, {}, {}});
      source.outputs.push_back({source[gradient].name, gradient, OutputRole::Show});
    }
    const Program made = test::differentiated(source);
    const CompiledNotebook again = compileNotebook({"text", {}, toText(made)});
    ASSERT_TRUE(again.ok()) << render(again.diagnostics, again.sources);
    std::mt19937_64 rng(5);
    TensorValues ours, theirs;
    for (std::size_t t = 0; t < made.tensors.size(); ++t) {
      const Tensor& tensor = made.tensors[t];
      if (tensor.kind == TensorKind::Intermediate) continue;
      const TensorData data =
          isFloating(tensor.type) ? test::randomData(tensor, rng) : TensorData{tensor.type, tensor.shape, {0, 1, 2}};
      ours[TensorId(t)] = data;
      ASSERT_TRUE(again.program.tensorNamed(tensor.name).valid()) << tensor.name;
      theirs[again.program.tensorNamed(tensor.name)] = data;
    }
    for (const Output& o : made.outputs) {
      const TensorId t = again.program.tensorNamed(made[o.tensor].name);
      ASSERT_TRUE(t.valid()) << made[o.tensor].name;
      EXPECT_EQ(test::values(made, ours, {o.tensor}).at(o.tensor).values, test::values(again.program, theirs, {t}).at(t).values)
          << o.name;
    }
  }
}

}  // namespace
}  // namespace nf
