// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/runtime/prepared.h"

namespace nf {
namespace {

using testing::HasSubstr;

TEST(MemoryNeed, MoreThanHalfIsAWarningAndMoreThanAllAnError) {
  const auto notebook = compileNotebook({"test.nf", "", R"(
param W[1024, 256] = zeros()
input X[256] = zeros()
Y[i] = sum[j] W[i, j] * X[j]
loss L = sum[i] Y[i]^2
)"},
                                        {});
  ASSERT_TRUE(notebook.ok());
  BackendRegistry none;
  const auto context = DeviceContext::open(none, {.device = "reference"});
  ASSERT_TRUE(context.ok());
  const auto prepared = planned(notebook.program, **context, {});
  ASSERT_TRUE(prepared.ok());
  const Program& program = *prepared->plan->main.program;
  const MemoryNeed need = memoryNeed(*prepared->plan);
  ASSERT_TRUE(need.largest.valid());
  EXPECT_EQ(program[need.largest].name, "W");
  EXPECT_EQ(need.largestBytes, 1024 * 256 * 4);
  EXPECT_EQ(need.bytes, 1024 * 256 * 4 + 256 * 4 + static_cast<double>(prepared->plan->main.arenaBytes));
  EXPECT_EQ(memoryNeed(*prepared->plan, true).largestBytes, 1024 * 256 * 8);

  EXPECT_FALSE(tooLarge(need, program, 0)) << "unknown";
  EXPECT_FALSE(tooLarge(need, program, need.bytes));
  EXPECT_THAT(tooLarge(need, program, need.bytes - 1)->message, HasSubstr("for a step: it takes"));
  EXPECT_THAT(tooLarge(need, program, need.bytes - 1)->message, HasSubstr("W alone 1.00 MiB"));
  EXPECT_THAT(tooLarge(need, program, need.largestBytes - 1)->message, HasSubstr("There is no memory for W: it takes 1.00 MiB"));
  EXPECT_FALSE(muchMemory(need, program, 2 * need.bytes));
  EXPECT_FALSE(muchMemory(need, program, need.bytes - 1)) << "that is the error";
  const auto much = muchMemory(need, program, 1.5 * need.bytes);
  ASSERT_TRUE(much);
  EXPECT_EQ(much->severity, Severity::Warning);
  EXPECT_THAT(much->message, HasSubstr("more than half"));
  EXPECT_THAT(much->message, HasSubstr("`W` with 1.00 MiB"));
  EXPECT_TRUE(much->span.valid());
}

}  // namespace
}  // namespace nf
