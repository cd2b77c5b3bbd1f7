// SPDX-License-Identifier: Apache-2.0
// What travels between the engine and its workers.
#include "core/tune/worker_messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace nf::test {
namespace {

TEST(WorkerMessages, AKernelKeepsItsStagesAndTheirMaps) {
  KernelObject kernel;
  kernel.backend = "cuda";
  kernel.generator = "nvrtc";
  kernel.schedule = *Schedule::parse(R"({"version":1,"kind":"contraction","knobs":{}})");
  KernelTensorMap map;
  map.operand = 1;
  map.offset = 32;
  map.type = DType::F32;
  map.rounded = true;
  map.axes = {{100, 4, 32}, {72, 400, 64}};
  KernelTensorMap inWorkspace;
  inWorkspace.type = DType::BF16;
  inWorkspace.axes = {{64, 2, 64}};
  kernel.stages = {{"first", 4, 128, 65536, false, {map, inWorkspace}, false}, {"second", 1, 32, 0, true, {}}};
  const auto read = kernelFromJson(kernelToJson(kernel), {});
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->stages.size(), 2u);
  EXPECT_EQ(read->stages[0].symbol, "first");
  EXPECT_EQ(read->stages[0].sharedBytes, 65536);
  EXPECT_EQ(read->stages[0].maps, kernel.stages[0].maps);
  EXPECT_FALSE(read->stages[0].random);
  EXPECT_TRUE(read->stages[1].random);
  EXPECT_TRUE(read->stages[1].cooperative);
  EXPECT_TRUE(read->stages[1].maps.empty());
}

}  // namespace
}  // namespace nf::test
