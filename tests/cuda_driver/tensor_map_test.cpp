// SPDX-License-Identifier: Apache-2.0
// Operands that the copy engine takes: their maps are made at the launch, on the driver double.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/runtime/host_tensor.h"
#include "plugins/cuda/device.h"
#include "tests/cuda_driver/double/double.h"
#include "tests/cuda_driver/machine.h"
#include "tests/kernel_cases.h"

namespace nf::test {
namespace {

constexpr std::int64_t kM = 72, kN = 80, kK = 104;

class TensorMaps : public ::testing::Test {
 protected:
  void SetUp() override {
    driver_double::reset();
    device = openDouble(0);
    ASSERT_TRUE(device);
    const nlohmann::json knobs{{"block_m", 64},  {"block_n", 64}, {"block_k", 64},     {"thread_m", 2},
                               {"thread_n", 16}, {"stages", 2},   {"matrix", "wgmma"}, {"copies", "tma"}};
    HostCompiler compiler("sm_90");
    object = compiler.compile({program, {"contraction", std::make_shared<const nlohmann::json>(knobs)}, {}});
    ASSERT_TRUE(object.ok()) << object.error().message << object.error().detail;
    ASSERT_EQ(object->stages.at(0).maps.size(), 2u);
    auto linked = device->link(*object);
    ASSERT_TRUE(linked.ok()) << linked.error().message;
    kernel = std::move(*linked);
    std::mt19937_64 rng(5);
    const TensorValues inputs = randomInputs(program, rng);
    auto reference = ReferenceProgram::prepare(program);
    ASSERT_TRUE(reference.ok());
    const auto made = reference->run(inputs, 7, 3, {});
    ASSERT_TRUE(made.ok());
    want = made->at(program.outputs[0].tensor).values;
    for (const auto& [id, data] : inputs) {
      host.push_back(HostTensor::make(data.type, data.shape));
      for (std::size_t i = 0; i < data.values.size(); ++i) host.back().set(static_cast<std::int64_t>(i), data.values[i]);
    }
  }
  void TearDown() override {
    kernel.reset();
    for (void* p : taken) device->release(p);
  }

  void* onDevice(const HostTensor& tensor, std::int64_t at = 0) {
    auto memory = device->allocate(static_cast<std::int64_t>(tensor.bytes.size()) + at);
    EXPECT_TRUE(memory.ok());
    taken.push_back(*memory);
    void* const to = static_cast<std::byte*>(*memory) + at;
    EXPECT_TRUE(device->copyIn(to, tensor.bytes.data(), static_cast<std::int64_t>(tensor.bytes.size())).ok());
    return to;
  }
  std::vector<double> read(void* from) const {
    HostTensor made = HostTensor::make(DType::F32, {kM, kN});
    EXPECT_TRUE(device->copyOut(made.bytes.data(), from, static_cast<std::int64_t>(made.bytes.size())).ok());
    std::vector<double> values;
    for (std::int64_t i = 0; i < made.elements(); ++i) values.push_back(made.at(i));
    return values;
  }
  Result<Unit> launch(void* a, void* b, void* c) {
    void* const tensors[] = {a, b, c};
    return kernel->launch({tensors, nullptr, {}, 7, 3});
  }

  const Program program = gemm(kM, kN, kK, DType::F16, DType::F16);
  std::unique_ptr<Device> device;
  Result<KernelObject> object = Error{};
  std::unique_ptr<Kernel> kernel;
  std::vector<HostTensor> host;
  std::vector<double> want;
  std::vector<void*> taken;
};

TEST_F(TensorMaps, AreMadeOfTheOperandsOfALaunch) {
  const HostTensor nothing = HostTensor::make(DType::F32, {kM, kN});
  void *const a = onDevice(host[0]), *const b = onDevice(host[1]), *const c = onDevice(nothing), *const d = onDevice(nothing);
  ASSERT_TRUE(launch(a, b, c).ok());
  EXPECT_EQ(driver_double::counts().maps, 2);
  ASSERT_TRUE(launch(a, b, d).ok());
  EXPECT_EQ(driver_double::counts().maps, 2) << "the same operands";
  EXPECT_EQ(read(c), want);
  EXPECT_EQ(read(d), want);
  // The left operand elsewhere, with nothing but zeros in it.
  void* const zeros = onDevice(HostTensor::make(DType::F16, host[0].shape));
  ASSERT_TRUE(launch(zeros, b, d).ok());
  EXPECT_EQ(driver_double::counts().maps, 3);
  EXPECT_EQ(read(d), std::vector<double>(kM * kN, 0.0));
}

TEST_F(TensorMaps, StandInTheNodesOfAGraph) {
  const HostTensor nothing = HostTensor::make(DType::F32, {kM, kN});
  void *const a = onDevice(host[0]), *const b = onDevice(host[1]), *const c = onDevice(nothing), *const d = onDevice(nothing);
  void* const zeros = onDevice(HostTensor::make(DType::F16, host[0].shape));
  LaunchRecorder* const recorder = device->recorder();
  ASSERT_TRUE(recorder);
  ASSERT_TRUE(recorder->begin().ok());
  ASSERT_TRUE(launch(a, b, c).ok());
  ASSERT_TRUE(launch(zeros, b, d).ok());
  auto graph = recorder->end(nullptr);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE((*graph)->replay(7, 3).ok());
  EXPECT_EQ(read(c), want) << "the node keeps the map that it was recorded with";
  EXPECT_EQ(read(d), std::vector<double>(kM * kN, 0.0));
}

TEST_F(TensorMaps, AnOperandThatBeginsBetween16BytesIsRefusedAndNothingElse) {
  const HostTensor nothing = HostTensor::make(DType::F32, {kM, kN});
  void *const b = onDevice(host[1]), *const c = onDevice(nothing);
  const auto refused = launch(onDevice(host[0], 8), b, c);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("an operand can't be mapped for the copy engine"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(device->lost());
  ASSERT_TRUE(launch(onDevice(host[0]), b, c).ok());
  EXPECT_EQ(read(c), want);
}

}  // namespace
}  // namespace nf::test
