// SPDX-License-Identifier: Apache-2.0
// Devices that are lost, on the driver double: in a measuring worker, in the process that trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/structural_hash.h"
#include "core/runtime/checkpoint.h"
#include "core/runtime/run_folder.h"
#include "core/runtime/train.h"
#include "core/tune/measure_service.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/plugin.h"
#include "tests/cuda_driver/double/double.h"
#include "tests/cuda_driver/machine.h"
#include "tests/tune/fakes.h"

namespace nf::test {
namespace {

using testing::HasSubstr;

// Each test that loses a device takes one of its own: a process has lost it for good.
enum : int { kWell = 0, kOfErrors = 1, kOfTraining = 2, kOfYoungTraining = 3, kOfReplay = 4, kOfAuto = 5 };

// ---------------------------------------------------------------- a worker

class Measuring : public ::testing::Test {
 protected:
  Measuring() {
    MeasureService::Options o;
    o.backend = "cuda";
    o.device = "cuda:0";
    o.command.arguments = {NF_BINARY_DIR "/bin/cuda_driver_worker"};
    o.leaseDirectory = m_folder.path("lease");
    m_measure = std::make_unique<MeasureService>(o);
  }
  MeasureOutcome measure(const Result<KernelObject>& candidate, CompilePriority priority = CompilePriority::Background) {
    EXPECT_TRUE(candidate.ok()) << (candidate.ok() ? "" : candidate.error().message + candidate.error().detail);
    MeasureJob job;
    job.subgraph = m_program;
    job.hash = structuralHash(*m_program);
    job.candidate = std::make_shared<const KernelObject>(*candidate);
    job.priority = priority;
    job.deadline = std::chrono::minutes(2);
    return m_measure->measure(std::move(job)).get();
  }
  const fakes::Folder m_folder;
  std::shared_ptr<const Program> m_program = std::make_shared<const Program>(fakes::elementwise(100));
  std::unique_ptr<MeasureService> m_measure;
};

TEST_F(Measuring, AnIllegalAddressEndsItsTrialAndItsWorkerAlone) {
  const auto good = HostCompiler().compile({*m_program, {"reference", nullptr}, {}});
  const auto before = measure(good);
  ASSERT_EQ(before.status, TrialStatus::Ok) << before.reason;

  const auto bad = measure(failingKernel(*m_program, CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_EQ(bad.status, TrialStatus::Crashed);
  EXPECT_TRUE(bad.lostDevice);
  EXPECT_THAT(bad.reason, HasSubstr("The device cuda:0 is lost"));
  EXPECT_THAT(bad.reason, HasSubstr("an illegal memory access was encountered"));

  const auto after = measure(good);
  EXPECT_EQ(after.status, TrialStatus::Ok) << after.reason;
  EXPECT_FALSE(after.lostDevice);
  EXPECT_EQ(m_measure->statistics().workersDied, 1);
  EXPECT_EQ(m_measure->statistics().workersStarted, 2);
  // This process has its own context of the same device.
  const auto device = openDouble(kWell);
  EXPECT_FALSE(device->lost());
  EXPECT_TRUE(device->synchronize().ok());
}

TEST_F(Measuring, AFirstKernelIsToBlameOnlyWhenItTakesDownThreeWorkers) {
  const auto bad = measure(failingKernel(*m_program, CUDA_ERROR_ILLEGAL_ADDRESS), CompilePriority::FirstKernel);
  EXPECT_EQ(bad.status, TrialStatus::Crashed);
  EXPECT_EQ(m_measure->statistics().workersDied, 3);
}

// ---------------------------------------------------------------- this process

TEST(Loss, EveryLaterCallSaysTheFirstErrorAndOtherDevicesGoOn) {
  const auto program = std::make_shared<const Program>(fakes::elementwise(8));
  const auto object = failingKernel(*program, CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_TRUE(object.ok());
  const auto lost = openDouble(kOfErrors), well = openDouble(kWell);
  const auto kernel = lost->link(*object);
  ASSERT_TRUE(kernel.ok());
  auto x = lost->allocate(32), y = lost->allocate(32);
  ASSERT_TRUE(x.ok() && y.ok());
  void* const tensors[] = {*x, *y};
  // Launches are queued: the wait finds out.
  ASSERT_TRUE((*kernel)->launch({tensors}).ok());
  EXPECT_FALSE(lost->synchronize().ok());
  ASSERT_TRUE(lost->lost());
  EXPECT_THAT(lost->lost()->detail, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  std::byte host[32];
  for (const auto& failed : {lost->copyOut(host, *x, 32), lost->copyIn(*x, host, 32), lost->synchronize()}) {
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().message, lost->lost()->message);
  }
  const auto again = cuda::openDevice(kOfErrors);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message, HasSubstr("started anew"));
  EXPECT_FALSE(well->lost());
  EXPECT_TRUE(well->allocate(64).ok());
  EXPECT_TRUE(well->synchronize().ok());
}

TEST(Loss, WhatTheDriverRecoversFromLosesNothing) {
  const auto device = openDouble(kWell);
  EXPECT_FALSE(device->allocate(std::int64_t{1} << 60).ok());
  KernelObject nonsense;
  nonsense.backend = "cuda";
  nonsense.code.resize(128);
  EXPECT_FALSE(device->link(nonsense).ok());
  EXPECT_FALSE(device->lost());
  EXPECT_TRUE(device->synchronize().ok());
}

TEST(Devices, AllAreListedAndEachCanBeChosen) {
  BackendRegistry registry;
  registry.add("cuda", &neoflowCudaPlugin);
  Backend* const cuda = registry.find("cuda");
  ASSERT_TRUE(cuda) << registry.entries().front().reason;
  const auto names = cuda->deviceNames();
  ASSERT_EQ(names.size(), static_cast<std::size_t>(driver_double::kDevices));
  EXPECT_THAT(cuda->about("cuda:1", 1).description, HasSubstr(driver_double::kModel));
  const auto open = [&](const std::string& device) {
    return DeviceContext::open(registry, {.device = device, .compileWorkers = 0, .measures = false, .records = "none"});
  };
  EXPECT_EQ((*open("cuda"))->device().name(), "cuda:0");
  EXPECT_EQ((*open("cuda:0"))->device().name(), "cuda:0");
  const auto none = open("cuda:17");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("cuda:17"));
  // Another one than the first is as good, until it is lost.
  ASSERT_EQ((*open("cuda:5"))->device().name(), "cuda:5");
  const auto device = openDouble(kOfAuto);
  const auto object = failingKernel(fakes::elementwise(8), CUDA_ERROR_ECC_UNCORRECTABLE);
  ASSERT_TRUE(object.ok());
  const auto kernel = device->link(*object);
  auto x = device->allocate(32), y = device->allocate(32);
  void* const tensors[] = {*x, *y};
  ASSERT_TRUE((*kernel)->launch({tensors}).ok());
  EXPECT_FALSE(device->synchronize().ok());
  EXPECT_FALSE(open("cuda:5").ok());
  EXPECT_FALSE(cuda->target("cuda:5", 1).ok());
  EXPECT_EQ(cuda->deviceNames().size(), names.size()) << "it is still listed";
}

// Two devices, the first of which can't be used.
class OneOfTwo final : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<std::string> deviceNames() override { return {"cuda:0", "cuda:1"}; }
  Result<std::unique_ptr<Device>> open(const std::string& device, int) override {
    if (device != "cuda:1") return Error{"open device", device + " is lost.", device, {}};
    return openDouble(kWell);
  }
  Result<Target> target(const std::string& device, int) override {
    NF_TRY(const auto opened, open(device, 1));
    return opened->target();
  }
  Result<std::unique_ptr<Compiler>> compiler(const Target&) override {
    return std::unique_ptr<Compiler>(std::make_unique<HostCompiler>());
  }
};

TEST(Devices, AutoTakesTheFirstThatCanBeUsed) {
  BackendRegistry registry;
  registry.add("cuda", [](std::uint32_t) -> Backend* {
    static OneOfTwo backend;
    return &backend;
  });
  const DeviceContextOptions options{.compileWorkers = 0, .measures = false, .records = "none"};
  EXPECT_TRUE(DeviceContext::open(registry, options).ok());
  DeviceContextOptions first = options;
  first.device = "cuda:0";
  EXPECT_FALSE(DeviceContext::open(registry, first).ok());
}

// ---------------------------------------------------------------- training

// The loop's counters and ping-pong buffers are part of a step's graph.
constexpr const char* kRecurrent = R"(
param U[6, 6] = normal(0, 0.4)
param x[3, 6] = normal(0, 1)
const h[6] = 0
for t in 0..3 { h[i] = tanh(x[t, i] + sum[k] U[i, k] * h[k]) }
loss L = mean[i] (h[i] - 0.3)^2
train L { steps = 30; optimizer = sgd(lr=0.1); mode = static; seed = 3 }
)";

constexpr const char* kQuadratic = R"(
param W[5] = normal(0, 1)
loss L = mean[i] (W[i] - 2)^2
train L { steps = 40; optimizer = sgd(lr=0.05); mode = static; seed = 3 }
)";

std::unique_ptr<DeviceContext> onDouble(int number) {
  return DeviceContext::of(openDouble(number), std::make_unique<HostCompiler>(), nullptr);
}

struct Trained {
  Result<TrainSummary> summary = Error{};
  std::vector<protocol::Message> messages;
  std::map<std::string, HostTensor> weights;
  std::vector<std::string> warnings() const {
    std::vector<std::string> found;
    for (const auto& m : messages)
      if (const auto* w = std::get_if<protocol::WarningEvent>(&m)) found.push_back(w->message);
    return found;
  }
};

Trained train(DeviceContext& context, TrainOptions options, const char* text) {
  Trained t;
  options.source = {"test.nf", "", text};
  TrainJob job(context, std::move(options), [&](const protocol::Message& m) { t.messages.push_back(m); });
  t.summary = job.run({});
  t.weights = job.weights(1 << 20);
  return t;
}

std::unique_ptr<DeviceContext> interpreter() {
  BackendRegistry none;
  return std::move(*openHostDevice(none, {.device = "cuda:0"}));
}

void expectNear(const std::map<std::string, HostTensor>& want, const std::map<std::string, HostTensor>& got) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, value] : want)
    for (std::int64_t i = 0; i < value.elements(); ++i) EXPECT_NEAR(got.at(name).at(i), value.at(i), 2e-4) << name << " " << i;
}

TEST(Training, EveryStepButTheFirstIsAGraph) {
  driver_double::reset();
  const auto context = onDouble(kWell);
  const auto want = train(*interpreter(), {}, kRecurrent), got = train(*context, {}, kRecurrent);
  ASSERT_TRUE(got.summary.ok()) << got.summary.error().message << " " << got.summary.error().detail;
  ASSERT_TRUE(want.summary.ok());
  EXPECT_NEAR(*got.summary->done.loss, *want.summary->done.loss, 1e-4);
  expectNear(want.weights, got.weights);
  EXPECT_EQ(context->device().recorder()->counts().replayed, 29);
  EXPECT_EQ(context->device().recorder()->counts().built, 2);
}

// Kernels that one step takes, as the double counts them.
std::int64_t kernelsOfAStep(const char* text) {
  driver_double::reset();
  TrainOptions one;
  one.steps = 1;
  EXPECT_TRUE(train(*onDouble(kWell), one, text).summary.ok());
  const std::int64_t kernels = driver_double::counts().kernels;
  EXPECT_GT(kernels, 0);
  return kernels;
}

TEST(Training, ALostDeviceCostsTheStepsSinceTheNewestValuesOfTheHost) {
  const std::int64_t each = kernelsOfAStep(kQuadratic);
  const auto want = train(*interpreter(), {}, kQuadratic);
  const fakes::Folder folder;
  driver_double::loseAfter(kOfTraining, 24 * each + each / 2, CUDA_ERROR_ILLEGAL_ADDRESS);  // within step 25
  const auto context = onDouble(kOfTraining);
  TrainOptions options;
  options.outputRoot = folder.path("test.nf.out");
  // After the first step and then, as it takes its time, now and again.
  options.checkpointSeconds = 1e-9;
  options.standIn = [] { return Result<std::unique_ptr<DeviceContext>>(interpreter()); };
  const auto got = train(*context, options, kQuadratic);
  ASSERT_TRUE(got.summary.ok()) << got.summary.error().message << " " << got.summary.error().detail;
  ASSERT_TRUE(context->device().lost());
  EXPECT_EQ(got.summary->done.steps, 40);
  expectNear(want.weights, got.weights);
  ASSERT_EQ(got.warnings().size(), 1u);
  EXPECT_THAT(got.warnings()[0], HasSubstr("The device cuda:2 is lost"));
  EXPECT_THAT(got.warnings()[0], HasSubstr("an illegal memory access was encountered"));
  EXPECT_THAT(got.warnings()[0], HasSubstr("Training continues on reference"));
  EXPECT_THAT(got.warnings()[0], HasSubstr("checkpoint.safetensors"));
  // What is said agrees with what was done: the rows of the steps that were made again follow on one another.
  const auto rows = readSteps(got.summary->folder + "/steps.bin");
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->back().step, 40);
  std::int64_t kept = 24;
  for (std::size_t i = 1; i < rows->size(); ++i)
    if ((*rows)[i].step <= (*rows)[i - 1].step) kept = (*rows)[i].step - 1;
  EXPECT_THAT(got.warnings()[0], HasSubstr("from step " + std::to_string(kept) + ","));
  EXPECT_EQ(readCheckpoint(got.summary->checkpoint)->step, 40);
}

TEST(Training, WithoutValuesOnTheHostItBeginsAnew) {
  const std::int64_t each = kernelsOfAStep(kQuadratic);
  const auto want = train(*interpreter(), {}, kQuadratic);
  driver_double::loseAfter(kOfYoungTraining, 6 * each, CUDA_ERROR_ECC_UNCORRECTABLE);
  const auto context = onDouble(kOfYoungTraining);
  TrainOptions options;
  options.checkpointSeconds = 0;
  options.standIn = [] { return Result<std::unique_ptr<DeviceContext>>(interpreter()); };
  const auto got = train(*context, options, kQuadratic);
  ASSERT_TRUE(got.summary.ok()) << got.summary.error().message << " " << got.summary.error().detail;
  expectNear(want.weights, got.weights);
  ASSERT_EQ(got.warnings().size(), 1u);
  EXPECT_THAT(got.warnings()[0], HasSubstr("the host has no others; steps 1 to 6 are lost and made again"));
}

TEST(Training, WhatCannotGoOnElsewhereEndsWithTheDevicesWords) {
  const std::int64_t each = kernelsOfAStep(kQuadratic);
  driver_double::loseAfter(kOfReplay, 3 * each, CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto context = onDouble(kOfReplay);
  const auto got = train(*context, {}, kQuadratic);
  ASSERT_FALSE(got.summary.ok());
  EXPECT_THAT(got.summary.error().message, HasSubstr("cuda:4"));
  EXPECT_TRUE(got.warnings().empty());
}

}  // namespace
}  // namespace nf::test
