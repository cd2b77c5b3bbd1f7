// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "core/runtime/memory_check.h"
#include "core/runtime/prepared.h"

namespace nf {
namespace {

using testing::HasSubstr;

Result<Prepared> plannedOf(const CompiledNotebook& notebook) {
  EXPECT_TRUE(notebook.ok());
  BackendRegistry none;
  const auto context = DeviceContext::open(none, {.device = "reference"});
  if (!context) return context.error();
  return planned(notebook.program, **context, {});
}

TEST(MemoryNeed, MoreThanHalfIsAWarningAndMoreThanAllAnError) {
  const auto notebook = compileNotebook({"test.nf", "", R"(
param W[1024, 256] = zeros()
input X[256] = zeros()
Y[i] = sum[j] W[i, j] * X[j]
loss L = sum[i] Y[i]^2
)"},
                                        {});
  const auto prepared = plannedOf(notebook);
  ASSERT_TRUE(prepared.ok());
  const Program& program = *prepared->plan->main.program;
  const MemoryNeed need = memoryNeed(*prepared->plan);
  ASSERT_TRUE(need.largest.valid());
  EXPECT_EQ(program[need.largest].name, "W");
  EXPECT_EQ(need.largestBytes, 1024 * 256 * 4);
  EXPECT_EQ(need.bytes, 1024 * 256 * 4 + 256 * 4 + static_cast<double>(prepared->plan->main.arenaBytes));
  EXPECT_EQ(memoryNeed(*prepared->plan, true).largestBytes, 1024 * 256 * 8);
  const MemoryNeed shown = memoryNeed(*prepared->plan, false, true);
  EXPECT_EQ(shown.bytes - need.bytes, 4) << "the loss, read back";
  EXPECT_THAT(tooLarge(shown, program, {shown.bytes - 1})->message, HasSubstr(", of that 4 B to show a tensor, and "));

  EXPECT_FALSE(tooLarge(need, program, {0})) << "unknown";
  EXPECT_FALSE(tooLarge(need, program, {need.bytes}));
  EXPECT_THAT(tooLarge(need, program, {need.bytes - 1})->message, HasSubstr("for a step: it takes"));
  EXPECT_THAT(tooLarge(need, program, {need.bytes - 1})->message, HasSubstr("W alone 1.00 MiB"));
  EXPECT_THAT(tooLarge(need, program, {need.largestBytes - 1})->message, HasSubstr("There is no memory for W: it takes 1.00 MiB"));
  EXPECT_FALSE(muchMemory(need, program, {2 * need.bytes}));
  EXPECT_FALSE(muchMemory(need, program, {need.bytes - 1})) << "that is the error";
  const auto much = muchMemory(need, program, {1.5 * need.bytes});
  ASSERT_TRUE(much);
  EXPECT_EQ(much->severity, Severity::Warning);
  EXPECT_THAT(much->message, HasSubstr("more than half"));
  EXPECT_THAT(much->message, HasSubstr("`W` with 1.00 MiB"));
  EXPECT_TRUE(much->span.valid());

  EXPECT_FALSE(tooMuchMemory(need, program, {need.bytes})) << "that is much, and goes";
  const auto tooMuch = tooMuchMemory(need, program, {need.bytes - 1});
  ASSERT_TRUE(tooMuch);
  EXPECT_EQ(tooMuch->severity, Severity::Warning);
  EXPECT_THAT(tooMuch->message, HasSubstr("this machine has"));
  EXPECT_TRUE(tooMuch->span.valid());
}

// What operators hand on counts among the tensors, too.
TEST(MemoryNeed, TheLargestTensorMayBeComputed) {
  const auto notebook = compileNotebook(
      {"test.nf", "", "input W[3] = zeros()\nY[i: 256, j: 256] = W[0] + i + j\nloss L = sum[i, j] Y[i, j] * Y[j, i]\n"}, {});
  const auto prepared = plannedOf(notebook);
  ASSERT_TRUE(prepared.ok());
  const Program& program = *prepared->plan->main.program;
  const MemoryNeed need = memoryNeed(*prepared->plan);
  ASSERT_TRUE(need.largest.valid());
  EXPECT_EQ(program[need.largest].name, "Y");
  EXPECT_EQ(need.largestBytes, 256 * 256 * 4);
  EXPECT_EQ(need.bytes, 3 * 4 + static_cast<double>(prepared->plan->main.arenaBytes));
}

TEST(MemoryNeed, ALimitOfTheProcessIsNamed) {
  const MemoryLimit whole = memoryLimit();
  ASSERT_GT(whole.bytes, 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const double less = whole.bytes / 2;
  const rlimit low{static_cast<rlim_t>(less), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const MemoryLimit limited = memoryLimit();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(limited.ofProcess);
  EXPECT_NEAR(limited.bytes, less, 1);
  EXPECT_THAT(limited.text(), HasSubstr("`ulimit -v`) allows "));
}

TEST(MemoryNeed, TheStepThatTakesMostIsWarnedOf) {
  const auto compiled = [](const std::string& shown) {
    return compileNotebook({"test.nf", "",
                            "param W[1024, 256] = zeros()\ninput X[256] = zeros()\nY[i] = sum[j] W[i, j] * X[j]\n"
                            "loss L = sum[i] Y[i]^2\ntrain L { steps = 1; optimizer = adam() }\n" +
                                shown},
                           {});
  };
  const auto step = compiled("show Y\n");
  ASSERT_TRUE(step.ok());
  constexpr double kWeights = 1024 * 256 * 4;
  // W and Adam's two moments, with two buffers each.
  EXPECT_TRUE(mayTakeMuch(step, {6 * kWeights}));
  EXPECT_FALSE(mayTakeMuch(step, {1000 * kWeights}));
  EXPECT_THAT(checkMemory(step, {}, {1000 * kWeights}), testing::IsEmpty());
  const Diagnostics found = checkMemory(step, {}, {6 * kWeights});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "much-memory");
  EXPECT_EQ(found[0].severity, Severity::Warning);
  EXPECT_THAT(found[0].message, HasSubstr("where it will be refused"));
  // What is shown may take more than what trains.
  const auto wide = compiled(
      "Z[i, j] = X[i] * X[j] + W[0, i]\nZZ[i, k] = sum[j] Z[i, j] * Z[j, k]\nG[i, j, k, l: 64] = "
      "ZZ[i, j] * ZZ[j, k] + l\nshow G\n");
  ASSERT_TRUE(wide.ok());
  const Diagnostics shown = checkMemory(wide, {}, {100 * kWeights});
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_THAT(shown[0].message, HasSubstr("4.00 GiB"));
}

}  // namespace
}  // namespace nf
