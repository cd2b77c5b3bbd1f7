// SPDX-License-Identifier: Apache-2.0
// Matrix units as they are asked for by hand, and shared memory that the launch gives: cubins by both generators, and the text run on this
// machine.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/schedule/lower.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/plugin.h"
#include "tests/cuda/host_calls.h"
#include "tests/cuda/module_run.h"
#include "tests/gpu/gpu_cases.h"
#include "tests/kernel_cases.h"

namespace nf::test {
namespace {

struct UnitCase {
  std::string name;
  Program program;
  nlohmann::json knobs;
  std::string instruction;             // in PTX
  std::string architecture = "sm_80";  // the first that has it
};

std::vector<UnitCase> unitCases() {
  const nlohmann::json tile{{"block_m", 64}, {"block_n", 64}, {"block_k", 32}, {"thread_m", 4}, {"thread_n", 8}, {"stages", 2}};
  const auto with = [&](nlohmann::json more) {
    nlohmann::json knobs = tile;
    knobs.update(more);
    return knobs;
  };
  const auto warpgroups = [](int blockN, int stages, int pipeline) {
    return nlohmann::json{{"block_m", 128},         {"block_n", blockN}, {"block_k", 64},     {"thread_m", 2},
                          {"thread_n", blockN / 4}, {"stages", stages},  {"matrix", "wgmma"}, {"pipeline", pipeline}};
  };
  Builder b;
  const TensorId x = b.input("A", {100, 72}, DType::BF16), y = b.input("B", {80, 100}, DType::BF16);
  b.output(b.op("C", {72, 80}, {100}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.at(x, {v[2], v[0]}), b.at(y, {v[1], v[2]}));
  }));
  const Program& turned = b.p;
  const Program full = gemm(72, 70, 100), half = gemm(72, 80, 100, DType::F16, DType::F16);
  const Program mixed = gemm(72, 80, 100, DType::F16, DType::BF16);
  const auto tf32 = [&](nlohmann::json knobs, nlohmann::json more) {
    knobs["block_k"] = 32;
    knobs.update(more);
    return knobs;
  };
  const auto engine = [](nlohmann::json knobs) {
    knobs["copies"] = "tma";
    return knobs;
  };
  // Rows begin at 16 bytes.
  const Program rows = gemm(72, 80, 104, DType::F16, DType::F16);
  Builder alongBuilder, batchesBuilder;
  {
    Builder& of = alongBuilder;
    const TensorId a = of.input("A", {72, 100}), c = of.input("B", {84, 100});
    of.output(of.op("C", {72, 84}, {100}, Reducer::Sum, [&](const auto& v) {
      return of.p.binary(ScalarOp::Mul, of.at(a, {v[0], v[2]}), of.at(c, {v[1], v[2]}));
    }));
  }
  {
    Builder& of = batchesBuilder;
    const TensorId a = of.input("A", {2, 200, 72}, DType::BF16), c = of.input("B", {2, 200, 136}, DType::BF16);
    of.output(of.op("C", {2, 72, 136}, {200}, Reducer::Sum, [&](const auto& v) {
      return of.p.binary(ScalarOp::Mul, of.at(a, {v[0], v[3], v[1]}), of.at(c, {v[0], v[3], v[2]}));
    }));
  }
  const Program &along = alongBuilder.p, &batches = batchesBuilder.p;
  return {{"tf32", full, with({{"matrix", "tf32"}, {"precision", "tf32"}}), "mma.sync.aligned.m16n8k8.row.col.f32.tf32"},
          {"fragments", half, with({{"matrix", "mma16816"}, {"fragments", 1}}), "mma.sync.aligned.m16n8k16"},
          {"three levels", half, with({{"matrix", "mma16816"}, {"pipeline", 3}, {"stages", 3}}), "mma.sync.aligned.m16n8k16"},
          {"three levels of tf32", full, with({{"matrix", "tf32"}, {"precision", "tf32"}, {"pipeline", 3}}),
           "mma.sync.aligned.m16n8k8.row.col.f32.tf32"},
          {"large slices", half, with({{"matrix", "mma16816"}, {"block_m", 128}, {"block_n", 128}, {"block_k", 64}, {"stages", 3}}),
           ".extern .shared"},
          {"warpgroups", half, warpgroups(64, 2, 2), "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "sm_90"},
          {"warpgroups ahead", turned, warpgroups(128, 4, 3), "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "sm_90"},
          {"wide warpgroups", half, warpgroups(256, 3, 3), "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", "sm_90"},
          {"warpgroups of tf32", mixed, tf32(warpgroups(64, 2, 2), nlohmann::json::object()),
           "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", "sm_90"},
          {"warpgroups that round", full, tf32(warpgroups(128, 3, 3), {{"precision", "tf32"}}),
           "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32", "sm_90"},
          {"wide warpgroups that round", full, tf32(warpgroups(256, 3, 3), {{"precision", "tf32"}}),
           "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32", "sm_90"},
          {"the copy engine", rows, engine(warpgroups(64, 2, 2)),
           "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", "sm_90"},
          {"the copy engine ahead", batches, engine(warpgroups(128, 4, 3)),
           "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes", "sm_90"},
          {"the copy engine, one buffer", rows, engine(warpgroups(64, 1, 2)), "mbarrier.try_wait.parity.shared::cta.b64", "sm_90"},
          {"the copy engine rounds", along, engine(tf32(warpgroups(64, 3, 3), {{"precision", "tf32"}})),
           "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", "sm_90"}};
}

TEST(CudaUnits, CompileToTheInstructions) {
  for (const char* architecture : {"sm_80", "sm_90"}) {
    auto compiler = neoflowCudaPlugin(kPluginVersion)->compiler(*cuda::nominalTarget(architecture));
    ASSERT_TRUE(compiler.ok()) << compiler.error().message;
    for (const UnitCase& c : unitCases()) {
      if (c.architecture > architecture) continue;
      const auto object = (*compiler)->compile({c.program, scheduled(c.knobs.dump()), {"ptx"}});
      ASSERT_TRUE(object.ok()) << c.name << ": " << object.error().message << "\n" << object.error().detail;
      const std::string& ptx = object->texts.at("ptx").text;
      EXPECT_NE(ptx.find(c.instruction), std::string::npos) << c.name;
      EXPECT_EQ(ptx.find(".local"), std::string::npos) << c.name;
    }
  }
}

TEST(CudaUnits, EqualTheInterpreterBitForBit) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  InterpretedCalls calls;
  for (const UnitCase& c : unitCases())
    ASSERT_NO_FATAL_FAILURE(calls.add(c.name + ", seed " + std::to_string(seed), c.program, scheduled(c.knobs.dump()),
                                      *cuda::nominalTarget(c.architecture), rng));
  calls.runAndCompare();
}

// Beyond 48 KB a block's slices are the launch's; both generators lay them the same way and get the same results.
TEST(CudaShared, TheLaunchGivesWhatAKernelCannotDeclare) {
  const Target target = *cuda::nominalTarget("sm_90");
  nlohmann::json knobs{{"block_m", 128}, {"block_n", 128}, {"block_k", 32}, {"thread_m", 8}, {"thread_n", 8}, {"stages", 4}};
  const Program p = gemm(130, 70, 100);
  const auto compiler = neoflowCudaPlugin(kPluginVersion)->compiler(target);
  ASSERT_TRUE(compiler.ok());
  for (const char* generator : {"nvrtc", "llvm"}) {
    nlohmann::json own = knobs;
    if (std::string(generator) == "llvm") own["generator"] = generator;
    const auto object = (*compiler)->compile({p, scheduled(own.dump()), {"ptx"}});
    ASSERT_TRUE(object.ok()) << generator << ": " << object.error().message << "\n" << object.error().detail;
    EXPECT_EQ(object->generator, generator);
    EXPECT_EQ(object->stages.at(0).sharedBytes, 4 * 32 * (132 + 128) * 4) << generator;
    EXPECT_NE(object->texts.at("ptx").text.find(".extern .shared"), std::string::npos) << generator;
  }
  knobs["stages"] = 1;
  const auto small = (*compiler)->compile({p, scheduled(knobs.dump()), {"ptx"}});
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->stages.at(0).sharedBytes, 0);
  EXPECT_EQ(small->texts.at("ptx").text.find(".extern .shared"), std::string::npos);
}

TEST(CudaShared, BothGeneratorsAgreeOnWhatTheLaunchGives) {
  std::mt19937_64 rng(3);
  const Target target = *cuda::nominalTarget("sm_90");
  const Program p = gemm(130, 70, 100);
  const auto function =
      lower(p, scheduled(R"({"block_m":128,"block_n":128,"block_k":32,"thread_m":8,"thread_n":8,"stages":4})"), target);
  ASSERT_TRUE(function.ok()) << function.error().message;
  const auto inputs = randomInputs(p, rng);
  std::vector<HostCall> calls(2, callOf(p, *function, inputs));
  auto emitted = cuda::emit(*function);
  ASSERT_TRUE(emitted.ok()) << emitted.error().message;
  calls[0].emitted = std::move(*emitted);
  auto object = moduleForHost(*function, "sm_90", "llvm_");
  ASSERT_TRUE(object.ok()) << object.error().message << "\n" << object.error().detail;
  calls[1].object = std::move(*object);
  const auto ran = runOnHost(calls);
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << ran.error().detail;
  EXPECT_EQ(calls[0].outputs[0].values, calls[1].outputs[0].values);
  const auto want = interpretedOutputs(p, *function, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  EXPECT_EQ(calls[0].outputs[0].values, want->front());  // the sums are exact
}

}  // namespace
}  // namespace nf::test
