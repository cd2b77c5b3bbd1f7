// SPDX-License-Identifier: Apache-2.0
// What a launch and a read ask the driver for, on its double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/runtime/host_tensor.h"
#include "core/schedule/schedule.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/driver.h"
#include "plugins/cuda/nvrtc.h"
#include "plugins/cuda/toolkit.h"
#include "tests/cuda_driver/double/double.h"
#include "tests/cuda_driver/machine.h"
#include "tests/recurrence_cases.h"
#include "tests/tune/fakes.h"

namespace nf::test {
namespace {

// A loop as one kernel: two blocks that are there together, each with 80 x 160 weights in shared memory.
class SharedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    driver_double::reset();
    device = openDouble(0);
    ASSERT_TRUE(device);
    const nlohmann::json knobs{{"axis", "n"}, {"blocks", 2}, {"threads", 128}, {"lanes", 4}, {"rows", 1}, {"hold", "shared"}};
    object = HostCompiler().compile({program, {"recurrence", std::make_shared<const nlohmann::json>(knobs)}, {}});
    ASSERT_TRUE(object.ok()) << object.error().message << object.error().detail;
    std::mt19937_64 rng(5);
    const TensorValues inputs = randomInputs(program, rng);
    auto reference = ReferenceProgram::prepare(program);
    ASSERT_TRUE(reference.ok());
    auto made = reference->run(inputs, 7, 3, {});
    ASSERT_TRUE(made.ok()) << made.error().message;
    want = std::move(*made);
    for (const auto& [id, data] : inputs) {
      HostTensor host = HostTensor::make(data.type, data.shape);
      for (std::size_t i = 0; i < data.values.size(); ++i) host.set(static_cast<std::int64_t>(i), data.values[i]);
      tensors.push_back(room(host));
      EXPECT_TRUE(device->copyIn(tensors.back(), host.bytes.data(), static_cast<std::int64_t>(host.bytes.size())).ok());
    }
    for (const Output& o : program.outputs) tensors.push_back(room(empty(o)));
    const auto scratch = device->allocate(object->workspaceBytes);
    ASSERT_TRUE(scratch.ok());
    workspace = *scratch;
  }
  void TearDown() override {
    for (void* t : tensors) device->release(t);
    if (workspace) device->release(workspace);
  }

  HostTensor empty(const Output& o) const { return HostTensor::make(program[o.tensor].type, program[o.tensor].shape); }
  void* room(const HostTensor& host) {
    const auto memory = device->allocate(static_cast<std::int64_t>(host.bytes.size()));
    EXPECT_TRUE(memory.ok());
    return *memory;
  }
  LaunchArgs arguments() const { return {tensors, workspace, {}, 7, 3}; }
  void expectResults() {
    for (std::size_t o = 0; o < program.outputs.size(); ++o) {
      HostTensor got = empty(program.outputs[o]);
      void* const from = tensors[tensors.size() - program.outputs.size() + o];
      ASSERT_TRUE(device->copyOut(got.bytes.data(), from, static_cast<std::int64_t>(got.bytes.size())).ok());
      const auto& values = want.at(program.outputs[o].tensor).values;
      for (std::int64_t i = 0; i < got.elements(); ++i)
        ASSERT_NEAR(got.at(i), values[static_cast<std::size_t>(i)], 1e-4) << program.outputs[o].name << "[" << i << "]";
      // What stands there now is nobody's result.
      std::fill(got.bytes.begin(), got.bytes.end(), std::byte{0xff});
      ASSERT_TRUE(device->copyIn(from, got.bytes.data(), static_cast<std::int64_t>(got.bytes.size())).ok());
    }
  }

  const Program program = plainRecurrence(3, 2, 160);
  std::unique_ptr<Device> device;
  Result<KernelObject> object = Error{};
  TensorValues want;
  std::vector<void*> tensors;
  void* workspace = nullptr;
};

TEST_F(SharedMemory, MoreThan48KilobytesAreAskedForBeforeALaunch) {
  ASSERT_GT(object->stages.front().sharedBytes, 48 << 10);
  ASSERT_TRUE(object->stages.front().cooperative);
  const auto kernel = device->link(*object);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto ran = (*kernel)->launch(arguments());
  ASSERT_TRUE(ran.ok()) << ran.error().message << ran.error().detail;
  expectResults();
  LaunchRecorder* const recorder = device->recorder();
  ASSERT_TRUE(recorder->begin().ok());
  ASSERT_TRUE((*kernel)->launch(arguments()).ok());
  const auto graph = recorder->end(nullptr);
  ASSERT_TRUE(graph.ok()) << graph.error().message << graph.error().detail;
  ASSERT_TRUE((*graph)->replay(7, 3).ok());
  expectResults();
  EXPECT_EQ(driver_double::counts().together, 2);
}

TEST_F(SharedMemory, MoreThanTheDeviceHasIsRefusedAndNothingElse) {
  KernelObject more = *object;
  more.stages.front().sharedBytes = 228 << 10;
  const auto refused = device->link(more);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("a block cannot have the shared memory that a kernel needs"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(device->lost());
  EXPECT_TRUE(device->link(*object).ok());
}

// A step's loss is waited for once: the copy to memory that is not page-locked would be a wait of its own.
TEST(Reads, SmallOnesGoThroughPageLockedMemory) {
  driver_double::reset();
  const auto device = openDouble(0);
  ASSERT_TRUE(device);
  for (const std::int64_t bytes : {std::int64_t{4}, std::int64_t{4096}, std::int64_t{4100}}) {
    const auto memory = device->allocate(bytes);
    ASSERT_TRUE(memory.ok());
    std::vector<std::byte> written(static_cast<std::size_t>(bytes)), read(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 + 1);
    ASSERT_TRUE(device->copyIn(*memory, written.data(), bytes).ok());
    ASSERT_TRUE(device->copyOut(read.data(), *memory, bytes).ok());
    EXPECT_EQ(read, written);
    EXPECT_EQ(driver_double::counts().unlocked, bytes > 4096 ? 1 : 0);
    device->release(*memory);
  }
}

// A driver of an earlier major version: exits with 0 where the kernel is PTX for it to assemble, and 3 and more where it is not.
[[noreturn]] void compileForAnOlderDriver() {
  ::setenv("NF_DOUBLE_SERVES", "12040", 1);
  const auto target = cuda::targetOf(0);
  if (!target || cuda::driverLoads(13) || !cuda::driverLoads(12)) std::_Exit(3);
  const auto nvrtc = cuda::Nvrtc::get(), used = cuda::Nvrtc::forDriver();
  const bool later = nvrtc && (*nvrtc)->major() > 12;
  if (later) {
    const auto& features = target->features;
    if (used || used.error().message.find("does not load") == std::string::npos) std::_Exit(4);
    if (std::find(features.begin(), features.end(), "no nvrtc") == features.end()) std::_Exit(5);
  }
  const Program program = fakes::elementwise(100);
  auto compiler = cuda::makeCompiler(*target);
  const auto space = scheduleSpace(program, *target);
  if (!compiler || !space) std::_Exit(6);
  const auto object = (*compiler)->compile({program, (*space)->first(), {}});
  if (!object) std::_Exit(7);
  const std::string code(reinterpret_cast<const char*>(object->code.data()), std::min<std::size_t>(object->code.size(), 4096));
  if (cuda::ptxasMajor() > 12 && code.find(".version") == std::string::npos) std::_Exit(8);
  if (later && object->generator != "llvm") std::_Exit(9);
  std::_Exit(0);
}

TEST(OlderDriverDeathTest, IsGivenNoMachineCodeThatItDoesNotLoad) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(compileForAnOlderDriver(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace nf::test
