// SPDX-License-Identifier: Apache-2.0
// Code for NVIDIA's devices, as far as it goes without one: CUDA C, PTX and cubins of every kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/lang/compile.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/pipeline.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/plugin.h"
#include "tests/kernel_cases.h"

namespace nf::test {
namespace {

namespace fs = std::filesystem;

Backend& backend() { return *neoflowCudaPlugin(kPluginVersion); }

std::unique_ptr<Compiler> compilerFor(const std::string& architecture) {
  auto compiler = backend().compiler(*cuda::nominalTarget(architecture));
  EXPECT_TRUE(compiler.ok()) << (compiler.ok() ? "" : compiler.error().message);
  return compiler.ok() ? std::move(*compiler) : nullptr;
}

// A cubin is an ELF file that holds a text section for each stage.
std::string cubinProblem(const KernelObject& object) {
  const std::string code(reinterpret_cast<const char*>(object.code.data()), object.code.size());
  if (!code.starts_with("\x7f"
                        "ELF"))
    return "it is no ELF file";
  for (const KernelStage& s : object.stages)
    if (code.find(".text." + s.symbol) == std::string::npos) return "it lacks " + s.symbol;
  return {};
}

std::string compiled(Compiler& compiler, const Program& p, const Schedule& schedule, std::vector<std::string> texts = {}) {
  const auto object = compiler.compile({p, schedule, std::move(texts)});
  if (!object) return object.error().message + "\n" + object.error().detail + "\n" + schedule.text();
  return cubinProblem(*object);
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The kernels of a notebook's training step, by hash.
void collect(const fs::path& file, const Target& target, std::map<Hash, PlannedSubgraph>& into) {
  CompiledNotebook notebook = compileNotebook({file.string(), file.parent_path().string(), read(file)});
  ASSERT_TRUE(notebook.ok()) << file << render(notebook.diagnostics, notebook.sources);
  StageOptions options;
  options.device = deviceConstants(target);
  const auto stages = runStages(std::make_shared<const Program>(std::move(notebook.program)), options);
  ASSERT_TRUE(stages.ok()) << file << stages.error().message;
  ASSERT_FALSE(hasErrors(stages->diagnostics)) << file;
  const auto plan = planExecution(*stages->fused);
  ASSERT_TRUE(plan.ok()) << file << plan.error().message;
  for (const PlannedSubgraph& s : (*plan)->subgraphs) into.emplace(s.hash, s);
}

class Architecture : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cuda, Architecture, ::testing::Values("sm_75", "sm_80", "sm_90"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Architecture, EveryKernelOfEveryExampleCompiles) {
  const Target target = *cuda::nominalTarget(GetParam());
  std::map<Hash, PlannedSubgraph> kernels;
  for (const auto& entry : fs::directory_iterator(fs::path(NF_SOURCE_DIR) / "examples"))
    if (entry.path().extension() == ".nf") collect(entry.path(), target, kernels);
  EXPECT_GT(kernels.size(), 20u);
  const auto compiler = compilerFor(GetParam());
  for (const auto& [hash, kernel] : kernels) {
    const auto space = scheduleSpace(*kernel.program, target);
    ASSERT_TRUE(space.ok()) << kernel.name << ": " << space.error().message;
    EXPECT_EQ(compiled(*compiler, *kernel.program, (*space)->first()), "") << kernel.name;
  }
}

}  // namespace
}  // namespace nf::test
