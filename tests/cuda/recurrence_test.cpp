// SPDX-License-Identifier: Apache-2.0
// Loops as one kernel in CUDA C: on this machine with a fibre a thread, and through NVRTC to cubins.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <nlohmann/json.hpp>

#include "core/schedule/gpu.h"
#include "core/schedule/lower.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/emit.h"
#include "plugins/cuda/nvptx/generate.h"
#include "tests/cuda/host_calls.h"
#include "tests/recurrence_cases.h"

namespace nf::test {
namespace {

Target fewProcessors() {
  Target t = *cuda::nominalTarget("sm_80");
  t.threads = 8;
  return t;
}

// Several blocks; fibres take room, so they have 128 threads at most.
Schedule randomSchedule(const ScheduleSpace& space, std::mt19937_64& rng) {
  for (;;) {
    const Schedule s = space.random(rng);
    if ((*s.knobs)["threads"].get<int>() <= 128 && (*s.knobs)["blocks"].get<int>() > 1) return s;
  }
}

TEST(CudaRecurrence, TheTextEqualsTheReference) {
  const std::uint64_t seed = freshSeed();
  const Target target = fewProcessors();
  std::vector<HostCall> calls;
  std::vector<Program> programs;
  std::vector<TensorValues> want;
  std::vector<std::string> names;
  std::size_t together = 0;
  for (std::uint64_t n = 0; n < 16; ++n) {
    std::mt19937_64 rng(seed + n);
    const Program p = n == 0 ? plainRecurrence(6, 3, 16) : randomRecurrence(rng);
    const auto space = scheduleSpace(p, target);
    ASSERT_TRUE(space.ok()) << space.error().message;
    const Schedule schedule = randomSchedule(**space, rng);
    const auto function = lower(p, schedule, target);
    ASSERT_TRUE(function.ok()) << function.error().message;
    auto emitted = cuda::emit(*function);
    ASSERT_TRUE(emitted.ok()) << emitted.error().message;
    together += emitted->stages.front().cooperative;
    const TensorValues inputs = randomInputs(p, rng);
    const auto reference = ReferenceProgram::prepare(p);
    ASSERT_TRUE(reference.ok());
    auto values = reference->run(inputs, 7, 3, {});
    ASSERT_TRUE(values.ok()) << values.error().message;
    HostCall call = callOf(p, *function, inputs);
    call.emitted = std::move(*emitted);
    calls.push_back(std::move(call));
    programs.push_back(p);
    want.push_back(std::move(*values));
    names.push_back("seed " + std::to_string(seed + n) + "\n" + schedule.text());
  }
  EXPECT_GE(together, 2u);
  const auto ran = runOnHost(calls);
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << ran.error().detail;
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (std::size_t o = 0; o < calls[c].outputs.size(); ++o) {
      const auto& expected = want[c].at(programs[c].outputs[o].tensor).values;
      const auto& got = calls[c].outputs[o].values;
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::fabs(expected[i])))
            << programs[c].outputs[o].name << "[" << i << "], " << names[c] << "\n"
            << calls[c].emitted.source.text;
    }
}

Schedule heldInShared(int blocks) {
  return *Schedule::parse(R"({"kind":"recurrence","knobs":{"axis":"n","blocks":)" + std::to_string(blocks) +
                          R"(,"threads":128,"lanes":4,"rows":1,"hold":"shared"}})");
}

// More than 48 KB is memory of the launch, for which the device sets the function's limit.
TEST(CudaRecurrence, WeightsBeyond48KilobytesAreMemoryOfTheLaunch) {
  const Program p = plainRecurrence(3, 2, 160);  // two blocks of 80 x 160 numbers
  const Schedule schedule = heldInShared(2);
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    const Target target = *cuda::nominalTarget(architecture);
    const auto compiler = cuda::makeCompiler(target);
    ASSERT_TRUE(compiler.ok()) << compiler.error().message;
    const auto object = (*compiler)->compile({p, schedule, {"cuda", "ptx"}});
    ASSERT_TRUE(object.ok()) << architecture << ": " << object.error().message << object.error().detail;
    const KernelStage& stage = object->stages.front();
    EXPECT_TRUE(stage.cooperative);
    EXPECT_GE(stage.sharedBytes, 80 * 160 * 4);
    EXPECT_LE(stage.sharedBytes, loop::sharedBytesOfBlock(target));
    EXPECT_NE(object->texts.at("ptx").text.find(".extern .shared"), std::string::npos);
    EXPECT_EQ(object->texts.at("cuda").text.find("__shared__"), std::string::npos) << object->texts.at("cuda").text;
  }

  const auto function = lower(p, schedule, fewProcessors());
  ASSERT_TRUE(function.ok()) << function.error().message;
  auto emitted = cuda::emit(*function);
  ASSERT_TRUE(emitted.ok()) << emitted.error().message;
  std::mt19937_64 rng(9);
  const TensorValues inputs = randomInputs(p, rng);
  auto reference = ReferenceProgram::prepare(p);
  ASSERT_TRUE(reference.ok());
  const auto want = reference->run(inputs, 7, 3, {});
  ASSERT_TRUE(want.ok()) << want.error().message;
  std::vector<HostCall> calls{callOf(p, *function, inputs)};
  calls.front().emitted = std::move(*emitted);
  const auto ran = runOnHost(calls);
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << ran.error().detail;
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    const auto &expected = want->at(p.outputs[o].tensor).values, &got = calls.front().outputs[o].values;
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::fabs(expected[i]))) << p.outputs[o].name << "[" << i << "]";
  }
}

TEST(CudaRecurrence, NvrtcTakesEveryKindOfThem) {
  std::mt19937_64 rng(7);
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    const Target target = *cuda::nominalTarget(architecture);
    const auto compiler = cuda::makeCompiler(target);
    ASSERT_TRUE(compiler.ok()) << compiler.error().message;
    for (const bool large : {true, false}) {
      const Program p = large ? plainRecurrence(64, 16, 512) : randomRecurrence(rng);
      const auto space = scheduleSpace(p, target);
      ASSERT_TRUE(space.ok()) << space.error().message;
      // A quick kernel is LLVM's where that has one; it has none whose blocks wait for each other.
      for (const CompileEffort effort : {CompileEffort::Full, CompileEffort::Quick}) {
        const auto object = (*compiler)->compile({p, (*space)->first(), {"cuda", "ptx"}, effort});
        ASSERT_TRUE(object.ok()) << object.error().message << object.error().detail;
        ASSERT_EQ(object->stages.size(), 1u);
        if (object->stages.front().cooperative || effort == CompileEffort::Full) { EXPECT_EQ(object->generator, "nvrtc"); }
        if (!large) continue;
        EXPECT_TRUE(object->stages.front().cooperative);
        EXPECT_LE(object->stages.front().tasks, target.threads);
        EXPECT_NE(object->texts.at("ptx").text.find("atom.add.acq_rel.gpu"), std::string::npos);
        EXPECT_NE(object->texts.at("ptx").text.find("ld.acquire.gpu"), std::string::npos);
      }
    }
  }
}

TEST(CudaRecurrence, LlvmLeavesBarriersOfTheGridToNvrtc) {
  const auto function = lower(plainRecurrence(3, 2, 8),
                              *Schedule::parse(R"({"kind":"recurrence","knobs":{"axis":"n","blocks":4,"threads":64,"lanes":4,)"
                                               R"("rows":1,"hold":"shared"}})"),
                              fewProcessors());
  ASSERT_TRUE(function.ok()) << function.error().message;
  const auto made = cuda::generateNvptx(*function, "sm_80", "", nullptr);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("a barrier of the grid"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace nf::test
