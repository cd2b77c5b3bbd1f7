// SPDX-License-Identifier: Apache-2.0
// A derived gradient that is printed, copied and run gives the numbers of the derivative it was printed from.
#include "core/runtime/gradient_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/runtime/data_file.h"
#include "core/runtime/run.h"

namespace nf {
namespace {

struct Case {
  std::string name, text, of;
  std::map<std::string, std::string> sets;
  bool alone = false;
};

std::unique_ptr<DeviceContext> interpreter() {
  BackendRegistry none;
  return std::move(*DeviceContext::open(none, {.device = "reference"}));
}

std::vector<double> valueOf(DeviceContext& context, const std::string& text, const std::string& tensor,
                            const std::map<std::string, std::string>& sets) {
  RunOptions o;
  o.source = {"test.nf", NF_SOURCE_DIR "/examples", text};
  o.sets = sets;
  o.tensors = {tensor};
  o.seed = 5;
  o.training = true;
  RunJob job(context, o);
  const auto prepared = job.prepare({});
  EXPECT_TRUE(prepared.ok()) << prepared.error().message << "\n" << text;
  if (!prepared || !*prepared) return {};
  const auto ran = job.run();
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  const auto value = job.tensor(tensor);
  if (!value) return ADD_FAILURE() << value.error().message, std::vector<double>{};
  std::vector<double> values(static_cast<std::size_t>(value->elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value->at(static_cast<std::int64_t>(i));
  return values;
}

class GradientTextTest : public testing::TestWithParam<Case> {};

TEST_P(GradientTextTest, IsRunAsPrinted) {
  const auto context = interpreter();
  const Case& c = GetParam();
  CompileOptions compile;
  compile.sets = c.sets;
  const CompiledNotebook notebook = compileNotebook({"test.nf", NF_SOURCE_DIR "/examples", c.text}, compile);
  ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  const TensorId of = notebook.tensorNamed(c.of);
  ASSERT_TRUE(of.valid());
  int params = 0;
  for (std::size_t t = 0; t < notebook.program.tensors.size(); ++t) {
    if (notebook.program.tensors[t].kind != TensorKind::Param) continue;
    const std::string param = notebook.program.tensors[t].name;
    const auto made = gradientText(notebook, of, TensorId(t), {}, compile);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->whole, c.alone) << made->text;
    const std::string name = made->differentiated.program[made->result].name;
    const std::string printed = made->whole ? made->text : c.text + "\n# %%\n" + made->text;
    if (!made->whole) {
      const CompiledNotebook both = compileNotebook({"test.nf", NF_SOURCE_DIR "/examples", printed}, compile);
      for (const Symbol& s : notebook.symbols)
        if (s.tensor.valid() && !s.inside) {
          EXPECT_EQ(both.tensorNamed(s.name), s.tensor) << s.name << " is another one behind\n" << made->text;
        }
    }
    const auto again = valueOf(*context, printed, name, made->whole ? std::map<std::string, std::string>{} : c.sets);
    // A scalar's derivative is the notebook's own to ask for; of others a loss with the same seed is.
    const bool scalar = notebook.program[of].shape.empty();
    std::string asked = name, source = c.text;
    if (!scalar) {
      std::string indices, axes;
      for (std::size_t k = 0; k < notebook.program[of].shape.size(); ++k) axes += (k ? ", i" : "i") + std::to_string(k);
      source += "\n# %%\nSum = sum[" + axes + "] " + c.of + "[" + axes + "]\n";
      asked = "d(Sum)/d(" + param + ")";
    }
    const auto direct = valueOf(*context, source, asked, c.sets);
    ASSERT_EQ(again.size(), direct.size()) << printed;
    double largest = 0;
    for (const double v : direct) largest = std::max(largest, std::abs(v));
    EXPECT_GT(largest, 0) << param;
    for (std::size_t i = 0; i < direct.size(); ++i)
      ASSERT_NEAR(again[i], direct[i], 1e-12 * largest) << param << " " << i << "\n" << printed;
    ++params;
  }
  EXPECT_GT(params, 0);
}

Case example(const char* name, const char* of, std::map<std::string, std::string> sets) {
  const auto text = readFile(std::string(NF_SOURCE_DIR "/examples/") + name + ".nf");
  return {name, text ? *text : std::string(), of, std::move(sets)};
}

std::vector<Case> cases() {
  const std::string recurrent = R"(
let B = 2, H = 3, T = 4
param X[B, T, H] = normal(0, 1)
param U[H, H] = normal(0, 0.5)
h[b: B, i: H] = 0.1
for t in 0..T { h[b, i] = tanh(X[b, t, i] + sum[k] U[i, k] * h[b, k]) }
Y[b, i] = h[b, i] * U[i, i]
loss L = mean[b, i] Y[b, i]^2
)";
  std::vector<Case> all{example("welcome", "L", {}), example("digits_capsnet", "L", {{"B", "2"}}), example("figure4", "L", {}),
                        example("milstm", "L", {{"B", "2"}})};
  all.push_back({"recurrent", recurrent, "L", {}});
  all.push_back({"recurrent_seeded", recurrent, "Y", {}});
  all.push_back({"first_value_behind_a_stack",
                 R"(
param A[4] = normal(0, 1)
h[i] = 0.5 * A[i]
for t in 0..5 {
  h[i] = 0.9 * h[i] + t
  stack H = h
}
L = sum[t, i] H[t, i]^2
)",
                 "L",
                 {}});
  all.push_back({"first_values_of_nested_loops",
                 R"(
param A[3] = normal(0, 1)
param U[3, 3] = normal(0, 0.5)
h[i] = 0.5 * A[i]
c[i] = A[i]^2
for t in 0..4 {
  c[i] = 0.8 * c[i] + h[i]
  for s in 0..2 { h[i] = tanh(sum[k] U[i, k] * h[k] + 0.1 * c[i]) }
  stack H = h
}
Y[i] = A[i] * c[i]
L = sum[t, i] H[t, i]^2 + sum[i] Y[i] * h[i]
)",
                 "L",
                 {}});
  all.push_back({"second_order",
                 R"(
param x[4] = uniform(-1, 1)
S = sum[n] x[n]^3
du = d(S)/d(x)
S2 = sum[n] du[n]^2
)",
                 "S2",
                 {},
                 true});
  return all;
}

// The cell behind a notebook that does not train gives what its training takes.
TEST(GradientsTextTest, AllThatATrainingAsksForAreRunAsPrinted) {
  const auto context = interpreter();
  for (const Case& c : cases()) {
    const std::size_t train = c.text.find("\ntrain ");
    if (train == std::string::npos) continue;
    CompileOptions compile;
    compile.sets = c.sets;
    const CompiledNotebook notebook = compileNotebook({"test.nf", NF_SOURCE_DIR "/examples", c.text}, compile);
    ASSERT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
    const auto differentiated = differentiate(notebook.program);
    ASSERT_TRUE(differentiated.ok());
    const GradientsText made = gradientsText(notebook, differentiated->program, compile);
    EXPECT_FALSE(made.whole) << c.name;
    const std::size_t end = c.text.find('}', train) + 1;
    const std::string printed = c.text.substr(0, train) + c.text.substr(end) + "\n# %%\n" + made.text;
    ASSERT_FALSE(notebook.program.derivatives.empty());
    for (const Derivative& d : notebook.program.derivatives) {
      const std::string name = notebook.program[d.result].name;
      const auto again = valueOf(*context, printed, name, c.sets), direct = valueOf(*context, c.text, name, c.sets);
      ASSERT_EQ(again.size(), direct.size()) << printed;
      double largest = 0;
      for (const double v : direct) largest = std::max(largest, std::abs(v));
      EXPECT_GT(largest, 0) << name;
      for (std::size_t i = 0; i < direct.size(); ++i)
        ASSERT_NEAR(again[i], direct[i], 1e-12 * largest) << c.name << " " << name << " " << i << "\n" << printed;
    }
  }
}

TEST(GradientsTextTest, ANotebookThatAsksForNoneHasNone) {
  const CompiledNotebook notebook = compileNotebook({"test.nf", ".", "input X[3] = 1\nloss L = sum[i] X[i]\n"}, {});
  ASSERT_TRUE(notebook.ok());
  EXPECT_EQ(gradientsText(notebook, notebook.program).text, "");
}

INSTANTIATE_TEST_SUITE_P(Examples, GradientTextTest, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nf
