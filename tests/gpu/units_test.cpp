// SPDX-License-Identifier: Apache-2.0
// What matrix units are asked for by hand: tf32 for operands in f32, fragments held, levels of the pipeline; and the shared memory of a block.
#include <gtest/gtest.h>

#include <optional>

#include <nlohmann/json.hpp>

#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "tests/gpu/gpu_cases.h"

namespace nf::test {
namespace {

Schedule with(const Schedule& s, const nlohmann::json& changes) {
  nlohmann::json knobs = *s.knobs;
  for (const auto& [name, value] : changes.items()) knobs[name] = value;
  return {s.kind, std::make_shared<const nlohmann::json>(std::move(knobs))};
}

// A random schedule of the space with these knobs; nullopt: none was found.
std::optional<Schedule> randomWith(const ScheduleSpace& space, const nlohmann::json& changes, std::mt19937_64& rng) {
  for (int attempt = 0; attempt < 2000; ++attempt) {
    const Schedule s = with(space.random(rng), changes);
    if (space.check(s)) return s;
  }
  return std::nullopt;
}

std::string compared(const Program& p, const Schedule& schedule, const Target& target, std::mt19937_64& rng) {
  const TensorValues inputs = randomInputs(p, rng);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  const std::string result = compareLoops(p, schedule, target, inputs, reference->run(inputs, 7, 3, {}), {});
  return result.empty() ? result : result + "\n" + schedule.text();
}

const nlohmann::json kTf32{{"matrix", "tf32"}, {"precision", "tf32"}};

// A[m, k] * B[k, n], either of them turned, of random extents.
Program product(std::mt19937_64& rng, DType left, DType right) {
  const auto extent = [&] {
    return rng() % 2 == 0 ? 8 * static_cast<std::int64_t>(2 + rng() % 6) : static_cast<std::int64_t>(9 + rng() % 60);
  };
  const std::int64_t m = extent(), n = extent(), k = extent();
  const bool turnLeft = rng() % 2 == 0, turnRight = rng() % 2 == 0;
  Builder b;
  const TensorId x = b.input("A", turnLeft ? std::vector{k, m} : std::vector{m, k}, left);
  const TensorId y = b.input("B", turnRight ? std::vector{n, k} : std::vector{k, n}, right);
  b.output(b.op("C", {m, n}, {k}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, turnLeft ? b.at(x, {v[2], v[0]}) : b.at(x, {v[0], v[2]}),
                      turnRight ? b.at(y, {v[1], v[2]}) : b.at(y, {v[2], v[1]}));
  }));
  return b.p;
}

// The inputs have 8 significant bits: tf32 holds them.
TEST(GpuPrecision, RoundedContractionsEqualTheReferenceWhereNothingIsLost) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 16; ++round) {
    const Program p = product(rng, DType::F32, rng() % 3 == 0 ? DType::F16 : DType::F32);
    const auto schedule = randomWith(**scheduleSpace(p, gpuTarget()), kTf32, rng);
    ASSERT_TRUE(schedule.has_value()) << "seed " << seed << ", round " << round;
    EXPECT_EQ(compared(p, *schedule, gpuTarget(), rng), "") << "seed " << seed << ", round " << round;
  }
}

// 2049 takes 12 bits; tf32 makes 2050 of it.
TEST(GpuPrecision, RoundsToTenBitsBehindThePoint) {
  const Program p = gemm(16, 16, 16);
  const auto results = [&](const char* knobs) {
    const auto loops = lower(p, scheduled(knobs), gpuTarget());
    EXPECT_TRUE(loops.ok()) << loops.error().message;
    std::vector<std::vector<double>> operands{std::vector<double>(256, 2049), std::vector<double>(256, 1),
                                              std::vector<double>(256)};
    EXPECT_TRUE(loop::interpret(*loops, {&operands, {}, 1, 0}));
    return operands.back();
  };
  EXPECT_EQ(
      results(
          R"({"block_m":16,"block_n":16,"block_k":16,"thread_m":2,"thread_n":4,"stages":2,"matrix":"tf32","precision":"tf32"})"),
      std::vector<double>(256, 16 * 2050));
  EXPECT_EQ(results(R"({"block_m":16,"block_n":16,"block_k":16,"thread_m":2,"thread_n":4,"stages":2})"),
            std::vector<double>(256, 16 * 2049));
}

TEST(GpuPrecision, IsNeverChosenByASearch) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const auto space = scheduleSpace(gemm(256, 256, 256), gpuTarget(architecture));
    ASSERT_TRUE(space.ok());
    Schedule a = (*space)->first(), b = (*space)->random(rng);
    for (int round = 0; round < 300; ++round) {
      for (const Schedule& s : {a, b}) EXPECT_FALSE(roundsToTf32(s) || s.knobs->value("matrix", "fma") != "fma") << s.text();
      const Schedule child = (*space)->cross(a, b, rng);
      a = (*space)->mutate(round % 2 == 0 ? child : b, rng);
      b = (*space)->random(rng);
    }
  }
}

TEST(GpuPrecision, MustBeAskedForByName) {
  const Schedule plain =
      scheduled(R"({"block_m":32,"block_n":32,"block_k":32,"thread_m":2,"thread_n":8,"stages":2,"matrix":"tf32"})");
  const auto why = [](const Program& p, const Schedule& s, const char* architecture = "sm_80") {
    const auto checked = (*scheduleSpace(p, gpuTarget(architecture)))->check(s);
    return checked ? std::string() : checked.error().message;
  };
  const Program full = gemm(64, 64, 64), mixed = gemm(64, 64, 64, DType::F16, DType::BF16);
  EXPECT_EQ(why(full, plain), "knob matrix rounds operands in f32 to tf32, which knob precision does not allow");
  EXPECT_EQ(why(full, with(plain, kTf32)), "");
  EXPECT_EQ(why(full, with(plain, kTf32), "sm_75"), "knob matrix cannot be \"tf32\" here; knob precision cannot be \"tf32\" here");
  EXPECT_EQ(why(full, with(plain, {{"matrix", "fma"}, {"precision", "tf32"}})),
            "knob precision rounds for the matrix units tf32 and wgmma alone");
  // f16 and bf16 lose nothing in tf32: there is nothing to allow.
  EXPECT_EQ(why(mixed, plain), "");
  EXPECT_EQ(why(mixed, with(plain, kTf32)), "knob precision cannot be \"tf32\" here");
  EXPECT_TRUE(roundsToTf32(with(plain, kTf32)));
  EXPECT_FALSE(roundsToTf32(plain));
}

// ---------------------------------------------------------------- fragments and levels

TEST(GpuPipeline, FragmentsAndLevelsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const nlohmann::json shapes[] = {{{"fragments", 1}}, {{"fragments", 2}}, {{"fragments", 4}}, {{"pipeline", 3}}};
  for (int round = 0; round < 16; ++round) {
    const bool full = rng() % 3 == 0;
    const Program p = product(rng, full ? DType::F32 : DType::F16, full ? DType::F32 : DType::F16);
    nlohmann::json knobs = shapes[round % 4];
    knobs.update(full ? kTf32 : nlohmann::json{{"matrix", "mma16816"}});
    const auto schedule = randomWith(**scheduleSpace(p, gpuTarget()), knobs, rng);
    ASSERT_TRUE(schedule.has_value()) << knobs << ", seed " << seed << ", round " << round;
    EXPECT_EQ(compared(p, *schedule, gpuTarget(), rng), "") << "seed " << seed << ", round " << round;
  }
}

TEST(GpuPipeline, EveryBarrierAndWaitOfThreeLevelsIsNeeded) {
  for (const int stages : {2, 3})
    everyBarrierIsNeeded(
        gemm(32, 32, 128, DType::F16, DType::F16),
        R"({"block_m":32,"block_n":32,"block_k":32,"thread_m":2,"thread_n":4,"matrix":"mma16816","pipeline":3,"stages":)" +
            std::to_string(stages) + "}");
}

TEST(GpuPipeline, KnobsThatMeanNothingAreRefused) {
  const auto why = [](const std::string& more, DType type = DType::F16) {
    const auto space = scheduleSpace(gemm(64, 64, 64, type, type), gpuTarget());
    const auto checked =
        (*space)->check(scheduled(R"({"block_m":64,"block_n":64,"block_k":32,"thread_m":4,"thread_n":4,)" + more + "}"));
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(why(R"("stages":2,"matrix":"mma16816","fragments":1)"), "");
  EXPECT_EQ(why(R"("stages":2,"matrix":"mma16816","pipeline":3)"), "");
  EXPECT_EQ(why(R"("stages":2,"pipeline":3)"), "knobs fragments and pipeline are of matrix units, which do not multiply here");
  EXPECT_EQ(why(R"("stages":1,"matrix":"mma16816","pipeline":3)"), "knob pipeline of 3 levels needs slices under way");
  EXPECT_EQ(why(R"("stages":2,"matrix":"mma16816","fragments":4)"), "knob fragments divides no warp's of the left operand");
  EXPECT_EQ(why(R"("stages":2,"matrix":"mma16816","fragments":1,"pipeline":3)"),
            "knob pipeline of 3 levels holds all fragments of a warp, knob fragments a part");
}

// ---------------------------------------------------------------- shared memory

TEST(GpuShared, SlicesFillWhatTheDeviceGivesABlock) {
  // (256 + 256) x 64 numbers of two bytes are 64 KB a slice.
  const auto refused = [](const char* architecture, const char* unit, int blockM, int blockN, int stages) {
    const auto space = scheduleSpace(gemm(512, 512, 512, DType::F16, DType::F16), gpuTarget(architecture));
    const nlohmann::json knobs{{"block_m", blockM}, {"block_n", blockN}, {"block_k", 64}, {"thread_m", 8},
                               {"thread_n", 16},    {"stages", stages},  {"matrix", unit}};
    const auto checked = (*space)->check(scheduled(knobs.dump()));
    if (!checked) { EXPECT_EQ(checked.error().message, "the slices of knob stages do not fit the shared memory of a block"); }
    return !checked;
  };
  EXPECT_FALSE(refused("sm_75", "mma1688", 256, 256, 1));
  EXPECT_TRUE(refused("sm_75", "mma1688", 256, 256, 2));
  EXPECT_FALSE(refused("sm_80", "mma16816", 256, 256, 2));
  EXPECT_TRUE(refused("sm_80", "mma16816", 256, 256, 3));
  EXPECT_FALSE(refused("sm_86", "mma16816", 256, 128, 2));
  EXPECT_TRUE(refused("sm_89", "mma16816", 256, 256, 2));
  EXPECT_FALSE(refused("sm_90", "mma16816", 256, 256, 3));
  EXPECT_TRUE(refused("sm_90", "mma16816", 256, 256, 4));
}

TEST(GpuShared, LargeSlicesEqualTheReference) {
  std::mt19937_64 rng(11);
  const Target target = gpuTarget("sm_90");
  const Program p = gemm(20, 24, 200, DType::F16, DType::F16);
  for (const char* matrix : {"fma", "mma16816"}) {
    const nlohmann::json knobs{{"block_m", 64}, {"block_n", 64}, {"block_k", 64},   {"thread_m", 8},
                               {"thread_n", 8}, {"stages", 4},   {"matrix", matrix}};
    EXPECT_EQ(compared(p, scheduled(knobs.dump()), target, rng), "");
  }
}

}  // namespace
}  // namespace nf::test
