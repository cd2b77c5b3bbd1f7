// SPDX-License-Identifier: Apache-2.0
// Steps as CUDA graphs, on the driver double.
#include "plugins/cuda/graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/device/reference_backend.h"
#include "core/runtime/executable.h"
#include "core/runtime/initialize.h"
#include "plugins/cuda/device.h"
#include "tests/cuda/host_run.h"
#include "tests/cuda_driver/double/double.h"
#include "tests/cuda_driver/machine.h"
#include "tests/runtime/program_builder.h"

namespace nf::test {
namespace {

using namespace testing_programs;

// w' = 0.5 w + x + noise, or without noise;  loss = mean (w - x)^2. The weight and the count have two buffers each, which change places.
Program small(bool noisy = true) {
  Program p;
  const TensorId x = testing_programs::tensor(p, "x", TensorKind::Input, {70}, Initializer::Kind::Normal, {0, 1});
  const TensorId w = testing_programs::tensor(p, "w", TensorKind::Param, {70}, Initializer::Kind::Constant, {3});
  const TensorId n = testing_programs::tensor(p, "n", TensorKind::State, {}, Initializer::Kind::Constant, {0});
  const ExprId noise = noisy ? p.random(5, IndexExpr::variable(IndexVar(0))) : p.constant(0.25);
  const ExprId half = p.binary(ScalarOp::Mul, read(p, w), p.constant(0.5));
  const TensorId next = elementwise(p, "w.next", w, p.binary(ScalarOp::Add, p.binary(ScalarOp::Add, half, read(p, x)), noise));
  const TensorId counted = elementwise(p, "n.next", n, p.binary(ScalarOp::Add, read(p, n), p.constant(1)));
  const ExprId off = p.binary(ScalarOp::Sub, read(p, w), read(p, x));
  const TensorId loss = meanOf(p, "loss", w, p.binary(ScalarOp::Mul, off, off));
  p.updates = {{w, next, {}}, {n, counted, {}}};
  p.outputs.push_back({"loss", loss, OutputRole::Loss});
  return p;
}

// A program on a device, with the values of its initializers.
struct Trained {
  Trained(std::unique_ptr<Device> d, Compiler& compiler, const Program& program)
      : device(std::move(d)), store(std::make_shared<TensorStore>(*device)) {
    PlanOptions options;
    options.doubles = device->storesDoubles();
    auto plan = planExecution(program, options);
    EXPECT_TRUE(plan.ok());
    executable = std::move(*Executable::create(*plan, *device, store));
    const auto linked = linkInProcess(*executable, compiler);
    EXPECT_TRUE(linked.ok()) << (linked.ok() ? "" : linked.error().message + linked.error().detail);
    for (std::size_t t = 0; t < program.tensors.size(); ++t)
      if (TensorStore::Entry* entry = executable->entry(TensorId(t)); entry && !entry->written) {
        EXPECT_TRUE(store->write(*entry, *initialValue(program.tensors[t], 1, "")).ok());
      }
  }
  // Another batch each step: what changes goes through memory.
  double step(std::uint64_t number) {
    const TensorId x = executable->program().tensorNamed("x");
    HostTensor batch = HostTensor::make(DType::F32, executable->program()[x].shape);
    for (std::int64_t i = 0; i < batch.elements(); ++i)
      batch.set(i, std::sin(static_cast<double>(number * 100) + static_cast<double>(i)));
    EXPECT_TRUE(store->write(*executable->entry(x), batch).ok());
    const auto ran = executable->run(9, number);
    EXPECT_TRUE(ran.ok()) << (ran.ok() ? "" : ran.error().message + ran.error().detail);
    const auto loss = executable->scalar(executable->program().outputs[0].tensor);
    EXPECT_TRUE(loss.ok());
    EXPECT_TRUE(executable->applyUpdates().ok());
    return loss.ok() ? *loss : NAN;
  }
  std::unique_ptr<Device> device;
  std::shared_ptr<TensorStore> store;
  std::unique_ptr<Executable> executable;
};

class Graphs : public ::testing::Test {
 protected:
  void SetUp() override { driver_double::reset(); }
  std::unique_ptr<Trained> onReference(const Program& p) {
    auto device = std::move(*referenceBackend(kPluginVersion)->open("reference:f64", 1));
    const auto compiler = std::move(*referenceBackend(kPluginVersion)->compiler(device->target()));
    return std::make_unique<Trained>(std::move(device), *compiler, p);
  }
  std::unique_ptr<Trained> onDouble(const Program& p) { return std::make_unique<Trained>(openDouble(0), host, p); }

  HostCompiler host;
};

void expectNear(double want, double got) { EXPECT_NEAR(got, want, 1e-5 * (1 + std::fabs(want))); }

TEST_F(Graphs, StepsAreReplayedAndEqualTheReference) {
  const Program p = small();
  const auto want = onReference(p), got = onDouble(p);
  for (std::uint64_t s = 0; s < 7; ++s) expectNear(want->step(s), got->step(s));
  const auto n = got->executable->read(p.tensorNamed("n"));
  ASSERT_TRUE(n.ok());
  EXPECT_EQ(n->at(0), 7);
  // The first step goes launch by launch; each of the two sets of buffers gets a graph.
  const auto counts = got->device->recorder()->counts();
  EXPECT_EQ(counts.built, 2);
  EXPECT_EQ(counts.changed, 0);
  EXPECT_EQ(counts.replayed, 6);
  EXPECT_EQ(driver_double::counts().graphLaunches, 6);
  EXPECT_EQ(driver_double::counts().kernels, 7 * driver_double::counts().streamLaunches);
}

// Seed and step are told to steps that draw numbers by them; the others' only copy is the batch.
TEST_F(Graphs, AStepWithoutRandomNumbersIsNotToldItsNumber) {
  for (const bool noisy : {true, false}) {
    driver_double::reset();
    const Program p = small(noisy);
    const auto want = onReference(p), got = onDouble(p);
    std::uint64_t s = 0;
    for (; s < 4; ++s) expectNear(want->step(s), got->step(s));
    const std::int64_t before = driver_double::counts().copiesIn;
    for (; s < 8; ++s) expectNear(want->step(s), got->step(s));
    EXPECT_EQ(driver_double::counts().copiesIn - before, noisy ? 8 : 4);
  }
}

TEST_F(Graphs, ASwappedKernelChangesItsNodesAlone) {
  const Program p = small();
  const auto want = onReference(p), got = onDouble(p);
  std::uint64_t s = 0;
  for (; s < 4; ++s) expectNear(want->step(s), got->step(s));
  const std::size_t modules = static_cast<std::size_t>(driver_double::alive().modules);
  // The same kernel compiled and linked anew is another function of the driver's.
  Executable& x = *got->executable;
  const auto object = host.compile({*x.plan().subgraphs[0].program, {"reference", nullptr}, {}});
  ASSERT_TRUE(object.ok());
  auto kernel = std::make_shared<LinkedKernel>();
  kernel->kernel = std::move(*got->device->link(*object));
  kernel->workspaceBytes = object->workspaceBytes;
  ASSERT_TRUE(x.setKernel(0, kernel).ok());
  for (; s < 8; ++s) expectNear(want->step(s), got->step(s));
  const auto counts = got->device->recorder()->counts();
  EXPECT_EQ(counts.built, 2) << "no graph is made anew";
  const auto calls = static_cast<std::int64_t>(x.plan().subgraphs[0].callsPerStep);
  EXPECT_EQ(counts.changed, 2 * calls * static_cast<std::int64_t>(object->stages.size())) << "its stages in each of the two graphs";
  EXPECT_EQ(counts.replayed, 7);
  EXPECT_EQ(static_cast<std::size_t>(driver_double::alive().modules), modules) << "the old one went when no graph had it any more";
}

TEST_F(Graphs, AChangeThatTheDriverRefusesIsAGraphAnew) {
  const Program p = small();
  const auto want = onReference(p), got = onDouble(p);
  std::uint64_t s = 0;
  for (; s < 4; ++s) expectNear(want->step(s), got->step(s));
  driver_double::refuseChanges(true);
  const auto object = host.compile({*got->executable->plan().subgraphs[0].program, {"reference", nullptr}, {}});
  ASSERT_TRUE(object.ok());
  auto kernel = std::make_shared<LinkedKernel>();
  kernel->kernel = std::move(*got->device->link(*object));
  kernel->workspaceBytes = object->workspaceBytes;
  ASSERT_TRUE(got->executable->setKernel(0, kernel).ok());
  for (; s < 8; ++s) expectNear(want->step(s), got->step(s));
  EXPECT_EQ(got->device->recorder()->counts().built, 4);
  EXPECT_EQ(got->device->recorder()->counts().replayed, 7);
}

TEST_F(Graphs, WithoutRoomForAGraphStepsAreLaunched) {
  const Program p = small();
  const auto want = onReference(p), got = onDouble(p);
  driver_double::refuseGraphs(true);
  for (std::uint64_t s = 0; s < 4; ++s) expectNear(want->step(s), got->step(s));
  EXPECT_EQ(got->device->recorder()->counts().replayed, 0);
  EXPECT_EQ(got->device->recorder()->counts().built, 1) << "not tried again with the same kernels";
  EXPECT_FALSE(got->device->lost());
}

TEST_F(Graphs, WhatIsTimedIsLaunchedByItself) {
  const auto got = onDouble(small());
  for (auto& watch : got->executable->watches()) watch.on = true;
  for (std::uint64_t s = 0; s < 3; ++s) got->step(s);
  EXPECT_EQ(got->device->recorder()->counts().replayed, 0);
  EXPECT_GT(got->executable->watches()[0].calls, 0);
  for (auto& watch : got->executable->watches()) watch.on = false;
  for (std::uint64_t s = 3; s < 6; ++s) got->step(s);
  EXPECT_GT(got->device->recorder()->counts().replayed, 0);
}

TEST_F(Graphs, NothingStaysBehind) {
  const driver_double::Alive before = driver_double::alive();
  {
    const auto got = onDouble(small());
    for (std::uint64_t s = 0; s < 4; ++s) got->step(s);
    EXPECT_EQ(driver_double::alive().executables, 2);
  }
  EXPECT_EQ(driver_double::alive(), before);
}

TEST_F(Graphs, WhatNoGraphHoldsIsRefusedWhileOneIsRecorded) {
  const auto device = openDouble(0);
  auto memory = device->allocate(64);
  ASSERT_TRUE(memory.ok());
  std::byte host[64] = {};
  ASSERT_TRUE(device->recorder()->begin().ok());
  EXPECT_FALSE(device->copyIn(*memory, host, 64).ok());
  EXPECT_FALSE(device->copyOut(host, *memory, 64).ok());
  EXPECT_FALSE(device->synchronize().ok());
  EXPECT_FALSE(device->allocate(64).ok());
  device->recorder()->discard();
  EXPECT_TRUE(device->copyIn(*memory, host, 64).ok());
  EXPECT_TRUE(device->synchronize().ok());
  device->release(*memory);
}

// ---------------------------------------------------------------- nodes of every kind

struct Bench {
  const cuda::Driver& d = **cuda::Driver::get();
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  CUmodule module = nullptr;
  CUfunction add = nullptr, twice = nullptr;

  Bench() {
    driver_double::reset();
    d.contextRetain(&context, 0);
    d.contextSet(context);
    d.streamCreate(&stream, CU_STREAM_NON_BLOCKING);
    d.allocate(&memory, 64);
    const auto code = hostModuleOf(
        "extern \"C\" {\nextern const unsigned long add_bytes[], twice_bytes[];\n"
        "const unsigned long add_bytes[] = {8, 4, 0}, twice_bytes[] = {8, 4, 0};\n"
        "int add(void** p, unsigned, unsigned) { **(unsigned char**)p[0] += *(unsigned*)p[1]; return 0; }\n"
        "int twice(void** p, unsigned, unsigned) { **(unsigned char**)p[0] *= *(unsigned*)p[1]; return 0; }\n}\n");
    EXPECT_TRUE(code.ok());
    EXPECT_EQ(d.moduleLoad(&module, code->data()), CUDA_SUCCESS);
    EXPECT_EQ(d.moduleFunction(&add, module, "add"), CUDA_SUCCESS);
    EXPECT_EQ(d.moduleFunction(&twice, module, "twice"), CUDA_SUCCESS);
  }
  ~Bench() {
    d.moduleUnload(module);
    d.release(memory);
    d.streamDestroy(stream);
    d.contextRelease(0);
  }
  cuda::GraphNode launch(CUfunction function, unsigned operand, bool cooperative = false) const {
    cuda::LaunchParameters parameters;
    parameters.add(memory);
    parameters.add(operand);
    return cuda::GraphNode::launch(function, {1, 32, 0, cooperative}, parameters);
  }
  std::pair<int, int> bytes() const {
    unsigned char at[64] = {};
    d.copyOut(at, memory, 64, stream);
    d.streamSynchronize(stream);
    return {at[0], at[32]};
  }
};

TEST(Graph, NodesOfEveryKindRunInOrderAndChangeInPlace) {
  const Bench b;
  {
    cuda::Graph graph(b.d, b.context, b.stream);
    // 3, doubled, plus 4, copied behind.
    std::vector<cuda::GraphNode> nodes{cuda::GraphNode::fill(b.memory, 3, 1), b.launch(b.twice, 2), b.launch(b.add, 4),
                                       cuda::GraphNode::copy(b.memory + 32, b.memory, 1)};
    ASSERT_EQ(graph.set(nodes), CUDA_SUCCESS);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    EXPECT_EQ(b.bytes(), std::pair(10, 10));
    ASSERT_EQ(graph.set(nodes), CUDA_SUCCESS);
    EXPECT_EQ(graph.updates(), 0) << "the same again";

    nodes[0] = cuda::GraphNode::fill(b.memory, 5, 1);
    nodes[1] = b.launch(b.add, 1);
    nodes[3] = cuda::GraphNode::copy(b.memory + 33, b.memory, 1);
    ASSERT_EQ(graph.set(nodes), CUDA_SUCCESS);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    EXPECT_EQ(b.bytes(), std::pair(10, 10)) << "5 + 1 + 4; the byte copied before stays";
    EXPECT_EQ(graph.builds(), 1);
    EXPECT_EQ(graph.updates(), 3);

    nodes.erase(nodes.begin() + 2);
    ASSERT_EQ(graph.set(nodes), CUDA_SUCCESS);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    EXPECT_EQ(b.bytes().first, 6);
    EXPECT_EQ(graph.builds(), 2) << "another number of nodes is another graph";
  }
  EXPECT_EQ(driver_double::alive().executables, 0);
  EXPECT_EQ(driver_double::alive().graphs, 0);
}

TEST(Graph, ACooperativeLaunchIsAnAttributeOfItsNode) {
  const Bench b;
  cuda::Graph graph(b.d, b.context, b.stream);
  ASSERT_EQ(graph.set({cuda::GraphNode::fill(b.memory, 1, 1), b.launch(b.add, 1, true)}), CUDA_SUCCESS);
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  EXPECT_EQ(b.bytes().first, 2);
  EXPECT_EQ(driver_double::counts().together, 1);
  // A node keeps the attribute whatever is set: an ordinary kernel in its place needs a graph anew.
  ASSERT_EQ(graph.set({cuda::GraphNode::fill(b.memory, 1, 1), b.launch(b.add, 7)}), CUDA_SUCCESS);
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  EXPECT_EQ(b.bytes().first, 8);
  EXPECT_EQ(driver_double::counts().together, 1);
  EXPECT_EQ(graph.builds(), 2);
}

// A launch that is queued runs as the nodes were then.
TEST(Graph, AChangeIsForLaterLaunches) {
  const Bench b;
  cuda::Graph graph(b.d, b.context, b.stream);
  ASSERT_EQ(graph.set({cuda::GraphNode::fill(b.memory, 1, 1), cuda::GraphNode::copy(b.memory + 32, b.memory, 1)}), CUDA_SUCCESS);
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  ASSERT_EQ(graph.set({cuda::GraphNode::fill(b.memory, 2, 1), cuda::GraphNode::copy(b.memory + 34, b.memory, 1)}), CUDA_SUCCESS);
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  EXPECT_EQ(b.bytes(), std::pair(2, 1));
}

}  // namespace
}  // namespace nf::test
