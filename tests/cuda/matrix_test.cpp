// SPDX-License-Identifier: Apache-2.0
// CUDA C for the matrix units of a warp: what NVIDIA's compilers take, and the text run on this machine.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "plugins/cuda/compiler.h"
#include "plugins/cuda/plugin.h"
#include "tests/cuda/host_calls.h"
#include "tests/gpu/gpu_cases.h"
#include "tests/kernel_cases.h"

namespace nf::test {
namespace {

const std::vector<std::vector<DType>> kTypes{{DType::F16}, {DType::BF16}, {DType::F16, DType::BF16}};

class CudaMatrix : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Units, CudaMatrix, ::testing::Values("sm_75", "sm_80", "sm_90"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(CudaMatrix, CompilesToTheInstructions) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Target target = *cuda::nominalTarget(GetParam());
  auto compiler = neoflowCudaPlugin(kPluginVersion)->compiler(target);
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  const std::map<std::string, std::string> instructions{{"mma16816", "mma.sync.aligned.m16n8k16.row.col.f32."},
                                                        {"mma1688", "mma.sync.aligned.m16n8k8.row.col.f32.f16"},
                                                        {"tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32"},
                                                        {"wgmma", "wgmma.mma_async.sync.aligned.m64n"}};
  std::map<std::string, int> units;
  int tf32 = 0;  // of either unit
  for (const auto& types : kTypes) {
    std::vector<Case> cases{{"gemm", gemm(256, 512, 128, types.front(), types.back())}};
    for (const Case& c : contractions(types))
      if (c.name.starts_with("prologue") || c.name.starts_with("conv stride 2 pad 1")) cases.push_back(c);
    for (const Case& c : cases) {
      const auto space = scheduleSpace(c.program, target);
      ASSERT_TRUE(space.ok()) << c.name;
      std::vector<Schedule> schedules{(*space)->first()};
      if (const auto random = randomMatrix(**space, rng)) schedules.push_back(*random);
      for (const Schedule& s : schedules) {
        const auto object = (*compiler)->compile({c.program, s, {"ptx", "cuda"}});
        ASSERT_TRUE(object.ok()) << object.error().message << "\n" << object.error().detail << "\n" << s.text();
        const auto unit = instructions.find(unitOf(s));
        if (unit == instructions.end()) continue;
        ++units[unit->first];
        tf32 += object->texts.at("ptx").text.find(".f32.tf32.tf32") != std::string::npos;
        EXPECT_NE(object->texts.at("ptx").text.find(unit->second), std::string::npos) << c.name << ", seed " << seed << s.text();
        // Accumulators and fragments are registers.
        EXPECT_EQ(object->texts.at("ptx").text.find(".local"), std::string::npos) << c.name << ", seed " << seed << s.text();
      }
    }
  }
  const bool turing = std::string(GetParam()) == "sm_75";
  EXPECT_EQ(units["mma1688"] > 0, turing);
  EXPECT_EQ(units["mma16816"] + units["wgmma"] > 0, !turing);
  EXPECT_EQ(tf32 > 0, !turing);
}

TEST(CudaMatrixText, EqualsTheInterpreterBitForBit) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  std::map<std::string, int> units;
  InterpretedCalls calls;
  for (const char* architecture : {"sm_75", "sm_80"})
    for (const auto& types : kTypes)
      for (const Case& c : contractions(types)) {
        const Target target = *cuda::nominalTarget(architecture);
        const auto space = scheduleSpace(c.program, target);
        ASSERT_TRUE(space.ok()) << c.name;
        if (c.program.operators.size() > 1) continue;  // arithmetic of f32 is done in double there
        if (rng() % 2 == 0) continue;
        auto schedule = randomMatrix(**space, rng);
        if (!schedule) continue;
        nlohmann::json knobs = *schedule->knobs;
        knobs.erase("split_k");  // so are sums of parts
        schedule->knobs = std::make_shared<const nlohmann::json>(knobs);
        ++units[unitOf(*schedule)];
        ASSERT_NO_FATAL_FAILURE(
            calls.add(c.name + ", seed " + std::to_string(seed) + "\n" + schedule->text(), c.program, *schedule, target, rng));
      }
  EXPECT_GE(units["mma16816"], 5);
  EXPECT_GE(units["mma1688"], 1);
  EXPECT_GE(units["tf32"], 1);
  calls.runAndCompare();
}

}  // namespace
}  // namespace nf::test
